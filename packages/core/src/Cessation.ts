/**
 * Asks whether an execution has really stopped: reads every Node it ran on, live and by name, and decides from those. Writes
 * nothing to the cluster.
 *
 * @module
 */
import { Clock, Effect, Either } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import { type ErrNotFound, type ErrUnsupported, missingPermission } from "./AdapterError.js"
import * as CessationVerdict from "./decide/CessationVerdict.js"
import * as Evidence from "./decide/Evidence.js"
import * as EvidenceStore from "./EvidenceStore.js"
import { concurrency, find, gather } from "./internal/Gather.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import * as Coordination from "./model/Coordination.js"
import * as Core from "./model/Core.js"
import type { TrainJobRef } from "./TrainJobRef.js"

/** What `ceased` can fail with. */
export type Failure = ErrUnsupported | ErrNotFound | KubeError | EvidenceStore.EvidenceStoreError

/** The cessation question. */
export interface Service {
  /**
   * Whether the current (or last) execution has stopped, with every Node's state and every pod's proof: true of one execution
   * at one time, which the answer names. A yes was checked against the pods a second time. Fails with
   * `ErrUnsupported` when Nodes may not be read, `ErrNotFound` when nothing is known of the TrainJob; when the cluster does
   * not answer, with its error: never with a no that only means "not asked".
   */
  readonly ceased: (ref: TrainJobRef) => Effect.Effect<CessationVerdict.Verdict, Failure>
}

const nodeLeaseNamespace = "kube-node-lease"
// Where a Lease does not say it: the kubelet's default
const defaultLeaseSeconds = 40

// A job whose pods are bound anew that often while it is asked about has not ceased
const rounds = 3

/** Makes the program. */
export const make = (
  config: Pick<AdapterConfig, "outOfService">
): Effect.Effect<Service, never, KubeApi.KubeApi | EvidenceStore.EvidenceStore> =>
  Effect.gen(function* () {
    const api = yield* KubeApi.KubeApi
    const store = yield* EvidenceStore.EvidenceStore

    const readNode = (name: string): Effect.Effect<CessationVerdict.NodeReading, ErrUnsupported | KubeError> =>
      Effect.catchTag(
        Effect.map(find(api, Core.nodes, { name }), (node): CessationVerdict.NodeReading =>
          node === undefined ? { _tag: "Missing" } : { _tag: "Found", node }
        ),
        "KubeForbidden",
        (error) =>
          missingPermission(error, {
            operation: "ceased",
            reason: "Nodes may not be read, and nothing else tells whether processes still run",
            remedy: 'grant verb "get" on "nodes" with a ClusterRole and a ClusterRoleBinding'
          })
      )

    /** Whether the kubelet of a Node that is deleted or out of service still renews its Lease, by the server's clock. */
    const leaseOf = (name: string): Effect.Effect<CessationVerdict.Lease> =>
      Effect.zipWith(
        Effect.either(api.getWithTime(Coordination.leases, { namespace: nodeLeaseNamespace, name })),
        Clock.currentTimeMillis,
        (answer, now) =>
          Either.match(answer, {
            onLeft: ({ _tag }) => (_tag === "KubeNotFound" ? "absent" : "unreadable"),
            onRight: ({ object, serverTime }) => {
              const renewed = Evidence.millis(object.spec?.renewTime)
              if (renewed === undefined) return "absent"
              const until = renewed + (object.spec?.leaseDurationSeconds ?? defaultLeaseSeconds) * 1000
              return until > (serverTime ?? now) ? "valid" : "expired"
            }
          })
      )

    /** Reads every Node of the execution that is found. */
    const ask = (
      ref: TrainJobRef,
      found: Evidence.Evidence
    ): Effect.Effect<CessationVerdict.Facts, ErrUnsupported | KubeError | EvidenceStore.EvidenceStoreError> =>
      Effect.gen(function* () {
        const readings = yield* Effect.forEach(
          CessationVerdict.nodeNames(found, ref.uid),
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
        const doubtful = readings.filter(
          ([, reading]) => reading._tag === "Missing" || CessationVerdict.isOutOfService(reading.node)
        )
        const leases = yield* Effect.forEach(
          doubtful,
          ([name]) => Effect.map(leaseOf(name), (lease) => [name, lease] as const),
          { concurrency }
        )
        return {
          evidence,
          uid: ref.uid,
          nodes: new Map(readings),
          leases: new Map(leases),
          now,
          outOfService: config.outOfService
        }
      })

    return {
      ceased: Effect.fn("Cessation.ceased")(function* (ref: TrainJobRef) {
        let found = yield* gather(api, store, ref)
        // Who still waits for an answer must find the evidence, however long that takes
        yield* store.touch(ref)
        for (let round = 1; ; round++) {
          const asked = yield* ask(ref, found)
          const verdict = CessationVerdict.decide(asked)
          if (!verdict.ceased && !verdict.ended) return verdict
          // Pods may have been bound since they were listed: a yes has to hold after the Nodes were read, too, and of the
          // Nodes as they were read after the last pod came
          found = yield* gather(api, store, ref)
          const before = CessationVerdict.places(asked.evidence, ref.uid)
          const came = [...CessationVerdict.places(found, ref.uid)].filter(([uid, node]) => before.get(uid) !== node)
          if (came.length > 0 && round < rounds) continue
          const confirmed = CessationVerdict.decide({ ...asked, evidence: found })
          return came.length === 0
            ? confirmed
            : {
                ...confirmed,
                ceased: false,
                ended: false,
                reasons: [...confirmed.reasons, "Its pods were bound anew while it was asked about."]
              }
        }
      })
    }
  })
