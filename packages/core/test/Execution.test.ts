import * as Execution from "@dispatch-kubeflow/core/decide/Execution"
import { parameters } from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"
import { at, job, jobSet, namespace, pod, type PodFields, trainJob } from "./ExecutionFixtures.js"

interface World {
  readonly trainJob?: Parameters<typeof trainJob>[0]
  readonly jobSets?: ReadonlyArray<Parameters<typeof jobSet>[0]>
  readonly jobs?: ReadonlyArray<Parameters<typeof job>[0]>
  readonly pods: ReadonlyArray<PodFields & { readonly gone?: boolean }>
}

const facts = (world: World): Execution.Facts => ({
  trainJob: Execution.trainJobRecord(trainJob(world.trainJob ?? {})),
  jobSets: (world.jobSets ?? [{}]).map((it) => Execution.jobSetRecord(jobSet(it))),
  jobs: (world.jobs ?? [{ start: 0 }]).map((it) => Execution.jobRecord(job(it))),
  pods: world.pods.map((it) => Execution.podRecord(pod(it), it.gone ?? false))
})

const shape = (world: World) =>
  Execution.executions(facts(world)).all.map((it) => ({
    number: it.number,
    over: it.over,
    incarnations: it.incarnations.map(({ pods }) => pods.map(({ uid }) => uid))
  }))

describe("Execution", () => {
  it("the admission count numbers executions; the highest one is current", () => {
    const world: World = {
      jobs: [{ start: 20 }],
      pods: [
        { uid: "c", created: 20, count: 2 },
        { uid: "a", created: 1, count: 1, deleted: 15, phase: "Failed" },
        { uid: "b", created: 1, count: 1, index: 1, deleted: 15 }
      ]
    }
    expect(shape(world)).toEqual([
      { number: 1, over: true, incarnations: [["a", "b"]] },
      { number: 2, over: false, incarnations: [["c"]] }
    ])
    const { current, last } = Execution.executions(facts(world))
    expect(current?.number).toBe(2)
    expect(current?.identity).toBe("injected")
    expect(last).toBe(current)
  })

  it("numbers are compared as numbers", () => {
    expect(
      shape({
        pods: [
          { uid: "ten", created: 1, count: 10 },
          { uid: "nine", created: 5, count: 9 }
        ]
      }).map(({ number }) => number)
    ).toEqual([9, 10])
  })

  it("a JobSet that is re-created runs the same number again: a second incarnation", () => {
    const world: World = {
      jobSets: [{ uid: "js-1" }, { uid: "js-2" }],
      jobs: [
        { uid: "j1", start: 1 },
        { uid: "j2", start: 30 }
      ],
      pods: [
        { uid: "new", created: 30, count: 3, jobSetUid: "js-2", jobUid: "j2" },
        { uid: "old", created: 1, count: 3, jobSetUid: "js-1", jobUid: "j1", gone: true }
      ]
    }
    const { last } = Execution.executions(facts(world))
    expect(last?.repeated).toBe(true)
    expect(last?.newest.jobSetUid).toBe("js-2")
    expect(shape(world)).toEqual([{ number: 3, over: false, incarnations: [["old"], ["new"]] }])
  })

  it("a Job's new start time makes a new incarnation of the same number (a third party un-suspended)", () => {
    const world: World = {
      jobs: [{ start: 1 }, { start: 40 }],
      pods: [
        { uid: "old", created: 2, count: 1, deleted: 30 },
        { uid: "new", created: 40, count: 1 }
      ]
    }
    expect(shape(world)).toEqual([{ number: 1, over: false, incarnations: [["old"], ["new"]] }])
    // The first start time is forgotten: the older pod is then from before what is known
    expect(shape({ ...world, jobs: [{ start: 40 }] })).toEqual(shape(world))
  })

  it("clocks that differ between controller and API server do not tear one start apart", () => {
    expect(
      shape({
        jobs: [{ start: 11 }],
        pods: [
          { uid: "a", created: 10, count: 1 },
          { uid: "b", created: 11, count: 1, index: 1 }
        ]
      })
    ).toEqual([{ number: 1, over: false, incarnations: [["a", "b"]] }])
  })

  it("Jobs of one set start one after another and are still one incarnation", () => {
    const world: World = {
      jobSets: [{ replicatedJobs: ["init", "node"] }],
      jobs: [
        { uid: "i", rjob: "init", start: 1 },
        { uid: "n", rjob: "node", start: 50 }
      ],
      pods: [
        { uid: "init", created: 1, count: 1, rjob: "init", jobUid: "i", phase: "Succeeded" },
        { uid: "node", created: 50, count: 1, jobUid: "n" }
      ]
    }
    expect(shape(world)).toEqual([{ number: 1, over: false, incarnations: [["init", "node"]] }])
  })

  it("foreign: executions are told apart by uids, restart attempt and resume time, and say so", () => {
    const world: World = {
      jobs: [{ start: 1 }, { start: 40 }],
      pods: [
        { uid: "a", created: 1, deleted: 30, phase: "Failed" },
        { uid: "b", created: 40 },
        { uid: "c", created: 60, attempt: 1 }
      ]
    }
    const { all, current } = Execution.executions(facts(world))
    expect(all.map(({ pods }) => pods.map(({ uid }) => uid))).toEqual([["a"], ["b"], ["c"]])
    expect(new Set(all.map(({ identity }) => identity))).toEqual(new Set(["inferred"]))
    expect(current?.pods[0]?.uid).toBe("c")
  })

  it("pods that another TrainJob of the same name left behind are strays", () => {
    const world: World = {
      trainJob: { uid: "tj-2", created: 100 },
      jobSets: [
        { uid: "js-2", owner: "tj-2" },
        { uid: "js-1", owner: "tj-1" }
      ],
      jobs: [],
      pods: [
        { uid: "left", created: 101, count: 7, jobSetUid: "js-1" },
        { uid: "older", created: 99, count: 8, jobSetUid: "js-0" },
        { uid: "ours", created: 101, count: 1, jobSetUid: "js-2" },
        { uid: "unseen", created: 102, count: 2, jobSetUid: "js-3" }
      ]
    }
    const result = Execution.executions(facts(world))
    expect(result.strays.map(({ uid }) => uid)).toEqual(["older", "left"])
    expect(result.all.map(({ number }) => number)).toEqual([1, 2])
  })

  it("over: every pod ended, or the TrainJob is held or done and its pods end", () => {
    const running = { uid: "a", created: 1, count: 1 }
    expect(shape({ pods: [running] })[0]?.over).toBe(false)
    expect(shape({ pods: [{ ...running, phase: "Failed" }] })[0]?.over).toBe(true)
    expect(shape({ pods: [{ ...running, gone: true }] })[0]?.over).toBe(true)
    expect(shape({ pods: [{ ...running, deleted: 5 }] })[0]?.over).toBe(false)
    expect(shape({ trainJob: { suspend: true }, pods: [{ ...running, deleted: 5 }] })[0]?.over).toBe(true)
    expect(shape({ trainJob: { condition: "Failed" }, pods: [{ ...running, deleted: 5 }] })[0]?.over).toBe(true)
    // A JobSet that was re-created after the end: something runs, whatever the condition says
    expect(shape({ trainJob: { condition: "Failed" }, pods: [running] })[0]?.over).toBe(false)
  })

  it("a count that is no count is none", () => {
    for (const text of ["", "-1", "1.5", "x", "1e3", "99999999999999999999"]) {
      expect(Execution.admissionOf({ "dispatch-kubeflow.dev/admission": text })).toBeUndefined()
    }
    expect(Execution.admissionOf({ "dispatch-kubeflow.dev/admission": "12" })).toBe(12)
  })

  const anyPod: fc.Arbitrary<PodFields & { readonly gone: boolean }> = fc
    .record({
      created: fc.nat(60),
      count: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
      index: fc.nat(2),
      rjob: fc.constantFrom("init", "node"),
      jobUid: fc.constantFrom("j1", "j2"),
      jobSetUid: fc.constantFrom("js-1", "js-2", "js-3"),
      attempt: fc.nat(2),
      phase: fc.constantFrom("Pending", "Running", "Failed", "Succeeded"),
      deleted: fc.option(fc.nat(60), { nil: undefined }),
      gone: fc.boolean()
    })
    .map(({ count, deleted, ...rest }) => ({
      ...rest,
      uid: "",
      ...(count === undefined ? {} : { count }),
      ...(deleted === undefined ? {} : { deleted })
    }))

  it("any pods, in any order: the same answer, every pod in exactly one place", () => {
    fc.assert(
      fc.property(
        fc.array(anyPod, { maxLength: 12 }),
        fc.array(fc.record({ uid: fc.constantFrom("j1", "j2"), start: fc.nat(60) }), { maxLength: 4 }),
        fc.infiniteStream(fc.nat()),
        (drafts, jobs, dice) => {
          const pods = drafts.map((it, index) => ({ ...it, uid: `p${index}` }))
          const input = facts({ trainJob: {}, jobSets: [{ uid: "js-1" }, { uid: "js-2" }], jobs, pods })
          const result = Execution.executions(input)
          const shuffled = input.pods
            .map((it) => [dice.next().value, it] as const)
            .toSorted(([a], [b]) => a - b)
            .map(([, it]) => it)
          expect(Execution.executions({ ...input, pods: shuffled, jobs: input.jobs.toReversed() })).toEqual(result)
          const placed = [...result.all.flatMap((it) => it.pods), ...result.strays].map(({ uid }) => uid)
          expect(placed.toSorted()).toEqual(input.pods.map(({ uid }) => uid).toSorted())
          for (const execution of result.all) {
            expect(execution.incarnations.flatMap((it) => it.pods)).toHaveLength(execution.pods.length)
            expect(new Set(execution.pods.map((it) => Execution.admissionOf(it.annotations)))).toEqual(
              new Set([execution.number])
            )
          }
          expect(result.all.slice(0, -1).every(({ over }) => over)).toBe(true)
        }
      ),
      parameters(1000)
    )
  })

  it("records keep what they were made from", () => {
    expect(Execution.podRecord(pod({ uid: "a", created: 1, count: 4 }))).toMatchObject({
      namespace,
      uid: "a",
      creationTimestamp: at(1),
      nodeName: "node-1",
      ownerUid: "job",
      gone: false
    })
  })
})
