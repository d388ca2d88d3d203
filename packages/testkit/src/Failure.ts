/**
 * What the API server answers when it refuses: codes, `Status` bodies and their words, as they were recorded from a real
 * one.
 *
 * @module
 */
import type { Status } from "@dispatch-kubeflow/core/kube/KubeError"
import type { FieldError, ResourceDefinition } from "./Registry.js"
import { qualified } from "./Registry.js"

/** A refusal. */
export interface Failure {
  /** HTTP status code. */
  readonly code: number
  /** The `Status` body; absent where the server answers plain text. */
  readonly status?: Status
  /** The body of a plain text answer: `404 page not found`, or the in-flight limit's 429. */
  readonly text?: string
  /** The `Retry-After` header, in seconds. */
  readonly retryAfter?: number
  /** `Warning` headers that come with the refusal. */
  readonly warnings?: ReadonlyArray<string>
  /** The server answers only after this many milliseconds (a resource version of the future). */
  readonly delay?: number
}

/** Details of a `Status`. */
export type Details = NonNullable<Status["details"]>

/** Any refusal with a `Status` body. Without a reason it is one of the 500s made from a plain error. */
export const make = (
  code: number,
  reason: string | undefined,
  message: string,
  details?: Details,
  rest: Omit<Failure, "code" | "status"> = {}
): Failure => ({
  code,
  status: {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    code
  },
  ...rest
})

/** How details name a type: plural and, outside the core group, group. */
export const named = (
  type: { readonly group: string; readonly plural: string },
  name: string | undefined
): Details => ({
  ...(name === undefined || name === "" ? {} : { name }),
  ...(type.group === "" ? {} : { group: type.group }),
  kind: type.plural
})

/** How details name a kind, where validation speaks. */
export const ofKind = (type: { readonly group: string; readonly kind: string }, name: string | undefined): Details => ({
  ...(name === undefined || name === "" ? {} : { name }),
  ...(type.group === "" ? {} : { group: type.group }),
  ...(type.kind === "" ? {} : { kind: type.kind })
})

const kindName = (type: { readonly group: string; readonly kind: string }): string =>
  type.group === "" ? type.kind : `${type.kind}.${type.group}`

/** 400. */
export const badRequest = (message: string): Failure => make(400, "BadRequest", message)

/** 404 of an object. */
export const notFound = (type: { readonly group: string; readonly plural: string }, name: string): Failure =>
  make(404, "NotFound", `${qualified(type)} "${name}" not found`, named(type, name))

/** 404 of a type in a group that the server knows. */
export const noResource: Failure = make(404, "NotFound", "the server could not find the requested resource", {})

/** 404 of a group, a version or a path: plain text. */
export const noPath: Failure = { code: 404, text: "404 page not found\n" }

/** 405. */
export const methodNotAllowed: Failure = make(
  405,
  "MethodNotAllowed",
  "the server does not allow this method on the requested resource",
  {}
)

/** 405 of a custom resource. */
export const notSupported = (definition: ResourceDefinition, verb: string): Failure =>
  make(
    405,
    "MethodNotAllowed",
    `${verb} is not supported on resources of kind "${qualified(definition)}"`,
    named(definition, undefined)
  )

/** 415 with the patch formats that custom resources take. */
export const unsupportedPatch: Failure = make(
  415,
  "UnsupportedMediaType",
  "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)

/** 415 of a built-in type whose patch has no patch content type. */
export const unsupportedMediaType: Failure = make(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})

/** 409: the name is taken. */
export const alreadyExists = (definition: ResourceDefinition, name: string, beingDeleted: boolean): Failure =>
  make(
    409,
    "AlreadyExists",
    `${beingDeleted ? "object is being deleted: " : ""}${qualified(definition)} "${name}" already exists`,
    named(definition, name)
  )

/** 409: changed meanwhile. */
export const modified = (definition: ResourceDefinition, name: string): Failure =>
  conflict(
    definition,
    name,
    "the object has been modified; please apply your changes to the latest version and try again"
  )

/** 409 with another text, naming the resource. */
export const conflict = (
  type: { readonly group: string; readonly plural: string },
  name: string,
  why: string
): Failure =>
  make(409, "Conflict", `Operation cannot be fulfilled on ${qualified(type)} "${name}": ${why}`, named(type, name))

/** 409 of a delete precondition, naming the kind. */
export const preconditionFailed = (definition: ResourceDefinition, name: string, why: string): Failure =>
  make(
    409,
    "Conflict",
    `Operation cannot be fulfilled on ${kindName(definition)} "${name}": ${why}`,
    ofKind(definition, name)
  )

/** 422 with field errors. `subject` is usually a definition: its group and kind are named. */
export const invalid = (
  subject: { readonly group: string; readonly kind: string },
  name: string,
  errors: ReadonlyArray<FieldError>
): Failure => {
  // Told once each, though the causes repeat
  const texts = [...new Set(errors.map(({ field, message }) => `${field}: ${message}`))]
  return make(
    422,
    "Invalid",
    `${kindName(subject)} "${name}" is invalid: ${texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`}`,
    {
      ...ofKind(subject, name),
      causes: errors.map(({ field, message, reason }) => ({ reason, message, field }))
    }
  )
}

/** 422 of an option: `ListOptions`, `DeleteOptions`, `CreateOptions` … */
export const invalidOption = (kind: string, field: string, reason: FieldError["reason"], message: string): Failure =>
  invalid({ group: "meta.k8s.io", kind }, "", [{ field, reason, message }])

/** 422 of a JSON patch that does not apply: which operation failed is not said. */
export const rejected: Failure = make(
  422,
  "Invalid",
  "the server rejected our request due to an error in our request",
  {}
)

/** 403 of admission. */
export const forbidden = (
  definition: ResourceDefinition,
  name: string | undefined,
  why: string,
  causes?: Details["causes"]
): Failure =>
  make(
    403,
    "Forbidden",
    `${qualified(definition)}${name === undefined || name === "" ? "" : ` "${name}"`} is forbidden: ${why}`,
    {
      ...named(definition, name),
      ...(causes === undefined ? {} : { causes })
    }
  )

/** 410: the version is not there any more. */
export const expired = (message: string, continueToken?: string): Failure => {
  const failure = make(410, "Expired", message)
  return continueToken === undefined || failure.status === undefined
    ? failure
    : { ...failure, status: { ...failure.status, metadata: { continue: continueToken } } }
}

/**
 * 504: a version of the future. The watch cache waits 3 s for it; the storage, which answers for pages of one name, does not,
 * and does not say when to ask again.
 */
export const tooLarge = (wanted: number, current: number, by: "cache" | "storage" = "cache"): Failure =>
  make(
    504,
    "Timeout",
    `Timeout: Too large resource version: ${wanted}, current: ${current}`,
    {
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
      ...(by === "cache" ? { retryAfterSeconds: 1 } : {})
    },
    by === "cache" ? { retryAfter: 1, delay: 3000 } : {}
  )

/** 500 made from a plain error: no reason, no details. */
export const plain = (message: string): Failure => make(500, undefined, message)
