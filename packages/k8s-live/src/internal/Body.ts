/**
 * The body of one answer, straight from undici's parser. A Node stream in between costs more per watch event than the event
 * itself, and a body that breaks before anyone reads it looks, to the reader of a Node stream, as if it had ended in order.
 *
 * @module
 */
import { Effect, Option } from "effect"
import type { Dispatcher } from "undici"

/** The parser stops while so much waits to be read. What is read at once costs the layers above it once. */
const limit = 262_144

/** Collects the pieces of a body. */
export interface Body {
  readonly push: (controller: Dispatcher.DispatchController, piece: Uint8Array) => void
  readonly end: () => void
  readonly fail: (error: Error) => void
  /** Bytes that have come, as they were sent (compressed, where they were). */
  readonly received: () => number
  /** Whether the whole body has come. */
  readonly complete: () => boolean
  /** What broke the exchange, before or after the headers. */
  readonly failure: () => Error | undefined
  /** Everything that has come since the last time, at least one piece; waits for it. Fails with none at the body's end. */
  readonly take: Effect.Effect<ReadonlyArray<Uint8Array>, Option.Option<Error>>
}

/** A body of which nothing has come yet. It has one reader. */
export const make = (): Body => {
  let pieces: Array<Uint8Array> = []
  let size = 0
  let received = 0
  let paused: Dispatcher.DispatchController | undefined
  let ended = false
  let failure: Error | undefined
  let waiting: (() => void) | undefined
  let scheduled = false

  const resumeWaiting = (): void => {
    scheduled = false
    const resume = waiting
    waiting = undefined
    resume?.()
  }

  // After all that the socket has to give in this turn of the event loop: resuming a fiber costs more than an event
  const wake = (): void => {
    if (scheduled || waiting === undefined) return
    scheduled = true
    setImmediate(resumeWaiting)
  }

  const take: Body["take"] = Effect.suspend(() => {
    if (pieces.length > 0) {
      const taken = pieces
      pieces = []
      size = 0
      const controller = paused
      paused = undefined
      controller?.resume()
      return Effect.succeed(taken)
    }
    if (failure !== undefined) return Effect.fail(Option.some(failure))
    if (ended) return Effect.fail(Option.none())
    return Effect.async((resume) => {
      waiting = () => resume(take)
      return Effect.sync(() => {
        waiting = undefined
      })
    })
  })

  return {
    push: (controller, piece) => {
      pieces.push(piece)
      size += piece.length
      received += piece.length
      if (size >= limit && paused === undefined) {
        paused = controller
        controller.pause()
      }
      wake()
    },
    // The parser takes the connection back one turn after the body's end. Told sooner, a reader's next request would find it
    // taken and open another one
    end: () => {
      setImmediate(() => {
        ended = true
        wake()
      })
    },
    // The first one: what follows it is the parser's own confusion
    fail: (error) => {
      failure ??= error
      wake()
    },
    received: () => received,
    complete: () => ended,
    failure: () => failure,
    take
  }
}
