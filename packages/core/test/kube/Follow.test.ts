import * as Follow from "@dispatch-kubeflow/core/kube/Follow"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { Listed, WatchEvent } from "@dispatch-kubeflow/core/kube/KubeApi"
import {
  KubeExpired,
  KubeForbidden,
  type KubeError,
  KubeInvalid,
  KubeMalformed,
  KubeUnavailable
} from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, FastCheck as fc, Fiber, HashMap, Ref, Stream, TestClock } from "effect"

const pod = (name: string, version: number, uid = `u-${name}`): Core.Pod => ({
  metadata: { name, namespace: "a", uid, resourceVersion: String(version) }
})
const list = (resourceVersion: number, ...items: ReadonlyArray<Core.Pod>): Listed<Core.Pod> => ({
  items,
  undecodable: [],
  resourceVersion: String(resourceVersion)
})
const applied = (object: Core.Pod): WatchEvent<Core.Pod> => ({
  _tag: "Applied",
  type: "MODIFIED",
  object,
  resourceVersion: object.metadata.resourceVersion ?? ""
})
const request = KubeRequest.make("watch", Core.pods, { namespace: "a" })
const expired = new KubeExpired({ request })
const unavailable = (retryAfter?: number): KubeUnavailable =>
  new KubeUnavailable({ request, phase: "server", ...(retryAfter === undefined ? {} : { retryAfter }) })

const run = (signals: ReadonlyArray<Follow.Signal<Core.Pod>>) => {
  let state = Follow.initial<Core.Pod>()
  const events: Array<Follow.FollowEvent<Core.Pod>> = []
  const actions: Array<Follow.Action> = []
  for (const signal of signals) {
    const [next, told, action] = Follow.step(state, signal)
    state = next
    events.push(...told)
    actions.push(action)
  }
  return { state, events, actions }
}
const fail = (error: KubeError, now = 0, random = 0): Follow.Signal<Core.Pod> => ({
  _tag: "Failed",
  error,
  now,
  random
})
const listed = (it: Listed<Core.Pod>): Follow.Signal<Core.Pod> => ({ _tag: "Listed", list: it })
const frame = (event: WatchEvent<Core.Pod>): Follow.Signal<Core.Pod> => ({ _tag: "Frame", event })
const names = (objects: ReadonlyArray<Core.Pod>) => objects.map((it) => it.metadata.name)

describe("Follow.step", () => {
  it("W10: watches from the version of the list, so that nothing falls between them", () => {
    const { actions, events } = run([listed(list(7, pod("p", 3)))])
    expect(actions).toEqual([{ _tag: "Watch", from: "7" }])
    expect(events).toMatchObject([{ _tag: "Snapshot", deleted: [] }])
  })

  it("W12, W15: an object of the same uid and version is not told twice", () => {
    const { events } = run([
      listed(list(7, pod("p", 3))),
      frame(applied(pod("p", 3))),
      frame(applied(pod("p", 8))),
      frame(applied(pod("p", 8)))
    ])
    expect(events.map((it) => it._tag)).toEqual(["Snapshot", "Applied"])
  })

  it("a bookmark moves the cursor and tells nothing", () => {
    const { events, state } = run([
      listed(list(7)),
      frame({ _tag: "Bookmark", resourceVersion: "40", initialEventsEnd: false })
    ])
    expect(state.cursor).toBe("40")
    expect(events).toHaveLength(1)
  })

  it("W12: an orderly end resumes from the cursor, without a list", () => {
    const { actions } = run([
      listed(list(7)),
      { _tag: "Opened", now: 0 },
      frame(applied(pod("p", 9))),
      { _tag: "Closed", now: 60_000, random: 0 }
    ])
    expect(actions.at(-1)).toEqual({ _tag: "Watch", from: "9" })
  })

  it("I02: connections that end at once are opened with growing pauses", () => {
    const signals: Array<Follow.Signal<Core.Pod>> = [listed(list(7))]
    let now = 0
    const pauses: Array<number> = []
    for (let index = 0; index < 8; index += 1) {
      signals.push({ _tag: "Opened", now }, { _tag: "Closed", now: now + 1, random: 0.999 }, { _tag: "Woke" })
      const { actions } = run(signals)
      const sleep = actions.at(-2)
      const duration = sleep?._tag === "Sleep" ? sleep.duration : Number.NaN
      pauses.push(duration)
      now += duration + 1
    }
    expect(pauses.every((it) => it >= 800 && it <= 30_000)).toBe(true)
    expect(pauses.at(-1)).toBeGreaterThan(29_000)
  })

  it("W05, W08, W24: an expired version, in either shape, or one that the server refuses, is listed anew once", () => {
    for (const error of [
      expired,
      new KubeInvalid({ request, code: 400 }),
      new KubeMalformed({ request, detail: "garbled line" })
    ]) {
      const { actions, state } = run([listed(list(7)), fail(error)])
      expect(actions.at(-1)).toEqual({ _tag: "List" })
      expect(state.phase).toBe("list")
    }
  })

  it("W17: when even fresh versions are too old, lists come with pauses, and one good frame makes it the first again", () => {
    const { actions } = run([
      listed(list(7)),
      fail(expired),
      listed(list(8)),
      fail(expired),
      { _tag: "Woke" },
      listed(list(9)),
      frame(applied(pod("p", 10))),
      fail(expired)
    ])
    expect(actions.map((it) => it._tag)).toEqual(["Watch", "List", "Watch", "Sleep", "List", "Watch", "Read", "List"])
  })

  it("W01: 429 and 5xx pause and resume from the cursor without a list; Retry-After wins", () => {
    const { actions, events } = run([listed(list(7)), fail(unavailable(2_500)), { _tag: "Woke" }])
    expect(actions.slice(1)).toEqual([
      { _tag: "Sleep", duration: 2_500 },
      { _tag: "Watch", from: "7" }
    ])
    expect(events.at(-1)).toMatchObject({ _tag: "Interrupted", retryIn: 2_500 })
  })

  it("the pause grows from 0.8 s to at most 30 s and starts over after two quiet minutes", () => {
    const pause = (failures: ReadonlyArray<number>, random: number) => {
      const { actions } = run([listed(list(7)), ...failures.map((now) => fail(unavailable(), now, random))])
      const last = actions.at(-1)
      return last?._tag === "Sleep" ? last.duration : Number.NaN
    }
    expect(pause([0], 0)).toBe(800)
    expect(
      pause(
        Array.from({ length: 12 }, (_, index) => index * 1_000),
        0.9999
      )
    ).toBeGreaterThan(29_900)
    expect(
      pause(
        Array.from({ length: 12 }, (_, index) => index * 1_000),
        0.9999
      )
    ).toBeLessThanOrEqual(30_000)
    expect(pause([...Array.from({ length: 12 }, (_, index) => index * 1_000), 200_000], 0.9999)).toBeLessThanOrEqual(
      1_600
    )
  })

  it("O06: a connection that worked and broke does not slow the next one down, however often that happens", () => {
    const signals: Array<Follow.Signal<Core.Pod>> = [listed(list(7))]
    for (let index = 0; index < 20; index += 1) {
      const now = index * 5_000
      signals.push(
        { _tag: "Opened", now },
        fail(new KubeUnavailable({ request, phase: "stream" }), now + 2_000, 0.999),
        { _tag: "Woke" }
      )
    }
    const pauses = run(signals).actions.flatMap((it) => (it._tag === "Sleep" ? [it.duration] : []))
    expect(pauses).toHaveLength(20)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1_600)
  })

  it("W19: forbidden ends it, with the verb in the error", () => {
    const error = new KubeForbidden({ request })
    expect(run([listed(list(7)), fail(error)]).actions.at(-1)).toEqual({ _tag: "Fail", error })
    expect(error.message).toContain('verb "watch"')
  })

  it("W11, I12: what is missing after a gap is told as an inferred deletion with its last known state", () => {
    const { events } = run([
      listed(list(7, pod("p", 3), pod("q", 4))),
      fail(expired),
      listed(list(20, pod("q", 15), pod("r", 16)))
    ])
    const snapshot = events.at(-1)
    expect(snapshot?._tag).toBe("Snapshot")
    if (snapshot?._tag !== "Snapshot") return
    expect(names(snapshot.deleted)).toEqual(["p"])
    expect(names(snapshot.changed).toSorted()).toEqual(["q", "r"])
  })

  it("another uid under the same name is a deletion nobody saw, and a new object", () => {
    const { events } = run([listed(list(7, pod("p", 3))), frame(applied(pod("p", 9, "other")))])
    expect(events.slice(1)).toMatchObject([
      { _tag: "Deleted", seen: false, object: { metadata: { uid: "u-p" } } },
      { _tag: "Applied", object: { metadata: { uid: "other" } } }
    ])
  })

  it("W14: an object that does not decode moves the cursor, is told, and is not a deletion after a list", () => {
    const bad = { namespace: "a", name: "p", resourceVersion: "9", issue: "no uid" }
    const { state, events } = run([
      listed(list(7, pod("p", 3))),
      frame({ _tag: "Undecodable", deleted: false, object: bad }),
      fail(expired),
      listed({ items: [], undecodable: [bad], resourceVersion: "12" })
    ])
    expect(events.map((it) => it._tag)).toEqual(["Snapshot", "Undecodable", "Snapshot"])
    expect(events.at(-1)).toMatchObject({ deleted: [] })
    expect(HashMap.size(state.known)).toBe(1)
  })
})

// A collection whose watch connections misbehave as told: the plainest server there can be
interface World {
  readonly version: number
  readonly objects: ReadonlyMap<string, Core.Pod>
  readonly log: ReadonlyArray<{ readonly version: number; readonly frame: WatchFrame }>
  readonly floor: number
}
type Fault = "none" | "break" | "end" | "expire" | "unavailable" | "duplicate"

const world = (fault: (connection: number) => Fault) =>
  Effect.gen(function* () {
    const state = yield* Ref.make<World>({ version: 1, objects: new Map(), log: [], floor: 0 })
    const connections = yield* Ref.make(0)
    const calls: Array<string> = []
    const put = (name: string, gone: boolean) =>
      Ref.update(state, (it): World => {
        const before = it.objects.get(name)
        if (gone && before === undefined) return it
        const version = it.version + 1
        const object = pod(
          name,
          version,
          gone ? before?.metadata.uid : (before?.metadata.uid ?? `u-${name}-${version}`)
        )
        const objects = new Map(it.objects)
        if (gone) objects.delete(name)
        else objects.set(name, object)
        const type = gone ? "DELETED" : before === undefined ? "ADDED" : "MODIFIED"
        return { ...it, version, objects, log: [...it.log, { version, frame: { type, object } }] }
      })
    const transport: KubeTransport = {
      call: (it) =>
        Effect.map(Ref.get(state), (now) => {
          calls.push(it.verb)
          return {
            status: 200,
            warnings: [],
            body: { metadata: { resourceVersion: String(now.version) }, items: [...now.objects.values()] }
          }
        }),
      watch: (it) =>
        Stream.unwrap(
          Effect.gen(function* (): Effect.fn.Return<Stream.Stream<WatchFrame, KubeError>> {
            calls.push("watch")
            const number = yield* Ref.getAndUpdate(connections, (count) => count + 1)
            const kind = fault(number)
            const from = Number(it.query["resourceVersion"])
            const now = yield* Ref.get(state)
            if (kind === "unavailable") return Stream.fail(unavailable())
            if (kind === "expire" || from < now.floor) return Stream.fail(expired)
            const frames = now.log.filter((entry) => entry.version > from).map((entry) => entry.frame)
            const sent = Stream.fromIterable(kind === "duplicate" ? frames.flatMap((one) => [one, one]) : frames)
            if (kind === "break") {
              return Stream.concat(
                Stream.take(sent, 1),
                Stream.fail(new KubeUnavailable({ request: it, phase: "stream" }))
              )
            }
            return kind === "end" ? Stream.take(sent, 2) : Stream.concat(sent, Stream.never)
          })
        ),
      bytes: () => Stream.empty
    }
    return {
      api: KubeApi.make(transport),
      put,
      compact: Ref.update(state, (it): World => ({ ...it, floor: it.version, log: [] })),
      state,
      calls
    }
  })

const fold = (view: ReadonlyMap<string, string>, event: Follow.FollowEvent<Core.Pod>): ReadonlyMap<string, string> => {
  const next = new Map(view)
  const set = (it: Core.Pod) => next.set(it.metadata.name, it.metadata.resourceVersion ?? "")
  switch (event._tag) {
    case "Snapshot":
      for (const it of event.deleted) next.delete(it.metadata.name)
      for (const it of event.changed) set(it)
      return next
    case "Applied":
      set(event.object)
      return next
    case "Deleted":
      next.delete(event.object.metadata.name)
      return next
    default:
      return view
  }
}

describe("Follow.follow", () => {
  it.effect("W21: whatever is cut, ended, refused, doubled or compacted, the view equals the truth afterwards", () =>
    Properties.assert(
      fc.tuple(
        fc.array(fc.constantFrom<Fault>("none", "break", "end", "expire", "unavailable", "duplicate"), {
          maxLength: 6
        }),
        fc.array(
          fc.oneof(
            fc.record({
              name: fc.constantFrom("p", "q", "r"),
              gone: fc.boolean(),
              wait: fc.constantFrom(0, 0, 0, 400_000)
            }),
            fc.constant("compact" as const)
          ),
          { maxLength: 12 }
        )
      ),
      ([faults, changes]) =>
        Effect.gen(function* () {
          const server = yield* world((connection) => faults[connection] ?? "none")
          const view = yield* Ref.make<ReadonlyMap<string, string>>(new Map())
          yield* Effect.forkScoped(
            Stream.runForEach(Follow.follow(server.api, Core.pods, { namespace: "a" }), (event) =>
              Ref.update(view, (it) => fold(it, event))
            )
          )
          for (const change of changes) {
            if (change === "compact") yield* server.compact
            else {
              yield* server.put(change.name, change.gone)
              if (change.wait > 0) yield* TestClock.adjust(change.wait)
            }
          }
          // idle limits and pauses pass: faults are used up, the rest is delivered
          for (let index = 0; index < faults.length + 2; index += 1) yield* TestClock.adjust(200_000)
          const truth = yield* Ref.get(server.state)
          const expected = [...truth.objects.values()].map((it): readonly [string, string] => [
            it.metadata.name,
            it.metadata.resourceVersion ?? ""
          ])
          expect(yield* Ref.get(view)).toEqual(new Map(expected))
        }),
      60
    )
  )

  it.scoped("I04: interrupting it closes the connection", () =>
    Effect.gen(function* () {
      const open = yield* Ref.make(0)
      const transport: KubeTransport = {
        call: () =>
          Effect.succeed({ status: 200, warnings: [], body: { metadata: { resourceVersion: "1" }, items: [] } }),
        watch: () =>
          Stream.unwrapScoped(
            Effect.as(
              Effect.acquireRelease(
                Ref.update(open, (it) => it + 1),
                () => Ref.update(open, (it) => it - 1)
              ),
              Stream.never
            )
          ),
        bytes: () => Stream.empty
      }
      const fiber = yield* Effect.fork(
        Stream.runDrain(Follow.follow(KubeApi.make(transport), Core.pods, { namespace: "a" }))
      )
      yield* TestClock.adjust(1)
      expect(yield* Ref.get(open)).toBe(1)
      yield* Fiber.interrupt(fiber)
      expect(yield* Ref.get(open)).toBe(0)
    })
  )

  it.scoped("a silent connection is replaced from the same version, one at a time", () =>
    Effect.gen(function* () {
      const server = yield* world(() => "none")
      const told = yield* Ref.make(Chunk.empty<Follow.FollowEvent<Core.Pod>>())
      yield* Effect.forkScoped(
        Stream.runForEach(Follow.follow(server.api, Core.pods, { namespace: "a" }, { idleLimit: 10_000 }), (event) =>
          Ref.update(told, Chunk.append(event))
        )
      )
      yield* TestClock.adjust("35 seconds")
      expect(server.calls.filter((it) => it === "list")).toHaveLength(1)
      expect(server.calls.filter((it) => it === "watch").length).toBeGreaterThanOrEqual(3)
      const interruptions = Chunk.filter(yield* Ref.get(told), (it) => it._tag === "Interrupted")
      expect(Chunk.toReadonlyArray(interruptions)[0]).toMatchObject({ error: { phase: "silence" } })
    })
  )
})
