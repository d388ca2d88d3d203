/**
 * Recordings of real controllers, and what of them counts: per object the sequence of its states, without times, random
 * names, versions and what the recorder's kubelet plays differently.
 */
import * as fs from "node:fs"
import * as url from "node:url"

type Json = unknown
type Obj = Readonly<Record<string, Json>>

interface FullEvent {
  readonly at: number
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly object: Obj
}

export interface Step {
  readonly at: number
  readonly do: string
  readonly request?: string
  readonly status?: number
  readonly body?: Json
  readonly answer?: Json
}

export interface Recording {
  readonly scenario: string
  readonly namespace: string
  readonly runtimes: ReadonlyArray<Obj>
  readonly steps: ReadonlyArray<Step>
  readonly events: ReadonlyArray<FullEvent>
}

const isObj = (value: Json): value is Obj => typeof value === "object" && value !== null && !Array.isArray(value)
const obj = (value: Json): Obj => (isObj(value) ? value : {})
const arr = (value: Json): ReadonlyArray<Json> => (Array.isArray(value) ? (value as ReadonlyArray<Json>) : [])
const str = (value: Json): string => (typeof value === "string" ? value : "")
export const at = (value: Json, ...path: ReadonlyArray<string>): Json =>
  path.reduce<Json>((current, key) => obj(current)[key], value)

const merge = (base: Json, patch: Json): Json => {
  if (!isObj(patch)) return patch
  const result: Record<string, Json> = { ...obj(base) }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null && isObj(base) && base[key] === undefined) result[key] = null
    else if (value === null && !["eventTime", "lastProbeTime", "firstTimestamp", "lastTimestamp"].includes(key)) {
      delete result[key]
    } else result[key] = merge(result[key], value)
  }
  return result
}

export const load = (area: string, name: string): Recording => {
  const path = url.fileURLToPath(new URL(`../recordings/${area}/${name}.json`, import.meta.url))
  const raw = JSON.parse(fs.readFileSync(path, "utf8")) as {
    readonly scenario: string
    readonly namespace: string
    readonly runtimes: ReadonlyArray<Obj>
    readonly steps: ReadonlyArray<Step>
    readonly events: ReadonlyArray<Obj>
  }
  const last = new Map<string, Obj>()
  const events = raw.events.map((event): FullEvent => {
    const whole = event["object"]
    const object = isObj(whole)
      ? whole
      : obj(merge(last.get(`${str(event["kind"])} ${str(event["name"])}`), event["patch"]))
    last.set(`${str(object["kind"])} ${str(at(object, "metadata", "name"))}`, object)
    return {
      at: Number(event["at"]),
      type: event["type"] as FullEvent["type"],
      object
    }
  })
  return { ...raw, events }
}

// ---- normal form ------------------------------------------------------------------------------------------------------

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
const uidText = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g

/** Names the pods in order of appearance, so that random suffixes do not matter. */
export interface Names {
  readonly pods: ReadonlyMap<string, string>
  readonly actual: ReadonlyMap<string, string>
  readonly see: (object: Obj) => void
  readonly text: (value: string) => string
}

export const makeNames = (): Names => {
  const pods = new Map<string, string>()
  const actual = new Map<string, string>()
  const counts = new Map<string, number>()
  return {
    pods,
    actual,
    see: (object) => {
      if (object["kind"] === "Workload") {
        // its name ends with a hash of its job's uid
        const own = str(at(object, "metadata", "name"))
        const token = own.replace(/-[0-9a-f]{5}$/, "-#hash")
        pods.set(own, token)
        actual.set(token, own)
        return
      }
      if (object["kind"] !== "Pod") return
      const name = str(at(object, "metadata", "name"))
      const prefix = str(at(object, "metadata", "generateName"))
      if (prefix === "" || pods.has(name)) return
      const count = (counts.get(prefix) ?? 0) + 1
      counts.set(prefix, count)
      pods.set(name, `${prefix}#${count}`)
      actual.set(`${prefix}#${count}`, name)
    },
    text: (value) => {
      let result = value
      for (const [name, token] of pods) result = result.split(name).join(token)
      return result
    }
  }
}

const conditionsMap = (value: Json, drop: ReadonlySet<string>): Json =>
  Object.fromEntries(
    arr(value)
      .map(obj)
      .filter((condition) => !drop.has(str(condition["type"])))
      .map((condition) => [
        str(condition["type"]),
        Object.fromEntries(
          Object.entries(condition).filter(
            ([key]) =>
              !["type", "lastTransitionTime", "lastProbeTime", "lastHeartbeatTime", "observedGeneration"].includes(key)
          )
        )
      ])
  )

const podStatus = (status: Obj): Json => ({
  phase: status["phase"],
  reason: status["reason"],
  conditions: Object.fromEntries(
    Object.entries(
      obj(
        conditionsMap(
          status["conditions"],
          new Set([
            "PodReadyToStartContainers",
            "Initialized",
            "ContainersReady",
            ...(status["phase"] === "Pending" ? ["Ready"] : [])
          ])
        )
      )
    ).map(([type, condition]) => [
      type,
      // messages of readiness differ between the recorder's kubelet and a real one
      type === "Ready" ? { status: at(condition, "status"), reason: at(condition, "reason") } : condition
    ])
  ),
  containers: arr(status["containerStatuses"])
    .filter((container) => at(container, "state", "waiting", "reason") !== "ContainerCreating")
    .map((container) => ({
      name: at(container, "name"),
      state: Object.fromEntries(
        Object.entries(obj(at(container, "state"))).map(([state, value]) => [
          state,
          { exitCode: at(value, "exitCode"), reason: at(value, "reason") }
        ])
      ),
      restartCount: at(container, "restartCount"),
      ready: at(container, "ready")
    }))
})

const withoutTimes = (value: Json): Json => {
  if (Array.isArray(value)) return arr(value).map(withoutTimes)
  if (isObj(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withoutTimes(field)]))
  }
  return typeof value === "string" && timestamp.test(value) ? "T" : value
}

const pruned = (value: Json): Json => {
  if (Array.isArray(value)) return arr(value).map(pruned)
  if (!isObj(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([key, field]) => [key, pruned(field)] as const)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
  )
}

const uidLabels = [
  "jobset.sigs.k8s.io/jobset-uid",
  "batch.kubernetes.io/controller-uid",
  "controller-uid",
  // a hash of the name: the recorded one is of the recorded namespace, which is the same here
  ""
]

const labelsOf = (labels: Json): Json =>
  Object.fromEntries(Object.entries(obj(labels)).map(([key, value]) => [key, uidLabels.includes(key) ? "U" : value]))

const metadata = (object: Obj, names: Names): Json => {
  const meta = obj(object["metadata"])
  return {
    generation: meta["generation"],
    labels: labelsOf(meta["labels"]),
    annotations:
      object["kind"] === "Node"
        ? {}
        : labelsOf(
            Object.fromEntries(
              Object.entries(obj(meta["annotations"])).filter(
                ([key]) => key !== "kubectl.kubernetes.io/last-applied-configuration"
              )
            )
          ),
    owners: arr(meta["ownerReferences"]).map((owner) => ({
      kind: at(owner, "kind"),
      name: names.text(str(at(owner, "name"))),
      apiVersion: at(owner, "apiVersion"),
      controller: at(owner, "controller"),
      block: at(owner, "blockOwnerDeletion")
    })),
    finalizers: meta["finalizers"],
    deleting: meta["deletionTimestamp"] === undefined ? undefined : meta["deletionGracePeriodSeconds"]
  }
}

const podSpec = (spec: Obj): Json => ({
  bound: spec["nodeName"] !== undefined,
  restartPolicy: spec["restartPolicy"],
  grace: spec["terminationGracePeriodSeconds"],
  hostname: spec["hostname"],
  subdomain: spec["subdomain"],
  nodeSelector: spec["nodeSelector"],
  tolerations: arr(spec["tolerations"])
    .map((toleration) => JSON.stringify(pruned(toleration)))
    .toSorted(),
  containers: arr(spec["containers"]).map((container) => ({
    name: at(container, "name"),
    image: at(container, "image"),
    command: at(container, "command"),
    env: at(container, "env"),
    ports: at(container, "ports"),
    resources: at(container, "resources")
  }))
})

/** A check's entry that nobody has answered is made before or after the reservation: two controllers race. */
const withoutFresh = (status: Obj): Obj => {
  const given = arr(status["admissionChecks"])
  const told = given.filter((entry) => at(entry, "state") !== "Pending" || at(entry, "message") !== "")
  return { ...status, admissionChecks: told.length === 0 ? undefined : told }
}

// the label with the job's uid
const workloadMeta = (meta: Obj): Obj => ({ ...meta, labels: Object.keys(obj(meta["labels"])) })

/** The normal form of an object: equal for the recorded one and ours. */
export const normal = (object: Obj, names: Names): Json => {
  const kind = str(object["kind"])
  const meta = metadata(object, names)
  const body = ((): Json => {
    switch (kind) {
      case "Pod": {
        const status = obj(object["status"])
        const isPlayedStop =
          at(object, "metadata", "deletionTimestamp") !== undefined &&
          at(object, "metadata", "annotations", "example.com/slow-stop") === undefined
        // the recorder's kubelet ends most deleted pods without a word
        return { meta, spec: podSpec(obj(object["spec"])), status: isPlayedStop ? {} : podStatus(status) }
      }
      case "Job": {
        const status = obj(object["status"])
        const { uncountedTerminatedPods, conditions, ...rest } = status
        return {
          meta,
          spec: withoutTimes({
            ...obj(object["spec"]),
            selector: undefined,
            template: {
              ...obj(at(object, "spec", "template")),
              metadata: undefined,
              spec: podSpec(obj(at(object, "spec", "template", "spec")))
            }
          }),
          templateLabels: labelsOf(at(object, "spec", "template", "metadata", "labels")),
          templateAnnotations: labelsOf(at(object, "spec", "template", "metadata", "annotations")),
          status: {
            ...obj(withoutTimes(rest)),
            conditions: conditionsMap(conditions, new Set()),
            uncounted: arr(at(uncountedTerminatedPods, "failed")).length
          }
        }
      }
      case "JobSet":
      case "TrainJob": {
        const status = object["status"] === undefined ? undefined : obj(object["status"])
        return {
          meta,
          spec: withoutTimes(object["spec"]),
          status:
            status === undefined ? undefined : { ...status, conditions: conditionsMap(status["conditions"], new Set()) }
        }
      }
      case "Workload":
      case "ClusterQueue":
      case "LocalQueue":
      case "AdmissionCheck": {
        const { accumulatedPastExecutionTimeSeconds: _, conditions, ...rest } = withoutFresh(obj(object["status"]))
        return {
          meta: kind === "Workload" ? workloadMeta(obj(meta)) : meta,
          spec: withoutTimes(object["spec"]),
          status: { ...obj(withoutTimes(rest)), conditions: conditionsMap(conditions, new Set()) }
        }
      }
      case "Node":
        return {
          taints: arr(at(object, "spec", "taints")).map(
            (taint) => `${str(at(taint, "key"))}:${str(at(taint, "effect"))}`
          ),
          ready: arr(at(object, "status", "conditions"))
            .map(obj)
            .filter((condition) => condition["type"] === "Ready")
            .map((condition) => ({ status: condition["status"], reason: condition["reason"] }))
        }
      case "ConfigMap":
        return { meta, data: Object.keys(obj(object["data"])) }
      case "Secret":
        return { meta }
      case "Service":
        // its EndpointSlice is not modelled, and so no foreground deletion of it
        return { meta: { ...obj(meta), finalizers: undefined, deleting: undefined } }
      default:
        return { meta, object: withoutTimes({ ...object, metadata: undefined }) }
    }
  })()
  const text = names.text(JSON.stringify(pruned(body))).replaceAll(uidText, "U")
  return JSON.parse(text) as Json
}

const counters = new Set([
  "jobsStatus",
  "replicatedJobsStatus",
  "active",
  "ready",
  "terminating",
  "uncounted",
  "admittedWorkloads",
  "pendingWorkloads",
  "reservingWorkloads",
  "flavorsReservation",
  "flavorsUsage"
])

/** A state without the counters that a busy controller skips. */
export const coarse = (state: string): string => {
  const deleted = state.startsWith("DELETED ")
  const value = JSON.parse(deleted ? state.slice(8) : state) as Obj
  const status = value["status"]
  const kept = isObj(status) ? Object.fromEntries(Object.entries(status).filter(([key]) => !counters.has(key))) : {}
  const hasNone =
    Object.keys(kept).length === 0 ||
    (Object.keys(kept).length === 1 && Object.keys(obj(kept["conditions"])).length === 0)
  return `${deleted ? "DELETED " : ""}${JSON.stringify({ ...value, status: hasNone ? undefined : kept })}`
}

/** The states that one object went through, and how it ended. */
export interface History {
  readonly id: string
  readonly states: ReadonlyArray<string>
}

/** What the log says about an object, by kind, normalised name and incarnation, consecutive equal states counted once. */
export const histories = (
  events: ReadonlyArray<{ readonly type: string; readonly object: Obj }>,
  names: Names,
  ignored: ReadonlySet<string>
): ReadonlyMap<string, History> => {
  const result = new Map<string, { id: string; states: Array<string> }>()
  const open = new Map<string, string>()
  const counts = new Map<string, number>()
  for (const { object, type } of events) {
    names.see(object)
    const kind = str(object["kind"])
    if (kind === "Event" || ignored.has(kind)) continue
    const name = names.text(str(at(object, "metadata", "name")))
    const key = `${kind} ${name}`
    let id = open.get(key)
    if (id === undefined || type === "ADDED") {
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      id = `${key} (${count})`
      open.set(key, id)
      result.set(id, { id, states: [] })
    }
    const state = `${type === "DELETED" ? "DELETED " : ""}${JSON.stringify(normal(object, names))}`
    const history = result.get(id)
    if (history !== undefined && history.states.at(-1) !== state) history.states.push(state)
    if (type === "DELETED") open.delete(key)
  }
  return result
}

/** Events as one line each: object, type, reason, message, how often. */
export const eventLines = (
  events: ReadonlyArray<{ readonly type: string; readonly object: Obj }>,
  names: Names
): ReadonlyArray<string> => {
  const last = new Map<string, string>()
  for (const { object, type } of events) {
    names.see(object)
    if (object["kind"] !== "Event" || type === "DELETED") continue
    const involved = obj(object["involvedObject"])
    const line = names.text(
      `${str(involved["kind"])}/${str(involved["name"])} ${str(object["type"])} ${str(object["reason"])}: ${str(object["message"])}`.slice(
        0,
        300
      )
    )
    // which of several equal nodes is chosen is the scheduler's secret
    last.set(
      str(at(object, "metadata", "name")),
      line
        .replace(/(Successfully assigned \S+ to) \S+$/, "$1 a node")
        // waiting times are whole seconds of a busy machine
        .replace(/(wait time since \w+ was) \d+s$/, "$1 Ns")
        .replaceAll(uidText, "U")
    )
  }
  return [...last.values()]
}
