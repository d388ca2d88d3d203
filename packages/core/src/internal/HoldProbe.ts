/**
 * The probe that shows whether a submission can be held: a suspended TrainJob that is created, looked at, and deleted again
 * whatever happens; and the dry run that shows whether Kueue captures the namespace.
 *
 * @module
 */
import { Clock, DateTime, Duration, Effect, type Either, Option, Random, Ref } from "effect"
import * as Access from "../Access.js"
import { admissionAnnotation, patchManager, probeLabel } from "../AdapterConfig.js"
import type * as Facts from "../decide/Facts.js"
import type { Outcome } from "../decide/ProbeReport.js"
import * as RuntimeRules from "../decide/RuntimeRules.js"
import type * as KubeApi from "../kube/KubeApi.js"
import type { KubeError } from "../kube/KubeError.js"
import * as Selector from "../kube/Selector.js"
import { events, pods } from "../model/Core.js"
import { jobSetNameLabel, jobSets } from "../model/JobSet.js"
import { multiKueueManager, patchManager as kueueManager, queueNameLabel } from "../model/Kueue.js"
import { controllerOf, trueCondition } from "../model/Meta.js"
import { type TrainJob, trainJobs } from "../model/Trainer.js"
import { done, notYet, patiently, StepFailed, until } from "./Patience.js"
import { type Chosen, trainerGroup, type World } from "./World.js"

/** An object, or none where it does not exist. A type that is not served stays an error. */
const optionally = <A>(request: Effect.Effect<A, KubeError>): Effect.Effect<Option.Option<A>, KubeError> =>
  request.pipe(
    Effect.map((object) => Option.some(object)),
    Effect.catchIf(
      (error) => error._tag === "KubeNotFound" && error.subject !== "type",
      () => Effect.succeedNone
    )
  )

const alphabet = "bcdfghjklmnpqrstvwxz2456789"

const randomText = (length: number): Effect.Effect<string> =>
  Effect.map(Effect.replicateEffect(Random.nextIntBetween(0, alphabet.length), length), (indexes) =>
    indexes.map((index) => alphabet.charAt(index)).join("")
  )

/** Safety net of a probe that somebody starts: the Trainer ends it after so many seconds of running. */
const probeDeadlineSeconds = 60

const probeObject = (
  { config }: World,
  name: string,
  { runtime, kind }: Extract<Chosen, { readonly _tag: "Chosen" }>,
  suspend: boolean
): object => {
  const step = RuntimeRules.trainerStep(runtime)
  const template = { metadata: { annotations: { [admissionAnnotation]: "0" } } }
  return {
    metadata: {
      name,
      labels: {
        [probeLabel]: "hold",
        // In Kueue mode an unlabelled probe could be captured by a LocalQueue named "default", admitted and started. A
        // queue that does not exist admits nothing.
        ...(config.kueue === undefined ? {} : { [queueNameLabel]: name })
      }
    },
    spec: {
      runtimeRef: { apiGroup: trainerGroup, kind, name: runtime.metadata.name },
      suspend,
      activeDeadlineSeconds: probeDeadlineSeconds,
      ...(config.holdProbe === "real" && config.kueue === undefined
        ? { trainer: { numNodes: 1, command: ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 60 & wait"] } }
        : { trainer: { numNodes: 1 } }),
      runtimePatches: [
        {
          manager: patchManager,
          trainingRuntimeSpec: {
            template:
              step === undefined
                ? template
                : { spec: { replicatedJobs: [{ name: step.name, template: { spec: { template } } }] } }
          }
        }
      ]
    }
  }
}

const capturedBy = (job: TrainJob): string | undefined => {
  const queue = job.metadata.labels?.[queueNameLabel]
  if (queue !== undefined) return `it came back with label ${queueNameLabel}: ${queue}`
  if (job.spec?.managedBy === multiKueueManager) return `it came back with spec.managedBy: ${multiKueueManager}`
  return job.spec?.suspend === true ? "it came back with spec.suspend: true" : undefined
}

const hasOurPatch = (job: TrainJob): boolean =>
  (job.spec?.runtimePatches ?? []).some((patch) => patch.manager === patchManager)

/** Plain mode: whether Kueue would take a TrainJob of this namespace over. Asked by a dry run that stores nothing. */
export const capture = Effect.fn("Preflight.capture")(function* (world: World, chosen: Chosen, create: Facts.Review) {
  const { api, config, record } = world
  const asked = `create TrainJob with suspend: false in namespace "${config.namespace}" (dryRun=All)`
  const conclude = (result: Facts.Capture, outcome: Outcome, found: string, remedy?: string) =>
    Effect.as(record("capture", outcome, asked, found, remedy), result)
  const cannot = (why: string) => {
    const reason = `whether Kueue captures namespace "${config.namespace}" is not known: ${why}`
    return conclude({ _tag: "Unknown", reason }, "unknown", why)
  }
  if (chosen._tag === "None") return yield* cannot(chosen.reason)
  if (create._tag === "Denied") return yield* cannot(create.message)
  const name = `dispatch-probe-${yield* randomText(8)}`
  const answer = yield* Effect.either(
    patiently(
      api.create(trainJobs, { namespace: config.namespace }, probeObject(world, name, chosen, false), { dryRun: true })
    )
  )
  if (answer._tag === "Left") return yield* cannot(answer.left.message)
  const captured = capturedBy(answer.right)
  if (captured !== undefined) {
    return yield* conclude(
      {
        _tag: "Captured",
        reason: `Kueue captures TrainJobs of namespace "${config.namespace}" (${captured}): it would undo what the adapter starts and holds`
      },
      "failed",
      captured,
      'configure Kueue mode, or use a namespace that Kueue leaves alone (no LocalQueue "default", no manageJobsWithoutQueueName)'
    )
  }
  const integration = (answer.right.spec?.runtimePatches ?? []).some((patch) => patch.manager === kueueManager)
  return yield* conclude(
    { _tag: "Free" },
    "passed",
    integration ? "it came back unchanged; Kueue's TrainJob integration is on" : "it came back unchanged"
  )
})

const removeProbe = (api: KubeApi.Service, namespace: string, job: { readonly name: string; readonly uid: string }) =>
  // Never in the foreground: the Trainer would start the job again while it waits for its dependents
  Effect.catchTag(
    patiently(api.remove(trainJobs, { namespace, name: job.name }, { propagation: "Background", uid: job.uid })),
    "KubeNotFound",
    () => Effect.void
  )

const stuck = (job: TrainJob): string | undefined => {
  const { deletionTimestamp, finalizers } = job.metadata
  return deletionTimestamp === undefined || deletionTimestamp === null
    ? undefined
    : `TrainJob/${job.metadata.name} is being deleted since ${deletionTimestamp} and waits for its finalizers [${(finalizers ?? []).join(", ")}]`
}

const ageOf = (job: TrainJob, now: number): number =>
  Option.match(DateTime.make(job.metadata.creationTimestamp ?? ""), {
    onNone: () => Number.POSITIVE_INFINITY,
    onSome: (created) => now - DateTime.toEpochMillis(created)
  })

/** Probes that an earlier preflight left behind, or why they are not known. */
export const strangers = ({ api, config }: World): Effect.Effect<Either.Either<ReadonlyArray<TrainJob>, KubeError>> =>
  patiently(api.list(trainJobs, { namespace: config.namespace, labels: Selector.labelExists(probeLabel) })).pipe(
    Effect.map(({ items }) => items),
    Effect.either
  )

/**
 * Deletes the probes of preflights that were killed. One that is younger than a preflight can be may belong to one that
 * is still under way: it is waited for, and deleted when it gets too old.
 */
const sweep = Effect.fn("Preflight.sweep")(function* (world: World, found: ReadonlyArray<TrainJob>) {
  const { api, config, record, timing } = world
  const { namespace } = config
  const limit = Duration.toMillis(timing.orphanAfter)
  const one = Effect.fn("Preflight.sweepOne")(function* (job: TrainJob) {
    const { name, uid } = job.metadata
    const remedy = `delete TrainJob/${name} by hand (kubectl delete --cascade=background), and its finalizers if it stays`
    return yield* until(
      "sweep",
      remedy,
      Duration.sum(timing.orphanAfter, timing.gone),
      Effect.gen(function* () {
        const read = yield* optionally(api.getWithTime(trainJobs, { namespace, name }))
        if (read._tag === "None" || read.value.object.metadata.uid !== uid) return done(undefined)
        const waits = stuck(read.value.object)
        if (waits !== undefined) return notYet(waits)
        const age = ageOf(read.value.object, read.value.serverTime ?? (yield* Clock.currentTimeMillis))
        if (age < limit) return notYet(`TrainJob/${name} is a probe ${Math.floor(age / 1000)} s old`)
        yield* removeProbe(api, namespace, { name, uid })
        return notYet(`TrainJob/${name} was deleted and still exists`)
      })
    )
  })
  const outcomes = yield* Effect.forEach(found, (job) => Effect.either(one(job)), { concurrency: 4 })
  const failures = outcomes.flatMap((it) => (it._tag === "Left" ? [it.left] : []))
  const names = found.map((job) => job.metadata.name).join(", ")
  const asked = `list trainjobs in namespace "${namespace}" with label ${probeLabel}`
  yield* failures.length > 0
    ? record(
        "hold.sweep",
        "failed",
        asked,
        failures.map((it) => it.words).join("; "),
        failures.map((it) => it.remedy).join("; ")
      )
    : record(
        "hold.sweep",
        "passed",
        asked,
        found.length === 0
          ? "no probe of an earlier preflight is left"
          : `probes of other preflights are gone: ${names}`
      )
})

const failedTrip = (step: string, words: string): Facts.HoldTrip => ({ _tag: "Failed", step, words })
const undecidedTrip = (reason: string): Facts.HoldTrip => ({ _tag: "Undecided", reason })

type Probe =
  | { readonly _tag: "None" }
  /** The create was sent and nothing came back: it may exist. */
  | { readonly _tag: "Perhaps"; readonly name: string }
  | { readonly _tag: "Exists"; readonly name: string; readonly uid: string; readonly started: boolean }

type StepId = "create" | "suspended" | "no-pods" | "unsuspend" | "start" | "stop" | "delete" | "gone"

/** Words of the events about the probe: the only place where the controllers say why a JobSet was refused. */
const complaints = ({ api, config }: World, name: string): Effect.Effect<string> =>
  Effect.match(
    patiently(
      api.list(events, { namespace: config.namespace, fields: Selector.fields({ "involvedObject.name": name }) })
    ),
    {
      onFailure: () => "",
      onSuccess: ({ items }) => {
        const warnings = items.flatMap((event) =>
          event.type === "Warning" && event.message !== undefined && event.message !== null && event.message !== ""
            ? [event.message]
            : []
        )
        return warnings.length === 0 ? "" : `; events say: ${[...new Set(warnings)].join("; ")}`
      }
    }
  )

const roundTrip = Effect.fn("Preflight.roundTrip")(function* (
  world: World,
  chosen: Extract<Chosen, { readonly _tag: "Chosen" }>
) {
  const { api, config, record, timing } = world
  const { namespace } = config
  const state = yield* Ref.make<Probe>({ _tag: "None" })

  const failed = (step: StepId, words: string, remedy: string): StepFailed => new StepFailed({ step, words, remedy })
  const asStep = <A>(
    step: StepId,
    remedy: string,
    request: Effect.Effect<A, KubeError>
  ): Effect.Effect<A, StepFailed> => Effect.mapError(request, (error) => failed(step, error.message, remedy))
  const passed = (step: StepId, asked: string, found: string): Effect.Effect<void> =>
    record(`hold.${step}`, "passed", asked, found)

  const podsOf = (name: string) => api.list(pods, { namespace, labels: Selector.labels({ [jobSetNameLabel]: name }) })
  const jobSetOf = (name: string) => optionally(api.get(jobSets, { namespace, name }))
  const trainJobOf = (name: string) => optionally(api.get(trainJobs, { namespace, name }))
  const suspend = (name: string, value: boolean, dryRun: boolean) =>
    api.patch(trainJobs, { namespace, name }, { type: "merge", body: { spec: { suspend: value } }, dryRun })

  /** Until neither the probe nor its JobSet is there any more, or only others under their names. */
  const gone = (name: string, uid: string, limit: Duration.DurationInput) =>
    until(
      "gone",
      `look at TrainJob/${name} and JobSet/${name}: a finalizer whose controller is away keeps them; delete by hand what stays`,
      limit,
      Effect.gen(function* () {
        const job = yield* trainJobOf(name)
        if (job._tag === "Some" && job.value.metadata.uid === uid) {
          return notYet(stuck(job.value) ?? `TrainJob/${name} still exists`)
        }
        const set = yield* jobSetOf(name)
        return set._tag === "Some" && controllerOf(set.value.metadata)?.uid === uid
          ? notYet(
              `JobSet/${name} still exists${
                set.value.metadata.deletionTimestamp === undefined || set.value.metadata.deletionTimestamp === null
                  ? ""
                  : ` and waits for its finalizers [${(set.value.metadata.finalizers ?? []).join(", ")}]`
              }`
            )
          : done(undefined)
      })
    )

  const create: Effect.Effect<{ readonly name: string; readonly uid: string }, StepFailed> = Effect.gen(function* () {
    const asked = `create suspended TrainJob in namespace "${namespace}" from ${chosen.kind}/${chosen.runtime.metadata.name}`
    const remedy = "correct what the server names: the runtime, the quota, the webhook or the permission"
    const name = `dispatch-probe-${yield* randomText(8)}`
    // Once sent, the create is not cut short: its answer says whether there is something to delete
    const created = yield* Effect.uninterruptible(
      Ref.set(state, { _tag: "Perhaps", name }).pipe(
        Effect.zipRight(
          Effect.interruptible(
            asStep("create", remedy, api.create(trainJobs, { namespace }, probeObject(world, name, chosen, true)))
          ).pipe(
            Effect.timeoutFail({
              duration: timing.create,
              onTimeout: () => failed("create", "the server did not answer the create in time", remedy)
            })
          )
        ),
        Effect.tap((job) => Ref.set(state, { _tag: "Exists", name, uid: job.metadata.uid, started: false }))
      )
    )
    if (!hasOurPatch(created)) {
      return yield* failed(
        "create",
        `TrainJob/${name} came back without its spec.runtimePatches entry "${patchManager}"`,
        "install Kubeflow Trainer 2.2 or later"
      )
    }
    const taken = config.kueue === undefined && created.metadata.labels?.[queueNameLabel] !== undefined
    if (taken || created.spec?.suspend !== true || created.spec.managedBy === multiKueueManager) {
      return yield* failed(
        "create",
        `TrainJob/${name} did not come back as it was sent (${capturedBy(created) ?? "spec.suspend is not true"})`,
        "find the webhook that changes it"
      )
    }
    yield* passed("create", asked, `TrainJob/${name} exists, suspended`)
    return { name, uid: created.metadata.uid }
  })

  const waitSuspended = (step: StepId, name: string, uid: string) =>
    until(
      step,
      "are the Trainer and JobSet controllers and their webhooks running? look at the events of the TrainJob",
      timing.suspended,
      Effect.map(jobSetOf(name), (set) => {
        if (set._tag === "None") return notYet(`there is no JobSet/${name}`)
        if (controllerOf(set.value.metadata)?.uid !== uid) return notYet(`JobSet/${name} belongs to another TrainJob`)
        return trueCondition(set.value.status?.conditions, "Suspended") === undefined
          ? notYet(`JobSet/${name} has no condition Suspended=True`)
          : done(undefined)
      })
    ).pipe(
      Effect.catchTag("StepFailed", (error) =>
        Effect.flatMap(complaints(world, name), (words) =>
          Effect.fail(failed(step, `${error.words}${words}`, error.remedy))
        )
      )
    )

  const startAndStop = Effect.fn("Preflight.startAndStop")(function* (name: string, uid: string) {
    const remedy = "look at the TrainJob, its JobSet and its Job"
    yield* Ref.set(state, { _tag: "Exists", name, uid, started: true })
    yield* asStep("start", remedy, suspend(name, false, false))
    yield* until(
      "start",
      remedy,
      timing.suspended,
      Effect.map(podsOf(name), ({ items }) => (items.length === 0 ? notYet("no pod was created") : done(undefined)))
    )
    yield* passed("start", `patch TrainJob/${name} spec.suspend: false, list pods`, "its pod was created")
    yield* asStep("stop", remedy, suspend(name, true, false))
    yield* waitSuspended("stop", name, uid)
    yield* until(
      "stop",
      remedy,
      timing.suspended,
      Effect.map(podsOf(name), ({ items }) =>
        items.length === 0
          ? done(undefined)
          : notYet(`${items.map((pod) => `Pod/${pod.metadata.name}`).join(", ")} still exists`)
      )
    )
    yield* passed(
      "stop",
      `patch TrainJob/${name} spec.suspend: true, list pods`,
      "its JobSet is suspended, its pods are gone"
    )
  })

  const trip = Effect.gen(function* () {
    const { name, uid } = yield* create
    yield* waitSuspended("suspended", name, uid)
    yield* passed("suspended", `get JobSet/${name}`, "its own condition Suspended is True")
    const { items } = yield* asStep("no-pods", "grant list on pods", patiently(podsOf(name)))
    if (items.length > 0) {
      const names = items.map((pod) => pod.metadata.name).join(", ")
      return yield* failed("no-pods", `the suspended probe has pods: ${names}`, "find out who starts them")
    }
    yield* passed("no-pods", `list pods with label ${jobSetNameLabel}=${name}`, "there are none")
    const flipped = yield* asStep(
      "unsuspend",
      "grant patch on trainjobs; correct what the webhook names",
      patiently(suspend(name, false, true))
    )
    if (flipped.spec?.suspend === true) {
      return yield* failed("unsuspend", "it came back suspended", "find the webhook that suspends it")
    }
    yield* passed(
      "unsuspend",
      `patch TrainJob/${name} spec.suspend: false (dryRun=All)`,
      "accepted, and nothing stored"
    )
    if (config.holdProbe === "real") {
      if (config.kueue === undefined) yield* startAndStop(name, uid)
      else {
        yield* record(
          "hold.start",
          "skipped",
          `patch TrainJob/${name} spec.suspend: false`,
          "in Kueue mode the probe stays outside the queue, so it cannot be started"
        )
      }
    }
    yield* asStep("delete", "grant delete on trainjobs", removeProbe(api, namespace, { name, uid }))
    yield* passed("delete", `delete TrainJob/${name} (Background, with its uid)`, "accepted")
    yield* gone(name, uid, timing.gone)
    yield* Ref.set(state, { _tag: "None" })
    yield* passed("gone", `get TrainJob/${name}, get JobSet/${name}`, "both are gone")
  })

  const cleanUp = Effect.gen(function* () {
    const probe = yield* Ref.get(state)
    if (probe._tag === "None") return
    const { name } = probe
    const asked = `delete TrainJob/${name} (Background, with its uid) after the round trip ended early`
    const remedy = `delete TrainJob/${name} by hand (kubectl delete --cascade=background); the next preflight sweeps it too`
    const work = Effect.gen(function* () {
      const exists =
        probe._tag === "Exists"
          ? probe
          : yield* Effect.map(
              until(
                "delete",
                remedy,
                "2 seconds",
                Effect.map(trainJobOf(name), (job) =>
                  job._tag === "Some" ? done(Option.some(job.value)) : notYet("not found")
                )
              ).pipe(Effect.orElseSucceed(() => Option.none<TrainJob>())),
              Option.match({
                onNone: () => undefined,
                onSome: (job) =>
                  job.metadata.labels?.[probeLabel] === undefined
                    ? undefined
                    : ({ _tag: "Exists", name, uid: job.metadata.uid, started: false } as const)
              })
            )
      if (exists === undefined) return `TrainJob/${name} was not created`
      if (exists.started) yield* Effect.ignore(patiently(suspend(name, true, false)))
      yield* asStep("delete", remedy, removeProbe(api, namespace, exists))
      yield* gone(name, exists.uid, timing.cleanup)
      return `TrainJob/${name} and its JobSet are gone`
    })
    const result = yield* work.pipe(
      Effect.interruptible,
      Effect.timeoutFail({
        duration: timing.cleanup,
        onTimeout: () => failed("gone", "not done in time", remedy)
      }),
      Effect.either
    )
    yield* result._tag === "Right"
      ? record("hold.cleanup", "passed", asked, result.right)
      : record("hold.cleanup", "failed", asked, result.left.words, result.left.remedy)
  })

  return yield* trip.pipe(
    Effect.as<Facts.HoldTrip>({ _tag: "Passed" }),
    Effect.catchTag("StepFailed", (error) =>
      Effect.as(
        record(`hold.${error.step}`, "failed", `the hold round trip, step "${error.step}"`, error.words, error.remedy),
        failedTrip(error.step, error.words)
      )
    ),
    Effect.ensuring(cleanUp)
  )
})

/** What has to be allowed before a probe is created: above all that it can be deleted again. */
const holdNeeds = [
  { id: `create trainjobs.${trainerGroup}`, step: "create" },
  { id: `delete trainjobs.${trainerGroup}`, step: "delete" },
  { id: `patch trainjobs.${trainerGroup}`, step: "unsuspend" },
  { id: `get trainjobs.${trainerGroup}`, step: "gone" },
  { id: `get jobsets.${jobSets.group}`, step: "suspended" },
  { id: "list pods", step: "no-pods" }
] as const

/**
 * The hold round trip, from the permissions it needs to the 404 of its probe; then the sweep of orphans. Never fails: a step
 * that does not do what it has to is the answer.
 */
export const hold = Effect.fn("Preflight.hold")(function* (
  world: World,
  chosen: Chosen,
  outcomes: ReadonlyArray<Access.Outcome>,
  captured: Facts.Capture,
  left: Either.Either<ReadonlyArray<TrainJob>, KubeError>
) {
  const { record } = world
  const asked = "the hold round trip"
  const undecided = (reason: string) => Effect.as(record("hold", "unknown", asked, reason), undecidedTrip(reason))
  const refused = (step: string, words: string, remedy?: string) =>
    Effect.as(record(`hold.${step}`, "failed", asked, words, remedy), failedTrip(step, words))

  for (const { id, step } of holdNeeds) {
    const review = Access.reviewOf(outcomes, id)
    if (review._tag === "Denied") return yield* refused(step, review.message)
    // What may not be deletable is not created
    if (review._tag === "Errored" && step === "delete") return yield* undecided(review.message)
  }
  if (captured._tag === "Captured") return yield* refused("capture", captured.reason)
  if (chosen._tag === "None") return yield* undecided(chosen.reason)
  const trip = yield* roundTrip(world, chosen)
  if (left._tag === "Right") yield* sweep(world, left.right)
  else {
    yield* record(
      "hold.sweep",
      "unknown",
      `list trainjobs with label ${probeLabel}`,
      left.left.message,
      "grant list on trainjobs"
    )
  }
  return trip
})
