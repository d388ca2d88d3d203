/**
 * Everything the capability table and the write gate decide from: plain and finite, so that tests can enumerate it.
 *
 * @module
 */

/** The authorizer's answer about one permission. An error is not a denial. */
export type Review =
  | { readonly _tag: "NotAsked" }
  | { readonly _tag: "Allowed" }
  /** `refusal` is what was refused and why; `message` says with it what to grant. */
  | { readonly _tag: "Denied"; readonly message: string; readonly refusal: string }
  | { readonly _tag: "Errored"; readonly message: string }

/** How the hold round trip of the preflight ended. `Undecided`: it could not be tried, which proves nothing. */
export type HoldTrip =
  | { readonly _tag: "NotRun" }
  | { readonly _tag: "Passed" }
  | { readonly _tag: "Failed"; readonly step: string; readonly words: string }
  | { readonly _tag: "Undecided"; readonly reason: string }

/** Kueue mode: whether every admission passes our admission check. */
export type Gate =
  | { readonly _tag: "NotAsked" }
  | { readonly _tag: "Proven"; readonly reason: string }
  | { readonly _tag: "Refuted"; readonly reason: string }
  | { readonly _tag: "Unknown"; readonly reason: string }

/** Plain mode: whether Kueue takes TrainJobs of the namespace over although no queue is named. */
export type Capture =
  | { readonly _tag: "NotAsked" }
  | { readonly _tag: "Free" }
  | { readonly _tag: "Captured"; readonly reason: string }
  | { readonly _tag: "Unknown"; readonly reason: string }

/** The spec's runtime, when a spec was given. `where` names it, e.g. `ClusterTrainingRuntime/torch-distributed`. */
export type Runtime =
  | { readonly _tag: "NoSpec" }
  | { readonly _tag: "Torch"; readonly where: string; readonly cautions: ReadonlyArray<string> }
  | { readonly _tag: "NoPolicy"; readonly where: string; readonly cautions: ReadonlyArray<string> }
  | { readonly _tag: "NoVariant"; readonly where: string; readonly cautions: ReadonlyArray<string> }

/** See the types of the fields. */
export interface Facts {
  readonly namespace: string
  readonly mode: "plain" | "kueue"
  readonly access: "read-only" | "read-write"
  readonly hold: HoldTrip
  readonly gate: Gate
  readonly capture: Capture
  readonly review: {
    /** get pods/log */
    readonly log: Review
    /** list pods */
    readonly list: Review
    /** watch pods */
    readonly watch: Review
    /** update workloads.kueue.x-k8s.io, and get, with which an update begins */
    readonly updateWorkloads: Review
    /** patch trainjobs.trainer.kubeflow.org */
    readonly patchTrainJobs: Review
  }
  readonly runtime: Runtime
}

/** The facts before anything was asked. */
export const initial = (config: {
  readonly namespace: string
  readonly access: "read-only" | "read-write"
  readonly kueue: object | undefined
}): Facts => ({
  namespace: config.namespace,
  mode: config.kueue === undefined ? "plain" : "kueue",
  access: config.access,
  hold: { _tag: "NotRun" },
  gate: { _tag: "NotAsked" },
  capture: { _tag: "NotAsked" },
  review: {
    log: { _tag: "NotAsked" },
    list: { _tag: "NotAsked" },
    watch: { _tag: "NotAsked" },
    updateWorkloads: { _tag: "NotAsked" },
    patchTrainJobs: { _tag: "NotAsked" }
  },
  runtime: { _tag: "NoSpec" }
})
