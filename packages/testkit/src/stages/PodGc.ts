/**
 * The pod garbage collector: pods of nodes that do not exist any more (after a quarantine), and terminating pods of nodes
 * that are not Ready and out of service. It looks only at the ends of its period, and only when there is something to see.
 *
 * @module
 */
import type { Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Objects from "./Objects.js"

const outOfService = "node.kubernetes.io/out-of-service"

/** Time settings, in milliseconds. */
export interface Options {
  /** Default 20 s. */
  readonly period?: number
  /** How long a missing node is waited for; default 40 s. */
  readonly quarantine?: number
}

interface Memory {
  /** When a missing node was first noticed. */
  readonly missing: Map<string, number>
  started: number | undefined
}

const key = "collect"

const isTerminal = (pod: Objects.Pod): boolean => pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed"

function* end(pod: Objects.Pod, condition: Objects.Condition | undefined): Work {
  if (!isTerminal(pod)) {
    yield* sendIf(
      Objects.patchStatus(Objects.pods, pod, {
        ...pod.status,
        phase: "Failed",
        observedGeneration: pod.metadata.generation ?? 1,
        ...(condition === undefined ? {} : { conditions: Objects.withCondition(pod.status?.conditions, condition) })
      })
    )
  }
  yield* send(Objects.remove(Objects.pods, pod, { gracePeriodSeconds: 0 }))
}

function* reconcile(context: Context, memory: Memory, options: Required<Options>): Work {
  const now = context.now()
  const at = Objects.time(now)
  memory.started ??= now
  const nextPeriod = options.period - ((now - memory.started) % options.period)
  const isPeriod = (now - memory.started) % options.period === 0
  if (!isPeriod) return [{ key, wait: nextPeriod }]
  let isWaiting = false
  const absent = new Set<string>()
  for (const pod of context.view.list(Objects.pods)) {
    const name = pod.spec.nodeName
    if (name === undefined) continue
    const node = context.view.get(Objects.nodes, undefined, name)
    if (node === undefined) {
      absent.add(name)
      const since = memory.missing.get(name) ?? now
      memory.missing.set(name, since)
      if (now - since < options.quarantine) {
        isWaiting = true
        continue
      }
      yield* end(pod, {
        type: "DisruptionTarget",
        observedGeneration: pod.metadata.generation ?? 1,
        status: "True",
        lastProbeTime: null,
        lastTransitionTime: at,
        reason: "DeletionByPodGC",
        message: "PodGC: node no longer exists"
      })
      continue
    }
    const isDown = !Objects.isTrue(node.status?.conditions, "Ready")
    const isOut = node.spec?.taints?.some((taint) => taint.key === outOfService) === true
    if (isDown && isOut && pod.metadata.deletionTimestamp !== undefined) yield* end(pod, undefined)
  }
  for (const name of memory.missing.keys()) if (!absent.has(name)) memory.missing.delete(name)
  if (isWaiting) return [{ key, wait: options.period }]
}

const concerns = (change: Change, view: View): boolean => {
  const { object } = change
  if (Objects.is(Objects.nodes, object)) {
    return change.type === "DELETED" || object.spec?.taints?.some((taint) => taint.key === outOfService) === true
  }
  if (!Objects.is(Objects.pods, object) || change.type === "DELETED" || object.spec.nodeName === undefined) return false
  const node = view.get(Objects.nodes, undefined, object.spec.nodeName)
  return (
    node === undefined ||
    (object.metadata.deletionTimestamp !== undefined &&
      node.spec?.taints?.some((taint) => taint.key === outOfService) === true)
  )
}

/** The pod garbage collector. */
export const make = (options: Options = {}): Stage => ({
  name: "pod-gc",
  latency: 10,
  start: () => {
    const memory: Memory = { missing: new Map(), started: undefined }
    const settings = { period: options.period ?? 20_000, quarantine: options.quarantine ?? 40_000 }
    return {
      watches: (change, view): Iterable<Wake> => (concerns(change, view) ? [{ key }] : []),
      reconcile: (context) => reconcile(context, memory, settings)
    }
  }
})

/** The pod garbage collector with upstream's settings. */
export const stage: Stage = make()
