/**
 * The errors of the contract with a dispatcher. Everything else that can fail is a `KubeError` of the port.
 *
 * @module
 */
import { Data } from "effect"

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

/** The thing asked for does not exist (now); `reason` says which of the possible ones is missing and why. */
export class ErrNotFound extends Data.TaggedError("ErrNotFound")<{
  readonly kind: string
  readonly name: string
  readonly namespace: string | undefined
  readonly reason: string
}> {
  override get message(): string {
    const where = this.namespace === undefined ? "" : ` in namespace "${this.namespace}"`
    return `${this.kind} "${this.name}"${where} not found: ${this.reason}`
  }
}

/** Either of the contract's errors. */
export type AdapterError = ErrUnsupported | ErrNotFound
