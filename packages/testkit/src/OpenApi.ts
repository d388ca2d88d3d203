/**
 * OpenAPI documents of the served types: enough for kubectl's validation, `apply`, `create` and `explain`. Built-in kinds
 * are described by the tables of their protobuf messages, the custom ones of core/model by their schemas as far as those
 * go, others down to `metadata`. Every object keeps unknown fields.
 *
 * @module
 */
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { JSONSchema } from "effect"
import * as Protobuf from "./Protobuf.js"

/** What a document says about one resource type. */
export interface Described {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly scope: Resource.Scope
}

type Json = Readonly<Record<string, unknown>>

const reversed = (group: string): string => group.split(".").toReversed().join(".")

/** `io.k8s.api.core.v1.Pod`, `org.kubeflow.trainer.v1alpha1.TrainJob`. */
const schemaName = (type: Described): string =>
  type.group === "" || !type.group.includes(".") || type.group.endsWith(".k8s.io")
    ? `io.k8s.api.${type.group === "" ? "core" : (type.group.split(".")[0] ?? "")}.${type.version}.${type.kind}`
    : `${reversed(type.group)}.${type.version}.${type.kind}`

const groupVersionKind = (type: Described): Json => ({ group: type.group, version: type.version, kind: type.kind })

const metaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true } as const
const map = (description: string): Json => ({ type: "object", description, additionalProperties: { type: "string" } })
const string = (description: string): Json => ({ type: "string", description })

const objectMeta: Json = {
  type: "object",
  description: "Metadata that every object has.",
  properties: {
    name: string("Name, unique among the objects of a kind in a namespace."),
    generateName: string("Prefix of a name that the server completes."),
    namespace: string("Namespace of the object; empty for cluster-scoped kinds."),
    labels: map("Keys and values by which objects are selected."),
    annotations: map("Keys and values that are kept and not selected by."),
    uid: string("Identity of the object, set by the server."),
    resourceVersion: string("Version of the object, for optimistic locking and watches."),
    generation: { type: "integer", format: "int64", description: "Version of the wanted state." },
    creationTimestamp: { type: "string", format: "date-time", description: "When the object was created." },
    deletionTimestamp: { type: "string", format: "date-time", description: "When the object is going to be deleted." },
    deletionGracePeriodSeconds: { type: "integer", format: "int64", description: "Seconds until the deletion." },
    finalizers: {
      type: "array",
      description: "Who must agree before the object goes.",
      items: { type: "string", default: "" },
      "x-kubernetes-list-type": "set"
    },
    ownerReferences: { type: "array", description: "Objects that this one goes with.", items: open },
    managedFields: { type: "array", description: "Who set which field.", items: open }
  },
  "x-kubernetes-preserve-unknown-fields": true
}

type Reference = (name: string) => string

/** `core.v1.PodSpec` of the tables as the name of its schema. */
const messageSchemaName = (message: string): string =>
  message.startsWith("meta.") ? `io.k8s.apimachinery.pkg.apis.${message}` : `io.k8s.api.${message}`

const scalars: Readonly<Record<string, Json>> = {
  string: { type: "string" },
  int: { type: "integer", format: "int64" },
  bool: { type: "boolean" },
  bytes: { type: "string", format: "byte" },
  time: { type: "string", format: "date-time" },
  microtime: { type: "string", format: "date-time" },
  quantity: { type: "string" },
  intorstring: { type: "string", format: "int-or-string" },
  fields: { type: "object" },
  list: { type: "array", items: { type: "string" } }
}

const messageProperties = (message: Protobuf.Message, reference: Reference): Json =>
  Object.fromEntries(
    [...message.values()].flatMap(({ many, name, type }): ReadonlyArray<readonly [string, unknown]> => {
      if (name === "") {
        const lent = Protobuf.messageOf(type)
        return lent === undefined ? [] : Object.entries(messageProperties(lent, reference))
      }
      const one: Json = scalars[type] ?? { allOf: [{ $ref: reference(messageSchemaName(type)) }] }
      const value: Json =
        many === "one"
          ? one
          : many === "list"
            ? { type: "array", items: one }
            : { type: "object", additionalProperties: one }
      return [[name, value]]
    })
  )

/** The messages that a message holds, itself included. */
const messagesOf = (name: string, found: Set<string>): ReadonlySet<string> => {
  const message = found.has(name) ? undefined : Protobuf.messageOf(name)
  if (message === undefined) return found
  found.add(name)
  for (const { type } of message.values()) messagesOf(type, found)
  return found
}

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** A JSON schema of the model as a structural one: what may be null is optional, and what is not named is kept. */
const structural = (schema: unknown, definitions: Json): Json => {
  if (!isRecord(schema)) return open
  const { $ref, additionalProperties, anyOf, items, properties, type } = schema
  if (typeof $ref === "string") return structural(definitions[$ref.slice($ref.lastIndexOf("/") + 1)], definitions)
  if (Array.isArray(anyOf)) {
    const [only, ...more] = anyOf.filter((each) => !(isRecord(each) && each["type"] === "null"))
    return more.length === 0 && only !== undefined ? structural(only, definitions) : open
  }
  switch (type) {
    case "string":
    case "boolean":
      return { type }
    case "number":
    case "integer":
      return { type: "integer", format: "int64" }
    case "array":
      return { type: "array", items: structural(items, definitions) }
    case "object":
      return {
        ...open,
        ...(isRecord(properties)
          ? {
              properties: Object.fromEntries(
                Object.entries(properties).map(([name, value]) => [name, structural(value, definitions)])
              )
            }
          : {}),
        ...(isRecord(additionalProperties)
          ? { additionalProperties: structural(additionalProperties, definitions) }
          : {})
      }
    default:
      return open
  }
}

const modelled: ReadonlyArray<Resource.Any> = [
  Trainer.trainJobs,
  Trainer.trainingRuntimes,
  Trainer.clusterTrainingRuntimes,
  JobSet.jobSets,
  ...Object.values(Kueue).filter(
    (value): value is Resource.Any => isRecord(value) && "plural" in value && "schema" in value
  )
]

const structures = new Map<string, Json>()

/** The properties of a custom kind that core/model reads. */
const modelProperties = (type: Described): Json => {
  const id = `${type.group}/${type.version}/${type.plural}`
  const known = structures.get(id)
  if (known !== undefined) return known
  const model = modelled.find(
    ({ group, plural, version }) => group === type.group && version === type.version && plural === type.plural
  )
  const schema: unknown = model === undefined ? undefined : JSONSchema.make(model.schema)
  const definitions = isRecord(schema) && isRecord(schema["$defs"]) ? schema["$defs"] : {}
  const { properties } = structural(schema, definitions)
  const found = isRecord(properties) ? properties : {}
  structures.set(id, found)
  return found
}

const messageOfKind = (type: Described): string | undefined =>
  Protobuf.messageOfKind(Resource.apiVersion(type), type.kind)

const objectSchema = (type: Described, reference: Reference): Json => {
  const message = messageOfKind(type)
  const table = message === undefined ? undefined : Protobuf.messageOf(message)
  return {
    type: "object",
    description: `${type.kind} in ${Resource.apiVersion(type)}.`,
    properties: {
      spec: { ...open, description: "What is wanted." },
      status: { ...open, description: "What is." },
      ...(table === undefined ? modelProperties(type) : messageProperties(table, reference)),
      apiVersion: string("Group and version of the schema of this object."),
      kind: string("Kind of this object."),
      metadata: { description: "The object's metadata.", allOf: [{ $ref: reference(metaName) }] }
    },
    "x-kubernetes-preserve-unknown-fields": true,
    "x-kubernetes-group-version-kind": [groupVersionKind(type)]
  }
}

/** The schemas of the objects, and of the messages that they hold. */
const schemas = (types: ReadonlyArray<Described>, reference: Reference): Json => {
  const found = new Set<string>()
  for (const type of types) messagesOf(messageOfKind(type) ?? "", found)
  return {
    ...Object.fromEntries(
      [...found].map((name) => [
        messageSchemaName(name),
        { ...open, properties: messageProperties(Protobuf.messageOf(name) ?? new Map(), reference) }
      ])
    ),
    [metaName]: objectMeta,
    ...Object.fromEntries(types.map((type) => [schemaName(type), objectSchema(type, reference)]))
  }
}

const queryParameter = (name: string): Json => ({ name, in: "query", schema: { type: "string", uniqueItems: true } })
// kubectl asks the server to validate only where a write names this parameter
const writeParameters = ["dryRun", "fieldManager", "fieldValidation"].map(queryParameter)

const operation = (type: Described, action: string, extra: Json = {}): Json => ({
  operationId: `${action}_${schemaName(type)}`,
  responses: { "200": { description: "OK" }, "401": { description: "Unauthorized" } },
  "x-kubernetes-action": action,
  "x-kubernetes-group-version-kind": groupVersionKind(type),
  ...extra
})

const requestBody = (mediaTypes: ReadonlyArray<string>, name: string): Json => ({
  requestBody: {
    required: true,
    content: Object.fromEntries(
      mediaTypes.map((mediaType) => [mediaType, { schema: { $ref: `#/components/schemas/${name}` } }])
    )
  }
})

const pathsOf = (type: Described): Json => {
  const root = type.group === "" ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`
  const collection = `${root}${type.scope === "Namespaced" ? "/namespaces/{namespace}" : ""}/${type.plural}`
  const written = requestBody(["application/json", "application/yaml"], schemaName(type))
  return {
    [collection]: {
      get: operation(type, "list"),
      post: operation(type, "post", { parameters: writeParameters, ...written })
    },
    [`${collection}/{name}`]: {
      get: operation(type, "get"),
      put: operation(type, "put", { parameters: writeParameters, ...written }),
      // The strategic merge is left out on purpose: with it, kubectl would look for merge keys in these schemas instead of
      // taking its own for the built-in kinds
      patch: operation(type, "patch", {
        parameters: [...writeParameters, queryParameter("force")],
        ...requestBody(["application/merge-patch+json", "application/apply-patch+yaml"], schemaName(type))
      }),
      delete: operation(type, "delete", { parameters: [queryParameter("dryRun")] })
    }
  }
}

const prefixOf = (type: { readonly group: string; readonly version: string }): string =>
  type.group === "" ? `api/${type.version}` : `apis/${type.group}/${type.version}`

/** The answer to `/openapi/v3`: the documents there are. */
export const index = (types: ReadonlyArray<Described>): Json => ({
  paths: Object.fromEntries(
    [...new Set(types.map(prefixOf))]
      .toSorted()
      .map((prefix) => [prefix, { serverRelativeURL: `/openapi/v3/${prefix}` }])
  )
})

/** The OpenAPI 3 document at `/openapi/v3/<prefix>` (`api/v1`, `apis/batch/v1`); `undefined` when nothing is served there. */
export const document = (types: ReadonlyArray<Described>, prefix: string, serverVersion: string): Json | undefined => {
  const described = types.filter((type) => prefixOf(type) === prefix)
  if (described.length === 0) return undefined
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: serverVersion },
    paths: Object.assign({}, ...described.map(pathsOf)) as Json,
    components: {
      schemas: schemas(described, (name) => `#/components/schemas/${name}`)
    }
  }
}

/** The OpenAPI 2 document at `/openapi/v2`, as JSON. */
export const documentV2 = (types: ReadonlyArray<Described>, serverVersion: string): Json => ({
  swagger: "2.0",
  info: { title: "Kubernetes", version: serverVersion },
  paths: {},
  definitions: schemas(types, (name) => `#/definitions/${name}`)
})

const lengthDelimited = (field: number, content: Uint8Array): Uint8Array =>
  Uint8Array.from([(field << 3) | 2, content.length, ...content])

/**
 * The OpenAPI 2 document in the protobuf form that kubectl asks for: a document without definitions, from which kubectl
 * concludes that it knows the built-in kinds better itself.
 */
export const documentV2Protobuf = (serverVersion: string): Uint8Array => {
  const encoder = new TextEncoder()
  // gnostic openapiv2.Document: swagger = 1, info = 2 {title = 1, version = 2}
  const info = Uint8Array.from([
    ...lengthDelimited(1, encoder.encode("Kubernetes")),
    ...lengthDelimited(2, encoder.encode(serverVersion))
  ])
  return Uint8Array.from([...lengthDelimited(1, encoder.encode("2.0")), ...lengthDelimited(2, info)])
}

/** The media type of `documentV2Protobuf`. */
export const protobufMediaType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
