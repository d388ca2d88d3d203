/**
 * On real kubelets and container runtimes: a log followed through everything that happens to it, and every kind of death
 * produced for real and told right. Needs `TEST_KUBECONFIG` and `TEST_REALNODE`.
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import type * as Output from "@dispatch-kubeflow/core/Output"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import { describe, expect, it, layer as suiteOver } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Schedule, Stream } from "effect"
import { readFileSync } from "node:fs"
import { provide } from "./clusters.js"
import {
  nodeControl,
  type RealNode,
  restartServer,
  serverControl,
  startNode,
  whyNoNodes,
  type Wire,
  wire
} from "./realNodes.js"
import { freshNamespace, realKubeconfig } from "./worlds.js"

interface World {
  readonly api: KubeApi.Service
  readonly adapter: Adapter.Service
  /** The same over a connection that can be cut. */
  readonly overWire: Adapter.Service
  readonly wire: Wire
  readonly namespace: string
  readonly a: RealNode
  readonly b: RealNode
  /** Everything the one watch of the namespace has told. */
  readonly updates: ReadonlyArray<Update.Update>
}

class RealWorld extends Context.Tag("@dispatch-kubeflow/k8s-live/test/RealWorld")<RealWorld, World>() {}

const runtime = (name: string, namespace: string, node: string): Fixtures.Body => ({
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  kind: "TrainingRuntime",
  metadata: { name, namespace },
  spec: {
    mlPolicy: { numNodes: 1 },
    template: {
      spec: {
        replicatedJobs: [
          {
            name: "node",
            template: {
              metadata: { labels: { [Trainer.ancestorStepLabel]: "trainer" } },
              spec: {
                backoffLimit: 0,
                podReplacementPolicy: "Failed",
                template: {
                  spec: {
                    restartPolicy: "Never",
                    terminationGracePeriodSeconds: 2,
                    nodeSelector: { "kubernetes.io/hostname": node },
                    // A lost node evicts after a second, whatever the cluster's defaults are
                    tolerations: ["unreachable", "not-ready"].map((key) => ({
                      key: `node.kubernetes.io/${key}`,
                      operator: "Exists",
                      effect: "NoExecute",
                      tolerationSeconds: 1
                    })),
                    volumes: [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }],
                    containers: [
                      {
                        name: "node",
                        image: "docker.io/local/busybox:1",
                        imagePullPolicy: "Never",
                        volumeMounts: [{ name: "scratch", mountPath: "/scratch" }]
                      }
                    ]
                  }
                }
              }
            }
          }
        ]
      }
    }
  }
})

const job = (
  name: string,
  on: "a" | "b",
  script: string,
  more: {
    readonly spec?: Fixtures.Body
    readonly numNodes?: number
    readonly labels?: Readonly<Record<string, string>>
    readonly trainer?: Fixtures.Body
  } = {}
): Fixtures.Body =>
  Fixtures.trainJob(name, {
    runtime: `on-${on}`,
    runtimeKind: "TrainingRuntime",
    numNodes: more.numNodes ?? 1,
    ...(more.labels === undefined ? {} : { labels: more.labels }),
    trainer: { command: ["sh", "-c", script], ...more.trainer },
    spec: {
      runtimePatches: [
        Fixtures.annotationPatch(AdapterConfig.patchManager, { [AdapterConfig.admissionAnnotation]: "1" })
      ],
      ...more.spec
    }
  })

const forever = "while true; do sleep 1; done"

/** Deaths that need nobody but their program. (`$$$$` is `$$` to the shell: Kubernetes expands commands.) */
const selfMade = [
  job("exits", "a", "echo hello; sleep 2; exit 3"),
  job("crashes", "a", "sleep 2; sh -c 'kill -SEGV $$$$'; exit $?"),
  job("overdue", "a", forever, { spec: { activeDeadlineSeconds: 6 } }),
  job("hoards", "a", `dd if=/dev/zero of=/scratch/x bs=1M count=8; ${forever}`)
]

const kueue: AdapterConfig.KueueConfig = {
  localQueue: "real-queue",
  admissionCheck: "none",
  controllerName: "example.com/none",
  lease: { namespace: "default", name: "none" }
}

const numbers = (count: number): string =>
  `i=0; while [ $i -lt ${count} ]; do echo "line $i of this program, padded to some length"; i=$((i+1)); ` +
  `[ $((i % 200)) = 0 ] && usleep 60000; done; true`

const world = (kubeconfig: string, program: string) =>
  Layer.scoped(
    RealWorld,
    Effect.gen(function* () {
      const context = yield* Layer.build(
        KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [kubeconfig] }) })
      )
      const api = Context.get(context, KubeApi.KubeApi)
      const config = Context.get(context, KubeConfig.KubeConfig)
      const nodes = yield* Effect.forEach(["live-a", "live-b"], (name) =>
        Effect.zipRight(
          Effect.addFinalizer(() => Effect.ignore(api.remove(Core.nodes, { name }, { propagation: "Background" }))),
          startNode(program, name)
        )
      )
      const [a, b] = nodes
      if (a === undefined || b === undefined) return yield* Effect.dieMessage("no nodes")
      const namespace = yield* freshNamespace(api, "nodes")
      yield* provide(api, [
        runtime("on-a", namespace, a.name),
        runtime("on-b", namespace, b.name),
        Fixtures.resourceFlavor(namespace),
        Fixtures.workloadPriorityClass(`${namespace}-low`, 1),
        Fixtures.workloadPriorityClass(`${namespace}-high`, 1000),
        Fixtures.clusterQueue(namespace, {
          quotas: { [namespace]: { cpu: "200m" } },
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
          withinClusterQueue: "LowerPriority"
        }),
        Fixtures.localQueue(kueue.localQueue, { clusterQueue: namespace, namespace })
      ])
      const { port } = new URL(config.server)
      const cuttable = yield* wire(Number(port))
      const text = readFileSync(kubeconfig, "utf8").replaceAll(config.server, `https://127.0.0.1:${cuttable.port}`)
      const far = yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Text({ text }) }))
      const adapterOver = (service: KubeApi.Service) =>
        Effect.gen(function* () {
          const store = yield* EvidenceStore.makeMemory()
          return yield* Adapter.make(AdapterConfig.make({ namespace, kueue })).pipe(
            Effect.provideService(KubeApi.KubeApi, service),
            Effect.provideService(EvidenceStore.EvidenceStore, store)
          )
        })
      const adapter = yield* adapterOver(api)
      const updates: Array<Update.Update> = []
      yield* Effect.forkScoped(
        Stream.runForEach(adapter.watch(Watch.namespace(namespace)), (update) =>
          Effect.sync(() => void updates.push(update))
        )
      )
      // The namespace's service account appears a moment after the namespace
      yield* Effect.forEach(selfMade, (body) =>
        Effect.retry(api.create(Trainer.trainJobs, { namespace }, body), {
          times: 50,
          schedule: Schedule.spaced("100 millis")
        })
      )
      return {
        api,
        adapter,
        overWire: yield* adapterOver(Context.get(far, KubeApi.KubeApi)),
        wire: cuttable,
        namespace,
        a,
        b,
        updates
      }
    })
  )

const until = <A>(what: string, seconds: number, look: Effect.Effect<A | undefined>): Effect.Effect<A> =>
  Effect.gen(function* () {
    for (let round = 0; round < seconds * 5; round++) {
      const found = yield* look
      if (found !== undefined) return found
      yield* Effect.sleep("200 millis")
    }
    return yield* Effect.dieMessage(`${what} did not come in ${seconds} s`)
  })

const podsOf = ({ api, namespace }: World, name: string) =>
  Effect.map(
    api.list(Core.pods, { namespace, labels: Selector.labels({ [JobSet.jobSetNameLabel]: name }) }),
    ({ items }) => items
  )

const runningPod = (its: World, name: string) =>
  until(
    `a running pod of ${name}`,
    60,
    Effect.map(Effect.orDie(podsOf(its, name)), (pods) => pods.find(({ status }) => status?.phase === "Running"))
  )

// What may be told on the way: nothing yet, not known yet, or waiting for quota
const onTheWay = new Set(["Unknown", "Held", "NoCapacity"])

/** Waits for a cause, and answers it; any other told before it is a lie. */
const causeOf = <const Tag extends Classification.Cause["_tag"]>(its: World, name: string, tag: Tag, seconds = 90) =>
  Effect.gen(function* () {
    const mine = () => its.updates.filter((update) => update.ref.name === name)
    yield* until(
      `${tag} of ${name}`,
      seconds,
      Effect.sync(() => mine().find(({ cause }) => cause?._tag === tag))
    ).pipe(Effect.catchAllDefect(() => Effect.void))
    const causes = mine().flatMap(({ cause }) => cause ?? [])
    expect(causes.map(({ _tag }) => _tag).filter((told) => !onTheWay.has(told) || told === tag)).toContain(tag)
    expect(causes.filter(({ _tag }) => _tag !== tag && !onTheWay.has(_tag))).toEqual([])
    return causes.find((cause): cause is Extract<Classification.Cause, { readonly _tag: Tag }> => cause._tag === tag)
  })

interface Reading {
  readonly lines: number
  readonly lost: number
  readonly gaps: number
  readonly wrong: ReadonlyArray<string>
  readonly end: string | undefined
}

/** Checks a numbered program's output: nothing twice, nothing out of order, nothing missing but where a gap is told. */
const makeReader = (count: number) => {
  const decoder = new TextDecoder()
  const wrong: Array<string> = []
  let rest = ""
  let next = 0
  let lines = 0
  let lost = 0
  let gaps = 0
  let told = false
  let end: string | undefined
  const line = (text: string): void => {
    const found = /^line (\d+) of this program, padded to some length$/.exec(text)
    if (found === null) return void wrong.push(`not a line: ${text}`)
    const number = Number(found[1])
    if (number < next) wrong.push(`${number} after ${next - 1}`)
    if (number > next) {
      if (!told) wrong.push(`${next} to ${number - 1} are missing and no gap was told`)
      lost += number - next
    }
    told = false
    lines += 1
    next = number + 1
  }
  return {
    push: (event: Output.RankEvent["event"]): void => {
      switch (event._tag) {
        case "Bytes": {
          const parts = (rest + decoder.decode(event.bytes, { stream: true })).split("\n")
          rest = parts.pop() ?? ""
          return parts.forEach(line)
        }
        case "Gap":
          gaps += 1
          told = true
          return
        case "Restarted":
          return void wrong.push("restarted")
        case "Failed":
          return void wrong.push(event.error.message)
        case "End":
          end = `${event.how} ${event.exitCode ?? ""}`
      }
    },
    answer: (): Reading => {
      if (rest !== "") wrong.push(`cut line: ${rest}`)
      if (next < count && !told) wrong.push(`the end from ${next} is missing and no gap was told`)
      return { lines, lost: lost + count - next, gaps, wrong, end }
    }
  }
}

const suite = (kubeconfig: string, program: string): void =>
  suiteOver(world(kubeconfig, program), { excludeTestServices: true, timeout: "180 seconds" })(
    "on real nodes",
    (it) => {
      it.scoped(
        `O02, O03, O06: numbered lines across log rotation, kubelet restarts${serverControl === undefined ? "" : ", API server restarts"} and cut connections: nothing twice, nothing lost untold; all ranks the same`,
        () =>
          Effect.gen(function* () {
            const its = yield* RealWorld
            const count = 40_000
            const ref = { namespace: its.namespace, name: "prints" }
            yield* its.api.create(
              Trainer.trainJobs,
              { namespace: its.namespace },
              job("prints", "a", numbers(count), { numNodes: 2 })
            )
            const single = makeReader(count)
            const ranks = [makeReader(count), makeReader(count)]
            const one = yield* Effect.fork(
              Stream.runForEach(its.overWire.outputEvents(ref, { follow: true, awaitPod: true }), (event) =>
                Effect.sync(() => single.push(event))
              )
            )
            const all = yield* Effect.fork(
              Stream.runForEach(its.overWire.outputRanks(ref, { follow: true, awaitPod: true }), ({ rank, event }) =>
                Effect.sync(() => ranks[rank]?.push(event))
              )
            )
            yield* runningPod(its, "prints")
            let cut = 0
            for (const act of ["cut", "kubelet", "server", "cut", "kubelet", "server", "cut"]) {
              yield* Effect.sleep("3 seconds")
              if (act === "cut") cut += yield* its.wire.cut
              else if (act === "server") {
                if (serverControl !== undefined) yield* restartServer(serverControl)
              } else {
                yield* its.a.kubelet("stop")
                yield* Effect.sleep("1 second")
                yield* its.a.kubelet("start")
              }
            }
            yield* Effect.all([Fiber.join(one), Fiber.join(all)])
            const readings = [single, ...ranks].map((reader) => reader.answer())
            yield* Effect.logInfo(`${cut} connections cut; ${JSON.stringify(readings)}`)
            expect(cut).toBeGreaterThan(0)
            for (const reading of readings) {
              expect(reading.wrong).toEqual([])
              expect(reading.end).toBe("terminated 0")
              expect(reading.lines).toBeGreaterThan(0)
            }
          }),
        180_000
      )

      it.scoped("Application: an exit code, and a signal", () =>
        Effect.gen(function* () {
          const its = yield* RealWorld
          expect(yield* causeOf(its, "exits", "Application")).toEqual({
            _tag: "Application",
            container: "node",
            exitCode: 3
          })
          expect(yield* causeOf(its, "crashes", "Application")).toEqual({
            _tag: "Application",
            container: "node",
            exitCode: 139,
            signal: 11
          })
        })
      )

      it.scoped("DeadlineExceeded of the TrainJob", () =>
        Effect.gen(function* () {
          const its = yield* RealWorld
          expect(yield* causeOf(its, "overdue", "DeadlineExceeded")).toEqual({
            _tag: "DeadlineExceeded",
            layer: "TrainJob"
          })
        })
      )

      it.scoped("Deleted by a person; Drained through the eviction API", () =>
        Effect.gen(function* () {
          const its = yield* RealWorld
          const { api, namespace } = its
          for (const name of ["deleted", "drained"]) {
            yield* api.create(Trainer.trainJobs, { namespace }, job(name, "a", forever))
          }
          const deleted = (yield* runningPod(its, "deleted")).metadata.name
          yield* api.remove(Core.pods, { namespace, name: deleted }, { propagation: "Background" })
          const drained = (yield* runningPod(its, "drained")).metadata.name
          const body = {
            apiVersion: "policy/v1",
            kind: "Eviction",
            metadata: { name: drained, namespace }
          }
          yield* api.transport.call(
            KubeRequest.make("create", Core.pods, { namespace, name: drained, subresource: "eviction", body })
          )
          expect(yield* causeOf(its, "deleted", "Deleted")).toEqual({ _tag: "Deleted", object: `Pod/${deleted}` })
          expect(yield* causeOf(its, "drained", "Drained")).toEqual({ _tag: "Drained", by: "the eviction API" })
        })
      )

      it.scoped("Preempted: Kueue stops a low priority for a high one", () =>
        Effect.gen(function* () {
          const its = yield* RealWorld
          const { api, namespace } = its
          const queued = (priority: string): Fixtures.Body =>
            job(priority, "a", forever, {
              labels: {
                "kueue.x-k8s.io/queue-name": kueue.localQueue,
                "kueue.x-k8s.io/priority-class": `${namespace}-${priority}`
              },
              trainer: { resourcesPerNode: { requests: { cpu: "150m" } } }
            })
          yield* api.create(Trainer.trainJobs, { namespace }, queued("low"))
          yield* runningPod(its, "low")
          yield* api.create(Trainer.trainJobs, { namespace }, queued("high"))
          expect(yield* causeOf(its, "low", "Preempted")).toMatchObject({ by: "kueue" })
          yield* runningPod(its, "high")
        })
      )

      it.scoped(
        "N03, N14: NodeLost: the kubelet dies, its processes run on: told as lost, kept as evidence, and never as ceased",
        () =>
          Effect.gen(function* () {
            const its = yield* RealWorld
            const { api, namespace, adapter } = its
            yield* api.create(Trainer.trainJobs, { namespace }, job("lost", "b", forever))
            const pod = yield* runningPod(its, "lost")
            yield* its.b.kubelet("stop")
            expect(yield* causeOf(its, "lost", "NodeLost", 120)).toMatchObject({ node: its.b.name })
            const ref = { namespace, name: "lost" }
            expect(yield* its.b.processes).toContain(`${namespace}/${pod.metadata.name} node`)
            const { ceased, ended } = yield* adapter.ceased(ref)
            expect({ ceased, ended }).toEqual({ ceased: false, ended: false })
            const story = yield* adapter.explain(ref)
            expect(story.now.cause).toMatchObject({ _tag: "NodeLost", node: its.b.name })
            expect(story.unknown.map(({ what }) => what)).toContain(
              `whether the processes of Pod/${pod.metadata.name} still run`
            )
            yield* its.b.kubelet("start")
          })
      )

      it.scoped(
        // A kubelet measures volumes once a minute, so this one comes last
        "K03: Evicted over its own storage limit",
        () =>
          Effect.gen(function* () {
            const its = yield* RealWorld
            expect(yield* causeOf(its, "hoards", "Evicted", 120)).toMatchObject({ ownLimit: true })
          }),
        150_000
      )
    }
  )

if (realKubeconfig === undefined || nodeControl === undefined) {
  describe("on real nodes", () => it.skip(whyNoNodes, () => undefined))
} else suite(realKubeconfig, nodeControl)
