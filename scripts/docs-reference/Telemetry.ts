// Metrics and spans, as the sources make them, with the comments on them.
import { readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import * as Source from "./Source.js"

const textOf = (node: ts.Node | undefined): string => (node !== undefined && ts.isStringLiteral(node) ? node.text : "")

const statements = Source.all(Source.parse("packages/core/src/Telemetry.ts"), ts.isVariableStatement)
const callOf = (statement: ts.VariableStatement): ts.CallExpression | undefined => {
  const made = statement.declarationList.declarations[0]?.initializer
  return made !== undefined && ts.isCallExpression(made) ? made : undefined
}
// A metric that is made from a key has the key's name
const keys = new Map(
  statements.map((statement) => [statement.declarationList.declarations[0]?.name.getText() ?? "", callOf(statement)])
)

/** The table of metrics. */
export const metrics = (): string =>
  Source.table(
    ["metric", "type", "what"],
    statements.flatMap((statement) => {
      const made = callOf(statement)
      const isFromKey = made?.expression.getText() === "Metric.fromMetricKey"
      const call = isFromKey ? keys.get(made.arguments[0]?.getText() ?? "") : made
      const type = /^Metric(?:Key)?\.(counter|histogram|gauge)$/.exec(call?.expression.getText() ?? "")?.[1]
      const isExported = statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true
      return type === undefined || !isExported
        ? []
        : [[Source.code(textOf(call?.arguments[0])), type, Source.comment(statement)]]
    })
  )

const opens = new Set(["Effect.fn", "Effect.withSpan", "Stream.withSpan"])

const sources = ["packages/core/src", "packages/k8s-live/src"].flatMap((folder) =>
  readdirSync(fileURLToPath(new URL(`../../${folder}`, import.meta.url)), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.startsWith("cli/"))
    .toSorted()
    .map((path) => Source.parse(`${folder}/${path}`))
)

// What is opened inside a method is told where its service is: the first comment on something of that name
const told = (file: ts.SourceFile, name: string): string =>
  [
    ...Source.all(file, ts.isPropertySignature),
    ...Source.all(file, ts.isVariableStatement).filter(
      (it) => it.declarationList.declarations[0]?.name.getText() === name
    )
  ]
    .filter((it) => ts.isVariableStatement(it) || it.name.getText() === name)
    .map(Source.comment)
    .find((it) => it !== "") ?? ""

const firstSentence = (text: string): string => /^.*?\.(?= [A-Z`]|$)/.exec(text)?.[0].slice(0, -1) ?? text

/** The table of spans; those without a word are steps of the ones before them. */
export const spans = (): string =>
  Source.table(
    ["span", "what"],
    sources.flatMap((file) =>
      Source.all(file, ts.isCallExpression)
        .filter((call) => opens.has(call.expression.getText()) && textOf(call.arguments[0]) !== "")
        .map((call) => {
          const span = textOf(call.arguments[0])
          return [Source.code(span), firstSentence(told(file, span.split(".").at(-1) ?? ""))]
        })
    )
  )
