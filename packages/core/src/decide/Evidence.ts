/**
 * What was seen of a TrainJob and of everything it started, kept as plain data, because no single object of the cluster
 * keeps the cause of a pod's end: pods are deleted, conditions overwritten, Workloads replaced. `fold` takes observations
 * in any order and any number of times.
 *
 * One `Evidence` is about one name in one namespace. TrainJobs that used the name one after another are told apart by uid.
 *
 * @module
 */
import { DateTime, Option, Schema } from "effect"
import { admissionAnnotation } from "../AdapterConfig.js"
import * as Batch from "../model/Batch.js"
import * as Core from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import * as Kueue from "../model/Kueue.js"
import {
  Condition,
  condition,
  controllerOf,
  type ObjectMeta,
  type OwnerReference,
  trueCondition
} from "../model/Meta.js"
import * as Trainer from "../model/Trainer.js"
import * as Execution from "./Execution.js"

/**
 * Whether the object exists; `seen`: its deletion was told with its last state; `inferred`: it was missing after a gap, so
 * its last state here need not be its final one.
 */
export const Presence = Schema.Literal("present", "seen", "inferred")
/** See the schema of the same name. */
export type Presence = typeof Presence.Type

const kept = {
  presence: Presence,
  /** When this state was first seen, epoch milliseconds. */
  seenAt: Schema.Number,
  /** When the deletion was noticed, epoch milliseconds. */
  goneAt: Schema.optional(Schema.Number)
}

/** A real termination of one container, as the kubelet reported it first. */
export const Ending = Schema.Struct({
  container: Schema.String,
  role: Schema.Literal("main", "init", "sidecar"),
  restartCount: Schema.Number,
  /** Seen before the pod had a deletionTimestamp: the exit came first. */
  beforeDeletion: Schema.Boolean,
  terminated: Core.Terminated
})
/** See the schema of the same name. */
export type Ending = typeof Ending.Type

/** What is kept of a pod. */
export const PodEvidence = Schema.Struct({
  ...kept,
  /** The last state, without what is never read. */
  pod: Core.Pod,
  /** First real termination records, oldest first: `ContainerStatusUnknown` afterwards does not replace them. */
  endings: Schema.Array(Ending),
  /** `DisruptionTarget` True in each form that it had, oldest first: PodGC overwrites what the taint manager wrote. */
  disruptions: Schema.Array(Condition),
  /**
   * When the deletion was asked for (RFC 3339). The kubelet moves `deletionTimestamp` to the end: when only that was seen,
   * this is the latest possible time and `deletionIsExact` is false.
   */
  deletionRequestedAt: Schema.optional(Schema.String),
  deletionIsExact: Schema.optional(Schema.Boolean),
  /** A container was seen to run after the deletion was asked for, at the earliest this time (RFC 3339). */
  ranAfterDeletion: Schema.optional(Schema.String),
  /** A container of it was once seen that had been started. */
  wasStarted: Schema.optional(Schema.Boolean),
  /** The Node as it was while the pod had not ended. */
  node: Schema.optional(
    Schema.Struct({
      name: Schema.String,
      uid: Schema.String,
      bootID: Schema.optional(Schema.String),
      machineID: Schema.optional(Schema.String),
      systemUUID: Schema.optional(Schema.String),
      at: Schema.Number,
      /** The bootID was read when the pod could be started no more: no later boot runs a process of it. */
      bootIsLast: Schema.optional(Schema.Boolean)
    })
  )
})
/** See the schema of the same name. */
export type PodEvidence = typeof PodEvidence.Type

/** What is kept of a TrainJob. */
export const TrainJobEvidence = Schema.Struct({
  ...kept,
  trainJob: Trainer.TrainJob,
  /** The first Complete or Failed. The Trainer takes Failed back when it re-creates a JobSet; the evidence does not. */
  terminal: Schema.optional(Condition),
  /** The states of condition Suspended, oldest first. */
  suspensions: Schema.Array(Condition)
})
/** See the schema of the same name. */
export type TrainJobEvidence = typeof TrainJobEvidence.Type

/** What is kept of a JobSet. */
export const JobSetEvidence = Schema.Struct({ ...kept, jobSet: JobSet.JobSet })
/** See the schema of the same name. */
export type JobSetEvidence = typeof JobSetEvidence.Type

/** What is kept of a Job. */
export const JobEvidence = Schema.Struct({
  ...kept,
  job: Batch.Job,
  /** Every start time seen: suspending removes it, resuming sets a new one. */
  startTimes: Schema.Array(Schema.String),
  /** The most pods at a time that it was seen to want while it was started. */
  mostPods: Schema.optional(Schema.Number)
})
/** See the schema of the same name. */
export type JobEvidence = typeof JobEvidence.Type

/** One eviction of a Workload: one reservation lost, which need not have ended an execution. */
export const Eviction = Schema.Struct({
  /** Reason of condition Evicted, e.g. `Preempted`, `Deactivated`. */
  reason: Schema.String,
  message: Schema.optional(Schema.String),
  /** `condition`: seen itself; `stats`: only the counter told it. */
  source: Schema.Literal("condition", "stats"),
  /** RFC 3339, of the condition. */
  at: Schema.optional(Schema.String),
  /** The counter grew after this, epoch milliseconds; absent when the Workload was not known before. */
  after: Schema.optional(Schema.Number),
  /** When it was noticed, epoch milliseconds. */
  noticedAt: Schema.Number
})
/** See the schema of the same name. */
export type Eviction = typeof Eviction.Type

/** What is kept of a Workload. It can be replaced under its name: each uid has its own evidence. */
export const WorkloadEvidence = Schema.Struct({
  ...kept,
  workload: Kueue.Workload,
  /** Oldest first. */
  evictions: Schema.Array(Eviction)
})
/** See the schema of the same name. */
export type WorkloadEvidence = typeof WorkloadEvidence.Type

/** A Node as it was once read. */
export const NodeSighting = Schema.Struct({
  /** Epoch milliseconds. */
  at: Schema.Number,
  /** Absent: there was no Node of that name. */
  uid: Schema.optional(Schema.String),
  bootID: Schema.optional(Schema.String),
  ready: Schema.optional(Condition),
  taints: Schema.Array(Core.Taint)
})
/** See the schema of the same name. */
export type NodeSighting = typeof NodeSighting.Type

/** What is kept of an Event about the TrainJob. Events support other evidence; alone they prove little. */
export const EventEvidence = Schema.Struct({
  uid: Schema.String,
  kind: Schema.String,
  name: Schema.String,
  regardingUid: Schema.optional(Schema.String),
  reason: Schema.String,
  message: Schema.optional(Schema.String),
  /** RFC 3339, of the last repetition. */
  at: Schema.optional(Schema.String),
  /** Of the first repetition. */
  firstAt: Schema.optional(Schema.String)
})
/** See the schema of the same name. */
export type EventEvidence = typeof EventEvidence.Type

const byUid = <A, I>(value: Schema.Schema<A, I>) => Schema.Record({ key: Schema.String, value })

/** All evidence about one name. Plain JSON. */
export const Evidence = Schema.Struct({
  namespace: Schema.String,
  name: Schema.String,
  trainJobs: byUid(TrainJobEvidence),
  jobSets: byUid(JobSetEvidence),
  jobs: byUid(JobEvidence),
  pods: byUid(PodEvidence),
  workloads: byUid(WorkloadEvidence),
  /** By Node name, oldest sighting first. */
  nodes: Schema.Record({ key: Schema.String, value: Schema.Array(NodeSighting) }),
  events: Schema.Array(EventEvidence),
  /** Pods of earlier executions that were given up to bound the size. */
  droppedPods: Schema.Number
})
/** See the schema of the same name. */
export type Evidence = typeof Evidence.Type

/** One thing that was seen. `at` is the observer's clock, epoch milliseconds. */
export type Observation =
  | { readonly _tag: "TrainJob"; readonly object: Trainer.TrainJob; readonly presence: Presence; readonly at: number }
  | { readonly _tag: "JobSet"; readonly object: JobSet.JobSet; readonly presence: Presence; readonly at: number }
  | { readonly _tag: "Job"; readonly object: Batch.Job; readonly presence: Presence; readonly at: number }
  | { readonly _tag: "Pod"; readonly object: Core.Pod; readonly presence: Presence; readonly at: number }
  | { readonly _tag: "Workload"; readonly object: Kueue.Workload; readonly presence: Presence; readonly at: number }
  /** `node` undefined: there is no Node of that name. */
  | { readonly _tag: "Node"; readonly name: string; readonly node: Core.Node | undefined; readonly at: number }
  | { readonly _tag: "Event"; readonly object: Core.Event; readonly at: number }

/** How much is kept. */
export interface Limits {
  /** Pods of earlier executions, in all. The current (or last) execution is always kept whole. Default 2000. */
  readonly earlierPods: number
}

export const defaultLimits: Limits = { earlierPods: 2000 }

const sightingsKept = 8
const endingsKept = 8
const conditionsKept = 16
const evictionsKept = 512
const eventsKept = 32
const startTimesKept = 32

/** Nothing seen yet. */
export const empty = (namespace: string, name: string): Evidence => ({
  namespace,
  name,
  trainJobs: {},
  jobSets: {},
  jobs: {},
  pods: {},
  workloads: {},
  nodes: {},
  events: [],
  droppedPods: 0
})

// Decimal digits from `at` on; negative when there is another character among them
const digits = (text: string, at: number, count: number): number => {
  let value = 0
  for (let index = at; index < at + count; index++) {
    const digit = text.charCodeAt(index) - 48
    if (!(digit >= 0 && digit <= 9)) return -1
    value = value * 10 + digit
  }
  return value
}

/**
 * The times that an API server writes, `2026-11-29T17:04:10Z` and with a fraction: nearly all there are, and read on every
 * event. Undefined says nothing.
 */
const plainMillis = (time: string): number | undefined => {
  const { length } = time
  if (
    length < 20 ||
    time.charCodeAt(4) !== 45 ||
    time.charCodeAt(7) !== 45 ||
    time.charCodeAt(10) !== 84 ||
    time.charCodeAt(13) !== 58 ||
    time.charCodeAt(16) !== 58 ||
    time.charCodeAt(length - 1) !== 90
  ) {
    return undefined
  }
  const year = digits(time, 0, 4)
  const month = digits(time, 5, 2)
  const day = digits(time, 8, 2)
  const hour = digits(time, 11, 2)
  const minute = digits(time, 14, 2)
  const second = digits(time, 17, 2)
  // What the rest of the calendar is, is left to the library
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > (month === 2 ? 28 : 30)) return undefined
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return undefined
  let fraction = 0
  if (length > 20) {
    const places = length - 21
    if (time.charCodeAt(19) !== 46 || places < 1 || digits(time, 20, places) < 0) return undefined
    const used = Math.min(places, 3)
    fraction = digits(time, 20, used) * 10 ** (3 - used)
  }
  // Days of the civil calendar, with years that begin in March
  const shifted = month > 2 ? year : year - 1
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  const days =
    365 * shifted +
    Math.floor(shifted / 4) -
    Math.floor(shifted / 100) +
    Math.floor(shifted / 400) +
    dayOfYear -
    719_468
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction
}

/** RFC 3339 as epoch milliseconds; undefined when absent or not a time. */
export const millis = (time: string | null | undefined): number | undefined =>
  time === null || time === undefined
    ? undefined
    : (plainMillis(time) ?? Option.getOrUndefined(Option.map(DateTime.make(time), DateTime.toEpochMillis)))

/** Whether a termination record is the kubelet's own knowledge, not a placeholder for a container it could not find. */
export const isReal = (terminated: Core.Terminated): boolean => terminated.reason !== "ContainerStatusUnknown"

/** The name of the TrainJob that an object belongs to; undefined when it belongs to none. */
export const trainJobNameOf = (observation: Exclude<Observation, { readonly _tag: "Node" }>): string | undefined => {
  switch (observation._tag) {
    case "TrainJob":
      return observation.object.metadata.name
    case "JobSet": {
      const owner = controllerOf(observation.object.metadata)
      return owner?.kind === "TrainJob" ? owner.name : undefined
    }
    case "Job":
    case "Pod":
      return observation.object.metadata.labels?.[JobSet.jobSetNameLabel]
    case "Workload": {
      const owner = controllerOf(observation.object.metadata)
      return owner?.kind === "TrainJob" ? owner.name : undefined
    }
    case "Event": {
      const { kind, name } = observation.object.involvedObject
      return kind === "TrainJob" ? (name ?? undefined) : undefined
    }
  }
}

const keptLabels = [
  JobSet.jobSetNameLabel,
  JobSet.jobSetUidLabel,
  JobSet.replicatedJobLabel,
  JobSet.jobIndexLabel,
  JobSet.restartAttemptLabel,
  Batch.jobNameLabel,
  Batch.controllerUidLabel,
  Batch.completionIndexLabel,
  Trainer.ancestorStepLabel,
  Kueue.jobUidLabel,
  Kueue.queueNameLabel
]
const keptAnnotations = [admissionAnnotation, Batch.completionIndexLabel]

const pick = (
  from: Readonly<Record<string, string>> | null | undefined,
  keys: ReadonlyArray<string>
): Record<string, string> => {
  const result: Record<string, string> = {}
  for (const key of keys) {
    const value = from?.[key]
    if (value !== undefined) result[key] = value
  }
  return result
}

/** Drops absent fields, so that what is kept equals what comes back from JSON. */
const compact = <A extends object>(value: A): A => {
  const result: Partial<A> = {}
  for (const key in value) {
    const field = value[key]
    if (field !== undefined && field !== null) result[key] = field
  }
  return result as A
}

const ownerOf = (owner: OwnerReference): OwnerReference =>
  compact({
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.name,
    uid: owner.uid,
    controller: owner.controller
  })

const metaOf = (meta: ObjectMeta): ObjectMeta =>
  compact({
    name: meta.name,
    namespace: meta.namespace,
    uid: meta.uid,
    resourceVersion: meta.resourceVersion,
    generation: meta.generation,
    creationTimestamp: meta.creationTimestamp,
    deletionTimestamp: meta.deletionTimestamp,
    deletionGracePeriodSeconds: meta.deletionGracePeriodSeconds,
    labels: pick(meta.labels, keptLabels),
    annotations: pick(meta.annotations, keptAnnotations),
    ownerReferences: meta.ownerReferences?.map(ownerOf)
  })

const conditionOf = (from: Condition): Condition =>
  compact({
    type: from.type,
    status: from.status,
    reason: from.reason,
    message: from.message,
    lastTransitionTime: from.lastTransitionTime
  })
const conditionsOf = (from: ReadonlyArray<Condition> | null | undefined): ReadonlyArray<Condition> =>
  (from ?? []).map(conditionOf)

const terminatedOf = (from: Core.Terminated): Core.Terminated =>
  compact({
    exitCode: from.exitCode,
    signal: from.signal,
    reason: from.reason,
    message: from.message,
    startedAt: from.startedAt,
    finishedAt: from.finishedAt,
    containerID: from.containerID
  })

const stateOf = (from: typeof Core.ContainerState.Type): typeof Core.ContainerState.Type =>
  compact({
    waiting: from.waiting ? compact({ reason: from.waiting.reason, message: from.waiting.message }) : undefined,
    running: from.running ? compact({ startedAt: from.running.startedAt }) : undefined,
    terminated: from.terminated ? terminatedOf(from.terminated) : undefined
  })

const containerStatusOf = (from: Core.ContainerStatus): Core.ContainerStatus =>
  compact({
    name: from.name,
    state: from.state ? stateOf(from.state) : undefined,
    lastState: from.lastState ? stateOf(from.lastState) : undefined,
    restartCount: from.restartCount,
    containerID: from.containerID
  })

const containerOf = (from: typeof Core.Container.Type): typeof Core.Container.Type =>
  compact({
    name: from.name,
    image: from.image,
    restartPolicy: from.restartPolicy,
    restartPolicyRules: from.restartPolicyRules?.map(({ action }) => compact({ action }))
  })

const podOf = (from: Core.Pod): Core.Pod => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    nodeName: from.spec?.nodeName === "" ? undefined : from.spec?.nodeName,
    restartPolicy: from.spec?.restartPolicy,
    containers: from.spec?.containers?.map(containerOf),
    initContainers: from.spec?.initContainers?.map(containerOf),
    ephemeralContainers: from.spec?.ephemeralContainers?.map(containerOf)
  }),
  status: compact({
    phase: from.status?.phase,
    reason: from.status?.reason,
    message: from.status?.message,
    startTime: from.status?.startTime,
    conditions: conditionsOf(from.status?.conditions),
    containerStatuses: from.status?.containerStatuses?.map(containerStatusOf),
    initContainerStatuses: from.status?.initContainerStatuses?.map(containerStatusOf),
    ephemeralContainerStatuses: from.status?.ephemeralContainerStatuses?.map(containerStatusOf)
  })
})

const trainJobOf = (from: Trainer.TrainJob): Trainer.TrainJob => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    suspend: from.spec?.suspend,
    activeDeadlineSeconds: from.spec?.activeDeadlineSeconds,
    managedBy: from.spec?.managedBy,
    trainer: from.spec?.trainer ? compact({ numNodes: from.spec.trainer.numNodes }) : undefined
  }),
  status: { conditions: conditionsOf(from.status?.conditions) }
})

const jobSetOf = (from: JobSet.JobSet): JobSet.JobSet => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    suspend: from.spec?.suspend,
    startupPolicy: from.spec?.startupPolicy
      ? compact({ startupPolicyOrder: from.spec.startupPolicy.startupPolicyOrder })
      : undefined,
    replicatedJobs: from.spec?.replicatedJobs?.map((job) =>
      compact({
        name: job.name,
        replicas: job.replicas,
        dependsOn: job.dependsOn?.map(({ name, status }) => compact({ name, status })),
        template: {
          metadata: { labels: pick(job.template?.metadata?.labels, keptLabels) },
          spec: compact({
            parallelism: job.template?.spec?.parallelism,
            completions: job.template?.spec?.completions
          })
        }
      })
    )
  }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    restarts: from.status?.restarts,
    terminalState: from.status?.terminalState
  })
})

const jobOf = (from: Batch.Job): Batch.Job => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    parallelism: from.spec?.parallelism,
    completions: from.spec?.completions,
    backoffLimit: from.spec?.backoffLimit,
    suspend: from.spec?.suspend
  }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    startTime: from.status?.startTime,
    active: from.status?.active,
    succeeded: from.status?.succeeded,
    failed: from.status?.failed,
    completedIndexes: from.status?.completedIndexes
  })
})

const workloadOf = (from: Kueue.Workload): Kueue.Workload => ({
  metadata: metaOf(from.metadata),
  spec: compact({ active: from.spec?.active, queueName: from.spec?.queueName, priority: from.spec?.priority }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    admissionChecks: from.status?.admissionChecks?.map((check) =>
      compact({ name: check.name, state: check.state, message: check.message })
    ),
    schedulingStats: from.status?.schedulingStats
      ? compact({
          evictions: from.status.schedulingStats.evictions?.map((it) =>
            compact({ reason: it.reason, underlyingCause: it.underlyingCause, count: it.count })
          )
        })
      : undefined
  })
})

// Versions of one resource are ordered (KEP-5504, documented from 1.35 on, and so in fact before). What is not a number
// cannot be ordered: then the later observation counts
const isStale = (incoming: ObjectMeta, known: ObjectMeta): boolean => {
  const [a, b] = [incoming.resourceVersion ?? "", known.resourceVersion ?? ""]
  if (!/^[0-9]+$/.test(a) || !/^[0-9]+$/.test(b)) return false
  return a.length === b.length ? a < b : a.length < b.length
}

const isSame = (incoming: ObjectMeta, known: ObjectMeta): boolean =>
  incoming.resourceVersion !== undefined &&
  incoming.resourceVersion !== null &&
  incoming.resourceVersion === known.resourceVersion

interface Kept {
  readonly presence: Presence
  readonly seenAt: number
  readonly goneAt?: number | undefined
}

/** A uid that is gone never comes back; a deletion that was told outweighs one that was inferred. */
const presenceAfter = (known: Kept | undefined, presence: Presence, at: number): Pick<Kept, "presence" | "goneAt"> => {
  const before = known?.presence ?? "present"
  if (before === "seen" || (before === "inferred" && presence !== "seen")) {
    return { presence: before, ...(known?.goneAt === undefined ? {} : { goneAt: known.goneAt }) }
  }
  if (presence === "present") return { presence }
  return { presence, goneAt: known?.goneAt ?? at }
}

const keptAfter = (
  known: Kept | undefined,
  meta: ObjectMeta | undefined,
  incoming: ObjectMeta,
  presence: Presence,
  at: number
): { readonly kept: Kept; readonly useIncoming: boolean } => {
  const after = presenceAfter(known, presence, at)
  if (known === undefined || meta === undefined) return { kept: { ...after, seenAt: at }, useIncoming: true }
  if (isStale(incoming, meta)) return { kept: { ...after, seenAt: known.seenAt }, useIncoming: false }
  if (isSame(incoming, meta)) return { kept: { ...after, seenAt: known.seenAt }, useIncoming: false }
  return { kept: { ...after, seenAt: at }, useIncoming: true }
}

const distinctConditions = (
  known: ReadonlyArray<Condition>,
  incoming: ReadonlyArray<Condition>
): ReadonlyArray<Condition> => {
  let result = known
  for (const it of incoming) {
    const same = (other: Condition): boolean =>
      other.status === it.status && other.reason === it.reason && other.lastTransitionTime === it.lastTransitionTime
    if (!result.some(same)) result = [...result, it]
  }
  if (result === known) return known
  return result
    .toSorted((a, b) => (millis(a.lastTransitionTime) ?? 0) - (millis(b.lastTransitionTime) ?? 0))
    .slice(-conditionsKept)
}

/** The containers of a pod with their statuses, in the order main, init. */
export const containersOf = (
  pod: Core.Pod
): ReadonlyArray<{
  readonly name: string
  readonly role: Ending["role"]
  readonly status: Core.ContainerStatus | undefined
}> => {
  const main = pod.spec?.containers ?? []
  const init = pod.spec?.initContainers ?? []
  const find = (
    statuses: ReadonlyArray<Core.ContainerStatus> | null | undefined,
    name: string
  ): Core.ContainerStatus | undefined => statuses?.find((status) => status.name === name)
  const orphans = (
    statuses: ReadonlyArray<Core.ContainerStatus> | null | undefined,
    known: ReadonlyArray<{ readonly name: string }>
  ): ReadonlyArray<Core.ContainerStatus> =>
    (statuses ?? []).filter((status) => !known.some((container) => container.name === status.name))
  return [
    ...main.map(({ name }) => ({ name, role: "main" as const, status: find(pod.status?.containerStatuses, name) })),
    ...orphans(pod.status?.containerStatuses, main).map((status) => ({
      name: status.name,
      role: "main" as const,
      status
    })),
    ...init.map(({ name, restartPolicy }) => ({
      name,
      role: restartPolicy === "Always" ? ("sidecar" as const) : ("init" as const),
      status: find(pod.status?.initContainerStatuses, name)
    })),
    ...orphans(pod.status?.initContainerStatuses, init).map((status) => ({
      name: status.name,
      role: "init" as const,
      status
    }))
  ]
}

const isDeleting = (meta: ObjectMeta): boolean =>
  meta.deletionTimestamp !== undefined && meta.deletionTimestamp !== null

const endingsIn = (pod: Core.Pod): ReadonlyArray<Ending> =>
  containersOf(pod).flatMap(({ name, role, status }) => {
    const restartCount = status?.restartCount ?? 0
    const records: ReadonlyArray<readonly [Core.Terminated | null | undefined, number]> = [
      [status?.lastState?.terminated, Math.max(0, restartCount - 1)],
      [status?.state?.terminated, restartCount]
    ]
    return records.flatMap(([terminated, count]) =>
      terminated !== null && terminated !== undefined && isReal(terminated)
        ? [
            {
              container: name,
              role,
              restartCount: count,
              beforeDeletion: !isDeleting(pod.metadata),
              terminated: terminatedOf(terminated)
            }
          ]
        : []
    )
  })

const sameEnding = (a: Ending, b: Ending): boolean =>
  a.container === b.container &&
  (a.terminated.containerID !== undefined && a.terminated.containerID !== ""
    ? a.terminated.containerID === b.terminated.containerID
    : a.restartCount === b.restartCount)

const endingsAfter = (known: ReadonlyArray<Ending>, pod: Core.Pod): ReadonlyArray<Ending> => {
  let result = known
  for (const ending of endingsIn(pod)) {
    const before = result.find((other) => sameEnding(other, ending))
    if (before === undefined) result = [...result, ending]
    else if (ending.beforeDeletion && !before.beforeDeletion) {
      result = result.map((other) => (other === before ? { ...other, beforeDeletion: true } : other))
    }
  }
  if (result === known) return known
  const sorted = result.toSorted(
    (a, b) =>
      (a.container < b.container ? -1 : a.container > b.container ? 1 : 0) ||
      a.restartCount - b.restartCount ||
      (millis(a.terminated.finishedAt) ?? 0) - (millis(b.terminated.finishedAt) ?? 0)
  )
  const containers = [...new Set(sorted.map(({ container }) => container))]
  return containers.flatMap((name) => sorted.filter(({ container }) => container === name).slice(-endingsKept))
}

const iso = (epochMillis: number): string => DateTime.formatIso(DateTime.unsafeMake(epochMillis))

type DeletionRequest = Pick<PodEvidence, "deletionRequestedAt" | "deletionIsExact">

/** When the deletion was asked for: the API server adds the grace period to that time. */
const deletionAfter = (known: DeletionRequest | undefined, meta: ObjectMeta): DeletionRequest => {
  const until = millis(meta.deletionTimestamp)
  const before: DeletionRequest =
    known?.deletionRequestedAt === undefined
      ? {}
      : { deletionRequestedAt: known.deletionRequestedAt, deletionIsExact: known.deletionIsExact === true }
  if (until === undefined) return before
  const grace = meta.deletionGracePeriodSeconds ?? 0
  const next: DeletionRequest = { deletionRequestedAt: iso(until - grace * 1000), deletionIsExact: grace > 0 }
  if (before.deletionRequestedAt === undefined) return next
  if (before.deletionIsExact !== next.deletionIsExact) return before.deletionIsExact === true ? before : next
  return (millis(before.deletionRequestedAt) ?? 0) <= (millis(next.deletionRequestedAt) ?? 0) ? before : next
}

/** The first sight of a pod that is being deleted and runs: what ends later was deleted before. */
const ranAfter = (known: PodEvidence | undefined, pod: Core.Pod): Pick<PodEvidence, "ranAfterDeletion"> => {
  const { deletionTimestamp } = pod.metadata
  if (known?.ranAfterDeletion !== undefined) return { ranAfterDeletion: known.ranAfterDeletion }
  const runs = pod.status?.containerStatuses?.some(({ state }) => (state?.running ?? undefined) !== undefined) ?? false
  return typeof deletionTimestamp === "string" && runs
    ? {
        ranAfterDeletion: iso((millis(deletionTimestamp) ?? 0) - (pod.metadata.deletionGracePeriodSeconds ?? 0) * 1000)
      }
    : {}
}

type StringMap = Readonly<Record<string, string>> | null | undefined

/** What is known and what is new of some keys; the very same record where nothing is. */
const withNew = (
  known: StringMap,
  incoming: StringMap,
  keys: ReadonlyArray<string>
): Readonly<Record<string, string>> => {
  if (!known) return pick(incoming, keys)
  if (incoming) {
    for (const key of keys) {
      if (incoming[key] !== undefined && known[key] === undefined) return { ...pick(incoming, keys), ...known }
    }
  }
  return known
}

const sameList = <A>(
  a: ReadonlyArray<A> | null | undefined,
  b: ReadonlyArray<A> | null | undefined,
  same: (a: A, b: A) => boolean
): boolean => {
  if (a === b) return true
  if (!a || !b || a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) {
    const [left, right] = [a[index], b[index]]
    if (left !== undefined && right !== undefined && left !== right && !same(left, right)) return false
  }
  return true
}

/** What the server leaves out and what it writes as null is the same. */
const sameField = (a: unknown, b: unknown): boolean =>
  a === b || ((a ?? undefined) === undefined && (b ?? undefined) === undefined)

const sameOwner = (a: OwnerReference, b: OwnerReference): boolean =>
  a.uid === b.uid &&
  a.name === b.name &&
  a.kind === b.kind &&
  a.apiVersion === b.apiVersion &&
  sameField(a.controller, b.controller)

const sameContainer = (a: typeof Core.Container.Type, b: typeof Core.Container.Type): boolean =>
  a.name === b.name &&
  sameField(a.image, b.image) &&
  sameField(a.restartPolicy, b.restartPolicy) &&
  sameList(a.restartPolicyRules, b.restartPolicyRules, (one, other) => sameField(one.action, other.action))

const sameCondition = (a: Condition, b: Condition): boolean =>
  a.type === b.type &&
  a.status === b.status &&
  sameField(a.reason, b.reason) &&
  sameField(a.message, b.message) &&
  sameField(a.lastTransitionTime, b.lastTransitionTime)

/** Whether neither ever terminated and both wait for the same, or run since the same time. */
const sameStatus = (a: Core.ContainerStatus, b: Core.ContainerStatus): boolean =>
  a.name === b.name &&
  sameField(a.restartCount, b.restartCount) &&
  sameField(a.containerID, b.containerID) &&
  !a.lastState &&
  !b.lastState &&
  !a.state?.terminated &&
  !b.state?.terminated &&
  !a.state === !b.state &&
  !a.state?.running === !b.state?.running &&
  sameField(a.state?.running?.startedAt, b.state?.running?.startedAt) &&
  !a.state?.waiting === !b.state?.waiting &&
  sameField(a.state?.waiting?.reason, b.state?.waiting?.reason) &&
  sameField(a.state?.waiting?.message, b.state?.waiting?.message)

/** The list with what is the same taken from the known one: nearly all of a pod is, from one of its states to the next. */
const shared = <A>(
  known: ReadonlyArray<A> | null | undefined,
  incoming: ReadonlyArray<A> | null | undefined,
  same: (a: A, b: A) => boolean,
  keep: (from: A) => A
): ReadonlyArray<A> | undefined => {
  if (!incoming) return undefined
  if (known && sameList(known, incoming, same)) return known
  return incoming.map((item, index) => {
    const before = known?.[index]
    return before !== undefined && same(before, item) ? before : keep(item)
  })
}

/** What is kept of the next state of a pod. */
const podFrom = (known: Core.Pod, from: Core.Pod): Core.Pod => {
  const { metadata, spec, status } = from
  const nodeName = spec?.nodeName === "" ? undefined : spec?.nodeName
  const containers = shared(known.spec?.containers, spec?.containers, sameContainer, containerOf)
  const initContainers = shared(known.spec?.initContainers, spec?.initContainers, sameContainer, containerOf)
  const ephemeralContainers = shared(
    known.spec?.ephemeralContainers,
    spec?.ephemeralContainers,
    sameContainer,
    containerOf
  )
  const isSameSpec =
    sameField(known.spec?.nodeName, nodeName) &&
    sameField(known.spec?.restartPolicy, spec?.restartPolicy) &&
    containers === (known.spec?.containers ?? undefined) &&
    initContainers === (known.spec?.initContainers ?? undefined) &&
    ephemeralContainers === (known.spec?.ephemeralContainers ?? undefined)
  return {
    metadata: compact({
      name: metadata.name,
      namespace: metadata.namespace,
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      generation: metadata.generation,
      creationTimestamp: metadata.creationTimestamp,
      deletionTimestamp: metadata.deletionTimestamp,
      deletionGracePeriodSeconds: metadata.deletionGracePeriodSeconds,
      // Labels that tell what the pod belongs to never change by themselves; somebody who removes one does not change
      // what it is
      labels: withNew(known.metadata.labels, metadata.labels, keptLabels),
      annotations: withNew(known.metadata.annotations, metadata.annotations, keptAnnotations),
      ownerReferences: shared(known.metadata.ownerReferences, metadata.ownerReferences, sameOwner, ownerOf)
    }),
    spec: isSameSpec
      ? known.spec
      : compact({ nodeName, restartPolicy: spec?.restartPolicy, containers, initContainers, ephemeralContainers }),
    status: compact({
      phase: status?.phase,
      reason: status?.reason,
      message: status?.message,
      startTime: status?.startTime,
      conditions: shared(known.status?.conditions, status?.conditions ?? [], sameCondition, conditionOf),
      containerStatuses: shared(
        known.status?.containerStatuses,
        status?.containerStatuses,
        sameStatus,
        containerStatusOf
      ),
      initContainerStatuses: shared(
        known.status?.initContainerStatuses,
        status?.initContainerStatuses,
        sameStatus,
        containerStatusOf
      ),
      ephemeralContainerStatuses: shared(
        known.status?.ephemeralContainerStatuses,
        status?.ephemeralContainerStatuses,
        sameStatus,
        containerStatusOf
      )
    })
  }
}

const hasTerminated = (statuses: ReadonlyArray<Core.ContainerStatus> | null | undefined): boolean =>
  statuses?.some(({ state, lastState }) => state?.terminated || lastState?.terminated) ?? false

const hasStarted = ({ status }: Core.Pod): boolean =>
  [status?.initContainerStatuses, status?.containerStatuses].some((statuses) =>
    statuses?.some(
      ({ containerID, lastState, state }) =>
        state?.running ||
        [containerID, state?.terminated?.containerID, lastState?.terminated?.containerID].some(
          (id) => (id ?? "") !== ""
        )
    )
  )

/** What is kept of a pod after an observation; the very same where it says nothing new. */
const podAfter = (
  known: PodEvidence | undefined,
  { object, presence, at }: Extract<Observation, { readonly _tag: "Pod" }>
): PodEvidence => {
  const { kept, useIncoming } = keptAfter(known, known?.pod.metadata, object.metadata, presence, at)
  if (
    known !== undefined &&
    !useIncoming &&
    isSame(object.metadata, known.pod.metadata) &&
    kept.presence === known.presence
  ) {
    return known
  }
  const incoming = known === undefined ? podOf(object) : podFrom(known.pod, object)
  const pod = useIncoming ? incoming : (known?.pod ?? incoming)
  const disruption = trueCondition(incoming.status?.conditions, "DisruptionTarget")
  return {
    ...kept,
    pod,
    endings:
      hasTerminated(incoming.status?.containerStatuses) || hasTerminated(incoming.status?.initContainerStatuses)
        ? endingsAfter(known?.endings ?? [], incoming)
        : (known?.endings ?? []),
    disruptions: distinctConditions(known?.disruptions ?? [], disruption === undefined ? [] : [disruption]),
    ...deletionAfter(known, object.metadata),
    ...ranAfter(known, object),
    ...(known?.wasStarted === true || hasStarted(object) ? { wasStarted: true } : {}),
    ...(known?.node === undefined ? {} : { node: known.node })
  }
}

const terminalOf = (conditions: ReadonlyArray<Condition> | null | undefined): Condition | undefined =>
  trueCondition(conditions, "Complete") ?? trueCondition(conditions, "Failed")

const foldTrainJob = (evidence: Evidence, object: Trainer.TrainJob, presence: Presence, at: number): Evidence => {
  const { uid } = object.metadata
  const known = evidence.trainJobs[uid]
  const { kept, useIncoming } = keptAfter(known, known?.trainJob.metadata, object.metadata, presence, at)
  const incoming = trainJobOf(object)
  const candidates = [known?.terminal, terminalOf(incoming.status?.conditions)].flatMap((it) => it ?? [])
  const terminal = candidates.reduce<Condition | undefined>(
    (first, it) =>
      first === undefined || (millis(it.lastTransitionTime) ?? 0) < (millis(first.lastTransitionTime) ?? 0)
        ? it
        : first,
    undefined
  )
  const suspended = condition(incoming.status?.conditions, "Suspended")
  const next: TrainJobEvidence = {
    ...kept,
    trainJob: useIncoming ? incoming : (known?.trainJob ?? incoming),
    suspensions: distinctConditions(known?.suspensions ?? [], suspended === undefined ? [] : [suspended]),
    ...(terminal === undefined ? {} : { terminal })
  }
  return { ...evidence, trainJobs: { ...evidence.trainJobs, [uid]: next } }
}

/** Whose it is does not change when its owner is deleted and leaves it behind (`--cascade=orphan`). */
const withOwnersOf = <A extends { readonly metadata: ObjectMeta }>(known: A | undefined, incoming: A): A =>
  known === undefined || controllerOf(known.metadata) === undefined || controllerOf(incoming.metadata) !== undefined
    ? incoming
    : { ...incoming, metadata: compact({ ...incoming.metadata, ownerReferences: known.metadata.ownerReferences }) }

const foldJobSet = (evidence: Evidence, object: JobSet.JobSet, presence: Presence, at: number): Evidence => {
  const { uid } = object.metadata
  const known = evidence.jobSets[uid]
  const { kept, useIncoming } = keptAfter(known, known?.jobSet.metadata, object.metadata, presence, at)
  const incoming = withOwnersOf(known?.jobSet, jobSetOf(object))
  const next: JobSetEvidence = { ...kept, jobSet: useIncoming ? incoming : (known?.jobSet ?? incoming) }
  return { ...evidence, jobSets: { ...evidence.jobSets, [uid]: next } }
}

const foldJob = (evidence: Evidence, object: Batch.Job, presence: Presence, at: number): Evidence => {
  const { uid } = object.metadata
  const known = evidence.jobs[uid]
  const { kept, useIncoming } = keptAfter(known, known?.job.metadata, object.metadata, presence, at)
  const incoming = withOwnersOf(known?.job, jobOf(object))
  const started = incoming.status?.startTime ?? undefined
  const times = known?.startTimes ?? []
  const wanted = Math.max(known?.mostPods ?? 0, started === undefined ? 0 : (podsOfJob(incoming.spec) ?? 0))
  const next: JobEvidence = {
    ...kept,
    job: useIncoming ? incoming : (known?.job ?? incoming),
    ...(wanted === 0 ? {} : { mostPods: wanted }),
    startTimes:
      started === undefined || times.includes(started) ? times : [...times, started].toSorted().slice(-startTimesKept)
  }
  return { ...evidence, jobs: { ...evidence.jobs, [uid]: next } }
}

/** `DeactivatedDueToX` of the condition is counted under `Deactivated`. */
const statsReason = (reason: string): string => (reason.startsWith("Deactivated") ? "Deactivated" : reason)

const evictionsAfter = (
  known: WorkloadEvidence | undefined,
  incoming: Kueue.Workload,
  at: number
): ReadonlyArray<Eviction> => {
  let result: ReadonlyArray<Eviction> = known?.evictions ?? []
  const evicted = trueCondition(incoming.status?.conditions, "Evicted")
  if (evicted !== undefined) {
    const same = (it: Eviction): boolean =>
      it.source === "condition" && it.reason === evicted.reason && it.at === evicted.lastTransitionTime
    if (!result.some(same)) {
      result = [
        ...result,
        compact<Eviction>({
          reason: evicted.reason ?? "",
          message: evicted.message ?? undefined,
          source: "condition",
          at: evicted.lastTransitionTime ?? undefined,
          after: known?.seenAt,
          noticedAt: at
        })
      ]
    }
  }
  const totals = new Map<string, number>()
  for (const it of incoming.status?.schedulingStats?.evictions ?? []) {
    totals.set(it.reason, (totals.get(it.reason) ?? 0) + (it.count ?? 0))
  }
  for (const [reason, total] of totals) {
    const recorded = result.filter((it) => statsReason(it.reason) === reason).length
    // The condition may come in another write than the counter: one more is only missed when no condition accounts for it
    for (let missed = recorded; missed < Math.min(total, evictionsKept); missed += 1) {
      result = [
        ...result,
        compact<Eviction>({
          reason,
          message: undefined,
          source: "stats",
          at: undefined,
          after: known?.seenAt,
          noticedAt: at
        })
      ]
    }
  }
  // A counter that was told before its condition: the condition takes its place
  for (const [reason, total] of totals) {
    const recorded = result.filter((it) => statsReason(it.reason) === reason)
    const surplus = recorded.filter(({ source }) => source === "stats").slice(0, Math.max(0, recorded.length - total))
    if (surplus.length > 0) result = result.filter((it) => !surplus.includes(it))
  }
  return result === known?.evictions ? result : result.slice(-evictionsKept)
}

const foldWorkload = (evidence: Evidence, object: Kueue.Workload, presence: Presence, at: number): Evidence => {
  const { uid } = object.metadata
  const known = evidence.workloads[uid]
  const { kept, useIncoming } = keptAfter(known, known?.workload.metadata, object.metadata, presence, at)
  const incoming = workloadOf(object)
  const next: WorkloadEvidence = {
    ...kept,
    workload: useIncoming ? incoming : (known?.workload ?? incoming),
    evictions: useIncoming ? evictionsAfter(known, incoming, at) : (known?.evictions ?? [])
  }
  return { ...evidence, workloads: { ...evidence.workloads, [uid]: next } }
}

const sightingOf = (node: Core.Node | undefined, at: number): NodeSighting => {
  const ready = condition(node?.status?.conditions, "Ready")
  return compact<NodeSighting>({
    at,
    uid: node?.metadata.uid,
    bootID: node?.status?.nodeInfo?.bootID ?? undefined,
    ready: ready === undefined ? undefined : conditionOf(ready),
    taints: (node?.spec?.taints ?? []).map((taint) =>
      compact({ key: taint.key, value: taint.value, effect: taint.effect, timeAdded: taint.timeAdded })
    )
  })
}

const sameSighting = (a: NodeSighting, b: NodeSighting): boolean =>
  a.uid === b.uid &&
  a.bootID === b.bootID &&
  a.ready?.status === b.ready?.status &&
  a.ready?.reason === b.ready?.reason &&
  a.ready?.lastTransitionTime === b.ready?.lastTransitionTime &&
  a.taints.length === b.taints.length &&
  a.taints.every((taint, index) => {
    const other = b.taints[index]
    return (
      other !== undefined && taint.key === other.key && taint.value === other.value && taint.effect === other.effect
    )
  })

/** Whether the pod's processes have not been told to have ended. */
export const isUnended = (pod: PodEvidence): boolean =>
  pod.presence === "present" && pod.pod.status?.phase !== "Succeeded" && pod.pod.status?.phase !== "Failed"

/**
 * Whether a container that ended may be started again while the pod has not ended. A container can have a policy of its own, and
 * rules that restart it, or all of them: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restart-rules
 * Sidecars do not count: none is started again once every other container has ended.
 */
export const mayRestart = ({ spec }: Core.Pod): boolean => {
  const isOwn = ({ restartPolicy, restartPolicyRules }: typeof Core.Container.Type): boolean =>
    (restartPolicy ?? "Never") !== "Never" || (restartPolicyRules ?? []).length > 0
  return (
    spec?.restartPolicy !== "Never" ||
    (spec.containers ?? []).some(isOwn) ||
    (spec.initContainers ?? []).some((container) => container.restartPolicy !== "Always" && isOwn(container))
  )
}

/**
 * Whether a kubelet that comes up now leaves the pod alone. It starts what is bound and was never started, whenever that was
 * bound; it does not start again what may not be restarted, is being deleted, or is gone.
 */
export const startsNoMore = ({ pod, presence }: PodEvidence): boolean => {
  const { metadata, status } = pod
  if (presence !== "present" || typeof metadata.deletionTimestamp === "string") return true
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return true
  if (mayRestart(pod)) return false
  return containersOf(pod).some(({ status: container }) => {
    const state = container?.state
    return (state?.running ?? state?.terminated ?? undefined) !== undefined
  })
}

const machineOf = (node: Core.Node) =>
  compact({
    bootID: node.status?.nodeInfo?.bootID ?? undefined,
    machineID: node.status?.nodeInfo?.machineID ?? undefined,
    systemUUID: node.status?.nodeInfo?.systemUUID ?? undefined
  })

/** What tells a machine from others that had its Node's name. */
interface Machine {
  readonly machineID?: string | null | undefined
  readonly systemUUID?: string | null | undefined
}

/** What is known of both. */
const identities = (a: Machine, b: Machine): ReadonlyArray<readonly [string, string]> =>
  (["machineID", "systemUUID"] as const).flatMap((key) => {
    const [one, other] = [a[key] ?? "", b[key] ?? ""]
    return one === "" || other === "" ? [] : [[one, other] as const]
  })

/**
 * Whether these are one machine: something that is known of both says so, and nothing speaks against it. Images are cloned with
 * their machine ID, and some firmware has no UUID, so neither is enough where the other one differs.
 */
export const isSameMachine = (a: Machine, b: Machine): boolean => {
  const told = identities(a, b)
  return told.length > 0 && told.every(([one, other]) => one === other)
}

/** Whether something that is known of both tells them apart. */
export const isOtherMachine = (a: Machine, b: Machine): boolean =>
  identities(a, b).some(([one, other]) => one !== other)

/** What is kept of the Node of a pod after it was read. */
const podWithNode = (
  it: PodEvidence,
  { at, name, node }: { readonly name: string; readonly node: Core.Node; readonly at: number }
): PodEvidence => {
  const machine = machineOf(node)
  const isLast = (machine.bootID ?? "") !== "" && at >= it.seenAt && startsNoMore(it)
  if (it.node === undefined) {
    if (!isUnended(it)) return it
    // A Node that is younger than its pod was registered again, and nobody saw whether by the same machine
    const isOwn = (node.metadata.creationTimestamp ?? "") <= (it.pod.metadata.creationTimestamp ?? "")
    const last = isLast && isOwn ? { bootIsLast: true } : {}
    return { ...it, node: { name, uid: node.metadata.uid, ...(isOwn ? machine : {}), at, ...last } }
  }
  return it.node.bootIsLast !== true && isLast && isSameMachine(it.node, machine)
    ? { ...it, node: { ...it.node, ...machine, bootIsLast: true } }
    : it
}

type NodeObservation = Extract<Observation, { readonly _tag: "Node" }>

/** Readings of Nodes, each name once: a job has thousands of pods, and they are looked through once for all of them. */
const foldNodes = (evidence: Evidence, readings: ReadonlyMap<string, NodeObservation>): Evidence => {
  let nodes: Record<string, ReadonlyArray<NodeSighting>> | undefined
  for (const [name, { at, node }] of readings) {
    const known = evidence.nodes[name] ?? []
    const sighting = sightingOf(node, at)
    const last = known.at(-1)
    if (last !== undefined && (at < last.at || sameSighting(last, sighting))) continue
    nodes ??= { ...evidence.nodes }
    nodes[name] = [...known, sighting].slice(-sightingsKept)
  }
  let pods: Record<string, PodEvidence> | undefined
  for (const [uid, it] of Object.entries(evidence.pods)) {
    const reading = readings.get(it.pod.spec?.nodeName ?? "")
    if (reading?.node === undefined) continue
    const next = podWithNode(it, { ...reading, node: reading.node })
    if (next === it) continue
    pods ??= { ...evidence.pods }
    pods[uid] = next
  }
  return nodes === undefined && pods === undefined
    ? evidence
    : { ...evidence, nodes: nodes ?? evidence.nodes, pods: pods ?? evidence.pods }
}

// A Job that may not make its pods says so at each try, with another pod's name: they would push out everything else
const isRepeated = (known: EventEvidence, next: EventEvidence): boolean =>
  next.kind !== "TrainJob" &&
  next.regardingUid !== undefined &&
  known.regardingUid === next.regardingUid &&
  known.reason === next.reason

/** What an event says, whatever the pod is called that was to be made. */
const story = ({ message }: EventEvidence): string => (message ?? "").replaceAll(/pods "[^"]*"/g, "pods")

const isSameStory = (known: EventEvidence, next: EventEvidence): boolean => story(known) === story(next)

// https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go
const combined = "(combined from similar events): "

const withEvents = (evidence: Evidence, events: ReadonlyArray<EventEvidence>): Evidence => ({
  ...evidence,
  events: events.toSorted((a, b) => (millis(a.at) ?? 0) - (millis(b.at) ?? 0)).slice(-eventsKept)
})

const foldEvent = (evidence: Evidence, object: Core.Event): Evidence => {
  const { involvedObject: regarding } = object
  const next = compact<EventEvidence>({
    uid: object.metadata.uid,
    kind: regarding.kind ?? "",
    name: regarding.name ?? "",
    regardingUid: regarding.uid ?? undefined,
    reason: object.reason ?? "",
    message: object.message?.replace(combined, "") ?? undefined,
    at: object.series?.lastObservedTime ?? object.lastTimestamp ?? object.eventTime ?? undefined,
    firstAt: object.firstTimestamp ?? object.eventTime ?? undefined
  })
  const known = evidence.events.find((it) => it.uid === next.uid || isRepeated(it, next))
  if (known === undefined) return withEvents(evidence, [...evidence.events, next])
  const isNews = (millis(next.at) ?? 0) > (millis(known.at) ?? 0)
  const isFirst = (millis(next.firstAt) ?? Number.POSITIVE_INFINITY) < (millis(known.firstAt) ?? 0)
  if (!isNews && !isFirst) return evidence
  const merged = {
    ...(isNews ? next : known),
    message: isSameStory(known, next) ? known.message : isNews ? next.message : known.message,
    firstAt: isFirst ? next.firstAt : known.firstAt
  }
  return withEvents(evidence, [...evidence.events.filter((it) => it !== known), compact<EventEvidence>(merged)])
}

/** Adds one observation. What is already known changes nothing; an observation of another name is not checked for. */
export const fold = (evidence: Evidence, observation: Observation): Evidence => {
  switch (observation._tag) {
    case "TrainJob":
      return foldTrainJob(evidence, observation.object, observation.presence, observation.at)
    case "JobSet":
      return foldJobSet(evidence, observation.object, observation.presence, observation.at)
    case "Job":
      return foldJob(evidence, observation.object, observation.presence, observation.at)
    case "Pod":
      return foldAll(evidence, [observation])
    case "Workload":
      return foldWorkload(evidence, observation.object, observation.presence, observation.at)
    case "Node":
      return foldNodes(evidence, new Map([[observation.name, observation]]))
    case "Event":
      return foldEvent(evidence, observation.object)
  }
}

/** Adds observations one after another. */
export const foldAll = (evidence: Evidence, observations: Iterable<Observation>): Evidence => {
  let result = evidence
  // Pods and Nodes come in hundreds: their record is copied once for all of them
  let pods: Record<string, PodEvidence> | undefined
  let nodes = new Map<string, NodeObservation>()
  for (const observation of observations) {
    if (observation._tag === "Node" && pods === undefined && !nodes.has(observation.name)) {
      nodes.set(observation.name, observation)
      continue
    }
    if (nodes.size > 0) {
      result = foldNodes(result, nodes)
      nodes = new Map()
    }
    if (observation._tag === "Pod") {
      const { uid } = observation.object.metadata
      const known = (pods ?? result.pods)[uid]
      const next = podAfter(known, observation)
      if (next === known) continue
      pods ??= { ...result.pods }
      pods[uid] = next
      continue
    }
    if (pods !== undefined) result = { ...result, pods }
    pods = undefined
    result = fold(result, observation)
  }
  if (nodes.size > 0) result = foldNodes(result, nodes)
  return pods === undefined ? result : { ...result, pods }
}

/** Of a pod that goes on only two conditions are read as more than a state. */
const sameState = (a: Condition, b: Condition): boolean =>
  a.type === b.type &&
  a.status === b.status &&
  a.reason === b.reason &&
  a.message === b.message &&
  ((a.type !== "PodScheduled" && a.type !== "DisruptionTarget") || a.lastTransitionTime === b.lastTransitionTime)

/**
 * Whether a pod goes on as before: it neither ended nor began to, and nothing of it changed that a classification reads of
 * such a pod. `false` promises nothing. Most writes to a pod are of this kind: a readiness that comes and goes, somebody's
 * label or annotation.
 */
export const goesOn = (before: PodEvidence | undefined, after: PodEvidence): boolean => {
  if (before === after) return true
  if (before === undefined || !isUnended(before) || !isUnended(after)) return false
  const [a, b] = [before.pod, after.pod]
  return (
    before.deletionRequestedAt === undefined &&
    after.deletionRequestedAt === undefined &&
    before.endings.length + after.endings.length === 0 &&
    before.disruptions.length + after.disruptions.length === 0 &&
    before.node === after.node &&
    a.metadata.labels === b.metadata.labels &&
    a.metadata.annotations === b.metadata.annotations &&
    a.metadata.creationTimestamp === b.metadata.creationTimestamp &&
    controllerOf(a.metadata)?.uid === controllerOf(b.metadata)?.uid &&
    a.spec?.nodeName === b.spec?.nodeName &&
    a.status?.phase === b.status?.phase &&
    a.status?.reason === undefined &&
    b.status?.reason === undefined &&
    a.status?.message === b.status?.message &&
    (a.spec === b.spec ||
      (sameList(a.spec?.containers, b.spec?.containers, sameContainer) &&
        sameList(a.spec?.initContainers, b.spec?.initContainers, sameContainer))) &&
    sameList(a.status?.conditions, b.status?.conditions, sameState) &&
    sameList(a.status?.containerStatuses, b.status?.containerStatuses, sameStatus) &&
    sameList(a.status?.initContainerStatuses, b.status?.initContainerStatuses, sameStatus)
  )
}

/** A pod as `Execution` wants it, with its evidence. */
export interface PodRecord extends Execution.PodRecord {
  readonly evidence: PodEvidence
}

/** The TrainJob that a reference means: the one with that uid, else the present one, else the one seen last. */
export const trainJob = (evidence: Evidence, uid?: string): TrainJobEvidence | undefined => {
  if (uid !== undefined) return evidence.trainJobs[uid]
  const all = Object.values(evidence.trainJobs)
  const created = (it: TrainJobEvidence): number => millis(it.trainJob.metadata.creationTimestamp) ?? 0
  return all.reduce<TrainJobEvidence | undefined>((best, it) => {
    if (best === undefined) return it
    const presence = Number(it.presence === "present") - Number(best.presence === "present")
    return presence > 0 || (presence === 0 && created(it) > created(best)) ? it : best
  }, undefined)
}

// Evidence of a pod never changes, it is replaced: a record is made once for each state of a pod
const records = new WeakMap<PodEvidence, PodRecord>()
const recordOf = (namespace: string, it: PodEvidence): PodRecord => {
  const known = records.get(it)
  if (known !== undefined && known.namespace === namespace) return known
  const made: PodRecord = { ...Execution.podRecord(it.pod, it.presence !== "present"), namespace, evidence: it }
  records.set(it, made)
  return made
}

/** The facts about one TrainJob of the name, or about the name as a whole when no TrainJob was seen. */
export const facts = (evidence: Evidence, uid?: string): Execution.Facts<PodRecord> => {
  const known = trainJob(evidence, uid)
  return {
    trainJob:
      known === undefined
        ? {
            namespace: evidence.namespace,
            name: evidence.name,
            uid,
            creationTimestamp: undefined,
            suspend: false,
            finished: false,
            gone: true
          }
        : {
            ...Execution.trainJobRecord(known.trainJob),
            namespace: evidence.namespace,
            finished: known.terminal !== undefined,
            gone: known.presence !== "present"
          },
    jobSets: Object.values(evidence.jobSets).map(({ jobSet }) => Execution.jobSetRecord(jobSet)),
    jobs: Object.values(evidence.jobs).flatMap(({ job, startTimes }) =>
      startTimes.length === 0
        ? [Execution.jobRecord(job)]
        : startTimes.map((startTime) => ({ ...Execution.jobRecord(job), startTime }))
    ),
    pods: Object.values(evidence.pods).map((it) => recordOf(evidence.namespace, it))
  }
}

/** The last answer about some evidence, and what it was made of. */
interface Answered {
  readonly evidence: Evidence
  readonly uid: string | undefined
  readonly pods: ReadonlyArray<PodEvidence>
  readonly executions: Execution.Executions<PodRecord>
}

// By the record of Jobs, which stays the very same while pods change: evidence is never changed, only replaced in part
const answers = new WeakMap<Evidence["jobs"], Answered>()

/** The last answer with the pods that changed since; undefined when one of them changed its place, or anything else did. */
const updated = (
  before: Answered | undefined,
  evidence: Evidence,
  uid: string | undefined,
  pods: ReadonlyArray<PodEvidence>
): Execution.Executions<PodRecord> | undefined => {
  if (
    before === undefined ||
    before.uid !== uid ||
    before.evidence.trainJobs !== evidence.trainJobs ||
    before.evidence.jobSets !== evidence.jobSets ||
    before.evidence.namespace !== evidence.namespace ||
    before.evidence.name !== evidence.name ||
    before.pods.length !== pods.length
  ) {
    return undefined
  }
  const changes = new Map<PodRecord, PodRecord>()
  for (let index = 0; index < pods.length; index++) {
    const [old, now] = [before.pods[index], pods[index]]
    if (old === now || old === undefined || now === undefined) continue
    const [from, to] = [recordOf(evidence.namespace, old), recordOf(evidence.namespace, now)]
    if (!Execution.isInPlace(from, to)) return undefined
    changes.set(from, to)
  }
  return changes.size === 0 ? before.executions : Execution.replace(before.executions, changes)
}

/** The executions of one TrainJob of the name. */
export const executions = (evidence: Evidence, uid?: string): Execution.Executions<PodRecord> => {
  const pods = Object.values(evidence.pods)
  const found = updated(answers.get(evidence.jobs), evidence, uid, pods) ?? Execution.executions(facts(evidence, uid))
  answers.set(evidence.jobs, { evidence, uid, pods, executions: found })
  return found
}

/** What is not known about how many pods an execution has. */
export interface Gaps {
  /** Ranks that were expected and for which no pod was ever seen, e.g. `run-1-node-0 index 1`. */
  readonly missing: ReadonlyArray<string>
  /** Jobs whose number of pods is not known. */
  readonly uncounted: ReadonlyArray<string>
}

const indexOf = (pod: PodRecord): string | undefined =>
  pod.labels[Batch.completionIndexLabel] ?? pod.annotations[Batch.completionIndexLabel]

const podsOfJob = (job: Batch.JobSpec | null | undefined): number | undefined =>
  job?.parallelism ?? job?.completions ?? undefined

// An elastic Job has had more ranks than it wants now
const mostPodsOf = (job: JobEvidence | undefined): number | undefined => {
  const wanted = podsOfJob(job?.job.spec)
  return wanted === undefined ? job?.mostPods : Math.max(wanted, job?.mostPods ?? 0)
}

/**
 * Which pods of the newest incarnation were never seen. A rank that had succeeded in an earlier execution is not started
 * again and not missed.
 */
export const gaps = (
  evidence: Evidence,
  all: Execution.Executions<PodRecord>,
  execution: Execution.Execution<PodRecord>,
  incarnation: Execution.Incarnation<PodRecord> = execution.newest,
  uid?: string
): Gaps => {
  const missing: Array<string> = []
  const uncounted: Array<string> = []
  const jobSet = evidence.jobSets[incarnation.jobSetUid]?.jobSet
  const numNodes = trainJob(evidence, uid)?.trainJob.spec?.trainer?.numNodes ?? undefined
  const replicatedJobs = new Set(incarnation.runs.map(({ replicatedJob }) => replicatedJob))
  const earlier = all.all.slice(0, all.all.indexOf(execution)).flatMap(({ pods }) => pods)
  const seen = new Map(incarnation.runs.map((run) => [run.jobName, run.pods] as const))
  const started = Object.values(evidence.jobs).filter(
    ({ job, startTimes }) =>
      job.metadata.labels?.[JobSet.jobSetUidLabel] === incarnation.jobSetUid &&
      (job.metadata.labels[JobSet.restartAttemptLabel] ?? "") === incarnation.restartAttempt &&
      startTimes.length > incarnation.ordinal
  )
  const jobs = new Map([
    ...started.map((it) => [it.job.metadata.name, mostPodsOf(it)] as const),
    ...incarnation.runs.map(
      (run) =>
        [
          run.jobName,
          mostPodsOf(evidence.jobs[run.jobUid]) ??
            podsOfJob(jobSet?.spec?.replicatedJobs?.find(({ name }) => name === run.replicatedJob)?.template?.spec) ??
            (replicatedJobs.size === 1 ? numNodes : undefined)
        ] as const
    )
  ])
  for (const [jobName, expected] of jobs) {
    if (expected === undefined) {
      uncounted.push(jobName)
      continue
    }
    const pods = seen.get(jobName) ?? []
    const done = earlier.filter((pod) => pod.labels[Batch.jobNameLabel] === jobName && pod.phase === "Succeeded")
    const known = [...pods, ...done]
    if (known.every((pod) => indexOf(pod) !== undefined)) {
      const indexes = new Set(known.map(indexOf))
      for (let index = 0; index < expected; index += 1) {
        if (!indexes.has(String(index))) missing.push(`${jobName} index ${index}`)
      }
    } else if (known.length < expected) {
      missing.push(`${expected - known.length} of ${expected} pods of ${jobName}`)
    }
  }
  return { missing, uncounted }
}

/**
 * Gives up the oldest gone pods of earlier executions beyond the limit. The current or last execution of each TrainJob is
 * never touched, nor is a pod that still exists.
 */
export const bound = (evidence: Evidence, limits: Limits = defaultLimits): Evidence => {
  if (Object.keys(evidence.pods).length <= limits.earlierPods) return evidence
  let gone = 0
  for (const uid in evidence.pods) if (evidence.pods[uid]?.presence !== "present") gone++
  if (gone <= limits.earlierPods) return evidence
  const uids = Object.keys(evidence.trainJobs)
  const needed = new Set(
    (uids.length === 0 ? [undefined] : uids).flatMap(
      (uid) => executions(evidence, uid).last?.pods.map((pod) => pod.uid) ?? []
    )
  )
  const earlier = Object.values(evidence.pods)
    .filter((it) => it.presence !== "present" && !needed.has(it.pod.metadata.uid))
    .toSorted((a, b) => (b.goneAt ?? 0) - (a.goneAt ?? 0))
  const drop = new Set(earlier.slice(limits.earlierPods).map((it) => it.pod.metadata.uid))
  if (drop.size === 0) return evidence
  return {
    ...evidence,
    pods: Object.fromEntries(Object.entries(evidence.pods).filter(([uid]) => !drop.has(uid))),
    droppedPods: evidence.droppedPods + drop.size
  }
}

/** Since when nothing of the name exists any more, epoch milliseconds; undefined while something does or may. */
export const goneSince = (evidence: Evidence): number | undefined => {
  const all: ReadonlyArray<Kept> = [
    ...Object.values(evidence.trainJobs),
    ...Object.values(evidence.jobSets),
    ...Object.values(evidence.pods)
  ]
  if (all.some(({ presence }) => presence === "present")) return undefined
  return all.reduce((latest, it) => Math.max(latest, it.goneAt ?? it.seenAt), 0)
}
