import { describe, expect, it } from "@effect/vitest"
import * as Policy from "../src/Policy.js"

describe("a recovery policy", () => {
  const policy: Policy.Policy = {
    rules: [
      { cause: "Deleted", action: "Hold" },
      { cause: "NodeLost", action: "Resubmit" },
      { cause: "NodeLost", action: "Escalate" },
      { cause: "*", action: "Escalate" }
    ],
    attempts: 2
  }

  it("the first rule that matches counts, and * matches everything", () => {
    expect(Policy.actionFor(policy, "NodeLost", 1)).toBe("Resubmit")
    expect(Policy.actionFor(policy, "Application", 1)).toBe("Escalate")
    expect(Policy.actionFor({ ...policy, rules: [] }, "NodeLost", 1)).toBeUndefined()
  })

  it("after the last attempt nothing is tried again, but a person is still asked", () => {
    expect(Policy.actionFor(policy, "NodeLost", 2)).toBeUndefined()
    expect(Policy.actionFor(policy, "Deleted", 2)).toBe("Hold")
  })

  it("the standard one: the machine's fault is worth another try, the program's is not", () => {
    expect(Policy.actionFor(Policy.standard, "Preempted", 1)).toBe("Resubmit")
    expect(Policy.actionFor(Policy.standard, "Application", 1)).toBeUndefined()
    expect(Policy.actionFor(Policy.standard, "Unknown", 1)).toBe("Hold")
  })
})
