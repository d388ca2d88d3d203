/**
 * Kueue's scheduler: who gets quota of a ClusterQueue, in which flavor, and who must give it up. One queue at a time; what
 * did not fit is tried again when quota is freed, a second later.
 *
 * Not modelled: cohorts, borrowing, fair sharing, topology, partial admission.
 *
 * @module
 */
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send } from "../Stage.js"
import * as Quantity from "../internal/Quantity.js"
import * as Resources from "../internal/Resources.js"
import * as Events from "./Events.js"
import * as Kueue from "./KueueObjects.js"
import * as Objects from "./Objects.js"

/** How long freed quota and changed selectors are gathered before what did not fit is tried again, milliseconds. */
const batch = 1000

// --- flavors -----------------------------------------------------------------------------------------------------------

type Usage = ReadonlyMap<string, number>

const usageKey = (flavor: string, resource: string): string => `${flavor} ${resource}`

const usageOf = (workloads: ReadonlyArray<Kueue.Workload>): Usage => {
  const usage = new Map<string, number>()
  for (const { flavors, resourceUsage } of workloads.flatMap(
    ({ status }) => status?.admission?.podSetAssignments ?? []
  )) {
    for (const [resource, amount] of Object.entries(resourceUsage)) {
      const key = usageKey(flavors[resource] ?? "", resource)
      usage.set(key, (usage.get(key) ?? 0) + Quantity.of(resource, amount))
    }
  }
  return usage
}

/** What one pod set asks for: the sum over its pods. */
const requestsOf = ({ count, template }: Kueue.PodSet): Resources.Amounts =>
  new Map([...Resources.ofPod(template.spec)].map(([name, amount]) => [name, amount * count]))

const requestTexts = (workload: Kueue.Workload): NonNullable<Kueue.WorkloadStatus["resourceRequests"]> =>
  workload.spec.podSets.map((podSet) => ({
    name: podSet.name,
    resources: Object.fromEntries([...requestsOf(podSet)].map(([name, value]) => [name, Quantity.text(name, value)]))
  }))

type Mode = "fit" | "preempt" | "none"

interface Assigned {
  readonly mode: Mode
  readonly assignments: ReadonlyArray<Kueue.Assignment>
  readonly message: string
}

const worst = (a: Mode, b: Mode): Mode => (a === "none" || b === "none" ? "none" : a === "fit" ? b : a)

const untolerated = (
  flavor: Kueue.ResourceFlavor,
  tolerations: ReadonlyArray<Objects.Toleration>
): Objects.Taint | undefined =>
  (flavor.spec?.nodeTaints ?? []).find(
    (taint) =>
      taint.effect !== "PreferNoSchedule" &&
      ![...tolerations, ...(flavor.spec?.tolerations ?? [])].some(
        ({ effect, key, operator, value }) =>
          (effect === undefined || effect === "" || effect === taint.effect) &&
          (key === undefined || key === "" ? operator === "Exists" : key === taint.key) &&
          (operator === "Exists" || (value ?? "") === (taint.value ?? ""))
      )
  )

/** A flavor's labels that the pod selects otherwise. */
const misses = (flavor: Kueue.ResourceFlavor, selector: Objects.StringMap): boolean =>
  Object.entries(flavor.spec?.nodeLabels ?? {}).some(([key, value]) => (selector[key] ?? value) !== value)

interface Tried {
  readonly flavor: string
  readonly mode: Mode
  readonly reasons: ReadonlyArray<string>
}

const tryFlavor = (
  view: View,
  flavor: Kueue.FlavorQuotas,
  podSet: Kueue.PodSet,
  wanted: ReadonlyArray<readonly [string, number]>,
  usage: Usage,
  taken: Usage
): Tried => {
  const object = view.get(Kueue.resourceFlavors, undefined, flavor.name)
  if (object === undefined) return { flavor: flavor.name, mode: "none", reasons: [`flavor ${flavor.name} not found`] }
  const { nodeSelector = {}, tolerations = [] } = podSet.template.spec
  const taint = untolerated(object, tolerations)
  if (taint !== undefined) {
    const text = `${taint.key}=${taint.value ?? ""}:${taint.effect}`
    return { flavor: flavor.name, mode: "none", reasons: [`untolerated taint {${text}} in flavor ${flavor.name}`] }
  }
  if (misses(object, nodeSelector)) {
    return { flavor: flavor.name, mode: "none", reasons: [`flavor ${flavor.name} doesn't match node affinity`] }
  }
  let mode: Mode = "fit"
  const reasons: Array<string> = []
  for (const [resource, amount] of wanted) {
    const quota = Quantity.of(resource, flavor.resources.find(({ name }) => name === resource)?.nominalQuota)
    const key = usageKey(flavor.name, resource)
    const before = taken.get(key) ?? 0
    if (before + amount > quota) {
      const text = (value: number): string => Quantity.text(resource, value)
      reasons.push(
        `insufficient quota for ${resource} in flavor ${flavor.name}, previously considered podsets requests (${text(before)}) + current podset request (${text(amount)}) > maximum capacity (${text(quota)})`
      )
      mode = "none"
      continue
    }
    const lacking = (usage.get(key) ?? 0) + before + amount - quota
    if (lacking > 0) {
      reasons.push(
        `insufficient unused quota for ${resource} in flavor ${flavor.name}, ${Quantity.text(resource, lacking)} more needed`
      )
      mode = worst(mode, "preempt")
    }
  }
  return { flavor: flavor.name, mode, reasons }
}

const preference = { fit: 0, preempt: 1, none: 2 } as const

/** Assigns flavors to every pod set of a Workload, given what the others use. */
const assign = (view: View, queue: Kueue.ClusterQueue, workload: Kueue.Workload, usage: Usage): Assigned => {
  const taken = new Map<string, number>()
  const assignments: Array<Kueue.Assignment> = []
  const messages: Array<string> = []
  let mode: Mode = "fit"
  for (const podSet of workload.spec.podSets) {
    const requests = requestsOf(podSet)
    const flavors: Record<string, string> = {}
    const reasons: Array<string> = []
    const groups = queue.spec.resourceGroups ?? []
    for (const resource of requests.keys()) {
      if (groups.some(({ coveredResources }) => coveredResources.includes(resource))) continue
      reasons.push(`resource ${resource} unavailable in ClusterQueue`)
      mode = "none"
    }
    for (const group of groups) {
      const wanted = [...requests].filter(([name]) => group.coveredResources.includes(name))
      if (wanted.length === 0) continue
      const tried = group.flavors.map((flavor) => tryFlavor(view, flavor, podSet, wanted, usage, taken))
      const best = tried.toSorted((a, b) => preference[a.mode] - preference[b.mode])[0]
      if (best === undefined) continue
      mode = worst(mode, best.mode)
      if (best.mode !== "fit") reasons.push(...tried.flatMap((each) => each.reasons))
      for (const [resource, amount] of wanted) {
        flavors[resource] = best.flavor
        const key = usageKey(best.flavor, resource)
        taken.set(key, (taken.get(key) ?? 0) + amount)
      }
    }
    if (reasons.length > 0) {
      messages.push(`couldn't assign flavors to pod set ${podSet.name}: ${reasons.toSorted().join(", ")}`)
    }
    assignments.push({
      name: podSet.name,
      count: podSet.count,
      flavors,
      resourceUsage: Object.fromEntries([...requests].map(([name, value]) => [name, Quantity.text(name, value)]))
    })
  }
  return { mode, assignments, message: messages.join("; ") }
}

// --- preemption --------------------------------------------------------------------------------------------------------

const priorityOf = (workload: Kueue.Workload): number => workload.spec.priority ?? 0

const reservedSince = (workload: Kueue.Workload): string =>
  Kueue.conditionOf(workload, "QuotaReserved")?.lastTransitionTime ?? ""

/** Those that may have to go, the first to go first. */
const candidates = (
  queue: Kueue.ClusterQueue,
  workload: Kueue.Workload,
  holders: ReadonlyArray<Kueue.Workload>
): ReadonlyArray<Kueue.Workload> => {
  const policy = queue.spec.preemption?.withinClusterQueue ?? "Never"
  if (policy === "Never") return []
  const since = workload.metadata.creationTimestamp ?? ""
  return holders
    .filter((holder) => {
      if (priorityOf(holder) < priorityOf(workload)) return true
      return (
        policy === "LowerOrNewerEqualPriority" &&
        priorityOf(holder) === priorityOf(workload) &&
        (holder.metadata.creationTimestamp ?? "") > since
      )
    })
    .toSorted(
      (a, b) =>
        Number(Kueue.isEvicted(b)) - Number(Kueue.isEvicted(a)) ||
        priorityOf(a) - priorityOf(b) ||
        (reservedSince(a) < reservedSince(b) ? 1 : reservedSince(a) > reservedSince(b) ? -1 : 0) ||
        (a.metadata.uid < b.metadata.uid ? -1 : 1)
    )
}

/** The fewest that must go so that the Workload fits; empty when all of them are not enough. */
const victims = (
  view: View,
  queue: Kueue.ClusterQueue,
  workload: Kueue.Workload,
  holders: ReadonlyArray<Kueue.Workload>
): ReadonlyArray<Kueue.Workload> => {
  const fitsWithout = (gone: ReadonlyArray<Kueue.Workload>): boolean => {
    const rest = holders.filter((holder) => !gone.includes(holder))
    return assign(view, queue, workload, usageOf(rest)).mode === "fit"
  }
  const gone: Array<Kueue.Workload> = []
  for (const candidate of candidates(queue, workload, holders)) {
    gone.push(candidate)
    if (!fitsWithout(gone)) continue
    return gone.filter(
      (each, index) => index === gone.length - 1 || !fitsWithout(gone.filter((other) => other !== each))
    )
  }
  return []
}

function* preempt(
  context: Context,
  queue: Kueue.ClusterQueue,
  workload: Kueue.Workload,
  victim: Kueue.Workload
): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  const name = queue.metadata.name
  const jobUid = workload.metadata.labels?.[Kueue.jobUidLabel] ?? ""
  const message = `Preempted to accommodate a workload (UID: ${workload.metadata.uid}, JobUID: ${jobUid}) due to prioritization in the ClusterQueue; preemptor path: /${name}; preemptee path: /${name}`
  const status = Kueue.evicted(victim, { reason: "Preempted", message }, at)
  const { observedGeneration: _, ...preempted } = Kueue.condition(
    victim,
    "Preempted",
    "True",
    "InClusterQueue",
    message,
    at
  )
  yield* send(Kueue.applyStatus(victim, Kueue.withConditions(status, preempted)))
  const priorities = `preemptor effective priority: ${priorityOf(workload)} (base: ${priorityOf(workload)}, boost: 0); preemptee effective priority: ${priorityOf(victim)} (base: ${priorityOf(victim)}, boost: 0)`
  const tell = (regarding: Kueue.Workload, reason: string, text: string) =>
    Events.legacy(context, Kueue.admissionManager, { regarding, type: "Normal", reason, message: text })
  yield* tell(victim, "EvictedDueToPreempted", message)
  yield* tell(victim, "Preempted", `${message}; ${priorities}`)
  yield* tell(
    workload,
    "PreemptedWorkload",
    `Preempted workload ${Objects.keyOf(victim)} (UID: ${victim.metadata.uid}) in ClusterQueue ${name}; ${priorities}`
  )
}

// --- one Workload ------------------------------------------------------------------------------------------------------

const previously = (workload: Kueue.Workload, type: string, at: string): ReadonlyArray<Objects.Condition> => {
  const present = Kueue.conditionOf(workload, type)
  return present?.status === "True"
    ? [Kueue.condition(workload, type, "False", "QuotaReserved", `Previously: ${present.message ?? ""}`, at)]
    : []
}

const queuedSince = (workload: Kueue.Workload): string | undefined => {
  const requeued = Kueue.conditionOf(workload, "Requeued")
  return requeued?.status === "True" ? requeued.lastTransitionTime : workload.metadata.creationTimestamp
}

function* reserve(
  context: Context,
  queue: Kueue.ClusterQueue,
  workload: Kueue.Workload,
  assignments: ReadonlyArray<Kueue.Assignment>
): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  const { name } = queue.metadata
  const message = `Quota reserved in ClusterQueue ${name}`
  const { resourceRequests: _, ...before } = workload.status ?? {}
  const admission = { clusterQueue: name, podSetAssignments: assignments }
  const entries = before.admissionChecks ?? []
  const required = Kueue.requiredChecks(queue, { ...workload, status: { ...before, admission } })
  const isAdmitted = required.length === 0 ? entries.length === 0 : Kueue.passes(required, entries)
  // the queue's copy of a new Workload is older than its checks: what it does not know it does not apply
  const known = before.conditions === undefined ? Objects.without(before, "admissionChecks") : before
  const status = Kueue.withConditions(
    { ...known, admission },
    Kueue.condition(workload, "QuotaReserved", "True", "QuotaReserved", message, at),
    ...previously(workload, "Evicted", at),
    ...previously(workload, "Preempted", at),
    ...(isAdmitted ? [Kueue.condition(workload, "Admitted", "True", "Admitted", "The workload is admitted", at)] : [])
  )
  yield* send(Kueue.applyStatus(workload, status))
  const tell = (reason: string, text: string) =>
    Events.legacy(context, Kueue.admissionManager, { regarding: workload, type: "Normal", reason, message: text })
  yield* tell(
    "QuotaReserved",
    `${message}, wait time since queued was ${Kueue.waited(context.now(), queuedSince(workload))}`
  )
  if (isAdmitted) yield* tell("Admitted", `Admitted by ClusterQueue ${name}, wait time since reservation was 0s`)
}

function* wait(context: Context, workload: Kueue.Workload, message: string): Generator<Act, void, Answer> {
  const at = Objects.time(context.now())
  const status: Kueue.WorkloadStatus = {
    ...Kueue.withConditions(
      workload.status,
      Kueue.condition(workload, "QuotaReserved", "False", "Pending", message, at)
    ),
    resourceRequests: requestTexts(workload)
  }
  if (!Objects.same(status, workload.status)) yield* send(Kueue.applyStatus(workload, status))
  yield* Events.legacy(context, Kueue.admissionManager, {
    regarding: workload,
    type: "Warning",
    reason: "Pending",
    message
  })
}

/** What became of one that was tried. */
type Outcome = "reserved" | "preempting" | "parked"

function* attempt(
  context: Context,
  queue: Kueue.ClusterQueue,
  workload: Kueue.Workload
): Generator<Act, Outcome, Answer> {
  const { view } = context
  const namespace = view.get(Objects.namespaces, undefined, workload.metadata.namespace ?? "")
  const labels = { "kubernetes.io/metadata.name": workload.metadata.namespace ?? "", ...namespace?.metadata.labels }
  if (!Kueue.selects(queue.spec.namespaceSelector, labels)) {
    yield* wait(context, workload, "Workload namespace doesn't match ClusterQueue selector")
    return "parked"
  }
  const holders = view
    .list(Kueue.workloads)
    .filter((each) => Kueue.takesQuota(each) && each.status?.admission?.clusterQueue === queue.metadata.name)
  const assigned = assign(view, queue, workload, usageOf(holders))
  if (assigned.mode === "fit") {
    yield* reserve(context, queue, workload, assigned.assignments)
    return "reserved"
  }
  const gone = assigned.mode === "preempt" ? victims(view, queue, workload, holders) : []
  if (gone.length === 0) {
    yield* wait(context, workload, assigned.message)
    return "parked"
  }
  for (const victim of gone) {
    const current = view.get(Kueue.workloads, victim.metadata.namespace, victim.metadata.name)
    if (current !== undefined && !Kueue.isEvicted(current)) yield* preempt(context, queue, workload, current)
  }
  const current = view.get(Kueue.workloads, workload.metadata.namespace, workload.metadata.name)
  if (current !== undefined) {
    yield* wait(context, current, `${assigned.message}. Pending the preemption of ${gone.length} workload(s)`)
  }
  return "preempting"
}

// --- the queue ---------------------------------------------------------------------------------------------------------

const mayQueue = (view: View, workload: Kueue.Workload): boolean => {
  if (!Kueue.isActive(workload) || Kueue.isDeleting(workload)) return false
  if (Kueue.isFinished(workload) || Kueue.isReserved(workload)) return false
  if (Kueue.conditionOf(workload, "Requeued")?.status === "False") return false
  // evicted by Kueue for good, and never had a Requeued condition to turn
  if (Kueue.has(workload, "DeactivationTarget")) return false
  const queue = Kueue.localQueueOf(view, workload)
  return queue !== undefined && !Kueue.isStopped(queue) && !Kueue.isDeleting(queue)
}

const queueOrder = (workload: Kueue.Workload): string => {
  const evicted = Kueue.conditionOf(workload, "Evicted")
  return evicted?.status === "True" && evicted.reason === "PodsReadyTimeout"
    ? (evicted.lastTransitionTime ?? "")
    : (workload.metadata.creationTimestamp ?? "")
}

const heads = (view: View, name: string): ReadonlyArray<Kueue.Workload> =>
  view
    .list(Kueue.workloads)
    .filter((workload) => Kueue.localQueueOf(view, workload)?.spec.clusterQueue === name && mayQueue(view, workload))
    .toSorted(
      (a, b) =>
        priorityOf(b) - priorityOf(a) ||
        (queueOrder(a) < queueOrder(b) ? -1 : queueOrder(a) > queueOrder(b) ? 1 : 0) ||
        Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion)
    )

const flushKey = "flush "

/** The Workloads that did not fit, with the generation that was tried. */
type Parked = Map<string, number>

function* reconcile(context: Context, parked: Parked): Work {
  const isFlush = context.key.startsWith(flushKey)
  const name = isFlush ? context.key.slice(flushKey.length) : context.key
  const queue = context.view.get(Kueue.clusterQueues, undefined, name)
  if (queue === undefined || !Kueue.isOpen(queue) || Kueue.isStopped(queue) || Kueue.isDeleting(queue)) return
  const waiting = heads(context.view, name)
  if (isFlush) for (const { metadata } of waiting) parked.delete(metadata.uid)
  for (const each of waiting) {
    const { generation = 1, name: own, namespace, uid } = each.metadata
    if (parked.get(uid) === generation) {
      if (queue.spec.queueingStrategy === "StrictFIFO") return
      continue
    }
    const workload = context.view.get(Kueue.workloads, namespace, own)
    if (workload?.metadata.uid !== uid || !mayQueue(context.view, workload)) continue
    const outcome = yield* attempt(context, queue, workload)
    if (outcome === "parked") parked.set(uid, generation)
    else parked.delete(uid)
    if (outcome !== "reserved" && queue.spec.queueingStrategy === "StrictFIFO") return
    // what it waits for is not to be taken by the next one
    if (outcome === "preempting") return
  }
}

const watches = (change: Change, view: View, parked: Parked): Iterable<Wake> => {
  const { object, previous } = change
  if (Objects.is(Kueue.workloads, object)) {
    const before = previous !== undefined && Objects.is(Kueue.workloads, previous) ? previous : undefined
    const isGone = change.type === "DELETED"
    const freed = before !== undefined && Kueue.takesQuota(before) && (isGone || !Kueue.takesQuota(object))
    const wakes: Array<Wake> = []
    if (freed) {
      parked.delete(object.metadata.uid)
      const name = before.status?.admission?.clusterQueue
      if (name !== undefined) wakes.push({ key: name }, { key: `${flushKey}${name}`, wait: batch })
    }
    const name = Kueue.localQueueOf(view, object)?.spec.clusterQueue
    if (!isGone && name !== undefined && mayQueue(view, object)) wakes.push({ key: name })
    return wakes
  }
  if (Objects.is(Kueue.clusterQueues, object)) {
    if (change.type === "DELETED") return []
    const { name } = object.metadata
    const before = previous !== undefined && Objects.is(Kueue.clusterQueues, previous) ? previous : undefined
    const opened = Kueue.isOpen(object) && (before === undefined || !Kueue.isOpen(before))
    if (opened) return [{ key: `${flushKey}${name}`, latency: 3 }]
    return before !== undefined && before.metadata.generation !== object.metadata.generation
      ? [{ key: `${flushKey}${name}`, wait: batch }]
      : []
  }
  if (Objects.is(Kueue.localQueues, object)) {
    const before = previous !== undefined && Objects.is(Kueue.localQueues, previous) ? previous : undefined
    const opened = Kueue.isOpen(object) && (before === undefined || !Kueue.isOpen(before))
    return opened && change.type !== "DELETED" ? [{ key: `${flushKey}${object.spec.clusterQueue}`, latency: 3 }] : []
  }
  if (Objects.is(Objects.namespaces, object) && previous !== undefined) {
    const changed = !Objects.same(object.metadata.labels, previous.metadata.labels)
    return changed
      ? view.list(Kueue.clusterQueues).map(({ metadata }) => ({ key: `${flushKey}${metadata.name}`, wait: batch }))
      : []
  }
  return []
}

/** The scheduler. */
export const stage: Stage = {
  name: "kueue-scheduler",
  latency: 25,
  start: () => {
    const parked: Parked = new Map()
    return {
      watches: (change, view) => watches(change, view, parked),
      reconcile: (context) => reconcile(context, parked)
    }
  }
}
