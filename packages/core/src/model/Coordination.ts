/**
 * `coordination.k8s.io/v1` Lease.
 *
 * @module
 */
import { Schema } from "effect"
import * as Resource from "../kube/Resource.js"
import { envelope, optional } from "./Meta.js"

/** `Lease`. Times are RFC 3339 with exactly six fraction digits. */
export const Lease = Schema.Struct({
  ...envelope,
  spec: optional(
    Schema.Struct({
      holderIdentity: optional(Schema.String),
      leaseDurationSeconds: optional(Schema.Number),
      acquireTime: optional(Schema.String),
      renewTime: optional(Schema.String)
    })
  )
})
/** See the schema of the same name. */
export type Lease = typeof Lease.Type

export const leases = Resource.make({
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
  scope: "Namespaced",
  schema: Lease
})
