/**
 * A Kubeflow Trainer namespace as a backend: asks the adapter, and submits TrainJobs itself.
 *
 * A TrainJob is created suspended, with the run's token, so that nothing starts it; `PlainOpening` and `KueueOpening` say how it is started and
 * stopped for good.
 *
 * @module
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Batch from "@dispatch-kubeflow/core/model/Batch"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import { trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import { Effect, Schedule, Stream } from "effect"
import * as Backend from "../Backend.js"
import * as KueueOpening from "./kubeflow/KueueOpening.js"
import * as Opening from "./kubeflow/Opening.js"
import * as PlainOpening from "./kubeflow/PlainOpening.js"

/** The annotation that says whose TrainJob it is. */
export const tokenAnnotation = "example.dispatch-kubeflow.dev/run-token"

/** How TrainJobs of this backend are made. */
export interface Options {
  readonly name: string
  readonly runtime: string
  readonly adapter: Adapter.Service
  /** The adapter's own cluster, for what only a dispatcher writes. */
  readonly api: KubeApi.Service
  /** What the adapter's own entry says of the pods beside the admission count. */
  readonly pod?: Opening.Pod | undefined
  /** Kueue mode: who holds the Lease of the admission check while this program answers it; see `CheckController`. */
  readonly holder?: string | undefined
}

// The port's messages say what to do, and never hold a secret
const attempts = 5

const parseName = (name: string): { readonly run: string; readonly n: number } | undefined => {
  const match = /^(.+)-([1-9][0-9]*)$/.exec(name)
  return match?.[1] === undefined ? undefined : { run: match[1], n: Number(match[2]) }
}

const reportOf = (update: Update.Update): ReadonlyArray<Backend.Report> => {
  const submission = parseName(update.ref.name)
  return submission === undefined
    ? []
    : [
        {
          ...submission,
          id: update.ref.uid,
          state: update.state,
          outcome: update.outcome,
          cause: update.cause?._tag,
          detail: update.evidence.map(({ object, field, value }) => `${object} ${field}: ${value}`).join("; ")
        }
      ]
}

// A Job that has failed or succeeded but waits for its pods' ends says so first, and creates no more of them
const jobsAtRest = ["Suspended", "FailureTarget", "SuccessCriteriaMet", "Complete", "Failed"]

const finishedType = (conditions: Parameters<typeof trueCondition>[0]): string | undefined =>
  ["Complete", "Completed", "Failed"].find((type) => trueCondition(conditions, type) !== undefined)

// The Trainer makes a JobSet some tenths of a second after its TrainJob
const soon = Schedule.spaced("100 millis").pipe(Schedule.intersect(Schedule.recurs(20)))

/** A backend over an adapter. In Kueue mode a `CheckController` has to run beside it. */
export const make = (options: Options): Backend.Backend => {
  const { adapter, api, name } = options
  const { namespace } = adapter.config
  const ref = (submission: Backend.Submission): TrainJobRef.TrainJobRef => ({
    ...TrainJobRef.submission(namespace, submission.run, submission.n),
    ...(submission.id === undefined ? {} : { uid: submission.id })
  })

  const unavailable = (reason: string, cause?: unknown): Backend.Unavailable =>
    new Backend.Unavailable({ backend: name, reason, cause })
  const fromKube = (error: KubeError): Backend.Unavailable => unavailable(error.message, error)

  const find = <A extends Resource.KubeObject>(resource: Resource.Resource<A, "Namespaced">, objectName: string) =>
    Opening.find(api, resource, { namespace, name: objectName })

  const { kueue } = adapter.config
  const common = { api, namespace, pod: options.pod, unavailable }
  const opening =
    kueue === undefined
      ? PlainOpening.make(common)
      : KueueOpening.make({ ...common, kueue, holder: options.holder ?? name })

  let isExamined = kueue === undefined
  const examining = Effect.unsafeMakeSemaphore(1)
  /** In Kueue mode the gate cannot be proven before a preflight. */
  const examined = examining.withPermits(1)(
    Effect.suspend(() =>
      isExamined
        ? Effect.void
        : Effect.matchEffect(adapter.preflight(), {
            onFailure: (error) => Effect.fail(unavailable(error.message, error)),
            onSuccess: () =>
              Effect.sync(() => {
                isExamined = true
              })
          })
    )
  )

  /** Whether the adapter may write; asked before every write that creates or starts something. */
  const writable = Effect.flatMap(
    adapter.config.access === "read-only" ? adapter.writable : Effect.zipRight(examined, adapter.writable),
    (verdict): Effect.Effect<void, Backend.Refused | Backend.Unavailable> => {
      switch (verdict._tag) {
        case "Writable":
          return Effect.void
        case "ReadOnly":
          return Effect.fail(new Backend.Refused({ backend: name, reason: verdict.reason }))
        case "ObserveOnly":
          return Effect.fail(unavailable(verdict.reason))
      }
    }
  )

  let isConforming = false
  /** What the adapter says of a stop rests on the rules that its runtime must obey; asked before the first submission. */
  const conforming = Effect.suspend(() =>
    isConforming
      ? Effect.void
      : Effect.map(adapter.capabilities({ runtimeRef: { name: options.runtime } }), () => {
          isConforming = true
        })
  ).pipe(
    Effect.mapError((error): Backend.Refused | Backend.Unavailable =>
      error._tag === "ErrUnsupported" || error._tag === "ErrNotFound"
        ? new Backend.Refused({ backend: name, reason: error.message })
        : unavailable(error.message, error)
    )
  )

  const isOurs = (trainJob: Trainer.TrainJob, submission: Backend.Submission): boolean =>
    trainJob.metadata.annotations?.[tokenAnnotation] === submission.token

  const adopt = (trainJob: Trainer.TrainJob, submission: Backend.Submission) =>
    isOurs(trainJob, submission)
      ? Effect.succeed(trainJob.metadata.uid)
      : Effect.fail(
          new Backend.Refused({
            backend: name,
            reason: `TrainJob ${namespace}/${trainJob.metadata.name} exists and belongs to somebody else`
          })
        )

  const prepare: Backend.Backend["prepare"] = (submission, work) =>
    Effect.gen(function* () {
      yield* writable
      const { name: objectName } = ref(submission)
      const found = yield* Effect.mapError(find(Trainer.trainJobs, objectName), fromKube)
      if (found !== undefined) return yield* adopt(found, submission)
      yield* conforming
      const created = yield* Effect.either(
        api.create(
          Trainer.trainJobs,
          { namespace },
          {
            metadata: {
              name: objectName,
              annotations: { [tokenAnnotation]: submission.token },
              ...(opening.created.labels === undefined ? {} : { labels: opening.created.labels })
            },
            spec: {
              suspend: true,
              ...(opening.created.runtimePatches === undefined
                ? {}
                : { runtimePatches: opening.created.runtimePatches }),
              runtimeRef: { name: options.runtime },
              trainer: {
                numNodes: work.nodes,
                ...(work.image === undefined ? {} : { image: work.image }),
                ...(work.command === undefined ? {} : { command: work.command })
              }
            }
          },
          { fieldManager: AdapterConfig.patchManager }
        )
      )
      if (created._tag === "Right") return created.right.metadata.uid
      const error = created.left
      if (error._tag === "KubeConflict") return yield* unavailable(error.message, error)
      if (error._tag !== "KubeInvalid" && error._tag !== "KubeDenied") return yield* fromKube(error)
      // It may be the runtime that the server does not like any more
      isConforming = false
      // A webhook also refuses what was created before the answer got lost
      const there = yield* Effect.mapError(find(Trainer.trainJobs, objectName), fromKube)
      return there === undefined
        ? yield* new Backend.Refused({ backend: name, reason: error.message })
        : yield* adopt(there, submission)
    })

  const allowed = Effect.catchTag(writable, "Refused", (error) => unavailable(error.reason))

  /**
   * The first JobSet has to be in the evidence before it can start a pod: where it goes unseen and another is made, nobody could
   * tell that there had been one before.
   */
  const sighted = (submission: Backend.Submission) =>
    Effect.gen(function* () {
      const { name: objectName } = ref(submission)
      const jobSet = yield* Effect.repeat(find(JobSet.jobSets, objectName), {
        until: (found) => found !== undefined,
        schedule: soon
      })
      if (jobSet === undefined) return yield* unavailable(`TrainJob ${objectName} has no JobSet yet`)
      yield* Effect.mapError(adapter.ceased(ref(submission)), (error) => unavailable(error.message, error))
    })

  const start: Backend.Backend["start"] = (submission) =>
    Effect.gen(function* () {
      const found = yield* find(Trainer.trainJobs, ref(submission).name)
      if (found?.metadata.uid !== submission.id) return "Gone" as const
      // What becomes of one that is being deleted is reported
      if (typeof found.metadata.deletionTimestamp !== "string") {
        yield* sighted(submission)
        yield* opening.start(found, allowed)
      }
      return "Started" as const
    }).pipe(
      Effect.retry({ times: attempts, while: (error) => error._tag === "KubeConflict" }),
      Effect.mapError((error) => (error._tag === "Unavailable" ? error : fromKube(error)))
    )

  /** Whether nothing can be started any more: asked of each controller's own word. */
  const isQuiet = (objectName: string, trainJobGone: boolean): Effect.Effect<boolean, KubeError> =>
    Effect.gen(function* () {
      const jobSet = yield* find(JobSet.jobSets, objectName)
      if (jobSet !== undefined && finishedType(jobSet.status?.conditions) === undefined) {
        if (trainJobGone || trueCondition(jobSet.status?.conditions, "Suspended") === undefined) return false
      }
      const { items } = yield* api.list(Batch.jobs, {
        namespace,
        labels: Selector.labels({ [JobSet.jobSetNameLabel]: objectName })
      })
      return items.every(({ status }) =>
        jobsAtRest.some((type) => trueCondition(status?.conditions, type) !== undefined)
      )
    })

  const fence: Backend.Backend["fence"] = (submission) =>
    Effect.gen(function* () {
      const { name: objectName } = ref(submission)
      const found = yield* find(Trainer.trainJobs, objectName)
      const ours = found !== undefined && (submission.id === undefined || found.metadata.uid === submission.id)
      if (ours && isOurs(found, submission)) {
        if (trueCondition(found.status?.conditions, "Complete") !== undefined) return "Succeeded" as const
        yield* opening.shut(found)
      }
      // Another TrainJob of that name has parts of the same names: they are not ours to wait for
      if (found !== undefined && !ours) return "Fenced" as const
      const quiet = yield* isQuiet(objectName, found === undefined)
      return quiet ? ("Fenced" as const) : yield* unavailable(`the parts of TrainJob ${objectName} are not at rest yet`)
    }).pipe(
      Effect.retry({ times: attempts, while: (error) => error._tag === "KubeConflict" }),
      Effect.mapError((error) => (error._tag === "Unavailable" ? error : fromKube(error)))
    )

  const stopped: Backend.Backend["stopped"] = (submission) =>
    Effect.gen(function* () {
      const { ceased, cautions, earlier, ended, pods, reasons } = yield* adapter.ceased(ref(submission))
      if (earlier.length > 0) {
        // Somebody released it: its last execution is not all that may run of it
        const left = earlier.map(({ name: pod, node }) => `${pod}${node === undefined ? "" : ` on ${node}`}`)
        const reason = `nothing proves that pods of an earlier execution have ended: ${left.join(", ")}`
        return { ceased: false, ended: false, reasons: [...reasons, reason], cautions }
      }
      const answer = { ceased, ended, reasons, cautions }
      if (ceased || ended || pods.length > 0) return answer
      // The adapter knows no yes about pods that were never seen; who alone could start them knows that it did not
      const found = yield* find(Trainer.trainJobs, ref(submission).name)
      const isNew =
        found !== undefined &&
        found.metadata.uid === submission.id &&
        isOurs(found, submission) &&
        opening.isUntouched(found)
      return isNew ? { ...answer, ended: true, cautions: [...cautions, "It was never started."] } : answer
    }).pipe(Effect.mapError((error) => unavailable(error.message, error)))

  const exists: Backend.Backend["exists"] = (submission) =>
    Effect.gen(function* () {
      const found = yield* find(Trainer.trainJobs, ref(submission).name)
      if (found?.metadata.uid !== submission.id) return false
      // A watch of the namespace goes on without a name whose evidence cannot be used; who asks for that name is told
      yield* Effect.catchAll(adapter.ceased(ref(submission)), (error) =>
        error._tag === "EvidenceStoreError" ? unavailable(error.message, error) : Effect.void
      )
      return true
    }).pipe(Effect.mapError((error) => (error._tag === "Unavailable" ? error : fromKube(error))))

  return {
    name,
    actions: (actions) =>
      Effect.map(adapter.rules(actions.map((action) => ({ cause: "any", action }))), (answers) =>
        answers.map(({ support }) => ({ answer: support.answer, reason: support.reason }))
      ),
    prepare,
    start,
    fence,
    reports: adapter.watch(Watch.namespace(namespace)).pipe(
      Stream.mapConcat(reportOf),
      Stream.mapEffect((report) => opening.told(report, `${report.run}-${report.n}`)),
      Stream.mapError((error) => unavailable(error.message, error))
    ),
    exists,
    stopped
  }
}
