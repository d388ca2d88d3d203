import { fileURLToPath } from "node:url"
import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Served from "./served.js"

// A Python that has the package `kubeflow`
const python = process.env["TEST_PYTHON"]
const folder = fileURLToPath(new URL("python", import.meta.url))

// No files beside the sources
const env = { PYTHONDONTWRITEBYTECODE: "1", TESTKIT: Served.testkit }

const program = JSON.stringify({
  runs: [{ after: 8000, code: 0 }],
  output: [
    { after: 0, text: "epoch 1\n" },
    { after: 1500, text: "epoch 2\nloss 0.25\n" }
  ]
})

if (python === undefined) Served.skipped("Kubeflow Python SDK", "TEST_PYTHON names no Python that has `kubeflow`")
else if (!Served.succeeds(python, ["-c", "import kubeflow.trainer"])) {
  Served.skipped("Kubeflow Python SDK", `"${python}" has no package \`kubeflow\``)
} else {
  layer(Served.layer(), { excludeTestServices: true, timeout: 60_000 })("Kubeflow Python SDK", (it) => {
    it.effect(
      "lists runtimes, submits a TrainJob, waits for it, reads and follows its logs, deletes it",
      () =>
        Effect.gen(function* () {
          const { kubeconfig, run } = yield* Served.Served
          const { code, err, out } = yield* run(python, ["sdk.py", kubeconfig, program], { cwd: folder, env })
          expect([code, code === 0 ? "" : err]).toEqual([0, ""])
          const lines = ["epoch 1", "epoch 2", "loss 0.25"]
          expect(JSON.parse(out)).toEqual({
            runtimes: [
              "deepspeed-distributed",
              "jax-distributed",
              "mlx-distributed",
              "torch-conforming",
              "torch-distributed",
              "xgboost-distributed"
            ],
            framework: "torch",
            running: "Running",
            followed: lines,
            status: "Complete",
            nodes: 2,
            steps: [
              ["node-0", "Succeeded", "2"],
              ["node-1", "Succeeded", "2"]
            ],
            logs: lines,
            "rank 1": lines,
            events: expect.any(Array) as unknown,
            listed: true,
            "after deletion": [],
            failure: "TrainJob sdk-fails is Failed",
            "failed logs": ["no data"],
            missing: "Not Found",
            warnings: []
          })
        }),
      120_000
    )

    it.effect.skipIf(!Served.succeeds(python, ["-c", "import pytest"]))(
      "the example of docs/testkit.md, with pytest",
      () =>
        Effect.gen(function* () {
          const { run } = yield* Served.Served
          const args = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
          const { code, out } = yield* run(python, args, { cwd: folder, env })
          expect([code, code === 0 ? "" : out]).toEqual([0, ""])
        }),
      120_000
    )
  })
}
