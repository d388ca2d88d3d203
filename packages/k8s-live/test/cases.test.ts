import { describe, expect, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { caseIds } from "./caseIds.js"

const root = fileURLToPath(new URL("../../../", import.meta.url))

/** The TypeScript files of a folder; linked and built ones are left out. */
const filesOf = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) {
      return entry.name === "node_modules" || entry.name === "dist" ? [] : filesOf(`${folder}/${entry.name}`)
    }
    return entry.isFile() && entry.name.endsWith(".ts") && !/^case(s.test|Ids).ts$/.test(entry.name)
      ? [`${folder}/${entry.name}`]
      : []
  })

const files = ["packages/core/test", "packages/k8s-live/test", "packages/testkit", "examples"].flatMap((folder) =>
  filesOf(`${root}${folder}`)
)

const id = /\b[A-Z]\d\d\b/g
// A row of a table of tests: its text is a test's name, or the beginning of one
const row = /["'`]((?:\w+, )?[A-Z]\d\d(?:,? [A-Z]\d\d)*: [^"'`]*)/g
const call = /\b(?:it|test)(?:\.\w+)*\(\s*(["'`])((?:(?!\1)[^])*?)\1/g

/** The ids that names of tests carry. */
const carried = (source: string): ReadonlyArray<string> => {
  const text = source.replace(/^\s*(\/\/|\*).*$/gm, "")
  const names = [
    ...[...text.matchAll(row)].map(([, name = ""]) => name),
    ...[...text.matchAll(call)].map(([, , name = ""]) => name)
  ]
  return names.flatMap((name) => name.match(id) ?? [])
}

const page = readFileSync(`${root}docs/cases.md`, "utf8")
const cannot = new Map([...page.matchAll(/^\| ([A-Z]\d\d) \| (.+) \|$/gm)].map(([, of = "", why = ""]) => [of, why]))

describe("the cases that other tools' users reported", () => {
  const inTests = new Set(files.flatMap((file) => carried(readFileSync(file, "utf8"))))

  it("each is carried by a test's name, or docs/cases.md says why it cannot arise", () => {
    expect(caseIds.filter((it) => !inTests.has(it) && !cannot.has(it))).toEqual([])
  })

  it("none is said not to arise that a test is about, and none is unknown", () => {
    expect([...cannot.keys()].filter((it) => inTests.has(it) || !caseIds.includes(it))).toEqual([])
    for (const why of cannot.values()) expect(why.length).toBeGreaterThan(40)
  })

  it("the names of tests are found, whatever way they are written", () => {
    expect(
      carried('it.effect("O01, O02: x", () => 1)\n// it("O03: y")\n  ["K02: z", 1]\n it(`a copy: N01 N02 ${n}`)')
    ).toEqual(["O01", "O02", "K02", "O01", "O02", "N01", "N02"])
    expect(carried('at("2026-11-29T01:02:03Z"); const x = "W01"')).toEqual([])
  })
})
