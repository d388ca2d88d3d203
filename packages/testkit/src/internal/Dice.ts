/**
 * Reproducible chance: the same seed gives the same throws, on every machine.
 *
 * @module
 */

/** A sequence of throws. */
export interface Dice {
  /** A number in [0, 1). */
  readonly next: () => number
  /** An integer in [0, bound). */
  readonly below: (bound: number) => number
  /** Whether something of this probability happens. */
  readonly chance: (probability: number) => boolean
  /** One of the items; a defect when there is none. */
  readonly pick: <A>(items: ReadonlyArray<A>) => A
  /** One of the items, by weight. */
  readonly weighted: <A>(items: ReadonlyArray<readonly [weight: number, item: A]>) => A
}

/** 32-bit numbers from a seed: https://github.com/bryc/code/blob/master/jshash/PRNGs.md#splitmix32 */
export const splitmix = (seed: number): (() => number) => {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let value = state ^ (state >>> 16)
    value = Math.imul(value, 0x21f0aaad)
    value ^= value >>> 15
    value = Math.imul(value, 0x735a2d97)
    return (value ^ (value >>> 15)) >>> 0
  }
}

/** A seed made of several numbers: neighbours give unrelated throws. */
export const mix = (...parts: ReadonlyArray<number>): number =>
  parts.reduce((seed, part) => splitmix(Math.imul(seed, 31) ^ part)(), 17)

/** Dice from a seed. */
export const make = (seed: number): Dice => {
  const draw = splitmix(seed)
  const next = (): number => draw() / 4_294_967_296
  const below = (bound: number): number => Math.floor(next() * bound)
  const pick = <A>(items: ReadonlyArray<A>): A => {
    if (items.length === 0) throw new RangeError("Dice.pick: nothing to pick from")
    return items[below(items.length)] as A
  }
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick,
    weighted: (items) => {
      let rest = next() * items.reduce((sum, [weight]) => sum + weight, 0)
      for (const [weight, item] of items) {
        rest -= weight
        if (rest < 0) return item
      }
      return pick(items)[1]
    }
  }
}
