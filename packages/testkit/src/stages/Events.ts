/**
 * Core events in the two shapes that controllers write: legacy (job, node and taint controllers, kubelet) and
 * events.k8s.io style (Trainer, JobSet, scheduler).
 *
 * @module
 */
import type { Act, Answer, Context } from "../Stage.js"
import { send } from "../Stage.js"
import * as Objects from "./Objects.js"

/** What an event says. */
export interface Occurrence {
  readonly regarding: Objects.Raw
  readonly type: "Normal" | "Warning"
  readonly reason: string
  readonly message: string
}

const namespaceOf = (object: Objects.Raw): string => object.metadata.namespace ?? "default"

const nameOf = (occurrence: Occurrence, component: string): string =>
  `${occurrence.regarding.metadata.name}.${Objects.hash(
    `${occurrence.regarding.metadata.uid} ${component} ${occurrence.type} ${occurrence.reason} ${occurrence.message}`
  )}`

const involved = (object: Objects.Raw): object =>
  Objects.compact({
    kind: object.kind,
    namespace: object.metadata.namespace,
    name: object.metadata.name,
    uid: object.metadata.uid,
    apiVersion: object.apiVersion,
    resourceVersion: object.metadata.resourceVersion
  })

/** Records a legacy event: a repeat raises `count` and moves `lastTimestamp`. */
export function* legacy(
  context: Context,
  component: string,
  occurrence: Occurrence,
  involvedObject: object = involved(occurrence.regarding)
): Generator<Act, void, Answer> {
  const namespace = namespaceOf(occurrence.regarding)
  const name = nameOf(occurrence, component)
  const at = Objects.time(context.now())
  const existing = context.view.get(Objects.events, namespace, name)
  if (existing !== undefined) {
    yield* send(Objects.patch(Objects.events, existing, { count: (existing.count ?? 1) + 1, lastTimestamp: at }))
    return
  }
  yield* send(
    Objects.create(Objects.events, namespace, {
      metadata: { name, namespace },
      involvedObject,
      reason: occurrence.reason,
      message: occurrence.message,
      source: { component },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
      type: occurrence.type,
      eventTime: null,
      reportingComponent: component,
      reportingInstance: ""
    })
  )
}

/** Records an events.k8s.io event, in its core view: a repeat sets `series`, first with count 2. */
export function* modern(
  context: Context,
  component: string,
  action: string,
  occurrence: Occurrence
): Generator<Act, void, Answer> {
  const namespace = namespaceOf(occurrence.regarding)
  const name = nameOf(occurrence, component)
  const at = Objects.micro(context.now())
  const existing = context.view.get(Objects.events, namespace, name)
  if (existing !== undefined) {
    yield* send(
      Objects.patch(Objects.events, existing, {
        series: { count: (existing.series?.count ?? 1) + 1, lastObservedTime: at }
      })
    )
    return
  }
  yield* send(
    Objects.create(Objects.events, namespace, {
      metadata: { name, namespace },
      involvedObject: involved(occurrence.regarding),
      reason: occurrence.reason,
      message: occurrence.message,
      source: {},
      firstTimestamp: null,
      lastTimestamp: null,
      type: occurrence.type,
      eventTime: at,
      action,
      reportingComponent: component,
      reportingInstance: `${component}-0`
    })
  )
}
