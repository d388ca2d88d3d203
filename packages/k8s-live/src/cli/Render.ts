/**
 * Answers as text for a person. Pure: a value and a width in, text out.
 *
 * @module
 */
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import type * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import * as ProbeReport from "@dispatch-kubeflow/core/decide/ProbeReport"
import type * as RecoveryRules from "@dispatch-kubeflow/core/decide/RecoveryRules"
import * as RuntimeRules from "@dispatch-kubeflow/core/decide/RuntimeRules"
import type * as Support from "@dispatch-kubeflow/core/decide/Support"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import { type Cell, hang, type Paint, table, type Tone, wrap } from "./Terminal.js"

/** How wide the terminal is, and how to colour. */
export interface Look {
  readonly width: number
  readonly paint: Paint
}

const toned = ({ paint }: Look, tone: Tone, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.map((line) => paint(tone, line))

const answerTone: Readonly<Record<Support.Support["answer"], Tone>> = { yes: "good", no: "bad", unknown: "warn" }

const supportCells = (support: Support.Support): ReadonlyArray<Cell> => [
  { text: support.answer, tone: answerTone[support.answer] },
  { text: support.source },
  { text: support.reason ?? "" }
]

/** The capability table. */
export const capabilities = (answers: ReadonlyArray<CapabilityTable.Answer>, look: Look): string =>
  table(
    ["CAPABILITY", "ANSWER", "SOURCE", "REASON"],
    answers.map(({ capability, support }) => [{ text: capability }, ...supportCells(support)]),
    look.paint,
    look.width
  )

/** What to do about answers that only a preflight finds. */
export const unprobed = (answers: ReadonlyArray<CapabilityTable.Answer>, look: Look): ReadonlyArray<string> =>
  answers.some(({ support }) => support.answer === "unknown" && support.source === "probed")
    ? ["", ...wrap("Each invocation begins anew: --preflight probes what is unknown before it answers.", look.width)]
    : []

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** One capability: its answer here, what it means, and what changes it. */
export const explanation = (capability: Support.Capability, support: Support.Support, look: Look): string => {
  const row = CapabilityTable.rows[capability]
  return [
    ...wrap(sentence(row.meaning), look.width),
    "",
    table(
      [capability, ""],
      [
        [{ text: "answer here" }, { text: support.answer, tone: answerTone[support.answer] }],
        [{ text: "source" }, { text: `${support.source} (${CapabilityTable.sources[support.source]})` }],
        [{ text: "reason" }, { text: support.reason ?? "none: it is so by construction" }],
        [{ text: "possible answers" }, { text: row.answer }],
        [{ text: "possible sources" }, { text: row.source }],
        [{ text: "what changes it" }, { text: row.changes }]
      ],
      look.paint,
      look.width
    )
  ].join("\n")
}

const outcomeTone: Readonly<Record<ProbeReport.Outcome, Tone>> = {
  passed: "good",
  failed: "bad",
  skipped: "dim",
  unknown: "warn"
}

const modeText = ({ facts, mode }: ProbeReport.Report): readonly [Tone, string] => {
  switch (mode._tag) {
    case "Writable":
      return ["good", `writable: TrainJobs may be submitted in namespace "${facts.namespace}" (${facts.mode} mode)`]
    case "ReadOnly":
      return ["warn", `read-only: ${mode.reason}`]
    case "ObserveOnly":
      return ["bad", `observe-only: ${mode.reason}`]
  }
}

/** Every check with what was asked, what came back and how to mend it. */
export const checks = (all: ReadonlyArray<ProbeReport.Check>, look: Look): string =>
  table(
    ["OUTCOME", "CHECK", "ASKED: FOUND"],
    all.flatMap((check) => [
      [
        { text: check.outcome, tone: outcomeTone[check.outcome] },
        { text: check.id },
        { text: `${check.asked}: ${check.found}` }
      ],
      ...(check.remedy === undefined
        ? []
        : [[{ text: "" }, { text: "" }, { text: `to mend: ${check.remedy}`, tone: "warn" as const }]])
    ]),
    look.paint,
    look.width
  )

const accessPrefix = "access: "

/** The checks with the permissions that are there in one row: what is there needs no line of its own to be read. */
const inOneScreen = (all: ReadonlyArray<ProbeReport.Check>): ReadonlyArray<ProbeReport.Check> => {
  const there = (check: ProbeReport.Check): boolean =>
    check.outcome === "passed" && check.id.startsWith(accessPrefix) && check.remedy === undefined
  const ids = all.filter(there).map(({ id }) => id.slice(accessPrefix.length))
  const at = all.findIndex(there)
  return all.flatMap((check, index): ReadonlyArray<ProbeReport.Check> => {
    if (!there(check)) return [check]
    return index === at
      ? [{ id: "access", outcome: "passed", asked: `${ids.length} permissions are allowed`, found: ids.join(", ") }]
      : []
  })
}

/** The checks, and the mode that follows last. */
export const preflight = (report: ProbeReport.Report, look: Look): string => {
  const counts = ProbeReport.counts(report)
  const [tone, mode] = modeText(report)
  return [
    checks(inOneScreen(report.checks), look),
    ...wrap(
      `${counts.passed} passed, ${counts.failed} failed, ${counts.unknown} unknown, ${counts.skipped} skipped`,
      look.width
    ),
    ...toned(look, tone, wrap(mode, look.width))
  ].join("\n")
}

const findingTone: Readonly<Record<RuntimeRules.Finding["outcome"], Tone>> = {
  pass: "good",
  broken: "bad",
  accepted: "warn"
}

const placeOf = (runtime: string, where: string): string =>
  where.startsWith(`${runtime} `) ? where.slice(runtime.length + 1) : where

const verdict = (it: RuntimeRules.Verdict, look: Look): string => {
  const broken = new Set(it.broken.map(({ id }) => id)).size
  const say = (where: string, problem: string, remedy: string): string =>
    `${placeOf(it.runtime, where)} ${problem}; ${remedy}`
  return [
    `${look.paint("strong", it.runtime)}: ${
      broken === 0
        ? look.paint("good", "obeys the rules")
        : look.paint("bad", `breaks ${broken} of the ${RuntimeRules.rules.length} rules`)
    }`,
    table(
      ["RULE", "ID", "OUTCOME", "FOUND"],
      [
        ...it.findings.map((found) => [
          { text: String(found.rule) },
          { text: found.id },
          { text: found.outcome, tone: findingTone[found.outcome] },
          { text: found.outcome === "pass" ? found.problem : say(found.where, found.problem, found.remedy) }
        ]),
        ...it.warnings.map((found) => [
          { text: "" },
          { text: found.id },
          { text: "warning", tone: "warn" as const },
          { text: say(found.where, found.problem, found.remedy) }
        ])
      ],
      look.paint,
      look.width
    ),
    ...it.cautions.flatMap((caution) => toned(look, "warn", hang("", `caution: ${caution}`, look.width)))
  ].join("\n")
}

/** Every rule of every runtime, and the runtimes that could not be read. */
export const runtimes = (
  verdicts: ReadonlyArray<RuntimeRules.Verdict>,
  unreadable: ReadonlyArray<{ readonly runtime: string; readonly issue: string }>,
  look: Look
): string =>
  verdicts.length === 0 && unreadable.length === 0
    ? "There are no runtimes."
    : [
        ...verdicts.map((it) => verdict(it, look)),
        ...unreadable.map((it) =>
          toned(look, "bad", hang("", `${it.runtime} cannot be read: ${it.issue}`, look.width)).join("\n")
        )
      ].join("\n\n")

/** The rules that a conforming copy still breaks. */
export const remaining = (findings: ReadonlyArray<RuntimeRules.Finding>, look: Look): string =>
  [
    ...toned(look, "bad", wrap("The copy still breaks rules that only a person can mend:", look.width)),
    ...findings.flatMap((it) =>
      hang("  - ", `rule ${it.rule} (${it.id}): ${it.where} ${it.problem}; ${it.remedy}`, look.width)
    )
  ].join("\n")

/** What each rule of a policy can expect. */
export const rules = (answers: ReadonlyArray<RecoveryRules.Answer>, look: Look): string =>
  answers.length === 0
    ? "The policy has no rules."
    : table(
        ["#", "CAUSE", "ACTION", "ANSWER", "SOURCE", "REASON"],
        answers.map(({ rule, support }, index) => [
          { text: String(index + 1) },
          { text: rule.cause },
          { text: rule.action },
          ...supportCells(support)
        ]),
        look.paint,
        look.width
      )

/** What a state means to a person. */
export const stateTone: Readonly<Record<Classification.State, Tone>> = {
  Pending: "warn",
  Held: "warn",
  Running: "good",
  Stopping: "warn",
  Succeeded: "good",
  Failed: "bad",
  Gone: "bad",
  Unknown: "warn"
}

/** A cause in a few words, e.g. `NodeLost (node-b)`. */
export const cause = (it: Classification.Cause): string => {
  switch (it._tag) {
    case "Preempted":
      return `Preempted by ${it.by}: ${it.detail}`
    case "NodeLost":
      return `NodeLost (${it.node}): ${it.detail}`
    case "Drained":
      return `Drained by ${it.by}`
    case "Evicted":
      return `Evicted: ${it.reason}${it.ownLimit ? " (its own limit)" : ""}`
    case "OutOfMemory":
      return `OutOfMemory: container ${it.container}, exit code ${it.exitCode}`
    case "DeadlineExceeded":
      return `DeadlineExceeded of the ${it.layer}`
    case "NoCapacity":
    case "ImagePull":
    case "Misconfigured":
      return `${it._tag}: ${it.reason}: ${it.detail}`
    case "Application":
      return `Application: container ${it.container}, exit code ${it.exitCode}${
        it.signal === undefined ? "" : ` (signal ${it.signal})`
      }`
    case "Held":
      return `Held by ${it.by}: ${it.detail}`
    case "Deleted":
      return `Deleted: ${it.object}`
    case "Unknown":
      return `Unknown: not seen: ${it.missing.join(", ")}`
  }
}

/** A fact in a line. */
export const fact = (it: Classification.Fact): string =>
  `${it.object} ${it.field} = ${it.value}${it.time === undefined ? "" : ` at ${it.time}`}${
    it.presence === "present" ? "" : ` (deletion ${it.presence})`
  }`

/** One update: a line that says what, and under it what that rests on. */
export const update = (it: Update.Update, look: Look): string => {
  const execution =
    it.execution === undefined
      ? it.identity === "inferred"
        ? "  execution not numbered"
        : ""
      : `  execution ${it.execution}${it.repeated ? " (repeated)" : ""}`
  const told = it.cause === undefined ? "" : `  ${cause(it.cause)}`
  const indent = "    "
  const state = look.paint(stateTone[it.state], it.state)
  const fits = `${it.ref.name}  ${it.state}${told}${execution}`.length <= look.width
  const head = fits
    ? [`${it.ref.name}  ${state}${told}${look.paint("dim", execution)}`]
    : [`${it.ref.name}  ${state}`, ...hang(indent, `${told}${execution}`.trim(), look.width)]
  const under = [...it.evidence.map(fact), ...it.notes.map((note) => `note: ${note}`)].flatMap((line) =>
    toned(look, "dim", hang(indent, line, look.width))
  )
  return [...head, ...under].join("\n")
}

const nodeDetail = (node: CessationVerdict.NodeAnswer): string => {
  const parts: Array<string> = []
  if (node.ready !== undefined) {
    parts.push(
      `Ready ${node.ready.status}${typeof node.ready.reason === "string" ? ` (${node.ready.reason})` : ""}${
        typeof node.ready.lastHeartbeatTime === "string" ? `, heartbeat ${node.ready.lastHeartbeatTime}` : ""
      }`
    )
  }
  for (const taint of node.taints) parts.push(`taint ${taint.key}:${taint.effect}`)
  if (node.rebooted) parts.push(`rebooted: boot ID ${node.bootID ?? "unknown"}, was ${node.recordedBootIDs.join(", ")}`)
  if (node.state === "replaced") parts.push(`uid ${node.uid ?? "unknown"}, was ${node.recordedUids.join(", ")}`)
  parts.push(`pods ${node.pods.join(", ")}`)
  return parts.join("; ")
}

/** The cessation answer: each Node a row, each pod's proof, the verdict last. */
export const cessation = (name: string, it: CessationVerdict.Verdict, look: Look): string => {
  const parts: Array<string> = []
  if (it.nodes.length > 0) {
    parts.push(
      table(
        ["NODE", "STATE", "DETAIL"],
        it.nodes.map((node) => [
          { text: node.name },
          { text: node.state, tone: node.ceased ? "good" : "bad" },
          { text: nodeDetail(node) }
        ]),
        look.paint,
        look.width
      )
    )
  }
  if (it.pods.length > 0) {
    parts.push(
      table(
        ["POD", "ENDED", "PROOF"],
        it.pods.map((pod) => [
          { text: pod.name },
          { text: pod.ended ? "yes" : "no", tone: pod.ended ? "good" : "bad" },
          {
            text:
              pod.proof._tag === "terminated"
                ? `terminated: ${pod.proof.containers
                    .map((container) => `${container.name} exit code ${container.exitCode}`)
                    .join(", ")}`
                : pod.proof._tag === "never-started"
                  ? `never started: ${pod.proof.reason}`
                  : pod.ended
                    ? `its Node, not the pod (${pod.proof.reason})`
                    : pod.proof.reason
          }
        ]),
        look.paint,
        look.width
      )
    )
  }
  const which = it.execution === undefined ? "its last execution" : `execution ${it.execution}`
  const { width } = look
  const verdict = [
    ...toned(
      look,
      it.ceased ? "good" : "bad",
      wrap(`${name}: ${which} ${it.ceased ? "has ceased" : "has not surely ceased"}`, width)
    ),
    ...it.reasons.flatMap((reason) => hang("  - ", reason, width)),
    ...it.cautions.flatMap((caution) => toned(look, "warn", hang("  ", `caution: ${caution}`, width))),
    ...(!it.ceased && it.ended
      ? hang("  ", "Every pod of it is proven to have ended (see PROOF), which the Nodes alone do not show.", width)
      : [])
  ]
  return [...parts, verdict.join("\n")].join("\n\n")
}
