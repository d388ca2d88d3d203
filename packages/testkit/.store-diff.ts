import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either } from "effect"
import * as Json from "./src/Json.js"
import * as Store from "./src/Store.js"
const NS = "h-store"
const base = "http://localhost:18431"
type R = { m: string; p: string; b?: unknown; ct?: string }
const cm = `/api/v1/namespaces/${NS}/configmaps`, po = `/api/v1/namespaces/${NS}/pods`, tj = `/apis/trainer.kubeflow.org/v1alpha1/namespaces/${NS}/trainjobs`, jb=`/apis/batch/v1/namespaces/${NS}/jobs`
const merge = "application/merge-patch+json", ap = "application/apply-patch+yaml", strat="application/strategic-merge-patch+json", jp="application/json-patch+json"
const pod = (name: string, extra: object = {}) => ({ metadata: { name, labels:{app:name} }, spec: { containers: [{ name: "c", image: "i" }], nodeSelector: { never: "x" }, automountServiceAccountToken: false, ...extra } })
const requests: R[] = [
  { m: "POST", p: `${cm}?fieldManager=editor`, b: { metadata: { name: "a" }, data: { x: "1", y: "2" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", data: { x: "2" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", data: { x: "2", y: "3" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m&force=true`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", metadata: { labels: { l: "1" }, annotations: { "a/b": "c" } }, data: { x: "2" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", data: { z: "2" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=q`, ct: merge, b: { data: { z: "9" }, metadata: { labels: { r: "s" } } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap" } },
  { m: "PATCH", p: `${cm}/a`, ct: jp, b: [{ op: "add", path: "/data/n~1m", value: "v" }, { op: "copy", from: "/data/y", path: "/data/k" }, { op: "move", from: "/data/k", path: "/data/kk" }] },
  { m: "PATCH", p: `${cm}/a`, ct: merge, b: { metadata: { finalizers: ["nodomain"] } } },
  { m: "PATCH", p: `${cm}/a`, ct: merge, b: { metadata: { name: "b" } } },
  { m: "PATCH", p: `${cm}/a`, ct: merge, b: { metadata: { namespace: "b" } } },
  { m: "PATCH", p: `${cm}/a`, ct: merge, b: [1] },
  { m: "PATCH", p: `${cm}/a`, ct: merge, b: { kind: "Pod" } },
  { m: "PATCH", p: `${cm}/a`, ct: jp, b: [{ op: "frob", path: "/x" }] },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1" } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "other" } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", metadata: { managedFields: [] } } },
  { m: "PATCH", p: `${cm}/a?fieldManager=m`, ct: ap, b: { apiVersion: "v1", kind: "ConfigMap", metadata: { managedFields: [{ manager: "x" }] } } },
  { m: "POST", p: cm, b: { metadata: { name: "o", ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "x", uid: "" }] } } },
  { m: "POST", p: cm, b: { metadata: { name: "o", ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "x", uid: "u1", controller: true }, { apiVersion: "v1", kind: "ConfigMap", name: "y", uid: "u2", controller: true }] } } },
  { m: "POST", p: cm, b: { metadata: { name: "o", finalizers: ["a"] } } },
  { m: "POST", p: cm, b: { metadata: { name: "x".repeat(254) } } },
  { m: "POST", p: cm, b: { metadata: { generateName: "Bad_" } } },
  { m: "POST", p: cm, b: { metadata: { name: "an", annotations: { "Bad Key": "1" } } } },
  { m: "POST", p: `/apis/coordination.k8s.io/v1/namespaces/${NS}/leases`, b: { metadata: { name: "l" }, spec: { leaseDurationSeconds: 0, leaseTransitions: -1 } } },
  { m: "POST", p: `/apis/coordination.k8s.io/v1/namespaces/${NS}/leases`, b: { metadata: { name: "l" }, spec: { holderIdentity: "", leaseDurationSeconds: 10, renewTime: "2026-11-29T19:00:00.123456+02:00" } } },
  { m: "POST", p: tj, b: {} },
  { m: "POST", p: tj, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", metadata: { name: "j" }, spec: { suspend: true } } },
  { m: "POST", p: `${tj}?fieldManager=cr`, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", metadata: { name: "j" }, spec: { suspend: true, runtimeRef: { name: "torch-distributed" }, trainer: { image: "x", numNodes: 2, env: [{ name: "A", value: "1" }], command: ["a", "b"] }, runtimePatches: [{ manager: "x.io/a", trainingRuntimeSpec: { template: { metadata: { labels: { a: "b" } } } } }] } } },
  { m: "PATCH", p: `${tj}/j?fieldManager=m1`, ct: ap, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", spec: { runtimePatches: [{ manager: "x.io/b", trainingRuntimeSpec: { template: { metadata: { labels: { a: "b" } } } } }] } } },
  { m: "PATCH", p: `${tj}/j?fieldManager=m1`, ct: ap, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", spec: { runtimePatches: [{ manager: "x.io/a", trainingRuntimeSpec: { template: { metadata: { labels: { a: "c" } } } } }] } } },
  { m: "PATCH", p: `${tj}/j?fieldManager=m1`, ct: ap, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", spec: {} } },
  { m: "PATCH", p: `${tj}/j?fieldManager=m1`, ct: merge, b: { spec: { managedBy: "kueue.x-k8s.io/multikueue" } } },
  { m: "PATCH", p: `${tj}/j`, ct: merge, b: { spec: { runtimePatches: [{ manager: "x.io/a" }, { manager: "x.io/a" }] } } },
  { m: "PATCH", p: `${tj}/j`, ct: merge, b: { spec: { activeDeadlineSeconds: 0 } } },
  { m: "PATCH", p: `${tj}/j`, ct: merge, b: { spec: { managedBy: "foo" } } },
  { m: "PATCH", p: `${tj}/j`, ct: merge, b: { metadata: { resourceVersion: null } } },
  { m: "PUT", p: `${tj}/j`, b: { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", metadata: { name: "j", resourceVersion: "abc" }, spec: {} } },
  { m: "GET", p: `${tj}/j/nosub` }, { m: "GET", p: `${tj}/none/nosub` }, { m: "POST", p: `${tj}/j/status`, b: {} }, { m: "GET", p: `${cm}/a/status` },
  { m: "PUT", p: tj, b: {} }, { m: "PUT", p: cm, b: {} }, { m: "DELETE", p: "/api/v1/configmaps" }, { m: "POST", p: "/api/v1/configmaps", b: {} },
  { m: "GET", p: `/api/v1/namespaces/${NS}/nodes` }, { m: "GET", p: "/api/v1/pods/x" }, { m: "GET", p: "/apis/trainer.kubeflow.org/v1/trainjobs" }, { m: "GET", p: "/apis/batch/v2/jobs" }, { m: "GET", p: `/apis/trainer.kubeflow.org/v1alpha1/namespaces/${NS}/clustertrainingruntimes` }, { m: "GET", p: "/apis/trainer.kubeflow.org/v1alpha1/trainjobs/x" },
  { m: "GET", p: `${cm}/a?resourceVersion=abc` }, { m: "GET", p: `${cm}?continue=garbage` }, { m: "GET", p: `${cm}?limit=x` }, { m: "GET", p: `${cm}?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiIvYzIifQ` }, { m: "GET", p: `${cm}?resourceVersionMatch=Bogus&resourceVersion=5` }, { m: "GET", p: `${cm}?resourceVersionMatch=Exact&resourceVersion=0` }, { m: "GET", p: `${cm}?sendInitialEvents=true` }, { m: "GET", p: `${tj}?resourceVersionMatch=Exact` },
  { m: "POST", p: po, b: pod("p1") },
  { m: "PATCH", p: `${po}/p1?fieldManager=z`, ct: strat, b: { spec: { containers: [{ name: "c", image: "j" }] } } },
  { m: "PATCH", p: `${po}/p1`, ct: strat, b: { spec: { tolerations: [{ key: "k", operator: "Exists" }] } } },
  { m: "PATCH", p: `${po}/p1/status?fieldManager=k`, ct: strat, b: { status: { conditions: [{ type: "X", status: "True" }] } } },
  { m: "PATCH", p: `${po}/p1/status?fieldManager=k`, ct: strat, b: { status: { conditions: [{ type: "Y", status: "True" }, { type: "X", status: "False" }], phase: "Running" } } },
  { m: "POST", p: `${po}/p1/binding`, b: { target: { name: "" } } },
  { m: "POST", p: `${po}/p1/eviction`, b: { metadata: { name: "other" } } },
  { m: "POST", p: `${po}/p1/eviction?dryRun=All`, b: { metadata: { name: "p1" } } },
  { m: "POST", p: po, b: { metadata: { name: "bad" }, spec: { containers: [{ name: "c" }] } } },
  { m: "POST", p: po, b: { metadata: { name: "bad" }, spec: { containers: [{ image: "c" }] } } },
  { m: "DELETE", p: `${po}/p1`, b: { kind: "Foo", apiVersion: "v1" } },
  { m: "DELETE", p: `${po}/p1`, b: { propagationPolicy: "Foreground", orphanDependents: true } },
  { m: "DELETE", p: `${po}/p1` },
  { m: "POST", p: jb, b: { metadata: { name: "k", labels: { own: "1" } }, spec: { suspend: true, completions: 2, parallelism: 2, completionMode: "Indexed", template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i:1" }] } } } } },
  { m: "PATCH", p: `${jb}/k`, ct: merge, b: { spec: { completions: 3 } } },
  { m: "PATCH", p: `${jb}/k`, ct: merge, b: { spec: { completionMode: "NonIndexed" } } },
  { m: "PATCH", p: `${jb}/k?fieldManager=z`, ct: merge, b: { spec: { template: { spec: { nodeSelector: { a: "b" } } } } } },
  { m: "POST", p: jb, b: { metadata: { name: "bad" }, spec: { template: { spec: { containers: [{ name: "c", image: "i" }] } } } } },
  { m: "POST", p: jb, b: { metadata: { name: "bad" }, spec: { template: { spec: { restartPolicy: "Always", containers: [{ name: "c", image: "i" }] } } } } },
  { m: "DELETE", p: `${jb}/k?propagationPolicy=Background` },
  { m: "DELETE", p: `${tj}/j?gracePeriodSeconds=x` },
  { m: "DELETE", p: `${tj}/j?propagationPolicy=Foreground&dryRun=All` },
  { m: "DELETE", p: `${tj}/j?propagationPolicy=Background` },
  { m: "POST", p: "/apis/rbac.authorization.k8s.io/v1/namespaces/" + NS + "/rolebindings", b: { metadata: { name: "rb" }, roleRef: { kind: "Role", name: "x" }, subjects: [{ kind: "User", name: "u" }] } },
  { m: "PATCH", p: "/apis/rbac.authorization.k8s.io/v1/namespaces/" + NS + "/rolebindings/rb", ct: merge, b: { roleRef: { name: "y" } } },
  { m: "POST", p: "/apis/rbac.authorization.k8s.io/v1/namespaces/" + NS + "/roles", b: { metadata: { name: "r:x" }, rules: [{ resources: ["pods"], apiGroups: [""] }] } },
  { m: "POST", p: "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", b: { apiVersion: "kueue.x-k8s.io/v1beta2", kind: "ClusterQueue", metadata: { name: "h-store-q" }, spec: {} } },
  { m: "DELETE", p: "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/h-store-q" },
  { m: "GET", p: `${cm}?fieldSelector=metadata.namespace%3D${NS},metadata.name%3Da` },
  { m: "DELETE", p: `${cm}?fieldSelector=metadata.name%3Da` },
]
const norm = (v: unknown): string => JSON.stringify(v, (k, e) => {
  if (k === "resourceVersion" || k === "uid" ) return "<>"
  if (k === "continue") return "<token>"
  if (typeof e !== "string") return e
  return e.replaceAll(/\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z/g, "<time>").replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<uid>").replaceAll(/\\?"resourceVersion\\?":\\?"\d+\\?"/g,"rv")
})
const sortKeys = (v: any): any => Array.isArray(v) ? v.map(sortKeys) : v && typeof v === "object" ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sortKeys(v[k])])) : v
const flat = (v: any, path = "", out: Record<string, string> = {}): Record<string, string> => { if (v && typeof v === "object") { const ks = Object.keys(v); if (ks.length === 0) out[path] = Array.isArray(v) ? "[]" : "{}"; for (const k of ks) flat(v[k], `${path}.${k}`, out) } else out[path] = JSON.stringify(v); return out }
const diff = (a: string, b: string): string => { const x = flat(JSON.parse(a)), y = flat(JSON.parse(b)); const lines: string[] = []; for (const k of new Set([...Object.keys(x), ...Object.keys(y)])) if (x[k] !== y[k]) lines.push(`    ${k}: ${x[k]?.slice(0, 260)} | ${y[k]?.slice(0, 260)}`); return lines.slice(0, 14).join("\n") }
const main = async () => {
  await fetch(`${base}/api/v1/namespaces`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ metadata: { name: NS } }) })
  await new Promise((r) => setTimeout(r, 700))
  let c = 0
  const env = (): Store.Env => ({ now: Date.now(), newUid: () => crypto.randomUUID(), suffix: () => "abcde", userAgent: "node" })
  let state = Store.seed(Store.make(), [{ apiVersion: "v1", kind: "Namespace", metadata: { name: NS } }], env()).state
  for (const r of requests) {
    const res = await fetch(base + r.p, { method: r.m, headers: { "content-type": r.ct ?? "application/json", "user-agent": "node" }, ...(r.b === undefined ? {} : { body: JSON.stringify(r.b) }) })
    const text = await res.text()
    let real: any = text; try { real = JSON.parse(text) } catch {}
    const url = new URL(r.p, base)
    const req = KubeRequest.fromHttp({ method: r.m, path: url.pathname, query: [...url.searchParams], contentType: r.ct, body: r.b })
    let mem: any, code = 0
    if (req === undefined) { mem = "unparsed" } else {
      const out = Store.apply(state, req, env()); state = out.state
      if (Either.isRight(out.reply)) { mem = out.reply.right.body; code = out.reply.right.status } else { mem = out.reply.left.text ?? out.reply.left.status; code = out.reply.left.code }
    }
    const a = norm(sortKeys(real)), b = norm(sortKeys(mem))
    const warn = res.headers.get("warning")
    if (res.status === code && a === b) { c++; continue }
    console.log(`--- ${r.m} ${r.p} ${JSON.stringify(r.b)?.slice(0, 160)}  ${res.status} | ${code} ${warn ?? ""}\n${diff(a, b)}`)
  }
  console.log(`equal: ${c} of ${requests.length}`)
}
main()
