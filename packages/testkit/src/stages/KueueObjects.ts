/**
 * Kueue's objects as the stages read and write them, and what every stage of Kueue needs: conditions, checks, quantities,
 * and the one way in which a Workload's status is written.
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { View } from "../Stage.js"
import * as Objects from "./Objects.js"

/** One pod set of a Workload. */
export interface PodSet {
  readonly name: string
  readonly count: number
  readonly template: Objects.PodTemplate
  readonly topologyRequest?: object
}

/** What an admission check asks to be put on the pods of one pod set. */
export interface PodSetUpdate {
  readonly name: string
  readonly labels?: Objects.StringMap
  readonly annotations?: Objects.StringMap
  readonly nodeSelector?: Objects.StringMap
  readonly tolerations?: ReadonlyArray<Objects.Toleration>
}

/** One entry of `status.admissionChecks`. */
export interface CheckState {
  readonly name: string
  readonly state: string
  readonly message: string
  readonly lastTransitionTime?: string
  readonly requeueAfterSeconds?: number
  readonly retryCount?: number
  readonly podSetUpdates?: ReadonlyArray<PodSetUpdate>
}

/** One entry of `status.admission.podSetAssignments`. */
export interface Assignment {
  readonly name: string
  readonly count: number
  readonly flavors: Objects.StringMap
  readonly resourceUsage: Objects.StringMap
}

/** One entry of `status.schedulingStats.evictions`. */
export interface EvictionCount {
  readonly reason: string
  readonly underlyingCause: string
  readonly count: number
}

/** `status` of a Workload. */
export interface WorkloadStatus {
  readonly conditions?: ReadonlyArray<Objects.Condition>
  readonly admission?: { readonly clusterQueue: string; readonly podSetAssignments: ReadonlyArray<Assignment> }
  readonly admissionChecks?: ReadonlyArray<CheckState>
  readonly requeueState?: { readonly count?: number; readonly requeueAt?: string }
  readonly resourceRequests?: ReadonlyArray<{ readonly name: string; readonly resources: Objects.StringMap }>
  readonly accumulatedPastExecutionTimeSeconds?: number
  readonly schedulingStats?: { readonly evictions: ReadonlyArray<EvictionCount> }
}

/** `Workload`. */
export interface Workload extends Objects.Raw {
  readonly spec: {
    readonly active?: boolean
    readonly queueName?: string
    readonly priority?: number
    readonly priorityClassRef?: { readonly group: string; readonly kind: string; readonly name: string }
    readonly maximumExecutionTimeSeconds?: number
    readonly podSets: ReadonlyArray<PodSet>
  }
  readonly status?: WorkloadStatus
}

/** One flavor of a resource group. */
export interface FlavorQuotas {
  readonly name: string
  readonly resources: ReadonlyArray<{ readonly name: string; readonly nominalQuota: string }>
}

/** `metav1.LabelSelector`. */
export interface LabelSelector {
  readonly matchLabels?: Objects.StringMap
  readonly matchExpressions?: ReadonlyArray<{
    readonly key: string
    readonly operator: string
    readonly values?: ReadonlyArray<string>
  }>
}

/** `ClusterQueue`. */
export interface ClusterQueue extends Objects.Raw {
  readonly spec: {
    readonly stopPolicy?: string
    readonly queueingStrategy?: string
    readonly namespaceSelector?: LabelSelector
    readonly preemption?: { readonly withinClusterQueue?: string }
    readonly admissionChecksStrategy?: {
      readonly admissionChecks?: ReadonlyArray<{ readonly name: string; readonly onFlavors?: ReadonlyArray<string> }>
    }
    readonly resourceGroups?: ReadonlyArray<{
      readonly coveredResources: ReadonlyArray<string>
      readonly flavors: ReadonlyArray<FlavorQuotas>
    }>
  }
  readonly status?: { readonly conditions?: ReadonlyArray<Objects.Condition> }
}

/** `LocalQueue`. */
export interface LocalQueue extends Objects.Raw {
  readonly spec: { readonly clusterQueue: string; readonly stopPolicy?: string }
  readonly status?: { readonly conditions?: ReadonlyArray<Objects.Condition> }
}

/** `AdmissionCheck`. */
export interface AdmissionCheck extends Objects.Raw {
  readonly spec: {
    readonly controllerName: string
    readonly parameters?: { readonly apiGroup: string; readonly kind: string; readonly name: string }
  }
  readonly status?: { readonly conditions?: ReadonlyArray<Objects.Condition> }
}

/** `ResourceFlavor`. */
export interface ResourceFlavor extends Objects.Raw {
  readonly spec?: {
    readonly nodeLabels?: Objects.StringMap
    readonly nodeTaints?: ReadonlyArray<Objects.Taint>
    readonly tolerations?: ReadonlyArray<Objects.Toleration>
  }
}

/** `WorkloadPriorityClass`. */
export interface WorkloadPriorityClass extends Objects.Raw {
  readonly value: number
}

const kind = <A extends Objects.Raw>(plural: string, name: string, namespaced: boolean): Objects.Kind<A> => ({
  group: "kueue.x-k8s.io",
  version: "v1beta2",
  plural,
  kind: name,
  namespaced
})

export const workloads = kind<Workload>("workloads", "Workload", true)
export const localQueues = kind<LocalQueue>("localqueues", "LocalQueue", true)
export const clusterQueues = kind<ClusterQueue>("clusterqueues", "ClusterQueue", false)
export const admissionChecks = kind<AdmissionCheck>("admissionchecks", "AdmissionCheck", false)
export const resourceFlavors = kind<ResourceFlavor>("resourceflavors", "ResourceFlavor", false)
export const priorityClasses = kind<WorkloadPriorityClass>("workloadpriorityclasses", "WorkloadPriorityClass", false)

/** Label of a job: its LocalQueue. */
export const queueLabel = "kueue.x-k8s.io/queue-name"
/** Label of a job: its WorkloadPriorityClass. */
export const priorityLabel = "kueue.x-k8s.io/priority-class"
/** Label of a job: the longest that it may be admitted, seconds. */
export const maxExecLabel = "kueue.x-k8s.io/max-exec-time-seconds"
/** Label of a Workload: the uid of its job. */
export const jobUidLabel = "kueue.x-k8s.io/job-uid"
/** The manager of Kueue's own entry of `runtimePatches`. */
export const patchManager = "kueue.x-k8s.io/manager"
/** Keeps what is in use, and Workloads until their job has been stopped. */
export const finalizer = "kueue.x-k8s.io/resource-in-use"
/** The controller of checks that place jobs on other clusters, and `managedBy` of such TrainJobs. */
export const multiKueue = "kueue.x-k8s.io/multikueue"

/** Writes what decides on admission. */
export const admissionManager = "kueue-admission"
/** Writes the rest. */
export const kueueManager = "kueue"

/** Options of Kueue: the fields of its configuration that change what it does. */
export interface Options {
  /** Jobs without a queue label are managed too. Default false. */
  readonly manageJobsWithoutQueueName?: boolean
  /** Whoever's pods are not ready in time is evicted, and deactivated after so many times. Seconds. Default: off. */
  readonly waitForPodsReady?: {
    readonly timeout: number
    /** Default: without limit. */
    readonly backoffLimit?: number
    /** Default 60; doubles with every eviction. */
    readonly backoffBase?: number
    /** Default 3600. */
    readonly backoffMax?: number
  }
}

// --- conditions --------------------------------------------------------------------------------------------------------

/** The condition of a Workload, of its present generation. */
export const condition = (
  workload: Objects.Raw,
  type: string,
  status: "True" | "False",
  reason: string,
  message: string,
  at: string
): Objects.Condition => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: at,
  observedGeneration: workload.metadata.generation ?? 1
})

/** A condition of a Workload by type. */
export const conditionOf = (workload: Workload, type: string): Objects.Condition | undefined =>
  Objects.conditionOf(workload.status?.conditions, type)

/** Whether a condition of a Workload is True. */
export const has = (workload: Workload, type: string): boolean => Objects.isTrue(workload.status?.conditions, type)

/** Whether it has quota; one that is being evicted has it until its job has stopped. */
export const isReserved = (workload: Workload): boolean => has(workload, "QuotaReserved")
export const isAdmitted = (workload: Workload): boolean => has(workload, "Admitted")
export const isFinished = (workload: Workload): boolean => has(workload, "Finished")
export const isEvicted = (workload: Workload): boolean => has(workload, "Evicted")
export const isActive = (workload: Workload): boolean => workload.spec.active !== false
export const isDeleting = (object: Objects.Raw): boolean => object.metadata.deletionTimestamp !== undefined

/** Whether it takes resources from its queue: it has quota and has not finished. */
export const takesQuota = (workload: Workload): boolean => isReserved(workload) && !isFinished(workload)

/** Sets conditions of a status. */
export const withConditions = (
  status: WorkloadStatus | undefined,
  ...conditions: ReadonlyArray<Objects.Condition>
): WorkloadStatus => ({
  ...status,
  conditions: conditions.reduce<ReadonlyArray<Objects.Condition>>(
    (list, each) => Objects.withCondition(list, each),
    status?.conditions ?? []
  )
})

/** A status without one condition. */
export const withoutCondition = (status: WorkloadStatus | undefined, type: string): WorkloadStatus => ({
  ...status,
  conditions: (status?.conditions ?? []).filter((each) => each.type !== type)
})

// --- writes ------------------------------------------------------------------------------------------------------------

/**
 * The write of a Workload's whole status as Kueue does it: a forced apply. What it leaves out goes, unless somebody else
 * owns it too, which is why `podSetUpdates` survive.
 */
export const applyStatus = (workload: Workload, status: WorkloadStatus): KubeRequest.KubeRequest => {
  const { name, namespace, resourceVersion } = workload.metadata
  return KubeRequest.make("patch", workloads, {
    namespace,
    name,
    subresource: "status",
    patchType: "apply",
    query: { fieldManager: admissionManager, force: "true" },
    body: {
      apiVersion: workload.apiVersion,
      kind: workload.kind,
      metadata: Objects.compact({ name, namespace, resourceVersion }),
      status: Objects.compact(status)
    }
  })
}

/** Removes Kueue's finalizer. */
export const releaseFinalizer = (type: Objects.Kind, object: Objects.Raw): KubeRequest.KubeRequest | undefined =>
  object.metadata.finalizers?.includes(finalizer) === true
    ? Objects.patch(
        type,
        object,
        { metadata: { finalizers: object.metadata.finalizers.filter((each) => each !== finalizer) } },
        { manager: kueueManager }
      )
    : undefined

// --- eviction ----------------------------------------------------------------------------------------------------------

/** Why a Workload is evicted. */
export interface Eviction {
  readonly reason: string
  readonly message: string
  /** In the counts: `reason` is `Deactivated` for whatever deactivates. */
  readonly counted?: string
  readonly underlyingCause?: string
}

const counted = (status: WorkloadStatus | undefined, eviction: Eviction): WorkloadStatus["schedulingStats"] => {
  const reason = eviction.counted ?? eviction.reason
  const underlyingCause = eviction.underlyingCause ?? ""
  const evictions = status?.schedulingStats?.evictions ?? []
  const isSame = (each: EvictionCount): boolean => each.reason === reason && each.underlyingCause === underlyingCause
  return {
    evictions: evictions.some(isSame)
      ? evictions.map((each) => (isSame(each) ? { ...each, count: each.count + 1 } : each))
      : [...evictions, { reason, underlyingCause, count: 1 }]
  }
}

/** The entry after an eviction: not what it asks for the pods, which stays where its writer owns it. */
const resetCheck = (check: CheckState, at: string): CheckState =>
  check.state === "Pending"
    ? check
    : Objects.compact({
        name: check.name,
        state: "Pending",
        message: `Reset to Pending after eviction. Previously: ${check.state}`,
        lastTransitionTime: at,
        requeueAfterSeconds: check.requeueAfterSeconds,
        retryCount: check.state === "Retry" ? (check.retryCount ?? 0) + 1 : check.retryCount
      })

/** The status of a Workload right after its eviction: quota and admission are still there. */
export const evicted = (workload: Workload, eviction: Eviction, at: string): WorkloadStatus => {
  const { status } = workload
  return Objects.compact({
    ...withConditions(status, condition(workload, "Evicted", "True", eviction.reason, eviction.message, at)),
    admissionChecks: status?.admissionChecks?.map((check) => resetCheck(check, at)),
    schedulingStats: counted(status, eviction)
  })
}

// --- queues ------------------------------------------------------------------------------------------------------------

/** The LocalQueue of a Workload. */
export const localQueueOf = (view: View, workload: Workload): LocalQueue | undefined =>
  workload.spec.queueName === undefined
    ? undefined
    : view.get(localQueues, workload.metadata.namespace, workload.spec.queueName)

/** The name of the ClusterQueue that a Workload has quota of, or waits in. */
export const clusterQueueNameOf = (view: View, workload: Workload): string | undefined =>
  workload.status?.admission?.clusterQueue ?? localQueueOf(view, workload)?.spec.clusterQueue

/** Whether a queue stands open, by its own condition. */
export const isOpen = (queue: ClusterQueue | LocalQueue): boolean => Objects.isTrue(queue.status?.conditions, "Active")

/** Whether a queue is told to admit nothing. */
export const isStopped = (queue: ClusterQueue | LocalQueue): boolean => (queue.spec.stopPolicy ?? "None") !== "None"

/** The checks that a ClusterQueue lists. */
export const checksOf = (
  queue: ClusterQueue
): ReadonlyArray<{ readonly name: string; readonly onFlavors?: ReadonlyArray<string> }> =>
  queue.spec.admissionChecksStrategy?.admissionChecks ?? []

/** The flavors that a ClusterQueue names. */
export const flavorsOf = (queue: ClusterQueue): ReadonlyArray<FlavorQuotas> =>
  (queue.spec.resourceGroups ?? []).flatMap(({ flavors }) => flavors)

/**
 * The checks that a Workload must pass. Where a check is for some flavors only, nothing is known before flavors are
 * assigned, and so none is told.
 */
export const requiredChecks = (queue: ClusterQueue, workload: Workload): ReadonlyArray<string> => {
  const checks = checksOf(queue)
  if (checks.every(({ onFlavors }) => (onFlavors ?? []).length === 0)) return checks.map(({ name }) => name)
  const { admission } = workload.status ?? {}
  if (admission === undefined) return []
  const assigned = admission.podSetAssignments.flatMap(({ flavors }) => Object.values(flavors))
  return checks
    .filter(({ onFlavors = [] }) => onFlavors.length === 0 || onFlavors.some((flavor) => assigned.includes(flavor)))
    .map(({ name }) => name)
}

/** Whether every check that is required has an entry that says Ready. */
export const passes = (required: ReadonlyArray<string>, entries: ReadonlyArray<CheckState>): boolean =>
  required.every((name) => entries.some((entry) => entry.name === name && entry.state === "Ready"))

/** Whether the labels of an object satisfy a selector; no selector selects nothing. */
export const selects = (selector: LabelSelector | undefined, labels: Objects.StringMap): boolean => {
  if (selector === undefined) return false
  const byLabels = Object.entries(selector.matchLabels ?? {}).every(([key, value]) => labels[key] === value)
  return (
    byLabels &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = labels[key]
      switch (operator) {
        case "In":
          return value !== undefined && values.includes(value)
        case "NotIn":
          return value === undefined || !values.includes(value)
        case "Exists":
          return value !== undefined
        default:
          return value === undefined
      }
    })
  )
}

/** The waiting time of an event, whole seconds. */
export const waited = (now: number, since: string | undefined): string =>
  `${since === undefined ? 0 : Math.max(0, Math.round((now - Objects.parseTime(since)) / 1000))}s`
