// Metrics and spans, as the sources make them, with the comments on them.
import { readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import * as Source from "./Source.js"

const textOf = (node: ts.Node | undefined): string => (node !== undefined && ts.isStringLiteral(node) ? node.text : "")

/** The table of metrics. */
export const metrics = (): string =>
  Source.table(
    ["metric", "type", "what"],
    Source.all(Source.parse("packages/core/src/Telemetry.ts"), ts.isVariableStatement).flatMap((statement) => {
      const made = statement.declarationList.declarations[0]?.initializer
      if (made === undefined || !ts.isCallExpression(made)) return []
      const type = /^Metric\.(counter|histogram|gauge)$/.exec(made.expression.getText())?.[1]
      return type === undefined ? [] : [[Source.code(textOf(made.arguments[0])), type, Source.comment(statement)]]
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
