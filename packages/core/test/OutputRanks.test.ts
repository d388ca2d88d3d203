import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Either, FastCheck as fc, Fiber, Option, Stream, TestClock } from "effect"
import { job, pod } from "./ExecutionFixtures.js"
import * as World from "./OutputWorld.js"

const { containers, ref } = World

const container = (rank: number): string => `containerd://rank-${rank}`
const running = (rank: number, created = 1) =>
  pod({ uid: `p${rank}`, created, count: 1, index: rank, status: containers.running(container(rank)) })
const ended = (rank: number, exitCode = 0) =>
  pod({
    uid: `p${rank}`,
    created: 1,
    count: 1,
    index: rank,
    status: containers.terminated(exitCode, { containerID: container(rank) })
  })

const prepare = (ranks: number, present = ranks) =>
  Effect.map(World.make, (world) => {
    world.jobs = [{ ...job({ start: 0 }), spec: { completions: ranks, parallelism: ranks } }]
    for (let rank = 0; rank < present; rank++) world.setPod(running(rank))
    return world
  })

/** Starts reading all ranks; what came of each so far. */
const start = (world: World.World, options: Output.Options = {}) =>
  Effect.gen(function* () {
    const output = yield* Effect.provideService(Output.make({ inPlaceRestarts: "refuse" }), KubeApi, world.api)
    const texts = new Map<number, string>()
    const others = new Map<number, Array<string>>()
    const decoder = new TextDecoder()
    const fiber = yield* output.outputRanks(ref, options).pipe(
      Stream.runForEach(({ rank, event }) =>
        Effect.sync(() => {
          if (event._tag === "Bytes") texts.set(rank, (texts.get(rank) ?? "") + decoder.decode(event.bytes))
          else others.set(rank, [...(others.get(rank) ?? []), event._tag === "End" ? `End ${event.how}` : event._tag])
        })
      ),
      Effect.either,
      Effect.fork
    )
    yield* TestClock.adjust("10 millis")
    const finish = Effect.gen(function* () {
      for (let round = 0; round < 30 && Option.isNone(yield* Fiber.poll(fiber)); round++) {
        yield* TestClock.adjust("5 seconds")
      }
      const done = yield* Fiber.poll(fiber)
      return Option.isSome(done) ? yield* Fiber.join(fiber) : yield* Effect.dieMessage("it does not end")
    })
    return { texts, others, finish }
  })

describe("Output of all ranks", () => {
  it.effect("a plain read: every rank's log, one look at the cluster", () =>
    Effect.gen(function* () {
      const world = yield* prepare(3)
      for (const rank of [0, 1, 2]) yield* world.append(container(rank), `from ${rank}`)
      const { texts, others, finish } = yield* start(world)
      expect(Either.isRight(yield* finish)).toBe(true)
      expect([...texts].toSorted(([a], [b]) => a - b)).toEqual([
        [0, "from 0\n"],
        [1, "from 1\n"],
        [2, "from 2\n"]
      ])
      expect([...others.values()].flat()).toEqual(["End complete", "End complete", "End complete"])
      expect(world.requests.filter(({ plural }) => plural === "trainjobs")).toHaveLength(1)
    })
  )

  it.effect("O18: one rank's log is gone: that rank fails, the others are read", () =>
    Effect.gen(function* () {
      const world = yield* prepare(2)
      yield* world.append(container(0), "still here")
      world.setPod(
        pod({
          uid: "p1",
          created: 1,
          count: 1,
          index: 1,
          status: { phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." }
        })
      )
      const { texts, others, finish } = yield* start(world, { follow: true })
      world.setPod(ended(0))
      yield* TestClock.adjust("2 seconds")
      expect(Either.isRight(yield* finish)).toBe(true)
      expect(texts.get(0)).toBe("still here\n")
      expect(others.get(1)).toEqual(["Failed"])
      expect(others.get(0)).toEqual(["End terminated"])
    })
  )

  it.effect("following waits for ranks that have no pod yet, with one watch for all of them", () =>
    Effect.gen(function* () {
      const world = yield* prepare(3, 1)
      const { texts, others, finish } = yield* start(world, { follow: true })
      yield* world.append(container(0), "first")
      yield* TestClock.adjust("3 seconds")
      for (const rank of [1, 2]) {
        world.setPod(running(rank))
        yield* world.append(container(rank), `late ${rank}`)
      }
      yield* TestClock.adjust("20 seconds")
      for (const rank of [0, 1, 2]) world.setPod(ended(rank))
      yield* TestClock.adjust("2 seconds")
      expect(Either.isRight(yield* finish)).toBe(true)
      expect([texts.get(0), texts.get(1), texts.get(2)]).toEqual(["first\n", "late 1\n", "late 2\n"])
      expect([...others.values()].flat()).toEqual(["End terminated", "End terminated", "End terminated"])
      expect(world.requests.filter(({ verb, plural }) => verb === "watch" && plural === "pods")).toHaveLength(1)
      expect(world.openLogs()).toBe(0)
    })
  )

  it.effect("no pod at all is ErrNotFound, as for one rank; so is a rank that the execution never had", () =>
    Effect.gen(function* () {
      const world = yield* prepare(2, 0)
      const { finish } = yield* start(world, {})
      const result = yield* finish
      expect(Either.getOrThrow(Either.flip(result))).toMatchObject({ _tag: "ErrNotFound" })
      const output = yield* Effect.provideService(Output.make({ inPlaceRestarts: "refuse" }), KubeApi, world.api)
      world.setPod(running(0))
      const nine = yield* Effect.flip(Stream.runDrain(output.outputEvents(ref, { rank: 9 })))
      expect(nine).toMatchObject({ _tag: "ErrNotFound", kind: "Rank9Pod" })
      const wrong = yield* Effect.flip(Stream.runDrain(output.outputEvents(ref, { rank: -1 })))
      expect(wrong._tag).toBe("ErrUnsupported")
    })
  )

  it.effect("O02: whatever is cut, each rank's bytes come once and in order", () =>
    Properties.assert(
      fc.array(
        fc.oneof(
          fc.record({ write: fc.nat(2), lines: fc.integer({ min: 1, max: 4 }) }),
          fc.record({ cut: fc.constantFrom("end" as const, "break" as const) }),
          fc.record({ wait: fc.constantFrom(1, 700, 4000) })
        ),
        { maxLength: 12 }
      ),
      (commands) =>
        Effect.gen(function* () {
          const world = yield* prepare(3)
          const { texts, others, finish } = yield* start(world, { follow: true })
          const full = ["", "", ""]
          let count = 0
          for (const command of commands) {
            if ("write" in command) {
              for (let line = 0; line < command.lines; line++) {
                const text = `line ${count++ % 5}`
                full[command.write] += `${text}\n`
                yield* world.append(container(command.write), text)
              }
            } else if ("cut" in command) world.cut(command.cut)
            else yield* TestClock.adjust(command.wait)
          }
          for (const rank of [0, 1, 2]) world.setPod(ended(rank))
          yield* TestClock.adjust("2 seconds")
          expect(Either.isRight(yield* finish)).toBe(true)
          expect([0, 1, 2].map((rank) => texts.get(rank) ?? "")).toEqual(full)
          expect([...others.values()].flat().every((text) => text === "End terminated")).toBe(true)
        }),
      30
    )
  )

  it.effect("L04: a slow reader of a large log holds the source back: read ahead is bounded", () =>
    Effect.gen(function* () {
      const world = yield* prepare(1)
      const chunk = World.encoder.encode(`2026-01-01T00:00:00.000000001Z ${"x".repeat(65_000)}\n`)
      const total = 10_000
      let pulled = 0
      world.intercept = (request) =>
        request.subresource === "log"
          ? Stream.repeatEffectChunk(
              Effect.sync(() => {
                pulled += 1
                return Chunk.of(chunk)
              })
            ).pipe(Stream.take(total))
          : undefined
      const output = yield* Effect.provideService(Output.make({ inPlaceRestarts: "refuse" }), KubeApi, world.api)
      for (const read of [
        Stream.as(output.outputEvents(ref, { follow: true }), undefined),
        Stream.as(output.outputRanks(ref, { follow: true }), undefined)
      ]) {
        pulled = 0
        const fiber = yield* Effect.fork(Stream.runForEach(read, () => Effect.sleep("1 hour")))
        yield* TestClock.adjust("5 seconds")
        expect(pulled).toBeGreaterThan(0)
        expect(pulled).toBeLessThan(300)
        yield* Fiber.interrupt(fiber)
      }
    })
  )
})
