/**
 * The oracle: what a cluster really allows, found out from its objects and by doing it. Nothing here comes from the adapter;
 * permissions are found out by making the request itself, a hold by holding a job, the processes by looking at the pod
 * template that came out, the gate from the stored objects.
 */
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { Service as Door } from "@dispatch-kubeflow/testkit/Cluster"
import * as Json from "@dispatch-kubeflow/testkit/Json"
import { Effect, Stream, TestClock } from "effect"
import { controller, namespace, type Random, runtimeNames, subject } from "./RandomCluster.js"

const trainJobs = { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }
const jobSets = { group: "jobset.x-k8s.io", version: "v1alpha2", plural: "jobsets" }
const pods = { group: "", version: "v1", plural: "pods" }

const kueue = (random: Random, plural: string) => ({ group: "kueue.x-k8s.io", version: random.kueueApi, plural })

/** The body of an answer, or nothing where there was none. */
const ask = (api: KubeApi.Service, request: KubeRequest.KubeRequest): Effect.Effect<Json.Json | undefined> =>
  Effect.match(api.transport.call(request), {
    onFailure: () => undefined,
    onSuccess: ({ body }) => body as Json.Json
  })

const read = (door: Door, type: KubeRequest.ResourceType, name: string, within?: string) =>
  ask(door.admin, KubeRequest.make("get", type, { name, ...(within === undefined ? {} : { namespace: within }) }))

const isActive = (object: Json.Json | undefined): boolean =>
  Json.array(Json.at(object, "status", "conditions")).some(
    (it) => Json.at(it, "type") === "Active" && Json.at(it, "status") === "True"
  )

const isLeaving = (object: Json.Json | undefined): boolean =>
  Json.at(object, "metadata", "deletionTimestamp") !== undefined

/** Labels of the namespace against a selector; no selector selects nothing. */
const selected = (selector: Json.Json | undefined, labels: Json.Json | undefined): boolean => {
  if (selector === undefined || selector === null) return false
  const equal = Object.entries(Json.object(Json.at(selector, "matchLabels"))).every(
    ([key, value]) => Json.at(labels, key) === value
  )
  return (
    equal &&
    Json.array(Json.at(selector, "matchExpressions")).every((expression) => {
      const value = Json.at(labels, Json.text(Json.at(expression, "key")))
      const among = value !== undefined && Json.array(Json.at(expression, "values")).includes(value)
      switch (Json.at(expression, "operator")) {
        case "In":
          return among
        case "NotIn":
          return !among
        case "Exists":
          return value !== undefined
        case "DoesNotExist":
          return value === undefined
        default:
          return false
      }
    })
  )
}

/** Whether every admission of the queue passes the check, and its controller is alive, by the server's clock. */
const gate = (door: Door, random: Random) =>
  Effect.gen(function* () {
    // Through the older version the check's own answers cannot be written
    if (random.mode === "plain" || random.kueueApi !== "v1beta2") return false
    const queue = yield* read(door, kueue(random, "localqueues"), "team-queue", namespace)
    if (!isActive(queue) || isLeaving(queue)) return false
    const pool = yield* read(door, kueue(random, "clusterqueues"), Json.text(Json.at(queue, "spec", "clusterQueue")))
    if (!isActive(pool) || isLeaving(pool)) return false
    if (Json.at(pool, "spec", "concurrentAdmissionPolicy") !== undefined) return false
    const home = yield* read(door, { group: "", version: "v1", plural: "namespaces" }, namespace)
    if (!selected(Json.at(pool, "spec", "namespaceSelector"), Json.at(home, "metadata", "labels"))) return false
    const listed = Json.array(Json.at(pool, "spec", "admissionChecksStrategy", "admissionChecks"))
    const everywhere = listed.some(
      (it) => Json.at(it, "name") === "gate" && Json.array(Json.at(it, "onFlavors")).length === 0
    )
    if (!everywhere) return false
    for (const entry of listed) {
      const check = yield* read(door, kueue(random, "admissionchecks"), Json.text(Json.at(entry, "name")))
      if (Json.at(check, "spec", "controllerName") === "kueue.x-k8s.io/multikueue") return false
    }
    const check = yield* read(door, kueue(random, "admissionchecks"), "gate")
    if (!isActive(check) || isLeaving(check)) return false
    if (Json.at(check, "spec", "controllerName") !== controller) return false
    const lease = yield* read(
      door,
      { group: "coordination.k8s.io", version: "v1", plural: "leases" },
      "gate",
      "gate-system"
    )
    const until =
      Date.parse(Json.text(Json.at(lease, "spec", "renewTime"))) +
      1000 * Number(Json.at(lease, "spec", "leaseDurationSeconds"))
    const now = (yield* door.now) + random.clock.ahead
    return Json.text(Json.at(lease, "spec", "holderIdentity")) !== "" && until > now
  })

/** Whether the server lets the subject do something at all; that the object does not exist does not matter. */
const lets = (effect: Effect.Effect<unknown, { readonly _tag: string }>): Effect.Effect<boolean> =>
  Effect.match(effect, { onSuccess: () => true, onFailure: ({ _tag }) => _tag !== "KubeForbidden" })

const podNames = (door: Door, job: string) =>
  Effect.map(ask(door.admin, KubeRequest.make("list", pods, { namespace })), (body) =>
    Json.array(Json.at(body, "items")).flatMap((pod) => {
      const name = Json.text(Json.at(pod, "metadata", "name"))
      return name.startsWith(`${job}-`) ? [name] : []
    })
  )

const job = (name: string, runtime: string, suspend: boolean, random: Random, processes?: number): Json.Json => ({
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  kind: "TrainJob",
  metadata: { name, labels: random.mode === "plain" ? {} : { "kueue.x-k8s.io/queue-name": "nowhere" } },
  spec: {
    runtimeRef: { apiGroup: "trainer.kubeflow.org", kind: "ClusterTrainingRuntime", name: runtime },
    suspend,
    trainer: { numNodes: 1, ...(processes === undefined ? {} : { numProcPerNode: processes }) },
    runtimePatches: [
      {
        manager: "acme.io/test",
        trainingRuntimeSpec: { template: { metadata: { annotations: { "acme.io/test": "1" } } } }
      }
    ]
  }
})

/** Holds a job as the subject: it is created suspended, stays without pods, starts, is held, and goes. */
const holds = (door: Door, random: Random) =>
  Effect.gen(function* () {
    if (random.readOnly) return false
    const api = door.as(subject)
    const name = "truth-1"
    const patch = (suspend: boolean) =>
      ask(
        api,
        KubeRequest.make("patch", trainJobs, { namespace, name, body: { spec: { suspend } }, patchType: "merge" })
      )
    const suspended = Effect.map(read(door, jobSets, name, namespace), (set) =>
      Json.array(Json.at(set, "status", "conditions")).some(
        (it) => Json.at(it, "type") === "Suspended" && Json.at(it, "status") === "True"
      )
    )
    const created = yield* ask(
      api,
      KubeRequest.make("create", trainJobs, { namespace, body: job(name, "torch-conforming", true, random) })
    )
    if (Json.at(created, "spec", "suspend") !== true) return false
    if (Json.array(Json.at(created, "spec", "runtimePatches")).length === 0) return false
    yield* TestClock.adjust("3 seconds")
    if (!(yield* suspended) || (yield* podNames(door, name)).length > 0) return false
    if (Json.at(yield* patch(false), "spec", "suspend") !== false) return false
    yield* TestClock.adjust("3 seconds")
    if (Json.at(yield* read(door, jobSets, name, namespace), "spec", "suspend") !== false) return false
    if (Json.at(yield* patch(true), "spec", "suspend") !== true) return false
    yield* TestClock.adjust("40 seconds")
    if (!(yield* suspended) || (yield* podNames(door, name)).length > 0) return false
    const deleted = yield* ask(
      api,
      KubeRequest.make("delete", trainJobs, { namespace, name, body: { propagationPolicy: "Background" } })
    )
    if (deleted === undefined) return false
    yield* TestClock.adjust("10 seconds")
    if ((yield* read(door, trainJobs, name, namespace)) !== undefined) return false
    if ((yield* read(door, jobSets, name, namespace)) !== undefined) return false
    if (random.mode === "plain") return true
    // In Kueue mode it is the Workload that is held
    const workload = yield* ask(api, KubeRequest.make("get", kueue(random, "workloads"), { namespace, name: "held" }))
    if (workload === undefined) return false
    const put = yield* ask(
      api,
      KubeRequest.make("update", kueue(random, "workloads"), {
        namespace,
        name: "held",
        body: { ...Json.object(workload), spec: { ...Json.object(Json.at(workload, "spec")), active: false } }
      })
    )
    return Json.at(put, "spec", "active") === false
  })

/** Whether a job of the runtime starts as many processes per node as it asks for. */
const starts = (door: Door, random: Random) =>
  Effect.gen(function* () {
    const name = "truth-2"
    const created = yield* ask(
      door.admin,
      KubeRequest.make("create", trainJobs, {
        namespace,
        body: job(name, runtimeNames[random.runtime], true, random, 3)
      })
    )
    yield* TestClock.adjust("3 seconds")
    const set = yield* read(door, jobSets, name, namespace)
    // Where no job comes to be, for whatever reason, what it would do is what its runtime says
    return created === undefined || set === undefined
      ? random.runtime === "torch"
      : JSON.stringify(set).includes(`{"name":"PET_NPROC_PER_NODE","value":"3"}`)
  })

/** Whether Kueue, or whoever does the like, takes over a job of the namespace that names no queue. */
const captured = (door: Door, random: Random) =>
  Effect.map(
    ask(
      door.admin,
      KubeRequest.make("create", trainJobs, {
        namespace,
        body: job("truth-3", "torch-conforming", false, { ...random, mode: "plain" }),
        query: { dryRun: "All" }
      })
    ),
    (created) =>
      created === undefined ||
      Json.at(created, "spec", "suspend") === true ||
      Json.at(created, "metadata", "labels", "kueue.x-k8s.io/queue-name") !== undefined
  )

/** Whether a yes of a capability is warranted; only a yes is asked about, so only then it is found out. */
export const warranted = (door: Door, random: Random, capability: string): Effect.Effect<boolean> => {
  const api = door.as(subject)
  const log = KubeRequest.make("get", pods, { namespace, name: "any", subresource: "log" })
  const lists = lets(api.transport.call(KubeRequest.make("list", pods, { namespace })))
  const reads = Effect.zipWith(lets(Stream.runDrain(api.transport.bytes(log))), lists, (a, b) => a && b)
  switch (capability) {
    case "ContainerImage":
    case "WorkingDirectory":
      return Effect.succeed(true)
    case "Hold":
      return holds(door, random)
    case "AttemptInjection":
      return random.mode === "plain" ? Effect.succeed(true) : gate(door, random)
    case "ReadmissionGate":
      return gate(door, random)
    case "OutputRead":
      return reads
    case "OutputFollow":
      return Effect.zipWith(
        reads,
        lets(
          Stream.runHead(
            api.transport.watch(
              KubeRequest.make("watch", pods, {
                namespace,
                query: {
                  resourceVersion: "0",
                  sendInitialEvents: "true",
                  allowWatchBookmarks: "true",
                  resourceVersionMatch: "NotOlderThan"
                }
              })
            )
          )
        ),
        (a, b) => a && b
      )
    case "ProcsPerNode":
      return starts(door, random)
    default:
      return Effect.succeed(false)
  }
}

/** Whether writing is warranted. */
export const writable = (door: Door, random: Random): Effect.Effect<boolean> =>
  random.readOnly
    ? Effect.succeed(false)
    : random.mode === "kueue"
      ? gate(door, random)
      : Effect.map(captured(door, random), (it) => !it)

/** What a preflight left behind. */
export const leftBehind = (door: Door): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(
    Effect.forEach([trainJobs, jobSets], (type) => ask(door.admin, KubeRequest.make("list", type, { namespace }))),
    (lists) =>
      lists.flatMap((list) =>
        Json.array(Json.at(list, "items")).map((it) => Json.text(Json.at(it, "metadata", "name")))
      )
  )
