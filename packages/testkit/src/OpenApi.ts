/**
 * OpenAPI documents of the served types: enough for kubectl's validation, `apply`, `create` and `explain`. Objects are
 * described down to `metadata`; `spec`, `status` and the rest keep unknown fields.
 *
 * @module
 */
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"

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

const objectSchema = (type: Described, reference: (name: string) => string): Json => ({
  type: "object",
  description: `${type.kind} in ${Resource.apiVersion(type)}.`,
  properties: {
    apiVersion: string("Group and version of the schema of this object."),
    kind: string("Kind of this object."),
    metadata: { description: "The object's metadata.", allOf: [{ $ref: reference(metaName) }] },
    spec: { ...open, description: "What is wanted." },
    status: { ...open, description: "What is." }
  },
  "x-kubernetes-preserve-unknown-fields": true,
  "x-kubernetes-group-version-kind": [groupVersionKind(type)]
})

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
      schemas: {
        [metaName]: objectMeta,
        ...Object.fromEntries(
          described.map((type) => [schemaName(type), objectSchema(type, (name) => `#/components/schemas/${name}`)])
        )
      }
    }
  }
}

/** The OpenAPI 2 document at `/openapi/v2`, as JSON. */
export const documentV2 = (types: ReadonlyArray<Described>, serverVersion: string): Json => ({
  swagger: "2.0",
  info: { title: "Kubernetes", version: serverVersion },
  paths: {},
  definitions: {
    [metaName]: objectMeta,
    ...Object.fromEntries(
      types.map((type) => [schemaName(type), objectSchema(type, (name) => `#/definitions/${name}`)])
    )
  }
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
