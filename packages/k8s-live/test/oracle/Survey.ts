/**
 * Asks the adapter everything about a random cluster, and holds every yes against the oracle.
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type * as Facts from "@dispatch-kubeflow/core/decide/Facts"
import * as WriteGate from "@dispatch-kubeflow/core/decide/WriteGate"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Effect, Either, Fiber, Option, TestClock } from "effect"
import * as RandomCluster from "./RandomCluster.js"
import * as Truth from "./Truth.js"

/** An adapter that is wrong on purpose. */
export interface Mutant {
  readonly name: string
  /** Whether there is something in the cluster that it gets wrong; elsewhere it is the adapter itself. */
  readonly touches: (random: RandomCluster.Random) => boolean
  /** What it does not see, or sees otherwise. */
  readonly blind?: (transport: KubeTransport, random: RandomCluster.Random) => KubeTransport
  /** What it believes. */
  readonly believes?: (facts: Facts.Facts) => Facts.Facts
  /** What it says. */
  readonly says?: (answer: CapabilityTable.Answer) => CapabilityTable.Answer
  /** It accepts every runtime. */
  readonly lenient?: boolean
  /** It never asks twice. */
  readonly stale?: boolean
}

/** Lets the virtual clock run until an effect is done. */
const drive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    // A daemon: what never ends is told, and not waited for once more
    const fiber = yield* Effect.forkDaemon(effect)
    for (let turn = 0; turn < 1000; turn += 1) {
      // What waits for no time is done without a step of the clock, which is dear
      for (let round = 0; round < 50 && fiber.unsafePoll() === null; round += 1) yield* Effect.yieldNow()
      const exit = yield* Fiber.poll(fiber)
      if (Option.isSome(exit)) return yield* exit.value
      // Long waits in long steps: what looks again and again then looks less often
      yield* TestClock.adjust(turn < 8 ? 500 : 4000)
    }
    return yield* Effect.dieMessage("not done after 1000 steps of the clock")
  })

/** What the adapter said of a random cluster that is not so, and how often it said yes. */
export interface Found {
  readonly contradictions: ReadonlyArray<string>
  readonly yes: ReadonlyArray<string>
}

/** Asks, and compares. */
export const survey = (random: RandomCluster.Random, mutant?: Mutant): Effect.Effect<Found> =>
  Effect.gen(function* () {
    const { door, world } = yield* RandomCluster.build(random)
    const contradictions: Array<string> = []
    const yes: Array<string> = []
    const config = mutant?.lenient === true ? { ...world.config, inPlaceRestarts: "accept" as const } : world.config
    const blind = mutant?.blind
    const api = blind === undefined ? world.api : KubeApi.transform((it) => blind(it, random))(world.api)
    const adapter = yield* Adapter.make(config).pipe(
      Effect.provideService(KubeApi.KubeApi, api),
      Effect.provide(EvidenceStore.layerMemory())
    )
    const spec = { runtimeRef: { name: RandomCluster.runtimeNames[random.runtime] } }
    const options = random.told ? { spec } : {}
    const believed = mutant?.believes
    const answers = Effect.map(
      believed === undefined
        ? Effect.orDie(adapter.capabilities())
        : Effect.map(adapter.facts, (facts) => CapabilityTable.answer(believed(facts))),
      (all) => (mutant?.says === undefined ? all : all.map(mutant.says))
    )
    const verdict = (fresh: WriteGate.Verdict) =>
      believed === undefined
        ? Effect.succeed(fresh)
        : Effect.map(adapter.facts, (facts) => WriteGate.decide(believed(facts)))
    const judge = (when: string, all: ReadonlyArray<CapabilityTable.Answer>) =>
      Effect.forEach(
        all,
        ({ capability, support }) =>
          Effect.gen(function* () {
            if (support.answer !== "yes") {
              if ((support.reason ?? "") === "") contradictions.push(`${when}: ${capability} has no reason`)
              return
            }
            yes.push(capability)
            if (!(yield* Truth.warranted(door, random, capability))) {
              contradictions.push(`${when}: ${capability} is not yes (${support.reason ?? "no reason given"})`)
            }
          }),
        { discard: true }
      )
    const judgeVerdict = (when: string, found: WriteGate.Verdict) =>
      Effect.gen(function* () {
        if (found._tag !== "Writable") return
        yes.push("writable")
        if (!(yield* Truth.writable(door, random))) contradictions.push(`${when}: not writable`)
      })

    const before = yield* drive(answers)
    const report = yield* drive(Effect.either(adapter.preflight(options)))
    // The garbage collector follows the deletion
    yield* TestClock.adjust("2 seconds")
    const left = yield* Truth.leftBehind(door)
    const after = yield* drive(answers)
    const ofSpec = yield* drive(Effect.either(adapter.capabilities(spec)))
    const writable = yield* drive(Effect.flatMap(adapter.writable, verdict))

    if (world.seen.most > 16) contradictions.push(`${world.seen.most} requests in flight`)
    if (left.length > 0) {
      const owned =
        Either.isRight(report) &&
        report.right.checks.some(
          ({ found, id, outcome, remedy }) =>
            id.startsWith("hold.") &&
            outcome === "failed" &&
            left.some((name) => `${found} ${remedy ?? ""}`.includes(name))
        )
      // Without a collector the JobSet stays, whatever one does
      if (!owned && !random.without.includes("garbage-collector")) {
        contradictions.push(`left behind without a word: ${left.join(", ")}`)
      }
    }
    // What breaks a rule is never answered for
    if (Either.isRight(ofSpec) && (random.runtime === "shipped" || random.runtime === "absent")) {
      contradictions.push(`a runtime that is ${random.runtime} was answered for`)
    }
    yield* judge("before", before)
    yield* judge("after", after)
    if (Either.isRight(ofSpec)) {
      const said = mutant?.says === undefined ? ofSpec.right : ofSpec.right.map(mutant.says)
      yield* judge(
        "with a spec",
        said.filter(({ capability }) => capability === "ProcsPerNode")
      )
    }
    if (Either.isRight(report)) yield* judgeVerdict("preflight", report.right.mode)
    yield* judgeVerdict("after", writable)

    if (random.later !== undefined) {
      yield* world.pass
      // Asked before every write that starts pods, so what has changed counts at once
      const again = mutant?.stale === true ? writable : yield* drive(Effect.flatMap(adapter.writable, verdict))
      yield* judgeVerdict("later", again)
      if (mutant?.stale !== true) yield* drive(Effect.ignore(adapter.preflight(options)))
      yield* judge("later", yield* drive(answers))
    }
    return { contradictions, yes }
  }).pipe(Effect.provide(RandomCluster.layer(random)))
