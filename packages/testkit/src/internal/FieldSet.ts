/**
 * Sets of field paths, in the very form in which `fieldsV1` spells them: keys are path elements (`f:name`,
 * `k:{"name":"x"}`, `v:"x"`) in byte order, `.` says that a path with longer ones below it is in the set itself, and `{}`
 * is a path that ends. Nothing is converted on the way in or out, and a set that an operation leaves as it was is the same
 * object afterwards.
 *
 * @module
 */
import * as Json from "../Json.js"

/** A set that is not empty. */
export type NonEmpty = Json.JsonObject

/** A set; `undefined` is the empty one. */
export type FieldSet = NonEmpty | undefined

/** The path that leads here, and nothing below it. */
export const leaf: NonEmpty = {}

/** Whether there are longer paths. `.` is less than any other key, so that this looks at two keys at most. */
const hasChildren = (set: NonEmpty): boolean => {
  for (const key in set) if (key !== ".") return true
  return false
}

/** Whether the path that leads here is in the set itself. */
export const hasSelf = (set: FieldSet): boolean => set !== undefined && (set["."] !== undefined || !hasChildren(set))

/** What is in the set below a path element. */
export const child = (set: FieldSet, key: string): FieldSet => set?.[key] as FieldSet

/** The longer paths: path elements in byte order, with what is below each. */
export const children = (set: FieldSet): ReadonlyArray<readonly [key: string, below: NonEmpty]> => {
  const result: Array<readonly [string, NonEmpty]> = []
  if (set !== undefined) for (const key in set) if (key !== ".") result.push([key, set[key] as NonEmpty])
  return result
}

/** Sorts in place. The lists are short, and mostly in order. */
export const sorted = (keys: Array<string>): Array<string> => {
  for (let index = 1; index < keys.length; index += 1) {
    const key = keys[index] ?? ""
    let at = index
    for (let before = keys[at - 1]; before !== undefined && before > key; before = keys[at - 1]) {
      keys[at] = before
      at -= 1
    }
    keys[at] = key
  }
  return keys
}

/** A set of these longer paths, keys in byte order, and of the path that leads here if `self`. */
export const make = (self: boolean, keys: ReadonlyArray<string>, below: (key: string) => FieldSet): FieldSet => {
  const result: Record<string, Json.Json> = {}
  if (self) result["."] = leaf
  let size = 0
  for (const key of keys) {
    const set = below(key)
    if (set === undefined) continue
    result[key] = set
    size += 1
  }
  return size > 0 ? result : self ? leaf : undefined
}

/** The set that `fieldsV1` spells: at its root `{}` means nothing. */
export const fromFieldsV1 = (fields: Json.JsonObject): FieldSet => (hasChildren(fields) ? fields : undefined)

/** The set together with the path that leads to it. */
export const withSelf = (set: NonEmpty): NonEmpty => (hasSelf(set) ? set : { ".": leaf, ...set })

/** The set without the path that leads to it. */
export const withoutSelf = (set: FieldSet): FieldSet => {
  if (set === undefined || !hasChildren(set)) return undefined
  return set["."] === undefined ? set : Json.omit(set, ["."])
}

/** The set with every path that leads to one of its own. */
export const everything = (set: NonEmpty): NonEmpty => {
  if (!hasChildren(set)) return leaf
  const result: Record<string, Json.Json> = { ".": leaf }
  for (const [key, below] of children(set)) result[key] = everything(below)
  return result
}

/** What is in either. */
export const union = (left: FieldSet, right: FieldSet): FieldSet => {
  if (left === undefined || left === right) return right
  if (right === undefined) return left
  const self = hasSelf(left) || hasSelf(right)
  let changed = self !== hasSelf(left)
  let grown = false
  const result: Record<string, Json.Json> = {}
  if (self) result["."] = leaf
  for (const [key, below] of children(left)) {
    const both = union(below, child(right, key)) ?? below
    if (both !== below) changed = true
    result[key] = both
  }
  for (const [key, below] of children(right)) {
    if (result[key] !== undefined) continue
    result[key] = below
    grown = true
  }
  if (!changed && !grown) return left
  if (!grown) return result
  const keys = sorted(Object.keys(result))
  return make(self, keys, (key) => (key === "." ? undefined : (result[key] as NonEmpty)))
}

/** What is in the left set and not in the right one. */
export const difference = (left: FieldSet, right: FieldSet): FieldSet => {
  if (left === undefined || right === undefined) return left
  const self = hasSelf(left)
  const keepsSelf = self && !hasSelf(right)
  let changed = self !== keepsSelf
  const result: Record<string, Json.Json> = {}
  if (keepsSelf) result["."] = leaf
  let size = 0
  for (const [key, below] of children(left)) {
    const rest = difference(below, child(right, key))
    if (rest !== below) changed = true
    if (rest === undefined) continue
    result[key] = rest
    size += 1
  }
  if (!changed) return left
  return size > 0 ? result : keepsSelf ? leaf : undefined
}

/** What is in both. */
export const intersection = (left: FieldSet, right: FieldSet): FieldSet => {
  if (left === undefined || right === undefined) return undefined
  return make(
    hasSelf(left) && hasSelf(right),
    children(left).map(([key]) => key),
    (key) => intersection(child(left, key), child(right, key))
  )
}

/** What is left of the dropped paths when every path with a kept one at or below it stays. */
export const prune = (dropped: FieldSet, kept: FieldSet): FieldSet => {
  if (kept === undefined) return dropped
  return make(
    false,
    children(dropped).map(([key]) => key),
    (key) => prune(child(dropped, key), child(kept, key))
  )
}

/** Whether both hold the same paths. */
export const same = (left: FieldSet, right: FieldSet): boolean => Json.equal(left, right)

/** The paths as conflicts print them: `.data.x`, `.spec.runtimePatches[manager="a"].time`. */
export const paths = (set: FieldSet, prefix = ""): ReadonlyArray<string> => {
  const result: Array<string> = []
  if (hasSelf(set) && prefix !== "") result.push(prefix)
  // Fields that have none below them come before those that do
  const below = children(set)
  const isLeaf = ([, inner]: readonly [string, FieldSet]): boolean => children(inner).length === 0
  for (const [key, inner] of [...below.filter(isLeaf), ...below.filter((child) => !isLeaf(child))]) {
    let text = `.${key.slice(2)}`
    if (key.startsWith("k:")) {
      const keys = Json.object(JSON.parse(key.slice(2)))
      text = `[${Object.entries(keys)
        .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
        .join(",")}]`
    } else if (key.startsWith("v:")) text = `[=${key.slice(2)}]`
    result.push(...paths(inner, prefix + text))
  }
  return result
}
