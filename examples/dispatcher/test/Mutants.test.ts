import { describe, expect, it } from "@effect/vitest"
import * as Model from "./model/Model.js"
import { mutants } from "./model/Mutants.js"

describe("the model test can fail", () => {
  for (const { name, pieces, script } of mutants) {
    it(`kills: ${name}`, () => {
      expect(() => Model.run(script, pieces)).toThrow(/^after /)
    })
  }
  for (const { name, script } of mutants) {
    it(`and what is right passes its script: ${name}`, () => {
      Model.run(script)
    })
  }
})
