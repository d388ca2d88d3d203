/**
 * From the wire to the classified update: `Watch` against the informer of `@kubernetes/client-node`, on the same bytes.
 *
 * For each event the informer splits off a line, runs JSON.parse, puts the object into a map and calls back. `Watch` does
 * that too, and checks the object against its schema, folds it into the evidence of its job, classifies the job where the
 * event changed anything that a classification reads, and tells an update where that changed.
 *
 * Server and clients are processes of their own. The events are prepared before and written as fast as the socket takes
 * them, one event an HTTP chunk as an API server does; first one client gets them, then the other, in short rounds. Run:
 *
 *     npm run bench -- watch-updates
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/watch-updates.ts [rounds] [events]
 */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode, makeInformer } from "@kubernetes/client-node"
import { Effect, Layer, Stream } from "effect"
import * as RawServer from "./raw-server.js"
import { median, ratio } from "./report.js"
import * as Jobs from "./training-jobs.js"

interface Fleet {
  readonly jobs: number
  readonly ranks: number
}

type Who = "ours" | "theirs"

type Order =
  | ({ readonly order: "fleet" } & Fleet)
  /** Makes so many pod events; answers the text that the last one shows. */
  | { readonly order: "prepare"; readonly events: number }
  /** Writes them to a client's watches on pods. */
  | { readonly order: "write"; readonly to: Who }
  /** Adds one more job through the open watches. */
  | { readonly order: "add" }
  | { readonly order: "requests" }

// The informer is told from the others by what it selects
const theirSelector = "client=informer"

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
        process.send?.({ last: `"attempt ${change}"` })
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
    const kind = `${last} of ${query.get("labelSelector") === theirSelector ? "theirs" : "ours"}`
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
  /** Answers `Measured` when the events are through. */
  | { readonly wish: "events"; readonly events: number; readonly last: string }
  /** Answers bytes. */
  | { readonly wish: "heap" }
  /** Answers when an update with the text has been told. */
  | { readonly wish: "until"; readonly text: string }

interface Measured {
  readonly seconds: number
  /** Client CPU of all its threads, seconds. */
  readonly cpu: number
  readonly updates: number
}

/** Answers wishes. A client calls `seen` for what it gets, and is ready when it says so. */
const client = (start: (seen: (isLast: (last: string) => boolean) => void, ready: () => void) => void): void => {
  let last = ""
  let updates = 0
  let remaining = Number.POSITIVE_INFINITY
  let done = (): void => undefined
  process.on("message", (wish: Wish) => {
    if (wish.wish === "heap") {
      globalThis.gc?.()
      process.send?.(process.memoryUsage().heapUsed)
      return
    }
    globalThis.gc?.()
    last = wish.wish === "until" ? wish.text : wish.last
    remaining = wish.wish === "until" ? Number.POSITIVE_INFINITY : wish.events
    updates = 0
    const started = performance.now()
    const before = process.cpuUsage()
    done = () => {
      done = () => undefined
      const { user, system } = process.cpuUsage(before)
      const measured: Measured = {
        seconds: (performance.now() - started) / 1000,
        cpu: (user + system) / 1e6,
        updates
      }
      process.send?.(measured)
    }
    process.send?.("listening")
  })
  process.on("disconnect", () => process.exit(0))
  start(
    (isLast) => {
      updates++
      if (--remaining === 0 || (last !== "" && isLast(last))) done()
    },
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
            seen((last) => JSON.stringify(update).includes(last))
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

const theirs = (port: number): void =>
  client((seen, ready) => {
    const config = new ClientNode()
    config.loadFromString(JSON.stringify(RawServer.kubeconfig(port)))
    const informer = makeInformer(
      config,
      `/api/v1/namespaces/${Jobs.namespace}/pods`,
      () => Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [] }),
      theirSelector
    )
    const counted = (): void => seen(() => false)
    informer.on("add", counted)
    informer.on("update", counted)
    informer.on("error", (error: unknown) => {
      throw error
    })
    void informer.start().then(() => setTimeout(ready, 500))
  })

const file = fileURLToPath(import.meta.url)

const answerOf = async <A>(child: ChildProcess): Promise<A> => {
  const [value] = (await once(child, "message")) as [A]
  return value
}
const ask = <A>(child: ChildProcess, order: Order | Wish): Promise<A> => {
  const answer = answerOf<A>(child)
  child.send(order)
  return answer
}
const startClient = async (who: Who, port: number, jobs: number): Promise<ChildProcess> => {
  const child = fork(file, [who, String(port), String(jobs)])
  await answerOf(child)
  return child
}

const bench = async (): Promise<void> => {
  const rounds = Number(process.argv[2] ?? 15)
  const events = Number(process.argv[3] ?? 8_000)
  const server = fork(file, ["serve"])
  const port = await answerOf<number>(server)

  const fleets: ReadonlyArray<Fleet> = [
    { jobs: 1000, ranks: 4 },
    { jobs: 1, ranks: 1000 }
  ]
  for (const fleet of fleets) {
    await ask(server, { order: "fleet", ...fleet })
    const clients = {
      ours: await startClient("ours", port, fleet.jobs),
      theirs: await startClient("theirs", port, fleet.jobs)
    }
    const measured: Record<Who, Array<Measured>> = { ours: [], theirs: [] }
    // The first rounds warm up
    for (let round = -3; round < rounds; round++) {
      const { last } = await ask<{ readonly last: string }>(server, { order: "prepare", events })
      const turns: ReadonlyArray<Who> = round % 2 === 0 ? ["ours", "theirs"] : ["theirs", "ours"]
      for (const who of turns) {
        await ask(clients[who], { wish: "events", events, last })
        const through = answerOf<Measured>(clients[who])
        await ask(server, { order: "write", to: who })
        const one = await through
        if (round >= 0) measured[who].push(one)
      }
    }
    for (const who of ["ours", "theirs"] as const) clients[who].disconnect()
    const times = (who: Who): Array<number> => measured[who].map(({ seconds }) => seconds)
    const costs = (who: Who): Array<number> => measured[who].map(({ cpu }) => cpu)
    const show = (name: string, who: Who): string =>
      `  ${name.padEnd(34)} ${Math.round(events / median(times(who)))
        .toString()
        .padStart(7)}/s   client CPU ${((median(costs(who)) / events) * 1e6).toFixed(1)} us/event`
    console.log(
      [
        `${fleet.jobs} TrainJobs of ${fleet.ranks} pods, ${events} pod events of ${JSON.stringify({ type: "MODIFIED", object: Jobs.pod(1, 1, 1) }).length} bytes, ${rounds} rounds interleaved`,
        show("Watch (classified updates)", "ours"),
        show("client-node informer (cache only)", "theirs"),
        `  Watch : informer                   ${ratio(times("theirs"), times("ours"))} by time, ${ratio(costs("theirs"), costs("ours"))} by CPU; ${measured.ours[0]?.updates ?? 0} updates a round`
      ].join("\n")
    )
  }

  await ask(server, { order: "fleet", jobs: 999, ranks: 4 })
  const watcher = await startClient("ours", port, 999)
  const { requests: before } = await ask<{ readonly requests: number }>(server, { order: "requests" })
  await ask(watcher, { wish: "until", text: '"run-999"' })
  const told = answerOf(watcher)
  await ask(server, { order: "add" })
  await told
  const { requests: after } = await ask<{ readonly requests: number }>(server, { order: "requests" })
  watcher.disconnect()
  console.log(`the 1000th TrainJob of a watched namespace: ${after - before} requests`)

  const heap = async (fleet: Fleet): Promise<number> => {
    await ask(server, { order: "fleet", ...fleet })
    const child = await startClient("ours", port, fleet.jobs)
    const bytes = await ask<number>(child, { wish: "heap" })
    child.disconnect()
    return bytes
  }
  const few = await heap({ jobs: 100, ranks: 4 })
  const lots = await heap({ jobs: 1100, ranks: 4 })
  const large = await heap({ jobs: 100, ranks: 44 })
  console.log(
    `heap: ${Math.round(((lots - few) / 4000 / 1024) * 10) / 10} KiB for each watched pod of jobs of four (TrainJob, JobSet and Job included), ` +
      `${Math.round(((large - few) / 4000 / 1024) * 10) / 10} KiB for each further pod of a job`
  )
  server.disconnect()
}

switch (process.argv[2]) {
  case "serve":
    serve()
    break
  case "ours":
    ours(Number(process.argv[3]), Number(process.argv[4]))
    break
  case "theirs":
    theirs(Number(process.argv[3]))
    break
  default:
    await bench()
}
