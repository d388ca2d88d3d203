import { Adapter, AdapterConfig, TrainJobRef } from "@dispatch-kubeflow/core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"

const job = TrainJobRef.submission("default", "demo", 1) // the TrainJob default/demo-1

const program = Effect.gen(function* () {
  const adapter = yield* Adapter.Adapter
  for (const { capability, support } of yield* adapter.capabilities()) {
    yield* Console.log(`${capability}: ${support.answer} (${support.source}) ${support.reason ?? ""}`)
  }
  yield* Stream.runForEach(adapter.outputLines(job), (line) => Console.log(`rank 0: ${line}`))
  const { ceased, reasons } = yield* adapter.ceased(job)
  yield* Console.log(ceased ? "surely stopped" : `not surely stopped: ${reasons.join("; ")}`)
})

// The cluster that kubectl would talk to; any other with KubeApiLive.layer({ source, context })
const backend = Layer.provide(Adapter.layer(AdapterConfig.make({ namespace: "default" })), KubeApiLive.layer())

NodeRuntime.runMain(Effect.provide(program, backend))
