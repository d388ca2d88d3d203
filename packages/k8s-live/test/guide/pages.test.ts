import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { describe, expect, it } from "vitest"
import * as Page from "./page.js"

const limit = 600_000

// Their commands are for a checkout
const ofCheckout = new Set(["README.md", "docs/cases.md"])
// A project with the packages installed, e.g. the one of `npm run install:check -- --keep`: the tutorial is done there
const installed = process.env["TEST_INSTALLED"]
const kubectl = ((): boolean => {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

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

describe("what a page shows is its file", () => {
  it.each(executed)("%s", (path) => {
    for (const { file, language, line, notRun, text } of Page.blocks(Page.textOf(path))) {
      if (file !== undefined) expect(text, `${path}:${line} is ${file}`).toBe(Page.textOf(file))
      const code = ["ts", "yaml", "python", "go"].includes(language)
      expect(!code || file !== undefined || notRun !== undefined, `${path}:${line} names its file`).toBe(true)
    }
  })
})

describe(`what a page says is done${kubectl ? "" : " (left out: kubectl is not on the path)"}`, () => {
  const withCommands = executed.filter((path) =>
    Page.blocks(Page.textOf(path)).some(({ language, notRun }) => language === "sh" && notRun === undefined)
  )

  it.runIf(kubectl).each(withCommands)("%s", { timeout: limit }, async (path) => {
    const scratch = mkdtempSync(join(tmpdir(), "pages-"))
    const kubeconfig = join(scratch, "kubeconfig")
    try {
      const problems = await Page.run(
        path,
        ofCheckout.has(path)
          ? {
              folder: Page.root,
              instead: [
                ["$PWD/demo.kubeconfig", kubeconfig],
                ["demo.kubeconfig", kubeconfig]
              ]
            }
          : { folder: path === "docs/tutorial.md" ? installed : undefined }
      )
      expect(problems.join("\n\n")).toBe("")
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
  })
})

describe("the reference", () => {
  it("is what the code says (npm run docs:reference)", { timeout: limit }, () => {
    const check = ["--conditions=@dispatch-kubeflow/source", "scripts/docs-reference.ts", "--check"]
    execFileSync(join(Page.root, "node_modules/.bin/tsx"), check, { cwd: Page.root })
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
