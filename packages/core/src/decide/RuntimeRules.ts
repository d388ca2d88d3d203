/**
 * The rules that a training runtime must not break so that one admission is one execution, its evidence stays readable
 * and rank 0 can be found. Judged with Kubernetes' own defaults applied: an absent `restartPolicy` *is* OnFailure, an
 * absent `backoffLimit` *is* 6. The admission webhooks enforce almost none of this.
 *
 * @module
 */
import type { Obstacle } from "../AdapterError.js"
import type { JobSpec } from "../model/Batch.js"
import type { JobSetSpec, ReplicatedJob } from "../model/JobSet.js"
import { ancestorStepLabel, supportLabel, trainerContainer, type TrainingRuntime } from "../model/Trainer.js"

/** What is known about the run that wants to use the runtime; sharpens the warnings. */
export interface Use {
  /** Name of the TrainJob. */
  readonly name?: string | undefined
  readonly numNodes?: number | undefined
  /** Whether the run asks for `resourcesPerNode`. */
  readonly resourcesPerNode?: boolean | undefined
}

/** How to judge. `kind` is needed where the object does not carry its own (list items do not). */
export interface Options {
  readonly inPlaceRestarts?: "refuse" | "accept" | undefined
  readonly kind?: string | undefined
  readonly use?: Use | undefined
}

/** The eight rules, as data: number, stable id, what is asked and why. */
export const rules = [
  {
    rule: 1,
    id: "trainer-step",
    title: `exactly one replicatedJob with ancestor step "trainer", replicas 1, with a container "node"; under torch named "node", without network.subdomain`,
    why: "rank 0 is found by it, Trainer applies the TrainJob's trainer block to it, and torch's master address names it"
  },
  {
    rule: 2,
    id: "ml-policy",
    title: "mlPolicy absent, without a variant, or torch",
    why: "other policies give ranks, launchers and process counts another meaning"
  },
  {
    rule: 3,
    id: "no-in-place-restart",
    title:
      "pod restartPolicy Never, Job backoffLimit 0, no backoffLimitPerIndex, no Job successPolicy, no podFailurePolicy rule but FailJob",
    why: "a restart or a replacement pod runs the program again inside one admission and overwrites the evidence"
  },
  {
    rule: 4,
    id: "no-jobset-restart",
    title: "JobSet failurePolicy absent, or maxRestarts 0 with no rule that restarts",
    why: "a JobSet restart runs everything again inside one admission and deletes the pods"
  },
  {
    rule: 5,
    id: "no-ttl",
    title: "no ttlSecondsAfterFinished on the JobSet or its Jobs",
    why: "Trainer 2.3 and earlier run a failed TrainJob again when its JobSet expires; a Job's expiry destroys evidence"
  },
  {
    rule: 6,
    id: "start-and-stop",
    title: "JobSet and Job managedBy unset",
    why: "with another manager nothing ever runs, and nothing says so"
  },
  {
    rule: 7,
    id: "ends-with-rank-0",
    title: "completionMode Indexed; no coordinator or success policy that ends the set without rank 0",
    why: "completion index 0 is rank 0, and Complete has to mean that rank 0 finished"
  },
  {
    rule: 8,
    id: "initializers",
    title: "initializer replicatedJobs obey rules 3 to 7",
    why: "they run before the trainer in pods of their own and can restart like it"
  }
] as const

/** The reference page's table, as Markdown. */
export const markdown = (): string =>
  [
    "| rule | id | what must hold | why |",
    "|---|---|---|---|",
    ...rules.map(({ rule, id, title, why }) => `| ${rule} | \`${id}\` | ${title} | ${why} |`)
  ].join("\n")

/** Number of a rule. */
export type RuleNumber = (typeof rules)[number]["rule"]

/** One finding: a rule that holds, or one field that breaks it. `accepted` is broken but allowed by configuration. */
export interface Finding {
  readonly rule: RuleNumber
  readonly id: string
  readonly outcome: "pass" | "broken" | "accepted"
  /** Object and field path. */
  readonly where: string
  readonly problem: string
  /** The value to set; empty on a pass. */
  readonly remedy: string
}

/** Something that is not refused but should be known. */
export interface Warning {
  readonly id: "pod-replacement" | "deprecated" | "resources-ignored" | "name-too-long" | "suspend-overwritten"
  readonly where: string
  readonly problem: string
  readonly remedy: string
}

/** What `mlPolicy` says: absent (`none`), present without a variant, or the names of its variants. */
export type Policy =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "NoVariant" }
  | { readonly _tag: "Torch" }
  | { readonly _tag: "Other"; readonly variants: ReadonlyArray<string> }

/** The judgement of one runtime. `findings` has at least one entry per rule, in order. */
export interface Verdict {
  /** e.g. `ClusterTrainingRuntime/torch-distributed`. */
  readonly runtime: string
  readonly policy: Policy
  readonly findings: ReadonlyArray<Finding>
  /** The findings that refuse the runtime, ready for an `ErrUnsupported`. */
  readonly broken: ReadonlyArray<Obstacle>
  readonly warnings: ReadonlyArray<Warning>
  /** What accepted in-place restarts cost; rides on the reasons of OutputRead and OutputFollow. */
  readonly cautions: ReadonlyArray<string>
}

/** The caution of a runtime whose in-place restarts are accepted. */
export const restartCaution = "an in-place restart replaces the log"

type Json = { readonly [key: string]: unknown }

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** What `spec.mlPolicy` says. A variant this module does not know counts as one. */
export const policyOf = (runtime: TrainingRuntime): Policy => {
  const policy = runtime.spec?.mlPolicy
  if (policy === undefined || policy === null) return { _tag: "Absent" }
  const variants = Object.entries(policy)
    .filter(([key, value]) => key !== "numNodes" && value !== undefined && value !== null)
    .map(([key]) => key)
  if (variants.length === 0) return { _tag: "NoVariant" }
  return variants.length === 1 && variants[0] === "torch" ? { _tag: "Torch" } : { _tag: "Other", variants }
}

const ancestorOf = (job: ReplicatedJob): string | undefined => job.template?.metadata?.labels?.[ancestorStepLabel]

const isInitializer = (job: ReplicatedJob): boolean => {
  const ancestor = ancestorOf(job)
  return ancestor === "dataset-initializer" || ancestor === "model-initializer"
}

const jobsOf = (runtime: TrainingRuntime): ReadonlyArray<ReplicatedJob> =>
  runtime.spec?.template?.spec?.replicatedJobs ?? []

/** The replicatedJob of the trainer step, when there is exactly one. */
export const trainerStep = (runtime: TrainingRuntime): ReplicatedJob | undefined => {
  const steps = jobsOf(runtime).filter((job) => ancestorOf(job) === "trainer")
  return steps.length === 1 ? steps[0] : undefined
}

const jobSetPath = "spec.template.spec"
const jobPath = (index: number): string => `${jobSetPath}.replicatedJobs[${index}]`
const isSet = <A>(value: A | null | undefined): value is A => value !== undefined && value !== null

interface Break {
  readonly path: string
  readonly problem: string
  readonly remedy: string
}

// https://kubernetes.io/docs/concepts/workloads/controllers/job/: with backoffLimitPerIndex the Job-wide limit is MaxInt32
const backoffLimitOf = (spec: JobSpec | null | undefined): number =>
  spec?.backoffLimit ?? (isSet(spec?.backoffLimitPerIndex) ? 2147483647 : 6)

// https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy
const podReplacementOf = (spec: JobSpec | null | undefined): string =>
  spec?.podReplacementPolicy ?? (isSet(spec?.podFailurePolicy) ? "Failed" : "TerminatingOrFailed")

const restartRulesOf = (container: object): ReadonlyArray<string> => {
  const found: unknown = "restartPolicyRules" in container ? container.restartPolicyRules : undefined
  if (!Array.isArray(found)) return []
  return found.flatMap((rule: unknown) => (isJson(rule) && typeof rule["action"] === "string" ? [rule["action"]] : []))
}

const rule1 = (runtime: TrainingRuntime, policy: Policy): ReadonlyArray<Break> => {
  const all = jobsOf(runtime)
  const steps = all.flatMap((job, index) => (ancestorOf(job) === "trainer" ? [{ job, index }] : []))
  const path = `${jobSetPath}.replicatedJobs`
  if (steps.length !== 1) {
    const named = steps.map(({ job }) => `"${job.name}"`).join(", ")
    return [
      {
        path,
        problem:
          steps.length === 0
            ? `no replicatedJob carries ${ancestorStepLabel}: trainer in its Job template's labels`
            : `${steps.length} replicatedJobs carry ${ancestorStepLabel}: trainer (${named})`,
        remedy: `label the Job template of exactly one replicatedJob with ${ancestorStepLabel}: trainer`
      }
    ]
  }
  const breaks: Array<Break> = []
  for (const { job, index } of steps) {
    const replicas = job.replicas ?? 1
    if (replicas !== 1) {
      breaks.push({ path: `${jobPath(index)}.replicas`, problem: `is ${replicas}`, remedy: "set 1" })
    }
    const containers = job.template?.spec?.template?.spec?.containers ?? []
    if (!containers.some((container) => container.name === trainerContainer)) {
      breaks.push({
        path: `${jobPath(index)}.template.spec.template.spec.containers`,
        problem: `has no container "${trainerContainer}"`,
        remedy: `name the training container "${trainerContainer}"`
      })
    }
    if (policy._tag !== "Torch") continue
    if (job.name !== "node") {
      breaks.push({
        path: `${jobPath(index)}.name`,
        problem: `is "${job.name}", but Trainer's torch policy makes the master address from the name "node"`,
        remedy: `name it "node"`
      })
    }
    const subdomain = runtime.spec?.template?.spec?.network?.subdomain
    if (isSet(subdomain) && subdomain !== "") {
      breaks.push({
        path: `${jobSetPath}.network.subdomain`,
        problem: `is "${subdomain}", but Trainer's torch policy makes the master address from the TrainJob's name`,
        remedy: "remove it"
      })
    }
  }
  return breaks
}

const rule2 = (policy: Policy): ReadonlyArray<Break> =>
  policy._tag === "Other"
    ? policy.variants
        .filter((variant) => variant !== "torch")
        .map((variant) => ({
          path: `spec.mlPolicy.${variant}`,
          problem: `the ${variant} policy is not supported`,
          remedy: "use a runtime with mlPolicy.torch, or with no policy"
        }))
    : []

const rule3 = (job: ReplicatedJob, index: number): ReadonlyArray<Break> => {
  const breaks: Array<Break> = []
  const spec = job.template?.spec
  const path = `${jobPath(index)}.template.spec`
  const pod = spec?.template?.spec
  const podPath = `${path}.template.spec`
  const restartPolicy = pod?.restartPolicy
  if (restartPolicy !== "Never") {
    breaks.push({
      path: `${podPath}.restartPolicy`,
      problem: isSet(restartPolicy) && restartPolicy !== "" ? `is ${restartPolicy}` : "is OnFailure by default",
      remedy: "set Never"
    })
  }
  for (const field of ["containers", "initContainers"] as const) {
    for (const [at, container] of (pod?.[field] ?? []).entries()) {
      const own = container.restartPolicy
      // an init container with Always is a sidecar: it restarts by itself and not the program
      const allowed = field === "initContainers" ? ["Never", "Always"] : ["Never"]
      if (isSet(own) && own !== "" && !allowed.includes(own)) {
        breaks.push({
          path: `${podPath}.${field}[${at}].restartPolicy`,
          problem: `is ${own} (it overrides the pod's)`,
          remedy: "remove it"
        })
      }
      const actions = restartRulesOf(container)
      if (actions.length > 0) {
        breaks.push({
          path: `${podPath}.${field}[${at}].restartPolicyRules`,
          problem: `restarts containers in place (${actions.join(", ")})`,
          remedy: "remove it"
        })
      }
    }
  }
  const backoffLimit = backoffLimitOf(spec)
  if (backoffLimit !== 0) {
    breaks.push({
      path: `${path}.backoffLimit`,
      problem: isSet(spec?.backoffLimit) ? `is ${backoffLimit}` : `is ${backoffLimit} by default`,
      remedy: "set 0"
    })
  }
  if (isSet(spec?.backoffLimitPerIndex)) {
    breaks.push({
      path: `${path}.backoffLimitPerIndex`,
      problem: `is ${spec.backoffLimitPerIndex}`,
      remedy: "remove it (and maxFailedIndexes)"
    })
  }
  if (isSet(spec?.successPolicy)) {
    breaks.push({
      path: `${path}.successPolicy`,
      problem: "ends the Job before every rank has finished",
      remedy: "remove it"
    })
  }
  for (const [at, rule] of (spec?.podFailurePolicy?.rules ?? []).entries()) {
    if (rule.action === "FailJob") continue
    breaks.push({
      path: `${path}.podFailurePolicy.rules[${at}].action`,
      problem: `is ${rule.action ?? "unset"}`,
      remedy: "set FailJob, or remove the rule"
    })
  }
  return breaks
}

const rule4 = (jobSet: JobSetSpec | null | undefined): ReadonlyArray<Break> => {
  const policy = jobSet?.failurePolicy
  if (!isSet(policy)) return []
  const breaks: Array<Break> = []
  const maxRestarts = policy.maxRestarts ?? 0
  if (maxRestarts !== 0) {
    breaks.push({
      path: `${jobSetPath}.failurePolicy.maxRestarts`,
      problem: `is ${maxRestarts}`,
      remedy: "set 0, or remove failurePolicy"
    })
  }
  for (const [at, rule] of (policy.rules ?? []).entries()) {
    // RestartJobSetAndIgnoreMaxRestarts restarts for ever, whatever maxRestarts says
    if (rule.action === "FailJobSet") continue
    breaks.push({
      path: `${jobSetPath}.failurePolicy.rules[${at}].action`,
      problem: `is ${rule.action ?? "unset"}`,
      remedy: "set FailJobSet, or remove the rule"
    })
  }
  return breaks
}

const ttl = (path: string, seconds: number | null | undefined, effect: string): ReadonlyArray<Break> =>
  isSet(seconds)
    ? [{ path: `${path}.ttlSecondsAfterFinished`, problem: `is ${seconds}: ${effect}`, remedy: "remove it" }]
    : []

const rule5Set = (jobSet: JobSetSpec | null | undefined): ReadonlyArray<Break> =>
  ttl(jobSetPath, jobSet?.ttlSecondsAfterFinished, "a failed TrainJob runs again when its JobSet expires")

const rule5Job = (job: ReplicatedJob, index: number): ReadonlyArray<Break> =>
  ttl(
    `${jobPath(index)}.template.spec`,
    job.template?.spec?.ttlSecondsAfterFinished,
    "the Job's expiry deletes its pods and their logs"
  )

// The controllers' own names mean the same as unset
const ownManagers: ReadonlySet<string> = new Set([
  "",
  "jobset.sigs.k8s.io/jobset-controller",
  "kubernetes.io/job-controller"
])

const managed = (path: string, managedBy: string | null | undefined): ReadonlyArray<Break> =>
  isSet(managedBy) && !ownManagers.has(managedBy)
    ? [{ path: `${path}.managedBy`, problem: `is "${managedBy}"`, remedy: "remove it" }]
    : []

const rule6Set = (jobSet: JobSetSpec | null | undefined): ReadonlyArray<Break> => managed(jobSetPath, jobSet?.managedBy)

const rule6Job = (job: ReplicatedJob, index: number): ReadonlyArray<Break> =>
  managed(`${jobPath(index)}.template.spec`, job.template?.spec?.managedBy)

const rule7Set = (runtime: TrainingRuntime): ReadonlyArray<Break> => {
  const jobSet = runtime.spec?.template?.spec
  const all = jobsOf(runtime)
  const trainer = trainerStep(runtime)?.name
  const breaks: Array<Break> = []
  const coordinator = jobSet?.coordinator
  if (
    isSet(coordinator) &&
    (coordinator.replicatedJob !== trainer || (coordinator.jobIndex ?? 0) !== 0 || (coordinator.podIndex ?? 0) !== 0)
  ) {
    breaks.push({
      path: `${jobSetPath}.coordinator`,
      problem: `is ${coordinator.replicatedJob ?? "unset"}/${coordinator.jobIndex ?? 0}/${coordinator.podIndex ?? 0}, which is not rank 0`,
      remedy: "remove it"
    })
  }
  const success = jobSet?.successPolicy
  if (isSet(success)) {
    const operator = success.operator ?? "All"
    const listed = success.targetReplicatedJobs ?? []
    const targets = listed.length === 0 ? all.map((job) => job.name) : listed
    const waitsForTrainer =
      trainer !== undefined &&
      (operator === "Any" ? targets.every((name) => name === trainer) : targets.includes(trainer))
    if (!waitsForTrainer) {
      breaks.push({
        path: `${jobSetPath}.successPolicy`,
        problem: `${operator} of [${targets.join(", ")}] can end the set without rank 0`,
        remedy: `remove it, or set operator All with targetReplicatedJobs [${trainer ?? "the trainer step"}]`
      })
    }
  }
  return breaks
}

const rule7Job = (job: ReplicatedJob, index: number): ReadonlyArray<Break> => {
  const mode = job.template?.spec?.completionMode
  return isSet(mode) && mode !== "" && mode !== "Indexed"
    ? [{ path: `${jobPath(index)}.template.spec.completionMode`, problem: `is ${mode}`, remedy: "set Indexed" }]
    : []
}

const perJob = { 3: rule3, 5: rule5Job, 6: rule6Job, 7: rule7Job } as const

const rule8 = (
  all: ReadonlyArray<ReplicatedJob>,
  accept: boolean
): { readonly broken: ReadonlyArray<Break>; readonly accepted: ReadonlyArray<Break> } => {
  const broken: Array<Break> = []
  const accepted: Array<Break> = []
  for (const [index, job] of all.entries()) {
    if (!isInitializer(job)) continue
    for (const rule of [3, 5, 6, 7] as const) {
      const breaks = perJob[rule](job, index)
      if (breaks.length === 0) continue
      const into = rule === 3 && accept ? accepted : broken
      into.push({
        path: jobPath(index),
        problem: `the initializer "${job.name}" breaks rule ${rule}: ${breaks.map((it) => `${it.path.slice(jobPath(index).length + 1)} ${it.problem}`).join(", ")}`,
        remedy: `mend rule ${rule} for it (${breaks.map((it) => it.remedy).join(", ")})`
      })
    }
  }
  return { broken, accepted }
}

/** Longest pod name minus the TrainJob's: `-<replicatedJob>-<job index>-<pod index>-<5 random>`. */
const podNameOverhead = (job: ReplicatedJob, pods: number): number =>
  `-${job.name}-${Math.max(0, (job.replicas ?? 1) - 1)}-${Math.max(0, pods - 1)}-abcde`.length

/**
 * The longest TrainJob name with which the runtime's JobSet can be created: pod names are limited to 63 characters. A
 * longer one is accepted and then never runs.
 */
export const maximumNameLength = (runtime: TrainingRuntime, numNodes?: number): number => {
  const trainer = trainerStep(runtime)
  const overheads = jobsOf(runtime).map((job) => {
    const template = job.template?.spec?.completions ?? job.template?.spec?.parallelism ?? 1
    return podNameOverhead(job, job === trainer ? (numNodes ?? runtime.spec?.mlPolicy?.numNodes ?? template) : template)
  })
  return 63 - Math.max(0, ...overheads)
}

const warningsOf = (runtime: TrainingRuntime, label: string, policy: Policy, use: Use): ReadonlyArray<Warning> => {
  const warnings: Array<Warning> = []
  const at = (path: string): string => `${label} ${path}`
  if (runtime.metadata.labels?.[supportLabel] === "deprecated") {
    warnings.push({
      id: "deprecated",
      where: at(`metadata.labels["${supportLabel}"]`),
      problem: "the runtime is deprecated and will be removed in a later release of Trainer",
      remedy: "use another runtime"
    })
  }
  const all = jobsOf(runtime)
  const suspends: Array<string> = []
  if (runtime.spec?.template?.spec?.suspend === true) suspends.push(`${jobSetPath}.suspend`)
  for (const [index, job] of all.entries()) {
    const path = `${jobPath(index)}.template.spec`
    const replacement = podReplacementOf(job.template?.spec)
    if (replacement !== "Failed") {
      warnings.push({
        id: "pod-replacement",
        where: at(`${path}.podReplacementPolicy`),
        problem: `is ${replacement}: after a release new pods start while the old ones still stop, so executions overlap`,
        remedy: "set Failed"
      })
    }
    if (job.template?.spec?.suspend === true) suspends.push(`${path}.suspend`)
  }
  for (const path of suspends) {
    warnings.push({
      id: "suspend-overwritten",
      where: at(path),
      problem: "is true, and is overwritten by the TrainJob's own suspend",
      remedy: "remove it"
    })
  }
  if (use.resourcesPerNode === true && policy._tag === "Absent") {
    warnings.push({
      id: "resources-ignored",
      where: at("spec.mlPolicy"),
      problem: "is absent: Trainer 2.3 ignores the TrainJob's resourcesPerNode",
      remedy: `set mlPolicy: {numNodes: 1}`
    })
  }
  if (use.name !== undefined) {
    const limit = maximumNameLength(runtime, use.numNodes)
    if (use.name.length > limit) {
      warnings.push({
        id: "name-too-long",
        where: `TrainJob/${use.name} metadata.name`,
        problem: `has ${use.name.length} characters, but pod names allow ${limit}: it would be accepted and never run`,
        remedy: `use a name of at most ${limit} characters`
      })
    }
  }
  return warnings
}

/** Name for people: `ClusterTrainingRuntime/torch-distributed`. */
export const label = (runtime: TrainingRuntime, kind?: string): string => {
  const namespaced = isSet(runtime.metadata.namespace) && runtime.metadata.namespace !== ""
  return `${runtime.kind ?? kind ?? (namespaced ? "TrainingRuntime" : "ClusterTrainingRuntime")}/${runtime.metadata.name}`
}

/** Judges a runtime: every rule, passed or broken, with the field and the value to set. Total. */
export const check = (runtime: TrainingRuntime, options: Options = {}): Verdict => {
  const accept = options.inPlaceRestarts === "accept"
  const name = label(runtime, options.kind)
  const policy = policyOf(runtime)
  const all = jobsOf(runtime)
  const jobSet = runtime.spec?.template?.spec
  const each = (rule: keyof typeof perJob): ReadonlyArray<Break> =>
    all.flatMap((job, index) => perJob[rule](job, index))
  const initializers = rule8(all, accept)
  const breaks: Readonly<
    Record<RuleNumber, { readonly broken: ReadonlyArray<Break>; readonly accepted: ReadonlyArray<Break> }>
  > = {
    1: { broken: rule1(runtime, policy), accepted: [] },
    2: { broken: rule2(policy), accepted: [] },
    3: accept ? { broken: [], accepted: each(3) } : { broken: each(3), accepted: [] },
    4: accept ? { broken: [], accepted: rule4(jobSet) } : { broken: rule4(jobSet), accepted: [] },
    5: { broken: [...rule5Set(jobSet), ...each(5)], accepted: [] },
    6: { broken: [...rule6Set(jobSet), ...each(6)], accepted: [] },
    7: { broken: [...rule7Set(runtime), ...each(7)], accepted: [] },
    8: initializers
  }
  const findings: Array<Finding> = []
  const broken: Array<Obstacle> = []
  let restarts = false
  for (const { rule, id, title, why } of rules) {
    const found = breaks[rule]
    if (found.broken.length === 0 && found.accepted.length === 0) {
      findings.push({ rule, id, outcome: "pass", where: name, problem: title, remedy: "" })
    }
    for (const { path, problem, remedy } of found.broken) {
      findings.push({ rule, id, outcome: "broken", where: `${name} ${path}`, problem, remedy })
      broken.push({ id, where: `${name} ${path}`, problem: `${problem} (rule ${rule}: ${why})`, remedy })
    }
    for (const { path, problem, remedy } of found.accepted) {
      restarts = true
      findings.push({ rule, id, outcome: "accepted", where: `${name} ${path}`, problem, remedy })
    }
  }
  return {
    runtime: name,
    policy,
    findings,
    broken,
    warnings: warningsOf(runtime, name, policy, options.use ?? {}),
    cautions: restarts ? [`${restartCaution} (${name} breaks rule 3 or 4, accepted by inPlaceRestarts)`] : []
  }
}

/** One change that `conform` made. `to` is `undefined` when the field was removed. */
export interface Change {
  readonly rule: RuleNumber | "warning"
  readonly where: string
  readonly from: unknown
  readonly to: unknown
}

/** A conforming copy, what was changed, and what only a person can mend. */
export interface Conformed {
  /** Ready to apply: without uid, version, owner, status and managed fields. */
  readonly runtime: TrainingRuntime
  readonly changes: ReadonlyArray<Change>
  /** The findings that remain: the copy breaks these rules as the original does. */
  readonly remaining: ReadonlyArray<Finding>
}

const copy = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(copy)
  if (!isJson(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copy(inner)]))
}

const keptMeta = ["name", "namespace", "labels", "annotations"]
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

/**
 * A copy of a runtime that obeys the rules as far as a change of values can make it: a policy other than torch, a missing
 * trainer step or container, and a torch step that is not named `node` are left and reported. The copy is named
 * `<name>-strict` unless told otherwise.
 */
export const conform = (
  runtime: TrainingRuntime,
  options: { readonly name?: string | undefined; readonly kind?: string | undefined } = {}
): Conformed => {
  const kind = label(runtime, options.kind).split("/")[0] ?? "ClusterTrainingRuntime"
  const changes: Array<Change> = []
  type Mutable = { [key: string]: unknown }
  const mutable = (value: unknown): Mutable | undefined => (isJson(value) ? value : undefined)
  const child = (parent: Mutable, key: string): Mutable => {
    const found = mutable(parent[key])
    if (found !== undefined) return found
    const made: Mutable = {}
    parent[key] = made
    return made
  }
  const set = (rule: Change["rule"], parent: Mutable, path: string, key: string, to: unknown): void => {
    const from = parent[key]
    if (from === to) return
    parent[key] = to
    changes.push({ rule, where: `${path}.${key}`, from: from ?? undefined, to })
  }
  const drop = (rule: Change["rule"], parent: Mutable, path: string, key: string): void => {
    const from = parent[key]
    delete parent[key]
    if (isSet(from)) changes.push({ rule, where: `${path}.${key}`, from, to: undefined })
  }

  const spec = child({ spec: copy(runtime.spec ?? {}) }, "spec")
  const jobSet = child(child(spec, "template"), "spec")
  const policy = policyOf(runtime)
  const setBreaks = rule7Set(runtime)

  const network = mutable(jobSet["network"])
  if (policy._tag === "Torch" && network !== undefined && network["subdomain"] !== "") {
    drop(1, network, `${jobSetPath}.network`, "subdomain")
  }
  if (rule4(runtime.spec?.template?.spec).length > 0) drop(4, jobSet, jobSetPath, "failurePolicy")
  drop(5, jobSet, jobSetPath, "ttlSecondsAfterFinished")
  if (rule6Set(runtime.spec?.template?.spec).length > 0) drop(6, jobSet, jobSetPath, "managedBy")
  if (jobSet["suspend"] === true) drop("warning", jobSet, jobSetPath, "suspend")
  for (const key of ["coordinator", "successPolicy"]) {
    if (setBreaks.some((it) => it.path === `${jobSetPath}.${key}`)) drop(7, jobSet, jobSetPath, key)
  }

  const jobs = Array.isArray(jobSet["replicatedJobs"]) ? jobSet["replicatedJobs"] : []
  for (const [index, original] of jobsOf(runtime).entries()) {
    const job = mutable(jobs[index])
    if (job === undefined) continue
    if (ancestorOf(original) === "trainer" && (original.replicas ?? 1) !== 1) {
      set(1, job, jobPath(index), "replicas", 1)
    }
    const path = `${jobPath(index)}.template.spec`
    const jobSpec = child(child(job, "template"), "spec")
    const pod = child(child(jobSpec, "template"), "spec")
    set(3, pod, `${path}.template.spec`, "restartPolicy", "Never")
    for (const field of ["containers", "initContainers"]) {
      const containers = pod[field]
      if (!Array.isArray(containers)) continue
      for (const [at, value] of containers.entries()) {
        const container = mutable(value)
        if (container === undefined) continue
        const where = `${path}.template.spec.${field}[${at}]`
        const sidecar = field === "initContainers" && container["restartPolicy"] === "Always"
        if (!sidecar && container["restartPolicy"] !== "Never" && container["restartPolicy"] !== "") {
          drop(3, container, where, "restartPolicy")
        }
        if (restartRulesOf(container).length > 0) drop(3, container, where, "restartPolicyRules")
      }
    }
    drop(3, jobSpec, path, "backoffLimitPerIndex")
    // only valid together with backoffLimitPerIndex
    drop(3, jobSpec, path, "maxFailedIndexes")
    set(3, jobSpec, path, "backoffLimit", 0)
    drop(3, jobSpec, path, "successPolicy")
    const failure = original.template?.spec?.podFailurePolicy
    if (isSet(failure) && (failure.rules ?? []).some((rule) => rule.action !== "FailJob")) {
      const kept = (failure.rules ?? []).filter((rule) => rule.action === "FailJob")
      if (kept.length === 0) drop(3, jobSpec, path, "podFailurePolicy")
      else set(3, child(jobSpec, "podFailurePolicy"), `${path}.podFailurePolicy`, "rules", copy(kept))
    }
    drop(5, jobSpec, path, "ttlSecondsAfterFinished")
    if (rule6Job(original, index).length > 0) drop(6, jobSpec, path, "managedBy")
    if (rule7Job(original, index).length > 0) set(7, jobSpec, path, "completionMode", "Indexed")
    if (jobSpec["suspend"] === true) drop("warning", jobSpec, path, "suspend")
    set("warning", jobSpec, path, "podReplacementPolicy", "Failed")
  }

  const metadata = Object.fromEntries(
    Object.entries(runtime.metadata).filter(([key, value]) => keptMeta.includes(key) && isSet(value))
  )
  const annotations = Object.fromEntries(
    Object.entries(runtime.metadata.annotations ?? {}).filter(([key]) => key !== lastApplied)
  )
  const { annotations: _, ...meta } = metadata
  const result = {
    apiVersion: "trainer.kubeflow.org/v1alpha1",
    kind,
    metadata: {
      ...meta,
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
      name: options.name ?? `${runtime.metadata.name}-strict`
    },
    spec
    // the copy is not on a server yet, so it has no uid, which the model asks of everything that was read
  } as unknown as TrainingRuntime
  return { runtime: result, changes, remaining: check(result, { kind }).findings.filter((it) => it.outcome !== "pass") }
}
