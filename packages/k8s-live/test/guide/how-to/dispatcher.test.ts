import { Adapter, AdapterConfig, KubeApi, TrainJobRef } from "@dispatch-kubeflow/core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { expect, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"

const submit = (n: number) =>
  Effect.flatMap(KubeApi.KubeApi, (api) =>
    api.create(Trainer.trainJobs, { namespace: "default" }, Fixtures.trainJob(`run-${n}`))
  )

// The dispatcher under test: submission n + 1 when n was lost with its machine, and has surely stopped
const dispatch = (n: number) =>
  Effect.gen(function* () {
    const adapter = yield* Adapter.Adapter
    const job = TrainJobRef.submission("default", "run", n)
    const { now } = yield* adapter.explain(job)
    if (now.cause?._tag !== "NodeLost") return n
    const { ceased, ended } = yield* adapter.ceased(job)
    if (!ceased && !ended) return n
    yield* submit(n + 1)
    return n + 1
  })

const cluster = TestCluster.layer({ objects: [Fixtures.torchConforming()] })
const world = Layer.provideMerge(Adapter.layer(AdapterConfig.make({ namespace: "default" })), cluster)

it.scoped("a machine that is cut off: no second copy beside the first; one when somebody vouches for it", () =>
  Effect.gen(function* () {
    const machines = yield* TestCluster.TestCluster
    yield* machines.createNode("node-1")
    yield* machines.createNode("node-2")
    yield* submit(1)
    yield* machines.settle
    const [process] = yield* machines.processes
    const node = process?.node ?? ""

    yield* machines.loseNode(node)
    yield* TestClock.adjust("10 minutes") // long enough for the pod to be evicted
    expect(yield* dispatch(1)).toBe(1)
    expect(yield* machines.processes).toHaveLength(1) // it runs on, whatever the objects say

    yield* machines.powerOff(node)
    yield* machines.taintOutOfService(node)
    expect(yield* dispatch(1)).toBe(2)
    yield* machines.settle
    expect(yield* machines.processes).toMatchObject([{ node: node === "node-1" ? "node-2" : "node-1" }])
  }).pipe(Effect.provide(world))
)
