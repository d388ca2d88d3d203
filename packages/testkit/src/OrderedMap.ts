/**
 * A persistent map from strings to values in byte order of the keys: a weight-balanced tree. Reading, writing, removing
 * and ranking are O(log n), a write shares all but the path to the root with the map before it, and a walk can start at
 * any key. (Effect's `RedBlackTree` keeps duplicates and cannot rank.)
 *
 * @module
 */

/** The map. `undefined` is the empty one. */
export type OrderedMap<A> = Node<A> | undefined

interface Node<A> {
  readonly key: string
  readonly value: A
  readonly size: number
  readonly left: OrderedMap<A>
  readonly right: OrderedMap<A>
}

/** The empty map. */
export const empty: OrderedMap<never> = undefined

/** How many entries there are. */
export const size = (map: OrderedMap<unknown>): number => map?.size ?? 0

const node = <A>(key: string, value: A, left: OrderedMap<A>, right: OrderedMap<A>): Node<A> => ({
  key,
  value,
  size: size(left) + size(right) + 1,
  left,
  right
})

// Balance parameters <3, 2>: Hirai, Yamamoto, "Balancing weight-balanced trees", J. Functional Programming 21 (2011)
const delta = 3
const gamma = 2
const weight = (map: OrderedMap<unknown>): number => size(map) + 1

const balance = <A>(key: string, value: A, left: OrderedMap<A>, right: OrderedMap<A>): Node<A> => {
  if (right !== undefined && weight(right) > delta * weight(left)) {
    const { left: inner, right: outer } = right
    if (inner === undefined || weight(inner) < gamma * weight(outer)) {
      return node(right.key, right.value, node(key, value, left, inner), outer)
    }
    return node(
      inner.key,
      inner.value,
      node(key, value, left, inner.left),
      node(right.key, right.value, inner.right, outer)
    )
  }
  if (left !== undefined && weight(left) > delta * weight(right)) {
    const { left: outer, right: inner } = left
    if (inner === undefined || weight(inner) < gamma * weight(outer)) {
      return node(left.key, left.value, outer, node(key, value, inner, right))
    }
    return node(
      inner.key,
      inner.value,
      node(left.key, left.value, outer, inner.left),
      node(key, value, inner.right, right)
    )
  }
  return node(key, value, left, right)
}

/** The value of a key. */
export const get = <A>(map: OrderedMap<A>, key: string): A | undefined => {
  let current = map
  while (current !== undefined) {
    if (key === current.key) return current.value
    current = key < current.key ? current.left : current.right
  }
  return undefined
}

/** The map with a key set. */
export const set = <A>(map: OrderedMap<A>, key: string, value: A): Node<A> => {
  if (map === undefined) return node<A>(key, value, undefined, undefined)
  if (key === map.key) return node(key, value, map.left, map.right)
  return key < map.key
    ? balance(map.key, map.value, set(map.left, key, value), map.right)
    : balance(map.key, map.value, map.left, set(map.right, key, value))
}

const withoutFirst = <A>(map: Node<A>): readonly [first: Node<A>, rest: OrderedMap<A>] => {
  if (map.left === undefined) return [map, map.right]
  const [first, rest] = withoutFirst(map.left)
  return [first, balance(map.key, map.value, rest, map.right)]
}

/** The map without a key. */
export const remove = <A>(map: OrderedMap<A>, key: string): OrderedMap<A> => {
  if (map === undefined) return undefined
  if (key < map.key) {
    const left = remove(map.left, key)
    return left === map.left ? map : balance(map.key, map.value, left, map.right)
  }
  if (key > map.key) {
    const right = remove(map.right, key)
    return right === map.right ? map : balance(map.key, map.value, map.left, right)
  }
  if (map.left === undefined) return map.right
  if (map.right === undefined) return map.left
  const [next, rest] = withoutFirst(map.right)
  return balance(next.key, next.value, map.left, rest)
}

/** How many keys are less than this one. */
export const rank = (map: OrderedMap<unknown>, key: string): number => {
  let before = 0
  let current = map
  while (current !== undefined) {
    if (key <= current.key) current = current.left
    else {
      before += size(current.left) + 1
      current = current.right
    }
  }
  return before
}

/** The entries in key order from the first key that is not less than `start`. */
export function* entries<A>(map: OrderedMap<A>, start = ""): IterableIterator<readonly [key: string, value: A]> {
  const path: Array<Node<A>> = []
  let current = map
  while (current !== undefined) {
    if (start <= current.key) {
      path.push(current)
      current = current.left
    } else current = current.right
  }
  for (let top = path.pop(); top !== undefined; top = path.pop()) {
    yield [top.key, top.value]
    current = top.right
    while (current !== undefined) {
      path.push(current)
      current = current.left
    }
  }
}

/** The entries whose key starts with a prefix, from `start` on, in key order. */
export function* withPrefix<A>(
  map: OrderedMap<A>,
  prefix: string,
  start = prefix
): IterableIterator<readonly [key: string, value: A]> {
  for (const entry of entries(map, start > prefix ? start : prefix)) {
    if (!entry[0].startsWith(prefix)) return
    yield entry
  }
}
