/**
 * From the wire to the classified update: `Watch` against the informers of `@kubernetes/client-node` and client-go, on the
 * same bytes.
 *
 * For each event client-node's informer splits off a line, runs JSON.parse, puts the object into a map and calls back. `Watch` does
 * that too, and checks the object against its schema, folds it into the evidence of its job, classifies the job where the
 * event changed anything that a classification reads, and tells an update where that changed.
 *
 * Server and clients are processes of their own. The events are prepared before and written as fast as the socket takes
 * them, one event an HTTP chunk as an API server does; the clients get them in turns, in short rounds. Each must count them all;
 * the last one is looked at, and `Watch` must tell each change that is one. Run:
 *
 *     npm run bench -- watch-updates [rounds] [events]
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/watch-updates.ts [rounds] [events]
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode, makeInformer } from "@kubernetes/client-node"
import { Effect, Layer, Stream } from "effect"
import * as Peers from "./peers.js"
import * as RawServer from "./raw-server.js"
import * as Report from "./report.js"
import * as Jobs from "./training-jobs.js"

interface Fleet {
  readonly jobs: number
  readonly ranks: number
}

const whos = ["ours", "client-node", "client-go"] as const
type Who = (typeof whos)[number]

type Order =
  | ({ readonly order: "fleet" } & Fleet)
  /** Makes so many pod events; answers the text that the last one shows, and how many are changes that are told. */
  | { readonly order: "prepare"; readonly events: number }
  /** Writes them to a client's watches on pods. */
  | { readonly order: "write"; readonly to: Who }
  /** Adds one more job through the open watches. */
  | { readonly order: "add" }
  | { readonly order: "requests" }

// Who watches is told by what is selected
const selector = (who: Who): string => `client=${who}`

const serve = (): void => {
  let fleet: Fleet = { jobs: 0, ranks: 0 }
  let requests = 0
  let version = 1_000_000
  let change = 0
  let prepared: ReadonlyArray<Buffer> = []
  const watches = new Map<string, Set<RawServer.Body>>()

  const each = (make: (job: number) => object): ReadonlyArray<object> =>
    Array.from({ length: fleet.jobs }, (_, index) => make(index))
  const lists: Readonly<Record<string, () => ReadonlyArray<object>>> = {
    trainjobs: () => each((job) => Jobs.trainJob(job, fleet.ranks)),
    jobsets: () => each((job) => Jobs.jobSet(job, fleet.ranks)),
    jobs: () => each((job) => Jobs.job(job, fleet.ranks)),
    pods: () =>
      Array.from({ length: fleet.jobs }, (_, job) => job).flatMap((job) =>
        Array.from({ length: fleet.ranks }, (_, rank) => Jobs.pod(job, rank, 0))
      ),
    events: () => []
  }
  const frame = (type: string, object: object): Buffer =>
    RawServer.chunk(
      Buffer.from(
        `${JSON.stringify({ type, object })}\n`.replace(/"resourceVersion":"\d+"/, `"resourceVersion":"${version++}"`)
      )
    )
  const tell = (kind: string, buffers: ReadonlyArray<Buffer>): void => {
    for (const body of watches.get(kind) ?? []) {
      let sent = 0
      void body.write(() => buffers[sent++])
    }
  }

  process.on("message", (message: Order) => {
    switch (message.order) {
      case "fleet":
        fleet = message
        break
      case "prepare": {
        // Over all pods in turn; the last one is a rank 0, whose change is told
        const frames = Array.from({ length: message.events }, (_, index) => {
          const at = message.events - 1 - index
          const rank = at % fleet.ranks
          const job = Math.floor(at / fleet.ranks) % fleet.jobs
          return frame("MODIFIED", Jobs.pod(job, rank, ++change))
        })
        prepared = Array.from({ length: Math.ceil(frames.length / 512) }, (_, index) =>
          Buffer.concat(frames.slice(index * 512, (index + 1) * 512))
        )
        process.send?.({ last: `"attempt ${change}"`, changes: Math.ceil(message.events / fleet.ranks) })
        return
      }
      case "write":
        tell(`pods of ${message.to}`, prepared)
        break
      case "add": {
        const job = fleet.jobs
        fleet = { ...fleet, jobs: job + 1 }
        tell("trainjobs of ours", [frame("ADDED", Jobs.trainJob(job, fleet.ranks))])
        tell("jobsets of ours", [frame("ADDED", Jobs.jobSet(job, fleet.ranks))])
        tell("jobs of ours", [frame("ADDED", Jobs.job(job, fleet.ranks))])
        break
      }
      case "requests":
        break
    }
    process.send?.({ requests })
  })

  RawServer.listen(({ path, query }) => {
    requests++
    const parts = path.split("/")
    const last = parts.at(-1) ?? ""
    if (parts.at(-2) === "nodes") return { json: Jobs.node(last) }
    if (query.get("watch") === null) {
      return {
        json: { kind: "List", apiVersion: "v1", metadata: { resourceVersion: "5000" }, items: lists[last]?.() ?? [] }
      }
    }
    const selected = query.get("labelSelector")
    const kind = `${last} of ${whos.find((who) => selected === selector(who)) ?? "ours"}`
    const open = watches.get(kind) ?? new Set()
    watches.set(kind, open)
    let mine: RawServer.Body | undefined
    return {
      type: "application/json",
      open: (body) => {
        mine = body
        open.add(body)
      },
      close: () => {
        if (mine !== undefined) open.delete(mine)
      }
    }
  })
}

/** What a client is asked for. */
type Wish =
  /** Answers `Peers.Measured` when it has been told so much; the last of it shows the text. */
  | { readonly wish: "events"; readonly events: number; readonly last: string }
  /** Answers bytes. */
  | { readonly wish: "heap" }
  /** Answers when an update with the text has been told. */
  | { readonly wish: "until"; readonly text: string }

/** Answers wishes. A client calls `seen` for what it gets, and is ready when it says so. */
const client = (start: (seen: (shown: object) => void, ready: () => void) => void): void => {
  let seen: (shown: object) => void = () => undefined
  process.on("message", (wish: Wish) => {
    globalThis.gc?.()
    switch (wish.wish) {
      case "heap":
        process.send?.(process.memoryUsage().heapUsed)
        return
      case "until":
        seen = (shown) => {
          if (JSON.stringify(shown).includes(wish.text)) process.send?.({})
        }
        break
      case "events": {
        let updates = 0
        const started = performance.now()
        const before = process.cpuUsage()
        seen = (shown) => {
          if (++updates < wish.events) return
          const { user, system } = process.cpuUsage(before)
          const measured: Peers.Measured = {
            seconds: (performance.now() - started) / 1000,
            cpu: (user + system) / 1e6,
            updates
          }
          const text = JSON.stringify(shown)
          if (updates > wish.events || !text.includes(wish.last)) {
            throw new Error(`number ${updates} of ${wish.events} does not show ${wish.last}: ${text}`)
          }
          process.send?.(measured)
        }
        break
      }
    }
    process.send?.("listening")
  })
  process.on("disconnect", () => process.exit(0))
  start(
    (shown) => seen(shown),
    () => process.send?.("ready")
  )
}

const ours = (port: number, jobs: number): void =>
  client((seen, ready) => {
    let first = 0
    void Effect.runPromise(
      Effect.gen(function* () {
        const { watch } = yield* Watch.make({ kueue: undefined })
        yield* Stream.runForEach(watch(Watch.namespace(Jobs.namespace)), (update) =>
          Effect.sync(() => {
            if (++first === jobs) setTimeout(ready, 500)
            seen(update)
          })
        )
      }).pipe(
        Effect.provide(
          Layer.merge(
            KubeApiLive.layer({ source: KubeConfig.Source.Value({ value: RawServer.kubeconfig(port) }) }),
            EvidenceStore.layerMemory()
          )
        )
      )
    )
  })

const clientNode = (port: number): void =>
  client((seen, ready) => {
    const config = new ClientNode()
    config.loadFromString(JSON.stringify(RawServer.kubeconfig(port)))
    const informer = makeInformer(
      config,
      `/api/v1/namespaces/${Jobs.namespace}/pods`,
      () => Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [] }),
      selector("client-node")
    )
    informer.on("add", seen)
    informer.on("update", seen)
    informer.on("error", (error: unknown) => {
      throw error
    })
    void informer.start().then(() => setTimeout(ready, 500))
  })

const startClient = async (who: "ours" | "client-node", port: number, jobs: number): Promise<Peers.Peer> => {
  const child = Peers.forked(import.meta.url, [who, String(port), String(jobs)])
  await child.answer()
  return child
}

const bench = async (): Promise<void> => {
  const rounds = Report.count(0, 15)
  const events = Report.count(1, 8_000)
  const report = Report.open("watch-updates")
  Peers.clientNode(report)
  const server = Peers.forked(import.meta.url, ["serve"])
  const port = await server.answer<number>()
  const ask = <A>(peer: Peers.Peer, message: Order | Wish): Promise<A> => peer.ask<A>(message)
  const go = Peers.go(report)
  const file = join(Peers.temporary("watch-updates"), "kubeconfig")
  writeFileSync(file, JSON.stringify(RawServer.kubeconfig(port)))

  const fleets: ReadonlyArray<Fleet> = [
    { jobs: 1000, ranks: 4 },
    { jobs: 1, ranks: 1000 }
  ]
  for (const fleet of fleets) {
    Report.progress(`  ${fleet.jobs} TrainJobs of ${fleet.ranks} pods`)
    await ask(server, { order: "fleet", ...fleet })
    const clients = new Map<Who, Peers.Peer>([
      ["ours", await startClient("ours", port, fleet.jobs)],
      ["client-node", await startClient("client-node", port, fleet.jobs)]
    ])
    if (!("why" in go)) {
      const informer = go.start("informer", file, Jobs.namespace, selector("client-go"))
      await informer.answer()
      clients.set("client-go", informer)
    }
    const measured: Record<Who, Array<Report.Round>> = { ours: [], "client-node": [], "client-go": [] }
    // The first rounds warm up
    for (let round = -3; round < rounds; round++) {
      const { changes, last } = await ask<{ readonly last: string; readonly changes: number }>(server, {
        order: "prepare",
        events
      })
      const turns = [...clients]
      for (let turn = 0; turn < turns.length; turn++) {
        const [who, client] = turns[(turn + round + 3) % turns.length] ?? []
        if (who === undefined || client === undefined) continue
        await ask(client, { wish: "events", events: who === "ours" ? changes : events, last })
        const through = client.answer<Peers.Measured>()
        await ask(server, { order: "write", to: who })
        const { cpu, seconds } = await through
        if (round >= 0) measured[who].push({ rate: events / seconds, cpu: cpu / events })
      }
    }
    for (const one of clients.values()) one.stop()
    const size = JSON.stringify({ type: "MODIFIED", object: Jobs.pod(1, 1, 1) }).length
    const what =
      `watch, wire to classified update, ${fleet.jobs === 1 ? "one TrainJob" : `${fleet.jobs} TrainJobs`} of ${fleet.ranks} pods, ` +
      `${events} events of ${size} bytes a round`
    const row = (who: Exclude<Who, "ours">, goal: { readonly goal?: { readonly atLeast: number } }): void =>
      report.faster({
        what,
        against: `${who}'s informer`,
        unit: "events/s",
        ours: measured.ours,
        theirs: measured[who],
        ...goal
      })
    row("client-node", { goal: { atLeast: 2 } })
    if ("why" in go) report.leftOut({ what, against: "client-go's informer", why: go.why })
    else row("client-go", {})
  }

  await ask(server, { order: "fleet", jobs: 999, ranks: 4 })
  const watcher = await startClient("ours", port, 999)
  const { requests: before } = await ask<{ readonly requests: number }>(server, { order: "requests" })
  await ask(watcher, { wish: "until", text: '"run-999"' })
  const told = watcher.answer()
  await ask(server, { order: "add" })
  await told
  const { requests: after } = await ask<{ readonly requests: number }>(server, { order: "requests" })
  watcher.stop()
  report.figure({
    what: "the 1000th TrainJob of a watched namespace",
    goal: { atMost: 0 },
    value: after - before,
    unit: "requests"
  })

  const heap = async (fleet: Fleet): Promise<number> => {
    await ask(server, { order: "fleet", ...fleet })
    const child = await startClient("ours", port, fleet.jobs)
    const bytes = await ask<number>(child, { wish: "heap" })
    child.stop()
    return bytes
  }
  const few = await heap({ jobs: 100, ranks: 4 })
  const kibibytes = (bytes: number): number => (bytes - few) / 4000 / 1024
  report.figure({
    what: "heap for each watched pod of jobs of four (TrainJob, JobSet and Job included)",
    value: kibibytes(await heap({ jobs: 1100, ranks: 4 })),
    unit: "KiB"
  })
  report.figure({
    what: "heap for each further pod of a job",
    value: kibibytes(await heap({ jobs: 100, ranks: 44 })),
    unit: "KiB"
  })
  server.stop()
}

switch (process.argv[2]) {
  case "serve":
    serve()
    break
  case "ours":
    ours(Number(process.argv[3]), Number(process.argv[4]))
    break
  case "client-node":
    clientNode(Number(process.argv[3]))
    break
  default:
    await bench()
}
