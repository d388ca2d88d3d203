/**
 * Random clusters: permissions, versions, runtimes, queues, checks, leases, webhooks, quota, clocks, faults, and what changes
 * after the preflight. Almost everything is well in most of them, so that a yes is often near.
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { fromStatus, KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as Registry from "@dispatch-kubeflow/testkit/Registry"
import * as Store from "@dispatch-kubeflow/testkit/Store"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { Effect, Either, FastCheck as fc, TestClock } from "effect"
import * as Manifests from "../manifests.js"

export const namespace = "team-a"
export const controller = "acme.io/gate"
export const subject = Rbac.serviceAccount(namespace, "dispatcher")

const localQueues: Store.Type = { group: "kueue.x-k8s.io", plural: "localqueues" }

const manifests = Manifests.load("kueue")
const grants = Manifests.grants(manifests)

/** When the preflight starts, in milliseconds of our clock: so that times before it exist. */
const start = 10_000_000

const hour = 3_600_000

const mostly = <A>(usual: A, ...others: ReadonlyArray<A>): fc.Arbitrary<A> =>
  fc.oneof({ weight: 16, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

const active = mostly<"True" | "False" | "Unknown" | "absent">("True", "False", "Unknown", "absent")

/** What a webhook of somebody else's does to TrainJobs. */
const webhooks = [
  "denies create",
  "denies patch",
  "denies delete",
  "denies all dry runs",
  "starts it",
  "suspends it",
  "labels it with a queue",
  "drops the patches",
  "adds a finalizer",
  "quota"
] as const

const faults = ["busy", "lost", "broken", "throttled"] as const

const later = [
  "the Lease runs out",
  "the check is deleted",
  "the check is dropped",
  "the queue is stopped",
  "the queue selects others",
  "a permission is taken away",
  "Kueue captures the namespace"
] as const

export const anyCluster = fc.record({
  mode: fc.constantFrom("plain" as const, "kueue" as const),
  readOnly: mostly(false, true),
  holdProbe: mostly<"dry-run" | "real">("dry-run", "real"),
  lacking: fc.oneof(
    { weight: 3, arbitrary: fc.constant<ReadonlyArray<string>>([]) },
    {
      weight: 2,
      arbitrary: fc.subarray(
        grants.map(({ id }) => id),
        { minLength: 1, maxLength: 2 }
      )
    }
  ),
  without: mostly<ReadonlyArray<TestCluster.StageName>>([], ["trainer"], ["jobset"], ["job"], ["garbage-collector"]),
  /** What is served of the API groups that need not be there. */
  kueueApi: mostly<"v1beta2" | "v1beta1" | "absent">("v1beta2", "v1beta1", "absent"),
  jobSetApi: mostly(true, false),
  trainerApi: fc.oneof({ weight: 60, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  /** Paths that the server does not let everybody read. */
  hidden: mostly<ReadonlyArray<string>>([], ["/apis"], ["/version"], ["/openapi/"], ["/apis", "/openapi/", "/version"]),
  webhook: mostly<(typeof webhooks)[number] | undefined>(undefined, ...webhooks),
  runtime: fc.constantFrom("torch" as const, "plain" as const, "shipped" as const, "absent" as const),
  /** Whether the preflight is told of the runtime. */
  told: fc.boolean(),
  fault: fc.record({
    kind: mostly<(typeof faults)[number] | undefined>(undefined, ...faults),
    at: fc.integer({ min: 0, max: 60 }),
    times: fc.integer({ min: 1, max: 5 })
  }),
  /** Access reviews that are not answered: none, all, or those of one resource. */
  unreviewed: mostly<string | undefined>(undefined, "*", "pods", "trainjobs", "workloads"),
  clock: fc.record({
    /** How much the server's clock is ahead of ours, in milliseconds. */
    ahead: fc.oneof(fc.constant(0), fc.constantFrom(-3 * hour, 3 * hour, -4000, 4000, 400)),
    /** Whether the server says what time it is. Where it does not, nothing can be known of clocks that are far apart. */
    dated: mostly(true, false)
  }),
  /** Whether there is a LocalQueue called "default", to which Kueue gives every job that names no queue. */
  capturing: mostly(false, true),
  localQueue: fc.record({ exists: mostly(true, false), active, deleting: mostly(false, true) }),
  clusterQueue: fc.record({
    exists: mostly(true, false),
    active,
    deleting: mostly(false, true),
    selector: mostly<object | undefined>(
      { matchLabels: { team: "a" } },
      {},
      undefined,
      { matchLabels: { team: "b" } },
      { matchExpressions: [{ key: "team", operator: "NotIn", values: ["a"] }] },
      { matchExpressions: [{ key: "team", operator: "Exists" }] },
      { matchExpressions: [{ key: "team", operator: "DoesNotExist" }] },
      { matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: ["team-a"] }] },
      { matchLabels: { team: "a" }, matchExpressions: [{ key: "tier", operator: "In", values: ["gold"] }] }
    ),
    checks: mostly<ReadonlyArray<object>>(
      [{ name: "gate" }],
      [],
      [{ name: "other" }],
      [{ name: "gate" }, { name: "other" }],
      [{ name: "gate", onFlavors: ["a"] }],
      [{ name: "gate" }, { name: "multi" }],
      [{ name: "gate" }, { name: "absent" }]
    ),
    concurrent: mostly(false, true)
  }),
  check: fc.record({
    exists: mostly(true, false),
    active,
    deleting: mostly(false, true),
    controllerName: mostly(controller, "acme.io/other")
  }),
  lease: fc.record({
    exists: mostly(true, false),
    holder: mostly("gate-0", ""),
    /** Milliseconds of the server's clock from the start until it runs out. */
    left: mostly(hour, -hour, -2 * hour, -60_000, -700)
  }),
  later: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom(...later) }
  ),
  taken: fc.constantFrom(
    "get pods/log",
    "list pods",
    "create trainjobs.trainer.kubeflow.org",
    "update workloads.kueue.x-k8s.io"
  )
})

export type Random = typeof anyCluster extends fc.Arbitrary<infer A> ? A : never

const registries = new Map<string, Registry.Registry>()

/** The types that are served; made once for each combination. */
const registryOf = ({ jobSetApi, kueueApi, trainerApi }: Random): Registry.Registry => {
  const key = `${kueueApi} ${jobSetApi} ${trainerApi}`
  const known = registries.get(key)
  if (known !== undefined) return known
  const made = Registry.make([
    ...Registry.kubernetes,
    ...(jobSetApi ? Registry.jobSet : []),
    ...(trainerApi ? Registry.kubeflowTrainer : []),
    ...(kueueApi === "absent" ? [] : Registry.kueue(kueueApi))
  ])
  registries.set(key, made)
  return made
}

type Json = Readonly<Record<string, unknown>>

const foreignWebhook = (what: (typeof webhooks)[number]): Store.Admission => {
  const denial = Either.left({ message: "not here" })
  return {
    name: "policy.acme.io",
    admit: ({ definition, dryRun, object, old, operation }) => {
      if (definition.plural !== "trainjobs") return undefined
      const change = (part: "metadata" | "spec", fields: object) =>
        Either.right({ ...object, [part]: { ...(object[part] as Json), ...fields } } as typeof object)
      switch (what) {
        case "denies create":
          return operation === "CREATE" ? denial : undefined
        case "quota":
          // As the API server's own quota says it
          return operation === "CREATE"
            ? Either.left({ message: "exceeded quota: none, requested: 1, used: 0, limited: 0", reason: "Forbidden" })
            : undefined
        case "denies patch":
          return operation === "UPDATE" ? denial : undefined
        case "denies delete":
          return operation === "DELETE" ? denial : undefined
        case "denies all dry runs":
          return dryRun ? denial : undefined
        case "starts it":
          return operation === "CREATE" ? change("spec", { suspend: false }) : undefined
        case "suspends it":
          return operation === "CREATE" ? change("spec", { suspend: true }) : undefined
        case "labels it with a queue":
          return operation === "CREATE"
            ? change("metadata", { labels: { "kueue.x-k8s.io/queue-name": "default" } })
            : undefined
        case "drops the patches":
          return operation === "CREATE" ? change("spec", { runtimePatches: [] }) : undefined
        case "adds a finalizer":
          return operation === "CREATE" && old === undefined
            ? change("metadata", { finalizers: ["acme.io/keep"] })
            : undefined
      }
    }
  }
}

/** Kueue's webhook, as far as it takes over jobs that name no queue. */
const capturing: Store.Admission = {
  name: "mtrainjob.kb.io",
  admit: ({ definition, object, operation, state }) => {
    if (definition.plural !== "trainjobs" || operation !== "CREATE") return undefined
    const metadata = object["metadata"] as Json
    const labels = (metadata["labels"] ?? {}) as Json
    const named = labels["kueue.x-k8s.io/queue-name"] !== undefined
    if (named || Store.get(state, localQueues, namespace, "default") === undefined) return undefined
    const spec = object["spec"] as Json
    return Either.right({
      ...object,
      metadata: { ...metadata, labels: { ...labels, "kueue.x-k8s.io/queue-name": "default" } },
      spec: { ...spec, suspend: true }
    })
  }
}

const conditions = (status: Random["localQueue"]["active"]) =>
  status === "absent" ? {} : { conditions: [{ type: "Active", status, reason: "Ready", message: "" }] }

const deletion = (deleting: boolean) =>
  deleting ? { deletionTimestamp: "1970-01-01T00:00:01Z", finalizers: ["kueue.x-k8s.io/resource-in-use"] } : {}

const queueObjects = (random: Random): ReadonlyArray<object> => {
  const { clusterQueue, kueueApi, lease, localQueue } = random
  const apiVersion = `kueue.x-k8s.io/${kueueApi}`
  const given = (exists: boolean, object: object): ReadonlyArray<object> => (exists ? [object] : [])
  const check = (name: string, controllerName: string) => ({
    apiVersion,
    kind: "AdmissionCheck",
    metadata: { name },
    spec: { controllerName },
    status: conditions("True")
  })
  return [
    ...given(lease.exists, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "gate", namespace: "gate-system" },
      spec: {
        holderIdentity: lease.holder,
        leaseDurationSeconds: 15,
        renewTime: new Date(start + random.clock.ahead + lease.left - 15_000).toISOString().replace("Z", "000Z")
      }
    }),
    ...(kueueApi === "absent"
      ? []
      : [
          ...given(localQueue.exists, {
            apiVersion,
            kind: "LocalQueue",
            metadata: { name: "team-queue", namespace, ...deletion(localQueue.deleting) },
            spec: { clusterQueue: "pool" },
            status: conditions(localQueue.active)
          }),
          ...given(clusterQueue.exists, {
            apiVersion,
            kind: "ClusterQueue",
            metadata: { name: "pool", ...deletion(clusterQueue.deleting) },
            spec: {
              ...(clusterQueue.selector === undefined ? {} : { namespaceSelector: clusterQueue.selector }),
              admissionChecksStrategy: { admissionChecks: clusterQueue.checks },
              ...(clusterQueue.concurrent ? { concurrentAdmissionPolicy: {} } : {})
            },
            status: conditions(clusterQueue.active)
          }),
          ...given(random.check.exists, {
            apiVersion,
            kind: "AdmissionCheck",
            metadata: { name: "gate", ...deletion(random.check.deleting) },
            spec: { controllerName: random.check.controllerName },
            status: conditions(random.check.active)
          }),
          ...given(random.capturing, {
            apiVersion,
            kind: "LocalQueue",
            metadata: { name: "default", namespace },
            spec: { clusterQueue: "pool" },
            status: conditions("True")
          }),
          check("other", "acme.io/other"),
          check("multi", "kueue.x-k8s.io/multikueue"),
          // What a hold in Kueue mode writes: a Workload that holds quota
          {
            apiVersion,
            kind: "Workload",
            metadata: { name: "held", namespace },
            spec: { active: true, queueName: "elsewhere", podSets: [] },
            status: {
              conditions: [
                {
                  type: "QuotaReserved",
                  status: "True",
                  reason: "QuotaReserved",
                  message: "",
                  lastTransitionTime: "1970-01-01T00:00:01Z"
                }
              ]
            }
          }
        ])
  ]
}

/** The manifests without some permissions. */
const granted = (lacking: ReadonlyArray<string>): ReadonlyArray<Manifests.Manifest> =>
  grants
    .filter(({ id }) => lacking.includes(id))
    // From the last rule to the first: a rule that loses its last verb goes
    .toSorted((left, right) => right.rule - left.rule)
    .reduce(
      (all, grant) => all.map((it, index) => (index === grant.role ? Manifests.without(all, grant) : it)),
      manifests
    )

export const runtimeNames = {
  torch: "torch-conforming",
  plain: "plain",
  shipped: "torch-distributed",
  absent: "absent"
}

/** How the API behaves on the way: hidden paths, reviews that are not answered, faults, and what the clock says. */
const onTheWay =
  (random: Random, seen: Seen) =>
  (transport: KubeTransport): KubeTransport => {
    const { clock, fault, hidden, unreviewed } = random
    const reply = (request: KubeRequest.KubeRequest) =>
      Effect.map(transport.call(request), ({ serverTime, ...rest }) =>
        (clock.dated || Math.abs(clock.ahead) > 5000) && serverTime !== undefined
          ? { ...rest, serverTime: Math.floor((start + clock.ahead + seen.elapsed()) / 1000) * 1000 }
          : rest
      )
    const spoilt = (request: KubeRequest.KubeRequest, count: number) => {
      const path = request.nonResourcePath
      if (path !== undefined && hidden.some((it) => path.startsWith(it))) {
        return Effect.fail(fromStatus(request, 403, undefined))
      }
      if (request.plural === "selfsubjectaccessreviews" && unreviewed !== undefined) {
        const body = request.body as { readonly spec: { readonly resourceAttributes: { readonly resource: string } } }
        if (unreviewed === "*" || unreviewed === body.spec.resourceAttributes.resource) {
          return Effect.fail(fromStatus(request, 500, undefined))
        }
      }
      if (fault.kind === undefined || count < fault.at || count >= fault.at + fault.times) return undefined
      switch (fault.kind) {
        case "busy":
          return Effect.fail(fromStatus(request, 503, undefined))
        case "throttled":
          return Effect.fail(fromStatus(request, 429, undefined, 1000))
        case "broken":
          return Effect.fail(fromStatus(request, 500, undefined))
        case "lost":
          return Effect.zipRight(
            Effect.ignore(transport.call(request)),
            Effect.fail(
              new KubeUnavailable({ request: KubeRequest.withoutBody(request), phase: "stream", detail: "cut off" })
            )
          )
      }
    }
    return {
      ...transport,
      call: (request) =>
        Effect.suspend(() => {
          const count = seen.count
          seen.count += 1
          seen.now += 1
          seen.most = Math.max(seen.most, seen.now)
          return (spoilt(request, count) ?? reply(request)).pipe(
            Effect.ensuring(
              Effect.sync(() => {
                seen.now -= 1
              })
            )
          )
        })
    }
  }

/** What passed through the API of the adapter. */
interface Seen {
  count: number
  now: number
  most: number
  elapsed: () => number
}

/** A cluster that is ready to be asked. */
export interface World {
  readonly random: Random
  readonly config: AdapterConfig.AdapterConfig
  /** The API as the adapter gets it. */
  readonly api: KubeApi.Service
  readonly seen: Readonly<Pick<Seen, "count" | "most">>
  /** Makes what the cluster has in store after the preflight come true. */
  readonly pass: Effect.Effect<void>
}

const kueue: AdapterConfig.KueueConfig = {
  localQueue: "team-queue",
  admissionCheck: "gate",
  controllerName: controller,
  lease: { namespace: "gate-system", name: "gate" }
}

export const build = (random: Random) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(start)
    const clock = yield* Effect.clock
    const cluster = yield* TestCluster.TestCluster
    const door = yield* Cluster
    yield* door.seed([
      Fixtures.namespace(namespace, { team: "a" }),
      Fixtures.namespace("gate-system"),
      ...(random.trainerApi ? [Fixtures.torchConforming(), Fixtures.plainRuntime(), Fixtures.torchDistributed()] : []),
      ...queueObjects(random),
      ...granted(random.lacking)
    ])
    const seen: Seen = { count: 0, now: 0, most: 0, elapsed: () => clock.unsafeCurrentTimeMillis() - start }
    const api = KubeApi.transform(onTheWay(random, seen))(door.as(subject))
    const config = AdapterConfig.make({
      namespace,
      access: random.readOnly ? "read-only" : "read-write",
      holdProbe: random.holdProbe,
      kueue: random.mode === "plain" ? undefined : kueue
    })
    const pass = Effect.gen(function* () {
      switch (random.later) {
        case undefined:
          return
        case "the Lease runs out":
          yield* TestClock.adjust("2 hours")
          return
        case "the check is deleted":
          yield* door.seed(queueObjects({ ...random, check: { ...random.check, deleting: true } }))
          return
        case "the check is dropped":
          yield* door.seed(queueObjects({ ...random, clusterQueue: { ...random.clusterQueue, checks: [] } }))
          return
        case "the queue is stopped":
          yield* door.seed(queueObjects({ ...random, localQueue: { ...random.localQueue, active: "False" } }))
          return
        case "the queue selects others":
          yield* door.seed(
            queueObjects({
              ...random,
              clusterQueue: { ...random.clusterQueue, selector: { matchLabels: { team: "b" } } }
            })
          )
          return
        case "Kueue captures the namespace":
          yield* door.seed(queueObjects({ ...random, capturing: true }))
          return
        case "a permission is taken away":
          yield* door.seed(granted([...random.lacking, random.taken]))
      }
    })
    const world: World = { random, config, api, seen, pass }
    return { world, door, cluster }
  })

/** The layer of a random cluster. */
export const layer = (random: Random) =>
  TestCluster.layer({
    registry: registryOf(random),
    // A controller whose types are not served does not start
    without: [
      ...random.without,
      ...(random.trainerApi ? [] : (["trainer"] as const)),
      ...(random.jobSetApi ? [] : (["trainer", "jobset"] as const))
    ],
    admission: [
      ...(random.kueueApi === "absent" ? [] : [capturing]),
      ...(random.webhook === undefined ? [] : [foreignWebhook(random.webhook)])
    ]
  })
