import * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import * as Update from "@dispatch-kubeflow/core/decide/Update"
import { describe, expect, it } from "@effect/vitest"
import { Schema } from "effect"
import {
  at,
  base,
  complete,
  condition,
  disruption,
  event,
  evidenceOf,
  failed,
  job,
  jobSet,
  lost,
  node,
  outOfService,
  pod,
  type PodFields,
  running,
  type Seen,
  seen,
  terminated,
  trainJob,
  unreachable,
  waiting,
  warning,
  workload
} from "./EvidenceFixtures.js"

const classify = (...observations: ReadonlyArray<Seen>): Classification.Verdict =>
  Classification.classify(evidenceOf(...base, ...observations))

/** Rank 0 as given, rank 1 healthy until the Job deletes it; then the TrainJob fails. */
const failedRun = (rank0: PodFields, ...more: ReadonlyArray<Seen>): Classification.Verdict =>
  classify(
    seen.pod(pod({ uid: "p0", index: 0 }), 1),
    seen.pod(pod({ uid: "p1", index: 1 }), 1),
    seen.node(node({ name: "n0" }), 1),
    seen.node(node({ name: "n1" }), 1),
    ...more,
    seen.pod(pod({ uid: "p0", index: 0, phase: "Failed", ...rank0 }), 20),
    seen.pod(pod({ uid: "p1", index: 1, deletion: [21, 30] }), 21),
    seen.pod(
      pod({ uid: "p1", index: 1, deletion: [22, 0], phase: "Failed", container: terminated(143, "Error", 22) }),
      22,
      "seen"
    ),
    seen.trainJob(trainJob({ conditions: [failed(23)] }), 23)
  )

const cause = (verdict: Classification.Verdict): Classification.Cause | undefined => verdict.cause

describe("causes of a failure", () => {
  it("the application's exit code, of the rank that ended first", () => {
    const verdict = failedRun({ container: terminated(17, "Error", 20) })
    expect(verdict).toMatchObject({
      state: "Failed",
      outcome: "Failed",
      execution: 1,
      incarnation: 1,
      identity: "injected",
      repeated: false,
      alive: false,
      cause: { _tag: "Application", container: "node", exitCode: 17 }
    })
    expect(verdict.evidence).toEqual([
      {
        object: "TrainJob/run-1",
        field: "status.conditions[Failed]",
        value: "True FailedJobs jobset failed due to one or more job failures (first failed job: run-1-node-0)",
        time: at(23),
        presence: "present"
      },
      {
        object: "Pod/run-1-node-0-0-p0",
        field: "status.containerStatuses[node].state.terminated",
        value: "exitCode 17 Error",
        time: at(20),
        presence: "present"
      }
    ])
  })

  it("earliest finishedAt is the cause: what the other ranks did afterwards is a consequence", () => {
    const verdict = classify(
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", container: terminated(1, "Error", 25) }), 25),
      seen.pod(pod({ uid: "p0", index: 0, phase: "Failed", container: terminated(139, "Error", 20) }), 20),
      seen.trainJob(trainJob({ conditions: [failed(30)] }), 30)
    )
    expect(cause(verdict)).toEqual({ _tag: "Application", container: "node", exitCode: 139, signal: 11 })
  })

  const table: ReadonlyArray<readonly [string, PodFields, ReadonlyArray<Seen>, object]> = [
    ["K02: OOMKilled", { container: terminated(137, "OOMKilled", 20) }, [], { _tag: "OutOfMemory", exitCode: 137 }],
    [
      "K02: OOMKilled with the application's own exit code (a child was killed)",
      { container: terminated(6, "OOMKilled", 20) },
      [],
      { _tag: "OutOfMemory", exitCode: 6 }
    ],
    [
      "K02: 137 alone is not OOM",
      { container: terminated(137, "Error", 20) },
      [],
      { _tag: "Application", exitCode: 137, signal: 9 }
    ],
    [
      "a DisruptionTarget that predates the exit beats the exit code",
      {
        container: terminated(143, "Error", 20),
        conditions: [disruption("EvictionByEvictionAPI", 12)],
        deletion: [12, 30]
      },
      [],
      { _tag: "Drained", by: "the eviction API" }
    ],
    [
      "K06: a DisruptionTarget later than the exit explains nothing",
      { container: terminated(1, "Error", 20), conditions: [disruption("DeletionByPodGC", 60)] },
      [],
      { _tag: "Application", exitCode: 1 }
    ],
    [
      "preempted by the scheduler",
      { container: terminated(143, "Error", 20), conditions: [disruption("PreemptionByScheduler", 12)] },
      [],
      { _tag: "Preempted", by: "scheduler" }
    ],
    [
      "preempted by the kubelet for a critical pod",
      {
        reason: "Preempting",
        message: "Preempted in order to admit critical pod",
        conditions: [disruption("TerminationByKubelet", 12)],
        container: terminated(137, "Error", 20)
      },
      [],
      { _tag: "Preempted", by: "kubelet" }
    ],
    [
      "node pressure",
      {
        reason: "Evicted",
        message: "The node was low on resource: memory.",
        conditions: [disruption("TerminationByKubelet", 12)],
        container: terminated(137, "Error", 20)
      },
      [],
      { _tag: "Evicted", ownLimit: false }
    ],
    [
      "K03: its own storage limit, with exit 0 and no DisruptionTarget",
      {
        reason: "Evicted",
        message: 'Usage of EmptyDir volume "scratch" exceeds the limit',
        container: terminated(0, "Completed", 20)
      },
      [],
      { _tag: "Evicted", ownLimit: true }
    ],
    [
      "graceful node shutdown",
      {
        reason: "Terminated",
        message: "Pod was terminated in response to imminent node shutdown.",
        conditions: [disruption("TerminationByKubelet", 12)],
        container: terminated(143, "Error", 20)
      },
      [],
      { _tag: "Drained", by: "a shutdown of the Node" }
    ],
    [
      "K17: the kubelet refused it, no container statuses",
      { reason: "OutOfcpu", message: "Pod was rejected: Node didn't have enough resource: cpu", container: null },
      [],
      { _tag: "NoCapacity", reason: "OutOfcpu" }
    ],
    [
      "pod deadline",
      {
        reason: "DeadlineExceeded",
        message: "Pod was active on the node longer than the specified deadline",
        container: terminated(137, "Error", 20)
      },
      [],
      { _tag: "DeadlineExceeded", layer: "Pod" }
    ],
    [
      "a command that does not exist (startedAt 1970)",
      { container: terminated(128, "StartError", 20, { message: "exec: no such file" }) },
      [],
      { _tag: "Misconfigured", reason: "StartError" }
    ],
    [
      "Node lost: taint manager, the Node was unreachable",
      {
        phase: "Running",
        container: running(),
        conditions: [disruption("DeletionByTaintManager", 18)],
        deletion: [18, 30]
      },
      [seen.node(node({ name: "n0", ready: "Unknown", since: 10, taints: [unreachable] }), 12)],
      { _tag: "NodeLost", node: "n0" }
    ],
    [
      "drained: taint manager, an administrator's NoExecute taint on a Ready Node",
      {
        container: terminated(143, "Error", 20),
        conditions: [disruption("DeletionByTaintManager", 18)],
        deletion: [18, 30]
      },
      [seen.node(node({ name: "n0", taints: [{ key: "maintenance", effect: "NoExecute" }] }), 18)],
      { _tag: "Drained", by: "taint maintenance" }
    ],
    [
      "drained: out-of-service on a Ready Node only evicts",
      {
        container: terminated(0, "Completed", 20),
        phase: "Failed",
        conditions: [disruption("DeletionByTaintManager", 18)],
        deletion: [18, 30]
      },
      [seen.node(node({ name: "n0", taints: [outOfService] }), 18)],
      { _tag: "Drained" }
    ],
    [
      "taint manager, and the Node was not read: evicted, not lost and not the application",
      {
        container: terminated(143, "Error", 20),
        conditions: [disruption("DeletionByTaintManager", 18)],
        deletion: [18, 30]
      },
      [],
      { _tag: "Evicted", ownLimit: false }
    ],
    [
      "N09: Node object deleted, containers still say running",
      { container: running(), conditions: [disruption("DeletionByPodGC", 20, "PodGC: node no longer exists")] },
      [],
      { _tag: "NodeLost", node: "n0" }
    ],
    [
      "node lost without any word on the pod: forced away by the out-of-service taint",
      { container: running(), deletion: [20, 0] },
      [seen.node(node({ name: "n0", ready: "Unknown", since: 8, taints: [outOfService] }), 12)],
      { _tag: "NodeLost", node: "n0" }
    ],
    [
      "deleted by a person: the exit code is the SIGTERM handler's",
      { container: terminated(12, "Error", 20), deletion: [12, 30] },
      [],
      { _tag: "Deleted", object: "Pod/run-1-node-0-0-p0" }
    ],
    [
      "K01: the first real termination record counts, not ContainerStatusUnknown 137 afterwards",
      { container: lost },
      [seen.pod(pod({ uid: "p0", container: terminated(6, "Error", 19) }), 19)],
      { _tag: "Application", exitCode: 6 }
    ],
    [
      "K01: ContainerStatusUnknown alone is neither OOM nor the application",
      { container: lost },
      [],
      { _tag: "Unknown" }
    ],
    [
      "K14: phase Failed wins over a waiting state",
      {
        reason: "Evicted",
        message: "The node had condition: [DiskPressure].",
        conditions: [disruption("TerminationByKubelet", 12)],
        container: waiting("ContainerCreating")
      },
      [],
      { _tag: "Evicted", ownLimit: false }
    ]
  ]
  for (const [title, rank0, more, expected] of table) {
    it(title, () => {
      const verdict = failedRun(rank0, ...more)
      expect(verdict.cause).toMatchObject(expected)
      expect(verdict.state).toBe("Failed")
      expect(verdict.evidence.length).toBeGreaterThan(1)
    })
  }

  it("a healthy rank crashes before the taint manager acts: the Node that went silent first is the cause", () => {
    const verdict = classify(
      seen.pod(pod({ uid: "p0", index: 0 }), 1),
      seen.pod(pod({ uid: "p1", index: 1 }), 1),
      seen.node(node({ name: "n0", ready: "Unknown", since: 50 }), 51),
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", container: terminated(1, "Error", 90) }), 90),
      seen.pod(pod({ uid: "p0", index: 0, deletion: [91, 30] }), 91),
      seen.trainJob(trainJob({ conditions: [failed(200)] }), 200)
    )
    expect(cause(verdict)).toMatchObject({ _tag: "NodeLost", node: "n0" })
  })

  it("evidence not seen is Unknown, never Application", () => {
    const verdict = classify(
      seen.pod(pod({ uid: "p0", index: 0 }), 1),
      seen.pod(pod({ uid: "p0", index: 0 }), 30, "inferred"),
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", container: terminated(1, "Error", 20) }), 20),
      seen.trainJob(trainJob({ conditions: [failed(23)] }), 30)
    )
    expect(cause(verdict)).toEqual({ _tag: "Unknown", missing: ["how Pod/run-1-node-0-0-p0 ended"] })
    expect(verdict.evidence.map(({ presence }) => presence)).toContain("inferred")
  })

  it("a rank of which no pod was ever seen is named", () => {
    const verdict = classify(
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", container: terminated(1, "Error", 20) }), 20),
      seen.trainJob(trainJob({ conditions: [failed(23)] }), 30)
    )
    expect(cause(verdict)).toEqual({ _tag: "Unknown", missing: ["any pod of run-1-node-0 index 0"] })
  })

  it("a pod first seen at its very end: whether its deletion came first is not known", () => {
    const verdict = classify(
      seen.pod(
        pod({ uid: "p0", index: 0, phase: "Failed", container: terminated(143, "Error", 20), deletion: [21, 0] }),
        21
      ),
      seen.pod(pod({ uid: "p1", index: 1, phase: "Succeeded", container: terminated(0, "Completed", 10) }), 21),
      seen.trainJob(trainJob({ conditions: [failed(23)] }), 30)
    )
    expect(cause(verdict)).toMatchObject({ _tag: "Unknown" })
  })

  it("the deadline of the TrainJob, whatever its pods say; pods of a re-created JobSet do not matter", () => {
    const verdict = classify(
      seen.pod(
        pod({ uid: "p0", phase: "Failed", container: terminated(143, "Error", 20), deletion: [15, 30] }),
        20,
        "seen"
      ),
      seen.trainJob(trainJob({ conditions: [failed(15, "DeadlineExceeded")] }), 15),
      seen.jobSet(jobSet({ uid: "js-2" }), 16),
      seen.pod(pod({ uid: "p9", jobSetUid: "js-2", jobUid: "job-2", created: 16 }), 16)
    )
    expect(verdict).toMatchObject({
      state: "Failed",
      cause: { _tag: "DeadlineExceeded", layer: "TrainJob" },
      repeated: true,
      alive: true
    })
  })

  it("the deadline of the Job, of which the TrainJob says FailedJobs only", () => {
    const verdict = classify(
      seen.pod(pod({ uid: "p0", phase: "Failed", container: terminated(143, "Error", 20), deletion: [15, 30] }), 20),
      seen.pod(
        pod({ uid: "p1", index: 1, phase: "Failed", container: terminated(143, "Error", 20), deletion: [15, 30] }),
        20
      ),
      seen.job(job({ started: 0, conditions: [condition("FailureTarget", "DeadlineExceeded", 15)] }), 15),
      seen.trainJob(trainJob({ conditions: [failed(23)] }), 23)
    )
    expect(cause(verdict)).toEqual({ _tag: "DeadlineExceeded", layer: "Job" })
  })
})

describe("states", () => {
  const ranks = (fields: PodFields = {}): ReadonlyArray<Seen> => [
    seen.pod(pod({ uid: "p0", index: 0, ...fields }), 1),
    seen.pod(pod({ uid: "p1", index: 1, ...fields }), 1)
  ]
  const rows: ReadonlyArray<readonly [string, ReadonlyArray<Seen>, object]> = [
    [
      "K20: a TrainJob without a status",
      [],
      { state: "Pending", cause: undefined, execution: undefined, incarnation: 0 }
    ],
    [
      "created suspended",
      [seen.trainJob(trainJob({ suspend: true }), 1)],
      { state: "Held", cause: { _tag: "Held", by: "suspend" } }
    ],
    ["pods run", ranks(), { state: "Running", cause: undefined, alive: true }],
    [
      "no Node fits",
      ranks({
        node: null,
        phase: "Pending",
        container: null,
        conditions: [condition("PodScheduled", "Unschedulable", 1, "0/3 nodes are available", "False")]
      }),
      { state: "Pending", cause: { _tag: "NoCapacity", reason: "Unschedulable", detail: "0/3 nodes are available" } }
    ],
    [
      "wrong image: stays Pending for ever and nothing else says so",
      ranks({ phase: "Pending", container: waiting("ImagePullBackOff", 'Back-off pulling image "x"') }),
      { state: "Pending", cause: { _tag: "ImagePull", reason: "ImagePullBackOff" } }
    ],
    [
      "missing ConfigMap",
      ranks({ phase: "Pending", container: waiting("CreateContainerConfigError", 'configmap "x" not found') }),
      { state: "Pending", cause: { _tag: "Misconfigured", reason: "CreateContainerConfigError" } }
    ],
    [
      "K05: status.reason Terminated alone is not an end",
      ranks({ reason: "Terminated" }),
      { state: "Running", cause: undefined }
    ],
    [
      "K16: failure evidence early, the verdict waits",
      [
        ...ranks(),
        seen.pod(pod({ uid: "p0", phase: "Failed", container: terminated(3, "Error", 20) }), 20),
        seen.job(job({ started: 0, conditions: [condition("FailureTarget", "BackoffLimitExceeded", 20)] }), 21)
      ],
      { state: "Stopping", outcome: undefined, cause: { _tag: "Application", exitCode: 3 } }
    ],
    [
      "N14: a pod that stays Terminating has not ended",
      [...ranks(), seen.pod(pod({ uid: "p0", deletion: [20, 30] }), 400)],
      { state: "Stopping", alive: true }
    ],
    [
      "all ranks ended well, the TrainJob does not say so yet",
      ranks({ phase: "Succeeded", container: terminated(0, "Completed", 9) }),
      { state: "Stopping", cause: undefined }
    ],
    [
      "Complete",
      [
        ...ranks({ phase: "Succeeded", container: terminated(0, "Completed", 9) }),
        seen.trainJob(trainJob({ conditions: [complete(10)] }), 10)
      ],
      { state: "Succeeded", outcome: "Succeeded", cause: undefined, alive: false }
    ],
    [
      "K08: success is kept when the TrainJob is deleted",
      [
        ...ranks({ phase: "Succeeded", container: terminated(0, "Completed", 9) }),
        seen.trainJob(trainJob({ conditions: [complete(10)] }), 10),
        seen.pod(pod({ uid: "p0", phase: "Succeeded", container: terminated(0, "Completed", 9) }), 20, "seen"),
        seen.trainJob(trainJob({ conditions: [complete(10)] }), 20, "seen")
      ],
      { state: "Gone", outcome: "Succeeded", cause: undefined }
    ],
    [
      "K11: Failed by its deadline while pods run on: both are told",
      [...ranks(), seen.trainJob(trainJob({ conditions: [failed(15, "DeadlineExceeded")] }), 15)],
      { state: "Failed", alive: true, cause: { _tag: "DeadlineExceeded" } }
    ],
    [
      "K10: run again after its end: the result does not flip, the repetition is told",
      [
        ...ranks({ phase: "Failed", container: terminated(5, "Error", 9) }),
        seen.trainJob(trainJob({ conditions: [failed(10)] }), 10),
        seen.jobSet(jobSet({ uid: "js-2" }), 14),
        seen.pod(pod({ uid: "p5", jobSetUid: "js-2", jobUid: "job-2", created: 14 }), 14),
        seen.trainJob(trainJob({ conditions: [] }), 15)
      ],
      { state: "Failed", outcome: "Failed", repeated: true, alive: true, cause: { _tag: "Application", exitCode: 5 } }
    ],
    [
      "Hold of a running job: stopping while pods live",
      [
        ...ranks({ deletion: [20, 30] }),
        seen.trainJob(trainJob({ suspend: true, conditions: [condition("Suspended", "Suspended", 20)] }), 20)
      ],
      { state: "Stopping", cause: { _tag: "Held", by: "suspend" } }
    ],
    [
      "Hold: held when no pod lives",
      [
        seen.pod(pod({ uid: "p0", index: 0, deletion: [20, 30] }), 20),
        seen.pod(
          pod({ uid: "p0", phase: "Failed", container: terminated(143, "Error", 22), deletion: [22, 0] }),
          22,
          "seen"
        ),
        seen.trainJob(trainJob({ suspend: true, conditions: [condition("Suspended", "Suspended", 20)] }), 20)
      ],
      { state: "Held", cause: { _tag: "Held", by: "suspend" }, execution: 1, alive: false }
    ],
    [
      "released, no pod yet",
      [
        seen.pod(
          pod({ uid: "p0", phase: "Failed", container: terminated(143, "Error", 22), deletion: [22, 0] }),
          22,
          "seen"
        ),
        seen.trainJob(trainJob({ suspend: true, conditions: [condition("Suspended", "Suspended", 20)] }), 20),
        seen.trainJob(trainJob({ conditions: [condition("Suspended", "Resumed", 40, undefined, "False")] }), 40)
      ],
      { state: "Pending", cause: undefined }
    ],
    [
      "a JobSet that cannot be made: the Event is the only sign",
      [
        seen.jobSet(jobSet(), 0, "seen"),
        seen.event(event("TrainJobResourcesCreationFailed", "TrainJob resources reconciliation failed: x", 3), 3)
      ],
      { state: "Pending", cause: { _tag: "Misconfigured", reason: "TrainJobResourcesCreationFailed" } }
    ],
    [
      "a JobSet that cannot be made yet, because a webhook does not know the TrainJob: nothing to tell",
      [
        seen.jobSet(jobSet(), 0, "seen"),
        seen.event(
          event(
            "TrainJobResourcesCreationFailed",
            'TrainJob resources reconciliation failed: admission webhook "mjobset.kb.io" denied the request: TrainJob.trainer.kubeflow.org "run-1" not found',
            3
          ),
          3
        )
      ],
      { state: "Pending", cause: undefined }
    ],
    [
      "a Job that the server refuses to make: the Event about the JobSet is the only sign",
      [
        seen.job(job(), 0, "seen"),
        seen.event(warning("JobSet", 'job "run-1-node-0" creation failed with error: invalid', 1), 1)
      ],
      { state: "Pending", cause: { _tag: "Misconfigured", reason: "JobCreationFailed" } }
    ],
    [
      "a Job that was refused first, and was made then",
      [
        seen.event(warning("JobSet", 'job "run-1-node-0" creation failed with error: invalid', 1), 1),
        seen.job({ ...job(), metadata: { ...job().metadata, creationTimestamp: at(2) } }, 2)
      ],
      { state: "Pending", cause: undefined }
    ],
    [
      "pods that PodSecurity refuses",
      [
        seen.job(job(), 0),
        seen.event(
          warning("Job", 'Error creating: pods "a" is forbidden: violates PodSecurity "restricted:latest": x', 1),
          1
        )
      ],
      { state: "Pending", cause: { _tag: "Misconfigured", reason: "FailedCreate" } }
    ],
    [
      "rank 1 is more than a ResourceQuota allows, rank 0 runs and waits for it",
      [
        seen.job(job(), 0),
        seen.pod(pod({ uid: "p0", container: running(1) }), 1),
        seen.event(warning("Job", 'Error creating: pods "a" is forbidden: exceeded quota: q, requested: pods=1', 1), 1)
      ],
      { state: "Running", cause: { _tag: "NoCapacity", reason: "FailedCreate" }, alive: true }
    ],
    [
      "a quota that was exceeded for a while",
      [
        seen.job(job(), 0),
        seen.pod(pod({ uid: "p0", container: running(1) }), 1),
        seen.event(warning("Job", 'Error creating: pods "a" is forbidden: exceeded quota: q, requested: pods=1', 1), 1),
        seen.pod(pod({ uid: "p1", index: 1, created: 9, container: running(10) }), 10)
      ],
      { state: "Running", cause: undefined, alive: true }
    ],
    [
      "pods that cannot be made while a webhook cannot be reached: it passes",
      [
        seen.job(job(), 0),
        seen.event(
          warning("Job", 'Error creating: Internal error occurred: failed calling webhook "w": connection refused', 1),
          1
        )
      ],
      { state: "Pending", cause: undefined }
    ],
    [
      "deleted while running",
      [...ranks(), seen.trainJob(trainJob(), 30, "seen"), seen.pod(pod({ uid: "p0", deletion: [30, 30] }), 31)],
      { state: "Gone", cause: { _tag: "Deleted", object: "TrainJob/run-1" }, alive: true }
    ],
    [
      "a foreign TrainJob: executions are told apart by uids and times",
      ranks({ count: undefined }),
      { state: "Running", identity: "inferred", execution: undefined, incarnation: 1 }
    ]
  ]
  for (const [title, observations, expected] of rows) {
    it(title, () => {
      expect(classify(...observations)).toMatchObject(expected)
    })
  }

  it("nothing known at all is Unknown, saying so", () => {
    expect(Classification.classify(evidenceOf())).toMatchObject({
      state: "Unknown",
      cause: { _tag: "Unknown", missing: ["TrainJob/run-1 was never seen"] }
    })
  })
})

describe("Kueue", () => {
  const ran: ReadonlyArray<Seen> = [
    seen.workload(workload({ version: 1, conditions: [condition("QuotaReserved", "QuotaReserved", 0)] }), 0),
    seen.pod(pod({ uid: "p0", index: 0, created: 2 }), 2),
    seen.pod(pod({ uid: "p1", index: 1, created: 2 }), 2)
  ]
  const stopped: ReadonlyArray<Seen> = [
    seen.trainJob(trainJob({ suspend: true, conditions: [condition("Suspended", "Suspended", 30)] }), 30),
    ...["p0", "p1"].flatMap((uid, index) => [
      seen.pod(pod({ uid, index, created: 2, deletion: [30, 30] }), 30),
      seen.pod(pod({ uid, index, created: 2, deletion: [33, 0], phase: "Running" }), 33, "seen")
    ])
  ]
  const preempted = "Preempted to accommodate a workload (UID: x, JobUID: y) due to prioritization in the ClusterQueue"

  it("preempted: nothing on the pods says so, the Workload does; then waiting", () => {
    const evicted = seen.workload(
      workload({
        version: 2,
        conditions: [
          condition("Evicted", "Preempted", 29, preempted),
          condition("Preempted", "InClusterQueue", 29, preempted)
        ],
        evictions: { Preempted: 1 }
      }),
      29
    )
    expect(classify(...ran, evicted, stopped[0] ?? evicted)).toMatchObject({
      state: "Stopping",
      cause: { _tag: "Preempted", by: "kueue" }
    })
    const verdict = classify(...ran, evicted, ...stopped)
    expect(verdict).toMatchObject({
      state: "Pending",
      execution: 1,
      cause: { _tag: "Preempted", by: "kueue", detail: preempted }
    })
    // Evicted goes False at the next reservation: the evidence stays
    const reserved = seen.workload(
      workload({
        version: 3,
        conditions: [
          condition("Evicted", "QuotaReserved", 60, `Previously: ${preempted}`, "False"),
          condition("QuotaReserved", "QuotaReserved", 60)
        ],
        evictions: { Preempted: 1 }
      }),
      60
    )
    expect(classify(...ran, evicted, ...stopped, reserved)).toMatchObject({ cause: { _tag: "Preempted" } })
  })

  it("preempted unseen: the counter grew while nobody looked", () => {
    const verdict = classify(
      ...ran,
      ...stopped,
      seen.workload(workload({ version: 9, evictions: { Preempted: 1 } }), 40)
    )
    expect(verdict).toMatchObject({ state: "Pending", cause: { _tag: "Preempted", by: "kueue" } })
    expect(verdict.evidence[0]?.field).toBe("status.schedulingStats.evictions")
  })

  it("an eviction that hit a mere reservation ended no execution", () => {
    const held = [
      ...ran,
      seen.workload(
        workload({
          version: 2,
          active: false,
          conditions: [condition("Evicted", "Deactivated", 29, "The workload is deactivated")],
          evictions: { Deactivated: 1 }
        }),
        29
      ),
      ...stopped
    ]
    expect(classify(...held)).toMatchObject({ state: "Held", cause: { _tag: "Held", by: "workload" } })
    const waitingAgain = [
      ...held,
      seen.workload(
        workload({
          version: 3,
          conditions: [condition("Evicted", "Preempted", 90, preempted)],
          evictions: { Deactivated: 1, Preempted: 1 }
        }),
        90
      )
    ]
    expect(classify(...waitingAgain)).toMatchObject({ state: "Pending", cause: { _tag: "Held", by: "workload" } })
  })

  it("the Workload was replaced and lost its record: the TrainJob's Stopped event is the evidence", () => {
    const verdict = classify(
      ...ran,
      ...stopped,
      seen.workload(workload({ version: 2 }), 31, "seen"),
      seen.event(event("Stopped", "Workload is deleted", 30), 31)
    )
    expect(verdict).toMatchObject({ state: "Pending", cause: { _tag: "Evicted", reason: "Workload is deleted" } })
  })

  const reasons: ReadonlyArray<readonly [string, object]> = [
    ["PodsReadyTimeout", { _tag: "NoCapacity" }],
    ["ClusterQueueStopped", { _tag: "Drained" }],
    ["LocalQueueStopped", { _tag: "Drained" }],
    ["NodeFailures", { _tag: "NodeLost" }],
    ["AdmissionCheck", { _tag: "Evicted" }],
    ["DeactivatedDueToMaximumExecutionTimeExceeded", { _tag: "DeadlineExceeded", layer: "Kueue" }],
    ["DeactivatedDueToRequeuingLimitExceeded", { _tag: "NoCapacity" }]
  ]
  for (const [reason, expected] of reasons) {
    it(`evicted: ${reason}`, () => {
      const evicted = workload({
        version: 2,
        active: !reason.startsWith("Deactivated"),
        conditions: [condition("Evicted", reason, 29, "words")]
      })
      expect(classify(...ran, seen.workload(evicted, 29), ...stopped).cause).toMatchObject(expected)
    })
  }

  it("waiting for quota", () => {
    const pending = condition("QuotaReserved", "Pending", 5, "insufficient unused quota for cpu", "False")
    expect(
      classify(seen.trainJob(trainJob({ suspend: true }), 1), seen.workload(workload({ conditions: [pending] }), 5))
    ).toMatchObject({ state: "Pending", cause: { _tag: "NoCapacity", detail: "insufficient unused quota for cpu" } })
  })

  it("a rank that failed before the eviction failed by itself", () => {
    const verdict = classify(
      ...ran,
      seen.pod(pod({ uid: "p0", created: 2, phase: "Failed", container: terminated(4, "Error", 20) }), 20),
      seen.workload(workload({ version: 2, conditions: [condition("Evicted", "Preempted", 29, preempted)] }), 29),
      seen.trainJob(trainJob({ conditions: [failed(40)] }), 40)
    )
    expect(verdict.cause).toMatchObject({ _tag: "Application", exitCode: 4 })
  })
})

describe("Update", () => {
  it("is plain JSON, and equal when it tells the same", () => {
    const update = Update.make(evidenceOf(...base, seen.pod(pod(), 1)))
    const copy = Schema.decodeUnknownSync(Update.Update)(JSON.parse(JSON.stringify(update)))
    expect(copy).toEqual(update)
    expect(Update.equals(copy, update)).toBe(true)
    expect(Update.equals(update, { ...update, alive: !update.alive })).toBe(false)
  })
})
