/**
 * How long `--help` takes, from the start of the process to its end: the built command line against kubectl, which take
 * turns. Beside them the floor, a Node that runs nothing, and what a command takes that asks a cluster which refuses at
 * once: that loads everything.
 *
 *     npm run bench -- cold-start [rounds]
 *     node_modules/.bin/tsx --conditions=@dispatch-kubeflow/source bench/cold-start.ts [rounds]
 *
 * Builds the packages. `KUBECTL` names the kubectl to use (default: the one in `PATH`); without one there is no ratio.
 */
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Peers from "./peers.js"
import * as Report from "./report.js"

const rounds = Report.count(0, 15)
const report = Report.open("cold-start")
const kubectl = Peers.kubectl(report)
const root = fileURLToPath(new URL("..", import.meta.url))
const bin = join(root, "packages/k8s-live/bin/dispatch-kubeflow.js")
// What was built before may be of another day
if (spawnSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: ["ignore", 2, "inherit"] }).status !== 0) {
  throw new Error("the packages cannot be built")
}

const nowhere = join(Peers.temporary("cold-start"), "kubeconfig")
writeFileSync(
  nowhere,
  JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:1" } }],
    users: [{ name: "u", user: { token: "t" } }]
  })
)

const milliseconds = (command: string, args: ReadonlyArray<string>): number => {
  const begun = performance.now()
  const { error } = spawnSync(command, args, { stdio: "ignore", env: { ...process.env, NODE_OPTIONS: "" } })
  if (error !== undefined) throw error
  return performance.now() - begun
}

const cases = {
  nothing: [process.execPath, "-e", ""],
  help: [process.execPath, bin, "--help"],
  kubectl: "why" in kubectl ? undefined : [kubectl.file, "--help"],
  command: [process.execPath, bin, "ceased", "run-1", "--kubeconfig", nowhere]
} as const

const times = { nothing: new Array<number>(), help: [], kubectl: [], command: [] } as Record<
  keyof typeof cases,
  Array<number>
>
// The first round fills the caches of the disk
for (let round = 0; round <= rounds; round++) {
  for (const name of ["nothing", "help", "kubectl", "command"] as const) {
    const [command, ...args] = cases[name] ?? []
    if (command === undefined) continue
    const took = milliseconds(command, args)
    if (round > 0) times[name].push(took)
  }
}

const subject = {
  what: "time of dispatch-kubeflow --help",
  against: "kubectl --help",
  goal: { atMost: 1.5 },
  unit: "ms"
}
if ("why" in kubectl) report.leftOut({ ...subject, here: Report.median(times.help), rounds, why: kubectl.why })
else report.costs({ ...subject, ours: times.help, theirs: times.kubectl })
report.figure({ what: "time of a Node that runs nothing", value: Report.median(times.nothing), unit: "ms", rounds })
report.figure({
  what: "time of dispatch-kubeflow ceased with a cluster that refuses",
  value: Report.median(times.command),
  unit: "ms",
  rounds
})
