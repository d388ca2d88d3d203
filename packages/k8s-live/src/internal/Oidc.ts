/**
 * Renewing an OpenID Connect login (`auth-provider` with name `oidc`) as kubectl does: the issuer's token endpoint is found
 * by discovery (OpenID Connect Discovery 1.0) and asked with the refresh token (RFC 6749 section 6).
 *
 * @module
 */
import { Clock, Effect, Schema } from "effect"
import { Agent, type Dispatcher, ProxyAgent, request } from "undici"
import * as Redaction from "./Redaction.js"

/** `users[].user.auth-provider.config`, with the fields of kubectl. */
export const OidcConfig = Schema.Struct({
  "idp-issuer-url": Schema.optional(Schema.String),
  "client-id": Schema.optional(Schema.String),
  "client-secret": Schema.optional(Schema.String),
  "id-token": Schema.optional(Schema.String),
  "refresh-token": Schema.optional(Schema.String),
  "idp-certificate-authority": Schema.optional(Schema.String),
  "idp-certificate-authority-data": Schema.optional(Schema.String)
})
/** See the schema of the same name. */
export type OidcConfig = typeof OidcConfig.Type

/** What the issuer gave. */
export interface Tokens {
  readonly idToken: string
  readonly refreshToken: string
}

/** Why there is no new token, in words fit to be shown. */
export interface Problem {
  readonly problem: string
}

const Discovery = Schema.parseJson(
  Schema.Struct({
    token_endpoint: Schema.String,
    token_endpoint_auth_methods_supported: Schema.optional(Schema.Array(Schema.String))
  })
)
const Answer = Schema.parseJson(
  Schema.Struct({
    id_token: Schema.optional(Schema.String),
    refresh_token: Schema.optional(Schema.String),
    error: Schema.optional(Schema.String),
    error_description: Schema.optional(Schema.String)
  })
)
const decodeDiscovery = Schema.decodeUnknownOption(Discovery)
const decodeAnswer = Schema.decodeUnknownOption(Answer)

const largest = 1024 * 1024

const ask = (
  dispatcher: Dispatcher,
  url: string,
  form: { readonly body: string; readonly headers: Record<string, string> } | undefined
): Effect.Effect<{ readonly status: number; readonly text: string }, Problem> =>
  Effect.tryPromise({
    try: async (signal) => {
      const { body, statusCode } = await request(url, {
        dispatcher,
        signal,
        ...(form === undefined ? { method: "GET" } : { method: "POST", ...form })
      })
      return { status: statusCode, text: await body.text() }
    },
    catch: (cause): Problem => ({
      problem: `the issuer at ${new URL(url).host} cannot be asked (${Redaction.shown(
        cause instanceof Error ? cause.message : String(cause),
        200
      )})`
    })
  })

/** Asks the issuer for a new id token. A refresh token that is not replaced stays the one to use. */
export const refresh = (
  issuer: string,
  clientId: string,
  clientSecret: string | undefined,
  refreshToken: string,
  ca: string | undefined,
  proxy: string | undefined
): Effect.Effect<Tokens, Problem> =>
  Effect.gen(function* () {
    const connect = ca === undefined ? {} : { ca }
    const limits = { maxResponseSize: largest }
    const dispatcher = yield* Effect.acquireRelease(
      Effect.sync(() =>
        proxy === undefined
          ? new Agent({ ...limits, connect })
          : new ProxyAgent({ ...limits, uri: proxy, requestTls: connect })
      ),
      (open) => Effect.ignore(Effect.tryPromise(() => open.destroy()))
    )
    const place = `${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`
    const discovered = yield* ask(dispatcher, place, undefined)
    const found = decodeDiscovery(discovered.text)
    if (discovered.status !== 200 || found._tag === "None" || !URL.canParse(found.value.token_endpoint)) {
      return yield* Effect.fail({ problem: `the issuer answers ${discovered.status} without a configuration` })
    }
    const { token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = found.value
    const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token: refreshToken })
    const headers: Record<string, string> = { "content-type": "application/x-www-form-urlencoded" }
    if (clientSecret === undefined) form.set("client_id", clientId)
    else if (methods === undefined || methods.includes("client_secret_basic")) {
      // RFC 6749 section 2.3.1: both are form-encoded first
      const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`
      headers["authorization"] = `Basic ${Buffer.from(pair, "utf8").toString("base64")}`
    } else {
      form.set("client_id", clientId)
      form.set("client_secret", clientSecret)
    }
    const { status, text } = yield* ask(dispatcher, endpoint, { body: form.toString(), headers })
    const answer = decodeAnswer(text)
    if (answer._tag === "None") return yield* Effect.fail({ problem: `the issuer answers ${status} without a token` })
    const { error, error_description: description, id_token: idToken, refresh_token: next } = answer.value
    if (error !== undefined || status >= 300) {
      const words = Redaction.shown([error, description].filter((word) => word !== undefined).join(": "), 200)
      return yield* Effect.fail({ problem: `the issuer answers ${status}${words === "" ? "" : ` (${words})`}` })
    }
    if (idToken === undefined || idToken === "") {
      return yield* Effect.fail({ problem: "the issuer renews no id token (the login may lack the scope openid)" })
    }
    return { idToken, refreshToken: next ?? refreshToken }
  }).pipe(Effect.scoped)

/** Whether a token that ends then (epoch milliseconds) is not to be sent any more. */
export const isOver = (expiry: number | undefined): Effect.Effect<boolean> =>
  // kubectl's margin
  Effect.map(Clock.currentTimeMillis, (now) => expiry !== undefined && now >= expiry - 10_000)
