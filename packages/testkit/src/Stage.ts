/**
 * Controllers as data. A stage says which objects a change concerns (`watches`) and what is written for one of them
 * (`reconcile`, a coroutine of requests and answers over read views). The runner is the work queue: it reads the event log
 * by cursor, keeps one entry per stage and key, and performs the requests one by one, each atomic, as real controllers do.
 *
 * Two kinds of time order the work. A `wait` is time of the Clock (batching, back-off, grace periods). A `latency` only
 * orders what happens at one instant of the Clock, in milliseconds of an idle cluster: the chain from a TrainJob to its
 * running pods takes no time of a TestClock, yet it interleaves as observed.
 *
 * @module
 */
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { Either } from "effect"
import type { Kind, Raw } from "./stages/Objects.js"

/** Reads of the stored objects at one version. */
export interface View {
  readonly get: <A extends Raw>(kind: Kind<A>, namespace: string | undefined, name: string) => A | undefined
  readonly list: <A extends Raw>(kind: Kind<A>, namespace?: string) => ReadonlyArray<A>
  /** Objects of a kind with an owner reference to the uid. */
  readonly ownedBy: <A extends Raw>(kind: Kind<A>, uid: string) => ReadonlyArray<A>
  /** Objects of any kind with an owner reference to the uid. */
  readonly dependents: (uid: string) => ReadonlyArray<Raw>
  /** Every object of a namespace. */
  readonly inNamespace: (namespace: string) => ReadonlyArray<Raw>
  /** The type that is served under an `apiVersion` and a `kind`. */
  readonly kindOf: (apiVersion: string, kind: string) => Kind | undefined
}

/** One entry of the event log, as a stage sees it. */
export interface Change {
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly object: Raw
  /** The object before the change; absent when it was added. */
  readonly previous?: Raw
}

/** A key to look at. */
export interface Wake {
  readonly key: string
  /** Milliseconds of the Clock until then; default 0. An earlier wake of the same key stands. */
  readonly wait?: number
  /** Milliseconds that only order the work of one instant; default the stage's own. */
  readonly latency?: number
}

/** The answer to a request: the object (or Status) of the reply, or the error. */
export type Answer = Either.Either<unknown, KubeError>

/** What a stage may look at while it works on a key. */
export interface Context {
  readonly key: string
  /** Epoch milliseconds of the Clock. */
  readonly now: () => number
  /** The objects now. */
  readonly view: View
  /** The objects right after the change that woke the key: what a controller with a lagging cache sees. */
  readonly seen: View
  /** A number in [0, 1) from the seeded generator. */
  readonly random: () => number
}

/** A line that a stage's process writes to its log: not a request, but a fact about a node. */
export interface LogLines {
  readonly podUid: string
  readonly namespace: string
  readonly pod: string
  readonly container: string
  readonly text: string
}

/** What a stage can do: send a request, let a container write to its log, or give a container a new log. */
export type Act =
  | { readonly _tag: "Request"; readonly request: KubeRequest }
  | { readonly _tag: "Log"; readonly lines: LogLines }
  | ({ readonly _tag: "NewLog" } & Omit<LogLines, "text">)

/** The work on one key: yields what to do, receives the answers, returns when to look again. */
export type Work = Generator<Act, ReadonlyArray<Wake> | void, Answer>

/** A controller. */
export interface Stage {
  readonly name: string
  /** Milliseconds between a change and the look at it, and between two writes; orders only. */
  readonly latency: number
  /** Whether the stage reads `Context.seen`: each of its looks then sees the objects of one change. */
  readonly lags?: boolean
  /** Starts the stage with an empty memory. */
  readonly start: () => {
    /** The keys that a change concerns. */
    readonly watches: (change: Change, view: View, now: number) => Iterable<Wake>
    /** The work on one key. */
    readonly reconcile: (context: Context) => Work
  }
}

/** Overrides for one stage: how much later it looks. */
export interface Delay {
  /** Added to every wake, in milliseconds of the Clock. */
  readonly wait?: number
  /** At most so many milliseconds more, drawn from the seeded generator. */
  readonly jitter?: number
  /** Replaces the stage's latency. */
  readonly latency?: number
}

/** A stage with other delays. */
export const delayed = (stage: Stage, delay: Delay): Stage & { readonly delay: Delay } => ({
  ...stage,
  latency: delay.latency ?? stage.latency,
  delay
})

/** Yields one request; `const answer = yield* send(request)`. */
export function* send(request: KubeRequest): Generator<Act, Answer, Answer> {
  return yield { _tag: "Request", request }
}

/** Yields the request unless there is none. */
export function* sendIf(request: KubeRequest | undefined): Generator<Act, Answer | undefined, Answer> {
  if (request === undefined) return undefined
  return yield { _tag: "Request", request }
}

/** A stage without memory. */
export const make = (options: {
  readonly name: string
  readonly latency?: number
  readonly watches: (change: Change, view: View) => Iterable<Wake>
  readonly reconcile: (context: Context) => Work
}): Stage => ({
  name: options.name,
  latency: options.latency ?? 10,
  start: () => ({ watches: options.watches, reconcile: options.reconcile })
})
