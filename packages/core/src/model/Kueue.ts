/**
 * `kueue.x-k8s.io/v1beta2` (Kueue 0.17 and later). `v1beta1` objects decode too, as far as they are read.
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import { Condition, envelope, optional } from "./Meta.js"

/** `Workload`. */
export const Workload = Schema.Struct({
  ...envelope,
  spec: optional(
    Schema.Struct({
      active: optional(Schema.Boolean),
      queueName: optional(Schema.String),
      priority: optional(Schema.Number)
    })
  ),
  status: optional(
    Schema.Struct({
      conditions: optional(Schema.Array(Condition)),
      admission: optional(Schema.Struct({ clusterQueue: optional(Schema.String) })),
      admissionChecks: optional(
        Schema.Array(
          Schema.Struct({
            name: Schema.String,
            state: Schema.String,
            message: optional(Schema.String),
            lastTransitionTime: optional(Schema.String)
          })
        )
      ),
      schedulingStats: optional(
        Schema.Struct({
          evictions: optional(
            Schema.Array(
              Schema.Struct({
                reason: Schema.String,
                underlyingCause: optional(Schema.String),
                count: optional(Schema.Number)
              })
            )
          )
        })
      )
    })
  )
})
/** See the schema of the same name. */
export type Workload = typeof Workload.Type

const Conditions = Schema.Struct({ conditions: optional(Schema.Array(Condition)) })

/** `LocalQueue`. */
export const LocalQueue = Schema.Struct({
  ...envelope,
  spec: optional(Schema.Struct({ clusterQueue: optional(Schema.String), stopPolicy: optional(Schema.String) })),
  status: optional(Conditions)
})
/** See the schema of the same name. */
export type LocalQueue = typeof LocalQueue.Type

/** `metav1.LabelSelector`. */
export const LabelSelector = Schema.Struct({
  matchLabels: optional(Schema.Record({ key: Schema.String, value: Schema.String })),
  matchExpressions: optional(
    Schema.Array(
      Schema.Struct({ key: Schema.String, operator: Schema.String, values: optional(Schema.Array(Schema.String)) })
    )
  )
})
/** See the schema of the same name. */
export type LabelSelector = typeof LabelSelector.Type

/** `ClusterQueue`. An absent `namespaceSelector` matches nothing, `{}` everything. */
export const ClusterQueue = Schema.Struct({
  ...envelope,
  spec: optional(
    Schema.Struct({
      namespaceSelector: optional(LabelSelector),
      stopPolicy: optional(Schema.String),
      admissionChecks: optional(Schema.Array(Schema.String)),
      admissionChecksStrategy: optional(
        Schema.Struct({
          admissionChecks: optional(
            Schema.Array(Schema.Struct({ name: Schema.String, onFlavors: optional(Schema.Array(Schema.String)) }))
          )
        })
      ),
      concurrentAdmissionPolicy: optional(Schema.Unknown)
    })
  ),
  status: optional(Conditions)
})
/** See the schema of the same name. */
export type ClusterQueue = typeof ClusterQueue.Type

/** `AdmissionCheck`. */
export const AdmissionCheck = Schema.Struct({
  ...envelope,
  spec: optional(Schema.Struct({ controllerName: optional(Schema.String) })),
  status: optional(Conditions)
})
/** See the schema of the same name. */
export type AdmissionCheck = typeof AdmissionCheck.Type

const kueue = { group: "kueue.x-k8s.io", version: "v1beta2" } as const

export const workloads = Resource.make({
  ...kueue,
  plural: "workloads",
  kind: "Workload",
  scope: "Namespaced",
  schema: Workload
})
export const localQueues = Resource.make({
  ...kueue,
  plural: "localqueues",
  kind: "LocalQueue",
  scope: "Namespaced",
  schema: LocalQueue
})
export const clusterQueues = Resource.make({
  ...kueue,
  plural: "clusterqueues",
  kind: "ClusterQueue",
  scope: "Cluster",
  schema: ClusterQueue
})
export const admissionChecks = Resource.make({
  ...kueue,
  plural: "admissionchecks",
  kind: "AdmissionCheck",
  scope: "Cluster",
  schema: AdmissionCheck
})

/** Label of a TrainJob: its LocalQueue. */
export const queueNameLabel = "kueue.x-k8s.io/queue-name"
/** Label of a Workload: the uid of its TrainJob. */
export const jobUidLabel = "kueue.x-k8s.io/job-uid"
/** The manager of Kueue's own runtimePatches entry. */
export const patchManager = "kueue.x-k8s.io/manager"
/** `managedBy` of TrainJobs that run on another cluster. */
export const multiKueueManager = "kueue.x-k8s.io/multikueue"
