import { Adapter, AdapterConfig, TrainJobRef } from "@dispatch-kubeflow/core"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { expect, it } from "@effect/vitest"
import { Effect, FastCheck, Layer, TestClock } from "effect"

// It fails after 20 seconds of its time, if nothing else ends it before
const world = TestCluster.layer({
  objects: [Fixtures.torchConforming()],
  programs: () => ({ runs: [{ after: 20_000, code: 1 }], onTerm: "ignore" })
})
const backend = Layer.provideMerge(Adapter.layer(AdapterConfig.make({ namespace: "default" })), world)
const job = TrainJobRef.submission("default", "run", 1)

const happenings = FastCheck.array(FastCheck.constantFrom("lose", "return", "power off", "power on", "wait"), {
  maxLength: 12
})

const happen = (cluster: TestCluster.Service, what: string) => {
  switch (what) {
    case "lose":
      return cluster.loseNode("node-1")
    case "return":
      return cluster.returnNode("node-1")
    case "power off":
      return cluster.powerOff("node-1")
    case "power on":
      return cluster.powerOn("node-1")
    default:
      return TestClock.adjust("7 seconds")
  }
}

const neverEarly = (story: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    const adapter = yield* Adapter.Adapter
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.trainJob("run-1"), "default")
    for (const what of story) {
      yield* happen(cluster, what)
      yield* cluster.settle
      const { ceased, ended } = yield* adapter.ceased(job)
      if (ceased || ended) expect(yield* cluster.processes).toEqual([])
    }
  }).pipe(Effect.provide(backend))

it.effect(
  "nothing that happens to its machine makes a run that lives count as over",
  () => Properties.assert(happenings, neverEarly, 20),
  60_000
)
