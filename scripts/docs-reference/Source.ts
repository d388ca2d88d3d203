// What the documentation comments of the sources say.
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"

/** A source file of the repository, parsed. */
export const parse = (path: string): ts.SourceFile =>
  ts.createSourceFile(
    path,
    readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8"),
    ts.ScriptTarget.ES2022,
    true
  )

/** Every node of a kind, in the order of the text. */
export const all = <A extends ts.Node>(root: ts.Node, is: (node: ts.Node) => node is A): ReadonlyArray<A> => {
  const found: Array<A> = []
  const visit = (node: ts.Node): void => {
    if (is(node)) found.push(node)
    ts.forEachChild(node, visit)
  }
  visit(root)
  return found
}

/** The documentation comment right before a node, as one line. */
export const comment = (node: ts.Node): string => {
  const text = node.getSourceFile().text
  const last = (ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []).at(-1)
  const own = last === undefined ? "" : text.slice(last.pos, last.end)
  return own.startsWith("/**")
    ? own
        .slice(3, -2)
        .replaceAll(/^\s*\* ?/gm, "")
        .replaceAll(/\s+/g, " ")
        .trim()
    : ""
}

/** A table. */
export const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [header, header.map(() => "---"), ...rows]
    .map((cells, index) =>
      index === 1 ? `|${cells.join("|")}|` : `| ${cells.map((it) => it.replaceAll("|", "\\|")).join(" | ")} |`
    )
    .join("\n")
    .replaceAll("|  |", "| |")

/** As code, in a cell. */
export const code = (text: string): string => `\`${text}\``
