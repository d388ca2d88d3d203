/**
 * How many requests a client may begin: a token bucket whose queue is fair. Requests wait in the lane of their kind, first
 * come first served, and the lanes take turns, so that a thousand lists cannot keep one log waiting.
 *
 * @module
 */
import { Clock, Deferred, Effect, FiberId, type Scope } from "effect"

/** What the lanes are for. */
export type Lane = "log" | "watch" | "list" | "get" | "write"

/** How fast requests may begin. */
export interface Rate {
  /** Requests a second in the long run. */
  readonly qps: number
  /** How many may begin at once after a rest. */
  readonly burst: number
}

/** Hands out turns. */
export interface Limiter {
  /** Waits for a turn; answers how many milliseconds that took. An interrupted caller gives its place up. */
  readonly turn: (lane: Lane) => Effect.Effect<number>
}

/** Everyone at once. */
export const unlimited: Limiter = { turn: () => Effect.succeed(0) }

/** A limiter that begins with a full bucket. Turns are handed out as long as the scope is open. */
export const make = ({ burst, qps }: Rate): Effect.Effect<Limiter, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    // In the order of their turns; a lane is in it as long as somebody waits there
    const lanes = new Map<Lane, Set<Deferred.Deferred<void>>>()
    let tokens = burst
    let filledAt = yield* Clock.currentTimeMillis
    let handingOut = false

    const fill = (now: number): void => {
      // A clock that was set back takes nothing away
      tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) * qps) / 1000)
      filledAt = now
    }

    // Sums of fractions may stay a hair below one
    const take = (): boolean => {
      if (tokens < 1 - 1e-9) return false
      tokens -= 1
      return true
    }

    const leave = (lane: Lane, waiter: Deferred.Deferred<void>): void => {
      const waiting = lanes.get(lane)
      if (waiting?.delete(waiter) === true && waiting.size === 0) lanes.delete(lane)
    }

    const next = (): void => {
      for (const [lane, waiting] of lanes) {
        lanes.delete(lane)
        for (const waiter of waiting) {
          waiting.delete(waiter)
          if (waiting.size > 0) lanes.set(lane, waiting)
          return Deferred.unsafeDone(waiter, Effect.void)
        }
      }
    }

    const handOut: Effect.Effect<void> = Effect.gen(function* () {
      while (lanes.size > 0) {
        fill(yield* Clock.currentTimeMillis)
        while (lanes.size > 0 && take()) next()
        if (lanes.size > 0) yield* Effect.sleep(Math.max(1, Math.ceil(((1 - tokens) * 1000) / qps)))
      }
      handingOut = false
    })

    const enqueue = (lane: Lane): Deferred.Deferred<void> => {
      const waiter = Deferred.unsafeMake<void>(FiberId.none)
      const waiting = lanes.get(lane) ?? new Set()
      waiting.add(waiter)
      lanes.set(lane, waiting)
      return waiter
    }

    const wait = (lane: Lane): Effect.Effect<void> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const waiter = enqueue(lane)
          const started = handingOut ? Effect.void : Effect.forkIn(Effect.interruptible(handOut), scope)
          handingOut = true
          return Effect.zipRight(started, restore(Deferred.await(waiter))).pipe(
            Effect.onInterrupt(() => Effect.sync(() => leave(lane, waiter)))
          )
        })
      )

    return {
      turn: (lane) =>
        Effect.flatMap(Clock.currentTimeMillis, (began) => {
          fill(began)
          if (lanes.size === 0 && take()) return Effect.succeed(0)
          return Effect.zipRight(
            wait(lane),
            Effect.map(Clock.currentTimeMillis, (now) => Math.max(0, now - began))
          )
        })
    }
  })
