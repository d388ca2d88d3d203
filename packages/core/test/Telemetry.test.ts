import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Metric, Stream } from "effect"

const ref = { namespace: "default", name: "nobody-1" }

/** The state of a metric under exactly these tags, whatever their order. */
const stateOf = (name: string, tags: Readonly<Record<string, string>>) =>
  Effect.map(Metric.snapshot, (pairs) => {
    const wanted = Object.entries(tags)
    return pairs.find(
      ({ metricKey }) =>
        metricKey.name === name &&
        metricKey.tags.length === wanted.length &&
        metricKey.tags.every(({ key, value }) => tags[key] === value)
    )?.metricState as { readonly count: number } | undefined
  })

const counted = (backend: string, tags: Readonly<Record<string, string>>) =>
  Effect.map(stateOf("dispatch_kubeflow_requests_total", { ...tags, backend }), (state) => state?.count ?? 0)

describe("telemetry", () => {
  it.scoped("requests are counted by verb, resource and outcome, and two backends told apart by their tags", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      const nobody = cluster.as(Rbac.user("nobody"))
      const ask = (api: KubeApi.Service, backend: string) =>
        Effect.gen(function* () {
          const adapter = yield* Effect.provideService(
            Adapter.make(AdapterConfig.make({ namespace: "default" })),
            KubeApi.KubeApi,
            api
          )
          yield* Effect.ignore(adapter.ceased(ref))
          yield* Effect.ignore(Stream.runDrain(adapter.output(ref)))
          yield* adapter.capabilities()
        }).pipe(Effect.tagMetrics("backend", backend), Effect.provide(EvidenceStore.layerMemory()))
      yield* ask(cluster.admin, "a")
      yield* ask(nobody, "b")
      const trainJob = { verb: "get", resource: "trainjobs" }
      expect(yield* counted("a", { ...trainJob, outcome: "KubeNotFound" })).toBe(2)
      expect(yield* counted("a", { ...trainJob, outcome: "KubeForbidden" })).toBe(0)
      expect(yield* counted("b", { ...trainJob, outcome: "KubeForbidden" })).toBe(2)
      const reviews = { verb: "create", resource: "selfsubjectaccessreviews", outcome: "ok" }
      expect(yield* counted("a", reviews)).toBe(3)
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("operations and calls are timed, by how they ended", () =>
    Effect.gen(function* () {
      const { admin } = yield* Cluster.Cluster
      const adapter = yield* Effect.provideService(
        Adapter.make(AdapterConfig.make({ namespace: "default" })),
        KubeApi.KubeApi,
        admin
      ).pipe(Effect.provide(EvidenceStore.layerMemory()))
      yield* Effect.tagMetrics(Effect.ignore(adapter.ceased(ref)), "backend", "timed")
      const durations = yield* stateOf("dispatch_kubeflow_operation_seconds", {
        operation: "ceased",
        outcome: "ErrNotFound",
        backend: "timed"
      })
      expect(durations?.count).toBe(1)
    }).pipe(Effect.provide(TestCluster.layer()))
  )
})
