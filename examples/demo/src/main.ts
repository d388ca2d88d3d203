/**
 * The adapter doing its main job, as a story. The served in-memory cluster is a process of its own; everything after its
 * start goes through k8s-live and the Kubernetes API. Ends with exit code 1 if any step is not as expected.
 *
 *     npm run demo            for people
 *     npm run demo -- --json  a JSON line per step
 *
 * @module
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Render from "@dispatch-kubeflow/k8s-live/cli/Render"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Process from "@dispatch-kubeflow/testkit/serve/Process"
import { machineAnnotation, programAnnotation } from "@dispatch-kubeflow/testkit/serve/Signals"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import {
  Chunk,
  Clock,
  Context,
  Data,
  Effect,
  Exit,
  Layer,
  Logger,
  LogLevel,
  Option,
  Ref,
  Schedule,
  Schema,
  Stream
} from "effect"

const machineReadable = process.argv.includes("--json")
const isTerminal = process.stdout.isTTY
const look: Render.Look = {
  width: (isTerminal ? process.stdout.columns : 140) - 3,
  paint: paintFor({ isTerminal, noColor: (process.env["NO_COLOR"] ?? "") !== "" })
}

const indented = (text: string): string => text.replace(/^(?=.)/gm, "   ")

/** A step did not go as expected. */
class Unexpected extends Data.TaggedError("Unexpected")<{ readonly message: string }> {}

const expect = (holds: boolean, message: string): Effect.Effect<void, Unexpected> =>
  holds ? Effect.void : Effect.fail(new Unexpected({ message }))

const print = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (!machineReadable) process.stdout.write(`${text}\n`)
  })

/** Asks again and again until the answer will do. */
const poll = <A, E>(ask: Effect.Effect<A, E>, holds: (answer: A) => boolean): Effect.Effect<A, E> =>
  Effect.flatMap(ask, (answer) =>
    holds(answer) ? Effect.succeed(answer) : Effect.delay(poll(ask, holds), "50 millis")
  )

const steps = Ref.unsafeMake(0)

const chapter = (title: string): Effect.Effect<void> =>
  Effect.flatMap(
    Ref.updateAndGet(steps, (it) => it + 1),
    (number) => print(`\n${look.paint("strong", `${number}. ${title}`)}`)
  )

/** What a machine reads of a step. */
const result = (step: string, value: object): Effect.Effect<void> =>
  Effect.sync(() => {
    if (machineReadable) process.stdout.write(`${JSON.stringify({ step, ok: true, ...value })}\n`)
  })

const namespace = "default"
const lines = 40
const connectionAge = "2s"
const ref = TrainJobRef.submission(namespace, "demo", 1)

/** Starts the served cluster as its own process; it ends with the scope. Answers the kubeconfig's path. */
const startServer = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const folder = yield* files.makeTempDirectoryScoped({ prefix: "dispatch-kubeflow-demo-" })
  const kubeconfig = `${folder}/kubeconfig`
  const options = ["--nodes", "3", "--monitor-grace", "2s", "--connection-age", connectionAge]
  yield* Process.start(kubeconfig, options, "60 seconds")
  return kubeconfig
})

/** The adapter as one of the kubeconfig's users, and how often it opened rank 0's log. */
const backend = Effect.fn("demo.backend")(function* (kubeconfig: string, context: string) {
  const live = yield* Layer.build(
    KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [kubeconfig] }), context })
  )
  const logsOpened = yield* Ref.make(0)
  const api = KubeApi.transform((transport) => ({
    ...transport,
    bytes: (request) =>
      Stream.unwrap(
        Effect.as(
          Ref.update(logsOpened, (it) => it + 1),
          transport.bytes(request)
        )
      )
  }))(Context.get(live, KubeApi.KubeApi))
  const store = yield* EvidenceStore.makeMemory()
  const adapter = yield* Adapter.make(AdapterConfig.make({ namespace })).pipe(
    Effect.provideService(KubeApi.KubeApi, api),
    Effect.provideService(EvidenceStore.EvidenceStore, store)
  )
  return { api, adapter, logsOpened }
})

const clusterRole = (plural: string, kind: string) =>
  Resource.make({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    plural,
    kind,
    scope: "Cluster",
    schema: Schema.Struct({ metadata: Core.ConfigMap.fields.metadata })
  })

/** Lets a user read pods, but not their logs. */
const grantPodsWithoutLogs = (api: KubeApi.Service, user: string) =>
  Effect.zipRight(
    api.create(
      clusterRole("clusterroles", "ClusterRole"),
      {},
      { metadata: { name: "pods" }, rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] }] }
    ),
    api.create(
      clusterRole("clusterrolebindings", "ClusterRoleBinding"),
      {},
      {
        metadata: { name: "pods" },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "pods" },
        subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }]
      }
    )
  )

// Pods give a lost node up after one second instead of Kubernetes' five minutes: a demo cannot wait that long
const tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map((key) => ({
  key,
  operator: "Exists",
  effect: "NoExecute",
  tolerationSeconds: 1
}))

/** Two nodes, one admission, and a program that prints a line every 100 ms and then goes on. */
const trainJob = Fixtures.trainJob(ref.name, {
  runtime: "torch-conforming",
  numNodes: 2,
  spec: {
    runtimePatches: [
      AdapterConfig.runtimePatch({
        admission: 1,
        annotations: {
          [programAnnotation]: JSON.stringify({
            output: Array.from({ length: lines }, (_, index) => ({
              after: (index + 1) * 100,
              text: `step ${index + 1} of ${lines}\n`
            }))
          })
        },
        podSpec: { tolerations }
      })
    ]
  }
})

/** The Nodes of the ranks, once every rank runs. */
const nodesOfRanks = (api: KubeApi.Service) =>
  poll(
    Effect.map(
      api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: ref.name }) }),
      ({ items }) =>
        items
          .filter((pod) => pod.status?.phase === "Running")
          .toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name))
          .map((pod) => pod.spec?.nodeName ?? "")
    ),
    (nodes) => nodes.length === 2
  ).pipe(
    Effect.timeoutFail({
      duration: "60 seconds",
      onTimeout: () => new Unexpected({ message: "the two ranks did not run within a minute" })
    })
  )

const waitForUpdate = (
  latest: Ref.Ref<Option.Option<Update.Update>>,
  what: string,
  holds: (update: Update.Update) => boolean
): Effect.Effect<Update.Update, Unexpected> =>
  poll(Ref.get(latest), Option.exists(holds)).pipe(
    Effect.flatMap(Effect.orDie),
    Effect.timeoutFail({
      duration: "60 seconds",
      onTimeout: () => new Unexpected({ message: `no update said ${what} within a minute` })
    })
  )

const nodeStates = (verdict: CessationVerdict.Verdict): Readonly<Record<string, string>> =>
  Object.fromEntries(verdict.nodes.map(({ name, state }) => [name, state]))

const story = Effect.gen(function* () {
  const begun = yield* Clock.currentTimeMillis
  yield* chapter("A cluster is served over HTTPS by its own process")
  const kubeconfig = yield* startServer
  const admin = yield* backend(kubeconfig, "admin")
  const { adapter, api, logsOpened } = yield* backend(kubeconfig, "dispatcher")
  const version = yield* admin.api.serverVersion
  yield* print(`   Kubernetes ${version}; every open watch and log is cut after ${connectionAge}.`)
  yield* result("served", { version })

  yield* chapter("What can a dispatcher do there, and how is that known?")
  const able = yield* adapter.capabilities()
  yield* print(indented(Render.capabilities(able, look)))
  yield* expect(able.length === 14, `fourteen capabilities were expected, not ${able.length}`)
  yield* expect(CapabilityTable.find(able, "OutputRead").answer === "yes", "OutputRead should be yes")
  yield* result("capabilities", { capabilities: able })

  yield* chapter("The same question as somebody who may read pods, but not pods/log")
  yield* grantPodsWithoutLogs(admin.api, "nobody")
  const limited = yield* backend(kubeconfig, "nobody")
  const lowered = (yield* limited.adapter.capabilities()).filter(
    ({ capability }) => capability === "OutputRead" || capability === "OutputFollow"
  )
  yield* print(indented(Render.capabilities(lowered, look)))
  const read = CapabilityTable.find(lowered, "OutputRead")
  yield* expect(
    read.answer === "no" && read.source === "probed" && (read.reason ?? "").includes("pods/log"),
    "OutputRead should be a probed no that names pods/log"
  )
  yield* result("lowered", { capabilities: lowered })

  yield* chapter("A two-node TrainJob starts")
  const latest = yield* Ref.make(Option.none<Update.Update>())
  yield* Effect.forkScoped(
    Stream.runForEach(adapter.watch(Watch.ref(ref)), (update) => Ref.set(latest, Option.some(update))).pipe(
      Effect.retry({ while: (error) => error._tag === "ErrNotFound", schedule: Schedule.spaced("100 millis") })
    )
  )
  yield* api.create(Trainer.trainJobs, { namespace }, trainJob)
  const [first, second] = yield* nodesOfRanks(api)
  yield* expect(first !== undefined && second !== undefined && first !== second, "the ranks should run on two Nodes")
  const running = yield* waitForUpdate(latest, "Running", ({ state }) => state === "Running")
  yield* print(`   rank 0 runs on ${first}, rank 1 on ${second}\n${indented(Render.update(running, look))}`)
  yield* expect(running.execution === 1, "it should be execution 1")
  yield* result("started", { nodes: [first, second], update: running })

  yield* chapter("Rank 0's log is followed, across connections that the server cuts")
  const told = yield* adapter.outputLines(ref, { follow: true }).pipe(
    Stream.tap((line) => print(`   ${look.paint("dim", "|")} ${line}`)),
    Stream.take(lines),
    Stream.runCollect,
    Effect.timeoutFail({
      duration: "60 seconds",
      onTimeout: () => new Unexpected({ message: "the log was not delivered within a minute" })
    })
  )
  const expected = Array.from({ length: lines }, (_, index) => `step ${index + 1} of ${lines}`)
  yield* expect(
    Chunk.toReadonlyArray(told).join("\n") === expected.join("\n"),
    "each line of the log should come once, in order"
  )
  const connections = yield* Ref.get(logsOpened)
  yield* expect(connections > 1, "the log should have been cut at least once")
  yield* print(`   ${lines} lines, each once and in order, over ${connections} connections`)
  yield* result("followed", { lines, connections })

  yield* chapter(`The machine of rank 1 (${second}) is cut off`)
  yield* admin.api.patch(
    Core.nodes,
    { name: second ?? "" },
    { type: "merge", body: { metadata: { annotations: { [machineAnnotation]: "lost" } } } }
  )
  const lost = yield* waitForUpdate(latest, "NodeLost", ({ cause }) => cause?._tag === "NodeLost")
  yield* print(indented(Render.update(lost, look)))
  yield* expect(lost.evidence.length > 0, "the update should carry its evidence")
  yield* result("lost", { update: lost })

  yield* chapter("Is the old execution surely stopped?")
  const before = yield* adapter.ceased(ref)
  yield* print(indented(Render.cessation(ref.name, before, look)))
  yield* expect(!before.ceased, "nothing proves that it stopped: the machine may only be cut off")
  yield* expect(before.nodes.length === 2, "both Nodes should be known")
  yield* result("not ceased", { nodes: nodeStates(before) })

  yield* chapter(`An operator vouches for ${second} (out-of-service taint), and deletes Node ${first}`)
  yield* admin.api.patch(
    Core.nodes,
    { name: second ?? "" },
    {
      type: "strategic",
      body: { spec: { taints: [{ key: Core.outOfServiceTaint, value: "nodeshutdown", effect: "NoExecute" }] } }
    }
  )
  yield* admin.api.remove(Core.nodes, { name: first ?? "" }, { propagation: "Background" })
  const after = yield* adapter.ceased(ref)
  yield* print(indented(Render.cessation(ref.name, after, look)))
  yield* expect(after.ceased, "every Node is deleted or out of service")
  yield* result("ceased", { nodes: nodeStates(after) })
  yield* print(
    indented("Both are somebody's word: a taint, a deletion. What contradicts them is a caution (docs/cessation.md).")
  )

  const seconds = ((yield* Clock.currentTimeMillis) - begun) / 1000
  yield* print(`\n${look.paint("good", "Every step was as expected")}, in ${seconds.toFixed(1)} s.`)
  yield* result("end", { seconds })
})

const program = Effect.scoped(story).pipe(
  Effect.as(0),
  Effect.catchAll((error) =>
    Effect.sync((): number => {
      if (machineReadable) process.stdout.write(`${JSON.stringify({ ok: false, error: error.message })}\n`)
      process.stderr.write(`${look.paint("bad", "Not as expected:")} ${error.message}\n`)
      return 1
    })
  ),
  Effect.provide(NodeContext.layer),
  // That watches break off and go on is what the story provokes
  Logger.withMinimumLogLevel(LogLevel.Warning)
)

// A reader that goes away (`| head`) ends the story in order, so that the served cluster ends with it
process.stdout.on("error", () => process.kill(process.pid, "SIGINT"))

NodeRuntime.runMain(program, {
  disablePrettyLogger: true,
  teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) ? Number(exit.value) : 1)
})
