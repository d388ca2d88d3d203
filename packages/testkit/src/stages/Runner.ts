/**
 * The work queue that runs stages. One fiber, one entry per stage and key, ordered by due time, then by the order within
 * the instant, then by arrival: the same story gives the same log every time.
 *
 * @module
 */
import { Effect, Either, type Scope, Stream, Utils } from "effect"
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import type * as Cluster from "../Cluster.js"
import * as EventLog from "../EventLog.js"
import * as Registry from "../Registry.js"
import type { Act, Answer, Change, Delay, Stage, View, Wake, Work } from "../Stage.js"
import * as Store from "../Store.js"
import * as Objects from "./Objects.js"
import * as Views from "./Views.js"

interface Item {
  readonly due: number
  readonly order: number
  readonly sequence: number
  readonly entry: Entry
}

interface Entry {
  readonly stage: number
  readonly key: string
  queued: Item | undefined
  /** The change that the present look is about, the first one that came during it, and the last one. */
  seen: View | undefined
  nextSeen: View | undefined
  latest: View | undefined
  work: { readonly generator: Work; answer: Answer | undefined } | undefined
  /** A wake that came while the work was under way. */
  next: { readonly due: number; readonly order: number } | undefined
}

const before = (a: Item, b: Item): boolean =>
  a.due !== b.due ? a.due < b.due : a.order !== b.order ? a.order < b.order : a.sequence < b.sequence

const push = (heap: Array<Item>, item: Item): void => {
  let at = heap.length
  heap.push(item)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent]
    if (above === undefined || !before(item, above)) break
    heap[at] = above
    at = parent
  }
  heap[at] = item
}

const pop = (heap: Array<Item>): Item | undefined => {
  const first = heap[0]
  const last = heap.pop()
  if (first === undefined || last === undefined || heap.length === 0) return first
  let at = 0
  for (;;) {
    let child = at * 2 + 1
    const left = heap[child]
    if (left === undefined) break
    const right = heap[child + 1]
    let smaller = left
    if (right !== undefined && before(right, left)) {
      child++
      smaller = right
    }
    if (!before(smaller, last)) break
    heap[at] = smaller
    at = child
  }
  heap[at] = last
  return first
}

/** A started set of stages. */
export interface Runner {
  /** Does all that is due now, also what follows from it at this instant. */
  readonly drain: Effect.Effect<void>
  /** Performs a request as the system, and what follows from it at this instant. */
  readonly perform: (request: KubeRequest) => Effect.Effect<Answer>
  /** Wakes keys of a stage from outside, and does what is due. */
  readonly wake: (stage: string, wakes: Iterable<Wake>) => Effect.Effect<void>
  /** When the next work is due, epoch milliseconds. */
  readonly nextDue: () => number | undefined
}

/** More steps than this at one instant mean that stages undo each other's work. */
const stepLimit = 5_000_000

/** Changes between two states, for when the log between them has been compacted away. */
const difference = (before: Store.State, after: Store.State): ReadonlyArray<Change> => {
  const changes: Array<Change> = []
  const seen = new Set<string>()
  for (const definition of Registry.all(after.registry)) {
    const key = Registry.typeKey(definition)
    if (definition.virtual || seen.has(key)) continue
    seen.add(key)
    for (const json of Store.list(before, definition)) {
      const object = Views.raw(json)
      const { name, namespace } = object.metadata
      const now = Store.get(after, definition, namespace, name)
      if (now === undefined || Views.raw(now).metadata.uid !== object.metadata.uid) {
        changes.push({ type: "DELETED", object, previous: object })
      }
    }
    for (const json of Store.list(after, definition)) {
      const object = Views.raw(json)
      const { name, namespace } = object.metadata
      const then = Store.get(before, definition, namespace, name)
      if (then === json) continue
      const previous = then === undefined ? undefined : Views.raw(then)
      changes.push(
        previous === undefined || previous.metadata.uid !== object.metadata.uid
          ? { type: "ADDED", object }
          : { type: "MODIFIED", object, previous }
      )
    }
  }
  return changes
}

const toChange = (entry: EventLog.Entry): Change => ({
  type: entry.type,
  object: Views.raw(entry.object),
  ...(entry.previous === undefined ? {} : { previous: Views.raw(entry.previous) })
})

/** How stages are run. */
export interface Options {
  readonly seed: number
  /** How far clocks are ahead of the API server's, in milliseconds. */
  readonly skew: { readonly controllers: number; readonly kubelets: number }
}

/** The stage of the machines: it has the true time, since processes do not live by their node's clock, and writes the other. */
const kubelet = "kubelet"

/**
 * Starts stages on a cluster: they see what is there as added, then every change, until the scope closes.
 */
export const start = (
  cluster: Cluster.Service,
  stages: ReadonlyArray<Stage & { readonly delay?: Delay }>,
  options: Options
): Effect.Effect<Runner, never, Scope.Scope> =>
  Effect.gen(function* () {
    const started = stages.map((stage) => ({ stage, handler: stage.start() }))
    const byName = new Map(stages.map((stage, index) => [stage.name, index]))
    const generator = new Utils.PCGRandom(options.seed)
    const random = (): number => generator.number()
    const lock = yield* Effect.makeSemaphore(1)
    const clock = yield* Effect.clock
    const signal = yield* Effect.makeLatch(false)

    let state = yield* cluster.state
    let view = Views.of(state)
    /** The state up to which changes have been told. */
    let followed: Store.State = Store.make(state.registry)
    const refresh = Effect.map(cluster.state, (now) => {
      if (now === state) return
      state = now
      view = Views.of(now)
    })

    const heap: Array<Item> = []
    const entries = new Map<string, Entry>()
    let sequence = 0
    let instant = 0
    let order = 0

    const enqueue = (entry: Entry, due: number, at: number): void => {
      if (
        entry.queued !== undefined &&
        (entry.queued.due < due || (entry.queued.due === due && entry.queued.order <= at))
      ) {
        return
      }
      const item: Item = { due, order: at, sequence: sequence++, entry }
      entry.queued = item
      push(heap, item)
    }

    const wakeOne = (index: number, wake: Wake, now: number, seen: View): void => {
      const stage = started[index]?.stage
      if (stage === undefined) return
      const delay: Delay = "delay" in stage && stage.delay !== undefined ? stage.delay : {}
      const jitter = delay.jitter === undefined ? 0 : Math.floor(delay.jitter * random())
      const wait = (wake.wait ?? 0) + (delay.wait ?? 0) + jitter
      const due = now + wait
      const at = (wait === 0 && instant === now ? order : 0) + (wake.latency ?? stage.latency)
      const id = `${index} ${wake.key}`
      let entry = entries.get(id)
      if (entry === undefined) {
        entry = {
          stage: index,
          key: wake.key,
          queued: undefined,
          seen: undefined,
          nextSeen: undefined,
          latest: undefined,
          work: undefined,
          next: undefined
        }
        entries.set(id, entry)
      }
      if (stage.lags === true) {
        if (entry.work === undefined) entry.seen ??= seen
        else entry.nextSeen ??= seen
        entry.latest = seen
      }
      if (entry.work === undefined) enqueue(entry, due, at)
      else if (entry.next === undefined || due < entry.next.due || (due === entry.next.due && at < entry.next.order)) {
        entry.next = { due, order: at }
      }
    }

    /** Tells the stages what happened since. */
    const follow = (now: number): void => {
      if (followed === state) return
      const isComplete = state.log.floor <= followed.version && followed.version > 0
      const changes = isComplete
        ? EventLog.after(state.log, followed.version).map(toChange)
        : difference(followed, state)
      followed = state
      for (const change of changes) {
        for (const [index, { handler }] of started.entries()) {
          for (const wake of handler.watches(change, view, now)) wakeOne(index, wake, now, view)
        }
      }
    }

    const apply = (request: KubeRequest): Effect.Effect<Answer> =>
      Effect.map(cluster.apply(request), ({ reply }) =>
        Either.mapBoth(reply, {
          onLeft: (failure) => KubeError.fromStatus(request, failure.code, failure.status),
          onRight: ({ body }) => body
        })
      )

    const inLog = (act: { readonly namespace: string; readonly pod: string; readonly podUid: string }): boolean =>
      view.get(Objects.pods, act.namespace, act.pod)?.metadata.uid === act.podUid

    const perform = (act: Act): Effect.Effect<Answer> => {
      switch (act._tag) {
        case "Request":
          return apply(act.request)
        case "Log":
          // the log of a pod whose object is gone cannot be read any more
          return inLog(act.lines)
            ? Effect.as(
                cluster.appendLog(
                  { namespace: act.lines.namespace, name: act.lines.pod },
                  {
                    container: act.lines.container,
                    text: act.lines.text,
                    at: clock.unsafeCurrentTimeMillis() + options.skew.kubelets
                  }
                ),
                Either.right(undefined)
              )
            : Effect.succeed(Either.right(undefined))
        case "NewLog":
          return inLog(act)
            ? Effect.as(
                cluster.restartLog({ namespace: act.namespace, name: act.pod }, act.container),
                Either.right(undefined)
              )
            : Effect.succeed(Either.right(undefined))
      }
    }

    const finish = (entry: Entry, wakes: ReadonlyArray<Wake>, now: number): void => {
      const { latest, next, nextSeen, seen } = entry
      entry.work = undefined
      entry.next = undefined
      entry.nextSeen = undefined
      entry.seen = nextSeen
      if (nextSeen === undefined) entry.latest = undefined
      const index = entry.stage
      if (next !== undefined) enqueue(entry, next.due, next.order)
      // what came after the change that it looked at has not been seen yet
      else if (latest !== undefined && latest !== seen) wakeOne(index, { key: entry.key }, now, latest)
      for (const wake of wakes) wakeOne(index, wake, now, view)
      if (entry.queued === undefined) entries.delete(`${index} ${entry.key}`)
    }

    const step = (item: Item, now: number): Effect.Effect<void> =>
      Effect.suspend(() => {
        const { entry } = item
        const handler = started[entry.stage]
        if (handler === undefined) return Effect.void
        instant = now
        order = item.due < now ? 0 : item.order
        entry.queued = undefined
        const skew = handler.stage.name === kubelet ? 0 : options.skew.controllers
        const current =
          entry.work ??
          ({
            generator: handler.handler.reconcile({
              key: entry.key,
              now: () => clock.unsafeCurrentTimeMillis() + skew,
              get view() {
                return view
              },
              seen: entry.seen ?? view,
              random
            }),
            answer: undefined
          } satisfies NonNullable<Entry["work"]>)
        entry.work = current
        let result: IteratorResult<Act, ReadonlyArray<Wake> | void>
        try {
          result =
            current.answer === undefined
              ? current.generator.next(undefined as never)
              : current.generator.next(current.answer)
        } catch (defect) {
          // Controllers recover from a panic over one object: the others go on
          finish(entry, [], now)
          return Effect.logError(`stage ${handler.stage.name} failed on ${entry.key}`, defect)
        }
        if (result.done === true) {
          finish(entry, result.value ?? [], now)
          return Effect.void
        }
        return Effect.flatMap(perform(result.value), (answer) =>
          Effect.map(refresh, () => {
            current.answer = answer
            follow(now)
            // controllers record events on the side
            const isEvent = result.value._tag === "Request" && result.value.request.plural === "events"
            enqueue(entry, now, order + (isEvent ? 0 : handler.stage.latency))
          })
        )
      })

    const drainUnlocked = Effect.gen(function* () {
      let steps = 0
      for (;;) {
        yield* refresh
        const now = clock.unsafeCurrentTimeMillis()
        follow(now)
        const top = heap[0]
        if (top === undefined || top.due > now) return
        pop(heap)
        if (top.entry.queued !== top) continue
        yield* step(top, now)
        if (++steps > stepLimit) {
          return yield* Effect.dieMessage(
            `the stages do not come to rest at one instant (last: ${started[top.entry.stage]?.stage.name ?? ""} ${top.entry.key})`
          )
        }
      }
    })
    const drain = lock.withPermits(1)(drainUnlocked)

    const nextDue = (): number | undefined => {
      while (heap[0] !== undefined && heap[0].entry.queued !== heap[0]) pop(heap)
      return heap[0]?.due
    }

    const wait = Effect.gen(function* () {
      yield* signal.close
      yield* refresh
      if (followed !== state) return
      const due = nextDue()
      yield* due === undefined
        ? signal.await
        : Effect.raceFirst(signal.await, Effect.sleep(Math.max(due - clock.unsafeCurrentTimeMillis(), 0)))
    })

    yield* Effect.forkScoped(Stream.runForEachChunk(cluster.changes(state.version), () => signal.open))
    yield* drain
    yield* Effect.forkScoped(Effect.forever(Effect.zipRight(wait, drain)))

    return {
      drain,
      nextDue,
      perform: (request) => Effect.zipLeft(apply(request), drain),
      wake: (name, wakes) =>
        lock
          .withPermits(1)(
            Effect.gen(function* () {
              const index = byName.get(name)
              if (index !== undefined) {
                const now = clock.unsafeCurrentTimeMillis()
                for (const wake of wakes) wakeOne(index, wake, now, view)
              }
              yield* drainUnlocked
            })
          )
          // the fiber may sleep until a time that is too late now
          .pipe(Effect.zipRight(signal.open))
    }
  })
