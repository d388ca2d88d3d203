/**
 * The errors of the port: one tag for each reaction a caller can have. Each carries the request (without its body), the
 * server's `Status` when there was one, and the cause. Messages are computed and never hold a body, a token or a
 * certificate.
 *
 * @module
 */
import { Data, Schema } from "effect"
import * as KubeRequest from "./KubeRequest.js"

/** One entry of `Status.details.causes`. */
export const StatusCause = Schema.Struct({
  reason: Schema.optional(Schema.String),
  message: Schema.optional(Schema.String),
  field: Schema.optional(Schema.String)
})

/** The `Status` object with which an API server answers failures (`meta/v1`). */
export const Status = Schema.Struct({
  kind: Schema.Literal("Status"),
  apiVersion: Schema.optional(Schema.String),
  metadata: Schema.optional(
    Schema.NullOr(
      Schema.Struct({ continue: Schema.optional(Schema.String), resourceVersion: Schema.optional(Schema.String) })
    )
  ),
  status: Schema.optional(Schema.String),
  message: Schema.optional(Schema.String),
  reason: Schema.optional(Schema.String),
  details: Schema.optional(
    Schema.NullOr(
      Schema.Struct({
        name: Schema.optional(Schema.String),
        group: Schema.optional(Schema.String),
        kind: Schema.optional(Schema.String),
        uid: Schema.optional(Schema.String),
        causes: Schema.optional(Schema.NullOr(Schema.Array(StatusCause))),
        retryAfterSeconds: Schema.optional(Schema.Number)
      })
    )
  ),
  code: Schema.optional(Schema.Number)
})
/** See the schema of the same name. */
export type Status = typeof Status.Type

/** Whether a value is a `Status` object. */
export const isStatus: (value: unknown) => value is Status = Schema.is(Status)

/** What every port error carries. */
export interface Context {
  readonly request: KubeRequest.KubeRequest
  readonly status?: Status | undefined
  readonly cause?: unknown
}

// A 422 repeats the offending value, which can be a whole object with env values in it:
// https://kubernetes.io/docs/reference/using-api/api-concepts/ (field errors print "Invalid value: <json>")
const valueShown = /(Invalid value: )(["'`]?[[{][\s\S]*?)(?=: [A-Za-z]|$)/g
// A server or a proxy may repeat the request's headers
const credential = /\b(bearer|basic)\s+[^\s"',;]+/gi
const certificate = /-----BEGIN [^-]+-----[\s\S]*?(?:-----END [^-]+-----|$)/g
const maximumServerText = 600

/** The server's own words, fit to be shown: repeated objects and credentials cut out, length bounded. */
export const serverText = (status: Status | undefined): string | undefined => {
  const text = status?.message
  if (text === undefined || text === "") return undefined
  const shown = text
    .replace(valueShown, "$1(not shown)")
    .replace(credential, "$1 (not shown)")
    .replace(certificate, "(not shown)")
  return shown.length > maximumServerText ? `${shown.slice(0, maximumServerText)} …` : shown
}

const sentence = (context: Context, what: string, hint: string): string => {
  const server = serverText(context.status)
  return `cannot ${KubeRequest.describe(context.request)}: ${what}${server === undefined ? "" : `: ${server}`}. ${hint}`
}

/** What a 404 is about. `log`: the pod has no log because no node runs it yet (the API server's 204). */
export type Missing = "object" | "type" | "namespace" | "node" | "log"

/** 404: there is no such object; or (`subject`) its type is not served, its namespace or its Node does not exist. */
export class KubeNotFound extends Data.TaggedError("KubeNotFound")<Context & { readonly subject: Missing }> {
  override get message(): string {
    switch (this.subject) {
      case "object":
        return sentence(this, "not found", "Check the name and the namespace.")
      case "type":
        return sentence(
          this,
          "the server does not serve this resource type",
          `Is ${this.request.group === "" ? "the API" : this.request.group} installed, in version ${this.request.version}?`
        )
      case "namespace":
        return sentence(this, "the namespace does not exist", "Create it, or name another with --namespace.")
      case "node":
        return sentence(
          this,
          "the pod's Node object does not exist",
          "The node was deleted; its logs cannot be reached."
        )
      case "log":
        return sentence(this, "the pod is not scheduled yet, so it has no log", "Wait until it has a node.")
    }
  }
}

// https://kubernetes.io/docs/reference/access-authn-authz/authorization/: every authorizer's refusal is told so
const byAuthorizer = (text: string): boolean => /User "[^"]*" cannot /.test(text)

const readVerbs: ReadonlySet<string> = new Set(["get", "list", "watch"])

/** 403 of the authorizer, or of a proxy on the way: the caller lacks a permission. */
export class KubeForbidden extends Data.TaggedError("KubeForbidden")<Context> {
  /** What was refused, as RBAC names it: `pods/log`. */
  get resource(): string {
    const { plural, subresource } = this.request
    return subresource === undefined ? plural : `${plural}/${subresource}`
  }

  /** What makes it go away, without a full stop. */
  get remedy(): string {
    const grant = `grant verb "${this.request.verb}" on "${this.resource}" in API group "${this.request.group}"`
    return byAuthorizer(this.status?.message ?? "")
      ? grant
      : `if a proxy or gateway refused it, ask those who run it; else ${grant}`
  }

  override get message(): string {
    return sentence(this, "forbidden", `${this.remedy.charAt(0).toUpperCase()}${this.remedy.slice(1)}.`)
  }
}

/** 401: the server does not accept the credentials. `whose` says whose they are, `remedy` what to do, where that is known. */
export class KubeUnauthorized extends Data.TaggedError("KubeUnauthorized")<
  Context & { readonly whose?: string; readonly remedy?: string }
> {
  override get message(): string {
    return sentence(
      this,
      `the server does not accept the credentials${this.whose === undefined ? "" : ` (${this.whose})`}`,
      this.remedy ?? "Renew the token or certificate in the kubeconfig."
    )
  }
}

/** 409: the object was changed, replaced or created meanwhile. Read it again and decide anew. */
export class KubeConflict extends Data.TaggedError("KubeConflict")<
  Context & { readonly reason: "AlreadyExists" | "Conflict" }
> {
  override get message(): string {
    return this.reason === "AlreadyExists"
      ? sentence(this, "it exists already", "Choose another name, or read the one that exists.")
      : sentence(this, "it was changed meanwhile", "Read it again and retry.")
  }
}

/**
 * 410, or an ERROR frame that says so: the resource version or the continue token is too old (or from the future).
 * List again. `continueToken` resumes an inconsistent list where the server offered one.
 */
export class KubeExpired extends Data.TaggedError("KubeExpired")<Context & { readonly continueToken?: string }> {
  override get message(): string {
    return sentence(this, "the resource version is not available any more", "List again.")
  }
}

/** 400, 405, 406, 413, 415, 422: the request itself is wrong and will be refused again. */
export class KubeInvalid extends Data.TaggedError("KubeInvalid")<Context & { readonly code: number }> {
  override get message(): string {
    return sentence(this, `the server refuses the request (${this.code})`, "Correct what it names and send it again.")
  }
}

/** 403 that is not about permissions: an admission webhook or plugin refused the object. */
export class KubeDenied extends Data.TaggedError("KubeDenied")<Context & { readonly by: string }> {
  override get message(): string {
    return sentence(this, `denied by ${this.by}`, "Change what it objects to; permissions do not help.")
  }
}

/** Where a call failed without an answer that can be used. */
export type Phase = "connect" | "tls" | "credentials" | "stream" | "server" | "kubelet" | "silence"

/**
 * No usable answer now: 429, 5xx, a connection that cannot be made or broke. Trying again later may help.
 * `retryAfter` is the server's own wish, in milliseconds; `remedy` what to do, where more is known than the phase.
 */
export class KubeUnavailable extends Data.TaggedError("KubeUnavailable")<
  Context & {
    readonly phase: Phase
    readonly retryAfter?: number
    readonly code?: number
    readonly detail?: string
    readonly remedy?: string
  }
> {
  override get message(): string {
    const detail = this.detail === undefined ? "" : ` (${this.detail})`
    const again = KubeRequest.isWrite(this.request)
      ? "Whether it was done is not known: read before trying again."
      : "It is safe to try again."
    switch (this.phase) {
      case "connect":
        return sentence(
          this,
          `the API server cannot be reached${detail}`,
          this.remedy ?? "Is the server address right, and is it up? Try `kubectl version`."
        )
      case "tls":
        return sentence(
          this,
          `the TLS connection cannot be made${detail}`,
          this.remedy ?? "Check certificate-authority-data and tls-server-name in the kubeconfig."
        )
      case "credentials":
        return sentence(this, `the credentials cannot be had${detail}`, this.remedy ?? "Nothing was sent.")
      case "stream":
        return sentence(this, `the connection broke${detail}`, again)
      case "silence":
        return sentence(this, `the server has gone silent${detail}`, again)
      case "kubelet":
        return sentence(this, `the node's kubelet does not answer${detail}`, "It is safe to try again.")
      case "server":
        return sentence(
          this,
          `the API server answers ${this.code ?? "an error"}${detail}`,
          this.code === 429 ? "It is busy; try again later." : "Try again later; if it stays, look at its log."
        )
    }
  }
}

/** The answer is not what the Kubernetes API sends: HTML, broken JSON, an object that does not decode. */
export class KubeMalformed extends Data.TaggedError("KubeMalformed")<Context & { readonly detail: string }> {
  override get message(): string {
    return sentence(
      this,
      `the answer is not what a Kubernetes API server sends (${this.detail})`,
      "Is the server address that of the API server, and not of a proxy or login page?"
    )
  }
}

/** Every failure of the port. */
export type KubeError =
  | KubeNotFound
  | KubeForbidden
  | KubeUnauthorized
  | KubeConflict
  | KubeExpired
  | KubeInvalid
  | KubeDenied
  | KubeUnavailable
  | KubeMalformed

const tags: ReadonlySet<string> = new Set([
  "KubeNotFound",
  "KubeForbidden",
  "KubeUnauthorized",
  "KubeConflict",
  "KubeExpired",
  "KubeInvalid",
  "KubeDenied",
  "KubeUnavailable",
  "KubeMalformed"
])

/** Whether a value is one of the port's errors. */
export const isKubeError = (value: unknown): value is KubeError =>
  typeof value === "object" && value !== null && "_tag" in value && tags.has(String(value._tag))

const has = (status: Status | undefined, reason: string): boolean =>
  status?.details?.causes?.some((cause) => cause.reason === reason) ?? false

const notFound = (context: Context, status: Status | undefined): KubeNotFound => {
  const details = status?.details
  if (status === undefined || details === undefined || details === null || details.name === undefined) {
    return new KubeNotFound({ ...context, subject: "type" })
  }
  if (details.kind === "namespaces" && context.request.plural !== "namespaces") {
    return new KubeNotFound({ ...context, subject: "namespace" })
  }
  // The API server looks the Node up by name and reports *its* name with kind "pods"
  const ofNode = context.request.subresource === "log" && details.name !== context.request.name
  return new KubeNotFound({ ...context, subject: ofNode ? "node" : "object" })
}

/**
 * The error for an HTTP answer (or a watch's ERROR frame). `retryAfter` is the parsed `Retry-After` header in
 * milliseconds. Total: every code has an answer. Texts that carry meaning upstream are matched here and nowhere else.
 */
export const fromStatus = (
  request: KubeRequest.KubeRequest,
  code: number,
  status: Status | undefined,
  retryAfterHeader?: number
): KubeError => {
  const context: Context = { request: KubeRequest.withoutBody(request), ...(status === undefined ? {} : { status }) }
  const text = status?.message ?? ""
  const seconds = status?.details?.retryAfterSeconds
  const retryAfter = retryAfterHeader ?? (seconds === undefined ? undefined : seconds * 1000)
  const unavailable = (phase: Phase): KubeUnavailable =>
    new KubeUnavailable({ ...context, phase, code, ...(retryAfter === undefined ? {} : { retryAfter }) })
  // details.kind "pods/log" marks an answer of the kubelet that the API server passed on: its 401, 403 and 404 are not
  // about the caller or the pod
  if (status?.details?.kind === "pods/log" && code !== 416) return unavailable("kubelet")
  if (has(status, "ResourceVersionTooLarge")) return new KubeExpired(context)
  switch (code) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 416:
    case 422:
      return new KubeInvalid({ ...context, code })
    case 401:
      return new KubeUnauthorized(context)
    case 403: {
      const webhook = /admission webhook "([^"]+)" denied the request/.exec(text)
      if (webhook?.[1] !== undefined) return new KubeDenied({ ...context, by: `admission webhook "${webhook[1]}"` })
      // Admission has no part in reads
      return byAuthorizer(text) || text === "" || readVerbs.has(request.verb)
        ? new KubeForbidden(context)
        : new KubeDenied({ ...context, by: "admission" })
    }
    case 404:
      return notFound(context, status)
    case 409:
      return new KubeConflict({ ...context, reason: status?.reason === "AlreadyExists" ? "AlreadyExists" : "Conflict" })
    case 410: {
      const token = status?.metadata?.continue
      return new KubeExpired({ ...context, ...(token === undefined || token === "" ? {} : { continueToken: token }) })
    }
    case 500:
      // 500s without a reason that blame the request: sending it again cannot help
      if (
        /request is too large|resourceVersion should not be set|strconv\.ParseUint|failed to create typed/.test(text)
      ) {
        return new KubeInvalid({ ...context, code })
      }
      // https://github.com/kubernetes/kubernetes: the API server proxies the log request to the node's kubelet
      return unavailable(/containerLogs|no preferred addresses found/.test(text) ? "kubelet" : "server")
    default:
      return code >= 500 || code === 429 || code === 408 ? unavailable("server") : new KubeInvalid({ ...context, code })
  }
}
