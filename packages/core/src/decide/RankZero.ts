/**
 * Which pod is rank 0: completion index 0 of job index 0 of the replicatedJob whose Job template carries ancestor step
 * `trainer`, in the newest incarnation of the current (else the last) execution. Never a guess.
 *
 * That is the definition of this adapter, and the rank of a run that takes its rank from the completion index. An elastic
 * rendezvous may number its processes otherwise.
 *
 * @module
 */
import { Either } from "effect"
import * as Batch from "../model/Batch.js"
import type { Pod } from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import { controllerOf } from "../model/Meta.js"
import { ancestorStepLabel, trainerContainer } from "../model/Trainer.js"
import * as Execution from "./Execution.js"

/** The answer. `reason` is a sentence for people. */
export type Answer<P extends Execution.PodRecord = Execution.PodRecord> =
  | {
      readonly _tag: "Found"
      readonly pod: P
      readonly execution: Execution.Execution<P>
      /** Other pods of the same rank in the same incarnation that this one replaced. */
      readonly replaced: ReadonlyArray<P>
    }
  /** May still come. */
  | { readonly _tag: "NoneYet"; readonly reason: string; readonly execution: Execution.Execution<P> | undefined }
  /** Was there, or would have been; nothing to wait for. */
  | { readonly _tag: "Gone"; readonly reason: string; readonly execution: Execution.Execution<P> | undefined }
  /** Several pods, and nothing that tells which is the one; or the runtime has no rank 0. */
  | { readonly _tag: "Ambiguous"; readonly reason: string; readonly candidates: ReadonlyArray<P> }

const trainerStep = "trainer"

const unique = (names: ReadonlyArray<string>): ReadonlyArray<string> => [...new Set(names)]

/**
 * The name of the trainer's replicatedJob, read from the JobSets that the TrainJob owns or, where none is left, from
 * their Jobs: pods do not carry the ancestor step. `undefined` when neither is there; left with the reason when the step
 * is missing or not the only one.
 */
export const trainerReplicatedJob = (
  trainJobUid: string | undefined,
  jobSets: ReadonlyArray<JobSet.JobSet>,
  jobs: ReadonlyArray<Batch.Job>
): Either.Either<string | undefined, string> => {
  const owned = jobSets.filter(
    (jobSet) => trainJobUid === undefined || controllerOf(jobSet.metadata)?.uid === trainJobUid
  )
  const fromSets = unique(
    owned.flatMap((jobSet) =>
      (jobSet.spec?.replicatedJobs ?? [])
        .filter((it) => it.template?.metadata?.labels?.[ancestorStepLabel] === trainerStep)
        .map((it) => it.name)
    )
  )
  const fromJobs = (): ReadonlyArray<string> =>
    unique(
      jobs
        .filter((job) => job.metadata.labels?.[ancestorStepLabel] === trainerStep)
        .flatMap((job) => job.metadata.labels?.[JobSet.replicatedJobLabel] ?? [])
    )
  const names = owned.length > 0 ? fromSets : fromJobs()
  if (names.length > 1) {
    return Either.left(
      `replicatedJobs ${names.join(", ")} all carry ${ancestorStepLabel}=${trainerStep}; rank 0 is in one`
    )
  }
  if (names.length === 0 && owned.length > 0) {
    return Either.left(
      `no replicatedJob of JobSet "${owned[0]?.metadata.name}" carries ${ancestorStepLabel}=${trainerStep}`
    )
  }
  return Either.right(names[0])
}

/** Why the trainer's container cannot be read from a pod, naming the containers there are; undefined when it can. */
export const containerProblem = (pod: Pod): string | undefined => {
  const names = (pod.spec?.containers ?? []).map(({ name }) => name)
  return names.includes(trainerContainer)
    ? undefined
    : `pod "${pod.metadata.name}" has no container "${trainerContainer}", only ${names.join(", ") || "none"}`
}

/** How an execution is called in a sentence. */
export const describe = (execution: Execution.Execution): string =>
  execution.number === undefined ? "the execution (inferred from uids and times)" : `execution ${execution.number}`

const completionIndex = (pod: Execution.PodRecord): string | undefined =>
  pod.labels[Batch.completionIndexLabel] ?? pod.annotations[Batch.completionIndexLabel]

const trainerPodsIn = <P extends Execution.PodRecord>(
  incarnation: Execution.Incarnation<P>,
  replicatedJob: string
): ReadonlyArray<P> => {
  // The newest start of the Job, not of the set: another Job of the set may have been started again alone
  const run = incarnation.runs.findLast((it) => it.replicatedJob === replicatedJob && it.jobIndex === "0")
  return run?.pods ?? []
}

const trainerPods = <P extends Execution.PodRecord>(
  execution: Execution.Execution<P>,
  replicatedJob: string
): ReadonlyArray<P> => {
  // Incarnations of one JobSet and attempt share their Jobs; one of another JobSet starts from nothing
  const { newest } = execution
  const sameSet = execution.incarnations.filter(
    (it) => it.jobSetUid === newest.jobSetUid && it.restartAttempt === newest.restartAttempt
  )
  return sameSet.map((it) => trainerPodsIn(it, replicatedJob)).findLast((pods) => pods.length > 0) ?? []
}

/**
 * The ranks of the current (else the last) execution, in order: as many as its Job has completions, and every one of which a
 * pod was seen. `completions` is by Job uid.
 */
export const ranks = <P extends Execution.PodRecord>(
  facts: Execution.Facts<P>,
  replicatedJob: string,
  completions: ReadonlyMap<string, number>
): ReadonlyArray<number> => {
  const { current, last } = Execution.executions(facts)
  const execution = current ?? last
  if (execution === undefined) return []
  const run = execution.newest.runs.findLast((it) => it.replicatedJob === replicatedJob && it.jobIndex === "0")
  const expected = run === undefined ? 0 : (completions.get(run.jobUid) ?? 0)
  const seen = trainerPods(execution, replicatedJob).flatMap((pod) => {
    const index = completionIndex(pod)
    return index !== undefined && /^\d+$/.test(index) ? [Number(index)] : []
  })
  return [...new Set([...Array.from({ length: expected }, (_, index) => index), ...seen])].toSorted((a, b) => a - b)
}

/** Which start of which execution a reader follows. The same for every rank of it. */
export const startOf = ({ number, newest }: Execution.Execution): string =>
  [number ?? "", newest.jobSetUid, newest.restartAttempt].join("/")

/**
 * Chooses the pod of a rank, of rank 0 where none is given. `replicatedJob` is the trainer's, undefined when no JobSet and
 * no Job is left to tell.
 */
export const choose = <P extends Execution.PodRecord>(
  facts: Execution.Facts<P>,
  replicatedJob: string | undefined,
  rank = 0
): Answer<P> => {
  const wanted = String(rank)
  const { trainJob } = facts
  const { all, current, last } = Execution.executions(facts)
  const execution = current ?? last
  const ended = trainJob.gone ? "is deleted" : trainJob.finished ? "has finished" : undefined
  if (execution === undefined) {
    if (ended !== undefined)
      return { _tag: "Gone", execution, reason: `the TrainJob ${ended} and none of its pods is left` }
    return {
      _tag: "NoneYet",
      execution,
      reason: trainJob.suspend ? "the TrainJob is suspended and has no pods" : "the TrainJob has no pods yet"
    }
  }
  if (replicatedJob === undefined) {
    return execution.over
      ? {
          _tag: "Gone",
          execution,
          reason: `its JobSet and Jobs are gone, so which pod was rank ${wanted} cannot be told`
        }
      : { _tag: "NoneYet", execution, reason: "its JobSet cannot be seen yet" }
  }
  const pods = trainerPods(execution, replicatedJob)
  if (pods.length > 0 && pods.every((pod) => completionIndex(pod) === undefined)) {
    return {
      _tag: "Ambiguous",
      candidates: pods,
      reason: `the pods of replicatedJob "${replicatedJob}" carry no completion index: its Job is not Indexed`
    }
  }
  const ranked = pods.filter((pod) => completionIndex(pod) === wanted)
  const present = ranked.filter((pod) => !pod.gone)
  const newest = present.at(-1)
  if (newest !== undefined) {
    const rivals = present.filter((pod) => pod.creationTimestamp === newest.creationTimestamp)
    const decided = rivals.length === 1 || rivals.filter(Execution.isActive).length === 1
    if (!decided) {
      return {
        _tag: "Ambiguous",
        candidates: rivals,
        reason: `pods ${rivals.map(({ name }) => name).join(", ")} of ${describe(execution)} were created in the same second`
      }
    }
    return { _tag: "Found", pod: newest, execution, replaced: ranked.filter((pod) => pod.uid !== newest.uid) }
  }
  const lost = ranked.at(-1)
  if (lost !== undefined) {
    return { _tag: "Gone", execution, reason: `pod "${lost.name}" of ${describe(execution)} is deleted` }
  }
  // A rank that had succeeded keeps its place over a Hold: the next execution runs without it
  const earlier = all
    .filter((it) => it !== execution)
    .flatMap((it) => trainerPods(it, replicatedJob).map((pod) => ({ pod, execution: it })))
    .findLast(({ pod }) => completionIndex(pod) === wanted && pod.phase === "Succeeded")
  if (earlier !== undefined) {
    return {
      _tag: "Gone",
      execution,
      reason: `rank ${wanted} had succeeded in ${describe(earlier.execution)} (pod "${earlier.pod.name}"), so ${describe(execution)} runs without it`
    }
  }
  return ended !== undefined || execution.over
    ? { _tag: "Gone", execution, reason: `${describe(execution)} is over and rank ${wanted} has left no pod` }
    : { _tag: "NoneYet", execution, reason: `rank ${wanted} of ${describe(execution)} has no pod yet` }
}

/** One run of the trainer's container in its pod; a restart in place makes another. */
export interface Instance {
  /** As the kubelet says; simulated ones do not always say. */
  readonly containerID: string | undefined
  readonly restartCount: number
  readonly startedAt: string | undefined
}

/** Whether two states are of the same run of the container. */
export const sameInstance = (a: Instance, b: Instance): boolean =>
  a.restartCount === b.restartCount &&
  (a.containerID === undefined || b.containerID === undefined || a.containerID === b.containerID)

/** What a pod's status says about the trainer's container. */
export type ContainerState =
  | { readonly _tag: "Waiting"; readonly reason: string }
  | { readonly _tag: "Running"; readonly instance: Instance }
  | {
      readonly _tag: "Ended"
      /** Undefined when the container never existed, so that there is no log. */
      readonly instance: Instance | undefined
      /** Undefined when nobody saw the end: the pod is over while its container was last seen running. */
      readonly exitCode: number | undefined
      readonly reason: string
      /** The kubelet may start another instance. */
      readonly mayRestart: boolean
    }

const joined = (...parts: ReadonlyArray<string | null | undefined>): string =>
  parts.filter((part) => part !== null && part !== undefined && part !== "").join(": ")

/**
 * Reads the trainer container's state. The phase can lag the container, and a restart's back-off shows as waiting or as
 * terminated: either way the log that is served is that of the instance that ended.
 */
export const containerState = (pod: Pod): ContainerState => {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === trainerContainer)
  const over = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed"
  const restartCount = status?.restartCount ?? 0
  const policy = pod.spec?.restartPolicy ?? "Always"
  const goesOn = !over && (pod.metadata.deletionTimestamp ?? undefined) === undefined
  const ofPod = joined(pod.status?.reason, pod.status?.message)
  const last = status?.lastState?.terminated ?? undefined
  const terminated = status?.state?.terminated ?? undefined
  const ended = terminated ?? (status?.state?.running ? undefined : last)
  if (ended !== undefined) {
    const containerID = ended.containerID ?? undefined
    const startedAt = ended.startedAt ?? undefined
    return {
      _tag: "Ended",
      // A container that was never there ends, too (`ContainerStatusUnknown`): without an id and without a start
      instance:
        containerID === undefined && startedAt === undefined ? undefined : { containerID, restartCount, startedAt },
      exitCode: ended.exitCode,
      reason: joined(ended.reason, ended.message, ofPod),
      mayRestart:
        goesOn && (terminated === undefined || policy === "Always" || (policy === "OnFailure" && ended.exitCode !== 0))
    }
  }
  const running = status?.state?.running ?? undefined
  const instance: Instance | undefined =
    running === undefined
      ? undefined
      : { containerID: status?.containerID ?? undefined, restartCount, startedAt: running.startedAt ?? undefined }
  if (over) {
    return {
      _tag: "Ended",
      instance,
      exitCode: undefined,
      reason: ofPod || `the pod is ${pod.status?.phase}, the end of its container was not seen`,
      mayRestart: false
    }
  }
  if (instance !== undefined) return { _tag: "Running", instance }
  const waiting = status?.state?.waiting ?? undefined
  const bound = pod.spec?.nodeName ?? ""
  return {
    _tag: "Waiting",
    reason:
      waiting !== undefined
        ? `container "${trainerContainer}" is waiting to start: ${joined(waiting.reason, waiting.message) || "no reason given"}`
        : bound === ""
          ? "the pod is not scheduled yet"
          : "its container has no status yet"
  }
}
