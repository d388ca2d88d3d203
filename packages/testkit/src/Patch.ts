/**
 * The three patch formats that change what is there: merge patch, JSON patch, strategic merge patch. (Server-side apply
 * is in `ManagedFields`.) Pure functions from a document and a patch to a document or to the API server's objection.
 *
 * @module
 */
import { Either } from "effect"
import * as Json from "./Json.js"

/** Why a patch cannot be applied. `malformed` is a 400 with this message, `unprocessable` the 422 that says nothing. */
export type Objection = { readonly _tag: "Malformed"; readonly message: string } | { readonly _tag: "Unprocessable" }

type Result = Either.Either<Json.JsonObject, Objection>

const malformed = (message: string): Result => Either.left({ _tag: "Malformed", message })
const unprocessable: Result = Either.left({ _tag: "Unprocessable" })

const goType = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value

/** Merge patch: https://www.rfc-editor.org/rfc/rfc7386 */
export const merge = (document: Json.Json | undefined, patch: Json.Json): Json.Json => {
  if (!Json.isObject(patch)) return patch
  const result: Record<string, Json.Json> = { ...Json.object(document) }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = merge(result[key], value)
  }
  return result
}

const pointer = (text: Json.Json | undefined): ReadonlyArray<string> | undefined => {
  if (typeof text !== "string") return undefined
  if (text === "") return []
  if (!text.startsWith("/")) return undefined
  return text
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
}

const elementIndex = (token: string, length: number, adding: boolean): number | undefined => {
  if (adding && token === "-") return length
  if (!/^(?:0|[1-9]\d*)$/.test(token)) return undefined
  const index = Number(token)
  return index < length || (adding && index === length) ? index : undefined
}

const lookup = (document: Json.Json, path: ReadonlyArray<string>): Json.Json | undefined => {
  let current: Json.Json | undefined = document
  for (const token of path) {
    if (Json.isArray(current)) {
      const index = elementIndex(token, current.length, false)
      current = index === undefined ? undefined : current[index]
    } else if (Json.isObject(current)) current = Object.hasOwn(current, token) ? current[token] : undefined
    else return undefined
    if (current === undefined) return undefined
  }
  return current
}

type Edit = { readonly op: "add" | "replace"; readonly value: Json.Json } | { readonly op: "remove" }

const edit = (document: Json.Json, path: ReadonlyArray<string>, change: Edit): Json.Json | undefined => {
  const [token, ...rest] = path
  if (token === undefined) return change.op === "remove" ? undefined : change.value
  if (Json.isArray(document)) {
    const adding = rest.length === 0 && change.op === "add"
    const index = elementIndex(token, document.length, adding)
    if (index === undefined) return undefined
    if (rest.length === 0) {
      if (change.op === "add") return [...document.slice(0, index), change.value, ...document.slice(index)]
      if (change.op === "remove") return [...document.slice(0, index), ...document.slice(index + 1)]
      return document.map((item, at) => (at === index ? change.value : item))
    }
    const inner = document[index]
    const changed = inner === undefined ? undefined : edit(inner, rest, change)
    return changed === undefined ? undefined : document.map((item, at) => (at === index ? changed : item))
  }
  if (!Json.isObject(document)) return undefined
  const inner = Object.hasOwn(document, token) ? document[token] : undefined
  if (rest.length === 0) {
    // The server's library replaces what is not there, whatever the RFC says
    if (change.op === "remove" && inner === undefined) return undefined
    return change.op === "remove" ? Json.omit(document, [token]) : { ...document, [token]: change.value }
  }
  const changed = inner === undefined ? undefined : edit(inner, rest, change)
  return changed === undefined ? undefined : { ...document, [token]: changed }
}

/** JSON patch: https://www.rfc-editor.org/rfc/rfc6902. Which operation failed is not told, as upstream. */
export const json = (document: Json.JsonObject, patch: unknown, looksAtFields = true): Result => {
  // Without a look at its fields the patch is decoded by others with other words
  const [prefix, list, operation] = looksAtFields
    ? ["error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"]
    : ["", "jsonpatch.Patch", "jsonpatch.Operation"]
  if (!Array.isArray(patch)) {
    return malformed(`${prefix}json: cannot unmarshal ${goType(patch)} into Go value of type ${list}`)
  }
  const stranger = (patch as ReadonlyArray<unknown>).find((entry) => !Json.isObject(entry))
  if (stranger !== undefined) {
    return malformed(`${prefix}json: cannot unmarshal ${goType(stranger)} into Go value of type ${operation}`)
  }
  let current: Json.Json = document
  for (const entry of patch as ReadonlyArray<unknown>) {
    const op = Json.at(entry, "op")
    const path = pointer(Json.at(entry, "path"))
    if (path === undefined) return unprocessable
    const value = Json.at(entry, "value") ?? null
    const from = pointer(Json.at(entry, "from"))
    let next: Json.Json | undefined
    switch (op) {
      case "test":
        next = Json.equal(lookup(current, path) ?? null, value) ? current : undefined
        break
      case "add":
      case "replace":
        next = edit(current, path, { op, value })
        break
      case "remove":
        next = edit(current, path, { op })
        break
      case "move":
      case "copy": {
        const source = from === undefined ? undefined : lookup(current, from)
        if (source === undefined || from === undefined) return unprocessable
        const without: Json.Json | undefined = op === "move" ? edit(current, from, { op: "remove" }) : current
        next = without === undefined ? undefined : edit(without, path, { op: "add", value: source })
        break
      }
      default:
        next = undefined
    }
    if (next === undefined) return unprocessable
    current = next
  }
  return Json.isObject(current) ? Either.right(current) : unprocessable
}

/** Merge keys of the built-in types for strategic merge patch, by the name of the list. */
// https://github.com/kubernetes/api: patchMergeKey tags. Lists that are not here (taints, tolerations, command …) are
// replaced whole.
const strategicKeys: { readonly [field: string]: string } = {
  containers: "name",
  initContainers: "name",
  ephemeralContainers: "name",
  env: "name",
  volumes: "name",
  volumeMounts: "mountPath",
  volumeDevices: "devicePath",
  imagePullSecrets: "name",
  hostAliases: "ip",
  resourceClaims: "name",
  schedulingGates: "name",
  topologySpreadConstraints: "topologyKey",
  conditions: "type",
  addresses: "type",
  podIPs: "ip",
  ownerReferences: "uid",
  secrets: "name"
}

const keyOf = (field: string, items: ReadonlyArray<Json.Json>): string | undefined => {
  if (field === "ports") {
    return items.some((item) => Json.at(item, "containerPort") !== undefined) ? "containerPort" : "port"
  }
  return strategicKeys[field]
}

/** Lists of plain values that are merged as sets. */
const sets: ReadonlySet<string> = new Set(["finalizers", "podCIDRs"])

const position = (order: ReadonlyArray<Json.Json>, item: Json.Json, same: (a: Json.Json, b: Json.Json) => boolean) =>
  order.findIndex((candidate) => same(candidate, item))

/**
 * Puts what the patch names and what only the server has into one order: items keep the server's relative order where it
 * knows both, else the patch's go first.
 */
const interleave = (
  serverOnly: ReadonlyArray<Json.Json>,
  patched: ReadonlyArray<Json.Json>,
  serverOrder: ReadonlyArray<Json.Json>,
  same: (a: Json.Json, b: Json.Json) => boolean
): ReadonlyArray<Json.Json> => {
  const result: Array<Json.Json> = []
  let left = 0
  let right = 0
  while (left < serverOnly.length || right < patched.length) {
    const mine = serverOnly[left]
    const theirs = patched[right]
    const before =
      mine !== undefined &&
      (theirs === undefined ||
        (position(serverOrder, theirs, same) >= 0 &&
          position(serverOrder, mine, same) < position(serverOrder, theirs, same)))
    if (before) {
      result.push(mine)
      left += 1
    } else if (theirs !== undefined) {
      result.push(theirs)
      right += 1
    }
  }
  return result
}

const sortBy = (
  items: ReadonlyArray<Json.Json>,
  order: ReadonlyArray<Json.Json>,
  same: (a: Json.Json, b: Json.Json) => boolean
): ReadonlyArray<Json.Json> => items.toSorted((a, b) => position(order, a, same) - position(order, b, same))

const mergeList = (
  field: string,
  current: ReadonlyArray<Json.Json>,
  patch: ReadonlyArray<Json.Json>,
  order: ReadonlyArray<Json.Json> | undefined
): ReadonlyArray<Json.Json> => {
  const key = keyOf(field, [...current, ...patch])
  if (key === undefined) {
    if (!sets.has(field)) return patch
    const added = patch.filter((item) => !current.some((present) => Json.equal(present, item)))
    const left = current.filter((item) => !patch.some((named) => Json.equal(named, item)))
    const all = order === undefined ? [...patch, ...left] : [...current, ...added]
    return order === undefined
      ? all
      : interleave(
          all.filter((item) => position(order, item, Json.equal) < 0),
          sortBy(
            all.filter((item) => position(order, item, Json.equal) >= 0),
            order,
            Json.equal
          ),
          current,
          Json.equal
        )
  }
  if (patch.some((item) => Json.at(item, "$patch") === "replace")) {
    return patch.filter((item) => Json.at(item, "$patch") !== "replace")
  }
  const same = (a: Json.Json, b: Json.Json): boolean => {
    const left = Json.at(a, key)
    return left !== undefined && Json.equal(left, Json.at(b, key))
  }
  const deletions = patch.filter((item) => Json.at(item, "$patch") === "delete")
  const rest = patch.filter((item) => Json.at(item, "$patch") !== "delete")
  const kept = current.filter((item) => !deletions.some((deletion) => same(deletion, item)))
  const patched = rest.map((item) => {
    const old = kept.find((present) => same(present, item))
    return strategic(old, item)
  })
  const serverOnly = kept.filter((item) => !rest.some((change) => same(change, item)))
  return order === undefined
    ? interleave(serverOnly, patched, current, same)
    : interleave(serverOnly, sortBy(patched, order, same), current, same)
}

const directive = /^\$(setElementOrder|deleteFromPrimitiveList)\/(.+)$/

/** Strategic merge patch with the merge keys of the built-in types and its directives. */
// https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
export const strategic = (document: Json.Json | undefined, patch: Json.Json): Json.Json => {
  if (!Json.isObject(patch)) return patch
  const how = patch["$patch"]
  if (how === "replace") return Json.omit(patch, ["$patch"])
  if (how === "delete") return {}
  const result: Record<string, Json.Json> = { ...Json.object(document) }
  const orders = new Map<string, ReadonlyArray<Json.Json>>()
  for (const [key, value] of Object.entries(patch)) {
    const match = directive.exec(key)
    if (match === null) continue
    const [, name, field = ""] = match
    if (name === "setElementOrder") orders.set(field, Json.array(value))
    else {
      result[field] = Json.array(result[field]).filter(
        (item) => !Json.array(value).some((removed) => Json.equal(removed, item))
      )
    }
  }
  const retained = patch["$retainKeys"]
  if (Json.isArray(retained)) {
    for (const key of Object.keys(result)) if (!retained.includes(key)) delete result[key]
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith("$")) continue
    if (value === null) delete result[key]
    else if (Json.isArray(value)) result[key] = mergeList(key, Json.array(result[key]), value, orders.get(key))
    // A directive where there is nothing yet means nothing
    else if (result[key] === undefined && Json.at(value, "$patch") !== undefined) continue
    else result[key] = strategic(result[key], value)
  }
  for (const [field, order] of orders) {
    if (patch[field] === undefined && result[field] !== undefined) {
      result[field] = mergeList(field, Json.array(result[field]), [], order)
    }
  }
  return result
}

/** Applies a merge patch or a strategic one, refusing what is not an object as the API server does. */
export const object = (type: "merge" | "strategic", document: Json.JsonObject, patch: unknown): Result => {
  const value = Json.fromUnknown(patch)
  if (typeof patch === "string" || value === undefined) return malformed("invalid JSON patch")
  if (!Json.isObject(value)) {
    return malformed(
      `${type === "merge" ? "error decoding patch: " : ""}json: cannot unmarshal ${goType(value)} into Go value of type map[string]interface {}`
    )
  }
  const result = type === "merge" ? merge(document, value) : strategic(document, value)
  return Json.isObject(result) ? Either.right(result) : unprocessable
}
