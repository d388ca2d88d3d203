import { describe, expect, it } from "@effect/vitest"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Effect, Either, TestClock } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as EventLog from "../../src/EventLog.js"
import * as Fixtures from "../../src/Fixtures.js"
import * as Objects from "../../src/stages/Objects.js"
import * as Stage from "../../src/Stage.js"
import * as Trainer from "../../src/stages/Trainer.js"
import { layer, TestCluster, type Service } from "../../src/TestCluster.js"

const first = <A>(items: ReadonlyArray<A>): A => {
  const [item] = items
  if (item === undefined) throw new Error("there is nothing")
  return item
}

const ready = (
  cluster: Service,
  options: Fixtures.TrainJobOptions = {},
  runtime: Fixtures.Body = Fixtures.torchConforming()
) =>
  Effect.gen(function* () {
    yield* cluster.createNode("node-1")
    yield* cluster.createNode("node-2")
    yield* cluster.create(runtime)
    yield* cluster.create(
      Fixtures.trainJob("run-1", { runtime: (runtime["metadata"] as { name: string }).name, ...options }),
      "default"
    )
    yield* cluster.settle
    return yield* cluster.pods("default")
  })

const trainJob = (cluster: Service) => cluster.get(Objects.trainJobs, { namespace: "default", name: "run-1" })
const conditions = (
  object: { readonly status?: { readonly conditions?: ReadonlyArray<Objects.Condition> } } | undefined
) =>
  (object?.status?.conditions ?? [])
    .filter(({ status }) => status === "True")
    .map(({ reason, type }) => `${type}/${reason ?? ""}`)
const podStates = (pods: ReadonlyArray<Objects.Pod>) =>
  pods.map(
    ({ metadata, status }) =>
      `${metadata.labels?.["batch.kubernetes.io/job-completion-index"] ?? ""} ${status?.phase ?? ""}`
  )

describe("the happy path", () => {
  it.scoped("a TrainJob becomes running pods without the clock moving", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const pods = yield* ready(cluster, { numNodes: 2 })
      expect(podStates(pods)).toEqual(["0 Running", "1 Running"])
      expect((yield* cluster.processes).map(({ container, node }) => `${node} ${container}`)).toEqual([
        "node-1 node",
        "node-2 node"
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("it succeeds when every rank has exited with 0, and its pods stay", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      for (const pod of yield* ready(cluster, { numNodes: 2 })) yield* cluster.exit(pod, { code: 0 })
      yield* TestClock.adjust("2 seconds")
      expect(conditions(yield* trainJob(cluster))).toEqual(["Complete/AllJobsCompleted"])
      expect(podStates(yield* cluster.pods("default"))).toEqual(["0 Succeeded", "1 Succeeded"])
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("one failing rank fails it; the healthy one is stopped and goes", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const pods = yield* ready(cluster, { numNodes: 2 })
      yield* cluster.exit(first(pods.slice(1)), { code: 17 })
      yield* TestClock.adjust("3 seconds")
      expect(conditions(yield* trainJob(cluster))).toEqual(["Failed/FailedJobs"])
      const [left] = yield* cluster.pods("default")
      expect(left?.status?.containerStatuses?.[0]?.state.terminated).toMatchObject({ exitCode: 17, reason: "Error" })
      expect(yield* cluster.pods("default")).toHaveLength(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("programs end by themselves, write their log and are restarted in place with back-off", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const [pod] = yield* ready(cluster, {}, Fixtures.torchDistributed())
      const counts: Array<number> = []
      for (const seconds of [1, 2, 12, 24]) {
        yield* TestClock.adjust(`${seconds} seconds`)
        const now = yield* cluster.get(Objects.pods, { namespace: "default", name: first([pod!]).metadata.name })
        counts.push(now?.status?.containerStatuses?.[0]?.restartCount ?? -1)
      }
      // restarts come 1 s, 10 s and 20 s after the end of a run of 1 s
      expect(counts).toEqual([0, 1, 2, 3])
    }).pipe(Effect.provide(layer({ programs: () => ({ runs: [{ after: 1000, code: 1 }] }) })))
  )
})

describe("deletion (observed/kubelet.md 6)", () => {
  const statesOf = (name: string) =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      const state = yield* cluster.state
      return EventLog.after(state.log, 0)
        .filter(({ key, resource }) => resource === "/pods" && key === `default/${name}`)
        .map(({ object, type }) => {
          const pod = object as unknown as Objects.Pod
          const container = pod.status?.containerStatuses?.[0]
          return [
            type,
            pod.status?.phase ?? "",
            Object.keys(container?.state ?? {})[0] ?? "",
            container?.state.terminated?.exitCode ?? "",
            pod.metadata.deletionGracePeriodSeconds ?? ""
          ]
            .join(" ")
            .trim()
        })
    })

  const bare = (name: string, spec: Fixtures.Body = {}) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { restartPolicy: "Never", containers: [{ name: "node", image: "img:1" }], ...spec }
  })

  it.scoped("a handled SIGTERM: the DELETED event carries the terminated container", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(bare("p"), "default")
      yield* cluster.settle
      yield* api.apply(KubeRequest.make("delete", Objects.pods, { namespace: "default", name: "p" }))
      yield* cluster.settle
      const states = yield* statesOf("p")
      expect(states.slice(-5)).toEqual([
        "MODIFIED Running running  30",
        "MODIFIED Running running  30",
        "MODIFIED Failed terminated 143 30",
        "MODIFIED Failed terminated 143 0",
        "DELETED Failed terminated 143 0"
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("an ignored SIGTERM: SIGKILL at the end of the grace period", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(bare("p", { terminationGracePeriodSeconds: 5 }), "default")
      yield* cluster.settle
      yield* api.apply(KubeRequest.make("delete", Objects.pods, { namespace: "default", name: "p" }))
      yield* TestClock.adjust("4900 millis")
      expect(yield* cluster.processes).toHaveLength(1)
      yield* TestClock.adjust("200 millis")
      expect(yield* cluster.processes).toEqual([])
      expect((yield* statesOf("p")).at(-1)).toBe("DELETED Failed terminated 137 0")
    }).pipe(Effect.provide(layer({ programs: () => ({ onTerm: "ignore" }) })))
  )

  it.scoped("a pod that never started ends as ContainerStatusUnknown", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(bare("p"), "default")
      yield* cluster.settle
      const waiting = yield* cluster.get(Objects.pods, { namespace: "default", name: "p" })
      expect(waiting?.status?.phase).toBe("Pending")
      expect(waiting?.status?.containerStatuses?.[0]?.state.waiting?.reason).toBe("ErrImagePull")
      yield* api.apply(KubeRequest.make("delete", Objects.pods, { namespace: "default", name: "p" }))
      yield* cluster.settle
      expect((yield* statesOf("p")).slice(-3)).toEqual([
        "MODIFIED Failed terminated 137 30",
        "MODIFIED Failed terminated 137 0",
        "DELETED Failed terminated 137 0"
      ])
    }).pipe(Effect.provide(layer({ programs: () => ({ waiting: { reason: "ErrImagePull" } }) })))
  )

  it.scoped("a forced deletion: DELETED says running, and the process lives two seconds more", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(bare("p"), "default")
      yield* cluster.settle
      yield* api.apply(
        KubeRequest.make("delete", Objects.pods, {
          namespace: "default",
          name: "p",
          body: { kind: "DeleteOptions", apiVersion: "v1", gracePeriodSeconds: 0 }
        })
      )
      yield* cluster.settle
      expect((yield* statesOf("p")).at(-1)).toBe("DELETED Running running  0")
      yield* TestClock.adjust("2 seconds")
      expect(yield* cluster.processes).toHaveLength(1)
      yield* TestClock.adjust("300 millis")
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(layer({ programs: () => ({ onTerm: "ignore" }) })))
  )
})

describe("node loss", () => {
  it.scoped("every object says the run is over while its process still runs (observed/kubelet.md 10)", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const [pod] = yield* ready(cluster)
      const node = pod?.spec.nodeName ?? ""
      yield* cluster.loseNode(node)
      yield* TestClock.adjust("61 seconds")
      const lost = yield* cluster.get(Objects.nodes, { name: node })
      expect(Objects.conditionOf(lost?.status?.conditions, "Ready")).toMatchObject({
        status: "Unknown",
        reason: "NodeStatusUnknown",
        message: "Kubelet stopped posting node status."
      })
      expect(lost?.spec?.taints?.map(({ effect, key }) => `${key}:${effect}`)).toEqual([
        "node.kubernetes.io/unreachable:NoSchedule",
        "node.kubernetes.io/unreachable:NoExecute"
      ])
      const seen = yield* cluster.get(Objects.pods, { namespace: "default", name: pod?.metadata.name ?? "" })
      expect(seen?.status?.phase).toBe("Running")
      expect(Objects.conditionOf(seen?.status?.conditions, "Ready")).toMatchObject({ status: "False" })
      expect(seen?.metadata.deletionTimestamp).toBeUndefined()

      yield* cluster.taintOutOfService(node)
      yield* TestClock.adjust("25 seconds")
      expect(yield* cluster.pods("default")).toEqual([])
      expect(conditions(yield* trainJob(cluster))).toEqual(["Failed/FailedJobs"])
      expect((yield* cluster.processes).map(({ podUid }) => podUid)).toEqual([pod?.metadata.uid])

      yield* cluster.returnNode(node)
      yield* TestClock.adjust("2900 millis")
      expect(yield* cluster.processes).toHaveLength(1)
      yield* TestClock.adjust("2200 millis")
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(layer({ programs: () => ({ onTerm: "ignore" }) })))
  )

  it.scoped(
    "without the taint the pod is evicted after 300 s and stays Terminating; a power-off ends the process",
    () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster
        const [pod] = yield* ready(cluster)
        const node = pod?.spec.nodeName ?? ""
        yield* cluster.loseNode(node)
        yield* TestClock.adjust("370 seconds")
        const now = yield* cluster.get(Objects.pods, { namespace: "default", name: pod?.metadata.name ?? "" })
        expect(now?.metadata.deletionTimestamp).toBeDefined()
        expect(Objects.conditionOf(now?.status?.conditions, "DisruptionTarget")).toMatchObject({
          reason: "DeletionByTaintManager"
        })
        expect(now?.status?.phase).toBe("Running")
        expect(conditions(yield* trainJob(cluster))).toEqual([])
        expect(yield* cluster.processes).toHaveLength(1)
        yield* cluster.powerOff(node)
        expect(yield* cluster.processes).toEqual([])
      }).pipe(Effect.provide(layer({ heartbeat: "10 seconds" })))
  )

  it.scoped("a deleted Node: 40 to 60 s later PodGC ends its pod, two seconds later the process dies", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const [pod] = yield* ready(cluster)
      yield* cluster.deleteNode(pod?.spec.nodeName ?? "")
      yield* TestClock.adjust("39 seconds")
      expect(podStates(yield* cluster.pods("default"))).toEqual(["0 Running"])
      yield* TestClock.adjust("23 seconds")
      expect(yield* cluster.pods("default")).toEqual([])
      yield* TestClock.adjust("3 seconds")
      expect(yield* cluster.processes).toEqual([])
      expect(conditions(yield* trainJob(cluster))).toEqual(["Failed/FailedJobs"])
    }).pipe(Effect.provide(layer({ programs: () => ({ onTerm: "ignore" }) })))
  )

  it.scoped("a kubelet restarted within the quarantine registers a Node of another uid and keeps pod and process", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const [pod] = yield* ready(cluster)
      const name = pod?.spec.nodeName ?? ""
      const before = yield* cluster.get(Objects.nodes, { name })
      yield* cluster.deleteNode(name)
      yield* TestClock.adjust("5 seconds")
      yield* cluster.loseNode(name)
      yield* cluster.returnNode(name)
      yield* TestClock.adjust("60 seconds")
      const after = yield* cluster.get(Objects.nodes, { name })
      expect(after?.metadata.uid).not.toBe(before?.metadata.uid)
      expect(after?.status?.nodeInfo?.["bootID"]).toBe(before?.status?.nodeInfo?.["bootID"])
      expect(Objects.isTrue(after?.status?.conditions, "Ready")).toBe(true)
      expect(podStates(yield* cluster.pods("default"))).toEqual(["0 Running"])
      expect(yield* cluster.processes).toHaveLength(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("nodes lost together get their NoExecute taints one per ten seconds", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const names = ["node-1", "node-2", "node-3"]
      for (const name of names) yield* cluster.createNode(name)
      for (const name of names) yield* cluster.loseNode(name)
      const tainted = Effect.map(
        cluster.view,
        (view) =>
          view.list(Objects.nodes).filter((node) => node.spec?.taints?.some(({ effect }) => effect === "NoExecute"))
            .length
      )
      yield* TestClock.adjust("51 seconds")
      const counts = [yield* tainted]
      yield* TestClock.adjust("10 seconds")
      counts.push(yield* tainted)
      yield* TestClock.adjust("10 seconds")
      counts.push(yield* tainted)
      expect(counts).toEqual([1, 2, 3])
    }).pipe(Effect.provide(layer()))
  )
})

describe("stages as data", () => {
  it.scoped("a stage can be switched off", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* ready(cluster, { suspend: true })
      const job = yield* trainJob(cluster)
      // Suspended True proves nothing: no JobSet controller looked at the JobSet (observed/trainer.md 8.5)
      expect(conditions(job)).toEqual(["Suspended/Suspended"])
      const jobSet = yield* cluster.get(Objects.jobSets, { namespace: "default", name: "run-1" })
      expect(jobSet?.status).toBeUndefined()
    }).pipe(Effect.provide(layer({ without: ["jobset"] })))
  )

  it.scoped("a stage can be replaced by name", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* ready(cluster)
      expect(yield* cluster.pods("default")).toHaveLength(1)
      expect(yield* cluster.processes).toEqual([])
    }).pipe(
      Effect.provide(
        layer({ with: [Stage.make({ name: "scheduler", watches: () => [], reconcile: function* () {} })] })
      )
    )
  )

  it.scoped("a stage can be late", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      expect(yield* ready(cluster)).toEqual([])
      yield* TestClock.adjust("9 seconds")
      expect(yield* cluster.get(Objects.jobs, { namespace: "default", name: "run-1-node-0" })).toBeUndefined()
      yield* TestClock.adjust("2 seconds")
      expect(yield* cluster.pods("default")).toHaveLength(1)
    }).pipe(Effect.provide(layer({ delays: { jobset: { wait: "10 seconds" } } })))
  )

  it.scoped("the same story gives the same log", () =>
    Effect.gen(function* () {
      const story = Effect.gen(function* () {
        const cluster = yield* TestCluster
        yield* ready(cluster, { numNodes: 3 })
        yield* TestClock.adjust("2 seconds")
        yield* cluster.exit(first(yield* cluster.pods("default")), { code: 1 })
        yield* TestClock.adjust("5 seconds")
        const state = yield* (yield* Cluster.Cluster).state
        return EventLog.after(state.log, 0).map(({ key, object, type }) => `${type} ${key} ${JSON.stringify(object)}`)
      })
      yield* TestClock.setTime(0)
      const one = yield* Effect.provide(story, layer({ seed: 7, delays: { job: { jitter: "1 second" } } }))
      yield* TestClock.setTime(0)
      const two = yield* Effect.provide(story, layer({ seed: 7, delays: { job: { jitter: "1 second" } } }))
      expect(two).toEqual(one)
    })
  )

  it.scoped("compaction of the log loses no change", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* api.apply(
        KubeRequest.make("create", Objects.trainJobs, { namespace: "default", body: Fixtures.trainJob("run-1") })
      )
      yield* api.compact()
      yield* cluster.settle
      expect(podStates(yield* cluster.pods("default"))).toEqual(["0 Running"])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped(
    "a thousand pods start in one go",
    () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster
        for (let index = 0; index < 20; index++) {
          yield* cluster.createNode(`node-${index}`, { allocatable: { cpu: "10000", memory: "9Ti", pods: "200" } })
        }
        yield* cluster.create(Fixtures.torchConforming())
        yield* cluster.create(Fixtures.trainJob("big", { numNodes: 1000 }), "default")
        yield* cluster.settle
        yield* TestClock.adjust("1 second")
        const job = yield* cluster.get(Objects.jobs, { namespace: "default", name: "big-node-0" })
        expect(job?.status).toMatchObject({ active: 1000, ready: 1000 })
      }).pipe(Effect.provide(layer({ heartbeat: 0 }))),
    120_000
  )
})

describe("chaos", () => {
  const jobSets = Effect.gen(function* () {
    const state = yield* (yield* Cluster.Cluster).state
    return EventLog.after(state.log, 0).filter(
      ({ resource, type }) => resource === "jobset.x-k8s.io/jobsets" && type === "ADDED"
    ).length
  })

  const remove = (policy: "Background" | "Foreground") =>
    Effect.flatMap(Cluster.Cluster, (api) =>
      api.apply(
        KubeRequest.make("delete", Objects.trainJobs, {
          namespace: "default",
          name: "run-1",
          body: { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: policy }
        })
      )
    )

  for (const [state, expected] of [
    ["running", 2],
    ["suspended", 2],
    ["Failed", 2],
    ["Complete", 1]
  ] as const) {
    it.scoped(`a ${state} TrainJob deleted in the foreground: ${expected - 1} more JobSet, and nothing is left`, () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster
        const pods = yield* ready(cluster, { suspend: state === "suspended" })
        if (state === "Failed" || state === "Complete") {
          yield* cluster.exit(first(pods), { code: state === "Failed" ? 1 : 0 })
          yield* TestClock.adjust("3 seconds")
        }
        yield* remove("Foreground")
        yield* TestClock.adjust("5 seconds")
        expect(yield* jobSets).toBe(expected)
        expect(yield* trainJob(cluster)).toBeUndefined()
        expect(yield* cluster.pods("default")).toEqual([])
        expect(yield* cluster.get(Objects.jobSets, { namespace: "default", name: "run-1" })).toBeUndefined()
      }).pipe(Effect.provide(layer()))
    )
  }

  it.scoped("a TrainJob deleted in the background starts nothing", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* ready(cluster)
      yield* remove("Background")
      yield* TestClock.adjust("5 seconds")
      expect(yield* jobSets).toBe(1)
      expect(yield* cluster.pods("default")).toEqual([])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("the deadline: one more pod with a lagging cache, none otherwise", () =>
    Effect.gen(function* () {
      const count = Effect.gen(function* () {
        const cluster = yield* TestCluster
        yield* ready(cluster, { spec: { activeDeadlineSeconds: 5 } })
        yield* TestClock.adjust("10 seconds")
        expect(conditions(yield* trainJob(cluster))).toEqual(["Failed/DeadlineExceeded"])
        expect(yield* cluster.processes).toEqual([])
        return yield* jobSets
      })
      expect(yield* Effect.provide(count, layer())).toBe(1)
      expect(yield* Effect.provide(count, layer({ with: [Trainer.make({ cache: "lagging" })] }))).toBe(2)
    })
  )

  it.scoped("a JobSet deleted by a person: the run starts again beside the old pod", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const [old] = yield* ready(cluster)
      const api = yield* Cluster.Cluster
      yield* api.apply(
        KubeRequest.make("delete", Objects.jobSets, {
          namespace: "default",
          name: "run-1",
          body: { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background" }
        })
      )
      yield* cluster.settle
      const processes = yield* cluster.processes
      expect(processes).toHaveLength(2)
      expect(processes.map(({ podUid }) => podUid)).toContain(old?.metadata.uid)
    }).pipe(Effect.provide(layer({ programs: () => ({ onTerm: "ignore" }) })))
  )

  it.scoped("a runtime that is gone: the foreground deletion never ends (observed/trainer.md 1.3)", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* ready(cluster)
      const api = yield* Cluster.Cluster
      yield* api.apply(KubeRequest.make("delete", Objects.clusterTrainingRuntimes, { name: "torch-conforming" }))
      yield* remove("Foreground")
      yield* TestClock.adjust("60 seconds")
      expect((yield* trainJob(cluster))?.metadata.finalizers).toEqual(["foregroundDeletion"])
      const answer = yield* api.apply(
        KubeRequest.make("patch", Objects.trainJobs, {
          namespace: "default",
          name: "run-1",
          patchType: "merge",
          body: { spec: { suspend: true } }
        })
      )
      expect(Either.isLeft(answer.reply) && answer.reply.left.code).toBe(403)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("no process outlives a boot, also of a machine that was on", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* cluster.create(Fixtures.trainJob("run-1"), "default")
      yield* cluster.loseNode("node-1")
      expect(yield* cluster.processes).toHaveLength(1)
      yield* cluster.powerOn("node-1")
      yield* cluster.settle
      expect(yield* cluster.processes).toEqual([])
      expect((yield* cluster.pods("default"))[0]?.status).toMatchObject({
        containerStatuses: [{ state: { terminated: { exitCode: 255 } } }]
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a namespace that is deleted takes everything with it", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      const api = yield* Cluster.Cluster
      yield* cluster.create(Fixtures.namespace("team"))
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* cluster.create(Fixtures.trainJob("run-1"), "team")
      yield* cluster.settle
      expect(yield* cluster.pods("team")).toHaveLength(1)
      yield* api.apply(KubeRequest.make("delete", Objects.namespaces, { name: "team" }))
      yield* TestClock.adjust("30 seconds")
      expect(yield* cluster.pods("team")).toEqual([])
      expect(yield* cluster.get(Objects.namespaces, { name: "team" })).toBeUndefined()
      expect(yield* cluster.processes).toEqual([])
    }).pipe(Effect.provide(layer()))
  )
})
