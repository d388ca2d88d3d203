import * as Cessation from "@dispatch-kubeflow/core/Cessation"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeApiModule from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { describe, expect, it } from "@effect/vitest"
import { Clock, DateTime, Effect, Fiber, TestClock } from "effect"
import { injected, layer, namespace, prepare, requests, start } from "./WatchWorld.js"

const ref = { namespace, name: "run-1" }
const make = Cessation.make({ outOfService: "always" })

const started = (count = 2) =>
  Effect.gen(function* () {
    const world = yield* prepare()
    yield* world.create(injected("run-1", 1, count), namespace)
    yield* TestClock.adjust("3 seconds")
    yield* world.settle
    return world
  })

/** The API with some answers replaced. */
const intercept = (
  service: KubeApiModule.Service,
  answer: (request: KubeRequest.KubeRequest) => KubeTransport["call"] | undefined
): KubeApiModule.Service =>
  KubeApiModule.make({
    ...service.transport,
    call: (request) => (answer(request) ?? service.transport.call)(request)
  })

describe("ceased", () => {
  it.scoped("a running job: not ceased, and every Node's state is told", () =>
    Effect.gen(function* () {
      yield* started()
      const verdict = yield* (yield* make).ceased(ref)
      expect(verdict).toMatchObject({ ceased: false, ended: false, execution: 1, incarnations: 1 })
      expect(verdict.nodes.map(({ state }) => state)).toEqual(["ready", "ready"])
      expect(verdict.nodes[0]?.ready).toMatchObject({ type: "Ready", status: "True" })
      expect(verdict.reasons).toHaveLength(2)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped(
    "node dies: NodeLost with evidence, not ceased; taint and delete: ceased; and the taint's caveats hold",
    () =>
      Effect.gen(function* () {
        const world = yield* started()
        const { ceased } = yield* make
        const watching = yield* start(Watch.namespace(namespace))
        const [a = "", b = ""] = (yield* world.pods(namespace)).map((pod) => pod.spec?.nodeName ?? "")
        yield* world.loseNode(a)
        yield* watching.pass("2 minutes")
        expect((yield* ceased(ref)).nodes.find(({ name }) => name === a)).toMatchObject({
          state: "not-ready",
          ceased: false
        })
        // Tolerated for 300 s, then the taint manager deletes the pod, which stays Terminating
        yield* watching.pass("6 minutes")
        expect(watching.last()).toMatchObject({ state: "Stopping", cause: { _tag: "NodeLost", node: a }, alive: true })
        const fields = watching.last()?.evidence.map(({ object, field }) => `${object} ${field}`) ?? []
        expect(fields.some((line) => line.endsWith("status.conditions[DisruptionTarget]"))).toBe(true)
        expect(fields).toContain(`Node/${a} status.conditions[Ready]`)
        expect(yield* ceased(ref)).toMatchObject({ ceased: false, ended: false })

        yield* world.taintOutOfService(a)
        yield* watching.pass("2 minutes")
        expect(watching.last()).toMatchObject({ state: "Failed", cause: { _tag: "NodeLost", node: a }, alive: false })
        // Every object says that it is over, and the process runs on: the other Node is alive, so no
        expect((yield* world.processes).some(({ node }) => node === a)).toBe(true)
        const half = yield* ceased(ref)
        expect(half.ceased).toBe(false)
        expect(half.nodes.find(({ name }) => name === a)).toMatchObject({ state: "out-of-service", ceased: true })
        // The rank on the healthy Node was ended by its kubelet: proven
        expect(half.ended).toBe(true)
        expect(half.pods.find(({ node }) => node === b)?.proof._tag).toBe("terminated")

        yield* world.deleteNode(b)
        yield* watching.pass("20 seconds")
        expect(yield* ceased(ref)).toMatchObject({ ceased: true, ended: true, reasons: [] })
        const cluster = yield* Cluster.Cluster
        const renewTime = DateTime.formatIso(DateTime.unsafeMake(yield* Clock.currentTimeMillis))
        yield* cluster.seed([
          Fixtures.lease(b, { namespace: "kube-node-lease", renewTime: renewTime.replace("Z", "000Z") })
        ])
        const done = yield* ceased(ref)
        expect(done).toMatchObject({ ceased: true, ended: true, reasons: [] })
        // N01: its kubelet is alive and renews its Lease
        expect(done.cautions.join()).toContain(`Node ${b} is deleted but its kubelet still renews`)
      }).pipe(Effect.provide(layer()))
  )

  it.scoped("out-of-service on a Ready Node: a caution, and not ceased where so configured", () =>
    Effect.gen(function* () {
      const world = yield* started(1)
      const [pod] = yield* world.pods(namespace)
      const node = pod?.spec?.nodeName ?? ""
      yield* world.taintOutOfService(node, "NoSchedule")
      yield* world.settle
      const lenient = yield* (yield* make).ceased(ref)
      expect(lenient.ceased).toBe(true)
      expect(lenient.cautions.join()).toContain(node)
      const strict = yield* (yield* Cessation.make({ outOfService: "unless-ready" })).ceased(ref)
      expect(strict).toMatchObject({ ceased: false, nodes: [{ state: "out-of-service", ceased: false }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped(
    "N01, N02: a Node deleted and registered again under its name is replaced, not ceased; evaluated live every time",
    () =>
      Effect.gen(function* () {
        const world = yield* started(1)
        const { ceased } = yield* make
        const [pod] = yield* world.pods(namespace)
        const node = pod?.spec?.nodeName ?? ""
        expect(yield* ceased(ref)).toMatchObject({ ceased: false })
        yield* world.deleteNode(node)
        yield* world.settle
        expect(yield* ceased(ref)).toMatchObject({ ceased: true, nodes: [{ state: "deleted" }] })
        yield* world.loseNode(node)
        yield* world.returnNode(node)
        yield* TestClock.adjust("5 seconds")
        yield* world.settle
        const verdict = yield* ceased(ref)
        expect(verdict).toMatchObject({ ceased: false, nodes: [{ state: "replaced" }] })
        expect(verdict.nodes[0]?.recordedUids).not.toContain(verdict.nodes[0]?.uid)
        expect((yield* world.processes).length).toBe(1)
      }).pipe(Effect.provide(layer()))
  )

  it.scoped("rebooted: both bootIDs; ended, not ceased by itself", () =>
    Effect.gen(function* () {
      const world = yield* started(1)
      const { ceased } = yield* make
      const [pod] = yield* world.pods(namespace)
      const node = pod?.spec?.nodeName ?? ""
      yield* ceased(ref)
      yield* world.powerOff(node)
      yield* TestClock.adjust("5 seconds")
      yield* world.powerOn(node)
      yield* TestClock.adjust("5 seconds")
      yield* world.settle
      const verdict = yield* ceased(ref)
      expect(verdict).toMatchObject({ ceased: false, ended: true, nodes: [{ rebooted: true }] })
      expect(verdict.nodes[0]?.recordedBootIDs).not.toContain(verdict.nodes[0]?.bootID)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("N07: pods and TrainJob are gone: the Nodes come from what the watch kept", () =>
    Effect.gen(function* () {
      const world = yield* started()
      const cluster = yield* Cluster.Cluster
      const watching = yield* start(Watch.namespace(namespace))
      const nodes = (yield* world.pods(namespace)).map((pod) => pod.spec?.nodeName ?? "")
      yield* cluster.admin.remove(Trainer.trainJobs, ref, { propagation: "Background" })
      yield* watching.pass("2 minutes")
      expect(yield* world.pods(namespace)).toEqual([])
      const verdict = yield* (yield* make).ceased(ref)
      expect(verdict.nodes.map(({ name }) => name)).toEqual(nodes.toSorted())
      // Ready Nodes: not ceased; but the kubelets reported every container
      expect(verdict).toMatchObject({ ceased: false, ended: true })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("no evidence and no TrainJob: ErrNotFound; another uid too; pods that are left are enough", () =>
    Effect.gen(function* () {
      const world = yield* started(1)
      const { ceased } = yield* make
      expect(yield* Effect.flip(ceased({ namespace, name: "nope" }))).toMatchObject({ _tag: "ErrNotFound" })
      expect(yield* Effect.flip(ceased({ ...ref, uid: "another" }))).toMatchObject({ _tag: "ErrNotFound" })
      const cluster = yield* Cluster.Cluster
      yield* cluster.admin.remove(Trainer.trainJobs, ref, { propagation: "Orphan" })
      yield* world.settle
      expect(yield* ceased(ref)).toMatchObject({ ceased: false, nodes: [{ state: "ready" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("never started: not ceased, saying that nothing was seen", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(Fixtures.trainJob("run-1", { suspend: true }), namespace)
      yield* world.settle
      const verdict = yield* (yield* make).ceased(ref)
      expect(verdict).toMatchObject({ ceased: false, ended: false, nodes: [], pods: [] })
      expect(verdict.reasons).toHaveLength(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a foreign TrainJob: the answer says that executions are inferred", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(Fixtures.trainJob("run-1", { numNodes: 1 }), namespace)
      yield* world.settle
      const verdict = yield* (yield* make).ceased(ref)
      expect(verdict).toMatchObject({ identity: "inferred", execution: undefined, nodes: [{ state: "ready" }] })
    }).pipe(Effect.provide(layer()))
  )

  const reader = (nodes: boolean): ReadonlyArray<object> => {
    const api = { apiVersion: "rbac.authorization.k8s.io/v1" }
    const subjects = [{ kind: "User", name: "reader", apiGroup: "rbac.authorization.k8s.io" }]
    const roleRef = (kind: string) => ({ kind, name: "reader", apiGroup: "rbac.authorization.k8s.io" })
    const rule = (group: string, resource: string, verbs: ReadonlyArray<string>) => ({
      apiGroups: [group],
      resources: [resource],
      verbs
    })
    return [
      {
        ...api,
        kind: "Role",
        metadata: { name: "reader", namespace },
        rules: [
          rule("trainer.kubeflow.org", "trainjobs", ["get"]),
          rule("jobset.x-k8s.io", "jobsets", ["get"]),
          rule("batch", "jobs", ["list"]),
          rule("", "pods", ["get", "list"])
        ]
      },
      { ...api, kind: "RoleBinding", metadata: { name: "reader", namespace }, subjects, roleRef: roleRef("Role") },
      ...(nodes
        ? [
            { ...api, kind: "ClusterRole", metadata: { name: "reader" }, rules: [rule("", "nodes", ["get"])] },
            {
              ...api,
              kind: "ClusterRoleBinding",
              metadata: { name: "reader" },
              subjects,
              roleRef: roleRef("ClusterRole")
            }
          ]
        : [])
    ]
  }

  it.scoped("a pod that is bound to another Node while the Nodes are read: no yes without that Node", () =>
    Effect.gen(function* () {
      const world = yield* started()
      const api = yield* KubeApi
      const nodes = (yield* world.pods(namespace)).map((pod) => pod.spec?.nodeName ?? "")
      yield* Effect.forEach(nodes, world.deleteNode)
      yield* world.createNode("late")
      expect((yield* (yield* make).ceased(ref)).ceased).toBe(true)
      let lists = 0
      const bound = intercept(api, (request) =>
        request.verb === "list" && request.plural === "pods"
          ? (it) =>
              Effect.map(api.transport.call(it), (reply) => {
                lists += 1
                const list = reply.body as { readonly items: ReadonlyArray<Core.Pod> }
                const late = list.items.slice(0, 1).map((pod) => ({
                  ...pod,
                  metadata: { ...pod.metadata, name: `${pod.metadata.name}-late`, uid: "late" },
                  spec: { ...pod.spec, nodeName: "late" }
                }))
                return lists === 1 ? reply : { ...reply, body: { ...list, items: [...list.items, ...late] } }
              })
          : undefined
      )
      const verdict = yield* Effect.flatMap(Effect.provideService(make, KubeApi, bound), ({ ceased }) => ceased(ref))
      expect(verdict).toMatchObject({ ceased: false, ended: false })
      expect(verdict.nodes.find(({ name }) => name === "late")?.state).toBe("ready")
      expect(verdict.reasons).toEqual(["Node late is ready"])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("works read-only: get and list alone, by name, and nothing is written", () =>
    Effect.gen(function* () {
      yield* started()
      const before = yield* requests
      const verdict = yield* (yield* make).ceased(ref)
      expect(verdict.nodes).toHaveLength(2)
      const after = yield* requests
      const used = Object.keys(after).filter((line) => after[line] !== before[line])
      expect(used.toSorted()).toEqual(["get jobsets", "get nodes", "get trainjobs", "list jobs", "list pods"])
    }).pipe(Effect.provide(layer({ subject: Rbac.user("reader"), objects: reader(true) })))
  )

  it.scoped("N10: no permission to get Nodes is ErrUnsupported, not false and not true", () =>
    Effect.gen(function* () {
      yield* started()
      expect(yield* Effect.flip((yield* make).ceased(ref))).toMatchObject({
        _tag: "ErrUnsupported",
        operation: "ceased",
        details: [{ id: "permission" }]
      })
    }).pipe(Effect.provide(layer({ subject: Rbac.user("reader"), objects: reader(false) })))
  )

  it.scoped("5xx and time-outs are the error itself", () =>
    Effect.gen(function* () {
      yield* started()
      const api = yield* KubeApi
      for (const plural of ["nodes", "pods", "trainjobs", "jobsets", "jobs"]) {
        const failing = intercept(api, (request) =>
          request.plural === plural
            ? () => Effect.fail(new KubeUnavailable({ request, phase: "server", code: 503 }))
            : undefined
        )
        const { ceased } = yield* Effect.provideService(make, KubeApi, failing)
        expect(yield* Effect.flip(ceased(ref))).toMatchObject({ _tag: "KubeUnavailable", code: 503 })
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("Nodes are read in parallel, at most 16 at once", () =>
    Effect.gen(function* () {
      const world = yield* prepare(Array.from({ length: 40 }, (_, index) => `n${index}`))
      yield* world.create(injected("run-1", 1, 40), namespace)
      yield* TestClock.adjust("3 seconds")
      yield* world.settle
      const api = yield* KubeApi
      let now = 0
      let most = 0
      const slow = intercept(api, (request) =>
        request.plural === "nodes"
          ? (it) =>
              Effect.acquireUseRelease(
                Effect.sync(() => {
                  now += 1
                  most = Math.max(most, now)
                }),
                () => Effect.zipRight(Effect.sleep("1 second"), api.transport.call(it)),
                () => Effect.sync(() => void (now -= 1))
              )
          : undefined
      )
      const { ceased } = yield* Effect.provideService(make, KubeApi, slow)
      const fiber = yield* Effect.fork(ceased(ref))
      yield* TestClock.adjust("5 seconds")
      expect((yield* Fiber.join(fiber)).nodes).toHaveLength(40)
      expect(most).toBe(16)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("N01: whether a Lease is fresh is told by the server's clock, and one that cannot be read is said", () =>
    Effect.gen(function* () {
      const world = yield* started(1)
      const api = yield* KubeApi
      const [pod] = yield* world.pods(namespace)
      const node = pod?.spec?.nodeName ?? ""
      yield* (yield* make).ceased(ref)
      yield* world.deleteNode(node)
      yield* TestClock.adjust("65 seconds")
      const ask = (service: KubeApiModule.Service) =>
        Effect.flatMap(Effect.provideService(make, KubeApi, service), ({ ceased }) => ceased(ref))
      // No kubelet has renewed it for a minute; but our clock may be what went a minute ahead
      yield* world.loseNode(node)
      const cautions = (yield* ask(api)).cautions.join()
      const behind: KubeApiModule.Service = {
        ...api,
        getWithTime: (resource, place) =>
          Effect.map(api.getWithTime(resource, place), ({ object, serverTime }) => ({
            object,
            serverTime: (serverTime ?? 0) - 60_000
          }))
      }
      yield* TestClock.adjust("60 seconds")
      expect((yield* ask(api)).cautions.join()).not.toContain("still renews")
      expect((yield* ask(behind)).cautions.join()).toContain(`Node ${node} is deleted but its kubelet still renews`)
      expect(cautions).toContain("still renews")
      const unreadable = intercept(api, ({ plural }) =>
        plural === "leases"
          ? (request) => Effect.fail(new KubeUnavailable({ request, phase: "connect", detail: "down" }))
          : undefined
      )
      expect((yield* ask(unreadable)).cautions.join()).toContain(`kube-node-lease/${node} could not be read`)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a pod that comes while it is asked about is judged by Nodes that are read after it", () =>
    Effect.gen(function* () {
      const world = yield* prepare(["n1"])
      const api = yield* KubeApi
      const cluster = yield* Cluster.Cluster
      yield* world.create(
        Fixtures.torchConforming("replacing", {
          backoffLimit: 6,
          podReplacementPolicy: "TerminatingOrFailed",
          pod: Fixtures.oneRankPerNode
        })
      )
      const trainJob = injected("run-1", 1, 1)
      yield* world.create(
        { ...trainJob, spec: { ...(trainJob as { spec: object }).spec, runtimeRef: { name: "replacing" } } },
        namespace
      )
      yield* TestClock.adjust("3 seconds")
      yield* (yield* make).ceased(ref)
      yield* world.loseNode("n1")
      yield* world.deleteNode("n1")
      let once = true
      const busy = KubeApiModule.make({
        ...api.transport,
        call: (request) =>
          Effect.tap(Effect.exit(api.transport.call(request)), () =>
            Effect.gen(function* () {
              if (request.plural !== "leases" || !once) return
              once = false
              // The Node was read, and missing. It comes back under its name, and gets another pod
              yield* world.returnNode("n1")
              yield* world.settle
              for (const { metadata } of yield* world.pods(namespace)) {
                yield* Effect.ignore(
                  cluster.admin.remove(
                    Core.pods,
                    { namespace, name: metadata.name },
                    { propagation: "Background", gracePeriodSeconds: 0 }
                  )
                )
              }
              yield* TestClock.adjust("15 seconds")
              yield* world.settle
            })
          ).pipe(Effect.flatten)
      })
      const verdict = yield* (yield* Effect.provideService(make, KubeApi, busy)).ceased(ref)
      expect((yield* world.processes).length).toBeGreaterThan(0)
      expect(verdict).toMatchObject({ ceased: false, ended: false })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a store that cannot be read is an error, never a yes", () =>
    Effect.gen(function* () {
      yield* started()
      const damaged = new EvidenceStore.EvidenceStoreError({ kind: "damaged", key: "x", detail: "not JSON" })
      const broken: EvidenceStore.Service = {
        get: () => Effect.fail(damaged),
        update: () => Effect.fail(damaged),
        keys: Effect.fail(damaged),
        touch: () => Effect.fail(damaged),
        sweep: Effect.fail(damaged)
      }
      const { ceased } = yield* Effect.provideService(make, EvidenceStore.EvidenceStore, broken)
      expect((yield* Effect.flip(ceased(ref)))._tag).toBe("EvidenceStoreError")
    }).pipe(Effect.provide(layer()))
  )
})
