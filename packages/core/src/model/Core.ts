/**
 * The core group (`v1`): pods, nodes, namespaces, events, config maps.
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import type * as Selector from "../kube/Selector.js"
import { Condition, envelope, optional, StringMap } from "./Meta.js"

/** `ContainerStateTerminated`. containerd never sets `signal` (observed with kubelet 1.37.2). */
export const Terminated = Schema.Struct({
  exitCode: Schema.Number,
  signal: optional(Schema.Number),
  reason: optional(Schema.String),
  message: optional(Schema.String),
  startedAt: optional(Schema.String),
  finishedAt: optional(Schema.String),
  containerID: optional(Schema.String)
})
/** See the schema of the same name. */
export type Terminated = typeof Terminated.Type

/** `ContainerState`: exactly one member is set; none means waiting. */
export const ContainerState = Schema.Struct({
  waiting: optional(Schema.Struct({ reason: optional(Schema.String), message: optional(Schema.String) })),
  running: optional(Schema.Struct({ startedAt: optional(Schema.String) })),
  terminated: optional(Terminated)
})

/** `ContainerStatus`. */
export const ContainerStatus = Schema.Struct({
  name: Schema.String,
  state: optional(ContainerState),
  lastState: optional(ContainerState),
  ready: optional(Schema.Boolean),
  restartCount: optional(Schema.Number),
  image: optional(Schema.String),
  containerID: optional(Schema.String),
  started: optional(Schema.Boolean)
})
/** See the schema of the same name. */
export type ContainerStatus = typeof ContainerStatus.Type

/** A container of a pod spec. Env values are not read: they are kept as unknown fields and never shown. */
export const Container = Schema.Struct({
  name: Schema.String,
  image: optional(Schema.String),
  // a sidecar is an init container with restartPolicy Always; others may have one of their own, too (1.34 and later)
  restartPolicy: optional(Schema.String),
  restartPolicyRules: optional(Schema.Array(Schema.Struct({ action: optional(Schema.String) })))
})

/** `PodSpec`, as far as it is read. `containers` is null on a pod bookmark. */
export const PodSpec = Schema.Struct({
  nodeName: optional(Schema.String),
  restartPolicy: optional(Schema.String),
  containers: optional(Schema.Array(Container)),
  initContainers: optional(Schema.Array(Container)),
  /** Put into a pod that runs, e.g. by `kubectl debug`; never restarted. */
  ephemeralContainers: optional(Schema.Array(Container)),
  terminationGracePeriodSeconds: optional(Schema.Number)
})

/** `Pod`. */
export const Pod = Schema.Struct({
  ...envelope,
  spec: optional(PodSpec),
  status: optional(
    Schema.Struct({
      phase: optional(Schema.String),
      reason: optional(Schema.String),
      message: optional(Schema.String),
      startTime: optional(Schema.String),
      conditions: optional(Schema.Array(Condition)),
      containerStatuses: optional(Schema.Array(ContainerStatus)),
      initContainerStatuses: optional(Schema.Array(ContainerStatus)),
      ephemeralContainerStatuses: optional(Schema.Array(ContainerStatus))
    })
  )
})
/** See the schema of the same name. */
export type Pod = typeof Pod.Type

/** `Taint`. */
export const Taint = Schema.Struct({
  key: Schema.String,
  value: optional(Schema.String),
  effect: Schema.String,
  timeAdded: optional(Schema.String)
})
/** See the schema of the same name. */
export type Taint = typeof Taint.Type

/** `Node`. */
export const Node = Schema.Struct({
  ...envelope,
  spec: optional(Schema.Struct({ unschedulable: optional(Schema.Boolean), taints: optional(Schema.Array(Taint)) })),
  status: optional(
    Schema.Struct({
      conditions: optional(Schema.Array(Condition)),
      nodeInfo: optional(
        Schema.Struct({
          /** The kernel's: another one after each boot. */
          bootID: optional(Schema.String),
          /** The operating system's and the firmware's: the same after each boot, others on another machine. */
          machineID: optional(Schema.String),
          systemUUID: optional(Schema.String),
          kubeletVersion: optional(Schema.String)
        })
      )
    })
  )
})
/** See the schema of the same name. */
export type Node = typeof Node.Type

/** `Namespace`. */
export const Namespace = Schema.Struct({
  ...envelope,
  status: optional(Schema.Struct({ phase: optional(Schema.String) }))
})
/** See the schema of the same name. */
export type Namespace = typeof Namespace.Type

/** `Event` (core view; events.k8s.io is another view of the same objects). */
export const Event = Schema.Struct({
  ...envelope,
  involvedObject: Schema.Struct({
    apiVersion: optional(Schema.String),
    kind: optional(Schema.String),
    name: optional(Schema.String),
    namespace: optional(Schema.String),
    uid: optional(Schema.String)
  }),
  type: optional(Schema.String),
  reason: optional(Schema.String),
  message: optional(Schema.String),
  count: optional(Schema.Number),
  firstTimestamp: optional(Schema.String),
  lastTimestamp: optional(Schema.String),
  eventTime: optional(Schema.String),
  series: optional(Schema.Struct({ count: optional(Schema.Number), lastObservedTime: optional(Schema.String) })),
  reportingComponent: optional(Schema.String)
})
/** See the schema of the same name. */
export type Event = typeof Event.Type

/** `ConfigMap`. */
export const ConfigMap = Schema.Struct({ ...envelope, data: optional(StringMap) })
/** See the schema of the same name. */
export type ConfigMap = typeof ConfigMap.Type

const core = { group: "", version: "v1" } as const

export const pods = Resource.make({ ...core, plural: "pods", kind: "Pod", scope: "Namespaced", schema: Pod })
export const nodes = Resource.make({ ...core, plural: "nodes", kind: "Node", scope: "Cluster", schema: Node })
export const namespaces = Resource.make({
  ...core,
  plural: "namespaces",
  kind: "Namespace",
  scope: "Cluster",
  schema: Namespace
})
export const events = Resource.make({ ...core, plural: "events", kind: "Event", scope: "Namespaced", schema: Event })

/** Of Events: the warnings about the JobSets and Jobs of TrainJobs, and about other workloads, but none about pods. */
export const warningsOfParts: Selector.FieldSelector = [
  { field: "type", operator: "=", value: "Warning" },
  { field: "involvedObject.kind", operator: "!=", value: "TrainJob" },
  { field: "involvedObject.kind", operator: "!=", value: "Pod" }
]

export const configMaps = Resource.make({
  ...core,
  plural: "configmaps",
  kind: "ConfigMap",
  scope: "Namespaced",
  schema: ConfigMap
})

/** The taint with which an administrator vouches that a machine is off; matched by key alone, as PodGC does. */
export const outOfServiceTaint = "node.kubernetes.io/out-of-service"
