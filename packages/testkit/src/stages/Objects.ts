/**
 * The raw objects that the stages read and write: what the API server stores, not the narrow schemas of `core`. Only
 * fields that some stage uses are named; all others travel along untouched.
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { ResourceType } from "@dispatch-kubeflow/core/kube/KubeRequest"

/** `metadata.ownerReferences[]`. */
export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
  readonly blockOwnerDeletion?: boolean
}

/** A string map, as labels and annotations are. */
export type StringMap = Readonly<Record<string, string>>
/** Quantities as clients send them and custom resources keep them: texts or numbers. */
export type Quantities = Readonly<Record<string, string | number>>

/** `metadata` of a stored object. */
export interface Meta {
  readonly name: string
  readonly generateName?: string
  readonly namespace?: string
  readonly uid: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly deletionGracePeriodSeconds?: number
  readonly labels?: StringMap
  readonly annotations?: StringMap
  readonly ownerReferences?: ReadonlyArray<OwnerReference>
  readonly finalizers?: ReadonlyArray<string>
}

/** Any stored object. */
export interface Raw {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Meta
}

/** A condition of any kind. Jobs and pods also carry `lastProbeTime`. */
export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason?: string
  readonly message?: string
  readonly lastTransitionTime?: string
  readonly lastProbeTime?: string | null
  readonly lastHeartbeatTime?: string
  readonly observedGeneration?: number
}

/** `ContainerStateTerminated`. */
export interface Terminated {
  readonly exitCode: number
  readonly reason: string
  readonly message?: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly containerID?: string
}

/** `ContainerState`. */
export interface ContainerState {
  readonly waiting?: { readonly reason: string; readonly message?: string }
  readonly running?: { readonly startedAt: string }
  readonly terminated?: Terminated
}

/** `ContainerStatus`. */
export interface ContainerStatus {
  readonly name: string
  readonly state: ContainerState
  readonly lastState: ContainerState
  readonly ready: boolean
  readonly restartCount: number
  readonly image: string
  readonly imageID: string
  readonly containerID?: string
  readonly started: boolean
}

/** `EnvVar`. */
export interface EnvVar {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly fieldRef?: { readonly apiVersion?: string; readonly fieldPath: string } }
}

/** `Container`. */
export interface Container {
  readonly name: string
  readonly image?: string
  readonly command?: ReadonlyArray<string>
  readonly args?: ReadonlyArray<string>
  readonly env?: ReadonlyArray<EnvVar>
  readonly ports?: ReadonlyArray<{ readonly containerPort: number; readonly protocol?: string }>
  readonly resources?: { readonly limits?: Quantities; readonly requests?: Quantities }
  readonly volumeMounts?: ReadonlyArray<{
    readonly name: string
    readonly mountPath: string
    readonly readOnly?: boolean
  }>
  readonly restartPolicy?: string
  readonly terminationMessagePath?: string
  readonly terminationMessagePolicy?: string
  readonly imagePullPolicy?: string
}

/** `Toleration`. */
export interface Toleration {
  readonly key?: string
  readonly operator?: string
  readonly value?: string
  readonly effect?: string
  readonly tolerationSeconds?: number
}

/** `Volume`, of the kinds that the stages make. */
export interface Volume {
  readonly name: string
  readonly secret?: object
  readonly configMap?: object
}

/** `PodSpec`. */
export interface PodSpec {
  readonly nodeName?: string
  readonly nodeSelector?: StringMap
  readonly affinity?: unknown
  readonly tolerations?: ReadonlyArray<Toleration>
  readonly schedulingGates?: ReadonlyArray<{ readonly name: string }>
  readonly restartPolicy?: string
  readonly terminationGracePeriodSeconds?: number
  readonly activeDeadlineSeconds?: number
  readonly containers: ReadonlyArray<Container>
  readonly initContainers?: ReadonlyArray<Container>
  readonly volumes?: ReadonlyArray<Volume>
  readonly hostname?: string
  readonly subdomain?: string
  readonly serviceAccountName?: string
  readonly serviceAccount?: string
  readonly dnsPolicy?: string
  readonly securityContext?: unknown
  readonly schedulerName?: string
  readonly priority?: number
  readonly enableServiceLinks?: boolean
  readonly preemptionPolicy?: string
}

/** `PodStatus`. */
export interface PodStatus {
  readonly phase?: string
  readonly reason?: string
  readonly message?: string
  readonly startTime?: string
  readonly observedGeneration?: number
  readonly hostIP?: string
  readonly hostIPs?: ReadonlyArray<{ readonly ip: string }>
  readonly podIP?: string
  readonly podIPs?: ReadonlyArray<{ readonly ip: string }>
  readonly qosClass?: string
  readonly conditions?: ReadonlyArray<Condition>
  readonly containerStatuses?: ReadonlyArray<ContainerStatus>
  readonly initContainerStatuses?: ReadonlyArray<ContainerStatus>
}

/** `Pod`. */
export interface Pod extends Raw {
  readonly spec: PodSpec
  readonly status?: PodStatus
}

/** `PodTemplateSpec`. */
export interface PodTemplate {
  readonly metadata?: { readonly labels?: StringMap; readonly annotations?: StringMap }
  readonly spec: PodSpec
}

/** One rule of a Job's `podFailurePolicy`. */
export interface PodFailureRule {
  readonly action: string
  readonly onExitCodes?: {
    readonly containerName?: string | null
    readonly operator: string
    readonly values: ReadonlyArray<number>
  }
  readonly onPodConditions?: ReadonlyArray<{ readonly type: string; readonly status?: string }>
}

/** `JobSpec`. */
export interface JobSpec {
  readonly parallelism?: number
  readonly completions?: number
  readonly completionMode?: string
  readonly backoffLimit?: number
  readonly backoffLimitPerIndex?: number
  readonly activeDeadlineSeconds?: number
  readonly ttlSecondsAfterFinished?: number
  readonly podReplacementPolicy?: string
  readonly podFailurePolicy?: { readonly rules: ReadonlyArray<PodFailureRule> }
  readonly suspend?: boolean
  readonly managedBy?: string
  readonly manualSelector?: boolean
  readonly selector?: { readonly matchLabels?: StringMap }
  readonly template: PodTemplate
}

/** `JobStatus`. */
export interface JobStatus {
  readonly conditions?: ReadonlyArray<Condition>
  readonly startTime?: string
  readonly completionTime?: string
  readonly active?: number
  readonly terminating?: number
  readonly ready?: number
  readonly succeeded?: number
  readonly failed?: number
  readonly completedIndexes?: string
  readonly uncountedTerminatedPods?: {
    readonly succeeded?: ReadonlyArray<string>
    readonly failed?: ReadonlyArray<string>
  }
}

/** `Job`. */
export interface Job extends Raw {
  readonly spec: JobSpec
  readonly status?: JobStatus
}

/** `ReplicatedJob`. */
export interface ReplicatedJob {
  readonly name: string
  readonly replicas?: number
  readonly groupName?: string
  readonly dependsOn?: ReadonlyArray<{ readonly name: string; readonly status: string }>
  readonly template: {
    readonly metadata?: { readonly labels?: StringMap; readonly annotations?: StringMap }
    readonly spec: JobSpec
  }
}

/** One rule of a JobSet's failure policy. */
export interface FailureRule {
  readonly name?: string
  readonly action: string
  readonly onJobFailureReasons?: ReadonlyArray<string>
  readonly onJobFailureMessagePatterns?: ReadonlyArray<string>
  readonly targetReplicatedJobs?: ReadonlyArray<string>
}

/** `JobSetSpec`. */
export interface JobSetSpec {
  readonly replicatedJobs: ReadonlyArray<ReplicatedJob>
  readonly network?: {
    readonly enableDNSHostnames?: boolean
    readonly publishNotReadyAddresses?: boolean
    readonly subdomain?: string
  }
  readonly successPolicy?: { readonly operator?: string; readonly targetReplicatedJobs?: ReadonlyArray<string> }
  readonly failurePolicy?: {
    readonly maxRestarts?: number
    readonly restartStrategy?: string
    readonly rules?: ReadonlyArray<FailureRule>
  }
  readonly startupPolicy?: { readonly startupPolicyOrder?: string }
  readonly coordinator?: { readonly replicatedJob: string; readonly jobIndex?: number; readonly podIndex?: number }
  readonly managedBy?: string
  readonly suspend?: boolean
  readonly ttlSecondsAfterFinished?: number
}

/** Counters of one replicatedJob. */
export interface ReplicatedJobStatus {
  readonly name: string
  readonly active: number
  readonly failed: number
  readonly ready: number
  readonly succeeded: number
  readonly suspended: number
}

/** `JobSet`. */
export interface JobSet extends Raw {
  readonly spec: JobSetSpec
  readonly status?: {
    readonly conditions?: ReadonlyArray<Condition>
    readonly replicatedJobsStatus?: ReadonlyArray<ReplicatedJobStatus>
    readonly restarts?: number
    readonly restartsCountTowardsMax?: number
    readonly terminalState?: string
  }
}

/** One entry of `runtimePatches`. */
export interface RuntimePatch {
  readonly manager: string
  readonly time?: string
  readonly trainingRuntimeSpec?: {
    readonly template?: {
      readonly metadata?: { readonly labels?: StringMap; readonly annotations?: StringMap }
      readonly spec?: { readonly replicatedJobs?: ReadonlyArray<Readonly<Record<string, unknown>>> }
    }
  }
}

/** `Trainer` block of a TrainJob. */
export interface TrainerSpec {
  readonly image?: string
  readonly command?: ReadonlyArray<string>
  readonly args?: ReadonlyArray<string>
  readonly env?: ReadonlyArray<EnvVar>
  readonly numNodes?: number
  readonly numProcPerNode?: number
  readonly resourcesPerNode?: { readonly limits?: Quantities; readonly requests?: Quantities }
}

/** One initializer of a TrainJob. */
export interface InitializerSpec {
  readonly storageUri?: string
  readonly env?: ReadonlyArray<EnvVar>
  readonly secretRef?: { readonly name: string }
}

/** `TrainJob`. */
export interface TrainJob extends Raw {
  readonly spec: {
    readonly runtimeRef: { readonly name: string; readonly apiGroup?: string; readonly kind?: string }
    readonly initializer?: { readonly dataset?: InitializerSpec; readonly model?: InitializerSpec }
    readonly trainer?: TrainerSpec
    readonly runtimePatches?: ReadonlyArray<RuntimePatch>
    readonly suspend?: boolean
    readonly activeDeadlineSeconds?: number
    readonly managedBy?: string
  }
  readonly status?: {
    readonly conditions?: ReadonlyArray<Condition>
    readonly jobsStatus?: ReadonlyArray<ReplicatedJobStatus>
  }
}

/** `mlPolicy` of a runtime. */
export interface MlPolicy {
  readonly numNodes?: number
  readonly torch?: unknown
  readonly jax?: unknown
  readonly xgboost?: unknown
  readonly flux?: unknown
  readonly mpi?: {
    readonly numProcPerNode?: number
    readonly mpiImplementation?: string
    readonly sshAuthMountPath?: string
    readonly runLauncherAsNode?: boolean
  }
}

/** `TrainingRuntime` and `ClusterTrainingRuntime`. */
export interface Runtime extends Raw {
  readonly spec: {
    readonly mlPolicy?: MlPolicy
    readonly template: {
      readonly metadata?: { readonly labels?: StringMap; readonly annotations?: StringMap }
      readonly spec: JobSetSpec
    }
  }
}

/** `Taint`. */
export interface Taint {
  readonly key: string
  readonly value?: string
  readonly effect: string
  readonly timeAdded?: string
}

/** `Node`. */
export interface Node extends Raw {
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: ReadonlyArray<Taint> }
  readonly status?: {
    readonly conditions?: ReadonlyArray<Condition>
    readonly capacity?: StringMap
    readonly allocatable?: StringMap
    readonly nodeInfo?: Readonly<Record<string, string | boolean>>
    readonly addresses?: ReadonlyArray<{ readonly type: string; readonly address: string }>
  }
}

/** `Lease`. */
export interface Lease extends Raw {
  readonly spec?: {
    readonly holderIdentity?: string
    readonly leaseDurationSeconds?: number
    readonly renewTime?: string
    readonly acquireTime?: string
  }
}

/** `Namespace`. */
export interface Namespace extends Raw {
  readonly spec?: { readonly finalizers?: ReadonlyArray<string> }
  readonly status?: { readonly phase?: string; readonly conditions?: ReadonlyArray<Condition> }
}

/** `ConfigMap`. */
export interface ConfigMap extends Raw {
  readonly data?: StringMap
}

/** `Event`. */
export interface Event extends Raw {
  readonly involvedObject: {
    readonly kind: string
    readonly namespace?: string
    readonly name: string
    readonly uid?: string
  }
  readonly reason: string
  readonly message: string
  readonly type: string
  readonly count?: number
  readonly series?: { readonly count: number; readonly lastObservedTime: string }
}

/** A kind of object as the stages name it. `_A` exists only in the types. */
export interface Kind<A extends Raw = Raw> extends ResourceType {
  readonly kind: string
  readonly namespaced: boolean
  readonly _A?: A
}

const kind = <A extends Raw>(
  group: string,
  version: string,
  plural: string,
  name: string,
  namespaced = true
): Kind<A> => ({ group, version, plural, kind: name, namespaced })

export const pods = kind<Pod>("", "v1", "pods", "Pod")
export const nodes = kind<Node>("", "v1", "nodes", "Node", false)
export const namespaces = kind<Namespace>("", "v1", "namespaces", "Namespace", false)
export const events = kind<Event>("", "v1", "events", "Event")
export const configMaps = kind<ConfigMap>("", "v1", "configmaps", "ConfigMap")
export const secrets = kind<Raw>("", "v1", "secrets", "Secret")
export const services = kind<Raw>("", "v1", "services", "Service")
export const leases = kind<Lease>("coordination.k8s.io", "v1", "leases", "Lease")
export const jobs = kind<Job>("batch", "v1", "jobs", "Job")
export const jobSets = kind<JobSet>("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
export const trainJobs = kind<TrainJob>("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
export const trainingRuntimes = kind<Runtime>("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime")
export const clusterTrainingRuntimes = kind<Runtime>(
  "trainer.kubeflow.org",
  "v1alpha1",
  "clustertrainingruntimes",
  "ClusterTrainingRuntime",
  false
)

/** `v1` or `group/version`. */
export const apiVersion = (type: ResourceType): string =>
  type.group === "" ? type.version : `${type.group}/${type.version}`

/** Narrows an object to a kind by its `kind` and API group. */
export const is = <A extends Raw>(type: Kind<A>, object: Raw): object is A =>
  object.kind === type.kind && object.apiVersion === apiVersion(type)

/** `namespace/name`, or the name of a cluster-scoped object: the key under which stages queue objects. */
export const keyOf = (object: Raw): string =>
  object.metadata.namespace === undefined
    ? object.metadata.name
    : `${object.metadata.namespace}/${object.metadata.name}`

/** The inverse of `keyOf`. */
export const splitKey = (key: string): { readonly namespace: string | undefined; readonly name: string } => {
  const slash = key.indexOf("/")
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** The owner reference with `controller: true`. */
export const controllerOf = (object: Raw): OwnerReference | undefined =>
  object.metadata.ownerReferences?.find((owner) => owner.controller === true)

/** The owner reference that a controller writes on what it creates. */
export const ownedBy = (owner: Raw): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name: owner.metadata.name,
  uid: owner.metadata.uid,
  controller: true,
  blockOwnerDeletion: true
})

/** Whether a condition is True. */
export const isTrue = (conditions: ReadonlyArray<Condition> | undefined, type: string): boolean =>
  conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false

/** A condition by type. */
export const conditionOf = (conditions: ReadonlyArray<Condition> | undefined, type: string): Condition | undefined =>
  conditions?.find((condition) => condition.type === type)

/** Sets a condition by type in its place, or appends it. `lastTransitionTime` of an unchanged status is kept. */
export const withCondition = (
  conditions: ReadonlyArray<Condition> | undefined,
  condition: Condition
): ReadonlyArray<Condition> => {
  const list = conditions ?? []
  const at = list.findIndex((existing) => existing.type === condition.type)
  const existing = list[at]
  if (existing === undefined) return [...list, condition]
  if (
    existing.status === condition.status &&
    existing.reason === condition.reason &&
    existing.message === condition.message
  ) {
    return list
  }
  const merged =
    existing.status === condition.status && existing.lastTransitionTime !== undefined
      ? { ...condition, lastTransitionTime: existing.lastTransitionTime }
      : condition
  return list.map((each, index) => (index === at ? merged : each))
}

const pad = (value: number, width: number): string => String(value).padStart(width, "0")

/** Epoch milliseconds as Kubernetes writes `Time`: RFC 3339, whole seconds. */
export const time = (epochMillis: number): string => {
  const text = micro(epochMillis)
  return `${text.slice(0, 19)}Z`
}

/** Epoch milliseconds as Kubernetes writes `MicroTime`: six fraction digits. */
export const micro = (epochMillis: number): string => {
  const millis = Math.floor(epochMillis)
  const days = Math.floor(millis / 86_400_000)
  const rest = millis - days * 86_400_000
  // https://howardhinnant.github.io/date_algorithms.html#civil_from_days
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  const hours = Math.floor(rest / 3_600_000)
  const minutes = Math.floor(rest / 60_000) % 60
  const seconds = Math.floor(rest / 1000) % 60
  return `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}T${pad(hours, 2)}:${pad(minutes, 2)}:${pad(seconds, 2)}.${pad(rest % 1000, 3)}000Z`
}

/** Parses an RFC 3339 UTC time of the API into epoch milliseconds. */
export const parseTime = (text: string): number => {
  const match = /^(\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z$/.exec(text)
  if (match === null) return Number.NaN
  const [, year = "0", month = "0", day = "0", hour = "0", minute = "0", second = "0", fraction = ""] = match
  const y = Number(month) <= 2 ? Number(year) - 1 : Number(year)
  const era = Math.floor(y / 400)
  const yearOfEra = y - era * 400
  const shiftedMonth = Number(month) + (Number(month) > 2 ? -3 : 9)
  const dayOfYear = Math.floor((153 * shiftedMonth + 2) / 5) + Number(day) - 1
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear
  const days = era * 146_097 + dayOfEra - 719_468
  const millis = Number(fraction.padEnd(3, "0").slice(0, 3))
  return days * 86_400_000 + Number(hour) * 3_600_000 + Number(minute) * 60_000 + Number(second) * 1000 + millis
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Structural equality of JSON values. */
export const same = (left: unknown, right: unknown): boolean => {
  if (left === right) return true
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((value, index) => same(value, right[index]))
  }
  if (!isRecord(left) || !isRecord(right)) return false
  const keys = Object.keys(left)
  if (keys.length !== Object.keys(right).length) return false
  return keys.every((key) => key in right && same(left[key], right[key]))
}

/** The JSON merge patch (RFC 7386) that turns one value into the other; `undefined` when nothing differs. */
export const mergePatch = (from: unknown, to: unknown): unknown => {
  if (same(from, to)) return undefined
  if (!isRecord(to)) return to
  const source = isRecord(from) ? from : {}
  const patch: Record<string, unknown> = {}
  for (const key of Object.keys(source)) if (!(key in to)) patch[key] = null
  for (const [key, value] of Object.entries(to)) {
    const change = mergePatch(source[key], value)
    if (change !== undefined) patch[key] = change
    else if (!(key in source)) patch[key] = value
  }
  return patch
}

/** Without the fields that are `undefined`. */
export const compact = <A extends object>(value: A): { [K in keyof A]: Exclude<A[K], undefined> } => {
  const result: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(value)) if (field !== undefined) result[key] = field
  // the loop keeps exactly the keys whose value is not undefined
  return result as { [K in keyof A]: Exclude<A[K], undefined> }
}

/** The object without one of its top-level fields. */
export const without = <A extends object, K extends keyof A>(value: A, key: K): Omit<A, K> => {
  const { [key]: _, ...rest } = value
  return rest
}

const refOf = (object: Raw): { readonly namespace: string | undefined; readonly name: string } => ({
  namespace: object.metadata.namespace,
  name: object.metadata.name
})

/** POST of a new object. */
export const create = (
  type: Kind,
  namespace: string | undefined,
  body: object,
  manager?: string
): KubeRequest.KubeRequest =>
  KubeRequest.make("create", type, {
    namespace,
    body: { apiVersion: apiVersion(type), kind: type.kind, ...body },
    query: { fieldManager: manager }
  })

/** Merge patch of an object or one of its subresources. */
export const patch = (
  type: Kind,
  object: Raw,
  body: unknown,
  options: { readonly subresource?: string; readonly manager?: string } = {}
): KubeRequest.KubeRequest =>
  KubeRequest.make("patch", type, {
    ...refOf(object),
    subresource: options.subresource,
    patchType: "merge",
    body,
    query: { fieldManager: options.manager }
  })

/**
 * The write that brings an object's status from what it is to what it should be, or `undefined` when they agree. It
 * names the version that was read, so that a status computed from an older object is refused as a conflict.
 */
export const patchStatus = <A extends Raw & { readonly status?: object }>(
  type: Kind<A>,
  object: A,
  status: NonNullable<A["status"]>,
  manager?: string
): KubeRequest.KubeRequest | undefined => {
  const target = compact(status)
  const change = mergePatch(object.status ?? {}, target)
  if (change === undefined) return undefined
  const empty = Object.keys(target).length === 0
  return patch(
    type,
    object,
    { metadata: { resourceVersion: object.metadata.resourceVersion }, status: empty ? null : change },
    { subresource: "status", ...(manager === undefined ? {} : { manager }) }
  )
}

/** DELETE with a uid precondition. */
export const remove = (
  type: ResourceType,
  object: Raw,
  options: {
    readonly propagation?: "Background" | "Foreground" | "Orphan"
    readonly gracePeriodSeconds?: number
  } = {}
): KubeRequest.KubeRequest =>
  KubeRequest.make("delete", type, {
    ...refOf(object),
    body: compact({
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions: { uid: object.metadata.uid },
      propagationPolicy: options.propagation,
      gracePeriodSeconds: options.gracePeriodSeconds
    })
  })

/** A stable 64-bit hash (FNV-1a) in hex: the random part of names that upstream takes from the clock. */
export const hash = (text: string): string => {
  let high = 0xcbf29ce4
  let low = 0x84222325
  for (let index = 0; index < text.length; index++) {
    low ^= text.charCodeAt(index)
    const product = low * 0x1b3
    const carry = Math.floor(product / 0x1_0000_0000)
    const nextHigh = Math.imul(high, 0x1b3) + carry + (low << 8)
    low = product >>> 0
    high = nextHigh >>> 0
  }
  return pad16(high) + pad16(low)
}

const pad16 = (value: number): string => (value >>> 0).toString(16).padStart(8, "0")
