/**
 * Which runtime the hold probe uses.
 *
 * @module
 */
import { Effect } from "effect"
import * as RuntimeRules from "../decide/RuntimeRules.js"
import { isKubeError } from "../kube/KubeError.js"
import { clusterTrainingRuntimes, trainingRuntimes } from "../model/Trainer.js"
import * as Runtimes from "../Runtimes.js"
import { patiently } from "./Patience.js"
import { chosenRuntime, noRuntime, type World } from "./World.js"

/** The spec's own runtime, judged by the rules. */
export const runtimeOfSpec = Effect.fn("Preflight.runtimeOfSpec")(function* (
  { api, config, record }: World,
  spec: Runtimes.Spec
) {
  const kind = Runtimes.kindOf(spec.runtimeRef)
  const asked = `get ${kind}/${spec.runtimeRef.name}`
  const found = yield* Effect.either(Runtimes.read(api, config.namespace, spec.runtimeRef))
  if (found._tag === "Left") {
    const outcome = isKubeError(found.left) ? "unknown" : "failed"
    yield* record("runtime", outcome, asked, found.left.message, "create the runtime, or name another")
    return noRuntime(found.left.message)
  }
  const verdict = RuntimeRules.check(found.right, { kind, use: spec, inPlaceRestarts: config.inPlaceRestarts })
  yield* verdict.broken.length === 0
    ? record(
        "runtime",
        "passed",
        asked,
        ["obeys the rules", ...verdict.cautions, ...verdict.warnings.map((it) => `${it.where} ${it.problem}`)].join(
          "; "
        )
      )
    : record(
        "runtime",
        "failed",
        asked,
        verdict.broken.map((it) => `${it.where} ${it.problem}`).join("; "),
        `use a conforming copy of it: ${verdict.broken.map((it) => `${it.where}: ${it.remedy}`).join("; ")}`
      )
  return chosenRuntime(found.right, kind)
})

/** Without a spec: the first runtime that breaks the fewest rules. */
export const anyRuntime = Effect.fn("Preflight.anyRuntime")(function* ({ api, config, record }: World) {
  const asked = `list trainingruntimes in namespace "${config.namespace}" and clustertrainingruntimes`
  const [own, cluster] = yield* Effect.all(
    [
      Effect.either(patiently(api.list(trainingRuntimes, { namespace: config.namespace }))),
      Effect.either(patiently(api.list(clusterTrainingRuntimes, {})))
    ],
    { concurrency: 2 }
  )
  const candidates = [
    ...(own._tag === "Right" ? own.right.items.map((runtime) => ({ runtime, kind: "TrainingRuntime" })) : []),
    ...(cluster._tag === "Right"
      ? cluster.right.items.map((runtime) => ({ runtime, kind: "ClusterTrainingRuntime" }))
      : [])
  ]
  const judged = candidates.map(({ runtime, kind }) => ({
    runtime,
    kind,
    broken: RuntimeRules.check(runtime, { kind, inPlaceRestarts: config.inPlaceRestarts }).broken.length
  }))
  const chosen = judged.reduce<(typeof judged)[number] | undefined>(
    (best, next) => (best === undefined || next.broken < best.broken ? next : best),
    undefined
  )
  if (chosen !== undefined) {
    const name = `${chosen.kind}/${chosen.runtime.metadata.name}`
    const obeys = chosen.broken === 0
    yield* record(
      "runtime",
      "passed",
      asked,
      obeys
        ? `${name} serves for the probe, and obeys the rules`
        : `${name} serves for the probe; none of the ${judged.length} runtimes obeys the rules`,
      obeys ? undefined : "make a conforming copy of one (runtime conform)"
    )
    return chosenRuntime(chosen.runtime, chosen.kind)
  }
  const failures = [own, cluster].flatMap((it) => (it._tag === "Left" ? [it.left.message] : []))
  const reason =
    failures.length > 0
      ? `no runtime to probe with: ${failures.join("; ")}`
      : `no runtime to probe with: there is no TrainingRuntime in namespace "${config.namespace}" and no ClusterTrainingRuntime`
  yield* record("runtime", "unknown", asked, reason, "create a runtime, name one in the spec, or grant list on them")
  return noRuntime(reason)
})
