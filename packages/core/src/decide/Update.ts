/**
 * What a watch tells about one TrainJob.
 *
 * @module
 */
import { Schema } from "effect"
import * as Classification from "./Classification.js"
import type * as Evidence from "./Evidence.js"

/** One change of what is known of a TrainJob. Plain JSON. */
export const Update = Schema.Struct({
  ref: Schema.Struct({ namespace: Schema.String, name: Schema.String, uid: Schema.optional(Schema.String) }),
  state: Classification.State,
  /** Why it is in that state, where there is a why. */
  cause: Schema.optional(Classification.Cause),
  /** The first terminal result. */
  outcome: Schema.optional(Schema.Literal("Succeeded", "Failed")),
  /** The admission count of the execution that this is about. */
  execution: Schema.optional(Schema.Number),
  /** Which start of that execution, from 1; 0 before the first. */
  incarnation: Schema.Number,
  /** `inferred`: the pods carry no admission count. */
  identity: Schema.optional(Schema.Literal("injected", "inferred")),
  /** The same admission ran more than once, or something ran after the end. */
  repeated: Schema.Boolean,
  /** A pod exists that has not ended. False proves nothing about processes. */
  alive: Schema.Boolean,
  evidence: Schema.Array(Classification.Fact),
  notes: Schema.Array(Schema.String)
})
/** See the schema of the same name. */
export type Update = typeof Update.Type

/** The update that tells this evidence. */
export const make = (evidence: Evidence.Evidence, uid?: string): Update => {
  const verdict = Classification.classify(evidence, uid)
  return {
    ref: {
      namespace: evidence.namespace,
      name: evidence.name,
      ...(verdict.uid === undefined ? {} : { uid: verdict.uid })
    },
    state: verdict.state,
    ...(verdict.cause === undefined ? {} : { cause: verdict.cause }),
    ...(verdict.outcome === undefined ? {} : { outcome: verdict.outcome }),
    ...(verdict.execution === undefined ? {} : { execution: verdict.execution }),
    incarnation: verdict.incarnation,
    ...(verdict.identity === undefined ? {} : { identity: verdict.identity }),
    repeated: verdict.repeated,
    alive: verdict.alive,
    evidence: verdict.evidence,
    notes: verdict.notes
  }
}

const isSame = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => isSame(item, b[index]))
  }
  const left = a as Readonly<Record<string, unknown>>
  const right = b as Readonly<Record<string, unknown>>
  for (const key in left) if (!isSame(left[key], right[key])) return false
  for (const key in right) if (left[key] === undefined && right[key] !== undefined) return false
  return true
}

/** Whether two updates tell the same. */
export const equals = (a: Update, b: Update): boolean => isSame(a, b)
