import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, FastCheck, TestClock } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as EventLog from "../src/EventLog.js"
import * as Fixtures from "../src/Fixtures.js"
import * as Json from "../src/Json.js"
import * as Properties from "../src/Properties.js"
import * as Registry from "../src/Registry.js"
import * as Kueue from "../src/stages/KueueObjects.js"
import * as Objects from "../src/stages/Objects.js"
import * as TestCluster from "../src/TestCluster.js"

const namespace = "team-a"
const annotation = "example.com/admission"

const job = (
  name: string,
  options: { readonly queue?: string; readonly cpu?: string; readonly priority?: string } = {}
) =>
  Fixtures.trainJob(name, {
    labels: {
      "kueue.x-k8s.io/queue-name": options.queue ?? "train",
      ...(options.priority === undefined ? {} : { "kueue.x-k8s.io/priority-class": options.priority })
    },
    trainer: { resourcesPerNode: { requests: { cpu: options.cpu ?? "1" } } }
  })

/** One queue with quota for so many CPUs, gated by the check `gate`, and one that is not gated. */
const prepare = (cpu = "2") =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* cluster.create(Fixtures.namespace(namespace))
    yield* cluster.createNode("node-1", { labels: { pool: "a" } })
    yield* cluster.create(Fixtures.torchConforming())
    yield* cluster.create(Fixtures.workloadPriorityClass("low", 10))
    yield* cluster.create(Fixtures.workloadPriorityClass("high", 100))
    yield* cluster.create(Fixtures.resourceFlavor("pool-a", { nodeLabels: { pool: "a" } }))
    yield* cluster.create(Fixtures.admissionCheck("gate"))
    yield* patch(Kueue.admissionChecks, "gate", { status: Fixtures.activeStatus("True") }, "status")
    yield* cluster.create(
      Fixtures.clusterQueue("gated", {
        quotas: { "pool-a": { cpu } },
        admissionChecks: ["gate"],
        withinClusterQueue: "LowerPriority"
      })
    )
    yield* cluster.create(Fixtures.clusterQueue("open", { quotas: { "pool-a": { cpu: "8" } } }))
    yield* cluster.create(Fixtures.localQueue("train", { clusterQueue: "gated" }), namespace)
    yield* cluster.create(Fixtures.localQueue("ungated", { clusterQueue: "open" }), namespace)
    yield* cluster.settle
    return cluster
  })

const call = (request: KubeRequest.KubeRequest) =>
  Effect.gen(function* () {
    const door = yield* Cluster.Cluster
    const cluster = yield* TestCluster.TestCluster
    const { reply } = yield* door.apply(request)
    yield* cluster.settle
    return Either.mapLeft(reply, (failure) => KubeError.fromStatus(request, failure.code, failure.status))
  })

const patch = (type: Objects.Kind, name: string, body: unknown, subresource?: string) =>
  call(
    KubeRequest.make("patch", type, {
      name,
      subresource,
      ...(type.namespaced ? { namespace } : {}),
      patchType: "merge",
      body,
      query: { fieldManager: "gate-controller" }
    })
  )

const workloadOf = (trainJob: string) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    const view = yield* cluster.view
    const found = view
      .list(Kueue.workloads, namespace)
      .find((workload) => Objects.controllerOf(workload)?.name === trainJob)
    if (found === undefined) return yield* Effect.dieMessage(`no Workload of ${trainJob}`)
    return found
  })

/** The check's controller answers: the whole entry, or only what is given of it. */
const answer = (trainJob: string, change: Partial<Kueue.CheckState>, keep = false) =>
  Effect.gen(function* () {
    const workload = yield* workloadOf(trainJob)
    const present = workload.status?.admissionChecks?.[0]
    const entry = {
      message: "",
      lastTransitionTime: "2026-01-01T00:00:00Z",
      ...(keep ? present : {}),
      name: "gate",
      ...change
    }
    return yield* patch(Kueue.workloads, workload.metadata.name, { status: { admissionChecks: [entry] } }, "status")
  })

const admit = (trainJob: string, count: number) =>
  answer(trainJob, { state: "Ready", podSetUpdates: [{ name: "node", annotations: { [annotation]: String(count) } }] })

const setActive = (trainJob: string, active: boolean) =>
  Effect.flatMap(workloadOf(trainJob), ({ metadata }) => patch(Kueue.workloads, metadata.name, { spec: { active } }))

const counts = Effect.gen(function* () {
  const cluster = yield* TestCluster.TestCluster
  return (yield* cluster.pods(namespace)).map((pod) => pod.metadata.annotations?.[annotation])
})

const summary = (workload: Kueue.Workload) => ({
  active: workload.spec.active,
  ...Object.fromEntries(
    (workload.status?.conditions ?? []).map(({ reason, status, type }) => [type, `${status} ${reason ?? ""}`])
  )
})

const kueue = (options: TestCluster.Options = {}) => TestCluster.layer({ kueue: true, ...options })

describe("Kueue and Trainer", () => {
  it.scoped("fight for ever over a JobSet that is made anew after its Workload has finished, and time goes on", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1", { queue: "ungated" }), namespace)
      const [pod] = yield* cluster.pods(namespace)
      yield* cluster.exit({ namespace, name: pod?.metadata.name ?? "" }, { code: 1 })
      yield* TestClock.adjust("3 seconds")
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({ Finished: "True Failed", Admitted: "True Admitted" })
      const door = yield* Cluster.Cluster
      const { version } = yield* door.state
      yield* call(
        KubeRequest.make("delete", Objects.jobSets, {
          namespace,
          name: "run-1",
          body: { propagationPolicy: "Background" }
        })
      )
      yield* TestClock.adjust("3 seconds")
      const stopped = EventLog.after((yield* door.state).log, version).filter(
        ({ object, previous }) =>
          object["kind"] === "JobSet" &&
          previous !== undefined &&
          Json.at(object, "spec", "suspend") === true &&
          Json.at(previous, "spec", "suspend") === false
      ).length
      // A real control plane: 69 in ten seconds
      expect(stopped).toBeGreaterThanOrEqual(15)
      expect(stopped).toBeLessThanOrEqual(25)
    }).pipe(Effect.provide(kueue()))
  )
})

describe("ten traps of Kueue", () => {
  it.scoped("1: podSetUpdates survive an eviction, and whoever then writes only the state repeats the count", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* admit("run-1", 1)
      expect(yield* counts).toEqual(["1"])
      yield* setActive("run-1", false)
      yield* TestClock.adjust("3 seconds")
      const [entry] = (yield* workloadOf("run-1")).status?.admissionChecks ?? []
      expect(entry).toMatchObject({
        state: "Pending",
        message: "Reset to Pending after eviction. Previously: Ready",
        podSetUpdates: [{ annotations: { [annotation]: "1" } }]
      })
      yield* setActive("run-1", true)
      yield* answer("run-1", { state: "Ready" }, true)
      expect(yield* counts).toEqual(["1"])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("2: a re-admission without podSetUpdates still carries the old annotation", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* admit("run-1", 1)
      yield* setActive("run-1", false)
      yield* TestClock.adjust("3 seconds")
      yield* setActive("run-1", true)
      yield* answer("run-1", { state: "Ready" })
      const [entry] = (yield* workloadOf("run-1")).status?.admissionChecks ?? []
      expect(entry?.podSetUpdates).toBeUndefined()
      expect(yield* counts).toEqual(["1"])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("3: Ready written while no quota is reserved is kept and used, and nobody is asked again", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* setActive("run-1", false)
      yield* admit("run-1", 7)
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({ active: false, QuotaReserved: "False Pending" })
      yield* setActive("run-1", true)
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({
        QuotaReserved: "True QuotaReserved",
        Admitted: "True Admitted",
        Evicted: "False QuotaReserved"
      })
      expect(yield* counts).toEqual(["7"])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("4: active true does not revive what Kueue deactivated; deleting the Workload does", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* answer("run-1", { state: "Rejected", message: "no" })
      const rejected = yield* workloadOf("run-1")
      expect(summary(rejected)).toMatchObject({
        active: false,
        Evicted: "True DeactivatedDueToAdmissionCheck",
        Requeued: "False DeactivatedDueToAdmissionCheck"
      })
      for (const active of [true, false, true]) {
        yield* setActive("run-1", active)
        yield* TestClock.adjust("20 seconds")
      }
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({
        active: true,
        QuotaReserved: "False Pending",
        Requeued: "False DeactivatedDueToAdmissionCheck"
      })
      yield* call(Objects.remove(Kueue.workloads, rejected, { propagation: "Background" }))
      const next = yield* workloadOf("run-1")
      expect(next.metadata.name).toBe(rejected.metadata.name)
      expect(next.metadata.uid).not.toBe(rejected.metadata.uid)
      expect(summary(next)).toEqual({ active: true, QuotaReserved: "True QuotaReserved" })
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("4: after the maximum execution time active true is set back to false", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      const body = job("run-1")
      const labels = { "kueue.x-k8s.io/queue-name": "train", "kueue.x-k8s.io/max-exec-time-seconds": "4" }
      yield* cluster.create({ ...body, metadata: { name: "run-1", labels } }, namespace)
      yield* admit("run-1", 1)
      yield* TestClock.adjust("6 seconds")
      expect(yield* counts).toEqual([])
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({
        active: false,
        Evicted: "True DeactivatedDueToMaximumExecutionTimeExceeded",
        DeactivationTarget: "True MaximumExecutionTimeExceeded"
      })
      yield* setActive("run-1", true)
      expect(summary(yield* workloadOf("run-1"))["active"]).toBe(false)
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped(
    "5: a queued TrainJob that is un-suspended by hand runs, without the count, until it is suspended again",
    () =>
      Effect.gen(function* () {
        const cluster = yield* prepare()
        yield* cluster.create(job("run-1"), namespace)
        const before = yield* workloadOf("run-1")
        const { version } = yield* (yield* Cluster.Cluster).state
        yield* patch(Objects.trainJobs, "run-1", { spec: { suspend: false } })
        yield* TestClock.adjust("3 seconds")
        const door = yield* Cluster.Cluster
        const pods = EventLog.after((yield* door.state).log, version).flatMap(({ object }) =>
          object["kind"] === "Pod" ? [object] : []
        )
        expect(pods.some((pod) => JSON.stringify(pod).includes('"phase":"Running"'))).toBe(true)
        expect(JSON.stringify(pods)).not.toContain("kueue.x-k8s.io/workload")
        expect(yield* counts).toEqual([])
        expect((yield* cluster.get(Objects.trainJobs, { namespace, name: "run-1" }))?.spec.suspend).toBe(true)
        expect((yield* workloadOf("run-1")).metadata.resourceVersion).toBe(before.metadata.resourceVersion)
      }).pipe(Effect.provide(kueue()))
  )

  it.scoped("5, Q02: an admitted TrainJob that is suspended by hand starts again under the same count", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* admit("run-1", 1)
      const [first] = yield* cluster.pods(namespace)
      yield* patch(Objects.trainJobs, "run-1", { spec: { suspend: true } })
      yield* TestClock.adjust("3 seconds")
      const [second] = yield* cluster.pods(namespace)
      expect(second?.metadata.uid).not.toBe(first?.metadata.uid)
      expect(yield* counts).toEqual(["1"])
      expect((yield* workloadOf("run-1")).status?.schedulingStats).toBeUndefined()
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("6: moving the queue label of a waiting TrainJob to a queue without the check admits it ungated", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare("1")
      yield* cluster.create(job("run-1"), namespace)
      yield* cluster.create(job("run-2"), namespace)
      yield* patch(Objects.trainJobs, "run-2", { metadata: { labels: { "kueue.x-k8s.io/queue-name": "ungated" } } })
      const moved = yield* workloadOf("run-2")
      expect(moved.spec.queueName).toBe("ungated")
      expect(moved.status?.admissionChecks).toBeUndefined()
      expect(yield* counts).toEqual([undefined])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("6: removing the check from the queue admits what waits for it", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* patch(Kueue.clusterQueues, "gated", { spec: { admissionChecksStrategy: { admissionChecks: [] } } })
      expect(summary(yield* workloadOf("run-1"))).toMatchObject({ Admitted: "True Admitted" })
      expect(yield* counts).toEqual([undefined])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("7: v1beta1 cannot write a Workload that holds quota and has no priority class", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* cluster.create(job("run-2", { priority: "low" }), namespace)
      const older: Objects.Kind = { ...Kueue.workloads, version: "v1beta1" }
      const put = (workload: Kueue.Workload) =>
        call(
          KubeRequest.make("update", older, {
            namespace,
            name: workload.metadata.name,
            body: { ...workload, apiVersion: "kueue.x-k8s.io/v1beta1", spec: { ...workload.spec, active: false } }
          })
        )
      const refused = yield* put(yield* workloadOf("run-1"))
      expect(Either.isLeft(refused) && refused.left.status?.code).toBe(422)
      expect(Either.isLeft(refused) && refused.left.message).toContain("no such key: priorityClassSource")
      expect((yield* workloadOf("run-1")).spec.active).toBe(true)
      expect(Either.isRight(yield* put(yield* workloadOf("run-2")))).toBe(true)
    }).pipe(
      Effect.provide(
        kueue({ registry: Registry.make([...Registry.builtins.definitions.values(), ...Registry.kueue("v1beta1")]) })
      )
    )
  )

  it.scoped("8: a Workload is made anew under its name when the runtime's containers change", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* admit("run-1", 1)
      const before = yield* workloadOf("run-1")
      const edited = Fixtures.torchConforming("torch-conforming", { image: "registry.example/other:2" })
      yield* patch(Objects.clusterTrainingRuntimes, "torch-conforming", edited)
      expect((yield* workloadOf("run-1")).metadata.uid).toBe(before.metadata.uid)
      yield* patch(Objects.trainJobs, "run-1", { metadata: { annotations: { touched: "1" } } })
      yield* TestClock.adjust("3 seconds")
      const after = yield* workloadOf("run-1")
      expect(after.metadata.name).toBe(before.metadata.name)
      expect(after.metadata.uid).not.toBe(before.metadata.uid)
      expect(summary(after)).toEqual({ active: true, QuotaReserved: "True QuotaReserved" })
      expect(yield* counts).toEqual([])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("8: a deleted Workload loses the hold", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* setActive("run-1", false)
      yield* call(Objects.remove(Kueue.workloads, yield* workloadOf("run-1"), { propagation: "Background" }))
      expect(summary(yield* workloadOf("run-1"))).toEqual({ active: true, QuotaReserved: "True QuotaReserved" })
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("9: a running TrainJob deleted in the foreground starts a second pod under the same count", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(job("run-1"), namespace)
      yield* admit("run-1", 1)
      const trainJob = yield* cluster.get(Objects.trainJobs, { namespace, name: "run-1" })
      if (trainJob === undefined) return yield* Effect.dieMessage("no TrainJob")
      yield* call(Objects.remove(Objects.trainJobs, trainJob, { propagation: "Foreground" }))
      yield* TestClock.adjust("40 seconds")
      const door = yield* Cluster.Cluster
      const uids = new Set(
        EventLog.after((yield* door.state).log, 0).flatMap(({ object }) =>
          object["kind"] === "Pod" ? [(object["metadata"] as { readonly uid: string }).uid] : []
        )
      )
      expect(uids.size).toBe(2)
      const view = yield* cluster.view
      expect(view.list(Objects.trainJobs, namespace)).toEqual([])
      expect(view.list(Kueue.workloads, namespace)).toEqual([])
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(kueue()))
  )

  const probe = (suspend: boolean | undefined) =>
    Effect.map(
      call(
        KubeRequest.make("create", Objects.trainJobs, {
          namespace,
          body: Fixtures.trainJob("probe", suspend === undefined ? {} : { suspend }),
          query: { dryRun: "All" }
        })
      ),
      (reply) => (Either.isRight(reply) ? (reply.right.body as Objects.TrainJob) : undefined)
    )

  it.scoped("10: a dry run sees a forced suspension only when it asks for suspend false or leaves it out", () =>
    Effect.gen(function* () {
      yield* prepare()
      for (const suspend of [false, undefined, true]) {
        const answered = yield* probe(suspend)
        expect(answered?.spec.suspend).toBe(true)
        expect(answered?.metadata.labels).toBeUndefined()
      }
    }).pipe(Effect.provide(kueue({ kueue: { manageJobsWithoutQueueName: true } })))
  )

  it.scoped("10: without capture a dry run comes back as it was sent, but for Kueue's bare entry", () =>
    Effect.gen(function* () {
      yield* prepare()
      const answered = yield* probe(false)
      expect(answered?.spec.suspend).toBe(false)
      expect(answered?.spec.runtimePatches?.map(({ manager }) => manager)).toEqual(["kueue.x-k8s.io/manager"])
    }).pipe(Effect.provide(kueue()))
  )
})

describe("Kueue", () => {
  it.scoped("is off by default: no entry is appended, nothing is suspended, no Workload is made", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.create(Fixtures.namespace(namespace))
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* cluster.create(job("run-1"), namespace)
      const trainJob = yield* cluster.get(Objects.trainJobs, { namespace, name: "run-1" })
      expect(trainJob?.spec.runtimePatches).toBeUndefined()
      expect((yield* cluster.view).list(Kueue.workloads, namespace)).toEqual([])
      expect(yield* cluster.pods(namespace)).toHaveLength(1)
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("a LocalQueue named default captures what has no label", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(Fixtures.localQueue("default", { clusterQueue: "gated" }), namespace)
      yield* cluster.create(Fixtures.trainJob("plain"), namespace)
      const trainJob = yield* cluster.get(Objects.trainJobs, { namespace, name: "plain" })
      expect(trainJob?.metadata.labels).toEqual({ "kueue.x-k8s.io/queue-name": "default" })
      expect(trainJob?.spec.suspend).toBe(true)
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("quota is never exceeded, and freed quota goes to the next a second later", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare("2")
      for (const name of ["a", "b", "c"]) yield* cluster.create(job(name), namespace)
      const reserved = Effect.forEach(["a", "b", "c"], (name) => Effect.map(workloadOf(name), Kueue.isReserved))
      expect(yield* reserved).toEqual([true, true, false])
      const a = yield* cluster.get(Objects.trainJobs, { namespace, name: "a" })
      if (a === undefined) return yield* Effect.dieMessage("no TrainJob")
      yield* call(Objects.remove(Objects.trainJobs, a, { propagation: "Background" }))
      expect(Kueue.isReserved(yield* workloadOf("c"))).toBe(false)
      yield* TestClock.adjust("1 seconds")
      expect(Kueue.isReserved(yield* workloadOf("c"))).toBe(true)
      yield* TestClock.adjust("1 seconds")
      const queue = yield* cluster.get(Kueue.clusterQueues, { name: "gated" })
      expect(queue?.status).toMatchObject({ reservingWorkloads: 2, admittedWorkloads: 0, pendingWorkloads: 0 })
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("a preemption of many takes the lowest first, and no more than it must", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare("3")
      yield* cluster.create(Fixtures.workloadPriorityClass("mid", 50))
      for (const [name, priority] of [
        ["l1", "low"],
        ["l2", "low"],
        ["m", "mid"]
      ] as const) {
        yield* cluster.create(job(name, { priority }), namespace)
        yield* admit(name, 1)
        yield* TestClock.adjust("1 seconds")
      }
      yield* cluster.create(job("h", { priority: "high", cpu: "2" }), namespace)
      yield* TestClock.adjust("5 seconds")
      expect(Kueue.isReserved(yield* workloadOf("h"))).toBe(true)
      expect(summary(yield* workloadOf("m"))).not.toHaveProperty("Preempted")
      for (const name of ["l1", "l2"]) {
        const workload = yield* workloadOf(name)
        expect(summary(workload)).toMatchObject({ Preempted: "True InClusterQueue", Requeued: "True Preempted" })
        expect(workload.status?.schedulingStats).toEqual({
          evictions: [{ reason: "Preempted", underlyingCause: "", count: 1 }]
        })
      }
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("StrictFIFO: one that does not fit holds up those behind it", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(
        Fixtures.clusterQueue("strict", { quotas: { "pool-a": { cpu: "2" } }, queueingStrategy: "StrictFIFO" })
      )
      yield* cluster.create(Fixtures.localQueue("strict", { clusterQueue: "strict" }), namespace)
      yield* cluster.create(job("big", { queue: "strict", cpu: "3" }), namespace)
      yield* TestClock.adjust("1 seconds")
      yield* cluster.create(job("small", { queue: "strict" }), namespace)
      expect(Kueue.isReserved(yield* workloadOf("small"))).toBe(false)
      expect((yield* workloadOf("small")).status?.conditions ?? []).toEqual([])
    }).pipe(Effect.provide(kueue()))
  )

  it.scoped("a second flavor is taken when the first has no room; its labels select the nodes", () =>
    Effect.gen(function* () {
      const cluster = yield* prepare()
      yield* cluster.create(Fixtures.resourceFlavor("pool-b", { nodeLabels: { pool: "b" } }))
      yield* cluster.create(
        Fixtures.clusterQueue("two", { quotas: { "pool-a": { cpu: "1" }, "pool-b": { cpu: "1" } } })
      )
      yield* cluster.create(Fixtures.localQueue("two", { clusterQueue: "two" }), namespace)
      yield* cluster.create(job("a", { queue: "two" }), namespace)
      yield* cluster.create(job("b", { queue: "two" }), namespace)
      const pods = yield* cluster.pods(namespace)
      expect(pods.map(({ spec }) => spec.nodeSelector)).toEqual([{ pool: "a" }, { pool: "b" }])
    }).pipe(Effect.provide(kueue()))
  )
})

describe("Kueue under random commands", () => {
  type Command =
    | { readonly _tag: "Create"; readonly priority: "low" | "high"; readonly cpu: "1" | "2" }
    | { readonly _tag: "Admit" | "Hold" | "Release" | "Retry" | "Delete" | "Lose"; readonly at: number }
    | { readonly _tag: "Stop"; readonly policy: "None" | "Hold" | "HoldAndDrain" }
    | { readonly _tag: "Advance"; readonly seconds: number }

  const command: FastCheck.Arbitrary<Command> = FastCheck.oneof(
    {
      weight: 4,
      arbitrary: FastCheck.record({
        _tag: FastCheck.constant("Create" as const),
        priority: FastCheck.constantFrom("low" as const, "high" as const),
        cpu: FastCheck.constantFrom("1" as const, "2" as const)
      })
    },
    {
      weight: 8,
      arbitrary: FastCheck.record({
        _tag: FastCheck.constantFrom(
          "Admit" as const,
          "Admit" as const,
          "Hold" as const,
          "Release" as const,
          "Retry" as const,
          "Delete" as const,
          "Lose" as const
        ),
        at: FastCheck.nat(5)
      })
    },
    {
      weight: 1,
      arbitrary: FastCheck.record({
        _tag: FastCheck.constant("Stop" as const),
        policy: FastCheck.constantFrom("None" as const, "Hold" as const, "HoldAndDrain" as const)
      })
    },
    {
      weight: 4,
      arbitrary: FastCheck.record({ _tag: FastCheck.constant("Advance" as const), seconds: FastCheck.nat(3) })
    }
  )

  const perform = (next: Command, index: number) =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      if (next._tag === "Create") return yield* cluster.create(job(`j${index}`, next), namespace)
      if (next._tag === "Stop") return yield* patch(Kueue.clusterQueues, "gated", { spec: { stopPolicy: next.policy } })
      if (next._tag === "Advance") return yield* TestClock.adjust(next.seconds * 1000)
      const all = (yield* cluster.view).list(Kueue.workloads, namespace)
      const workload = all[next.at % Math.max(all.length, 1)]
      const owner = workload === undefined ? undefined : Objects.controllerOf(workload)?.name
      if (workload === undefined || owner === undefined) return
      switch (next._tag) {
        case "Admit":
          return Kueue.isReserved(workload) ? yield* admit(owner, index) : undefined
        case "Hold":
          return yield* setActive(owner, false)
        case "Release":
          return yield* setActive(owner, true)
        case "Retry":
          return yield* answer(owner, { state: "Retry" })
        case "Lose":
          return yield* call(Objects.remove(Kueue.workloads, workload, { propagation: "Background" }))
        case "Delete": {
          const trainJob = yield* cluster.get(Objects.trainJobs, { namespace, name: owner })
          return trainJob === undefined
            ? undefined
            : yield* call(Objects.remove(Objects.trainJobs, trainJob, { propagation: "Background" }))
        }
      }
    })

  const capacity = 3

  it.effect(
    "quota holds in every state, no pod runs that was not admitted, and what is not admitted comes to rest",
    () =>
      Properties.assert(
        FastCheck.array(command, { minLength: 5, maxLength: 25 }),
        (commands) =>
          Effect.gen(function* () {
            const cluster = yield* prepare(String(capacity))
            const { version } = yield* (yield* Cluster.Cluster).state
            for (const [index, next] of commands.entries()) yield* perform(next, index + 1)
            yield* TestClock.adjust("5 seconds")
            yield* cluster.settle

            const used = new Map<string, number>()
            for (const { object, type } of EventLog.after((yield* (yield* Cluster.Cluster).state).log, version)) {
              const raw = object as unknown as Objects.Raw
              if (Objects.is(Kueue.workloads, raw)) {
                const cpus = (raw.status?.admission?.podSetAssignments ?? []).map(({ resourceUsage }) =>
                  Number(resourceUsage["cpu"] ?? 0)
                )
                const takes = type !== "DELETED" && Kueue.takesQuota(raw)
                used.set(raw.metadata.uid, takes ? cpus.reduce((a, b) => a + b, 0) : 0)
                expect([...used.values()].reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(capacity)
              }
              if (Objects.is(Objects.pods, raw)) expect(raw.metadata.annotations?.[annotation]).toMatch(/^\d+$/)
            }
            const view = yield* cluster.view
            for (const workload of view.list(Kueue.workloads, namespace)) {
              const owner = Objects.controllerOf(workload)?.name ?? ""
              const trainJob = view.get(Objects.trainJobs, namespace, owner)
              expect([owner, trainJob?.spec.suspend]).toEqual([owner, !Kueue.isAdmitted(workload)])
              expect(Kueue.isEvicted(workload) && Kueue.isReserved(workload)).toBe(false)
            }
            const running = new Set((yield* cluster.processes).map(({ pod }) => pod.replace(/-node-0-0-\w+$/, "")))
            for (const name of running) {
              expect(view.get(Objects.trainJobs, namespace, name)?.spec.suspend).toBe(false)
            }
          }).pipe(Effect.provide(kueue({ heartbeat: 0 }))),
        15
      )
  )
})
