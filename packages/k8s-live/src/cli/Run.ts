/**
 * Performs an `Invocation`: asks the adapter, prints, and says the exit code.
 *
 * @module
 */
import { Effect } from "effect"
import { ExitCode, exitCodeOf, failureJson } from "./ExitCode.js"
import type * as Invocation from "./Invocation.js"
import { Terminal } from "./Session.js"

const load = <M>(commands: () => Promise<M>): Effect.Effect<M> => Effect.promise(commands)

// Each command is loaded when it is asked for: what the others need takes time, too
const perform = (invocation: Invocation.Invocation) =>
  Effect.gen(function* () {
    switch (invocation.command) {
      case "preflight":
        return yield* (yield* load(() => import("./commands/Probe.js"))).preflight(invocation)
      case "capabilities":
        return yield* (yield* load(() => import("./commands/Probe.js"))).capabilities(invocation)
      case "rules":
        return yield* (yield* load(() => import("./commands/Probe.js"))).rules(invocation)
      case "runtime check":
        return yield* (yield* load(() => import("./commands/Runtime.js"))).check(invocation)
      case "runtime conform":
        return yield* (yield* load(() => import("./commands/Runtime.js"))).conform(invocation)
      case "output":
        return yield* (yield* load(() => import("./commands/Output.js"))).run(invocation)
      case "watch":
        return yield* (yield* load(() => import("./commands/Watch.js"))).run(invocation)
      case "doctor":
        return yield* (yield* load(() => import("./commands/Doctor.js"))).run(invocation)
      case "explain":
        return yield* (yield* load(() => import("./commands/Explain.js"))).run(invocation)
      case "ceased":
        return yield* (yield* load(() => import("./commands/Ceased.js"))).run(invocation)
    }
  })

/** Runs an invocation to its exit code. Failures are told on standard error; they never escape. */
export const run = (invocation: Invocation.Invocation): Effect.Effect<ExitCode, never, Terminal> =>
  Effect.scoped(perform(invocation)).pipe(
    Effect.catchAll((failure) =>
      Effect.gen(function* () {
        const code = exitCodeOf(failure)
        // Who has stopped reading wants to hear nothing
        if (code === ExitCode.readerGone) return code
        const { err, look } = yield* Terminal
        yield* err(
          invocation.common.json
            ? failureJson(failure._tag, failure.message)
            : `${look.paint("bad", "error:")} ${failure.message}`
        )
        return code
      })
    )
  )
