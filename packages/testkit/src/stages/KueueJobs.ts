/**
 * Kueue's job controller: the Workload of a job, and the job's start and stop by its Workload.
 *
 * A TrainJob is started in two requests, first Kueue's entry of `runtimePatches`, then `suspend`. A JobSet that belongs to a
 * TrainJob is started and stopped with it; one of its own is a job like any other.
 *
 * @module
 */
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Events from "./Events.js"
import * as Kinds from "./KueueJobKinds.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"
import * as Sha1 from "./Sha1.js"

// --- the Workload ------------------------------------------------------------------------------------------------------

const nameOf = (object: Objects.Raw): string => {
  const group = object.apiVersion.split("/")[0] ?? ""
  const { name, uid } = object.metadata
  const digest = Sha1.hex([object.kind, group, name, uid].join("\n")).slice(0, 5)
  return `${`${object.kind.toLowerCase()}-${name}`.slice(0, 253 - 6)}-${digest}`
}

const priorityOf = (view: View, object: Objects.Raw): object => {
  const name = object.metadata.labels?.[Kueue.priorityLabel]
  const found = name === undefined ? undefined : view.get(Kueue.priorityClasses, undefined, name)
  if (name === undefined || found === undefined) return { priority: 0 }
  return {
    priority: found.value,
    priorityClassRef: { group: "kueue.x-k8s.io", kind: "WorkloadPriorityClass", name }
  }
}

const maxExecOf = (object: Objects.Raw): number | undefined => {
  const value = Number(object.metadata.labels?.[Kueue.maxExecLabel])
  return Number.isInteger(value) && value > 0 ? value : undefined
}

const bodyOf = (view: View, job: Kinds.Job, podSets: ReadonlyArray<Kueue.PodSet>): object => ({
  metadata: {
    name: nameOf(job.object),
    namespace: job.object.metadata.namespace,
    labels: { [Kueue.jobUidLabel]: job.object.metadata.uid },
    finalizers: [Kueue.finalizer],
    ownerReferences: [Objects.ownedBy(job.object)]
  },
  spec: Objects.compact({
    active: true,
    ...priorityOf(view, job.object),
    queueName: Kinds.queueOf(job.object),
    maximumExecutionTimeSeconds: maxExecOf(job.object),
    podSets
  })
})

// what upstream compares of a pod set
const compared = (podSets: ReadonlyArray<Kueue.PodSet>): unknown =>
  podSets.map(({ count, template }) => ({
    count,
    containers: template.spec.containers,
    initContainers: template.spec.initContainers ?? []
  }))

const matches = (job: Kinds.Job, podSets: ReadonlyArray<Kueue.PodSet>, workload: Kueue.Workload): boolean =>
  Objects.same(compared(podSets), compared(workload.spec.podSets)) &&
  maxExecOf(job.object) === workload.spec.maximumExecutionTimeSeconds

// --- start -------------------------------------------------------------------------------------------------------------

/** Adds keys to a map; a key with another value is a conflict. */
const joined = (
  what: string,
  into: Objects.StringMap,
  more: Objects.StringMap | undefined
): Objects.StringMap | string => {
  for (const [key, value] of Object.entries(more ?? {})) {
    const present = into[key]
    if (present !== undefined && present !== value) {
      return `conflict for ${what}: conflict for key=${key}, value1=${present}, value2=${value}`
    }
  }
  return { ...into, ...more }
}

const updated = (info: Kinds.PodSetInfo, update: Kueue.PodSetUpdate): Kinds.PodSetInfo | string => {
  const labels = joined("labels", info.labels, update.labels)
  if (typeof labels === "string") return labels
  const annotations = joined("annotations", info.annotations, update.annotations)
  if (typeof annotations === "string") return annotations
  const nodeSelector = joined("nodeSelector", info.nodeSelector, update.nodeSelector)
  if (typeof nodeSelector === "string") return nodeSelector
  return {
    name: info.name,
    labels,
    annotations,
    nodeSelector,
    tolerations: [...info.tolerations, ...(update.tolerations ?? [])]
  }
}

/** What goes on the pods: from the flavors, from Kueue, from every check. A string says why it cannot be put together. */
const infosOf = (view: View, workload: Kueue.Workload): ReadonlyArray<Kinds.PodSetInfo> | string => {
  const { admission, admissionChecks = [] } = workload.status ?? {}
  const infos: Array<Kinds.PodSetInfo> = []
  for (const assignment of admission?.podSetAssignments ?? []) {
    const flavors = [...new Set(Object.values(assignment.flavors))].flatMap(
      (name) => view.get(Kueue.resourceFlavors, undefined, name) ?? []
    )
    let info: Kinds.PodSetInfo = {
      name: assignment.name,
      annotations: { "kueue.x-k8s.io/workload": workload.metadata.name },
      labels: {
        "kueue.x-k8s.io/cluster-queue-name": admission?.clusterQueue ?? "",
        "kueue.x-k8s.io/local-queue-name": workload.spec.queueName ?? "",
        "kueue.x-k8s.io/podset": assignment.name
      },
      nodeSelector: Object.assign({}, ...flavors.map(({ spec }) => spec?.nodeLabels ?? {})) as Objects.StringMap,
      tolerations: flavors.flatMap(({ spec }) => spec?.tolerations ?? [])
    }
    for (const check of admissionChecks) {
      for (const update of (check.podSetUpdates ?? []).filter(({ name }) => name === assignment.name)) {
        const next = updated(info, update)
        if (typeof next === "string") {
          return `in admission check ${JSON.stringify(check.name)}: invalid admission check PodSetUpdate: ${next}`
        }
        info = next
      }
    }
    infos.push(info)
  }
  return infos
}

// --- the controller ----------------------------------------------------------------------------------------------------

interface Memory {
  /** When a JobSet was stopped last, by uid: somebody else may start it again and again. */
  readonly stops: Map<string, number>
}

function* tell(context: Context, job: Kinds.Job, reason: string, message: string): Generator<Act, void, Answer> {
  yield* Events.legacy(context, job.component, { regarding: job.object, type: "Normal", reason, message })
}

function* finish(workload: Kueue.Workload, reason: string, message: string, at: string): Generator<Act, void, Answer> {
  yield* send(
    Kueue.applyStatus(
      workload,
      Kueue.withConditions(workload.status, Kueue.condition(workload, "Finished", "True", reason, message, at))
    )
  )
}

const suspend = (job: Kinds.Job) =>
  send(Objects.patch(job.type, job.object, { spec: { suspend: true } }, { manager: Kueue.kueueManager }))

/** Stops a job step by step; true when it has stopped and is as it was before it was started. */
function* stopped(
  context: Context,
  job: Kinds.Job,
  workload: Kueue.Workload,
  message: string
): Generator<Act, boolean, Answer> {
  if (!job.isSuspended) {
    yield* suspend(job)
    return false
  }
  if (job.isActive) return false
  // what was started from cannot be told any more
  if (job.podSets === undefined) return false
  if (job.isMarked) yield* job.restore(workload)
  yield* tell(context, job, "Stopped", message)
  return true
}

function* release(context: Context, workload: Kueue.Workload): Generator<Act, void, Answer> {
  const evicted = Kueue.conditionOf(workload, "Evicted")
  const { message = "", reason = "" } = evicted ?? {}
  const at = Objects.time(context.now())
  const admitted = Kueue.conditionOf(workload, "Admitted")
  const wasAdmitted = admitted?.status === "True"
  const ran =
    wasAdmitted && admitted.lastTransitionTime !== undefined
      ? Math.floor(context.now() / 1000) - Objects.parseTime(admitted.lastTransitionTime) / 1000
      : 0
  const past = workload.status?.accumulatedPastExecutionTimeSeconds ?? 0
  // whoever was preempted waits in the queue again; the others are told when they may
  const mayWait = reason === "Preempted"
  const { admission: _, ...status } = Kueue.withConditions(
    workload.status,
    Kueue.condition(workload, "QuotaReserved", "False", "Pending", message, at),
    ...(wasAdmitted
      ? [
          Kueue.condition(
            workload,
            "Admitted",
            "False",
            "NoReservationUnsatisfiedChecks",
            "The workload has no reservation and not all checks ready",
            at
          )
        ]
      : []),
    Kueue.condition(workload, "Requeued", mayWait ? "True" : "False", reason, message, at)
  )
  yield* send(
    Kueue.applyStatus(workload, wasAdmitted ? { ...status, accumulatedPastExecutionTimeSeconds: past + ran } : status)
  )
}

function* ready(
  context: Context,
  job: Kinds.Job,
  workload: Kueue.Workload,
  options: Kueue.Options
): Generator<Act, boolean, Answer> {
  if (options.waitForPodsReady === undefined) return false
  const isReady = job.isReady && !job.isSuspended && Kueue.isAdmitted(workload)
  const wasStarted = Kueue.conditionOf(workload, "PodsReady")?.status === "True"
  const at = Objects.time(context.now())
  const next = isReady
    ? Kueue.condition(
        workload,
        "PodsReady",
        "True",
        "Started",
        "All pods reached readiness and the workload is running",
        at
      )
    : Kueue.condition(
        workload,
        "PodsReady",
        "False",
        wasStarted && Kueue.isAdmitted(workload) ? "WaitForRecovery" : "WaitForStart",
        "Not all pods are ready or succeeded",
        at
      )
  const present = Kueue.conditionOf(workload, "PodsReady")
  if (present?.status === next.status) return false
  yield* send(Kueue.applyStatus(workload, Kueue.withConditions(workload.status, next)))
  return true
}

const pendingText = (workload: Kueue.Workload): string =>
  (workload.status?.admissionChecks ?? [])
    .filter(({ message, state }) => state === "Pending" && message !== "")
    .map(({ message, name }) => `${name}: ${message}`)
    .join("; ")

/** How long a job is left alone that somebody else starts whenever it is stopped, milliseconds. */
const truce = 500

/** The same for a JobSet that its Trainer starts again: a real one is stopped every 0.15 s, for as long as nobody interferes. */
const childTruce = 150

/** Notes that a job is stopped now; where it was stopped within the truce, answers when it may be instead. */
const truceBefore = (context: Context, memory: Memory, uid: string, length: number): Wake | undefined => {
  const since = context.now() - (memory.stops.get(uid) ?? Number.NEGATIVE_INFINITY)
  if (since < length) return { key: context.key, wait: length - since }
  memory.stops.set(uid, context.now())
  return undefined
}

function* reconcileJob(context: Context, job: Kinds.Job, options: Kueue.Options, memory: Memory): Work {
  const { object } = job
  const { view } = context
  const own = view
    .ownedBy(Kueue.workloads, object.metadata.uid)
    .filter((each) => Objects.controllerOf(each)?.uid === object.metadata.uid)
  if (Kueue.isDeleting(object)) {
    for (const workload of own) yield* sendIf(Kueue.releaseFinalizer(Kueue.workloads, workload))
    return
  }
  if (!Kinds.isManaged(object, options)) return
  const at = Objects.time(context.now())
  const [workload] = own

  if (workload !== undefined && Kueue.isFinished(workload)) {
    yield* tell(context, job, "FinishedWorkload", `Workload '${Objects.keyOf(workload)}' is declared finished`)
    yield* sendIf(Kueue.releaseFinalizer(Kueue.workloads, workload))
    return
  }
  if (workload !== undefined && Kueue.isDeleting(workload)) {
    if (yield* stopped(context, job, workload, "Workload is deleted")) {
      const current = view.get(Kueue.workloads, workload.metadata.namespace, workload.metadata.name)
      if (current !== undefined) yield* sendIf(Kueue.releaseFinalizer(Kueue.workloads, current))
    }
    return
  }
  // a runtime that is gone stops everything but what the Workload says by itself
  if (job.podSets === undefined) return
  if (job.finished !== undefined) {
    if (workload !== undefined) yield* finish(workload, job.finished.reason, job.finished.message, at)
    return
  }

  if (workload !== undefined && !matches(job, job.podSets, workload)) {
    if (!Kueue.isReserved(workload)) {
      const change = { spec: { podSets: job.podSets, maximumExecutionTimeSeconds: maxExecOf(object) ?? null } }
      yield* send(Objects.patch(Kueue.workloads, workload, change, { manager: Kueue.kueueManager }))
      yield* tell(
        context,
        job,
        "UpdatedWorkload",
        `Updated not matching Workload for suspended job: ${Objects.keyOf(workload)}`
      )
      return
    }
    if (!job.isSuspended) yield* suspend(job)
    yield* sendIf(Kueue.releaseFinalizer(Kueue.workloads, workload))
    yield* send(Objects.remove(Kueue.workloads, workload))
    yield* tell(context, job, "DeletedWorkload", `Deleted not matching Workload: ${Objects.keyOf(workload)}`)
    return
  }
  if (workload === undefined) {
    if (!job.isSuspended) {
      const pause = yield* halt(context, job, memory, "Missing Workload; unable to restore pod templates")
      if (pause !== undefined) return [pause]
    }
    if (job.isActive) return
    yield* send(
      Objects.create(Kueue.workloads, object.metadata.namespace, bodyOf(view, job, job.podSets), Kueue.kueueManager)
    )
    const name = nameOf(object)
    yield* tell(context, job, "CreatedWorkload", `Created Workload: ${object.metadata.namespace ?? ""}/${name}`)
    return
  }

  const queue = Kinds.queueOf(object)
  if (
    job.isSuspended &&
    queue !== undefined &&
    queue !== workload.spec.queueName &&
    !Kueue.isReserved(workload) &&
    !Kueue.isEvicted(workload)
  ) {
    yield* send(
      Objects.patch(Kueue.workloads, workload, { spec: { queueName: queue } }, { manager: Kueue.kueueManager })
    )
    return
  }
  if (yield* ready(context, job, workload, options)) return

  if (Kueue.isEvicted(workload)) {
    const message = Kueue.conditionOf(workload, "Evicted")?.message ?? ""
    if (!(yield* stopped(context, job, workload, message))) return
    const current = view.get(Kueue.workloads, workload.metadata.namespace, workload.metadata.name)
    if (current !== undefined && Kueue.isReserved(current) && Kueue.isEvicted(current)) yield* release(context, current)
    return
  }
  if (job.isSuspended) {
    if (Kueue.isAdmitted(workload)) {
      if (job.isActive) return
      const infos = infosOf(view, workload)
      if (typeof infos === "string") {
        yield* finish(workload, "FailedToStart", infos, at)
        return
      }
      if (yield* job.start(infos, at)) {
        yield* tell(
          context,
          job,
          "Started",
          `Admitted by clusterQueue ${workload.status?.admission?.clusterQueue ?? ""}`
        )
      }
      return
    }
    const text = pendingText(workload)
    if (Kueue.isReserved(workload) && text !== "") yield* tell(context, job, "UpdatedAdmissionCheck", text)
    return
  }
  if (!Kueue.isAdmitted(workload)) {
    const pause = yield* halt(context, job, memory, "Not admitted by cluster queue")
    if (pause !== undefined) return [pause]
  }
}

/** Stops a job that nothing has admitted; when it has just been stopped, after a while. */
function* halt(
  context: Context,
  job: Kinds.Job,
  memory: Memory,
  message: string
): Generator<Act, Wake | undefined, Answer> {
  const pause = truceBefore(context, memory, job.object.metadata.uid, job.type === Objects.jobSets ? truce : 0)
  if (pause !== undefined) return pause
  yield* suspend(job)
  if (job.type === Objects.jobSets) yield* tell(context, job, "Stopped", message)
  return undefined
}

/** A JobSet of a managed TrainJob may run only as its TrainJob does. */
function* reconcileChild(context: Context, jobSet: Objects.JobSet, parent: Objects.TrainJob, memory: Memory): Work {
  if (jobSet.spec.suspend === true || Kueue.isDeleting(jobSet)) return
  const isAdmitted = context.view
    .ownedBy(Kueue.workloads, parent.metadata.uid)
    .some((workload) => Kueue.isAdmitted(workload) && !Kueue.isFinished(workload))
  const isOver = Kinds.finishedBy(jobSet.status?.conditions, "Completed") !== undefined
  if (isAdmitted || isOver || Kinds.finishedBy(parent.status?.conditions, "Complete") !== undefined) return
  // Trainer starts it again while the TrainJob says so: that of a Workload that still counts is stopped meanwhile, that of a
  // finished one is not, and the two go on for ever
  const pause = truceBefore(context, memory, jobSet.metadata.uid, childTruce)
  if (pause !== undefined) return [pause]
  const job = Kinds.jobSetOf(context.view, jobSet)
  yield* suspend(job)
  yield* tell(context, job, "Suspended", "Kueue managed child job suspended")
}

function* orphans(context: Context, uid: string): Work {
  for (const workload of context.view.list(Kueue.workloads)) {
    if (workload.metadata.labels?.[Kueue.jobUidLabel] !== uid) continue
    yield* sendIf(Kueue.releaseFinalizer(Kueue.workloads, workload))
  }
}

function* reconcile(context: Context, options: Kueue.Options, memory: Memory): Work {
  const [kind = "", key = "", uid = ""] = context.key.split(" ")
  if (kind === "gone") return yield* orphans(context, uid)
  const { name, namespace } = Objects.splitKey(key)
  if (kind === "TrainJob") {
    const trainJob = context.view.get(Objects.trainJobs, namespace, name)
    if (trainJob === undefined || trainJob.spec.managedBy === Kueue.multiKueue) return
    return yield* reconcileJob(context, Kinds.trainJobOf(context.view, trainJob), options, memory)
  }
  const jobSet = context.view.get(Objects.jobSets, namespace, name)
  if (jobSet === undefined) return
  const parent = Kinds.managedParent(context.view, jobSet, options)
  if (parent !== undefined) return yield* reconcileChild(context, jobSet, parent, memory)
  // manageJobsWithoutQueueName means jobs, not their parts
  if (Kinds.parentOf(context.view, jobSet) !== undefined && Kinds.queueOf(jobSet) === undefined) return
  return yield* reconcileJob(context, Kinds.jobSetOf(context.view, jobSet), options, memory)
}

// how long a look at a job takes, by what happened: only orders
const stopLatency = 140
const childLatency = 80
const newLatency = 5
const goneLatency = 5
const runningGoneLatency = 40

const isRunning = (object: Objects.TrainJob | Objects.JobSet): boolean => object.spec.suspend !== true

const latencyOf = (
  change: Change,
  object: Objects.TrainJob | Objects.JobSet,
  view: View,
  options: Kueue.Options
): number | undefined => {
  if (Objects.is(Objects.jobSets, object) && Objects.controllerOf(object) !== undefined) {
    if (Kinds.managedParent(view, object, options) === undefined) return undefined
    return change.type === "ADDED" ? newLatency : childLatency
  }
  if (Kueue.isDeleting(object)) return isRunning(object) ? runningGoneLatency : goneLatency
  // a pod runs before a start by hand is undone
  return isRunning(object) ? stopLatency : undefined
}

const watches = (change: Change, view: View, options: Kueue.Options): Iterable<Wake> => {
  const { object, type } = change
  if (Objects.is(Objects.trainJobs, object) || Objects.is(Objects.jobSets, object)) {
    if (type === "DELETED") return [{ key: `gone - ${object.metadata.uid}`, latency: goneLatency }]
    const latency = latencyOf(change, object, view, options)
    return [{ key: `${object.kind} ${Objects.keyOf(object)}`, ...(latency === undefined ? {} : { latency }) }]
  }
  if (Objects.is(Kueue.workloads, object)) {
    const owner = Objects.controllerOf(object)
    return owner === undefined ? [] : [{ key: `${owner.kind} ${object.metadata.namespace ?? ""}/${owner.name}` }]
  }
  return []
}

/** The job controllers. */
export const make = (options: Kueue.Options): Stage => ({
  name: "kueue-job",
  latency: 30,
  start: () => {
    const memory: Memory = { stops: new Map() }
    return {
      watches: (change, view) => watches(change, view, options),
      reconcile: (context) => reconcile(context, options, memory)
    }
  }
})
