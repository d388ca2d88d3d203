/**
 * `explain`: the story of a TrainJob.
 *
 * @module
 */
import { Effect } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import * as RenderExplanation from "../RenderExplanation.js"
import { connect, print } from "../Session.js"

/** Prints the story, from kept evidence alone when the cluster does not answer. */
export const run = ({ common, job }: Extract<Invocation.Invocation, { readonly command: "explain" }>) =>
  Effect.gen(function* () {
    const { adapter, namespace } = yield* connect(common, { mayBeAway: common.evidence !== undefined })
    const ref = Invocation.refOf(job, namespace)
    const story = yield* adapter.explain(ref)
    yield* print(common, { ref, ...story }, (look) => RenderExplanation.explanation(story, look))
    return ExitCode.ok
  })
