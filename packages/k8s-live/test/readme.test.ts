import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Signals from "@dispatch-kubeflow/testkit/serve/Signals"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Command } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schedule, Stream, TestClock } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parse } from "yaml"
import { serveForAdmin } from "./worlds.js"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const example = join(root, "examples/demo/src/compose.ts")

describe("README", () => {
  it("shows the example that is executed here", () => {
    expect(readFileSync(join(root, "README.md"), "utf8")).toContain(`\`\`\`ts\n${readFileSync(example, "utf8")}\`\`\``)
  })

  it.scoped("its TrainJob writes ten lines and completes", () =>
    Effect.gen(function* () {
      const world = yield* TestCluster.TestCluster
      const { admin } = yield* Cluster.Cluster
      yield* world.createNode("node-1")
      yield* world.createNode("node-2")
      const manifest: Fixtures.Body = parse(readFileSync(join(root, "examples/demo/trainjob.yaml"), "utf8"))
      yield* world.create(manifest, "default")
      yield* TestClock.adjust("15 seconds")
      const job = yield* admin.get(Trainer.trainJobs, { namespace: "default", name: "demo-1" })
      expect(Meta.trueCondition(job.status?.conditions, "Complete")).toBeDefined()
      const { items } = yield* admin.list(Core.pods, { namespace: "default" })
      expect(items).toHaveLength(2)
      const bytes = yield* Stream.runCollect(
        admin.log({ namespace: "default", name: items[0]?.metadata.name ?? "" }, { container: "node" })
      )
      expect(Buffer.concat([...bytes]).toString()).toMatch(/^epoch 1 of 10, loss 2.500\n(epoch .*\n){9}$/)
    }).pipe(Effect.provide(TestCluster.layer({ objects: [Fixtures.torchConforming()], programs: Signals.programOf })))
  )

  it.scopedLive("its composition runs as it is shown", () =>
    Effect.gen(function* () {
      const world = yield* TestCluster.TestCluster
      const { admin } = yield* Cluster.Cluster
      yield* world.createNode("node-1")
      yield* world.create(Fixtures.trainJob("demo-1", { runtime: "torch-conforming" }), "default")
      const pod = yield* Effect.map(admin.list(Core.pods, { namespace: "default" }), ({ items }) => items[0]).pipe(
        Effect.filterOrFail((it) => it?.status?.phase === "Running"),
        Effect.retry(Schedule.spaced("50 millis"))
      )
      yield* world.writeLog({ namespace: "default", name: pod?.metadata.name ?? "" }, "loss 0.25\n")
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "readme-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const kubeconfig = join(folder, "kubeconfig")
      writeFileSync(kubeconfig, yield* serveForAdmin)
      const printed = yield* Command.make("tsx", "--conditions=@dispatch-kubeflow/source", example).pipe(
        Command.env({
          KUBECONFIG: kubeconfig,
          PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`
        }),
        Command.workingDirectory(root),
        Command.stderr("inherit"),
        Command.string
      )
      expect(printed.split("\n").filter((line) => /^[A-Z]\w+: (yes|no|unknown)/.test(line))).toHaveLength(14)
      expect(printed).toContain("rank 0: loss 0.25")
      expect(printed).toContain("not surely stopped: Node node-1 is ready")
    }).pipe(
      Effect.provide(Layer.merge(TestCluster.layer({ objects: [Fixtures.torchConforming()] }), NodeContext.layer))
    )
  )
})
