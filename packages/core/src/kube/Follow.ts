/**
 * Follows a collection for ever: list, watch from there, and recover from everything a watch can do: ends in order, breaks,
 * falls silent, expires, is refused. `step` is the whole decision, pure; `follow` is the driver that performs what it says.
 *
 * Learnt from the reflectors of client-go and kube-rs: the state machine knows no I/O, so each row of it is a test.
 *
 * @module
 */
import { Chunk, Clock, Effect, Either, Exit, HashMap, Option, Random, Scope, Stream } from "effect"
import type { In, Listed, Selection, Service, Undecodable, WatchEvent } from "./KubeApi.js"
import { type KubeError, KubeUnavailable } from "./KubeError.js"
import * as KubeRequest from "./KubeRequest.js"
import type * as Resource from "./Resource.js"

/** What a follower sees. Objects that did not change are never told again. */
export type FollowEvent<A> =
  | {
      /** The collection as a whole: at the start, and after each gap. */
      readonly _tag: "Snapshot"
      readonly objects: ReadonlyArray<A>
      /** Those that are new or differ from what was last told. */
      readonly changed: ReadonlyArray<A>
      /** Those that went while nobody looked: the last state known, the final one was not seen. */
      readonly deleted: ReadonlyArray<A>
      readonly undecodable: ReadonlyArray<Undecodable>
    }
  | { readonly _tag: "Applied"; readonly object: A; readonly previous: A | undefined }
  /** `seen`: the server told the deletion, with the last state. Otherwise another object took the name unseen. */
  | { readonly _tag: "Deleted"; readonly object: A; readonly seen: boolean }
  | { readonly _tag: "Undecodable"; readonly object: Undecodable; readonly deleted: boolean }
  /** Nothing is lost, but what is told may lag: the next attempt is in `retryIn` milliseconds. */
  | { readonly _tag: "Interrupted"; readonly error: KubeError; readonly retryIn: number }

/** What the machine remembers. */
export interface State<A> {
  readonly known: HashMap.HashMap<string, A>
  /** Where the next watch starts; undefined before the first list. */
  readonly cursor: string | undefined
  readonly phase: "list" | "watch"
  /** Failures in a row, for the back-off. */
  readonly failures: number
  readonly lastFailure: number
  /** Times in a row that a fresh list's version was already too old, or its watch useless. */
  readonly fruitless: number
  readonly openedAt: number
}

/** What happened. `now` is epoch milliseconds, `random` in [0, 1): the machine has neither clock nor dice. */
export type Signal<A> =
  | { readonly _tag: "Listed"; readonly list: Listed<A> }
  | { readonly _tag: "Opened"; readonly now: number }
  | { readonly _tag: "Frame"; readonly event: WatchEvent<A> }
  | { readonly _tag: "Closed"; readonly now: number; readonly random: number }
  | { readonly _tag: "Failed"; readonly error: KubeError; readonly now: number; readonly random: number }
  | { readonly _tag: "Woke" }

/** What to do next. */
export type Action =
  | { readonly _tag: "List" }
  | { readonly _tag: "Watch"; readonly from: string }
  /** Wait for the next frame of the open connection. */
  | { readonly _tag: "Read" }
  /** Milliseconds. */
  | { readonly _tag: "Sleep"; readonly duration: number }
  | { readonly _tag: "Fail"; readonly error: KubeError }

/** The result of a step: the state after it, what to tell, what to do. */
export type Step<A> = readonly [State<A>, ReadonlyArray<FollowEvent<A>>, Action]

/** The state before anything happened; the first action is `List`. */
export const initial = <A>(): State<A> => ({
  known: HashMap.empty(),
  cursor: undefined,
  phase: "list",
  failures: 0,
  lastFailure: 0,
  fruitless: 0,
  openedAt: 0
})

const minimumDelay = 800
const maximumDelay = 30_000
// As client-go's reflector: a failure after two quiet minutes is the first one again
const quiet = 120_000
// A connection that lives shorter than this did no work; without a pause a server that ends them at once is hammered
const uselessConnection = 1_000

const keyOf = (object: Resource.KubeObject): string => `${object.metadata.namespace ?? ""}/${object.metadata.name}`

const sameVersion = (a: Resource.KubeObject, b: Resource.KubeObject): boolean =>
  a.metadata.uid === b.metadata.uid && a.metadata.resourceVersion === b.metadata.resourceVersion

const backoff = <A>(
  state: State<A>,
  now: number,
  random: number,
  wish: number | undefined
): readonly [State<A>, number] => {
  const failures = now - state.lastFailure > quiet ? 1 : state.failures + 1
  const ceiling = Math.min(maximumDelay, minimumDelay * 2 ** Math.min(failures, 10))
  return [
    { ...state, failures, lastFailure: now },
    Math.round(wish ?? minimumDelay + random * (ceiling - minimumDelay))
  ]
}

const resume = <A>(state: State<A>): Action =>
  state.phase === "watch" && state.cursor !== undefined ? { _tag: "Watch", from: state.cursor } : { _tag: "List" }

const listed = <A extends Resource.KubeObject>(state: State<A>, list: Listed<A>): Step<A> => {
  const changed: Array<A> = []
  const deleted: Array<A> = []
  let known = HashMap.empty<string, A>()
  for (const object of list.items) {
    const key = keyOf(object)
    const before = Option.getOrUndefined(HashMap.get(state.known, key))
    if (before !== undefined && before.metadata.uid !== object.metadata.uid) deleted.push(before)
    if (before === undefined || !sameVersion(before, object)) changed.push(object)
    known = HashMap.set(known, key, object)
  }
  // An object that no longer decodes is still there: it keeps its last readable state and counts as no deletion
  const unreadable = new Set(list.undecodable.map(({ namespace, name }) => `${namespace ?? ""}/${name ?? ""}`))
  for (const [key, before] of state.known) {
    if (HashMap.has(known, key)) continue
    if (unreadable.has(key)) known = HashMap.set(known, key, before)
    else deleted.push(before)
  }
  const next: State<A> = { ...state, known, cursor: list.resourceVersion, phase: "watch" }
  return [
    next,
    [{ _tag: "Snapshot", objects: [...HashMap.values(known)], changed, deleted, undecodable: list.undecodable }],
    { _tag: "Watch", from: list.resourceVersion }
  ]
}

const framed = <A extends Resource.KubeObject>(state: State<A>, event: WatchEvent<A>): Step<A> => {
  const read: Action = { _tag: "Read" }
  switch (event._tag) {
    case "Bookmark":
      return [
        event.resourceVersion === "" ? state : { ...state, cursor: event.resourceVersion, fruitless: 0 },
        [],
        read
      ]
    case "Applied": {
      const { object } = event
      const key = keyOf(object)
      const before = Option.getOrUndefined(HashMap.get(state.known, key))
      const moved = { ...state, cursor: event.resourceVersion, fruitless: 0 }
      if (before !== undefined && sameVersion(before, object)) return [moved, [], read]
      const next = { ...moved, known: HashMap.set(state.known, key, object) }
      if (before !== undefined && before.metadata.uid !== object.metadata.uid) {
        return [
          next,
          [
            { _tag: "Deleted", object: before, seen: false },
            { _tag: "Applied", object, previous: undefined }
          ],
          read
        ]
      }
      return [next, [{ _tag: "Applied", object, previous: before }], read]
    }
    case "Deleted": {
      const { object } = event
      const key = keyOf(object)
      const before = Option.getOrUndefined(HashMap.get(state.known, key))
      const moved = { ...state, cursor: event.resourceVersion, fruitless: 0 }
      if (before === undefined || before.metadata.uid !== object.metadata.uid) return [moved, [], read]
      return [{ ...moved, known: HashMap.remove(state.known, key) }, [{ _tag: "Deleted", object, seen: true }], read]
    }
    case "Undecodable": {
      const { object } = event
      const key = `${object.namespace ?? ""}/${object.name ?? ""}`
      const before = Option.getOrUndefined(HashMap.get(state.known, key))
      const moved = { ...state, cursor: object.resourceVersion ?? state.cursor, fruitless: 0 }
      const told: FollowEvent<A> = { _tag: "Undecodable", object, deleted: event.deleted }
      if (!event.deleted || before === undefined) return [moved, [told], read]
      return [
        { ...moved, known: HashMap.remove(state.known, key) },
        [told, { _tag: "Deleted", object: before, seen: true }],
        read
      ]
    }
  }
}

const failed = <A>(state: State<A>, error: KubeError, now: number, random: number): Step<A> => {
  const pause = (to: State<A>, wish?: number): Step<A> => {
    const [next, duration] = backoff(to, now, random, wish)
    return [next, [{ _tag: "Interrupted", error, retryIn: duration }], { _tag: "Sleep", duration }]
  }
  switch (error._tag) {
    case "KubeForbidden":
    case "KubeUnauthorized":
    case "KubeDenied":
    case "KubeNotFound":
      return [state, [], { _tag: "Fail", error }]
    case "KubeUnavailable": {
      // A connection that worked and then broke (a load balancer's limit, a restarted server) starts the back-off anew: only
      // failures without any use in between slow the follower down
      const worked =
        state.phase === "watch" &&
        (error.phase === "stream" || error.phase === "silence") &&
        now - state.openedAt >= uselessConnection
      return pause(worked ? { ...state, failures: 0 } : state, error.retryAfter)
    }
    case "KubeExpired":
    case "KubeInvalid":
    case "KubeConflict":
    case "KubeMalformed": {
      // While listing there is no version to blame: the request or the server is wrong, and stays so
      if (state.phase === "list" && error._tag !== "KubeExpired") return [state, [], { _tag: "Fail", error }]
      // The version is of no use to the server, whatever it calls that: list anew. At once the first time, then slower,
      // since in a busy cluster even a fresh list's version can be too old
      const next: State<A> = { ...state, phase: "list", fruitless: state.fruitless + 1 }
      return next.fruitless === 1 ? [next, [], { _tag: "List" }] : pause(next)
    }
  }
}

/** The state machine. Total: every signal in every state has an answer. */
export const step = <A extends Resource.KubeObject>(state: State<A>, signal: Signal<A>): Step<A> => {
  switch (signal._tag) {
    case "Listed":
      return listed(state, signal.list)
    case "Opened":
      return [{ ...state, openedAt: signal.now }, [], { _tag: "Read" }]
    case "Frame":
      return framed(state, signal.event)
    case "Closed": {
      if (signal.now - state.openedAt >= uselessConnection) return [state, [], resume(state)]
      const [next, duration] = backoff(state, signal.now, signal.random, undefined)
      return [next, [], { _tag: "Sleep", duration }]
    }
    case "Failed":
      return failed(state, signal.error, signal.now, signal.random)
    case "Woke":
      return [state, [], resume(state)]
  }
}

/** How long the driver trusts a connection. */
export interface Options {
  /** The server is asked to end each connection after so many seconds. Default 290. */
  readonly timeoutSeconds?: number | undefined
  /**
   * A connection without any frame for so many milliseconds is taken for dead and replaced, from the same version.
   * Default 150,000: bookmarks come about every 60 s, but are not guaranteed.
   */
  readonly idleLimit?: number | undefined
}

interface Connection<A> {
  readonly scope: Scope.CloseableScope
  readonly pull: Effect.Effect<Chunk.Chunk<WatchEvent<A>>, Option.Option<KubeError>>
}

/**
 * Follows a collection. The first event is a `Snapshot`. Fails only for what waiting cannot mend: `KubeForbidden` (its
 * request names the verb), `KubeUnauthorized`, a type that is not served. One request at a time; the consumer's pull is what
 * reads the socket, nothing is queued.
 */
export const follow = <A extends Resource.KubeObject, S extends Resource.Scope>(
  api: Service,
  resource: Resource.Resource<A, S>,
  where: In<S> & Selection,
  options: Options = {}
): Stream.Stream<FollowEvent<A>, KubeError> => {
  const timeoutSeconds = options.timeoutSeconds ?? 290
  const idleLimit = options.idleLimit ?? 150_000
  const silent = new KubeUnavailable({
    request: KubeRequest.make("watch", resource),
    phase: "silence",
    detail: `nothing for ${Math.round(idleLimit / 1000)} s`
  })
  const failure = (error: KubeError): Effect.Effect<Signal<A>> =>
    Effect.map(Effect.all([Clock.currentTimeMillis, Random.next]), ([now, random]) => ({
      _tag: "Failed",
      error,
      now,
      random
    }))

  return Stream.unwrapScoped(
    Effect.map(Effect.scope, (scope) => {
      // Written by the one fiber that pulls, and only between its steps
      let state: State<A> = initial()
      let action: Action = { _tag: "List" }
      let connection: Connection<A> | undefined

      const close: Effect.Effect<void> = Effect.suspend(() => {
        const open = connection
        connection = undefined
        return open === undefined ? Effect.void : Scope.close(open.scope, Exit.void)
      })

      const open = (from: string): Effect.Effect<ReadonlyArray<Signal<A>>> =>
        Effect.gen(function* () {
          yield* close
          const child = yield* Scope.fork(scope, { _tag: "Sequential" })
          const pull = yield* Stream.toPull(
            api.watch(resource, { ...where, resourceVersion: from, timeoutSeconds })
          ).pipe(Scope.extend(child))
          connection = { scope: child, pull }
          return [{ _tag: "Opened", now: yield* Clock.currentTimeMillis }]
        })

      const read: Effect.Effect<ReadonlyArray<Signal<A>>> = Effect.suspend(() => {
        if (connection === undefined) return Effect.dieMessage("Follow: read without a connection")
        return connection.pull.pipe(
          Effect.timeoutFail({ duration: idleLimit, onTimeout: () => Option.some<KubeError>(silent) }),
          Effect.matchEffect({
            onSuccess: (events) =>
              Effect.succeed(Chunk.toReadonlyArray(events).map((event): Signal<A> => ({ _tag: "Frame", event }))),
            onFailure: (end) =>
              Effect.flatMap(close, () =>
                Effect.map(
                  Option.match(end, {
                    onNone: () =>
                      Effect.map(Effect.all([Clock.currentTimeMillis, Random.next]), ([now, random]): Signal<A> => ({
                        _tag: "Closed",
                        now,
                        random
                      })),
                    onSome: failure
                  }),
                  (signal) => [signal]
                )
              )
          })
        )
      })

      const perform = (next: Action): Effect.Effect<ReadonlyArray<Signal<A>>, KubeError> => {
        switch (next._tag) {
          case "List":
            return Effect.flatMap(Effect.either(api.list(resource, where)), (result) =>
              Either.match(result, {
                onLeft: (error) => Effect.map(failure(error), (signal) => [signal]),
                onRight: (list) => Effect.succeed<ReadonlyArray<Signal<A>>>([{ _tag: "Listed", list }])
              })
            )
          case "Watch":
            return open(next.from)
          case "Read":
            return read
          case "Sleep":
            return Effect.as(Effect.sleep(next.duration), [{ _tag: "Woke" } as const])
          case "Fail":
            return Effect.fail(next.error)
        }
      }

      const pull: Effect.Effect<Chunk.Chunk<FollowEvent<A>>, Option.Option<KubeError>> = Effect.gen(function* () {
        const told: Array<FollowEvent<A>> = []
        while (told.length === 0) {
          const signals = yield* Effect.mapError(perform(action), Option.some)
          for (const signal of signals) {
            const [next, events, then] = step(state, signal)
            state = next
            action = then
            for (const event of events) told.push(event)
          }
        }
        return Chunk.unsafeFromArray(told)
      })

      return Stream.repeatEffectChunkOption(pull)
    })
  )
}
