/**
 * Media types of the Kubernetes API: which representation a request asks for, and how its body is read.
 *
 * @module
 */
import type { Status } from "@dispatch-kubeflow/core/kube/KubeError"
import type { PatchType } from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either } from "effect"
import * as Yaml from "yaml"
import * as Protobuf from "../Protobuf.js"
import type { IncludeObject } from "../Table.js"
import * as Answer from "./Answer.js"
import * as Fields from "../internal/store/Fields.js"

/** How objects are written back. */
export interface Representation {
  readonly syntax: "json" | "yaml"
  readonly as: "object" | "table" | "partial"
  readonly includeObject: IncludeObject
  readonly pretty: boolean
}

interface Clause {
  readonly type: string
  readonly parameters: Readonly<Record<string, string>>
}

/** The clauses of an `Accept` header in the order in which the client prefers them: as written, as client-go does. */
const clauses = (accept: string | undefined): ReadonlyArray<Clause> => {
  const written = (accept ?? "").split(",").flatMap((clause): ReadonlyArray<Clause> => {
    const [type = "", ...parameters] = clause.split(";").map((part) => part.trim())
    if (type === "") return []
    return [
      {
        type: type.toLowerCase(),
        parameters: Object.fromEntries(
          parameters.flatMap((parameter) => {
            const [name = "", value] = parameter.split("=")
            return value === undefined ? [] : [[name.trim(), value.trim()]]
          })
        )
      }
    ]
  })
  return written.length === 0 ? [{ type: "*/*", parameters: {} }] : written
}

const isJson = (type: string): boolean => type === "application/json" || type === "application/*" || type === "*/*"

/** What of the collection or object is asked for: a list is not a single object, and the two have different partial forms. */
export type Shape = "object" | "list" | "watch"

const representationOf = (clause: Clause, shape: Shape): Pick<Representation, "syntax" | "as"> | undefined => {
  const syntax = isJson(clause.type)
    ? "json"
    : clause.type === "application/yaml" && shape !== "watch"
      ? "yaml"
      : undefined
  if (syntax === undefined) return undefined
  const { as, g, v } = clause.parameters
  if (as === undefined) return { syntax, as: "object" }
  if (g !== "meta.k8s.io" || (v !== "v1" && v !== "v1beta1")) return undefined
  if (as === "Table") return { syntax, as: "table" }
  const partial = shape === "list" ? "PartialObjectMetadataList" : "PartialObjectMetadata"
  return as === partial ? { syntax, as: "partial" } : undefined
}

const acceptable = (shape: Shape): string =>
  shape === "watch"
    ? "only the following media types are accepted: application/json;stream=watch"
    : "only the following media types are accepted: application/json, application/yaml"

/** The representation for a request. Left: the 406 of a request whose `Accept` matches nothing. */
export const representation = (
  accept: string | undefined,
  query: URLSearchParams,
  shape: Shape
): Either.Either<Representation, Status> => {
  for (const clause of clauses(accept)) {
    const found = representationOf(clause, shape)
    if (found === undefined) continue
    const include = query.get("includeObject")
    const pretty = query.get("pretty")
    return Either.right({
      ...found,
      includeObject: include === "None" || include === "Object" ? include : "Metadata",
      pretty: pretty !== null && pretty !== "false" && pretty !== "0"
    })
  }
  return Either.left(Answer.status(406, acceptable(shape)))
}

/** Whether a discovery request asks for the aggregated form (`v2`; nothing else of it is served). */
export const discoveryForm = (accept: string | undefined): "aggregated" | "plain" | "neither" => {
  for (const { type, parameters } of clauses(accept)) {
    if (!isJson(type)) continue
    if (parameters["as"] === undefined) return "plain"
    if (
      parameters["g"] === "apidiscovery.k8s.io" &&
      parameters["v"] === "v2" &&
      parameters["as"] === "APIGroupDiscoveryList"
    ) {
      return "aggregated"
    }
  }
  return "neither"
}

/** Prints a body in a representation's syntax. */
export const print = (body: unknown, { pretty, syntax }: Pick<Representation, "syntax" | "pretty">): string =>
  syntax === "yaml" ? Yaml.stringify(body) : `${JSON.stringify(body, null, pretty ? 2 : undefined)}\n`

/** The media type of a syntax. */
export const contentTypeOf = (syntax: Representation["syntax"]): string => `application/${syntax}`

const patchTypes: Readonly<Record<string, PatchType>> = {
  "application/merge-patch+json": "merge",
  "application/json-patch+json": "json",
  "application/strategic-merge-patch+json": "strategic",
  "application/apply-patch+yaml": "apply"
}

/** The patch format of a `Content-Type`. */
export const patchType = (contentType: string | undefined): PatchType | undefined =>
  patchTypes[(contentType ?? "").split(";")[0]?.trim().toLowerCase() ?? ""]

const oneLine = (cause: unknown): string =>
  cause instanceof Error ? (cause.message.split("\n")[0] ?? "").replace(/:$/, "") : "unreadable"

const parsed = (read: () => unknown): Either.Either<unknown, string> => Either.try({ try: read, catch: oneLine })

// YAML 1.1, as the API server reads it (`y` is true), but a time stays the text it is, and `1:30` no number
const readYaml = (text: string): unknown =>
  Yaml.parse(text, {
    version: "1.1",
    customTags: (tags) =>
      tags.filter((tag) => typeof tag === "string" || (!tag.tag.endsWith(":timestamp") && tag.format !== "TIME"))
  })
const readJson = (text: string): unknown => JSON.parse(text)

const shownBytes = 30

/** The start of a body as the API server shows it: what looks like an object as text, all else in hexadecimal. */
const shownStart = (bytes: Uint8Array): string => {
  if (bytes.length === 0) return "<empty>"
  const start = Buffer.from(bytes.subarray(0, shownBytes))
  const shown = start[0] === "{".charCodeAt(0) ? start.toString("utf8") : start.toString("hex")
  return bytes.length > shownBytes ? `${shown} ...` : shown
}

const unsupported = (accepted: ReadonlyArray<string>): Status =>
  Answer.status(
    415,
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`
  )
const unsupportedBody = unsupported(["application/json", "application/yaml", Protobuf.mediaType])
const unsupportedCustomPatch = unsupported([
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/apply-patch+yaml"
])

/** What is known of a body that is read. */
export interface BodyInput {
  readonly method: string
  readonly contentType: string | undefined
  readonly bytes: Uint8Array
  /** What the endpoint expects, for messages. */
  readonly kind: string
  /** Whether it is a custom resource's. */
  readonly custom: boolean
}

const readPatch = (mime: string, text: string, custom: boolean): Either.Either<unknown, Status> => {
  switch (patchTypes[mime]) {
    case undefined:
      return Either.left(custom ? unsupportedCustomPatch : Answer.status(415, "415: Unsupported Media Type", {}))
    case "apply":
      return Either.mapLeft(
        parsed(() => readYaml(text)),
        (problem) => Answer.status(400, `error encoding patch: yaml: ${problem}`)
      )
    default:
      return Either.mapLeft(
        parsed(() => readJson(text)),
        () => Answer.status(400, "invalid JSON patch")
      )
  }
}

/** Whether a body in JSON names a member twice: the server says so, and of the parsed body it could not be told. */
export const repeats = ({ bytes, contentType = "", method }: BodyInput): boolean => {
  const mime = contentType.split(";")[0]?.trim().toLowerCase() ?? ""
  const isJson =
    method === "PATCH" ? patchTypes[mime] === "merge" : method !== "DELETE" && ["", "application/json"].includes(mime)
  return isJson && Fields.duplicates(new TextDecoder().decode(bytes)).length > 0
}

/**
 * Reads the body of a POST, PUT, PATCH or DELETE. Left: the 400 of a body that cannot be read, or the 415 of a format that
 * is not spoken. An empty body of a DELETE is none.
 */
export const readBody = (input: BodyInput): Either.Either<unknown, Status> => {
  const { bytes, kind, method } = input
  const mime = (input.contentType ?? "").split(";")[0]?.trim().toLowerCase() ?? ""
  if (method === "DELETE" && bytes.length === 0) return Either.right(undefined)
  const unrecognized = (problem: string): Status =>
    Answer.status(400, `the object provided is unrecognized (must be of type ${kind}): ${problem}`)
  if (mime === Protobuf.mediaType && method !== "PATCH") {
    return Either.mapLeft(Protobuf.decode(bytes), (problem) =>
      problem.startsWith("no protobuf reader")
        ? Answer.status(415, `${unsupportedBody.message ?? ""} (${problem}: send JSON)`)
        : unrecognized(problem)
    )
  }
  const decoded = parsed(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes))
  if (Either.isLeft(decoded)) return Either.left(unrecognized(decoded.left))
  const text = String(decoded.right)
  if (method === "PATCH") return readPatch(mime, text, input.custom)
  switch (mime) {
    case "application/yaml":
      return Either.mapLeft(
        parsed(() => readYaml(text)),
        (problem) => unrecognized(`yaml: ${problem} (${shownStart(bytes)})`)
      )
    case "":
    case "application/json": {
      const read = Either.mapLeft(
        parsed(() => readJson(text)),
        (problem) => {
          const what = text.trim() === "" ? "unexpected end of JSON input" : problem
          const why = `couldn't get version/kind; json parse error: ${what}`
          return method === "DELETE" ? Answer.status(400, why) : unrecognized(`${why} (${shownStart(bytes)})`)
        }
      )
      if (Either.isLeft(read) || read.right !== null) return read
      // Into a Go struct `null` reads like an object without fields; a custom resource is not read into one
      return input.custom
        ? Either.left(unrecognized(`Object 'Kind' is missing in '${text}' (${shownStart(bytes)})`))
        : Either.right({})
    }
    default:
      return Either.left(unsupportedBody)
  }
}
