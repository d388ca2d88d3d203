import { describe, expect, it } from "@effect/vitest"
import * as Model from "./model/Model.js"
import { mutants } from "./model/Mutants.js"

describe("the model test can fail", () => {
  for (const { name, pieces, script } of mutants) {
    it(`kills: ${name}`, async () => {
      await expect(Model.run(script, pieces)).rejects.toThrow(/^after /)
    })
    it(`and not what is right: ${name}`, () => Model.run(script))
  }
})
