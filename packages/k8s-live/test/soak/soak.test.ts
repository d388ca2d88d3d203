/** That the soak's checks find what they are for: a run that finds nothing says something only then. */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import type * as Output from "@dispatch-kubeflow/core/Output"
import { afterEach, beforeEach, describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Ledger from "./Ledger.js"
import * as Logs from "./Logs.js"
import * as Memory from "./Memory.js"

const ref = { namespace: "n", name: "place-0-1", uid: "u" }

const update = (fields: Partial<Update.Update>): Update.Update => ({
  ref,
  state: "Running",
  incarnation: 1,
  repeated: false,
  alive: true,
  evidence: [],
  notes: [],
  ...fields
})

const trainJob = (conditions: ReadonlyArray<string>): Ledger.Seen => ({
  trainJob: {
    metadata: { name: ref.name, uid: ref.uid, resourceVersion: "1" },
    status: { conditions: conditions.map((type) => ({ type, status: "True" as const })) }
  },
  pods: []
})

describe("the soak's ledger", () => {
  const failed: Ledger.Order = { _tag: "Failed", cause: "Application", exitCode: 3 }
  const application = (exitCode: number) => ({ _tag: "Application" as const, container: "node", exitCode })
  const isFailed: Ledger.View = new Map([[ref.uid, trainJob(["Failed"])]])
  // Everything is due at once
  const run = (updates: ReadonlyArray<Update.Update>, view: Ledger.View) =>
    Effect.gen(function* () {
      const ledger = Ledger.make({ tell: -1, do: -1 }, () => undefined)
      ledger.add(ref.uid, ref.name)
      const verdict = yield* ledger.order(ref.uid, failed)
      for (const it of updates) ledger.saw(it)
      ledger.audit(view)
      return { verdict: yield* verdict, counts: ledger.counts, differences: ledger.differences(view, new Map()) }
    })

  for (const [what, updates, view, verdict] of [
    ["told", [update({ state: "Failed", outcome: "Failed", cause: application(3) })], isFailed, "told"],
    ["not told", [update({})], isFailed, "lost"],
    ["another cause", [update({ state: "Failed", outcome: "Failed", cause: application(4) })], isFailed, "wrong"],
    ["not done by the cluster", [update({})], new Map([[ref.uid, trainJob([])]]), "undone"]
  ] as const) {
    it.effect(`${what}: ${verdict}`, () =>
      Effect.map(run(updates, view), (result) => {
        expect(result.verdict).toBe(verdict)
        expect(result.counts).toMatchObject({
          lost: 0,
          wrong: 0,
          undone: 0,
          ...(verdict === "told" ? {} : { [verdict]: 1 })
        })
      })
    )
  }

  it.effect("another outcome than ordered is wrong at once, and told once", () =>
    Effect.map(
      run(
        [1, 2].map((incarnation) => update({ incarnation, state: "Succeeded", outcome: "Succeeded" })),
        isFailed
      ),
      ({ counts, differences }) => {
        expect(counts.wrong).toBe(1)
        expect(counts.lost).toBe(1)
        expect(differences.length).toBeGreaterThan(0)
      }
    )
  )
})

describe("the soak's readers", () => {
  let folder = ""
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "soak-test-"))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  /** Follows a log of ten lines of which this arrives. */
  const read = (arrives: (lines: ReadonlyArray<string>) => ReadonlyArray<Output.OutputEvent | string>) => {
    const counts = Logs.empty()
    const log = Logs.create(ref.name, join(folder, "log"), counts)
    for (let piece = 0; piece < 10; piece++) log.append(1)
    const lines = readFileSync(log.file, "utf8")
      .split("\n")
      .slice(0, -1)
      .map((record) => record.split(" ").slice(3).join(" "))
    const events = arrives(lines).map((it): Output.OutputEvent =>
      typeof it === "string" ? { _tag: "Bytes", bytes: new TextEncoder().encode(`${it}\n`) } : it
    )
    const end: Output.OutputEvent = { _tag: "End", how: "terminated", exitCode: 0, reason: "" }
    const adapter = { outputEvents: () => Stream.fromIterable([...events, end]) } as Partial<Adapter.Service>
    return Effect.as(
      Logs.follow(adapter as Adapter.Service, ref, log, counts, () => undefined),
      counts
    )
  }
  const gap: Output.OutputEvent = { _tag: "Gap", reason: "", after: undefined, before: undefined }

  for (const [what, arrives, expected] of [
    ["all", (all: ReadonlyArray<string>) => all, {}],
    ["all but one", (all: ReadonlyArray<string>) => all.toSpliced(4, 1), { lost: 1, received: 9 }],
    ["all but the last two", (all: ReadonlyArray<string>) => all.slice(0, 8), { lost: 2, received: 8 }],
    ["one twice", (all: ReadonlyArray<string>) => [...all, ...all.slice(9)], { duplicated: 1 }],
    ["one that is cut", (all: ReadonlyArray<string>) => [...all, "place-0-1 10"], { damaged: 1 }],
    ["a gap", (all: ReadonlyArray<string>) => [...all, gap], { gaps: 1 }]
  ] as const) {
    it.effect(`${what}: ${JSON.stringify(expected)}`, () =>
      Effect.map(read(arrives), (counts) => {
        const { bytes: _bytes, ...rest } = counts
        expect(rest).toEqual({
          written: 10,
          received: 10,
          lost: 0,
          duplicated: 0,
          damaged: 0,
          gaps: 0,
          failed: 0,
          followed: 1,
          following: 0,
          ...expected
        })
      })
    )
  }
})

describe("the soak's trend", () => {
  const samples = (heap: (minute: number) => number): ReadonlyArray<Memory.Sample> =>
    Array.from({ length: 12 }, (_, minute) => ({ at: minute * 60_000, heap: heap(minute) * 1024, rss: 0 }))

  it("a slope in KB a minute, and the last third to the first", () => {
    const growing = Memory.trend(
      samples((minute) => 1000 + 100 * minute),
      (it) => it.heap
    )
    expect(growing?.slope).toBeCloseTo(100)
    expect(growing?.ratio).toBeCloseTo(1950 / 1150)
    const noisy = Memory.trend(
      samples((minute) => 1000 + (minute % 2)),
      (it) => it.heap
    )
    expect(noisy?.slope).toBeLessThan(1)
    expect(Memory.trend(samples(() => 1).slice(0, 5), (it) => it.heap)).toBeUndefined()
  })
})
