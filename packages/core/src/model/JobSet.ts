/**
 * `jobset.x-k8s.io/v1alpha2` (JobSet 0.11 and later).
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import { JobTemplate } from "./Batch.js"
import { Condition, envelope, optional } from "./Meta.js"

/** One `replicatedJobs[]` entry. */
export const ReplicatedJob = Schema.Struct({
  name: Schema.String,
  groupName: optional(Schema.String),
  replicas: optional(Schema.Number),
  dependsOn: optional(Schema.Array(Schema.Struct({ name: Schema.String, status: optional(Schema.String) }))),
  template: optional(JobTemplate)
})
/** See the schema of the same name. */
export type ReplicatedJob = typeof ReplicatedJob.Type

/** `JobSetSpec`, also the body of a runtime's template. */
export const JobSetSpec = Schema.Struct({
  replicatedJobs: optional(Schema.Array(ReplicatedJob)),
  network: optional(Schema.Struct({ subdomain: optional(Schema.String) })),
  successPolicy: optional(
    Schema.Struct({
      operator: optional(Schema.String),
      targetReplicatedJobs: optional(Schema.Array(Schema.String))
    })
  ),
  failurePolicy: optional(
    Schema.Struct({
      maxRestarts: optional(Schema.Number),
      restartStrategy: optional(Schema.String),
      rules: optional(Schema.Array(Schema.Struct({ name: optional(Schema.String), action: optional(Schema.String) })))
    })
  ),
  startupPolicy: optional(Schema.Struct({ startupPolicyOrder: optional(Schema.String) })),
  coordinator: optional(
    Schema.Struct({
      replicatedJob: optional(Schema.String),
      jobIndex: optional(Schema.Number),
      podIndex: optional(Schema.Number)
    })
  ),
  ttlSecondsAfterFinished: optional(Schema.Number),
  managedBy: optional(Schema.String),
  suspend: optional(Schema.Boolean)
})
/** See the schema of the same name. */
export type JobSetSpec = typeof JobSetSpec.Type

/** Counts of the child Jobs (not pods) of a replicatedJob; the Trainer copies it into a TrainJob's `jobsStatus`. */
export const ReplicatedJobStatus = Schema.Struct({
  name: Schema.String,
  ready: optional(Schema.Number),
  succeeded: optional(Schema.Number),
  failed: optional(Schema.Number),
  active: optional(Schema.Number),
  suspended: optional(Schema.Number)
})

/** `JobSet`. */
export const JobSet = Schema.Struct({
  ...envelope,
  spec: optional(JobSetSpec),
  status: optional(
    Schema.Struct({
      conditions: optional(Schema.Array(Condition)),
      restarts: optional(Schema.Number),
      terminalState: optional(Schema.String),
      replicatedJobsStatus: optional(Schema.Array(ReplicatedJobStatus))
    })
  )
})
/** See the schema of the same name. */
export type JobSet = typeof JobSet.Type

export const jobSets = Resource.make({
  group: "jobset.x-k8s.io",
  version: "v1alpha2",
  plural: "jobsets",
  kind: "JobSet",
  scope: "Namespaced",
  schema: JobSet
})

/** Labels that JobSet puts on Jobs and pods. */
export const jobSetNameLabel = "jobset.sigs.k8s.io/jobset-name"
export const jobSetUidLabel = "jobset.sigs.k8s.io/jobset-uid"
export const replicatedJobLabel = "jobset.sigs.k8s.io/replicatedjob-name"
export const jobIndexLabel = "jobset.sigs.k8s.io/job-index"
export const restartAttemptLabel = "jobset.sigs.k8s.io/restart-attempt"
