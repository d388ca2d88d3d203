/**
 * What can happen, as data. Every command applies in any state: numbers choose among what there is, and where there is
 * nothing, nothing happens. So a script stays a script when commands are taken out of it.
 */
import { FastCheck } from "effect"

export const permissions = [
  "get nodes",
  "get pods/log",
  "watch pods",
  "patch trainjobs",
  "create trainjobs",
  "update workloads"
] as const
export type Permission = (typeof permissions)[number]

/** When the dispatcher dies: now, or at its next write to the cluster or to its journal. */
export const deaths = ["now", "request lost", "answer lost", "request late", "before journal", "after journal"] as const
export type Death = (typeof deaths)[number]

export type Command =
  | { readonly _tag: "Submit"; readonly run: string }
  | { readonly _tag: "Advance"; readonly seconds: number }
  | { readonly _tag: "Exit"; readonly process: number; readonly code: number }
  | { readonly _tag: "Succeed" }
  | { readonly _tag: "DeletePod"; readonly pod: number; readonly force: boolean }
  | {
      readonly _tag: "Lose" | "Return" | "PowerOff" | "PowerOn" | "Replace" | "DeleteNode" | "Untaint" | "Shutdown"
      readonly node: number
    }
  | { readonly _tag: "Taint"; readonly node: number; readonly effect: "NoExecute" | "NoSchedule" }
  | { readonly _tag: "Cut"; readonly kind: "watch" | "log"; readonly how: "broken" | "end" }
  | { readonly _tag: "Partition" | "Heal" | "Compact" | "Restart" | "AddNode" }
  | { readonly _tag: "DeleteJobSet"; readonly jobSet: number }
  /** With Kueue: somebody of a higher priority comes, or goes. */
  | { readonly _tag: "Preempt" | "Yield" }
  /** With Kueue: the controller of the admission check, beside the dispatcher. */
  | { readonly _tag: "StopController" | "StartController" }
  /** With Kueue: a person's doing. */
  | { readonly _tag: "DeleteWorkload" | "Hold" | "Release"; readonly workload: number }
  | { readonly _tag: "Suspend"; readonly trainJob: number }
  | { readonly _tag: "Revoke" | "Grant"; readonly permission: Permission }
  | { readonly _tag: "Kill"; readonly death: Death }
  | { readonly _tag: "DeleteTrainJob"; readonly trainJob: number; readonly propagation: "Foreground" | "Background" }
  | { readonly _tag: "Impostor"; readonly run: string; readonly n: number }
  | { readonly _tag: "Write"; readonly process: number; readonly lines: number }

const describe = ({ _tag, ...rest }: Command): string =>
  [_tag, ...Object.values(rest).map((value) => (value === true ? "force" : value === false ? "" : String(value)))]
    .filter((part) => part !== "")
    .join(" ")

const parseOne = (text: string): Command => {
  const [_tag = "", ...words] = text.trim().split(" ")
  const [first = "", second = ""] = words
  const rest = words.join(" ")
  switch (_tag) {
    case "Submit":
      return { _tag, run: first }
    case "Advance":
      return { _tag, seconds: Number(first) }
    case "Exit":
      return { _tag, process: Number(first), code: Number(second) }
    case "DeletePod":
      return { _tag, pod: Number(first), force: second === "force" }
    case "Lose":
    case "Return":
    case "PowerOff":
    case "PowerOn":
    case "Replace":
    case "DeleteNode":
    case "Untaint":
    case "Shutdown":
      return { _tag, node: Number(first) }
    case "Taint":
      return { _tag, node: Number(first), effect: second === "NoSchedule" ? "NoSchedule" : "NoExecute" }
    case "Cut":
      return { _tag, kind: first === "log" ? "log" : "watch", how: second === "end" ? "end" : "broken" }
    case "Succeed":
    case "Partition":
    case "Heal":
    case "Compact":
    case "Restart":
    case "AddNode":
    case "Preempt":
    case "Yield":
    case "StopController":
    case "StartController":
      return { _tag }
    case "DeleteWorkload":
    case "Hold":
    case "Release":
      return { _tag, workload: Number(first) }
    case "Suspend":
      return { _tag, trainJob: Number(first) }
    case "DeleteJobSet":
      return { _tag, jobSet: Number(first) }
    case "Revoke":
    case "Grant": {
      const permission = permissions.find((it) => it === rest)
      if (permission !== undefined) return { _tag, permission }
      break
    }
    case "Kill": {
      const death = deaths.find((it) => it === rest)
      if (death !== undefined) return { _tag, death }
      break
    }
    case "DeleteTrainJob":
      return { _tag, trainJob: Number(first), propagation: second === "Foreground" ? "Foreground" : "Background" }
    case "Impostor":
      return { _tag, run: first, n: Number(second) }
    case "Write":
      return { _tag, process: Number(first), lines: Number(second) }
  }
  throw new Error(`"${text}" is not a command`)
}

/** Reads commands as they are printed, separated by semicolons or new lines. */
export const parse = (text: string): ReadonlyArray<Command> =>
  text
    .split(/[;\n]/)
    .filter((line) => line.trim() !== "")
    .map(parseOne)

/** A world's constitution, and what happens in it. */
export interface Script {
  readonly mode: "read-write" | "read-only" | "observe-only"
  /** Kueue admits, with quota for one run; the dispatcher answers its admission check. */
  readonly kueue: boolean
  readonly outOfService: "always" | "unless-ready"
  /** Programs ignore SIGTERM. */
  readonly stubborn: boolean
  /** Pods that fail are replaced, which the adapter accepts only when it is told to. */
  readonly replacing: boolean
  /** How many seconds the controllers' clocks are ahead of the API server's; behind it where negative. */
  readonly skew: number
  readonly seed: number
  readonly commands: ReadonlyArray<Command>
}

const clocks = (skew: number): string =>
  skew === 0 ? "" : `, controllers' clocks ${Math.abs(skew)} s ${skew > 0 ? "ahead" : "behind"}`

const printed = (script: Script): Script & FastCheck.WithToStringMethod => ({
  ...script,
  [FastCheck.toStringMethod]: () =>
    [
      `\n  a ${script.mode} backend ${script.kueue ? "with Kueue" : "in plain mode"}, out-of-service ${script.outOfService}, ` +
        `${script.stubborn ? "stubborn" : "obedient"} programs${script.replacing ? ", pods are replaced" : ""}${clocks(script.skew)}, seed ${script.seed}`,
      ...script.commands.map((command) => `    ${describe(command)}`)
    ].join("\n")
})

/** A script that is written down. */
export const scripted = (
  commands: string,
  options: Partial<Pick<Script, "mode" | "kueue" | "outOfService" | "stubborn" | "replacing" | "skew">> = {}
): Script =>
  printed({
    mode: "read-write",
    kueue: false,
    outOfService: "always",
    stubborn: false,
    replacing: false,
    skew: 0,
    seed: 1,
    ...options,
    commands: parse(commands)
  })

const index = FastCheck.nat(5)
const one = FastCheck.constant

const common: ReadonlyArray<FastCheck.WeightedArbitrary<Command>> = [
  { weight: 3, arbitrary: FastCheck.record({ _tag: one("Submit" as const), run: FastCheck.constantFrom("a", "b") }) },
  {
    weight: 10,
    arbitrary: FastCheck.record({
      _tag: one("Advance" as const),
      seconds: FastCheck.constantFrom(0.05, 1, 2, 5, 15, 40, 90)
    })
  },
  {
    weight: 5,
    arbitrary: FastCheck.record({
      _tag: one("Exit" as const),
      process: index,
      code: FastCheck.constantFrom(0, 1, 137, 143)
    })
  },
  { weight: 2, arbitrary: one<Command>({ _tag: "Succeed" }) },
  {
    weight: 4,
    arbitrary: FastCheck.record({ _tag: one("DeletePod" as const), pod: index, force: FastCheck.boolean() })
  },
  {
    weight: 14,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom(
        "Lose" as const,
        "Lose" as const,
        "Return" as const,
        "Return" as const,
        "PowerOff" as const,
        "PowerOn" as const,
        "DeleteNode" as const,
        "DeleteNode" as const,
        "Untaint" as const,
        "Shutdown" as const
      ),
      node: index
    })
  },
  { weight: 2, arbitrary: FastCheck.record({ _tag: one("Replace" as const), node: index }) },
  {
    weight: 4,
    arbitrary: FastCheck.record({
      _tag: one("Taint" as const),
      node: index,
      effect: FastCheck.constantFrom("NoExecute" as const, "NoSchedule" as const)
    })
  },
  {
    weight: 3,
    arbitrary: FastCheck.record({
      _tag: one("Cut" as const),
      kind: FastCheck.constantFrom("watch" as const, "log" as const),
      how: FastCheck.constantFrom("broken" as const, "end" as const)
    })
  },
  {
    weight: 8,
    arbitrary: FastCheck.constantFrom<Command>(
      { _tag: "Partition" },
      { _tag: "Heal" },
      { _tag: "Heal" },
      { _tag: "Compact" },
      { _tag: "Restart" },
      { _tag: "Restart" },
      { _tag: "AddNode" }
    )
  },
  {
    weight: 3,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom("Revoke" as const, "Grant" as const),
      permission: FastCheck.constantFrom(...permissions)
    })
  },
  { weight: 4, arbitrary: FastCheck.record({ _tag: one("Kill" as const), death: FastCheck.constantFrom(...deaths) }) },
  {
    weight: 3,
    arbitrary: FastCheck.record({
      _tag: one("DeleteTrainJob" as const),
      trainJob: index,
      propagation: FastCheck.constantFrom("Foreground" as const, "Background" as const)
    })
  },
  { weight: 2, arbitrary: FastCheck.record({ _tag: one("DeleteJobSet" as const), jobSet: index }) },
  {
    weight: 1,
    arbitrary: FastCheck.record({
      _tag: one("Impostor" as const),
      run: FastCheck.constantFrom("a", "b"),
      n: FastCheck.integer({ min: 1, max: 2 })
    })
  },
  {
    weight: 3,
    arbitrary: FastCheck.record({
      _tag: one("Write" as const),
      process: index,
      lines: FastCheck.integer({ min: 1, max: 4 })
    })
  }
]

const queued: ReadonlyArray<FastCheck.WeightedArbitrary<Command>> = [
  {
    weight: 12,
    arbitrary: FastCheck.constantFrom<Command>(
      { _tag: "Preempt" },
      { _tag: "Preempt" },
      { _tag: "Preempt" },
      { _tag: "Yield" },
      { _tag: "Yield" },
      { _tag: "StopController" },
      { _tag: "StartController" }
    )
  },
  {
    weight: 6,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom("DeleteWorkload" as const, "Hold" as const, "Release" as const),
      workload: index
    })
  },
  { weight: 2, arbitrary: FastCheck.record({ _tag: one("Suspend" as const), trainJob: index }) }
]

const commands = (all: ReadonlyArray<FastCheck.WeightedArbitrary<Command>>) =>
  FastCheck.array(FastCheck.oneof(...all), { minLength: 2, maxLength: 16 })
const plain = commands(common)
const withKueue = commands([...common, ...queued])

const scriptOf = (kueue: boolean, happen: FastCheck.Arbitrary<ReadonlyArray<Command>>): FastCheck.Arbitrary<Script> =>
  FastCheck.record({
    mode: FastCheck.oneof(
      { weight: 10, arbitrary: one("read-write" as const) },
      { weight: 1, arbitrary: one("read-only" as const) },
      { weight: 1, arbitrary: one("observe-only" as const) }
    ),
    kueue: one(kueue),
    outOfService: FastCheck.constantFrom("always" as const, "always" as const, "unless-ready" as const),
    stubborn: FastCheck.boolean(),
    replacing: FastCheck.oneof({ weight: 7, arbitrary: one(false) }, { weight: 1, arbitrary: one(true) }),
    skew: FastCheck.oneof(
      { weight: 3, arbitrary: one(0) },
      { weight: 1, arbitrary: FastCheck.constantFrom(0.1, -0.1, 1, -1, 3, -3) }
    ),
    seed: FastCheck.integer({ min: 1, max: 1000 }),
    // With Kueue the first start waits for the proof of the gate
    first: kueue ? FastCheck.constantFrom(15, 15, 5) : one(2),
    commands: happen
  }).map(({ first, ...it }) =>
    printed({ ...it, commands: [{ _tag: "Submit", run: "a" }, { _tag: "Advance", seconds: first }, ...it.commands] })
  )

/** Scripts: mostly a backend that may write, one in four with Kueue, always beginning with a run that starts. */
export const script: FastCheck.Arbitrary<Script> = FastCheck.oneof(
  { weight: 3, arbitrary: scriptOf(false, plain) },
  { weight: 1, arbitrary: scriptOf(true, withKueue) }
)
