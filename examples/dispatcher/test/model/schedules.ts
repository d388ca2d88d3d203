/** The model test, in parts that run side by side. */
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { it } from "@effect/vitest"
import { FastCheck } from "effect"
import * as Command from "./Command.js"
import * as Model from "./Model.js"

const parts = 2
const schedules = 300

/** Plays a part of the schedules. `FC_RUNS` is how many there are in all, `FC_SEED` repeats what the first part found. */
export const part = (number: number): void => {
  const { numRuns = schedules, seed, ...parameters } = Properties.parameters<[Command.Script]>(schedules)
  it(`never says ceased while a process may live, and never starts a second copy: N01 N02 N03 N04 N07 N09 N10 N14, part ${number} of ${parts}`, async () => {
    await FastCheck.assert(
      FastCheck.asyncProperty(Command.script, async (script) => {
        Model.run(script)
        await Model.pause()
      }),
      {
        ...parameters,
        numRuns: Math.ceil(numRuns / parts),
        ...(seed === undefined ? {} : { seed: seed + number - 1 })
      }
    )
  }, 3_600_000)
}
