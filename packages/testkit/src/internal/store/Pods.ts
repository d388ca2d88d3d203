/**
 * Subresources that are more than a part of their object: binding, eviction, tokens.
 *
 * @module
 */
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { Either, Encoding } from "effect"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import * as Registry from "../../Registry.js"
import {
  type State,
  type Step,
  type Type,
  canonical,
  commit,
  get,
  isDeleting,
  keyOfObject,
  labelsOf,
  list
} from "./State.js"
import { type Call, type Done, body, existing, parseText } from "./Call.js"
import { deleteOptions, plainSuccess, removeObject } from "./Delete.js"

const setCondition = (
  object: Json.JsonObject,
  condition: { readonly type: string; readonly status: string; readonly reason?: string; readonly message?: string },
  now: number
): Json.JsonObject => {
  const conditions = Json.array(Json.at(object, "status", "conditions"))
  const old = conditions.find((entry) => Json.at(entry, "type") === condition.type)
  const changed = Json.at(old, "status") !== condition.status
  const entry: Json.JsonObject = {
    type: condition.type,
    status: condition.status,
    lastProbeTime: null,
    lastTransitionTime: changed ? Json.time(now) : (Json.at(old, "lastTransitionTime") ?? Json.time(now)),
    ...(condition.reason === undefined ? {} : { reason: condition.reason }),
    ...(condition.message === undefined ? {} : { message: condition.message })
  }
  const next =
    old === undefined ? [...conditions, entry] : conditions.map((candidate) => (candidate === old ? entry : candidate))
  return Json.set(object, ["status", "conditions"], next)
}

export const bind = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state, type } = call
    const binding = yield* body(call)
    const name = request.name ?? ""
    const boundName = Json.string(Json.at(binding, "metadata", "name")) ?? ""
    if (boundName !== name) {
      return yield* Either.left(Failure.badRequest("name in URL does not match name in Binding object"))
    }
    const node = Json.string(Json.at(binding, "target", "name")) ?? ""
    const kind = Json.string(Json.at(binding, "target", "kind")) ?? ""
    if (node === "" || (kind !== "" && kind !== "Node")) {
      return yield* Either.left(
        Failure.invalid({ group: "", kind: "Binding" }, name, [
          node === ""
            ? { field: "target.name", reason: "FieldValueRequired", message: "Required value" }
            : {
                field: "target.kind",
                reason: "FieldValueNotSupported",
                message: `Unsupported value: ${JSON.stringify(kind)}: supported values: "Node", "<empty>"`
              }
        ])
      )
    }
    const pod = yield* existing(call)
    const refused = (why: string): Step<never> =>
      Either.left(Failure.conflict({ group: "", plural: "pods/binding" }, name, why))
    if (isDeleting(pod)) return yield* refused(`pod ${name} is being deleted, cannot be assigned to a host`)
    const assigned = Json.string(Json.at(pod, "spec", "nodeName")) ?? ""
    if (assigned !== "") return yield* refused(`pod ${name} is already assigned to node ${JSON.stringify(assigned)}`)
    const merged = (key: string): Json.JsonObject => {
      const value = { ...Json.object(Json.at(pod, "metadata", key)), ...Json.object(Json.at(binding, "metadata", key)) }
      return Object.keys(value).length === 0 ? {} : { [key]: value }
    }
    const bound = setCondition(
      {
        ...pod,
        metadata: { ...Json.object(pod["metadata"]), ...merged("annotations"), ...merged("labels") },
        spec: { ...Json.object(pod["spec"]), nodeName: node }
      },
      { type: "PodScheduled", status: "True" },
      env.now
    )
    if (call.dryRun) return { state, status: 201, body: plainSuccess }
    const result = commit(
      state,
      { resource: Registry.typeKey(type), key: keyOfObject(pod) },
      pod,
      canonical(type, bound)
    )
    return { state: result.state, status: 201, body: plainSuccess }
  })

const budgets: Type = { group: "policy", plural: "poddisruptionbudgets" }

const selectorMatches = (selector: Json.Json | undefined, pod: Json.JsonObject): boolean => {
  if (!Json.isObject(selector)) return false
  const requirements: Array<Selector.LabelRequirement> = Object.entries(Json.object(selector["matchLabels"])).map(
    ([key, value]) => ({ key, operator: "in", values: [Json.text(value)] })
  )
  for (const expression of Json.array(selector["matchExpressions"])) {
    const key = Json.string(Json.at(expression, "key")) ?? ""
    const values = Json.array(Json.at(expression, "values")).map(Json.text)
    switch (Json.at(expression, "operator")) {
      case "In":
        requirements.push({ key, operator: "in", values })
        break
      case "NotIn":
        requirements.push({ key, operator: "notIn", values })
        break
      case "Exists":
        requirements.push({ key, operator: "exists", values: [] })
        break
      default:
        requirements.push({ key, operator: "notExists", values: [] })
    }
  }
  return Selector.matchesLabels(requirements, labelsOf(pod))
}

const isReady = (pod: Json.JsonObject): boolean =>
  Json.array(Json.at(pod, "status", "conditions")).some(
    (condition) => Json.at(condition, "type") === "Ready" && Json.at(condition, "status") === "True"
  )

interface Health {
  readonly desired: number
  readonly current: number
  readonly allowed: number
}

const scaled = (value: Json.Json | undefined, total: number): number | undefined => {
  if (typeof value === "number") return value
  const percent = typeof value === "string" ? /^(\d+)%$/.exec(value)?.[1] : undefined
  return percent === undefined ? undefined : Math.ceil((Number(percent) * total) / 100)
}

/** What a disruption budget allows: its status where a controller keeps it, else counted here and now. */
const health = (state: State, budget: Json.JsonObject): Health => {
  const status = Json.object(budget["status"])
  const allowed = Json.number(status["disruptionsAllowed"])
  const desired = Json.number(status["desiredHealthy"])
  const current = Json.number(status["currentHealthy"])
  if (allowed !== undefined && desired !== undefined && current !== undefined) return { allowed, desired, current }
  const pods = [
    ...list(state, { group: "", plural: "pods" }, Json.string(Json.at(budget, "metadata", "namespace")))
  ].filter((pod) => selectorMatches(Json.at(budget, "spec", "selector"), pod))
  const healthy = pods.filter((pod) => isReady(pod) && !isDeleting(pod)).length
  const unavailable = scaled(Json.at(budget, "spec", "maxUnavailable"), pods.length)
  const needed =
    scaled(Json.at(budget, "spec", "minAvailable"), pods.length) ??
    Math.max(0, pods.length - (unavailable ?? pods.length))
  return { desired: needed, current: healthy, allowed: Math.max(0, healthy - needed) }
}

export const evict = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state, type } = call
    const eviction = yield* body(call)
    const name = request.name ?? ""
    const evicted = Json.string(Json.at(eviction, "metadata", "name")) ?? name
    if (evicted !== name) {
      return yield* Either.left(Failure.badRequest("name in URL does not match name in Eviction object"))
    }
    const pod = yield* existing(call)
    const options = yield* deleteOptions(request, eviction["deleteOptions"] ?? {})
    const dryRun = call.dryRun || options.dryRun
    const phase = Json.at(pod, "status", "phase")
    let current = state
    if (phase === "Running" && !isDeleting(pod)) {
      const guarding = [...list(state, budgets, request.namespace)].filter((budget) =>
        selectorMatches(Json.at(budget, "spec", "selector"), pod)
      )
      if (guarding.length > 1) {
        return yield* Either.left(
          Failure.plain(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
          )
        )
      }
      const [budget] = guarding
      if (budget !== undefined && isReady(pod)) {
        const { allowed, current: healthy, desired } = health(state, budget)
        if (allowed < 1) {
          return yield* Either.left(
            Failure.make(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {
              causes: [
                {
                  reason: "DisruptionBudget",
                  message: `The disruption budget ${Json.string(Json.at(budget, "metadata", "name")) ?? ""} needs ${desired} healthy pods and has ${healthy} currently`
                }
              ]
            })
          )
        }
        if (Json.at(budget, "status", "disruptionsAllowed") !== undefined && !dryRun) {
          current = commit(
            current,
            { resource: Registry.typeKey(budgets), key: keyOfObject(budget) },
            budget,
            Json.set(
              Json.set(budget, ["status", "disruptionsAllowed"], allowed - 1),
              ["status", "disruptedPods", name],
              Json.time(env.now)
            )
          ).state
        }
      }
    }
    if (dryRun) return { state, status: 201, body: plainSuccess }
    let target = pod
    const condition = {
      type: "DisruptionTarget",
      status: "True",
      reason: "EvictionByEvictionAPI",
      message: "Eviction API: evicting"
    }
    // Also of a pod that is going already
    const marked = canonical(type, setCondition(pod, condition, env.now))
    if (!Json.equal(marked, pod)) {
      const disrupted = commit(current, { resource: Registry.typeKey(type), key: keyOfObject(pod) }, pod, marked)
      current = disrupted.state
      target = disrupted.object
    }
    const removal = yield* removeObject({ ...call, state: current }, target, options)
    return { state: removal.state, status: 201, body: plainSuccess }
  })

const tokenSeconds = 3600

export const issueToken = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { env, request, state } = call
    const asked = yield* body(call)
    const account = yield* existing(call)
    const seconds = Json.number(Json.at(asked, "spec", "expirationSeconds")) ?? tokenSeconds
    const token = Encoding.encodeBase64Url(
      JSON.stringify({
        namespace: request.namespace ?? "",
        name: request.name ?? "",
        uid: Json.at(account, "metadata", "uid") ?? "",
        expires: env.now + seconds * 1000
      })
    )
    return {
      state,
      status: 201,
      body: {
        kind: "TokenRequest",
        apiVersion: "authentication.k8s.io/v1",
        metadata: {
          name: request.name ?? "",
          namespace: request.namespace ?? "",
          creationTimestamp: Json.time(env.now)
        },
        spec: {
          audiences: Json.array(Json.at(asked, "spec", "audiences")),
          expirationSeconds: seconds,
          boundObjectRef: null
        },
        status: { token, expirationTimestamp: Json.time(env.now + seconds * 1000) }
      }
    }
  })

/** Whose token this is, when it was issued here, has not expired and its ServiceAccount still exists. */
export const tokenSubject = (
  state: State,
  token: string,
  now: number
): { readonly namespace: string; readonly name: string } | undefined => {
  const decoded = Encoding.decodeBase64UrlString(token)
  if (Either.isLeft(decoded)) return undefined
  const value = parseText(decoded.right)
  const namespace = Json.string(Json.at(value, "namespace"))
  const name = Json.string(Json.at(value, "name"))
  const expires = Json.number(Json.at(value, "expires"))
  if (namespace === undefined || name === undefined || expires === undefined || expires <= now) return undefined
  const account = get(state, { group: "", plural: "serviceaccounts" }, namespace, name)
  return account !== undefined && Json.equal(Json.at(account, "metadata", "uid"), Json.at(value, "uid"))
    ? { namespace, name }
    : undefined
}
