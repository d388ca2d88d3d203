import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { expect, it } from "@effect/vitest"
import { Effect, TestClock } from "effect"

// The program under test: it knows the KubeApi, and nothing of the cluster behind it
const verdict = (name: string) =>
  Effect.gen(function* () {
    const api = yield* KubeApi
    const job = yield* api.get(Trainer.trainJobs, { namespace: "default", name })
    const conditions = job.status?.conditions
    return Meta.trueCondition(conditions, "Failed") ?? Meta.trueCondition(conditions, "Complete")
  })

const submitted = Effect.gen(function* () {
  const cluster = yield* TestCluster.TestCluster
  yield* cluster.createNode("node-1")
  yield* cluster.create(Fixtures.trainJob("run-1", { numNodes: 1 }), "default")
  const [pod] = yield* cluster.pods("default")
  return { cluster, pod: { namespace: "default", name: pod?.metadata.name ?? "" } }
})

const world = TestCluster.layer({ objects: [Fixtures.torchConforming()] })

it.scoped("a program that ends with 1 fails its TrainJob", () =>
  Effect.gen(function* () {
    const { cluster, pod } = yield* submitted
    expect(yield* verdict("run-1")).toBeUndefined()
    yield* cluster.exit(pod, { code: 1 })
    yield* TestClock.adjust("2 seconds") // Jobs count their pods once a second
    expect(yield* verdict("run-1")).toMatchObject({ type: "Failed" })
  }).pipe(Effect.provide(world))
)

it.scoped("a lost node: after a minute it is known, and the process runs on all the same", () =>
  Effect.gen(function* () {
    const { cluster } = yield* submitted
    const api = yield* KubeApi
    yield* cluster.loseNode("node-1")
    yield* TestClock.adjust("61 seconds")
    const node = yield* api.get(Core.nodes, { name: "node-1" })
    expect(Meta.condition(node.status?.conditions, "Ready")?.status).toBe("Unknown")
    expect(yield* verdict("run-1")).toBeUndefined()
    expect(yield* cluster.processes).toHaveLength(1)
  }).pipe(Effect.provide(world))
)
