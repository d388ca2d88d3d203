/**
 * Which resource types the in-memory API server serves and how each of them behaves: scope, subresources, generation,
 * selectable fields, defaults, immutable fields. Everything that differs between types is data here; `Store` has no
 * special case that names a kind where a field of the definition can say it.
 *
 * @module
 */
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Json from "./Json.js"
import * as Resources from "./internal/Resources.js"

/** One error of validation, as it appears among `details.causes` of a 422. */
export interface FieldError {
  readonly field: string
  readonly reason:
    | "FieldValueRequired"
    | "FieldValueInvalid"
    | "FieldValueForbidden"
    | "FieldValueNotFound"
    | "FieldValueNotSupported"
    | "FieldValueTypeInvalid"
    | "FieldValueTooLong"
    | "FieldValueDuplicate"
  readonly message: string
}

/** A subresource, e.g. `status`, `log`, `eviction`. */
export interface Subresource {
  readonly name: string
  readonly kind: string
  readonly group?: string
  readonly version?: string
  readonly verbs: ReadonlyArray<string>
}

/** A type that the server serves. */
export interface ResourceDefinition {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly listKind: string
  readonly scope: Resource.Scope
  readonly shortNames: ReadonlyArray<string>
  readonly categories: ReadonlyArray<string>
  readonly verbs: ReadonlyArray<string>
  /** A custom resource: it differs from built-in types in texts, in patch formats and in what an update needs. */
  readonly custom: boolean
  /** `status` is written through `/status` alone. */
  readonly statusSubresource: boolean
  /** Whether a write to `/status` also stores labels, annotations and finalizers. */
  readonly statusStoresMetadata: boolean
  readonly subresources: ReadonlyArray<Subresource>
  /** Deletion waits for a grace period (pods). */
  readonly graceful: boolean
  /** `spec`: 1, and 1 more with every change outside metadata and status. `pod`: not with labels, status or binding. */
  readonly generation: "spec" | "pod" | "none"
  /** Beyond `metadata.name` and `metadata.namespace`: field selector names and how to read them. */
  readonly selectableFields: { readonly [field: string]: (object: Json.JsonObject) => string }
  /** The 400 text for a field that cannot be selected by. */
  readonly fieldSelectorError: (field: string) => string
  /** What a name must look like. */
  readonly nameRule: "subdomain" | "namespace" | "path"
  /** What a delete without a propagation policy does. */
  readonly defaultPropagation: "Background" | "Orphan"
  /** Fills in the defaults of the type, on every read of a body. Must be idempotent. */
  readonly defaults: (object: Json.JsonObject) => Json.JsonObject
  /** Members of the metadata that a write of the status does not touch. */
  readonly keptMetadata: ReadonlyArray<string>
  /** Members of the status that a write of the status cannot take away. */
  readonly keptStatus: ReadonlyArray<string>
  /** The members of an object besides `apiVersion`, `kind` and `metadata`, where an apply with another is refused. */
  readonly members: ReadonlyArray<string> | undefined
  /** What the server itself sets, on create (`old` absent) and on update; nobody owns these fields. Must be idempotent. */
  readonly prepare: (object: Json.JsonObject, old?: Json.JsonObject) => Json.JsonObject
  /** What the schema of a custom resource says. Its rules are not run where something is missing or of a wrong type. */
  readonly schema: (object: Json.JsonObject) => ReadonlyArray<FieldError>
  /** Errors of an object, on create (`old` absent) and on update; of a custom resource those of its rules. */
  readonly validate: (object: Json.JsonObject, old: Json.JsonObject | undefined) => ReadonlyArray<FieldError>
  /** The 400 text of a body that the Go type cannot hold, e.g. a Lease with a time in milliseconds. Built-in types only. */
  readonly decodeError: (object: Json.JsonObject) => string | undefined
  /** Not stored: reviews are answered, not kept. */
  readonly virtual: boolean
}

/** The types by `typeKey` and version. Persistent: `register` gives a new one. */
export interface Registry {
  readonly definitions: ReadonlyMap<string, ResourceDefinition>
}

const versionKey = (group: string, version: string, plural: string): string => `${group}/${version}/${plural}`

/** The key under which objects of a type are stored, whatever the version they are served in. */
export const typeKey = (type: { readonly group: string; readonly plural: string }): string =>
  `${type.group}/${type.plural}`

/** `v1` or `group/version`. */
export const apiVersion = (type: { readonly group: string; readonly version: string }): string =>
  type.group === "" ? type.version : `${type.group}/${type.version}`

/** `pods`, or `trainjobs.trainer.kubeflow.org`: how messages name a type. */
export const qualified = (type: { readonly group: string; readonly plural: string }): string =>
  type.group === "" ? type.plural : `${type.plural}.${type.group}`

/** The definition of a type in a version, if it is served. */
export const lookup = (
  registry: Registry,
  group: string,
  version: string,
  plural: string
): ResourceDefinition | undefined => registry.definitions.get(versionKey(group, version, plural))

/** The definition that an object's `apiVersion` and `kind` name, if it is served. */
export const ofObject = (registry: Registry, object: Json.JsonObject): ResourceDefinition | undefined => {
  for (const definition of registry.definitions.values()) {
    if (definition.kind === object["kind"] && apiVersion(definition) === object["apiVersion"]) return definition
  }
  return undefined
}

/** All definitions, in order of registration. */
export const all = (registry: Registry): ReadonlyArray<ResourceDefinition> => [...registry.definitions.values()]

const allVerbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
// The order in which discovery lists the verbs of custom resources
const customVerbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]

const plainFieldError = (field: string): string => `field label not supported: ${field}`
const knownFieldError = (field: string): string =>
  `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`

const identity = (object: Json.JsonObject): Json.JsonObject => object
const none = (): ReadonlyArray<FieldError> => []
const noError = (): undefined => undefined

const statusOf = (kind: string): Subresource => ({ name: "status", kind, verbs: ["get", "patch", "update"] })

/** What a definition can be made from: the names and whatever differs from the defaults of its sort. */
export type Definable = Pick<ResourceDefinition, "group" | "version" | "plural" | "kind" | "scope"> &
  Partial<ResourceDefinition>

/** A complete definition. Groups with a dot outside `k8s.io` count as custom unless said otherwise. */
export const define = (options: Definable): ResourceDefinition => {
  const custom =
    options.custom ??
    (options.group.includes(".") && (!options.group.endsWith(".k8s.io") || options.group.endsWith("x-k8s.io")))
  const statusSubresource = options.statusSubresource ?? custom
  return {
    singular: options.kind.toLowerCase(),
    listKind: `${options.kind}List`,
    shortNames: [],
    categories: [],
    verbs: custom ? customVerbs : allVerbs,
    statusStoresMetadata: !custom,
    graceful: false,
    generation: custom ? "spec" : "none",
    selectableFields: {},
    fieldSelectorError: custom ? plainFieldError : knownFieldError,
    nameRule: "subdomain",
    defaultPropagation: "Background",
    defaults: identity,
    prepare: identity,
    keptMetadata: [],
    keptStatus: [],
    members: statusSubresource ? ["spec", "status"] : undefined,
    schema: none,
    validate: none,
    decodeError: noError,
    virtual: false,
    ...options,
    custom,
    statusSubresource,
    subresources: options.subresources ?? (statusSubresource ? [statusOf(options.kind)] : [])
  }
}

/** The registry with one more type, given as a definition, a core `Resource` descriptor or anything that names one. */
export const register = (registry: Registry, type: Definable): Registry => {
  const definition = define(type)
  return {
    definitions: new Map(registry.definitions).set(
      versionKey(definition.group, definition.version, definition.plural),
      definition
    )
  }
}

/** A registry of these types. */
export const make = (types: ReadonlyArray<Definable>): Registry => ({
  definitions: new Map(types.map((type) => [versionKey(type.group, type.version, type.plural), define(type)] as const))
})

// The functions that fill in give an object that lacks nothing back as it is: a change is then found by identity
const defaulted = (object: Json.JsonObject, defaults: Json.JsonObject): Json.JsonObject => {
  let filled: Record<string, Json.Json> | undefined
  for (const key of Object.keys(defaults)) {
    const value = defaults[key]
    if (object[key] !== undefined || value === undefined) continue
    filled ??= { ...object }
    filled[key] = value
  }
  return filled ?? object
}

const within = (
  object: Json.JsonObject,
  path: ReadonlyArray<string>,
  change: (inner: Json.JsonObject) => Json.JsonObject
): Json.JsonObject => {
  const inner = Json.at(object, ...path)
  return Json.isObject(inner) ? Json.set(object, path, change(inner)) : object
}

const textAt =
  (...path: ReadonlyArray<string | number>) =>
  (object: Json.JsonObject): string => {
    const value = Json.at(object, ...path)
    return value === undefined || value === null || typeof value === "object" ? "" : String(value)
  }

const invalid = (field: string, message: string): FieldError => ({ field, reason: "FieldValueInvalid", message })

// ---- pods -----------------------------------------------------------------------------------------------------------

const withFieldRef = (variable: Json.Json): Json.Json =>
  Json.isObject(Json.at(variable, "valueFrom", "fieldRef")) && Json.isObject(variable)
    ? Json.set(variable, ["valueFrom", "fieldRef"], {
        apiVersion: "v1",
        ...Json.object(Json.at(variable, "valueFrom", "fieldRef"))
      })
    : variable

const containerDefaults = (given: Json.Json): Json.Json => {
  if (!Json.isObject(given)) return given
  let container =
    given["env"] === undefined ? given : Json.set(given, ["env"], Json.mapItems(Json.array(given["env"]), withFieldRef))
  if (given["resources"] !== undefined) {
    container = Json.set(container, ["resources"], Resources.canonical(given["resources"], { thousandths: true }))
  }
  const image = Json.string(container["image"]) ?? ""
  const tag = image.includes("@") ? "digest" : (/:([^/:]+)$/.exec(image)?.[1] ?? "latest")
  return defaulted(container, {
    resources: {},
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: tag === "latest" ? "Always" : "IfNotPresent"
  })
}

const podSpecDefaults = (spec: Json.JsonObject, restartPolicy = "Always"): Json.JsonObject => {
  let filled = spec
  for (const key of ["containers", "initContainers"]) {
    if (spec[key] !== undefined) {
      filled = Json.set(filled, [key], Json.mapItems(Json.array(spec[key]), containerDefaults))
    }
  }
  return defaulted(filled, {
    restartPolicy,
    terminationGracePeriodSeconds: 30,
    dnsPolicy: "ClusterFirst",
    securityContext: {},
    schedulerName: "default-scheduler"
  })
}

const lifeTolerations = ["not-ready", "unreachable"].map((taint) => ({
  key: `node.kubernetes.io/${taint}`,
  operator: "Exists",
  effect: "NoExecute",
  tolerationSeconds: 300
}))

const tolerates = (toleration: Json.Json, key: string): boolean => {
  const own = Json.string(Json.at(toleration, "key")) ?? ""
  const effect = Json.string(Json.at(toleration, "effect")) ?? ""
  return (own === "" || own === key) && (effect === "" || effect === "NoExecute")
}

const qosClass = (spec: Json.JsonObject): string => {
  const containers = [...Json.array(spec["containers"]), ...Json.array(spec["initContainers"])]
  const sums = containers.map((container) => ({
    requests: Json.object(Json.at(container, "resources", "requests")),
    limits: Json.object(Json.at(container, "resources", "limits"))
  }))
  const counted = (amounts: Json.JsonObject): ReadonlyArray<string> =>
    ["cpu", "memory"].filter((name) => amounts[name] !== undefined)
  if (sums.every(({ limits, requests }) => counted(requests).length === 0 && counted(limits).length === 0)) {
    return "BestEffort"
  }
  const guaranteed = sums.every(
    ({ limits, requests }) =>
      counted(limits).length === 2 && counted(requests).every((name) => Json.equal(requests[name], limits[name]))
  )
  return guaranteed ? "Guaranteed" : "Burstable"
}

/** A limit without a request is a request too; in pods, not in templates. */
const withRequests = (container: Json.Json): Json.Json => {
  const limits = Json.at(container, "resources", "limits")
  if (!Json.isObject(container) || !Json.isObject(limits)) return container
  const requests = Json.object(Json.at(container, "resources", "requests"))
  return Object.keys(limits).every((name) => requests[name] !== undefined)
    ? container
    : Json.set(container, ["resources", "requests"], { ...limits, ...requests })
}

const times = (conditions: Json.Json, names: ReadonlyArray<string>): Json.Json =>
  Json.mapItems(Json.array(conditions), (condition) =>
    Json.isObject(condition) ? defaulted(condition, Object.fromEntries(names.map((name) => [name, null]))) : condition
  )

/** Go writes the times of a condition even when they are not set. */
const conditionTimes = (object: Json.JsonObject, names: ReadonlyArray<string>): Json.JsonObject => {
  const conditions = Json.at(object, "status", "conditions")
  return conditions === undefined ? object : Json.set(object, ["status", "conditions"], times(conditions, names))
}

const podDefaults = (pod: Json.JsonObject): Json.JsonObject => {
  const spec = defaulted(podSpecDefaults(Json.object(pod["spec"])), { enableServiceLinks: true })
  const filled = Json.set(
    pod,
    ["spec"],
    spec["containers"] === undefined
      ? spec
      : Json.set(spec, ["containers"], Json.mapItems(Json.array(spec["containers"]), withRequests))
  )
  return statusDefaults(conditionTimes(filled, ["lastProbeTime", "lastTransitionTime"]))
}

/** Go writes the last state of a container even when there is none. */
const statusDefaults = (pod: Json.JsonObject): Json.JsonObject =>
  within(pod, ["status"], (status) => {
    let filled = status
    for (const key of ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]) {
      if (status[key] === undefined) continue
      filled = Json.set(
        filled,
        [key],
        Json.mapItems(Json.array(status[key]), (entry) =>
          Json.isObject(entry) ? defaulted(entry, { state: {}, lastState: {} }) : entry
        )
      )
    }
    return filled
  })

const podPrepare = (pod: Json.JsonObject, old?: Json.JsonObject): Json.JsonObject => {
  const spec = Json.object(pod["spec"])
  const tolerations = Json.array(spec["tolerations"])
  const missing = lifeTolerations.filter(
    (wanted) => !tolerations.some((toleration) => tolerates(toleration, wanted.key))
  )
  const account = Json.string(spec["serviceAccountName"]) ?? Json.string(spec["serviceAccount"]) ?? "default"
  return {
    ...pod,
    spec: defaulted(missing.length === 0 ? spec : { ...spec, tolerations: [...tolerations, ...missing] }, {
      // Set on create alone: a replace without it tries to change the account
      ...(old === undefined ? { serviceAccountName: account, serviceAccount: account } : {}),
      priority: 0,
      preemptionPolicy: "PreemptLowerPriority"
    }),
    ...(old === undefined
      ? {
          status:
            Json.at(pod, "status", "qosClass") === undefined
              ? defaulted(Json.object(pod["status"]), { phase: "Pending", qosClass: qosClass(spec) })
              : defaulted(Json.object(pod["status"]), { phase: "Pending" })
        }
      : {})
  }
}

const withoutMutable = (spec: Json.JsonObject): Json.JsonObject => {
  const stripped: Record<string, Json.Json> = { ...spec }
  for (const key of ["containers", "initContainers"]) {
    if (stripped[key] !== undefined) {
      stripped[key] = Json.array(stripped[key]).map((container) =>
        Json.isObject(container) ? Json.omit(container, ["image"]) : container
      )
    }
  }
  return Json.omit(stripped, [
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates"
  ])
}

const withoutSeconds = (toleration: Json.Json): Json.Json =>
  Json.isObject(toleration) ? Json.omit(toleration, ["tolerationSeconds"]) : toleration

const podValidate = (pod: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> => {
  const spec = Json.object(pod["spec"])
  const containers = Json.array(spec["containers"])
  if (old === undefined) {
    if (containers.length === 0) {
      return [{ field: "spec.containers", reason: "FieldValueRequired", message: "Required value" }]
    }
    const missing = containers.flatMap((container, index) => {
      const errors: Array<FieldError> = []
      for (const key of ["name", "image"]) {
        if ((Json.string(Json.at(container, key)) ?? "") === "") {
          errors.push({
            field: `spec.containers[${index}].${key}`,
            reason: "FieldValueRequired",
            message: "Required value"
          })
        }
      }
      return errors
    })
    return [...missing, ...Resources.podErrors(spec, "spec")]
  }
  const before = Json.object(old["spec"])
  if (spec === before) return []
  for (const key of ["containers", "initContainers"]) {
    if (Json.array(spec[key]).length !== Json.array(before[key]).length) {
      return [
        {
          field: `spec.${key}`,
          reason: "FieldValueForbidden",
          message: `Forbidden: pod updates may not add or remove ${key === "containers" ? "containers" : "initContainers"}`
        }
      ]
    }
  }
  const deadline = Json.number(spec["activeDeadlineSeconds"])
  const deadlineBefore = Json.number(before["activeDeadlineSeconds"])
  const tooLate = deadline !== undefined && deadlineBefore !== undefined && deadline > deadlineBefore
  const deadlineErrors =
    deadlineBefore === undefined || (deadline !== undefined && !tooLate)
      ? []
      : [
          invalid(
            "spec.activeDeadlineSeconds",
            `Invalid value: ${deadline ?? null}: ${
              tooLate
                ? "must be less than or equal to previous value"
                : "must not update from a positive integer to nil value"
            }`
          )
        ]
  if (tooLate) return deadlineErrors
  const tolerations = Json.array(spec["tolerations"]).map(withoutSeconds)
  const kept = Json.array(before["tolerations"])
    .map(withoutSeconds)
    .every((toleration) => tolerations.some((present) => Json.equal(present, toleration)))
  const tolerationErrors: ReadonlyArray<FieldError> = kept
    ? []
    : [
        {
          field: "spec.tolerations",
          reason: "FieldValueForbidden",
          message: "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        }
      ]
  const graceBefore = Json.number(before["terminationGracePeriodSeconds"])
  const unchanged =
    Json.equal(withoutMutable(spec), withoutMutable(before)) &&
    (Json.equal(spec["terminationGracePeriodSeconds"], before["terminationGracePeriodSeconds"]) ||
      (graceBefore !== undefined && graceBefore < 0 && spec["terminationGracePeriodSeconds"] === 1))
  return unchanged
    ? [...deadlineErrors, ...tolerationErrors]
    : [
        ...deadlineErrors,
        ...tolerationErrors,
        {
          field: "spec",
          reason: "FieldValueForbidden",
          message:
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        }
      ]
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

const jobDefaults = (job: Json.JsonObject): Json.JsonObject => {
  const given = Json.object(job["spec"])
  const spec = defaulted(given, {
    parallelism: 1,
    ...(given["completions"] === undefined && given["parallelism"] === undefined ? { completions: 1 } : {}),
    backoffLimit: given["backoffLimitPerIndex"] === undefined ? 6 : 2_147_483_647,
    manualSelector: false,
    completionMode: "NonIndexed",
    suspend: false,
    podReplacementPolicy: given["podFailurePolicy"] === undefined ? "TerminatingOrFailed" : "Failed"
  })
  const template = Json.object(spec["template"])
  const filled = Json.set(template, ["spec"], podSpecDefaults(Json.object(template["spec"])))
  return withoutZeroCounters(withTemplateLabels(Json.set(job, ["spec"], Json.set(spec, ["template"], filled))))
}

/** Go leaves these out when they are 0. */
const zeroCounters = ["active", "succeeded", "failed"]

const withoutZeroCounters = (job: Json.JsonObject): Json.JsonObject =>
  within(job, ["status"], (status) =>
    Json.omit(
      status,
      zeroCounters.filter((key) => status[key] === 0)
    )
  )

/** A Job without labels has those of its template: https://kubernetes.io/docs/concepts/workloads/controllers/job/ */
const withTemplateLabels = (job: Json.JsonObject): Json.JsonObject => {
  const labels = Json.at(job, "spec", "template", "metadata", "labels")
  const own = Json.object(Json.at(job, "metadata", "labels"))
  return Object.keys(own).length > 0 || !Json.isObject(labels) || Object.keys(labels).length === 0
    ? job
    : Json.set(job, ["metadata", "labels"], labels)
}

const jobPrepare = (job: Json.JsonObject, old?: Json.JsonObject): Json.JsonObject => {
  // Generated on create alone: a replace must repeat the selector and its labels
  if (old !== undefined || Json.at(job, "spec", "selector") !== undefined) return job
  const uid = Json.string(Json.at(job, "metadata", "uid")) ?? ""
  const name = Json.string(Json.at(job, "metadata", "name")) ?? ""
  const spec = Json.object(job["spec"])
  const manual = spec["manualSelector"] === true
  const labels = manual
    ? {}
    : {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name
      }
  const template = Json.object(spec["template"])
  const templateMeta = Json.object(template["metadata"])
  return withTemplateLabels({
    ...job,
    spec: {
      ...spec,
      ...(manual || spec["selector"] !== undefined
        ? {}
        : { selector: { matchLabels: { "batch.kubernetes.io/controller-uid": uid } } }),
      template: {
        ...template,
        metadata: manual
          ? templateMeta
          : { ...templateMeta, labels: { ...Json.object(templateMeta["labels"]), ...labels } }
      }
    },
    status: Json.object(job["status"])
  })
}

const schedulingPaths: ReadonlyArray<ReadonlyArray<string>> = [
  ["metadata", "labels"],
  ["metadata", "annotations"],
  ["spec", "nodeSelector"],
  ["spec", "affinity"],
  ["spec", "tolerations"],
  ["spec", "schedulingGates"]
]

/** The name is the value of a label of the pods. */
const labelNameErrors = (job: Json.JsonObject): ReadonlyArray<FieldError> => {
  const name = Json.string(Json.at(job, "metadata", "name")) ?? ""
  return name.length <= 63 || name.length > 253
    ? []
    : [invalid("spec.template.labels", `Invalid value: ${JSON.stringify(name)}: must be no more than 63 bytes`)]
}

/** Pods of an Indexed Job are named after it, and their names are host names. */
const jobNameErrors = (job: Json.JsonObject): ReadonlyArray<FieldError> => {
  const completions = Json.number(Json.at(job, "spec", "completions")) ?? 0
  if (Json.at(job, "spec", "completionMode") !== "Indexed" || completions === 0) return []
  const name = Json.string(Json.at(job, "metadata", "name")) ?? ""
  const pod = `${name}-${completions - 1}`
  return pod.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(pod)
    ? []
    : [
        invalid(
          "metadata.name",
          `Invalid value: ${JSON.stringify(name)}: will not able to create pod with invalid DNS label: ${pod}`
        )
      ]
}

const goWord = (value: Json.Json): string =>
  Json.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : Json.isObject(value) ? "object" : typeof value

/** What Go's decoder says of a pod spec that is not what it should be. */
const podSpecProblem = (spec: Json.Json | undefined, owner: string, path: string): string | undefined => {
  if (spec === undefined || spec === null) return undefined
  if (!Json.isObject(spec)) {
    return `json: cannot unmarshal ${goWord(spec)} into Go struct field ${owner}.${path} of type v1.PodSpec`
  }
  for (const key of ["nodeName", "restartPolicy", "schedulerName", "serviceAccountName"]) {
    const value = spec[key]
    if (value === undefined || value === null || typeof value === "string") continue
    return `json: cannot unmarshal ${goWord(value)} into Go struct field PodSpec.${path}.${key} of type string`
  }
  for (const container of Json.array(spec["containers"])) {
    for (const key of ["name", "image"]) {
      const value = Json.at(container, key)
      if (value === undefined || value === null || typeof value === "string") continue
      return `json: cannot unmarshal ${goWord(value)} into Go struct field Container.${path}.containers.${key} of type string`
    }
  }
  return Resources.podProblem(spec)
}

const jobDecodeError = (job: Json.JsonObject): string | undefined => {
  const spec = Json.object(job["spec"])
  for (const key of ["parallelism", "completions", "backoffLimit"]) {
    const value = spec[key]
    if (value === undefined || value === null || typeof value === "number") continue
    return `json: cannot unmarshal ${goWord(value)} into Go struct field JobSpec.spec.${key} of type int32`
  }
  const suspend = spec["suspend"]
  if (suspend !== undefined && suspend !== null && typeof suspend !== "boolean") {
    return `json: cannot unmarshal ${goWord(suspend)} into Go struct field JobSpec.spec.suspend of type bool`
  }
  return podSpecProblem(Json.at(spec, "template", "spec"), "PodTemplateSpec", "spec.template.spec")
}

/** What a Job must be at any time. */
const jobSpecErrors = (spec: Json.JsonObject): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  for (const key of ["parallelism", "completions"]) {
    const count = Json.number(spec[key])
    if (count !== undefined && count < 0) {
      errors.push(invalid(`spec.${key}`, `Invalid value: ${count}: must be greater than or equal to 0`))
    }
  }
  if (spec["selector"] === undefined) {
    errors.push({ field: "spec.selector", reason: "FieldValueRequired", message: "Required value" })
  }
  const labels = Json.at(spec, "template", "metadata", "labels")
  const wanted = Json.object(Json.at(spec, "selector", "matchLabels"))
  const matches = Object.entries(wanted).every(([key, value]) => Json.at(labels, key) === value)
  if (spec["selector"] === undefined ? labels === undefined : !matches) {
    errors.push(
      invalid(
        "spec.template.metadata.labels",
        `Invalid value: ${JSON.stringify(labels ?? null)}: \`selector\` does not match template \`labels\``
      )
    )
  }
  return errors
}

const jobCounters = ["active", "succeeded", "failed", "ready", "terminating"]

/** What the status of a Job may say, and take back. */
const jobStatusErrors = (job: Json.JsonObject, old: Json.JsonObject): ReadonlyArray<FieldError> => {
  const count = (object: Json.JsonObject, key: string): number => Json.number(Json.at(object, "status", key)) ?? 0
  const wrong = (key: string, text: string): FieldError =>
    invalid(`status.${key}`, `Invalid value: ${count(job, key)}: ${text}`)
  return [
    ...jobCounters.filter((key) => count(job, key) < 0).map((key) => wrong(key, "must be greater than or equal to 0")),
    ...(Json.at(job, "status", "ready") !== undefined && count(job, "ready") > count(job, "active")
      ? [wrong("ready", "cannot set more ready pods than active")]
      : []),
    ...["failed", "succeeded"]
      .filter((key) => count(job, key) < count(old, key))
      .map((key) => wrong(key, `cannot decrease the ${key} counter`))
  ]
}

const jobValidate = (job: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> => {
  const spec = Json.object(job["spec"])
  if (old === undefined) {
    const errors: Array<FieldError> = [...jobSpecErrors(spec), ...labelNameErrors(job), ...jobNameErrors(job)]
    if (Json.array(Json.at(spec, "template", "spec", "containers")).length === 0) {
      errors.push({
        field: "spec.template.spec.containers",
        reason: "FieldValueRequired",
        message: "Required value"
      })
    }
    const volumes = Json.array(Json.at(spec, "template", "spec", "volumes")).map((volume) => Json.at(volume, "name"))
    Json.array(Json.at(spec, "template", "spec", "containers")).forEach((container, index) => {
      const field = `spec.template.spec.containers[${index}]`
      if ((Json.string(Json.at(container, "image")) ?? "") === "") {
        errors.push({ field: `${field}.image`, reason: "FieldValueRequired", message: "Required value" })
      }
      Json.array(Json.at(container, "volumeMounts")).forEach((mount, at) => {
        const name = Json.string(Json.at(mount, "name")) ?? ""
        if (volumes.includes(name)) return
        errors.push({
          field: `${field}.volumeMounts[${at}].name`,
          reason: "FieldValueNotFound",
          message: `Not found: ${JSON.stringify(name)}`
        })
      })
    })
    errors.push(...Resources.podErrors(Json.at(spec, "template", "spec"), "spec.template.spec"))
    const restartPolicy = Json.at(spec, "template", "spec", "restartPolicy")
    if (restartPolicy === "Always") {
      errors.push({
        field: "spec.template.spec.restartPolicy",
        reason: "FieldValueRequired",
        message: `Required value: valid values: "OnFailure", "Never"`
      })
    }
    return errors
  }
  const before = Json.object(old["spec"])
  // A write of the status leaves the rest as it is
  if (spec === before || job["status"] !== old["status"]) return jobStatusErrors(job, old)
  const errors: Array<FieldError> = [...jobSpecErrors(spec)]
  const elastic = spec["completionMode"] === "Indexed" && Json.equal(spec["completions"], spec["parallelism"])
  if (!Json.equal(spec["completions"], before["completions"]) && !elastic) {
    errors.push(
      spec["completionMode"] === "Indexed"
        ? invalid(
            "spec.completions",
            `Invalid value: ${JSON.stringify(spec["completions"])}: can only be modified in tandem with spec.parallelism`
          )
        : invalid("spec.completions", `Invalid value: ${JSON.stringify(spec["completions"])}: field is immutable`)
    )
  }
  const unchanged = (key: string): void => {
    if (Json.equal(spec[key], before[key])) return
    errors.push(invalid(`spec.${key}`, `Invalid value: ${JSON.stringify(spec[key] ?? null)}: field is immutable`))
  }
  unchanged("selector")
  let template = Json.object(spec["template"])
  const templateBefore = Json.object(before["template"])
  const neverStarted =
    before["suspend"] === true &&
    Json.at(old, "status", "startTime") === undefined &&
    (Json.number(Json.at(old, "status", "active")) ?? 0) === 0
  if (neverStarted) {
    for (const path of schedulingPaths) template = Json.set(template, path, Json.at(templateBefore, ...path))
  }
  if (!Json.equal(template, templateBefore)) {
    // Of a Job that never ran only the pod's spec is compared as a whole
    const path = neverStarted ? ["template", "spec"] : ["template"]
    errors.push(
      invalid(`spec.${path.join(".")}`, `Invalid value: ${JSON.stringify(Json.at(spec, ...path))}: field is immutable`)
    )
  }
  for (const key of ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]) {
    unchanged(key)
  }
  return errors
}

// ---- namespaces, nodes, leases, config maps -------------------------------------------------------------------------

const namespacePrepare = (namespace: Json.JsonObject): Json.JsonObject => {
  const name = Json.string(Json.at(namespace, "metadata", "name")) ?? ""
  const withLabel = Json.set(namespace, ["metadata", "labels", "kubernetes.io/metadata.name"], name)
  return {
    ...withLabel,
    spec: defaulted(Json.object(namespace["spec"]), { finalizers: ["kubernetes"] }),
    status: defaulted(Json.object(namespace["status"]), { phase: "Active" })
  }
}

const nodeDefaults = (node: Json.JsonObject): Json.JsonObject =>
  ["capacity", "allocatable"].reduce(
    (filled, key) => within(filled, ["status", key], (list) => Resources.canonicalList(list, { thousandths: true })),
    conditionTimes(node, ["lastHeartbeatTime", "lastTransitionTime"])
  )

const microTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(?:Z|[+-]\d{2}:\d{2})$/

const leaseDecodeError = (lease: Json.JsonObject): string | undefined => {
  for (const key of ["acquireTime", "renewTime"]) {
    const value = Json.string(Json.at(lease, "spec", key))
    if (value !== undefined && !microTime.test(value)) {
      const rest = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(.*)$/.exec(value)?.[1] ?? value
      return `parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00": cannot parse ${JSON.stringify(rest)} as ".000000"`
    }
  }
  return undefined
}

const leaseDefaults = (lease: Json.JsonObject): Json.JsonObject =>
  within(lease, ["spec"], (spec) => {
    const utc: Record<string, Json.Json> = {}
    for (const key of ["acquireTime", "renewTime"]) {
      const value = Json.string(spec[key])
      const milliseconds = value === undefined || value.endsWith("Z") ? undefined : Json.parseTime(value)
      const micros = value?.slice(20, 26)
      if (milliseconds !== undefined && micros !== undefined) {
        utc[key] = `${Json.time(milliseconds).slice(0, 19)}.${micros}Z`
      }
    }
    return { ...spec, ...utc }
  })

const leaseValidate = (lease: Json.JsonObject): ReadonlyArray<FieldError> => {
  const spec = Json.object(lease["spec"])
  const errors: Array<FieldError> = []
  const duration = Json.number(spec["leaseDurationSeconds"])
  if (duration !== undefined && duration <= 0) {
    errors.push(invalid("spec.leaseDurationSeconds", `Invalid value: ${duration}: must be greater than 0`))
  }
  const transitions = Json.number(spec["leaseTransitions"])
  if (transitions !== undefined && transitions < 0) {
    errors.push(invalid("spec.leaseTransitions", `Invalid value: ${transitions}: must be greater than or equal to 0`))
  }
  return errors
}

const goType = (value: Json.Json): string =>
  value === null ? "null" : Json.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value

const stringMapError =
  (kind: string, fields: ReadonlyArray<string>) =>
  (object: Json.JsonObject): string | undefined => {
    for (const field of fields) {
      const value = object[field]
      if (value === undefined || value === null) continue
      if (!Json.isObject(value)) {
        return `json: cannot unmarshal ${goType(value)} into Go struct field ${kind}.${field} of type map[string]string`
      }
      const wrong = Object.values(value).find((entry) => typeof entry !== "string" && entry !== null)
      if (wrong !== undefined) {
        return `json: cannot unmarshal ${goType(wrong)} into Go struct field ${kind}.${field} of type string`
      }
    }
    return undefined
  }

const megabyte = 1_048_576
const dataKeyText =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"

const dataValidate = (object: Json.JsonObject): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  let bytes = 0
  for (const field of ["data", "binaryData", "stringData"]) {
    for (const [key, value] of Object.entries(Json.object(object[field]))) {
      bytes += typeof value === "string" ? value.length : 0
      if (!/^[-._a-zA-Z0-9]+$/.test(key)) {
        errors.push(invalid(`${field}[${key}]`, `Invalid value: ${JSON.stringify(key)}: ${dataKeyText}`))
      }
    }
  }
  if (bytes > megabyte) {
    errors.push({
      field: "[]",
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${megabyte} bytes`
    })
  }
  return errors
}

/** Go leaves empty maps out. */
const configMapDefaults = (object: Json.JsonObject): Json.JsonObject =>
  Json.omit(
    object,
    ["data", "binaryData"].filter((key) => {
      const value = object[key]
      return value === null || (Json.isObject(value) && Object.keys(value).length === 0)
    })
  )

const immutableText = "Forbidden: field is immutable when `immutable` is set"

const configMapValidate = (object: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> => {
  const errors = [...dataValidate(object)]
  if (old === undefined || old["immutable"] !== true) return errors
  const changed = (field: string, yes: boolean): void => {
    if (yes) errors.push({ field, reason: "FieldValueForbidden", message: immutableText })
  }
  changed("immutable", object["immutable"] !== true)
  for (const field of ["data", "binaryData"]) {
    changed(field, !Json.equal(Json.object(object[field]), Json.object(old[field])))
  }
  return errors
}

const secretDefaults = (secret: Json.JsonObject): Json.JsonObject => defaulted(secret, { type: "Opaque" })

const roleValidate = (object: Json.JsonObject): ReadonlyArray<FieldError> =>
  Json.array(object["rules"]).flatMap((rule, index) =>
    Json.array(Json.at(rule, "verbs")).length > 0
      ? []
      : [
          {
            field: `rules[${index}].verbs`,
            reason: "FieldValueRequired" as const,
            message: "Required value"
          }
        ]
  )

const bindingValidate = (object: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> =>
  old === undefined || Json.equal(object["roleRef"], old["roleRef"])
    ? []
    : [
        invalid(
          "roleRef",
          `Invalid value: ${JSON.stringify({
            APIGroup: Json.at(object, "roleRef", "apiGroup"),
            Kind: Json.at(object, "roleRef", "kind"),
            Name: Json.at(object, "roleRef", "name")
          })}: field is immutable`
        )
      ]

const bindingDefaults = (object: Json.JsonObject): Json.JsonObject => ({
  ...object,
  roleRef: defaulted(Json.object(object["roleRef"]), { apiGroup: "rbac.authorization.k8s.io" }),
  ...(object["subjects"] === undefined
    ? {}
    : {
        subjects: Json.array(object["subjects"]).map((subject) =>
          Json.isObject(subject) && subject["kind"] !== "ServiceAccount"
            ? defaulted(subject, { apiGroup: "rbac.authorization.k8s.io" })
            : subject
        )
      })
})

// ---- custom resources -----------------------------------------------------------------------------------------------

type JsonType = "boolean" | "integer" | "string" | "object" | "array"

const typeOf = (value: Json.Json): string =>
  Json.isArray(value)
    ? "array"
    : value === null
      ? "null"
      : typeof value === "number"
        ? Number.isInteger(value)
          ? "integer"
          : "number"
        : typeof value

/** Type errors of some fields, with the words of the schema validator of custom resources. */
const typeErrors = (
  object: Json.JsonObject,
  fields: { readonly [path: string]: JsonType }
): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  for (const [path, wanted] of Object.entries(fields)) {
    const value = Json.at(object, ...path.split("."))
    if (value === undefined || value === null || typeOf(value) === wanted) continue
    errors.push({
      field: path,
      reason: "FieldValueTypeInvalid",
      message: `Invalid value: "${typeOf(value)}": ${path} in body must be of type ${wanted}: "${typeOf(value)}"`
    })
  }
  return errors
}

/** Missing and mistyped fields keep the CEL rules from being checked, and the server says so. */
/** CEL transition rules `self == oldSelf`: they run only where the field is set before and after. */
const immutable = (
  object: Json.JsonObject,
  old: Json.JsonObject | undefined,
  paths: ReadonlyArray<string>,
  words = "field is immutable"
): ReadonlyArray<FieldError> =>
  old === undefined
    ? []
    : paths.flatMap((path) => {
        const now = Json.at(object, ...path.split("."))
        const before = Json.at(old, ...path.split("."))
        if (now === undefined || before === undefined || Json.equal(now, before)) return []
        const shown = Json.isObject(now) || Json.isArray(now) ? "" : `${JSON.stringify(now)}: `
        return [invalid(path, `Invalid value: ${shown}${words}`)]
      })

const required = (object: Json.JsonObject, parent: string, key: string): ReadonlyArray<FieldError> => {
  const holder = Json.at(object, ...parent.split("."))
  return Json.isObject(holder) && holder[key] === undefined
    ? [{ field: `${parent}.${key}`, reason: "FieldValueRequired", message: "Required value" }]
    : []
}

const managedByValues = ["trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"]

const trainJobDefaults = (job: Json.JsonObject): Json.JsonObject =>
  within(job, ["spec"], (spec) =>
    within(
      defaulted(spec, { managedBy: "trainer.kubeflow.org/trainjob-controller", suspend: false }),
      ["runtimeRef"],
      (runtime) => defaulted(runtime, { apiGroup: "trainer.kubeflow.org", kind: "ClusterTrainingRuntime" })
    )
  )

const trainJobSchema = (job: Json.JsonObject): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = [
    ...typeErrors(job, {
      "spec.suspend": "boolean",
      "spec.activeDeadlineSeconds": "integer",
      "spec.managedBy": "string",
      "spec.runtimeRef": "object",
      "spec.runtimeRef.name": "string",
      "spec.trainer": "object",
      "spec.trainer.numNodes": "integer",
      "spec.trainer.numProcPerNode": "integer",
      "spec.trainer.image": "string",
      "spec.trainer.command": "array",
      "spec.trainer.args": "array",
      "spec.trainer.env": "array",
      "spec.runtimePatches": "array"
    }),
    ...required(job, "spec", "runtimeRef"),
    ...required(job, "spec.runtimeRef", "name")
  ]
  const seen = new Set<string>()
  Json.array(Json.at(job, "spec", "runtimePatches")).forEach((patch, index) => {
    const manager = Json.string(Json.at(patch, "manager"))
    const field = `spec.runtimePatches[${index}]`
    if (manager === undefined) {
      errors.push({ field: `${field}.manager`, reason: "FieldValueRequired", message: "Required value" })
    } else if (seen.has(manager)) {
      errors.push({
        field,
        reason: "FieldValueDuplicate",
        message: `Duplicate value: {"manager":${JSON.stringify(manager)}}`
      })
    } else seen.add(manager)
  })
  const deadline = Json.number(Json.at(job, "spec", "activeDeadlineSeconds"))
  if (deadline !== undefined && deadline < 1) {
    errors.push(
      invalid(
        "spec.activeDeadlineSeconds",
        `Invalid value: ${deadline}: spec.activeDeadlineSeconds in body should be greater than or equal to 1`
      )
    )
  }
  return errors
}

const trainJobValidate = (job: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  const name = Json.string(Json.at(job, "metadata", "name")) ?? ""
  if (old === undefined) {
    if (!/^[a-z]([-a-z0-9]*[a-z0-9])?$/.test(name)) {
      errors.push(invalid("<nil>", "Invalid value: metadata.name must match RFC 1035 DNS label format"))
    }
    if (name.length > 63) {
      errors.push(invalid("<nil>", "Invalid value: metadata.name must be no more than 63 characters"))
    }
  }
  const managedBy = Json.string(Json.at(job, "spec", "managedBy"))
  if (managedBy !== undefined && !managedByValues.includes(managedBy)) {
    errors.push(
      invalid(
        "spec.managedBy",
        `Invalid value: ${JSON.stringify(managedBy)}: ManagedBy must be ${managedByValues.join(" or ")} if set`
      )
    )
  }
  return [
    ...errors,
    ...immutable(job, old, [
      "spec.activeDeadlineSeconds",
      "spec.initializer",
      "spec.managedBy",
      "spec.runtimeRef",
      "spec.trainer"
    ])
  ]
}

const jobSetDefaults = (jobSet: Json.JsonObject): Json.JsonObject =>
  within(jobSet, ["spec"], (spec) => ({
    ...spec,
    ...(spec["replicatedJobs"] === undefined
      ? {}
      : {
          replicatedJobs: Json.array(spec["replicatedJobs"]).map((entry) =>
            Json.isObject(entry) ? defaulted(entry, { groupName: "default", replicas: 1 }) : entry
          )
        }),
    ...(Json.isObject(spec["failurePolicy"])
      ? { failurePolicy: defaulted(spec["failurePolicy"], { restartStrategy: "Recreate" }) }
      : {})
  }))

const jobSetValidate = (jobSet: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> =>
  immutable(
    jobSet,
    old,
    ["spec.failurePolicy", "spec.network", "spec.startupPolicy", "spec.successPolicy", "spec.volumeClaimPolicies"],
    "Value is immutable"
  )

const holdsQuota = (workload: Json.JsonObject | undefined): boolean =>
  Json.array(Json.at(workload, "status", "conditions")).some(
    (condition) => Json.at(condition, "type") === "QuotaReserved" && Json.at(condition, "status") === "True"
  )

const workloadDefaults = (workload: Json.JsonObject): Json.JsonObject =>
  within(workload, ["spec"], (spec) => ({
    ...defaulted(spec, { active: true }),
    ...(spec["podSets"] === undefined
      ? {}
      : {
          podSets: Json.array(spec["podSets"]).map((entry) =>
            Json.isObject(entry) ? defaulted(entry, { count: 1, name: "main" }) : entry
          )
        })
  }))

const workloadSchema = (workload: Json.JsonObject): ReadonlyArray<FieldError> =>
  typeErrors(workload, { "spec.active": "boolean", "spec.queueName": "string" })

const workloadValidate = (workload: Json.JsonObject, old: Json.JsonObject | undefined): ReadonlyArray<FieldError> => {
  if (old === undefined || !holdsQuota(old) || !holdsQuota(workload)) return []
  return ["queueName", "priorityClassRef"].flatMap((key) =>
    Json.equal(Json.at(workload, "spec", key), Json.at(old, "spec", key))
      ? []
      : [invalid("<nil>", `Invalid value: ${key} is immutable while workload quota reserved`)]
  )
}

/**
 * Through `v1beta1` a Workload that holds quota and has no priority class cannot be written: the rule reads a field that the
 * conversion leaves out. Observed with Kueue 0.17.0.
 */
const olderWorkloadValidate = (
  workload: Json.JsonObject,
  old: Json.JsonObject | undefined
): ReadonlyArray<FieldError> => {
  const errors = workloadValidate(workload, old)
  const isBroken =
    old !== undefined &&
    holdsQuota(old) &&
    holdsQuota(workload) &&
    Json.at(workload, "spec", "priorityClassRef") === undefined
  return isBroken
    ? [
        ...errors,
        invalid(
          "<nil>",
          "Invalid value: no such key: priorityClassSource evaluating rule: priorityClassSource is immutable while workload quota reserved"
        )
      ]
    : errors
}

const stopPolicyDefaults = (object: Json.JsonObject): Json.JsonObject =>
  within(object, ["spec"], (spec) => defaulted(spec, { stopPolicy: "None" }))

const clusterQueueDefaults = (object: Json.JsonObject): Json.JsonObject =>
  within(object, ["spec"], (spec) => ({
    ...defaulted(spec, { stopPolicy: "None", queueingStrategy: "BestEffortFIFO" }),
    flavorFungibility: defaulted(Json.object(spec["flavorFungibility"]), {
      whenCanBorrow: "MayStopSearch",
      whenCanPreempt: "TryNextFlavor"
    }),
    preemption: defaulted(Json.object(spec["preemption"]), {
      borrowWithinCohort: { policy: "Never" },
      reclaimWithinCohort: "Never",
      withinClusterQueue: "Never"
    })
  }))

// ---- the list -------------------------------------------------------------------------------------------------------

const core = { group: "", version: "v1" } as const
const batch = { group: "batch", version: "v1" } as const
const rbac = { group: "rbac.authorization.k8s.io", version: "v1" } as const
const trainer = { group: "trainer.kubeflow.org", version: "v1alpha1" } as const
const authorization = { group: "authorization.k8s.io", version: "v1" } as const

const kueueTypes: ReadonlyArray<Omit<Definable, "group" | "version">> = [
  {
    plural: "workloads",
    kind: "Workload",
    scope: "Namespaced",
    shortNames: ["kwl", "kueueworkload", "kueueworkloads"],
    defaults: workloadDefaults,
    schema: workloadSchema,
    validate: workloadValidate
  },
  {
    plural: "localqueues",
    kind: "LocalQueue",
    scope: "Namespaced",
    shortNames: ["queue", "queues", "lq"],
    defaults: stopPolicyDefaults,
    validate: (object, old) => immutable(object, old, ["spec.clusterQueue"])
  },
  {
    plural: "clusterqueues",
    kind: "ClusterQueue",
    scope: "Cluster",
    shortNames: ["cq"],
    defaults: clusterQueueDefaults
  },
  {
    plural: "admissionchecks",
    kind: "AdmissionCheck",
    scope: "Cluster",
    schema: (object) => required(object, "spec", "controllerName"),
    validate: (object, old) => immutable(object, old, ["spec.controllerName"])
  },
  {
    plural: "resourceflavors",
    kind: "ResourceFlavor",
    scope: "Cluster",
    shortNames: ["flavor", "flavors", "rf"],
    statusSubresource: false
  },
  { plural: "workloadpriorityclasses", kind: "WorkloadPriorityClass", scope: "Cluster", statusSubresource: false }
]

/** Kueue's types in one of its versions: `v1beta2`, or the older `v1beta1`. */
export const kueue = (version: string): ReadonlyArray<Definable> =>
  kueueTypes.map((type) => ({
    ...type,
    group: "kueue.x-k8s.io",
    version,
    ...(version === "v1beta1" && type.plural === "workloads" ? { validate: olderWorkloadValidate } : {})
  }))

/** The built-in types of Kubernetes that a training cluster needs. */
export const kubernetes: ReadonlyArray<Definable> = [
  {
    ...core,
    plural: "pods",
    kind: "Pod",
    scope: "Namespaced",
    shortNames: ["po"],
    categories: ["all"],
    statusSubresource: true,
    subresources: [
      { name: "binding", kind: "Binding", verbs: ["create"] },
      { name: "eviction", kind: "Eviction", group: "policy", version: "v1", verbs: ["create"] },
      { name: "log", kind: "Pod", verbs: ["get"] },
      statusOf("Pod")
    ],
    graceful: true,
    generation: "pod",
    selectableFields: {
      "spec.nodeName": textAt("spec", "nodeName"),
      "spec.restartPolicy": textAt("spec", "restartPolicy"),
      "spec.schedulerName": textAt("spec", "schedulerName"),
      "spec.serviceAccountName": textAt("spec", "serviceAccountName"),
      "spec.hostNetwork": (pod) => String(Json.at(pod, "spec", "hostNetwork") === true),
      "status.phase": textAt("status", "phase"),
      "status.podIP": textAt("status", "podIP"),
      "status.nominatedNodeName": textAt("status", "nominatedNodeName")
    },
    fieldSelectorError: plainFieldError,
    defaults: podDefaults,
    keptMetadata: ["ownerReferences"],
    keptStatus: ["qosClass"],
    decodeError: (pod) => podSpecProblem(pod["spec"], "Pod", "spec"),
    prepare: podPrepare,
    validate: podValidate
  },
  {
    ...core,
    plural: "nodes",
    kind: "Node",
    scope: "Cluster",
    shortNames: ["no"],
    statusSubresource: true,
    defaults: nodeDefaults,
    selectableFields: { "spec.unschedulable": (node) => String(Json.at(node, "spec", "unschedulable") === true) },
    fieldSelectorError: plainFieldError
  },
  {
    ...core,
    plural: "namespaces",
    kind: "Namespace",
    scope: "Cluster",
    shortNames: ["ns"],
    verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
    statusSubresource: true,
    subresources: [{ name: "finalize", kind: "Namespace", verbs: ["update"] }, statusOf("Namespace")],
    selectableFields: { "status.phase": textAt("status", "phase") },
    fieldSelectorError: plainFieldError,
    nameRule: "namespace",
    prepare: namespacePrepare
  },
  {
    ...core,
    plural: "events",
    kind: "Event",
    scope: "Namespaced",
    shortNames: ["ev"],
    selectableFields: {
      "involvedObject.kind": textAt("involvedObject", "kind"),
      "involvedObject.namespace": textAt("involvedObject", "namespace"),
      "involvedObject.name": textAt("involvedObject", "name"),
      "involvedObject.uid": textAt("involvedObject", "uid"),
      "involvedObject.apiVersion": textAt("involvedObject", "apiVersion"),
      "involvedObject.resourceVersion": textAt("involvedObject", "resourceVersion"),
      "involvedObject.fieldPath": textAt("involvedObject", "fieldPath"),
      reason: textAt("reason"),
      reportingComponent: (event) =>
        textAt("reportingComponent")(event) === ""
          ? textAt("source", "component")(event)
          : textAt("reportingComponent")(event),
      source: textAt("source", "component"),
      type: textAt("type")
    },
    fieldSelectorError: plainFieldError
  },
  {
    ...core,
    plural: "configmaps",
    kind: "ConfigMap",
    scope: "Namespaced",
    shortNames: ["cm"],
    members: ["data", "binaryData", "immutable"],
    defaults: configMapDefaults,
    validate: configMapValidate,
    decodeError: stringMapError("ConfigMap", ["data", "binaryData"])
  },
  {
    ...core,
    plural: "secrets",
    kind: "Secret",
    scope: "Namespaced",
    selectableFields: { type: textAt("type") },
    fieldSelectorError: plainFieldError,
    defaults: secretDefaults,
    validate: dataValidate,
    decodeError: stringMapError("Secret", ["data", "stringData"])
  },
  {
    ...core,
    plural: "services",
    kind: "Service",
    scope: "Namespaced",
    shortNames: ["svc"],
    categories: ["all"],
    statusSubresource: true
  },
  {
    ...core,
    plural: "serviceaccounts",
    kind: "ServiceAccount",
    scope: "Namespaced",
    shortNames: ["sa"],
    subresources: [
      { name: "token", kind: "TokenRequest", group: "authentication.k8s.io", version: "v1", verbs: ["create"] }
    ]
  },
  {
    ...batch,
    plural: "jobs",
    kind: "Job",
    scope: "Namespaced",
    categories: ["all"],
    statusSubresource: true,
    generation: "spec",
    selectableFields: {
      "status.successful": (job) => String(Json.number(Json.at(job, "status", "succeeded")) ?? 0)
    },
    fieldSelectorError: (field) => `field label "${field}" not supported for Job`,
    defaultPropagation: "Orphan",
    defaults: jobDefaults,
    decodeError: jobDecodeError,
    prepare: jobPrepare,
    validate: jobValidate
  },
  {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
    kind: "Lease",
    scope: "Namespaced",
    custom: false,
    defaults: leaseDefaults,
    validate: leaseValidate,
    decodeError: leaseDecodeError
  },
  {
    group: "policy",
    version: "v1",
    plural: "poddisruptionbudgets",
    kind: "PodDisruptionBudget",
    scope: "Namespaced",
    shortNames: ["pdb"],
    statusSubresource: true,
    generation: "spec"
  },
  { ...rbac, plural: "roles", kind: "Role", scope: "Namespaced", nameRule: "path", validate: roleValidate },
  { ...rbac, plural: "clusterroles", kind: "ClusterRole", scope: "Cluster", nameRule: "path", validate: roleValidate },
  {
    ...rbac,
    plural: "rolebindings",
    kind: "RoleBinding",
    scope: "Namespaced",
    nameRule: "path",
    defaults: bindingDefaults,
    validate: bindingValidate
  },
  {
    ...rbac,
    plural: "clusterrolebindings",
    kind: "ClusterRoleBinding",
    scope: "Cluster",
    nameRule: "path",
    defaults: bindingDefaults,
    validate: bindingValidate
  },
  {
    ...authorization,
    plural: "selfsubjectaccessreviews",
    kind: "SelfSubjectAccessReview",
    scope: "Cluster",
    verbs: ["create"],
    virtual: true
  },
  {
    ...authorization,
    plural: "selfsubjectrulesreviews",
    kind: "SelfSubjectRulesReview",
    scope: "Cluster",
    verbs: ["create"],
    virtual: true
  },
  {
    group: "authentication.k8s.io",
    version: "v1",
    plural: "selfsubjectreviews",
    kind: "SelfSubjectReview",
    scope: "Cluster",
    verbs: ["create"],
    virtual: true
  }
]

/** JobSet's type. */
export const jobSet: ReadonlyArray<Definable> = [
  {
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    plural: "jobsets",
    kind: "JobSet",
    scope: "Namespaced",
    defaults: jobSetDefaults,
    validate: jobSetValidate
  }
]

/** The types of Kubeflow Trainer. */
export const kubeflowTrainer: ReadonlyArray<Definable> = [
  {
    ...trainer,
    plural: "trainjobs",
    kind: "TrainJob",
    scope: "Namespaced",
    defaults: trainJobDefaults,
    schema: trainJobSchema,
    validate: trainJobValidate
  },
  { ...trainer, plural: "trainingruntimes", kind: "TrainingRuntime", scope: "Namespaced", statusSubresource: false },
  {
    ...trainer,
    plural: "clustertrainingruntimes",
    kind: "ClusterTrainingRuntime",
    scope: "Cluster",
    statusSubresource: false
  }
]

/** Everything: Kubernetes, Trainer, JobSet and Kueue `v1beta2`. */
export const builtins: Registry = make([...kubernetes, ...jobSet, ...kubeflowTrainer, ...kueue("v1beta2")])
