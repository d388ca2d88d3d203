/**
 * TrainJobs as a table that is drawn again and again in one place. Pure: rows, a size and a time in, lines out.
 *
 * @module
 */
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Render from "./Render.js"
import { type Paint, plain, type Tone } from "./Terminal.js"

/** One TrainJob. */
export interface Row {
  readonly name: string
  readonly state: Update.Update["state"]
  readonly execution: string
  readonly cause: string
  /** Epoch milliseconds. */
  readonly since: number
  /** It was so already when it was first seen: `since` is the latest possible time. */
  readonly atLeast: boolean
}

const executionText = ({ execution, identity, repeated }: Update.Update): string =>
  `${execution ?? (identity === "inferred" ? "?" : "")}${repeated ? " again" : ""}`

/** The row of an update; `before` is the TrainJob's last one, whose time stays while nothing changes. */
export const rowOf = (update: Update.Update, now: number, before: Row | undefined): Row => {
  const cause = update.cause === undefined ? "" : plain(Render.cause(update.cause))
  const row = { name: update.ref.name, state: update.state, execution: executionText(update), cause }
  if (before !== undefined && before.state === row.state && before.execution === row.execution) {
    return { ...row, since: before.since, atLeast: before.atLeast }
  }
  const told = update.evidence.flatMap(({ time }) => (time === undefined ? [] : [Date.parse(time)]))
  const latest = Math.max(...told.filter((time) => time <= now))
  return Number.isFinite(latest)
    ? { ...row, since: latest, atLeast: false }
    : { ...row, since: now, atLeast: before === undefined }
}

/** A length of time in at most four characters: `7s`, `12m`, `3h`, `41d`. */
export const age = (milliseconds: number): string => {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`
}

/** A text of at most so many characters. */
export const cut = (text: string, width: number): string =>
  text.length <= width ? text : width < 1 ? "" : `${text.slice(0, width - 1)}…`

const over = new Set<Row["state"]>(["Succeeded", "Failed", "Gone"])

/** Whether nothing more is to come of a TrainJob in this state. */
export const isOver = (state: Row["state"]): boolean => over.has(state)

const byName = new Intl.Collator("en", { numeric: true })

const sorted = (rows: Iterable<Row>): ReadonlyArray<Row> =>
  [...rows].toSorted((a, b) => Number(over.has(a.state)) - Number(over.has(b.state)) || byName.compare(a.name, b.name))

/** How big the terminal is. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

interface Column {
  readonly title: string
  readonly text: (row: Row) => string
  readonly tone?: (row: Row) => Tone
  /** Shown from this width on. */
  readonly from: number
}

const columnsAt = (now: number): ReadonlyArray<Column> => [
  { title: "TRAINJOB", text: ({ name }) => name, from: 0 },
  { title: "STATE", text: ({ state }) => state, tone: ({ state }) => Render.stateTone[state], from: 0 },
  { title: "EXECUTION", text: ({ execution }) => execution, from: 60 },
  {
    title: "SINCE",
    text: ({ since, atLeast }) => `${atLeast ? ">" : ""}${age(now - since)}`,
    tone: () => "dim",
    from: 40
  },
  { title: "CAUSE", text: ({ cause }) => cause, from: 30 }
]

const gap = "  "
const shortestName = 12

const more = (hidden: ReadonlyArray<Row>): string => {
  const counts = new Map<string, number>()
  for (const { state } of hidden) counts.set(state, (counts.get(state) ?? 0) + 1)
  return `and ${hidden.length} more: ${[...counts].map(([state, count]) => `${count} ${state}`).join(", ")}`
}

/**
 * The table, no line wider and no more lines than the terminal shows at once. What does not fit is counted; `notes` stand
 * below it.
 */
export const draw = (
  rows: Iterable<Row>,
  notes: ReadonlyArray<string>,
  size: Size,
  now: number,
  paint: Paint
): ReadonlyArray<string> => {
  const { columns: width } = size
  const all = sorted(rows)
  // One line stays free for the cursor
  const height = Math.max(3, size.rows - 1)
  const below = notes.slice(-Math.max(0, Math.min(3, height - 3)))
  const room = height - 1 - below.length
  const shown = all.length <= room ? all : all.slice(0, Math.max(0, room - 1))
  const hidden = all.slice(shown.length)

  const columns = columnsAt(now).filter(({ from }) => width >= from)
  const wanted = columns.map(({ title, text }) => Math.max(title.length, ...shown.map((row) => text(row).length)))
  const last = columns.length - 1
  const fixed = wanted.slice(1, last).reduce((sum, it) => sum + it + gap.length, 0)
  // The cause gets what is left; a name gives way to it, down to a readable rest
  const forCause =
    columns[last]?.title === "CAUSE" ? Math.min(wanted[last] ?? 0, Math.floor(width / 3)) + gap.length : 0
  const name = Math.max(
    Math.min(shortestName, wanted[0] ?? 0),
    Math.min(wanted[0] ?? 0, width - fixed - (last > 0 ? gap.length : 0) - forCause)
  )
  const widths = wanted.map((it, index) => (index === 0 ? name : it))
  const line = (cells: ReadonlyArray<readonly [string, Tone | undefined]>): string => {
    let left = width
    const parts: Array<string> = []
    for (const [index, [text, tone]] of cells.entries()) {
      const before = index === 0 ? "" : gap
      const space = Math.max(0, Math.min(left - before.length, index === last ? left : (widths[index] ?? 0)))
      const shownText = cut(text, space)
      const padded = index === last ? shownText : shownText.padEnd(space)
      left -= before.length + padded.length
      parts.push(before.slice(0, Math.max(0, left + padded.length + before.length)))
      parts.push(tone === undefined || padded === "" ? padded : paint(tone, padded))
    }
    return parts.join("").trimEnd()
  }
  if (all.length === 0)
    return [paint("dim", cut("No TrainJobs yet.", width)), ...below.map((it) => paint("dim", cut(plain(it), width)))]
  return [
    line(columns.map(({ title }) => [title, "dim"])),
    ...shown.map((row) => line(columns.map(({ text, tone }) => [text(row), tone?.(row)]))),
    ...(hidden.length === 0 ? [] : [paint("dim", cut(more(hidden), width))]),
    ...below.map((it) => paint("dim", cut(plain(it), width)))
  ]
}

const escape = "\u001b"

/** Hides the cursor, which else would run over the table. */
export const begin = `${escape}[?25l`
/** Shows the cursor again. */
export const end = `${escape}[?25h`

const colours = new RegExp(`${escape}\\[[0-9;]*m`, "g")

/** How many lines some lines take up at a width: a terminal that was made narrower has broken them. */
const taken = (lines: ReadonlyArray<string>, columns: number): number =>
  lines.reduce((sum, text) => sum + Math.max(1, Math.ceil(text.replace(colours, "").length / Math.max(1, columns))), 0)

/** What to write so that the lines stand where those before stood. */
export const redraw = (before: ReadonlyArray<string>, lines: ReadonlyArray<string>, { columns }: Size): string => {
  const up = taken(before, columns)
  return `${up === 0 ? "" : `${escape}[${up}A`}\r${escape}[J${lines.map((text) => `${text}\n`).join("")}`
}
