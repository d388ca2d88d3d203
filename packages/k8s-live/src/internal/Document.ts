/**
 * The kubeconfig document: its schema, how files are merged, and what a context selects from it. Pure.
 *
 * @module
 */
import { isAbsolute, join } from "node:path"
import { Either, Schema } from "effect"
import { KubeConfigError } from "./KubeConfigError.js"
import * as Misfit from "./Misfit.js"
import * as Yaml from "./Yaml.js"

// Go writes absent lists and maps as null
const nullish = <A>(schema: Schema.Schema<A>): Schema.optional<Schema.NullOr<Schema.Schema<A>>> =>
  Schema.optional(Schema.NullOr(schema))

const ClusterEntry = Schema.Struct({
  server: nullish(Schema.String),
  "certificate-authority": nullish(Schema.String),
  "certificate-authority-data": nullish(Schema.String),
  "insecure-skip-tls-verify": nullish(Schema.Boolean),
  "tls-server-name": nullish(Schema.String),
  "proxy-url": nullish(Schema.String),
  "disable-compression": nullish(Schema.Boolean),
  extensions: nullish(
    Schema.Array(Schema.Struct({ name: nullish(Schema.String), extension: Schema.optional(Schema.Unknown) }))
  )
})
/** `clusters[].cluster`. */
export type ClusterEntry = typeof ClusterEntry.Type

const ExecEntry = Schema.Struct({
  apiVersion: nullish(Schema.String),
  command: nullish(Schema.String),
  args: nullish(Schema.Array(Schema.String)),
  env: nullish(Schema.Array(Schema.Struct({ name: Schema.String, value: nullish(Schema.String) }))),
  installHint: nullish(Schema.String),
  provideClusterInfo: nullish(Schema.Boolean),
  interactiveMode: nullish(Schema.String)
})
/** `users[].user.exec`. */
export type ExecEntry = typeof ExecEntry.Type

const UserEntry = Schema.Struct({
  token: nullish(Schema.String),
  tokenFile: nullish(Schema.String),
  "client-certificate": nullish(Schema.String),
  "client-certificate-data": nullish(Schema.String),
  "client-key": nullish(Schema.String),
  "client-key-data": nullish(Schema.String),
  username: nullish(Schema.String),
  password: nullish(Schema.String),
  as: nullish(Schema.String),
  "as-uid": nullish(Schema.String),
  "as-groups": nullish(Schema.Array(Schema.String)),
  "as-user-extra": nullish(Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) })),
  exec: nullish(ExecEntry),
  "auth-provider": nullish(
    Schema.Struct({
      name: Schema.String,
      config: nullish(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
    })
  )
})
/** `users[].user`. */
export type UserEntry = typeof UserEntry.Type

const ContextEntry = Schema.Struct({
  cluster: nullish(Schema.String),
  user: nullish(Schema.String),
  namespace: nullish(Schema.String)
})
/** `contexts[].context`. */
export type ContextEntry = typeof ContextEntry.Type

const Root = Schema.Struct({
  kind: nullish(Schema.String),
  "current-context": nullish(Schema.String),
  clusters: nullish(Schema.Array(Schema.Struct({ name: Schema.String, cluster: nullish(ClusterEntry) }))),
  users: nullish(Schema.Array(Schema.Struct({ name: Schema.String, user: nullish(UserEntry) }))),
  contexts: nullish(Schema.Array(Schema.Struct({ name: Schema.String, context: nullish(ContextEntry) })))
})
const decodeRoot = Schema.decodeUnknownEither(Root)

/** An entry and the file it came from. */
interface Entry<A> {
  readonly origin: string
  readonly value: A
}

/** One or several kubeconfig files, merged as kubectl merges them: for each name the first file that has it wins. */
export interface Document {
  readonly origin: string
  readonly currentContext: string | undefined
  readonly clusters: ReadonlyMap<string, Entry<ClusterEntry>>
  readonly users: ReadonlyMap<string, Entry<UserEntry>>
  readonly contexts: ReadonlyMap<string, Entry<ContextEntry>>
}

/** What one context selects. */
export interface Selected {
  readonly origin: string
  readonly contextName: string | undefined
  readonly namespace: string | undefined
  readonly clusterName: string
  readonly cluster: ClusterEntry
  readonly userName: string | undefined
  readonly user: UserEntry
}

/** A present, non-empty string. */
export const present = (value: string | null | undefined): string | undefined =>
  value === null || value === undefined || value === "" ? undefined : value

const resolvePath = (directory: string, path: string | null | undefined): string | undefined => {
  const given = present(path)
  if (given === undefined) return undefined
  return isAbsolute(given) ? given : join(directory, given)
}

const defined = <T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } => {
  const result: { [K in keyof T]?: Exclude<T[K], undefined> } = {}
  for (const key of Object.keys(fields) as Array<keyof T>) {
    const value = fields[key]
    if (value !== undefined) result[key] = value as Exclude<T[keyof T], undefined>
  }
  return result
}

const clusterPaths = (directory: string, cluster: ClusterEntry): ClusterEntry => ({
  ...cluster,
  ...defined({ "certificate-authority": resolvePath(directory, cluster["certificate-authority"]) })
})

const userPaths = (directory: string, user: UserEntry): UserEntry => {
  const command = present(user.exec?.command)
  return {
    ...user,
    ...defined({
      tokenFile: resolvePath(directory, user.tokenFile),
      "client-certificate": resolvePath(directory, user["client-certificate"]),
      "client-key": resolvePath(directory, user["client-key"])
    }),
    // Only a command with a slash is a path; a bare one is looked up on PATH
    // https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    ...(user.exec !== null && user.exec !== undefined && command !== undefined && /[/\\]/.test(command)
      ? { exec: { ...user.exec, command: resolvePath(directory, command) } }
      : {})
  }
}

/** Reads a parsed kubeconfig. Relative paths in it are taken from `directory`. */
export const fromValue = (
  value: unknown,
  origin: string,
  directory: string
): Either.Either<Document, KubeConfigError> => {
  if (value === null || value === undefined) {
    return Either.right({
      origin,
      currentContext: undefined,
      clusters: new Map(),
      users: new Map(),
      contexts: new Map()
    })
  }
  const decoded = decodeRoot(value)
  if (Either.isLeft(decoded)) {
    const [misfit] = Misfit.of(decoded.left)
    const path = misfit?.path ?? []
    return Either.left(
      new KubeConfigError({
        origin,
        field: path.length === 0 ? undefined : Misfit.pathText(path),
        problem: path.length === 0 ? `this is not a kubeconfig (${misfit?.problem ?? ""})` : (misfit?.problem ?? ""),
        advice: "Compare it with `kubectl config view`; numbers and dates meant as text need quotes."
      })
    )
  }
  const root = decoded.right
  const clusters = new Map<string, Entry<ClusterEntry>>()
  const users = new Map<string, Entry<UserEntry>>()
  const contexts = new Map<string, Entry<ContextEntry>>()
  for (const { name, cluster } of root.clusters ?? []) {
    if (!clusters.has(name)) clusters.set(name, { origin, value: clusterPaths(directory, cluster ?? {}) })
  }
  for (const { name, user } of root.users ?? []) {
    if (!users.has(name)) users.set(name, { origin, value: userPaths(directory, user ?? {}) })
  }
  for (const { name, context } of root.contexts ?? []) {
    if (!contexts.has(name)) contexts.set(name, { origin, value: context ?? {} })
  }
  return Either.right({ origin, currentContext: present(root["current-context"]), clusters, users, contexts })
}

/** Reads the text of a kubeconfig (YAML, or JSON, which is YAML). */
export const fromText = (text: string, origin: string, directory: string): Either.Either<Document, KubeConfigError> => {
  const read = Yaml.documents(text)
  if (Either.isLeft(read)) {
    return Either.left(
      new KubeConfigError({
        origin,
        problem: read.left,
        advice: "Correct it there; `kubectl config view` reads the same file."
      })
    )
  }
  const [value, ...others] = read.right
  if (others.length > 0) {
    return Either.left(
      new KubeConfigError({
        origin,
        problem: `it has ${others.length + 1} YAML documents`,
        advice: "Write a file for each; KUBECONFIG takes a list of files."
      })
    )
  }
  return fromValue(value, origin, directory)
}

const mergeMaps = <A>(maps: ReadonlyArray<ReadonlyMap<string, A>>): ReadonlyMap<string, A> => {
  const merged = new Map<string, A>()
  for (const map of maps) for (const [name, value] of map) if (!merged.has(name)) merged.set(name, value)
  return merged
}

/** Merges in order of precedence, first wins (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files). */
export const merge = (documents: ReadonlyArray<Document>): Document => ({
  origin: documents.map(({ origin }) => origin).join(", "),
  currentContext: documents.find(({ currentContext }) => currentContext !== undefined)?.currentContext,
  clusters: mergeMaps(documents.map(({ clusters }) => clusters)),
  users: mergeMaps(documents.map(({ users }) => users)),
  contexts: mergeMaps(documents.map(({ contexts }) => contexts))
})

const names = (map: ReadonlyMap<string, unknown>): string =>
  map.size === 0 ? "It has none" : `It has ${[...map.keys()].map((name) => `"${name}"`).join(", ")}`

/** What the named (else the current) context selects. */
export const select = (document: Document, override: string | undefined): Either.Either<Selected, KubeConfigError> => {
  const name = override ?? document.currentContext
  if (name === undefined) {
    return Either.left(
      new KubeConfigError({
        origin: document.origin,
        field: "current-context",
        problem: "no context is named",
        advice: `Name one with --context, or run \`kubectl config use-context\`. ${names(document.contexts)}.`
      })
    )
  }
  const context = document.contexts.get(name)
  if (context === undefined) {
    return Either.left(
      new KubeConfigError({
        origin: document.origin,
        context: name,
        field: override === undefined ? "current-context" : undefined,
        problem: "there is no context of that name",
        advice: `Name another with --context. ${names(document.contexts)}.`
      })
    )
  }
  const field = `contexts["${name}"].context`
  const clusterName = present(context.value.cluster)
  const cluster = clusterName === undefined ? undefined : document.clusters.get(clusterName)
  if (clusterName === undefined || cluster === undefined) {
    return Either.left(
      new KubeConfigError({
        origin: context.origin,
        context: name,
        field: `${field}.cluster`,
        problem: clusterName === undefined ? "the context names no cluster" : `there is no cluster "${clusterName}"`,
        advice: `Correct the context. ${names(document.clusters)}.`
      })
    )
  }
  const userName = present(context.value.user)
  const user = userName === undefined ? undefined : document.users.get(userName)
  if (userName !== undefined && user === undefined) {
    return Either.left(
      new KubeConfigError({
        origin: context.origin,
        context: name,
        field: `${field}.user`,
        problem: `there is no user "${userName}"`,
        advice: `Correct the context. ${names(document.users)}.`
      })
    )
  }
  return Either.right({
    origin: cluster.origin === user?.origin || user === undefined ? cluster.origin : document.origin,
    contextName: name,
    namespace: present(context.value.namespace),
    clusterName,
    cluster: cluster.value,
    userName,
    user: user?.value ?? {}
  })
}
