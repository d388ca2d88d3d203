/**
 * Kills the example dispatcher with SIGKILL at random points, and starts it again with its journal:
 *
 *     npm run kill -- --kills 200 --seed 1 --at-once 2
 *
 * Exit code 1 when a run did not end with exactly one success, or lived twice at any time.
 */
import { parseArgs } from "node:util"
import { Effect } from "effect"
import * as Kill from "./Kill.js"

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
const clusters = atOnce ?? 1
// Each cluster has its own dispatchers, one after another
const outcomes = await Effect.runPromise(
  Effect.forEach(
    Array.from({ length: clusters }, (_, index) => (seed ?? 1) + index),
    (own) =>
      Kill.play({
        kills: Math.ceil((kills ?? 1) / clusters),
        seed: own,
        onEnd: (run, code) => {
          total += code === undefined ? 1 : 0
          const how = code === undefined ? "killed" : `ended with ${code}`
          process.stdout.write(`seed ${own}, ${run}: ${how}; ${total} kills, ${seconds()} s\n`)
        }
      }),
    { concurrency: "unbounded" }
  )
)
const sum = (of: (outcome: Kill.Outcome) => number): number => outcomes.reduce((so, outcome) => so + of(outcome), 0)
const lies = outcomes.flatMap((outcome) => outcome.lies)
process.stdout.write(
  `${sum((it) => it.kills)} kills in ${sum((it) => it.runs)} runs with ${sum((it) => it.submissions)} submissions and ` +
    `${sum((it) => it.reboots)} reboots, ${lies.length} lies, ${seconds()} s (seeds ${seed ?? 1} to ${(seed ?? 1) + clusters - 1})\n`
)
for (const lie of lies) process.stdout.write(`${lie}\n`)
process.exit(lies.length === 0 ? 0 : 1)
