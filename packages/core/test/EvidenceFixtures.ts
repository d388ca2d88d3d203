import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import { admissionAnnotation } from "@dispatch-kubeflow/core/AdapterConfig"
import type { Job } from "@dispatch-kubeflow/core/model/Batch"
import type { ContainerStatus, Event, Node, Pod, Taint } from "@dispatch-kubeflow/core/model/Core"
import type { JobSet } from "@dispatch-kubeflow/core/model/JobSet"
import type { Workload } from "@dispatch-kubeflow/core/model/Kueue"
import type { Condition } from "@dispatch-kubeflow/core/model/Meta"
import type { TrainJob } from "@dispatch-kubeflow/core/model/Trainer"
import { DateTime } from "effect"

const start = DateTime.toEpochMillis(DateTime.unsafeMake("2026-11-29T17:00:00Z"))

/** Epoch milliseconds of a second of the test's hour. */
export const ms = (second: number): number => start + second * 1000
/** RFC 3339 with whole seconds, as the API server writes it. */
export const at = (second: number): string =>
  DateTime.formatIso(DateTime.unsafeMake(ms(Math.floor(second)))).replace(".000Z", "Z")

export const namespace = "team-a"
export const name = "run-1"

const owner = (apiVersion: string, kind: string, ownerName: string, uid: string) => [
  { apiVersion, kind, name: ownerName, uid, controller: true }
]

export const condition = (
  type: string,
  reason: string,
  second: number,
  message?: string,
  status = "True"
): Condition => ({
  type,
  status,
  reason,
  lastTransitionTime: at(second),
  ...(message === undefined ? {} : { message })
})

export const trainJob = (
  fields: {
    readonly uid?: string
    readonly suspend?: boolean
    readonly numNodes?: number
    readonly conditions?: ReadonlyArray<Condition>
    readonly deleted?: number
    readonly labels?: Readonly<Record<string, string>>
    readonly name?: string
  } = {}
): TrainJob => ({
  metadata: {
    name: fields.name ?? name,
    namespace,
    uid: fields.uid ?? "tj",
    creationTimestamp: at(0),
    ...(fields.labels === undefined ? {} : { labels: fields.labels }),
    ...(fields.deleted === undefined ? {} : { deletionTimestamp: at(fields.deleted) })
  },
  spec: { suspend: fields.suspend ?? false, trainer: { numNodes: fields.numNodes ?? 2 } },
  status: { conditions: fields.conditions ?? [] }
})

export const failed = (second: number, reason = "FailedJobs"): Condition =>
  condition("Failed", reason, second, "jobset failed due to one or more job failures (first failed job: run-1-node-0)")
export const complete = (second: number): Condition =>
  condition("Complete", "AllJobsCompleted", second, "jobset completed successfully")

export const jobSet = (
  fields: { readonly uid?: string; readonly owner?: string; readonly name?: string } = {}
): JobSet => ({
  metadata: {
    name: fields.name ?? name,
    namespace,
    uid: fields.uid ?? "js",
    creationTimestamp: at(0),
    ownerReferences: owner("trainer.kubeflow.org/v1alpha1", "TrainJob", fields.name ?? name, fields.owner ?? "tj")
  },
  spec: { replicatedJobs: [{ name: "node", replicas: 1, template: { spec: { parallelism: 2, completions: 2 } } }] },
  status: { conditions: [] }
})

export const job = (
  fields: {
    readonly uid?: string
    readonly jobSetUid?: string
    readonly parallelism?: number
    readonly started?: number
    readonly conditions?: ReadonlyArray<Condition>
    readonly backoffLimit?: number
    readonly trainJob?: string
  } = {}
): Job => ({
  metadata: {
    name: `${fields.trainJob ?? name}-node-0`,
    namespace,
    uid: fields.uid ?? "job",
    creationTimestamp: at(0),
    labels: {
      "jobset.sigs.k8s.io/jobset-name": fields.trainJob ?? name,
      "jobset.sigs.k8s.io/jobset-uid": fields.jobSetUid ?? "js",
      "jobset.sigs.k8s.io/replicatedjob-name": "node",
      "jobset.sigs.k8s.io/restart-attempt": "0"
    },
    ownerReferences: owner("jobset.x-k8s.io/v1alpha2", "JobSet", fields.trainJob ?? name, fields.jobSetUid ?? "js")
  },
  spec: {
    parallelism: fields.parallelism ?? 2,
    completions: fields.parallelism ?? 2,
    backoffLimit: fields.backoffLimit ?? 0
  },
  status: {
    conditions: fields.conditions ?? [],
    ...(fields.started === undefined ? {} : { startTime: at(fields.started) })
  }
})

export const running = (second = 1): ContainerStatus => ({
  name: "node",
  restartCount: 0,
  containerID: "containerd://c",
  state: { running: { startedAt: at(second) } }
})
export const terminated = (
  exitCode: number,
  reason: string,
  second: number | undefined,
  more: { readonly message?: string; readonly restartCount?: number; readonly containerID?: string } = {}
): ContainerStatus => ({
  name: "node",
  restartCount: more.restartCount ?? 0,
  state: {
    terminated: {
      exitCode,
      reason,
      ...(second === undefined
        ? {}
        : { startedAt: at(1), finishedAt: at(second), containerID: more.containerID ?? "containerd://c" }),
      ...(more.message === undefined ? {} : { message: more.message })
    }
  }
})
/** What the kubelet writes for a container that it cannot find. */
export const lost: ContainerStatus = {
  name: "node",
  restartCount: 0,
  state: {
    terminated: {
      exitCode: 137,
      reason: "ContainerStatusUnknown",
      message: "The container could not be located when the pod was terminated"
    }
  }
}
export const waiting = (reason: string, message?: string): ContainerStatus => ({
  name: "node",
  restartCount: 0,
  state: { waiting: { reason, ...(message === undefined ? {} : { message }) } }
})

export interface PodFields {
  readonly uid?: string
  readonly index?: number
  readonly created?: number
  readonly version?: number
  readonly count?: number | undefined
  readonly jobSetUid?: string
  readonly jobUid?: string
  readonly node?: string | null
  readonly phase?: string
  readonly reason?: string
  readonly message?: string
  readonly container?: ContainerStatus | null
  readonly init?: ReadonlyArray<ContainerStatus & { readonly sidecar?: boolean }>
  readonly conditions?: ReadonlyArray<Condition>
  /** When the deletion was asked for, with the grace period in seconds. */
  readonly deletion?: readonly [second: number, grace: number]
  readonly restartPolicy?: string
  readonly trainJob?: string
}

export const pod = (fields: PodFields = {}): Pod => {
  const run = fields.trainJob ?? name
  return {
    metadata: {
      name: `${run}-node-0-${fields.index ?? 0}-${fields.uid ?? "p0"}`,
      namespace,
      uid: fields.uid ?? "p0",
      creationTimestamp: at(fields.created ?? 0),
      ...(fields.version === undefined ? {} : { resourceVersion: String(fields.version) }),
      ...(fields.deletion === undefined
        ? {}
        : {
            deletionTimestamp: at(fields.deletion[0] + fields.deletion[1]),
            deletionGracePeriodSeconds: fields.deletion[1]
          }),
      labels: {
        "jobset.sigs.k8s.io/jobset-name": run,
        "jobset.sigs.k8s.io/jobset-uid": fields.jobSetUid ?? "js",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "batch.kubernetes.io/job-name": `${run}-node-0`,
        "batch.kubernetes.io/controller-uid": fields.jobUid ?? "job",
        "batch.kubernetes.io/job-completion-index": String(fields.index ?? 0)
      },
      annotations:
        "count" in fields && fields.count === undefined ? {} : { [admissionAnnotation]: String(fields.count ?? 1) },
      ownerReferences: owner("batch/v1", "Job", `${run}-node-0`, fields.jobUid ?? "job")
    },
    spec: {
      ...(fields.node === null ? {} : { nodeName: fields.node ?? `n${fields.index ?? 0}` }),
      restartPolicy: fields.restartPolicy ?? "Never",
      containers: [{ name: "node" }],
      ...(fields.init === undefined
        ? {}
        : {
            initContainers: fields.init.map((it) => ({
              name: it.name,
              ...(it.sidecar === true ? { restartPolicy: "Always" } : {})
            }))
          })
    },
    status: {
      phase: fields.phase ?? "Running",
      ...(fields.reason === undefined ? {} : { reason: fields.reason }),
      ...(fields.message === undefined ? {} : { message: fields.message }),
      conditions: fields.conditions ?? [],
      ...(fields.container === null ? {} : { containerStatuses: [fields.container ?? running()] }),
      ...(fields.init === undefined
        ? {}
        : { initContainerStatuses: fields.init.map(({ sidecar: _sidecar, ...it }) => it) })
    }
  }
}

export const disruption = (reason: string, second: number, message = reason): Condition =>
  condition("DisruptionTarget", reason, second, message)

export const node = (
  fields: {
    readonly name?: string
    readonly uid?: string
    readonly bootID?: string
    readonly machineID?: string
    readonly ready?: string
    readonly since?: number
    readonly taints?: ReadonlyArray<Taint>
  } = {}
): Node => ({
  metadata: { name: fields.name ?? "n0", uid: fields.uid ?? `uid-${fields.name ?? "n0"}` },
  spec: { taints: fields.taints ?? [] },
  status: {
    conditions: [
      {
        type: "Ready",
        status: fields.ready ?? "True",
        reason: (fields.ready ?? "True") === "True" ? "KubeletReady" : "NodeStatusUnknown",
        lastTransitionTime: at(fields.since ?? 0)
      }
    ],
    nodeInfo: {
      bootID: fields.bootID ?? "boot-1",
      machineID: fields.machineID ?? `machine-${fields.name ?? "n0"}`,
      systemUUID: `system-${fields.machineID ?? fields.name ?? "n0"}`
    }
  }
})
export const outOfService: Taint = {
  key: "node.kubernetes.io/out-of-service",
  value: "nodeshutdown",
  effect: "NoExecute"
}
export const unreachable: Taint = { key: "node.kubernetes.io/unreachable", effect: "NoExecute" }

export const workload = (
  fields: {
    readonly uid?: string
    readonly active?: boolean
    readonly conditions?: ReadonlyArray<Condition>
    readonly evictions?: Readonly<Record<string, number>>
    readonly version?: number
  } = {}
): Workload => ({
  metadata: {
    name: "trainjob-run-1-abcde",
    namespace,
    uid: fields.uid ?? "wl",
    creationTimestamp: at(0),
    ...(fields.version === undefined ? {} : { resourceVersion: String(fields.version) }),
    labels: { "kueue.x-k8s.io/job-uid": "tj" },
    ownerReferences: owner("trainer.kubeflow.org/v1alpha1", "TrainJob", name, "tj")
  },
  spec: { active: fields.active ?? true, queueName: "train" },
  status: {
    conditions: fields.conditions ?? [],
    schedulingStats: {
      evictions: Object.entries(fields.evictions ?? {}).map(([reason, count]) => ({ reason, count }))
    }
  }
})

export const event = (reason: string, message: string, second: number): Event => ({
  metadata: { name: `${name}.${reason}`, namespace, uid: `event-${reason}` },
  involvedObject: { kind: "TrainJob", name, namespace, uid: "tj" },
  type: "Normal",
  reason,
  message,
  firstTimestamp: at(second),
  lastTimestamp: at(second)
})

/** A warning about the JobSet `js` or the Job `job`. */
export const warning = (
  about: "JobSet" | "Job",
  message: string,
  second: number,
  fields: { readonly uid?: string } = {}
): Event => ({
  ...event(about === "JobSet" ? "JobCreationFailed" : "FailedCreate", message, second),
  metadata: { name: `${name}.${about}`, namespace, uid: fields.uid ?? `warning-${about}` },
  involvedObject:
    about === "JobSet"
      ? { kind: about, name, namespace, uid: "js" }
      : { kind: about, name: `${name}-node-0`, namespace, uid: "job" },
  type: "Warning"
})

export type Seen = Evidence.Observation

export const seen = {
  trainJob: (object: TrainJob, second: number, presence: Evidence.Presence = "present"): Seen => ({
    _tag: "TrainJob",
    object,
    presence,
    at: ms(second)
  }),
  jobSet: (object: JobSet, second: number, presence: Evidence.Presence = "present"): Seen => ({
    _tag: "JobSet",
    object,
    presence,
    at: ms(second)
  }),
  job: (object: Job, second: number, presence: Evidence.Presence = "present"): Seen => ({
    _tag: "Job",
    object,
    presence,
    at: ms(second)
  }),
  pod: (object: Pod, second: number, presence: Evidence.Presence = "present"): Seen => ({
    _tag: "Pod",
    object,
    presence,
    at: ms(second)
  }),
  workload: (object: Workload, second: number, presence: Evidence.Presence = "present"): Seen => ({
    _tag: "Workload",
    object,
    presence,
    at: ms(second)
  }),
  node: (object: Node | undefined, second: number, nodeName = object?.metadata.name ?? "n0"): Seen => ({
    _tag: "Node",
    name: nodeName,
    node: object,
    at: ms(second)
  }),
  event: (object: Event, second: number): Seen => ({ _tag: "Event", object, at: ms(second) })
}

/** A TrainJob with its JobSet and a Job of two ranks that was started at second 0. */
export const base: ReadonlyArray<Seen> = [
  seen.trainJob(trainJob(), 0),
  seen.jobSet(jobSet(), 0),
  seen.job(job({ started: 0 }), 0)
]

export const evidenceOf = (...observations: ReadonlyArray<Seen>): Evidence.Evidence =>
  Evidence.foldAll(Evidence.empty(namespace, name), observations)
