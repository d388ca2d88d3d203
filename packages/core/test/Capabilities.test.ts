import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as Capabilities from "@dispatch-kubeflow/core/Capabilities"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import { capabilities } from "@dispatch-kubeflow/core/decide/Support"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeForbidden } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ProbeWorld from "./probeWorld.js"

const config = AdapterConfig.make({ namespace: "team-a" })
const spec = { runtimeRef: { name: "torch-strict" } }

const make = (world: ProbeWorld.World, used = config) =>
  Effect.provideService(Capabilities.make(used), KubeApi.KubeApi, world.api)

const kubernetesDefaults = { backoffLimit: undefined, template: { spec: { containers: [{ name: "node" }] } } }

describe("cost", () => {
  it.effect("after preflight, capabilities() makes no request and capabilities(spec) exactly one (the runtime)", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      const backend = yield* make(world)
      yield* ProbeWorld.drive(backend.preflight())
      const before = (yield* world.audit).length
      const table = yield* backend.capabilities()
      expect(table.map((it) => it.capability)).toEqual(capabilities)
      expect(CapabilityTable.find(table, "Hold").answer).toBe("yes")
      expect((yield* world.audit).length).toBe(before)
      const withSpec = yield* backend.capabilities(spec)
      expect(CapabilityTable.find(withSpec, "ProcsPerNode")).toMatchObject({ answer: "yes", source: "declared" })
      const requests = (yield* world.audit).slice(before)
      expect(requests.map(KubeRequest.describe)).toEqual([
        'get clustertrainingruntimes.trainer.kubeflow.org "torch-strict"'
      ])
    })
  )

  it.effect("before a preflight it asks three permissions, and without a spec no runtime is read", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      const backend = yield* make(world)
      yield* backend.capabilities()
      expect((yield* world.audit).map((it) => it.plural)).toEqual(Array(3).fill("selfsubjectaccessreviews"))
    })
  )
})

describe("output permissions", () => {
  it.effect("P01: as a subject without pods/log: lowered, with the reason, without a preflight", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ denied: ["get pods/log"] })
      const table = yield* (yield* make(world)).capabilities()
      for (const capability of ["OutputRead", "OutputFollow"] as const) {
        const support = CapabilityTable.find(table, capability)
        expect(support).toMatchObject({ answer: "no", source: "probed" })
        expect(support.reason).toContain("get pods/log")
      }
    })
  )

  it.effect("P03: a check that errors is not a denial: unknown, probed, with the error", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ reviewsFail: ["get pods/log"] })
      const table = yield* (yield* make(world)).capabilities()
      const support = CapabilityTable.find(table, "OutputRead")
      expect(support).toMatchObject({ answer: "unknown", source: "probed" })
      expect(support.reason).toContain("the server is busy")
    })
  )

  it.effect("P05: lowered at a 403 that is met later; may rise again when probed again", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      const backend = yield* make(world)
      yield* ProbeWorld.drive(backend.preflight())
      expect(CapabilityTable.find(yield* backend.capabilities(), "OutputRead").answer).toBe("yes")
      const request = KubeRequest.make(
        "get",
        { group: "", version: "v1", plural: "pods" },
        { namespace: "team-a", name: "run-1-node-0-0-x", subresource: "log" }
      )
      yield* backend.lower(new KubeForbidden({ request }))
      const support = CapabilityTable.find(yield* backend.capabilities(), "OutputRead")
      expect(support).toMatchObject({ answer: "no", source: "probed" })
      expect(support.reason).toContain(`verb "get" on "pods/log"`)
      yield* ProbeWorld.drive(backend.preflight())
      expect(CapabilityTable.find(yield* backend.capabilities(), "OutputRead").answer).toBe("yes")
    })
  )

  it.effect("a refusal of something else lowers nothing; one of the hold's permission lowers Hold", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      const backend = yield* make(world)
      yield* ProbeWorld.drive(backend.preflight())
      const before = yield* backend.capabilities()
      const refusal = (verb: KubeRequest.Verb, group: string, plural: string) =>
        new KubeForbidden({
          request: KubeRequest.make(verb, { group, version: "v1", plural }, { namespace: "team-a" })
        })
      yield* backend.lower(refusal("get", "", "nodes"))
      yield* backend.lower(refusal("patch", "kueue.x-k8s.io", "workloads"))
      expect(yield* backend.capabilities()).toEqual(before)
      yield* backend.lower(refusal("patch", "trainer.kubeflow.org", "trainjobs"))
      expect(CapabilityTable.find(yield* backend.capabilities(), "Hold").answer).toBe("no")
    })
  )
})

describe("the spec's runtime", () => {
  it.effect("a runtime that breaks the rules fails with ErrUnsupported that lists every broken rule", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ runtimes: [ProbeWorld.runtime("shipped", kubernetesDefaults)] })
      const error = yield* Effect.flip((yield* make(world)).capabilities({ runtimeRef: { name: "shipped" } }))
      expect(error._tag).toBe("ErrUnsupported")
      if (error._tag !== "ErrUnsupported") return
      expect(error.details.map((it) => [it.where.split(".").at(-1), it.remedy])).toEqual([
        ["restartPolicy", "set Never"],
        ["backoffLimit", "set 0"]
      ])
      expect(error.message).toContain("ClusterTrainingRuntime/shipped")
    })
  )

  it.effect("accepted in-place restarts: the answers come, with the caution on OutputRead and OutputFollow", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ runtimes: [ProbeWorld.runtime("shipped", kubernetesDefaults)] })
      const backend = yield* make(world, { ...config, inPlaceRestarts: "accept" })
      const table = yield* backend.capabilities({ runtimeRef: { name: "shipped" } })
      expect(CapabilityTable.find(table, "OutputRead").reason).toContain("an in-place restart replaces the log")
    })
  )

  it.effect("a missing one is ErrNotFound; an unreadable one is the Kube error", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        fault: (request) => (request.name === "secret" ? ProbeWorld.forbidden(request) : undefined)
      })
      const backend = yield* make(world)
      const missing = yield* Effect.flip(backend.capabilities({ runtimeRef: { name: "nope" } }))
      expect(missing).toMatchObject({ _tag: "ErrNotFound", kind: "ClusterTrainingRuntime", name: "nope" })
      const own = yield* Effect.flip(backend.capabilities({ runtimeRef: { name: "nope", kind: "TrainingRuntime" } }))
      expect(own).toMatchObject({ _tag: "ErrNotFound", kind: "TrainingRuntime", namespace: "team-a" })
      const unreadable = yield* Effect.flip(backend.capabilities({ runtimeRef: { name: "secret" } }))
      expect(unreadable._tag).toBe("KubeForbidden")
      const foreign = yield* Effect.flip(
        backend.capabilities({ runtimeRef: { name: "x", kind: "Foo", apiGroup: "acme.io" } })
      )
      expect(foreign._tag).toBe("ErrUnsupported")
    })
  )
})

describe("writable", () => {
  const kueueConfig = AdapterConfig.make({ namespace: "team-a", kueue: ProbeWorld.kueue })

  it.effect("the proof is taken at preflight and again before every write that starts pods", () =>
    Effect.gen(function* () {
      const leases = { dead: false }
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        groups: ProbeWorld.servedWithKueue,
        objects: ProbeWorld.gateObjects,
        fault: (request) => (leases.dead && request.plural === "leases" ? ProbeWorld.notFound(request) : undefined)
      })
      const backend = yield* make(world, kueueConfig)
      expect(yield* backend.writable).toMatchObject({ _tag: "ObserveOnly" })
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.mode).toEqual({ _tag: "Writable" })
      expect(yield* backend.writable).toEqual({ _tag: "Writable" })
      leases.dead = true
      const verdict = yield* backend.writable
      expect(verdict).toMatchObject({ _tag: "ObserveOnly" })
      expect(verdict._tag === "ObserveOnly" ? verdict.reason : "").toContain("Lease/gate")
      const table = yield* backend.capabilities()
      expect(CapabilityTable.find(table, "ReadmissionGate").answer).toBe("no")
      expect(CapabilityTable.find(table, "AttemptInjection")).toEqual(CapabilityTable.find(table, "ReadmissionGate"))
    })
  )

  it.effect("read-only and plain", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      expect(yield* (yield* make(world, { ...config, access: "read-only" })).writable).toMatchObject({
        _tag: "ReadOnly"
      })
      expect(yield* (yield* make(world)).writable).toEqual({ _tag: "Writable" })
    })
  )
})

it.effect("rules(policy): the Hold rule has the Hold capability's Support, whole", () =>
  Effect.gen(function* () {
    const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
    const backend = yield* make(world)
    const policy = [
      { cause: "NoCapacity", action: "Hold" },
      { cause: "NodeLost", action: "Resubmit" }
    ]
    const [hold] = yield* backend.rules(policy)
    expect(hold?.support).toEqual(CapabilityTable.find(yield* backend.capabilities(), "Hold"))
    yield* ProbeWorld.drive(backend.preflight())
    const answers = yield* backend.rules(policy)
    expect(answers.map((it) => it.support.answer)).toEqual(["yes", "yes"])
  })
)
