/**
 * The Kubeflow Trainer's TrainJob controller (2.3), with the behaviour that surprises: it ignores `deletionTimestamp`, its
 * `Failed` condition is derived anew at each look, and a JobSet that is gone is made again unless the TrainJob is Complete
 * or past its deadline.
 *
 * @module
 */
import { Either } from "effect"
import * as Yaml from "yaml"
import type { Act, Answer, Change, Context, Stage, Wake, Work } from "../Stage.js"
import { send } from "../Stage.js"
import * as Events from "./Events.js"
import * as Objects from "./Objects.js"
import * as Build from "./TrainerBuild.js"

const manager = "trainer"
const statusManager = "trainer-controller-manager"
const component = "trainer-trainjob-controller"
const snapshotKey = "runtime"

/** Variants of the controller. */
export interface Options {
  /**
   * `lagging`: the TrainJob is read as it was when the change was seen, as from a cache that has not caught up. With it, a
   * deadline makes one more JobSet before it stays Failed (seen in 3 of 7 runs).
   */
  readonly cache?: "current" | "lagging"
}

const withoutManagedFields = (runtime: Objects.Runtime): unknown => ({
  ...runtime,
  metadata: Object.fromEntries(Object.entries(runtime.metadata).filter(([name]) => name !== "managedFields"))
})

const isKubeflow = (trainJob: Objects.TrainJob): boolean =>
  (trainJob.spec.runtimeRef.apiGroup ?? "trainer.kubeflow.org") === "trainer.kubeflow.org" &&
  ["ClusterTrainingRuntime", "TrainingRuntime"].includes(trainJob.spec.runtimeRef.kind ?? "ClusterTrainingRuntime")

const liveRuntime = (context: Context, trainJob: Objects.TrainJob): Objects.Runtime | undefined =>
  trainJob.spec.runtimeRef.kind === "TrainingRuntime"
    ? context.view.get(Objects.trainingRuntimes, trainJob.metadata.namespace, trainJob.spec.runtimeRef.name)
    : context.view.get(Objects.clusterTrainingRuntimes, undefined, trainJob.spec.runtimeRef.name)

type Outcome<A> = Either.Either<A, string>

const messageOf = (answer: Answer): string =>
  Either.isLeft(answer) ? (answer.left.status?.message ?? answer.left.message) : ""

interface Memory {
  /** Runtimes by the text of their snapshot. */
  readonly runtimes: Map<string, Objects.Runtime>
  readonly retries: Map<string, number>
}

function* snapshot(
  context: Context,
  trainJob: Objects.TrainJob,
  memory: Memory
): Generator<Act, Outcome<Objects.Runtime>, Answer> {
  const { name, namespace, uid } = trainJob.metadata
  const existing = context.view.get(Objects.configMaps, namespace, Build.snapshotName(name))
  if (existing !== undefined) {
    if (Objects.controllerOf(existing)?.uid !== uid) {
      return Either.left(
        "getting runtime snapshot: invalid runtime snapshot: a snapshot configmap exists but is owned by another object"
      )
    }
    const text = existing.data?.[snapshotKey] ?? ""
    const known = memory.runtimes.get(text)
    if (known !== undefined) return Either.right(known)
    // the snapshot was written by this controller from a stored runtime
    const parsed = Yaml.parse(text) as Objects.Runtime
    memory.runtimes.set(text, parsed)
    return Either.right(parsed)
  }
  const runtime = liveRuntime(context, trainJob)
  if (runtime === undefined) {
    const kind = trainJob.spec.runtimeRef.kind ?? "ClusterTrainingRuntime"
    return Either.left(
      `not found ${kind} specified in TrainJob: ${kind}.trainer.kubeflow.org "${trainJob.spec.runtimeRef.name}" not found`
    )
  }
  const answer = yield* send(
    Objects.create(
      Objects.configMaps,
      namespace,
      {
        metadata: { name: Build.snapshotName(name), namespace, ownerReferences: [Objects.ownedBy(trainJob)] },
        data: { [snapshotKey]: Yaml.stringify(withoutManagedFields(runtime), { sortMapEntries: true }) }
      },
      manager
    )
  )
  return Either.isLeft(answer) ? Either.left(messageOf(answer)) : Either.right(runtime)
}

function* ensure(
  context: Context,
  type: Objects.Kind,
  trainJob: Objects.TrainJob,
  name: string,
  body: object
): Generator<Act, Outcome<void>, Answer> {
  const { namespace } = trainJob.metadata
  if (context.view.get(type, namespace, name) !== undefined) return Either.right(undefined)
  const answer = yield* send(
    Objects.create(
      type,
      namespace,
      { metadata: { name, namespace, ownerReferences: [Objects.ownedBy(trainJob)] }, ...body },
      manager
    )
  )
  return Either.isLeft(answer) ? Either.left(messageOf(answer)) : Either.right(undefined)
}

function* applyJobSet(
  context: Context,
  trainJob: Objects.TrainJob,
  runtime: Objects.Runtime
): Generator<Act, Outcome<void>, Answer> {
  const { name, namespace } = trainJob.metadata
  const existing = context.view.get(Objects.jobSets, namespace, name)
  if (existing !== undefined && trainJob.spec.suspend !== true && existing.spec.suspend !== true) {
    return Either.right(undefined)
  }
  const wanted = Build.jobSet(trainJob, runtime)
  const broken = Build.withoutContainers(wanted)
  if (broken !== undefined) {
    // the schema of the JobSet CRD, which the in-memory server does not check that deep
    const field = `spec.replicatedJobs[${broken}].template.spec.template.spec.containers`
    return Either.left(
      `JobSet.jobset.x-k8s.io "${name}" is invalid: [${field}: Invalid value: "null": ${field} in body must be of type array: "null", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]`
    )
  }
  if (existing === undefined) {
    const answer = yield* send(Objects.create(Objects.jobSets, namespace, wanted, manager))
    return Either.isLeft(answer) ? Either.left(messageOf(answer)) : Either.right(undefined)
  }
  const bare = withoutMetadata(existing.spec, wanted.spec)
  if (bare !== undefined) {
    // the Trainer's apply sends null for metadata that it set before and that nothing sets any more
    const field = `spec.replicatedJobs[${bare}].template.spec.template.metadata`
    return Either.left(
      `JobSet.jobset.x-k8s.io "${name}" is invalid: [${field}: Invalid value: "null": ${field} in body must be of type object: "null", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]`
    )
  }
  // what the API server and the webhook filled in stays where the Trainer says nothing
  const spec = withDefaults(existing.spec, wanted.spec)
  if (Objects.same(existing.spec, spec)) return Either.right(undefined)
  const answer = yield* send(
    Objects.patch(Objects.jobSets, existing, { spec: Objects.mergePatch(existing.spec, spec) }, { manager })
  )
  return Either.isLeft(answer) ? Either.left(messageOf(answer)) : Either.right(undefined)
}

/** The first replicatedJob whose pods had labels or annotations and are to have none. */
const withoutMetadata = (existing: Objects.JobSetSpec, target: Objects.JobSetSpec): number | undefined => {
  const at = target.replicatedJobs.findIndex((job) => {
    const before = existing.replicatedJobs.find((each) => each.name === job.name)?.template.spec.template.metadata
    return job.template.spec.template.metadata === undefined && Object.keys(before ?? {}).length > 0
  })
  return at < 0 ? undefined : at
}

const withDefaults = (existing: Objects.JobSetSpec, target: Objects.JobSetSpec): Objects.JobSetSpec => ({
  ...(existing.network === undefined ? {} : { network: existing.network }),
  ...(existing.startupPolicy === undefined ? {} : { startupPolicy: existing.startupPolicy }),
  ...(existing.successPolicy === undefined ? {} : { successPolicy: existing.successPolicy }),
  ...target,
  ...(target.network === undefined ? {} : { network: { ...existing.network, ...target.network } }),
  replicatedJobs: target.replicatedJobs.map((job) => {
    const before = existing.replicatedJobs.find((each) => each.name === job.name)
    if (before === undefined) return job
    const pod = job.template.spec.template
    return {
      ...job,
      groupName: job.groupName ?? before.groupName ?? "default",
      replicas: job.replicas ?? before.replicas ?? 1,
      template: {
        ...job.template,
        metadata: job.template.metadata ?? before.template.metadata ?? {},
        spec: {
          ...job.template.spec,
          completionMode: job.template.spec.completionMode ?? before.template.spec.completionMode ?? "Indexed",
          template: {
            ...pod,
            metadata: pod.metadata ?? before.template.spec.template.metadata ?? {},
            spec: {
              ...pod.spec,
              restartPolicy: pod.spec.restartPolicy ?? before.template.spec.template.spec.restartPolicy ?? "OnFailure"
            }
          }
        }
      }
    }
  })
})

function* objects(context: Context, trainJob: Objects.TrainJob, memory: Memory): Generator<Act, Outcome<void>, Answer> {
  const runtime = yield* snapshot(context, trainJob, memory)
  if (Either.isLeft(runtime)) return Either.left(runtime.left)
  if (runtime.right.spec.mlPolicy?.mpi !== undefined) {
    const secret = yield* ensure(context, Objects.secrets, trainJob, Build.sshSecretName(trainJob.metadata.name), {
      type: "kubernetes.io/ssh-auth",
      data: { "ssh-privatekey": "", "ssh-publickey": "" }
    })
    if (Either.isLeft(secret)) return secret
    const hosts = yield* ensure(context, Objects.configMaps, trainJob, Build.hostfileName(trainJob.metadata.name), {
      data: { hostfile: Build.hostfile(trainJob, runtime.right) }
    })
    if (Either.isLeft(hosts)) return hosts
  }
  return yield* applyJobSet(context, trainJob, runtime.right)
}

const setSuspended = (trainJob: Objects.TrainJob, at: string): ReadonlyArray<Objects.Condition> | undefined => {
  const conditions = trainJob.status?.conditions
  if (trainJob.spec.suspend === true) {
    return Objects.withCondition(conditions, {
      type: "Suspended",
      status: "True",
      reason: "Suspended",
      message: "TrainJob is suspended",
      lastTransitionTime: at
    })
  }
  return Objects.isTrue(conditions, "Suspended")
    ? Objects.withCondition(conditions, {
        type: "Suspended",
        status: "False",
        reason: "Resumed",
        message: "TrainJob is resumed",
        lastTransitionTime: at
      })
    : conditions
}

const copied: ReadonlyArray<readonly [string, string]> = [
  ["Completed", "Complete"],
  ["Failed", "Failed"]
]

function* reconcile(context: Context, options: Options, memory: Memory): Work {
  const { name, namespace } = Objects.splitKey(context.key)
  const live = context.view.get(Objects.trainJobs, namespace, name)
  const cached = options.cache === "lagging" ? context.seen.get(Objects.trainJobs, namespace, name) : live
  if (live === undefined || cached === undefined || cached.metadata.uid !== live.metadata.uid) return
  if (cached.spec.managedBy === "kueue.x-k8s.io/multikueue") return

  const now = context.now()
  const at = Objects.time(now)
  const deadlineFailed = Objects.conditionOf(cached.status?.conditions, "Failed")?.reason === "DeadlineExceeded"
  // Failed is dropped here and copied again from the JobSet below, which is why it is last in the list
  const trainJob: Objects.TrainJob = deadlineFailed
    ? cached
    : {
        ...cached,
        status: {
          ...cached.status,
          conditions: (cached.status?.conditions ?? []).filter((each) => each.type !== "Failed")
        }
      }
  const finished = deadlineFailed || Objects.isTrue(trainJob.status?.conditions, "Complete")

  let failure: string | undefined
  let unsupported: Objects.Condition | undefined
  if (!isKubeflow(trainJob)) {
    const { apiGroup, kind } = trainJob.spec.runtimeRef
    unsupported = {
      type: "Failed",
      status: "True",
      reason: "TrainingRuntimeNotSupported",
      message: `unsupported runtime: ${kind ?? ""}.${apiGroup ?? ""}`,
      lastTransitionTime: at
    }
  } else if (!finished) {
    const outcome = yield* objects(context, trainJob, memory)
    if (Either.isLeft(outcome)) failure = outcome.left
  }
  if (failure !== undefined) {
    yield* Events.modern(context, component, "Reconciling", {
      regarding: live,
      type: "Warning",
      reason: "TrainJobResourcesCreationFailed",
      message: truncated(`TrainJob resources reconciliation failed: ${failure}`)
    })
  }

  let conditions = setSuspended(trainJob, at)
  let jobsStatus = trainJob.status?.jobsStatus
  const jobSet = context.view.get(Objects.jobSets, namespace, name)
  if (jobSet !== undefined) {
    jobsStatus = jobSet.status?.replicatedJobsStatus
    for (const [from, to] of copied) {
      const source = Objects.conditionOf(jobSet.status?.conditions, from)
      if (source?.status === "True") conditions = Objects.withCondition(conditions, { ...source, type: to })
    }
  }
  if (unsupported !== undefined) conditions = Objects.withCondition(conditions, unsupported)

  const wakes: Array<Wake> = []
  const deadline = trainJob.spec.activeDeadlineSeconds
  const isOver = Objects.isTrue(conditions, "Complete") || Objects.isTrue(conditions, "Failed")
  if (deadline !== undefined && !isOver && trainJob.spec.suspend !== true) {
    const resumed = Objects.conditionOf(conditions, "Suspended")
    const from =
      (resumed?.status === "False" ? resumed.lastTransitionTime : undefined) ?? trainJob.metadata.creationTimestamp
    const left = Objects.parseTime(from ?? at) + deadline * 1000 - now
    if (left > 0) {
      wakes.push({ key: context.key, wait: left })
    } else {
      // the JobSet goes before the condition is written: a look in between makes it anew
      if (jobSet !== undefined) yield* send(Objects.remove(Objects.jobSets, jobSet, { propagation: "Background" }))
      conditions = Objects.withCondition(conditions, {
        type: "Failed",
        status: "True",
        reason: "DeadlineExceeded",
        message: "TrainJob exceeded its active deadline",
        lastTransitionTime: at
      })
    }
  }

  const current = context.view.get(Objects.trainJobs, namespace, name)
  if (current !== undefined && current.metadata.uid === live.metadata.uid) {
    const status = Objects.compact({
      ...cached.status,
      conditions: conditions === undefined || conditions.length === 0 ? undefined : conditions,
      jobsStatus
    })
    // only what it changes of what it has read, without a lock
    const change = Objects.mergePatch(cached.status ?? {}, status)
    if (change !== undefined) {
      yield* send(
        Objects.patch(
          Objects.trainJobs,
          current,
          { status: Object.keys(status).length === 0 ? null : change },
          { subresource: "status", manager: statusManager }
        )
      )
    }
  }
  if (failure === undefined) {
    memory.retries.delete(live.metadata.uid)
    return wakes
  }
  const tries = memory.retries.get(live.metadata.uid) ?? 0
  memory.retries.set(live.metadata.uid, tries + 1)
  return [...wakes, { key: context.key, wait: Math.min(100 * 2 ** tries, 1_000_000) }]
}

// A note of an event holds at most 1024 bytes; the Trainer cuts earlier
const truncated = (text: string): string => (text.length > 1000 ? `${text.slice(0, 996)} ...` : text)

// making a JobSet anew takes longer than copying its status: the garbage collector gets between
const deletionLatency = 30

const watches = (change: Change): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Objects.trainJobs, object)) return change.type === "DELETED" ? [] : [{ key: Objects.keyOf(object) }]
  if (
    !Objects.is(Objects.jobSets, object) &&
    !Objects.is(Objects.configMaps, object) &&
    !Objects.is(Objects.secrets, object)
  ) {
    return []
  }
  // an object that loses its owner wakes it too
  const owner =
    Objects.controllerOf(object) ?? (change.previous === undefined ? undefined : Objects.controllerOf(change.previous))
  if (owner?.kind !== "TrainJob") return []
  const key = `${object.metadata.namespace ?? ""}/${owner.name}`
  return [change.type === "DELETED" ? { key, latency: deletionLatency } : { key }]
}

/** The TrainJob controller. */
export const make = (options: Options = {}): Stage => ({
  name: "trainer",
  latency: options.cache === "lagging" ? 30 : 5,
  lags: options.cache === "lagging",
  start: () => {
    const memory: Memory = { runtimes: new Map(), retries: new Map() }
    return { watches, reconcile: (context) => reconcile(context, options, memory) }
  }
})

/** The TrainJob controller with an up-to-date cache. */
export const stage: Stage = make()
