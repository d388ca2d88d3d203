/**
 * Role-based access control as a pure function of the objects in the store: who may do what, with the reasons and the
 * refusals of the real authorizer. The same function answers access reviews and stands in front of the store.
 *
 * @module
 */
import type { AccessAttributes } from "@dispatch-kubeflow/core/kube/KubeApi"
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import type { KubeReply } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Either } from "effect"
import * as Failure from "./Failure.js"
import * as Json from "./Json.js"
import * as Registry from "./Registry.js"
import * as Store from "./Store.js"

/** Who asks. The empty user is one whose credentials the server does not accept: 401. */
export interface Subject {
  readonly user: string
  readonly groups: ReadonlyArray<string>
}

/** May do everything: group `system:masters`. */
export const admin: Subject = { user: "kubernetes-admin", groups: ["system:masters", "system:authenticated"] }

/** Sent no credentials. */
export const anonymous: Subject = { user: "system:anonymous", groups: ["system:unauthenticated"] }

/** Sent credentials that the server does not accept (a token that expired): every request is a 401. */
export const unauthenticated: Subject = { user: "", groups: [] }

/** A person or a machine by name. */
export const user = (name: string, groups: ReadonlyArray<string> = []): Subject => ({
  user: name,
  groups: [...groups, "system:authenticated"]
})

/** A ServiceAccount, with the groups that its tokens carry. */
export const serviceAccount = (namespace: string, name: string): Subject => ({
  user: `system:serviceaccount:${namespace}:${name}`,
  groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"]
})

/** What is asked of the authorizer about a resource. */
export type ResourceAttributes = AccessAttributes

/** What is asked of the authorizer about a path such as `/version`. */
export interface PathAttributes {
  readonly verb: string
  readonly path: string
}

/** The authorizer's answer. */
export interface Decision {
  readonly allowed: boolean
  readonly reason: string | undefined
}

interface Rule {
  readonly rule: Json.JsonObject
  readonly reason: string
}

interface Rules {
  readonly rules: ReadonlyArray<Rule>
  readonly errors: ReadonlyArray<string>
}

const rbac = "rbac.authorization.k8s.io"
const roles: Store.Type = { group: rbac, plural: "roles" }
const clusterRoles: Store.Type = { group: rbac, plural: "clusterroles" }
const roleBindings: Store.Type = { group: rbac, plural: "rolebindings" }
const clusterRoleBindings: Store.Type = { group: rbac, plural: "clusterrolebindings" }

const text = (value: unknown, key: string): string => Json.string(Json.at(value, key)) ?? ""

/** The subject of a binding that this caller is, as reasons name it. */
const boundAs = (subject: Subject, binding: Json.JsonObject): string | undefined => {
  const bindingNamespace = Json.string(Json.at(binding, "metadata", "namespace")) ?? ""
  for (const entry of Json.array(binding["subjects"])) {
    const name = text(entry, "name")
    switch (text(entry, "kind")) {
      case "User":
        if (name === subject.user) return `User ${JSON.stringify(name)}`
        break
      case "Group":
        if (subject.groups.includes(name)) return `Group ${JSON.stringify(name)}`
        break
      case "ServiceAccount": {
        const namespace = text(entry, "namespace") || bindingNamespace
        if (subject.user === `system:serviceaccount:${namespace}:${name}`) {
          return `ServiceAccount ${JSON.stringify(`${name}/${namespace}`)}`
        }
        break
      }
    }
  }
  return undefined
}

const rulesOf = (state: Store.State, subject: Subject, namespace: string | undefined): Rules => {
  const rules: Array<Rule> = []
  const errors: Array<string> = []
  const visit = (binding: Json.JsonObject, kind: "RoleBinding" | "ClusterRoleBinding"): void => {
    const as = boundAs(subject, binding)
    if (as === undefined) return
    const roleKind = text(binding["roleRef"], "kind")
    const roleName = text(binding["roleRef"], "name")
    const bindingName = Json.string(Json.at(binding, "metadata", "name")) ?? ""
    const bindingNamespace = Json.string(Json.at(binding, "metadata", "namespace"))
    const role =
      roleKind === "ClusterRole"
        ? Store.get(state, clusterRoles, undefined, roleName)
        : Store.get(state, roles, bindingNamespace, roleName)
    if (role === undefined) {
      errors.push(`${roleKind.toLowerCase()}.${rbac} ${JSON.stringify(roleName)} not found`)
      return
    }
    const shown = bindingNamespace === undefined ? bindingName : `${bindingName}/${bindingNamespace}`
    const reason = `RBAC: allowed by ${kind} ${JSON.stringify(shown)} of ${roleKind} ${JSON.stringify(roleName)} to ${as}`
    for (const rule of Json.array(role["rules"])) if (Json.isObject(rule)) rules.push({ rule, reason })
  }
  for (const binding of Store.list(state, clusterRoleBindings)) visit(binding, "ClusterRoleBinding")
  if (namespace !== undefined && namespace !== "") {
    for (const binding of Store.list(state, roleBindings, namespace)) visit(binding, "RoleBinding")
  }
  return { rules, errors }
}

const listed = (rule: Json.JsonObject, key: string): ReadonlyArray<Json.Json> => Json.array(rule[key])

const includesOrAll = (values: ReadonlyArray<Json.Json>, wanted: string): boolean =>
  values.includes("*") || values.includes(wanted)

const allowsResource = (rule: Json.JsonObject, attributes: ResourceAttributes): boolean => {
  const subresource = attributes.subresource ?? ""
  const combined = subresource === "" ? attributes.resource : `${attributes.resource}/${subresource}`
  const resources = listed(rule, "resources")
  const names = listed(rule, "resourceNames")
  return (
    includesOrAll(listed(rule, "verbs"), attributes.verb) &&
    includesOrAll(listed(rule, "apiGroups"), attributes.group) &&
    (includesOrAll(resources, combined) || (subresource !== "" && resources.includes(`*/${subresource}`))) &&
    (names.length === 0 || names.includes(attributes.name ?? ""))
  )
}

const allowsPath = (rule: Json.JsonObject, attributes: PathAttributes): boolean =>
  includesOrAll(listed(rule, "verbs"), attributes.verb) &&
  listed(rule, "nonResourceURLs").some((entry) => {
    const url = Json.text(entry)
    return url === "*" || url === attributes.path || (url.endsWith("*") && attributes.path.startsWith(url.slice(0, -1)))
  })

const evaluationErrors = (errors: ReadonlyArray<string>): string | undefined =>
  errors.length === 0 ? undefined : errors.length === 1 ? errors[0] : `[${errors.join(", ")}]`

/** Whether a subject may do something. A dangling role reference is told in the reason of a denial. */
export const authorize = (
  state: Store.State,
  subject: Subject,
  attributes: ResourceAttributes | PathAttributes
): Decision => {
  if (subject.groups.includes("system:masters")) return { allowed: true, reason: undefined }
  const isPath = "path" in attributes
  const { errors, rules } = rulesOf(state, subject, isPath ? undefined : attributes.namespace)
  const found = rules.find(({ rule }) => (isPath ? allowsPath(rule, attributes) : allowsResource(rule, attributes)))
  if (found !== undefined) return { allowed: true, reason: found.reason }
  const problem = evaluationErrors(errors)
  return { allowed: false, reason: problem === undefined ? undefined : `rbac: RBAC: ${problem}` }
}

/** The name that a list, watch or deletecollection selects by `metadata.name=`. */
const selectedName = (request: KubeRequest.KubeRequest): string | undefined => {
  const { labelSelector = "", limit = "", timeoutSeconds = "" } = request.query
  // Options that cannot be read name nothing
  const readable = [limit, timeoutSeconds].every((text) => text === "" || /^[+-]?\d+$/.test(text))
  if (!readable || Either.isLeft(Selector.parseLabels(labelSelector))) return undefined
  const parsed = Selector.parseFields(request.query["fieldSelector"] ?? "")
  return Either.isRight(parsed)
    ? parsed.right.find(({ field, operator }) => field === "metadata.name" && operator === "=")?.value
    : undefined
}

/** What a request asks of the authorizer. */
export const attributesOf = (request: KubeRequest.KubeRequest): ResourceAttributes | PathAttributes => {
  if (request.nonResourcePath !== undefined) return { verb: request.verb, path: request.nonResourcePath }
  const selects = request.verb === "list" || request.verb === "watch"
  return {
    verb: request.verb,
    group: request.group,
    resource: request.plural,
    subresource: request.subresource,
    // `/api/v1/namespaces/x` is authorized inside the namespace x
    namespace:
      request.namespace ?? (request.group === "" && request.plural === "namespaces" ? request.name : undefined),
    name: request.name ?? (selects ? selectedName(request) : undefined)
  }
}

/** 401. */
export const unauthorized: Failure.Failure = Failure.make(401, "Unauthorized", "Unauthorized")

/** The refusal of a request, or nothing when it may pass. Runs before routing: unknown types are forbidden too. */
export const check = (
  state: Store.State,
  subject: Subject,
  request: KubeRequest.KubeRequest
): Failure.Failure | undefined => {
  if (subject.user === "") return unauthorized
  const attributes = attributesOf(request)
  const decision = authorize(state, subject, attributes)
  if (decision.allowed) return undefined
  const because = decision.reason === undefined ? "" : `: ${decision.reason}`
  const who = JSON.stringify(subject.user)
  if ("path" in attributes) {
    return Failure.make(
      403,
      "Forbidden",
      `forbidden: User ${who} cannot ${attributes.verb} path ${JSON.stringify(attributes.path)}${because}`,
      {}
    )
  }
  const { group, name, namespace, resource, subresource, verb } = attributes
  const type = { group, plural: resource }
  const where = namespace === undefined ? "at the cluster scope" : `in the namespace ${JSON.stringify(namespace)}`
  const shown = name === undefined || name === "" ? "" : ` ${JSON.stringify(name)}`
  const asked = subresource === undefined ? resource : `${resource}/${subresource}`
  return Failure.make(
    403,
    "Forbidden",
    `${Registry.qualified(type)}${shown} is forbidden: User ${who} cannot ${verb} resource ${JSON.stringify(asked)} in API group ${JSON.stringify(group)} ${where}${because}`,
    Failure.named(type, name)
  )
}

// ---- reviews --------------------------------------------------------------------------------------------------------

const group = "authorization.k8s.io"

/** Whether a request is a review that the authorizer answers itself. */
export const isReview = (request: KubeRequest.KubeRequest): boolean =>
  request.verb === "create" &&
  ((request.group === group && ["selfsubjectaccessreviews", "selfsubjectrulesreviews"].includes(request.plural)) ||
    (request.group === "authentication.k8s.io" && request.plural === "selfsubjectreviews"))

/** Go leaves empty strings out of what it echoes. */
const withoutEmpty = (value: Json.JsonObject): Json.JsonObject =>
  Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== "")
      .map(([key, entry]) => [key, Json.isObject(entry) ? withoutEmpty(entry) : entry])
  )

const accessReview = (
  state: Store.State,
  subject: Subject,
  spec: Json.JsonObject
): Either.Either<Json.JsonObject, Failure.Failure> => {
  const resource = spec["resourceAttributes"]
  const path = spec["nonResourceAttributes"]
  if (Json.isObject(resource) === Json.isObject(path)) {
    return Either.left(
      Failure.invalid({ group, kind: "" }, "", [
        {
          field: "spec",
          reason: "FieldValueInvalid",
          message: `Invalid value: ${Json.isObject(resource) ? JSON.stringify(spec) : "null"}: exactly one of nonResourceAttributes or resourceAttributes must be specified`
        }
      ])
    )
  }
  const decision = authorize(
    state,
    subject,
    Json.isObject(path)
      ? { verb: text(path, "verb"), path: text(path, "path") }
      : {
          verb: text(resource, "verb"),
          group: text(resource, "group"),
          resource: text(resource, "resource"),
          subresource: text(resource, "subresource"),
          namespace: text(resource, "namespace"),
          name: text(resource, "name")
        }
  )
  return Either.right({
    kind: "SelfSubjectAccessReview",
    apiVersion: "authorization.k8s.io/v1",
    metadata: {},
    spec: withoutEmpty(spec),
    status: { allowed: decision.allowed, ...(decision.reason === undefined ? {} : { reason: decision.reason }) }
  })
}

const rulesReview = (
  state: Store.State,
  subject: Subject,
  spec: Json.JsonObject
): Either.Either<Json.JsonObject, Failure.Failure> => {
  const namespace = text(spec, "namespace")
  if (namespace === "") return Either.left(Failure.badRequest("no namespace on request"))
  const { errors, rules } = rulesOf(state, subject, namespace)
  const keep = (rule: Json.JsonObject, keys: ReadonlyArray<string>): Json.JsonObject =>
    Object.fromEntries(keys.flatMap((key) => (rule[key] === undefined ? [] : [[key, rule[key]] as const])))
  const problem = evaluationErrors(errors)
  return Either.right({
    kind: "SelfSubjectRulesReview",
    apiVersion: "authorization.k8s.io/v1",
    metadata: {},
    spec: {},
    status: {
      resourceRules: rules
        .filter(({ rule }) => listed(rule, "resources").length > 0)
        .map(({ rule }) => keep(rule, ["verbs", "apiGroups", "resources", "resourceNames"])),
      nonResourceRules: rules
        .filter(({ rule }) => listed(rule, "nonResourceURLs").length > 0)
        .map(({ rule }) => keep(rule, ["verbs", "nonResourceURLs"])),
      incomplete: false,
      ...(problem === undefined ? {} : { evaluationError: problem })
    }
  })
}

const subjectReview = (state: Store.State, subject: Subject, now: number): Json.JsonObject => {
  const [, , namespace = "", name = ""] = subject.user.split(":")
  const account = subject.user.startsWith("system:serviceaccount:")
    ? Store.get(state, { group: "", plural: "serviceaccounts" }, namespace, name)
    : undefined
  const uid = Json.at(account, "metadata", "uid")
  return {
    kind: "SelfSubjectReview",
    apiVersion: "authentication.k8s.io/v1",
    metadata: { creationTimestamp: Json.time(now) },
    status: {
      userInfo: {
        username: subject.user,
        ...(uid === undefined ? {} : { uid }),
        groups: subject.groups
      }
    }
  }
}

/** Answers a review (`isReview`) of the caller's own permissions. */
export const review = (
  state: Store.State,
  subject: Subject,
  request: KubeRequest.KubeRequest,
  now: number
): Either.Either<KubeReply, Failure.Failure> => {
  const value = Json.fromUnknown(request.body)
  const spec = Json.object(Json.at(value, "spec"))
  const answer =
    request.plural === "selfsubjectreviews"
      ? Either.right(subjectReview(state, subject, now))
      : request.plural === "selfsubjectrulesreviews"
        ? rulesReview(state, subject, spec)
        : accessReview(state, subject, spec)
  return Either.map(answer, (body) => ({ status: 201, body, warnings: [], serverTime: now - (now % 1000) }))
}

// ---- what every cluster has -----------------------------------------------------------------------------------------

const clusterRole = (name: string, rules: ReadonlyArray<Json.JsonObject>): Json.JsonObject => ({
  apiVersion: `${rbac}/v1`,
  kind: "ClusterRole",
  metadata: { name, labels: { "kubernetes.io/bootstrapping": "rbac-defaults" } },
  rules
})

const clusterRoleBinding = (name: string, role: string, groups: ReadonlyArray<string>): Json.JsonObject => ({
  apiVersion: `${rbac}/v1`,
  kind: "ClusterRoleBinding",
  metadata: { name, labels: { "kubernetes.io/bootstrapping": "rbac-defaults" } },
  roleRef: { apiGroup: rbac, kind: "ClusterRole", name: role },
  subjects: groups.map((entry) => ({ kind: "Group", apiGroup: rbac, name: entry }))
})

const health = ["/healthz", "/livez", "/readyz", "/version", "/version/"]

/** The roles and bindings that let any authenticated user discover the API and review its own permissions. */
export const defaults: ReadonlyArray<Json.JsonObject> = [
  clusterRole("cluster-admin", [
    { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
    { verbs: ["*"], nonResourceURLs: ["*"] }
  ]),
  clusterRoleBinding("cluster-admin", "cluster-admin", ["system:masters"]),
  clusterRole("system:basic-user", [
    { verbs: ["create"], apiGroups: [group], resources: ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] },
    { verbs: ["create"], apiGroups: ["authentication.k8s.io"], resources: ["selfsubjectreviews"] }
  ]),
  clusterRoleBinding("system:basic-user", "system:basic-user", ["system:authenticated"]),
  clusterRole("system:discovery", [
    {
      verbs: ["get"],
      nonResourceURLs: [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/"
      ]
    }
  ]),
  clusterRoleBinding("system:discovery", "system:discovery", ["system:authenticated"]),
  clusterRole("system:public-info-viewer", [{ verbs: ["get"], nonResourceURLs: health }]),
  clusterRoleBinding("system:public-info-viewer", "system:public-info-viewer", [
    "system:authenticated",
    "system:unauthenticated"
  ]),
  clusterRole("system:service-account-issuer-discovery", [
    {
      verbs: ["get"],
      nonResourceURLs: [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/"
      ]
    }
  ]),
  clusterRoleBinding("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", [
    "system:serviceaccounts"
  ]),
  clusterRole("system:cluster-trust-bundle-discovery", [
    { verbs: ["get", "list", "watch"], apiGroups: ["certificates.k8s.io"], resources: ["clustertrustbundles"] }
  ]),
  clusterRoleBinding("system:cluster-trust-bundle-discovery", "system:cluster-trust-bundle-discovery", [
    "system:serviceaccounts"
  ])
]
