/**
 * Plays the steps of a recording in a cluster in memory and compares what happened to every object.
 */
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Context, Effect, Either, Layer, type Scope, TestClock } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as EventLog from "../../src/EventLog.js"
import * as Fixtures from "../../src/Fixtures.js"
import { clusterTrainingRuntimes, time } from "../../src/stages/Objects.js"
import * as TestCluster from "../../src/TestCluster.js"
import * as Recording from "./Recording.js"

/** Where a recording's clock starts: a whole second. */
const start = 1_796_000_000_000

export interface World {
  readonly cluster: TestCluster.Service
  readonly apply: (request: KubeRequest.KubeRequest) => Effect.Effect<Either.Either<unknown, KubeError.KubeError>>
  readonly entries: Effect.Effect<ReadonlyArray<EventLog.Entry>>
}

const world = (
  options: TestCluster.StageOptions,
  objects: ReadonlyArray<object>
): Effect.Effect<World, never, Scope.Scope> =>
  Effect.gen(function* () {
    const context = yield* Layer.build(TestCluster.layer({ ...options, objects }))
    const cluster = Context.get(context, Cluster.Cluster)
    const test = Context.get(context, TestCluster.TestCluster)
    yield* test.settle
    return {
      cluster: test,
      apply: (request) =>
        Effect.zipLeft(
          Effect.map(cluster.apply(request), ({ reply }) =>
            Either.mapBoth(reply, {
              onLeft: (failure) => KubeError.fromStatus(request, failure.code, failure.status),
              onRight: ({ body }): unknown => body
            })
          ),
          test.settle
        ),
      entries: Effect.map(cluster.state, (state) => EventLog.after(state.log, 0))
    }
  })

/** The newest uid of every object, by kind and normalised name. */
const uids = (
  events: ReadonlyArray<{ readonly object: Readonly<Record<string, unknown>> }>,
  names: Recording.Names
): ReadonlyMap<string, string> =>
  new Map(
    events.map(({ object }) => [
      `${String(object["kind"])} ${names.text(String(Recording.at(object, "metadata", "name")))}`,
      String(Recording.at(object, "metadata", "uid"))
    ])
  )

/** What the recorder's kubelet did by hand, as commands for ours. */
const kubeletStep = (
  recorded: string,
  pod: { readonly namespace: string; readonly name: string },
  cluster: TestCluster.Service
): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const code = /exit code (\d+)/.exec(recorded)?.[1]
    if (/confirms the deletion|image cannot be pulled/.test(recorded)) return true
    if (/container of/.test(recorded) && code !== undefined) {
      yield* cluster.exit(pod, { code: Number(code) })
      return true
    }
    return false
  })

export interface Options extends TestCluster.StageOptions {
  /** Kinds whose histories are not compared, with the reason in the test. */
  readonly ignore?: ReadonlyArray<string>
  /** More nodes than the usual three. */
  readonly nodes?: ReadonlyArray<object>
  /** Labels of the usual three. */
  readonly nodeLabels?: Readonly<Record<string, string>>
  /** Only these kinds are compared, when given. */
  readonly only?: ReadonlyArray<string>
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
  /** The same but for counters that one of the two controllers skipped. */
  readonly coalesced: ReadonlyArray<string>
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

const anonymous = (text: string): string => text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "U")

const distinct = (states: ReadonlyArray<string>): ReadonlyArray<string> =>
  states.filter((state, index) => state !== states[index - 1])

/** Replays a recording. */
export const replay = (
  recording: Recording.Recording,
  options: Options = {}
): Effect.Effect<Outcome, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* TestClock.setTime(start)
    const nodes = ["node-1", "node-2", "node-3"].map((name) =>
      Fixtures.node(name, { labels: options.nodeLabels ?? {} })
    )
    // nodes that only some scenarios had
    const special = new Set(JSON.stringify(recording.steps).match(/gpu-[a-c]/g) ?? [])
    const { apply, cluster, entries } = yield* world(
      {
        heartbeat: 0,
        programs: (pod) =>
          pod.metadata.annotations?.["example.com/slow-start"] !== undefined
            ? {
                startAfter: 2000,
                waiting: { reason: "ImagePullBackOff", message: 'Back-off pulling image "img.example.com/train:1"' }
              }
            : pod.metadata.annotations?.["example.com/slow-stop"] === undefined
              ? {}
              : { onTerm: "ignore" },
        ...options
      },
      [
        ...["default", "kube-node-lease", recording.namespace].map((name) => Fixtures.namespace(name)),
        ...nodes,
        ...[...special].map((name) => Fixtures.node(name)),
        ...(options.nodes ?? []),
        ...recording.runtimes
      ]
    )
    const from = (yield* entries).length
    const theirs = Recording.makeNames()
    for (const event of recording.events) theirs.see(event.object)
    const answers: Array<string> = []
    let now = 0
    for (const step of recording.steps) {
      const wait = Math.round(step.at * 1000) - now
      if (wait > 0) yield* TestClock.adjust(wait)
      now += Math.max(wait, 0)
      yield* cluster.settle
      const ours = Recording.makeNames()
      for (const entry of yield* entries) ours.see(entry.object)
      let text = `${step.request ?? ""} ${JSON.stringify(step.body ?? null)}`
      text = text.replaceAll('"@now"', JSON.stringify(time(start + now)))
      for (const [name, token] of theirs.pods) text = text.split(name).join(ours.actual.get(token) ?? name)
      const mineByPlace = uids(yield* entries, ours)
      for (const [place, uid] of uids(recording.events, theirs)) {
        text = text.split(uid).join(mineByPlace.get(place) ?? uid)
      }
      if (/image is changed to/.test(step.do)) {
        const runtime = recording.runtimes[0]
        const name = String(Recording.at(runtime, "metadata", "name"))
        yield* apply(
          KubeRequest.make("patch", clusterTrainingRuntimes, {
            name,
            patchType: "merge",
            body: { metadata: { labels: { edited: "true" } } }
          })
        )
      }
      if (step.request === undefined) continue
      if (/restarted in place/.test(step.do)) {
        // its kubelet reported this by hand: ours must not contradict
        const isGone = step.status === 404
        for (const node of ["node-1", "node-2", "node-3"]) {
          yield* isGone ? cluster.returnNode(node) : cluster.loseNode(node)
        }
        if (isGone) yield* cluster.settle
        if (isGone) continue
      }
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
      const applied = method === "PATCH" && url.search.includes("fieldManager")
      const value = KubeRequest.fromHttp({
        method,
        path: url.pathname,
        query: [...url.searchParams],
        contentType: applied ? "application/apply-patch+yaml" : "application/merge-patch+json",
        body: JSON.parse(body) as unknown
      })
      if (value === undefined) continue
      const answer = yield* apply(value)
      const code = Either.isRight(answer) ? 200 : (answer.left.status?.code ?? 0)
      const expected = step.status ?? 200
      const message = Either.isLeft(answer) ? (answer.left.status?.message ?? "") : ""
      if (Math.floor(code / 100) !== Math.floor(expected / 100) || (expected >= 300 && code !== expected)) {
        answers.push(`${step.do}: recorded ${expected}, ours ${code} ${message}`)
      } else if (expected >= 400) {
        const given = Recording.at(step.answer, "message")
        const words = typeof given === "string" ? given : ""
        if (words !== "" && anonymous(theirs.text(words)) !== anonymous(ours.text(message)))
          answers.push(`${step.do}: recorded "${words}", ours "${message}"`)
      }
    }
    const end = Math.ceil((recording.events.at(-1)?.at ?? 0) * 1000) + 1500
    if (end > now) yield* TestClock.adjust(end - now)
    yield* cluster.settle

    const ignored = new Set(["ClusterTrainingRuntime", "Lease", "Secret", ...(options.ignore ?? [])])
    const mine = Recording.makeNames()
    const log = (yield* entries).slice(from) as ReadonlyArray<{
      readonly type: string
      readonly object: Readonly<Record<string, unknown>>
    }>
    const recordedNames = Recording.makeNames()
    const recorded = Recording.histories(recording.events, recordedNames, ignored)
    const ours = Recording.histories(log, mine, ignored)
    const { only } = options
    const counts = (id: string): boolean => only === undefined || only.some((kind) => id.startsWith(`${kind} `))
    const missing = [...recorded.keys()].filter((id) => counts(id) && !ours.has(id))
    const extra = [...ours.keys()].filter((id) => counts(id) && !recorded.has(id))
    const differing: Array<Outcome["differing"][number]> = []
    let same = 0
    const coalesced: Array<string> = []
    for (const [id, history] of recorded) {
      const states = ours.get(id)?.states
      if (states === undefined || !counts(id)) continue
      const position = isSubsequence(history.states, states)
      // a recording ends in the middle of a run: ours may have gone on
      const ends = history.states.at(-1)?.startsWith("DELETED") === states.at(-1)?.startsWith("DELETED")
      if (position < 0 && ends) {
        same++
      } else if (
        ends &&
        isSubsequence(distinct(history.states.map(Recording.coarse)), distinct(states.map(Recording.coarse))) < 0
      ) {
        coalesced.push(id)
      } else {
        differing.push({ id, recorded: history.states, ours: states, at: position })
      }
    }
    const recordedLines = Recording.eventLines(recording.events, recordedNames)
    const ownLines = Recording.eventLines(log, mine)
    return {
      missing,
      extra,
      differing,
      same,
      coalesced,
      answers,
      events: {
        missing: recordedLines.filter((line) => !ownLines.includes(line)),
        extra: ownLines.filter((line) => !recordedLines.includes(line))
      }
    }
  })
