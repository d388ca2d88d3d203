/**
 * From the wire to the classified update: `Watch` against the informer of `@kubernetes/client-node`, which decodes and
 * caches and classifies nothing, on the same server.
 *
 * The server is a plain node:https server in a process of its own; the two take turns in one process. Run:
 *
 *     npm run bench -- watch-updates
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/watch-updates.ts [rounds] [events]
 */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:https"
import type { ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode, makeInformer } from "@kubernetes/client-node"
import { Effect, Fiber, Layer, Stream } from "effect"
import { median, ratio } from "./report.js"
import * as Jobs from "./training-jobs.js"

const certs = new URL("../packages/k8s-live/test/certs/", import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, certs), "utf8")

interface Fleet {
  readonly jobs: number
  readonly ranks: number
}

type Order =
  | ({ readonly order: "fleet" } & Fleet)
  /** Writes so many pod events to every open watch on pods. */
  | { readonly order: "events"; readonly events: number }
  /** Adds one more job through the open watches. */
  | { readonly order: "add" }
  | { readonly order: "requests" }
  /** Forgets the watches so far. */
  | { readonly order: "fresh" }
  /** Answers when a watch on pods is open that was not forgotten. */
  | { readonly order: "ready" }

const serve = (): void => {
  let fleet: Fleet = { jobs: 0, ranks: 0 }
  let requests = 0
  let version = 1_000_000
  let change = 0
  const watches = new Map<string, Set<ServerResponse>>()
  let onPods = (): void => undefined
  let ready = false

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
  const frame = (type: string, object: object): string =>
    `${JSON.stringify({ type, object })}\n`.replace(/"resourceVersion":"\d+"/, `"resourceVersion":"${version++}"`)

  const server = createServer({ key: read("srv.key"), cert: read("srv.crt") }, (request, response) => {
    const url = new URL(request.url ?? "/", "https://localhost")
    const parts = url.pathname.split("/")
    const last = parts.at(-1) ?? ""
    requests++
    response.on("error", () => undefined)
    response.writeHead(200, { "content-type": "application/json" })
    if (parts.at(-2) === "nodes") return void response.end(JSON.stringify(Jobs.node(last)))
    if (url.searchParams.get("watch") === null) {
      return void response.end(
        JSON.stringify({
          kind: "List",
          apiVersion: "v1",
          metadata: { resourceVersion: "5000" },
          items: lists[last]?.() ?? []
        })
      )
    }
    response.flushHeaders()
    const open = watches.get(last) ?? new Set()
    watches.set(last, open.add(response))
    if (last === "pods") {
      ready = true
      onPods()
    }
    response.on("close", () => open.delete(response))
  })

  const send = (response: ServerResponse, lines: ReadonlyArray<Buffer>): void => {
    let sent = 0
    const more = (): void => {
      while (sent < lines.length && !response.destroyed) {
        // one event, one HTTP chunk, as the API server writes them
        response.cork()
        for (let batch = 0; batch < 16 && sent < lines.length; batch++) response.write(lines[sent++])
        response.uncork()
        if (response.writableNeedDrain) return void response.once("drain", more)
      }
    }
    more()
  }
  const tell = (kind: string, lines: ReadonlyArray<Buffer>): void => {
    for (const response of watches.get(kind) ?? []) send(response, lines)
  }

  process.on("message", (message: Order) => {
    switch (message.order) {
      case "fleet":
        fleet = message
        break
      case "events": {
        // Over all pods in turn; the last one is a rank 0, whose change is told
        const lines = Array.from({ length: message.events }, (_, index) => {
          const at = message.events - 1 - index
          const rank = at % fleet.ranks
          const job = Math.floor(at / fleet.ranks) % fleet.jobs
          return Buffer.from(frame("MODIFIED", Jobs.pod(job, rank, ++change)))
        })
        tell("pods", lines)
        break
      }
      case "add": {
        const job = fleet.jobs
        fleet = { ...fleet, jobs: job + 1 }
        tell("trainjobs", [Buffer.from(frame("ADDED", Jobs.trainJob(job, fleet.ranks)))])
        tell("jobsets", [Buffer.from(frame("ADDED", Jobs.jobSet(job, fleet.ranks)))])
        tell("jobs", [Buffer.from(frame("ADDED", Jobs.job(job, fleet.ranks)))])
        break
      }
      case "requests":
        break
      case "fresh":
        ready = false
        break
      case "ready": {
        const answer = (): void => {
          onPods = () => undefined
          process.send?.({})
        }
        if (ready) answer()
        else onPods = answer
        return
      }
    }
    process.send?.({ requests })
  })
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port))
  process.on("disconnect", () => process.exit(0))
}

const ask = async <A>(child: ChildProcess, order: Order): Promise<A> => {
  const answer = once(child, "message")
  child.send(order)
  const [value] = (await answer) as [A]
  return value
}

interface Measured {
  readonly rate: number
  /** Client CPU per event, microseconds. */
  readonly cost: number
}

const timed = async (events: number, run: () => Promise<void>): Promise<Measured> => {
  globalThis.gc?.()
  const started = performance.now()
  const before = process.cpuUsage()
  await run()
  const { user, system } = process.cpuUsage(before)
  return { rate: (events / (performance.now() - started)) * 1000, cost: (user + system) / events }
}

const bench = async (): Promise<void> => {
  const rounds = Number(process.argv[2] ?? 5)
  const events = Number(process.argv[3] ?? 20_000)
  const child = fork(fileURLToPath(import.meta.url), ["serve"])
  const [port] = (await once(child, "message")) as [number]
  const kubeconfig = {
    clusters: [
      {
        name: "c",
        cluster: {
          server: `https://127.0.0.1:${port}`,
          "certificate-authority-data": Buffer.from(read("ca.crt")).toString("base64")
        }
      }
    ],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x"
  }

  /** Runs `use` with a watch that has told every job once. */
  const watching = <A>(
    fleet: Fleet,
    use: (seen: { readonly until: (text: string) => Promise<void>; readonly updates: () => number }) => Promise<A>
  ): Promise<A> =>
    Effect.runPromise(
      Effect.gen(function* () {
        const { watch } = yield* Watch.make({ kueue: undefined })
        yield* Effect.promise(() => ask(child, { order: "fresh" }))
        let updates = 0
        let wanted = ""
        let reached = (): void => undefined
        const until = (text: string): Promise<void> =>
          new Promise((resolve) => {
            wanted = text
            reached = resolve
          })
        const first = new Promise<void>((resolve) => {
          reached = resolve
        })
        const fiber = yield* Effect.fork(
          Stream.runForEach(watch(Watch.namespace(Jobs.namespace)), (update) =>
            Effect.sync(() => {
              updates++
              if (wanted === "" ? updates === fleet.jobs : JSON.stringify(update).includes(wanted)) reached()
            })
          )
        )
        yield* Effect.raceFirst(
          Effect.promise(() => first),
          Fiber.join(fiber)
        )
        yield* Effect.promise(() => ask(child, { order: "ready" }))
        const result = yield* Effect.raceFirst(
          Effect.promise(() => use({ until, updates: () => updates })),
          Effect.zipRight(Fiber.join(fiber), Effect.never)
        )
        yield* Fiber.interrupt(fiber)
        return result
      }).pipe(
        Effect.provide(
          Layer.merge(
            KubeApiLive.layer({ source: KubeConfig.Source.Value({ value: kubeconfig }) }),
            EvidenceStore.layerMemory()
          )
        )
      )
    )

  let changes = 0
  const ours = (fleet: Fleet, count: number): Promise<Measured & { readonly updates: number }> =>
    watching(fleet, async (seen) => {
      const before = seen.updates()
      const measured = await timed(count, async () => {
        // Every event is another change, the last one that of a rank 0
        changes += count
        const told = seen.until(`"attempt ${changes}"`)
        await ask(child, { order: "events", events: count })
        await told
      })
      return { ...measured, updates: seen.updates() - before }
    })

  const theirs = async (_: Fleet, count: number): Promise<Measured> => {
    const client = new ClientNode()
    client.loadFromString(JSON.stringify(kubeconfig))
    const path = `/api/v1/namespaces/${Jobs.namespace}/pods`
    const informer = makeInformer(client, path, () =>
      Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [] })
    )
    let seen = 0
    let done = (): void => undefined
    const count1 = (): void => {
      if (++seen === count) done()
    }
    informer.on("add", count1)
    informer.on("update", count1)
    await ask(child, { order: "fresh" })
    const broken = new Promise<never>((_, reject) => informer.on("error", reject))
    void informer.start()
    await Promise.race([ask(child, { order: "ready" }), broken])
    const measured = await timed(count, async () => {
      const all = new Promise<void>((resolve) => {
        done = resolve
      })
      changes += count
      await ask(child, { order: "events", events: count })
      await all
    })
    await informer.stop()
    return measured
  }

  const fleets: ReadonlyArray<Fleet & { readonly events: number }> = [
    { jobs: 1000, ranks: 4, events },
    { jobs: 1, ranks: 1000, events: Math.min(events, 5000) }
  ]
  for (const fleet of fleets) {
    const our: Array<Measured & { readonly updates: number }> = []
    const their: Array<Measured> = []
    await ask(child, { order: "fleet", ...fleet })
    for (let round = 0; round <= rounds; round++) {
      const one = await ours(fleet, fleet.events)
      const other = await theirs(fleet, fleet.events)
      // the first round warms up
      if (round === 0) continue
      our.push(one)
      their.push(other)
    }
    const rates = (of: ReadonlyArray<Measured>): Array<number> => of.map(({ rate }) => rate)
    const costs = (of: ReadonlyArray<Measured>): Array<number> => of.map(({ cost }) => cost)
    const show = (name: string, of: ReadonlyArray<Measured>): string =>
      `  ${name.padEnd(34)} ${Math.round(median(rates(of)))
        .toString()
        .padStart(7)}/s   client CPU ${median(costs(of)).toFixed(1)} us/event`
    console.log(
      [
        `${fleet.jobs} TrainJobs of ${fleet.ranks} pods, ${fleet.events} pod events of ${JSON.stringify({ type: "MODIFIED", object: Jobs.pod(1, 1, 1) }).length} bytes, ${rounds} rounds interleaved`,
        show("Watch (classified updates)", our),
        show("client-node informer (cache only)", their),
        `  Watch : informer                   ${ratio(rates(our), rates(their))} by time, ${ratio(costs(their), costs(our))} by CPU; ${our[0]?.updates ?? 0} updates a round`
      ].join("\n")
    )
  }

  const many: Fleet = { jobs: 999, ranks: 4 }
  await ask(child, { order: "fleet", ...many })
  const cost = await watching(many, async (seen) => {
    await new Promise((resolve) => setTimeout(resolve, 500))
    const { requests: before } = await ask<{ readonly requests: number }>(child, { order: "requests" })
    await Promise.all([seen.until(`"run-999"`), ask(child, { order: "add" })])
    await new Promise((resolve) => setTimeout(resolve, 500))
    const { requests: after } = await ask<{ readonly requests: number }>(child, { order: "requests" })
    return after - before
  })
  console.log(`the 1000th TrainJob of a watched namespace: ${cost} requests`)

  const heap = async (fleet: Fleet): Promise<number> => {
    await ask(child, { order: "fleet", ...fleet })
    return watching(fleet, async () => {
      await new Promise((resolve) => setTimeout(resolve, 500))
      globalThis.gc?.()
      return process.memoryUsage().heapUsed
    })
  }
  const few = await heap({ jobs: 100, ranks: 4 })
  const lots = await heap({ jobs: 1100, ranks: 4 })
  const large = await heap({ jobs: 100, ranks: 44 })
  console.log(
    `heap: ${Math.round(((lots - few) / 4000 / 1024) * 10) / 10} KiB for each watched pod of jobs of four (TrainJob, JobSet and Job included), ` +
      `${Math.round(((large - few) / 4000 / 1024) * 10) / 10} KiB for each further pod of a job`
  )
  child.disconnect()
}

if (process.argv[2] === "serve") serve()
else await bench()
