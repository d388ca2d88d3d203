/**
 * The API server's storage and its rules as one pure function: `apply` takes a state and a request to the next state and
 * an answer. It knows no subjects (`Rbac` stands in front), no time but the `Env` it is given, and it shares structure
 * between states, so that a write costs O(log n) whatever the number of objects.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { Either, Encoding } from "effect"
import * as EventLog from "./EventLog.js"
import * as Failure from "./Failure.js"
import * as Json from "./Json.js"
import * as ManagedFields from "./ManagedFields.js"
import * as OrderedMap from "./OrderedMap.js"
import * as Patch from "./Patch.js"
import * as Registry from "./Registry.js"
import * as Validation from "./Validation.js"

/** What an admission plugin is asked. */
export interface Review {
  readonly operation: "CREATE" | "UPDATE" | "DELETE"
  readonly definition: Registry.ResourceDefinition
  readonly subresource: string | undefined
  readonly object: Json.JsonObject
  readonly old: Json.JsonObject | undefined
  readonly state: State
  readonly dryRun: boolean
  /** Epoch milliseconds. */
  readonly now: number
}

/** Why an admission plugin refuses: its message, and the code when it is not 403. */
export interface Denial {
  readonly message: string
  readonly code?: number
  readonly reason?: string
}

/** A webhook: it may change the object or refuse it. Runs in order, after defaults and before validation. */
export interface Admission {
  /** As quoted in `admission webhook "<name>" denied the request`. */
  readonly name: string
  /** `undefined`: not concerned. */
  readonly admit: (review: Review) => Either.Either<Json.JsonObject, Denial> | undefined
}

/** What a state is made with. */
export interface Options {
  /** How many log entries are kept before the oldest are compacted away. Default 100 000. */
  readonly historyLimit?: number
  /** The version that the first write follows. Default 0. */
  readonly resourceVersion?: number
  readonly admission?: ReadonlyArray<Admission>
}

/** Where an object is. */
export interface Located {
  /** `Registry.typeKey`. */
  readonly resource: string
  readonly key: string
}

/** Everything the server stores. Opaque: read it with the functions of this module. */
export interface State {
  readonly registry: Registry.Registry
  readonly version: number
  readonly log: EventLog.EventLog
  readonly types: OrderedMap.OrderedMap<OrderedMap.OrderedMap<Json.JsonObject>>
  readonly owned: OrderedMap.OrderedMap<OrderedMap.OrderedMap<Located>>
  readonly admission: ReadonlyArray<Admission>
  readonly historyLimit: number
}

/** What a request needs from outside: the clock and two sources of names. */
export interface Env {
  /** Epoch milliseconds. */
  readonly now: number
  readonly newUid: () => string
  /** Five characters for `generateName`. */
  readonly suffix: () => string
  /** Gives the default field manager: the part before `/`. */
  readonly userAgent?: string
}

/** The next state, and the answer. */
export interface Outcome {
  readonly state: State
  readonly reply: Either.Either<KubeReply, Failure.Failure>
}

/** A type as a request, a definition or a core descriptor names it. */
export interface Type {
  readonly group: string
  readonly plural: string
}

type Step<A> = Either.Either<A, Failure.Failure>

/** An empty server. */
export const make = (registry: Registry.Registry = Registry.builtins, options: Options = {}): State => ({
  registry,
  version: options.resourceVersion ?? 0,
  log: EventLog.make(options.resourceVersion ?? 0),
  types: OrderedMap.empty,
  owned: OrderedMap.empty,
  admission: options.admission ?? [],
  historyLimit: options.historyLimit ?? 100_000
})

// ---- reading --------------------------------------------------------------------------------------------------------

const objectKey = (namespace: string | undefined, name: string): string =>
  namespace === undefined || namespace === "" ? name : `${namespace}/${name}`

const keyOfObject = (object: Json.JsonObject): string =>
  objectKey(
    Json.string(Json.at(object, "metadata", "namespace")),
    Json.string(Json.at(object, "metadata", "name")) ?? ""
  )

/** The newest resource version. */
export const resourceVersion = (state: State): number => state.version

/** The definition of a type in a version. */
export const definition = (
  state: State,
  group: string,
  version: string,
  plural: string
): Registry.ResourceDefinition | undefined => Registry.lookup(state.registry, group, version, plural)

/** One object. */
export const get = (
  state: State,
  type: Type,
  namespace: string | undefined,
  name: string
): Json.JsonObject | undefined => at(state, { resource: Registry.typeKey(type), key: objectKey(namespace, name) })

/** One object by its place. */
export const at = (state: State, where: Located): Json.JsonObject | undefined =>
  OrderedMap.get(OrderedMap.get(state.types, where.resource), where.key)

/** The objects of a type, of one namespace or of all, in key order. */
export function* list(state: State, type: Type, namespace?: string): IterableIterator<Json.JsonObject> {
  const objects = OrderedMap.get(state.types, Registry.typeKey(type))
  const entries =
    namespace === undefined ? OrderedMap.entries(objects) : OrderedMap.withPrefix(objects, `${namespace}/`)
  for (const [, object] of entries) yield object
}

/** How many objects of a type there are. */
export const count = (state: State, type: Type): number =>
  OrderedMap.size(OrderedMap.get(state.types, Registry.typeKey(type)))

/** An object together with the definition of its type. */
export interface Found {
  readonly definition: Registry.ResourceDefinition
  readonly object: Json.JsonObject
}

const definitionOfKey = (state: State, resource: string): Registry.ResourceDefinition | undefined => {
  for (const candidate of state.registry.definitions.values()) {
    if (Registry.typeKey(candidate) === resource) return candidate
  }
  return undefined
}

/** The objects that have an owner reference with this uid. */
export const ownedBy = (state: State, uid: string): ReadonlyArray<Found> => {
  const found: Array<Found> = []
  for (const [, where] of OrderedMap.entries(OrderedMap.get(state.owned, uid))) {
    const object = at(state, where)
    const type = definitionOfKey(state, where.resource)
    if (object !== undefined && type !== undefined) found.push({ definition: type, object })
  }
  return found
}

// ---- writing --------------------------------------------------------------------------------------------------------

const ownerUids = (object: Json.JsonObject | undefined): ReadonlyArray<string> =>
  Json.array(Json.at(object, "metadata", "ownerReferences")).flatMap((owner) => {
    const uid = Json.string(Json.at(owner, "uid"))
    return uid === undefined || uid === "" ? [] : [uid]
  })

const reindex = (
  owned: State["owned"],
  where: Located,
  before: ReadonlyArray<string>,
  after: ReadonlyArray<string>
): State["owned"] => {
  const place = `${where.resource} ${where.key}`
  let result = owned
  for (const uid of before) {
    if (after.includes(uid)) continue
    const rest = OrderedMap.remove(OrderedMap.get(result, uid), place)
    result = rest === undefined ? OrderedMap.remove(result, uid) : OrderedMap.set(result, uid, rest)
  }
  for (const uid of after) {
    if (!before.includes(uid)) {
      result = OrderedMap.set(result, uid, OrderedMap.set(OrderedMap.get(result, uid), place, where))
    }
  }
  return result
}

const withVersion = (object: Json.JsonObject, version: number): Json.JsonObject =>
  Json.set(object, ["metadata", "resourceVersion"], String(version))

const metadataOrder = [
  "name",
  "generateName",
  "namespace",
  "selfLink",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "labels",
  "annotations",
  "ownerReferences",
  "finalizers",
  "managedFields"
]

const isEmptyValue = (value: Json.Json): boolean =>
  value === null ||
  (Json.isArray(value) && value.length === 0) ||
  (Json.isObject(value) && Object.keys(value).length === 0)

/** The object as the server would write it: metadata without empty members, fields in the server's order. */
const canonical = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject => {
  const given = Json.object(object["metadata"])
  const metadata: Record<string, Json.Json> = {}
  for (const key of metadataOrder) {
    const value = given[key]
    if (value !== undefined && !isEmptyValue(value) && value !== "") metadata[key] = value
  }
  const { apiVersion: _, kind: __, metadata: ___, ...rest } = object
  const ordered: Json.JsonObject = { kind: type.kind, apiVersion: Registry.apiVersion(type), metadata, ...rest }
  return type.custom ? Json.object(Json.sorted(ordered)) : ordered
}

const commit = (
  state: State,
  where: Located,
  previous: Json.JsonObject | undefined,
  next: Json.JsonObject | undefined
): { readonly state: State; readonly object: Json.JsonObject } => {
  const version = state.version + 1
  const object = withVersion(next ?? previous ?? Json.empty, version)
  const objects = OrderedMap.get(state.types, where.resource)
  const entry: EventLog.Entry = {
    version,
    type: next === undefined ? "DELETED" : previous === undefined ? "ADDED" : "MODIFIED",
    resource: where.resource,
    key: where.key,
    object,
    ...(previous === undefined ? {} : { previous })
  }
  const log = EventLog.add(state.log, entry)
  const excess = EventLog.excess(log, state.historyLimit)
  return {
    object,
    state: {
      ...state,
      version,
      log: excess === undefined ? log : EventLog.compact(log, excess),
      types: OrderedMap.set(
        state.types,
        where.resource,
        next === undefined ? OrderedMap.remove(objects, where.key) : OrderedMap.set(objects, where.key, object)
      ),
      owned: reindex(state.owned, where, ownerUids(previous), ownerUids(next))
    }
  }
}

/** Forgets the log up to a version (the newest by default): what etcd's compaction does to watchers and page tokens. */
export const compact = (state: State, version: number = state.version): State => ({
  ...state,
  log: EventLog.compact(state.log, Math.min(version, state.version))
})

/**
 * Stores objects as they are, status, uid and timestamps included; what is missing is filled in. An object that exists is
 * replaced. Namespaces that are named and do not exist are created. A type that is not served is left out of `seeded`.
 */
export const seed = (
  state: State,
  objects: ReadonlyArray<unknown>,
  env: Env
): {
  readonly state: State
  readonly seeded: ReadonlyArray<Json.JsonObject>
  readonly unknown: ReadonlyArray<string>
} => {
  let current = state
  const seeded: Array<Json.JsonObject> = []
  const unknown: Array<string> = []
  for (const given of objects) {
    const value = Json.object(Json.fromUnknown(given))
    const type = Registry.ofObject(current.registry, value)
    if (type === undefined) {
      unknown.push(`${Json.text(value["apiVersion"])} ${Json.text(value["kind"])}`)
      continue
    }
    const metadata = Json.object(value["metadata"])
    const namespace = type.scope === "Namespaced" ? (Json.string(metadata["namespace"]) ?? "default") : undefined
    if (
      namespace !== undefined &&
      get(current, { group: "", plural: "namespaces" }, undefined, namespace) === undefined
    ) {
      current = seed(current, [{ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } }], env).state
    }
    const name = Json.string(metadata["name"]) ?? `${Json.string(metadata["generateName"]) ?? ""}${env.suffix()}`
    const where: Located = { resource: Registry.typeKey(type), key: objectKey(namespace, name) }
    const previous = at(current, where)
    const filled: Json.JsonObject = {
      ...value,
      metadata: {
        uid: Json.at(previous, "metadata", "uid") ?? env.newUid(),
        creationTimestamp: Json.at(previous, "metadata", "creationTimestamp") ?? Json.time(env.now),
        ...(type.generation === "none" ? {} : { generation: 1 }),
        ...metadata,
        name,
        ...(namespace === undefined ? {} : { namespace })
      }
    }
    const result = commit(current, where, previous, canonical(type, type.prepare(type.defaults(filled))))
    current = result.state
    seeded.push(result.object)
  }
  return { state: current, seeded, unknown }
}

// ---- requests -------------------------------------------------------------------------------------------------------

interface Call {
  readonly state: State
  readonly request: KubeRequest.KubeRequest
  readonly env: Env
  readonly type: Registry.ResourceDefinition
  readonly dryRun: boolean
}

interface Done {
  readonly state: State
  readonly status: number
  readonly body: Json.Json
  readonly warnings?: ReadonlyArray<string>
}

const isTrue = (value: string | undefined): boolean =>
  value !== undefined && !["0", "false", ""].includes(value.toLowerCase())

/** The object in the version that was asked for. */
const render = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject => {
  const version = Registry.apiVersion(type)
  return object["apiVersion"] === version ? object : { ...object, apiVersion: version }
}

const renderList = (
  type: Registry.ResourceDefinition,
  items: ReadonlyArray<Json.JsonObject>,
  metadata: Json.JsonObject
): Json.JsonObject => {
  const apiVersion = Registry.apiVersion(type)
  // Go leaves out an empty continue of built-in lists and writes it for custom resources
  const token = metadata["continue"] === undefined && type.custom ? { continue: "" } : {}
  return type.custom
    ? {
        apiVersion,
        items: items.map((item) => render(type, item)),
        kind: type.listKind,
        metadata: { ...token, ...metadata }
      }
    : {
        kind: type.listKind,
        apiVersion,
        metadata,
        items: items.map((item) => {
          const { apiVersion: _, kind: __, ...rest } = item
          return rest
        })
      }
}

const parseVersion = (text: string): number | undefined => (/^\d{1,19}$/.test(text) ? Number(text) : undefined)

const versionError = (text: string): string =>
  `resourceVersion: Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`

const parseInteger = (text: string | undefined): Step<number | undefined> => {
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

const dryRunOf = (kind: string, values: ReadonlyArray<string>): Step<boolean> => {
  const bad = values.filter((value) => value !== "All")
  if (bad.length > 0) {
    return Either.left(
      Failure.invalidOption(
        kind,
        "dryRun",
        "FieldValueNotSupported",
        `Unsupported value: ${JSON.stringify(values)}: supported values: "All"`
      )
    )
  }
  return Either.right(values.length > 0)
}

const fieldManagerLimit = 128

const writeOptions = (request: KubeRequest.KubeRequest): Step<boolean> => {
  const kind = optionsKind(request.verb)
  const { dryRun, fieldManager, fieldValidation, force } = request.query
  if (fieldManager !== undefined && fieldManager.length > fieldManagerLimit) {
    return Either.left(
      Failure.invalidOption(
        kind,
        "fieldManager",
        "FieldValueTooLong",
        `Too long: may not be more than ${fieldManagerLimit} bytes`
      )
    )
  }
  if (fieldValidation !== undefined && !["", "Strict", "Warn", "Ignore"].includes(fieldValidation)) {
    return Either.left(
      Failure.invalidOption(
        kind,
        "fieldValidation",
        "FieldValueNotSupported",
        `Unsupported value: ${JSON.stringify(fieldValidation)}: supported values: "", "Ignore", "Strict", "Warn"`
      )
    )
  }
  if (request.verb === "patch") {
    if (request.patchType === "apply" && (fieldManager ?? "") === "") {
      return Either.left(
        Failure.invalidOption(kind, "fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
      )
    }
    if (request.patchType !== "apply" && force !== undefined) {
      return Either.left(
        Failure.invalidOption(
          kind,
          "force",
          "FieldValueForbidden",
          "Forbidden: may not be specified for non-apply patch"
        )
      )
    }
  }
  return dryRunOf(kind, dryRun === undefined ? [] : [dryRun])
}

const body = (call: Call): Step<Json.JsonObject> => {
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
      `couldn't get version/kind; json parse error: invalid character '${at}' looking for beginning of object key string (${value})`
    )
  }
  if (!Json.isObject(value)) {
    return unrecognized(
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${Json.isArray(value) ? "array" : typeof value} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (${JSON.stringify(value)})`
    )
  }
  return Either.right(value)
}

const parseText = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Why a body of another kind or version cannot become this type. */
const conversionError = (type: Registry.ResourceDefinition, kind: string, apiVersion: string): string =>
  apiVersion === Registry.apiVersion(type)
    ? `converting (${type.version}.${kind}) to (${type.group === "" ? "core" : (type.group.split(".")[0] ?? "")}.${type.kind}): unknown conversion`
    : `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme "pkg/runtime/scheme.go:111"`

/** Kind and version of a body; built-in types may leave both out. */
const checkKind = (call: Call, object: Json.JsonObject): Step<void> => {
  const { type } = call
  const kind = Json.string(object["kind"]) ?? ""
  const apiVersion = Json.string(object["apiVersion"]) ?? ""
  const expected = Registry.apiVersion(type)
  if (type.custom) {
    if (kind === "" || apiVersion === "") {
      const missing = kind === "" ? "Kind" : "apiVersion"
      return Either.left(
        Failure.badRequest(
          `the object provided is unrecognized (must be of type ${type.kind}): Object '${missing}' is missing in '${JSON.stringify(object)}' (${JSON.stringify(object)})`
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
    if (kind !== type.kind) {
      return Either.left(
        Failure.invalid({ group: type.group, kind }, Json.string(Json.at(object, "metadata", "name")) ?? "", [
          {
            field: "kind",
            reason: "FieldValueInvalid",
            message: `Invalid value: ${JSON.stringify(kind)}: must be ${type.kind}`
          }
        ])
      )
    }
    return Either.right(undefined)
  }
  if (kind === "" && apiVersion === "") return Either.right(undefined)
  const version = apiVersion.slice(apiVersion.indexOf("/") + 1)
  if ((apiVersion !== "" && apiVersion !== expected) || (kind !== "" && kind !== type.kind)) {
    return Either.left(
      Failure.badRequest(
        `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${type.kind}: ${conversionError(type, kind, apiVersion)}`
      )
    )
  }
  return Either.right(undefined)
}

const checkDecode = (type: Registry.ResourceDefinition, object: Json.JsonObject): Step<void> => {
  const problem = type.custom ? undefined : type.decodeError(object)
  return problem === undefined
    ? Either.right(undefined)
    : Either.left(
        Failure.badRequest(
          `${type.kind} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ${problem}`
        )
      )
}

const namespaces: Type = { group: "", plural: "namespaces" }

const checkNamespace = (call: Call, name: string | undefined): Step<void> => {
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

const admit = (
  call: Call,
  operation: Review["operation"],
  object: Json.JsonObject,
  old: Json.JsonObject | undefined
): Step<Json.JsonObject> => {
  let current = object
  for (const plugin of call.state.admission) {
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
      const { code = 403, message, reason = "Forbidden" } = answer.left
      return Either.left(
        Failure.make(code, reason, `admission webhook ${JSON.stringify(plugin.name)} denied the request: ${message}`)
      )
    }
    current = answer.right
  }
  return Either.right(current)
}

const writerOf = (call: Call): ManagedFields.Writer => ({
  manager: call.request.query["fieldManager"] || (call.env.userAgent?.split("/")[0] ?? "unknown"),
  apiVersion: Registry.apiVersion(call.type),
  subresource: call.request.subresource ?? "",
  time: Json.time(call.env.now),
  custom: call.type.custom
})

const validated = (
  type: Registry.ResourceDefinition,
  object: Json.JsonObject,
  old: Json.JsonObject | undefined
): Step<void> => {
  const errors = [
    ...Validation.metadata(type, object),
    ...(old === undefined ? [] : Validation.metadataUpdate(object, old)),
    ...type.validate(object, old)
  ]
  return errors.length === 0
    ? Either.right(undefined)
    : Either.left(Failure.invalid(type, Json.string(Json.at(object, "metadata", "name")) ?? "", errors))
}

const generatedNameBase = 58

const generateAttempts = 8

/** The object with the managed fields of another state of it. */
const withManaged = (object: Json.JsonObject, from: Json.JsonObject): Json.JsonObject =>
  Json.set(object, ["metadata", "managedFields"], Json.at(from, "metadata", "managedFields"))

/** The name of a new object: its own, or one generated that is free (the server, too, tries a few times). */
const nameFor = (call: Call, metadata: Json.JsonObject): string => {
  const given = Json.string(metadata["name"]) ?? ""
  const base = Json.string(metadata["generateName"]) ?? ""
  if (given !== "" || base === "") return given
  let name = ""
  for (let attempt = 0; attempt < generateAttempts; attempt += 1) {
    name = base.slice(0, generatedNameBase) + call.env.suffix()
    if (get(call.state, call.type, call.request.namespace, name) === undefined) break
  }
  return name
}

const serverMetadata = [
  "uid",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "managedFields"
]

const created = (call: Call, given: Json.JsonObject, applied: boolean): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state, type } = call
    const metadata = Json.object(given["metadata"])
    const ownNamespace = Json.string(metadata["namespace"]) ?? ""
    if (type.scope === "Namespaced" && ownNamespace !== "" && ownNamespace !== request.namespace) {
      return yield* Either.left(
        Failure.badRequest("the namespace of the provided object does not match the namespace sent on the request")
      )
    }
    const sentVersion = Json.string(metadata["resourceVersion"]) ?? ""
    if (!applied && sentVersion !== "" && sentVersion !== "0") {
      return yield* Either.left(Failure.plain("resourceVersion should not be set on objects to be created"))
    }
    const name = nameFor(call, metadata)
    yield* checkNamespace(call, name)
    const stamped: Json.JsonObject = {
      ...given,
      metadata: {
        ...Json.omit(metadata, [
          ...serverMetadata,
          "resourceVersion",
          ...(type.generation === "none" ? [] : ["generation"])
        ]),
        ...(name === "" ? {} : { name }),
        ...(type.scope === "Namespaced" && request.namespace !== undefined ? { namespace: request.namespace } : {}),
        uid: env.newUid(),
        ...(type.generation === "none" ? {} : { generation: 1 }),
        creationTimestamp: Json.time(env.now)
      }
    }
    // Nodes register themselves together with their status
    const fresh = type.statusSubresource && type.plural !== "nodes" ? Json.omit(stamped, ["status"]) : stamped
    const own = type.defaults(fresh)
    const admitted = yield* admit(call, "CREATE", type.prepare(own), undefined)
    yield* validated(type, admitted, undefined)
    const where: Located = { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) }
    const existing = at(state, where)
    if (existing !== undefined) {
      return yield* Either.left(
        Failure.alreadyExists(type, name, Json.at(existing, "metadata", "deletionTimestamp") !== undefined)
      )
    }
    const complete = canonical(type, admitted)
    const managed = applied
      ? canonical(type, withManaged(complete, given))
      : canonical(type, withManaged(complete, ManagedFields.update(undefined, own, writerOf(call))))
    if (call.dryRun) return { state, status: 201, body: render(type, managed) }
    const result = commit(state, where, undefined, managed)
    return { state: result.state, status: 201, body: render(type, result.object) }
  })

const create = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, type } = call
    if (type.scope === "Namespaced" && request.namespace === undefined) {
      return yield* Either.left(type.custom ? Failure.noPath : Failure.methodNotAllowed)
    }
    if (request.name !== undefined && !type.custom) return yield* Either.left(Failure.methodNotAllowed)
    const object = yield* body(call)
    yield* checkKind(call, object)
    yield* checkDecode(type, object)
    return yield* created(call, object, false)
  })

const existing = (call: Call): Step<Json.JsonObject> => {
  const { request, state, type } = call
  const name = request.name ?? ""
  const object = at(state, { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) })
  return object === undefined ? Either.left(Failure.notFound(type, name)) : Either.right(object)
}

const read = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const wanted = request.query["resourceVersion"]
    if (wanted !== undefined && wanted !== "") {
      const version = parseVersion(wanted)
      if (version === undefined) return yield* Either.left(Failure.plain(versionError(wanted)))
      if (version > state.version) return yield* Either.left(Failure.tooLarge(version, state.version))
    }
    return { state, status: 200, body: render(type, yield* existing(call)) }
  })

// ---- update and patch -----------------------------------------------------------------------------------------------

const finalizersOf = (object: Json.JsonObject): ReadonlyArray<Json.Json> =>
  Json.array(Json.at(object, "metadata", "finalizers"))

const isDeleting = (object: Json.JsonObject): boolean => Json.at(object, "metadata", "deletionTimestamp") !== undefined

/** Whether nothing holds an object any more that is being deleted. */
const isReleased = (type: Registry.ResourceDefinition, object: Json.JsonObject): boolean =>
  isDeleting(object) &&
  finalizersOf(object).length === 0 &&
  (!type.graceful || Json.at(object, "metadata", "deletionGracePeriodSeconds") === 0) &&
  (Registry.typeKey(type) !== "/namespaces" || Json.array(Json.at(object, "spec", "finalizers")).length === 0)

const generationOf = (object: Json.JsonObject): number => Json.number(Json.at(object, "metadata", "generation")) ?? 0

const content = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject =>
  Json.omit(
    object,
    type.statusSubresource ? ["metadata", "status", "apiVersion", "kind"] : ["metadata", "apiVersion", "kind"]
  )

const nextGeneration = (call: Call, old: Json.JsonObject, object: Json.JsonObject): Json.JsonObject => {
  const { request, type } = call
  if (type.generation === "none") return object
  const changed =
    request.subresource === undefined &&
    (type.generation === "pod"
      ? !Json.equal(old["spec"], object["spec"])
      : !Json.equal(content(type, old), content(type, object)))
  return Json.set(object, ["metadata", "generation"], generationOf(old) + (changed ? 1 : 0))
}

/** What of the incoming object may change through this endpoint; the rest stays as it was. */
const restrict = (call: Call, old: Json.JsonObject, incoming: Json.JsonObject): Json.JsonObject => {
  const { request, type } = call
  const before = Json.object(old["metadata"])
  const metadata: Json.JsonObject = {
    ...Json.omit(Json.object(incoming["metadata"]), [
      ...serverMetadata,
      "generation",
      "name",
      "namespace",
      "generateName",
      "resourceVersion"
    ]),
    ...Object.fromEntries(
      [...serverMetadata, "generation", "name", "namespace", "generateName", "resourceVersion"].flatMap((key) => {
        const value = before[key]
        return value === undefined ? [] : [[key, value] as const]
      })
    )
  }
  const status = (source: Json.JsonObject): Json.JsonObject =>
    source["status"] === undefined ? {} : { status: source["status"] }
  if (request.subresource === "status") {
    return {
      ...Json.omit(old, ["status"]),
      ...(type.statusStoresMetadata ? { metadata } : {}),
      ...status(incoming)
    }
  }
  return type.statusSubresource
    ? { ...Json.omit(incoming, ["status"]), metadata, ...status(old) }
    : { ...incoming, metadata }
}

const comparable = (object: Json.JsonObject): Json.JsonObject =>
  Json.set(object, ["metadata", "resourceVersion"], undefined)

/** Stores a changed object: a no-op keeps its version, one whose last finalizer went is deleted. */
const store = (call: Call, old: Json.JsonObject, next: Json.JsonObject, status = 200): Done => {
  const { state, type } = call
  const where: Located = { resource: Registry.typeKey(type), key: keyOfObject(old) }
  if (Json.equal(comparable(old), comparable(next))) return { state, status, body: render(type, old) }
  if (call.dryRun) return { state, status, body: render(type, next) }
  if (isReleased(type, next)) {
    // The answer keeps the version before, the event shows the last stored state: observed with 1.37.2
    return { state: commit(state, where, old, undefined).state, status, body: render(type, next) }
  }
  const result = commit(state, where, old, next)
  return { state: result.state, status, body: render(type, result.object) }
}

const checkedChange = (call: Call, old: Json.JsonObject, incoming: Json.JsonObject): Step<Json.JsonObject> =>
  Either.gen(function* () {
    const { type } = call
    const restricted = restrict(call, old, incoming)
    const own = type.defaults(restricted)
    const defaulted = call.request.subresource === undefined ? type.prepare(own) : own
    const admitted = yield* admit(call, "UPDATE", defaulted, old)
    yield* validated(type, admitted, old)
    return canonical(type, nextGeneration(call, old, admitted))
  })

const sentVersion = (object: Json.JsonObject): string =>
  Json.string(Json.at(object, "metadata", "resourceVersion")) ?? ""

const checkVersion = (call: Call, old: Json.JsonObject, incoming: Json.JsonObject): Step<void> => {
  const { type } = call
  const name = call.request.name ?? ""
  const sent = sentVersion(incoming)
  if (sent === "" || sent === "0") {
    return type.custom
      ? Either.left(
          Failure.make(
            422,
            "Invalid",
            `${Registry.qualified(type)} "${name}" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`,
            {
              ...Failure.named(type, name),
              causes: [
                {
                  reason: "FieldValueInvalid",
                  message: "Invalid value: 0: must be specified for an update",
                  field: "metadata.resourceVersion"
                }
              ]
            }
          )
        )
      : Either.right(undefined)
  }
  if (parseVersion(sent) === undefined) {
    return Either.left(Failure.plain(`strconv.ParseUint: parsing ${JSON.stringify(sent)}: invalid syntax`))
  }
  return sent === sentVersion(old) ? Either.right(undefined) : Either.left(Failure.modified(type, name))
}

const update = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, type } = call
    if (request.name === undefined) {
      return yield* Either.left(type.custom ? Failure.badRequest("name must be provided") : Failure.methodNotAllowed)
    }
    const incoming = yield* body(call)
    yield* checkKind(call, incoming)
    yield* checkDecode(type, incoming)
    const name = Json.string(Json.at(incoming, "metadata", "name")) ?? ""
    if (name === "") {
      return yield* Either.left(
        Failure.badRequest(
          `the name of the object (${request.name} based on URL) was undeterminable: name must be provided`
        )
      )
    }
    if (name !== request.name) {
      return yield* Either.left(
        Failure.badRequest(`the name of the object (${name}) does not match the name on the URL (${request.name})`)
      )
    }
    const namespace = Json.string(Json.at(incoming, "metadata", "namespace")) ?? ""
    if (type.scope === "Namespaced" && namespace !== "" && namespace !== request.namespace) {
      return yield* Either.left(
        Failure.badRequest("the namespace of the provided object does not match the namespace sent on the request")
      )
    }
    const old = yield* existing(call)
    const uid = Json.string(Json.at(incoming, "metadata", "uid")) ?? ""
    const ownUid = Json.string(Json.at(old, "metadata", "uid")) ?? ""
    if (uid !== "" && uid !== ownUid) {
      return yield* Either.left(
        Failure.conflict(
          type,
          name,
          `StorageError: invalid object, Code: 4, Key: /registry/${type.group === "" ? "" : `${type.group}/`}${type.plural}/${objectKey(request.namespace, name)}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${ownUid}`
        )
      )
    }
    yield* checkVersion(call, old, incoming)
    if (request.subresource === "finalize") {
      const next = Json.set(old, ["spec"], incoming["spec"])
      return store(call, old, canonical(type, next))
    }
    const next = yield* checkedChange(call, old, incoming)
    return store(call, old, canonical(type, ManagedFields.update(old, next, writerOf(call))))
  })

const patched = (call: Call, old: Json.JsonObject): Step<Json.JsonObject> => {
  const { request, type } = call
  const objection = (problem: Patch.Objection): Failure.Failure =>
    problem._tag === "Malformed" ? Failure.badRequest(problem.message) : Failure.rejected
  const text = typeof request.body === "string" ? parseText(request.body) : undefined
  const patch = text ?? request.body
  switch (request.patchType) {
    case "json":
      return typeof patch === "string"
        ? Either.left(Failure.badRequest("invalid JSON patch"))
        : Either.mapLeft(Patch.json(old, patch), objection)
    case "merge":
      return Either.mapLeft(Patch.object("merge", old, patch), objection)
    case "strategic":
      return type.custom
        ? Either.left(Failure.unsupportedPatch)
        : Either.mapLeft(Patch.object("strategic", old, patch), objection)
    default:
      return Either.left(type.custom ? Failure.unsupportedPatch : Failure.unsupportedMediaType)
  }
}

const patchError = (object: Json.JsonObject, problem: string): Failure.Failure =>
  Failure.invalid({ group: "", kind: "" }, "", [
    {
      field: "patch",
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(
        JSON.stringify(Object.fromEntries(Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1))))
      )}: ${problem}`
    }
  ])

const immutableMetadata = (call: Call, old: Json.JsonObject, incoming: Json.JsonObject): Step<void> => {
  const { request, type } = call
  const name = request.name ?? ""
  const newName = Json.string(Json.at(incoming, "metadata", "name"))
  if (newName !== request.name) {
    return Either.left(
      Failure.badRequest(`the name of the object (${newName ?? ""}) does not match the name on the URL (${name})`)
    )
  }
  const namespace = Json.string(Json.at(incoming, "metadata", "namespace"))
  if (type.scope === "Namespaced" && namespace !== request.namespace) {
    return Either.left(
      Failure.badRequest("the namespace of the provided object does not match the namespace sent on the request")
    )
  }
  for (const key of ["uid", "deletionTimestamp"]) {
    const value = Json.at(incoming, "metadata", key)
    if (value !== undefined && !Json.equal(value, Json.at(old, "metadata", key))) {
      return Either.left(
        Failure.invalid(type, name, [
          {
            field: `metadata.${key}`,
            reason: "FieldValueInvalid",
            message: `Invalid value: ${JSON.stringify(value)}: field is immutable`
          }
        ])
      )
    }
  }
  return Either.right(undefined)
}

const conflictText = (conflict: ManagedFields.Conflict): string => {
  const by = JSON.stringify(conflict.manager)
  if (conflict.update === undefined) return `conflict with ${by}`
  const { apiVersion, subresource } = conflict.update
  return `conflict with ${by}${subresource === "" ? "" : ` with subresource ${JSON.stringify(subresource)}`} using ${apiVersion}`
}

const conflictFailure = (conflicts: ReadonlyArray<ManagedFields.Conflict>): Failure.Failure => {
  const causes = conflicts.map((conflict) => ({
    reason: "FieldManagerConflict",
    message: conflictText(conflict),
    field: conflict.path
  }))
  const [first] = causes
  const managers = new Map<string, Array<string>>()
  for (const { field, message } of causes) managers.set(message, [...(managers.get(message) ?? []), field])
  const text =
    causes.length === 1 && first !== undefined
      ? `${first.message}: ${first.field}`
      : [...managers]
          .map(
            ([message, fields]) =>
              `${message.replace("conflict", "conflicts")}:\n${fields.map((field) => `- ${field}`).join("\n")}`
          )
          .join("\n")
  return Failure.make(
    409,
    "Conflict",
    `Apply failed with ${causes.length} conflict${causes.length === 1 ? "" : "s"}: ${text}`,
    { causes }
  )
}

const applyPatch = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const name = request.name ?? ""
    const text = typeof request.body === "string" ? parseText(request.body) : request.body
    const configuration = Json.fromUnknown(text)
    if (!Json.isObject(configuration)) {
      return yield* Either.left(Failure.badRequest("error decoding YAML: the patch is not an object"))
    }
    const apiVersion = Json.string(configuration["apiVersion"]) ?? ""
    const kind = Json.string(configuration["kind"]) ?? ""
    if (apiVersion !== Registry.apiVersion(type) || kind !== type.kind) {
      const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion]
      return yield* Either.left(
        Failure.badRequest(`invalid object type: ${group ?? ""}/${version ?? ""}, Kind=${kind}`)
      )
    }
    if (Json.at(configuration, "metadata", "managedFields") !== undefined) {
      return yield* Either.left(Failure.badRequest("metadata.managedFields must be nil"))
    }
    const nameless = Failure.badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`
    )
    const givenName = Json.string(Json.at(configuration, "metadata", "name"))
    const ownName = givenName ?? name
    if (ownName !== name) {
      return yield* Either.left(
        Failure.badRequest(`the name of the object (${ownName}) does not match the name on the URL (${name})`)
      )
    }
    const decodable = yield* Either.map(checkDecode(type, configuration), () => configuration)
    const wanted = Json.set(
      type.statusSubresource && request.subresource === undefined ? Json.omit(decodable, ["status"]) : decodable,
      ["metadata", "name"],
      name
    )
    const old = at(state, { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) })
    const writer = writerOf(call)
    const force = isTrue(request.query["force"])
    if (old === undefined) {
      if (request.subresource !== undefined) return yield* Either.left(Failure.notFound(type, name))
      if (givenName === undefined) return yield* Either.left(nameless)
      const applied = ManagedFields.apply(undefined, wanted, writer, force)
      if (applied._tag === "Conflicts") return yield* Either.left(conflictFailure(applied.conflicts))
      const managedFields = Json.at(applied.object, "metadata", "managedFields")
      return yield* created(call, Json.set(wanted, ["metadata", "managedFields"], managedFields), true)
    }
    if (sentVersion(wanted) !== "" && sentVersion(wanted) !== sentVersion(old)) {
      return yield* Either.left(Failure.modified(type, name))
    }
    const uid = Json.at(wanted, "metadata", "uid")
    if (uid !== undefined && !Json.equal(uid, Json.at(old, "metadata", "uid"))) {
      return yield* Either.left(
        Failure.invalid(type, name, [
          {
            field: "metadata.uid",
            reason: "FieldValueInvalid",
            message: `Invalid value: ${JSON.stringify(uid)}: field is immutable`
          }
        ])
      )
    }
    const applied = ManagedFields.apply(old, wanted, writer, force)
    if (applied._tag === "Conflicts") return yield* Either.left(conflictFailure(applied.conflicts))
    // Metadata that the manager drops takes the name with it, unless the configuration names the object
    if (givenName === undefined && applied.dropsMetadata) return yield* Either.left(nameless)
    const next = yield* checkedChange(call, old, applied.object)
    const managed = Json.set(next, ["metadata", "managedFields"], Json.at(applied.object, "metadata", "managedFields"))
    return store(call, old, canonical(type, managed))
  })

const patch = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, type } = call
    if (request.name === undefined) {
      return yield* Either.left(type.custom ? Failure.badRequest("name must be provided") : Failure.methodNotAllowed)
    }
    if (request.patchType === "apply") return yield* applyPatch(call)
    if (request.patchType === "strategic" && type.custom) return yield* Either.left(Failure.unsupportedPatch)
    if (request.patchType === undefined) {
      return yield* Either.left(type.custom ? Failure.unsupportedPatch : Failure.unsupportedMediaType)
    }
    const old = yield* existing(call)
    const incoming = yield* patched(call, old)
    if (Json.at(incoming, "kind") !== type.kind || Json.at(incoming, "apiVersion") !== Registry.apiVersion(type)) {
      const kind = Json.string(incoming["kind"]) ?? ""
      return yield* Either.left(patchError(incoming, conversionError(type, kind, Json.text(incoming["apiVersion"]))))
    }
    const problem = type.custom ? undefined : type.decodeError(incoming)
    if (problem !== undefined) return yield* Either.left(patchError(incoming, problem))
    yield* immutableMetadata(call, old, incoming)
    yield* checkVersion(call, old, incoming)
    const next = yield* checkedChange(call, old, incoming)
    return store(call, old, canonical(type, ManagedFields.update(old, next, writerOf(call))))
  })

// ---- delete ---------------------------------------------------------------------------------------------------------

interface DeleteOptions {
  readonly dryRun: boolean
  readonly gracePeriodSeconds: number | undefined
  readonly propagation: "Background" | "Foreground" | "Orphan" | undefined
  readonly uid: string | undefined
  readonly resourceVersion: string | undefined
}

const policies = ["Foreground", "Background", "Orphan"] as const

const deleteOptions = (request: KubeRequest.KubeRequest, given?: unknown): Step<DeleteOptions> =>
  Either.gen(function* () {
    const source = given ?? request.body
    let options: Json.JsonObject
    // With a body the query is ignored altogether: observed with 1.37.2
    if (source === undefined || source === null || source === "") {
      const { dryRun, gracePeriodSeconds, orphanDependents, propagationPolicy } = request.query
      const grace = yield* parseInteger(gracePeriodSeconds)
      options = {
        ...(dryRun === undefined ? {} : { dryRun: [dryRun] }),
        ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
        ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
        ...(orphanDependents === undefined ? {} : { orphanDependents: isTrue(orphanDependents) })
      }
    } else {
      const value = Json.fromUnknown(typeof source === "string" ? parseText(source) : source)
      if (!Json.isObject(value)) {
        return yield* Either.left(Failure.badRequest("couldn't get version/kind; json parse error: invalid character"))
      }
      const kind = Json.string(value["kind"]) ?? ""
      if (kind !== "" && kind !== "DeleteOptions") {
        return yield* Either.left(
          Failure.badRequest(
            `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(value["apiVersion"] ?? "v1")} in scheme "pkg/runtime/scheme.go:111"`
          )
        )
      }
      options = value
    }
    const policy = Json.string(options["propagationPolicy"])
    const orphan = options["orphanDependents"]
    if (policy !== undefined && typeof orphan === "boolean") {
      return yield* Either.left(
        Failure.invalidOption(
          "DeleteOptions",
          "propagationPolicy",
          "FieldValueInvalid",
          `Invalid value: ${JSON.stringify(policy)}: orphanDependents and deletionPropagation cannot be both set`
        )
      )
    }
    const known = policies.find((candidate) => candidate === policy)
    if (policy !== undefined && known === undefined) {
      return yield* Either.left(
        Failure.invalidOption(
          "DeleteOptions",
          "propagationPolicy",
          "FieldValueNotSupported",
          `Unsupported value: ${JSON.stringify(policy)}: supported values: "Foreground", "Background", "Orphan", "nil"`
        )
      )
    }
    const dryRun = yield* dryRunOf("DeleteOptions", Json.array(options["dryRun"]).map(Json.text))
    return {
      dryRun,
      gracePeriodSeconds: Json.number(options["gracePeriodSeconds"]),
      propagation: known ?? (orphan === true ? "Orphan" : orphan === false ? "Background" : undefined),
      uid: Json.string(Json.at(options, "preconditions", "uid")),
      resourceVersion: Json.string(Json.at(options, "preconditions", "resourceVersion"))
    }
  })

const checkPreconditions = (
  type: Registry.ResourceDefinition,
  object: Json.JsonObject,
  options: DeleteOptions
): Step<void> => {
  const name = Json.string(Json.at(object, "metadata", "name")) ?? ""
  const uid = Json.string(Json.at(object, "metadata", "uid")) ?? ""
  if (options.uid !== undefined && options.uid !== uid) {
    return Either.left(
      Failure.preconditionFailed(
        type,
        name,
        `the UID in the precondition (${options.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`
      )
    )
  }
  if (options.resourceVersion !== undefined && options.resourceVersion !== sentVersion(object)) {
    return Either.left(
      Failure.preconditionFailed(
        type,
        name,
        `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${sentVersion(object)}). The object might have been modified`
      )
    )
  }
  return Either.right(undefined)
}

const foreground = "foregroundDeletion"
const orphan = "orphan"

const collectorFinalizers = (
  type: Registry.ResourceDefinition,
  object: Json.JsonObject,
  options: DeleteOptions
): ReadonlyArray<Json.Json> => {
  const finalizers = finalizersOf(object)
  const others = finalizers.filter((finalizer) => finalizer !== foreground && finalizer !== orphan)
  switch (options.propagation) {
    case "Foreground":
      return [...others, foreground]
    case "Orphan":
      return [...others, orphan]
    case "Background":
      return others
    case undefined:
      // Without a policy a finalizer that is there already decides
      if (finalizers.length > others.length) return finalizers
      return type.defaultPropagation === "Orphan" ? [...others, orphan] : others
  }
}

const graceOf = (pod: Json.JsonObject, options: DeleteOptions): number => {
  const phase = Json.at(pod, "status", "phase")
  const nodeName = Json.string(Json.at(pod, "spec", "nodeName")) ?? ""
  // Nobody would confirm the end of a pod without a node, and a finished one has ended
  if (nodeName === "" || phase === "Succeeded" || phase === "Failed") return 0
  const grace = options.gracePeriodSeconds ?? Json.number(Json.at(pod, "spec", "terminationGracePeriodSeconds")) ?? 30
  return grace < 0 ? 1 : grace
}

interface Removal {
  readonly state: State
  /** The object as answered; absent where the answer is a Status. */
  readonly object: Json.JsonObject | undefined
}

const marked = (
  call: Call,
  object: Json.JsonObject,
  grace: number,
  finalizers: ReadonlyArray<Json.Json>
): Json.JsonObject => {
  const { env, type } = call
  const metadata = Json.object(object["metadata"])
  const first = !isDeleting(object)
  const now = env.now - (env.now % 1000)
  const deletion =
    first || !type.graceful
      ? now
      : (Json.parseTime(Json.string(metadata["deletionTimestamp"]) ?? "") ?? now) -
        (Json.number(metadata["deletionGracePeriodSeconds"]) ?? 0) * 1000
  return canonical(type, {
    ...object,
    metadata: {
      ...metadata,
      finalizers,
      deletionTimestamp:
        first || type.graceful ? Json.time(deletion + grace * 1000) : (metadata["deletionTimestamp"] ?? Json.time(now)),
      deletionGracePeriodSeconds: grace,
      ...(first && type.generation !== "none" ? { generation: generationOf(object) + 1 } : {})
    }
  })
}

const removeObject = (call: Call, object: Json.JsonObject, options: DeleteOptions): Step<Removal> =>
  Either.gen(function* () {
    const { state, type } = call
    yield* checkPreconditions(type, object, options)
    yield* admit(call, "DELETE", object, object)
    const where: Located = { resource: Registry.typeKey(type), key: keyOfObject(object) }
    const keep = (next: Json.JsonObject): Removal => {
      if (Json.equal(comparable(object), comparable(next))) return { state, object }
      const result = commit(state, where, object, next)
      return { state: result.state, object: result.object }
    }
    if (Registry.typeKey(type) === "/namespaces") return yield* removeNamespace(call, object)
    const finalizers = collectorFinalizers(type, object, options)
    if (type.graceful) {
      const pending = isDeleting(object)
      const before = Json.number(Json.at(object, "metadata", "deletionGracePeriodSeconds")) ?? 0
      if (pending && (options.gracePeriodSeconds === undefined || options.gracePeriodSeconds >= before)) {
        return { state, object }
      }
      const grace = pending ? Math.max(0, options.gracePeriodSeconds ?? 0) : graceOf(object, options)
      const next = marked(call, object, grace, finalizers)
      const kept = keep(next)
      if (!isReleased(type, next)) return kept
      const last = commit(kept.state, where, kept.object, undefined)
      return { state: last.state, object: last.object }
    }
    if (finalizers.length > 0) return keep(marked(call, object, 0, finalizers))
    return { state: commit(state, where, object, undefined).state, object: undefined }
  })

const protectedNamespaces = ["default", "kube-system", "kube-public"]

const removeNamespace = (call: Call, object: Json.JsonObject): Step<Removal> => {
  const { env, state, type } = call
  const name = Json.string(Json.at(object, "metadata", "name")) ?? ""
  if (protectedNamespaces.includes(name)) {
    return Either.left(Failure.forbidden(type, name, "this namespace may not be deleted"))
  }
  if (isDeleting(object)) return Either.right({ state, object })
  const where: Located = { resource: Registry.typeKey(type), key: name }
  const next = canonical(type, {
    ...object,
    metadata: { ...Json.object(object["metadata"]), deletionTimestamp: Json.time(env.now) },
    status: { ...Json.object(object["status"]), phase: "Terminating" }
  })
  if (isReleased(type, next)) {
    return Either.right({ state: commit(state, where, object, undefined).state, object: undefined })
  }
  const result = commit(state, where, object, next)
  return Either.right({ state: result.state, object: result.object })
}

const success = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Success",
  details: {
    name: Json.at(object, "metadata", "name") ?? "",
    ...(type.group === "" ? {} : { group: type.group }),
    kind: type.plural,
    uid: Json.at(object, "metadata", "uid") ?? ""
  }
})

const plainSuccess: Json.JsonObject = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 }

const orphanWarning =
  "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

const remove = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const options = yield* deleteOptions(request)
    const object = yield* existing(call)
    const removal = yield* removeObject({ ...call, dryRun: options.dryRun }, object, options)
    return {
      state: options.dryRun ? state : removal.state,
      status: 200,
      body: removal.object === undefined ? success(type, object) : render(type, removal.object),
      ...(type.defaultPropagation === "Orphan" && options.propagation === undefined
        ? { warnings: [orphanWarning] }
        : {})
    }
  })

const removeCollection = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    if (type.scope === "Namespaced" && request.namespace === undefined) {
      return yield* Either.left(type.custom ? Failure.noPath : Failure.methodNotAllowed)
    }
    const options = yield* deleteOptions(request)
    const selection = yield* parseSelection(type, request)
    let current = state
    const removed: Array<Json.JsonObject> = []
    for (const object of list(state, type, request.namespace)) {
      if (!selection.matches(object)) continue
      const removal = yield* removeObject({ ...call, state: current, dryRun: options.dryRun }, object, options)
      current = removal.state
      removed.push(object)
    }
    return {
      state: options.dryRun ? state : current,
      status: 200,
      body: renderList(type, removed, { resourceVersion: String(state.version) })
    }
  })

// ---- list and watch -------------------------------------------------------------------------------------------------

/** A parsed selection. */
export interface Selection {
  readonly matches: (object: Json.JsonObject) => boolean
  /** The value of `metadata.name=`, which narrows a watch to one object. */
  readonly name: string | undefined
  readonly all: boolean
}

const labelsOf = (object: Json.JsonObject): Record<string, string> => {
  const labels = Json.at(object, "metadata", "labels")
  return (Json.isObject(labels) ? labels : {}) as Record<string, string>
}

/** Label and field selector of a request, or the server's objection. */
export const parseSelection = (type: Registry.ResourceDefinition, request: KubeRequest.KubeRequest): Step<Selection> =>
  Either.gen(function* () {
    const { fieldSelector = "", labelSelector = "" } = request.query
    const labels = yield* Either.mapLeft(Selector.parseLabels(labelSelector), Failure.badRequest)
    const fields = yield* Either.mapLeft(Selector.parseFields(fieldSelector), Failure.badRequest)
    for (const { field } of fields) {
      const known =
        field === "metadata.name" ||
        (field === "metadata.namespace" && type.scope === "Namespaced") ||
        type.selectableFields[field] !== undefined
      if (!known) return yield* Either.left(Failure.badRequest(type.fieldSelectorError(field)))
    }
    const readField =
      (object: Json.JsonObject) =>
      (field: string): string => {
        if (field === "metadata.name") return Json.string(Json.at(object, "metadata", "name")) ?? ""
        if (field === "metadata.namespace") return Json.string(Json.at(object, "metadata", "namespace")) ?? ""
        return type.selectableFields[field]?.(object) ?? ""
      }
    return {
      all: labels.length === 0 && fields.length === 0,
      name: fields.find(({ field, operator }) => field === "metadata.name" && operator === "=")?.value,
      matches: (object) =>
        (labels.length === 0 || Selector.matchesLabels(labels, labelsOf(object))) &&
        (fields.length === 0 || Selector.matchesFields(fields, readField(object)))
    }
  })

/** The objects of a type as they were at a version that is still in the log. */
const objectsAt = (state: State, resource: string, version: number): OrderedMap.OrderedMap<Json.JsonObject> => {
  let objects = OrderedMap.get(state.types, resource)
  if (version >= state.version) return objects
  const later = EventLog.after(state.log, version, resource)
  for (let index = later.length - 1; index >= 0; index -= 1) {
    const entry = later[index]
    if (entry === undefined) continue
    objects =
      entry.previous === undefined
        ? OrderedMap.remove(objects, entry.key)
        : OrderedMap.set(objects, entry.key, entry.previous)
  }
  return objects
}

const encodeToken = (version: number, start: string): string =>
  Encoding.encodeBase64Url(JSON.stringify({ v: "meta.k8s.io/v1", rv: version, start }))

interface Token {
  readonly version: number
  readonly start: string
}

const decodeToken = (token: string): Step<Token> => {
  const bad = (why: string): Step<never> => Either.left(Failure.badRequest(`invalid continue token: ${why}`))
  const decoded = Encoding.decodeBase64UrlString(token)
  if (Either.isLeft(decoded)) return bad("continue key is not valid: illegal base64 data at input byte 0")
  const value = parseText(decoded.right)
  const version = Json.number(Json.at(value, "rv"))
  const start = Json.string(Json.at(value, "start"))
  if (Json.at(value, "v") !== "meta.k8s.io/v1") {
    return bad("continue key is not valid: server does not recognize this encoded version")
  }
  if (version === undefined || version === 0 || start === undefined || start === "") {
    return bad("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
  }
  return Either.right({ version, start: start.replace(/^\//, "") })
}

const expiredTokenText =
  "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."

const listOption = (field: string, message: string): Failure.Failure =>
  Failure.invalidOption("ListOptions", field, "FieldValueForbidden", `Forbidden: ${message}`)

const readList = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const {
      continue: token = "",
      limit: limitText,
      resourceVersion: wanted = "",
      resourceVersionMatch: match = "",
      sendInitialEvents
    } = request.query
    if (sendInitialEvents !== undefined && sendInitialEvents !== "") {
      return yield* Either.left(listOption("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    }
    const limit = yield* parseInteger(limitText)
    yield* parseInteger(request.query["timeoutSeconds"])
    if (match !== "") {
      if (token !== "") {
        return yield* Either.left(
          listOption("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        )
      }
      if (wanted === "") {
        return yield* Either.left(
          listOption("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
      }
      if (match !== "Exact" && match !== "NotOlderThan") {
        return yield* Either.left(
          Failure.invalidOption(
            "ListOptions",
            "resourceVersionMatch",
            "FieldValueNotSupported",
            `Unsupported value: ${JSON.stringify(match)}: supported values: "Exact", "NotOlderThan", ""`
          )
        )
      }
      if (match === "Exact" && wanted === "0") {
        return yield* Either.left(
          listOption("resourceVersionMatch", `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)
        )
      }
    }
    const version = wanted === "" ? undefined : parseVersion(wanted)
    if (wanted !== "" && version === undefined) {
      return yield* Either.left(Failure.badRequest(`invalid resource version: ${versionError(wanted)}`))
    }
    if (token !== "" && version !== undefined && version !== 0) {
      return yield* Either.left(Failure.badRequest("specifying resource version is not allowed when using continue"))
    }
    if (version !== undefined && version > state.version) {
      return yield* Either.left(Failure.tooLarge(version, state.version))
    }
    const selection = yield* parseSelection(type, request)
    const prefix = request.namespace === undefined ? "" : `${request.namespace}/`
    let shown = state.version
    let start = prefix
    if (token !== "") {
      const parsed = yield* decodeToken(token)
      start = prefix + parsed.start
      if (parsed.version > 0) {
        if (parsed.version < state.log.floor) {
          return yield* Either.left(Failure.expired(expiredTokenText, encodeToken(-1, parsed.start)))
        }
        shown = parsed.version
      }
    } else if (version !== undefined && version !== 0) {
      const exact = match === "Exact" || (match === "" && limit !== undefined && limit > 0)
      if (exact) {
        if (version < state.log.floor) {
          return yield* Either.left(Failure.expired("The resourceVersion for the provided list is too old."))
        }
        shown = version
      }
    }
    const page = limit !== undefined && limit > 0 && version !== 0 ? limit : Infinity
    const objects = objectsAt(state, Registry.typeKey(type), shown)
    const items: Array<Json.JsonObject> = []
    let last: string | undefined
    let more = false
    for (const [key, object] of candidates(objects, prefix, start, selection)) {
      if (!selection.matches(object)) continue
      if (items.length >= page) {
        more = true
        break
      }
      items.push(object)
      last = key
    }
    const slash = type.group === "" && type.plural === "events" ? "" : "/"
    const remaining =
      last === undefined ? 0 : OrderedMap.rank(objects, afterPrefix(prefix)) - OrderedMap.rank(objects, `${last}\u0000`)
    return {
      state,
      status: 200,
      body: renderList(type, items, {
        resourceVersion: String(shown),
        ...(more && last !== undefined
          ? {
              continue: encodeToken(shown, `${slash}${last.slice(prefix.length)}\u0000`),
              ...(selection.all ? { remainingItemCount: remaining } : {})
            }
          : {})
      })
    }
  })

/** The least key that is greater than all keys with a prefix. `0` follows `/` in ASCII. */
const afterPrefix = (prefix: string): string => (prefix === "" ? "\uffff" : `${prefix.slice(0, -1)}0`)

function* candidates(
  objects: OrderedMap.OrderedMap<Json.JsonObject>,
  prefix: string,
  start: string,
  selection: Selection
): IterableIterator<readonly [string, Json.JsonObject]> {
  // One object asked for by name must not cost a walk over its namespace
  if (selection.name !== undefined && prefix !== "") {
    const key = prefix + selection.name
    const object = key >= start ? OrderedMap.get(objects, key) : undefined
    if (object !== undefined) yield [key, object]
    return
  }
  yield* OrderedMap.withPrefix(objects, prefix, start)
}

/** A watch that may start. */
export interface Watch {
  readonly definition: Registry.ResourceDefinition
  readonly namespace: string | undefined
  readonly selection: Selection
  /** Objects that are sent first, as ADDED. */
  readonly initial: ReadonlyArray<Json.JsonObject>
  /** Events after this version follow. */
  readonly from: number
  readonly bookmarks: boolean
  /** Whether a bookmark with `k8s.io/initial-events-end` follows the initial objects. */
  readonly marksEnd: boolean
  readonly timeoutSeconds: number | undefined
  /** Refused after the response has begun: an ERROR frame (410, or 504 after its delay). */
  readonly failure: Failure.Failure | undefined
}

/** Checks a watch request and says how it starts. */
export const watch = (state: State, request: KubeRequest.KubeRequest): Step<Watch> =>
  Either.gen(function* () {
    const type = yield* resolve(state, request)
    if (!type.verbs.includes("watch")) return yield* Either.left(Failure.methodNotAllowed)
    const {
      allowWatchBookmarks,
      resourceVersion: wanted = "",
      resourceVersionMatch: match = "",
      sendInitialEvents
    } = request.query
    const timeoutSeconds = yield* parseInteger(request.query["timeoutSeconds"])
    if ((request.query["continue"] ?? "") !== "") {
      return yield* Either.left(listOption("continue", "continue is forbidden for watch"))
    }
    if (sendInitialEvents !== undefined && match !== "NotOlderThan") {
      return yield* Either.left(
        listOption("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
      )
    }
    if (sendInitialEvents === undefined && match !== "") {
      return yield* Either.left(
        listOption(
          "resourceVersionMatch",
          "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
      )
    }
    const version = wanted === "" ? 0 : parseVersion(wanted)
    if (version === undefined) return yield* Either.left(Failure.plain(versionError(wanted)))
    const selection = yield* parseSelection(type, request)
    const bookmarks = isTrue(allowWatchBookmarks)
    const synthetic = sendInitialEvents === undefined ? version === 0 : isTrue(sendInitialEvents)
    const base = { definition: type, namespace: request.namespace, selection, bookmarks, timeoutSeconds }
    if (synthetic) {
      if (version > state.version) {
        return {
          ...base,
          initial: [],
          from: version,
          marksEnd: false,
          failure: Failure.tooLarge(version, state.version)
        }
      }
      const prefix = request.namespace === undefined ? "" : `${request.namespace}/`
      const objects = OrderedMap.get(state.types, Registry.typeKey(type))
      const initial: Array<Json.JsonObject> = []
      for (const [, object] of candidates(objects, prefix, prefix, selection)) {
        if (selection.matches(object)) initial.push(object)
      }
      return { ...base, initial, from: state.version, marksEnd: bookmarks, failure: undefined }
    }
    const tooOld = version > 0 && version < state.log.floor
    return {
      ...base,
      initial: [],
      from: version === 0 ? state.version : version,
      marksEnd: false,
      failure: tooOld ? tooOldVersion(type, version, state.log.floor) : undefined
    }
  })

/** The refusal of a version that the log no longer reaches back to. */
export const tooOldVersion = (type: Type, version: number, floor: number): Failure.Failure =>
  Failure.expired(
    // Events have no watch cache: etcd answers for them
    type.group === "" && type.plural === "events"
      ? "The resourceVersion for the provided watch is too old."
      : `too old resource version: ${version} (${floor})`
  )

/** A bookmark's object. */
export const bookmark = (type: Registry.ResourceDefinition, version: number, marksEnd: boolean): Json.JsonObject => ({
  kind: type.kind,
  apiVersion: Registry.apiVersion(type),
  metadata: {
    resourceVersion: String(version),
    ...(marksEnd ? { annotations: { "k8s.io/initial-events-end": "true" } } : {})
  },
  // Go writes these members of an empty Pod
  ...(type.group === "" && type.plural === "pods" ? { spec: { containers: null }, status: {} } : {})
})

/** An object as a watch or a get in this version shows it. */
export const show = render

// ---- subresources ---------------------------------------------------------------------------------------------------

const setCondition = (
  object: Json.JsonObject,
  condition: { readonly type: string; readonly status: string; readonly reason?: string; readonly message?: string },
  now: number
): Json.JsonObject => {
  const conditions = Json.array(Json.at(object, "status", "conditions"))
  const old = conditions.find((entry) => Json.at(entry, "type") === condition.type)
  const changed = Json.at(old, "status") !== condition.status
  const entry: Json.JsonObject = {
    type: condition.type,
    status: condition.status,
    lastProbeTime: null,
    lastTransitionTime: changed ? Json.time(now) : (Json.at(old, "lastTransitionTime") ?? Json.time(now)),
    ...(condition.reason === undefined ? {} : { reason: condition.reason }),
    ...(condition.message === undefined ? {} : { message: condition.message })
  }
  const next =
    old === undefined ? [...conditions, entry] : conditions.map((candidate) => (candidate === old ? entry : candidate))
  return Json.set(object, ["status", "conditions"], next)
}

const bind = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state, type } = call
    const binding = yield* body(call)
    const name = request.name ?? ""
    const boundName = Json.string(Json.at(binding, "metadata", "name")) ?? ""
    if (boundName !== name) {
      return yield* Either.left(Failure.badRequest("name in URL does not match name in Binding object"))
    }
    const node = Json.string(Json.at(binding, "target", "name")) ?? ""
    const kind = Json.string(Json.at(binding, "target", "kind")) ?? ""
    if (node === "" || (kind !== "" && kind !== "Node")) {
      return yield* Either.left(
        Failure.invalid({ group: "", kind: "Binding" }, name, [
          node === ""
            ? { field: "target.name", reason: "FieldValueRequired", message: "Required value" }
            : {
                field: "target.kind",
                reason: "FieldValueNotSupported",
                message: `Unsupported value: ${JSON.stringify(kind)}: supported values: "Node", "<empty>"`
              }
        ])
      )
    }
    const pod = yield* existing(call)
    const refused = (why: string): Step<never> =>
      Either.left(Failure.conflict({ group: "", plural: "pods/binding" }, name, why))
    if (isDeleting(pod)) return yield* refused(`pod ${name} is being deleted, cannot be assigned to a host`)
    const assigned = Json.string(Json.at(pod, "spec", "nodeName")) ?? ""
    if (assigned !== "") return yield* refused(`pod ${name} is already assigned to node ${JSON.stringify(assigned)}`)
    const merged = (key: string): Json.JsonObject => {
      const value = { ...Json.object(Json.at(pod, "metadata", key)), ...Json.object(Json.at(binding, "metadata", key)) }
      return Object.keys(value).length === 0 ? {} : { [key]: value }
    }
    const bound = setCondition(
      {
        ...pod,
        metadata: { ...Json.object(pod["metadata"]), ...merged("annotations"), ...merged("labels") },
        spec: { ...Json.object(pod["spec"]), nodeName: node }
      },
      { type: "PodScheduled", status: "True" },
      env.now
    )
    if (call.dryRun) return { state, status: 201, body: plainSuccess }
    const result = commit(
      state,
      { resource: Registry.typeKey(type), key: keyOfObject(pod) },
      pod,
      canonical(type, bound)
    )
    return { state: result.state, status: 201, body: plainSuccess }
  })

const budgets: Type = { group: "policy", plural: "poddisruptionbudgets" }

const selectorMatches = (selector: Json.Json | undefined, pod: Json.JsonObject): boolean => {
  if (!Json.isObject(selector)) return false
  const requirements: Array<Selector.LabelRequirement> = Object.entries(Json.object(selector["matchLabels"])).map(
    ([key, value]) => ({ key, operator: "in", values: [Json.text(value)] })
  )
  for (const expression of Json.array(selector["matchExpressions"])) {
    const key = Json.string(Json.at(expression, "key")) ?? ""
    const values = Json.array(Json.at(expression, "values")).map(Json.text)
    switch (Json.at(expression, "operator")) {
      case "In":
        requirements.push({ key, operator: "in", values })
        break
      case "NotIn":
        requirements.push({ key, operator: "notIn", values })
        break
      case "Exists":
        requirements.push({ key, operator: "exists", values: [] })
        break
      default:
        requirements.push({ key, operator: "notExists", values: [] })
    }
  }
  return Selector.matchesLabels(requirements, labelsOf(pod))
}

const isReady = (pod: Json.JsonObject): boolean =>
  Json.array(Json.at(pod, "status", "conditions")).some(
    (condition) => Json.at(condition, "type") === "Ready" && Json.at(condition, "status") === "True"
  )

interface Health {
  readonly desired: number
  readonly current: number
  readonly allowed: number
}

const scaled = (value: Json.Json | undefined, total: number): number | undefined => {
  if (typeof value === "number") return value
  const percent = typeof value === "string" ? /^(\d+)%$/.exec(value)?.[1] : undefined
  return percent === undefined ? undefined : Math.ceil((Number(percent) * total) / 100)
}

/** What a disruption budget allows: its status where a controller keeps it, else counted here and now. */
const health = (state: State, budget: Json.JsonObject): Health => {
  const status = Json.object(budget["status"])
  const allowed = Json.number(status["disruptionsAllowed"])
  const desired = Json.number(status["desiredHealthy"])
  const current = Json.number(status["currentHealthy"])
  if (allowed !== undefined && desired !== undefined && current !== undefined) return { allowed, desired, current }
  const pods = [
    ...list(state, { group: "", plural: "pods" }, Json.string(Json.at(budget, "metadata", "namespace")))
  ].filter((pod) => selectorMatches(Json.at(budget, "spec", "selector"), pod))
  const healthy = pods.filter((pod) => isReady(pod) && !isDeleting(pod)).length
  const unavailable = scaled(Json.at(budget, "spec", "maxUnavailable"), pods.length)
  const needed =
    scaled(Json.at(budget, "spec", "minAvailable"), pods.length) ??
    Math.max(0, pods.length - (unavailable ?? pods.length))
  return { desired: needed, current: healthy, allowed: Math.max(0, healthy - needed) }
}

const evict = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state, type } = call
    const eviction = yield* body(call)
    const name = request.name ?? ""
    const evicted = Json.string(Json.at(eviction, "metadata", "name")) ?? name
    if (evicted !== name) {
      return yield* Either.left(Failure.badRequest("name in URL does not match name in Eviction object"))
    }
    const pod = yield* existing(call)
    const options = yield* deleteOptions(request, eviction["deleteOptions"] ?? {})
    const dryRun = call.dryRun || options.dryRun
    const phase = Json.at(pod, "status", "phase")
    let current = state
    if (phase === "Running" && !isDeleting(pod)) {
      const guarding = [...list(state, budgets, request.namespace)].filter((budget) =>
        selectorMatches(Json.at(budget, "spec", "selector"), pod)
      )
      if (guarding.length > 1) {
        return yield* Either.left(
          Failure.plain(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
          )
        )
      }
      const [budget] = guarding
      if (budget !== undefined && isReady(pod)) {
        const { allowed, current: healthy, desired } = health(state, budget)
        if (allowed < 1) {
          return yield* Either.left(
            Failure.make(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {
              causes: [
                {
                  reason: "DisruptionBudget",
                  message: `The disruption budget ${Json.string(Json.at(budget, "metadata", "name")) ?? ""} needs ${desired} healthy pods and has ${healthy} currently`
                }
              ]
            })
          )
        }
        if (Json.at(budget, "status", "disruptionsAllowed") !== undefined && !dryRun) {
          current = commit(
            current,
            { resource: Registry.typeKey(budgets), key: keyOfObject(budget) },
            budget,
            Json.set(
              Json.set(budget, ["status", "disruptionsAllowed"], allowed - 1),
              ["status", "disruptedPods", name],
              Json.time(env.now)
            )
          ).state
        }
      }
    }
    if (dryRun) return { state, status: 201, body: plainSuccess }
    let target = pod
    if (!isDeleting(pod)) {
      const condition = {
        type: "DisruptionTarget",
        status: "True",
        reason: "EvictionByEvictionAPI",
        message: "Eviction API: evicting"
      }
      const disrupted = commit(
        current,
        { resource: Registry.typeKey(type), key: keyOfObject(pod) },
        pod,
        canonical(type, setCondition(pod, condition, env.now))
      )
      current = disrupted.state
      target = disrupted.object
    }
    const removal = yield* removeObject({ ...call, state: current }, target, options)
    return { state: removal.state, status: 201, body: plainSuccess }
  })

const tokenSeconds = 3600

const issueToken = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state } = call
    const asked = yield* body(call)
    const account = yield* existing(call)
    const seconds = Json.number(Json.at(asked, "spec", "expirationSeconds")) ?? tokenSeconds
    const token = Encoding.encodeBase64Url(
      JSON.stringify({
        namespace: request.namespace ?? "",
        name: request.name ?? "",
        uid: Json.at(account, "metadata", "uid") ?? "",
        expires: env.now + seconds * 1000
      })
    )
    return {
      state,
      status: 201,
      body: {
        kind: "TokenRequest",
        apiVersion: "authentication.k8s.io/v1",
        metadata: {
          name: request.name ?? "",
          namespace: request.namespace ?? "",
          creationTimestamp: Json.time(env.now)
        },
        spec: {
          audiences: Json.array(Json.at(asked, "spec", "audiences")),
          expirationSeconds: seconds,
          boundObjectRef: null
        },
        status: { token, expirationTimestamp: Json.time(env.now + seconds * 1000) }
      }
    }
  })

/** Whose token this is, when it was issued here, has not expired and its ServiceAccount still exists. */
export const tokenSubject = (
  state: State,
  token: string,
  now: number
): { readonly namespace: string; readonly name: string } | undefined => {
  const decoded = Encoding.decodeBase64UrlString(token)
  if (Either.isLeft(decoded)) return undefined
  const value = parseText(decoded.right)
  const namespace = Json.string(Json.at(value, "namespace"))
  const name = Json.string(Json.at(value, "name"))
  const expires = Json.number(Json.at(value, "expires"))
  if (namespace === undefined || name === undefined || expires === undefined || expires <= now) return undefined
  const account = get(state, { group: "", plural: "serviceaccounts" }, namespace, name)
  return account !== undefined && Json.equal(Json.at(account, "metadata", "uid"), Json.at(value, "uid"))
    ? { namespace, name }
    : undefined
}

// ---- dispatch -------------------------------------------------------------------------------------------------------

/** The definition that a request addresses, or the 404 or 405 that the server answers. */
const resolve = (state: State, request: KubeRequest.KubeRequest): Step<Registry.ResourceDefinition> => {
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

const subresource = (call: Call, name: string): Step<Done> => {
  const { request, type } = call
  const known = type.subresources.find((candidate) => candidate.name === name)
  if (known === undefined) {
    return type.custom ? Either.left(Failure.notFound(type, request.name ?? "")) : Either.left(Failure.noResource)
  }
  if (!known.verbs.includes(request.verb)) {
    return Either.left(type.custom ? Failure.notSupported(type, request.verb) : Failure.methodNotAllowed)
  }
  switch (name) {
    case "binding":
      return bind(call)
    case "eviction":
      return evict(call)
    case "token":
      return issueToken(call)
    case "status":
      return request.verb === "get" ? read(call) : request.verb === "update" ? update(call) : patch(call)
    case "finalize":
      return update(call)
    default:
      return Either.left(Failure.noResource)
  }
}

const perform = (call: Call): Step<Done> => {
  const { request, type } = call
  if (request.subresource !== undefined) return subresource(call, request.subresource)
  if (type.virtual || !type.verbs.includes(request.verb)) return Either.left(Failure.methodNotAllowed)
  switch (request.verb) {
    case "get":
      return read(call)
    case "list":
      return readList(call)
    case "create":
      return create(call)
    case "update":
      return update(call)
    case "patch":
      return patch(call)
    case "delete":
      return remove(call)
    case "deletecollection":
      return removeCollection(call)
    case "watch":
      return Either.left(Failure.methodNotAllowed)
  }
}

/** Performs a request: any but a watch (`watch`), a log, a review or a non-resource URL, which `Cluster` answers. */
export const apply = (state: State, request: KubeRequest.KubeRequest, env: Env): Outcome => {
  const result = Either.gen(function* () {
    const type = yield* resolve(state, request)
    const writes = ["create", "update", "patch"].includes(request.verb)
    const dryRun = writes ? yield* writeOptions(request) : false
    return yield* perform({ state, request, env, type, dryRun })
  })
  if (Either.isLeft(result)) return { state, reply: Either.left(result.left) }
  const done = result.right
  return {
    state: done.state,
    reply: Either.right({
      status: done.status,
      body: done.body,
      warnings: done.warnings ?? [],
      serverTime: env.now - (env.now % 1000)
    })
  }
}
