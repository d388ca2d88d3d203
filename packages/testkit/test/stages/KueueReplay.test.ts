import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { afterAll } from "vitest"
import * as Recording from "./Recording.js"
import * as Replay from "./Replay.js"

/** What may differ, with the reason in FIDELITY.md. Everything else must be equal. */
interface Scenario extends Replay.Options {
  readonly differs?: ReadonlyArray<string>
  /** Objects that only we have. */
  readonly more?: ReadonlyArray<string>
  readonly withoutEvents?: ReadonlyArray<RegExp>
  readonly withoutAnswers?: ReadonlyArray<RegExp>
}

const scenarios: Readonly<Record<string, Scenario>> = {
  "01-queue-objects": {},
  "02-admit-run-complete": { differs: ["Pod run-1-node-0-0-#1 (1)"] },
  "03-check-retry": {},
  "04-check-rejected": {},
  "05-check-pending-after-admission": { differs: ["Pod pend-1-node-0-0-#1 (1)"] },
  "06-preempted-and-readmitted": { differs: ["Pod high-node-0-0-#1 (1)"] },
  "07-preempted-twice-and-while-gated": { only: ["TrainJob", "Workload"] },
  "08-hold-and-release": {},
  "09-by-hand": { differs: ["JobSet p1 (1)"] },
  "10-queues-stopped": {
    differs: [
      "Workload trainjob-run-#hash (1)",
      "Workload trainjob-gated-#hash (1)",
      "Workload trainjob-wait-#hash (1)"
    ]
  },
  "11-deletion": {
    differs: ["JobSet d1 (2)", "JobSet d3 (2)"],
    withoutEvents: [/^JobSet\/d1 Warning JobCreationFailed/]
  },
  "12-two-checks-and-conflict": {},
  "13-captured-by-default-queue": {},
  "14-writing-the-check": {},
  "15-deactivated-by-kueue": {},
  "16-multikueue-and-runtime-edits": {},
  "17-manage-jobs-without-queue-name": {
    kueue: { manageJobsWithoutQueueName: true, waitForPodsReady: { timeout: 6 } },
    withoutEvents: [/^TrainJob\/v1 Normal Stopped: Not admitted by cluster queue/]
  },
  "18-pods-ready-timeout": {
    kueue: {
      manageJobsWithoutQueueName: true,
      waitForPodsReady: { timeout: 6, backoffBase: 3, backoffLimit: 1 }
    }
  },
  "19-preempted-while-pods-take-long-to-end": {},
  "20-queue-label-moved-and-removed": {
    differs: ["Workload trainjob-m2-#hash (1)", "Pod m3-node-0-0-#1 (1)"],
    more: ["Pod m3-node-0-0-#2 (1)", "Pod m3-node-0-0-#3 (1)"]
  }
}

describe("Kueue's stages do what the real Kueue was recorded to do", () => {
  const done: Array<{ readonly exact: number; readonly coalesced: number; readonly differing: number }> = []
  for (const [name, scenario] of Object.entries(scenarios)) {
    const recording = Recording.load("kueue", name)
    it.scoped(`${name}: ${recording.scenario}`, () =>
      Effect.gen(function* () {
        const kinds = new Set(
          recording.events.flatMap(({ object: { kind } }) =>
            typeof kind === "string" && kind !== "Event" ? [kind] : []
          )
        )
        const outcome = yield* Replay.replay(recording, {
          kueue: true,
          nodeLabels: { pool: "a" },
          only: [...kinds],
          ...scenario
        })
        done.push({ exact: outcome.same, coalesced: outcome.coalesced.length, differing: outcome.differing.length })
        const isKnown = (patterns: ReadonlyArray<RegExp> | undefined, text: string): boolean =>
          patterns?.some((pattern) => pattern.test(text)) === true
        expect.soft(outcome.answers.filter((line) => !isKnown(scenario.withoutAnswers, line))).toEqual([])
        expect.soft(outcome.missing).toEqual([])
        expect.soft(outcome.extra.filter((id) => scenario.more?.includes(id) !== true)).toEqual([])
        const unexpected = outcome.differing
          .filter(({ id }) => scenario.differs?.includes(id) !== true)
          .map(({ at, id, recorded }) => ({ id, "is missing": recorded[at] }))
        expect.soft(unexpected).toEqual([])
        const ofKueue = (line: string): boolean => /^(Workload|TrainJob|JobSet)\//.test(line)
        const lost = outcome.events.missing.filter((line) => ofKueue(line) && !isKnown(scenario.withoutEvents, line))
        expect.soft(lost).toEqual([])
      })
    )
  }
  afterAll(() => {
    const sum = (pick: (each: (typeof done)[number]) => number): number =>
      done.reduce((total, each) => total + pick(each), 0)
    const objects = sum(({ coalesced, differing, exact }) => exact + coalesced + differing)
    // eslint-disable-next-line no-console
    console.info(
      `recorded Kueue scenarios replayed: ${done.length} of ${Object.keys(scenarios).length}; objects with every recorded state in order: ${sum(({ exact }) => exact)} of ${objects}, but for counters: ${sum(({ coalesced }) => coalesced)}, differing: ${sum(({ differing }) => differing)}`
    )
  })
})
