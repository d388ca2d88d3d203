/**
 * What differs between a namespace that Kueue admits and one that it does not: how a TrainJob is made so that nothing can
 * start it, how it is started once, and how it is stopped for good.
 *
 * @module
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Effect } from "effect"
import type * as Backend from "../../Backend.js"

/** What the pods of a submission get beside their admission count. */
export interface Pod {
  readonly annotations?: Readonly<Record<string, string>> | undefined
  /** e.g. how soon pods give a lost Node up: five minutes when nothing is said. */
  readonly tolerations?: ReadonlyArray<object> | undefined
}

/** The adapter's own entry of such pods. */
export const entryOf = (pod: Pod | undefined, admission: number | undefined): object =>
  AdapterConfig.runtimePatch({
    admission,
    annotations: pod?.annotations,
    podSpec: pod?.tolerations === undefined ? undefined : { tolerations: pod.tolerations }
  })

type Failing<A> = Effect.Effect<A, KubeError | Backend.Unavailable>

/** One way. Every method may be repeated, by any process. */
export interface Opening {
  /** What a new TrainJob of a submission carries, beside `suspend: true`. */
  readonly created: {
    readonly labels?: Readonly<Record<string, string>>
    readonly runtimePatches?: ReadonlyArray<object>
  }
  /** Starts a TrainJob, unless it was started before. `allowed` is asked before the write that starts it. */
  readonly start: (trainJob: Trainer.TrainJob, allowed: Effect.Effect<void, Backend.Unavailable>) => Failing<void>
  /** Takes away what could start it (again). What its controllers make of that is asked later. */
  readonly shut: (trainJob: Trainer.TrainJob) => Failing<void>
  /** Whether it is known that it was never started; asked of one that is shut. */
  readonly isUntouched: (trainJob: Trainer.TrainJob) => boolean
  /** What a report of it means for one that is started once only. */
  readonly told: (report: Backend.Report, name: string) => Failing<Backend.Report>
}

/** An object, undefined where it does not exist. */
export const find = <A extends Resource.KubeObject>(
  api: KubeApi.Service,
  resource: Resource.Resource<A, "Namespaced">,
  ref: { readonly namespace: string; readonly name: string }
): Effect.Effect<A | undefined, KubeError> =>
  Effect.catchIf(
    Effect.map(api.get(resource, ref), (object): A | undefined => object),
    (error) => error._tag === "KubeNotFound" && error.subject === "object",
    () => Effect.succeed(undefined)
  )

/** Changes a TrainJob that is given up. */
export const change = (
  api: KubeApi.Service,
  namespace: string,
  { metadata }: Trainer.TrainJob,
  body: object
): Effect.Effect<void, KubeError> => {
  const ref = { namespace, name: metadata.name }
  return Effect.asVoid(
    Effect.catchTag(
      api.patch(Trainer.trainJobs, ref, { type: "merge", fieldManager: AdapterConfig.patchManager, body }),
      "KubeDenied",
      // Without its runtime a TrainJob can be deleted, but not changed. In the foreground it would be started again
      () => api.remove(Trainer.trainJobs, ref, { propagation: "Background", uid: metadata.uid })
    )
  )
}

/** Suspends a TrainJob. */
export const suspend = (
  api: KubeApi.Service,
  namespace: string,
  trainJob: Trainer.TrainJob
): Effect.Effect<void, KubeError> =>
  trainJob.spec?.suspend === true
    ? Effect.void
    : change(api, namespace, trainJob, { metadata: { uid: trainJob.metadata.uid }, spec: { suspend: true } })
