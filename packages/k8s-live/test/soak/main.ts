/**
 * The soak: TrainJobs that come and go on a real control plane for minutes, one adapter that watches them all, followed logs,
 * an API server that is killed now and then; and a check of everything that the adapter tells.
 *
 *     npm run soak -- --kubeconfig FILE --minutes 10 --jobs 200 --logs 20 --restart PROGRAM --seed 1
 *
 * The cluster needs Kubeflow Trainer, JobSet and Nodes that kwok plays on this machine: pods run by themselves, the soak writes
 * their ends and the log files. `PROGRAM restart` kills the API server and returns once it answers again. Exits with 1 when an
 * update or a line of a log is lost, wrong or told twice, when memory grows, or when something is left over at the end.
 *
 * Further options: `--life N` (seconds that a TrainJob runs in the mean; the control plane must keep up), `--rate N` (lines a second of each log), `--within N`
 * (seconds in which a change must be told).
 */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Context, Effect, Fiber, Layer, Random, Schedule, Stream, Supervisor } from "effect"
import * as Churn from "./Churn.js"
import * as Ledger from "./Ledger.js"
import * as Logs from "./Logs.js"
import * as Memory from "./Memory.js"

const { values: options } = parseArgs({
  args: process.argv.slice(2).filter((argument) => argument !== "--"),
  options: {
    kubeconfig: { type: "string" },
    minutes: { type: "string", default: "10" },
    jobs: { type: "string", default: "200" },
    logs: { type: "string", default: "20" },
    restart: { type: "string" },
    seed: { type: "string", default: "1" },
    life: { type: "string", default: "120" },
    rate: { type: "string", default: "20" },
    within: { type: "string", default: "45" }
  }
})

const minutes = Number(options.minutes)
const jobs = Number(options.jobs)
const within = Number(options.within)
const second = 1000
const every = 10 * second
const warmingUp = 180 * second
// Evidence of TrainJobs that are gone is given up so soon that it is steady within a short run
const retention = 30 * second
// Flat: neither may be exceeded, the slope by more than twice its standard error
const limits = { ratio: 1.05, slope: 100 }

const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}
const complaints: Array<string> = []
const complain = (text: string): void => {
  if (complaints.length < 200) complaints.push(text)
  say(`  ! ${text}`)
}

const source = options.kubeconfig === undefined ? undefined : KubeConfig.Source.Files({ paths: [options.kubeconfig] })

const connect = (http: KubeApiLive.Options["http"]) =>
  Effect.map(Layer.build(KubeApiLive.layer({ ...(source === undefined ? {} : { source }), http })), (context) =>
    Context.get(context, KubeApi.KubeApi)
  )

/** Connections that this process has open. */
const sockets = (): number => process.getActiveResourcesInfo().filter((name) => /TCP|TLS/i.test(name)).length

const viewOf = (api: KubeApi.Service, namespace: string): Effect.Effect<Ledger.View, KubeError> =>
  Effect.gen(function* () {
    const pods = new Map<string, Array<Core.Pod>>()
    for (const pod of (yield* api.list(Core.pods, { namespace })).items) {
      const name = pod.metadata.labels?.[JobSet.jobSetNameLabel] ?? ""
      const known = pods.get(name)
      if (known === undefined) pods.set(name, [pod])
      else known.push(pod)
    }
    const { items } = yield* api.list(Trainer.trainJobs, { namespace })
    return new Map(
      items.map((trainJob) => [trainJob.metadata.uid, { trainJob, pods: pods.get(trainJob.metadata.name) ?? [] }])
    )
  })

/** Kills the API server and starts it again. It is always waited for: nobody is left without one. */
const restart = (program: string): Effect.Effect<number> =>
  Effect.uninterruptible(
    Effect.async<number>((resume) => {
      // Ctrl-C is for this process alone; a server that it starts may keep its output open, so its own end is what counts
      const child = spawn(program, ["restart"], { stdio: "ignore", detached: true })
      child.on("error", () => resume(Effect.succeed(-1)))
      child.on("exit", (code) => resume(Effect.succeed(code ?? -1)))
    })
  )

/** TrainJobs first: a namespace that is deleted with everything in it takes far longer. */
const clear = (api: KubeApi.Service, namespace: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { items } = yield* Churn.persist(api.list(Trainer.trainJobs, { namespace }))
    yield* Effect.forEach(
      items,
      ({ metadata: { name } }) =>
        Effect.ignore(api.remove(Trainer.trainJobs, { namespace, name }, { propagation: "Background" })),
      { concurrency: 8, discard: true }
    )
    yield* Churn.persist(api.remove(Core.namespaces, { name: namespace }, { propagation: "Background" }))
  }).pipe(Effect.ignore)

const soak = Effect.gen(function* () {
  const control = yield* connect({ rateLimit: "none" })
  const created = yield* Effect.acquireRelease(
    control.create(Core.namespaces, {}, { metadata: { generateName: "h-soak-" } }),
    ({ metadata: { name } }) => clear(control, name)
  )
  const namespace = created.metadata.name
  yield* Churn.prepare(control, namespace)
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "soak-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )

  const ledger = Ledger.make({ tell: within * second, do: 180 * second }, complain)
  const logs = Logs.empty()
  const problems: Record<Watch.Problem["_tag"], number> = {
    Interrupted: 0,
    Undecodable: 0,
    Unavailable: 0,
    Unusable: 0
  }
  const faults = { watch: 0 }

  const api = yield* connect({})
  const store = yield* EvidenceStore.makeMemory({ retention })
  const makeAdapter = (kept: EvidenceStore.Service) =>
    Adapter.make(AdapterConfig.make({ namespace }), {
      watch: {
        onProblem: ({ _tag }) =>
          Effect.sync(() => {
            problems[_tag] += 1
          })
      },
      output: { onInterrupted: () => Effect.void }
    }).pipe(Effect.provideService(KubeApi.KubeApi, api), Effect.provideService(EvidenceStore.EvidenceStore, kept))
  const adapter = yield* makeAdapter(store)
  yield* Stream.runForEach(adapter.watch(Watch.namespace(namespace)), (update) =>
    Effect.sync(() => ledger.saw(update))
  ).pipe(
    Effect.onExit((exit) =>
      Effect.sync(() => {
        if (exit._tag === "Failure" && exit.cause._tag === "Fail") {
          faults.watch += 1
          complain(`the watch failed: ${exit.cause.error.message}`)
        }
      })
    ),
    Effect.forkScoped
  )

  let there = 0
  const audit = Effect.map(viewOf(control, namespace), (view) => {
    there = view.size
    ledger.audit(view)
    return view
  })
  // What happened while the list was on its way is seen by the next one
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(audit), Schedule.spaced("2 seconds")))

  const begun = Date.now()
  const endAt = begun + minutes * 60 * second
  const downtimes: Array<number> = []
  if (options.restart !== undefined) {
    const program = options.restart
    const once = Effect.gen(function* () {
      yield* Effect.sleep(yield* Random.nextRange(30 * second, 90 * second))
      if (Date.now() >= endAt) return yield* Effect.interrupt
      ledger.serverDown()
      const from = Date.now()
      const code = yield* restart(program)
      if (code !== 0) complain(`${program} restart: exit code ${code}`)
      // Whatever the program says, the clock starts when the server answers
      yield* Churn.persist(control.serverVersion)
      downtimes.push(Date.now() - from)
      ledger.serverBack()
    })
    yield* Effect.forever(once).pipe(
      Effect.withRandom(Random.make(`${options.seed}/restart`)),
      Effect.ignore,
      Effect.forkScoped
    )
  }

  const samples: Array<Memory.Sample> = []
  let atRest = true
  const report = Effect.gen(function* () {
    // As its owner may at any time; the watch itself does so once an hour
    yield* store.sweep
    const sample = Memory.sample()
    if (!atRest && sample.at - begun >= warmingUp && sample.at <= endAt) samples.push(sample)
    const kept = (yield* store.keys).length
    const mega = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1)
    say(
      [
        `${((sample.at - begun) / second).toFixed(0).padStart(4)} s`,
        `${String(there).padStart(4)} jobs`,
        `${String(ledger.counts.updates).padStart(6)} updates`,
        `${String(logs.following).padStart(2)} logs`,
        `${String(logs.received).padStart(7)} lines`,
        `${String(downtimes.length).padStart(2)} restarts`,
        `heap ${mega(sample.heap).padStart(5)} MiB`,
        `RSS ${mega(sample.rss).padStart(5)} MiB`,
        `evidence of ${kept}`,
        `lost ${ledger.counts.lost + logs.lost}`
      ].join("  ")
    )
  })
  yield* Effect.forkScoped(Effect.repeat(report, Schedule.spaced(every)))
  atRest = false

  say(`namespace ${namespace}, seed ${options.seed}: ${jobs} TrainJobs, ${options.logs} logs, ${minutes} minutes`)
  const world: Churn.World = {
    api: control,
    adapter,
    namespace,
    ledger,
    logs,
    folder,
    seed: options.seed,
    endAt,
    life: Number(options.life) * second,
    rate: Number(options.rate),
    complain
  }
  const places = yield* Effect.forEach(Array.from({ length: jobs }), (_, index) =>
    Effect.forkScoped(Churn.place(world, index, index < Number(options.logs)))
  )
  yield* Effect.forEach(
    places,
    (fiber) =>
      Effect.catchAll(Fiber.join(fiber), (error) =>
        Effect.sync(() => complain(`a place was given up: ${error.message}`))
      ),
    { concurrency: "unbounded", discard: true }
  )

  // What another watch tells that begins now, without any memory
  const fresh = Effect.gen(function* () {
    const view = yield* Churn.persist(viewOf(control, namespace))
    const other = yield* makeAdapter(yield* EvidenceStore.makeMemory())
    const told = new Map<string, Update.Update>()
    yield* Stream.runForEach(other.watch(Watch.namespace(namespace)), (update) =>
      Effect.sync(() => told.set(update.ref.uid ?? "", update))
    ).pipe(Effect.timeoutOption("6 seconds"))
    return ledger.differences(view, told)
  })
  let differences = yield* fresh
  for (let again = 0; again < within / 6 && differences.length > 0; again++) differences = yield* fresh
  for (const difference of differences) complain(difference)
  return { begun, differences, downtimes, faults, ledger, logs, problems, samples, there: () => there }
})

const percentile = (values: ReadonlyArray<number>, part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0

const main = Effect.gen(function* () {
  const before = sockets()
  const supervisor = yield* Supervisor.track
  const { differences, downtimes, faults, ledger, logs, problems, samples, there } = yield* soak.pipe(
    Effect.scoped,
    Effect.supervised(supervisor)
  )
  // Sockets close behind the scope
  yield* Effect.sleep("2 seconds")
  const fibers = [...(yield* supervisor.value)].length
  const open = sockets() - before

  const heap = Memory.trend(samples, (it) => it.heap)
  const rss = Memory.trend(samples, (it) => it.rss)
  const flat = heap !== undefined && heap.ratio <= limits.ratio && heap.slope - 2 * heap.error <= limits.slope
  const { counts } = ledger
  const trend = (it: Memory.Trend | undefined): string =>
    it === undefined
      ? "too few samples"
      : `${it.slope.toFixed(0)} KB/min (± ${it.error.toFixed(0)}), last third ${it.ratio.toFixed(3)}x of the first`
  const seconds = (millis: number): string => `${(millis / second).toFixed(1)} s`
  const rows: ReadonlyArray<readonly [string, string]> = [
    ["TrainJobs", `${there()} at the end, ${counts.orders.Gone} came and went`],
    [
      "ordered",
      `${counts.orders.Running} running, ${counts.orders.Held} held, ${counts.orders.Succeeded} succeeded, ${counts.orders.Failed} failed, ${counts.orders.Gone} deleted`
    ],
    ["updates", `${counts.updates}`],
    ["lost, wrong", `${counts.lost}, ${counts.wrong} (limit 0; each told within ${within} s)`],
    ["told first with another cause, then mended", `${counts.mended}`],
    ["not done by the cluster within 180 s", `${counts.undone}`],
    ["last updates that differ from a fresh list or watch", `${differences.length} (limit 0)`],
    [
      "lag behind a list, median, 99 %, highest",
      [0.5, 0.99, 1].map((part) => seconds(percentile(counts.lags, part))).join(", ")
    ],
    ["log lines written, received", `${logs.written}, ${logs.received} (${logs.followed} logs to their end)`],
    ["lines lost, twice or out of order, damaged", `${logs.lost}, ${logs.duplicated}, ${logs.damaged} (limit 0)`],
    ["gaps told, follows that failed", `${logs.gaps}, ${logs.failed} (limit 0)`],
    [
      "API server restarts",
      `${downtimes.length}${downtimes.length === 0 ? "" : `, away for ${seconds(percentile(downtimes, 0.5))} (median), ${seconds(Math.max(...downtimes))} at most`}`
    ],
    ["watches that broke off, watch failures", `${problems.Interrupted}, ${faults.watch}`],
    ["heap after collection", `${trend(heap)} (limits ${limits.slope} KB/min, ${limits.ratio}x)`],
    ["RSS", `${trend(rss)}, ${(Math.max(0, ...samples.map((it) => it.rss)) / 1024 / 1024).toFixed(0)} MiB at most`],
    ["left at the end", `${open} connections, ${fibers} fibers (limit 0)`]
  ]
  say("\n| what | figure |\n|---|---|")
  for (const [what, figure] of rows) say(`| ${what} | ${figure} |`)
  const bad =
    counts.lost +
    counts.wrong +
    counts.undone +
    differences.length +
    logs.lost +
    logs.duplicated +
    logs.damaged +
    logs.gaps +
    logs.failed +
    faults.watch +
    open +
    fibers
  say(bad === 0 && flat ? "\npassed" : `\nfailed${flat ? "" : ": memory is not known to be flat"}`)
  if (bad > 0 || !flat) process.exitCode = 1
})

NodeRuntime.runMain(main)
