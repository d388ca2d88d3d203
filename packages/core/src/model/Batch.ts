/**
 * `batch/v1` Job, and the pod template that runtimes, JobSets and Jobs share.
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import { Container } from "./Core.js"
import { Condition, envelope, optional, StringMap } from "./Meta.js"

const TemplateMeta = Schema.Struct({ labels: optional(StringMap), annotations: optional(StringMap) })

/** `PodTemplateSpec`. */
export const PodTemplate = Schema.Struct({
  metadata: optional(TemplateMeta),
  spec: optional(
    Schema.Struct({
      restartPolicy: optional(Schema.String),
      containers: optional(Schema.Array(Container)),
      initContainers: optional(Schema.Array(Container)),
      terminationGracePeriodSeconds: optional(Schema.Number)
    })
  )
})

/** `JobSpec`. Absent fields have upstream defaults: `restartPolicy` OnFailure (JobSet), `backoffLimit` 6. */
export const JobSpec = Schema.Struct({
  parallelism: optional(Schema.Number),
  completions: optional(Schema.Number),
  completionMode: optional(Schema.String),
  backoffLimit: optional(Schema.Number),
  backoffLimitPerIndex: optional(Schema.Number),
  activeDeadlineSeconds: optional(Schema.Number),
  ttlSecondsAfterFinished: optional(Schema.Number),
  podReplacementPolicy: optional(Schema.String),
  podFailurePolicy: optional(
    Schema.Struct({ rules: optional(Schema.Array(Schema.Struct({ action: optional(Schema.String) }))) })
  ),
  successPolicy: optional(Schema.Unknown),
  suspend: optional(Schema.Boolean),
  managedBy: optional(Schema.String),
  template: optional(PodTemplate)
})
/** See the schema of the same name. */
export type JobSpec = typeof JobSpec.Type

/** `JobTemplateSpec`, as in a replicatedJob. */
export const JobTemplate = Schema.Struct({ metadata: optional(TemplateMeta), spec: optional(JobSpec) })

/** `Job`. */
export const Job = Schema.Struct({
  ...envelope,
  spec: optional(JobSpec),
  status: optional(
    Schema.Struct({
      conditions: optional(Schema.Array(Condition)),
      startTime: optional(Schema.String),
      completionTime: optional(Schema.String),
      active: optional(Schema.Number),
      terminating: optional(Schema.Number),
      ready: optional(Schema.Number),
      succeeded: optional(Schema.Number),
      failed: optional(Schema.Number),
      completedIndexes: optional(Schema.String)
    })
  )
})
/** See the schema of the same name. */
export type Job = typeof Job.Type

export const jobs = Resource.make({
  group: "batch",
  version: "v1",
  plural: "jobs",
  kind: "Job",
  scope: "Namespaced",
  schema: Job
})

/** Labels that the Job controller puts on its pods. */
export const jobNameLabel = "batch.kubernetes.io/job-name"
export const controllerUidLabel = "batch.kubernetes.io/controller-uid"
/** Label and annotation; rank 0 is completion index 0. */
export const completionIndexLabel = "batch.kubernetes.io/job-completion-index"
