/**
 * One capability's answer, with its reason.
 *
 * @module
 */

/** The fourteen capabilities, in the order in which they are always answered. */
export const capabilities = [
  "ContainerImage",
  "NativeRequeue",
  "NativeRestart",
  "Hold",
  "PreTerminationSignal",
  "AccountingHistory",
  "AttemptInjection",
  "ReadmissionGate",
  "WorkingDirectory",
  "ProcsPerNode",
  "OutputPath",
  "OutputRetained",
  "OutputRead",
  "OutputFollow"
] as const

/** Name of a capability. */
export type Capability = (typeof capabilities)[number]

/** Where an answer comes from: true by construction or configuration; asked of this cluster; believed, not verified. */
export type Source = "declared" | "probed" | "catalogue"

/** An answer. `reason` is present on everything but a bare declared yes. */
export interface Support {
  readonly answer: "yes" | "no" | "unknown"
  readonly source: Source
  readonly reason: string | undefined
}

/** A declared yes, with or without a reason. */
export const yes = (source: Source = "declared", reason?: string): Support => ({ answer: "yes", source, reason })

/** A no always says why. */
export const no = (source: Source, reason: string): Support => ({ answer: "no", source, reason })

/** An unknown always says what was not learnt. */
export const unknown = (source: Source, reason: string): Support => ({ answer: "unknown", source, reason })
