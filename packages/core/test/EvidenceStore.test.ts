import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import { KeyValueStore } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Option, TestClock } from "effect"
import { base, ms, name, namespace, pod, seen, terminated, trainJob } from "./EvidenceFixtures.js"

const key = { namespace, name }

const fold = (store: EvidenceStore.Service, ...observations: ReadonlyArray<Evidence.Observation>) =>
  store.update(key, (evidence) => Evidence.foldAll(evidence, observations))

interface Disk {
  readonly records: Map<string, string>
  readonly writes: Array<string>
  readonly layer: Layer.Layer<KeyValueStore.KeyValueStore>
  failing: boolean
}

const disk = (): Disk => {
  const records = new Map<string, string>()
  const writes: Array<string> = []
  const self: Disk = {
    records,
    writes,
    failing: false,
    layer: Layer.succeed(
      KeyValueStore.KeyValueStore,
      KeyValueStore.makeStringOnly({
        get: (at) => Effect.sync(() => Option.fromNullable(records.get(at))),
        set: (at, value) =>
          Effect.suspend(() => {
            if (self.failing) {
              return Effect.fail(
                new SystemError({ reason: "Unknown", module: "KeyValueStore", method: "set", description: "disk full" })
              )
            }
            writes.push(at)
            records.set(at, value)
            return Effect.void
          }),
        // As a folder does
        remove: (at) =>
          Effect.suspend(() =>
            records.delete(at)
              ? Effect.void
              : Effect.fail(new SystemError({ reason: "NotFound", module: "KeyValueStore", method: "remove" }))
          ),
        clear: Effect.sync(() => records.clear()),
        size: Effect.sync(() => records.size)
      })
    )
  }
  return self
}

const open = (it: Disk, options: EvidenceStore.Options = {}) =>
  Effect.provide(EvidenceStore.makeKeyValueStore(options), it.layer)

const gone = [
  seen.trainJob(trainJob(), 10, "seen"),
  seen.pod(pod({ container: terminated(1, "Error", 9) }), 10, "seen"),
  ...base.filter((it) => it._tag === "JobSet").map((it) => ({ ...it, presence: "seen" as const }))
]

describe("EvidenceStore", () => {
  for (const [kind, make] of [
    ["memory", EvidenceStore.makeMemory],
    ["KeyValueStore", (options: EvidenceStore.Options) => open(disk(), options)]
  ] as const) {
    describe(kind, () => {
      it.effect("keeps what was folded, and knows its names", () =>
        Effect.gen(function* () {
          const store = yield* make({})
          expect(yield* store.get(key)).toEqual(Option.none())
          const after = yield* fold(store, ...base, seen.pod(pod(), 1))
          expect(yield* store.get(key)).toEqual(Option.some(after))
          expect(yield* store.keys).toEqual([key])
        })
      )

      it.effect("concurrent changes are all kept", () =>
        Effect.gen(function* () {
          const store = yield* make({})
          yield* Effect.forEach(
            Array.from({ length: 50 }, (_, index) => index),
            (index) => fold(store, seen.pod(pod({ uid: `p${index}`, index }), index)),
            { concurrency: "unbounded", discard: true }
          )
          const found = Option.getOrThrow(yield* store.get(key))
          expect(Object.keys(found.pods)).toHaveLength(50)
        })
      )

      it.effect("dropped a configurable time after the last object of the name is gone, and not before", () =>
        Effect.gen(function* () {
          yield* TestClock.setTime(ms(0))
          const store = yield* make({ retention: "1 hour" })
          yield* fold(store, ...base, seen.pod(pod(), 1))
          yield* TestClock.adjust("30 days")
          expect(yield* store.sweep).toEqual([])
          yield* TestClock.setTime(ms(10))
          yield* fold(store, ...gone)
          yield* TestClock.adjust("59 minutes")
          expect(yield* store.sweep).toEqual([])
          yield* TestClock.adjust("2 minutes")
          expect(yield* store.sweep).toEqual([key])
          expect(yield* store.get(key)).toEqual(Option.none())
          expect(yield* store.keys).toEqual([])
        })
      )

      it.effect("what is asked about is in use: it is dropped a configurable time after the last question", () =>
        Effect.gen(function* () {
          yield* TestClock.setTime(ms(10))
          const store = yield* make({})
          yield* fold(store, ...base, ...gone)
          for (let day = 1; day <= 20; day += 1) {
            yield* TestClock.adjust("1 day")
            yield* store.touch(key)
            expect(yield* store.sweep).toEqual([])
          }
          yield* TestClock.adjust("6 days")
          expect(yield* store.sweep).toEqual([])
          yield* TestClock.adjust("1 day")
          expect(yield* store.sweep).toEqual([key])
          // Nothing of it is remembered: the same name, kept anew, is due by itself
          yield* fold(store, ...base, ...gone)
          expect(yield* store.sweep).toEqual([key])
        })
      )

      it.effect("a question about what exists, or of which nothing is kept, changes nothing", () =>
        Effect.gen(function* () {
          yield* TestClock.setTime(ms(0))
          const store = yield* make({ retention: "1 hour" })
          yield* store.touch(key)
          expect(yield* store.keys).toEqual([])
          yield* fold(store, ...base, seen.pod(pod(), 1))
          yield* TestClock.setTime(ms(5))
          yield* store.touch(key)
          yield* fold(store, ...gone)
          yield* TestClock.setTime(ms(10 + 3600))
          expect(yield* store.sweep).toEqual([key])
        })
      )

      it.effect("bounded: earlier executions are given up, the current one never", () =>
        Effect.gen(function* () {
          const store = yield* make({ limits: { earlierPods: 3 } })
          for (let count = 1; count <= 10; count += 1) {
            yield* fold(
              store,
              seen.pod(pod({ uid: `p${count}`, count, created: count }), count),
              ...(count < 10
                ? [seen.pod(pod({ uid: `p${count}`, count, created: count }), count, "seen" as const)]
                : [])
            )
          }
          const found = Option.getOrThrow(yield* store.get(key))
          expect(Object.keys(found.pods)).toEqual(["p7", "p8", "p9", "p10"])
          expect(found.droppedPods).toBe(6)
        })
      )
    })
  }

  it.effect("survives a restart", () =>
    Effect.gen(function* () {
      const it = disk()
      const before = yield* fold(yield* open(it), ...base, seen.pod(pod(), 1), ...gone)
      const again = yield* open(it)
      expect(yield* again.get(key)).toEqual(Option.some(before))
      expect(yield* again.keys).toEqual([key])
      // and goes on
      yield* fold(again, seen.pod(pod({ uid: "p1", index: 1 }), 12))
      expect(Object.keys(Option.getOrThrow(yield* (yield* open(it)).get(key)).pods)).toEqual(["p0", "p1"])
    })
  )

  it.effect("one pod's change writes one record, whatever the size of the job", () =>
    Effect.gen(function* () {
      const it = disk()
      const store = yield* open(it)
      const pods = Array.from({ length: 200 }, (_, index) =>
        seen.pod(pod({ uid: `p${index}`, index, version: 1 + index }), 1)
      )
      yield* fold(store, ...base, ...pods)
      it.writes.length = 0
      yield* fold(store, seen.pod(pod({ uid: "p7", index: 7, version: 900, container: terminated(1, "Error", 9) }), 9))
      expect(it.writes).toEqual([`evidence/${namespace}/${name}/pod/p7`])
    })
  )

  const damaged: ReadonlyArray<readonly [string, (text: string) => string, string]> = [
    ["not JSON", (text) => text.slice(0, -5), "damaged"],
    ["another document", () => '{"hello":"world"}', "damaged"],
    ["a field of the wrong type", (text) => text.replace('"name":"run-1"', '"name":7'), "damaged"],
    ["another version", (text) => text.replace('"version":1', '"version":2'), "version"]
  ]
  for (const [title, spoil, kind] of damaged) {
    it.effect(`${title}: a typed error, and nothing is overwritten`, () =>
      Effect.gen(function* () {
        const it = disk()
        yield* fold(yield* open(it), ...base, seen.pod(pod(), 1))
        const at = `evidence/${namespace}/${name}/head`
        const spoilt = spoil(it.records.get(at) ?? "")
        it.records.set(at, spoilt)
        const before = new Map(it.records)
        const store = yield* open(it)
        expect(yield* Effect.flip(store.get(key))).toMatchObject({ _tag: "EvidenceStoreError", kind })
        expect(yield* Effect.flip(fold(store, seen.pod(pod({ uid: "p9" }), 3)))).toMatchObject({ kind })
        expect(it.records).toEqual(before)
        // Other names go on
        yield* store.update({ namespace, name: "run-2" }, (evidence) => ({ ...evidence, droppedPods: 1 }))
      })
    )
  }

  for (const [title, spoil] of damaged) {
    it.effect(`${title}: a sweep leaves it as it is, and drops what else is due`, () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(ms(10))
        const it = disk()
        const first = yield* open(it)
        yield* fold(first, ...base, ...gone)
        const other = { namespace, name: "run-0" }
        yield* first.update(other, (evidence) => Evidence.foldAll(evidence, gone))
        const last = { namespace, name: "run-9" }
        yield* first.update(last, (evidence) => Evidence.foldAll(evidence, gone))
        const at = `evidence/${namespace}/${name}/head`
        it.records.set(at, spoil(it.records.get(at) ?? ""))
        const before = [...it.records].filter(([record]) => record.startsWith(`evidence/${namespace}/${name}/`))
        const store = yield* open(it)
        yield* TestClock.adjust("8 days")
        expect(yield* store.sweep).toEqual([other, last])
        expect([...it.records].filter(([record]) => record !== "evidence/index")).toEqual(before)
        expect(yield* store.keys).toEqual([key])
      })
    )
  }

  const note = `evidence/${namespace}/${name}/asked`

  it.effect("questions write a note an hour, never evidence, and none while something exists", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(ms(0))
      const it = disk()
      const store = yield* open(it)
      yield* fold(store, ...base, seen.pod(pod(), 1))
      it.writes.length = 0
      yield* store.touch(key)
      expect(it.writes).toEqual([])
      yield* TestClock.setTime(ms(10))
      yield* fold(store, ...gone)
      it.writes.length = 0
      for (let minute = 0; minute < 150; minute += 1) {
        yield* store.touch(key)
        yield* TestClock.adjust("1 minute")
      }
      expect(it.writes).toEqual([note, note, note])
      // A restart is no reason for one
      yield* (yield* open(it)).touch(key)
      expect(it.writes).toHaveLength(3)
    })
  )

  it.effect("a question survives a restart, and its note goes with the evidence", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(ms(10))
      const it = disk()
      const first = yield* open(it)
      yield* fold(first, ...base, ...gone)
      yield* TestClock.adjust("6 days")
      yield* first.touch(key)
      yield* TestClock.adjust("6 days")
      const again = yield* open(it)
      expect(yield* again.sweep).toEqual([])
      // The last question may have come an hour after the note
      yield* TestClock.adjust("24 hours")
      expect(yield* again.sweep).toEqual([])
      yield* TestClock.adjust("1 hour")
      expect(yield* again.sweep).toEqual([key])
      expect([...it.records.keys()]).toEqual(["evidence/index"])
    })
  )

  for (const [title, text] of [
    ["not JSON", '{"format":"dispatch-kubeflow/evi'],
    ["no time", '{"format":"dispatch-kubeflow/evidence","version":1,"asked":"yesterday"}'],
    ["another version", '{"format":"dispatch-kubeflow/evidence","version":2,"asked":0}']
  ] as const) {
    it.effect(
      `a note that cannot be read, ${title}: it may have said just now, and the next question replaces it`,
      () =>
        Effect.gen(function* () {
          yield* TestClock.setTime(ms(10))
          const it = disk()
          yield* fold(yield* open(it), ...base, ...gone)
          it.records.set(note, text)
          yield* TestClock.adjust("10 days")
          const store = yield* open(it)
          expect(yield* store.sweep).toEqual([])
          yield* TestClock.adjust("6 days")
          expect(yield* store.sweep).toEqual([])
          expect(it.records.get(note)).toBe(text)
          yield* store.touch(key)
          expect(it.records.get(note)).not.toBe(text)
          yield* TestClock.adjust("6 days")
          expect(yield* (yield* open(it)).sweep).toEqual([])
          yield* TestClock.adjust("1 day")
          expect(yield* store.sweep).toEqual([key])
        })
    )
  }

  it.effect("a question that cannot be noted says so, counts in this process, and the next one is", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(ms(10))
      const it = disk()
      const store = yield* open(it)
      yield* fold(store, ...base, ...gone)
      yield* TestClock.adjust("6 days")
      it.failing = true
      expect(yield* Effect.flip(store.touch(key))).toMatchObject({
        kind: "unavailable",
        key: `${namespace}/${name}/asked`
      })
      yield* TestClock.adjust("6 days")
      expect(yield* store.sweep).toEqual([])
      it.failing = false
      yield* store.touch(key)
      expect(it.records.has(note)).toBe(true)
    })
  )

  it.effect("a question about evidence that cannot be read fails and writes nothing", () =>
    Effect.gen(function* () {
      const it = disk()
      yield* fold(yield* open(it), ...base, ...gone)
      it.records.set(`evidence/${namespace}/${name}/head`, "{")
      const before = new Map(it.records)
      expect(yield* Effect.flip((yield* open(it)).touch(key))).toMatchObject({ kind: "damaged" })
      expect(it.records).toEqual(before)
    })
  )

  it.effect("a sweep of a store that fails, fails", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(ms(10))
      const it = disk()
      const store = yield* open(it)
      yield* fold(store, ...base, ...gone)
      yield* TestClock.adjust("8 days")
      it.failing = true
      const error = yield* Effect.flip(store.sweep)
      expect(error).toMatchObject({ kind: "unavailable" })
      expect(EvidenceStore.isOfOneName(error)).toBe(false)
    })
  )

  it.effect("a record that is missing is damage, not absence", () =>
    Effect.gen(function* () {
      const it = disk()
      yield* fold(yield* open(it), seen.pod(pod(), 1))
      it.records.delete(`evidence/${namespace}/${name}/pod/p0`)
      expect(yield* Effect.flip((yield* open(it)).get(key))).toMatchObject({ kind: "damaged" })
    })
  )

  it.effect("a damaged index fails at construction", () =>
    Effect.gen(function* () {
      const it = disk()
      it.records.set("evidence/index", "x")
      expect(yield* Effect.flip(open(it))).toMatchObject({ kind: "damaged", key: "index" })
    })
  )

  it.effect("a store that fails says so, and what was not stored is not believed", () =>
    Effect.gen(function* () {
      const it = disk()
      const store = yield* open(it)
      const before = yield* fold(store, ...base)
      it.failing = true
      expect(yield* Effect.flip(fold(store, seen.pod(pod(), 1)))).toMatchObject({ kind: "unavailable" })
      it.failing = false
      expect(yield* store.get(key)).toEqual(Option.some(before))
      yield* fold(store, seen.pod(pod(), 1))
      expect(Object.keys(Option.getOrThrow(yield* (yield* open(it)).get(key)).pods)).toEqual(["p0"])
    })
  )
})
