/**
 * Amounts of resources as the API server reads, keeps and counts them: `0.1` becomes `100m`, `1024Mi` becomes `1Gi`, and what
 * is no amount is refused. Exact: tenths of a CPU add up to whole ones.
 *
 * The forms: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/. What is kept as it was sent
 * and what is rewritten was recorded from a real server (1.37.2).
 *
 * @module
 */
import { Either } from "effect"
import type * as Json from "../Json.js"

/** How an amount is written: with `m`, `k`, `M`; as `1e3`; or with `Ki`, `Mi`. */
type Notation = "decimal" | "exponent" | "binary"

interface Quantity {
  /** Billionths: the smallest part that is kept. */
  readonly nanos: bigint
  readonly notation: Notation
  /** The text as it was sent, where the server keeps it. */
  readonly sent: string | undefined
}

const decimals: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 }
const binaries = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
const decimalOf = new Map(Object.entries(decimals).map(([suffix, exponent]) => [exponent, suffix]))

const one = 10n ** 9n
const milli = 10n ** 6n
/** More digits than these are not kept as they were sent. */
const keptDigits = 18
/** The most that an amount in powers of two can be. */
const binaryMost = 2n ** 63n - 1n

const magnitude = (value: bigint): bigint => (value < 0n ? -value : value)

/** In whole steps, away from zero: who asks for a little is given something. */
const steps = (value: bigint, step: bigint): bigint => {
  const whole = (magnitude(value) + step - 1n) / step
  return value < 0n ? -whole : whole
}

const formError = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
const suffixError = "unable to parse quantity's suffix"

const form = /^([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)$/

interface Suffix {
  readonly notation: Notation
  readonly exponent: number
}

const suffixOf = (text: string): Suffix | undefined => {
  const decimal = decimals[text]
  if (decimal !== undefined) return { notation: "decimal", exponent: decimal }
  const binary = binaries.indexOf(text)
  if (binary > 0) return { notation: "binary", exponent: binary }
  return /^[eE][+-]?[0-9]+$/.test(text) ? { notation: "exponent", exponent: Number(text.slice(1)) } : undefined
}

/** `digits` times ten to the `exponent`, in billionths, rounded up. */
const scaled = (digits: bigint, exponent: number): bigint =>
  exponent >= -9 ? digits * 10n ** BigInt(exponent + 9) : steps(digits, 10n ** BigInt(-9 - exponent))

/** Whether the digits alone show that a text is as short as it can be; only then the server keeps it. */
const isShortest = (whole: string, part: string, { exponent, notation }: Suffix): boolean => {
  const digits = whole + part
  if (digits.length > keptDigits) return false
  if (notation === "binary") return part === "" && BigInt(digits) % 8n !== 0n
  return (exponent - part.length) % 3 === 0 && !digits.endsWith("000") && !digits.startsWith("0")
}

// Beyond these exponents a text of a few characters would be a number of many megabytes
const exponentLimit = 1000

const parsed = (text: string): Either.Either<Quantity, string> => {
  const match = form.exec(text)
  if (match === null || text === "") return Either.left(formError)
  const [, sign = "", given = "", part = "", ending = ""] = match
  const suffix = suffixOf(ending)
  if (suffix === undefined || Math.abs(suffix.exponent) > exponentLimit) return Either.left(suffixError)
  const whole = given.replace(/^0+/, "") || "0"
  const digits = BigInt(whole + part)
  let nanos =
    suffix.notation === "binary"
      ? scaled(digits * 1024n ** BigInt(suffix.exponent), -part.length)
      : scaled(digits, suffix.exponent - part.length)
  if (suffix.notation === "binary" && nanos > binaryMost * one) nanos = binaryMost * one
  return Either.right({
    nanos: sign === "-" ? -nanos : nanos,
    notation: suffix.notation,
    sent: isShortest(whole, part, suffix) ? text : undefined
  })
}

const decimalText = (nanos: bigint, notation: "decimal" | "exponent"): string => {
  let digits = nanos
  let exponent = -9
  while (digits % 1000n === 0n) {
    digits /= 1000n
    exponent += 3
  }
  const suffix = notation === "decimal" ? decimalOf.get(exponent) : exponent === 0 ? "" : undefined
  return `${digits}${suffix ?? `e${exponent}`}`
}

const textOf = ({ nanos, notation }: Pick<Quantity, "nanos" | "notation">): string => {
  if (nanos === 0n) return "0"
  if (notation !== "binary") return decimalText(nanos, notation)
  if (nanos % one !== 0n || magnitude(nanos) < 1024n * one) return decimalText(nanos, "decimal")
  let whole = nanos / one
  let power = 0
  while (whole % 1024n === 0n && power < binaries.length - 1) {
    whole /= 1024n
    power += 1
  }
  return `${whole}${binaries[power] ?? ""}`
}

/** What stands in JSON for an amount; nothing is nothing. */
const sentText = (value: Json.Json): string =>
  value === null ? "0" : typeof value === "string" ? value.trim() : JSON.stringify(value)

// The same few amounts come again and again, with every write of a status
const remembered = 4096
const cache = new Map<string, Either.Either<Quantity, string>>()

const read = (value: Json.Json): Either.Either<Quantity, string> => {
  const text = sentText(value)
  const known = cache.get(text)
  if (known !== undefined) return known
  if (cache.size >= remembered) cache.clear()
  const quantity = parsed(text)
  cache.set(text, quantity)
  return quantity
}

/** Why this is no amount, in the server's words; `undefined` when it is one. */
export const problem = (value: Json.Json): string | undefined =>
  Either.match(read(value), { onLeft: (why) => why, onRight: () => undefined })

/**
 * An amount as its Go type writes it; what is none comes back as it is. Of pods, Jobs and Nodes (`thousandths`) nothing
 * smaller than a thousandth is kept.
 */
export const canonical = <A extends Json.Json>(value: A, options: { readonly thousandths: boolean }): A | string => {
  const quantity = Either.getOrUndefined(read(value))
  if (quantity === undefined) return value
  const { nanos, notation, sent } = quantity
  if (options.thousandths && nanos % milli !== 0n) return textOf({ nanos: steps(nanos, milli) * milli, notation })
  return sent ?? textOf(quantity)
}

const unitOf = (resource: string): bigint => (resource === "cpu" ? milli : one)

/**
 * What an amount counts for: thousandths of a CPU, whole units of anything else, rounded up. As the scheduler and Kueue
 * count. What is no amount is 0.
 */
export const of = (resource: string, value: Json.Json | undefined): number =>
  Either.match(read(value ?? null), {
    onLeft: () => 0,
    onRight: ({ nanos }) => Number(steps(nanos, unitOf(resource)))
  })

/** What was counted with `of`, as an amount: bytes in powers of two, everything else in powers of ten. */
export const text = (resource: string, amount: number): string =>
  textOf({
    nanos: BigInt(amount) * unitOf(resource),
    notation: /^(?:memory|ephemeral-storage|hugepages-)/.test(resource) ? "binary" : "decimal"
  })

const nanosOf = (value: Json.Json): bigint =>
  Either.match(read(value), { onLeft: () => 0n, onRight: ({ nanos }) => nanos })

/** Less than 0 when `left` is the smaller one, 0 when they are the same amount. */
export const compare = (left: Json.Json, right: Json.Json): number => {
  const difference = nanosOf(left) - nanosOf(right)
  return difference === 0n ? 0 : difference < 0n ? -1 : 1
}

/** Whether an amount is a whole number. */
export const isWhole = (value: Json.Json): boolean => nanosOf(value) % one === 0n
