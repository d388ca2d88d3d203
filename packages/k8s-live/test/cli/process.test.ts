/** The command line as a process: files that kubectl would read, a terminal, and signals. */
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Schedule } from "effect"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parse, stringify } from "yaml"
import { serveForAdmin } from "../worlds.js"
import { file, folder } from "./terminal.js"

const root = fileURLToPath(new URL("../../../..", import.meta.url))
const program = [
  process.execPath,
  "--import",
  "tsx",
  "--conditions=@dispatch-kubeflow/source",
  join(root, "packages/k8s-live/src/cli/main.ts")
]

interface Started {
  readonly child: ChildProcess
  readonly out: () => string
  readonly err: () => string
  /** Its exit code, or the name of the signal that ended it. */
  readonly ended: Effect.Effect<number | string>
}

const start = (command: ReadonlyArray<string>, env: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync((): Started => {
      const [name = "", ...args] = command
      const { FORCE_COLOR: _, KUBECONFIG: __, NO_COLOR: ___, ...inherited } = process.env
      const child = spawn(name, args, { cwd: root, env: { ...inherited, TERM: "xterm", ...env } })
      let out = ""
      let err = ""
      child.stdout.on("data", (data) => (out += String(data)))
      child.stderr.on("data", (data) => (err += String(data)))
      let end: number | string | undefined
      child.on("close", (code, signal) => (end = code ?? signal ?? "?"))
      const ended = Effect.suspend(() => (end === undefined ? Effect.fail("runs") : Effect.succeed(end))).pipe(
        Effect.retry(Schedule.spaced("20 millis")),
        Effect.timeout("60 seconds"),
        Effect.orDie
      )
      return { child, out: () => out, err: () => err, ended }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Runs a command to its end. */
const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const { ended, err, out } = yield* start([...program, ...args], env)
    const code = yield* ended
    return { code, out: out(), err: err() }
  })

const until = (what: string, holds: () => boolean) =>
  Effect.suspend(() => (holds() ? Effect.void : Effect.fail("not yet"))).pipe(
    Effect.retry(Schedule.spaced("10 millis")),
    Effect.timeoutFail({ duration: "60 seconds", onTimeout: () => new Error(`not seen: ${what}`) }),
    Effect.orDie
  )

interface Kubeconfig {
  readonly "current-context": string
  readonly clusters: ReadonlyArray<object>
  readonly users: ReadonlyArray<object>
  readonly contexts: ReadonlyArray<{
    readonly name: string
    readonly context: { readonly cluster: string; readonly user: string; readonly namespace?: string }
  }>
}

describe("KUBECONFIG, --kubeconfig and --context, as kubectl reads them", () => {
  it.scopedLive("several files are one; the first wins; missing ones are passed over; --kubeconfig is one file", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const served: Kubeconfig = parse(yield* serveForAdmin)
      const [only] = served.contexts
      if (only === undefined) return yield* Effect.dieMessage("no context")
      const context = (name: string, namespace: string) => ({ name, context: { ...only.context, namespace } })
      // The first file has contexts without the cluster and the user that they name
      const one = file(
        path,
        "one",
        stringify({ "current-context": "a", contexts: [context("a", "space-a"), context("b", "space-b")] })
      )
      const two = file(
        path,
        "two",
        stringify({ ...served, "current-context": "c", contexts: [context("a", "other"), context("c", "space-c")] })
      )
      const missing = join(path, "missing")
      const list = [missing, one, "", two].join(delimiter)
      // A namespace that is not there is told by its name
      const namespaceOf = (args: ReadonlyArray<string>, KUBECONFIG: string) =>
        Effect.map(run(["watch", "--once", ...args], { KUBECONFIG }), ({ code, err }) => {
          const [, name] = /namespaces? "([^"]+)"/.exec(err) ?? []
          return name ?? { code, err }
        })
      expect(yield* namespaceOf([], list)).toBe("space-a")
      expect(yield* namespaceOf(["--context", "b"], list)).toBe("space-b")
      expect(yield* namespaceOf(["--kubeconfig", two], list)).toBe("space-c")
      expect(yield* run(["watch", "--once", "--context", "no-such"], { KUBECONFIG: list })).toMatchObject({
        code: ExitCode.usage,
        err: expect.stringContaining("no-such")
      })
      // ~/.kube/config where the variable is not set
      spawnSync("mkdir", [join(path, ".kube")])
      file(
        path,
        ".kube/config",
        stringify({ ...served, contexts: [{ ...context("h", "space-h") }], "current-context": "h" })
      )
      const { err } = yield* run(["watch", "--once"], { HOME: path })
      expect(err).toContain("space-h")
    }).pipe(Effect.provide(TestCluster.layer()))
  )
})

const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** Runs a command line of a shell; `$0` is what starts the program. */
const shell = (line: string, env: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const whole = line.replaceAll("$0", program.map(shellQuote).join(" "))
    const { ended, err, out } = yield* start(["bash", "-c", whole], env)
    return { code: yield* ended, out: out(), err: err() }
  })

describe.skipIf(process.platform !== "linux")("an answer that does not arrive is not a done one", () => {
  const world = Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.trainJob("run-1", { runtime: "torch-conforming" }), "default")
    const running = Effect.flatMap(cluster.pods("default"), ([pod]) =>
      pod?.status?.phase === "Running" ? Effect.succeed(pod) : Effect.fail("not yet")
    )
    const pod = yield* Effect.retry(running, { times: 200, schedule: Schedule.spaced("100 millis") })
    yield* cluster.writeLog(pod, `${"x".repeat(99)}\n`.repeat(3000))
    return { KUBECONFIG: file(yield* folder, "kubeconfig", yield* serveForAdmin) }
  })
  const over = TestCluster.layer({ objects: [Fixtures.torchConforming()] })

  it.scopedLive("a full disk is exit code 8, and told, whatever the command", () =>
    Effect.gen(function* () {
      const env = yield* world
      const lines = [
        "output run-1",
        "output run-1 --follow --json",
        "output run-1 --all-ranks",
        "watch --once",
        "runtime conform torch-conforming",
        "doctor --read-only"
      ]
      for (const line of lines) {
        const told = yield* shell(`$0 ${line} >/dev/full`, env)
        expect([line, told.code, told.err]).toEqual([
          line,
          ExitCode.unwritten,
          expect.stringMatching(/standard output cannot be written \(.*ENOSPC/)
        ])
      }
      for (const line of ["--help", "completion bash"]) {
        const told = yield* shell(`$0 ${line} >/dev/full`, {})
        expect([line, told.code, told.err]).toEqual([
          line,
          ExitCode.unwritten,
          expect.stringMatching(/^error: standard output cannot be written \(.*ENOSPC/)
        ])
      }
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("a disk that takes a part of it, too", () =>
    Effect.gen(function* () {
      const env = yield* world
      const path = join(yield* folder, "answer")
      const told = yield* shell(`ulimit -f 1; $0 capabilities --json >${shellQuote(path)}`, env)
      expect(told).toMatchObject({ code: ExitCode.unwritten, err: expect.stringContaining("EFBIG") })
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("a reader that has gone is exit code 141 without a word, as JSON and as text", () =>
    Effect.gen(function* () {
      const env = yield* world
      for (const line of ["output run-1", "output run-1 --json", "output run-1 --all-ranks"]) {
        const told = yield* shell(`$0 ${line} | head -c 5 >/dev/null; echo "code=\${PIPESTATUS[0]}"`, env)
        expect([line, told.out, told.err]).toEqual([line, `code=${ExitCode.readerGone}\n`, ""])
      }
    }).pipe(Effect.provide(over))
  )
})

describe("with --json a wrong command line is one JSON document on standard error", () => {
  it.scopedLive("as every other failure", () =>
    Effect.gen(function* () {
      for (const args of [
        ["--json", "cesed"],
        ["watch", "--run", "a", "--until-over", "--json"]
      ]) {
        const told = yield* run(args)
        expect(told).toMatchObject({ code: ExitCode.usage, out: "" })
        expect(JSON.parse(told.err)).toEqual({ error: { tag: "UsageError", message: expect.any(String) } })
      }
    })
  )
})

// util-linux's: runs a command on a terminal of its own, and passes on what is typed
const hasTerminal = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0

/** Starts a command on a terminal, and after it says its exit code and whether the terminal is as it was. */
const onTerminal = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>>, columns = 90) => {
  const command = [...program, ...args].map(shellQuote).join(" ")
  const line = `stty cols ${columns} rows 20; before=$(stty -g); trap : INT; ${command}; echo "code=$?"; [ "$before" = "$(stty -g)" ] && echo sane`
  return start(["script", "-qfc", line, "/dev/null"], { ...env, SHELL: "/bin/sh" })
}

const escape = "\u001b"
const interrupt = "\u0003"

describe.skipIf(!hasTerminal)("on a terminal", () => {
  const world = Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.trainJob("run-1", { runtime: "torch-conforming" }), "default")
    return file(yield* folder, "kubeconfig", yield* serveForAdmin)
  })
  const over = TestCluster.layer({ objects: [Fixtures.torchConforming()] })

  it.scopedLive("Ctrl-C ends a watch: the cursor is shown again, the terminal is as it was, exit code 130", () =>
    Effect.gen(function* () {
      const KUBECONFIG = yield* world
      const { child, ended, out } = yield* onTerminal(["watch"], { KUBECONFIG })
      yield* until("the table", () => /run-1 .*Running/.test(out()))
      expect(out()).toContain(`${escape}[?25l`)
      child.stdin?.write(interrupt)
      yield* ended
      const after = out().slice(out().lastIndexOf(`${escape}[?25l`))
      expect(after).toContain(`${escape}[?25h`)
      expect(after).toContain(`code=${ExitCode.interrupted}`)
      expect(after).toContain("sane")
      // the last table stays
      expect(after.slice(after.lastIndexOf(`${escape}[J`))).toContain("run-1")
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("Ctrl-C ends output --follow and watch --json with 130, too", () =>
    Effect.gen(function* () {
      const KUBECONFIG = yield* world
      for (const [args, shown] of [
        [["output", "run-1", "--follow"], ""],
        [["watch", "run-1", "--json"], '"state":"Running"']
      ] as const) {
        const { child, ended, out } = yield* onTerminal(args, { KUBECONFIG })
        if (shown === "") yield* Effect.sleep("4 seconds")
        else yield* until(shown, () => out().includes(shown))
        child.stdin?.write(interrupt)
        yield* ended
        expect(out()).toContain(`code=${ExitCode.interrupted}`)
        expect(out()).toContain("sane")
      }
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("answers are coloured and as wide as it is; NO_COLOR leaves them plain", () =>
    Effect.gen(function* () {
      const KUBECONFIG = yield* world
      const coloured = yield* onTerminal(["capabilities"], { KUBECONFIG })
      yield* coloured.ended
      expect(coloured.out()).toContain(`${escape}[32m`)
      for (const args of [["capabilities"], ["watch", "--once"]]) {
        const dumb = yield* onTerminal(args, { KUBECONFIG, TERM: "dumb" })
        yield* dumb.ended
        expect(dumb.out()).toContain("code=0")
        expect(dumb.out()).not.toContain(escape)
      }
      const widest = (text: string): number => Math.max(...text.split(/\r?\n/).map((line) => line.length))
      for (const columns of [60, 100]) {
        const bare = yield* onTerminal(["capabilities"], { KUBECONFIG, NO_COLOR: "1" }, columns)
        yield* bare.ended
        expect(bare.out()).not.toContain(escape)
        expect(bare.out()).toContain("OutputFollow")
        expect(widest(bare.out())).toBeLessThanOrEqual(columns)
        expect(widest(bare.out())).toBeGreaterThan(columns - 20)
      }
      const help = yield* onTerminal(["output", "--help"], {}, 90)
      yield* help.ended
      expect(
        Math.max(
          ...help
            .out()
            .split(/\r?\n/)
            .map((line) => line.length)
        )
      ).toBeLessThanOrEqual(90)
    }).pipe(Effect.provide(over))
  )
})

describe("interrupted, the cluster is as it was", () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it.scopedLive(`${signal} during a preflight removes its probe`, () =>
      Effect.gen(function* () {
        const cluster = yield* TestCluster.TestCluster
        const { admin } = yield* Cluster.Cluster
        yield* cluster.createNode("node-1")
        const KUBECONFIG = file(yield* folder, "kubeconfig", yield* serveForAdmin)
        const { child, ended, err, out } = yield* start([...program, "preflight"], { KUBECONFIG })
        const probes = Effect.map(admin.list(Trainer.trainJobs, { namespace: "default" }), ({ items }) => items.length)
        // Without its controller nobody suspends the JobSet, so the probe waits
        yield* Effect.repeat(probes, { until: (count) => count > 0, schedule: Schedule.spaced("10 millis") }).pipe(
          Effect.timeout("60 seconds")
        )
        yield* Effect.sleep("300 millis")
        expect(yield* probes).toBe(1)
        const [took, code] = yield* Effect.timed(
          Effect.zipRight(
            Effect.sync(() => child.kill(signal)),
            ended
          )
        )
        expect({ code, out: out(), err: err() }).toEqual({ code: ExitCode.interrupted, out: "", err: "" })
        expect(Duration.toSeconds(took)).toBeLessThan(10)
        expect(yield* probes).toBe(0)
      }).pipe(Effect.provide(TestCluster.layer({ objects: [Fixtures.torchConforming()], without: ["jobset"] })))
    )
  }
})
