// Writes the generated parts of the reference pages; what stands between the markers is replaced, the rest is kept.
//
//     npm run docs:reference               writes
//     npm run docs:reference -- --check    says which page is stale, exit code 1
import { readFileSync, writeFileSync } from "node:fs"
import * as Access from "../packages/core/src/Access.js"
import * as CapabilityTable from "../packages/core/src/decide/CapabilityTable.js"
import * as RuntimeRules from "../packages/core/src/decide/RuntimeRules.js"
import * as Cli from "../packages/k8s-live/src/cli/Reference.js"
import * as Causes from "./docs-reference/Causes.js"
import * as Errors from "./docs-reference/Errors.js"
import * as Telemetry from "./docs-reference/Telemetry.js"

const parts: ReadonlyArray<readonly [page: string, part: string, text: string]> = [
  ["capabilities.md", "table", CapabilityTable.markdown()],
  ["runtime-rules.md", "rules", RuntimeRules.markdown()],
  ["preflight.md", "permissions", Access.markdown()],
  ...Cli.parts().map(([part, text]) => ["cli.md", part, text] as const),
  ["reference/causes.md", "causes", Causes.markdown()],
  ["reference/errors.md", "errors", Errors.markdown()],
  ["reference/errors.md", "messages", Errors.messages()],
  ["reference/telemetry.md", "metrics", Telemetry.metrics()],
  ["reference/telemetry.md", "spans", Telemetry.spans()]
]

const check = process.argv.includes("--check")

for (const [page, part, text] of parts) {
  const url = new URL(`../docs/${page}`, import.meta.url)
  const before = readFileSync(url, "utf8")
  const region = new RegExp(`(<!-- generated: ${part} -->\n)[^]*?(\n<!-- end -->)`)
  if (!region.test(before)) throw new Error(`docs/${page} has no region "${part}"`)
  const after = before.replace(region, (_, start: string, end: string) => `${start}${text}${end}`)
  if (after === before) continue
  if (check) {
    console.error(`docs/${page}: "${part}" is stale; npm run docs:reference`)
    process.exitCode = 1
  } else writeFileSync(url, after)
}
