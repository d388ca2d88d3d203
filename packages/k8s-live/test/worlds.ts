import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import { ContractWorld, type LogLine, prepareCluster, type World } from "@dispatch-kubeflow/testkit/Contract"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { Context, Effect, Layer, Schema, Scope } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Kwok from "./kwok.js"

/** The kubeconfig of a real cluster, when one is offered. */
export const realKubeconfig = process.env["TEST_KUBECONFIG"]

/** For the title of a suite that is left out. */
export const whyLeftOut = "TEST_KUBECONFIG names no cluster"

const Token = Schema.Struct({ status: Schema.Struct({ token: Schema.String }) })

/** The KubeApi of the same API server for a bearer token. */
const withToken = (config: KubeConfig.Service, token: string) =>
  Effect.gen(function* () {
    const value = yield* KubeConfig.withToken(config, token)
    const context = yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value }) }))
    return Context.get(context, KubeApi.KubeApi)
  }).pipe(Effect.orDie)

/** A service account's API, by a token the server issues for it. */
export const asServiceAccount = (
  api: KubeApi.Service,
  config: KubeConfig.Service,
  namespace: string,
  account: string
) =>
  Effect.gen(function* () {
    const reply = yield* api.transport.call(
      KubeRequest.make(
        "create",
        { group: "", version: "v1", plural: "serviceaccounts" },
        {
          namespace,
          name: account,
          subresource: "token",
          body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { audiences: [] } }
        }
      )
    )
    const { status } = yield* Effect.orDie(Schema.decodeUnknown(Token)(reply.body))
    return yield* withToken(config, status.token)
  })

/** An API with a token that no server knows. */
export const asStranger = (config: KubeConfig.Service) => withToken(config, "no-such-token")

/** Creates a namespace of its own; it goes with the scope. */
export const freshNamespace = (api: KubeApi.Service, prefix: string) =>
  Effect.map(
    Effect.acquireRelease(api.create(Core.namespaces, {}, { metadata: { generateName: `${prefix}-` } }), (namespace) =>
      Effect.ignore(api.remove(Core.namespaces, { name: namespace.metadata.name }, { propagation: "Background" }))
    ),
    (namespace) => namespace.metadata.name
  )

/** A world reached through the live layer; `rest` is what the cluster behind it adds. */
const liveWorld = <E>(
  source: KubeConfig.Source,
  rest: (api: KubeApi.Service) => Effect.Effect<Pick<World, "namespace" | "node" | "run" | "forgotten">, E, Scope.Scope>
) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const context = yield* Layer.build(KubeApiLive.layer({ source, http: { rateLimit: "none" } }))
    const api = Context.get(context, KubeApi.KubeApi)
    const config = Context.get(context, KubeConfig.KubeConfig)
    const prepared = yield* rest(api)
    return {
      ...prepared,
      api,
      as: (account: string) => Scope.extend(asServiceAccount(api, config, prepared.namespace, account), scope),
      stranger: yield* asStranger(config)
    }
  })

/**
 * The world of the contract suite on the cluster of `TEST_KUBECONFIG`. A log is written through kwok, which plays the
 * kubelets of the simulated nodes; without kwok there is no way to say what a container prints.
 */
export const realWorld = (kubeconfig: string): Layer.Layer<ContractWorld, KubeError | KubeConfig.KubeConfigError> =>
  Layer.scoped(
    ContractWorld,
    liveWorld(KubeConfig.Source.Files({ paths: [kubeconfig] }), (api) =>
      Effect.gen(function* () {
        const namespace = yield* freshNamespace(api, "contract")
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "contract-logs-"))),
          (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
        )
        const kwok = (yield* api.groupVersions).some(({ group }) => group === "kwok.x-k8s.io")
        const { items } = yield* api.list(Core.nodes, {})
        const fake = items.find((node) => !("realcluster/real" in (node.metadata.labels ?? {})))
        return {
          namespace,
          node: fake?.metadata.name ?? items[0]?.metadata.name ?? "",
          forgotten: Effect.succeed("1"),
          run: kwok
            ? (pod: string, lines: ReadonlyArray<LogLine>) =>
                Effect.suspend(() => {
                  const logsFile = join(folder, `${pod}.log`)
                  writeFileSync(logsFile, lines.map((line) => `${line.time} stdout F ${line.text}\n`).join(""))
                  const spec = { logs: [{ containers: ["node"], logsFile, follow: true }] }
                  return Effect.asVoid(api.create(Kwok.logs, { namespace }, { metadata: { name: pod }, spec }))
                })
            : undefined
        }
      })
    )
  )

/** Serves the cluster of the context; the kubeconfig of its administrator. */
export const serveForAdmin: Effect.Effect<string, ApiServer.ApiServerError, Scope.Scope | Cluster.Cluster> = Effect.map(
  ApiServer.serveCluster({ tokens: { "admin-token": Rbac.admin } }),
  (server) => server.kubeconfig({ name: "admin", token: "admin-token" })
)

/** The world of the contract suite on an in-memory cluster that is served over HTTP. */
export const servedWorld: Layer.Layer<
  ContractWorld,
  KubeError | KubeConfig.KubeConfigError | ApiServer.ApiServerError,
  Cluster.Cluster
> = Layer.scoped(
  ContractWorld,
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const text = yield* serveForAdmin
    return yield* liveWorld(KubeConfig.Source.Text({ text }), () => prepareCluster(cluster, "contract"))
  })
)
