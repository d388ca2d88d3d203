/**
 * Plays many random schedules of the two properties that are too long for every test run:
 *
 *     npm run nightly -- output --runs 10000 --seed 1       logs under faults: every byte once, or a gap that says what is missing
 *     npm run nightly -- histories --runs 10000 --seed 1    what happens to jobs: no wrong cause, no lost evidence
 *
 * Ends with exit code 1 at the first failure, with the shrunk schedule and the seed that repeats it.
 */
import { parseArgs } from "node:util"
import { FastCheck } from "effect"
import * as Histories from "./Histories.js"
import * as Schedules from "./Schedules.js"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: "string", default: "1000" }, seed: { type: "string", default: "1" } }
})
const runs = Number(values.runs)
const seed = Number(values.seed)
const [what] = positionals

const begun = performance.now()
const seconds = (): string => ((performance.now() - begun) / 1000).toFixed(0)
const print = (line: string): void => void process.stdout.write(`${line}\n`)

/** How often each answer was given. */
const counts = new Map<string, number>()
const count = (key: string, by = 1): void => void counts.set(key, (counts.get(key) ?? 0) + by)

/** Plays so many of a seed; the report of the first failure. */
const batchOf =
  <A>(arbitrary: FastCheck.Arbitrary<A>, run: (value: A) => void) =>
  (seed: number, numRuns: number): string | undefined => {
    const result = FastCheck.check(FastCheck.property(arbitrary, run), {
      seed,
      numRuns,
      // Shrinking long logs takes its time
      interruptAfterTimeLimit: 300_000
    })
    return result.failed ? FastCheck.defaultReportMessage(result) : undefined
  }

const properties = new Map([
  [
    "output",
    batchOf(Schedules.schedule, (schedule) => {
      const { gaps, lines, missing } = Schedules.run(schedule)
      count("lines", lines)
      count("lines behind a gap", missing)
      count("gaps", gaps)
    })
  ],
  ["histories", batchOf(Histories.history, (history) => count(Histories.run(history)))]
])

const batches = properties.get(what ?? "")
if (batches === undefined || !Number.isInteger(runs) || runs < 1 || !Number.isInteger(seed)) {
  process.stderr.write("usage: npm run nightly -- output|histories [--runs N] [--seed S]\n")
  process.exit(2)
}

// Batches bound the memory, and say where one can take it up again
const batch = 100
for (let done = 0; done < runs; done += batch) {
  const own = seed + done / batch
  const size = Math.min(batch, runs - done)
  const failure = batches(own, size)
  if (failure !== undefined) {
    print(`${failure}\nA failure in batch seed ${own}, after ${done} schedules.`)
    process.exit(1)
  }
  if ((done + size) % 500 === 0 || done + size === runs) {
    const told = [...counts].toSorted(([, a], [, b]) => b - a).map(([key, value]) => `${key} ${value}`)
    print(`${done + size} schedules, no failure, ${seconds()} s (batch seed ${own}): ${told.join(", ")}`)
  }
}
