/**
 * JSON values and the few total functions that everything here reads and changes them with, plus RFC 3339 times as
 * Kubernetes writes them. Values are never changed in place.
 *
 * @module
 */

/** A JSON value. */
export type Json = string | number | boolean | null | ReadonlyArray<Json> | JsonObject

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: Json
}

/** Whether a value is a JSON object: not null, not an array. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Whether a value is a JSON array. */
export const isArray = (value: unknown): value is ReadonlyArray<Json> => Array.isArray(value)

/** The value as an object; the empty one for anything else. */
export const object = (value: unknown): JsonObject => (isObject(value) ? value : empty)

/** The value as an array; the empty one for anything else. */
export const array = (value: unknown): ReadonlyArray<Json> => (isArray(value) ? value : [])

/** The value as a string, `undefined` for anything else. */
export const string = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

/** The value as a number, `undefined` for anything else. */
export const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

/** A value as text: a string as it is, anything else as JSON. */
export const text = (value: Json | undefined): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value)

/** The empty object. */
export const empty: JsonObject = {}

/** The value at a path of keys and indexes, `undefined` where the path ends early. */
export const at = (value: unknown, ...path: ReadonlyArray<string | number>): Json | undefined => {
  let current: unknown = value
  for (const step of path) {
    if (typeof step === "number") current = isArray(current) ? current[step] : undefined
    else current = isObject(current) && Object.hasOwn(current, step) ? current[step] : undefined
    if (current === undefined) return undefined
  }
  return current as Json | undefined
}

const setAt = (value: JsonObject, path: ReadonlyArray<string>, index: number, to: Json | undefined): JsonObject => {
  const key = path[index]
  if (key === undefined) return isObject(to) ? to : value
  if (index < path.length - 1) {
    const inner = value[key]
    if (to === undefined && !isObject(inner)) return value
    const changed = setAt(object(inner), path, index + 1, to)
    return changed === inner ? value : { ...value, [key]: changed }
  }
  if (to === undefined) {
    if (!Object.hasOwn(value, key)) return value
    const { [key]: _, ...others } = value
    return others
  }
  return value[key] === to ? value : { ...value, [key]: to }
}

/**
 * The object with the value at a path of keys replaced; `undefined` removes it. Missing objects on the way appear. The
 * object itself when that changes nothing.
 */
export const set = (value: JsonObject, path: ReadonlyArray<string>, to: Json | undefined): JsonObject =>
  setAt(value, path, 0, to)

/** The items changed by a function; the array itself when none of them changes, so that comparing it costs nothing. */
export const mapItems = (items: ReadonlyArray<Json>, change: (item: Json) => Json): ReadonlyArray<Json> => {
  const changed = items.map(change)
  return changed.every((item, index) => item === items[index]) ? items : changed
}

/** The object without some of its keys. */
export const omit = (value: JsonObject, keys: ReadonlyArray<string>): JsonObject => {
  if (!keys.some((key) => Object.hasOwn(value, key))) return value
  const result: Record<string, Json> = {}
  for (const key of Object.keys(value)) {
    const entry = value[key]
    if (entry !== undefined && !keys.includes(key)) result[key] = entry
  }
  return result
}

/** Structural equality; the order of an object's keys does not count. */
export const equal = (left: Json | undefined, right: Json | undefined): boolean => {
  if (left === right) return true
  if (isArray(left)) {
    return isArray(right) && left.length === right.length && left.every((item, index) => equal(item, right[index]))
  }
  if (isObject(left)) {
    if (!isObject(right)) return false
    const keys = Object.keys(left)
    return (
      keys.length === Object.keys(right).length &&
      keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
    )
  }
  return false
}

/** The value with the keys of every object in it in byte order, as custom resources are served. */
export const sorted = (value: Json): Json => {
  if (isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  const result: Record<string, Json> = {}
  for (const key of Object.keys(value).toSorted()) {
    const entry = value[key]
    if (entry !== undefined) result[key] = sorted(entry)
  }
  return result
}

/** Deeper values are printed and parsed: a cycle has to end somewhere. */
const copyDepth = 64

/**
 * A copy of plain JSON; `undefined` for anything that printing would change or refuse. Half the cost of printing and
 * parsing, and every write copies its body.
 */
const copied = (value: unknown, depth: number): Json | undefined => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value
    case "number":
      // Printing turns -0 to 0 and the rest to null
      return Number.isFinite(value) ? value + 0 : undefined
    case "object":
      break
    default:
      return undefined
  }
  if (value === null) return null
  if (depth === copyDepth) return undefined
  if (Array.isArray(value)) {
    const items: Array<Json> = []
    for (const item of value as ReadonlyArray<unknown>) {
      const copy = copied(item, depth + 1)
      if (copy === undefined) return undefined
      items.push(copy)
    }
    return items
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || "toJSON" in value) return undefined
  const result: Record<string, Json> = {}
  for (const key of Object.keys(value)) {
    const entry = (value as Readonly<Record<string, unknown>>)[key]
    if (entry === undefined) continue
    const copy = copied(entry, depth + 1)
    if (copy === undefined || key === "__proto__") return undefined
    result[key] = copy
  }
  return result
}

/**
 * A copy of something that should be JSON, without `undefined` members; `undefined` when it is not JSON (a function, a
 * cycle, a bigint). What enters the store enters through here, so that no caller can change it afterwards.
 */
export const fromUnknown = (value: unknown): Json | undefined => {
  const copy = copied(value, 0)
  if (copy !== undefined) return copy
  try {
    const text = JSON.stringify(value)
    return text === undefined ? undefined : (JSON.parse(text) as Json)
  } catch {
    return undefined
  }
}

const pad = (value: number, width: number): string => String(value).padStart(width, "0")

// Civil date from days since 1970-01-01: http://howardhinnant.github.io/date_algorithms.html
const civil = (days: number): readonly [year: number, month: number, day: number] => {
  const z = days + 719_468
  const era = Math.floor(z / 146_097)
  const dayOfEra = z - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shifted = Math.floor((5 * dayOfYear + 2) / 153)
  const month = shifted < 10 ? shifted + 3 : shifted - 9
  return [yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - Math.floor((153 * shifted + 2) / 5) + 1]
}

const daysFromCivil = (year: number, month: number, day: number): number => {
  const y = month <= 2 ? year - 1 : year
  const era = Math.floor(y / 400)
  const yearOfEra = y - era * 400
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  return era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
}

const seconds = (total: number): string => {
  const days = Math.floor(total / 86_400)
  const rest = total - days * 86_400
  const [year, month, day] = civil(days)
  return `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}T${pad(Math.floor(rest / 3600), 2)}:${pad(
    Math.floor(rest / 60) % 60,
    2
  )}:${pad(rest % 60, 2)}`
}

/** Epoch milliseconds as `metav1.Time`: whole seconds, cut, `2026-11-29T17:00:33Z`. */
export const time = (milliseconds: number): string => `${seconds(Math.floor(milliseconds / 1000))}Z`

/** Epoch nanoseconds as the container runtime stamps log lines: exactly nine fraction digits. */
export const nanoTime = (nanoseconds: bigint): string => {
  const whole = nanoseconds / 1_000_000_000n
  return `${seconds(Number(whole))}.${String(nanoseconds - whole * 1_000_000_000n).padStart(9, "0")}Z`
}

const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})$/

/** An RFC 3339 time as epoch milliseconds (cut), `undefined` when it is none. */
export const parseTime = (text: string): number | undefined => {
  const match = rfc3339.exec(text)
  if (match === null) return undefined
  const [, year, month, day, hour, minute, second, fraction, zone] = match
  const numbers = [year, month, day, hour, minute, second].map(Number)
  const [y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0] = numbers
  if (mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 60) return undefined
  const offset =
    zone === undefined || zone.toUpperCase() === "Z"
      ? 0
      : (zone.startsWith("-") ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4, 6)))
  const milliseconds = fraction === undefined ? 0 : Number(`${fraction}000`.slice(0, 3))
  return ((daysFromCivil(y, mo, d) * 24 + h) * 60 + mi - offset) * 60_000 + s * 1000 + milliseconds
}
