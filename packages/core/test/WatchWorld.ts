import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { KeyValueStore } from "@effect/platform"
import { type Duration, Effect, type Fiber, Layer, Option, Stream, TestClock } from "effect"

export const namespace = "default"
export const admission = "dispatch-kubeflow.dev/admission"

/** A TrainJob that carries the adapter's own entry with this admission count. */
export const injected = (name: string, count: number, numNodes = 2): Fixtures.Body =>
  Fixtures.trainJob(name, {
    numNodes,
    runtime: "torch-conforming",
    spec: {
      runtimePatches: [Fixtures.annotationPatch("dispatch-kubeflow.dev/adapter", { [admission]: String(count) })]
    }
  })

/** A cluster with its controllers and Nodes n1 … n3, one rank per Node, and a store for evidence. */
export const layer = (options: TestCluster.Options = {}) =>
  Layer.merge(TestCluster.layer(options), EvidenceStore.layerMemory())

/** The store of a process that was started just now, over the records that earlier ones left. */
export const open = (records: Map<string, string>, options: EvidenceStore.Options = {}) =>
  Effect.provideService(
    EvidenceStore.makeKeyValueStore(options),
    KeyValueStore.KeyValueStore,
    KeyValueStore.makeStringOnly({
      get: (at) => Effect.sync(() => Option.fromNullable(records.get(at))),
      set: (at, value) => Effect.sync(() => void records.set(at, value)),
      remove: (at) => Effect.sync(() => void records.delete(at)),
      clear: Effect.sync(() => records.clear()),
      size: Effect.sync(() => records.size)
    })
  )

export const prepare = (nodes: ReadonlyArray<string> = ["n1", "n2", "n3"]) =>
  Effect.gen(function* () {
    const world = yield* TestCluster.TestCluster
    yield* world.create(Fixtures.torchConforming("torch-conforming", { pod: Fixtures.oneRankPerNode }))
    yield* Effect.forEach(nodes, (name) => world.createNode(name), { discard: true })
    yield* world.settle
    return world
  })

export interface Watching {
  readonly updates: Array<Update.Update>
  readonly problems: Array<Watch.Problem>
  readonly fiber: Fiber.RuntimeFiber<void, Watch.Failure>
  readonly last: (name?: string) => Update.Update | undefined
  /** Lets time pass, and everything that is due happen. */
  readonly pass: (time: Duration.DurationInput) => Effect.Effect<void>
}

/** Starts a watch whose updates are collected. */
export const start = (
  scope: Watch.Scope,
  options: { readonly kueue?: Parameters<typeof Watch.make>[0]["kueue"] } = {}
) =>
  Effect.gen(function* () {
    const world = yield* TestCluster.TestCluster
    const updates: Array<Update.Update> = []
    const problems: Array<Watch.Problem> = []
    const program = yield* Watch.make(
      { kueue: options.kueue },
      { onProblem: (problem) => Effect.sync(() => void problems.push(problem)) }
    )
    const fiber = yield* Effect.forkScoped(
      Stream.runForEach(program.watch(scope), (update) => Effect.sync(() => void updates.push(update)))
    )
    yield* world.settle
    const watching: Watching = {
      updates,
      problems,
      fiber,
      last: (name) => updates.findLast((it) => name === undefined || it.ref.name === name),
      pass: (time) => Effect.zipRight(TestClock.adjust(time), world.settle)
    }
    return watching
  })

/** How often each verb was used on each resource. */
export const requests = Effect.map(
  Effect.flatMap(Cluster.Cluster, (cluster) => cluster.audit),
  (entries) => {
    const counts: Record<string, number> = {}
    for (const { request } of entries) {
      const line = `${request.verb} ${request.plural}`
      counts[line] = (counts[line] ?? 0) + 1
    }
    return counts
  }
)
