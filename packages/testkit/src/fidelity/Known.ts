/**
 * The disagreements with a real API server that are accepted: each is a line of FIDELITY.md.
 *
 * @module
 */
import type { Difference } from "./Compare.js"

/** An accepted disagreement. */
export interface Known {
  readonly id: string
  /** What differs and why that is accepted. */
  readonly reason: string
  /** The first cell of its line in FIDELITY.md. */
  readonly line: string
  readonly matches: (difference: Difference) => boolean
}

/** All accepted disagreements. */
export const all: ReadonlyArray<Known> = [
  {
    id: "pod-diff",
    reason: "the server ends the refusal of a changed pod spec with a diff of its Go structs",
    line: "messages of a changed pod spec",
    matches: ({ memory, path, real }) =>
      path.endsWith("message") &&
      typeof real === "string" &&
      typeof memory === "string" &&
      real !== memory &&
      real.replace(/\n@@[\s\S]*\n/, "") === memory
  },
  {
    id: "strategic-words",
    reason: "a strategic patch is merged as Go structs, whose converter has other words for a value of a wrong type",
    line: "types of fields",
    matches: ({ memory, operation, path, real }) =>
      operation.request.patchType === "strategic" &&
      path.endsWith("message") &&
      [real, memory].every((text) => typeof text === "string" && text.includes("Invalid value: "))
  }
]

/** The entry that accepts a difference, if any. */
export const find = (difference: Difference): Known | undefined => all.find(({ matches }) => matches(difference))
