import * as Follow from "@dispatch-kubeflow/core/kube/Follow"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Arbitraries from "../src/Arbitraries.js"
import * as Cluster from "../src/Cluster.js"
import * as Faults from "../src/Faults.js"
import * as Fixtures from "../src/Fixtures.js"
import { assert as assertEffect } from "../src/Properties.js"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Clock, Effect, Either, Exit, FastCheck as fc, Fiber, Option, Stream, TestClock } from "effect"

const namespace = "default"

/** A cluster with three config maps, seen through a plan. */
const world = (plan: Faults.Plan, seed = 1) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.make()
    for (const name of ["a", "b", "c"]) {
      yield* cluster.admin.create(Core.configMaps, { namespace }, { metadata: { name } })
    }
    const faults = yield* Faults.make(plan, { seed })
    return { cluster, faults, api: KubeApi.transform(faults.transform)(cluster.admin) }
  })

const get = (api: KubeApi.Service, name = "a") => api.get(Core.configMaps, { namespace, name })

const watch = (api: KubeApi.Service, count: number) =>
  api.watch(Core.configMaps, { namespace, timeoutSeconds: 30 }).pipe(
    Stream.filter((event) => event._tag !== "Bookmark"),
    Stream.take(count),
    Stream.either,
    Stream.runCollect,
    Effect.map(Chunk.toReadonlyArray)
  )

const names = (events: ReadonlyArray<Either.Either<KubeApi.WatchEvent<Core.ConfigMap>, KubeError.KubeError>>) =>
  events.map((event) =>
    Either.isLeft(event) ? event.left._tag : event.right._tag === "Applied" ? event.right.object.metadata.name : ""
  )

describe("Faults", () => {
  it.effect("once: the first matching request fails with the error given, the others pass", () =>
    Effect.gen(function* () {
      const error = (request: KubeRequest.KubeRequest) => new KubeError.KubeUnauthorized({ request })
      const { api, faults } = yield* world([
        Faults.rule({ verb: "get", plural: "configmaps", name: "b" }, { _tag: "fail", error }, "once")
      ])
      expect((yield* get(api)).metadata.name).toBe("a")
      expect((yield* Effect.flip(get(api, "b")))._tag).toBe("KubeUnauthorized")
      expect((yield* get(api, "b")).metadata.name).toBe("b")
      expect((yield* faults.used).map(({ fired, matched }) => ({ fired, matched }))).toEqual([{ fired: 1, matched: 2 }])
    })
  )

  it.effect("n times: a status refuses so often", () =>
    Effect.gen(function* () {
      const { api } = yield* world([
        Faults.rule({}, { _tag: "refuse", refusal: { code: 503, message: "not now" } }, { times: 2 })
      ])
      const first = yield* Effect.flip(get(api))
      expect(first).toMatchObject({ _tag: "KubeUnavailable", phase: "server", code: 503 })
      yield* Effect.flip(get(api))
      yield* get(api)
    })
  )

  it.effect("with probability: the same seed hits the same requests, about as many as it should", () =>
    Effect.gen(function* () {
      const outcomes = (seed: number) =>
        Effect.gen(function* () {
          const plan = [Faults.rule({}, { _tag: "throttle", retryAfter: 1000 } as const, { probability: 0.3 })]
          const { api } = yield* world(plan, seed)
          return yield* Effect.forEach(Array.from({ length: 200 }), () =>
            Effect.map(Effect.either(get(api)), Either.isLeft)
          )
        })
      const first = yield* outcomes(7)
      expect(yield* outcomes(7)).toEqual(first)
      expect(yield* outcomes(8)).not.toEqual(first)
      expect(first.filter((hit) => hit).length).toBeGreaterThan(35)
      expect(first.filter((hit) => hit).length).toBeLessThan(90)
    })
  )

  it.effect("429 carries the server's wish", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({}, { _tag: "throttle", retryAfter: 3000 })])
      expect(yield* Effect.flip(get(api))).toMatchObject({ _tag: "KubeUnavailable", code: 429, retryAfter: 3000 })
    })
  )

  it.effect("410 comes as a status, with a token for a list, or as a frame after some events", () =>
    Effect.gen(function* () {
      const { api } = yield* world([
        Faults.rule({ verb: "list" }, { _tag: "expire", shape: "status", token: "again" }),
        Faults.rule({ verb: "watch" }, { _tag: "expire", shape: "frame", after: 2 }, "once"),
        Faults.rule({ verb: "watch" }, { _tag: "expire", shape: "status" })
      ])
      const request = KubeRequest.make("list", Core.configMaps, { namespace })
      expect(yield* Effect.flip(api.transport.call(request))).toMatchObject({
        _tag: "KubeExpired",
        continueToken: "again"
      })
      const plain = yield* world([Faults.rule({ verb: "watch" }, { _tag: "expire", shape: "frame", after: 2 })])
      expect(names(yield* watch(plain.api, 5))).toEqual(["a", "b", "KubeExpired"])
      expect(names(yield* watch(api, 5))).toEqual(["KubeExpired"])
    })
  )

  it.effect("latency: the answer comes later on the Clock", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({}, { _tag: "delay", duration: "2 seconds" })])
      const fiber = yield* Effect.fork(Effect.zipRight(get(api), Clock.currentTimeMillis))
      yield* TestClock.adjust("1 second")
      expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(fiber)).toBe(2000)
    })
  )

  it.effect("cut: a watch breaks after so many events; a call is performed and its answer lost", () =>
    Effect.gen(function* () {
      const { api, cluster } = yield* world([
        Faults.rule({ verb: "watch" }, { _tag: "cut", after: 2 }),
        Faults.rule({ verb: "create" }, { _tag: "cut", after: 0 })
      ])
      expect(names(yield* watch(api, 5))).toEqual(["a", "b", "KubeUnavailable"])
      const lost = yield* Effect.flip(api.create(Core.configMaps, { namespace }, { metadata: { name: "d" } }))
      expect(lost).toMatchObject({ _tag: "KubeUnavailable", phase: "stream" })
      expect((yield* get(cluster.admin, "d")).metadata.name).toBe("d")
    })
  )

  it.effect("end: a stream ends in order after so many events", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({ verb: "watch" }, { _tag: "end", after: 1 })])
      expect(names(yield* watch(api, 5))).toEqual(["a"])
    })
  )

  it.effect("a log is cut, ended and silenced at the very byte, in the middle of a character", () =>
    Effect.gen(function* () {
      const read = (fault: Faults.Fault) =>
        Effect.gen(function* () {
          const { api, cluster } = yield* world([Faults.rule({ subresource: "log" }, fault)])
          yield* cluster.seed([
            Fixtures.node("node-1"),
            Fixtures.pod("p", { namespace, nodeName: "node-1", phase: "Running" })
          ])
          yield* cluster.appendLog({ namespace, name: "p" }, { text: "\u00e4\u00e4\u00e4\n" })
          const fiber = yield* api.log({ namespace, name: "p" }, { container: "node" }).pipe(
            Stream.either,
            Stream.runFold({ bytes: 0, error: "" }, (so, piece) =>
              Either.isLeft(piece) ? { ...so, error: piece.left._tag } : { ...so, bytes: so.bytes + piece.right.length }
            ),
            Effect.fork
          )
          yield* TestClock.adjust("1 minute")
          return yield* Fiber.poll(fiber)
        })
      const done = (bytes: number, error: string) => Option.some(Exit.succeed({ bytes, error }))
      expect(yield* read({ _tag: "cut", after: 3 })).toEqual(done(3, "KubeUnavailable"))
      expect(yield* read({ _tag: "end", after: 3 })).toEqual(done(3, ""))
      expect(yield* read({ _tag: "cut", after: 100 })).toEqual(done(7, ""))
      expect(yield* read({ _tag: "slow", duration: "1 second", bytes: 2 })).toEqual(done(7, ""))
      expect(Option.isNone(yield* read({ _tag: "silence", after: 3 }))).toBe(true)
    })
  )

  it.effect("duplicate: every event comes twice", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({ verb: "watch" }, { _tag: "duplicate", times: 2 })])
      expect(names(yield* watch(api, 4))).toEqual(["a", "a", "b", "b"])
    })
  )

  it.effect("stale: a list is answered as it was the first time", () =>
    Effect.gen(function* () {
      const { api, cluster } = yield* world([Faults.rule({ verb: "list" }, { _tag: "stale" })])
      const before = yield* api.list(Core.configMaps, { namespace })
      yield* cluster.admin.create(Core.configMaps, { namespace }, { metadata: { name: "d" } })
      expect(yield* api.list(Core.configMaps, { namespace })).toEqual(before)
      expect((yield* cluster.admin.list(Core.configMaps, { namespace })).items).toHaveLength(4)
    })
  )

  it.effect("garbled line: the events before it arrive", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({ verb: "watch" }, { _tag: "garble", after: 1 })])
      expect(names(yield* watch(api, 5))).toEqual(["a", "KubeMalformed"])
    })
  )

  it.effect("half-open silence: the events before it arrive, and then nothing, for as long as one waits", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({ verb: "watch" }, { _tag: "silence", after: 1 })])
      const fiber = yield* Effect.fork(watch(api, 5))
      yield* TestClock.adjust("1 hour")
      expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("slow reader: every event takes its time", () =>
    Effect.gen(function* () {
      const { api } = yield* world([Faults.rule({ verb: "watch" }, { _tag: "slow", duration: "1 second" })])
      const fiber = yield* Effect.fork(Effect.zip(watch(api, 3), Clock.currentTimeMillis))
      yield* TestClock.adjust("10 seconds")
      const [events, at] = yield* Fiber.join(fiber)
      expect(names(events)).toEqual(["a", "b", "c"])
      expect(at).toBe(3000)
    })
  )

  it.effect("after stop nothing fires", () =>
    Effect.gen(function* () {
      const { api, faults } = yield* world([Faults.rule({}, { _tag: "throttle", retryAfter: 1 })])
      yield* Effect.flip(get(api))
      yield* faults.stop
      yield* get(api)
    })
  )

  it.effect(
    "Follow: whatever is cut, dropped, repeated, stale or compacted, after the faults stop the fold equals the truth",
    () =>
      assertEffect(
        fc.record({
          plan: Arbitraries.recoverablePlan,
          seed: fc.integer({ min: 0, max: 1_000_000 }),
          steps: fc.array(
            fc.record({
              verb: fc.constantFrom("put", "remove", "compact", "disconnect"),
              name: fc.constantFrom("a", "b", "c", "d"),
              pause: fc.constantFrom(0, 500, 40_000)
            }),
            { minLength: 1, maxLength: 8 }
          )
        }),
        ({ plan, seed, steps }) =>
          Effect.gen(function* () {
            const { api, cluster, faults } = yield* world(plan, seed)
            const known = new Map<string, string>()
            const versionOf = (object: Core.ConfigMap): string =>
              `${object.metadata.uid} ${object.metadata.resourceVersion ?? ""}`
            const fiber = yield* Follow.follow(api, Core.configMaps, { namespace }).pipe(
              Stream.runForEach((event) =>
                Effect.sync(() => {
                  switch (event._tag) {
                    case "Snapshot":
                      known.clear()
                      for (const object of event.objects) known.set(object.metadata.name, versionOf(object))
                      break
                    case "Applied":
                      known.set(event.object.metadata.name, versionOf(event.object))
                      break
                    case "Deleted":
                      known.delete(event.object.metadata.name)
                      break
                    case "Undecodable":
                    case "Interrupted":
                  }
                })
              ),
              Effect.fork
            )
            let counter = 0
            for (const { name, pause, verb } of steps) {
              counter += 1
              const data = { data: { counter: String(counter) } }
              switch (verb) {
                case "put":
                  yield* cluster.admin
                    .create(Core.configMaps, { namespace }, { metadata: { name }, ...data })
                    .pipe(
                      Effect.catchTag("KubeConflict", () =>
                        cluster.admin.patch(Core.configMaps, { namespace, name }, { type: "merge", body: data })
                      )
                    )
                  break
                case "remove":
                  yield* Effect.ignore(
                    cluster.admin.remove(Core.configMaps, { namespace, name }, { propagation: "Background" })
                  )
                  break
                case "compact":
                  yield* cluster.compact()
                  break
                case "disconnect":
                  yield* cluster.disconnect()
                  break
              }
              if (pause > 0) yield* TestClock.adjust(pause)
            }
            yield* faults.stop
            // Long enough for the longest back-off, and to notice that a connection is silent
            for (const wait of [60_000, 200_000, 60_000, 60_000]) yield* TestClock.adjust(wait)
            const truth = yield* cluster.admin.list(Core.configMaps, { namespace })
            expect(yield* Fiber.poll(fiber)).toEqual(Option.none())
            expect(new Map(known)).toEqual(
              new Map(truth.items.map((object) => [object.metadata.name, versionOf(object)]))
            )
            yield* Fiber.interrupt(fiber)
          }),
        60
      ),
    180_000
  )
})
