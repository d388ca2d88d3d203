/**
 * The capability table: one row of data per capability, and one total function from facts to answers. The reference page
 * in the documentation is made from the same rows.
 *
 * @module
 */
import type { Facts, Review } from "./Facts.js"
import { capabilities, type Capability, no, type Source, type Support, unknown, yes } from "./Support.js"

/** One row: the answer for people, what it rests on, and what changes it. `constant` is the answer where nothing does. */
export interface Row {
  readonly capability: Capability
  /** What the capability means for a dispatcher. */
  readonly meaning: string
  readonly answer: string
  readonly source: string
  readonly changes: string
  readonly constant?: Support
}

const constants = {
  ContainerImage: yes("declared", "the image goes into TrainJob spec.trainer.image"),
  NativeRequeue: no("declared", "no push-down in v1: Kubeflow has no requeue that the adapter could hand a run to"),
  NativeRestart: no(
    "declared",
    "no push-down in v1: the runtime rules forbid Job and JobSet restarts, so that one admission is one execution"
  ),
  PreTerminationSignal: unknown(
    "catalogue",
    "the pod's terminationGracePeriodSeconds is honoured, but that SIGTERM reaches the program was not observed"
  ),
  AccountingHistory: no("declared", "a deleted TrainJob is gone, and its JobSet, Jobs and pods with it"),
  WorkingDirectory: yes("declared", "the prologue in TrainJob spec.trainer.command changes into WorkDir"),
  OutputPath: no("declared", "no stable output location: the log is read through pods/log"),
  OutputRetained: no("declared", "logs go with the pods")
} as const

/** The table, in the order of `Support.capabilities`. */
export const rows: { readonly [C in Capability]: Row & { readonly capability: C } } = {
  ContainerImage: {
    capability: "ContainerImage",
    meaning: "a run brings its own container image",
    answer: "yes",
    source: "declared",
    changes: "nothing: the image goes into `spec.trainer.image`",
    constant: constants.ContainerImage
  },
  NativeRequeue: {
    capability: "NativeRequeue",
    meaning: "the backend puts a failed run back into its queue by itself",
    answer: "no",
    source: "declared",
    changes: "nothing: there is no push-down in v1",
    constant: constants.NativeRequeue
  },
  NativeRestart: {
    capability: "NativeRestart",
    meaning: "the backend restarts a failed run by itself",
    answer: "no",
    source: "declared",
    changes: "nothing: there is no push-down in v1",
    constant: constants.NativeRestart
  },
  Hold: {
    capability: "Hold",
    meaning: "a submission can be stopped and started again later",
    answer: "yes or no; unknown when read-only or not probed",
    source: "probed; declared when read-only",
    changes:
      "the preflight's hold round trip; in Kueue mode also the permission to `get` and `update` `workloads`, and `v1beta2` served; read-only configuration"
  },
  PreTerminationSignal: {
    capability: "PreTerminationSignal",
    meaning: "the program is told before it is killed",
    answer: "unknown",
    source: "catalogue",
    changes: "nothing: nobody observed that SIGTERM reaches the program",
    constant: constants.PreTerminationSignal
  },
  AccountingHistory: {
    capability: "AccountingHistory",
    meaning: "finished runs can be looked up later",
    answer: "no",
    source: "declared",
    changes: "nothing: a deleted TrainJob is gone",
    constant: constants.AccountingHistory
  },
  AttemptInjection: {
    capability: "AttemptInjection",
    meaning: "every execution knows its number",
    answer: "plain mode: yes; Kueue mode: the answer of ReadmissionGate",
    source: "plain mode: declared; Kueue mode: probed",
    changes: "the mode; in Kueue mode the admission check's controller injects it, so it stands and falls with the gate"
  },
  ReadmissionGate: {
    capability: "ReadmissionGate",
    meaning: "no execution starts without the adapter's consent, preemption and requeueing included",
    answer: "plain mode: no; Kueue mode: yes, no or unknown",
    source: "plain mode: declared; Kueue mode: probed",
    changes:
      "the mode; in Kueue mode the LocalQueue, ClusterQueue, AdmissionCheck, its Lease and the Namespace's labels"
  },
  WorkingDirectory: {
    capability: "WorkingDirectory",
    meaning: "a run starts in a directory of its choice",
    answer: "yes",
    source: "declared",
    changes: "nothing: the prologue changes into WorkDir",
    constant: constants.WorkingDirectory
  },
  ProcsPerNode: {
    capability: "ProcsPerNode",
    meaning: "a run chooses how many processes start per node",
    answer: "no spec: unknown; runtime with `mlPolicy.torch`: yes; no ML policy, or one without a variant: no",
    source: "declared",
    changes: "the `spec.mlPolicy` of the spec's runtime"
  },
  OutputPath: {
    capability: "OutputPath",
    meaning: "output lies at a path that stays",
    answer: "no",
    source: "declared",
    changes: "nothing: there is no stable output location",
    constant: constants.OutputPath
  },
  OutputRetained: {
    capability: "OutputRetained",
    meaning: "output can be read after the pods are gone",
    answer: "no",
    source: "declared",
    changes: "nothing: logs go with the pods",
    constant: constants.OutputRetained
  },
  OutputRead: {
    capability: "OutputRead",
    meaning: "rank 0's log of the current execution can be read",
    answer: "yes; no without permission; unknown when the permission check errored",
    source: "declared; probed when lowered",
    changes: "the permissions `get` on `pods/log` and `list` on `pods`; a refusal met later lowers it too"
  },
  OutputFollow: {
    capability: "OutputFollow",
    meaning: "rank 0's log can be followed while it is written",
    answer: "yes; no without permission; unknown when the permission check errored",
    source: "declared; probed when lowered",
    changes: "as OutputRead, and `watch` on `pods`"
  }
}

/** One answer of the table. */
export interface Answer {
  readonly capability: Capability
  readonly support: Support
}

const notProbed = "not probed yet"

const holdOf = (facts: Facts): Support => {
  if (facts.access === "read-only") return unknown("declared", "not probed: the backend is read-only")
  // A refusal that was met outweighs a round trip that passed earlier
  const { updateWorkloads, patchTrainJobs } = facts.review
  if (facts.mode === "kueue" && updateWorkloads._tag === "Denied") return no("probed", updateWorkloads.message)
  if (facts.mode === "plain" && patchTrainJobs._tag === "Denied") return no("probed", patchTrainJobs.message)
  switch (facts.hold._tag) {
    case "NotRun":
      return unknown("probed", notProbed)
    case "Undecided":
      return unknown("probed", facts.hold.reason)
    case "Failed":
      return no("probed", `the hold round trip failed at "${facts.hold.step}": ${facts.hold.words}`)
    case "Passed":
      break
  }
  if (facts.mode === "plain") {
    return yes("probed", `the hold round trip passed in namespace "${facts.namespace}"`)
  }
  switch (updateWorkloads._tag) {
    case "NotAsked":
      return unknown("probed", `update on workloads.kueue.x-k8s.io: ${notProbed}`)
    case "Denied":
      return no("probed", updateWorkloads.message)
    case "Errored":
      return unknown("probed", updateWorkloads.message)
    case "Allowed":
      return yes(
        "probed",
        `the hold round trip passed in namespace "${facts.namespace}", and workloads.kueue.x-k8s.io may be updated there (spec.active)`
      )
  }
}

const gateOf = (facts: Facts): Support => {
  if (facts.mode === "plain") return no("declared", "plain mode: nothing re-admits a TrainJob without Kueue")
  switch (facts.gate._tag) {
    case "NotAsked":
      return unknown("probed", notProbed)
    case "Unknown":
      return unknown("probed", facts.gate.reason)
    case "Refuted":
      return no("probed", facts.gate.reason)
    case "Proven":
      return yes("probed", facts.gate.reason)
  }
}

const procsOf = (facts: Facts): Support => {
  switch (facts.runtime._tag) {
    case "NoSpec":
      return unknown("declared", "no spec given: it depends on spec.mlPolicy of the spec's runtime")
    case "Torch":
      return yes("declared", `${facts.runtime.where} spec.mlPolicy.torch uses TrainJob spec.trainer.numProcPerNode`)
    case "NoPolicy":
      return no(
        "declared",
        `${facts.runtime.where} has no spec.mlPolicy: a runtime with no ML policy ignores numProcPerNode`
      )
    case "NoVariant":
      return no(
        "declared",
        `${facts.runtime.where} spec.mlPolicy has no variant: a runtime with no ML policy ignores numProcPerNode`
      )
  }
}

const outputOf = (facts: Facts, what: string, needed: ReadonlyArray<Review>): Support => {
  const messages = (tag: "Denied" | "Errored"): ReadonlyArray<string> =>
    needed.flatMap((review) => (review._tag === tag && "message" in review ? [review.message] : []))
  const denied = messages("Denied")
  if (denied.length > 0) return no("probed", denied.join("; "))
  const errored = messages("Errored")
  if (errored.length > 0) return unknown("probed", errored.join("; "))
  const cautions = facts.runtime._tag === "NoSpec" ? [] : facts.runtime.cautions
  return yes("declared", [what, ...cautions].join("; "))
}

const decided = {
  Hold: holdOf,
  AttemptInjection: (facts: Facts): Support =>
    facts.mode === "plain"
      ? yes("declared", "Open and Release raise the admission count in the adapter's own spec.runtimePatches entry")
      : gateOf(facts),
  ReadmissionGate: gateOf,
  ProcsPerNode: procsOf,
  OutputRead: (facts: Facts): Support =>
    outputOf(facts, "rank 0's log of the current execution, through pods/log", [facts.review.log, facts.review.list]),
  OutputFollow: (facts: Facts): Support =>
    outputOf(facts, "rank 0's log of the current execution, followed through pods/log", [
      facts.review.log,
      facts.review.list,
      facts.review.watch
    ])
}

const isDecided = (capability: Capability): capability is keyof typeof decided => capability in decided

/** One capability's answer. Total: every combination of facts has one. */
export const support = (capability: Capability, facts: Facts): Support =>
  isDecided(capability) ? decided[capability](facts) : constants[capability]

/** All fourteen answers, in order. */
export const answer = (facts: Facts): ReadonlyArray<Answer> =>
  capabilities.map((capability) => ({ capability, support: support(capability, facts) }))

/** The answer of one capability out of a table; the table is complete, so there always is one. */
export const find = (answers: ReadonlyArray<Answer>, capability: Capability): Support =>
  answers.find((it) => it.capability === capability)?.support ??
  unknown("catalogue", `the table has no answer for ${capability}`)

const cell = (text: string): string => text.replaceAll("|", "\\|")

const fixedReason = (row: Row): string => row.constant?.reason ?? ""

/** The reference page's table, as Markdown. */
export const markdown = (): string =>
  [
    "| capability | meaning | answer | source | what changes it | reason when it is constant |",
    "|---|---|---|---|---|---|",
    ...capabilities.map((capability) => {
      const row: Row = rows[capability]
      const cells = [row.capability, row.meaning, row.answer, row.source, row.changes, fixedReason(row)]
      return `| ${cells.map(cell).join(" | ")} |`
    })
  ].join("\n")

/** The sources with their meaning, for the same page. */
export const sources: { readonly [S in Source]: string } = {
  declared: "true by construction, or by reading configuration",
  probed: "this cluster was asked",
  catalogue: "a belief that nobody verified here"
}
