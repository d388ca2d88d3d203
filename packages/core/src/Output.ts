/**
 * Rank 0's output as a stream. A connection's end is never taken for the log's end: only the pod's state says that.
 *
 * Every request asks for `timestamps=true`, whatever the caller wants to see: that is what tells the lines of a program
 * from the sentences of a kubelet, and what makes a resumption exact. How lines are matched is `decide/LogResume`.
 *
 * Slow consumers: a kubelet whose follower does not read loses what it rotates away meanwhile, and ends the stream as if
 * nothing was wrong. So the connection is read ahead into a bounded buffer (64 chunks), then the socket waits: memory is
 * bounded and a short pause of the consumer costs nothing. After the container has ended its log is read once more from
 * the last line delivered, without `follow`; that brings what is missing, or tells it as a gap.
 *
 * @module
 */
import {
  Cause,
  Chunk,
  Clock,
  Effect,
  Either,
  Exit,
  Metric,
  Option,
  Queue,
  Random,
  type Scope,
  Stream,
  SubscriptionRef
} from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import { ErrNotFound, ErrUnsupported, missingPermission } from "./AdapterError.js"
import * as Execution from "./decide/Execution.js"
import * as LogResume from "./decide/LogResume.js"
import * as RankZero from "./decide/RankZero.js"
import * as Follow from "./kube/Follow.js"
import { KubeApi, type LogOptions } from "./kube/KubeApi.js"
import { type KubeError, type KubeForbidden, KubeInvalid, KubeNotFound, KubeUnavailable } from "./kube/KubeError.js"
import * as KubeRequest from "./kube/KubeRequest.js"
import * as Selector from "./kube/Selector.js"
import * as Batch from "./model/Batch.js"
import * as Core from "./model/Core.js"
import * as JobSet from "./model/JobSet.js"
import * as Trainer from "./model/Trainer.js"
import * as Telemetry from "./Telemetry.js"
import type { TrainJobRef } from "./TrainJobRef.js"

/** What to read. */
export interface Options {
  /** `Stderr` is never available: Kubernetes interleaves both streams in one log. Default `Stdout`. */
  readonly stream?: "Stdout" | "Stderr" | undefined
  /** Go on until the container has ended. Default: what there is now. */
  readonly follow?: boolean | undefined
  /**
   * With `follow`: wait for rank 0's pod to be created, too, instead of failing with `ErrNotFound`. Waiting for a pod's
   * container needs no option.
   */
  readonly awaitPod?: boolean | undefined
  /** Start that many records before the end. A line longer than 16 KiB is several records. */
  readonly tailLines?: number | undefined
  /** Start at this time, RFC 3339, exact. */
  readonly sinceTime?: string | undefined
  /** Stop after so many bytes of what is delivered. */
  readonly limitBytes?: number | undefined
  /** Begin each line with the time at which the node recorded it: 30 characters and a space. */
  readonly timestamps?: boolean | undefined
  /** Which rank: a completion index of the trainer's Job. Default 0. */
  readonly rank?: number | undefined
}

/** What happened to the output. */
export type OutputEvent =
  | { readonly _tag: "Bytes"; readonly bytes: Uint8Array }
  /**
   * Output may be missing here, of unknown size: between the line stamped `after` and the one stamped `before`, as far as
   * there are such lines. The line stamped `after` may itself have been cut, when nothing ends it.
   */
  | {
      readonly _tag: "Gap"
      readonly reason: string
      readonly after: string | undefined
      readonly before: string | undefined
    }
  /** The container was restarted in its pod; what follows is the new one's output from its start. */
  | { readonly _tag: "Restarted"; readonly containerID: string | undefined; readonly restartCount: number }
  | End

/** The last event of a stream that does not fail. */
export interface End {
  readonly _tag: "End"
  /** `complete`: all there was, without `follow`. `limit`: `limitBytes` was reached. */
  readonly how: "terminated" | "deleted" | "limit" | "complete"
  /** Of the container, as the kubelet reported it; undefined when that was not seen. */
  readonly exitCode: number | undefined
  readonly reason: string
}

/** How `output` and `outputLines` fail. */
export type OutputError = ErrUnsupported | ErrNotFound | KubeError

/** What happened to one rank's output. `Failed` is the rank's last event: the others go on. */
export interface RankEvent {
  readonly rank: number
  readonly event: OutputEvent | { readonly _tag: "Failed"; readonly error: OutputError }
}

/** Rank 0's output. */
export interface Service {
  /**
   * The bytes. A gap is a line of its own, `[output missing …]`: told in place, and without ending a run's output. Use
   * `outputEvents` to tell it from the program's own words.
   */
  readonly output: (ref: TrainJobRef, options?: Options) => Stream.Stream<Uint8Array, OutputError>
  /** The lines, without their newline, decoded as UTF-8 with broken characters replaced, and cut after 1 MiB. */
  readonly outputLines: (ref: TrainJobRef, options?: Options) => Stream.Stream<string, OutputError>
  /** Bytes, gaps, restarts and the end. The other two derive from it. */
  readonly outputEvents: (ref: TrainJobRef, options?: Options) => Stream.Stream<OutputEvent, OutputError>
  /**
   * The same for every rank of one execution at once, each rank's events in its order. `tailLines` and `limitBytes` are
   * those of each rank. One connection per rank while following, one watch for all of them; with `follow` a rank whose pod
   * does not exist yet is waited for. Fails only when there is no rank at all to read.
   */
  readonly outputRanks: (ref: TrainJobRef, options?: Omit<Options, "rank">) => Stream.Stream<RankEvent, OutputError>
}

/** Times, in milliseconds, and bounds. */
export interface Tuning {
  /** A follow that is silent for so long is compared with a read of the log's end; up to ten times as long when it stays so. */
  readonly idle: number
  /** How long a follow may go on after its container has ended. */
  readonly linger: number
  readonly minimumDelay: number
  readonly maximumDelay: number
  /** Failures in a row after which a plain read gives up. */
  readonly readAttempts: number
  /** Failures in a row after which the last read of a follow gives up. */
  readonly drainAttempts: number
  /** Chunks read ahead of the consumer. */
  readonly buffer: number
}

const defaults: Tuning = {
  idle: 30_000,
  linger: 5_000,
  minimumDelay: 500,
  maximumDelay: 30_000,
  readAttempts: 3,
  drainAttempts: 6,
  buffer: 64
}

/** What a reader does not see and a person may want to know: nothing comes now, and why. */
export interface Interruption {
  readonly error: KubeError
  /** In milliseconds. */
  readonly retryIn: number
}

/** Options of the program. */
export interface ProgramOptions extends Partial<Tuning> {
  /** Called before each new attempt of a read that cannot reach the log. By default it is logged, at level debug. */
  readonly onInterrupted?: ((interruption: Interruption) => Effect.Effect<void>) | undefined
}

/** An interruption in a sentence. */
export const describeInterruption = ({ error, retryIn }: Interruption): string =>
  `no output can be read now, next attempt in ${retryIn} ms: ${error.message}`

/** A connection that lived so long was of use, even without a byte: a quiet log behind a proxy with an idle limit. */
const usefulConnection = 10_000
/** A pod's status follows its container by up to about a second. */
const statusLag = 2_000

interface Located extends Execution.PodRecord {
  readonly pod: Core.Pod
}

interface Target {
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

/** What the watch on the pod knows. */
interface View {
  readonly pod: Core.Pod | undefined
  readonly gone: boolean
  readonly failure: KubeError | undefined
}

/** How a connection ended. */
type Ending =
  | { readonly _tag: "Closed" }
  | { readonly _tag: "Failed"; readonly error: KubeError }
  /** The kubelet said something in place of the log, or behind it. */
  | { readonly _tag: "Kubelet"; readonly text: string; readonly whole: boolean }
  /** Nothing more comes although there is more, or the container has ended. */
  | { readonly _tag: "Left" }
  /** The answer belongs to another instance of the container. */
  | { readonly _tag: "Moved" }
  | { readonly _tag: "Limit" }

/** Watches one pod until the scope closes, so that its last state is known even when it is deleted. */
type Track = (target: Target, pod: Core.Pod) => Effect.Effect<SubscriptionRef.SubscriptionRef<View>, never, Scope.Scope>

/** What one look at the cluster shows of a TrainJob. */
interface Look {
  readonly facts: Execution.Facts<Located>
  /** The trainer's, undefined when nothing is left to tell. */
  readonly replicatedJob: string | undefined
  readonly completions: ReadonlyMap<string, number>
}

/** So many ranks are read at once when nothing is followed. */
const ranksAtOnce = 16

/** Ranks that wait for their pods look at the cluster together. */
const lookFor = "250 millis"

interface Connection {
  readonly ending: Ending
  readonly useful: boolean
}

const unreadablePermission = (error: KubeForbidden): ErrUnsupported => {
  const { remedy, request, resource } = error
  return missingPermission(error, {
    operation: "output",
    reason: `the permission to ${request.verb} ${resource} is missing`,
    remedy
  })
}

const fromKube = (error: KubeError): ErrUnsupported | KubeError =>
  error._tag === "KubeForbidden" ? unreadablePermission(error) : error

const invalidOption = (option: string, problem: string, remedy: string): ErrUnsupported =>
  new ErrUnsupported({
    operation: "output",
    reason: `the option ${option} cannot be used`,
    details: [{ id: `option-${option}`, where: option, problem, remedy }]
  })

const noLog = (target: Target, reason: string): ErrNotFound =>
  new ErrNotFound({ kind: "Log", name: target.name, namespace: target.namespace, reason })

const podKind = (rank: number): string => (rank === 0 ? "RankZeroPod" : `Rank${rank}Pod`)

/** Why there is no log, where the answer says that there is none; undefined for an answer that says something else. */
const missingLog = (error: KubeError): { readonly waits: boolean; readonly reason: string } | undefined => {
  if (error instanceof KubeNotFound) {
    if (error.subject === "log") return { waits: true, reason: "the pod is not scheduled yet" }
    return error.subject === "object" ? { waits: false, reason: "the pod is deleted" } : undefined
  }
  if (!(error instanceof KubeInvalid)) return undefined
  const said = error.status?.message ?? ""
  // https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/: the kubelet answers 400 for each of these states
  if (/is waiting to start: /.test(said)) return { waits: true, reason: said }
  if (/^container .* is terminated$|^previous terminated container /.test(said)) return { waits: false, reason: said }
  return undefined
}

/** Whether asking again can help. A Node that is missing, or a kubelet that is just starting, says nothing of the pod. */
const isTransient = (error: KubeError): boolean =>
  error instanceof KubeUnavailable || (error instanceof KubeNotFound && error.subject === "node")

const why = (state: RankZero.ContainerState): string =>
  "reason" in state && state.reason !== "" ? state.reason : "no reason given"

const gone: Option.Option<never> = Option.none()

/** The events of pieces that are bytes, all within the limit; undefined when there is something else among them. */
const wholeBytes = (
  pieces: ReadonlyArray<LogResume.Piece>,
  limit: number
): { readonly events: ReadonlyArray<OutputEvent>; readonly size: number } | undefined => {
  const events: Array<OutputEvent> = []
  let size = 0
  for (const piece of pieces) {
    if (piece._tag !== "Bytes") return undefined
    size += piece.bytes.length
    events.push(piece)
  }
  return size > limit ? undefined : { events, size }
}

/** What goes through the buffer: events, and at last how it ended. */
type Told = OutputEvent | { readonly _tag: "Finished"; readonly how: Effect.Effect<never, Option.Option<OutputError>> }

/** Takes all there is from the buffer at once, up to the end. */
const fromBuffer = (queue: Queue.Dequeue<Told>, size: number): Stream.Stream<OutputEvent, OutputError> =>
  Stream.suspend(() => {
    let finished: Effect.Effect<never, Option.Option<OutputError>> | undefined
    return Stream.repeatEffectChunkOption(
      Effect.suspend(() => {
        if (finished !== undefined) return finished
        return Effect.flatMap(Queue.takeBetween(queue, 1, size), (told) => {
          const events: Array<OutputEvent> = []
          for (const item of told) {
            if (item._tag === "Finished") finished = item.how
            else events.push(item)
          }
          return finished !== undefined && events.length === 0
            ? finished
            : Effect.succeed(Chunk.unsafeFromArray(events))
        })
      })
    )
  })

/** Builds the output programs over the `KubeApi` of the context. */
export const make = (
  config: Pick<AdapterConfig, "inPlaceRestarts">,
  options: ProgramOptions = {}
): Effect.Effect<Service, never, KubeApi> =>
  Effect.map(KubeApi, (api): Service => {
    const { idle, linger, minimumDelay, maximumDelay, readAttempts, drainAttempts, buffer } = {
      ...defaults,
      ...options
    }
    const onInterrupted =
      options.onInterrupted ?? ((interruption) => Effect.logDebug(describeInterruption(interruption)))

    const absent = <A>(effect: Effect.Effect<A, KubeError>): Effect.Effect<Option.Option<A>, KubeError> =>
      Effect.catchIf(
        Effect.asSome(effect),
        (error) => error instanceof KubeNotFound && error.subject === "object",
        () => Effect.succeed(gone)
      )

    /** One read of the TrainJob, one of its JobSet, one list each of its Jobs and pods. */
    const lookAt = Effect.fn("Output.locate")(function* (ref: TrainJobRef) {
      const { namespace, name } = ref
      const found = yield* absent(api.get(Trainer.trainJobs, { namespace, name }))
      const missing = (reason: string): ErrNotFound => new ErrNotFound({ kind: "TrainJob", name, namespace, reason })
      if (Option.isNone(found)) return yield* missing("there is no such TrainJob")
      const trainJob = found.value
      if (ref.uid !== undefined && ref.uid !== trainJob.metadata.uid) {
        return yield* missing(`the TrainJob of that name has uid ${trainJob.metadata.uid}, not ${ref.uid}`)
      }
      const labels = Selector.labels({ [JobSet.jobSetNameLabel]: name })
      const [jobSet, jobs, pods] = yield* Effect.all([
        absent(api.get(JobSet.jobSets, { namespace, name })),
        api.list(Batch.jobs, { namespace, labels }),
        api.list(Core.pods, { namespace, labels })
      ])
      const jobSets = Option.toArray(jobSet)
      const trainer = RankZero.trainerReplicatedJob(trainJob.metadata.uid, jobSets, jobs.items)
      if (Either.isLeft(trainer)) {
        return yield* new ErrUnsupported({
          operation: "output",
          reason: "the runtime does not say where rank 0 is",
          details: [
            {
              id: "trainer-step",
              where: `JobSet/${name} spec.replicatedJobs[].template.metadata.labels`,
              problem: trainer.left,
              remedy: `label exactly one with ${Trainer.ancestorStepLabel}=trainer`
            }
          ]
        })
      }
      const look: Look = {
        facts: {
          trainJob: { ...Execution.trainJobRecord(trainJob), namespace },
          jobSets: jobSets.map(Execution.jobSetRecord),
          jobs: jobs.items.map(Execution.jobRecord),
          pods: pods.items.map((pod) => ({ ...Execution.podRecord(pod), namespace, pod }))
        },
        replicatedJob: trainer.right,
        completions: new Map(
          jobs.items.flatMap(({ metadata, spec }) => {
            const count = spec?.completions ?? spec?.parallelism
            return count === undefined || count === null ? [] : [[metadata.uid, count] as const]
          })
        )
      }
      return look
    })
    type LookError = Effect.Effect.Error<ReturnType<typeof lookAt>>

    const delay = (failures: number, wish?: number): Effect.Effect<number> =>
      Effect.map(Random.next, (random) => {
        const ceiling = Math.min(maximumDelay, minimumDelay * 2 ** Math.min(failures, 16))
        return Math.round(Math.max(wish ?? 0, minimumDelay + random * (ceiling - minimumDelay)))
      })

    const waitAfter = (error: KubeError, failures: number): Effect.Effect<void> =>
      Effect.flatMap(delay(failures, error instanceof KubeUnavailable ? error.retryAfter : undefined), (retryIn) =>
        Effect.zipRight(onInterrupted({ error, retryIn }), Effect.sleep(retryIn))
      )

    /** The pod of a rank. `start`: of that start alone, see `RankZero.startOf`. */
    const found = (
      ref: TrainJobRef,
      options: Options,
      look: Effect.Effect<Look, LookError> = lookAt(ref),
      start?: string
    ): Effect.Effect<Located, OutputError> =>
      Effect.gen(function* () {
        const rank = options.rank ?? 0
        for (let failures = 0; ; failures++) {
          const looked = yield* Effect.either(look)
          if (Either.isLeft(looked)) {
            const error = looked.left
            if (error._tag === "ErrNotFound" || error._tag === "ErrUnsupported") return yield* error
            if (!isTransient(error) || options.follow !== true || options.awaitPod !== true) {
              return yield* fromKube(error)
            }
            yield* waitAfter(error, failures)
            continue
          }
          const answer = RankZero.choose(looked.right.facts, looked.right.replicatedJob, rank)
          if (
            start !== undefined &&
            answer._tag !== "Ambiguous" &&
            answer.execution !== undefined &&
            RankZero.startOf(answer.execution) !== start
          ) {
            return yield* new ErrNotFound({
              kind: podKind(rank),
              name: ref.name,
              namespace: ref.namespace,
              reason: `its execution is over and rank ${rank} has left no pod`
            })
          }
          switch (answer._tag) {
            case "Found":
              return answer.pod
            case "Ambiguous":
              return yield* new ErrUnsupported({
                operation: "output",
                reason: `rank ${rank} cannot be told from other pods`,
                details: [
                  {
                    id: "rank-zero",
                    where: `TrainJob/${ref.name}`,
                    problem: answer.reason,
                    remedy: "name the pod by hand, or wait until one of them is gone"
                  }
                ]
              })
            case "NoneYet":
              if (options.follow === true && options.awaitPod === true) {
                yield* Effect.sleep(yield* delay(Math.min(failures, 4)))
                continue
              }
              break
            case "Gone":
              break
          }
          return yield* new ErrNotFound({
            kind: podKind(rank),
            name: ref.name,
            namespace: ref.namespace,
            reason: answer.reason
          })
        }
      })

    /** With one watch for the pod. */
    const trackOne: Track = (target, pod) =>
      Effect.gen(function* () {
        const view = yield* SubscriptionRef.make<View>({ pod, gone: false, failure: undefined })
        const see = (change: Partial<View>): Effect.Effect<void> =>
          SubscriptionRef.update(view, (before) => ({ ...before, ...change }))
        const ours = (candidate: Core.Pod): boolean => candidate.metadata.uid === target.uid
        yield* Follow.follow(api, Core.pods, {
          namespace: target.namespace,
          fields: Selector.fields({ "metadata.name": target.name })
        }).pipe(
          Stream.runForEach((event) => {
            switch (event._tag) {
              case "Snapshot": {
                const present = event.objects.find(ours)
                if (present !== undefined) return see({ pod: present })
                return event.undecodable.length > 0 ? Effect.void : see({ gone: true })
              }
              case "Applied":
                return see(ours(event.object) ? { pod: event.object } : { gone: true })
              case "Deleted":
                return ours(event.object) ? see({ pod: event.object, gone: true }) : Effect.void
              case "Undecodable":
              case "Interrupted":
                return Effect.void
            }
          }),
          Effect.catchAll((failure) => see({ failure })),
          Effect.forkScoped
        )
        return view
      })

    /** With one watch for all pods of a TrainJob, until the scope closes. */
    const trackAll = ({ namespace, name }: TrainJobRef): Effect.Effect<Track, never, Scope.Scope> =>
      Effect.gen(function* () {
        const views = new Map<string, SubscriptionRef.SubscriptionRef<View>>()
        // What was seen before a rank asked: its pod may be gone by then
        const last = new Map<string, View>()
        const see = (uid: string, change: Partial<View>): Effect.Effect<void> => {
          const view = views.get(uid)
          const before = last.get(uid) ?? { pod: undefined, gone: false, failure: undefined }
          last.set(uid, { ...before, ...change })
          return view === undefined ? Effect.void : SubscriptionRef.update(view, (it) => ({ ...it, ...change }))
        }
        yield* Follow.follow(api, Core.pods, {
          namespace,
          labels: Selector.labels({ [JobSet.jobSetNameLabel]: name })
        }).pipe(
          Stream.runForEach((event): Effect.Effect<void> => {
            switch (event._tag) {
              case "Snapshot": {
                const present = new Map(event.objects.map((pod) => [pod.metadata.uid, pod] as const))
                const unreadable = event.undecodable.length > 0
                return Effect.zipRight(
                  Effect.forEach(present, ([uid, pod]) => see(uid, { pod }), { discard: true }),
                  Effect.forEach(
                    unreadable ? [] : [...last.keys(), ...views.keys()].filter((uid) => !present.has(uid)),
                    (uid) => see(uid, { gone: true }),
                    { discard: true }
                  )
                )
              }
              case "Applied":
                return see(event.object.metadata.uid, { pod: event.object })
              case "Deleted":
                return see(event.object.metadata.uid, { pod: event.object, gone: true })
              case "Undecodable":
              case "Interrupted":
                return Effect.void
            }
          }),
          Effect.catchAll((failure) =>
            Effect.suspend(() => Effect.forEach([...views.keys()], (uid) => see(uid, { failure }), { discard: true }))
          ),
          Effect.forkScoped
        )
        return (target, pod) =>
          Effect.gen(function* () {
            const known = last.get(target.uid)
            const view = yield* SubscriptionRef.make<View>({ pod, gone: false, failure: undefined, ...known })
            yield* Effect.acquireRelease(
              Effect.sync(() => views.set(target.uid, view)),
              () => Effect.sync(() => views.delete(target.uid))
            )
            return view
          })
      })

    /** Everything after the pod is known. Tells what it finds through `emitAll`, which waits while the buffer is full. */
    const read = Effect.fn("Output.read")(function* (
      target: Target,
      found: Core.Pod,
      options: Options,
      from: string | undefined,
      emitAll: (events: ReadonlyArray<OutputEvent>) => Effect.Effect<void>,
      track: Track
    ) {
      const emit = (event: OutputEvent): Effect.Effect<void> =>
        event._tag === "Gap"
          ? Effect.zipRight(Metric.increment(Telemetry.outputGaps), emitAll([event]))
          : emitAll([event])
      const follow = options.follow === true
      const newReader = (): LogResume.Reader => LogResume.make({ timestamps: options.timestamps, from })
      let reader = newReader()
      let left = options.limitBytes ?? Number.POSITIVE_INFINITY
      let firstInstance = true
      let fromStart = false
      // Nothing but a restart lets one pod's log be another instance's
      const mayRestart = found.spec?.restartPolicy !== "Never"
      let isProven = false
      let deliveredAny = false
      let mutedAt: string | undefined
      let current: RankZero.Instance | undefined

      const view = follow ? yield* track(target, found) : undefined
      const seen = (matches: (view: View) => boolean): Effect.Effect<View> =>
        view === undefined
          ? Effect.never
          : Effect.flatMap(
              Stream.runHead(Stream.filter(view.changes, matches)),
              Option.match({
                onNone: () => Effect.never,
                onSome: Effect.succeed
              })
            )
      /** The container has ended, its pod is gone, or the watch has: whatever it is, a follow need not wait longer. */
      const isOver = (now: View): boolean => {
        if (now.gone || now.failure !== undefined) return true
        const state = now.pod === undefined ? undefined : RankZero.containerState(now.pod)
        if (state === undefined || state._tag === "Waiting") return false
        if (current === undefined || state.instance === undefined) return state._tag === "Ended"
        // A watch that is behind still shows the instance before: waiting for it would be no waiting at all
        if (state.instance.restartCount < current.restartCount) return false
        return state._tag === "Ended" || !RankZero.sameInstance(state.instance, current)
      }

      /** The pod as the API server has it now; none when it, or the pod under its name, is another. */
      const inspect: Effect.Effect<Option.Option<Core.Pod>, OutputError> = Effect.gen(function* () {
        for (let failures = 0; ; failures++) {
          const result = yield* Effect.either(
            absent(api.get(Core.pods, { namespace: target.namespace, name: target.name }))
          )
          if (Either.isRight(result)) return Option.filter(result.right, (pod) => pod.metadata.uid === target.uid)
          const error = result.left
          if (!isTransient(error) || (!follow && failures + 1 >= readAttempts)) return yield* fromKube(error)
          yield* waitAfter(error, failures)
        }
      })

      /** Whether the status shows an instance now that stands so to the one that is read. */
      const shows = (
        matches: (now: RankZero.Instance, read: RankZero.Instance) => boolean
      ): Effect.Effect<boolean, OutputError> =>
        Effect.map(inspect, (pod) => {
          if (Option.isNone(pod) || current === undefined) return false
          const state = RankZero.containerState(pod.value)
          return state._tag !== "Waiting" && state.instance !== undefined && matches(state.instance, current)
        })

      /** Whether the container was restarted meanwhile, as far as its status says. */
      const isAnother = shows((now, read) => !RankZero.sameInstance(now, read))

      /** Whether there was more than one restart since: then the log of the previous instance is another's. */
      const isBeforeLast = shows((now, read) => now.restartCount > read.restartCount + 1)

      /** The same as `isAnother`; a status that lags gets a second chance. */
      const hasMoved: Effect.Effect<boolean, OutputError> = Effect.gen(function* () {
        if (yield* isAnother) return true
        if (!mayRestart) return false
        yield* Effect.sleep(statusLag)
        return yield* isAnother
      })

      const deliver = (
        pieces: ReadonlyArray<LogResume.Piece>,
        previous: boolean
      ): Effect.Effect<Ending | undefined, OutputError> =>
        Effect.gen(function* () {
          // A connection that was opened before the status said so may be another instance's, and so may the log of the
          // instance before
          if (mayRestart && follow && !isProven && pieces.some(({ _tag }) => _tag === "Bytes")) {
            if (yield* previous ? isBeforeLast : isAnother) {
              reader = newReader()
              return { _tag: "Moved" }
            }
            isProven = true
          }
          // Nearly always there is nothing but bytes
          const whole = wholeBytes(pieces, left)
          if (whole !== undefined) {
            left -= whole.size
            if (whole.events.length === 0) return undefined
            deliveredAny = true
            yield* emitAll(whole.events)
            return left <= 0 ? { _tag: "Limit" } : undefined
          }
          for (const piece of pieces) {
            switch (piece._tag) {
              case "Bytes": {
                const bytes = piece.bytes.length > left ? piece.bytes.subarray(0, left) : piece.bytes
                left -= bytes.length
                deliveredAny = true
                if (bytes.length > 0) yield* emit({ _tag: "Bytes", bytes })
                if (left <= 0) return { _tag: "Limit" }
                break
              }
              case "Discontinuity":
                if (follow && (yield* previous ? isBeforeLast : hasMoved)) {
                  reader.takeBack()
                  return { _tag: "Moved" }
                }
                yield* emit({
                  _tag: "Gap",
                  reason:
                    piece.before === undefined
                      ? "the log was rotated or cut at its end, so whether lines are missing cannot be told"
                      : "the log was rotated while it was not being read",
                  after: piece.after,
                  before: piece.before
                })
                break
              case "Kubelet":
                return { _tag: "Kubelet", text: piece.text, whole: piece.whole }
            }
          }
          return undefined
        })

      const request = (how: { readonly follow: boolean; readonly previous: boolean }): LogOptions => {
        const resumeFrom = reader.resumeFrom()
        return {
          container: Trainer.trainerContainer,
          timestamps: true,
          ...(how.follow ? { follow: true } : {}),
          ...(how.previous ? { previous: true } : {}),
          ...(resumeFrom !== undefined
            ? { sinceTime: resumeFrom }
            : {
                sinceTime: from,
                // An instance after a restart is read from its start
                tailLines: firstInstance && !fromStart ? options.tailLines : undefined
              })
        }
      }

      /** The stamp of the newest record, as far as it can be had. */
      const newestStamp = (previous: boolean): Effect.Effect<string | undefined, OutputError> =>
        api
          .log(target, {
            container: Trainer.trainerContainer,
            timestamps: true,
            tailLines: 1,
            ...(previous ? { previous } : {})
          })
          .pipe(
            Stream.runFoldWhile(
              "",
              (head) => head.length < 30,
              (head, bytes) => head + String.fromCharCode(...bytes.subarray(0, 30))
            ),
            Effect.map((head) => LogResume.stampOf(head.slice(0, 30))),
            Effect.timeout(idle),
            Effect.catchAll((error) =>
              error._tag === "KubeForbidden" ? Effect.fail(unreadablePermission(error)) : Effect.succeed(undefined)
            )
          )

      /** A silent follow is dead when the log has a line that it did not bring (a kubelet that missed a rotation). */
      const isMuted: Effect.Effect<boolean, OutputError> = Effect.map(newestStamp(false), (newest) => {
        const last = reader.last()
        if (newest === undefined || newest === mutedAt || (last !== undefined && newest <= last)) return false
        mutedAt = newest
        return true
      })

      const silent: KubeError = new KubeUnavailable({
        request: KubeRequest.make("get", Core.pods, {
          namespace: target.namespace,
          name: target.name,
          subresource: "log"
        }),
        phase: "silence",
        detail: `nothing for ${Math.round(idle / 1000)} s`
      })

      /** Reads one connection to its end, whatever that is. */
      const connect = (how: {
        readonly follow: boolean
        readonly previous: boolean
        readonly final: boolean
      }): Effect.Effect<Connection, OutputError> =>
        Effect.scoped(
          Effect.gen(function* () {
            const clock = yield* Effect.clock
            const openedAt = clock.unsafeCurrentTimeMillis()
            const asked = request(how)
            reader.open({ tail: asked.tailLines !== undefined })
            const pull = yield* Stream.toPull(api.log(target, asked))
            let brought = false
            let activeAt = openedAt
            // The two fibers below share these; each is written between suspensions only. A connection is given up only
            // while it waits for bytes, and what still arrives then is left to the next one: nothing counts as delivered
            // that was not handed on
            let waiting = false
            let abandoned = false

            const reading: Effect.Effect<Ending, OutputError> = Effect.gen(function* () {
              for (;;) {
                waiting = true
                const taken = yield* Effect.exit(pull)
                waiting = false
                if (abandoned) return yield* Effect.never
                if (Exit.isSuccess(taken)) {
                  const before = brought ? undefined : reader.last()
                  const ending = yield* deliver(reader.pushAll(taken.value), how.previous)
                  if (ending !== undefined) return ending
                  if (!brought) brought = reader.last() !== before
                  activeAt = clock.unsafeCurrentTimeMillis()
                  continue
                }
                const failure = Cause.failureOption(taken.cause)
                if (Option.isNone(failure)) return yield* Effect.failCause(Cause.map(taken.cause, () => silent))
                if (Option.isSome(failure.value)) {
                  reader.close(false)
                  return { _tag: "Failed", error: failure.value.value }
                }
                const ending = yield* deliver(reader.close(how.final), how.previous)
                return ending ?? { _tag: "Closed" }
              }
            })

            const isQuiet = (limit: number): Effect.Effect<boolean> =>
              Effect.map(Clock.currentTimeMillis, (now) => waiting && now - activeAt >= limit)
            const remaining = (limit: number): Effect.Effect<number> =>
              Effect.map(Clock.currentTimeMillis, (now) => Math.max(1, waiting ? activeAt + limit - now : limit))
            const abandon = (ending: Ending): Ending => {
              abandoned = true
              reader.close(false)
              return ending
            }
            const watching: Effect.Effect<Ending, OutputError> = Effect.gen(function* () {
              if (!how.follow) {
                for (;;) {
                  yield* Effect.sleep(yield* remaining(idle))
                  if (yield* isQuiet(idle)) return abandon({ _tag: "Failed", error: silent })
                }
              }
              const looking = Effect.gen(function* () {
                let patience = idle
                for (;;) {
                  yield* Effect.sleep(yield* remaining(patience))
                  if (!(yield* isQuiet(patience))) {
                    patience = idle
                    continue
                  }
                  if ((yield* isMuted) && (yield* isQuiet(patience))) return true
                  // A log that is quiet by itself is asked about less and less often
                  if (yield* isQuiet(patience)) activeAt = yield* Clock.currentTimeMillis
                  patience = Math.min(patience * 2, idle * 10)
                }
              })
              if (yield* Effect.raceFirst(looking, Effect.as(seen(isOver), false))) return abandon({ _tag: "Left" })
              activeAt = yield* Clock.currentTimeMillis
              for (;;) {
                yield* Effect.sleep(yield* remaining(linger))
                if (yield* isQuiet(linger)) return abandon({ _tag: "Left" })
              }
            })

            const ending = yield* Effect.raceFirst(reading, watching)
            const now = yield* Clock.currentTimeMillis
            return { ending, useful: brought || now - openedAt >= usefulConnection }
          })
        )

      const end = (how: End["how"], exitCode: number | undefined, reason: string): Effect.Effect<void> =>
        emit({ _tag: "End", how, exitCode, reason })

      /** The rest cannot be had. Without a byte delivered that is the whole answer, unless another instance follows. */
      const lost = (
        reason: string,
        isFollowed = false,
        otherwise: OutputError = noLog(target, reason)
      ): Effect.Effect<void, OutputError> =>
        deliveredAny || !firstInstance || isFollowed
          ? emit({ _tag: "Gap", reason, after: reader.last(), before: undefined })
          : Effect.fail(otherwise)

      /**
       * Reads what there is, once, without `follow`; a connection that fails is resumed. Tells what cannot be read.
       * `limit` when the limit was reached.
       */
      const drain = (previous: boolean): Effect.Effect<"done" | "limit" | "moved", OutputError> =>
        Effect.gen(function* () {
          let verified = false
          for (let failures = 0; ; failures++) {
            const { ending, useful } = yield* connect({ follow: false, previous, final: true })
            if (useful) failures = 0
            switch (ending._tag) {
              case "Closed":
              case "Left": {
                // A kubelet connection that breaks looks like an orderly end, here too
                const newest = verified ? undefined : yield* newestStamp(previous)
                if (newest === undefined || newest === reader.last()) return "done"
                verified = true
                break
              }
              case "Limit":
                return "limit"
              case "Moved":
                return "moved"
              case "Kubelet":
                yield* lost(ending.text, previous)
                return "done"
              case "Failed": {
                const { error } = ending
                const missing = missingLog(error)
                if (missing !== undefined) {
                  yield* lost(missing.reason, previous)
                  return "done"
                }
                if (!isTransient(error)) return yield* fromKube(error)
                if (failures + 1 >= drainAttempts) {
                  yield* lost(`the end of the log cannot be read: ${error.message}`, previous, fromKube(error))
                  return "done"
                }
                yield* waitAfter(error, failures)
              }
            }
          }
        })

      const readOnce: Effect.Effect<void, OutputError> = Effect.gen(function* () {
        const state = RankZero.containerState(found)
        const ended = state._tag === "Ended" ? state : undefined
        let verified = ended !== undefined
        for (let failures = 0; ; failures++) {
          const { ending, useful } = yield* connect({ follow: false, previous: false, final: true })
          if (useful) failures = 0
          switch (ending._tag) {
            case "Limit":
              return yield* end("limit", undefined, "limitBytes was reached")
            case "Kubelet":
              return yield* noLog(target, ending.text)
            case "Failed": {
              const { error } = ending
              const missing = missingLog(error)
              if (missing !== undefined) {
                return yield* noLog(target, ended === undefined ? missing.reason : `${missing.reason} (${why(ended)})`)
              }
              if (!isTransient(error) || failures + 1 >= readAttempts) return yield* fromKube(error)
              yield* waitAfter(error, failures)
              break
            }
            case "Closed":
            case "Left":
            case "Moved":
              // A running container's log is served by whole lines: one that stops in the middle of a line was cut on the
              // way, which looks like an orderly end
              if (!verified && reader.inLine()) {
                verified = true
                break
              }
              return yield* end("complete", ended?.exitCode, ended?.reason ?? "all there was")
          }
        }
      })

      /** The pod is gone: what its watch saw last says how. */
      const finishDeleted = (orderly: boolean): Effect.Effect<void, OutputError> =>
        Effect.gen(function* () {
          const last = yield* Effect.timeoutOption(
            seen((now) => now.gone),
            statusLag
          )
          const pod = Option.getOrUndefined(last)?.pod
          const state = pod === undefined ? undefined : RankZero.containerState(pod)
          const ended = state?._tag === "Ended" && state.exitCode !== undefined ? state : undefined
          if (!orderly || ended === undefined) yield* lost("the pod was deleted before the end of its log was seen")
          yield* end("deleted", ended?.exitCode, ended?.reason ?? "the pod is deleted")
        })

      /** Waits for the instance after one that ended; none when there will not be one. */
      const nextInstance = (
        before: RankZero.Instance | undefined
      ): Effect.Effect<Option.Option<Core.Pod>, OutputError> =>
        Effect.gen(function* () {
          const now = yield* seen((it) => {
            if (it.gone || it.failure !== undefined) return true
            if (it.pod === undefined) return false
            const state = RankZero.containerState(it.pod)
            if (state._tag === "Waiting") return false
            const other =
              state.instance !== undefined && (before === undefined || !RankZero.sameInstance(state.instance, before))
            return other || (state._tag === "Ended" && !state.mayRestart)
          })
          if (now.failure !== undefined) return yield* fromKube(now.failure)
          return now.gone ? Option.none() : Option.fromNullable(now.pod)
        })

      const moveTo = (instance: RankZero.Instance): Effect.Effect<void> =>
        Effect.gen(function* () {
          const skipped = instance.restartCount - (current?.restartCount ?? instance.restartCount) - 1
          if (skipped > 0) {
            yield* emit({
              _tag: "Gap",
              reason: `${skipped} restart${skipped === 1 ? "" : "s"} in between came and went unread`,
              after: reader.last(),
              before: undefined
            })
          }
          reader = newReader()
          isProven = false
          firstInstance = false
          mutedAt = undefined
          current = instance
          yield* emit({ _tag: "Restarted", containerID: instance.containerID, restartCount: instance.restartCount })
        })

      /**
       * For `tailLines=0`: without a line to resume from, what is written while a first connection is cut would be lost.
       * So the last record there is counts as delivered, and all that follows it is read.
       */
      const prime: Effect.Effect<void, OutputError> = Effect.gen(function* () {
        const asked = { container: Trainer.trainerContainer, timestamps: true, tailLines: 1 }
        const record = yield* Effect.either(
          Stream.runFold(api.log(target, asked), new Uint8Array(0), (before, chunk) => {
            const after = new Uint8Array(before.length + chunk.length)
            after.set(before)
            after.set(chunk, before.length)
            return after
          })
        )
        if (Either.isRight(record)) {
          reader.prime(record.right)
          fromStart = record.right.length === 0
        } else if (record.left._tag === "KubeForbidden") return yield* unreadablePermission(record.left)
        else fromStart = missingLog(record.left)?.waits === true
      })

      const followLog: Effect.Effect<void, OutputError> = Effect.gen(function* () {
        if (options.tailLines === 0) yield* prime
        let failures = 0
        for (;;) {
          const watched = view === undefined ? undefined : yield* SubscriptionRef.get(view)
          if (watched?.failure !== undefined) return yield* fromKube(watched.failure)
          const pod = yield* inspect
          if (Option.isNone(pod)) return yield* finishDeleted(false)
          const state = RankZero.containerState(pod.value)
          if (state._tag === "Waiting") {
            // Its status will change; the clock is there for a status that does not
            yield* Effect.race(
              Effect.asVoid(
                seen(
                  (now) => now.gone || (now.pod !== undefined && RankZero.containerState(now.pod)._tag !== "Waiting")
                )
              ),
              Effect.sleep(maximumDelay)
            )
            continue
          }
          if (state.instance === undefined) {
            return yield* noLog(target, `container "${Trainer.trainerContainer}" never started: ${why(state)}`)
          }
          current ??= state.instance
          const same = RankZero.sameInstance(state.instance, current)
          const startedAt = state.instance.startedAt?.slice(0, 19) ?? ""
          if (!same && startedAt !== "" && (reader.first() ?? "") >= startedAt) {
            // The status was behind: what was read is this instance's log already
            current = state.instance
            continue
          }
          if (!same) {
            const next = state.instance
            if (next.restartCount === current.restartCount + 1) {
              const drained = yield* drain(true)
              if (drained === "limit") return yield* end("limit", undefined, "limitBytes was reached")
              if (drained === "moved") continue
            } else if (reader.last() !== undefined) yield* lost("the container was restarted, its log is gone", true)
            if (config.inPlaceRestarts === "refuse") {
              const last = pod.value.status?.containerStatuses?.find(({ name }) => name === Trainer.trainerContainer)
                ?.lastState?.terminated
              return yield* end("terminated", last?.exitCode, last?.reason ?? "restarted in its pod")
            }
            yield* moveTo(next)
            failures = 0
            continue
          }
          if (state._tag === "Ended") {
            const drained = yield* drain(false)
            if (drained === "limit") return yield* end("limit", undefined, "limitBytes was reached")
            // What was read may be the next instance's already, and then this one's end is the previous log's
            if (drained === "moved" || (state.mayRestart && (yield* isAnother))) continue
            if (!state.mayRestart || config.inPlaceRestarts === "refuse") {
              return yield* end("terminated", state.exitCode, state.reason)
            }
            const next = yield* nextInstance(current)
            if (Option.isNone(next)) return yield* end("deleted", state.exitCode, state.reason)
            const after = RankZero.containerState(next.value)
            if (
              after._tag === "Waiting" ||
              after.instance === undefined ||
              RankZero.sameInstance(after.instance, current)
            ) {
              return yield* end("terminated", state.exitCode, state.reason)
            }
            yield* moveTo(after.instance)
            failures = 0
            continue
          }

          const { ending, useful } = yield* connect({ follow: true, previous: false, final: false })
          failures = useful ? 0 : failures + 1
          let failure: KubeError | undefined
          switch (ending._tag) {
            case "Limit":
              return yield* end("limit", undefined, "limitBytes was reached")
            case "Failed": {
              const { error } = ending
              const missing = missingLog(error)
              if (missing === undefined && !isTransient(error)) return yield* fromKube(error)
              if (missing === undefined) failure = error
              break
            }
            case "Kubelet":
              if (ending.whole && LogResume.isUnreadable(ending.text) && !deliveredAny) {
                return yield* noLog(target, ending.text)
              }
              break
            case "Closed":
            case "Left":
            case "Moved":
              break
          }
          const after = yield* inspect
          if (Option.isNone(after)) return yield* finishDeleted(ending._tag === "Closed")
          // Ended, restarted: the next round deals with it at once. Still running: the connection was cut
          const now = RankZero.containerState(after.value)
          const goesOn = now._tag === "Running" && RankZero.sameInstance(now.instance, current)
          if (goesOn && ending._tag !== "Left") {
            // One cut is nothing to tell: the next connection brings what is missing
            const pause =
              failure === undefined || failures === 0
                ? Effect.flatMap(delay(failures), Effect.sleep)
                : waitAfter(failure, failures)
            yield* Effect.race(pause, Effect.asVoid(seen(isOver)))
          } else if (now._tag === "Waiting") yield* Effect.flatMap(delay(failures), Effect.sleep)
        }
      })

      return yield* follow ? followLog : readOnce
    })

    /** Why the options cannot be used, or from when to read. */
    const checked = (options: Options): Either.Either<string | undefined, ErrUnsupported> => {
      if (options.stream === "Stderr") {
        return Either.left(
          new ErrUnsupported({
            operation: "output",
            reason: "Kubernetes interleaves standard output and standard error in one log; read Stdout",
            details: []
          })
        )
      }
      if (options.limitBytes !== undefined && !(Number.isInteger(options.limitBytes) && options.limitBytes > 0)) {
        return Either.left(invalidOption("limitBytes", `${options.limitBytes} is no number of bytes`, "use 1 or more"))
      }
      if (options.tailLines !== undefined && !(Number.isInteger(options.tailLines) && options.tailLines >= 0)) {
        return Either.left(invalidOption("tailLines", `${options.tailLines} is no number of lines`, "use 0 or more"))
      }
      if (options.rank !== undefined && !(Number.isInteger(options.rank) && options.rank >= 0)) {
        return Either.left(invalidOption("rank", `${options.rank} is no rank`, "use 0 or more"))
      }
      const from = options.sinceTime === undefined ? undefined : LogResume.stampOf(options.sinceTime)
      if (options.sinceTime !== undefined && from === undefined) {
        return Either.left(invalidOption("sinceTime", `"${options.sinceTime}" is no time`, "write it as RFC 3339"))
      }
      return Either.right(from)
    }

    /** Reads one rank ahead of its consumer, at most `size` chunks. */
    const readAhead = (
      ref: TrainJobRef,
      options: Options,
      from: string | undefined,
      find: Effect.Effect<Located, OutputError>,
      track: Track,
      size: number
    ): Stream.Stream<OutputEvent, OutputError> =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const queue = yield* Effect.acquireRelease(Queue.bounded<Told>(size), Queue.shutdown)
          const emitAll = (events: ReadonlyArray<OutputEvent>): Effect.Effect<void> =>
            Effect.asVoid(Queue.offerAll(queue, events))
          const finish = (how: Effect.Effect<never, Option.Option<OutputError>>): Effect.Effect<void> =>
            Effect.asVoid(Queue.offer(queue, { _tag: "Finished", how }))
          yield* find.pipe(
            Effect.flatMap((located) => {
              const problem = RankZero.containerProblem(located.pod)
              const target: Target = { namespace: ref.namespace, name: located.name, uid: located.uid }
              return problem === undefined
                ? Effect.scoped(read(target, located.pod, options, from, emitAll, track))
                : Effect.fail(
                    new ErrUnsupported({
                      operation: "output",
                      reason: problem,
                      details: [
                        {
                          id: "container",
                          where: `Pod/${located.name} spec.containers`,
                          problem,
                          remedy: `name the trainer's container "${Trainer.trainerContainer}"`
                        }
                      ]
                    })
                  )
            }),
            Effect.matchCauseEffect({
              onFailure: (cause) => finish(Effect.failCause(Cause.map(cause, Option.some))),
              onSuccess: () => finish(Effect.fail(Option.none()))
            }),
            Effect.forkScoped
          )
          return fromBuffer(queue, size)
        })
      )

    const outputEvents: Service["outputEvents"] = (ref, options = {}) =>
      Either.match(checked(options), {
        onLeft: Stream.fail,
        onRight: (from) => readAhead(ref, options, from, found(ref, options), trackOne, buffer)
      }).pipe(Stream.withSpan("Output.output", { attributes: { namespace: ref.namespace, name: ref.name } }))

    const outputRanks: Service["outputRanks"] = (ref, options = {}) =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const from = yield* checked(options)
          const look = yield* Effect.cachedWithTTL(lookAt(ref), lookFor)
          // Whichever rank has a pod says which execution it is
          const { facts, replicatedJob, completions } = yield* Effect.gen(function* () {
            for (let failures = 0; ; failures++) {
              const looked = yield* Effect.mapError(look, (error) =>
                error._tag === "ErrNotFound" || error._tag === "ErrUnsupported" ? error : fromKube(error)
              )
              const { current, last } = Execution.executions(looked.facts)
              if (current !== undefined || last !== undefined || options.follow !== true || options.awaitPod !== true) {
                return looked
              }
              yield* Effect.sleep(yield* delay(Math.min(failures, 4)))
            }
          })
          const { current, last } = Execution.executions(facts)
          const execution = current ?? last
          const ranks = replicatedJob === undefined ? [] : RankZero.ranks(facts, replicatedJob, completions)
          // Where there is no rank to read, rank 0 says why
          if (execution === undefined || ranks.length === 0) {
            return Stream.drain(Stream.fromEffect(found(ref, { ...options, awaitPod: false, rank: 0 }, look)))
          }
          const start = RankZero.startOf(execution)
          const track = options.follow === true ? yield* trackAll(ref) : trackOne
          // All ranks together read ahead about as far as one, so that memory does not grow with their number
          const size = Math.max(1, Math.floor(buffer / ranks.length))
          const each = ranks.map((rank) => {
            const own = { ...options, rank, awaitPod: true }
            return readAhead(ref, own, from, found(ref, own, look, start), track, size).pipe(
              Stream.map((event): RankEvent => ({ rank, event })),
              Stream.catchAll((error) => Stream.make<[RankEvent]>({ rank, event: { _tag: "Failed", error } }))
            )
          })
          return Stream.mergeAll(each, {
            concurrency: options.follow === true ? "unbounded" : ranksAtOnce,
            bufferSize: 1
          })
        })
      ).pipe(Stream.withSpan("Output.outputRanks", { attributes: { namespace: ref.namespace, name: ref.name } }))

    const output: Service["output"] = (ref, options) =>
      Stream.suspend(() => {
        let atLineStart = true
        return Stream.mapChunks(outputEvents(ref, options), (events) => {
          const result: Array<Uint8Array> = []
          for (const event of events) {
            if (event._tag === "Bytes") {
              atLineStart = event.bytes.at(-1) === 10
              result.push(event.bytes)
            } else if (event._tag === "Gap") {
              result.push(new TextEncoder().encode(`${atLineStart ? "" : "\n"}${gapLine(event)}\n`))
              atLineStart = true
            }
          }
          return Chunk.unsafeFromArray(result)
        })
      })

    return { output, outputEvents, outputRanks, outputLines: (ref, options) => lines(output(ref, options)) }
  })

const gapLine = (gap: {
  readonly reason: string
  readonly after: string | undefined
  readonly before: string | undefined
}): string => {
  const after = gap.after === undefined ? "" : ` after ${gap.after}`
  const before = gap.before === undefined ? "" : ` before ${gap.before}`
  return `[output missing${after}${before}: ${gap.reason}]`
}

/** The longest line that `outputLines` holds, in characters; longer ones come in pieces. */
const longestLine = 1_048_576

/** Cuts bytes into lines. The bytes of a character may be spread over chunks. */
const lines = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<string, E, R> =>
  Stream.suspend(() => {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
    let rest = ""
    const cut = (text: string): ReadonlyArray<string> => {
      const parts = text.split("\n")
      const result: Array<string> = []
      for (const [index, part] of parts.entries()) {
        rest += part
        while (rest.length > longestLine) {
          result.push(rest.slice(0, longestLine))
          rest = rest.slice(longestLine)
        }
        if (index < parts.length - 1) {
          result.push(rest)
          rest = ""
        }
      }
      return result
    }
    return bytes.pipe(
      Stream.mapChunks((chunks) => {
        const result: Array<string> = []
        for (const chunk of chunks) for (const line of cut(decoder.decode(chunk, { stream: true }))) result.push(line)
        return Chunk.unsafeFromArray(result)
      }),
      Stream.concat(
        Stream.suspend(() => {
          const complete = cut(decoder.decode())
          return Stream.fromIterable(rest === "" ? complete : [...complete, rest])
        })
      )
    )
  })
