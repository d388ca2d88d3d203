import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Schedule } from "effect"
import * as Signals from "../src/serve/Signals.js"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const main = fileURLToPath(new URL("../src/serve/main.ts", import.meta.url))

/** Starts `serve` as a process of its own; its address and where its kubeconfig is. */
const serve = (...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "serve-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    )
    const kubeconfig = join(folder, "kubeconfig")
    const started = yield* Deferred.make<string, string>()
    const ended = yield* Deferred.make<number | null>()
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const argv = ["--conditions=@dispatch-kubeflow/source", "--import", "tsx", main, "serve", "--http"]
        const process_ = spawn(process.execPath, [...argv, "--kubeconfig", kubeconfig, ...args], { cwd: root })
        let out = ""
        process_.stdout.setEncoding("utf8").on("data", (text: string) => {
          out += text
          const url = /served on (\S+)/.exec(out)?.[1]
          if (url !== undefined && out.includes("contexts:")) Deferred.unsafeDone(started, Effect.succeed(url))
        })
        process_.once("exit", (code) => {
          Deferred.unsafeDone(ended, Effect.succeed(code))
          Deferred.unsafeDone(started, Effect.fail(`serve ended with ${code}: ${out}`))
        })
        return process_
      }),
      (process_) => Effect.sync(() => process_.kill("SIGKILL"))
    )
    return { child, ended: Deferred.await(ended), kubeconfig, url: yield* Deferred.await(started) }
  })

const body = (url: string, init: RequestInit = {}): Effect.Effect<unknown> =>
  Effect.promise(async () => (await fetch(url, init)).json())

describe("serve as a process", () => {
  it.scopedLive(
    "--monitor-grace: a node is found lost so soon; --connection-age: every watch breaks so often; SIGTERM ends it",
    () =>
      Effect.gen(function* () {
        const { child, ended, kubeconfig, url } = yield* serve(
          "--nodes",
          "1",
          "--monitor-grace",
          "1s",
          "--connection-age",
          "700ms"
        )
        expect(readFileSync(kubeconfig, "utf8")).toContain(url)
        expect(statSync(kubeconfig).mode & 0o777).toBe(0o600)

        // A quiet watch that the server would keep for half an hour
        const [elapsed, how] = yield* Effect.timed(
          Effect.promise(async () => {
            const response = await fetch(`${url}/api/v1/namespaces/default/secrets?watch=true`)
            return response.text().then(
              () => "ended",
              () => "broke"
            )
          })
        )
        expect(how).toBe("broke")
        expect(Duration.toMillis(elapsed)).toBeLessThan(5000)

        const node = `${url}/api/v1/nodes/node-1`
        yield* body(node, {
          method: "PATCH",
          headers: { "content-type": "application/merge-patch+json" },
          body: JSON.stringify({ metadata: { annotations: { [Signals.machineAnnotation]: "lost" } } })
        })
        const lost = yield* body(node).pipe(
          Effect.repeat({
            schedule: Schedule.spaced("100 millis").pipe(Schedule.upTo("20 seconds")),
            until: (answer) => JSON.stringify(answer).includes("NodeStatusUnknown")
          }),
          Effect.zipRight(body(node))
        )
        expect(JSON.stringify(lost)).toContain("NodeStatusUnknown")

        child.kill("SIGTERM")
        expect(yield* ended).toBe(0)
      }),
    60_000
  )

  it.scopedLive(
    "wrong usage ends it with 2",
    () =>
      Effect.gen(function* () {
        const problem = yield* Effect.flip(serve("--monitor-grace", "soon"))
        expect(problem).toContain("ended with 2")
      }),
    60_000
  )
})
