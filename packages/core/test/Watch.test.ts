import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
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
import { injected, layer, namespace, open, prepare, requests, start } from "./WatchWorld.js"

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

  /** What an earlier process kept of run-1 and run-2, one rank each, which still run. */
  const afterRestart = Effect.gen(function* () {
    const world = yield* prepare()
    const records = new Map<string, string>()
    for (const name of ["run-1", "run-2"]) yield* world.create(injected(name, 1, 1), namespace)
    yield* world.settle
    const earlier = yield* Effect.provideService(
      start(Watch.namespace(namespace)),
      EvidenceStore.EvidenceStore,
      yield* open(records)
    )
    yield* earlier.pass("5 seconds")
    expect(earlier.last("run-1")).toMatchObject({ state: "Running" })
    yield* Fiber.interrupt(earlier.fiber)
    const podOf = (name: string) =>
      Effect.flatMap(world.pods(namespace), (pods) => {
        const pod = pods.find(({ metadata }) => metadata.name.startsWith(`${name}-`))
        return pod === undefined ? Effect.dieMessage(`no pod of ${name}`) : Effect.succeed(pod)
      })
    const ofRun1 = () => [...records].filter(([at]) => at.startsWith(`evidence/${namespace}/run-1/`))
    const head = `evidence/${namespace}/run-1/head`
    /** Damages the head of run-1 and answers how to repair it. */
    const spoil = (by: (text: string) => string = (text) => text.slice(0, -5)): (() => void) => {
      const whole = records.get(head) ?? ""
      records.set(head, by(whole))
      return () => void records.set(head, whole)
    }
    const watch = (
      scope: Watch.Scope,
      change: (store: EvidenceStore.Service) => EvidenceStore.Service = (it) => it,
      options: Parameters<typeof start>[1] = {}
    ) =>
      Effect.flatMap(open(records), (store) =>
        Effect.provideService(start(scope, options), EvidenceStore.EvidenceStore, change(store))
      )
    return { world, records, podOf, ofRun1, spoil, watch }
  })

  const spoilt: ReadonlyArray<readonly [string, (text: string) => string, EvidenceStore.EvidenceStoreError["kind"]]> = [
    ["is not JSON", (text) => text.slice(0, -5), "damaged"],
    ["is empty", () => "", "damaged"],
    ["has a field of the wrong type", (text) => text.replace('"name":"run-1"', '"name":7'), "damaged"],
    ["names a pod that is missing", (text) => text.replace('"podUids":["', '"podUids":["x'), "damaged"],
    ["was written by another version", (text) => text.replace('"version":1', '"version":2'), "version"]
  ]
  for (const [title, by, kind] of spoilt) {
    it.scoped(`a record that ${title} concerns its name alone: told once, nothing guessed, nothing overwritten`, () =>
      Effect.gen(function* () {
        const { world, podOf, ofRun1, spoil, watch } = yield* afterRestart
        spoil(by)
        const before = ofRun1()
        for (const scope of [Watch.namespace(namespace), Watch.run(namespace, "run")]) {
          const watching = yield* watch(scope)
          expect(watching.problems).toMatchObject([
            { _tag: "Unusable", kind: "Evidence", name: "run-1", error: { kind } }
          ])
          expect(watching.updates.map(({ ref, state }) => `${ref.name} ${state}`)).toEqual(["run-2 Running"])
          expect(watching.problems.map(Watch.describeProblem)[0]).toMatch(
            /^nothing is told of TrainJob\/run-1: the evidence under "default\/run-1\/.*It was left as it is/
          )
          if (scope._tag === "Namespace") {
            yield* Fiber.interrupt(watching.fiber)
            continue
          }
          yield* world.exit(yield* podOf("run-1"), { code: 1 })
          yield* world.exit(yield* podOf("run-2"), { code: 0 })
          // Over an end of the watches, and several ticks
          yield* watching.pass("6 minutes")
          expect(watching.last("run-2")).toMatchObject({ state: "Succeeded" })
          expect(watching.last("run-1")).toBeUndefined()
          expect(watching.problems.filter(({ _tag }) => _tag === "Unusable")).toHaveLength(1)
          expect(yield* Fiber.poll(watching.fiber)).toEqual(Option.none())
        }
        expect(ofRun1()).toEqual(before)
      }).pipe(Effect.provide(layer({ heartbeat: 0 })))
    )
  }

  it.scoped("a watch of the very name whose record is damaged fails with a typed error; one of another goes on", () =>
    Effect.gen(function* () {
      const { spoil, watch } = yield* afterRestart
      spoil()
      const of1 = yield* watch(Watch.ref({ namespace, name: "run-1" }))
      expect(yield* Effect.flip(Fiber.join(of1.fiber))).toMatchObject({ _tag: "EvidenceStoreError", kind: "damaged" })
      expect(of1.updates).toEqual([])
      const of2 = yield* watch(Watch.ref({ namespace, name: "run-2" }))
      expect(of2.last()).toMatchObject({ state: "Running" })
      // Over a sweep
      yield* of2.pass("61 minutes")
      expect(yield* Fiber.poll(of2.fiber)).toEqual(Option.none())
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("a watch of the very name whose evidence becomes unusable fails then, with a typed error", () =>
    Effect.gen(function* () {
      const { world, podOf, watch } = yield* afterRestart
      const damaged = new EvidenceStore.EvidenceStoreError({ kind: "damaged", key: "x", detail: "not JSON" })
      let isDamaged = false
      const watching = yield* watch(Watch.ref({ namespace, name: "run-1" }), (store) => ({
        ...store,
        update: (key, change) => Effect.suspend(() => (isDamaged ? Effect.fail(damaged) : store.update(key, change)))
      }))
      expect(watching.last()).toMatchObject({ state: "Running" })
      isDamaged = true
      yield* world.exit(yield* podOf("run-1"), { code: 3 })
      yield* watching.pass("2 seconds")
      const end = Option.getOrThrow(yield* Fiber.poll(watching.fiber))
      expect(yield* Effect.flip(end)).toMatchObject({ _tag: "EvidenceStoreError", kind: "damaged" })
      expect(watching.problems).toEqual([])
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("a record that is repaired is taken up at the next tick, with what was seen meanwhile, told once", () =>
    Effect.gen(function* () {
      const { world, records, podOf, spoil, watch } = yield* afterRestart
      const cluster = yield* Cluster.Cluster
      const repair = spoil()
      const watching = yield* watch(Watch.namespace(namespace))
      const pod = yield* podOf("run-1")
      yield* world.exit(pod, { code: 3 })
      yield* watching.pass("2 seconds")
      // Nobody could tell afterwards how the rank ended
      yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* watching.pass("5 minutes")
      expect((yield* world.pods(namespace)).map(({ metadata }) => metadata.name)).not.toContain(pod.metadata.name)
      expect(watching.last("run-1")).toBeUndefined()
      repair()
      yield* watching.pass("30 seconds")
      const told = watching.updates.filter(({ ref }) => ref.name === "run-1")
      expect(told).toMatchObject([{ state: "Gone", outcome: "Failed", alive: false, execution: 1 }])
      const kept = Option.getOrThrow(yield* (yield* open(records)).get({ namespace, name: "run-1" }))
      expect(kept.pods[pod.metadata.uid]).toMatchObject({
        presence: "seen",
        endings: [{ terminated: { exitCode: 3 }, beforeDeletion: true }]
      })
      yield* watching.pass("10 minutes")
      expect(watching.updates.filter(({ ref }) => ref.name === "run-1")).toEqual(told)
      expect(watching.problems.filter(({ _tag }) => _tag !== "Interrupted")).toHaveLength(1)
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped(
    "W11: what went while nobody watched, of a record that is repaired later: inferred, never told as alive",
    () =>
      Effect.gen(function* () {
        const { world, records, spoil, watch } = yield* afterRestart
        const cluster = yield* Cluster.Cluster
        yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
        yield* TestClock.adjust("2 minutes")
        yield* world.settle
        const repair = spoil()
        const watching = yield* watch(Watch.namespace(namespace))
        repair()
        yield* watching.pass("30 seconds")
        expect(watching.updates.filter(({ ref }) => ref.name === "run-1")).toMatchObject([
          { state: "Gone", alive: false, cause: { _tag: "Deleted" } }
        ])
        const kept = Option.getOrThrow(yield* (yield* open(records)).get({ namespace, name: "run-1" }))
        expect(Object.values(kept.pods).map(({ presence }) => presence)).toEqual(["inferred"])
      }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("a record that is moved away is begun anew at the next event", () =>
    Effect.gen(function* () {
      const { world, records, podOf, ofRun1, spoil, watch } = yield* afterRestart
      spoil()
      const watching = yield* watch(Watch.namespace(namespace))
      for (const [at] of ofRun1()) records.delete(at)
      yield* world.exit(yield* podOf("run-1"), { code: 3 })
      yield* watching.pass("2 seconds")
      expect(watching.last("run-1")).toMatchObject({ outcome: "Failed" })
      const kept = Option.getOrThrow(yield* (yield* open(records)).get({ namespace, name: "run-1" }))
      expect(Object.values(kept.pods)).toMatchObject([{ endings: [{ terminated: { exitCode: 3 } }] }])
      expect(watching.problems).toHaveLength(1)
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("a record of what is long gone, moved away: nothing is told, and none is made", () =>
    Effect.gen(function* () {
      const { world, records, ofRun1, spoil, watch } = yield* afterRestart
      const cluster = yield* Cluster.Cluster
      yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* TestClock.adjust("2 minutes")
      yield* world.settle
      spoil()
      const watching = yield* watch(Watch.namespace(namespace))
      expect(watching.problems).toHaveLength(1)
      for (const [at] of ofRun1()) records.delete(at)
      yield* watching.pass("2 minutes")
      expect(ofRun1()).toEqual([])
      expect(watching.last("run-1")).toBeUndefined()
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped(
    "evidence that becomes unusable while it is watched, and is older when it comes back: what is now is told",
    () =>
      Effect.gen(function* () {
        const { world, records, podOf, watch } = yield* afterRestart
        const cluster = yield* Cluster.Cluster
        const stir = cluster.admin.patch(
          Trainer.trainJobs,
          { namespace, name: "run-1" },
          { type: "merge", body: { metadata: { annotations: { stirred: "yes" } } } }
        )
        const backup = yield* open(new Map(records))
        const damaged = new EvidenceStore.EvidenceStoreError({ kind: "damaged", key: "x", detail: "not JSON" })
        let state: "whole" | "damaged" | "restored" = "whole"
        const watching = yield* watch(Watch.namespace(namespace), (store) => {
          const now = <A>(
            { name }: EvidenceStore.Key,
            use: (store: EvidenceStore.Service) => Effect.Effect<A, EvidenceStore.EvidenceStoreError>
          ) =>
            Effect.suspend(() =>
              name !== "run-1" || state === "whole"
                ? use(store)
                : state === "damaged"
                  ? Effect.fail(damaged)
                  : use(backup)
            )
          return {
            ...store,
            get: (key) => now(key, ({ get }) => get(key)),
            update: (key, change) => now(key, ({ update }) => update(key, change))
          }
        })
        yield* world.exit(yield* podOf("run-1"), { code: 3 })
        yield* watching.pass("5 seconds")
        expect(watching.last("run-1")).toMatchObject({ state: "Failed" })
        state = "damaged"
        yield* stir
        yield* world.exit(yield* podOf("run-2"), { code: 0 })
        yield* watching.pass("1 minute")
        expect(watching.problems).toMatchObject([{ _tag: "Unusable", name: "run-1" }])
        expect(watching.last("run-2")).toMatchObject({ state: "Succeeded" })
        const told = watching.updates.length
        state = "restored"
        yield* watching.pass("30 seconds")
        expect(watching.updates.slice(told).map(({ state }) => state)).toEqual([])
        expect(Object.values(Option.getOrThrow(yield* backup.get({ namespace, name: "run-1" })).pods)).toMatchObject([
          { endings: [{ terminated: { exitCode: 3 } }] }
        ])
        // Unusable once more is told once more
        state = "damaged"
        yield* watching.pass("1 second")
        yield* cluster.admin.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
        yield* watching.pass("1 minute")
        expect(watching.problems.map(({ _tag }) => _tag)).toEqual(["Unusable", "Unusable"])
      }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  it.scoped("a name is not taken up on what the cluster could not be asked; it is asked again", () =>
    Effect.gen(function* () {
      const { podOf, world, spoil, watch } = yield* afterRestart
      const repair = spoil()
      const api = yield* KubeApi.KubeApi
      let isAway = false
      const watching = yield* Effect.provideService(
        watch(Watch.namespace(namespace)),
        KubeApi.KubeApi,
        KubeApi.make({
          ...api.transport,
          call: (request) =>
            isAway && request.plural === "jobs"
              ? Effect.fail(new KubeUnavailable({ request, phase: "server", code: 503 }))
              : api.transport.call(request)
        })
      )
      isAway = true
      repair()
      yield* watching.pass("61 seconds")
      expect(watching.last("run-1")).toBeUndefined()
      expect(watching.problems.slice(1)).toMatchObject([
        { _tag: "Interrupted", kind: "TrainJob/run-1", retryIn: 30_000 },
        { _tag: "Interrupted", kind: "TrainJob/run-1" }
      ])
      yield* world.exit(yield* podOf("run-1"), { code: 3 })
      yield* watching.pass("1 second")
      isAway = false
      yield* watching.pass("30 seconds")
      expect(watching.last("run-1")).toMatchObject({ outcome: "Failed" })
    }).pipe(Effect.provide(layer({ heartbeat: 0 })))
  )

  const away = new EvidenceStore.EvidenceStoreError({ kind: "unavailable", key: "x", detail: "the folder is gone" })
  const failing: ReadonlyArray<readonly [string, Partial<EvidenceStore.Service>]> = [
    ["its names", { keys: Effect.fail(away) }],
    ["any read", { get: () => Effect.fail(away) }],
    ["any write", { update: () => Effect.fail(away) }],
    ["a sweep", { sweep: Effect.fail(away) }]
  ]
  for (const [title, operations] of failing) {
    it.scoped(`a store that fails as a whole, at ${title}, ends the watch of everything`, () =>
      Effect.gen(function* () {
        const { world, podOf, watch } = yield* afterRestart
        let isAway = false
        const watching = yield* watch(Watch.namespace(namespace), (store) => {
          const either = <A>(
            mine: Effect.Effect<A, EvidenceStore.EvidenceStoreError>,
            other: typeof mine | undefined
          ) => Effect.suspend(() => (isAway ? (other ?? mine) : mine))
          return {
            ...store,
            keys: either(store.keys, operations.keys),
            sweep: either(store.sweep, operations.sweep),
            get: (key) => either(store.get(key), operations.get?.(key)),
            update: (key, change) => either(store.update(key, change), operations.update?.(key, change))
          }
        })
        isAway = true
        yield* world.exit(yield* podOf("run-1"), { code: 3 })
        yield* watching.pass(title === "a sweep" ? "61 minutes" : "1 minute")
        const end = Option.getOrThrow(yield* Fiber.poll(watching.fiber))
        expect(yield* Effect.flip(end)).toMatchObject({ _tag: "EvidenceStoreError", kind: "unavailable" })
        expect(watching.problems.filter(({ _tag }) => _tag === "Unusable")).toEqual([])
      }).pipe(Effect.provide(layer({ heartbeat: 0 })))
    )
  }

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

  for (const [title, registry] of [
    ["v1beta2", undefined],
    ["v1beta1", older],
    ["not served", without]
  ] as const) {
    it.scoped(`Kueue mode, ${title}: a name whose record is repaired is taken up`, () =>
      Effect.gen(function* () {
        const { spoil, watch } = yield* afterRestart
        const repair = spoil()
        const watching = yield* watch(Watch.namespace(namespace), undefined, { kueue })
        expect(watching.problems.some(({ _tag }) => _tag === "Unusable")).toBe(true)
        expect(watching.last("run-1")).toBeUndefined()
        repair()
        yield* watching.pass("30 seconds")
        expect(watching.last("run-1")).toMatchObject({ state: "Running" })
        expect(watching.problems.some(({ _tag }) => _tag === "Interrupted")).toBe(false)
      }).pipe(Effect.provide(layer({ heartbeat: 0, ...(registry === undefined ? {} : { registry }) })))
    )
  }

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
