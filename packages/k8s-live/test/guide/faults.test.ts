import { KubeApi } from "@dispatch-kubeflow/core"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Faults from "@dispatch-kubeflow/testkit/Faults"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"

it.scoped("a server that is busy now and then", () =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const faults = yield* Faults.make(
      [
        Faults.rule({ verb: "watch", plural: "pods" }, { _tag: "cut", after: 3 }, "always"),
        Faults.rule({ verb: "list" }, { _tag: "throttle", retryAfter: 2000 }, { probability: 0.2 })
      ],
      { seed: 1 }
    )
    const api = KubeApi.make(faults.transform(cluster.transport(Rbac.admin)))
    const answers = yield* Effect.replicateEffect(Effect.either(api.list(Core.nodes, {})), 50)
    const busy = answers.flatMap((it) => (it._tag === "Left" ? [it.left] : []))
    expect(busy.length).toBeGreaterThan(0)
    for (const error of busy) expect(error).toMatchObject({ _tag: "KubeUnavailable", code: 429, retryAfter: 2000 })
  }).pipe(Effect.provide(TestCluster.layer()))
)
