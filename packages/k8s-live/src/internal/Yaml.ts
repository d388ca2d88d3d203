/**
 * YAML, or JSON, which is YAML, of files that may hold secrets: what is wrong with them is told by its place alone.
 *
 * @module
 */
import { Either } from "effect"
import { LineCounter, parseAllDocuments } from "yaml"

/** The documents of a text; else what is wrong with it, e.g. `not valid YAML at line 3, column 7 (BAD_INDENT)`. */
export const documents = (text: string): Either.Either<ReadonlyArray<unknown>, string> => {
  // prettyErrors would print the offending line, which can hold a token
  const lineCounter = new LineCounter()
  const found = parseAllDocuments(text.replace(/^\uFEFF/, ""), { prettyErrors: false, lineCounter })
  const values: Array<unknown> = []
  for (const document of found) {
    const [error] = document.errors
    if (error !== undefined) {
      const { line, col } = lineCounter.linePos(error.pos[0])
      return Either.left(`not valid YAML at line ${line}, column ${col} (${error.code})`)
    }
    try {
      values.push(document.toJS())
    } catch {
      return Either.left("its YAML aliases cannot be resolved")
    }
  }
  return Either.right(values)
}
