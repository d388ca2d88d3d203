/**
 * What this backend can do, how sure that is, and why: the fourteen answers, from what configuration says, what the
 * preflight found, and what was refused since.
 *
 * @module
 */
import { Effect, Ref } from "effect"
import * as Access from "./Access.js"
import type { AdapterConfig } from "./AdapterConfig.js"
import { type ErrNotFound, ErrUnsupported } from "./AdapterError.js"
import * as CapabilityTable from "./decide/CapabilityTable.js"
import * as Facts from "./decide/Facts.js"
import type * as GateProof from "./decide/GateProof.js"
import type { Report } from "./decide/ProbeReport.js"
import * as RecoveryRules from "./decide/RecoveryRules.js"
import * as RuntimeRules from "./decide/RuntimeRules.js"
import * as WriteGate from "./decide/WriteGate.js"
import * as Gate from "./Gate.js"
import * as HoldProbe from "./internal/HoldProbe.js"
import * as ProbeRuntime from "./internal/ProbeRuntime.js"
import { type Chosen, timing, type World } from "./internal/World.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError, KubeForbidden } from "./kube/KubeError.js"
import * as Preflight from "./Preflight.js"
import * as Runtimes from "./Runtimes.js"

/** The capabilities of one backend. Its methods need nothing from the context. */
export interface Capabilities {
  /**
   * All fourteen answers, in order. Before a preflight it asks three permissions; after one it makes no request, and with
   * a spec exactly one, for the spec's runtime. `ErrUnsupported` lists every rule that the runtime breaks.
   */
  readonly capabilities: (
    spec?: Runtimes.Spec
  ) => Effect.Effect<ReadonlyArray<CapabilityTable.Answer>, ErrUnsupported | ErrNotFound | KubeError>
  /** The judgement of a runtime: every rule, passed or broken, and the warnings. One request. */
  readonly runtime: (
    spec: Runtimes.Spec
  ) => Effect.Effect<RuntimeRules.Verdict, ErrUnsupported | ErrNotFound | KubeError>
  /** Per rule of a recovery policy what the backend can do. Cost and errors of `capabilities()`. */
  readonly rules: (policy: RecoveryRules.Policy) => Effect.Effect<ReadonlyArray<RecoveryRules.Answer>>
  /** Runs the preflight and remembers what it found. */
  readonly preflight: (options?: Preflight.Options) => Effect.Effect<Report, ErrUnsupported | KubeError>
  /**
   * Whether writing is allowed; ask before every write that starts pods. What it rests on is proven anew: in Kueue mode the
   * gate, in plain mode, by one dry run, that Kueue leaves the namespace alone.
   */
  readonly writable: Effect.Effect<WriteGate.Verdict>
  /** A refusal that was met: the capability that needed the permission is lowered until it is probed again. */
  readonly lower: (refusal: KubeForbidden) => Effect.Effect<void>
  /** What is known now, without asking anything. */
  readonly facts: Effect.Effect<Facts.Facts>
}

interface State {
  readonly facts: Facts.Facts
  /** Set by a preflight: nothing is asked any more, and Kueue's version is known. */
  readonly probed: { readonly served: GateProof.Served } | undefined
  /** The runtime that serves for the dry run of plain mode, once there is one. */
  readonly chosen: Chosen | undefined
}

type Reviews = Facts.Facts["review"]

const lowered = (refusal: KubeForbidden): keyof Reviews | undefined => {
  const { group, plural, subresource, verb } = refusal.request
  if (group === "" && plural === "pods") {
    if (subresource === "log") return verb === "get" ? "log" : undefined
    if (subresource !== undefined) return undefined
    return verb === "list" ? "list" : verb === "watch" ? "watch" : undefined
  }
  if (subresource !== undefined) return undefined
  if (group === "kueue.x-k8s.io" && plural === "workloads" && (verb === "update" || verb === "get")) {
    return "updateWorkloads"
  }
  if (group === "trainer.kubeflow.org" && plural === "trainjobs" && verb === "patch") return "patchTrainJobs"
  return undefined
}

const runtimeFact = (verdict: RuntimeRules.Verdict): Facts.Runtime => {
  const common = { where: verdict.runtime, cautions: verdict.cautions }
  switch (verdict.policy._tag) {
    case "Torch":
      return { _tag: "Torch", ...common }
    case "NoVariant":
      return { _tag: "NoVariant", ...common }
    case "Absent":
      return { _tag: "NoPolicy", ...common }
    case "Other":
      // Never answered: such a runtime breaks rule 2, which nothing turns into a warning
      return { _tag: "NoVariant", ...common }
  }
}

/** The error of a runtime that breaks rules: each broken field with the value to set. */
export const refusal = (verdict: RuntimeRules.Verdict): ErrUnsupported =>
  new ErrUnsupported({
    operation: `running on ${verdict.runtime}`,
    reason: `the runtime breaks ${new Set(verdict.broken.map((it) => it.id)).size} of the ${RuntimeRules.rules.length} rules`,
    details: verdict.broken
  })

/** Makes the capabilities of a configured backend over the `KubeApi` of the context. */
export const make = Effect.fn("Capabilities.make")(function* (config: AdapterConfig) {
  const api = yield* KubeApi.KubeApi
  const state = yield* Ref.make<State>({ facts: Facts.initial(config), probed: undefined, chosen: undefined })
  const output = Access.outputNeeds(config.namespace)

  /** The facts, with the output permissions asked when no preflight has. */
  const known = Effect.gen(function* () {
    const { facts, probed } = yield* Ref.get(state)
    if (probed !== undefined) return facts
    const outcomes = yield* Access.ask(api, [output.log, output.list, output.watch])
    return {
      ...facts,
      review: {
        ...facts.review,
        log: Access.reviewOf(outcomes, output.log.id),
        list: Access.reviewOf(outcomes, output.list.id),
        watch: Access.reviewOf(outcomes, output.watch.id)
      }
    } satisfies Facts.Facts
  })

  const runtime: Capabilities["runtime"] = Effect.fn("Capabilities.runtime")(function* (spec: Runtimes.Spec) {
    const found = yield* Runtimes.read(api, config.namespace, spec.runtimeRef)
    return RuntimeRules.check(found, {
      kind: Runtimes.kindOf(spec.runtimeRef),
      inPlaceRestarts: config.inPlaceRestarts,
      use: spec
    })
  })

  const capabilities: Capabilities["capabilities"] = Effect.fn("Capabilities.capabilities")(function* (
    spec?: Runtimes.Spec
  ) {
    if (spec === undefined) return CapabilityTable.answer(yield* known)
    const [facts, verdict] = yield* Effect.all([known, runtime(spec)], { concurrency: 2 })
    if (verdict.broken.length > 0) return yield* refusal(verdict)
    return CapabilityTable.answer({ ...facts, runtime: runtimeFact(verdict) })
  })

  const service: Capabilities = {
    capabilities,
    runtime,
    rules: (policy) =>
      Effect.map(Ref.get(state), ({ facts }) => RecoveryRules.rules(policy, CapabilityTable.support("Hold", facts))),
    preflight: Effect.fn("Capabilities.preflight")(function* (options?: Preflight.Options) {
      const { chosen, report, served } = yield* Effect.provideService(
        Preflight.run(config, options),
        KubeApi.KubeApi,
        api
      )
      yield* Ref.set(state, { facts: report.facts, probed: { served }, chosen })
      return report
    }),
    writable: Effect.gen(function* () {
      const { chosen, facts, probed } = yield* Ref.get(state)
      if (config.access === "read-only") return WriteGate.decide(facts)
      if (config.kueue === undefined) {
        const world: World = { api, config, timing, record: () => Effect.void }
        const runtime = chosen?._tag === "Chosen" ? chosen : yield* ProbeRuntime.anyRuntime(world)
        const capture = yield* HoldProbe.capture(world, runtime, { _tag: "NotAsked" })
        yield* Ref.update(state, (now) => ({
          ...now,
          // The runtime may be what the dry run failed on: then the next one looks for another
          chosen: capture._tag === "Unknown" ? undefined : runtime,
          facts: { ...now.facts, capture }
        }))
        return WriteGate.decide({ ...facts, capture })
      }
      // Without a preflight Kueue's version is not known, and a hold was not proven either: it stays unproven
      if (probed === undefined) return WriteGate.decide(facts)
      const { gate } = yield* Effect.provideService(
        Gate.prove({ namespace: config.namespace, kueue: config.kueue }, probed.served),
        KubeApi.KubeApi,
        api
      )
      yield* Ref.update(state, (now) => ({ ...now, facts: { ...now.facts, gate } }))
      return WriteGate.decide({ ...facts, gate })
    }).pipe(Effect.withSpan("Capabilities.writable")),
    lower: (error) => {
      const key = lowered(error)
      return key === undefined
        ? Effect.void
        : Ref.update(state, (now) => ({
            ...now,
            facts: {
              ...now.facts,
              review: {
                ...now.facts.review,
                [key]: { _tag: "Denied", message: error.message, refusal: error.message }
              }
            }
          }))
    },
    facts: Effect.map(Ref.get(state), ({ facts }) => facts)
  }
  return service
})
