/**
 * The benchmarks: each compares within one run, and one table at the end shows every ratio beside its goal; absolute figures
 * depend on the machine. The table goes to standard output, progress to standard error.
 *
 *     npm run bench                            all of them
 *     npm run bench -- memory-writes           one
 *     npm run bench -- live-watch 3 2000       with its own arguments, which its file tells
 *     npm run bench -- --quick                 with sizes that only show that everything works
 *     npm run bench -- --json FILE             the same as data
 *
 * Their peers are started by the script: `@kubernetes/client-node`; kubectl (`KUBECTL`, or the one in `PATH`); with Go on the
 * path, client-go and controller-runtime's fake client, which `bench/go` builds; with `TEST_KUBECONFIG`, the API server that
 * it names. Who is not there has rows that say so.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Peers from "./peers.js"
import * as Report from "./report.js"

interface Bench {
  readonly quick: ReadonlyArray<string>
  readonly withGo: boolean
}

const benches: Readonly<Record<string, Bench>> = {
  "memory-writes": { quick: ["50", "2"], withGo: true },
  "live-watch": { quick: ["2", "2000"], withGo: true },
  "watch-updates": { quick: ["2", "2000"], withGo: true },
  "log-follow": { quick: ["1", "8", "128"], withGo: false },
  "store-scale": { quick: ["all", "10"], withGo: false },
  "cold-start": { quick: ["3"], withGo: false }
}

const given = Report.args()
const quick = given.includes("--quick")
const wanted = new Map<string, Array<string>>()
for (const word of given.filter((word) => word !== "--quick")) {
  const last = [...wanted.values()].at(-1)
  if (Object.hasOwn(benches, word)) wanted.set(word, [])
  else if (last === undefined || word.startsWith("-")) {
    throw new Error(`no benchmark ${word}; there are ${Object.keys(benches).join(", ")}`)
  } else last.push(word)
}

const folder = Peers.temporary("bench")
const rows = join(folder, "rows")
const report = Report.collect(rows)
const chosen = Object.entries(benches).filter(([name]) => wanted.size === 0 || wanted.has(name))
const built = chosen.some(([, { withGo }]) => withGo) ? Peers.build(folder) : undefined

for (const [name, bench] of chosen) {
  const own = wanted.get(name) ?? []
  Report.progress(name)
  const child = spawn(
    process.execPath,
    [
      ...process.execArgv,
      "--expose-gc",
      fileURLToPath(new URL(`${name}.ts`, import.meta.url)),
      ...(own.length === 0 && quick ? bench.quick : own)
    ],
    {
      stdio: "inherit",
      env: { ...process.env, BENCH_ROWS: rows, ...(built === undefined ? {} : { BENCH_GO: JSON.stringify(built) }) }
    }
  )
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null]
  if (code !== 0) {
    report.failed(name, `the benchmark failed with ${code ?? signal}`)
    process.exitCode = 1
  }
}
report.print()
