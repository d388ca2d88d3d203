import { KeyValueStore } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import type * as Entry from "../src/Entry.js"
import * as Journal from "../src/Journal.js"
import * as Policy from "../src/Policy.js"

const accepted: Entry.Entry = {
  _tag: "Accepted",
  work: { nodes: 1 },
  policy: Policy.standard,
  backends: ["first"],
  token: "t"
}
const intended = (backend: string): Entry.Entry => ({ _tag: "Intended", n: 1, backend })

/** A journal, and the text that it is kept as. */
const made = Effect.gen(function* () {
  const files = new Map<string, string>()
  const store = KeyValueStore.makeStringOnly({
    get: (key) => Effect.sync(() => Option.fromNullable(files.get(key))),
    set: (key, value) => Effect.sync(() => void files.set(key, value)),
    remove: (key) => Effect.sync(() => void files.delete(key)),
    clear: Effect.sync(() => files.clear()),
    size: Effect.sync(() => files.size)
  })
  const journal = yield* Effect.provideService(Journal.make, KeyValueStore.KeyValueStore, store)
  return { files, journal }
})

describe("the journal", () => {
  it.effect("what was appended is read again, and the run is known", () =>
    Effect.gen(function* () {
      const { journal } = yield* made
      const record = yield* journal.append("a", undefined, accepted)
      yield* journal.append("a", record, intended("first"))
      expect(yield* journal.runs).toEqual(["a"])
      expect(Option.getOrThrow(yield* journal.read("a"))).toMatchObject({
        length: 2,
        attempts: [{ n: 1, backend: "first" }]
      })
      expect(yield* journal.read("b")).toEqual(Option.none())
    })
  )

  it.effect("a second writer is noticed, and nothing of the first is overwritten", () =>
    Effect.gen(function* () {
      const { files, journal } = yield* made
      const record = yield* journal.append("a", undefined, accepted)
      yield* journal.append("a", record, intended("first"))
      const before = [...files]
      expect(yield* Effect.flip(journal.append("a", record, intended("second")))).toMatchObject({ kind: "conflict" })
      expect(yield* Effect.flip(journal.append("a", undefined, accepted))).toMatchObject({ kind: "conflict" })
      expect([...files]).toEqual(before)
    })
  )

  it.effect("what cannot follow is not written", () =>
    Effect.gen(function* () {
      const { files, journal } = yield* made
      const record = yield* journal.append("a", undefined, accepted)
      const before = [...files]
      const error = yield* Effect.flip(journal.append("a", record, { _tag: "Fenced", n: 1 }))
      expect(error).toMatchObject({ kind: "damaged", run: "a" })
      expect([...files]).toEqual(before)
    })
  )

  it.effect(
    "a person's word is read again with who and why, and a journal from before there were any is read as it was",
    () =>
      Effect.gen(function* () {
        const { files, journal } = yield* made
        const older = [
          { _tag: "Intended", n: 1, backend: "first" },
          { _tag: "Prepared", n: 1, id: "id-1" },
          { _tag: "Started", n: 1 },
          { _tag: "Retiring", n: 1, cause: "NoCapacity", detail: "", action: "Resubmit" },
          { _tag: "Fenced", n: 1 }
        ]
        yield* journal.append("a", undefined, accepted)
        for (const [index, entry] of older.entries()) {
          files.set(`journal/run/a/${index + 1}`, JSON.stringify({ version: 1, entry }))
        }
        const before = Option.getOrThrow(yield* journal.read("a"))
        expect(before.attempts).toMatchObject([{ fenced: true, vouched: undefined }])
        yield* journal.append("a", before, {
          _tag: "Vouched",
          n: 1,
          by: "operator",
          reason: "its quota let no pod be made"
        })
        expect(Option.getOrThrow(yield* journal.read("a")).attempts).toMatchObject([
          { vouched: { by: "operator", reason: "its quota let no pod be made" } }
        ])
      })
  )

  it.effect("nobody's word, and one without a reason, are damaged", () =>
    Effect.gen(function* () {
      const { files, journal } = yield* made
      const record = yield* journal.append("a", undefined, accepted)
      yield* journal.append("a", record, intended("first"))
      for (const word of [{ by: "operator" }, { by: "", reason: "I saw it" }, { by: "operator", reason: "" }]) {
        files.set("journal/run/a/2", JSON.stringify({ version: 1, entry: { _tag: "Vouched", n: 1, ...word } }))
        expect(yield* Effect.flip(journal.read("a"))).toMatchObject({ kind: "damaged" })
      }
    })
  )

  for (const [what, text] of [
    ["half a line", '{"version":1,"entry":{"_tag":"Acc'],
    ["another version", '{"version":2,"entry":{"_tag":"Accepted"}}'],
    ["an entry that cannot follow", '{"version":1,"entry":{"_tag":"Fenced","n":1}}'],
    ["an empty file", ""]
  ] as const) {
    it.effect(`${what} is damaged: a typed error, and nothing is overwritten`, () =>
      Effect.gen(function* () {
        const { files, journal } = yield* made
        const record = yield* journal.append("a", undefined, accepted)
        files.set("journal/run/a/1", text)
        expect(yield* Effect.flip(journal.read("a"))).toMatchObject({ kind: "damaged", run: "a" })
        expect(yield* Effect.flip(journal.append("a", record, intended("first")))).toMatchObject({ kind: "conflict" })
        expect(files.get("journal/run/a/1")).toBe(text)
      })
    )
  }

  it.effect("a damaged index is an error, not an empty journal", () =>
    Effect.gen(function* () {
      const { files, journal } = yield* made
      yield* journal.append("a", undefined, accepted)
      files.set("journal/runs", "[")
      expect(yield* Effect.flip(journal.runs)).toMatchObject({ kind: "damaged" })
      expect(yield* Effect.flip(journal.append("b", undefined, accepted))).toMatchObject({ kind: "damaged" })
    })
  )
})
