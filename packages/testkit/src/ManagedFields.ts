/**
 * Who owns which field: the sets of fields behind `metadata.managedFields`, how updates move ownership, and server-side
 * apply.
 *
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 * @module
 */
import * as Json from "./Json.js"

/** A set of field paths. Keys are path elements as `fieldsV1` spells them: `f:name`, `k:{"name":"x"}`, `v:"x"`. */
export interface FieldSet {
  /** Whether the path that leads here is in the set itself. */
  readonly self: boolean
  readonly children: ReadonlyMap<string, FieldSet>
}

const nothing: FieldSet = { self: false, children: new Map() }
const leaf: FieldSet = { self: true, children: new Map() }

/** Whether the set is empty. */
const isEmpty = (set: FieldSet): boolean => !set.self && set.children.size === 0

const make = (self: boolean, children: ReadonlyMap<string, FieldSet>): FieldSet =>
  children.size === 0 ? (self ? leaf : nothing) : { self, children }

/** The union of two sets. */
const union = (left: FieldSet, right: FieldSet): FieldSet => {
  if (isEmpty(left)) return right
  if (isEmpty(right)) return left
  const children = new Map(left.children)
  for (const [key, set] of right.children) children.set(key, union(children.get(key) ?? nothing, set))
  return make(left.self || right.self, children)
}

/** What is in the left set and not in the right one. */
const difference = (left: FieldSet, right: FieldSet): FieldSet => {
  if (isEmpty(right)) return left
  const children = new Map<string, FieldSet>()
  for (const [key, set] of left.children) {
    const other = right.children.get(key)
    const rest = other === undefined ? set : difference(set, other)
    if (!isEmpty(rest)) children.set(key, rest)
  }
  return make(left.self && !right.self, children)
}

/** What is in both. */
const intersection = (left: FieldSet, right: FieldSet): FieldSet => {
  const children = new Map<string, FieldSet>()
  for (const [key, set] of left.children) {
    const other = right.children.get(key)
    const both = other === undefined ? nothing : intersection(set, other)
    if (!isEmpty(both)) children.set(key, both)
  }
  return make(left.self && right.self, children)
}

const same = (left: FieldSet, right: FieldSet): boolean =>
  left.self === right.self &&
  left.children.size === right.children.size &&
  [...left.children].every(([key, set]) => {
    const other = right.children.get(key)
    return other !== undefined && same(set, other)
  })

/** The paths of the set as conflicts print them: `.data.x`, `.spec.runtimePatches[manager="a"].time`. */
const paths = (set: FieldSet, prefix = ""): ReadonlyArray<string> => {
  const result: Array<string> = []
  if (set.self && prefix !== "") result.push(prefix)
  for (const [key, child] of set.children) {
    let text = `.${key.slice(2)}`
    if (key.startsWith("k:")) {
      const keys = Json.object(Json.fromUnknown(JSON.parse(key.slice(2))))
      text = `[${Object.entries(keys)
        .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
        .join(",")}]`
    } else if (key.startsWith("v:")) text = `[=${key.slice(2)}]`
    result.push(...paths(child, prefix + text))
  }
  return result
}

const sharedLeaf: Json.JsonObject = {}

/** The set as `fieldsV1`. */
const toFieldsV1 = (set: FieldSet): Json.JsonObject => {
  if (set.children.size === 0) return sharedLeaf
  const result: Record<string, Json.Json> = {}
  if (set.self) result["."] = sharedLeaf
  for (const key of [...set.children.keys()].toSorted()) result[key] = toFieldsV1(set.children.get(key) ?? nothing)
  return result
}

/** The set that `fieldsV1` spells. */
const fromFieldsV1 = (fields: Json.JsonObject, root = true): FieldSet => {
  const children = new Map<string, FieldSet>()
  for (const [key, value] of Object.entries(fields)) {
    if (key !== ".") children.set(key, fromFieldsV1(Json.object(value), false))
  }
  return make(!root && (children.size === 0 || fields["."] !== undefined), children)
}

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
  const values: Record<string, Json.Json> = {}
  for (const key of keys) {
    const value = item[key]
    if (value === undefined && keys.length === 1) return undefined
    values[key] = value ?? ""
  }
  return `k:${JSON.stringify(values)}`
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

const build = (value: Json.Json, field: string, walk: Walk, inMetadata: boolean): FieldSet => {
  if (Json.isObject(value) && !atomicFields.has(field)) {
    const keys = Object.keys(value)
    if (keys.length === 0) return leaf
    const children = new Map<string, FieldSet>()
    for (const key of keys) {
      const entry = value[key]
      if (entry !== undefined) children.set(`f:${key}`, build(entry, key, walk, inMetadata))
    }
    return make(walk.mode === "update" && (mapFields.has(field) || (walk.custom && !inMetadata)), children)
  }
  if (Json.isArray(value) && isKeyed(field)) {
    const items = keyed(field, value)
    if (items === undefined || items.size === 0) return leaf
    const children = new Map<string, FieldSet>()
    for (const [key, item] of items) {
      const set = field === "ownerReferences" || !Json.isObject(item) ? leaf : build(item, "", walk, inMetadata)
      children.set(key, make(true, set.children))
    }
    return make(walk.mode === "update" && (walk.custom || inMetadata), children)
  }
  return leaf
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

const buildRoot = (object: Json.JsonObject, walk: Walk): FieldSet => {
  const children = new Map<string, FieldSet>()
  for (const [key, value] of Object.entries(object)) {
    if (key === "metadata") {
      const inner = new Map<string, FieldSet>()
      for (const [name, entry] of Object.entries(Json.object(value))) {
        inner.set(`f:${name}`, build(entry, name, walk, true))
      }
      if (inner.size > 0) children.set("f:metadata", make(false, inner))
    } else {
      const set = build(value, key, walk, false)
      // An empty status or spec of a built-in type is no field of anybody
      if (!(Json.isObject(value) && Object.keys(value).length === 0 && !walk.custom)) children.set(`f:${key}`, set)
    }
  }
  return make(false, children)
}

/** What changed: paths set to something new, and paths that went. */
interface Changes {
  readonly set: FieldSet
  readonly removed: FieldSet
}

const unchanged: Changes = { set: nothing, removed: nothing }

const changesOfEntries = (
  before: ReadonlyMap<string, Json.Json>,
  after: ReadonlyMap<string, Json.Json>,
  nameOf: (key: string) => string,
  walk: Walk,
  inMetadata: boolean
): Changes => {
  const set = new Map<string, FieldSet>()
  const removed = new Map<string, FieldSet>()
  for (const [key, value] of after) {
    const old = before.get(key)
    const change =
      old === undefined
        ? { set: itemSelf(key, build(value, nameOf(key), walk, inMetadata)), removed: nothing }
        : changes(old, value, nameOf(key), walk, inMetadata)
    if (!isEmpty(change.set)) set.set(key, change.set)
    if (!isEmpty(change.removed)) removed.set(key, change.removed)
  }
  for (const [key, value] of before) {
    if (!after.has(key)) {
      removed.set(key, everything(itemSelf(key, build(value, nameOf(key), { ...walk, mode: "update" }, inMetadata))))
    }
  }
  return { set: make(false, set), removed: make(false, removed) }
}

const itemSelf = (key: string, set: FieldSet): FieldSet =>
  key.startsWith("k:") || key.startsWith("v:") ? make(true, set.children) : set

const everything = (set: FieldSet): FieldSet =>
  make(true, new Map([...set.children].map(([key, child]) => [key, everything(child)] as const)))

const fieldEntries = (value: Json.JsonObject): ReadonlyMap<string, Json.Json> => {
  const result = new Map<string, Json.Json>()
  for (const [key, entry] of Object.entries(value)) result.set(`f:${key}`, entry)
  return result
}

const changes = (before: Json.Json, after: Json.Json, field: string, walk: Walk, inMetadata: boolean): Changes => {
  if (before === after) return unchanged
  if (
    Json.isObject(before) &&
    Json.isObject(after) &&
    !atomicFields.has(field) &&
    Object.keys(before).length > 0 &&
    Object.keys(after).length > 0
  ) {
    return changesOfEntries(fieldEntries(before), fieldEntries(after), (key) => key.slice(2), walk, inMetadata)
  }
  if (Json.isArray(before) && Json.isArray(after) && isKeyed(field) && field !== "ownerReferences") {
    const old = keyed(field, before)
    const now = keyed(field, after)
    if (old !== undefined && now !== undefined && old.size > 0 && now.size > 0) {
      return changesOfEntries(old, now, () => "", walk, inMetadata)
    }
  }
  if (Json.equal(before, after)) return unchanged
  return { set: build(after, field, walk, inMetadata), removed: everything(build(before, field, walk, inMetadata)) }
}

const changesOfObjects = (before: Json.JsonObject, after: Json.JsonObject, walk: Walk): Changes => {
  const metadata = changes(before["metadata"] ?? Json.empty, after["metadata"] ?? Json.empty, "metadata", walk, true)
  const strip = (object: Json.JsonObject): Json.JsonObject => Json.omit(object, ["metadata"])
  const empty = buildRoot(strip(after), walk)
  const rest =
    Object.keys(strip(before)).length === 0
      ? { set: empty, removed: nothing }
      : changesOfEntries(fieldEntries(strip(before)), fieldEntries(strip(after)), (key) => key.slice(2), walk, false)
  const meta =
    Object.keys(Json.object(before["metadata"])).length === 0
      ? buildRoot({ metadata: after["metadata"] ?? {} }, walk)
      : make(false, new Map(isEmpty(metadata.set) ? [] : [["f:metadata", metadata.set]]))
  return {
    set: union(rest.set, meta),
    removed: union(
      rest.removed,
      make(false, new Map(isEmpty(metadata.removed) ? [] : [["f:metadata", metadata.removed]]))
    )
  }
}

/** One entry of `metadata.managedFields`. */
interface Manager {
  readonly manager: string
  readonly operation: string
  readonly apiVersion: string
  readonly subresource: string
  readonly time: string
  readonly fields: FieldSet
}

const read = (object: Json.JsonObject): ReadonlyArray<Manager> =>
  Json.array(Json.at(object, "metadata", "managedFields")).map((entry) => ({
    manager: Json.string(Json.at(entry, "manager")) ?? "",
    operation: Json.string(Json.at(entry, "operation")) ?? "",
    apiVersion: Json.string(Json.at(entry, "apiVersion")) ?? "",
    subresource: Json.string(Json.at(entry, "subresource")) ?? "",
    time: Json.string(Json.at(entry, "time")) ?? "",
    fields: fromFieldsV1(Json.object(Json.at(entry, "fieldsV1")))
  }))

const write = (managers: ReadonlyArray<Manager>): ReadonlyArray<Json.Json> =>
  managers
    .filter(({ fields }) => !isEmpty(fields))
    .toSorted(
      (a, b) =>
        compare(a.operation, b.operation) ||
        compare(a.time, b.time) ||
        compare(a.manager, b.manager) ||
        compare(a.subresource, b.subresource)
    )
    .map(({ apiVersion, fields, manager, operation, subresource, time }) => ({
      manager,
      operation,
      apiVersion,
      time,
      fieldsType: "FieldsV1",
      fieldsV1: toFieldsV1(fields),
      ...(subresource === "" ? {} : { subresource })
    }))

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
  if (isEmpty(set) && isEmpty(removed))
    return withManaged(object, Json.array(Json.at(old, "metadata", "managedFields")))
  const gone = union(set, removed)
  const managers = before
    .filter((entry) => !isMine(entry))
    .map((entry) => ({ ...entry, fields: difference(entry.fields, gone) }))
  const mine = before.find(isMine)
  const fields = union(mine === undefined ? nothing : difference(mine.fields, removed), set)
  const unchangedSet = mine !== undefined && same(fields, mine.fields)
  managers.push({
    manager: writer.manager,
    operation: "Update",
    apiVersion: writer.apiVersion,
    subresource: writer.subresource,
    time: unchangedSet ? mine.time : writer.time,
    fields
  })
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
const removePaths = (value: Json.Json, set: FieldSet, field: string): Json.Json | undefined => {
  if (set.children.size === 0) return set.self ? undefined : value
  if (Json.isObject(value)) {
    const result: Record<string, Json.Json> = {}
    for (const [key, entry] of Object.entries(value)) {
      const inner = set.children.get(`f:${key}`)
      const rest = inner === undefined ? entry : removePaths(entry, inner, key)
      if (rest !== undefined) result[key] = rest
    }
    // A named field goes with its last member, the root stays
    const isEmptied = Object.keys(result).length === 0 && Object.keys(value).length > 0 && field !== ""
    return Object.keys(result).length === 0 && (set.self || isEmptied) ? undefined : result
  }
  if (Json.isArray(value)) {
    const items = keyed(field, value)
    if (items === undefined) return value
    const rest: Array<Json.Json> = []
    for (const [key, item] of items) {
      const inner = set.children.get(key)
      // An item that the manager no longer names goes as a whole: what is left would be its keys alone
      const left = inner === undefined ? item : inner.self ? undefined : removePaths(item, inner, "")
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
  /** Set for managers that own it by updates. */
  readonly update?: { readonly apiVersion: string; readonly subresource: string }
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
  for (const entry of others) {
    for (const path of paths(intersection(intersection(entry.fields, changed), set))) {
      conflicts.push({
        manager: entry.manager,
        path,
        ...(entry.operation === "Update"
          ? { update: { apiVersion: entry.apiVersion, subresource: entry.subresource } }
          : {})
      })
    }
  }
  if (conflicts.length > 0 && !force) return { _tag: "Conflicts", conflicts }
  const remaining = others.map((entry) => ({ ...entry, fields: difference(entry.fields, intersection(changed, set)) }))
  let dropped = mine === undefined ? nothing : difference(mine.fields, set)
  for (const entry of remaining) dropped = difference(dropped, entry.fields)
  const kept = remaining.reduce((all, entry) => union(all, entry.fields), set)
  // An item or object that still has owned fields below it stays
  dropped = prune(dropped, kept)
  const object = Json.object(removePaths(merged, make(false, dropped.children), ""))
  const withMetadata: Json.JsonObject =
    object["metadata"] === undefined && merged["metadata"] !== undefined ? { ...object, metadata: {} } : object
  const unchangedSet = mine !== undefined && same(mine.fields, set)
  return {
    _tag: "Merged",
    dropsMetadata: dropped.children.has("f:metadata") && !kept.children.has("f:metadata"),
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

const prune = (dropped: FieldSet, kept: FieldSet): FieldSet => {
  const children = new Map<string, FieldSet>()
  for (const [key, set] of dropped.children) {
    const rest = kept.children.get(key)
    const pruned = rest === undefined ? set : prune(set, rest)
    if (!isEmpty(pruned)) children.set(key, pruned)
  }
  return make(dropped.self && isEmpty(kept), children)
}
