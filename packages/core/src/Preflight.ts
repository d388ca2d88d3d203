/**
 * What this cluster, this namespace and these credentials really allow, asked and tried. Safe on a production cluster: the
 * only object it creates is one suspended TrainJob, which it deletes again whatever happens.
 *
 * @module
 */
import { Effect, Ref } from "effect"
import * as Access from "./Access.js"
import type { AdapterConfig } from "./AdapterConfig.js"
import * as Facts from "./decide/Facts.js"
import type { Check, Outcome, Report } from "./decide/ProbeReport.js"
import * as WriteGate from "./decide/WriteGate.js"
import * as Gate from "./Gate.js"
import * as HoldProbe from "./internal/HoldProbe.js"
import * as ProbeRuntime from "./internal/ProbeRuntime.js"
import { versions } from "./internal/Versions.js"
import { type Recorder, type Timing, timing, trainerGroup, type World } from "./internal/World.js"
import * as KubeApi from "./kube/KubeApi.js"
import type * as Runtimes from "./Runtimes.js"

export { type Timing, timing } from "./internal/World.js"

/** Options of a preflight. */
export interface Options {
  /** The probe uses this spec's runtime; without it the one that breaks the fewest rules. */
  readonly spec?: Runtimes.Spec | undefined
  /** Told every check as it ends, in order. */
  readonly onCheck?: ((check: Check) => Effect.Effect<void>) | undefined
  readonly timing?: Partial<Timing> | undefined
}

const stepOutcome = { proven: "passed", refuted: "failed", unknown: "unknown", skipped: "skipped" } as const

const reviewOutcome = (outcome: Access.Outcome): { readonly outcome: Outcome; readonly found: string } => {
  switch (outcome.review._tag) {
    case "Allowed":
      return { outcome: "passed", found: "allowed" }
    case "Denied":
      return outcome.need.optional
        ? { outcome: "skipped", found: `denied; optional: ${outcome.review.message}` }
        : { outcome: "failed", found: outcome.review.message }
    case "Errored":
      return { outcome: "unknown", found: outcome.review.message }
    case "NotAsked":
      return { outcome: "skipped", found: "not asked" }
  }
}

/**
 * Runs every check and returns the report. `ErrUnsupported` when there is no Trainer 2.2 or later; the port's error when
 * the server cannot be reached or does not accept the credentials; everything else is in the report. Interrupting it
 * deletes the probe before it returns.
 *
 * @example
 * ```ts
 * const report = yield* Preflight.preflight(AdapterConfig.make({ namespace: "team-a" }))
 * ```
 */
export const preflight = Effect.fn("Preflight.preflight")(function* (config: AdapterConfig, options: Options = {}) {
  const { report } = yield* run(config, options)
  return report
})

/** As `preflight`, and with the version of Kueue that was found, which `Gate.prove` needs when it is asked again. */
export const run = Effect.fn("Preflight.run")(function* (config: AdapterConfig, options: Options = {}) {
  const api = yield* KubeApi.KubeApi
  const checks = yield* Ref.make<ReadonlyArray<Check>>([])
  const record: Recorder = (id, outcome, asked, found, remedy) => {
    const check: Check = { id, outcome, asked, found, ...(remedy === undefined ? {} : { remedy }) }
    return Effect.zipRight(
      Ref.update(checks, (all) => [...all, check]),
      options.onCheck?.(check) ?? Effect.void
    )
  }
  const world: World = { api, config, timing: { ...timing, ...options.timing }, record }

  const served = yield* versions(world)

  const outcomes = yield* Access.ask(api, Access.needs(config))
  for (const outcome of outcomes) {
    const { outcome: result, found } = reviewOutcome(outcome)
    yield* record(
      `access: ${outcome.need.id}`,
      result,
      `may one ${Access.sentence(outcome.need)}? (${outcome.need.feeds.join(", ")})`,
      found,
      result === "failed" ? Access.remedy(outcome.need) : undefined
    )
  }

  const output = Access.outputNeeds(config.namespace)
  let facts: Facts.Facts = {
    ...Facts.initial(config),
    review: {
      log: Access.reviewOf(outcomes, output.log.id),
      list: Access.reviewOf(outcomes, output.list.id),
      watch: Access.reviewOf(outcomes, output.watch.id),
      updateWorkloads: Access.reviewOf(outcomes, Access.updateWorkloads(config.namespace).id),
      patchTrainJobs: Access.reviewOf(outcomes, Access.patchTrainJobs(config.namespace).id)
    }
  }

  if (config.kueue !== undefined) {
    const { gate, steps } = yield* Gate.prove({ namespace: config.namespace, kueue: config.kueue }, served)
    for (const step of steps) {
      yield* record(
        step.id,
        stepOutcome[step.outcome],
        `read ${step.object}`,
        step.found,
        step.remedy === "" ? undefined : step.remedy
      )
    }
    facts = { ...facts, gate }
  }

  if (config.access === "read-only") {
    if (options.spec !== undefined) yield* ProbeRuntime.runtimeOfSpec(world, options.spec)
    yield* record("hold", "skipped", "the hold round trip", "not probed: the backend is read-only")
  } else {
    const chosen = yield* options.spec === undefined
      ? ProbeRuntime.anyRuntime(world)
      : ProbeRuntime.runtimeOfSpec(world, options.spec)
    const captured: Facts.Capture =
      config.kueue === undefined
        ? yield* HoldProbe.capture(world, chosen, Access.reviewOf(outcomes, `create trainjobs.${trainerGroup}`))
        : { _tag: "NotAsked" }
    const trip = yield* HoldProbe.hold(world, chosen, outcomes, captured)
    facts = { ...facts, capture: captured, hold: trip }
  }
  // Through v1beta1 alone the server refuses to write a Workload that holds quota, which is what a hold is
  if (
    config.kueue !== undefined &&
    served._tag === "Served" &&
    served.version !== "v1beta2" &&
    facts.hold._tag === "Passed"
  ) {
    facts = {
      ...facts,
      hold: {
        _tag: "Failed",
        step: "workload",
        words: `Kueue is served as ${served.version} only: the server refuses to write a Workload that holds quota through it`
      }
    }
  }
  const report: Report = { checks: yield* Ref.get(checks), facts, mode: WriteGate.decide(facts) }
  return { report, served }
})
