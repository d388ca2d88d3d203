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
const label = (pod: PodRecord, key: string): string => pod.labels[key] ?? ""
const keyOf = (...parts: ReadonlyArray<string>): string => parts.join("\u0000")

/** What grouping and sorting read of one pod. */
interface Member<P extends PodRecord = PodRecord> {
  readonly pod: P
  readonly uid: string
  readonly created: string
  readonly active: boolean
  readonly number: number | undefined
  readonly jobSetUid: string
  readonly restartAttempt: string
  readonly jobUid: string
  readonly jobName: string
  readonly replicatedJob: string
  readonly jobIndex: string
  readonly setKey: string
  readonly runKey: string
}

const makeMember = <P extends PodRecord>(pod: P): Member<P> => {
  const jobSetUid = label(pod, JobSet.jobSetUidLabel)
  const restartAttempt = label(pod, JobSet.restartAttemptLabel)
  const jobUid = pod.ownerUid ?? label(pod, Batch.controllerUidLabel)
  const jobName = label(pod, Batch.jobNameLabel)
  const replicatedJob = label(pod, JobSet.replicatedJobLabel)
  const jobIndex = label(pod, JobSet.jobIndexLabel)
  return {
    pod,
    uid: pod.uid,
    created: pod.creationTimestamp ?? "",
    active: isActive(pod),
    number: admissionOf(pod.annotations),
    jobSetUid,
    restartAttempt,
    jobUid,
    jobName,
    replicatedJob,
    jobIndex,
    setKey: keyOf(jobSetUid, restartAttempt),
    runKey: keyOf(jobUid, jobName, replicatedJob, jobIndex)
  }
}

// Of a thousand pods one changes at a time: what is read of the others is read once. Records never change
const membersByPod = new WeakMap<PodRecord, Member>()
const memberOf = <P extends PodRecord>(pod: P): Member<P> => {
  const known = membersByPod.get(pod)
  // Kept under the very record that it holds
  if (known !== undefined) return known as Member<P>
  const made = makeMember(pod)
  membersByPod.set(pod, made)
  return made
}

const byCreation = (a: Member, b: Member): number =>
  compare(a.created, b.created) || Number(a.active) - Number(b.active) || compare(a.uid, b.uid)

const sorted = <P extends PodRecord>(groups: ReadonlyArray<ReadonlyArray<Member<P>>>): ReadonlyArray<Member<P>> => {
  const [only] = groups
  // The parts are sorted already
  return groups.length === 1 && only !== undefined ? only : groups.flat().toSorted(byCreation)
}

const podsOf = <P extends PodRecord>(members: ReadonlyArray<Member<P>>): ReadonlyArray<P> =>
  members.map(({ pod }) => pod)

const groupBy = <A, K>(items: ReadonlyArray<A>, key: (item: A) => K): Map<K, Array<A>> => {
  const groups = new Map<K, Array<A>>()
  for (const item of items) {
    const at = key(item)
    const group = groups.get(at)
    if (group === undefined) groups.set(at, [item])
    else group.push(item)
  }
  return groups
}

/** Newest creation time of some pods, the only order that holds between JobSets. */
const newestCreation = (members: ReadonlyArray<Member>): string =>
  members.reduce((newest, { created }) => (created > newest ? created : newest), "")

const startTimesByJob = (jobs: ReadonlyArray<JobRecord>): ReadonlyMap<string, ReadonlyArray<string>> =>
  new Map(
    [...groupBy(jobs, (job) => job.uid)].map(([uid, states]) => [
      uid,
      [...new Set(states.flatMap((job) => job.startTime ?? []))].toSorted(compare)
    ])
  )

// Of the clocks of controller (start time) and API server (creation time), both told in whole seconds
const skew = 3000

/**
 * The start that a pod belongs to. A pod that is neither ended nor being deleted belongs to the latest: a suspended Job
 * deletes its active pods before it can be resumed. A pod that is a little older than the first start belongs to that one: the
 * clocks differ. One that is much older belongs to a start that nobody saw.
 */
const startOf = ({ active, created }: Member, starts: ReadonlyArray<string>): string | undefined => {
  if (active) return starts.at(-1)
  const [first] = starts
  return (
    starts.findLast((start) => start <= created) ??
    (first !== undefined && Date.parse(first) - Date.parse(created) <= skew ? first : undefined)
  )
}

/** A run and what it was made of. */
interface Started<P extends PodRecord> {
  readonly run: JobRun<P>
  readonly members: ReadonlyArray<Member<P>>
  readonly key: string
}

const runsOf = <P extends PodRecord>(
  members: ReadonlyArray<Member<P>>,
  starts: ReadonlyMap<string, ReadonlyArray<string>>
): ReadonlyArray<Started<P>> =>
  [...groupBy(members, ({ runKey }) => runKey).values()]
    .flatMap((job) => {
      const [sample] = job
      const times = starts.get(sample?.jobUid ?? "") ?? []
      return [...groupBy(job, (member) => startOf(member, times))].flatMap(
        ([startTime, group]): ReadonlyArray<Started<P>> => {
          const [first] = group
          if (first === undefined) return []
          const { jobUid, jobName, replicatedJob, jobIndex, runKey } = first
          const ordered = group.toSorted(byCreation)
          return [
            {
              run: { jobUid, jobName, replicatedJob, jobIndex, startTime, pods: podsOf(ordered) },
              members: ordered,
              key: runKey
            }
          ]
        }
      )
    })
    .toSorted(
      (a, b) =>
        compare(a.members.at(-1)?.created ?? "", b.members.at(-1)?.created ?? "") ||
        compare(a.run.startTime ?? "", b.run.startTime ?? "") ||
        compare(a.key, b.key)
    )

/** An incarnation and what it was made of. */
interface Grouped<P extends PodRecord> {
  readonly incarnation: Incarnation<P>
  readonly members: ReadonlyArray<Member<P>>
}

const incarnationsOf = <P extends PodRecord>(
  members: ReadonlyArray<Member<P>>,
  starts: ReadonlyMap<string, ReadonlyArray<string>>
): ReadonlyArray<Grouped<P>> => {
  const sets = [...groupBy(members, ({ setKey }) => setKey).values()].flatMap((group) => {
    const [sample] = group
    if (sample === undefined) return []
    // The set's Jobs start one after another, so its starts are lined up by number, not by time: the first start of
    // each Job is the set's first
    const ordinals = new Map<string, number>()
    const runs = runsOf(group, starts).map((started) => {
      const ordinal = ordinals.get(started.run.jobName) ?? 0
      ordinals.set(started.run.jobName, ordinal + 1)
      return { ordinal, started }
    })
    return [...groupBy(runs, ({ ordinal }) => ordinal)].map(([ordinal, same]): Grouped<P> => {
      const all = sorted(same.map(({ started }) => started.members))
      return {
        incarnation: {
          jobSetUid: sample.jobSetUid,
          restartAttempt: sample.restartAttempt,
          ordinal,
          runs: same.map(({ started }) => started.run),
          pods: podsOf(all)
        },
        members: all
      }
    })
  })
  if (sets.length <= 1) return sets
  const jobSets = groupBy(members, ({ jobSetUid }) => jobSetUid)
  // Of two JobSets the later is the one with the newest pod; the one that still runs something where seconds do not tell
  const ages = new Map(
    [...jobSets].map(([uid, own]) => [uid, `${newestCreation(own)}${own.some(({ active }) => active) ? "1" : "0"}`])
  )
  const age = (uid: string): string => ages.get(uid) ?? ""
  return sets.toSorted(
    ({ incarnation: a }, { incarnation: b }) =>
      compare(age(a.jobSetUid), age(b.jobSetUid)) ||
      compare(a.jobSetUid, b.jobSetUid) ||
      Number(a.restartAttempt) - Number(b.restartAttempt) ||
      a.ordinal - b.ordinal
  )
}

interface Draft<P extends PodRecord> {
  readonly execution: Omit<Execution<P>, "over">
  readonly members: ReadonlyArray<Member<P>>
}

const draft = <P extends PodRecord>(
  number: number | undefined,
  grouped: ReadonlyArray<Grouped<P>>
): ReadonlyArray<Draft<P>> => {
  const incarnations = grouped.map(({ incarnation }) => incarnation)
  const newest = incarnations.at(-1)
  if (newest === undefined) return []
  const members = sorted(grouped.map((it) => it.members))
  return [
    {
      execution: {
        number,
        identity: number === undefined ? "inferred" : "injected",
        incarnations,
        newest,
        repeated: incarnations.length > 1,
        pods: podsOf(members)
      },
      members
    }
  ]
}

const belongs = (
  trainJob: TrainJobRecord,
  owners: ReadonlyMap<string, string | undefined>,
  { jobSetUid, created }: Member
): boolean => {
  if (trainJob.uid === undefined) return true
  if (owners.has(jobSetUid)) return owners.get(jobSetUid) === trainJob.uid
  // Its JobSet is gone unseen. A TrainJob of that name that existed before ours may have left pods behind, never started
  // them later
  return trainJob.creationTimestamp === undefined || created >= trainJob.creationTimestamp
}

/** Sorts pods into executions. Pods of other names and namespaces are ignored; the order of the input does not matter. */
export const executions = <P extends PodRecord>(facts: Facts<P>): Executions<P> => {
  const { trainJob } = facts
  const owners = new Map(facts.jobSets.map((jobSet) => [jobSet.uid, jobSet.ownerUid]))
  const starts = startTimesByJob(facts.jobs)
  const numbered: Array<Member<P>> = []
  const unnumbered: Array<Member<P>> = []
  const strays: Array<Member<P>> = []
  for (const pod of facts.pods) {
    if (pod.namespace !== trainJob.namespace || label(pod, JobSet.jobSetNameLabel) !== trainJob.name) continue
    const member = memberOf(pod)
    if (!belongs(trainJob, owners, member)) strays.push(member)
    else if (member.number === undefined) unnumbered.push(member)
    else numbered.push(member)
  }

  const injected = [...groupBy(numbered, ({ number }) => number)]
    .toSorted(([a], [b]) => (a ?? 0) - (b ?? 0))
    .flatMap(([number, members]) => draft(number, incarnationsOf(members, starts)))
  const inferred = incarnationsOf(unnumbered, starts).flatMap((grouped) => draft(undefined, [grouped]))
  // Numbers order the injected ones whatever the clocks say; the others go before or after them as a whole
  const newestNumbered = newestCreation(injected.at(-1)?.members ?? [])
  const isLater = ({ members }: Draft<P>): boolean => newestCreation(members) > newestNumbered
  const ordered = [...inferred.filter((it) => !isLater(it)), ...injected, ...inferred.filter(isLater)]

  const stops = trainJob.gone || trainJob.finished || trainJob.suspend
  const all = ordered.map(({ execution, members }, index): Execution<P> => ({
    ...execution,
    over:
      index < ordered.length - 1 ||
      !members.some(({ active, pod }) => (stops ? active : !pod.gone && !hasFinished(pod)))
  }))
  const last = all.at(-1)
  return {
    all,
    current: last?.over === false ? last : undefined,
    last,
    strays: podsOf(strays.toSorted(byCreation))
  }
}

const readLabels = [
  JobSet.jobSetNameLabel,
  JobSet.jobSetUidLabel,
  JobSet.restartAttemptLabel,
  JobSet.replicatedJobLabel,
  JobSet.jobIndexLabel,
  Batch.jobNameLabel,
  Batch.controllerUidLabel
]

/**
 * Whether a pod's new record stands in the same place of the answer as its old one: what `executions` reads of it is the
 * same.
 */
export const isInPlace = (before: PodRecord, after: PodRecord): boolean =>
  before.uid === after.uid &&
  before.gone === after.gone &&
  hasFinished(before) === hasFinished(after) &&
  isActive(before) === isActive(after) &&
  before.namespace === after.namespace &&
  before.creationTimestamp === after.creationTimestamp &&
  before.ownerUid === after.ownerUid &&
  (before.labels === after.labels || readLabels.every((key) => before.labels[key] === after.labels[key])) &&
  (before.annotations === after.annotations || admissionOf(before.annotations) === admissionOf(after.annotations))

/** The answer after pods got new records that stand in the place of their old ones, see `isInPlace`. */
export const replace = <P extends PodRecord>(before: Executions<P>, changes: ReadonlyMap<P, P>): Executions<P> => {
  const swap = (pods: ReadonlyArray<P>): ReadonlyArray<P> =>
    pods.some((pod) => changes.has(pod)) ? pods.map((pod) => changes.get(pod) ?? pod) : pods
  const all = before.all.map((execution): Execution<P> => {
    const pods = swap(execution.pods)
    if (pods === execution.pods) return execution
    const incarnations = execution.incarnations.map((incarnation): Incarnation<P> => {
      const own = swap(incarnation.pods)
      if (own === incarnation.pods) return incarnation
      return { ...incarnation, pods: own, runs: incarnation.runs.map((run) => ({ ...run, pods: swap(run.pods) })) }
    })
    return { ...execution, pods, incarnations, newest: incarnations.at(-1) ?? execution.newest }
  })
  const last = all.at(-1)
  return { all, current: last?.over === false ? last : undefined, last, strays: swap(before.strays) }
}
