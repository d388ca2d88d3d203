/**
 * The one error of everything that has to do with a kubeconfig and the credentials it names.
 *
 * @module
 */
import { Data } from "effect"

/**
 * A kubeconfig that cannot be used, or credentials that cannot be had. The message names the file, the context and the
 * field, and says what to do; it never holds a token, a key or a plugin's output beyond its redacted error text.
 */
export class KubeConfigError extends Data.TaggedError("KubeConfigError")<{
  /** The file, or a word for where the configuration came from. */
  readonly origin: string
  readonly context?: string | undefined
  /** Path inside the document, e.g. `users["ci"].user.exec.command`. */
  readonly field?: string | undefined
  readonly problem: string
  /** What to do about it, as a sentence. */
  readonly advice: string
}> {
  /** Where, and what is wrong, without the advice. */
  get what(): string {
    const context = this.context === undefined ? "" : `, context "${this.context}"`
    const field = this.field === undefined ? "" : `: ${this.field}`
    return `${this.origin}${context}${field}: ${this.problem}`
  }

  override get message(): string {
    return `${this.what}. ${this.advice}`
  }
}
