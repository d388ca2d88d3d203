/**
 * What a `KubeApi` is, as one suite of tests for every transport: memory, HTTP to the served in-memory cluster, a real API
 * server. A test that passes on one and fails on another is a fault of this project.
 *
 * @module
 */
import * as Follow from "@dispatch-kubeflow/core/kube/Follow"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { expect, layer } from "@effect/vitest"
import type * as Cluster from "./Cluster.js"
import * as Fixtures from "./Fixtures.js"
import { Chunk, Context, Duration, Effect, Fiber, type Layer, Option, Schedule, Schema, Stream } from "effect"

/** One line of a container's log, as its node keeps it. */
export interface LogLine {
  /** RFC 3339 with nine fraction digits. */
  readonly time: string
  readonly text: string
}

/** What the suite needs of the cluster behind the transport under test. */
export interface World {
  /** The API under test, as somebody who may do everything. */
  readonly api: KubeApi.Service
  /** A namespace that exists, is empty and is this suite's own. */
  readonly namespace: string
  /** The same API as a service account of that namespace, which has no permission but those the suite grants. */
  readonly as: (account: string) => Effect.Effect<KubeApi.Service, KubeError>
  /** The same API with credentials that the server does not know. */
  readonly stranger: KubeApi.Service
  /** Makes a created, scheduled pod run its container `node` with this log; undefined where no one can say that. */
  readonly run: ((pod: string, log: ReadonlyArray<LogLine>) => Effect.Effect<void, KubeError>) | undefined
  /** The name of a Node that pods can be bound to. */
  readonly node: string
  /** A resource version of TrainJobs that the server has forgotten. */
  readonly forgotten: Effect.Effect<string, KubeError>
}

/**
 * What an in-memory cluster adds to any way of reaching it: a namespace, a Node, logs, compaction. The cluster must not run
 * a kubelet: the suite plays it.
 */
export const prepareCluster = (
  cluster: Cluster.Service,
  namespace: string
): Effect.Effect<Pick<World, "namespace" | "node" | "run" | "forgotten">> =>
  Effect.gen(function* () {
    yield* cluster.seed([Fixtures.namespace(namespace), Fixtures.node("node-1")])
    return {
      namespace,
      node: "node-1",
      forgotten: Effect.as(cluster.compact(), "1"),
      run: (pod, lines) =>
        Effect.gen(function* () {
          const place = { namespace, name: pod }
          yield* cluster.admin.patch(Core.pods, place, {
            type: "merge",
            subresource: "status",
            body: {
              status: {
                phase: "Running",
                containerStatuses: ["node", "side"].map((name) => ({
                  name,
                  ready: true,
                  restartCount: 0,
                  image: "docker.io/local/busybox:1",
                  imageID: "",
                  state: { running: { startedAt: "2026-01-02T03:04:05Z" } }
                }))
              }
            }
          })
          for (const line of lines) {
            yield* cluster.appendLog(place, { container: "node", text: `${line.text}\n`, at: Date.parse(line.time) })
          }
        })
    }
  })

/** Service tag of a `World`. */
export class ContractWorld extends Context.Tag("@dispatch-kubeflow/testkit/ContractWorld")<ContractWorld, World>() {}

const Loose = Schema.Struct({
  metadata: Schema.Struct({
    name: Schema.String,
    uid: Schema.String,
    namespace: Schema.optional(Schema.NullOr(Schema.String)),
    resourceVersion: Schema.optional(Schema.NullOr(Schema.String))
  })
})
const unserved = Resource.make({
  group: "nope.example.com",
  version: "v1",
  plural: "nopes",
  kind: "Nope",
  scope: "Namespaced",
  schema: Loose
})
const serviceAccounts = Resource.make({
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
  scope: "Namespaced",
  schema: Loose
})
const rbac = (plural: string, kind: string) =>
  Resource.make({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    plural,
    kind,
    scope: "Namespaced",
    schema: Loose
  })

const pods = Resource.make({
  group: "",
  version: "v1",
  plural: "pods",
  kind: "Pod",
  scope: "Namespaced",
  schema: Schema.Struct({
    ...Loose.fields,
    spec: Schema.Struct({ containers: Schema.Array(Schema.Struct({ resources: Schema.Unknown })) })
  })
})

const decodePage = Schema.decodeUnknown(
  Schema.Struct({
    metadata: Schema.Struct({ continue: Schema.optional(Schema.String) }),
    items: Schema.Array(Loose)
  })
)

interface Rule {
  readonly apiGroups: ReadonlyArray<string>
  readonly resources: ReadonlyArray<string>
  readonly verbs: ReadonlyArray<string>
}

/** Creates a service account that may do what the rules say, and nothing else, in its namespace. */
export const grant = (
  api: KubeApi.Service,
  namespace: string,
  account: string,
  rules: ReadonlyArray<Rule>
): Effect.Effect<void, KubeError> =>
  Effect.gen(function* () {
    yield* api.create(serviceAccounts, { namespace }, { metadata: { name: account } })
    yield* api.create(rbac("roles", "Role"), { namespace }, { metadata: { name: account }, rules })
    yield* api.create(
      rbac("rolebindings", "RoleBinding"),
      { namespace },
      {
        metadata: { name: account },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: account },
        subjects: [{ kind: "ServiceAccount", name: account, namespace }]
      }
    )
  })

const podManifest = (
  name: string,
  more: { readonly node?: string; readonly labels?: Record<string, string> } = {}
) => ({
  metadata: { name, ...(more.labels === undefined ? {} : { labels: more.labels }) },
  spec: {
    ...(more.node === undefined ? {} : { nodeName: more.node }),
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 0,
    // kept out of the scheduler's hands: the suite decides which pods have a node
    schedulerName: "nobody",
    containers: [
      { name: "node", image: "docker.io/local/busybox:1", env: [{ name: "KEEP", value: "me" }] },
      { name: "side", image: "docker.io/local/busybox:1" }
    ]
  }
})
const configMap = (name: string, data: Record<string, string> = {}, labels?: Record<string, string>) => ({
  metadata: { name, ...(labels === undefined ? {} : { labels }) },
  data
})

// Grants and status reach a real server's caches within some tenths of a second
const soon = Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(100))
const eventually = <A>(
  effect: Effect.Effect<A, KubeError>,
  holds: (value: A) => boolean
): Effect.Effect<A, KubeError> =>
  Effect.repeat(effect, {
    while: (value) => !holds(value),
    schedule: soon
  }).pipe(Effect.zipRight(effect))

const text = (bytes: Stream.Stream<Uint8Array, KubeError>): Effect.Effect<string, KubeError> =>
  Stream.mkString(Stream.decodeText(bytes))

// Two lines of one millisecond are some microseconds apart, as the container runtime writes them
const log: ReadonlyArray<LogLine> = [
  { time: "2026-01-02T03:04:05.100000001Z", text: "one" },
  { time: "2026-01-02T03:04:05.200000001Z", text: "zwei ä €" },
  { time: "2026-01-02T03:04:06.300000001Z", text: "three" },
  { time: "2026-01-02T03:04:06.300007920Z", text: "three" }
]

// Of a request for memory: what is sent, and what is stored
const amounts: ReadonlyArray<readonly [sent: string | number | null, stored: string]> = [
  ...["0", "1", "+1", "01", "5.", "+5.", "1024", "1025Ki", "100Ki", "1Ki", "1Ti", "1e3", "1e+3", "1E6"].map(
    (text) => [text, text] as const
  ),
  ...["1m", "1500m", "1500e-3", "9223372036854775807", "12345678901234567890"].map((text) => [text, text] as const),
  [2, "2"],
  [0.25, "250m"],
  [null, "0"],
  ["0.0", "0"],
  ["0Ki", "0"],
  ["1.0", "1"],
  ["0.10", "100m"],
  [".5", "500m"],
  ["1000m", "1"],
  ["1000", "1k"],
  ["+1000", "1k"],
  ["1200000", "1200k"],
  ["1000P", "1E"],
  ["1.5k", "1500"],
  ["12e2", "1200"],
  ["1e4", "10e3"],
  ["1.5e3", "1500"],
  ["1024Ki", "1Mi"],
  ["1024Pi", "1Ei"],
  ["0.5Gi", "512Mi"],
  ["1.5Ki", "1536"],
  ["0.001Ki", "1024m"],
  ["16Ei", "9223372036854775807"],
  // Nothing smaller than a thousandth is kept
  ["1n", "1m"],
  ["0.0005", "1m"],
  ["1e-4", "1e-3"],
  ["1.123456789", "1124m"]
]

/**
 * The suite. `world` is built once for all its tests; they share its namespace and use names of their own, so they pass in
 * any order. Time is real: transports with sockets cannot be driven by a virtual clock.
 */
export const contract = (name: string, world: Layer.Layer<ContractWorld, unknown>): void => {
  layer(world, { excludeTestServices: true, timeout: Duration.minutes(2) })(`contract: ${name}`, (it) => {
    it.scoped("get: a missing object, a type that is not served, a namespace that does not exist", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        expect(yield* Effect.flip(api.get(Core.pods, { namespace, name: "nope" }))).toMatchObject({
          _tag: "KubeNotFound",
          subject: "object"
        })
        expect(yield* Effect.flip(api.get(Trainer.trainJobs, { namespace, name: "nope" }))).toMatchObject({
          _tag: "KubeNotFound",
          subject: "object"
        })
        expect(yield* Effect.flip(api.get(unserved, { namespace, name: "nope" }))).toMatchObject({
          _tag: "KubeNotFound",
          subject: "type"
        })
        expect(
          yield* Effect.flip(api.create(Core.configMaps, { namespace: "no-such-namespace" }, configMap("a")))
        ).toMatchObject({ _tag: "KubeNotFound", subject: "namespace" })
        expect((yield* api.list(Core.configMaps, { namespace: "no-such-namespace" })).items).toEqual([])
      })
    )

    it.scoped("create, get, replace: unknown fields survive a read-modify-write, the version is the lock", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const created = yield* api.create(Core.pods, { namespace }, podManifest("rmw"))
        expect(created.metadata).toMatchObject({ name: "rmw", namespace, generation: 1 })
        const read = yield* api.get(Core.pods, { namespace, name: "rmw" })
        expect(read.metadata.uid).toBe(created.metadata.uid)
        const replaced = yield* api.replace(Core.pods, {
          ...read,
          metadata: { ...read.metadata, labels: { changed: "yes" } }
        })
        expect(replaced.metadata.labels).toEqual({ changed: "yes" })
        expect(replaced.metadata.resourceVersion).not.toBe(read.metadata.resourceVersion)
        expect(JSON.stringify(replaced)).toContain('"KEEP"')
        expect(yield* Effect.flip(api.replace(Core.pods, read))).toMatchObject({
          _tag: "KubeConflict",
          reason: "Conflict"
        })
        expect(yield* Effect.flip(api.create(Core.pods, { namespace }, podManifest("rmw")))).toMatchObject({
          _tag: "KubeConflict",
          reason: "AlreadyExists"
        })
      })
    )

    it.scoped("list: selectors, order, complete across pages", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        for (const index of [3, 1, 2, 5, 4]) {
          yield* api.create(
            Core.configMaps,
            { namespace },
            configMap(`list-${index}`, {}, { suite: "list", parity: index % 2 === 0 ? "even" : "odd" })
          )
        }
        const select = (labels: Selector.LabelSelector, fields: Selector.FieldSelector = []) =>
          Effect.map(api.list(Core.configMaps, { namespace, labels, fields }), ({ items }) =>
            items.map(({ metadata }) => metadata.name)
          )
        const all = Selector.labels({ suite: "list" })
        expect(yield* select(all)).toEqual(["list-1", "list-2", "list-3", "list-4", "list-5"])
        expect(yield* select([...all, ...Selector.labelIn("parity", ["even", "none"])])).toEqual(["list-2", "list-4"])
        expect(yield* select([...all, { key: "parity", operator: "notIn", values: ["even"] }])).toHaveLength(3)
        expect(yield* select(all, Selector.fields({ "metadata.name": "list-3" }))).toEqual(["list-3"])
        const page = (token?: string) =>
          api.transport.call(
            KubeRequest.make("list", Core.configMaps, {
              namespace,
              query: { labelSelector: "suite=list", limit: "2", continue: token }
            })
          )
        const names: Array<string> = []
        let token: string | undefined
        do {
          const { body } = yield* page(token)
          const read = yield* decodePage(body)
          expect(read.items.length).toBeLessThanOrEqual(2)
          names.push(...read.items.map(({ metadata }) => metadata.name))
          token = read.metadata.continue
        } while (token !== undefined && token !== "")
        expect(names).toEqual(["list-1", "list-2", "list-3", "list-4", "list-5"])
      })
    )

    it.scoped("watch: continues after the list, in order; leaving the selector is DELETED with the last match", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const labels = Selector.labels({ suite: "watch" })
        yield* api.create(Core.configMaps, { namespace }, configMap("watch-0", {}, { suite: "watch" }))
        const { resourceVersion, items } = yield* api.list(Core.configMaps, { namespace, labels })
        expect(items).toHaveLength(1)
        const watching = yield* Effect.fork(
          api.watch(Core.configMaps, { namespace, labels, resourceVersion }).pipe(
            Stream.filter((event) => event._tag !== "Bookmark"),
            Stream.take(5),
            Stream.runCollect
          )
        )
        yield* api.create(Core.configMaps, { namespace }, configMap("watch-1", {}, { suite: "watch" }))
        yield* api.create(Core.configMaps, { namespace }, configMap("watch-other"))
        yield* api.patch(Core.configMaps, { namespace, name: "watch-1" }, { type: "merge", body: { data: { a: "1" } } })
        yield* api.patch(
          Core.configMaps,
          { namespace, name: "watch-1" },
          { type: "merge", body: { metadata: { labels: { suite: "left" } } } }
        )
        yield* api.remove(Core.configMaps, { namespace, name: "watch-0" }, { propagation: "Background" })
        yield* api.create(Core.configMaps, { namespace }, configMap("watch-2", {}, { suite: "watch" }))
        const events = Chunk.toReadonlyArray(yield* Fiber.join(watching))
        expect(
          events.map((event) =>
            event._tag === "Applied" || event._tag === "Deleted"
              ? [event._tag === "Applied" ? event.type : "DELETED", event.object.metadata.name]
              : event
          )
        ).toEqual([
          ["ADDED", "watch-1"],
          ["MODIFIED", "watch-1"],
          ["DELETED", "watch-1"],
          ["DELETED", "watch-0"],
          ["ADDED", "watch-2"]
        ])
        expect(events[2]).toMatchObject({ object: { data: { a: "1" }, metadata: { labels: { suite: "watch" } } } })
        // no-op writes and other objects take no event, and the event's version is where a watch may resume
        const resumeFrom = events[3]?._tag === "Deleted" ? events[3].resourceVersion : ""
        const resumed = yield* api.watch(Core.configMaps, { namespace, labels, resourceVersion: resumeFrom }).pipe(
          Stream.filter((event) => event._tag === "Applied"),
          Stream.runHead
        )
        expect(Option.getOrUndefined(resumed)).toMatchObject({ object: { metadata: { name: "watch-2" } } })
      })
    )

    it.scoped("watch: a version the server has forgotten is KubeExpired", () =>
      Effect.gen(function* () {
        const { api, namespace, forgotten } = yield* ContractWorld
        const resourceVersion = yield* forgotten
        const error = yield* Effect.flip(
          Stream.runDrain(api.watch(Trainer.trainJobs, { namespace, resourceVersion, timeoutSeconds: 20 }))
        )
        expect(error._tag).toBe("KubeExpired")
      })
    )

    it.scoped("watch: the server ends it in order after timeoutSeconds", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const { resourceVersion } = yield* api.list(Core.configMaps, { namespace })
        const labels = Selector.labels({ suite: "timeout" })
        yield* Stream.runDrain(
          api.watch(Core.configMaps, { namespace, labels, resourceVersion, timeoutSeconds: 1 })
        ).pipe(Effect.timeout("15 seconds"))
      })
    )

    it.scoped("follow: snapshot, changes and deletions of what the list did not know", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const labels = Selector.labels({ suite: "follow" })
        yield* api.create(Core.configMaps, { namespace }, configMap("follow-0", {}, { suite: "follow" }))
        const following = yield* Effect.fork(
          Follow.follow(api, Core.configMaps, { namespace, labels }).pipe(
            Stream.tap((event) =>
              event._tag === "Snapshot"
                ? Effect.zipRight(
                    api.create(Core.configMaps, { namespace }, configMap("follow-1", {}, { suite: "follow" })),
                    api.remove(Core.configMaps, { namespace, name: "follow-0" }, { propagation: "Background" })
                  )
                : Effect.void
            ),
            Stream.take(3),
            Stream.runCollect
          )
        )
        expect(Chunk.toReadonlyArray(yield* Fiber.join(following))).toMatchObject([
          { _tag: "Snapshot", objects: [{ metadata: { name: "follow-0" } }], deleted: [] },
          { _tag: "Applied", object: { metadata: { name: "follow-1" } } },
          { _tag: "Deleted", seen: true, object: { metadata: { name: "follow-0" } } }
        ])
      })
    )

    it.scoped("log: content, timestamps, tail, limit, since; every byte of it", (test) =>
      Effect.gen(function* () {
        const { api, namespace, node, run } = yield* ContractWorld
        if (run === undefined) return test.skip("nothing here can say what a container prints")
        yield* api.create(Core.pods, { namespace }, podManifest("log", { node }))
        yield* run("log", log)
        const pod = { namespace, name: "log" }
        const read = (options: Omit<KubeApi.LogOptions, "container"> = {}) =>
          text(api.log(pod, { container: "node", ...options }))
        expect(yield* eventually(read(), (it) => it.split("\n").length === 5)).toBe("one\nzwei ä €\nthree\nthree\n")
        expect(yield* read({ timestamps: true })).toBe(log.map((line) => `${line.time} ${line.text}\n`).join(""))
        expect(yield* read({ tailLines: 1 })).toBe("three\n")
        expect(yield* read({ tailLines: 0 })).toBe("")
        expect(yield* read({ limitBytes: 6 })).toBe("one\nzw")
        // cut to whole seconds on the way to the node
        expect(yield* read({ sinceTime: "2026-01-02T03:04:06.9Z" })).toBe("three\nthree\n")
        expect(yield* read({ sinceTime: "2036-01-02T03:04:06Z" })).toBe("")
        const followed = yield* api.log(pod, { container: "node", follow: true }).pipe(
          Stream.decodeText(),
          Stream.mapConcat((part) => part.split("")),
          Stream.take("one\nzwei ä €\nthree\nthree\n".length),
          Stream.mkString
        )
        expect(followed).toBe("one\nzwei ä €\nthree\nthree\n")
      })
    )

    it.scoped("log: a missing pod, a wrong container, none named, a pod without a node", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        yield* api.create(Core.pods, { namespace }, podManifest("unscheduled"))
        const failure = (pod: string, container: string) =>
          Effect.flip(text(api.log({ namespace, name: pod }, { container })))
        expect(yield* failure("nope", "node")).toMatchObject({ _tag: "KubeNotFound", subject: "object" })
        expect(yield* failure("unscheduled", "node")).toMatchObject({ _tag: "KubeNotFound", subject: "log" })
        expect(yield* failure("unscheduled", "zz")).toMatchObject({
          _tag: "KubeInvalid",
          code: 400,
          status: { message: "container zz is not valid for pod unscheduled" }
        })
        expect(yield* failure("unscheduled", "")).toMatchObject({
          status: {
            message: "a container name must be specified for pod unscheduled, choose one of: [node side]"
          }
        })
      })
    )

    it.scoped("access: the review answers what the request then meets; P02 pods/logs grants nothing", () =>
      Effect.gen(function* () {
        const { api, namespace, as } = yield* ContractWorld
        yield* grant(api, namespace, "reader", [
          { apiGroups: [""], resources: ["pods", "pods/logs"], verbs: ["get", "list"] }
        ])
        const reader = yield* as("reader")
        const may = (verb: string, subresource?: string) =>
          reader.accessReview({ verb, group: "", resource: "pods", subresource, namespace })
        expect(yield* eventually(may("list"), ({ allowed }) => allowed)).toMatchObject({ allowed: true })
        expect(yield* may("get", "log")).toMatchObject({ allowed: false })
        expect(yield* may("watch")).toMatchObject({ allowed: false })
        expect((yield* reader.list(Core.pods, { namespace })).resourceVersion).not.toBe("")
        const forbidden = yield* Effect.flip(text(reader.log({ namespace, name: "nope" }, { container: "node" })))
        expect(forbidden).toMatchObject({ _tag: "KubeForbidden", request: { verb: "get", subresource: "log" } })
        expect(forbidden.message).toContain(`User "system:serviceaccount:${namespace}:reader" cannot get resource`)
        // W19: a list-only role is refused at the watch, before the stream
        expect(yield* Effect.flip(Stream.runDrain(reader.watch(Core.pods, { namespace })))).toMatchObject({
          _tag: "KubeForbidden",
          request: { verb: "watch" }
        })
        expect(yield* Effect.flip(reader.get(Core.nodes, { name: "nope" }))).toMatchObject({ _tag: "KubeForbidden" })
        // authorization comes before routing
        expect(yield* Effect.flip(reader.get(unserved, { namespace, name: "x" }))).toMatchObject({
          _tag: "KubeForbidden"
        })
      })
    )

    it.scoped("errors: credentials nobody knows, bad names, bad selectors, patch formats, preconditions", () =>
      Effect.gen(function* () {
        const { api, namespace, stranger } = yield* ContractWorld
        expect(yield* Effect.flip(stranger.list(Core.pods, { namespace }))).toMatchObject({ _tag: "KubeUnauthorized" })
        expect(yield* Effect.flip(api.create(Core.configMaps, { namespace }, configMap("Not_A_Name")))).toMatchObject({
          _tag: "KubeInvalid",
          code: 422,
          status: { reason: "Invalid" }
        })
        const badSelector = KubeRequest.make("list", Core.pods, { namespace, query: { labelSelector: "a===" } })
        expect(yield* Effect.flip(api.transport.call(badSelector))).toMatchObject({
          _tag: "KubeInvalid",
          code: 400,
          status: { message: expect.stringContaining("found '=', expected: identifier") }
        })
        // P12
        const badField = KubeRequest.make("list", Core.nodes, { query: { fieldSelector: "status.phase=x" } })
        expect(yield* Effect.flip(api.transport.call(badField))).toMatchObject({
          _tag: "KubeInvalid",
          status: { message: expect.stringContaining("field label not supported") }
        })
        const created = yield* api.create(Core.configMaps, { namespace }, configMap("errors", { a: "1" }))
        expect(
          yield* Effect.flip(
            api.remove(Core.configMaps, { namespace, name: "errors" }, { propagation: "Background", uid: "other" })
          )
        ).toMatchObject({ _tag: "KubeConflict", reason: "Conflict" })
        expect(
          yield* Effect.flip(
            api.patch(
              Core.configMaps,
              { namespace, name: "errors" },
              { type: "json", body: [{ op: "test", path: "/data/a", value: "2" }] }
            )
          )
        ).toMatchObject({ _tag: "KubeInvalid", code: 422 })
        yield* api.remove(
          Core.configMaps,
          { namespace, name: "errors" },
          { propagation: "Background", uid: created.metadata.uid }
        )
        expect(yield* Effect.flip(api.get(Core.configMaps, { namespace, name: "errors" }))).toMatchObject({
          _tag: "KubeNotFound"
        })
      })
    )

    it.scoped("a dry run answers like the real thing and stores nothing", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const dry = yield* api.create(Core.configMaps, { namespace }, configMap("dry"), { dryRun: true })
        expect(dry.metadata.name).toBe("dry")
        expect(dry.metadata.resourceVersion ?? undefined).toBeUndefined()
        expect(yield* Effect.flip(api.get(Core.configMaps, { namespace, name: "dry" }))).toMatchObject({
          _tag: "KubeNotFound"
        })
      })
    )

    it.scoped("amounts of resources: stored in the server's form, or refused with its words", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const asked = (resources: object) => {
          const { metadata, spec } = podManifest("amounts")
          const containers = spec.containers.map((container) => ({ ...container, resources }))
          const created = api.create(pods, { namespace }, { metadata, spec: { ...spec, containers } }, { dryRun: true })
          return Effect.map(created, (pod) => pod.spec.containers[0]?.resources)
        }
        for (const [sent, stored] of amounts) {
          const resources = yield* asked({ requests: { memory: sent } })
          expect([sent, resources]).toEqual([sent, { requests: { memory: stored } }])
        }
        // A limit without a request is a request
        expect(yield* asked({ limits: { cpu: "0.1", "example.com/gpu": 1 } })).toEqual({
          limits: { cpu: "100m", "example.com/gpu": "1" },
          requests: { cpu: "100m", "example.com/gpu": "1" }
        })
        const refusal = (resources: object) => Effect.map(Effect.flip(asked(resources)), ({ message }) => message)
        for (const sent of ["", "abc", "1 Gi", "1.2.3", true, [1]]) {
          expect(yield* refusal({ requests: { cpu: sent } })).toContain("quantities must match the regular expression")
        }
        for (const sent of ["1K", "1i", "1e", "1eE"]) {
          expect(yield* refusal({ requests: { cpu: sent } })).toContain("unable to parse quantity's suffix")
        }
        for (const [resources, words] of [
          [{ requests: { cpu: "-1" } }, 'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal'],
          [{ requests: { cpu: 3 }, limits: { cpu: "2" } }, '"3": must be less than or equal to cpu limit of 2'],
          [{ limits: { "example.com/gpu": 0.5 } }, '"500m": must be an integer'],
          [{ requests: { "example.com/gpu": 1 } }, "Limit must be set for non overcommitable resources"],
          [
            { requests: { "example.com/gpu": 1 }, limits: { "example.com/gpu": 2 } },
            '"1": must be equal to example.com/gpu limit of 2'
          ],
          [{ requests: { gpu: 1 } }, 'requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully']
        ] as const) {
          expect(yield* refusal(resources)).toContain(words)
        }
      })
    )

    it.scoped("server-side apply creates, conflicts, and takes by force", () =>
      Effect.gen(function* () {
        const { api, namespace } = yield* ContractWorld
        const apply = (manager: string, value: string, force?: boolean) =>
          api.patch(
            Core.configMaps,
            { namespace, name: "applied" },
            {
              type: "apply",
              fieldManager: manager,
              force,
              body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied" }, data: { a: value } }
            }
          )
        expect((yield* apply("first", "1")).data).toEqual({ a: "1" })
        const conflict = yield* Effect.flip(apply("second", "2"))
        expect(conflict).toMatchObject({
          _tag: "KubeConflict",
          status: { details: { causes: [{ reason: "FieldManagerConflict", field: ".data.a" }] } }
        })
        expect((yield* apply("second", "2", true)).data).toEqual({ a: "2" })
      })
    )

    it.scoped("discovery: the server's version, and the groups it serves", () =>
      Effect.gen(function* () {
        const { api } = yield* ContractWorld
        expect(yield* api.serverVersion).toMatch(/^v1\.\d+/)
        expect(yield* api.groupVersions).toContainEqual({ group: "trainer.kubeflow.org", version: "v1alpha1" })
      })
    )
  })
}
