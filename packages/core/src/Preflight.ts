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
import type * as GateProof from "./decide/GateProof.js"
import type { Check, Outcome, Report } from "./decide/ProbeReport.js"
import * as WriteGate from "./decide/WriteGate.js"
import * as Gate from "./Gate.js"
import * as HoldProbe from "./internal/HoldProbe.js"
import * as ProbeRuntime from "./internal/ProbeRuntime.js"
import { versions } from "./internal/Versions.js"
import {
  type Chosen,
  noRuntime,
  type Recorder,
  type Timing,
  timing,
  trainerGroup,
  type World
} from "./internal/World.js"
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
        : { outcome: "failed", found: outcome.review.refusal }
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

/** What a preflight found that a later proof starts from: Kueue's version, and the runtime that serves for a dry run. */
export interface Findings {
  readonly report: Report
  readonly served: GateProof.Served
  readonly chosen: Chosen
}

/** A hold in Kueue mode writes the Workload, so that what the round trip showed is not enough. */
const throughKueue = (served: GateProof.Served, trip: Facts.HoldTrip): Facts.HoldTrip => {
  if (trip._tag !== "Passed") return trip
  switch (served._tag) {
    case "NotServed":
      return {
        _tag: "Failed",
        step: "workload",
        words: "API group kueue.x-k8s.io is not served: without Kueue there is no Workload to hold"
      }
    case "Undiscovered":
      return { _tag: "Undecided", reason: `which version of Kueue is served is not known: ${served.message}` }
    case "Served":
      return served.version === "v1beta2"
        ? trip
        : {
            _tag: "Failed",
            step: "workload",
            words: `Kueue is served as ${served.version} only: the server refuses to write a Workload that holds quota through it`
          }
  }
}

/** Keeps checks back, to tell them in their place. */
const keeping = (world: World) =>
  Effect.map(Ref.make<ReadonlyArray<Parameters<Recorder>>>([]), (kept) => ({
    world: { ...world, record: (...check) => Ref.update(kept, (all) => [...all, check]) } satisfies World,
    tell: Effect.flatMap(Ref.get(kept), (all) => Effect.forEach(all, (it) => world.record(...it), { discard: true }))
  }))

/** As `preflight`, with what `writable` needs when it asks again. */
export const run = Effect.fn("Preflight.run")(function* (config: AdapterConfig, options: Options = {}) {
  const given = yield* KubeApi.KubeApi
  const inFlight = yield* Effect.makeSemaphore(Access.concurrency)
  const api = KubeApi.transform((transport) => ({
    ...transport,
    call: (request) => inFlight.withPermits(1)(transport.call(request))
  }))(given)
  const checks = yield* Ref.make<ReadonlyArray<Check>>([])
  const record: Recorder = (id, outcome, asked, found, remedy) => {
    const check: Check = { id, outcome, asked, found, ...(remedy === undefined ? {} : { remedy }) }
    return Effect.zipRight(
      Ref.update(checks, (all) => [...all, check]),
      options.onCheck?.(check) ?? Effect.void
    )
  }
  const world: World = { api, config, timing: { ...timing, ...options.timing }, record }
  const writes = config.access === "read-write"

  const [served, outcomes] = yield* Effect.all([versions(world), Access.ask(api, Access.needs(config))], {
    concurrency: 2
  })
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
      updateWorkloads: Access.both(
        Access.reviewOf(outcomes, Access.updateWorkloads(config.namespace).id),
        Access.reviewOf(outcomes, Access.getWorkloads(config.namespace).id)
      ),
      patchTrainJobs: Access.reviewOf(outcomes, Access.patchTrainJobs(config.namespace).id)
    }
  }

  // Nothing of these depends on another
  const runtimes = yield* keeping(world)
  const [gate, chosen, left] = yield* Effect.all(
    [
      config.kueue === undefined
        ? Effect.succeedNone
        : Effect.asSome(
            Effect.provideService(
              Gate.prove({ namespace: config.namespace, kueue: config.kueue }, served),
              KubeApi.KubeApi,
              api
            )
          ),
      options.spec !== undefined
        ? ProbeRuntime.runtimeOfSpec(runtimes.world, options.spec)
        : writes
          ? ProbeRuntime.anyRuntime(runtimes.world)
          : Effect.succeed(noRuntime("not looked for: the backend is read-only")),
      writes ? Effect.asSome(HoldProbe.strangers(world)) : Effect.succeedNone
    ],
    { concurrency: 3 }
  )
  if (gate._tag === "Some") {
    for (const step of gate.value.steps) {
      yield* record(
        step.id,
        stepOutcome[step.outcome],
        `read ${step.object}`,
        step.found,
        step.remedy === "" ? undefined : step.remedy
      )
    }
    facts = { ...facts, gate: gate.value.gate }
  }
  yield* runtimes.tell

  if (left._tag === "None") {
    yield* record("hold", "skipped", "the hold round trip", "not probed: the backend is read-only")
  } else {
    const captured: Facts.Capture =
      config.kueue === undefined
        ? yield* HoldProbe.capture(world, chosen, Access.reviewOf(outcomes, `create trainjobs.${trainerGroup}`))
        : { _tag: "NotAsked" }
    const trip = yield* HoldProbe.hold(world, chosen, outcomes, captured, left.value)
    facts = {
      ...facts,
      capture: captured,
      hold: config.kueue === undefined ? trip : throughKueue(served, trip)
    }
  }
  const report: Report = { checks: yield* Ref.get(checks), facts, mode: WriteGate.decide(facts) }
  return { report, served, chosen } satisfies Findings
})
