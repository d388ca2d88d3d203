// The causes, from their schema and the comments of its members.
import ts from "typescript"
import * as Classification from "../../packages/core/src/decide/Classification.js"
import * as Source from "./Source.js"

const members = new Map(
  Source.all(Source.parse("packages/core/src/decide/Classification.ts"), ts.isCallExpression)
    .filter((call) => call.expression.getText() === "cause")
    .flatMap((call) => {
      const [tag] = call.arguments
      return tag !== undefined && ts.isStringLiteral(tag) ? [[tag.text, Source.comment(call)] as const] : []
    })
)

/** A field of a schema; `type` where it may be absent. */
interface Field {
  readonly ast: { readonly isOptional?: boolean; readonly type?: unknown }
}

const fieldOf = ([name, { ast }]: readonly [string, Field]): string => {
  const type = String(ast.type ?? ast)
    .replace(/^ReadonlyArray<(.*)>$/, "$1[]")
    .replace(" | undefined", "")
  return Source.code(`${name}${ast.isOptional === true ? "?" : ""}: ${type}`)
}

/** The table. */
export const markdown = (): string =>
  Source.table(
    ["cause", "what it says", "fields"],
    Classification.Cause.members.map((member) => {
      const { _tag, ...fields } = member.fields
      const [tag] = _tag.literals
      return [tag, members.get(tag) ?? "", Object.entries<Field>(fields).map(fieldOf).join(", ")]
    })
  )
