// The live layer against a served cluster, whose kubeconfig is the argument
import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Effect } from "effect"

const [path = ""] = process.argv.slice(2)

const program: Effect.Effect<object, KubeError | KubeConfig.KubeConfigError> = Effect.gen(function* () {
  const api = yield* KubeApi
  const nodes = yield* api.list(Core.nodes, {})
  return { server: yield* api.serverVersion, nodes: nodes.items.length }
}).pipe(Effect.provide(KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [path] }) })))

console.log(JSON.stringify(await Effect.runPromise(program)))
