import { describe, expect, it } from "@effect/vitest"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Effect, Either, TestClock } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as Fixtures from "../../src/Fixtures.js"
import * as Kueue from "../../src/stages/KueueObjects.js"
import * as Objects from "../../src/stages/Objects.js"
import { layer, TestCluster } from "../../src/TestCluster.js"

const namespace = "default"

const pod = (name: string, spec: object) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { restartPolicy: "Never", ...spec }
})
const container = (name: string, cpu: string | number, more: object = {}) => ({
  name,
  image: "x",
  resources: { requests: { cpu } },
  ...more
})

const where = Effect.flatMap(TestCluster, (cluster) =>
  Effect.map(cluster.pods(namespace), (pods) =>
    Object.fromEntries(
      pods.map(({ metadata, spec, status }) => [
        metadata.name,
        spec.nodeName ?? Objects.conditionOf(status?.conditions, "PodScheduled")?.message ?? ""
      ])
    )
  )
)

const create = (body: object) =>
  Effect.flatMap(Cluster.Cluster, (cluster) =>
    cluster.apply(
      KubeRequest.make("create", Objects.trainJobs, { namespace, body: JSON.parse(JSON.stringify(body)) as object })
    )
  )

describe("amounts of resources", () => {
  it.scoped("tenths of a CPU fill a Node to the last thousandth, and not beyond it", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* cluster.createNode("node-1", { allocatable: { cpu: "300m", memory: "1Gi", pods: "10" } })
      yield* cluster.create(pod("a", { containers: [container("c", 0.1)] }), namespace)
      yield* cluster.create(pod("b", { containers: [container("c", "0.2")] }), namespace)
      yield* cluster.create(pod("c", { containers: [container("c", "1m")] }), namespace)
      yield* TestClock.adjust("1 second")
      expect(yield* where).toEqual({
        a: "node-1",
        b: "node-1",
        c: expect.stringContaining("1 Insufficient cpu") as string
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("what runs before the containers counts where it is more, and sidecars beside them", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* cluster.createNode("node-1", { allocatable: { cpu: "2", memory: "1Gi", pods: "10" } })
      const sidecar = container("side", "500m", { restartPolicy: "Always" })
      const fits = [
        { containers: [container("c", "1")], initContainers: [container("i", "2")] },
        { containers: [container("c", "1500m")], initContainers: [sidecar] },
        { containers: [container("c", "1")], initContainers: [sidecar, container("i", "1500m")] },
        { containers: [container("c", "1500m")], initContainers: [container("i", "2"), sidecar] }
      ]
      const tooMuch = [
        { containers: [container("c", "1")], initContainers: [container("i", "2001m")] },
        { containers: [container("c", "1501m")], initContainers: [sidecar] },
        { containers: [container("c", "1")], initContainers: [sidecar, container("i", "1501m")] },
        { containers: [container("c", "1")], overhead: { cpu: "1001m" } }
      ]
      for (const [index, spec] of [...fits, ...tooMuch].entries()) {
        yield* cluster.create(pod(`p${index}`, spec), namespace)
        yield* TestClock.adjust("1 second")
        const { [`p${index}`]: place } = yield* where
        expect([index, place === "node-1"]).toEqual([index, index < fits.length])
        yield* Effect.flatMap(Cluster.Cluster, (api) =>
          api.apply(
            KubeRequest.make("delete", Objects.pods, {
              namespace,
              name: `p${index}`,
              query: { gracePeriodSeconds: "0" }
            })
          )
        )
        yield* TestClock.adjust("1 second")
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("of a TrainJob they are rewritten on their way, and refused before anything is stored", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* cluster.create(
        Fixtures.trainJob("run-1", {
          trainer: {
            resourcesPerNode: { requests: { cpu: 0.1, memory: "1024Mi" }, limits: { cpu: "100000001n", memory: "2Gi" } }
          }
        }),
        namespace
      )
      yield* cluster.settle
      // Only pods and Jobs are rounded up to thousandths
      const sent = { requests: { cpu: "100m", memory: "1Gi" }, limits: { cpu: "100000001n", memory: "2Gi" } }
      const rounded = { ...sent, limits: { ...sent.limits, cpu: "101m" } }
      const trainJob = yield* cluster.get(Objects.trainJobs, { namespace, name: "run-1" })
      expect(trainJob?.spec.trainer?.resourcesPerNode).toEqual(sent)
      const jobSet = yield* cluster.get(Objects.jobSets, { namespace, name: "run-1" })
      expect(jobSet?.spec.replicatedJobs[0]?.template.spec.template.spec.containers[0]?.resources).toEqual(sent)
      const job = yield* cluster.get(Objects.jobs, { namespace, name: "run-1-node-0" })
      expect(job?.spec.template.spec.containers[0]?.resources).toEqual(rounded)
      const [first] = yield* cluster.pods(namespace)
      expect(first?.spec.containers[0]?.resources).toEqual(rounded)
      for (const [cpu, words] of [
        ["abc", "quantities must match the regular expression"],
        ["1K", "unable to parse quantity's suffix"]
      ] as const) {
        const { reply } = yield* create(
          Fixtures.trainJob("run-2", { trainer: { resourcesPerNode: { requests: { cpu } } } })
        )
        expect(Either.isLeft(reply) ? (reply.left.status?.message ?? "") : "").toContain(words)
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("Kueue's quota is used up to the last thousandth", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster
      yield* cluster.createNode("node-1")
      yield* cluster.create(Fixtures.torchConforming())
      yield* cluster.create(Fixtures.resourceFlavor("any"))
      yield* cluster.create(Fixtures.clusterQueue("pool", { quotas: { any: { cpu: "0.3" } } }))
      yield* cluster.create(Fixtures.localQueue("train", { clusterQueue: "pool" }), namespace)
      for (const [name, cpu] of [
        ["a", "0.1"],
        ["b", "200m"],
        ["c", "1m"]
      ] as const) {
        yield* cluster.create(
          Fixtures.trainJob(name, {
            labels: { "kueue.x-k8s.io/queue-name": "train" },
            trainer: { resourcesPerNode: { requests: { cpu } } }
          }),
          namespace
        )
        yield* TestClock.adjust("5 seconds")
      }
      const held = (yield* cluster.view).list(Kueue.workloads, namespace).map((workload) => ({
        owner: Objects.controllerOf(workload)?.name,
        usage: workload.status?.admission?.podSetAssignments?.[0]?.resourceUsage
      }))
      expect(held).toEqual([
        { owner: "a", usage: { cpu: "100m" } },
        { owner: "b", usage: { cpu: "200m" } },
        { owner: "c", usage: undefined }
      ])
    }).pipe(Effect.provide(layer({ kueue: true })))
  )
})
