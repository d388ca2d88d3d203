/**
 * Where a configuration comes from, and what is read there: files, the environment, a pod's service account, or a loaded
 * KubeConfig of `@kubernetes/client-node`.
 *
 * @module
 */
import { homedir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import type { RequestOptions } from "node:https"
import { isIPv6 } from "node:net"
import { FileSystem } from "@effect/platform"
import { Config, Data, Effect, Either, Option } from "effect"
import * as Document from "./Document.js"
import { present, type Selected } from "./Document.js"
import { KubeConfigError } from "./KubeConfigError.js"

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

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

/** An environment variable that is set and not empty. */
export const optional = (name: string): Effect.Effect<string | undefined, KubeConfigError> =>
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

/** A file's text. `error` makes the error out of what is wrong and what to do. */
export const readText = (
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
/** What to take of a configuration. */
export interface Selection {
  /** Default `Source.Default()`. */
  readonly source?: Source | undefined
  /** Instead of the current context. */
  readonly context?: string | undefined
  /** Instead of the context's user. */
  readonly user?: string | undefined
}

/** Reads a source and selects a context's cluster and user. */
export const select = (options: Selection): Effect.Effect<Selected, KubeConfigError, FileSystem.FileSystem> =>
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
