/**
 * Time and scheduling of one schedule: nothing happens but in turn, and the clock moves only when nobody has anything to do.
 * So a script plays the same way every time, "at rest" is a fact and not a guess after some patience, and what would wait for
 * ever is noticed at once. A `TestClock` looks for rest with real timers, milliseconds for each wake of a sleeper.
 */
import { Cause, Clock, Context, Data, Duration, Effect, Exit, Random, type Scheduler } from "effect"

/** Nothing can happen any more, and the play is not over. */
export class Hang extends Data.TaggedError("Hang")<{ readonly message: string }> {}

/** The way through time. */
export interface Service {
  /** Waits until nobody has anything to do at this instant. */
  readonly rest: Effect.Effect<void>
  /** Lets time pass, in milliseconds: everybody wakes at their time, and comes to rest before the next. */
  readonly advance: (millis: number) => Effect.Effect<void>
}

/** The service tag. */
export class VirtualTime extends Context.Tag("@dispatch-kubeflow/testkit/VirtualTime")<VirtualTime, Service>() {}

/** `Effect.never` keeps a timer, and with it everything that waits: thousands of schedules would stay in memory. */
export const never: Effect.Effect<never> = Effect.async<never>(() => undefined)

// An instant needs some ten thousand turns at most; what takes a hundred times as many turns in a circle
const turnsAtOneInstant = 500_000

interface Sleeper {
  readonly due: number
  readonly wake: () => void
}

interface Turns extends Scheduler.Scheduler {
  /** Takes turns until nobody wants one. */
  readonly flush: () => void
}

/** Turns are taken in order of arrival. */
const makeTurns = (): Turns => {
  let queue: Array<() => void> = []
  let next = 0
  return {
    shouldYield: (fiber) => (fiber.currentOpCount > 2048 ? 0 : false),
    scheduleTask: (task) => void queue.push(task),
    flush: () => {
      for (let turns = 0; next < queue.length; turns += 1) {
        if (turns > turnsAtOneInstant) throw new Hang({ message: "it turns in a circle: time cannot go on" })
        const task = queue[next]
        next += 1
        if (next > 1024 && next * 2 > queue.length) {
          queue = queue.slice(next)
          next = 0
        }
        task?.()
      }
    }
  }
}

const bigintPerMilli = 1_000_000n

/** Plays an effect from start to end, at once. Chance comes from `seed`. */
export const play = <A, E>(effect: Effect.Effect<A, E, VirtualTime>, seed: number): Exit.Exit<A, E> => {
  let now = 0
  const turns = makeTurns()
  const sleepers: Array<Sleeper> = []
  const resting: Array<() => void> = []
  let goal: { readonly target: number; readonly reached: () => void } | undefined

  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => now,
    unsafeCurrentTimeNanos: () => BigInt(now) * bigintPerMilli,
    currentTimeMillis: Effect.sync(() => now),
    currentTimeNanos: Effect.sync(() => BigInt(now) * bigintPerMilli),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        // A clock shows whole milliseconds, also to those who add jitter: a wait that is rounded down ends too early
        const millis = Math.ceil(Duration.toMillis(duration))
        if (millis <= 0) return resume(Effect.void)
        const sleeper: Sleeper = { due: now + millis, wake: () => resume(Effect.void) }
        let at = sleepers.length
        while (at > 0 && (sleepers[at - 1]?.due ?? 0) > sleeper.due) at -= 1
        sleepers.splice(at, 0, sleeper)
        return Effect.sync(() => {
          const index = sleepers.indexOf(sleeper)
          if (index >= 0) sleepers.splice(index, 1)
        })
      })
  }
  const service: Service = {
    rest: Effect.async<void>((resume) => void resting.push(() => resume(Effect.void))),
    advance: (millis) =>
      Effect.async<void>((resume) => {
        goal = { target: now + Math.ceil(millis), reached: () => resume(Effect.void) }
      })
  }

  let end: Exit.Exit<A, E> | undefined
  const fiber = Effect.runFork(
    effect.pipe(
      Effect.provideService(VirtualTime, service),
      Effect.withClock(clock),
      Effect.withRandom(Random.make(seed))
    ),
    { scheduler: turns }
  )
  fiber.addObserver((exit) => {
    end = exit
  })
  for (;;) {
    turns.flush()
    if (end !== undefined) return end
    const rested = resting.shift()
    const [sleeper] = sleepers
    if (rested !== undefined) rested()
    else if (goal !== undefined && sleeper !== undefined && sleeper.due <= goal.target) {
      sleepers.shift()
      now = Math.max(now, sleeper.due)
      sleeper.wake()
    } else if (goal !== undefined) {
      const { reached, target } = goal
      now = target
      goal = undefined
      reached()
    } else {
      const left = fiber.unsafePoll()
      return Exit.failCause(Cause.die(new Hang({ message: `it waits for what never comes (${String(left)})` })))
    }
  }
}
