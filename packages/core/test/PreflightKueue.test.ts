/**
 * Kueue mode against Kueue's stages: the proof of the gate and each way in which it is refuted, and what a watch makes of a
 * preemption and of a hold.
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as Capabilities from "@dispatch-kubeflow/core/Capabilities"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { admissionChecks, clusterQueues, localQueues, workloads } from "@dispatch-kubeflow/core/model/Kueue"
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { DateTime, Effect, TestClock } from "effect"
import * as ProbeWorld from "./probeWorld.js"
import * as WatchWorld from "./WatchWorld.js"

const namespace = "team-a"
const kueue: AdapterConfig.KueueConfig = {
  localQueue: "train",
  admissionCheck: "gate",
  controllerName: "example.com/gate",
  lease: { namespace, name: "gate-controller" }
}
const config = AdapterConfig.make({ namespace, kueue })

const patch = (type: Resource.Any, name: string, body: unknown, subresource?: string) =>
  Effect.gen(function* () {
    const { admin } = yield* Cluster
    const cluster = yield* TestCluster.TestCluster
    yield* admin.transport.call(
      KubeRequest.make("patch", type, {
        name,
        subresource,
        ...(type.scope === "Namespaced" ? { namespace } : {}),
        patchType: "merge",
        body,
        query: { fieldManager: "gate-controller" }
      })
    )
    yield* cluster.settle
  })

const remove = (type: Resource.Any, name: string) =>
  Effect.gen(function* () {
    const { admin } = yield* Cluster
    const cluster = yield* TestCluster.TestCluster
    yield* admin.transport.call(
      KubeRequest.make("delete", type, { name, ...(type.scope === "Namespaced" ? { namespace } : {}) })
    )
    yield* cluster.settle
  })

/** A queue that is gated by a check whose controller lives. */
const prepare = (cpu = "4") =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* cluster.create(Fixtures.namespace(namespace, { team: "a" }))
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.torchConforming())
    yield* cluster.create(Fixtures.resourceFlavor("default"))
    yield* cluster.create(Fixtures.admissionCheck("gate"))
    yield* cluster.create(
      Fixtures.clusterQueue("pool", {
        quotas: { default: { cpu } },
        admissionChecks: ["gate"],
        withinClusterQueue: "LowerPriority"
      })
    )
    yield* cluster.create(Fixtures.localQueue("train", { clusterQueue: "pool" }), namespace)
    const now = DateTime.formatIso(yield* DateTime.now).replace("Z", "000Z")
    yield* cluster.create(
      Fixtures.lease("gate-controller", { holderIdentity: "gate-0", renewTime: now, leaseDurationSeconds: 3600 }),
      namespace
    )
    yield* patch(admissionChecks, "gate", { status: Fixtures.activeStatus("True") }, "status")
    yield* TestClock.adjust("2 seconds")
    return cluster
  })

const judged = Effect.gen(function* () {
  const backend = yield* Capabilities.make(config)
  const report = yield* ProbeWorld.drive(backend.preflight())
  const capabilities = yield* backend.capabilities()
  return { report, gate: CapabilityTable.find(capabilities, "ReadmissionGate"), capabilities }
})

describe("Kueue mode on Kueue", () => {
  it.scoped("the gate is proven, the hold round trip passes, and nothing is left behind", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      const { capabilities, gate, report } = yield* judged
      expect(report.checks.filter(({ outcome }) => outcome === "failed")).toEqual([])
      expect(gate).toMatchObject({ answer: "yes", source: "probed" })
      expect(CapabilityTable.find(capabilities, "Hold").answer).toBe("yes")
      expect(CapabilityTable.find(capabilities, "AttemptInjection")).toMatchObject({ answer: "yes", source: "probed" })
      expect(report.mode).toEqual({ _tag: "Writable" })
      expect(yield* cluster.processes).toEqual([])
      const { admin } = yield* Cluster
      const left = yield* Effect.forEach(
        ["trainjobs.trainer.kubeflow.org/v1alpha1", "workloads.kueue.x-k8s.io/v1beta2"],
        (type) => {
          const [, plural = "", group = "", version = ""] = /^(\w+)\.(.+)\/(\w+)$/.exec(type) ?? []
          return Effect.map(
            admin.transport.call(KubeRequest.make("list", { group, version, plural })),
            ({ body }) => (body as { readonly items: ReadonlyArray<unknown> }).items
          )
        }
      )
      expect(left.flat()).toEqual([])
    }).pipe(Effect.provide(TestCluster.layer({ kueue: true })))
  )

  const refutations: ReadonlyArray<
    readonly [
      what: string,
      spoil: Effect.Effect<void, unknown, Cluster | TestCluster.TestCluster>,
      step: string,
      names: string
    ]
  > = [
    [
      "the LocalQueue is stopped",
      patch(localQueues, "train", { spec: { stopPolicy: "Hold" } }),
      "gate.local-queue",
      "LocalQueue/train"
    ],
    ["the LocalQueue is gone", remove(localQueues, "train"), "gate.local-queue", "LocalQueue/train"],
    [
      "the ClusterQueue is stopped",
      patch(clusterQueues, "pool", { spec: { stopPolicy: "HoldAndDrain" } }),
      "gate.cluster-queue",
      "ClusterQueue/pool"
    ],
    ["the ClusterQueue is gone", remove(clusterQueues, "pool"), "gate.local-queue", "LocalQueue/train"],
    [
      "the ClusterQueue selects other namespaces, which no condition tells",
      patch(clusterQueues, "pool", { spec: { namespaceSelector: { matchLabels: { team: "b" } } } }),
      "gate.namespace-selector",
      "ClusterQueue/pool spec.namespaceSelector"
    ],
    [
      "the ClusterQueue does not list the check",
      patch(clusterQueues, "pool", { spec: { admissionChecksStrategy: { admissionChecks: [] } } }),
      "gate.check-listed",
      "ClusterQueue/pool"
    ],
    [
      "the check is for some flavors",
      patch(clusterQueues, "pool", {
        spec: { admissionChecksStrategy: { admissionChecks: [{ name: "gate", onFlavors: ["default"] }] } }
      }),
      "gate.check-listed",
      "onFlavors"
    ],
    [
      "a MultiKueue check is listed too",
      Effect.gen(function* () {
        const cluster = yield* TestCluster.TestCluster
        yield* cluster.create(
          Fixtures.admissionCheck("elsewhere", {
            controllerName: "kueue.x-k8s.io/multikueue",
            spec: { parameters: { apiGroup: "kueue.x-k8s.io", kind: "MultiKueueConfig", name: "mk" } }
          })
        )
        yield* patch(clusterQueues, "pool", {
          spec: { admissionChecksStrategy: { admissionChecks: [{ name: "gate" }, { name: "elsewhere" }] } }
        })
      }),
      "gate.multikueue",
      "AdmissionCheck/elsewhere"
    ],
    [
      "the check is not active",
      patch(admissionChecks, "gate", { status: Fixtures.activeStatus("Unknown") }, "status"),
      "gate.admission-check",
      "AdmissionCheck/gate"
    ],
    [
      "the check is being deleted, and stays Active True while a queue names it",
      remove(admissionChecks, "gate"),
      "gate.admission-check",
      "AdmissionCheck/gate"
    ],
    ["the Lease of the check's controller has run out", TestClock.adjust("2 hours"), "gate.lease", "gate-controller"]
  ]

  for (const [what, spoil, id, names] of refutations) {
    it.scoped(`not gated: ${what}`, () =>
      Effect.gen(function* () {
        yield* prepare()
        yield* spoil
        yield* TestClock.adjust("2 seconds")
        const { gate, report } = yield* judged
        const failed = report.checks.filter(({ id: each, outcome }) => each.startsWith("gate.") && outcome === "failed")
        expect(failed.map(({ id: each }) => each)).toContain(id)
        const told = failed.find(({ id: each }) => each === id)
        expect(`${told?.asked ?? ""} ${told?.found ?? ""} ${told?.remedy ?? ""}`).toContain(names)
        expect(gate).toMatchObject({ answer: "no", source: "probed" })
        expect(report.mode._tag).not.toBe("Writable")
      }).pipe(Effect.provide(TestCluster.layer({ kueue: true, heartbeat: 0 })))
    )
  }

  it.scoped("plain mode in a namespace that Kueue captures is observe-only", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(Fixtures.localQueue("default", { clusterQueue: "pool" }), namespace)
      const backend = yield* Capabilities.make(AdapterConfig.make({ namespace }))
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.mode._tag).not.toBe("Writable")
      expect(report.facts.capture._tag).toBe("Captured")
    }).pipe(Effect.provide(TestCluster.layer({ kueue: true })))
  )

  it.scoped("plain mode beside Kueue, which only appends its bare entry, is writable", () =>
    Effect.gen(function* () {
      yield* prepare()
      const backend = yield* Capabilities.make(AdapterConfig.make({ namespace }))
      const report = yield* ProbeWorld.drive(backend.preflight())
      expect(report.mode).toEqual({ _tag: "Writable" })
    }).pipe(Effect.provide(TestCluster.layer({ kueue: true })))
  )
})

describe("a watch on Kueue", () => {
  const queued = (name: string, priority: string) =>
    Fixtures.trainJob(name, {
      labels: { "kueue.x-k8s.io/queue-name": "train", "kueue.x-k8s.io/priority-class": priority },
      trainer: { resourcesPerNode: { requests: { cpu: "1" } } }
    })

  const nameOf = (trainJob: string) =>
    Effect.gen(function* () {
      const { admin } = yield* Cluster
      const { body } = yield* admin.transport.call(KubeRequest.make("list", workloads, { namespace }))
      const { items } = body as { readonly items: ReadonlyArray<{ readonly metadata: { readonly name: string } }> }
      return items.find(({ metadata }) => metadata.name.startsWith(`trainjob-${trainJob}-`))?.metadata.name ?? ""
    })

  const admit = (trainJob: string, count: number) =>
    Effect.flatMap(nameOf(trainJob), (name) =>
      patch(
        workloads,
        name,
        {
          status: {
            admissionChecks: [
              {
                name: "gate",
                state: "Ready",
                message: "",
                lastTransitionTime: "1970-01-01T00:00:00Z",
                podSetUpdates: [{ name: "node", annotations: { [WatchWorld.admission]: String(count) } }]
              }
            ]
          }
        },
        "status"
      )
    )

  const running = Effect.gen(function* () {
    const cluster = yield* prepare("1")
    yield* cluster.create(Fixtures.workloadPriorityClass("low", 10))
    yield* cluster.create(Fixtures.workloadPriorityClass("high", 100))
    const watching = yield* WatchWorld.start(Watch.namespace(namespace), { kueue })
    yield* cluster.create(queued("low-1", "low"), namespace)
    yield* admit("low-1", 1)
    yield* watching.pass("3 seconds")
    expect(watching.last("low-1")).toMatchObject({ state: "Running", execution: 1 })
    return { cluster, watching }
  })

  it.scoped(
    "Q06: two priorities: the one that gives way is Preempted by Kueue, and Running again under the next count",
    () =>
      Effect.gen(function* () {
        const { cluster, watching } = yield* running
        yield* cluster.create(queued("high-1", "high"), namespace)
        yield* watching.pass("5 seconds")
        const preempted = watching.last("low-1")
        expect(preempted?.cause).toMatchObject({ _tag: "Preempted", by: "kueue" })
        expect(preempted?.state).toBe("Pending")
        expect(preempted?.evidence.some(({ object }) => object.startsWith("Workload/"))).toBe(true)
        const [high] = yield* Effect.zipRight(admit("high-1", 1), cluster.pods(namespace))
        if (high === undefined) return yield* Effect.dieMessage("the preemptor does not run")
        yield* cluster.exit(high, { code: 0 })
        yield* watching.pass("10 seconds")
        yield* admit("low-1", 2)
        yield* watching.pass("3 seconds")
        expect(watching.last("low-1")).toMatchObject({ state: "Running", execution: 2 })
        expect(watching.last("high-1")).toMatchObject({ state: "Succeeded" })
      }).pipe(Effect.provide(WatchWorld.layer({ kueue: true })))
  )

  it.scoped("Q02: a hold by spec.active is Held by the Workload, and released Running under the next count", () =>
    Effect.gen(function* () {
      const { watching } = yield* running
      const name = yield* nameOf("low-1")
      yield* patch(workloads, name, { spec: { active: false } })
      yield* watching.pass("5 seconds")
      expect(watching.last("low-1")).toMatchObject({ state: "Held", cause: { _tag: "Held", by: "workload" } })
      yield* patch(workloads, name, { spec: { active: true } })
      yield* admit("low-1", 2)
      yield* watching.pass("5 seconds")
      expect(watching.last("low-1")).toMatchObject({ state: "Running", execution: 2 })
    }).pipe(Effect.provide(WatchWorld.layer({ kueue: true })))
  )
})
