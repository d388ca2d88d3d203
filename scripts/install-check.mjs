// The packages as somebody gets them who installs them with npm: packed, installed into an empty project, compiled against
// with strict TypeScript, run from TypeScript and JavaScript, the two commands started.
//
//     npm run install:check             with the Node that runs this
//     npm run install:check -- --keep   leaves the project there, and says where
//
// Needs `npm run build` before, and what npm does not have in its cache from the registry.
import { spawn, spawnSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const { values } = parseArgs({ options: { keep: { type: "boolean", default: false } } })
const root = fileURLToPath(new URL("..", import.meta.url))
const settings = readFileSync(join(root, "pnpm-workspace.yaml"), "utf8")
const pinned = (name) => new RegExp(`^  "?${name}"?: (\\S+)$`, "m").exec(settings)?.[1]
const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const folder = mkdtempSync(join(tmpdir(), "dispatch-kubeflow-install-"))
const tarballs = join(folder, "tarballs")
const project = join(folder, "project")
// The same Node for whatever is started, and nothing of this workspace in the way
const { NODE_OPTIONS: _, NODE_PATH: __, KUBECONFIG: ___, ...inherited } = process.env
const env = { ...inherited, PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`, NO_COLOR: "1" }

let failures = 0
const report = (what, problem) => {
  if (problem !== undefined) failures += 1
  console.log(`${problem === undefined ? "passed" : "FAILED"}  ${what}${problem === undefined ? "" : `\n${problem}`}`)
  return problem === undefined
}
const run = (command, args, options = {}) =>
  spawnSync(command, args, { cwd: project, encoding: "utf8", env, timeout: 300_000, ...options })
const output = ({ error, stderr, stdout }) => `${error?.message ?? ""}${stdout ?? ""}${stderr ?? ""}`.trim()
const succeeds = (what, result) => report(what, result.status === 0 ? undefined : output(result))
const prints = (what, result, expected) =>
  report(what, result.status === 0 && expected(result.stdout.trim()) ? undefined : output(result) || "printed nothing")

let installed = false
const end = () => {
  if (values.keep && installed) console.log(`The project is ${project}`)
  else rmSync(folder, { recursive: true, force: true })
  process.exit(failures === 0 ? 0 : 1)
}

mkdirSync(tarballs)
mkdirSync(project)
const names = readdirSync(join(root, "packages"))
for (const name of names) {
  const cwd = join(root, "packages", name)
  if (!existsSync(join(cwd, "dist"))) {
    report("built packages", "there is no dist: npm run build")
    end()
  }
  const packed = run("npx", ["-y", packageManager, "pack", "--pack-destination", tarballs], { cwd })
  if (!succeeds(`${name} is packed`, packed)) end()
}

// The peers that the README names; client-node, which is optional, comes last
writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }))
const install = run("npm", [
  "install",
  "--prefer-offline",
  "--no-audit",
  "--no-fund",
  ...readdirSync(tarballs).map((file) => `file:${join(tarballs, file)}`),
  `effect@${pinned("effect")}`,
  `@effect/platform@${pinned("@effect/platform")}`,
  `@effect/platform-node@${pinned("@effect/platform-node")}`,
  `typescript@${pinned("typescript")}`,
  `@types/node@${pinned("@types/node")}`
])
if (!succeeds(`npm installs them (Node ${process.versions.node})`, install)) end()
installed = true
succeeds("the tree has what everything in it wants", run("npm", ["ls", "--all"]))
const trees = run("npm", ["ls", "effect", "--all", "--parseable"])
  .stdout.trim()
  .split("\n")
  .filter((it) => it.endsWith("effect"))
report("there is one effect", new Set(trees).size === 1 ? undefined : trees.join("\n"))

// Every public module: its types without skipLibCheck, its code in this Node
const packages = join(project, "node_modules/@dispatch-kubeflow")
const entries = names.flatMap((name) => {
  const { exports } = JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8"))
  // Folders that the package keeps to itself
  const closed = Object.entries(exports)
    .filter(([entry, target]) => entry.endsWith("/*") && target?.default === undefined)
    .map(([entry]) => entry.slice(2, -1))
  return readdirSync(join(packages, name, "dist"), { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(".js") && !closed.some((folder) => file.startsWith(folder)))
    .map((file) => ({ name, module: file.slice(0, -".js".length) }))
})
// A program rather than a module, and what needs the optional peers (vitest)
const programs = new Set(["testkit/serve/main"])
const optional = new Set(["testkit/Contract"])
const modules = entries.filter(
  ({ module, name }) => !programs.has(`${name}/${module}`) && !optional.has(`${name}/${module}`)
)
const specifier = ({ module, name }) => `@dispatch-kubeflow/${name}${module === "index" ? "" : `/${module}`}`
cpSync(join(root, "scripts/install-check"), join(project, "src"), { recursive: true })
writeFileSync(
  join(project, "src/everything.ts"),
  modules.map((it, index) => `export type * as M${index} from "${specifier(it)}"\n`).join("")
)
writeFileSync(
  join(project, "src/everything.mjs"),
  `const names = ${JSON.stringify(modules.map(specifier))}
for (const name of names) await import(name)
console.log(names.length)
`
)
const tsconfig = (options) => ({
  compilerOptions: {
    target: "ES2022",
    module: "NodeNext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    types: ["node"],
    rootDir: "src",
    outDir: "dist",
    ...options
  },
  include: ["src"]
})
writeFileSync(join(project, "tsconfig.json"), JSON.stringify(tsconfig({ lib: ["ES2023"], skipLibCheck: true })))
writeFileSync(
  join(project, "tsconfig.types.json"),
  JSON.stringify(tsconfig({ lib: ["ES2023", "DOM", "DOM.AsyncIterable"], skipLibCheck: false, noEmit: true }))
)
const tsc = join(project, "node_modules/typescript/bin/tsc")
const node = (...args) => run(process.execPath, args)
succeeds("TypeScript compiles (NodeNext, strict)", node(tsc, "-p", "."))
const own = output(node(tsc, "-p", "tsconfig.types.json"))
  .split("\n")
  .filter((line) => line.includes("@dispatch-kubeflow") || line.startsWith("src/"))
report(
  `the types of ${modules.length} modules are sound without skipLibCheck`,
  own.length === 0 ? undefined : own.join("\n")
)
prints(
  `${modules.length} modules are imported by their names`,
  node("src/everything.mjs"),
  (text) => text === String(modules.length)
)
const internal = node("--input-type=module", "-e", 'await import("@dispatch-kubeflow/core/internal/HoldProbe")')
report(
  "what is internal cannot be imported",
  internal.stderr.includes("ERR_PACKAGE_PATH_NOT_EXPORTED") ? undefined : output(internal)
)

prints("core over the testkit, from TypeScript", node("dist/in-process.js"), (text) => {
  const { after, answers, before } = JSON.parse(text)
  return answers === 14 && before === false && after === true
})
prints(
  "core over the testkit, from JavaScript",
  node("src/in-process-js.mjs"),
  (text) => JSON.parse(text).answers === 14
)

const traced = node(
  "--enable-source-maps",
  "--input-type=module",
  "-e",
  `
  import * as TrainJobRef from "@dispatch-kubeflow/core/kube/Resource"
  import { readFileSync } from "node:fs"
  const map = JSON.parse(readFileSync(new URL(import.meta.resolve("@dispatch-kubeflow/core/kube/Resource") + ".map")))
  console.log(map.sources.length > 0 && readFileSync(new URL(map.sources[0], import.meta.resolve("@dispatch-kubeflow/core/kube/Resource")), "utf8").length > 0)
`
)
prints("source maps lead to sources", traced, (text) => text === "true")

// The commands, as npm links them
const bin = (name) => join(project, "node_modules/.bin", process.platform === "win32" ? `${name}.cmd` : name)
const kubeconfig = join(project, "demo.kubeconfig")
const server = spawn(bin("dispatch-kubeflow-testkit"), ["serve", "--kubeconfig", kubeconfig, "--nodes", "2"], {
  cwd: project,
  env,
  stdio: ["ignore", "pipe", "pipe"]
})
const served = await new Promise((resolve) => {
  let text = ""
  const timer = setTimeout(() => resolve(`it is not served after a minute:\n${text}`), 60_000)
  const settle = (problem) => {
    clearTimeout(timer)
    resolve(problem)
  }
  server.stdout.on("data", (data) => {
    text += data
    if (text.includes("export KUBECONFIG")) settle(undefined)
  })
  server.stderr.on("data", (data) => (text += data))
  server.on("error", ({ message }) => settle(message))
  server.on("exit", () => settle(text))
})
if (report("the testkit's command serves a cluster", served)) {
  const cli = (...args) => run(bin("dispatch-kubeflow"), args, { env: { ...env, KUBECONFIG: kubeconfig } })
  prints("the live layer, from TypeScript", node("dist/live.js", kubeconfig), (text) => JSON.parse(text).nodes === 2)
  prints("dispatch-kubeflow --help", cli("--help"), (text) => text.includes("Exit codes:"))
  prints("dispatch-kubeflow --version", cli("--version"), (text) => /^\d+\.\d+\.\d+/.test(text))
  prints(
    "dispatch-kubeflow capabilities --json",
    cli("capabilities", "--json"),
    (text) => JSON.parse(text).capabilities.length === 14
  )
  prints("dispatch-kubeflow preflight", cli("preflight"), (text) => text.includes("writable"))
  const nothing = cli("ceased", "no-such")
  report("dispatch-kubeflow ceased says that there is none", nothing.status === 5 ? undefined : output(nothing))

  // As the README says: client-node 2 needs Node 22.19
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
  const clientNode = major > 22 || (major === 22 && minor >= 19) ? "2" : "1.4"
  const added = ["install", "--prefer-offline", "--no-audit", "--no-fund", `@kubernetes/client-node@${clientNode}`]
  if (succeeds(`npm installs client-node ${clientNode} beside them`, run("npm", added))) {
    prints(
      "the live layer takes a configuration that client-node has loaded",
      node("src/client-node.mjs", kubeconfig),
      (text) => text === "2"
    )
  }
}
server.kill("SIGTERM")
end()
