/**
 * Who owns which field: the sets of fields behind `metadata.managedFields`, how updates move ownership, and server-side
 * apply.
 *
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 * @module
 */
import * as FieldSet from "./internal/FieldSet.js"
import * as Json from "./Json.js"

/** Lists whose items are told apart by keys, by the name of the list. Lists that are not here are one value. */
// https://github.com/kubernetes/api and the CRDs of Trainer, JobSet and Kueue: x-kubernetes-list-map-keys
const listKeys: { readonly [field: string]: ReadonlyArray<string> } = {
  addresses: ["type"],
  admissionChecks: ["name"],
  claims: ["name"],
  conditions: ["type"],
  containers: ["name"],
  dependsOn: ["name"],
  env: ["name"],
  ephemeralContainers: ["name"],
  evictions: ["reason", "underlyingCause"],
  flavors: ["name"],
  flavorsReservation: ["name"],
  flavorsUsage: ["name"],
  hostAliases: ["ip"],
  imagePullSecrets: ["name"],
  initContainers: ["name"],
  jobsStatus: ["name"],
  ownerReferences: ["uid"],
  podIPs: ["ip"],
  podSetAssignments: ["name"],
  podSets: ["name"],
  preemptionGates: ["name"],
  reclaimablePods: ["name"],
  replicatedJobs: ["name"],
  replicatedJobsStatus: ["name"],
  resourceClaims: ["name"],
  resourceRequests: ["name"],
  runtimePatches: ["manager"],
  schedulingGates: ["name"],
  secrets: ["name"],
  topologySpreadConstraints: ["topologyKey", "whenUnsatisfiable"],
  unhealthyNodes: ["name"],
  volumeDevices: ["devicePath"],
  volumeMounts: ["mountPath"],
  volumes: ["name"]
}

const valueSets: ReadonlySet<string> = new Set(["finalizers", "onFlavors"])

/** Fields of built-in types that are maps: they are owned themselves, beside their entries. */
const mapFields: ReadonlySet<string> = new Set([
  "annotations",
  "labels",
  "data",
  "binaryData",
  "stringData",
  "matchLabels",
  "limits",
  "requests",
  "capacity",
  "allocatable",
  "hard",
  "used"
])

/** Structs and lists that are one value to field management. */
const atomicFields: ReadonlySet<string> = new Set([
  "roleRef",
  "nodeSelector",
  "selector",
  "matchLabels",
  "nodeAffinity",
  "fieldRef",
  "secretKeyRef",
  "configMapKeyRef",
  "resourceFieldRef"
])

/**
 * Remembers texts that are made again with every write, as those that become keys of objects cost most: looking them up
 * is cheaper than making them. Bounded, because labels and names come from outside.
 */
const remembered = (make: (text: string) => string): ((text: string) => string) => {
  const limit = 4096
  const known = new Map<string, string>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    if (known.size === limit) known.clear()
    const made = make(text)
    known.set(text, made)
    return made
  }
}

const fieldKey = remembered((name) => `f:${name}`)

const byOneKey = new Map(
  Array.from(new Set(Object.values(listKeys).flatMap((keys) => (keys.length === 1 ? keys : [])))).map(
    (key) => [key, remembered((value) => `k:${JSON.stringify({ [key]: value })}`)] as const
  )
)

const itemKey = (field: string, item: Json.Json): string | undefined => {
  if (!Json.isObject(item)) return undefined
  if (field === "ports") {
    const port = item["containerPort"] === undefined ? "port" : "containerPort"
    return item[port] === undefined
      ? undefined
      : `k:${JSON.stringify({ [port]: item[port], protocol: item["protocol"] ?? "TCP" })}`
  }
  const keys = listKeys[field]
  if (keys === undefined) return undefined
  const [only = ""] = keys
  if (keys.length === 1) {
    const value = item[only]
    if (value === undefined) return undefined
    const known = typeof value === "string" ? byOneKey.get(only) : undefined
    if (typeof value === "string" && known !== undefined) return known(value)
  }
  const values: Record<string, Json.Json> = {}
  for (const key of keys) values[key] = item[key] ?? ""
  return `k:${JSON.stringify(values)}`
}

/** How a path names an item of a list whose items have keys: `[name="node"]`. */
export const itemPath = (field: string, item: Json.Json): string | undefined => {
  const key = itemKey(field, item)
  return key === undefined
    ? undefined
    : `[${Object.entries(Json.object(Json.fromUnknown(JSON.parse(key.slice(2)))))
        .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
        .join(",")}]`
}

/** The items of a list by their key; `undefined` when the list is one value. */
const keyed = (field: string, items: ReadonlyArray<Json.Json>): ReadonlyMap<string, Json.Json> | undefined => {
  const result = new Map<string, Json.Json>()
  for (const item of items) {
    const key = valueSets.has(field) && typeof item === "string" ? `v:${JSON.stringify(item)}` : itemKey(field, item)
    if (key === undefined || result.has(key)) return undefined
    result.set(key, item)
  }
  return result
}

const isKeyed = (field: string): boolean => field === "ports" || listKeys[field] !== undefined || valueSets.has(field)

/** How a type's fields are seen: custom resources own each object and list themselves, built-in ones only maps. */
export interface Shape {
  readonly custom: boolean
}

interface Walk extends Shape {
  readonly mode: "update" | "apply"
}

/** What comes below the fields of an object. */
const fieldsBelow = (
  value: Json.JsonObject,
  self: boolean,
  below: (entry: Json.Json, key: string) => FieldSet.FieldSet
): FieldSet.FieldSet => {
  const names = FieldSet.sorted(Object.keys(value))
  const result: Record<string, Json.Json> = {}
  if (self) result["."] = FieldSet.leaf
  let size = 0
  for (const name of names) {
    const entry = value[name]
    const set = entry === undefined ? undefined : below(entry, name)
    if (set === undefined) continue
    result[fieldKey(name)] = set
    size += 1
  }
  return size > 0 ? result : self ? FieldSet.leaf : undefined
}

const build = (value: Json.Json, field: string, walk: Walk, inMetadata: boolean): FieldSet.NonEmpty => {
  if (Json.isObject(value) && !atomicFields.has(field)) {
    const self = walk.mode === "update" && (mapFields.has(field) || (walk.custom && !inMetadata))
    return fieldsBelow(value, self, (entry, key) => build(entry, key, walk, inMetadata)) ?? FieldSet.leaf
  }
  if (Json.isArray(value) && isKeyed(field)) {
    const items = keyed(field, value)
    if (items === undefined || items.size === 0) return FieldSet.leaf
    const self = walk.mode === "update" && (walk.custom || inMetadata)
    const below = (key: string): FieldSet.NonEmpty => {
      const item = items.get(key)
      return field === "ownerReferences" || !Json.isObject(item)
        ? FieldSet.leaf
        : FieldSet.withSelf(build(item, "", walk, inMetadata))
    }
    return FieldSet.make(self, FieldSet.sorted([...items.keys()]), below) ?? FieldSet.leaf
  }
  return FieldSet.leaf
}

const unmanagedMetadata = [
  "name",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "managedFields",
  "selfLink"
]

/** The part of an object that field management knows. */
const manageable = (object: Json.JsonObject): Json.JsonObject => {
  const metadata = Json.omit(Json.object(object["metadata"]), unmanagedMetadata)
  const rest = Json.omit(object, ["apiVersion", "kind", "metadata"])
  return Object.keys(metadata).length === 0 ? rest : { ...rest, metadata }
}

const buildRoot = (object: Json.JsonObject, walk: Walk): FieldSet.FieldSet =>
  fieldsBelow(object, false, (value, key) => {
    if (key === "metadata") {
      return fieldsBelow(Json.object(value), false, (entry, name) => build(entry, name, walk, true))
    }
    // An empty status or spec of a built-in type is no field of anybody
    return Json.isObject(value) && Object.keys(value).length === 0 && !walk.custom
      ? undefined
      : build(value, key, walk, false)
  })

/** What changed: paths set to something new, and paths that went. */
interface Changes {
  readonly set: FieldSet.FieldSet
  readonly removed: FieldSet.FieldSet
}

const unchanged: Changes = { set: undefined, removed: undefined }

/** The changes of an object's fields, or of a list's items by their key. */
const changesOfEntries = (
  before: Json.JsonObject | ReadonlyMap<string, Json.Json>,
  after: Json.JsonObject | ReadonlyMap<string, Json.Json>,
  walk: Walk,
  inMetadata: boolean
): Changes => {
  const set: Record<string, FieldSet.NonEmpty> = {}
  const removed: Record<string, FieldSet.NonEmpty> = {}
  const isList = before instanceof Map
  const keysOf = (side: typeof before): Iterable<string> => (side instanceof Map ? side.keys() : Object.keys(side))
  const valueOf = (side: typeof before, key: string): Json.Json | undefined =>
    side instanceof Map ? side.get(key) : (side as Json.JsonObject)[key]
  const built = (value: Json.Json, key: string, how: Walk): FieldSet.NonEmpty =>
    isList ? FieldSet.withSelf(build(value, "", how, inMetadata)) : build(value, key, how, inMetadata)
  for (const key of keysOf(after)) {
    const value = valueOf(after, key)
    const old = valueOf(before, key)
    if (value === undefined || value === old) continue
    const change =
      old === undefined
        ? { set: built(value, key, walk), removed: undefined }
        : changes(old, value, isList ? "" : key, walk, inMetadata)
    const name = isList ? key : fieldKey(key)
    if (change.set !== undefined) set[name] = change.set
    if (change.removed !== undefined) removed[name] = change.removed
  }
  for (const key of keysOf(before)) {
    const value = valueOf(before, key)
    if (value === undefined || valueOf(after, key) !== undefined) continue
    removed[isList ? key : fieldKey(key)] = FieldSet.everything(built(value, key, { ...walk, mode: "update" }))
  }
  return { set: sortedSet(set), removed: sortedSet(removed) }
}

const sortedSet = (below: Readonly<Record<string, FieldSet.NonEmpty>>): FieldSet.FieldSet =>
  FieldSet.make(false, FieldSet.sorted(Object.keys(below)), (key) => below[key])

const changes = (before: Json.Json, after: Json.Json, field: string, walk: Walk, inMetadata: boolean): Changes => {
  if (before === after) return unchanged
  if (
    Json.isObject(before) &&
    Json.isObject(after) &&
    !atomicFields.has(field) &&
    Object.keys(before).length > 0 &&
    Object.keys(after).length > 0
  ) {
    return changesOfEntries(before, after, walk, inMetadata)
  }
  if (Json.isArray(before) && Json.isArray(after) && isKeyed(field) && field !== "ownerReferences") {
    const old = keyed(field, before)
    const now = keyed(field, after)
    if (old !== undefined && now !== undefined && old.size > 0 && now.size > 0) {
      return changesOfEntries(old, now, walk, inMetadata)
    }
  }
  if (Json.equal(before, after)) return unchanged
  return {
    set: build(after, field, walk, inMetadata),
    removed: FieldSet.everything(build(before, field, walk, inMetadata))
  }
}

const changesOfObjects = (before: Json.JsonObject, after: Json.JsonObject, walk: Walk): Changes => {
  const { metadata: oldMetadata = Json.empty, ...oldRest } = before
  const { metadata: newMetadata = Json.empty, ...newRest } = after
  const metadata = changes(oldMetadata, newMetadata, "metadata", walk, true)
  const rest =
    Object.keys(oldRest).length === 0
      ? { set: buildRoot(newRest, walk), removed: undefined }
      : changesOfEntries(oldRest, newRest, walk, false)
  const under = (set: FieldSet.FieldSet): FieldSet.FieldSet => (set === undefined ? undefined : { "f:metadata": set })
  const meta =
    Object.keys(Json.object(oldMetadata)).length === 0
      ? buildRoot({ metadata: newMetadata }, walk)
      : under(metadata.set)
  return { set: FieldSet.union(rest.set, meta), removed: FieldSet.union(rest.removed, under(metadata.removed)) }
}

/** One entry of `metadata.managedFields`. */
interface Manager {
  readonly manager: string
  readonly operation: string
  readonly apiVersion: string
  readonly subresource: string
  readonly time: string
  readonly fields: FieldSet.FieldSet
  /** The entry as it stands in the object. */
  readonly entry?: Json.JsonObject
}

const read = (object: Json.JsonObject): ReadonlyArray<Manager> =>
  Json.array(Json.at(object, "metadata", "managedFields")).map((entry) => ({
    manager: Json.string(Json.at(entry, "manager")) ?? "",
    operation: Json.string(Json.at(entry, "operation")) ?? "",
    apiVersion: Json.string(Json.at(entry, "apiVersion")) ?? "",
    subresource: Json.string(Json.at(entry, "subresource")) ?? "",
    time: Json.string(Json.at(entry, "time")) ?? "",
    fields: FieldSet.fromFieldsV1(Json.object(Json.at(entry, "fieldsV1"))),
    entry: Json.object(entry)
  }))

const entryOf = ({ apiVersion, entry, fields, manager, operation, subresource, time }: Manager): Json.JsonObject =>
  entry !== undefined && entry["fieldsV1"] === fields
    ? entry
    : {
        manager,
        operation,
        apiVersion,
        time,
        fieldsType: "FieldsV1",
        fieldsV1: fields ?? FieldSet.leaf,
        ...(subresource === "" ? {} : { subresource })
      }

const write = (managers: ReadonlyArray<Manager>): ReadonlyArray<Json.Json> =>
  managers
    .filter(({ fields }) => fields !== undefined)
    .toSorted(
      (a, b) =>
        compare(a.operation, b.operation) ||
        compare(a.time, b.time) ||
        compare(a.manager, b.manager) ||
        compare(a.subresource, b.subresource)
    )
    .map(entryOf)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Who writes, as what, when. */
export interface Writer extends Shape {
  readonly manager: string
  readonly apiVersion: string
  readonly subresource: string
  /** `metav1.Time`. */
  readonly time: string
}

const isWriter = (writer: Writer, operation: string) => (entry: Manager) =>
  entry.manager === writer.manager &&
  entry.operation === operation &&
  entry.subresource === writer.subresource &&
  entry.apiVersion === writer.apiVersion

const withManaged = (object: Json.JsonObject, managers: ReadonlyArray<Json.Json>): Json.JsonObject =>
  Json.set(object, ["metadata", "managedFields"], managers.length === 0 ? undefined : managers)

/** The object after a create, an update or a patch: the writer owns what it changed, the others no longer do. */
export const update = (old: Json.JsonObject | undefined, object: Json.JsonObject, writer: Writer): Json.JsonObject => {
  const walk: Walk = { custom: writer.custom, mode: "update" }
  const { removed, set } = changesOfObjects(old === undefined ? Json.empty : manageable(old), manageable(object), walk)
  const isMine = isWriter(writer, "Update")
  const before = old === undefined ? [] : read(old)
  // Objects that were made without managed fields are not tracked: observed with 1.37.2
  if (old !== undefined && before.length === 0) return withManaged(object, [])
  if (set === undefined && removed === undefined)
    return withManaged(object, Json.array(Json.at(old, "metadata", "managedFields")))
  const gone = FieldSet.union(set, removed)
  const managers: Array<Manager> = before
    .filter((entry) => !isMine(entry))
    .map((entry) => ({ ...entry, fields: FieldSet.difference(entry.fields, gone) }))
  const mine = before.find(isMine)
  const fields = FieldSet.union(FieldSet.difference(mine?.fields, removed), set)
  managers.push(
    mine !== undefined && FieldSet.same(fields, mine.fields)
      ? mine
      : {
          manager: writer.manager,
          operation: "Update",
          apiVersion: writer.apiVersion,
          subresource: writer.subresource,
          time: writer.time,
          fields
        }
  )
  return withManaged(object, write(managers))
}

const mergeApplied = (live: Json.Json | undefined, applied: Json.Json, field: string): Json.Json => {
  if (Json.isObject(applied) && Json.isObject(live) && !atomicFields.has(field)) {
    const result: Record<string, Json.Json> = { ...live }
    for (const [key, value] of Object.entries(applied)) result[key] = mergeApplied(live[key], value, key)
    return result
  }
  if (Json.isArray(applied) && Json.isArray(live) && isKeyed(field)) {
    const wanted = keyed(field, applied)
    const present = keyed(field, live)
    if (wanted === undefined || present === undefined) return applied
    const kept = [...present].map(([key, item]) => {
      const change = wanted.get(key)
      return change === undefined || field === "ownerReferences" ? (change ?? item) : mergeApplied(item, change, "")
    })
    return [...kept, ...[...wanted].filter(([key]) => !present.has(key)).map(([, item]) => item)]
  }
  return applied
}

/** The value without the paths of a set; what it leaves nothing of goes too. */
const removePaths = (value: Json.Json, set: FieldSet.FieldSet, field: string): Json.Json | undefined => {
  if (set === undefined) return value
  if (FieldSet.children(set).length === 0) return undefined
  if (Json.isObject(value)) {
    const result: Record<string, Json.Json> = {}
    for (const [key, entry] of Object.entries(value)) {
      const rest = removePaths(entry, FieldSet.child(set, `f:${key}`), key)
      if (rest !== undefined) result[key] = rest
    }
    // A named field goes with its last member, the root stays
    const isEmptied = Object.keys(result).length === 0 && Object.keys(value).length > 0 && field !== ""
    return Object.keys(result).length === 0 && (FieldSet.hasSelf(set) || isEmptied) ? undefined : result
  }
  if (Json.isArray(value)) {
    const items = keyed(field, value)
    if (items === undefined) return value
    const rest: Array<Json.Json> = []
    for (const [key, item] of items) {
      const inner = FieldSet.child(set, key)
      // An item that the manager no longer names goes as a whole: what is left would be its keys alone
      const left = FieldSet.hasSelf(inner) ? undefined : removePaths(item, inner, "")
      if (left !== undefined) rest.push(left)
    }
    return rest.length === 0 ? undefined : rest
  }
  return value
}

/** Somebody else owns a field that this apply would change. */
export interface Conflict {
  readonly manager: string
  readonly path: string
  readonly subresource: string
  /** Set for managers that own it by updates: the version in which they wrote. */
  readonly using?: string
}

/** What an apply gives. */
export type Applied =
  | { readonly _tag: "Conflicts"; readonly conflicts: ReadonlyArray<Conflict> }
  | {
      readonly _tag: "Merged"
      readonly object: Json.JsonObject
      /** Fields of the metadata that the manager owned alone are gone. */
      readonly dropsMetadata: boolean
    }

/** The order of managers in a conflict is that of their identities as JSON text. */
const identity = ({ apiVersion, manager, operation, subresource, time }: Manager): string =>
  JSON.stringify({
    manager,
    operation,
    ...(operation === "Update" ? { apiVersion, time } : {}),
    ...(subresource === "" ? {} : { subresource })
  })

/** Server-side apply of a configuration to what is there (`undefined`: to nothing). */
export const apply = (
  live: Json.JsonObject | undefined,
  configuration: Json.JsonObject,
  writer: Writer,
  force: boolean
): Applied => {
  const base = live ?? Json.empty
  const wanted = manageable(configuration)
  const set = buildRoot(wanted, { custom: writer.custom, mode: "apply" })
  const before = live === undefined ? [] : read(live)
  const isMine = isWriter(writer, "Apply")
  const mine = before.find(isMine)
  const others = before.filter((entry) => !isMine(entry))
  const merged: Record<string, Json.Json> = { ...base }
  for (const [key, value] of Object.entries(wanted)) merged[key] = mergeApplied(base[key], value, key)
  const { set: changed } = changesOfObjects(manageable(base), manageable(merged), {
    custom: writer.custom,
    mode: "apply"
  })
  const conflicts: Array<Conflict> = []
  for (const entry of others.toSorted((a, b) => (identity(a) < identity(b) ? -1 : 1))) {
    for (const path of FieldSet.paths(FieldSet.intersection(FieldSet.intersection(entry.fields, changed), set))) {
      conflicts.push({
        manager: entry.manager,
        path,
        subresource: entry.subresource,
        ...(entry.operation === "Update" ? { using: entry.apiVersion } : {})
      })
    }
  }
  if (conflicts.length > 0 && !force) return { _tag: "Conflicts", conflicts }
  const lost = FieldSet.intersection(changed, set)
  const remaining = others.map((entry) => ({ ...entry, fields: FieldSet.difference(entry.fields, lost) }))
  let dropped = FieldSet.difference(mine?.fields, set)
  for (const entry of remaining) dropped = FieldSet.difference(dropped, entry.fields)
  const kept = remaining.reduce<FieldSet.FieldSet>((all, entry) => FieldSet.union(all, entry.fields), set)
  // An item or object that still has owned fields below it stays
  dropped = FieldSet.prune(dropped, kept)
  const object = Json.object(removePaths(merged, FieldSet.withoutSelf(dropped), ""))
  const withMetadata: Json.JsonObject =
    object["metadata"] === undefined && merged["metadata"] !== undefined ? { ...object, metadata: {} } : object
  const unchangedSet = mine !== undefined && FieldSet.same(mine.fields, set)
  return {
    _tag: "Merged",
    dropsMetadata:
      FieldSet.child(dropped, "f:metadata") !== undefined && FieldSet.child(kept, "f:metadata") === undefined,
    object: withManaged(
      withMetadata,
      write([
        ...remaining,
        {
          manager: writer.manager,
          operation: "Apply",
          apiVersion: writer.apiVersion,
          subresource: writer.subresource,
          time: unchangedSet ? mine.time : writer.time,
          fields: set
        }
      ])
    )
  }
}
