import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serveForAdmin } from "../worlds.js"
import { invocationOf } from "./terminal.js"

const secret = "very-secret-token"

const kubeconfig = (server: string, token = secret): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server } }],
    users: [{ name: "u", user: { token } }]
  })

/** A kubeconfig file that goes with the scope. */
const file = (text: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "bad-input-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
    ),
    (folder) => {
      const path = join(folder, "kubeconfig")
      writeFileSync(path, text)
      return path
    }
  )

const listen = (handle: RequestListener) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer(handle)
      server.listen(0, "127.0.0.1", () =>
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
            close: () => {
              server.closeAllConnections()
              server.close()
            }
          })
        )
      )
    }),
    ({ close }) => Effect.sync(close)
  )

const run = (path: string, ...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let told = ""
    const invocation = invocationOf([...args, "--kubeconfig", path])
    const say = (text: string | Uint8Array) =>
      Effect.sync(() => {
        told += String(text)
      })
    const code = yield* Run.run(invocation).pipe(
      Effect.provideService(Session.Terminal, {
        out: say,
        err: say,
        progress: () => Effect.void,
        readFile: () => Effect.fail({ message: "there is none" }),
        look: { width: 100, paint: paintFor({ isTerminal: false, noColor: true }) }
      }),
      Effect.timeout("20 seconds")
    )
    expect(told).not.toContain(secret)
    return { code, told }
  })

const commands = [["capabilities"], ["output", "run-1"], ["watch", "run-1"], ["watch"], ["ceased", "run-1"]]

describe("bad input to the command line: each says what to do, nothing hangs, no token is printed", () => {
  it.scopedLive("an unreachable server", () =>
    Effect.gen(function* () {
      const path = yield* file(kubeconfig("http://127.0.0.1:1"))
      for (const command of commands) {
        const { code, told } = yield* run(path, ...command)
        expect([command, code]).toEqual([command, ExitCode.unavailable])
        expect(told).toContain("cannot be reached")
      }
    })
  )

  it.scopedLive("a token that the server does not accept", () =>
    Effect.gen(function* () {
      const text = (yield* serveForAdmin).replace("admin-token", secret)
      const path = yield* file(text)
      for (const command of commands) {
        const { code, told } = yield* run(path, ...command)
        expect([command, code]).toEqual([command, ExitCode.notPermitted])
        expect(told).toContain("does not accept the credentials")
      }
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("a namespace or TrainJob that does not exist", () =>
    Effect.gen(function* () {
      const path = yield* file(yield* serveForAdmin)
      for (const where of [[], ["-n", "no-such-namespace"]]) {
        for (const command of ["output", "watch", "ceased"]) {
          const { code, told } = yield* run(path, command, "run-1", ...where)
          expect([command, code]).toEqual([command, ExitCode.notFound])
          expect(told).toContain('TrainJob "run-1"')
        }
      }
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("watch of a namespace that does not exist", () =>
    Effect.gen(function* () {
      const path = yield* file(yield* serveForAdmin)
      const { code, told } = yield* run(path, "watch", "-n", "no-such-namespace")
      expect(code).toBe(ExitCode.notFound)
      expect(told).toContain("no-such-namespace")
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("a server that has no Kubernetes API, and one that echoes credentials", () =>
    Effect.gen(function* () {
      const plain = yield* listen((_, response) =>
        response.writeHead(404, { "content-type": "text/html" }).end("<p>no</p>")
      )
      const echo = yield* listen((request, response) =>
        response
          .writeHead(403, { "content-type": "application/json" })
          .end(JSON.stringify({ kind: "Status", message: `refused ${request.headers.authorization ?? ""}`, code: 403 }))
      )
      for (const command of commands) {
        expect((yield* run(yield* file(kubeconfig(plain.url)), ...command)).code).toBe(ExitCode.unavailable)
        const { told } = yield* run(yield* file(kubeconfig(echo.url)), ...command)
        expect(told).toContain("(not shown)")
      }
    })
  )

  it.scopedLive.each([
    ["not YAML", "{ nope: [", "kubeconfig"],
    ["no cluster", JSON.stringify({ apiVersion: "v1", kind: "Config", "current-context": "c" }), "context"],
    ["another kind of file", "hello: world", "kubeconfig"]
  ] as const)("a malformed kubeconfig: %s", ([, text, word]) =>
    Effect.gen(function* () {
      const path = yield* file(text)
      const { code, told } = yield* run(path, "capabilities")
      expect(code).toBe(ExitCode.usage)
      expect(told).toContain(path)
      expect(told).toContain(word)
    })
  )

  it.scopedLive("a server that answers HTML", () =>
    Effect.gen(function* () {
      const { url } = yield* listen((_, response) =>
        response.writeHead(200, { "content-type": "text/html" }).end("<html><body>Please log in</body></html>")
      )
      const path = yield* file(kubeconfig(url))
      for (const command of commands) {
        const { code, told } = yield* run(path, ...command)
        expect([command, code]).toEqual([command, ExitCode.unavailable])
        expect(told).toContain("not what a Kubernetes API server sends")
      }
    })
  )

  it.scopedLive("W13: a watch whose lines are cut off is told, and taken up again", () =>
    Effect.gen(function* () {
      let watches = 0
      const { url } = yield* listen((request, response) => {
        const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost")
        response.setHeader("content-type", "application/json")
        if (pathname === "/version") return response.end(JSON.stringify({ gitVersion: "v1.37.2" }))
        if (pathname === "/api/v1/namespaces/default") {
          return response.end(JSON.stringify({ metadata: { name: "default", uid: "u" } }))
        }
        if (searchParams.get("watch") === "true") {
          watches += 1
          return response.end('{"type":"ADDED","object":{"metadata":{"na')
        }
        return response.end(JSON.stringify({ metadata: { resourceVersion: "1" }, items: [] }))
      })
      const path = yield* file(kubeconfig(url))
      const told = yield* run(path, "watch").pipe(
        Effect.timeoutTo({ duration: "4 seconds", onSuccess: ({ told }) => told, onTimeout: () => "went on" })
      )
      expect(told).toBe("went on")
      // five kinds, each taken up again after a pause
      expect(watches).toBeGreaterThan(5)
      expect(watches).toBeLessThan(60)
    })
  )
})
