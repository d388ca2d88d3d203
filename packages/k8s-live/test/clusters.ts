/**
 * Clusters on which the command line and the manifests are tried: the in-memory one with its controllers served over HTTP,
 * and the real one of `TEST_KUBECONFIG`. Both with a namespace of their own, runtimes, queues that prove the gate, and service
 * accounts.
 */
import type * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Clock, Context, DateTime, Effect, Layer, Schedule, Schema, type Scope } from "effect"
import { readFileSync } from "node:fs"
import { stringify } from "yaml"
import type * as Manifests from "./manifests.js"
import { asServiceAccount, freshNamespace } from "./worlds.js"

const untyped = Schema.Struct({ ...Meta.envelope })

const kind = (group: string, version: string, plural: string, name: string, scope: Resource.Scope) =>
  Resource.make({ group, version, plural, kind: name, scope, schema: untyped })

const rbac = "rbac.authorization.k8s.io"
const types = {
  ServiceAccount: kind("", "v1", "serviceaccounts", "ServiceAccount", "Namespaced"),
  Role: kind(rbac, "v1", "roles", "Role", "Namespaced"),
  RoleBinding: kind(rbac, "v1", "rolebindings", "RoleBinding", "Namespaced"),
  ClusterRole: kind(rbac, "v1", "clusterroles", "ClusterRole", "Cluster"),
  ClusterRoleBinding: kind(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", "Cluster"),
  ResourceQuota: kind("", "v1", "resourcequotas", "ResourceQuota", "Namespaced"),
  ResourceFlavor: kind("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", "Cluster"),
  ClusterQueue: Kueue.clusterQueues,
  LocalQueue: Kueue.localQueues,
  AdmissionCheck: Kueue.admissionChecks,
  WorkloadPriorityClass: kind(
    "kueue.x-k8s.io",
    "v1beta2",
    "workloadpriorityclasses",
    "WorkloadPriorityClass",
    "Cluster"
  ),
  Lease: Coordination.leases,
  ClusterTrainingRuntime: Trainer.clusterTrainingRuntimes,
  TrainingRuntime: Trainer.trainingRuntimes,
  TrainJob: Trainer.trainJobs
}

const typeOf = (body: { readonly kind?: unknown }): Resource.Resource => {
  const found = Object.entries(types).find(([name]) => name === body.kind)?.[1]
  if (found === undefined) throw new Error(`no type ${String(body.kind)}`)
  return found
}

interface Body {
  readonly apiVersion?: unknown
  readonly spec?: unknown
  readonly kind?: unknown
  readonly metadata?: unknown
}

const nameOf = (body: Body): { readonly name: string; readonly namespace?: string } =>
  body.metadata as { readonly name: string; readonly namespace?: string }

/** Creates objects, in order; they go with the scope, in the opposite order. */
export const provide = (
  api: KubeApi.Service,
  bodies: ReadonlyArray<Body>
): Effect.Effect<void, KubeError, Scope.Scope> =>
  Effect.forEach(
    bodies,
    (body) => {
      const type = typeOf(body)
      const { name, namespace } = nameOf(body)
      return Effect.acquireRelease(api.transport.call(KubeRequest.make("create", type, { namespace, body })), () =>
        Effect.ignore(
          api.transport.call(
            KubeRequest.make("delete", type, { namespace, name, body: { propagationPolicy: "Background" } })
          )
        )
      )
    },
    { discard: true }
  )

/** Changes an object by a merge patch. */
export const change = (api: KubeApi.Service, body: Body, patch: object, subresource?: string) =>
  api.transport.call(
    KubeRequest.make("patch", typeOf(body), { ...nameOf(body), body: patch, patchType: "merge", subresource })
  )

const active = { conditions: [{ type: "Active", status: "True", reason: "Ready", message: "" }] }

/** Queues whose every admission passes an admission check, and the Lease of the check's controller. */
export const queues = (namespace: string, controllerNamespace: string, renewTime: string) => {
  const config: AdapterConfig.KueueConfig = {
    localQueue: "team-queue",
    admissionCheck: `${namespace}-gate`,
    controllerName: "acme.io/gate",
    lease: { namespace: controllerNamespace, name: "gate" }
  }
  const apiVersion = "kueue.x-k8s.io/v1beta2"
  const flavor = { apiVersion, kind: "ResourceFlavor", metadata: { name: namespace } }
  const check = {
    apiVersion,
    kind: "AdmissionCheck",
    metadata: { name: config.admissionCheck },
    spec: { controllerName: config.controllerName }
  }
  const clusterQueue = {
    apiVersion,
    kind: "ClusterQueue",
    metadata: { name: namespace },
    spec: {
      namespaceSelector: { matchLabels: { "dispatch-kubeflow.dev/team": "a" } },
      resourceGroups: [
        {
          coveredResources: ["cpu"],
          flavors: [{ name: namespace, resources: [{ name: "cpu", nominalQuota: "4" }] }]
        }
      ],
      admissionChecksStrategy: { admissionChecks: [{ name: config.admissionCheck }] }
    }
  }
  const localQueue = {
    apiVersion,
    kind: "LocalQueue",
    metadata: { name: config.localQueue, namespace },
    spec: { clusterQueue: namespace }
  }
  const lease = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: config.lease.name, namespace: controllerNamespace },
    spec: { holderIdentity: "gate-0", leaseDurationSeconds: 3600, renewTime }
  }
  return { config, flavor, check, clusterQueue, localQueue, lease, active }
}

const rename = (runtime: Fixtures.Body, name: string): Fixtures.Body => ({ ...runtime, metadata: { name } })

/** A cluster, reached as its administrator or as a service account. */
export interface World {
  readonly kind: "memory" | "real"
  readonly api: KubeApi.Service
  readonly namespace: string
  readonly controllerNamespace: string
  readonly kueue: AdapterConfig.KueueConfig
  /** Runtimes: one per ML policy that matters, all conforming, and one that breaks rules. */
  readonly runtimes: { readonly torch: string; readonly plain: string; readonly shipped: string }
  /** The API as a service account of the namespace sees it. */
  readonly as: (account: string) => Effect.Effect<KubeApi.Service, KubeError, Scope.Scope>
  /** A kubeconfig, as YAML, for the administrator or a service account of the namespace. */
  readonly kubeconfig: (account?: string) => Effect.Effect<string, KubeError>
}

/** The tag of the world of a test. */
export class ClusterWorld extends Context.Tag("@dispatch-kubeflow/k8s-live/test/ClusterWorld")<ClusterWorld, World>() {}

const teamLabel = { "dispatch-kubeflow.dev/team": "a" }

const runtimesOf = (namespace: string) => ({
  torch: `${namespace}-torch`,
  plain: `${namespace}-plain`,
  shipped: "torch-distributed"
})

/** The in-memory cluster with its controllers, served over HTTP. Time is the process's. */
export const served = Layer.scoped(
  ClusterWorld,
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    const door = yield* Cluster.Cluster
    const namespace = "team-a"
    const controllerNamespace = "gate-system"
    yield* cluster.create(Fixtures.namespace(namespace, teamLabel))
    yield* cluster.create(Fixtures.namespace(controllerNamespace))
    yield* cluster.createNode("node-1")
    const runtimes = runtimesOf(namespace)
    yield* cluster.create(rename(Fixtures.torchConforming(), runtimes.torch))
    yield* cluster.create(rename(Fixtures.plainRuntime(), runtimes.plain))
    yield* cluster.create(Fixtures.torchDistributed())
    const now = yield* Clock.currentTimeMillis
    const { config, flavor, check, clusterQueue, localQueue, lease } = queues(
      namespace,
      controllerNamespace,
      DateTime.formatIso(DateTime.unsafeMake(now)).replace("Z", "000Z")
    )
    yield* door.seed([
      flavor,
      { ...check, status: active },
      { ...clusterQueue, status: active },
      { ...localQueue, status: active },
      lease
    ])
    const tokenOf = (account: string) => `token-of-${account}`
    const server = yield* ApiServer.serve({
      transport: door.transport,
      registry: door.registry,
      authenticate: ({ token = "" }) =>
        Effect.succeedSome(
          token === "admin-token" ? Rbac.admin : Rbac.serviceAccount(namespace, token.replace("token-of-", ""))
        )
    })
    const world: World = {
      kind: "memory",
      api: door.admin,
      namespace,
      controllerNamespace,
      kueue: config,
      runtimes,
      as: (account) => Effect.succeed(door.as(Rbac.serviceAccount(namespace, account))),
      kubeconfig: (account) =>
        Effect.succeed(
          server.kubeconfig(
            account === undefined
              ? { name: "admin", token: "admin-token", namespace }
              : { name: account, token: tokenOf(account), namespace }
          )
        )
    }
    return world
  })
).pipe(Layer.provideMerge(TestCluster.layer()))

const Token = Schema.Struct({ status: Schema.Struct({ token: Schema.String }) })

/** A namespace of its own on the cluster of a kubeconfig file, with everything that goes with it. */
export const real = (path: string) =>
  Layer.scoped(
    ClusterWorld,
    Effect.gen(function* () {
      const context = yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [path] }) }))
      const api = Context.get(context, KubeApi.KubeApi)
      const config = Context.get(context, KubeConfig.KubeConfig)
      const namespace = yield* freshNamespace(api, "dispatch")
      const controllerNamespace = yield* freshNamespace(api, "gate")
      yield* api.transport.call(
        KubeRequest.make(
          "patch",
          { group: "", version: "v1", plural: "namespaces" },
          { name: namespace, body: { metadata: { labels: teamLabel } }, patchType: "merge" }
        )
      )
      const runtimes = runtimesOf(namespace)
      const now = yield* Clock.currentTimeMillis
      const objects = queues(
        namespace,
        controllerNamespace,
        DateTime.formatIso(DateTime.unsafeMake(now)).replace("Z", "000Z")
      )
      yield* provide(api, [
        rename(Fixtures.torchConforming(), runtimes.torch),
        rename(Fixtures.plainRuntime(), runtimes.plain),
        objects.flavor,
        objects.check,
        objects.clusterQueue,
        objects.localQueue,
        objects.lease
      ])
      yield* change(
        api,
        objects.check,
        {
          status: {
            conditions: [{ ...active.conditions[0], lastTransitionTime: DateTime.formatIso(DateTime.unsafeMake(now)) }]
          }
        },
        "status"
      )
      // Kueue looks at its checks once a second
      yield* api.get(Kueue.localQueues, { namespace, name: objects.config.localQueue }).pipe(
        Effect.filterOrFail(
          (queue) => Meta.trueCondition(queue.status?.conditions, "Active") !== undefined,
          () => "inactive" as const
        ),
        Effect.retry(Schedule.intersect(Schedule.spaced("250 millis"), Schedule.recurs(40))),
        Effect.orDie
      )
      const world: World = {
        kind: "real",
        api,
        namespace,
        controllerNamespace,
        kueue: objects.config,
        runtimes,
        as: (account) => asServiceAccount(api, config, namespace, account),
        kubeconfig: (account) =>
          Effect.gen(function* () {
            if (account === undefined) return readFileSync(path, "utf8")
            const reply = yield* api.transport.call(
              KubeRequest.make("create", types.ServiceAccount, {
                namespace,
                name: account,
                subresource: "token",
                body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { audiences: [] } }
              })
            )
            const { status } = yield* Effect.orDie(Schema.decodeUnknown(Token)(reply.body))
            return stringify(yield* Effect.orDie(KubeConfig.withToken(config, status.token, namespace)))
          })
      }
      return world
    })
  )

/** What `sed` does to a manifest for a world. */
export const names = (world: World): Readonly<Record<string, string>> => ({
  "team-a": world.namespace,
  "gate-system": world.controllerNamespace
})

/** Manifests under another service account, so that several can be applied side by side. */
export const forAccount = (
  manifests: ReadonlyArray<Manifests.Manifest>,
  account: string
): ReadonlyArray<Manifests.Manifest> =>
  JSON.parse(
    JSON.stringify(manifests)
      .replaceAll(`"dispatcher"`, JSON.stringify(account))
      .replaceAll(`"dispatch-kubeflow-`, `"${account}-dispatch-kubeflow-`)
  ) as ReadonlyArray<Manifests.Manifest>
