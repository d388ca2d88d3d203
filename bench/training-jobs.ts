/** What a namespace of TrainJobs looks like on the wire: pods are about 2 KB, as the API server sends them. */

const uid = (kind: string, job: number, index = 0): string =>
  `${kind.padEnd(8, "0").slice(0, 8)}-6f0e-4f2b-${String(job).padStart(4, "0")}-${String(index).padStart(12, "0")}`

const created = "2026-11-29T15:00:00Z"
export const namespace = "team"

const owner = (apiVersion: string, kind: string, name: string, ownerUid: string): ReadonlyArray<object> => [
  { apiVersion, kind, name, uid: ownerUid, controller: true, blockOwnerDeletion: true }
]

const jobSetLabels = (job: number): Readonly<Record<string, string>> => ({
  "jobset.sigs.k8s.io/jobset-name": `run-${job}`,
  "jobset.sigs.k8s.io/jobset-uid": uid("e", job),
  "jobset.sigs.k8s.io/replicatedjob-name": "node",
  "jobset.sigs.k8s.io/job-index": "0",
  "jobset.sigs.k8s.io/restart-attempt": "0"
})

/** A running TrainJob. */
export const trainJob = (job: number, ranks: number): object => ({
  kind: "TrainJob",
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  metadata: { name: `run-${job}`, namespace, uid: uid("d", job), resourceVersion: "1000", creationTimestamp: created },
  spec: { runtimeRef: { name: "torch" }, trainer: { numNodes: ranks }, suspend: false },
  status: { conditions: [] }
})

/** Its JobSet. */
export const jobSet = (job: number, ranks: number): object => ({
  kind: "JobSet",
  apiVersion: "jobset.x-k8s.io/v1alpha2",
  metadata: {
    name: `run-${job}`,
    namespace,
    uid: uid("e", job),
    resourceVersion: "1001",
    creationTimestamp: created,
    ownerReferences: owner("trainer.kubeflow.org/v1alpha1", "TrainJob", `run-${job}`, uid("d", job))
  },
  spec: {
    replicatedJobs: [
      {
        name: "node",
        replicas: 1,
        template: {
          metadata: { labels: { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" } },
          spec: { parallelism: ranks, completions: ranks }
        }
      }
    ]
  },
  status: { conditions: [] }
})

/** Its Job. */
export const job = (number: number, ranks: number): object => ({
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
  spec: { parallelism: ranks, completions: ranks, backoffLimit: 0 },
  status: { startTime: created, active: ranks }
})

/**
 * A pod of it. `change` says what its kubelet wrote last: for rank 0, which cannot pull its image, a text that an update
 * shows, for the others only a time.
 */
export const pod = (number: number, rank: number, change: number): object => {
  const running = rank !== 0
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name: `run-${number}-node-0-${rank}-abcde`,
      generateName: `run-${number}-node-0-${rank}-`,
      namespace,
      uid: uid("a", number, rank),
      resourceVersion: String(2000 + change),
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
          state: running
            ? { running: { startedAt: "2026-11-29T15:00:03Z" } }
            : { waiting: { reason: "ImagePullBackOff", message: `attempt ${change}` } }
        }
      ]
    }
  }
}

/** A healthy Node. */
export const node = (name: string): object => ({
  kind: "Node",
  apiVersion: "v1",
  metadata: { name, uid: `uid-${name}`, resourceVersion: "3", creationTimestamp: created },
  spec: {},
  status: {
    conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", lastTransitionTime: created }],
    nodeInfo: { bootID: `boot-${name}` }
  }
})
