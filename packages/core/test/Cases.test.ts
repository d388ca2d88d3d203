import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as Explanation from "@dispatch-kubeflow/core/decide/Explanation"
import * as Follow from "@dispatch-kubeflow/core/kube/Follow"
import type { Listed } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeExpired, KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { describe, expect, it } from "@effect/vitest"
import { Effect, HashMap, Stream, TestClock } from "effect"
import * as EvidenceFixtures from "./EvidenceFixtures.js"
import * as WatchWorld from "./WatchWorld.js"

const { at, base, condition, disruption, evidenceOf, failed, pod, running, seen, terminated, trainJob, workload } =
  EvidenceFixtures

// Reports of other tools' users that no other test is about

const request = KubeRequest.make("watch", Core.pods, { namespace: "a" })
const object = (name: string, version: number): Core.Pod => ({
  metadata: { name, namespace: "a", uid: `u-${name}`, resourceVersion: String(version) }
})
const list = (resourceVersion: number, ...items: ReadonlyArray<Core.Pod>): Listed<Core.Pod> => ({
  items,
  undecodable: [],
  resourceVersion: String(resourceVersion)
})

/** What a follow does and tells after these signals. */
const follow = (signals: Iterable<Follow.Signal<Core.Pod>>) => {
  let state = Follow.initial<Core.Pod>()
  const told: Array<string> = []
  let action: Follow.Action | undefined
  for (const signal of signals) {
    const [next, events, then] = Follow.step(state, signal)
    state = next
    action = then
    for (const event of events) {
      told.push(event._tag === "Snapshot" ? `Snapshot +${event.changed.length} -${event.deleted.length}` : event._tag)
    }
  }
  return { state, told, action }
}

const down = (now: number): Follow.Signal<Core.Pod> => ({
  _tag: "Failed",
  error: new KubeUnavailable({ request, phase: "connect" }),
  now,
  random: 0.5
})
const expired: Follow.Signal<Core.Pod> = { _tag: "Failed", error: new KubeExpired({ request }), now: 0, random: 0.5 }

describe("lists and watches", () => {
  it("I01: the server is down while the list is made anew: paused and tried again, told as an interruption, then in step", () => {
    const start = [{ _tag: "Listed" as const, list: list(7, object("a", 3)) }, expired]
    const signals: Array<Follow.Signal<Core.Pod>> = [...start]
    for (const now of [1000, 2000, 4000]) {
      signals.push(down(now))
      expect(follow(signals).action?._tag).toBe("Sleep")
      signals.push({ _tag: "Woke" })
      expect(follow(signals).action).toEqual({ _tag: "List" })
    }
    signals.push({ _tag: "Listed", list: list(20, object("b", 11)) })
    const { told, action } = follow(signals)
    expect(told.filter((text) => text === "Interrupted").length).toBeGreaterThanOrEqual(3)
    expect(told.at(-1)).toBe("Snapshot +1 -1")
    expect(action).toEqual({ _tag: "Watch", from: "20" })
  })

  it("I06: after an error what is known already is not told again, and changes are", () => {
    const items = [object("a", 3), object("b", 4), object("c", 5)]
    const { told } = follow([
      { _tag: "Listed", list: list(7, ...items) },
      expired,
      { _tag: "Listed", list: list(30, ...items) },
      {
        _tag: "Frame",
        event: { _tag: "Applied", type: "MODIFIED", object: object("a", 31), resourceVersion: "31" }
      }
    ])
    expect(told).toEqual(
      ["Snapshot +3 -0", "Interrupted", "Snapshot +0 -0", "Applied"].filter((text) => told.includes(text))
    )
    expect(told.filter((text) => text === "Applied")).toHaveLength(1)
    expect(told.filter((text) => text === "Snapshot +0 -0")).toHaveLength(1)
  })

  it("I08: a hundred thousand connections leave nothing behind", () => {
    let state = follow([{ _tag: "Listed", list: list(7, object("a", 3)) }]).state
    const size = (): string => JSON.stringify({ ...state, known: undefined }).replace(/\d+/g, "N")
    const after = (count: number): void => {
      for (let index = 0; index < count; index++) {
        const now = index * 60_000
        for (const signal of [
          { _tag: "Opened", now },
          index % 3 === 0 ? down(now + 1) : { _tag: "Closed", now: now + 30_000, random: 0.5 },
          { _tag: "Woke" }
        ] satisfies ReadonlyArray<Follow.Signal<Core.Pod>>) {
          state = Follow.step(state, signal)[0]
        }
      }
    }
    after(3)
    const first = size()
    after(100_000)
    expect(size()).toBe(first)
    for (const part of Object.values(state)) if (HashMap.isHashMap(part)) expect(HashMap.size(part)).toBe(1)
  })

  it.scoped("L01: a namespace of many pods is listed by pages, and watched once", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make()
      yield* cluster.seed(
        Array.from({ length: 1200 }, (_, index) => ({
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name: `p-${index}`, namespace: "default", labels: { a: "b" } },
          spec: { containers: [{ name: "node", image: "x" }] }
        }))
      )
      const api = cluster.as(Rbac.admin)
      const names = new Set<string>()
      yield* Effect.forkScoped(
        Stream.runForEach(Follow.follow(api, Core.pods, { namespace: "default" }), (event) =>
          Effect.sync(() => {
            if (event._tag === "Snapshot") for (const { metadata } of event.objects) names.add(metadata.name)
          })
        )
      )
      yield* TestClock.adjust("1 second")
      expect(names.size).toBe(1200)
      const asked = (yield* cluster.audit).filter(({ request: it }) => it.plural === "pods")
      const lists = asked.filter(({ request: it }) => it.verb === "list")
      expect(lists.map(({ request: it }) => it.query["limit"])).toEqual(["500", "500", "500"])
      expect(asked.filter(({ request: it }) => it.verb === "watch")).toHaveLength(1)
    })
  )

  it.scoped("L06: under churn that outruns the server's history the view ends up right, by lists with pauses", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make()
      const api = cluster.as(Rbac.admin)
      const view = new Map<string, string>()
      yield* Effect.forkScoped(
        Stream.runForEach(Follow.follow(api, Core.configMaps, { namespace: "default" }), (event) =>
          Effect.sync(() => {
            if (event._tag === "Snapshot") {
              view.clear()
              for (const it of event.objects) view.set(it.metadata.name, it.data?.["k"] ?? "")
            } else if (event._tag === "Applied") view.set(event.object.metadata.name, event.object.data?.["k"] ?? "")
            else if (event._tag === "Deleted") view.delete(event.object.metadata.name)
          })
        )
      )
      for (let round = 0; round < 20; round++) {
        for (let index = 0; index < 25; index++) {
          const name = `c-${index}`
          const body = { metadata: { name }, data: { k: String(round) } }
          yield* round % 3 === 0
            ? Effect.ignore(api.create(Core.configMaps, { namespace: "default" }, body))
            : round % 3 === 1
              ? Effect.ignore(
                  api.patch(
                    Core.configMaps,
                    { namespace: "default", name },
                    { type: "merge", body: { data: body.data } }
                  )
                )
              : Effect.ignore(
                  api.remove(Core.configMaps, { namespace: "default", name }, { propagation: "Background" })
                )
        }
        // Nothing of the round is left to a watch that was not there
        yield* cluster.disconnect({}, "broken")
        yield* cluster.compact()
        yield* TestClock.adjust("100 millis")
      }
      yield* TestClock.adjust("2 minutes")
      const truth = (yield* api.list(Core.configMaps, { namespace: "default" })).items
      expect(new Map(view)).toEqual(new Map(truth.map((it) => [it.metadata.name, it.data?.["k"] ?? ""] as const)))
      const lists = (yield* cluster.audit).filter(({ request: it }) => it.verb === "list" && it.plural === "configmaps")
      expect(lists.length).toBeLessThan(25)
    })
  )
})

describe("how pods end", () => {
  it("K13: a pod that was killed for its memory is told so while its object is still there", () => {
    const verdict = Classification.classify(
      evidenceOf(
        ...base,
        seen.pod(pod({ uid: "p0", phase: "Failed", container: terminated(137, "OOMKilled", 20) }), 20),
        seen.pod(pod({ uid: "p1", index: 1, container: running() }), 20),
        seen.trainJob(trainJob({ conditions: [failed(25)] }), 25)
      )
    )
    expect(verdict).toMatchObject({ state: "Failed", cause: { _tag: "OutOfMemory", exitCode: 137 } })
    expect(verdict.evidence.find(({ object: it }) => it.startsWith("Pod/"))?.presence).toBe("present")
  })

  it("K19: preempted before its container began: no failure of the application, and the evidence outlives the pod", () => {
    const taken = pod({
      uid: "p0",
      container: null,
      phase: "Pending",
      conditions: [disruption("PreemptionByScheduler", 5)],
      deletion: [5, 0]
    })
    const verdict = Classification.classify(
      evidenceOf(
        ...base,
        seen.pod(pod({ uid: "p0", container: null, phase: "Pending" }), 1),
        seen.pod(pod({ uid: "p1", index: 1 }), 1),
        seen.pod(taken, 5),
        seen.pod(taken, 6, "seen"),
        seen.trainJob(trainJob({ conditions: [failed(9)] }), 9)
      )
    )
    expect(verdict.cause).toMatchObject({ _tag: "Preempted", by: "scheduler" })
    expect(verdict.evidence.some(({ presence }) => presence === "seen")).toBe(true)
  })
})

describe("Kueue", () => {
  it("Q01: admitted is not running: a TrainJob that stays suspended after it is Pending, and the admission is shown", () => {
    const verdict = Classification.classify(
      evidenceOf(
        seen.trainJob(trainJob({ suspend: true, conditions: [condition("Suspended", "Suspended", 0)] }), 600),
        seen.workload(
          workload({
            conditions: [condition("QuotaReserved", "QuotaReserved", 1), condition("Admitted", "Admitted", 2)]
          }),
          600
        )
      )
    )
    expect(verdict).toMatchObject({ state: "Pending", alive: false })
    expect(verdict.evidence.map(({ field }) => field)).toEqual([
      "status.conditions[Suspended]",
      "status.conditions[Admitted]"
    ])
  })

  it("Q07: a rank that had succeeded does not run again: the next execution is shorter, and nothing is missed", () => {
    const evidence = evidenceOf(
      ...base,
      seen.pod(
        pod({ uid: "a0", index: 0, count: 1, phase: "Succeeded", container: terminated(0, "Completed", 20) }),
        20
      ),
      seen.pod(pod({ uid: "a1", index: 1, count: 1, deletion: [25, 0], phase: "Failed" }), 25, "seen"),
      seen.job({ ...EvidenceFixtures.job({ started: 40 }) }, 40),
      seen.pod(pod({ uid: "b1", index: 1, count: 2, created: 41, container: running(42) }), 42)
    )
    const story = Explanation.make(evidence)
    expect(story.executions.map(({ number, pods }) => [number, pods.map(({ rank }) => rank)])).toEqual([
      [1, ["0", "1"]],
      [2, ["1"]]
    ])
    expect(story.executions.at(-1)?.neverSeen).toEqual([])
  })

  it("Q11: pods of an evicted execution that still stop are not the next one's", () => {
    const evidence = evidenceOf(
      ...base,
      seen.pod(pod({ uid: "a0", index: 0, count: 1, deletion: [20, 600], node: "n0" }), 20),
      seen.pod(pod({ uid: "a1", index: 1, count: 1, deletion: [20, 600], node: "n1" }), 20),
      seen.job(EvidenceFixtures.job({ started: 30 }), 30),
      seen.pod(pod({ uid: "b0", index: 0, count: 2, created: 31, node: "n2" }), 31),
      seen.pod(pod({ uid: "b1", index: 1, count: 2, created: 31, node: "n3" }), 31)
    )
    const { all, current } = Evidence.executions(evidence)
    expect(all.map(({ number, pods }) => [number, pods.map(({ nodeName }) => nodeName)])).toEqual([
      [1, ["n0", "n1"]],
      [2, ["n2", "n3"]]
    ])
    expect(current?.number).toBe(2)
    expect(Classification.classify(evidence)).toMatchObject({ state: "Running", execution: 2, alive: true })
    expect(at(0)).toMatch(/Z$/)
  })
})

describe("capabilities", () => {
  it.scoped(
    "P11: a runtime is read when it is asked about; what it becomes later does not change a running job's answers",
    () =>
      Effect.gen(function* () {
        const world = yield* WatchWorld.prepare()
        const door = yield* Cluster.Cluster
        const adapter = yield* Effect.provideService(
          Adapter.make(AdapterConfig.make({ namespace: WatchWorld.namespace })),
          KubeApi.KubeApi,
          door.as(Rbac.admin)
        )
        const spec = { runtimeRef: { name: "torch-conforming" } }
        const procs = Effect.map(adapter.capabilities(spec), (all) => CapabilityTable.find(all, "ProcsPerNode").answer)
        expect(yield* procs).toBe("yes")
        yield* world.create(WatchWorld.injected("run-1", 1), WatchWorld.namespace)
        yield* TestClock.adjust("5 seconds")
        yield* world.settle
        const before = yield* adapter.explain({ namespace: WatchWorld.namespace, name: "run-1" })
        yield* door
          .transport(Rbac.admin)
          .call(
            KubeRequest.make(
              "patch",
              { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "clustertrainingruntimes" },
              { name: "torch-conforming", patchType: "merge", body: { spec: { mlPolicy: { torch: null } } } }
            )
          )
        expect(yield* procs).toBe("no")
        yield* world.settle
        const after = yield* adapter.explain({ namespace: WatchWorld.namespace, name: "run-1" })
        expect(after.now.state).toBe("Running")
        expect(after.executions.map(({ pods }) => pods.map(({ uid }) => uid))).toEqual(
          before.executions.map(({ pods }) => pods.map(({ uid }) => uid))
        )
      }).pipe(Effect.provide(WatchWorld.layer()))
  )
})

describe("explain", () => {
  const ref = { namespace: WatchWorld.namespace, name: "run-1" }

  it.scoped("a TrainJob that is gone with its pods is told from what was kept; what nobody kept is ErrNotFound", () =>
    Effect.gen(function* () {
      const world = yield* WatchWorld.prepare()
      const door = yield* Cluster.Cluster
      const adapter = yield* Effect.provideService(
        Adapter.make(AdapterConfig.make({ namespace: WatchWorld.namespace })),
        KubeApi.KubeApi,
        door.as(Rbac.admin)
      )
      const missing = yield* Effect.flip(adapter.explain(ref))
      expect(missing._tag).toBe("ErrNotFound")
      yield* Effect.forkScoped(Stream.runDrain(adapter.watch(Watch.namespace(WatchWorld.namespace))))
      yield* world.create(WatchWorld.injected("run-1", 1), WatchWorld.namespace)
      yield* TestClock.adjust("5 seconds")
      yield* world.settle
      const [, second] = yield* world.pods(WatchWorld.namespace)
      if (second === undefined) return yield* Effect.dieMessage("no pods")
      yield* world.exit(second, { code: 17 })
      yield* TestClock.adjust("20 seconds")
      yield* world.settle
      const live = yield* adapter.explain(ref)
      expect(live.now).toMatchObject({ state: "Failed", cause: { _tag: "Application", exitCode: 17 } })
      yield* door.as(Rbac.admin).remove(Trainer.trainJobs, { ...ref }, { propagation: "Background" })
      yield* TestClock.adjust("60 seconds")
      yield* world.settle
      expect(yield* world.pods(WatchWorld.namespace)).toHaveLength(0)
      const story = yield* adapter.explain(ref)
      expect(story.now).toMatchObject({
        state: "Gone",
        outcome: "Failed",
        cause: { _tag: "Application", exitCode: 17 }
      })
      const [execution] = story.executions
      expect(execution).toMatchObject({ number: 1, isSubject: true, incarnation: 1, neverSeen: [] })
      expect(execution?.pods.map(({ rank, presence, ends }) => [rank, presence, ends.length])).toEqual([
        ["0", "seen", expect.any(Number)],
        ["1", "seen", 1]
      ])
      const what = story.timeline.map((moment) => moment.what)
      expect(what).toContain("container node ended, exit code 17 (Error)")
      expect(what.at(-1)).toBe("gone: its deletion was seen")
      const times = story.timeline.map(({ time }) => Date.parse(time))
      expect(times).toEqual(times.toSorted((a, b) => a - b))
      expect(JSON.parse(JSON.stringify(story))).toEqual(story)
    }).pipe(Effect.provide(WatchWorld.layer()))
  )

  it.scoped("when the cluster does not answer, kept evidence alone tells it, and the answer says so", () =>
    Effect.gen(function* () {
      const world = yield* WatchWorld.prepare()
      const door = yield* Cluster.Cluster
      let away = false
      const api = KubeApi.transform((transport) => ({
        ...transport,
        call: (asked) =>
          away ? Effect.fail(new KubeUnavailable({ request: asked, phase: "connect" })) : transport.call(asked)
      }))(door.as(Rbac.admin))
      const adapter = yield* Effect.provideService(
        Adapter.make(AdapterConfig.make({ namespace: WatchWorld.namespace })),
        KubeApi.KubeApi,
        api
      )
      yield* world.create(WatchWorld.injected("run-1", 1), WatchWorld.namespace)
      yield* TestClock.adjust("5 seconds")
      yield* world.settle
      const live = yield* adapter.explain(ref)
      expect(live.unasked).toEqual([])
      away = true
      const kept = yield* adapter.explain(ref)
      expect(kept.unasked).toEqual([expect.stringContaining("kept evidence alone")])
      expect({ ...kept, unasked: [] }).toEqual(live)
      const other = yield* Effect.flip(adapter.explain({ ...ref, name: "other" }))
      expect(other._tag).toBe("KubeUnavailable")
    }).pipe(Effect.provide(WatchWorld.layer()))
  )

  it("executions of one TrainJob each have their own cause, and a Node that went long after a pod explains nothing", () => {
    const evidence = evidenceOf(
      ...base,
      seen.node(EvidenceFixtures.node({ name: "n0" }), 1),
      seen.pod(pod({ uid: "a0", index: 0, count: 1, node: "n0" }), 1),
      seen.pod(pod({ uid: "a1", index: 1, count: 1 }), 1),
      seen.workload(
        workload({ version: 2, conditions: [condition("Evicted", "Preempted", 29, "Preempted to accommodate")] }),
        29
      ),
      seen.pod(pod({ uid: "a0", index: 0, count: 1, node: "n0", deletion: [30, 0] }), 31, "seen"),
      seen.pod(pod({ uid: "a1", index: 1, count: 1, deletion: [30, 0] }), 31, "seen"),
      seen.job(EvidenceFixtures.job({ started: 60 }), 60),
      seen.pod(
        pod({ uid: "b0", index: 0, count: 2, created: 61, phase: "Failed", container: terminated(9, "Error", 70) }),
        70
      ),
      seen.pod(pod({ uid: "b1", index: 1, count: 2, created: 61 }), 70),
      seen.trainJob(trainJob({ conditions: [failed(75)] }), 75),
      seen.node(undefined, 100_000, "n0")
    )
    const story = Explanation.make(evidence)
    expect(story.executions.map(({ number, cause, isSubject }) => [number, cause?._tag, isSubject])).toEqual([
      [1, "Preempted", false],
      [2, "Application", true]
    ])
    expect(story.executions[0]?.pods.map(({ cause }) => cause?._tag)).toEqual(["Deleted", "Deleted"])
  })
})
