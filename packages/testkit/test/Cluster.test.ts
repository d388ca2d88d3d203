import { describe, expect, it } from "@effect/vitest"
import type * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Chunk, Effect, Exit, Fiber, Ref, Stream, TestClock } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import * as Rbac from "../src/Rbac.js"

const pod = (name: string, status: object = { phase: "Running" }, spec: object = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace: "team", name, labels: { app: name } },
  spec: { nodeName: "n1", containers: [{ name: "node", image: "i" }], ...spec },
  status
})
const node = (name: string): object => ({ apiVersion: "v1", kind: "Node", metadata: { name } })
const configMap = (name: string, labels: object = {}): object => ({ metadata: { name, labels } })

const world = Cluster.make({
  objects: [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } }, node("n1")]
})

const watchOf = (cluster: Cluster.Service, plural: string, query: Record<string, string> = {}) =>
  cluster
    .transport(Rbac.admin)
    .watch(KubeRequest.make("watch", { group: "", version: "v1", plural }, { namespace: "team", query }))

const brief = ({ object, type }: WatchFrame): string => `${type} ${Json.text(Json.at(object, "metadata", "name"))}`

const collect = <A, E>(stream: Stream.Stream<A, E>) =>
  Effect.gen(function* () {
    const seen = yield* Ref.make<ReadonlyArray<A>>([])
    const fiber = yield* Effect.forkScoped(
      Stream.runForEach(stream, (item) => Ref.update(seen, (items) => [...items, item]))
    )
    return { seen: Ref.get(seen), fiber }
  })

const settle = Effect.repeatN(Effect.yieldNow(), 20)

const text = (parts: ReadonlyArray<Uint8Array>): string => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let offset = 0
  for (const part of parts) {
    all.set(part, offset)
    offset += part.length
  }
  return new TextDecoder().decode(all)
}

const logOf = (cluster: Cluster.Service, name: string, query: Record<string, string> = {}) =>
  cluster
    .transport(Rbac.admin)
    .bytes(
      KubeRequest.make(
        "get",
        { group: "", version: "v1", plural: "pods" },
        { namespace: "team", name, subresource: "log", query }
      )
    )

describe("watch", () => {
  it.scoped("from unset: ADDED for every object, then live; a bookmark marks the end of the first part", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.admin.create(Core.configMaps, { namespace: "team" }, configMap("a"))
      const { seen } = yield* collect(watchOf(cluster, "configmaps", { allowWatchBookmarks: "true" }))
      yield* settle
      yield* cluster.admin.create(Core.configMaps, { namespace: "team" }, configMap("b"))
      yield* cluster.admin.remove(Core.configMaps, { namespace: "team", name: "a" }, { propagation: "Background" })
      yield* settle
      expect((yield* seen).map(brief)).toEqual(["ADDED a", "BOOKMARK ", "ADDED b", "DELETED a"])
    })
  )

  it.scoped("selectors: starts to match = ADDED, stops = DELETED with the old object and the event's version", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.admin.create(Core.configMaps, { namespace: "team" }, configMap("a"))
      const { seen } = yield* collect(watchOf(cluster, "configmaps", { labelSelector: "p=even" }))
      yield* settle
      const label = (value: string) =>
        cluster.admin.patch(
          Core.configMaps,
          { namespace: "team", name: "a" },
          { type: "merge", body: { metadata: { labels: { p: value } } } }
        )
      yield* label("even")
      const gone = yield* label("odd")
      yield* label("prime")
      yield* settle
      const frames = yield* seen
      expect(frames.map(brief)).toEqual(["ADDED a", "DELETED a"])
      expect(Json.at(frames[1]?.object, "metadata", "labels", "p")).toBe("even")
      expect(Json.at(frames[1]?.object, "metadata", "resourceVersion")).toBe(gone.metadata.resourceVersion)
    })
  )

  it.scoped("an idle watch survives compaction; an old version is KubeExpired", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      const first = yield* cluster.admin.create(Core.configMaps, { namespace: "team" }, configMap("a"))
      const { seen } = yield* collect(
        watchOf(cluster, "configmaps", { resourceVersion: first.metadata.resourceVersion ?? "" })
      )
      yield* settle
      yield* cluster.seed([pod("x")])
      yield* cluster.compact()
      yield* cluster.admin.create(Core.configMaps, { namespace: "team" }, configMap("b"))
      yield* settle
      expect((yield* seen).map(brief)).toEqual(["ADDED b"])
      const error = yield* Effect.flip(
        Stream.runDrain(watchOf(cluster, "configmaps", { resourceVersion: first.metadata.resourceVersion ?? "" }))
      )
      expect(error._tag).toBe("KubeExpired")
      expect(error.status?.message).toMatch(/^too old resource version: \d+ \(\d+\)$/)
    })
  )

  it.scoped("timeoutSeconds: a clean end; bookmarks every 60 s and shortly before the end", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      const { fiber, seen } = yield* collect(
        watchOf(cluster, "configmaps", { allowWatchBookmarks: "true", timeoutSeconds: "150", resourceVersion: "1" })
      )
      yield* settle
      yield* TestClock.adjust("149 seconds")
      yield* settle
      expect((yield* seen).map(brief)).toEqual(["BOOKMARK ", "BOOKMARK ", "BOOKMARK ", "BOOKMARK "])
      yield* TestClock.adjust("1 seconds")
      expect(Exit.isSuccess(yield* Fiber.await(fiber))).toBe(true)
    })
  )

  it.scoped("disconnect: broken connections fail, ended ones end", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      const one = yield* collect(watchOf(cluster, "configmaps"))
      const two = yield* collect(watchOf(cluster, "pods"))
      yield* settle
      expect(yield* cluster.connections).toHaveLength(2)
      expect(yield* cluster.disconnect({ plural: "configmaps" })).toBe(1)
      expect(yield* cluster.disconnect({ plural: "pods" }, "end")).toBe(1)
      const broken = yield* Effect.flip(Fiber.join(one.fiber))
      expect([broken._tag, (broken as KubeError.KubeUnavailable).phase]).toEqual(["KubeUnavailable", "stream"])
      yield* Fiber.join(two.fiber)
      expect(yield* cluster.connections).toHaveLength(0)
    })
  )

  it.scoped("a write costs idle watchers nothing: no waiter is woken by other namespaces", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      const streams = yield* Effect.forEach(Array.from({ length: 50 }), () => collect(watchOf(cluster, "configmaps")))
      yield* settle
      yield* cluster.seed([{ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "other", name: "x" } }])
      yield* cluster.seed([{ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "team", name: "y" } }])
      yield* settle
      for (const { seen } of streams) expect((yield* seen).map(brief)).toEqual(["ADDED y"])
    })
  )
})

describe("authorization", () => {
  it.effect("a subject sees what its roles grant, and 403 names the verb", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([
        pod("p"),
        {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "Role",
          metadata: { namespace: "team", name: "reader" },
          rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }]
        },
        {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "RoleBinding",
          metadata: { namespace: "team", name: "reader" },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "reader" },
          subjects: [{ kind: "ServiceAccount", namespace: "team", name: "a" }]
        }
      ])
      const api = cluster.as(Rbac.serviceAccount("team", "a"))
      expect((yield* api.get(Core.pods, { namespace: "team", name: "p" })).metadata.name).toBe("p")
      const error = yield* Effect.flip(api.list(Core.pods, { namespace: "team" }))
      expect(error._tag).toBe("KubeForbidden")
      expect(yield* api.accessReview({ verb: "get", group: "", resource: "pods", namespace: "team" })).toEqual({
        allowed: true,
        reason: 'RBAC: allowed by RoleBinding "reader/team" of Role "reader" to ServiceAccount "a/team"'
      })
      const lost = yield* Effect.flip(cluster.as(Rbac.unauthenticated).serverVersion)
      expect(lost._tag).toBe("KubeUnauthorized")
      expect(
        (yield* cluster.audit).map(({ code, request, user }) => [user.split(":").at(-1), request.verb, code])
      ).toEqual([
        ["a", "get", 200],
        ["a", "list", 403],
        ["a", "create", 201],
        ["", "get", 401]
      ])
    })
  )

  it.effect("group versions and the server's version come from discovery", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      expect(yield* cluster.admin.serverVersion).toBe("v1.37.2")
      const served = yield* cluster.admin.groupVersions
      expect(served).toContainEqual({ group: "trainer.kubeflow.org", version: "v1alpha1" })
    })
  )
})

describe("logs", () => {
  it.scoped(
    "follow: whole lines as they are written, the rest at the end, the end a second after the container's",
    () =>
      Effect.gen(function* () {
        const cluster = yield* world
        yield* cluster.seed([pod("p")])
        const where = { namespace: "team", name: "p" }
        yield* cluster.appendLog(where, { text: "grüße\nzwei\nprompt> " })
        const { fiber, seen } = yield* collect(logOf(cluster, "p", { follow: "true", container: "node" }))
        yield* settle
        expect(text(yield* seen)).toBe("grüße\nzwei\n")
        expect((yield* seen).length).toBeGreaterThan(2)
        yield* cluster.appendLog(where, { text: "more\nno newline" })
        yield* settle
        expect(text(yield* seen)).toBe("grüße\nzwei\nprompt> more\n")
        yield* cluster.seed([
          pod("p", {
            phase: "Succeeded",
            containerStatuses: [{ name: "node", state: { terminated: { exitCode: 0, containerID: "containerd://x" } } }]
          })
        ])
        yield* settle
        expect(text(yield* seen)).toBe("grüße\nzwei\nprompt> more\nno newline")
        yield* TestClock.adjust("900 millis")
        expect(fiber.unsafePoll()).toBeNull()
        yield* TestClock.adjust("100 millis")
        expect(Exit.isSuccess(yield* Fiber.await(fiber))).toBe(true)
      })
  )

  it.effect("204 of an unscheduled pod is KubeNotFound of the log; a waiting container is 400", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("new", { phase: "Pending" }, { nodeName: "" }), pod("slow", { phase: "Pending" })])
      const unscheduled = yield* Effect.flip(Stream.runDrain(logOf(cluster, "new")))
      expect([unscheduled._tag, (unscheduled as KubeError.KubeNotFound).subject]).toEqual(["KubeNotFound", "log"])
      const waiting = yield* Effect.flip(Stream.runDrain(logOf(cluster, "slow")))
      expect(waiting.status?.message).toBe('container "node" in pod "slow" is waiting to start: ContainerCreating')
    })
  )

  it.effect("rotation: a read sees only the current file; tailLines counts parts; sinceTime is cut to seconds", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("p")])
      const where = { namespace: "team", name: "p" }
      yield* TestClock.setTime(1_000_500)
      yield* cluster.appendLog(where, { text: "one\ntwo\n" })
      yield* cluster.appendLog(where, { text: "thr", partial: true })
      yield* cluster.appendLog(where, { text: "ee\n" })
      const all = (query: Record<string, string> = {}) =>
        Effect.map(Stream.runCollect(logOf(cluster, "p", query)), (chunks) => text(Chunk.toReadonlyArray(chunks)))
      expect(yield* all()).toBe("one\ntwo\nthree\n")
      expect(yield* all({ tailLines: "1" })).toBe("ee\n")
      expect(yield* all({ tailLines: "2" })).toBe("three\n")
      expect(yield* all({ limitBytes: "5" })).toBe("one\nt")
      expect(yield* all({ sinceTime: "1970-01-01T00:16:40.900Z" })).toBe("one\ntwo\nthree\n")
      expect(yield* all({ sinceTime: "1970-01-01T00:16:41Z" })).toBe("")
      const stamped = yield* all({ timestamps: "true" })
      expect(stamped.split("\n").every((line) => line === "" || /^\S{30} \w+$/.test(line))).toBe(true)
      yield* cluster.rotateLog(where)
      expect(yield* all()).toBe("")
      yield* cluster.appendLog(where, { text: "four\n" })
      expect(yield* all()).toBe("four\n")
    })
  )

  it.effect("previous: the instance before, until the newest has ended; then the kubelet's sentence with 200", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("p")])
      const where = { namespace: "team", name: "p" }
      const read = (query: Record<string, string> = {}) =>
        Effect.map(Stream.runCollect(logOf(cluster, "p", query)), (chunks) => text(Chunk.toReadonlyArray(chunks)))
      const none = yield* Effect.flip(read({ previous: "true" }))
      expect(none.status?.message).toBe('previous terminated container "node" in pod "p" not found')
      yield* cluster.appendLog(where, { text: "first\n" })
      const first = yield* cluster.containerId(where)
      yield* cluster.restartLog(where)
      yield* cluster.appendLog(where, { text: "second\n" })
      const lastState = { terminated: { exitCode: 1, containerID: first } }
      const status = (state: object) =>
        pod("p", { phase: "Running", containerStatuses: [{ name: "node", restartCount: 1, state, lastState }] })
      yield* cluster.seed([status({ running: {} })])
      expect(yield* read()).toBe("second\n")
      expect(yield* read({ previous: "true" })).toBe("first\n")
      yield* cluster.seed([status({ terminated: { exitCode: 1, containerID: yield* cluster.containerId(where) } })])
      yield* TestClock.adjust("1 seconds")
      expect(yield* read()).toBe("second\n")
      expect(yield* read({ previous: "true" })).toBe(`unable to retrieve container logs for ${first}`)
    })
  )

  it.scoped("the Node object goes: new requests are a 404 of the node, an open follow goes on", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("p")])
      const { seen } = yield* collect(logOf(cluster, "p", { follow: "true" }))
      yield* settle
      yield* cluster.admin.remove(Core.nodes, { name: "n1" }, { propagation: "Background" })
      yield* cluster.appendLog({ namespace: "team", name: "p" }, { text: "still here\n" })
      yield* settle
      expect(text(yield* seen)).toBe("still here\n")
      const gone = yield* Effect.flip(Stream.runDrain(logOf(cluster, "p")))
      expect([gone._tag, (gone as KubeError.KubeNotFound).subject, gone.status?.message]).toEqual([
        "KubeNotFound",
        "node",
        'pods "n1" not found'
      ])
    })
  )

  it.scoped("a pod that is forced away: its open follow ends two seconds later, and its log is forgotten", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("p")])
      const { fiber } = yield* collect(logOf(cluster, "p", { follow: "true" }))
      yield* settle
      yield* cluster.admin.remove(
        Core.pods,
        { namespace: "team", name: "p" },
        { propagation: "Background", gracePeriodSeconds: 0 }
      )
      yield* settle
      const error = yield* Effect.flip(Stream.runDrain(logOf(cluster, "p")))
      expect([error._tag, error.status?.details?.name]).toEqual(["KubeNotFound", "p"])
      yield* TestClock.adjust("1900 millis")
      expect(fiber.unsafePoll()).toBeNull()
      yield* TestClock.adjust("100 millis")
      yield* Fiber.join(fiber)
    })
  )

  it.scoped("kubelet down ends follows in order and refuses new requests; starting is a 404 of pods/log", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      yield* cluster.seed([pod("p")])
      const { fiber } = yield* collect(logOf(cluster, "p", { follow: "true" }))
      yield* settle
      yield* cluster.kubelet("n1", "down")
      yield* Fiber.join(fiber)
      const down = yield* Effect.flip(Stream.runDrain(logOf(cluster, "p")))
      expect([down._tag, (down as KubeError.KubeUnavailable).phase]).toEqual(["KubeUnavailable", "kubelet"])
      yield* cluster.kubelet("n1", "starting")
      const starting = yield* Effect.flip(Stream.runDrain(logOf(cluster, "p")))
      expect([starting._tag, starting.status?.details?.kind]).toEqual(["KubeUnavailable", "pods/log"])
    })
  )
})

describe("back door", () => {
  it.scoped("changes: every entry in order", () =>
    Effect.gen(function* () {
      const cluster = yield* world
      const { seen } = yield* collect(cluster.changes())
      yield* settle
      yield* cluster.admin.create(
        Trainer.trainJobs,
        { namespace: "team" },
        { metadata: { name: "t" }, spec: { runtimeRef: { name: "r" } } }
      )
      yield* cluster.seed([pod("p")])
      yield* settle
      expect((yield* seen).map((entry) => `${entry.type} ${entry.resource} ${entry.key}`)).toEqual([
        "ADDED trainer.kubeflow.org/trainjobs team/t",
        "ADDED /pods team/p"
      ])
    })
  )
})
