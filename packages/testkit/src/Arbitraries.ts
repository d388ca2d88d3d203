/**
 * fast-check arbitraries: objects of every kind as a server stores them, selectors, requests, roles, fault plans. They
 * shrink to the plainest of their sort.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Request from "@dispatch-kubeflow/core/kube/KubeRequest"
import type * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import type * as Batch from "@dispatch-kubeflow/core/model/Batch"
import type * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import type * as Core from "@dispatch-kubeflow/core/model/Core"
import type * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import type * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import type * as Meta from "@dispatch-kubeflow/core/model/Meta"
import type * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { FastCheck as fc } from "effect"
import * as Faults from "./Faults.js"
import * as Json from "./Json.js"

// ---- pieces ---------------------------------------------------------------------------------------------------------

/** A DNS label of at most 12 characters. */
export const name: fc.Arbitrary<string> = fc.stringMatching(/^[a-z]([-a-z0-9]{0,10}[a-z0-9])?$/)

/** One of few namespaces, so that objects meet. */
export const namespace: fc.Arbitrary<string> = fc.constantFrom("default", "team-a", "team-b")

/** A uid. */
export const uid: fc.Arbitrary<string> = fc.uuid({ version: 4 })

/** A time of the year 2026, whole seconds, as `metav1.Time`. */
export const time: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: 31_535_999 })
  .map((seconds) => Json.time(1_767_225_600_000 + seconds * 1000))

/** A time with microseconds, as `metav1.MicroTime`. */
export const microTime: fc.Arbitrary<string> = fc
  .tuple(time, fc.integer({ min: 0, max: 999_999 }))
  .map(([whole, micros]) => `${whole.slice(0, -1)}.${String(micros).padStart(6, "0")}Z`)

const labelKey = fc.constantFrom("app", "tier", "example.com/team", "rank")
const labelValue = fc.constantFrom("", "a", "b", "1", "12", "x.y_z-0")

/** Labels over few keys and values, so that selectors meet them. */
export const labels: fc.Arbitrary<Readonly<Record<string, string>>> = fc.dictionary(labelKey, labelValue, {
  maxKeys: 3
})

const present = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T

const optionally = <A>(arbitrary: fc.Arbitrary<A>): fc.Arbitrary<A | undefined> =>
  fc.option(arbitrary, { nil: undefined })

/** Fields of which each may be missing. */
const partial = <T extends Record<string, unknown>>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<
  Partial<T>
> => fc.record(fields, { requiredKeys: [] })

/** Metadata of a stored object; give what must be fixed. */
export const metadata = (fixed: Partial<Meta.ObjectMeta> = {}): fc.Arbitrary<Meta.ObjectMeta> =>
  fc
    .record({
      name,
      uid,
      resourceVersion: fc.integer({ min: 1, max: 1_000_000 }).map(String),
      creationTimestamp: time,
      labels: optionally(labels),
      annotations: optionally(fc.dictionary(fc.constantFrom("note", "example.com/by"), fc.string(), { maxKeys: 2 })),
      finalizers: optionally(fc.constantFrom(["example.com/hold"])),
      generation: optionally(fc.integer({ min: 1, max: 9 }))
    })
    .map((meta) => present({ ...meta, ...fixed }))

const namespaced = fc.tuple(metadata(), namespace).map(([meta, at]): Meta.ObjectMeta => ({ ...meta, namespace: at }))

/** A condition of one of these types. */
export const condition = (...types: ReadonlyArray<string>): fc.Arbitrary<Meta.Condition> =>
  fc
    .record({
      type: fc.constantFrom(...types),
      status: fc.constantFrom("True", "False", "Unknown"),
      reason: fc.constantFrom("ByTest", "Other"),
      message: optionally(fc.string({ maxLength: 12 })),
      lastTransitionTime: time
    })
    .map(present)

/** Conditions, at most one of each type. */
const conditions = (...types: ReadonlyArray<string>): fc.Arbitrary<ReadonlyArray<Meta.Condition>> =>
  fc.uniqueArray(condition(...types), { selector: ({ type }) => type, maxLength: types.length })

const count = fc.integer({ min: 0, max: 8 })

const object = <A extends object>(apiVersion: string, kind: string, fields: fc.Arbitrary<A>): fc.Arbitrary<A> =>
  fields.map((value) => present({ apiVersion, kind, ...value }))

// ---- core -----------------------------------------------------------------------------------------------------------

const containerName = fc.constantFrom("node", "side", "dataset-initializer")

const container: fc.Arbitrary<NonNullable<NonNullable<Core.Pod["spec"]>["containers"]>[number]> = fc.record({
  name: containerName,
  image: fc.constantFrom("busybox:1", "registry.example.com/train:2")
})

const containers = fc.uniqueArray(container, { selector: (one) => one.name, minLength: 1, maxLength: 3 })

const terminated: fc.Arbitrary<Core.Terminated> = fc
  .record({
    exitCode: fc.constantFrom(0, 1, 2, 137, 143, 255),
    reason: fc.constantFrom("Completed", "Error", "OOMKilled", "ContainerStatusUnknown"),
    startedAt: optionally(time),
    finishedAt: optionally(time),
    containerID: optionally(fc.constant("containerd://0123"))
  })
  .map(present)

/** The state of a container: waiting, running or terminated, or nothing known. */
export const containerState: fc.Arbitrary<NonNullable<Core.ContainerStatus["state"]>> = fc.oneof(
  fc.constant({}),
  fc.constantFrom("ContainerCreating", "ErrImagePull", "CrashLoopBackOff").map((reason) => ({ waiting: { reason } })),
  time.map((startedAt) => ({ running: { startedAt } })),
  terminated.map((end) => ({ terminated: end }))
)

const containerStatus: fc.Arbitrary<Core.ContainerStatus> = fc.record({
  name: containerName,
  state: containerState,
  lastState: containerState,
  ready: fc.boolean(),
  restartCount: count
})

/** A pod in any phase. */
export const pod: fc.Arbitrary<Core.Pod> = object(
  "v1",
  "Pod",
  fc.record({
    metadata: namespaced,
    spec: fc
      .record({
        containers,
        nodeName: optionally(fc.constantFrom("node-1", "node-2")),
        restartPolicy: fc.constantFrom("Always", "OnFailure", "Never"),
        terminationGracePeriodSeconds: fc.constantFrom(0, 1, 30)
      })
      .map(present),
    status: fc
      .record({
        phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed", "Unknown"),
        reason: optionally(fc.constantFrom("Evicted", "NodeLost")),
        conditions: optionally(conditions("Ready", "PodScheduled", "DisruptionTarget")),
        containerStatuses: optionally(
          fc.uniqueArray(containerStatus, { selector: (status) => status.name, maxLength: 3 })
        )
      })
      .map(present)
  })
)

/** A node, tainted or not. */
export const node: fc.Arbitrary<Core.Node> = object(
  "v1",
  "Node",
  fc.record({
    metadata: metadata(),
    spec: partial({
      unschedulable: fc.boolean(),
      taints: fc.array(
        fc.record({
          key: fc.constantFrom(
            "node.kubernetes.io/out-of-service",
            "node.kubernetes.io/unreachable",
            "node.kubernetes.io/not-ready"
          ),
          effect: fc.constantFrom("NoExecute", "NoSchedule")
        }),
        { maxLength: 2 }
      )
    }),
    status: fc.record({
      conditions: conditions("Ready", "MemoryPressure"),
      nodeInfo: fc.record({ bootID: uid, machineID: uid, systemUUID: uid, kubeletVersion: fc.constant("v1.37.2") })
    })
  })
)

/** A namespace, active or terminating. */
export const namespaceObject: fc.Arbitrary<Core.Namespace> = object(
  "v1",
  "Namespace",
  fc.record({ metadata: metadata(), status: fc.record({ phase: fc.constantFrom("Active", "Terminating") }) })
)

/** An event about an object. */
export const event: fc.Arbitrary<Core.Event> = object(
  "v1",
  "Event",
  fc.record({
    metadata: namespaced,
    involvedObject: fc.record({ kind: fc.constantFrom("Pod", "TrainJob", "Node"), name, namespace, uid }),
    type: fc.constantFrom("Normal", "Warning"),
    reason: fc.constantFrom("Stopped", "Preempted", "FailedScheduling"),
    message: fc.string({ maxLength: 20 }),
    count: fc.integer({ min: 1, max: 5 }),
    firstTimestamp: time,
    lastTimestamp: time
  })
)

/** A config map. */
export const configMap: fc.Arbitrary<Core.ConfigMap> = object(
  "v1",
  "ConfigMap",
  fc
    .record({
      metadata: namespaced,
      data: optionally(fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.string({ maxLength: 8 }), { maxKeys: 3 }))
    })
    .map(present)
)

// ---- batch, coordination, JobSet ------------------------------------------------------------------------------------

const jobSpec = fc
  .record({
    parallelism: fc.integer({ min: 1, max: 4 }),
    completionMode: fc.constantFrom("Indexed", "NonIndexed"),
    backoffLimit: optionally(fc.constantFrom(0, 1, 6)),
    suspend: optionally(fc.boolean()),
    podReplacementPolicy: optionally(fc.constantFrom("Failed", "TerminatingOrFailed")),
    template: fc.record({
      metadata: fc.record({ labels }),
      spec: fc.record({ restartPolicy: fc.constantFrom("Never", "OnFailure"), containers })
    })
  })
  .map((spec): Batch.JobSpec => present({ ...spec, completions: spec.parallelism }))

/** A Job. */
export const job: fc.Arbitrary<Batch.Job> = object(
  "batch/v1",
  "Job",
  fc.record({
    metadata: namespaced,
    spec: jobSpec,
    status: partial({
      active: count,
      terminating: count,
      ready: count,
      succeeded: count,
      failed: count,
      startTime: time,
      conditions: conditions("Suspended", "FailureTarget", "Failed", "SuccessCriteriaMet", "Complete")
    })
  })
)

/** A Lease. */
export const lease: fc.Arbitrary<Coordination.Lease> = object(
  "coordination.k8s.io/v1",
  "Lease",
  fc.record({
    metadata: namespaced,
    spec: partial({
      holderIdentity: name,
      leaseDurationSeconds: fc.integer({ min: 1, max: 60 }),
      acquireTime: microTime,
      renewTime: microTime
    })
  })
)

const replicatedJob: fc.Arbitrary<JobSet.ReplicatedJob> = fc.record({
  name: fc.constantFrom("node", "dataset-initializer"),
  replicas: fc.constant(1),
  template: fc.record({
    metadata: fc.record({
      labels: fc.constantFrom<Record<string, string>>({}, { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" })
    }),
    spec: jobSpec
  })
})

const jobSetSpec: fc.Arbitrary<JobSet.JobSetSpec> = fc
  .record({
    replicatedJobs: fc.uniqueArray(replicatedJob, { selector: (one) => one.name, minLength: 1, maxLength: 2 }),
    failurePolicy: optionally(partial({ maxRestarts: count })),
    suspend: optionally(fc.boolean())
  })
  .map(present)

const childCounts = fc.record({
  name: fc.constant("node"),
  ready: count,
  succeeded: count,
  failed: count,
  active: count,
  suspended: count
})

/** A JobSet. */
export const jobSet: fc.Arbitrary<JobSet.JobSet> = object(
  "jobset.x-k8s.io/v1alpha2",
  "JobSet",
  fc.record({
    metadata: namespaced,
    spec: jobSetSpec,
    status: partial({
      conditions: conditions("Suspended", "Failed", "Completed", "StartupPolicyCompleted"),
      restarts: count,
      replicatedJobsStatus: fc.array(childCounts, { maxLength: 1 })
    })
  })
)

// ---- Trainer --------------------------------------------------------------------------------------------------------

/** A TrainJob. */
export const trainJob: fc.Arbitrary<Trainer.TrainJob> = object(
  "trainer.kubeflow.org/v1alpha1",
  "TrainJob",
  fc
    .record({
      metadata: namespaced,
      spec: fc
        .record({
          runtimeRef: fc.record({
            name: fc.constantFrom("torch-distributed", "plain"),
            apiGroup: fc.constant("trainer.kubeflow.org"),
            kind: fc.constantFrom("ClusterTrainingRuntime", "TrainingRuntime")
          }),
          trainer: optionally(fc.record({ numNodes: fc.integer({ min: 1, max: 4 }) })),
          suspend: fc.boolean(),
          managedBy: fc.constant("trainer.kubeflow.org/trainjob-controller")
        })
        .map(present),
      status: optionally(
        partial({
          conditions: conditions("Suspended", "Complete", "Failed"),
          jobsStatus: fc.array(childCounts, { maxLength: 1 })
        })
      )
    })
    .map(present)
)

const runtimeSpec: fc.Arbitrary<Trainer.RuntimeSpec> = fc
  .record({
    mlPolicy: optionally(
      fc.oneof(
        fc.record({ numNodes: fc.integer({ min: 1, max: 4 }), torch: fc.constant({}) }),
        fc.record({ numNodes: fc.integer({ min: 1, max: 4 }) })
      )
    ),
    template: fc.record({ spec: jobSetSpec })
  })
  .map(present)

/** A TrainingRuntime. */
export const trainingRuntime: fc.Arbitrary<Trainer.TrainingRuntime> = object(
  "trainer.kubeflow.org/v1alpha1",
  "TrainingRuntime",
  fc.record({ metadata: namespaced, spec: runtimeSpec })
)

/** A ClusterTrainingRuntime. */
export const clusterTrainingRuntime: fc.Arbitrary<Trainer.TrainingRuntime> = object(
  "trainer.kubeflow.org/v1alpha1",
  "ClusterTrainingRuntime",
  fc.record({ metadata: metadata(), spec: runtimeSpec })
)

// ---- Kueue ----------------------------------------------------------------------------------------------------------

/** A Workload. */
export const workload: fc.Arbitrary<Kueue.Workload> = object(
  "kueue.x-k8s.io/v1beta2",
  "Workload",
  fc.record({
    metadata: namespaced,
    spec: partial({ active: fc.boolean(), queueName: name, priority: count }),
    status: partial({
      conditions: conditions("QuotaReserved", "Admitted", "Evicted", "Preempted", "Finished"),
      admission: fc.record({ clusterQueue: name }),
      admissionChecks: fc.array(
        fc.record({
          name: fc.constant("gate"),
          state: fc.constantFrom("Pending", "Ready", "Retry", "Rejected"),
          message: fc.string({ maxLength: 12 }),
          lastTransitionTime: time
        }),
        { maxLength: 1 }
      )
    })
  })
)

/** A LocalQueue. */
export const localQueue: fc.Arbitrary<Kueue.LocalQueue> = object(
  "kueue.x-k8s.io/v1beta2",
  "LocalQueue",
  fc.record({
    metadata: namespaced,
    spec: fc
      .record({ clusterQueue: name, stopPolicy: optionally(fc.constantFrom("None", "Hold", "HoldAndDrain")) })
      .map(present),
    status: fc.record({ conditions: conditions("Active") })
  })
)

/** A ClusterQueue. */
export const clusterQueue: fc.Arbitrary<Kueue.ClusterQueue> = object(
  "kueue.x-k8s.io/v1beta2",
  "ClusterQueue",
  fc.record({
    metadata: metadata(),
    spec: partial({
      namespaceSelector: fc.constantFrom({}, { matchLabels: { team: "a" } }),
      stopPolicy: fc.constantFrom("None", "Hold"),
      admissionChecksStrategy: fc.record({
        admissionChecks: fc.array(
          fc.record({ name: fc.constant("gate"), onFlavors: fc.constantFrom<ReadonlyArray<string>>([], ["a"]) }),
          { maxLength: 1 }
        )
      })
    }),
    status: fc.record({ conditions: conditions("Active") })
  })
)

/** An AdmissionCheck. */
export const admissionCheck: fc.Arbitrary<Kueue.AdmissionCheck> = object(
  "kueue.x-k8s.io/v1beta2",
  "AdmissionCheck",
  fc.record({
    metadata: metadata(),
    spec: fc.record({ controllerName: fc.constantFrom("example.com/gate", "other") }),
    status: fc.record({ conditions: conditions("Active") })
  })
)

/** Any object of any kind that core reads. */
export const anyObject = fc.oneof(
  pod,
  node,
  namespaceObject,
  event,
  configMap,
  job,
  lease,
  jobSet,
  trainJob,
  trainingRuntime,
  clusterTrainingRuntime,
  workload,
  localQueue,
  clusterQueue,
  admissionCheck
)

// ---- selectors, requests --------------------------------------------------------------------------------------------

const requirement: fc.Arbitrary<Selector.LabelRequirement> = fc.oneof(
  fc.record({
    key: labelKey,
    operator: fc.constantFrom("exists" as const, "notExists" as const),
    values: fc.constant([])
  }),
  fc.record({
    key: labelKey,
    operator: fc.constantFrom("in" as const, "notIn" as const),
    values: fc.uniqueArray(labelValue, { minLength: 1, maxLength: 3 })
  }),
  fc.record({
    key: labelKey,
    operator: fc.constantFrom("gt" as const, "lt" as const),
    values: fc.integer({ min: -5, max: 15 }).map((value) => [String(value)])
  })
)

/** A label selector over the keys and values of `labels`. */
export const labelSelector: fc.Arbitrary<Selector.LabelSelector> = fc.array(requirement, { maxLength: 3 })

/** A field selector that every type accepts. */
export const fieldSelector: fc.Arbitrary<Selector.FieldSelector> = fc.array(
  fc.record({
    field: fc.constantFrom("metadata.name", "metadata.namespace"),
    operator: fc.constantFrom("=", "!="),
    value: fc.oneof(name, namespace)
  }),
  { maxLength: 2 }
)

/** A type that the cluster serves. */
export const resourceType: fc.Arbitrary<KubeRequest.ResourceType> = fc.constantFrom(
  { group: "", version: "v1", plural: "configmaps" },
  { group: "", version: "v1", plural: "pods" },
  { group: "batch", version: "v1", plural: "jobs" },
  { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" },
  { group: "coordination.k8s.io", version: "v1", plural: "leases" }
)

/** A request with any verb; most are well formed. */
export const request: fc.Arbitrary<KubeRequest.KubeRequest> = fc
  .record({
    verb: fc.constantFrom<KubeRequest.Verb>(
      "get",
      "list",
      "watch",
      "create",
      "update",
      "patch",
      "delete",
      "deletecollection"
    ),
    type: resourceType,
    namespace: fc.option(namespace, { nil: undefined, freq: 8 }),
    name,
    subresource: fc.option(fc.constantFrom("status", "log"), { nil: undefined, freq: 1 }),
    query: fc.record(
      {
        limit: fc.constantFrom("1", "2", "500"),
        resourceVersion: fc.constantFrom("0", "1", "7", "nonsense"),
        dryRun: fc.constant("All"),
        fieldManager: name,
        labelSelector: fc.constantFrom("app=a", "app in (a,b)", "!app", "app===a"),
        timeoutSeconds: fc.constantFrom("1", "60")
      },
      { requiredKeys: [] }
    ),
    body: fc.oneof(anyObject, fc.constant({}), fc.jsonValue()),
    patchType: fc.constantFrom<KubeRequest.PatchType>("merge", "json", "strategic", "apply")
  })
  .map(({ body, name: own, namespace: at, patchType, query, subresource, type, verb }) => {
    const single = verb === "get" || verb === "update" || verb === "patch" || verb === "delete"
    return Request.make(verb, type, {
      namespace: at,
      name: single ? own : undefined,
      subresource: single ? subresource : undefined,
      query,
      body: verb === "create" || verb === "update" || verb === "patch" ? body : undefined,
      patchType: verb === "patch" ? patchType : undefined
    })
  })

// ---- RBAC -----------------------------------------------------------------------------------------------------------

const verb = fc.constantFrom("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*")

/** A Role's rule, wildcards and resource names included. */
export const policyRule = fc
  .record({
    apiGroups: fc.uniqueArray(fc.constantFrom("", "batch", "trainer.kubeflow.org", "*"), {
      minLength: 1,
      maxLength: 3
    }),
    resources: fc.uniqueArray(
      fc.constantFrom("configmaps", "pods", "pods/log", "pods/status", "*/log", "jobs", "trainjobs", "nodes", "*"),
      { minLength: 1, maxLength: 4 }
    ),
    verbs: fc.uniqueArray(verb, { minLength: 1, maxLength: 4 }),
    resourceNames: optionally(fc.uniqueArray(name, { minLength: 1, maxLength: 2 }))
  })
  .map(present)

/** A Role of a namespace. */
export const role = fc.record({
  apiVersion: fc.constant("rbac.authorization.k8s.io/v1"),
  kind: fc.constant("Role"),
  metadata: namespaced,
  rules: fc.array(policyRule, { minLength: 1, maxLength: 3 })
})

/** A ClusterRole. */
export const clusterRole = fc.record({
  apiVersion: fc.constant("rbac.authorization.k8s.io/v1"),
  kind: fc.constant("ClusterRole"),
  metadata: metadata(),
  rules: fc.array(policyRule, { minLength: 1, maxLength: 3 })
})

// ---- faults ---------------------------------------------------------------------------------------------------------

const often: fc.Arbitrary<Faults.Often> = fc.oneof(
  fc.constant<Faults.Often>("once"),
  fc.integer({ min: 1, max: 4 }).map((times) => ({ times })),
  fc.constantFrom(0.1, 0.3, 0.7).map((probability) => ({ probability }))
)

const few = fc.integer({ min: 0, max: 4 })

const anyFault: fc.Arbitrary<Faults.Fault> = fc.oneof(
  fc.constantFrom(500, 503, 504).map((code): Faults.Fault => ({ _tag: "refuse", refusal: { code } })),
  fc.constantFrom(1000, 5000).map((retryAfter): Faults.Fault => ({ _tag: "throttle", retryAfter })),
  fc.constantFrom(10, 2000).map((duration): Faults.Fault => ({ _tag: "delay", duration })),
  few.map((after): Faults.Fault => ({ _tag: "cut", after })),
  fc
    .constantFrom("status" as const, "frame" as const)
    .map((shape): Faults.Fault => ({ _tag: "expire", shape, after: 1 }))
)

const watchFault: fc.Arbitrary<Faults.Fault> = fc.oneof(
  anyFault,
  few.map((after): Faults.Fault => ({ _tag: "end", after })),
  few.map((after): Faults.Fault => ({ _tag: "garble", after })),
  few.map((after): Faults.Fault => ({ _tag: "silence", after })),
  fc.integer({ min: 2, max: 3 }).map((times): Faults.Fault => ({ _tag: "duplicate", times })),
  fc.constantFrom(5, 300).map((duration): Faults.Fault => ({ _tag: "slow", duration }))
)

const readFault: fc.Arbitrary<Faults.Fault> = fc.oneof(anyFault, fc.constant<Faults.Fault>({ _tag: "stale" }))

/**
 * A plan of faults that whoever follows a collection must survive: none of them lasts, none says that waiting is of no
 * use. (A read that is never answered is left out: time limits of calls are the transport's business.)
 */
export const recoverablePlan: fc.Arbitrary<Faults.Plan> = fc.array(
  fc.oneof(
    fc.tuple(watchFault, often).map(([fault, how]) => Faults.rule({ verb: "watch" }, fault, how)),
    fc.tuple(readFault, often).map(([fault, how]) => Faults.rule({ verb: ["list", "get"] }, fault, how))
  ),
  { maxLength: 5 }
)
