/**
 * Plays many schedules against the composed adapter and dispatcher:
 *
 *     npm run model -- --runs 100000 --seed 1
 *     npm run model -- --mutants --runs 500 --seed 1     how many random schedules it takes to kill each mutant
 *
 * Ends with exit code 1 at the first lie, with the shrunk script and the seed that repeats it.
 */
import { parseArgs } from "node:util"
import * as Model from "../examples/dispatcher/test/model/Model.js"
import { mutants } from "../examples/dispatcher/test/model/Mutants.js"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "300" },
    seed: { type: "string", default: "1" },
    mutants: { type: "boolean", default: false }
  }
})
const runs = Number(values.runs)
const seed = Number(values.seed)
if (!Number.isInteger(runs) || runs < 1 || !Number.isInteger(seed)) {
  process.stderr.write("--runs and --seed take whole numbers\n")
  process.exit(2)
}

const begun = performance.now()
const seconds = (): string => ((performance.now() - begun) / 1000).toFixed(0)
const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (values.mutants) {
  let survivors = 0
  for (const [index, { name, pieces }] of mutants.entries()) {
    const outcome = await Model.explore({ runs, seed, pieces })
    if (outcome.report === undefined) survivors += 1
    const verdict = outcome.report === undefined ? `survives ${runs}` : `killed by schedule ${outcome.runs}`
    print(`${index + 1}. ${name}: ${verdict} (${seconds()} s)`)
  }
  print(`${mutants.length - survivors} of ${mutants.length} mutants killed within ${runs} schedules of seed ${seed}`)
  process.exit(survivors === 0 ? 0 : 1)
}

// Batches bound the memory, and say where one can take it up again
const batch = 100
let done = 0
for (let first = 0; first < runs; first += batch) {
  const own = seed + first / batch
  const outcome = await Model.explore({ runs: Math.min(batch, runs - first), seed: own, shrink: true })
  done += outcome.runs
  if (outcome.report !== undefined) {
    print(`${outcome.report}\nA lie in batch seed ${own}, after ${done} schedules.`)
    process.exit(1)
  }
  print(`${done} schedules, 0 lies, ${seconds()} s (batch seed ${own})`)
}
