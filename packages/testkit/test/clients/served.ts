/** A cluster as `serve` serves it, and programs that use it. */
import { execFile, execFileSync, spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Context, Effect, Layer, Queue, type Scope } from "effect"
import { describe, it } from "vitest"
import * as ApiServer from "../../src/ApiServer.js"
import type * as Cluster from "../../src/Cluster.js"
import * as Rbac from "../../src/Rbac.js"
import * as SelfSigned from "../../src/serve/SelfSigned.js"
import * as Signals from "../../src/serve/Signals.js"
import * as World from "../../src/serve/World.js"
import type * as TestCluster from "../../src/TestCluster.js"

/** How a program ended. */
export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** What a program is started with beside its arguments. */
export interface RunOptions {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** A served cluster with three nodes. */
export class Served extends Context.Tag("test/Served")<
  Served,
  {
    readonly server: ApiServer.Server
    /** A file with the contexts admin (current), viewer and nobody. Also in `KUBECONFIG` of what is run. */
    readonly kubeconfig: string
    /** A folder of its own, `HOME` of what is run. */
    readonly folder: string
    readonly run: (program: string, args: ReadonlyArray<string>, options?: RunOptions) => Effect.Effect<Ran>
    /** Starts a program that does not end by itself; the lines that it prints. */
    readonly follow: (
      program: string,
      args: ReadonlyArray<string>
    ) => Effect.Effect<Queue.Dequeue<string>, never, Scope.Scope>
  }
>() {}

/** The cluster, found lost nodes after `monitorGrace` milliseconds. */
export const layer = (
  monitorGrace = 50_000
): Layer.Layer<Served | Cluster.Cluster | TestCluster.TestCluster, ApiServer.ApiServerError> =>
  Layer.scoped(
    Served,
    Effect.gen(function* () {
      const tls = yield* SelfSigned.make(["127.0.0.1"])
      const server = yield* ApiServer.serveCluster({
        tls,
        tokens: { "admin-token": Rbac.admin, "viewer-token": Rbac.user("viewer"), "nobody-token": Rbac.user("nobody") }
      })
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "client-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
      )
      const kubeconfig = join(folder, "kubeconfig")
      const users = ["admin", "viewer", "nobody"].map((name) => ({
        name,
        token: `${name}-token`,
        namespace: "default"
      }))
      writeFileSync(kubeconfig, server.kubeconfig(...users), { mode: 0o600 })
      const env = { ...process.env, KUBECONFIG: kubeconfig, HOME: folder }
      yield* World.addNodes(3)
      yield* Effect.forkScoped(Signals.obey)
      return {
        server,
        kubeconfig,
        folder,
        run: (program, args, options = {}) =>
          Effect.async<Ran>((resume) => {
            const { cwd, input } = options
            const child = execFile(
              program,
              [...args],
              { env: { ...env, ...options.env }, ...(cwd === undefined ? {} : { cwd }), maxBuffer: 64 * 1024 * 1024 },
              (error, out, err) => {
                const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1
                resume(Effect.succeed({ code, out, err }))
              }
            )
            child.stdin?.end(input ?? "")
            return Effect.sync(() => child.kill("SIGKILL"))
          }),
        follow: (program, args) =>
          Effect.gen(function* () {
            const lines = yield* Queue.unbounded<string>()
            yield* Effect.acquireRelease(
              Effect.sync(() => {
                const child = spawn(program, [...args], { env })
                let rest = ""
                child.stdout.setEncoding("utf8").on("data", (text: string) => {
                  const parts = (rest + text).split("\n")
                  rest = parts.pop() ?? ""
                  for (const line of parts) lines.unsafeOffer(line)
                })
                return child
              }),
              (child) => Effect.sync(() => child.kill("SIGKILL"))
            )
            return lines
          })
      }
    })
  ).pipe(Layer.provideMerge(World.layer(monitorGrace)))

const root = fileURLToPath(new URL("../../../..", import.meta.url))

/** How the examples start `serve`, for the environment variable `TESTKIT`. */
export const testkit = [
  join(root, "node_modules/.bin/tsx"),
  "--tsconfig",
  join(root, "tsconfig.base.json"),
  "--conditions=@dispatch-kubeflow/source",
  join(root, "packages/testkit/src/serve/main.ts")
].join(" ")

/** Whether a command can be run and succeeds. */
export const succeeds = (program: string, args: ReadonlyArray<string>): boolean => {
  try {
    execFileSync(program, [...args], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

/** A suite that is left out, and says why. */
export const skipped = (name: string, why: string): void => {
  // eslint-disable-next-line no-console
  console.log(`skipped: ${name}: ${why}`)
  describe.skip(`${name} (${why})`, () => it("is not here", () => undefined))
}
