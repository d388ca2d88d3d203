/**
 * Reads request bodies in the Kubernetes protobuf encoding: client-go's typed clients send it by default since 1.37, kubectl
 * for some requests, and neither falls back to JSON. The envelope is `k8s\0` and a `runtime.Unknown`
 * (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding); the messages are `ProtobufTables`.
 *
 * @module
 */
import { DateTime, Either } from "effect"
import * as Tables from "./ProtobufTables.js"

/** The media type of the Kubernetes protobuf encoding. */
export const mediaType = "application/vnd.kubernetes.protobuf"

/** How one field of a message reads in JSON. */
export interface Field {
  /** Empty: the fields of the message belong to the one around it. */
  readonly name: string
  readonly many: "one" | "list" | "map"
  /** A zero was set by the client, or JSON would show it too. */
  readonly keepsZero: boolean
  /** A scalar, or the name of a message. */
  readonly type: string
}

/** The fields of a message by their numbers. */
export type Message = ReadonlyMap<number, Field>

const fieldOf = (text: string): Field => {
  const [, name = "", prefix = "", type = ""] = /^(?:(\S+) )?(\*|\[\]|\{\})?(\S+)$/.exec(text) ?? []
  return {
    name,
    many: prefix === "[]" ? "list" : prefix === "{}" ? "map" : "one",
    keepsZero: prefix !== "",
    type
  }
}

const parsed = new Map<string, Message>()

/** A message by the name that it has in the tables. */
export const messageOf = (name: string): Message | undefined => {
  const known = parsed.get(name)
  if (known !== undefined) return known
  const fields = Tables.messages[name]
  if (fields === undefined) return undefined
  const message: Message = new Map(Object.entries(fields).map(([number, text]) => [Number(number), fieldOf(text)]))
  parsed.set(name, message)
  return message
}

/** The name of the message of a kind. */
export const messageOfKind = (apiVersion: string, kind: string): string | undefined =>
  Tables.kinds[`${apiVersion}/${kind}`]

const decoder = new TextDecoder("utf-8", { fatal: true })

interface Wire {
  readonly field: number
  /** A varint, or the bytes of a length-delimited field. */
  readonly value: bigint | Uint8Array
}

class Malformed extends Error {}

const unread = "no protobuf reader for"

const readVarint = (bytes: Uint8Array, start: number): readonly [bigint, number] => {
  let value = 0n
  for (let index = start, shift = 0n; index < bytes.length && shift < 70n; index += 1, shift += 7n) {
    const byte = bytes[index] ?? 0
    value |= BigInt(byte & 0x7f) << shift
    if ((byte & 0x80) === 0) return [BigInt.asIntN(64, value), index + 1]
  }
  throw new Malformed("unexpected EOF")
}

const readWire = (bytes: Uint8Array): ReadonlyArray<Wire> => {
  const fields: Array<Wire> = []
  let position = 0
  while (position < bytes.length) {
    const [tag, afterTag] = readVarint(bytes, position)
    const field = Number(tag >> 3n)
    switch (Number(tag & 7n)) {
      case 0: {
        const [value, next] = readVarint(bytes, afterTag)
        fields.push({ field, value })
        position = next
        break
      }
      case 1:
        position = afterTag + 8
        break
      case 2: {
        const [length, start] = readVarint(bytes, afterTag)
        const end = start + Number(length)
        if (length < 0n || end > bytes.length) throw new Malformed("unexpected EOF")
        fields.push({ field, value: bytes.subarray(start, end) })
        position = end
        break
      }
      case 5:
        position = afterTag + 4
        break
      default:
        throw new Malformed(`illegal wireType ${Number(tag & 7n)}`)
    }
  }
  return fields
}

const asBytes = (value: bigint | Uint8Array): Uint8Array => {
  if (typeof value === "bigint") throw new Malformed("wrong wireType for a length-delimited field")
  return value
}
const asNumber = (value: bigint | Uint8Array): number => {
  if (typeof value !== "bigint") throw new Malformed("wrong wireType for a varint field")
  return Number(value)
}

const readEntry = (bytes: Uint8Array): readonly [string, Uint8Array] => {
  let key = ""
  let value: Uint8Array = new Uint8Array()
  for (const wire of readWire(bytes)) {
    if (wire.field === 1) key = decoder.decode(asBytes(wire.value))
    else if (wire.field === 2) value = asBytes(wire.value)
  }
  return [key, value]
}

const part = (bytes: Uint8Array, field: number): bigint | Uint8Array | undefined =>
  readWire(bytes).findLast((wire) => wire.field === field)?.value

const textOf = (value: bigint | Uint8Array | undefined): string =>
  value === undefined ? "" : decoder.decode(asBytes(value))

/** A `Timestamp` as RFC 3339; a zero one is `undefined`. */
const timeOf = (bytes: Uint8Array, digits: 0 | 6): string | undefined => {
  const seconds = asNumber(part(bytes, 1) ?? 0n)
  const nanos = asNumber(part(bytes, 2) ?? 0n)
  // Go's zero time is in the year 1
  if (seconds < -62_000_000_000 || (seconds === 0 && nanos === 0)) return undefined
  const whole = DateTime.formatIso(DateTime.unsafeMake(seconds * 1000)).slice(0, 19)
  return digits === 0 ? `${whole}Z` : `${whole}.${String(Math.floor(nanos / 1000)).padStart(6, "0")}Z`
}

const jsonOf = (bytes: Uint8Array): unknown => {
  const raw = textOf(part(bytes, 1))
  return raw === "" ? undefined : (JSON.parse(raw) as unknown)
}

/** A value as JSON has it; `undefined` for a zero that nobody set. */
const readValue = (value: bigint | Uint8Array, { keepsZero, type }: Field): unknown => {
  switch (type) {
    case "string": {
      const read = decoder.decode(asBytes(value))
      return read === "" && !keepsZero ? undefined : read
    }
    case "int": {
      const read = asNumber(value)
      return read === 0 && !keepsZero ? undefined : read
    }
    case "bool": {
      const read = asNumber(value) !== 0
      return !read && !keepsZero ? undefined : read
    }
    case "bytes":
      return Buffer.from(asBytes(value)).toString("base64")
    case "time":
      return timeOf(asBytes(value), 0)
    case "microtime":
      return timeOf(asBytes(value), 6)
    case "quantity":
      return textOf(part(asBytes(value), 1))
    case "intorstring": {
      // type 0: the integer of field 2; type 1: the text of field 3
      const bytes = asBytes(value)
      return (part(bytes, 1) ?? 0n) === 0n ? asNumber(part(bytes, 2) ?? 0n) : textOf(part(bytes, 3))
    }
    case "fields":
      return jsonOf(asBytes(value))
    case "list":
      return readWire(asBytes(value)).map((item) => textOf(item.value))
    default: {
      const message = messageOf(type)
      if (message === undefined) throw new Malformed(`${unread} message ${type}`)
      return readMessage(asBytes(value), message)
    }
  }
}

const readMessage = (bytes: Uint8Array, message: Message): Record<string, unknown> => {
  const out: Record<string, unknown> = {}
  for (const { field, value } of readWire(bytes)) {
    const known = message.get(field)
    if (known === undefined) {
      // Go writes fields that are not set as zero; one that is set must not get lost
      if (typeof value === "bigint" ? value !== 0n : value.length > 0) {
        throw new Malformed(`${unread} field ${field} of a message`)
      }
      continue
    }
    const { many, name } = known
    if (name === "") {
      Object.assign(out, readValue(value, known))
      continue
    }
    const present = out[name]
    switch (many) {
      case "one": {
        const read = readValue(value, known)
        if (read !== undefined) out[name] = read
        break
      }
      case "list": {
        const read = readValue(value, known)
        if (Array.isArray(present)) present.push(read)
        else out[name] = [read]
        break
      }
      case "map": {
        const [key, entry] = readEntry(asBytes(value))
        out[name] = { ...(typeof present === "object" ? present : {}), [key]: readValue(entry, known) }
        break
      }
    }
  }
  return out
}

const isPrefixed = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x6b && bytes[1] === 0x38 && bytes[2] === 0x73 && bytes[3] === 0

/**
 * Reads a request body into the JSON object that it stands for, `apiVersion` and `kind` included. Left: why it cannot be
 * read, or which kind is not among those that are.
 */
export const decode = (bytes: Uint8Array): Either.Either<Record<string, unknown>, string> => {
  if (!isPrefixed(bytes))
    return Either.left("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
  try {
    let apiVersion = ""
    let kind = ""
    let raw: Uint8Array = new Uint8Array()
    for (const { field, value } of readWire(bytes.subarray(4))) {
      if (field === 1) {
        apiVersion = textOf(part(asBytes(value), 1))
        kind = textOf(part(asBytes(value), 2))
      } else if (field === 2) raw = asBytes(value)
    }
    // Every group has the options of a deletion as its own
    const shape = messageOf(messageOfKind(kind === "DeleteOptions" ? "v1" : apiVersion, kind) ?? "")
    return shape === undefined
      ? Either.left(`${unread} kind "${kind}" in version "${apiVersion}"`)
      : Either.right({ apiVersion, kind, ...readMessage(raw, shape) })
  } catch (cause) {
    return Either.left(cause instanceof Error ? cause.message : "unreadable protobuf")
  }
}
