/**
 * Waiting with a limit: repeated requests while a server is busy, repeated looks until something is so.
 *
 * @module
 */
import { Data, Duration, Effect, Predicate, Random, Ref } from "effect"
import type { KubeError, KubeUnavailable } from "../kube/KubeError.js"

/** A step of the preflight that did not do what it has to. */
export class StepFailed extends Data.TaggedError("StepFailed")<{
  readonly step: string
  readonly words: string
  readonly remedy: string
}> {}

const readAttempts = 4
const longestPause = 5000

const worthRetrying = (error: KubeUnavailable): boolean =>
  error.phase !== "tls" && error.phase !== "credentials" && (error.retryAfter ?? 0) <= longestPause

const jittered = (millis: number): Effect.Effect<number> =>
  Effect.map(Random.next, (random) => Math.round(millis * (0.75 + random / 2)))

/** Repeats a request that may be repeated, up to three times while the server is not available; `Retry-After` wins. */
export const patiently = <A>(request: Effect.Effect<A, KubeError>, attempt = 1): Effect.Effect<A, KubeError> =>
  Effect.catchTag(request, "KubeUnavailable", (error) =>
    attempt >= readAttempts || !worthRetrying(error)
      ? Effect.fail(error)
      : jittered(Math.min(longestPause, 200 * 2 ** attempt)).pipe(
          Effect.flatMap((pause) => Effect.sleep(Math.max(pause, error.retryAfter ?? 0))),
          Effect.zipRight(patiently(request, attempt + 1))
        )
  )

/** What one look saw. */
export type Look<A> = { readonly _tag: "Done"; readonly value: A } | { readonly _tag: "NotYet"; readonly seen: string }

/** It is so. */
export const done = <A>(value: A): Look<A> => ({ _tag: "Done", value })

/** It is not so yet; `seen` is what a time-out will say. */
export const notYet = (seen: string): Look<never> => ({ _tag: "NotYet", seen })

const isUnavailable = (error: unknown): error is KubeUnavailable => Predicate.isTagged(error, "KubeUnavailable")

/**
 * Looks again and again, 0.1 s to 1 s apart, until it is done or the time is over; then fails with what was seen last. A
 * server that is not available is looked at again; any other error ends it.
 */
export const until = <A>(
  step: string,
  remedy: string,
  limit: Duration.DurationInput,
  look: Effect.Effect<Look<A>, KubeError>
): Effect.Effect<A, StepFailed> =>
  Effect.gen(function* () {
    const last = yield* Ref.make("nothing was seen")
    const again = (pause: number): Effect.Effect<A, KubeError> =>
      Effect.flatMap(
        Effect.catchIf(look, isUnavailable, (error) => Effect.succeed(notYet(error.message))),
        (seen) =>
          seen._tag === "Done"
            ? Effect.succeed(seen.value)
            : Ref.set(last, seen.seen).pipe(
                Effect.zipRight(jittered(pause)),
                Effect.flatMap((millis) => Effect.sleep(millis)),
                Effect.zipRight(Effect.suspend(() => again(Math.min(1000, pause * 2))))
              )
      )
    const inTime = yield* again(100).pipe(
      Effect.mapError((error) => new StepFailed({ step, words: error.message, remedy })),
      Effect.timeoutOption(limit)
    )
    if (inTime._tag === "Some") return inTime.value
    const words = `not within ${Duration.format(limit)}: ${yield* Ref.get(last)}`
    return yield* new StepFailed({ step, words, remedy })
  })
