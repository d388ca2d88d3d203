/**
 * The errors of the contract with a dispatcher. Everything else that can fail is a `KubeError` of the port.
 *
 * @module
 */
import { Data } from "effect"
import { type KubeForbidden, serverText } from "./kube/KubeError.js"
import * as KubeRequest from "./kube/KubeRequest.js"

/** One thing that stands in the way, e.g. a broken runtime rule: where it is, what is wrong, what to set. */
export interface Obstacle {
  /** A stable id, e.g. `restart-policy`. */
  readonly id: string
  /** The object and field path, e.g. `ClusterTrainingRuntime/torch-distributed spec.template…restartPolicy`. */
  readonly where: string
  readonly problem: string
  /** What to set or grant to make it go away. */
  readonly remedy: string
}

/** The backend cannot do this, here or at all. Trying again does not help; the details say what would. */
export class ErrUnsupported extends Data.TaggedError("ErrUnsupported")<{
  readonly operation: string
  readonly reason: string
  readonly details: ReadonlyArray<Obstacle>
}> {
  override get message(): string {
    const details = this.details.map((it) => `\n  - ${it.where}: ${it.problem}; ${it.remedy}`).join("")
    return `${this.operation} is not supported: ${this.reason}${details}`
  }
}

/** What a kind of pod is called in a sentence. */
const inWords = (kind: string): string => {
  const rank = /^Rank(Zero|[0-9]+)Pod$/.exec(kind)?.[1]
  return rank === undefined ? kind : `the pod of rank ${rank === "Zero" ? "0" : rank} of TrainJob`
}

/** The thing asked for does not exist (now); `reason` says which of the possible ones is missing and why. */
export class ErrNotFound extends Data.TaggedError("ErrNotFound")<{
  readonly kind: string
  readonly name: string
  readonly namespace: string | undefined
  readonly reason: string
}> {
  override get message(): string {
    const where = this.namespace === undefined ? "" : ` in namespace "${this.namespace}"`
    return `${inWords(this.kind)} "${this.name}"${where} not found: ${this.reason}`
  }
}

/** Either of the contract's errors. */
export type AdapterError = ErrUnsupported | ErrNotFound

/** The id of a detail of `ErrUnsupported` that tells of a missing permission: a grant mends it, and nothing else does. */
export const permissionId = "permission"

/** What cannot be done for want of a permission. */
export const missingPermission = (
  error: KubeForbidden,
  told: { readonly operation: string; readonly reason: string; readonly remedy: string }
): ErrUnsupported => {
  const words = serverText(error.status)
  return new ErrUnsupported({
    operation: told.operation,
    reason: told.reason,
    details: [
      {
        id: permissionId,
        where: KubeRequest.describe(error.request),
        problem: words === undefined ? "forbidden" : `forbidden: ${words}`,
        remedy: told.remedy
      }
    ]
  })
}
