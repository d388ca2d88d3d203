/**
 * Where two servers disagree about a sequence.
 *
 * @module
 */
import type { Observation } from "./Observation.js"
import type { Operation } from "./Operation.js"

/** One place in the answers to one operation where they differ. */
export interface Difference {
  readonly operation: Operation
  /** Dotted, from the outcome: `body.metadata.labels.a`. */
  readonly path: string
  readonly real: unknown
  readonly memory: unknown
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

function* differences(
  path: string,
  real: unknown,
  memory: unknown
): Generator<{ readonly path: string; readonly real: unknown; readonly memory: unknown }> {
  if (real === memory) return
  const below = (key: string): string => (path === "" ? key : `${path}.${key}`)
  if (isRecord(real) && isRecord(memory)) {
    for (const key of new Set([...Object.keys(real), ...Object.keys(memory)])) {
      yield* differences(below(key), real[key], memory[key])
    }
    return
  }
  if (Array.isArray(real) && Array.isArray(memory) && real.length === memory.length) {
    for (const [index, entry] of real.entries()) yield* differences(below(String(index)), entry, memory[index])
    return
  }
  if (Array.isArray(real) && Array.isArray(memory) && JSON.stringify(real) === JSON.stringify(memory)) return
  yield { path, real, memory }
}

/** The differences between two normalised runs of a sequence, in order. */
export const compare = (
  sequence: ReadonlyArray<Operation>,
  real: ReadonlyArray<Observation>,
  memory: ReadonlyArray<Observation>
): ReadonlyArray<Difference> => {
  const own = new Map(memory.map(({ id, outcome }) => [id, outcome]))
  const theirs = new Map(real.map(({ id, outcome }) => [id, outcome]))
  return sequence.flatMap((operation) =>
    [...differences("", theirs.get(operation.id), own.get(operation.id))].map((difference) => ({
      operation,
      ...difference
    }))
  )
}
