import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as Capabilities from "@dispatch-kubeflow/core/Capabilities"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as Registry from "@dispatch-kubeflow/testkit/Registry"
import type * as Store from "@dispatch-kubeflow/testkit/Store"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Either, Fiber, TestClock } from "effect"
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

const hiding = (path: string) =>
  KubeApi.transform((transport) => ({
    ...transport,
    call: (request) =>
      request.nonResourcePath === path ? Effect.fail(ProbeWorld.forbidden(request)) : transport.call(request)
  }))

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
        KubeApi.KubeApi,
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

describe("clusters that are not as they should be", () => {
  const kueueConfig = AdapterConfig.make({ namespace: "team-a", kueue: ProbeWorld.kueue })

  /** What a webhook of somebody else's makes of a TrainJob: an object, or a refusal. */
  const webhook = (
    operation: "CREATE" | "UPDATE" | "DELETE",
    change: (object: Json) => Json | { readonly message: string; readonly reason?: string }
  ): Store.Admission => ({
    name: "policy.acme.io",
    admit: (review) => {
      if (review.definition.plural !== "trainjobs" || review.operation !== operation) return undefined
      const changed = change(review.object)
      return typeof changed["message"] === "string"
        ? Either.left({
            message: changed["message"],
            ...(changed["reason"] === undefined ? {} : { reason: "Forbidden" })
          })
        : Either.right(changed as typeof review.object)
    }
  })

  type Json = Readonly<Record<string, unknown>>

  const withMetadata = (fields: object) => (object: Json) => ({
    ...object,
    metadata: { ...(object["metadata"] as object), ...fields }
  })

  const withSpec = (fields: object) => (object: Json) => ({
    ...object,
    spec: { ...(object["spec"] as object), ...fields }
  })

  const judged = (used: AdapterConfig.AdapterConfig) =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Capabilities.make(used)
      const report = yield* ProbeWorld.drive(backend.preflight(), 2000)
      yield* TestClock.adjust("2 seconds")
      const hold = CapabilityTable.find(yield* backend.capabilities(), "Hold")
      return { backend, report, hold, left: yield* leftovers, processes: yield* cluster.processes }
    })

  const stories: ReadonlyArray<
    readonly [what: string, admission: Store.Admission, step: string, words: string, mode: string]
  > = [
    [
      "a webhook that denies the probe",
      webhook("CREATE", () => ({ message: "no TrainJobs here" })),
      "create",
      "no TrainJobs here",
      "ObserveOnly"
    ],
    [
      "a full namespace (quota)",
      webhook("CREATE", () => ({ message: "exceeded quota: none", reason: "Forbidden" })),
      "create",
      "exceeded quota: none",
      "ObserveOnly"
    ],
    [
      "a webhook that starts the probe",
      webhook("CREATE", withSpec({ suspend: false })),
      "create",
      "did not come back as it was sent",
      "Writable"
    ],
    [
      "a webhook that drops the patches",
      webhook("CREATE", withSpec({ runtimePatches: [] })),
      "create",
      "without its spec.runtimePatches entry",
      "Writable"
    ],
    [
      "a webhook that denies the un-suspend",
      webhook("UPDATE", () => ({ message: "nothing starts here" })),
      "unsuspend",
      "nothing starts here",
      "Writable"
    ]
  ]

  for (const [what, admission, step, words, mode] of stories) {
    it.scoped(`${what}: Hold is no with that step and the words, and nothing is left behind`, () =>
      Effect.gen(function* () {
        const { hold, left, processes, report } = yield* judged(config)
        expect(report.facts.hold).toMatchObject({ _tag: "Failed", step })
        expect(hold).toMatchObject({ answer: "no", source: "probed" })
        expect(hold.reason).toContain(words)
        expect(report.mode._tag).toBe(mode)
        expect([left, processes]).toEqual([[], []])
      }).pipe(Effect.provide(TestCluster.layer({ admission: [admission] })))
    )
  }

  it.scoped("a webhook that denies the deletion: Hold is no, and the report says what to delete by hand", () =>
    Effect.gen(function* () {
      const { hold, left, report } = yield* judged(config)
      expect(hold).toMatchObject({ answer: "no", source: "probed" })
      expect(hold.reason).toContain("it stays")
      expect(left.length).toBeGreaterThan(0)
      const cleanup = report.checks.find(({ id }) => id === "hold.cleanup")
      expect(cleanup).toMatchObject({ outcome: "failed" })
      expect(cleanup?.remedy).toMatch(/delete TrainJob\/dispatch-probe-\w+ by hand/)
    }).pipe(Effect.provide(TestCluster.layer({ admission: [webhook("DELETE", () => ({ message: "it stays" }))] })))
  )

  it.scoped("a finalizer on the probe: it says which and does not hang", () =>
    Effect.gen(function* () {
      const begun = yield* Clock.currentTimeMillis
      const { hold } = yield* judged(config)
      expect(hold).toMatchObject({ answer: "no", source: "probed" })
      expect(hold.reason).toContain("waits for its finalizers [acme.io/keep]")
      expect((yield* Clock.currentTimeMillis) - begun).toBeLessThan(120_000)
    }).pipe(
      Effect.provide(
        TestCluster.layer({ admission: [webhook("CREATE", withMetadata({ finalizers: ["acme.io/keep"] }))] })
      )
    )
  )

  const withoutKueue = [...Registry.kubernetes, ...Registry.jobSet, ...Registry.kubeflowTrainer]

  for (const [what, registry, reason] of [
    ["Kueue mode without Kueue", Registry.make(withoutKueue), "kueue.x-k8s.io is not served"],
    [
      "Kueue mode with v1beta1 alone",
      Registry.make([...withoutKueue, ...Registry.kueue("v1beta1")]),
      "served as v1beta1 only"
    ]
  ] as const) {
    it.scoped(`${what}: Hold and the gate are no with that reason, and the mode is observe-only`, () =>
      Effect.gen(function* () {
        const { backend, hold, left, report } = yield* judged(kueueConfig)
        const gate = CapabilityTable.find(yield* backend.capabilities(), "ReadmissionGate")
        for (const support of [hold, gate]) {
          expect(support).toMatchObject({ answer: "no", source: "probed" })
          expect(support.reason).toContain(reason.replace("kueue.x-k8s.io ", ""))
        }
        expect(report.mode._tag).toBe("ObserveOnly")
        expect(left).toEqual([])
      }).pipe(Effect.provide(TestCluster.layer({ registry })))
    )
  }

  it.scoped("Kueue mode where discovery is hidden: which version is served is not known, so Hold is unknown", () =>
    Effect.gen(function* () {
      const door = yield* Cluster
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace("team-a"))
      yield* cluster.create(Fixtures.torchConforming())
      const backend = yield* Effect.provideService(
        Capabilities.make(kueueConfig),
        KubeApi.KubeApi,
        hiding("/apis")(door.admin)
      )
      yield* ProbeWorld.drive(backend.preflight())
      expect(CapabilityTable.find(yield* backend.capabilities(), "Hold")).toMatchObject({
        answer: "unknown",
        source: "probed"
      })
    }).pipe(Effect.provide(TestCluster.layer()))
  )
})

describe("plain mode: whether Kueue captures the namespace", () => {
  it.scoped(
    "is asked anew before every write: writable before a preflight, and not once the namespace is captured",
    () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster.TestCluster
        yield* cluster.create(Fixtures.namespace("team-a"))
        yield* cluster.create(Fixtures.torchConforming())
        const backend = yield* Capabilities.make(config)
        expect(yield* backend.writable).toEqual({ _tag: "Writable" })
        yield* ProbeWorld.drive(backend.preflight())
        const door = yield* Cluster
        const before = (yield* door.audit).length
        expect(yield* backend.writable).toEqual({ _tag: "Writable" })
        // The runtime of the preflight serves again: one dry run
        const asked = (yield* door.audit).slice(before).filter(({ user }) => user === "kubernetes-admin")
        expect(asked.map(({ request }) => [request.verb, request.plural, request.query["dryRun"]])).toEqual([
          ["create", "trainjobs", "All"]
        ])
        yield* cluster.create(Fixtures.clusterQueue("pool"))
        yield* cluster.create(Fixtures.localQueue("default", { clusterQueue: "pool" }), "team-a")
        const verdict = yield* backend.writable
        expect(verdict).toMatchObject({ _tag: "ObserveOnly" })
        expect(verdict._tag === "ObserveOnly" ? verdict.reason : "").toContain("Kueue captures")
      }).pipe(Effect.provide(TestCluster.layer({ kueue: true })))
  )
})
