/**
 * One HTTP request with its response: reading bodies, writing answers and streams. A quiet stream sends its headers at
 * once, a slow client stops the stream, and a connection can break in the middle.
 *
 * @module
 */
import type * as Http from "node:http"
import type { KubeError, Status } from "@dispatch-kubeflow/core/kube/KubeError"
import type { Duration } from "effect"
import { Cause, Clock, DateTime, Effect, Exit, Fiber, Option, Random, Stream } from "effect"
import * as Answer from "./Answer.js"

// Seen of the API server: 413 above it
const bodyLimit = 3 * 1024 * 1024

const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const two = (value: number): string => String(value).padStart(2, "0")

/** An instant (epoch milliseconds) as an HTTP `Date`. */
const httpDate = (epochMillis: number): string => {
  const parts = DateTime.toPartsUtc(DateTime.unsafeMake(epochMillis))
  return `${days[parts.weekDay]}, ${two(parts.day)} ${months[parts.month - 1]} ${parts.year} ${two(parts.hours)}:${two(parts.minutes)}:${two(parts.seconds)} GMT`
}

/** An instant (epoch milliseconds) as a `metav1.Time`. */
export const rfc3339 = (epochMillis: number): string =>
  `${DateTime.formatIso(DateTime.unsafeMake(epochMillis)).slice(0, 19)}Z`

/** Random hexadecimal digits. */
export const randomHex = (digits: number): Effect.Effect<string> =>
  Effect.gen(function* () {
    let text = ""
    while (text.length < digits) {
      text += (yield* Random.nextIntBetween(0, 0x1_0000_0000)).toString(16).padStart(8, "0")
    }
    return text.slice(0, digits)
  })

const uuid: Effect.Effect<string> = Effect.map(
  randomHex(30),
  (hex) => `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(12, 15)}-a${hex.slice(15, 18)}-${hex.slice(18, 30)}`
)

/** A text as a `Warning` header's value. */
export const warningLine = (text: string): string => `299 - "${text.replace(/["\\]/g, "\\$&")}"`

/** A request and its response. */
export interface Exchange {
  readonly request: Http.IncomingMessage
  readonly response: Http.ServerResponse
}

const setCommonHeaders = (response: Http.ServerResponse, date: number): Effect.Effect<void> =>
  Effect.map(uuid, (id) => {
    response.sendDate = false
    response.setHeader("Audit-Id", id)
    response.setHeader("Cache-Control", "no-cache, private")
    response.setHeader("Date", httpDate(date))
  })

/** Answers; `date` (epoch milliseconds) is the `Date` header, the Clock's by default. */
export const send = ({ request, response }: Exchange, answer: Answer.Answer, date?: number): Effect.Effect<void> => {
  switch (answer._tag) {
    case "Silence":
      return Effect.never
    case "Cut":
      return Effect.sync(() => request.socket.destroySoon())
    case "Reply":
      return Effect.gen(function* () {
        yield* setCommonHeaders(response, date ?? (yield* Clock.currentTimeMillis))
        for (const [name, value] of Object.entries(answer.headers)) {
          response.setHeader(name, typeof value === "string" ? value : [...value])
        }
        response.statusCode = answer.code
        // The rest of a body that was not read would be taken for the next request
        if (!request.complete) response.setHeader("Connection", "close")
        if (answer.body === undefined) {
          response.end()
          return
        }
        const { content, contentType } = answer.body
        const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content
        response.setHeader("Content-Type", contentType)
        response.setHeader("Content-Length", bytes.length)
        response.end(request.method === "HEAD" ? undefined : bytes)
      })
  }
}

/** Waits until the answer has been handed to the network, or cannot be any more. */
export const sent = ({ response }: Exchange): Effect.Effect<void> =>
  Effect.async((resume) => {
    if (response.writableFinished || response.destroyed) {
      resume(Effect.void)
      return
    }
    const done = (): void => resume(Effect.void)
    response.once("finish", done).once("close", done)
    return Effect.sync(() => response.off("finish", done).off("close", done))
  })

/** Answers with a failure. */
export const sendStatus = (exchange: Exchange, status: Status): Effect.Effect<void> =>
  send(exchange, Answer.json(status.code ?? 500, status))

/** Writes one chunk, and waits while the client reads slower than the stream delivers. */
const write = (response: Http.ServerResponse, data: string | Uint8Array): Effect.Effect<void> =>
  Effect.async((resume) => {
    if (response.write(data)) {
      resume(Effect.void)
      return
    }
    const drained = (): void => resume(Effect.void)
    response.once("drain", drained)
    return Effect.sync(() => response.off("drain", drained))
  })

// The socket lives in real time, also when the cluster lives in a TestClock's
const wallClock = Clock.make()

type Ending =
  | { readonly _tag: "Failed"; readonly error: KubeError }
  | { readonly _tag: "Ended" }
  /** A defect: the body must not look complete. */
  | { readonly _tag: "Broken" }

const endingOf = (cause: Cause.Cause<Option.Option<KubeError>>): Ending =>
  Option.match(Cause.failureOption(cause), {
    onNone: () => ({ _tag: "Broken" }),
    onSome: (end) =>
      Option.match(end, { onNone: () => ({ _tag: "Ended" }), onSome: (error) => ({ _tag: "Failed", error }) })
  })

/** What is answered with a stream. */
export interface Streamed<A> {
  readonly stream: Stream.Stream<A, KubeError>
  readonly contentType: string
  readonly openAfter: Duration.DurationInput
  /** The chunk of one element. */
  readonly encode: (element: A) => Effect.Effect<string | Uint8Array>
  /** The last chunk for an error that the protocol can tell of inside the stream. */
  readonly failed: (error: KubeError) => string | undefined
  /** Whether an error before the first element belongs into the stream all the same. */
  readonly inStream: (error: KubeError) => boolean
}

/**
 * Answers with a stream: an error before the first element is an HTTP error, and headers leave as soon as the stream is
 * known to be open.
 */
export const sendStream = <A>(exchange: Exchange, options: Streamed<A>): Effect.Effect<void> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { request, response } = exchange
      const pull = yield* Stream.toPull(options.stream)
      const first = yield* Effect.forkScoped(pull)
      const early = yield* Fiber.await(first).pipe(Effect.timeoutOption(options.openAfter), Effect.withClock(wallClock))
      if (Option.isSome(early) && Exit.isFailure(early.value)) {
        const ending = endingOf(early.value.cause)
        if (ending._tag === "Failed" && !options.inStream(ending.error)) {
          return yield* send(exchange, Answer.fromError(ending.error))
        }
      }
      yield* setCommonHeaders(response, yield* Clock.currentTimeMillis)
      response.setHeader("Content-Type", options.contentType)
      response.statusCode = 200
      response.flushHeaders()
      let next = yield* Fiber.await(first)
      while (Exit.isSuccess(next)) {
        for (const element of next.value) yield* write(response, yield* options.encode(element))
        next = yield* Effect.exit(pull)
      }
      const ending = endingOf(next.cause)
      switch (ending._tag) {
        case "Ended":
          response.end()
          return
        case "Broken":
          request.socket.destroySoon()
          return
        case "Failed": {
          const how = Answer.endsStream(ending.error)
          if (how === "silence") return yield* Effect.never
          const last = how === "cut" ? undefined : options.failed(ending.error)
          if (last === undefined) request.socket.destroySoon()
          else response.end(last)
        }
      }
    })
  )

/** The bytes of a request's body; `undefined` when there are more than the limit. */
export const readBytes = (request: Http.IncomingMessage): Effect.Effect<Uint8Array | undefined> =>
  Effect.async((resume) => {
    const chunks: Array<Uint8Array> = []
    let length = 0
    const data = (chunk: Uint8Array): void => {
      length += chunk.length
      if (length > bodyLimit) {
        stop()
        // The rest is read and dropped: a client that still sends could not read the answer
        request.resume()
        resume(Effect.succeed(undefined))
      } else chunks.push(chunk)
    }
    const end = (): void => {
      stop()
      resume(Effect.succeed(Buffer.concat(chunks)))
    }
    const stop = (): void => {
      request.off("data", data).off("end", end)
    }
    request.on("data", data).on("end", end)
    return Effect.sync(stop)
  })

/** The refusal of a body above the limit. */
export const tooLarge: Status = Answer.status(413, `Request entity too large: limit is ${bodyLimit}`)
