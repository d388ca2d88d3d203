/**
 * Kueue mode: the proof that every admission of our queue passes our admission check, from the objects as they were read.
 *
 * @module
 */
import { DateTime, Option } from "effect"
import type { KueueConfig } from "../AdapterConfig.js"
import type { Lease } from "../model/Coordination.js"
import type { Namespace } from "../model/Core.js"
import {
  type AdmissionCheck,
  type ClusterQueue,
  type LabelSelector,
  type LocalQueue,
  multiKueueManager
} from "../model/Kueue.js"
import { type Condition, condition } from "../model/Meta.js"
import type { Gate } from "./Facts.js"

/** What came of reading one object. `Skipped`: there was no reason, or no name, to read it. */
export type Read<A> =
  | { readonly _tag: "Read"; readonly object: A }
  | { readonly _tag: "Missing"; readonly message: string }
  | { readonly _tag: "Unreadable"; readonly message: string }
  | { readonly _tag: "Skipped" }

/** The version of `kueue.x-k8s.io` that the objects were read in. */
export type Served =
  | { readonly _tag: "Served"; readonly version: string }
  | { readonly _tag: "NotServed" }
  | { readonly _tag: "Undiscovered"; readonly message: string }

/** Everything that was read. Times are epoch milliseconds. */
export interface Findings {
  readonly kueue: KueueConfig
  readonly namespace: string
  readonly served: Served
  readonly localQueue: Read<LocalQueue>
  readonly clusterQueue: Read<ClusterQueue>
  readonly namespaceObject: Read<Namespace>
  /** Our check, and every other check that the ClusterQueue lists, by name. */
  readonly checks: { readonly [name: string]: Read<AdmissionCheck> }
  readonly lease: Read<Lease>
  /** The clock to judge the Lease by: the server's own (`Date` header of the Lease's response), or ours. */
  readonly now: { readonly millis: number; readonly of: "server" | "client" }
}

/** One step of the proof. */
export interface Step {
  readonly id: string
  readonly outcome: "proven" | "refuted" | "unknown" | "skipped"
  /** The object and field it is about. */
  readonly object: string
  readonly found: string
  readonly remedy: string
}

/** How far our own clock may be off, in milliseconds, when the server's is not known. */
export const skewAllowance = 5000

/** The Date header is cut to whole seconds: the server's clock may be that much later, in milliseconds. */
const headerPrecision = 1000

/** What a proof never covers; part of every `yes`. */
export const notCovered =
  "not covered: a person who un-suspends by hand, moves the queue label or edits the queue passes the gate (the watch reports it)"

const proven = (id: string, object: string, found: string): Step => ({
  id,
  outcome: "proven",
  object,
  found,
  remedy: ""
})
const refuted = (id: string, object: string, found: string, remedy: string): Step => ({
  id,
  outcome: "refuted",
  object,
  found,
  remedy
})
const unknown = (id: string, object: string, found: string, remedy: string): Step => ({
  id,
  outcome: "unknown",
  object,
  found,
  remedy
})
const skipped = (id: string, object: string, found: string): Step => ({
  id,
  outcome: "skipped",
  object,
  found,
  remedy: ""
})

const conditionText = (found: Condition | undefined): string =>
  found === undefined
    ? "has no Active condition"
    : `is Active ${found.status}${found.reason === undefined || found.reason === null ? "" : ` (${found.reason}${found.message === undefined || found.message === null || found.message === "" ? "" : `: ${found.message}`})`}`

/** Judges an object that has to exist; `judge` sees it when it does. */
const existing = <A>(id: string, object: string, read: Read<A>, remedy: string, judge: (value: A) => Step): Step => {
  switch (read._tag) {
    case "Read":
      return judge(read.object)
    case "Missing":
      return refuted(id, object, read.message, remedy)
    case "Unreadable":
      return unknown(id, object, read.message, `grant get on it, or try again`)
    case "Skipped":
      return skipped(id, object, "not read: an earlier step did not name it")
  }
}

/** The names of a ClusterQueue's checks with their flavors; `v1beta1` may have plain names, which apply to all flavors. */
export const listedChecks = (
  queue: ClusterQueue
): ReadonlyArray<{ readonly name: string; readonly onFlavors: ReadonlyArray<string> }> => [
  ...(queue.spec?.admissionChecksStrategy?.admissionChecks ?? []).map((it) => ({
    name: it.name,
    onFlavors: it.onFlavors ?? []
  })),
  ...(queue.spec?.admissionChecks ?? []).map((name) => ({ name, onFlavors: [] }))
]

/** The namespace's own name, as a label that the API server sets on every namespace. */
const nameLabel = "kubernetes.io/metadata.name"

/**
 * Whether labels satisfy a `metav1.LabelSelector`, with `undefined` as no selector, which matches nothing. `undefined` as
 * answer: it depends on a label that is not known, or on an operator that this module does not know.
 */
export const selects = (
  selector: LabelSelector | null | undefined,
  labelOf: (key: string) => { readonly known: boolean; readonly value: string | undefined }
): boolean | undefined => {
  if (selector === undefined || selector === null) return false
  let undecided = false
  const all: ReadonlyArray<{
    readonly key: string
    readonly operator: string
    readonly values?: ReadonlyArray<string> | null | undefined
  }> = [
    ...Object.entries(selector.matchLabels ?? {}).map(([key, value]) => ({ key, operator: "In", values: [value] })),
    ...(selector.matchExpressions ?? [])
  ]
  for (const { key, operator, values } of all) {
    const { known, value } = labelOf(key)
    if (!known) {
      undecided = true
      continue
    }
    switch (operator) {
      case "In":
        if (value === undefined || !(values ?? []).includes(value)) return false
        break
      case "NotIn":
        if (value !== undefined && (values ?? []).includes(value)) return false
        break
      case "Exists":
        if (value === undefined) return false
        break
      case "DoesNotExist":
        if (value !== undefined) return false
        break
      default:
        undecided = true
    }
  }
  return undecided ? undefined : true
}

const epochMillis = (time: string | null | undefined): number | undefined =>
  time === undefined || time === null
    ? undefined
    : Option.getOrUndefined(Option.map(DateTime.make(time), DateTime.toEpochMillis))

const servedStep = ({ served }: Findings): Step => {
  const id = "gate.kueue-api"
  const object = "API group kueue.x-k8s.io"
  switch (served._tag) {
    case "NotServed":
      return refuted(id, object, "is not served", "install Kueue 0.17 or later")
    case "Undiscovered":
      return unknown(id, object, served.message, "allow discovery (ClusterRole system:discovery)")
    case "Served":
      return served.version === "v1beta1"
        ? refuted(
            id,
            object,
            "is served as v1beta1 only: the server refuses to write a Workload that holds quota through it, so neither Hold nor the check's answers work",
            "upgrade to a Kueue that serves v1beta2"
          )
        : proven(id, object, `is served as ${served.version}`)
  }
}

const localQueueStep = ({ kueue, namespace, localQueue }: Findings): Step => {
  const id = "gate.local-queue"
  const object = `LocalQueue/${kueue.localQueue} in namespace "${namespace}"`
  return existing(id, object, localQueue, "create it, or configure another queue", (queue) => {
    const active = condition(queue.status?.conditions, "Active")
    if (queue.metadata.deletionTimestamp !== undefined && queue.metadata.deletionTimestamp !== null) {
      return refuted(id, object, "is being deleted", "create it again, or configure another queue")
    }
    if (active?.status !== "True") {
      return refuted(id, object, conditionText(active), "mend what status.conditions[Active] names")
    }
    const clusterQueue = queue.spec?.clusterQueue
    return clusterQueue === undefined || clusterQueue === null
      ? refuted(id, object, "names no spec.clusterQueue", "set spec.clusterQueue")
      : proven(id, object, `is Active and leads to ClusterQueue/${clusterQueue}`)
  })
}

const clusterQueueName = ({ localQueue }: Findings): string =>
  localQueue._tag === "Read" ? (localQueue.object.spec?.clusterQueue ?? "(unnamed)") : "(unknown)"

const clusterQueueSteps = (findings: Findings): ReadonlyArray<Step> => {
  const { clusterQueue, kueue, namespace, namespaceObject, checks } = findings
  const object = `ClusterQueue/${clusterQueueName(findings)}`
  const first = existing("gate.cluster-queue", object, clusterQueue, "create it", (queue) => {
    if (queue.metadata.deletionTimestamp !== undefined && queue.metadata.deletionTimestamp !== null) {
      return refuted(
        "gate.cluster-queue",
        object,
        "is being deleted (metadata.deletionTimestamp; its Active condition does not tell)",
        "create it again under another name"
      )
    }
    const active = condition(queue.status?.conditions, "Active")
    return active?.status === "True"
      ? proven("gate.cluster-queue", object, "is Active")
      : refuted("gate.cluster-queue", object, conditionText(active), "mend what status.conditions[Active] names")
  })
  if (clusterQueue._tag !== "Read") return [first]
  const queue = clusterQueue.object

  const selectorObject = `${object} spec.namespaceSelector`
  const matches = selects(queue.spec?.namespaceSelector, (key) =>
    key === nameLabel
      ? { known: true, value: namespace }
      : namespaceObject._tag === "Read"
        ? { known: true, value: namespaceObject.object.metadata.labels?.[key] }
        : { known: false, value: undefined }
  )
  const selector =
    matches === true
      ? proven("gate.namespace-selector", selectorObject, `matches namespace "${namespace}"`)
      : matches === false
        ? refuted(
            "gate.namespace-selector",
            selectorObject,
            queue.spec?.namespaceSelector === undefined || queue.spec.namespaceSelector === null
              ? "is absent, which matches no namespace"
              : `does not match the labels of namespace "${namespace}"`,
            "label the namespace, or widen the selector ({} matches all)"
          )
        : unknown(
            "gate.namespace-selector",
            selectorObject,
            namespaceObject._tag === "Unreadable" || namespaceObject._tag === "Missing"
              ? namespaceObject.message
              : `cannot be judged for namespace "${namespace}"`,
            "grant get on the namespace"
          )

  const listed = listedChecks(queue)
  const ours = listed.filter((it) => it.name === kueue.admissionCheck)
  const listObject = `${object} spec.admissionChecksStrategy.admissionChecks`
  const narrowed = ours.find((it) => it.onFlavors.length > 0)
  const list =
    ours.length === 0
      ? refuted(
          "gate.check-listed",
          listObject,
          `does not list "${kueue.admissionCheck}"`,
          `add {name: ${kueue.admissionCheck}} without onFlavors`
        )
      : narrowed !== undefined
        ? refuted(
            "gate.check-listed",
            listObject,
            `lists "${kueue.admissionCheck}" only on flavors [${narrowed.onFlavors.join(", ")}]`,
            "remove onFlavors"
          )
        : proven("gate.check-listed", listObject, `lists "${kueue.admissionCheck}" for every flavor`)

  const others = listed.filter((it) => it.name !== kueue.admissionCheck)
  const multi = others.find((it) => {
    const read = checks[it.name]
    return read?._tag === "Read" && read.object.spec?.controllerName === multiKueueManager
  })
  const unreadable = others.flatMap((it) => {
    const read = checks[it.name]
    return read?._tag === "Unreadable" ? [`AdmissionCheck/${it.name}: ${read.message}`] : []
  })
  const multiKueue =
    multi !== undefined
      ? refuted(
          "gate.multikueue",
          `AdmissionCheck/${multi.name}`,
          "is a MultiKueue check: the run would start on another cluster",
          "use a ClusterQueue without it"
        )
      : unreadable.length > 0
        ? unknown("gate.multikueue", listObject, unreadable.join("; "), "grant get on admissionchecks")
        : proven("gate.multikueue", listObject, "lists no MultiKueue check")

  const policy = queue.spec?.concurrentAdmissionPolicy
  const concurrent =
    policy === undefined || policy === null
      ? proven("gate.concurrent-admission", `${object} spec.concurrentAdmissionPolicy`, "is absent")
      : refuted(
          "gate.concurrent-admission",
          `${object} spec.concurrentAdmissionPolicy`,
          "is set: one run can have several Workloads at once",
          "remove it"
        )
  return [first, selector, list, multiKueue, concurrent]
}

const checkStep = ({ checks, kueue }: Findings): Step => {
  const id = "gate.admission-check"
  const object = `AdmissionCheck/${kueue.admissionCheck}`
  return existing(id, object, checks[kueue.admissionCheck] ?? { _tag: "Skipped" }, "create it", (check) => {
    // A deleted check that is in use stays, stays Active True, and goes with the last queue that drops it
    if (check.metadata.deletionTimestamp !== undefined && check.metadata.deletionTimestamp !== null) {
      return refuted(id, object, "is being deleted (metadata.deletionTimestamp)", "create it again under another name")
    }
    if (check.spec?.controllerName !== kueue.controllerName) {
      return refuted(
        id,
        `${object} spec.controllerName`,
        `is "${check.spec?.controllerName ?? ""}", not "${kueue.controllerName}"`,
        "configure the controller's name, or the check that it owns"
      )
    }
    const active = condition(check.status?.conditions, "Active")
    return active?.status === "True"
      ? proven(id, object, `belongs to "${kueue.controllerName}" and is Active`)
      : refuted(id, object, conditionText(active), "is its controller running? it sets status.conditions[Active]")
  })
}

const leaseStep = ({ kueue, lease, now }: Findings): Step => {
  const id = "gate.lease"
  const object = `Lease/${kueue.lease.name} in namespace "${kueue.lease.namespace}"`
  return existing(id, object, lease, "start the check's controller, which renews it", ({ spec }) => {
    const holder = spec?.holderIdentity ?? ""
    if (holder === "") return refuted(id, object, "has no holder", "start the check's controller")
    const renewed = epochMillis(spec?.renewTime)
    const seconds = spec?.leaseDurationSeconds
    if (renewed === undefined || seconds === undefined || seconds === null) {
      return refuted(id, object, "has no renewTime or no leaseDurationSeconds", "start the check's controller")
    }
    const left = renewed + seconds * 1000 - now.millis
    const clock = now.of === "server" ? "the server's clock" : "our clock"
    if (now.of === "client" && renewed > now.millis + skewAllowance) {
      return unknown(
        id,
        object,
        `was renewed in the future by our clock (renewTime ${spec?.renewTime ?? ""}), and the server's is not known`,
        "set the clocks"
      )
    }
    if (now.of === "client" && Math.abs(left) <= skewAllowance) {
      return unknown(
        id,
        object,
        `ends within ${skewAllowance / 1000} s of now by our clock, and the server's is not known`,
        "try again"
      )
    }
    if (now.of === "server" && left > 0 && left <= headerPrecision) {
      return refuted(id, object, "ends within this second of the server's clock", "start the check's controller")
    }
    return left > 0
      ? proven(id, object, `is held, for ${Math.floor(left / 1000)} s more by ${clock}`)
      : refuted(
          id,
          object,
          `expired ${Math.ceil(-left / 1000)} s ago by ${clock} (renewTime ${spec?.renewTime ?? ""})`,
          "start the check's controller, which renews it"
        )
  })
}

/** The steps of the proof, in the order in which a person would look. */
export const steps = (findings: Findings): ReadonlyArray<Step> => [
  servedStep(findings),
  localQueueStep(findings),
  ...clusterQueueSteps(findings),
  checkStep(findings),
  leaseStep(findings)
]

// Enough to say what a yes rests on; the preflight's report has every step
const telling: ReadonlySet<string> = new Set([
  "gate.local-queue",
  "gate.check-listed",
  "gate.admission-check",
  "gate.lease"
])

const tell = (step: Step): string => `${step.object} ${step.found}`

/**
 * What follows: one refuted step refutes; else one that is not known leaves it unknown; else it is proven, for what it
 * covers.
 */
export const verdict = (all: ReadonlyArray<Step>): Gate => {
  const refutations = all.filter((step) => step.outcome === "refuted")
  if (refutations.length > 0) return { _tag: "Refuted", reason: refutations.map(tell).join("; ") }
  const open = all.filter((step) => step.outcome !== "proven")
  if (open.length > 0) return { _tag: "Unknown", reason: open.map(tell).join("; ") }
  const told = all.filter((step) => telling.has(step.id)).map(tell)
  return { _tag: "Proven", reason: `${told.join("; ")}; ${notCovered}` }
}
