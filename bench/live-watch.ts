/**
 * Watch events per second, from the wire to the consumer, against `@kubernetes/client-node` and client-go on the same server.
 *
 * The server is a process of its own that writes prepared bytes, one event an HTTP chunk as an API server does; the cases take
 * turns in one process, client-go in its own. Each counts the events and looks at their versions. Run:
 *
 *     npm run bench -- live-watch [rounds] [events]
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/live-watch.ts [rounds] [events]
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode, makeInformer, Watch } from "@kubernetes/client-node"
import { Effect, ManagedRuntime, Stream } from "effect"
import * as Peers from "./peers.js"
import * as RawServer from "./raw-server.js"
import * as Report from "./report.js"
import * as Jobs from "./training-jobs.js"

const path = `/api/v1/namespaces/${Jobs.namespace}/pods`
// Every event has a version of its own, because informers drop repeated ones
const versions = 1_000_000

/** An event for one of 512 pods. */
const event = (index: number): string =>
  `${JSON.stringify({ type: "MODIFIED", object: Jobs.pod(Math.floor(index / 4) % 128, index % 4, index) })}\n`.replace(
    /"resourceVersion":"\d+"/,
    `"resourceVersion":"${versions + index}"`
  )

const serve = (events: number): void => {
  const prepared = Array.from({ length: Math.ceil(events / 512) }, (_, part) =>
    Buffer.concat(
      Array.from({ length: Math.min(512, events - part * 512) }, (_, index) =>
        RawServer.chunk(Buffer.from(event(part * 512 + index)))
      )
    )
  )
  RawServer.listen(({ path: asked }) =>
    asked === path
      ? {
          type: "application/json",
          open: (body) => {
            let sent = 0
            void body.write(() => prepared[sent++]).then(body.end)
          }
        }
      : { status: 404, json: {} }
  )
}

/** What a consumer calls with each object, and what it must have been called with in the end. */
const checked = (events: number) => {
  let count = 0
  let last = versions - 1
  let wrong: string | undefined
  return {
    see: (object: unknown): number => {
      const { metadata } = object as { readonly metadata: { readonly resourceVersion: string } }
      const version = Number(metadata.resourceVersion)
      if (version !== last + 1) wrong ??= `version ${version} after ${last}`
      last = version
      return ++count
    },
    finish: (): void => {
      if (wrong !== undefined || count !== events) throw new Error(wrong ?? `${count} events of ${events}`)
    }
  }
}

type See = (object: unknown) => number

const bench = async (): Promise<void> => {
  const rounds = Report.count(0, 5)
  const events = Report.count(1, 10_000)
  const report = Report.open("live-watch")
  Peers.clientNode(report)
  const server = Peers.forked(import.meta.url, ["serve", String(events)])
  const kubeconfig = RawServer.kubeconfig(await server.answer<number>())
  const runtime = ManagedRuntime.make(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value: kubeconfig }) }))
  const api = await runtime.runPromise(KubeApi.KubeApi)
  const theirs = new ClientNode()
  theirs.loadFromString(JSON.stringify(kubeconfig))
  const go = Peers.go(report)
  const file = join(Peers.temporary("live-watch"), "kubeconfig")
  writeFileSync(file, JSON.stringify(kubeconfig))
  const clientGo = "why" in go ? undefined : go.start("watch", file, Jobs.namespace)

  const here =
    (run: (see: See) => Promise<unknown>): (() => Promise<Peers.Measured>) =>
    async () => {
      globalThis.gc?.()
      const { finish, see } = checked(events)
      const started = performance.now()
      const before = process.cpuUsage()
      await run(see)
      const seconds = (performance.now() - started) / 1000
      const { system, user } = process.cpuUsage(before)
      finish()
      return { seconds, cpu: (user + system) / 1e6, updates: events }
    }

  const cases = {
    "client-node's Watch": here(
      (see) =>
        new Promise<void>((resolve, reject) => {
          void new Watch(theirs).watch(
            path,
            {},
            (_, object: unknown) => void see(object),
            (error: unknown) => (error ? reject(error) : resolve())
          )
        })
    ),
    "client-node's informer": here(
      (see) =>
        new Promise<void>((resolve, reject) => {
          const informer = makeInformer(theirs, path, () =>
            Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [] })
          )
          const done = (object: unknown): void => {
            if (see(object) === events) void informer.stop().then(resolve, reject)
          }
          informer.on("add", done)
          informer.on("update", done)
          informer.on("error", reject)
          void informer.start()
        })
    ),
    transport: here((see) =>
      runtime.runPromise(
        Stream.runForEach(
          api.transport.watch(KubeRequest.make("watch", Core.pods, { namespace: Jobs.namespace })),
          ({ object }) => Effect.sync(() => see(object))
        )
      )
    ),
    watch: here((see) =>
      runtime.runPromise(
        Stream.runForEach(api.watch(Core.pods, { namespace: Jobs.namespace }), (event) =>
          event._tag === "Applied"
            ? Effect.sync(() => see(event.object))
            : Effect.dieMessage(`an event that is ${event._tag}`)
        )
      )
    ),
    ...(clientGo === undefined
      ? {}
      : {
          "client-go's watch": () =>
            clientGo.ask<Peers.Measured>({ events, last: String(versions + events - 1), labels: "" })
        })
  } satisfies Record<string, () => Promise<Peers.Measured>>

  const measured = new Map<string, Array<Report.Round>>()
  for (let round = 0; round <= rounds; round++) {
    Report.progress(`  round ${round} of ${rounds}`)
    const turns = Object.entries(cases)
    for (const [name, run] of [...turns.slice(round % turns.length), ...turns.slice(0, round % turns.length)]) {
      const { cpu, seconds, updates } = await run()
      // the first round warms up
      if (round === 0) continue
      measured.set(name, [...(measured.get(name) ?? []), { rate: updates / seconds, cpu: cpu / updates }])
    }
  }
  const size = `${events} events of ${event(1).length - 1} bytes a round`
  const decoded = `watch, wire to decoded event, ${size}`
  const row = (what: string, ours: string, against: string, goal?: { readonly atLeast: number }): void =>
    report.faster({
      what,
      against,
      unit: "events/s",
      ours: measured.get(ours) ?? [],
      theirs: measured.get(against) ?? [],
      ...(goal === undefined ? {} : { goal })
    })
  row(decoded, "watch", "client-node's Watch", { atLeast: 1 })
  row(decoded, "watch", "client-node's informer")
  row(`watch, wire to frame, ${size}`, "transport", "client-node's Watch")
  if ("why" in go) report.leftOut({ what: decoded, against: "client-go's watch", why: go.why })
  else row(decoded, "watch", "client-go's watch")
  await runtime.dispose()
  clientGo?.stop()
  server.stop()
}

if (process.argv[2] === "serve") serve(Number(process.argv[3]))
else await bench()
