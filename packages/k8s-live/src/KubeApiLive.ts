/**
 * The live `KubeApi`: configuration, HTTP and transport composed.
 *
 * @module
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as NodeCommandExecutor from "@effect/platform-node/NodeCommandExecutor"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Config, Effect, Layer, type ConfigError, Option } from "effect"
import { delimiter } from "node:path"
import * as KubeConfig from "./KubeConfig.js"
import * as KubeHttp from "./KubeHttp.js"
import * as LiveTransport from "./LiveTransport.js"

/** Which API server, as whom, and how long to wait. */
export interface Options extends KubeConfig.Options {
  readonly http?: KubeHttp.Options | undefined
}

const nodeServices = Layer.provideMerge(NodeCommandExecutor.layer, NodeFileSystem.layer)

/** The KubeApi for a configuration that is at hand as a service. */
export const layerFromKubeConfig = (
  options: KubeHttp.Options = {}
): Layer.Layer<KubeApi.KubeApi, never, KubeConfig.KubeConfig> =>
  Layer.scoped(
    KubeApi.KubeApi,
    Effect.gen(function* () {
      const config = yield* KubeConfig.KubeConfig
      const http = yield* KubeHttp.make(config, options)
      return KubeApi.make(LiveTransport.make(http))
    })
  )

/** `KubeConfig.layer` with Node's file system and child processes. */
export const layerKubeConfig = (
  options: KubeConfig.Options = {}
): Layer.Layer<KubeConfig.KubeConfig, KubeConfig.KubeConfigError> =>
  Layer.provide(KubeConfig.layer(options), nodeServices)

/**
 * The KubeApi of a cluster, together with the configuration it was made from. Without options it is the cluster that
 * kubectl would talk to. Fails with `KubeConfigError` when the configuration cannot be used; nothing is sent yet.
 *
 * @example
 * ```ts
 * import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
 * import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
 * import { Effect } from "effect"
 *
 * const program = Effect.flatMap(KubeApi, (api) => api.serverVersion).pipe(
 *   Effect.provide(KubeApiLive.layer({ context: "staging" }))
 * )
 * ```
 */
export const layer = (
  options: Options = {}
): Layer.Layer<KubeApi.KubeApi | KubeConfig.KubeConfig, KubeConfig.KubeConfigError> =>
  Layer.provideMerge(layerFromKubeConfig(options.http), layerKubeConfig(options))

/**
 * The options as Effect `Config`: `KUBECONFIG`-like lists in `DISPATCH_KUBECONFIG`, a context in `DISPATCH_CONTEXT`, a
 * namespace in `DISPATCH_NAMESPACE`; all optional.
 */
export const config: Config.Config<Options> = Config.all({
  paths: Config.option(Config.nonEmptyString("DISPATCH_KUBECONFIG")),
  context: Config.option(Config.nonEmptyString("DISPATCH_CONTEXT")),
  namespace: Config.option(Config.nonEmptyString("DISPATCH_NAMESPACE"))
}).pipe(
  Config.map(({ paths, context, namespace }): Options => {
    const [first, ...rest] = Option.getOrElse(paths, () => "")
      .split(delimiter)
      .filter((path) => path !== "")
    return {
      ...(first === undefined ? {} : { source: KubeConfig.Source.Files({ paths: [first, ...rest] }) }),
      ...(Option.isNone(context) ? {} : { context: context.value }),
      ...(Option.isNone(namespace) ? {} : { namespace: namespace.value })
    }
  })
)

/** `layer` with options from an Effect `Config`. */
export const layerConfig = (
  options: Config.Config.Wrap<Options>
): Layer.Layer<KubeApi.KubeApi | KubeConfig.KubeConfig, KubeConfig.KubeConfigError | ConfigError.ConfigError> =>
  Layer.unwrapEffect(Effect.map(Config.unwrap(options), layer))
