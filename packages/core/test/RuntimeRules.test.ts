import * as RuntimeRules from "@dispatch-kubeflow/core/decide/RuntimeRules"
import { trainingRuntimes, type TrainingRuntime } from "@dispatch-kubeflow/core/model/Trainer"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { Either, FastCheck } from "effect"
import { describe, expect, it } from "vitest"

type Json = { readonly [key: string]: unknown }

const step = "trainer.kubeflow.org/trainjob-ancestor-step"

const job = (name: string, options: { ancestor?: string; job?: Json; pod?: Json; entry?: Json } = {}): Json => ({
  name,
  replicas: 1,
  groupName: "default",
  ...options.entry,
  template: {
    ...(options.ancestor === undefined ? {} : { metadata: { labels: { [step]: options.ancestor } } }),
    spec: {
      ...options.job,
      template: { spec: { containers: [{ name: "node", image: "example.com/train:1" }], ...options.pod } }
    }
  }
})

const runtime = (
  name: string,
  mlPolicy: Json | undefined,
  jobs: ReadonlyArray<Json>,
  set: Json = {}
): TrainingRuntime =>
  Either.getOrThrow(
    trainingRuntimes.decode({
      apiVersion: "trainer.kubeflow.org/v1alpha1",
      kind: "ClusterTrainingRuntime",
      metadata: { name, uid: `uid-${name}`, resourceVersion: "7", labels: { team: "ml" }, managedFields: [] },
      spec: { ...(mlPolicy === undefined ? {} : { mlPolicy }), template: { spec: { ...set, replicatedJobs: jobs } } }
    })
  )

// What Trainer 2.3.0 ships, as far as the rules read it
const mpi = (name: string): TrainingRuntime =>
  runtime(
    name,
    { numNodes: 1, mpi: { numProcPerNode: 1, mpiImplementation: "OpenMPI", runLauncherAsNode: true } },
    [job("node"), job("launcher", { ancestor: "trainer", entry: { dependsOn: [{ name: "node", status: "Ready" }] } })],
    {
      network: { publishNotReadyAddresses: true },
      successPolicy: { operator: "All", targetReplicatedJobs: ["launcher"] }
    }
  )
const torch = runtime("torch-distributed", { numNodes: 1, torch: {} }, [job("node", { ancestor: "trainer" })])
const torchtune = runtime("torchtune-llama3.2-1b", { numNodes: 1, torch: {} }, [
  job("dataset-initializer", { ancestor: "dataset-initializer" }),
  job("model-initializer", { ancestor: "model-initializer" }),
  job("node", { ancestor: "trainer" })
])
const shipped = {
  "torch-distributed": torch,
  "jax-distributed": runtime("jax-distributed", { numNodes: 1, jax: {} }, [job("node", { ancestor: "trainer" })]),
  "xgboost-distributed": runtime("xgboost-distributed", { numNodes: 1, xgboost: {} }, [
    job("node", { ancestor: "trainer" })
  ]),
  "deepspeed-distributed": mpi("deepspeed-distributed"),
  "mlx-distributed": mpi("mlx-distributed"),
  torchtune
}

const brokenRules = (checked: RuntimeRules.Verdict): ReadonlyArray<number> => [
  ...new Set(checked.findings.filter((it) => it.outcome === "broken").map((it) => it.rule))
]

const strictJob = { backoffLimit: 0, podReplacementPolicy: "Failed" }
const strictPod = { restartPolicy: "Never" }
const strict = (options: { job?: Json; pod?: Json; set?: Json; mlPolicy?: Json; entry?: Json; name?: string } = {}) =>
  runtime(
    "strict",
    options.mlPolicy,
    [
      job(options.name ?? "node", {
        ancestor: "trainer",
        job: { ...strictJob, ...options.job },
        pod: { ...strictPod, ...options.pod },
        ...(options.entry === undefined ? {} : { entry: options.entry })
      })
    ],
    options.set
  )

describe("shipped runtimes", () => {
  it("No runtime that Trainer ships passes rule 3", () => {
    const table = Object.fromEntries(
      Object.entries(shipped).map(([name, it]) => [name, brokenRules(RuntimeRules.check(it))])
    )
    expect(table).toEqual({
      "torch-distributed": [3],
      "jax-distributed": [2, 3],
      "xgboost-distributed": [2, 3],
      "deepspeed-distributed": [2, 3],
      "mlx-distributed": [2, 3],
      torchtune: [3, 8]
    })
  })

  it("an absent restartPolicy is OnFailure, an absent backoffLimit is 6; each with its field path and the value to set", () => {
    const { broken } = RuntimeRules.check(torch)
    const path = "ClusterTrainingRuntime/torch-distributed spec.template.spec.replicatedJobs[0].template.spec"
    expect(broken.map((it) => [it.where, it.remedy])).toEqual([
      [`${path}.template.spec.restartPolicy`, "set Never"],
      [`${path}.backoffLimit`, "set 0"]
    ])
    expect(broken[0]?.problem).toContain("OnFailure by default")
    expect(broken[1]?.problem).toContain("6 by default")
  })

  it("every rule is listed, passed or broken, in order", () => {
    for (const it of Object.values(shipped)) {
      const numbers = [...new Set(RuntimeRules.check(it).findings.map((finding) => finding.rule))]
      expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    }
  })

  it(`inPlaceRestarts: "accept" turns rules 3 and 4 into warnings that ride on the reasons of the affected answers`, () => {
    const accepted = RuntimeRules.check(torch, { inPlaceRestarts: "accept" })
    expect(accepted.broken).toEqual([])
    expect(accepted.findings.filter((it) => it.outcome === "accepted")).toHaveLength(2)
    expect(accepted.cautions[0]).toContain("an in-place restart replaces the log")
    expect(brokenRules(RuntimeRules.check(torchtune, { inPlaceRestarts: "accept" }))).toEqual([])
    expect(brokenRules(RuntimeRules.check(mpi("mlx"), { inPlaceRestarts: "accept" }))).toEqual([2])
  })

  it("conform: a conforming copy of torch-distributed has restartPolicy Never, backoffLimit 0, podReplacementPolicy Failed", () => {
    const { runtime: copy, changes, remaining } = RuntimeRules.conform(torch)
    expect(remaining).toEqual([])
    expect(changes.map(({ where, to }) => [where.replace(/^.*template\.spec\./, ""), to])).toEqual([
      ["restartPolicy", "Never"],
      ["backoffLimit", 0],
      ["podReplacementPolicy", "Failed"]
    ])
    expect(copy).toMatchObject({
      apiVersion: "trainer.kubeflow.org/v1alpha1",
      kind: "ClusterTrainingRuntime",
      metadata: { name: "torch-distributed-strict", labels: { team: "ml" } }
    })
    expect(Object.keys(copy.metadata).toSorted()).toEqual(["labels", "name"])
    const checked = RuntimeRules.check(copy)
    expect(checked.broken).toEqual([])
    expect(checked.warnings).toEqual([])
  })

  it("conform cannot mend rule 2 and says so", () => {
    for (const name of [
      "jax-distributed",
      "xgboost-distributed",
      "deepspeed-distributed",
      "mlx-distributed"
    ] as const) {
      const { remaining } = RuntimeRules.conform(shipped[name])
      expect(remaining.map((it) => it.rule)).toEqual([2])
    }
    expect(RuntimeRules.conform(torchtune).remaining).toEqual([])
  })

  it("fields that nobody knows are neither judged nor lost", () => {
    const strange = runtime("strange", { numNodes: 1, torch: { sparkle: 3 } }, [
      job("node", {
        ancestor: "trainer",
        job: { backoffLimit: 0, podReplacementPolicy: "Failed", glitter: { of: "gold" } },
        pod: { restartPolicy: "Never", dust: ["a"] }
      })
    ])
    expect(RuntimeRules.check(strange, {}).broken).toEqual([])
    const { runtime: copy } = RuntimeRules.conform(strange)
    expect(JSON.stringify(copy)).toMatch(/"sparkle":3.*"of":"gold".*"dust":\["a"\]/)
  })

  it("conform leaves the original as it was", () => {
    const before = JSON.stringify(torchtune)
    RuntimeRules.conform(torchtune)
    expect(JSON.stringify(torchtune)).toBe(before)
  })
})

describe("each rule", () => {
  it("a strict runtime passes all eight, under torch and without a policy", () => {
    for (const mlPolicy of [undefined, { numNodes: 2 }, { numNodes: 2, torch: {} }]) {
      const checked = RuntimeRules.check(strict(mlPolicy === undefined ? {} : { mlPolicy }))
      expect(checked.broken).toEqual([])
      expect(checked.findings).toHaveLength(8)
      expect(checked.warnings).toEqual([])
    }
  })

  const breaking: ReadonlyArray<readonly [string, TrainingRuntime, number, string]> = [
    [
      "no trainer step",
      runtime("r", undefined, [job("node", { job: strictJob, pod: strictPod })]),
      1,
      "replicatedJobs"
    ],
    [
      "two trainer steps",
      runtime("r", undefined, [
        job("node", { ancestor: "trainer", job: strictJob, pod: strictPod }),
        job("more", { ancestor: "trainer", job: strictJob, pod: strictPod })
      ]),
      1,
      "replicatedJobs"
    ],
    ["replicas", strict({ entry: { replicas: 2 } }), 1, "replicas"],
    ["container", strict({ pod: { containers: [{ name: "main" }] } }), 1, "containers"],
    ["O13: no replicatedJobs at all", runtime("r", undefined, []), 1, "replicatedJobs"],
    ["torch under another name", strict({ mlPolicy: { torch: {} }, name: "worker" }), 1, "name"],
    [
      "torch with a subdomain",
      strict({ mlPolicy: { torch: {} }, set: { network: { subdomain: "s" } } }),
      1,
      "subdomain"
    ],
    ["jax", strict({ mlPolicy: { jax: {} } }), 2, "mlPolicy.jax"],
    ["a policy nobody knows yet", strict({ mlPolicy: { warp: {} } }), 2, "mlPolicy.warp"],
    ["restartPolicy", strict({ pod: { restartPolicy: "Always" } }), 3, "restartPolicy"],
    [
      "a container's own restartPolicy",
      strict({ pod: { containers: [{ name: "node", restartPolicy: "OnFailure" }] } }),
      3,
      "containers[0].restartPolicy"
    ],
    [
      "a container's restart rules",
      strict({
        pod: { containers: [{ name: "node", restartPolicy: "Never", restartPolicyRules: [{ action: "Restart" }] }] }
      }),
      3,
      "restartPolicyRules"
    ],
    ["backoffLimit", strict({ job: { backoffLimit: 1 } }), 3, "backoffLimit"],
    ["backoffLimitPerIndex", strict({ job: { backoffLimitPerIndex: 0 } }), 3, "backoffLimitPerIndex"],
    ["Job successPolicy", strict({ job: { successPolicy: { rules: [] } } }), 3, "successPolicy"],
    ...["Ignore", "Count", "FailIndex"].map(
      (action) =>
        [
          `podFailurePolicy ${action}`,
          strict({ job: { podFailurePolicy: { rules: [{ action }] } } }),
          3,
          "podFailurePolicy.rules[0].action"
        ] as const
    ),
    ["maxRestarts", strict({ set: { failurePolicy: { maxRestarts: 1 } } }), 4, "maxRestarts"],
    [
      "maxRestarts 0 with a rule that restarts for ever",
      strict({
        set: { failurePolicy: { maxRestarts: 0, rules: [{ name: "x", action: "RestartJobSetAndIgnoreMaxRestarts" }] } }
      }),
      4,
      "rules[0].action"
    ],
    ["JobSet TTL 0", strict({ set: { ttlSecondsAfterFinished: 0 } }), 5, "ttlSecondsAfterFinished"],
    ["Job TTL", strict({ job: { ttlSecondsAfterFinished: 60 } }), 5, "ttlSecondsAfterFinished"],
    ["JobSet managedBy", strict({ set: { managedBy: "acme.io/x" } }), 6, "managedBy"],
    ["Job managedBy", strict({ job: { managedBy: "acme.io/x" } }), 6, "managedBy"],
    ["NonIndexed", strict({ job: { completionMode: "NonIndexed" } }), 7, "completionMode"],
    [
      "coordinator elsewhere",
      strict({ set: { coordinator: { replicatedJob: "node", podIndex: 1 } } }),
      7,
      "coordinator"
    ],
    [
      "success without rank 0",
      runtime(
        "r",
        undefined,
        [
          job("data", { ancestor: "dataset-initializer", job: strictJob, pod: strictPod }),
          job("node", { ancestor: "trainer", job: strictJob, pod: strictPod })
        ],
        { successPolicy: { operator: "Any" } }
      ),
      7,
      "successPolicy"
    ]
  ]
  for (const [what, it_, rule, where] of breaking) {
    it(`rule ${rule} is broken by: ${what}`, () => {
      const checked = RuntimeRules.check(it_)
      expect(brokenRules(checked)).toEqual([rule])
      expect(checked.broken.some((it) => it.where.includes(where))).toBe(true)
      expect(checked.broken.every((it) => it.remedy !== "" && it.problem !== "")).toBe(true)
    })
  }

  it("rule 8: initializer replicatedJobs are allowed when they obey 3–7", () => {
    const initializer = (options: Json): TrainingRuntime =>
      runtime("r", undefined, [
        job("data", { ancestor: "dataset-initializer", job: { ...strictJob, ...options }, pod: strictPod }),
        job("node", { ancestor: "trainer", job: strictJob, pod: strictPod })
      ])
    expect(RuntimeRules.check(initializer({})).broken).toEqual([])
    expect(brokenRules(RuntimeRules.check(initializer({ ttlSecondsAfterFinished: 1 })))).toEqual([5, 8])
  })

  it("what is harmless passes: FailJob rules, FailJobSet rules, the controllers' own managedBy, a sidecar, rank 0 as coordinator", () => {
    const harmless = strict({
      job: { podFailurePolicy: { rules: [{ action: "FailJob" }] }, managedBy: "kubernetes.io/job-controller" },
      pod: { initContainers: [{ name: "proxy", restartPolicy: "Always" }] },
      set: {
        failurePolicy: { maxRestarts: 0, rules: [{ name: "f", action: "FailJobSet" }] },
        coordinator: { replicatedJob: "node", jobIndex: 0, podIndex: 0 },
        successPolicy: { operator: "All", targetReplicatedJobs: ["node"] }
      }
    })
    expect(RuntimeRules.check(harmless).broken).toEqual([])
  })
})

describe("warnings, never a refusal", () => {
  it("podReplacementPolicy is not Failed; with a podFailurePolicy it is Failed by default", () => {
    const warn = (options: Json): ReadonlyArray<string> =>
      RuntimeRules.check(strict({ job: options })).warnings.map((it) => it.id)
    expect(warn({ podReplacementPolicy: undefined })).toEqual(["pod-replacement"])
    expect(warn({ podReplacementPolicy: "TerminatingOrFailed" })).toEqual(["pod-replacement"])
    expect(warn({ podReplacementPolicy: undefined, podFailurePolicy: { rules: [{ action: "FailJob" }] } })).toEqual([])
  })

  it("deprecated, suspend in a template, resourcesPerNode without mlPolicy, a TrainJob name that is too long to ever run", () => {
    const base = strict({ set: { suspend: true } })
    const old = {
      ...base,
      metadata: { ...base.metadata, labels: { "trainer.kubeflow.org/support": "deprecated" } }
    }
    const use = { name: "a".repeat(49), numNodes: 2, resourcesPerNode: true }
    const checked = RuntimeRules.check(old, { use })
    expect(checked.broken).toEqual([])
    expect(checked.warnings.map((it) => it.id).toSorted()).toEqual([
      "deprecated",
      "name-too-long",
      "resources-ignored",
      "suspend-overwritten"
    ])
  })

  it("the name's limit is 48 characters at 2 nodes, 47 at 11, 33 with a dataset initializer", () => {
    expect(RuntimeRules.maximumNameLength(torch, 2)).toBe(48)
    expect(RuntimeRules.maximumNameLength(torch, 11)).toBe(47)
    expect(RuntimeRules.maximumNameLength(torchtune, 2)).toBe(33)
  })
})

// ---------------------------------------------------------------------------------------------------------------------

const maybe = <A>(arbitrary: FastCheck.Arbitrary<A>): FastCheck.Arbitrary<A | undefined> =>
  FastCheck.option(arbitrary, { nil: undefined })
const sparse = (model: { readonly [key: string]: FastCheck.Arbitrary<unknown> }): FastCheck.Arbitrary<Json> =>
  FastCheck.record(model, { requiredKeys: [] }).map((it) =>
    Object.fromEntries(Object.entries(it).filter(([, value]) => value !== undefined))
  )

const containers = FastCheck.array(
  sparse({
    name: FastCheck.constantFrom("node", "main", "sidecar"),
    restartPolicy: maybe(FastCheck.constantFrom("Never", "Always", "OnFailure", "")),
    restartPolicyRules: maybe(FastCheck.constant([{ action: "Restart" }]))
  }).map((it) => ({ name: "node", ...it })),
  { maxLength: 2 }
)
const jobSpec = sparse({
  backoffLimit: maybe(FastCheck.constantFrom(0, 1, 6)),
  backoffLimitPerIndex: maybe(FastCheck.constantFrom(0, 2)),
  completionMode: maybe(FastCheck.constantFrom("Indexed", "NonIndexed")),
  ttlSecondsAfterFinished: maybe(FastCheck.constantFrom(0, 60)),
  managedBy: maybe(FastCheck.constantFrom("", "acme.io/x", "kubernetes.io/job-controller")),
  suspend: maybe(FastCheck.boolean()),
  successPolicy: maybe(FastCheck.constant({ rules: [] })),
  podReplacementPolicy: maybe(FastCheck.constantFrom("Failed", "TerminatingOrFailed")),
  podFailurePolicy: maybe(
    FastCheck.array(FastCheck.constantFrom("FailJob", "Ignore", "Count", "FailIndex"), { maxLength: 3 }).map(
      (actions) => ({ rules: actions.map((action) => ({ action })) })
    )
  )
})
const replicatedJob = FastCheck.record({
  name: FastCheck.constantFrom("node", "worker", "data", "launcher"),
  replicas: FastCheck.constantFrom(undefined, null, 1, 2),
  ancestor: FastCheck.constantFrom(undefined, "trainer", "trainer", "dataset-initializer", "model-initializer"),
  spec: jobSpec,
  pod: FastCheck.record({
    restartPolicy: FastCheck.constantFrom(undefined, null, "", "Never", "OnFailure", "Always"),
    containers,
    initContainers: containers
  })
}).map(({ ancestor, name, pod, replicas, spec }) => ({
  name,
  replicas,
  template: {
    ...(ancestor === undefined ? {} : { metadata: { labels: { [step]: ancestor } } }),
    spec: { ...spec, template: { spec: pod } }
  }
}))
const anyRuntime = FastCheck.record({
  mlPolicy: FastCheck.constantFrom(
    undefined,
    null,
    {},
    { numNodes: 2 },
    { torch: {} },
    { mpi: {} },
    { torch: {}, jax: {} }
  ),
  jobs: FastCheck.array(replicatedJob, { maxLength: 3 }),
  set: sparse({
    network: maybe(FastCheck.constantFrom({}, { subdomain: "" }, { subdomain: "s" })),
    failurePolicy: maybe(
      FastCheck.constantFrom(
        {},
        { maxRestarts: 0 },
        { maxRestarts: 3 },
        { rules: [{ action: "FailJobSet" }] },
        { rules: [{ action: "RestartJobSet" }] }
      )
    ),
    ttlSecondsAfterFinished: maybe(FastCheck.constantFrom(0, 60)),
    managedBy: maybe(FastCheck.constantFrom("acme.io/x", "jobset.sigs.k8s.io/jobset-controller")),
    suspend: maybe(FastCheck.boolean()),
    coordinator: maybe(FastCheck.constantFrom({ replicatedJob: "node" }, { replicatedJob: "data", jobIndex: 1 })),
    successPolicy: maybe(
      FastCheck.constantFrom(
        { operator: "All", targetReplicatedJobs: ["node"] },
        { operator: "Any" },
        { operator: "Any", targetReplicatedJobs: ["data"] },
        {}
      )
    )
  })
}).map(({ jobs, mlPolicy, set }) => runtime("r", mlPolicy as Json | undefined, jobs, set))

describe("conform then check, over arbitrary runtimes", () => {
  it("what only a person can mend remains, and nothing else; conforming twice changes nothing more", () => {
    FastCheck.assert(
      FastCheck.property(anyRuntime, (it) => {
        const conformed = RuntimeRules.conform(it)
        const left = RuntimeRules.check(conformed.runtime).findings.filter((finding) => finding.outcome !== "pass")
        expect(left).toEqual(conformed.remaining)
        expect(left.every((finding) => finding.rule === 1 || finding.rule === 2)).toBe(true)
        expect(left.filter((finding) => /replicas$|subdomain$/.test(finding.where))).toEqual([])
        const again = RuntimeRules.conform(conformed.runtime, { name: conformed.runtime.metadata.name })
        expect(again.changes).toEqual([])
        expect(again.runtime).toEqual(conformed.runtime)
      }),
      Properties.parameters(300)
    )
  })

  it("what obeys a rule is not changed for its sake", () => {
    FastCheck.assert(
      FastCheck.property(anyRuntime, (it) => {
        const broken = brokenRules(RuntimeRules.check(it))
        const mended = RuntimeRules.conform(it).changes.flatMap(({ rule }) => (rule === "warning" ? [] : [rule]))
        expect(mended.filter((rule) => !broken.includes(rule))).toEqual([])
      }),
      Properties.parameters(300)
    )
  })
})
