import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { it } from "@effect/vitest"
import { FastCheck } from "effect"
import * as Schedules from "./Schedules.js"

it("O01, O02, O03, O06, O20: of any log, whatever happens to its readers, what is delivered is the log, or a gap says what is missing", () => {
  FastCheck.assert(
    FastCheck.property(Schedules.schedule, (schedule) => void Schedules.run(schedule)),
    Properties.parameters<[Schedules.Schedule]>(100)
  )
}, 3_600_000)
