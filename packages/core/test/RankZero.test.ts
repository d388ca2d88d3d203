import * as Execution from "@dispatch-kubeflow/core/decide/Execution"
import * as RankZero from "@dispatch-kubeflow/core/decide/RankZero"
import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import { at, job, jobSet, pod, type PodFields, trainJob } from "./ExecutionFixtures.js"

interface World {
  readonly trainJob?: Parameters<typeof trainJob>[0]
  readonly jobSets?: ReadonlyArray<Parameters<typeof jobSet>[0]>
  readonly jobs?: ReadonlyArray<Parameters<typeof job>[0]>
  readonly pods: ReadonlyArray<PodFields & { readonly gone?: boolean }>
}

const choose = (world: World, replicatedJob: string | undefined = "node") =>
  RankZero.choose(
    {
      trainJob: Execution.trainJobRecord(trainJob(world.trainJob ?? {})),
      jobSets: (world.jobSets ?? [{}]).map((it) => Execution.jobSetRecord(jobSet(it))),
      jobs: (world.jobs ?? [{ start: 0 }]).map((it) => Execution.jobRecord(job(it))),
      pods: world.pods.map((it) => Execution.podRecord(pod(it), it.gone ?? false))
    },
    replicatedJob
  )

const told = (answer: RankZero.Answer): string =>
  answer._tag === "Found" ? `Found ${answer.pod.uid}` : `${answer._tag}: ${answer.reason}`

describe("RankZero", () => {
  it("O12: rank 0 is completion index 0 of job index 0, whatever order the pods come in", () => {
    expect(
      told(
        choose({
          pods: [
            { uid: "b", created: 1, count: 1, index: 1 },
            { uid: "a", created: 2, count: 1, index: 0 },
            { uid: "i", created: 1, count: 1, rjob: "init", jobUid: "i" }
          ]
        })
      )
    ).toBe("Found a")
  })

  it("O13: the trainer step names the replicatedJob: the launcher under MPI, never a worker", () => {
    const mpi = jobSet({ replicatedJobs: ["node", "launcher"], trainer: ["launcher"] })
    expect(RankZero.trainerReplicatedJob("tj", [mpi], [])).toEqual(Either.right("launcher"))
    expect(
      told(
        choose(
          {
            pods: [
              { uid: "w", created: 1, count: 1 },
              { uid: "l", created: 1, count: 1, rjob: "launcher", jobUid: "l", containers: ["side", "node"] }
            ]
          },
          "launcher"
        )
      )
    ).toBe("Found l")
  })

  it("a trainer step that is missing, or not the only one, is refused with the reason", () => {
    expect(Either.isLeft(RankZero.trainerReplicatedJob("tj", [jobSet({ trainer: [] })], []))).toBe(true)
    expect(
      Either.isLeft(
        RankZero.trainerReplicatedJob("tj", [jobSet({ replicatedJobs: ["a", "b"], trainer: ["a", "b"] })], [])
      )
    ).toBe(true)
    // Another TrainJob's JobSet of that name says nothing
    expect(RankZero.trainerReplicatedJob("tj", [jobSet({ owner: "other", trainer: ["x"] })], [])).toEqual(
      Either.right(undefined)
    )
    expect(
      RankZero.trainerReplicatedJob("tj", [], [job({ rjob: "init", trainer: false }), job({ rjob: "node" })])
    ).toEqual(Either.right("node"))
  })

  it("O30: an old pod that terminates beside the new one is no question", () => {
    expect(
      told(
        choose({
          jobs: [{ start: 20 }],
          pods: [
            { uid: "new", created: 20, count: 2 },
            { uid: "old", created: 1, count: 1, deleted: 19 }
          ]
        })
      )
    ).toBe("Found new")
  })

  it("O11: the newest incarnation decides, also when only its other ranks exist yet", () => {
    const old = { uid: "old", created: 1, count: 1, jobSetUid: "js-1", jobUid: "j1" }
    expect(
      told(
        choose({
          jobSets: [{ uid: "js-1" }, { uid: "js-2" }],
          jobs: [],
          pods: [old, { uid: "peer", created: 9, count: 1, index: 1, jobSetUid: "js-2", jobUid: "j2" }]
        })
      )
    ).toBe("NoneYet: rank 0 of execution 1 has no pod yet")
  })

  it("a pod and its replacement: the newer one, and the older one is named", () => {
    const answer = choose({
      pods: [
        { uid: "a", created: 1, count: 1, phase: "Failed" },
        { uid: "b", created: 5, count: 1 }
      ]
    })
    expect(told(answer)).toBe("Found b")
    expect(answer._tag === "Found" && answer.replaced.map(({ uid }) => uid)).toEqual(["a"])
  })

  it("two pods of one second: the one that runs, else nobody", () => {
    const a = { uid: "a", created: 1, count: 1 }
    expect(told(choose({ pods: [a, { uid: "b", created: 1, count: 1, deleted: 3 }] }))).toBe("Found a")
    expect(choose({ pods: [a, { uid: "b", created: 1, count: 1 }] })._tag).toBe("Ambiguous")
  })

  it("no pod yet, held, gone: each says which", () => {
    expect(told(choose({ pods: [] }))).toBe("NoneYet: the TrainJob has no pods yet")
    expect(told(choose({ trainJob: { suspend: true }, pods: [] }))).toBe(
      "NoneYet: the TrainJob is suspended and has no pods"
    )
    expect(told(choose({ trainJob: { condition: "Failed" }, pods: [] }))).toBe(
      "Gone: the TrainJob has finished and none of its pods is left"
    )
    expect(told(choose({ pods: [{ uid: "a", created: 1, count: 3, gone: true }] }))).toBe(
      'Gone: pod "run-1-node-0-0-a" of execution 3 is deleted'
    )
    expect(told(choose({ pods: [{ uid: "b", created: 1, count: 3, index: 1, phase: "Failed" }] }))).toBe(
      "Gone: execution 3 is over and rank 0 has left no pod"
    )
  })

  it("the last execution's pod serves when it is over and its pod still exists", () => {
    expect(
      told(choose({ trainJob: { condition: "Failed" }, pods: [{ uid: "a", created: 1, count: 1, phase: "Failed" }] }))
    ).toBe("Found a")
  })

  it("a rank 0 that had succeeded before a Hold is not run again: its old log is not the new execution's", () => {
    expect(
      told(
        choose({
          jobs: [{ start: 30 }],
          pods: [
            { uid: "a", created: 1, count: 1, phase: "Succeeded" },
            { uid: "b", created: 30, count: 2, index: 1 }
          ]
        })
      )
    ).toBe('Gone: rank 0 had succeeded in execution 1 (pod "run-1-node-0-0-a"), so execution 2 runs without it')
  })

  it("a Job that is not Indexed has no rank 0", () => {
    expect(choose({ pods: [{ uid: "a", created: 1, count: 1, index: -1 }] })._tag).toBe("Ambiguous")
  })

  it("O28: the container is named, whatever its place; without it the others are listed", () => {
    const sidecar = (containers: ReadonlyArray<string>) => pod({ uid: "a", created: 1, containers })
    expect(RankZero.containerProblem(sidecar(["istio-proxy", "node"]))).toBeUndefined()
    expect(RankZero.containerProblem(sidecar(["istio-proxy", "main"]))).toBe(
      'pod "run-1-node-0-0-a" has no container "node", only istio-proxy, main'
    )
  })

  describe("containerState", () => {
    const state = (status: PodFields["status"], fields: Partial<PodFields> = {}) =>
      RankZero.containerState(pod({ uid: "a", created: 1, ...fields, ...(status === undefined ? {} : { status }) }))
    const terminated = (exitCode: number, containerID = "containerd://1") => ({
      terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", containerID, startedAt: at(1) }
    })

    it("not scheduled, waiting, running", () => {
      expect(state({ phase: "Pending" }, { nodeName: "" })).toEqual({
        _tag: "Waiting",
        reason: "the pod is not scheduled yet"
      })
      expect(
        state({
          phase: "Pending",
          containerStatuses: [{ name: "node", state: { waiting: { reason: "ContainerCreating" } } }]
        })
      ).toEqual({ _tag: "Waiting", reason: 'container "node" is waiting to start: ContainerCreating' })
      expect(
        state({
          phase: "Running",
          containerStatuses: [
            { name: "side", state: terminated(1) },
            { name: "node", containerID: "containerd://1", state: { running: { startedAt: at(3) } } }
          ]
        })._tag
      ).toBe("Running")
    })

    it("a kubelet that names no container id: instances are told apart by the restart count", () => {
      const running = (restartCount: number, containerID?: string) =>
        state({
          phase: "Running",
          containerStatuses: [
            {
              name: "node",
              restartCount,
              state: { running: { startedAt: at(3) } },
              ...(containerID === undefined ? {} : { containerID })
            }
          ]
        })
      const [a, b, c] = [running(0), running(1), running(0, "containerd://1")]
      expect([a._tag, b._tag, c._tag]).toEqual(["Running", "Running", "Running"])
      if (a._tag === "Running" && b._tag === "Running" && c._tag === "Running") {
        expect(RankZero.sameInstance(a.instance, b.instance)).toBe(false)
        expect(RankZero.sameInstance(a.instance, c.instance)).toBe(true)
      }
    })

    it("the phase lags: a terminated container of a pod that is still Running has ended", () => {
      expect(state({ phase: "Running", containerStatuses: [{ name: "node", state: terminated(17) }] })).toEqual({
        _tag: "Ended",
        instance: { containerID: "containerd://1", restartCount: 0, startedAt: at(1) },
        exitCode: 17,
        reason: "Error",
        mayRestart: false
      })
    })

    it("O24: in a crash loop the state is terminated or waiting, and the instance is the one that ended", () => {
      for (const now of [
        { state: terminated(1) },
        { state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: terminated(1) }
      ]) {
        expect(
          state(
            { phase: "Running", containerStatuses: [{ name: "node", restartCount: 2, ...now }] },
            { restartPolicy: "OnFailure" }
          )
        ).toMatchObject({ _tag: "Ended", mayRestart: true, exitCode: 1, instance: { restartCount: 2 } })
      }
      const done = { phase: "Running", containerStatuses: [{ name: "node", state: terminated(0) }] }
      expect(state(done, { restartPolicy: "OnFailure" })).toMatchObject({ mayRestart: false })
      expect(state(done, { restartPolicy: "Always" })).toMatchObject({ mayRestart: true })
      expect(state(done, { restartPolicy: "Always", deleted: 9 })).toMatchObject({ mayRestart: false })
    })

    it("never started: ContainerStatusUnknown without an id, evicted without statuses", () => {
      expect(
        state({
          phase: "Failed",
          containerStatuses: [
            { name: "node", state: { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } } }
          ]
        })
      ).toMatchObject({ _tag: "Ended", instance: undefined })
      expect(state({ phase: "Failed", reason: "Evicted", message: "The node was low on memory." })).toEqual({
        _tag: "Ended",
        instance: undefined,
        exitCode: undefined,
        reason: "Evicted: The node was low on memory.",
        mayRestart: false
      })
    })

    it("a Failed pod whose container still reads running: over, and nobody saw how", () => {
      expect(
        state({
          phase: "Failed",
          containerStatuses: [{ name: "node", containerID: "containerd://1", state: { running: { startedAt: at(1) } } }]
        })
      ).toMatchObject({ _tag: "Ended", exitCode: undefined, mayRestart: false })
    })
  })
})
