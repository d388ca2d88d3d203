/** Runs scripts and says whether the world stayed honest. */
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Data, Effect, FastCheck, TestClock, TestContext } from "effect"
import * as Command from "./Command.js"
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
    const verify = (step: string, command: string) =>
      Effect.flatMap(Invariants.check(world, seen, command), (lies) =>
        lies.length === 0 ? Effect.void : Effect.fail(new Lie({ step, lies }))
      )
    yield* world.settle
    for (const [index, command] of script.commands.entries()) {
      yield* world.perform(command)
      yield* world.settle
      yield* verify(`step ${index + 1}, ${command._tag}`, command._tag)
    }
    yield* world.heal
    yield* world.settle
    for (const time of ["40 seconds", "3 minutes"] as const) {
      yield* TestClock.adjust(time)
      yield* world.settle
      yield* verify(`${time} after everything was mended`, "Restart")
    }
    const lies = yield* Invariants.settled(world)
    if (lies.length > 0) yield* new Lie({ step: "all", lies })
  }).pipe(Effect.provide(TestCluster.layer(World.clusterOptions(script))))

/** A script that takes longer than this (of real time) hangs. */
const patience = 120_000

/** Plays a script from start to end; rejects with the `Lie`, or when it hangs. */
export const run = async (script: Script, pieces: World.Pieces = {}): Promise<void> => {
  const hangs = new AbortController()
  const timer = setTimeout(() => hangs.abort(), patience)
  const late = new Promise<never>((_, reject) => {
    hangs.signal.addEventListener("abort", () => reject(new Error(`it hangs: nothing after ${patience} ms`)))
  })
  const played = Effect.runPromise(play(script, pieces).pipe(Effect.scoped, Effect.provide(TestContext.TestContext)), {
    signal: hangs.signal
  })
  try {
    // What hangs need not heed an interruption either
    await Promise.race([played, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The outcome of many scripts: how many ran, and fast-check's report of the first lie. */
export interface Outcome {
  readonly runs: number
  readonly report: string | undefined
}

/** Plays `runs` scripts of a seed. Without `shrink` it ends at the first lie, as it was found. */
export const explore = async (options: {
  readonly runs: number
  readonly seed: number
  readonly pieces?: World.Pieces | undefined
  readonly shrink?: boolean | undefined
  readonly onRun?: (() => void) | undefined
}): Promise<Outcome> => {
  const details = await FastCheck.check(
    FastCheck.asyncProperty(Command.script, (script) => {
      options.onRun?.()
      return run(script, options.pieces)
    }),
    { numRuns: options.runs, seed: options.seed, endOnFailure: options.shrink !== true }
  )
  return { runs: details.numRuns, report: details.failed ? FastCheck.defaultReportMessage(details) : undefined }
}
