/**
 * Claims: what should be so, what was seen, line by line.
 *
 * @module
 */
import type { Paint, Tone } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import { Context, Effect, Ref } from "effect"

/** How a claim came out. `left out`: this cluster cannot show it. */
export type Outcome = "passed" | "failed" | "left out"

/** One line of the table. */
export interface Line {
  readonly section: string
  readonly claim: string
  readonly outcome: Outcome
  readonly expected: string
  readonly seen: string
}

/** Where claims are made. */
export interface Service {
  /**
   * Compares what is seen with what should be; a failure to see is a failed claim, never the end of the programme. Answers
   * whether it holds.
   */
  readonly claim: <E extends { readonly message: string }, R>(
    section: string,
    claim: string,
    expected: string,
    seen: Effect.Effect<string, E, R>
  ) => Effect.Effect<boolean, never, R>
  readonly leaveOut: (section: string, claim: string, why: string) => Effect.Effect<void>
  readonly lines: Effect.Effect<ReadonlyArray<Line>>
}

/** The tag of the service. */
export class Claims extends Context.Tag("@dispatch-kubeflow/e2e/Claims")<Claims, Service>() {}

const tones: Readonly<Record<Outcome, Tone>> = { passed: "good", failed: "bad", "left out": "dim" }

/** A line as a person reads it; a failed one says what was expected. */
export const render = (line: Line, paint: Paint): string => {
  const head = `${paint(tones[line.outcome], line.outcome.padEnd(8))}  ${line.section.padEnd(13)} ${line.claim}`
  switch (line.outcome) {
    case "passed":
      return `${head}: ${line.seen}`
    case "failed":
      return `${head}\n            expected: ${line.expected}\n            seen:     ${line.seen}`
    case "left out":
      return `${head}: ${line.seen}`
  }
}

/** Tells each line as it is made. */
export const make = (tell: (line: Line) => Effect.Effect<void>): Effect.Effect<Service> =>
  Effect.map(Ref.make<ReadonlyArray<Line>>([]), (lines) => {
    const add = (line: Line): Effect.Effect<void> =>
      Effect.zipRight(
        Ref.update(lines, (before) => [...before, line]),
        tell(line)
      )
    return {
      claim: (section, claim, expected, seen) =>
        Effect.gen(function* () {
          const what = yield* Effect.catchAll(seen, (error) => Effect.succeed(`error: ${error.message}`))
          const holds = what === expected
          yield* add({ section, claim, outcome: holds ? "passed" : "failed", expected, seen: what })
          return holds
        }),
      leaveOut: (section, claim, why) => add({ section, claim, outcome: "left out", expected: "", seen: why }),
      lines: Ref.get(lines)
    }
  })
