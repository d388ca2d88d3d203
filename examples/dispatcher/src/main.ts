/**
 * The dispatcher at work: two runs on a Kubeflow backend with a local one behind it, while a machine is lost, the dispatcher
 * itself starts anew, and an operator vouches for the machine.
 *
 *     npm run example                          on the served in-memory cluster, a process of its own
 *     npm run example -- --kubeconfig FILE     on a real cluster: runs are brought to their end, nothing is broken
 *     … --context NAME --namespace NAME --runtime NAME --image IMAGE
 *     … --journal FOLDER                       remembers there: killed and started again with it, it goes on
 *     … --run NAME (once or more) --ranks N    what is to be done; two runs of one rank when nothing is said
 *     … --resubmit CAUSE (once or more)        causes beside the usual ones that are worth another try
 *     … --queue LOCALQUEUE --check NAME        Kueue mode: this program answers that admission check
 *       --controller NAME                      … as the controller that the check names
 *     … --vouch RUN/N --by WHO --reason WHY    with --journal: a person's word that nothing of that submission runs any more
 *
 *     … --help
 *
 * Exit code 0: every run has succeeded, and every step was as expected; 1: not so, or a backend refused a run, or the cluster cannot
 * be reached; 2: wrong usage.
 *
 * @module
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as Process from "@dispatch-kubeflow/testkit/serve/Process"
import { machineAnnotation, programAnnotation } from "@dispatch-kubeflow/testkit/serve/Signals"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Context, Data, Effect, Exit, Layer, Logger, LogLevel, Option, Scope } from "effect"
import { parseArgs } from "node:util"
import * as CheckController from "./backends/kubeflow/CheckController.js"
import * as Kubeflow from "./backends/Kubeflow.js"
import * as Local from "./backends/Local.js"
import * as Dispatcher from "./Dispatcher.js"
import * as Files from "./Files.js"
import * as Journal from "./Journal.js"
import * as Policy from "./Policy.js"

/** What the command line asks for. */
interface Wish {
  readonly kubeconfig: string | undefined
  readonly context: string | undefined
  readonly namespace: string
  readonly runtime: string
  readonly journal: string | undefined
  readonly image: string | undefined
  readonly runs: ReadonlyArray<string>
  readonly ranks: number
  readonly policy: Policy.Policy
  readonly kueue: AdapterConfig.KueueConfig | undefined
  readonly word: Dispatcher.Word | undefined
}

/** Something did not go as expected. */
class Unexpected extends Data.TaggedError("Unexpected")<{ readonly message: string }> {}

const print = (text: string): Effect.Effect<void> => Effect.sync(() => process.stdout.write(`${text}\n`))

const describe = (happening: Dispatcher.Happening): string | undefined => {
  switch (happening._tag) {
    case "Wrote": {
      const { _tag, ...rest } = happening.entry
      if (_tag === "Accepted") return `${happening.run}: accepted`
      const shown = Object.entries(rest)
        .filter(([key, value]) => key !== "detail" && key !== "id" && !(Array.isArray(value) && value.length === 0))
        .map(([key, value]) => `${key} ${Array.isArray(value) ? value.join(" ") : String(value)}`)
      return `${happening.run}: ${_tag.toLowerCase()} ${shown.join(", ")}`
    }
    case "Waits":
      return happening.waiting.for === "a report"
        ? undefined
        : `${happening.run}: waits for ${happening.waiting.for}: ${happening.waiting.reasons.join("; ")}`
    case "Reported": {
      const { cause, n, run, state } = happening.report
      return `${run}: ${happening.backend} says that submission ${n} is ${state}${cause === undefined ? "" : ` (${cause})`}`
    }
    case "Blind":
      return `${happening.backend} cannot be watched: ${happening.reason}`
  }
}

/** Starts the served cluster as its own process; it ends with the scope. Answers the kubeconfig's path. */
const startServer = (folder: string) => {
  const kubeconfig = `${folder}/kubeconfig`
  return Effect.as(Process.start(kubeconfig, ["--nodes", "4", "--monitor-grace", "2s"], "30 seconds"), kubeconfig)
}

const connect = (kubeconfig: string, context: string | undefined) =>
  Effect.map(
    Layer.build(
      KubeApiLive.layer({
        source: KubeConfig.Source.Files({ paths: [kubeconfig] }),
        ...(context === undefined ? {} : { context })
      })
    ),
    (built) => Context.get(built, KubeApi.KubeApi)
  )

// Pods of the served cluster give a lost node up at once, and end by themselves after a while
const servedPod = {
  annotations: { [programAnnotation]: JSON.stringify({ runs: [{ after: 15_000, code: 0 }] }) },
  tolerations: ["not-ready", "unreachable"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: 1
  }))
}

/** A dispatcher over two backends, with everything it must remember in a folder. */
const start = (wish: Wish, api: KubeApi.Service, folder: string, served: boolean) =>
  Effect.gen(function* () {
    const memory = Files.layer(folder)
    const kept = yield* Layer.build(
      Layer.provide(Layer.merge(Journal.layer, EvidenceStore.layerKeyValueStore()), memory)
    )
    const { kueue, namespace } = wish
    const holder = "example-dispatcher"
    if (kueue !== undefined) yield* Effect.forkScoped(CheckController.run({ api, kueue, holder }))
    const adapter = yield* Adapter.make(AdapterConfig.make({ namespace, kueue })).pipe(
      Effect.provideService(KubeApi.KubeApi, api),
      Effect.provideService(EvidenceStore.EvidenceStore, Context.get(kept, EvidenceStore.EvidenceStore))
    )
    const kubeflow = Kubeflow.make({
      name: "kubeflow",
      runtime: wish.runtime,
      adapter,
      api,
      holder,
      ...(served ? { pod: servedPod } : {})
    })
    let told: string | undefined
    const local = yield* Local.make({ name: "local", program: () => Effect.as(Effect.sleep("1 second"), 0) })
    return yield* Dispatcher.make({
      backends: [kubeflow, local],
      onHappening: (happening) => {
        const line = describe(happening)
        // Much that is reported differs in the evidence alone
        if (line === undefined || line === told) return Effect.void
        told = line
        return print(`   ${line}`)
      }
    }).pipe(Effect.provideService(Journal.Journal, Context.get(kept, Journal.Journal)))
  })

const poll = <A, E>(ask: Effect.Effect<A, E>, holds: (answer: A) => boolean): Effect.Effect<A, E> =>
  Effect.flatMap(ask, (answer) =>
    holds(answer) ? Effect.succeed(answer) : Effect.delay(poll(ask, holds), "100 millis")
  )

const within = <A, E, R>(duration: "3 minutes" | "10 minutes", what: string, effect: Effect.Effect<A, E, R>) =>
  Effect.timeoutFail(effect, { duration, onTimeout: () => new Unexpected({ message: `${what} within ${duration}` }) })

/** Rank 0's and the others' Nodes, once all run. */
const nodesOf = (api: KubeApi.Service, namespace: string, name: string) =>
  poll(
    Effect.map(
      api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: name }) }),
      ({ items }) => items.filter((pod) => pod.status?.phase === "Running").flatMap((pod) => pod.spec?.nodeName ?? [])
    ),
    (nodes) => nodes.length === 2
  )

const expectSuccess = (dispatcher: Dispatcher.Service, run: string) =>
  Effect.flatMap(within("10 minutes", `run ${run} did not end`, dispatcher.done(run)), (end) =>
    end.outcome === "Succeeded"
      ? print(`\n${run}: ${end.outcome}, ${end.reason}`)
      : Effect.fail(new Unexpected({ message: `run ${run} is ${end.outcome}: ${end.reason}` }))
  )

/** On the served cluster: everything goes wrong once. */
const story = (wish: Wish, folder: string) =>
  Effect.gen(function* () {
    const kubeconfig = yield* startServer(folder)
    const api = yield* connect(kubeconfig, "dispatcher")
    const admin = yield* connect(kubeconfig, "admin")
    const journal = `${folder}/journal`

    yield* print("\n1. A run of two ranks is accepted")
    const first = yield* Effect.scopedWith((scope) =>
      Effect.gen(function* () {
        const dispatcher = yield* Effect.provideService(start(wish, api, journal, true), Scope.Scope, scope)
        yield* dispatcher.submit({
          run: "train",
          work: { nodes: 2 },
          policy: wish.policy,
          backends: ["kubeflow", "local"]
        })
        const nodes = yield* within("3 minutes", "two ranks did not run", nodesOf(api, wish.namespace, "train-1"))
        yield* print(`\n2. The machine ${nodes[1]} is cut off, and the dispatcher dies`)
        yield* admin.patch(
          Core.nodes,
          { name: nodes[1] ?? "" },
          { type: "merge", body: { metadata: { annotations: { [machineAnnotation]: "lost" } } } }
        )
        return nodes
      })
    )
    yield* print("\n3. It starts anew, from its journal: it must not start a second copy yet")
    const dispatcher = yield* start(wish, api, journal, true)
    const waits = poll(dispatcher.status("train"), (status) =>
      Option.exists(status, ({ waiting }) => waiting?.for === "cessation")
    )
    yield* within("3 minutes", "it did not wait for cessation", waits)
    yield* print(`\n4. An operator vouches that ${first[1]} is off`)
    yield* admin.patch(
      Core.nodes,
      { name: first[1] ?? "" },
      {
        type: "strategic",
        body: { spec: { taints: [{ key: Core.outOfServiceTaint, value: "nodeshutdown", effect: "NoExecute" }] } }
      }
    )
    yield* expectSuccess(dispatcher, "train")
    yield* print("\n5. No machine takes new pods: the next run goes to the local backend")
    const { items } = yield* admin.list(Core.nodes, {})
    for (const { metadata } of items) {
      yield* admin.patch(
        Core.nodes,
        { name: metadata.name },
        { type: "merge", body: { spec: { unschedulable: true } } }
      )
    }
    yield* dispatcher.submit({
      run: "small",
      work: { nodes: 1 },
      policy: wish.policy,
      backends: ["kubeflow", "local"]
    })
    yield* expectSuccess(dispatcher, "small")
    yield* expect("train", dispatcher, [
      ["kubeflow", "ended"],
      ["kubeflow", undefined]
    ])
    yield* expect("small", dispatcher, [
      ["kubeflow", "ended"],
      ["local", undefined]
    ])
  })

/** On which backends a run was, and by what each but the last submission was believed to have stopped. */
const expect = (
  run: string,
  dispatcher: Dispatcher.Service,
  expected: ReadonlyArray<readonly [string, "ceased" | "ended" | undefined]>
) =>
  Effect.flatMap(dispatcher.status(run), (status) => {
    const attempts = Option.match(status, { onNone: () => [], onSome: ({ record }) => record.attempts })
    const found = attempts.map(({ backend, stopped }) => [backend, stopped?.by] as const)
    return JSON.stringify(found) === JSON.stringify(expected)
      ? Effect.void
      : Effect.fail(
          new Unexpected({ message: `run ${run} went ${JSON.stringify(found)}, not ${JSON.stringify(expected)}` })
        )
  })

/** On a real cluster: runs, brought to their end. */
const real = (wish: Wish, kubeconfig: string, folder: string) =>
  Effect.gen(function* () {
    const api = yield* connect(kubeconfig, wish.context)
    const dispatcher = yield* start(wish, api, wish.journal ?? `${folder}/journal`, false)
    if (wish.word !== undefined) yield* dispatcher.vouch(wish.word)
    for (const run of wish.runs) {
      yield* dispatcher.submit({
        run,
        work: { nodes: wish.ranks, image: wish.image, command: ["sh", "-c", "echo working; sleep 5"] },
        policy: wish.policy,
        backends: ["kubeflow", "local"]
      })
    }
    yield* Effect.forEach(wish.runs, (run) => expectSuccess(dispatcher, run), { concurrency: "unbounded" })
    yield* Effect.forEach(wish.runs, (run) => expectNoRefusal(dispatcher, run))
  })

/** A run that a backend refused has succeeded elsewhere, and shows nothing of that backend. */
const expectNoRefusal = (dispatcher: Dispatcher.Service, run: string) =>
  Effect.flatMap(dispatcher.status(run), (status) => {
    const attempts = Option.match(status, { onNone: () => [], onSome: ({ record }) => record.attempts })
    const refused = attempts.find((attempt) => attempt.refused !== undefined)
    return refused === undefined
      ? Effect.void
      : Effect.fail(
          new Unexpected({
            message: `run ${run} was refused by backend ${refused.backend}, and went elsewhere: ${refused.refused?.reason ?? ""}`
          })
        )
  })

const usage = `The dispatcher at work. Without options: one story on a served in-memory cluster.

  --kubeconfig FILE     a real cluster: runs are brought to their end, nothing is broken
  --context NAME        of the kubeconfig
  --namespace NAME      default "default"
  --runtime NAME        a ClusterTrainingRuntime that obeys the rules, default "torch-conforming";
                        "dispatch-kubeflow runtime conform" makes one
  --image IMAGE         for the ranks; default the runtime's
  --run NAME            what is to be done, once or more; default two runs, "first" and "second"
  --ranks N             ranks of each run, default 1
  --resubmit CAUSE      a cause that is worth another try beside the usual ones, once or more
  --journal FOLDER      remembers there: killed and started again with it, it goes on
  --queue LOCALQUEUE    Kueue mode, with --check NAME: this program answers that admission check
  --controller NAME     … as the controller that the check names
  --vouch RUN/N         with --journal, --by WHO and --reason WHY: a person's word that nothing of that
                        submission runs any more

Exit code 0: as expected; 1: not so, or a backend refused a run, or the cluster cannot be reached; 2: wrong usage.
`

const parseWish = (): Wish | { readonly usage: string } | string => {
  const options = {
    kubeconfig: { type: "string" },
    context: { type: "string" },
    namespace: { type: "string", default: "default" },
    runtime: { type: "string", default: "torch-conforming" },
    journal: { type: "string" },
    image: { type: "string" },
    run: { type: "string", multiple: true, default: ["first", "second"] },
    ranks: { type: "string", default: "1" },
    queue: { type: "string" },
    check: { type: "string" },
    controller: { type: "string", default: "example.dispatch-kubeflow.dev/check" },
    vouch: { type: "string" },
    by: { type: "string" },
    reason: { type: "string" },
    resubmit: { type: "string", multiple: true, default: [] as Array<string> },
    help: { type: "boolean", short: "h", default: false }
  } as const
  try {
    const { values } = parseArgs({
      options: { ...options, run: { ...options.run, default: [...options.run.default] } }
    })
    if (values.help) return { usage }
    const ranks = Number(values.ranks)
    if (!Number.isInteger(ranks) || ranks < 1) return "--ranks takes a positive number"
    const { by, check, controller, journal, kubeconfig, namespace, queue, reason, vouch } = values
    if ((queue === undefined) !== (check === undefined)) return "--queue and --check go together"
    let word: Dispatcher.Word | undefined
    if (vouch !== undefined || by !== undefined || reason !== undefined) {
      const [, run, n] = /^(.+)\/([1-9][0-9]*)$/.exec(vouch ?? "") ?? []
      if (run === undefined || by === undefined || reason === undefined) {
        return "--vouch RUN/N, --by WHO and --reason WHY go together"
      }
      if (kubeconfig === undefined || journal === undefined) return "--vouch takes --kubeconfig and --journal"
      word = { run, n: Number(n), by, reason }
    }
    return {
      word,
      kueue:
        queue === undefined || check === undefined
          ? undefined
          : {
              localQueue: queue,
              admissionCheck: check,
              controllerName: controller,
              lease: { namespace, name: check }
            },
      kubeconfig,
      context: values.context,
      namespace,
      runtime: values.runtime,
      journal,
      image: values.image,
      runs: values.run,
      ranks,
      policy: {
        ...Policy.standard,
        rules: [...values.resubmit.map((cause) => ({ cause, action: "Resubmit" as const })), ...Policy.standard.rules]
      }
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const bringToAnEnd = (wish: Wish) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const folder = yield* files.makeTempDirectoryScoped({ prefix: "dispatch-kubeflow-example-" })
    yield* wish.kubeconfig === undefined ? story(wish, folder) : real(wish, wish.kubeconfig, folder)
  })

const wish = parseWish()
const program = (
  typeof wish === "string"
    ? Effect.sync(() => {
        process.stderr.write(`${wish}; see --help\n`)
        return 2
      })
    : "usage" in wish
      ? Effect.as(print(wish.usage.trimEnd()), 0)
      : Effect.as(bringToAnEnd(wish), 0)
).pipe(
  Effect.scoped,
  Effect.catchAll((error) =>
    Effect.sync((): number => {
      process.stderr.write(`Not as expected: ${error.message}\n`)
      return 1
    })
  ),
  Effect.provide(NodeContext.layer),
  Logger.withMinimumLogLevel(LogLevel.Warning)
)

NodeRuntime.runMain(program, {
  disablePrettyLogger: true,
  teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) ? Number(exit.value) : 1)
})
