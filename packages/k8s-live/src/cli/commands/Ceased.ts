/**
 * `ceased`: whether a TrainJob's last execution is surely over.
 *
 * @module
 */
import { Effect } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import * as Render from "../Render.js"
import { connect, print } from "../Session.js"

/** Prints the verdict; exit 0 only when it has ceased. */
export const run = (invocation: Extract<Invocation.Invocation, { readonly command: "ceased" }>) =>
  Effect.gen(function* () {
    const { adapter, namespace } = yield* connect(invocation.common)
    const ref = Invocation.refOf(invocation.job, namespace)
    const verdict = yield* adapter.ceased(ref)
    yield* print(invocation.common, { ref, ...verdict }, (look) => Render.cessation(ref.name, verdict, look))
    return verdict.ceased ? ExitCode.ok : ExitCode.no
  })
