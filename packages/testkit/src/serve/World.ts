/**
 * The cluster that `dispatch-kubeflow-testkit serve` serves, and what its control surface can do to it.
 *
 * @module
 */
import { Effect, type Layer, Ref } from "effect"
import type { Server } from "../ApiServer.js"
import * as Cluster from "../Cluster.js"
import * as Fixtures from "../Fixtures.js"
import type * as Kubelet from "../stages/Kubelet.js"
import * as Objects from "../stages/Objects.js"
import * as TestCluster from "../TestCluster.js"
import * as Control from "./Control.js"
import * as Signals from "./Signals.js"
import * as Users from "./Users.js"

const trainerNamespace = "kubeflow-system"
const publicName = "kubeflow-trainer-public"
const publicMetadata = { name: publicName, namespace: trainerNamespace }

// What Trainer's installation says of itself to every user: its Python SDK asks for it
// (https://github.com/kubeflow/trainer/blob/master/manifests/overlays/manager/kustomization.yaml)
const installation: ReadonlyArray<Fixtures.Body> = [
  Fixtures.namespace(trainerNamespace),
  {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: publicMetadata,
    data: { kubeflow_trainer_version: "v2.3.0" }
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: publicMetadata,
    rules: [{ apiGroups: [""], resources: ["configmaps"], resourceNames: [publicName], verbs: ["get"] }]
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: publicMetadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: publicName },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "Group", name: "system:authenticated" }]
  }
]

/**
 * A cluster with Trainer's public ConfigMap, the runtimes that Trainer ships, a conforming one (`torch-conforming`) and the
 * users' roles. A node that has not reported for `monitorGrace` milliseconds is found lost. With
 * `kueue`, Kueue runs too.
 */
export const layer = (
  monitorGrace: number,
  options: { readonly kueue?: boolean } = {}
): Layer.Layer<Cluster.Cluster | TestCluster.TestCluster> =>
  TestCluster.layer({
    kueue: options.kueue === true,
    objects: [...installation, ...Fixtures.shippedRuntimes, Fixtures.torchConforming(), ...Users.objects],
    programs: Signals.programOf,
    monitorGracePeriod: monitorGrace,
    heartbeat: Math.min(10_000, monitorGrace / 5)
  })

/** Machines `node-1` … `node-N`. */
export const addNodes = (count: number): Effect.Effect<void, never, TestCluster.TestCluster> =>
  Effect.flatMap(TestCluster.TestCluster, (cluster) =>
    Effect.forEach(
      Array.from({ length: count }, (_, index) => `node-${index + 1}`),
      (name) => cluster.createNode(name),
      {
        discard: true
      }
    )
  )

const label = ({ name, namespace }: Control.PodName): string => `${namespace}/${name}`

/** The control surface's actions on the cluster behind a server. */
export const actions = (
  server: Effect.Effect<Pick<Server, "dropConnections">>
): Effect.Effect<Control.Actions, never, Cluster.Cluster | TestCluster.TestCluster> =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const world = yield* TestCluster.TestCluster
    // A machine is still there when its Node object is deleted
    const machines = yield* Ref.make<ReadonlySet<string>>(new Set())

    const onMachine =
      (act: (name: string) => Effect.Effect<void>) =>
      (name: string): Effect.Effect<void, Control.ControlError> =>
        Effect.gen(function* () {
          const node = yield* world.get(Objects.nodes, { name })
          if (node === undefined && !(yield* Ref.get(machines)).has(name)) {
            return yield* new Control.ControlError({ message: `there is no machine "${name}"` })
          }
          yield* Ref.update(machines, (known) => new Set([...known, name]))
          yield* act(name)
        })

    const onProcess = (
      pod: Control.PodName,
      container: string | undefined,
      act: (ref: TestCluster.PodRef | Kubelet.Process) => Effect.Effect<void>
    ): Effect.Effect<void, Control.ControlError> =>
      Effect.gen(function* () {
        const running = (yield* world.processes).find(
          (process) =>
            process.namespace === pod.namespace &&
            process.pod === pod.name &&
            (container === undefined || process.container === container)
        )
        if (running === undefined) {
          const what = container === undefined ? "container" : `container "${container}"`
          return yield* new Control.ControlError({ message: `no ${what} of pod ${label(pod)} runs` })
        }
        // By its name a pod is that of the machine that has the Node's name now
        yield* act(running.replaced ? running : { ...pod, ...(container === undefined ? {} : { container }) })
      })

    return {
      processes: world.processes,
      addNode: ({ name, ...machine }) => world.createNode(name, machine),
      loseNode: onMachine(world.loseNode),
      returnNode: onMachine(world.returnNode),
      powerOff: onMachine((name) => world.powerOff(name)),
      powerOn: onMachine(world.powerOn),
      replaceMachine: onMachine(world.replaceMachine),
      deleteNode: (name) =>
        Effect.flatMap(world.get(Objects.nodes, { name }), (node) =>
          node === undefined
            ? Effect.fail(new Control.ControlError({ message: `there is no Node "${name}"` }))
            : onMachine(world.deleteNode)(name)
        ),
      exit: (pod, { container, ...ending }) => onProcess(pod, container, (ref) => world.exit(ref, ending)),
      log: (pod, { container, lines }) =>
        onProcess(pod, container, (ref) => world.writeLog(ref, lines.map((line) => `${line}\n`).join(""))),
      program: (pod, program) =>
        Effect.flatMap(world.get(Objects.pods, pod), (found) =>
          found === undefined
            ? Effect.fail(new Control.ControlError({ message: `there is no pod ${label(pod)}` }))
            : world.program(found, program)
        ),
      cut: Effect.zipRight(
        cluster.disconnect(),
        Effect.flatMap(server, ({ dropConnections }) => dropConnections)
      ),
      compact: cluster.compact()
    }
  })
