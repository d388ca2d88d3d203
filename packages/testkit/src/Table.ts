/**
 * Objects as the rows that `kubectl get` prints: the server side of `Accept: …;as=Table` and `…;as=PartialObjectMetadata`.
 * Columns are data; the built-in kinds and the custom resources of Trainer, JobSet and Kueue have theirs, any other type
 * gets Name and Age.
 *
 * @module
 */

import { DateTime, Option } from "effect"

/** One column, as `kubectl get` sees it. Columns with a priority above 0 are shown by `-o wide` alone. */
export interface ColumnDefinition {
  readonly name: string
  readonly type: "string" | "integer" | "boolean" | "date"
  readonly format: string
  readonly description: string
  readonly priority: number
}

type Json = Readonly<Record<string, unknown>>

interface Column extends ColumnDefinition {
  readonly cell: (object: Json, now: number) => unknown
}

/** What a row shows of its object. */
export type IncludeObject = "None" | "Metadata" | "Object"

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)
const record = (value: unknown): Json => (isRecord(value) ? value : {})
const records = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isRecord) : [])
const text = (value: unknown): string => (typeof value === "string" ? value : "")
const count = (value: unknown): number => (typeof value === "number" ? value : 0)

/** The value at a dotted path of plain field names. */
const at = (object: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((value, field) => record(value)[field], object)

/** Evaluates the subset of Kubernetes JSONPath that printer columns use: fields, `[n]`, `[-1:]`, `[?(@.a=="b")]`. */
export const jsonPath = (path: string, object: unknown): unknown => {
  const steps = path.match(/\[\?\(@\.[\w.]+\s*==\s*(?:"[^"]*"|'[^']*')\)\]|\[-?\d+:?\]|\.?[\w-]+/g) ?? []
  return steps.reduce<unknown>((value, step) => {
    const filter = /^\[\?\(@\.([\w.]+)\s*==\s*["']([^"']*)["']\)\]$/.exec(step)
    if (filter !== null) return records(value).find((item) => at(item, filter[1] ?? "") === filter[2])
    const index = /^\[(-?\d+):?\]$/.exec(step)
    if (index !== null) return Array.isArray(value) ? value.at(Number(index[1])) : undefined
    return record(value)[step.replace(/^\./, "")]
  }, object)
}

/** A span of milliseconds as kubectl shows ages: `0s`, `119s`, `3m24s`, `5h2m`, `3d4h`, `2y10d`. */
export const humanDuration = (milliseconds: number): string => {
  const seconds = Math.trunc(milliseconds / 1000)
  if (seconds < -1) return "<invalid>"
  if (seconds < 0) return "0s"
  if (seconds < 120) return `${seconds}s`
  const two = (large: number, unit: string, small: number, smaller: string): string =>
    small === 0 ? `${large}${unit}` : `${large}${unit}${small}${smaller}`
  const minutes = Math.trunc(seconds / 60)
  if (minutes < 10) return two(minutes, "m", seconds % 60, "s")
  if (minutes < 180) return `${minutes}m`
  const hours = Math.trunc(minutes / 60)
  if (hours < 8) return two(hours, "h", minutes % 60, "m")
  if (hours < 48) return `${hours}h`
  const days = Math.trunc(hours / 24)
  if (hours < 192) return two(days, "d", hours % 24, "h")
  if (days < 365 * 2) return `${days}d`
  const years = Math.trunc(days / 365)
  return years < 8 ? two(years, "y", days % 365, "d") : `${years}y`
}

const epochMillis = (timestamp: unknown): number | undefined =>
  typeof timestamp === "string"
    ? Option.getOrUndefined(Option.map(DateTime.make(timestamp), DateTime.toEpochMillis))
    : undefined

const ago = (timestamp: unknown, now: number): string => {
  const then = epochMillis(timestamp)
  return then === undefined ? "<unknown>" : humanDuration(now - then)
}

const column = (
  name: string,
  cell: Column["cell"],
  extra: Partial<Pick<ColumnDefinition, "type" | "format" | "priority" | "description">> = {}
): Column => ({ type: "string", format: "", priority: 0, description: "", ...extra, name, cell })

const wide = { priority: 1 } as const

const nameColumn = column("Name", (object) => text(at(object, "metadata.name")), {
  format: "name",
  description: "The object's name, unique among its kind in its namespace."
})
const ageColumn = column("Age", (object, now) => ago(at(object, "metadata.creationTimestamp"), now), {
  description: "How long ago the object was created."
})
const ageDateColumn = column("Age", (object, now) => ago(at(object, "metadata.creationTimestamp"), now), {
  type: "date",
  description: "How long ago the object was created."
})
const createdColumn = column("Created At", (object) => at(object, "metadata.creationTimestamp") ?? null, {
  type: "date"
})

const orNone = (value: unknown): string => (typeof value === "string" && value !== "" ? value : "<none>")

/** A printer column of a custom resource: a missing value is `null`, a date an age. */
const printer = (name: string, path: string, type: ColumnDefinition["type"] = "string", priority = 0): Column => {
  const cell: Column["cell"] = (object, now) => {
    const value = jsonPath(path, object)
    if (value === undefined || value === null) return null
    if (type === "date") return ago(value, now)
    return type === "string" && typeof value !== "string" ? JSON.stringify(value) : value
  }
  return column(name, cell, {
    type,
    priority,
    description: `Custom resource definition column (in JSONPath format): ${path}`
  })
}

const conditionStatus = (object: Json, type: string): string =>
  text(records(at(object, "status.conditions")).find((condition) => condition["type"] === type)?.["status"])

const endedReason = (terminated: Json): string => {
  const reason = text(terminated["reason"])
  if (reason !== "") return reason
  const signal = count(terminated["signal"])
  return signal !== 0 ? `Signal:${signal}` : `ExitCode:${count(terminated["exitCode"])}`
}

interface PodSummary {
  readonly ready: string
  readonly status: string
  readonly restarts: string
}

const restartable = (spec: Json, name: unknown): boolean =>
  records(spec["initContainers"]).some(
    (container) => container["name"] === name && container["restartPolicy"] === "Always"
  )

/**
 * Ready, Status and Restarts of a pod. Status is the phase, unless a container's waiting or terminated reason or a
 * deletion says more (kubernetes/kubernetes pkg/printers/internalversion, printPod).
 */
const podSummary = (pod: Json, now: number): PodSummary => {
  const spec = record(pod["spec"])
  const status = record(pod["status"])
  let total = records(spec["containers"]).length
  let ready = 0
  let restarts = 0
  let lastRestart: string | undefined
  let reason = text(status["reason"]) === "" ? text(status["phase"]) : text(status["reason"])
  if (
    records(status["conditions"]).some(
      (condition) => condition["type"] === "PodScheduled" && condition["reason"] === "SchedulingGated"
    )
  ) {
    reason = "SchedulingGated"
  }
  const restarted = (container: Json): void => {
    restarts += count(container["restartCount"])
    const finished = at(container, "lastState.terminated.finishedAt")
    if (typeof finished === "string" && (lastRestart === undefined || finished > lastRestart)) lastRestart = finished
  }

  let initializing = false
  const initStatuses = records(status["initContainerStatuses"])
  for (const container of records(spec["initContainers"])) if (restartable(spec, container["name"])) total += 1
  for (const [index, container] of initStatuses.entries()) {
    const sidecar = restartable(spec, container["name"])
    restarted(container)
    const terminated = at(container, "state.terminated")
    if (isRecord(terminated) && count(terminated["exitCode"]) === 0) continue
    if (sidecar && container["started"] === true) {
      if (container["ready"] === true) ready += 1
      continue
    }
    const waiting = text(at(container, "state.waiting.reason"))
    if (isRecord(terminated)) reason = `Init:${endedReason(terminated)}`
    else if (waiting !== "" && waiting !== "PodInitializing") reason = `Init:${waiting}`
    else reason = `Init:${index}/${records(spec["initContainers"]).length}`
    initializing = true
    break
  }

  if (!initializing || conditionStatus(pod, "Initialized") === "True") {
    // Of the init containers only sidecars count from here on
    restarts = 0
    lastRestart = undefined
    for (const container of initStatuses) if (restartable(spec, container["name"])) restarted(container)
    let running = false
    for (const container of records(status["containerStatuses"]).toReversed()) {
      restarted(container)
      const waiting = text(at(container, "state.waiting.reason"))
      const terminated = at(container, "state.terminated")
      if (waiting !== "") reason = waiting
      else if (isRecord(terminated)) reason = endedReason(terminated)
      else if (container["ready"] === true && isRecord(at(container, "state.running"))) {
        running = true
        ready += 1
      }
    }
    if (reason === "Completed" && running) reason = conditionStatus(pod, "Ready") === "True" ? "Running" : "NotReady"
  }

  const phase = text(status["phase"])
  if (at(pod, "metadata.deletionTimestamp") !== undefined) {
    if (status["reason"] === "NodeLost") reason = "Unknown"
    else if (phase !== "Succeeded" && phase !== "Failed") reason = "Terminating"
  }
  return {
    ready: `${ready}/${total}`,
    status: reason,
    restarts:
      restarts === 0 || lastRestart === undefined ? String(restarts) : `${restarts} (${ago(lastRestart, now)} ago)`
  }
}

const readinessGates = (pod: Json): string => {
  const gates = records(at(pod, "spec.readinessGates"))
  if (gates.length === 0) return "<none>"
  const met = gates.filter((gate) => conditionStatus(pod, text(gate["conditionType"])) === "True").length
  return `${met}/${gates.length}`
}

const nodeStatus = (node: Json): string => {
  const ready = conditionStatus(node, "Ready")
  const status = ready === "True" ? "Ready" : ready === "" ? "Unknown" : "NotReady"
  return at(node, "spec.unschedulable") === true ? `${status},SchedulingDisabled` : status
}

const nodeRoles = (node: Json): string => {
  const prefix = "node-role.kubernetes.io/"
  const roles = Object.keys(record(at(node, "metadata.labels")))
    .filter((label) => label.startsWith(prefix) && label.length > prefix.length)
    .map((label) => label.slice(prefix.length))
  return orNone(roles.toSorted().join(","))
}

const nodeAddress = (node: Json, type: string): string =>
  orNone(records(at(node, "status.addresses")).find((address) => address["type"] === type)?.["address"])

const orUnknown = (value: unknown): string => (typeof value === "string" && value !== "" ? value : "<unknown>")

const jobStatus = (job: Json): string => {
  for (const [condition, word] of [
    ["Complete", "Complete"],
    ["Failed", "Failed"]
  ] as const) {
    if (conditionStatus(job, condition) === "True") return word
  }
  if (at(job, "metadata.deletionTimestamp") !== undefined) return "Terminating"
  for (const condition of ["Suspended", "FailureTarget", "SuccessCriteriaMet"]) {
    if (conditionStatus(job, condition) === "True") return condition
  }
  return "Running"
}

const jobCompletions = (job: Json): string => {
  const succeeded = count(at(job, "status.succeeded"))
  const completions = at(job, "spec.completions")
  if (typeof completions === "number") return `${succeeded}/${completions}`
  const parallelism = count(at(job, "spec.parallelism"))
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`
}

const jobDuration = (job: Json, now: number): string => {
  const started = epochMillis(at(job, "status.startTime"))
  if (started === undefined) return ""
  return humanDuration((epochMillis(at(job, "status.completionTime")) ?? now) - started)
}

const containersOf = (podSpecPath: string): ReadonlyArray<Column> => [
  column(
    "Containers",
    (object) =>
      records(at(object, `${podSpecPath}.containers`))
        .map((item) => text(item["name"]))
        .join(","),
    wide
  ),
  column(
    "Images",
    (object) =>
      records(at(object, `${podSpecPath}.containers`))
        .map((item) => text(item["image"]))
        .join(","),
    wide
  )
]

const formatSelector = (selector: unknown): string => {
  const parts = Object.entries(record(record(selector)["matchLabels"])).map(([key, value]) => `${key}=${text(value)}`)
  for (const expression of records(record(selector)["matchExpressions"])) {
    const values = Array.isArray(expression["values"]) ? expression["values"].join(",") : ""
    const key = text(expression["key"])
    const operator = text(expression["operator"])
    if (operator === "Exists") parts.push(key)
    else if (operator === "DoesNotExist") parts.push(`!${key}`)
    else parts.push(`${key} ${operator.toLowerCase()} (${values})`)
  }
  return orNone(parts.join(","))
}

const selectorColumn = column("Selector", (object) => formatSelector(at(object, "spec.selector")), wide)

const eventSource = (event: Json): string => {
  const component = text(at(event, "source.component"))
  const host = text(at(event, "source.host"))
  const reporting = text(event["reportingComponent"])
  return component === "" ? reporting : host === "" ? component : `${component}, ${host}`
}

const eventFirst = (event: Json): unknown => event["firstTimestamp"] ?? event["eventTime"]
const eventLast = (event: Json): unknown =>
  at(event, "series.lastObservedTime") ?? event["lastTimestamp"] ?? eventFirst(event)
const eventCount = (event: Json): number => count(at(event, "series.count")) || count(event["count"]) || 1
const eventAbout = (event: Json): Json => record(event["involvedObject"] ?? event["regarding"])

const subjectsOf =
  (kind: string): Column["cell"] =>
  (binding) =>
    records(binding["subjects"])
      .filter((subject) => subject["kind"] === kind)
      .map((subject) =>
        kind === "ServiceAccount" ? `${text(subject["namespace"])}/${text(subject["name"])}` : text(subject["name"])
      )
      .join(", ")

const servicePorts = (service: Json): string =>
  orNone(
    records(at(service, "spec.ports"))
      .map((port) => {
        const node = count(port["nodePort"])
        return `${count(port["port"])}${node === 0 ? "" : `:${node}`}/${text(port["protocol"]) || "TCP"}`
      })
      .join(",")
  )

const bindingColumns: ReadonlyArray<Column> = [
  nameColumn,
  column("Role", (object) => `${text(at(object, "roleRef.kind"))}/${text(at(object, "roleRef.name"))}`),
  ageColumn,
  column("Users", subjectsOf("User"), wide),
  column("Groups", subjectsOf("Group"), wide),
  column("ServiceAccounts", subjectsOf("ServiceAccount"), wide)
]

const eventColumns: ReadonlyArray<Column> = [
  column("Last Seen", (event, now) => ago(eventLast(event), now)),
  column("Type", (event) => text(event["type"])),
  column("Reason", (event) => text(event["reason"])),
  column("Object", (event) => `${text(eventAbout(event)["kind"]).toLowerCase()}/${text(eventAbout(event)["name"])}`),
  column("Subobject", (event) => text(eventAbout(event)["fieldPath"]), wide),
  column("Source", eventSource, wide),
  column("Message", (event) => text(event["message"] ?? event["note"]).trim()),
  column("First Seen", (event, now) => ago(eventFirst(event), now), wide),
  column("Count", eventCount, wide),
  column("Name", (event) => text(at(event, "metadata.name")), { format: "name", priority: 1 })
]

const intOrString = (value: unknown): string =>
  typeof value === "number" ? String(value) : typeof value === "string" ? value : "N/A"

const builtIn: Readonly<Record<string, ReadonlyArray<Column>>> = {
  pods: [
    nameColumn,
    column("Ready", (pod, now) => podSummary(pod, now).ready, { description: "Ready containers of all." }),
    column("Status", (pod, now) => podSummary(pod, now).status, { description: "What the pod's containers do." }),
    column("Restarts", (pod, now) => podSummary(pod, now).restarts, { description: "How often containers restarted." }),
    ageColumn,
    column("IP", (pod) => orNone(at(pod, "status.podIP")), wide),
    column("Node", (pod) => orNone(at(pod, "spec.nodeName")), wide),
    column("Nominated Node", (pod) => orNone(at(pod, "status.nominatedNodeName")), wide),
    column("Readiness Gates", readinessGates, wide)
  ],
  nodes: [
    nameColumn,
    column("Status", nodeStatus, { description: "Whether the node is ready and takes new pods." }),
    column("Roles", nodeRoles),
    ageColumn,
    column("Version", (node) => text(at(node, "status.nodeInfo.kubeletVersion"))),
    column("Internal-IP", (node) => nodeAddress(node, "InternalIP"), wide),
    column("External-IP", (node) => nodeAddress(node, "ExternalIP"), wide),
    column("OS-Image", (node) => orUnknown(at(node, "status.nodeInfo.osImage")), wide),
    column("Kernel-Version", (node) => orUnknown(at(node, "status.nodeInfo.kernelVersion")), wide),
    column("Container-Runtime", (node) => orUnknown(at(node, "status.nodeInfo.containerRuntimeVersion")), wide)
  ],
  namespaces: [nameColumn, column("Status", (object) => text(at(object, "status.phase"))), ageColumn],
  events: eventColumns,
  "events.events.k8s.io": eventColumns,
  services: [
    nameColumn,
    column("Type", (object) => text(at(object, "spec.type")) || "ClusterIP"),
    column("Cluster-IP", (object) => orNone(at(object, "spec.clusterIP"))),
    column("External-IP", () => "<none>"),
    column("Port(s)", servicePorts),
    ageColumn,
    column("Selector", (object) => formatSelector({ matchLabels: at(object, "spec.selector") }), wide)
  ],
  configmaps: [
    nameColumn,
    column("Data", (object) => Object.keys({ ...record(object["data"]), ...record(object["binaryData"]) }).length),
    ageColumn
  ],
  secrets: [
    nameColumn,
    column("Type", (object) => text(object["type"])),
    column("Data", (object) => Object.keys(record(object["data"])).length),
    ageColumn
  ],
  serviceaccounts: [nameColumn, ageColumn],
  "jobs.batch": [
    nameColumn,
    column("Status", jobStatus, { description: "Status of the job." }),
    column("Completions", jobCompletions),
    column("Duration", jobDuration),
    ageColumn,
    ...containersOf("spec.template.spec"),
    selectorColumn
  ],
  "leases.coordination.k8s.io": [
    nameColumn,
    column("Holder", (object) => text(at(object, "spec.holderIdentity"))),
    ageColumn
  ],
  "poddisruptionbudgets.policy": [
    nameColumn,
    column("Min Available", (object) => intOrString(at(object, "spec.minAvailable"))),
    column("Max Unavailable", (object) => intOrString(at(object, "spec.maxUnavailable"))),
    column("Allowed Disruptions", (object) => count(at(object, "status.disruptionsAllowed")), { type: "integer" }),
    ageColumn
  ],
  "priorityclasses.scheduling.k8s.io": [
    nameColumn,
    column("Value", (object) => count(object["value"]), { type: "integer" }),
    column("Global-Default", (object) => object["globalDefault"] === true, { type: "boolean" }),
    ageColumn,
    column("PreemptionPolicy", (object) => text(object["preemptionPolicy"]) || "PreemptLowerPriority")
  ],
  "roles.rbac.authorization.k8s.io": [nameColumn, createdColumn],
  "clusterroles.rbac.authorization.k8s.io": [nameColumn, createdColumn],
  "rolebindings.rbac.authorization.k8s.io": bindingColumns,
  "clusterrolebindings.rbac.authorization.k8s.io": bindingColumns
}

const customResources: Readonly<Record<string, ReadonlyArray<Column>>> = {
  "trainjobs.trainer.kubeflow.org": [nameColumn, printer("State", ".status.conditions[-1:].type"), ageDateColumn],
  "jobsets.jobset.x-k8s.io": [
    nameColumn,
    printer("TerminalState", ".status.terminalState"),
    printer("Restarts", ".status.restarts"),
    printer("Completed", '.status.conditions[?(@.type=="Completed")].status'),
    printer("Suspended", ".spec.suspend"),
    ageDateColumn
  ],
  "workloads.kueue.x-k8s.io": [
    nameColumn,
    printer("Queue", ".spec.queueName"),
    printer("Reserved in", ".status.admission.clusterQueue"),
    printer("Admitted", '.status.conditions[?(@.type=="Admitted")].status'),
    printer("Finished", '.status.conditions[?(@.type=="Finished")].status'),
    ageDateColumn
  ],
  "clusterqueues.kueue.x-k8s.io": [
    nameColumn,
    printer("Cohort", ".spec.cohortName"),
    printer("Strategy", ".spec.queueingStrategy", "string", 1),
    printer("Pending Workloads", ".status.pendingWorkloads", "integer"),
    printer("Admitted Workloads", ".status.admittedWorkloads", "integer", 1)
  ],
  "localqueues.kueue.x-k8s.io": [
    nameColumn,
    printer("ClusterQueue", ".spec.clusterQueue"),
    printer("Pending Workloads", ".status.pendingWorkloads", "integer"),
    printer("Admitted Workloads", ".status.admittedWorkloads", "integer")
  ],
  "workloadpriorityclasses.kueue.x-k8s.io": [nameColumn, printer("Value", ".value", "integer")]
}

const columnsOf = (type: { readonly group: string; readonly plural: string }): ReadonlyArray<Column> => {
  const key = type.group === "" ? type.plural : `${type.plural}.${type.group}`
  return builtIn[key] ?? customResources[key] ?? [nameColumn, ageDateColumn]
}

const rowConditions = (
  type: { readonly group: string; readonly plural: string },
  object: Json
): ReadonlyArray<Json> | undefined => {
  if (type.group !== "" || type.plural !== "pods") return undefined
  const phase = text(at(object, "status.phase"))
  return phase === "Succeeded" || phase === "Failed"
    ? [{ type: "Completed", status: "True", reason: phase, message: "The pod has completed." }]
    : undefined
}

/** An object's metadata alone. */
export const partialObjectMetadata = (object: unknown): Json => ({
  kind: "PartialObjectMetadata",
  apiVersion: "meta.k8s.io/v1",
  metadata: record(object)["metadata"] ?? {}
})

const isList = (body: unknown): body is Json & { readonly items: unknown } =>
  isRecord(body) && "items" in body && text(body["kind"]).endsWith("List")

/** A list's items as `PartialObjectMetadataList`, a single object as `PartialObjectMetadata`. */
export const toPartial = (body: unknown): Json =>
  isList(body)
    ? {
        kind: "PartialObjectMetadataList",
        apiVersion: "meta.k8s.io/v1",
        metadata: body["metadata"] ?? {},
        items: records(body["items"]).map(partialObjectMetadata)
      }
    : partialObjectMetadata(body)

/**
 * A list or a single object as a `meta.k8s.io/v1` Table at the time `now` (epoch milliseconds). `columns: false` leaves
 * the definitions out, as the events of a watch after the first do.
 */
export const toTable = (
  type: { readonly group: string; readonly plural: string },
  body: unknown,
  options: { readonly now: number; readonly includeObject: IncludeObject; readonly columns?: boolean }
): Json => {
  const columns = columnsOf(type)
  const objects = isList(body) ? records(body["items"]) : [record(body)]
  const metadata = isList(body)
    ? record(body["metadata"])
    : { resourceVersion: text(at(body, "metadata.resourceVersion")) }
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata,
    columnDefinitions:
      options.columns === false
        ? null
        : columns.map(({ name, type, format, description, priority }) => ({
            name,
            type,
            format,
            description,
            priority
          })),
    rows: objects.map((object) => {
      const conditions = rowConditions(type, object)
      return {
        cells: columns.map(({ cell }) => cell(object, options.now)),
        ...(conditions === undefined ? {} : { conditions }),
        object:
          options.includeObject === "None"
            ? null
            : options.includeObject === "Object"
              ? object
              : partialObjectMetadata(object)
      }
    })
  }
}
