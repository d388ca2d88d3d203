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

const count = (
  coverage: Coverage,
  sequence: ReadonlyArray<Operation>,
  observations: ReadonlyArray<Observation>,
  rowsOf: (operation: Operation) => ReadonlyArray<string>
): Coverage => {
  const outcomes = new Map(observations.map(({ id, outcome }) => [id, summary(outcome)]))
  const result = new Map([...coverage].map(([row, counts]) => [row, new Map(counts)]))
  for (const operation of sequence) {
    const outcome = outcomes.get(operation.id)
    if (outcome === undefined) continue
    for (const row of rowsOf(operation)) {
      const counts = result.get(row) ?? new Map<string, number>()
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
      result.set(row, counts)
    }
  }
  return result
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

const one = (condition: boolean, row: string): ReadonlyArray<string> => (condition ? [row] : [])

/** The options of an operation, one row each: query parameters, members of delete options, and what a body does. */
const optionsOf = ({ as, request }: Operation): ReadonlyArray<string> => {
  const { body, query, verb } = request
  const what = request.subresource === "log" ? "get log" : verb
  const valued = ["dryRun", "fieldValidation", "propagationPolicy", "resourceVersionMatch", "follow"]
  const record = typeof body === "object" && body !== null && !Array.isArray(body) ? body : {}
  const at = (...path: ReadonlyArray<string>): unknown =>
    path.reduce<unknown>(
      (value, key) =>
        typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined,
      record
    )
  const selector = query["labelSelector"] ?? ""
  const isDelete = verb === "delete" || verb === "deletecollection"
  return [
    ...Object.entries(query).map(([key, value]) => `${what} ?${key}${valued.includes(key) ? `=${value}` : ""}`),
    ...one(/ (?:not)?in |!=|^!|[<>]/.test(selector), `${what} by a set-based labelSelector`),
    ...one(isDelete && at("dryRun") !== undefined, `${verb} {dryRun}`),
    ...one(isDelete && at("preconditions", "uid") !== undefined, `${verb} {preconditions.uid}`),
    ...one(isDelete && at("preconditions", "resourceVersion") !== undefined, `${verb} {preconditions.resourceVersion}`),
    ...one(isDelete && at("gracePeriodSeconds") !== undefined, `${verb} {gracePeriodSeconds}`),
    ...one(
      isDelete && at("propagationPolicy") !== undefined,
      `${verb} {propagationPolicy: ${textOf(at("propagationPolicy"))}}`
    ),
    ...one(verb === "create" && at("metadata", "generateName") !== undefined, "create with generateName"),
    ...one(at("metadata", "finalizers") !== undefined, `${verb} with finalizers`),
    ...one(at("metadata", "ownerReferences") !== undefined, `${verb} with ownerReferences`),
    ...one(verb === "update" && at("metadata", "resourceVersion") !== undefined, "update with a resourceVersion"),
    ...one(verb === "update" && at("metadata", "uid") !== undefined, "update with a uid"),
    ...one(as !== "admin", `${verb} as a subject with a random role`)
  ]
}

/** The coverage of options with one more sequence. */
export const addOptions = (
  coverage: Coverage,
  sequence: ReadonlyArray<Operation>,
  observations: ReadonlyArray<Observation>
): Coverage => count(coverage, sequence, observations, optionsOf)

/** The coverage with one more sequence. */
export const add = (
  coverage: Coverage,
  sequence: ReadonlyArray<Operation>,
  observations: ReadonlyArray<Observation>
): Coverage => count(coverage, sequence, observations, (operation) => [label(operation)])

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
