import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either, FastCheck } from "effect"
import { describe, expect, it } from "vitest"
import * as EventLog from "../src/EventLog.js"
import type { Failure } from "../src/Failure.js"
import * as Json from "../src/Json.js"
import * as OrderedMap from "../src/OrderedMap.js"
import * as Properties from "../src/Properties.js"
import * as Registry from "../src/Registry.js"
import * as Store from "../src/Store.js"

const configMaps = { group: "", version: "v1", plural: "configmaps" }
const pods = { group: "", version: "v1", plural: "pods" }
const jobs = { group: "batch", version: "v1", plural: "jobs" }
const nodes = { group: "", version: "v1", plural: "nodes" }
const namespaces = { group: "", version: "v1", plural: "namespaces" }
const trainJobs = { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }

/** A store with a clock that stands still and a plain way to ask it. */
const server = (options: Store.Options = {}) => {
  let counter = 0
  let state = Store.seed(
    Store.make(undefined, options),
    ["t", "u", "default"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
    { now: 0, newUid: () => "namespace-uid", suffix: () => "abcde" }
  ).state
  const env: Store.Env = {
    now: 1_000_000_500,
    newUid: () => {
      counter += 1
      return `uid-${counter}`
    },
    suffix: () => {
      counter += 1
      return `g${String(counter).padStart(4, "2")}`
    }
  }
  const ask = (
    verb: KubeRequest.Verb,
    type: KubeRequest.ResourceType,
    fields: Parameters<typeof KubeRequest.make>[2] = {}
  ): Either.Either<
    { readonly status: number; readonly body: Json.JsonObject; readonly warnings: ReadonlyArray<string> },
    Failure
  > => {
    const outcome = Store.apply(
      state,
      KubeRequest.make(verb, type, {
        ...(type === nodes || type === namespaces ? {} : { namespace: "t" }),
        ...fields
      }),
      env
    )
    state = outcome.state
    return Either.map(outcome.reply, (reply) => ({
      status: reply.status,
      warnings: reply.warnings,
      body: Json.object(reply.body)
    }))
  }
  const must = (...parameters: Parameters<typeof ask>): Json.JsonObject =>
    Either.getOrThrowWith(ask(...parameters), (failure) => new Error(JSON.stringify(failure))).body
  const refused = (...parameters: Parameters<typeof ask>): readonly [number, string] => {
    const answer = ask(...parameters)
    if (Either.isRight(answer)) throw new Error(`not refused: ${JSON.stringify(answer.right.body)}`)
    return [answer.left.code, answer.left.status?.message ?? answer.left.text ?? ""]
  }
  return {
    ask,
    must,
    refused,
    env,
    seed: (...objects: ReadonlyArray<object>) => {
      state = Store.seed(state, objects, env).state
    },
    compact: () => {
      state = Store.compact(state)
    },
    state: () => state,
    since: (version: number) =>
      EventLog.after(state.log, version).map((entry) => `${entry.type} ${entry.key}@${entry.version}`)
  }
}

const names = (list: Json.JsonObject): ReadonlyArray<string> =>
  Json.array(list["items"]).map((item) => Json.text(Json.at(item, "metadata", "name")))
const meta = (object: Json.JsonObject | undefined, key: string): Json.Json | undefined =>
  Json.at(object, "metadata", key)
const configMap = (name: string, data: object = {}, metadata: object = {}): object => ({
  metadata: { name, ...metadata },
  data
})
const trainJob = (name: string, spec: object = {}): object => ({
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  kind: "TrainJob",
  metadata: { name },
  spec: { runtimeRef: { name: "r" }, ...spec }
})
const pod = (name: string, spec: object = {}, metadata: object = {}): object => ({
  metadata: { name, ...metadata },
  spec: { containers: [{ name: "c", image: "i" }], ...spec }
})

describe("resource versions", () => {
  it("one global counter; a no-op write keeps the version and is no event", () => {
    const { must, since, state } = server()
    const before = state().version
    const a = must("create", configMaps, { body: configMap("a", { k: "1" }) })
    must("create", trainJobs, { body: trainJob("j") })
    const again = must("patch", configMaps, { name: "a", patchType: "merge", body: { data: { k: "1" } } })
    expect(meta(again, "resourceVersion")).toBe(meta(a, "resourceVersion"))
    expect(since(before)).toEqual([`ADDED t/a@${before + 1}`, `ADDED t/j@${before + 2}`])
  })

  it("a deletion takes a version of its own", () => {
    const { must, since, state } = server()
    must("create", configMaps, { body: configMap("a") })
    const before = state().version
    must("delete", configMaps, { name: "a" })
    expect(since(before)).toEqual([`DELETED t/a@${before + 1}`])
  })
})

describe("lists", () => {
  const filled = () => {
    const world = server()
    for (const name of ["c0", "c1", "c2", "c3", "c4"]) {
      world.must("create", configMaps, {
        body: configMap(name, {}, { labels: { p: Number(name[1]) % 2 === 0 ? "even" : "odd" } })
      })
    }
    return world
  }

  it("pages show the snapshot of the first, in the recorded token format", () => {
    const { must } = filled()
    const first = must("list", configMaps, { query: { limit: "2" } })
    const token = Json.text(meta(first, "continue"))
    expect(JSON.parse(atob(token.replaceAll("-", "+").replaceAll("_", "/")))).toEqual({
      v: "meta.k8s.io/v1",
      rv: Number(meta(first, "resourceVersion")),
      start: "/c1\u0000"
    })
    expect(meta(first, "remainingItemCount")).toBe(3)
    must("delete", configMaps, { name: "c2" })
    must("create", configMaps, { body: configMap("c9") })
    const second = must("list", configMaps, { query: { limit: "2", continue: token } })
    expect(names(second)).toEqual(["c2", "c3"])
    expect(meta(second, "resourceVersion")).toBe(meta(first, "resourceVersion"))
    const third = must("list", configMaps, { query: { continue: Json.text(meta(second, "continue")) } })
    expect(names(third)).toEqual(["c4"])
    expect(meta(third, "continue")).toBeUndefined()
  })

  it("a limit counts matches, and a selector hides remainingItemCount", () => {
    const { must } = filled()
    const page = must("list", configMaps, { query: { limit: "2", labelSelector: "p=even" } })
    expect(names(page)).toEqual(["c0", "c2"])
    expect(meta(page, "remainingItemCount")).toBeUndefined()
    expect(meta(page, "continue")).toBeDefined()
  })

  it("an expired token is 410 with a fresh token that goes on at the current version", () => {
    const { ask, compact, must } = filled()
    const first = must("list", configMaps, { query: { limit: "2" } })
    must("create", configMaps, { body: configMap("c11") })
    compact()
    const answer = ask("list", configMaps, { query: { limit: "2", continue: Json.text(meta(first, "continue")) } })
    const failure = Either.isLeft(answer) ? answer.left : undefined
    expect([failure?.code, failure?.status?.reason]).toEqual([410, "Expired"])
    const fresh = failure?.status?.metadata?.continue ?? ""
    const rest = must("list", configMaps, { query: { continue: fresh } })
    expect(names(rest)).toEqual(["c11", "c2", "c3", "c4"])
  })

  it("resourceVersion and resourceVersionMatch", () => {
    const { compact, must, refused, state } = filled()
    const version = String(state().version)
    must("delete", configMaps, { name: "c0" })
    expect(names(must("list", configMaps, { query: { resourceVersion: version } }))).toHaveLength(4)
    const exact = { resourceVersion: version, resourceVersionMatch: "Exact" }
    expect(names(must("list", configMaps, { query: exact }))).toHaveLength(5)
    expect(names(must("list", configMaps, { query: { resourceVersion: version, limit: "9" } }))).toHaveLength(5)
    expect(names(must("list", configMaps, { query: { resourceVersion: "0", limit: "1" } }))).toHaveLength(4)
    expect(refused("list", configMaps, { query: { resourceVersion: "99999" } })[0]).toBe(504)
    expect(refused("list", configMaps, { query: { resourceVersion: "0", resourceVersionMatch: "Exact" } })[0]).toBe(422)
    compact()
    expect(refused("list", configMaps, { query: exact })).toEqual([
      410,
      "The resourceVersion for the provided list is too old."
    ])
  })

  it("field selectors: each type its own fields and its own refusal", () => {
    const { must, refused } = server()
    must("create", pods, { body: pod("a", { nodeName: "n1" }) })
    must("create", pods, { body: pod("b") })
    expect(names(must("list", pods, { query: { fieldSelector: "spec.nodeName=n1,status.phase!=Failed" } }))).toEqual([
      "a"
    ])
    expect(names(must("list", pods, { query: { fieldSelector: "metadata.name=b" } }))).toEqual(["b"])
    expect(refused("list", pods, { query: { fieldSelector: "metadata.uid=x" } })[1]).toBe(
      "field label not supported: metadata.uid"
    )
    expect(refused("list", jobs, { query: { fieldSelector: "spec.suspend=true" } })[1]).toBe(
      'field label "spec.suspend" not supported for Job'
    )
  })

  it("order is by key, across namespaces too", () => {
    const { must, state } = server()
    for (const [namespace, name] of [
      ["u", "a"],
      ["t", "b"],
      ["t", "a-b"],
      ["t", "a"]
    ]) {
      must("create", configMaps, { namespace, body: configMap(name ?? "") })
    }
    expect(
      [...Store.list(state(), configMaps)].map(
        (object) => `${Json.text(meta(object, "namespace"))}/${Json.text(meta(object, "name"))}`
      )
    ).toEqual(["t/a", "t/a-b", "t/b", "u/a"])
  })
})

describe("generation, status, immutable fields", () => {
  it("custom resources: 1, +1 with the spec, not with status or labels; status is a world of its own", () => {
    const { must } = server()
    const created = must("create", trainJobs, { body: { ...trainJob("j"), status: { conditions: [] } } })
    expect(created["status"]).toBeUndefined()
    expect(meta(created, "generation")).toBe(1)
    const labelled = must("patch", trainJobs, {
      name: "j",
      patchType: "merge",
      body: { metadata: { labels: { a: "b" } } }
    })
    expect(meta(labelled, "generation")).toBe(1)
    const suspended = must("patch", trainJobs, {
      name: "j",
      patchType: "merge",
      body: { spec: { suspend: true }, status: { x: 1 } }
    })
    expect([meta(suspended, "generation"), suspended["status"]]).toEqual([2, undefined])
    const status = must("patch", trainJobs, {
      name: "j",
      subresource: "status",
      patchType: "merge",
      body: { metadata: { labels: { a: "z" } }, spec: { suspend: false }, status: { jobsStatus: [] } }
    })
    expect([
      meta(status, "generation"),
      Json.at(status, "metadata", "labels", "a"),
      Json.at(status, "spec", "suspend")
    ]).toEqual([2, "b", true])
  })

  it("pods/status stores metadata and ignores the spec", () => {
    const { must } = server()
    must("create", pods, { body: pod("p") })
    const patched = must("patch", pods, {
      name: "p",
      subresource: "status",
      patchType: "merge",
      body: { metadata: { labels: { a: "b" } }, spec: { nodeName: "x" }, status: { phase: "Running" } }
    })
    expect([
      Json.at(patched, "metadata", "labels", "a"),
      Json.at(patched, "spec", "nodeName"),
      Json.at(patched, "status", "phase"),
      meta(patched, "generation")
    ]).toEqual(["b", undefined, "Running", 1])
  })

  it("CEL transition rules hold only where the field is set on both sides", () => {
    const { must, refused } = server()
    must("create", trainJobs, { body: trainJob("j", { trainer: { numNodes: 1 } }) })
    const change = (spec: object) => ({ name: "j", patchType: "merge" as const, body: { spec } })
    expect(refused("patch", trainJobs, change({ trainer: { numNodes: 2 } }))).toEqual([
      422,
      'TrainJob.trainer.kubeflow.org "j" is invalid: spec.trainer: Invalid value: field is immutable'
    ])
    must("patch", trainJobs, change({ trainer: null }))
    must("patch", trainJobs, change({ trainer: { numNodes: 3 } }))
  })

  it("a pod's spec is immutable but for images, deadline and more tolerations", () => {
    const { must, refused } = server()
    must("create", pods, { body: pod("p") })
    expect(refused("patch", pods, { name: "p", patchType: "merge", body: { spec: { nodeName: "x" } } })[0]).toBe(422)
    const image = must("patch", pods, {
      name: "p",
      patchType: "strategic",
      body: { spec: { containers: [{ name: "c", image: "other" }] } }
    })
    expect([Json.at(image, "spec", "containers", 0, "image"), meta(image, "generation")]).toEqual(["other", 2])
  })

  it("a suspended Job that never ran may change its scheduling, an unsuspended one nothing", () => {
    const { must, refused } = server()
    const job = (suspend: boolean, name: string): object => ({
      metadata: { name },
      spec: { suspend, template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } } }
    })
    must("create", jobs, { body: job(true, "held") })
    must("create", jobs, { body: job(false, "free") })
    const body = { spec: { template: { spec: { nodeSelector: { a: "b" } } } } }
    must("patch", jobs, { name: "held", patchType: "merge", body })
    const [code, message] = refused("patch", jobs, { name: "free", patchType: "merge", body })
    expect([code, message.endsWith(": field is immutable")]).toEqual([422, true])
  })
})

describe("patches", () => {
  it("strategic: conditions merge by type, new ones first; taints are replaced whole", () => {
    const { must, seed } = server()
    seed({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n" },
      spec: { taints: [{ key: "a", effect: "NoSchedule" }] },
      status: {
        conditions: [
          { type: "A", status: "True" },
          { type: "B", status: "True" }
        ]
      }
    })
    const status = must("patch", nodes, {
      name: "n",
      subresource: "status",
      patchType: "strategic",
      body: {
        status: {
          conditions: [
            { type: "C", status: "True" },
            { type: "A", status: "False" },
            { $patch: "delete", type: "B" }
          ]
        }
      }
    })
    expect(Json.array(Json.at(status, "status", "conditions"))).toEqual([
      { type: "C", status: "True", lastHeartbeatTime: null, lastTransitionTime: null },
      { type: "A", status: "False", lastHeartbeatTime: null, lastTransitionTime: null }
    ])
    const tainted = must("patch", nodes, {
      name: "n",
      patchType: "strategic",
      body: { spec: { taints: [{ key: "b", effect: "NoExecute" }] } }
    })
    expect(Json.at(tainted, "spec", "taints")).toEqual([{ key: "b", effect: "NoExecute" }])
  })

  it("apply: a dropped field that nobody else owns goes; a list keyed by manager keeps the others' items", () => {
    const { must } = server()
    const apply = (manager: string, patches: ReadonlyArray<object>) =>
      must("patch", trainJobs, {
        name: "j",
        patchType: "apply",
        query: { fieldManager: manager },
        body: {
          apiVersion: "trainer.kubeflow.org/v1alpha1",
          kind: "TrainJob",
          spec: patches.length === 0 ? {} : { runtimePatches: patches }
        }
      })
    must("create", trainJobs, { body: trainJob("j") })
    apply("one", [
      { manager: "example.com/one", trainingRuntimeSpec: { template: { metadata: { labels: { a: "1" } } } } }
    ])
    const both = apply("two", [{ manager: "example.com/two" }])
    expect(Json.array(Json.at(both, "spec", "runtimePatches")).map((entry) => Json.at(entry, "manager"))).toEqual([
      "example.com/one",
      "example.com/two"
    ])
    const left = apply("one", [])
    expect(Json.at(left, "spec", "runtimePatches")).toEqual([{ manager: "example.com/two" }])
    const same = apply("one", [])
    expect(meta(same, "resourceVersion")).toBe(meta(left, "resourceVersion"))
  })

  it("apply meets fields of an update: a conflict that names the manager; force takes them", () => {
    const { must, refused } = server()
    must("create", configMaps, { body: configMap("a", { x: "1" }), query: { fieldManager: "editor" } })
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { x: "2" } }
    const [code, message] = refused("patch", configMaps, {
      name: "a",
      patchType: "apply",
      query: { fieldManager: "m" },
      body
    })
    expect(code).toBe(409)
    expect(message).toMatch(/^Apply failed with 1 conflict: conflict with "editor" using v1: \.data\.x$/)
    const forced = must("patch", configMaps, {
      name: "a",
      patchType: "apply",
      query: { fieldManager: "m", force: "true" },
      body
    })
    expect(Json.at(forced, "data", "x")).toBe("2")
  })
})

describe("deletion", () => {
  it("the last finalizer: the answer keeps the version before, the event has the last stored state", () => {
    const { must, state } = server()
    must("create", configMaps, { body: configMap("f", {}, { finalizers: ["example.com/f"] }) })
    const marked = must("delete", configMaps, { name: "f" })
    const patched = must("patch", configMaps, {
      name: "f",
      patchType: "merge",
      body: { metadata: { finalizers: null } }
    })
    expect(meta(patched, "resourceVersion")).toBe(meta(marked, "resourceVersion"))
    const last = EventLog.after(state().log, state().version - 1)[0]
    expect([last?.type, meta(last?.object, "finalizers"), meta(last?.object, "resourceVersion")]).toEqual([
      "DELETED",
      ["example.com/f"],
      String(state().version)
    ])
  })

  it("foreground and orphan put their finalizers; Jobs are orphaned by default, with a warning", () => {
    const { ask, must } = server()
    must("create", trainJobs, { body: trainJob("j") })
    const marked = must("delete", trainJobs, { name: "j", body: { propagationPolicy: "Foreground" } })
    expect([meta(marked, "finalizers"), meta(marked, "generation")]).toEqual([["foregroundDeletion"], 2])
    must("create", jobs, {
      body: {
        metadata: { name: "k" },
        spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } } }
      }
    })
    const answer = ask("delete", jobs, { name: "k" })
    expect(Either.isRight(answer) ? [meta(answer.right.body, "finalizers"), answer.right.warnings.length] : []).toEqual(
      [["orphan"], 1]
    )
  })

  it("pods: at once when unscheduled or finished, graceful else, shortened but never prolonged, forced with 0", () => {
    const { must, since, state } = server()
    must("create", pods, { body: pod("unscheduled") })
    let before = state().version
    must("delete", pods, { name: "unscheduled" })
    expect(since(before)).toEqual([`MODIFIED t/unscheduled@${before + 1}`, `DELETED t/unscheduled@${before + 2}`])
    must("create", pods, { body: pod("running", { nodeName: "n" }) })
    const marked = must("delete", pods, { name: "running" })
    expect([
      meta(marked, "deletionTimestamp"),
      meta(marked, "deletionGracePeriodSeconds"),
      meta(marked, "generation")
    ]).toEqual(["1970-01-12T13:47:10Z", 30, 2])
    before = state().version
    must("delete", pods, { name: "running", body: { gracePeriodSeconds: 60 } })
    expect(since(before)).toEqual([])
    const shorter = must("delete", pods, { name: "running", body: { gracePeriodSeconds: 5 } })
    expect([meta(shorter, "deletionTimestamp"), meta(shorter, "generation")]).toEqual(["1970-01-12T13:46:45Z", 2])
    must("delete", pods, { name: "running", body: { gracePeriodSeconds: 0 } })
    expect(Store.get(state(), pods, "t", "running")).toBeUndefined()
  })

  it("a pod with a finalizer stays after grace 0 until the finalizer goes", () => {
    const { must, state } = server()
    must("create", pods, { body: pod("p", { nodeName: "n" }, { finalizers: ["batch.kubernetes.io/job-tracking"] }) })
    must("delete", pods, { name: "p", body: { gracePeriodSeconds: 0 } })
    expect(meta(Store.get(state(), pods, "t", "p"), "deletionGracePeriodSeconds")).toBe(0)
    must("patch", pods, { name: "p", patchType: "merge", body: { metadata: { finalizers: null } } })
    expect(Store.get(state(), pods, "t", "p")).toBeUndefined()
  })

  it("with a body the query is ignored", () => {
    const { must } = server()
    must("create", configMaps, { body: configMap("a") })
    const marked = must("delete", configMaps, {
      name: "a",
      query: { propagationPolicy: "Background" },
      body: { propagationPolicy: "Foreground" }
    })
    expect(meta(marked, "finalizers")).toEqual(["foregroundDeletion"])
  })

  it("deletecollection answers the objects as they were", () => {
    const { must, state } = server()
    must("create", configMaps, { body: configMap("a", {}, { labels: { x: "y" } }) })
    must("create", configMaps, { body: configMap("b", {}, { labels: { x: "y" }, finalizers: ["example.com/f"] }) })
    must("create", configMaps, { body: configMap("c") })
    const list = must("deletecollection", configMaps, { query: { labelSelector: "x=y" } })
    expect(names(list)).toEqual(["a", "b"])
    expect([...Store.list(state(), configMaps, "t")].map((object) => meta(object, "name"))).toEqual(["b", "c"])
  })

  it("a namespace goes when its spec.finalizers are finalized", () => {
    const { must, state } = server()
    must("delete", namespaces, { name: "u" })
    const current = Store.get(state(), namespaces, undefined, "u")
    must("update", namespaces, { name: "u", subresource: "finalize", body: { ...current, spec: { finalizers: [] } } })
    expect(Store.get(state(), namespaces, undefined, "u")).toBeUndefined()
  })

  it("dryRun stores nothing and uses no version", () => {
    const { must, state } = server()
    must("create", configMaps, { body: configMap("a") })
    const before = state()
    must("create", configMaps, { body: configMap("b"), query: { dryRun: "All" } })
    must("delete", configMaps, { name: "a", query: { dryRun: "All" } })
    must("deletecollection", configMaps, { query: { dryRun: "All" } })
    expect(state()).toBe(before)
  })
})

describe("owners", () => {
  it("ownedBy follows owner references through updates and deletion", () => {
    const { must, state } = server()
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "owner-1" }
    must("create", configMaps, { body: configMap("a", {}, { ownerReferences: [owner] }) })
    must("create", pods, { body: pod("p", {}, { ownerReferences: [owner] }) })
    expect(
      Store.ownedBy(state(), "owner-1").map(
        ({ definition, object }) => `${definition.plural}/${Json.text(meta(object, "name"))}`
      )
    ).toEqual(["configmaps/a", "pods/p"])
    must("patch", pods, { name: "p", patchType: "merge", body: { metadata: { ownerReferences: null } } })
    must("delete", configMaps, { name: "a" })
    expect(Store.ownedBy(state(), "owner-1")).toEqual([])
  })

  it("two controllers and empty uids are refused", () => {
    const { refused } = server()
    const owner = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", name, uid: name, controller: true })
    const [code, message] = refused("create", configMaps, {
      body: configMap("a", {}, { ownerReferences: [owner("x"), owner("y")] })
    })
    expect([code, message.includes("Only one reference can have Controller set to true")]).toEqual([422, true])
  })
})

describe("admission", () => {
  it("a webhook changes objects or denies with its name", () => {
    const admission: Store.Admission = {
      name: "vtest.kb.io",
      admit: ({ definition, object }) => {
        if (definition.plural !== "configmaps") return undefined
        return Json.at(object, "data", "bad") === undefined
          ? Either.right(Json.set(object, ["metadata", "labels", "seen"], "yes"))
          : Either.left({ message: "bad is bad" })
      }
    }
    const { must, refused } = server({ admission: [admission] })
    expect(Json.at(must("create", configMaps, { body: configMap("a") }), "metadata", "labels", "seen")).toBe("yes")
    expect(refused("create", configMaps, { body: configMap("b", { bad: "1" }) })).toEqual([
      403,
      'admission webhook "vtest.kb.io" denied the request: bad is bad'
    ])
  })
})

describe("another version of a type", () => {
  it("is served from the same objects", () => {
    const registry = Registry.kueue("v1beta1").reduce(Registry.register, Registry.builtins)
    const env: Store.Env = { now: 0, newUid: () => "u", suffix: () => "x" }
    const state = Store.seed(
      Store.make(registry),
      [{ apiVersion: "kueue.x-k8s.io/v1beta2", kind: "ClusterQueue", metadata: { name: "q" }, spec: {} }],
      env
    ).state
    const old = Store.apply(
      state,
      KubeRequest.make("get", { group: "kueue.x-k8s.io", version: "v1beta1", plural: "clusterqueues" }, { name: "q" }),
      env
    )
    expect(Either.isRight(old.reply) && Json.at(old.reply.right.body, "apiVersion")).toBe("kueue.x-k8s.io/v1beta1")
  })
})

// ---- properties -----------------------------------------------------------------------------------------------------

type Command =
  | { readonly op: "create" | "delete" | "force" | "finalize"; readonly name: string }
  | { readonly op: "patch"; readonly name: string; readonly value: string }

const command: FastCheck.Arbitrary<Command> = FastCheck.oneof(
  FastCheck.record({
    op: FastCheck.constantFrom("create" as const, "delete" as const, "force" as const, "finalize" as const),
    name: FastCheck.constantFrom("a", "b", "c")
  }),
  FastCheck.record({
    op: FastCheck.constant("patch" as const),
    name: FastCheck.constantFrom("a", "b", "c"),
    value: FastCheck.constantFrom("1", "2")
  })
)

describe("properties", () => {
  it("replaying the log from zero gives the objects; versions only rise; older states do not change", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(command, { maxLength: 40 }), FastCheck.nat(), (commands, pick) => {
        const world = server()
        const states: Array<Store.State> = []
        const dumps: Array<string> = []
        const dump = (state: Store.State): string => JSON.stringify([...Store.list(state, pods)])
        for (const step of commands) {
          const before = world.state().version
          switch (step.op) {
            case "create":
              world.ask("create", pods, {
                body: pod(step.name, step.name === "c" ? {} : { nodeName: "n" }, {
                  finalizers: step.name === "b" ? ["example.com/f"] : []
                })
              })
              break
            case "delete":
              world.ask("delete", pods, { name: step.name })
              break
            case "force":
              world.ask("delete", pods, { name: step.name, body: { gracePeriodSeconds: 0 } })
              break
            case "finalize":
              world.ask("patch", pods, {
                name: step.name,
                patchType: "merge",
                body: { metadata: { finalizers: null } }
              })
              break
            case "patch":
              world.ask("patch", pods, {
                name: step.name,
                patchType: "merge",
                body: { metadata: { labels: { v: step.value } } }
              })
          }
          const entries = EventLog.after(world.state().log, before)
          expect(entries.map(({ version }) => version)).toEqual(entries.map((_, index) => before + 1 + index))
          expect(world.state().version).toBe(before + entries.length)
          states.push(world.state())
          dumps.push(dump(world.state()))
        }
        const replayed = new Map<string, Json.JsonObject>()
        for (const entry of EventLog.after(world.state().log, 0, Registry.typeKey(pods))) {
          expect(replayed.get(entry.key)).toEqual(entry.previous)
          if (entry.type === "DELETED") replayed.delete(entry.key)
          else replayed.set(entry.key, entry.object)
        }
        expect([...replayed].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object)).toEqual([
          ...Store.list(world.state(), pods)
        ])
        const older = states[pick % Math.max(1, states.length)]
        if (older !== undefined) {
          expect(dump(older)).toBe(dumps[pick % states.length])
          const exact = Store.apply(
            world.state(),
            KubeRequest.make("list", pods, {
              query: { resourceVersion: String(older.version), resourceVersionMatch: "Exact" }
            }),
            world.env
          )
          const items = Either.isRight(exact.reply) ? Json.array(Json.at(exact.reply.right.body, "items")) : []
          expect(items.map((item) => meta(Json.object(item), "resourceVersion"))).toEqual(
            [...Store.list(older, pods)].map((object) => meta(object, "resourceVersion"))
          )
        }
      }),
      Properties.parameters(150)
    )
  })

  it("the ordered map agrees with a sorted model", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.tuple(FastCheck.boolean(), FastCheck.string({ maxLength: 3 })), { maxLength: 200 }),
        FastCheck.string({ maxLength: 2 }),
        (steps, probe) => {
          let map: OrderedMap.OrderedMap<number> = OrderedMap.empty
          const model = new Map<string, number>()
          steps.forEach(([add, key], index) => {
            map = add ? OrderedMap.set(map, key, index) : OrderedMap.remove(map, key)
            if (add) model.set(key, index)
            else model.delete(key)
          })
          const sorted = [...model].toSorted(([a], [b]) => (a < b ? -1 : 1))
          expect([...OrderedMap.entries(map)]).toEqual(sorted)
          expect(OrderedMap.size(map)).toBe(model.size)
          expect(OrderedMap.rank(map, probe)).toBe(sorted.filter(([key]) => key < probe).length)
          expect([...OrderedMap.withPrefix(map, probe)]).toEqual(sorted.filter(([key]) => key.startsWith(probe)))
          expect(OrderedMap.get(map, probe)).toBe(model.get(probe))
        }
      ),
      Properties.parameters(200)
    )
  })
})

describe("size", () => {
  it("a write to a store of 20 000 pods costs what it costs in an empty one, within a factor", () => {
    const time = (count: number): number => {
      const world = server()
      world.seed(
        ...Array.from({ length: count }, (_, index) => ({
          apiVersion: "v1",
          kind: "Pod",
          metadata: { namespace: "t", name: `p${index}` },
          spec: { containers: [{ name: "c", image: "i" }] }
        }))
      )
      const started = performance.now()
      for (let round = 0; round < 300; round += 1) {
        world.must("patch", pods, {
          name: "p7",
          patchType: "merge",
          body: { metadata: { labels: { round: String(round) } } }
        })
      }
      return performance.now() - started
    }
    time(10)
    const small = time(10)
    expect(time(20_000)).toBeLessThan(small * 4 + 50)
  })
})
