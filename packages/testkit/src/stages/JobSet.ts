/**
 * The JobSet controller (0.12): headless Service, Jobs with their labels, suspend and resume, `dependsOn`, success and
 * failure policy, restarts, time to live. Not modelled: InPlaceRestart, BlockingRecreate, exclusive placement, groups other
 * than the default one.
 *
 * @module
 */
import { Either } from "effect"
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Events from "./Events.js"
import * as Objects from "./Objects.js"
import * as Sha1 from "./Sha1.js"

const component = "jobset"
const prefix = "jobset.sigs.k8s.io"
const attemptLabel = `${prefix}/restart-attempt`

const event = (
  jobSet: Objects.JobSet,
  type: "Normal" | "Warning",
  reason: string,
  message: string
): Events.Occurrence => ({ regarding: jobSet, type, reason, message })

/** The name of the Job of one replica. */
export const jobName = (jobSet: string, replicatedJob: string, index: number): string =>
  `${jobSet}-${replicatedJob}-${index}`

const subdomainOf = (jobSet: Objects.JobSet): string => jobSet.spec.network?.subdomain ?? jobSet.metadata.name

const replicasOf = (replicatedJob: Objects.ReplicatedJob): number => replicatedJob.replicas ?? 1

interface Children {
  readonly all: ReadonlyArray<Objects.Job>
  /** Jobs of the present attempt. */
  readonly active: ReadonlyArray<Objects.Job>
  readonly succeeded: ReadonlyArray<Objects.Job>
  readonly failed: ReadonlyArray<Objects.Job>
  /** Jobs of an earlier attempt. */
  readonly previous: ReadonlyArray<Objects.Job>
}

const childrenOf = (view: View, jobSet: Objects.JobSet): Children => {
  const restarts = jobSet.status?.restarts ?? 0
  const all = view.ownedBy(Objects.jobs, jobSet.metadata.uid)
  const active: Array<Objects.Job> = []
  const succeeded: Array<Objects.Job> = []
  const failed: Array<Objects.Job> = []
  const previous: Array<Objects.Job> = []
  for (const job of all) {
    if (Number(job.metadata.labels?.[attemptLabel] ?? "0") < restarts) previous.push(job)
    else if (Objects.isTrue(job.status?.conditions, "Complete")) succeeded.push(job)
    else if (Objects.isTrue(job.status?.conditions, "Failed")) failed.push(job)
    else active.push(job)
  }
  return { all, active, succeeded, failed, previous }
}

const isOf = (job: Objects.Job, name: string): boolean => job.metadata.labels?.[`${prefix}/replicatedjob-name`] === name

const countersOf = (jobSet: Objects.JobSet, children: Children): ReadonlyArray<Objects.ReplicatedJobStatus> =>
  jobSet.spec.replicatedJobs
    .map(({ name }) => {
      const active = children.active.filter((job) => isOf(job, name))
      return {
        name,
        active: active.filter((job) => (job.status?.active ?? 0) > 0).length,
        failed: children.failed.filter((job) => isOf(job, name)).length,
        ready: active.filter((job) => {
          const parallelism = job.spec.parallelism ?? 1
          const pods = Math.min(parallelism, job.spec.completions ?? parallelism)
          return (job.status?.ready ?? 0) + (job.status?.succeeded ?? 0) >= pods
        }).length,
        succeeded: children.succeeded.filter((job) => isOf(job, name)).length,
        suspended: active.filter((job) => job.spec.suspend === true).length
      }
    })
    // the list is not in the order of the spec
    .toSorted((a, b) => (a.name < b.name ? 1 : -1))

const labelsOf = (jobSet: Objects.JobSet, replicatedJob: Objects.ReplicatedJob, index: number): Objects.StringMap => {
  const { replicatedJobs } = jobSet.spec
  const at = replicatedJobs.indexOf(replicatedJob)
  const before = replicatedJobs.slice(0, at).reduce((sum, each) => sum + replicasOf(each), 0)
  const total = String(replicatedJobs.reduce((sum, each) => sum + replicasOf(each), 0))
  const name = jobName(jobSet.metadata.name, replicatedJob.name, index)
  const { coordinator } = jobSet.spec
  return {
    [`${prefix}/global-replicas`]: total,
    [`${prefix}/group-name`]: replicatedJob.groupName ?? "default",
    [`${prefix}/group-replicas`]: total,
    [`${prefix}/job-global-index`]: String(before + index),
    [`${prefix}/job-group-index`]: String(before + index),
    [`${prefix}/job-index`]: String(index),
    [`${prefix}/job-key`]: Sha1.hex(`${jobSet.metadata.namespace ?? ""}/${name}`),
    [`${prefix}/jobset-name`]: jobSet.metadata.name,
    [`${prefix}/jobset-uid`]: jobSet.metadata.uid,
    [`${prefix}/replicatedjob-name`]: replicatedJob.name,
    [`${prefix}/replicatedjob-replicas`]: String(replicasOf(replicatedJob)),
    [attemptLabel]: String(jobSet.status?.restarts ?? 0),
    ...(coordinator === undefined
      ? {}
      : {
          [`${prefix}/coordinator`]: `${jobName(jobSet.metadata.name, coordinator.replicatedJob, coordinator.jobIndex ?? 0)}-${
            coordinator.podIndex ?? 0
          }.${subdomainOf(jobSet)}`
        })
  }
}

const newJob = (jobSet: Objects.JobSet, replicatedJob: Objects.ReplicatedJob, index: number): object => {
  const labels = labelsOf(jobSet, replicatedJob, index)
  const { metadata, spec } = replicatedJob.template
  return {
    metadata: {
      name: jobName(jobSet.metadata.name, replicatedJob.name, index),
      namespace: jobSet.metadata.namespace,
      labels: { ...metadata?.labels, ...labels },
      annotations: { ...metadata?.annotations, ...labels },
      ownerReferences: [Objects.ownedBy(jobSet)]
    },
    spec: {
      ...spec,
      suspend: jobSet.spec.suspend === true,
      template: {
        ...spec.template,
        metadata: {
          ...spec.template.metadata,
          labels: { ...spec.template.metadata?.labels, ...labels },
          annotations: { ...spec.template.metadata?.annotations, ...labels }
        },
        spec:
          jobSet.spec.network?.enableDNSHostnames === false
            ? spec.template.spec
            : { ...spec.template.spec, subdomain: subdomainOf(jobSet) }
      }
    }
  }
}

const newService = (jobSet: Objects.JobSet): object => ({
  metadata: {
    name: subdomainOf(jobSet),
    namespace: jobSet.metadata.namespace,
    ownerReferences: [Objects.ownedBy(jobSet)]
  },
  spec: {
    selector: { [`${prefix}/jobset-name`]: jobSet.metadata.name },
    clusterIP: "None",
    clusterIPs: ["None"],
    type: "ClusterIP",
    sessionAffinity: "None",
    publishNotReadyAddresses: jobSet.spec.network?.publishNotReadyAddresses ?? true,
    ipFamilies: ["IPv4"],
    ipFamilyPolicy: "SingleStack",
    internalTrafficPolicy: "Cluster"
  }
})

const failedAt = (job: Objects.Job): number =>
  Objects.parseTime(Objects.conditionOf(job.status?.conditions, "Failed")?.lastTransitionTime ?? "")

const union = <A>(before: ReadonlyArray<A> | undefined, after: ReadonlyArray<A> | undefined): ReadonlyArray<A> => {
  const result = [...(before ?? [])]
  for (const item of after ?? []) if (!result.some((existing) => Objects.same(existing, item))) result.push(item)
  return result
}

/** The template that a Job resumes with: new values win, old keys of earlier admissions stay. */
const resumedTemplate = (job: Objects.Job, replicatedJob: Objects.ReplicatedJob): Objects.PodTemplate => {
  const before = job.spec.template
  const after = replicatedJob.template.spec.template
  const tolerations = union(before.spec.tolerations, after.spec.tolerations)
  const gates = union(before.spec.schedulingGates, after.spec.schedulingGates)
  return {
    ...before,
    metadata: {
      ...before.metadata,
      labels: { ...before.metadata?.labels, ...after.metadata?.labels },
      annotations: { ...before.metadata?.annotations, ...after.metadata?.annotations }
    },
    spec: {
      ...before.spec,
      ...(before.spec.nodeSelector === undefined && after.spec.nodeSelector === undefined
        ? {}
        : { nodeSelector: { ...before.spec.nodeSelector, ...after.spec.nodeSelector } }),
      ...(tolerations.length === 0 ? {} : { tolerations }),
      ...(gates.length === 0 ? {} : { schedulingGates: gates })
    }
  }
}

const isFinished = (jobSet: Objects.JobSet): boolean =>
  Objects.isTrue(jobSet.status?.conditions, "Completed") || Objects.isTrue(jobSet.status?.conditions, "Failed")

interface Decision {
  readonly status: NonNullable<Objects.JobSet["status"]>
  readonly occurrences: ReadonlyArray<Events.Occurrence>
}

const matchingRule = (
  jobSet: Objects.JobSet,
  failed: Objects.Job
): { readonly name: string | undefined; readonly action: string } => {
  const condition = Objects.conditionOf(failed.status?.conditions, "Failed")
  const rule = jobSet.spec.failurePolicy?.rules?.find(
    (each) =>
      (each.onJobFailureReasons === undefined ||
        each.onJobFailureReasons.length === 0 ||
        each.onJobFailureReasons.includes(condition?.reason ?? "")) &&
      (each.onJobFailureMessagePatterns === undefined ||
        each.onJobFailureMessagePatterns.length === 0 ||
        each.onJobFailureMessagePatterns.some((pattern) => new RegExp(pattern).test(condition?.message ?? ""))) &&
      (each.targetReplicatedJobs === undefined ||
        each.targetReplicatedJobs.length === 0 ||
        each.targetReplicatedJobs.some((name) => isOf(failed, name)))
  )
  return rule === undefined ? { name: undefined, action: "RestartJobSet" } : { name: rule.name, action: rule.action }
}

const onFailure = (
  jobSet: Objects.JobSet,
  failed: ReadonlyArray<Objects.Job>,
  status: NonNullable<Objects.JobSet["status"]>,
  at: string
): Decision => {
  const first = failed.toSorted((a, b) => failedAt(a) - failedAt(b))[0]
  if (first === undefined) return { status, occurrences: [] }
  const suffix = `(first failed job: ${first.metadata.name})`
  const fail = (reason: string, message: string): Decision => {
    const restarting = Objects.conditionOf(status.conditions, "RestartingJobSet")
    const before =
      restarting?.status === "True"
        ? Objects.withCondition(status.conditions, {
            type: "RestartingJobSet",
            status: "False",
            reason: "JobSetFailed",
            message: "jobset failed",
            lastTransitionTime: at
          })
        : restarting === undefined
          ? status.conditions
          : (status.conditions ?? []).map((each) =>
              each.type === "RestartingJobSet" ? { ...each, reason: "JobSetFailed", message: "jobset failed" } : each
            )
    return {
      status: {
        ...status,
        conditions: Objects.withCondition(before, {
          type: "Failed",
          status: "True",
          reason,
          message,
          lastTransitionTime: at
        }),
        terminalState: "Failed"
      },
      occurrences: [
        ...(restarting === undefined ? [] : [event(jobSet, "Normal", "JobSetFailed", "jobset failed")]),
        event(jobSet, "Warning", reason, message)
      ]
    }
  }
  if (jobSet.spec.failurePolicy === undefined) {
    return fail("FailedJobs", `jobset failed due to one or more job failures ${suffix}`)
  }
  const rule = matchingRule(jobSet, first)
  if (rule.action === "FailJobSet") {
    return fail("FailJobSetFailurePolicyAction", `applying FailJobSet failure policy action ${suffix}`)
  }
  const ignores = rule.action === "RestartJobSetAndIgnoreMaxRestarts"
  const towardsMax = status.restartsCountTowardsMax ?? 0
  if (!ignores && towardsMax >= (jobSet.spec.failurePolicy.maxRestarts ?? 0)) {
    return fail("ReachedMaxRestarts", `jobset failed due to reaching max number of restarts ${suffix}`)
  }
  const reason = rule.name === undefined ? "DefaultFailurePolicy" : `FailurePolicy_${rule.name}`
  const message = `applying ${rule.action} failure policy action ${suffix}`
  return {
    status: Objects.compact({
      ...status,
      restarts: (status.restarts ?? 0) + 1,
      restartsCountTowardsMax: ignores ? status.restartsCountTowardsMax : towardsMax + 1,
      conditions: Objects.withCondition(status.conditions, {
        type: "RestartingJobSet",
        status: "True",
        reason,
        message,
        lastTransitionTime: at
      })
    }),
    occurrences: [
      event(jobSet, "Warning", reason, message),
      event(jobSet, "Warning", `${rule.action}FailurePolicyAction`, message)
    ]
  }
}

const hasSucceeded = (jobSet: Objects.JobSet, succeeded: ReadonlyArray<Objects.Job>): boolean => {
  const policy = jobSet.spec.successPolicy
  const names = policy?.targetReplicatedJobs ?? []
  const targets = jobSet.spec.replicatedJobs.filter(({ name }) => names.length === 0 || names.includes(name))
  if (policy?.operator === "Any") return succeeded.some((job) => targets.some(({ name }) => isOf(job, name)))
  return targets.every((target) => succeeded.filter((job) => isOf(job, target.name)).length >= replicasOf(target))
}

function* writeStatus(context: Context, jobSet: Objects.JobSet, decision: Decision): Generator<Act, boolean, Answer> {
  const current = context.view.get(Objects.jobSets, jobSet.metadata.namespace, jobSet.metadata.name)
  if (current === undefined || current.metadata.uid !== jobSet.metadata.uid) return true
  const answer = yield* sendIf(Objects.patchStatus(Objects.jobSets, current, decision.status, component))
  if (answer !== undefined && Either.isLeft(answer)) return false
  for (const occurrence of decision.occurrences) {
    yield* Events.modern(context, component, "Reconciling", occurrence)
  }
  return true
}

function* deleteJobs(jobs: ReadonlyArray<Objects.Job>): Generator<Act, void, Answer> {
  for (const job of jobs) {
    if (job.metadata.deletionTimestamp === undefined) {
      yield* send(Objects.remove(Objects.jobs, job, { propagation: "Foreground" }))
    }
  }
}

function* reconcile(context: Context, retries: Map<string, number>): Work {
  const { name, namespace } = Objects.splitKey(context.key)
  const jobSet = context.view.get(Objects.jobSets, namespace, name)
  if (jobSet === undefined || jobSet.metadata.deletionTimestamp !== undefined) return
  if (jobSet.spec.managedBy !== undefined && jobSet.spec.managedBy !== "jobset.sigs.k8s.io/jobset-controller") return
  const now = context.now()
  const at = Objects.time(now)
  const again: ReadonlyArray<Wake> = [{ key: context.key, wait: 0 }]
  const children = childrenOf(context.view, jobSet)
  const counters = countersOf(jobSet, children)
  const status: NonNullable<Objects.JobSet["status"]> = {
    ...jobSet.status,
    replicatedJobsStatus: counters,
    restarts: jobSet.status?.restarts ?? 0
  }

  if (isFinished(jobSet)) {
    yield* deleteJobs(children.active)
    if (!(yield* writeStatus(context, jobSet, { status, occurrences: [] }))) return again
    const ttl = jobSet.spec.ttlSecondsAfterFinished
    if (ttl === undefined) return
    const finished = (status.conditions ?? []).find(
      (each) => (each.type === "Completed" || each.type === "Failed") && each.status === "True"
    )
    const left = Objects.parseTime(finished?.lastTransitionTime ?? at) + ttl * 1000 - now
    if (left > 0) return [{ key: context.key, wait: left }]
    yield* send(Objects.remove(Objects.jobSets, jobSet, { propagation: "Foreground" }))
    return
  }

  if (children.previous.length > 0) yield* deleteJobs(children.previous)

  if (children.failed.length > 0) {
    return (yield* writeStatus(context, jobSet, onFailure(jobSet, children.failed, status, at))) ? undefined : again
  }

  if (children.succeeded.length > 0 && hasSucceeded(jobSet, children.succeeded)) {
    const message = "jobset completed successfully"
    const decision: Decision = {
      status: {
        ...status,
        conditions: Objects.withCondition(status.conditions, {
          type: "Completed",
          status: "True",
          reason: "AllJobsCompleted",
          message,
          lastTransitionTime: at
        }),
        terminalState: "Completed"
      },
      occurrences: [event(jobSet, "Normal", "AllJobsCompleted", message)]
    }
    return (yield* writeStatus(context, jobSet, decision)) ? undefined : again
  }

  if (
    jobSet.spec.network?.enableDNSHostnames !== false &&
    context.view.get(Objects.services, namespace, subdomainOf(jobSet)) === undefined
  ) {
    yield* send(Objects.create(Objects.services, namespace, newService(jobSet)))
  }

  const isMet = (dependency: { readonly name: string; readonly status: string }): boolean => {
    const counter = counters.find((each) => each.name === dependency.name)
    const target = jobSet.spec.replicatedJobs.find((each) => each.name === dependency.name)
    if (counter === undefined || target === undefined) return false
    return dependency.status === "Ready"
      ? counter.ready + counter.succeeded >= replicasOf(target)
      : counter.succeeded >= replicasOf(target)
  }
  const inOrder = jobSet.spec.startupPolicy?.startupPolicyOrder === "InOrder"
  const suspended = jobSet.spec.suspend === true
  let blocked = false
  for (const replicatedJob of jobSet.spec.replicatedJobs) {
    if (blocked) break
    if (!(replicatedJob.dependsOn ?? []).every(isMet)) continue
    for (let index = 0; index < replicasOf(replicatedJob); index++) {
      const child = jobName(jobSet.metadata.name, replicatedJob.name, index)
      if (context.view.get(Objects.jobs, namespace, child) !== undefined) continue
      const answer = yield* send(Objects.create(Objects.jobs, namespace, newJob(jobSet, replicatedJob, index)))
      if (Either.isLeft(answer) && answer.left._tag !== "KubeConflict") {
        yield* Events.modern(
          context,
          component,
          "Reconciling",
          event(
            jobSet,
            "Warning",
            "JobCreationFailed",
            `job "${child}" creation failed with error: ${answer.left.status?.message ?? answer.left.message}`
          )
        )
        const tries = retries.get(jobSet.metadata.uid) ?? 0
        retries.set(jobSet.metadata.uid, tries + 1)
        return [{ key: context.key, wait: Math.min(100 * 2 ** tries, 1_000_000) }]
      }
    }
    // InOrder starts one replicatedJob after the other is ready
    if (inOrder && !suspended && !isMet({ name: replicatedJob.name, status: "Ready" })) blocked = true
  }
  retries.delete(jobSet.metadata.uid)

  let conditions = status.conditions
  const occurrences: Array<Events.Occurrence> = []
  const moveTo = (type: string, conditionStatus: string, reason: string, message: string): void => {
    conditions = Objects.withCondition(conditions, {
      type,
      status: conditionStatus,
      reason,
      message,
      lastTransitionTime: at
    })
    occurrences.push(event(jobSet, "Normal", reason, message))
  }
  if (suspended) {
    for (const job of children.active) {
      if (job.spec.suspend !== true) yield* send(Objects.patch(Objects.jobs, job, { spec: { suspend: true } }))
    }
    if (!Objects.isTrue(conditions, "Suspended")) moveTo("Suspended", "True", "SuspendedJobs", "jobset is suspended")
  } else {
    for (const job of children.active) {
      const replicatedJob = jobSet.spec.replicatedJobs.find((each) => isOf(job, each.name))
      if (job.spec.suspend !== true || replicatedJob === undefined) continue
      yield* send(
        Objects.patch(Objects.jobs, job, { spec: { suspend: false, template: resumedTemplate(job, replicatedJob) } })
      )
    }
    if (Objects.isTrue(conditions, "Suspended")) moveTo("Suspended", "False", "ResumeJobs", "jobset is resumed")
  }
  const isReady = jobSet.spec.replicatedJobs.every((each) => isMet({ name: each.name, status: "Ready" }))
  if (isReady && Objects.isTrue(conditions, "RestartingJobSet")) {
    moveTo("RestartingJobSet", "False", "JobsReady", "all jobs are ready")
  }
  const next = Objects.compact({ ...status, conditions })
  if (!(yield* writeStatus(context, jobSet, { status: next, occurrences }))) return again
}

const watches = (change: Change): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Objects.jobSets, object)) return change.type === "DELETED" ? [] : [{ key: Objects.keyOf(object) }]
  if (!Objects.is(Objects.jobs, object) && !Objects.is(Objects.services, object)) return []
  const owner =
    Objects.controllerOf(object) ?? (change.previous === undefined ? undefined : Objects.controllerOf(change.previous))
  // by name and not by uid: the object of an earlier JobSet of this name is in the way of the new one's until it is gone
  return owner?.kind === "JobSet" ? [{ key: `${object.metadata.namespace ?? ""}/${owner.name}` }] : []
}

/** The JobSet controller. */
export const stage: Stage = {
  name: "jobset",
  latency: 10,
  start: () => {
    const retries = new Map<string, number>()
    return { watches, reconcile: (context) => reconcile(context, retries) }
  }
}
