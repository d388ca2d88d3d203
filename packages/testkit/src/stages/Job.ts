/**
 * The batch/v1 Job controller: Indexed and NonIndexed Jobs, suspension, back-off limit, deadline, pod failure policy,
 * replacement policy, tracking finalizers. Not modelled: `backoffLimitPerIndex`, `successPolicy`.
 *
 * @module
 */
import { Either } from "effect"
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Events from "./Events.js"
import * as Objects from "./Objects.js"

const component = "job-controller"
/** The finalizer with which pods wait until they are counted. */
export const trackingFinalizer = "batch.kubernetes.io/job-tracking"
const indexKey = "batch.kubernetes.io/job-completion-index"
const orphanPrefix = "orphan:"

/** Milliseconds for which the controller collects pod changes. */
export const batch = 1000
const backOffBase = 10_000
const backOffLimit = 600_000
/** How long a Job waits before it tries again to make a pod that the server refused, milliseconds. */
const refusedBase = 1000
const refusedLimit = 60_000

const isJobOf = (pod: Objects.Pod): Objects.OwnerReference | undefined => {
  const owner = Objects.controllerOf(pod)
  return owner?.kind === "Job" && owner.apiVersion === "batch/v1" ? owner : undefined
}

const isTracked = (pod: Objects.Pod): boolean => pod.metadata.finalizers?.includes(trackingFinalizer) ?? false

const isTerminal = (pod: Objects.Pod): boolean => pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed"

/** Whether a Job is Complete or Failed. */
export const isFinished = (job: Objects.Job): boolean =>
  Objects.isTrue(job.status?.conditions, "Complete") || Objects.isTrue(job.status?.conditions, "Failed")

const parseIndexes = (text: string | undefined): Set<number> => {
  const indexes = new Set<number>()
  for (const part of (text ?? "").split(",")) {
    if (part === "") continue
    const [from = "0", to = from] = part.split("-")
    for (let index = Number(from); index <= Number(to); index++) indexes.add(index)
  }
  return indexes
}

const formatIndexes = (indexes: ReadonlySet<number>): string => {
  const sorted = [...indexes].toSorted((a, b) => a - b)
  const parts: Array<string> = []
  for (let at = 0; at < sorted.length;) {
    const first = sorted[at] ?? 0
    let end = at
    while (sorted[end + 1] === (sorted[end] ?? 0) + 1) end++
    const last = sorted[end] ?? first
    // a pair is written as two numbers, three and more as a range
    parts.push(last === first ? `${first}` : last === first + 1 ? `${first},${last}` : `${first}-${last}`)
    at = end + 1
  }
  return parts.join(",")
}

const indexOf = (pod: Objects.Pod): number => Number(pod.metadata.annotations?.[indexKey] ?? "-1")

const onlyReplacesFailed = (job: Objects.Job): boolean =>
  job.spec.podReplacementPolicy === "Failed" || job.spec.podFailurePolicy !== undefined

const isFailed = (pod: Objects.Pod, job: Objects.Job): boolean => {
  const phase = pod.status?.phase
  if (phase === "Failed") return true
  if (pod.metadata.deletionTimestamp === undefined) return false
  return onlyReplacesFailed(job) ? phase === "Pending" : phase !== "Succeeded"
}

const finishTime = (pod: Objects.Pod, now: number): number => {
  const ended = (pod.status?.containerStatuses ?? []).flatMap((status) =>
    typeof status.state.terminated?.finishedAt === "string" ? [status.state.terminated.finishedAt] : []
  )
  if (ended.length > 0) return Math.max(...ended.map(Objects.parseTime))
  const { deletionGracePeriodSeconds, deletionTimestamp } = pod.metadata
  return deletionTimestamp === undefined
    ? now
    : Objects.parseTime(deletionTimestamp) - (deletionGracePeriodSeconds ?? 0) * 1000
}

interface Target {
  readonly type: "FailureTarget" | "SuccessCriteriaMet"
  readonly reason: string
  readonly message: string
}

type PolicyVerdict = { readonly _tag: "FailJob"; readonly message: string } | { readonly _tag: "Ignore" | "Count" }

const policyVerdict = (job: Objects.Job, pod: Objects.Pod): PolicyVerdict => {
  const rules = job.spec.podFailurePolicy?.rules ?? []
  for (const [index, rule] of rules.entries()) {
    const codes = rule.onExitCodes
    let message: string | undefined
    if (codes !== undefined) {
      const match = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])].find(
        (status) => {
          const code = status.state.terminated?.exitCode
          if (code === undefined || code === 0) return false
          if (typeof codes.containerName === "string" && codes.containerName !== status.name) return false
          return codes.operator === "In" ? codes.values.includes(code) : !codes.values.includes(code)
        }
      )
      if (match !== undefined) {
        message = `Container ${match.name} for pod ${Objects.keyOf(pod)} failed with exit code ${String(
          match.state.terminated?.exitCode
        )} matching ${rule.action} rule at index ${index}`
      }
    }
    const condition = rule.onPodConditions?.find((pattern) =>
      pod.status?.conditions?.some((each) => each.type === pattern.type && each.status === (pattern.status ?? "True"))
    )
    if (condition !== undefined) {
      message = `Pod ${Objects.keyOf(pod)} has condition ${condition.type} matching ${rule.action} rule at index ${index}`
    }
    if (message === undefined) continue
    return rule.action === "FailJob"
      ? { _tag: "FailJob", message }
      : { _tag: rule.action === "Ignore" ? "Ignore" : "Count" }
  }
  return { _tag: "Count" }
}

const withIndexEnv = (container: Objects.Container): Objects.Container => ({
  ...container,
  env: [
    ...(container.env ?? []),
    {
      name: "JOB_COMPLETION_INDEX",
      valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: `metadata.labels['${indexKey}']` } }
    }
  ]
})

const newPod = (job: Objects.Job, index: number | undefined): object => {
  const { metadata, spec } = job.spec.template
  const name = job.metadata.name
  const indexed = index === undefined ? {} : { [indexKey]: String(index) }
  return {
    metadata: {
      generateName: index === undefined ? `${name}-` : `${name}-${index}-`,
      namespace: job.metadata.namespace,
      labels: { ...metadata?.labels, ...indexed },
      ...(metadata?.annotations === undefined && index === undefined
        ? {}
        : { annotations: { ...metadata?.annotations, ...indexed } }),
      ownerReferences: [Objects.ownedBy(job)],
      finalizers: [trackingFinalizer]
    },
    spec:
      index === undefined
        ? spec
        : {
            ...spec,
            containers: spec.containers.map(withIndexEnv),
            ...(spec.initContainers === undefined ? {} : { initContainers: spec.initContainers.map(withIndexEnv) }),
            hostname: `${name}-${index}`
          }
  }
}

interface BackOff {
  readonly failures: number
  readonly last: number
}

const removeFinalizer = (pod: Objects.Pod) =>
  Objects.patch(Objects.pods, pod, {
    metadata: {
      finalizers: nullWhenEmpty((pod.metadata.finalizers ?? []).filter((name) => name !== trackingFinalizer))
    }
  })

const nullWhenEmpty = (names: ReadonlyArray<string>): ReadonlyArray<string> | null =>
  names.length === 0 ? null : names

function* untrack(context: Context, pod: Objects.Pod): Work {
  const current = context.view.get(Objects.pods, pod.metadata.namespace, pod.metadata.name)
  if (current !== undefined && current.metadata.uid === pod.metadata.uid && isTracked(current)) {
    yield* send(removeFinalizer(current))
  }
}

function* orphan(context: Context, key: string): Work {
  const { name, namespace } = Objects.splitKey(key)
  const pod = context.view.get(Objects.pods, namespace, name)
  if (pod === undefined) return
  const owner = isJobOf(pod)
  const job = owner === undefined ? undefined : context.view.get(Objects.jobs, namespace, owner.name)
  if (job === undefined || job.metadata.uid !== owner?.uid) yield* untrack(context, pod)
}

const event = (
  regarding: Objects.Raw,
  type: "Normal" | "Warning",
  reason: string,
  message: string
): Events.Occurrence => ({
  regarding,
  type,
  reason,
  message
})

function* deletePods(context: Context, job: Objects.Job, pods: ReadonlyArray<Objects.Pod>): Work {
  for (const pod of pods) {
    yield* send(Objects.remove(Objects.pods, pod))
    yield* Events.legacy(
      context,
      component,
      event(job, "Normal", "SuccessfulDelete", `Deleted pod: ${pod.metadata.name}`)
    )
  }
}

interface Memory {
  /** Of Jobs whose pods failed. */
  readonly backOffs: Map<string, BackOff>
  /** How often in a row the server refused to create a pod of a Job. */
  readonly refusals: Map<string, number>
}

function* sync(context: Context, job: Objects.Job, memory: Memory): Work {
  const { backOffs } = memory
  const { uid } = job.metadata
  const owned = context.view
    .ownedBy(Objects.pods, uid)
    .filter((pod) => Objects.controllerOf(pod)?.uid === uid)
    .toSorted((a, b) => indexOf(a) - indexOf(b))
  if (job.metadata.deletionTimestamp !== undefined) for (const pod of owned) yield* untrack(context, pod)

  const now = context.now()
  const indexed = job.spec.completionMode === "Indexed"
  const status = job.status ?? {}
  const suspended = job.spec.suspend === true
  const deleting = job.metadata.deletionTimestamp !== undefined
  const wakes: Array<Wake> = []

  let active = owned.filter((pod) => !isTerminal(pod) && pod.metadata.deletionTimestamp === undefined)
  let terminating = owned.filter((pod) => !isTerminal(pod) && pod.metadata.deletionTimestamp !== undefined)
  const prior = status.uncountedTerminatedPods?.failed ?? []
  const tracked = deleting ? [] : owned.filter((pod) => isTracked(pod) && !prior.includes(pod.metadata.uid))
  const succeededPods = tracked.filter((pod) => pod.status?.phase === "Succeeded")
  const failedPods = tracked.filter((pod) => isFailed(pod, job))
  const counted = failedPods.filter((pod) => policyVerdict(job, pod)._tag !== "Ignore")
  const succeededIndexes = parseIndexes(status.completedIndexes)
  if (indexed) for (const pod of succeededPods) succeededIndexes.add(indexOf(pod))
  const succeeded = indexed ? succeededIndexes.size : (status.succeeded ?? 0) + succeededPods.length
  const failedBefore = status.failed ?? 0

  let backOff = backOffs.get(uid) ?? { failures: 0, last: 0 }
  if (succeededPods.length > 0) backOff = { failures: 0, last: 0 }
  if (counted.length > 0) {
    backOff = {
      failures: backOff.failures + counted.length,
      last: Math.max(backOff.last, ...counted.map((pod) => finishTime(pod, now)))
    }
  }
  backOffs.set(uid, backOff)

  let conditions = status.conditions
  let startTime = status.startTime
  const at = Objects.time(now)
  const occurrences: Array<Events.Occurrence> = []
  const setCondition = (type: string, conditionStatus: string, reason: string, message: string): void => {
    conditions = Objects.withCondition(conditions, {
      type,
      status: conditionStatus,
      lastProbeTime: at,
      lastTransitionTime: at,
      reason,
      message
    })
  }

  const target = ((): Target | undefined => {
    for (const type of ["FailureTarget", "SuccessCriteriaMet"] as const) {
      const existing = Objects.conditionOf(status.conditions, type)
      if (existing?.status === "True") {
        return { type, reason: existing.reason ?? "", message: existing.message ?? "" }
      }
    }
    if (deleting) return undefined
    for (const pod of failedPods) {
      const verdict = policyVerdict(job, pod)
      if (verdict._tag === "FailJob") {
        return { type: "FailureTarget", reason: "PodFailurePolicy", message: verdict.message }
      }
    }
    const limit = job.spec.backoffLimit ?? 6
    const restarts = active
      .flatMap((pod) => [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])])
      .reduce((sum, container) => sum + container.restartCount, 0)
    // a limit of 0 and one of 1 alike are reached by the first restart in place
    const pastLimit = job.spec.template.spec.restartPolicy === "OnFailure" && restarts >= Math.max(limit, 1)
    if ((counted.length > 0 && failedBefore + prior.length + counted.length > limit) || pastLimit) {
      return {
        type: "FailureTarget",
        reason: "BackoffLimitExceeded",
        message: "Job has reached the specified backoff limit"
      }
    }
    const deadline = job.spec.activeDeadlineSeconds
    if (deadline !== undefined && startTime !== undefined && !suspended) {
      const left = Objects.parseTime(startTime) + deadline * 1000 - now
      if (left <= 0) {
        return {
          type: "FailureTarget",
          reason: "DeadlineExceeded",
          message: "Job was active longer than specified deadline"
        }
      }
      wakes.push({ key: context.key, wait: left })
    }
    const wanted = job.spec.completions
    const complete =
      wanted === undefined
        ? succeeded > 0 && active.length === 0 && terminating.length === 0
        : indexed
          ? succeeded >= wanted
          : succeeded >= wanted && active.length === 0
    return complete
      ? {
          type: "SuccessCriteriaMet",
          reason: "CompletionsReached",
          message: "Reached expected number of succeeded pods"
        }
      : undefined
  })()

  if (!suspended && !deleting) startTime ??= at
  let ready = active.filter((pod) => Objects.isTrue(pod.status?.conditions, "Ready")).length
  let created = 0
  let toCount = counted
  let released = [...succeededPods, ...failedPods]
  if (target !== undefined) {
    setCondition(target.type, "True", target.reason, target.message)
    yield* deletePods(context, job, active)
    if (target.type === "FailureTarget") {
      // healthy pods that the failure takes along count as failed too
      toCount = [...counted, ...tracked.filter((pod) => !isTerminal(pod) && !failedPods.includes(pod))]
      released = [...succeededPods, ...failedPods, ...toCount.filter((pod) => !failedPods.includes(pod))]
    }
    terminating = [...terminating, ...active]
    active = []
    ready = 0
  } else if (deleting) {
    // pods of a Job that goes away are the garbage collector's
  } else if (suspended) {
    for (const pod of active) yield* untrack(context, pod)
    yield* deletePods(context, job, active)
    terminating = [...terminating, ...active]
    active = []
    ready = 0
    startTime = undefined
    if (!Objects.isTrue(conditions, "Suspended")) {
      setCondition("Suspended", "True", "JobSuspended", "Job suspended")
      occurrences.push(event(job, "Normal", "Suspended", "Job suspended"))
    }
  } else {
    if (Objects.isTrue(conditions, "Suspended")) {
      setCondition("Suspended", "False", "JobResumed", "Job resumed")
      occurrences.push(event(job, "Normal", "Resumed", "Job resumed"))
      startTime = at
    } else {
      startTime ??= at
    }
    const parallelism = job.spec.parallelism ?? 1
    const completions = job.spec.completions
    const wantActive = Math.min(parallelism, completions === undefined ? parallelism : completions - succeeded)
    const blocking = onlyReplacesFailed(job) ? terminating : []
    const missing = wantActive - active.length - blocking.length
    const delay =
      backOff.failures === 0
        ? 0
        : backOff.last + Math.min(backOffBase * 2 ** (backOff.failures - 1), backOffLimit) - now
    if (missing > 0 && delay > 0) {
      wakes.push({ key: context.key, wait: delay })
    } else if (missing > 0) {
      const taken = new Set([...active, ...blocking].map(indexOf))
      const wantedIndexes: Array<number | undefined> = indexed ? [] : Array.from({ length: missing }, () => undefined)
      for (let index = 0; wantedIndexes.length < missing && index < (completions ?? 0); index++) {
        if (!succeededIndexes.has(index) && !taken.has(index)) wantedIndexes.push(index)
      }
      for (const index of wantedIndexes) {
        const answer = yield* send(Objects.create(Objects.pods, job.metadata.namespace, newPod(job, index)))
        if (Either.isRight(answer)) {
          created++
          memory.refusals.delete(job.metadata.uid)
          const name = nameOfCreated(answer.right)
          yield* Events.legacy(context, component, event(job, "Normal", "SuccessfulCreate", `Created pod: ${name}`))
        } else {
          yield* Events.legacy(
            context,
            component,
            event(job, "Warning", "FailedCreate", `Error creating: ${answer.left.status?.message ?? ""}`)
          )
          const tries = memory.refusals.get(job.metadata.uid) ?? 0
          memory.refusals.set(job.metadata.uid, tries + 1)
          wakes.push({ key: context.key, wait: Math.min(refusedBase * 2 ** tries, refusedLimit) })
          break
        }
      }
    }
  }

  const counters = {
    active: positive(active.length + created),
    terminating: terminating.length,
    ready,
    startTime
  }
  const uncounted = [...prior, ...toCount.map((pod) => pod.metadata.uid)]
  const first: Objects.JobStatus = Objects.compact({
    ...status,
    conditions,
    ...counters,
    ...(indexed
      ? {
          succeeded: positive(succeeded),
          completedIndexes: succeeded === 0 ? undefined : formatIndexes(succeededIndexes)
        }
      : { succeeded: positive(succeeded) }),
    uncountedTerminatedPods: uncounted.length === 0 ? {} : { failed: uncounted }
  })
  if (!(yield* writeStatus(context, job, first))) return [{ key: context.key, wait: 0 }]
  for (const occurrence of occurrences) yield* Events.legacy(context, component, occurrence)
  for (const pod of released) yield* untrack(context, pod)

  const final =
    target === undefined || terminating.length > 0 ? undefined : target.type === "FailureTarget" ? "Failed" : "Complete"
  if (final !== undefined && target !== undefined) setCondition(final, "True", target.reason, target.message)
  const second: Objects.JobStatus = Objects.compact({
    ...first,
    conditions,
    failed: positive(failedBefore + uncounted.length),
    uncountedTerminatedPods: {},
    completionTime: final === "Complete" ? Objects.time(context.now()) : undefined
  })
  if (!(yield* writeStatus(context, job, second))) return [{ key: context.key, wait: 0 }]
  if (final !== undefined && target !== undefined) {
    yield* Events.legacy(
      context,
      component,
      final === "Complete"
        ? event(job, "Normal", "Completed", "Job completed")
        : event(job, "Warning", target.reason, target.message)
    )
  }
  return wakes
}

const positive = (count: number): number | undefined => (count > 0 ? count : undefined)

const nameOfCreated = (body: unknown): string =>
  typeof body === "object" && body !== null && "metadata" in body ? (body as Objects.Raw).metadata.name : ""

/** Writes a status over the newest version of an object of the same uid; false when it must be looked at again. */
function* writeStatus(context: Context, job: Objects.Job, status: Objects.JobStatus): Generator<Act, boolean, Answer> {
  const current = context.view.get(Objects.jobs, job.metadata.namespace, job.metadata.name)
  if (current === undefined || current.metadata.uid !== job.metadata.uid) return true
  const answer = yield* sendIf(Objects.patchStatus(Objects.jobs, current, status))
  return answer === undefined || Either.isRight(answer)
}

const watches = (change: Change, view: View): Iterable<Wake> => {
  const { object } = change
  if (Objects.is(Objects.jobs, object)) {
    const key = Objects.keyOf(object)
    if (change.type === "DELETED") {
      return view
        .ownedBy(Objects.pods, object.metadata.uid)
        .map((pod) => ({ key: `${orphanPrefix}${Objects.keyOf(pod)}` }))
    }
    const immediate =
      change.previous === undefined || change.previous.metadata.generation !== object.metadata.generation
    return [immediate ? { key } : { key, wait: batch }]
  }
  if (!Objects.is(Objects.pods, object)) return []
  const owner = isJobOf(object)
  if (owner === undefined) return []
  const job = view.get(Objects.jobs, object.metadata.namespace, owner.name)
  if (job?.metadata.uid === owner.uid) return [{ key: Objects.keyOf(job), wait: batch }]
  return change.type !== "DELETED" && isTracked(object) ? [{ key: `${orphanPrefix}${Objects.keyOf(object)}` }] : []
}

/** The Job controller. */
export const stage: Stage = {
  name: "job",
  latency: 10,
  start: () => {
    const memory: Memory = { backOffs: new Map(), refusals: new Map() }
    return {
      watches: (change, view) => {
        if (change.type === "DELETED" && Objects.is(Objects.jobs, change.object)) {
          memory.backOffs.delete(change.object.metadata.uid)
          memory.refusals.delete(change.object.metadata.uid)
        }
        return watches(change, view)
      },
      reconcile: function* (context) {
        if (context.key.startsWith(orphanPrefix)) return yield* orphan(context, context.key.slice(orphanPrefix.length))
        const { name, namespace } = Objects.splitKey(context.key)
        const job = context.view.get(Objects.jobs, namespace, name)
        if (job === undefined || isFinished(job)) return
        if (job.spec.managedBy !== undefined && job.spec.managedBy !== "kubernetes.io/job-controller") return
        return yield* sync(context, job, memory)
      }
    }
  }
}
