/**
 * A machine that this program plays on a real control plane: a Node object with a Lease that is renewed, and a kubelet that
 * reports pods as running or ended. No container runs. It takes no pods but those that tolerate it.
 *
 * @module
 */
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import { Clock, DateTime, Effect, Fiber, Ref, Schedule, type Scope } from "effect"

/** Label and taint by which pods find the machines of one programme, and nothing else does. */
export const machineLabel = "e2e.dispatch-kubeflow.dev/of"

/** The fields of a pod by which it runs on machines. */
export interface Placement {
  readonly [field: string]: unknown
  readonly tolerations: ReadonlyArray<object>
}

/** What pods need to run on them. */
export const placement = (programme: string): Placement => ({
  nodeSelector: { [machineLabel]: programme },
  tolerations: [{ key: machineLabel, operator: "Equal", value: programme, effect: "NoSchedule" }]
})

/** How a container ends. */
export interface Ending {
  readonly exitCode: number
  readonly reason: string
}

/** See the module. */
export interface Machine {
  readonly name: string
  /** No heartbeat and no report any more, as when the network is cut. */
  readonly cutOff: Effect.Effect<void>
  /** The container of a pod ends. */
  readonly end: (pod: Core.Pod, ending: Ending) => Effect.Effect<void, KubeError>
}

const stamp = (millis: number, micro = false): string => {
  const text = DateTime.formatIso(DateTime.unsafeMake(millis))
  return micro ? text.replace("Z", "000Z") : text.replace(/\.\d+Z$/, "Z")
}

/** How other Nodes are reached, so that their log endpoint serves this one's pods too. */
export interface Endpoint {
  readonly addresses: unknown
  readonly daemonEndpoints: unknown
}

const containerStatuses = (pod: Core.Pod, state: object, running: boolean): ReadonlyArray<object> =>
  (pod.spec?.containers ?? []).map((container) => ({
    name: container.name,
    image: container.image ?? "",
    imageID: "",
    ready: running,
    started: running,
    restartCount: 0,
    containerID: `containerd://${pod.metadata.uid}`,
    state
  }))

const conditions = (ready: boolean, at: string): ReadonlyArray<object> =>
  [
    { type: "PodScheduled", status: "True" },
    { type: "Initialized", status: "True" },
    { type: "ContainersReady", status: ready ? "True" : "False" },
    { type: "Ready", status: ready ? "True" : "False" }
  ].map((condition) => ({ ...condition, lastTransitionTime: at }))

const nodeReady = (at: string): object => ({
  type: "Ready",
  status: "True",
  reason: "KubeletReady",
  message: "kubelet is posting ready status",
  lastHeartbeatTime: at,
  lastTransitionTime: at
})

const heartbeat = "2 seconds"
const reportEvery = "200 millis"

/** Puts a machine into the cluster. Its Node object goes with the scope, if it is still there. */
export const make = Effect.fn("e2e.Machine.make")(function* (
  api: KubeApi.Service,
  programme: string,
  name: string,
  endpoint: Endpoint | undefined
): Effect.fn.Return<Machine, KubeError, Scope.Scope> {
  const status = (pod: Core.Pod, body: object): Effect.Effect<void, KubeError> =>
    Effect.asVoid(
      api.patch(
        Core.pods,
        { namespace: pod.metadata.namespace ?? "", name: pod.metadata.name },
        { type: "strategic", body: { status: body }, subresource: "status" }
      )
    )
  const now = Effect.map(Clock.currentTimeMillis, (millis) => stamp(millis))
  const ended = yield* Ref.make<ReadonlySet<string>>(new Set())

  const run = (pod: Core.Pod): Effect.Effect<void, KubeError> =>
    Effect.flatMap(now, (at) =>
      status(pod, {
        phase: "Running",
        startTime: at,
        conditions: conditions(true, at),
        containerStatuses: containerStatuses(pod, { running: { startedAt: at } }, true)
      })
    )
  const end: Machine["end"] = (pod, { exitCode, reason }) =>
    Effect.gen(function* () {
      const at = yield* now
      yield* Ref.update(ended, (uids) => new Set([...uids, pod.metadata.uid]))
      yield* status(pod, {
        phase: exitCode === 0 ? "Succeeded" : "Failed",
        conditions: conditions(false, at),
        containerStatuses: containerStatuses(
          pod,
          {
            running: null,
            terminated: {
              exitCode,
              reason,
              startedAt: pod.status?.startTime ?? at,
              finishedAt: at,
              containerID: `containerd://${pod.metadata.uid}`
            }
          },
          false
        )
      })
    })

  const report = Effect.gen(function* () {
    const { items } = yield* api.list(Core.pods, {
      allNamespaces: true,
      fields: Selector.fields({ "spec.nodeName": name })
    })
    const over = yield* Ref.get(ended)
    for (const pod of items) {
      const going = typeof pod.metadata.deletionTimestamp === "string"
      const phase = pod.status?.phase ?? "Pending"
      if (phase === "Pending" && !going) yield* run(pod)
      if (!going) continue
      if (phase === "Running" && !over.has(pod.metadata.uid)) yield* end(pod, { exitCode: 143, reason: "Error" })
      yield* api.remove(
        Core.pods,
        { namespace: pod.metadata.namespace ?? "", name: pod.metadata.name },
        { propagation: "Background", uid: pod.metadata.uid, gracePeriodSeconds: 0 }
      )
    }
  })

  const where = { namespace: "kube-node-lease", name }
  const created = yield* Effect.acquireRelease(
    api.create(
      Core.nodes,
      {},
      {
        metadata: { name, labels: { [machineLabel]: programme, "kubernetes.io/hostname": name } },
        spec: { taints: [{ key: machineLabel, value: programme, effect: "NoSchedule" }] }
      }
    ),
    () => Effect.ignore(api.remove(Core.nodes, { name }, { propagation: "Background" }))
  )
  const at = yield* Clock.currentTimeMillis
  const resources = { cpu: "8", memory: "16Gi", pods: "110" }
  yield* api.patch(
    Core.nodes,
    { name },
    {
      type: "merge",
      subresource: "status",
      body: {
        status: {
          capacity: resources,
          allocatable: resources,
          conditions: [nodeReady(stamp(at))],
          nodeInfo: {
            bootID: `boot-${created.metadata.uid}`,
            machineID: name,
            systemUUID: name,
            kernelVersion: "",
            osImage: "",
            containerRuntimeVersion: "",
            kubeletVersion: "v1.37.0",
            kubeProxyVersion: "",
            operatingSystem: "linux",
            architecture: "amd64"
          },
          ...endpoint
        }
      }
    }
  )
  yield* Effect.acquireRelease(
    api.create(
      Coordination.leases,
      { namespace: where.namespace },
      {
        metadata: {
          name,
          ownerReferences: [{ apiVersion: "v1", kind: "Node", name, uid: created.metadata.uid }]
        },
        spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: stamp(at, true) }
      }
    ),
    () => Effect.ignore(api.remove(Coordination.leases, where, { propagation: "Background" }))
  )
  const beat = Effect.flatMap(Clock.currentTimeMillis, (millis) =>
    api.patch(Coordination.leases, where, { type: "merge", body: { spec: { renewTime: stamp(millis, true) } } })
  )
  // A pod or a Node that went between two requests is nothing to stop for
  const forever = (step: Effect.Effect<unknown, KubeError>, pause: typeof heartbeat | typeof reportEvery) =>
    Effect.repeat(Effect.ignore(step), Schedule.spaced(pause))
  const life = yield* Effect.forkScoped(
    Effect.all([forever(beat, heartbeat), forever(report, reportEvery)], { concurrency: 2, discard: true })
  )
  return { name, end, cutOff: Effect.asVoid(Fiber.interrupt(life)) }
})
