/**
 * Where the API server is and who asks: kubeconfig files, in-cluster configuration, and the credentials they name.
 *
 * The files are read here, with errors that name the file and the field. `auth-provider` users other than OIDC are answered
 * by `@kubernetes/client-node`, which is loaded only for them; plugins, OIDC, token files, certificates and basic
 * authentication are not left to it, because it runs plugins once per concurrent request, never renews them after a
 * 401, takes an OIDC token's lifetime for its end, and ignores `tokenFile` and contexts without a user.
 *
 * @module
 */
import { createSecureContext } from "node:tls"
import { type CommandExecutor, FileSystem } from "@effect/platform"
import { Clock, Context, type Duration, Effect, Layer, Option, Redacted, Ref, type Scope } from "effect"
import * as Advice from "./internal/Advice.js"
import * as Authorization from "./internal/Authorization.js"
import {
  clusterField,
  impersonation,
  isHeaderValue,
  proxyProblem,
  refuser,
  unfit,
  userField,
  validate
} from "./internal/Check.js"
import { present } from "./internal/Document.js"
import { KubeConfigError } from "./internal/KubeConfigError.js"
import * as Proxy from "./internal/Proxy.js"
import { type ClientNodeKubeConfig, optional, readText, select, type Selection, Source } from "./internal/Source.js"

export { KubeConfigError, Source }
export type { ClientNodeKubeConfig }

/** See the fields. */
export interface Options extends Selection {
  /** Instead of the context's namespace. */
  readonly namespace?: string | undefined
  /** How long a credential plugin may take. Default one minute. */
  readonly execTimeout?: Duration.DurationInput | undefined
}

/** PEM texts for TLS. */
export interface TlsMaterial {
  readonly ca: string | undefined
  readonly certificate: string | undefined
  readonly key: string | undefined
}

/** The credentials of one moment. The same object is given again while nothing has changed. */
export interface Credentials {
  /** Request headers by lower-case name; several values are several header lines. */
  readonly headers: Redacted.Redacted<Readonly<Record<string, string | ReadonlyArray<string>>>>
  /** The same object while the material is the same. */
  readonly tls: Redacted.Redacted<TlsMaterial>
}

/** A configuration that was found, read and checked. */
export interface Service {
  /** The file, or a word for where the configuration came from. */
  readonly origin: string
  readonly contextName: string | undefined
  readonly clusterName: string
  readonly userName: string | undefined
  /** The context's namespace; in a pod, the pod's. */
  readonly namespace: string | undefined
  /** Base URL without a slash at its end, and without what may be a secret: user, password, query. Fit to be shown. */
  readonly server: string
  readonly skipTlsVerify: boolean
  readonly tlsServerName: string | undefined
  /** `cluster.proxy-url`, else what `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say. */
  readonly proxyUrl: Redacted.Redacted | undefined
  /** `cluster.disable-compression`: do not ask for gzip. */
  readonly disableCompression: boolean
  /**
   * The credentials to use now. Reads token and certificate files again when they may have changed, and runs the
   * credential plugin when its last answer is about to expire; concurrent callers share one run.
   */
  readonly credentials: Effect.Effect<Credentials, KubeConfigError>
  /**
   * Called when the server refused `used`: other credentials where there are any. Files are read and plugins are run
   * again, once for all who hold the same refused credentials.
   */
  readonly renew: (used: Credentials) => Effect.Effect<Option.Option<Credentials>, KubeConfigError>
  /** Context, user and file, for messages: `context "x", user "u", /home/jane/.kube/config`. */
  readonly identity: string
  /** What to do when something fails; whole sentences without secrets. */
  readonly advice: {
    /** The server refused these credentials, and there are no others. */
    readonly onRefusal: (used: Credentials) => Effect.Effect<string>
    /** No TLS connection; `code` and `text` are Node's. */
    readonly onTls: (code: string, text: string) => string
    /** No connection. */
    readonly onConnect: (code: string, text: string) => string
  }
}

/** The configuration of one API server. */
export class KubeConfig extends Context.Tag("@dispatch-kubeflow/k8s-live/KubeConfig")<KubeConfig, Service>() {}

/** Go's client leaves query and fragment out, too (`rest.NewRESTClient`); user and password would be shown with the address. */
const baseOf = (server: string): string => {
  if (!/[@?#]/.test(server)) return server.replace(/\/+$/, "")
  const { origin, pathname } = new URL(server)
  return `${origin}${pathname}`.replace(/\/+$/, "")
}

const execTimeoutDefault: Duration.DurationInput = "1 minute"

const environmentProxy = (server: string): Effect.Effect<string | undefined, KubeConfigError> =>
  Effect.gen(function* () {
    const either = (name: string): Effect.Effect<string | undefined, KubeConfigError> =>
      Effect.flatMap(optional(name.toLowerCase()), (value) =>
        value === undefined ? optional(name) : Effect.succeed(value)
      )
    const proxy = Proxy.forServer(server, {
      httpProxy: yield* either("HTTP_PROXY"),
      httpsProxy: yield* either("HTTPS_PROXY"),
      noProxy: yield* either("NO_PROXY")
    })
    const problem = proxy === undefined ? undefined : proxyProblem(proxy)
    if (problem === undefined) return proxy
    return yield* new KubeConfigError({
      origin: "environment",
      field: "HTTPS_PROXY, HTTP_PROXY",
      problem,
      advice: "Use an http:// or https:// proxy, or name the server in NO_PROXY."
    })
  })

/**
 * Finds and reads a configuration and checks that it can work. Fails with `KubeConfigError`. Credentials are not asked
 * for before the first request.
 */
export const load = Effect.fn("KubeConfig.load")(function* (
  options: Options = {}
): Effect.fn.Return<Service, KubeConfigError, FileSystem.FileSystem | CommandExecutor.CommandExecutor | Scope.Scope> {
  const fileSystem = yield* FileSystem.FileSystem
  const selected = yield* select(options)
  const problem = validate(selected)
  if (problem !== undefined) return yield* problem
  const refuse = refuser(selected)
  const { cluster, user } = selected
  const server = baseOf(present(cluster.server) ?? "")
  const timeout = options.execTimeout ?? execTimeoutDefault

  const file = (path: string, field: string): Effect.Effect<Authorization.Watched> =>
    Authorization.watched(
      readText(path, (what, advice) => refuse(field, what, advice)).pipe(
        Effect.provideService(FileSystem.FileSystem, fileSystem)
      )
    )
  const pem = (
    path: string | null | undefined,
    data: string | null | undefined,
    field: string
  ): Effect.Effect<Authorization.Watched | undefined, KubeConfigError> =>
    Effect.gen(function* () {
      const given = present(data)
      if (given !== undefined)
        return Authorization.constant(yield* Authorization.decodePem(given, `${field}-data`, refuse))
      const named = present(path)
      return named === undefined ? undefined : yield* file(named, field)
    })

  const ca = yield* pem(
    cluster["certificate-authority"],
    cluster["certificate-authority-data"],
    clusterField(selected, "certificate-authority")
  )
  const certificate = yield* pem(
    user["client-certificate"],
    user["client-certificate-data"],
    userField(selected, "client-certificate")
  )
  const key = yield* pem(user["client-key"], user["client-key-data"], userField(selected, "client-key"))

  const given = options.source?._tag === "ClientNode" ? options.source.config : undefined
  const authorization = yield* Authorization.make(selected, file, ca, given, environmentProxy, timeout)
  const impersonated = impersonation(user)
  const last = yield* Ref.make<
    | { readonly credentials: Credentials; readonly header: string | undefined; readonly material: TlsMaterial }
    | undefined
  >(undefined)

  const credentials: Effect.Effect<Credentials, KubeConfigError> = Effect.gen(function* () {
    const granted = yield* authorization.value
    const material: TlsMaterial = {
      ca: ca === undefined ? undefined : yield* ca.read,
      certificate: granted.certificate ?? (certificate === undefined ? undefined : yield* certificate.read),
      key: granted.key ?? (key === undefined ? undefined : yield* key.read)
    }
    const known = yield* Ref.get(last)
    const sameTls =
      known !== undefined &&
      known.material.ca === material.ca &&
      known.material.certificate === material.certificate &&
      known.material.key === material.key
    if (sameTls && known.header === granted.header) return known.credentials
    if (!isHeaderValue(granted.header)) {
      const given = (["tokenFile", "exec", "auth-provider"] as const).find((field) => user[field])
      return yield* refuse(userField(selected, given ?? "token"), ...unfit)
    }
    if (!sameTls) {
      yield* Effect.try({
        try: () =>
          createSecureContext({
            ...(material.ca === undefined ? {} : { ca: material.ca }),
            ...(material.certificate === undefined ? {} : { cert: material.certificate }),
            ...(material.key === undefined ? {} : { key: material.key })
          }),
        catch: (cause) =>
          refuse(
            material.certificate === undefined
              ? clusterField(selected, "certificate-authority")
              : `${userField(selected, "client-certificate")}, client-key, certificate-authority`,
            `the certificates cannot be used (${
              cause instanceof Error && "code" in cause ? String(cause.code) : "not PEM"
            })`,
            "Certificate and key must be PEM and belong to each other."
          )
      })
    }
    const fresh: Credentials = {
      headers: Redacted.make({
        ...impersonated,
        ...(granted.header === undefined ? {} : { authorization: granted.header })
      }),
      tls: sameTls ? known.credentials.tls : Redacted.make(material)
    }
    yield* Ref.set(last, { credentials: fresh, header: granted.header, material })
    return fresh
  })

  const renew: Service["renew"] = (used) =>
    Effect.gen(function* () {
      const current = yield* Ref.get(last)
      // Somebody who was refused earlier has renewed them already
      if (current?.credentials === used) {
        yield* authorization.expire({
          header: current.header,
          ...(current.material.certificate === undefined ? {} : { certificate: current.material.certificate })
        })
        yield* Effect.forEach([certificate, key, ca], (part) => part?.expire ?? Effect.void, { discard: true })
      }
      const fresh = yield* credentials
      return fresh === used ? Option.none() : Option.some(fresh)
    })

  const ownProxy = present(cluster["proxy-url"])
  const proxy = ownProxy ?? (yield* environmentProxy(server))
  const through =
    proxy === undefined
      ? undefined
      : {
          name: Advice.proxyName(proxy),
          from: ownProxy === undefined ? "HTTPS_PROXY or HTTP_PROXY" : clusterField(selected, "proxy-url")
        }
  return {
    origin: selected.origin,
    contextName: selected.contextName,
    clusterName: selected.clusterName,
    userName: selected.userName,
    namespace: present(options.namespace) ?? selected.namespace,
    server,
    skipTlsVerify: cluster["insecure-skip-tls-verify"] === true,
    tlsServerName: present(cluster["tls-server-name"]),
    proxyUrl: proxy === undefined ? undefined : Redacted.make(proxy),
    disableCompression: cluster["disable-compression"] === true,
    credentials,
    renew,
    identity: Advice.identity(selected),
    advice: {
      onRefusal: ({ headers, tls }) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const { authorization: header } = Redacted.value(headers)
          return Advice.ofRefusal(
            selected,
            {
              header: typeof header === "string" ? header : undefined,
              certificate: Redacted.value(tls).certificate
            },
            now
          )
        }),
      onTls: (code, text) => Advice.ofTls(code, text, selected),
      onConnect: (code, text) => Advice.ofConnection(code, text, server, through)
    }
  }
})

/**
 * A kubeconfig for the same API server with a bearer token in place of the user, e.g. one that the server issued for a
 * service account (TokenRequest). It holds the token.
 */
export const withToken = (
  { credentials, proxyUrl, server, skipTlsVerify, tlsServerName }: Service,
  token: string,
  namespace?: string
): Effect.Effect<object, KubeConfigError> =>
  Effect.map(credentials, ({ tls }) => {
    const { ca } = Redacted.value(tls)
    const cluster = {
      server,
      ...(skipTlsVerify ? { "insecure-skip-tls-verify": true } : {}),
      ...(tlsServerName === undefined ? {} : { "tls-server-name": tlsServerName }),
      ...(proxyUrl === undefined ? {} : { "proxy-url": Redacted.value(proxyUrl) }),
      ...(ca === undefined ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") })
    }
    return {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "token",
      contexts: [
        {
          name: "token",
          context: { cluster: "token", user: "token", ...(namespace === undefined ? {} : { namespace }) }
        }
      ],
      clusters: [{ name: "token", cluster }],
      users: [{ name: "token", user: { token } }]
    }
  })

/** `load` as a layer. */
export const layer = (
  options: Options = {}
): Layer.Layer<KubeConfig, KubeConfigError, FileSystem.FileSystem | CommandExecutor.CommandExecutor> =>
  Layer.scoped(KubeConfig, load(options))
