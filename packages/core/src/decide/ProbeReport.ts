/**
 * What a preflight reports.
 *
 * @module
 */
import type { Facts } from "./Facts.js"
import type { Verdict } from "./WriteGate.js"

/** How a check ended. `skipped`: there was no reason to make it; `unknown`: it was tried and told nothing. */
export type Outcome = "passed" | "failed" | "skipped" | "unknown"

/** One check. */
export interface Check {
  /** Stable, dotted, e.g. `hold.suspended`. */
  readonly id: string
  readonly outcome: Outcome
  /** What was asked of which object. */
  readonly asked: string
  /** What came back. */
  readonly found: string
  /** How to mend it; absent where there is nothing to mend. */
  readonly remedy?: string
}

/** The whole report: every check in the order made, the facts they amount to, and the mode that follows. */
export interface Report {
  readonly checks: ReadonlyArray<Check>
  readonly facts: Facts
  readonly mode: Verdict
}

/** The number of checks per outcome. */
export const counts = (report: Report): { readonly [O in Outcome]: number } => {
  const of = (outcome: Outcome): number => report.checks.filter((check) => check.outcome === outcome).length
  return { passed: of("passed"), failed: of("failed"), skipped: of("skipped"), unknown: of("unknown") }
}
