/**
 * What goes back over HTTP for a failure: the inverse of `KubeError.fromStatus`. A client that reads the answer arrives at
 * the error it was made from.
 *
 * @module
 */
import type { KubeError, Status } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"

/** An answer to a request that is not a stream, or why there is none. */
export type Answer =
  | {
      readonly _tag: "Reply"
      readonly code: number
      readonly headers: Readonly<Record<string, string | ReadonlyArray<string>>>
      /** Absent: no body and no `Content-Type`. */
      readonly body?: { readonly contentType: string; readonly content: string | Uint8Array }
    }
  /** The connection breaks, without the end that HTTP asks for. */
  | { readonly _tag: "Cut" }
  /** Nothing comes, the connection stays. */
  | { readonly _tag: "Silence" }

const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Expired",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  503: "ServiceUnavailable",
  504: "Timeout"
}

type Details = NonNullable<Status["details"]>

/** A failure `Status` with the reason that belongs to the code. 500s made from plain Go errors have none. */
export const status = (code: number, message: string, details?: Details, reason = reasons[code]): Status => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message,
  ...(reason === undefined ? {} : { reason }),
  ...(details === undefined ? {} : { details }),
  code
})

/** Any JSON as an answer; the API server ends JSON with a newline. */
export const json = (
  code: number,
  body: unknown,
  headers: Readonly<Record<string, string | ReadonlyArray<string>>> = {}
): Answer => ({
  _tag: "Reply",
  code,
  headers,
  body: { contentType: "application/json", content: `${JSON.stringify(body)}\n` }
})

/** A line of text as an answer. */
export const plain = (code: number, text: string, headers: Readonly<Record<string, string>> = {}): Answer => ({
  _tag: "Reply",
  code,
  headers: { "X-Content-Type-Options": "nosniff", ...headers },
  body: { contentType: "text/plain; charset=utf-8", content: text }
})

/** How the API server answers a path that nothing serves: an unknown group, an unknown version or plural of a CRD. */
export const pageNotFound: Answer = plain(404, "404 page not found\n")

/** An unknown version or plural of a built-in group. */
export const resourceNotFound: Answer = json(404, status(404, "the server could not find the requested resource", {}))

/** A method that has no meaning on the path. */
export const methodNotAllowed: Answer = json(
  405,
  status(405, "the server does not allow this method on the requested resource", {})
)

const resourceDetails = (request: KubeRequest.KubeRequest): Details => ({
  ...(request.name === undefined ? {} : { name: request.name }),
  ...(request.group === "" ? {} : { group: request.group }),
  ...(request.plural === "" ? {} : { kind: request.plural })
})

const qualified = (request: KubeRequest.KubeRequest): string =>
  request.group === "" ? request.plural : `${request.plural}.${request.group}`

const named = (request: KubeRequest.KubeRequest): string =>
  request.name === undefined ? qualified(request) : `${qualified(request)} "${request.name}"`

/** The Status for an error that came without one, so that a client reads the same error out of it. */
const synthesized = (error: KubeError): Status => {
  const { request } = error
  switch (error._tag) {
    case "KubeNotFound":
      switch (error.subject) {
        case "namespace":
          return status(404, `namespaces "${request.namespace ?? ""}" not found`, {
            name: request.namespace ?? "",
            kind: "namespaces"
          })
        case "node":
          return status(404, `pods "node of ${request.name ?? ""}" not found`, {
            name: `node of ${request.name ?? ""}`,
            kind: "pods"
          })
        case "object":
          return status(404, `${named(request)} not found`, { name: "", ...resourceDetails(request) })
        case "type":
        case "log":
          return status(404, "the server could not find the requested resource", {})
      }
    case "KubeForbidden":
      return status(
        403,
        `${named(request)} is forbidden: User "" cannot ${request.verb} resource "${request.plural}${
          request.subresource === undefined ? "" : `/${request.subresource}`
        }" in API group "${request.group}" ${
          request.namespace === undefined ? "at the cluster scope" : `in the namespace "${request.namespace}"`
        }`,
        resourceDetails(request)
      )
    case "KubeUnauthorized":
      return status(401, "Unauthorized")
    case "KubeConflict":
      return error.reason === "AlreadyExists"
        ? status(409, `${named(request)} already exists`, resourceDetails(request), "AlreadyExists")
        : status(
            409,
            `Operation cannot be fulfilled on ${named(request)}: the object has been modified; please apply your changes to the latest version and try again`,
            resourceDetails(request)
          )
    case "KubeExpired":
      return {
        ...status(410, "The resourceVersion for the provided watch is too old."),
        ...(error.continueToken === undefined ? {} : { metadata: { continue: error.continueToken } })
      }
    case "KubeInvalid":
      return status(error.code, `the server refuses to ${KubeRequest.describe(request)}`)
    case "KubeDenied":
      return status(
        403,
        error.by === "admission"
          ? `${named(request)} is forbidden: denied by admission`
          : `${error.by} denied the request: no reason given`,
        resourceDetails(request)
      )
    case "KubeUnavailable": {
      const code = error.code ?? (error.phase === "kubelet" ? 500 : 503)
      const details: Details = {
        ...(error.phase === "kubelet" ? { ...resourceDetails(request), kind: "pods/log" } : {}),
        ...(error.retryAfter === undefined ? {} : { retryAfterSeconds: Math.ceil(error.retryAfter / 1000) })
      }
      return status(
        code,
        error.detail ?? `cannot ${KubeRequest.describe(request)} now`,
        Object.keys(details).length === 0 ? undefined : details
      )
    }
    case "KubeMalformed":
      return status(500, error.detail)
  }
}

/** The Status of an error: the server's own where there was one. */
export const statusOf = (error: KubeError): Status => {
  const own = error.status
  if (own === undefined) return synthesized(error)
  const code = own.code ?? synthesized(error).code
  return {
    ...own,
    apiVersion: own.apiVersion ?? "v1",
    metadata: own.metadata ?? {},
    ...(code === undefined ? {} : { code })
  }
}

/**
 * The answer for an error that arose before anything was sent. A connection that cannot be made, or that broke, is a
 * connection that breaks; silence is silence; a malformed answer is one.
 */
export const fromError = (error: KubeError): Answer => {
  switch (error._tag) {
    case "KubeNotFound":
      // The API server's word for "no node runs this pod yet"
      if (error.subject === "log" && error.status === undefined) return { _tag: "Reply", code: 204, headers: {} }
      if (error.subject === "type" && error.status === undefined) return pageNotFound
      break
    case "KubeMalformed":
      return {
        _tag: "Reply",
        code: 200,
        headers: {},
        body: { contentType: "text/html; charset=utf-8", content: `<html><body>${error.detail}</body></html>\n` }
      }
    case "KubeUnavailable": {
      const retry: Record<string, string> =
        error.retryAfter === undefined ? {} : { "Retry-After": String(Math.ceil(error.retryAfter / 1000)) }
      if (error.status === undefined) {
        if (error.phase === "silence") return { _tag: "Silence" }
        if (error.phase !== "server" && error.phase !== "kubelet") return { _tag: "Cut" }
        // The in-flight limit answers in plain text
        if (error.code === 429) return plain(429, "Too many requests, please try again later.\n", retry)
      }
      const body = statusOf(error)
      return json(body.code ?? 500, body, retry)
    }
    default:
      break
  }
  const body = statusOf(error)
  return json(body.code ?? 500, body)
}

/** What becomes of an error after a stream began: the stream breaks, or an ERROR frame carries the Status. */
export const endsStream = (error: KubeError): "cut" | "frame" | "silence" =>
  error._tag !== "KubeUnavailable" || error.status !== undefined
    ? error._tag === "KubeMalformed"
      ? "cut"
      : "frame"
    : error.phase === "silence"
      ? "silence"
      : error.phase === "server"
        ? "frame"
        : "cut"
