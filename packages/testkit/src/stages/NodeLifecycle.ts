/**
 * The node controllers: a node whose Lease is not renewed becomes Unknown, its pods not Ready, it is tainted; the taint
 * eviction controller deletes what does not tolerate a NoExecute taint. Zones and large-cluster eviction limits are not
 * modelled: one node per period gets NoExecute, whatever its zone.
 *
 * @module
 */
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Events from "./Events.js"
import * as Objects from "./Objects.js"
import { tolerates } from "./Scheduler.js"

const unreachable = "node.kubernetes.io/unreachable"
const notReady = "node.kubernetes.io/not-ready"
const leaseNamespace = "kube-node-lease"

/** Time settings, in milliseconds. */
export interface Options {
  /** Without a renewed Lease for so long a node becomes Unknown; default 50 s. */
  readonly monitorGracePeriod?: number
  /** One node per so much time gets its NoExecute taint; default 10 s. */
  readonly evictionInterval?: number
}

const readyOf = (node: Objects.Node): string =>
  Objects.conditionOf(node.status?.conditions, "Ready")?.status ?? "Unknown"

const podsOf = (view: View, node: string): ReadonlyArray<Objects.Pod> =>
  view.list(Objects.pods).filter((pod) => pod.spec.nodeName === node)

const otherConditions = ["MemoryPressure", "DiskPressure", "PIDPressure"]

function* markUnknown(context: Context, node: Objects.Node): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  const before = node.status?.conditions ?? []
  const known = before.map((condition): Objects.Condition =>
    condition.type === "Ready" || otherConditions.includes(condition.type)
      ? {
          ...condition,
          status: "Unknown",
          reason: "NodeStatusUnknown",
          message: "Kubelet stopped posting node status.",
          lastTransitionTime: at
        }
      : condition
  )
  const missing = ["Ready", ...otherConditions]
    .filter((type) => !before.some((condition) => condition.type === type))
    .map((type): Objects.Condition => ({
      type,
      status: "Unknown",
      lastHeartbeatTime: node.metadata.creationTimestamp ?? at,
      lastTransitionTime: at,
      reason: "NodeStatusNeverUpdated",
      message: "Kubelet never posted node status."
    }))
  yield* sendIf(Objects.patchStatus(Objects.nodes, node, { ...node.status, conditions: [...known, ...missing] }))
}

function* markPods(context: Context, node: Objects.Node): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  for (const pod of podsOf(context.view, node.metadata.name)) {
    if (!Objects.isTrue(pod.status?.conditions, "Ready")) continue
    const conditions = (pod.status?.conditions ?? []).map((condition) =>
      condition.type === "Ready"
        ? { type: "Ready", status: "False", lastProbeTime: null, lastTransitionTime: at }
        : condition
    )
    yield* sendIf(Objects.patchStatus(Objects.pods, pod, { ...pod.status, conditions }))
    yield* Events.legacy(context, "node-controller", {
      regarding: pod,
      type: "Warning",
      reason: "NodeNotReady",
      message: "Node is not ready"
    })
  }
}

function* setTaints(
  node: Objects.Node,
  change: (taints: ReadonlyArray<Objects.Taint>) => ReadonlyArray<Objects.Taint>
): Generator<Act, void, Answer> {
  const before = node.spec?.taints ?? []
  const after = change(before)
  if (Objects.same(before, after)) return
  yield* send(
    Objects.patch(Objects.nodes, node, {
      metadata: { resourceVersion: node.metadata.resourceVersion },
      spec: { taints: after.length === 0 ? null : after }
    })
  )
}

const isConditionTaint = (taint: Objects.Taint, effect: string): boolean =>
  (taint.key === unreachable || taint.key === notReady) && taint.effect === effect

const registration = "registration:"

function* announce(context: Context, key: string): Work {
  const [, reason = "", uid = "", name = ""] = key.split(":")
  const isNew = reason === "RegisteredNode"
  yield* Events.legacy(
    context,
    "node-controller",
    {
      regarding: { apiVersion: "v1", kind: "Node", metadata: { name, uid } },
      type: "Normal",
      reason,
      message: isNew
        ? `Node ${name} event: Registered Node ${name} in Controller`
        : `Node ${name} event: Removing Node ${name} from Controller`
    },
    { kind: "Node", name, uid, apiVersion: "v1" }
  )
}

interface Memory {
  nextEviction: number
  /** When a node's Unknown was first due, by name: the Lease as it was last seen and when. */
  readonly leases: Map<string, { readonly renewed: string; readonly seen: number }>
}

const executePrefix = "execute:"

function* reconcile(context: Context, memory: Memory, options: Required<Options>): Work {
  if (context.key.startsWith(registration)) return yield* announce(context, context.key)
  if (context.key.startsWith(executePrefix)) return yield* execute(context, memory, options)
  const name = context.key
  const node = context.view.get(Objects.nodes, undefined, name)
  if (node === undefined) {
    memory.leases.delete(name)
    return
  }
  const now = context.now()
  const wakes: Array<Wake> = []
  let current: Objects.Node = node
  const lease = context.view.get(Objects.leases, leaseNamespace, name)
  const renewed = lease?.spec?.renewTime
  // a node without a Lease has no heartbeat to miss
  if (renewed !== undefined && readyOf(node) !== "Unknown") {
    const before = memory.leases.get(name)
    const seen = before?.renewed === renewed ? before.seen : now
    memory.leases.set(name, { renewed, seen })
    const left = seen + options.monitorGracePeriod - now
    if (left > 0) wakes.push({ key: name, wait: left })
    else {
      yield* markUnknown(context, node)
      current = context.view.get(Objects.nodes, undefined, name) ?? node
      yield* markPods(context, current)
      yield* Events.legacy(context, "node-controller", {
        regarding: current,
        type: "Normal",
        reason: "NodeNotReady",
        message: `Node ${name} status is now: NodeNotReady`
      })
    }
  }
  const ready = readyOf(current)
  const wanted = ready === "Unknown" ? unreachable : ready === "False" ? notReady : undefined
  const at = Objects.time(now)
  yield* setTaints(current, (taints) => {
    const others = taints.filter((taint) => !isConditionTaint(taint, "NoSchedule") || taint.key === wanted)
    return wanted === undefined || others.some((taint) => taint.key === wanted && taint.effect === "NoSchedule")
      ? others
      : [...others, { key: wanted, effect: "NoSchedule", timeAdded: at }]
  })
  // later than a kubelet needs to report Ready after it has registered its node
  return [...wakes, { key: `${executePrefix}${name}`, latency: 200 }]
}

function* execute(context: Context, memory: Memory, options: Required<Options>): Work {
  const name = context.key.slice(executePrefix.length)
  const node = context.view.get(Objects.nodes, undefined, name)
  if (node === undefined) return
  const ready = readyOf(node)
  const wanted = ready === "Unknown" ? unreachable : ready === "False" ? notReady : undefined
  const has = (node.spec?.taints ?? []).some((taint) => taint.key === wanted && taint.effect === "NoExecute")
  const now = context.now()
  if (wanted !== undefined && !has) {
    if (now < memory.nextEviction) return [{ key: context.key, wait: memory.nextEviction - now }]
    memory.nextEviction = now + options.evictionInterval
  }
  yield* setTaints(node, (taints) => {
    const others = taints.filter((taint) => !isConditionTaint(taint, "NoExecute") || taint.key === wanted)
    return wanted === undefined || has
      ? others
      : [...others, { key: wanted, effect: "NoExecute", timeAdded: Objects.time(now) }]
  })
}

const watches = (change: Change): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Objects.nodes, object)) {
    const { name, uid } = object.metadata
    if (change.type === "DELETED") return [{ key: `${registration}RemovingNode:${uid}:${name}` }]
    return change.type === "ADDED"
      ? [{ key: name }, { key: `${registration}RegisteredNode:${uid}:${name}` }]
      : [{ key: name }]
  }
  return Objects.is(Objects.leases, object) && object.metadata.namespace === leaseNamespace
    ? [{ key: object.metadata.name }]
    : []
}

/** The node life-cycle controller. */
export const make = (options: Options = {}): Stage => ({
  name: "node-lifecycle",
  latency: 10,
  start: () => {
    const memory: Memory = { nextEviction: 0, leases: new Map() }
    const settings = {
      monitorGracePeriod: options.monitorGracePeriod ?? 50_000,
      evictionInterval: options.evictionInterval ?? 10_000
    }
    return { watches, reconcile: (context) => reconcile(context, memory, settings) }
  }
})

/** The node life-cycle controller with upstream's settings. */
export const stage: Stage = make()

// ---------------------------------------------------------------------------------------------------------------------

const evictionComponent = "taint-eviction-controller"

/** When a pod has to go because of its node's NoExecute taints: epoch milliseconds, `undefined` for never. */
const evictionTime = (
  pod: Objects.Pod,
  taints: ReadonlyMap<string, number>,
  node: Objects.Node
): number | undefined => {
  let due: number | undefined
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect !== "NoExecute") continue
    const since = taints.get(taint.key) ?? 0
    const toleration = tolerates(pod.spec.tolerations, taint)
    if (toleration !== undefined && toleration.tolerationSeconds === undefined) continue
    const at = since + Math.max(toleration?.tolerationSeconds ?? 0, 0) * 1000
    due = due === undefined ? at : Math.min(due, at)
  }
  return due
}

interface EvictionMemory {
  /** Since when each NoExecute taint is seen, by node and key. */
  readonly taints: Map<string, Map<string, number>>
}

const observeTaints = (memory: EvictionMemory, node: Objects.Node, now: number): ReadonlyMap<string, number> => {
  const before = memory.taints.get(node.metadata.name)
  const after = new Map<string, number>()
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect === "NoExecute") after.set(taint.key, before?.get(taint.key) ?? now)
  }
  memory.taints.set(node.metadata.name, after)
  return after
}

const nodePrefix = "node:"

function* evict(context: Context, memory: EvictionMemory): Work {
  if (context.key.startsWith(nodePrefix)) {
    const node = context.view.get(Objects.nodes, undefined, context.key.slice(nodePrefix.length))
    if (node === undefined) return
    if (observeTaints(memory, node, context.now()).size === 0) return
    return podsOf(context.view, node.metadata.name).map((pod) => ({ key: Objects.keyOf(pod) }))
  }
  const { name, namespace } = Objects.splitKey(context.key)
  const pod = context.view.get(Objects.pods, namespace, name)
  const node =
    pod?.spec.nodeName === undefined ? undefined : context.view.get(Objects.nodes, undefined, pod.spec.nodeName)
  if (pod === undefined || node === undefined) return
  const now = context.now()
  const due = evictionTime(pod, observeTaints(memory, node, now), node)
  if (due === undefined) return
  if (due > now) return [{ key: context.key, wait: due - now }]
  yield* Events.legacy(
    context,
    evictionComponent,
    {
      regarding: pod,
      type: "Normal",
      reason: "TaintManagerEviction",
      message: `Marking for deletion Pod ${context.key}`
    },
    { kind: "Pod", namespace, name, apiVersion: "v1" }
  )
  if (pod.metadata.deletionTimestamp !== undefined) return
  yield* sendIf(
    Objects.patchStatus(Objects.pods, pod, {
      ...pod.status,
      conditions: Objects.withCondition(pod.status?.conditions, {
        type: "DisruptionTarget",
        observedGeneration: pod.metadata.generation ?? 1,
        status: "True",
        lastProbeTime: null,
        lastTransitionTime: Objects.time(now),
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint"
      })
    })
  )
  yield* send(Objects.remove(Objects.pods, pod))
}

const noExecute = (node: Objects.Node): ReadonlyArray<string> =>
  (node.spec?.taints ?? []).filter((taint) => taint.effect === "NoExecute").map((taint) => taint.key)

const evictionWatches = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Objects.nodes, object)) {
    if (change.type === "DELETED") return []
    const before =
      change.previous !== undefined && Objects.is(Objects.nodes, change.previous) ? change.previous : undefined
    const isNews = before === undefined || !Objects.same(noExecute(before), noExecute(object))
    return isNews ? [{ key: `${nodePrefix}${object.metadata.name}` }] : []
  }
  if (!Objects.is(Objects.pods, object) || change.type === "DELETED" || object.spec.nodeName === undefined) return []
  const isBound =
    change.previous === undefined ||
    (Objects.is(Objects.pods, change.previous) && change.previous.spec.nodeName === undefined)
  const node = isBound ? view.get(Objects.nodes, undefined, object.spec.nodeName) : undefined
  return node !== undefined && noExecute(node).length > 0 ? [{ key: Objects.keyOf(object) }] : []
}

/** The taint eviction controller. */
export const taintEviction: Stage = {
  name: "taint-eviction",
  latency: 10,
  start: () => {
    const memory: EvictionMemory = { taints: new Map() }
    return { watches: evictionWatches, reconcile: (context) => evict(context, memory) }
  }
}
