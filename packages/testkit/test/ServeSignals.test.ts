import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger, Ref, TestClock } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Fixtures from "../src/Fixtures.js"
import * as Signals from "../src/serve/Signals.js"
import * as World from "../src/serve/World.js"
import * as Objects from "../src/stages/Objects.js"
import * as TestCluster from "../src/TestCluster.js"

const pod = (name: string, program?: string): Fixtures.Body =>
  Fixtures.pod(name, {
    ...(program === undefined ? {} : { annotations: { [Signals.programAnnotation]: program } }),
    spec: { containers: [{ name: "main", image: "registry.example/train:1" }] }
  })

const story = Effect.gen(function* () {
  const world = yield* TestCluster.TestCluster
  const { admin } = yield* Cluster.Cluster
  yield* World.addNodes(1)
  yield* Effect.forkScoped(Signals.obey)
  yield* world.settle
  return {
    world,
    find: (name: string) => world.get(Objects.pods, { namespace: "default", name }),
    ready: Effect.map(
      world.get(Objects.nodes, { name: "node-1" }),
      (node) => Objects.conditionOf(node?.status?.conditions, "Ready")?.status
    ),
    /** Says what happens to the machine as a client would: by a merge patch. */
    machine: (wish: string | null) =>
      Effect.zipRight(
        admin.transport.call(
          KubeRequest.make("patch", Objects.nodes, {
            name: "node-1",
            patchType: "merge",
            body: { metadata: { annotations: { [Signals.machineAnnotation]: wish } } }
          })
        ),
        world.settle
      )
  }
})

/** The warnings of a program. */
const warnings = Effect.gen(function* () {
  const lines = yield* Ref.make<ReadonlyArray<string>>([])
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel._tag === "Warning") Effect.runSync(Ref.update(lines, (all) => [...all, String(message)]))
  })
  return { lines: Ref.get(lines), layer: Logger.replace(Logger.defaultLogger, logger) }
})

describe("annotations", () => {
  it.scoped("program: a pod's containers print, and end, as its annotation says", () =>
    Effect.gen(function* () {
      const { find, world } = yield* story
      const program = { runs: [{ after: 5000, code: 3 }], output: [{ after: 1000, text: "epoch 1\n" }] }
      yield* world.create(pod("a", JSON.stringify(program)), "default")
      yield* TestClock.adjust("3 seconds")
      expect((yield* find("a"))?.status?.phase).toBe("Running")
      yield* TestClock.adjust("5 seconds")
      const ended = yield* find("a")
      expect(ended?.status?.phase).toBe("Failed")
      expect(ended?.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 3, reason: "Error" })
    }).pipe(Effect.provide(World.layer(50_000)))
  )

  it.scoped("program: one that cannot be read is told, and the containers run on", () =>
    Effect.gen(function* () {
      const { layer, lines } = yield* warnings
      const { find, world } = yield* Effect.provide(story, layer)
      yield* world.create(pod("a", "{"), "default")
      yield* world.create(pod("b", `{"runs":[{"after":-1,"code":300}]}`), "default")
      yield* TestClock.adjust("1 minutes")
      expect([(yield* find("a"))?.status?.phase, (yield* find("b"))?.status?.phase]).toEqual(["Running", "Running"])
      const told = yield* lines
      expect(told).toHaveLength(2)
      expect(told[0]).toMatch(/^Pod a: testkit\.dispatch-kubeflow\.dev\/program: /)
      expect(told[1]).toMatch(/^Pod b: .*runs/s)
    }).pipe(Effect.provide(World.layer(50_000)))
  )

  it.scoped("machine: lost is found after the grace period while the process runs on, off ends it, up is back", () =>
    Effect.gen(function* () {
      const { machine, ready, world } = yield* story
      yield* world.create(pod("a"), "default")
      yield* TestClock.adjust("10 seconds")
      expect(yield* ready).toBe("True")
      expect(yield* world.processes).toHaveLength(1)

      yield* machine("lost")
      yield* TestClock.adjust("15 seconds")
      expect(yield* ready).toBe("True")
      yield* TestClock.adjust("15 seconds")
      expect(yield* ready).toBe("Unknown")
      expect(yield* world.processes).toHaveLength(1)

      yield* machine("up")
      yield* TestClock.adjust("5 seconds")
      expect(yield* ready).toBe("True")

      yield* machine("off")
      yield* world.settle
      expect(yield* world.processes).toEqual([])
      yield* machine("up")
      yield* TestClock.adjust("15 seconds")
      expect(yield* ready).toBe("True")
    }).pipe(Effect.provide(World.layer(20_000)))
  )

  it.scoped("machine: another word is told and does nothing", () =>
    Effect.gen(function* () {
      const { layer, lines } = yield* warnings
      const { machine, ready } = yield* Effect.provide(story, layer)
      yield* machine("exploded")
      yield* TestClock.adjust("2 minutes")
      expect(yield* ready).toBe("True")
      expect(yield* lines).toEqual([
        `Node node-1: testkit.dispatch-kubeflow.dev/machine is lost, off or up, not "exploded"`
      ])
    }).pipe(Effect.provide(World.layer(50_000)))
  )
})

describe("--kueue", () => {
  const queued = Fixtures.trainJob("run-1", { labels: { "kueue.x-k8s.io/queue-name": "train" } })
  const suspended = Effect.gen(function* () {
    const world = yield* TestCluster.TestCluster
    yield* world.create(queued, "default")
    yield* world.settle
    return (yield* world.get(Objects.trainJobs, { namespace: "default", name: "run-1" }))?.spec.suspend
  })

  it.scoped("a queued TrainJob waits for its queue", () =>
    Effect.map(suspended, (value) => expect(value).toBe(true)).pipe(
      Effect.provide(World.layer(50_000, { kueue: true }))
    )
  )

  it.scoped("without it a queue label means nothing", () =>
    Effect.map(suspended, (value) => expect(value).toBe(false)).pipe(Effect.provide(World.layer(50_000)))
  )
})
