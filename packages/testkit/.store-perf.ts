import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Effect, Stream, Fiber } from "effect"
import * as Cluster from "./src/Cluster.js"
import * as Rbac from "./src/Rbac.js"
import * as Json from "./src/Json.js"
const N = 100000
const pods = { group: "", version: "v1", plural: "pods" }
const program = Effect.gen(function* () {
  const cluster = yield* Cluster.make({ objects: [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "t" } }] })
  const api = cluster.transport(Rbac.admin)
  const mk = (i: number) => KubeRequest.make("create", pods, { namespace: "t", body: { metadata: { name: `p${i}`, labels: { app: "x", "batch.kubernetes.io/job-name": `j${i % 100}` } }, spec: { nodeName: `n${i % 1000}`, containers: [{ name: "node", image: "i:1", env: [{ name: "A", value: "1" }, { name: "B", value: "2" }], resources: { limits: { cpu: "1", memory: "1Gi" } } }] } } })
  let t = performance.now()
  for (let i = 0; i < N; i++) { yield* api.call(mk(i)); if (i === 9999) console.log("10k creates", (performance.now() - t) / 10, "us each") }
  console.log("100k creates", ((performance.now() - t) / N) * 1000, "us each", process.memoryUsage().rss / 1e6, "MB rss")
  globalThis.gc?.(); console.log("heap after gc", process.memoryUsage().heapUsed / 1e6)
  t = performance.now()
  for (let i = 0; i < 2000; i++) yield* api.call(KubeRequest.make("patch", pods, { namespace: "t", name: `p${i * 37 % N}`, subresource: "status", patchType: "merge", body: { status: { phase: "Running" } } }))
  console.log("patch status at 100k", ((performance.now() - t) / 2000) * 1000, "us")
  t = performance.now()
  const page = yield* api.call(KubeRequest.make("list", pods, { namespace: "t", query: { limit: "500" } }))
  console.log("list 500", performance.now() - t, "ms", Json.at(page.body, "metadata", "remainingItemCount"))
  const fibers = yield* Effect.forEach(Array.from({ length: 1000 }), (_, i) => Effect.fork(Stream.runDrain(api.watch(KubeRequest.make("watch", pods, { namespace: "u", query: { resourceVersion: "100" } })))))
  yield* Effect.sleep("300 millis")
  t = performance.now()
  for (let i = 0; i < 2000; i++) yield* api.call(KubeRequest.make("patch", pods, { namespace: "t", name: `p${i * 41 % N}`, subresource: "status", patchType: "merge", body: { status: { phase: "Running" } } }))
  console.log("patch with 1000 idle watchers", ((performance.now() - t) / 2000) * 1000, "us")
  yield* Effect.forEach(fibers, Fiber.interrupt)
  globalThis.gc?.(); console.log("heap after gc", process.memoryUsage().heapUsed / 1e6, process.memoryUsage().rss / 1e6)
})
Effect.runPromise(program)
