/**
 * Kueue mode: queues with an admission check, whose controller this program plays.
 *
 * @module
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import { Clock, DateTime, Effect } from "effect"
import { Claims } from "./Claims.js"
import * as Programme from "./Programme.js"
import * as Table from "./Table.js"

const group = ["kueue.x-k8s.io", "v1beta2"] as const
const flavors = Programme.untyped(...group, "resourceflavors", "ResourceFlavor", "Cluster")
const priorities = Programme.untyped(...group, "workloadpriorityclasses", "WorkloadPriorityClass", "Cluster")

const stamp = Effect.map(Clock.currentTimeMillis, (now) => DateTime.formatIso(DateTime.unsafeMake(now)))

/** Plays the scene in a namespace of its own. */
export const scene = Effect.fn("e2e.kueue")(function* (api: KubeApi.Service) {
  const { claim } = yield* Claims
  const stage = yield* Programme.stage(api, "kueue", 2, undefined)
  const { namespace } = stage
  const controllerName = "e2e.dispatch-kubeflow.dev/gate"
  const kueue: AdapterConfig.KueueConfig = {
    localQueue: "train",
    admissionCheck: namespace,
    controllerName,
    lease: { namespace, name: "gate" }
  }
  const clusterWide = (resource: typeof flavors, body: object) =>
    Effect.acquireRelease(api.create(resource, {}, body), ({ metadata: { name } }) =>
      Effect.ignore(api.remove(resource, { name }, { propagation: "Background" }))
    )
  const metadata = { name: namespace }
  yield* clusterWide(flavors, { metadata })
  yield* clusterWide(priorities, { metadata: { name: `${namespace}-low` }, value: 10, description: "" })
  yield* clusterWide(priorities, { metadata: { name: `${namespace}-high` }, value: 100, description: "" })
  yield* Effect.acquireRelease(api.create(Kueue.admissionChecks, {}, { metadata, spec: { controllerName } }), () =>
    Effect.ignore(api.remove(Kueue.admissionChecks, metadata, { propagation: "Background" }))
  )
  yield* api.patch(Kueue.admissionChecks, metadata, {
    type: "merge",
    subresource: "status",
    body: {
      status: {
        conditions: [{ type: "Active", status: "True", reason: "Ready", message: "", lastTransitionTime: yield* stamp }]
      }
    }
  })
  yield* Effect.acquireRelease(
    api.create(
      Kueue.clusterQueues,
      {},
      {
        metadata,
        spec: {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
          preemption: { withinClusterQueue: "LowerPriority" },
          resourceGroups: [
            {
              coveredResources: ["cpu"],
              flavors: [{ name: namespace, resources: [{ name: "cpu", nominalQuota: "1" }] }]
            }
          ],
          admissionChecksStrategy: { admissionChecks: [{ name: namespace }] }
        }
      }
    ),
    () => Effect.ignore(api.remove(Kueue.clusterQueues, metadata, { propagation: "Background" }))
  )
  yield* api.create(
    Kueue.localQueues,
    { namespace },
    { metadata: { name: kueue.localQueue }, spec: { clusterQueue: namespace } }
  )
  const lease = (renewTime: string, seconds: number) => ({
    spec: { holderIdentity: "e2e", leaseDurationSeconds: seconds, renewTime: renewTime.replace("Z", "000Z") }
  })
  yield* api.create(
    Coordination.leases,
    { namespace },
    { metadata: { name: kueue.lease.name }, ...lease(yield* stamp, 3600) }
  )
  yield* Programme.eventually(
    api.get(Kueue.localQueues, { namespace, name: kueue.localQueue }),
    (queue) => Meta.trueCondition(queue.status?.conditions, "Active") !== undefined
  )

  const config = AdapterConfig.make({ namespace, kueue })
  const watching = yield* Programme.backend(api, config)
  const { adapter, told } = watching
  yield* Table.preflight("Kueue gate", adapter)
  yield* Table.claims("Kueue", adapter, Table.kueue)

  const workload = (trainJob: string) =>
    Programme.eventually(
      Effect.map(api.list(Kueue.workloads, { namespace }), ({ items }) =>
        items.find(({ metadata: { name } }) => name.startsWith(`trainjob-${trainJob}-`))
      ),
      (found) => (found?.status?.admissionChecks ?? []).length > 0
    )
  /** The check's controller lets a TrainJob in, under an admission count. */
  const admit = (trainJob: string, count: number) =>
    Effect.gen(function* () {
      const found = yield* workload(trainJob)
      yield* api.patch(
        Kueue.workloads,
        { namespace, name: found?.metadata.name ?? "" },
        {
          type: "merge",
          subresource: "status",
          body: {
            status: {
              admissionChecks: [
                {
                  name: namespace,
                  state: "Ready",
                  message: "",
                  lastTransitionTime: yield* stamp,
                  podSetUpdates: [{ name: "node", annotations: { [AdapterConfig.admissionAnnotation]: String(count) } }]
                }
              ]
            }
          }
        }
      )
    })
  const queued = (priority: string) => ({
    "kueue.x-k8s.io/queue-name": kueue.localQueue,
    "kueue.x-k8s.io/priority-class": `${namespace}-${priority}`
  })

  const low = yield* Programme.submit(stage, "low", 1, { labels: queued("low") })
  yield* workload(low.name)
  yield* claim(
    "Kueue watch",
    "before the check lets it in, no pod",
    "0",
    Effect.map(Programme.pods(stage, low.name), (all) => String(all.length))
  )
  yield* admit(low.name, 1)
  yield* claim(
    "Kueue watch",
    "let in",
    "Running, execution 1",
    Programme.becomes(watching, low.name, (it) => it.state === "Running")
  )
  const high = yield* Programme.submit(stage, "high", 1, { labels: queued("high") })
  yield* claim(
    "Kueue watch",
    "one of a higher priority comes",
    "Preempted by kueue",
    Effect.map(
      Programme.eventually(
        told(low.name, ({ cause }) => cause?._tag === "Preempted" && cause.by === "kueue"),
        (seen) => seen
      ),
      (it) => (it ? "Preempted by kueue" : "no such update")
    )
  )
  yield* admit(high.name, 1)
  const [preemptor] = yield* Programme.running(stage, high.name, 1)
  if (preemptor !== undefined) {
    const machine = yield* Programme.machineOf(stage, preemptor)
    yield* machine.end(preemptor, { exitCode: 0, reason: "Completed" })
  }
  yield* claim(
    "Kueue watch",
    "which succeeds",
    "Succeeded, execution 1",
    Programme.becomes(watching, high.name, (it) => it.outcome !== undefined)
  )
  yield* admit(low.name, 2)
  yield* claim(
    "Kueue watch",
    "and the first is let in again, under the next count",
    "Running, execution 2",
    Programme.becomes(watching, low.name, (it) => it.state === "Running" && it.execution === 2)
  )

  yield* api.patch(
    Coordination.leases,
    { namespace, name: kueue.lease.name },
    { type: "merge", body: lease("2020-01-01T00:00:00.000Z", 15) }
  )
  const closed = yield* adapter.preflight()
  yield* claim("Kueue gate", "with its controller's Lease run out", "ObserveOnly", Effect.succeed(closed.mode._tag))
  yield* Table.claims("Lease run out", adapter, { ReadmissionGate: "no probed", AttemptInjection: "no probed" })
})

/** Whether Kueue is served in a version that the scene can write. */
export const isServed = (api: KubeApi.Service) =>
  Effect.map(api.groupVersions, (served) => served.some((it) => it.group === group[0] && it.version === group[1]))
