/**
 * The users of a served cluster and the roles that they have, as ordinary RBAC objects, so that a story can change them.
 *
 * @module
 */
import { randomBytes } from "node:crypto"
import type { KubeconfigUser } from "../ApiServer.js"
import * as Rbac from "../Rbac.js"

/** A user with a token of this run. */
export interface User extends KubeconfigUser {
  readonly token: string
  readonly subject: Rbac.Subject
}

/** The users, the admin first. Each has the context of its name. */
export const make = (): ReadonlyArray<User> =>
  [
    { name: "admin", subject: Rbac.admin },
    ...["dispatcher", "viewer", "nobody"].map((name) => ({ name, subject: Rbac.user(name) }))
  ].map((user) => ({ ...user, namespace: "default", token: randomBytes(24).toString("base64url") }))

const rule = (
  apiGroups: ReadonlyArray<string>,
  resources: ReadonlyArray<string>,
  verbs: ReadonlyArray<string>
): Readonly<Record<string, unknown>> => ({ apiGroups, resources, verbs })

const reads = ["get", "list", "watch"]

const rules: Readonly<Record<string, ReadonlyArray<Readonly<Record<string, unknown>>>>> = {
  dispatcher: [
    rule(["trainer.kubeflow.org"], ["trainjobs"], [...reads, "create", "update", "patch", "delete"]),
    rule(["trainer.kubeflow.org"], ["trainingruntimes", "clustertrainingruntimes"], reads),
    rule(["jobset.x-k8s.io"], ["jobsets"], reads),
    rule(["batch"], ["jobs"], reads),
    rule([""], ["pods", "nodes", "events", "namespaces"], reads),
    rule([""], ["pods/log"], ["get"]),
    rule(["coordination.k8s.io"], ["leases"], reads),
    rule(["kueue.x-k8s.io"], ["workloads"], [...reads, "update", "patch"]),
    rule(["kueue.x-k8s.io"], ["localqueues", "clusterqueues", "admissionchecks"], reads)
  ],
  viewer: [rule(["*"], ["*"], reads)]
}

/** The ClusterRoles and ClusterRoleBindings of the users. */
export const objects: ReadonlyArray<Readonly<Record<string, unknown>>> = Object.entries(rules).flatMap(
  ([name, roleRules]) => [
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: `testkit:${name}` },
      rules: roleRules
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: `testkit:${name}` },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: `testkit:${name}` },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name }]
    }
  ]
)
