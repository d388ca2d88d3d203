/**
 * Real nodes for tests: `TEST_REALNODE` names a program with the verbs `start`, `kubelet-stop`, `kubelet-start`, `processes`
 * and `remove`, each with a node's name, for the cluster of `TEST_KUBECONFIG`. Its nodes run the image
 * `docker.io/local/busybox:1` and rotate logs at 64 KiB.
 */
import { Effect, type Scope } from "effect"
import { execFile } from "node:child_process"
import { createConnection, createServer, type Socket } from "node:net"

/** The program that controls nodes, when there is one. */
export const nodeControl = process.env["TEST_REALNODE"]

/** The program that restarts the API server, when there is one: it returns once the server is ready again. */
export const serverControl = process.env["TEST_APISERVER"]

/** For the title of a suite that is left out. */
export const whyNoNodes = "TEST_REALNODE names no program that controls nodes, or TEST_KUBECONFIG no cluster"

/** What a real node does on demand. */
export interface RealNode {
  readonly name: string
  readonly kubelet: (state: "stop" | "start") => Effect.Effect<void>
  /** The container processes that are alive, `namespace/pod container pid` a line: what no object can tell. */
  readonly processes: Effect.Effect<string>
}

const control = (program: string, ...args: ReadonlyArray<string>): Effect.Effect<string> =>
  Effect.async<string>((resume) => {
    // A kubelet that it starts keeps its standard output: the program's own end is what counts
    const child = execFile(
      "bash",
      ["-c", '"$0" "$@" < /dev/null', program, ...args],
      { env: { ...process.env, REALNODE_LOG_MAX_SIZE: "64Ki" }, timeout: 120_000 },
      () => undefined
    )
    let out = ""
    child.stdout?.on("data", (text: string) => {
      out += text
    })
    child.on("exit", (code) =>
      resume(code === 0 ? Effect.succeed(out) : Effect.dieMessage(`${program} ${args.join(" ")}: exit code ${code}`))
    )
  })

/** Stops the API server, and starts it again. */
export const restartServer = (program: string): Effect.Effect<void> => Effect.asVoid(control(program, "restart"))

/** Starts a node; it is removed with the scope, its Node object by whoever owns the cluster. */
export const startNode = (program: string, name: string): Effect.Effect<RealNode, never, Scope.Scope> =>
  Effect.as(
    Effect.acquireRelease(control(program, "start", name), () => Effect.ignore(control(program, "remove", name))),
    {
      name,
      kubelet: (state) => Effect.asVoid(control(program, `kubelet-${state}`, name)),
      processes: control(program, "processes", name)
    }
  )

/** A way to the API server that can be cut. */
export interface Wire {
  readonly port: number
  /** Breaks every connection at once; how many there were. */
  readonly cut: Effect.Effect<number>
}

/** Passes connections on to a port of this machine. */
export const wire = (to: number): Effect.Effect<Wire, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<{ readonly port: number; readonly open: Set<Socket>; readonly close: () => void }>((resume) => {
        const open = new Set<Socket>()
        const server = createServer((near) => {
          const far = createConnection({ port: to, host: "127.0.0.1" })
          const end = (): void => {
            open.delete(near)
            near.destroy()
            far.destroy()
          }
          open.add(near)
          for (const socket of [near, far]) socket.on("error", end).on("close", end)
          near.pipe(far)
          far.pipe(near)
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          const close = (): void => {
            server.close()
            for (const socket of open) socket.destroy()
          }
          resume(Effect.succeed({ port, open, close }))
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ port, open }) => ({
      port,
      cut: Effect.sync(() => {
        const count = open.size
        for (const socket of open) socket.resetAndDestroy()
        return count
      })
    })
  )
