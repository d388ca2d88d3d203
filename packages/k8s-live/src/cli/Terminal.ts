/**
 * How text looks on a terminal: columns, and colour where a person looks.
 *
 * @module
 */
import { inspect } from "node:util"

/** What a piece of text means; the palette decides how that looks. */
export type Tone = "good" | "bad" | "warn" | "dim" | "strong" | (typeof rankTones)[number]

/** Tones that tell things apart without saying anything of them. */
export const rankTones = ["cyan", "magenta", "blue", "greenBright", "yellowBright", "redBright"] as const

/** How wide a terminal is; one that does not know says 0. */
export const widthOf = ({ columns }: NodeJS.WriteStream): number => (columns > 0 ? columns : 80)

/** Puts a tone on a text. */
export type Paint = (tone: Tone, text: string) => string

const styles = { good: "green", bad: "red", warn: "yellow", dim: "gray", strong: "bold" } as const

const styleOf = (tone: Tone): string => (tone in styles ? styles[tone as keyof typeof styles] : tone)

/** Colour on a terminal, none anywhere else; https://no-color.org is honoured. */
export const paintFor = (options: { readonly isTerminal: boolean; readonly noColor: boolean }): Paint =>
  options.isTerminal && !options.noColor
    ? (tone, text) => {
        const [on, off] = inspect.colors[styleOf(tone)] ?? [0, 0]
        return `\u001b[${on}m${text}\u001b[${off}m`
      }
    : (_, text) => text

/** A cell: its text, and what it means. */
export interface Cell {
  readonly text: string
  readonly tone?: Tone
}

/** A text without what a terminal obeys: words of a cluster must not move the cursor. */
export const plain = (text: string): string =>
  Array.from(text, (character) =>
    (character < " " && character !== "\n") || (character >= "\u007f" && character < "\u00a0") ? " " : character
  ).join("")

/** Breaks a text at blanks so that no line is longer than `width`, unless one word is. */
export const wrap = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const paragraph of plain(text).split("\n")) {
    let line = ""
    for (const word of paragraph.split(" ")) {
      if (line === "") line = word
      else if (line.length + 1 + word.length <= width) line += ` ${word}`
      else {
        lines.push(line)
        line = word
      }
    }
    lines.push(line)
  }
  return lines
}

// Narrower than this nothing can be read
const least = 10

/** Lines of a text, no wider than `width` unless one word is: `first` stands before it, and under that it goes on. */
export const hang = (first: string, text: string, width: number): ReadonlyArray<string> =>
  wrap(text, Math.max(least, width - first.length)).map(
    (line, index) => (index === 0 ? first : " ".repeat(first.length)) + line
  )

const gap = "  "

const narrowest = 24

/** A row of which not all columns fit beside each other: as many as do on each line, the last one below, all indented. */
const stack = (cells: ReadonlyArray<Cell>, paint: Paint, width: number): ReadonlyArray<string> => {
  const shown = ({ text, tone }: Cell): string => (tone === undefined || text === "" ? text : paint(tone, text))
  const lines: Array<string> = []
  let line = ""
  let length = 0
  for (const whole of cells.slice(0, -1).filter(({ text }) => text !== "")) {
    const [first = "", ...rest] = wrap(whole.text, Math.max(least, width - gap.length))
    const cell = { ...whole, text: first }
    if (length > 0 && length + gap.length + cell.text.length > width) {
      lines.push(line)
      line = ""
      length = 0
    }
    const before = length > 0 || lines.length > 0 ? gap : ""
    line += before + shown(cell)
    length += before.length + cell.text.length
    for (const text of rest) {
      lines.push(line)
      line = gap + shown({ ...whole, text })
      length = gap.length + text.length
    }
  }
  if (length > 0) lines.push(line)
  const last = cells.at(-1)
  if (last === undefined || last.text === "") return lines
  const indent = cells.length > 1 ? gap : ""
  return [
    ...lines,
    ...wrap(last.text, Math.max(least, width - indent.length)).map((text) => indent + shown({ ...last, text }))
  ]
}

/**
 * Rows under a header. All columns but the last are as wide as their widest text; the last is wrapped to what is left of
 * `width`, so that a long reason stays under its heading. Where too little is left it stands below the others.
 */
export const table = (
  header: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  paint: Paint,
  width: number
): string => {
  const titles = header.map((text) => ({ text, tone: "dim" as const }))
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.text.length ?? 0))
  )
  const last = header.length - 1
  const room = width - widths.slice(0, last).reduce((sum, it) => sum + it + gap.length, 0)
  if (room < Math.min(narrowest, widths[last] ?? 0)) {
    return [titles, ...rows].flatMap((cells) => stack(cells, paint, width)).join("\n")
  }
  const render = (cells: ReadonlyArray<Cell>): ReadonlyArray<string> => {
    const wrapped = wrap(cells[last]?.text ?? "", room)
    return wrapped.map((part, index) => {
      const left = cells
        .slice(0, last)
        .map((cell, column) => {
          const text = index === 0 ? cell.text : ""
          const padded = text.padEnd(widths[column] ?? 0)
          return cell.tone === undefined || text === "" ? padded : paint(cell.tone, padded)
        })
        .join(gap)
      const tone = cells[last]?.tone
      const right = tone === undefined ? part : paint(tone, part)
      return (last === 0 ? right : `${left}${gap}${right}`).trimEnd()
    })
  }
  return [...render(titles), ...rows.flatMap(render)].join("\n")
}
