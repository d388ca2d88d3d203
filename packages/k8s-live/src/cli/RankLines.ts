/**
 * The outputs of several ranks as one stream of whole lines, each with its rank before it. Pure but for what each rank's
 * unfinished line is.
 *
 * @module
 */
import { type Paint, type Tone, rankTones } from "./Terminal.js"

/** Longer lines are cut, with a newline: what is held back of each rank is bounded. In bytes. */
export const longestLine = 1 << 20

const newline = 10

const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** The whole lines of one rank's bytes. */
export interface Lines {
  /** The lines that these bytes end, each with its newline. */
  readonly push: (bytes: Uint8Array) => ReadonlyArray<Uint8Array>
  /** The unfinished line, given a newline; none when there is none. */
  readonly flush: () => ReadonlyArray<Uint8Array>
}

/** Starts with nothing held back. */
export const makeLines = (limit = longestLine): Lines => {
  let held: Array<Uint8Array> = []
  let size = 0
  const take = (): Uint8Array => {
    const line = joined(held)
    held = []
    size = 0
    return line
  }
  const hold = (part: Uint8Array): void => {
    if (part.length === 0) return
    held.push(part)
    size += part.length
  }
  const cut = (): Uint8Array => {
    hold(Uint8Array.of(newline))
    return take()
  }
  return {
    push: (bytes) => {
      const lines: Array<Uint8Array> = []
      let from = 0
      while (from < bytes.length) {
        const end = bytes.indexOf(newline, from)
        const to = end < 0 ? bytes.length : end + 1
        // A line that is too long in pieces of the limit, whatever chunks it came in
        const part = bytes.subarray(from, Math.min(to, from + limit - size))
        hold(part)
        from += part.length
        if (end >= 0 && from === to) lines.push(take())
        else if (size >= limit) lines.push(cut())
      }
      // What is held must not pin the chunk that it is a part of
      const last = held.at(-1)
      if (last !== undefined && last.length < last.buffer.byteLength) held[held.length - 1] = last.slice()
      return lines
    },
    flush: () => (size === 0 ? [] : [cut()])
  }
}

/** What stands before a line, e.g. `rank 3 | `; as wide for rank 3 as for the `highest`. */
export const prefix = (rank: number, highest: number, paint: Paint): string => {
  const tone: Tone = rankTones[rank % rankTones.length] ?? "dim"
  return paint(tone, `rank ${String(rank).padStart(String(highest).length)} |`) + " "
}

/** Lines with what stands before each, in one piece. */
export const prefixed = (before: Uint8Array, lines: ReadonlyArray<Uint8Array>): Uint8Array =>
  joined(lines.flatMap((line) => [before, line]))
