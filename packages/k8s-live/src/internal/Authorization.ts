/**
 * What proves who asks: tokens, token files, basic authentication, credential plugins and `auth-provider` users.
 *
 * @module
 */
import type { RequestOptions } from "node:https"
import { CommandExecutor } from "@effect/platform"
import { Clock, type Duration, Effect, Either, Ref, Schema, type Scope } from "effect"
import { expiryOf } from "./Advice.js"
import { type Refuse, refuser, userField } from "./Check.js"
import { present, type ExecEntry, type Selected, type UserEntry } from "./Document.js"
import * as ExecCredential from "./ExecCredential.js"
import { KubeConfigError } from "./KubeConfigError.js"
import * as Oidc from "./Oidc.js"
import * as Redaction from "./Redaction.js"
import * as SingleFlight from "./SingleFlight.js"
import type { ClientNodeKubeConfig } from "./Source.js"

// A projected token is replaced long before it expires, so a few seconds of an old one do no harm
const fileMaxAge = 10_000

/** A file whose content is read again when it is older than `fileMaxAge`, or when the server refused what it said. */
export interface Watched {
  readonly read: Effect.Effect<string, KubeConfigError>
  readonly expire: Effect.Effect<void>
}

/** Reads a file so; one that cannot be read the first time is an error. */
export const watched = (read: Effect.Effect<string, KubeConfigError>): Effect.Effect<Watched> =>
  Effect.map(Ref.make<{ readonly text: string; readonly at: number } | undefined>(undefined), (state) => ({
    read: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const last = yield* Ref.get(state)
      if (last !== undefined && now - last.at < fileMaxAge) return last.text
      // A file that is being replaced must not end what works with its last content
      const text = yield* last === undefined ? read : Effect.orElseSucceed(read, () => last.text)
      yield* Ref.set(state, { text, at: now })
      return text
    }),
    expire: Ref.update(state, (last) => (last === undefined ? last : { ...last, at: -Infinity }))
  }))

/** What never changes. */
export const constant = (text: string): Watched => ({ read: Effect.succeed(text), expire: Effect.void })

/** A PEM text from base64. */
export const decodePem = (data: string, field: string, refuse: Refuse): Either.Either<string, KubeConfigError> => {
  const text = Buffer.from(data, "base64").toString("utf8")
  return text.includes("-----BEGIN ")
    ? Either.right(text)
    : Either.left(refuse(field, "this is not base64 of a PEM text", "Copy it again from where it was issued."))
}

/** What proves who asks: a header, a certificate with its key, or nothing. */
export interface Grant {
  readonly header: string | undefined
  readonly certificate?: string
  readonly key?: string
}

/** Where a grant comes from. */
export interface Authorization {
  readonly value: Effect.Effect<Grant, KubeConfigError>
  /** The server refused a grant with this header and certificate: forget it, unless it has been replaced already. */
  readonly expire: (refused: Pick<Grant, "header" | "certificate">) => Effect.Effect<void>
}

const fixed = (header: string | undefined): Authorization => ({
  value: Effect.succeed({ header }),
  expire: () => Effect.void
})

const bearer = (token: string | undefined): string | undefined => (token === undefined ? undefined : `Bearer ${token}`)

const fromExec = (
  selected: Selected,
  exec: ExecEntry,
  ca: Watched | undefined,
  timeout: Duration.DurationInput
): Effect.Effect<Authorization, never, CommandExecutor.CommandExecutor | Scope.Scope> =>
  Effect.gen(function* () {
    const executor = yield* CommandExecutor.CommandExecutor
    const last = yield* Ref.make<ExecCredential.ExecCredential | undefined>(undefined)
    const flight = yield* SingleFlight.make(
      Effect.gen(function* () {
        const caText = ca === undefined || exec.provideClusterInfo !== true ? undefined : yield* ca.read
        const caData = caText === undefined ? undefined : Buffer.from(caText, "utf8").toString("base64")
        const credential = yield* ExecCredential.run(selected, exec, caData, timeout)
        yield* Ref.set(last, credential)
        return credential
      }).pipe(Effect.provideService(CommandExecutor.CommandExecutor, executor))
    )
    return {
      value: Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const kept = yield* Ref.get(last)
        const usable = kept !== undefined && (kept.renewAt === undefined || now < kept.renewAt)
        const { token, certificate, key } = usable ? kept : yield* flight
        return {
          header: bearer(token),
          ...(certificate === undefined || key === undefined ? {} : { certificate, key })
        }
      }),
      expire: (refused) =>
        Ref.update(last, (kept) =>
          bearer(kept?.token) === refused.header &&
          (kept?.certificate === undefined || kept.certificate === refused.certificate)
            ? undefined
            : kept
        )
    }
  })

const oidcRemedy = "Log in again with the tool that wrote the kubeconfig, or use its exec plugin."

/** An OpenID Connect login: its id token as long as it lasts, then a new one for the refresh token. */
const fromOidc = (
  selected: Selected,
  file: (path: string, field: string) => Effect.Effect<Watched>,
  proxyFor: (url: string) => Effect.Effect<string | undefined, KubeConfigError>,
  timeout: Duration.DurationInput
): Effect.Effect<Authorization, KubeConfigError, Scope.Scope> =>
  Effect.gen(function* () {
    const field = userField(selected, "auth-provider (oidc)")
    const refuse = (problem: string, advice = oidcRemedy): KubeConfigError => refuser(selected)(field, problem, advice)
    const decoded = Schema.decodeUnknownEither(Oidc.OidcConfig)(selected.user["auth-provider"]?.config ?? {})
    if (Either.isLeft(decoded)) return yield* refuse("a field of its config is not text", "Put it into quotes.")
    const config = decoded.right
    const issuer = present(config["idp-issuer-url"])
    if (issuer !== undefined && !URL.canParse(issuer)) {
      return yield* refuse("idp-issuer-url is not a URL", "Write it as https://host/path.")
    }
    const clientId = present(config["client-id"])
    const proxy = issuer === undefined ? undefined : yield* proxyFor(issuer)
    const caData = present(config["idp-certificate-authority-data"])
    const caFile = present(config["idp-certificate-authority"])
    const ca =
      caData !== undefined
        ? constant(yield* decodePem(caData, field, refuser(selected)))
        : caFile === undefined
          ? undefined
          : yield* file(caFile, field)
    const tokens = yield* Ref.make({
      idToken: present(config["id-token"]),
      refreshToken: present(config["refresh-token"])
    })
    const flight = yield* SingleFlight.make(
      Effect.gen(function* () {
        const { idToken, refreshToken } = yield* Ref.get(tokens)
        if (refreshToken === undefined || issuer === undefined || clientId === undefined) {
          const what = idToken === undefined ? "there is no id-token" : "the id-token is not accepted any more"
          return yield* refuse(`${what}, and nothing to renew it with (refresh-token, idp-issuer-url, client-id)`)
        }
        const next = yield* Oidc.refresh(
          issuer,
          clientId,
          present(config["client-secret"]),
          refreshToken,
          ca === undefined ? undefined : yield* ca.read,
          proxy
        ).pipe(
          Effect.mapError((error) => (error instanceof KubeConfigError ? error : refuse(error.problem))),
          Effect.timeoutFail({
            duration: timeout,
            onTimeout: () => refuse("the issuer gives no answer", "Is it reachable from here?")
          })
        )
        yield* Ref.set(tokens, next)
        return next.idToken
      })
    )
    return {
      value: Effect.gen(function* () {
        const { idToken } = yield* Ref.get(tokens)
        const usable = idToken !== undefined && !(yield* Oidc.isOver(expiryOf(bearer(idToken))))
        return { header: bearer(usable ? idToken : yield* flight) }
      }),
      // A token without a successor is kept, so that the server's refusal is what is told
      expire: (refused) =>
        Ref.update(tokens, (kept) =>
          bearer(kept.idToken) === refused.header && kept.refreshToken !== undefined
            ? { ...kept, idToken: undefined }
            : kept
        )
    }
  })

const providerMargin = 30_000

/** The authenticator of client-node for an `auth-provider` user of another kind, or of a configuration of its own. */
const fromProvider = (
  selected: Selected,
  provider: NonNullable<UserEntry["auth-provider"]>,
  given: ClientNodeKubeConfig | undefined,
  timeout: Duration.DurationInput
): Effect.Effect<Authorization, never, Scope.Scope> =>
  Effect.gen(function* () {
    const refuse = refuser(selected)
    const field = userField(selected, `auth-provider (${provider.name})`)
    const authenticator = yield* Effect.cached(
      given !== undefined
        ? Effect.succeed(given)
        : Effect.tryPromise({
            try: async (): Promise<ClientNodeKubeConfig> => {
              const { KubeConfig: ClientNode } = await import("@kubernetes/client-node")
              const config = new ClientNode()
              const name = "auth"
              // Its agent is not used, so the server named here is never reached; its http:// refusal must not matter
              config.loadFromClusterAndUser(
                { name, server: "https://unused.invalid", skipTLSVerify: false },
                {
                  name: selected.userName ?? name,
                  authProvider: { name: provider.name, config: { ...provider.config } }
                }
              )
              return config
            },
            catch: () =>
              refuse(
                field,
                "@kubernetes/client-node cannot be loaded",
                "Install it beside this package (version 1.4 or 2)."
              )
          })
    )
    const last = yield* Ref.make<{ readonly header: string; readonly renewAt: number } | undefined>(undefined)
    const flight = yield* SingleFlight.make(
      Effect.gen(function* () {
        const config = yield* authenticator
        const options: RequestOptions = { headers: {} }
        yield* Effect.tryPromise({
          try: () => config.applyToHTTPSOptions(options),
          catch: (cause) =>
            refuse(
              field,
              `it gives no credentials (${Redaction.shown(cause instanceof Error ? cause.message : String(cause), 200)})`,
              "Log in again with its own tool, or use an exec plugin."
            )
        }).pipe(
          Effect.timeoutFail({
            duration: timeout,
            onTimeout: () => refuse(field, "it gives no answer", "Is its issuer reachable?")
          })
        )
        const value = Object.entries(options.headers ?? {}).find(
          ([name]) => name.toLowerCase() === "authorization"
        )?.[1]
        if (typeof value !== "string") {
          return yield* refuse(
            field,
            "it gives no token; perhaps the login expired",
            "Log in again with its own tool, or use an exec plugin."
          )
        }
        // Asked again on every request it would fetch a token each time after its first renewal
        const expiry = expiryOf(value)
        yield* Ref.set(last, expiry === undefined ? undefined : { header: value, renewAt: expiry - providerMargin })
        return value
      })
    )
    return {
      value: Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const kept = yield* Ref.get(last)
        return { header: kept !== undefined && now < kept.renewAt ? kept.header : yield* flight }
      }),
      expire: (refused) => Ref.update(last, (kept) => (kept?.header === refused.header ? undefined : kept))
    }
  })

/** The way to authenticate that a user names; the first of token file, token, user name, plugin and provider. */
export const make = (
  selected: Selected,
  file: (path: string, field: string) => Effect.Effect<Watched>,
  ca: Watched | undefined,
  given: ClientNodeKubeConfig | undefined,
  proxyFor: (url: string) => Effect.Effect<string | undefined, KubeConfigError>,
  timeout: Duration.DurationInput
): Effect.Effect<Authorization, KubeConfigError, CommandExecutor.CommandExecutor | Scope.Scope> =>
  Effect.gen(function* () {
    const { user } = selected
    const refuse = refuser(selected)
    const tokenFile = present(user.tokenFile)
    const token = present(user.token)
    if (tokenFile !== undefined) {
      const watchedToken = yield* file(tokenFile, userField(selected, "tokenFile"))
      // https://pkg.go.dev/k8s.io/client-go/tools/clientcmd/api#AuthInfo: the file wins, the token stands in for it
      const text = token === undefined ? watchedToken.read : Effect.orElseSucceed(watchedToken.read, () => token)
      return {
        value: Effect.flatMap(text, (content) => {
          const trimmed = content.trim()
          return trimmed === ""
            ? refuse(userField(selected, "tokenFile"), `the file ${tokenFile} is empty`, "Write the token into it.")
            : Effect.succeed({ header: bearer(trimmed) })
        }),
        expire: () => watchedToken.expire
      }
    }
    if (token !== undefined) return fixed(bearer(token.trim()))
    const name = present(user.username)
    if (name !== undefined) {
      const pair = Buffer.from(`${name}:${user.password ?? ""}`, "utf8").toString("base64")
      return fixed(`Basic ${pair}`)
    }
    if (user.exec !== null && user.exec !== undefined) return yield* fromExec(selected, user.exec, ca, timeout)
    const provider = user["auth-provider"]
    if (provider !== null && provider !== undefined) {
      return yield* provider.name === "oidc" && given === undefined
        ? fromOidc(selected, file, proxyFor, timeout)
        : fromProvider(selected, provider, given, timeout)
    }
    return fixed(undefined)
  })
