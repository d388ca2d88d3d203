/** Of which TrainJobs `watch` waits for and tells, and what it says where there are none. */
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Schedule } from "effect"
import { serveForAdmin } from "../worlds.js"
import { cli, file, folder, invocationOf } from "./terminal.js"

const over = TestCluster.layer({ objects: [Fixtures.torchConforming()] })

const world = (...jobs: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    for (const name of jobs) {
      yield* cluster.create(Fixtures.trainJob(name, { runtime: "torch-conforming" }), "default")
    }
    return ["--kubeconfig", file(yield* folder, "kubeconfig", yield* serveForAdmin)]
  })

const namesIn = (out: string): ReadonlyArray<string> =>
  out.split("\n").flatMap((line) => /^(\S+) {2}/.exec(line)?.[1] ?? [])

describe("watch --once --run", () => {
  it.scopedLive("tells each submission of the run once, and waits for nothing else", () =>
    Effect.gen(function* () {
      const common = yield* world("demo-1", "demo-extra-1", "demo-02")
      const [took, told] = yield* Effect.timed(cli(["watch", "--run", "demo", "--once", ...common]))
      expect(told).toMatchObject({ code: 0, err: "" })
      expect(namesIn(told.out)).toEqual(["demo-1"])
      expect(Duration.toSeconds(took)).toBeLessThan(8)
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("without a submission says so of the run, whatever else the namespace holds", () =>
    Effect.gen(function* () {
      const common = yield* world("demo-extra-1")
      for (const name of ["demo", "nope"]) {
        const [took, told] = yield* Effect.timed(cli(["watch", "--run", name, "--once", ...common]))
        expect(told).toMatchObject({
          code: 0,
          err: "",
          out: `No TrainJobs of the run "${name}" in namespace "default".\n`
        })
        expect(Duration.toSeconds(took)).toBeLessThan(8)
      }
      const machine = yield* cli(["watch", "--run", "nope", "--once", "--json", ...common])
      expect(machine).toMatchObject({ code: 0, out: "", err: "" })
    }).pipe(Effect.provide(over))
  )
})

describe("watch without a terminal", () => {
  it.scopedLive("says on standard error that there is nothing yet, and goes on", () =>
    Effect.gen(function* () {
      const common = yield* world("other-1")
      let out = ""
      let err = ""
      const stdio: Session.Stdio = {
        out: (data) => Effect.sync(() => void (out += String(data))),
        err: (text) => Effect.sync(() => void (err += text)),
        progress: () => Effect.void,
        readFile: () => Effect.fail({ message: "none" }),
        look: { width: 80, paint: (_, text) => text }
      }
      const invocation = invocationOf(["watch", "--run", "demo", ...common])
      yield* Effect.fork(Effect.provideService(Run.run(invocation), Session.Terminal, stdio))
      const until = (holds: () => boolean) =>
        Effect.retry(
          Effect.suspend(() => (holds() ? Effect.void : Effect.fail("not yet"))),
          { times: 200, schedule: Schedule.spaced("50 millis") }
        )
      yield* until(() => err !== "")
      expect(err).toBe('-- No TrainJobs of the run "demo" in namespace "default" yet: waiting for one')
      yield* (yield* TestCluster.TestCluster).create(
        Fixtures.trainJob("demo-1", { runtime: "torch-conforming" }),
        "default"
      )
      yield* until(() => out.startsWith("demo-1 "))
    }).pipe(Effect.provide(over))
  )
})
