/**
 * Kills the example dispatcher with SIGKILL at random points, and starts it again with its journal:
 *
 *     npm run kill -- --kills 200 --seed 1 --at-once 2
 *
 * Exit code 1 when a run did not end with exactly one success, or lived twice at any time.
 */
import { parseArgs } from "node:util"
import { Effect } from "effect"
import * as Kill from "../examples/dispatcher/test/kill/Kill.js"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    "at-once": { type: "string", default: "2" }
  }
})
const [kills, seed, atOnce] = [values.kills, values.seed, values["at-once"]].map(Number)
if (![kills, seed, atOnce].every((value) => Number.isInteger(value) && Number(value) > 0)) {
  process.stderr.write("--kills, --seed and --at-once take positive whole numbers\n")
  process.exit(2)
}

const begun = performance.now()
const seconds = (): string => ((performance.now() - begun) / 1000).toFixed(0)
let total = 0
const outcome = await Effect.runPromise(
  Kill.play({
    kills: kills ?? 1,
    seed: seed ?? 1,
    atOnce: atOnce ?? 1,
    onRun: (run, count) => {
      total += count
      process.stdout.write(`${run}: ended, killed ${count} times; ${total} kills, ${seconds()} s\n`)
    }
  })
)
process.stdout.write(
  `${outcome.kills} kills in ${outcome.runs} runs with ${outcome.submissions} submissions, ` +
    `${outcome.lies.length} lies, ${seconds()} s (seed ${seed ?? 1})\n${outcome.lies.join("\n")}`
)
process.exit(outcome.lies.length === 0 ? 0 : 1)
