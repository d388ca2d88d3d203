/**
 * What can go wrong between a request and the end of its answer, and by what Node, undici and OpenSSL call it.
 *
 * @module
 */
import { gunzip } from "node:zlib"
import { Data, Effect } from "effect"
import * as Redaction from "./Redaction.js"

/** Where it failed. */
export type Phase = "connect" | "tls" | "credentials" | "stream" | "silence" | "size" | "encoding"

/** No answer, or an answer that broke off or cannot be read. `detail` and `remedy` are fit to be shown. */
export class HttpFailure extends Data.TaggedError("HttpFailure")<{
  readonly phase: Phase
  readonly detail: string
  /** What to do, as sentences. */
  readonly remedy?: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.phase}: ${this.detail}`
  }
}

/** The `code` of an error, else nothing. */
export const codeOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : ""

/** The innermost error with a code, else the innermost error. */
const rootOf = (cause: unknown): unknown => {
  let current = cause
  for (let depth = 0; depth < 8; depth++) {
    if (typeof current !== "object" || current === null) return current
    if (codeOf(current).startsWith("UND_ERR_") && codeOf(current) !== "UND_ERR_PRX_TLS") return current
    if (current instanceof AggregateError && current.errors.length > 0) current = current.errors[0]
    else if ("cause" in current && current.cause !== undefined && current.cause !== null) current = current.cause
    else return current
  }
  return current
}

const connectCodes = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "EHOSTDOWN",
  "UND_ERR_CONNECT_TIMEOUT"
])
const certificateCodes =
  /^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|HOSTNAME_MISMATCH|INVALID_CA|EPROTO|UND_ERR_PRX_TLS)/

/** An error's message; of OpenSSL's the reason alone, for the rest is about its source files. */
const wordsOf = (root: unknown): string => {
  if (!(root instanceof Error)) return String(root)
  return "reason" in root && typeof root.reason === "string" && "library" in root ? root.reason : root.message
}

/** Classifies what undici, Node's net and TLS report. `answered`: the answer's headers were there. */
export const failureOf = (cause: unknown, answered: boolean): HttpFailure => {
  const root = rootOf(cause)
  const code = codeOf(root)
  const text = Redaction.shown(wordsOf(root), 200)
  const detail = code === "" || text.includes(code) ? text : `${code}: ${text}`
  const make = (phase: Phase, what: string = detail): HttpFailure =>
    new HttpFailure({ phase, detail: what, cause: root })
  switch (code) {
    case "UND_ERR_HEADERS_TIMEOUT":
      return make("silence", "no answer in time")
    case "UND_ERR_BODY_TIMEOUT":
      return make("silence", "nothing more came in time")
    case "UND_ERR_CONNECT_TIMEOUT":
      return make("connect", "no connection in time")
  }
  if (certificateCodes.test(code)) return make("tls")
  if (connectCodes.has(code)) return make("connect")
  // undici's word for a proxy that will not open the tunnel
  if (!answered && /Proxy/.test(text)) return make("connect")
  return make("stream")
}

const hungUp = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"])

/** Whether the connection was closed before anything of an answer came: load balancers and restarting servers do that. */
export const neverAnswered = (failure: HttpFailure): boolean =>
  failure.phase === "stream" && hungUp.has(codeOf(failure.cause))

/** A body larger than it may be. */
export const tooLarge = (limit: number): HttpFailure =>
  new HttpFailure({ phase: "size", detail: `an answer of more than ${limit} bytes` })

/** A body that is packed in an unexpected way. */
export const unknownEncoding = (encoding: string): HttpFailure =>
  new HttpFailure({
    phase: "encoding",
    detail: `a body in content-encoding "${Redaction.shown(encoding, 40)}", which was not asked for`
  })

/** Unpacks a body; one that would become larger than the limit is given up, not unpacked. */
export const unzipped = (body: Uint8Array, limit: number): Effect.Effect<Uint8Array, HttpFailure> =>
  Effect.async((resume) => {
    gunzip(body, { maxOutputLength: limit }, (error, all) => {
      if (error === null) return resume(Effect.succeed(all))
      return resume(
        codeOf(error) === "ERR_BUFFER_TOO_LARGE"
          ? tooLarge(limit)
          : new HttpFailure({ phase: "encoding", detail: "a body that is not the gzip it says it is", cause: error })
      )
    })
  })
