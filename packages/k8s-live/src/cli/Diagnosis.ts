/**
 * What `doctor` reports: everything that a stranger needs to help, and nothing that is nobody's business. Pure.
 *
 * @module
 */
import type * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type * as ProbeReport from "@dispatch-kubeflow/core/decide/ProbeReport"
import { shown } from "../internal/Redaction.js"
import * as Render from "./Render.js"
import { type Cell, table, wrap } from "./Terminal.js"

/** The program itself. */
export interface Program {
  readonly version: string
  /** e.g. `node v22.21.0`. */
  readonly runtime: string
  /** e.g. `linux x64`. */
  readonly platform: string
  /** The user's folder, which is not shown. */
  readonly home: string
}

/** How the cluster is reached. Neither its address nor a name nor a credential. */
export interface Connection {
  readonly from: string
  /** Absent: they cannot be had, which a failure tells. */
  readonly credentials?: ReadonlyArray<string>
  readonly tlsVerified: boolean
  readonly proxy: boolean
}

/** The report. Absent: it was not reached. */
export interface Diagnosis {
  readonly program: Omit<Program, "home">
  readonly options: Readonly<Record<string, string>>
  readonly connection?: Connection
  readonly namespace?: string
  readonly versions: ReadonlyArray<ProbeReport.Check>
  readonly permissions: ReadonlyArray<ProbeReport.Check>
  readonly checks: ReadonlyArray<ProbeReport.Check>
  readonly mode?: ProbeReport.Report["mode"]
  readonly capabilities?: ReadonlyArray<CapabilityTable.Answer>
  /** What kept the report from being complete. */
  readonly failures: ReadonlyArray<{ readonly step: string; readonly tag: string; readonly message: string }>
}

/** The checks of a preflight by what they are about: their ids tell. */
export const byTopic = (
  checks: ReadonlyArray<ProbeReport.Check>
): Pick<Diagnosis, "versions" | "permissions" | "checks"> => ({
  versions: checks.filter(({ id }) => id.startsWith("versions.")),
  permissions: checks.filter(({ id }) => id.startsWith("access: ")),
  checks: checks.filter(({ id }) => !id.startsWith("versions.") && !id.startsWith("access: "))
})

const longest = 2000

/**
 * The report without what looks like a secret, without `hidden` (the server's address), and without the user's folder. Keys
 * are kept.
 */
export const redact = <A>(value: A, hidden: ReadonlyArray<string>, home: string): A => {
  const names = hidden.filter((name) => name.length > 3).toSorted((a, b) => b.length - a.length)
  const clean = (text: string): string => {
    let safe = text
    for (const name of names) safe = safe.replaceAll(name, "(not shown)")
    return shown(home.length > 1 ? safe.replaceAll(home, "~") : safe, longest)
  }
  const walk = (it: unknown): unknown => {
    if (typeof it === "string") return clean(it)
    if (Array.isArray(it)) return it.map(walk)
    if (typeof it !== "object" || it === null) return it
    return Object.fromEntries(Object.entries(it).map(([key, field]) => [key, walk(field)]))
  }
  // The same shape: only texts change
  return walk(value) as A
}

const facts = (rows: ReadonlyArray<readonly [string, string]>, look: Render.Look): string =>
  table(
    ["WHAT", "IS"],
    rows.map(([what, is]): ReadonlyArray<Cell> => [{ text: what }, { text: is }]),
    look.paint,
    look.width
  )

const credentialsText = ({ credentials }: Connection): string =>
  credentials === undefined ? "cannot be had" : credentials.join(", ") || "none"

/** The report as text, section by section. */
export const render = (it: Diagnosis, look: Render.Look): string => {
  const section = (title: string, ...texts: ReadonlyArray<string>): ReadonlyArray<string> =>
    texts.length === 0 ? [] : [look.paint("strong", `## ${title}`), ...texts, ""]
  const checks = (title: string, all: ReadonlyArray<ProbeReport.Check>): ReadonlyArray<string> =>
    all.length === 0 ? section(title, "none were made") : section(title, Render.checks(all, look))
  return [
    ...section(
      "Program and configuration",
      facts(
        [
          ["dispatch-kubeflow", it.program.version],
          ["runs on", `${it.program.runtime}, ${it.program.platform}`],
          ...Object.entries(it.options),
          ...(it.connection === undefined
            ? []
            : ([
                ["kubeconfig", it.connection.from],
                ["credentials", credentialsText(it.connection)],
                ["TLS", it.connection.tlsVerified ? "verified" : "not verified"],
                ["proxy", it.connection.proxy ? "yes" : "no"]
              ] as const)),
          ...(it.namespace === undefined ? [] : ([["namespace", it.namespace]] as const))
        ],
        look
      )
    ),
    ...it.failures.flatMap(({ step, tag, message }) =>
      section("Failure", ...wrap(`${step}: ${tag}: ${message}`, look.width).map((line) => look.paint("bad", line)))
    ),
    ...checks("Versions", it.versions),
    ...checks("Permissions", it.permissions),
    ...checks("Tried", it.checks),
    ...(it.mode === undefined
      ? []
      : section("Mode", ...wrap(`${it.mode._tag}${"reason" in it.mode ? `: ${it.mode.reason}` : ""}`, look.width))),
    ...(it.capabilities === undefined ? [] : section("Capabilities", Render.capabilities(it.capabilities, look)))
  ]
    .join("\n")
    .trimEnd()
}
