import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Registry from "@dispatch-kubeflow/testkit/Registry"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import * as Views from "@dispatch-kubeflow/testkit/stages/Views"
import type * as Store from "@dispatch-kubeflow/testkit/Store"
import { describe, expect, it } from "@effect/vitest"
import { Clock, DateTime, Effect, Either, Fiber, Layer, Option, TestClock } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { injected, layer, namespace, prepare, requests, start } from "./WatchWorld.js"

setFlagsFromString("--expose-gc")
const collectGarbage: () => void = runInNewContext("gc")

const states = (updates: ReadonlyArray<{ readonly state: string }>): ReadonlyArray<string> =>
  updates.map(({ state }) => state).filter((state, index, all) => state !== all[index - 1])

describe("Watch", () => {
  it.scoped("first what is, then each change, none twice", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      expect(watching.updates).toMatchObject([
        { ref: { name: "run-1" }, state: "Running", execution: 1, incarnation: 1, identity: "injected", alive: true }
      ])
      yield* world.create(injected("run-2", 1, 1), namespace)
      yield* watching.pass("2 seconds")
      expect(states(watching.updates.filter(({ ref }) => ref.name === "run-2"))).toEqual(["Pending", "Running"])
      for (const pod of yield* world.pods(namespace)) yield* world.exit(pod, { code: 0 })
      yield* watching.pass("10 seconds")
      expect(watching.last("run-1")).toMatchObject({ state: "Succeeded", outcome: "Succeeded", alive: false })
      expect(watching.last("run-2")).toMatchObject({ state: "Succeeded" })
      const told = watching.updates.length
      // Over several ends of the watches
      yield* watching.pass("20 minutes")
      expect(watching.updates.length).toBe(told)
      const texts = watching.updates.map((it) => JSON.stringify(it))
      expect(texts.every((text, index) => text !== texts[index + 1])).toBe(true)
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("of a TrainJob whose evidence was given up nothing is remembered", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const store = yield* EvidenceStore.EvidenceStore
      const watching = yield* start(Watch.namespace(namespace))
      for (const name of ["run-1", "run-2"]) yield* world.create(injected(name, 1, 1), namespace)
      yield* watching.pass("2 seconds")
      const cluster = yield* Cluster.Cluster
      yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* watching.pass("2 seconds")
      const last = new Map(
        ["run-1", "run-2"].flatMap((name) => {
          const update = watching.last(name)
          return update === undefined ? [] : [[name, new WeakRef(update)]]
        })
      )
      expect([...last].map(([name, it]) => [name, it.deref()?.state])).toEqual([
        ["run-1", "Gone"],
        ["run-2", "Running"]
      ])
      watching.updates.length = 0
      // A WeakRef holds its object until the engine has done other things
      const isHeld = (name: string) =>
        Effect.promise(async () => {
          await new Promise((resolve) => setImmediate(resolve))
          collectGarbage()
          return last.get(name)?.deref() !== undefined
        })
      // By its owner, not by this watch
      expect(yield* store.sweep).toEqual([{ namespace, name: "run-1" }])
      expect(yield* isHeld("run-1")).toBe(true)
      yield* watching.pass("1 minute")
      expect(yield* isHeld("run-1")).toBe(false)
      expect(yield* isHeld("run-2")).toBe(true)
    }).pipe(Effect.provide(Layer.merge(layer({ heartbeat: 0 }), EvidenceStore.layerMemory({ retention: "1 second" }))))
  )

  it.scoped("one list and one watch per resource type serves every job of the scope, and no Node is listed", () =>
    Effect.gen(function* () {
      const world = yield* prepare(["n1", "n2", "n3", "n4", "n5", "n6"])
      for (let n = 1; n <= 6; n += 1) yield* world.create(injected(`run-${n}`, 1, 1), namespace)
      yield* world.settle
      const before = yield* requests
      const watching = yield* start(Watch.namespace(namespace))
      yield* watching.pass("10 seconds")
      expect(watching.updates).toHaveLength(6)
      const after = yield* requests
      const used = Object.fromEntries(
        Object.entries(after).flatMap(([line, count]) =>
          count === (before[line] ?? 0) ? [] : [[line, count - (before[line] ?? 0)]]
        )
      )
      expect(used).toEqual({
        "list trainjobs": 1,
        "watch trainjobs": 1,
        "list jobsets": 1,
        "watch jobsets": 1,
        "list jobs": 1,
        "watch jobs": 1,
        "list pods": 1,
        "watch pods": 1,
        "list events": 2,
        "watch events": 2,
        "get nodes": 6
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a rank fails: early evidence, then Failed with its exit code", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const watching = yield* start(Watch.run(namespace, "run"))
      yield* world.create(injected("run-1", 1), namespace)
      yield* world.create(injected("runner-1", 1, 1), namespace)
      yield* watching.pass("5 seconds")
      const pods = (yield* world.pods(namespace)).filter(({ metadata }) => metadata.name.startsWith("run-1-"))
      const [, second] = pods
      if (second === undefined) return yield* Effect.dieMessage("no second rank")
      yield* world.exit(second, { code: 17 })
      yield* watching.pass("1 minute")
      expect(watching.last()).toMatchObject({
        state: "Failed",
        outcome: "Failed",
        cause: { _tag: "Application", exitCode: 17 }
      })
      expect(states(watching.updates)).toEqual(["Pending", "Running", "Stopping", "Failed"])
      // another run's submission is out of scope
      expect(new Set(watching.updates.map(({ ref }) => ref.name))).toEqual(new Set(["run-1"]))
    }).pipe(Effect.provide(layer()))
  )

  it.scoped(
    "pods that the server refuses: told once, however often it is tried, and taken back when they are made",
    () => {
      let quota = 1
      const admission: Store.Admission = {
        name: "quota",
        phase: "validating",
        admit: ({ definition, operation, state }) =>
          definition.plural === "pods" &&
          operation === "CREATE" &&
          Views.of(state).list(Objects.pods, namespace).length >= quota
            ? Either.left({
                message: `exceeded quota: q, requested: pods=1, used: pods=${quota}, limited: pods=${quota}`
              })
            : undefined
      }
      return Effect.gen(function* () {
        const world = yield* prepare()
        const watching = yield* start(Watch.namespace(namespace))
        yield* world.create(injected("run-1", 1, 2), namespace)
        yield* watching.pass("3 minutes")
        const refused = watching.updates.filter(({ cause }) => cause?._tag === "NoCapacity")
        expect(refused).toMatchObject([
          { ref: { name: "run-1" }, state: "Running", cause: { reason: "FailedCreate" }, alive: true }
        ])
        expect(refused[0]?.cause).toHaveProperty("detail", expect.stringContaining("exceeded quota: q"))
        // 1, 2, 4 … 60 seconds apart
        const tries = (yield* world.view)
          .list(Objects.events, namespace)
          .filter(({ reason }) => reason === "FailedCreate")
          .reduce((sum, { count }) => sum + (count ?? 1), 0)
        expect(tries).toBeGreaterThan(7)
        expect(tries).toBeLessThan(12)
        quota = 2
        yield* watching.pass("1 minute")
        expect(watching.last()).toMatchObject({ state: "Running" })
        expect(watching.last()?.cause).toBeUndefined()
      }).pipe(Effect.provide(layer({ admission: [admission] })))
    }
  )

  it.scoped("warnings about what is no TrainJob's change nothing, and do not pile up", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const cluster = yield* Cluster.Cluster
      const store = yield* EvidenceStore.EvidenceStore
      const watching = yield* start(Watch.namespace(namespace))
      yield* Effect.forEach(
        Array.from({ length: 600 }, (_, n) => n),
        (n) =>
          cluster.admin.create(
            Core.events,
            { namespace },
            {
              metadata: { name: `other.${n}` },
              involvedObject: { kind: "Job", name: `other-${n}`, namespace, uid: `other-${n}` },
              type: "Warning",
              reason: "FailedCreate",
              message: "Error creating: x"
            }
          ),
        { discard: true }
      )
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* watching.pass("10 seconds")
      expect(watching.updates.map(({ ref, state }) => `${ref.name} ${state}`)).toContain("run-1 Running")
      expect(yield* store.keys).toEqual([{ namespace, name: "run-1" }])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("W22: a job that finishes while pods are quiet is told by its TrainJob", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.ref({ namespace, name: "run-1" }))
      yield* watching.pass("10 seconds")
      const [pod] = yield* world.pods(namespace)
      if (pod === undefined) return yield* Effect.dieMessage("no pod")
      yield* world.exit(pod, { code: 0 })
      yield* watching.pass("2 seconds")
      expect(watching.last()).toMatchObject({ state: "Stopping" })
      yield* watching.pass("10 seconds")
      expect(watching.last()).toMatchObject({ state: "Succeeded" })
    }).pipe(Effect.provide(layer({ delays: { trainer: { wait: "3 seconds" } } })))
  )

  it.scoped("W11: deleted while disconnected: the evidence is kept and marked inferred", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const cluster = yield* Cluster.Cluster
      const store = yield* EvidenceStore.EvidenceStore
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      const [pod] = yield* world.pods(namespace)
      if (pod === undefined) return yield* Effect.dieMessage("no pod")
      yield* cluster.disconnect({ kind: "watch" })
      // All of it happens before the watch comes back
      yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* cluster.admin.remove(
        Core.pods,
        { namespace, name: pod.metadata.name },
        { propagation: "Background", gracePeriodSeconds: 0 }
      )
      yield* world.settle
      yield* cluster.compact()
      yield* watching.pass("1 minute")
      const kept = Option.getOrThrow(yield* store.get({ namespace, name: "run-1" }))
      expect(kept.pods[pod.metadata.uid]?.presence).toBe("inferred")
      expect(kept.pods[pod.metadata.uid]?.pod.spec?.nodeName).toBe(pod.spec?.nodeName)
      expect(watching.last()).toMatchObject({ state: "Gone", cause: { _tag: "Deleted" } })
      expect(watching.problems.some(({ _tag }) => _tag === "Interrupted")).toBe(true)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a label change that makes a pod leave the selector is not a deletion", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const cluster = yield* Cluster.Cluster
      const store = yield* EvidenceStore.EvidenceStore
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      const [pod] = yield* world.pods(namespace)
      if (pod === undefined) return yield* Effect.dieMessage("no pod")
      yield* cluster.admin.patch(
        Core.pods,
        { namespace, name: pod.metadata.name },
        { type: "merge", body: { metadata: { labels: { "jobset.sigs.k8s.io/jobset-name": null } } } }
      )
      yield* watching.pass("100 millis")
      const kept = Option.getOrThrow(yield* store.get({ namespace, name: "run-1" }))
      expect(kept.pods[pod.metadata.uid]?.presence).toBe("present")
      expect(watching.last()).toMatchObject({ alive: true })
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("evidence survives a restart of the watch, and what went meanwhile is inferred", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const cluster = yield* Cluster.Cluster
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const first = yield* start(Watch.namespace(namespace))
      expect(first.last()).toMatchObject({ state: "Running" })
      yield* Fiber.interrupt(first.fiber)
      yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* first.pass("2 minutes")
      expect(yield* world.pods(namespace)).toEqual([])
      const second = yield* start(Watch.namespace(namespace))
      yield* second.pass("100 millis")
      expect(second.updates).toMatchObject([
        { ref: { name: "run-1" }, state: "Gone", execution: 1, cause: { _tag: "Deleted" } }
      ])
      expect(second.updates[0]?.evidence.map(({ presence }) => presence)).toContain("inferred")
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("a ref that never was: ErrNotFound; one with another uid too", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      const watching = yield* start(Watch.ref({ namespace, name: "nope" }))
      expect(yield* Effect.flip(Fiber.join(watching.fiber))).toMatchObject({ _tag: "ErrNotFound", kind: "TrainJob" })
      yield* world.create(injected("run-1", 1, 1), namespace)
      const other = yield* start(Watch.ref({ namespace, name: "run-1", uid: "another" }))
      expect(yield* Effect.flip(Fiber.join(other.fiber))).toMatchObject({ _tag: "ErrNotFound" })
    }).pipe(Effect.provide(layer()))
  )

  const role = (without: string): ReadonlyArray<object> => {
    const rule = (apiGroups: string, resource: string, verbs = ["get", "list", "watch"]) => ({
      apiGroups: [apiGroups],
      resources: [resource],
      verbs: verbs.filter((verb) => `${verb} ${resource}` !== without && resource !== without)
    })
    const subjects = [{ kind: "User", name: "dispatcher", apiGroup: "rbac.authorization.k8s.io" }]
    const roleRef = (kind: string) => ({ kind, name: "dispatcher", apiGroup: "rbac.authorization.k8s.io" })
    const meta = (namespaced: boolean) => ({ name: "dispatcher", ...(namespaced ? { namespace } : {}) })
    const api = { apiVersion: "rbac.authorization.k8s.io/v1" }
    return [
      {
        ...api,
        kind: "Role",
        metadata: meta(true),
        rules: [
          rule("trainer.kubeflow.org", "trainjobs"),
          rule("jobset.x-k8s.io", "jobsets"),
          rule("batch", "jobs"),
          rule("", "pods"),
          rule("", "events")
        ].filter(({ verbs }) => verbs.length > 0)
      },
      { ...api, kind: "RoleBinding", metadata: meta(true), subjects, roleRef: roleRef("Role") },
      ...(without === "nodes"
        ? []
        : [
            { ...api, kind: "ClusterRole", metadata: meta(false), rules: [rule("", "nodes", ["get"])] },
            { ...api, kind: "ClusterRoleBinding", metadata: meta(false), subjects, roleRef: roleRef("ClusterRole") }
          ])
    ]
  }
  const asDispatcher = (without: string) => layer({ subject: Rbac.user("dispatcher"), objects: role(without) })

  it.scoped("P06, N10: without events and without nodes the rest works, with a note", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      expect(watching.last()).toMatchObject({ state: "Running" })
      expect(watching.last()?.notes.join()).toContain("Nodes may not be read")
      expect(watching.problems).toMatchObject([{ _tag: "Unavailable", kind: "Node" }])
    }).pipe(Effect.provide(asDispatcher("nodes")))
  )

  it.scoped("P06: without events, with a note", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      expect(watching.last()).toMatchObject({ state: "Running" })
      expect(watching.last()?.notes.join()).toContain("Events cannot be read")
    }).pipe(Effect.provide(asDispatcher("events")))
  )

  it.scoped("W19: a verb that is missing on a needed type fails with its name", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      yield* watching.pass("1 second")
      const failure = yield* Effect.flip(Fiber.join(watching.fiber))
      expect(failure).toMatchObject({ _tag: "KubeForbidden", request: { verb: "watch", plural: "pods" } })
      expect(failure.message).toContain('"watch"')
    }).pipe(Effect.provide(asDispatcher("watch pods")))
  )

  it.scoped(
    "W19: a permission revoked while watching surfaces at the next reconnect; what was kept stays readable",
    () =>
      Effect.gen(function* () {
        const world = yield* prepare()
        const cluster = yield* Cluster.Cluster
        const store = yield* EvidenceStore.EvidenceStore
        yield* world.create(injected("run-1", 1, 1), namespace)
        yield* world.settle
        const watching = yield* start(Watch.namespace(namespace))
        expect(watching.last()).toMatchObject({ state: "Running" })
        yield* cluster.apply({
          verb: "delete",
          group: "rbac.authorization.k8s.io",
          version: "v1",
          plural: "rolebindings",
          namespace,
          name: "dispatcher",
          query: {}
        })
        yield* cluster.disconnect({ kind: "watch" }, "end")
        yield* watching.pass("1 minute")
        expect(yield* Effect.flip(Fiber.join(watching.fiber))).toMatchObject({ _tag: "KubeForbidden" })
        expect(Option.isSome(yield* store.get({ namespace, name: "run-1" }))).toBe(true)
      }).pipe(Effect.provide(asDispatcher("nothing")))
  )

  it.scoped("writes nothing", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace))
      yield* watching.pass("5 seconds")
      expect(watching.last()).toMatchObject({ state: "Running" })
      expect(Object.keys(yield* requests).filter((line) => !/^(get|list|watch) /.test(line))).toEqual([])
    }).pipe(Effect.provide(layer()))
  )

  it.scoped(
    "W21: whatever is cut and compacted, the last update and every pod's end are those of a watch that was never cut",
    () =>
      Effect.gen(function* () {
        const world = yield* prepare()
        const cluster = yield* Cluster.Cluster
        const store = yield* EvidenceStore.EvidenceStore
        const watching = yield* start(Watch.namespace(namespace))
        const names = ["run-1", "run-2", "run-3", "run-4"]
        for (const [index, name] of names.entries()) {
          yield* world.create(injected(name, 1, 2), namespace)
          yield* watching.pass("2 seconds")
          yield* cluster.disconnect({ kind: "watch" }, index % 2 === 0 ? "broken" : "end")
          const [first] = (yield* world.pods(namespace)).filter(({ metadata }) => metadata.name.startsWith(`${name}-`))
          if (first !== undefined) yield* world.exit(first, { code: index })
          yield* watching.pass("1 second")
          if (index === 2) yield* cluster.compact()
          yield* watching.pass("1 minute")
        }
        yield* watching.pass("2 minutes")
        const fresh = yield* Effect.provide(start(Watch.namespace(namespace)), EvidenceStore.layerMemory())
        yield* fresh.pass("1 second")
        for (const name of names) {
          const told = watching.last(name)
          const truth = fresh.last(name)
          expect([told?.state, told?.outcome, told?.alive]).toEqual([truth?.state, truth?.outcome, truth?.alive])
          const kept = Option.getOrThrow(yield* store.get({ namespace, name }))
          const live = new Set((yield* world.pods(namespace)).map(({ metadata }) => metadata.uid))
          for (const [uid, { presence }] of Object.entries(kept.pods))
            expect(presence === "present").toBe(live.has(uid))
        }
      }).pipe(Effect.provide(layer()))
  )

  it.scoped("a large job is told by what a read brings, not pod by pod", () =>
    Effect.gen(function* () {
      const world = yield* prepare(Array.from({ length: 100 }, (_, index) => `n${index}`))
      const watching = yield* start(Watch.namespace(namespace))
      yield* world.create(injected("run-1", 1, 100), namespace)
      yield* watching.pass("5 seconds")
      expect(states(watching.updates)).toEqual(["Pending", "Running"])
      expect(watching.updates.length).toBeLessThan(10)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("I04: interrupting the stream closes every connection", () =>
    Effect.gen(function* () {
      yield* prepare()
      const cluster = yield* Cluster.Cluster
      const watching = yield* start(Watch.namespace(namespace))
      expect((yield* cluster.connections).length).toBe(6)
      yield* Fiber.interrupt(watching.fiber)
      expect(yield* cluster.connections).toEqual([])
    }).pipe(Effect.provide(layer()))
  )

  const kueue = {
    localQueue: "train",
    admissionCheck: "gate",
    controllerName: "example.com/gate",
    lease: { namespace, name: "gate" }
  }
  const without = Registry.make([...Registry.kubernetes, ...Registry.jobSet, ...Registry.kubeflowTrainer])
  const older = Registry.make([
    ...Registry.kubernetes,
    ...Registry.jobSet,
    ...Registry.kubeflowTrainer,
    ...Registry.kueue("v1beta1")
  ])

  it.scoped("Kueue mode on a cluster that does not serve Kueue: told, not failed", () =>
    Effect.gen(function* () {
      const world = yield* prepare()
      yield* world.create(injected("run-1", 1, 1), namespace)
      yield* world.settle
      const watching = yield* start(Watch.namespace(namespace), { kueue })
      yield* watching.pass("1 second")
      expect(yield* Fiber.poll(watching.fiber)).toEqual(Option.none())
      expect(watching.last()).toMatchObject({ state: "Running" })
      expect(watching.last()?.notes.join()).toContain("Workloads are not served")
    }).pipe(Effect.provide(layer({ registry: without })))
  )

  for (const [version, registry] of [
    ["v1beta2", undefined],
    ["v1beta1", older]
  ] as const) {
    it.scoped(`Kueue mode, ${version}: a preemption that only the Workload tells`, () =>
      Effect.gen(function* () {
        const world = yield* prepare()
        const cluster = yield* Cluster.Cluster
        yield* world.create(injected("run-1", 1, 1), namespace)
        yield* TestClock.adjust("3 seconds")
        yield* world.settle
        const watching = yield* start(Watch.namespace(namespace), { kueue })
        yield* watching.pass("1 second")
        const job = yield* cluster.admin.get(Trainer.trainJobs, { namespace, name: "run-1" })
        const workload = (conditions: ReadonlyArray<object>, evictions: ReadonlyArray<object>) => ({
          apiVersion: `kueue.x-k8s.io/${version}`,
          kind: "Workload",
          metadata: {
            name: "trainjob-run-1-abcde",
            namespace,
            uid: "workload",
            ownerReferences: [
              {
                apiVersion: "trainer.kubeflow.org/v1alpha1",
                kind: "TrainJob",
                name: "run-1",
                uid: job.metadata.uid,
                controller: true
              }
            ]
          },
          spec: { active: true, queueName: "train", podSets: [] },
          status: { conditions, schedulingStats: { evictions } }
        })
        yield* cluster.seed([workload([], [])])
        yield* watching.pass("5 seconds")
        expect(watching.last()).toMatchObject({ state: "Running" })
        const at = DateTime.formatIso(DateTime.unsafeMake(yield* Clock.currentTimeMillis)).replace(".000Z", "Z")
        const evicted = {
          status: "True",
          reason: "Preempted",
          message: "Preempted to accommodate",
          lastTransitionTime: at
        }
        yield* cluster.seed([
          workload([{ type: "Evicted", ...evicted }], [{ reason: "Preempted", underlyingCause: "", count: 1 }])
        ])
        yield* cluster.admin.patch(
          Trainer.trainJobs,
          { namespace, name: "run-1" },
          { type: "merge", body: { spec: { suspend: true } } }
        )
        yield* watching.pass("1 minute")
        expect(watching.last()).toMatchObject({
          state: "Pending",
          execution: 1,
          cause: { _tag: "Preempted", by: "kueue" }
        })
        expect(states(watching.updates)).toEqual(["Running", "Stopping", "Pending"])
      }).pipe(Effect.provide(layer(registry === undefined ? {} : { registry })))
    )
  }
})
