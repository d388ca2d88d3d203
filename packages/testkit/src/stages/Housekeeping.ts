/**
 * Two small controllers: the time to live of finished Jobs, and the end of namespaces.
 *
 * @module
 */
import type { Context, Stage, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Objects from "./Objects.js"

function* expire(context: Context): Work {
  const { name, namespace } = Objects.splitKey(context.key)
  const job = context.view.get(Objects.jobs, namespace, name)
  const ttl = job?.spec.ttlSecondsAfterFinished
  if (job === undefined || ttl === undefined || job.metadata.deletionTimestamp !== undefined) return
  const finished = (job.status?.conditions ?? []).find(
    (each) => (each.type === "Complete" || each.type === "Failed") && each.status === "True"
  )
  if (finished === undefined) return
  const now = context.now()
  const left = Objects.parseTime(finished.lastTransitionTime ?? Objects.time(now)) + ttl * 1000 - now
  if (left > 0) return [{ key: context.key, wait: left }]
  yield* send(Objects.remove(Objects.jobs, job, { propagation: "Foreground" }))
}

/** Deletes finished Jobs after their `ttlSecondsAfterFinished`. */
export const jobTtl: Stage = {
  name: "job-ttl",
  latency: 10,
  start: () => ({
    watches: ({ object, type }): Iterable<Wake> =>
      type !== "DELETED" && Objects.is(Objects.jobs, object) && object.spec.ttlSecondsAfterFinished !== undefined
        ? [{ key: Objects.keyOf(object) }]
        : [],
    reconcile: expire
  })
}

/** Milliseconds until the namespace controller starts on the content, and from the last finalizer to the end. */
const contentDelay = 5000
const finalDelay = 4000

const verdict = (type: string, isTrue: boolean, at: string, reason: string, message: string): Objects.Condition => ({
  type,
  status: isTrue ? "True" : "False",
  lastTransitionTime: at,
  reason,
  message
})

interface Terminating {
  readonly since: number
  emptied: number | undefined
}

function* terminate(context: Context, memory: Map<string, Terminating>): Work {
  const namespace = context.view.get(Objects.namespaces, undefined, context.key)
  if (namespace === undefined || namespace.metadata.deletionTimestamp === undefined) {
    memory.delete(context.key)
    return
  }
  const now = context.now()
  const state = memory.get(context.key) ?? { since: now, emptied: undefined }
  memory.set(context.key, state)
  const left = state.since + contentDelay - now
  if (left > 0) return [{ key: context.key, wait: left }]
  for (const object of context.view.inNamespace(context.key)) {
    const type = context.view.kindOf(object.apiVersion, object.kind)
    if (type !== undefined && object.metadata.deletionTimestamp === undefined) {
      yield* send(Objects.remove(type, object, { propagation: "Background" }))
    }
  }
  const rest = context.view.inNamespace(context.key)
  const held = rest.filter((object) => (object.metadata.finalizers ?? []).length > 0)
  const at = Objects.time(context.now())
  yield* sendIf(
    Objects.patchStatus(Objects.namespaces, namespace, {
      ...namespace.status,
      conditions: [
        verdict(
          "NamespaceDeletionDiscoveryFailure",
          false,
          at,
          "ResourcesDiscovered",
          "All resources successfully discovered"
        ),
        verdict(
          "NamespaceDeletionGroupVersionParsingFailure",
          false,
          at,
          "ParsedGroupVersions",
          "All legacy kube types successfully parsed"
        ),
        verdict(
          "NamespaceDeletionContentFailure",
          false,
          at,
          "ContentDeleted",
          "All content successfully deleted, may be waiting on finalization"
        ),
        rest.length === 0
          ? verdict("NamespaceContentRemaining", false, at, "ContentRemoved", "All content successfully removed")
          : verdict(
              "NamespaceContentRemaining",
              true,
              at,
              "SomeResourcesRemain",
              `Some resources are remaining: ${counts(rest.map((object) => plural(context, object)))}`
            ),
        held.length === 0
          ? verdict(
              "NamespaceFinalizersRemaining",
              false,
              at,
              "ContentHasNoFinalizers",
              "All content-preserving finalizers finished"
            )
          : verdict(
              "NamespaceFinalizersRemaining",
              true,
              at,
              "SomeFinalizersRemain",
              `Some content in the namespace has finalizers remaining: ${counts(
                held.flatMap((object) => object.metadata.finalizers ?? [])
              )}`
            )
      ]
    })
  )
  if (rest.length > 0) {
    state.emptied = undefined
    return [{ key: context.key, wait: finalDelay }]
  }
  state.emptied ??= now
  const current = context.view.get(Objects.namespaces, undefined, context.key)
  if (current === undefined) return
  yield* send(
    KubeRequest.make("update", Objects.namespaces, {
      name: context.key,
      subresource: "finalize",
      body: { ...current, spec: { ...current.spec, finalizers: [] } }
    })
  )
}

const plural = (context: Context, object: Objects.Raw): string => {
  const type = context.view.kindOf(object.apiVersion, object.kind)
  return type === undefined ? object.kind : type.group === "" ? `${type.plural}.` : `${type.plural}.${type.group}`
}

const counts = (names: ReadonlyArray<string>): string => {
  const found = new Map<string, number>()
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1)
  return [...found].map(([name, count]) => `${name} has ${count} resource instances`).join(", ")
}

/** Empties namespaces that are being deleted, and lets them go. */
export const namespaces: Stage = {
  name: "namespace",
  latency: 10,
  start: () => {
    const memory = new Map<string, Terminating>()
    return {
      watches: ({ object, type }): Iterable<Wake> =>
        type !== "DELETED" && Objects.is(Objects.namespaces, object) && object.metadata.deletionTimestamp !== undefined
          ? [{ key: object.metadata.name }]
          : [],
      reconcile: (context) => terminate(context, memory)
    }
  }
}
