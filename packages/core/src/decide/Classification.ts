/**
 * What state a TrainJob is in and why, from kept evidence alone. Causes are never collapsed into "failed", and what was not
 * seen is `Unknown`, never the application's fault.
 *
 * @module
 */
import { Schema } from "effect"
import * as Batch from "../model/Batch.js"
import type * as Core from "../model/Core.js"
import { outOfServiceTaint } from "../model/Core.js"
import * as Kueue from "../model/Kueue.js"
import { type Condition, condition, controllerOf, trueCondition } from "../model/Meta.js"
import * as Evidence from "./Evidence.js"
import type * as Execution from "./Execution.js"

/** The coarse state. `Unknown`: no TrainJob of that name was ever seen. */
export const State = Schema.Literal("Pending", "Held", "Running", "Stopping", "Succeeded", "Failed", "Gone", "Unknown")
/** See the schema of the same name. */
export type State = typeof State.Type

const cause = <const Tag extends string, Fields extends Schema.Struct.Fields>(tag: Tag, fields: Fields) =>
  Schema.Struct({ _tag: Schema.Literal(tag), ...fields })

/** Why. Each is told with the evidence that it rests on. */
export const Cause = Schema.Union(
  /**
   * Capacity was taken away for other work: Kueue evicted the Workload, the scheduler wrote `PreemptionByScheduler`, or a kubelet
   * made room.
   */
  cause("Preempted", { by: Schema.Literal("kueue", "scheduler", "kubelet"), detail: Schema.String }),
  /**
   * The machine, its kubelet or its Node object is gone: the Node was not ready while the pod was bound to it, or the pod was
   * deleted for its taint. Does not say that the processes are gone.
   */
  cause("NodeLost", { node: Schema.String, detail: Schema.String }),
  /** Somebody or something emptied a Node or a queue in order: the eviction API, a taint, a shutdown of the Node, a stopped queue. */
  cause("Drained", { by: Schema.String }),
  /** Taken off its Node for another reason. `ownLimit`: it used more local storage than it was granted. */
  cause("Evicted", { reason: Schema.String, ownLimit: Schema.Boolean }),
  /** The kernel killed a container for its memory (`OOMKilled`). */
  cause("OutOfMemory", { container: Schema.String, exitCode: Schema.Number }),
  /** A time limit was reached; `layer` says whose. */
  cause("DeadlineExceeded", { layer: Schema.Literal("TrainJob", "Job", "Pod", "Kueue") }),
  /**
   * There is no room: not schedulable, refused by the Node's kubelet, more than a ResourceQuota allows, or its pods were not ready
   * within Kueue's limit.
   */
  cause("NoCapacity", { reason: Schema.String, detail: Schema.String }),
  /** The image cannot be had. */
  cause("ImagePull", { reason: Schema.String, detail: Schema.String }),
  /** It cannot start as it is written: a container that cannot be made or started, a runtime that is not supported, a refused object. */
  cause("Misconfigured", { reason: Schema.String, detail: Schema.String }),
  /** The program ended by itself. `signal` is read off an exit code above 128 where the runtime does not tell it. */
  cause("Application", {
    container: Schema.String,
    exitCode: Schema.Number,
    signal: Schema.optional(Schema.Number)
  }),
  /** Somebody holds it: `spec.suspend`, or `spec.active` of the Workload. */
  cause("Held", { by: Schema.Literal("suspend", "workload"), detail: Schema.String }),
  /** Somebody deleted it. */
  cause("Deleted", { object: Schema.String }),
  /** Why was not seen; `missing` says what would have told it. Never the application's fault. */
  cause("Unknown", { missing: Schema.Array(Schema.String) })
)
/** See the schema of the same name. */
export type Cause = typeof Cause.Type

/** One fact: which object said what, when. */
export const Fact = Schema.Struct({
  /** e.g. `Pod/run-1-node-0-0-abcde`. */
  object: Schema.String,
  /** e.g. `status.conditions[DisruptionTarget].reason`. */
  field: Schema.String,
  value: Schema.String,
  /** RFC 3339, where the object tells one. */
  time: Schema.optional(Schema.String),
  /** Whether the object is there, its deletion was seen, or its absence was noticed after a gap. */
  presence: Evidence.Presence
})
/** See the schema of the same name. */
export type Fact = typeof Fact.Type

/** The answer of `classify`. */
export interface Verdict {
  readonly uid: string | undefined
  readonly state: State
  readonly cause: Cause | undefined
  /** The first terminal result; it stays when the TrainJob is deleted or run again by its controller. */
  readonly outcome: "Succeeded" | "Failed" | undefined
  /** The admission count of the execution that this is about; undefined before the first, and when none was injected. */
  readonly execution: number | undefined
  /** Which start of that execution, from 1; 0 before the first. */
  readonly incarnation: number
  readonly identity: "injected" | "inferred" | undefined
  /** The same admission ran more than once, or something ran after the end. */
  readonly repeated: boolean
  /** A pod exists that has not ended. False proves nothing about processes: that is what `ceased` is for. */
  readonly alive: boolean
  readonly evidence: ReadonlyArray<Fact>
  readonly notes: ReadonlyArray<string>
}

type Pod = Evidence.PodRecord

/**
 * What is told of a pod alone is told once for each state of it: of the thousand pods of a job one changes at a time, and
 * records never change.
 */
const once = <A>(read: (pod: Pod) => A): ((pod: Pod) => A) => {
  const known = new WeakMap<Pod, A>()
  return (pod) => {
    const found = known.get(pod)
    // Its type says undefined where that is an answer
    if (found !== undefined || known.has(pod)) return found as A
    const value = read(pod)
    known.set(pod, value)
    return value
  }
}

type Explained = { readonly cause: Cause; readonly evidence: ReadonlyArray<Fact> }

const fact = (
  object: string,
  field: string,
  value: string,
  time: string | null | undefined,
  presence: Evidence.Presence
): Fact => ({ object, field, value, presence, ...(time === null || time === undefined ? {} : { time }) })

const conditionFact = (object: string, it: Condition, presence: Evidence.Presence): Fact =>
  fact(
    object,
    `status.conditions[${it.type}]`,
    [it.status, it.reason, it.message].filter((part) => part !== undefined && part !== null && part !== "").join(" "),
    it.lastTransitionTime,
    presence
  )

const podName = (pod: Pod): string => `Pod/${pod.name}`

const imageReasons = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed"
])
const configReasons = new Set([
  "CreateContainerConfigError",
  "CreateContainerError",
  "PreCreateHookError",
  "PreStartHookError",
  "PostStartHookError",
  "RunContainerError",
  "CreatePodSandboxError",
  "ConfigPodSandboxError"
])

/** Why a pod does not get going, if it says so. */
const obstacle = once((pod): Explained | undefined => {
  const { presence } = pod.evidence
  const scheduled = condition(pod.evidence.pod.status?.conditions, "PodScheduled")
  if (pod.nodeName === undefined && scheduled?.status === "False" && scheduled.reason === "Unschedulable") {
    return {
      cause: { _tag: "NoCapacity", reason: "Unschedulable", detail: scheduled.message ?? "" },
      evidence: [conditionFact(podName(pod), scheduled, presence)]
    }
  }
  for (const { name, status } of Evidence.containersOf(pod.evidence.pod)) {
    const reason = status?.state?.waiting?.reason ?? ""
    const detail = status?.state?.waiting?.message ?? ""
    const tag = imageReasons.has(reason) ? "ImagePull" : configReasons.has(reason) ? "Misconfigured" : undefined
    if (tag !== undefined) {
      return {
        cause: { _tag: tag, reason, detail },
        evidence: [
          fact(
            podName(pod),
            `status.containerStatuses[${name}].state.waiting`,
            detail === "" ? reason : `${reason} ${detail}`,
            undefined,
            presence
          )
        ]
      }
    }
  }
  return undefined
})

/** Something that ended, or began to end, a pod. Lower ranks win among incidents of one second. */
interface Incident extends Explained {
  readonly time: number
  readonly rank: number
  readonly pod: Pod
}

interface NodeTrouble {
  readonly time: number
  readonly detail: string
  readonly fact: Fact
}

const nodeFact = (name: string, field: string, value: string, time: string | undefined): Fact =>
  fact(`Node/${name}`, field, value, time, "present")

// How far the observer's clock and the cluster's may be apart
const clocksApart = 60_000

/** Since when, by the observer's clock, what was seen of the Node is about this pod. */
const boundSince = (pod: Pod): number =>
  pod.evidence.node?.at ?? (Evidence.millis(pod.creationTimestamp) ?? 0) - clocksApart

/** The first sign that the pod's Node was lost while the pod was bound to it. */
const nodeTrouble = (evidence: Evidence.Evidence, pod: Pod): NodeTrouble | undefined => {
  const name = pod.nodeName
  if (name === undefined) return undefined
  const created = Evidence.millis(pod.creationTimestamp) ?? 0
  const until = (pod.evidence.goneAt ?? Number.POSITIVE_INFINITY) + clocksApart
  const troubles = (evidence.nodes[name] ?? []).flatMap((sighting): ReadonlyArray<NodeTrouble> => {
    if (sighting.at < boundSince(pod)) return []
    // A Node that was removed or replaced long after the pod was gone says nothing about it
    const late = sighting.at > until
    if (sighting.uid === undefined) {
      if (late) return []
      return [
        {
          time: sighting.at,
          detail: "the Node object was deleted",
          fact: fact(`Node/${name}`, "metadata.uid", "no such Node", undefined, "inferred")
        }
      ]
    }
    const recorded = pod.evidence.node?.uid
    if (recorded !== undefined && sighting.uid !== recorded) {
      if (late) return []
      return [
        {
          time: sighting.at,
          detail: "the Node object was replaced",
          fact: nodeFact(name, "metadata.uid", `${recorded} then ${sighting.uid}`, undefined)
        }
      ]
    }
    const since = Evidence.millis(sighting.ready?.lastTransitionTime) ?? sighting.at
    // After the pod was gone its Node's state says nothing about it
    if (sighting.ready !== undefined && sighting.ready.status !== "True" && since <= until) {
      return [
        {
          time: Math.max(since, created),
          detail: `the Node was not ready (${sighting.ready.reason ?? sighting.ready.status})`,
          fact: conditionFact(`Node/${name}`, sighting.ready, "present")
        }
      ]
    }
    return []
  })
  return troubles.reduce<NodeTrouble | undefined>(
    (first, it) => (first === undefined || it.time < first.time ? it : first),
    undefined
  )
}

const lossTaints = new Set([
  "node.kubernetes.io/unreachable",
  "node.kubernetes.io/not-ready",
  outOfServiceTaint,
  "node.cloudprovider.kubernetes.io/shutdown"
])

/** The taint manager does not name the taint: the Node does. */
const taintCause = (evidence: Evidence.Evidence, pod: Pod, disruption: Condition): Explained => {
  const name = pod.nodeName ?? ""
  const trouble = nodeTrouble(evidence, pod)
  const own = conditionFact(podName(pod), disruption, pod.evidence.presence)
  if (trouble !== undefined) {
    return { cause: { _tag: "NodeLost", node: name, detail: trouble.detail }, evidence: [own, trouble.fact] }
  }
  for (const { at, taints } of evidence.nodes[name] ?? []) {
    if (at < boundSince(pod)) continue
    const taint = taints.find((it) => it.effect === "NoExecute")
    if (taint === undefined) continue
    const evidenceOfTaint = nodeFact(name, "spec.taints", `${taint.key}:${taint.effect}`, taint.timeAdded ?? undefined)
    // On a Ready Node the out-of-service taint evicts like any other
    return lossTaints.has(taint.key) && taint.key !== outOfServiceTaint
      ? { cause: { _tag: "NodeLost", node: name, detail: `taint ${taint.key}` }, evidence: [own, evidenceOfTaint] }
      : { cause: { _tag: "Drained", by: `taint ${taint.key}` }, evidence: [own, evidenceOfTaint] }
  }
  return { cause: { _tag: "Evicted", reason: "a NoExecute taint that was not seen", ownLimit: false }, evidence: [own] }
}

const disruptionCause = (evidence: Evidence.Evidence, pod: Pod, disruption: Condition): Explained => {
  const own = [conditionFact(podName(pod), disruption, pod.evidence.presence)]
  const detail = disruption.message ?? ""
  switch (disruption.reason) {
    case "PreemptionByScheduler":
      return { cause: { _tag: "Preempted", by: "scheduler", detail }, evidence: own }
    case "DeletionByTaintManager":
      return taintCause(evidence, pod, disruption)
    case "DeletionByPodGC":
      return { cause: { _tag: "NodeLost", node: pod.nodeName ?? "", detail }, evidence: own }
    case "EvictionByEvictionAPI":
      return { cause: { _tag: "Drained", by: "the eviction API" }, evidence: own }
    default: {
      const reason = pod.evidence.pod.status?.reason ?? undefined
      const explained = reason === undefined ? undefined : statusCause(pod, reason, true)
      return explained === undefined
        ? {
            cause: { _tag: "Evicted", reason: disruption.reason ?? "DisruptionTarget", ownLimit: false },
            evidence: own
          }
        : { cause: explained.cause, evidence: [...own, ...explained.evidence] }
    }
  }
}

/** What the kubelet wrote into `status.reason`. */
const statusCause = (pod: Pod, reason: string, disrupted: boolean): Explained | undefined => {
  const message = pod.evidence.pod.status?.message ?? ""
  const evidence = [
    fact(
      podName(pod),
      "status.reason",
      message === "" ? reason : `${reason} ${message}`,
      undefined,
      pod.evidence.presence
    )
  ]
  if (reason === "DeadlineExceeded") return { cause: { _tag: "DeadlineExceeded", layer: "Pod" }, evidence }
  if (reason === "Preempting") return { cause: { _tag: "Preempted", by: "kubelet", detail: message }, evidence }
  if (reason === "NodeLost") return { cause: { _tag: "NodeLost", node: pod.nodeName ?? "", detail: message }, evidence }
  if (reason === "Terminated" || reason === "NodeShutdown" || reason === "Shutdown") {
    return { cause: { _tag: "Drained", by: "a shutdown of the Node" }, evidence }
  }
  // Over its own storage limit it is evicted without DisruptionTarget
  if (reason === "Evicted") return { cause: { _tag: "Evicted", reason: message, ownLimit: !disrupted }, evidence }
  if (reason.startsWith("OutOf") || reason === "NodeAffinity") {
    return { cause: { _tag: "NoCapacity", reason, detail: message }, evidence }
  }
  if (reason === "UnexpectedAdmissionError" || reason === "PodOSNotSupported" || reason === "InvalidNodeInfo") {
    return { cause: { _tag: "Evicted", reason: message === "" ? reason : message, ownLimit: false }, evidence }
  }
  return undefined
}

const isFinished = (phase: string | undefined): boolean => phase === "Succeeded" || phase === "Failed"

/** The latest real ending of each container that was not started again. */
const lastEndings = (pod: Pod): ReadonlyArray<Evidence.Ending> => {
  const statuses = new Map(Evidence.containersOf(pod.evidence.pod).map((it) => [it.name, it.status] as const))
  const last = new Map<string, Evidence.Ending>()
  for (const ending of pod.evidence.endings) last.set(ending.container, ending)
  return [...last.values()].filter((ending) => {
    const status = statuses.get(ending.container)
    const running = status?.state?.running !== undefined && status.state.running !== null
    return !(running && (status.restartCount ?? 0) > ending.restartCount)
  })
}

const signalOf = ({ signal, exitCode }: Core.Terminated): number | undefined =>
  signal !== undefined && signal !== null && signal > 0
    ? signal
    : exitCode > 128 && exitCode < 160
      ? exitCode - 128
      : undefined

const endingFact = (pod: Pod, ending: Evidence.Ending): Fact =>
  fact(
    podName(pod),
    `${ending.role === "main" ? "status.containerStatuses" : "status.initContainerStatuses"}[${ending.container}].state.terminated`,
    `exitCode ${ending.terminated.exitCode}${ending.terminated.reason ? ` ${ending.terminated.reason}` : ""}`,
    ending.terminated.finishedAt,
    pod.evidence.presence
  )

const deletionFact = (pod: Pod): Fact =>
  pod.evidence.deletionRequestedAt === undefined
    ? fact(podName(pod), "metadata.deletionTimestamp", "deleted", undefined, pod.evidence.presence)
    : fact(
        podName(pod),
        "metadata.deletionTimestamp",
        "deletion requested",
        pod.evidence.deletionRequestedAt,
        pod.evidence.presence
      )

type PodEnd =
  | { readonly _tag: "None" }
  /** Its container has ended, and its kubelet has yet to say what the pod's end was, e.g. an eviction. */
  | { readonly _tag: "Open"; readonly missing: string; readonly evidence: ReadonlyArray<Fact> }
  | { readonly _tag: "Incident"; readonly incident: Incident }
  /** It ended and nobody saw how. */
  | { readonly _tag: "Unseen"; readonly missing: string; readonly evidence: ReadonlyArray<Fact> }

const incident = (pod: Pod, time: number, rank: number, explained: Explained): PodEnd => ({
  _tag: "Incident",
  incident: { ...explained, time, rank, pod }
})

const epoch = (time: string | null | undefined): number | undefined => {
  const value = Evidence.millis(time)
  // StartError carries startedAt 1970; a zero time is no time
  return value === undefined || value <= 0 ? undefined : value
}

const ends = new WeakMap<
  Pod,
  { readonly sightings: ReadonlyArray<Evidence.NodeSighting> | undefined; readonly end: PodEnd }
>()

/** How a pod ended, which the pod and its Node tell. */
const endOf = (evidence: Evidence.Evidence, pod: Pod): PodEnd => {
  const sightings = pod.nodeName === undefined ? undefined : evidence.nodes[pod.nodeName]
  const known = ends.get(pod)
  if (known !== undefined && known.sightings === sightings) return known.end
  const end = readEnd(evidence, pod)
  ends.set(pod, { sightings, end })
  return end
}

const readEnd = (evidence: Evidence.Evidence, pod: Pod): PodEnd => {
  const { evidence: own } = pod
  const endings = lastEndings(pod).filter(({ role }) => role !== "sidecar")
  const failing = endings
    .filter(({ terminated }) => terminated.exitCode !== 0)
    .toSorted((a, b) => (epoch(a.terminated.finishedAt) ?? 0) - (epoch(b.terminated.finishedAt) ?? 0))[0]
  const ended = isFinished(pod.phase) || pod.gone
  const exit = failing ?? endings.find(({ role }) => role === "main")
  const exitAt = epoch(exit?.terminated.finishedAt)
  const deletionAt = Evidence.millis(own.deletionRequestedAt)
  const reason = own.pod.status?.reason ?? undefined
  const failedAt = exitAt ?? epoch(condition(own.pod.status?.conditions, "Ready")?.lastTransitionTime) ?? own.seenAt
  if (reason === "DeadlineExceeded") {
    const explained = statusCause(pod, reason, false)
    if (explained !== undefined) return incident(pod, Math.min(failedAt, deletionAt ?? failedAt), 0, explained)
  }
  if (pod.phase === "Succeeded" && own.disruptions.length === 0 && failing === undefined) return { _tag: "None" }

  const disruption = own.disruptions[0]
  const disruptedAt = Evidence.millis(disruption?.lastTransitionTime)
  // PodGC marks pods that ended long ago: a condition later than the exit explains nothing
  if (disruption !== undefined && (exitAt === undefined || disruptedAt === undefined || disruptedAt <= exitAt)) {
    if (!(pod.phase === "Succeeded" && exitAt === undefined)) {
      const trouble = disruption.reason === "DeletionByTaintManager" ? nodeTrouble(evidence, pod) : undefined
      const explained = disruptionCause(evidence, pod, disruption)
      const at = disruptedAt ?? own.seenAt
      return incident(pod, Math.min(at, trouble?.time ?? at), 1, explained)
    }
  }
  if (reason !== undefined && pod.phase === "Failed") {
    const explained = statusCause(pod, reason, own.disruptions.length > 0)
    if (explained !== undefined) return incident(pod, failedAt, 2, explained)
  }
  const trouble = exit === undefined ? nodeTrouble(evidence, pod) : undefined
  if (trouble !== undefined) {
    return incident(pod, trouble.time, 3, {
      cause: { _tag: "NodeLost", node: pod.nodeName ?? "", detail: trouble.detail },
      evidence: [trouble.fact, ...(ended ? [deletionFact(pod)] : [])]
    })
  }
  if (failing !== undefined) {
    const { terminated } = failing
    const at = exitAt ?? own.seenAt
    const facts = [endingFact(pod, failing)]
    if (terminated.reason === "OOMKilled") {
      return incident(pod, at, 4, {
        cause: { _tag: "OutOfMemory", container: failing.container, exitCode: terminated.exitCode },
        evidence: facts
      })
    }
    const first =
      failing.beforeDeletion || deletionAt === undefined || (own.deletionIsExact === true && at < deletionAt)
    if (first && (terminated.reason === "StartError" || terminated.reason === "ContainerCannotRun")) {
      return incident(pod, at, 5, {
        cause: { _tag: "Misconfigured", reason: terminated.reason, detail: terminated.message ?? "" },
        evidence: facts
      })
    }
    // A kubelet that evicts a pod tells the exit of the container first, the reason with the phase
    if (first && !ended && deletionAt === undefined) {
      return {
        _tag: "Open",
        missing: `the end of ${podName(pod)}: its container alone was seen to end`,
        evidence: facts
      }
    }
    if (first) {
      const signal = signalOf(terminated)
      return incident(pod, at, 6, {
        cause: {
          _tag: "Application",
          container: failing.container,
          exitCode: terminated.exitCode,
          ...(signal === undefined ? {} : { signal })
        },
        evidence: facts
      })
    }
    const ranOn = Evidence.millis(own.ranAfterDeletion)
    if (own.deletionIsExact !== true && (ranOn === undefined || at < ranOn)) {
      return {
        _tag: "Unseen",
        missing: `whether ${podName(pod)} was deleted before or after it ended`,
        evidence: [...facts, deletionFact(pod)]
      }
    }
  }
  if (pod.phase === "Succeeded") return { _tag: "None" }
  const blocked = obstacle(pod)
  if (blocked !== undefined && ended && deletionAt === undefined) return incident(pod, own.seenAt, 5, blocked)
  if (deletionAt !== undefined || own.presence === "seen") {
    return incident(pod, deletionAt ?? own.goneAt ?? own.seenAt, 7, {
      cause: { _tag: "Deleted", object: podName(pod) },
      evidence: [deletionFact(pod), ...(failing === undefined ? [] : [endingFact(pod, failing)])]
    })
  }
  if (!ended) return { _tag: "None" }
  return {
    _tag: "Unseen",
    missing: own.presence === "inferred" ? `how ${podName(pod)} ended` : `why ${podName(pod)} failed`,
    evidence: [
      own.presence === "inferred"
        ? fact(podName(pod), "status.phase", pod.phase ?? "", undefined, own.presence)
        : fact(podName(pod), "status.phase", pod.phase ?? "", undefined, own.presence)
    ]
  }
}

const kueueCause = (reason: string, message: string): Cause => {
  switch (reason) {
    case "Preempted":
      return { _tag: "Preempted", by: "kueue", detail: message }
    case "PodsReadyTimeout":
    case "DeactivatedDueToRequeuingLimitExceeded":
      return { _tag: "NoCapacity", reason, detail: message }
    case "ClusterQueueStopped":
    case "LocalQueueStopped":
      return { _tag: "Drained", by: message === "" ? reason : message }
    case "NodeFailures":
      return { _tag: "NodeLost", node: "", detail: message }
    case "DeactivatedDueToMaximumExecutionTimeExceeded":
      return { _tag: "DeadlineExceeded", layer: "Kueue" }
    case "Deactivated":
    case "DeactivatedDueToAdmissionCheck":
      return { _tag: "Held", by: "workload", detail: message }
    default:
      return { _tag: "Evicted", reason: message === "" ? reason : `${reason}: ${message}`, ownLimit: false }
  }
}

/** Reads Kueue's words in a `Stopped` event of a TrainJob whose Workload is not there any more. */
const stoppedCause = (message: string): Cause => {
  if (message.startsWith("Preempted to accommodate")) return { _tag: "Preempted", by: "kueue", detail: message }
  if (message.startsWith("The workload is deactivated due to exceeding the maximum execution time")) {
    return { _tag: "DeadlineExceeded", layer: "Kueue" }
  }
  if (message.startsWith("The workload is deactivated")) return { _tag: "Held", by: "workload", detail: message }
  if (message.includes("Queue is stopped")) return { _tag: "Drained", by: message }
  return { _tag: "Evicted", reason: message, ownLimit: false }
}

/** When a pod was created, epoch milliseconds. */
const createdAt = once((pod) => Evidence.millis(pod.creationTimestamp) ?? 0)

/** When a pod was stopped: asked to go, or ended. When it was found missing only where nothing else is known, since that is the observer's clock. */
const stoppedAt = once((pod): number => {
  const exits = isFinished(pod.phase)
    ? pod.evidence.endings.flatMap(({ terminated }) => epoch(terminated.finishedAt) ?? [])
    : []
  const times = [...exits, Evidence.millis(pod.evidence.deletionRequestedAt) ?? []].flat()
  return times.length > 0 ? Math.min(...times) : (pod.evidence.goneAt ?? Number.POSITIVE_INFINITY)
})

const earliest = (pods: ReadonlyArray<Pod>): number =>
  pods.reduce((first, pod) => Math.min(first, createdAt(pod)), Number.POSITIVE_INFINITY)
const latestStop = (pods: ReadonlyArray<Pod>): number =>
  pods.reduce((last, pod) => Math.max(last, stoppedAt(pod)), Number.NEGATIVE_INFINITY)

// Conditions and creation times are whole seconds of different clocks
const skew = 1000

interface Interruption extends Explained {
  readonly time: number
}

/** Evictions of the Workload that hit these pods: an eviction of a mere reservation ended no execution. */
const interruptions = (
  evidence: Evidence.Evidence,
  uid: string | undefined,
  pods: ReadonlyArray<Pod>
): ReadonlyArray<Interruption> => {
  const workloads = workloadsOf(evidence, uid)
  if (pods.length === 0 || workloads.length === 0) return []
  const started = earliest(pods)
  const stopped = latestStop(pods)
  return workloads.flatMap(({ workload, evictions, presence }) =>
    evictions.flatMap((it): ReadonlyArray<Interruption> => {
      const at = Evidence.millis(it.at)
      const [from, to] = at === undefined ? [it.after ?? Number.POSITIVE_INFINITY, it.noticedAt] : [at, at]
      if (to < started - skew || from > stopped + skew || from === Number.POSITIVE_INFINITY) return []
      const name = `Workload/${workload.metadata.name}`
      const text = it.message === undefined ? it.reason : `${it.reason} ${it.message}`
      return [
        {
          time: at ?? Math.max(from, started),
          cause: kueueCause(it.reason, it.message ?? ""),
          evidence: [
            at === undefined
              ? fact(name, "status.schedulingStats.evictions", text, undefined, presence)
              : fact(name, "status.conditions[Evicted]", text, it.at, presence)
          ]
        }
      ]
    })
  )
}

const workloadsOf = (evidence: Evidence.Evidence, uid: string | undefined): ReadonlyArray<Evidence.WorkloadEvidence> =>
  Object.values(evidence.workloads)
    .filter(({ workload }) => {
      const owner = controllerOf(workload.metadata)?.uid ?? workload.metadata.labels?.[Kueue.jobUidLabel]
      return uid === undefined || owner === undefined || owner === uid
    })
    .toSorted(
      (a, b) =>
        Number(a.presence === "present") - Number(b.presence === "present") ||
        (Evidence.millis(a.workload.metadata.creationTimestamp) ?? 0) -
          (Evidence.millis(b.workload.metadata.creationTimestamp) ?? 0)
    )

/** The events with which Kueue stopped these pods, when their Workload took its record with it. */
const stopEvents = (evidence: Evidence.Evidence, uid: string, pods: ReadonlyArray<Pod>): Interruption | undefined => {
  if (evidence.events.length === 0) return undefined
  const started = earliest(pods)
  const stopped = latestStop(pods)
  const event = evidence.events.find(
    (it) =>
      it.kind === "TrainJob" &&
      (it.reason === "Stopped" || it.reason === "DeletedWorkload") &&
      (it.regardingUid === undefined || it.regardingUid === uid) &&
      (Evidence.millis(it.at) ?? 0) >= started - skew &&
      // events come late, and are repeated
      (Evidence.millis(it.firstAt) ?? 0) <= stopped + 10 * skew
  )
  if (event === undefined) return undefined
  return {
    time: Evidence.millis(event.firstAt ?? event.at) ?? 0,
    cause: stoppedCause(event.message ?? event.reason),
    evidence: [
      fact(
        `Event/TrainJob ${event.name}`,
        "reason",
        `${event.reason} ${event.message ?? ""}`.trim(),
        event.at,
        "present"
      )
    ]
  }
}

/** A rank; a pod without an index is one of its own. */
const rankKey = once((pod) => {
  const index = pod.labels[Batch.completionIndexLabel]
  return index === undefined ? pod.uid : `${pod.labels[Batch.jobNameLabel] ?? ""}/${index}`
})

/** The newest pod of each rank that something happened to, else its newest pod. */
const endsByRank = (evidence: Evidence.Evidence, pods: ReadonlyArray<Pod>): ReadonlyArray<PodEnd> => {
  const ranks = new Map<string, PodEnd>()
  for (const pod of pods) {
    const key = rankKey(pod)
    const end = endOf(evidence, pod)
    if (end._tag !== "None" || !ranks.has(key)) ranks.set(key, end)
  }
  return [...ranks.values()]
}

const byTime = (a: Incident, b: Incident): number =>
  Math.floor(a.time / 1000) - Math.floor(b.time / 1000) ||
  a.rank - b.rank ||
  a.time - b.time ||
  (a.pod.uid < b.pod.uid ? -1 : 1)

/** How one pod ended, or began to end; `unseen`: it ended and nobody saw how. */
export type PodOutcome =
  | {
      readonly _tag: "Explained"
      readonly cause: Cause
      readonly evidence: ReadonlyArray<Fact>
      /** Epoch milliseconds. */
      readonly at: number
    }
  | { readonly _tag: "Unseen"; readonly missing: string; readonly evidence: ReadonlyArray<Fact> }

/** What ended a pod, from its own evidence and its Node's alone; undefined while it goes on and when it ended well. */
export const podOutcome = (evidence: Evidence.Evidence, pod: Evidence.PodRecord): PodOutcome | undefined => {
  const end = endOf(evidence, pod)
  switch (end._tag) {
    case "None":
    case "Open":
      return undefined
    case "Incident":
      return { _tag: "Explained", cause: end.incident.cause, evidence: end.incident.evidence, at: end.incident.time }
    case "Unseen":
      return end
  }
}

interface Subject {
  readonly trainJob: Evidence.TrainJobEvidence
  readonly execution: Execution.Execution<Pod> | undefined
  readonly incarnation: Execution.Incarnation<Pod> | undefined
  readonly all: Execution.Executions<Pod>
}

const jobsOf = (evidence: Evidence.Evidence, subject: Subject): ReadonlyArray<Evidence.JobEvidence> =>
  (subject.incarnation?.runs ?? []).flatMap(({ jobUid }) => evidence.jobs[jobUid] ?? [])

const unknown = (missing: ReadonlyArray<string>, evidence: ReadonlyArray<Fact> = []): Explained => ({
  cause: { _tag: "Unknown", missing },
  evidence
})

/** Why the execution ended or is ending; the precedence of the kinds of evidence is the order here. */
const causeOfEnd = (evidence: Evidence.Evidence, subject: Subject): Explained => {
  const { trainJob, incarnation, execution, all } = subject
  const uid = trainJob.trainJob.metadata.uid
  const self = `TrainJob/${evidence.name}`
  const { terminal } = trainJob
  if (terminal?.type === "Failed" && terminal.reason === "DeadlineExceeded") {
    return {
      cause: { _tag: "DeadlineExceeded", layer: "TrainJob" },
      evidence: [conditionFact(self, terminal, trainJob.presence)]
    }
  }
  if (terminal?.type === "Failed" && terminal.reason === "TrainingRuntimeNotSupported") {
    return {
      cause: { _tag: "Misconfigured", reason: terminal.reason, detail: terminal.message ?? "" },
      evidence: [conditionFact(self, terminal, trainJob.presence)]
    }
  }
  for (const { job, presence } of jobsOf(evidence, subject)) {
    for (const type of ["FailureTarget", "Failed"]) {
      const found = trueCondition(job.status?.conditions, type)
      if (found?.reason === "DeadlineExceeded") {
        return {
          cause: { _tag: "DeadlineExceeded", layer: "Job" },
          evidence: [conditionFact(`Job/${job.metadata.name}`, found, presence)]
        }
      }
    }
  }
  if (incarnation === undefined || execution === undefined) {
    return unknown([`no pod of ${self} was seen`])
  }

  const ends = endsByRank(evidence, unheld(subject))
  const incidents = ends.flatMap((end) => (end._tag === "Incident" ? [end.incident] : [])).toSorted(byTime)
  const unseen = ends.flatMap((end) => (end._tag === "Unseen" || end._tag === "Open" ? [end] : []))
  const first = incidents[0]
  const deadline = incidents.find((it) => it.cause._tag === "DeadlineExceeded")
  if (deadline !== undefined) return deadline

  const interruption = [
    ...interruptions(evidence, uid, incarnation.pods),
    ...[stopEvents(evidence, uid, incarnation.pods)].flatMap((it) => it ?? [])
  ].toSorted((a, b) => a.time - b.time)[0]
  // A rank that had failed before the eviction failed by itself
  if (interruption !== undefined && (first === undefined || first.rank > 6 || first.time >= interruption.time - skew)) {
    return interruption
  }
  if (first !== undefined && first.rank < 6) return first

  const { missing } = Evidence.gaps(evidence, all, execution, incarnation, uid)
  const gaps = [...unseen.map((it) => it.missing), ...missing.map((rank) => `any pod of ${rank}`)]
  if (gaps.length > 0) {
    return unknown(gaps, [...unseen.flatMap((it) => it.evidence), ...(first?.evidence ?? [])])
  }
  if (first === undefined) return unknown([`why ${self} ended: every pod that was seen ended well`])
  // The whole TrainJob was deleted or stopped: its pods went with it
  if (first.rank === 7) {
    const deleted = deletion(evidence, trainJob)
    if (deleted !== undefined) return deleted
  }
  return first
}

const deletion = (evidence: Evidence.Evidence, trainJob: Evidence.TrainJobEvidence): Explained | undefined => {
  const self = `TrainJob/${evidence.name}`
  const { deletionTimestamp } = trainJob.trainJob.metadata
  const requested = deletionTimestamp !== undefined && deletionTimestamp !== null
  if (trainJob.presence === "present" && !requested) return undefined
  return {
    cause: { _tag: "Deleted", object: self },
    evidence: [
      fact(
        self,
        requested ? "metadata.deletionTimestamp" : "metadata.uid",
        trainJob.presence === "present" ? "deletion requested" : "no longer exists",
        deletionTimestamp,
        trainJob.presence
      )
    ]
  }
}

const select = (evidence: Evidence.Evidence, trainJob: Evidence.TrainJobEvidence): Subject => {
  const all = Evidence.executions(evidence, trainJob.trainJob.metadata.uid)
  const end = Evidence.millis(trainJob.terminal?.lastTransitionTime)
  if (end !== undefined) {
    // What was started after the end is another incarnation: the result is not about it
    for (const execution of all.all.toReversed()) {
      const incarnation = execution.incarnations.findLast(({ pods }) => pods.some((pod) => createdAt(pod) <= end))
      if (incarnation !== undefined) return { trainJob, all, execution, incarnation }
    }
  }
  return { trainJob, all, execution: all.last, incarnation: all.last?.newest }
}

/**
 * The pods that matter for the present start: those that a hold stopped have ended as they should. (The TrainJob says
 * `Suspended` False, and a Job its new start time, after the first new pods.)
 */
const unheld = ({ trainJob, incarnation }: Subject): ReadonlyArray<Pod> => {
  const pods = incarnation?.pods ?? []
  if (trainJob.trainJob.spec?.suspend === true) return pods
  const { suspensions } = trainJob
  const holds = suspensions.flatMap(({ status, lastTransitionTime }, index) => {
    const from = Evidence.millis(lastTransitionTime)
    if (status !== "True" || from === undefined) return []
    return [{ from, to: Evidence.millis(suspensions[index + 1]?.lastTransitionTime) ?? Number.POSITIVE_INFINITY }]
  })
  if (holds.length === 0) return pods
  return pods.filter((pod) => {
    const created = createdAt(pod)
    const stopped = Evidence.millis(pod.evidence.deletionRequestedAt) ?? pod.evidence.goneAt
    return (
      stopped === undefined ||
      !holds.some(({ from, to }) => created <= from && stopped >= from - skew && stopped <= to + skew)
    )
  })
}

const isStarted = once(
  (pod) =>
    pod.phase === "Running" ||
    Evidence.containersOf(pod.evidence.pod).some(
      ({ role, status }) => role === "main" && status?.state?.running !== undefined && status.state.running !== null
    )
)

type Located = { readonly state: State } & { readonly [K in keyof Explained]: Explained[K] | undefined }

const located = (state: State, explained?: Explained, evidence: ReadonlyArray<Fact> = []): Located => ({
  state,
  cause: explained?.cause,
  evidence: [...evidence, ...(explained?.evidence ?? [])]
})

/** A suspended TrainJob that has not ended. */
const suspendedState = (evidence: Evidence.Evidence, subject: Subject, alive: boolean): Located => {
  const { trainJob, incarnation } = subject
  const { uid } = trainJob.trainJob.metadata
  const self = `TrainJob/${evidence.name}`
  const suspension = trainJob.suspensions.findLast(({ status }) => status === "True")
  const suspended =
    suspension === undefined
      ? fact(self, "spec.suspend", "true", undefined, trainJob.presence)
      : conditionFact(self, suspension, trainJob.presence)
  const stopped =
    incarnation === undefined
      ? undefined
      : (interruptions(evidence, uid, incarnation.pods).at(-1) ?? stopEvents(evidence, uid, incarnation.pods))
  const current = workloadsOf(evidence, uid).findLast(({ presence }) => presence === "present")
  if (current === undefined) {
    if (stopped !== undefined) return located(alive ? "Stopping" : "Pending", stopped, [suspended])
    const queue = trainJob.trainJob.metadata.labels?.[Kueue.queueNameLabel]
    if (queue !== undefined && incarnation === undefined) {
      return located("Pending", undefined, [
        suspended,
        fact(self, `metadata.labels[${Kueue.queueNameLabel}]`, queue, undefined, trainJob.presence)
      ])
    }
    if (queue !== undefined) {
      return located(alive ? "Stopping" : "Held", unknown([`the Workload of ${self}, which tells who stopped it`]), [
        suspended
      ])
    }
    return located(alive ? "Stopping" : "Held", {
      cause: { _tag: "Held", by: "suspend", detail: "spec.suspend is true" },
      evidence: [suspended]
    })
  }
  const { workload } = current
  const name = `Workload/${workload.metadata.name}`
  if (workload.spec?.active === false) {
    const evicted = trueCondition(workload.status?.conditions, "Evicted")
    const reason = evicted?.reason ?? "Deactivated"
    return located(alive ? "Stopping" : "Held", {
      cause: reason.startsWith("Deactivated")
        ? kueueCause(reason, evicted?.message ?? "")
        : { _tag: "Held", by: "workload", detail: evicted?.message ?? "" },
      evidence: [
        fact(name, "spec.active", "false", undefined, current.presence),
        ...(evicted === undefined ? [] : [conditionFact(name, evicted, current.presence)])
      ]
    })
  }
  if (stopped !== undefined) return located(alive ? "Stopping" : "Pending", stopped)
  if (alive)
    return located("Stopping", unknown([`who suspended ${self}: its Workload is active and was not evicted`]), [
      suspended
    ])
  const quota = condition(workload.status?.conditions, "QuotaReserved")
  if (quota?.status === "False") {
    const misconfigured = quota.reason === "Misconfigured" || quota.reason === "NoMatchingFlavor"
    return located("Pending", {
      cause: {
        _tag: misconfigured ? "Misconfigured" : "NoCapacity",
        reason: quota.reason ?? "",
        detail: quota.message ?? ""
      },
      evidence: [conditionFact(name, quota, current.presence)]
    })
  }
  const waiting = workload.status?.admissionChecks?.find(({ state }) => state !== "Ready")
  // Admission is not running: a TrainJob that stays suspended after it shows that it was admitted
  const admitted = trueCondition(workload.status?.conditions, "Admitted")
  return located(
    "Pending",
    undefined,
    waiting === undefined
      ? admitted === undefined
        ? []
        : [suspended, conditionFact(name, admitted, current.presence)]
      : [fact(name, `status.admissionChecks[${waiting.name}].state`, waiting.state, undefined, current.presence)]
  )
}

/** It left or is leaving without having succeeded. */
const isLeaving = (pod: Pod): boolean =>
  pod.phase !== "Succeeded" && (pod.gone || pod.phase === "Failed" || pod.evidence.deletionRequestedAt !== undefined)

/** Whether the execution is on its way to an end that the TrainJob does not tell yet. */
const isEnding = (evidence: Evidence.Evidence, subject: Subject): boolean => {
  const { incarnation } = subject
  if (incarnation === undefined) return false
  const jobs = jobsOf(evidence, subject)
  if (
    jobs.some(({ job }) =>
      ["FailureTarget", "Failed", "SuccessCriteriaMet"].some(
        (type) => trueCondition(job.status?.conditions, type) !== undefined
      )
    )
  ) {
    return true
  }
  const jobSet = evidence.jobSets[incarnation.jobSetUid]
  if (trueCondition(jobSet?.jobSet.status?.conditions, "Failed") !== undefined) return true
  const pods = unheld(subject)
  if (pods.every((pod) => pod.gone || isFinished(pod.phase))) return true
  // A Job that replaces pods goes on after it lost one
  if (jobs.some(({ job }) => (job.spec?.backoffLimit ?? 0) > 0)) return false
  if (!pods.some(isLeaving)) return false
  const newest = new Map(pods.map((pod) => [rankKey(pod), pod] as const))
  return [...newest.values()].some(isLeaving)
}

/**
 * Controllers delete pods, too, and what they delete them for may be seen later than the deletion: each type has a watch of its
 * own. Until the TrainJob says that it has ended, nobody is said to have deleted a pod.
 */
const untilExplained = (explained: Explained): Explained =>
  explained.cause._tag === "Deleted" && explained.cause.object.startsWith("Pod/")
    ? unknown([`why ${explained.cause.object} is deleted: its TrainJob has not ended yet`], explained.evidence)
    : explained

// A controller whose cache is behind, or that cannot reach a webhook, tries again: seen after a restart of the API server
const passes =
  /TrainJob\S* "[^"]*" not found|connection refused|connection reset|deadline exceeded|timeout|timed out|has been modified|EOF/

/** The last event of that reason about an object, unless it passes by itself. */
const refusalOf = (
  evidence: Evidence.Evidence,
  uid: string,
  reason: string
): (Evidence.EventEvidence & { readonly message: string }) | undefined => {
  const event = evidence.events.findLast((it) => it.regardingUid === uid && it.reason === reason)
  const message = event?.message ?? ""
  return event === undefined || passes.test(message) ? undefined : { ...event, message }
}

const refusedBy = (event: Evidence.EventEvidence & { readonly message: string }): Explained => ({
  // https://kubernetes.io/docs/concepts/policy/resource-quotas/
  cause: {
    _tag: /exceeded quota/.test(event.message) ? "NoCapacity" : "Misconfigured",
    reason: event.reason,
    detail: event.message
  },
  evidence: [
    fact(
      `Event/${event.kind}/${event.name}`,
      "reason",
      `${event.reason} ${event.message}`,
      // The time of the last try would be news at each try
      event.firstAt ?? event.at,
      "present"
    )
  ]
})

/** Whether something was made of it after an event; times of creation have no fractions. */
const madeSince = (made: ReadonlyArray<string | null | undefined>, at: string | undefined): boolean => {
  const time = Math.floor((Evidence.millis(at) ?? 0) / 1000) * 1000
  return made.some((creation) => (Evidence.millis(creation) ?? 0) > time)
}

/** Why a JobSet has not all its Jobs, or a Job not all its pods, where the server refuses them. */
const refusedParts = (evidence: Evidence.Evidence, trainJobUid: string): Explained | undefined => {
  if (evidence.events.every(({ kind }) => kind === "TrainJob")) return undefined
  for (const { jobSet, presence } of Object.values(evidence.jobSets)) {
    if (presence !== "present" || controllerOf(jobSet.metadata)?.uid !== trainJobUid) continue
    const jobs = Object.values(evidence.jobs).filter(
      (it) => it.presence === "present" && controllerOf(it.job.metadata)?.uid === jobSet.metadata.uid
    )
    const wanted = (jobSet.spec?.replicatedJobs ?? []).reduce((sum, { replicas }) => sum + (replicas ?? 1), 0)
    const refusal = refusalOf(evidence, jobSet.metadata.uid, "JobCreationFailed")
    const made = jobs.map(({ job }) => job.metadata.creationTimestamp)
    if (refusal !== undefined && jobs.length < wanted && !madeSince(made, refusal.at)) return refusedBy(refusal)
    for (const { job } of jobs) {
      const podRefusal = refusalOf(evidence, job.metadata.uid, "FailedCreate")
      if (podRefusal === undefined || job.spec?.suspend === true) continue
      const pods = Object.values(evidence.pods).filter(
        ({ pod }) => controllerOf(pod.metadata)?.uid === job.metadata.uid
      )
      const there = pods.filter(({ pod, presence }) => presence === "present" && pod.status?.phase !== "Failed")
      const created = pods.map(({ pod }) => pod.metadata.creationTimestamp)
      if (there.length < (job.spec?.parallelism ?? 1) && !madeSince(created, podRefusal.at))
        return refusedBy(podRefusal)
    }
  }
  return undefined
}

const activeState = (evidence: Evidence.Evidence, subject: Subject): Located => {
  const { trainJob } = subject
  const pods = unheld(subject)
  const started = pods.filter((pod) => !pod.gone && !isFinished(pod.phase))
  if (pods.length === 0) {
    const { uid } = trainJob.trainJob.metadata
    const hasJobSet = Object.values(evidence.jobSets).some(
      ({ jobSet, presence }) => presence === "present" && controllerOf(jobSet.metadata)?.uid === uid
    )
    if (hasJobSet) return located("Pending", refusedParts(evidence, uid))
    const refused = refusalOf(evidence, uid, "TrainJobResourcesCreationFailed")
    return located("Pending", refused === undefined ? undefined : refusedBy(refused))
  }
  if (isEnding(evidence, subject)) {
    const ends = endsByRank(evidence, pods)
    return ends.every(({ _tag }) => _tag === "None" || _tag === "Open")
      ? located("Stopping")
      : located("Stopping", untilExplained(causeOfEnd(evidence, subject)))
  }
  const blocked = started.find((pod) => obstacle(pod) !== undefined)
  return located(
    started.some(isStarted) ? "Running" : "Pending",
    blocked === undefined ? refusedParts(evidence, trainJob.trainJob.metadata.uid) : obstacle(blocked)
  )
}

/**
 * Why one start of an execution ended that is not the one `classify` is about; undefined when every pod of it ended well.
 * The TrainJob's own result is not about it, so only its pods, their Jobs and Kueue's record explain it.
 */
export const explainEnd = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Pod>,
  execution: Execution.Execution<Pod>,
  incarnation: Execution.Incarnation<Pod>,
  uid?: string
): { readonly cause: Cause; readonly evidence: ReadonlyArray<Fact> } | undefined => {
  const known = Evidence.trainJob(evidence, uid)
  if (known === undefined || incarnation.pods.every((pod) => pod.phase === "Succeeded")) return undefined
  const { terminal: _, ...trainJob } = known
  const subject: Subject = {
    trainJob: { ...trainJob, trainJob: { ...known.trainJob, spec: { ...known.trainJob.spec, suspend: false } } },
    all,
    execution,
    incarnation
  }
  const own = known.trainJob.metadata.uid
  const stopped = interruptions(evidence, own, incarnation.pods).length > 0
  if (unheld(subject).length === 0 && !stopped && stopEvents(evidence, own, incarnation.pods) === undefined) {
    const hold = known.suspensions.find(({ status }) => status === "True")
    return {
      cause: { _tag: "Held", by: "suspend", detail: "spec.suspend was true" },
      evidence: hold === undefined ? [] : [conditionFact(`TrainJob/${evidence.name}`, hold, known.presence)]
    }
  }
  return causeOfEnd(evidence, subject)
}

/** Classifies one TrainJob of the name: the one with that uid, else the present one, else the last one. Total. */
export const classify = (evidence: Evidence.Evidence, uid?: string): Verdict => {
  const trainJob = Evidence.trainJob(evidence, uid)
  if (trainJob === undefined) {
    const { last } = Evidence.executions(evidence, uid)
    return {
      uid,
      state: "Unknown",
      cause: { _tag: "Unknown", missing: [`TrainJob/${evidence.name} was never seen`] },
      outcome: undefined,
      execution: last?.number,
      incarnation: last?.incarnations.length ?? 0,
      identity: last?.identity,
      repeated: last?.repeated ?? false,
      alive: last?.pods.some((pod) => Evidence.isUnended(pod.evidence)) ?? false,
      evidence: [],
      notes: []
    }
  }
  const subject = select(evidence, trainJob)
  const { all, execution, incarnation } = subject
  const self = `TrainJob/${evidence.name}`
  const { terminal } = trainJob
  const outcome = terminal === undefined ? undefined : terminal.type === "Complete" ? "Succeeded" : "Failed"
  const alive = all.all.some(({ pods }) => pods.some((pod) => Evidence.isUnended(pod.evidence)))

  const locate = (): Located => {
    const own = terminal === undefined ? [] : [conditionFact(self, terminal, trainJob.presence)]
    const deleted = deletion(evidence, trainJob)
    const ended = (state: State): Located => {
      if (outcome === "Succeeded") return located(state, undefined, own)
      if (outcome === "Failed") {
        const explained = causeOfEnd(evidence, subject)
        return located(
          state,
          { ...explained, evidence: explained.evidence.filter(({ field }) => field !== own[0]?.field) },
          own
        )
      }
      // Not ended before: what happened to its pods before the deletion is the cause, else the deletion
      const explained = incarnation === undefined ? deleted : causeOfEnd(evidence, subject)
      const at = Evidence.millis(trainJob.trainJob.metadata.deletionTimestamp) ?? trainJob.goneAt
      const earlier =
        incarnation !== undefined &&
        endsByRank(evidence, incarnation.pods).some(
          (end) => end._tag === "Incident" && end.incident.rank < 7 && (at === undefined || end.incident.time <= at)
        )
      return located(state, earlier ? explained : (deleted ?? explained), earlier ? (deleted?.evidence ?? []) : [])
    }
    if (trainJob.presence !== "present") return ended("Gone")
    if (outcome !== undefined) return ended(outcome)
    if (deleted !== undefined) return ended("Stopping")
    if (trainJob.trainJob.spec?.suspend === true) return suspendedState(evidence, subject, alive)
    return activeState(evidence, subject)
  }

  const { state, cause: found, evidence: facts } = locate()
  const later = execution !== undefined && all.all.indexOf(execution) < all.all.length - 1
  return {
    uid: trainJob.trainJob.metadata.uid,
    state,
    cause: found,
    outcome,
    execution: execution?.number,
    incarnation:
      execution === undefined || incarnation === undefined ? 0 : execution.incarnations.indexOf(incarnation) + 1,
    identity: execution?.identity,
    repeated: (execution?.repeated ?? false) || (outcome !== undefined && later),
    alive,
    evidence: facts ?? [],
    notes: notes(evidence, subject)
  }
}

const notes = (evidence: Evidence.Evidence, { execution, all }: Subject): ReadonlyArray<string> => [
  ...(execution?.identity === "inferred"
    ? [
        `The pods carry no admission count: executions are told apart by uids and times${all.all.length > 1 ? ` (${all.all.length} so far)` : ""}.`
      ]
    : []),
  ...(execution?.repeated === true ? [`The execution was started ${execution.incarnations.length} times.`] : []),
  ...(all.strays.length > 0 ? ["Pods of another TrainJob of this name exist or existed."] : []),
  ...(evidence.droppedPods > 0 ? ["Evidence of earlier executions was given up to bound its size."] : [])
]
