/**
 * Plays many schedules against the composed adapter and dispatcher:
 *
 *     npm run model:nightly -- --runs 100000 --seed 1
 *
 * Ends with exit code 1 at the first lie, with the shrunk script and the seed that repeats it.
 */
import { parseArgs } from "node:util"
import * as Model from "./Model.js"

const { values } = parseArgs({
  options: { runs: { type: "string", default: "300" }, seed: { type: "string", default: "1" } }
})
const runs = Number(values.runs)
const seed = Number(values.seed)
if (!Number.isInteger(runs) || runs < 1 || !Number.isInteger(seed)) {
  process.stderr.write("--runs and --seed take whole numbers\n")
  process.exit(2)
}

const begun = performance.now()
const seconds = (): string => ((performance.now() - begun) / 1000).toFixed(0)
// fast-check keeps every seed apart: batches bound the memory and say where one can take it up again
const batch = 500
let done = 0
for (let first = 0; first < runs; first += batch) {
  const outcome = await Model.explore({
    runs: Math.min(batch, runs - first),
    seed: seed + first / batch,
    shrink: true
  })
  done += outcome.runs
  if (outcome.report !== undefined) {
    process.stdout.write(`${outcome.report}\nA lie in batch seed ${seed + first / batch}, after ${done} schedules.\n`)
    process.exit(1)
  }
  process.stdout.write(`${done} schedules, 0 lies, ${seconds()} s (batch seed ${seed + first / batch})\n`)
}
