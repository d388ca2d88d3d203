/**
 * The in-memory cluster's speed and size, as ratios that are taken in one run: writes and lists against a real API server
 * through the same live layer, in process and served from a process of its own; the cost of watchers and of many objects.
 *
 *     npm run bench -- store-scale
 *     npm run bench -- store-scale idle      one part: held, idle, stalled, objects, real
 *     npm run bench -- store-scale all 10    with a tenth of everything
 *
 * The comparison with a real API server runs when `TEST_KUBECONFIG` names one; it uses and removes a namespace of its own.
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
import { Context, Effect, Exit, Fiber, Layer, Schedule, Stream } from "effect"
import * as Peers from "./peers.js"
import * as Report from "./report.js"

type Api = KubeApi.Service

const writes = "dispatch-bench-writes"
const lists = "dispatch-bench-lists"
const namespaces = [writes, lists] as const
const scale = Report.count(1, 1)
const part = (whole: number): number => Math.max(1, Math.round(whole / scale))
const listed = part(10_000)
const held = part(100_000)
const watchers = part(1000)
const history = part(5000)
const many = 32
const shown = (value: number): string => value.toLocaleString("en")

/** Seconds of this process's own processor time, which a busy machine disturbs less than a clock. */
const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1e6
}

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
  const server = yield* Effect.acquireRelease(
    Effect.sync(() => Peers.forked(import.meta.url, ["serve"])),
    ({ stop }) => Effect.sync(stop)
  )
  const text = yield* Effect.promise(() => server.answer<string>())
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

const sides = ["memory", "served", "real"] as const
type Side = (typeof sides)[number]
const places = [
  ["memory", "in process", { atLeast: 20 }],
  ["served", "served", { atLeast: 3 }]
] as const
const against = "a real API server"

const compare = (report: Report.Report, file: string): Effect.Effect<void, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const cluster = yield* Effect.provide(Cluster.Cluster, Cluster.layer())
      yield* cluster.seed(namespaces.map((name) => Fixtures.namespace(name)))
      const apis = { memory: cluster.admin, served: yield* served, real: yield* real(file) }
      report.used("Kubernetes", yield* apis.real.serverVersion)
      Report.progress(`  ${shown(listed)} pods on each side`)
      for (const side of sides) yield* fill(apis[side])
      const row = (what: string, unit: string, of: (side: Side) => ReadonlyArray<number>): void => {
        const rounds = (side: Side): ReadonlyArray<Report.Round> => of(side).map((rate) => ({ rate }))
        for (const [side, place, goal] of places) {
          report.faster({
            what: `${what}, ${place}`,
            against,
            goal,
            unit,
            ours: rounds(side),
            theirs: rounds("real")
          })
        }
      }

      for (const [kind, concurrency] of [
        ["pods", 1],
        ["pods", many],
        ["configmaps", 1],
        ["configmaps", many]
      ] as const) {
        const rounds: Array<Record<Side, Rates>> = []
        for (let round = 0; round <= 3; round += 1) {
          const measured = {} as Record<Side, Rates>
          for (const side of sides) {
            const count = part(side === "memory" ? 1000 : side === "served" ? 300 : 100)
            measured[side] = yield* writeRates(apis[side], kind, writes, count, concurrency)
          }
          // The first warms up
          if (round > 0) rounds.push(measured)
        }
        for (const verb of verbs) {
          row(`${verb} ${kind}, ${concurrency === 1 ? "one" : concurrency} at a time`, "writes/s", (side) =>
            rounds.map((round) => round[side][verb])
          )
        }
      }

      const seconds: Array<Record<Side, number>> = []
      for (let round = 0; round <= 5; round += 1) {
        const measured = {} as Record<Side, number>
        for (const side of sides) measured[side] = yield* listSeconds(apis[side], lists)
        if (round > 0) seconds.push(measured)
      }
      row(`list of ${shown(listed)} pods`, "pods/s", (side) => seconds.map((round) => listed / round[side]))
    })
  )

const compareOrNot = (report: Report.Report): Effect.Effect<void, unknown> => {
  const file = process.env["TEST_KUBECONFIG"]
  if (file !== undefined && file !== "") return compare(report, file)
  return Effect.sync(() => {
    for (const [, place, goal] of places) {
      for (const work of ["create, patch and delete pods and config maps", `list of ${shown(listed)} pods`]) {
        report.leftOut({ what: `${work}, ${place}`, against, goal, why: "TEST_KUBECONFIG names none" })
      }
    }
  })
}

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

/** What a write costs on each of two, microseconds of CPU, in turns that are short against whatever else the machine does. */
const costs = (first: Cluster.Service, second: Cluster.Service, namespace: string) =>
  Effect.gen(function* () {
    const all: { readonly first: Array<number>; readonly second: Array<number> } = { first: [], second: [] }
    for (let round = 0; round < Math.max(20, part(60)); round += 1) {
      // Whoever comes second may find warmer caches, or pay for the other's garbage
      const turned = round % 2 === 1
      const before = yield* writeCost(turned ? second.admin : first.admin, namespace, 100)
      const after = yield* writeCost(turned ? first.admin : second.admin, namespace, 100)
      if (round < 10) continue
      all.first.push((turned ? after : before) * 1e6)
      all.second.push((turned ? before : after) * 1e6)
    }
    return all
  })

/** Watchers to which nothing happens: other namespaces, other types, other names. */
const idleWatchers = (report: Report.Report) =>
  Effect.scoped(
    Effect.gen(function* () {
      const [alone, watched] = yield* Effect.all([Cluster.make(), Cluster.make()])
      for (const cluster of [alone, watched]) {
        yield* cluster.seed([Fixtures.namespace("bench"), Fixtures.namespace("quiet")])
      }
      const api = watched.admin
      for (let index = 0; index < watchers; index += 1) {
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
      if (open !== watchers) return yield* Effect.dieMessage(`${open} watchers of ${watchers} are open`)
      const { first, second } = yield* costs(alone, watched, "bench")
      const lost = first.map((cost, index) => (1 - cost / (second[index] ?? Number.NaN)) * 100)
      report.figure({
        what: `write throughput, by CPU, that ${shown(watchers)} idle watchers cost`,
        goal: { atMost: 5 },
        value: Report.median(lost),
        unit: "%",
        rounds: lost.length
      })
    })
  )

/** A watcher that opened and never reads, and what it is told when it reads at last. */
const neverReads = (report: Report.Report) =>
  Effect.gen(function* () {
    const measure = (watchers: number) =>
      Effect.scoped(
        Effect.flatMap(Cluster.make({ historyLimit: history }), (cluster) =>
          Effect.gen(function* () {
            yield* cluster.seed([Fixtures.namespace("bench")])
            const pulls = yield* Effect.forEach(Array.from({ length: watchers }), () =>
              Effect.gen(function* () {
                const { resourceVersion } = yield* cluster.admin.list(Core.pods, { namespace: "bench" })
                const pull = yield* Stream.toPull(
                  cluster.admin.watch(Core.pods, { namespace: "bench", resourceVersion })
                )
                // Opens it: a watch that was never pulled would be no watch at all
                const first = yield* Effect.forkScoped(pull)
                yield* Effect.yieldNow()
                return { pull, first }
              })
            )
            yield* writeCost(cluster.admin, "bench", 1)
            for (const { first } of pulls) yield* Fiber.join(first)
            const before = yield* collect
            yield* writeCost(cluster.admin, "bench", history)
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
    const all = yield* measure(watchers)
    const crowd = `${shown(watchers)} watchers that never read`
    report.figure({
      what: `memory for each of ${crowd}, over ${shown(history * verbs.length)} writes`,
      goal: { atMost: 1024 },
      value: Math.max(0, ((all.growth - none.growth) * 2 ** 20) / watchers),
      unit: "bytes"
    })
    report.figure({
      what: `of ${crowd}, how many are told 410 when they read`,
      goal: { atLeast: watchers },
      value: all.expired,
      unit: "watchers"
    })
  })

/** The cost of a write among 1,000 pods and among 100,000. */
const objectsMatter = (report: Report.Report) =>
  Effect.gen(function* () {
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
    const { first, second } = yield* costs(few, lots, "full")
    report.costs({
      what: `a write among ${shown(held)} pods, in process`,
      against: "a write among 1,000",
      goal: { atMost: 1.5 },
      unit: "µs",
      by: "cpu",
      ours: second,
      theirs: first
    })
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

const heldMemory = (report: Report.Report) =>
  Effect.gen(function* () {
    const child = Peers.forked(import.meta.url, ["hold", String(scale)], ["--max-old-space-size=1024"])
    const answer = yield* Effect.promise(() =>
      child.answer<{ readonly count: number; readonly heap: number; readonly peak: number }>().catch(() => undefined)
    )
    const what = `memory of ${shown(held)} pods`
    const goal = { atMost: 1024 }
    if (answer === undefined) return report.missed({ what, goal, why: "it ran out of a heap of 1 GiB" })
    if (answer.count !== held) return yield* Effect.dieMessage(`${answer.count} pods of ${held} are held`)
    report.figure({ what, goal, value: answer.heap, unit: "MiB" })
    return report.figure({
      what: `resident memory of ${shown(held)} pods at its peak`,
      value: answer.peak,
      unit: "MiB"
    })
  })

const parts = {
  held: heldMemory,
  idle: idleWatchers,
  stalled: neverReads,
  objects: objectsMatter,
  real: compareOrNot
} satisfies Record<string, (report: Report.Report) => Effect.Effect<void, unknown>>

const run = (wanted: string): Effect.Effect<void, unknown> => {
  const chosen = Object.entries(parts).filter(([name]) => wanted === "all" || wanted === name)
  if (chosen.length === 0) throw new Error(`no part ${wanted}; there are all, ${Object.keys(parts).join(", ")}`)
  const report = Report.open("store-scale")
  return Effect.forEach(
    chosen,
    ([name, run]) =>
      Effect.zipRight(
        Effect.sync(() => Report.progress(`  ${name}`)),
        run(report)
      ),
    { discard: true }
  )
}

const wanted = process.argv[2] ?? "all"
NodeRuntime.runMain(wanted === "serve" ? serve : wanted === "hold" ? hold : run(Report.args()[0] ?? "all"))
