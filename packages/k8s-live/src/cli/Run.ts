/**
 * Performs an `Invocation`: asks the adapter, prints, and says the exit code.
 *
 * @module
 */
import { Effect } from "effect"
import * as Ceased from "./commands/Ceased.js"
import * as Explain from "./commands/Explain.js"
import * as Output from "./commands/Output.js"
import * as Probe from "./commands/Probe.js"
import * as Runtime from "./commands/Runtime.js"
import * as Watch from "./commands/Watch.js"
import { ExitCode } from "./ExitCode.js"
import type * as Invocation from "./Invocation.js"
import { Terminal } from "./Session.js"

interface Failure {
  readonly _tag: string
  readonly message: string
}

/** The exit code of a failure: what a script can do about it. */
export const exitCodeOf = (failure: Failure): ExitCode => {
  switch (failure._tag) {
    case "UsageError":
    case "KubeConfigError":
    case "EvidenceStoreError":
      return ExitCode.usage
    case "ErrUnsupported":
      return ExitCode.unsupported
    case "ErrNotFound":
    case "KubeNotFound":
      return ExitCode.notFound
    case "KubeForbidden":
    case "KubeUnauthorized":
    case "KubeDenied":
      return ExitCode.notPermitted
    case "KubeUnavailable":
    case "KubeMalformed":
    case "KubeExpired":
    case "KubeConflict":
    case "KubeInvalid":
      return ExitCode.unavailable
    default:
      return ExitCode.fault
  }
}

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
