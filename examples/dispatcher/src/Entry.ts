/**
 * What the dispatcher writes down about a run, and what a run's entries amount to.
 *
 * @module
 */
import { Either, Schema } from "effect"
import { Action, Policy } from "./Policy.js"

const n = Schema.Number.pipe(Schema.int(), Schema.positive())
const entry = <const Tag extends string, Fields extends Schema.Struct.Fields>(tag: Tag, fields: Fields) =>
  Schema.Struct({ _tag: Schema.Literal(tag), ...fields })

/** One line of a run's journal. Each is written before what it announces is done. */
export const Entry = Schema.Union(
  entry("Accepted", {
    work: Schema.Struct({
      nodes: n,
      image: Schema.optional(Schema.String),
      command: Schema.optional(Schema.Array(Schema.String))
    }),
    policy: Policy,
    /** In the order of escalation. */
    backends: Schema.NonEmptyArray(Schema.String),
    token: Schema.String
  }),
  /** From here on the submission may exist on that backend. */
  entry("Intended", { n, backend: Schema.String }),
  /** It exists under this id. From here on it may have been started. */
  entry("Prepared", { n, id: Schema.String }),
  entry("Started", { n }),
  /** The backend will not have it; nothing was started. */
  entry("Refused", { n, reason: Schema.String, action: Schema.NullOr(Action) }),
  /** It is given up; what follows is decided by the policy, once. */
  entry("Retiring", { n, cause: Schema.String, detail: Schema.String, action: Schema.NullOr(Action) }),
  /** Nothing more will be started for it. */
  entry("Fenced", { n }),
  /** Nothing of it runs any more, and why that is believed. */
  entry("Stopped", { n, by: Schema.Literal("ceased", "ended"), cautions: Schema.Array(Schema.String) }),
  /** A person's word that nothing of it runs any more, where no backend can prove it. */
  entry("Vouched", { n, by: Schema.NonEmptyString, reason: Schema.NonEmptyString }),
  entry("Finished", { outcome: Schema.Literal("Succeeded", "Failed", "Held"), reason: Schema.String })
)
/** See the schema of the same name. */
export type Entry = typeof Entry.Type

type Of<Tag extends Entry["_tag"]> = Extract<Entry, { readonly _tag: Tag }>

/** One submission of a run. */
export interface Attempt {
  readonly n: number
  readonly backend: string
  readonly id: string | undefined
  readonly started: boolean
  readonly refused: Of<"Refused"> | undefined
  readonly retiring: Of<"Retiring"> | undefined
  readonly fenced: boolean
  readonly stopped: Of<"Stopped"> | undefined
  readonly vouched: Of<"Vouched"> | undefined
}

/** What a run's journal amounts to. */
export interface Record {
  readonly run: string
  readonly accepted: Of<"Accepted">
  /** Oldest first. */
  readonly attempts: ReadonlyArray<Attempt>
  readonly finished: Of<"Finished"> | undefined
  /** How many entries. */
  readonly length: number
}

/** The last attempt. */
export const current = (record: Record): Attempt | undefined => record.attempts.at(-1)

const impossible = (entry: Entry, why: string): Either.Either<never, string> => Either.left(`${entry._tag}: ${why}`)

/** The record with one more entry; a sentence when that entry cannot follow. */
export const apply = (run: string, record: Record | undefined, entry: Entry): Either.Either<Record, string> => {
  if (record === undefined) {
    return entry._tag === "Accepted"
      ? Either.right({ run, accepted: entry, attempts: [], finished: undefined, length: 1 })
      : impossible(entry, "the run was not accepted")
  }
  if (record.finished !== undefined) return impossible(entry, "the run has finished")
  const length = record.length + 1
  const attempt = current(record)
  const settled =
    attempt === undefined ||
    attempt.refused !== undefined ||
    attempt.stopped !== undefined ||
    attempt.vouched !== undefined
  const change = (change: Partial<Attempt>): Either.Either<Record, string> =>
    attempt === undefined
      ? impossible(entry, "there is no submission")
      : Either.right({ ...record, length, attempts: [...record.attempts.slice(0, -1), { ...attempt, ...change }] })
  if ("n" in entry && entry._tag !== "Intended" && entry.n !== attempt?.n) {
    return impossible(entry, `submission ${entry.n} is not the last one`)
  }
  switch (entry._tag) {
    case "Accepted":
      return impossible(entry, "the run was accepted before")
    case "Intended":
      if (!settled) return impossible(entry, `submission ${attempt.n} may still run`)
      if (entry.n !== record.attempts.length + 1) return impossible(entry, "a number was left out or used again")
      return Either.right({
        ...record,
        length,
        attempts: [
          ...record.attempts,
          {
            n: entry.n,
            backend: entry.backend,
            id: undefined,
            started: false,
            refused: undefined,
            retiring: undefined,
            fenced: false,
            stopped: undefined,
            vouched: undefined
          }
        ]
      })
    case "Prepared":
      return attempt?.id !== undefined && attempt.id !== entry.id
        ? impossible(entry, "it has another id")
        : change({ id: entry.id })
    case "Started":
      return attempt?.id === undefined ? impossible(entry, "it was not prepared") : change({ started: true })
    case "Refused":
      return attempt?.id !== undefined ? impossible(entry, "it was prepared") : change({ refused: entry })
    case "Retiring":
      return attempt?.retiring !== undefined ? impossible(entry, "it was given up before") : change({ retiring: entry })
    case "Fenced":
      return attempt?.retiring === undefined ? impossible(entry, "it was not given up") : change({ fenced: true })
    case "Stopped":
      return attempt?.fenced !== true ? impossible(entry, "it is not fenced") : change({ stopped: entry })
    case "Vouched":
      // Of what can still be started nobody knows that it stays stopped
      if (attempt?.fenced !== true) return impossible(entry, "it is not fenced")
      return settled ? impossible(entry, "it is known to have stopped") : change({ vouched: entry })
    case "Finished":
      return Either.right({ ...record, length, finished: entry })
  }
}
