/**
 * A whole cluster in memory: the API server with its controllers, kubelets and machines, and the back door for stories.
 * Time is the Effect Clock's, so a `TestClock` drives it: what takes no time (a TrainJob becomes running pods) happens at
 * once, back-off, batching and grace periods need `TestClock.adjust`.
 *
 * @example
 * ```ts
 * import { it } from "@effect/vitest"
 * import { Effect, TestClock } from "effect"
 * import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
 * import { TestCluster, layer } from "@dispatch-kubeflow/testkit/TestCluster"
 *
 * it.scoped("a rank fails", () =>
 *   Effect.gen(function* () {
 *     const cluster = yield* TestCluster
 *     yield* cluster.createNode("node-1")
 *     yield* cluster.create(Fixtures.torchConforming())
 *     yield* cluster.create(Fixtures.trainJob("run-1"), "default")
 *     const [pod] = yield* cluster.pods("default")
 *     yield* cluster.exit(pod!, { code: 1 })
 *     yield* TestClock.adjust("2 seconds")
 *   }).pipe(Effect.provide(layer()))
 * )
 * ```
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import { Clock, Context, Duration, Effect, Either, Layer, Option, type Scope, Stream } from "effect"
import * as Cluster from "./Cluster.js"
import type * as Rbac from "./Rbac.js"
import type { Delay, Stage, View } from "./Stage.js"
import { delayed } from "./Stage.js"
import * as Admission from "./stages/Admission.js"
import * as GarbageCollector from "./stages/GarbageCollector.js"
import * as Housekeeping from "./stages/Housekeeping.js"
import * as Job from "./stages/Job.js"
import * as JobSet from "./stages/JobSet.js"
import * as Kubelet from "./stages/Kubelet.js"
import * as Kueue from "./stages/Kueue.js"
import * as NodeLifecycle from "./stages/NodeLifecycle.js"
import * as Objects from "./stages/Objects.js"
import * as PodGc from "./stages/PodGc.js"
import * as Runner from "./stages/Runner.js"
import * as Scheduler from "./stages/Scheduler.js"
import * as Trainer from "./stages/Trainer.js"
import * as Views from "./stages/Views.js"

/** The names of the stages. */
export type StageName =
  | "trainer"
  | "jobset"
  | "job"
  | "job-ttl"
  | "scheduler"
  | "kubelet"
  | "node-lifecycle"
  | "taint-eviction"
  | "pod-gc"
  | "garbage-collector"
  | "namespace"
  | "kueue-admissioncheck"
  | "kueue-clusterqueue"
  | "kueue-localqueue"
  | "kueue-job"
  | "kueue-workload"
  | "kueue-scheduler"

/**
 * How far the clocks of those who write objects are ahead of the API server's, in milliseconds; behind it where negative,
 * which a `Duration` cannot be. It shows in the times that they write, and in what they compare with a stored time;
 * what they wait for takes as long as ever.
 */
export interface Skew {
  /** Of the controllers: a Job's start, conditions, events. */
  readonly controllers?: number
  /** Of the nodes: containers' starts and ends, logs, heartbeats, the conditions of pods and Nodes. */
  readonly kubelets?: number
}

/** What runs in the cluster. */
export interface StageOptions {
  /** Stages that do not run. */
  readonly without?: ReadonlyArray<StageName>
  /** Stages that run too; one with the name of a built-in stage takes its place. */
  readonly with?: ReadonlyArray<Stage>
  /** How much later a stage looks. */
  readonly delays?: Readonly<
    Record<string, { readonly wait?: Duration.DurationInput; readonly jitter?: Duration.DurationInput }>
  >
  /** Seeds jitter and the ids of machines. Default 1. */
  readonly seed?: number
  /** What the containers of pods do; default: run until they are told to stop, and then stop at once. */
  readonly programs?: (pod: Objects.Pod, container: string) => Kubelet.Program | undefined
  /** Lease renewal of the kubelets, 0 for none. Default 10 s. Without heartbeats no node is found lost. */
  readonly heartbeat?: Duration.DurationInput
  /** How long after the last heartbeat a node becomes Unknown. Default 50 s. */
  readonly monitorGracePeriod?: Duration.DurationInput
  /** Clocks that disagree. Default: all show the API server's time. */
  readonly skew?: Skew
  /** Whether Kueue runs, and how it is configured. Default false: its objects are types without a controller. */
  readonly kueue?: boolean | Kueue.Options
}

/** Names a pod, by its object or its name: what the machine runs of it that has the Node's name now. */
export type PodRef =
  | { readonly namespace: string; readonly name: string; readonly container?: string }
  | { readonly metadata: { readonly namespace?: string; readonly name: string; readonly uid: string } }

/** The back door. Its methods fail only where a story names something that is not there: then they die. */
export interface Service {
  /** Writes an object as the cluster's administrator; the namespace is given for namespaced kinds. */
  readonly create: (body: object, namespace?: string) => Effect.Effect<Objects.Raw>
  /** A machine with a kubelet; its Node is Ready when this returns. */
  readonly createNode: (
    name: string,
    options?: { readonly labels?: Objects.StringMap; readonly allocatable?: Objects.StringMap }
  ) => Effect.Effect<void>
  /** The node is cut off: its kubelet reports nothing, its processes run on. */
  readonly loseNode: (name: string) => Effect.Effect<void>
  /** The kubelet of a lost node is back. It registers a new Node object where there is none. */
  readonly returnNode: (name: string) => Effect.Effect<void>
  /** The machine is off: no kubelet, no process. With `former` those are off that had the name before it. */
  readonly powerOff: (name: string, options?: { readonly former?: boolean }) => Effect.Effect<void>
  /** The machine boots with a new bootID, also when it was on: no process outlives that. */
  readonly powerOn: (name: string) => Effect.Effect<void>
  /**
   * Another machine takes the name: other bootID, machineID and systemUUID, no container. Its kubelet registers into the
   * Node object where there is one. The machine before is cut off for good, and its processes run on: `processes` has them
   * as `replaced`. Everything else that names the Node or a pod is about the new machine.
   */
  readonly replaceMachine: (name: string) => Effect.Effect<void>
  /** Deletes the Node object. Kubelet and processes do not notice. */
  readonly deleteNode: (name: string) => Effect.Effect<void>
  /** An administrator vouches that the machine is off. */
  readonly taintOutOfService: (name: string, effect?: "NoExecute" | "NoSchedule") => Effect.Effect<void>
  /** A container ends by itself. `reason` for what the runtime says, e.g. `OOMKilled`. */
  readonly exit: (pod: PodRef | Kubelet.Process, ending: Kubelet.Ending) => Effect.Effect<void>
  /** Somebody kills the container's process with SIGKILL. */
  readonly killPod: (pod: PodRef | Kubelet.Process) => Effect.Effect<void>
  /** The pod's kubelet takes it off the node, e.g. for want of memory. */
  readonly evict: (pod: PodRef, eviction: Kubelet.Eviction) => Effect.Effect<void>
  /** Changes what a pod's containers do from now on. */
  readonly program: (pod: PodRef, program: Kubelet.Program) => Effect.Effect<void>
  /** A container writes lines (or any bytes) to its log, as its program would. On a replaced machine nobody can read it. */
  readonly writeLog: (pod: PodRef | Kubelet.Process, text: string) => Effect.Effect<void>
  /** The processes that run now, on whatever node, whatever the objects say. */
  readonly processes: Effect.Effect<ReadonlyArray<Kubelet.Process>>
  /** The pods of a namespace, in the order of their names. */
  readonly pods: (namespace: string) => Effect.Effect<ReadonlyArray<Objects.Pod>>
  /** One object as it is stored. */
  readonly get: <A extends Objects.Raw>(
    kind: Objects.Kind<A>,
    ref: { readonly namespace?: string; readonly name: string }
  ) => Effect.Effect<A | undefined>
  /** The objects now. */
  readonly view: Effect.Effect<View>
  /** Does all that is due at this moment of the Clock, also what other fibers react with. */
  readonly settle: Effect.Effect<void>
  /** Waits for an object to satisfy a predicate (`undefined` while it does not exist). Needs a Clock that moves. */
  readonly waitFor: <A extends Objects.Raw>(
    kind: Objects.Kind<A>,
    ref: { readonly namespace?: string; readonly name: string },
    predicate: (object: A | undefined) => boolean
  ) => Effect.Effect<A | undefined>
  /** When the next work of a stage is due, epoch milliseconds; `undefined` when nothing is. */
  readonly nextDue: Effect.Effect<number | undefined>
}

/** The service tag. */
export class TestCluster extends Context.Tag("@dispatch-kubeflow/testkit/TestCluster")<TestCluster, Service>() {}

const millis = (duration: Duration.DurationInput | undefined): number | undefined =>
  duration === undefined ? undefined : Duration.toMillis(duration)

const kueueOf = ({ kueue }: StageOptions): Kueue.Options | undefined =>
  kueue === undefined || kueue === false ? undefined : kueue === true ? {} : kueue

const builtins = (options: StageOptions, kubelet: Stage): ReadonlyArray<Stage> => [
  Trainer.stage,
  JobSet.stage,
  Job.stage,
  Housekeeping.jobTtl,
  Scheduler.stage,
  kubelet,
  NodeLifecycle.make(Objects.compact({ monitorGracePeriod: millis(options.monitorGracePeriod) })),
  NodeLifecycle.taintEviction,
  PodGc.stage,
  GarbageCollector.stage,
  Housekeeping.namespaces,
  ...Option.match(Option.fromNullable(kueueOf(options)), { onNone: () => [], onSome: Kueue.stages })
]

/** The stages of a cluster with a story's changes. */
const composed = (options: StageOptions, kubelet: Stage): ReadonlyArray<Stage & { readonly delay?: Delay }> => {
  const replaced = new Map((options.with ?? []).map((stage) => [stage.name, stage]))
  const own = builtins(options, kubelet)
  const names = new Set(own.map(({ name }) => name))
  return [
    ...own.map((stage) => replaced.get(stage.name) ?? stage),
    ...(options.with ?? []).filter(({ name }) => !names.has(name))
  ]
    .filter(({ name }) => !(options.without ?? []).some((each) => each === name))
    .map((stage) => {
      const delay = options.delays?.[stage.name]
      return delay === undefined
        ? stage
        : delayed(stage, Objects.compact({ wait: millis(delay.wait), jitter: millis(delay.jitter) }))
    })
}

/** How many times `settle` lets other fibers run after the stages have come to rest. */
const settleRounds = 20

/** How long a kubelet that has just started does not know its pods, milliseconds. */
const kubeletStart = 700

/** Starts the stages on a cluster, until the scope closes. */
export const start = (
  cluster: Cluster.Service,
  options: StageOptions = {}
): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.gen(function* () {
    const skew = { controllers: 0, kubelets: 0, ...options.skew }
    const seed = options.seed ?? 1
    const kubelet = Kubelet.make(
      Objects.compact({
        programs: options.programs,
        heartbeat: millis(options.heartbeat),
        seed,
        skew: skew.kubelets
      })
    )
    const runner = yield* Runner.start(cluster, composed(options, kubelet.stage), { seed, skew })
    const scope = yield* Effect.scope
    const view = Effect.map(cluster.state, Views.of)

    const command = (run: (now: number) => Iterable<{ readonly key: string; readonly wait?: number }>) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => runner.wake("kubelet", run(now)))

    const request = (value: KubeRequest.KubeRequest): Effect.Effect<unknown> =>
      Effect.flatMap(runner.perform(value), (answer) =>
        Either.isLeft(answer) ? Effect.die(answer.left) : Effect.succeed(answer.right)
      )

    const uidOf = (pod: PodRef | Kubelet.Process): Effect.Effect<Kubelet.PodRef> => {
      if ("podUid" in pod) {
        return Effect.succeed({ uid: pod.podUid, container: pod.container, machine: pod.machine })
      }
      if ("metadata" in pod) return Effect.succeed({ uid: pod.metadata.uid })
      return Effect.flatMap(get(Objects.pods, pod), (found) =>
        found === undefined
          ? Effect.dieMessage(`there is no pod ${pod.namespace}/${pod.name}`)
          : Effect.succeed({
              uid: found.metadata.uid,
              ...(pod.container === undefined ? {} : { container: pod.container })
            })
      )
    }

    const get: Service["get"] = (kind, ref) => Effect.map(view, (now) => now.get(kind, ref.namespace, ref.name))

    const settle: Service["settle"] = Effect.gen(function* () {
      let version = -1
      for (let quiet = 0; quiet < settleRounds; quiet++) {
        yield* runner.drain
        yield* Effect.yieldNow()
        const now = (yield* cluster.state).version
        if (now !== version) quiet = 0
        version = now
      }
    })

    const kubeletUp = (name: string) =>
      Effect.zipRight(
        cluster.kubelet(name, "starting"),
        Effect.forkIn(Effect.delay(cluster.kubelet(name, "up"), kubeletStart), scope)
      )

    const service: Service = {
      create: (body, namespace) =>
        Effect.gen(function* () {
          const { apiVersion, kind } = body as { readonly apiVersion: string; readonly kind: string }
          const type = (yield* view).kindOf(apiVersion, kind)
          if (type === undefined) return yield* Effect.dieMessage(`${apiVersion} ${kind} is not served`)
          const given = (body as { readonly metadata?: { readonly namespace?: string } }).metadata?.namespace
          const answer = yield* request(
            Objects.create(type, type.namespaced ? (namespace ?? given ?? "default") : undefined, body)
          )
          // the reply to a create is the created object
          return answer as Objects.Raw
        }),
      createNode: (name, machine = {}) => command((now) => kubelet.control.addMachine(name, machine, now)),
      loseNode: (name) =>
        Effect.zipRight(
          cluster.kubelet(name, "down"),
          command((now) => kubelet.control.stopKubelet(name, now))
        ),
      returnNode: (name) =>
        Effect.zipRight(
          kubeletUp(name),
          command((now) => kubelet.control.startKubelet(name, now))
        ),
      powerOff: (name, { former = false } = {}) =>
        former
          ? command((now) => {
              kubelet.control.powerOffFormer(name, now)
              return []
            })
          : Effect.zipRight(
              cluster.kubelet(name, "down"),
              command((now) => kubelet.control.powerOff(name, now))
            ),
      powerOn: (name) =>
        Effect.zipRight(
          kubeletUp(name),
          command((now) => kubelet.control.powerOn(name, now))
        ),
      replaceMachine: (name) =>
        kubelet.control.machines().some((machine) => machine.name === name)
          ? Effect.zipRight(
              // What was read from the machine before ends, also where its kubelet was up
              Effect.zipRight(cluster.kubelet(name, "down"), kubeletUp(name)),
              command((now) => kubelet.control.replaceMachine(name, now))
            )
          : Effect.dieMessage(`there is no machine ${name}`),
      deleteNode: (name) => request(KubeRequest.make("delete", Objects.nodes, { name })),
      taintOutOfService: (name, effect = "NoExecute") =>
        Effect.gen(function* () {
          const node = yield* get(Objects.nodes, { name })
          if (node === undefined) return yield* Effect.dieMessage(`there is no node ${name}`)
          yield* request(
            Objects.patch(Objects.nodes, node, {
              spec: {
                taints: [
                  ...(node.spec?.taints ?? []),
                  { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect }
                ]
              }
            })
          )
        }),
      exit: (pod, ending) =>
        Effect.flatMap(uidOf(pod), (ref) => command((now) => kubelet.control.exit(ref, ending, now))),
      killPod: (pod) =>
        Effect.flatMap(uidOf(pod), (ref) => command((now) => kubelet.control.exit(ref, { code: 137 }, now))),
      evict: (pod, eviction) =>
        Effect.flatMap(uidOf(pod), (ref) => command((now) => kubelet.control.evict(ref.uid, eviction, now))),
      program: (pod, program) =>
        Effect.flatMap(uidOf(pod), (ref) => command(() => kubelet.control.program(ref.uid, program))),
      writeLog: (pod, text) =>
        Effect.gen(function* () {
          if ("replaced" in pod && pod.replaced) return
          const ref = yield* uidOf(pod)
          const writer = kubelet.control.writer(ref)
          if (writer === undefined) return yield* Effect.dieMessage("the pod runs on no machine")
          yield* cluster.appendLog(
            { namespace: writer.namespace, name: writer.pod },
            { container: writer.container, text, at: (yield* Clock.currentTimeMillis) + skew.kubelets }
          )
        }),
      processes: Effect.sync(() => kubelet.control.processes()),
      pods: (namespace) => Effect.map(view, (now) => now.list(Objects.pods, namespace)),
      get,
      view,
      settle,
      waitFor: (kind, ref, predicate) =>
        Effect.gen(function* () {
          const { version } = yield* cluster.state
          const matching = Stream.concat(
            Stream.void,
            Stream.map(cluster.changes(version), () => undefined)
          ).pipe(
            Stream.mapEffect(() => get(kind, ref)),
            Stream.filter(predicate),
            Stream.runHead
          )
          return Option.getOrUndefined(yield* matching)
        }),
      nextDue: Effect.sync(runner.nextDue)
    }
    return service
  })

/** How a whole cluster is made. */
export interface Options extends StageOptions, Omit<Cluster.Options, "seed"> {
  /** Whose the `KubeApi` of the layer is; default the administrator's. */
  readonly subject?: Rbac.Subject
  /** Whether the webhooks of Trainer, JobSet and (with `kueue`) Kueue run; default true. `Cluster.Options.admission` come after them. */
  readonly webhooks?: boolean
}

/** A whole cluster: the API server, its controllers and machines, and the typed API of a subject. */
export const layer = (options: Options = {}): Layer.Layer<TestCluster | Cluster.Cluster | KubeApi> => {
  const kueue = kueueOf(options)
  const cluster = Cluster.layer({
    ...options,
    admission: [
      ...(options.webhooks === false
        ? []
        : [...(kueue === undefined ? [] : Kueue.plugins(kueue)), ...Admission.plugins]),
      ...(options.admission ?? [])
    ]
  })
  const stages = Layer.scoped(
    TestCluster,
    Effect.flatMap(Cluster.Cluster, (service) => start(service, options))
  )
  return Layer.provideMerge(Layer.merge(stages, Cluster.kubeApi(options.subject)), cluster)
}
