import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const text = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../../../${path}`, import.meta.url)), "utf8")

describe("docs/testkit.md", () => {
  const guide = text("docs/testkit.md")

  it.each([
    ["ts", "packages/k8s-live/test/guide/inProcess.test.ts"],
    ["python", "packages/testkit/test/clients/python/test_example.py"],
    ["go", "packages/testkit/test/clients/go/served_test.go"]
  ])("shows the example in %s that is executed", (language, path) => {
    expect(guide).toContain(`<!-- ${path} -->\n\n\`\`\`${language}\n${text(path)}\`\`\``)
  })
})
