/**
 * A request on its way: its options, its body, and the checks that every write passes.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either, Encoding } from "effect"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import type * as ManagedFields from "../../ManagedFields.js"
import * as Registry from "../../Registry.js"
import * as Validation from "../../Validation.js"
import * as Fields from "./Fields.js"
import {
  type Admission,
  type Env,
  type Review,
  type State,
  type Step,
  type Type,
  at,
  definition,
  get,
  objectKey,
  show
} from "./State.js"

export interface Call {
  readonly state: State
  readonly request: KubeRequest.KubeRequest
  readonly env: Env
  readonly type: Registry.ResourceDefinition
  readonly dryRun: boolean
}

export interface Done {
  readonly state: State
  readonly status: number
  readonly body: Json.Json
  readonly warnings?: ReadonlyArray<string>
}

export const isTrue = (value: string | undefined): boolean =>
  value !== undefined && !["0", "false", ""].includes(value.toLowerCase())

export const parseVersion = (text: string): number | undefined => (/^\d{1,19}$/.test(text) ? Number(text) : undefined)

export const versionError = (text: string): string =>
  `resourceVersion: Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`

export const parseInteger = (text: string | undefined): Step<number | undefined> => {
  if (text === undefined || text === "") return Either.right(undefined)
  return /^[+-]?\d+$/.test(text)
    ? Either.right(Number(text))
    : Either.left(Failure.badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`))
}

const optionsKind = (verb: KubeRequest.Verb): string => {
  switch (verb) {
    case "create":
      return "CreateOptions"
    case "update":
      return "UpdateOptions"
    case "patch":
      return "PatchOptions"
    default:
      return "DeleteOptions"
  }
}

const fieldManagerLimit = 128

export const dryRunErrors = (values: ReadonlyArray<string>): ReadonlyArray<Registry.FieldError> =>
  values.every((value) => value === "All")
    ? []
    : [
        {
          field: "dryRun",
          reason: "FieldValueNotSupported",
          message: `Unsupported value: ${JSON.stringify(values)}: supported values: "All"`
        }
      ]

const patchOptionErrors = (request: KubeRequest.KubeRequest): ReadonlyArray<Registry.FieldError> => {
  if (request.verb !== "patch") return []
  if (request.patchType === "apply") {
    return (request.query["fieldManager"] ?? "") === ""
      ? [
          {
            field: "fieldManager",
            reason: "FieldValueRequired",
            message: "Required value: is required for apply patch"
          }
        ]
      : []
  }
  return request.query["force"] === undefined
    ? []
    : [
        {
          field: "force",
          reason: "FieldValueForbidden",
          message: "Forbidden: may not be specified for non-apply patch"
        }
      ]
}

/** The options of a write, all that is wrong with them told at once; whether it is a dry run. */
export const writeOptions = (request: KubeRequest.KubeRequest): Step<boolean> => {
  const { dryRun, fieldManager, fieldValidation } = request.query
  const errors: Array<Registry.FieldError> = [...patchOptionErrors(request)]
  if (fieldManager !== undefined && fieldManager.length > fieldManagerLimit) {
    errors.push({
      field: "fieldManager",
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${fieldManagerLimit} bytes`
    })
  }
  errors.push(...dryRunErrors(dryRun === undefined ? [] : [dryRun]))
  if (fieldValidation !== undefined && !["", "Strict", "Warn", "Ignore"].includes(fieldValidation)) {
    errors.push({
      field: "fieldValidation",
      reason: "FieldValueNotSupported",
      message: `Unsupported value: ${JSON.stringify(fieldValidation)}: supported values: "", "Ignore", "Strict", "Warn"`
    })
  }
  return errors.length === 0
    ? Either.right(dryRun !== undefined)
    : Either.left(Failure.invalid({ group: "meta.k8s.io", kind: optionsKind(request.verb) }, "", errors))
}

const summaryLength = 30

/** How the server repeats a body: the beginning of an object as text, of anything else byte by byte. */
const summary = (text: string): string => {
  const bytes = new TextEncoder().encode(text)
  const shown = bytes.subarray(0, summaryLength)
  const more = bytes.length > summaryLength ? " ..." : ""
  return `${text.startsWith("{") ? new TextDecoder().decode(shown) : Encoding.encodeHex(shown)}${more}`
}

/** What the server says of a JSON text that is no object. */
export const notAnObject = (value: Json.Json | undefined): string =>
  `couldn't get version/kind; json parse error: json: cannot unmarshal ${Json.isArray(value) ? "array" : typeof value} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`

export const body = (call: Call): Step<Json.JsonObject> => {
  const { request, type } = call
  const unrecognized = (why: string): Step<never> =>
    Either.left(Failure.badRequest(`the object provided is unrecognized (must be of type ${type.kind}): ${why}`))
  if (request.body === undefined || request.body === "") {
    return unrecognized("couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)")
  }
  const value = Json.fromUnknown(request.body)
  if (typeof value === "string") {
    const parsed = parseText(value)
    if (Json.isObject(parsed)) return Either.right(parsed)
    const at = value.slice(1, 2)
    return unrecognized(
      `couldn't get version/kind; json parse error: invalid character '${at}' looking for beginning of object key string (${summary(value)})`
    )
  }
  if (!Json.isObject(value)) {
    return unrecognized(`${notAnObject(value)} (${summary(JSON.stringify(value))})`)
  }
  return Either.right(value)
}

export const parseText = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Why a body of another kind or version cannot become this type. */
export const conversionError = ({ state, type }: Call, kind: string, apiVersion: string): string =>
  apiVersion === Registry.apiVersion(type) && Registry.ofObject(state.registry, { apiVersion, kind }) !== undefined
    ? `converting (${type.version}.${kind}) to (${type.group === "" ? "core" : (type.group.split(".")[0] ?? "")}.${type.kind}): unknown conversion`
    : `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme "pkg/runtime/scheme.go:111"`

/** Kind and version of a body; built-in types may leave both out. */
export const checkKind = (call: Call, object: Json.JsonObject): Step<void> => {
  const { type } = call
  const kind = Json.string(object["kind"]) ?? ""
  const apiVersion = Json.string(object["apiVersion"]) ?? ""
  const expected = Registry.apiVersion(type)
  if (type.custom) {
    if (kind === "") {
      const missing = `Object 'Kind' is missing in '${JSON.stringify(object)}'`
      return Either.left(
        Failure.badRequest(
          call.request.query["fieldValidation"] === "Ignore"
            ? `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ${missing}`
            : `the object provided is unrecognized (must be of type ${type.kind}): ${missing} (${summary(JSON.stringify(object))})`
        )
      )
    }
    if (apiVersion !== expected) {
      return Either.left(
        Failure.badRequest(
          `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`
        )
      )
    }
    return Either.right(undefined)
  }
  if (kind === "" && apiVersion === "") return Either.right(undefined)
  const version = apiVersion.slice(apiVersion.indexOf("/") + 1)
  if ((apiVersion !== "" && apiVersion !== expected) || (kind !== "" && kind !== type.kind)) {
    return Either.left(
      Failure.badRequest(
        `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${type.kind}: ${conversionError(call, kind, apiVersion)}`
      )
    )
  }
  return Either.right(undefined)
}

/** Whether a body says that it is of another kind. Of a custom resource that shows late, and it gets no defaults. */
export const isOtherKind = (type: Registry.ResourceDefinition, object: Json.JsonObject): boolean =>
  type.custom && object["kind"] !== type.kind

const goTypes: Readonly<Record<string, string>> = { boolean: "bool", number: "number", string: "string" }

const goType = (value: Json.Json): string => (Json.isArray(value) ? "array" : (goTypes[typeof value] ?? "object"))

/** What Go's decoder says of metadata that is not what it should be. */
const metadataProblem = (type: Registry.ResourceDefinition, object: Json.JsonObject): string | undefined => {
  const given = object["metadata"]
  const wrong = (value: Json.Json, field: string, wanted: string): string =>
    `json: cannot unmarshal ${goType(value)} into Go struct field ${type.custom ? "ObjectMeta." : "ObjectMeta.metadata."}${field} of type ${wanted}`
  for (const [field, value] of Object.entries(Json.object(given))) {
    if (value === null) continue
    if (["name", "generateName", "namespace", "uid", "resourceVersion"].includes(field)) {
      if (typeof value !== "string") return wrong(value, field, "string")
    } else if (field === "labels" || field === "annotations") {
      if (!Json.isObject(value)) return wrong(value, field, "map[string]string")
      const bad = Object.values(value).find((entry) => typeof entry !== "string" && entry !== null)
      if (bad !== undefined) return wrong(bad, field, "string")
    } else if (field === "finalizers" && !Json.isArray(value)) return wrong(value, field, "[]string")
  }
  return undefined
}

/** What Go's decoder says of an object, `undefined` when nothing. */
export const decodeProblem = (type: Registry.ResourceDefinition, object: Json.JsonObject): string | undefined =>
  metadataProblem(type, object) ?? (type.custom ? undefined : type.decodeError(object))

export const checkDecode = (type: Registry.ResourceDefinition, object: Json.JsonObject): Step<void> => {
  const problem = decodeProblem(type, object)
  return problem === undefined
    ? Either.right(undefined)
    : Either.left(
        Failure.badRequest(
          `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ${problem}`
        )
      )
}

/** What the server says of fields that a type does not have. */
export const unknownTexts = (paths: ReadonlyArray<string>): ReadonlyArray<string> =>
  paths.map((path) => `unknown field ${JSON.stringify(path)}`)

/** What the server says of members that a body names twice. Only a body as text can. */
export const duplicateTexts = (given: unknown): ReadonlyArray<string> =>
  typeof given === "string" ? Fields.duplicates(given).map((path) => `duplicate field ${JSON.stringify(path)}`) : []

export const strictText = (texts: ReadonlyArray<string>): string => `strict decoding error: ${texts.join(", ")}`

/** The object without fields that its type does not have, and the warnings about them; refused when validation is strict. */
export const checkFields = (
  { request, type }: Call,
  object: Json.JsonObject
): Step<{ readonly object: Json.JsonObject; readonly warnings: ReadonlyArray<string> }> => {
  const known = Fields.prune(type, object)
  const texts = [...duplicateTexts(request.body), ...unknownTexts(known.unknown)]
  switch (texts.length === 0 ? "Ignore" : request.query["fieldValidation"]) {
    case "Ignore":
      return Either.right({ object: known.object, warnings: [] })
    case "Strict":
      return Either.left(
        Failure.badRequest(
          `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ${strictText(texts)}`
        )
      )
    default:
      return Either.right({ object: known.object, warnings: texts })
  }
}

/** The answer with warnings before its own. */
export const warned = (done: Done, warnings: ReadonlyArray<string>): Done =>
  warnings.length === 0 ? done : { ...done, warnings: [...warnings, ...(done.warnings ?? [])] }

export const namespaces: Type = { group: "", plural: "namespaces" }

export const checkNamespace = (call: Call, name: string | undefined): Step<void> => {
  const { request, state, type } = call
  if (type.scope !== "Namespaced" || request.namespace === undefined) return Either.right(undefined)
  const namespace = get(state, namespaces, undefined, request.namespace)
  if (namespace === undefined) return Either.left(Failure.notFound(namespaces, request.namespace))
  if (Json.at(namespace, "metadata", "deletionTimestamp") === undefined) return Either.right(undefined)
  return Either.left(
    Failure.forbidden(
      type,
      name,
      `unable to create new content in namespace ${request.namespace} because it is being terminated`,
      [
        {
          reason: "NamespaceTerminating",
          message: `namespace ${request.namespace} is being terminated`,
          field: "metadata.namespace"
        }
      ]
    )
  )
}

/** Runs the webhooks of a phase. What a validating one answers is not looked at, but for a refusal. */
export const admit = (
  call: Call,
  phase: NonNullable<Admission["phase"]>,
  operation: Review["operation"],
  object: Json.JsonObject,
  old: Json.JsonObject | undefined
): Step<Json.JsonObject> => {
  let current = object
  for (const plugin of call.state.admission) {
    if ((plugin.phase ?? "mutating") !== phase) continue
    const answer = plugin.admit({
      operation,
      definition: call.type,
      subresource: call.request.subresource,
      object: current,
      old,
      state: call.state,
      dryRun: call.dryRun,
      now: call.env.now
    })
    if (answer === undefined) continue
    if (Either.isLeft(answer)) {
      const { code = 403, message, reason = code === 403 ? "Forbidden" : undefined } = answer.left
      return Either.left(
        Failure.make(code, reason, `admission webhook ${JSON.stringify(plugin.name)} denied the request: ${message}`)
      )
    }
    if (phase === "mutating") current = answer.right
  }
  return Either.right(current)
}

export const writerOf = (call: Call): ManagedFields.Writer => ({
  manager: call.request.query["fieldManager"] || (call.env.userAgent?.split("/")[0] ?? "unknown"),
  apiVersion: Registry.apiVersion(call.type),
  subresource: call.request.subresource ?? "",
  time: Json.time(call.env.now),
  custom: call.type.custom
})

const blocking: ReadonlySet<Registry.FieldError["reason"]> = new Set([
  "FieldValueRequired",
  "FieldValueTooLong",
  "FieldValueTypeInvalid"
])

const uncheckedText =
  "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

export const validated = (
  type: Registry.ResourceDefinition,
  object: Json.JsonObject,
  old: Json.JsonObject | undefined,
  changed: ReadonlyArray<Registry.FieldError> = []
): Step<void> => {
  const errors = problems(type, object, old, changed)
  if (errors.length === 0) return Either.right(undefined)
  const kind = type.custom ? Json.text(object["kind"]) : type.kind
  return Either.left(
    Failure.invalid({ group: type.group, kind }, Json.string(Json.at(object, "metadata", "name")) ?? "", errors)
  )
}

const problems = (
  type: Registry.ResourceDefinition,
  object: Json.JsonObject,
  old: Json.JsonObject | undefined,
  changed: ReadonlyArray<Registry.FieldError>
): ReadonlyArray<Registry.FieldError> => {
  const updated = [...(old === undefined ? [] : Validation.metadataUpdate(object, old)), ...changed]
  const own = Validation.metadata(type, object)
  if (!type.custom) {
    // That a finalizer needs a domain is a rule of built-in types alone, and comes with theirs
    const isLate = ({ field }: Registry.FieldError): boolean => field.startsWith("metadata.finalizers[")
    return [...own.filter((error) => !isLate(error)), ...updated, ...own.filter(isLate), ...type.validate(object, old)]
  }
  const isOther = isOtherKind(type, object)
  const kind: Registry.FieldError = {
    field: "kind",
    reason: "FieldValueInvalid",
    message: `Invalid value: ${JSON.stringify(Json.text(object["kind"]))}: must be ${type.kind}`
  }
  if (isOther && old === undefined) return [kind]
  // Metadata of a custom resource is looked at three times on update, its finalizers once, its changes twice, and all of it is
  // told. There is no schema for another kind
  const again = own.filter(({ field }) => !field.startsWith("metadata.finalizers"))
  const seen = old === undefined ? own : [...own, ...updated, ...again, ...(isOther ? [kind] : [...updated, ...again])]
  const checked = isOther ? seen : [...seen, ...type.schema(object)]
  // Rules are not run on an object with holes, and the server says so
  return checked.some(({ reason }) => blocking.has(reason))
    ? [...checked, { field: "<nil>", reason: "FieldValueInvalid", message: uncheckedText }]
    : [...checked, ...type.validate(object, old)]
}

/** The object with the managed fields of another state of it. */
export const withManaged = (object: Json.JsonObject, from: Json.JsonObject): Json.JsonObject =>
  Json.set(object, ["metadata", "managedFields"], Json.at(from, "metadata", "managedFields"))

export const serverMetadata = [
  "uid",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "managedFields"
]

export const existing = (call: Call): Step<Json.JsonObject> => {
  const { request, state, type } = call
  const name = request.name ?? ""
  const object = at(state, { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) })
  // In the version of the request: another one may have stored it
  return object === undefined ? Either.left(Failure.notFound(type, name)) : Either.right(show(type, object))
}

export const comparable = (object: Json.JsonObject): Json.JsonObject =>
  Json.set(object, ["metadata", "resourceVersion"], undefined)

export const sentVersion = (object: Json.JsonObject): string =>
  Json.string(Json.at(object, "metadata", "resourceVersion")) ?? ""

/** The definition that a request addresses, or the 404 or 405 that the server answers. */
export const resolve = (state: State, request: KubeRequest.KubeRequest): Step<Registry.ResourceDefinition> => {
  const type = definition(state, request.group, request.version, request.plural)
  if (type === undefined) {
    const builtIn = Registry.all(state.registry).some(
      (candidate) => candidate.group === request.group && !candidate.custom
    )
    return Either.left(builtIn ? Failure.noResource : Failure.noPath)
  }
  if (type.scope === "Cluster" && request.namespace !== undefined) {
    return Either.left(type.custom ? Failure.noPath : Failure.noResource)
  }
  if (type.scope === "Namespaced" && request.namespace === undefined && request.name !== undefined) {
    return Either.left(type.custom ? Failure.noPath : Failure.noResource)
  }
  return Either.right(type)
}
