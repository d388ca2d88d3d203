import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { describe, expect, it } from "vitest"
import * as Page from "./page.js"

const limit = 600_000

// Their shell lines are examples of the generated reference, or tools of the project that take minutes
const shownOnly = new Set(["docs/cli.md", "docs/dispatcher.md", "docs/performance.md"])

const under = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(Page.root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("api/"))
    .map((path) => join(folder, path))
    .toSorted()
const packages = ["core", "k8s-live", "testkit"].map((name) => `packages/${name}/README.md`)
const executed = ["README.md", ...under("docs")].filter((path) => !shownOnly.has(path))
const linked = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "packages/testkit/FIDELITY.md",
  ...packages,
  ...under("docs")
]

describe("what a page says is done", () => {
  it.each(executed)("%s", { timeout: limit }, async (path) => {
    const blocks = Page.blocks(Page.textOf(path))
    for (const { file, language, line, notRun, text } of blocks) {
      if (file !== undefined) expect(text, `${path}:${line} is ${file}`).toBe(Page.textOf(file))
      const code = ["ts", "yaml", "python", "go"].includes(language)
      expect(!code || file !== undefined || notRun !== undefined, `${path}:${line} names its file`).toBe(true)
    }
    if (blocks.every(({ language, notRun }) => language !== "sh" || notRun !== undefined)) return
    expect(await Page.run(path, path === "README.md" ? { folder: Page.root } : {})).toEqual([])
  })
})

describe("links", () => {
  // As forges make them: lower case, spaces as hyphens, other punctuation gone
  const anchors = (path: string): ReadonlySet<string> =>
    new Set(
      [...readFileSync(path, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
        title
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
          .replaceAll(" ", "-")
      )
    )

  it.each(linked)("of %s lead somewhere", (path) => {
    const text = Page.textOf(path)
      .replaceAll(/^```[^]*?^```$/gm, "")
      .replaceAll(/`[^`\n]*`/g, "")
    const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = ""]) => target)
      .filter((target) => !/^https?:/.test(target))
      .filter((target) => {
        const [file = "", anchor] = target.split("#")
        const full = file === "" ? join(Page.root, path) : join(Page.root, dirname(path), file)
        return !existsSync(full) || (anchor !== undefined && !anchors(full).has(anchor))
      })
    expect(broken).toEqual([])
  })

  it("docs/README.md leads to every page", () => {
    const index = Page.textOf("docs/README.md")
    const pages = under("docs").map((path) => relative("docs", path))
    expect(pages.filter((page) => page !== "README.md" && !index.includes(`](${page}`))).toEqual([])
  })
})
