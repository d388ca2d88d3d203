/**
 * Compiles a schema to a plain test. The descriptors' schemas have no transformations, so a value that passes *is* its own
 * decoded form: a watch or a list then costs a walk over the fields that are read, not a decoder's copy of the object.
 *
 * @module
 */
import { SchemaAST } from "effect"

/** `true` means that the schema accepts the value as it is. `false` means nothing: ask the schema itself. */
export type Guard = (value: unknown) => boolean

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const all = <A, B>(items: ReadonlyArray<A>, f: (item: A) => B | undefined): ReadonlyArray<B> | undefined => {
  const result: Array<B> = []
  for (const item of items) {
    const mapped = f(item)
    if (mapped === undefined) return undefined
    result.push(mapped)
  }
  return result
}

const isNull = (ast: SchemaAST.AST): boolean => ast._tag === "Literal" && ast.literal === null
const isUndefined = (ast: SchemaAST.AST): boolean => ast._tag === "UndefinedKeyword"

const membersOf = (ast: SchemaAST.AST): ReadonlyArray<SchemaAST.AST> =>
  ast._tag === "Union" ? ast.types.flatMap(membersOf) : [ast]

/** A test that takes null and undefined out first: nearly every field here may be either, and most are absent. */
interface Field {
  readonly name: string
  readonly undefinedPasses: boolean
  readonly nullPasses: boolean
  readonly guard: Guard
}

const fieldOf = (property: SchemaAST.PropertySignature): Field | undefined => {
  const { name, type, isOptional } = property
  const members = membersOf(type)
  const rest = members.filter((member) => !isNull(member) && !isUndefined(member))
  const guard = rest.length === 0 ? () => false : fromAst(SchemaAST.Union.make(rest))
  if (guard === undefined || typeof name !== "string") return undefined
  const unknown = rest.some((member) => member._tag === "UnknownKeyword" || member._tag === "AnyKeyword")
  return {
    name,
    undefinedPasses: isOptional || unknown || members.some(isUndefined),
    nullPasses: unknown || members.some(isNull),
    guard
  }
}

const literal = (ast: SchemaAST.TypeLiteral): Guard | undefined => {
  const fields = all(ast.propertySignatures, fieldOf)
  const records = all(ast.indexSignatures, ({ parameter, type }) =>
    parameter._tag === "StringKeyword" ? fromAst(type) : undefined
  )
  if (fields === undefined || records === undefined) return undefined
  return (value) => {
    if (!isRecord(value)) return false
    for (const { name, undefinedPasses, nullPasses, guard } of fields) {
      const field = value[name]
      if (field === undefined) {
        if (!undefinedPasses) return false
      } else if (field === null) {
        if (!nullPasses) return false
      } else if (!guard(field)) return false
    }
    for (const guard of records) for (const key in value) if (!guard(value[key])) return false
    return true
  }
}

/** The test for a schema's AST; `undefined` for a schema that has more in it than plain structure. */
export const fromAst = (ast: SchemaAST.AST): Guard | undefined => {
  switch (ast._tag) {
    case "StringKeyword":
      return (value) => typeof value === "string"
    case "NumberKeyword":
      return (value) => typeof value === "number"
    case "BooleanKeyword":
      return (value) => typeof value === "boolean"
    case "UnknownKeyword":
    case "AnyKeyword":
      return () => true
    case "UndefinedKeyword":
      return (value) => value === undefined
    case "Literal":
      return (value) => value === ast.literal
    case "Union": {
      const members = all(membersOf(ast), fromAst)
      if (members === undefined) return undefined
      return (value) => members.some((member) => member(value))
    }
    case "TypeLiteral":
      return literal(ast)
    case "TupleType": {
      const [rest, ...more] = ast.rest
      if (ast.elements.length > 0 || rest === undefined || more.length > 0) return undefined
      const item = fromAst(rest.type)
      return item === undefined ? undefined : (value) => Array.isArray(value) && value.every(item)
    }
    default:
      return undefined
  }
}
