/**
 * What the user asked for, as a value. Nothing here acts.
 *
 * @module
 */
import type { Capability } from "@dispatch-kubeflow/core/decide/Support"
import type { TrainJobRef } from "@dispatch-kubeflow/core/TrainJobRef"
import type { JobName, RuntimeName, Since } from "./Values.js"

/** Where the cluster is, and how to answer. */
export interface Common {
  readonly kubeconfig: string | undefined
  readonly context: string | undefined
  /** Default: the namespace of the kubeconfig's context, else `default`. */
  readonly namespace: string | undefined
  readonly json: boolean
  readonly readOnly: boolean
  readonly acceptInPlaceRestarts: boolean
  /** Folder in which evidence is kept between invocations; in memory when left out. */
  readonly evidence: string | undefined
  /** Every request is told on standard error. */
  readonly verbose: boolean
  readonly kueue:
    | {
        readonly localQueue: string
        readonly admissionCheck: string
        readonly controllerName: string
        readonly lease: { readonly namespace: string; readonly name: string }
      }
    | undefined
}

/** What an answer is about: TrainJobs of a runtime, or the TrainJob in a file (`-` for standard input). */
export type About = { readonly runtime: RuntimeName } | { readonly file: string }

/** What the user asked for. */
export type Invocation = { readonly common: Common } & (
  | {
      readonly command: "preflight"
      readonly about: About | undefined
      readonly holdProbe: "dry-run" | "real"
    }
  | {
      readonly command: "capabilities"
      readonly about: About | undefined
      readonly explain: Capability | undefined
      readonly preflight: boolean
    }
  | { readonly command: "rules"; readonly policy: string; readonly preflight: boolean }
  /** Without a runtime: all of them. */
  | { readonly command: "runtime check"; readonly runtime: RuntimeName | undefined }
  | { readonly command: "runtime conform"; readonly runtime: RuntimeName; readonly name: string | undefined }
  | {
      readonly command: "output"
      readonly job: JobName
      readonly follow: boolean
      readonly tail: number | undefined
      readonly since: Since | undefined
      readonly timestamps: boolean
      readonly ranks: number | "all"
      readonly stream: "Stdout" | "Stderr"
    }
  | {
      readonly command: "watch"
      readonly job: JobName | undefined
      readonly run: string | undefined
      readonly once: boolean
      /** One update after another on a terminal, too. */
      readonly lines: boolean
      readonly untilOver: boolean
    }
  | { readonly command: "doctor"; readonly about: About | undefined }
  | { readonly command: "explain"; readonly job: JobName }
  | { readonly command: "ceased"; readonly job: JobName }
)

/** The reference of a TrainJob whose namespace, where not given, is the invocation's. */
export const refOf = (job: JobName, namespace: string): TrainJobRef => ({
  namespace: job.namespace ?? namespace,
  name: job.name,
  uid: job.uid
})
