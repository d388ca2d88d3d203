/**
 * Whether an execution has really stopped. `ceased` rests on Nodes alone: with a dead kubelet every object says that the run
 * is over while its processes go on. `ended` rests on what kubelets reported of each container.
 *
 * @module
 */
import { DateTime } from "effect"
import type * as Batch from "../model/Batch.js"
import type * as Core from "../model/Core.js"
import { outOfServiceTaint } from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import { type Condition, condition, controllerOf } from "../model/Meta.js"
import * as Evidence from "./Evidence.js"
import type * as Execution from "./Execution.js"

/** A Node as it was read for this answer. */
export type NodeReading = { readonly _tag: "Found"; readonly node: Core.Node } | { readonly _tag: "Missing" }

/** What was gathered. */
export interface Facts {
  /** With the live state folded in. */
  readonly evidence: Evidence.Evidence
  /** The TrainJob meant, where several had the name. */
  readonly uid: string | undefined
  /** By name; must hold every Node that `nodeNames` gives. */
  readonly nodes: ReadonlyMap<string, NodeReading>
  /** Until when the Lease of a Node's kubelet is valid, epoch milliseconds; absent when there is none or it is not readable. */
  readonly leases: ReadonlyMap<string, number>
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
  /** The machine was started again since the execution ran: its bootID differs from the one recorded. */
  readonly rebooted: boolean
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
}

type Pod = Evidence.PodRecord

const byName = (a: Pod, b: Pod): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)

const distinct = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => [...new Set(items)]

const executionOf = (evidence: Evidence.Evidence, uid: string | undefined) => {
  const all = Evidence.executions(evidence, uid)
  return { all, execution: all.current ?? all.last }
}

/** The Nodes to read: those of all pods, of all replicatedJobs and incarnations, of the current or last execution. */
export const nodeNames = (evidence: Evidence.Evidence, uid?: string): ReadonlyArray<string> =>
  distinct(executionOf(evidence, uid).execution?.pods.flatMap((pod) => pod.nodeName ?? []) ?? []).toSorted()

const isReady = (node: Core.Node): boolean => condition(node.status?.conditions, "Ready")?.status === "True"

const isOutOfService = (node: Core.Node): boolean =>
  (node.spec?.taints ?? []).some(({ key }) => key === outOfServiceTaint)

const nodeAnswer = (
  name: string,
  reading: NodeReading,
  pods: ReadonlyArray<Pod>,
  outOfService: Facts["outOfService"]
): NodeAnswer => {
  const recorded = pods.flatMap((pod) => pod.evidence.node ?? [])
  const common = {
    name,
    recordedUids: distinct(recorded.map(({ uid }) => uid)),
    recordedBootIDs: distinct(recorded.flatMap(({ bootID }) => bootID ?? [])),
    pods: pods.map((pod) => pod.name)
  }
  if (reading._tag === "Missing") {
    return {
      ...common,
      state: "deleted",
      ceased: true,
      uid: undefined,
      rebooted: false,
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
    ceased: state === "out-of-service" && (outOfService === "always" || !isReady(node)),
    uid,
    rebooted: bootID !== undefined && bootID !== "" && isRebooted(common.recordedBootIDs, bootID),
    bootID,
    ready: condition(node.status?.conditions, "Ready"),
    taints: node.spec?.taints ?? []
  }
}

const isRebooted = (recorded: ReadonlyArray<string>, bootID: string): boolean =>
  recorded.length > 0 && recorded.every((it) => it !== "" && it !== bootID)

const refusals = new Set([
  "NodeAffinity",
  "NodeShutdown",
  "UnexpectedAdmissionError",
  "PodOSNotSupported",
  "InvalidNodeInfo"
])

const isFinished = (pod: Pod): boolean => pod.phase === "Succeeded" || pod.phase === "Failed"

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
  const restarts = pod.evidence.pod.spec?.restartPolicy !== "Never" && !isFinished(pod)
  if (state?.terminated && !restarts) {
    // The first real record counts; a placeholder that follows it does not take it back
    const ending = pod.evidence.endings.findLast((it) => it.container === name && it.restartCount === restartCount)
    const containerID = ending?.terminated.containerID ?? ""
    if (ending !== undefined && containerID !== "") return { _tag: "terminated", ending, containerID }
    const lost = !Evidence.isReal(state.terminated)
    const started = state.terminated.startedAt ?? undefined
    const before = status?.lastState?.terminated ?? status?.lastState?.running ?? undefined
    if (lost && started === undefined && restartCount === 0 && before === undefined && ending === undefined) {
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
  if (statuses.length === 0 && pod.phase === "Failed" && (reason.startsWith("OutOf") || refusals.has(reason))) {
    return { _tag: "never-started", reason: `the kubelet refused it: ${reason}` }
  }
  if (containers.length === 0) return { _tag: "none", reason: "its containers are not known" }
  const initFailed =
    evidence.pod.spec?.restartPolicy === "Never" &&
    evidence.endings.some(
      ({ role, terminated }) => role === "init" && terminated.exitCode !== 0 && (terminated.containerID ?? "") !== ""
    )
  const proofs = containers.map((container) => ({
    name: container.name,
    proof: containerProof(pod, container, initFailed)
  }))
  const open = proofs.flatMap(({ proof }) => (proof._tag === "none" ? [proof.reason] : []))
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

const nodeReason = (node: NodeAnswer): string => {
  const ready = node.ready
  const condition = ready === undefined ? "" : ` (Ready ${ready.status}${ready.reason ? ` ${ready.reason}` : ""})`
  switch (node.state) {
    case "replaced":
      return `Node ${node.name} exists with another uid (${node.recordedUids.join(", ")} then ${node.uid ?? ""}): a kubelet that registers again keeps its pods`
    case "out-of-service":
      return `Node ${node.name} is marked out of service but is Ready: its kubelet is alive`
    case "not-ready":
      return `Node ${node.name} is not ready${condition}: its processes may go on`
    case "ready":
      return `Node ${node.name} is ready`
    case "deleted":
      return `Node ${node.name} is deleted`
  }
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
  const isOurs = (job: Batch.Job, jobSetUid: string): boolean => {
    const jobSet = evidence.jobSets[jobSetUid]?.jobSet
    const uid = trainJob?.trainJob.metadata.uid
    if (uid === undefined) return true
    if (jobSet !== undefined) return controllerOf(jobSet.metadata)?.uid === uid
    return (job.metadata.creationTimestamp ?? "") >= (trainJob?.trainJob.metadata.creationTimestamp ?? "")
  }
  return Object.values(evidence.jobs).flatMap(({ job, startTimes }) => {
    const jobSetUid = job.metadata.labels?.[JobSet.jobSetUidLabel] ?? ""
    const known = seen.get(job.metadata.uid)
    // A Job that was never seen to start anything may be one that has nothing to start
    if (job.spec?.parallelism === 0 || job.spec?.completions === 0 || !isOurs(job, jobSetUid)) return []
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

const strays = (all: Execution.Executions<Pod>): ReadonlyArray<string> => {
  const unended = all.strays.filter((pod) => Evidence.isUnended(pod.evidence))
  return unended.length === 0
    ? []
    : [`Pods of another TrainJob of this name have not ended: ${unended.map((pod) => pod.name).join(", ")}.`]
}

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
      cautions: strays(all)
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
      return [nodeAnswer(name, reading, pods, facts.outOfService)]
    })
  const ceasedNodes = new Set(nodes.filter(({ ceased }) => ceased).map(({ name }) => name))
  // A reboot since *this* pod ran: another pod may have run on the Node after it. What was bound and not started yet is
  // started by the next boot
  const rebooted = (pod: Pod): boolean => {
    const node = nodes.find(({ name }) => name === pod.nodeName)
    const before = pod.evidence.node?.bootID
    return (
      node !== undefined &&
      pod.evidence.node?.bootIsLast === true &&
      node.state !== "deleted" &&
      before !== undefined &&
      node.bootID !== undefined &&
      node.bootID !== "" &&
      isRebooted([before], node.bootID)
    )
  }

  const pods = execution.pods.toSorted(byName).map((pod): PodAnswer => {
    const proof = proofOf(pod)
    return {
      name: pod.name,
      uid: pod.uid,
      node: pod.nodeName,
      presence: pod.evidence.presence,
      proof,
      ended: proof._tag !== "none" || (pod.nodeName !== undefined && ceasedNodes.has(pod.nodeName)) || rebooted(pod)
    }
  })

  const gaps = execution.incarnations.map((incarnation) => Evidence.gaps(evidence, all, execution, incarnation, uid))
  const missing = distinct(gaps.flatMap((it) => it.missing)).map(
    (rank) => `no pod of ${rank} was seen: its Node is not known`
  )
  const uncounted = distinct(gaps.flatMap((it) => it.uncounted)).map((job) => `how many pods ${job} has is not known`)
  const unbound = pods.flatMap(({ name, node, proof }) =>
    node === undefined && proof._tag === "none" ? [`Pod ${name}: ${proof.reason}`] : []
  )
  const unseen = unseenStarts(evidence, all, execution, trainJob)
  const unknown = [...unread, ...missing, ...uncounted, ...unseen, ...unbound]
  const alive = nodes.filter(({ ceased }) => !ceased).map(nodeReason)
  const none = nodes.length === 0 && unread.length === 0 ? ["No pod of it was ever seen bound to a Node."] : []

  const cautions: Array<string> = []
  for (const node of nodes) {
    if (node.state === "out-of-service" && node.ready?.status === "True") {
      cautions.push(
        `Node ${node.name} is marked out of service but is Ready: on a Node that is alive the taint only evicts, and pods run on for their grace period.`
      )
    }
    const lease = facts.leases.get(node.name)
    if (node.state === "deleted" && lease !== undefined && lease > facts.now) {
      cautions.push(
        `Node ${node.name} is deleted but its kubelet still renews the Lease kube-node-lease/${node.name}: its processes may go on.`
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
  const earlier = all.all
    .filter((it) => it !== execution)
    .flatMap((it) => it.pods)
    .filter((pod) => Evidence.isUnended(pod.evidence))
  if (earlier.length > 0) {
    cautions.push(`Pods of other executions have not ended: ${earlier.map((pod) => pod.name).join(", ")}.`)
  }
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
    cautions
  }
}
