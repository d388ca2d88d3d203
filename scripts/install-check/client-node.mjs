// The live layer with a configuration that client-node has loaded, against a served cluster, whose kubeconfig is the argument
import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode } from "@kubernetes/client-node"
import { Effect } from "effect"

const config = new ClientNode()
config.loadFromFile(process.argv[2])
const nodes = Effect.flatMap(KubeApi, (api) => api.list(Core.nodes, {})).pipe(
  Effect.provide(KubeApiLive.layer({ source: KubeConfig.Source.ClientNode({ config }) }))
)
console.log((await Effect.runPromise(nodes)).items.length)
