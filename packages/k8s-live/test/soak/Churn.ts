/**
 * The lives of TrainJobs: each place holds one TrainJob after another, which run, are held and let go, end well or badly, or
 * are deleted. The soak plays the kubelet's part in the end of a pod; everything else is the cluster's.
 *
 * @module
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import { Effect, Fiber, Random, Schedule } from "effect"
import { rmSync } from "node:fs"
import { join } from "node:path"
import type * as Ledger from "./Ledger.js"
import * as Logs from "./Logs.js"
import * as Kwok from "../kwok.js"

/** Where and how the lives are lived. */
export interface World {
  /** The soak's own way to the cluster, apart from the adapter's. */
  readonly api: KubeApi.Service
  readonly adapter: Adapter.Service
  readonly namespace: string
  readonly ledger: Ledger.Ledger
  readonly logs: Logs.Counts
  readonly folder: string
  readonly seed: string
  /** Epoch milliseconds. */
  readonly endAt: number
  /** How long a TrainJob runs in the mean, in milliseconds. */
  readonly life: number
  /** Lines a second of each log. */
  readonly rate: number
  readonly complain: (text: string) => void
}

const runtime = "soak"

const isTransient = ({ _tag }: KubeError): boolean => _tag !== "KubeNotFound" && _tag !== "KubeConflict"

/** Tries again while the server is away; what it did without being able to say so counts as done. */
export const persist = <A>(effect: Effect.Effect<A, KubeError>): Effect.Effect<A, KubeError> =>
  Effect.retry(effect, { while: isTransient, schedule: Schedule.spaced("300 millis"), times: 300 })

const ignoreGone = (effect: Effect.Effect<unknown, KubeError>): Effect.Effect<void, KubeError> =>
  Effect.catchIf(
    persist(effect),
    ({ _tag }) => _tag === "KubeNotFound",
    () => Effect.void
  ).pipe(Effect.asVoid)

/** The runtime that all TrainJobs of the namespace name. */
export const prepare = (api: KubeApi.Service, namespace: string): Effect.Effect<void, KubeError> =>
  Effect.asVoid(
    api.create(
      Trainer.trainingRuntimes,
      { namespace },
      Fixtures.namespacedRuntime(Fixtures.torchConforming(runtime, { terminationGracePeriodSeconds: 1 }), namespace)
    )
  )

const podsOf = ({ api, namespace }: World, name: string) =>
  Effect.map(
    persist(api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: name }) })),
    ({ items }) => items.filter(({ status }) => status?.phase === "Running")
  )

const create = ({ api, namespace }: World, name: string) =>
  persist(
    Effect.catchTag(
      api.create(
        Trainer.trainJobs,
        { namespace },
        Fixtures.trainJob(name, {
          runtime,
          runtimeKind: "TrainingRuntime",
          trainer: { resourcesPerNode: { requests: { cpu: "100m" } } },
          spec: { runtimePatches: [AdapterConfig.runtimePatch({ admission: 1 })] }
        })
      ),
      "KubeConflict",
      () => api.get(Trainer.trainJobs, { namespace, name })
    )
  )

const hold = ({ api, namespace }: World, name: string, suspend: boolean) =>
  persist(api.patch(Trainer.trainJobs, { namespace, name }, { type: "merge", body: { spec: { suspend } } }))

const end = ({ api, namespace }: World, pod: Core.Pod, exitCode: number, reason: string) => {
  const at = new Date().toISOString().replace(/\.\d+Z$/, "Z")
  const conditions = ["ContainersReady", "Ready"].map((type) => ({ type, status: "False", lastTransitionTime: at }))
  const terminated = { exitCode, reason, startedAt: pod.status?.startTime ?? at, finishedAt: at }
  return persist(
    api.patch(
      Core.pods,
      { namespace, name: pod.metadata.name },
      {
        type: "strategic",
        subresource: "status",
        body: {
          status: {
            phase: exitCode === 0 ? "Succeeded" : "Failed",
            conditions,
            containerStatuses: [
              { name: "node", ready: false, started: false, state: { running: null, terminated }, restartCount: 0 }
            ]
          }
        }
      }
    )
  )
}

const endings: ReadonlyArray<readonly [reason: string, order: (code: number) => Ledger.Order, weight: number]> = [
  ["Completed", () => ({ _tag: "Succeeded" }), 0.4],
  ["Error", (exitCode) => ({ _tag: "Failed", cause: "Application", exitCode }), 0.7],
  ["OOMKilled", () => ({ _tag: "Failed", cause: "OutOfMemory", exitCode: 137 }), 0.8]
]

/** One place, until the time is over. */
export const place = (world: World, index: number, isLogged: boolean): Effect.Effect<void, KubeError> =>
  Effect.gen(function* () {
    const { api, adapter, complain, endAt, ledger, logs, namespace } = world
    const isOver = (): boolean => Date.now() >= endAt
    /** Not beyond the end. */
    const dwell = (least: number, most: number): Effect.Effect<void> =>
      Effect.flatMap(Random.nextRange(least, most), (wish) =>
        Effect.sleep(Math.max(0, Math.min(wish, endAt - Date.now())))
      )

    // Those that are there first are as old as those later on, so that from the start as many go as come
    let age = yield* Random.next
    const lifetime = (): number => world.life * age

    /** Writes a log while it is followed, and ends its container. */
    const logged = (ref: TrainJobRef.TrainJobRef, pod: Core.Pod) =>
      Effect.gen(function* () {
        const log = Logs.create(ref.name, join(world.folder, `${ref.name}.log`), logs)
        const spec = { logs: [{ containers: ["node"], logsFile: log.file, follow: true }] }
        yield* Effect.catchTag(
          persist(api.create(Kwok.logs, { namespace }, { metadata: { name: pod.metadata.name }, spec })),
          "KubeConflict",
          () => Effect.void
        )
        // It tries again itself while the server is away
        yield* Effect.catchTag(
          Kwok.served(api, { namespace, name: pod.metadata.name }, "node"),
          "KubeNotFound",
          () => Effect.void
        )
        const reader = yield* Effect.fork(Logs.follow(adapter, ref, log, logs, complain))
        // Three of four logs last to the end: they are long, and always about as many are followed
        const total =
          index % 4 === 0
            ? Math.round((yield* Random.nextRange(0.5, 1.5)) * (lifetime() / 1000) * world.rate)
            : Number.MAX_SAFE_INTEGER
        const begun = Date.now()
        while (log.written() < total && !isOver()) {
          const due = Math.floor(((Date.now() - begun) / 1000) * world.rate)
          log.append(Math.min(due, total) - log.written())
          yield* Effect.sleep("250 millis")
        }
        const told = yield* ledger.order(ref.uid ?? "", { _tag: "Succeeded" })
        yield* end(world, pod, 0, "Completed")
        yield* told
        // The reader counts itself as failed when it is interrupted
        yield* Effect.timeoutOption(Fiber.join(reader), "120 seconds")
        yield* Fiber.interrupt(reader)
        yield* ignoreGone(api.remove(Kwok.logs, { namespace, name: pod.metadata.name }, { propagation: "Background" }))
        rmSync(log.file)
        return { outcome: "Succeeded" as const }
      })

    const ended = (ref: TrainJobRef.TrainJobRef, pod: Core.Pod) =>
      Effect.gen(function* () {
        const dice = yield* Random.next
        const ending = endings.find(([, , upTo]) => dice < upTo)
        // The rest is deleted while it runs
        if (ending === undefined) return { outcome: undefined }
        const [reason, make] = ending
        const order = make(yield* Random.nextIntBetween(1, 100))
        const told = yield* ledger.order(ref.uid ?? "", order)
        yield* end(world, pod, order._tag === "Failed" ? order.exitCode : 0, reason)
        yield* told
        return { outcome: order._tag === "Failed" ? ("Failed" as const) : ("Succeeded" as const) }
      })

    /** Answers whether the TrainJob went as it should. */
    const life = (number: number) =>
      Effect.gen(function* () {
        const name = TrainJobRef.submission(namespace, `place-${index}`, number).name
        const { metadata } = yield* create(world, name)
        const ref: TrainJobRef.TrainJobRef = { namespace, name, uid: metadata.uid }
        ledger.add(metadata.uid, name)
        const becomes = (order: Ledger.Order) => Effect.flatten(ledger.order(metadata.uid, order))
        const remove = (outcome: "Succeeded" | "Failed" | undefined) =>
          Effect.gen(function* () {
            const told = yield* ledger.order(metadata.uid, { _tag: "Gone", outcome })
            yield* ignoreGone(
              api.remove(Trainer.trainJobs, { namespace, name }, { propagation: "Background", uid: metadata.uid })
            )
            yield* told
          })
        if ((yield* becomes({ _tag: "Running" })) === "undone") return yield* remove(undefined)
        if (!isLogged) {
          let parts = 1
          while (parts < 3 && (yield* Random.next) < 0.3) {
            parts += 1
            yield* dwell(1_000, lifetime() / 2 + 1_000)
            if (isOver()) return
            const held = yield* ledger.order(metadata.uid, { _tag: "Held" })
            yield* hold(world, name, true)
            if ((yield* held) === "undone") return yield* remove(undefined)
            yield* dwell(1_000, 15_000)
            if (isOver()) return
            const again = yield* ledger.order(metadata.uid, { _tag: "Running" })
            yield* hold(world, name, false)
            if ((yield* again) === "undone") return yield* remove(undefined)
          }
          yield* dwell(1_000, lifetime() * 2)
          if (isOver()) return
        }
        const [pod] = yield* podsOf(world, name)
        if (pod === undefined) {
          complain(`${name} has no pod that runs`)
          return yield* remove(undefined)
        }
        const { outcome } = yield* isLogged ? logged(ref, pod) : ended(ref, pod)
        if (isOver()) return
        if (outcome !== undefined) yield* dwell(1_000, 15_000)
        if (isOver()) return
        yield* remove(outcome)
      })

    yield* dwell(0, isLogged ? 5_000 : 30_000)
    for (let number = 1; !isOver(); number++) {
      yield* life(number)
      age = 1
    }
  }).pipe(Effect.withRandom(Random.make(`${world.seed}/${index}`)))
