/**
 * Shares one run of an effect among everyone who asks while it is under way.
 *
 * @module
 */
import { Effect, Fiber, Ref, type Scope } from "effect"

interface Flight<A, E> {
  readonly fiber: Fiber.RuntimeFiber<A, E>
  readonly waiting: number
}

/**
 * Whoever asks while a run is under way gets that run's result, failure included. The run belongs to the scope; it is
 * interrupted when the last one who waits for it is.
 */
export const make = <A, E>(run: Effect.Effect<A, E>): Effect.Effect<Effect.Effect<A, E>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const lock = yield* Effect.makeSemaphore(1)
    const state = yield* Ref.make<Flight<A, E> | undefined>(undefined)
    const board = lock.withPermits(1)(
      Effect.gen(function* () {
        const current = yield* Ref.get(state)
        // A finished flight whose passengers have not left yet must not answer later questions
        if (current !== undefined && current.fiber.unsafePoll() === null) {
          const joined = { fiber: current.fiber, waiting: current.waiting + 1 }
          yield* Ref.set(state, joined)
          return joined.fiber
        }
        const fiber = yield* Effect.forkIn(Effect.interruptible(run), scope)
        yield* Ref.set(state, { fiber, waiting: 1 })
        return fiber
      })
    )
    const leave = (fiber: Fiber.RuntimeFiber<A, E>): Effect.Effect<void> =>
      lock.withPermits(1)(
        Effect.gen(function* () {
          const current = yield* Ref.get(state)
          if (current === undefined || current.fiber !== fiber) return
          if (current.waiting > 1) {
            yield* Ref.set(state, { fiber, waiting: current.waiting - 1 })
            return
          }
          yield* Ref.set(state, undefined)
          yield* Fiber.interruptFork(fiber)
        })
      )
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(board), (fiber) => Effect.ensuring(restore(Fiber.join(fiber)), leave(fiber)))
    )
  })
