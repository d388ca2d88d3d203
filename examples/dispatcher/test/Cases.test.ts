/** Cases that other tools' users reported, played against the adapter in the dispatcher, with every invariant of the model test. */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import type * as Store from "@dispatch-kubeflow/testkit/Store"
import * as KueueObjects from "@dispatch-kubeflow/testkit/stages/KueueObjects"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import { never } from "@dispatch-kubeflow/testkit/VirtualTime"
import { KeyValueStore } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Either, Fiber, Option, Ref, Stream, TestClock } from "effect"
import * as Backend from "../src/Backend.js"
import * as Kubeflow from "../src/backends/Kubeflow.js"
import * as Dispatcher from "../src/Dispatcher.js"
import * as Journal from "../src/Journal.js"
import { scripted } from "./model/Command.js"
import * as Model from "./model/Model.js"
import { kueue, namespace, type World } from "./model/World.js"

// Minutes of virtual time; real ones only on a busy machine
const patience = 600_000

/** What the dispatcher says of a run, and what of it lives. */
const look = (world: World, run = "a") =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return yield* Effect.dieMessage("the dispatcher is dead")
    const status = Option.getOrThrow(yield* life.dispatcher.status(run))
    const processes = yield* world.machines.processes
    const view = yield* world.machines.view
    const workloads = view.list(KueueObjects.workloads, namespace)
    return {
      attempts: status.record.attempts.map(({ n, retiring, started, stopped }) => ({
        n,
        started,
        cause: retiring?.cause,
        by: stopped?.by
      })),
      words: status.record.attempts.map(({ vouched }) => vouched && `${vouched.by}: ${vouched.reason}`),
      waits: `${status.waiting?.for ?? ""}: ${status.waiting?.reasons.join("; ") ?? ""}`,
      report: status.report,
      alive: processes.map(({ pod }) => pod.replace(/-node-.*$/, "")).toSorted(),
      trainJob: (name: string) => view.get(Objects.trainJobs, namespace, name),
      workload: (name: string) => workloads.find((each) => Objects.controllerOf(each)?.name === name),
      pods: view.list(Objects.pods, namespace)
    }
  })

describe("nodes", () => {
  it(
    "N06: a cloud's shutdown taint is nobody's word; the operator's taint, which comes later, is",
    { timeout: patience },
    () => {
      const early = Model.see(
        scripted("Submit a; Advance 2; Lose 0; Lose 1; Shutdown 0; Shutdown 1; Advance 90; Advance 90"),
        look
      )
      expect(early.attempts).toEqual([{ n: 1, started: true, cause: "NodeLost", by: undefined }])
      expect(early.waits).toMatch(/^cessation: .*n1.*n2/)
      const late = Model.see(
        scripted(
          "Submit a; Advance 2; Lose 0; Lose 1; Shutdown 0; Shutdown 1; Advance 90; AddNode; Taint 0; Taint 1; Advance 40"
        ),
        look
      )
      expect(late.attempts.map(({ started, by }) => [started, by])).toEqual([
        [true, "ended"],
        [true, undefined]
      ])
    }
  )

  it("N12: an execution's Nodes are those of its replaced pods too", { timeout: patience }, () => {
    const seen = Model.see(
      scripted("Submit a; Advance 2; Lose 0; Advance 40; Advance 40", { replacing: true }),
      (world) =>
        Effect.gen(function* () {
          const { alive, attempts } = yield* look(world)
          const trainJob = (yield* look(world)).trainJob("a-1")
          const verdict = yield* Effect.orDie(
            world.reader.ceased({
              namespace,
              name: "a-1",
              ...(trainJob === undefined ? {} : { uid: trainJob.metadata.uid })
            })
          )
          return { alive, attempts, verdict }
        })
    )
    // One rank goes on, the other was replaced, and its first process runs on where nobody sees it
    expect(seen.attempts).toEqual([{ n: 1, started: true, cause: undefined, by: undefined }])
    expect(seen.alive).toEqual(["a-1", "a-1", "a-1"])
    expect(seen.verdict.nodes.map(({ name }) => name)).toEqual(["n1", "n2", "n3"])
    expect(seen.verdict).toMatchObject({ ceased: false, ended: false })
  })
})

describe("what nobody saw", () => {
  const steps = (world: World, commands: string) =>
    Effect.forEach(scripted(commands).commands, (command) => Effect.zipRight(world.perform(command), world.settle), {
      discard: true
    })
  const force = (world: World, node: string) =>
    Effect.flatMap(world.machines.pods(namespace), (pods) =>
      Effect.forEach(
        pods.filter(({ spec }) => spec.nodeName === node),
        ({ metadata }) =>
          Effect.ignore(
            world.cluster.admin.remove(
              Core.pods,
              { namespace, name: metadata.name },
              { propagation: "Background", gracePeriodSeconds: 0 }
            )
          ),
        { discard: true }
      )
    )

  it(
    "W11: the JobSet is made again while the dispatcher is dead: the end of the second one says nothing of the first",
    { timeout: patience },
    () => {
      const seen = Model.see(scripted("Kill answer lost; Submit a; Advance 1; Kill answer lost; Restart"), (world) =>
        Effect.gen(function* () {
          yield* steps(world, "Advance 5; Lose 0; AddNode; AddNode; Advance 40; DeleteJobSet 0; Advance 5")
          yield* force(world, "n1")
          yield* steps(world, "Advance 40; Restart; Advance 15")
          for (const process of yield* world.machines.processes) {
            if (process.node === "n1") continue
            yield* world.machines.exit({ metadata: { name: process.pod, uid: process.podUid } }, { code: 1 })
          }
          yield* steps(world, "Advance 40")
          return { ...(yield* look(world)), nodes: (yield* world.machines.processes).map(({ node }) => node) }
        })
      )
      expect(seen.nodes).toEqual(["n1"])
      expect(seen.alive).toEqual(["a-1"])
      expect(seen.attempts).toMatchObject([{ n: 1, by: undefined }])
      expect(seen.waits).toMatch(/^cessation: .*a JobSet a-1 \(uid .*\) went while nobody looked/)
    }
  )

  it("somebody holds and releases a submission: its first execution counts, too", { timeout: patience }, () => {
    const seen = Model.see(scripted("Submit a; Advance 5; Lose 0; AddNode; AddNode"), (world) =>
      Effect.gen(function* () {
        const suspend = (held: boolean) =>
          world.cluster.admin.patch(
            Trainer.trainJobs,
            { namespace, name: "a-1" },
            { type: "merge", body: { spec: { suspend: held } } }
          )
        yield* Effect.orDie(suspend(true))
        yield* steps(world, "Advance 5")
        yield* force(world, "n1")
        yield* steps(world, "Advance 15")
        yield* Effect.orDie(suspend(false))
        yield* steps(world, "Advance 15")
        for (const process of yield* world.machines.processes) {
          if (process.node === "n1") continue
          yield* world.machines.exit({ metadata: { name: process.pod, uid: process.podUid } }, { code: 1 })
        }
        yield* steps(world, "Advance 90; Advance 40")
        return { ...(yield* look(world)), nodes: (yield* world.machines.processes).map(({ node }) => node) }
      })
    )
    expect(seen.nodes).toContain("n1")
    expect(seen.alive.every((name) => name === "a-1")).toBe(true)
    expect(seen.attempts).toMatchObject([{ n: 1, by: undefined }])
    expect(seen.waits).toMatch(/^cessation: /)
  })
})

describe("Kueue", () => {
  const withKueue = (commands: string, options: { readonly stubborn?: boolean } = {}) =>
    scripted(commands, { kueue: true, ...options })

  it("Q01: admitted is not started: the report says so, and the run waits", { timeout: patience }, () => {
    const seen = Model.see(withKueue("Submit a; Advance 90; Advance 15"), look, {
      cluster: { delays: { "kueue-job": { wait: "60 seconds" } } }
    })
    expect(seen.workload("a-1")?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Admitted", status: "True" })
    )
    expect(seen.trainJob("a-1")?.spec.suspend).toBe(true)
    expect(seen.report).toMatchObject({ state: "Pending" })
    expect(seen.report?.detail).toContain("Admitted")
    expect(seen.waits).toContain("submission 1 is Pending")
    expect(seen.alive).toEqual([])
  })

  it("Q02: a person's suspend is undone, so the fence acts on the Workload", { timeout: patience }, () => {
    const suspended = Model.see(withKueue("Submit a; Advance 15; Suspend 0; Advance 15"), look)
    expect(suspended.trainJob("a-1")?.spec.suspend).toBe(false)
    expect(suspended.alive).toEqual(["a-1", "a-1"])
    const fenced = Model.see(withKueue("Submit a; Advance 15; Preempt; Advance 15"), look)
    expect(fenced.workload("a-1")?.spec.active).toBe(false)
    expect(fenced.trainJob("a-1")?.spec.suspend).toBe(true)
    expect(fenced.attempts[0]).toEqual({ n: 1, started: true, cause: "Preempted", by: "ended" })
  })

  it(
    "Q04: without the check's controller the gate is not proven, and nothing is made or started",
    { timeout: patience },
    () => {
      const seen = Model.see(
        withKueue("Submit a; Advance 15; StopController; Advance 40; Submit b; Advance 15"),
        (world) =>
          Effect.gen(function* () {
            const answers = yield* Effect.orDie(world.life()?.adapter.capabilities() ?? Effect.dieMessage("dead"))
            return { ...(yield* look(world, "b")), gate: CapabilityTable.find(answers, "ReadmissionGate") }
          })
      )
      expect(seen.gate).toMatchObject({ answer: "no", source: "probed" })
      expect(seen.waits).toMatch(/Lease/)
      expect(seen.trainJob("b-1")).toBeUndefined()
    }
  )

  it(
    "Q06: the next try is a TrainJob of its own, so that no injected value meets an older one",
    { timeout: patience },
    () => {
      const seen = Model.see(withKueue("Submit a; Advance 15; Preempt; Advance 15; Yield; Advance 40"), look)
      expect(seen.attempts.map(({ n, started }) => [n, started])).toEqual([
        [1, true],
        [2, true]
      ])
      expect(seen.workload("a-2")?.status?.conditions?.map(({ reason }) => reason)).not.toContain("FailedToStart")
      expect(seen.pods.map(({ metadata }) => metadata.annotations?.[AdapterConfig.admissionAnnotation])).toEqual([
        "1",
        "1"
      ])
      // Of the first, the check kept what was given with its answer: whoever answers it again runs it under the old count
      expect(seen.workload("a-1")?.status?.admissionChecks).toMatchObject([
        { state: "Pending", podSetUpdates: [{ name: "node" }] }
      ])
    }
  )

  it("Q07: a rank that had succeeded before the preemption runs again in the next try", { timeout: patience }, () => {
    const seen = Model.see(
      withKueue("Submit a; Advance 15; Exit 1 0; Advance 2; Preempt; Advance 15; Yield; Advance 40"),
      look
    )
    expect(seen.attempts.map(({ by, cause }) => [cause, by])).toEqual([
      ["Preempted", "ended"],
      [undefined, undefined]
    ])
    expect(seen.alive).toEqual(["a-2", "a-2"])
  })

  it("Q09: the answer is about our own check, whatever another one has or lacks", { timeout: patience }, () => {
    const theirs = { name: "theirs", state: "Pending", message: "" }
    const seen = Model.see(withKueue("Submit a; Advance 15"), look, {
      arrange: (world) =>
        Effect.gen(function* () {
          const { admin } = world.cluster
          yield* world.machines.create(Fixtures.admissionCheck(theirs.name, { controllerName: "example.com/theirs" }))
          yield* admin.patch(
            Kueue.admissionChecks,
            { name: theirs.name },
            { type: "merge", subresource: "status", body: { status: Fixtures.activeStatus("True") } }
          )
          yield* admin.patch(
            Kueue.clusterQueues,
            { name: "pool" },
            {
              type: "merge",
              body: {
                spec: {
                  admissionChecksStrategy: { admissionChecks: [{ name: theirs.name }, { name: kueue.admissionCheck }] }
                }
              }
            }
          )
        }).pipe(Effect.orDie)
    })
    expect(seen.workload("a-1")?.status?.admissionChecks).toMatchObject([
      { name: kueue.admissionCheck, state: "Ready" },
      theirs
    ])
    expect(seen.alive).toEqual([])
    expect(seen.attempts).toEqual([{ n: 1, started: true, cause: undefined, by: undefined }])
  })

  it(
    "Q09: an answer that the server refuses is given again ever more slowly, and says why",
    { timeout: patience },
    () => {
      // For two minutes the answer to the check is refused as it was when another check's entry was stale
      const refusal: Store.Admission = {
        name: "stale.example.com",
        phase: "validating",
        admit: ({ definition, now, object, subresource }) =>
          definition.plural === "workloads" &&
          subresource === "status" &&
          now < 120_000 &&
          JSON.stringify(object).includes(AdapterConfig.admissionAnnotation)
            ? Either.left({ code: 422, reason: "Invalid", message: "the entry of another check is stale" })
            : undefined
      }
      const play = (commands: string) =>
        Model.see(withKueue(commands), (world) => Effect.zip(look(world), world.cluster.audit), {
          cluster: { admission: [refusal] }
        })
      const [refused, audit] = play("Submit a; Advance 100")
      expect(refused.waits).toMatch(/^an answer: .*the entry of another check is stale/)
      expect(refused.alive).toEqual([])
      const tries = audit.filter(({ code, request }) => code === 422 && request.plural === "workloads")
      // 2 s at first, and at most 30 s: a hundred seconds have room for some six
      expect(tries.length).toBeGreaterThanOrEqual(3)
      expect(tries.length).toBeLessThanOrEqual(10)
      const [accepted] = play("Submit a; Advance 100; Advance 60")
      expect(accepted.alive).toEqual(["a-1", "a-1"])
      expect(accepted.attempts).toEqual([{ n: 1, started: true, cause: undefined, by: undefined }])
    }
  )

  it(
    "Q11: while pods of the preempted try still stop, its quota is another's and the next try is not made",
    { timeout: patience },
    () => {
      const soon = Model.see(
        withKueue("Submit a; Advance 15; Preempt; Advance 5; Yield; Advance 5", { stubborn: true }),
        look
      )
      expect(soon.alive).toEqual(["a-1", "a-1"])
      expect(soon.attempts).toHaveLength(1)
      expect(soon.waits).toMatch(/^cessation: /)
      const later = Model.see(
        withKueue("Submit a; Advance 15; Preempt; Advance 5; Yield; Advance 40; Advance 40", { stubborn: true }),
        look
      )
      expect(later.alive).toEqual(["a-2", "a-2"])
    }
  )
})

const disk = (files: Map<string, string>): KeyValueStore.KeyValueStore =>
  KeyValueStore.makeStringOnly({
    get: (key) => Effect.sync(() => Option.fromNullable(files.get(key))),
    set: (key, value) => Effect.sync(() => void files.set(key, value)),
    remove: (key) => Effect.sync(() => void files.delete(key)),
    clear: Effect.sync(() => files.clear()),
    size: Effect.sync(() => files.size)
  })

/** A dispatcher over one backend, whose journal outlives it. */
const over = (backend: Backend.Backend, files: Map<string, string>) =>
  Effect.gen(function* () {
    const journal = yield* Effect.provideService(Journal.make, KeyValueStore.KeyValueStore, disk(files))
    return yield* Effect.provideService(Dispatcher.make({ backends: [backend] }), Journal.Journal, journal)
  }).pipe(Effect.orDie)

const request = (run: string, backend: string): Dispatcher.Request => ({
  run,
  work: { nodes: 1 },
  policy: { rules: [{ cause: "*", action: "Resubmit" }], attempts: 3 },
  backends: [backend]
})

const statusOf = (dispatcher: Dispatcher.Service, run: string) =>
  Effect.map(dispatcher.status(run), (status) => {
    const { record, waiting } = Option.getOrThrow(status)
    return { attempts: record.attempts, waits: `${waiting?.for ?? ""}: ${waiting?.reasons.join("; ") ?? ""}` }
  })

describe("a person's word", () => {
  /** Nothing is proven of what it is asked, and each part can be changed. */
  const backendOf = (parts: Partial<Backend.Backend>): Backend.Backend => ({
    name: "fake",
    actions: (actions) => Effect.succeed(actions.map(() => ({ answer: "yes", reason: undefined }))),
    prepare: ({ n }) => Effect.succeed(`id-${n}`),
    start: () => Effect.succeed("Started"),
    fence: () => Effect.succeed("Fenced"),
    reports: Stream.never,
    exists: () => Effect.succeed(true),
    stopped: () => Effect.succeed({ ceased: false, ended: false, reasons: ["nobody knows"], cautions: [] }),
    ...parts
  })
  const lost: Backend.Report = {
    run: "a",
    n: 1,
    id: "id-1",
    state: "Failed",
    outcome: "Failed",
    cause: "NodeLost",
    detail: ""
  }
  const losing = Stream.concat(Stream.make(lost), Stream.never)
  const word: Dispatcher.Word = { run: "a", n: 1, by: "operator", reason: "I have switched the machine off" }

  it(
    "frees a run whose quota let no pod of it be made: no Node that is deleted could, and the word stays with it",
    { timeout: patience },
    () => {
      const quota: Store.Admission = {
        name: "quota",
        phase: "validating",
        admit: ({ definition, object, operation }) =>
          definition.plural === "pods" && operation === "CREATE" && JSON.stringify(object).includes('"a-1"')
            ? Either.left({ message: "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" })
            : undefined
      }
      const seen = Model.see(
        scripted("Advance 15; Advance 90"),
        (world) =>
          Effect.gen(function* () {
            const life = world.life()
            if (life === undefined) return yield* Effect.dieMessage("the dispatcher is dead")
            for (let node = 0; node < 3; node += 1) yield* world.perform({ _tag: "DeleteNode", node })
            for (let node = 0; node < 2; node += 1) yield* world.perform({ _tag: "AddNode" })
            yield* world.time.advance(600_000)
            const before = yield* look(world)
            yield* Effect.orDie(
              life.dispatcher.vouch({ run: "a", n: 1, by: "operator", reason: "no pod of it was made" })
            )
            yield* world.time.advance(15_000)
            const after = yield* look(world)
            // The next life of the dispatcher knows it, too
            yield* world.perform({ _tag: "Restart" })
            yield* world.settle
            return { before, after, later: yield* look(world) }
          }),
        {
          cluster: { admission: [quota] },
          arrange: (world) =>
            Effect.orDie(
              world.life()?.dispatcher.submit({
                run: "a",
                work: { nodes: 2 },
                policy: { rules: [{ cause: "NoCapacity", action: "Resubmit" }], attempts: 3 },
                backends: ["kubeflow"]
              }) ?? Effect.dieMessage("dead")
            )
        }
      )
      expect(seen.before.attempts).toEqual([{ n: 1, started: true, cause: "NoCapacity", by: undefined }])
      expect(seen.before.waits).toMatch(/^cessation: No pod of it was ever seen/)
      expect(seen.after.attempts).toEqual([
        { n: 1, started: true, cause: "NoCapacity", by: undefined },
        { n: 2, started: true, cause: undefined, by: undefined }
      ])
      expect(seen.after.alive).toEqual(["a-2", "a-2"])
      expect(seen.after.words).toEqual(["operator: no pod of it was made", undefined])
      expect(seen.later).toMatchObject({ attempts: seen.after.attempts, words: seen.after.words })
    }
  )

  it.scoped("is taken at once, whether it is asked about or waited for, and whatever became of the backend", () =>
    Effect.gen(function* () {
      const files = new Map<string, string>()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const dispatcher = yield* over(backendOf({ reports: losing }), files)
          yield* dispatcher.submit(request("a", "fake"))
          yield* TestClock.adjust("5 minutes")
          expect((yield* statusOf(dispatcher, "a")).waits).toBe("cessation: nobody knows")
        })
      )
      // It does not answer, it is not configured any more: no time passes in between
      for (const backend of [backendOf({ stopped: () => Effect.never }), backendOf({ name: "another" })]) {
        const dispatcher = yield* over(backend, new Map(files))
        yield* TestClock.adjust(0)
        expect((yield* statusOf(dispatcher, "a")).attempts).toHaveLength(1)
        yield* dispatcher.vouch(word)
        yield* TestClock.adjust(0)
        expect((yield* statusOf(dispatcher, "a")).attempts).toMatchObject([
          { n: 1, stopped: undefined, vouched: { by: "operator", reason: "I have switched the machine off" } },
          { n: 2 }
        ])
        // Repeated, it is the first one that stays
        yield* dispatcher.vouch({ ...word, by: "Bob" })
        expect((yield* statusOf(dispatcher, "a")).attempts).toMatchObject([{ vouched: { by: "operator" } }, { n: 2 }])
      }
    })
  )

  it.scoped("is not taken for what may still be started or has stopped, and the error says what is missing", () =>
    Effect.gen(function* () {
      const refusal = (dispatcher: Dispatcher.Service, given: Dispatcher.Word = word) =>
        Effect.map(Effect.flip(dispatcher.vouch(given)), (error) => {
          expect(error._tag).toBe("NotVouchable")
          return error.message
        })
      const playing = (parts: Partial<Backend.Backend>) =>
        Effect.gen(function* () {
          const dispatcher = yield* over(backendOf(parts), new Map())
          yield* dispatcher.submit(request("a", "fake"))
          yield* TestClock.adjust("1 minute")
          return dispatcher
        })
      const running = yield* playing({})
      expect(yield* refusal(running)).toBe(
        'nobody can vouch for submission 1 of run "a": it is not given up: it may run, or be started'
      )
      expect(yield* refusal(running, { ...word, run: "b" })).toMatch(/the run is not known/)
      expect(yield* refusal(running, { ...word, n: 2 })).toMatch(/there is no such submission/)
      expect(yield* refusal(running, { ...word, by: " " })).toMatch(/who says so/)
      const open = yield* playing({
        reports: losing,
        fence: () => new Backend.Unavailable({ backend: "fake", reason: "not now" })
      })
      expect(yield* refusal(open)).toMatch(/it is not fenced yet/)
      const ended = yield* playing({
        reports: losing,
        stopped: () => Effect.succeed({ ceased: false, ended: true, reasons: [], cautions: [] })
      })
      expect(yield* refusal(ended)).toMatch(/it is known to have ended/)
      const refused = yield* playing({
        prepare: () => new Backend.Refused({ backend: "fake", reason: "no" })
      })
      expect(yield* refusal(refused)).toMatch(/nothing of it was started/)
      const { attempts } = yield* statusOf(open, "a")
      expect(attempts).toMatchObject([{ fenced: false, vouched: undefined }])
    })
  )
})

describe("what was given up before it was started", () => {
  it("counts as ended, and a start that arrives late is refused", { timeout: patience }, () => {
    const seen = Model.see(scripted("Advance 1"), (world) =>
      Effect.gen(function* () {
        const life = world.life()
        if (life === undefined) return yield* Effect.dieMessage("the dispatcher is dead")
        const late: Array<Effect.Effect<unknown, KubeError>> = []
        const backendOver = (api: KubeApi.Service) =>
          Kubeflow.make({ name: "kubeflow", runtime: "torch-conforming", adapter: life.adapter, api })
        // The network keeps what one dispatcher sends last until the next one has given the submission up
        const keeping = KubeApi.transform((transport) => ({
          ...transport,
          call: (sent) =>
            KubeRequest.isWrite(sent) && sent.verb === "patch" && sent.query["dryRun"] === undefined
              ? Effect.zipRight(
                  Effect.sync(() => late.push(transport.call(sent))),
                  never
                )
              : transport.call(sent)
        }))(life.api)
        const next = backendOver(life.api)
        const name = { run: "c", n: 1, token: "t" }
        const id = yield* next.prepare(name, { nodes: 1 })
        // Its controllers have said what they have to say: nothing but the fence changes it any more
        yield* world.time.advance(5000)
        const started = yield* Effect.fork(backendOver(keeping).start({ ...name, id }))
        yield* world.time.advance(1000)
        yield* Fiber.interrupt(started)
        const early = yield* next.stopped({ ...name, id })
        const fence = yield* next.fence({ ...name, id })
        const answers = yield* Effect.forEach(late, (request) => Effect.flip(request))
        yield* world.time.advance(15_000)
        const alive = yield* world.machines.processes
        const again = yield* next.fence({ ...name, id })
        return { early, fence, again, answers, stopped: yield* next.stopped({ ...name, id }), alive }
      }).pipe(Effect.orDie)
    )
    expect(seen.early).toMatchObject({ ceased: false, ended: false })
    expect([seen.fence, seen.again]).toEqual(["Fenced", "Fenced"])
    expect(seen.answers.map(({ _tag }) => _tag)).toEqual(["KubeConflict"])
    expect(seen.stopped).toMatchObject({ ceased: false, ended: true, cautions: ["It was never started."] })
    expect(seen.alive).toEqual([])
  })
})

describe("the runtime", () => {
  /** Whether a pod that fails is replaced, which breaks rule 3. */
  const replacing = (world: World, on: boolean) =>
    world.cluster.admin
      .patch(
        Trainer.clusterTrainingRuntimes,
        { name: "torch-conforming" },
        {
          type: "json",
          body: [
            {
              op: "replace",
              path: "/spec/template/spec/replicatedJobs/0/template/spec/backoffLimit",
              value: on ? 6 : 0
            }
          ]
        }
      )
      .pipe(Effect.orDie)
  const breaking = (world: World) => Effect.asVoid(replacing(world, true))

  it(
    "one that restarts in place is refused with the field to set, and nothing is written",
    { timeout: patience },
    () => {
      const seen = Model.see(
        scripted("Submit a; Advance 15"),
        (world) =>
          Effect.gen(function* () {
            const status = Option.getOrThrow(yield* world.life()?.dispatcher.status("a") ?? Effect.succeedNone)
            return { record: status.record, made: world.made, audit: yield* world.cluster.audit }
          }),
        { arrange: breaking }
      )
      expect(seen.record.attempts[0]?.refused?.reason).toMatch(
        /kubeflow refuses: .*torch-conforming.*\n.*backoffLimit.*rule 3/
      )
      expect(seen.record.finished).toMatchObject({ outcome: "Failed" })
      expect(seen.made).toEqual([])
      const writes = seen.audit.filter(({ request, user }) => user === "dispatcher" && KubeRequest.isWrite(request))
      expect(writes.filter(({ request }) => request.query["dryRun"] === undefined)).toEqual([])
    }
  )

  it("is asked about once, and again after a refusal", { timeout: patience }, () => {
    const seen = Model.see(
      scripted("Advance 1"),
      (world) =>
        Effect.gen(function* () {
          const life = world.life()
          if (life === undefined) return yield* Effect.dieMessage("the dispatcher is dead")
          let questions = 0
          const backend = Kubeflow.make({
            name: "kubeflow",
            runtime: "torch-conforming",
            adapter: {
              ...life.adapter,
              capabilities: (spec) => {
                questions += 1
                return life.adapter.capabilities(spec)
              }
            },
            api: life.api
          })
          const prepare = (n: number) =>
            Effect.match(backend.prepare({ run: "c", n, token: "t" }, { nodes: 1 }), {
              onFailure: ({ _tag }) => `${_tag} after ${questions}`,
              onSuccess: () => `prepared after ${questions}`
            })
          const answers = [yield* prepare(1), yield* prepare(1)]
          yield* replacing(world, false)
          return [...answers, yield* prepare(1), yield* prepare(2), yield* prepare(3)]
        }),
      { arrange: breaking }
    )
    expect(seen).toEqual([
      "Refused after 1",
      "Refused after 2",
      "prepared after 3",
      "prepared after 3",
      "prepared after 3"
    ])
  })

  it("one that is missing is refused before anything is written", { timeout: patience }, () => {
    const refused = Model.see(scripted("Advance 1"), (world) => {
      const life = world.life()
      if (life === undefined) return Effect.dieMessage("the dispatcher is dead")
      const backend = Kubeflow.make({ name: "kubeflow", runtime: "absent", adapter: life.adapter, api: life.api })
      return Effect.orDieWith(
        Effect.flip(backend.prepare({ run: "c", n: 1, token: "t" }, { nodes: 1 })),
        (id) => new Error(`${id} was made`)
      )
    })
    expect(refused).toMatchObject({ _tag: "Refused", reason: expect.stringContaining("absent") })
  })
})

describe("a backend that cannot be watched", () => {
  it.scoped("is watched again ever more slowly; every run of it says that it is blind and why, until it reports", () =>
    Effect.gen(function* () {
      const broken = yield* Ref.make(true)
      const tries: Array<number> = []
      const report = (run: string): Backend.Report => ({
        run,
        n: 1,
        id: `id-${run}`,
        state: "Running",
        outcome: undefined,
        cause: undefined,
        detail: ""
      })
      const backend: Backend.Backend = {
        name: "fake",
        actions: (actions) => Effect.succeed(actions.map(() => ({ answer: "yes", reason: undefined }))),
        prepare: ({ run }) => Effect.succeed(`id-${run}`),
        start: () => Effect.succeed("Started"),
        fence: () => Effect.succeed("Fenced"),
        stopped: () => Effect.never,
        exists: () => Effect.succeed(true),
        reports: Stream.unwrap(
          Effect.gen(function* () {
            tries.push(yield* Clock.currentTimeMillis)
            if (yield* broken) {
              return Stream.fail(new Backend.Unavailable({ backend: "fake", reason: "the record of a is damaged" }))
            }
            return Stream.concat(Stream.make(report("a")), Stream.fromEffect(Effect.never))
          })
        )
      }
      const dispatcher = yield* over(backend, new Map())
      yield* dispatcher.submit(request("a", "fake"))
      yield* dispatcher.submit(request("b", "fake"))
      yield* TestClock.adjust("5 minutes")
      for (const run of ["a", "b"]) {
        expect((yield* statusOf(dispatcher, run)).waits).toBe(
          "a report: fake is blind: the record of a is damaged; nothing was reported of submission 1 yet"
        )
      }
      // 2 s at first, and at most 30 s, each with some jitter
      const pauses = tries.slice(1).map((at, index) => at - (tries[index] ?? 0))
      expect(pauses.slice(0, 4).map((pause, index) => pause / (2000 * 2 ** index))).toSatisfy((all: Array<number>) =>
        all.every((share) => share >= 0.8 && share <= 1.2)
      )
      expect(pauses.slice(4).every((pause) => pause >= 24_000 && pause <= 36_000)).toBe(true)
      expect(pauses.length).toBeGreaterThanOrEqual(10)
      yield* Ref.set(broken, false)
      yield* TestClock.adjust("1 minute")
      expect((yield* statusOf(dispatcher, "a")).waits).toBe("a report: submission 1 is Running")
      expect((yield* statusOf(dispatcher, "b")).waits).toBe("a report: nothing was reported of submission 1 yet")
    })
  )

  /** A dispatcher of its own in that world, which remembers there. */
  const awake = (world: World, files: Map<string, string>, isFull: () => boolean = () => false) =>
    Effect.gen(function* () {
      const life = world.life()
      if (life === undefined) return yield* Effect.dieMessage("the dispatcher is dead")
      const kept = yield* Effect.orDie(
        Effect.provideService(EvidenceStore.makeKeyValueStore(), KeyValueStore.KeyValueStore, disk(files))
      )
      const adapter = yield* Adapter.make(life.adapter.config, { watch: { onProblem: () => Effect.void } }).pipe(
        Effect.provideService(KubeApi.KubeApi, life.api),
        Effect.provideService(EvidenceStore.EvidenceStore, {
          ...kept,
          update: (key, change) =>
            isFull()
              ? new EvidenceStore.EvidenceStoreError({ kind: "unavailable", key: key.name, detail: "the disk is full" })
              : kept.update(key, change)
        })
      )
      const backend = Kubeflow.make({ name: "kubeflow", runtime: "torch-conforming", adapter, api: life.api })
      const dispatcher = yield* over(backend, files)
      yield* Effect.orDie(dispatcher.submit(request("c", "kubeflow")))
      const after = (seconds: number) => Effect.zipRight(world.time.advance(seconds * 1000), statusOf(dispatcher, "c"))
      return { after, dispatcher }
    })

  it("is what a run waits for while its evidence cannot be kept", { timeout: patience }, () => {
    const seen = Model.see(scripted("Advance 1"), (world) =>
      Effect.gen(function* () {
        let isFull = false
        const { after, dispatcher } = yield* awake(world, new Map(), () => isFull)
        const before = yield* after(15)
        isFull = true
        yield* world.perform({ _tag: "Succeed" })
        const blind = yield* after(60)
        isFull = false
        yield* after(60)
        const { record } = Option.getOrThrow(yield* dispatcher.status("c"))
        return { before: before.waits, blind: blind.waits, finished: record.finished }
      }).pipe(Effect.scoped)
    )
    expect(seen.before).toBe("a report: submission 1 is Running")
    expect(seen.blind).toBe(
      'a report: kubeflow is blind: the evidence store failed at "c-1": the disk is full; submission 1 was last seen Running'
    )
    expect(seen.finished).toMatchObject({ outcome: "Succeeded" })
  })

  it(
    "a record of one submission that is damaged is why nothing is reported of it, until it is moved away",
    { timeout: patience },
    () => {
      const seen = Model.see(scripted("Advance 1"), (world) =>
        Effect.gen(function* () {
          const files = new Map<string, string>()
          yield* Effect.scoped(Effect.flatMap(awake(world, files), ({ after }) => after(15)))
          files.set("evidence/default/c-1/head", "{")
          return yield* Effect.gen(function* () {
            const { after } = yield* awake(world, files)
            const damaged = yield* after(90)
            for (const key of files.keys()) if (key.startsWith("evidence/default/c-1/")) files.delete(key)
            return { damaged: damaged.waits, mended: (yield* after(90)).waits }
          }).pipe(Effect.scoped)
        })
      )
      expect(seen.damaged).toMatch(
        /^a report: .*nothing was reported.*the evidence under "default\/c-1\/head" cannot be read/
      )
      expect(seen.mended).toBe("a report: submission 1 is Running")
    }
  )

  it(
    "what went away with all that was known of it is given up, and waits for a person's word",
    { timeout: patience },
    () => {
      const seen = Model.see(scripted("Advance 1"), (world) =>
        Effect.gen(function* () {
          const files = new Map<string, string>()
          yield* Effect.scoped(Effect.flatMap(awake(world, files), ({ after }) => after(15)))
          yield* world.perform({ _tag: "DeleteTrainJob", trainJob: 0, propagation: "Background" })
          yield* world.time.advance(60_000)
          for (const key of files.keys()) if (key.startsWith("evidence/")) files.delete(key)
          return yield* Effect.gen(function* () {
            const { after, dispatcher } = yield* awake(world, files)
            const before = yield* after(120)
            yield* Effect.orDie(dispatcher.vouch({ run: "c", n: 1, by: "operator", reason: "its pods are gone" }))
            return { before, later: yield* after(15) }
          }).pipe(Effect.scoped)
        })
      )
      expect(seen.before.attempts).toMatchObject([{ retiring: { cause: "Deleted" }, fenced: true, stopped: undefined }])
      expect(seen.before.waits).toMatch(/^an answer: .*not found/)
      expect(seen.later.attempts).toMatchObject([{ vouched: { by: "operator" } }, { n: 2, started: true }])
      expect(seen.later.waits).toBe("a report: submission 2 is Running")
    }
  )
})
