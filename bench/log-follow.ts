/**
 * A container's log, followed: MB/s to the consumer of `Output` against `kubectl logs -f` on the same served log, and the
 * memory that it takes.
 *
 * The server is a process of its own that writes prepared bytes as fast as the socket takes them; the two take turns.
 * `Output` asks for the kubelet's stamps, as it always does, and takes them off: with lines of 100 bytes it gets 131 bytes
 * for each 100 that kubectl, which asks for none, copies as they are. What each side does for a line: kubectl reads up to
 * the newline and writes the line to its pipe; `Output` reads the stamp, hashes the line and copies it. Where the time goes
 * is in docs/performance.md. Run:
 *
 *     npm run bench -- log-follow
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/log-follow.ts [rounds] [MiB] [MiB for memory]
 *
 * `KUBECTL` names the kubectl to use (default: the one in `PATH`); without one only `Output` is measured.
 */
import { type ChildProcess, fork, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Effect, Stream } from "effect"
import * as RawServer from "./raw-server.js"
import { median, ratio } from "./report.js"
import * as Jobs from "./training-jobs.js"

interface Log {
  /** Bytes of a line, its newline included. */
  readonly line: number
  /** How many lines there are. */
  readonly lines: number
  /** Bytes of one HTTP chunk; 0: one line each, as a kubelet writes a slow program's log. */
  readonly chunk: number
}

const podName = "run-0-node-0-0-abcde"
const stampSize = 31

const serve = (): void => {
  let log: Log = { line: 100, lines: 0, chunk: 65_536 }
  let ended = false

  const status = (): object => ({
    phase: ended ? "Succeeded" : "Running",
    containerStatuses: [
      {
        name: "node",
        restartCount: 0,
        containerID: "containerd://1",
        state: ended
          ? {
              terminated: {
                exitCode: 0,
                reason: "Completed",
                containerID: "containerd://1",
                startedAt: "2026-11-29T15:00:00Z"
              }
            }
          : { running: { startedAt: "2026-11-29T15:00:00Z" } }
      }
    ]
  })
  const pod = (): object => ({ ...Jobs.pod(0, 0, 0), status: status() })
  const stamp = (second: number, index: number): string => {
    const part = (value: number): string => String(value).padStart(2, "0")
    return `2026-11-29T${part(15 + Math.floor(second / 3600))}:${part(Math.floor(second / 60) % 60)}:${part(second % 60)}.${String(index * 1000).padStart(9, "0")}Z `
  }
  // A second of the log, of which the stamps are moved on for each next one
  const perSecond = 20_000
  const content = (): string =>
    `${"step loss=0.123 lr=1e-4 tokens/s=48211 ".repeat(Math.ceil(log.line / 39)).slice(0, log.line - 1)}\n`

  const follow = (body: RawServer.Body, stamped: boolean): void => {
    const line = content()
    const size = line.length + (stamped ? stampSize : 0)
    const original = Buffer.from(
      Array.from({ length: perSecond }, (_, index) => `${stamped ? stamp(0, index) : ""}${line}`).join("")
    )
    let second = 0
    /** The next second's lines as HTTP chunks. */
    const next = (): Buffer | undefined => {
      const count = Math.min(perSecond, log.lines - second * perSecond)
      if (count <= 0) return undefined
      if (stamped) {
        const time = Buffer.from(stamp(second, 0).slice(0, 19))
        for (let line = 0; line < count; line++) time.copy(original, line * size)
      }
      second++
      const step = log.chunk === 0 ? size : log.chunk
      const all = original.subarray(0, count * size)
      const head = Buffer.from(`${step.toString(16)}\r\n`)
      const whole = Math.floor(all.length / step)
      const framed = Buffer.allocUnsafe(whole * (head.length + step + 2))
      let to = 0
      for (let index = 0; index < whole; index++) {
        to += head.copy(framed, to)
        to += all.copy(framed, to, index * step, (index + 1) * step)
        to += framed.write("\r\n", to)
      }
      const rest = all.subarray(whole * step)
      return rest.length === 0 ? framed : Buffer.concat([framed, RawServer.chunk(rest)])
    }
    // Two seconds are ready before the first byte leaves
    const ready = [next(), next()]
    const writing = body.write(() => {
      const bytes = ready.shift()
      ready.push(next())
      return bytes
    })
    const finish = async (): Promise<void> => {
      await writing
      ended = true
      body.end()
    }
    void finish()
  }

  RawServer.listen(({ path, query }) => {
    const list = (items: ReadonlyArray<object>): RawServer.Answer => ({
      json: { kind: "List", apiVersion: "v1", metadata: { resourceVersion: "1" }, items }
    })
    if (path.endsWith("/log")) {
      const stamped = query.get("timestamps") === "true"
      return {
        type: "text/plain",
        open: (body) => {
          if (query.get("follow") === "true") return follow(body, stamped)
          const index = (log.lines - 1) % perSecond
          const last = `${stamp(Math.floor((log.lines - 1) / perSecond), index)}${content()}`
          const chunks = [RawServer.chunk(Buffer.from(last))]
          return void body.write(() => chunks.shift()).then(body.end)
        }
      }
    }
    if (query.get("watch") !== null) return { type: "application/json", open: () => undefined }
    switch (path) {
      case "/api":
        return { json: { kind: "APIVersions", versions: ["v1"] } }
      case "/apis":
        return { json: { kind: "APIGroupList", apiVersion: "v1", groups: [] } }
      case "/api/v1":
        return {
          json: {
            kind: "APIResourceList",
            groupVersion: "v1",
            resources: [
              { name: "pods", singularName: "pod", namespaced: true, kind: "Pod", verbs: ["get", "list", "watch"] }
            ]
          }
        }
    }
    switch (path.split("/").at(-1)) {
      case podName:
        return { json: pod() }
      case "pods":
        return list([pod()])
      case "jobs":
        return list([Jobs.job(0, 1)])
      case "run-0":
        return { json: path.includes("/jobsets/") ? Jobs.jobSet(0, 1) : Jobs.trainJob(0, 1) }
      default:
        return {
          status: 404,
          json: { kind: "Status", apiVersion: "v1", status: "Failure", reason: "NotFound", code: 404 }
        }
    }
  })
  process.on("message", (message: Log) => {
    log = message
    ended = false
    process.send?.({})
  })
}

interface Measured {
  readonly rate: number
  /** Client CPU, milliseconds per MB; undefined when it cannot be had. */
  readonly cost: number
}

const bench = async (): Promise<void> => {
  const rounds = Number(process.argv[2] ?? 5)
  const mebibytes = Number(process.argv[3] ?? 64)
  const large = Number(process.argv[4] ?? 1024)
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ["serve"])
  const [port] = (await once(child, "message")) as [number]
  const kubeconfig = RawServer.kubeconfig(port)
  const kubectl = process.env["KUBECTL"] ?? "kubectl"
  const hasKubectl = spawnSync(kubectl, ["version", "--client"], { stdio: "ignore" }).status === 0
  const home = mkdtempSync(join(tmpdir(), "log-follow-"))
  writeFileSync(join(home, "config"), JSON.stringify(kubeconfig))

  const order = async (log: Log): Promise<void> => {
    const answer = once(child, "message")
    child.send(log)
    await answer
  }

  const ours = async (log: Log, onBytes: () => void = () => undefined): Promise<Measured> => {
    await order(log)
    const expected = log.line * log.lines
    let received = 0
    let started = 0
    let cpu = process.cpuUsage()
    let seconds = 0
    let used = cpu
    await Effect.runPromise(
      Effect.flatMap(Output.make({ inPlaceRestarts: "refuse" }), ({ output }) =>
        Stream.runForEach(output({ namespace: Jobs.namespace, name: "run-0" }, { follow: true }), (bytes) =>
          Effect.sync(() => {
            if (received === 0) {
              started = performance.now()
              cpu = process.cpuUsage()
            }
            received += bytes.length
            onBytes()
            if (received === expected) {
              seconds = (performance.now() - started) / 1000
              used = process.cpuUsage(cpu)
            }
          })
        )
      ).pipe(Effect.provide(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value: kubeconfig }) })))
    )
    if (received !== expected) throw new Error(`${received} bytes of ${expected}`)
    return { rate: expected / 1e6 / seconds, cost: (used.user + used.system) / 1000 / (expected / 1e6) }
  }

  const theirs = async (log: Log): Promise<Measured> => {
    await order(log)
    const expected = log.line * log.lines
    const command = spawn(
      "/bin/bash",
      [
        "-c",
        `"$0" logs -f --kubeconfig "$1" --cache-dir "$2" -n ${Jobs.namespace} ${podName} -c node; times >&2`,
        kubectl,
        join(home, "config"),
        join(home, "cache")
      ],
      { stdio: ["ignore", "pipe", "pipe"] }
    )
    let received = 0
    let started = 0
    let seconds = 0
    let said = ""
    command.stdout.on("data", (bytes: Buffer) => {
      if (received === 0) started = performance.now()
      received += bytes.length
      if (received === expected) seconds = (performance.now() - started) / 1000
    })
    command.stderr.on("data", (bytes: Buffer) => (said += bytes.toString()))
    await once(command, "close")
    if (received !== expected) throw new Error(`kubectl: ${received} bytes of ${expected}: ${said}`)
    // The last line of `times` is that of the children: user, system
    const cpu = [...(said.trim().split("\n").at(-1) ?? "").matchAll(/(\d+)m([\d.]+)s/g)].reduce(
      (sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest),
      0
    )
    return { rate: expected / 1e6 / seconds, cost: (cpu * 1000) / (expected / 1e6) }
  }

  const cases: ReadonlyArray<{
    readonly name: string
    readonly line: number
    readonly chunk: number
    readonly part: number
  }> = [
    { name: "lines of 100 bytes, chunks of 64 KiB", line: 100, chunk: 65_536, part: 1 },
    { name: "lines of 1000 bytes, chunks of 64 KiB", line: 1000, chunk: 65_536, part: 1 },
    { name: "lines of 100 bytes, a chunk for each", line: 100, chunk: 0, part: 4 }
  ]
  for (const { name, line, chunk, part } of cases) {
    const log: Log = { line, lines: Math.floor((mebibytes * 1_048_576) / part / line), chunk }
    const our: Array<Measured> = []
    const their: Array<Measured> = []
    for (let round = 0; round <= rounds; round++) {
      globalThis.gc?.()
      const one = await ours(log)
      const other = hasKubectl ? await theirs(log) : undefined
      // the first round warms up
      if (round === 0) continue
      our.push(one)
      if (other !== undefined) their.push(other)
    }
    const rates = (of: ReadonlyArray<Measured>): Array<number> => of.map(({ rate }) => rate)
    const costs = (of: ReadonlyArray<Measured>): Array<number> => of.map(({ cost }) => cost)
    const show = (who: string, of: ReadonlyArray<Measured>): string =>
      `  ${who.padEnd(20)} ${median(rates(of)).toFixed(1).padStart(7)} MB/s   client CPU ${median(costs(of)).toFixed(1)} ms/MB`
    console.log(
      [
        `${Math.round((log.line * log.lines) / 1e6)} MB, ${name}, ${rounds} rounds interleaved`,
        show("Output", our),
        ...(hasKubectl
          ? [
              show("kubectl logs -f", their),
              `  Output : kubectl     ${ratio(rates(our), rates(their))} by time, ${ratio(costs(their), costs(our))} by CPU`
            ]
          : ["  no kubectl to compare with (set KUBECTL)"])
      ].join("\n")
    )
  }

  const peaks: Array<string> = []
  for (const size of [1, 64, large]) {
    globalThis.gc?.()
    let peak = 0
    let count = 0
    await ours({ line: 100, lines: Math.floor((size * 1_048_576) / 100), chunk: 65_536 }, () => {
      if (count++ % 32 === 0) peak = Math.max(peak, process.memoryUsage.rss())
    })
    peaks.push(`${size} MiB log ${Math.round(peak / 1_048_576)} MiB`)
  }
  console.log(`highest RSS while following: ${peaks.join(", ")}`)
  rmSync(home, { recursive: true, force: true })
  child.disconnect()
}

if (process.argv[2] === "serve") serve()
else await bench()
