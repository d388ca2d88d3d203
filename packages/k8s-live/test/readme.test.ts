import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Command } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { serveForAdmin } from "./worlds.js"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const example = join(root, "examples/demo/src/compose.ts")

describe("README", () => {
  it("shows the example that is executed here", () => {
    expect(readFileSync(join(root, "README.md"), "utf8")).toContain(`\`\`\`ts\n${readFileSync(example, "utf8")}\`\`\``)
  })

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
