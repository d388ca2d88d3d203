/**
 * TrainJob and JobSet as Kueue's job controller sees them: what they are, how they are started and put back, and whose they
 * are.
 *
 * @module
 */
import type { Act, Answer, View } from "../Stage.js"
import { send } from "../Stage.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"
import * as Build from "./TrainerBuild.js"

/** What is put on the pods of one pod set when it starts. */
export interface PodSetInfo {
  readonly name: string
  readonly labels: Objects.StringMap
  readonly annotations: Objects.StringMap
  readonly nodeSelector: Objects.StringMap
  readonly tolerations: ReadonlyArray<Objects.Toleration>
}

/** A job as Kueue sees it, whatever its kind. */
export interface Job {
  readonly type: Objects.Kind
  readonly object: Objects.Raw
  readonly component: string
  readonly isSuspended: boolean
  /** Whether pods run, by its own counters. */
  readonly isActive: boolean
  readonly finished: { readonly reason: "Succeeded" | "Failed"; readonly message: string } | undefined
  /** Whether all pods are ready or have succeeded. */
  readonly isReady: boolean
  /** Absent when what they are built from cannot be read. */
  readonly podSets: ReadonlyArray<Kueue.PodSet> | undefined
  /** Whether it carries what a start left on it. */
  readonly isMarked: boolean
  /** The requests of a start. */
  readonly start: (infos: ReadonlyArray<PodSetInfo>, at: string) => Generator<Act, boolean, Answer>
  /** Takes off what a start left on it. */
  readonly restore: (workload: Kueue.Workload) => Generator<Act, void, Answer>
}

// --- pod sets ----------------------------------------------------------------------------------------------------------

const topologyRequest = {
  podIndexLabel: "batch.kubernetes.io/job-completion-index",
  subGroupCount: 1,
  subGroupIndexLabel: "jobset.sigs.k8s.io/job-index"
}

const podSetsOf = (replicatedJobs: ReadonlyArray<Objects.ReplicatedJob>): ReadonlyArray<Kueue.PodSet> =>
  replicatedJobs.map((job) => {
    const { completions, parallelism = 1, template } = job.template.spec
    const replicas = job.replicas ?? 1
    return {
      name: job.name.toLowerCase(),
      count: replicas * Math.min(parallelism, completions ?? parallelism),
      template: {
        metadata: template.metadata ?? {},
        spec: { ...template.spec, restartPolicy: template.spec.restartPolicy ?? "OnFailure" }
      },
      topologyRequest: { ...topologyRequest, subGroupCount: replicas }
    }
  })

// --- TrainJob ----------------------------------------------------------------------------------------------------------

const runtimeOf = (view: View, trainJob: Objects.TrainJob): Objects.Runtime | undefined =>
  trainJob.spec.runtimeRef.kind === "TrainingRuntime"
    ? view.get(Objects.trainingRuntimes, trainJob.metadata.namespace, trainJob.spec.runtimeRef.name)
    : view.get(Objects.clusterTrainingRuntimes, undefined, trainJob.spec.runtimeRef.name)

/** What the pods are before the ML policy adds its variables and ports. */
const withoutVariant = (runtime: Objects.Runtime): Objects.Runtime => {
  const { mlPolicy } = runtime.spec
  if (mlPolicy === undefined || mlPolicy.mpi !== undefined) return runtime
  return { ...runtime, spec: { ...runtime.spec, mlPolicy: Objects.compact({ numNodes: mlPolicy.numNodes }) } }
}

const entryOf = (trainJob: Objects.TrainJob): Objects.RuntimePatch | undefined =>
  trainJob.spec.runtimePatches?.find(({ manager }) => manager === Kueue.patchManager)

/** The TrainJob's `runtimePatches` with other replicatedJobs in Kueue's entry. */
const withEntry = (
  trainJob: Objects.TrainJob,
  replicatedJobs: ReadonlyArray<Readonly<Record<string, unknown>>> | undefined
): object => ({
  spec: {
    runtimePatches: (trainJob.spec.runtimePatches ?? []).map((entry) => {
      if (entry.manager !== Kueue.patchManager) return entry
      const template = entry.trainingRuntimeSpec?.template
      return {
        ...entry,
        trainingRuntimeSpec: {
          ...entry.trainingRuntimeSpec,
          template: { ...template, spec: replicatedJobs === undefined ? {} : { replicatedJobs } }
        }
      }
    })
  }
})

const overrides = (infos: ReadonlyArray<PodSetInfo>): ReadonlyArray<Readonly<Record<string, unknown>>> =>
  infos.map(({ annotations, labels, name, nodeSelector, tolerations }) => {
    const spec = {
      ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
      ...(tolerations.length === 0 ? {} : { tolerations })
    }
    return { name, template: { spec: { template: { metadata: { annotations, labels }, spec } } } }
  })

/** How a job ended, by its conditions. */
export const finishedBy = (
  conditions: ReadonlyArray<Objects.Condition> | undefined,
  success: string
): Job["finished"] => {
  for (const [type, reason] of [
    [success, "Succeeded"],
    ["Failed", "Failed"]
  ] as const) {
    const found = Objects.conditionOf(conditions, type)
    if (found?.status === "True") return { reason, message: found.message ?? "" }
  }
  return undefined
}

const isAllReady = (
  statuses: ReadonlyArray<Objects.ReplicatedJobStatus> | undefined,
  podSets: ReadonlyArray<Kueue.PodSet> | undefined
): boolean =>
  podSets !== undefined &&
  statuses !== undefined &&
  statuses.reduce((sum, { ready, succeeded }) => sum + ready + succeeded, 0) >= podSets.length

const isOk = (answer: Answer): boolean => answer._tag === "Right"

/** A TrainJob. */
export const trainJobOf = (view: View, trainJob: Objects.TrainJob): Job => {
  const runtime = runtimeOf(view, trainJob)
  const podSets =
    runtime === undefined ? undefined : podSetsOf(Build.jobSet(trainJob, withoutVariant(runtime)).spec.replicatedJobs)
  const { jobsStatus } = trainJob.status ?? {}
  const current = (): Objects.TrainJob | undefined =>
    view.get(Objects.trainJobs, trainJob.metadata.namespace, trainJob.metadata.name)
  const manager = { manager: Kueue.kueueManager }
  return {
    type: Objects.trainJobs,
    object: trainJob,
    component: "trainer.kubeflow.org/trainjob-kueue-controller",
    isSuspended: trainJob.spec.suspend === true,
    isActive: jobsStatus?.some(({ active }) => active > 0) === true,
    finished: finishedBy(trainJob.status?.conditions, "Complete"),
    isReady: isAllReady(jobsStatus, podSets),
    podSets,
    isMarked: entryOf(trainJob)?.trainingRuntimeSpec?.template?.spec?.replicatedJobs !== undefined,
    *start(infos) {
      // a TrainJob that was made while the webhook was away cannot be started
      const entry = entryOf(trainJob)
      if (entry === undefined) return false
      const wanted = overrides(infos)
      if (!Objects.same(entry.trainingRuntimeSpec?.template?.spec?.replicatedJobs, wanted)) {
        if (!isOk(yield* send(Objects.patch(Objects.trainJobs, trainJob, withEntry(trainJob, wanted), manager)))) {
          return false
        }
      }
      return isOk(yield* send(Objects.patch(Objects.trainJobs, trainJob, { spec: { suspend: false } }, manager)))
    },
    *restore() {
      const now = current()
      if (now === undefined) return
      yield* send(Objects.patch(Objects.trainJobs, now, withEntry(now, undefined), manager))
    }
  }
}

// --- JobSet ------------------------------------------------------------------------------------------------------------

type Template = (
  name: string,
  template: Objects.PodTemplate
) => { readonly metadata: object; readonly spec: Objects.PodSpec }

const withTemplates = (jobSet: Objects.JobSet, change: Template): object => ({
  spec: {
    replicatedJobs: jobSet.spec.replicatedJobs.map((job) => ({
      ...job,
      template: {
        ...job.template,
        spec: { ...job.template.spec, template: change(job.name, job.template.spec.template) }
      }
    }))
  }
})

/** A JobSet. */
export const jobSetOf = (view: View, jobSet: Objects.JobSet): Job => {
  const podSets = podSetsOf(jobSet.spec.replicatedJobs)
  const statuses = jobSet.status?.replicatedJobsStatus
  const manager = { manager: Kueue.kueueManager }
  return {
    type: Objects.jobSets,
    object: jobSet,
    component: "jobset.x-k8s.io/jobset-kueue-controller",
    isSuspended: jobSet.spec.suspend === true,
    isActive: statuses?.some(({ active }) => active > 0) === true,
    finished: finishedBy(jobSet.status?.conditions, "Completed"),
    isReady: isAllReady(statuses, podSets),
    podSets,
    isMarked: jobSet.spec.replicatedJobs.some(
      ({ template }) => template.spec.template.metadata?.annotations?.["kueue.x-k8s.io/workload"] !== undefined
    ),
    *start(infos) {
      const body = withTemplates(jobSet, (name, template) => {
        const info = infos.find((each) => each.name === name.toLowerCase())
        if (info === undefined) return { metadata: template.metadata ?? {}, spec: template.spec }
        return {
          metadata: {
            labels: { ...template.metadata?.labels, ...info.labels },
            annotations: { ...template.metadata?.annotations, ...info.annotations }
          },
          spec: {
            ...template.spec,
            nodeSelector: { ...template.spec.nodeSelector, ...info.nodeSelector },
            tolerations: [...(template.spec.tolerations ?? []), ...info.tolerations]
          }
        }
      })
      if (!isOk(yield* send(Objects.patch(Objects.jobSets, jobSet, body, manager)))) return false
      return isOk(yield* send(Objects.patch(Objects.jobSets, jobSet, { spec: { suspend: false } }, manager)))
    },
    *restore(workload) {
      const now = view.get(Objects.jobSets, jobSet.metadata.namespace, jobSet.metadata.name)
      if (now === undefined) return
      const body = withTemplates(now, (name, template) => {
        const before = workload.spec.podSets.find((each) => each.name === name.toLowerCase())
        return { metadata: before?.template.metadata ?? {}, spec: before?.template.spec ?? template.spec }
      })
      yield* send(Objects.patch(Objects.jobSets, now, body, manager))
    }
  }
}

// --- whose ------------------------------------------------------------------------------------------------------------

/** The queue that a job's label names. */
export const queueOf = (object: Objects.Raw): string | undefined => {
  const name = object.metadata.labels?.[Kueue.queueLabel]
  return name === "" ? undefined : name
}

/** Whether Kueue cares for a job. */
export const isManaged = (object: Objects.Raw, options: Kueue.Options): boolean =>
  queueOf(object) !== undefined || options.manageJobsWithoutQueueName === true

/** The TrainJob that a JobSet belongs to. */
export const parentOf = (view: View, jobSet: Objects.JobSet): Objects.TrainJob | undefined => {
  const owner = Objects.controllerOf(jobSet)
  return owner?.kind === "TrainJob" ? view.get(Objects.trainJobs, jobSet.metadata.namespace, owner.name) : undefined
}

/** The same, when Kueue cares for it. */
export const managedParent = (
  view: View,
  jobSet: Objects.JobSet,
  options: Kueue.Options
): Objects.TrainJob | undefined => {
  const parent = parentOf(view, jobSet)
  return parent !== undefined && isManaged(parent, options) ? parent : undefined
}
