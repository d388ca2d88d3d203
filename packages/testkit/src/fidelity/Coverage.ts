/**
 * Which operations a run reached, and how they ended.
 *
 * @module
 */
import { summary, type Observation } from "./Observation.js"
import { label, type Operation } from "./Operation.js"

/** Counts by operation and outcome. */
export type Coverage = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Nothing yet. */
export const empty: Coverage = new Map()

/** The coverage with one more sequence. */
export const add = (
  coverage: Coverage,
  sequence: ReadonlyArray<Operation>,
  observations: ReadonlyArray<Observation>
): Coverage => {
  const outcomes = new Map(observations.map(({ id, outcome }) => [id, summary(outcome)]))
  const result = new Map([...coverage].map(([operation, counts]) => [operation, new Map(counts)]))
  for (const operation of sequence) {
    const outcome = outcomes.get(operation.id)
    if (outcome === undefined) continue
    const counts = result.get(label(operation)) ?? new Map<string, number>()
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    result.set(label(operation), counts)
  }
  return result
}

/** The table as text: one line for each operation, outcomes by frequency. */
export const table = (coverage: Coverage): string => {
  const rows = [...coverage].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const width = Math.max(0, ...rows.map(([operation]) => operation.length))
  return rows
    .map(([operation, counts]) => {
      const outcomes = [...counts].toSorted(([, a], [, b]) => b - a).map(([outcome, count]) => `${outcome}: ${count}`)
      return `${operation.padEnd(width)}  ${outcomes.join("; ")}`
    })
    .join("\n")
}
