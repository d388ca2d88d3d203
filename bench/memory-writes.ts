/**
 * Writes per second with one live watcher: the in-memory cluster called in process, against the same cluster over HTTP and
 * against controller-runtime's fake client, which does the same with the same pods in a process of its own.
 *
 *     npm run bench -- memory-writes [pods] [rounds]
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect, Fiber, Layer, Stream } from "effect"
import * as Peers from "./peers.js"
import * as Report from "./report.js"

const namespace = "bench"
const patch = { metadata: { labels: { a: "b" } } }
const pods = (round: string, count: number): ReadonlyArray<Fixtures.Body> =>
  Array.from({ length: count }, (_, index) => Fixtures.pod(`pod-${round}-${index}`, { phase: "Pending" }))
const nameOf = (pod: Fixtures.Body): string => (pod["metadata"] as { readonly name: string }).name

const rated = ({ cpu, seconds, updates }: Peers.Measured): Report.Round => ({
  rate: updates / seconds,
  cpu: cpu / updates
})

const kinds = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"] as const

/**
 * Creates, patches and deletes each pod; a watcher must have seen every one of these changes, in order. That a pod is being
 * deleted is a change of its own, as it is on an API server; the fake client has none.
 */
const work = (api: KubeApi.Service, bodies: ReadonlyArray<Fixtures.Body>) =>
  Effect.gen(function* () {
    const names = bodies.map(nameOf)
    const requests = names.length * 3
    const expected = names.length * kinds.length
    const { resourceVersion } = yield* api.list(Core.pods, { namespace })
    globalThis.gc?.()
    const started = performance.now()
    const before = process.cpuUsage()
    let at = 0
    const watcher = yield* Effect.fork(
      api.watch(Core.pods, { namespace, resourceVersion }).pipe(
        Stream.filter(({ _tag }) => _tag !== "Bookmark"),
        Stream.take(expected),
        Stream.runForEach((event) => {
          const change = at++
          const step = change % kinds.length
          const name = names[Math.floor(change / kinds.length)]
          if (event._tag !== "Applied" && event._tag !== "Deleted")
            return Effect.dieMessage(`an event is ${event._tag}`)
          const { metadata } = event.object
          const type = event._tag === "Applied" ? event.type : "DELETED"
          return type === kinds[step] &&
            metadata.name === name &&
            metadata.labels?.["a"] === (step === 0 ? undefined : "b") &&
            (metadata.deletionTimestamp === undefined) === step < 2
            ? Effect.void
            : Effect.dieMessage(`change ${change} is ${type} of ${metadata.name}`)
        })
      )
    )
    for (const [index, name] of names.entries()) {
      yield* api.create(Core.pods, { namespace }, bodies[index] ?? {})
      yield* api.patch(Core.pods, { namespace, name }, { type: "merge", body: patch })
      yield* api.remove(Core.pods, { namespace, name }, { propagation: "Background", gracePeriodSeconds: 0 })
    }
    yield* Fiber.join(watcher)
    if (at !== expected) return yield* Effect.dieMessage(`${at} changes of ${expected} were seen`)
    const { system, user } = process.cpuUsage(before)
    return rated({ seconds: (performance.now() - started) / 1000, cpu: (user + system) / 1e6, updates: requests })
  })

const run: Effect.Effect<void, unknown> = Effect.scoped(
  Effect.gen(function* () {
    const count = Report.count(0, 300)
    const rounds = Report.count(1, 5)
    const report = Report.open("memory-writes")
    const cluster = yield* Cluster.Cluster
    yield* cluster.seed([Fixtures.namespace(namespace)])
    const server = yield* ApiServer.serveCluster({ tokens: { admin: Rbac.admin } })
    const live = yield* Layer.build(
      KubeApiLive.layer({
        source: KubeConfig.Source.Text({ text: server.kubeconfig({ name: "admin", token: "admin" }) }),
        http: { rateLimit: "none" }
      })
    )
    const http = Context.get(live, KubeApi.KubeApi)
    const go = Peers.go(report)
    const fake =
      "why" in go
        ? go
        : yield* Effect.acquireRelease(
            Effect.sync(() => go.start("fake")),
            ({ stop }) => Effect.sync(stop)
          )

    const measured = {
      memory: new Array<Report.Round>(),
      http: new Array<Report.Round>(),
      fake: new Array<Report.Round>()
    }
    // The first round warms up
    for (let round = 0; round <= rounds; round += 1) {
      Report.progress(`  round ${round} of ${rounds}`)
      const memory = yield* work(cluster.admin, pods(`m${round}`, count))
      const other =
        "why" in fake
          ? undefined
          : yield* Effect.promise(() => fake.ask<Peers.Measured>({ namespace, pods: pods(`f${round}`, count), patch }))
      const served = yield* work(http, pods(`h${round}`, count))
      if (round === 0) continue
      measured.memory.push(memory)
      measured.http.push(served)
      if (other !== undefined) measured.fake.push(rated(other))
    }
    const what = `writes in process with one live watcher, ${count * 3} a round`
    report.faster({
      what,
      against: "the same over HTTP, one process",
      unit: "writes/s",
      ours: measured.memory,
      theirs: measured.http
    })
    const against = "controller-runtime's fake client"
    if ("why" in fake) report.leftOut({ what, against, why: fake.why })
    else report.faster({ what, against, unit: "writes/s", ours: measured.memory, theirs: measured.fake })
  })
).pipe(Effect.provide(Cluster.layer()))

NodeRuntime.runMain(run)
