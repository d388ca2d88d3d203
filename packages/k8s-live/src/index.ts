/**
 * The live layer of the Kubernetes API.
 *
 * @module
 */
export * as KubeConfig from "./KubeConfig.js"
export * as KubeHttp from "./KubeHttp.js"
export * as LiveTransport from "./LiveTransport.js"
export { config, layer, layerConfig, layerFromKubeConfig, layerKubeConfig, type Options } from "./KubeApiLive.js"
