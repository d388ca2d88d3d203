/**
 * The scheduler: binds pods to nodes that are schedulable, tolerated, selected and have room; says why where none is.
 * Not modelled: preemption, inter-pod affinity, preferred terms, volumes.
 *
 * @module
 */
import { Either } from "effect"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { Change, Context, Stage, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Quantity from "../internal/Quantity.js"
import * as Resources from "../internal/Resources.js"
import * as Events from "./Events.js"
import * as Objects from "./Objects.js"

const component = "default-scheduler"

type Amounts = Map<string, number>

const addTo = (amounts: Amounts, name: string, amount: number): void => {
  amounts.set(name, (amounts.get(name) ?? 0) + amount)
}

/** What a pod takes of its node: what it asks for, and its place. */
export const requestsOf = (pod: Objects.Pod): Resources.Amounts => new Map([["pods", 1], ...Resources.ofPod(pod.spec)])

/** Whether one of the tolerations covers a taint. */
export const tolerates = (
  tolerations: ReadonlyArray<Objects.Toleration> | undefined,
  taint: Objects.Taint
): Objects.Toleration | undefined =>
  tolerations?.find(
    (each) =>
      (each.effect === undefined || each.effect === "" || each.effect === taint.effect) &&
      (each.key === undefined || each.key === "" || each.key === taint.key) &&
      (each.operator === "Exists" || (each.value ?? "") === (taint.value ?? ""))
  )

interface Place {
  readonly node: Objects.Node
  /** What the node can give, as numbers; parsed once per change of the node. */
  readonly room: ReadonlyMap<string, number>
}

interface Usage extends Place {
  readonly used: Amounts
}

interface Memory {
  readonly nodes: Map<string, Place>
  readonly used: Map<string, Amounts>
  /** Pods bound to a node and not ended, by uid. */
  readonly placed: Map<string, { readonly node: string; readonly requests: ReadonlyMap<string, number> }>
  readonly pending: Set<string>
}

type Refusal = { readonly text: string; readonly helpless: boolean }

const refusal = (
  pod: Objects.Pod,
  requests: ReadonlyMap<string, number>,
  { node, room, used }: Usage
): Refusal | undefined => {
  if (node.spec?.unschedulable === true) return { text: "node(s) were unschedulable", helpless: true }
  const taint = node.spec?.taints?.find(
    (each) => each.effect !== "PreferNoSchedule" && tolerates(pod.spec.tolerations, each) === undefined
  )
  if (taint !== undefined) return { text: "node(s) had untolerated taint(s)", helpless: true }
  const labels = node.metadata.labels ?? {}
  if (Object.entries(pod.spec.nodeSelector ?? {}).some(([key, value]) => labels[key] !== value)) {
    return { text: "node(s) didn't match Pod's node affinity/selector", helpless: true }
  }
  for (const [name, amount] of requests) {
    const has = room.get(name)
    // a node without figures has room for cpu, memory and pods, but no devices
    if (has === undefined && !name.includes("/")) continue
    const total = has ?? 0
    if ((used.get(name) ?? 0) + amount > total) {
      return { text: name === "pods" ? "Too many pods" : `Insufficient ${name}`, helpless: amount > total }
    }
  }
  return undefined
}

const counted = (texts: ReadonlyArray<string>): string => {
  const counts = new Map<string, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  return [...counts]
    .map(([text, count]) => `${count} ${text}`)
    .toSorted()
    .join(", ")
}

const unschedulable = (refusals: ReadonlyArray<Refusal>): string => {
  if (refusals.length === 0) return "no nodes available to schedule pods"
  const nodes = `0/${refusals.length} nodes are available`
  const preemption = counted(
    refusals.map(({ helpless }) =>
      helpless ? "Preemption is not helpful for scheduling" : "No preemption victims found for incoming pod"
    )
  )
  return `${nodes}: ${counted(refusals.map(({ text }) => text))}. preemption: ${nodes}: ${preemption}.`
}

function* reconcile(context: Context, memory: Memory): Work {
  const { name, namespace } = Objects.splitKey(context.key)
  const pod = context.view.get(Objects.pods, namespace, name)
  if (pod === undefined || pod.spec.nodeName !== undefined || pod.metadata.deletionTimestamp !== undefined) {
    memory.pending.delete(context.key)
    return
  }
  const at = Objects.time(context.now())
  const refuse = (reason: string, message: string) =>
    Objects.patchStatus(Objects.pods, pod, {
      ...pod.status,
      conditions: Objects.withCondition(pod.status?.conditions, {
        type: "PodScheduled",
        observedGeneration: pod.metadata.generation ?? 1,
        status: "False",
        lastProbeTime: null,
        lastTransitionTime: at,
        reason,
        message
      })
    })
  if ((pod.spec.schedulingGates ?? []).length > 0) {
    yield* sendIf(refuse("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"))
    return
  }
  let best: Usage | undefined
  const refusals: Array<Refusal> = []
  const requests = requestsOf(pod)
  for (const place of memory.nodes.values()) {
    const usage: Usage = { ...place, used: memory.used.get(place.node.metadata.name) ?? new Map() }
    const refused = refusal(pod, requests, usage)
    if (refused !== undefined) refusals.push(refused)
    else if (best === undefined || (usage.used.get("pods") ?? 0) < (best.used.get("pods") ?? 0)) best = usage
  }
  if (best === undefined) {
    memory.pending.add(context.key)
    const message = unschedulable(refusals)
    yield* sendIf(refuse("Unschedulable", message))
    yield* Events.modern(context, component, "Scheduling", {
      regarding: pod,
      type: "Warning",
      reason: "FailedScheduling",
      message
    })
    return
  }
  const node = best.node.metadata.name
  const answer = yield* send(
    KubeRequest.make("create", Objects.pods, {
      namespace,
      name,
      subresource: "binding",
      body: {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name, namespace, uid: pod.metadata.uid },
        target: { apiVersion: "v1", kind: "Node", name: node }
      }
    })
  )
  if (Either.isLeft(answer)) return
  memory.pending.delete(context.key)
  yield* Events.modern(context, component, "Binding", {
    regarding: pod,
    type: "Normal",
    reason: "Scheduled",
    message: `Successfully assigned ${context.key} to ${node}`
  })
}

const place = (memory: Memory, pod: Objects.Pod, isGone: boolean): boolean => {
  const { uid } = pod.metadata
  const before = memory.placed.get(uid)
  const node = pod.spec.nodeName
  const isOver = isGone || pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed"
  if (before === undefined && node !== undefined && !isOver) {
    const requests = requestsOf(pod)
    memory.placed.set(uid, { node, requests })
    const used = memory.used.get(node) ?? new Map<string, number>()
    for (const [name, amount] of requests) addTo(used, name, amount)
    memory.used.set(node, used)
  } else if (before !== undefined && isOver) {
    memory.placed.delete(uid)
    const used = memory.used.get(before.node)
    if (used !== undefined) for (const [name, amount] of before.requests) addTo(used, name, -amount)
    return true
  }
  return false
}

const watches = (change: Change, memory: Memory): Iterable<Wake> => {
  const { object } = change
  const retry = (): ReadonlyArray<Wake> => [...memory.pending].map((key) => ({ key }))
  if (Objects.is(Objects.pods, object)) {
    const freed = place(memory, object, change.type === "DELETED")
    if (change.type !== "DELETED" && object.spec.nodeName === undefined) {
      const gates = (pod: Objects.Pod): number => pod.spec.schedulingGates?.length ?? 0
      const ungated =
        change.previous !== undefined &&
        Objects.is(Objects.pods, change.previous) &&
        gates(change.previous) > gates(object)
      if (change.type === "ADDED" || ungated) return [{ key: Objects.keyOf(object) }]
    }
    return freed ? retry() : []
  }
  if (Objects.is(Objects.nodes, object)) {
    if (change.type === "DELETED") memory.nodes.delete(object.metadata.name)
    else {
      const room = Object.entries(object.status?.allocatable ?? {}).map(
        ([name, amount]) => [name, Quantity.of(name, amount)] as const
      )
      memory.nodes.set(object.metadata.name, { node: object, room: new Map(room) })
    }
    const before =
      change.previous !== undefined && Objects.is(Objects.nodes, change.previous) ? change.previous : undefined
    const isNews =
      before === undefined ||
      !Objects.same(before.spec, object.spec) ||
      !Objects.same(before.metadata.labels, object.metadata.labels) ||
      !Objects.same(before.status?.allocatable, object.status?.allocatable)
    return isNews ? retry() : []
  }
  return []
}

/** The default scheduler. */
export const stage: Stage = {
  name: "scheduler",
  latency: 10,
  start: () => {
    const memory: Memory = { nodes: new Map(), used: new Map(), placed: new Map(), pending: new Set() }
    return {
      watches: (change) => watches(change, memory),
      reconcile: (context) => reconcile(context, memory)
    }
  }
}
