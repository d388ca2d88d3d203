/**
 * Tells what happens to TrainJobs, and keeps the evidence of why. One list and watch per resource type serves every job of
 * the scope; Nodes are read by name when a pod is bound or in trouble.
 *
 * @module
 */
import { Chunk, Clock, Duration, Effect, Either, Option, Stream } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import { ErrNotFound } from "./AdapterError.js"
import * as Evidence from "./decide/Evidence.js"
import * as Update from "./decide/Update.js"
import * as EvidenceStore from "./EvidenceStore.js"
import * as Follow from "./kube/Follow.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import * as Resource from "./kube/Resource.js"
import * as Selector from "./kube/Selector.js"
import * as Batch from "./model/Batch.js"
import * as Core from "./model/Core.js"
import * as JobSet from "./model/JobSet.js"
import * as Kueue from "./model/Kueue.js"
import * as Trainer from "./model/Trainer.js"
import { isSubmissionOf, type TrainJobRef } from "./TrainJobRef.js"

/** What is watched: every TrainJob of a namespace, the submissions of one run, or one TrainJob. */
export type Scope =
  | { readonly _tag: "Namespace"; readonly namespace: string }
  | { readonly _tag: "Run"; readonly namespace: string; readonly run: string }
  | { readonly _tag: "Ref"; readonly ref: TrainJobRef }

/** Every TrainJob of a namespace. */
export const namespace = (name: string): Scope => ({ _tag: "Namespace", namespace: name })
/** The submissions `<run>-1`, `<run>-2` … of one run. */
export const run = (namespace: string, name: string): Scope => ({ _tag: "Run", namespace, run: name })
/** One TrainJob. */
export const ref = (trainJob: TrainJobRef): Scope => ({ _tag: "Ref", ref: trainJob })

/** Something that makes the watch lag or tell less. Nothing to act on, but worth a log line. */
export type Problem =
  /** The object is skipped; its last readable state stays. */
  | { readonly _tag: "Undecodable"; readonly kind: string; readonly name: string; readonly issue: string }
  /** The watch of a type broke off and is taken up again in `retryIn` milliseconds. */
  | { readonly _tag: "Interrupted"; readonly kind: string; readonly error: KubeError; readonly retryIn: number }
  /** An optional source cannot be read; the updates say so in their notes. */
  | { readonly _tag: "Unavailable"; readonly kind: string; readonly error: KubeError }
  /**
   * What was kept of a name cannot be read. Nothing is told of it and nothing written, until it can be read again or was
   * moved away: then the name is taken up by itself. Told once each time.
   */
  | {
      readonly _tag: "Unusable"
      readonly kind: "Evidence"
      readonly name: string
      readonly error: EvidenceStore.EvidenceStoreError
    }

/** Options of the program. */
export interface Options {
  readonly follow?: Follow.Options | undefined
  /** Called for every problem, before the next update. By default they are logged. */
  readonly onProblem?: ((problem: Problem) => Effect.Effect<void>) | undefined
}

/** What a watch can fail with: `KubeForbidden` names the verb that is missing. */
export type Failure = ErrNotFound | KubeError | EvidenceStore.EvidenceStoreError

/** The watch. */
export interface Service {
  /**
   * The updates of every TrainJob of the scope: first what is, then each change, none twice. Never ends by itself. A scope
   * of one ref fails with `ErrNotFound` when that TrainJob neither exists nor left evidence. Where the evidence of one name
   * cannot be read, a watch of that ref fails with `EvidenceStoreError`; every other watch goes on without the name, with a
   * problem. A store that fails as a whole fails every watch.
   */
  readonly watch: (scope: Scope) => Stream.Stream<Update.Update, Failure>
}

/** At most so many Nodes or pods are read at once. */
export const concurrency = 16

// From so many pods on, what one read of a connection brings about a job is kept and classified once, not pod by pod
const largeJob = 64

const isLarge = (evidence: Evidence.Evidence): boolean => Object.keys(evidence.pods).length > largeJob

// Of objects of others, which never come, the Events come all the same
const earlyKept = 256

// Of a name whose evidence cannot be used so many observations wait: more than a job of some pods brings in its life
const withheldKept = 256

// What could not be read is tried again, and the store is swept, at this pace
const tick = "30 seconds"
const ticksPerSweep = 120
// A permission that was refused may be granted meanwhile
const forbiddenFor = 300_000

/** `Warning`: Events about what TrainJobs are made of, where something is amiss. */
type Kind = "TrainJob" | "JobSet" | "Job" | "Pod" | "Workload" | "Event" | "Warning"

interface Objects {
  readonly TrainJob: Trainer.TrainJob
  readonly JobSet: JobSet.JobSet
  readonly Job: Batch.Job
  readonly Pod: Core.Pod
  readonly Workload: Kueue.Workload
  readonly Event: Core.Event
  readonly Warning: Core.Event
}

type Input =
  | { readonly [K in Kind]: { readonly kind: K; readonly event: Follow.FollowEvent<Objects[K]> } }[Kind]
  | { readonly kind: "Unavailable"; readonly of: "Workload" | "Event" | "Warning"; readonly error: KubeError }
  | { readonly kind: "Tick" }

type ObjectObservation = Exclude<Evidence.Observation, { readonly _tag: "Node" }>

const observe = (kind: Kind, object: Objects[Kind], presence: Evidence.Presence, at: number): ObjectObservation => {
  // The kind says the type; the union of pairs cannot be built without saying so
  if (kind === "Event" || kind === "Warning") return { _tag: "Event", object: object as Core.Event, at }
  return { _tag: kind, object, presence, at } as ObjectObservation
}

/** A problem in a sentence. */
export const describeProblem = (problem: Problem): string => {
  switch (problem._tag) {
    case "Undecodable":
      return `${problem.kind}/${problem.name} cannot be read and is skipped: ${problem.issue}`
    case "Interrupted":
      return `the watch of ${problem.kind} broke off, next attempt in ${problem.retryIn} ms: ${problem.error.message}`
    case "Unavailable":
      return `${problem.kind} cannot be read: ${problem.error.message}`
    case "Unusable":
      return `nothing is told of TrainJob/${problem.name}: ${problem.error.message}`
  }
}

const logProblem = (problem: Problem): Effect.Effect<void> =>
  problem._tag === "Interrupted"
    ? Effect.logInfo(describeProblem(problem))
    : Effect.logWarning(describeProblem(problem))

const namespaceOf = (scope: Scope): string => (scope._tag === "Ref" ? scope.ref.namespace : scope.namespace)

const isInScope = (scope: Scope, name: string): boolean => {
  switch (scope._tag) {
    case "Namespace":
      return true
    case "Run":
      return isSubmissionOf(scope.run, name)
    case "Ref":
      return name === scope.ref.name
  }
}

/** A pod that is written for the last time has no grace left: its DELETED cannot mean that it left the selector. */
const isFinalWrite = (pod: Core.Pod): boolean =>
  typeof pod.metadata.deletionTimestamp === "string" && pod.metadata.deletionGracePeriodSeconds === 0

/** The labels by which it was found say what it belongs to, also after somebody took them off. */
const withLabelsOf = (known: Core.Pod, live: Core.Pod): Core.Pod => ({
  ...live,
  metadata: { ...live.metadata, labels: { ...live.metadata.labels, ...known.metadata.labels } }
})

/** What selects the objects of one name, or of all. */
const selections = (namespace: string, name: string | undefined) => {
  const where: KubeApi.In<"Namespaced"> & KubeApi.Selection = { namespace }
  return {
    where,
    named: name === undefined ? where : { ...where, fields: Selector.fields({ "metadata.name": name }) },
    started: {
      ...where,
      labels:
        name === undefined
          ? Selector.labelExists(JobSet.jobSetNameLabel)
          : Selector.labels({ [JobSet.jobSetNameLabel]: name })
    }
  }
}

const olderWorkloads = Resource.withVersion(Kueue.workloads, "v1beta1")

const isUnserved = (error: KubeError): boolean => error._tag === "KubeNotFound" && error.subject === "type"

/** What is kept as present and is not there any more. */
const vanished = (kind: Kind, evidence: Evidence.Evidence, live: ReadonlySet<string>): ReadonlyArray<Objects[Kind]> => {
  const take = <E extends { readonly presence: Evidence.Presence }>(
    known: Readonly<Record<string, E>>,
    object: (it: E) => Objects[Kind]
  ): ReadonlyArray<Objects[Kind]> =>
    Object.entries(known).flatMap(([uid, it]) => (it.presence === "present" && !live.has(uid) ? [object(it)] : []))
  switch (kind) {
    case "TrainJob":
      return take(evidence.trainJobs, (it) => it.trainJob)
    case "JobSet":
      return take(evidence.jobSets, (it) => it.jobSet)
    case "Job":
      return take(evidence.jobs, (it) => it.job)
    case "Pod":
      return take(evidence.pods, (it) => it.pod)
    case "Workload":
      return take(evidence.workloads, (it) => it.workload)
    case "Event":
    case "Warning":
      return []
  }
}

const isReadyFalse = (pod: Core.Pod | undefined): boolean =>
  pod?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "False") ?? false

/** Whether the pod's Node should be read: never yet, or something happened to the pod that the Node may explain. */
const wantsNode = (before: Evidence.PodEvidence | undefined, after: Evidence.PodEvidence): boolean => {
  if (after.pod.spec?.nodeName === undefined || after.pod.spec.nodeName === null) return false
  if (after.node === undefined && Evidence.isUnended(after)) return true
  // In which boot it was started
  if (
    after.node?.bootIsLast !== true &&
    Evidence.startsNoMore(after) &&
    (before === undefined || !Evidence.startsNoMore(before))
  ) {
    return true
  }
  return (
    before?.disruptions.length !== after.disruptions.length ||
    before.deletionRequestedAt !== after.deletionRequestedAt ||
    before.presence !== after.presence ||
    (isReadyFalse(after.pod) && !isReadyFalse(before.pod)) ||
    (after.pod.status?.phase === "Failed" && before.pod.status?.phase !== "Failed")
  )
}

/** Makes the program. In Kueue mode Workloads are watched too. */
export const make = (
  config: Pick<AdapterConfig, "kueue">,
  options: Options = {}
): Effect.Effect<Service, never, KubeApi.KubeApi | EvidenceStore.EvidenceStore> =>
  Effect.gen(function* () {
    const api = yield* KubeApi.KubeApi
    const store = yield* EvidenceStore.EvidenceStore
    const onProblem = options.onProblem ?? logProblem

    const inputs = (scope: Scope): ReadonlyArray<Stream.Stream<Input, KubeError>> => {
      const { where, named, started } = selections(
        namespaceOf(scope),
        scope._tag === "Ref" ? scope.ref.name : undefined
      )
      const follow = <K extends Kind>(
        kind: K,
        resource: Resource.Resource<Objects[K], "Namespaced">,
        selection: KubeApi.In<"Namespaced"> & KubeApi.Selection
      ): Stream.Stream<Input, KubeError> =>
        Stream.map(
          Follow.follow(api, resource, selection, options.follow),
          (event) => ({ kind, event }) as unknown as Input
        )
      const unavailable = (of: "Workload" | "Event" | "Warning", error: KubeError): Stream.Stream<Input> =>
        Stream.make({ kind: "Unavailable" as const, of, error })
      const workloads = Stream.catchAll(follow("Workload", Kueue.workloads, where), (error) =>
        isUnserved(error)
          ? Stream.catchAll(follow("Workload", olderWorkloads, where), (older): Stream.Stream<Input, KubeError> =>
              isUnserved(older) ? unavailable("Workload", older) : Stream.fail(older)
            )
          : Stream.fail(error)
      )
      const events = (kind: "Event" | "Warning", fields: Selector.FieldSelector): Stream.Stream<Input, KubeError> =>
        Stream.catchAll(follow(kind, Core.events, { ...where, fields }), (error): Stream.Stream<Input, KubeError> =>
          error._tag === "KubeForbidden" || isUnserved(error) ? unavailable(kind, error) : Stream.fail(error)
        )
      return [
        follow("TrainJob", Trainer.trainJobs, named),
        follow("JobSet", JobSet.jobSets, named),
        follow("Job", Batch.jobs, started),
        follow("Pod", Core.pods, started),
        ...(config.kueue === undefined ? [] : [workloads]),
        events(
          "Event",
          Selector.fields({
            "involvedObject.kind": "TrainJob",
            ...(scope._tag === "Ref" ? { "involvedObject.name": scope.ref.name } : {})
          })
        ),
        events("Warning", Core.warningsOfParts),
        Stream.repeatEffect(Effect.as(Effect.sleep(tick), { kind: "Tick" as const }))
      ]
    }

    const session = (
      scope: Scope
    ): ((inputs: Chunk.Chunk<Input>) => Effect.Effect<Chunk.Chunk<Update.Update>, Failure>) => {
      // Touched by one fiber only: inputs are handled one after another
      const listed = new Set<string>()
      const told = new Map<string, Update.Update>()
      const unread = new Map<string, Set<string>>()
      const missing = new Map<string, string>()
      // What one read of a connection brought, by job, until the end of it: so that a job's evidence is written once
      const held = new Map<string, Array<ObjectObservation>>()
      // The names of which everything is told that is to be told, but what their own objects bring
      const settled = new Set<string>()
      const large = new Set<string>()
      // The names whose evidence cannot be used, with what was seen of them since, the latest
      const unusable = new Map<string, ReadonlyArray<ObjectObservation>>()
      // The TrainJob of a JobSet or a Job, by its uid: an Event names its own object alone
      const owners = new Map<string, string>()
      // Events about objects that were not seen yet: each type has a watch of its own
      const early = new Map<string, ReadonlyArray<Extract<ObjectObservation, { readonly _tag: "Event" }>>>()
      // Pods of many jobs share Nodes: a Node that was read for one of them serves the others of the same read
      const nodesRead = new Map<string, Evidence.Observation>()
      let nodesForbiddenUntil = 0
      let ticks = 0
      let isTelling = false
      const needed: ReadonlyArray<string> = [
        "TrainJob",
        "JobSet",
        "Job",
        "Pod",
        "Event",
        "Warning",
        ...(config.kueue === undefined ? [] : ["Workload"])
      ]

      const key = (name: string): EvidenceStore.Key => ({ namespace: namespaceOf(scope), name })

      const nameOf = (observation: ObjectObservation): string | undefined =>
        observation._tag === "Event" && observation.object.involvedObject.kind !== "TrainJob"
          ? owners.get(observation.object.involvedObject.uid ?? "")
          : Evidence.trainJobNameOf(observation)

      /** Puts an observation to those of its TrainJob, and after an object the Events that came before it. */
      const sort = (groups: Map<string, Array<ObjectObservation>>, observation: ObjectObservation): void => {
        const name = nameOf(observation)
        if (name === undefined) {
          if (observation._tag === "Event") remember(observation)
          return
        }
        if (!isInScope(scope, name)) return
        const group = groups.get(name) ?? []
        if (group.length === 0) groups.set(name, group)
        group.push(observation)
        if (observation._tag !== "JobSet" && observation._tag !== "Job") return
        const { uid } = observation.object.metadata
        owners.set(uid, name)
        group.push(...(early.get(uid) ?? []))
        early.delete(uid)
      }

      const remember = (event: Extract<ObjectObservation, { readonly _tag: "Event" }>): void => {
        const { kind, uid } = event.object.involvedObject
        if ((kind !== "JobSet" && kind !== "Job") || typeof uid !== "string") return
        const others = (early.get(uid) ?? []).filter(({ object }) => object.reason !== event.object.reason)
        early.delete(uid)
        early.set(uid, [...others, event])
        const [oldest] = early.keys()
        if (early.size > earlyKept && oldest !== undefined) early.delete(oldest)
      }

      /** Reads Nodes and keeps what is seen. What fails is tried again at the next event of its pods, or tick. */
      const readNodes = (
        name: string,
        nodes: ReadonlyArray<string>
      ): Effect.Effect<void, EvidenceStore.EvidenceStoreError> =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          if (nodes.length === 0 || now < nodesForbiddenUntil) return
          const saw = (
            node: string,
            object: Core.Node | undefined
          ): Effect.Effect<ReadonlyArray<Evidence.Observation>> =>
            Effect.map(Clock.currentTimeMillis, (at) => {
              const observation: Evidence.Observation = { _tag: "Node", name: node, node: object, at }
              nodesRead.set(node, observation)
              return [observation]
            })
          const observations = yield* Effect.forEach(
            nodes,
            (node) => {
              const known = nodesRead.get(node)
              if (known !== undefined) return Effect.succeed([known])
              return Effect.matchEffect(api.get(Core.nodes, { name: node }), {
                onSuccess: (object) => saw(node, object),
                onFailure: (error): Effect.Effect<ReadonlyArray<Evidence.Observation>> => {
                  if (error._tag === "KubeNotFound") return saw(node, undefined)
                  const again = unread.get(name) ?? new Set<string>()
                  unread.set(name, again.add(node))
                  if (error._tag === "KubeForbidden") {
                    const isNew = !missing.has("Node")
                    nodesForbiddenUntil = now + forbiddenFor
                    settled.clear()
                    missing.set("Node", "Nodes may not be read (403): whether one was lost is not known.")
                    return isNew
                      ? Effect.as(onProblem({ _tag: "Unavailable", kind: "Node", error }), [])
                      : Effect.succeed([])
                  }
                  return Effect.as(onProblem({ _tag: "Unavailable", kind: `Node/${node}`, error }), [])
                }
              })
            },
            { concurrency }
          )
          const seen = observations.flat()
          if (seen.length === 0) return
          if (now >= nodesForbiddenUntil && missing.delete("Node")) settled.clear()
          yield* store.update(key(name), (evidence) => Evidence.foldAll(evidence, seen))
        })

      /** The Node of the observed pod, when it should be read. */
      const nodeFor = (
        before: Evidence.Evidence,
        after: Evidence.Evidence,
        observation: ObjectObservation
      ): string | undefined => {
        if (observation._tag !== "Pod") return undefined
        const { uid } = observation.object.metadata
        const pod = after.pods[uid]
        return pod !== undefined && wantsNode(before.pods[uid], pod) ? (pod.pod.spec?.nodeName ?? undefined) : undefined
      }

      /** Reads Nodes and answers the evidence after it. */
      const withNodes = (
        name: string,
        nodes: ReadonlySet<string>,
        evidence: Evidence.Evidence
      ): Effect.Effect<Evidence.Evidence, EvidenceStore.EvidenceStoreError> =>
        nodes.size === 0
          ? Effect.succeed(evidence)
          : Effect.flatMap(readNodes(name, [...nodes]), () =>
              Effect.map(store.get(key(name)), (found) => (found._tag === "None" ? evidence : found.value))
            )

      /** Whether there is nothing to tell after an observation. */
      const isSettled = (
        before: Evidence.Evidence,
        after: Evidence.Evidence,
        observation: ObjectObservation
      ): boolean => {
        if (before === after) return settled.has(after.name)
        if (observation._tag !== "Pod" || !settled.has(after.name)) return false
        const pod = after.pods[observation.object.metadata.uid]
        return pod !== undefined && Evidence.goesOn(before.pods[observation.object.metadata.uid], pod)
      }

      /** Answers the evidence after it, and whether there may be something to tell. */
      const keep = (
        name: string,
        observations: ReadonlyArray<ObjectObservation>
      ): Effect.Effect<
        { readonly after: Evidence.Evidence; readonly changed: boolean },
        EvidenceStore.EvidenceStoreError
      > => {
        let before: Evidence.Evidence | undefined
        return Effect.flatMap(
          store.update(key(name), (evidence) => {
            before = evidence
            return Evidence.foldAll(evidence, observations)
          }),
          (after) => {
            const nodes = new Set<string>()
            const from = before ?? after
            for (const observation of observations) {
              const node = nodeFor(from, after, observation)
              if (node !== undefined) nodes.add(node)
            }
            const changed = nodes.size > 0 || !observations.every((it) => isSettled(from, after, it))
            return Effect.map(withNodes(name, nodes, after), (after) => ({ after, changed }))
          }
        )
      }

      /** What is new to tell about the TrainJobs of a name. */
      const tellFrom = (evidence: Evidence.Evidence): ReadonlyArray<Update.Update> => {
        const uids =
          scope._tag === "Ref" && scope.ref.uid !== undefined ? [scope.ref.uid] : Object.keys(evidence.trainJobs)
        settled.add(evidence.name)
        return uids.flatMap((uid) => {
          const made = Update.make(evidence, uid)
          const update: Update.Update =
            missing.size === 0 ? made : { ...made, notes: [...made.notes, ...missing.values()] }
          const last = told.get(uid)
          if (last !== undefined && Update.equals(last, update)) return []
          told.set(uid, update)
          return [update]
        })
      }

      const tell = (name: string): Effect.Effect<ReadonlyArray<Update.Update>, EvidenceStore.EvidenceStoreError> =>
        using(
          name,
          [],
          Effect.map(store.get(key(name)), (found) => (found._tag === "None" ? [] : tellFrom(found.value)))
        )

      /** Whether the pod still exists: then it only left the selector. What cannot be asked was not seen to be deleted. */
      const confirm = (pod: Core.Pod, presence: "seen" | "inferred", at: number): Effect.Effect<ObjectObservation> =>
        presence === "seen" && isFinalWrite(pod)
          ? Effect.succeed(observe("Pod", pod, presence, at))
          : Effect.match(api.get(Core.pods, { namespace: namespaceOf(scope), name: pod.metadata.name }), {
              onSuccess: (live) =>
                live.metadata.uid === pod.metadata.uid
                  ? observe("Pod", withLabelsOf(pod, live), "present", at)
                  : observe("Pod", pod, presence, at),
              onFailure: (error) => observe("Pod", pod, error._tag === "KubeNotFound" ? presence : "inferred", at)
            })

      const deleted = (
        kind: Kind,
        objects: ReadonlyArray<Objects[Kind]>,
        presence: "seen" | "inferred",
        at: number
      ): Effect.Effect<ReadonlyArray<ObjectObservation>> =>
        // Events expire: that means nothing
        kind === "Event" || kind === "Warning"
          ? Effect.succeed([])
          : kind === "Pod"
            ? Effect.forEach(objects, (pod) => confirm(pod as Core.Pod, presence, at), { concurrency })
            : Effect.succeed(objects.map((object) => observe(kind, object, presence, at)))

      /** What an earlier process kept as present and is not there any more. */
      const vanishedOfAll = (
        kind: Kind,
        live: ReadonlySet<string>
      ): Effect.Effect<ReadonlyArray<Objects[Kind]>, EvidenceStore.EvidenceStoreError> =>
        Effect.gen(function* () {
          const result: Array<Objects[Kind]> = []
          for (const { namespace, name } of yield* store.keys) {
            if (namespace !== namespaceOf(scope) || !isInScope(scope, name) || unusable.has(name)) continue
            const found = yield* Effect.catchAll(store.get({ namespace, name }), (error) =>
              Effect.as(setAside(name, [], error), Option.none())
            )
            if (Option.isSome(found)) result.push(...vanished(kind, found.value, live))
          }
          return result
        })

      const withhold = (name: string, observations: ReadonlyArray<ObjectObservation>): void => {
        unusable.set(name, [...(unusable.get(name) ?? []), ...observations].slice(-withheldKept))
      }

      /** Goes on without a name whose evidence cannot be used. Whoever asks for that name alone has to be told instead. */
      const setAside = (
        name: string,
        observations: ReadonlyArray<ObjectObservation>,
        error: EvidenceStore.EvidenceStoreError
      ): Effect.Effect<void, EvidenceStore.EvidenceStoreError> =>
        Effect.suspend(() => {
          if (scope._tag === "Ref" || !EvidenceStore.isOfOneName(error)) return Effect.fail(error)
          const isNew = !unusable.has(name)
          withhold(name, observations)
          settled.delete(name)
          return isNew ? onProblem({ _tag: "Unusable", kind: "Evidence", name, error }) : Effect.void
        })

      /** What exists of a name now, and what of its evidence does not. */
      const lookAgain = (evidence: Evidence.Evidence): Effect.Effect<ReadonlyArray<ObjectObservation>, KubeError> => {
        const { where, named, started } = selections(namespaceOf(scope), evidence.name)
        const list = <K extends Exclude<Kind, "Event" | "Warning">>(
          kind: K,
          resource: Resource.Resource<Objects[K], "Namespaced">,
          selection: KubeApi.In<"Namespaced"> & KubeApi.Selection
        ): Effect.Effect<ReadonlyArray<ObjectObservation>, KubeError> =>
          Effect.gen(function* () {
            const { items, undecodable } = yield* api.list(resource, selection)
            const at = yield* Clock.currentTimeMillis
            const unreadable = new Set(undecodable.map(({ name }) => name))
            const live = new Set(items.map(({ metadata }) => metadata.uid))
            const gone = vanished(kind, evidence, live).filter(({ metadata }) => !unreadable.has(metadata.name))
            return [
              ...items
                .map((object) => observe(kind, object, "present", at))
                .filter((observation) => nameOf(observation) === evidence.name),
              ...(yield* deleted(kind, gone, "inferred", at))
            ]
          })
        const workloads = Effect.catchIf(list("Workload", Kueue.workloads, where), isUnserved, () =>
          list("Workload", olderWorkloads, where)
        )
        return Effect.map(
          Effect.all(
            [
              list("TrainJob", Trainer.trainJobs, named),
              list("JobSet", JobSet.jobSets, named),
              list("Job", Batch.jobs, started),
              list("Pod", Core.pods, started),
              ...(config.kueue === undefined || missing.has("Workload") ? [] : [workloads])
            ],
            { concurrency }
          ),
          (all) => all.flat()
        )
      }

      /**
       * Takes up a name whose evidence could not be used. What there is of it may be of any age, and what was seen since need
       * not be all that happened: what exists is asked for, so that nothing is told that is no longer true. Only what is now is
       * told, as at the start.
       */
      const takeUp = (
        name: string,
        observations: ReadonlyArray<ObjectObservation>
      ): Effect.Effect<ReadonlyArray<Update.Update>, EvidenceStore.EvidenceStoreError> =>
        Effect.gen(function* () {
          const found = yield* store.get(key(name))
          const withheld = [...(unusable.get(name) ?? []), ...observations]
          const kept = Option.getOrElse(found, () => Evidence.empty(namespaceOf(scope), name))
          const looked = yield* Effect.either(lookAgain(Evidence.foldAll(kept, withheld)))
          if (Either.isLeft(looked)) {
            withhold(name, observations)
            const retryIn = Duration.toMillis(tick)
            yield* onProblem({ _tag: "Interrupted", kind: `TrainJob/${name}`, error: looked.left, retryIn })
            return []
          }
          const all = [...withheld, ...looked.right]
          const after = all.length === 0 ? kept : (yield* keep(name, all)).after
          unusable.delete(name)
          if (isLarge(after)) large.add(name)
          return isTelling ? tellFrom(after) : []
        })

      /** Does something with the evidence of a name. While it cannot be used, what was seen of the name waits. */
      const using = (
        name: string,
        observations: ReadonlyArray<ObjectObservation>,
        use: Effect.Effect<ReadonlyArray<Update.Update>, EvidenceStore.EvidenceStoreError>
      ): Effect.Effect<ReadonlyArray<Update.Update>, EvidenceStore.EvidenceStoreError> =>
        Effect.suspend(() =>
          Effect.catchAll(unusable.has(name) ? takeUp(name, observations) : use, (error) =>
            Effect.as(setAside(name, observations, error), [])
          )
        )

      const observations = (
        kind: Kind,
        event: Follow.FollowEvent<Objects[Kind]>
      ): Effect.Effect<ReadonlyArray<ObjectObservation>, EvidenceStore.EvidenceStoreError> =>
        Effect.gen(function* () {
          const at = yield* Clock.currentTimeMillis
          switch (event._tag) {
            case "Snapshot": {
              for (const object of event.undecodable) {
                yield* onProblem({ _tag: "Undecodable", kind, name: object.name ?? "", issue: object.issue })
              }
              const unreadable = new Set(event.undecodable.map(({ name }) => name))
              const live = new Set(event.objects.map(({ metadata }) => metadata.uid))
              const earlier = listed.has(kind)
                ? []
                : (yield* vanishedOfAll(kind, live)).filter(({ metadata }) => !unreadable.has(metadata.name))
              const gone = yield* deleted(kind, [...event.deleted, ...earlier], "inferred", at)
              return [...event.changed.map((object) => observe(kind, object, "present", at)), ...gone]
            }
            case "Applied":
              return [observe(kind, event.object, "present", at)]
            case "Deleted":
              return yield* deleted(kind, [event.object], event.seen ? "seen" : "inferred", at)
            case "Undecodable":
              yield* onProblem({ _tag: "Undecodable", kind, name: event.object.name ?? "", issue: event.object.issue })
              return []
            case "Interrupted":
              yield* onProblem({ _tag: "Interrupted", kind, error: event.error, retryIn: event.retryIn })
              return []
          }
        })

      const tellAll = Effect.gen(function* () {
        const names = (yield* store.keys)
          .filter((it) => it.namespace === namespaceOf(scope) && isInScope(scope, it.name))
          .map(({ name }) => name)
          .toSorted()
        if (scope._tag === "Ref") {
          const found = yield* store.get(key(scope.ref.name))
          const known =
            found._tag === "Some" &&
            (scope.ref.uid === undefined
              ? Object.keys(found.value.trainJobs).length > 0
              : found.value.trainJobs[scope.ref.uid] !== undefined)
          if (!known) {
            return yield* new ErrNotFound({
              kind: "TrainJob",
              name: scope.ref.name,
              namespace: scope.ref.namespace,
              reason:
                scope.ref.uid === undefined
                  ? "it does not exist, and no evidence of it was kept"
                  : `no TrainJob of that name with uid ${scope.ref.uid} exists, and no evidence of it was kept`
            })
          }
        }
        return (yield* Effect.forEach(names, tell)).flat()
      })

      /** What the store has given up, whoever swept it, is not remembered here either. */
      const forget = Effect.map(store.keys, (keys) => {
        const kept = new Set(keys.filter((it) => it.namespace === namespaceOf(scope)).map(({ name }) => name))
        for (const name of unusable.keys()) kept.add(name)
        for (const [uid, { ref }] of told) if (!kept.has(ref.name)) told.delete(uid)
        for (const [uid, name] of owners) if (!kept.has(name)) owners.delete(uid)
        for (const names of [settled, large, unread]) {
          for (const name of names.keys()) if (!kept.has(name)) names.delete(name)
        }
      })

      const handle = (input: Input): Effect.Effect<ReadonlyArray<Update.Update>, Failure> =>
        Effect.gen(function* () {
          if (input.kind === "Tick") {
            ticks += 1
            if (ticks % ticksPerSweep === 0) yield* store.sweep
            yield* forget
            const waiting = [...unread]
            unread.clear()
            const updates: Array<Update.Update> = []
            for (const name of unusable.keys()) updates.push(...(yield* using(name, [], Effect.succeed([]))))
            for (const [name, nodes] of waiting) {
              const now = yield* Clock.currentTimeMillis
              if (now < nodesForbiddenUntil || unusable.has(name)) unread.set(name, nodes)
              else {
                updates.push(...(yield* using(name, [], Effect.as(readNodes(name, [...nodes]), []))))
                updates.push(...(isTelling ? yield* tell(name) : []))
              }
            }
            return updates
          }
          const names = new Set<string>()
          const updates: Array<Update.Update> = []
          if (input.kind === "Unavailable") {
            listed.add(input.of)
            const kind = input.of === "Warning" ? "Event" : input.of
            if (!missing.has(kind)) {
              settled.clear()
              missing.set(
                kind,
                kind === "Event"
                  ? "Events cannot be read: they are missing as evidence."
                  : "Kueue's Workloads are not served: evictions and preemptions are not seen."
              )
              yield* onProblem({ _tag: "Unavailable", kind, error: input.error })
            }
          } else {
            const groups = new Map<string, Array<ObjectObservation>>()
            for (const observation of yield* observations(input.kind, input.event)) sort(groups, observation)
            for (const [name, group] of groups) {
              const kept = Effect.map(keep(name, group), ({ after }) => {
                if (isLarge(after)) large.add(name)
                names.add(name)
                return []
              })
              updates.push(...(yield* using(name, group, kept)))
            }
            if (input.event._tag === "Snapshot") listed.add(input.kind)
          }
          if (!isTelling) {
            // Before every type was listed once, what is not there yet may only not have been looked at
            if (!needed.every((kind) => listed.has(kind))) return []
            isTelling = true
            return yield* tellAll
          }
          return [...updates, ...(yield* Effect.forEach(names, tell)).flat()]
        })

      /**
       * Keeps observations of a job and tells each change, in order: what one of them calls for is read before it is told and
       * before the next one counts.
       */
      const tellEach = (
        name: string,
        observations: ReadonlyArray<ObjectObservation>,
        add: (more: ReadonlyArray<Update.Update>) => void
      ): Effect.Effect<void, EvidenceStore.EvidenceStoreError> =>
        Effect.gen(function* () {
          let next = 0
          while (next < observations.length) {
            const from = next
            let changes: Array<Evidence.Evidence> = []
            let node: string | undefined
            const stored = yield* store.update(key(name), (evidence) => {
              let after = evidence
              next = from
              changes = []
              node = undefined
              while (next < observations.length && node === undefined) {
                const observation = observations[next++]
                if (observation === undefined) continue
                const before = after
                after = Evidence.fold(before, observation)
                node = nodeFor(before, after, observation)
                if (node === undefined && isTelling && !isSettled(before, after, observation)) changes.push(after)
              }
              return after
            })
            for (const change of changes) add(tellFrom(change))
            if (node !== undefined) {
              const after = yield* withNodes(name, new Set([node]), stored)
              if (isTelling) add(tellFrom(after))
            }
            if (isLarge(stored)) large.add(name)
          }
        })

      return (chunk) =>
        Effect.gen(function* () {
          const clock = yield* Effect.clock
          const updates: Array<Update.Update> = []
          const add = (more: ReadonlyArray<Update.Update>): void => {
            for (const update of more) updates.push(update)
          }
          /** Keeps and tells what was held back. */
          const release = Effect.gen(function* () {
            const groups = [...held]
            held.clear()
            for (const [name, group] of groups) {
              const news = large.has(name)
                ? Effect.map(keep(name, group), ({ after, changed }) => (changed && isTelling ? tellFrom(after) : []))
                : Effect.as(tellEach(name, group, add), [])
              add(yield* using(name, group, news))
            }
          })
          nodesRead.clear()
          for (const input of chunk) {
            if (input.kind === "Tick" || input.kind === "Unavailable" || input.event._tag !== "Applied") {
              yield* release
              add(yield* handle(input))
              continue
            }
            sort(held, observe(input.kind, input.event.object, "present", clock.unsafeCurrentTimeMillis()))
          }
          yield* release
          return Chunk.unsafeFromArray(updates)
        })
    }

    return {
      watch: (scope) =>
        Stream.suspend(() =>
          Stream.mergeAll(inputs(scope), { concurrency: "unbounded", bufferSize: 16 }).pipe(
            Stream.mapChunksEffect(session(scope)),
            Stream.withSpan("Watch.watch")
          )
        )
    }
  })
