import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, it } from "@effect/vitest"
import * as Command from "./model/Command.js"
import * as Model from "./model/Model.js"

describe("the composed adapter and dispatcher", () => {
  it.live(
    "never say ceased while a process may live, and never start a second copy",
    () => Properties.assert(Command.script, (script) => Model.play(script), 300),
    600_000
  )
})
