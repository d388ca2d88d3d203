/**
 * Descriptors of resource types: where a kind is served, whether it lives in a namespace, and the narrow schema of what
 * the adapter reads. This module names no kind; `model/` does.
 *
 * @module
 */
import { Either, ParseResult, Schema } from "effect"
import * as Guard from "./Guard.js"

/** Where objects of a kind live. */
export type Scope = "Namespaced" | "Cluster"

/** What every decoded object has. */
export interface KubeObject {
  readonly apiVersion?: string | undefined
  readonly kind?: string | undefined
  readonly metadata: {
    readonly name: string
    readonly namespace?: string | null | undefined
    readonly uid: string
    readonly resourceVersion?: string | null | undefined
    readonly labels?: { readonly [key: string]: string } | null | undefined
  }
}

/**
 * A resource type. `A` is the decoded object, `S` its scope.
 *
 * Schemas have no transformations: the decoded value *is* the JSON the server sent, unknown fields included, so a
 * read-modify-write loses nothing.
 */
export interface Resource<A extends KubeObject = KubeObject, S extends Scope = Scope> {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly scope: S
  readonly schema: Schema.Schema<A>
  /** Decodes one object; built once. Unknown fields are kept. */
  readonly decode: (value: unknown) => Either.Either<A, ParseResult.ParseError>
}

/** Any descriptor. */
export type Any = Resource

/** The object type of a descriptor. */
export type ObjectOf<R> = R extends Resource<infer A> ? A : never

/** Makes a descriptor. */
export const make = <A extends KubeObject, const S extends Scope>(options: {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly scope: S
  readonly schema: Schema.Schema<A>
}): Resource<A, S> => {
  const decode = Schema.decodeUnknownEither(options.schema, { onExcessProperty: "preserve" })
  const guard = Guard.fromAst(options.schema.ast)
  return {
    ...options,
    // A decoder copies the object, at many times the cost of looking at it; it is asked only for what is wrong
    decode: guard === undefined ? decode : (value) => (guard(value) ? Either.right(value as A) : decode(value))
  }
}

const issuesShown = 3

/**
 * What does not decode, the first places of it: `status.phase: Expected string`. The values that were found instead are not
 * shown, they may be secrets.
 */
export const describeIssues = (error: ParseResult.ParseError): string => {
  const issues = ParseResult.ArrayFormatter.formatErrorSync(error).map(({ message, path }) => {
    const what = message.replace(/, actual [\s\S]*$/, "")
    return path.length === 0 ? what : `${path.map(String).join(".")}: ${what}`
  })
  const more = issues.length - issuesShown
  return `${issues.slice(0, issuesShown).join("; ")}${more > 0 ? `; and ${more} more` : ""}`
}

/** `v1` or `group/version`, as in an object's `apiVersion`. */
export const apiVersion = (resource: { readonly group: string; readonly version: string }): string =>
  resource.group === "" ? resource.version : `${resource.group}/${resource.version}`

/** The same type served in another version of its API group. */
export const withVersion = <A extends KubeObject, S extends Scope>(
  resource: Resource<A, S>,
  version: string
): Resource<A, S> => ({ ...resource, version })
