/**
 * Writes per second with one live watcher: the in-memory cluster called in process, against the same cluster over HTTP.
 *
 *     npm run bench -- memory-writes [writes]
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { Console, Context, Deferred, Effect, Layer, Ref, Stream } from "effect"
import { median, ratio } from "./report.js"

const rounds = 5
const names = (round: string, count: number) => Array.from({ length: count }, (_, index) => `pod-${round}-${index}`)

/** Creates, patches and deletes each pod; a watcher must have seen every one of these changes. */
const work = (api: KubeApi.Service, namespace: string, round: string, count: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const expected = count * 3
      const seen = yield* Ref.make(0)
      const all = yield* Deferred.make<void>()
      const { resourceVersion } = yield* api.list(Core.pods, { namespace })
      yield* Effect.forkScoped(
        Stream.runForEach(api.watch(Core.pods, { namespace, resourceVersion }), (event) =>
          event._tag === "Bookmark"
            ? Effect.void
            : Effect.flatMap(
                Ref.updateAndGet(seen, (it) => it + 1),
                (it) => (it >= expected ? Deferred.succeed(all, undefined) : Effect.void)
              )
        )
      )
      const started = performance.now()
      for (const name of names(round, count)) {
        yield* api.create(Core.pods, { namespace }, Fixtures.pod(name, { phase: "Pending" }))
        yield* api.patch(Core.pods, { namespace, name }, { type: "merge", body: { metadata: { labels: { a: "b" } } } })
        yield* api.remove(Core.pods, { namespace, name }, { propagation: "Background", gracePeriodSeconds: 0 })
      }
      yield* Deferred.await(all).pipe(Effect.timeout("30 seconds"))
      return expected / ((performance.now() - started) / 1000)
    })
  )

/** Runs it; prints rates and their ratio. */
export const run = (count: number): Effect.Effect<void, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      yield* cluster.seed([Fixtures.namespace("bench")])
      const server = yield* ApiServer.serveCluster({ tokens: { admin: Rbac.admin } })
      const live = yield* Layer.build(
        KubeApiLive.layer({
          source: KubeConfig.Source.Text({ text: server.kubeconfig({ name: "admin", token: "admin" }) }),
          http: { rateLimit: "none" }
        })
      )
      const http = Context.get(live, KubeApi.KubeApi)
      const rates: { readonly memory: Array<number>; readonly http: Array<number> } = { memory: [], http: [] }
      for (let round = 0; round <= rounds; round += 1) {
        const memory = yield* work(cluster.admin, "bench", `m${round}`, count)
        const served = yield* work(http, "bench", `h${round}`, count)
        if (round === 0) continue
        rates.memory.push(memory)
        rates.http.push(served)
      }
      yield* Console.log(
        [
          `in-memory writes/s with one live watcher, ${count * 3} writes a round, ${rounds} rounds interleaved`,
          `  in process        ${Math.round(median(rates.memory))}/s`,
          `  over HTTP         ${Math.round(median(rates.http))}/s`,
          `  in process : HTTP ${ratio(rates.memory, rates.http)}`
        ].join("\n")
      )
    })
  ).pipe(Effect.provide(Cluster.layer()))
