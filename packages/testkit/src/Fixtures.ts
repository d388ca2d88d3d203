/**
 * Objects for tests, as plain values ready to be created: the runtimes that Trainer ships, a conforming one, TrainJobs,
 * nodes, pods, leases.
 *
 * @module
 */

const trainerApi = "trainer.kubeflow.org/v1alpha1"
const stepLabel = "trainer.kubeflow.org/trainjob-ancestor-step"

/** A plain object to be sent to the API. */
export type Body = Readonly<Record<string, unknown>>

/** How the pods of a runtime's trainer step fail and come back; absent fields are left to upstream's defaults. */
export interface JobOptions {
  readonly restartPolicy?: "Never" | "OnFailure"
  readonly backoffLimit?: number
  readonly podReplacementPolicy?: "Failed" | "TerminatingOrFailed"
  readonly terminationGracePeriodSeconds?: number
  readonly image?: string
  /** More fields of the JobSet's spec, e.g. `failurePolicy`. */
  readonly jobSet?: Body
  /** More fields of the Job's spec, e.g. `ttlSecondsAfterFinished`. */
  readonly job?: Body
  /** More fields of the pod's spec, e.g. `nodeSelector`. */
  readonly pod?: Body
}

const given = (fields: Body): Body =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const step = (
  name: string,
  ancestor: string | undefined,
  container: Body,
  options: JobOptions = {},
  more: Body = {}
): Body => ({
  name,
  ...more,
  template: {
    ...(ancestor === undefined ? {} : { metadata: { labels: { [stepLabel]: ancestor } } }),
    spec: {
      ...given({ backoffLimit: options.backoffLimit, podReplacementPolicy: options.podReplacementPolicy }),
      ...options.job,
      template: {
        spec: {
          ...given({
            restartPolicy: options.restartPolicy,
            terminationGracePeriodSeconds: options.terminationGracePeriodSeconds
          }),
          ...options.pod,
          containers: [container]
        }
      }
    }
  }
})

const clusterRuntime = (name: string, framework: string, mlPolicy: Body | undefined, jobSet: Body): Body => ({
  apiVersion: trainerApi,
  kind: "ClusterTrainingRuntime",
  metadata: { name, labels: { "trainer.kubeflow.org/framework": framework } },
  spec: { ...(mlPolicy === undefined ? {} : { mlPolicy }), template: { spec: jobSet } }
})

const torchImage = "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"

/** `torch-distributed` as shipped: OnFailure and a back-off limit of 6 by default. Options change it. */
export const torchDistributed = (name = "torch-distributed", options: JobOptions = {}): Body =>
  clusterRuntime(
    name,
    "torch",
    { numNodes: 1, torch: {} },
    {
      ...options.jobSet,
      replicatedJobs: [step("node", "trainer", { name: "node", image: options.image ?? torchImage }, options)]
    }
  )

/** A runtime that breaks no rule: Never, back-off limit 0, replacement only after the end. */
export const torchConforming = (name = "torch-conforming", options: JobOptions = {}): Body =>
  torchDistributed(name, {
    restartPolicy: "Never",
    backoffLimit: 0,
    podReplacementPolicy: "Failed",
    ...options
  })

/** For a pod's spec: no two ranks on one Node. */
export const oneRankPerNode: Body = {
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          topologyKey: "kubernetes.io/hostname",
          labelSelector: { matchExpressions: [{ key: "jobset.sigs.k8s.io/jobset-name", operator: "Exists" }] }
        }
      ]
    }
  }
}

/** For a pod's spec: it gives a lost Node up after so many seconds, instead of five minutes. */
export const tolerationSeconds = (seconds: number): Body => ({
  tolerations: ["not-ready", "unreachable"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: seconds
  }))
})

/** A strict runtime whose executions overlap after Release: Never, back-off limit 0, default replacement policy. */
export const torchStrict = (name = "torch-strict", options: JobOptions = {}): Body =>
  torchDistributed(name, { restartPolicy: "Never", backoffLimit: 0, ...options })

/** A runtime without an ML policy, conforming otherwise. */
export const plainRuntime = (name = "plain", options: JobOptions = {}): Body =>
  clusterRuntime(name, "plain", undefined, {
    ...options.jobSet,
    replicatedJobs: [
      step(
        "node",
        "trainer",
        { name: "node", image: options.image ?? "registry.example/train:1" },
        { restartPolicy: "Never", backoffLimit: 0, podReplacementPolicy: "Failed", ...options }
      )
    ]
  })

/** `jax-distributed` as shipped. */
export const jaxDistributed = (name = "jax-distributed", options: JobOptions = {}): Body =>
  clusterRuntime(
    name,
    "jax",
    { numNodes: 1, jax: {} },
    {
      ...options.jobSet,
      replicatedJobs: [
        step("node", "trainer", { name: "node", image: options.image ?? "nvcr.io/nvidia/jax:25.10-py3" }, options)
      ]
    }
  )

/** `xgboost-distributed` as shipped. */
export const xgboostDistributed = (name = "xgboost-distributed", options: JobOptions = {}): Body =>
  clusterRuntime(
    name,
    "xgboost",
    { numNodes: 1, xgboost: {} },
    {
      ...options.jobSet,
      replicatedJobs: [
        step(
          "node",
          "trainer",
          { name: "node", image: options.image ?? "ghcr.io/kubeflow/trainer/xgboost-runtime" },
          options
        )
      ]
    }
  )

const mpiRuntime = (name: string, framework: string, image: string, options: JobOptions): Body => {
  const container: Body = { name: "node", image: options.image ?? image, securityContext: { runAsUser: 1000 } }
  const pod: JobOptions = { ...options, pod: { securityContext: { fsGroup: 1000 }, ...options.pod } }
  return clusterRuntime(
    name,
    framework,
    {
      numNodes: 1,
      mpi: {
        numProcPerNode: 1,
        mpiImplementation: "OpenMPI",
        sshAuthMountPath: "/home/mpiuser/.ssh",
        runLauncherAsNode: true
      }
    },
    {
      network: { publishNotReadyAddresses: true },
      successPolicy: { operator: "All", targetReplicatedJobs: ["launcher"] },
      ...options.jobSet,
      replicatedJobs: [
        step(
          "node",
          undefined,
          {
            ...container,
            command: ["/usr/sbin/sshd"],
            args: ["-De", "-f", "/home/mpiuser/.sshd_config"],
            readinessProbe: { tcpSocket: { port: 2222 }, initialDelaySeconds: 5 }
          },
          pod
        ),
        step("launcher", "trainer", container, pod, { dependsOn: [{ name: "node", status: "Ready" }] })
      ]
    }
  )
}

/** `deepspeed-distributed` as shipped: MPI, the trainer step is the launcher. */
export const deepspeedDistributed = (name = "deepspeed-distributed", options: JobOptions = {}): Body =>
  mpiRuntime(name, "deepspeed", "ghcr.io/kubeflow/trainer/deepspeed-runtime", options)

/** `mlx-distributed` as shipped. */
export const mlxDistributed = (name = "mlx-distributed", options: JobOptions = {}): Body =>
  mpiRuntime(name, "mlx", "ghcr.io/kubeflow/trainer/mlx-runtime", options)

/** A torch runtime with dataset and model initializers before a trainer that waits for both. */
export const torchWithInitializers = (name = "torch-initializers", options: JobOptions = {}): Body => {
  const strict: JobOptions = { restartPolicy: "Never", backoffLimit: 0, ...options }
  const initializer = (which: string): Body =>
    step(
      which,
      which,
      {
        name: which,
        image: `registry.example/${which}:1`,
        volumeMounts: [{ name: "initializer", mountPath: "/workspace" }]
      },
      { ...strict, pod: { volumes: [{ name: "initializer", emptyDir: {} }], ...strict.pod } }
    )
  return clusterRuntime(
    name,
    "torch",
    { numNodes: 1, torch: {} },
    {
      ...options.jobSet,
      replicatedJobs: [
        initializer("dataset-initializer"),
        initializer("model-initializer"),
        step("node", "trainer", { name: "node", image: options.image ?? torchImage }, strict, {
          dependsOn: [
            { name: "dataset-initializer", status: "Complete" },
            { name: "model-initializer", status: "Complete" }
          ]
        })
      ]
    }
  )
}

/** The runtimes that Trainer ships. */
export const shippedRuntimes: ReadonlyArray<Body> = [
  deepspeedDistributed(),
  jaxDistributed(),
  mlxDistributed(),
  torchDistributed(),
  xgboostDistributed()
]

/** The same runtime as a namespaced TrainingRuntime. */
export const namespacedRuntime = (runtime: Body, namespace: string): Body => ({
  ...runtime,
  kind: "TrainingRuntime",
  metadata: { ...(runtime["metadata"] as Body), namespace }
})

/** A namespace. */
export const namespace = (name: string, labels: Readonly<Record<string, string>> = {}): Body => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name, labels }
})

/** What a TrainJob asks for. */
export interface TrainJobOptions {
  readonly runtime?: string
  readonly runtimeKind?: "ClusterTrainingRuntime" | "TrainingRuntime"
  readonly numNodes?: number
  readonly suspend?: boolean
  readonly trainer?: Body
  /** More fields of the spec, e.g. `activeDeadlineSeconds`. */
  readonly spec?: Body
  readonly labels?: Readonly<Record<string, string>>
}

/** A TrainJob. */
export const trainJob = (name: string, options: TrainJobOptions = {}): Body => ({
  apiVersion: trainerApi,
  kind: "TrainJob",
  metadata: { name, ...(options.labels === undefined ? {} : { labels: options.labels }) },
  spec: {
    runtimeRef: {
      name: options.runtime ?? "torch-conforming",
      ...(options.runtimeKind === undefined ? {} : { kind: options.runtimeKind })
    },
    trainer: { numNodes: options.numNodes ?? 1, ...options.trainer },
    ...(options.suspend === undefined ? {} : { suspend: options.suspend }),
    ...options.spec
  }
})

/** A runtimePatches entry that sets a pod annotation on a replicatedJob. */
export const annotationPatch = (
  manager: string,
  annotations: Readonly<Record<string, string>>,
  replicatedJob = "node"
): Body => ({
  manager,
  trainingRuntimeSpec: {
    template: {
      spec: {
        replicatedJobs: [{ name: replicatedJob, template: { spec: { template: { metadata: { annotations } } } } }]
      }
    }
  }
})

/** A Node that is Ready (or in another state), with its status. */
export const node = (
  name: string,
  options: {
    readonly ready?: "True" | "False" | "Unknown"
    readonly taints?: ReadonlyArray<Body>
    readonly labels?: Readonly<Record<string, string>>
    readonly bootID?: string
    /** What tells the machine from others: its machineID and systemUUID. */
    readonly machine?: string
    readonly allocatable?: Readonly<Record<string, string>>
    readonly time?: string
  } = {}
): Body => {
  const ready = options.ready ?? "True"
  const time = options.time ?? "1970-01-01T00:00:00Z"
  const figures = options.allocatable ?? { cpu: "32", memory: "256Gi", "nvidia.com/gpu": "8", pods: "110" }
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "kubernetes.io/hostname": name, ...options.labels } },
    spec: options.taints === undefined ? {} : { taints: options.taints },
    status: {
      allocatable: figures,
      capacity: figures,
      conditions: [
        {
          type: "Ready",
          status: ready,
          reason: ready === "True" ? "KubeletReady" : ready === "False" ? "KubeletNotReady" : "NodeStatusUnknown",
          message: ready === "True" ? "kubelet is posting ready status" : "",
          lastHeartbeatTime: time,
          lastTransitionTime: time
        }
      ],
      nodeInfo: {
        bootID: options.bootID ?? `00000000-0000-4000-8000-${name}`,
        machineID: options.machine ?? `machine-${name}`,
        systemUUID: options.machine ?? `system-${name}`,
        kubeletVersion: "v1.37.2"
      }
    }
  }
}

/** The out-of-service taint, as an administrator sets it. */
export const outOfServiceTaint: Body = {
  key: "node.kubernetes.io/out-of-service",
  value: "nodeshutdown",
  effect: "NoExecute"
}

/** A pod of about 2 KB, as a Job of a JobSet makes it. */
export const pod = (
  name: string,
  options: {
    readonly namespace?: string
    readonly nodeName?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
    readonly ownerReferences?: ReadonlyArray<Body>
    readonly finalizers?: ReadonlyArray<string>
    readonly phase?: string
    readonly status?: Body
    readonly spec?: Body
  } = {}
): Body => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: given({
    name,
    namespace: options.namespace,
    labels: options.labels ?? {},
    annotations: options.annotations,
    ownerReferences: options.ownerReferences,
    finalizers: options.finalizers
  }),
  spec: {
    ...given({ nodeName: options.nodeName }),
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 30,
    dnsPolicy: "ClusterFirst",
    hostname: name,
    subdomain: "run-1",
    schedulerName: "default-scheduler",
    containers: [
      {
        name: "node",
        image: "registry.example/team/train:2026.11",
        command: ["python", "-m", "train"],
        args: ["--data", "/mnt/data/shards", "--checkpoint", "/mnt/checkpoints", "--epochs", "40"],
        env: [
          { name: "PET_NNODES", value: "2" },
          { name: "PET_NPROC_PER_NODE", value: "8" },
          {
            name: "PET_NODE_RANK",
            valueFrom: {
              fieldRef: {
                apiVersion: "v1",
                fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"
              }
            }
          },
          { name: "PET_MASTER_ADDR", value: "run-1-node-0-0.run-1" },
          { name: "PET_MASTER_PORT", value: "29500" },
          { name: "NCCL_DEBUG", value: "WARN" },
          { name: "NCCL_IB_HCA", value: "mlx5_0,mlx5_1,mlx5_2,mlx5_3" },
          { name: "TORCH_DISTRIBUTED_DEBUG", value: "OFF" }
        ],
        ports: [{ containerPort: 29_500, protocol: "TCP" }],
        resources: {
          limits: { cpu: "96", memory: "900Gi", "nvidia.com/gpu": "8" },
          requests: { cpu: "96", memory: "900Gi", "nvidia.com/gpu": "8" }
        },
        volumeMounts: [
          { name: "data", mountPath: "/mnt/data", readOnly: true },
          { name: "checkpoints", mountPath: "/mnt/checkpoints" },
          { name: "shm", mountPath: "/dev/shm" }
        ],
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
        imagePullPolicy: "IfNotPresent"
      }
    ],
    volumes: [
      { name: "data", persistentVolumeClaim: { claimName: "datasets", readOnly: true } },
      { name: "checkpoints", persistentVolumeClaim: { claimName: "checkpoints" } },
      { name: "shm", emptyDir: { medium: "Memory", sizeLimit: "64Gi" } }
    ],
    ...options.spec
  },
  status: options.status ?? { phase: options.phase ?? "Pending", qosClass: "Guaranteed" }
})

/** A Lease. Times are RFC 3339 with six fraction digits. */
export const lease = (
  name: string,
  options: {
    readonly namespace?: string
    readonly holderIdentity?: string
    readonly renewTime?: string
    readonly leaseDurationSeconds?: number
  } = {}
): Body => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: given({ name, namespace: options.namespace }),
  spec: given({
    holderIdentity: options.holderIdentity ?? name,
    leaseDurationSeconds: options.leaseDurationSeconds ?? 40,
    renewTime: options.renewTime
  })
})

// --- Kueue -------------------------------------------------------------------------------------------------------------

const kueueApi = "kueue.x-k8s.io/v1beta2"

/** A ResourceFlavor. */
export const resourceFlavor = (
  name: string,
  options: {
    readonly nodeLabels?: Readonly<Record<string, string>>
    readonly nodeTaints?: ReadonlyArray<Body>
    readonly tolerations?: ReadonlyArray<Body>
  } = {}
): Body => ({ apiVersion: kueueApi, kind: "ResourceFlavor", metadata: { name }, spec: given({ ...options }) })

/** A ClusterQueue with one resource group: quotas by flavor, the same resources in each. */
export const clusterQueue = (
  name: string,
  options: {
    /** By flavor, the nominal quota of each resource. Default: flavor `default` with cpu 8. */
    readonly quotas?: Readonly<Record<string, Readonly<Record<string, string>>>>
    /** Names, or names with the flavors that they are for. */
    readonly admissionChecks?: ReadonlyArray<
      string | { readonly name: string; readonly onFlavors?: ReadonlyArray<string> }
    >
    /** Default: every namespace. */
    readonly namespaceSelector?: Body
    readonly withinClusterQueue?: "Never" | "LowerPriority" | "LowerOrNewerEqualPriority"
    readonly stopPolicy?: "None" | "Hold" | "HoldAndDrain"
    readonly queueingStrategy?: "BestEffortFIFO" | "StrictFIFO"
  } = {}
): Body => {
  const quotas = options.quotas ?? { default: { cpu: "8" } }
  const flavors = Object.entries(quotas).map(([flavor, resources]) => ({
    name: flavor,
    resources: Object.entries(resources).map(([resource, nominalQuota]) => ({ name: resource, nominalQuota }))
  }))
  return {
    apiVersion: kueueApi,
    kind: "ClusterQueue",
    metadata: { name },
    spec: given({
      namespaceSelector: options.namespaceSelector ?? {},
      resourceGroups: [{ coveredResources: Object.keys(Object.values(quotas)[0] ?? {}), flavors }],
      admissionChecksStrategy:
        options.admissionChecks === undefined
          ? undefined
          : {
              admissionChecks: options.admissionChecks.map((check) =>
                typeof check === "string" ? { name: check } : check
              )
            },
      preemption:
        options.withinClusterQueue === undefined ? undefined : { withinClusterQueue: options.withinClusterQueue },
      stopPolicy: options.stopPolicy,
      queueingStrategy: options.queueingStrategy
    })
  }
}

/** A LocalQueue. */
export const localQueue = (
  name: string,
  options: {
    readonly clusterQueue: string
    readonly namespace?: string
    readonly stopPolicy?: "None" | "Hold" | "HoldAndDrain"
  }
): Body => ({
  apiVersion: kueueApi,
  kind: "LocalQueue",
  metadata: given({ name, namespace: options.namespace }),
  spec: given({ clusterQueue: options.clusterQueue, stopPolicy: options.stopPolicy })
})

/** An AdmissionCheck. Only its controller says that it is active: give `active`, or write its status. */
export const admissionCheck = (
  name: string,
  options: {
    readonly controllerName?: string
    readonly active?: "True" | "False" | "Unknown"
    readonly spec?: Body
  } = {}
): Body => ({
  apiVersion: kueueApi,
  kind: "AdmissionCheck",
  metadata: { name },
  spec: { controllerName: options.controllerName ?? "example.com/gate", ...options.spec },
  ...(options.active === undefined ? {} : { status: activeStatus(options.active) })
})

/** The status with which a check's controller says whether it serves. */
export const activeStatus = (status: "True" | "False" | "Unknown", time = "1970-01-01T00:00:00Z"): Body => ({
  conditions: [
    {
      type: "Active",
      status,
      reason: status === "True" ? "Ready" : status === "False" ? "Down" : "Starting",
      message: status === "True" ? "the controller is running" : status === "False" ? "down" : "starting",
      lastTransitionTime: time
    }
  ]
})

/** A WorkloadPriorityClass. */
export const workloadPriorityClass = (name: string, value: number): Body => ({
  apiVersion: kueueApi,
  kind: "WorkloadPriorityClass",
  metadata: { name },
  value
})
