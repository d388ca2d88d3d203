/**
 * The API server's storage and its rules as one pure function: `apply` takes a state and a request to the next state and
 * an answer. It knows no subjects (`Rbac` stands in front), no time but the `Env` it is given, and it shares structure
 * between states, so that a write costs O(log n) whatever the number of objects.
 *
 * This module is the entrance; the rooms are in `internal/store`: `State` (what is stored, `commit`), `Call` (options, bodies,
 * checks), `Change` (create, replace, patch), `Delete`, `List` (lists and how watches start), `Pods` (binding, eviction).
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either } from "effect"
import * as Failure from "./Failure.js"
import type { Env, Outcome, State, Step } from "./internal/store/State.js"
import { type Call, type Done, resolve, writeOptions } from "./internal/store/Call.js"
import { create, patch, update } from "./internal/store/Change.js"
import { remove, removeCollection } from "./internal/store/Delete.js"
import { read, readList } from "./internal/store/List.js"
import { bind, evict, issueToken } from "./internal/store/Pods.js"

export {
  type Admission,
  type Denial,
  type Env,
  type Found,
  type Located,
  type Options,
  type Outcome,
  type Review,
  type State,
  type Type,
  at,
  bookmark,
  compact,
  count,
  definition,
  get,
  list,
  make,
  ownedBy,
  resourceVersion,
  seed,
  show,
  tooOldVersion
} from "./internal/store/State.js"
export { type Selection, type Watch, parseSelection, watch } from "./internal/store/List.js"
export { tokenSubject } from "./internal/store/Pods.js"

export const subresource = (call: Call, name: string): Step<Done> => {
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
    if (request.verb === "patch" && request.patchType === "strategic" && type.custom && request.name !== undefined) {
      return yield* Either.left(Failure.unsupportedPatch)
    }
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
