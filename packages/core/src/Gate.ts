/**
 * Kueue mode: reads what the proof of the gate needs, and judges it.
 *
 * @module
 */
import { Clock, Effect } from "effect"
import type { KueueConfig } from "./AdapterConfig.js"
import * as GateProof from "./decide/GateProof.js"
import { patiently } from "./internal/Patience.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import * as Resource from "./kube/Resource.js"
import { leases } from "./model/Coordination.js"
import { namespaces } from "./model/Core.js"
import { admissionChecks, clusterQueues, localQueues } from "./model/Kueue.js"

const readOf = <A>(request: Effect.Effect<A, KubeError>): Effect.Effect<GateProof.Read<A>> =>
  Effect.match(patiently(request), {
    onSuccess: (object): GateProof.Read<A> => ({ _tag: "Read", object }),
    onFailure: (error): GateProof.Read<A> =>
      error._tag === "KubeNotFound"
        ? { _tag: "Missing", message: error.subject === "object" ? "does not exist" : error.message }
        : { _tag: "Unreadable", message: error.message }
  })

const skippedRead = { _tag: "Skipped" } as const

/**
 * Reads the LocalQueue, its ClusterQueue, the checks, the Lease and (where the ClusterQueue selects by other labels than
 * the name) the Namespace, and judges them. Never fails: what cannot be read is an unknown step. Seven requests with one
 * admission check, none of them a write.
 */
export const prove = Effect.fn("Gate.prove")(function* (
  config: { readonly namespace: string; readonly kueue: KueueConfig },
  served: GateProof.Served
) {
  const api = yield* KubeApi.KubeApi
  const { kueue, namespace } = config
  const version = served._tag === "Served" ? served.version : "v1beta2"
  const readQueues = Effect.gen(function* () {
    const localQueue = yield* readOf(
      api.get(Resource.withVersion(localQueues, version), { namespace, name: kueue.localQueue })
    )
    const name = localQueue._tag === "Read" ? localQueue.object.spec?.clusterQueue : undefined
    if (name === undefined || name === null) {
      return { localQueue, clusterQueue: skippedRead, others: {}, namespaceObject: skippedRead }
    }
    const clusterQueue = yield* readOf(api.get(Resource.withVersion(clusterQueues, version), { name }))
    if (clusterQueue._tag !== "Read") {
      return { localQueue, clusterQueue, others: {}, namespaceObject: skippedRead }
    }
    const names = GateProof.listedChecks(clusterQueue.object)
      .map((it) => it.name)
      .filter((it) => it !== kueue.admissionCheck)
    const others = yield* Effect.forEach(
      new Set(names),
      (check) => Effect.map(readCheck(check), (read) => [check, read] as const),
      { concurrency: 4 }
    )
    const selector = clusterQueue.object.spec?.namespaceSelector
    const byName = GateProof.selects(selector, (key) =>
      key === "kubernetes.io/metadata.name" ? { known: true, value: namespace } : { known: false, value: undefined }
    )
    const namespaceObject = byName === undefined ? yield* readOf(api.get(namespaces, { name: namespace })) : skippedRead
    return { localQueue, clusterQueue, others: Object.fromEntries(others), namespaceObject }
  })
  const readCheck = (name: string) => readOf(api.get(Resource.withVersion(admissionChecks, version), { name }))
  const [queues, check, leaseRead] = yield* Effect.all(
    [readQueues, readCheck(kueue.admissionCheck), readOf(api.getWithTime(leases, kueue.lease))],
    { concurrency: 3 }
  )
  const ours = yield* Clock.currentTimeMillis
  const serverTime = leaseRead._tag === "Read" ? leaseRead.object.serverTime : undefined
  const steps = GateProof.steps({
    kueue,
    namespace,
    served,
    localQueue: queues.localQueue,
    clusterQueue: queues.clusterQueue,
    namespaceObject: queues.namespaceObject,
    checks: { ...queues.others, [kueue.admissionCheck]: check },
    lease: leaseRead._tag === "Read" ? { _tag: "Read", object: leaseRead.object.object } : leaseRead,
    now: serverTime === undefined ? { millis: ours, of: "client" } : { millis: serverTime, of: "server" }
  })
  return { steps, gate: GateProof.verdict(steps) }
})
