/**
 * What every object has, and the helpers that the narrow schemas are made of. Schemas have no transformations: times stay
 * the strings the server sent (microseconds would be lost), `null` and absent are both accepted because Go writes either.
 *
 * @module
 */
import { Schema } from "effect"

/** An optional field, absent or null. */
export const optional = <S extends Schema.Schema.AnyNoContext>(schema: S) => Schema.optional(Schema.NullOr(schema))

/** A map of strings: labels, annotations, node selectors. */
export const StringMap = Schema.Record({ key: Schema.String, value: Schema.String })

/** `metav1.OwnerReference`. */
export const OwnerReference = Schema.Struct({
  apiVersion: Schema.String,
  kind: Schema.String,
  name: Schema.String,
  uid: Schema.String,
  controller: optional(Schema.Boolean),
  blockOwnerDeletion: optional(Schema.Boolean)
})
/** See the schema of the same name. */
export type OwnerReference = typeof OwnerReference.Type

/** `metav1.ObjectMeta`, as far as it is read. */
export const ObjectMeta = Schema.Struct({
  name: Schema.String,
  namespace: optional(Schema.String),
  uid: Schema.String,
  resourceVersion: optional(Schema.String),
  generation: optional(Schema.Number),
  creationTimestamp: optional(Schema.String),
  deletionTimestamp: optional(Schema.String),
  deletionGracePeriodSeconds: optional(Schema.Number),
  labels: optional(StringMap),
  annotations: optional(StringMap),
  finalizers: optional(Schema.Array(Schema.String)),
  ownerReferences: optional(Schema.Array(OwnerReference))
})
/** See the schema of the same name. */
export type ObjectMeta = typeof ObjectMeta.Type

/** `metav1.Condition` and its older siblings. */
export const Condition = Schema.Struct({
  type: Schema.String,
  status: Schema.String,
  reason: optional(Schema.String),
  message: optional(Schema.String),
  lastTransitionTime: optional(Schema.String),
  lastHeartbeatTime: optional(Schema.String),
  observedGeneration: optional(Schema.Number)
})
/** See the schema of the same name. */
export type Condition = typeof Condition.Type

/** The envelope that every kind shares. */
export const envelope = {
  apiVersion: Schema.optional(Schema.String),
  kind: Schema.optional(Schema.String),
  metadata: ObjectMeta
}

/** The condition of a type, if present. */
export const condition = (
  conditions: ReadonlyArray<Condition> | null | undefined,
  type: string
): Condition | undefined => conditions?.find((candidate) => candidate.type === type)

/** The condition of a type when its status is `True`. */
export const trueCondition = (
  conditions: ReadonlyArray<Condition> | null | undefined,
  type: string
): Condition | undefined => {
  const found = condition(conditions, type)
  return found?.status === "True" ? found : undefined
}

/** The owner reference marked `controller`, if any. */
export const controllerOf = (meta: ObjectMeta): OwnerReference | undefined =>
  meta.ownerReferences?.find((owner) => owner.controller === true)
