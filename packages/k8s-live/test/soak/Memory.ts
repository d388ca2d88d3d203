/**
 * How much memory this process holds, and whether it grows.
 *
 * @module
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void

/** At one time, in milliseconds and bytes. */
export interface Sample {
  readonly at: number
  /** After a full collection. */
  readonly heap: number
  readonly rss: number
}

/** Takes a sample; stops everything for a full collection. */
export const sample = (): Sample => {
  collect()
  const { heapUsed, rss } = process.memoryUsage()
  return { at: Date.now(), heap: heapUsed, rss }
}

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, it) => sum + it, 0) / values.length

/** How values changed over the time. */
export interface Trend {
  /** By least squares: KB a minute, and its standard error. */
  readonly slope: number
  readonly error: number
  /** The mean of the last third to that of the first. */
  readonly ratio: number
}

/** The trend of one figure; undefined with fewer than six samples. */
export const trend = (samples: ReadonlyArray<Sample>, of: (sample: Sample) => number): Trend | undefined => {
  if (samples.length < 6) return undefined
  const x = samples.map(({ at }) => at / 60_000)
  const y = samples.map((it) => of(it) / 1024)
  const [mx, my] = [mean(x), mean(y)]
  const sxx = x.reduce((sum, it) => sum + (it - mx) ** 2, 0)
  const slope = x.reduce((sum, it, index) => sum + (it - mx) * ((y[index] ?? my) - my), 0) / sxx
  const rest = x.reduce((sum, it, index) => sum + ((y[index] ?? my) - my - slope * (it - mx)) ** 2, 0)
  const third = Math.floor(y.length / 3)
  return {
    slope,
    error: Math.sqrt(rest / (y.length - 2) / sxx),
    ratio: mean(y.slice(-third)) / mean(y.slice(0, third))
  }
}
