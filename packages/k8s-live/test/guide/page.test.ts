import { describe, expect, it } from "vitest"
import * as Page from "./page.js"

const page = `# A page

<!-- run: export A=1 -->

<!-- docs/some.ts, shown -->

\`\`\`ts
one
\`\`\`

\`\`\`sh
# what it is
first \\
  second
third  # exit code 3
\`\`\`

\`\`\`
printed
\`\`\`

Text.

\`\`\`
no output
\`\`\`

<!-- not run: no need -->

\`\`\`sh
never
\`\`\`
`

describe("a page", () => {
  it("has commands that nobody sees, files, shell lines with what they print, and lines that are not run", () => {
    expect(
      Page.blocks(page).map(({ file, language, notRun, prints, text }) => [language, text, file, prints, notRun])
    ).toEqual([
      ["sh", "export A=1\n", undefined, undefined, undefined],
      ["ts", "one\n", "docs/some.ts", undefined, undefined],
      ["sh", "# what it is\nfirst \\\n  second\nthird  # exit code 3\n", undefined, "printed\n", undefined],
      ["", "no output\n", undefined, undefined, undefined],
      ["sh", "never\n", undefined, undefined, "no need"]
    ])
    expect(Page.commands("# what\nfirst \\\n  second\nthird  # exit code 3\n")).toEqual([
      { text: "first    second", exitCode: 0 },
      { text: "third  # exit code 3", exitCode: 3 }
    ])
  })

  it("shows an output but for names, times, spaces and what it leaves out", () => {
    const output = "NODE    AT\nrun-1-node-0-0-x7k2p  2026-11-30T02:49:20Z\nlast\n"
    expect(Page.shows("NODE AT\nrun-1-node-0-0-abcde  2025-01-01T00:00:00.5Z\nlast\n", output)).toBe(true)
    expect(Page.shows("NODE  AT\n…\nlast\n", output)).toBe(true)
    expect(Page.shows("NODE  AT\nlast\n", output)).toBe(false)
    expect(Page.shows("NODE  AT\n…\nlost\n", output)).toBe(false)
    expect(Page.shows("NODE  AT\nrun-2-node-0-0-x7k2p  2026-11-30T02:49:20Z\nlast\n", output)).toBe(false)
  })
})
