/**
 * What the benchmarks found, as data, and the table that shows it.
 *
 * A benchmark hands over a row for each thing that it measures. Started by `bench/main.ts` it writes its rows to the file
 * that `BENCH_ROWS` names, and the table of all benchmarks is printed there; started alone it prints its own at its end,
 * also when it fails. `--json FILE` writes the same as JSON.
 */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"
import { arch, cpus, loadavg, release, totalmem, type } from "node:os"

/** The middle of the values. */
export const median = (values: ReadonlyArray<number>): number => quantile(values, 0.5)

const quantile = (values: ReadonlyArray<number>, part: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length - 1) * part
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place - Math.floor(place))
}

// ---- rows -----------------------------------------------------------------------------------------------------------

/** A median, and between what the middle half of the rounds lies. */
interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

type Goal = { readonly atLeast: number } | { readonly atMost: number }

interface Subject {
  readonly what: string
  /** With whom it is compared; a figure that stands by itself has nobody. */
  readonly against?: string
  readonly goal?: Goal
}

interface Row extends Subject {
  readonly bench: string
  readonly rounds?: number
  readonly unit?: string
  /** The medians of this project and of its peer. */
  readonly here?: number
  readonly there?: number
  /** By time, or by memory where that is the unit. */
  readonly ratio?: Spread
  readonly cpu?: Spread
  readonly met?: boolean
  /** Why there is nothing to show. */
  readonly note?: string
}

type Entry = { readonly row: Row } | { readonly used: readonly [name: string, version: string] }

/** What one side did in a round. */
export interface Round {
  /** Of the unit, per second. */
  readonly rate: number
  /** Client CPU for the same amount of work, in any unit that both sides share. */
  readonly cpu?: number
}

// Round by round, so that what disturbs the machine disturbs both sides
const spread = (values: ReadonlyArray<number>, reference: ReadonlyArray<number>): Spread | undefined => {
  const ratios = values.flatMap((value, index) => {
    const other = reference[index]
    return other === undefined ? [] : [value / other]
  })
  return ratios.length === 0
    ? undefined
    : { median: median(ratios), low: quantile(ratios, 0.25), high: quantile(ratios, 0.75) }
}

const given = (rounds: ReadonlyArray<Round>): ReadonlyArray<number> =>
  rounds.flatMap(({ cpu }) => (cpu === undefined ? [] : [cpu]))

const isMet = (goal: Goal | undefined, value: number | undefined): { readonly met?: boolean } => {
  if (goal === undefined || value === undefined) return {}
  // What is shown is what is judged
  const shown = Number(value.toFixed(2))
  return { met: "atLeast" in goal ? shown >= goal.atLeast : shown <= goal.atMost }
}

/** Takes the rows of one benchmark. */
export interface Report {
  /** How many times the peer's rate this project has: above 1 it is ahead, by time and by CPU. */
  readonly faster: (
    row: Subject & {
      readonly unit: string
      readonly ours: ReadonlyArray<Round>
      readonly theirs: ReadonlyArray<Round>
    }
  ) => void
  /** How many times what the reference costs this costs, in the unit: below 1 this project is ahead. */
  readonly costs: (
    row: Subject & {
      readonly unit: string
      readonly by?: "cpu"
      readonly ours: ReadonlyArray<number>
      readonly theirs: ReadonlyArray<number>
    }
  ) => void
  readonly figure: (row: Subject & { readonly value: number; readonly unit: string; readonly rounds?: number }) => void
  /** There is no peer to compare with; `here` is what was measured all the same. */
  readonly leftOut: (
    row: Subject & { readonly why: string; readonly here?: number; readonly unit?: string; readonly rounds?: number }
  ) => void
  /** The goal is missed in a way that has no figure. */
  readonly missed: (row: Subject & { readonly why: string }) => void
  /** Tells the version of what took part. */
  readonly used: (name: string, version: string) => void
}

/** Says on standard error how far a benchmark is. */
export const progress = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

const option = (name: string): string | undefined => {
  const at = process.argv.indexOf(name)
  if (at === -1) return undefined
  const value = process.argv[at + 1]
  if (value === undefined) throw new Error(`${name} needs a value`)
  return value
}

/** The arguments without `--json FILE`. */
export const args = (): ReadonlyArray<string> => {
  const at = process.argv.indexOf("--json")
  return process.argv.slice(2).filter((_, index) => at === -1 || (index !== at - 2 && index !== at - 1))
}

/** The whole number at a place of the arguments. */
export const count = (at: number, otherwise: number): number => {
  const text = args()[at]
  if (text === undefined) return otherwise
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${text} is not a number above 0`)
  return Number(text)
}

const parsed = (text: string): ReadonlyArray<Entry> =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Entry)

/** The report of one benchmark; a process opens one. */
export const open = (bench: string): Report => {
  const file = process.env["BENCH_ROWS"]
  let keep = (entry: Entry): void => {
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(entry)}\n`)
  }
  if (file === undefined) {
    const print = table()
    const entries: Array<Entry> = []
    keep = (entry) => void entries.push(entry)
    process.on("exit", () => print(entries))
  }
  const add = (row: Omit<Row, "bench">): void => {
    keep({ row: { bench, ...row } })
    progress(
      `  ${cells({ bench, ...row })
        .slice(1)
        .join(" | ")}`
    )
  }
  return {
    faster: ({ ours, theirs, unit, ...subject }) => {
      const rates = (rounds: ReadonlyArray<Round>): ReadonlyArray<number> => rounds.map(({ rate }) => rate)
      const ratio = spread(rates(ours), rates(theirs))
      const cpu = spread(given(theirs), given(ours))
      add({
        ...subject,
        unit,
        rounds: ours.length,
        here: median(rates(ours)),
        there: median(rates(theirs)),
        ...(ratio === undefined ? {} : { ratio }),
        ...(cpu === undefined ? {} : { cpu }),
        ...isMet(subject.goal, ratio?.median)
      })
    },
    costs: ({ by, ours, theirs, unit, ...subject }) => {
      const ratio = spread(ours, theirs)
      add({
        ...subject,
        unit,
        rounds: ours.length,
        here: median(ours),
        there: median(theirs),
        ...(ratio === undefined ? {} : { [by ?? "ratio"]: ratio }),
        ...isMet(subject.goal, ratio?.median)
      })
    },
    figure: ({ value, ...row }) => add({ ...row, here: value, ...isMet(row.goal, value) }),
    leftOut: ({ why, ...row }) => add({ ...row, note: `left out: ${why}` }),
    missed: ({ why, ...row }) => add({ ...row, note: why, met: false }),
    used: (name, version) => keep({ used: [name, version] })
  }
}

// ---- table ----------------------------------------------------------------------------------------------------------

const shortened = (value: number): string => {
  if (!Number.isFinite(value)) return "?"
  const size = Math.abs(value)
  return size === 0 || Number.isInteger(value) || size >= 100
    ? Math.round(value).toLocaleString("en")
    : value.toFixed(size >= 10 ? 1 : 2)
}

const spreadText = ({ high, low, median }: Spread): string =>
  low === high ? `${median.toFixed(2)}x` : `${median.toFixed(2)}x (${low.toFixed(2)} to ${high.toFixed(2)})`

const goalText = (row: Row): string => {
  if (row.goal === undefined) return ""
  const unit = row.against === undefined ? ` ${row.unit ?? ""}`.trimEnd() : "x"
  return "atLeast" in row.goal
    ? `at least ${shortened(row.goal.atLeast)}${unit}`
    : `at most ${shortened(row.goal.atMost)}${unit}`
}

const heads = ["bench", "what", "against", "goal", "measured", "ratio", "by CPU", "rounds", "met"]

const cells = (row: Row): ReadonlyArray<string> => {
  const sides = [row.here, row.there].flatMap((side) => (side === undefined ? [] : [shortened(side)])).join(" : ")
  return [
    row.bench,
    row.what,
    row.against ?? "",
    goalText(row),
    [
      ...(sides === "" ? [] : [`${sides} ${row.unit ?? ""}`.trimEnd()]),
      ...(row.note === undefined ? [] : [row.note])
    ].join("; "),
    row.ratio === undefined ? "" : spreadText(row.ratio),
    row.cpu === undefined ? "" : spreadText(row.cpu),
    row.rounds === undefined ? "" : String(row.rounds),
    row.met === undefined ? "" : row.met ? "yes" : "no"
  ]
}

const machine = () => {
  const processors = cpus()
  return {
    processors: processors.length,
    model: processors[0]?.model.trim() ?? "",
    arch: arch(),
    gibibytes: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`
  }
}

const load = (): ReadonlyArray<number> => loadavg().map((value) => Number(value.toFixed(1)))

/** Notes that the measuring begins; what it returns prints the table of the entries, and writes JSON where that is asked for. */
const table = (): ((entries: ReadonlyArray<Entry>) => void) => {
  const json = option("--json")
  const began = { date: new Date(), load: load() }
  return (entries) => {
    const rows = entries.flatMap((entry) => ("row" in entry ? [entry.row] : []))
    const used = Object.fromEntries([
      ["Node", process.version],
      ...entries.flatMap((entry) => ("used" in entry ? [entry.used] : []))
    ]) as Record<string, string>
    const found = {
      date: began.date.toISOString(),
      seconds: Math.round((Date.now() - began.date.getTime()) / 1000),
      arguments: process.argv.slice(2),
      machine: machine(),
      load: { start: began.load, end: load() },
      versions: used,
      rows
    }
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(found, undefined, 2)}\n`)
    const { arch, gibibytes, model, processors, system } = found.machine
    const versions = Object.entries(used).map(([name, version]) => `${name} ${version.replace(/^v(?=\d)/, "")}`)
    const lines = [
      `Measured on ${found.date.slice(0, 10)} in ${found.seconds} s: ${processors} × ${model} (${arch}), ${gibibytes} GiB, ${system}, ` +
        `load ${found.load.start[0]} at the start and ${found.load.end[0]} at the end. ${versions.join(", ")}.`,
      "",
      "Measured is here : there, medians. A ratio is the median of each round's own, with the middle half of the rounds in " +
        'brackets. Where the goal is "at most" a ratio is what this costs of what the other costs; everywhere else above 1x ' +
        "this project is ahead.",
      "",
      ...[heads, heads.map(() => "---"), ...rows.map(cells)].map(
        (row) => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`
      )
    ]
    process.stdout.write(`${lines.join("\n")}\n`)
  }
}

/** Collects the rows of processes that have `BENCH_ROWS` set to the file. */
export const collect = (
  file: string
): { readonly failed: (bench: string, why: string) => void; readonly print: () => void } => {
  const print = table()
  writeFileSync(file, "")
  return {
    failed: (bench, why) => {
      const row: Row = { bench, what: "whatever is not above", note: `left out: ${why}` }
      appendFileSync(file, `${JSON.stringify({ row })}\n`)
    },
    print: () => print(parsed(readFileSync(file, "utf8")))
  }
}
