/** Runs scripts and says whether the world stayed honest. */
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Data, Effect, TestClock } from "effect"
import type { Script } from "./Command.js"
import * as Invariants from "./Invariants.js"
import * as World from "./World.js"

/** The adapter or the dispatcher said or did what must not be. */
export class Lie extends Data.TaggedError("Lie")<{ readonly step: string; readonly lies: ReadonlyArray<string> }> {
  override get message(): string {
    return `after ${this.step}:\n    ${this.lies.join("\n    ")}`
  }
}

/** Plays a script; fails at the first step after which an invariant does not hold. */
export const play = (script: Script, pieces: World.Pieces = {}) =>
  Effect.gen(function* () {
    const world = yield* World.make(script, pieces)
    const seen = Invariants.memory()
    const verify = (step: string) =>
      Effect.flatMap(Invariants.check(world, seen), (lies) =>
        lies.length === 0 ? Effect.void : Effect.fail(new Lie({ step, lies }))
      )
    yield* world.settle
    for (const [index, command] of script.commands.entries()) {
      yield* world.perform(command)
      yield* world.settle
      yield* verify(`step ${index + 1}, ${command._tag}`)
    }
    yield* world.heal
    yield* world.settle
    for (const time of ["40 seconds", "2 minutes", "2 minutes"] as const) {
      yield* TestClock.adjust(time)
      yield* world.settle
      yield* verify(`${time} after everything was mended`)
    }
    const lies = yield* Invariants.settled(world)
    if (lies.length > 0) yield* new Lie({ step: "all", lies })
  }).pipe(Effect.provide(TestCluster.layer(World.clusterOptions(script))))
