/**
 * Whether the adapter may write at all.
 *
 * @module
 */
import * as CapabilityTable from "./CapabilityTable.js"
import type { Facts } from "./Facts.js"
import type { Support } from "./Support.js"

/**
 * `ReadOnly` was configured; `ObserveOnly` wanted to write and found that a guarantee cannot be given. Both write
 * nothing.
 */
export type Verdict =
  | { readonly _tag: "Writable" }
  | { readonly _tag: "ReadOnly"; readonly reason: string }
  | { readonly _tag: "ObserveOnly"; readonly reason: string }

const observeOnly = (reason: string): Verdict => ({ _tag: "ObserveOnly", reason })

const because = (capability: string, support: Support): string =>
  `${capability} is ${support.answer}: ${support.reason ?? "no reason given"}`

/**
 * AttemptInjection must be `yes` to write at all, and in Kueue mode so must ReadmissionGate. In plain mode a namespace
 * that Kueue captures, or of which that is not known, is observed only.
 */
export const decide = (facts: Facts): Verdict => {
  if (facts.access === "read-only") return { _tag: "ReadOnly", reason: "the backend is configured read-only" }
  const injection = CapabilityTable.support("AttemptInjection", facts)
  if (injection.answer !== "yes") return observeOnly(because("AttemptInjection", injection))
  if (facts.mode === "kueue") {
    const gate = CapabilityTable.support("ReadmissionGate", facts)
    return gate.answer === "yes" ? { _tag: "Writable" } : observeOnly(because("ReadmissionGate", gate))
  }
  switch (facts.capture._tag) {
    case "NotAsked":
      return observeOnly(`whether Kueue captures namespace "${facts.namespace}" was not asked: run a preflight`)
    case "Free":
      return { _tag: "Writable" }
    case "Captured":
    case "Unknown":
      return observeOnly(facts.capture.reason)
  }
}
