/**
 * Completion scripts for bash, zsh and fish, made from the definitions of the commands. Nothing is asked of the cluster:
 * the scripts know commands, options and their words, complete files, and have kubectl, where it is, name the contexts.
 *
 * @module
 */
import type { Argument, Command, Option } from "commander"

/** The shells there is a script for. */
export const shells = ["bash", "zsh", "fish"] as const

/** One of them. */
export type Shell = (typeof shells)[number]

/** What may stand as the value of an option, or as an argument. */
type Kind = "file" | "folder" | "context" | "words" | "other"

interface Value {
  readonly kind: Kind
  readonly name: string
  readonly words: ReadonlyArray<string>
}

interface Flag {
  readonly short: string | undefined
  readonly long: string
  readonly description: string
  readonly value: Value | undefined
}

interface Entry {
  readonly name: string
  readonly description: string
  readonly flags: ReadonlyArray<Flag>
  readonly argument: Value | undefined
  readonly children: ReadonlyArray<Entry>
}

const valueOf = (name: string, choices: ReadonlyArray<string> | undefined): Value => ({
  kind: choices !== undefined ? "words" : name === "file" || name === "folder" || name === "context" ? name : "other",
  name,
  words: choices ?? []
})

const flagOf = (option: Option): ReadonlyArray<Flag> =>
  option.long === undefined || option.long === null
    ? []
    : [
        {
          short: option.short ?? undefined,
          long: option.long,
          description: option.description,
          value:
            option.required || option.optional
              ? valueOf(/[<[](.+)[>\]]/.exec(option.flags)?.[1] ?? "", option.argChoices)
              : undefined
        }
      ]

const help: Flag = { short: "-h", long: "--help", description: "display help for command", value: undefined }

const entryOf = (command: Command, more: ReadonlyArray<Option> = []): Entry => {
  const argument: Argument | undefined = command.registeredArguments[0]
  return {
    name: command.name(),
    description: command.description(),
    flags: [...command.options, ...more].flatMap(flagOf).concat(help),
    argument: argument === undefined ? undefined : valueOf(argument.name(), argument.argChoices),
    children: command.commands.map((child) => entryOf(child))
  }
}

/** Every command with the words that lead to it. */
const walk = (
  entry: Entry,
  path: ReadonlyArray<string> = []
): ReadonlyArray<readonly [ReadonlyArray<string>, Entry]> => [
  [path, entry],
  ...entry.children.flatMap((child) => walk(child, [...path, child.name]))
]

const named = ({ long, short }: Flag): ReadonlyArray<string> => (short === undefined ? [long] : [short, long])

// Of the kubeconfig that was typed, where there is one
const contexts = 'kubectl ${kubeconfig:+"--kubeconfig=$kubeconfig"} config get-contexts -o name 2>/dev/null'
/** Every option that takes a value, whatever its command: what follows it is no command. */
const valued = (all: ReadonlyArray<readonly [ReadonlyArray<string>, Entry]>): ReadonlyArray<string> => [
  ...new Set(all.flatMap(([, { flags }]) => flags.filter(({ value }) => value !== undefined).flatMap(named)))
]
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
const words = ({ children, flags }: Entry): string =>
  [...children.map(({ name }) => name), ...flags.flatMap(named)].join(" ")

const bashReply = ({ kind, words: choices }: Value): string => {
  switch (kind) {
    case "file":
      return `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))`
    case "folder":
      return `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur"))`
    case "context":
      return `COMPREPLY=($(compgen -W "$(${contexts})" -- "$cur"))`
    case "words":
      return `COMPREPLY=($(compgen -W ${quote(choices.join(" "))} -- "$cur"))`
    case "other":
      return "COMPREPLY=()"
  }
}

const bash = (program: Entry): string => {
  const all = walk(program)
  const nested = program.children.filter(({ children }) => children.length > 0)
  const branch = ([path, entry]: (typeof all)[number]): string => {
    const values = entry.flags.flatMap((flag) =>
      flag.value === undefined ? [] : [`        ${named(flag).join("|")}) ${bashReply(flag.value)}; return ;;`]
    )
    const { argument } = entry
    const otherwise =
      argument?.kind === "words" ? [`      [[ $cur == -* ]] || { ${bashReply(argument)}; return; }`] : []
    return [
      `    ${quote(path.join(" "))})`,
      ...(values.length === 0 ? [] : [`      case $prev in`, ...values, `      esac`]),
      ...otherwise,
      `      COMPREPLY=($(compgen -W ${quote(words(entry))} -- "$cur")) ;;`
    ].join("\n")
  }
  return `# bash completion for dispatch-kubeflow

_dispatch_kubeflow() {
  local cur prev command word at kubeconfig= IFS=$' \\t\\n'
  COMPREPLY=()
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD - 1]}
  # --option=value comes as three words
  if [ "$cur" = "=" ]; then cur=; elif [ "$prev" = "=" ]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  command=
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=\${COMP_WORDS[at]}
    case $word in
      ${valued(all).join("|")})
        at=$((at + 1))
        if [ "\${COMP_WORDS[at]}" = "=" ]; then at=$((at + 1)); fi
        if [ "$word" = "--kubeconfig" ] && [ "$at" -lt "$COMP_CWORD" ]; then kubeconfig=\${COMP_WORDS[at]/#\\~/$HOME}; fi ;;
      -*) ;;
      *)
        case $command in
          "") command=$word ;;
          ${nested.map(({ name }) => name).join("|")}) command="$command $word" ;;
        esac ;;
    esac
  done
  case $command in
${all.map(branch).join("\n")}
  esac
}

complete -F _dispatch_kubeflow dispatch-kubeflow
`
}

const zshText = (text: string): string => text.replaceAll(/[:[\]\\]/g, "\\$&")

const zshAction = ({ kind, words: choices }: Value): string => {
  switch (kind) {
    case "file":
      return "_files"
    case "folder":
      return "_files -/"
    case "context":
      return `{_values context \${(f)"$(${contexts})"}}`
    case "words":
      return `(${choices.join(" ")})`
    case "other":
      return " "
  }
}

const zshFlag = ({ description, long, short, value }: Flag): string => {
  const what = `[${zshText(description)}]${value === undefined ? "" : `:${zshText(value.name)}:${zshAction(value)}`}`
  return short === undefined ? quote(`${long}${what}`) : `'(${short} ${long})'{${short},${long}}${quote(what)}`
}

const zsh = (program: Entry): string => {
  const all = walk(program)
  const functionOf = (path: ReadonlyArray<string>): string =>
    ["_dispatch_kubeflow", ...path].join("_").replaceAll("-", "_")
  const define = ([path, entry]: readonly [ReadonlyArray<string>, Entry]): string => {
    const specs = entry.flags.map(zshFlag)
    if (entry.children.length === 0) {
      const { argument } = entry
      const last = argument === undefined ? [] : [quote(`1:${zshText(argument.name)}:${zshAction(argument)}`)]
      return `${functionOf(path)}() {\n  _arguments -S ${[...specs, ...last].map((it) => `\\\n    ${it}`).join(" ")}\n}`
    }
    return `${functionOf(path)}() {
  local -a commands
  commands=(
${entry.children.map(({ description, name }) => `    ${quote(`${name}:${zshText(description)}`)}`).join("\n")}
  )
  local -i at=2
  while (( at < CURRENT )); do
    case $words[at] in
      ${valued(all).join("|")}) (( at += 2 )) ;;
      -*) (( at++ )) ;;
      *) break ;;
    esac
  done
  if (( at >= CURRENT )); then
    if (( at > CURRENT )) || [[ $words[CURRENT] == -* ]]; then
      _arguments ${specs.join(" ")}
    else
      _describe command commands
    fi
    return
  fi
  local name=$words[at]
  words=("\${(@)words[at,-1]}")
  (( CURRENT -= at - 1 ))
  case $name in
${entry.children.map(({ name }) => `    ${name}) ${functionOf([...path, name])} ;;`).join("\n")}
  esac
}`
  }
  return `#compdef dispatch-kubeflow

${all.map(define).join("\n\n")}

_dispatch_kubeflow_complete() {
  local kubeconfig=
  local -i at
  for (( at = 2; at < CURRENT; at++ )); do
    case $words[at] in
      --kubeconfig) kubeconfig=\${words[at + 1]/#\\~/$HOME} ;;
      --kubeconfig=*) kubeconfig=\${\${words[at]#*=}/#\\~/$HOME} ;;
    esac
  done
  _dispatch_kubeflow "$@"
}

# Sourced it registers itself; from a folder of $fpath it is the function
if [ "\${funcstack[1]}" = "_dispatch_kubeflow" ]; then
  _dispatch_kubeflow_complete "$@"
else
  compdef _dispatch_kubeflow_complete dispatch-kubeflow
fi
`
}

const fishQuote = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`

const fishValue = ({ kind, words: choices }: Value): string => {
  switch (kind) {
    case "file":
      return " -r -F"
    case "folder":
      return " -x -a '(__fish_complete_directories)'"
    case "context":
      return " -x -a '(__dispatch_kubeflow_contexts)'"
    case "words":
      return ` -x -a ${fishQuote(choices.join(" "))}`
    case "other":
      return " -x"
  }
}

const fish = (program: Entry): string => {
  const all = walk(program)
  const lines = all.flatMap(([path, entry]) => {
    const at = entry.children.length > 0 ? "__dispatch_kubeflow_at" : "__dispatch_kubeflow_after"
    const rule = `complete -c dispatch-kubeflow -n ${fishQuote([at, ...path].join(" "))}`
    const { argument } = entry
    return [
      ...entry.children.map(({ description, name }) => `${rule} -a ${name} -d ${fishQuote(description)}`),
      ...entry.flags.map(
        ({ description, long, short, value }) =>
          `${rule}${short === undefined ? "" : ` -s ${short.slice(1)}`} -l ${long.slice(2)}${
            value === undefined ? "" : fishValue(value)
          } -d ${fishQuote(description)}`
      ),
      ...(argument?.kind === "words" ? [`${rule} -a ${fishQuote(argument.words.join(" "))}`] : [])
    ]
  })
  return `# fish completion for dispatch-kubeflow

# The words after the program that are neither options nor their values
function __dispatch_kubeflow_words
    set -l given (commandline -opc)
    set -e given[1]
    set -l isValue 0
    for word in $given
        if test $isValue = 1
            set isValue 0
            continue
        end
        switch $word
            case ${valued(all).join(" ")}
                set isValue 1
            case '-*'
            case '*'
                echo $word
        end
    end
end
# Whether they begin with these; and whether they are these
function __dispatch_kubeflow_after
    set -l given (__dispatch_kubeflow_words)
    test (count $given) -ge (count $argv); or return 1
    for i in (seq (count $argv))
        test "$given[$i]" = "$argv[$i]"; or return 1
    end
end
function __dispatch_kubeflow_at
    test (count (__dispatch_kubeflow_words)) -eq (count $argv); and __dispatch_kubeflow_after $argv
end
function __dispatch_kubeflow_contexts
    set -l given (commandline -opc)
    set -l file
    for i in (seq (count $given))
        switch $given[$i]
            case --kubeconfig
                set file $given[(math $i + 1)]
            case '--kubeconfig=*'
                set file (string replace -- '--kubeconfig=' '' $given[$i])
        end
    end
    set file (string replace -r '^~' -- $HOME $file)
    if test -n "$file"
        kubectl --kubeconfig="$file" config get-contexts -o name 2>/dev/null
    else
        kubectl config get-contexts -o name 2>/dev/null
    end
end

complete -c dispatch-kubeflow -f
${lines.join("\n")}
`
}

/** The script for a shell. */
export const script = (shell: Shell, program: Command): string => {
  // What every command takes may stand before it, too
  const [first] = program.commands
  const entry = entryOf(
    program,
    first?.options.filter(({ helpGroupHeading }) => helpGroupHeading !== undefined)
  )
  switch (shell) {
    case "bash":
      return bash(entry)
    case "zsh":
      return zsh(entry)
    case "fish":
      return fish(entry)
  }
}
