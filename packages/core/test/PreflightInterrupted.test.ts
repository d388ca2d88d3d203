/**
 * A preflight that is interrupted, or killed, at any point leaves nothing behind: on the cluster with its controllers, for
 * every mode of the probe.
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Preflight from "@dispatch-kubeflow/core/Preflight"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, TestClock, TestContext } from "effect"
import * as ProbeWorld from "./probeWorld.js"

const namespace = "team-a"
const kueue: AdapterConfig.KueueConfig = {
  localQueue: "train",
  admissionCheck: "gate",
  controllerName: "example.com/gate",
  lease: { namespace, name: "gate-controller" }
}

const modes = {
  "plain mode": { config: AdapterConfig.make({ namespace }), kueue: false },
  "plain mode with a real probe": { config: AdapterConfig.make({ namespace, holdProbe: "real" }), kueue: false },
  "Kueue mode": { config: AdapterConfig.make({ namespace, kueue }), kueue: true }
} as const

/** Everything a preflight could leave behind, and every process. */
const leftovers = Effect.gen(function* () {
  const { admin } = yield* Cluster
  const cluster = yield* TestCluster.TestCluster
  const lists = yield* Effect.forEach(
    [
      { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" },
      { group: "jobset.x-k8s.io", version: "v1alpha2", plural: "jobsets" },
      { group: "batch", version: "v1", plural: "jobs" },
      { group: "", version: "v1", plural: "pods" },
      { group: "kueue.x-k8s.io", version: "v1beta2", plural: "workloads" }
    ],
    (type) => admin.transport.call(KubeRequest.make("list", type, { namespace }))
  )
  const objects = lists.flatMap(({ body }) =>
    (body as { readonly items: ReadonlyArray<{ readonly metadata: { readonly name: string } }> }).items.map(
      ({ metadata }) => metadata.name
    )
  )
  return [...objects, ...(yield* cluster.processes).map(({ pod }) => `process of ${pod}`)]
})

const prepared = Effect.gen(function* () {
  const cluster = yield* TestCluster.TestCluster
  yield* cluster.create(Fixtures.namespace(namespace))
  yield* cluster.createNode("node-1")
  yield* cluster.create(Fixtures.torchConforming())
  return yield* Cluster
})

/** Nothing of a request that is `reached` comes back; what was sent after it is not even performed when `dead`. */
const silentFrom = (at: number, reached: Deferred.Deferred<void>, dead: boolean) => {
  let count = 0
  return KubeApi.transform((transport) => ({
    ...transport,
    call: (request) =>
      Effect.suspend(() => {
        const here = count
        count += 1
        if (here < at || (here > at && !dead)) return transport.call(request)
        return here > at
          ? Effect.never
          : Effect.ignore(transport.call(request)).pipe(
              Effect.zipRight(Deferred.succeed(reached, undefined)),
              Effect.zipRight(Effect.never)
            )
      })
  }))
}

const run = (config: AdapterConfig.AdapterConfig, api: KubeApi.Service) =>
  Effect.provideService(Preflight.preflight(config), KubeApi.KubeApi, api)

/** A cluster of its own for each point of interruption. */
const inCluster = <A, E>(
  mode: keyof typeof modes,
  story: Effect.Effect<A, E, Cluster | TestCluster.TestCluster>
): Effect.Effect<A, E> =>
  Effect.provide(story, TestCluster.layer({ kueue: modes[mode].kueue, heartbeat: 0 })).pipe(
    Effect.provide(TestContext.TestContext)
  )

/** The requests of a preflight, without interruption. */
const requests = (mode: keyof typeof modes) =>
  inCluster(
    mode,
    Effect.gen(function* () {
      const door = yield* prepared
      const seen: Array<KubeRequest.KubeRequest> = []
      const api = KubeApi.transform((transport) => ({
        ...transport,
        call: (request) =>
          Effect.zipRight(
            Effect.sync(() => seen.push(request)),
            transport.call(request)
          )
      }))(door.admin)
      const { facts } = yield* ProbeWorld.drive(run(modes[mode].config, api))
      expect(facts.hold._tag).toBe("Passed")
      return seen
    })
  )

const isWrite = (request: KubeRequest.KubeRequest): boolean =>
  request.plural === "trainjobs" && request.verb === "create" && request.query["dryRun"] === undefined

for (const mode of Object.keys(modes) as ReadonlyArray<keyof typeof modes>) {
  const { config } = modes[mode]
  describe(mode, () => {
    it.effect("interrupted after k requests, the answer of the last one lost, it leaves nothing: every k", () =>
      Effect.gen(function* () {
        const all = yield* requests(mode)
        const created = all.findIndex(isWrite)
        expect(created).toBeGreaterThan(0)
        for (let k = 0; k < all.length; k += 1) {
          // Reviews are all alike: a few of them stand for the others
          if (all[k]?.plural === "selfsubjectaccessreviews" && k % 8 !== 0) continue
          const left = yield* inCluster(
            mode,
            Effect.gen(function* () {
              const door = yield* prepared
              const reached = yield* Deferred.make<void>()
              const fiber = yield* Effect.fork(run(config, silentFrom(k, reached, false)(door.admin)))
              yield* ProbeWorld.drive(Deferred.await(reached))
              yield* ProbeWorld.drive(Fiber.interrupt(fiber), 2000)
              yield* TestClock.adjust("10 seconds")
              return yield* leftovers
            })
          )
          expect([k, all[k]?.verb, all[k]?.plural, left]).toEqual([k, all[k]?.verb, all[k]?.plural, []])
        }
      })
    )

    it.effect("killed after k requests and run again, it leaves nothing: every k from the probe's creation", () =>
      Effect.gen(function* () {
        const all = yield* requests(mode)
        for (let k = all.findIndex(isWrite); k < all.length; k += 1) {
          const [report, left] = yield* inCluster(
            mode,
            Effect.gen(function* () {
              const door = yield* prepared
              const reached = yield* Deferred.make<void>()
              // A daemon: nobody waits for it, as for a process that is no more
              yield* Effect.forkDaemon(run(config, silentFrom(k, reached, true)(door.admin)))
              yield* ProbeWorld.drive(Deferred.await(reached))
              const again = yield* ProbeWorld.drive(run(config, door.admin), 2000)
              yield* TestClock.adjust("10 seconds")
              return [again, yield* leftovers] as const
            })
          )
          expect([k, report.facts.hold._tag, left]).toEqual([k, "Passed", []])
        }
      })
    )
  })
}
