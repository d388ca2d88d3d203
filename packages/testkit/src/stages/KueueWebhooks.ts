/**
 * The webhooks of Kueue 0.17 as admission plugins of the store: what they make of a TrainJob on its way in, and what they
 * refuse on TrainJobs and Workloads.
 *
 * @module
 */
import { Either } from "effect"
import type { View } from "../Stage.js"
import type * as Store from "../Store.js"
import * as Admission from "./Admission.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"
import * as Views from "./Views.js"

interface Asked<A extends Objects.Raw> {
  readonly object: A
  readonly old: A | undefined
  readonly view: View
  readonly isStatus: boolean
}

const plugin = <A extends Objects.Raw>(
  name: string,
  kind: Objects.Kind<A>,
  operations: ReadonlyArray<Store.Review["operation"]>,
  answer: (asked: Asked<A>) => A | Store.Denial | undefined
): Store.Admission => ({
  name,
  admit: ({ definition, object, old, operation, state, subresource }) => {
    if (definition.group !== kind.group || definition.plural !== kind.plural || !operations.includes(operation)) {
      return undefined
    }
    if (object["spec"] === undefined || object["spec"] === null) return undefined
    const result = answer({
      object: Views.narrow(kind, object),
      old: old === undefined ? undefined : Views.narrow(kind, old),
      view: Views.of(state),
      isStatus: subresource === "status"
    })
    if (result === undefined) return undefined
    return "message" in result ? Either.left(result) : Either.right(Views.widen(result))
  }
})

// --- TrainJob ----------------------------------------------------------------------------------------------------------

const labelOf = (object: Objects.Raw, name: string): string => object.metadata.labels?.[name] ?? ""

const defaultQueue = "default"

const hasDefaultQueue = (view: View, namespace: string | undefined): boolean =>
  view.get(Kueue.localQueues, namespace, defaultQueue) !== undefined

const isMultiKueue = (view: View, trainJob: Objects.TrainJob, queue: string): boolean => {
  const local = view.get(Kueue.localQueues, trainJob.metadata.namespace, queue)
  const cluster = local === undefined ? undefined : view.get(Kueue.clusterQueues, undefined, local.spec.clusterQueue)
  return (
    cluster !== undefined &&
    Kueue.checksOf(cluster).some(
      ({ name }) => view.get(Kueue.admissionChecks, undefined, name)?.spec.controllerName === Kueue.multiKueue
    )
  )
}

const ownManager = "trainer.kubeflow.org/trainjob-controller"

const captured = (trainJob: Objects.TrainJob, view: View, options: Kueue.Options): Objects.TrainJob => {
  const { namespace } = trainJob.metadata
  const given = labelOf(trainJob, Kueue.queueLabel)
  const queue = given === "" && hasDefaultQueue(view, namespace) ? defaultQueue : given
  const isManaged = queue !== "" || options.manageJobsWithoutQueueName === true
  const elsewhere = queue !== "" && isMultiKueue(view, trainJob, queue)
  const entry: Objects.RuntimePatch = {
    manager: Kueue.patchManager,
    trainingRuntimeSpec: {
      template: {
        ...(queue === "" ? {} : { metadata: { labels: { [Kueue.queueLabel]: queue } } }),
        spec: {}
      }
    }
  }
  const { managedBy = ownManager } = trainJob.spec
  return {
    ...trainJob,
    metadata:
      queue === given
        ? trainJob.metadata
        : { ...trainJob.metadata, labels: { ...trainJob.metadata.labels, [Kueue.queueLabel]: queue } },
    spec: {
      ...trainJob.spec,
      ...(isManaged ? { suspend: true } : {}),
      ...(elsewhere && managedBy === ownManager ? { managedBy: Kueue.multiKueue } : {}),
      runtimePatches: [...(trainJob.spec.runtimePatches ?? []), entry]
    }
  }
}

const immutableLabel = (name: string, value: string): Store.Denial => ({
  message: `metadata.labels[${name}]: Invalid value: ${JSON.stringify(value)}: field is immutable`
})

const labelRefusal = ({ object, old, view }: Asked<Objects.TrainJob>): Store.Denial | undefined => {
  if (old === undefined) return undefined
  const queue = labelOf(object, Kueue.queueLabel)
  const isSuspended = object.spec.suspend === true
  if (queue !== labelOf(old, Kueue.queueLabel)) {
    if (!isSuspended) return immutableLabel(Kueue.queueLabel, queue)
    if (queue === "" && hasDefaultQueue(view, object.metadata.namespace)) {
      return {
        message: `metadata.labels[${Kueue.queueLabel}]: Invalid value: "": queue-name must not be empty in namespace with default queue`
      }
    }
  }
  const limit = labelOf(object, Kueue.maxExecLabel)
  if (limit !== labelOf(old, Kueue.maxExecLabel) && (!isSuspended || old.spec.suspend !== true)) {
    return immutableLabel(Kueue.maxExecLabel, limit)
  }
  const priority = labelOf(object, Kueue.priorityLabel)
  const before = labelOf(old, Kueue.priorityLabel)
  if (priority !== before && (priority === "" || (before === "" && !isSuspended))) {
    return immutableLabel(Kueue.priorityLabel, priority)
  }
  return undefined
}

// --- Workload ----------------------------------------------------------------------------------------------------------

// the order of the fields as Go prints them
const updateText = (updates: ReadonlyArray<Kueue.PodSetUpdate>): string =>
  JSON.stringify(
    updates.map(({ annotations, labels, name, nodeSelector, tolerations }) =>
      Objects.compact({ name, labels, annotations, nodeSelector, tolerations })
    )
  )

const checkRefusal = ({ object, old }: Asked<Kueue.Workload>): Store.Denial | undefined => {
  const podSets = object.spec.podSets.map(({ name }) => name)
  for (const [index, check] of (object.status?.admissionChecks ?? []).entries()) {
    const field = `status.admissionChecks[${index}].podSetUpdates`
    for (const [at, { name }] of (check.podSetUpdates ?? []).entries()) {
      if (podSets.includes(name)) continue
      return {
        message: `${field}[${at}].name: Unsupported value: ${JSON.stringify(name)}: supported values: ${podSets.map((each) => JSON.stringify(each)).join(", ")}`
      }
    }
    const before = old?.status?.admissionChecks?.find(({ name }) => name === check.name)
    const isReady = before?.state === "Ready" && check.state === "Ready"
    if (isReady && !Objects.same(before.podSetUpdates ?? [], check.podSetUpdates ?? [])) {
      return { message: `${field}: Invalid value: ${updateText(check.podSetUpdates ?? [])}: field is immutable` }
    }
  }
  return undefined
}

const podSetRefusal = ({ object, old }: Asked<Kueue.Workload>): Store.Denial | undefined =>
  old !== undefined &&
  Kueue.isReserved(old) &&
  Kueue.isReserved(object) &&
  !Objects.same(object.spec.podSets, old.spec.podSets)
    ? { message: `spec.podSets: Invalid value: ${JSON.stringify(object.spec.podSets)}: field is immutable` }
    : undefined

// --- queues ------------------------------------------------------------------------------------------------------------

const withFinalizer = <A extends Objects.Raw>(object: A): A => ({
  ...object,
  metadata: {
    ...object.metadata,
    finalizers: [...new Set([...(object.metadata.finalizers ?? []), Kueue.finalizer])]
  }
})

// --- JobSet ------------------------------------------------------------------------------------------------------------

// one that belongs to a managed job is started and stopped with it
const suspendedJobSet = (jobSet: Objects.JobSet): Objects.JobSet | undefined =>
  labelOf(jobSet, Kueue.queueLabel) !== "" && Objects.controllerOf(jobSet) === undefined
    ? { ...jobSet, spec: { ...jobSet.spec, suspend: true } }
    : undefined

/** Whose job it is, is looked up along the owners; one that is gone cannot be asked. */
const ownerRefusal = (job: Objects.Job, view: View): Store.Denial | undefined => {
  const owner = Objects.controllerOf(job)
  const jobSet = owner?.kind === "JobSet" ? view.get(Objects.jobSets, job.metadata.namespace, owner.name) : undefined
  const parent = jobSet === undefined ? undefined : Objects.controllerOf(jobSet)
  if (parent?.kind !== "TrainJob") return undefined
  return view.get(Objects.trainJobs, job.metadata.namespace, parent.name) === undefined
    ? { message: `TrainJob.trainer.kubeflow.org ${JSON.stringify(parent.name)} not found` }
    : undefined
}

const both = ["CREATE", "UPDATE"] as const

/** The webhooks. They come before Trainer's own, which stamp the entry that these append. */
export const plugins = (options: Kueue.Options): ReadonlyArray<Store.Admission> => [
  plugin("mtrainjob.kb.io", Objects.trainJobs, ["CREATE"], ({ object, view }) => captured(object, view, options)),
  plugin("mjobset.kb.io", Objects.jobSets, ["CREATE"], ({ object }) => suspendedJobSet(object)),
  plugin("mjob.kb.io", Objects.jobs, ["CREATE"], ({ object, view }) => ownerRefusal(object, view)),
  plugin("mclusterqueue.kb.io", Kueue.clusterQueues, ["CREATE"], ({ object }) => withFinalizer(object)),
  Admission.validating(
    plugin("vtrainjob.kb.io", Objects.trainJobs, both, (asked) => (asked.isStatus ? undefined : labelRefusal(asked)))
  ),
  Admission.validating(
    plugin("vworkload.kb.io", Kueue.workloads, both, (asked) =>
      asked.isStatus ? checkRefusal(asked) : podSetRefusal(asked)
    )
  )
]
