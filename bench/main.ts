/**
 * The benchmarks: each compares within one run and prints ratios; absolute figures depend on the machine.
 *
 *     npm run bench                    all of them
 *     npm run bench -- memory-writes   one
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as MemoryWrites from "./memory-writes.js"

/** In a process of its own: such a benchmark forks its server from its own file. */
const apart = (name: string, ...options: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.sync(() => {
    const { status } = spawnSync(
      process.execPath,
      [...process.execArgv, "--expose-gc", fileURLToPath(new URL(`${name}.ts`, import.meta.url)), ...options],
      { stdio: "inherit" }
    )
    if (status !== 0) throw new Error(`${name} failed`)
  })

const benches: Readonly<Record<string, Effect.Effect<void, unknown>>> = {
  "memory-writes": MemoryWrites.run(300),
  "live-watch": apart("live-watch", "5", "10000"),
  "watch-updates": apart("watch-updates"),
  "log-follow": apart("log-follow"),
  "store-scale": apart("store-scale"),
  "cold-start": apart("cold-start")
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !(name in benches))
const program =
  unknown.length > 0
    ? Effect.dieMessage(`no benchmark ${unknown.join(", ")}; there are ${Object.keys(benches).join(", ")}`)
    : Effect.forEach(
        Object.entries(benches).filter(([name]) => wanted.length === 0 || wanted.includes(name)),
        ([, bench]) => bench,
        { discard: true }
      )

NodeRuntime.runMain(program)
