/**
 * A Kubeflow Trainer namespace as a backend: asks the adapter, and submits TrainJobs itself.
 *
 * A TrainJob is created suspended and without an admission entry. Starting it is one server-side apply of the entry and
 * `suspend: false`, on the very object that was read: a request that was under way when its dispatcher died finds another
 * `resourceVersion` once anything has happened since, and is refused.
 *
 * @module
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Batch from "@dispatch-kubeflow/core/model/Batch"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import { trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import { Effect, Stream } from "effect"
import * as Backend from "../Backend.js"

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
  readonly pod?:
    | {
        readonly annotations?: Readonly<Record<string, string>> | undefined
        /** e.g. how soon pods give a lost Node up: five minutes when nothing is said. */
        readonly tolerations?: ReadonlyArray<object> | undefined
      }
    | undefined
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

/** A backend over an adapter in plain mode. */
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

  const find = <A extends Resource.KubeObject>(
    resource: Resource.Resource<A, "Namespaced">,
    objectName: string
  ): Effect.Effect<A | undefined, KubeError> =>
    Effect.catchIf(
      Effect.map(api.get(resource, { namespace, name: objectName }), (object): A | undefined => object),
      (error) => error._tag === "KubeNotFound" && error.subject === "object",
      () => Effect.succeed(undefined)
    )

  const entry = AdapterConfig.runtimePatch({
    // Each submission is started once: a run's next try is a TrainJob of its own
    admission: 1,
    annotations: options.pod?.annotations,
    podSpec: options.pod?.tolerations === undefined ? undefined : { tolerations: options.pod.tolerations }
  })

  const hasEntry = (trainJob: Trainer.TrainJob): boolean =>
    trainJob.spec?.runtimePatches?.some(({ manager }) => manager === AdapterConfig.patchManager) ?? false

  /** Whether the adapter may write; asked before every write that creates or starts something. */
  const writable = Effect.flatMap(
    adapter.writable,
    (verdict): Effect.Effect<void, Backend.Refused | Backend.Unavailable> => {
      switch (verdict._tag) {
        case "Writable":
          return adapter.config.kueue === undefined
            ? Effect.void
            : Effect.fail(new Backend.Refused({ backend: name, reason: "this example submits in plain mode only" }))
        case "ReadOnly":
          return Effect.fail(new Backend.Refused({ backend: name, reason: verdict.reason }))
        case "ObserveOnly":
          return Effect.fail(unavailable(verdict.reason))
      }
    }
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
      const created = yield* Effect.either(
        api.create(
          Trainer.trainJobs,
          { namespace },
          {
            metadata: { name: objectName, annotations: { [tokenAnnotation]: submission.token } },
            spec: {
              suspend: true,
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
      // A webhook also refuses what was created before the answer got lost
      const there = yield* Effect.mapError(find(Trainer.trainJobs, objectName), fromKube)
      return there === undefined
        ? yield* new Backend.Refused({ backend: name, reason: error.message })
        : yield* adopt(there, submission)
    })

  const start: Backend.Backend["start"] = (submission) =>
    Effect.gen(function* () {
      const { name: objectName } = ref(submission)
      const found = yield* find(Trainer.trainJobs, objectName)
      if (found?.metadata.uid !== submission.id) return "Gone" as const
      // With the entry it was started before, whatever has become of it since
      if (hasEntry(found) || found.spec?.suspend !== true || typeof found.metadata.deletionTimestamp === "string") {
        return "Started" as const
      }
      yield* Effect.catchTag(writable, "Refused", (error) => unavailable(error.reason))
      const apply = (dryRun: boolean) =>
        api.patch(
          Trainer.trainJobs,
          { namespace, name: objectName },
          {
            type: "apply",
            fieldManager: AdapterConfig.patchManager,
            force: true,
            dryRun,
            body: {
              apiVersion: Resource.apiVersion(Trainer.trainJobs),
              kind: Trainer.trainJobs.kind,
              metadata: {
                name: objectName,
                namespace,
                uid: submission.id,
                resourceVersion: found.metadata.resourceVersion
              },
              spec: { suspend: false, runtimePatches: [entry] }
            }
          }
        )
      const rehearsed = yield* apply(true)
      if (rehearsed.spec?.suspend === true) {
        return yield* unavailable("the server suspends what is started: something else admits TrainJobs here")
      }
      yield* apply(false)
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
        if (found.spec?.suspend !== true) {
          const held = api.patch(
            Trainer.trainJobs,
            { namespace, name: objectName },
            {
              type: "merge",
              fieldManager: AdapterConfig.patchManager,
              body: { metadata: { uid: found.metadata.uid }, spec: { suspend: true } }
            }
          )
          // Without its runtime a TrainJob can be deleted, but not changed. In the foreground it would be started again
          yield* Effect.catchTag(held, "KubeDenied", () =>
            api.remove(
              Trainer.trainJobs,
              { namespace, name: objectName },
              { propagation: "Background", uid: found.metadata.uid }
            )
          )
        }
      }
      // Another TrainJob of that name has parts of the same names: they are not ours to wait for
      if (found !== undefined && !ours) return "Fenced" as const
      const quiet = yield* isQuiet(objectName, found === undefined)
      return quiet ? ("Fenced" as const) : yield* unavailable(`the parts of TrainJob ${objectName} are not at rest yet`)
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
      Stream.mapError((error) => unavailable(error.message, error))
    ),
    stopped: (submission) =>
      Effect.mapBoth(adapter.ceased(ref(submission)), {
        onFailure: (error) => unavailable(error.message, error),
        onSuccess: ({ ceased, ended, reasons, cautions }) => ({ ceased, ended, reasons, cautions })
      })
  }
}
