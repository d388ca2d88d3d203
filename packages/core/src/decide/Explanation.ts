/**
 * The story of a TrainJob as kept evidence tells it: its executions with their pods, what happened when, why it ended, and
 * what is not known. Nothing here is new knowledge: every line names what it rests on.
 *
 * @module
 */
import { DateTime, Schema } from "effect"
import * as Batch from "../model/Batch.js"
import * as JobSet from "../model/JobSet.js"
import { condition, controllerOf, trueCondition } from "../model/Meta.js"
import * as Classification from "./Classification.js"
import * as Evidence from "./Evidence.js"
import * as Execution from "./Execution.js"
import * as Update from "./Update.js"

/**
 * What a line rests on. `object`: an object of the cluster says it, with its time. `seen`: it was watched happening.
 * `inferred`: it was noticed afterwards, so it happened then or before.
 */
export const Basis = Schema.Literal("object", "seen", "inferred")
/** See the schema of the same name. */
export type Basis = typeof Basis.Type

/** Something that happened to one object, or to several of a kind within one second. */
export const Moment = Schema.Struct({
  /** RFC 3339: of the cluster's clock where `basis` is `object`, else of the observer's. */
  time: Schema.String,
  basis: Basis,
  /** e.g. `Pod/run-1-node-0-0-abcde`; at least one. */
  objects: Schema.Array(Schema.String),
  what: Schema.String
})
/** See the schema of the same name. */
export type Moment = typeof Moment.Type

/** How a container ended, as its kubelet first said. */
export const ContainerEnd = Schema.Struct({
  container: Schema.String,
  restart: Schema.Number,
  exitCode: Schema.Number,
  reason: Schema.optional(Schema.String),
  finishedAt: Schema.optional(Schema.String)
})
/** See the schema of the same name. */
export type ContainerEnd = typeof ContainerEnd.Type

/** A pod of an execution. */
export const Pod = Schema.Struct({
  name: Schema.String,
  uid: Schema.String,
  replicatedJob: Schema.String,
  jobIndex: Schema.String,
  /** The completion index: the rank within its Job. */
  rank: Schema.optional(Schema.String),
  node: Schema.optional(Schema.String),
  nodeUid: Schema.optional(Schema.String),
  presence: Evidence.Presence,
  phase: Schema.String,
  createdAt: Schema.optional(Schema.String),
  deletionRequestedAt: Schema.optional(Schema.String),
  ends: Schema.Array(ContainerEnd),
  /** What ended it, by itself; absent while it goes on, when it ended well, and when nobody saw it. */
  cause: Schema.optional(Classification.Cause),
  /** What was not seen of its end. */
  unseen: Schema.optional(Schema.String)
})
/** See the schema of the same name. */
export type Pod = typeof Pod.Type

/** One start of an execution. */
export const Start = Schema.Struct({
  /** The admission count; absent when the pods carry none. */
  number: Schema.optional(Schema.Number),
  identity: Schema.Literal("injected", "inferred"),
  /** Which start of that number, from 1. */
  incarnation: Schema.Number,
  /** Of how many. */
  incarnations: Schema.Number,
  jobSetUid: Schema.String,
  startedAt: Schema.optional(Schema.String),
  /** When its last pod ended or was gone; absent while one has not. */
  endedAt: Schema.optional(Schema.String),
  /** The start that the state, the cause and the outcome are about. */
  isSubject: Schema.Boolean,
  cause: Schema.optional(Classification.Cause),
  evidence: Schema.Array(Classification.Fact),
  pods: Schema.Array(Pod),
  /** Ranks that were expected and of which no pod was ever seen. */
  neverSeen: Schema.Array(Schema.String)
})
/** See the schema of the same name. */
export type Start = typeof Start.Type

/** Something that is not known. */
export const Unknown = Schema.Struct({ what: Schema.String, why: Schema.String })
/** See the schema of the same name. */
export type Unknown = typeof Unknown.Type

/** The story. Plain JSON. */
export const Explanation = Schema.Struct({
  /** What a watch tells at this moment: state, cause, outcome and the facts they rest on. */
  now: Update.Update,
  /** Oldest first. */
  executions: Schema.Array(Start),
  /** Oldest first. */
  timeline: Schema.Array(Moment),
  unknown: Schema.Array(Unknown),
  /** What could not be asked for this answer, e.g. a permission that is missing. */
  unasked: Schema.Array(Schema.String)
})
/** See the schema of the same name. */
export type Explanation = typeof Explanation.Type

type Record = Evidence.PodRecord

const iso = (epochMillis: number): string => DateTime.formatIso(DateTime.unsafeMake(epochMillis))

const optional = <const Key extends string, A>(key: Key, value: A | null | undefined): { readonly [K in Key]?: A } =>
  value === undefined || value === null || value === "" ? {} : ({ [key]: value } as { readonly [K in Key]?: A })

const rankOf = (pod: Record): string | undefined =>
  pod.labels[Batch.completionIndexLabel] ?? pod.annotations[Batch.completionIndexLabel]

const numeric = (text: string | undefined): number => (text === undefined ? Number.POSITIVE_INFINITY : Number(text))

const podStory = (evidence: Evidence.Evidence, pod: Record): Pod => {
  const outcome = Classification.podOutcome(evidence, pod)
  const { evidence: own } = pod
  return {
    name: pod.name,
    uid: pod.uid,
    replicatedJob: pod.labels[JobSet.replicatedJobLabel] ?? "",
    jobIndex: pod.labels[JobSet.jobIndexLabel] ?? "",
    ...optional("rank", rankOf(pod)),
    ...optional("node", pod.nodeName),
    ...optional("nodeUid", own.node?.uid),
    presence: own.presence,
    phase: pod.phase ?? "",
    ...optional("createdAt", pod.creationTimestamp),
    ...optional("deletionRequestedAt", own.deletionRequestedAt),
    ends: own.endings.map(({ container, restartCount, terminated }) => ({
      container,
      restart: restartCount,
      exitCode: terminated.exitCode,
      ...optional("reason", terminated.reason),
      ...optional("finishedAt", terminated.finishedAt)
    })),
    ...(outcome?._tag === "Explained" ? { cause: outcome.cause } : {}),
    ...(outcome?._tag === "Unseen" ? { unseen: outcome.missing } : {})
  }
}

const byRank = (a: Pod, b: Pod): number =>
  (a.replicatedJob < b.replicatedJob ? -1 : a.replicatedJob > b.replicatedJob ? 1 : 0) ||
  Number(a.jobIndex) - Number(b.jobIndex) ||
  numeric(a.rank) - numeric(b.rank) ||
  ((a.createdAt ?? "") < (b.createdAt ?? "") ? -1 : 1)

/** When a pod's processes were last known to end, epoch milliseconds; undefined while they may go on. */
const endOf = (pod: Record): number | undefined => {
  const { evidence: own } = pod
  if (Evidence.isUnended(own)) return undefined
  const finished = own.endings.flatMap(({ terminated }) => Evidence.millis(terminated.finishedAt) ?? [])
  if (finished.length > 0 && Execution.hasFinished(pod)) return Math.max(...finished)
  return own.goneAt ?? own.seenAt
}

const starts = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Record>,
  now: Update.Update
): ReadonlyArray<Start> =>
  all.all.flatMap((execution, place) =>
    execution.incarnations.map((incarnation, index): Start => {
      const last = place === all.all.length - 1
      const isSubject =
        now.incarnation === index + 1 &&
        (execution.number === undefined
          ? now.execution === undefined && incarnation === subjectOf(evidence, all, now)
          : now.execution === execution.number)
      const started = [
        ...incarnation.runs.flatMap(({ startTime }) => startTime ?? []),
        ...incarnation.pods.flatMap(({ creationTimestamp }) => creationTimestamp ?? [])
      ].toSorted()[0]
      const ends = incarnation.pods.map(endOf)
      const ended = ends.every((end) => end !== undefined) ? Math.max(...ends) : undefined
      const over = ended !== undefined || !last || index < execution.incarnations.length - 1
      const explained = isSubject
        ? now.cause === undefined
          ? undefined
          : { cause: now.cause, evidence: now.evidence }
        : over
          ? Classification.explainEnd(evidence, all, execution, incarnation, now.ref.uid)
          : undefined
      return {
        ...optional("number", execution.number),
        identity: execution.identity,
        incarnation: index + 1,
        incarnations: execution.incarnations.length,
        jobSetUid: incarnation.jobSetUid,
        ...optional("startedAt", started),
        ...optional("endedAt", ended === undefined ? undefined : iso(ended)),
        isSubject,
        ...optional("cause", explained?.cause),
        evidence: explained?.evidence ?? [],
        pods: incarnation.pods.map((pod) => podStory(evidence, pod)).toSorted(byRank),
        neverSeen: Evidence.gaps(evidence, all, execution, incarnation, now.ref.uid).missing
      }
    })
  )

/** Which start of unnumbered executions an update is about: the last that began before the end that was told. */
const subjectOf = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Record>,
  now: Update.Update
): Execution.Incarnation<Record> | undefined => {
  const end = Evidence.millis(Evidence.trainJob(evidence, now.ref.uid)?.terminal?.lastTransitionTime)
  const incarnations = all.all.flatMap((it) => it.incarnations)
  if (end === undefined) return incarnations.at(-1)
  return (
    incarnations.findLast(({ pods }) =>
      pods.some(({ creationTimestamp }) => (Evidence.millis(creationTimestamp) ?? 0) <= end)
    ) ?? incarnations.at(-1)
  )
}

/** A moment of one object, before those of a second are put together. */
interface Point {
  readonly at: number
  readonly time: string
  readonly basis: Basis
  readonly object: string
  readonly what: string
}

const told = (object: string, time: string | null | undefined, what: string): ReadonlyArray<Point> => {
  const at = Evidence.millis(time)
  // A zero time is no time
  return at === undefined || at <= 0 || time === null || time === undefined
    ? []
    : [{ at, time, basis: "object", object, what }]
}

const because = (...parts: ReadonlyArray<string | null | undefined>): string => {
  const words = parts.filter((part) => part !== undefined && part !== null && part !== "").join(": ")
  return words === "" ? "" : ` (${words})`
}

const vanished = (
  object: string,
  { presence, goneAt }: { readonly presence: Evidence.Presence; readonly goneAt?: number | undefined }
): ReadonlyArray<Point> =>
  presence === "present" || goneAt === undefined
    ? []
    : [
        {
          at: goneAt,
          time: iso(goneAt),
          basis: presence,
          object,
          what: presence === "seen" ? "gone: its deletion was seen" : "found to be gone"
        }
      ]

const ofPod = (pod: Record): ReadonlyArray<Point> => {
  const { evidence: own } = pod
  const object = `Pod/${pod.name}`
  const scheduled = trueCondition(own.pod.status?.conditions, "PodScheduled")
  const unscheduled = condition(own.pod.status?.conditions, "PodScheduled")
  const statuses = Evidence.containersOf(own.pod).filter(({ role }) => role !== "init")
  return [
    ...told(object, pod.creationTimestamp, "created"),
    ...told(
      object,
      scheduled?.lastTransitionTime,
      `scheduled${pod.nodeName === undefined ? "" : ` on ${pod.nodeName}`}`
    ),
    ...(unscheduled?.status === "False"
      ? told(object, unscheduled.lastTransitionTime, `not scheduled${because(unscheduled.reason, unscheduled.message)}`)
      : []),
    ...statuses.flatMap(({ name, status }) =>
      told(object, status?.state?.running?.startedAt, `container ${name} started`)
    ),
    ...own.endings.flatMap(({ container, terminated }) => [
      ...told(object, terminated.startedAt, `container ${container} started`),
      ...told(
        object,
        terminated.finishedAt,
        `container ${container} ended, exit code ${terminated.exitCode}${because(terminated.reason, terminated.message)}`
      )
    ]),
    ...own.disruptions.flatMap(({ lastTransitionTime, reason, message }) =>
      told(object, lastTransitionTime, `marked for disruption${because(reason, message)}`)
    ),
    ...told(
      object,
      own.deletionRequestedAt,
      own.deletionIsExact === true ? "deletion asked for" : "deletion asked for, at the latest"
    ),
    ...vanished(object, own)
  ]
}

const ofNode = (name: string, sightings: ReadonlyArray<Evidence.NodeSighting>): ReadonlyArray<Point> => {
  const object = `Node/${name}`
  const points: Array<Point> = []
  let before: Evidence.NodeSighting | undefined
  for (const sighting of sightings) {
    const noticed = (what: string): Point => ({
      at: sighting.at,
      time: iso(sighting.at),
      basis: "inferred",
      object,
      what
    })
    if (sighting.uid === undefined) points.push(noticed("found to have no Node object"))
    else {
      if (before?.uid !== undefined && before.uid !== sighting.uid) {
        points.push(noticed(`found replaced: uid ${before.uid}, then ${sighting.uid}`))
      }
      if (before?.bootID !== undefined && before.uid === sighting.uid && before.bootID !== sighting.bootID) {
        points.push(noticed("found rebooted: another boot ID"))
      }
      const { ready } = sighting
      if (ready !== undefined && (ready.status !== "True" || before?.ready?.status !== ready.status)) {
        // What it was long before the run is of no interest; that it is well again is
        if (ready.status !== "True") {
          points.push(...told(object, ready.lastTransitionTime, `not ready${because(ready.reason, ready.message)}`))
        } else if (before !== undefined) points.push(...told(object, ready.lastTransitionTime, "ready again"))
      }
    }
    for (const taint of sighting.taints) {
      const known = before?.taints.some((it) => it.key === taint.key && it.effect === taint.effect) ?? false
      if (known) continue
      const what = `taint ${taint.key}:${taint.effect}`
      points.push(...(taint.timeAdded ? told(object, taint.timeAdded, what) : [noticed(`found with ${what}`)]))
    }
    before = sighting
  }
  return points
}

const pointsOf = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Record>,
  uid: string | undefined
): ReadonlyArray<Point> => {
  const known = Evidence.trainJob(evidence, uid)
  const self = `TrainJob/${evidence.name}`
  const pods = all.all.flatMap((it) => it.pods)
  const jobSets = new Set([
    ...pods.map((pod) => pod.labels[JobSet.jobSetUidLabel]),
    ...Object.values(evidence.jobSets)
      .filter(({ jobSet }) => uid === undefined || controllerOf(jobSet.metadata)?.uid === uid)
      .map(({ jobSet }) => jobSet.metadata.uid)
  ])
  const jobs = Object.values(evidence.jobs).filter(({ job }) =>
    jobSets.has(job.metadata.labels?.[JobSet.jobSetUidLabel])
  )
  const parts = new Set([...jobSets, ...jobs.map(({ job }) => job.metadata.uid)])
  const nodes = new Set(pods.flatMap(({ nodeName }) => nodeName ?? []))
  return [
    ...(known === undefined
      ? []
      : [
          ...told(self, known.trainJob.metadata.creationTimestamp, "created"),
          ...known.suspensions.flatMap(({ status, lastTransitionTime, reason, message }) =>
            told(self, lastTransitionTime, `${status === "True" ? "held" : "let go"}${because(reason, message)}`)
          ),
          ...told(
            self,
            known.terminal?.lastTransitionTime,
            `${known.terminal?.type ?? ""}${because(known.terminal?.reason, known.terminal?.message)}`
          ),
          ...told(self, known.trainJob.metadata.deletionTimestamp, "deletion asked for"),
          ...vanished(self, known)
        ]),
    ...Object.values(evidence.jobSets)
      .filter(({ jobSet }) => jobSets.has(jobSet.metadata.uid))
      .flatMap((it) => {
        const object = `JobSet/${it.jobSet.metadata.name}`
        const failed = trueCondition(it.jobSet.status?.conditions, "Failed")
        return [
          ...told(object, it.jobSet.metadata.creationTimestamp, "created"),
          ...told(object, failed?.lastTransitionTime, `Failed${because(failed?.reason, failed?.message)}`),
          ...vanished(object, it)
        ]
      }),
    ...jobs.flatMap(({ job, startTimes }) => {
      const object = `Job/${job.metadata.name}`
      const failed = trueCondition(job.status?.conditions, "FailureTarget")
      return [
        ...startTimes.flatMap((time, index) => told(object, time, index === 0 ? "started" : "started again")),
        ...told(object, failed?.lastTransitionTime, `about to fail${because(failed?.reason, failed?.message)}`)
      ]
    }),
    ...pods.flatMap(ofPod),
    ...Object.values(evidence.workloads).flatMap(({ workload, evictions, presence, goneAt }) => {
      const object = `Workload/${workload.metadata.name}`
      const admitted = condition(workload.status?.conditions, "Admitted")
      return [
        ...told(object, workload.metadata.creationTimestamp, "created"),
        ...told(
          object,
          admitted?.lastTransitionTime,
          `${admitted?.status === "True" ? "admitted" : "not admitted"}${because(admitted?.reason)}`
        ),
        ...evictions.flatMap((it): ReadonlyArray<Point> => {
          const what = `evicted${because(it.reason, it.message)}`
          return it.at === undefined
            ? [
                {
                  at: it.noticedAt,
                  time: iso(it.noticedAt),
                  basis: "inferred",
                  object,
                  what: `found to have been ${what}`
                }
              ]
            : told(object, it.at, what)
        }),
        ...vanished(object, { presence, goneAt })
      ]
    }),
    ...[...nodes].flatMap((name) => ofNode(name, evidence.nodes[name] ?? [])),
    ...evidence.events
      .filter(({ kind, regardingUid }) =>
        kind === "TrainJob"
          ? regardingUid === undefined || uid === undefined || regardingUid === uid
          : parts.has(regardingUid)
      )
      .flatMap((it) =>
        told(`Event of ${it.kind}/${it.name}`, it.firstAt ?? it.at, `${it.reason}${because(it.message)}`)
      )
  ]
}

const timelineOf = (points: ReadonlyArray<Point>): ReadonlyArray<Moment> => {
  const groups = new Map<string, { readonly first: Point; readonly objects: Array<string> }>()
  for (const point of points.toSorted((a, b) => a.at - b.at)) {
    const [kind] = point.object.split("/")
    const key = [Math.floor(point.at / 1000), point.basis, kind, point.what].join("\u0000")
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { first: point, objects: [point.object] })
    else if (!group.objects.includes(point.object)) group.objects.push(point.object)
  }
  return [...groups.values()].map(({ first: { time, basis, what }, objects }) => ({ time, basis, objects, what }))
}

const unknownsOf = (
  evidence: Evidence.Evidence,
  all: Execution.Executions<Record>,
  now: Update.Update,
  executions: ReadonlyArray<Start>
): ReadonlyArray<Unknown> => {
  const result = new Map<string, string>()
  const add = (what: string, why: string): void => {
    if (!result.has(what)) result.set(what, why)
  }
  for (const { neverSeen } of executions) {
    for (const rank of neverSeen) add(`any pod of ${rank}`, "it was expected, and none was seen while it was looked at")
  }
  for (const pod of executions.flatMap(({ pods }) => pods)) {
    if (pod.unseen !== undefined) {
      add(
        pod.unseen,
        pod.presence === "inferred"
          ? "the pod was gone when it was looked at again, and its last state had not been seen"
          : "the pod's last state does not tell it"
      )
    }
    if (pod.presence === "inferred" && pod.ends.length === 0 && pod.unseen === undefined && pod.phase !== "Succeeded") {
      add(`the exit code of Pod/${pod.name}`, "the pod was gone when it was looked at again")
    }
  }
  for (const missing of now.cause?._tag === "Unknown" ? now.cause.missing : []) {
    add(missing, "nothing that was seen tells it")
  }
  for (const pod of all.all.flatMap((it) => it.pods)) {
    const name = pod.nodeName
    const node = name === undefined ? undefined : evidence.nodes[name]?.at(-1)
    if (Evidence.isUnended(pod.evidence) && name !== undefined && node !== undefined && node.ready?.status !== "True") {
      add(
        `whether the processes of Pod/${pod.name} still run`,
        `Node/${name} ${node.uid === undefined ? "has no Node object" : "is not ready"}: only \`ceased\` answers that`
      )
    }
  }
  if (evidence.droppedPods > 0) {
    add(`${evidence.droppedPods} pods of earlier executions`, "their evidence was given up to bound its size")
  }
  if (Evidence.trainJob(evidence, now.ref.uid) === undefined) {
    add(`what TrainJob/${evidence.name} was and how it ended`, "only its pods were seen")
  }
  return [...result].map(([what, why]) => ({ what, why }))
}

/** Tells the story of one TrainJob of the name: the one with that uid, else the present one, else the last one. Total. */
export const make = (evidence: Evidence.Evidence, uid?: string, unasked: ReadonlyArray<string> = []): Explanation => {
  const now = Update.make(evidence, uid)
  const all = Evidence.executions(evidence, now.ref.uid)
  const executions = starts(evidence, all, now)
  return {
    now,
    executions,
    timeline: timelineOf(pointsOf(evidence, all, now.ref.uid)),
    unknown: unknownsOf(evidence, all, now, executions),
    unasked
  }
}
