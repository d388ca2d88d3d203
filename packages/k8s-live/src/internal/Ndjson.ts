/**
 * Cuts a body of newline-delimited JSON into values.
 *
 * @module
 */
import { StringDecoder } from "node:string_decoder"

/** What a piece of the body brought. */
export interface Cut {
  readonly values: ReadonlyArray<unknown>
  /** A complete line that is not JSON; nothing after it was read. */
  readonly garbled?: string | undefined
}

/**
 * Collects pieces of a body. What comes together is decoded at once, its lines are slices of that text: decoding line by
 * line costs half as much again as parsing them. A character or a line may be cut between pieces.
 */
export const makeSplitter = (): {
  /** Adds pieces in order. */
  readonly push: (pieces: ReadonlyArray<Uint8Array>) => Cut
  /** Whether the body would end inside a line. */
  readonly pending: () => boolean
} => {
  const decoder = new StringDecoder("utf8")
  let kept: Array<string> = []

  const whole = (last: string): string => {
    if (kept.length === 0) return last
    const text = kept.join("") + last
    kept = []
    return text
  }

  return {
    push: (pieces) => {
      const values: Array<unknown> = []
      const [first] = pieces
      const text = decoder.write(pieces.length === 1 && first !== undefined ? first : Buffer.concat(pieces))
      let start = 0
      for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
        const line = whole(text.slice(start, end))
        start = end + 1
        try {
          values.push(JSON.parse(line))
        } catch {
          // An empty line is how a server without events makes its headers leave early
          if (line.trim() !== "") return { values, garbled: line }
        }
      }
      if (start < text.length) kept.push(text.slice(start))
      return { values }
    },
    pending: () => (kept.join("") + decoder.end()).trim() !== ""
  }
}
