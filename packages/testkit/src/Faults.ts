/**
 * Faults of a server and of the way to it, as decorators of any transport: a plan says which requests are hit, by what,
 * and how often. The same seed gives the same faults; all time is Effect's Clock.
 *
 * @module
 */
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { type Duration, Effect, Option, Stream } from "effect"
import * as Dice from "./internal/Dice.js"

/**
 * Which requests a rule is about: every field that is given must be equal; `where` must hold. Nothing given is every
 * request.
 */
export interface Match {
  readonly verb?: KubeRequest.Verb | ReadonlyArray<KubeRequest.Verb>
  readonly group?: string
  readonly plural?: string
  /** `""` for requests without a subresource. */
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
  readonly where?: (request: KubeRequest.KubeRequest) => boolean
}

/** An HTTP refusal. `retryAfter` is the server's wish, milliseconds. */
export interface Refusal {
  readonly code: number
  readonly reason?: string
  readonly message?: string
  readonly retryAfter?: number
}

/**
 * What happens to a request.
 *
 * - `fail`: it fails with this error; the server never sees it.
 * - `refuse`: the server refuses it with this status.
 * - `throttle`: 429 with `Retry-After`, milliseconds.
 * - `expire`: 410, as a status of the answer or as an ERROR frame after some events.
 * - `delay`: it starts that much later.
 * - `cut`: the connection breaks after so many events of a watch or bytes of a log; the answer of a call is lost, though
 *   the server has performed it.
 * - `end`: a stream ends in order after so many events or bytes.
 * - `duplicate`: every event of a watch comes so many times.
 * - `stale`: a get or list is answered as an earlier one of the same request was; the first passes.
 * - `garble`: a line that is no JSON comes after so many events.
 * - `silence`: after so many events or bytes nothing comes any more, and the connection stays open; a call is performed and
 *   never answered.
 * - `slow`: every event, or piece of at most `bytes` of a log, takes that long.
 */
export type Fault =
  | { readonly _tag: "fail"; readonly error: (request: KubeRequest.KubeRequest) => KubeError.KubeError }
  | { readonly _tag: "refuse"; readonly refusal: Refusal }
  | { readonly _tag: "throttle"; readonly retryAfter: number }
  | { readonly _tag: "expire"; readonly shape: "status" | "frame"; readonly after?: number; readonly token?: string }
  | { readonly _tag: "delay"; readonly duration: Duration.DurationInput }
  | { readonly _tag: "cut"; readonly after: number }
  | { readonly _tag: "end"; readonly after: number }
  | { readonly _tag: "duplicate"; readonly times: number }
  | { readonly _tag: "stale" }
  | { readonly _tag: "garble"; readonly after: number }
  | { readonly _tag: "silence"; readonly after: number }
  | { readonly _tag: "slow"; readonly duration: Duration.DurationInput; readonly bytes?: number }

/** How often a rule fires: `always`, the first so many times that it matches, or with a probability. */
export type Often = "once" | "always" | { readonly times: number } | { readonly probability: number }

/** One line of a plan. */
export interface Rule {
  readonly match: Match
  readonly fault: Fault
  readonly often: Often
}

/** A plan: every rule that matches and fires does its part, the first the closest to the caller. */
export type Plan = ReadonlyArray<Rule>

/** What became of a rule. */
export interface Use {
  readonly rule: Rule
  readonly matched: number
  readonly fired: number
}

/** A plan at work. */
export interface Faults {
  /** The decorator; transports decorated by the same plan share its counts. */
  readonly transform: (transport: KubeTransport) => KubeTransport
  /** What the rules have done so far, in the plan's order. */
  readonly used: Effect.Effect<ReadonlyArray<Use>>
  /** From now on nothing fires. What has been hit already stays as it is. */
  readonly stop: Effect.Effect<void>
}

/** A rule; fires always when not said otherwise. */
export const rule = (match: Match, fault: Fault, often: Often = "always"): Rule => ({ match, fault, often })

/** Whether a request is one that a rule is about. */
export const matches = (match: Match, request: KubeRequest.KubeRequest): boolean => {
  const verbs = match.verb === undefined ? undefined : typeof match.verb === "string" ? [match.verb] : match.verb
  return (
    (verbs === undefined || verbs.includes(request.verb)) &&
    (match.group === undefined || match.group === request.group) &&
    (match.plural === undefined || match.plural === request.plural) &&
    (match.subresource === undefined || match.subresource === (request.subresource ?? "")) &&
    (match.namespace === undefined || match.namespace === request.namespace) &&
    (match.name === undefined || match.name === request.name) &&
    (match.where === undefined || match.where(request))
  )
}

const refused = (request: KubeRequest.KubeRequest, refusal: Refusal): KubeError.KubeError =>
  KubeError.fromStatus(
    request,
    refusal.code,
    {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      code: refusal.code,
      ...(refusal.message === undefined ? {} : { message: refusal.message }),
      ...(refusal.reason === undefined ? {} : { reason: refusal.reason })
    },
    refusal.retryAfter
  )

const throttled = (request: KubeRequest.KubeRequest, retryAfter: number): KubeError.KubeError =>
  refused(request, {
    code: 429,
    reason: "TooManyRequests",
    message: "Too many requests, please try again later.",
    retryAfter
  })

const expired = (request: KubeRequest.KubeRequest, token: string | undefined): KubeError.KubeError =>
  KubeError.fromStatus(request, 410, {
    kind: "Status",
    apiVersion: "v1",
    metadata: token === undefined ? {} : { continue: token },
    status: "Failure",
    reason: "Expired",
    message: "too old resource version",
    code: 410
  })

const broken = (request: KubeRequest.KubeRequest): KubeError.KubeError =>
  new KubeError.KubeUnavailable({
    request: KubeRequest.withoutBody(request),
    phase: "stream",
    detail: "the connection was cut"
  })

const garbled = (request: KubeRequest.KubeRequest): KubeError.KubeError =>
  new KubeError.KubeMalformed({ request: KubeRequest.withoutBody(request), detail: "a watch line that is not JSON" })

/** The failure with which a request is answered before anything else happens, if the fault is one. */
const atOnce = (fault: Fault, request: KubeRequest.KubeRequest): KubeError.KubeError | undefined => {
  switch (fault._tag) {
    case "fail":
      return fault.error(request)
    case "refuse":
      return refused(request, fault.refusal)
    case "throttle":
      return throttled(request, fault.retryAfter)
    case "expire":
      return fault.shape === "status" || request.verb !== "watch" ? expired(request, fault.token) : undefined
    default:
      return undefined
  }
}

/** What makes two reads the same question. */
const question = (request: KubeRequest.KubeRequest): string =>
  JSON.stringify([
    request.verb,
    KubeRequest.path(request),
    Object.entries(request.query).toSorted(([a], [b]) => (a < b ? -1 : 1))
  ])

const onCall = (
  fault: Fault,
  request: KubeRequest.KubeRequest,
  performed: Effect.Effect<KubeReply, KubeError.KubeError>,
  earlier: Option.Option<KubeReply>
): Effect.Effect<KubeReply, KubeError.KubeError> => {
  const failure = atOnce(fault, request)
  if (failure !== undefined) return Effect.fail(failure)
  switch (fault._tag) {
    case "delay":
    case "slow":
      return Effect.delay(performed, fault.duration)
    case "cut":
      // The server has done it; only the answer is lost
      return Effect.zipRight(Effect.exit(performed), Effect.fail(broken(request)))
    case "garble":
      return Effect.zipRight(Effect.exit(performed), Effect.fail(garbled(request)))
    case "silence":
      return Effect.zipRight(Effect.exit(performed), Effect.never)
    case "stale":
      return Option.isSome(earlier) ? Effect.succeed(earlier.value) : performed
    default:
      return performed
  }
}

/** The first `count` units of a stream of pieces, then something else; `take` says how many units a piece has. */
const upTo = <A>(
  stream: Stream.Stream<A, KubeError.KubeError>,
  count: number,
  size: (piece: A) => number,
  cut: (piece: A, units: number) => A,
  then: Stream.Stream<A, KubeError.KubeError>
): Stream.Stream<A, KubeError.KubeError> => {
  if (count <= 0) return then
  // A stream that ends before is left as it is: the fault had nothing to hit
  return Stream.suspend(() => {
    let left = count
    return Stream.flatMap(
      Stream.takeUntil(Stream.rechunk(stream, 1), (piece) => {
        left -= size(piece)
        return left <= 0
      }),
      (piece) =>
        left > 0
          ? Stream.succeed(piece)
          : Stream.concat(Stream.succeed(left < 0 ? cut(piece, size(piece) + left) : piece), then)
    )
  })
}

const never: Stream.Stream<never> = Stream.never

const onStream = <A>(
  fault: Fault,
  request: KubeRequest.KubeRequest,
  stream: Stream.Stream<A, KubeError.KubeError>,
  size: (piece: A) => number,
  cut: (piece: A, units: number) => A,
  split: (piece: A, units: number) => ReadonlyArray<A>
): Stream.Stream<A, KubeError.KubeError> => {
  const failure = atOnce(fault, request)
  if (failure !== undefined) return Stream.fail(failure)
  switch (fault._tag) {
    case "delay":
      return Stream.unwrap(Effect.as(Effect.sleep(fault.duration), stream))
    case "cut":
      return upTo(stream, fault.after, size, cut, Stream.fail(broken(request)))
    case "garble":
      return upTo(stream, fault.after, size, cut, Stream.fail(garbled(request)))
    case "expire":
      return upTo(stream, fault.after ?? 0, size, cut, Stream.fail(expired(request, fault.token)))
    case "end":
      return upTo(stream, fault.after, size, cut, Stream.empty)
    case "silence":
      return upTo(stream, fault.after, size, cut, never)
    case "slow":
      return Stream.mapEffect(
        Stream.rechunk(
          Stream.mapConcat(stream, (piece) => split(piece, fault.bytes ?? 1024)),
          1
        ),
        (piece) => Effect.as(Effect.sleep(fault.duration), piece)
      )
    case "duplicate":
      return Stream.mapConcat(stream, (piece) => Array.from({ length: Math.max(1, fault.times) }, () => piece))
    default:
      return stream
  }
}

const splitBytes = (bytes: Uint8Array, units: number): ReadonlyArray<Uint8Array> => {
  const pieces: Array<Uint8Array> = []
  for (let start = 0; start < bytes.length; start += Math.max(1, units)) {
    pieces.push(bytes.subarray(start, start + Math.max(1, units)))
  }
  return pieces
}

/**
 * Puts a plan to work. Each rule decides by its own count of matches, so that what one request meets does not depend on
 * the order in which concurrent ones of other rules come.
 */
export const make = (plan: Plan, options: { readonly seed: number }): Effect.Effect<Faults> =>
  Effect.sync(() => {
    const counts = plan.map(() => ({ matched: 0, fired: 0 }))
    const earlier = new Map<string, KubeReply>()
    let stopped = false

    const fires = (index: number, { often }: Rule): boolean => {
      const count = counts[index]
      if (count === undefined) return false
      count.matched += 1
      const yes =
        often === "always" ||
        (often === "once"
          ? count.fired < 1
          : "times" in often
            ? count.fired < often.times
            : Dice.make(Dice.mix(options.seed, index, count.matched)).chance(often.probability))
      if (yes) count.fired += 1
      return yes
    }

    /** The faults that hit this request now, the one closest to the server first. */
    const hits = (request: KubeRequest.KubeRequest): ReadonlyArray<Fault> =>
      stopped
        ? []
        : plan
            .flatMap((entry, index) => (matches(entry.match, request) && fires(index, entry) ? [entry.fault] : []))
            .toReversed()

    const transform = (transport: KubeTransport): KubeTransport => ({
      call: (request) =>
        Effect.suspend(() => {
          const faults = hits(request)
          const reads = request.verb === "get" || request.verb === "list"
          const key = reads ? question(request) : ""
          const before = Option.fromNullable(reads ? earlier.get(key) : undefined)
          const performed = Effect.tap(transport.call(request), (reply) =>
            // What was answered first stays what is stale: an answer from the cache is no newer
            Effect.sync(() => {
              if (reads && Option.isNone(before)) earlier.set(key, reply)
            })
          )
          return faults.reduce((answer, fault) => onCall(fault, request, answer, before), performed)
        }),
      watch: (request) =>
        Stream.suspend(() =>
          hits(request).reduce<Stream.Stream<WatchFrame, KubeError.KubeError>>(
            (stream, fault) =>
              onStream(
                fault,
                request,
                stream,
                () => 1,
                (frame) => frame,
                (frame) => [frame]
              ),
            transport.watch(request)
          )
        ),
      bytes: (request) =>
        Stream.suspend(() =>
          hits(request).reduce<Stream.Stream<Uint8Array, KubeError.KubeError>>(
            (stream, fault) =>
              onStream(
                fault._tag === "duplicate" ? { _tag: "delay", duration: 0 } : fault,
                request,
                stream,
                (bytes) => bytes.length,
                (bytes, units) => bytes.subarray(0, units),
                splitBytes
              ),
            transport.bytes(request)
          )
        )
    })

    return {
      transform,
      used: Effect.sync(() => plan.map((entry, index) => ({ rule: entry, matched: 0, fired: 0, ...counts[index] }))),
      stop: Effect.sync(() => {
        stopped = true
      })
    }
  })
