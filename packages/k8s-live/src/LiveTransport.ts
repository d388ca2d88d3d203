/**
 * The three functions of a `KubeTransport` over HTTP.
 *
 * @module
 */
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { HttpBody, HttpClientRequest, UrlParams } from "@effect/platform"
import { Chunk, Clock, Effect, Option, type Scope, Stream } from "effect"
import type { Answer, HttpFailure, Kind, KubeHttp, Lane } from "./KubeHttp.js"
import * as Ndjson from "./internal/Ndjson.js"
import * as Redaction from "./internal/Redaction.js"

const toHttp = (request: KubeRequest.KubeRequest, accept: string): HttpClientRequest.HttpClientRequest => {
  const query = UrlParams.toString(UrlParams.fromInput(KubeRequest.queryPairs(request)))
  const prepared = HttpClientRequest.make(KubeRequest.method(request))(
    `${KubeRequest.path(request)}${query === "" ? "" : `?${query}`}`,
    { headers: { accept } }
  )
  return request.body === undefined
    ? prepared
    : HttpClientRequest.setBody(prepared, HttpBody.text(JSON.stringify(request.body), KubeRequest.contentType(request)))
}

const malformed = (request: KubeRequest.KubeRequest, detail: string): KubeError.KubeMalformed =>
  new KubeError.KubeMalformed({ request: KubeRequest.withoutBody(request), detail })

const unanswered = (request: KubeRequest.KubeRequest, failure: HttpFailure): KubeError.KubeError =>
  failure.phase === "size" || failure.phase === "encoding"
    ? malformed(request, failure.detail)
    : new KubeError.KubeUnavailable({
        request: KubeRequest.withoutBody(request),
        phase: failure.phase,
        detail: failure.detail,
        ...(failure.remedy === undefined ? {} : { remedy: failure.remedy }),
        cause: failure.cause
      })

const mediaType = (answer: Answer): string => answer.headers["content-type"]?.split(";")[0]?.trim() ?? ""

const describeBody = ({ identity }: KubeHttp, answer: Answer, body: string): string => {
  const type = mediaType(answer)
  const words = Redaction.firstWords(body)
  return `${type === "" ? "no content type" : type}, ${words === "" ? "no text" : `"${words}"`}; asked with ${identity}`
}

/** Texts of `Warning` headers (RFC 7234 section 5.5: code, agent, quoted text, perhaps a quoted date). */
export const parseWarnings = (header: string | undefined): ReadonlyArray<string> =>
  header === undefined
    ? []
    : [...header.matchAll(/\b\d{3} [^\s,]+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?/g)].map((match) =>
        (match[1] ?? "").replace(/\\(.)/g, "$1")
      )

/** `Retry-After` in milliseconds from `now`: seconds, or an HTTP date. */
export const parseRetryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined) return undefined
  const text = header.trim()
  if (/^\d+$/.test(text)) return Number(text) * 1000
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

const statusOf = (body: string): KubeError.Status | undefined => {
  try {
    const value: unknown = JSON.parse(body)
    return KubeError.isStatus(value) ? value : undefined
  } catch {
    return undefined
  }
}

const everywhere: ReadonlySet<string> = new Set(["/version", "/api", "/apis"])

/** The error for an answer that is not a success. */
const refusal = (
  { advice, identity }: KubeHttp,
  request: KubeRequest.KubeRequest,
  answer: Answer
): Effect.Effect<never, KubeError.KubeError> =>
  Effect.gen(function* () {
    const unreachable = (phase: "connect" | "tls", detail: string, remedy: string): KubeError.KubeUnavailable =>
      new KubeError.KubeUnavailable({
        request: KubeRequest.withoutBody(request),
        phase,
        detail,
        remedy: `${remedy} (${identity})`
      })
    // Of a proxy that forwards plain HTTP; one that is asked for a tunnel refuses it before any answer
    if (answer.status === 407) {
      return yield* unreachable("connect", "the proxy answers 407", advice.onConnect("", "407"))
    }
    if (answer.status >= 300 && answer.status < 400) {
      const location = answer.headers["location"]
      const host = location !== undefined && URL.canParse(location) ? ` to ${new URL(location).host}` : ""
      return yield* malformed(request, `HTTP ${answer.status}, a redirection${host}`)
    }
    if (answer.status === 404 && everywhere.has(KubeRequest.path(request))) {
      return yield* malformed(request, `404 for ${KubeRequest.path(request)}, which every API server has`)
    }
    const body = yield* Effect.mapError(answer.text, (failure) => unanswered(request, failure))
    const now = yield* Clock.currentTimeMillis
    const retryAfter = parseRetryAfter(answer.headers["retry-after"], now)
    const status = statusOf(body)
    if (status !== undefined) return yield* KubeError.fromStatus(request, answer.status, status, retryAfter)
    // What Go's servers say: https://pkg.go.dev/net/http
    if (answer.status === 400 && body.includes("Client sent an HTTP request to an HTTPS server")) {
      return yield* unreachable(
        "tls",
        "the server speaks TLS and was asked in plain HTTP",
        "Write https:// in the cluster's server address."
      )
    }
    const words = Redaction.firstWords(body, 200)
    // A 403 without a Status comes from something in front of the API server: its words must not look like admission's
    const wordless = words === "" || (answer.status === 403 && KubeRequest.isWrite(request))
    return yield* KubeError.fromStatus(
      request,
      answer.status,
      wordless ? undefined : { kind: "Status", code: answer.status, message: words },
      retryAfter
    )
  })

const isSuccess = (answer: Answer): boolean => answer.status >= 200 && answer.status < 300

const frameTypes: ReadonlySet<string> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])

const isFrame = (value: unknown): value is WatchFrame =>
  typeof value === "object" &&
  value !== null &&
  "type" in value &&
  "object" in value &&
  typeof value.type === "string" &&
  frameTypes.has(value.type)

/** What a value of a watch that is no event means. */
const frameError = (request: KubeRequest.KubeRequest, value: unknown): KubeError.KubeError => {
  const type = typeof value === "object" && value !== null && "type" in value ? String(value.type) : ""
  if (type === "ERROR" && typeof value === "object" && value !== null && "object" in value) {
    const status = value.object
    if (KubeError.isStatus(status)) return KubeError.fromStatus(request, status.code ?? 500, status)
    return malformed(request, "an ERROR frame without a Status")
  }
  // A Status instead of a frame: some proxies and servers end a watch so
  if (KubeError.isStatus(value)) return KubeError.fromStatus(request, value.code ?? 500, value)
  return malformed(
    request,
    type === "" ? "a line that is no watch frame" : `a frame of type "${Redaction.shown(type, 40)}"`
  )
}

type Take<A> = Effect.Effect<A, Option.Option<KubeError.KubeError>>

const takeOf = (request: KubeRequest.KubeRequest, answer: Answer): Take<ReadonlyArray<Uint8Array>> =>
  Effect.mapError(
    answer.take,
    Option.map((failure) => unanswered(request, failure))
  )

// A kubelet sends a line at a time while a program writes slowly: below this size a piece costs more than its copy
const smallPiece = 4096

/** The pieces of a body as they are, or copied into one where they are small. */
const joined = (pieces: ReadonlyArray<Uint8Array>): Chunk.Chunk<Uint8Array> => {
  if (pieces.length > 1) {
    let size = 0
    for (const piece of pieces) size += piece.length
    if (size < smallPiece * pieces.length) return Chunk.of(Buffer.concat(pieces, size))
  }
  return Chunk.unsafeFromArray(pieces)
}

/** Decodes the body of a watch: whatever has come together is one chunk of frames. */
const frames = (request: KubeRequest.KubeRequest, answer: Answer): Stream.Stream<WatchFrame, KubeError.KubeError> =>
  Stream.suspend(() => {
    const splitter = Ndjson.makeSplitter()
    // Told after the frames before it
    let broken: KubeError.KubeError | undefined
    const decoded = (pieces: ReadonlyArray<Uint8Array>): Take<Chunk.Chunk<WatchFrame>> => {
      const { garbled, values } = splitter.push(pieces)
      const bad = values.findIndex((value) => !isFrame(value))
      const good = (bad === -1 ? values : values.slice(0, bad)) as ReadonlyArray<WatchFrame>
      if (bad !== -1) broken = frameError(request, values[bad])
      else if (garbled !== undefined) {
        broken = malformed(request, `a watch line of ${garbled.length} characters that is not JSON`)
      }
      return good.length === 0 ? next : Effect.succeed(Chunk.unsafeFromArray(good))
    }
    const ending = (end: Option.Option<KubeError.KubeError>): Take<never> =>
      Effect.fail(
        Option.isNone(end) && splitter.pending()
          ? Option.some(
              new KubeError.KubeUnavailable({
                request: KubeRequest.withoutBody(request),
                phase: "stream",
                detail: "the connection ended in the middle of a line"
              })
            )
          : end
      )
    const pieces = takeOf(request, answer)
    const next: Take<Chunk.Chunk<WatchFrame>> = Effect.suspend(() =>
      broken === undefined
        ? Effect.matchEffect(pieces, { onFailure: ending, onSuccess: decoded })
        : Effect.fail(Option.some(broken))
    )
    return Stream.repeatEffectChunkOption(next)
  })

/**
 * The part of a request that would reach another object than it names: an empty or dotted path segment changes which
 * resource a URL means, and a delete of an object would become one of the whole collection.
 */
const badSegment = (request: KubeRequest.KubeRequest): string | undefined => {
  for (const field of ["namespace", "name", "subresource"] as const) {
    for (const segment of request[field]?.split(field === "subresource" ? "/" : "\0") ?? []) {
      if (segment === "" || segment === "." || segment === ".." || /[/%]/.test(segment)) return field
    }
  }
  return undefined
}

const laneOf = (request: KubeRequest.KubeRequest): Lane => {
  if (request.subresource === "log") return "log"
  if (request.verb === "watch" || request.verb === "list") return request.verb
  return KubeRequest.isWrite(request) ? "write" : "get"
}

/**
 * The transport over HTTP. It retries nothing, but that a 401 renews the credentials once (and see `KubeHttp`): whether and when to try again
 * is decided above it.
 */
export const make = (http: KubeHttp): KubeTransport => {
  /** An answer that is a success. */
  const open = (
    kind: Kind,
    request: KubeRequest.KubeRequest,
    accept: string
  ): Effect.Effect<Answer, KubeError.KubeError, Scope.Scope> =>
    Effect.gen(function* () {
      const bad = badSegment(request)
      if (bad !== undefined) {
        return yield* new KubeError.KubeInvalid({
          request: KubeRequest.withoutBody(request),
          code: 400,
          status: { kind: "Status", code: 400, message: `the ${bad} cannot stand in a URL path` }
        })
      }
      const prepared = toHttp(request, accept)
      const broken = (failure: HttpFailure): KubeError.KubeError => unanswered(request, failure)
      const send = (attempt: number): Effect.Effect<Answer, KubeError.KubeError, Scope.Scope> =>
        Effect.mapError(http.send(kind, prepared, { lane: laneOf(request), attempt }), broken)
      const refused = (error: KubeError.KubeUnauthorized, used: Answer): Effect.Effect<never, KubeError.KubeError> =>
        Effect.flatMap(http.advice.onRefusal(used.credentials), (remedy) =>
          Effect.fail(
            new KubeError.KubeUnauthorized({
              request: error.request,
              status: error.status,
              whose: http.identity,
              remedy
            })
          )
        )
      const first = yield* send(1)
      if (isSuccess(first)) return first
      const error = yield* Effect.flip(refusal(http, request, first))
      if (error._tag !== "KubeUnauthorized") return yield* error
      if (!(yield* Effect.mapError(http.renew(first.credentials), broken))) return yield* refused(error, first)
      const second = yield* send(2)
      if (isSuccess(second)) return second
      return yield* Effect.catchTag(refusal(http, request, second), "KubeUnauthorized", (again) =>
        refused(again, second)
      )
    })

  return {
    call: (request) =>
      Effect.scoped(
        Effect.gen(function* () {
          const answer = yield* open("call", request, "application/json")
          const text = yield* Effect.mapError(answer.text, (failure) => unanswered(request, failure))
          const body = yield* Effect.try({
            try: (): unknown => JSON.parse(text),
            catch: () =>
              malformed(
                request,
                /json/.test(mediaType(answer)) && !text.trimStart().startsWith("<")
                  ? // Its words would be an object's, which can hold env values
                    `${mediaType(answer)} that is not JSON, ${text.length} characters`
                  : describeBody(http, answer, text)
              )
          })
          const date = Date.parse(answer.headers["date"] ?? "")
          const reply: KubeReply = {
            status: answer.status,
            body,
            warnings: parseWarnings(answer.headers["warning"]),
            ...(Number.isNaN(date) ? {} : { serverTime: date })
          }
          return reply
        })
      ),
    watch: (request) =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const answer = yield* open("watch", request, "application/json")
          if (!/json/.test(mediaType(answer))) {
            const text = yield* Effect.mapError(answer.text, (failure) => unanswered(request, failure))
            return yield* malformed(request, describeBody(http, answer, text))
          }
          return frames(request, answer)
        })
      ),
    bytes: (request) =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const answer = yield* open("bytes", request, "*/*")
          if (answer.status === 204) {
            return yield* new KubeError.KubeNotFound({ request: KubeRequest.withoutBody(request), subject: "log" })
          }
          if (mediaType(answer) === "text/html") {
            const text = yield* Effect.mapError(answer.text, (failure) => unanswered(request, failure))
            return yield* malformed(request, describeBody(http, answer, text))
          }
          return Stream.repeatEffectChunkOption(Effect.map(takeOf(request, answer), joined))
        })
      )
  }
}
