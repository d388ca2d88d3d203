/** Runs scripts and says whether the world stayed honest. */
import type * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Cause, Data, Effect, Exit, FastCheck, type Scope } from "effect"
import * as Command from "./Command.js"
import type { Script } from "./Command.js"
import * as Invariants from "./Invariants.js"
import * as VirtualTime from "@dispatch-kubeflow/testkit/VirtualTime"
import * as World from "./World.js"

/** The adapter or the dispatcher said or did what must not be. */
export class Lie extends Data.TaggedError("Lie")<{ readonly step: string; readonly lies: ReadonlyArray<string> }> {
  override get message(): string {
    return `after ${this.step}:\n    ${this.lies.join("\n    ")}`
  }
}

const verifier = (world: World.World) => {
  const seen = Invariants.memory()
  return (step: string, command: string) =>
    Effect.flatMap(Invariants.check(world, seen, command), (lies) =>
      lies.length === 0 ? Effect.void : Effect.fail(new Lie({ step, lies }))
    )
}

type Verify = ReturnType<typeof verifier>

/** Plays the commands; fails at the first step after which an invariant does not hold. */
const happen = (world: World.World, verify: Verify) =>
  Effect.gen(function* () {
    yield* world.settle
    for (const [index, command] of world.script.commands.entries()) {
      yield* world.perform(command)
      yield* world.settle
      yield* verify(`step ${index + 1}, ${command._tag}`, command._tag)
    }
  })

/**
 * Mends everything, and waits until what can go on has gone on. A machine whose name another one has taken is at first left
 * as it is: nothing in the cluster is broken, nobody knows of it, and its runs have to wait and to say so, however long.
 * Then somebody finds it, and they have to go on.
 */
const mend = (world: World.World, verify: Verify) =>
  Effect.gen(function* () {
    yield* world.heal
    yield* world.settle
    for (const [seconds, step] of [
      [15, "Mend"],
      [75, "Restart"]
    ] as const) {
      yield* world.time.advance(seconds * 1000)
      yield* world.settle
      yield* verify(`${seconds} s after everything was mended`, step)
    }
    if (yield* world.retire) {
      yield* world.settle
      yield* verify("the former machines were switched off", "Retire")
      yield* world.time.advance(75_000)
      yield* world.settle
      yield* verify("75 s after the former machines were switched off", "Restart")
    }
    // Back-off may keep a run waiting for some minutes, but not for ever
    const rest = Effect.zipWith(Invariants.settled(world), Invariants.stuck(world), (settled, waits) => [
      ...settled,
      ...waits
    ])
    if ((yield* rest).length > 0) {
      yield* world.time.advance(300_000)
      yield* world.settle
    }
    const lies = yield* rest
    if (lies.length > 0) return yield* new Lie({ step: "all", lies })
  })

/** Plays what happens in a cluster of its own. */
const played = <A, E>(
  script: Script,
  options: TestCluster.Options,
  effect: Effect.Effect<A, E, VirtualTime.VirtualTime | Cluster.Cluster | TestCluster.TestCluster | Scope.Scope>
): A => {
  const end = VirtualTime.play(
    Effect.scoped(Effect.provide(effect, TestCluster.layer({ ...World.clusterOptions(script), ...options }))),
    script.seed
  )
  if (Exit.isFailure(end)) throw Cause.squash(end.cause)
  return end.value
}

/** Plays a script from start to end; throws the `Lie`. */
export const run = (script: Script, pieces: World.Pieces = {}): void =>
  played(
    script,
    {},
    Effect.gen(function* () {
      const world = yield* World.make(script, pieces)
      const verify = verifier(world)
      yield* happen(world, verify)
      yield* mend(world, verify)
    })
  )

/** Plays a script with all its invariants, and looks at the world before anything is mended. */
export const see = <A>(
  script: Script,
  look: (world: World.World) => Effect.Effect<A>,
  given: {
    /** What the cluster is made with beside what every world has. */
    readonly cluster?: TestCluster.Options
    /** What the world is like before anything happens. */
    readonly arrange?: (world: World.World) => Effect.Effect<void>
  } = {}
): A =>
  played(
    script,
    given.cluster ?? {},
    Effect.gen(function* () {
      const world = yield* World.make(script)
      if (given.arrange !== undefined) yield* given.arrange(world)
      const verify = verifier(world)
      yield* happen(world, verify)
      const seen = yield* look(world)
      yield* mend(world, verify)
      return seen
    })
  )

/** A schedule takes its time in one go; who watches wants to be told now and then that it goes on. */
export const pause = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

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
    FastCheck.asyncProperty(Command.script, async (script) => {
      options.onRun?.()
      run(script, options.pieces)
      await pause()
    }),
    { numRuns: options.runs, seed: options.seed, endOnFailure: options.shrink !== true }
  )
  return { runs: details.numRuns, report: details.failed ? FastCheck.defaultReportMessage(details) : undefined }
}
