import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Kill from "./kill/Kill.js"

it("is killed with SIGKILL at random points: every run ends with one success, and never lives twice", async () => {
  const outcome = await Effect.runPromise(Kill.play({ kills: 6, seed: 1 }))
  expect(outcome.lies).toEqual([])
  expect(outcome.kills).toBeGreaterThanOrEqual(6)
  expect(outcome.submissions).toBeGreaterThanOrEqual(2 * outcome.runs)
}, 1_800_000)
