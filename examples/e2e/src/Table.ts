/**
 * The preflight, the table of capabilities and the recovery rules, as claims.
 *
 * @module
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as RecoveryRules from "@dispatch-kubeflow/core/decide/RecoveryRules"
import type * as Support from "@dispatch-kubeflow/core/decide/Support"
import type * as Runtimes from "@dispatch-kubeflow/core/Runtimes"
import { Effect, Either } from "effect"
import { Claims } from "./Claims.js"

/** What some capabilities should answer: `answer source`. */
export type Expected = Partial<Readonly<Record<Support.Capability, string>>>

/** Plain mode, after a preflight that found everything in order. */
export const plain: Readonly<Record<Support.Capability, string>> = {
  ContainerImage: "yes declared",
  NativeRequeue: "no declared",
  NativeRestart: "no declared",
  Hold: "yes probed",
  PreTerminationSignal: "unknown catalogue",
  AccountingHistory: "no declared",
  AttemptInjection: "yes declared",
  ReadmissionGate: "no declared",
  WorkingDirectory: "yes declared",
  ProcsPerNode: "unknown declared",
  OutputPath: "no declared",
  OutputRetained: "no declared",
  OutputRead: "yes declared",
  OutputFollow: "yes declared"
}

/** Kueue mode, after a preflight that proved the gate. */
export const kueue: Readonly<Record<Support.Capability, string>> = {
  ...plain,
  AttemptInjection: "yes probed",
  ReadmissionGate: "yes probed"
}

/** A preflight in which every check passes, so that the backend is writable. */
export const preflight = (section: string, adapter: Adapter.Service) =>
  Effect.gen(function* () {
    const { claim } = yield* Claims
    const { checks, mode } = yield* adapter.preflight()
    const broken = checks.filter(({ outcome }) => outcome === "failed" || outcome === "unknown")
    yield* claim(
      section,
      "checks that fail or tell nothing",
      "none",
      Effect.succeed(broken.length === 0 ? "none" : broken.map(({ found, id }) => `${id}: ${found}`).join("; "))
    )
    yield* claim(section, "mode", "Writable", Effect.succeed(mode._tag))
  })

/** A claim per capability. */
export const claims = (section: string, adapter: Adapter.Service, expected: Expected, spec?: Runtimes.Spec) =>
  Effect.gen(function* () {
    const { claim } = yield* Claims
    const answers = yield* Effect.either(adapter.capabilities(spec))
    yield* Effect.forEach(
      Object.entries(expected),
      ([capability, support]) =>
        claim(
          section,
          capability,
          support,
          Effect.map(answers, (all) => {
            const found = all.find((it) => it.capability === capability)?.support
            return found === undefined ? "no answer" : `${found.answer} ${found.source}`
          })
        ),
      { discard: true }
    )
  })

const actions: ReadonlyArray<readonly [string, string]> = [
  ["Resubmit", "yes"],
  ["Escalate", "yes"],
  ["Hold", "yes"],
  ["Requeue", "no"],
  ["Restart", "no"],
  ["Dance", "unknown"]
]

/** A claim per action that a recovery rule can have. */
export const rules = (section: string, adapter: Adapter.Service) =>
  Effect.gen(function* () {
    const { claim } = yield* Claims
    const policy = Either.getOrThrow(RecoveryRules.parse(actions.map(([action]) => ({ cause: "NodeLost", action }))))
    const answers = yield* adapter.rules(policy)
    yield* Effect.forEach(
      actions,
      ([action, answer], index) =>
        claim(section, action, answer, Effect.succeed(answers[index]?.support.answer ?? "none")),
      { discard: true }
    )
  })
