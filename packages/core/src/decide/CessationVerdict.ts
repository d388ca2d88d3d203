/**
 * Whether an execution has really stopped. `ceased` rests on Nodes alone: with a dead kubelet every object says that the run
 * is over while its processes go on. `ended` rests on what kubelets reported of each container.
 *
 * @module
 */
import { DateTime } from "effect"
import * as Batch from "../model/Batch.js"
import type * as Core from "../model/Core.js"
import { outOfServiceTaint } from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import { type Condition, condition, controllerOf } from "../model/Meta.js"
import * as Evidence from "./Evidence.js"
import type * as Execution from "./Execution.js"

/** A Node as it was read for this answer. */
export type NodeReading = { readonly _tag: "Found"; readonly node: Core.Node } | { readonly _tag: "Missing" }

/** The Lease that a kubelet renews every ten seconds. `Absent`: nobody renews any. */
export type Lease = "valid" | "expired" | "absent" | "unreadable"

/** What was gathered. */
export interface Facts {
  /** With the live state folded in. */
  readonly evidence: Evidence.Evidence
  /** The TrainJob meant, where several had the name. */
  readonly uid: string | undefined
  /** By name; must hold every Node that `nodeNames` gives. */
  readonly nodes: ReadonlyMap<string, NodeReading>
  /** The Leases of the kubelets of Nodes that are deleted or out of service, by name of the Node. */
  readonly leases: ReadonlyMap<string, Lease>
  /** Epoch milliseconds. */
  readonly now: number
  readonly outOfService: "always" | "unless-ready"
}

/**
 * `deleted`: no such Node. `out-of-service`: it has that taint. `replaced`: the name exists with another uid than recorded
 * while the execution ran, which proves nothing: a kubelet that registers again keeps its pods.
 */
export type NodeState = "deleted" | "out-of-service" | "replaced" | "not-ready" | "ready"

/** One Node of the execution. */
export interface NodeAnswer {
  readonly name: string
  readonly state: NodeState
  /** Counts as ceased. */
  readonly ceased: boolean
  readonly uid: string | undefined
  /** Recorded while the execution ran; several when the name was re-used meanwhile. */
  readonly recordedUids: ReadonlyArray<string>
  /** The machine was started again since the execution ran: it is the same one, and its bootID differs from the one recorded. */
  readonly rebooted: boolean
  /**
   * Another machine has the name now (machineID, systemUUID): that it boots says nothing about the one on which the execution
   * ran.
   */
  readonly otherMachine: boolean
  readonly bootID: string | undefined
  readonly recordedBootIDs: ReadonlyArray<string>
  /** The Ready condition, with its heartbeat. */
  readonly ready: Condition | undefined
  readonly taints: ReadonlyArray<Core.Taint>
  /** Names of the execution's pods that were bound to it. */
  readonly pods: ReadonlyArray<string>
}

/** What proves that a pod runs no process. */
export type Proof =
  /** The kubelet reported a terminated state with its containerID for every container. */
  | {
      readonly _tag: "terminated"
      readonly containers: ReadonlyArray<{
        readonly name: string
        readonly containerID: string
        readonly exitCode: number
        readonly finishedAt: string | undefined
      }>
    }
  | { readonly _tag: "never-started"; readonly reason: string }
  | { readonly _tag: "none"; readonly reason: string }

/** One pod of the execution. */
export interface PodAnswer {
  readonly name: string
  readonly uid: string
  readonly node: string | undefined
  readonly presence: Evidence.Presence
  readonly proof: Proof
  /** Proven by itself, or by its Node. */
  readonly ended: boolean
}

/** The answer of `ceased`. */
export interface Verdict {
  /** When the Nodes were read, RFC 3339. */
  readonly at: string
  /** Every Node of the execution is known, and is deleted or out of service. */
  readonly ceased: boolean
  /** Every pod of the execution is proven to have ended, or its Node ceased or was rebooted. */
  readonly ended: boolean
  readonly uid: string | undefined
  readonly execution: number | undefined
  readonly identity: "injected" | "inferred" | undefined
  /** How many times the execution was started. */
  readonly incarnations: number
  readonly nodes: ReadonlyArray<NodeAnswer>
  readonly pods: ReadonlyArray<PodAnswer>
  /** Why not `ceased`; empty only when it is. */
  readonly reasons: ReadonlyArray<string>
  /** What to know before acting on a yes. */
  readonly cautions: ReadonlyArray<string>
  /**
   * Pods of other executions of this TrainJob of which nothing proves the end. The answer is about one execution: who acts for
   * the whole TrainJob wants none of these.
   */
  readonly earlier: ReadonlyArray<PodAnswer>
}

type Pod = Evidence.PodRecord

const byName = (a: Pod, b: Pod): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)

const distinct = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => [...new Set(items)]

const executionOf = (evidence: Evidence.Evidence, uid: string | undefined) => {
  const all = Evidence.executions(evidence, uid)
  return { all, execution: all.current ?? all.last }
}

const nodesOf = (pods: ReadonlyArray<Pod>): ReadonlyArray<string> => distinct(pods.flatMap((pod) => pod.nodeName ?? []))

/** Pods of other executions of the TrainJob that do not prove their end themselves. */
const unprovenOthers = ({ all, execution }: ReturnType<typeof executionOf>): ReadonlyArray<Pod> =>
  all.all
    .filter((it) => it !== execution)
    .flatMap((it) => it.pods)
    .filter((pod) => proofOf(pod)._tag === "none")

/**
 * The Nodes to read: those of all pods, of all replicatedJobs and incarnations, of the current or last execution, and of the
 * pods of other executions that do not prove their end themselves.
 */
export const nodeNames = (evidence: Evidence.Evidence, uid?: string): ReadonlyArray<string> => {
  const found = executionOf(evidence, uid)
  return nodesOf([...(found.execution?.pods ?? []), ...unprovenOthers(found)]).toSorted()
}

const isReady = (node: Core.Node): boolean => condition(node.status?.conditions, "Ready")?.status === "True"

/** Whether an operator has vouched for it with the out-of-service taint. */
export const isOutOfService = (node: Core.Node): boolean =>
  (node.spec?.taints ?? []).some(({ key }) => key === outOfServiceTaint)

/**
 * Whether something shows that the kubelet lives: it renews its Lease, or reported of itself. Once it is silent the node
 * lifecycle controller makes Ready Unknown; False is the kubelet's own word, e.g. that its container runtime does not answer.
 */
const showsLife = (node: Core.Node, lease: Lease | undefined): boolean => {
  const ready = condition(node.status?.conditions, "Ready")?.status
  return lease === "valid" || ready === "True" || (ready === "False" && lease !== "expired" && lease !== "absent")
}

/** Whether somebody vouches that the machine is off: by the Node's deletion, or by the taint. */
const hasCeased = (name: string, reading: NodeReading, { leases, outOfService }: Facts): boolean =>
  reading._tag === "Missing" ||
  (isOutOfService(reading.node) && (outOfService === "always" || !showsLife(reading.node, leases.get(name))))

const nodeAnswer = (name: string, reading: NodeReading, pods: ReadonlyArray<Pod>, facts: Facts): NodeAnswer => {
  const recorded = pods.flatMap((pod) => pod.evidence.node ?? [])
  const common = {
    name,
    recordedUids: distinct(recorded.map(({ uid }) => uid)),
    recordedBootIDs: distinct(recorded.flatMap(({ bootID }) => bootID ?? [])),
    ceased: hasCeased(name, reading, facts),
    pods: pods.map((pod) => pod.name)
  }
  if (reading._tag === "Missing") {
    return {
      ...common,
      state: "deleted",
      uid: undefined,
      rebooted: false,
      otherMachine: false,
      bootID: undefined,
      ready: undefined,
      taints: []
    }
  }
  const { node } = reading
  const { uid } = node.metadata
  const bootID = node.status?.nodeInfo?.bootID ?? undefined
  const state: NodeState = isOutOfService(node)
    ? "out-of-service"
    : common.recordedUids.some((it) => it !== uid)
      ? "replaced"
      : isReady(node)
        ? "ready"
        : "not-ready"
  return {
    ...common,
    state,
    uid,
    rebooted: recorded.length > 0 && recorded.every((it) => isRebooted(it, node)),
    otherMachine: recorded.some((it) => Evidence.isOtherMachine(it, node.status?.nodeInfo ?? {})),
    bootID,
    ready: condition(node.status?.conditions, "Ready"),
    taints: node.spec?.taints ?? []
  }
}

type Recorded = NonNullable<Evidence.PodEvidence["node"]>

const isRebooted = (recorded: Recorded, node: Core.Node): boolean => {
  const [before, now] = [recorded.bootID ?? "", node.status?.nodeInfo?.bootID ?? ""]
  return before !== "" && now !== "" && before !== now && Evidence.isSameMachine(recorded, node.status?.nodeInfo ?? {})
}

const refusals = new Set([
  "NodeAffinity",
  "NodeShutdown",
  "UnexpectedAdmissionError",
  "PodOSNotSupported",
  "InvalidNodeInfo"
])

const isFinished = (pod: Pod): boolean => pod.phase === "Succeeded" || pod.phase === "Failed"

/** Whether the kubelet itself says that the pod has ended. PodGC writes Failed for it while a kubelet is silent. */
const hasKubeletFinished = (pod: Pod): boolean =>
  isFinished(pod) && pod.evidence.disruptions.every(({ reason }) => reason !== "DeletionByPodGC")

type ContainerProof =
  | { readonly _tag: "terminated"; readonly ending: Evidence.Ending; readonly containerID: string }
  | { readonly _tag: "never-started" }
  | { readonly _tag: "none"; readonly reason: string }

const containerProof = (
  pod: Pod,
  { name, status }: ReturnType<typeof Evidence.containersOf>[number],
  initFailed: boolean
): ContainerProof => {
  const state = status?.state
  if (state?.running) return { _tag: "none", reason: `container ${name} was last seen running` }
  const restartCount = status?.restartCount ?? 0
  const restarts = Evidence.mayRestart(pod.evidence.pod) && !hasKubeletFinished(pod)
  if (state?.terminated && !restarts) {
    // The first real record counts; a placeholder that follows it does not take it back
    const ending = pod.evidence.endings.findLast((it) => it.container === name && it.restartCount === restartCount)
    const containerID = ending?.terminated.containerID ?? ""
    if (ending !== undefined && containerID !== "") return { _tag: "terminated", ending, containerID }
    const lost = !Evidence.isReal(state.terminated)
    const started = state.terminated.startedAt ?? undefined
    const before = status?.lastState?.terminated ?? status?.lastState?.running ?? undefined
    const ran =
      started !== undefined || before !== undefined || ending !== undefined || pod.evidence.wasStarted === true
    if (lost && !ran && restartCount === 0) {
      return { _tag: "never-started" }
    }
    return { _tag: "none", reason: `container ${name} is reported terminated, without a containerID` }
  }
  if (initFailed && restartCount === 0 && (status?.containerID ?? "") === "") return { _tag: "never-started" }
  if (restarts && state?.terminated) return { _tag: "none", reason: `container ${name} may be started again` }
  return {
    _tag: "none",
    reason: `container ${name} was last seen ${state?.waiting ? `waiting (${state.waiting.reason ?? "no reason"})` : "without a state"}`
  }
}

/** Ephemeral containers are put into a pod that runs, and live on while it is torn down. */
const unendedEphemeral = ({ spec, status }: Core.Pod): ReadonlyArray<string> => {
  const statuses = status?.ephemeralContainerStatuses ?? []
  const names = distinct([...(spec?.ephemeralContainers ?? []), ...statuses].map(({ name }) => name))
  return names.flatMap((name) => {
    const terminated = statuses.find((it) => it.name === name)?.state?.terminated
    return terminated && Evidence.isReal(terminated) && (terminated.containerID ?? "") !== ""
      ? []
      : [`ephemeral container ${name} was not seen to end`]
  })
}

/** What proves that the pod runs no process, from its last state and its first termination records. */
export const proofOf = (pod: Pod): Proof => {
  const { evidence } = pod
  if (pod.nodeName === undefined) {
    if (evidence.presence === "seen" || isFinished(pod) || pod.deletionTimestamp !== undefined) {
      return { _tag: "never-started", reason: "it was never bound to a Node" }
    }
    return {
      _tag: "none",
      reason:
        evidence.presence === "present"
          ? "it is not bound to a Node yet and may still start"
          : "it was last seen without a Node; whether it was bound later is not known"
    }
  }
  const containers = Evidence.containersOf(evidence.pod)
  const statuses = containers.filter(({ status }) => status !== undefined)
  const reason = evidence.pod.status?.reason ?? ""
  const isRefused = statuses.length === 0 && (reason.startsWith("OutOf") || refusals.has(reason))
  if (isRefused && pod.phase === "Failed" && evidence.wasStarted !== true) {
    return { _tag: "never-started", reason: `the kubelet refused it: ${reason}` }
  }
  if (containers.length === 0) return { _tag: "none", reason: "its containers are not known" }
  const initFailed =
    !Evidence.mayRestart(evidence.pod) &&
    evidence.endings.some(
      ({ role, terminated }) => role === "init" && terminated.exitCode !== 0 && (terminated.containerID ?? "") !== ""
    )
  const proofs = containers.map((container) => ({
    name: container.name,
    proof: containerProof(pod, container, initFailed)
  }))
  const open = [
    ...proofs.flatMap(({ proof }) => (proof._tag === "none" ? [proof.reason] : [])),
    ...unendedEphemeral(evidence.pod)
  ]
  if (open.length > 0) return { _tag: "none", reason: open.join("; ") }
  const terminated = proofs.flatMap(({ name, proof }) =>
    proof._tag === "terminated"
      ? [
          {
            name,
            containerID: proof.containerID,
            exitCode: proof.ending.terminated.exitCode,
            finishedAt: proof.ending.terminated.finishedAt ?? undefined
          }
        ]
      : []
  )
  return terminated.length === 0
    ? { _tag: "never-started", reason: "no container of it was ever started" }
    : { _tag: "terminated", containers: terminated }
}

const signOfLife = ({ ready }: NodeAnswer): string =>
  ready?.status === "True"
    ? "is Ready"
    : ready?.status === "False"
      ? `tells of itself (Ready False${ready.reason ? ` ${ready.reason}` : ""})`
      : "the Lease of its kubelet is still valid"

const nodeReason = (node: NodeAnswer): string => {
  const ready = node.ready
  const condition = ready === undefined ? "" : ` (Ready ${ready.status}${ready.reason ? ` ${ready.reason}` : ""})`
  const other = node.otherMachine ? ": it is another machine now, and the one before may still run its processes" : ""
  switch (node.state) {
    case "replaced":
      return node.otherMachine
        ? `Node ${node.name} exists with another uid (${node.recordedUids.join(", ")} then ${node.uid ?? ""})${other}`
        : `Node ${node.name} exists with another uid (${node.recordedUids.join(", ")} then ${node.uid ?? ""}): a kubelet that registers again keeps its pods`
    case "out-of-service":
      return `Node ${node.name} is marked out of service but ${signOfLife(node)}: its kubelet is alive`
    case "not-ready":
      return `Node ${node.name} is not ready${condition}${other === "" ? ": its processes may go on" : other}`
    case "ready":
      return `Node ${node.name} is ready${other}`
    case "deleted":
      return `Node ${node.name} is deleted`
  }
}

/** Whether a Job is of this TrainJob, and not of another one of the name. */
const isOurs = (
  evidence: Evidence.Evidence,
  trainJob: Evidence.TrainJobEvidence | undefined,
  job: Batch.Job
): boolean => {
  const jobSet = evidence.jobSets[job.metadata.labels?.[JobSet.jobSetUidLabel] ?? ""]?.jobSet
  const uid = trainJob?.trainJob.metadata.uid
  if (uid === undefined) return true
  if (jobSet !== undefined) return controllerOf(jobSet.metadata)?.uid === uid
  return (job.metadata.creationTimestamp ?? "") >= (trainJob?.trainJob.metadata.creationTimestamp ?? "")
}

/**
 * Starts of the TrainJob's Jobs of which no pod was ever seen. A JobSet that is re-created under a watch that looks away
 * can start pods and lose them again: the Job still tells that it was started, and nothing tells on which Nodes.
 */
const unseenStarts = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Pod>,
  execution: Execution.Execution<Pod>,
  trainJob: Evidence.TrainJobEvidence | undefined
): ReadonlyArray<string> => {
  const runs = all.all.flatMap(({ incarnations }) => incarnations).flatMap((incarnation) => incarnation.runs)
  const seen = new Map<string, Set<string | undefined>>()
  for (const { jobUid, startTime } of runs) {
    const starts = seen.get(jobUid)
    if (starts === undefined) seen.set(jobUid, new Set([startTime]))
    else starts.add(startTime)
  }
  const jobSets = new Set(execution.incarnations.map(({ jobSetUid }) => jobSetUid))
  const own = execution.incarnations.flatMap((incarnation) => incarnation.runs)
  const first = own.reduce<string | undefined>(
    (earliest, { startTime }) =>
      startTime !== undefined && (earliest === undefined || startTime < earliest) ? startTime : earliest,
    undefined
  )
  return Object.values(evidence.jobs).flatMap(({ job, startTimes }) => {
    const jobSetUid = job.metadata.labels?.[JobSet.jobSetUidLabel] ?? ""
    const known = seen.get(job.metadata.uid)
    // A Job that was never seen to start anything may be one that has nothing to start
    if (job.spec?.parallelism === 0 || job.spec?.completions === 0 || !isOurs(evidence, trainJob, job)) return []
    return startTimes
      .filter((time) => known?.has(time) !== true)
      .filter(
        (time) =>
          // Starts before this execution's are those of earlier admissions, where there were any
          execution.number === 1 ||
          first === undefined ||
          time > first ||
          (execution.identity === "injected" && !jobSets.has(jobSetUid))
      )
      .map((time) => `no pod of ${job.metadata.name} as started at ${time} was seen: its Nodes are not known`)
  })
}

/** Whether a replicatedJob may have been started, as far as those tell for which it waits. */
const mayHaveStarted = (
  spec: JobSet.JobSetSpec,
  replicatedJob: JobSet.ReplicatedJob,
  pods: ReadonlyArray<Evidence.PodEvidence>
): boolean => {
  const all = spec.replicatedJobs ?? []
  const of = (name: string): ReadonlyArray<Evidence.PodEvidence> =>
    pods.filter(({ pod }) => pod.metadata.labels?.[JobSet.replicatedJobLabel] === name)
  const isOver = (name: string): boolean => of(name).some(({ pod }) => pod.status?.phase === "Succeeded")
  const wasReady = (name: string): boolean => of(name).some(({ wasStarted }) => wasStarted === true)
  const inOrder = spec.startupPolicy?.startupPolicyOrder === "InOrder"
  const before = inOrder ? all.slice(0, all.indexOf(replicatedJob)) : []
  return (
    before.every(({ name }) => wasReady(name)) &&
    (replicatedJob.dependsOn ?? []).every(({ name, status }) => (status === "Complete" ? isOver(name) : wasReady(name)))
  )
}

/**
 * What the cluster's own objects tell to have been there, and was not seen: evidence that begins late, or has a gap, would
 * otherwise count what it knows for everything.
 */
const unseenParts = (
  evidence: Evidence.Evidence,
  execution: Execution.Execution<Pod>,
  trainJob: Evidence.TrainJobEvidence | undefined
): ReadonlyArray<string> => {
  const byJobSet = new Map<string, Array<Evidence.PodEvidence>>()
  const byJob = new Map<string, number>()
  for (const it of Object.values(evidence.pods)) {
    const { labels } = it.pod.metadata
    const jobSetUid = labels?.[JobSet.jobSetUidLabel] ?? ""
    const jobUid = controllerOf(it.pod.metadata)?.uid ?? labels?.[Batch.controllerUidLabel] ?? ""
    const known = byJobSet.get(jobSetUid)
    if (known === undefined) byJobSet.set(jobSetUid, [it])
    else known.push(it)
    byJob.set(jobUid, (byJob.get(jobUid) ?? 0) + 1)
  }
  const result: Array<string> = []
  // What was given up of earlier executions is counted by the objects, too
  if (evidence.droppedPods === 0) {
    for (const { job } of Object.values(evidence.jobs)) {
      if (!isOurs(evidence, trainJob, job)) continue
      // `terminating` is left out: what a failing Job takes along is counted as failed, too
      const { active, failed, succeeded } = job.status ?? {}
      const counted = (active ?? 0) + (failed ?? 0) + (succeeded ?? 0)
      const seen = byJob.get(job.metadata.uid) ?? 0
      if (counted > seen) result.push(`${job.metadata.name} counts ${counted} pods, and ${seen} were seen`)
    }
  }
  const ours = Object.values(evidence.jobSets).filter(
    ({ jobSet }) => controllerOf(jobSet.metadata)?.uid === trainJob?.trainJob.metadata.uid
  )
  const run = new Set(execution.incarnations.map(({ jobSetUid }) => jobSetUid))
  for (const { jobSet, presence } of ours) {
    const { name, uid } = jobSet.metadata
    const pods = byJobSet.get(uid) ?? []
    if (pods.length === 0) {
      // Of what was seen to be deleted the last state is known: it was held, or its Jobs tell of their starts
      if (presence === "inferred") {
        result.push(`a JobSet ${name} (uid ${uid}) went while nobody looked: whether it had started pods is not known`)
      }
      continue
    }
    const attempts = new Set(pods.map(({ pod }) => pod.metadata.labels?.[JobSet.restartAttemptLabel] ?? ""))
    for (let attempt = 0; evidence.droppedPods === 0 && attempt <= (jobSet.status?.restarts ?? 0); attempt++) {
      if (!attempts.has(String(attempt))) result.push(`no pod of attempt ${attempt} of JobSet ${name} was seen`)
    }
    if (!run.has(uid)) continue
    for (const replicatedJob of jobSet.spec?.replicatedJobs ?? []) {
      const { completions, parallelism } = replicatedJob.template?.spec ?? {}
      if (parallelism === 0 || completions === 0 || !mayHaveStarted(jobSet.spec ?? {}, replicatedJob, pods)) continue
      for (let index = 0; index < (replicatedJob.replicas ?? 1); index++) {
        const job = `${name}-${replicatedJob.name}-${index}`
        const isKnown =
          pods.some(({ pod }) => pod.metadata.labels?.[Batch.jobNameLabel] === job) ||
          Object.values(evidence.jobs).some(
            (it) => it.job.metadata.name === job && it.job.metadata.labels?.[JobSet.jobSetUidLabel] === uid
          )
        if (!isKnown) result.push(`neither Job ${job} nor a pod of it was seen`)
      }
    }
  }
  return result
}

// What a busy controller may take to make a JobSet
const promptly = 10_000

/** A JobSet that came late may be the second one. */
const lateJobSet = (evidence: Evidence.Evidence, trainJob: Evidence.TrainJobEvidence): ReadonlyArray<string> => {
  const { metadata, spec } = trainJob.trainJob
  const letGo = Evidence.millis(
    trainJob.suspensions.find(({ status }) => status === "False")?.lastTransitionTime ??
      (trainJob.suspensions.length === 0 && spec?.suspend !== true ? metadata.creationTimestamp : undefined)
  )
  const created = Object.values(evidence.jobSets)
    .filter(({ jobSet }) => controllerOf(jobSet.metadata)?.uid === metadata.uid)
    .map(({ jobSet }) => Evidence.millis(jobSet.metadata.creationTimestamp) ?? 0)
  const first = Math.min(...created)
  return letGo === undefined || created.length === 0 || first - letGo <= promptly
    ? []
    : [
        `The first JobSet that was seen is ${Math.round((first - letGo) / 1000)} s younger than the start of its TrainJob: one before it may have run.`
      ]
}

const strays = (all: Execution.Executions<Pod>): ReadonlyArray<string> => {
  const unproven = all.strays.filter((pod) => proofOf(pod)._tag === "none")
  return unproven.length === 0
    ? []
    : [
        `Nothing proves that pods of another TrainJob of this name have ended: ${unproven.map(({ name, nodeName }) => `${name}${nodeName === undefined ? "" : ` on ${nodeName}`}`).join(", ")}.`
      ]
}

/** What pods are where: while that changes nothing is decided for good. */
export const places = (evidence: Evidence.Evidence, uid?: string): ReadonlyMap<string, string> =>
  new Map(executionOf(evidence, uid).execution?.pods.map((pod) => [pod.uid, pod.nodeName ?? ""]) ?? [])

/** Decides. Total; never a yes for want of knowledge. */
export const decide = (facts: Facts): Verdict => {
  const { evidence, uid } = facts
  const at = DateTime.formatIso(DateTime.unsafeMake(facts.now))
  const { all, execution } = executionOf(evidence, uid)
  const trainJob = Evidence.trainJob(evidence, uid)
  const known = trainJob?.trainJob.metadata.uid ?? uid
  if (execution === undefined) {
    return {
      at,
      ceased: false,
      ended: false,
      uid: known,
      execution: undefined,
      identity: undefined,
      incarnations: 0,
      nodes: [],
      pods: [],
      reasons: ["No pod of it was ever seen: whether and where it ran is not known."],
      cautions: strays(all),
      earlier: []
    }
  }

  const byNode = new Map<string, Array<Pod>>()
  for (const pod of execution.pods) {
    if (pod.nodeName === undefined) continue
    const bound = byNode.get(pod.nodeName)
    if (bound === undefined) byNode.set(pod.nodeName, [pod])
    else bound.push(pod)
  }
  const unread: Array<string> = []
  const nodes = [...byNode]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, pods]) => {
      const reading = facts.nodes.get(name)
      if (reading === undefined) {
        unread.push(`Node ${name} was not read`)
        return []
      }
      return [nodeAnswer(name, reading, pods, facts)]
    })
  const ceasedNodes = new Set(
    [...facts.nodes].filter(([name, reading]) => hasCeased(name, reading, facts)).map(([name]) => name)
  )
  // A reboot since *this* pod ran: another pod may have run on the Node after it. What was bound and not started yet is
  // started by the next boot
  const rebooted = ({ evidence: { node: recorded } }: Pod): boolean => {
    const reading = facts.nodes.get(recorded?.name ?? "")
    return recorded?.bootIsLast === true && reading?._tag === "Found" && isRebooted(recorded, reading.node)
  }
  const podAnswer = (pod: Pod): PodAnswer => {
    const proof = proofOf(pod)
    return {
      name: pod.name,
      uid: pod.uid,
      node: pod.nodeName,
      presence: pod.evidence.presence,
      proof,
      ended: proof._tag !== "none" || (pod.nodeName !== undefined && ceasedNodes.has(pod.nodeName)) || rebooted(pod)
    }
  }
  const pods = execution.pods.toSorted(byName).map(podAnswer)

  const gaps = execution.incarnations.map((incarnation) => Evidence.gaps(evidence, all, execution, incarnation, uid))
  const missing = distinct(gaps.flatMap((it) => it.missing)).map(
    (rank) => `no pod of ${rank} was seen: its Node is not known`
  )
  const uncounted = distinct(gaps.flatMap((it) => it.uncounted)).map((job) => `how many pods ${job} has is not known`)
  const unbound = pods.flatMap(({ name, node, proof }) =>
    node === undefined && proof._tag === "none" ? [`Pod ${name}: ${proof.reason}`] : []
  )
  const unseen = [...unseenStarts(evidence, all, execution, trainJob), ...unseenParts(evidence, execution, trainJob)]
  const unknown = [...unread, ...missing, ...uncounted, ...unseen, ...unbound]
  const alive = nodes.filter(({ ceased }) => !ceased).map(nodeReason)
  const none = nodes.length === 0 && unread.length === 0 ? ["No pod of it was ever seen bound to a Node."] : []

  const cautions: Array<string> = []
  for (const node of nodes) {
    const lease = facts.leases.get(node.name)
    const reading = facts.nodes.get(node.name)
    if (node.state === "out-of-service" && reading?._tag === "Found" && showsLife(reading.node, lease)) {
      cautions.push(
        `Node ${node.name} is marked out of service but ${signOfLife(node)}: on a Node that is alive the taint only evicts, and pods run on for their grace period.`
      )
    }
    if (node.state === "deleted" && lease === "valid") {
      cautions.push(
        `Node ${node.name} is deleted but its kubelet still renews the Lease kube-node-lease/${node.name}: its processes may go on.`
      )
    }
    if (lease === "unreadable") {
      cautions.push(`The Lease kube-node-lease/${node.name} could not be read: whether its kubelet lives is not known.`)
    }
    if (node.otherMachine) {
      cautions.push(
        `Node ${node.name} is another machine than the one on which the execution ran: that one may still be on.`
      )
    }
    if (node.rebooted) {
      cautions.push(
        `Node ${node.name} was rebooted since the execution ran (bootID ${node.recordedBootIDs.join(", ")} then ${node.bootID ?? ""}).`
      )
    }
  }
  if (trainJob?.presence === "present" && trainJob.terminal === undefined && trainJob.trainJob.spec?.suspend !== true) {
    cautions.push("The TrainJob is neither held nor finished: its controllers may start pods at any time.")
  }
  if (execution.repeated) {
    cautions.push(`This execution was started ${execution.incarnations.length} times; all its pods are counted.`)
  }
  if (execution.identity === "inferred") {
    cautions.push("The pods carry no admission count: executions are told apart by uids and times.")
  }
  const earlier = unprovenOthers({ all, execution })
    .map(podAnswer)
    .filter(({ ended }) => !ended)
  if (earlier.length > 0) {
    cautions.push(
      `Nothing proves that pods of other executions have ended: ${earlier.map(({ name, node }) => `${name}${node === undefined ? "" : ` on ${node}`}`).join(", ")}.`
    )
  }
  if (trainJob !== undefined) cautions.push(...lateJobSet(evidence, trainJob))
  cautions.push(...strays(all))

  return {
    at,
    ceased: nodes.length > 0 && unknown.length === 0 && nodes.every(({ ceased }) => ceased),
    ended:
      pods.length > 0 &&
      missing.length === 0 &&
      uncounted.length === 0 &&
      unseen.length === 0 &&
      pods.every(({ ended }) => ended),
    uid: known,
    execution: execution.number,
    identity: execution.identity,
    incarnations: execution.incarnations.length,
    nodes,
    pods,
    reasons: [...none, ...unknown, ...alive],
    cautions,
    earlier
  }
}
