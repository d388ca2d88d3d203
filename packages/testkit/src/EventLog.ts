/**
 * What happened, one entry per resource version, in order. Watchers are cursors on it. Entries are kept once more per type,
 * so that a watcher reads what concerns it in time proportional to what it gets.
 *
 * @module
 */
import type * as Json from "./Json.js"

/** One change of one object. */
export interface Entry {
  readonly version: number
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  /** `Registry.typeKey` of its type. */
  readonly resource: string
  /** `namespace/name`, or the name of a cluster-scoped object. */
  readonly key: string
  /** The object after the change; of a deletion the last state, with the version of the deletion. */
  readonly object: Json.JsonObject
  /** The object before the change. */
  readonly previous?: Json.JsonObject
}

/**
 * A sequence that only grows at its end. The array is shared between all states that have it as a prefix, `length` says
 * how much of it is this state's: appending to the newest state is O(1), appending to an older one copies.
 */
interface Growing {
  readonly items: Array<Entry>
  readonly start: number
  readonly length: number
}

const none: Growing = { items: [], start: 0, length: 0 }

const append = (sequence: Growing, entry: Entry): Growing => {
  const items =
    sequence.items.length === sequence.length ? sequence.items : sequence.items.slice(sequence.start, sequence.length)
  const start = items === sequence.items ? sequence.start : 0
  items.push(entry)
  return { items, start, length: items.length }
}

/** The first index whose version is greater. */
const indexAfter = (sequence: Growing, version: number): number => {
  let low = sequence.start
  let high = sequence.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sequence.items[middle]?.version ?? Infinity) > version) high = middle
    else low = middle + 1
  }
  return low
}

// Dropping is lazy: the array is copied once more than half of it is dead
const dropTo = (sequence: Growing, version: number): Growing => {
  const start = indexAfter(sequence, version)
  if (start - sequence.start < 1) return sequence
  return start > (sequence.length - start) * 2
    ? { items: sequence.items.slice(start, sequence.length), start: 0, length: sequence.length - start }
    : { ...sequence, start }
}

/** The log. */
export interface EventLog {
  /** Entries up to and including this version are gone. */
  readonly floor: number
  readonly all: Growing
  readonly byResource: ReadonlyMap<string, Growing>
}

/** The empty log of a server that starts at a version. */
export const make = (floor: number): EventLog => ({ floor, all: none, byResource: new Map() })

/** The log with one more entry, whose version must be greater than those before. */
export const add = (log: EventLog, entry: Entry): EventLog => ({
  floor: log.floor,
  all: append(log.all, entry),
  byResource: new Map(log.byResource).set(entry.resource, append(log.byResource.get(entry.resource) ?? none, entry))
})

/** How many entries are kept. */
export const size = (log: EventLog): number => log.all.length - log.all.start

/** Forgets the entries up to and including a version. */
export const compact = (log: EventLog, version: number): EventLog => {
  if (version <= log.floor) return log
  const byResource = new Map<string, Growing>()
  for (const [resource, sequence] of log.byResource) byResource.set(resource, dropTo(sequence, version))
  return { floor: version, all: dropTo(log.all, version), byResource }
}

/** The version below which a log of at most `limit` entries has to be compacted, `undefined` while it is short enough. */
export const excess = (log: EventLog, limit: number): number | undefined => {
  const surplus = size(log) - limit
  // Not one by one: a compaction walks over all types
  return surplus <= limit / 4 ? undefined : log.all.items[log.all.start + surplus - 1]?.version
}

/** The entries after a version, of one type or of all. The caller has checked the version against the floor. */
export const after = (log: EventLog, version: number, resource?: string): ReadonlyArray<Entry> => {
  const sequence = resource === undefined ? log.all : log.byResource.get(resource)
  if (sequence === undefined) return []
  const from = indexAfter(sequence, version)
  return from >= sequence.length ? [] : sequence.items.slice(from, sequence.length)
}

/** What a watcher with a selector is told of a change, if anything. */
export interface Told {
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly object: Json.JsonObject
}

/**
 * What a watcher sees of an entry. An object that starts to match is ADDED; one that stops is DELETED, shown as it was
 * when it still matched, with the version of the change.
 */
export const told = (entry: Entry, matches: (object: Json.JsonObject) => boolean): Told | undefined => {
  const before = entry.previous !== undefined && matches(entry.previous)
  if (entry.type === "DELETED") return before ? { type: "DELETED", object: entry.object } : undefined
  const now = matches(entry.object)
  if (now) return { type: before ? "MODIFIED" : "ADDED", object: entry.object }
  if (!before || entry.previous === undefined) return undefined
  const metadata = entry.previous["metadata"] as Json.JsonObject
  return {
    type: "DELETED",
    object: { ...entry.previous, metadata: { ...metadata, resourceVersion: String(entry.version) } }
  }
}
