import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as Capabilities from "@dispatch-kubeflow/core/Capabilities"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, TestClock } from "effect"
import * as ProbeWorld from "./probeWorld.js"

const config = AdapterConfig.make({ namespace: "team-a" })

const role = (rules: ReadonlyArray<object>): ReadonlyArray<object> => [
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name: "dispatcher", namespace: "team-a" },
    rules
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name: "dispatcher", namespace: "team-a" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "dispatcher" },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "dispatcher" }]
  }
]

const leftovers = Effect.gen(function* () {
  const { admin } = yield* Cluster
  const jobs = yield* admin.transport.call({
    verb: "list",
    group: "trainer.kubeflow.org",
    version: "v1alpha1",
    plural: "trainjobs",
    query: {}
  })
  const sets = yield* admin.transport.call({
    verb: "list",
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    plural: "jobsets",
    query: {}
  })
  return [jobs.body, sets.body].flatMap((list) => (list as { readonly items: ReadonlyArray<unknown> }).items)
})

describe("preflight against the controllers", () => {
  it.scoped("the hold round trip passes, leaves nothing behind, and starts no pod", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchDistributed())
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Capabilities.make(config)
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.checks.filter((it) => it.outcome === "failed")).toEqual([])
      expect(report.facts.hold).toEqual({ _tag: "Passed" })
      expect(report.mode).toEqual({ _tag: "Writable" })
      expect(yield* leftovers).toEqual([])
      expect(yield* cluster.processes).toEqual([])
      const table = yield* backend.capabilities({ runtimeRef: { name: "torch-conforming" } })
      expect(CapabilityTable.find(table, "ProcsPerNode").answer).toBe("yes")
      const refused = yield* Effect.flip(backend.capabilities({ runtimeRef: { name: "torch-distributed" } }))
      expect(refused._tag).toBe("ErrUnsupported")
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped(`holdProbe: "real" really starts, and suspends before it deletes`, () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Capabilities.make({ ...config, holdProbe: "real" })
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.facts.hold).toEqual({ _tag: "Passed" })
      const steps = report.checks.flatMap((it) => (it.id.startsWith("hold.") ? [it.id] : []))
      expect(steps).toEqual([
        "hold.create",
        "hold.suspended",
        "hold.no-pods",
        "hold.unsuspend",
        "hold.start",
        "hold.stop",
        "hold.delete",
        "hold.gone",
        "hold.sweep"
      ])
      expect(yield* leftovers).toEqual([])
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("P09: with the JobSet controller away Hold is no, and the probe is deleted all the same", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Capabilities.make(config)
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "suspended" })
      expect(CapabilityTable.find(yield* backend.capabilities(), "Hold").answer).toBe("no")
      expect(yield* leftovers).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer({ without: ["jobset"] })))
  )

  it.scoped("interrupted while the probe exists it leaves nothing", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Capabilities.make(config)
      const fiber = yield* Effect.fork(backend.preflight())
      for (let turn = 0; turn < 50 && (yield* leftovers).length === 0; turn += 1) yield* TestClock.adjust("20 millis")
      expect((yield* leftovers).length).toBeGreaterThan(0)
      yield* ProbeWorld.drive(Fiber.interrupt(fiber))
      expect(yield* leftovers).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer({ without: ["jobset"] })))
  )
})

describe("RBAC of the cluster", () => {
  const asDispatcher = (rules: ReadonlyArray<object>) =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      for (const object of role(rules)) yield* cluster.create(object, "team-a")
      const door = yield* Cluster
      return yield* Effect.provideService(
        Capabilities.make(config),
        KubeApi,
        door.as(Rbac.user("dispatcher", ["system:authenticated"]))
      )
    })

  it.scoped("P01, P02: as a subject without pods/log (pods/logs grants nothing): lowered, with the reason", () =>
    Effect.gen(function* () {
      const backend = yield* asDispatcher([
        { apiGroups: [""], resources: ["pods", "pods/logs", "pods/*"], verbs: ["get", "list", "watch"] }
      ])
      const table = yield* backend.capabilities()
      expect(CapabilityTable.find(table, "OutputRead")).toMatchObject({ answer: "no", source: "probed" })
      expect(CapabilityTable.find(table, "OutputRead").reason).toContain("get pods/log")
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  for (const resource of ["pods/log", "*/log", "*"]) {
    it.scoped(`P02: a role on "${resource}" grants the log`, () =>
      Effect.gen(function* () {
        const backend = yield* asDispatcher([
          { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"] },
          { apiGroups: [""], resources: [resource], verbs: ["get"] }
        ])
        const table = yield* backend.capabilities()
        expect(CapabilityTable.find(table, "OutputRead").answer).toBe("yes")
        expect(CapabilityTable.find(table, "OutputFollow").answer).toBe("yes")
      }).pipe(Effect.provide(TestCluster.layer()))
    )
  }
})
