import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Either, Stream } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import * as Rbac from "../src/Rbac.js"

// Where stand-ins for an API server were found to differ from one

const namespace = "default"
const configMaps = { group: "", version: "v1", plural: "configmaps" }
const pods = { group: "", version: "v1", plural: "pods" }
const nodes = { group: "", version: "v1", plural: "nodes" }
const leases = { group: "coordination.k8s.io", version: "v1", plural: "leases" }
const trainJobs = { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }

/** A cluster and a plain way to ask it as its administrator. */
const server = Effect.gen(function* () {
  const cluster = yield* Cluster.make()
  const transport = cluster.transport(Rbac.admin)
  const ask = (
    verb: KubeRequest.Verb,
    type: KubeRequest.ResourceType,
    fields: Parameters<typeof KubeRequest.make>[2] = {}
  ) =>
    Effect.map(
      Effect.either(
        transport.call(KubeRequest.make(verb, type, { ...(type === nodes ? {} : { namespace }), ...fields }))
      ),
      (result) =>
        Either.isRight(result)
          ? { code: 200, body: Json.object(result.right.body), message: "", causes: [] }
          : {
              code: result.left.status?.code ?? 0,
              body: {},
              message: result.left.status?.message ?? "",
              causes: result.left.status?.details?.causes ?? []
            }
    )
  /** The frames of a watch, up to a number. */
  const frames = (query: Readonly<Record<string, string>>, count: number, plural = configMaps) =>
    Effect.map(
      Stream.runCollect(Stream.take(transport.watch(KubeRequest.make("watch", plural, { namespace, query })), count)),
      (all) =>
        Chunk.toReadonlyArray(all).map(
          ({ type, object }) => `${type} ${nameOf(Json.object(object))} ${version(Json.object(object))}`
        )
    )
  return { cluster, transport, ask, frames }
})

const version = (body: Json.JsonObject): number => Number(Json.at(body, "metadata", "resourceVersion"))
const nameOf = (body: Json.JsonObject): string => {
  const name = Json.at(body, "metadata", "name")
  return typeof name === "string" ? name : ""
}
const configMap = (name: string, data: Json.JsonObject = {}): Json.JsonObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data
})
const pod = (name: string): Json.JsonObject => ({
  metadata: { name },
  spec: { containers: [{ name: "node", image: "busybox:1" }] }
})
const trainJob = (name: string): Json.JsonObject => ({
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  kind: "TrainJob",
  metadata: { name },
  spec: { runtimeRef: { name: "torch-distributed" } }
})

describe("versions", () => {
  it.effect("F01: every write and deletion takes the cluster's next version; one that changes nothing takes none", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      const first = version((yield* ask("create", configMaps, { body: configMap("a") })).body)
      const other = version((yield* ask("create", pods, { body: pod("p") })).body)
      expect(other).toBe(first + 1)
      const same = yield* ask("patch", configMaps, { name: "a", patchType: "merge", body: { data: {} } })
      expect(version(same.body)).toBe(first)
      yield* ask("delete", configMaps, { name: "a" })
      const list = yield* ask("list", configMaps)
      expect(version(list.body)).toBe(other + 1)
    })
  )

  it.effect("F02: an empty list has a version; a watch without one, or from 0, begins with what there is", () =>
    Effect.gen(function* () {
      const { ask, frames } = yield* server
      const empty = version((yield* ask("list", configMaps)).body)
      expect(empty).toBeGreaterThan(0)
      const made = version((yield* ask("create", configMaps, { body: configMap("a") })).body)
      for (const query of [{}, { resourceVersion: "0" }, { resourceVersion: String(empty) }]) {
        expect(yield* frames(query, 1)).toEqual([`ADDED a ${made}`])
      }
    })
  )

  it.effect(
    "F03: what is deleted between a list and its watch is told, with the deletion's version; or it is 410",
    () =>
      Effect.gen(function* () {
        const { ask, frames, cluster, transport } = yield* server
        yield* ask("create", configMaps, { body: configMap("a") })
        const listed = version((yield* ask("list", configMaps)).body)
        yield* ask("delete", configMaps, { name: "a" })
        expect(yield* frames({ resourceVersion: String(listed) }, 1)).toEqual([`DELETED a ${listed + 1}`])
        yield* ask("create", configMaps, { body: configMap("b") })
        yield* cluster.compact()
        const expired = yield* Effect.flip(
          Stream.runDrain(
            transport.watch(
              KubeRequest.make("watch", configMaps, { namespace, query: { resourceVersion: String(listed) } })
            )
          )
        )
        expect(expired._tag).toBe("KubeExpired")
      })
  )
})

describe("writes", () => {
  it.effect("F05: the object ignores its status, the status everything else; only the spec has generations", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      yield* ask("create", trainJobs, { body: trainJob("j") })
      const status = {
        conditions: [
          { type: "Complete", status: "True", reason: "x", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" }
        ]
      }
      const put = (body: Json.JsonObject, subresource?: string) =>
        Effect.flatMap(ask("get", trainJobs, { name: "j" }), (now) =>
          ask("update", trainJobs, {
            name: "j",
            ...(subresource === undefined ? {} : { subresource }),
            body: { ...now.body, ...body }
          })
        )
      const main = yield* put({ status })
      expect(Json.at(main.body, "status", "conditions")).toBeUndefined()
      expect(Json.at(main.body, "metadata", "generation")).toBe(1)
      const labels = { metadata: { ...(Json.at(main.body, "metadata") as Json.JsonObject), labels: { a: "b" } } }
      const sub = yield* put({ ...labels, status, spec: { runtimeRef: { name: "other" } } }, "status")
      expect(Json.at(sub.body, "status", "conditions", 0, "type")).toBe("Complete")
      expect(Json.at(sub.body, "metadata", "labels")).toBeUndefined()
      expect(Json.at(sub.body, "spec", "runtimeRef", "name")).toBe("torch-distributed")
      const suspended = yield* ask("patch", trainJobs, {
        name: "j",
        patchType: "merge",
        body: { spec: { suspend: true } }
      })
      expect(Json.at(suspended.body, "metadata", "generation")).toBe(2)
    })
  )

  it.effect("F06: a stale version is a conflict, on the status too; a patch that names none is not", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      const old = (yield* ask("create", trainJobs, { body: trainJob("j") })).body
      yield* ask("patch", trainJobs, { name: "j", patchType: "merge", body: { spec: { suspend: true } } })
      expect((yield* ask("update", trainJobs, { name: "j", body: old })).code).toBe(409)
      expect((yield* ask("update", trainJobs, { name: "j", subresource: "status", body: old })).code).toBe(409)
      const stale = { metadata: { resourceVersion: String(version(old)) }, spec: { suspend: false } }
      expect((yield* ask("patch", trainJobs, { name: "j", patchType: "merge", body: stale })).code).toBe(409)
      const free = yield* ask("patch", trainJobs, { name: "j", patchType: "merge", body: { spec: { suspend: false } } })
      expect(free.code).toBe(200)
    })
  )

  it.effect("F08: what the caller gave is never changed, nor is what was answered before", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      const given = configMap("a", { k: "1" })
      const copy = structuredClone(given)
      const made = (yield* ask("create", configMaps, { body: given })).body
      const madeCopy = structuredClone(made)
      yield* ask("patch", configMaps, { name: "a", patchType: "merge", body: { data: { k: "2" } } })
      const deleted = yield* ask("delete", configMaps, { name: "a" })
      expect(given).toEqual(copy)
      expect(made).toEqual(madeCopy)
      expect(["Status", "ConfigMap"]).toContain(Json.at(deleted.body, "kind"))
    })
  )

  it.effect("F09: apply creates; a second manager conflicts unless it forces; what its owner drops is removed", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      const apply = (fieldManager: string, data: Json.JsonObject, force = false) =>
        ask("patch", configMaps, {
          name: "a",
          patchType: "apply",
          query: { fieldManager, ...(force ? { force: "true" } : {}) },
          body: configMap("a", data)
        })
      expect(Json.at((yield* apply("m1", { x: "1", y: "1" })).body, "data")).toEqual({ x: "1", y: "1" })
      const conflict = yield* apply("m2", { x: "2" })
      expect(conflict.code).toBe(409)
      expect(conflict.causes.map(({ reason }) => reason)).toEqual(["FieldManagerConflict"])
      expect(Json.at((yield* apply("m2", { x: "2" }, true)).body, "data")).toEqual({ x: "2", y: "1" })
      // x is m2's now; y was m1's alone
      expect(Json.at((yield* apply("m1", {})).body, "data")).toEqual({ x: "2" })
    })
  )

  it.effect("F11: a Lease's time has six digits; others are refused, and microseconds are kept", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      const lease = (renewTime: string) => ({ metadata: { name: "l" }, spec: { holderIdentity: "a", renewTime } })
      expect((yield* ask("create", leases, { body: lease("2026-01-02T03:04:05.180Z") })).code).toBe(400)
      const made = yield* ask("create", leases, { body: lease("2026-01-02T03:04:05.180001Z") })
      expect(Json.at(made.body, "spec", "renewTime")).toBe("2026-01-02T03:04:05.180001Z")
    })
  )
})

describe("reads", () => {
  it.effect(
    "F12, P12: pods are selected by phase, node and name; a selector that a type does not have is refused",
    () =>
      Effect.gen(function* () {
        const { ask } = yield* server
        for (const name of ["a", "b"]) yield* ask("create", pods, { body: pod(name) })
        yield* ask("patch", pods, {
          name: "b",
          subresource: "status",
          patchType: "merge",
          body: { status: { phase: "Running" } }
        })
        const found = (fieldSelector: string) =>
          Effect.map(ask("list", pods, { query: { fieldSelector } }), ({ body }) =>
            Json.array(Json.at(body, "items")).map((item) => Json.at(item, "metadata", "name"))
          )
        expect(yield* found("status.phase=Running")).toEqual(["b"])
        expect(yield* found("status.phase!=Running,spec.nodeName=")).toEqual(["a"])
        expect(yield* found(`metadata.name=a,metadata.namespace=${namespace}`)).toEqual(["a"])
        const refused = yield* ask("list", nodes, { query: { fieldSelector: "status.phase=x" } })
        expect([refused.code, refused.message]).toEqual([400, "field label not supported: status.phase"])
      })
  )

  it.effect("F14: a subresource that a type does not have is 404, and never the object itself", () =>
    Effect.gen(function* () {
      const { ask } = yield* server
      yield* ask("create", configMaps, { body: configMap("a", { k: "0" }) })
      for (const subresource of ["scale", "status", "log"]) {
        const answer = yield* ask("patch", configMaps, {
          name: "a",
          subresource,
          patchType: "merge",
          body: { data: { k: "1" } }
        })
        expect([subresource, answer.code]).toEqual([subresource, 404])
      }
      expect(Json.at((yield* ask("get", configMaps, { name: "a" })).body, "data")).toEqual({ k: "0" })
    })
  )

  it.effect("F15: every way to an object leads to the same one", () =>
    Effect.gen(function* () {
      const { ask, cluster, frames } = yield* server
      yield* cluster.seed([{ ...configMap("seeded"), metadata: { name: "seeded", namespace } }])
      yield* ask("create", configMaps, { body: configMap("asked") })
      const reader = cluster.transport({ user: "somebody", groups: ["system:masters"] })
      const seen = yield* reader.call(KubeRequest.make("list", configMaps, { namespace }))
      const names = Json.array(Json.at(Json.object(seen.body), "items")).map((item) =>
        Json.at(item, "metadata", "name")
      )
      expect(new Set(names)).toEqual(new Set(["asked", "seeded"]))
      expect(new Set((yield* frames({}, 2)).map((text) => text.split(" ")[1]))).toEqual(new Set(["asked", "seeded"]))
    })
  )
})
