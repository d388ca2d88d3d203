/**
 * Where evidence is kept: in memory, or in a `KeyValueStore` so that it survives a restart. Evidence is what tells a lost
 * Node from a failing program after the pods are gone, so nothing here is ever overwritten because it could not be read.
 *
 * @module
 */
import { KeyValueStore } from "@effect/platform"
import { Clock, Context, Data, Duration, Effect, Either, Layer, Option, type ParseResult, Schema } from "effect"
import * as Evidence from "./decide/Evidence.js"
import * as Resource from "./kube/Resource.js"

/** The name that evidence is about. */
export interface Key {
  readonly namespace: string
  readonly name: string
}

/**
 * The store cannot be used: it failed (`unavailable`), what it holds cannot be read (`damaged`), or was written by another
 * version of this library (`version`). Nothing was overwritten.
 */
export class EvidenceStoreError extends Data.TaggedError("EvidenceStoreError")<{
  readonly kind: "unavailable" | "damaged" | "version"
  readonly key: string
  readonly detail: string
  readonly cause?: unknown
}> {
  override get message(): string {
    switch (this.kind) {
      case "unavailable":
        return `the evidence store failed at "${this.key}": ${this.detail}`
      case "damaged":
        return `the evidence under "${this.key}" cannot be read: ${this.detail}. It was left as it is; move it away to go on without it.`
      case "version":
        return `the evidence under "${this.key}" was written by another version: ${this.detail}. It was left as it is; use that version, or move it away.`
    }
  }
}

/** Whether the failure is one record's, so that every other name can still be used. */
export const isOfOneName = ({ kind }: EvidenceStoreError): boolean => kind !== "unavailable"

/** Evidence by namespace and name. */
export interface Service {
  /** What is kept about a name. */
  readonly get: (key: Key) => Effect.Effect<Option.Option<Evidence.Evidence>, EvidenceStoreError>
  /** Changes what is kept about a name (empty evidence where there was none) and answers the result. Atomic per store. */
  readonly update: (
    key: Key,
    change: (evidence: Evidence.Evidence) => Evidence.Evidence
  ) => Effect.Effect<Evidence.Evidence, EvidenceStoreError>
  /** The names about which something is kept. */
  readonly keys: Effect.Effect<ReadonlyArray<Key>, EvidenceStoreError>
  /**
   * Notes that somebody still asks about a name: the retention of what is gone counts from then. Cheap enough for every
   * question: the note is written once an hour at most, and of a name of which something exists, or nothing is kept, none is
   * needed.
   */
  readonly touch: (key: Key) => Effect.Effect<void, EvidenceStoreError>
  /**
   * Drops what is due: everything of names that have been gone, and not asked about, for longer than the retention time.
   * Answers the names. What cannot be read stays, and keeps nothing else.
   */
  readonly sweep: Effect.Effect<ReadonlyArray<Key>, EvidenceStoreError>
}

/** The service tag. */
export class EvidenceStore extends Context.Tag("@dispatch-kubeflow/core/EvidenceStore")<EvidenceStore, Service>() {}

/** How much is kept, and how long. */
export interface Options {
  /** How long evidence outlives the last object of its name, and the last question about it (`touch`). Default 7 days. */
  readonly retention?: Duration.DurationInput | undefined
  readonly limits?: Evidence.Limits | undefined
}

const defaultRetention = "7 days"

const isDue = (evidence: Evidence.Evidence, asked: number | undefined, now: number, retention: number): boolean => {
  const since = Evidence.goneSince(evidence)
  return since !== undefined && now - Math.max(since, asked ?? 0) >= retention
}

// A dispatcher asks every few seconds, for days
const noteEvery = 3_600_000

const keyText = ({ namespace, name }: Key): string => `${namespace}/${name}`
// Kubernetes names hold no slash
const parseKey = (text: string): Key => {
  const slash = text.indexOf("/")
  return { namespace: text.slice(0, slash), name: text.slice(slash + 1) }
}

/** Reads and writes single records; `make` adds the cache, the order of writes and the retention. */
interface Backend {
  readonly load: (key: string) => Effect.Effect<Option.Option<Evidence.Evidence>, EvidenceStoreError>
  readonly save: (
    key: string,
    before: Evidence.Evidence | undefined,
    after: Evidence.Evidence
  ) => Effect.Effect<void, EvidenceStoreError>
  /** When the name was asked about, as it was noted last, epoch milliseconds. */
  readonly loadAsked: (key: string) => Effect.Effect<Option.Option<number>, EvidenceStoreError>
  readonly saveAsked: (key: string, at: number) => Effect.Effect<void, EvidenceStoreError>
  readonly remove: (key: string, evidence: Evidence.Evidence) => Effect.Effect<void, EvidenceStoreError>
  readonly keys: Effect.Effect<ReadonlyArray<string>, EvidenceStoreError>
}

const fromBackend = (backend: Backend, options: Options): Effect.Effect<Service> =>
  Effect.gen(function* () {
    const retention = Duration.toMillis(options.retention ?? defaultRetention)
    const limits = options.limits ?? Evidence.defaultLimits
    // One writer at a time: a change reads, decides and writes
    const lock = yield* Effect.makeSemaphore(1)
    const cache = new Map<string, Evidence.Evidence>()
    // When a name was asked about, and which of those times is noted
    const asked = new Map<string, { readonly at: number; readonly noted: number }>()

    const load = (key: string): Effect.Effect<Option.Option<Evidence.Evidence>, EvidenceStoreError> =>
      Effect.suspend(() => {
        const cached = cache.get(key)
        if (cached !== undefined) return Effect.succeedSome(cached)
        return Effect.tap(backend.load(key), (found) =>
          Effect.sync(() => {
            if (Option.isSome(found)) cache.set(key, found.value)
          })
        )
      })

    const loadAsked = (key: string, now: number) =>
      Effect.suspend(() => {
        const known = asked.get(key)
        if (known !== undefined) return Effect.succeed(known)
        return backend.loadAsked(key).pipe(
          Effect.map(
            Option.match({
              onNone: () => ({ at: 0, noted: 0 }),
              // It may have been asked about until the next note was due
              onSome: (noted) => ({ at: noted + noteEvery, noted })
            })
          ),
          // A note is no evidence, so that the next one may replace it; until then it may have said just now
          Effect.catchIf(isOfOneName, () => Effect.succeed({ at: now, noted: 0 })),
          Effect.tap((found) => Effect.sync(() => asked.set(key, found)))
        )
      })

    const touch = (key: string): Effect.Effect<void, EvidenceStoreError> =>
      Effect.gen(function* () {
        const found = yield* load(key)
        if (Option.isNone(found) || Evidence.goneSince(found.value) === undefined) return
        const now = yield* Clock.currentTimeMillis
        const { noted } = yield* loadAsked(key, now)
        // Whether or not it can be noted: this process does not drop it
        asked.set(key, { at: now, noted })
        if (now - noted < noteEvery) return
        yield* Effect.uninterruptible(
          Effect.zipRight(
            backend.saveAsked(key, now),
            Effect.sync(() => asked.set(key, { at: now, noted: now }))
          )
        )
      })

    const sweep = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const dropped: Array<Key> = []
      for (const key of yield* backend.keys) {
        const found = yield* Effect.catchIf(load(key), isOfOneName, () => Effect.succeedNone)
        if (Option.isNone(found) || !isDue(found.value, undefined, now, retention)) continue
        if (!isDue(found.value, (yield* loadAsked(key, now)).at, now, retention)) continue
        yield* Effect.uninterruptible(
          Effect.zipRight(
            backend.remove(key, found.value),
            Effect.sync(() => {
              cache.delete(key)
              asked.delete(key)
            })
          )
        )
        dropped.push(parseKey(key))
      }
      return dropped
    })

    return {
      get: (key) => lock.withPermits(1)(load(keyText(key))),
      update: (key, change) =>
        lock.withPermits(1)(
          Effect.gen(function* () {
            const text = keyText(key)
            const before = Option.getOrUndefined(yield* load(text))
            const after = Evidence.bound(change(before ?? Evidence.empty(key.namespace, key.name)), limits)
            if (after === before) return after
            // What is in memory is what is stored: neither happens without the other
            yield* Effect.uninterruptible(
              Effect.zipRight(
                backend.save(text, before, after),
                Effect.sync(() => cache.set(text, after))
              )
            )
            return after
          })
        ),
      keys: Effect.map(backend.keys, (keys) => keys.map(parseKey)),
      touch: (key) => lock.withPermits(1)(touch(keyText(key))),
      sweep: lock.withPermits(1)(sweep)
    }
  })

/** A store that lives as long as the process. It waits for nothing, so that a change needs no lock. */
export const makeMemory = (options: Options = {}): Effect.Effect<Service> =>
  Effect.sync(() => {
    const retention = Duration.toMillis(options.retention ?? defaultRetention)
    const limits = options.limits ?? Evidence.defaultLimits
    const kept = new Map<string, Evidence.Evidence>()
    const asked = new Map<string, number>()
    return {
      get: (key) => Effect.sync(() => Option.fromNullable(kept.get(keyText(key)))),
      update: (key, change) =>
        Effect.sync(() => {
          const text = keyText(key)
          const before = kept.get(text)
          const after = Evidence.bound(change(before ?? Evidence.empty(key.namespace, key.name)), limits)
          if (after !== before) kept.set(text, after)
          return after
        }),
      keys: Effect.sync(() => [...kept.keys()].map(parseKey)),
      touch: (key) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const text = keyText(key)
          const evidence = kept.get(text)
          if (evidence !== undefined && Evidence.goneSince(evidence) !== undefined) asked.set(text, now)
        }),
      sweep: Effect.map(Clock.currentTimeMillis, (now) => {
        const due = [...kept].flatMap(([key, evidence]) =>
          isDue(evidence, asked.get(key), now, retention) ? [key] : []
        )
        for (const key of due) {
          kept.delete(key)
          asked.delete(key)
        }
        return due.map(parseKey)
      })
    }
  })

/** See `makeMemory`. */
export const layerMemory = (options: Options = {}): Layer.Layer<EvidenceStore> =>
  Layer.effect(EvidenceStore, makeMemory(options))

const version = 1

const Envelope = Schema.Struct({ format: Schema.Literal("dispatch-kubeflow/evidence"), version: Schema.Number })
const decodeEnvelope = Schema.decodeUnknownEither(Envelope)

// A job of a thousand pods changes one pod at a time: each pod is a record of its own, and the head lists them
const { pods: _pods, ...headFields } = Evidence.Evidence.fields
const Head = Schema.Struct({
  ...Envelope.fields,
  head: Schema.Struct({ ...headFields, podUids: Schema.Array(Schema.String) })
})
const PodFile = Schema.Struct({ ...Envelope.fields, pod: Evidence.PodEvidence })
// Apart from the head, so that no question rewrites evidence
const Asked = Schema.Struct({ ...Envelope.fields, asked: Schema.Number })
const Index = Schema.Struct({ ...Envelope.fields, keys: Schema.Array(Schema.String) })

const envelope = { format: "dispatch-kubeflow/evidence", version } as const
const indexKey = "index"

const decodeJson = Schema.decodeUnknownEither(Schema.parseJson())
const decodeHead = Schema.decodeUnknownEither(Head)
const decodePod = Schema.decodeUnknownEither(PodFile)
const decodeAsked = Schema.decodeUnknownEither(Asked)
const decodeIndex = Schema.decodeUnknownEither(Index)

// Evidence is picked field by field and its schemas transform nothing: it is its own encoding, and a watch writes often
const encodeHead = (record: typeof Head.Encoded): string => JSON.stringify(record)
const encodePod = (record: typeof PodFile.Encoded): string => JSON.stringify(record)
const encodeAsked = (record: typeof Asked.Encoded): string => JSON.stringify(record)
const encodeIndex = (record: typeof Index.Encoded): string => JSON.stringify(record)

const headKey = (key: string): string => `${key}/head`
const askedKey = (key: string): string => `${key}/asked`
const podKey = (key: string, uid: string): string => `${key}/pod/${uid}`

/**
 * A store over a `KeyValueStore`: one record per pod and one per name, in a versioned envelope. One process at a time. A
 * record that cannot be read fails every use of its name with `EvidenceStoreError` and stays as it is.
 */
export const makeKeyValueStore = (
  options: Options = {}
): Effect.Effect<Service, EvidenceStoreError, KeyValueStore.KeyValueStore> =>
  Effect.gen(function* () {
    const store = KeyValueStore.prefix(yield* KeyValueStore.KeyValueStore, "evidence/")

    const unavailable = (key: string) => (cause: { readonly message: string }) =>
      new EvidenceStoreError({ kind: "unavailable", key, detail: cause.message, cause })

    const read = <A>(
      key: string,
      decode: (value: unknown) => Either.Either<A, ParseResult.ParseError>
    ): Effect.Effect<Option.Option<A>, EvidenceStoreError> => {
      const damaged = (detail: string): EvidenceStoreError => new EvidenceStoreError({ kind: "damaged", key, detail })
      return Effect.gen(function* () {
        const text = yield* Effect.mapError(store.get(key), unavailable(key))
        if (Option.isNone(text)) return Option.none<A>()
        const value = yield* Either.mapLeft(decodeJson(text.value), () => damaged("not JSON"))
        const found = yield* Either.mapLeft(decodeEnvelope(value), () => damaged("not an evidence record"))
        if (found.version !== version) {
          return yield* new EvidenceStoreError({
            kind: "version",
            key,
            detail: `version ${found.version}, this is ${version}`
          })
        }
        return Option.some(yield* Either.mapLeft(decode(value), (error) => damaged(Resource.describeIssues(error))))
      })
    }

    const write = (key: string, text: string): Effect.Effect<void, EvidenceStoreError> =>
      Effect.mapError(store.set(key, text), unavailable(key))
    const remove = (key: string): Effect.Effect<void, EvidenceStoreError> =>
      store.remove(key).pipe(
        // A folder refuses to remove what it does not hold
        Effect.catchIf(
          (error) => error._tag === "SystemError" && error.reason === "NotFound",
          () => Effect.void
        ),
        Effect.mapError(unavailable(key))
      )

    let index = new Set(
      Option.match(yield* read(indexKey, decodeIndex), { onNone: () => [], onSome: ({ keys }) => keys })
    )
    const writeIndex = (next: Set<string>): Effect.Effect<void, EvidenceStoreError> =>
      Effect.zipRight(
        write(indexKey, encodeIndex({ ...envelope, keys: [...next].toSorted() })),
        Effect.sync(() => {
          index = next
        })
      )

    return yield* fromBackend(
      {
        load: (key) =>
          Effect.gen(function* () {
            const found = yield* read(headKey(key), decodeHead)
            if (Option.isNone(found)) return Option.none()
            const { podUids, ...rest } = found.value.head
            const pods: Record<string, Evidence.PodEvidence> = {}
            for (const uid of podUids) {
              const file = yield* read(podKey(key, uid), decodePod)
              if (Option.isNone(file)) {
                return yield* new EvidenceStoreError({
                  kind: "damaged",
                  key: podKey(key, uid),
                  detail: "the record is missing"
                })
              }
              pods[uid] = file.value.pod
            }
            return Option.some({ ...rest, pods })
          }),
        save: (key, before, after) =>
          Effect.gen(function* () {
            // The index first, then pods, then the head that names them: a crash in between leaves nothing unreadable
            if (!index.has(key)) yield* writeIndex(new Set([...index, key]))
            for (const [uid, pod] of Object.entries(after.pods)) {
              if (before?.pods[uid] !== pod) yield* write(podKey(key, uid), encodePod({ ...envelope, pod }))
            }
            const { pods, ...head } = after
            const { pods: _before, ...headBefore } = before ?? { pods: undefined }
            const podUids = Object.keys(pods)
            const samePods = before !== undefined && podUids.length === Object.keys(before.pods).length
            const changed = Object.entries(head).some(
              ([field, value]) => (headBefore as Readonly<Record<string, unknown>>)[field] !== value
            )
            if (changed || !samePods || podUids.some((uid) => before.pods[uid] === undefined)) {
              yield* write(headKey(key), encodeHead({ ...envelope, head: { ...head, podUids } }))
            }
            for (const uid of Object.keys(before?.pods ?? {})) {
              if (after.pods[uid] === undefined) yield* remove(podKey(key, uid))
            }
          }),
        loadAsked: (key) =>
          Effect.map(
            read(askedKey(key), decodeAsked),
            Option.map(({ asked }) => asked)
          ),
        saveAsked: (key, at) => write(askedKey(key), encodeAsked({ ...envelope, asked: at })),
        remove: (key, evidence) =>
          Effect.gen(function* () {
            yield* remove(headKey(key))
            yield* remove(askedKey(key))
            for (const uid of Object.keys(evidence.pods)) yield* remove(podKey(key, uid))
            yield* writeIndex(new Set([...index].filter((it) => it !== key)))
          }),
        keys: Effect.sync(() => [...index])
      },
      options
    )
  })

/** See `makeKeyValueStore`. */
export const layerKeyValueStore = (
  options: Options = {}
): Layer.Layer<EvidenceStore, EvidenceStoreError, KeyValueStore.KeyValueStore> =>
  Layer.effect(EvidenceStore, makeKeyValueStore(options))
