/** Cases that other tools' users reported, played against the adapter in the dispatcher, with every invariant of the model test. */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import type * as Store from "@dispatch-kubeflow/testkit/Store"
import * as KueueObjects from "@dispatch-kubeflow/testkit/stages/KueueObjects"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Option } from "effect"
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
