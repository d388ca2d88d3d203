/**
 * Random clusters, and an oracle that decides from their objects what may be answered with yes. It was written against the
 * words of the specification and the cluster's state; it shares no code with the adapter.
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { fromStatus } from "@dispatch-kubeflow/core/kube/KubeError"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { expect, it } from "@effect/vitest"
import { Effect, FastCheck as fc, Fiber, Option, TestClock } from "effect"
import * as Manifests from "./manifests.js"

const namespace = "team-a"
const controller = "acme.io/gate"
const manifests = Manifests.load("kueue")
const grants = Manifests.grants(manifests)

/** When the preflight starts, in milliseconds: so that times before it exist. */
const start = 10_000_000

const mostly = <A>(usual: A, ...others: ReadonlyArray<A>): fc.Arbitrary<A> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(usual, ...others) })

const active = mostly<"True" | "False" | "Unknown" | "absent">("True", "False", "Unknown", "absent")

const anyCluster = fc.record({
  mode: fc.constantFrom("plain" as const, "kueue" as const),
  readOnly: mostly(false, true),
  lacking: fc.oneof(
    { weight: 3, arbitrary: fc.constant<ReadonlyArray<string>>([]) },
    {
      weight: 2,
      arbitrary: fc.subarray(
        grants.map(({ id }) => id),
        { minLength: 1, maxLength: 2 }
      )
    }
  ),
  without: mostly<ReadonlyArray<TestCluster.StageName>>([], ["trainer"], ["jobset"], ["garbage-collector"]),
  runtime: fc.constantFrom("torch" as const, "plain" as const, "shipped" as const, "absent" as const),
  /** The first of four requests that the server answers with 503. */
  busyAt: mostly<number | undefined>(undefined, 0, 3, 20, 30, 40, 50),
  localQueue: fc.record({ exists: mostly(true, false), active, deleting: mostly(false, true) }),
  clusterQueue: fc.record({
    exists: mostly(true, false),
    active,
    deleting: mostly(false, true),
    selector: mostly<object | undefined>(
      { matchLabels: { team: "a" } },
      {},
      undefined,
      { matchLabels: { team: "b" } },
      { matchExpressions: [{ key: "team", operator: "NotIn", values: ["a"] }] },
      { matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: ["team-a"] }] }
    ),
    checks: mostly<ReadonlyArray<object>>(
      [{ name: "gate" }],
      [],
      [{ name: "other" }],
      [{ name: "gate" }, { name: "other" }],
      [{ name: "gate", onFlavors: ["a"] }],
      [{ name: "gate" }, { name: "multi" }]
    ),
    concurrent: mostly(false, true)
  }),
  check: fc.record({
    exists: mostly(true, false),
    active,
    deleting: mostly(false, true),
    controllerName: mostly(controller, "acme.io/other")
  }),
  lease: fc.record({
    exists: mostly(true, false),
    holder: mostly("gate-0", ""),
    /** Milliseconds from the start until it runs out. */
    left: mostly(3_600_000, -3_600_000, -7_200_000, -60_000)
  })
})

type Random = typeof anyCluster extends fc.Arbitrary<infer A> ? A : never

const conditions = (status: Random["localQueue"]["active"]) =>
  status === "absent" ? {} : { conditions: [{ type: "Active", status, reason: "Ready", message: "" }] }

const deletion = (deleting: boolean) =>
  deleting ? { deletionTimestamp: "1970-01-01T00:00:01Z", finalizers: ["kueue.x-k8s.io/resource-in-use"] } : {}

const apiVersion = "kueue.x-k8s.io/v1beta2"

const check = (name: string, controllerName: string) => ({
  apiVersion,
  kind: "AdmissionCheck",
  metadata: { name },
  spec: { controllerName },
  status: conditions("True")
})

const objectsOf = (random: Random): ReadonlyArray<object> => {
  const { localQueue, clusterQueue, lease } = random
  const given = (exists: boolean, object: object): ReadonlyArray<object> => (exists ? [object] : [])
  return [
    ...given(localQueue.exists, {
      apiVersion,
      kind: "LocalQueue",
      metadata: { name: "team-queue", namespace, ...deletion(localQueue.deleting) },
      spec: { clusterQueue: "pool" },
      status: conditions(localQueue.active)
    }),
    ...given(clusterQueue.exists, {
      apiVersion,
      kind: "ClusterQueue",
      metadata: { name: "pool", ...deletion(clusterQueue.deleting) },
      spec: {
        ...(clusterQueue.selector === undefined ? {} : { namespaceSelector: clusterQueue.selector }),
        admissionChecksStrategy: { admissionChecks: clusterQueue.checks },
        ...(clusterQueue.concurrent ? { concurrentAdmissionPolicy: {} } : {})
      },
      status: conditions(clusterQueue.active)
    }),
    ...given(random.check.exists, {
      apiVersion,
      kind: "AdmissionCheck",
      metadata: { name: "gate", ...deletion(random.check.deleting) },
      spec: { controllerName: random.check.controllerName },
      status: conditions(random.check.active)
    }),
    check("other", "acme.io/other"),
    check("multi", "kueue.x-k8s.io/multikueue"),
    ...given(lease.exists, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "gate", namespace: "gate-system" },
      spec: {
        holderIdentity: lease.holder,
        leaseDurationSeconds: 15,
        renewTime: new Date(start + lease.left - 15_000).toISOString().replace("Z", "000Z")
      }
    })
  ]
}

/** Whether the cluster itself warrants a yes. */
const oracle = (random: Random): Readonly<Record<string, boolean>> => {
  const may = (...ids: ReadonlyArray<string>): boolean => ids.every((id) => !random.lacking.includes(id))
  const { clusterQueue, lease, localQueue } = random
  const selects = JSON.stringify(clusterQueue.selector)
  const gate =
    random.mode === "kueue" &&
    localQueue.exists &&
    localQueue.active === "True" &&
    !localQueue.deleting &&
    clusterQueue.exists &&
    clusterQueue.active === "True" &&
    !clusterQueue.deleting &&
    !clusterQueue.concurrent &&
    selects !== undefined &&
    !/"b"|NotIn/.test(selects) &&
    JSON.stringify(clusterQueue.checks).includes(`{"name":"gate"}`) &&
    !JSON.stringify(clusterQueue.checks).includes("multi") &&
    random.check.exists &&
    random.check.active === "True" &&
    !random.check.deleting &&
    random.check.controllerName === controller &&
    lease.exists &&
    lease.holder !== "" &&
    lease.left > 0
  const holds =
    !random.readOnly &&
    random.without.length === 0 &&
    may(
      "create trainjobs.trainer.kubeflow.org",
      "patch trainjobs.trainer.kubeflow.org",
      "delete trainjobs.trainer.kubeflow.org",
      "get trainjobs.trainer.kubeflow.org",
      "get jobsets.jobset.x-k8s.io",
      "list pods"
    ) &&
    (random.mode === "plain" || may("update workloads.kueue.x-k8s.io"))
  const reads = may("get pods/log", "list pods")
  return {
    ContainerImage: true,
    WorkingDirectory: true,
    Hold: holds,
    AttemptInjection: random.mode === "plain" || gate,
    ReadmissionGate: gate,
    OutputRead: reads,
    OutputFollow: reads && may("watch pods"),
    ProcsPerNode: random.runtime === "torch" && may("get clustertrainingruntimes.trainer.kubeflow.org")
  }
}

const drive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    for (let turn = 0; turn < 400; turn += 1) {
      const exit = yield* Fiber.poll(fiber)
      if (Option.isSome(exit)) return yield* exit.value
      yield* TestClock.adjust("1 second")
    }
    return yield* Effect.dieMessage("not done after 400 steps of the clock")
  })

const busy = (at: number | undefined) => {
  let count = 0
  return KubeApi.transform((transport) => ({
    ...transport,
    call: (request) =>
      Effect.suspend(() => {
        const here = count
        count += 1
        return at !== undefined && here >= at && here < at + 4
          ? Effect.fail(fromStatus(request, 503, undefined))
          : transport.call(request)
      })
  }))
}

const runtimeNames = { torch: "torch-conforming", plain: "plain", shipped: "torch-distributed", absent: "absent" }

const yeses: Record<string, number> = {}

const contradicts = (random: Random) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(start)
    const cluster = yield* TestCluster.TestCluster
    const door = yield* Cluster
    yield* cluster.create(Fixtures.namespace(namespace, { team: "a" }))
    yield* cluster.create(Fixtures.namespace("gate-system"))
    yield* cluster.create(Fixtures.torchConforming())
    yield* cluster.create(Fixtures.plainRuntime())
    yield* cluster.create(Fixtures.torchDistributed())
    yield* door.seed(objectsOf(random))
    // From the last rule to the first: a rule that loses its last verb goes
    const lesser = grants
      .filter(({ id }) => random.lacking.includes(id))
      .toSorted((left, right) => right.rule - left.rule)
      .reduce(
        (all, grant) => all.map((it, index) => (index === grant.role ? Manifests.without(all, grant) : it)),
        manifests
      )
    yield* door.seed(lesser)
    const api = busy(random.busyAt)(door.as(Rbac.serviceAccount(namespace, "dispatcher")))
    const adapter = yield* Adapter.make(
      AdapterConfig.make({
        namespace,
        access: random.readOnly ? "read-only" : "read-write",
        kueue:
          random.mode === "plain"
            ? undefined
            : {
                localQueue: "team-queue",
                admissionCheck: "gate",
                controllerName: controller,
                lease: { namespace: "gate-system", name: "gate" }
              }
      })
    ).pipe(Effect.provideService(KubeApi.KubeApi, api), Effect.provide(EvidenceStore.layerMemory()))
    const before = yield* drive(adapter.capabilities())
    const report = yield* drive(Effect.either(adapter.preflight()))
    const after = yield* drive(adapter.capabilities())
    const spec = yield* drive(
      Effect.either(adapter.capabilities({ runtimeRef: { name: runtimeNames[random.runtime] } }))
    )
    const truth = oracle(random)
    for (const { capability, support } of [...before, ...after, ...(spec._tag === "Right" ? spec.right : [])]) {
      if (support.answer !== "yes") {
        expect([capability, support.reason ?? ""]).not.toEqual([capability, ""])
        continue
      }
      yeses[capability] = (yeses[capability] ?? 0) + 1
      expect([capability, truth[capability]]).toEqual([capability, true])
    }
    // What breaks a rule is never answered for
    if (random.runtime === "shipped" || random.runtime === "absent") expect(spec._tag).toBe("Left")
    if (report._tag === "Right" && report.right.mode._tag === "Writable") {
      expect([random.readOnly, truth["AttemptInjection"]]).toEqual([false, true])
    }
  }).pipe(Effect.provide(TestCluster.layer({ without: random.without })))

it.effect(
  "in random clusters (RBAC, runtimes, queues, checks, leases, clock skew, faults) no yes is contradicted by the cluster",
  () =>
    Effect.gen(function* () {
      yield* Properties.assert(anyCluster, contradicts, 60)
      for (const capability of ["Hold", "AttemptInjection", "ReadmissionGate", "OutputFollow", "ProcsPerNode"]) {
        expect([capability, (yeses[capability] ?? 0) > 0]).toEqual([capability, true])
      }
    }),
  3_600_000
)
