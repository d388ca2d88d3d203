/**
 * How long `--help` takes, from the start of the process to its end: the built command line against kubectl, which take
 * turns. Beside them the floor, a Node that runs nothing, and what a command takes that asks a cluster which refuses at
 * once: that loads everything.
 *
 *     npm run bench -- cold-start
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source bench/cold-start.ts [rounds]
 *
 * Needs `npm run build`. `KUBECTL` names the kubectl to use (default: the one in `PATH`); without one there is no ratio.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { median, ratio } from "./report.js"

const rounds = Number(process.argv[2] ?? 15)
const kubectl = process.env["KUBECTL"] ?? "kubectl"
const bin = fileURLToPath(new URL("../packages/k8s-live/bin/dispatch-kubeflow.js", import.meta.url))
if (!existsSync(fileURLToPath(new URL("../packages/k8s-live/dist/cli/main.js", import.meta.url)))) {
  throw new Error("the command line is not built: npm run build")
}

const folder = mkdtempSync(join(tmpdir(), "cold-start-"))
const nowhere = join(folder, "kubeconfig")
writeFileSync(
  nowhere,
  JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:1" } }],
    users: [{ name: "u", user: { token: "t" } }]
  })
)

const milliseconds = (command: string, args: ReadonlyArray<string>): number | undefined => {
  const begun = performance.now()
  const { error } = spawnSync(command, args, { stdio: "ignore", env: { ...process.env, NODE_OPTIONS: "" } })
  return error === undefined ? performance.now() - begun : undefined
}

const cases: ReadonlyArray<readonly [name: string, command: string, args: ReadonlyArray<string>]> = [
  ["node, nothing", process.execPath, ["-e", ""]],
  ["dispatch-kubeflow --help", process.execPath, [bin, "--help"]],
  ["kubectl --help", kubectl, ["--help"]],
  ["dispatch-kubeflow ceased, no cluster", process.execPath, [bin, "ceased", "run-1", "--kubeconfig", nowhere]]
]

const times = new Map<string, Array<number>>()
// The first round fills the caches of the disk
for (let round = 0; round <= rounds; round++) {
  for (const [name, command, args] of cases) {
    const took = milliseconds(command, args)
    if (round > 0 && took !== undefined) times.set(name, [...(times.get(name) ?? []), took])
  }
}
rmSync(folder, { recursive: true })

console.log(`cold start, median of ${rounds} (fastest), node ${process.version}`)
for (const [name, values] of times) {
  console.log(`  ${name.padEnd(38)} ${median(values).toFixed(0).padStart(5)} ms (${Math.min(...values).toFixed(0)})`)
}
const reference = times.get("kubectl --help")
if (reference === undefined) console.log(`  no ratio: ${kubectl} cannot be run`)
else console.log(`  --help against kubectl's: ${ratio(times.get("dispatch-kubeflow --help") ?? [], reference)}`)
