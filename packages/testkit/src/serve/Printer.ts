/**
 * Prints JSON, and remembers the text of what lists hold: printing an object costs as much as all the rest of serving it,
 * and objects that did not change are listed again and again.
 *
 * @module
 */

type Plain = Readonly<Record<string, unknown>>

const isPlain = (value: unknown): value is Plain => typeof value === "object" && value !== null && !Array.isArray(value)

/** How many characters are remembered before all are forgotten. */
const limit = 64 * 1024 * 1024

/** Whether two objects hold the same values, which are never changed in place. */
const same = (left: Plain, right: Plain): boolean => {
  const keys = Object.keys(left)
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key])
}

/** Prints like `JSON.stringify`. */
export const make = (): ((body: unknown) => string) => {
  const known = new Map<unknown, { readonly item: Plain; readonly text: string }>()
  let size = 0

  const printItem = (item: unknown): string => {
    // Every version of an object has metadata of its own
    const metadata = isPlain(item) ? item["metadata"] : undefined
    if (!isPlain(item) || !isPlain(metadata)) return JSON.stringify(item) ?? "null"
    const found = known.get(metadata)
    if (found !== undefined && same(found.item, item)) return found.text
    const text = JSON.stringify(item)
    size += text.length
    if (size > limit) {
      known.clear()
      size = text.length
    }
    known.set(metadata, { item, text })
    return text
  }

  return (body) => {
    const items = isPlain(body) ? body["items"] : undefined
    if (!isPlain(body) || !Array.isArray(items) || items.length === 0) return JSON.stringify(body)
    const members = Object.entries(body).flatMap(([key, value]) => {
      const text = key === "items" ? `[${items.map(printItem).join(",")}]` : JSON.stringify(value)
      return text === undefined ? [] : [`${JSON.stringify(key)}:${text}`]
    })
    return `{${members.join(",")}}`
  }
}
