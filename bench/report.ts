/** The middle of the values. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** The median of round by round ratios, so that what disturbs the machine disturbs both sides. */
export const ratio = (values: ReadonlyArray<number>, reference: ReadonlyArray<number>): string =>
  `${median(values.map((value, index) => value / (reference[index] ?? Number.NaN))).toFixed(2)}x`
