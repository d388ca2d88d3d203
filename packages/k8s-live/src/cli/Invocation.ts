/**
 * The command line as a value: `parse` turns arguments into an `Invocation` or into a text to show. Nothing here acts.
 *
 * @module
 */
import * as Support from "@dispatch-kubeflow/core/decide/Support"
import type { TrainJobRef } from "@dispatch-kubeflow/core/TrainJobRef"
import { Command, CommanderError, InvalidArgumentError, Option as CommanderOption } from "commander"
import { Either } from "effect"
import { ExitCode, exitCodeHelp } from "./ExitCode.js"

/** Where the cluster is, and how to answer. */
export interface Common {
  readonly kubeconfig: string | undefined
  readonly context: string | undefined
  /** Default: the namespace of the kubeconfig's context, else `default`. */
  readonly namespace: string | undefined
  readonly json: boolean
  readonly readOnly: boolean
  readonly acceptInPlaceRestarts: boolean
  /** Folder in which evidence is kept between invocations; in memory when left out. */
  readonly evidence: string | undefined
  readonly kueue:
    | {
        readonly localQueue: string
        readonly admissionCheck: string
        readonly controllerName: string
        readonly lease: { readonly namespace: string; readonly name: string }
      }
    | undefined
}

/** A runtime, as `NAME` (ClusterTrainingRuntime) or `Kind/NAME`. */
export interface RuntimeName {
  readonly kind: "ClusterTrainingRuntime" | "TrainingRuntime"
  readonly name: string
}

/** What an answer is about: TrainJobs of a runtime, or the TrainJob in a file (`-` for standard input). */
export type About = { readonly runtime: RuntimeName } | { readonly file: string }

/** A TrainJob, as `NAME` or `NAMESPACE/NAME`. */
export interface JobName {
  readonly namespace: string | undefined
  readonly name: string
  readonly uid: string | undefined
}

/** What the user asked for. */
export type Invocation = { readonly common: Common } & (
  | {
      readonly command: "preflight"
      readonly about: About | undefined
      readonly holdProbe: "dry-run" | "real"
    }
  | {
      readonly command: "capabilities"
      readonly about: About | undefined
      readonly explain: Support.Capability | undefined
      readonly preflight: boolean
    }
  | { readonly command: "rules"; readonly policy: string; readonly preflight: boolean }
  /** Without a runtime: all of them. */
  | { readonly command: "runtime check"; readonly runtime: RuntimeName | undefined }
  | { readonly command: "runtime conform"; readonly runtime: RuntimeName; readonly name: string | undefined }
  | {
      readonly command: "output"
      readonly job: JobName
      readonly follow: boolean
      readonly tail: number | undefined
      /** RFC 3339, or milliseconds before now. */
      readonly since: { readonly ago: number } | { readonly time: string } | undefined
      readonly timestamps: boolean
      readonly ranks: number | "all"
      readonly stream: "Stdout" | "Stderr"
    }
  | {
      readonly command: "watch"
      readonly job: JobName | undefined
      readonly run: string | undefined
      readonly once: boolean
      /** One update after another on a terminal, too. */
      readonly lines: boolean
      readonly untilOver: boolean
    }
  | { readonly command: "doctor"; readonly about: About | undefined }
  | { readonly command: "explain"; readonly job: JobName }
  | { readonly command: "ceased"; readonly job: JobName }
)

/** The reference of a TrainJob whose namespace, where not given, is the invocation's. */
export const refOf = (job: JobName, namespace: string): TrainJobRef => ({
  namespace: job.namespace ?? namespace,
  name: job.name,
  uid: job.uid
})

/** Nothing to run: a text for a person, and the code to exit with. */
export interface Shown {
  readonly text: string
  readonly code: ExitCode
}

const kubernetesName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/
// The webhook of TrainJobs takes no longer ones, and longer ones are no label values to select by
const longestJobName = 63

const parseJob = (text: string): JobName => {
  const [first, second, ...rest] = text.split("/")
  const namespace = second === undefined ? undefined : first
  const name = second ?? first ?? ""
  if (rest.length > 0 || !kubernetesName.test(name) || (namespace !== undefined && !kubernetesName.test(namespace))) {
    throw new InvalidArgumentError("Give a TrainJob as NAME or NAMESPACE/NAME.")
  }
  if (name.length > longestJobName) {
    throw new InvalidArgumentError(`A TrainJob's name has at most ${longestJobName} characters.`)
  }
  return { namespace, name, uid: undefined }
}

const parseRuntime = (text: string): RuntimeName => {
  const [first, second, ...rest] = text.split("/")
  const kind = second === undefined ? "ClusterTrainingRuntime" : first
  const name = second ?? first ?? ""
  if (
    rest.length > 0 ||
    !kubernetesName.test(name) ||
    (kind !== "ClusterTrainingRuntime" && kind !== "TrainingRuntime")
  ) {
    throw new InvalidArgumentError("Give a runtime as NAME, ClusterTrainingRuntime/NAME or TrainingRuntime/NAME.")
  }
  return { kind, name }
}

const parseCapability = (text: string): Support.Capability => {
  const found = Support.capabilities.find((name) => name.toLowerCase() === text.toLowerCase())
  if (found === undefined) throw new InvalidArgumentError(`The capabilities are ${Support.capabilities.join(", ")}.`)
  return found
}

const parseName = (text: string): string => {
  if (!kubernetesName.test(text)) throw new InvalidArgumentError("Give a name that Kubernetes accepts.")
  return text
}

const parseCount = (text: string): number => {
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError("Give a whole number, 0 or more.")
  }
  return value
}

/** A hundred years, in milliseconds. */
const longestAgo = 36_500 * 86_400_000

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

const parseSince = (text: string): { readonly ago: number } | { readonly time: string } => {
  const duration = /^(\d+)([smhd])$/.exec(text)
  if (duration?.[1] !== undefined && duration[2] !== undefined) {
    const ago = Number(duration[1]) * (units[duration[2]] ?? 0)
    if (ago > longestAgo) throw new InvalidArgumentError("Give a duration of at most 36500d.")
    return { ago }
  }
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text)) return { time: text }
  throw new InvalidArgumentError("Give a duration such as 90s, 15m, 4h, or a time such as 2026-01-02T03:04:05Z.")
}

const parseLease = (text: string): { readonly namespace: string; readonly name: string } => {
  const [namespace, name, ...rest] = text.split("/")
  if (namespace === undefined || name === undefined || rest.length > 0) {
    throw new InvalidArgumentError("Give the Lease as NAMESPACE/NAME.")
  }
  return { namespace, name }
}

interface RawCommon {
  readonly kubeconfig?: string
  readonly context?: string
  readonly namespace?: string
  readonly json?: boolean
  readonly readOnly?: boolean
  readonly acceptInPlaceRestarts?: boolean
  readonly evidence?: string
  readonly queue?: string
  readonly admissionCheck?: string
  readonly checkController?: string
  readonly checkLease?: { readonly namespace: string; readonly name: string }
}

interface RawAbout {
  readonly runtime?: RuntimeName
  readonly spec?: string
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
    kueue
  }
}

const withCommon = (command: Command): Command =>
  command
    .addOption(
      new CommanderOption("--kubeconfig <file>", "kubeconfig to read; default KUBECONFIG, ~/.kube/config, in-cluster")
    )
    .addOption(new CommanderOption("--context <name>", "context of the kubeconfig"))
    .addOption(new CommanderOption("-n, --namespace <name>", "namespace; default that of the context"))
    .addOption(new CommanderOption("--json", "answer for machines, one JSON document (or line) per answer"))
    .addOption(new CommanderOption("--read-only", "configure the backend as read-only"))
    .addOption(new CommanderOption("--accept-in-place-restarts", "accept runtimes that restart containers in place"))
    .addOption(
      new CommanderOption("--evidence <folder>", "keep evidence there, so that it outlives this process and the pods")
    )
    .addOption(new CommanderOption("--queue <name>", "Kueue mode: the LocalQueue"))
    .addOption(new CommanderOption("--admission-check <name>", "Kueue mode: the AdmissionCheck"))
    .addOption(new CommanderOption("--check-controller <name>", "Kueue mode: the check's spec.controllerName"))
    .addOption(
      new CommanderOption("--check-lease <namespace/name>", "Kueue mode: the Lease its controller renews").argParser(
        parseLease
      )
    )

/** Reads the arguments after the program's name. Left is a text to show, with its exit code. */
export const parse = (args: ReadonlyArray<string>, version: string): Either.Either<Invocation, Shown> => {
  let invocation: Invocation | undefined
  let out = ""
  let err = ""
  const fail = (message: string): never => program.error(`error: ${message}`, { exitCode: ExitCode.usage })

  const program = new Command("dispatch-kubeflow")
    .description(
      "What a dispatcher can do with Kubeflow TrainJobs on a cluster, what happened to them, and whether they are surely stopped."
    )
    .version(version, "--version", "print the version")
    .helpCommand(false)
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: (text) => {
        out += text
      },
      writeErr: (text) => {
        err += text
      },
      // parse() cannot know where its text goes; the caller colours
      getOutHasColors: () => false,
      getErrHasColors: () => false
    })
    .exitOverride()
    .addHelpText(
      "after",
      `\nExit codes:\n${exitCodeHelp.map(([code, meaning]) => `  ${String(code).padStart(3)}  ${meaning}`).join("\n")}`
    )

  const under = (parent: Command, usage: string, description: string): Command =>
    withCommon(parent.command(usage).description(description)).configureHelp({ sortOptions: false })
  const add = (usage: string, description: string): Command => under(program, usage, description)

  const withAbout = (command: Command): Command =>
    command
      .addOption(new CommanderOption("--runtime <name>", "for TrainJobs of this runtime").argParser(parseRuntime))
      .addOption(
        new CommanderOption("--spec <file>", "for the TrainJob of this manifest, YAML or JSON; - for standard input")
      )
  const aboutOf = ({ runtime, spec }: RawAbout): About | undefined => {
    if (runtime !== undefined && spec !== undefined) fail("Give --runtime or --spec, not both.")
    return runtime !== undefined ? { runtime } : spec !== undefined ? { file: spec } : undefined
  }
  const preflightOption = (): CommanderOption =>
    new CommanderOption("--preflight", "run the preflight first, so that Hold and the gate are probed")

  withAbout(add("preflight", "ask and try what this cluster allows; leaves nothing behind"))
    .addOption(
      new CommanderOption("--hold-probe <how>", "real: let the probe start a pod for a moment, too")
        .choices(["dry-run", "real"])
        .default("dry-run")
    )
    .action((options: RawCommon & RawAbout & { readonly holdProbe: "dry-run" | "real" }) => {
      invocation = {
        command: "preflight",
        common: common(options, fail),
        about: aboutOf(options),
        holdProbe: options.holdProbe
      }
    })

  withAbout(add("capabilities", "the fourteen capabilities of this backend: answer, source, reason"))
    .addOption(
      new CommanderOption("--explain <capability>", "one capability, what it means and what changes it").argParser(
        parseCapability
      )
    )
    .addOption(preflightOption())
    .action(
      (options: RawCommon & RawAbout & { readonly explain?: Support.Capability; readonly preflight?: boolean }) => {
        invocation = {
          command: "capabilities",
          common: common(options, fail),
          about: aboutOf(options),
          explain: options.explain,
          preflight: options.preflight ?? false
        }
      }
    )

  add("rules", "what each rule of a recovery policy can expect here")
    .requiredOption("--policy <file>", "recovery policy, YAML or JSON; - for standard input")
    .addOption(preflightOption())
    .action((options: RawCommon & { readonly policy: string; readonly preflight?: boolean }) => {
      invocation = {
        command: "rules",
        common: common(options, fail),
        policy: options.policy,
        preflight: options.preflight ?? false
      }
    })

  const runtime = program.command("runtime").description("training runtimes and the rules they must not break")
  runtime.helpCommand(false).action(() => {
    runtime.outputHelp({ error: true })
    throw new CommanderError(ExitCode.usage, "dispatch-kubeflow.runtime", "runtime needs a command")
  })

  under(runtime, "check", "every rule of a runtime, passed or broken, with the value to set")
    .argument("[runtime]", "NAME or KIND/NAME", parseRuntime)
    .option("--all", "every runtime of the cluster and of the namespace")
    .action((name: RuntimeName | undefined, options: RawCommon & { readonly all?: boolean }) => {
      if ((name === undefined) === (options.all !== true)) fail("Give a runtime or --all.")
      invocation = { command: "runtime check", common: common(options, fail), runtime: name }
    })

  under(runtime, "conform", "a copy of a runtime that breaks no rule, as YAML for kubectl apply")
    .argument("<runtime>", "NAME or KIND/NAME", parseRuntime)
    .addOption(new CommanderOption("--name <name>", "name of the copy; default NAME-strict").argParser(parseName))
    .action((name: RuntimeName, options: RawCommon & { readonly name?: string }) => {
      invocation = { command: "runtime conform", common: common(options, fail), runtime: name, name: options.name }
    })

  add("output", "rank 0's output of a TrainJob")
    .argument("<trainjob>", "NAME or NAMESPACE/NAME", parseJob)
    .option("-f, --follow", "go on until the container ends, whatever breaks in between")
    .addOption(new CommanderOption("--tail <lines>", "start at the last so many lines").argParser(parseCount))
    .addOption(new CommanderOption("--since <when>", "start at a time, or so long ago").argParser(parseSince))
    .option("--timestamps", "begin each line with its time")
    .addOption(new CommanderOption("--rank <rank>", "another rank than 0").argParser(parseCount))
    .option("--all-ranks", "every rank by the line, each line with its rank before it")
    .option("--stderr", "the error stream alone (Kubernetes does not keep it apart)")
    .option("--uid <uid>", "only the TrainJob with this uid")
    .action(
      (
        job: JobName,
        options: RawCommon & {
          readonly follow?: boolean
          readonly tail?: number
          readonly since?: { readonly ago: number } | { readonly time: string }
          readonly timestamps?: boolean
          readonly rank?: number
          readonly allRanks?: boolean
          readonly stderr?: boolean
          readonly uid?: string
        }
      ) => {
        if (options.allRanks === true && options.rank !== undefined) fail("Give --rank or --all-ranks, not both.")
        invocation = {
          command: "output",
          common: common(options, fail),
          job: { ...job, uid: options.uid },
          follow: options.follow ?? false,
          tail: options.tail,
          since: options.since,
          timestamps: options.timestamps ?? false,
          ranks: options.allRanks === true ? "all" : (options.rank ?? 0),
          stream: options.stderr === true ? "Stderr" : "Stdout"
        }
      }
    )

  add("watch", "what happens to TrainJobs, with cause and evidence")
    .argument("[trainjob]", "NAME or NAMESPACE/NAME; default all of the namespace", parseJob)
    .option("--run <name>", "all submissions of a run: NAME-1, NAME-2, ...")
    .option("--lines", "one update after another on a terminal, too")
    .option("--once", "tell the present state and end")
    .option("--until-over", "end when the TrainJob is over; exit 0 only if it succeeded")
    .option("--uid <uid>", "only the TrainJob with this uid")
    .action(
      (
        job: JobName | undefined,
        options: RawCommon & {
          readonly run?: string
          readonly once?: boolean
          readonly lines?: boolean
          readonly untilOver?: boolean
          readonly uid?: string
        }
      ) => {
        if (job !== undefined && options.run !== undefined) fail("Give a TrainJob or --run, not both.")
        if (job === undefined && options.untilOver === true) fail("--until-over needs a TrainJob.")
        invocation = {
          command: "watch",
          common: common(options, fail),
          job: job === undefined ? undefined : { ...job, uid: options.uid },
          run: options.run,
          once: options.once ?? false,
          lines: options.lines ?? false,
          untilOver: options.untilOver ?? false
        }
      }
    )

  add("explain", "the story of a TrainJob: executions, pods, timeline, cause, and what is not known")
    .argument("<trainjob>", "NAME or NAMESPACE/NAME", parseJob)
    .option("--uid <uid>", "only the TrainJob with this uid")
    .action((job: JobName, options: RawCommon & { readonly uid?: string }) => {
      invocation = { command: "explain", common: common(options, fail), job: { ...job, uid: options.uid } }
    })

  add("ceased", "whether every Node of a TrainJob's last execution is surely gone; each Node's state")
    .argument("<trainjob>", "NAME or NAMESPACE/NAME", parseJob)
    .option("--uid <uid>", "only the TrainJob with this uid")
    .action((job: JobName, options: RawCommon & { readonly uid?: string }) => {
      invocation = { command: "ceased", common: common(options, fail), job: { ...job, uid: options.uid } }
    })

  withAbout(add("doctor", "one report of versions, permissions, preflight and capabilities, fit to be pasted")).action(
    (options: RawCommon & RawAbout) => {
      invocation = { command: "doctor", common: common(options, fail), about: aboutOf(options) }
    }
  )

  try {
    program.parse(args, { from: "user" })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0
      ? Either.left({ text: out, code: ExitCode.ok })
      : Either.left({ text: err === "" ? out : err, code: ExitCode.usage })
  }
  return invocation === undefined
    ? Either.left({ text: program.helpInformation(), code: ExitCode.usage })
    : Either.right(invocation)
}
