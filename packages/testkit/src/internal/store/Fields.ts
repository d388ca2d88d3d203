/**
 * Which fields an object of a type may have. What else a body names is dropped with a warning, or refused where the request
 * asks for strict validation: https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
 *
 * @module
 */
import * as ManagedFields from "../../ManagedFields.js"
import * as Json from "../../Json.js"
import * as Protobuf from "../../Protobuf.js"
import * as Registry from "../../Registry.js"

/**
 * What may be in a value: `any` is not looked into, a name is a message of the protobuf tables, an array says what items
 * are, and an object what members are (`*`: whatever their names).
 */
type Shape = string | readonly [Shape] | { readonly [field: string]: Shape }

const any = "any"

/** A scalar: where a custom resource has an object instead, nothing of it is known. Of built-in types the decoder complains first. */
const leaf = "leaf"

const metadata = "meta.v1.ObjectMeta"

const environment: Shape = ["core.v1.EnvVar"]

const initializer: Shape = { env: environment, secretRef: { name: leaf }, storageUri: leaf }

const templateMetadata: Shape = { annotations: any, finalizers: [leaf], labels: any, name: leaf, namespace: leaf }

const patchedContainer: Shape = {
  name: leaf,
  env: environment,
  securityContext: "core.v1.SecurityContext",
  volumeMounts: ["core.v1.VolumeMount"]
}

const patchedPodSpec: Shape = {
  affinity: "core.v1.Affinity",
  containers: [patchedContainer],
  imagePullSecrets: ["core.v1.LocalObjectReference"],
  initContainers: [patchedContainer],
  nodeSelector: any,
  schedulingGates: ["core.v1.PodSchedulingGate"],
  securityContext: "core.v1.PodSecurityContext",
  serviceAccountName: leaf,
  terminationGracePeriodSeconds: leaf,
  tolerations: ["core.v1.Toleration"],
  volumes: ["core.v1.Volume"]
}

const patchedReplicatedJob: Shape = {
  name: leaf,
  template: {
    metadata: templateMetadata,
    spec: { template: { metadata: templateMetadata, spec: patchedPodSpec } }
  }
}

const conditions: Shape = ["meta.v1.Condition"]

/** Custom kinds that the adapter meets, besides `apiVersion`, `kind` and `metadata`, by `apiVersion/kind`. */
// From the CRDs of Trainer 2.3.0 and Kueue 0.17.0
const customShapes: { readonly [kind: string]: { readonly [field: string]: Shape } } = {
  "trainer.kubeflow.org/v1alpha1/TrainJob": {
    spec: {
      activeDeadlineSeconds: leaf,
      initializer: { dataset: initializer, model: initializer },
      managedBy: leaf,
      runtimePatches: [
        {
          manager: leaf,
          time: leaf,
          trainingRuntimeSpec: {
            template: { metadata: templateMetadata, spec: { replicatedJobs: [patchedReplicatedJob] } }
          }
        }
      ],
      runtimeRef: { apiGroup: leaf, kind: leaf, name: leaf },
      suspend: leaf,
      trainer: {
        args: [leaf],
        command: [leaf],
        env: environment,
        image: leaf,
        numNodes: leaf,
        numProcPerNode: leaf,
        resourcesPerNode: "core.v1.ResourceRequirements"
      }
    },
    status: {
      conditions,
      jobsStatus: [{ active: leaf, failed: leaf, name: leaf, ready: leaf, succeeded: leaf, suspended: leaf }],
      trainerStatus: {
        estimatedRemainingSeconds: leaf,
        lastUpdatedTime: leaf,
        metrics: [{ name: leaf, value: leaf }],
        progressPercentage: leaf
      }
    }
  },
  "kueue.x-k8s.io/v1beta2/AdmissionCheck": {
    spec: { controllerName: leaf, parameters: { apiGroup: leaf, kind: leaf, name: leaf } },
    status: { conditions }
  },
  "kueue.x-k8s.io/v1beta2/Workload": {
    spec: {
      active: leaf,
      maximumExecutionTimeSeconds: leaf,
      podSets: any,
      preemptionGates: [{ name: leaf }],
      priority: leaf,
      priorityClassRef: { group: leaf, kind: leaf, name: leaf },
      queueName: leaf
    },
    status: {
      accumulatedPastExecutionTimeSeconds: leaf,
      admission: any,
      admissionChecks: [
        {
          lastTransitionTime: leaf,
          message: leaf,
          name: leaf,
          podSetUpdates: [
            { annotations: any, labels: any, name: leaf, nodeSelector: any, tolerations: ["core.v1.Toleration"] }
          ],
          requeueAfterSeconds: leaf,
          retryCount: leaf,
          state: leaf
        }
      ],
      clusterName: leaf,
      conditions,
      nominatedClusterNames: [leaf],
      preemptionGates: [{ lastTransitionTime: leaf, name: leaf, position: leaf }],
      reclaimablePods: [{ count: leaf, name: leaf }],
      requeueState: { count: leaf, requeueAt: leaf },
      resourceRequests: any,
      schedulingStats: any,
      unhealthyNodes: [{ name: leaf }]
    }
  }
}

const messageShapes = new Map<string, { readonly [field: string]: Shape }>()

/** The members of a message as a shape; `undefined` for scalars. */
const messageShape = (name: string): { readonly [field: string]: Shape } | undefined => {
  const known = messageShapes.get(name)
  if (known !== undefined) return known
  const message = Protobuf.messageOf(name)
  if (message === undefined) return undefined
  const shape: Record<string, Shape> = {}
  for (const { many, name: field, type } of message.values()) {
    if (field === "") Object.assign(shape, messageShape(type))
    else if (Protobuf.messageOf(type) === undefined) {
      shape[field] = many === "list" ? [leaf] : many === "map" ? any : leaf
    } else shape[field] = many === "list" ? [type] : many === "map" ? { "*": type } : type
  }
  messageShapes.set(name, shape)
  return shape
}

const rootShapes = new Map<string, { readonly [field: string]: Shape }>()

const rootShape = (type: Registry.ResourceDefinition): { readonly [field: string]: Shape } | undefined => {
  const id = `${Registry.apiVersion(type)}/${type.kind}`
  const known = rootShapes.get(id)
  if (known !== undefined) return known
  const message = type.custom ? undefined : Protobuf.messageOfKind(Registry.apiVersion(type), type.kind)
  const own = message === undefined ? customShapes[id] : messageShape(message)
  if (own === undefined) return undefined
  const shape = { ...own, apiVersion: any, kind: any, metadata }
  rootShapes.set(id, shape)
  return shape
}

/** What is below a value whose shape is this; `undefined` where nothing is looked into. */
const resolved = (shape: Shape): Exclude<Shape, string> | undefined =>
  typeof shape === "string" ? messageShape(shape) : shape

const isListShape = (shape: Exclude<Shape, string>): shape is readonly [Shape] => Array.isArray(shape)

/** The shape of a member; `undefined` when there is no such member. */
const memberShape = (shape: { readonly [field: string]: Shape }, key: string): Shape | undefined =>
  Object.hasOwn(shape, key) ? shape[key] : shape["*"]

interface Found {
  readonly custom: boolean
  readonly strangers: Array<string>
}

/**
 * The value without what its shape does not name; as it is when there is nothing of the kind. What is the same as `before`
 * has been looked at.
 */
const known = (
  value: Json.Json,
  given: Shape,
  path: string,
  found: Found,
  before: Json.Json | undefined
): Json.Json => {
  if (value === before) return value
  if (given === leaf) {
    // Metadata is read by somebody else, who complains
    if (!found.custom || !Json.isObject(value) || path.startsWith("metadata.")) return value
    for (const key of Object.keys(value)) found.strangers.push(`${path}.${key}`)
    return {}
  }
  const shape = resolved(given)
  if (shape === undefined) return value
  if (isListShape(shape)) {
    if (!Json.isArray(value)) return value
    let index = -1
    return Json.mapItems(value, (entry) => {
      index += 1
      return known(entry, shape[0], `${path}[${index}]`, found, Json.at(before, index))
    })
  }
  if (!Json.isObject(value)) return value
  let changed: Record<string, Json.Json> | undefined
  for (const key of Object.keys(value)) {
    const entry = value[key]
    const old = Json.isObject(before) ? before[key] : undefined
    if (entry === undefined || entry === old) continue
    const below = path === "" ? key : `${path}.${key}`
    const next = memberShape(shape, key)
    if (next === undefined) {
      found.strangers.push(below)
      changed ??= { ...value }
      delete changed[key]
      continue
    }
    const kept = next === any ? entry : known(entry, next, below, found, old)
    if (kept === entry) continue
    changed ??= { ...value }
    changed[key] = kept
  }
  return changed ?? value
}

/** Field management goes through members in order and stops at the first of an object that it does not know. */
const undeclaredIn = (value: Json.Json, given: Shape, path: string, field: string): ReadonlyArray<string> => {
  const shape = resolved(given)
  if (shape === undefined) return []
  if (isListShape(shape)) {
    return Json.array(value).flatMap((entry, index) =>
      undeclaredIn(entry, shape[0], `${path}${ManagedFields.itemPath(field, entry) ?? `[${index}]`}`, "")
    )
  }
  if (!Json.isObject(value)) return []
  const found: Array<string> = []
  for (const key of Object.keys(value).toSorted()) {
    const entry = value[key]
    const next = memberShape(shape, key)
    if (next === undefined) return [...found, `${path}.${key}`]
    if (entry !== undefined && next !== any) found.push(...undeclaredIn(entry, next, `${path}.${key}`, key))
  }
  return found
}

/** An object without fields that its type does not have, and their paths in the order of the body. */
export interface Known {
  readonly object: Json.JsonObject
  readonly unknown: ReadonlyArray<string>
}

/**
 * Takes out of an object what its type does not have, and what is not as it was in `before`. Types without a schema keep
 * everything.
 */
export const prune = (type: Registry.ResourceDefinition, object: Json.JsonObject, before?: Json.JsonObject): Known => {
  const shape = rootShape(type)
  if (shape === undefined) return { object, unknown: [] }
  const unknown: Array<string> = []
  const kept = known(object, shape, "", { custom: type.custom, strangers: unknown }, before)
  // Of custom resources the metadata is read by somebody else, and first
  const order = (path: string): string => `${path.startsWith("metadata.") ? 0 : 1}${path}`
  if (type.custom) unknown.sort((a, b) => (order(a) < order(b) ? -1 : 1))
  return { object: Json.object(kept), unknown }
}

/** Paths of an applied object that the type does not have, as field management writes them: `.spec.bogus`. */
export const undeclared = (type: Registry.ResourceDefinition, object: Json.JsonObject): ReadonlyArray<string> => {
  const members = Object.fromEntries((type.members ?? []).map((member) => [member, any] as const))
  const root = { apiVersion: any, kind: any, metadata, ...members }
  return undeclaredIn(object, rootShape(type) ?? (type.members === undefined ? any : root), "", "")
}

const operationMembers = ["op", "path", "from", "value"]

/** Paths in a JSON patch of what operations do not have: `[0].bogus`. */
export const unknownInPatch = (patch: unknown): ReadonlyArray<string> =>
  Json.array(Json.fromUnknown(patch)).flatMap((operation, index) =>
    Object.keys(Json.object(operation))
      .filter((key) => !operationMembers.includes(key))
      .map((key) => `[${index}].${key}`)
  )

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/** An object or a list of a JSON text that is being read, and where in it the reader is. */
interface Open {
  readonly path: string
  /** The members so far; `undefined` in a list. */
  readonly seen: Set<string> | undefined
  at: string
  index: number
}

/**
 * Paths of members that a JSON text names twice: parsers keep the last and say nothing. The text must be JSON.
 */
export const duplicates = (text: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  const stack: Array<Open> = []
  let last = ""
  const here = (): string => {
    const top = stack.at(-1)
    if (top === undefined) return ""
    if (top.seen === undefined) return `${top.path}[${top.index}]`
    return top.path === "" ? top.at : `${top.path}.${top.at}`
  }
  for (const [part] of text.matchAll(token)) {
    const top = stack.at(-1)
    switch (part) {
      case "{":
      case "[":
        stack.push({ path: here(), seen: part === "{" ? new Set() : undefined, at: "", index: 0 })
        break
      case "}":
      case "]":
        stack.pop()
        break
      case ":":
        if (top?.seen === undefined) break
        top.at = String(JSON.parse(last))
        if (top.seen.has(top.at)) found.push(here())
        top.seen.add(top.at)
        break
      case ",":
        if (top !== undefined) top.index += 1
        break
      default:
        last = part
    }
  }
  return found
}
