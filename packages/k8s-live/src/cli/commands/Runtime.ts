/**
 * `runtime check` and `runtime conform`: the rules a runtime must not break, and a copy that does not.
 *
 * @module
 */
import * as RuntimeRules from "@dispatch-kubeflow/core/decide/RuntimeRules"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Runtimes from "@dispatch-kubeflow/core/Runtimes"
import { Effect } from "effect"
import { ExitCode } from "../ExitCode.js"
import type * as Invocation from "../Invocation.js"
import * as Manifest from "../Manifest.js"
import * as Render from "../Render.js"
import { type Connected, connect, json, print, Terminal } from "../Session.js"
import type * as Values from "../Values.js"

type Of<C extends Invocation.Invocation["command"]> = Extract<Invocation.Invocation, { readonly command: C }>

const judgeAll = ({ adapter, api, namespace }: Connected) =>
  Effect.gen(function* () {
    const [cluster, own] = yield* Effect.all(
      [api.list(Trainer.clusterTrainingRuntimes, {}), api.list(Trainer.trainingRuntimes, { namespace })],
      { concurrency: 2 }
    )
    const judge = (kind: Values.RuntimeName["kind"], items: ReadonlyArray<Trainer.TrainingRuntime>) =>
      items.map((runtime) => RuntimeRules.check(runtime, { kind, inPlaceRestarts: adapter.config.inPlaceRestarts }))
    return {
      verdicts: [...judge("ClusterTrainingRuntime", cluster.items), ...judge("TrainingRuntime", own.items)],
      unreadable: [
        ...cluster.undecodable.map((it) => ({ runtime: `ClusterTrainingRuntime/${it.name ?? "?"}`, issue: it.issue })),
        ...own.undecodable.map((it) => ({ runtime: `TrainingRuntime/${it.name ?? "?"}`, issue: it.issue }))
      ]
    }
  })

/** Prints every rule of one runtime or of all; exit 3 when one is broken. */
export const check = ({ common, runtime }: Of<"runtime check">) =>
  Effect.gen(function* () {
    const connected = yield* connect(common)
    const { namespace } = connected
    const { verdicts, unreadable } = yield* runtime === undefined
      ? judgeAll(connected)
      : Effect.map(connected.adapter.runtime({ runtimeRef: runtime }), (verdict) => ({
          verdicts: [verdict],
          unreadable: []
        }))
    yield* print(
      common,
      {
        namespace,
        runtimes: verdicts.map(({ runtime: name, findings, warnings, cautions, broken }) => ({
          runtime: name,
          conforms: broken.length === 0,
          findings,
          warnings,
          cautions
        })),
        unreadable
      },
      (look) => Render.runtimes(verdicts, unreadable, look)
    )
    return unreadable.length === 0 && verdicts.every(({ broken }) => broken.length === 0) ? ExitCode.ok : ExitCode.no
  })

/** Prints a conforming copy; what only a person can mend goes to standard error, and makes it exit 3. */
export const conform = ({ common, name, runtime }: Of<"runtime conform">) =>
  Effect.gen(function* () {
    const { out, err, look } = yield* Terminal
    const { api, namespace } = yield* connect(common)
    const found = yield* Runtimes.read(api, namespace, runtime)
    const conformed = RuntimeRules.conform(found, { kind: runtime.kind, name })
    const code = conformed.remaining.length === 0 ? ExitCode.ok : ExitCode.no
    if (common.json) {
      const { changes, remaining, runtime: manifest } = conformed
      yield* out(json({ namespace, changes, remaining, manifest }))
      return code
    }
    yield* out(Manifest.conformed(`${runtime.kind}/${runtime.name}`, conformed))
    if (conformed.remaining.length > 0) yield* err(Render.remaining(conformed.remaining, look))
    return code
  })
