import { describe, expect, it } from "@effect/vitest"
import { Either, FastCheck } from "effect"
import type { Report } from "../src/Backend.js"
import { decide, type Observed } from "../src/decide.js"
import * as Entry from "../src/Entry.js"
import * as Policy from "../src/Policy.js"

const accepted = (policy: Policy.Policy = Policy.standard): Entry.Entry => ({
  _tag: "Accepted",
  work: { nodes: 2 },
  policy,
  backends: ["first", "second"],
  token: "t"
})
const intended = (n = 1, backend = "first"): Entry.Entry => ({ _tag: "Intended", n, backend })
const prepared = (n = 1): Entry.Entry => ({ _tag: "Prepared", n, id: `id-${n}` })
const started = (n = 1): Entry.Entry => ({ _tag: "Started", n })
const retiring = (cause: string, action: Policy.Action | null, n = 1): Entry.Entry => ({
  _tag: "Retiring",
  n,
  cause,
  detail: "",
  action
})
const fenced: Entry.Entry = { _tag: "Fenced", n: 1 }

const record = (...entries: ReadonlyArray<Entry.Entry>): Entry.Record => {
  const end = entries.reduce<Entry.Record | undefined>(
    (before, entry) => Either.getOrThrowWith(Entry.apply("a", before, entry), (why) => new Error(why)),
    undefined
  )
  if (end === undefined) throw new Error("no entries")
  return end
}

const report = (state: Report["state"], more: Partial<Report> = {}): Report => ({
  run: "a",
  n: 1,
  id: "id-1",
  state,
  outcome: undefined,
  cause: undefined,
  detail: "",
  ...more
})

const running = record(accepted(), intended(), prepared(), started())
const stopped = { reasons: [], cautions: [] }
const entryOf = (step: ReturnType<typeof decide>): Entry.Entry | undefined =>
  step._tag === "Append" ? step.entry : undefined

describe("decide", () => {
  it("announces before it does: intended, prepared, started, each once", () => {
    expect(entryOf(decide(record(accepted()), {}))).toEqual(intended())
    const first = record(accepted(), intended())
    expect(decide(first, {})._tag).toBe("Prepare")
    expect(entryOf(decide(first, { prepared: "id-1" }))).toEqual(prepared())
    const second = record(accepted(), intended(), prepared())
    expect(decide(second, {})._tag).toBe("Start")
    expect(entryOf(decide(second, { start: "Started" }))).toEqual(started())
    expect(entryOf(decide(second, { start: "Gone" }))).toMatchObject({ _tag: "Retiring", cause: "Deleted" })
    expect(decide(running, {})._tag).toBe("Wait")
  })

  it("first nothing new can start, then it is asked whether anything runs", () => {
    const given = record(accepted(), intended(), prepared(), started(), retiring("NodeLost", "Resubmit"))
    const yes = { ...stopped, ceased: true, ended: false }
    expect(decide(given, { stopped: yes })._tag).toBe("Fence")
    expect(entryOf(decide(given, { fence: "Fenced" }))).toEqual(fenced)
    const shut = record(accepted(), intended(), prepared(), started(), retiring("NodeLost", "Resubmit"), fenced)
    expect(decide(shut, {})._tag).toBe("Ask")
    expect(decide(shut, { stopped: { ...yes, ceased: false } })._tag).toBe("Ask")
    expect(entryOf(decide(shut, { stopped: yes }))).toMatchObject({ _tag: "Stopped", by: "ceased" })
    expect(entryOf(decide(shut, { stopped: { ...yes, ended: true } }))).toMatchObject({ _tag: "Stopped", by: "ended" })
  })

  it("a person's word stands for the answer: nothing is asked, and the next try is announced", () => {
    const word: Entry.Entry = { _tag: "Vouched", n: 1, by: "operator", reason: "its quota let no pod of it be made" }
    const shut = (action: Policy.Action | null) =>
      record(accepted(), intended(), prepared(), started(), retiring("NoCapacity", action), fenced, word)
    expect(entryOf(decide(shut("Resubmit"), {}))).toEqual(intended(2))
    expect(entryOf(decide(shut("Escalate"), {}))).toEqual(intended(2, "second"))
    expect(entryOf(decide(shut("Hold"), {}))).toMatchObject({ _tag: "Finished", outcome: "Held" })
    expect(shut("Resubmit").attempts).toMatchObject([{ n: 1, stopped: undefined, vouched: word }])
  })

  it("nobody can vouch for what is not fenced, for another submission, or for what is known to have stopped", () => {
    const word: Entry.Entry = { _tag: "Vouched", n: 1, by: "operator", reason: "I saw it" }
    const given = record(accepted(), intended(), prepared(), started(), retiring("NodeLost", "Resubmit"))
    const shut = record(accepted(), intended(), prepared(), started(), retiring("NodeLost", "Resubmit"), fenced)
    const ended: Entry.Entry = { _tag: "Stopped", n: 1, by: "ended", cautions: [] }
    const objection = (before: Entry.Record, entry: Entry.Entry) =>
      Either.match(Entry.apply("a", before, entry), { onLeft: (why) => why, onRight: () => undefined })
    expect(objection(running, word)).toMatch(/not fenced/)
    expect(objection(given, word)).toMatch(/not fenced/)
    expect(objection(shut, { ...word, n: 2 })).toMatch(/not the last/)
    const after = (entry: Entry.Entry) => Either.getOrThrow(Entry.apply("a", shut, entry))
    expect(objection(after(ended), word)).toMatch(/known to have stopped/)
    expect(objection(after(word), word)).toMatch(/known to have stopped/)
    expect(objection(shut, word)).toBeUndefined()
  })

  it("the next try has the next number, on the same backend or on the next one", () => {
    const after = (action: Policy.Action | null) =>
      entryOf(
        decide(
          record(accepted(), intended(), prepared(), started(), retiring("NodeLost", action), fenced, {
            _tag: "Stopped",
            n: 1,
            by: "ended",
            cautions: []
          }),
          {}
        )
      )
    expect(after("Resubmit")).toEqual(intended(2))
    expect(after("Escalate")).toEqual(intended(2, "second"))
    expect(after("Hold")).toMatchObject({ _tag: "Finished", outcome: "Held" })
    expect(after(null)).toMatchObject({ _tag: "Finished", outcome: "Failed" })
  })

  it("what is reported of another object of that name does not count", () => {
    for (const other of [{ id: "another" }, { id: undefined }, { n: 2 }]) {
      expect(decide(running, { report: report("Failed", other) })._tag).toBe("Wait")
      expect(decide(running, { report: report("Succeeded", { ...other, outcome: "Succeeded" }) })._tag).toBe("Wait")
    }
    expect(entryOf(decide(running, { report: report("Succeeded", { outcome: "Succeeded" }) }))).toMatchObject({
      _tag: "Finished",
      outcome: "Succeeded"
    })
  })

  it("a hold is a wish and not an end; an obstacle is given up for only where a rule names it", () => {
    expect(decide(running, { report: report("Held", { cause: "Held" }) })._tag).toBe("Wait")
    expect(decide(running, { report: report("Stopping", { cause: "Held" }) })._tag).toBe("Wait")
    expect(decide(running, { report: report("Stopping", { cause: "Unknown" }) })._tag).toBe("Wait")
    expect(entryOf(decide(running, { report: report("Stopping", { cause: "Preempted" }) }))).toMatchObject({
      action: "Resubmit"
    })
    expect(decide(running, { report: report("Pending", { cause: "ImagePull" }) })._tag).toBe("Wait")
    expect(entryOf(decide(running, { report: report("Pending", { cause: "NoCapacity" }) }))).toMatchObject({
      action: "Escalate"
    })
  })

  it("what does not exist, and of which nothing is reported, is given up; a report counts for more", () => {
    expect(decide(running, { exists: true })._tag).toBe("Wait")
    expect(entryOf(decide(running, { exists: false }))).toMatchObject({ _tag: "Retiring", cause: "Deleted" })
    expect(decide(running, { exists: false, report: report("Running") })._tag).toBe("Wait")
    expect(entryOf(decide(running, { exists: false, report: report("Gone", { cause: "NodeLost" }) }))).toMatchObject({
      cause: "NodeLost"
    })
  })

  it("a refusal started nothing, so nothing is fenced", () => {
    const refused = entryOf(decide(record(accepted(), intended()), { refused: "no" }))
    expect(refused).toMatchObject({ _tag: "Refused", action: "Escalate" })
    if (refused !== undefined) {
      expect(entryOf(decide(record(accepted(), intended(), refused), {}))).toEqual(intended(2, "second"))
    }
  })

  it("every step that it announces can be written down, and it ends", () => {
    const states = FastCheck.constantFrom<Report["state"]>(
      "Pending",
      "Held",
      "Running",
      "Stopping",
      "Failed",
      "Gone",
      "Unknown"
    )
    const causes = FastCheck.constantFrom(
      undefined,
      "NodeLost",
      "NoCapacity",
      "Application",
      "Deleted",
      "Held",
      "Unknown"
    )
    const answers = FastCheck.record({
      state: states,
      cause: causes,
      start: FastCheck.constantFrom("Started" as const, "Gone" as const),
      fence: FastCheck.constantFrom("Fenced" as const, "Succeeded" as const),
      ended: FastCheck.boolean(),
      refused: FastCheck.boolean()
    })
    FastCheck.assert(
      FastCheck.property(FastCheck.array(answers, { minLength: 60, maxLength: 60 }), (all) => {
        let now = record(accepted())
        let observed: Observed = {}
        for (const { cause, ended, fence, refused, start, state } of all) {
          const n = Entry.current(now)?.n ?? 1
          const step = decide(now, { ...observed, report: report(state, { n, id: `id-${n}`, cause }) })
          if (step._tag === "Append") {
            now = Either.getOrThrowWith(Entry.apply("a", now, step.entry), (why) => new Error(why))
            observed = {}
          } else if (step._tag === "Prepare") observed = refused ? { refused: "no" } : { prepared: `id-${n}` }
          else if (step._tag === "Start") observed = { start }
          else if (step._tag === "Fence") observed = { fence }
          else if (step._tag === "Ask") observed = { stopped: { ...stopped, ceased: false, ended } }
        }
        expect(now.attempts.map(({ n }) => n)).toEqual(now.attempts.map((_, index) => index + 1))
        expect(now.attempts.length).toBeLessThanOrEqual(Policy.standard.attempts)
        // Whatever was started before the last one is known to have stopped
        for (const attempt of now.attempts.slice(0, -1)) {
          expect(attempt.refused ?? attempt.stopped).toBeDefined()
        }
      })
    )
  })
})
