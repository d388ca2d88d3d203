import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import { assert, it } from "@effect/vitest"
import { KubeConfig as CN } from "/tmp/live/cn14/node_modules/@kubernetes/client-node"
import { Context, Effect, Layer, Redacted } from "effect"
it.scopedLive("1.4", () => Effect.gen(function* () {
  const jwt = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify({ exp: Date.now()/1000+3600 })).toString("base64url")}.sig`
  const cn = new CN()
  cn.loadFromOptions({ clusters: [{name:"c", server:"https://x", skipTLSVerify:false}], users: [{name:"u", authProvider: {name:"oidc", config: {"id-token": jwt, "client-id": "c"}}}], contexts: [{name:"x", cluster:"c", user:"u", namespace: "nn"}], currentContext: "x" })
  const config: KubeConfig.ClientNodeKubeConfig = cn
  const ctx = yield* Layer.build(KubeApiLive.layerKubeConfig({ source: KubeConfig.Source.ClientNode({ config }) }))
  const k = Context.get(ctx, KubeConfig.KubeConfig)
  assert.strictEqual(k.namespace, "nn")
  assert.strictEqual(Redacted.value((yield* k.credentials).headers)["authorization"], `Bearer ${jwt}`)
}))
