import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Schedule } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freshNamespace, realKubeconfig, serveForAdmin, whyLeftOut } from "../worlds.js"
import { invocationOf } from "./terminal.js"
import * as Kwok from "../kwok.js"

/** The two-node TrainJob and its runtime, the same on both clusters. */
const runtime = Fixtures.torchConforming("parity", { image: "docker.io/local/busybox:1" })
const job = Fixtures.trainJob("run-1", {
  runtime: "parity",
  runtimeKind: "TrainingRuntime",
  numNodes: 2,
  trainer: { command: ["sleep", "600"] }
})
const log = ["step 1", "step 2 ä", "", "step 3"]

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "parity-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const policy =
  "- { cause: NodeLost, action: Resubmit }\n- { cause: Preempted, action: Hold }\n- { cause: x, action: Dance }\n"

/** Runs a command line; what it prints, and its exit code. */
const run = (args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const out: Array<string> = []
    const decoder = new TextDecoder()
    const invocation = invocationOf(args)
    const code = yield* Run.run(invocation).pipe(
      Effect.provideService(Session.Terminal, {
        progress: () => Effect.void,
        out: (data) =>
          Effect.sync(() => {
            out.push(typeof data === "string" ? data : decoder.decode(data, { stream: true }))
          }),
        err: (text) =>
          Effect.sync(() => {
            out.push(`${text}\n`)
          }),
        readFile: () => Effect.succeed(policy),
        look: { width: 120, paint: paintFor({ isTerminal: false, noColor: true }) }
      })
    )
    return `${out.join("")}exit code ${code}`
  })

const commands: ReadonlyArray<ReadonlyArray<string>> = [
  ["capabilities"],
  ["capabilities", "--json"],
  ["capabilities", "--runtime", "TrainingRuntime/parity"],
  ["capabilities", "--runtime", "torch-distributed"],
  ["capabilities", "--read-only"],
  ["capabilities", "--runtime", "nope"],
  ["rules", "--policy", "policy.yaml"],
  ["rules", "--policy", "policy.yaml", "--json"],
  ["output", "run-1"],
  ["output", "run-1", "--tail", "1"],
  ["output", "run-1", "--json"],
  ["output", "run-1", "--stderr"],
  ["output", "nope"],
  ["watch", "run-1", "--once"],
  ["watch", "run-1", "--once", "--json"],
  ["watch", "nope", "--once"],
  ["watch", "--once"],
  ["ceased", "run-1"],
  ["ceased", "run-1", "--json"],
  ["ceased", "nope"]
]

/** Names and times differ from cluster to cluster; nothing else may. */
const normalise = (text: string, nodes: ReadonlyArray<string>, namespace: string): string => {
  let result = text.replaceAll(namespace, "NAMESPACE")
  for (const [index, node] of nodes.entries())
    result = result.replaceAll(new RegExp(`\\b${node}\\b`, "g"), `NODE-${index}`)
  return (
    result
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "TIME")
      .replace(/(run-1-node-0-\d)-[a-z0-9]{5}/g, "$1-xxxxx")
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UID")
      // simulated nodes of a real control plane have no kubelet that words these
      .replace(/"boot-\d+"/g, '"UID"')
      .replaceAll(',"message":"kubelet is posting ready status"', "")
      .replace(/[ ]{2,}/g, "  ")
  )
}

/** Starts the TrainJob, lets rank 0 print, and asks everything. */
const answers = (
  kubeconfig: string,
  prints: (
    api: KubeApi.Service,
    pod: { readonly namespace: string; readonly name: string }
  ) => Effect.Effect<void, unknown>
) =>
  Effect.gen(function* () {
    const live = yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [kubeconfig] }) }))
    const api = Context.get(live, KubeApi.KubeApi)
    const namespace = yield* freshNamespace(api, "parity")
    yield* api.create(Trainer.trainingRuntimes, { namespace }, { ...runtime, kind: "TrainingRuntime" })
    yield* api.create(Trainer.trainJobs, { namespace }, job)
    const pods = yield* Effect.map(
      api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: "run-1" }) }),
      ({ items }) => items
    ).pipe(
      Effect.filterOrFail((items) => items.length === 2 && items.every((pod) => pod.status?.phase === "Running")),
      Effect.retry(Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(300)))
    )
    const [first] = pods
    if (first !== undefined) yield* prints(api, { namespace, name: first.metadata.name })
    const nodes = pods.map((pod) => pod.spec?.nodeName ?? "")
    const common = ["--kubeconfig", kubeconfig, "-n", namespace]
    // the log of a simulated node takes a moment
    yield* run(["output", "run-1", ...common]).pipe(
      Effect.repeat({
        until: (text) => text.includes("step 3"),
        schedule: Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(100))
      })
    )
    const told: Record<string, string> = {}
    for (const command of commands) {
      told[command.join(" ")] = normalise(yield* run([...command, ...common]), nodes, namespace)
    }
    yield* api.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
    return told
  })

const served = Effect.gen(function* () {
  const world = yield* TestCluster.TestCluster
  yield* Effect.forEach(["node-1", "node-2"], (name) => world.createNode(name))
  const folder = yield* temporaryFolder
  const kubeconfig = join(folder, "kubeconfig")
  writeFileSync(kubeconfig, yield* serveForAdmin)
  return yield* answers(kubeconfig, (_, pod) => world.writeLog(pod, log.map((line) => `${line}\n`).join("")))
}).pipe(Effect.provide(TestCluster.layer({ objects: Fixtures.shippedRuntimes })))

const real = (kubeconfig: string) =>
  Effect.gen(function* () {
    const folder = yield* temporaryFolder
    return yield* answers(kubeconfig, (api, pod) => {
      const logsFile = join(folder, "log")
      writeFileSync(
        logsFile,
        log.map((line, index) => `2026-01-02T03:04:05.10000000${index}Z stdout F ${line}\n`).join("")
      )
      return api.create(
        Kwok.logs,
        { namespace: pod.namespace },
        { metadata: { name: pod.name }, spec: { logs: [{ containers: ["node"], logsFile, follow: true }] } }
      )
    })
  })

describe("the command line's answers for a two-node TrainJob", () => {
  it.scopedLive("on the served in-memory cluster: output, states, exit codes", () =>
    Effect.gen(function* () {
      const told = yield* served
      expect(told["output run-1"]).toBe(`step 1\nstep 2 ä\n\nstep 3\nexit code ${ExitCode.ok}`)
      expect(told["output run-1 --stderr"]).toContain(`exit code ${ExitCode.unsupported}`)
      expect(told["output nope"]).toContain(`exit code ${ExitCode.notFound}`)
      expect(told["watch run-1 --once"]).toContain("run-1  Running")
      expect(told["ceased run-1"]).toContain("has not surely ceased")
      expect(told["ceased run-1"]).toContain(`exit code ${ExitCode.no}`)
      expect(told["capabilities --runtime torch-distributed"]).toContain(`exit code ${ExitCode.unsupported}`)
      expect(told["capabilities --runtime nope"]).toContain(`exit code ${ExitCode.notFound}`)
    })
  )

  if (realKubeconfig === undefined) it.skip(`the same on a real cluster: ${whyLeftOut}`, () => undefined)
  else {
    const kubeconfig = realKubeconfig
    it.scopedLive("are the same on the served in-memory cluster and on a real one, but for names and times", () =>
      Effect.gen(function* () {
        expect(yield* served).toEqual(yield* real(kubeconfig))
      })
    )
  }
})
