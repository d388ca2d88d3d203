/**
 * HTTP to one API server: `@effect/platform`'s HttpClient over an undici agent that belongs to the credentials in use.
 *
 * @module
 */
import { readFileSync } from "node:fs"
import { Headers, HttpClient, type HttpClientRequest, type HttpClientResponse } from "@effect/platform"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Data, Duration, Effect, Either, Option, Redacted, Ref, type Scope } from "effect"
import { Agent, type Dispatcher, ProxyAgent } from "undici"
import type { Credentials, KubeConfigError, Service as KubeConfigService } from "./KubeConfig.js"
import * as Body from "./internal/Body.js"
import * as Redaction from "./internal/Redaction.js"

/** How long to wait. Nothing here limits how long a stream may last while something still comes. */
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
}

/** What kind of answer is expected, which decides how long its body may be silent. */
export type Kind = "call" | "watch" | "bytes"

/** Where it failed. */
export type Phase = "connect" | "tls" | "credentials" | "stream" | "silence" | "size"

/** No answer, or an answer that broke off. `detail` is fit to be shown. */
export class HttpFailure extends Data.TaggedError("HttpFailure")<{
  readonly phase: Phase
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.phase}: ${this.detail}`
  }
}

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
    request: HttpClientRequest.HttpClientRequest
  ) => Effect.Effect<Answer, HttpFailure, Scope.Scope>
  /** See `KubeConfig`'s `renew`. */
  readonly renew: (used: Credentials) => Effect.Effect<boolean, HttpFailure>
}

const version = (): string => {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "0.0.0"
}

const millis = (duration: Duration.DurationInput | undefined, otherwise: number): number =>
  duration === undefined ? otherwise : Duration.toMillis(duration)

/** What one exchange tells the agent's interceptor, and what it learns from it. */
interface Exchange {
  readonly headers: Redacted.Redacted<Readonly<Record<string, string | ReadonlyArray<string>>>>
  readonly headersTimeout: number
  readonly bodyTimeout: number
  readonly body: Body.Body
}
const exchangeKey: unique symbol = Symbol("@dispatch-kubeflow/k8s-live/Exchange")

/**
 * Credentials are put on below HttpClient, where no span, log or error of it can see them. Time-outs too, because
 * platform-node sets its own per request; and the body is taken here, see `Body`.
 */
const interceptor: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const exchange = (options as { readonly [exchangeKey]?: Exchange })[exchangeKey]
  if (exchange === undefined) return dispatch(options, handler)
  return dispatch(
    {
      ...options,
      headers: { ...(options.headers as Record<string, string>), ...Redacted.value(exchange.headers) } as Record<
        string,
        string | Array<string>
      >,
      headersTimeout: exchange.headersTimeout,
      bodyTimeout: exchange.bodyTimeout,
      // undici gives a connection up after a DELETE with a body, which API servers read like any other
      reset: false
    },
    {
      onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
      onRequestUpgrade: (controller, status, headers, socket) =>
        handler.onRequestUpgrade?.(controller, status, headers, socket),
      onResponseStart: (controller, status, headers, message) =>
        handler.onResponseStart?.(controller, status, headers, message),
      onResponseData: exchange.body.push,
      onResponseEnd: (controller, trailers) => {
        exchange.body.end()
        handler.onResponseEnd?.(controller, trailers)
      },
      onResponseError: (controller, error) => {
        exchange.body.fail(error)
        handler.onResponseError?.(controller, error)
      }
    }
  )
}

const codeOf = (error: unknown): string =>
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

/** Classifies what undici, Node's net and TLS report. `answered`: the answer's headers were there. */
export const failureOf = (cause: unknown, answered: boolean): HttpFailure => {
  const root = rootOf(cause)
  const code = codeOf(root)
  const text = Redaction.shown(root instanceof Error ? root.message : String(root), 200)
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

  const credentialFailure = (error: KubeConfigError): HttpFailure =>
    new HttpFailure({ phase: "credentials", detail: error.message, cause: error })

  const answerFor = (
    exchange: Exchange,
    credentials: Credentials,
    response: HttpClientResponse.HttpClientResponse
  ): Answer => {
    const take = Effect.mapError(
      exchange.body.take,
      Option.map((error) => failureOf(error, true))
    )
    const text = Effect.gen(function* () {
      const all: Array<Uint8Array> = []
      let size = 0
      for (;;) {
        const taken = yield* Effect.either(take)
        if (Either.isLeft(taken)) {
          if (Option.isSome(taken.left)) return yield* taken.left.value
          return decoder.decode(Buffer.concat(all))
        }
        for (const piece of taken.right) {
          all.push(piece)
          size += piece.length
        }
        if (size > maximumCallBytes) {
          return yield* new HttpFailure({ phase: "size", detail: `an answer of more than ${maximumCallBytes} bytes` })
        }
      }
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
      take,
      credentials
    }
  }

  const send: KubeHttp["send"] = (kind, request) =>
    Effect.gen(function* () {
      const credentials = yield* Effect.mapError(config.credentials, credentialFailure)
      const { client } = yield* connectionFor(credentials.tls)
      const exchange: Exchange = {
        headers: credentials.headers,
        headersTimeout,
        bodyTimeout: idle[kind],
        body: Body.make()
      }
      const prepared: HttpClientRequest.HttpClientRequest = {
        ...request,
        url: `${config.server}${request.url}`,
        headers: Headers.set(request.headers, "user-agent", userAgent)
      }
      const response = yield* client.execute(prepared).pipe(
        Effect.provideService(NodeHttpClient.UndiciRequestOptions, {
          [exchangeKey]: exchange
        } as unknown as Dispatcher.RequestOptions),
        Effect.mapError((error) => failureOf(exchange.body.failure() ?? error.cause ?? error, false))
      )
      return answerFor(exchange, credentials, response)
    })

  return {
    send,
    renew: (used) => Effect.mapBoth(config.renew(used), { onFailure: credentialFailure, onSuccess: Option.isSome })
  }
})
