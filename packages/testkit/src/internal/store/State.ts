/**
 * What the server stores, how it is read, and the one way in which it changes: `commit`.
 *
 * @module
 */
import type { KubeReply } from "@dispatch-kubeflow/core/kube/KubeTransport"
import type { Either } from "effect"
import * as EventLog from "../../EventLog.js"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import * as OrderedMap from "../../OrderedMap.js"
import * as Registry from "../../Registry.js"

/** What an admission plugin is asked. */
export interface Review {
  readonly operation: "CREATE" | "UPDATE" | "DELETE"
  readonly definition: Registry.ResourceDefinition
  readonly subresource: string | undefined
  readonly object: Json.JsonObject
  readonly old: Json.JsonObject | undefined
  readonly state: State
  readonly dryRun: boolean
  /** Epoch milliseconds. */
  readonly now: number
}

/** Why an admission plugin refuses: its message, and the code when it is not 403. */
export interface Denial {
  readonly message: string
  readonly code?: number
  readonly reason?: string
}

/**
 * A webhook. A mutating one may change the object or refuse it, after defaults and before versions are compared and the object is
 * validated; a validating one may refuse what is otherwise good. Those of one phase run in order.
 */
export interface Admission {
  /** Default `mutating`. */
  readonly phase?: "mutating" | "validating"
  /** As quoted in `admission webhook "<name>" denied the request`. */
  readonly name: string
  /** `undefined`: not concerned. */
  readonly admit: (review: Review) => Either.Either<Json.JsonObject, Denial> | undefined
}

/** What a state is made with. */
export interface Options {
  /** How many log entries are kept before the oldest are compacted away. Default 100 000. */
  readonly historyLimit?: number
  /** The version that the first write follows. Default 0. */
  readonly resourceVersion?: number
  readonly admission?: ReadonlyArray<Admission>
}

/** Where an object is. */
export interface Located {
  /** `Registry.typeKey`. */
  readonly resource: string
  readonly key: string
}

/** Everything the server stores. Opaque: read it with the functions of this module. */
export interface State {
  readonly registry: Registry.Registry
  readonly version: number
  readonly log: EventLog.EventLog
  readonly types: OrderedMap.OrderedMap<OrderedMap.OrderedMap<Json.JsonObject>>
  readonly owned: OrderedMap.OrderedMap<OrderedMap.OrderedMap<Located>>
  readonly admission: ReadonlyArray<Admission>
  readonly historyLimit: number
}

/** What a request needs from outside: the clock and two sources of names. */
export interface Env {
  /** Epoch milliseconds. */
  readonly now: number
  readonly newUid: () => string
  /** Five characters for `generateName`. */
  readonly suffix: () => string
  /** Gives the default field manager: the part before `/`. */
  readonly userAgent?: string
}

/** The next state, and the answer. */
export interface Outcome {
  readonly state: State
  readonly reply: Either.Either<KubeReply, Failure.Failure>
}

/** A type as a request, a definition or a core descriptor names it. */
export interface Type {
  readonly group: string
  readonly plural: string
}

export type Step<A> = Either.Either<A, Failure.Failure>

/** An empty server. */
export const make = (registry: Registry.Registry = Registry.builtins, options: Options = {}): State => ({
  registry,
  version: options.resourceVersion ?? 0,
  log: EventLog.make(options.resourceVersion ?? 0),
  types: OrderedMap.empty,
  owned: OrderedMap.empty,
  admission: options.admission ?? [],
  historyLimit: options.historyLimit ?? 100_000
})

export const objectKey = (namespace: string | undefined, name: string): string =>
  namespace === undefined || namespace === "" ? name : `${namespace}/${name}`

export const keyOfObject = (object: Json.JsonObject): string =>
  objectKey(
    Json.string(Json.at(object, "metadata", "namespace")),
    Json.string(Json.at(object, "metadata", "name")) ?? ""
  )

/** The newest resource version. */
export const resourceVersion = (state: State): number => state.version

/** The definition of a type in a version. */
export const definition = (
  state: State,
  group: string,
  version: string,
  plural: string
): Registry.ResourceDefinition | undefined => Registry.lookup(state.registry, group, version, plural)

/** One object. */
export const get = (
  state: State,
  type: Type,
  namespace: string | undefined,
  name: string
): Json.JsonObject | undefined => at(state, { resource: Registry.typeKey(type), key: objectKey(namespace, name) })

/** One object by its place. */
export const at = (state: State, where: Located): Json.JsonObject | undefined =>
  OrderedMap.get(OrderedMap.get(state.types, where.resource), where.key)

/** The objects of a type, of one namespace or of all, in key order. */
export function* list(state: State, type: Type, namespace?: string): IterableIterator<Json.JsonObject> {
  const objects = OrderedMap.get(state.types, Registry.typeKey(type))
  const entries =
    namespace === undefined ? OrderedMap.entries(objects) : OrderedMap.withPrefix(objects, `${namespace}/`)
  for (const [, object] of entries) yield object
}

/** How many objects of a type there are. */
export const count = (state: State, type: Type): number =>
  OrderedMap.size(OrderedMap.get(state.types, Registry.typeKey(type)))

/** An object together with the definition of its type. */
export interface Found {
  readonly definition: Registry.ResourceDefinition
  readonly object: Json.JsonObject
}

const definitionOfKey = (state: State, resource: string): Registry.ResourceDefinition | undefined => {
  for (const candidate of state.registry.definitions.values()) {
    if (Registry.typeKey(candidate) === resource) return candidate
  }
  return undefined
}

/** The objects that have an owner reference with this uid. */
export const ownedBy = (state: State, uid: string): ReadonlyArray<Found> => {
  const found: Array<Found> = []
  for (const [, where] of OrderedMap.entries(OrderedMap.get(state.owned, uid))) {
    const object = at(state, where)
    const type = definitionOfKey(state, where.resource)
    if (object !== undefined && type !== undefined) found.push({ definition: type, object })
  }
  return found
}

const ownerUids = (object: Json.JsonObject | undefined): ReadonlyArray<string> =>
  Json.array(Json.at(object, "metadata", "ownerReferences")).flatMap((owner) => {
    const uid = Json.string(Json.at(owner, "uid"))
    return uid === undefined || uid === "" ? [] : [uid]
  })

const reindex = (
  owned: State["owned"],
  where: Located,
  before: ReadonlyArray<string>,
  after: ReadonlyArray<string>
): State["owned"] => {
  const place = `${where.resource} ${where.key}`
  let result = owned
  for (const uid of before) {
    if (after.includes(uid)) continue
    const rest = OrderedMap.remove(OrderedMap.get(result, uid), place)
    result = rest === undefined ? OrderedMap.remove(result, uid) : OrderedMap.set(result, uid, rest)
  }
  for (const uid of after) {
    if (!before.includes(uid)) {
      result = OrderedMap.set(result, uid, OrderedMap.set(OrderedMap.get(result, uid), place, where))
    }
  }
  return result
}

const withVersion = (object: Json.JsonObject, version: number): Json.JsonObject =>
  Json.set(object, ["metadata", "resourceVersion"], String(version))

const metadataOrder = [
  "name",
  "generateName",
  "namespace",
  "selfLink",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "labels",
  "annotations",
  "ownerReferences",
  "finalizers",
  "managedFields"
]

const isEmptyValue = (value: Json.Json): boolean =>
  value === null ||
  (Json.isArray(value) && value.length === 0) ||
  (Json.isObject(value) && Object.keys(value).length === 0)

/** The object as the server would write it: metadata without empty members, fields in the server's order. */
export const canonical = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject => {
  const given = Json.object(object["metadata"])
  const metadata: Record<string, Json.Json> = {}
  for (const key of metadataOrder) {
    const value = given[key]
    if (value !== undefined && !isEmptyValue(value) && value !== "") metadata[key] = value
  }
  const ordered: Record<string, Json.Json> = { kind: type.kind, apiVersion: Registry.apiVersion(type), metadata }
  for (const key of Object.keys(object)) {
    const value = object[key]
    if (value !== undefined && ordered[key] === undefined) ordered[key] = value
  }
  return type.custom ? Json.object(Json.sorted(ordered)) : ordered
}

export const commit = (
  state: State,
  where: Located,
  previous: Json.JsonObject | undefined,
  next: Json.JsonObject | undefined
): { readonly state: State; readonly object: Json.JsonObject } => {
  const version = state.version + 1
  const object = withVersion(next ?? previous ?? Json.empty, version)
  const objects = OrderedMap.get(state.types, where.resource)
  const entry: EventLog.Entry = {
    version,
    type: next === undefined ? "DELETED" : previous === undefined ? "ADDED" : "MODIFIED",
    resource: where.resource,
    key: where.key,
    object,
    ...(previous === undefined ? {} : { previous })
  }
  const log = EventLog.add(state.log, entry)
  const excess = EventLog.excess(log, state.historyLimit)
  return {
    object,
    state: {
      ...state,
      version,
      log: excess === undefined ? log : EventLog.compact(log, excess),
      types: OrderedMap.set(
        state.types,
        where.resource,
        next === undefined ? OrderedMap.remove(objects, where.key) : OrderedMap.set(objects, where.key, object)
      ),
      owned: reindex(state.owned, where, ownerUids(previous), ownerUids(next))
    }
  }
}

/** Forgets the log up to a version (the newest by default): what etcd's compaction does to watchers and page tokens. */
export const compact = (state: State, version: number = state.version): State => ({
  ...state,
  log: EventLog.compact(state.log, Math.min(version, state.version))
})

/**
 * Stores objects as they are, status, uid and timestamps included; what is missing is filled in. An object that exists is
 * replaced. Namespaces that are named and do not exist are created. A type that is not served is left out of `seeded`.
 */
export const seed = (
  state: State,
  objects: ReadonlyArray<unknown>,
  env: Env
): {
  readonly state: State
  readonly seeded: ReadonlyArray<Json.JsonObject>
  readonly unknown: ReadonlyArray<string>
} => {
  let current = state
  const seeded: Array<Json.JsonObject> = []
  const unknown: Array<string> = []
  for (const given of objects) {
    const value = Json.object(Json.fromUnknown(given))
    const type = Registry.ofObject(current.registry, value)
    if (type === undefined) {
      unknown.push(`${Json.text(value["apiVersion"])} ${Json.text(value["kind"])}`)
      continue
    }
    const metadata = Json.object(value["metadata"])
    const namespace = type.scope === "Namespaced" ? (Json.string(metadata["namespace"]) ?? "default") : undefined
    if (
      namespace !== undefined &&
      get(current, { group: "", plural: "namespaces" }, undefined, namespace) === undefined
    ) {
      current = seed(current, [{ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } }], env).state
    }
    const name = Json.string(metadata["name"]) ?? `${Json.string(metadata["generateName"]) ?? ""}${env.suffix()}`
    const where: Located = { resource: Registry.typeKey(type), key: objectKey(namespace, name) }
    const previous = at(current, where)
    const filled: Json.JsonObject = {
      ...value,
      metadata: {
        uid: Json.at(previous, "metadata", "uid") ?? env.newUid(),
        creationTimestamp: Json.at(previous, "metadata", "creationTimestamp") ?? Json.time(env.now),
        ...(type.generation === "none" ? {} : { generation: 1 }),
        ...metadata,
        name,
        ...(namespace === undefined ? {} : { namespace })
      }
    }
    const result = commit(current, where, previous, canonical(type, type.prepare(type.defaults(filled))))
    current = result.state
    seeded.push(result.object)
  }
  return { state: current, seeded, unknown }
}

/** The object as a get or a watch in this version shows it. */
export const show = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject => {
  const version = Registry.apiVersion(type)
  return object["apiVersion"] === version ? object : { ...object, apiVersion: version }
}

export const finalizersOf = (object: Json.JsonObject): ReadonlyArray<Json.Json> =>
  Json.array(Json.at(object, "metadata", "finalizers"))

export const isDeleting = (object: Json.JsonObject): boolean =>
  Json.at(object, "metadata", "deletionTimestamp") !== undefined

/** Whether nothing holds an object any more that is being deleted. */
export const isReleased = (type: Registry.ResourceDefinition, object: Json.JsonObject): boolean =>
  isDeleting(object) &&
  finalizersOf(object).length === 0 &&
  (!type.graceful || Json.at(object, "metadata", "deletionGracePeriodSeconds") === 0) &&
  (Registry.typeKey(type) !== "/namespaces" || Json.array(Json.at(object, "spec", "finalizers")).length === 0)

export const generationOf = (object: Json.JsonObject): number =>
  Json.number(Json.at(object, "metadata", "generation")) ?? 0

export const labelsOf = (object: Json.JsonObject): Record<string, string> => {
  const labels = Json.at(object, "metadata", "labels")
  return (Json.isObject(labels) ? labels : {}) as Record<string, string>
}

/** The refusal of a version that the log no longer reaches back to. */
export const tooOldVersion = (type: Type, version: number, floor: number): Failure.Failure =>
  Failure.expired(
    // Events have no watch cache: etcd answers for them
    type.group === "" && type.plural === "events"
      ? "The resourceVersion for the provided watch is too old."
      : `too old resource version: ${version} (${floor})`
  )

/** A bookmark's object. */
export const bookmark = (type: Registry.ResourceDefinition, version: number, marksEnd: boolean): Json.JsonObject => ({
  kind: type.kind,
  apiVersion: Registry.apiVersion(type),
  metadata: {
    resourceVersion: String(version),
    ...(marksEnd ? { annotations: { "k8s.io/initial-events-end": "true" } } : {})
  },
  // Go writes these members of an empty object
  ...(Registry.typeKey(type) === "/pods" ? { spec: { containers: null }, status: {} } : {}),
  ...(Registry.typeKey(type) === "batch/jobs"
    ? { spec: { template: { metadata: {}, spec: { containers: null } } }, status: {} }
    : {})
})
