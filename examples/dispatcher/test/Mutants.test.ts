import { describe, expect, it } from "@effect/vitest"
import * as Model from "./model/Model.js"
import { mutants } from "./model/Mutants.js"

/** Schedules that the model test may need to find a fault. */
const runs = 150

describe("the model test can fail", () => {
  for (const { name, pieces, seed } of mutants) {
    it(`kills: ${name}`, async () => {
      const { report } = await Model.explore({ runs, seed, pieces })
      expect(report, "no schedule showed the fault").toBeDefined()
      expect(report).toContain("after ")
    }, 600_000)
  }
})
