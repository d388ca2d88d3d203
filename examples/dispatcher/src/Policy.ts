/**
 * What to do when a run ends badly, as data.
 *
 * @module
 */
import { Schema } from "effect"

/** `Resubmit`: once more on the same backend. `Escalate`: on the next backend. `Hold`: leave it to a person. */
export const Action = Schema.Literal("Resubmit", "Escalate", "Hold")
/** See the schema of the same name. */
export type Action = typeof Action.Type

/** The first rule whose cause matches counts; `*` matches every cause. */
export const Rule = Schema.Struct({ cause: Schema.NonEmptyString, action: Action })

/** A recovery policy. Without a matching rule, and after the last attempt, the run has failed. */
export const Policy = Schema.Struct({
  rules: Schema.Array(Rule),
  attempts: Schema.Number.pipe(Schema.int(), Schema.positive())
})
/** See the schema of the same name. */
export type Policy = typeof Policy.Type

/** A sensible default: the machine's fault is worth another try, the program's is not. */
export const standard: Policy = {
  rules: [
    { cause: "NodeLost", action: "Resubmit" },
    { cause: "Preempted", action: "Resubmit" },
    { cause: "Drained", action: "Resubmit" },
    { cause: "Evicted", action: "Resubmit" },
    { cause: "NoCapacity", action: "Escalate" },
    { cause: "Refused", action: "Escalate" },
    { cause: "Deleted", action: "Hold" },
    { cause: "Unknown", action: "Hold" }
  ],
  attempts: 5
}

/** The action for a cause; undefined when the run has failed. */
export const actionFor = (policy: Policy, cause: string, attemptsSoFar: number): Action | undefined => {
  const action = policy.rules.find((rule) => rule.cause === cause || rule.cause === "*")?.action
  return action !== "Hold" && attemptsSoFar >= policy.attempts ? undefined : action
}
