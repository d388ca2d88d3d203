import * as Access from "@dispatch-kubeflow/core/Access"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as RuntimeRules from "@dispatch-kubeflow/core/decide/RuntimeRules"
import { capabilities } from "@dispatch-kubeflow/core/decide/Support"
import { describe, expect, it } from "@effect/vitest"
import { readFileSync } from "node:fs"

const region = (page: string, part: string): string | undefined => {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), "utf8")
  return new RegExp(`<!-- generated: ${part} -->\n([^]*?)\n<!-- end -->`).exec(text)?.[1]
}

describe("the reference pages are generated from the same data (npm run docs:reference)", () => {
  it("docs/capabilities.md: all fourteen rows of the table", () => {
    expect(region("capabilities.md", "table")).toBe(CapabilityTable.markdown())
    for (const capability of capabilities) expect(CapabilityTable.markdown()).toContain(`| ${capability} |`)
  })

  it("docs/runtime-rules.md: the eight rules", () => {
    expect(region("runtime-rules.md", "rules")).toBe(RuntimeRules.markdown())
  })

  it("docs/preflight.md: every permission that is asked for", () => {
    expect(region("preflight.md", "permissions")).toBe(Access.markdown())
  })
})
