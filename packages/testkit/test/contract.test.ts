import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import { contract, ContractWorld, prepareCluster } from "@dispatch-kubeflow/testkit/Contract"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { Effect, Layer } from "effect"

const memory = Layer.effect(
  ContractWorld,
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const prepared = yield* prepareCluster(cluster, "contract")
    return {
      ...prepared,
      api: cluster.admin,
      as: (account: string) => Effect.succeed(cluster.as(Rbac.serviceAccount(prepared.namespace, account))),
      stranger: cluster.as(Rbac.unauthenticated)
    }
  })
).pipe(Layer.provide(Cluster.layer()))

contract("memory", memory)
