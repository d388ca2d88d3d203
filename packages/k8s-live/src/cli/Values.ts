/**
 * The values that options and arguments take: text in, a value or a complaint out.
 *
 * @module
 */
import * as Support from "@dispatch-kubeflow/core/decide/Support"
import { InvalidArgumentError } from "commander"

/** A runtime, as `NAME` (ClusterTrainingRuntime) or `Kind/NAME`. */
export interface RuntimeName {
  readonly kind: "ClusterTrainingRuntime" | "TrainingRuntime"
  readonly name: string
}

/** A TrainJob, as `NAME` or `NAMESPACE/NAME`. */
export interface JobName {
  readonly namespace: string | undefined
  readonly name: string
  readonly uid: string | undefined
}

/** A point in time: RFC 3339, or milliseconds before now. */
export type Since = { readonly ago: number } | { readonly time: string }

const kubernetesName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/
// The webhook of TrainJobs takes no longer ones, and longer ones are no label values to select by
const longestJobName = 63

/** What keeps a text from being a name of Kubernetes, as a sentence. */
const nameProblem = (what: string, text: string): string | undefined => {
  if (kubernetesName.test(text)) return undefined
  if (text === "") return `The ${what} is empty.`
  return /^[-a-z0-9.]*$/.test(text)
    ? `The ${what} has to begin and end with a letter or a digit.`
    : `The ${what} may hold lower-case letters, digits, "-" and "." only.`
}

/** A TrainJob by name. */
export const parseJob = (text: string): JobName => {
  const [first, second, ...rest] = text.split("/")
  const namespace = second === undefined ? undefined : first
  const name = second ?? first ?? ""
  const problem =
    rest.length > 0
      ? "It has more than one slash."
      : ((namespace === undefined ? undefined : nameProblem("namespace", namespace)) ?? nameProblem("name", name))
  if (problem !== undefined) throw new InvalidArgumentError(`${problem} Give a TrainJob as NAME or NAMESPACE/NAME.`)
  if (name.length > longestJobName) {
    throw new InvalidArgumentError(`A TrainJob's name has at most ${longestJobName} characters.`)
  }
  return { namespace, name, uid: undefined }
}

/** A runtime by name. */
export const parseRuntime = (text: string): RuntimeName => {
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

/** A capability, in any case. */
export const parseCapability = (text: string): Support.Capability => {
  const found = Support.capabilities.find((name) => name.toLowerCase() === text.toLowerCase())
  if (found === undefined) throw new InvalidArgumentError(`The capabilities are ${Support.capabilities.join(", ")}.`)
  return found
}

/** A name that Kubernetes accepts. */
export const parseName = (text: string): string => {
  const problem = nameProblem("name", text)
  if (problem !== undefined) throw new InvalidArgumentError(problem)
  return text
}

/** Any text. An empty one is a variable of a script that is not set: it must not mean what leaving the option out means. */
export const parseText = (text: string): string => {
  if (text === "") throw new InvalidArgumentError("It is empty: give a value, or leave the option out.")
  return text
}

/** A whole number. */
export const parseCount = (text: string): number => {
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError("Give a whole number, 0 or more.")
  }
  return value
}

/** A hundred years, in milliseconds. */
const longestAgo = 36_500 * 86_400_000

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A time, or a duration before now. */
export const parseSince = (text: string): Since => {
  const duration = /^(\d+)([smhd])$/.exec(text)
  if (duration?.[1] !== undefined && duration[2] !== undefined) {
    const ago = Number(duration[1]) * (units[duration[2]] ?? 0)
    if (ago > longestAgo) throw new InvalidArgumentError("Give a duration of at most 36500d.")
    return { ago }
  }
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text)) return { time: text }
  throw new InvalidArgumentError("Give a duration such as 90s, 15m, 4h, or a time such as 2026-01-02T03:04:05Z.")
}

/** A Lease as NAMESPACE/NAME. */
export const parseLease = (text: string): { readonly namespace: string; readonly name: string } => {
  const [namespace, name, ...rest] = text.split("/")
  if (namespace === undefined || name === undefined || rest.length > 0) {
    throw new InvalidArgumentError("Give the Lease as NAMESPACE/NAME.")
  }
  return { namespace, name }
}
