/**
 * The webhooks of Trainer 2.3 and JobSet 0.12 as admission plugins of the store: what they fill in and what they refuse.
 * An object that the schema is going to refuse passes here.
 *
 * @module
 */
import { Either } from "effect"
import type * as Json from "../Json.js"
import * as Resources from "../internal/Resources.js"
import type { View } from "../Stage.js"
import type * as Store from "../Store.js"
import * as Objects from "./Objects.js"
import * as Build from "./TrainerBuild.js"
import * as Views from "./Views.js"

type Refusal = Store.Denial

const denied = (message: string): Refusal => ({ message })

// --- JobSet ------------------------------------------------------------------------------------------------------------

const withAmounts = (container: Objects.Container): Objects.Container =>
  container.resources === undefined ? container : { ...container, resources: Resources.rewritten(container.resources) }

const jobSetDefaults = (jobSet: Objects.JobSet): Objects.JobSet => ({
  ...jobSet,
  spec: {
    ...jobSet.spec,
    network: { enableDNSHostnames: true, publishNotReadyAddresses: true, ...jobSet.spec.network },
    successPolicy: { operator: "All", ...jobSet.spec.successPolicy },
    startupPolicy: { startupPolicyOrder: "AnyOrder", ...jobSet.spec.startupPolicy },
    replicatedJobs: jobSet.spec.replicatedJobs.map((job) => {
      const pod = job.template.spec.template
      return {
        ...job,
        template: {
          ...job.template,
          metadata: job.template.metadata ?? {},
          spec: {
            ...job.template.spec,
            completionMode: job.template.spec.completionMode ?? "Indexed",
            template: {
              ...pod,
              metadata: pod.metadata ?? {},
              spec: {
                ...pod.spec,
                restartPolicy: pod.spec.restartPolicy ?? "OnFailure",
                containers: pod.spec.containers.map(withAmounts),
                ...(pod.spec.initContainers === undefined
                  ? {}
                  : { initContainers: pod.spec.initContainers.map(withAmounts) })
              }
            }
          }
        }
      }
    })
  }
})

const podNameLimit = 63
const randomSuffix = "-abcde"

const jobSetTooLong = (jobSet: Objects.JobSet): string | undefined => {
  for (const [index, job] of jobSet.spec.replicatedJobs.entries()) {
    const name = `${jobSet.metadata.name}-${job.name}-${(job.replicas ?? 1) - 1}`
    const { completions, parallelism } = job.template.spec
    const last = Math.max((completions ?? parallelism ?? 1) - 1, 0)
    const isIndexed = (job.template.spec.completionMode ?? "Indexed") === "Indexed"
    const pod = `${name}${isIndexed ? `-${last}` : ""}${randomSuffix}`
    if (pod.length > podNameLimit) {
      return `spec.replicatedJobs[${index}].name: Invalid value: "${jobSet.metadata.name}-${job.name}-0": JobSet name is too long, pod names generated for this JobSet will exceed 63 characters`
    }
  }
  return undefined
}

/** The parts of a JobSet that may change only with a new JobSet; those that a suspended one may change are left out. */
const fixedParts = (jobSet: Objects.JobSet, isSuspended: boolean): unknown =>
  jobSet.spec.replicatedJobs.map((job) => {
    if (!isSuspended) return job
    const pod = job.template.spec.template
    const { nodeSelector: _n, schedulingGates: _g, tolerations: _t, ...spec } = pod.spec
    const { metadata: _m, ...rest } = pod
    return {
      ...job,
      template: { ...job.template, spec: { ...job.template.spec, template: { ...rest, spec } } }
    }
  })

const jobSetCheck = (jobSet: Objects.JobSet, old: Objects.JobSet | undefined): Refusal | undefined => {
  const invalid = (message: string): Refusal =>
    denied(`JobSet.jobset.x-k8s.io "${jobSet.metadata.name}" is invalid: ${message}`)
  if (old === undefined) {
    const tooLong = jobSetTooLong(jobSet)
    return tooLong === undefined ? undefined : invalid(tooLong)
  }
  const isSuspended = jobSet.spec.suspend === true || old.spec.suspend === true
  return Objects.same(fixedParts(jobSet, isSuspended), fixedParts(old, isSuspended))
    ? undefined
    : invalid(`spec.replicatedJobs: Invalid value: ${JSON.stringify(jobSet.spec.replicatedJobs)}: field is immutable`)
}

// --- Pod ---------------------------------------------------------------------------------------------------------------

const podDefaults = (pod: Objects.Pod): Objects.Pod =>
  pod.metadata.labels?.["jobset.sigs.k8s.io/jobset-name"] === undefined
    ? pod
    : {
        ...pod,
        metadata: {
          ...pod.metadata,
          labels: { ...pod.metadata.labels, "jobset.sigs.k8s.io/priority": String(pod.spec.priority ?? 0) }
        }
      }

// --- TrainJob ----------------------------------------------------------------------------------------------------------

// the position of `time` shows in the messages of refusals
const withTime = (patch: Objects.RuntimePatch, time: string): Objects.RuntimePatch => ({
  manager: patch.manager,
  time,
  ...Objects.without(Objects.without(patch, "manager"), "time")
})

const withTrainerAmounts = (trainJob: Objects.TrainJob): Objects.TrainJob => {
  const { trainer } = trainJob.spec
  if (trainer?.resourcesPerNode === undefined) return trainJob
  const resourcesPerNode = Resources.rewritten(trainer.resourcesPerNode)
  return resourcesPerNode === trainer.resourcesPerNode
    ? trainJob
    : { ...trainJob, spec: { ...trainJob.spec, trainer: { ...trainer, resourcesPerNode } } }
}

const withTimes = (trainJob: Objects.TrainJob, old: Objects.TrainJob | undefined, now: number): Objects.TrainJob => {
  const patches = trainJob.spec.runtimePatches
  if (patches === undefined) return trainJob
  return {
    ...trainJob,
    spec: {
      ...trainJob.spec,
      runtimePatches: patches.map((patch) => {
        const before = old?.spec.runtimePatches?.find((each) => each.manager === patch.manager)
        const isSame = before !== undefined && Objects.same(before.trainingRuntimeSpec, patch.trainingRuntimeSpec)
        // a client's own time counts on create alone
        if (isSame) return before.time === undefined ? patch : withTime(patch, before.time)
        return withTime(patch, before === undefined && patch.time !== undefined ? patch.time : Objects.time(now))
      })
    }
  }
}

/** Go's decoder speaks before the schema does, and answers 400 without a reason. */
const typeRefusal = (trainJob: Objects.TrainJob): Refusal | undefined => {
  const wrong = (what: string, field: string, type: string): Refusal => ({
    code: 400,
    message: `json: cannot unmarshal ${what} into Go struct field Trainer.${field} of type ${type}`
  })
  const suspend: unknown = trainJob.spec.suspend
  if (suspend !== undefined && suspend !== null && typeof suspend !== "boolean") {
    return {
      code: 400,
      message: `json: cannot unmarshal ${typeof suspend === "object" ? "object" : typeof suspend} into Go struct field TrainJobSpec.spec.suspend of type bool`
    }
  }
  for (const field of ["numNodes", "numProcPerNode"] as const) {
    const value: unknown = trainJob.spec.trainer?.[field]
    if (value !== undefined && value !== null && typeof value !== "number") {
      return wrong(typeof value === "string" ? "string" : "object", `spec.trainer.${field}`, "int32")
    }
  }
  const amount = Resources.problem(trainJob.spec.trainer?.resourcesPerNode)
  if (amount !== undefined) return { code: 400, message: amount }
  for (const patch of trainJob.spec.runtimePatches ?? []) {
    for (const job of patch.trainingRuntimeSpec?.template?.spec?.replicatedJobs ?? []) {
      for (const [path, field] of metadataPaths) {
        for (const maps of ["labels", "annotations"]) {
          const map = dig(job, [...path, maps])
          const bad = Object.values(typeof map === "object" && map !== null ? map : {}).find(
            (value) => typeof value !== "string"
          )
          if (bad === undefined) continue
          return {
            code: 400,
            message: `json: cannot unmarshal ${typeof bad === "boolean" ? "bool" : typeof bad} into Go struct field ObjectMeta.spec.runtimePatches.trainingRuntimeSpec.template.spec.replicatedJobs.${field}.${maps} of type string`
          }
        }
      }
    }
  }
  return undefined
}

const metadataPaths = [
  [["template", "metadata"], "template.metadata"],
  [["template", "spec", "template", "metadata"], "template.spec.template.metadata"]
] as const

const reserved: Readonly<Record<string, ReadonlyArray<string>>> = {
  torch: ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"],
  mpi: [
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots"
  ],
  xgboost: ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]
}

const reservedEnv = (trainJob: Objects.TrainJob, runtime: Objects.Runtime): ReadonlyArray<string> => {
  const names = Object.entries(reserved).flatMap(([policy, list]) =>
    runtime.spec.mlPolicy !== undefined && policy in runtime.spec.mlPolicy ? list : []
  )
  return (trainJob.spec.trainer?.env ?? []).map(({ name }) => name).filter((name) => names.includes(name))
}

const managerRule = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+\/.+$/
const noEnvContainers = ["dataset-initializer", "model-initializer", "node"]

interface PatchContainer {
  readonly name?: unknown
  readonly env?: ReadonlyArray<unknown>
}

const containersOf = (patch: Objects.RuntimePatch): ReadonlyArray<PatchContainer> =>
  (patch.trainingRuntimeSpec?.template?.spec?.replicatedJobs ?? []).flatMap((job) => {
    const spec = dig(job, ["template", "spec", "template", "spec"])
    return [dig(spec, ["containers"]), dig(spec, ["initContainers"])].flatMap((list) =>
      Array.isArray(list) ? (list as ReadonlyArray<PatchContainer>) : []
    )
  })

const dig = (value: unknown, path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>(
    (current, key) =>
      typeof current === "object" && current !== null ? (current as Readonly<Record<string, unknown>>)[key] : undefined,
    value
  )

const patchRefusal = (trainJob: Objects.TrainJob): string | undefined => {
  for (const patch of trainJob.spec.runtimePatches ?? []) {
    if (!managerRule.test(patch.manager)) {
      return `spec.runtimePatches.manager: Invalid value: ${JSON.stringify(patch.manager)}: must be a domain-prefixed path (such as "acme.io/foo")`
    }
    const withEnv = containersOf(patch).some(
      ({ env, name }) => typeof name === "string" && noEnvContainers.includes(name) && (env ?? []).length > 0
    )
    if (withEnv) {
      return `spec.runtimePatches: Invalid value: ${JSON.stringify(trainJob.spec.runtimePatches)}: must not have envs for the ${noEnvContainers.join(", ")} containers`
    }
  }
  return undefined
}

const patchesChanged = (trainJob: Objects.TrainJob, old: Objects.TrainJob): boolean =>
  !Objects.same(trainJob.spec.runtimePatches ?? [], old.spec.runtimePatches ?? [])

// as Go prints it
const runtimeRefText = (trainJob: Objects.TrainJob): string => {
  const { apiGroup = "trainer.kubeflow.org", kind = "ClusterTrainingRuntime", name } = trainJob.spec.runtimeRef
  return JSON.stringify({ name, apiGroup, kind })
}

const initializerRefusal = (trainJob: Objects.TrainJob, runtime: Objects.Runtime): string | undefined => {
  const asked = [
    ["dataset-initializer", "datasetConfig", trainJob.spec.initializer?.dataset],
    ["model-initializer", "modelConfig", trainJob.spec.initializer?.model]
  ] as const
  for (const [step, config, source] of asked) {
    if (source === undefined) continue
    const job = runtime.spec.template.spec.replicatedJobs.find((each) => Build.stepOf(each) === step)
    const value = runtimeRefText(trainJob)
    if (job === undefined) {
      return `spec.runtimeRef: Invalid value: ${value}: must have ${step} job when trainJob is configured with input ${config}`
    }
    const container = job.template.spec.template.spec.containers.find((each) => each.name === step)
    if (container?.volumeMounts?.some((mount) => mount.name === "initializer") !== true) {
      return `spec.runtimeRef: Invalid value: ${value}: must have volumeMount with name - initializer in container ${step} of the ${step} job`
    }
  }
  return undefined
}

const runtimeOf = (trainJob: Objects.TrainJob, view: View): Objects.Runtime | undefined =>
  trainJob.spec.runtimeRef.kind === "TrainingRuntime"
    ? view.get(Objects.trainingRuntimes, trainJob.metadata.namespace, trainJob.spec.runtimeRef.name)
    : view.get(Objects.clusterTrainingRuntimes, undefined, trainJob.spec.runtimeRef.name)

const trainJobCheck = (
  trainJob: Objects.TrainJob,
  old: Objects.TrainJob | undefined,
  view: View
): Refusal | undefined => {
  const { apiGroup = "trainer.kubeflow.org", kind = "ClusterTrainingRuntime", name } = trainJob.spec.runtimeRef
  if (apiGroup !== "trainer.kubeflow.org" || (kind !== "ClusterTrainingRuntime" && kind !== "TrainingRuntime")) {
    return denied(`unsupported runtime: ${kind}.${apiGroup}`)
  }
  const runtime = runtimeOf(trainJob, view)
  if (runtime === undefined) {
    const value = runtimeRefText(trainJob)
    return denied(
      kind === "TrainingRuntime"
        ? `spec.runtimeRef: Invalid value: ${value}: TrainingRuntime.trainer.kubeflow.org "${name}" not found: specified trainingRuntime must be created before the TrainJob is created`
        : `spec.RuntimeRef: Invalid value: ${value}: ClusterTrainingRuntime.trainer.kubeflow.org "${name}" not found: specified clusterTrainingRuntime must be created before the TrainJob is created`
    )
  }
  const env = reservedEnv(trainJob, runtime)
  if (env.length > 0) {
    return denied(
      `spec.trainer.env: Invalid value: ${JSON.stringify(trainJob.spec.trainer?.env ?? [])}: must not have reserved envs, invalid envs configured: [${env.join(" ")}]`
    )
  }
  const refused = initializerRefusal(trainJob, runtime) ?? patchRefusal(trainJob)
  if (refused !== undefined) return denied(refused)
  if (old !== undefined && patchesChanged(trainJob, old)) {
    if (trainJob.spec.suspend !== true && old.spec.suspend !== true) {
      return denied(
        "spec.runtimePatches: Forbidden: RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
      )
    }
    const jobSet = view.get(Objects.jobSets, trainJob.metadata.namespace, trainJob.metadata.name)
    const active = jobSet?.status?.replicatedJobsStatus?.find((each) => each.active > 0)
    if (active !== undefined) {
      return denied(
        `spec.runtimePatches: Forbidden: RuntimePatches cannot be modified when the JobSet's ReplicatedJob ${active.name} is still active`
      )
    }
  }
  return undefined
}

// --- runtimes ----------------------------------------------------------------------------------------------------------

const runtimeCheck = (runtime: Objects.Runtime): Refusal | undefined => {
  if (runtime.metadata.labels?.["trainer.kubeflow.org/webhook-validation"] === "disabled") return undefined
  for (const [index, job] of runtime.spec.template.spec.replicatedJobs.entries()) {
    const step = Build.stepOf(job)
    if (step === undefined) continue
    const field = `spec.template.spec.replicatedJobs[${index}]`
    if ((job.replicas ?? 1) !== 1) {
      return denied(`${field}.replicas: Invalid value: ${job.replicas ?? 1}: always must be 1`)
    }
    const container = Build.containerOf(step)
    if (!job.template.spec.template.spec.containers.some((each) => each.name === container)) {
      return denied(
        `${field}.template.spec.template.spec.containers: Invalid value: ${JSON.stringify(
          job.template.spec.template.spec.containers.map((each) => ({ ...each, resources: each.resources ?? {} }))
        )}: must contain the required container for the ancestor: ${step}`
      )
    }
  }
  return undefined
}

// --- plugins ------------------------------------------------------------------------------------------------------------

const hasShape = (object: Json.JsonObject, ...path: ReadonlyArray<string>): boolean =>
  dig(object, path) !== undefined && dig(object, path) !== null

/** The plugin of one webhook for one kind. `isWhole` says whether the object has what the webhook reads. */
const webhook = <A extends Objects.Raw>(
  name: string,
  kind: Objects.Kind<A>,
  operations: ReadonlyArray<Store.Review["operation"]>,
  isWhole: (object: Json.JsonObject) => boolean,
  answer: (object: A, old: A | undefined, review: Store.Review) => A | Refusal | undefined
): Store.Admission => ({
  name,
  admit: (review) => {
    if (
      review.definition.group !== kind.group ||
      review.definition.plural !== kind.plural ||
      review.subresource !== undefined ||
      !operations.includes(review.operation) ||
      !isWhole(review.object)
    ) {
      return undefined
    }
    const object = Views.narrow(kind, review.object)
    const old = review.old === undefined ? undefined : Views.narrow(kind, review.old)
    const result = answer(object, old, review)
    if (result === undefined) return undefined
    return "message" in result ? Either.left(result) : Either.right(Views.widen(result))
  }
})

/** The webhook as one that is asked last, and only refuses. */
export const validating = (plugin: Store.Admission): Store.Admission => ({ ...plugin, phase: "validating" })

const both = ["CREATE", "UPDATE"] as const
const isJobSet = (object: Json.JsonObject): boolean =>
  Array.isArray(dig(object, ["spec", "replicatedJobs"])) &&
  (dig(object, ["spec", "replicatedJobs"]) as ReadonlyArray<Json.JsonObject>).every((job) =>
    Array.isArray(dig(job, ["template", "spec", "template", "spec", "containers"]))
  )
const isRuntime = (object: Json.JsonObject): boolean =>
  isJobSet({ spec: (dig(object, ["spec", "template", "spec"]) as Json.Json | undefined) ?? null })

/** The webhooks, in the order in which the API server calls them. */
export const plugins: ReadonlyArray<Store.Admission> = [
  webhook("mpod.kb.io", Objects.pods, ["CREATE"], () => true, podDefaults),
  webhook("mjobset.kb.io", Objects.jobSets, ["CREATE"], isJobSet, jobSetDefaults),
  webhook(
    "defaulter.trainjob.trainer.kubeflow.org",
    Objects.trainJobs,
    both,
    (object) => hasShape(object, "spec"),
    (trainJob, old, { now }) => typeRefusal(trainJob) ?? withTimes(withTrainerAmounts(trainJob), old, now)
  ),
  validating(webhook("vjobset.kb.io", Objects.jobSets, both, isJobSet, jobSetCheck)),
  validating(
    webhook(
      "validator.trainjob.trainer.kubeflow.org",
      Objects.trainJobs,
      both,
      (object) => hasShape(object, "spec", "runtimeRef", "name"),
      (trainJob, old, { state }) => trainJobCheck(trainJob, old, Views.of(state))
    )
  ),
  validating(
    webhook(
      "validator.clustertrainingruntime.trainer.kubeflow.org",
      Objects.clusterTrainingRuntimes,
      both,
      isRuntime,
      runtimeCheck
    )
  ),
  // the namespaced kind is checked on create alone
  validating(
    webhook(
      "validator.trainingruntime.trainer.kubeflow.org",
      Objects.trainingRuntimes,
      ["CREATE"],
      isRuntime,
      runtimeCheck
    )
  )
]
