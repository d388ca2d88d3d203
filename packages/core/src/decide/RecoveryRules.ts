/**
 * What the backend can do for each rule of a recovery policy.
 *
 * @module
 */
import { type Either, type ParseResult, Schema } from "effect"
import * as Support from "./Support.js"

/**
 * One rule: when a run ends with `cause`, do `action`. Both are the dispatcher's words; other fields are kept and not
 * read.
 */
export const Rule = Schema.Struct({ cause: Schema.NonEmptyString, action: Schema.NonEmptyString })
/** See the schema of the same name. */
export type Rule = typeof Rule.Type

/** A recovery policy: its rules in the order in which they are tried. */
export const Policy = Schema.Array(Rule)
/** See the schema of the same name. */
export type Policy = typeof Policy.Type

/** Reads a policy from data, e.g. parsed JSON; the error names the path and what was expected there. */
export const parse: (value: unknown) => Either.Either<Policy, ParseResult.ParseError> = Schema.decodeUnknownEither(
  Policy,
  { onExcessProperty: "preserve", errors: "all" }
)

/** A rule with what the backend answers to its action. */
export interface Answer {
  readonly rule: Rule
  readonly support: Support.Support
}

const supportOf = (action: string, hold: Support.Support): Support.Support => {
  switch (action) {
    case "Resubmit":
    case "Escalate":
      return Support.yes()
    case "Hold":
      return hold
    case "Requeue":
      return Support.no("declared", "Kubeflow has no requeue")
    case "Restart":
      return Support.no("declared", "no push-down in v1")
    default:
      return Support.unknown("declared", `the action "${action}" is not known to this backend`)
  }
}

/** One answer per rule, in the policy's order; `hold` is the Hold capability's answer, passed on whole. */
export const rules = (policy: Policy, hold: Support.Support): ReadonlyArray<Answer> =>
  policy.map((rule) => ({ rule, support: supportOf(rule.action, hold) }))
