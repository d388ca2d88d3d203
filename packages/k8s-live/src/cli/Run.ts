/**
 * Performs an `Invocation`: asks the adapter, prints, and says the exit code.
 *
 * @module
 */
import { Effect } from "effect"
import * as Ceased from "./commands/Ceased.js"
import * as Doctor from "./commands/Doctor.js"
import * as Explain from "./commands/Explain.js"
import * as Output from "./commands/Output.js"
import * as Probe from "./commands/Probe.js"
import * as Runtime from "./commands/Runtime.js"
import * as Watch from "./commands/Watch.js"
import { type ExitCode, exitCodeOf } from "./ExitCode.js"
import type * as Invocation from "./Invocation.js"
import { Terminal } from "./Session.js"

const perform = (invocation: Invocation.Invocation) =>
  Effect.suspend(() => {
    switch (invocation.command) {
      case "preflight":
        return Probe.preflight(invocation)
      case "capabilities":
        return Probe.capabilities(invocation)
      case "rules":
        return Probe.rules(invocation)
      case "runtime check":
        return Runtime.check(invocation)
      case "runtime conform":
        return Runtime.conform(invocation)
      case "output":
        return Output.run(invocation)
      case "watch":
        return Watch.run(invocation)
      case "doctor":
        return Doctor.run(invocation)
      case "explain":
        return Explain.run(invocation)
      case "ceased":
        return Ceased.run(invocation)
    }
  })

/** Runs an invocation to its exit code. Failures are told on standard error; they never escape. */
export const run = (invocation: Invocation.Invocation): Effect.Effect<ExitCode, never, Terminal> =>
  Effect.scoped(perform(invocation)).pipe(
    Effect.catchAll((failure) =>
      Effect.gen(function* () {
        const { err, look } = yield* Terminal
        yield* err(
          invocation.common.json
            ? JSON.stringify({ error: { tag: failure._tag, message: failure.message } })
            : `${look.paint("bad", "error:")} ${failure.message}`
        )
        return exitCodeOf(failure)
      })
    )
  )
