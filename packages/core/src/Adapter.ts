/**
 * The adapter of one backend: a cluster's namespace, and the questions a dispatcher asks of it. The one place where the
 * programs are composed.
 *
 * @module
 */
import { Context, Effect, Layer, Stream } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import * as Capabilities from "./Capabilities.js"
import * as Cessation from "./Cessation.js"
import * as EvidenceStore from "./EvidenceStore.js"
import * as Explain from "./Explain.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError, KubeForbidden } from "./kube/KubeError.js"
import type { KubeTransport } from "./kube/KubeTransport.js"
import * as Output from "./Output.js"
import * as Telemetry from "./Telemetry.js"
import * as Watch from "./Watch.js"

/** Everything a dispatcher asks of a backend. No method needs anything from the context; plain values in and out. */
export interface Service
  extends Capabilities.Capabilities, Output.Service, Watch.Service, Cessation.Service, Explain.Service {
  readonly config: AdapterConfig
}

/** The tag of a program that has one backend. With several, keep the values that `make` gives. */
export class Adapter extends Context.Tag("@dispatch-kubeflow/core/Adapter")<Adapter, Service>() {}

/** How the programs go about it; the defaults suit a dispatcher. */
export interface Options {
  readonly watch?: Watch.Options | undefined
  readonly output?: Output.ProgramOptions | undefined
}

/** Tells every refused permission, whichever program met it. */
const onForbidden =
  (tell: (refusal: KubeForbidden) => Effect.Effect<void>) =>
  (transport: KubeTransport): KubeTransport => {
    const notice = (error: KubeError): Effect.Effect<void> =>
      error._tag === "KubeForbidden" ? tell(error) : Effect.void
    return {
      call: (request) => Effect.tapError(transport.call(request), notice),
      watch: (request) => Stream.tapError(transport.watch(request), notice),
      bytes: (request) => Stream.tapError(transport.bytes(request), notice)
    }
  }

/**
 * Makes a backend's adapter over the `KubeApi` and the `EvidenceStore` of the context. A read-only configuration gets an API
 * in which a write is a defect, so it writes nothing by construction. Makes no request.
 */
export const make = Effect.fn("Adapter.make")(function* (config: AdapterConfig, options: Options = {}) {
  const given = KubeApi.transform(Telemetry.transport)(yield* KubeApi.KubeApi)
  const api = config.access === "read-only" ? KubeApi.transform(KubeApi.readOnly)(given) : given
  const capabilities = yield* Effect.provideService(Capabilities.make(config), KubeApi.KubeApi, api)
  // A permission that was taken away lowers the answer the moment a program meets the refusal
  const watched = KubeApi.transform(onForbidden(capabilities.lower))(api)
  const [output, watch, cessation, explain] = yield* Effect.all([
    Output.make(config, options.output),
    Watch.make(config, options.watch),
    Cessation.make(config),
    Explain.make(config)
  ]).pipe(Effect.provideService(KubeApi.KubeApi, watched))
  const service: Service = {
    config,
    ...capabilities,
    ...output,
    ...watch,
    capabilities: (spec) => Telemetry.operation("capabilities")(capabilities.capabilities(spec)),
    preflight: (how) => Telemetry.operation("preflight")(capabilities.preflight(how)),
    ceased: (ref) => Telemetry.operation("ceased")(cessation.ceased(ref)),
    explain: (ref) => Telemetry.operation("explain")(explain.explain(ref))
  }
  return service
})

/** The adapter as a layer, with evidence kept in memory. */
export const layer = (config: AdapterConfig): Layer.Layer<Adapter, never, KubeApi.KubeApi> =>
  Layer.provide(Layer.effect(Adapter, make(config)), EvidenceStore.layerMemory())

/** The adapter as a layer, with the evidence kept where the context says. */
export const layerWithStore = (
  config: AdapterConfig
): Layer.Layer<Adapter, never, KubeApi.KubeApi | EvidenceStore.EvidenceStore> => Layer.effect(Adapter, make(config))
