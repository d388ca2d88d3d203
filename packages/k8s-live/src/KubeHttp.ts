/**
 * HTTP to one API server: `@effect/platform`'s HttpClient over an undici agent that belongs to the credentials in use.
 *
 * @module
 */
import { readFileSync } from "node:fs"
import { Headers, HttpClient, type HttpClientRequest, type HttpClientResponse } from "@effect/platform"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Clock, Duration, Effect, Either, Exit, Option, Random, Redacted, Ref, type Scope } from "effect"
import { Agent, type Dispatcher, ProxyAgent } from "undici"
import type { Credentials, KubeConfigError, Service as KubeConfigService } from "./KubeConfig.js"
import * as Body from "./internal/Body.js"
import {
  codeOf,
  failureOf,
  HttpFailure,
  neverAnswered,
  type Phase,
  tooLarge,
  unknownEncoding,
  unzipped
} from "./internal/HttpFailure.js"
import * as RateLimit from "./RateLimit.js"
import * as Redaction from "./internal/Redaction.js"

export { failureOf, HttpFailure }
export type { Phase }

/** One request as it went, for a log. It holds no secret. */
export interface Exchange {
  /** `opened`: the headers of a watch or a log are there, its body comes. `ended`: all of it is over. */
  readonly stage: "opened" | "ended"
  readonly method: string
  /** Path and query. Values of parameters that Kubernetes does not define, and page tokens, are left out. */
  readonly target: string
  /** 2 and more: the same request again, with other credentials or on another connection. */
  readonly attempt: number
  readonly status: number | undefined
  /** `interrupted`: by this side. */
  readonly outcome: "answered" | "failed" | "interrupted"
  /** Why it failed, e.g. `connect: ECONNREFUSED …`. */
  readonly failure: string | undefined
  /** Milliseconds since it was sent. */
  readonly duration: number
  /** Milliseconds that it waited for the rate limit before. */
  readonly waited: number
  /** Of the body, as they were sent. */
  readonly bytes: number
}

/** How fast requests may begin. */
export type Rate = RateLimit.Rate

/** Which queue a request waits in when the rate limit is reached. */
export type Lane = RateLimit.Lane

/** How long to wait, and how fast to ask. Nothing here limits how long a stream may last while something still comes. */
export interface Options {
  /** Until a connection (TLS included) stands. Default 10 s. */
  readonly connectTimeout?: Duration.DurationInput | undefined
  /** Until the answer's headers. Default 30 s. */
  readonly headersTimeout?: Duration.DurationInput | undefined
  /** Between two pieces of the body of a call. Default 30 s. */
  readonly callIdle?: Duration.DurationInput | undefined
  /** Until the whole body of a call is there. Default 2 minutes; API servers answer, or give up, within one. */
  readonly callTimeout?: Duration.DurationInput | undefined
  /** The largest body of a call, in bytes. Default 256 MiB; lists come in pages far smaller than that. */
  readonly maximumCallBytes?: number | undefined
  /** Between two pieces of a watch. Default 5 minutes; bookmarks come about once a minute. */
  readonly watchIdle?: Duration.DurationInput | undefined
  /** Between two pieces of a log. Default none: a program may be silent for hours. */
  readonly bytesIdle?: Duration.DurationInput | undefined
  /** Put before `dispatch-kubeflow/<version>` in the `User-Agent`. */
  readonly userAgent?: string | undefined
  /**
   * How fast requests may begin; kubectl's 50 a second after a burst of 300 by default. Those that wait take turns by their
   * kind: lists, watches, logs, single reads, writes.
   */
  readonly rateLimit?: Rate | "none" | undefined
  /** Told of every request, twice of a stream. It must not fail and should be quick. */
  readonly onExchange?: ((exchange: Exchange) => Effect.Effect<void>) | undefined
}

/** What kind of answer is expected, which decides how long its body may be silent. */
export type Kind = "call" | "watch" | "bytes"

/** An answer whose headers are there. */
export interface Answer {
  readonly status: number
  /** Lower-case names; repeated lines are joined with a comma. */
  readonly headers: Headers.Headers
  /** The whole body; fails when it is too large or too slow. */
  readonly text: Effect.Effect<string, HttpFailure>
  /** What has come of the body since the last time; fails with none only when the body is complete. */
  readonly take: Effect.Effect<ReadonlyArray<Uint8Array>, Option.Option<HttpFailure>>
  /** What the request was sent with. */
  readonly credentials: Credentials
}

/** Sends requests to one API server. */
export interface KubeHttp {
  /** The request's URL is a path on the server. Closing the scope closes the exchange, whatever its state. */
  readonly send: (
    kind: Kind,
    request: HttpClientRequest.HttpClientRequest,
    how?: { readonly lane?: Lane; readonly attempt?: number }
  ) => Effect.Effect<Answer, HttpFailure, Scope.Scope>
  /** See `KubeConfig`'s `renew`. */
  readonly renew: (used: Credentials) => Effect.Effect<boolean, HttpFailure>
  /** See `KubeConfig`'s fields of the same names. */
  readonly identity: KubeConfigService["identity"]
  readonly advice: KubeConfigService["advice"]
}

const version = (): string => {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "0.0.0"
}

const millis = (duration: Duration.DurationInput | undefined, otherwise: number): number =>
  duration === undefined ? otherwise : Duration.toMillis(duration)

/** What one exchange tells the agent's interceptor, and what it learns from it. */
interface Wire {
  readonly headers: Redacted.Redacted<Readonly<Record<string, string | ReadonlyArray<string>>>>
  readonly headersTimeout: number
  readonly bodyTimeout: number
  readonly body: Body.Body
}
const wireKey: unique symbol = Symbol("@dispatch-kubeflow/k8s-live/Wire")

/**
 * Credentials are put on below HttpClient, where no span, log or error of it can see them. Time-outs too, because
 * platform-node sets its own per request; and the body is taken here, see `Body`.
 */
const interceptor: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const wire = (options as { readonly [wireKey]?: Wire })[wireKey]
  if (wire === undefined) return dispatch(options, handler)
  return dispatch(
    {
      ...options,
      headers: { ...(options.headers as Record<string, string>), ...Redacted.value(wire.headers) } as Record<
        string,
        string | Array<string>
      >,
      headersTimeout: wire.headersTimeout,
      bodyTimeout: wire.bodyTimeout,
      // undici gives a connection up after a DELETE with a body, which API servers read like any other
      reset: false
    },
    {
      onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
      onRequestUpgrade: (controller, status, headers, socket) =>
        handler.onRequestUpgrade?.(controller, status, headers, socket),
      onResponseStart: (controller, status, headers, message) =>
        handler.onResponseStart?.(controller, status, headers, message),
      onResponseData: wire.body.push,
      onResponseEnd: (controller, trailers) => {
        wire.body.end()
        handler.onResponseEnd?.(controller, trailers)
      },
      onResponseError: (controller, error) => {
        wire.body.fail(error)
        handler.onResponseError?.(controller, error)
      }
    }
  )
}

/** Ready sockets are looked at once a turn of the event loop. */
const socketsSeen: Effect.Effect<void> = Effect.async((resume) => {
  const timer = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(timer))
})

/** Real time, whatever the Clock says: what is waited for happens to real sockets. */
const socketPause = (millis: number): Effect.Effect<void> =>
  Effect.async((resume) => {
    const timer = setTimeout(() => resume(Effect.void), millis)
    return Effect.sync(() => clearTimeout(timer))
  })

const laneOf: Readonly<Record<Kind, Lane>> = { call: "get", watch: "watch", bytes: "log" }

// Strips a byte order mark, and tells of no broken character: JSON does
const decoder = new TextDecoder()

interface Connection {
  readonly tls: Credentials["tls"]
  readonly client: HttpClient.HttpClient
  readonly dispatcher: Dispatcher
}

/** Connects lazily. The agents and their sockets live as long as the scope. */
export const make = Effect.fn("KubeHttp.make")(function* (
  config: KubeConfigService,
  options: Options = {}
): Effect.fn.Return<KubeHttp, never, Scope.Scope> {
  const connectTimeout = millis(options.connectTimeout, 10_000)
  const headersTimeout = millis(options.headersTimeout, 30_000)
  const idle: Readonly<Record<Kind, number>> = {
    call: millis(options.callIdle, 30_000),
    watch: millis(options.watchIdle, 300_000),
    bytes: millis(options.bytesIdle, 0)
  }
  const callTimeout = millis(options.callTimeout, 120_000)
  const maximumCallBytes = options.maximumCallBytes ?? 256 * 1024 * 1024
  const agentName = `dispatch-kubeflow/${version()}`
  const userAgent = options.userAgent === undefined ? agentName : `${options.userAgent} ${agentName}`
  const https = config.server.toLowerCase().startsWith("https:")

  const dispatcherFor = (tls: Credentials["tls"]): Dispatcher => {
    const { ca, certificate, key } = Redacted.value(tls)
    const connect = {
      timeout: connectTimeout,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      rejectUnauthorized: !config.skipTlsVerify,
      ...(ca === undefined ? {} : { ca }),
      ...(certificate === undefined ? {} : { cert: certificate }),
      ...(key === undefined ? {} : { key }),
      ...(config.tlsServerName === undefined ? {} : { servername: config.tlsServerName })
    }
    const common = { keepAliveTimeout: 30_000, maxResponseSize: -1 }
    return config.proxyUrl === undefined
      ? new Agent({ ...common, connect })
      : new ProxyAgent({
          ...common,
          uri: Redacted.value(config.proxyUrl),
          requestTls: connect,
          proxyTls: { timeout: connectTimeout },
          // Proxies commonly refuse tunnels to plain HTTP ports
          proxyTunnel: https
        })
  }

  const dispatchers = yield* Effect.acquireRelease(
    Effect.sync(() => new Set<Dispatcher>()),
    (all) =>
      Effect.forEach(all, (dispatcher) => Effect.ignore(Effect.tryPromise(() => dispatcher.destroy())), {
        concurrency: "unbounded",
        discard: true
      })
  )
  const current = yield* Ref.make<Connection | undefined>(undefined)

  const connectionFor = (tls: Credentials["tls"]): Effect.Effect<Connection> =>
    Ref.modify(current, (known) => {
      if (known !== undefined && known.tls === tls) return [known, known] as const
      const dispatcher = dispatcherFor(tls)
      dispatchers.add(dispatcher)
      if (known !== undefined) {
        // Streams under way end on the old certificate; a live watch must not die of a renewal
        const old = known.dispatcher
        void old.close().then(
          () => dispatchers.delete(old),
          () => dispatchers.delete(old)
        )
      }
      const client = HttpClient.withScope(NodeHttpClient.makeUndici(dispatcher.compose(interceptor)))
      const connection: Connection = { tls, client: client as HttpClient.HttpClient, dispatcher }
      return [connection, connection] as const
    })

  const limiter =
    options.rateLimit === "none"
      ? RateLimit.unlimited
      : yield* RateLimit.make(options.rateLimit ?? { qps: 50, burst: 300 })

  const credentialFailure = (error: KubeConfigError): HttpFailure =>
    new HttpFailure({
      phase: "credentials",
      detail: error.what,
      remedy: `${error.advice} Nothing was sent.`,
      cause: error
    })

  const advised = (failure: HttpFailure): HttpFailure => {
    if (failure.phase !== "tls" && failure.phase !== "connect") return failure
    const code = codeOf(failure.cause)
    const { onConnect, onTls } = config.advice
    const remedy = failure.phase === "tls" ? onTls(code, failure.detail) : onConnect(code, failure.detail)
    return new HttpFailure({
      phase: failure.phase,
      detail: failure.detail,
      cause: failure.cause,
      remedy: `${remedy} (${config.identity})`
    })
  }

  const answerFor = (wire: Wire, credentials: Credentials, response: HttpClientResponse.HttpClientResponse): Answer => {
    const encoding = response.headers["content-encoding"] ?? "identity"
    const raw = Effect.mapError(
      wire.body.take,
      Option.map((error) => failureOf(error, true))
    )
    const collected = Effect.gen(function* () {
      const all: Array<Uint8Array> = []
      let size = 0
      for (;;) {
        const taken = yield* Effect.either(raw)
        if (Either.isLeft(taken)) {
          if (Option.isSome(taken.left)) return yield* taken.left.value
          return Buffer.concat(all)
        }
        for (const piece of taken.right) {
          all.push(piece)
          size += piece.length
        }
        if (size > maximumCallBytes) return yield* tooLarge(maximumCallBytes)
      }
    })
    const text = Effect.flatMap(collected, (body) => {
      if (encoding === "identity") return Effect.succeed(decoder.decode(body))
      if (encoding === "gzip") return Effect.map(unzipped(body, maximumCallBytes), (all) => decoder.decode(all))
      return unknownEncoding(encoding)
    }).pipe(
      Effect.timeoutFail({
        duration: callTimeout,
        onTimeout: () =>
          new HttpFailure({ phase: "silence", detail: `the answer has no end within ${callTimeout / 1000} s` })
      })
    )
    return {
      status: response.status,
      headers: response.headers,
      text,
      take: encoding === "identity" ? raw : Effect.mapError(unknownEncoding(encoding), Option.some),
      credentials
    }
  }

  /** One request on one connection. */
  const exchange = (
    kind: Kind,
    request: HttpClientRequest.HttpClientRequest,
    attempt: number,
    waited: number
  ): Effect.Effect<Answer, HttpFailure, Scope.Scope> =>
    Effect.gen(function* () {
      const credentials = yield* Effect.mapError(config.credentials, credentialFailure)
      const { client } = yield* connectionFor(credentials.tls)
      const wire: Wire = {
        headers: credentials.headers,
        headersTimeout,
        bodyTimeout: idle[kind],
        body: Body.make()
      }
      const prepared: HttpClientRequest.HttpClientRequest = {
        ...request,
        url: `${config.server}${request.url}`,
        headers: Headers.setAll(request.headers, {
          "user-agent": userAgent,
          "accept-encoding": kind === "call" && !config.disableCompression ? "gzip" : "identity"
        })
      }
      const executed = client.execute(prepared).pipe(
        Effect.provideService(NodeHttpClient.UndiciRequestOptions, {
          [wireKey]: wire
        } as unknown as Dispatcher.RequestOptions),
        Effect.mapError((error) => advised(failureOf(wire.body.failure() ?? error.cause ?? error, false)))
      )
      const told = options.onExchange
      if (told === undefined) return answerFor(wire, credentials, yield* executed)
      const began = yield* Clock.currentTimeMillis
      const tell = (rest: Pick<Exchange, "stage" | "status" | "outcome" | "failure">): Effect.Effect<void> =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          told({
            ...rest,
            method: request.method,
            target: Redaction.target(request.url),
            attempt,
            duration: now - began,
            waited,
            bytes: wire.body.received()
          })
        )
      const response = yield* Effect.onExit(executed, (exit) =>
        Exit.match(exit, {
          onSuccess: ({ status }) =>
            kind === "call" ? Effect.void : tell({ stage: "opened", status, outcome: "answered", failure: undefined }),
          onFailure: (cause) =>
            tell({
              stage: "ended",
              status: undefined,
              outcome: cause._tag === "Fail" ? "failed" : "interrupted",
              failure: cause._tag === "Fail" ? cause.error.message : undefined
            })
        })
      )
      yield* Effect.addFinalizer(() => {
        const failure = wire.body.failure()
        const outcome = wire.body.complete() ? "answered" : failure === undefined ? "interrupted" : "failed"
        return tell({
          stage: "ended",
          status: response.status,
          outcome,
          failure: outcome === "failed" ? failureOf(failure, true).message : undefined
        })
      })
      return answerFor(wire, credentials, response)
    })

  const send: KubeHttp["send"] = (kind, request, { attempt = 1, lane = laneOf[kind] } = {}) =>
    Effect.gen(function* () {
      const waited = yield* limiter.turn(lane)
      const once = exchange(kind, request, attempt, waited)
      // A server that closed the connection while it was idle is noticed when this process next looks at its sockets
      if (request.method !== "GET") return yield* Effect.zipRight(socketsSeen, once)
      return yield* Effect.catchIf(once, neverAnswered, () =>
        Effect.flatMap(Random.nextIntBetween(5, 25), (pause) =>
          Effect.zipRight(socketPause(pause), exchange(kind, request, attempt + 1, 0))
        )
      )
    })

  return {
    send,
    renew: (used) => Effect.mapBoth(config.renew(used), { onFailure: credentialFailure, onSuccess: Option.isSome }),
    identity: config.identity,
    advice: config.advice
  }
})
