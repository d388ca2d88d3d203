/**
 * Random histories of a TrainJob under a watch that is disturbed at random, and an oracle that knows what was done: whatever
 * the watch tells must be a cause that there was, or Unknown with what was not seen.
 */
import * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Faults from "@dispatch-kubeflow/testkit/Faults"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import * as VirtualTime from "@dispatch-kubeflow/testkit/VirtualTime"
import { isDeepStrictEqual } from "node:util"
import { Cause, Clock, Data, Effect, Exit, FastCheck, Option, Schema, Stream } from "effect"

const encodeEvidence = Schema.encodeSync(Evidence.Evidence)
const written = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const namespace = "default"
const name = "run-1"
const image = "unreachable.example/train:1"

// The taint manager's mark on a pod does not say which taint it was
const unseenTaint = "a NoExecute taint that was not seen"

type Tag = Classification.Cause["_tag"]

/** What is done to the job, its pods or their machines. Numbers choose among what there is. */
export type Harm =
  | { readonly _tag: "Crash"; readonly pod: number; readonly code: number }
  | { readonly _tag: "OutOfMemory"; readonly pod: number; readonly code: number }
  | { readonly _tag: "DeletePod"; readonly pod: number; readonly force: boolean }
  | { readonly _tag: "Evict" | "Pressure" | "OwnLimit"; readonly pod: number }
  | { readonly _tag: "Drain" | "Lose" | "PowerOff" | "DeleteNode" | "OutOfService"; readonly pod: number }
  | { readonly _tag: "DeleteTrainJob"; readonly propagation: "Foreground" | "Background" }
  | { readonly _tag: "DeleteJobSet" | "Preempt" | "Suspend" | "Succeed" }

/** What hinders the watch, from a moment on and for as long. */
export type Hindrance =
  | { readonly _tag: "Partition"; readonly millis: number }
  | { readonly _tag: "Cut"; readonly how: "broken" | "end" }
  | { readonly _tag: "Compact" }

/** One thing after another; times in milliseconds since the one before. */
export type Step = { readonly after: number } & (
  | { readonly what: "harm"; readonly harm: Harm }
  | { readonly what: "hindrance"; readonly hindrance: Hindrance }
)

/** A history and the world in which it happens. */
export interface History {
  readonly seed: number
  readonly nodes: number
  /** With Kueue, and a queue that has room for this job alone. */
  readonly kueue: boolean
  readonly deadline: number | undefined
  /** The second rank's image cannot be pulled. */
  readonly badImage: boolean
  /** Programs take SIGTERM for a wish. */
  readonly stubborn: boolean
  readonly faults: Faults.Plan
  readonly steps: ReadonlyArray<Step>
}

/** A wrong answer, as sentences. */
export class Wrong extends Data.TaggedError("Wrong")<{ readonly wrongs: ReadonlyArray<string> }> {
  override get message(): string {
    return this.wrongs.join("\n    ")
  }
}

// ---- arbitraries

const pod = FastCheck.nat(3)
const one = FastCheck.constant

const harm: FastCheck.Arbitrary<Harm> = FastCheck.oneof(
  {
    weight: 4,
    arbitrary: FastCheck.record({
      _tag: one("Crash" as const),
      pod,
      code: FastCheck.constantFrom(1, 2, 42, 134, 137, 139, 143)
    })
  },
  {
    weight: 2,
    arbitrary: FastCheck.record({ _tag: one("OutOfMemory" as const), pod, code: FastCheck.constantFrom(137, 1) })
  },
  {
    weight: 3,
    arbitrary: FastCheck.record({ _tag: one("DeletePod" as const), pod, force: FastCheck.boolean() })
  },
  {
    weight: 4,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom("Evict" as const, "Pressure" as const, "OwnLimit" as const),
      pod
    })
  },
  {
    weight: 6,
    arbitrary: FastCheck.record({
      _tag: FastCheck.constantFrom(
        "Drain" as const,
        "Lose" as const,
        "PowerOff" as const,
        "DeleteNode" as const,
        "OutOfService" as const
      ),
      pod
    })
  },
  {
    weight: 2,
    arbitrary: FastCheck.record({
      _tag: one("DeleteTrainJob" as const),
      propagation: FastCheck.constantFrom("Foreground" as const, "Background" as const)
    })
  },
  {
    weight: 6,
    arbitrary: FastCheck.constantFrom<Harm>(
      { _tag: "DeleteJobSet" },
      { _tag: "Preempt" },
      { _tag: "Preempt" },
      { _tag: "Suspend" },
      { _tag: "Succeed" }
    )
  }
)

const hindrance: FastCheck.Arbitrary<Hindrance> = FastCheck.oneof(
  FastCheck.record({ _tag: one("Partition" as const), millis: FastCheck.constantFrom(500, 5000, 60_000) }),
  FastCheck.record({ _tag: one("Cut" as const), how: FastCheck.constantFrom("broken" as const, "end" as const) }),
  one<Hindrance>({ _tag: "Compact" })
)

const after = FastCheck.constantFrom(0, 3, 50, 700, 3000, 20_000, 90_000)

const step: FastCheck.Arbitrary<Step> = FastCheck.oneof(
  { weight: 3, arbitrary: FastCheck.record({ after, what: one("harm" as const), harm }) },
  { weight: 2, arbitrary: FastCheck.record({ after, what: one("hindrance" as const), hindrance }) }
)

const count = FastCheck.nat(6)
const kinds = FastCheck.constantFrom("pods", "jobs", "jobsets", "trainjobs", "workloads", "events")

const fault: FastCheck.Arbitrary<Faults.Rule> = FastCheck.tuple(
  kinds,
  FastCheck.oneof<Array<FastCheck.Arbitrary<Faults.Fault>>>(
    FastCheck.record({ _tag: one("cut" as const), after: count }),
    FastCheck.record({ _tag: one("end" as const), after: count }),
    FastCheck.record({ _tag: one("silence" as const), after: count }),
    FastCheck.record({ _tag: one("garble" as const), after: count }),
    FastCheck.record({
      _tag: one("expire" as const),
      shape: FastCheck.constantFrom("status" as const, "frame" as const),
      after: count
    }),
    one<Faults.Fault>({ _tag: "duplicate", times: 2 }),
    one<Faults.Fault>({ _tag: "slow", duration: "400 millis" })
  ),
  FastCheck.oneof<Array<FastCheck.Arbitrary<Faults.Often>>>(
    one<Faults.Often>("once"),
    FastCheck.record({ times: FastCheck.integer({ min: 2, max: 4 }) }),
    FastCheck.record({ probability: FastCheck.constantFrom(0.2, 0.5) })
  )
).map(([plural, what, often]) => Faults.rule({ verb: "watch", plural }, what, often))

/** Histories: mostly one thing that goes wrong, in a watch that mostly sees it. */
export const history: FastCheck.Arbitrary<History> = FastCheck.record({
  seed: FastCheck.integer({ min: 1, max: 1000 }),
  nodes: FastCheck.constantFrom(1, 2, 2, 3),
  kueue: FastCheck.oneof({ weight: 3, arbitrary: one(false) }, { weight: 1, arbitrary: one(true) }),
  deadline: FastCheck.oneof(
    { weight: 5, arbitrary: one(undefined) },
    { weight: 1, arbitrary: FastCheck.constantFrom(5, 60) }
  ),
  badImage: FastCheck.oneof({ weight: 11, arbitrary: one(false) }, { weight: 1, arbitrary: one(true) }),
  stubborn: FastCheck.boolean(),
  faults: FastCheck.array(fault, { maxLength: 3 }),
  steps: FastCheck.array(step, { minLength: 1, maxLength: 4 })
}).map((it) => ({ ...it, [FastCheck.toStringMethod]: () => JSON.stringify(it, undefined, 1) }))

// ---- the world

const runtime = Fixtures.torchConforming("torch-conforming", {
  pod: { ...Fixtures.tolerationSeconds(5), ...Fixtures.oneRankPerNode }
})

const kueueConfig = {
  localQueue: "train",
  admissionCheck: "none",
  controllerName: "example.com/none",
  lease: { namespace, name: "none" }
}

const options = (it: History): TestCluster.Options => ({
  seed: it.seed,
  kueue: it.kueue,
  monitorGracePeriod: "20 seconds",
  programs: (pod) => {
    const rank = pod.metadata.labels?.["batch.kubernetes.io/job-completion-index"]
    const mine = pod.metadata.labels?.[JobSet.jobSetNameLabel] === name
    if (it.badImage && mine && rank === String(Math.min(1, it.nodes - 1))) {
      return { waiting: { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}"` } }
    }
    return it.stubborn ? { onTerm: "ignore" as const } : {}
  }
})

const body = (it: History): Fixtures.Body =>
  Fixtures.trainJob(name, {
    numNodes: it.nodes,
    trainer: { resourcesPerNode: { requests: { cpu: "1" } } },
    labels: it.kueue ? { "kueue.x-k8s.io/queue-name": "train", "kueue.x-k8s.io/priority-class": "low" } : {},
    spec: {
      ...(it.deadline === undefined ? {} : { activeDeadlineSeconds: it.deadline }),
      runtimePatches: [
        Fixtures.annotationPatch("dispatch-kubeflow.dev/adapter", { "dispatch-kubeflow.dev/admission": "1" })
      ]
    }
  })

/** Causes that there were, and since when; and how it ended in truth. */
interface Truth {
  readonly marks: Array<{ readonly tag: Tag; readonly at: number; readonly what: string }>
  terminal: { readonly type: "Complete" | "Failed"; readonly reason: string; readonly at: number } | undefined
  gone: boolean
}

/** Plays a history; fails with everything that was told wrong. */
export const play = (it: History) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const machines = yield* TestCluster.TestCluster
    const store = yield* EvidenceStore.EvidenceStore
    const time = yield* VirtualTime.VirtualTime
    const { admin } = cluster
    const wrongs: Array<string> = []
    const truth: Truth = { marks: [], terminal: undefined, gone: false }
    const born = new Map<string, string>()

    if (it.kueue) {
      yield* machines.create(Fixtures.workloadPriorityClass("low", 10))
      yield* machines.create(Fixtures.workloadPriorityClass("high", 100))
      yield* machines.create(Fixtures.resourceFlavor("default"))
      yield* machines.create(
        Fixtures.clusterQueue("queue", {
          quotas: { default: { cpu: String(it.nodes) } },
          withinClusterQueue: "LowerPriority"
        })
      )
      yield* machines.create(Fixtures.localQueue("train", { clusterQueue: "queue" }), namespace)
    }
    yield* machines.create(runtime)
    for (let node = 1; node <= it.nodes + 1; node += 1) yield* machines.createNode(`n${node}`)

    yield* Effect.forkScoped(
      Stream.runForEach(cluster.changes(0), ({ object: raw, type }) =>
        Effect.gen(function* () {
          const object = raw as unknown as Objects.Raw
          if (Objects.is(Objects.pods, object) && type === "ADDED") {
            if (object.metadata.labels?.[JobSet.jobSetNameLabel] === name) {
              born.set(object.metadata.uid, object.metadata.name)
            }
          }
          if (!Objects.is(Objects.trainJobs, object) || object.metadata.name !== name) return
          const over = object.status?.conditions?.find(
            ({ status, type: is }) => status === "True" && (is === "Complete" || is === "Failed")
          )
          const at = yield* Clock.currentTimeMillis
          if (over !== undefined && truth.terminal === undefined) {
            truth.terminal = { type: over.type === "Complete" ? "Complete" : "Failed", reason: over.reason ?? "", at }
            if (over.reason === "DeadlineExceeded")
              truth.marks.push({ tag: "DeadlineExceeded", at, what: "its deadline" })
          }
          if (type === "DELETED") truth.gone = true
        })
      )
    )

    // ---- the watch, and what hinders it
    let partitioned = false
    const faults = yield* Faults.make(it.faults, { seed: it.seed })
    const user = Rbac.user("watcher", ["system:masters"])
    const transport = faults.transform(cluster.transport(user))
    const down = (request: KubeRequest.KubeRequest) =>
      new KubeUnavailable({ request: KubeRequest.withoutBody(request), phase: "connect", detail: "partitioned" })
    const api = KubeApi.make({
      call: (request) => Effect.suspend(() => (partitioned ? Effect.fail(down(request)) : transport.call(request))),
      watch: (request) => Stream.suspend(() => (partitioned ? Stream.fail(down(request)) : transport.watch(request))),
      bytes: (request) => transport.bytes(request)
    })
    const program = yield* Effect.provideService(
      Watch.make({ kueue: it.kueue ? kueueConfig : undefined }, { onProblem: () => Effect.void }),
      KubeApi.KubeApi,
      api
    )
    const mark = (tag: Tag, what: string) =>
      Effect.map(Clock.currentTimeMillis, (at) => void truth.marks.push({ tag, at, what }))
    const known = (tag: Tag): boolean => truth.marks.some((each) => each.tag === tag)

    const judge = (update: Update.Update): void => {
      const { cause, outcome, state } = update
      if (outcome === "Succeeded" && truth.terminal?.type !== "Complete")
        wrongs.push("told as succeeded, and it had not")
      if (outcome === "Failed" && truth.terminal?.type !== "Failed") wrongs.push("told as failed, and it had not")
      if (cause === undefined) {
        if (state === "Failed") wrongs.push("failed without a cause")
        return
      }
      if (cause._tag === "Unknown") {
        if (cause.missing.join("") === "") wrongs.push("Unknown, and does not say what is missing")
        return
      }
      // Waiting for a place is no end
      if (cause._tag === "NoCapacity" && state === "Pending") return
      if (cause._tag === "Held" && (state === "Held" || state === "Stopping") && it.kueue) return
      if (cause._tag === "Evicted" && cause.reason === unseenTaint && (known("Drained") || known("NodeLost"))) return
      if (!known(cause._tag)) {
        wrongs.push(`${state} because of ${JSON.stringify(cause)}, and what happened was ${describe(truth)}`)
      }
    }
    const updates: Array<Update.Update> = []
    const watching = yield* Effect.forkScoped(
      Stream.runForEach(program.watch(Watch.namespace(namespace)), (update) =>
        Effect.sync(() => {
          if (update.ref.name !== name) return
          updates.push(update)
          judge(update)
        })
      )
    )
    yield* time.rest
    yield* machines.create(body(it), namespace)
    if (it.badImage) yield* mark("ImagePull", "an image that cannot be pulled")
    yield* time.advance(2000)

    // ---- the history
    const own = Effect.map(machines.pods(namespace), (pods) =>
      pods.filter(({ metadata }) => metadata.labels?.[JobSet.jobSetNameLabel] === name)
    )
    const pick = <A>(items: ReadonlyArray<A>, index: number): A | undefined => items[index % Math.max(1, items.length)]
    const running = Effect.map(machines.processes, (all) => all.filter(({ podUid }) => born.has(podUid)))
    const exit = (index: number, ending: { readonly code: number; readonly reason?: string }, tag: Tag, what: string) =>
      Effect.gen(function* () {
        const process = pick(yield* running, index)
        if (process === undefined) return
        yield* mark(tag, what)
        yield* machines.exit({ metadata: { name: process.pod, uid: process.podUid } }, ending)
      })
    const onNode = (index: number, tag: Tag, what: string, act: (node: string) => Effect.Effect<void>) =>
      Effect.gen(function* () {
        const bound = (yield* own).flatMap(({ spec }) => (spec.nodeName === undefined ? [] : [spec.nodeName]))
        const node = pick(bound, index)
        if (node === undefined || (yield* machines.get(Objects.nodes, { name: node })) === undefined) return
        yield* mark(tag, `${what} ${node}`)
        yield* act(node)
      })
    const evictable = (index: number) => Effect.map(running, (all) => pick(all, index))

    const perform = (harm: Harm): Effect.Effect<void> =>
      Effect.gen(function* () {
        switch (harm._tag) {
          case "Crash":
            return yield* exit(harm.pod, { code: harm.code }, "Application", `exit code ${harm.code}`)
          case "OutOfMemory":
            return yield* exit(harm.pod, { code: harm.code, reason: "OOMKilled" }, "OutOfMemory", "out of memory")
          case "DeletePod": {
            const found = pick(yield* own, harm.pod)
            if (found === undefined) return
            yield* mark("Deleted", `deletion of pod ${found.metadata.name}`)
            return yield* Effect.ignore(
              admin.remove(
                Core.pods,
                { namespace, name: found.metadata.name },
                { propagation: "Background", ...(harm.force ? { gracePeriodSeconds: 0 } : {}) }
              )
            )
          }
          case "Evict": {
            const found = pick(yield* own, harm.pod)
            if (found === undefined) return
            yield* mark("Drained", "an eviction")
            return yield* Effect.ignore(
              cluster.transport(Rbac.admin).call(
                KubeRequest.make("create", Core.pods, {
                  namespace,
                  name: found.metadata.name,
                  subresource: "eviction",
                  body: {
                    apiVersion: "policy/v1",
                    kind: "Eviction",
                    metadata: { name: found.metadata.name, namespace }
                  }
                })
              )
            )
          }
          case "Pressure":
          case "OwnLimit": {
            const process = yield* evictable(harm.pod)
            if (process === undefined) return
            yield* mark("Evicted", harm._tag)
            return yield* machines.evict(
              { metadata: { name: process.pod, uid: process.podUid } },
              harm._tag === "Pressure"
                ? { message: "The node was low on resource: memory." }
                : { message: "Pod ephemeral local storage usage exceeds the total limit", ownLimit: true }
            )
          }
          case "Drain":
            return yield* onNode(harm.pod, "Drained", "a NoExecute taint on", (node) =>
              Effect.ignore(
                admin.patch(
                  Core.nodes,
                  { name: node },
                  {
                    type: "merge",
                    body: { spec: { taints: [{ key: "example.com/maintenance", effect: "NoExecute" }] } }
                  }
                )
              )
            )
          case "Lose":
            return yield* onNode(harm.pod, "NodeLost", "loss of", machines.loseNode)
          case "PowerOff":
            return yield* onNode(harm.pod, "NodeLost", "power-off of", machines.powerOff)
          case "DeleteNode":
            return yield* onNode(harm.pod, "NodeLost", "deletion of", machines.deleteNode)
          case "OutOfService":
            return yield* onNode(harm.pod, "NodeLost", "the out-of-service taint on", (node) =>
              // Of a machine that is Ready nobody knows more than that somebody took the pods off it
              Effect.zipRight(mark("Drained", "by which"), machines.taintOutOfService(node))
            )
          case "DeleteTrainJob":
            yield* mark("Deleted", "deletion of the TrainJob")
            return yield* Effect.ignore(
              admin.remove(Trainer.trainJobs, { namespace, name }, { propagation: harm.propagation })
            )
          case "DeleteJobSet":
            yield* mark("Deleted", "deletion of the JobSet")
            return yield* Effect.ignore(
              admin.remove(JobSet.jobSets, { namespace, name }, { propagation: "Background" })
            )
          case "Suspend":
            yield* mark("Held", "suspension")
            return yield* Effect.ignore(
              admin.patch(Trainer.trainJobs, { namespace, name }, { type: "merge", body: { spec: { suspend: true } } })
            )
          case "Preempt":
            if (!it.kueue) return
            yield* mark("Preempted", "a rival of a higher priority")
            return yield* Effect.ignore(
              admin.create(
                Trainer.trainJobs,
                { namespace },
                Fixtures.trainJob("rival", {
                  numNodes: it.nodes,
                  trainer: { resourcesPerNode: { requests: { cpu: "1" } } },
                  labels: { "kueue.x-k8s.io/queue-name": "train", "kueue.x-k8s.io/priority-class": "high" }
                })
              )
            )
          case "Succeed":
            for (const { pod, podUid } of yield* running) {
              yield* machines.exit({ metadata: { name: pod, uid: podUid } }, { code: 0 })
            }
        }
      })

    const seen = new Set<string>()
    const remember = Effect.gen(function* () {
      const kept = Option.getOrUndefined(yield* Effect.orDie(store.get({ namespace, name })))
      for (const uid of seen)
        if (kept?.pods[uid] === undefined) wrongs.push(`the evidence of pod ${born.get(uid)} is lost`)
      for (const uid of Object.keys(kept?.pods ?? {})) seen.add(uid)
      // What a store writes is the evidence as it is
      if (kept !== undefined && !isDeepStrictEqual(written(kept), written(encodeEvidence(kept)))) {
        wrongs.push("the evidence is not its own encoding")
      }
      return kept
    })

    for (const step of it.steps) {
      yield* time.advance(step.after)
      yield* remember
      if (step.what === "harm") yield* perform(step.harm)
      else if (step.hindrance._tag === "Compact") yield* cluster.compact()
      else if (step.hindrance._tag === "Cut") yield* cluster.disconnect({ user: "watcher" }, step.hindrance.how)
      else {
        partitioned = true
        yield* cluster.disconnect({ user: "watcher" })
        yield* Effect.forkScoped(
          Effect.delay(
            Effect.sync(() => {
              partitioned = false
            }),
            step.hindrance.millis
          )
        )
      }
      yield* time.rest
    }

    // ---- the end: nothing hinders any more, and everything comes to rest
    yield* time.advance(90_000)
    yield* faults.stop
    yield* cluster.disconnect({ user: "watcher" })
    yield* time.advance(300_000)
    const kept = yield* remember
    if (watching.unsafePoll() !== null) wrongs.push("the watch has ended")
    const existing = new Set((yield* own).map(({ metadata }) => metadata.uid))
    for (const uid of existing) if (kept?.pods[uid] === undefined) wrongs.push(`pod ${born.get(uid)} was not seen`)
    // What ends a job ends its other pods, and those are deleted by its controllers
    const mayBe = (tag: Tag): boolean =>
      known(tag) || tag === "Deleted" || (tag === "Evicted" && (known("Drained") || known("NodeLost")))
    for (const pod of kept === undefined ? [] : Evidence.facts(kept).pods) {
      const { presence } = pod.evidence
      if (presence === "present" && !existing.has(pod.uid)) wrongs.push(`pod ${pod.name} is gone, and told as there`)
      const outcome = kept === undefined ? undefined : Classification.podOutcome(kept, pod)
      if (outcome?._tag === "Explained" && outcome.cause._tag !== "Unknown" && !mayBe(outcome.cause._tag)) {
        wrongs.push(
          `pod ${pod.name} ended by ${JSON.stringify(outcome.cause)}, and what happened was ${describe(truth)}`
        )
      }
      if (outcome?._tag === "Unseen" && outcome.missing === "") wrongs.push(`pod ${pod.name}: Unseen, without what`)
    }
    const last = updates.at(-1)
    if (last === undefined) wrongs.push("nothing was told")
    else if (truth.terminal !== undefined && !truth.gone) {
      if (last.outcome !== (truth.terminal.type === "Complete" ? "Succeeded" : "Failed")) {
        wrongs.push(`it is ${truth.terminal.type}, and was told as ${last.outcome ?? last.state}`)
      }
    } else if (truth.gone && last.state !== "Gone") wrongs.push(`it is gone, and was told as ${last.state}`)
    // One thing alone that happens in front of a watch that nothing hinders is known
    const isPlain = it.faults.length === 0 && it.steps.length === 1 && it.deadline === undefined && !it.badImage
    if (isPlain && last?.cause?._tag === "Unknown") {
      wrongs.push(`nothing hindered the watch, and it does not know: ${last.cause.missing.join("; ")}`)
    }
    if (wrongs.length > 0) return yield* new Wrong({ wrongs: [...new Set(wrongs)] })
    return last?.cause?._tag ?? last?.state ?? "nothing"
  }).pipe(Effect.provide([TestCluster.layer(options(it)), EvidenceStore.layerMemory()]))

const describe = ({ marks, terminal }: Truth): string =>
  [...marks.map(({ what }) => what), ...(terminal === undefined ? [] : [`${terminal.type} (${terminal.reason})`])].join(
    ", "
  ) || "nothing"

/** Plays a history from start to end; throws what is wrong, answers what was told in the end. */
export const run = (it: History): string => {
  const end = VirtualTime.play(Effect.scoped(play(it)), it.seed)
  if (Exit.isFailure(end)) throw Cause.squash(end.cause)
  return end.value
}
