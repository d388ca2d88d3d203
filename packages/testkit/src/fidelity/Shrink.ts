/**
 * Makes a sequence that shows a disagreement smaller: fewer operations, then fewer options and fields.
 *
 * @module
 */
import { Effect } from "effect"
import type { Operation } from "./Operation.js"

const withoutEach = <A>(record: Readonly<Record<string, A>>): ReadonlyArray<Readonly<Record<string, A>>> =>
  Object.keys(record).map((key) => Object.fromEntries(Object.entries(record).filter(([other]) => other !== key)))

/** Bodies with one member less, at any depth. */
const smallerBodies = (value: unknown): ReadonlyArray<unknown> => {
  if (typeof value !== "object" || value === null) return []
  if (Array.isArray(value)) {
    return [
      ...value.map((_, index) => value.toSpliced(index, 1)),
      ...value.flatMap((entry, index) => smallerBodies(entry).map((less) => value.with(index, less)))
    ]
  }
  const record = value as Readonly<Record<string, unknown>>
  return [
    ...withoutEach(record),
    ...Object.entries(record).flatMap(([key, entry]) =>
      smallerBodies(entry).map((less) => ({ ...record, [key]: less }))
    )
  ]
}

const smallerOperations = (operation: Operation): ReadonlyArray<Operation> => {
  const { request } = operation
  return [
    ...(operation.as === "admin" ? [] : [{ ...operation, as: "admin" }]),
    ...withoutEach(request.query).map((query) => ({ ...operation, request: { ...request, query } })),
    ...smallerBodies(request.body).map((body) => ({ ...operation, request: { ...request, body } }))
  ]
}

/** Sequences that are one step smaller, the boldest first. */
function* smaller(sequence: ReadonlyArray<Operation>): Generator<ReadonlyArray<Operation>> {
  for (let size = Math.floor(sequence.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let start = 0; start < sequence.length; start += size) yield sequence.toSpliced(start, size)
  }
  for (const [index, operation] of sequence.entries()) {
    for (const less of smallerOperations(operation)) yield sequence.with(index, less)
  }
}

/**
 * The smallest sequence found that still fails, with at most `attempts` trials. `fails` runs a candidate on both servers.
 */
export const shrink = <E, R>(
  sequence: ReadonlyArray<Operation>,
  fails: (candidate: ReadonlyArray<Operation>) => Effect.Effect<boolean, E, R>,
  attempts = 150
): Effect.Effect<ReadonlyArray<Operation>, E, R> =>
  Effect.gen(function* () {
    let current = sequence
    let left = attempts
    for (let progress = true; progress && left > 0;) {
      progress = false
      for (const candidate of smaller(current)) {
        if (left <= 0) break
        left -= 1
        if (!(yield* fails(candidate))) continue
        current = candidate
        progress = true
        break
      }
    }
    return current
  })
