/**
 * The dispatcher's memory: per run a list of entries that only grows, in a `KeyValueStore`. An entry is written under the
 * next free number, so a second writer is noticed, and nothing that was written is ever written again.
 *
 * @module
 */
import { KeyValueStore } from "@effect/platform"
import { Context, Data, Effect, Either, Layer, Option, Schema } from "effect"
import * as Entry from "./Entry.js"

/** The journal cannot be used. Nothing was overwritten. */
export class JournalError extends Data.TaggedError("JournalError")<{
  /** `conflict`: somebody else wrote meanwhile. `damaged`: what is there makes no sense. */
  readonly kind: "unavailable" | "damaged" | "conflict"
  readonly run: string
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `the journal of run "${this.run}" (${this.kind}): ${this.detail}`
  }
}

/** The entries of runs. */
export interface Service {
  /** The runs that were ever accepted. */
  readonly runs: Effect.Effect<ReadonlyArray<string>, JournalError>
  /** What a run's entries amount to. */
  readonly read: (run: string) => Effect.Effect<Option.Option<Entry.Record>, JournalError>
  /** Appends to what was read; fails with `conflict` when that is not the last state any more. Durable when it returns. */
  readonly append: (
    run: string,
    before: Entry.Record | undefined,
    entry: Entry.Entry
  ) => Effect.Effect<Entry.Record, JournalError>
}

/** The service tag. */
export class Journal extends Context.Tag("@dispatch-kubeflow/example-dispatcher/Journal")<Journal, Service>() {}

const Line = Schema.parseJson(Schema.Struct({ version: Schema.Literal(1), entry: Entry.Entry }))
const decodeLine = Schema.decodeUnknownEither(Line)
const encodeLine = Schema.encodeSync(Line)
const Index = Schema.parseJson(Schema.Struct({ version: Schema.Literal(1), runs: Schema.Array(Schema.String) }))
const decodeIndex = Schema.decodeUnknownEither(Index)
const encodeIndex = Schema.encodeSync(Index)

const indexKey = "runs"
const lineKey = (run: string, number: number): string => `run/${run}/${number}`

/** A journal over the `KeyValueStore` of the context. One dispatcher at a time. */
export const make: Effect.Effect<Service, never, KeyValueStore.KeyValueStore> = Effect.gen(function* () {
  const store = KeyValueStore.prefix(yield* KeyValueStore.KeyValueStore, "journal/")
  const lock = yield* Effect.makeSemaphore(1)

  const unavailable = (run: string) => (cause: { readonly message: string }) =>
    new JournalError({ kind: "unavailable", run, detail: cause.message, cause })
  const damaged = (run: string, detail: string) => new JournalError({ kind: "damaged", run, detail })
  const get = (run: string, key: string) => Effect.mapError(store.get(key), unavailable(run))
  const set = (run: string, key: string, text: string) => Effect.mapError(store.set(key, text), unavailable(run))

  const runs = Effect.flatMap(get("*", indexKey), (text) =>
    Option.match(text, {
      onNone: () => Effect.succeed<ReadonlyArray<string>>([]),
      onSome: (json) =>
        Either.match(decodeIndex(json), {
          onLeft: (error) => Effect.fail(damaged("*", error.message)),
          onRight: (index) => Effect.succeed(index.runs)
        })
    })
  )

  const read = (run: string): Effect.Effect<Option.Option<Entry.Record>, JournalError> =>
    Effect.gen(function* () {
      let record: Entry.Record | undefined
      for (let number = 0; ; number += 1) {
        const text = yield* get(run, lineKey(run, number))
        if (Option.isNone(text)) return Option.fromNullable(record)
        const line = decodeLine(text.value)
        if (Either.isLeft(line)) return yield* damaged(run, `entry ${number} cannot be read: ${line.left.message}`)
        const applied = Entry.apply(run, record, line.right.entry)
        if (Either.isLeft(applied)) return yield* damaged(run, `entry ${number} cannot follow: ${applied.left}`)
        record = applied.right
      }
    })

  return {
    runs,
    read,
    append: (run, before, entry) =>
      lock.withPermits(1)(
        Effect.gen(function* () {
          const after = Entry.apply(run, before, entry)
          if (Either.isLeft(after)) return yield* damaged(run, after.left)
          const key = lineKey(run, before?.length ?? 0)
          if (Option.isSome(yield* get(run, key))) {
            return yield* new JournalError({ kind: "conflict", run, detail: `entry ${before?.length ?? 0} exists` })
          }
          if (before === undefined) {
            const known = yield* runs
            // The name first: a run without entries is nothing, entries without a name would be forgotten
            if (!known.includes(run)) {
              yield* set(run, indexKey, encodeIndex({ version: 1, runs: [...known, run] }))
            }
          }
          yield* set(run, key, encodeLine({ version: 1, entry }))
          return after.right
        })
      )
  }
})

/** See `make`. */
export const layer: Layer.Layer<Journal, never, KeyValueStore.KeyValueStore> = Layer.effect(Journal, make)
