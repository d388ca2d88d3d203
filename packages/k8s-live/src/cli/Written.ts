/**
 * Writing to the standard streams, told how it went: an answer that did not reach its reader is no answer.
 *
 * Imports nothing but Node, so that a help is shown quickly.
 *
 * @module
 */
import { fstatSync, writeSync } from "node:fs"

/** `ReaderGone`: whoever read has had enough (`| head`). `OutputLost`: there is no room, or the stream is broken. */
export interface Problem {
  readonly _tag: "ReaderGone" | "OutputLost"
  readonly message: string
}

const problemOf = (error: unknown): Problem => {
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown"
  if (code === "EPIPE") return { _tag: "ReaderGone", message: "the reader of standard output has gone" }
  const why = error instanceof Error ? error.message : String(error)
  return {
    _tag: "OutputLost",
    message: `standard output cannot be written (${why}); what is there of the answer is not all of it`
  }
}

const isFile = (fd: number): boolean => {
  try {
    return fstatSync(fd).isFile()
  } catch {
    return false
  }
}

/** Node takes a write that a nearly full disk has taken a part of for a whole one. */
const writeFile = (fd: number, data: string | Uint8Array): void => {
  const bytes = typeof data === "string" ? Buffer.from(data, "utf8") : data
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
}

/** Writes, and calls back when the reader has taken it or cannot. */
export const write = (
  stream: NodeJS.WriteStream & { readonly fd: number },
  data: string | Uint8Array,
  done: (problem: Problem | undefined) => void
): void => {
  try {
    if (isFile(stream.fd)) {
      writeFile(stream.fd, data)
      done(undefined)
    } else stream.write(data, (error) => done(error === null || error === undefined ? undefined : problemOf(error)))
  } catch (error) {
    done(problemOf(error))
  }
}
