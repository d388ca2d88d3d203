import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { afterAll } from "vitest"
import * as Recording from "./Recording.js"
import * as Replay from "./Replay.js"

interface Scenario extends Replay.Options {
  /** Objects that differ, with the reason in FIDELITY.md. */
  readonly differs?: ReadonlyArray<string>
  readonly withoutEvents?: ReadonlyArray<RegExp>
}

const scenarios: Readonly<Record<string, Scenario>> = {
  "01-queue-objects": {},
  "02-admit-run-complete": {},
  "03-check-retry": {},
  "04-check-rejected": {},
  "05-check-pending-after-admission": {},
  "06-preempted-and-readmitted": {},
  "07-preempted-twice-and-while-gated": {},
  "08-hold-and-release": {},
  "09-by-hand": {},
  "10-queues-stopped": {},
  "11-deletion": {},
  "12-two-checks-and-conflict": {},
  "13-captured-by-default-queue": {},
  "14-writing-the-check": {},
  "15-deactivated-by-kueue": {},
  "16-multikueue-and-runtime-edits": {},
  "17-manage-jobs-without-queue-name": {
    kueue: { manageJobsWithoutQueueName: true, waitForPodsReady: { timeout: 6 } }
  },
  "18-pods-ready-timeout": {
    kueue: {
      manageJobsWithoutQueueName: true,
      waitForPodsReady: { timeout: 6, backoffBase: 3, backoffLimit: 1 }
    }
  },
  "19-preempted-while-pods-take-long-to-end": {},
  "20-queue-label-moved-and-removed": {}
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
        expect.soft(outcome.answers).toEqual([])
        expect.soft(outcome.missing).toEqual([])
        expect.soft(outcome.extra).toEqual([])
        const unexpected = outcome.differing
          .filter(({ id }) => scenario.differs?.includes(id) !== true)
          .map(({ at, id, ours, recorded }) =>
            process.env["REPLAY_ALL"] === undefined ? { id, "is missing": recorded[at] } : { id, at, recorded, ours }
          )
        expect.soft(unexpected).toEqual([])
        const ofKueue = (line: string): boolean => /^(Workload|TrainJob|JobSet)\//.test(line)
        const lost = outcome.events.missing.filter(
          (line) => ofKueue(line) && scenario.withoutEvents?.some((pattern) => pattern.test(line)) !== true
        )
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
