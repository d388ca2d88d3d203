/**
 * The configuration of one backend: a namespace of a cluster, and how the adapter may act there.
 *
 * @module
 */

/** Kueue mode: the queue that admits and the admission check whose controller injects the admission count. */
export interface KueueConfig {
  /** LocalQueue in the backend's namespace. */
  readonly localQueue: string
  /** AdmissionCheck that gates every admission. */
  readonly admissionCheck: string
  /** `spec.controllerName` that the AdmissionCheck must have. */
  readonly controllerName: string
  /** The Lease that the check's controller renews. */
  readonly lease: { readonly namespace: string; readonly name: string }
}

/** See the fields. Everything but `namespace` has a default in `make`. */
export interface AdapterConfig {
  readonly namespace: string
  /** `read-only`: no write, no probe that writes. */
  readonly access: "read-write" | "read-only"
  /** Kueue mode when given, else plain mode. */
  readonly kueue: KueueConfig | undefined
  /** `accept` turns the runtime rules about in-place restarts into warnings. No runtime that Trainer ships passes them. */
  readonly inPlaceRestarts: "refuse" | "accept"
  /** Whether the out-of-service taint on a Node that is still Ready counts as ceased. */
  readonly outOfService: "always" | "unless-ready"
  /** `real` lets the preflight's hold probe start (and stop) a pod. */
  readonly holdProbe: "dry-run" | "real"
}

/** The configuration with its defaults. */
export const make = (
  options: { readonly namespace: string } & Partial<Omit<AdapterConfig, "namespace">>
): AdapterConfig => ({
  access: "read-write",
  kueue: undefined,
  inPlaceRestarts: "refuse",
  outOfService: "always",
  holdProbe: "dry-run",
  ...options
})

/** The mode that follows from the configuration. */
export const modeOf = (config: AdapterConfig): "plain" | "kueue" => (config.kueue === undefined ? "plain" : "kueue")

/**
 * Pod-template annotation that carries the admission count (a monotonic integer): pods of one execution share it.
 */
export const admissionAnnotation = "dispatch-kubeflow.dev/admission"

/** The manager of the adapter's own `runtimePatches` entry, and its server-side apply field manager. */
export const patchManager = "dispatch-kubeflow.dev/adapter"

/** What the pods of a TrainJob get from the adapter's own `runtimePatches` entry. */
export interface PodPatch {
  /** The admission count: the number of the execution that these pods are. */
  readonly admission?: number | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  /** Fields of the pod's spec that a runtimePatches entry may set, e.g. `tolerations`. */
  readonly podSpec?: object | undefined
  /** Default `node`: the trainer's replicatedJob of the runtimes that Trainer ships. */
  readonly replicatedJob?: string | undefined
}

/**
 * The adapter's own entry of a TrainJob's `spec.runtimePatches`
 * (https://www.kubeflow.org/docs/components/trainer/, `RuntimePatch`; Trainer 2.2 and later).
 */
export const runtimePatch = ({ admission, annotations, podSpec, replicatedJob = "node" }: PodPatch): object => {
  const all = { ...annotations, ...(admission === undefined ? {} : { [admissionAnnotation]: String(admission) }) }
  const template = {
    ...(Object.keys(all).length === 0 ? {} : { metadata: { annotations: all } }),
    ...(podSpec === undefined ? {} : { spec: podSpec })
  }
  return {
    manager: patchManager,
    trainingRuntimeSpec: {
      template: { spec: { replicatedJobs: [{ name: replicatedJob, template: { spec: { template } } }] } }
    }
  }
}

/** Label that marks a preflight's probe TrainJob. */
export const probeLabel = "dispatch-kubeflow.dev/probe"
