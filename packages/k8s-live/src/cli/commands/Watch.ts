/**
 * `watch`: what happens to TrainJobs.
 *
 * @module
 */
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import { Effect, Option, Stream } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import * as Render from "../Render.js"
import { connect, json, Terminal } from "../Session.js"

const isOver = (update: Update.Update): boolean =>
  update.outcome !== undefined || update.state === "Gone" || update.state === "Succeeded" || update.state === "Failed"

/** How long `watch --once` waits for a job that went away between the list and the watch. */
const onceLimit = "10 seconds"

/** Of so many TrainJobs the last line is known, so that it is not told twice. */
const linesKept = 1000

/** Prints every update until the scope of the watch is over, or for ever. */
export const run = (invocation: Extract<Invocation.Invocation, { readonly command: "watch" }>) =>
  Effect.gen(function* () {
    const { out, look } = yield* Terminal
    const { adapter, api, namespace } = yield* connect(invocation.common)
    // The API server answers a list in a namespace that does not exist with an empty one
    if (invocation.job === undefined) {
      yield* Effect.catchTag(api.get(Core.namespaces, { name: namespace }), "KubeForbidden", () => Effect.void)
    }
    const scope =
      invocation.job !== undefined
        ? Watch.ref(Invocation.refOf(invocation.job, namespace))
        : invocation.run !== undefined
          ? Watch.run(namespace, invocation.run)
          : Watch.namespace(namespace)
    // An update may differ in what only machines are told
    const lines = new Map<string, string>()
    const tell = (update: Update.Update): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (invocation.common.json) return out(json(update))
        const line = Render.update(update, look)
        const repeated = lines.get(update.ref.name) === line
        lines.delete(update.ref.name)
        lines.set(update.ref.name, line)
        for (const oldest of lines.keys()) if (lines.size > linesKept) lines.delete(oldest)
        return repeated ? Effect.void : out(`${line}\n`)
      })
    const told = Stream.tap(adapter.watch(scope), tell)

    if (invocation.once) {
      if (invocation.job !== undefined) {
        yield* Stream.runDrain(Stream.take(told, 1))
        return ExitCode.ok
      }
      const listed = yield* api.list(Trainer.trainJobs, { namespace })
      const names = new Set(listed.items.map(({ metadata }) => metadata.name))
      const mine = (name: string): boolean => invocation.run === undefined || name.startsWith(`${invocation.run}-`)
      for (const name of names) if (!mine(name)) names.delete(name)
      if (names.size === 0) {
        if (!invocation.common.json) yield* out(`No TrainJobs in namespace "${namespace}".\n`)
        return ExitCode.ok
      }
      yield* told.pipe(
        Stream.takeUntil((update) => {
          names.delete(update.ref.name)
          return names.size === 0
        }),
        Stream.interruptAfter(onceLimit),
        Stream.runDrain
      )
      return ExitCode.ok
    }
    if (invocation.untilOver) {
      const last = yield* Stream.runLast(Stream.takeUntil(told, isOver))
      return Option.exists(last, (update) => update.outcome === "Succeeded") ? ExitCode.ok : ExitCode.no
    }
    yield* Stream.runDrain(told)
    return ExitCode.ok
  })
