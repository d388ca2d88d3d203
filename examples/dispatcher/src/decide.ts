/**
 * What to do next for a run: a total function of what is written down and what was seen. It has no effects, so the whole
 * of the dispatcher's judgement can be tested by enumeration.
 *
 * @module
 */
import type { Report, Stopped } from "./Backend.js"
import { type Attempt, current, type Entry, type Record } from "./Entry.js"
import { actionFor } from "./Policy.js"

/** What was seen of the last attempt since it began. Answers of backends are kept only until they are written down. */
export interface Observed {
  readonly report?: Report | undefined
  readonly prepared?: string | undefined
  readonly refused?: string | undefined
  readonly start?: "Started" | "Gone" | undefined
  /** Asked only while nothing is reported of it. */
  readonly exists?: boolean | undefined
  readonly fence?: "Fenced" | "Succeeded" | undefined
  readonly stopped?: Stopped | undefined
}

/** The next step. */
export type Step =
  | { readonly _tag: "Append"; readonly entry: Entry }
  | { readonly _tag: "Prepare"; readonly attempt: Attempt }
  | { readonly _tag: "Start"; readonly attempt: Attempt & { readonly id: string } }
  | { readonly _tag: "Fence"; readonly attempt: Attempt }
  /** Is it really stopped? */
  | { readonly _tag: "Ask"; readonly attempt: Attempt }
  /** For a report. */
  | { readonly _tag: "Wait"; readonly attempt: Attempt }
  | { readonly _tag: "Done" }

const append = (entry: Entry): Step => ({ _tag: "Append", entry })

const finished = (outcome: "Succeeded" | "Failed" | "Held", reason: string): Step =>
  append({ _tag: "Finished", outcome, reason })

const nextBackend = (record: Record, attempt: Attempt): string | undefined =>
  record.accepted.backends[record.accepted.backends.indexOf(attempt.backend) + 1]

/** What the policy makes of an end; escalation needs somewhere to go. */
const chosen = (record: Record, attempt: Attempt, cause: string) => {
  const action = actionFor(record.accepted.policy, cause, record.attempts.length)
  return action === "Escalate" && nextBackend(record, attempt) === undefined ? null : (action ?? null)
}

const retiring = (record: Record, attempt: Attempt, cause: string, detail: string): Step =>
  append({ _tag: "Retiring", n: attempt.n, cause, detail, action: chosen(record, attempt, cause) })

/** After an attempt of which nothing runs (any more). */
const next = (record: Record, attempt: Attempt, action: string | null): Step => {
  const backend = action === "Escalate" ? nextBackend(record, attempt) : attempt.backend
  return backend === undefined
    ? finished("Failed", "there is no other backend")
    : append({ _tag: "Intended", n: attempt.n + 1, backend })
}

const isAbout = (report: Report, attempt: Attempt): boolean =>
  attempt.id !== undefined && report.n === attempt.n && report.id === attempt.id

/** Decides. */
export const decide = (record: Record, observed: Observed): Step => {
  if (record.finished !== undefined) return { _tag: "Done" }
  const attempt = current(record)
  if (attempt === undefined) return append({ _tag: "Intended", n: 1, backend: record.accepted.backends[0] })
  const { refused, retiring: given } = attempt
  if (refused !== undefined) {
    if (refused.action === "Hold") return finished("Held", refused.reason)
    return refused.action === null ? finished("Failed", refused.reason) : next(record, attempt, refused.action)
  }

  const report = observed.report !== undefined && isAbout(observed.report, attempt) ? observed.report : undefined
  if (report?.outcome === "Succeeded" || observed.fence === "Succeeded") {
    return finished("Succeeded", `submission ${attempt.n} succeeded`)
  }

  if (given !== undefined) {
    // First nothing new can start, then it is asked whether anything runs: the other way round the answer is worth nothing
    if (!attempt.fenced) {
      return observed.fence === "Fenced" ? append({ _tag: "Fenced", n: attempt.n }) : { _tag: "Fence", attempt }
    }
    if (given.action === "Hold") return finished("Held", `${given.cause}: ${given.detail}`)
    if (given.action === null) return finished("Failed", `${given.cause}: ${given.detail}`)
    if (attempt.stopped !== undefined || attempt.vouched !== undefined) return next(record, attempt, given.action)
    const { stopped } = observed
    if (stopped === undefined || (!stopped.ceased && !stopped.ended)) return { _tag: "Ask", attempt }
    return append({
      _tag: "Stopped",
      n: attempt.n,
      by: stopped.ended ? "ended" : "ceased",
      cautions: stopped.cautions
    })
  }

  if (report !== undefined) {
    switch (report.state) {
      case "Failed":
      case "Gone":
        return retiring(record, attempt, report.cause ?? "Unknown", report.detail)
      case "Stopping":
        // Without a cause more is to come; held, it is somebody's wish and not an end
        if (report.cause !== undefined && report.cause !== "Held" && report.cause !== "Unknown") {
          return retiring(record, attempt, report.cause, report.detail)
        }
        break
      case "Pending":
        // Many obstacles go away by themselves; only a rule that names this one gives up for it
        if (record.accepted.policy.rules.some(({ cause }) => cause === report.cause)) {
          return retiring(record, attempt, report.cause ?? "Unknown", report.detail)
        }
        break
      case "Held":
      case "Running":
      case "Succeeded":
      case "Unknown":
    }
  }

  const { id } = attempt
  if (id === undefined) {
    if (observed.prepared !== undefined) return append({ _tag: "Prepared", n: attempt.n, id: observed.prepared })
    return observed.refused === undefined
      ? { _tag: "Prepare", attempt }
      : append({
          _tag: "Refused",
          n: attempt.n,
          reason: observed.refused,
          action: chosen(record, attempt, "Refused")
        })
  }
  if (!attempt.started) {
    switch (observed.start) {
      case undefined:
        return { _tag: "Start", attempt: { ...attempt, id } }
      case "Started":
        return append({ _tag: "Started", n: attempt.n })
      case "Gone":
        return retiring(record, attempt, "Deleted", "it was deleted before it was started, or soon after")
    }
  }
  // Of what went away with all that was known of it nothing will ever be reported
  return report === undefined && observed.exists === false
    ? retiring(record, attempt, "Deleted", "it does not exist any more, and nobody saw how it ended")
    : { _tag: "Wait", attempt }
}
