/**
 * Makes foreign text (a plugin's stderr, a proxy's page) fit to stand in an error message.
 *
 * @module
 */

const patterns: ReadonlyArray<readonly [RegExp, string]> = [
  [/-----BEGIN [^-]+-----[\s\S]*?(?:-----END [^-]+-----|$)/g, "(not shown)"],
  // user:password@ or token@ in a URL
  [/(\/\/)[^/\s?#]+@/g, "$1(not shown)@"],
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, "$1 (not shown)"],
  // But not what this program says of a field of such a name
  [
    /((?:token|secret|password|passwd|passphrase|api[-_]?key|access[-_]?key|credential|assertion|code)["']?\s*[:=]\s*["']?)(?!\(not shown|(?:expected|it has) (?:text|a|another|true)\b|is missing\b)[^\s"',;&}]+/gi,
    "$1(not shown)"
  ],
  // A program that fails may print its environment
  [/(^|\s)([A-Za-z_][A-Za-z0-9_]*)=(?!\(not shown)\S+/g, "$1$2=(not shown)"],
  // JSON web tokens, and any run of characters too long to be a word or a path segment
  [/\beyJ[\w-]+(?:\.[\w-]+)*/g, "(not shown)"],
  [/\b(?=[\w+-]*\d)[\w+-]{32,}={0,2}/g, "(not shown)"]
]

const withoutControls = (text: string): string =>
  Array.from(text, (character) => (character < " " || character === "\u007f" ? " " : character)).join("")

/** One line of at most `limit` characters in which whatever looks like a secret is not shown. */
export const shown = (text: string, limit = 400): string => {
  let safe = text
  for (const [pattern, replacement] of patterns) safe = safe.replace(pattern, replacement)
  const line = withoutControls(safe).replace(/\s+/g, " ").trim()
  return line.length > limit ? `${line.slice(0, limit)} …` : line
}

/** The first words of a page: markup removed, then as `shown`. */
export const firstWords = (body: string, limit = 80): string =>
  shown(
    body
      .slice(0, 4096)
      .replace(/<(script|style)[\s\S]*?(<\/\1>|$)/gi, " ")
      .replace(/<[^>]*>?/g, " "),
    limit
  )

// What the Kubernetes API defines for requests of this program, but page tokens, which say nothing to a reader
const knownParameters: ReadonlySet<string> = new Set([
  "allowWatchBookmarks",
  "container",
  "dryRun",
  "fieldManager",
  "fieldSelector",
  "fieldValidation",
  "follow",
  "force",
  "gracePeriodSeconds",
  "labelSelector",
  "limit",
  "limitBytes",
  "pretty",
  "previous",
  "propagationPolicy",
  "resourceVersion",
  "resourceVersionMatch",
  "sendInitialEvents",
  "sinceSeconds",
  "sinceTime",
  "stream",
  "tailLines",
  "timeoutSeconds",
  "timestamps",
  "watch"
])

/** A path with its query; of parameters that are not known the names alone. */
export const target = (path: string): string => {
  const [before = "", query] = path.split("?", 2)
  if (query === undefined) return before
  const pairs = query.split("&").map((pair) => {
    const [name = ""] = pair.split("=", 1)
    return knownParameters.has(name) || !pair.includes("=") ? pair : `${name}=…`
  })
  return `${before}?${pairs.join("&")}`
}
