/**
 * Subjects with fewer permissions than the programme has: service accounts, by tokens that the server issues.
 *
 * @module
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import * as Programme from "./Programme.js"

const rbac = ["rbac.authorization.k8s.io", "v1"] as const
const serviceAccounts = Programme.untyped("", "v1", "serviceaccounts", "ServiceAccount", "Namespaced")
const roles = Programme.untyped(...rbac, "roles", "Role", "Namespaced")
const roleBindings = Programme.untyped(...rbac, "rolebindings", "RoleBinding", "Namespaced")

const Token = Schema.Struct({ status: Schema.Struct({ token: Schema.String }) })
const decodeToken = Schema.decodeUnknown(Token)

/** Makes subjects. */
export interface Service {
  /** Who may read TrainJobs, Jobs and pods of a namespace, but not the pods' logs. */
  readonly withoutLogs: (namespace: string) => Effect.Effect<KubeApi.Service, KubeError, Scope.Scope>
}

/** Over the programme's own API and configuration. */
export const make = (api: KubeApi.Service, config: KubeConfig.Service): Service => ({
  withoutLogs: (namespace) =>
    Effect.gen(function* () {
      const name = "without-logs"
      yield* api.create(serviceAccounts, { namespace }, { metadata: { name } })
      yield* api.create(
        roles,
        { namespace },
        {
          metadata: { name },
          rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] }]
        }
      )
      yield* api.create(
        roleBindings,
        { namespace },
        {
          metadata: { name },
          roleRef: { apiGroup: rbac[0], kind: "Role", name },
          subjects: [{ kind: "ServiceAccount", name, namespace }]
        }
      )
      const reply = yield* api.transport.call(
        KubeRequest.make("create", serviceAccounts, {
          namespace,
          name,
          subresource: "token",
          body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { audiences: [] } }
        })
      )
      const { status } = yield* Effect.orDie(decodeToken(reply.body))
      const value = yield* Effect.orDie(KubeConfig.withToken(config, status.token, namespace))
      const live = yield* Effect.orDie(Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value }) })))
      return Context.get(live, KubeApi.KubeApi)
    })
})
