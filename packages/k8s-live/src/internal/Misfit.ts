/**
 * What of a document does not fit its schema, for those who wrote it: where, what belongs there, and what kind of thing stands
 * there. Never the thing itself, which may be a secret.
 *
 * @module
 */
import type { ParseResult, SchemaAST } from "effect"

/** One place. The path is that of the document itself where it is empty. */
export interface Misfit {
  readonly path: ReadonlyArray<PropertyKey>
  /** e.g. `expected text, found a number`. */
  readonly problem: string
}

const kindOf = (value: unknown): string => {
  if (value === undefined || value === null) return "nothing"
  if (Array.isArray(value)) return "a list"
  switch (typeof value) {
    case "string":
      return value === "" ? "empty text" : "text"
    case "number":
    case "bigint":
      return "a number"
    case "boolean":
      return "true or false"
    default:
      return "a map"
  }
}

const isNothing = (ast: SchemaAST.AST): boolean =>
  ast._tag === "UndefinedKeyword" || (ast._tag === "Literal" && ast.literal === null)

/** What a schema wants, in words for people who write YAML. */
const wanted = (ast: SchemaAST.AST): string => {
  switch (ast._tag) {
    case "StringKeyword":
      return "text"
    case "TemplateLiteral":
      return `text that begins with "${ast.head}"`
    case "NumberKeyword":
      return "a number"
    case "BooleanKeyword":
      return "true or false"
    case "TupleType":
      return "a list"
    case "TypeLiteral":
      return "a map"
    case "Literal":
      return JSON.stringify(ast.literal)
    case "Union":
      return [...new Set(ast.types.filter((type) => !isNothing(type)).map(wanted))].join(" or ")
    case "Refinement":
      return wanted(ast.from)
    case "Transformation":
      return wanted(ast.from)
    default:
      return "something else"
  }
}

const mismatch = (ast: SchemaAST.AST, actual: unknown): string => {
  const expected = wanted(ast)
  const found = kindOf(actual)
  return `expected ${expected}, found ${found === "text" && expected !== "text" && /^"|^text/.test(expected) ? "other text" : found}`
}

const walk = (issue: ParseResult.ParseIssue, path: ReadonlyArray<PropertyKey>): ReadonlyArray<Misfit> => {
  switch (issue._tag) {
    case "Pointer": {
      const more = Array.isArray(issue.path) ? (issue.path as ReadonlyArray<PropertyKey>) : [issue.path as PropertyKey]
      return walk(issue.issue, [...path, ...more])
    }
    case "Composite": {
      const issues = (
        Array.isArray(issue.issues) ? issue.issues : [issue.issues]
      ) as ReadonlyArray<ParseResult.ParseIssue>
      const { ast } = issue
      if (ast._tag !== "Union") return issues.flatMap((it) => walk(it, path))
      // Of alternatives the one that got furthest is what was meant
      const deep = issues.flatMap((it) => walk(it, path)).filter((it) => it.path.length > path.length)
      return deep.length > 0 ? deep : [{ path, problem: mismatch(ast, issue.actual) }]
    }
    case "Transformation":
      return walk(issue.issue, path)
    case "Refinement":
      return issue.kind === "From"
        ? walk(issue.issue, path)
        : [
            {
              path,
              problem: issue.actual === "" ? "is empty" : `expected another value than this ${wanted(issue.ast)}`
            }
          ]
    case "Missing":
      return [{ path, problem: "is missing" }]
    case "Unexpected":
    case "Forbidden":
      return [{ path, problem: "does not belong there" }]
    case "Type":
      return [{ path, problem: mismatch(issue.ast, issue.actual) }]
  }
}

/** `users[0].user.token`. */
export const pathText = (path: ReadonlyArray<PropertyKey>): string =>
  path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("")
    .replace(/^\./, "")

/** Every place that does not fit. */
export const of = (error: ParseResult.ParseError): ReadonlyArray<Misfit> => walk(error.issue, [])

const most = 5

/** The first places, each on a line of its own. */
export const lines = (error: ParseResult.ParseError): string => {
  const all = of(error)
  const told = all
    .slice(0, most)
    .map(({ path, problem }) => `${path.length === 0 ? "the document" : pathText(path)}: ${problem}`)
  return [...told, ...(all.length > most ? [`and ${all.length - most} more`] : [])]
    .map((line) => `\n  - ${line}`)
    .join("")
}
