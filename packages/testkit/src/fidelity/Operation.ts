/**
 * What the differential checker runs: requests as values, in which names that only a server can give (versions, uids,
 * page tokens, generated names) are placeholders that point to earlier answers.
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Json from "../Json.js"

/** One step of a sequence. Steps are done in order; a watch goes on until the sequence ends. */
export interface Operation {
  /** Names the step in placeholders. */
  readonly id: string
  /** `admin`, or a service account of the namespace. */
  readonly as: string
  readonly request: KubeRequest.KubeRequest
}

/** The namespace in which sequences play; a run puts its own in the place of this word. */
export const namespace = "fidelity"

/** A namespace that does not exist. */
export const missingNamespace = "fidelity-missing"

/** A namespace of the sequence's own, which it may create and delete. */
export const otherNamespace = "fidelity-other"

/** The resource version that an earlier step answered. */
export const version = (id: string): string => `$version(${id})`

/** The uid that an earlier step answered. */
export const uid = (id: string): string => `$uid(${id})`

/** The page token that an earlier step answered. */
export const token = (id: string): string => `$continue(${id})`

/** The name that an earlier step answered. */
export const name = (id: string): string => `$name(${id})`

/** What the steps so far answered, for placeholders. */
export type Answers = ReadonlyMap<string, unknown>

const placeholder = /^\$(version|uid|continue|name)\((\w+)\)$/

const fallback: Readonly<Record<string, string>> = {
  version: "1",
  uid: "00000000-0000-4000-8000-000000000000",
  continue: "none",
  name: "missing"
}

const paths: Readonly<Record<string, string>> = {
  version: "resourceVersion",
  uid: "uid",
  continue: "continue",
  name: "name"
}

/** The namespaces of a run, in the place of `namespace` and `otherNamespace`. */
export interface Places {
  readonly namespace: string
  readonly other: string
}

const resolveText = (text: string, answers: Answers, own: Places): string => {
  const match = placeholder.exec(text)
  if (match === null) {
    return text === namespace
      ? own.namespace
      : text === missingNamespace
        ? `${own.namespace}-missing`
        : text === otherNamespace
          ? own.other
          : text
  }
  const [, what = "", id = ""] = match
  const found = Json.string(Json.at(answers.get(id), "metadata", paths[what] ?? ""))
  return found === undefined || found === "" ? (fallback[what] ?? "") : found
}

const resolveValue = (value: unknown, answers: Answers, own: Places): unknown => {
  if (typeof value === "string") return resolveText(value, answers, own)
  if (Array.isArray(value)) return value.map((entry) => resolveValue(entry, answers, own))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, resolveValue(entry, answers, own)]))
}

/** The request with its placeholders filled in; a placeholder without an answer becomes something plausible and wrong. */
export const resolve = (request: KubeRequest.KubeRequest, answers: Answers, own: Places): KubeRequest.KubeRequest => {
  const text = (value: string): string => resolveText(value, answers, own)
  return {
    ...request,
    query: Object.fromEntries(Object.entries(request.query).map(([key, value]) => [key, text(value)])),
    ...(request.namespace === undefined ? {} : { namespace: text(request.namespace) }),
    ...(request.name === undefined ? {} : { name: text(request.name) }),
    ...(request.body === undefined ? {} : { body: resolveValue(request.body, answers, own) })
  }
}

/** How an operation is named in the coverage table: verb, resource, subresource or patch format. */
export const label = ({ request }: Operation): string => {
  if (request.nonResourcePath !== undefined) return "get (path)"
  const subresource = request.subresource === undefined ? "" : `/${request.subresource}`
  const format = request.patchType === undefined ? "" : ` (${request.patchType})`
  return `${request.verb} ${request.plural}${subresource}${format}`
}

/** The sequence as TypeScript to be pasted into a test. */
export const print = (sequence: ReadonlyArray<Operation>): string =>
  `const sequence: ReadonlyArray<Operation.Operation> = [\n${sequence
    .map(
      ({ as, id, request }) =>
        `  { id: ${JSON.stringify(id)}, as: ${JSON.stringify(as)}, request: ${JSON.stringify(request)} }`
    )
    .join(",\n")}\n]`

/** One line for people. */
export const describe = (operation: Operation): string => `${operation.as}: ${KubeRequest.describe(operation.request)}`
