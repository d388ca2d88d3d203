/**
 * Kueue's queue objects: whether a ClusterQueue and a LocalQueue stand open and why not, what they count, and the finalizers
 * that keep what is in use. A change of a queue shows at once, one of a check or a flavor a second later, counts too.
 *
 * @module
 */
import {
  type Act,
  type Answer,
  type Change,
  type Context,
  type Stage,
  type View,
  type Wake,
  type Work
} from "../Stage.js"
import { make, sendIf } from "../Stage.js"
import * as Quantity from "../internal/Quantity.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"

/** How long changes of other objects are gathered, milliseconds. */
const batch = 1000

// --- counts ------------------------------------------------------------------------------------------------------------

interface Total {
  readonly name: string
  readonly total: string
  readonly borrowed?: string
}

const totals = (
  queue: Kueue.ClusterQueue,
  workloads: ReadonlyArray<Kueue.Workload>,
  hasBorrowed: boolean
): ReadonlyArray<{ readonly name: string; readonly resources: ReadonlyArray<Total> }> =>
  Kueue.flavorsOf(queue).map((flavor) => ({
    name: flavor.name,
    resources: flavor.resources
      .map(({ name }): Total => {
        const used = workloads
          .flatMap(({ status }) => status?.admission?.podSetAssignments ?? [])
          .filter(({ flavors }) => flavors[name] === flavor.name)
          .reduce((sum, { resourceUsage }) => sum + Quantity.of(name, resourceUsage[name]), 0)
        const total = Quantity.text(name, used)
        return hasBorrowed ? { borrowed: "0", name, total } : { name, total }
      })
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }))

const isWaiting = (workload: Kueue.Workload): boolean =>
  Kueue.isActive(workload) && !Kueue.isReserved(workload) && !Kueue.isFinished(workload)

const counts = (queue: Kueue.ClusterQueue | undefined, own: ReadonlyArray<Kueue.Workload>, hasBorrowed: boolean) => {
  const reserving = own.filter(Kueue.takesQuota)
  const admitted = reserving.filter(Kueue.isAdmitted)
  return {
    admittedWorkloads: admitted.length,
    pendingWorkloads: own.filter(isWaiting).length,
    reservingWorkloads: reserving.length,
    ...(queue === undefined
      ? {}
      : {
          flavorsReservation: totals(queue, reserving, hasBorrowed),
          flavorsUsage: totals(queue, admitted, hasBorrowed)
        })
  }
}

// --- ClusterQueue ------------------------------------------------------------------------------------------------------

interface Verdict {
  readonly status: "True" | "False"
  readonly reason: string
  readonly message: string
}

const isServing = (view: View, name: string): boolean =>
  Objects.isTrue(view.get(Kueue.admissionChecks, undefined, name)?.status?.conditions, "Active")

const verdictOf = (view: View, queue: Kueue.ClusterQueue): Verdict => {
  const sorted = (names: ReadonlyArray<string>): string => [...new Set(names)].toSorted().join(",")
  const checks = Kueue.checksOf(queue).map(({ name }) => name)
  const flavors = Kueue.flavorsOf(queue).map(({ name }) => name)
  const lostFlavors = flavors.filter((name) => view.get(Kueue.resourceFlavors, undefined, name) === undefined)
  const lostChecks = checks.filter((name) => view.get(Kueue.admissionChecks, undefined, name) === undefined)
  const idleChecks = checks.filter((name) => !lostChecks.includes(name) && !isServing(view, name))
  const problems = [
    ...(Kueue.isStopped(queue) ? [["Stopped", "is stopped"]] : []),
    ...(lostFlavors.length > 0
      ? [["FlavorNotFound", `references missing ResourceFlavor(s): ${sorted(lostFlavors)}`]]
      : []),
    ...(lostChecks.length > 0
      ? [["AdmissionCheckNotFound", `references missing AdmissionCheck(s): ${sorted(lostChecks)}`]]
      : []),
    ...(idleChecks.length > 0
      ? [["AdmissionCheckInactive", `references inactive AdmissionCheck(s): ${sorted(idleChecks)}`]]
      : [])
  ]
  const reason = problems[0]?.[0]
  return reason === undefined
    ? { status: "True", reason: "Ready", message: "Can admit new workloads" }
    : {
        status: "False",
        reason,
        message: `Can't admit new workloads: ${problems.map(([, text]) => text ?? "").join(", ")}.`
      }
}

/** The status write of a queue: its condition, and the counts when they are due. */
function* writeStatus<A extends Kueue.ClusterQueue | Kueue.LocalQueue>(
  type: Objects.Kind<A>,
  queue: A,
  verdict: Verdict,
  figures: object,
  at: string
): Generator<Act, void, Answer> {
  const conditions = Objects.withCondition(queue.status?.conditions, {
    type: "Active",
    ...verdict,
    lastTransitionTime: at,
    observedGeneration: queue.metadata.generation ?? 1
  }).map((each) => (each.type === "Active" ? { ...each, observedGeneration: queue.metadata.generation ?? 1 } : each))
  const target = { ...figures, conditions }
  const change = Objects.mergePatch(queue.status ?? {}, target)
  if (change === undefined) return
  yield* sendIf(Objects.patch(type, queue, { status: change }, { subresource: "status", manager: Kueue.kueueManager }))
}

const workloadsIn = (view: View, name: string): ReadonlyArray<Kueue.Workload> =>
  view.list(Kueue.workloads).filter((workload) => Kueue.clusterQueueNameOf(view, workload) === name)

const countsKey = "counts "

/** Fields of the status that are counts: written with the condition at first, then in batches of their own. */
const withoutConditions = (status: object | undefined): object | undefined =>
  status === undefined ? undefined : Object.fromEntries(Object.entries(status).filter(([key]) => key !== "conditions"))

function* reconcileClusterQueue(context: Context): Work {
  const isCount = context.key.startsWith(countsKey)
  const name = isCount ? context.key.slice(countsKey.length) : context.key
  const queue = context.view.get(Kueue.clusterQueues, undefined, name)
  if (queue === undefined) return
  const own = workloadsIn(context.view, name)
  if (Kueue.isDeleting(queue)) {
    if (!own.some(Kueue.takesQuota)) yield* sendIf(Kueue.releaseFinalizer(Kueue.clusterQueues, queue))
    return
  }
  // the webhook gives it to queues that are created
  yield* keep(Kueue.clusterQueues, queue)
  const present = withoutConditions(queue.status)
  const figures = isCount || present === undefined ? counts(queue, own, true) : present
  const last = Objects.conditionOf(queue.status?.conditions, "Active")
  // counting does not judge anew: what the queue depends on is looked at when its own batch is due
  const verdict: Verdict =
    isCount && last !== undefined
      ? {
          status: last.status === "True" ? "True" : "False",
          reason: last.reason ?? "",
          message: last.message ?? ""
        }
      : verdictOf(context.view, queue)
  yield* writeStatus(Kueue.clusterQueues, queue, verdict, figures, Objects.time(context.now()))
}

const queuesNaming = (view: View, pick: (queue: Kueue.ClusterQueue) => boolean): ReadonlyArray<string> =>
  view
    .list(Kueue.clusterQueues)
    .filter(pick)
    .map(({ metadata }) => metadata.name)

const watchClusterQueue = (change: Change, view: View): Iterable<Wake> => {
  const { object, previous } = change
  if (Objects.is(Kueue.clusterQueues, object)) {
    const { name } = object.metadata
    if (change.type === "DELETED") return []
    // its own status is no news
    const isSpec =
      previous === undefined ||
      previous.metadata.generation !== object.metadata.generation ||
      Kueue.isDeleting(object) !== Kueue.isDeleting(previous)
    return isSpec ? [{ key: name }] : []
  }
  if (Objects.is(Kueue.workloads, object)) {
    const before =
      previous !== undefined && Objects.is(Kueue.workloads, previous)
        ? Kueue.clusterQueueNameOf(view, previous)
        : undefined
    const names = new Set([before, Kueue.clusterQueueNameOf(view, object)])
    return [...names].flatMap((name) => {
      if (name === undefined) return []
      const queue = view.get(Kueue.clusterQueues, undefined, name)
      // one that goes waits for the last job that has quota
      return queue !== undefined && Kueue.isDeleting(queue)
        ? [{ key: name }]
        : [{ key: `${countsKey}${name}`, wait: batch }]
    })
  }
  if (Objects.is(Kueue.admissionChecks, object)) {
    const names = queuesNaming(view, (queue) => Kueue.checksOf(queue).some(({ name }) => name === object.metadata.name))
    return names.map((key) => ({ key, wait: batch }))
  }
  if (Objects.is(Kueue.resourceFlavors, object)) {
    const names = queuesNaming(view, (queue) =>
      Kueue.flavorsOf(queue).some(({ name }) => name === object.metadata.name)
    )
    return names.map((key) => ({ key, wait: batch }))
  }
  return []
}

/** Judges and counts ClusterQueues. */
export const clusterQueueStage: Stage = make({
  name: "kueue-clusterqueue",
  latency: 10,
  watches: watchClusterQueue,
  reconcile: reconcileClusterQueue
})

// --- LocalQueue --------------------------------------------------------------------------------------------------------

const localVerdict = (queue: Kueue.LocalQueue, cluster: Kueue.ClusterQueue | undefined): Verdict => {
  if (Kueue.isStopped(queue)) return { status: "False", reason: "Stopped", message: "LocalQueue is stopped" }
  if (cluster === undefined || !Kueue.isOpen(cluster)) {
    return {
      status: "False",
      reason: cluster === undefined ? "ClusterQueueDoesNotExist" : "ClusterQueueIsInactive",
      message: "Can't submit new workloads to clusterQueue"
    }
  }
  return { status: "True", reason: "Ready", message: "Can submit new workloads to localQueue" }
}

function* reconcileLocalQueue(context: Context): Work {
  const isCount = context.key.startsWith(countsKey)
  const { name, namespace } = Objects.splitKey(isCount ? context.key.slice(countsKey.length) : context.key)
  const queue = context.view.get(Kueue.localQueues, namespace, name)
  if (queue === undefined || Kueue.isDeleting(queue)) return
  const cluster = context.view.get(Kueue.clusterQueues, undefined, queue.spec.clusterQueue)
  const own = context.view.list(Kueue.workloads, namespace).filter(({ spec }) => spec.queueName === name)
  const present = withoutConditions(queue.status)
  const hasFlavors = present !== undefined && "flavorsUsage" in present
  const isDue = isCount || present === undefined || hasFlavors !== (cluster !== undefined)
  const figures = isDue ? counts(cluster, own, false) : present
  const at = Objects.time(context.now())
  yield* writeStatus(Kueue.localQueues, queue, localVerdict(queue, cluster), figures, at)
}

const watchLocalQueue = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Kueue.localQueues, object)) return change.type === "DELETED" ? [] : [{ key: Objects.keyOf(object) }]
  if (Objects.is(Kueue.clusterQueues, object)) {
    return view
      .list(Kueue.localQueues)
      .filter(({ spec }) => spec.clusterQueue === object.metadata.name)
      .map((queue) => ({ key: Objects.keyOf(queue) }))
  }
  if (Objects.is(Kueue.workloads, object)) {
    const before =
      change.previous !== undefined && Objects.is(Kueue.workloads, change.previous) ? change.previous : object
    const names = new Set([object.spec.queueName, before.spec.queueName])
    return [...names].flatMap((name) =>
      name === undefined
        ? []
        : [{ key: `${countsKey}${object.metadata.namespace ?? ""}/${name}`, wait: batch, latency: 15 }]
    )
  }
  return []
}

/** Judges and counts LocalQueues. */
export const localQueueStage: Stage = make({
  name: "kueue-localqueue",
  latency: 15,
  watches: watchLocalQueue,
  reconcile: reconcileLocalQueue
})

// --- AdmissionCheck and ResourceFlavor ---------------------------------------------------------------------------------

function* reconcileCheck(context: Context, name: string): Work {
  const check = context.view.get(Kueue.admissionChecks, undefined, name)
  if (check === undefined) return
  if (Kueue.isDeleting(check)) {
    const isUsed = queuesNaming(context.view, (queue) => Kueue.checksOf(queue).some((each) => each.name === name))
    if (isUsed.length === 0) yield* sendIf(Kueue.releaseFinalizer(Kueue.admissionChecks, check))
    return
  }
  yield* keep(Kueue.admissionChecks, check)
  if (check.spec.controllerName !== Kueue.multiKueue) return
  const current = context.view.get(Kueue.admissionChecks, undefined, name)
  if (current === undefined) return
  // there are no MultiKueueConfigs here
  const config = check.spec.parameters?.name ?? ""
  const conditions = Objects.withCondition(current.status?.conditions, {
    type: "Active",
    status: "False",
    reason: "BadConfig",
    message: `Cannot load the AdmissionChecks parameters: MultiKueueConfig.kueue.x-k8s.io ${JSON.stringify(config)} not found`,
    lastTransitionTime: Objects.time(context.now()),
    observedGeneration: current.metadata.generation ?? 1
  })
  yield* sendIf(Objects.patchStatus(Kueue.admissionChecks, current, { conditions }, Kueue.kueueManager))
}

function* keep(type: Objects.Kind, object: Objects.Raw): Generator<Act, void, Answer> {
  const finalizers = object.metadata.finalizers ?? []
  if (finalizers.includes(Kueue.finalizer)) return
  yield* sendIf(
    Objects.patch(
      type,
      object,
      { metadata: { finalizers: [...finalizers, Kueue.finalizer] } },
      { manager: Kueue.kueueManager }
    )
  )
}

function* reconcileFlavor(context: Context, name: string): Work {
  const flavor = context.view.get(Kueue.resourceFlavors, undefined, name)
  if (flavor === undefined) return
  if (!Kueue.isDeleting(flavor)) return yield* keep(Kueue.resourceFlavors, flavor)
  const isUsed = queuesNaming(context.view, (queue) => Kueue.flavorsOf(queue).some((each) => each.name === name))
  if (isUsed.length === 0) yield* sendIf(Kueue.releaseFinalizer(Kueue.resourceFlavors, flavor))
}

const watchCheck = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Kueue.admissionChecks, object)) return [{ key: `check ${object.metadata.name}`, latency: 5 }]
  if (Objects.is(Kueue.resourceFlavors, object)) return [{ key: `flavor ${object.metadata.name}`, latency: 5 }]
  if (!Objects.is(Kueue.clusterQueues, object)) return []
  // those that wait for the last queue that names them
  return [
    ...view
      .list(Kueue.admissionChecks)
      .filter(Kueue.isDeleting)
      .map(({ metadata }) => ({ key: `check ${metadata.name}` })),
    ...view
      .list(Kueue.resourceFlavors)
      .filter(Kueue.isDeleting)
      .map(({ metadata }) => ({ key: `flavor ${metadata.name}` }))
  ]
}

/** Keeps AdmissionChecks and ResourceFlavors that are in use; judges checks of MultiKueue. */
export const admissionCheckStage: Stage = make({
  name: "kueue-admissioncheck",
  latency: 20,
  watches: watchCheck,
  reconcile: (context) => {
    const [kind = "", name = ""] = context.key.split(" ")
    return kind === "check" ? reconcileCheck(context, name) : reconcileFlavor(context, name)
  }
})
