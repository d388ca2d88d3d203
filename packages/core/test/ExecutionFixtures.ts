import { admissionAnnotation } from "@dispatch-kubeflow/core/AdapterConfig"
import type { Job } from "@dispatch-kubeflow/core/model/Batch"
import type { Pod } from "@dispatch-kubeflow/core/model/Core"
import type { JobSet } from "@dispatch-kubeflow/core/model/JobSet"
import type { TrainJob } from "@dispatch-kubeflow/core/model/Trainer"

/** `10` is 17:00:10. */
export const at = (second: number): string =>
  `2026-11-29T17:${String(Math.floor(second / 60)).padStart(2, "0")}:${String(second % 60).padStart(2, "0")}Z`

export const namespace = "team-a"

export const trainJob = (fields: {
  readonly uid?: string
  readonly created?: number
  readonly suspend?: boolean
  readonly condition?: "Complete" | "Failed"
}): TrainJob => ({
  metadata: { name: "run-1", namespace, uid: fields.uid ?? "tj", creationTimestamp: at(fields.created ?? 0) },
  spec: { suspend: fields.suspend ?? false },
  status: {
    conditions: fields.condition === undefined ? [] : [{ type: fields.condition, status: "True", reason: "x" }]
  }
})

export const jobSet = (fields: {
  readonly uid?: string
  readonly owner?: string
  readonly trainer?: ReadonlyArray<string>
  readonly replicatedJobs?: ReadonlyArray<string>
}): JobSet => ({
  metadata: {
    name: "run-1",
    namespace,
    uid: fields.uid ?? "js",
    ownerReferences: [
      {
        apiVersion: "trainer.kubeflow.org/v1alpha1",
        kind: "TrainJob",
        name: "run-1",
        uid: fields.owner ?? "tj",
        controller: true
      }
    ]
  },
  spec: {
    replicatedJobs: (fields.replicatedJobs ?? ["node"]).map((name) => ({
      name,
      replicas: 1,
      template: {
        metadata: {
          labels: (fields.trainer ?? ["node"]).includes(name)
            ? { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" }
            : {}
        }
      }
    }))
  }
})

export const job = (fields: {
  readonly uid?: string
  readonly rjob?: string
  readonly start?: number
  readonly trainer?: boolean
}): Job => ({
  metadata: {
    name: `run-1-${fields.rjob ?? "node"}-0`,
    namespace,
    uid: fields.uid ?? "job",
    labels: {
      "jobset.sigs.k8s.io/jobset-name": "run-1",
      "jobset.sigs.k8s.io/replicatedjob-name": fields.rjob ?? "node",
      ...(fields.trainer === false ? {} : { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" })
    }
  },
  status: fields.start === undefined ? {} : { startTime: at(fields.start) }
})

export interface PodFields {
  readonly uid: string
  readonly created: number
  readonly count?: number
  readonly index?: number
  readonly rjob?: string
  readonly jobUid?: string
  readonly jobSetUid?: string
  readonly attempt?: number
  readonly phase?: string
  readonly deleted?: number
  readonly containers?: ReadonlyArray<string>
  readonly restartPolicy?: string
  readonly nodeName?: string
  readonly status?: Pod["status"]
}

export const pod = (fields: PodFields): Pod => ({
  metadata: {
    name: `run-1-${fields.rjob ?? "node"}-0-${fields.index ?? 0}-${fields.uid}`,
    namespace,
    uid: fields.uid,
    creationTimestamp: at(fields.created),
    ...(fields.deleted === undefined ? {} : { deletionTimestamp: at(fields.deleted) }),
    labels: {
      "jobset.sigs.k8s.io/jobset-name": "run-1",
      "jobset.sigs.k8s.io/jobset-uid": fields.jobSetUid ?? "js",
      "jobset.sigs.k8s.io/replicatedjob-name": fields.rjob ?? "node",
      "jobset.sigs.k8s.io/job-index": "0",
      "jobset.sigs.k8s.io/restart-attempt": String(fields.attempt ?? 0),
      "batch.kubernetes.io/job-name": `run-1-${fields.rjob ?? "node"}-0`,
      "batch.kubernetes.io/controller-uid": fields.jobUid ?? "job",
      ...((fields.index ?? 0) < 0 ? {} : { "batch.kubernetes.io/job-completion-index": String(fields.index ?? 0) })
    },
    annotations: fields.count === undefined ? {} : { [admissionAnnotation]: String(fields.count) },
    ownerReferences: [
      {
        apiVersion: "batch/v1",
        kind: "Job",
        name: `run-1-${fields.rjob ?? "node"}-0`,
        uid: fields.jobUid ?? "job",
        controller: true
      }
    ]
  },
  spec: {
    ...(fields.nodeName === "" ? {} : { nodeName: fields.nodeName ?? "node-1" }),
    restartPolicy: fields.restartPolicy ?? "Never",
    containers: (fields.containers ?? ["node"]).map((name) => ({ name }))
  },
  status: fields.status ?? { phase: fields.phase ?? "Running" }
})
