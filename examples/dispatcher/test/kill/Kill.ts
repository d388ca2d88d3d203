/**
 * The example's own process, killed with SIGKILL at random points and started again with its journal, against a served
 * cluster in this process, which knows what really runs.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { createInterface } from "node:readline"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import { trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Users from "@dispatch-kubeflow/testkit/serve/Users"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Effect, Random, Ref, Stream } from "effect"
import { bundle } from "./bundle.js"

export interface Options {
  /** How many times a dispatcher is killed, in all. */
  readonly kills: number
  readonly seed: number
  /** Called at each end of a process: its run, and its exit code when it was not killed. */
  readonly onEnd?: ((run: string, code: number | undefined) => void) | undefined
}

/** What came of it. Every run must end with exactly one success, and nothing ever ran twice. */
export interface Outcome {
  readonly runs: number
  readonly kills: number
  /** Submissions that were started, over all runs. */
  readonly submissions: number
  readonly lies: ReadonlyArray<string>
  /** Machines that were rebooted, because what ended on them while nobody watched cannot be proven any more. */
  readonly reboots: number
}

/** After this number of kills a dispatcher is left alone. */
const killsPerRun = 5

/**
 * The first submission fails in all its ranks at once, later ones succeed. Were one rank to fail alone, the Job controller would
 * delete the other's pod: a dispatcher that is dead all the while never hears of its Node, and rightly waits for a person.
 */
const program = (pod: Objects.Pod) => ({
  runs: [/^run-[0-9]+-1-/.test(pod.metadata.name) ? { after: 1000, code: 1 } : { after: 1200, code: 0 }],
  onTerm: { code: 143, after: 1500 }
})

type When = { readonly _tag: "Lines"; readonly lines: number; readonly millis: number } | { readonly _tag: "Never" }

/** One life; its exit code, undefined when it was killed. */
const live = (
  args: ReadonlyArray<string>,
  when: When,
  onLine: (line: string) => void
): Effect.Effect<{ code: number | undefined; said: string }> =>
  Effect.async((resume) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] })
    const said: Array<string> = []
    let lines = 0
    let deadline: NodeJS.Timeout | undefined
    const kill = (): void => void child.kill("SIGKILL")
    const heard = (line: string): void => {
      said.push(line)
      onLine(line)
      lines += 1
      if (when._tag === "Lines" && lines === when.lines) deadline = setTimeout(kill, when.millis)
    }
    if (when._tag === "Lines" && when.lines === 0) deadline = setTimeout(kill, when.millis)
    createInterface(child.stdout).on("line", heard)
    createInterface(child.stderr).on("line", (line) => said.push(line))
    child.on("close", (code, signal) => {
      clearTimeout(deadline)
      resume(Effect.succeed({ code: signal === "SIGKILL" ? undefined : (code ?? -1), said: said.join("\n") }))
    })
    return Effect.sync(kill)
  })

/** Either so soon that it has said nothing, or a moment after a line of its story. */
const moment: Effect.Effect<When> = Effect.gen(function* () {
  const lines = yield* Random.nextIntBetween(0, 8)
  const millis = yield* lines === 0 ? Random.nextIntBetween(200, 3000) : Random.nextIntBetween(0, 60)
  return { _tag: "Lines", lines, millis }
})

/** Kills until it has killed enough. */
export const play = (options: Options): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(`${tmpdir()}/dispatcher-kill-`)),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    )
    const example = yield* Effect.sync(() => bundle(folder))
    const cluster = yield* Cluster.Cluster
    const machines = yield* TestCluster.TestCluster
    for (let node = 1; node <= 3; node += 1) yield* machines.createNode(`node-${node}`)
    const users = Users.make()
    const server = yield* Effect.orDie(
      ApiServer.serveCluster({
        tokens: Object.fromEntries(users.map(({ subject, token }) => [token, subject]))
      })
    )
    const kubeconfig = `${folder}/kubeconfig`
    yield* Effect.sync(() => writeFileSync(kubeconfig, server.kubeconfig(...users), { mode: 0o600 }))

    // ---- the truth: at every change, and in between
    const lies = yield* Ref.make<ReadonlySet<string>>(new Set())
    const lie = (text: string) => Ref.update(lies, (known) => new Set([...known, text]))
    const jobSetOf = new Map<string, string>()
    const look = Effect.gen(function* () {
      const alive = new Map<string, Set<string>>()
      for (const { namespace, pod, podUid } of yield* machines.processes) {
        const jobSet = jobSetOf.get(podUid)
        // The log of changes is read a moment after the change
        if (jobSet === undefined) continue
        const copies = alive.get(namespace) ?? new Set<string>()
        alive.set(namespace, copies.add(`${pod.replace(/-node-.*/, "")} (JobSet ${jobSet})`))
      }
      for (const [run, copies] of alive) {
        if (copies.size > 1) yield* lie(`${run} lives ${copies.size} times: ${[...copies].join(", ")}`)
      }
    })
    yield* Effect.forkScoped(
      Stream.runForEach(cluster.changes(0), ({ object }) => {
        const raw = object as unknown as Objects.Raw
        const uid = raw.metadata.labels?.[JobSet.jobSetUidLabel]
        if (Objects.is(Objects.pods, raw) && uid !== undefined) jobSetOf.set(raw.metadata.uid, uid)
        return look
      })
    )
    yield* Effect.forkScoped(Effect.forever(Effect.delay(look, "10 millis")))

    // ---- the operator: a pod that ended and went away while no dispatcher lived leaves no proof, but a reboot is one
    const counts = { runs: 0, kills: 0, submissions: 0, reboots: 0 }
    const named = new Set<string>()
    const operator = Effect.gen(function* () {
      const busy = new Set((yield* machines.processes).map(({ node }) => node))
      for (const node of named) {
        if (busy.has(node)) continue
        named.delete(node)
        counts.reboots += 1
        yield* machines.powerOff(node)
        yield* machines.powerOn(node)
      }
    })
    yield* Effect.forkScoped(Effect.forever(Effect.delay(operator, "2 seconds")))
    const onLine = (line: string): void => {
      if (!line.includes("waits for cessation")) return
      for (const [, node = ""] of line.matchAll(/Node (\S+) is ready/g)) named.add(node)
    }

    // ---- the runs
    const one = Effect.gen(function* () {
      counts.runs += 1
      const run = `run-${counts.runs}`
      yield* machines.create(Fixtures.namespace(run))
      const args = [
        example,
        `--kubeconfig=${kubeconfig}`,
        "--context=dispatcher",
        `--namespace=${run}`,
        `--journal=${folder}/${run}`,
        `--run=${run}`,
        "--ranks=2",
        "--resubmit=Application",
        "--resubmit=Unknown"
      ]
      let kills = 0
      for (;;) {
        const enough = kills >= killsPerRun || counts.kills >= options.kills
        const { code, said } = yield* live(args, enough ? { _tag: "Never" } : yield* moment, onLine)
        options.onEnd?.(run, code)
        if (code === undefined) {
          kills += 1
          counts.kills += 1
          continue
        }
        if (code !== 0) yield* lie(`${run}: the dispatcher ended with ${code}: ${said}`)
        break
      }
      const { items } = yield* Effect.orDie(cluster.admin.list(Trainer.trainJobs, { namespace: run }))
      counts.submissions += items.length
      const successes = items.filter(({ status }) => trueCondition(status?.conditions, "Complete") !== undefined)
      if (successes.length !== 1) yield* lie(`${run} has ${successes.length} successes`)
    })
    while (counts.kills < options.kills) yield* one
    return { ...counts, lies: [...(yield* Ref.get(lies))] }
  }).pipe(
    Effect.scoped,
    Effect.provide(
      TestCluster.layer({
        objects: [Fixtures.torchConforming(), ...Users.objects],
        programs: program,
        seed: options.seed
      })
    ),
    Effect.withRandom(Random.make(options.seed))
  )
