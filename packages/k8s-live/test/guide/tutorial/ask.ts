import { Adapter, AdapterConfig, TrainJobRef } from "@dispatch-kubeflow/core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"

const job = TrainJobRef.submission("default", "run", 2) // the TrainJob default/run-2

const program = Effect.gen(function* () {
  const adapter = yield* Adapter.Adapter
  const { mode } = yield* adapter.preflight()
  const hold = (yield* adapter.capabilities()).find(({ capability }) => capability === "Hold")
  yield* Console.log(`${mode._tag}; Hold is ${hold?.support.answer}: ${hold?.support.reason}`)
  const lines = adapter.outputLines(job, { follow: true })
  yield* Stream.runForEach(Stream.take(lines, 3), (line) => Console.log(`rank 0: ${line}`))
  const { now } = yield* adapter.explain(job)
  const { ceased, reasons } = yield* adapter.ceased(job)
  yield* Console.log(`${now.state}; ${ceased ? "surely stopped" : `not surely stopped: ${reasons.join("; ")}`}`)
})

const backend = Layer.provide(Adapter.layer(AdapterConfig.make({ namespace: "default" })), KubeApiLive.layer())

NodeRuntime.runMain(Effect.provide(program, backend))
