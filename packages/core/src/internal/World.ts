/**
 * What every part of the preflight is given.
 *
 * @module
 */
import type { Duration, Effect } from "effect"
import type { AdapterConfig } from "../AdapterConfig.js"
import type { Outcome } from "../decide/ProbeReport.js"
import type { TrainingRuntime } from "../model/Trainer.js"
import type * as KubeApi from "../kube/KubeApi.js"

/** How long the preflight waits for what. */
export interface Timing {
  /** For the probe's JobSet to say that it is suspended (and, with a real probe, for its pod to come and go). */
  readonly suspended: Duration.DurationInput
  /** For the probe and its JobSet to be gone after the delete. */
  readonly gone: Duration.DurationInput
  /** For the whole clean-up of a probe that failed or was interrupted. */
  readonly cleanup: Duration.DurationInput
  /** A probe of another preflight that is older than this is an orphan: it is deleted. A younger one is waited for. */
  readonly orphanAfter: Duration.DurationInput
  /** For the answer to the probe's create, which is never cut short. */
  readonly create: Duration.DurationInput
}

/**
 * The defaults: 20 s for each wait, 45 s for what the garbage collector takes, 30 s for an orphan's age, 15 s for the create.
 */
export const timing: Timing = {
  suspended: "20 seconds",
  // It looks for new types every 30 s: https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/garbagecollector
  gone: "45 seconds",
  cleanup: "20 seconds",
  orphanAfter: "30 seconds",
  create: "15 seconds"
}

/** Adds a check to the report and tells it. */
export type Recorder = (
  id: string,
  outcome: Outcome,
  asked: string,
  found: string,
  remedy?: string
) => Effect.Effect<void>

/** The API, the configuration, the limits, and where checks go. */
export interface World {
  readonly api: KubeApi.Service
  readonly config: AdapterConfig
  readonly timing: Timing
  readonly record: Recorder
}

/** The runtime that the probe uses, or why there is none. */
export type Chosen =
  | { readonly _tag: "Chosen"; readonly runtime: TrainingRuntime; readonly kind: string }
  | { readonly _tag: "None"; readonly reason: string }

/** There is no runtime to probe with. */
export const noRuntime = (reason: string): Chosen => ({ _tag: "None", reason })

/** The probe uses this one. */
export const chosenRuntime = (runtime: TrainingRuntime, kind: string): Chosen => ({ _tag: "Chosen", runtime, kind })

/** API groups that are asked for by name. */
export const trainerGroup = "trainer.kubeflow.org"
export const kueueGroup = "kueue.x-k8s.io"
