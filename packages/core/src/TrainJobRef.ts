/**
 * The one handle that output, watch and cessation take.
 *
 * @module
 */

/**
 * Names a TrainJob. With `uid` given, an object of that name with another uid does not count: names are re-used, uids
 * are not. Any TrainJob can be referred to, also one that another tool created.
 */
export interface TrainJobRef {
  readonly namespace: string
  readonly name: string
  readonly uid?: string | undefined
}

/** Submission `n` (1, 2, 3 …) of a run: the TrainJob `<run>-<n>`. */
export const submission = (namespace: string, run: string, n: number): TrainJobRef => ({
  namespace,
  name: `${run}-${n}`
})

/** Whether a TrainJob's name is that of a submission of this run: `<run>-1`, `<run>-2` and so on. */
export const isSubmissionOf = (run: string, name: string): boolean =>
  name.startsWith(`${run}-`) && /^[1-9][0-9]*$/.test(name.slice(run.length + 1))
