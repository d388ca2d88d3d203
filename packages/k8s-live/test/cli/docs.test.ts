import * as CommandLine from "@dispatch-kubeflow/k8s-live/cli/CommandLine"
import { describe, expect, it } from "@effect/vitest"
import { readFileSync } from "node:fs"

const page = readFileSync(new URL("../../../../docs/cli.md", import.meta.url), "utf8")
const program = CommandLine.define(
  "",
  () => undefined,
  () => undefined
)
const commands = CommandLine.leaves(program)

describe("docs/cli.md", () => {
  it("names every command, in the order of the definitions", () => {
    const told = [...page.matchAll(/^## ([a-z]+( [a-z]+)?)$/gm)].map(([, name]) => name)
    expect(told).toEqual(commands.map(CommandLine.nameOf))
  })

  it("tells every option", () => {
    for (const command of commands) {
      for (const { long } of command.options) expect([long, page.includes(long ?? "?")]).toEqual([long, true])
    }
  })

  it("its JSON examples are JSON", () => {
    for (const [, text = ""] of page.matchAll(/```json\n([^]*?)```/g)) {
      const parts = text.startsWith('{"event"') ? text.trim().split("\n") : [text]
      for (const part of parts) expect(() => JSON.parse(part) as unknown).not.toThrow()
    }
  })
})
