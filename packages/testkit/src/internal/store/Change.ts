/**
 * Creating, replacing and patching objects.
 *
 * @module
 */
import { Either } from "effect"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import * as ManagedFields from "../../ManagedFields.js"
import * as Patch from "../../Patch.js"
import * as Registry from "../../Registry.js"
import * as Validation from "../../Validation.js"
import * as Fields from "./Fields.js"
import {
  type Located,
  type Step,
  at,
  canonical,
  commit,
  generationOf,
  get,
  isReleased,
  keyOfObject,
  objectKey,
  show
} from "./State.js"
import {
  type Call,
  type Done,
  admit,
  body,
  checkDecode,
  checkFields,
  checkKind,
  checkNamespace,
  conversionError,
  decodeProblem,
  duplicateTexts,
  existing,
  isOtherKind,
  isTrue,
  notAnObject,
  parseText,
  parseVersion,
  sentVersion,
  serverMetadata,
  strictText,
  unknownTexts,
  validated,
  warned,
  withManaged,
  writerOf
} from "./Call.js"

/** A canonical object that was given other managed fields: they are the last of the metadata, unless keys are sorted. */
const placed = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject =>
  type.custom ? canonical(type, object) : object

const defaulted = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject =>
  isOtherKind(type, object) ? object : type.defaults(object)

const generatedNameBase = 58

const generateAttempts = 8

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

export const created = (call: Call, given: Json.JsonObject, applied: boolean): Step<Done> =>
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
    const own = defaulted(type, fresh)
    const mutated = yield* admit(call, "mutating", "CREATE", type.prepare(own), undefined)
    // A webhook may have made it the kind that it ought to be
    const admitted = own === fresh ? defaulted(type, mutated) : mutated
    yield* validated(type, admitted, undefined)
    yield* admit(call, "validating", "CREATE", admitted, undefined)
    // The storage's own check: what is wrong with the object is told before, and a dry run does not come here
    if (!call.dryRun && !applied && (parseVersion(sentVersion) ?? 0) !== 0) {
      return yield* Either.left(Failure.plain("resourceVersion should not be set on objects to be created"))
    }
    const where: Located = { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) }
    const existing = at(state, where)
    if (existing !== undefined) {
      return yield* Either.left(
        Failure.alreadyExists(type, name, Json.at(existing, "metadata", "deletionTimestamp") !== undefined)
      )
    }
    const complete = canonical(type, admitted)
    const managed = applied
      ? placed(type, withManaged(complete, given))
      : placed(type, withManaged(complete, ManagedFields.update(undefined, own, writerOf(call))))
    const warnings = Validation.warnings(type, managed)
    if (call.dryRun) {
      // A version that is sent is echoed, whatever it is
      const echoed = sentVersion !== "" ? Json.set(managed, ["metadata", "resourceVersion"], sentVersion) : managed
      return { state, status: 201, body: show(type, canonical(type, echoed)), warnings }
    }
    const result = commit(state, where, undefined, managed)
    return { state: result.state, status: 201, body: show(type, result.object), warnings }
  })

export const create = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, type } = call
    if (type.scope === "Namespaced" && request.namespace === undefined) {
      return yield* Either.left(type.custom ? Failure.noPath : Failure.methodNotAllowed)
    }
    if (request.name !== undefined && !type.custom) return yield* Either.left(Failure.methodNotAllowed)
    const object = yield* body(call)
    yield* checkKind(call, object)
    yield* checkDecode(type, object)
    const known = yield* checkFields(call, object)
    return warned(yield* created(call, known.object, false), known.warnings)
  })

export const content = (type: Registry.ResourceDefinition, object: Json.JsonObject): Json.JsonObject =>
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

const fixedMetadata: ReadonlySet<string> = new Set([
  ...serverMetadata,
  "generation",
  "name",
  "namespace",
  "resourceVersion"
])

/** What of the incoming object may change through this endpoint; the rest stays as it was. */
const restrict = (call: Call, old: Json.JsonObject, incoming: Json.JsonObject): Json.JsonObject => {
  const { request, type } = call
  const before = Json.object(old["metadata"])
  const given = Json.object(incoming["metadata"])
  const metadata: Record<string, Json.Json> = {}
  for (const key of Object.keys(given)) {
    const value = given[key]
    if (value !== undefined && !fixedMetadata.has(key)) metadata[key] = value
  }
  for (const key of fixedMetadata) {
    const value = before[key]
    if (value !== undefined) metadata[key] = value
  }
  const status = (source: Json.JsonObject): Json.JsonObject =>
    source["status"] === undefined ? {} : { status: source["status"] }
  if (request.subresource === "status") {
    return {
      ...Json.omit(old, ["status"]),
      ...(type.statusStoresMetadata ? { metadata: keptMetadata(type, before, metadata) } : {}),
      ...keptStatus(type, old, status(incoming))
    }
  }
  return type.statusSubresource
    ? { ...Json.omit(incoming, ["status"]), metadata, ...status(old) }
    : { ...incoming, metadata }
}

const keptMetadata = (
  type: Registry.ResourceDefinition,
  before: Json.JsonObject,
  given: Json.JsonObject
): Json.JsonObject => type.keptMetadata.reduce((metadata, key) => Json.set(metadata, [key], before[key]), given)

const keptStatus = (
  type: Registry.ResourceDefinition,
  old: Json.JsonObject,
  given: Json.JsonObject
): Json.JsonObject => {
  const kept = Object.fromEntries(
    type.keptStatus.flatMap((key) => {
      const value = Json.at(old, "status", key)
      return value === undefined || Json.at(given, "status", key) !== undefined ? [] : [[key, value] as const]
    })
  )
  return Object.keys(kept).length === 0 ? given : { status: { ...Json.object(given["status"]), ...kept } }
}

/** Stores a changed object: a no-op keeps its version, one whose last finalizer went is deleted. */
const store = (call: Call, old: Json.JsonObject, next: Json.JsonObject, status = 200): Done => {
  const { state, type } = call
  const where: Located = { resource: Registry.typeKey(type), key: keyOfObject(old) }
  const warnings = Validation.warnings(type, next, old)
  if (Json.equal(old, next)) return { state, status, body: show(type, old), warnings }
  if (call.dryRun) return { state, status, body: show(type, next), warnings }
  if (isReleased(type, next)) {
    // The answer keeps the version before, the event shows the last stored state: observed with 1.37.2
    return { state: commit(state, where, old, undefined).state, status, body: show(type, next), warnings }
  }
  const result = commit(state, where, old, next)
  return { state: result.state, status, body: show(type, result.object), warnings }
}

const checkedChange = (
  call: Call,
  old: Json.JsonObject,
  incoming: Json.JsonObject,
  options: {
    readonly changed?: ReadonlyArray<Registry.FieldError>
    /** What storage checks, once it is known what is to be written. */
    readonly unless?: Step<void>
  } = {}
): Step<Json.JsonObject> =>
  Either.gen(function* () {
    const { type } = call
    const restricted = restrict(call, old, incoming)
    const own = defaulted(type, restricted)
    const prepared = call.request.subresource === undefined ? type.prepare(own, old) : own
    const admitted = yield* admit(call, "mutating", "UPDATE", prepared, old)
    yield* options.unless ?? Either.right(undefined)
    yield* validated(type, admitted, old, options.changed)
    yield* admit(call, "validating", "UPDATE", admitted, old)
    return canonical(type, nextGeneration(call, old, admitted))
  })

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

export const update = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, type } = call
    if (request.name === undefined) {
      return yield* Either.left(type.custom ? Failure.badRequest("name must be provided") : Failure.methodNotAllowed)
    }
    const sent = yield* body(call)
    yield* checkKind(call, sent)
    yield* checkDecode(type, sent)
    const { object: incoming, warnings } = yield* checkFields(call, sent)
    const namespace = Json.string(Json.at(incoming, "metadata", "namespace")) ?? ""
    if (type.scope === "Namespaced" && namespace !== "" && namespace !== request.namespace) {
      return yield* Either.left(
        Failure.badRequest("the namespace of the provided object does not match the namespace sent on the request")
      )
    }
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
    const old = yield* existing(call)
    const uid = Json.string(Json.at(incoming, "metadata", "uid")) ?? ""
    const ownUid = Json.string(Json.at(old, "metadata", "uid")) ?? ""
    if (uid !== "" && uid !== ownUid) {
      return yield* Either.left(
        Failure.conflict(
          type,
          name,
          `StorageError: invalid object, Code: 4, Key: ${call.dryRun ? "" : "/registry"}${type.custom ? `/${type.group}` : ""}/${type.plural}/${objectKey(request.namespace, name)}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${ownUid}`
        )
      )
    }
    if (request.subresource === "finalize") {
      yield* checkVersion(call, old, incoming)
      const next = Json.set(old, ["spec"], incoming["spec"])
      return warned(store(call, old, canonical(type, next)), warnings)
    }
    const next = yield* checkedChange(call, old, incoming, { unless: checkVersion(call, old, incoming) })
    return warned(store(call, old, placed(type, ManagedFields.update(old, next, writerOf(call)))), warnings)
  })

const patchError = (value: Json.Json, problem: string): Failure.Failure =>
  Failure.invalid({ group: "", kind: "" }, "", [
    {
      field: "patch",
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(
        JSON.stringify(
          Json.isObject(value)
            ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
            : value
        )
      )}: ${problem}`
    }
  ])

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
        : Either.mapLeft(Patch.json(old, patch, request.query["fieldValidation"] !== "Ignore"), objection)
    case "merge":
      // Without a look at its fields the patch is merged first, whatever it is, and decoded by others with other words
      if (patch === null) return Either.left(Failure.badRequest("Invalid JSON Patch"))
      if (request.query["fieldValidation"] === "Ignore") {
        if (Array.isArray(patch)) {
          const list = Json.fromUnknown(patch) ?? []
          return Either.left(patchError(list, notAnObject(list)))
        }
        if (typeof patch !== "object") return Either.left(Failure.badRequest("Invalid JSON Patch"))
      }
      return Either.mapLeft(Patch.object("merge", old, patch), objection)
    case "strategic":
      return type.custom
        ? Either.left(Failure.unsupportedPatch)
        : // Merged as Go structs, which have neither kind nor version
          Either.map(Either.mapLeft(Patch.object("strategic", old, patch), objection), (merged) => ({
            ...merged,
            kind: type.kind,
            apiVersion: Registry.apiVersion(type)
          }))
    default:
      return Either.left(type.custom ? Failure.unsupportedPatch : Failure.unsupportedMediaType)
  }
}

const checkNames = (call: Call, incoming: Json.JsonObject): Step<void> => {
  const { request, type } = call
  const name = request.name ?? ""
  const newName = Json.string(Json.at(incoming, "metadata", "name"))
  if (newName === undefined || newName === "") {
    return Either.left(
      Failure.badRequest(`the name of the object (${name} based on URL) was undeterminable: name must be provided`)
    )
  }
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
  return Either.right(undefined)
}

/** Errors of metadata that a patch tries to change and must not. */
const changedMetadata = (old: Json.JsonObject, incoming: Json.JsonObject): ReadonlyArray<Registry.FieldError> =>
  ["uid", "deletionTimestamp"].flatMap((key) => {
    const value = Json.at(incoming, "metadata", key)
    const before = Json.at(old, "metadata", key)
    // The time of a deletion stays as it is, whatever is sent
    const stays = key === "deletionTimestamp" && before !== undefined
    return value === undefined || stays || Json.equal(value, before)
      ? []
      : [
          {
            field: `metadata.${key}`,
            reason: "FieldValueInvalid" as const,
            message: `Invalid value: ${JSON.stringify(value)}: field is immutable`
          }
        ]
  })

const conflictText = (conflict: ManagedFields.Conflict): string => {
  const { manager, subresource, using } = conflict
  return [
    `conflict with ${JSON.stringify(manager)}`,
    ...(subresource === "" ? [] : [`with subresource ${JSON.stringify(subresource)}`]),
    ...(using === undefined ? [] : [`using ${using}`])
  ].join(" ")
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
    const undeclared = Fields.undeclared(type, configuration).map((path) => `${path}: field not declared in schema`)
    if (undeclared.length > 0) {
      const [group, version] = apiVersion.includes("/") ? [apiVersion] : ["", apiVersion]
      const shownName = get(state, type, request.namespace, name) === undefined ? name : ""
      const place = `${Json.text(Json.at(configuration, "metadata", "namespace"))}/${Json.text(Json.at(configuration, "metadata", "name") ?? shownName)}; ${group ?? ""}${version === undefined ? "" : `/${version}`}, Kind=${kind}`
      return yield* Either.left(
        Failure.plain(
          `failed to create typed patch object (${place}): ${
            undeclared.length === 1
              ? undeclared.join("")
              : `errors:\n${undeclared.map((text) => `  ${text}`).join("\n")}`
          }`
        )
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
    const otherName = Failure.badRequest(
      `the name of the object (${ownName}) does not match the name on the URL (${name})`
    )
    const decodable = yield* Either.map(checkDecode(type, configuration), () => configuration)
    const wanted = Json.set(
      type.statusSubresource && request.subresource === undefined ? Json.omit(decodable, ["status"]) : decodable,
      ["metadata", "name"],
      name
    )
    const stored = at(state, { resource: Registry.typeKey(type), key: objectKey(request.namespace, name) })
    const old = stored === undefined ? undefined : show(type, stored)
    const writer = writerOf(call)
    const force = isTrue(request.query["force"])
    if (old === undefined) {
      if (request.subresource !== undefined) return yield* Either.left(Failure.notFound(type, name))
      if (givenName === undefined) return yield* Either.left(nameless)
      if (ownName !== name) return yield* Either.left(otherName)
      const applied = ManagedFields.apply(undefined, wanted, writer, force)
      if (applied._tag === "Conflicts") return yield* Either.left(conflictFailure(applied.conflicts))
      const managedFields = Json.at(applied.object, "metadata", "managedFields")
      return yield* created(call, Json.set(wanted, ["metadata", "managedFields"], managedFields), true)
    }
    const applied = ManagedFields.apply(old, wanted, writer, force)
    if (applied._tag === "Conflicts") return yield* Either.left(conflictFailure(applied.conflicts))
    if (ownName !== name) return yield* Either.left(otherName)
    // Metadata that the manager drops takes the name with it, unless the configuration has any
    if (configuration["metadata"] === undefined && applied.dropsMetadata) return yield* Either.left(nameless)
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
    const next = yield* checkedChange(call, old, applied.object)
    const managed = Json.set(next, ["metadata", "managedFields"], Json.at(applied.object, "metadata", "managedFields"))
    return store(call, old, canonical(type, managed))
  })

export const patch = (call: Call): Step<Done> =>
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
    const given = yield* patched(call, old)
    const { object: incoming, unknown } = Fields.prune(type, given, old)
    if (type.custom) {
      const apiVersion = Json.text(incoming["apiVersion"])
      if (apiVersion !== Registry.apiVersion(type)) {
        const why = `${apiVersion.includes("/") ? apiVersion : `/${apiVersion}`}, Kind=${Json.text(incoming["kind"])} is unstructured and is not suitable for converting to ${JSON.stringify(Registry.apiVersion(type))}`
        return yield* Either.left(
          Failure.make(500, "InternalError", `Internal error occurred: Internal error occurred: ${why}`, {
            causes: [{ message: `Internal error occurred: ${why}` }]
          })
        )
      }
    } else if (
      Json.at(incoming, "kind") !== type.kind ||
      Json.at(incoming, "apiVersion") !== Registry.apiVersion(type)
    ) {
      const kind = Json.string(incoming["kind"]) ?? ""
      return yield* Either.left(patchError(incoming, conversionError(call, kind, Json.text(incoming["apiVersion"]))))
    }
    const problem = decodeProblem(type, incoming)
    if (problem !== undefined) return yield* Either.left(patchError(incoming, problem))
    // What was merged is written with its keys in order
    const strangers = [
      ...(request.patchType === "json"
        ? unknownTexts(Fields.unknownInPatch(request.body)).map((text) => `json patch ${text}`)
        : duplicateTexts(request.body)),
      ...unknownTexts(type.custom ? unknown : unknown.toSorted())
    ]
    if (strangers.length > 0 && request.query["fieldValidation"] === "Strict") {
      return yield* Either.left(patchError(given, strictText(strangers)))
    }
    const warnings = request.query["fieldValidation"] === "Ignore" ? [] : strangers
    yield* checkNames(call, incoming)
    const next = yield* checkedChange(call, old, incoming, {
      changed: changedMetadata(old, incoming),
      unless: checkVersion(call, old, incoming)
    })
    return warned(store(call, old, placed(type, ManagedFields.update(old, next, writerOf(call)))), warnings)
  })
