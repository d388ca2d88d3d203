import * as Terminal from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import { describe, expect, it } from "@effect/vitest"

const plain = Terminal.paintFor({ isTerminal: false, noColor: false })

describe("Terminal", () => {
  it("colours on a terminal alone, and not under NO_COLOR", () => {
    expect(plain("bad", "x")).toBe("x")
    expect(Terminal.paintFor({ isTerminal: true, noColor: true })("bad", "x")).toBe("x")
    expect(Terminal.paintFor({ isTerminal: true, noColor: false })("bad", "x")).toContain("\u001b[31m")
  })

  it("keeps a long last column under its heading", () => {
    const rows = [[{ text: "Hold" }, { text: "no" }, { text: "the probe was refused by the webhook of the trainer" }]]
    expect(Terminal.table(["CAPABILITY", "ANSWER", "REASON"], rows, plain, 50)).toBe(
      [
        "CAPABILITY  ANSWER  REASON",
        "Hold        no      the probe was refused by the",
        "                    webhook of the trainer"
      ].join("\n")
    )
  })

  it("puts the last column below the others where it does not fit beside them", () => {
    const rows = [
      [{ text: "ReadmissionGate" }, { text: "unknown" }, { text: "declared" }, { text: "Kueue is not configured" }],
      [{ text: "" }, { text: "" }, { text: "" }, { text: "to mend: configure it" }]
    ]
    const header = ["CAPABILITY", "ANSWER", "SOURCE", "REASON"]
    expect(Terminal.table(header, rows, plain, 34)).toBe(
      [
        "CAPABILITY  ANSWER  SOURCE",
        "  REASON",
        "ReadmissionGate  unknown  declared",
        "  Kueue is not configured",
        "  to mend: configure it"
      ].join("\n")
    )
    expect(Terminal.table(header, rows, plain, 26).split("\n").slice(2, 4)).toEqual([
      "ReadmissionGate  unknown",
      "  declared"
    ])
  })
})
