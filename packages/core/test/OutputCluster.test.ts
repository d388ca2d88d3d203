import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, FastCheck as fc, Fiber, Option, Stream, TestClock } from "effect"
import { at, job, jobSet, namespace, pod, trainJob } from "./ExecutionFixtures.js"

const ref = { namespace, name: "run-1" }
const rankZero = { namespace, name: "run-1-node-0-0-p0" }

type Status = "running" | "terminated"

const setUp = Effect.gen(function* () {
  const cluster = yield* Cluster.make()
  let containerID = "containerd://none"
  const seedPod = (status: Status, restartCount = 0, policy = "Never", phase?: string) =>
    cluster.seed([
      {
        apiVersion: "v1",
        kind: "Pod",
        ...pod({
          uid: "p0",
          created: 1,
          count: 1,
          restartPolicy: policy,
          status: {
            phase: phase ?? (status === "running" ? "Running" : "Succeeded"),
            containerStatuses: [
              {
                name: "node",
                restartCount,
                containerID,
                state:
                  status === "running"
                    ? { running: { startedAt: at(1) } }
                    : { terminated: { exitCode: 0, reason: "Completed", containerID, startedAt: at(1) } }
              }
            ]
          }
        })
      }
    ])
  yield* cluster.seed([
    { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } },
    { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", ...trainJob({}) },
    { apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", ...jobSet({}) },
    { apiVersion: "batch/v1", kind: "Job", ...job({ start: 0 }) }
  ])
  yield* seedPod("running")
  containerID = yield* cluster.containerId(rankZero)
  yield* seedPod("running")
  const output = yield* Effect.provideService(
    Output.make({ inPlaceRestarts: "refuse" }),
    KubeApi,
    cluster.as({ user: "system:admin", groups: ["system:masters"] })
  )
  const events: Array<Output.OutputEvent> = []
  const follow = (options: Output.Options = {}) =>
    output.outputEvents(ref, { follow: true, ...options }).pipe(
      Stream.runForEach((event) => Effect.sync(() => events.push(event))),
      Effect.either,
      Effect.fork
    )
  return { cluster, seedPod, output, events, follow }
})

/** What was delivered, cut at the gaps. */
const runs = (events: ReadonlyArray<Output.OutputEvent>): ReadonlyArray<string> => {
  const decoder = new TextDecoder()
  const result = [""]
  for (const event of events) {
    if (event._tag === "Bytes") result[result.length - 1] += decoder.decode(event.bytes)
    if (event._tag === "Gap") result.push("")
  }
  return result
}

type Command =
  | { readonly _tag: "Write"; readonly lines: number; readonly size: number; readonly stream: "stdout" | "stderr" }
  | { readonly _tag: "Rotate" }
  | { readonly _tag: "Cut"; readonly how: "broken" | "end" }
  | { readonly _tag: "KubeletDown"; readonly millis: number }
  | { readonly _tag: "Wait"; readonly millis: number }

const write: fc.Arbitrary<Command> = fc.record({
  _tag: fc.constant("Write" as const),
  lines: fc.integer({ min: 1, max: 5 }),
  size: fc.constantFrom(0, 3, 50, 16_384, 40_000),
  stream: fc.constantFrom("stdout" as const, "stderr" as const)
})
const trouble: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ _tag: fc.constant("Cut" as const), how: fc.constantFrom("broken" as const, "end" as const) }),
  fc.record({ _tag: fc.constant("KubeletDown" as const), millis: fc.constantFrom(200, 3000) }),
  fc.record({ _tag: fc.constant("Wait" as const), millis: fc.constantFrom(1, 400, 1500, 31_000) })
)
const rotate: fc.Arbitrary<Command> = fc.constant({ _tag: "Rotate" })

const run = (commands: ReadonlyArray<Command>) =>
  Effect.gen(function* () {
    const { cluster, seedPod, events, follow } = yield* setUp
    const fiber = yield* follow()
    yield* TestClock.adjust("10 millis")
    let full = ""
    let count = 0
    for (const command of commands) {
      switch (command._tag) {
        case "Write":
          for (let line = 0; line < command.lines; line++) {
            const text = `${count++} ${"x".repeat(command.size)}\n`
            full += text
            yield* cluster.appendLog(rankZero, { text, stream: command.stream })
          }
          break
        case "Rotate":
          yield* cluster.rotateLog(rankZero)
          break
        case "Cut":
          yield* cluster.disconnect({}, command.how)
          break
        case "KubeletDown":
          yield* cluster.kubelet("node-1", "down")
          yield* TestClock.adjust(command.millis)
          yield* cluster.kubelet("node-1", "up")
          break
        case "Wait":
          yield* TestClock.adjust(command.millis)
      }
    }
    full += "the end"
    yield* cluster.appendLog(rankZero, { text: "the end" })
    yield* seedPod("terminated")
    for (let round = 0; round < 12 && Option.isNone(yield* Fiber.poll(fiber)); round++)
      yield* TestClock.adjust("10 seconds")
    const result = yield* Fiber.join(fiber)
    expect(Either.isRight(result)).toBe(true)
    expect(events.at(-1)).toEqual({ _tag: "End", how: "terminated", exitCode: 0, reason: "Completed" })
    expect(yield* Effect.map(cluster.connections, (open) => open.length)).toBe(0)
    return { full, runs: runs(events) }
  })

describe("Output over a cluster", () => {
  it.effect("O02, O06: cuts, outages and silence: the delivered bytes are the log's", () =>
    Properties.assert(
      fc.array(fc.oneof({ weight: 3, arbitrary: write }, { weight: 2, arbitrary: trouble }), { maxLength: 12 }),
      (commands) =>
        Effect.map(run(commands), ({ full, runs: delivered }) => {
          expect(delivered).toEqual([full])
        }),
      30
    )
  )

  it.effect("O03: with rotations, too: what is missing lies behind a gap", () =>
    Properties.assert(
      fc.array(
        fc.oneof({ weight: 3, arbitrary: write }, { weight: 2, arbitrary: trouble }, { weight: 1, arbitrary: rotate }),
        { maxLength: 12 }
      ),
      (commands) =>
        Effect.map(run(commands), ({ full, runs: delivered }) => {
          let from = 0
          for (const [index, part] of delivered.entries()) {
            const found = full.indexOf(part, from)
            expect(found).toBeGreaterThanOrEqual(from)
            // Behind a gap output goes on at the start of a line; the first connection may come after a rotation
            if (part !== "" && found > 0 && (index > 0 || found > from)) expect(full[found - 1]).toBe("\n")
            from = found + part.length
          }
          expect(full.endsWith(delivered.at(-1) ?? "")).toBe(true)
        }),
      30
    )
  )

  it.effect("P01: get on pods/logs is no permission to read pods/log", () =>
    Effect.gen(function* () {
      const { cluster } = yield* setUp
      yield* cluster.seed([
        {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "ClusterRole",
          metadata: { name: "reader" },
          rules: [
            {
              apiGroups: ["*"],
              resources: ["trainjobs", "jobsets", "jobs", "pods", "pods/logs"],
              verbs: ["get", "list"]
            }
          ]
        },
        {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "ClusterRoleBinding",
          metadata: { name: "reader" },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "reader" },
          subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "reader" }]
        }
      ])
      const output = yield* Effect.provideService(
        Output.make({ inPlaceRestarts: "refuse" }),
        KubeApi,
        cluster.as({ user: "reader", groups: [] })
      )
      const failure = yield* Effect.flip(Stream.runDrain(output.output(ref)))
      expect(failure._tag).toBe("ErrUnsupported")
      expect(failure.message).toContain('grant verb "get" on "pods/log"')
    })
  )
})
