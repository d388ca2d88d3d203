/**
 * Plain mode: what the adapter promises without Kueue.
 *
 * @module
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import { Effect, Fiber, Stream } from "effect"
import { Claims } from "./Claims.js"
import type * as Logs from "./Logs.js"
import * as Machine from "./Machine.js"
import * as Programme from "./Programme.js"
import type * as Subject from "./Subject.js"
import * as Table from "./Table.js"

const missing = "no TrainJob"

const failure = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>): Effect.Effect<string> =>
  Effect.match(effect, { onFailure: ({ _tag }) => _tag, onSuccess: () => "an answer" })

const outOfService = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" }

/** Plays the scene in a namespace of its own. */
export const scene = Effect.fn("e2e.plain")(function* (
  api: KubeApi.Service,
  subjects: Subject.Service,
  logs: Logs.Service | undefined
) {
  const { claim, leaveOut } = yield* Claims
  const stage = yield* Programme.stage(api, "plain", 3, logs?.endpoint)
  const { namespace } = stage
  const config = AdapterConfig.make({ namespace })
  const watching = yield* Programme.backend(api, config)
  const { adapter, last } = watching

  yield* Table.preflight("preflight", adapter)
  yield* Table.claims("capabilities", adapter, Table.plain)
  yield* Table.claims(
    "with runtime",
    adapter,
    { ProcsPerNode: "yes declared" },
    {
      runtimeRef: { kind: "TrainingRuntime", name: "conforming", apiGroup: "trainer.kubeflow.org" }
    }
  )
  yield* claim(
    "with runtime",
    "a runtime that Trainer ships breaks the rules",
    "ErrUnsupported",
    failure(adapter.capabilities({ runtimeRef: { kind: "ClusterTrainingRuntime", name: "torch-distributed" } }))
  )
  yield* claim(
    "with runtime",
    "a runtime that does not exist",
    "ErrNotFound",
    failure(adapter.capabilities({ runtimeRef: { kind: "ClusterTrainingRuntime", name: "nobody-made-this" } }))
  )
  const readOnly = yield* Programme.backend(api, AdapterConfig.make({ namespace, access: "read-only" }), false)
  yield* Table.claims("read-only", readOnly.adapter, { Hold: "unknown declared" })
  const limited = yield* subjects.withoutLogs(namespace)
  const lowered = yield* Programme.backend(limited, config, false)
  yield* Table.claims("no pods/log", lowered.adapter, { OutputRead: "no probed", OutputFollow: "no probed" })
  yield* Table.rules("rules", adapter)

  const ref = yield* Programme.submit(stage, "run", 1, { nodes: 2, cpu: "5", count: 1 })
  const ranks = yield* Programme.running(stage, ref.name, 2)
  yield* claim(
    "watch",
    "a TrainJob whose two ranks run",
    "Running, execution 1",
    Programme.becomes(watching, ref.name, (it) => it.state === "Running")
  )

  const [first] = ranks
  if (logs === undefined || first === undefined) {
    yield* leaveOut("output", "rank 0's log", "nothing on this cluster can write the log of a machine that is played")
  } else {
    const log = yield* logs.of(namespace, first.metadata.name)
    yield* log.append("step 1\nstep 2 ä\n\n")
    const read = Stream.runFold(adapter.outputLines(ref), "", (text, line) => `${text}${line}|`)
    yield* claim(
      "output",
      "what rank 0 printed so far",
      "step 1|step 2 ä||",
      Programme.eventually(read, (text) => text.endsWith("||"), "10 seconds")
    )
    const follow = yield* Effect.fork(
      adapter.outputLines(ref, { follow: true, tailLines: 1 }).pipe(
        Stream.take(3),
        Stream.runFold("", (text, line) => `${text}${line}|`)
      )
    )
    yield* Effect.sleep("1 second")
    yield* log.append("step 3\nstep 4\n")
    yield* claim(
      "output",
      "what it prints while it is followed",
      "|step 3|step 4|",
      Effect.map(Effect.timeoutOption(Fiber.join(follow), "20 seconds"), (text) =>
        text._tag === "Some" ? text.value : "nothing in 20 s"
      )
    )
  }
  yield* claim(
    "output",
    "standard error apart from standard output",
    "ErrUnsupported",
    failure(Stream.runDrain(adapter.output(ref, { stream: "Stderr" })))
  )
  const stranger = TrainJobRef.submission(namespace, "nobody", 1)
  yield* claim("output", missing, "ErrNotFound", failure(Stream.runDrain(adapter.output(stranger))))
  yield* claim("cessation", missing, "ErrNotFound", failure(adapter.ceased(stranger)))

  for (const [run, ending, expected] of [
    ["crash", { exitCode: 3, reason: "Error" }, "Failed, Application exit code 3, execution 1"],
    ["memory", { exitCode: 137, reason: "OOMKilled" }, "Failed, OutOfMemory, execution 1"],
    ["good", { exitCode: 0, reason: "Completed" }, "Succeeded, execution 1"]
  ] as const) {
    const job = yield* Programme.submit(stage, run, 1, { count: 1 })
    const [pod] = yield* Programme.running(stage, job.name, 1)
    const machine = yield* Programme.machineOf(stage, pod)
    if (pod !== undefined) yield* machine.end(pod, ending)
    yield* claim(
      "watch",
      `a container that ends with ${ending.exitCode} (${ending.reason})`,
      expected,
      Programme.becomes(watching, job.name, (it) => it.outcome !== undefined)
    )
  }
  const deleted = yield* Programme.submit(stage, "deleted", 1, { count: 1 })
  yield* Programme.running(stage, deleted.name, 1)
  yield* api.remove(Trainer.trainJobs, deleted, { propagation: "Background" })
  yield* claim(
    "watch",
    "a TrainJob that somebody deletes while it runs",
    "Gone, Deleted, execution 1",
    Programme.becomes(watching, deleted.name, (it) => it.state === "Gone")
  )

  const verdict = Effect.map(
    adapter.ceased(ref),
    ({ ceased, nodes }) =>
      `${ceased ? "ceased" : "not ceased"}: ${ranks.map(({ spec }) => nodes.find(({ name }) => name === spec?.nodeName)?.state ?? "unknown").join(", ")}`
  )
  yield* claim("cessation", "while both ranks run", "not ceased: ready, ready", verdict)
  const [zero, one] = yield* Effect.forEach(ranks, (pod) => Programme.machineOf(stage, pod))
  if (zero === undefined || one === undefined) return
  yield* one.cutOff
  yield* claim(
    "watch",
    "the Node of rank 1 is lost",
    "NodeLost, execution 1",
    Effect.map(
      Programme.becomes(watching, ref.name, (it) => it.cause?._tag === "NodeLost", "120 seconds"),
      (text) => text.replace(/^\w+, /, "")
    )
  )
  yield* claim(
    "watch",
    "and the evidence is kept",
    "a Node's Ready condition",
    Effect.map(last(ref.name), (it) =>
      it?.evidence.some(({ field, object }) => object === `Node/${one.name}` && field.includes("Ready")) === true
        ? "a Node's Ready condition"
        : JSON.stringify(it?.evidence ?? [])
    )
  )
  yield* claim("cessation", "with rank 1's Node lost", "not ceased: ready, not-ready", verdict)
  yield* api.patch(Core.nodes, { name: one.name }, { type: "strategic", body: { spec: { taints: [outOfService] } } })
  yield* claim("cessation", "an operator vouches for it (out-of-service)", "not ceased: ready, out-of-service", verdict)
  yield* zero.cutOff
  yield* api.remove(Core.nodes, { name: zero.name }, { propagation: "Background" })
  yield* claim("cessation", "and the other Node is deleted", "ceased: deleted, out-of-service", verdict)
  yield* Effect.scoped(
    Effect.zipRight(
      Machine.make(api, namespace, zero.name, logs?.endpoint),
      claim("cessation", "another machine comes under its name", "not ceased: replaced, out-of-service", verdict)
    )
  )
})
