/**
 * Without Kueue: a TrainJob without the adapter's entry was not started. Starting it is one server-side apply of the entry
 * and `suspend: false`, on the very object that was read: a request that was under way when its dispatcher died finds
 * another `resourceVersion` once anything has happened since, and is refused. One that is given up before it was started is
 * changed for that reason alone.
 *
 * @module
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Effect } from "effect"
import type * as Backend from "../../Backend.js"
import * as Opening from "./Opening.js"

/** The annotation of a TrainJob that was given up before it was started. */
export const shutAnnotation = "example.dispatch-kubeflow.dev/never-started"

// With the entry it was started before, whatever has become of it since
const wasStarted = ({ spec }: Trainer.TrainJob): boolean =>
  spec?.runtimePatches?.some(({ manager }) => manager === AdapterConfig.patchManager) ?? false

/** Opens by `suspend: false`. */
export const make = (options: {
  readonly api: KubeApi.Service
  readonly namespace: string
  readonly pod: Opening.Pod | undefined
  readonly unavailable: (reason: string) => Backend.Unavailable
}): Opening.Opening => {
  const { api, namespace } = options
  // Each submission is started once: a run's next try is a TrainJob of its own
  const entry = Opening.entryOf(options.pod, 1)
  return {
    created: {},
    start: Effect.fnUntraced(function* (trainJob, allowed) {
      const { metadata, spec } = trainJob
      if (wasStarted(trainJob) || spec?.suspend !== true) return
      yield* allowed
      const apply = (dryRun: boolean) =>
        api.patch(
          Trainer.trainJobs,
          { namespace, name: metadata.name },
          {
            type: "apply",
            fieldManager: AdapterConfig.patchManager,
            force: true,
            dryRun,
            body: {
              apiVersion: Resource.apiVersion(Trainer.trainJobs),
              kind: Trainer.trainJobs.kind,
              metadata: {
                name: metadata.name,
                namespace,
                uid: metadata.uid,
                resourceVersion: metadata.resourceVersion
              },
              spec: { suspend: false, runtimePatches: [entry] }
            }
          }
        )
      const rehearsed = yield* apply(true)
      if (rehearsed.spec?.suspend === true) {
        return yield* options.unavailable("the server suspends what is started: something else admits TrainJobs here")
      }
      yield* apply(false)
    }),
    shut: Effect.fnUntraced(function* (trainJob) {
      const { metadata, spec } = trainJob
      if (wasStarted(trainJob) || spec?.suspend !== true) return yield* Opening.suspend(api, namespace, trainJob)
      if (metadata.annotations?.[shutAnnotation] !== undefined) return
      yield* Opening.change(api, namespace, trainJob, {
        metadata: {
          uid: metadata.uid,
          // Where a start came first, it is one that was started
          resourceVersion: metadata.resourceVersion,
          annotations: { [shutAnnotation]: "true" }
        }
      })
    }),
    // It was made suspended, and the generation counts each change of the spec, whoever makes it
    isUntouched: ({ metadata, spec }) =>
      metadata.generation === 1 && spec?.suspend === true && metadata.annotations?.[shutAnnotation] !== undefined,
    told: (report) => Effect.succeed(report)
  }
}
