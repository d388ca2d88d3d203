/**
 * Which pods were started by which admission of a TrainJob. Upstream has no such notion: JobSet uid, Job uid, labels and
 * `restart-attempt` are equal across suspend and resume, so the adapter injects a number, and infers where it could not.
 *
 * @module
 */
import { admissionAnnotation } from "../AdapterConfig.js"
import * as Batch from "../model/Batch.js"
import type { Pod } from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import { controllerOf, trueCondition } from "../model/Meta.js"
import type { TrainJob } from "../model/Trainer.js"

/** What is known of a TrainJob; from the object, or from kept evidence when the object is gone. */
export interface TrainJobRecord {
  readonly namespace: string
  readonly name: string
  /** Without it, everything of that name counts. */
  readonly uid: string | undefined
  readonly creationTimestamp: string | undefined
  readonly suspend: boolean
  /** Complete or Failed. */
  readonly finished: boolean
  /** The object does not exist any more. */
  readonly gone: boolean
}

/** What is known of a JobSet, live or gone. */
export interface JobSetRecord {
  readonly uid: string
  readonly name: string
  /** Uid of the controlling owner, a TrainJob. */
  readonly ownerUid: string | undefined
}

/** One state of a Job, live or gone. Give several of one uid when several start times were seen. */
export interface JobRecord {
  readonly uid: string
  readonly name: string
  /** Absent while suspended; new at every resume. Whole seconds, RFC 3339. */
  readonly startTime: string | undefined
}

/** What is known of a pod, live or gone. */
export interface PodRecord {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  /** Whole seconds, RFC 3339. */
  readonly creationTimestamp: string | undefined
  readonly deletionTimestamp: string | undefined
  readonly phase: string | undefined
  readonly nodeName: string | undefined
  /** Uid of the controlling owner, a Job. */
  readonly ownerUid: string | undefined
  /** The object does not exist any more. */
  readonly gone: boolean
}

/** Everything that is known, in any order. */
export interface Facts<P extends PodRecord = PodRecord> {
  readonly trainJob: TrainJobRecord
  readonly jobSets: ReadonlyArray<JobSetRecord>
  readonly jobs: ReadonlyArray<JobRecord>
  readonly pods: ReadonlyArray<P>
}

/** One start of a Job's pods: told apart by Job uid and start time. */
export interface JobRun<P extends PodRecord = PodRecord> {
  readonly jobUid: string
  readonly jobName: string
  readonly replicatedJob: string
  readonly jobIndex: string
  /** The Job's start time these pods belong to; undefined when it is not known any more. */
  readonly startTime: string | undefined
  /** Oldest first. */
  readonly pods: ReadonlyArray<P>
}

/** One start of the whole set. */
export interface Incarnation<P extends PodRecord = PodRecord> {
  readonly jobSetUid: string
  readonly restartAttempt: string
  /** 0 for the first start within this JobSet and attempt, 1 for the next … */
  readonly ordinal: number
  readonly runs: ReadonlyArray<JobRun<P>>
  readonly pods: ReadonlyArray<P>
}

/** The pods of one admission. */
export interface Execution<P extends PodRecord = PodRecord> {
  /** The admission count; undefined when the pods carry none. */
  readonly number: number | undefined
  /** `inferred`: told apart by uids and times alone, since nothing was injected. */
  readonly identity: "injected" | "inferred"
  /** Oldest first, never empty. */
  readonly incarnations: ReadonlyArray<Incarnation<P>>
  /** The last of `incarnations`. */
  readonly newest: Incarnation<P>
  /** The same admission ran more than once. */
  readonly repeated: boolean
  /** Pods of all replicatedJobs and all incarnations, oldest first. */
  readonly pods: ReadonlyArray<P>
  /** Nothing of it can go on: a later one exists, every pod has ended, or the TrainJob is held or done and its pods end. */
  readonly over: boolean
}

/** All executions of a TrainJob that have left a trace. */
export interface Executions<P extends PodRecord = PodRecord> {
  /** Oldest first. */
  readonly all: ReadonlyArray<Execution<P>>
  /** The last one unless it is over. */
  readonly current: Execution<P> | undefined
  /** The highest ever seen. */
  readonly last: Execution<P> | undefined
  /** Pods that carry the name but belong to another TrainJob of that name. */
  readonly strays: ReadonlyArray<P>
}

/** The record of a live TrainJob. */
export const trainJobRecord = (trainJob: TrainJob): TrainJobRecord => ({
  namespace: trainJob.metadata.namespace ?? "",
  name: trainJob.metadata.name,
  uid: trainJob.metadata.uid,
  creationTimestamp: trainJob.metadata.creationTimestamp ?? undefined,
  suspend: trainJob.spec?.suspend === true,
  finished:
    trueCondition(trainJob.status?.conditions, "Complete") !== undefined ||
    trueCondition(trainJob.status?.conditions, "Failed") !== undefined,
  gone: false
})

/** The record of a JobSet. */
export const jobSetRecord = (jobSet: JobSet.JobSet): JobSetRecord => ({
  uid: jobSet.metadata.uid,
  name: jobSet.metadata.name,
  ownerUid: controllerOf(jobSet.metadata)?.uid
})

/** The record of a Job. */
export const jobRecord = (job: Batch.Job): JobRecord => ({
  uid: job.metadata.uid,
  name: job.metadata.name,
  startTime: job.status?.startTime ?? undefined
})

/** The record of a pod; `gone` when it was deleted and this is its last known state. */
export const podRecord = (pod: Pod, gone = false): PodRecord => ({
  namespace: pod.metadata.namespace ?? "",
  name: pod.metadata.name,
  uid: pod.metadata.uid,
  labels: pod.metadata.labels ?? {},
  annotations: pod.metadata.annotations ?? {},
  creationTimestamp: pod.metadata.creationTimestamp ?? undefined,
  deletionTimestamp: pod.metadata.deletionTimestamp ?? undefined,
  phase: pod.status?.phase ?? undefined,
  nodeName: pod.spec?.nodeName ?? undefined,
  ownerUid: controllerOf(pod.metadata)?.uid,
  gone
})

/** The admission count that a pod (or anything with annotations) carries: a positive integer, else undefined. */
export const admissionOf = (annotations: Readonly<Record<string, string>>): number | undefined => {
  const text = annotations[admissionAnnotation]
  return text !== undefined && /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined
}

/** Whether the pod's phase says that it has ended. The phase can lag the containers, never the other way round. */
export const hasFinished = (pod: PodRecord): boolean => pod.phase === "Succeeded" || pod.phase === "Failed"

/** Whether the pod object exists, has not finished and is not being deleted. */
export const isActive = (pod: PodRecord): boolean =>
  !pod.gone && !hasFinished(pod) && pod.deletionTimestamp === undefined

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
const created = (pod: PodRecord): string => pod.creationTimestamp ?? ""
const label = (pod: PodRecord, key: string): string => pod.labels[key] ?? ""

const byCreation = (a: PodRecord, b: PodRecord): number =>
  compare(created(a), created(b)) || Number(isActive(a)) - Number(isActive(b)) || compare(a.uid, b.uid)

const groupBy = <A>(items: ReadonlyArray<A>, key: (item: A) => string): Map<string, Array<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group === undefined) groups.set(key(item), [item])
    else group.push(item)
  }
  return groups
}

const keyOf = (...parts: ReadonlyArray<string>): string => parts.join("\u0000")

/** Newest creation time of some pods, the only order that holds between JobSets. */
const newestCreation = (pods: ReadonlyArray<PodRecord>): string =>
  pods.reduce((newest, pod) => (created(pod) > newest ? created(pod) : newest), "")

const startTimesByJob = (jobs: ReadonlyArray<JobRecord>): ReadonlyMap<string, ReadonlyArray<string>> =>
  new Map(
    [...groupBy(jobs, (job) => job.uid)].map(([uid, states]) => [
      uid,
      [...new Set(states.flatMap((job) => job.startTime ?? []))].toSorted(compare)
    ])
  )

/**
 * The start that a pod belongs to. A pod that is neither ended nor being deleted belongs to the latest: a suspended Job
 * deletes its active pods before it can be resumed. That also keeps a skew between the clocks of the controller (start
 * time) and the API server (creation time) from tearing one start apart.
 */
const startOf = (pod: PodRecord, starts: ReadonlyArray<string>): string | undefined =>
  isActive(pod) ? starts.at(-1) : starts.findLast((start) => start <= created(pod))

const runKey = (run: JobRun): string => keyOf(run.jobUid, run.jobName, run.replicatedJob, run.jobIndex)

const runsOf = <P extends PodRecord>(
  pods: ReadonlyArray<P>,
  starts: ReadonlyMap<string, ReadonlyArray<string>>
): ReadonlyArray<JobRun<P>> => {
  const jobUid = (pod: P): string => pod.ownerUid ?? label(pod, Batch.controllerUidLabel)
  const startTime = (pod: P): string | undefined => startOf(pod, starts.get(jobUid(pod)) ?? [])
  return [
    ...groupBy(pods, (pod) =>
      keyOf(
        jobUid(pod),
        label(pod, Batch.jobNameLabel),
        label(pod, JobSet.replicatedJobLabel),
        label(pod, JobSet.jobIndexLabel),
        startTime(pod) ?? ""
      )
    ).values()
  ]
    .flatMap((group) => {
      const [first] = group
      return first === undefined
        ? []
        : [
            {
              jobUid: jobUid(first),
              jobName: label(first, Batch.jobNameLabel),
              replicatedJob: label(first, JobSet.replicatedJobLabel),
              jobIndex: label(first, JobSet.jobIndexLabel),
              startTime: startTime(first),
              pods: group.toSorted(byCreation)
            }
          ]
    })
    .toSorted(
      (a, b) =>
        compare(newestCreation(a.pods), newestCreation(b.pods)) ||
        compare(a.startTime ?? "", b.startTime ?? "") ||
        compare(runKey(a), runKey(b))
    )
}

const incarnationsOf = <P extends PodRecord>(
  pods: ReadonlyArray<P>,
  starts: ReadonlyMap<string, ReadonlyArray<string>>
): ReadonlyArray<Incarnation<P>> => {
  const jobSets = groupBy(pods, (pod) => label(pod, JobSet.jobSetUidLabel))
  // Of two JobSets the later is the one with the newest pod; the one that still runs something where seconds do not tell
  const age = (uid: string): string => {
    const members = jobSets.get(uid) ?? []
    return `${newestCreation(members)}${members.some(isActive) ? "1" : "0"}`
  }
  const sets = groupBy(pods, (pod) => keyOf(label(pod, JobSet.jobSetUidLabel), label(pod, JobSet.restartAttemptLabel)))
  return [...sets.values()]
    .flatMap((members) => {
      const [sample] = members
      if (sample === undefined) return []
      // The set's Jobs start one after another, so its starts are lined up by number, not by time: the first start of
      // each Job is the set's first
      const ordinals = new Map<string, number>()
      const runs = runsOf(members, starts).map((run) => {
        const ordinal = ordinals.get(run.jobName) ?? 0
        ordinals.set(run.jobName, ordinal + 1)
        return { ordinal, run }
      })
      return [...groupBy(runs, ({ ordinal }) => String(ordinal)).values()].map((group): Incarnation<P> => ({
        jobSetUid: label(sample, JobSet.jobSetUidLabel),
        restartAttempt: label(sample, JobSet.restartAttemptLabel),
        ordinal: group[0]?.ordinal ?? 0,
        runs: group.map(({ run }) => run),
        pods: group.flatMap(({ run }) => run.pods).toSorted(byCreation)
      }))
    })
    .toSorted(
      (a, b) =>
        compare(age(a.jobSetUid), age(b.jobSetUid)) ||
        compare(a.jobSetUid, b.jobSetUid) ||
        Number(a.restartAttempt) - Number(b.restartAttempt) ||
        a.ordinal - b.ordinal
    )
}

type Draft<P extends PodRecord> = Omit<Execution<P>, "over">

const draft = <P extends PodRecord>(
  number: number | undefined,
  incarnations: ReadonlyArray<Incarnation<P>>
): ReadonlyArray<Draft<P>> => {
  const newest = incarnations.at(-1)
  if (newest === undefined) return []
  return [
    {
      number,
      identity: number === undefined ? "inferred" : "injected",
      incarnations,
      newest,
      repeated: incarnations.length > 1,
      pods: incarnations.flatMap(({ pods }) => pods).toSorted(byCreation)
    }
  ]
}

const belongs = (
  trainJob: TrainJobRecord,
  owners: ReadonlyMap<string, string | undefined>,
  pod: PodRecord
): boolean => {
  if (trainJob.uid === undefined) return true
  const jobSetUid = label(pod, JobSet.jobSetUidLabel)
  if (owners.has(jobSetUid)) return owners.get(jobSetUid) === trainJob.uid
  // Its JobSet is gone unseen. A TrainJob of that name that existed before ours may have left pods behind, never started
  // them later
  return trainJob.creationTimestamp === undefined || created(pod) >= trainJob.creationTimestamp
}

/** Sorts pods into executions. Pods of other names and namespaces are ignored; the order of the input does not matter. */
export const executions = <P extends PodRecord>(facts: Facts<P>): Executions<P> => {
  const { trainJob } = facts
  const owners = new Map(facts.jobSets.map((jobSet) => [jobSet.uid, jobSet.ownerUid]))
  const starts = startTimesByJob(facts.jobs)
  const ours: Array<P> = []
  const strays: Array<P> = []
  for (const pod of facts.pods) {
    if (pod.namespace !== trainJob.namespace || label(pod, JobSet.jobSetNameLabel) !== trainJob.name) continue
    if (belongs(trainJob, owners, pod)) ours.push(pod)
    else strays.push(pod)
  }

  const numbered = groupBy(
    ours.filter((pod) => admissionOf(pod.annotations) !== undefined),
    (pod) => String(admissionOf(pod.annotations))
  )
  const injected = [...numbered]
    .toSorted(([a], [b]) => Number(a) - Number(b))
    .flatMap(([number, pods]) => draft(Number(number), incarnationsOf(pods, starts)))
  const inferred = incarnationsOf(
    ours.filter((pod) => admissionOf(pod.annotations) === undefined),
    starts
  ).flatMap((incarnation) => draft(undefined, [incarnation]))
  // Numbers order the injected ones whatever the clocks say; the others go before or after them as a whole
  const newestNumbered = newestCreation(injected.at(-1)?.pods ?? [])
  const isLater = (execution: Draft<P>): boolean => newestCreation(execution.pods) > newestNumbered
  const ordered = [...inferred.filter((it) => !isLater(it)), ...injected, ...inferred.filter(isLater)]

  const stops = trainJob.gone || trainJob.finished || trainJob.suspend
  const all = ordered.map((execution, index): Execution<P> => {
    const alive = execution.pods.filter((pod) => !pod.gone && !hasFinished(pod))
    return {
      ...execution,
      over: index < ordered.length - 1 || alive.length === 0 || (stops && !alive.some(isActive))
    }
  })
  const last = all.at(-1)
  return { all, current: last?.over === false ? last : undefined, last, strays: strays.toSorted(byCreation) }
}
