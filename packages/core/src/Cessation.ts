/**
 * Asks whether an execution has really stopped: reads every Node it ran on, live and by name, and decides from those. Writes
 * nothing to the cluster.
 *
 * @module
 */
import { Clock, Effect, Either, Option } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import { ErrNotFound, ErrUnsupported } from "./AdapterError.js"
import * as CessationVerdict from "./decide/CessationVerdict.js"
import * as Evidence from "./decide/Evidence.js"
import * as EvidenceStore from "./EvidenceStore.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import type * as Resource from "./kube/Resource.js"
import * as Selector from "./kube/Selector.js"
import * as Batch from "./model/Batch.js"
import * as Coordination from "./model/Coordination.js"
import * as Core from "./model/Core.js"
import * as JobSet from "./model/JobSet.js"
import * as Trainer from "./model/Trainer.js"
import type { TrainJobRef } from "./TrainJobRef.js"

/** What `ceased` can fail with. */
export type Failure = ErrUnsupported | ErrNotFound | KubeError | EvidenceStore.EvidenceStoreError

/** The cessation question. */
export interface Service {
  /**
   * Whether the current (or last) execution has stopped, with every Node's state and every pod's proof. Fails with
   * `ErrUnsupported` when Nodes may not be read, `ErrNotFound` when nothing is known of the TrainJob; when the cluster does
   * not answer, with its error: never with a no that only means "not asked".
   */
  readonly ceased: (ref: TrainJobRef) => Effect.Effect<CessationVerdict.Verdict, Failure>
}

/** At most so many objects are read at once. */
export const concurrency = 16

const nodeLeaseNamespace = "kube-node-lease"
// Where a Lease does not say it: the kubelet's default
const defaultLeaseSeconds = 40

/** The object, or undefined when it (or its namespace) does not exist. A type that is not served is an error. */
const find = <A extends Resource.KubeObject, S extends Resource.Scope>(
  api: KubeApi.Service,
  resource: Resource.Resource<A, S>,
  ref: KubeApi.Ref<S>
): Effect.Effect<A | undefined, KubeError> =>
  Effect.catchIf(
    Effect.map(api.get(resource, ref), (object): A | undefined => object),
    (error) => error._tag === "KubeNotFound" && (error.subject === "object" || error.subject === "namespace"),
    () => Effect.succeed(undefined)
  )

/** Makes the program. */
export const make = (
  config: Pick<AdapterConfig, "outOfService">
): Effect.Effect<Service, never, KubeApi.KubeApi | EvidenceStore.EvidenceStore> =>
  Effect.gen(function* () {
    const api = yield* KubeApi.KubeApi
    const store = yield* EvidenceStore.EvidenceStore

    /** What of the evidence is not among the live objects: gone, or (pods) out of the selector. */
    const absent = (
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

    const gather = (ref: TrainJobRef): Effect.Effect<Evidence.Evidence, Failure> =>
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
        const unknown =
          ref.uid === undefined
            ? live.trainJob === undefined &&
              live.pods.length === 0 &&
              Object.keys(kept.trainJobs).length === 0 &&
              Object.keys(kept.pods).length === 0
            : live.trainJob?.metadata.uid !== ref.uid && kept.trainJobs[ref.uid] === undefined
        if (unknown) {
          return yield* new ErrNotFound({
            kind: "TrainJob",
            name,
            namespace,
            reason:
              ref.uid !== undefined && live.trainJob !== undefined
                ? `the TrainJob of that name has uid ${live.trainJob.metadata.uid}, and no evidence of uid ${ref.uid} was kept`
                : "it does not exist, and no evidence of it was kept"
          })
        }
        const present = { presence: "present", at } as const
        const observations: ReadonlyArray<Evidence.Observation> = [
          ...(live.trainJob === undefined ? [] : [{ _tag: "TrainJob" as const, object: live.trainJob, ...present }]),
          ...(live.jobSet === undefined ? [] : [{ _tag: "JobSet" as const, object: live.jobSet, ...present }]),
          ...live.jobs.map((object) => ({ _tag: "Job" as const, object, ...present })),
          ...live.pods.map((object) => ({ _tag: "Pod" as const, object, ...present })),
          ...(yield* absent(kept, live, at))
        ]
        return yield* store.update(ref, (evidence) => Evidence.foldAll(evidence, observations))
      })

    const readNode = (name: string): Effect.Effect<CessationVerdict.NodeReading, ErrUnsupported | KubeError> =>
      Effect.catchTag(
        Effect.map(find(api, Core.nodes, { name }), (node): CessationVerdict.NodeReading =>
          node === undefined ? { _tag: "Missing" } : { _tag: "Found", node }
        ),
        "KubeForbidden",
        (error) =>
          new ErrUnsupported({
            operation: "ceased",
            reason: "Nodes may not be read, and nothing else tells whether processes still run",
            details: [
              {
                id: "get-nodes",
                where: `Node/${name}`,
                problem: error.message,
                remedy: 'grant verb "get" on "nodes" with a ClusterRole and a ClusterRoleBinding'
              }
            ]
          })
      )

    /** Until when a deleted Node's kubelet has renewed its Lease. Only a caution: what cannot be read is left out. */
    const leaseUntil = (name: string): Effect.Effect<number | undefined> =>
      Effect.map(
        Effect.either(api.getWithTime(Coordination.leases, { namespace: nodeLeaseNamespace, name })),
        Either.match({
          onLeft: () => undefined,
          onRight: ({ object }) => {
            const renewed = Evidence.millis(object.spec?.renewTime)
            return renewed === undefined
              ? undefined
              : renewed + (object.spec?.leaseDurationSeconds ?? defaultLeaseSeconds) * 1000
          }
        })
      )

    return {
      ceased: Effect.fn("Cessation.ceased")(function* (ref: TrainJobRef) {
        const found = yield* gather(ref)
        const names = CessationVerdict.nodeNames(found, ref.uid)
        const readings = yield* Effect.forEach(
          names,
          (name) => Effect.map(readNode(name), (reading) => [name, reading] as const),
          { concurrency }
        )
        const now = yield* Clock.currentTimeMillis
        // Recorded only for pods that have not ended, so that a Node that is replaced later is noticed
        const evidence = yield* store.update(ref, (kept) =>
          Evidence.foldAll(
            kept,
            readings.map(([name, reading]) => ({
              _tag: "Node" as const,
              name,
              node: reading._tag === "Found" ? reading.node : undefined,
              at: now
            }))
          )
        )
        const deleted = readings.filter(([, { _tag }]) => _tag === "Missing")
        const leases = yield* Effect.forEach(
          deleted,
          ([name]) => Effect.map(leaseUntil(name), (until) => [name, until] as const),
          { concurrency }
        )
        return CessationVerdict.decide({
          evidence,
          uid: ref.uid,
          nodes: new Map(readings),
          leases: new Map(leases.flatMap(([name, until]) => (until === undefined ? [] : [[name, until] as const]))),
          now,
          outOfService: config.outOfService
        })
      })
    }
  })
