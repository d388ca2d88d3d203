/**
 * What a script can rely on.
 *
 * @module
 */
import { permissionId } from "@dispatch-kubeflow/core/AdapterError"

/** The exit codes of `dispatch-kubeflow`. */
export const ExitCode = {
  /** Done; the answer, where there is one, is yes. */
  ok: 0,
  /** A fault of this program. */
  fault: 1,
  /** The command line, a file it names or the kubeconfig is wrong. */
  usage: 2,
  /**
   * The answer is no: not ceased; the run that was watched to its end did not succeed; a needed check of the preflight did
   * not pass, or the backend can only observe; a runtime breaks a rule.
   */
  no: 3,
  /** The backend cannot do this (ErrUnsupported), and no permission would help. */
  unsupported: 4,
  /** There is no such TrainJob, pod or log (ErrNotFound). */
  notFound: 5,
  /** The cluster does not accept the credentials, or they lack a permission. */
  notPermitted: 6,
  /** The cluster cannot be reached, or its answer cannot be used. */
  unavailable: 7,
  /** Standard output does not take the answer, e.g. because the disk is full. */
  unwritten: 8,
  /** Interrupted by a signal. */
  interrupted: 130,
  /** Whoever read standard output has gone before all was written: what a shell says of a program that SIGPIPE ends. */
  readerGone: 141
} as const

/** One of the exit codes. */
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

/** The table as `--help` and the docs show it. */
export const exitCodeHelp: ReadonlyArray<readonly [number, string]> = [
  [ExitCode.ok, "done; the answer, where there is one, is yes"],
  [ExitCode.fault, "a fault of this program"],
  [ExitCode.usage, "the command line, a file it names or the kubeconfig is wrong"],
  [
    ExitCode.no,
    "the answer is no: not ceased, the watched run did not succeed, a check did not pass, a runtime breaks a rule"
  ],
  [ExitCode.unsupported, "the backend cannot do this; no permission would help"],
  [ExitCode.notFound, "no such TrainJob, pod or log"],
  [ExitCode.notPermitted, "the credentials are not accepted or lack a permission"],
  [ExitCode.unavailable, "the cluster cannot be reached, or its answer cannot be used"],
  [
    ExitCode.unwritten,
    "standard output cannot be written, e.g. the disk is full: what is there is not all of the answer"
  ],
  [ExitCode.interrupted, "interrupted"],
  [ExitCode.readerGone, "the reader of standard output has gone before all was written, as with head"]
]

/** What a command fails with. */
export interface Failure {
  readonly _tag: string
  readonly message: string
  /** What stands in the way, of an `ErrUnsupported`. */
  readonly details?: ReadonlyArray<{ readonly id: string }>
}

/** A failure as `--json` tells it. */
export const failureJson = (tag: string, message: string): string => JSON.stringify({ error: { tag, message } })

// Core tells a dispatcher that it cannot do something; to a script it matters that a permission would mend it
const lacksPermission = ({ details = [] }: Failure): boolean =>
  details.length > 0 && details.every(({ id }) => id === permissionId)

/** The exit code of a failure: what a script can do about it. */
export const exitCodeOf = (failure: Failure): ExitCode => {
  switch (failure._tag) {
    case "UsageError":
    case "KubeConfigError":
    case "EvidenceStoreError":
      return ExitCode.usage
    case "ErrUnsupported":
      return lacksPermission(failure) ? ExitCode.notPermitted : ExitCode.unsupported
    case "ErrNotFound":
    case "KubeNotFound":
      return ExitCode.notFound
    case "KubeForbidden":
    case "KubeUnauthorized":
    case "KubeDenied":
      return ExitCode.notPermitted
    case "KubeUnavailable":
    case "KubeMalformed":
    case "KubeExpired":
    case "KubeConflict":
    case "KubeInvalid":
      return ExitCode.unavailable
    case "OutputLost":
      return ExitCode.unwritten
    case "ReaderGone":
      return ExitCode.readerGone
    default:
      return ExitCode.fault
  }
}
