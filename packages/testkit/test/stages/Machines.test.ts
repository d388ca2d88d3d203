import type { LogOptions } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Stream, TestClock } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as EventLog from "../../src/EventLog.js"
import * as Fixtures from "../../src/Fixtures.js"
import * as Rbac from "../../src/Rbac.js"
import * as Control from "../../src/serve/Control.js"
import * as World from "../../src/serve/World.js"
import * as Objects from "../../src/stages/Objects.js"
import * as TestCluster from "../../src/TestCluster.js"

const node1 = "node-1"

const nodeOf = (name: string) =>
  Effect.flatMap(TestCluster.TestCluster, (cluster) =>
    Effect.flatMap(cluster.get(Objects.nodes, { name }), (node) =>
      node === undefined ? Effect.dieMessage(`there is no Node ${name}`) : Effect.succeed(node)
    )
  )

const idsOf = (name: string) =>
  Effect.map(nodeOf(name), ({ metadata, status }) => ({
    uid: metadata.uid,
    bootID: String(status?.nodeInfo?.["bootID"]),
    machineID: String(status?.nodeInfo?.["machineID"]),
    systemUUID: String(status?.nodeInfo?.["systemUUID"])
  }))

const podNamed = (name: string, spec: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { restartPolicy: "Never", containers: [{ name: "main", image: "train:1" }], ...spec }
})

const podOf = (name: string) =>
  Effect.flatMap(TestCluster.TestCluster, (cluster) => cluster.get(Objects.pods, { namespace: "default", name }))

const processes = Effect.flatMap(TestCluster.TestCluster, (cluster) =>
  Effect.map(cluster.processes, (all) => all.map(({ node, pod, replaced }) => ({ node, pod, replaced })))
)

const logOf = (name: string, options: LogOptions) =>
  Effect.flatMap(Cluster.Cluster, ({ admin }) =>
    Effect.either(Stream.mkString(Stream.decodeText(admin.log({ namespace: "default", name }, options))))
  )

/** A world with one machine and one pod on it. */
const withPod = (spec: object = {}) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* cluster.createNode(node1)
    yield* cluster.create(podNamed("run", spec), "default")
    yield* cluster.settle
    return cluster
  })

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe("who a machine is", () => {
  const born = (seed: number) =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.createNode(node1)
      yield* cluster.createNode("node-2")
      return [yield* idsOf(node1), yield* idsOf("node-2")]
    }).pipe(Effect.provide(TestCluster.layer({ seed })))

  it.effect("each has ids of its own in the forms that kubelets report, the same for the same seed", () =>
    Effect.gen(function* () {
      const all = [...(yield* born(1)), ...(yield* born(2))]
      for (const { bootID, machineID, systemUUID } of all) {
        expect(machineID).toMatch(/^[0-9a-f]{32}$/)
        expect(systemUUID).toMatch(uuid)
        expect(bootID).toMatch(uuid)
      }
      for (const id of ["bootID", "machineID", "systemUUID"] as const) {
        expect(new Set(all.map((it) => it[id])).size).toBe(4)
      }
      expect(yield* born(1)).toEqual(all.slice(0, 2))
    })
  )

  it.scoped("a boot changes the bootID alone; a Node object that is made again changes none of them", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod()
      const before = yield* idsOf(node1)
      yield* cluster.powerOff(node1)
      yield* cluster.powerOn(node1)
      yield* cluster.settle
      const booted = yield* idsOf(node1)
      expect(booted).toEqual({ ...before, bootID: booted.bootID })
      expect(booted.bootID).not.toBe(before.bootID)
      yield* cluster.loseNode(node1)
      yield* cluster.deleteNode(node1)
      yield* cluster.returnNode(node1)
      yield* cluster.settle
      const again = yield* idsOf(node1)
      expect(again).toEqual({ ...booted, uid: again.uid })
      expect(again.uid).not.toBe(booted.uid)
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("a Node object that is put into the cluster keeps the ids that it has", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      const ids = { bootID: "boot", machineID: "machine", systemUUID: "system" }
      yield* cluster.seed([
        {
          apiVersion: "v1",
          kind: "Node",
          metadata: { name: node1 },
          status: { nodeInfo: ids, conditions: [{ type: "Ready", status: "True" }] }
        }
      ])
      const machines = yield* TestCluster.TestCluster
      yield* machines.settle
      yield* machines.powerOn(node1)
      yield* machines.settle
      expect(yield* idsOf(node1)).toMatchObject({ machineID: "machine", systemUUID: "system" })
      expect((yield* idsOf(node1)).bootID).not.toBe("boot")
    }).pipe(Effect.provide(TestCluster.layer()))
  )
})

describe("another machine takes a Node's name", () => {
  it.scoped("the Node object stays, all its ids change, and the process of the machine before runs on", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod()
      const before = yield* idsOf(node1)
      yield* cluster.replaceMachine(node1)
      yield* cluster.settle
      const after = yield* idsOf(node1)
      expect(after.uid).toBe(before.uid)
      expect(after.bootID).not.toBe(before.bootID)
      expect(after.machineID).not.toBe(before.machineID)
      expect(after.systemUUID).not.toBe(before.systemUUID)
      const [process, ...others] = yield* cluster.processes
      expect(others).toEqual([])
      expect(process).toMatchObject({ node: node1, pod: "run", machine: before.machineID, replaced: true })
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("where the Node object was deleted it registers as a new one", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod()
      const before = yield* idsOf(node1)
      yield* cluster.loseNode(node1)
      yield* cluster.deleteNode(node1)
      yield* cluster.replaceMachine(node1)
      yield* cluster.settle
      const after = yield* idsOf(node1)
      expect(after.uid).not.toBe(before.uid)
      expect(after.machineID).not.toBe(before.machineID)
      expect(yield* processes).toEqual([{ node: node1, pod: "run", replaced: true }])
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped(
    "a pod that ran there is reported as a lost container is (observed/recordings/kubelet/container-lost)",
    () =>
      Effect.gen(function* () {
        const cluster = yield* withPod()
        const before = yield* podOf("run")
        yield* cluster.replaceMachine(node1)
        yield* cluster.settle
        const lost = { exitCode: 137, reason: "ContainerStatusUnknown", startedAt: null, finishedAt: null }
        const after = yield* podOf("run")
        expect(after?.status).toMatchObject({
          phase: "Failed",
          podIP: before?.status?.podIP,
          startTime: before?.status?.startTime
        })
        expect(after?.status?.containerStatuses).toEqual([
          {
            name: "main",
            state: {
              terminated: { ...lost, message: "The container could not be located when the pod was terminated" }
            },
            lastState: {
              terminated: {
                ...lost,
                message:
                  "The container could not be located when the pod was deleted.  The container used to be Running"
              }
            },
            ready: false,
            restartCount: 1,
            image: "train:1",
            imageID: "",
            started: false
          }
        ])
        expect(
          ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => {
            const condition = Objects.conditionOf(after?.status?.conditions, type)
            return `${type} ${condition?.status} ${condition?.reason ?? ""}`
          })
        ).toEqual([
          "PodReadyToStartContainers False PodSandboxNotReady",
          "Initialized True ",
          "Ready False PodFailed",
          "ContainersReady False PodFailed",
          "PodScheduled True "
        ])
      }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("one that may be restarted is, in a container of its own: then two processes of it run", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod({ restartPolicy: "OnFailure" })
      const before = yield* podOf("run")
      yield* cluster.replaceMachine(node1)
      yield* cluster.settle
      const after = yield* podOf("run")
      expect(after?.status?.phase).toBe("Running")
      expect(after?.status?.containerStatuses?.[0]).toMatchObject({
        state: { running: {} },
        lastState: { terminated: { reason: "ContainerStatusUnknown" } },
        restartCount: 1
      })
      expect(after?.status?.containerStatuses?.[0]?.containerID).not.toBe(
        before?.status?.containerStatuses?.[0]?.containerID
      )
      expect(yield* processes).toEqual([
        { node: node1, pod: "run", replaced: false },
        { node: node1, pod: "run", replaced: true }
      ])
      // By its name a pod is that of the new machine
      yield* cluster.exit({ namespace: "default", name: "run" }, { code: 0 })
      yield* TestClock.adjust("2 seconds")
      expect((yield* podOf("run"))?.status?.phase).toBe("Succeeded")
      expect(yield* processes).toEqual([{ node: node1, pod: "run", replaced: true }])
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped(
    "what was bound and never started it starts; what ended on the machine before it leaves as it was reported",
    () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster.TestCluster
        yield* cluster.createNode(node1)
        yield* cluster.create(podNamed("ended"), "default")
        yield* cluster.exit({ namespace: "default", name: "ended" }, { code: 3 })
        yield* TestClock.adjust("2 seconds")
        const ended = yield* podOf("ended")
        expect(ended?.status?.phase).toBe("Failed")
        yield* cluster.loseNode(node1)
        yield* cluster.create(podNamed("waiting", { nodeName: node1 }), "default")
        yield* TestClock.adjust("1 seconds")
        expect((yield* podOf("waiting"))?.status?.phase).toBe("Pending")
        yield* cluster.replaceMachine(node1)
        yield* TestClock.adjust("1 seconds")
        expect((yield* podOf("waiting"))?.status).toMatchObject({
          phase: "Running",
          containerStatuses: [{ restartCount: 0, lastState: {} }]
        })
        expect(yield* podOf("ended")).toEqual(ended)
        expect(yield* processes).toEqual([{ node: node1, pod: "waiting", replaced: false }])
      }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("a deletion that the lost machine did not confirm is confirmed by the new one, without proof", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod()
      const api = yield* Cluster.Cluster
      yield* cluster.loseNode(node1)
      yield* api.apply(KubeRequest.make("delete", Objects.pods, { namespace: "default", name: "run" }))
      yield* TestClock.adjust("1 seconds")
      expect((yield* podOf("run"))?.metadata.deletionTimestamp).toBeDefined()
      const from = (yield* api.state).version
      yield* cluster.replaceMachine(node1)
      yield* TestClock.adjust("1 seconds")
      expect(yield* podOf("run")).toBeUndefined()
      const last = EventLog.after((yield* api.state).log, from)
        .filter(({ type }) => type === "DELETED")
        .map(({ object }) => (object as unknown as Objects.Pod).status?.containerStatuses?.[0])
      expect(last).toMatchObject([
        { state: { terminated: { reason: "ContainerStatusUnknown", startedAt: null } }, restartCount: 0 }
      ])
      expect(last[0]?.containerID).toBeUndefined()
      expect(yield* processes).toEqual([{ node: node1, pod: "run", replaced: true }])
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("nobody can read what the former machine keeps", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod({ restartPolicy: "OnFailure" })
      yield* cluster.writeLog({ namespace: "default", name: "run" }, "before\n")
      yield* cluster.replaceMachine(node1)
      yield* TestClock.adjust("1 seconds")
      for (const process of yield* cluster.processes) yield* cluster.writeLog(process, `${process.replaced}\n`)
      expect(yield* logOf("run", { container: "main" })).toEqual(Either.right("false\n"))
      expect(Either.getLeft(yield* logOf("run", { container: "main", previous: true }))).toMatchObject({ _tag: "Some" })
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("a process of the former machine ends by itself, as its program has it, or with the power", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.createNode(node1)
      for (const name of ["short", "long", "told"]) yield* cluster.create(podNamed(name), "default")
      yield* cluster.replaceMachine(node1)
      yield* cluster.settle
      // What happens to the new machine does not concern the one before
      yield* cluster.powerOff(node1)
      expect((yield* processes).map(({ pod }) => pod)).toEqual(["short", "long", "told"])
      const told = (yield* cluster.processes).find(({ pod }) => pod === "told")
      if (told === undefined) return yield* Effect.dieMessage("it does not run")
      yield* cluster.exit(told, { code: 0 })
      expect((yield* processes).map(({ pod }) => pod)).toEqual(["short", "long"])
      yield* TestClock.adjust("10 seconds")
      expect((yield* processes).map(({ pod }) => pod)).toEqual(["long"])
      yield* cluster.powerOff(node1, { former: true })
      expect(yield* processes).toEqual([])
    }).pipe(
      Effect.provide(
        TestCluster.layer({
          programs: ({ metadata }) => (metadata.name === "short" ? { runs: [{ after: 5000, code: 0 }] } : {})
        })
      )
    )
  )

  it.scoped("a name can be taken again and again", () =>
    Effect.gen(function* () {
      const cluster = yield* withPod({ restartPolicy: "Always" })
      for (const _ of [1, 2]) {
        yield* cluster.replaceMachine(node1)
        yield* cluster.settle
      }
      const all = yield* cluster.processes
      expect(all.map(({ replaced }) => replaced)).toEqual([false, true, true])
      expect(new Set(all.map(({ machine }) => machine)).size).toBe(3)
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("the control surface of a served cluster does it too, and reaches what only the former machine runs", () =>
    Effect.gen(function* () {
      yield* withPod()
      const actions = yield* World.actions(Effect.succeed({ dropConnections: Effect.void }))
      const path = `/testkit/nodes/${node1}/replace`
      const request = { method: "POST", path, query: new URLSearchParams(), subject: Rbac.admin, body: undefined }
      const { answer } = yield* Control.handle(actions)(request)
      expect(answer).toMatchObject({ code: 200 })
      expect(yield* processes).toEqual([{ node: node1, pod: "run", replaced: true }])
      yield* actions.log({ namespace: "default", name: "run" }, { lines: ["nobody reads it"] })
      yield* actions.exit({ namespace: "default", name: "run" }, { code: 0 })
      expect(yield* processes).toEqual([])
      expect((yield* Effect.flip(actions.replaceMachine("nobody"))).message).toContain("nobody")
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scoped("a story that names no machine dies", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      const exit = yield* Effect.exit(cluster.replaceMachine("nobody"))
      expect(String(exit)).toContain("there is no machine nobody")
    }).pipe(Effect.provide(TestCluster.layer()))
  )
})

describe("clocks that disagree", () => {
  const millis = (text: string | undefined | null): number => Objects.parseTime(text ?? "")

  const started = Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* TestClock.adjust("1 minute")
    yield* cluster.createNode(node1)
    yield* cluster.create(Fixtures.trainJob("run-1"), "default")
    yield* cluster.settle
    const view = yield* cluster.view
    const [job] = view.list(Objects.jobs, "default")
    const [pod] = view.list(Objects.pods, "default")
    const [event] = view
      .list(Objects.events, "default")
      .filter(({ involvedObject, reason }) => involvedObject.kind === "Job" && reason === "SuccessfulCreate")
    if (job === undefined || pod === undefined || event === undefined)
      return yield* Effect.dieMessage("nothing started")
    return { cluster, view, job, pod, event: event as typeof event & { readonly firstTimestamp: string } }
  })
  const world = (skew: TestCluster.Skew, options: TestCluster.Options = {}) =>
    TestCluster.layer({ objects: [Fixtures.torchConforming()], skew, ...options })

  for (const skew of [3000, -3000, 0]) {
    it.scoped(`controllers that are ${skew} ms ahead write their own time; created and deleted are the server's`, () =>
      Effect.gen(function* () {
        const { cluster, event, job, pod } = yield* started
        const created = millis(pod.metadata.creationTimestamp)
        expect(created).toBe(60_000)
        expect(millis(job.metadata.creationTimestamp)).toBe(created)
        expect(millis(job.status?.startTime) - created).toBe(skew)
        expect(millis(event.firstTimestamp) - created).toBe(skew)
        // A kubelet's time is not a controller's
        expect(millis(pod.status?.startTime)).toBe(created)
        expect(millis(Objects.conditionOf(pod.status?.conditions, "Ready")?.lastTransitionTime)).toBe(created)
        yield* cluster.exit(pod, { code: 1 })
        yield* TestClock.adjust("2 seconds")
        const trainJob = yield* cluster.get(Objects.trainJobs, { namespace: "default", name: "run-1" })
        const failed = millis(Objects.conditionOf(trainJob?.status?.conditions, "Failed")?.lastTransitionTime)
        expect(failed - created - skew).toBeGreaterThanOrEqual(0)
        expect(failed - created - skew).toBeLessThanOrEqual(2000)
      }).pipe(Effect.provide(world({ controllers: skew })))
    )

    it.scoped(`nodes that are ${skew} ms ahead: starts, ends, logs, heartbeats`, () =>
      Effect.gen(function* () {
        const { cluster, job, pod, view } = yield* started
        const created = millis(pod.metadata.creationTimestamp)
        expect(millis(job.status?.startTime)).toBe(created)
        expect(millis(pod.status?.startTime) - created).toBe(skew)
        expect(millis(pod.status?.containerStatuses?.[0]?.state.running?.startedAt) - created).toBe(skew)
        expect(millis(Objects.conditionOf(pod.status?.conditions, "Ready")?.lastTransitionTime) - created).toBe(skew)
        const [lease] = view.list(Objects.leases, "kube-node-lease")
        expect(millis(lease?.spec?.renewTime) - created).toBe(skew)
        const node = yield* nodeOf(node1)
        expect(millis(Objects.conditionOf(node.status?.conditions, "Ready")?.lastTransitionTime) - created).toBe(skew)
        yield* cluster.writeLog(pod, "said\n")
        const log = Either.getOrThrow(yield* logOf(pod.metadata.name, { container: "node", timestamps: true }))
        expect(log.split("\n").map((line) => line.slice(0, 19))).toEqual([
          ...["printed", "said"].map(() => Objects.time(created + skew).slice(0, 19)),
          ""
        ])
        expect((yield* cluster.processes)[0]?.startedAt).toBe(created)
        yield* cluster.exit(pod, { code: 1 })
        yield* TestClock.adjust("500 millis")
        const ended = (yield* podOf(pod.metadata.name))?.status?.containerStatuses?.[0]?.state.terminated
        expect(millis(ended?.finishedAt) - created).toBe(skew)
      }).pipe(
        Effect.provide(world({ kubelets: skew }, { programs: () => ({ output: [{ after: 0, text: "printed\n" }] }) }))
      )
    )

    it.scoped(
      `with clocks that are ${skew} ms off nothing happens sooner or later: a lost node, its pods, a grace period`,
      () =>
        Effect.gen(function* () {
          const { cluster, pod } = yield* started
          yield* TestClock.adjust("5 minutes")
          const ready = () =>
            Effect.map(nodeOf(node1), ({ status }) => Objects.conditionOf(status?.conditions, "Ready")?.status)
          expect(yield* ready()).toBe("True")
          yield* cluster.loseNode(node1)
          yield* TestClock.adjust("39 seconds")
          expect(yield* ready()).toBe("True")
          yield* TestClock.adjust("11 seconds")
          expect(yield* ready()).toBe("Unknown")
          yield* TestClock.adjust("290 seconds")
          expect((yield* podOf(pod.metadata.name))?.metadata.deletionTimestamp).toBeUndefined()
          yield* TestClock.adjust("11 seconds")
          expect((yield* podOf(pod.metadata.name))?.metadata.deletionTimestamp).toBeDefined()
          yield* cluster.returnNode(node1)
          yield* TestClock.adjust("29 seconds")
          expect(yield* cluster.processes).toHaveLength(1)
          yield* TestClock.adjust("2 seconds")
          expect(yield* cluster.processes).toEqual([])
        }).pipe(
          Effect.provide(world({ controllers: skew, kubelets: -skew }, { programs: () => ({ onTerm: "ignore" }) }))
        )
    )
  }
})
