import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, TestClock } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import * as Rbac from "../src/Rbac.js"

// The lines of FIDELITY.md's table "Simplified", as far as no other test has them: what memory does, and a real server does not

const namespace = "default"
const type = (group: string, version: string, plural: string): KubeRequest.ResourceType => ({ group, version, plural })
const pods = type("", "v1", "pods")
const configMaps = type("", "v1", "configmaps")
const events = type("", "v1", "events")
const jobs = type("batch", "v1", "jobs")
const jobSets = type("jobset.x-k8s.io", "v1alpha2", "jobsets")

const create = (of: KubeRequest.ResourceType, body: object) => KubeRequest.make("create", of, { namespace, body })

const spec = (more: object = {}) => ({ containers: [{ name: "n", image: "i:1" }], ...more })

/** Performs the requests on a fresh cluster; the last answer. */
const last = (...requests: ReadonlyArray<KubeRequest.KubeRequest>) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.make()
    const { call } = cluster.transport(Rbac.admin)
    let answer = yield* call(KubeRequest.make("list", pods, { namespace }))
    for (const request of requests) answer = yield* call(request)
    return answer
  })

describe("simplified", () => {
  it.effect("unknown fields of custom resources: types without a schema here keep them", () =>
    Effect.gen(function* () {
      const body = {
        apiVersion: "jobset.x-k8s.io/v1alpha2",
        kind: "JobSet",
        metadata: { name: "s" },
        spec: { zeta: 1 }
      }
      expect(yield* last(create(jobSets, body))).toMatchObject({ body: { spec: { zeta: 1 } }, warnings: [] })
    })
  )

  it.effect("types of fields: one that the adapter does not meet is taken as it comes", () =>
    Effect.gen(function* () {
      const body = { metadata: { name: "p" }, spec: spec({ hostNetwork: "yes" }) }
      expect(yield* last(create(pods, body))).toMatchObject({ body: { spec: { hostNetwork: "yes" } } })
    })
  )

  it.effect("validation of specs: values that no list of choices has are taken as they come", () =>
    Effect.gen(function* () {
      const body = { metadata: { name: "p" }, spec: spec({ dnsPolicy: "Sometimes" }) }
      expect(yield* last(create(pods, body))).toMatchObject({ status: 201 })
    })
  )

  it.effect("labels of a Job that has none of its own: stored with it, so that a change of nothing is no write", () =>
    Effect.gen(function* () {
      const body = { metadata: { name: "j" }, spec: { template: { spec: spec({ restartPolicy: "Never" }) } } }
      const made = yield* last(create(jobs, body))
      const nothing = KubeRequest.make("patch", jobs, { namespace, name: "j", patchType: "merge", body: {} })
      const after = yield* last(create(jobs, body), nothing)
      expect(Json.at(made.body, "metadata", "labels", "batch.kubernetes.io/job-name")).toBe("j")
      expect(Json.at(after.body, "metadata", "resourceVersion")).toBe(Json.at(made.body, "metadata", "resourceVersion"))
    })
  )

  it.effect("duplicate members of an applied object: the last counts", () =>
    Effect.gen(function* () {
      const apply = KubeRequest.make("patch", configMaps, {
        namespace,
        name: "c",
        patchType: "apply",
        query: { fieldManager: "m" },
        body: '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}'
      })
      expect(yield* last(apply)).toMatchObject({ body: { data: { a: "2" } }, warnings: [] })
    })
  )

  it.effect("warnings of a request that is refused: there are none", () =>
    Effect.gen(function* () {
      const taken = create(configMaps, { metadata: { name: "c" } })
      const cluster = yield* Cluster.make()
      const { call } = cluster.transport(Rbac.admin)
      yield* call(taken)
      const error = yield* Effect.flip(call(create(configMaps, { metadata: { name: "c" }, bogus: 1 })))
      expect(error._tag).toBe("KubeConflict")
      expect(JSON.stringify(error)).not.toContain("bogus")
    })
  )

  it.effect("managedFields: objects that are seeded are not tracked", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make({
        objects: [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c", namespace }, data: { a: "1" } }]
      })
      const patch = KubeRequest.make("patch", configMaps, {
        namespace,
        name: "c",
        patchType: "merge",
        body: { data: { a: "2" } }
      })
      const { body } = yield* cluster.transport(Rbac.admin).call(patch)
      expect(Json.at(body, "metadata", "managedFields")).toBeUndefined()
    })
  )

  it.effect("default service account: one that does not exist is no obstacle to a pod; its token is not mounted", () =>
    Effect.gen(function* () {
      const { body } = yield* last(
        create(pods, { metadata: { name: "p" }, spec: spec({ serviceAccountName: "nobody" }) })
      )
      expect(Json.at(body, "spec", "serviceAccountName")).toBe("nobody")
      expect(Json.at(body, "spec", "volumes")).toBeUndefined()
    })
  )

  it.effect("fieldManager default: unknown in memory", () =>
    Effect.gen(function* () {
      const { body } = yield* last(create(configMaps, { metadata: { name: "c" }, data: { a: "1" } }))
      expect(Json.at(body, "metadata", "managedFields", 0, "manager")).toBe("unknown")
    })
  )

  it.effect("events: kept until deleted", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make()
      const { call } = cluster.transport(Rbac.admin)
      const body = { metadata: { name: "e" }, involvedObject: { kind: "Pod", name: "p", namespace }, reason: "R" }
      yield* call(create(events, body))
      yield* TestClock.adjust("3 hours")
      expect((yield* call(KubeRequest.make("get", events, { namespace, name: "e" }))).status).toBe(200)
    })
  )
})
