/**
 * Cuts a body of newline-delimited JSON into values.
 *
 * @module
 */

const newline = 10

/** What a piece of the body brought. */
export interface Cut {
  readonly values: ReadonlyArray<unknown>
  /** A complete line that is not JSON; nothing after it was read. */
  readonly garbled?: string | undefined
}

/**
 * Collects pieces of a body. Lines are decoded whole, so a character may be cut between pieces; a line is copied at
 * most once however many pieces it comes in.
 */
export const makeSplitter = (): {
  /** Adds pieces in order. */
  readonly push: (pieces: Iterable<Uint8Array>) => Cut
  /** Whether the body would end inside a line. */
  readonly pending: () => boolean
} => {
  let kept: Array<Uint8Array> = []
  let keptLength = 0

  const line = (bytes: Uint8Array, start: number, end: number): string => {
    if (keptLength === 0) return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8")
    kept.push(bytes.subarray(start, end))
    const whole = Buffer.concat(kept, keptLength + end - start).toString("utf8")
    kept = []
    keptLength = 0
    return whole
  }

  return {
    push: (pieces) => {
      const values: Array<unknown> = []
      for (const bytes of pieces) {
        let start = 0
        for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
          const text = line(bytes, start, end)
          start = end + 1
          try {
            values.push(JSON.parse(text))
          } catch {
            // An empty line is how a server without events makes its headers leave early
            if (text.trim() !== "") return { values, garbled: text }
          }
        }
        if (start < bytes.length) {
          kept.push(start === 0 ? bytes : bytes.subarray(start))
          keptLength += bytes.length - start
        }
      }
      return { values }
    },
    pending: () => kept.some((bytes) => bytes.some((byte) => byte > 32))
  }
}
