/**
 * The in-memory cluster's speed and size, as ratios that are taken in one run: writes and lists against a real API server
 * through the same live layer, in process and served from a process of its own; the cost of watchers and of many objects.
 *
 *     npm run bench -- store-scale
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source bench/store-scale.ts idle     one part
 *
 * The comparison with a real API server runs when `TEST_KUBECONFIG` names one; it uses and removes a namespace of its own.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { loadavg } from "node:os"
import { fileURLToPath } from "node:url"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { NodeRuntime } from "@effect/platform-node"
import { Clock, Console, Context, Effect, Exit, Fiber, Layer, Schedule, Stream } from "effect"
import { median } from "./report.js"

type Api = KubeApi.Service

const self = fileURLToPath(import.meta.url)
const writes = "dispatch-bench-writes"
const lists = "dispatch-bench-lists"
const namespaces = [writes, lists] as const
const listed = 10_000
const held = 100_000
const many = 32

/** Seconds of this process's own processor time, which a busy machine disturbs less than a clock. */
const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1e6
}

const goal = (text: string, met: boolean, shown: string): Effect.Effect<void> =>
  Console.log(`  ${met ? "met   " : "MISSED"}  ${text.padEnd(66)} ${shown}`)

const times = (value: number): string => `${value.toFixed(2)}x`

// ---- work -----------------------------------------------------------------------------------------------------------

/** A pod that no scheduler takes, so that nobody else writes to it. */
const podBody = (name: string): Fixtures.Body => Fixtures.pod(name, { spec: { schedulerName: "nobody" } })

const configMapBody = (name: string): Fixtures.Body => ({
  metadata: { name },
  data: { "train.yaml": "epochs: 3\nbatch: 64\n", run: name }
})

type Verb = "create" | "patch" | "delete"
const verbs: ReadonlyArray<Verb> = ["create", "patch", "delete"]

const label = { type: "merge", body: { metadata: { labels: { step: "2" } } } } as const

const write = (
  api: Api,
  kind: "pods" | "configmaps",
  verb: Verb,
  namespace: string,
  name: string
): Effect.Effect<unknown, unknown> => {
  const gone = { propagation: "Background", gracePeriodSeconds: 0 } as const
  switch (verb) {
    case "create":
      return kind === "pods"
        ? api.create(Core.pods, { namespace }, podBody(name))
        : api.create(Core.configMaps, { namespace }, configMapBody(name))
    case "patch":
      return kind === "pods"
        ? api.patch(Core.pods, { namespace, name }, label)
        : api.patch(Core.configMaps, { namespace, name }, label)
    case "delete":
      return kind === "pods"
        ? api.remove(Core.pods, { namespace, name }, gone)
        : api.remove(Core.configMaps, { namespace, name }, gone)
  }
}

type Rates = { readonly [verb in Verb]: number }

/** Creates, patches and deletes objects; writes per second of each. */
const writeRates = (
  api: Api,
  kind: "pods" | "configmaps",
  namespace: string,
  count: number,
  concurrency: number
): Effect.Effect<Rates, unknown> =>
  Effect.gen(function* () {
    const rates = { create: 0, patch: 0, delete: 0 }
    const names = Array.from({ length: count }, (_, index) => `w-${index}`)
    for (const verb of verbs) {
      const started = performance.now()
      yield* Effect.forEach(names, (name) => write(api, kind, verb, namespace, name), { concurrency, discard: true })
      rates[verb] = count / ((performance.now() - started) / 1000)
    }
    return rates
  })

const listSeconds = (api: Api, namespace: string): Effect.Effect<number, unknown> =>
  Effect.gen(function* () {
    const started = performance.now()
    const { items } = yield* api.list(Core.pods, { namespace })
    if (items.length !== listed) return yield* Effect.dieMessage(`listed ${items.length} pods of ${listed}`)
    return (performance.now() - started) / 1000
  })

// ---- memory, served, real -------------------------------------------------------------------------------------------

const live = (source: KubeConfig.Source) =>
  Effect.map(Layer.build(KubeApiLive.layer({ source, http: { rateLimit: "none" } })), (context) =>
    Context.get(context, KubeApi.KubeApi)
  )

/** A served cluster in a process of its own, as the real one is. */
const served = Effect.gen(function* () {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => fork(self, ["serve"])),
    (process) => Effect.sync(() => process.disconnect())
  )
  const [text] = yield* Effect.promise(() => once(child, "message") as Promise<[string]>)
  return yield* live(KubeConfig.Source.Text({ text }))
})

const serve: Effect.Effect<never, unknown> = Effect.scoped(
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    yield* cluster.seed(namespaces.map((name) => Fixtures.namespace(name)))
    const server = yield* ApiServer.serveCluster({ tokens: { admin: Rbac.admin } })
    process.send?.(server.kubeconfig({ name: "admin", token: "admin" }))
    process.on("disconnect", () => process.exit(0))
    return yield* Effect.never
  })
).pipe(Effect.provide(Cluster.layer()))

/** The real API server's namespaces, removed in the end; pods need the namespace's service account. */
const real = (file: string) =>
  Effect.gen(function* () {
    const api = yield* live(KubeConfig.Source.Files({ paths: [file] }))
    for (const name of namespaces) {
      yield* Effect.acquireRelease(api.create(Core.namespaces, {}, Fixtures.namespace(name)), () =>
        Effect.ignore(api.remove(Core.namespaces, { name }, { propagation: "Background" }))
      )
      yield* api
        .create(Core.pods, { namespace: name }, podBody("probe"), { dryRun: true })
        .pipe(Effect.retry(Schedule.intersect(Schedule.spaced("200 millis"), Schedule.recurs(100))))
    }
    return api
  })

const fill = (api: Api): Effect.Effect<void, unknown> =>
  Effect.forEach(
    Array.from({ length: listed }, (_, index) => `l-${index}`),
    (name) => api.create(Core.pods, { namespace: lists }, podBody(name)),
    { concurrency: many, discard: true }
  )

const compare = (file: string): Effect.Effect<void, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const cluster = yield* Effect.provide(Cluster.Cluster, Cluster.layer())
      yield* cluster.seed(namespaces.map((name) => Fixtures.namespace(name)))
      const apis = { memory: cluster.admin, served: yield* served, real: yield* real(file) }
      const sides = ["memory", "served", "real"] as const
      for (const side of sides) yield* fill(apis[side])

      for (const [kind, concurrency] of [
        ["pods", 1],
        ["pods", many],
        ["configmaps", 1],
        ["configmaps", many]
      ] as const) {
        const rounds: Array<Record<(typeof sides)[number], Rates>> = []
        for (let round = 0; round <= 3; round += 1) {
          const measured: Record<string, Rates> = {}
          for (const side of sides) {
            const count = side === "memory" ? 1000 : side === "served" ? 300 : 100
            measured[side] = yield* writeRates(apis[side], kind, writes, count, concurrency)
          }
          // The first warms up
          if (round > 0) rounds.push(measured)
        }
        yield* Console.log(
          `${kind}, ${concurrency === 1 ? "one write at a time" : `${concurrency} at a time`} (load ${loadavg()[0]?.toFixed(1) ?? ""})`
        )
        for (const verb of verbs) {
          const rate = (side: (typeof sides)[number]) => Math.round(median(rounds.map((round) => round[side][verb])))
          yield* Console.log(
            `          ${verb.padEnd(8)} in process ${rate("memory")}/s, served ${rate("served")}/s, real ${rate("real")}/s`
          )
          const inProcess = median(rounds.map(({ memory, real: reference }) => memory[verb] / reference[verb]))
          const over = median(rounds.map(({ real: reference, served: http }) => http[verb] / reference[verb]))
          yield* goal(`${verb}, in process: 20 times the real API server`, inProcess >= 20, times(inProcess))
          yield* goal(`${verb}, served: 3 times the real API server`, over >= 3, times(over))
        }
      }

      const seconds: Array<Record<(typeof sides)[number], number>> = []
      for (let round = 0; round <= 5; round += 1) {
        const measured: Record<string, number> = {}
        for (const side of sides) measured[side] = yield* listSeconds(apis[side], lists)
        if (round > 0) seconds.push(measured)
      }
      const taken = (side: (typeof sides)[number]) =>
        `${(median(seconds.map((one) => one[side])) * 1000).toFixed(0)} ms`
      yield* Console.log(
        `list of ${listed} pods: in process ${taken("memory")}, served ${taken("served")}, real ${taken("real")} (load ${loadavg()[0]?.toFixed(1) ?? ""})`
      )
      const inProcess = median(seconds.map((one) => one.real / one.memory))
      const over = median(seconds.map((one) => one.real / one.served))
      yield* goal("list, in process: 20 times the real API server", inProcess >= 20, times(inProcess))
      yield* goal("list, served: 3 times the real API server", over >= 3, times(over))
    })
  )

// ---- watchers, sizes ------------------------------------------------------------------------------------------------

/** CPU seconds of creating, patching and deleting pods in one namespace. */
const writeCost = (api: Api, namespace: string, count: number): Effect.Effect<number, unknown> =>
  Effect.gen(function* () {
    const started = cpu()
    for (const verb of verbs) {
      for (let index = 0; index < count; index += 1) yield* write(api, "pods", verb, namespace, `w-${index}`)
    }
    return (cpu() - started) / (count * verbs.length)
  })

const withCluster = <A, E>(body: (cluster: Cluster.Service) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.provide(Effect.flatMap(Cluster.Cluster, body), Cluster.layer())

const collect = Effect.sync(() => {
  for (let turn = 0; turn < 3; turn += 1) globalThis.gc?.()
  const { external, heapUsed } = process.memoryUsage()
  return (external + heapUsed) / 2 ** 20
})

/** What the second costs of what the first costs, measured in turns that are short against whatever else the machine does. */
const costRatio = (
  first: Cluster.Service,
  second: Cluster.Service,
  namespace: string
): Effect.Effect<number, unknown> =>
  Effect.gen(function* () {
    const ratios: Array<number> = []
    for (let round = 0; round < 60; round += 1) {
      // Whoever comes second may find warmer caches, or pay for the other's garbage
      const turned = round % 2 === 1
      const before = yield* writeCost(turned ? second.admin : first.admin, namespace, 100)
      const after = yield* writeCost(turned ? first.admin : second.admin, namespace, 100)
      if (round >= 10) ratios.push(turned ? before / after : after / before)
    }
    return median(ratios)
  })

/** Watchers to which nothing happens: other namespaces, other types, other names. */
const idleWatchers = Effect.scoped(
  Effect.gen(function* () {
    const [alone, watched] = yield* Effect.all([Cluster.make(), Cluster.make()])
    for (const cluster of [alone, watched]) {
      yield* cluster.seed([Fixtures.namespace("bench"), Fixtures.namespace("quiet")])
    }
    const api = watched.admin
    for (let index = 0; index < 1000; index += 1) {
      const name = `other-${index}`
      yield* Effect.forkScoped(
        Stream.runDrain(
          index % 3 === 0
            ? api.watch(Core.pods, { namespace: "quiet" })
            : index % 3 === 1
              ? api.watch(Core.configMaps, { namespace: "bench" })
              : api.watch(Core.pods, {
                  namespace: "bench",
                  fields: [{ field: "metadata.name", operator: "=", value: name }]
                })
        )
      )
    }
    yield* Effect.sleep("100 millis")
    const open = (yield* watched.connections).length
    if (open !== 1000) return yield* Effect.dieMessage(`${open} watchers of 1000 are open`)
    const cost = (1 - 1 / (yield* costRatio(alone, watched, "bench"))) * 100
    return yield* goal("1,000 idle watchers: under 5 % of write throughput", cost < 5, `${cost.toFixed(1)} %`)
  })
)

/** A watcher that opened and never reads, and what it is told when it reads at last. */
const neverReads = Effect.gen(function* () {
  const measure = (watchers: number) =>
    Effect.scoped(
      Effect.flatMap(Cluster.make({ historyLimit: 5000 }), (cluster) =>
        Effect.gen(function* () {
          yield* cluster.seed([Fixtures.namespace("bench")])
          const pulls = yield* Effect.forEach(Array.from({ length: watchers }), () =>
            Effect.gen(function* () {
              const { resourceVersion } = yield* cluster.admin.list(Core.pods, { namespace: "bench" })
              const pull = yield* Stream.toPull(cluster.admin.watch(Core.pods, { namespace: "bench", resourceVersion }))
              // Opens it: a watch that was never pulled would be no watch at all
              const first = yield* Effect.forkScoped(pull)
              yield* Effect.yieldNow()
              return { pull, first }
            })
          )
          yield* writeCost(cluster.admin, "bench", 1)
          for (const { first } of pulls) yield* Fiber.join(first)
          const before = yield* collect
          yield* writeCost(cluster.admin, "bench", 5000)
          const after = yield* collect
          let expired = 0
          for (const { pull } of pulls) {
            const ending = yield* Effect.exit(pull)
            if (Exit.isFailure(ending) && String(ending.cause).includes("KubeExpired")) expired += 1
          }
          return { growth: after - before, expired }
        })
      )
    )
  yield* measure(0)
  const none = yield* measure(0)
  const all = yield* measure(1000)
  const each = ((all.growth - none.growth) * 2 ** 20) / 1000
  yield* goal(
    "1,000 watchers that never read cost no memory, and get 410",
    each < 1024 && all.expired === 1000,
    `${Math.max(0, each).toFixed(0)} bytes each over 15,000 writes, ${all.expired} told 410`
  )
})

/** The cost of a write among 1,000 pods and among 100,000. */
const objectsMatter = Effect.gen(function* () {
  const filled = (count: number) =>
    Effect.tap(Cluster.make(), (cluster) =>
      Effect.zipRight(
        cluster.seed([Fixtures.namespace("bench"), Fixtures.namespace("full")]),
        Effect.forEach(
          Array.from({ length: count / 1000 }, (_, index) => index),
          (part) =>
            cluster.seed(
              Array.from({ length: 1000 }, (_, index) =>
                Fixtures.pod(`p-${part}-${index}`, { namespace: "full", phase: "Running" })
              )
            ),
          { discard: true }
        )
      )
    )
  const few = yield* filled(1000)
  const lots = yield* filled(held)
  const ratio = yield* costRatio(few, lots, "full")
  yield* goal("a write among 100,000 pods costs what it costs among 1,000", ratio < 1.5, times(ratio))
})

/** Pods made by requests, in a process of its own. */
const hold = withCluster((cluster) =>
  Effect.gen(function* () {
    yield* cluster.seed([Fixtures.namespace("bench")])
    const before = yield* collect
    for (let index = 0; index < held; index += 1) {
      yield* cluster.admin.create(Core.pods, { namespace: "bench" }, podBody(`p-${index}`))
    }
    const size = yield* collect
    const peak = process.resourceUsage().maxRSS / 1024
    const count = (yield* cluster.admin.list(Core.pods, { namespace: "bench" })).items.length
    process.send?.({ count, heap: size, own: size - before, peak })
    process.disconnect?.()
  })
)

const heldMemory = Effect.gen(function* () {
  const child = fork(self, ["hold"], { execArgv: [...process.execArgv, "--max-old-space-size=1024"] })
  const answer = yield* Effect.promise(() =>
    Promise.race([
      once(child, "message").then(
        ([message]) => message as { readonly count: number; readonly heap: number; readonly peak: number }
      ),
      once(child, "exit").then(() => undefined)
    ])
  )
  yield* goal(
    `${held} pods held in 1 GiB`,
    answer !== undefined && answer.count === held && answer.heap <= 1024,
    answer === undefined
      ? "it ran out of a heap of 1 GiB"
      : `${answer.heap.toFixed(0)} MiB held, peak ${answer.peak.toFixed(0)} MiB of resident memory`
  )
})

/** All of it; prints each goal with its ratio. */
const run: Effect.Effect<void, unknown> = Effect.gen(function* () {
  const started = yield* Clock.currentTimeMillis
  yield* Console.log(`store and scale, load ${loadavg()[0]?.toFixed(1) ?? "unknown"} at the start`)
  yield* heldMemory
  yield* idleWatchers
  yield* neverReads
  yield* objectsMatter
  const file = process.env["TEST_KUBECONFIG"]
  if (file === undefined || file === "") {
    yield* Console.log("no comparison with a real API server: TEST_KUBECONFIG names none")
  } else yield* compare(file)
  const now = yield* Clock.currentTimeMillis
  yield* Console.log(
    `load ${loadavg()[0]?.toFixed(1) ?? "unknown"} at the end, ${((now - started) / 1000).toFixed(0)} s`
  )
})

const parts: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
  serve,
  hold,
  all: run,
  held: heldMemory,
  idle: idleWatchers,
  stalled: neverReads,
  objects: objectsMatter,
  real: Effect.suspend(() => compare(process.env["TEST_KUBECONFIG"] ?? ""))
}

const wanted = process.argv[2] ?? "all"
const part = parts[wanted]
if (part === undefined) throw new Error(`no part ${wanted}; there are ${Object.keys(parts).join(", ")}`)
NodeRuntime.runMain(part)
