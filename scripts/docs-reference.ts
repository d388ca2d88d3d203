// Writes the generated parts of the reference pages; what stands between the markers is replaced, the rest is kept.
import { readFileSync, writeFileSync } from "node:fs"
import * as Access from "../packages/core/src/Access.js"
import * as CapabilityTable from "../packages/core/src/decide/CapabilityTable.js"
import * as RuntimeRules from "../packages/core/src/decide/RuntimeRules.js"
import * as Cli from "../packages/k8s-live/src/cli/Reference.js"

const parts: ReadonlyArray<readonly [page: string, part: string, text: string]> = [
  ["capabilities.md", "table", CapabilityTable.markdown()],
  ["runtime-rules.md", "rules", RuntimeRules.markdown()],
  ["preflight.md", "permissions", Access.markdown()],
  ...Cli.parts().map(([part, text]) => ["cli.md", part, text] as const)
]

for (const [page, part, text] of parts) {
  const url = new URL(`../docs/${page}`, import.meta.url)
  const before = readFileSync(url, "utf8")
  const region = new RegExp(`(<!-- generated: ${part} -->\n)[^]*?(\n<!-- end -->)`)
  if (!region.test(before)) throw new Error(`docs/${page} has no region "${part}"`)
  writeFileSync(
    url,
    before.replace(region, (_, start: string, end: string) => `${start}${text}${end}`)
  )
}
