/**
 * A conforming runtime as YAML for `kubectl apply`, with a comment at every change. Pure.
 *
 * @module
 */
import * as RuntimeRules from "@dispatch-kubeflow/core/decide/RuntimeRules"
import { Document, isMap, isNode, isScalar, type YAMLMap } from "yaml"

/** `spec.replicatedJobs[0].template` as the keys that lead there. */
const keysOf = (path: string): ReadonlyArray<string | number> =>
  path.split(/[.[]/).map((part) => (part.endsWith("]") ? Number(part.slice(0, -1)) : part))

const why = ({ rule }: RuntimeRules.Change): string =>
  rule === "warning" ? "warning" : `rule ${rule} (${RuntimeRules.rules[rule - 1]?.id ?? "unknown"})`

const inline = (value: unknown): string => JSON.stringify(value)

const nameOf = (path: string): string => path.slice(path.lastIndexOf(".") + 1)

const note = (change: RuntimeRules.Change): string =>
  change.to === undefined
    ? `${why(change)}: ${nameOf(change.where)}: ${inline(change.from)} removed`
    : `${why(change)}: was ${change.from === undefined ? "absent" : inline(change.from)}`

const prepend = (text: string, before: string | null | undefined): string =>
  before === undefined || before === null || before === "" ? ` ${text}` : `${before}\n ${text}`

/** Puts a comment above the first entry of a map, or after the map's braces when it is empty. */
const above = (map: YAMLMap, text: string): void => {
  const first = map.items[0]?.key
  if (isNode(first)) first.commentBefore = prepend(text, first.commentBefore)
  else map.comment = prepend(text, map.comment)
}

const annotate = (document: Document, change: RuntimeRules.Change): void => {
  const keys = keysOf(change.where)
  const node = change.to === undefined ? undefined : document.getIn(keys, true)
  if (isScalar(node)) {
    node.comment = prepend(note(change), node.comment)
    return
  }
  const parent = document.getIn(keys.slice(0, -1), true)
  if (isMap(parent)) above(parent, change.to === undefined ? note(change) : `${nameOf(change.where)}: ${note(change)}`)
}

/** The YAML document of a conforming copy. `source` names the runtime it was made from. */
export const conformed = (source: string, { changes, remaining, runtime }: RuntimeRules.Conformed): string => {
  const document = new Document(runtime)
  for (const change of changes) annotate(document, change)
  const head =
    changes.length === 0
      ? [`${source} breaks no rule that a change of values could mend; this is a copy.`]
      : [`Made from ${source}; the changes:`, ...changes.map((change) => `- ${change.where}: ${note(change)}`)]
  const open = remaining.map((it) => `- ${it.where} ${it.problem}; ${it.remedy}`)
  document.commentBefore = [...head, ...(open.length === 0 ? [] : ["Not mended, and to be done by hand:", ...open])]
    .map((line) => ` ${line}`)
    .join("\n")
  return document.toString({ lineWidth: 0 })
}
