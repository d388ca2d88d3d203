/**
 * The generated parts of docs/cli.md, from the definitions of the commands.
 *
 * @module
 */
import type { Command, Option } from "commander"
import * as CommandLine from "./CommandLine.js"
import { exitCodeHelp } from "./ExitCode.js"

const table = (header: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [header, header.map(() => "---"), ...rows]
    .map((cells, index) => (index === 1 ? `|${cells.join("|")}|` : `| ${cells.join(" | ")} |`))
    .join("\n")
    .replaceAll("|  |", "| |")

// Names of options, variables and fields in a sentence are code
const prose = (text: string): string =>
  text
    .replaceAll(/(?<![\w`])(--[a-z-]+|KUBECONFIG|~\/\.kube\/config|NAME(?:[-/]\w+)*|KIND\/NAME|spec\.\w+)/g, "`$1`")
    .replaceAll("|", "\\|")

const flagsOf = (option: Option): string => {
  const value = /[<[](.+)[>\]]/.exec(option.flags)?.[1]
  const shown =
    option.argChoices !== undefined && option.argChoices.length < 4 ? option.argChoices.join("|") : undefined
  const long = `${option.long ?? ""}${value === undefined ? "" : ` ${shown ?? value.toUpperCase()}`}`
  return [option.short, long]
    .filter((it) => it !== undefined && it !== null)
    .map((it) => `\`${it.replaceAll("|", "\\|")}\``)
    .join(", ")
}

const meaningOf = (option: Option): string =>
  `${prose(option.description)}${option.defaultValue === undefined ? "" : `; default \`${String(option.defaultValue)}\``}`

const optionTable = (options: ReadonlyArray<Option>): string =>
  table(
    ["option", "meaning"],
    options.map((option) => [flagsOf(option), meaningOf(option)])
  )

const isEverywhere = ({ helpGroupHeading }: Option): boolean => helpGroupHeading !== undefined

const usageOf = (command: Command): string => {
  const argument = command.registeredArguments[0]
  const name = argument?.argChoices?.join("|") ?? argument?.name().toUpperCase()
  const shown = argument === undefined ? "" : argument.required ? ` ${name}` : ` [${name}]`
  return `dispatch-kubeflow ${CommandLine.nameOf(command)}${shown}${command.options.length > 0 ? " [OPTIONS]" : ""}`
}

const section = (command: Command): string => {
  const own = command.options.filter((option) => !isEverywhere(option))
  const examples = CommandLine.examples[CommandLine.nameOf(command)] ?? []
  return [
    `\`${usageOf(command)}\``,
    ...(own.length === 0 ? [] : [optionTable(own)]),
    `\`\`\`sh\n${examples.map(([line, what]) => `# ${what}\ndispatch-kubeflow ${line}`).join("\n")}\n\`\`\``
  ].join("\n\n")
}

/** The parts by name: `commands`, `exit-codes`, `options`, and one for each command under its own name. */
export const parts = (): ReadonlyArray<readonly [part: string, text: string]> => {
  const program = CommandLine.define(
    "",
    () => undefined,
    () => undefined
  )
  const commands = CommandLine.leaves(program)
  const [first] = commands
  const everywhere = (first?.options ?? []).filter(isEverywhere)
  const kueue = everywhere.filter(({ helpGroupHeading }) => helpGroupHeading === CommandLine.groups.kueue)
  const common = everywhere.filter(({ helpGroupHeading }) => helpGroupHeading === CommandLine.groups.everywhere)
  return [
    [
      "commands",
      table(
        ["command", "answers", "exit 3 when"],
        commands.map((command) => {
          const name = CommandLine.nameOf(command)
          return [
            `[\`${name}\`](#${name.replaceAll(" ", "-")})`,
            prose(command.description()),
            prose(CommandLine.refusals[name] ?? "")
          ]
        })
      )
    ],
    [
      "exit-codes",
      table(
        ["code", "meaning"],
        exitCodeHelp.map(([code, meaning]) => [String(code), meaning])
      )
    ],
    ["options", `${optionTable(common)}\n\nKueue mode, all four or none for plain mode:\n\n${optionTable(kueue)}`],
    ...commands.map((command) => [CommandLine.nameOf(command), section(command)] as const)
  ]
}
