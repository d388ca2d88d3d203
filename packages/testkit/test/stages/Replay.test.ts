import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { afterAll } from "vitest"
import * as Fixtures from "../../src/Fixtures.js"
import * as Trainer from "../../src/stages/Trainer.js"
import * as Recording from "./Recording.js"
import * as Replay from "./Replay.js"

/** What may differ, and why. Everything else must be equal. */
interface Scenario extends Replay.Options {
  readonly differs?: ReadonlyArray<string>
  readonly withoutEvents?: ReadonlyArray<RegExp>
}

const scenarios: Readonly<Record<string, Scenario>> = {
  "admission-entry": {},
  "conforming-copy": {},
  // the race of the deadline: seen in 3 of 7 runs, here on demand
  deadline: { with: [Trainer.make({ cache: "lagging" })], withoutEvents: [/FailedToUpdateEndpointSlices/] },
  "delete-background": {},
  "delete-foreground": {},
  "delete-orphan": {},
  drained: {},
  failure: {},
  "hold-and-release": {},
  "hold-completed-rank": {},
  "hold-overlap": {},
  "hold-probe": {},
  initializers: {},
  "job-deleted": {},
  "jobset-deleted": {},
  "jobset-restart": {},
  mpi: {},
  "name-too-long": {},
  "never-starts": {
    nodes: ["node-4", "node-5"].map((name) =>
      Fixtures.node(name, { taints: [{ key: "example.com/reserved", effect: "NoSchedule" }] })
    )
  },
  "node-deleted": {},
  "node-lost": {},
  // the recorder wrote the restarts by hand and its kubelet ended the pod before the Job had counted it
  "onfailure-6": { differs: ["Pod run-1-node-0-0-#1 (1)"] },
  "onfailure-pod-replaced": {},
  "out-of-service-ready": {},
  "pod-deleted": {},
  "runtime-snapshot": {},
  success: {},
  "ttl-rerun": {}
}

describe("the stages do what the real controllers were recorded to do", () => {
  const done: Array<{ readonly exact: number; readonly coalesced: number; readonly differing: number }> = []
  for (const [name, scenario] of Object.entries(scenarios)) {
    const recording = Recording.load("trainer", name)
    it.scoped(`${name}: ${recording.scenario}`, () =>
      Effect.gen(function* () {
        const outcome = yield* Replay.replay(recording, scenario)
        done.push({
          exact: outcome.same,
          coalesced: outcome.coalesced.length,
          differing: outcome.differing.length
        })
        expect(outcome.answers).toEqual([])
        expect(outcome.missing).toEqual([])
        expect(outcome.extra).toEqual([])
        const unexpected = outcome.differing
          .filter(({ id }) => scenario.differs?.includes(id) !== true)
          .map(({ at, id, recorded }) => ({ id, "is missing": recorded[at] }))
        expect(unexpected).toEqual([])
        const lost = outcome.events.missing.filter(
          (line) => scenario.withoutEvents?.some((pattern) => pattern.test(line)) !== true
        )
        expect(lost).toEqual([])
        // our kubelet tells more than the recorder's
        const more = outcome.events.extra.filter((line) => !/^Pod\/\S+ Normal Killing/.test(line))
        expect(more).toEqual([])
      })
    )
  }
  afterAll(() => {
    const sum = (pick: (each: (typeof done)[number]) => number): number =>
      done.reduce((total, each) => total + pick(each), 0)
    const objects = sum(({ coalesced, differing, exact }) => exact + coalesced + differing)
    // eslint-disable-next-line no-console
    console.info(
      `recorded Trainer scenarios replayed: ${done.length} of ${Object.keys(scenarios).length}; objects with every recorded state in order: ${sum(({ exact }) => exact)} of ${objects}, but for counters: ${sum(({ coalesced }) => coalesced)}, differing: ${sum(({ differing }) => differing)}`
    )
  })
})
