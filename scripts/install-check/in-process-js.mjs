// The same without TypeScript
import { Adapter, AdapterConfig } from "@dispatch-kubeflow/core"
import { TestCluster } from "@dispatch-kubeflow/testkit"
import { Effect, Layer } from "effect"

const backend = Layer.provide(Adapter.layer(AdapterConfig.make({ namespace: "default" })), TestCluster.layer())
const answers = await Adapter.Adapter.pipe(
  Effect.flatMap((adapter) => adapter.capabilities()),
  Effect.provide(backend),
  Effect.runPromise
)
console.log(JSON.stringify({ answers: answers.length }))
