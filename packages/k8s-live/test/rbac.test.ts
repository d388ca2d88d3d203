import * as Access from "@dispatch-kubeflow/core/Access"
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Option, Stream, TestClock } from "effect"
import * as Manifests from "./manifests.js"

const namespace = "team-a"

const kueue: AdapterConfig.KueueConfig = {
  localQueue: "team-queue",
  admissionCheck: "gate",
  controllerName: "acme.io/gate",
  lease: { namespace: "gate-system", name: "gate" }
}

const configs: { readonly [M in Manifests.Mode]: AdapterConfig.AdapterConfig } = {
  "read-only": AdapterConfig.make({ namespace, access: "read-only" }),
  plain: AdapterConfig.make({ namespace }),
  kueue: AdapterConfig.make({ namespace, kueue })
}

const active = { conditions: [{ type: "Active", status: "True", reason: "Ready", message: "" }] }
const kueueApi = "kueue.x-k8s.io/v1beta2"

const queueObjects: ReadonlyArray<object> = [
  {
    apiVersion: kueueApi,
    kind: "LocalQueue",
    metadata: { name: "team-queue", namespace },
    spec: { clusterQueue: "pool" },
    status: active
  },
  {
    apiVersion: kueueApi,
    kind: "ClusterQueue",
    metadata: { name: "pool" },
    // by a label that only the Namespace object tells
    spec: {
      namespaceSelector: { matchLabels: { team: "a" } },
      admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] }
    },
    status: active
  },
  {
    apiVersion: kueueApi,
    kind: "AdmissionCheck",
    metadata: { name: "gate" },
    spec: { controllerName: kueue.controllerName },
    status: active
  },
  {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "gate", namespace: "gate-system" },
    spec: { holderIdentity: "gate-0", leaseDurationSeconds: 360_000, renewTime: "1970-01-01T00:00:00.000000Z" }
  }
]

/** Lets the virtual clock run until an effect is done. */
const drive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    for (let turn = 0; turn < 400; turn += 1) {
      const exit = yield* Fiber.poll(fiber)
      if (Option.isSome(exit)) return yield* exit.value
      yield* TestClock.adjust("200 millis")
    }
    return yield* Effect.dieMessage("not done after 400 steps of the clock")
  })

const said = <A, E extends { readonly message: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onSuccess: () => "done", onFailure: (error) => error.message })

/** Everything the programs answer to a service account: checks, capabilities, and what each program says. */
const survey = (config: AdapterConfig.AdapterConfig, api: KubeApi.Service) =>
  Effect.gen(function* () {
    const adapter = yield* Adapter.make(config).pipe(
      Effect.provideService(KubeApi.KubeApi, api),
      Effect.provide(EvidenceStore.layerMemory())
    )
    const report = yield* drive(adapter.preflight())
    const answers = yield* adapter.capabilities()
    const ref = { namespace, name: "run-1", uid: undefined }
    const ofRuntime = (kind: string) => said(adapter.capabilities({ runtimeRef: { kind, name: "torch-conforming" } }))
    const follow = adapter.outputEvents(ref, { stream: "Stdout", follow: true })
    const all = [
      api.list(Trainer.clusterTrainingRuntimes, {}),
      api.list(Trainer.trainingRuntimes, { namespace })
    ] as const
    const found: Record<string, string> = {
      output: yield* drive(said(Stream.runDrain(adapter.outputEvents(ref, { stream: "Stdout" })))),
      "output --follow": yield* drive(said(Stream.runHead(follow))),
      watch: yield* drive(said(Stream.runHead(adapter.watch(Watch.ref(ref))))),
      ceased: yield* drive(said(adapter.ceased(ref))),
      "capabilities --runtime": yield* ofRuntime("ClusterTrainingRuntime"),
      "capabilities --runtime TrainingRuntime/…": yield* ofRuntime("TrainingRuntime"),
      "runtime check --all": yield* drive(said(Effect.all(all)))
    }
    for (const { capability, support } of answers) {
      found[capability] =
        `${support.answer}, ${support.source}${support.answer === "yes" ? "" : `: ${support.reason ?? ""}`}`
    }
    for (const check of report.checks) {
      if (check.id.startsWith("access: ")) {
        found[check.id] = check.outcome === "passed" ? "passed" : `${check.outcome}: ${check.found}`
      }
    }
    return found
  })

const world = (mode: Manifests.Mode) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    const door = yield* Cluster
    yield* cluster.create(Fixtures.namespace(namespace, { team: "a" }))
    yield* cluster.create(Fixtures.namespace("gate-system"))
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.torchConforming())
    yield* cluster.create(Fixtures.namespacedRuntime(Fixtures.torchConforming(), namespace))
    yield* door.seed(queueObjects)
    yield* cluster.create(Fixtures.trainJob("run-1"), namespace)
    yield* cluster.settle
    yield* TestClock.adjust("5 seconds")
    const [pod] = yield* cluster.pods(namespace)
    if (pod === undefined) return yield* Effect.dieMessage("run-1 has no pod")
    yield* cluster.writeLog(pod, "step 1\n")
    const manifests = Manifests.load(mode)
    yield* door.seed(manifests)
    const asDispatcher = door.as(Rbac.serviceAccount(namespace, "dispatcher"))
    return {
      manifests,
      asAdmin: survey(configs[mode], door.admin),
      asDispatcher: survey(configs[mode], asDispatcher),
      /** The survey while one role lacks something. */
      whileLacking: (lesser: Manifests.Manifest, whole: Manifests.Manifest) =>
        Effect.acquireUseRelease(
          door.seed([lesser]),
          () => survey(configs[mode], asDispatcher),
          () => door.seed([whole])
        )
    }
  })

for (const mode of ["read-only", "plain", "kueue"] as const) {
  describe(`deploy/rbac/${mode}.yaml in memory`, () => {
    it.scoped("is sufficient: every answer is that of an administrator", () =>
      Effect.gen(function* () {
        const { asAdmin, asDispatcher } = yield* world(mode)
        expect(yield* asDispatcher).toEqual(yield* asAdmin)
      }).pipe(Effect.provide(TestCluster.layer()))
    )

    it.scoped("is least: without any one permission a named answer changes, and names the verb", () =>
      Effect.gen(function* () {
        const { asDispatcher, manifests, whileLacking } = yield* world(mode)
        const whole = yield* asDispatcher
        for (const grant of Manifests.grants(manifests)) {
          const role = manifests[grant.role]
          if (role === undefined) continue
          const lesser = yield* whileLacking(Manifests.without(manifests, grant), role)
          const changed = Object.entries(lesser).filter(([name, text]) => whole[name] !== text)
          console.log(mode, JSON.stringify(grant.id), JSON.stringify(changed.map(([name]) => name)))
        }
        expect(yield* asDispatcher).toEqual(whole)
      }).pipe(Effect.provide(TestCluster.layer()))
    )
  })
}
void Access
