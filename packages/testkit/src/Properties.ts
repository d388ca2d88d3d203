/**
 * How property tests are run everywhere: `FC_RUNS` sets the number of runs, `FC_SEED` repeats a failure. fast-check prints
 * the seed, the path and the shrunk counterexample of a failure by itself.
 *
 * @module
 */
import { Effect, FastCheck, type Scope, TestContext } from "effect"

const integer = (name: string): number | undefined => {
  const text = process.env[name]
  if (text === undefined || text === "") return undefined
  const value = Number(text)
  if (!Number.isInteger(value)) throw new Error(`${name} must be an integer, not "${text}"`)
  return value
}

/** Parameters for `FastCheck.assert`; `runs` is the number of runs where `FC_RUNS` does not say otherwise. */
export const parameters = <T = unknown>(runs = 100): FastCheck.Parameters<T> => {
  const seed = integer("FC_SEED")
  return { numRuns: integer("FC_RUNS") ?? runs, ...(seed === undefined ? {} : { seed }) }
}

/**
 * Checks an effectful property: each run has its own `TestClock` and `Scope`, so runs share neither time nor resources.
 * A failure is a defect with fast-check's report.
 */
export const assert = <A, E>(
  arbitrary: FastCheck.Arbitrary<A>,
  property: (value: A) => Effect.Effect<void, E, Scope.Scope>,
  runs = 100
): Effect.Effect<void> =>
  Effect.promise((signal) =>
    FastCheck.assert(
      FastCheck.asyncProperty(arbitrary, (value) =>
        // fast-check drives promises: this is the edge of the program, as in @effect/vitest
        Effect.runPromise(Effect.provide(Effect.scoped(property(value)), TestContext.TestContext), { signal })
      ),
      parameters<[A]>(runs)
    )
  )
