import * as RateLimit from "@dispatch-kubeflow/k8s-live/RateLimit"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, TestClock } from "effect"
import * as fc from "effect/FastCheck"

const lanes = ["log", "watch", "list", "get", "write"] as const

/** Asks for turns; tells in which order and when they came. */
const asking = (limiter: RateLimit.Limiter, asked: ReadonlyArray<RateLimit.Lane>) =>
  Effect.gen(function* () {
    const turns: Array<{ readonly lane: RateLimit.Lane; readonly number: number; readonly at: number }> = []
    const fibers = yield* Effect.forEach(asked, (lane, number) =>
      Effect.fork(
        Effect.zipRight(
          limiter.turn(lane),
          Effect.map(Clock.currentTimeMillis, (at) => void turns.push({ lane, number, at }))
        )
      )
    )
    yield* Effect.yieldNow()
    return { turns, fibers }
  })

const many = <A>(count: number, value: A): ReadonlyArray<A> => Array.from({ length: count }, () => value)

describe("the client's own rate limit", () => {
  it.scoped("a burst begins at once, the rest at the rate", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimit.make({ qps: 50, burst: 300 })
      const { turns } = yield* asking(limiter, many(400, "get"))
      assert.strictEqual(turns.length, 300)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(turns.length, 350)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(turns.length, 400)
      assert.deepStrictEqual(
        turns.map(({ number }) => number),
        Array.from({ length: 400 }, (_, index) => index)
      )
    })
  )

  it.scoped("a bucket fills again at rest, up to the burst and no further", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimit.make({ qps: 10, burst: 5 })
      yield* asking(limiter, many(5, "get"))
      yield* TestClock.adjust("1 hour")
      const { turns } = yield* asking(limiter, many(20, "get"))
      assert.strictEqual(turns.length, 5)
    })
  )

  it.scoped("a thousand lists and watches that wait do not keep a log waiting", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimit.make({ qps: 50, burst: 300 })
      yield* asking(
        limiter,
        Array.from({ length: 2300 }, (_, index) => (index % 2 === 0 ? "list" : "watch"))
      )
      const log = yield* Effect.fork(limiter.turn("log"))
      yield* TestClock.adjust("100 millis")
      assert.isAtMost(yield* Fiber.join(log), 60)
    })
  )

  it.scoped("whoever gives up leaves the queue, and costs nobody a turn", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimit.make({ qps: 10, burst: 1 })
      const { turns, fibers } = yield* asking(limiter, many(11, "list"))
      yield* Fiber.interruptAll(fibers.slice(1, 10))
      yield* TestClock.adjust("100 millis")
      assert.deepStrictEqual(
        turns.map(({ number }) => number),
        [0, 10]
      )
    })
  )

  it.scoped("a queue that all have left is no queue", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimit.make({ qps: 10, burst: 1 })
      const { fibers } = yield* asking(limiter, many(3, "list"))
      yield* Fiber.interruptAll(fibers)
      yield* TestClock.adjust("100 millis")
      assert.strictEqual(yield* limiter.turn("get"), 0)
      const { turns } = yield* asking(limiter, many(2, "get"))
      yield* TestClock.adjust("200 millis")
      assert.strictEqual(turns.length, 2)
    })
  )

  it.live(
    "any requests: first come first served in a lane, no lane waits for more than one turn of each other, never above the rate",
    () =>
      Properties.assert(
        fc.record({
          asked: fc.array(fc.constantFrom(...lanes), { maxLength: 80 }),
          burst: fc.integer({ min: 1, max: 10 })
        }),
        ({ asked, burst }) =>
          Effect.gen(function* () {
            const qps = 20
            const limiter = yield* RateLimit.make({ qps, burst })
            const { turns } = yield* asking(limiter, asked)
            yield* TestClock.adjust("10 seconds")
            assert.strictEqual(turns.length, asked.length)
            for (const lane of lanes) {
              const own = turns.filter((turn) => turn.lane === lane).map(({ number }) => number)
              assert.deepStrictEqual(
                own,
                own.toSorted((one, other) => one - other)
              )
            }
            const first = turns[0]?.at ?? 0
            turns.forEach(({ at }, index) => {
              assert.isAtMost(index + 1, burst + ((at - first) * qps) / 1000 + 0.001, `turn ${index}`)
            })
            // after the burst, between two turns of a lane that waits, every other lane has one at most
            const waiting = turns.slice(burst)
            for (const lane of lanes) {
              const own = waiting.flatMap((turn, index) => (turn.lane === lane ? [index] : []))
              own.forEach((index, position) => {
                const since = position === 0 ? 0 : (own[position - 1] ?? 0) + 1
                const between = waiting.slice(since, index).map((turn) => turn.lane)
                assert.strictEqual(new Set(between).size, between.length, `${lane} waits for ${between.join(" ")}`)
              })
            }
          }),
        200
      )
  )
})
