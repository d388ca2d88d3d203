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
 *     npm run bench -- log-follow [rounds] [MiB] [MiB for memory]
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source --expose-gc bench/log-follow.ts [rounds] [MiB] [MiB for memory]
 *
 * `KUBECTL` names the kubectl to use (default: the one in `PATH`); without one only `Output` is measured.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Effect, Stream } from "effect"
import * as Peers from "./peers.js"
import * as RawServer from "./raw-server.js"
import * as Report from "./report.js"
import * as Jobs from "./training-jobs.js"

interface Log {
  /** Bytes of a line, its newline included. */
  readonly line: number
  /** How many lines there are. */
  readonly lines: number
  /** Bytes of one HTTP chunk; 0: one line each, as a kubelet writes a slow program's log. */
  readonly chunk: number
}

/** A line of it. */
const content = ({ line }: Log): string =>
  `${"step loss=0.123 lr=1e-4 tokens/s=48211 ".repeat(Math.ceil(line / 39)).slice(0, line - 1)}\n`

/** Compares what is received with the log, which costs next to nothing; answers how much it was so far. */
const compared = (log: Log): ((bytes: Uint8Array) => number) => {
  const wanted = Buffer.from(content(log).repeat(Math.ceil(1_048_576 / log.line)))
  let received = 0
  return (bytes) => {
    for (let at = 0; at < bytes.length;) {
      const from = received % log.line
      const size = Math.min(bytes.length - at, wanted.length - from)
      if (wanted.compare(bytes, at, at + size, from, from + size) !== 0) {
        throw new Error(`what was received after ${received} bytes is not the log`)
      }
      at += size
      received += size
    }
    return received
  }
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

  const follow = (body: RawServer.Body, stamped: boolean): void => {
    const line = content(log)
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
          const last = `${stamp(Math.floor((log.lines - 1) / perSecond), index)}${content(log)}`
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

const bench = async (): Promise<void> => {
  const rounds = Report.count(0, 5)
  const mebibytes = Report.count(1, 64)
  const large = Report.count(2, 1024)
  const report = Report.open("log-follow")
  const server = Peers.forked(import.meta.url, ["serve"])
  const kubeconfig = RawServer.kubeconfig(await server.answer<number>())
  const kubectl = Peers.kubectl(report)
  const home = Peers.temporary("log-follow")
  writeFileSync(join(home, "config"), JSON.stringify(kubeconfig))

  const ours = async (log: Log, onBytes: () => void = () => undefined): Promise<Report.Round> => {
    await server.ask(log)
    const expected = log.line * log.lines
    const compare = compared(log)
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
            received = compare(bytes)
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
    return { rate: expected / 1e6 / seconds, cpu: (used.user + used.system) / 1000 / (expected / 1e6) }
  }

  const theirs = async (kubectl: string, log: Log): Promise<Report.Round> => {
    await server.ask(log)
    const expected = log.line * log.lines
    const compare = compared(log)
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
      received = compare(bytes)
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
    return { rate: expected / 1e6 / seconds, cpu: (cpu * 1000) / (expected / 1e6) }
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
    const our: Array<Report.Round> = []
    const their: Array<Report.Round> = []
    for (let round = 0; round <= rounds; round++) {
      Report.progress(`  ${name}: round ${round} of ${rounds}`)
      globalThis.gc?.()
      const one = await ours(log)
      const other = "why" in kubectl ? undefined : await theirs(kubectl.file, log)
      // the first round warms up
      if (round === 0) continue
      our.push(one)
      if (other !== undefined) their.push(other)
    }
    const subject = {
      what: `log follow, ${name}, ${Math.round((log.line * log.lines) / 1e6)} MB`,
      against: "kubectl logs -f",
      goal: { atLeast: 1 },
      unit: "MB/s"
    }
    if ("why" in kubectl) {
      const here = Report.median(our.map(({ rate }) => rate))
      report.leftOut({ ...subject, here, rounds, why: kubectl.why })
    } else report.faster({ ...subject, ours: our, theirs: their })
  }

  const peaks: Array<number> = []
  for (const size of [1, 64, large]) {
    Report.progress(`  memory: a log of ${size} MiB`)
    globalThis.gc?.()
    let peak = 0
    let count = 0
    await ours({ line: 100, lines: Math.floor((size * 1_048_576) / 100), chunk: 65_536 }, () => {
      if (count++ % 32 === 0) peak = Math.max(peak, process.memoryUsage.rss())
    })
    peaks.push(peak / 1_048_576)
    if (size > 1) {
      report.costs({
        what: `highest resident memory while following a log of ${size} MiB`,
        against: "a log of 1 MiB",
        goal: { atMost: 1.1 },
        unit: "MiB",
        ours: [peaks.at(-1) ?? Number.NaN],
        theirs: [peaks[0] ?? Number.NaN]
      })
    }
  }
  server.stop()
}

if (process.argv[2] === "serve") serve()
else await bench()
