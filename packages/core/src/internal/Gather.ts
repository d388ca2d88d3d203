/**
 * What the cluster shows of a TrainJob now, added to what was kept of it.
 *
 * @module
 */
import { Clock, Effect, Option } from "effect"
import { ErrNotFound } from "../AdapterError.js"
import * as Evidence from "../decide/Evidence.js"
import type * as EvidenceStore from "../EvidenceStore.js"
import type * as KubeApi from "../kube/KubeApi.js"
import type { KubeError } from "../kube/KubeError.js"
import type * as Resource from "../kube/Resource.js"
import * as Selector from "../kube/Selector.js"
import * as Batch from "../model/Batch.js"
import * as Core from "../model/Core.js"
import * as JobSet from "../model/JobSet.js"
import * as Trainer from "../model/Trainer.js"
import type { TrainJobRef } from "../TrainJobRef.js"

/** At most so many objects are read at once. */
export const concurrency = 16

/** The object, or undefined when it (or its namespace) does not exist. A type that is not served is an error. */
export const find = <A extends Resource.KubeObject, S extends Resource.Scope>(
  api: KubeApi.Service,
  resource: Resource.Resource<A, S>,
  ref: KubeApi.Ref<S>
): Effect.Effect<A | undefined, KubeError> =>
  Effect.catchIf(
    Effect.map(api.get(resource, ref), (object): A | undefined => object),
    (error) => error._tag === "KubeNotFound" && (error.subject === "object" || error.subject === "namespace"),
    () => Effect.succeed(undefined)
  )

/** What of the evidence is not among the live objects: gone, or (pods) out of the selector. */
const absent = (
  api: KubeApi.Service,
  evidence: Evidence.Evidence,
  live: {
    readonly trainJob: Trainer.TrainJob | undefined
    readonly jobSet: JobSet.JobSet | undefined
    readonly jobs: ReadonlyArray<Batch.Job>
    readonly pods: ReadonlyArray<Core.Pod>
  },
  at: number
): Effect.Effect<ReadonlyArray<Evidence.Observation>, KubeError> => {
  const inferred = { presence: "inferred", at } as const
  const missing = <E extends { readonly presence: Evidence.Presence }>(
    known: Readonly<Record<string, E>>,
    uids: ReadonlyArray<string | undefined>
  ): ReadonlyArray<E> =>
    Object.entries(known)
      .filter(([uid, { presence }]) => presence === "present" && !uids.includes(uid))
      .map(([, it]) => it)
  const uids = (objects: ReadonlyArray<Resource.KubeObject | undefined>) => objects.map((it) => it?.metadata.uid)
  const gone: ReadonlyArray<Evidence.Observation> = [
    ...missing(evidence.trainJobs, uids([live.trainJob])).map((it) => ({
      _tag: "TrainJob" as const,
      object: it.trainJob,
      ...inferred
    })),
    ...missing(evidence.jobSets, uids([live.jobSet])).map((it) => ({
      _tag: "JobSet" as const,
      object: it.jobSet,
      ...inferred
    })),
    ...missing(evidence.jobs, uids(live.jobs)).map((it) => ({ _tag: "Job" as const, object: it.job, ...inferred }))
  ]
  return Effect.map(
    Effect.forEach(
      missing(evidence.pods, uids(live.pods)),
      ({ pod }) =>
        Effect.map(
          find(api, Core.pods, { namespace: evidence.namespace, name: pod.metadata.name }),
          (object): Evidence.Observation =>
            object?.metadata.uid === pod.metadata.uid
              ? // Only out of the selector: its labels of before say what it belongs to
                { _tag: "Pod", object, presence: "present", at }
              : { _tag: "Pod", object: pod, ...inferred }
        ),
      { concurrency }
    ),
    (pods) => [...gone, ...pods]
  )
}

/** Whether evidence of what the reference means was kept. */
export const isKnown = (kept: Evidence.Evidence, ref: TrainJobRef): boolean =>
  ref.uid === undefined
    ? Object.keys(kept.trainJobs).length > 0 || Object.keys(kept.pods).length > 0
    : kept.trainJobs[ref.uid] !== undefined

interface Live {
  readonly trainJob: Trainer.TrainJob | undefined
  readonly pods: ReadonlyArray<Core.Pod>
}

const isLive = ({ trainJob, pods }: Live, ref: TrainJobRef): boolean =>
  ref.uid === undefined ? trainJob !== undefined || pods.length > 0 : trainJob?.metadata.uid === ref.uid

const notFound = ({ namespace, name, uid }: TrainJobRef, live: Trainer.TrainJob | undefined): ErrNotFound =>
  new ErrNotFound({
    kind: "TrainJob",
    name,
    namespace,
    reason:
      uid !== undefined && live !== undefined
        ? `the TrainJob of that name has uid ${live.metadata.uid}, and no evidence of uid ${uid} was kept`
        : "it does not exist, and no evidence of it was kept"
  })

/**
 * Reads the TrainJob, its JobSet, Jobs and pods, and answers the evidence with them. Fails with `ErrNotFound` when there is
 * neither an object nor evidence.
 */
export const gather = (
  api: KubeApi.Service,
  store: EvidenceStore.Service,
  ref: TrainJobRef
): Effect.Effect<Evidence.Evidence, ErrNotFound | KubeError | EvidenceStore.EvidenceStoreError> =>
  Effect.gen(function* () {
    const { namespace, name } = ref
    const labels = Selector.labels({ [JobSet.jobSetNameLabel]: name })
    // Owners first: a pod that a later read finds can then be attributed
    const live = yield* Effect.all(
      {
        trainJob: find(api, Trainer.trainJobs, { namespace, name }),
        jobSet: find(api, JobSet.jobSets, { namespace, name }),
        jobs: Effect.map(api.list(Batch.jobs, { namespace, labels }), ({ items }) => items),
        pods: Effect.map(api.list(Core.pods, { namespace, labels }), ({ items }) => items)
      },
      { concurrency: "unbounded" }
    )
    const at = yield* Clock.currentTimeMillis
    const kept = Option.getOrElse(yield* store.get(ref), () => Evidence.empty(namespace, name))
    if (!isKnown(kept, ref) && !isLive(live, ref)) return yield* notFound(ref, live.trainJob)
    const present = { presence: "present", at } as const
    const observations: ReadonlyArray<Evidence.Observation> = [
      ...(live.trainJob === undefined ? [] : [{ _tag: "TrainJob" as const, object: live.trainJob, ...present }]),
      ...(live.jobSet === undefined ? [] : [{ _tag: "JobSet" as const, object: live.jobSet, ...present }]),
      ...live.jobs.map((object) => ({ _tag: "Job" as const, object, ...present })),
      ...live.pods.map((object) => ({ _tag: "Pod" as const, object, ...present })),
      ...(yield* absent(api, kept, live, at))
    ]
    return yield* store.update(ref, (evidence) => Evidence.foldAll(evidence, observations))
  })
