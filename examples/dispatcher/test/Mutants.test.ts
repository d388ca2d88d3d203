import { describe, expect, it } from "@effect/vitest"
import * as Model from "./model/Model.js"
import { mutants } from "./model/Mutants.js"

// A script takes a second or two of CPU, whatever else the machine does
const patience = 600_000

describe("the model test can fail", () => {
  for (const { name, pieces, script } of mutants) {
    it(
      `kills: ${name}`,
      async () => {
        expect(() => Model.run(script, pieces)).toThrow(/^after /)
        await Model.pause()
      },
      patience
    )
    it(
      `and what is right passes its script: ${name}`,
      async () => {
        Model.run(script)
        await Model.pause()
      },
      patience
    )
  }
})
