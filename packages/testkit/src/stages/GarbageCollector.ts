/**
 * The owner garbage collector: background, foreground and orphan deletion, dependents whose owner does not exist.
 *
 * @module
 */
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send } from "../Stage.js"
import * as Objects from "./Objects.js"

const foreground = "foregroundDeletion"
const orphanFinalizer = "orphan"

/**
 * Milliseconds until the finalizer of a foreground deletion goes, by kind: an update that passes webhooks takes longer, and
 * meanwhile the Trainer makes its JobSet again.
 */
const finalizerLatency: ReadonlyMap<string, number> = new Map([["TrainJob", 200]])

/** Milliseconds until a dependent of an owner that is gone goes too, where it is not the usual. */
const dependentLatency: ReadonlyMap<string, number> = new Map([["Pod", 50]])

const hasFinalizer = (object: Objects.Raw, name: string): boolean => object.metadata.finalizers?.includes(name) ?? false

const isDeletingDependents = (object: Objects.Raw): boolean =>
  object.metadata.deletionTimestamp !== undefined && hasFinalizer(object, foreground)

const keyFor = (object: Objects.Raw): string => `${object.apiVersion}|${object.kind}|${Objects.keyOf(object)}`

const find = (view: View, key: string): { readonly type: Objects.Kind; readonly object: Objects.Raw } | undefined => {
  const [apiVersion = "", kind = "", path = ""] = key.split("|")
  const type = view.kindOf(apiVersion, kind)
  if (type === undefined) return undefined
  const { name, namespace } = Objects.splitKey(path)
  const object = view.get(type, namespace, name)
  return object === undefined ? undefined : { type, object }
}

const ownerOf = (view: View, object: Objects.Raw, reference: Objects.OwnerReference): Objects.Raw | undefined => {
  const type = view.kindOf(reference.apiVersion, reference.kind)
  if (type === undefined) return undefined
  const owner = view.get(type, type.namespaced ? object.metadata.namespace : undefined, reference.name)
  return owner?.metadata.uid === reference.uid ? owner : undefined
}

function* removeFinalizer(type: Objects.Kind, object: Objects.Raw, name: string): Generator<Act, void, Answer> {
  const rest = (object.metadata.finalizers ?? []).filter((each) => each !== name)
  yield* send(Objects.patch(type, object, { metadata: { finalizers: rest.length === 0 ? null : rest } }))
}

const blocking = (view: View, owner: Objects.Raw): ReadonlyArray<Objects.Raw> =>
  view
    .dependents(owner.metadata.uid)
    .filter((dependent) =>
      dependent.metadata.ownerReferences?.some(
        (reference) => reference.uid === owner.metadata.uid && reference.blockOwnerDeletion === true
      )
    )

function* reconcile(context: Context): Work {
  const found = find(context.view, context.key)
  if (found === undefined) return
  const { object, type } = found
  if (isDeletingDependents(object)) {
    // decided on what was there when the last dependent went: one that is made meanwhile is not waited for
    const dependents = blocking(context.seen, object)
    if (dependents.length === 0) yield* removeFinalizer(type, object, foreground)
    else return dependents.map((dependent) => ({ key: keyFor(dependent) }))
    return
  }
  if (object.metadata.deletionTimestamp !== undefined && hasFinalizer(object, orphanFinalizer)) {
    for (const dependent of context.view.dependents(object.metadata.uid)) {
      const dependentType = context.view.kindOf(dependent.apiVersion, dependent.kind)
      const rest = (dependent.metadata.ownerReferences ?? []).filter((each) => each.uid !== object.metadata.uid)
      if (dependentType !== undefined) {
        yield* send(
          Objects.patch(dependentType, dependent, {
            metadata: { ownerReferences: rest.length === 0 ? null : rest }
          })
        )
      }
    }
    yield* removeFinalizer(type, object, orphanFinalizer)
    return
  }
  const references = object.metadata.ownerReferences ?? []
  if (references.length === 0 || object.metadata.deletionTimestamp !== undefined) return
  const owners = references.map((reference) => ({ reference, owner: ownerOf(context.view, object, reference) }))
  const waiting = owners.filter(({ owner }) => owner !== undefined && isDeletingDependents(owner))
  const solid = owners.filter(({ owner }) => owner !== undefined && !isDeletingDependents(owner))
  if (solid.length > 0) {
    if (solid.length < references.length) {
      yield* send(
        Objects.patch(type, object, { metadata: { ownerReferences: solid.map(({ reference }) => reference) } })
      )
    }
    return
  }
  const hasDependents = context.view.dependents(object.metadata.uid).length > 0
  yield* send(
    Objects.remove(type, object, {
      propagation:
        waiting.length > 0 && hasDependents
          ? "Foreground"
          : hasFinalizer(object, orphanFinalizer)
            ? "Orphan"
            : "Background"
    })
  )
}

const watches = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (object.kind === "Event") return []
  if (change.type === "DELETED") {
    const wakes: Array<Wake> = view.dependents(object.metadata.uid).map((dependent) => {
      const latency = dependentLatency.get(dependent.kind)
      return { key: keyFor(dependent), ...(latency === undefined ? {} : { latency }) }
    })
    for (const reference of object.metadata.ownerReferences ?? []) {
      const owner = ownerOf(view, object, reference)
      if (owner !== undefined && isDeletingDependents(owner)) {
        const latency = finalizerLatency.get(owner.kind)
        const isLast = blocking(view, owner).length === 0
        wakes.push({ key: keyFor(owner), ...(isLast && latency !== undefined ? { latency } : {}) })
      }
    }
    return wakes
  }
  const { previous } = change
  const starts =
    object.metadata.deletionTimestamp !== undefined &&
    (isDeletingDependents(object) || hasFinalizer(object, orphanFinalizer)) &&
    previous?.metadata.deletionTimestamp === undefined
  if (starts) return [{ key: keyFor(object) }]
  const references = object.metadata.ownerReferences
  const isNew = change.type === "ADDED" || !Objects.same(previous?.metadata.ownerReferences, references)
  if (!isNew || references === undefined) return []
  const dangles = references.some((reference) => {
    const owner = ownerOf(view, object, reference)
    return owner === undefined || isDeletingDependents(owner)
  })
  // a dependent that appears under an owner in foreground deletion is not noticed: this is how the Trainer wins its race
  return dangles && references.every((reference) => ownerOf(view, object, reference) === undefined)
    ? [{ key: keyFor(object) }]
    : []
}

/** The garbage collector. */
export const stage: Stage = {
  name: "garbage-collector",
  latency: 10,
  lags: true,
  start: () => ({ watches, reconcile })
}
