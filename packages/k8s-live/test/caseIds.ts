/**
 * The ids of the cases that other tools' users reported: what area, and which numbers. A test carries an id in its name; what
 * cannot arise here is said in docs/cases.md.
 */
const numbers: Readonly<Record<string, ReadonlyArray<number>>> = {
  /** Watches. */
  W: [1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 17, 19, 21, 22, 24],
  /** Caches over watches. */
  I: [1, 2, 4, 6, 8, 9, 10, 12],
  /** Output. */
  O: [1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 14, 15, 17, 18, 20, 21, 23, 24, 25, 27, 28, 30, 31],
  /** Cessation and Nodes. */
  N: [1, 2, 3, 4, 6, 7, 9, 10, 12, 14],
  /** Capabilities, preflight, permissions. */
  P: [1, 2, 3, 5, 6, 8, 9, 11, 12],
  /** How pods end. */
  K: [1, 2, 3, 5, 6, 8, 9, 10, 11, 13, 14, 16, 17, 19, 20],
  /** What stand-ins for an API server get wrong. */
  F: [1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15],
  /** Credentials and TLS. */
  T: [1, 2, 4, 5, 7, 9],
  /** Kueue. */
  Q: [1, 2, 4, 6, 7, 9, 11],
  /** Load. */
  L: [1, 4, 6]
}

/** e.g. `W01`. */
export const caseIds: ReadonlyArray<string> = Object.entries(numbers).flatMap(([area, own]) =>
  own.map((number) => `${area}${String(number).padStart(2, "0")}`)
)
