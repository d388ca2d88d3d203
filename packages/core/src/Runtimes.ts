/**
 * Reading the training runtime that a spec names.
 *
 * @module
 */
import { Effect } from "effect"
import { ErrNotFound, ErrUnsupported } from "./AdapterError.js"
import type * as RuntimeRules from "./decide/RuntimeRules.js"
import type * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import { clusterTrainingRuntimes, trainingRuntimes, type TrainingRuntime } from "./model/Trainer.js"

/** A TrainJob's `spec.runtimeRef`; an absent kind is `ClusterTrainingRuntime`, as upstream. */
export interface RuntimeRef {
  readonly name: string
  readonly kind?: string | undefined
  readonly apiGroup?: string | undefined
}

/** What the capabilities need to know of a run. Everything but `runtimeRef` only sharpens warnings. */
export interface Spec extends RuntimeRules.Use {
  readonly runtimeRef: RuntimeRef
}

/** The reference with its defaults. */
export const kindOf = (ref: RuntimeRef): string => ref.kind ?? "ClusterTrainingRuntime"

/**
 * Reads the runtime in one request. `ErrNotFound` when there is none of that name, `ErrUnsupported` for a kind that
 * Trainer does not know; otherwise the error of the port.
 */
export const read = (
  api: KubeApi.Service,
  namespace: string,
  ref: RuntimeRef
): Effect.Effect<TrainingRuntime, ErrNotFound | ErrUnsupported | KubeError> => {
  const kind = kindOf(ref)
  const group = ref.apiGroup ?? "trainer.kubeflow.org"
  if (group !== "trainer.kubeflow.org" || (kind !== "ClusterTrainingRuntime" && kind !== "TrainingRuntime")) {
    return Effect.fail(
      new ErrUnsupported({
        operation: "reading the runtime",
        reason: `a runtimeRef of kind "${kind}" in API group "${group}" is not a runtime of Kubeflow Trainer`,
        details: [
          {
            id: "runtime-kind",
            where: "spec.runtimeRef",
            problem: `is ${kind}.${group}`,
            remedy: "name a ClusterTrainingRuntime or a TrainingRuntime of trainer.kubeflow.org"
          }
        ]
      })
    )
  }
  const namespaced = kind === "TrainingRuntime"
  return Effect.catchIf(
    namespaced
      ? api.get(trainingRuntimes, { namespace, name: ref.name })
      : api.get(clusterTrainingRuntimes, { name: ref.name }),
    (error) => error._tag === "KubeNotFound" && error.subject !== "type",
    (error) =>
      Effect.fail(
        new ErrNotFound({
          kind,
          name: ref.name,
          namespace: namespaced ? namespace : undefined,
          reason: `the spec's runtime has to exist before a TrainJob can name it (${error.message})`
        })
      )
  )
}
