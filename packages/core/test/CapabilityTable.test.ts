import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type { Facts } from "@dispatch-kubeflow/core/decide/Facts"
import * as RecoveryRules from "@dispatch-kubeflow/core/decide/RecoveryRules"
import { capabilities, type Capability, type Support } from "@dispatch-kubeflow/core/decide/Support"
import * as WriteGate from "@dispatch-kubeflow/core/decide/WriteGate"
import { describe, expect, it } from "vitest"

const reviews: ReadonlyArray<Facts["review"]["log"]> = [
  { _tag: "NotAsked" },
  { _tag: "Allowed" },
  { _tag: "Denied", message: "may not get pods/log", refusal: "may not get pods/log" },
  { _tag: "Errored", message: "the authorizer does not answer" }
]
const holds: ReadonlyArray<Facts["hold"]> = [
  { _tag: "NotRun" },
  { _tag: "Passed" },
  { _tag: "Failed", step: "suspended", words: "the JobSet webhook is down" },
  { _tag: "Undecided", reason: "no runtime to probe with" }
]
const gates: ReadonlyArray<Facts["gate"]> = [
  { _tag: "NotAsked" },
  { _tag: "Proven", reason: "LocalQueue/lq is Active" },
  { _tag: "Refuted", reason: "Lease/ctl expired" },
  { _tag: "Unknown", reason: "ClusterQueue/cq cannot be read" }
]
const captures: ReadonlyArray<Facts["capture"]> = [
  { _tag: "NotAsked" },
  { _tag: "Free" },
  { _tag: "Captured", reason: "Kueue captures the namespace" },
  { _tag: "Unknown", reason: "the dry run was refused" }
]
const runtimes: ReadonlyArray<Facts["runtime"]> = [
  { _tag: "NoSpec" },
  { _tag: "Torch", where: "ClusterTrainingRuntime/torch", cautions: [] },
  { _tag: "Torch", where: "ClusterTrainingRuntime/torch", cautions: ["an in-place restart replaces the log"] },
  { _tag: "NoPolicy", where: "TrainingRuntime/plain", cautions: [] },
  { _tag: "NoVariant", where: "TrainingRuntime/plain", cautions: [] }
]

/** Every combination of facts, about 100 000. */
function* everything(): Generator<Facts> {
  for (const mode of ["plain", "kueue"] as const)
    for (const access of ["read-only", "read-write"] as const)
      for (const hold of holds)
        for (const gate of gates)
          for (const capture of captures)
            for (const runtime of runtimes)
              for (const log of reviews)
                for (const list of reviews)
                  for (const updateWorkloads of reviews)
                    for (const patchTrainJobs of reviews.slice(0, 3)) {
                      yield {
                        namespace: "team-a",
                        mode,
                        access,
                        hold,
                        gate,
                        capture,
                        runtime,
                        review: { log, list, watch: { _tag: "Allowed" }, updateWorkloads, patchTrainJobs }
                      }
                    }
}

const plain: Facts = {
  namespace: "team-a",
  mode: "plain",
  access: "read-write",
  hold: { _tag: "NotRun" },
  gate: { _tag: "NotAsked" },
  capture: { _tag: "NotAsked" },
  runtime: { _tag: "NoSpec" },
  review: {
    log: { _tag: "NotAsked" },
    list: { _tag: "NotAsked" },
    watch: { _tag: "NotAsked" },
    updateWorkloads: { _tag: "NotAsked" },
    patchTrainJobs: { _tag: "NotAsked" }
  }
}
const of = (capability: Capability, facts: Facts): Support =>
  CapabilityTable.find(CapabilityTable.answer(facts), capability)

describe("over every combination of facts", () => {
  it("`capabilities` answers all fourteen, always, in this order; a reason is present on everything but a bare declared yes", () => {
    let combinations = 0
    for (const facts of everything()) {
      combinations += 1
      const answers = CapabilityTable.answer(facts)
      const names = answers.map((it) => it.capability)
      if (names.length !== 14 || names.some((name, index) => name !== capabilities[index])) {
        expect(names).toEqual(capabilities)
      }
      for (const { capability, support } of answers) {
        const bare = support.answer === "yes" && support.source === "declared"
        if (!bare && (support.reason === undefined || support.reason === "")) {
          expect.fail(`${capability} has no reason: ${JSON.stringify({ support, facts })}`)
        }
        if (support.source === "catalogue" && capability !== "PreTerminationSignal") {
          expect.fail(`${capability} is answered from the catalogue`)
        }
      }
    }
    expect(combinations).toBeGreaterThan(100_000)
  })

  it("Kueue: AttemptInjection has the same answer, source and reason as ReadmissionGate", () => {
    for (const facts of everything()) {
      if (facts.mode !== "kueue") continue
      const injection = of("AttemptInjection", facts)
      const gate = of("ReadmissionGate", facts)
      if (
        injection.answer !== gate.answer ||
        injection.source !== gate.source ||
        injection.reason !== gate.reason ||
        gate.source !== "probed"
      ) {
        expect(injection).toEqual(gate)
      }
    }
  })

  it("never says yes to Hold without a passed round trip, and in Kueue mode without the permission to update Workloads", () => {
    for (const facts of everything()) {
      const hold = of("Hold", facts)
      const proven =
        facts.access === "read-write" &&
        facts.hold._tag === "Passed" &&
        (facts.mode === "plain"
          ? facts.review.patchTrainJobs._tag !== "Denied"
          : facts.review.updateWorkloads._tag === "Allowed")
      if ((hold.answer === "yes") !== proven) expect.fail(JSON.stringify({ hold, facts }))
    }
  })

  it("AttemptInjection must be yes to write at all, and in Kueue mode so must ReadmissionGate; otherwise observe-only", () => {
    for (const facts of everything()) {
      const verdict = WriteGate.decide(facts)
      if (facts.access === "read-only") {
        if (verdict._tag !== "ReadOnly") expect.fail(JSON.stringify({ verdict, facts }))
        continue
      }
      const allowed = facts.mode === "kueue" ? facts.gate._tag === "Proven" : facts.capture._tag === "Free"
      if ((verdict._tag === "Writable") !== allowed) expect.fail(JSON.stringify({ verdict, facts }))
      if (verdict._tag === "ObserveOnly" && verdict.reason === "") expect.fail("observe-only without a reason")
    }
  })
})

describe("the table, row by row", () => {
  it("constant rows", () => {
    const table = Object.fromEntries(
      CapabilityTable.answer(plain).map(({ capability, support }) => [
        capability,
        `${support.answer} ${support.source}`
      ])
    )
    expect(table).toEqual({
      ContainerImage: "yes declared",
      NativeRequeue: "no declared",
      NativeRestart: "no declared",
      Hold: "unknown probed",
      PreTerminationSignal: "unknown catalogue",
      AccountingHistory: "no declared",
      AttemptInjection: "yes declared",
      ReadmissionGate: "no declared",
      WorkingDirectory: "yes declared",
      ProcsPerNode: "unknown declared",
      OutputPath: "no declared",
      OutputRetained: "no declared",
      OutputRead: "yes declared",
      OutputFollow: "yes declared"
    })
  })

  it(`Hold: read-only is unknown, declared, "not probed: the backend is read-only"; not yet run is unknown, probed, "not probed yet"`, () => {
    expect(of("Hold", { ...plain, access: "read-only", hold: { _tag: "Passed" } })).toEqual({
      answer: "unknown",
      source: "declared",
      reason: "not probed: the backend is read-only"
    })
    expect(of("Hold", plain)).toEqual({ answer: "unknown", source: "probed", reason: "not probed yet" })
  })

  it("Hold: a failed step answers no with that step and the server's words", () => {
    const failed = of("Hold", { ...plain, hold: { _tag: "Failed", step: "suspended", words: "the webhook is down" } })
    expect(failed).toMatchObject({ answer: "no", source: "probed" })
    expect(failed.reason).toContain("suspended")
    expect(failed.reason).toContain("the webhook is down")
  })

  it("ProcsPerNode: no spec unknown; mlPolicy.torch yes; no ML policy, or one without a variant, no; all declared", () => {
    const answers = runtimes.map((runtime) => of("ProcsPerNode", { ...plain, runtime }))
    expect(answers.map((it) => it.answer)).toEqual(["unknown", "yes", "yes", "no", "no"])
    expect(answers.every((it) => it.source === "declared")).toBe(true)
    expect(answers[3]?.reason).toContain("TrainingRuntime/plain")
    expect(answers[3]?.reason).toContain("mlPolicy")
  })

  it("P01: without get pods/log OutputRead and OutputFollow are no, probed, with the reason", () => {
    const facts: Facts = {
      ...plain,
      review: {
        ...plain.review,
        log: { _tag: "Denied", message: "may not get pods/log", refusal: "may not get pods/log" }
      }
    }
    for (const capability of ["OutputRead", "OutputFollow"] as const) {
      expect(of(capability, facts)).toEqual({ answer: "no", source: "probed", reason: "may not get pods/log" })
    }
  })

  it("P03: a check that errors is not a denial: unknown, probed, with the error", () => {
    const facts: Facts = {
      ...plain,
      review: { ...plain.review, log: { _tag: "Errored", message: "the authorizer does not answer" } }
    }
    expect(of("OutputRead", facts)).toEqual({
      answer: "unknown",
      source: "probed",
      reason: "the authorizer does not answer"
    })
  })

  it("watch on pods is asked to follow only", () => {
    const facts: Facts = {
      ...plain,
      review: {
        ...plain.review,
        watch: { _tag: "Denied", message: "may not watch pods", refusal: "may not watch pods" }
      }
    }
    expect(of("OutputRead", facts).answer).toBe("yes")
    expect(of("OutputFollow", facts)).toMatchObject({ answer: "no", reason: "may not watch pods" })
  })

  it(`accepted in-place restarts ride on the reasons of OutputRead and OutputFollow: "an in-place restart replaces the log"`, () => {
    const runtime: Facts["runtime"] = {
      _tag: "Torch",
      where: "ClusterTrainingRuntime/torch",
      cautions: ["an in-place restart replaces the log"]
    }
    for (const capability of ["OutputRead", "OutputFollow"] as const) {
      expect(of(capability, { ...plain, runtime }).reason).toContain("an in-place restart replaces the log")
    }
  })

  it("the reference page has a row per capability, each with what changes it", () => {
    const lines = CapabilityTable.markdown().split("\n")
    expect(lines).toHaveLength(16)
    for (const capability of capabilities) {
      expect(lines.some((line) => line.startsWith(`| ${capability} |`))).toBe(true)
      expect(CapabilityTable.rows[capability].changes).not.toBe("")
    }
  })
})

describe("recovery rules", () => {
  const hold: Support = { answer: "no", source: "probed", reason: "the hold round trip failed" }

  it("Resubmit, Escalate: yes. Hold: the Hold capability's Support, whole. Requeue, Restart: no. Any other: unknown, naming it", () => {
    const policy: RecoveryRules.Policy = [
      { cause: "Preempted", action: "Requeue" },
      { cause: "NodeLost", action: "Resubmit" },
      { cause: "OutOfMemory", action: "Escalate" },
      { cause: "NoCapacity", action: "Hold" },
      { cause: "Application", action: "Restart" },
      { cause: "Application", action: "Dance" }
    ]
    const answers = RecoveryRules.rules(policy, hold)
    expect(answers.map((it) => it.rule)).toEqual(policy)
    expect(answers.map((it) => it.support.answer)).toEqual(["no", "yes", "yes", "no", "no", "unknown"])
    expect(answers[0]?.support.reason).toBe("Kubeflow has no requeue")
    expect(answers[3]?.support).toBe(hold)
    expect(answers[4]?.support.reason).toBe("no push-down in v1")
    expect(answers[5]?.support.reason).toContain("Dance")
  })

  it("an empty policy is an empty answer", () => {
    expect(RecoveryRules.rules([], hold)).toEqual([])
  })

  it("a policy is data: it parses, keeps what it does not read, and refuses with the path of what is wrong", () => {
    const parsed = RecoveryRules.parse([{ cause: "NodeLost", action: "Escalate", factor: 2 }])
    expect(parsed).toMatchObject({ _tag: "Right", right: [{ cause: "NodeLost", action: "Escalate", factor: 2 }] })
    const refused = RecoveryRules.parse([{ cause: "NodeLost", action: "Hold" }, { cause: "" }])
    expect(refused._tag).toBe("Left")
    if (refused._tag === "Left") {
      expect(refused.left._tag).toBe("ParseError")
      expect(refused.left.message).toContain("[1]")
      expect(refused.left.message).toContain(`"action"`)
    }
  })
})
