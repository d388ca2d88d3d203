/**
 * What every scene needs: a namespace of its own on the cluster, machines, a runtime, an adapter that watches, and patience.
 *
 * @module
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import { type Duration, Effect, Option, Ref, Schedule, Schema, type Scope, Stream } from "effect"
import * as Machine from "./Machine.js"

/** A descriptor for objects that are only written. */
export const untyped = (group: string, version: string, plural: string, kind: string, scope: Resource.Scope) =>
  Resource.make({ group, version, plural, kind, scope, schema: Schema.Struct({ ...Meta.envelope }) })

/** One namespace of the programme. */
export interface Place {
  readonly api: KubeApi.Service
  readonly namespace: string
  /** Where its pods run. */
  readonly placement: Machine.Placement
}

/** One with machines that are played. */
export interface Stage extends Place {
  readonly machines: ReadonlyArray<Machine.Machine>
}

/** Asks again until the answer will do, or the time is over: then the last answer it is. */
export const eventually = <A, E, R>(
  ask: Effect.Effect<A, E, R>,
  holds: (answer: A) => boolean,
  limit: Duration.DurationInput = "30 seconds"
): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const last = yield* Ref.make(Option.none<A>())
    const again: Effect.Effect<A, E, R> = Effect.flatMap(
      Effect.tap(ask, (answer) => Ref.set(last, Option.some(answer))),
      (answer) => (holds(answer) ? Effect.succeed(answer) : Effect.delay(again, "200 millis"))
    )
    // Finalizers wait, too, and in them nothing is interruptible by itself
    const inTime = yield* Effect.timeoutOption(Effect.interruptible(again), limit)
    if (Option.isSome(inTime)) return inTime.value
    const known = yield* Ref.get(last)
    return Option.isSome(known) ? known.value : yield* ask
  })

const runtime = "conforming"

/** A namespace with a conforming runtime whose pods find their machines so; everything goes with the scope. */
export const place = Effect.fn("e2e.place")(function* (
  api: KubeApi.Service,
  prefix: string,
  placementOf: (namespace: string) => Machine.Placement,
  image = "registry.example/train:1"
) {
  const created = yield* Effect.acquireRelease(
    api.create(
      Core.namespaces,
      {},
      { metadata: { generateName: `e2e-${prefix}-`, labels: { [Machine.machineLabel]: "" } } }
    ),
    ({ metadata: { name } }) => Effect.ignore(api.remove(Core.namespaces, { name }, { propagation: "Background" }))
  )
  const namespace = created.metadata.name
  const placement = placementOf(namespace)
  // Machines that are gone finish no deletion: without this the namespace would stay until the pod garbage collector came
  yield* Effect.addFinalizer(() => clear(api, namespace))
  yield* api.create(
    Trainer.trainingRuntimes,
    { namespace },
    Fixtures.namespacedRuntime(
      Fixtures.torchConforming(runtime, { image, pod: placement, terminationGracePeriodSeconds: 1 }),
      namespace
    )
  )
  return { api, namespace, placement }
})

/** A namespace with machines of its own that are played. */
export const stage = Effect.fn("e2e.stage")(function* (
  api: KubeApi.Service,
  prefix: string,
  machines: number,
  endpoint: Machine.Endpoint | undefined
): Effect.fn.Return<Stage, KubeError, Scope.Scope> {
  const placed = yield* place(api, prefix, Machine.placement)
  const all = yield* Effect.forEach(
    Array.from({ length: machines }, (_, index) => `${placed.namespace}-${"abcdefgh"[index] ?? index}`),
    (name) => Machine.make(api, placed.namespace, name, endpoint),
    { concurrency: "unbounded" }
  )
  return { ...placed, machines: all }
})

const clear = (api: KubeApi.Service, namespace: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const jobs = yield* api.list(Trainer.trainJobs, { namespace })
    yield* Effect.forEach(
      jobs.items,
      ({ metadata: { name } }) =>
        Effect.ignore(api.remove(Trainer.trainJobs, { namespace, name }, { propagation: "Background" })),
      { discard: true }
    )
    const pods = Effect.map(api.list(Core.pods, { namespace }), ({ items }) => items)
    const forced = Effect.flatMap(
      pods,
      Effect.forEach(({ metadata: { name } }) =>
        Effect.ignore(api.remove(Core.pods, { namespace, name }, { propagation: "Background", gracePeriodSeconds: 0 }))
      )
    )
    yield* eventually(Effect.zipRight(forced, pods), (items) => items.length === 0, "20 seconds")
  }).pipe(Effect.ignore)

/** What a TrainJob of a stage asks for. */
export interface Submission {
  readonly nodes?: number
  /** CPUs a node; machines have eight. */
  readonly cpu?: string
  /** In plain mode: the admission count that its pods carry. */
  readonly count?: number
  readonly labels?: Readonly<Record<string, string>>
  /** Of the containers, where they really run. */
  readonly command?: ReadonlyArray<string>
}

// Pods give a lost Node up after a second: nobody wants to wait Kubernetes' five minutes
const impatient = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map((key) => ({
  key,
  operator: "Exists",
  effect: "NoExecute",
  tolerationSeconds: 1
}))

/** Submits `<run>-<n>`. */
export const submit = Effect.fn("e2e.submit")(function* (
  { api, namespace, placement }: Place,
  run: string,
  n: number,
  { command, count, cpu = "1", labels, nodes = 1 }: Submission = {}
) {
  const ref = TrainJobRef.submission(namespace, run, n)
  yield* api.create(
    Trainer.trainJobs,
    { namespace },
    Fixtures.trainJob(ref.name, {
      runtime,
      runtimeKind: "TrainingRuntime",
      numNodes: nodes,
      trainer: {
        resourcesPerNode: { requests: { cpu } },
        ...(command === undefined ? {} : { command })
      },
      ...(labels === undefined ? {} : { labels }),
      spec: {
        runtimePatches: [
          AdapterConfig.runtimePatch({
            admission: count,
            podSpec: { tolerations: [...placement.tolerations, ...impatient] }
          })
        ]
      }
    })
  )
  return ref
})

/** The pods of a TrainJob, by rank. */
export const pods = ({ api, namespace }: Place, name: string) =>
  Effect.map(
    api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: name }) }),
    ({ items }) => items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  )

/** The pods of a TrainJob once so many of them run. */
export const running = (on: Place, name: string, count: number) =>
  eventually(
    Effect.map(pods(on, name), (items) => items.filter(({ status }) => status?.phase === "Running")),
    (items) => items.length === count
  )

/** The machine that a pod runs on. */
export const machineOf = ({ machines }: Stage, pod: Core.Pod | undefined): Effect.Effect<Machine.Machine> =>
  Effect.orDie(Effect.fromNullable(machines.find(({ name }) => name === pod?.spec?.nodeName)))

/** An adapter on a stage, and what its watch told last of each TrainJob. */
export interface Backend {
  readonly adapter: Adapter.Service
  readonly last: (name: string) => Effect.Effect<Update.Update | undefined>
  /** Whether the watch told an update that is so. */
  readonly told: (name: string, holds: (update: Update.Update) => boolean) => Effect.Effect<boolean>
}

/** Makes an adapter; with `watch` it watches the namespace as long as the scope lives. */
export const backend = Effect.fn("e2e.backend")(function* (
  api: KubeApi.Service,
  config: AdapterConfig.AdapterConfig,
  watch = true
) {
  const store = yield* EvidenceStore.makeMemory()
  const adapter = yield* Adapter.make(config).pipe(
    Effect.provideService(KubeApi.KubeApi, api),
    Effect.provideService(EvidenceStore.EvidenceStore, store)
  )
  const updates = yield* Ref.make<ReadonlyArray<Update.Update>>([])
  if (watch) {
    yield* Stream.runForEach(adapter.watch(Watch.namespace(config.namespace)), (update) =>
      Ref.update(updates, (before) => [...before, update])
    ).pipe(Effect.retry(Schedule.spaced("1 second")), Effect.forkScoped)
  }
  const of = (name: string) => Effect.map(Ref.get(updates), (all) => all.filter(({ ref }) => ref.name === name))
  const result: Backend = {
    adapter,
    last: (name) => Effect.map(of(name), (all) => all.at(-1)),
    told: (name, holds) => Effect.map(of(name), (all) => all.some(holds))
  }
  return result
})

/** What the watch tells of a TrainJob once it is so, in a few words. */
export const becomes = (
  { last }: Pick<Backend, "last">,
  name: string,
  holds: (update: Update.Update) => boolean,
  limit?: Duration.DurationInput
): Effect.Effect<string> =>
  Effect.map(
    eventually(last(name), (update) => update !== undefined && holds(update), limit),
    words
  )

/** An update in a few words: state, cause, execution. */
export const words = (update: Update.Update | undefined): string => {
  if (update === undefined) return "nothing was told"
  const { cause, execution, state } = update
  const why =
    cause === undefined ? [] : cause._tag === "Application" ? [`Application exit code ${cause.exitCode}`] : [cause._tag]
  return [state, ...why, ...(execution === undefined ? [] : [`execution ${execution}`])].join(", ")
}
