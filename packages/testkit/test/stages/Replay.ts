/**
 * Plays the steps of a recording in a cluster in memory and compares what happened to every object.
 */
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Clock, Effect, Either, type Scope, TestClock } from "effect"
import * as EventLog from "../../src/EventLog.js"
import * as Registry from "../../src/Registry.js"
import * as Admission from "../../src/stages/Admission.js"
import type * as Objects from "../../src/stages/Objects.js"
import type * as Runner from "../../src/stages/Runner.js"
import * as Views from "../../src/stages/Views.js"
import * as Fixtures from "../../src/Fixtures.js"
import * as Store from "../../src/Store.js"
import * as TestCluster from "../../src/TestCluster.js"
import * as Recording from "./Recording.js"

/** Where a recording's clock starts: a whole second. */
const start = 1_796_000_000_000

export interface World {
  readonly cluster: TestCluster.Service
  readonly apply: (request: KubeRequest.KubeRequest) => Effect.Effect<Either.Either<unknown, KubeError.KubeError>>
  readonly entries: () => ReadonlyArray<EventLog.Entry>
}

const world = (
  options: TestCluster.StageOptions,
  seeds: ReadonlyArray<unknown>
): Effect.Effect<World, never, Scope.Scope> =>
  Effect.gen(function* () {
    let uids = 0
    let names = 0
    const env = (now: number): Store.Env => ({
      now,
      newUid: () => `00000000-0000-4000-8000-${String(uids++).padStart(12, "0")}`,
      suffix: () => (names++).toString(36).padStart(5, "z")
    })
    let state = Store.make(Registry.builtins, { admission: Admission.plugins })
    state = Store.seed(state, seeds, env(start)).state
    let seen = state
    let view = Views.of(state)
    const apply = (request: KubeRequest.KubeRequest) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const outcome = Store.apply(state, request, env(now))
        state = outcome.state
        return Either.isLeft(outcome.reply)
          ? Effect.fail(KubeError.fromStatus(request, outcome.reply.left.code, outcome.reply.left.status))
          : Effect.succeed(outcome.reply.right.body)
      })
    const port: Runner.Port = {
      view: () => {
        if (seen !== state) {
          seen = state
          view = Views.of(state)
        }
        return view
      },
      version: () => state.version,
      after: (version) =>
        EventLog.after(state.log, version).map((entry) => ({
          version: entry.version,
          type: entry.type,
          object: Views.raw(entry.object),
          ...(entry.previous === undefined ? {} : { previous: Views.raw(entry.previous) })
        })),
      apply,
      log: () => Effect.void,
      changed: () => Effect.never
    }
    const cluster = yield* TestCluster.start(port, { ...options, from: 0 })
    yield* cluster.settle
    return {
      cluster,
      apply: (request) => Effect.zipLeft(Effect.either(apply(request)), cluster.settle),
      entries: () => EventLog.after(state.log, 0)
    }
  })

/** What the recorder's kubelet did by hand, as commands for ours. */
const kubeletStep = (
  recorded: string,
  pod: { readonly namespace: string; readonly name: string },
  cluster: TestCluster.Service
): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const code = /exit code (\d+)/.exec(recorded)?.[1]
    if (/confirms the deletion/.test(recorded)) return true
    if (/container of/.test(recorded) && code !== undefined) {
      yield* cluster.exit(pod, { code: Number(code) })
      return true
    }
    return false
  })

export interface Options extends TestCluster.StageOptions {
  /** Kinds whose histories are not compared, with the reason in the test. */
  readonly ignore?: ReadonlyArray<string>
}

export interface Outcome {
  readonly missing: ReadonlyArray<string>
  readonly extra: ReadonlyArray<string>
  readonly differing: ReadonlyArray<{
    readonly id: string
    readonly recorded: ReadonlyArray<string>
    readonly ours: ReadonlyArray<string>
    readonly at: number
  }>
  readonly same: number
  readonly answers: ReadonlyArray<string>
  readonly events: { readonly missing: ReadonlyArray<string>; readonly extra: ReadonlyArray<string> }
}

const isSubsequence = (small: ReadonlyArray<string>, large: ReadonlyArray<string>): number => {
  let at = 0
  for (const [index, state] of small.entries()) {
    while (at < large.length && large[at] !== state) at++
    if (at === large.length) return index
    at++
  }
  return -1
}

/** Replays a recording. */
export const replay = (
  recording: Recording.Recording,
  options: Options = {}
): Effect.Effect<Outcome, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* TestClock.setTime(start)
    const nodes = ["node-1", "node-2", "node-3"].map((name) => Fixtures.node(name))
    const gpus = ["gpu-a", "gpu-b"].map((name) =>
      Fixtures.node(name, { taints: [{ key: "example.com/reserved", effect: "NoSchedule" }] })
    )
    const { apply, cluster, entries } = yield* world(
      {
        heartbeat: 0,
        programs: (pod) =>
          pod.metadata.annotations?.["example.com/slow-stop"] === undefined ? {} : { onTerm: "ignore" },
        ...options
      },
      [
        ...["default", "kube-node-lease", recording.namespace].map((name) => Fixtures.namespace(name)),
        ...nodes,
        ...(JSON.stringify(recording.runtimes).includes("example.com/reserved") ? gpus : [
          ...["gpu-a", "gpu-b", "gpu-c"].map((name) => Fixtures.node(name, { taints: [{ key: "example.com/none", effect: "PreferNoSchedule" }] }))
        ]),
        ...recording.runtimes
      ]
    )
    const from = entries().length
    const theirs = new Recording.Names()
    for (const event of recording.events) theirs.see(event.object as Readonly<Record<string, unknown>>)
    const answers: Array<string> = []
    let now = 0
    for (const step of recording.steps) {
      const wait = Math.round(step.at * 1000) - now
      if (wait > 0) yield* TestClock.adjust(wait)
      now += Math.max(wait, 0)
      yield* cluster.settle
      const ours = new Recording.Names()
      for (const entry of entries()) ours.see(entry.object)
      let text = `${step.request ?? ""} ${JSON.stringify(step.body ?? null)}`
      for (const [name, token] of theirs.pods) text = text.split(name).join(ours.actual.get(token) ?? name)
      if (step.request === undefined) continue
      const [, method = "", target = "", body = ""] = /^(\S+) (\S+) (.*)$/s.exec(text) ?? []
      const url = new URL(target, "http://localhost")
      const podName = /\/pods\/([^/]+)/.exec(url.pathname)?.[1]
      if (podName !== undefined && step.do.startsWith("kubelet:")) {
        if (yield* kubeletStep(step.do, { namespace: recording.namespace, name: podName }, cluster)) {
          yield* cluster.settle
          continue
        }
      }
      if (/machine stops/.test(step.do)) yield* cluster.loseNode("gpu-a")
      const applied = /fieldManager|apply/.test(url.search) && method === "PATCH" && /apply/.test(step.do)
      const value = KubeRequest.fromHttp({
        method,
        path: url.pathname,
        query: [...url.searchParams],
        contentType: applied ? "application/apply-patch+yaml" : "application/merge-patch+json",
        body: JSON.parse(body) as unknown
      })
      if (value === undefined) continue
      // uid preconditions name recorded objects
      const cleaned = cleanUid(value)
      const answer = yield* apply(cleaned)
      const code = Either.isRight(answer) ? 200 : (answer.left.status?.code ?? 0)
      const expected = step.status ?? 200
      const message = Either.isLeft(answer) ? (answer.left.status?.message ?? "") : ""
      if (Math.floor(code / 100) !== Math.floor(expected / 100) || (expected >= 300 && code !== expected)) {
        answers.push(`${step.do}: recorded ${expected}, ours ${code} ${message}`)
      } else if (expected >= 400) {
        const words = String(Recording.at(step.answer, "message") ?? "")
        if (words !== "" && words !== message) answers.push(`${step.do}: recorded "${words}", ours "${message}"`)
      }
    }
    const end = Math.ceil((recording.events.at(-1)?.at ?? 0) * 1000) + 400
    if (end > now) yield* TestClock.adjust(end - now)
    yield* cluster.settle

    const ignored = new Set(["ClusterTrainingRuntime", "Lease", ...(options.ignore ?? [])])
    const mine = new Recording.Names()
    const log = entries().slice(from) as ReadonlyArray<{
      readonly type: string
      readonly object: Readonly<Record<string, unknown>>
    }>
    const recordedNames = new Recording.Names()
    const recorded = Recording.histories(
      recording.events as ReadonlyArray<{ readonly type: string; readonly object: Readonly<Record<string, unknown>> }>,
      recordedNames,
      ignored
    )
    const ours = Recording.histories(log, mine, ignored)
    const missing = [...recorded.keys()].filter((id) => !ours.has(id))
    const extra = [...ours.keys()].filter((id) => !recorded.has(id))
    const differing: Array<Outcome["differing"][number]> = []
    let same = 0
    for (const [id, history] of recorded) {
      const states = ours.get(id)?.states
      if (states === undefined) continue
      const position = isSubsequence(history.states, states)
      if (position < 0 && history.states.at(-1) === states.at(-1)) same++
      else differing.push({ id, recorded: history.states, ours: states, at: position })
    }
    const recordedLines = Recording.eventLines(recording.events as never, recordedNames)
    const ownLines = Recording.eventLines(log, mine)
    return {
      missing,
      extra,
      differing,
      same,
      answers,
      events: {
        missing: recordedLines.filter((line) => !ownLines.includes(line)),
        extra: ownLines.filter((line) => !recordedLines.includes(line))
      }
    }
  })

const cleanUid = (request: KubeRequest.KubeRequest): KubeRequest.KubeRequest => {
  if (request.verb !== "delete" || typeof request.body !== "object" || request.body === null) return request
  const { preconditions: _, ...body } = request.body as Readonly<Record<string, unknown>>
  return { ...request, body }
}

/** Objects for messages. */
export type Kind = Objects.Kind
