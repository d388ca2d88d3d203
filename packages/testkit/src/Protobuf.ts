/**
 * Reads the protobuf request bodies that kubectl 1.37 sends without falling back to JSON (`auth can-i`, `auth whoami`,
 * `create token|namespace|serviceaccount|role|rolebinding|job|poddisruptionbudget` …). The envelope is `k8s\0` and a `runtime.Unknown`
 * (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding); messages are described as data.
 *
 * @module
 */
import { Either } from "effect"

/** The media type of the Kubernetes protobuf encoding. */
export const mediaType = "application/vnd.kubernetes.protobuf"

/** How one field of a message reads in JSON. Field numbers are those of the published `generated.proto` files. */
type Field =
  | { readonly name: string; readonly type: "string" | "integer" | "boolean" | "time" | "intOrString" | "ignored" }
  | { readonly name: string; readonly type: "strings" | "stringMap" | "bytesMap" }
  | { readonly name: string; readonly type: "message" | "messages"; readonly of: Message }

type Message = Readonly<Record<number, Field>>

const text = (name: string): Field => ({ name, type: "string" })
const integer = (name: string): Field => ({ name, type: "integer" })
const boolean = (name: string): Field => ({ name, type: "boolean" })
const time = (name: string): Field => ({ name, type: "time" })
const strings = (name: string): Field => ({ name, type: "strings" })
const stringMap = (name: string): Field => ({ name, type: "stringMap" })
const bytesMap = (name: string): Field => ({ name, type: "bytesMap" })
const intOrString = (name: string): Field => ({ name, type: "intOrString" })
// A new object's status is not the client's to say, so that nothing is lost
const status: Field = { name: "status", type: "ignored" }
const message = (name: string, of: Message): Field => ({ name, type: "message", of })
const messages = (name: string, of: Message): Field => ({ name, type: "messages", of })

// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto
const ownerReference: Message = {
  1: text("kind"),
  3: text("name"),
  4: text("uid"),
  5: text("apiVersion"),
  6: boolean("controller"),
  7: boolean("blockOwnerDeletion")
}
const objectMeta: Message = {
  1: text("name"),
  2: text("generateName"),
  3: text("namespace"),
  5: text("uid"),
  6: text("resourceVersion"),
  // The server counts generations
  7: { name: "generation", type: "ignored" },
  8: time("creationTimestamp"),
  9: time("deletionTimestamp"),
  10: integer("deletionGracePeriodSeconds"),
  11: stringMap("labels"),
  12: stringMap("annotations"),
  13: messages("ownerReferences", ownerReference),
  14: strings("finalizers")
}
const metadata = message("metadata", objectMeta)
const preconditions: Message = { 1: text("uid"), 2: text("resourceVersion") }
const deleteOptions: Message = {
  1: integer("gracePeriodSeconds"),
  2: message("preconditions", preconditions),
  3: boolean("orphanDependents"),
  4: text("propagationPolicy"),
  5: strings("dryRun")
}

// k8s.io/api/authorization/v1/generated.proto
const requirement: Message = { 1: text("key"), 2: text("operator"), 3: strings("values") }
const selectorAttributes: Message = { 1: text("rawSelector"), 2: messages("requirements", requirement) }
const resourceAttributes: Message = {
  1: text("namespace"),
  2: text("verb"),
  3: text("group"),
  4: text("version"),
  5: text("resource"),
  6: text("subresource"),
  7: text("name"),
  8: message("fieldSelector", selectorAttributes),
  9: message("labelSelector", selectorAttributes)
}
const nonResourceAttributes: Message = { 1: text("path"), 2: text("verb") }
const selfSubjectAccessReviewSpec: Message = {
  1: message("resourceAttributes", resourceAttributes),
  2: message("nonResourceAttributes", nonResourceAttributes)
}
const subjectAccessReviewSpec: Message = {
  1: message("resourceAttributes", resourceAttributes),
  2: message("nonResourceAttributes", nonResourceAttributes),
  3: text("user"),
  4: strings("groups"),
  6: text("uid")
}

// k8s.io/api/authentication/v1/generated.proto
const boundObjectReference: Message = { 1: text("kind"), 2: text("apiVersion"), 3: text("name"), 4: text("uid") }
const tokenRequestSpec: Message = {
  1: strings("audiences"),
  3: message("boundObjectRef", boundObjectReference),
  4: integer("expirationSeconds")
}

// k8s.io/api/core/v1/generated.proto
const objectReference: Message = {
  1: text("kind"),
  2: text("namespace"),
  3: text("name"),
  4: text("uid"),
  5: text("apiVersion"),
  6: text("resourceVersion"),
  7: text("fieldPath")
}

const labelSelector: Message = { 1: stringMap("matchLabels"), 2: messages("matchExpressions", requirement) }
const container: Message = {
  1: text("name"),
  2: text("image"),
  3: strings("command"),
  4: strings("args"),
  5: text("workingDir"),
  14: text("imagePullPolicy")
}
const podTemplate: Message = {
  1: metadata,
  2: message("spec", {
    2: messages("containers", container),
    3: text("restartPolicy"),
    7: stringMap("nodeSelector"),
    8: text("serviceAccountName")
  })
}

// k8s.io/api/batch/v1/generated.proto
const jobSpec: Message = {
  1: integer("parallelism"),
  2: integer("completions"),
  3: integer("activeDeadlineSeconds"),
  4: message("selector", labelSelector),
  5: boolean("manualSelector"),
  6: message("template", podTemplate),
  7: integer("backoffLimit"),
  8: integer("ttlSecondsAfterFinished"),
  9: text("completionMode"),
  10: boolean("suspend")
}

// k8s.io/api/rbac/v1/generated.proto
const policyRule: Message = {
  1: strings("verbs"),
  2: strings("apiGroups"),
  3: strings("resources"),
  4: strings("resourceNames"),
  5: strings("nonResourceURLs")
}
const subject: Message = { 1: text("kind"), 2: text("apiGroup"), 3: text("name"), 4: text("namespace") }
const binding: Message = {
  1: metadata,
  2: messages("subjects", subject),
  3: message("roleRef", { 1: text("apiGroup"), 2: text("kind"), 3: text("name") })
}

// k8s.io/api/policy/v1/generated.proto
const budgetSpec: Message = {
  1: intOrString("minAvailable"),
  2: message("selector", labelSelector),
  3: intOrString("maxUnavailable"),
  4: text("unhealthyPodEvictionPolicy")
}

/** The kinds whose bodies are read, by `apiVersion/kind`. */
const kinds: Readonly<Record<string, Message>> = {
  "authorization.k8s.io/v1/SelfSubjectAccessReview": {
    1: metadata,
    2: message("spec", selfSubjectAccessReviewSpec),
    3: status
  },
  "authorization.k8s.io/v1/SelfSubjectRulesReview": {
    1: metadata,
    2: message("spec", { 1: text("namespace") }),
    3: status
  },
  "authorization.k8s.io/v1/SubjectAccessReview": {
    1: metadata,
    2: message("spec", subjectAccessReviewSpec),
    3: status
  },
  "authorization.k8s.io/v1/LocalSubjectAccessReview": {
    1: metadata,
    2: message("spec", subjectAccessReviewSpec),
    3: status
  },
  "authentication.k8s.io/v1/SelfSubjectReview": { 1: metadata, 2: status },
  "authentication.k8s.io/v1/TokenRequest": { 1: metadata, 2: message("spec", tokenRequestSpec), 3: status },
  "batch/v1/Job": { 1: metadata, 2: message("spec", jobSpec), 3: status },
  "policy/v1/Eviction": { 1: metadata, 2: message("deleteOptions", deleteOptions) },
  "policy/v1/PodDisruptionBudget": { 1: metadata, 2: message("spec", budgetSpec), 3: status },
  "rbac.authorization.k8s.io/v1/ClusterRole": { 1: metadata, 2: messages("rules", policyRule) },
  "rbac.authorization.k8s.io/v1/ClusterRoleBinding": binding,
  "rbac.authorization.k8s.io/v1/Role": { 1: metadata, 2: messages("rules", policyRule) },
  "rbac.authorization.k8s.io/v1/RoleBinding": binding,
  "v1/Binding": { 1: metadata, 2: message("target", objectReference) },
  "v1/ConfigMap": { 1: metadata, 2: stringMap("data"), 3: bytesMap("binaryData"), 4: boolean("immutable") },
  "v1/DeleteOptions": deleteOptions,
  "v1/Namespace": { 1: metadata, 2: message("spec", { 1: strings("finalizers") }), 3: status },
  "v1/Secret": {
    1: metadata,
    2: bytesMap("data"),
    3: text("type"),
    4: stringMap("stringData"),
    5: boolean("immutable")
  },
  "v1/ServiceAccount": {
    1: metadata,
    2: messages("secrets", objectReference),
    3: messages("imagePullSecrets", { 1: text("name") }),
    4: boolean("automountServiceAccountToken")
  }
}

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

const secondsOf = (bytes: Uint8Array): number => {
  const seconds = readWire(bytes).find((wire) => wire.field === 1)?.value
  return seconds === undefined ? 0 : asNumber(seconds)
}

const readMessage = (
  bytes: Uint8Array,
  shape: Message,
  formatTime: (epochSeconds: number) => string
): Record<string, unknown> => {
  const out: Record<string, unknown> = {}
  const push = (name: string, value: unknown): void => {
    const present = out[name]
    if (Array.isArray(present)) present.push(value)
    else out[name] = [value]
  }
  for (const { field, value } of readWire(bytes)) {
    const known = shape[field]
    if (known === undefined) {
      // Go writes fields that are not set as zero; one that is set must not get lost
      if (typeof value === "bigint" ? value !== 0n : value.length > 0) {
        throw new Malformed(`${unread} field ${field} of a message`)
      }
      continue
    }
    switch (known.type) {
      case "string": {
        // gogo-proto writes empty strings out; JSON leaves them away
        const read = decoder.decode(asBytes(value))
        if (read !== "") out[known.name] = read
        break
      }
      case "integer":
        out[known.name] = asNumber(value)
        break
      case "boolean":
        out[known.name] = asNumber(value) !== 0
        break
      case "time": {
        const seconds = secondsOf(asBytes(value))
        if (seconds !== 0) out[known.name] = formatTime(seconds)
        break
      }
      case "intOrString": {
        // type 0: the integer of field 2; type 1: the text of field 3
        const parts = new Map(readWire(asBytes(value)).map((part) => [part.field, part.value]))
        out[known.name] =
          (parts.get(1) ?? 0n) === 0n
            ? asNumber(parts.get(2) ?? 0n)
            : decoder.decode(asBytes(parts.get(3) ?? new Uint8Array()))
        break
      }
      case "ignored":
        break
      case "strings":
        push(known.name, decoder.decode(asBytes(value)))
        break
      case "stringMap":
      case "bytesMap": {
        const [key, entry] = readEntry(asBytes(value))
        const present = out[known.name]
        out[known.name] = {
          ...(typeof present === "object" ? present : {}),
          [key]: known.type === "stringMap" ? decoder.decode(entry) : Buffer.from(entry).toString("base64")
        }
        break
      }
      case "message":
        out[known.name] = readMessage(asBytes(value), known.of, formatTime)
        break
      case "messages":
        push(known.name, readMessage(asBytes(value), known.of, formatTime))
        break
    }
  }
  return out
}

const isPrefixed = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x6b && bytes[1] === 0x38 && bytes[2] === 0x73 && bytes[3] === 0

/**
 * Reads a request body into the JSON object that it stands for, `apiVersion` and `kind` included. Left: why it cannot be
 * read, or which kind is not among those that are. `formatTime` prints epoch seconds as RFC 3339.
 */
export const decode = (
  bytes: Uint8Array,
  formatTime: (epochSeconds: number) => string
): Either.Either<Record<string, unknown>, string> => {
  if (!isPrefixed(bytes))
    return Either.left("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
  try {
    let apiVersion = ""
    let kind = ""
    let raw: Uint8Array = new Uint8Array()
    for (const { field, value } of readWire(bytes.subarray(4))) {
      if (field === 1) {
        for (const part of readWire(asBytes(value))) {
          if (part.field === 1) apiVersion = decoder.decode(asBytes(part.value))
          else if (part.field === 2) kind = decoder.decode(asBytes(part.value))
        }
      } else if (field === 2) raw = asBytes(value)
    }
    const shape = kinds[`${apiVersion}/${kind}`]
    return shape === undefined
      ? Either.left(`${unread} kind "${kind}" in version "${apiVersion}"`)
      : Either.right({ apiVersion, kind, ...readMessage(raw, shape, formatTime) })
  } catch (cause) {
    return Either.left(cause instanceof Error ? cause.message : "unreadable protobuf")
  }
}
