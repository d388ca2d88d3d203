/**
 * Where the API server is and who asks: kubeconfig files, in-cluster configuration, and the credentials they name.
 *
 * The files are read here, with errors that name the file and the field. `auth-provider` users (OIDC and its like) are
 * answered by `@kubernetes/client-node`, which is loaded only for them; plugins, token files, certificates and basic
 * authentication are not left to it, because it runs plugins once per concurrent request, never renews them after a
 * 401, and ignores `tokenFile` and contexts without a user.
 *
 * @module
 */
import { homedir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import type { RequestOptions } from "node:https"
import { isIPv6 } from "node:net"
import { createSecureContext } from "node:tls"
import { CommandExecutor, FileSystem } from "@effect/platform"
import {
  Clock,
  Config,
  Context,
  Data,
  type Duration,
  Effect,
  Either,
  Layer,
  Option,
  Redacted,
  Ref,
  type Scope
} from "effect"
import * as Document from "./internal/Document.js"
import { present, type Selected } from "./internal/Document.js"
import * as ExecCredential from "./internal/ExecCredential.js"
import { KubeConfigError } from "./internal/KubeConfigError.js"
import * as Proxy from "./internal/Proxy.js"
import * as Redaction from "./internal/Redaction.js"
import * as SingleFlight from "./internal/SingleFlight.js"

export { KubeConfigError }

/**
 * The part of `@kubernetes/client-node`'s `KubeConfig` that its major versions 1 and 2 share and that is needed here.
 * An instance of either fits.
 */
export interface ClientNodeKubeConfig {
  readonly getCurrentContext: () => string
  readonly getContextObject: (name: string) => { readonly namespace?: string } | null
  readonly getCurrentCluster: () => {
    readonly name: string
    readonly server: string
    readonly caData?: string
    readonly caFile?: string
    readonly skipTLSVerify?: boolean
    readonly tlsServerName?: string
    readonly proxyUrl?: string
  } | null
  readonly getCurrentUser: () => {
    readonly name: string
    readonly certData?: string
    readonly certFile?: string
    readonly keyData?: string
    readonly keyFile?: string
    readonly token?: string
    readonly username?: string
    readonly password?: string
    readonly impersonateUser?: string
    readonly exec?: unknown
    readonly authProvider?: unknown
  } | null
  readonly applyToHTTPSOptions: (options: RequestOptions) => Promise<void>
}

/** Where a configuration comes from. */
export type Source = Data.TaggedEnum<{
  /** What kubectl does: `KUBECONFIG`, else `~/.kube/config`, else the pod's service account. */
  readonly Default: {}
  /** These files, merged; each must exist. */
  readonly Files: { readonly paths: readonly [string, ...ReadonlyArray<string>] }
  /** The service account of the pod this runs in. `root` stands before the well-known paths. */
  readonly InCluster: { readonly root?: string }
  /** The text of a kubeconfig. Relative paths in it start at `directory`. */
  readonly Text: { readonly text: string; readonly name?: string; readonly directory?: string }
  /** A kubeconfig as an object, fields named as in the file. */
  readonly Value: { readonly value: unknown; readonly name?: string; readonly directory?: string }
  /** A loaded KubeConfig of `@kubernetes/client-node`. */
  readonly ClientNode: { readonly config: ClientNodeKubeConfig }
}>

/** Constructors of `Source`. */
export const Source = Data.taggedEnum<Source>()

/** See the fields. */
export interface Options {
  /** Default `Source.Default()`. */
  readonly source?: Source | undefined
  /** Instead of the current context. */
  readonly context?: string | undefined
  /** Instead of the context's namespace. */
  readonly namespace?: string | undefined
  /** Instead of the context's user. */
  readonly user?: string | undefined
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
  /** Base URL without a slash at its end. */
  readonly server: string
  readonly skipTlsVerify: boolean
  readonly tlsServerName: string | undefined
  /** `cluster.proxy-url`, else what `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say. */
  readonly proxyUrl: Redacted.Redacted | undefined
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
}

/** The configuration of one API server. */
export class KubeConfig extends Context.Tag("@dispatch-kubeflow/k8s-live/KubeConfig")<KubeConfig, Service>() {}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
// A projected token is replaced long before it expires, so a few seconds of an old one do no harm
const fileMaxAge = 10_000
const execTimeoutDefault: Duration.DurationInput = "1 minute"

const optional = (name: string): Effect.Effect<string | undefined, KubeConfigError> =>
  Config.option(Config.string(name)).pipe(
    Effect.map((value) => present(Option.getOrUndefined(value))),
    Effect.mapError(
      () =>
        new KubeConfigError({
          origin: "environment",
          field: name,
          problem: "the variable cannot be read",
          advice: "Unset it or correct it."
        })
    )
  )

const readText = (
  path: string,
  error: (problem: string, advice: string) => KubeConfigError
): Effect.Effect<string, KubeConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fileSystem) => fileSystem.readFileString(path)).pipe(
    Effect.mapError((cause) =>
      cause._tag === "SystemError" && cause.reason === "NotFound"
        ? error(`there is no file ${path}`, "Correct the path.")
        : error(
            `the file ${path} cannot be read (${cause._tag === "SystemError" ? cause.reason : "bad argument"})`,
            "Check that it is a file and its permissions."
          )
    )
  )

const readFile = (path: string): Effect.Effect<Document.Document, KubeConfigError, FileSystem.FileSystem> =>
  Effect.flatMap(
    readText(
      path,
      (problem, advice) =>
        new KubeConfigError({
          origin: path,
          problem,
          advice: `${advice} KUBECONFIG or --kubeconfig names another file.`
        })
    ),
    (text) => Document.fromText(text, path, dirname(path))
  )

const readFiles = (
  paths: ReadonlyArray<string>
): Effect.Effect<Document.Document, KubeConfigError, FileSystem.FileSystem> =>
  Effect.map(Effect.forEach(paths, readFile), Document.merge)

const inCluster = (root: string): Effect.Effect<Selected, KubeConfigError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fileSystem = yield* FileSystem.FileSystem
    const origin = "in-cluster configuration"
    const host = yield* optional("KUBERNETES_SERVICE_HOST")
    const port = yield* optional("KUBERNETES_SERVICE_PORT")
    const directory = `${root}${serviceAccount}`
    if (host === undefined || port === undefined) {
      return yield* new KubeConfigError({
        origin,
        field: "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT",
        problem: "the variables are not set, so this is no pod",
        advice: "Outside a cluster, name a kubeconfig file."
      })
    }
    const namespace = yield* Effect.option(fileSystem.readFileString(join(directory, "namespace")))
    return {
      origin,
      contextName: undefined,
      namespace: present(Option.getOrUndefined(namespace)?.trim()),
      clusterName: "in-cluster",
      cluster: {
        server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
        "certificate-authority": join(directory, "ca.crt")
      },
      userName: "in-cluster",
      user: { tokenFile: join(directory, "token") }
    }
  })

const fromClientNode = (config: ClientNodeKubeConfig): Either.Either<Selected, KubeConfigError> => {
  const origin = "@kubernetes/client-node KubeConfig"
  const contextName = present(config.getCurrentContext())
  const cluster = config.getCurrentCluster()
  if (cluster === null) {
    return Either.left(
      new KubeConfigError({
        origin,
        context: contextName,
        problem: "it has no current cluster",
        advice: "Load it first, and set a current context that names a cluster."
      })
    )
  }
  const user = config.getCurrentUser()
  const provider: unknown = user?.authProvider
  // What its loadFromCluster makes of a service account
  const tokenFile =
    typeof provider === "object" && provider !== null && "config" in provider
      ? (provider.config as { readonly tokenFile?: string } | undefined)?.tokenFile
      : undefined
  return Either.map(
    Document.fromValue(
      {
        clusters: [
          {
            name: cluster.name,
            cluster: {
              server: cluster.server,
              "certificate-authority": cluster.caFile,
              // It prefers the file where both are given
              "certificate-authority-data": cluster.caFile ? undefined : cluster.caData,
              "insecure-skip-tls-verify": cluster.skipTLSVerify,
              "tls-server-name": cluster.tlsServerName,
              "proxy-url": cluster.proxyUrl
            }
          }
        ],
        users: [
          {
            name: user?.name ?? "",
            user: {
              token: user?.token,
              tokenFile,
              "client-certificate": user?.certFile,
              "client-certificate-data": user?.certFile ? undefined : user?.certData,
              "client-key": user?.keyFile,
              "client-key-data": user?.keyFile ? undefined : user?.keyData,
              username: user?.username,
              password: user?.password,
              as: user?.impersonateUser,
              exec: user?.exec,
              "auth-provider": tokenFile === undefined ? provider : undefined
            }
          }
        ],
        contexts: []
      },
      origin,
      "/"
    ),
    (document): Selected => ({
      origin,
      contextName,
      namespace: contextName === undefined ? undefined : present(config.getContextObject(contextName)?.namespace),
      clusterName: cluster.name,
      cluster: document.clusters.get(cluster.name)?.value ?? {},
      userName: user?.name,
      user: document.users.get(user?.name ?? "")?.value ?? {}
    })
  )
}

const defaultSource: Effect.Effect<Document.Document | "in-cluster", KubeConfigError, FileSystem.FileSystem> =
  Effect.gen(function* () {
    const fileSystem = yield* FileSystem.FileSystem
    const exists = (path: string): Effect.Effect<boolean> => Effect.orElseSucceed(fileSystem.exists(path), () => false)
    const variable = yield* optional("KUBECONFIG")
    if (variable !== undefined) {
      const paths = variable.split(delimiter).filter((path) => path !== "")
      // As kubectl: files of the list that do not exist are skipped
      const existing = yield* Effect.filter(paths, exists)
      if (existing.length === 0) {
        return yield* new KubeConfigError({
          origin: "KUBECONFIG",
          problem: `none of its files exists: ${paths.join(", ")}`,
          advice: "Correct the variable, or unset it to use ~/.kube/config."
        })
      }
      return yield* readFiles(existing)
    }
    const home = (yield* optional("HOME")) ?? homedir()
    const path = join(home, ".kube", "config")
    if (yield* exists(path)) return yield* readFile(path)
    if ((yield* optional("KUBERNETES_SERVICE_HOST")) !== undefined && (yield* exists(`${serviceAccount}/token`))) {
      return "in-cluster"
    }
    return yield* new KubeConfigError({
      origin: "kubeconfig",
      problem: `none was found: KUBECONFIG is not set, there is no ${path}, and this is no pod`,
      advice: "Name a file with --kubeconfig or KUBECONFIG."
    })
  })

const selectFrom = (options: Options): Effect.Effect<Selected, KubeConfigError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const source = options.source ?? Source.Default()
    let document: Document.Document
    switch (source._tag) {
      case "InCluster":
        return yield* inCluster(source.root ?? "")
      case "ClientNode":
        return yield* fromClientNode(source.config)
      case "Default": {
        const found = yield* defaultSource
        if (found === "in-cluster") return yield* inCluster("")
        document = found
        break
      }
      case "Files":
        document = yield* readFiles(source.paths)
        break
      case "Text":
        document = yield* Document.fromText(source.text, source.name ?? "kubeconfig", source.directory ?? ".")
        break
      case "Value":
        document = yield* Document.fromValue(source.value, source.name ?? "kubeconfig", source.directory ?? ".")
        break
    }
    const selected = yield* Document.select(document, present(options.context))
    if (options.user === undefined) return selected
    const user = document.users.get(options.user)
    if (user === undefined) {
      return yield* new KubeConfigError({
        origin: selected.origin,
        context: selected.contextName,
        problem: `there is no user "${options.user}"`,
        advice: "Name one of the kubeconfig's users."
      })
    }
    return { ...selected, userName: options.user, user: user.value }
  })

type Refuse = (field: string, problem: string, advice: string) => KubeConfigError

const refuser =
  (selected: Selected): Refuse =>
  (field, problem, advice) =>
    new KubeConfigError({ origin: selected.origin, context: selected.contextName, field, problem, advice })

const clusterField = (selected: Selected, field: string): string =>
  `clusters["${selected.clusterName}"].cluster.${field}`
const userField = (selected: Selected, field: string): string => `users["${selected.userName ?? ""}"].user.${field}`

/** Whether it can be sent in a header: RFC 9110 section 5.5, without what is not ASCII. */
const isHeaderValue = (text: string | undefined): boolean => text === undefined || /^[\t\x20-\x7e]*$/.test(text)

const unfit = [
  "it has a line break or a character that no HTTP header can hold",
  "Copy it again from where it was issued."
] as const

/** What is wrong with the selection, known before any request. The rules are those of client-go's own validation. */
const validate = (selected: Selected): KubeConfigError | undefined => {
  const refuse = refuser(selected)
  const { cluster, user } = selected
  const ofCluster = (field: string): string => clusterField(selected, field)
  const ofUser = (field: string): string => userField(selected, field)
  const server = present(cluster.server)
  if (server === undefined) return refuse(ofCluster("server"), "no server is given", "Write its URL.")
  if (!URL.canParse(server) || !/^https?:\/\//i.test(server)) {
    return refuse(ofCluster("server"), "this is not an http or https URL", "Write it as https://host:port.")
  }
  const hasCa = present(cluster["certificate-authority"]) ?? present(cluster["certificate-authority-data"])
  if (present(cluster["certificate-authority"]) && present(cluster["certificate-authority-data"])) {
    return refuse(ofCluster("certificate-authority"), "a CA file and CA data are both given", "Remove one of them.")
  }
  if (cluster["insecure-skip-tls-verify"] === true && hasCa !== undefined) {
    return refuse(
      ofCluster("insecure-skip-tls-verify"),
      "a CA is given and verification is switched off, which contradict each other",
      "Remove insecure-skip-tls-verify (safe), or the certificate authority."
    )
  }
  const proxy = present(cluster["proxy-url"])
  if (proxy !== undefined) {
    const problem = proxyProblem(proxy)
    if (problem !== undefined) return refuse(ofCluster("proxy-url"), problem, "Use an http:// or https:// proxy.")
  }
  for (const part of ["client-certificate", "client-key"] as const) {
    if (present(user[part]) && present(user[`${part}-data`])) {
      return refuse(ofUser(part), "a file and data are both given", "Remove one of them.")
    }
  }
  const certificate = present(user["client-certificate"]) ?? present(user["client-certificate-data"])
  const key = present(user["client-key"]) ?? present(user["client-key-data"])
  if ((certificate === undefined) !== (key === undefined)) {
    return certificate === undefined
      ? refuse(ofUser("client-certificate"), "a client key is given without its certificate", "Give both.")
      : refuse(ofUser("client-key"), "a client certificate is given without its key", "Give both.")
  }
  if (!isHeaderValue(present(user.token)?.trim())) return refuse(ofUser("token"), ...unfit)
  if (!Object.values(impersonation(user)).flat().every(isHeaderValue)) return refuse(ofUser("as"), ...unfit)
  const token = present(user.token) ?? present(user.tokenFile)
  if (token !== undefined && present(user.username) !== undefined) {
    return refuse(ofUser("username"), "a token and a user name are both given", "Keep one way to authenticate.")
  }
  if (
    present(user.as) === undefined &&
    (user["as-groups"]?.length || present(user["as-uid"]) || user["as-user-extra"])
  ) {
    return refuse(ofUser("as"), "impersonated groups need an impersonated user", "Give the user too.")
  }
  const exec = user.exec ?? undefined
  if (exec !== undefined) {
    if (user["auth-provider"]) {
      return refuse(ofUser("exec"), "exec and auth-provider are both given", "Keep one way to authenticate.")
    }
    return ExecCredential.validate(selected, exec)
  }
  return undefined
}

const proxyProblem = (proxy: string): string | undefined => {
  if (!URL.canParse(proxy)) return "this is not a URL"
  const { protocol } = new URL(proxy)
  if (protocol.startsWith("socks")) return `${protocol.slice(0, -1)} proxies are not supported`
  return protocol === "http:" || protocol === "https:" ? undefined : `${protocol.slice(0, -1)} is no proxy protocol`
}

/** A file whose content is read again when it is older than `fileMaxAge`, or when the server refused what it said. */
interface Watched {
  readonly read: Effect.Effect<string, KubeConfigError>
  readonly expire: Effect.Effect<void>
}

const watched = (read: Effect.Effect<string, KubeConfigError>): Effect.Effect<Watched> =>
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

const constant = (text: string): Watched => ({ read: Effect.succeed(text), expire: Effect.void })

const decodePem = (data: string, field: string, refuse: Refuse): Either.Either<string, KubeConfigError> => {
  const text = Buffer.from(data, "base64").toString("utf8")
  return text.includes("-----BEGIN ")
    ? Either.right(text)
    : Either.left(refuse(field, "this is not base64 of a PEM text", "Copy it again from where it was issued."))
}

/** What proves who asks: a header, a certificate with its key, or nothing. */
interface Grant {
  readonly header: string | undefined
  readonly certificate?: string
  readonly key?: string
}

/** Where a grant comes from. */
interface Authorization {
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
  exec: Document.ExecEntry,
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

/** `exp` of a JSON web token in epoch milliseconds; its signature is the server's business. */
const expiryOf = (header: string): number | undefined => {
  const payload = /^Bearer [\w-]+\.([\w-]+)\.[\w-]*$/.exec(header)?.[1]
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"))
    const exp = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined
    return typeof exp === "number" ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}

const providerMargin = 30_000

/** The authenticator of client-node for an `auth-provider` user. */
const fromProvider = (
  selected: Selected,
  provider: NonNullable<Document.UserEntry["auth-provider"]>,
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

const impersonation = (user: Document.UserEntry): Record<string, string | ReadonlyArray<string>> => {
  const headers: Record<string, string | ReadonlyArray<string>> = {}
  const name = present(user.as)
  if (name !== undefined) headers["impersonate-user"] = name
  const uid = present(user["as-uid"])
  if (uid !== undefined) headers["impersonate-uid"] = uid
  if (user["as-groups"]?.length) headers["impersonate-group"] = user["as-groups"]
  for (const [key, values] of Object.entries(user["as-user-extra"] ?? {})) {
    headers[`impersonate-extra-${encodeURIComponent(key).toLowerCase()}`] = values
  }
  return headers
}

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
  const selected = yield* selectFrom(options)
  const problem = validate(selected)
  if (problem !== undefined) return yield* problem
  const refuse = refuser(selected)
  const { cluster, user } = selected
  const server = (present(cluster.server) ?? "").replace(/\/+$/, "")
  const timeout = options.execTimeout ?? execTimeoutDefault

  const file = (path: string, field: string): Effect.Effect<Watched> =>
    watched(
      readText(path, (what, advice) => refuse(field, what, advice)).pipe(
        Effect.provideService(FileSystem.FileSystem, fileSystem)
      )
    )
  const pem = (
    path: string | null | undefined,
    data: string | null | undefined,
    field: string
  ): Effect.Effect<Watched | undefined, KubeConfigError> =>
    Effect.gen(function* () {
      const given = present(data)
      if (given !== undefined) return constant(yield* decodePem(given, `${field}-data`, refuse))
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

  const authorization: Authorization = yield* Effect.gen(function* () {
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
      const given = options.source?._tag === "ClientNode" ? options.source.config : undefined
      return yield* fromProvider(selected, provider, given, timeout)
    }
    return fixed(undefined)
  })

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

  const proxy = present(cluster["proxy-url"]) ?? (yield* environmentProxy(server))
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
    credentials,
    renew
  }
})

/**
 * A kubeconfig for the same API server with a bearer token in place of the user, e.g. one that the server issued for a
 * service account (TokenRequest). It holds the token.
 */
export const withToken = (
  { credentials, server, skipTlsVerify, tlsServerName }: Service,
  token: string,
  namespace?: string
): Effect.Effect<object, KubeConfigError> =>
  Effect.map(credentials, ({ tls }) => {
    const { ca } = Redacted.value(tls)
    const cluster = {
      server,
      ...(skipTlsVerify ? { "insecure-skip-tls-verify": true } : {}),
      ...(tlsServerName === undefined ? {} : { "tls-server-name": tlsServerName }),
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
