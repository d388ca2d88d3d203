/**
 * Deleting: preconditions, finalizers, grace periods, namespaces, collections.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either } from "effect"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import * as Registry from "../../Registry.js"
import {
  type Located,
  type State,
  type Step,
  canonical,
  commit,
  finalizersOf,
  generationOf,
  isDeleting,
  isReleased,
  keyOfObject,
  list,
  show
} from "./State.js"

import {
  type Call,
  type Done,
  admit,
  comparable,
  dryRunErrors,
  existing,
  isTrue,
  parseInteger,
  parseText,
  sentVersion
} from "./Call.js"
import { parseSelection, renderList } from "./List.js"

interface DeleteOptions {
  readonly dryRun: boolean
  readonly gracePeriodSeconds: number | undefined
  readonly propagation: "Background" | "Foreground" | "Orphan" | undefined
  readonly uid: string | undefined
  readonly resourceVersion: string | undefined
}

const policies = ["Foreground", "Background", "Orphan"] as const

export const deleteOptions = (request: KubeRequest.KubeRequest, given?: unknown): Step<DeleteOptions> =>
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
        return yield* Either.left(
          Failure.badRequest(
            `couldn't get version/kind; json parse error: ${
              value === undefined
                ? "invalid character"
                : `json: cannot unmarshal ${Json.isArray(value) ? "array" : typeof value} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`
            }`
          )
        )
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
    const dryRun = Json.array(options["dryRun"]).map(Json.text)
    const errors = dryRunErrors(dryRun)
    if (errors.length > 0) {
      return yield* Either.left(Failure.invalid({ group: "meta.k8s.io", kind: "DeleteOptions" }, "", errors))
    }
    return {
      dryRun: dryRun.length > 0,
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

export const removeObject = (call: Call, object: Json.JsonObject, options: DeleteOptions): Step<Removal> =>
  Either.gen(function* () {
    const { state, type } = call
    yield* checkPreconditions(type, object, options)
    yield* admit(call, "mutating", "DELETE", object, object)
    yield* admit(call, "validating", "DELETE", object, object)
    const where: Located = { resource: Registry.typeKey(type), key: keyOfObject(object) }
    const keep = (next: Json.JsonObject): Removal => {
      if (Json.equal(comparable(object), comparable(next))) return { state, object }
      // A dry run uses no version: what it answers keeps the one before
      if (call.dryRun) return { state, object: next }
      const result = commit(state, where, object, next)
      return { state: result.state, object: result.object }
    }
    if (Registry.typeKey(type) === "/namespaces") return yield* removeNamespace(call, object)
    const finalizers = collectorFinalizers(type, object, options)
    if (type.graceful) {
      const pending = isDeleting(object)
      const before = Json.number(Json.at(object, "metadata", "deletionGracePeriodSeconds")) ?? 0
      if (pending && (options.gracePeriodSeconds === undefined || options.gracePeriodSeconds >= before)) {
        // While the grace period runs nothing of a deletion can be changed but the period
        return before > 0
          ? { state, object }
          : keep(canonical(type, Json.set(object, ["metadata", "finalizers"], finalizers)))
      }
      const grace = pending ? Math.max(0, options.gracePeriodSeconds ?? 0) : graceOf(object, options)
      const next = marked(call, object, grace, finalizers)
      const kept = keep(next)
      if (!isReleased(type, next) || call.dryRun) return kept
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
  if (call.dryRun) return Either.right({ state, object: next })
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

export const plainSuccess: Json.JsonObject = {
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Success",
  code: 201
}

const orphanWarning =
  "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

export const remove = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const options = yield* deleteOptions(request)
    const object = yield* existing(call)
    const removal = yield* removeObject({ ...call, dryRun: options.dryRun }, object, options)
    return {
      state: options.dryRun ? state : removal.state,
      status: 200,
      body: removal.object === undefined ? success(type, object) : show(type, removal.object),
      ...(type.defaultPropagation === "Orphan" && options.propagation === undefined
        ? { warnings: [orphanWarning] }
        : {})
    }
  })

export const removeCollection = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    if (type.scope === "Namespaced" && request.namespace === undefined) {
      return yield* Either.left(type.custom ? Failure.noPath : Failure.methodNotAllowed)
    }
    const selection = yield* parseSelection(type, request)
    const options = yield* deleteOptions(request)
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
