// The tests of k8s-live on every Node and every @kubernetes/client-node that is supported:
//
//     npm run matrix                                  all of them
//     npm run matrix -- --node 22,24 --client-node 2  some of them
//     npm run matrix -- test/KubeConfig               other test files than the usual ones
//
// Node comes from the npm registry, client-node into copies of this workspace; both are kept in node_modules/.cache/matrix.
// A combination that cannot be obtained is said to be so, and counts as a failure only with --strict.
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    node: { type: "string", default: "20,22,24" },
    "client-node": { type: "string", default: "1.4,2" },
    strict: { type: "boolean", default: false }
  }
})

const root = fileURLToPath(new URL("..", import.meta.url))
const cache = join(root, "node_modules/.cache/matrix")
const pnpm = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).packageManager
const usual = ["contract", "clientNode", "LiveTransport", "KubeConfig", "KubeHttp", "RealCluster"]
const files = positionals.length > 0 ? positionals : usual.map((name) => `test/${name}.test.ts`)

const run = (command, args, options = {}) => spawnSync(command, args, { encoding: "utf8", ...options })
const lastWords = ({ error, stderr, stdout }) =>
  error?.message ?? `${stderr}\n${stdout}`.trim().split("\n").slice(-3).join(" ").slice(0, 200)

/** A Node of a major version: this one where it fits, else the newest that the registry gives. */
const nodeOf = (major) => {
  if (process.versions.node.split(".")[0] === major) return { path: process.execPath }
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`
  const folder = join(cache, `node-${major}`)
  const path = join(folder, "node_modules", name, "bin", process.platform === "win32" ? "node.exe" : "node")
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }))
    const installed = run("npm", ["install", "--no-audit", "--no-fund", `${name}@${major}`], { cwd: folder })
    if (!existsSync(path)) return { missing: `Node ${major} was not obtained: ${lastWords(installed)}` }
  }
  const asked = run(path, ["--version"])
  return asked.status === 0 ? { path } : { missing: `Node ${major} does not run: ${lastWords(asked)}` }
}

// As somebody gets it who installs the package: version 2 with an undici that needs Node 22.19, unless it is overridden
const workspaceOf = (version, withOverride) => {
  const folder = join(cache, `client-node-${version}${withOverride ? "-undici-7" : ""}`)
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(folder)) {
    if (name !== "node_modules") rmSync(join(folder, name), { recursive: true, force: true })
  }
  const listed = run("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], { cwd: root })
  if (listed.status !== 0) return { missing: `the workspace was not copied: ${lastWords(listed)}` }
  for (const file of listed.stdout.split("\0").filter((name) => name !== "" && existsSync(join(root, name)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(join(root, file), join(folder, file))
  }
  const settings = join(folder, "pnpm-workspace.yaml")
  const text = readFileSync(settings, "utf8")
  const override = /^ {2}"@kubernetes\/client-node>undici": .*\n/m
  if (!override.test(text)) return { missing: "pnpm-workspace.yaml has no override of client-node's undici any more" }
  const changed = text.replace(/^( {2}"@kubernetes\/client-node": ).*$/m, `$1${version}`)
  writeFileSync(settings, withOverride ? changed : changed.replace(override, ""))
  const installed = run("npx", ["-y", pnpm, "install", "--no-frozen-lockfile", "--prefer-offline"], {
    cwd: folder,
    env: { ...process.env, CI: "true" }
  })
  return installed.status === 0
    ? { folder }
    : { missing: `client-node ${version} was not installed: ${lastWords(installed)}` }
}

const newest = (wanted) => {
  const asked = run("npm", ["view", `@kubernetes/client-node@${wanted}`, "version", "--json"])
  if (asked.status !== 0) return undefined
  const versions = [JSON.parse(asked.stdout)].flat()
  return versions.at(-1)
}

const workspaces = new Map()
const workspace = (version, withOverride) => {
  const key = `${version} ${withOverride}`
  if (!workspaces.has(key)) workspaces.set(key, workspaceOf(version, withOverride))
  return workspaces.get(key)
}

const versionOf = (folder, ...path) => JSON.parse(readFileSync(join(folder, ...path, "package.json"), "utf8")).version

const combination = (major, wanted) => {
  const node = nodeOf(major)
  if (node.missing !== undefined) return { missing: node.missing }
  const version = newest(wanted)
  if (version === undefined) return { missing: `client-node ${wanted} is not in the registry` }
  const undici7 = Number(major) < 22 && !version.startsWith("1.")
  const { folder, missing } = workspace(version, undici7)
  if (missing !== undefined) return { missing }
  const report = join(cache, `report-${major}-${version}.json`)
  rmSync(report, { force: true })
  const tested = run(
    node.path,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--project",
      "k8s-live",
      "--reporter=json",
      `--outputFile=${report}`,
      ...files
    ],
    { cwd: folder, env: { ...process.env, PATH: `${dirname(node.path)}${delimiter}${process.env.PATH}` } }
  )
  if (!existsSync(report)) return { missing: `the tests did not run: ${lastWords(tested)}` }
  const { numFailedTests, numPassedTests, numPendingTests, numTodoTests, success, testResults } = JSON.parse(
    readFileSync(report, "utf8")
  )
  return {
    node: run(node.path, ["--version"]).stdout.trim(),
    client: `${versionOf(folder, "packages/k8s-live/node_modules/@kubernetes/client-node")}${undici7 ? ", undici 7" : ""}`,
    passed: numPassedTests,
    // A file that cannot even be loaded has no test that fails
    failed: success ? numFailedTests : Math.max(1, numFailedTests),
    skipped: numPendingTests + numTodoTests,
    failures: testResults.flatMap(({ assertionResults, message, name }) => [
      ...(assertionResults.length === 0 && message ? [`${name}: ${message}`] : []),
      ...assertionResults
        .filter(({ status }) => status === "failed")
        .map(({ failureMessages, fullName }) => `${fullName}: ${failureMessages.join(" ").split("\n")[0]}`)
    ])
  }
}

const rows = []
for (const wanted of values["client-node"].split(",")) {
  for (const major of values.node.split(",")) {
    process.stderr.write(`Node ${major}, client-node ${wanted} …\n`)
    const result = combination(major, wanted)
    for (const failure of result.failures ?? []) process.stderr.write(`  failed: ${failure}\n`)
    rows.push([result.node ?? major, result.client ?? wanted, result])
  }
}

const cells = rows.map(([node, client, { failed, missing, passed, skipped }]) =>
  missing === undefined ? [node, client, passed, failed, skipped].map(String) : [node, client, `left out: ${missing}`]
)
const header = ["Node", "client-node", "passed", "failed", "skipped"]
const widths = header.map((title, column) =>
  Math.max(title.length, ...cells.map((row) => (row.length === header.length ? row[column].length : 0)))
)
for (const row of [header, ...cells])
  console.log(
    row
      .map((text, column) => text.padEnd(widths[column]))
      .join("  ")
      .trimEnd()
  )
console.log(
  process.env.TEST_KUBECONFIG === undefined ? "without a real cluster (TEST_KUBECONFIG)" : "with a real cluster"
)

const bad = rows.filter(([, , { failed, missing }]) => (missing === undefined ? failed > 0 : values.strict))
process.exitCode = bad.length > 0 ? 1 : 0
