import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Logger, TestClock } from "effect"
import * as Fixtures from "../../src/Fixtures.js"
import * as Stage from "../../src/Stage.js"
import * as Objects from "../../src/stages/Objects.js"
import * as TestCluster from "../../src/TestCluster.js"

describe("stages", () => {
  it.scoped("quantities that are numbers, as client libraries send them, reach the pods as texts", () =>
    Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.createNode("node-1")
      const resourcesPerNode = { limits: { cpu: 2, memory: "1Gi" }, requests: { cpu: 2 } }
      yield* cluster.create(Fixtures.trainJob("run-1", { trainer: { resourcesPerNode } }), "default")
      const [pod] = yield* cluster.pods("default")
      expect(pod?.status?.phase).toBe("Running")
      expect(pod?.spec.containers[0]?.resources).toEqual({
        limits: { cpu: "2", memory: "1Gi" },
        requests: { cpu: "2", memory: "1Gi" }
      })
    }).pipe(Effect.provide(TestCluster.layer({ objects: [Fixtures.torchConforming()] })))
  )

  it.scoped("one that fails on an object is told, and goes on with the others", () => {
    const told: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel._tag === "Error") told.push(String(Array.isArray(message) ? message[0] : message))
    })
    const fragile = Stage.make({
      name: "fragile",
      watches: (change) => (change.object.kind === "ConfigMap" ? [{ key: change.object.metadata.name }] : []),
      reconcile: function* ({ key }) {
        if (key === "bad") throw new Error("a field that is not there")
        yield* Stage.sendIf(undefined)
      }
    })
    return Effect.gen(function* () {
      const cluster = yield* TestCluster.TestCluster
      yield* cluster.createNode("node-1")
      yield* cluster.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "bad" } }, "default")
      yield* cluster.create(Fixtures.trainJob("run-1"), "default")
      yield* TestClock.adjust("1 seconds")
      const [pod] = yield* cluster.pods("default")
      expect(pod?.status?.phase).toBe("Running")
      expect(yield* cluster.get(Objects.pods, { namespace: "default", name: pod?.metadata.name ?? "" })).toBeDefined()
      expect(told).toEqual(["stage fragile failed on bad"])
    }).pipe(
      Effect.provide(
        Layer.provideMerge(
          TestCluster.layer({ objects: [Fixtures.torchConforming()], with: [fragile] }),
          Logger.replace(Logger.defaultLogger, logger)
        )
      )
    )
  })
})
