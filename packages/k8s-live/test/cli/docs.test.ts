import { exitCodeHelp } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Invocation from "@dispatch-kubeflow/k8s-live/cli/Invocation"
import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import { readFileSync } from "node:fs"

const page = readFileSync(new URL("../../../../docs/cli.md", import.meta.url), "utf8")
const helpOf = (...args: ReadonlyArray<string>): string =>
  Either.getOrThrow(Either.flip(Invocation.parse([...args, "--help"], "0.0.0"))).text

const commands = [
  ["preflight"],
  ["capabilities"],
  ["rules"],
  ["runtime", "check"],
  ["runtime", "conform"],
  ["output"],
  ["watch"],
  ["explain"],
  ["ceased"],
  ["doctor"]
]

describe("docs/cli.md", () => {
  it("tells every exit code with its meaning", () => {
    for (const [code, meaning] of exitCodeHelp) expect(page).toContain(`| ${code} | ${meaning} |`)
  })

  it("names every command, in the order of the help", () => {
    const told = [...page.matchAll(/^## ([a-z]+( [a-z]+)?)$/gm)].map(([, name]) => name?.split(" ") ?? [])
    expect(told).toEqual(commands)
    for (const [name] of commands) expect(helpOf()).toContain(`\n  ${name ?? ""} `)
  })

  for (const command of commands) {
    it(`tells every option of ${command.join(" ")}`, () => {
      const [, shared = ""] = page.split("## Options of every command\n")
      const [, own = ""] = page.split(`\n## ${command.join(" ")}\n`)
      const [mine = ""] = own.split("\n## ")
      const [everywhere = ""] = shared.split("\n## ")
      const options = new Set([...helpOf(...command).matchAll(/--[a-z][a-z-]+/g)].map(([option]) => option))
      expect(options.size).toBeGreaterThan(10)
      for (const option of options) expect([option, `${everywhere}${mine}`.includes(option)]).toEqual([option, true])
    })
  }

  it("its JSON examples are JSON", () => {
    for (const [, text = ""] of page.matchAll(/```json\n([^]*?)```/g)) {
      const parts = text.startsWith('{"event"') ? text.trim().split("\n") : [text]
      for (const part of parts) expect(() => JSON.parse(part) as unknown).not.toThrow()
    }
  })
})
