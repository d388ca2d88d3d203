/**
 * What a server did with a sequence, with everything taken out that two servers may do differently: versions become ranks,
 * uids and generated names become the order in which they appear, times near the run become a word.
 *
 * @module
 */
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import { Encoding, Either } from "effect"
import * as Json from "../Json.js"
import { otherNamespace, type Places } from "./Operation.js"

/** A refusal, as the port reports it. */
export interface Refusal {
  readonly error: KubeError["_tag"]
  readonly code: number | undefined
  readonly reason: string | undefined
  readonly message: string | undefined
  readonly details: unknown
}

/** How an operation ended. A watch that was still open has no `end`. */
export type Outcome =
  | {
      readonly _tag: "Reply"
      readonly status: number
      readonly body: unknown
      readonly warnings: ReadonlyArray<string>
    }
  | { readonly _tag: "Refused"; readonly refusal: Refusal }
  | {
      readonly _tag: "Frames"
      readonly frames: ReadonlyArray<{ readonly type: string; readonly object: unknown }>
      readonly end: "ended" | Refusal | undefined
    }
  | { readonly _tag: "Text"; readonly text: string; readonly end: Refusal | undefined }

/** An operation's id and outcome. */
export interface Observation {
  readonly id: string
  readonly outcome: Outcome
}

/** A 404, and not the 204 of a pod without a node. */
const isMissing = (error: KubeError): boolean => error._tag === "KubeNotFound" && error.subject !== "log"

/** A refusal from a port error. */
export const refusal = (error: KubeError): Refusal => {
  const status = error.status
  return {
    error: error._tag,
    code: status?.code ?? ("code" in error ? error.code : isMissing(error) ? 404 : undefined),
    reason: status?.reason,
    // Routing answers in plain text; a transport may or may not keep its words
    message: status?.message === "404 page not found" ? undefined : status?.message,
    details: status?.details ?? undefined
  }
}

/** What the coverage table says about an outcome: an HTTP code, or how a stream went. */
export const summary = (outcome: Outcome): string => {
  const of = ({ code, error, reason }: Refusal): string =>
    error === "KubeNotFound" && code === undefined ? "404/204" : `${code ?? "?"} ${reason ?? "-"}`
  switch (outcome._tag) {
    case "Reply":
      return String(outcome.status)
    case "Refused":
      return of(outcome.refusal)
    case "Frames": {
      const { end, frames } = outcome
      if (frames.length === 0 && typeof end === "object") return of(end)
      const how = end === undefined ? "open" : end === "ended" ? "ended" : of(end)
      return `${frames.length === 0 ? "quiet" : "events"}, ${how}`
    }
    case "Text":
      return outcome.end === undefined ? (outcome.text === "" ? "200 empty" : "200") : of(outcome.end)
  }
}

const visit = (value: unknown, found: (object: Json.JsonObject) => void): void => {
  if (Array.isArray(value)) for (const entry of value) visit(entry, found)
  else if (Json.isObject(value)) {
    found(value)
    for (const entry of Object.values(value)) visit(entry, found)
  }
}

const bodies = (outcome: Outcome): ReadonlyArray<unknown> => {
  switch (outcome._tag) {
    case "Reply":
      return [outcome.body]
    case "Frames":
      return outcome.frames.filter(({ type }) => type !== "BOOKMARK").map(({ object }) => object)
    default:
      return []
  }
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
const generated = /\b(?:go\d+-|Bad_)[bcdfghjklmnpqrstvwxz2456789]{5}\b/g
const time = /\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z/g
/** Times within this of the run are the run's own, milliseconds. */
const near = 3_600_000

const sortedByText = (value: unknown): unknown =>
  Array.isArray(value) ? value.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) : value

/** What is known about a run besides its observations. */
export interface Run extends Places {
  /** Epoch milliseconds. */
  readonly startedAt: number
}

/** Makes the observations of a run comparable with those of another server. */
export const normalise = (observations: ReadonlyArray<Observation>, run: Run): ReadonlyArray<Observation> => {
  const versions = new Set<number>()
  for (const { outcome } of observations) {
    for (const body of bodies(outcome)) {
      visit(body, (object) => {
        const version = Json.string(Json.at(object, "metadata", "resourceVersion"))
        // A list's version is that of the server, not of a write
        if (version !== undefined && /^\d+$/.test(version) && !Json.isArray(object["items"])) {
          versions.add(Number(version))
        }
      })
    }
  }
  const ordered = [...versions].toSorted((a, b) => a - b)
  const rank = (version: number): string => `v${ordered.filter((known) => known <= version).length}`
  const names = new Map<string, string>()
  const numbered = (kind: string) => (text: string) => {
    const known = names.get(text)
    if (known !== undefined) return known
    const word = `<${kind} ${names.size + 1}>`
    names.set(text, word)
    return word
  }
  const words = (value: string): string =>
    value
      .replaceAll(uuid, numbered("uid"))
      .replaceAll(generated, (name) => `${name.slice(0, -5)}<suffix>`)
      .replaceAll(run.other, otherNamespace)
      .replaceAll(run.namespace, "fidelity")
      .replaceAll(time, (stamp) => {
        const at = Json.parseTime(stamp)
        return at !== undefined && Math.abs(at - run.startedAt) < near ? "<now>" : stamp
      })
  const message = (value: string): string =>
    words(value)
      .replaceAll(/(resource version: )(\d+)( \(\d+\)|, current: \d+)/g, "$1<version>")
      .replaceAll(
        /(ResourceVersion in (?:the precondition|record) \()(\d+)\)/g,
        (_, before: string, version: string) =>
          // A version that no answer showed is compared as one; a precondition may be any number
          `${before}${versions.has(Number(version)) ? rank(Number(version)) : before.includes("record") ? "<version>" : version})`
      )
      // Whole objects are repeated in Go's notation
      .replaceAll(/(Invalid value: )(?:"\{.*\}"|\{.*\}|"map\[.*\]"): /g, "$1<object>: ")
      // The words of Go's decoders about what a token really is
      .replaceAll(/(invalid continue token: ).*/g, "$1<why>")
      .replaceAll(/"resourceVersion":"\d+"/g, '"resourceVersion":"<version>"')
      .replaceAll(/ResourceVersion: \d+/g, "ResourceVersion: <version>")
      // Rules of a custom resource are run in the order of a Go map, which is another each time
      .replace(
        /^(\w+\.[a-z0-9-]+\.\S+ "[^"]*" is invalid: \[)(.*)\]$/s,
        (_, before: string, list: string) => `${before}${list.split(", ").toSorted().join(", ")}]`
      )
  const token = (text: string): unknown => {
    const decoded = Encoding.decodeBase64UrlString(text)
    if (text === "" || Either.isLeft(decoded)) return text
    const match = /"rv":(-?\d+),"start":"(.*)"/.exec(decoded.right)
    if (match === null) return text
    const version = Number(match[1])
    return { rv: version > 0 ? rank(version) : String(version), start: words(match[2] ?? "") }
  }
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (typeof value === "string") return words(value)
    if (typeof value !== "object" || value === null) return value
    const result: Record<string, unknown> = {}
    // Sorted, so that uids are numbered in the same order whatever the order of the keys
    for (const [key, entry] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      // Tokens are not signed in memory: what a real one says of itself is not compared
      if (key === "managedFields" || key === "extra" || entry === undefined) continue
      if (key === "resourceVersion" && typeof entry === "string" && /^\d+$/.test(entry)) {
        result[key] = rank(Number(entry))
      } else if (key === "continue" && typeof entry === "string") result[key] = token(entry)
      // The authorizer's order is that of its cache
      else if (key === "resourceRules" || key === "nonResourceRules") result[key] = sortedByText(walk(entry))
      // Conflicts with several managers are told in any order, but for the message; so are rules of a custom resource
      else if (
        key === "causes" &&
        (Json.at(entry, 0, "reason") === "FieldManagerConflict" || Json.text(Json.at(value, "group")).includes("."))
      ) {
        result[key] = sortedByText(walk(entry))
      } else if (key === "message" && typeof entry === "string") result[key] = message(entry)
      // Lines at one moment are told apart by a nanosecond
      else if (key === "text" && typeof entry === "string") result[key] = entry.replaceAll(/(\.\d{6})\d{3}Z/g, "$1Z")
      else result[key] = walk(entry)
    }
    return result
  }
  return observations.map(({ id, outcome }) => ({ id, outcome: walk(outcome) as Outcome }))
}
