/**
 * The nightly run of the oracle: random clusters, several at a time in several processes, with progress.
 *
 *     npm run capabilities -- --runs 10000 --seed 1
 *
 * Exits with 1 when the adapter said yes to something that a cluster contradicts; prints the number of the cluster and how to
 * run it alone. Further options: `--workers N` (processes), `--only N` (one cluster of the seed), `--first N`.
 */
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { Effect, FastCheck as fc, TestContext } from "effect"
import * as RandomCluster from "./RandomCluster.js"
import * as Survey from "./Survey.js"

const { values: options } = parseArgs({
  // npm passes a `--` on where it is called through another runner
  args: process.argv.slice(2).filter((argument) => argument !== "--"),
  options: {
    runs: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    only: { type: "string" },
    workers: { type: "string", default: "2" },
    /** Set for a process of the run: which clusters are its own. */
    worker: { type: "string" }
  }
})

const seed = Number(options.seed)
const first = Number(options.only ?? options.first)
const runs = options.only === undefined ? Number(options.runs) : first + 1
const workers = options.only === undefined ? Number(options.workers) : 1

interface Outcome {
  readonly number: number
  readonly contradictions: ReadonlyArray<string>
  readonly yes: ReadonlyArray<string>
}

const ask = (random: RandomCluster.Random, number: number): Effect.Effect<Outcome> =>
  Survey.survey(random).pipe(
    Effect.map((found) => ({ number, ...found })),
    Effect.catchAllCause((cause) => Effect.succeed({ number, contradictions: [`it died: ${String(cause)}`], yes: [] })),
    Effect.scoped,
    Effect.provide(TestContext.TestContext),
    Effect.withTracerEnabled(false)
  )

const numbers = Array.from({ length: runs - first }, (_, index) => first + index)

const sample = () => fc.sample(RandomCluster.anyCluster, { seed, numRuns: runs })

if (options.worker !== undefined) {
  const own = Number(options.worker)
  const all = sample()
  const mine = numbers.filter((number) => number % workers === own)
  await Effect.runPromise(
    Effect.forEach(
      mine,
      (number) => {
        const random = all[number]
        return random === undefined
          ? Effect.void
          : Effect.map(ask(random, number), (outcome) => void process.send?.(outcome))
      },
      // While one waits for the next turn of the event loop, another goes on
      { concurrency: 4, discard: true }
    )
  )
  process.disconnect()
} else {
  const begun = Date.now()
  const yes = new Map<string, number>()
  let done = 0
  let bad = 0
  const say = (text: string): void => void process.stdout.write(`${text}\n`)
  const seconds = (): string => `${Math.round((Date.now() - begun) / 1000)} s`
  const progress = (): void =>
    say(`${done} of ${numbers.length} clusters, ${bad} with a contradicted answer, after ${seconds()}`)
  const note = (outcome: Outcome): void => {
    done += 1
    for (const capability of outcome.yes) yes.set(capability, (yes.get(capability) ?? 0) + 1)
    if (outcome.contradictions.length > 0) {
      bad += 1
      say(`cluster ${outcome.number} of seed ${seed}:`)
      for (const line of outcome.contradictions) say(`  ${line}`)
      say(`  ${JSON.stringify(sample()[outcome.number])}`)
      say(`  again: npm run capabilities -- --seed ${seed} --only ${outcome.number}`)
    }
    if (done % 500 === 0) progress()
  }
  const ended = await Promise.all(
    Array.from(
      { length: workers },
      (_, worker) =>
        new Promise<number>((resolve) => {
          const args = ["--seed", String(seed), "--first", String(first), "--runs", String(runs)]
          const child = fork(
            fileURLToPath(import.meta.url),
            [...args, "--workers", String(workers), "--worker", String(worker)],
            { execArgv: [...process.execArgv, "--max-semi-space-size=64"] }
          )
          child.on("message", (outcome) => note(outcome as Outcome))
          child.on("exit", (code) => resolve(code ?? 1))
        })
    )
  )
  progress()
  const counted = [...yes.entries()]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([capability, times]) => `${capability} ${times}`)
  say(`seed ${seed}; yes was said to: ${counted.join(", ")}`)
  process.exitCode = bad > 0 || done < numbers.length || ended.some((code) => code !== 0) ? 1 : 0
}
