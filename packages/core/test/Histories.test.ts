import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { it } from "@effect/vitest"
import { FastCheck } from "effect"
import * as Histories from "./Histories.js"

it("of any history, however the watch is disturbed, the cause that is told was one, or Unknown with what was not seen", () => {
  FastCheck.assert(
    FastCheck.property(Histories.history, (history) => void Histories.run(history)),
    Properties.parameters<[Histories.History]>(60)
  )
}, 3_600_000)
