/**
 * `trainer.kubeflow.org/v1alpha1` (Kubeflow Trainer 2.2 and later).
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import { JobSetSpec, ReplicatedJobStatus } from "./JobSet.js"
import { Condition, envelope, optional, StringMap } from "./Meta.js"

/** One `runtimePatches[]` entry; everything below the pod template's metadata is kept unread. */
export const RuntimePatch = Schema.Struct({
  manager: Schema.String,
  time: optional(Schema.String),
  trainingRuntimeSpec: optional(Schema.Unknown)
})

/** `TrainJob`. A fresh one has no status at all. */
export const TrainJob = Schema.Struct({
  ...envelope,
  spec: optional(
    Schema.Struct({
      runtimeRef: optional(
        Schema.Struct({ name: Schema.String, apiGroup: optional(Schema.String), kind: optional(Schema.String) })
      ),
      trainer: optional(Schema.Struct({ numNodes: optional(Schema.Number), numProcPerNode: optional(Schema.Unknown) })),
      runtimePatches: optional(Schema.Array(RuntimePatch)),
      suspend: optional(Schema.Boolean),
      activeDeadlineSeconds: optional(Schema.Number),
      managedBy: optional(Schema.String)
    })
  ),
  status: optional(
    Schema.Struct({
      conditions: optional(Schema.Array(Condition)),
      jobsStatus: optional(Schema.Array(ReplicatedJobStatus))
    })
  )
})
/** See the schema of the same name. */
export type TrainJob = typeof TrainJob.Type

/** `mlPolicy`: at most one of the variants is set. */
export const MLPolicy = Schema.Struct({
  numNodes: optional(Schema.Number),
  torch: optional(Schema.Unknown),
  mpi: optional(Schema.Unknown),
  jax: optional(Schema.Unknown),
  xgboost: optional(Schema.Unknown),
  flux: optional(Schema.Unknown)
})

/** The spec shared by TrainingRuntime and ClusterTrainingRuntime. */
export const RuntimeSpec = Schema.Struct({
  mlPolicy: optional(MLPolicy),
  podGroupPolicy: optional(Schema.Unknown),
  template: optional(
    Schema.Struct({
      metadata: optional(Schema.Struct({ labels: optional(StringMap), annotations: optional(StringMap) })),
      spec: optional(JobSetSpec)
    })
  )
})
/** See the schema of the same name. */
export type RuntimeSpec = typeof RuntimeSpec.Type

/** `TrainingRuntime` and `ClusterTrainingRuntime`. */
export const TrainingRuntime = Schema.Struct({ ...envelope, spec: optional(RuntimeSpec) })
/** See the schema of the same name. */
export type TrainingRuntime = typeof TrainingRuntime.Type

const trainer = { group: "trainer.kubeflow.org", version: "v1alpha1" } as const

export const trainJobs = Resource.make({
  ...trainer,
  plural: "trainjobs",
  kind: "TrainJob",
  scope: "Namespaced",
  schema: TrainJob
})
export const trainingRuntimes = Resource.make({
  ...trainer,
  plural: "trainingruntimes",
  kind: "TrainingRuntime",
  scope: "Namespaced",
  schema: TrainingRuntime
})
export const clusterTrainingRuntimes = Resource.make({
  ...trainer,
  plural: "clustertrainingruntimes",
  kind: "ClusterTrainingRuntime",
  scope: "Cluster",
  schema: TrainingRuntime
})

/** Label of a replicatedJob's Job template: `trainer`, `dataset-initializer` or `model-initializer`. Pods do not get it. */
export const ancestorStepLabel = "trainer.kubeflow.org/trainjob-ancestor-step"
/** The container of the trainer step. */
export const trainerContainer = "node"
/** Label of a runtime; value `deprecated`. */
export const supportLabel = "trainer.kubeflow.org/support"
