// The adapter over the in-memory cluster, in one process
import { Adapter, AdapterConfig, type Support, TrainJobRef } from "@dispatch-kubeflow/core"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Effect, Layer } from "effect"

const cluster = TestCluster.layer({ objects: [Fixtures.torchConforming()] })
const backend = Layer.provideMerge(Adapter.layer(AdapterConfig.make({ namespace: "default" })), cluster)

const program = Effect.gen(function* () {
  const world = yield* TestCluster.TestCluster
  yield* world.createNode("node-1")
  yield* world.create(Fixtures.trainJob("run-1", { numNodes: 1 }), "default")
  yield* world.settle
  const adapter = yield* Adapter.Adapter
  const answers: ReadonlyArray<Support.Support> = (yield* adapter.capabilities()).map(({ support }) => support)
  const job = TrainJobRef.submission("default", "run", 1)
  const before: CessationVerdict.Verdict = yield* adapter.ceased(job)
  yield* world.deleteNode("node-1")
  const after: CessationVerdict.Verdict = yield* adapter.ceased(job)
  return { answers: answers.length, before: before.ceased, after: after.ceased }
})

console.log(JSON.stringify(await Effect.runPromise(Effect.provide(program, backend))))
