/**
 * `preflight`, `capabilities` and `rules`: what a dispatcher can do here.
 *
 * @module
 */
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as ProbeReport from "@dispatch-kubeflow/core/decide/ProbeReport"
import * as RecoveryRules from "@dispatch-kubeflow/core/decide/RecoveryRules"
import type * as Runtimes from "@dispatch-kubeflow/core/Runtimes"
import { Effect, Either } from "effect"
import * as Misfit from "../../internal/Misfit.js"
import { ExitCode } from "../ExitCode.js"
import type * as Invocation from "../Invocation.js"
import * as Render from "../Render.js"
import { type Connected, connect, print, readDocuments, Terminal, UsageError } from "../Session.js"
import * as SpecFile from "../SpecFile.js"

type Of<C extends Invocation.Invocation["command"]> = Extract<Invocation.Invocation, { readonly command: C }>

/** Runs the preflight and shows how far it is. */
const probe = ({ adapter }: Connected, spec: Runtimes.Spec | undefined) =>
  Effect.gen(function* () {
    const { progress } = yield* Terminal
    let made = 0
    return yield* adapter
      .preflight({
        spec,
        onCheck: (check) =>
          Effect.suspend(() => {
            made += 1
            return progress(`preflight: ${made} checks made, last ${check.id}: ${check.outcome}`)
          })
      })
      .pipe(Effect.ensuring(progress(undefined)))
  })

/** Whether all that was needed passed, in the mode that was asked for. */
export const isClean = (report: ProbeReport.Report): boolean => {
  const { failed, unknown } = ProbeReport.counts(report)
  return report.mode._tag !== "ObserveOnly" && failed === 0 && unknown === 0
}

/** Prints the report; exit 0 only when everything that is needed passed. */
export const preflight = ({ about, common, holdProbe }: Of<"preflight">) =>
  Effect.gen(function* () {
    const found = yield* SpecFile.read(about)
    const connected = yield* connect(common, { holdProbe, namespace: found?.namespace })
    const report = yield* probe(connected, found?.spec)
    const { namespace } = connected
    yield* print(
      common,
      { namespace, mode: report.mode, counts: ProbeReport.counts(report), checks: report.checks },
      (look) => Render.preflight(report, look)
    )
    return isClean(report) ? ExitCode.ok : ExitCode.no
  })

/** Prints the table, or one capability of it with its explanation. */
export const capabilities = (invocation: Of<"capabilities">) =>
  Effect.gen(function* () {
    const { common, explain } = invocation
    const found = yield* SpecFile.read(invocation.about)
    const connected = yield* connect(common, { namespace: found?.namespace })
    const { adapter, namespace } = connected
    if (invocation.preflight) yield* probe(connected, found?.spec)
    const answers = yield* adapter.capabilities(found?.spec)
    if (explain === undefined) {
      const isProbed = invocation.preflight || common.readOnly
      yield* print(common, { namespace, capabilities: answers }, (look) =>
        [Render.capabilities(answers, look), ...(isProbed ? [] : Render.unprobed(answers, look))].join("\n")
      )
      return ExitCode.ok
    }
    const support = CapabilityTable.find(answers, explain)
    const { meaning, answer, source, changes } = CapabilityTable.rows[explain]
    const explanation = { meaning, answer, source, changes }
    yield* print(common, { namespace, capability: explain, support, explanation }, (look) =>
      Render.explanation(explain, support, look)
    )
    return ExitCode.ok
  })

const readPolicy = (path: string) =>
  Effect.gen(function* () {
    const documents = yield* readDocuments("the policy", path)
    if (documents.length > 1) {
      return yield* new UsageError({ message: `the policy ${path} has ${documents.length} documents; give one` })
    }
    return yield* Either.mapLeft(
      RecoveryRules.parse(documents[0] ?? []),
      (error) =>
        new UsageError({
          message: `the policy ${path} is not a list of rules { cause, action }:${Misfit.lines(error)}`
        })
    )
  })

/** Prints what each rule of a policy can expect. */
export const rules = (invocation: Of<"rules">) =>
  Effect.gen(function* () {
    const policy = yield* readPolicy(invocation.policy)
    const connected = yield* connect(invocation.common)
    if (invocation.preflight) yield* probe(connected, undefined)
    const answers = yield* connected.adapter.rules(policy)
    yield* print(invocation.common, { namespace: connected.namespace, rules: answers }, (look) =>
      Render.rules(answers, look)
    )
    return ExitCode.ok
  })
