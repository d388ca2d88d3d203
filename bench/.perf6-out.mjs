// packages/core/src/decide/Evidence.ts
import { DateTime, Option, Schema as Schema8 } from "effect";

// packages/core/src/AdapterConfig.ts
var admissionAnnotation = "dispatch-kubeflow.dev/admission";

// packages/core/src/model/Batch.ts
import { Schema as Schema4 } from "effect";

// packages/core/src/kube/Resource.ts
import { Either, Schema } from "effect";

// packages/core/src/kube/Guard.ts
import { SchemaAST } from "effect";
var isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
var all = (items, f) => {
  const result = [];
  for (const item of items) {
    const mapped = f(item);
    if (mapped === void 0) return void 0;
    result.push(mapped);
  }
  return result;
};
var isNull = (ast) => ast._tag === "Literal" && ast.literal === null;
var isUndefined = (ast) => ast._tag === "UndefinedKeyword";
var membersOf = (ast) => ast._tag === "Union" ? ast.types.flatMap(membersOf) : [ast];
var fieldOf = (property) => {
  const { name, type, isOptional } = property;
  const members = membersOf(type);
  const rest = members.filter((member) => !isNull(member) && !isUndefined(member));
  const guard = rest.length === 0 ? () => false : fromAst(SchemaAST.Union.make(rest));
  if (guard === void 0 || typeof name !== "string") return void 0;
  const unknown2 = rest.some((member) => member._tag === "UnknownKeyword" || member._tag === "AnyKeyword");
  return {
    name,
    undefinedPasses: isOptional || unknown2 || members.some(isUndefined),
    nullPasses: unknown2 || members.some(isNull),
    guard
  };
};
var literal = (ast) => {
  const fields = all(ast.propertySignatures, fieldOf);
  const records2 = all(
    ast.indexSignatures,
    ({ parameter, type }) => parameter._tag === "StringKeyword" ? fromAst(type) : void 0
  );
  if (fields === void 0 || records2 === void 0) return void 0;
  return (value) => {
    if (!isRecord(value)) return false;
    for (const { name, undefinedPasses, nullPasses, guard } of fields) {
      const field = value[name];
      if (field === void 0) {
        if (!undefinedPasses) return false;
      } else if (field === null) {
        if (!nullPasses) return false;
      } else if (!guard(field)) return false;
    }
    for (const guard of records2) for (const key in value) if (!guard(value[key])) return false;
    return true;
  };
};
var fromAst = (ast) => {
  switch (ast._tag) {
    case "StringKeyword":
      return (value) => typeof value === "string";
    case "NumberKeyword":
      return (value) => typeof value === "number";
    case "BooleanKeyword":
      return (value) => typeof value === "boolean";
    case "UnknownKeyword":
    case "AnyKeyword":
      return () => true;
    case "UndefinedKeyword":
      return (value) => value === void 0;
    case "Literal":
      return (value) => value === ast.literal;
    case "Union": {
      const members = all(membersOf(ast), fromAst);
      if (members === void 0) return void 0;
      return (value) => members.some((member) => member(value));
    }
    case "TypeLiteral":
      return literal(ast);
    case "TupleType": {
      const [rest, ...more] = ast.rest;
      if (ast.elements.length > 0 || rest === void 0 || more.length > 0) return void 0;
      const item = fromAst(rest.type);
      return item === void 0 ? void 0 : (value) => Array.isArray(value) && value.every(item);
    }
    default:
      return void 0;
  }
};

// packages/core/src/kube/Resource.ts
var make = (options) => {
  const decode = Schema.decodeUnknownEither(options.schema, { onExcessProperty: "preserve" });
  const guard = fromAst(options.schema.ast);
  return {
    ...options,
    // A decoder copies the object, at many times the cost of looking at it; it is asked only for what is wrong
    decode: guard === void 0 ? decode : (value) => guard(value) ? Either.right(value) : decode(value)
  };
};

// packages/core/src/model/Core.ts
import { Schema as Schema3 } from "effect";

// packages/core/src/model/Meta.ts
import { Schema as Schema2 } from "effect";
var optional = (schema) => Schema2.optional(Schema2.NullOr(schema));
var StringMap = Schema2.Record({ key: Schema2.String, value: Schema2.String });
var OwnerReference = Schema2.Struct({
  apiVersion: Schema2.String,
  kind: Schema2.String,
  name: Schema2.String,
  uid: Schema2.String,
  controller: optional(Schema2.Boolean),
  blockOwnerDeletion: optional(Schema2.Boolean)
});
var ObjectMeta = Schema2.Struct({
  name: Schema2.String,
  namespace: optional(Schema2.String),
  uid: Schema2.String,
  resourceVersion: optional(Schema2.String),
  generation: optional(Schema2.Number),
  creationTimestamp: optional(Schema2.String),
  deletionTimestamp: optional(Schema2.String),
  deletionGracePeriodSeconds: optional(Schema2.Number),
  labels: optional(StringMap),
  annotations: optional(StringMap),
  finalizers: optional(Schema2.Array(Schema2.String)),
  ownerReferences: optional(Schema2.Array(OwnerReference))
});
var Condition = Schema2.Struct({
  type: Schema2.String,
  status: Schema2.String,
  reason: optional(Schema2.String),
  message: optional(Schema2.String),
  lastTransitionTime: optional(Schema2.String),
  lastHeartbeatTime: optional(Schema2.String),
  observedGeneration: optional(Schema2.Number)
});
var envelope = {
  apiVersion: Schema2.optional(Schema2.String),
  kind: Schema2.optional(Schema2.String),
  metadata: ObjectMeta
};
var condition = (conditions, type) => conditions?.find((candidate) => candidate.type === type);
var trueCondition = (conditions, type) => {
  const found = condition(conditions, type);
  return found?.status === "True" ? found : void 0;
};
var controllerOf = (meta) => meta.ownerReferences?.find((owner2) => owner2.controller === true);

// packages/core/src/model/Core.ts
var Terminated = Schema3.Struct({
  exitCode: Schema3.Number,
  signal: optional(Schema3.Number),
  reason: optional(Schema3.String),
  message: optional(Schema3.String),
  startedAt: optional(Schema3.String),
  finishedAt: optional(Schema3.String),
  containerID: optional(Schema3.String)
});
var ContainerState = Schema3.Struct({
  waiting: optional(Schema3.Struct({ reason: optional(Schema3.String), message: optional(Schema3.String) })),
  running: optional(Schema3.Struct({ startedAt: optional(Schema3.String) })),
  terminated: optional(Terminated)
});
var ContainerStatus = Schema3.Struct({
  name: Schema3.String,
  state: optional(ContainerState),
  lastState: optional(ContainerState),
  ready: optional(Schema3.Boolean),
  restartCount: optional(Schema3.Number),
  image: optional(Schema3.String),
  containerID: optional(Schema3.String),
  started: optional(Schema3.Boolean)
});
var Container = Schema3.Struct({
  name: Schema3.String,
  image: optional(Schema3.String),
  // a sidecar is an init container with restartPolicy Always
  restartPolicy: optional(Schema3.String)
});
var PodSpec = Schema3.Struct({
  nodeName: optional(Schema3.String),
  restartPolicy: optional(Schema3.String),
  containers: optional(Schema3.Array(Container)),
  initContainers: optional(Schema3.Array(Container)),
  terminationGracePeriodSeconds: optional(Schema3.Number)
});
var Pod = Schema3.Struct({
  ...envelope,
  spec: optional(PodSpec),
  status: optional(
    Schema3.Struct({
      phase: optional(Schema3.String),
      reason: optional(Schema3.String),
      message: optional(Schema3.String),
      startTime: optional(Schema3.String),
      conditions: optional(Schema3.Array(Condition)),
      containerStatuses: optional(Schema3.Array(ContainerStatus)),
      initContainerStatuses: optional(Schema3.Array(ContainerStatus))
    })
  )
});
var Taint = Schema3.Struct({
  key: Schema3.String,
  value: optional(Schema3.String),
  effect: Schema3.String,
  timeAdded: optional(Schema3.String)
});
var Node = Schema3.Struct({
  ...envelope,
  spec: optional(Schema3.Struct({ unschedulable: optional(Schema3.Boolean), taints: optional(Schema3.Array(Taint)) })),
  status: optional(
    Schema3.Struct({
      conditions: optional(Schema3.Array(Condition)),
      nodeInfo: optional(Schema3.Struct({ bootID: optional(Schema3.String), kubeletVersion: optional(Schema3.String) }))
    })
  )
});
var Namespace = Schema3.Struct({
  ...envelope,
  status: optional(Schema3.Struct({ phase: optional(Schema3.String) }))
});
var Event = Schema3.Struct({
  ...envelope,
  involvedObject: Schema3.Struct({
    apiVersion: optional(Schema3.String),
    kind: optional(Schema3.String),
    name: optional(Schema3.String),
    namespace: optional(Schema3.String),
    uid: optional(Schema3.String)
  }),
  type: optional(Schema3.String),
  reason: optional(Schema3.String),
  message: optional(Schema3.String),
  count: optional(Schema3.Number),
  firstTimestamp: optional(Schema3.String),
  lastTimestamp: optional(Schema3.String),
  eventTime: optional(Schema3.String),
  series: optional(Schema3.Struct({ count: optional(Schema3.Number), lastObservedTime: optional(Schema3.String) })),
  reportingComponent: optional(Schema3.String)
});
var ConfigMap = Schema3.Struct({ ...envelope, data: optional(StringMap) });
var core = { group: "", version: "v1" };
var pods = make({ ...core, plural: "pods", kind: "Pod", scope: "Namespaced", schema: Pod });
var nodes = make({ ...core, plural: "nodes", kind: "Node", scope: "Cluster", schema: Node });
var namespaces = make({
  ...core,
  plural: "namespaces",
  kind: "Namespace",
  scope: "Cluster",
  schema: Namespace
});
var events = make({ ...core, plural: "events", kind: "Event", scope: "Namespaced", schema: Event });
var configMaps = make({
  ...core,
  plural: "configmaps",
  kind: "ConfigMap",
  scope: "Namespaced",
  schema: ConfigMap
});
var outOfServiceTaint = "node.kubernetes.io/out-of-service";

// packages/core/src/model/Batch.ts
var TemplateMeta = Schema4.Struct({ labels: optional(StringMap), annotations: optional(StringMap) });
var PodTemplate = Schema4.Struct({
  metadata: optional(TemplateMeta),
  spec: optional(
    Schema4.Struct({
      restartPolicy: optional(Schema4.String),
      containers: optional(Schema4.Array(Container)),
      initContainers: optional(Schema4.Array(Container)),
      terminationGracePeriodSeconds: optional(Schema4.Number)
    })
  )
});
var JobSpec = Schema4.Struct({
  parallelism: optional(Schema4.Number),
  completions: optional(Schema4.Number),
  completionMode: optional(Schema4.String),
  backoffLimit: optional(Schema4.Number),
  backoffLimitPerIndex: optional(Schema4.Number),
  activeDeadlineSeconds: optional(Schema4.Number),
  ttlSecondsAfterFinished: optional(Schema4.Number),
  podReplacementPolicy: optional(Schema4.String),
  podFailurePolicy: optional(
    Schema4.Struct({ rules: optional(Schema4.Array(Schema4.Struct({ action: optional(Schema4.String) }))) })
  ),
  successPolicy: optional(Schema4.Unknown),
  suspend: optional(Schema4.Boolean),
  managedBy: optional(Schema4.String),
  template: optional(PodTemplate)
});
var JobTemplate = Schema4.Struct({ metadata: optional(TemplateMeta), spec: optional(JobSpec) });
var Job = Schema4.Struct({
  ...envelope,
  spec: optional(JobSpec),
  status: optional(
    Schema4.Struct({
      conditions: optional(Schema4.Array(Condition)),
      startTime: optional(Schema4.String),
      completionTime: optional(Schema4.String),
      active: optional(Schema4.Number),
      terminating: optional(Schema4.Number),
      ready: optional(Schema4.Number),
      succeeded: optional(Schema4.Number),
      failed: optional(Schema4.Number),
      completedIndexes: optional(Schema4.String)
    })
  )
});
var jobs = make({
  group: "batch",
  version: "v1",
  plural: "jobs",
  kind: "Job",
  scope: "Namespaced",
  schema: Job
});
var jobNameLabel = "batch.kubernetes.io/job-name";
var controllerUidLabel = "batch.kubernetes.io/controller-uid";
var completionIndexLabel = "batch.kubernetes.io/job-completion-index";

// packages/core/src/model/JobSet.ts
import { Schema as Schema5 } from "effect";
var ReplicatedJob = Schema5.Struct({
  name: Schema5.String,
  groupName: optional(Schema5.String),
  replicas: optional(Schema5.Number),
  dependsOn: optional(Schema5.Array(Schema5.Struct({ name: Schema5.String, status: optional(Schema5.String) }))),
  template: optional(JobTemplate)
});
var JobSetSpec = Schema5.Struct({
  replicatedJobs: optional(Schema5.Array(ReplicatedJob)),
  network: optional(Schema5.Struct({ subdomain: optional(Schema5.String) })),
  successPolicy: optional(
    Schema5.Struct({
      operator: optional(Schema5.String),
      targetReplicatedJobs: optional(Schema5.Array(Schema5.String))
    })
  ),
  failurePolicy: optional(
    Schema5.Struct({
      maxRestarts: optional(Schema5.Number),
      restartStrategy: optional(Schema5.String),
      rules: optional(Schema5.Array(Schema5.Struct({ name: optional(Schema5.String), action: optional(Schema5.String) })))
    })
  ),
  startupPolicy: optional(Schema5.Struct({ startupPolicyOrder: optional(Schema5.String) })),
  coordinator: optional(
    Schema5.Struct({
      replicatedJob: optional(Schema5.String),
      jobIndex: optional(Schema5.Number),
      podIndex: optional(Schema5.Number)
    })
  ),
  ttlSecondsAfterFinished: optional(Schema5.Number),
  managedBy: optional(Schema5.String),
  suspend: optional(Schema5.Boolean)
});
var ReplicatedJobStatus = Schema5.Struct({
  name: Schema5.String,
  ready: optional(Schema5.Number),
  succeeded: optional(Schema5.Number),
  failed: optional(Schema5.Number),
  active: optional(Schema5.Number),
  suspended: optional(Schema5.Number)
});
var JobSet = Schema5.Struct({
  ...envelope,
  spec: optional(JobSetSpec),
  status: optional(
    Schema5.Struct({
      conditions: optional(Schema5.Array(Condition)),
      restarts: optional(Schema5.Number),
      terminalState: optional(Schema5.String),
      replicatedJobsStatus: optional(Schema5.Array(ReplicatedJobStatus))
    })
  )
});
var jobSets = make({
  group: "jobset.x-k8s.io",
  version: "v1alpha2",
  plural: "jobsets",
  kind: "JobSet",
  scope: "Namespaced",
  schema: JobSet
});
var jobSetNameLabel = "jobset.sigs.k8s.io/jobset-name";
var jobSetUidLabel = "jobset.sigs.k8s.io/jobset-uid";
var replicatedJobLabel = "jobset.sigs.k8s.io/replicatedjob-name";
var jobIndexLabel = "jobset.sigs.k8s.io/job-index";
var restartAttemptLabel = "jobset.sigs.k8s.io/restart-attempt";

// packages/core/src/model/Kueue.ts
import { Schema as Schema6 } from "effect";
var Workload = Schema6.Struct({
  ...envelope,
  spec: optional(
    Schema6.Struct({
      active: optional(Schema6.Boolean),
      queueName: optional(Schema6.String),
      priority: optional(Schema6.Number)
    })
  ),
  status: optional(
    Schema6.Struct({
      conditions: optional(Schema6.Array(Condition)),
      admission: optional(Schema6.Struct({ clusterQueue: optional(Schema6.String) })),
      admissionChecks: optional(
        Schema6.Array(
          Schema6.Struct({
            name: Schema6.String,
            state: Schema6.String,
            message: optional(Schema6.String),
            lastTransitionTime: optional(Schema6.String)
          })
        )
      ),
      schedulingStats: optional(
        Schema6.Struct({
          evictions: optional(
            Schema6.Array(
              Schema6.Struct({
                reason: Schema6.String,
                underlyingCause: optional(Schema6.String),
                count: optional(Schema6.Number)
              })
            )
          )
        })
      )
    })
  )
});
var Conditions = Schema6.Struct({ conditions: optional(Schema6.Array(Condition)) });
var LocalQueue = Schema6.Struct({
  ...envelope,
  spec: optional(Schema6.Struct({ clusterQueue: optional(Schema6.String), stopPolicy: optional(Schema6.String) })),
  status: optional(Conditions)
});
var LabelSelector = Schema6.Struct({
  matchLabels: optional(Schema6.Record({ key: Schema6.String, value: Schema6.String })),
  matchExpressions: optional(
    Schema6.Array(
      Schema6.Struct({ key: Schema6.String, operator: Schema6.String, values: optional(Schema6.Array(Schema6.String)) })
    )
  )
});
var ClusterQueue = Schema6.Struct({
  ...envelope,
  spec: optional(
    Schema6.Struct({
      namespaceSelector: optional(LabelSelector),
      stopPolicy: optional(Schema6.String),
      admissionChecks: optional(Schema6.Array(Schema6.String)),
      admissionChecksStrategy: optional(
        Schema6.Struct({
          admissionChecks: optional(
            Schema6.Array(Schema6.Struct({ name: Schema6.String, onFlavors: optional(Schema6.Array(Schema6.String)) }))
          )
        })
      ),
      concurrentAdmissionPolicy: optional(Schema6.Unknown)
    })
  ),
  status: optional(Conditions)
});
var AdmissionCheck = Schema6.Struct({
  ...envelope,
  spec: optional(Schema6.Struct({ controllerName: optional(Schema6.String) })),
  status: optional(Conditions)
});
var kueue = { group: "kueue.x-k8s.io", version: "v1beta2" };
var workloads = make({
  ...kueue,
  plural: "workloads",
  kind: "Workload",
  scope: "Namespaced",
  schema: Workload
});
var localQueues = make({
  ...kueue,
  plural: "localqueues",
  kind: "LocalQueue",
  scope: "Namespaced",
  schema: LocalQueue
});
var clusterQueues = make({
  ...kueue,
  plural: "clusterqueues",
  kind: "ClusterQueue",
  scope: "Cluster",
  schema: ClusterQueue
});
var admissionChecks = make({
  ...kueue,
  plural: "admissionchecks",
  kind: "AdmissionCheck",
  scope: "Cluster",
  schema: AdmissionCheck
});
var queueNameLabel = "kueue.x-k8s.io/queue-name";
var jobUidLabel = "kueue.x-k8s.io/job-uid";

// packages/core/src/model/Trainer.ts
import { Schema as Schema7 } from "effect";
var RuntimePatch = Schema7.Struct({
  manager: Schema7.String,
  time: optional(Schema7.String),
  trainingRuntimeSpec: optional(Schema7.Unknown)
});
var TrainJob = Schema7.Struct({
  ...envelope,
  spec: optional(
    Schema7.Struct({
      runtimeRef: optional(
        Schema7.Struct({ name: Schema7.String, apiGroup: optional(Schema7.String), kind: optional(Schema7.String) })
      ),
      trainer: optional(Schema7.Struct({ numNodes: optional(Schema7.Number), numProcPerNode: optional(Schema7.Unknown) })),
      runtimePatches: optional(Schema7.Array(RuntimePatch)),
      suspend: optional(Schema7.Boolean),
      activeDeadlineSeconds: optional(Schema7.Number),
      managedBy: optional(Schema7.String)
    })
  ),
  status: optional(
    Schema7.Struct({
      conditions: optional(Schema7.Array(Condition)),
      jobsStatus: optional(Schema7.Array(ReplicatedJobStatus))
    })
  )
});
var MLPolicy = Schema7.Struct({
  numNodes: optional(Schema7.Number),
  torch: optional(Schema7.Unknown),
  mpi: optional(Schema7.Unknown),
  jax: optional(Schema7.Unknown),
  xgboost: optional(Schema7.Unknown),
  flux: optional(Schema7.Unknown)
});
var RuntimeSpec = Schema7.Struct({
  mlPolicy: optional(MLPolicy),
  podGroupPolicy: optional(Schema7.Unknown),
  template: optional(
    Schema7.Struct({
      metadata: optional(Schema7.Struct({ labels: optional(StringMap), annotations: optional(StringMap) })),
      spec: optional(JobSetSpec)
    })
  )
});
var TrainingRuntime = Schema7.Struct({ ...envelope, spec: optional(RuntimeSpec) });
var trainer = { group: "trainer.kubeflow.org", version: "v1alpha1" };
var trainJobs = make({
  ...trainer,
  plural: "trainjobs",
  kind: "TrainJob",
  scope: "Namespaced",
  schema: TrainJob
});
var trainingRuntimes = make({
  ...trainer,
  plural: "trainingruntimes",
  kind: "TrainingRuntime",
  scope: "Namespaced",
  schema: TrainingRuntime
});
var clusterTrainingRuntimes = make({
  ...trainer,
  plural: "clustertrainingruntimes",
  kind: "ClusterTrainingRuntime",
  scope: "Cluster",
  schema: TrainingRuntime
});
var ancestorStepLabel = "trainer.kubeflow.org/trainjob-ancestor-step";

// packages/core/src/decide/Execution.ts
var trainJobRecord = (trainJob3) => ({
  namespace: trainJob3.metadata.namespace ?? "",
  name: trainJob3.metadata.name,
  uid: trainJob3.metadata.uid,
  creationTimestamp: trainJob3.metadata.creationTimestamp ?? void 0,
  suspend: trainJob3.spec?.suspend === true,
  finished: trueCondition(trainJob3.status?.conditions, "Complete") !== void 0 || trueCondition(trainJob3.status?.conditions, "Failed") !== void 0,
  gone: false
});
var jobSetRecord = (jobSet2) => ({
  uid: jobSet2.metadata.uid,
  name: jobSet2.metadata.name,
  ownerUid: controllerOf(jobSet2.metadata)?.uid
});
var jobRecord = (job2) => ({
  uid: job2.metadata.uid,
  name: job2.metadata.name,
  startTime: job2.status?.startTime ?? void 0
});
var podRecord = (pod2, gone = false) => ({
  namespace: pod2.metadata.namespace ?? "",
  name: pod2.metadata.name,
  uid: pod2.metadata.uid,
  labels: pod2.metadata.labels ?? {},
  annotations: pod2.metadata.annotations ?? {},
  creationTimestamp: pod2.metadata.creationTimestamp ?? void 0,
  deletionTimestamp: pod2.metadata.deletionTimestamp ?? void 0,
  phase: pod2.status?.phase ?? void 0,
  nodeName: pod2.spec?.nodeName ?? void 0,
  ownerUid: controllerOf(pod2.metadata)?.uid,
  gone
});
var admissionOf = (annotations) => {
  const text = annotations[admissionAnnotation];
  return text !== void 0 && /^[0-9]{1,15}$/.test(text) ? Number(text) : void 0;
};
var hasFinished = (pod2) => pod2.phase === "Succeeded" || pod2.phase === "Failed";
var isActive = (pod2) => !pod2.gone && !hasFinished(pod2) && pod2.deletionTimestamp === void 0;
var compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
var label = (pod2, key) => pod2.labels[key] ?? "";
var keyOf = (...parts) => parts.join("\0");
var makeMember = (pod2) => {
  const jobSetUid = label(pod2, jobSetUidLabel);
  const restartAttempt = label(pod2, restartAttemptLabel);
  const jobUid = pod2.ownerUid ?? label(pod2, controllerUidLabel);
  const jobName = label(pod2, jobNameLabel);
  const replicatedJob = label(pod2, replicatedJobLabel);
  const jobIndex = label(pod2, jobIndexLabel);
  return {
    pod: pod2,
    uid: pod2.uid,
    created: pod2.creationTimestamp ?? "",
    active: isActive(pod2),
    number: admissionOf(pod2.annotations),
    jobSetUid,
    restartAttempt,
    jobUid,
    jobName,
    replicatedJob,
    jobIndex,
    setKey: keyOf(jobSetUid, restartAttempt),
    runKey: keyOf(jobUid, jobName, replicatedJob, jobIndex)
  };
};
var membersByPod = /* @__PURE__ */ new WeakMap();
var memberOf = (pod2) => {
  const known = membersByPod.get(pod2);
  if (known !== void 0) return known;
  const made = makeMember(pod2);
  membersByPod.set(pod2, made);
  return made;
};
var byCreation = (a, b) => compare(a.created, b.created) || Number(a.active) - Number(b.active) || compare(a.uid, b.uid);
var sorted = (groups) => {
  const [only] = groups;
  return groups.length === 1 && only !== void 0 ? only : groups.flat().sort(byCreation);
};
var podsOf = (members) => members.map(({ pod: pod2 }) => pod2);
var groupBy = (items, key) => {
  const groups = /* @__PURE__ */ new Map();
  for (const item of items) {
    const at = key(item);
    const group = groups.get(at);
    if (group === void 0) groups.set(at, [item]);
    else group.push(item);
  }
  return groups;
};
var newestCreation = (members) => members.reduce((newest, { created: created2 }) => created2 > newest ? created2 : newest, "");
var startTimesByJob = (jobs3) => new Map(
  [...groupBy(jobs3, (job2) => job2.uid)].map(([uid2, states]) => [
    uid2,
    [...new Set(states.flatMap((job2) => job2.startTime ?? []))].toSorted(compare)
  ])
);
var startOf = ({ active, created: created2 }, starts) => active ? starts.at(-1) : starts.findLast((start) => start <= created2);
var runsOf = (members, starts) => [...groupBy(members, ({ runKey }) => runKey).values()].flatMap((job2) => {
  const [sample] = job2;
  const times = starts.get(sample?.jobUid ?? "") ?? [];
  return [...groupBy(job2, (member) => startOf(member, times))].flatMap(
    ([startTime, group]) => {
      const [first] = group;
      if (first === void 0) return [];
      const { jobUid, jobName, replicatedJob, jobIndex, runKey } = first;
      const ordered = group.toSorted(byCreation);
      return [
        {
          run: { jobUid, jobName, replicatedJob, jobIndex, startTime, pods: podsOf(ordered) },
          members: ordered,
          key: runKey
        }
      ];
    }
  );
}).toSorted(
  (a, b) => compare(a.members.at(-1)?.created ?? "", b.members.at(-1)?.created ?? "") || compare(a.run.startTime ?? "", b.run.startTime ?? "") || compare(a.key, b.key)
);
var incarnationsOf = (members, starts) => {
  const sets = [...groupBy(members, ({ setKey }) => setKey).values()].flatMap((group) => {
    const [sample] = group;
    if (sample === void 0) return [];
    const ordinals = /* @__PURE__ */ new Map();
    const runs = runsOf(group, starts).map((started) => {
      const ordinal = ordinals.get(started.run.jobName) ?? 0;
      ordinals.set(started.run.jobName, ordinal + 1);
      return { ordinal, started };
    });
    return [...groupBy(runs, ({ ordinal }) => ordinal)].map(([ordinal, same]) => {
      const all2 = sorted(same.map(({ started }) => started.members));
      return {
        incarnation: {
          jobSetUid: sample.jobSetUid,
          restartAttempt: sample.restartAttempt,
          ordinal,
          runs: same.map(({ started }) => started.run),
          pods: podsOf(all2)
        },
        members: all2
      };
    });
  });
  if (sets.length <= 1) return sets;
  const jobSets2 = groupBy(members, ({ jobSetUid }) => jobSetUid);
  const ages = new Map(
    [...jobSets2].map(([uid2, own]) => [uid2, `${newestCreation(own)}${own.some(({ active }) => active) ? "1" : "0"}`])
  );
  const age = (uid2) => ages.get(uid2) ?? "";
  return sets.toSorted(
    ({ incarnation: a }, { incarnation: b }) => compare(age(a.jobSetUid), age(b.jobSetUid)) || compare(a.jobSetUid, b.jobSetUid) || Number(a.restartAttempt) - Number(b.restartAttempt) || a.ordinal - b.ordinal
  );
};
var draft = (number, grouped) => {
  const incarnations = grouped.map(({ incarnation }) => incarnation);
  const newest = incarnations.at(-1);
  if (newest === void 0) return [];
  const members = sorted(grouped.map((it) => it.members));
  return [
    {
      execution: {
        number,
        identity: number === void 0 ? "inferred" : "injected",
        incarnations,
        newest,
        repeated: incarnations.length > 1,
        pods: podsOf(members)
      },
      members
    }
  ];
};
var belongs = (trainJob3, owners, { jobSetUid, created: created2 }) => {
  if (trainJob3.uid === void 0) return true;
  if (owners.has(jobSetUid)) return owners.get(jobSetUid) === trainJob3.uid;
  return trainJob3.creationTimestamp === void 0 || created2 >= trainJob3.creationTimestamp;
};
var executions = (facts2) => {
  const { trainJob: trainJob3 } = facts2;
  const owners = new Map(facts2.jobSets.map((jobSet2) => [jobSet2.uid, jobSet2.ownerUid]));
  const starts = startTimesByJob(facts2.jobs);
  const numbered = [];
  const unnumbered = [];
  const strays = [];
  for (const pod2 of facts2.pods) {
    if (pod2.namespace !== trainJob3.namespace || label(pod2, jobSetNameLabel) !== trainJob3.name) continue;
    const member = memberOf(pod2);
    if (!belongs(trainJob3, owners, member)) strays.push(member);
    else if (member.number === void 0) unnumbered.push(member);
    else numbered.push(member);
  }
  const injected = [...groupBy(numbered, ({ number }) => number)].toSorted(([a], [b]) => (a ?? 0) - (b ?? 0)).flatMap(([number, members]) => draft(number, incarnationsOf(members, starts)));
  const inferred = incarnationsOf(unnumbered, starts).flatMap((grouped) => draft(void 0, [grouped]));
  const newestNumbered = newestCreation(injected.at(-1)?.members ?? []);
  const isLater = ({ members }) => newestCreation(members) > newestNumbered;
  const ordered = [...inferred.filter((it) => !isLater(it)), ...injected, ...inferred.filter(isLater)];
  const stops = trainJob3.gone || trainJob3.finished || trainJob3.suspend;
  const all2 = ordered.map(({ execution, members }, index) => ({
    ...execution,
    over: index < ordered.length - 1 || !members.some(({ active, pod: pod2 }) => stops ? active : !pod2.gone && !hasFinished(pod2))
  }));
  const last = all2.at(-1);
  return {
    all: all2,
    current: last?.over === false ? last : void 0,
    last,
    strays: podsOf(strays.toSorted(byCreation))
  };
};

// packages/core/src/decide/Evidence.ts
var Presence = Schema8.Literal("present", "seen", "inferred");
var kept = {
  presence: Presence,
  /** When this state was first seen, epoch milliseconds. */
  seenAt: Schema8.Number,
  /** When the deletion was noticed, epoch milliseconds. */
  goneAt: Schema8.optional(Schema8.Number)
};
var Ending = Schema8.Struct({
  container: Schema8.String,
  role: Schema8.Literal("main", "init", "sidecar"),
  restartCount: Schema8.Number,
  /** Seen before the pod had a deletionTimestamp: the exit came first. */
  beforeDeletion: Schema8.Boolean,
  terminated: Terminated
});
var PodEvidence = Schema8.Struct({
  ...kept,
  /** The last state, without what is never read. */
  pod: Pod,
  /** First real termination records, oldest first: `ContainerStatusUnknown` afterwards does not replace them. */
  endings: Schema8.Array(Ending),
  /** `DisruptionTarget` True in each form that it had, oldest first: PodGC overwrites what the taint manager wrote. */
  disruptions: Schema8.Array(Condition),
  /**
   * When the deletion was asked for (RFC 3339). The kubelet moves `deletionTimestamp` to the end: when only that was seen,
   * this is the latest possible time and `deletionIsExact` is false.
   */
  deletionRequestedAt: Schema8.optional(Schema8.String),
  deletionIsExact: Schema8.optional(Schema8.Boolean),
  /** The Node as it was while the pod had not ended. */
  node: Schema8.optional(
    Schema8.Struct({
      name: Schema8.String,
      uid: Schema8.String,
      bootID: Schema8.optional(Schema8.String),
      at: Schema8.Number
    })
  )
});
var TrainJobEvidence = Schema8.Struct({
  ...kept,
  trainJob: TrainJob,
  /** The first Complete or Failed. The Trainer takes Failed back when it re-creates a JobSet; the evidence does not. */
  terminal: Schema8.optional(Condition),
  /** The states of condition Suspended, oldest first. */
  suspensions: Schema8.Array(Condition)
});
var JobSetEvidence = Schema8.Struct({ ...kept, jobSet: JobSet });
var JobEvidence = Schema8.Struct({
  ...kept,
  job: Job,
  /** Every start time seen: suspending removes it, resuming sets a new one. */
  startTimes: Schema8.Array(Schema8.String)
});
var Eviction = Schema8.Struct({
  /** Reason of condition Evicted, e.g. `Preempted`, `Deactivated`. */
  reason: Schema8.String,
  message: Schema8.optional(Schema8.String),
  /** `condition`: seen itself; `stats`: only the counter told it. */
  source: Schema8.Literal("condition", "stats"),
  /** RFC 3339, of the condition. */
  at: Schema8.optional(Schema8.String),
  /** The counter grew after this, epoch milliseconds; absent when the Workload was not known before. */
  after: Schema8.optional(Schema8.Number),
  /** When it was noticed, epoch milliseconds. */
  noticedAt: Schema8.Number
});
var WorkloadEvidence = Schema8.Struct({
  ...kept,
  workload: Workload,
  /** Oldest first. */
  evictions: Schema8.Array(Eviction)
});
var NodeSighting = Schema8.Struct({
  /** Epoch milliseconds. */
  at: Schema8.Number,
  /** Absent: there was no Node of that name. */
  uid: Schema8.optional(Schema8.String),
  bootID: Schema8.optional(Schema8.String),
  ready: Schema8.optional(Condition),
  taints: Schema8.Array(Taint)
});
var EventEvidence = Schema8.Struct({
  uid: Schema8.String,
  kind: Schema8.String,
  name: Schema8.String,
  regardingUid: Schema8.optional(Schema8.String),
  reason: Schema8.String,
  message: Schema8.optional(Schema8.String),
  /** RFC 3339, of the last repetition. */
  at: Schema8.optional(Schema8.String),
  /** Of the first repetition. */
  firstAt: Schema8.optional(Schema8.String)
});
var byUid = (value) => Schema8.Record({ key: Schema8.String, value });
var Evidence = Schema8.Struct({
  namespace: Schema8.String,
  name: Schema8.String,
  trainJobs: byUid(TrainJobEvidence),
  jobSets: byUid(JobSetEvidence),
  jobs: byUid(JobEvidence),
  pods: byUid(PodEvidence),
  workloads: byUid(WorkloadEvidence),
  /** By Node name, oldest sighting first. */
  nodes: Schema8.Record({ key: Schema8.String, value: Schema8.Array(NodeSighting) }),
  events: Schema8.Array(EventEvidence),
  /** Pods of earlier executions that were given up to bound the size. */
  droppedPods: Schema8.Number
});
var defaultLimits = { earlierPods: 2e3 };
var sightingsKept = 8;
var endingsKept = 8;
var conditionsKept = 16;
var evictionsKept = 512;
var eventsKept = 32;
var startTimesKept = 32;
var empty = (namespace2, name) => ({
  namespace: namespace2,
  name,
  trainJobs: {},
  jobSets: {},
  jobs: {},
  pods: {},
  workloads: {},
  nodes: {},
  events: [],
  droppedPods: 0
});
var digits = (text, at, count) => {
  let value = 0;
  for (let index = at; index < at + count; index++) {
    const digit = text.charCodeAt(index) - 48;
    if (!(digit >= 0 && digit <= 9)) return -1;
    value = value * 10 + digit;
  }
  return value;
};
var plainMillis = (time) => {
  const { length } = time;
  if (length < 20 || time.charCodeAt(4) !== 45 || time.charCodeAt(7) !== 45 || time.charCodeAt(10) !== 84 || time.charCodeAt(13) !== 58 || time.charCodeAt(16) !== 58 || time.charCodeAt(length - 1) !== 90) {
    return void 0;
  }
  const year = digits(time, 0, 4);
  const month = digits(time, 5, 2);
  const day = digits(time, 8, 2);
  const hour = digits(time, 11, 2);
  const minute = digits(time, 14, 2);
  const second = digits(time, 17, 2);
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 28) return void 0;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return void 0;
  let fraction = 0;
  if (length > 20) {
    const places = length - 21;
    if (time.charCodeAt(19) !== 46 || places < 1 || digits(time, 20, places) < 0) return void 0;
    const used = Math.min(places, 3);
    fraction = digits(time, 20, used) * 10 ** (3 - used);
  }
  const shifted = month > 2 ? year : year - 1;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const days = 365 * shifted + Math.floor(shifted / 4) - Math.floor(shifted / 100) + Math.floor(shifted / 400) + dayOfYear - 719468;
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1e3 + fraction;
};
var millis = (time) => time === null || time === void 0 ? void 0 : plainMillis(time) ?? Option.getOrUndefined(Option.map(DateTime.make(time), DateTime.toEpochMillis));
var isReal = (terminated) => terminated.reason !== "ContainerStatusUnknown";
var keptLabels = [
  jobSetNameLabel,
  jobSetUidLabel,
  replicatedJobLabel,
  jobIndexLabel,
  restartAttemptLabel,
  jobNameLabel,
  controllerUidLabel,
  completionIndexLabel,
  ancestorStepLabel,
  jobUidLabel,
  queueNameLabel
];
var keptAnnotations = [admissionAnnotation, completionIndexLabel];
var pick = (from, keys) => {
  const result = {};
  for (const key of keys) {
    const value = from?.[key];
    if (value !== void 0) result[key] = value;
  }
  return result;
};
var compact = (value) => {
  const result = {};
  for (const key in value) {
    const field = value[key];
    if (field !== void 0 && field !== null) result[key] = field;
  }
  return result;
};
var metaOf = (meta) => compact({
  name: meta.name,
  namespace: meta.namespace,
  uid: meta.uid,
  resourceVersion: meta.resourceVersion,
  generation: meta.generation,
  creationTimestamp: meta.creationTimestamp,
  deletionTimestamp: meta.deletionTimestamp,
  deletionGracePeriodSeconds: meta.deletionGracePeriodSeconds,
  labels: pick(meta.labels, keptLabels),
  annotations: pick(meta.annotations, keptAnnotations),
  ownerReferences: meta.ownerReferences?.map(
    (owner2) => compact({
      apiVersion: owner2.apiVersion,
      kind: owner2.kind,
      name: owner2.name,
      uid: owner2.uid,
      controller: owner2.controller
    })
  )
});
var conditionOf = (from) => compact({
  type: from.type,
  status: from.status,
  reason: from.reason,
  message: from.message,
  lastTransitionTime: from.lastTransitionTime
});
var conditionsOf = (from) => (from ?? []).map(conditionOf);
var terminatedOf = (from) => compact({
  exitCode: from.exitCode,
  signal: from.signal,
  reason: from.reason,
  message: from.message,
  startedAt: from.startedAt,
  finishedAt: from.finishedAt,
  containerID: from.containerID
});
var stateOf = (from) => compact({
  waiting: from.waiting ? compact({ reason: from.waiting.reason, message: from.waiting.message }) : void 0,
  running: from.running ? compact({ startedAt: from.running.startedAt }) : void 0,
  terminated: from.terminated ? terminatedOf(from.terminated) : void 0
});
var containerStatusOf = (from) => compact({
  name: from.name,
  state: from.state ? stateOf(from.state) : void 0,
  lastState: from.lastState ? stateOf(from.lastState) : void 0,
  restartCount: from.restartCount,
  containerID: from.containerID
});
var containerOf = (from) => compact({ name: from.name, image: from.image, restartPolicy: from.restartPolicy });
var podOf = (from) => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    nodeName: from.spec?.nodeName === "" ? void 0 : from.spec?.nodeName,
    restartPolicy: from.spec?.restartPolicy,
    containers: from.spec?.containers?.map(containerOf),
    initContainers: from.spec?.initContainers?.map(containerOf)
  }),
  status: compact({
    phase: from.status?.phase,
    reason: from.status?.reason,
    message: from.status?.message,
    startTime: from.status?.startTime,
    conditions: conditionsOf(from.status?.conditions),
    containerStatuses: from.status?.containerStatuses?.map(containerStatusOf),
    initContainerStatuses: from.status?.initContainerStatuses?.map(containerStatusOf)
  })
});
var trainJobOf = (from) => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    suspend: from.spec?.suspend,
    activeDeadlineSeconds: from.spec?.activeDeadlineSeconds,
    managedBy: from.spec?.managedBy,
    trainer: from.spec?.trainer ? compact({ numNodes: from.spec.trainer.numNodes }) : void 0
  }),
  status: { conditions: conditionsOf(from.status?.conditions) }
});
var jobSetOf = (from) => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    suspend: from.spec?.suspend,
    replicatedJobs: from.spec?.replicatedJobs?.map(
      (job2) => compact({
        name: job2.name,
        replicas: job2.replicas,
        template: {
          metadata: { labels: pick(job2.template?.metadata?.labels, keptLabels) },
          spec: compact({
            parallelism: job2.template?.spec?.parallelism,
            completions: job2.template?.spec?.completions
          })
        }
      })
    )
  }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    restarts: from.status?.restarts,
    terminalState: from.status?.terminalState
  })
});
var jobOf = (from) => ({
  metadata: metaOf(from.metadata),
  spec: compact({
    parallelism: from.spec?.parallelism,
    completions: from.spec?.completions,
    backoffLimit: from.spec?.backoffLimit,
    suspend: from.spec?.suspend
  }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    startTime: from.status?.startTime,
    completedIndexes: from.status?.completedIndexes
  })
});
var workloadOf = (from) => ({
  metadata: metaOf(from.metadata),
  spec: compact({ active: from.spec?.active, queueName: from.spec?.queueName, priority: from.spec?.priority }),
  status: compact({
    conditions: conditionsOf(from.status?.conditions),
    admissionChecks: from.status?.admissionChecks?.map(
      (check) => compact({ name: check.name, state: check.state, message: check.message })
    ),
    schedulingStats: from.status?.schedulingStats ? compact({
      evictions: from.status.schedulingStats.evictions?.map(
        (it) => compact({ reason: it.reason, underlyingCause: it.underlyingCause, count: it.count })
      )
    }) : void 0
  })
});
var isStale = (incoming, known) => {
  const [a, b] = [incoming.resourceVersion ?? "", known.resourceVersion ?? ""];
  if (!/^[0-9]+$/.test(a) || !/^[0-9]+$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
};
var isSame = (incoming, known) => incoming.resourceVersion !== void 0 && incoming.resourceVersion !== null && incoming.resourceVersion === known.resourceVersion;
var presenceAfter = (known, presence, at) => {
  const before = known?.presence ?? "present";
  if (before === "seen" || before === "inferred" && presence !== "seen") {
    return { presence: before, ...known?.goneAt === void 0 ? {} : { goneAt: known.goneAt } };
  }
  if (presence === "present") return { presence };
  return { presence, goneAt: known?.goneAt ?? at };
};
var keptAfter = (known, incoming, presence, at) => {
  const after = presenceAfter(known, presence, at);
  if (known === void 0) return { kept: { ...after, seenAt: at }, useIncoming: true };
  if (isStale(incoming, known.meta)) return { kept: { ...after, seenAt: known.seenAt }, useIncoming: false };
  if (isSame(incoming, known.meta)) return { kept: { ...after, seenAt: known.seenAt }, useIncoming: false };
  return { kept: { ...after, seenAt: at }, useIncoming: true };
};
var distinctConditions = (known, incoming) => {
  let result = known;
  for (const it of incoming) {
    const same = (other) => other.status === it.status && other.reason === it.reason && other.lastTransitionTime === it.lastTransitionTime;
    if (!result.some(same)) result = [...result, it];
  }
  if (result === known) return known;
  return result.toSorted((a, b) => (millis(a.lastTransitionTime) ?? 0) - (millis(b.lastTransitionTime) ?? 0)).slice(-conditionsKept);
};
var containersOf = (pod2) => {
  const main = pod2.spec?.containers ?? [];
  const init = pod2.spec?.initContainers ?? [];
  const find = (statuses, name) => statuses?.find((status) => status.name === name);
  const orphans = (statuses, known) => (statuses ?? []).filter((status) => !known.some((container) => container.name === status.name));
  return [
    ...main.map(({ name }) => ({ name, role: "main", status: find(pod2.status?.containerStatuses, name) })),
    ...orphans(pod2.status?.containerStatuses, main).map((status) => ({
      name: status.name,
      role: "main",
      status
    })),
    ...init.map(({ name, restartPolicy }) => ({
      name,
      role: restartPolicy === "Always" ? "sidecar" : "init",
      status: find(pod2.status?.initContainerStatuses, name)
    })),
    ...orphans(pod2.status?.initContainerStatuses, init).map((status) => ({
      name: status.name,
      role: "init",
      status
    }))
  ];
};
var isDeleting = (meta) => meta.deletionTimestamp !== void 0 && meta.deletionTimestamp !== null;
var endingsIn = (pod2) => containersOf(pod2).flatMap(({ name, role, status }) => {
  const restartCount = status?.restartCount ?? 0;
  const records2 = [
    [status?.lastState?.terminated, Math.max(0, restartCount - 1)],
    [status?.state?.terminated, restartCount]
  ];
  return records2.flatMap(
    ([terminated, count]) => terminated !== null && terminated !== void 0 && isReal(terminated) ? [
      {
        container: name,
        role,
        restartCount: count,
        beforeDeletion: !isDeleting(pod2.metadata),
        terminated: terminatedOf(terminated)
      }
    ] : []
  );
});
var sameEnding = (a, b) => a.container === b.container && (a.terminated.containerID !== void 0 && a.terminated.containerID !== "" ? a.terminated.containerID === b.terminated.containerID : a.restartCount === b.restartCount);
var endingsAfter = (known, pod2) => {
  let result = known;
  for (const ending of endingsIn(pod2)) {
    const before = result.find((other) => sameEnding(other, ending));
    if (before === void 0) result = [...result, ending];
    else if (ending.beforeDeletion && !before.beforeDeletion) {
      result = result.map((other) => other === before ? { ...other, beforeDeletion: true } : other);
    }
  }
  if (result === known) return known;
  const sorted2 = result.toSorted(
    (a, b) => (a.container < b.container ? -1 : a.container > b.container ? 1 : 0) || a.restartCount - b.restartCount || (millis(a.terminated.finishedAt) ?? 0) - (millis(b.terminated.finishedAt) ?? 0)
  );
  const containers = [...new Set(sorted2.map(({ container }) => container))];
  return containers.flatMap((name) => sorted2.filter(({ container }) => container === name).slice(-endingsKept));
};
var iso = (epochMillis) => DateTime.formatIso(DateTime.unsafeMake(epochMillis));
var deletionAfter = (known, meta) => {
  const until = millis(meta.deletionTimestamp);
  const before = known?.deletionRequestedAt === void 0 ? {} : { deletionRequestedAt: known.deletionRequestedAt, deletionIsExact: known.deletionIsExact === true };
  if (until === void 0) return before;
  const grace = meta.deletionGracePeriodSeconds ?? 0;
  const next = { deletionRequestedAt: iso(until - grace * 1e3), deletionIsExact: grace > 0 };
  if (before.deletionRequestedAt === void 0) return next;
  if (before.deletionIsExact !== next.deletionIsExact) return before.deletionIsExact === true ? before : next;
  return (millis(before.deletionRequestedAt) ?? 0) <= (millis(next.deletionRequestedAt) ?? 0) ? before : next;
};
var foldPod = (evidence, object, presence, at) => {
  const { uid: uid2 } = object.metadata;
  const known = evidence.pods[uid2];
  const { kept: kept2, useIncoming } = keptAfter(
    known === void 0 ? void 0 : { ...known, meta: known.pod.metadata },
    object.metadata,
    presence,
    at
  );
  if (known !== void 0 && !useIncoming && isSame(object.metadata, known.pod.metadata) && kept2.presence === known.presence) {
    return evidence;
  }
  const incoming = podOf(object);
  const pod2 = useIncoming ? known === void 0 ? incoming : {
    ...incoming,
    metadata: {
      ...incoming.metadata,
      labels: { ...incoming.metadata.labels, ...known.pod.metadata.labels },
      annotations: { ...incoming.metadata.annotations, ...known.pod.metadata.annotations }
    }
  } : known?.pod ?? incoming;
  const disruption = trueCondition(incoming.status?.conditions, "DisruptionTarget");
  const next = {
    ...kept2,
    pod: pod2,
    endings: endingsAfter(known?.endings ?? [], incoming),
    disruptions: distinctConditions(known?.disruptions ?? [], disruption === void 0 ? [] : [disruption]),
    ...deletionAfter(known, object.metadata),
    ...known?.node === void 0 ? {} : { node: known.node }
  };
  return { ...evidence, pods: { ...evidence.pods, [uid2]: next } };
};
var terminalOf = (conditions) => trueCondition(conditions, "Complete") ?? trueCondition(conditions, "Failed");
var foldTrainJob = (evidence, object, presence, at) => {
  const { uid: uid2 } = object.metadata;
  const known = evidence.trainJobs[uid2];
  const { kept: kept2, useIncoming } = keptAfter(
    known === void 0 ? void 0 : { ...known, meta: known.trainJob.metadata },
    object.metadata,
    presence,
    at
  );
  const incoming = trainJobOf(object);
  const candidates = [known?.terminal, terminalOf(incoming.status?.conditions)].flatMap((it) => it ?? []);
  const terminal = candidates.reduce(
    (first, it) => first === void 0 || (millis(it.lastTransitionTime) ?? 0) < (millis(first.lastTransitionTime) ?? 0) ? it : first,
    void 0
  );
  const suspended = condition(incoming.status?.conditions, "Suspended");
  const next = {
    ...kept2,
    trainJob: useIncoming ? incoming : known?.trainJob ?? incoming,
    suspensions: distinctConditions(known?.suspensions ?? [], suspended === void 0 ? [] : [suspended]),
    ...terminal === void 0 ? {} : { terminal }
  };
  return { ...evidence, trainJobs: { ...evidence.trainJobs, [uid2]: next } };
};
var foldJobSet = (evidence, object, presence, at) => {
  const { uid: uid2 } = object.metadata;
  const known = evidence.jobSets[uid2];
  const { kept: kept2, useIncoming } = keptAfter(
    known === void 0 ? void 0 : { ...known, meta: known.jobSet.metadata },
    object.metadata,
    presence,
    at
  );
  const incoming = jobSetOf(object);
  const next = { ...kept2, jobSet: useIncoming ? incoming : known?.jobSet ?? incoming };
  return { ...evidence, jobSets: { ...evidence.jobSets, [uid2]: next } };
};
var foldJob = (evidence, object, presence, at) => {
  const { uid: uid2 } = object.metadata;
  const known = evidence.jobs[uid2];
  const { kept: kept2, useIncoming } = keptAfter(
    known === void 0 ? void 0 : { ...known, meta: known.job.metadata },
    object.metadata,
    presence,
    at
  );
  const incoming = jobOf(object);
  const started = incoming.status?.startTime ?? void 0;
  const times = known?.startTimes ?? [];
  const next = {
    ...kept2,
    job: useIncoming ? incoming : known?.job ?? incoming,
    startTimes: started === void 0 || times.includes(started) ? times : [...times, started].toSorted().slice(-startTimesKept)
  };
  return { ...evidence, jobs: { ...evidence.jobs, [uid2]: next } };
};
var statsReason = (reason) => reason.startsWith("Deactivated") ? "Deactivated" : reason;
var evictionsAfter = (known, incoming, at) => {
  let result = known?.evictions ?? [];
  const evicted = trueCondition(incoming.status?.conditions, "Evicted");
  if (evicted !== void 0) {
    const same = (it) => it.source === "condition" && it.reason === evicted.reason && it.at === evicted.lastTransitionTime;
    if (!result.some(same)) {
      result = [
        ...result,
        compact({
          reason: evicted.reason ?? "",
          message: evicted.message ?? void 0,
          source: "condition",
          at: evicted.lastTransitionTime ?? void 0,
          after: known?.seenAt,
          noticedAt: at
        })
      ];
    }
  }
  const totals = /* @__PURE__ */ new Map();
  for (const it of incoming.status?.schedulingStats?.evictions ?? []) {
    totals.set(it.reason, (totals.get(it.reason) ?? 0) + (it.count ?? 0));
  }
  for (const [reason, total] of totals) {
    const recorded = result.filter((it) => statsReason(it.reason) === reason).length;
    for (let missed = recorded; missed < Math.min(total, evictionsKept); missed += 1) {
      result = [
        ...result,
        compact({
          reason,
          message: void 0,
          source: "stats",
          at: void 0,
          after: known?.seenAt,
          noticedAt: at
        })
      ];
    }
  }
  for (const [reason, total] of totals) {
    const recorded = result.filter((it) => statsReason(it.reason) === reason);
    const surplus = recorded.filter(({ source }) => source === "stats").slice(0, Math.max(0, recorded.length - total));
    if (surplus.length > 0) result = result.filter((it) => !surplus.includes(it));
  }
  return result === known?.evictions ? result : result.slice(-evictionsKept);
};
var foldWorkload = (evidence, object, presence, at) => {
  const { uid: uid2 } = object.metadata;
  const known = evidence.workloads[uid2];
  const { kept: kept2, useIncoming } = keptAfter(
    known === void 0 ? void 0 : { ...known, meta: known.workload.metadata },
    object.metadata,
    presence,
    at
  );
  const incoming = workloadOf(object);
  const next = {
    ...kept2,
    workload: useIncoming ? incoming : known?.workload ?? incoming,
    evictions: useIncoming ? evictionsAfter(known, incoming, at) : known?.evictions ?? []
  };
  return { ...evidence, workloads: { ...evidence.workloads, [uid2]: next } };
};
var sightingOf = (node, at) => {
  const ready = condition(node?.status?.conditions, "Ready");
  return compact({
    at,
    uid: node?.metadata.uid,
    bootID: node?.status?.nodeInfo?.bootID ?? void 0,
    ready: ready === void 0 ? void 0 : conditionOf(ready),
    taints: (node?.spec?.taints ?? []).map(
      (taint) => compact({ key: taint.key, value: taint.value, effect: taint.effect, timeAdded: taint.timeAdded })
    )
  });
};
var sameSighting = (a, b) => a.uid === b.uid && a.bootID === b.bootID && a.ready?.status === b.ready?.status && a.ready?.reason === b.ready?.reason && a.ready?.lastTransitionTime === b.ready?.lastTransitionTime && a.taints.length === b.taints.length && a.taints.every((taint, index) => {
  const other = b.taints[index];
  return other !== void 0 && taint.key === other.key && taint.value === other.value && taint.effect === other.effect;
});
var isUnended = (pod2) => pod2.presence === "present" && pod2.pod.status?.phase !== "Succeeded" && pod2.pod.status?.phase !== "Failed";
var foldNode = (evidence, name, node, at) => {
  const known = evidence.nodes[name] ?? [];
  const sighting = sightingOf(node, at);
  const last = known.at(-1);
  let next = evidence;
  if (last === void 0 || at >= last.at && !sameSighting(last, sighting)) {
    next = { ...next, nodes: { ...next.nodes, [name]: [...known, sighting].slice(-sightingsKept) } };
  }
  if (node === void 0) return next;
  const bound2 = Object.entries(evidence.pods).filter(
    ([, it]) => it.node === void 0 && it.pod.spec?.nodeName === name && isUnended(it)
  );
  if (bound2.length === 0) return next;
  const bootID = node.status?.nodeInfo?.bootID ?? void 0;
  const recorded = { name, uid: node.metadata.uid, ...bootID === void 0 ? {} : { bootID }, at };
  return {
    ...next,
    pods: { ...next.pods, ...Object.fromEntries(bound2.map(([uid2, it]) => [uid2, { ...it, node: recorded }])) }
  };
};
var foldEvent = (evidence, object) => {
  const { involvedObject: regarding } = object;
  const next = compact({
    uid: object.metadata.uid,
    kind: regarding.kind ?? "",
    name: regarding.name ?? "",
    regardingUid: regarding.uid ?? void 0,
    reason: object.reason ?? "",
    message: object.message ?? void 0,
    at: object.series?.lastObservedTime ?? object.lastTimestamp ?? object.eventTime ?? void 0,
    firstAt: object.firstTimestamp ?? object.eventTime ?? void 0
  });
  const known = evidence.events.find(({ uid: uid2 }) => uid2 === next.uid);
  if (known !== void 0 && (millis(next.at) ?? 0) <= (millis(known.at) ?? 0)) return evidence;
  const others = evidence.events.filter(({ uid: uid2 }) => uid2 !== next.uid);
  return {
    ...evidence,
    events: [...others, next].toSorted((a, b) => (millis(a.at) ?? 0) - (millis(b.at) ?? 0)).slice(-eventsKept)
  };
};
var fold = (evidence, observation) => {
  switch (observation._tag) {
    case "TrainJob":
      return foldTrainJob(evidence, observation.object, observation.presence, observation.at);
    case "JobSet":
      return foldJobSet(evidence, observation.object, observation.presence, observation.at);
    case "Job":
      return foldJob(evidence, observation.object, observation.presence, observation.at);
    case "Pod":
      return foldPod(evidence, observation.object, observation.presence, observation.at);
    case "Workload":
      return foldWorkload(evidence, observation.object, observation.presence, observation.at);
    case "Node":
      return foldNode(evidence, observation.name, observation.node, observation.at);
    case "Event":
      return foldEvent(evidence, observation.object);
  }
};
var foldAll = (evidence, observations) => {
  let result = evidence;
  for (const observation of observations) result = fold(result, observation);
  return result;
};
var trainJob = (evidence, uid2) => {
  if (uid2 !== void 0) return evidence.trainJobs[uid2];
  const all2 = Object.values(evidence.trainJobs);
  const created2 = (it) => millis(it.trainJob.metadata.creationTimestamp) ?? 0;
  return all2.reduce((best, it) => {
    if (best === void 0) return it;
    const presence = Number(it.presence === "present") - Number(best.presence === "present");
    return presence > 0 || presence === 0 && created2(it) > created2(best) ? it : best;
  }, void 0);
};
var records = /* @__PURE__ */ new WeakMap();
var recordOf = (namespace2, it) => {
  const known = records.get(it);
  if (known !== void 0 && known.namespace === namespace2) return known;
  const made = { ...podRecord(it.pod, it.presence !== "present"), namespace: namespace2, evidence: it };
  records.set(it, made);
  return made;
};
var facts = (evidence, uid2) => {
  const known = trainJob(evidence, uid2);
  return {
    trainJob: known === void 0 ? {
      namespace: evidence.namespace,
      name: evidence.name,
      uid: uid2,
      creationTimestamp: void 0,
      suspend: false,
      finished: false,
      gone: true
    } : {
      ...trainJobRecord(known.trainJob),
      namespace: evidence.namespace,
      finished: known.terminal !== void 0,
      gone: known.presence !== "present"
    },
    jobSets: Object.values(evidence.jobSets).map(({ jobSet: jobSet2 }) => jobSetRecord(jobSet2)),
    jobs: Object.values(evidence.jobs).flatMap(
      ({ job: job2, startTimes }) => startTimes.length === 0 ? [jobRecord(job2)] : startTimes.map((startTime) => ({ ...jobRecord(job2), startTime }))
    ),
    pods: Object.values(evidence.pods).map((it) => recordOf(evidence.namespace, it))
  };
};
var executions2 = (evidence, uid2) => executions(facts(evidence, uid2));
var indexOf = (pod2) => pod2.labels[completionIndexLabel] ?? pod2.annotations[completionIndexLabel];
var podsOfJob = (job2) => job2?.parallelism ?? job2?.completions ?? void 0;
var gaps = (evidence, all2, execution, incarnation = execution.newest, uid2) => {
  const missing = [];
  const uncounted = [];
  const jobSet2 = evidence.jobSets[incarnation.jobSetUid]?.jobSet;
  const numNodes = trainJob(evidence, uid2)?.trainJob.spec?.trainer?.numNodes ?? void 0;
  const replicatedJobs = new Set(incarnation.runs.map(({ replicatedJob }) => replicatedJob));
  const earlier = all2.all.slice(0, all2.all.indexOf(execution)).flatMap(({ pods: pods2 }) => pods2);
  const seen = new Map(incarnation.runs.map((run) => [run.jobName, run.pods]));
  const started = Object.values(evidence.jobs).filter(
    ({ job: job2, startTimes }) => job2.metadata.labels?.[jobSetUidLabel] === incarnation.jobSetUid && (job2.metadata.labels[restartAttemptLabel] ?? "") === incarnation.restartAttempt && startTimes.length > incarnation.ordinal
  );
  const jobs3 = new Map([
    ...started.map(({ job: job2 }) => [job2.metadata.name, podsOfJob(job2.spec)]),
    ...incarnation.runs.map(
      (run) => [
        run.jobName,
        podsOfJob(evidence.jobs[run.jobUid]?.job.spec) ?? podsOfJob(jobSet2?.spec?.replicatedJobs?.find(({ name }) => name === run.replicatedJob)?.template?.spec) ?? (replicatedJobs.size === 1 ? numNodes : void 0)
      ]
    )
  ]);
  for (const [jobName, expected] of jobs3) {
    if (expected === void 0) {
      uncounted.push(jobName);
      continue;
    }
    const pods2 = seen.get(jobName) ?? [];
    const done = earlier.filter((pod2) => pod2.labels[jobNameLabel] === jobName && pod2.phase === "Succeeded");
    const known = [...pods2, ...done];
    if (known.every((pod2) => indexOf(pod2) !== void 0)) {
      const indexes = new Set(known.map(indexOf));
      for (let index = 0; index < expected; index += 1) {
        if (!indexes.has(String(index))) missing.push(`${jobName} index ${index}`);
      }
    } else if (known.length < expected) {
      missing.push(`${expected - known.length} of ${expected} pods of ${jobName}`);
    }
  }
  return { missing, uncounted };
};
var bound = (evidence, limits = defaultLimits) => {
  let gone = 0;
  for (const uid2 in evidence.pods) if (evidence.pods[uid2]?.presence !== "present") gone++;
  if (gone <= limits.earlierPods) return evidence;
  const uids = Object.keys(evidence.trainJobs);
  const needed = new Set(
    (uids.length === 0 ? [void 0] : uids).flatMap(
      (uid2) => executions2(evidence, uid2).last?.pods.map((pod2) => pod2.uid) ?? []
    )
  );
  const earlier = Object.values(evidence.pods).filter((it) => it.presence !== "present" && !needed.has(it.pod.metadata.uid)).toSorted((a, b) => (b.goneAt ?? 0) - (a.goneAt ?? 0));
  const drop = new Set(earlier.slice(limits.earlierPods).map((it) => it.pod.metadata.uid));
  if (drop.size === 0) return evidence;
  return {
    ...evidence,
    pods: Object.fromEntries(Object.entries(evidence.pods).filter(([uid2]) => !drop.has(uid2))),
    droppedPods: evidence.droppedPods + drop.size
  };
};

// packages/core/src/decide/Update.ts
import { Schema as Schema10 } from "effect";

// packages/core/src/decide/Classification.ts
import { Schema as Schema9 } from "effect";
var State = Schema9.Literal("Pending", "Held", "Running", "Stopping", "Succeeded", "Failed", "Gone", "Unknown");
var cause = (tag, fields) => Schema9.Struct({ _tag: Schema9.Literal(tag), ...fields });
var Cause = Schema9.Union(
  /** Capacity was taken away for other work. */
  cause("Preempted", { by: Schema9.Literal("kueue", "scheduler", "kubelet"), detail: Schema9.String }),
  /** The machine, its kubelet or its Node object is gone. Does not say that the processes are. */
  cause("NodeLost", { node: Schema9.String, detail: Schema9.String }),
  /** Somebody or something emptied a Node or a queue in order. */
  cause("Drained", { by: Schema9.String }),
  /** Taken off its Node for another reason. `ownLimit`: it used more local storage than it was granted. */
  cause("Evicted", { reason: Schema9.String, ownLimit: Schema9.Boolean }),
  cause("OutOfMemory", { container: Schema9.String, exitCode: Schema9.Number }),
  cause("DeadlineExceeded", { layer: Schema9.Literal("TrainJob", "Job", "Pod", "Kueue") }),
  cause("NoCapacity", { reason: Schema9.String, detail: Schema9.String }),
  cause("ImagePull", { reason: Schema9.String, detail: Schema9.String }),
  cause("Misconfigured", { reason: Schema9.String, detail: Schema9.String }),
  /** The program ended by itself. `signal` is read off an exit code above 128 where the runtime does not tell it. */
  cause("Application", {
    container: Schema9.String,
    exitCode: Schema9.Number,
    signal: Schema9.optional(Schema9.Number)
  }),
  /** Somebody holds it: `spec.suspend`, or `spec.active` of the Workload. */
  cause("Held", { by: Schema9.Literal("suspend", "workload"), detail: Schema9.String }),
  /** Somebody deleted it. */
  cause("Deleted", { object: Schema9.String }),
  cause("Unknown", { missing: Schema9.Array(Schema9.String) })
);
var Fact = Schema9.Struct({
  /** e.g. `Pod/run-1-node-0-0-abcde`. */
  object: Schema9.String,
  /** e.g. `status.conditions[DisruptionTarget].reason`. */
  field: Schema9.String,
  value: Schema9.String,
  /** RFC 3339, where the object tells one. */
  time: Schema9.optional(Schema9.String),
  /** Whether the object is there, its deletion was seen, or its absence was noticed after a gap. */
  presence: Presence
});
var fact = (object, field, value, time, presence) => ({ object, field, value, presence, ...time === null || time === void 0 ? {} : { time } });
var conditionFact = (object, it, presence) => fact(
  object,
  `status.conditions[${it.type}]`,
  [it.status, it.reason, it.message].filter((part) => part !== void 0 && part !== null && part !== "").join(" "),
  it.lastTransitionTime,
  presence
);
var podName = (pod2) => `Pod/${pod2.name}`;
var imageReasons = /* @__PURE__ */ new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed"
]);
var configReasons = /* @__PURE__ */ new Set([
  "CreateContainerConfigError",
  "CreateContainerError",
  "PreCreateHookError",
  "PreStartHookError",
  "PostStartHookError",
  "RunContainerError",
  "CreatePodSandboxError",
  "ConfigPodSandboxError"
]);
var obstacle = (pod2) => {
  const { presence } = pod2.evidence;
  const scheduled = condition(pod2.evidence.pod.status?.conditions, "PodScheduled");
  if (pod2.nodeName === void 0 && scheduled?.status === "False" && scheduled.reason === "Unschedulable") {
    return {
      cause: { _tag: "NoCapacity", reason: "Unschedulable", detail: scheduled.message ?? "" },
      evidence: [conditionFact(podName(pod2), scheduled, presence)]
    };
  }
  for (const { name, status } of containersOf(pod2.evidence.pod)) {
    const reason = status?.state?.waiting?.reason ?? "";
    const detail = status?.state?.waiting?.message ?? "";
    const tag = imageReasons.has(reason) ? "ImagePull" : configReasons.has(reason) ? "Misconfigured" : void 0;
    if (tag !== void 0) {
      return {
        cause: { _tag: tag, reason, detail },
        evidence: [
          fact(
            podName(pod2),
            `status.containerStatuses[${name}].state.waiting`,
            detail === "" ? reason : `${reason} ${detail}`,
            void 0,
            presence
          )
        ]
      };
    }
  }
  return void 0;
};
var nodeFact = (name, field, value, time) => fact(`Node/${name}`, field, value, time, "present");
var clocksApart = 6e4;
var boundSince = (pod2) => pod2.evidence.node?.at ?? (millis(pod2.creationTimestamp) ?? 0) - clocksApart;
var nodeTrouble = (evidence, pod2) => {
  const name = pod2.nodeName;
  if (name === void 0) return void 0;
  const created2 = millis(pod2.creationTimestamp) ?? 0;
  const until = (pod2.evidence.goneAt ?? Number.POSITIVE_INFINITY) + clocksApart;
  const troubles = (evidence.nodes[name] ?? []).flatMap((sighting) => {
    if (sighting.at < boundSince(pod2)) return [];
    if (sighting.uid === void 0) {
      return [
        {
          time: sighting.at,
          detail: "the Node object was deleted",
          fact: fact(`Node/${name}`, "metadata.uid", "no such Node", void 0, "inferred")
        }
      ];
    }
    const recorded = pod2.evidence.node?.uid;
    if (recorded !== void 0 && sighting.uid !== recorded) {
      return [
        {
          time: sighting.at,
          detail: "the Node object was replaced",
          fact: nodeFact(name, "metadata.uid", `${recorded} then ${sighting.uid}`, void 0)
        }
      ];
    }
    const since = millis(sighting.ready?.lastTransitionTime) ?? sighting.at;
    if (sighting.ready !== void 0 && sighting.ready.status !== "True" && since <= until) {
      return [
        {
          time: Math.max(since, created2),
          detail: `the Node was not ready (${sighting.ready.reason ?? sighting.ready.status})`,
          fact: conditionFact(`Node/${name}`, sighting.ready, "present")
        }
      ];
    }
    return [];
  });
  return troubles.reduce(
    (first, it) => first === void 0 || it.time < first.time ? it : first,
    void 0
  );
};
var lossTaints = /* @__PURE__ */ new Set([
  "node.kubernetes.io/unreachable",
  "node.kubernetes.io/not-ready",
  outOfServiceTaint,
  "node.cloudprovider.kubernetes.io/shutdown"
]);
var taintCause = (evidence, pod2, disruption) => {
  const name = pod2.nodeName ?? "";
  const trouble = nodeTrouble(evidence, pod2);
  const own = conditionFact(podName(pod2), disruption, pod2.evidence.presence);
  if (trouble !== void 0) {
    return { cause: { _tag: "NodeLost", node: name, detail: trouble.detail }, evidence: [own, trouble.fact] };
  }
  for (const { at, taints } of evidence.nodes[name] ?? []) {
    if (at < boundSince(pod2)) continue;
    const taint = taints.find((it) => it.effect === "NoExecute");
    if (taint === void 0) continue;
    const evidenceOfTaint = nodeFact(name, "spec.taints", `${taint.key}:${taint.effect}`, taint.timeAdded ?? void 0);
    return lossTaints.has(taint.key) && taint.key !== outOfServiceTaint ? { cause: { _tag: "NodeLost", node: name, detail: `taint ${taint.key}` }, evidence: [own, evidenceOfTaint] } : { cause: { _tag: "Drained", by: `taint ${taint.key}` }, evidence: [own, evidenceOfTaint] };
  }
  return { cause: { _tag: "Evicted", reason: "a NoExecute taint that was not seen", ownLimit: false }, evidence: [own] };
};
var disruptionCause = (evidence, pod2, disruption) => {
  const own = [conditionFact(podName(pod2), disruption, pod2.evidence.presence)];
  const detail = disruption.message ?? "";
  switch (disruption.reason) {
    case "PreemptionByScheduler":
      return { cause: { _tag: "Preempted", by: "scheduler", detail }, evidence: own };
    case "DeletionByTaintManager":
      return taintCause(evidence, pod2, disruption);
    case "DeletionByPodGC":
      return { cause: { _tag: "NodeLost", node: pod2.nodeName ?? "", detail }, evidence: own };
    case "EvictionByEvictionAPI":
      return { cause: { _tag: "Drained", by: "the eviction API" }, evidence: own };
    default: {
      const reason = pod2.evidence.pod.status?.reason ?? void 0;
      const explained = reason === void 0 ? void 0 : statusCause(pod2, reason, true);
      return explained === void 0 ? {
        cause: { _tag: "Evicted", reason: disruption.reason ?? "DisruptionTarget", ownLimit: false },
        evidence: own
      } : { cause: explained.cause, evidence: [...own, ...explained.evidence] };
    }
  }
};
var statusCause = (pod2, reason, disrupted) => {
  const message = pod2.evidence.pod.status?.message ?? "";
  const evidence = [
    fact(
      podName(pod2),
      "status.reason",
      message === "" ? reason : `${reason} ${message}`,
      void 0,
      pod2.evidence.presence
    )
  ];
  if (reason === "DeadlineExceeded") return { cause: { _tag: "DeadlineExceeded", layer: "Pod" }, evidence };
  if (reason === "Preempting") return { cause: { _tag: "Preempted", by: "kubelet", detail: message }, evidence };
  if (reason === "NodeLost") return { cause: { _tag: "NodeLost", node: pod2.nodeName ?? "", detail: message }, evidence };
  if (reason === "Terminated" || reason === "NodeShutdown" || reason === "Shutdown") {
    return { cause: { _tag: "Drained", by: "a shutdown of the Node" }, evidence };
  }
  if (reason === "Evicted") return { cause: { _tag: "Evicted", reason: message, ownLimit: !disrupted }, evidence };
  if (reason.startsWith("OutOf") || reason === "NodeAffinity") {
    return { cause: { _tag: "NoCapacity", reason, detail: message }, evidence };
  }
  if (reason === "UnexpectedAdmissionError" || reason === "PodOSNotSupported" || reason === "InvalidNodeInfo") {
    return { cause: { _tag: "Evicted", reason: message === "" ? reason : message, ownLimit: false }, evidence };
  }
  return void 0;
};
var isFinished = (phase) => phase === "Succeeded" || phase === "Failed";
var lastEndings = (pod2) => {
  const statuses = new Map(containersOf(pod2.evidence.pod).map((it) => [it.name, it.status]));
  const last = /* @__PURE__ */ new Map();
  for (const ending of pod2.evidence.endings) last.set(ending.container, ending);
  return [...last.values()].filter((ending) => {
    const status = statuses.get(ending.container);
    const running = status?.state?.running !== void 0 && status.state.running !== null;
    return !(running && (status.restartCount ?? 0) > ending.restartCount);
  });
};
var signalOf = ({ signal, exitCode }) => signal !== void 0 && signal !== null && signal > 0 ? signal : exitCode > 128 && exitCode < 160 ? exitCode - 128 : void 0;
var endingFact = (pod2, ending) => fact(
  podName(pod2),
  `${ending.role === "main" ? "status.containerStatuses" : "status.initContainerStatuses"}[${ending.container}].state.terminated`,
  `exitCode ${ending.terminated.exitCode}${ending.terminated.reason ? ` ${ending.terminated.reason}` : ""}`,
  ending.terminated.finishedAt,
  pod2.evidence.presence
);
var deletionFact = (pod2) => pod2.evidence.deletionRequestedAt === void 0 ? fact(podName(pod2), "metadata.deletionTimestamp", "deleted", void 0, pod2.evidence.presence) : fact(
  podName(pod2),
  "metadata.deletionTimestamp",
  "deletion requested",
  pod2.evidence.deletionRequestedAt,
  pod2.evidence.presence
);
var incident = (pod2, time, rank, explained) => ({
  _tag: "Incident",
  incident: { ...explained, time, rank, pod: pod2 }
});
var epoch = (time) => {
  const value = millis(time);
  return value === void 0 || value <= 0 ? void 0 : value;
};
var endOf = (evidence, pod2) => {
  const { evidence: own } = pod2;
  const endings = lastEndings(pod2).filter(({ role }) => role !== "sidecar");
  const failing = endings.filter(({ terminated }) => terminated.exitCode !== 0).toSorted((a, b) => (epoch(a.terminated.finishedAt) ?? 0) - (epoch(b.terminated.finishedAt) ?? 0))[0];
  const ended = isFinished(pod2.phase) || pod2.gone;
  const exit = failing ?? endings.find(({ role }) => role === "main");
  const exitAt = epoch(exit?.terminated.finishedAt);
  const deletionAt = millis(own.deletionRequestedAt);
  const reason = own.pod.status?.reason ?? void 0;
  const failedAt = exitAt ?? epoch(condition(own.pod.status?.conditions, "Ready")?.lastTransitionTime) ?? own.seenAt;
  if (reason === "DeadlineExceeded") {
    const explained = statusCause(pod2, reason, false);
    if (explained !== void 0) return incident(pod2, Math.min(failedAt, deletionAt ?? failedAt), 0, explained);
  }
  if (pod2.phase === "Succeeded" && own.disruptions.length === 0 && failing === void 0) return { _tag: "None" };
  const disruption = own.disruptions[0];
  const disruptedAt = millis(disruption?.lastTransitionTime);
  if (disruption !== void 0 && (exitAt === void 0 || disruptedAt === void 0 || disruptedAt <= exitAt)) {
    if (!(pod2.phase === "Succeeded" && exitAt === void 0)) {
      const trouble2 = disruption.reason === "DeletionByTaintManager" ? nodeTrouble(evidence, pod2) : void 0;
      const explained = disruptionCause(evidence, pod2, disruption);
      const at = disruptedAt ?? own.seenAt;
      return incident(pod2, Math.min(at, trouble2?.time ?? at), 1, explained);
    }
  }
  if (reason !== void 0 && pod2.phase === "Failed") {
    const explained = statusCause(pod2, reason, own.disruptions.length > 0);
    if (explained !== void 0) return incident(pod2, failedAt, 2, explained);
  }
  const trouble = exit === void 0 ? nodeTrouble(evidence, pod2) : void 0;
  if (trouble !== void 0) {
    return incident(pod2, trouble.time, 3, {
      cause: { _tag: "NodeLost", node: pod2.nodeName ?? "", detail: trouble.detail },
      evidence: [trouble.fact, ...ended ? [deletionFact(pod2)] : []]
    });
  }
  if (failing !== void 0) {
    const { terminated } = failing;
    const at = exitAt ?? own.seenAt;
    const facts2 = [endingFact(pod2, failing)];
    if (terminated.reason === "OOMKilled") {
      return incident(pod2, at, 4, {
        cause: { _tag: "OutOfMemory", container: failing.container, exitCode: terminated.exitCode },
        evidence: facts2
      });
    }
    const first = failing.beforeDeletion || deletionAt === void 0 || own.deletionIsExact === true && at < deletionAt;
    if (first && (terminated.reason === "StartError" || terminated.reason === "ContainerCannotRun")) {
      return incident(pod2, at, 5, {
        cause: { _tag: "Misconfigured", reason: terminated.reason, detail: terminated.message ?? "" },
        evidence: facts2
      });
    }
    if (first) {
      const signal = signalOf(terminated);
      return incident(pod2, at, 6, {
        cause: {
          _tag: "Application",
          container: failing.container,
          exitCode: terminated.exitCode,
          ...signal === void 0 ? {} : { signal }
        },
        evidence: facts2
      });
    }
    if (own.deletionIsExact !== true) {
      return {
        _tag: "Unseen",
        missing: `whether ${podName(pod2)} was deleted before or after it ended`,
        evidence: [...facts2, deletionFact(pod2)]
      };
    }
  }
  if (pod2.phase === "Succeeded") return { _tag: "None" };
  const blocked = obstacle(pod2);
  if (blocked !== void 0 && ended && deletionAt === void 0) return incident(pod2, own.seenAt, 5, blocked);
  if (deletionAt !== void 0 || own.presence === "seen") {
    return incident(pod2, deletionAt ?? own.goneAt ?? own.seenAt, 7, {
      cause: { _tag: "Deleted", object: podName(pod2) },
      evidence: [deletionFact(pod2), ...failing === void 0 ? [] : [endingFact(pod2, failing)]]
    });
  }
  if (!ended) return { _tag: "None" };
  return {
    _tag: "Unseen",
    missing: own.presence === "inferred" ? `how ${podName(pod2)} ended` : `why ${podName(pod2)} failed`,
    evidence: [
      own.presence === "inferred" ? fact(podName(pod2), "status.phase", pod2.phase ?? "", void 0, own.presence) : fact(podName(pod2), "status.phase", pod2.phase ?? "", void 0, own.presence)
    ]
  };
};
var kueueCause = (reason, message) => {
  switch (reason) {
    case "Preempted":
      return { _tag: "Preempted", by: "kueue", detail: message };
    case "PodsReadyTimeout":
    case "DeactivatedDueToRequeuingLimitExceeded":
      return { _tag: "NoCapacity", reason, detail: message };
    case "ClusterQueueStopped":
    case "LocalQueueStopped":
      return { _tag: "Drained", by: message === "" ? reason : message };
    case "NodeFailures":
      return { _tag: "NodeLost", node: "", detail: message };
    case "DeactivatedDueToMaximumExecutionTimeExceeded":
      return { _tag: "DeadlineExceeded", layer: "Kueue" };
    case "Deactivated":
    case "DeactivatedDueToAdmissionCheck":
      return { _tag: "Held", by: "workload", detail: message };
    default:
      return { _tag: "Evicted", reason: message === "" ? reason : `${reason}: ${message}`, ownLimit: false };
  }
};
var stoppedCause = (message) => {
  if (message.startsWith("Preempted to accommodate")) return { _tag: "Preempted", by: "kueue", detail: message };
  if (message.startsWith("The workload is deactivated due to exceeding the maximum execution time")) {
    return { _tag: "DeadlineExceeded", layer: "Kueue" };
  }
  if (message.startsWith("The workload is deactivated")) return { _tag: "Held", by: "workload", detail: message };
  if (message.includes("Queue is stopped")) return { _tag: "Drained", by: message };
  return { _tag: "Evicted", reason: message, ownLimit: false };
};
var stoppedAt = (pod2) => {
  const exits = isFinished(pod2.phase) ? pod2.evidence.endings.flatMap(({ terminated }) => epoch(terminated.finishedAt) ?? []) : [];
  const times = [...exits, millis(pod2.evidence.deletionRequestedAt) ?? []].flat();
  return times.length > 0 ? Math.min(...times) : pod2.evidence.goneAt ?? Number.POSITIVE_INFINITY;
};
var skew = 1e3;
var interruptions = (evidence, uid2, pods2) => {
  if (pods2.length === 0) return [];
  const started = Math.min(...pods2.map((pod2) => millis(pod2.creationTimestamp) ?? 0));
  const stopped = Math.max(...pods2.map(stoppedAt));
  return workloadsOf(evidence, uid2).flatMap(
    ({ workload, evictions, presence }) => evictions.flatMap((it) => {
      const at = millis(it.at);
      const [from, to] = at === void 0 ? [it.after ?? Number.POSITIVE_INFINITY, it.noticedAt] : [at, at];
      if (to < started - skew || from > stopped + skew || from === Number.POSITIVE_INFINITY) return [];
      const name = `Workload/${workload.metadata.name}`;
      const text = it.message === void 0 ? it.reason : `${it.reason} ${it.message}`;
      return [
        {
          time: at ?? Math.max(from, started),
          cause: kueueCause(it.reason, it.message ?? ""),
          evidence: [
            at === void 0 ? fact(name, "status.schedulingStats.evictions", text, void 0, presence) : fact(name, "status.conditions[Evicted]", text, it.at, presence)
          ]
        }
      ];
    })
  );
};
var workloadsOf = (evidence, uid2) => Object.values(evidence.workloads).filter(({ workload }) => {
  const owner2 = controllerOf(workload.metadata)?.uid ?? workload.metadata.labels?.[jobUidLabel];
  return uid2 === void 0 || owner2 === void 0 || owner2 === uid2;
}).toSorted(
  (a, b) => Number(a.presence === "present") - Number(b.presence === "present") || (millis(a.workload.metadata.creationTimestamp) ?? 0) - (millis(b.workload.metadata.creationTimestamp) ?? 0)
);
var stopEvents = (evidence, uid2, pods2) => {
  const started = Math.min(...pods2.map((pod2) => millis(pod2.creationTimestamp) ?? 0));
  const stopped = Math.max(...pods2.map(stoppedAt));
  const event = evidence.events.find(
    (it) => it.kind === "TrainJob" && (it.reason === "Stopped" || it.reason === "DeletedWorkload") && (it.regardingUid === void 0 || it.regardingUid === uid2) && (millis(it.at) ?? 0) >= started - skew && // events come late, and are repeated
    (millis(it.firstAt) ?? 0) <= stopped + 10 * skew
  );
  if (event === void 0) return void 0;
  return {
    time: millis(event.firstAt ?? event.at) ?? 0,
    cause: stoppedCause(event.message ?? event.reason),
    evidence: [
      fact(
        `Event/TrainJob ${event.name}`,
        "reason",
        `${event.reason} ${event.message ?? ""}`.trim(),
        event.at,
        "present"
      )
    ]
  };
};
var endsByRank = (evidence, pods2) => {
  const ranks2 = /* @__PURE__ */ new Map();
  for (const pod2 of pods2) {
    const index = pod2.labels[completionIndexLabel];
    const key = index === void 0 ? pod2.uid : `${pod2.labels[jobNameLabel] ?? ""}/${index}`;
    const end = endOf(evidence, pod2);
    if (end._tag !== "None" || !ranks2.has(key)) ranks2.set(key, end);
  }
  return [...ranks2.values()];
};
var byTime = (a, b) => Math.floor(a.time / 1e3) - Math.floor(b.time / 1e3) || a.rank - b.rank || a.time - b.time || (a.pod.uid < b.pod.uid ? -1 : 1);
var jobsOf = (evidence, subject) => (subject.incarnation?.runs ?? []).flatMap(({ jobUid }) => evidence.jobs[jobUid] ?? []);
var unknown = (missing, evidence = []) => ({
  cause: { _tag: "Unknown", missing },
  evidence
});
var causeOfEnd = (evidence, subject) => {
  const { trainJob: trainJob3, incarnation, execution, all: all2 } = subject;
  const uid2 = trainJob3.trainJob.metadata.uid;
  const self = `TrainJob/${evidence.name}`;
  const { terminal } = trainJob3;
  if (terminal?.type === "Failed" && terminal.reason === "DeadlineExceeded") {
    return {
      cause: { _tag: "DeadlineExceeded", layer: "TrainJob" },
      evidence: [conditionFact(self, terminal, trainJob3.presence)]
    };
  }
  if (terminal?.type === "Failed" && terminal.reason === "TrainingRuntimeNotSupported") {
    return {
      cause: { _tag: "Misconfigured", reason: terminal.reason, detail: terminal.message ?? "" },
      evidence: [conditionFact(self, terminal, trainJob3.presence)]
    };
  }
  for (const { job: job2, presence } of jobsOf(evidence, subject)) {
    for (const type of ["FailureTarget", "Failed"]) {
      const found = trueCondition(job2.status?.conditions, type);
      if (found?.reason === "DeadlineExceeded") {
        return {
          cause: { _tag: "DeadlineExceeded", layer: "Job" },
          evidence: [conditionFact(`Job/${job2.metadata.name}`, found, presence)]
        };
      }
    }
  }
  if (incarnation === void 0 || execution === void 0) {
    return unknown([`no pod of ${self} was seen`]);
  }
  const ends = endsByRank(evidence, unheld(subject));
  const incidents = ends.flatMap((end) => end._tag === "Incident" ? [end.incident] : []).toSorted(byTime);
  const unseen = ends.flatMap((end) => end._tag === "Unseen" ? [end] : []);
  const first = incidents[0];
  const deadline = incidents.find((it) => it.cause._tag === "DeadlineExceeded");
  if (deadline !== void 0) return deadline;
  const interruption = [
    ...interruptions(evidence, uid2, incarnation.pods),
    ...[stopEvents(evidence, uid2, incarnation.pods)].flatMap((it) => it ?? [])
  ].toSorted((a, b) => a.time - b.time)[0];
  if (interruption !== void 0 && (first === void 0 || first.rank > 6 || first.time >= interruption.time - skew)) {
    return interruption;
  }
  if (first !== void 0 && first.rank < 6) return first;
  const { missing } = gaps(evidence, all2, execution, incarnation, uid2);
  const gaps2 = [...unseen.map((it) => it.missing), ...missing.map((rank) => `any pod of ${rank}`)];
  if (gaps2.length > 0) {
    return unknown(gaps2, [...unseen.flatMap((it) => it.evidence), ...first?.evidence ?? []]);
  }
  if (first === void 0) return unknown([`why ${self} ended: every pod that was seen ended well`]);
  if (first.rank === 7) {
    const deleted = deletion(evidence, trainJob3);
    if (deleted !== void 0) return deleted;
  }
  return first;
};
var deletion = (evidence, trainJob3) => {
  const self = `TrainJob/${evidence.name}`;
  const { deletionTimestamp } = trainJob3.trainJob.metadata;
  const requested = deletionTimestamp !== void 0 && deletionTimestamp !== null;
  if (trainJob3.presence === "present" && !requested) return void 0;
  return {
    cause: { _tag: "Deleted", object: self },
    evidence: [
      fact(
        self,
        requested ? "metadata.deletionTimestamp" : "metadata.uid",
        trainJob3.presence === "present" ? "deletion requested" : "no longer exists",
        deletionTimestamp,
        trainJob3.presence
      )
    ]
  };
};
var select = (evidence, trainJob3) => {
  const all2 = executions2(evidence, trainJob3.trainJob.metadata.uid);
  const end = millis(trainJob3.terminal?.lastTransitionTime);
  if (end !== void 0) {
    for (const execution of all2.all.toReversed()) {
      const incarnation = execution.incarnations.findLast(
        ({ pods: pods2 }) => pods2.some((pod2) => (millis(pod2.creationTimestamp) ?? 0) <= end)
      );
      if (incarnation !== void 0) return { trainJob: trainJob3, all: all2, execution, incarnation };
    }
  }
  return { trainJob: trainJob3, all: all2, execution: all2.last, incarnation: all2.last?.newest };
};
var unheld = ({ trainJob: trainJob3, incarnation }) => {
  const pods2 = incarnation?.pods ?? [];
  if (trainJob3.trainJob.spec?.suspend === true) return pods2;
  const { suspensions } = trainJob3;
  const holds = suspensions.flatMap(({ status, lastTransitionTime }, index) => {
    const from = millis(lastTransitionTime);
    if (status !== "True" || from === void 0) return [];
    return [{ from, to: millis(suspensions[index + 1]?.lastTransitionTime) ?? Number.POSITIVE_INFINITY }];
  });
  return pods2.filter((pod2) => {
    const created2 = millis(pod2.creationTimestamp) ?? 0;
    const stopped = millis(pod2.evidence.deletionRequestedAt) ?? pod2.evidence.goneAt;
    return stopped === void 0 || !holds.some(({ from, to }) => created2 <= from && stopped >= from - skew && stopped <= to + skew);
  });
};
var isStarted = (pod2) => pod2.phase === "Running" || containersOf(pod2.evidence.pod).some(
  ({ role, status }) => role === "main" && status?.state?.running !== void 0 && status.state.running !== null
);
var located = (state, explained, evidence = []) => ({
  state,
  cause: explained?.cause,
  evidence: [...evidence, ...explained?.evidence ?? []]
});
var suspendedState = (evidence, subject, alive) => {
  const { trainJob: trainJob3, incarnation } = subject;
  const { uid: uid2 } = trainJob3.trainJob.metadata;
  const self = `TrainJob/${evidence.name}`;
  const suspension = trainJob3.suspensions.findLast(({ status }) => status === "True");
  const suspended = suspension === void 0 ? fact(self, "spec.suspend", "true", void 0, trainJob3.presence) : conditionFact(self, suspension, trainJob3.presence);
  const stopped = incarnation === void 0 ? void 0 : interruptions(evidence, uid2, incarnation.pods).at(-1) ?? stopEvents(evidence, uid2, incarnation.pods);
  const current = workloadsOf(evidence, uid2).findLast(({ presence }) => presence === "present");
  if (current === void 0) {
    if (stopped !== void 0) return located(alive ? "Stopping" : "Pending", stopped, [suspended]);
    const queue = trainJob3.trainJob.metadata.labels?.[queueNameLabel];
    if (queue !== void 0 && incarnation === void 0) {
      return located("Pending", void 0, [
        suspended,
        fact(self, `metadata.labels[${queueNameLabel}]`, queue, void 0, trainJob3.presence)
      ]);
    }
    if (queue !== void 0) {
      return located(alive ? "Stopping" : "Held", unknown([`the Workload of ${self}, which tells who stopped it`]), [
        suspended
      ]);
    }
    return located(alive ? "Stopping" : "Held", {
      cause: { _tag: "Held", by: "suspend", detail: "spec.suspend is true" },
      evidence: [suspended]
    });
  }
  const { workload } = current;
  const name = `Workload/${workload.metadata.name}`;
  if (workload.spec?.active === false) {
    const evicted = trueCondition(workload.status?.conditions, "Evicted");
    const reason = evicted?.reason ?? "Deactivated";
    return located(alive ? "Stopping" : "Held", {
      cause: reason.startsWith("Deactivated") ? kueueCause(reason, evicted?.message ?? "") : { _tag: "Held", by: "workload", detail: evicted?.message ?? "" },
      evidence: [
        fact(name, "spec.active", "false", void 0, current.presence),
        ...evicted === void 0 ? [] : [conditionFact(name, evicted, current.presence)]
      ]
    });
  }
  if (stopped !== void 0) return located(alive ? "Stopping" : "Pending", stopped);
  if (alive)
    return located("Stopping", unknown([`who suspended ${self}: its Workload is active and was not evicted`]), [
      suspended
    ]);
  const quota = condition(workload.status?.conditions, "QuotaReserved");
  if (quota?.status === "False") {
    const misconfigured = quota.reason === "Misconfigured" || quota.reason === "NoMatchingFlavor";
    return located("Pending", {
      cause: {
        _tag: misconfigured ? "Misconfigured" : "NoCapacity",
        reason: quota.reason ?? "",
        detail: quota.message ?? ""
      },
      evidence: [conditionFact(name, quota, current.presence)]
    });
  }
  const waiting = workload.status?.admissionChecks?.find(({ state }) => state !== "Ready");
  return located(
    "Pending",
    void 0,
    waiting === void 0 ? [] : [fact(name, `status.admissionChecks[${waiting.name}].state`, waiting.state, void 0, current.presence)]
  );
};
var rankOf = (pod2) => `${pod2.labels[jobNameLabel] ?? ""}/${pod2.labels[completionIndexLabel] ?? pod2.uid}`;
var isEnding = (evidence, subject) => {
  const { incarnation } = subject;
  if (incarnation === void 0) return false;
  const jobs3 = jobsOf(evidence, subject);
  if (jobs3.some(
    ({ job: job2 }) => ["FailureTarget", "Failed", "SuccessCriteriaMet"].some(
      (type) => trueCondition(job2.status?.conditions, type) !== void 0
    )
  )) {
    return true;
  }
  const jobSet2 = evidence.jobSets[incarnation.jobSetUid];
  if (trueCondition(jobSet2?.jobSet.status?.conditions, "Failed") !== void 0) return true;
  const pods2 = unheld(subject);
  if (pods2.every((pod2) => pod2.gone || isFinished(pod2.phase))) return true;
  if (jobs3.some(({ job: job2 }) => (job2.spec?.backoffLimit ?? 0) > 0)) return false;
  const newest = new Map(pods2.map((pod2) => [rankOf(pod2), pod2]));
  return [...newest.values()].some(
    (pod2) => pod2.phase !== "Succeeded" && (pod2.gone || pod2.phase === "Failed" || pod2.evidence.deletionRequestedAt !== void 0)
  );
};
var activeState = (evidence, subject) => {
  const { trainJob: trainJob3 } = subject;
  const self = `TrainJob/${evidence.name}`;
  const pods2 = unheld(subject);
  const started = pods2.filter((pod2) => !pod2.gone && !isFinished(pod2.phase));
  if (pods2.length === 0) {
    const refused = evidence.events.findLast(
      (it) => it.reason === "TrainJobResourcesCreationFailed" && it.regardingUid === trainJob3.trainJob.metadata.uid
    );
    const hasJobSet = Object.values(evidence.jobSets).some(
      ({ jobSet: jobSet2, presence }) => presence === "present" && controllerOf(jobSet2.metadata)?.uid === trainJob3.trainJob.metadata.uid
    );
    return refused === void 0 || hasJobSet ? located("Pending") : located("Pending", {
      cause: { _tag: "Misconfigured", reason: refused.reason, detail: refused.message ?? "" },
      evidence: [
        fact(`Event/${self}`, "reason", `${refused.reason} ${refused.message ?? ""}`, refused.at, "present")
      ]
    });
  }
  if (isEnding(evidence, subject)) {
    const ends = endsByRank(evidence, pods2);
    return ends.every(({ _tag }) => _tag === "None") ? located("Stopping") : located("Stopping", causeOfEnd(evidence, subject));
  }
  const blocked = started.map(obstacle).find((it) => it !== void 0);
  return located(started.some(isStarted) ? "Running" : "Pending", blocked);
};
var classify = (evidence, uid2) => {
  const trainJob3 = trainJob(evidence, uid2);
  if (trainJob3 === void 0) {
    const { last } = executions2(evidence, uid2);
    return {
      uid: uid2,
      state: "Unknown",
      cause: { _tag: "Unknown", missing: [`TrainJob/${evidence.name} was never seen`] },
      outcome: void 0,
      execution: last?.number,
      incarnation: last?.incarnations.length ?? 0,
      identity: last?.identity,
      repeated: last?.repeated ?? false,
      alive: last?.pods.some((pod2) => isUnended(pod2.evidence)) ?? false,
      evidence: [],
      notes: []
    };
  }
  const subject = select(evidence, trainJob3);
  const { all: all2, execution, incarnation } = subject;
  const self = `TrainJob/${evidence.name}`;
  const { terminal } = trainJob3;
  const outcome = terminal === void 0 ? void 0 : terminal.type === "Complete" ? "Succeeded" : "Failed";
  const alive = all2.all.some(({ pods: pods2 }) => pods2.some((pod2) => isUnended(pod2.evidence)));
  const locate = () => {
    const own = terminal === void 0 ? [] : [conditionFact(self, terminal, trainJob3.presence)];
    const deleted = deletion(evidence, trainJob3);
    const ended = (state2) => {
      if (outcome === "Succeeded") return located(state2, void 0, own);
      if (outcome === "Failed") {
        const explained2 = causeOfEnd(evidence, subject);
        return located(
          state2,
          { ...explained2, evidence: explained2.evidence.filter(({ field }) => field !== own[0]?.field) },
          own
        );
      }
      const explained = incarnation === void 0 ? deleted : causeOfEnd(evidence, subject);
      const at = millis(trainJob3.trainJob.metadata.deletionTimestamp) ?? trainJob3.goneAt;
      const earlier = incarnation !== void 0 && endsByRank(evidence, incarnation.pods).some(
        (end) => end._tag === "Incident" && end.incident.rank < 7 && (at === void 0 || end.incident.time <= at)
      );
      return located(state2, earlier ? explained : deleted ?? explained, earlier ? deleted?.evidence ?? [] : []);
    };
    if (trainJob3.presence !== "present") return ended("Gone");
    if (outcome !== void 0) return ended(outcome);
    if (deleted !== void 0) return ended("Stopping");
    if (trainJob3.trainJob.spec?.suspend === true) return suspendedState(evidence, subject, alive);
    return activeState(evidence, subject);
  };
  const { state, cause: found, evidence: facts2 } = locate();
  const later = execution !== void 0 && all2.all.indexOf(execution) < all2.all.length - 1;
  return {
    uid: trainJob3.trainJob.metadata.uid,
    state,
    cause: found,
    outcome,
    execution: execution?.number,
    incarnation: execution === void 0 || incarnation === void 0 ? 0 : execution.incarnations.indexOf(incarnation) + 1,
    identity: execution?.identity,
    repeated: (execution?.repeated ?? false) || outcome !== void 0 && later,
    alive,
    evidence: facts2 ?? [],
    notes: notes(evidence, subject)
  };
};
var notes = (evidence, { execution, all: all2 }) => [
  ...execution?.identity === "inferred" ? [
    `The pods carry no admission count: executions are told apart by uids and times${all2.all.length > 1 ? ` (${all2.all.length} so far)` : ""}.`
  ] : [],
  ...execution?.repeated === true ? [`The execution was started ${execution.incarnations.length} times.`] : [],
  ...all2.strays.length > 0 ? ["Pods of another TrainJob of this name exist or existed."] : [],
  ...evidence.droppedPods > 0 ? ["Evidence of earlier executions was given up to bound its size."] : []
];

// packages/core/src/decide/Update.ts
var Update = Schema10.Struct({
  ref: Schema10.Struct({ namespace: Schema10.String, name: Schema10.String, uid: Schema10.optional(Schema10.String) }),
  state: State,
  /** Why it is in that state, where there is a why. */
  cause: Schema10.optional(Cause),
  /** The first terminal result. */
  outcome: Schema10.optional(Schema10.Literal("Succeeded", "Failed")),
  /** The admission count of the execution that this is about. */
  execution: Schema10.optional(Schema10.Number),
  /** Which start of that execution, from 1; 0 before the first. */
  incarnation: Schema10.Number,
  /** `inferred`: the pods carry no admission count. */
  identity: Schema10.optional(Schema10.Literal("injected", "inferred")),
  /** The same admission ran more than once, or something ran after the end. */
  repeated: Schema10.Boolean,
  /** A pod exists that has not ended. False proves nothing about processes. */
  alive: Schema10.Boolean,
  evidence: Schema10.Array(Fact),
  notes: Schema10.Array(Schema10.String)
});
var make2 = (evidence, uid2) => {
  const verdict = classify(evidence, uid2);
  return {
    ref: {
      namespace: evidence.namespace,
      name: evidence.name,
      ...verdict.uid === void 0 ? {} : { uid: verdict.uid }
    },
    state: verdict.state,
    ...verdict.cause === void 0 ? {} : { cause: verdict.cause },
    ...verdict.outcome === void 0 ? {} : { outcome: verdict.outcome },
    ...verdict.execution === void 0 ? {} : { execution: verdict.execution },
    incarnation: verdict.incarnation,
    ...verdict.identity === void 0 ? {} : { identity: verdict.identity },
    repeated: verdict.repeated,
    alive: verdict.alive,
    evidence: verdict.evidence,
    notes: verdict.notes
  };
};
var isSame2 = (a, b) => {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => isSame2(item, b[index]));
  }
  const left = a;
  const right = b;
  for (const key in left) if (!isSame2(left[key], right[key])) return false;
  for (const key in right) if (left[key] === void 0 && right[key] !== void 0) return false;
  return true;
};
var equals = (a, b) => isSame2(a, b);

// bench/training-jobs.ts
var uid = (kind, job2, index = 0) => `${kind.padEnd(8, "0").slice(0, 8)}-6f0e-4f2b-${String(job2).padStart(4, "0")}-${String(index).padStart(12, "0")}`;
var created = "2026-11-29T15:00:00Z";
var namespace = "team";
var owner = (apiVersion, kind, name, ownerUid) => [
  { apiVersion, kind, name, uid: ownerUid, controller: true, blockOwnerDeletion: true }
];
var jobSetLabels = (job2) => ({
  "jobset.sigs.k8s.io/jobset-name": `run-${job2}`,
  "jobset.sigs.k8s.io/jobset-uid": uid("e", job2),
  "jobset.sigs.k8s.io/replicatedjob-name": "node",
  "jobset.sigs.k8s.io/job-index": "0",
  "jobset.sigs.k8s.io/restart-attempt": "0"
});
var trainJob2 = (job2, ranks2) => ({
  kind: "TrainJob",
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  metadata: { name: `run-${job2}`, namespace, uid: uid("d", job2), resourceVersion: "1000", creationTimestamp: created },
  spec: { runtimeRef: { name: "torch" }, trainer: { numNodes: ranks2 }, suspend: false },
  status: { conditions: [] }
});
var jobSet = (job2, ranks2) => ({
  kind: "JobSet",
  apiVersion: "jobset.x-k8s.io/v1alpha2",
  metadata: {
    name: `run-${job2}`,
    namespace,
    uid: uid("e", job2),
    resourceVersion: "1001",
    creationTimestamp: created,
    ownerReferences: owner("trainer.kubeflow.org/v1alpha1", "TrainJob", `run-${job2}`, uid("d", job2))
  },
  spec: {
    replicatedJobs: [
      {
        name: "node",
        replicas: 1,
        template: {
          metadata: { labels: { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" } },
          spec: { parallelism: ranks2, completions: ranks2 }
        }
      }
    ]
  },
  status: { conditions: [] }
});
var job = (number, ranks2) => ({
  kind: "Job",
  apiVersion: "batch/v1",
  metadata: {
    name: `run-${number}-node-0`,
    namespace,
    uid: uid("f", number),
    resourceVersion: "1002",
    creationTimestamp: created,
    labels: jobSetLabels(number),
    ownerReferences: owner("jobset.x-k8s.io/v1alpha2", "JobSet", `run-${number}`, uid("e", number))
  },
  spec: { parallelism: ranks2, completions: ranks2, backoffLimit: 0 },
  status: { startTime: created, active: ranks2 }
});
var pod = (number, rank, change) => {
  const running = rank !== 0 || change === 0;
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name: `run-${number}-node-0-${rank}-abcde`,
      generateName: `run-${number}-node-0-${rank}-`,
      namespace,
      uid: uid("a", number, rank),
      resourceVersion: String(2e3 + change),
      creationTimestamp: created,
      labels: {
        "batch.kubernetes.io/controller-uid": uid("f", number),
        "batch.kubernetes.io/job-completion-index": String(rank),
        "batch.kubernetes.io/job-name": `run-${number}-node-0`,
        ...jobSetLabels(number)
      },
      annotations: { "dispatch-kubeflow.dev/admission": "1" },
      ownerReferences: owner("batch/v1", "Job", `run-${number}-node-0`, uid("f", number))
    },
    spec: {
      nodeName: `gpu-${(number * 7 + rank) % 64}`,
      restartPolicy: "Never",
      containers: [
        {
          name: "node",
          image: "registry.example.com/team/train:2026-11-29",
          command: ["torchrun", "--nnodes=8", "train.py", "--epochs", "3"],
          resources: { limits: { "nvidia.com/gpu": "8", cpu: "96", memory: "1Ti" } },
          env: [
            { name: "PET_NNODES", value: "8" },
            { name: "PET_MASTER_ADDR", value: `run-${number}-node-0-0.run-${number}` }
          ]
        }
      ]
    },
    status: {
      phase: running ? "Running" : "Pending",
      startTime: created,
      podIP: "10.1.2.3",
      conditions: [
        { type: "PodScheduled", status: "True", lastTransitionTime: created },
        {
          type: "Ready",
          status: running ? "True" : "False",
          lastTransitionTime: `2026-11-29T15:${String(change % 60).padStart(2, "0")}:04Z`
        }
      ],
      containerStatuses: [
        {
          name: "node",
          ready: running,
          restartCount: 0,
          image: "registry.example.com/team/train:2026-11-29",
          containerID: `containerd://${"a".repeat(60)}${rank % 10}`,
          state: running ? { running: { startedAt: "2026-11-29T15:00:03Z" } } : { waiting: { reason: "ImagePullBackOff", message: `attempt ${change}` } }
        }
      ]
    }
  };
};

// bench/.perf6-core.ts
var [, , J = "1000", R = "4", N = "4000"] = process.argv;
var jobs2 = +J;
var ranks = +R;
var n = +N;
var v = (o, i) => {
  o.metadata.resourceVersion = String(i);
  return o;
};
var rv = 5e3;
var ev = [];
for (let j = 0; j < jobs2; j++) {
  let e = empty("team", `run-${j}`);
  e = foldAll(e, [{ _tag: "TrainJob", object: trainJob2(j, ranks), presence: "present", at: 1 }, { _tag: "JobSet", object: jobSet(j, ranks), presence: "present", at: 1 }, { _tag: "Job", object: job(j, ranks), presence: "present", at: 1 }]);
  for (let r = 0; r < ranks; r++) e = fold(e, { _tag: "Pod", object: v(pod(j, r, 0), rv++), presence: "present", at: 1 });
  ev.push(e);
}
var told = ev.map((e) => make2(e, Object.keys(e.trainJobs)[0]));
for (let round = 0; round < 4; round++) {
  const objs = Array.from({ length: n }, (_, i) => v(JSON.parse(JSON.stringify(pod(Math.floor(i / ranks) % jobs2, i % ranks, i + 1))), rv++));
  const t = { fold: 0, bound: 0, make: 0, eq: 0 };
  const c0 = process.cpuUsage();
  for (let i = 0; i < n; i++) {
    const j = Math.floor(i / ranks) % jobs2;
    let a = process.hrtime.bigint();
    let e = fold(ev[j], { _tag: "Pod", object: objs[i], presence: "present", at: 1e3 + i });
    let b = process.hrtime.bigint();
    t.fold += Number(b - a);
    e = bound(e);
    a = process.hrtime.bigint();
    t.bound += Number(a - b);
    ev[j] = e;
    const u = make2(e, Object.keys(e.trainJobs)[0]);
    b = process.hrtime.bigint();
    t.make += Number(b - a);
    if (!equals(told[j], u)) told[j] = u;
    a = process.hrtime.bigint();
    t.eq += Number(a - b);
  }
  const c = process.cpuUsage(c0);
  console.log(`cpu/event ${((c.user + c.system) / n).toFixed(1)} us `, Object.entries(t).map(([k, x]) => `${k} ${(x / n / 1e3).toFixed(1)}`).join("  "));
}
