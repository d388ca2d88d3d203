/**
 * Kueue's Workload controller: keeps the admission checks in step with the queue, admits, evicts and deactivates, and says
 * why a Workload cannot even wait in its queue.
 *
 * @module
 */
import type { Act, Answer, Change, Context, Stage, View, Wake } from "../Stage.js"
import { make as makeStage, send } from "../Stage.js"
import * as Events from "./Events.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"

const component = "kueue-workload-controller"

type Step = Generator<Act, boolean, Answer>

function* tell(
  context: Context,
  workload: Kueue.Workload,
  type: "Normal" | "Warning",
  reason: string,
  message: string
): Generator<Act, void, Answer> {
  yield* Events.legacy(context, component, { regarding: workload, type, reason, message })
}

function* evict(
  context: Context,
  workload: Kueue.Workload,
  eviction: Kueue.Eviction,
  change: (status: Kueue.WorkloadStatus) => Kueue.WorkloadStatus = (status) => status
): Generator<Act, void, Answer> {
  const status = change(Kueue.evicted(workload, eviction, Objects.time(context.now())))
  yield* send(Kueue.applyStatus(workload, status))
  yield* tell(context, workload, "Normal", `EvictedDueTo${eviction.reason}`, eviction.message)
}

// --- activity ----------------------------------------------------------------------------------------------------------

/** Kueue's own deactivation: the condition first, then the field. */
function* target(
  context: Context,
  workload: Kueue.Workload,
  reason: string,
  message: string
): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  yield* send(
    Kueue.applyStatus(
      workload,
      Kueue.withConditions(
        workload.status,
        Kueue.condition(workload, "DeactivationTarget", "True", reason, message, at)
      )
    )
  )
}

function* deactivated(context: Context, workload: Kueue.Workload): Step {
  const evictedNow = Kueue.conditionOf(workload, "Evicted")
  if (evictedNow?.status === "True" && (evictedNow.reason ?? "").startsWith("Deactivated")) return false
  const cause = Kueue.conditionOf(workload, "DeactivationTarget")
  const eviction: Kueue.Eviction =
    cause?.status === "True"
      ? {
          reason: `DeactivatedDueTo${cause.reason ?? ""}`,
          message: `The workload is deactivated due to ${cause.message ?? ""}`,
          counted: "Deactivated",
          underlyingCause: cause.reason ?? ""
        }
      : { reason: "Deactivated", message: "The workload is deactivated" }
  yield* evict(context, workload, eviction, (status) =>
    Objects.without(Kueue.withoutCondition(status, "DeactivationTarget"), "requeueState")
  )
  return true
}

// --- requeueing --------------------------------------------------------------------------------------------------------

const restarted: Readonly<Record<string, readonly [string, string]>> = {
  ClusterQueueStopped: ["ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"],
  LocalQueueStopped: ["LocalQueueRestarted", "The LocalQueue was restarted after being stopped"]
}

const isRunningAgain = (view: View, workload: Kueue.Workload, reason: string): boolean => {
  const local = Kueue.localQueueOf(view, workload)
  if (local === undefined) return false
  if (reason === "LocalQueueStopped") return !Kueue.isStopped(local)
  const cluster = view.get(Kueue.clusterQueues, undefined, local.spec.clusterQueue)
  return cluster !== undefined && !Kueue.isStopped(cluster)
}

function* requeued(context: Context, workload: Kueue.Workload, wakes: Array<Wake>): Step {
  const waits = Kueue.conditionOf(workload, "Requeued")
  if (waits?.status !== "False") return false
  const at = Objects.time(context.now())
  const turn = (reason: string, message: string) =>
    send(
      Kueue.applyStatus(
        workload,
        Kueue.withConditions(workload.status, Kueue.condition(workload, "Requeued", "True", reason, message, at))
      )
    )
  const reason = waits.reason ?? ""
  if (reason === "Deactivated") {
    yield* turn("Reactivated", "The workload was reactivated")
    return true
  }
  const words = restarted[reason]
  if (words !== undefined) {
    if (!isRunningAgain(context.view, workload, reason)) return false
    yield* turn(...words)
    return true
  }
  if (reason !== "AdmissionCheck" && reason !== "PodsReadyTimeout") return false
  const { count, requeueAt } = workload.status?.requeueState ?? {}
  if (requeueAt === undefined) {
    yield* turn("BackoffFinished", "The workload backoff was finished")
    return true
  }
  const left = Objects.parseTime(requeueAt) - context.now()
  if (left > 0) {
    wakes.push({ key: context.key, wait: left })
    return false
  }
  const { requeueState: _, ...status } = workload.status ?? {}
  yield* send(Kueue.applyStatus(workload, count === undefined ? status : { ...status, requeueState: { count } }))
  return true
}

// --- checks ------------------------------------------------------------------------------------------------------------

function* synced(context: Context, workload: Kueue.Workload, queue: Kueue.ClusterQueue): Step {
  if (Kueue.isAdmitted(workload)) return false
  const required = Kueue.requiredChecks(queue, workload)
  const present = workload.status?.admissionChecks ?? []
  const added = required.filter((name) => !present.some((entry) => entry.name === name)).toSorted()
  const kept = present.filter(({ name }) => required.includes(name))
  if (added.length === 0 && kept.length === present.length) return false
  const lastTransitionTime = Objects.time(context.now())
  const admissionChecks = [
    ...kept,
    ...added.map((name): Kueue.CheckState => ({ name, state: "Pending", message: "", lastTransitionTime }))
  ]
  yield* send(
    Objects.patch(
      Kueue.workloads,
      workload,
      { status: { admissionChecks: admissionChecks.length === 0 ? null : admissionChecks } },
      { subresource: "status", manager: Kueue.kueueManager }
    )
  )
  return true
}

function* rejected(context: Context, workload: Kueue.Workload): Step {
  const entries = (workload.status?.admissionChecks ?? []).filter(({ state }) => state === "Rejected")
  if (entries.length === 0) return false
  const names = entries.map(({ name }) => name).join(",")
  yield* target(context, workload, "AdmissionCheck", `Admission check(s): ${names}, were rejected`)
  const messages = entries.map(({ message }) => message).join("; ")
  yield* tell(
    context,
    workload,
    "Warning",
    "AdmissionCheckRejected",
    `Deactivating workload because AdmissionCheck for ${names} was Rejected: ${messages}`
  )
  return true
}

/** A Retry with a delay waits before it evicts, not after. */
function* retried(context: Context, workload: Kueue.Workload, wakes: Array<Wake>): Step {
  const entries = (workload.status?.admissionChecks ?? []).filter(({ state }) => state === "Retry")
  if (entries.length === 0 || Kueue.isEvicted(workload) || !Kueue.isReserved(workload)) return false
  const times = entries.map(({ lastTransitionTime, requeueAfterSeconds = 0 }) =>
    requeueAfterSeconds === 0 || lastTransitionTime === undefined
      ? 0
      : Objects.parseTime(lastTransitionTime) + requeueAfterSeconds * 1000
  )
  const due = Math.max(...times)
  const left = due - context.now()
  if (left > 0) {
    wakes.push({ key: context.key, wait: left })
    const requeueAt = Objects.time(due)
    if (workload.status?.requeueState?.requeueAt === requeueAt) return false
    const requeueState = { ...workload.status?.requeueState, requeueAt }
    yield* send(Kueue.applyStatus(workload, { ...workload.status, requeueState }))
    return true
  }
  yield* evict(context, workload, {
    reason: "AdmissionCheck",
    message: "At least one admission check is false"
  })
  return true
}

function* admitted(context: Context, workload: Kueue.Workload, queue: Kueue.ClusterQueue, wakes: Array<Wake>): Step {
  if (Kueue.isAdmitted(workload) || !Kueue.isReserved(workload) || Kueue.isEvicted(workload)) return false
  if (!Kueue.passes(Kueue.requiredChecks(queue, workload), workload.status?.admissionChecks ?? [])) return false
  const { requeueAt } = workload.status?.requeueState ?? {}
  const left = requeueAt === undefined ? 0 : Objects.parseTime(requeueAt) - context.now()
  if (left > 0) {
    wakes.push({ key: context.key, wait: left })
    return false
  }
  const at = Objects.time(context.now())
  yield* send(
    Kueue.applyStatus(
      workload,
      Kueue.withConditions(
        workload.status,
        Kueue.condition(workload, "Admitted", "True", "Admitted", "The workload is admitted", at)
      )
    )
  )
  const since = Kueue.conditionOf(workload, "QuotaReserved")?.lastTransitionTime
  const name = queue.metadata.name
  const text = `Admitted by ClusterQueue ${name}, wait time since reservation was ${Kueue.waited(context.now(), since)}`
  yield* tell(context, workload, "Normal", "Admitted", text)
  return true
}

// --- limits ------------------------------------------------------------------------------------------------------------

function* overlong(context: Context, workload: Kueue.Workload, wakes: Array<Wake>): Step {
  const limit = workload.spec.maximumExecutionTimeSeconds
  const since = Kueue.conditionOf(workload, "Admitted")
  if (limit === undefined || since?.status !== "True" || since.lastTransitionTime === undefined) return false
  if (Kueue.has(workload, "DeactivationTarget")) return false
  const past = workload.status?.accumulatedPastExecutionTimeSeconds ?? 0
  const left = Objects.parseTime(since.lastTransitionTime) + (limit - past) * 1000 - context.now()
  if (left > 0) {
    wakes.push({ key: context.key, wait: left })
    return false
  }
  yield* target(context, workload, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time")
  const text = `The maximum execution time (${limit}s) exceeded`
  yield* tell(context, workload, "Warning", "MaximumExecutionTimeExceeded", text)
  return true
}

function* unready(context: Context, workload: Kueue.Workload, options: Kueue.Options, wakes: Array<Wake>): Step {
  const limits = options.waitForPodsReady
  const since = Kueue.conditionOf(workload, "Admitted")
  if (limits === undefined || since?.status !== "True" || since.lastTransitionTime === undefined) return false
  const ready = Kueue.conditionOf(workload, "PodsReady")
  if (ready?.status === "True" || Kueue.isEvicted(workload) || Kueue.has(workload, "DeactivationTarget")) return false
  const from = Math.max(
    Objects.parseTime(since.lastTransitionTime),
    ready?.reason === "WaitForRecovery" ? Objects.parseTime(ready.lastTransitionTime ?? "") : 0
  )
  const left = from + limits.timeout * 1000 - context.now()
  if (left > 0) {
    wakes.push({ key: context.key, wait: left })
    return false
  }
  const count = (workload.status?.requeueState?.count ?? 0) + 1
  if (limits.backoffLimit !== undefined && count > limits.backoffLimit) {
    yield* target(context, workload, "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries")
    return true
  }
  const pause = Math.min((limits.backoffBase ?? 60) * 2 ** (count - 1), limits.backoffMax ?? 3600)
  const requeueState = { count, requeueAt: Objects.time(context.now() + pause * 1000) }
  yield* evict(
    context,
    workload,
    {
      reason: "PodsReadyTimeout",
      message: `Exceeded the PodsReady timeout ${Objects.keyOf(workload)}`,
      underlyingCause: ready?.reason ?? "WaitForStart"
    },
    (status) => ({ ...status, requeueState })
  )
  return true
}

// --- queues ------------------------------------------------------------------------------------------------------------

/** Why the queues of a Workload take nothing: what it is told when it loses its quota, and while it waits. */
interface Obstacle {
  readonly onLoss: string
  readonly waiting: string
  readonly drained?: Kueue.Eviction
}

const obstacleOf = (
  view: View,
  workload: Kueue.Workload
): { readonly local?: Obstacle; readonly cluster?: Obstacle } => {
  const name = workload.spec.queueName ?? ""
  const local = Kueue.localQueueOf(view, workload)
  if (local === undefined || Kueue.isDeleting(local)) {
    return {
      local: {
        onLoss: `LocalQueue ${name} is terminating or missing`,
        waiting: local === undefined ? `LocalQueue ${name} doesn't exist` : `LocalQueue ${name} is inactive`
      }
    }
  }
  if (Kueue.isStopped(local)) {
    const stopped = { onLoss: `LocalQueue ${name} is stopped`, waiting: `LocalQueue ${name} is inactive` }
    const drained = { reason: "LocalQueueStopped", message: "The LocalQueue is stopped" }
    return { local: local.spec.stopPolicy === "HoldAndDrain" ? { ...stopped, drained } : stopped }
  }
  const { clusterQueue } = local.spec
  const cluster = view.get(Kueue.clusterQueues, undefined, clusterQueue)
  if (cluster === undefined) {
    return { cluster: { onLoss: "", waiting: `ClusterQueue ${clusterQueue} doesn't exist` } }
  }
  const waiting = `ClusterQueue ${clusterQueue} is inactive`
  if (Kueue.isStopped(cluster)) {
    const stopped = { onLoss: `ClusterQueue ${clusterQueue} is stopped`, waiting }
    const drained = { reason: "ClusterQueueStopped", message: "The ClusterQueue is stopped" }
    return { cluster: cluster.spec.stopPolicy === "HoldAndDrain" ? { ...stopped, drained } : stopped }
  }
  return Kueue.isOpen(cluster) ? {} : { cluster: { onLoss: "", waiting } }
}

function* stopped(context: Context, workload: Kueue.Workload): Step {
  const { cluster, local } = obstacleOf(context.view, workload)
  const obstacle = local ?? cluster
  if (obstacle === undefined || (Kueue.isEvicted(workload) && Kueue.isReserved(workload))) return false
  if (Kueue.isAdmitted(workload)) {
    if (obstacle.drained === undefined) return false
    yield* evict(context, workload, obstacle.drained)
    return true
  }
  const isReserved = Kueue.isReserved(workload)
  if (isReserved && obstacle.onLoss === "") return false
  const at = Objects.time(context.now())
  const told = Kueue.condition(
    workload,
    "QuotaReserved",
    "False",
    "Inadmissible",
    isReserved ? obstacle.onLoss : obstacle.waiting,
    at
  )
  // quota that only waits for checks is given back without an eviction: the checks keep their answers
  const { admission: _, ...status } = Kueue.withConditions(workload.status, told)
  if (Objects.same(status.conditions, workload.status?.conditions)) return false
  yield* send(Kueue.applyStatus(workload, status))
  return true
}

// --- the controller ----------------------------------------------------------------------------------------------------

function* step(context: Context, options: Kueue.Options, wakes: Array<Wake>): Step {
  const { name, namespace } = Objects.splitKey(context.key)
  const workload = context.view.get(Kueue.workloads, namespace, name)
  if (workload === undefined || Kueue.isFinished(workload) || Kueue.isDeleting(workload)) return false
  if (yield* overlong(context, workload, wakes)) return true
  if (!Kueue.isActive(workload)) return yield* deactivated(context, workload)
  if (Kueue.has(workload, "DeactivationTarget")) {
    yield* send(Objects.patch(Kueue.workloads, workload, { spec: { active: false } }, { manager: Kueue.kueueManager }))
    return true
  }
  if (yield* requeued(context, workload, wakes)) return true
  const clusterName = Kueue.clusterQueueNameOf(context.view, workload)
  const queue = clusterName === undefined ? undefined : context.view.get(Kueue.clusterQueues, undefined, clusterName)
  if (queue !== undefined && (yield* synced(context, workload, queue))) return true
  if (yield* rejected(context, workload)) return true
  if (yield* retried(context, workload, wakes)) return true
  if (yield* stopped(context, workload)) return true
  if (queue !== undefined && (yield* admitted(context, workload, queue, wakes))) return true
  return yield* unready(context, workload, options, wakes)
}

const inQueue = (view: View, name: string): ReadonlyArray<Wake> =>
  view
    .list(Kueue.workloads)
    .filter((workload) => Kueue.clusterQueueNameOf(view, workload) === name)
    .map((workload) => ({ key: Objects.keyOf(workload) }))

const watches = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Kueue.workloads, object)) return change.type === "DELETED" ? [] : [{ key: Objects.keyOf(object) }]
  if (Objects.is(Kueue.clusterQueues, object)) return inQueue(view, object.metadata.name)
  if (Objects.is(Kueue.localQueues, object)) {
    return view
      .list(Kueue.workloads, object.metadata.namespace)
      .filter(({ spec }) => spec.queueName === object.metadata.name)
      .map((workload) => ({ key: Objects.keyOf(workload) }))
  }
  return []
}

/** The Workload controller. */
export const make = (options: Kueue.Options): Stage =>
  makeStage({
    name: "kueue-workload",
    latency: 20,
    watches,
    *reconcile(context) {
      // one write a look: the next look sees it
      const wakes: Array<Wake> = []
      yield* step(context, options, wakes)
      return wakes
    }
  })
