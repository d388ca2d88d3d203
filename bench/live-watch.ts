/**
 * Watch events per second, from the wire to the consumer, against `@kubernetes/client-node` on the same server.
 *
 * The server is a plain node:https server in a process of its own; the cases take turns in one process. Run:
 *
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source bench/live-watch.ts [rounds] [events]
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { KubeConfig as ClientNode, makeInformer, Watch } from "@kubernetes/client-node"
import { ManagedRuntime, Stream } from "effect"
import { median } from "./report.js"

const certs = new URL("../packages/k8s-live/test/certs/", import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, certs), "utf8")

/** A running training pod of about 2 KB, as the API server sends it. */
const pod = (index: number): object => ({
  kind: "Pod",
  apiVersion: "v1",
  metadata: {
    name: `run-1-node-0-${index}-abcde`,
    generateName: `run-1-node-0-${index}-`,
    namespace: "team",
    uid: `8c3e51b4-6f0e-4f2b-9d57-${String(index).padStart(12, "0")}`,
    resourceVersion: String(100000 + index),
    creationTimestamp: "2026-11-29T15:00:00Z",
    labels: {
      "batch.kubernetes.io/job-completion-index": String(index),
      "batch.kubernetes.io/job-name": "run-1-node-0",
      "jobset.sigs.k8s.io/jobset-name": "run-1",
      "jobset.sigs.k8s.io/jobset-uid": "3d9a5a1e-13b4-4b11-9a61-3f4f1c1e7d55",
      "jobset.sigs.k8s.io/replicatedjob-name": "node"
    },
    annotations: { "dispatch-kubeflow.dev/admission": "1" },
    ownerReferences: [
      {
        apiVersion: "batch/v1",
        kind: "Job",
        name: "run-1-node-0",
        uid: "f2b1a7f0-9c55-4c36-8a53-16f3f7d7a001",
        controller: true,
        blockOwnerDeletion: true
      }
    ]
  },
  spec: {
    nodeName: `gpu-${index % 64}`,
    restartPolicy: "Never",
    schedulerName: "default-scheduler",
    containers: [
      {
        name: "node",
        image: "registry.example.com/team/train:2026-11-29",
        command: ["torchrun", "--nnodes=8", "train.py", "--epochs", "3"],
        resources: { limits: { "nvidia.com/gpu": "8", cpu: "96", memory: "1Ti" } },
        env: [
          { name: "PET_NNODES", value: "8" },
          { name: "PET_MASTER_ADDR", value: "run-1-node-0-0.run-1" },
          { name: "PET_MASTER_PORT", value: "29400" }
        ]
      }
    ]
  },
  status: {
    phase: "Running",
    hostIP: "10.0.0.7",
    podIP: "10.1.2.3",
    startTime: "2026-11-29T15:00:02Z",
    conditions: [
      { type: "PodScheduled", status: "True", lastTransitionTime: "2026-11-29T15:00:01Z" },
      { type: "Initialized", status: "True", lastTransitionTime: "2026-11-29T15:00:02Z" },
      { type: "ContainersReady", status: "True", lastTransitionTime: "2026-11-29T15:00:04Z" },
      { type: "Ready", status: "True", lastTransitionTime: "2026-11-29T15:00:04Z" }
    ],
    containerStatuses: [
      {
        name: "node",
        ready: true,
        restartCount: 0,
        image: "registry.example.com/team/train:2026-11-29",
        imageID: "sha256:1b0b1c0f",
        containerID: `containerd://${"a".repeat(60)}${index % 10}`,
        state: { running: { startedAt: "2026-11-29T15:00:03Z" } }
      }
    ]
  }
})

const serve = (): void => {
  // 512 pods; every event has a version of its own, because the informer drops repeated ones
  const texts = Array.from(
    { length: 512 },
    (_, index) => `${JSON.stringify({ type: "MODIFIED", object: pod(index) })}\n`
  )
  const lines: Array<Buffer> = []
  const line = (index: number): Buffer =>
    (lines[index] ??= Buffer.from(
      (texts[index % texts.length] ?? "").replace(/"resourceVersion":"\d+"/, `"resourceVersion":"${1_000_000 + index}"`)
    ))
  const server = createServer({ key: read("srv.key"), cert: read("srv.crt") }, (request, response) => {
    const url = new URL(request.url ?? "/", "https://localhost")
    const count = Number(url.searchParams.get("labelSelector")?.split("=")[1] ?? "0")
    response.on("error", () => undefined)
    response.writeHead(200, { "content-type": "application/json" })
    response.flushHeaders()
    let sent = 0
    const more = (): void => {
      while (sent < count && !response.destroyed) {
        // one event, one HTTP chunk, as the API server writes them
        response.cork()
        for (let batch = 0; batch < 16 && sent < count; batch++) response.write(line(sent++))
        response.uncork()
        if (response.writableNeedDrain) return void response.once("drain", more)
      }
      response.end()
    }
    more()
  })
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port))
  process.on("disconnect", () => process.exit(0))
}

const bench = async (): Promise<void> => {
  const rounds = Number(process.argv[2] ?? 7)
  const events = Number(process.argv[3] ?? 30_000)
  const child = fork(fileURLToPath(import.meta.url), ["serve"])
  const [port] = (await once(child, "message")) as [number]
  const server = `https://127.0.0.1:${port}`
  const selector = `count=${events}`
  const kubeconfig = {
    clusters: [
      { name: "c", cluster: { server, "certificate-authority-data": Buffer.from(read("ca.crt")).toString("base64") } }
    ],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x"
  }
  const runtime = ManagedRuntime.make(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value: kubeconfig }) }))
  const api = await runtime.runPromise(KubeApi.KubeApi)
  const theirs = new ClientNode()
  theirs.loadFromString(JSON.stringify(kubeconfig))
  const path = "/api/v1/namespaces/team/pods"

  const cases: Record<string, () => Promise<number>> = {
    "client-node Watch (raw JSON)": () =>
      new Promise((resolve, reject) => {
        let count = 0
        void new Watch(theirs).watch(
          path,
          { labelSelector: selector },
          () => void count++,
          (error: unknown) => (error ? reject(error) : resolve(count))
        )
      }),
    "client-node informer (raw JSON, cache)": () =>
      new Promise((resolve, reject) => {
        let count = 0
        const informer = makeInformer(
          theirs,
          path,
          () => Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [] }),
          selector
        )
        const done = (): void => {
          if (++count === events) void informer.stop().then(() => resolve(count), reject)
        }
        informer.on("add", done)
        informer.on("update", done)
        informer.on("error", reject)
        void informer.start()
      }),
    "live transport.watch (frames)": () =>
      runtime.runPromise(
        Stream.runCount(
          api.transport.watch(
            KubeRequest.make("watch", Core.pods, { namespace: "team", query: { labelSelector: selector } })
          )
        )
      ),
    "live KubeApi.watch (decoded events)": () =>
      runtime.runPromise(
        Stream.runCount(api.watch(Core.pods, { namespace: "team", labels: Selector.labels({ count: String(events) }) }))
      )
  }

  const empty = (): Record<string, Array<number>> => Object.fromEntries(Object.keys(cases).map((name) => [name, []]))
  const rates = empty()
  const costs = empty()
  for (let round = 0; round <= rounds; round++) {
    for (const [name, run] of Object.entries(cases)) {
      globalThis.gc?.()
      const started = performance.now()
      const before = process.cpuUsage()
      const count = await run()
      const rate = (count / (performance.now() - started)) * 1000
      if (count !== events) throw new Error(`${name}: ${count} events of ${events}`)
      const { user, system } = process.cpuUsage(before)
      // the first round warms up
      if (round === 0) continue
      rates[name]?.push(rate)
      costs[name]?.push((user + system) / count)
    }
  }
  const reference = "client-node Watch (raw JSON)"
  const size = JSON.stringify({ type: "MODIFIED", object: pod(1) }).length
  console.log(`${events} events of ${size} bytes, ${rounds} rounds; ratios are medians of each round's own`)
  for (const name of Object.keys(cases)) {
    const speed = rates[name] ?? []
    const cost = costs[name] ?? []
    const faster = median(speed.map((rate, index) => rate / (rates[reference]?.[index] ?? rate)))
    const cheaper = median(cost.map((cpu, index) => (costs[reference]?.[index] ?? cpu) / cpu))
    console.log(
      `${name.padEnd(40)} ${Math.round(median(speed)).toString().padStart(7)}/s ${faster.toFixed(2)}x   ` +
        `client CPU ${median(cost).toFixed(1)} us/event ${cheaper.toFixed(2)}x`
    )
  }
  await runtime.dispose()
  child.disconnect()
}

if (process.argv[2] === "serve") serve()
else await bench()
