/**
 * The commands, their options and examples. `parse` turns arguments into an `Invocation` or into a text to show; the help,
 * the completions and docs/cli.md are made from the same definitions.
 *
 * Runs before anything else is loaded, so it imports neither Effect nor the adapter: `--help` has to be quick.
 *
 * @module
 */
import { type Capability, capabilities } from "@dispatch-kubeflow/core/decide/Support"
import { Argument, Command, CommanderError, Option } from "commander"
import * as Completion from "./Completion.js"
import { ExitCode, exitCodeHelp, failureJson } from "./ExitCode.js"
import type { About, Common, Invocation } from "./Invocation.js"
import { wrap } from "./Terminal.js"
import * as Values from "./Values.js"

/** What came of the arguments: something to ask of the cluster, or a text for a person and the code to exit with. */
export type Parsed =
  | { readonly _tag: "Ask"; readonly invocation: Invocation }
  | { readonly _tag: "Show"; readonly text: string; readonly code: ExitCode }

/** A command line, and what it is good for. */
export type Example = readonly [line: string, what: string]

/** Headings of the help under which options stand. */
export const groups = {
  everywhere: "Options of every command:",
  kueue: "Kueue mode (all four, or none for plain mode):"
} as const

/** Examples by command; the first ones of all are under the empty name. */
export const examples: Readonly<Record<string, ReadonlyArray<Example>>> = {
  "": [
    ["doctor", "is everything here that is needed?"],
    ["capabilities", "what can a dispatcher do on this cluster, and how is that known?"],
    ["output run-1 --follow", "rank 0's log of the TrainJob run-1, as it is written"],
    ["ceased run-1", "is the old execution surely stopped? exit code 0 only then"]
  ],
  preflight: [
    ["preflight", "with the runtime that breaks the fewest rules, in the context's namespace"],
    ["preflight --runtime torch-distributed -n team-a", "with this runtime, elsewhere"],
    ["preflight --read-only --json", "nothing is written; the answer is for machines"]
  ],
  capabilities: [
    ["capabilities --spec trainjob.yaml", "for the TrainJob in this file"],
    ["capabilities --explain Hold", "one of them: what it means, and what would change the answer"]
  ],
  rules: [["rules --policy policy.yaml --preflight", "with Hold and the gate probed first"]],
  "runtime check": [
    ["runtime check torch-distributed", "one ClusterTrainingRuntime"],
    ["runtime check TrainingRuntime/mine -n team-a", "a TrainingRuntime of a namespace"],
    ["runtime check --all", "all of them; exit code 3 when one breaks a rule"]
  ],
  "runtime conform": [
    ["runtime conform torch-distributed | kubectl apply -f -", "creates torch-distributed-strict"],
    ["runtime conform torch-distributed --name ours", "under another name"]
  ],
  output: [
    ["output run-1 --follow", "until the container ends"],
    ["output team-a/run-1 --rank 3 --tail 100", "the last lines of rank 3"],
    ["output run-1 --all-ranks --since 15m", "every rank, by the line"]
  ],
  watch: [
    ["watch", "every TrainJob of the namespace, in a table that is kept up to date"],
    ["watch run-1 --until-over", "exit code 0 only if it succeeds"],
    ["watch --run run --json", "all submissions of a run, for machines"]
  ],
  explain: [
    ["explain run-1", "from what the cluster shows now"],
    ["explain run-1 --evidence ./evidence", "also when it is long gone, if a watch kept evidence there"]
  ],
  ceased: [
    ["ceased run-1 && kubectl apply -f run-2.yaml", "starts the next execution only when the last is surely over"]
  ],
  doctor: [["doctor > report.txt", "to paste where somebody is asked for help; no secrets are in it"]],
  completion: [
    ["completion bash > /etc/bash_completion.d/dispatch-kubeflow", "or, for this shell: source <(… completion bash)"],
    ['completion zsh > "${fpath[1]}/_dispatch-kubeflow"', "from the next zsh on"],
    ["completion fish > ~/.config/fish/completions/dispatch-kubeflow.fish", "from the next fish on"]
  ]
}

/** When a command exits with 3; the others never do. */
export const refusals: Readonly<Record<string, string>> = {
  preflight: "a needed check did not pass, or the backend can only observe",
  "runtime check": "a runtime breaks a rule",
  "runtime conform": "the copy still breaks a rule",
  watch: "with --until-over, and the run did not succeed",
  ceased: "it has not surely ceased",
  doctor: "a needed check did not pass, or the backend can only observe"
}

/** What 0 says of a command whose 3 says the contrary. */
export const consents: Readonly<Record<string, string>> = {
  preflight: "every needed check passed",
  "runtime check": "no rule is broken",
  "runtime conform": "the copy breaks no rule",
  watch: "done, and with --until-over the run succeeded",
  ceased: "it has surely ceased",
  doctor: "every needed check passed"
}

/** The name of a command without the program's: `runtime check`. */
export const nameOf = (command: Command): string =>
  command.parent === null ? "" : `${nameOf(command.parent)} ${command.name()}`.trim()

/** The commands that do something, in the order of the help. */
export const leaves = (command: Command): ReadonlyArray<Command> =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leaves)

interface RawCommon {
  readonly kubeconfig?: string
  readonly context?: string
  readonly namespace?: string
  readonly json?: boolean
  readonly readOnly?: boolean
  readonly acceptInPlaceRestarts?: boolean
  readonly evidence?: string
  readonly verbose?: boolean
  readonly queue?: string
  readonly admissionCheck?: string
  readonly checkController?: string
  readonly checkLease?: { readonly namespace: string; readonly name: string }
}

interface RawAbout {
  readonly runtime?: Values.RuntimeName
  readonly spec?: string
}

interface RawUid {
  readonly uid?: string
}

const common = (raw: RawCommon, fail: (message: string) => never): Common => {
  const { queue, admissionCheck, checkController, checkLease } = raw
  const given = [queue, admissionCheck, checkController, checkLease].filter((it) => it !== undefined).length
  let kueue: Common["kueue"]
  if (given > 0) {
    if (
      queue === undefined ||
      admissionCheck === undefined ||
      checkController === undefined ||
      checkLease === undefined
    ) {
      return fail("Kueue mode needs all of --queue, --admission-check, --check-controller and --check-lease.")
    }
    kueue = { localQueue: queue, admissionCheck, controllerName: checkController, lease: checkLease }
  }
  return {
    kubeconfig: raw.kubeconfig,
    context: raw.context,
    namespace: raw.namespace,
    json: raw.json ?? false,
    readOnly: raw.readOnly ?? false,
    acceptInPlaceRestarts: raw.acceptInPlaceRestarts ?? false,
    evidence: raw.evidence,
    verbose: raw.verbose ?? false,
    kueue
  }
}

/** Has the value of an option, where nothing else reads it, not be empty. */
const filled = (option: Option): Option =>
  option.required && option.parseArg === undefined ? option.argParser(Values.parseText) : option

const everywhere = (): ReadonlyArray<Option> => [
  ...[
    new Option(
      "--kubeconfig <file>",
      "kubeconfig to read; default the files of KUBECONFIG, ~/.kube/config, in-cluster"
    ),
    new Option("--context <context>", "context of the kubeconfig; default its current one"),
    new Option("-n, --namespace <name>", "namespace; default that of the context, else default").argParser(
      Values.parseName
    ),
    new Option("--json", "answer for machines: one JSON document, or one per line where answers keep coming"),
    new Option("--read-only", "configure the backend as read-only: nothing is written, nothing that writes is probed"),
    new Option(
      "--accept-in-place-restarts",
      "accept runtimes that restart containers in place (rules 3 and 4 become warnings)"
    ),
    new Option("--evidence <folder>", "keep evidence there, so that it outlives this process and the pods"),
    new Option("--verbose", "tell every request to the cluster on standard error, without secrets")
  ].map((option) => filled(option).helpGroup(groups.everywhere)),
  ...[
    new Option("--queue <name>", "the LocalQueue"),
    new Option("--admission-check <name>", "the AdmissionCheck"),
    new Option("--check-controller <name>", "the check's spec.controllerName"),
    new Option("--check-lease <namespace/name>", "the Lease that the check's controller renews").argParser(
      Values.parseLease
    )
  ].map((option) => filled(option).helpGroup(groups.kueue))
]

const trainJob = (flags: string, description = "NAME or NAMESPACE/NAME"): Argument =>
  new Argument(flags, description).argParser(Values.parseJob)
const uidOption = (): Option => filled(new Option("--uid <uid>", "only the TrainJob with this uid"))
const preflightOption = (): Option =>
  new Option("--preflight", "run the preflight first, so that Hold and the gate are probed")

const examplesText = (name: string): string => {
  const own = (examples[name] ?? []).map(([line, what]) => [`dispatch-kubeflow ${line}`, what] as const)
  const lines = own.map(([line, what]) => `  # ${what}\n  ${line}`)
  return own.length === 0 ? "" : `\nExamples:\n${lines.join("\n")}`
}

const widthFor = (command: Command): number => command.configureOutput().getOutHelpWidth?.() ?? 80

const refusalText = (name: string, width: number): string => {
  const when = refusals[name]
  const text = `Exit code 0: ${consents[name] ?? "done"}${when === undefined ? "" : `; ${ExitCode.no}: ${when}`}. dispatch-kubeflow --help has the others.`
  return `\n${wrap(text, width).join("\n")}`
}

const exitCodesText = (width: number): string =>
  exitCodeHelp
    .map(([code, meaning]) => `  ${String(code).padStart(3)}  ${wrap(meaning, width - 7).join("\n       ")}`)
    .join("\n")

/** Defines the commands. `ask` gets what is to be performed, `show` a text that is the whole answer. */
export const define = (
  version: string,
  ask: (invocation: Invocation) => void,
  show: (text: string) => void
): Command => {
  const fail = (message: string): never => program.error(`error: ${message}`, { exitCode: ExitCode.usage })
  const program = new Command("dispatch-kubeflow")
    .description(
      "What a dispatcher can do with Kubeflow TrainJobs on a cluster, what happened to them, and whether they are surely stopped."
    )
    .version(version, "--version", "print the version")
    .helpCommand(false)
    .showSuggestionAfterError(true)

  const add = (usage: string, description: string, group: string, parent: Command = program): Command =>
    parent.command(usage).description(description).helpGroup(group)
  const cluster = "What a cluster allows:"
  const jobs = "What becomes of a TrainJob:"

  const withAbout = (command: Command): Command =>
    command
      .addOption(
        new Option(
          "--runtime <runtime>",
          "for TrainJobs of this runtime; default the one that breaks the fewest rules"
        ).argParser(Values.parseRuntime)
      )
      .addOption(
        filled(
          new Option(
            "--spec <file>",
            "for the TrainJob of this manifest, YAML or JSON, in its namespace; - for standard input"
          )
        )
      )
  const aboutOf = ({ runtime, spec }: RawAbout): About | undefined => {
    if (runtime !== undefined && spec !== undefined) fail("Give --runtime or --spec, not both.")
    return runtime !== undefined ? { runtime } : spec !== undefined ? { file: spec } : undefined
  }

  withAbout(
    add("preflight", "what this cluster, namespace and these credentials allow: asked, tried, cleaned up", cluster)
  )
    .addOption(
      new Option("--hold-probe <how>", "real: let the probe start a pod for a moment, and stop it")
        .choices(["dry-run", "real"])
        .default("dry-run")
    )
    .action((options: RawCommon & RawAbout & { readonly holdProbe: "dry-run" | "real" }) =>
      ask({
        command: "preflight",
        common: common(options, fail),
        about: aboutOf(options),
        holdProbe: options.holdProbe
      })
    )

  withAbout(add("capabilities", "the fourteen capabilities of this backend: answer, source, reason", cluster))
    .addOption(
      new Option("--explain <capability>", "one capability: its answer here, what it means, and what changes it")
        .choices(capabilities)
        .argParser(Values.parseCapability)
    )
    .addOption(preflightOption())
    .action((options: RawCommon & RawAbout & { readonly explain?: Capability; readonly preflight?: boolean }) =>
      ask({
        command: "capabilities",
        common: common(options, fail),
        about: aboutOf(options),
        explain: options.explain,
        preflight: options.preflight ?? false
      })
    )

  add("rules", "what each rule of a recovery policy can expect here", cluster)
    .requiredOption(
      "--policy <file>",
      "the policy, YAML or JSON: a list of rules with cause and action; - for standard input",
      Values.parseText
    )
    .addOption(preflightOption())
    .action((options: RawCommon & { readonly policy: string; readonly preflight?: boolean }) =>
      ask({
        command: "rules",
        common: common(options, fail),
        policy: options.policy,
        preflight: options.preflight ?? false
      })
    )

  const runtime = add("runtime", "training runtimes and the rules they must not break: check, conform", cluster)
  runtime
    .helpCommand(false)
    .allowExcessArguments()
    .action(() => {
      const [unknown] = runtime.args
      if (unknown !== undefined)
        fail(`unknown command 'runtime ${unknown}'; there are runtime check and runtime conform`)
      runtime.outputHelp({ error: true })
      throw new CommanderError(ExitCode.usage, "dispatch-kubeflow.runtime", "runtime needs a command")
    })

  add("check", "every rule of a runtime, passed or broken, with the value to set", "Commands:", runtime)
    .argument("[runtime]", "NAME or KIND/NAME", Values.parseRuntime)
    .option("--all", "every runtime of the cluster and of the namespace")
    .action((name: Values.RuntimeName | undefined, options: RawCommon & { readonly all?: boolean }) => {
      if ((name === undefined) === (options.all !== true)) fail("Give a runtime or --all.")
      ask({ command: "runtime check", common: common(options, fail), runtime: name })
    })

  add("conform", "a copy of a runtime that breaks no rule, as YAML for kubectl apply", "Commands:", runtime)
    .argument("<runtime>", "NAME or KIND/NAME", Values.parseRuntime)
    .addOption(new Option("--name <name>", "name of the copy; default NAME-strict").argParser(Values.parseName))
    .action((name: Values.RuntimeName, options: RawCommon & { readonly name?: string }) =>
      ask({ command: "runtime conform", common: common(options, fail), runtime: name, name: options.name })
    )

  add("output", "rank 0's output, another rank's, or every rank's by the line", jobs)
    .addArgument(trainJob("<trainjob>"))
    .option("-f, --follow", "go on until the container ends, whatever breaks in between")
    .addOption(new Option("--tail <lines>", "start at the last so many lines").argParser(Values.parseCount))
    .addOption(
      new Option(
        "--since <when>",
        "start at a time (2026-01-02T03:04:05Z), or so long ago (90s, 15m, 4h, 1d)"
      ).argParser(Values.parseSince)
    )
    .option("--timestamps", "begin each line with its time")
    .addOption(
      new Option("--rank <rank>", "another rank than 0: a completion index of the trainer's Job").argParser(
        Values.parseCount
      )
    )
    .option("--all-ranks", "every rank by the line, each line with its rank before it")
    .option("--stderr", "the error stream alone; exit code 4, since Kubernetes does not keep it apart")
    .addOption(uidOption())
    .action(
      (
        job: Values.JobName,
        options: RawCommon &
          RawUid & {
            readonly follow?: boolean
            readonly tail?: number
            readonly since?: Values.Since
            readonly timestamps?: boolean
            readonly rank?: number
            readonly allRanks?: boolean
            readonly stderr?: boolean
          }
      ) => {
        if (options.allRanks === true && options.rank !== undefined) fail("Give --rank or --all-ranks, not both.")
        ask({
          command: "output",
          common: common(options, fail),
          job: { ...job, uid: options.uid },
          follow: options.follow ?? false,
          tail: options.tail,
          since: options.since,
          timestamps: options.timestamps ?? false,
          ranks: options.allRanks === true ? "all" : (options.rank ?? 0),
          stream: options.stderr === true ? "Stderr" : "Stdout"
        })
      }
    )

  add("watch", "what happens to TrainJobs, with cause and evidence", jobs)
    .addArgument(trainJob("[trainjob]", "NAME or NAMESPACE/NAME; default all of the namespace"))
    .option("--run <name>", "all submissions of a run: NAME-1, NAME-2, ...", Values.parseName)
    .option("--lines", "one update after another on a terminal, too")
    .option("--once", "tell the present state and end")
    .option("--until-over", "end when the TrainJob is over; exit code 0 only if it succeeded")
    .addOption(uidOption())
    .action(
      (
        job: Values.JobName | undefined,
        options: RawCommon &
          RawUid & {
            readonly run?: string
            readonly once?: boolean
            readonly lines?: boolean
            readonly untilOver?: boolean
          }
      ) => {
        if (job !== undefined && options.run !== undefined) fail("Give a TrainJob or --run, not both.")
        if (job === undefined && options.untilOver === true) fail("--until-over needs a TrainJob.")
        ask({
          command: "watch",
          common: common(options, fail),
          job: job === undefined ? undefined : { ...job, uid: options.uid },
          run: options.run,
          once: options.once ?? false,
          lines: options.lines ?? false,
          untilOver: options.untilOver ?? false
        })
      }
    )

  add("explain", "the story of a TrainJob: executions, pods, timeline, cause, what is not known", jobs)
    .addArgument(trainJob("<trainjob>"))
    .addOption(uidOption())
    .action((job: Values.JobName, options: RawCommon & RawUid) =>
      ask({ command: "explain", common: common(options, fail), job: { ...job, uid: options.uid } })
    )

  add("ceased", "whether a TrainJob's last execution is surely over: each Node's state, each pod's proof", jobs)
    .addArgument(trainJob("<trainjob>"))
    .addOption(uidOption())
    .action((job: Values.JobName, options: RawCommon & RawUid) =>
      ask({ command: "ceased", common: common(options, fail), job: { ...job, uid: options.uid } })
    )

  withAbout(
    add("doctor", "one report of versions, permissions, preflight and capabilities, fit to be pasted", cluster)
  ).action((options: RawCommon & RawAbout) =>
    ask({ command: "doctor", common: common(options, fail), about: aboutOf(options) })
  )

  const asking = leaves(program)

  add("completion", "a script that completes commands and options", "For this shell:")
    .addArgument(new Argument("<shell>").choices(Completion.shells))
    .action((shell: Completion.Shell) => show(Completion.script(shell, program)))

  // Last, so that a command's own options stand first in its help
  for (const command of asking) for (const option of everywhere()) command.addOption(option)
  for (const command of leaves(program)) {
    const name = nameOf(command)
    command.addHelpText("after", () => `${examplesText(name)}\n${refusalText(name, widthFor(command))}`)
  }
  const more =
    "The cluster is the one that kubectl would talk to, or that of --kubeconfig and --context. COMMAND --help has these and all its other options, with examples."
  return program.addHelpText("after", () => {
    const width = widthFor(program)
    return `${examplesText("")}\n\nExit codes:\n${exitCodesText(width)}\n\n${wrap(more, width).join("\n")}`
  })
}

/** The options of every command behind the command, where kubectl's users may have put them before it. */
const hoisted = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Map(everywhere().flatMap((option) => [option.short, option.long].map((flag) => [flag, option])))
  let at = 0
  for (;;) {
    const [flag = "", ...value] = (args[at] ?? "").split("=")
    const option = known.get(flag)
    if (option === undefined) break
    at += option.required && value.length === 0 ? 2 : 1
  }
  // Without a command the help is the answer
  return at >= args.length ? [] : [...args.slice(at), ...args.slice(0, at)]
}

/** `help COMMAND` as `COMMAND --help`; of a command that there is not, what says so. */
const helped = (args: ReadonlyArray<string>, program: Command): ReadonlyArray<string> => {
  if (args[0] !== "help") return args
  const words = args.slice(1).filter((word) => !word.startsWith("-"))
  let command: Command | undefined = program
  for (const word of words) command = command?.commands.find((it) => it.name() === word)
  return command === undefined ? words : [...words, "--help"]
}

const wantsJson = (args: ReadonlyArray<string>): boolean => {
  const end = args.indexOf("--")
  return (end < 0 ? args : args.slice(0, end)).includes("--json")
}

/** A wrong command line as `Run` tells other failures. */
const failureText = (text: string, args: ReadonlyArray<string>): string => {
  if (!wantsJson(args)) return text
  // Where a command is missing, people get the help
  const message = text.startsWith("error: ")
    ? text.slice("error: ".length).trim()
    : "no command is given; --help names them"
  return failureJson("UsageError", message)
}

/** Reads the arguments after the program's name; `columns` is how wide a help may be. */
export const parse = (args: ReadonlyArray<string>, version: string, columns = 80): Parsed => {
  let invocation: Invocation | undefined
  let out = ""
  let err = ""
  const program = define(
    version,
    (asked) => {
      invocation = asked
    },
    (text) => {
      out += text
    }
  )
  const configure = (command: Command): void => {
    command
      .configureOutput({
        writeOut: (text) => {
          out += text
        },
        writeErr: (text) => {
          err += text
        },
        getOutHelpWidth: () => columns,
        getErrHelpWidth: () => columns,
        // parse() cannot know where its text goes; the caller colours
        getOutHasColors: () => false,
        getErrHasColors: () => false
      })
      .exitOverride()
    for (const child of command.commands) configure(child)
  }
  configure(program)
  try {
    program.parse(helped(hoisted(args), program), { from: "user" })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0
      ? { _tag: "Show", text: out, code: ExitCode.ok }
      : { _tag: "Show", text: failureText(err === "" ? out : err, args), code: ExitCode.usage }
  }
  if (invocation !== undefined) return { _tag: "Ask", invocation }
  return out === ""
    ? { _tag: "Show", text: failureText(program.helpInformation(), args), code: ExitCode.usage }
    : { _tag: "Show", text: out, code: ExitCode.ok }
}
