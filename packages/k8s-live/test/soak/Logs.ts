/**
 * Logs of known content, and readers that count what of them arrives.
 *
 * @module
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import type * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import { Effect, Stream } from "effect"
import { appendFileSync, writeFileSync } from "node:fs"

/** Figures so far. */
export interface Counts {
  written: number
  bytes: number
  received: number
  lost: number
  /** Told again, or out of order. */
  duplicated: number
  /** Not what was written. */
  damaged: number
  gaps: number
  /** Follows that failed, did not end, or told of a restart that was none. */
  failed: number
  /** Logs that were followed to their end. */
  followed: number
  /** Logs that are followed now. */
  following: number
}

/** Nothing yet. */
export const empty = (): Counts => ({
  written: 0,
  bytes: 0,
  received: 0,
  lost: 0,
  duplicated: 0,
  damaged: 0,
  gaps: 0,
  failed: 0,
  followed: 0,
  following: 0
})

const filler = "the quick brown fox jumps over the lazy dog and all that it has to say about it is in here"

/** Line `number` of a log: about 100 bytes. */
export const lineOf = (log: string, number: number): string => `${log} ${number} ${filler.slice(number % 30)}`

/** A log file in the format of the container runtimes, as the kubelet finds it. */
export interface Log {
  readonly file: string
  readonly written: () => number
  /** Lines more. Each has a time of its own; in each eighth piece all have the same. */
  readonly append: (lines: number) => void
}

/** Makes an empty log. */
export const create = (name: string, file: string, counts: Counts): Log => {
  writeFileSync(file, "")
  let written = 0
  let pieces = 0
  let last = 0
  return {
    file,
    written: () => written,
    append: (lines) => {
      if (lines <= 0) return
      pieces += 1
      // Times never go back
      last = Math.max(last + 1, Date.now())
      const time = new Date(last).toISOString().replace("Z", "")
      const records = Array.from({ length: lines }, (_, index) => {
        const nanos = pieces % 8 === 0 ? 0 : index
        return `${time}${String(nanos).padStart(6, "0")}Z stdout F ${lineOf(name, written + index)}\n`
      })
      appendFileSync(file, records.join(""))
      written += lines
      counts.written += lines
    }
  }
}

/** Follows a log to its end and counts. */
export const follow = (
  adapter: Adapter.Service,
  ref: TrainJobRef.TrainJobRef,
  log: Log,
  counts: Counts,
  complain: (text: string) => void
): Effect.Effect<void> => {
  let next = 0
  let rest = ""
  let isEnded = false
  counts.following += 1
  const decoder = new TextDecoder()
  const line = (text: string): void => {
    const number = Number(text.split(" ", 2)[1])
    if (text !== lineOf(ref.name, number)) {
      counts.damaged += 1
      complain(`${ref.name}: a line that was not written: ${text.slice(0, 200)}`)
      return
    }
    if (number < next) {
      counts.duplicated += 1
      complain(`${ref.name}: line ${number} again, ${next} is due`)
      return
    }
    if (number > next) {
      counts.lost += number - next
      complain(`${ref.name}: lines ${next} to ${number - 1} were not told`)
    }
    counts.received += 1
    next = number + 1
  }
  return Stream.runForEach(adapter.outputEvents(ref, { follow: true, awaitPod: true }), (event) =>
    Effect.sync(() => {
      switch (event._tag) {
        case "Bytes": {
          counts.bytes += event.bytes.length
          const lines = `${rest}${decoder.decode(event.bytes, { stream: true })}`.split("\n")
          rest = lines.pop() ?? ""
          for (const text of lines) line(text)
          return
        }
        case "Gap":
          counts.gaps += 1
          complain(`${ref.name}: a gap before line ${next}: ${event.reason}`)
          return
        case "Restarted":
          counts.failed += 1
          complain(`${ref.name}: a restart was told`)
          return
        case "End":
          isEnded = event.how === "terminated"
          if (!isEnded) complain(`${ref.name}: the log ended with ${event.how}: ${event.reason}`)
      }
    })
  ).pipe(
    Effect.catchAll((error) => Effect.sync(() => complain(`${ref.name}: the follow failed: ${error.message}`))),
    Effect.onExit((exit) =>
      Effect.sync(() => {
        counts.following -= 1
        if (exit._tag === "Failure") complain(`${ref.name}: the follow did not end in time`)
        if (exit._tag === "Success" && isEnded) counts.followed += 1
        else counts.failed += 1
        const total = log.written()
        if (next < total || rest !== "") {
          counts.lost += total - next
          complain(`${ref.name}: ${next} of ${total} lines came${rest === "" ? "" : ", and a piece of one"}`)
        }
      })
    )
  )
}
