/**
 * Random logs under random faults of their connections, kubelet and container: what is delivered must be the container's log,
 * byte by byte, or a gap must say exactly what is missing.
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Faults from "@dispatch-kubeflow/testkit/Faults"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as VirtualTime from "@dispatch-kubeflow/testkit/VirtualTime"
import { Cause, Chunk, Clock, Data, DateTime, Effect, Exit, FastCheck, Stream } from "effect"
import { job, jobSet, namespace, pod, trainJob } from "./ExecutionFixtures.js"

const ref = { namespace, name: "run-1" }
const rankZero = { namespace, name: "run-1-node-0-0-p0" }

/** What happens to the log, its container, its kubelet and its readers. */
export type Command =
  | { readonly _tag: "Write"; readonly lines: ReadonlyArray<Uint8Array>; readonly stream: "stdout" | "stderr" }
  | { readonly _tag: "Rotate" | "Restart" | "Compact" }
  | { readonly _tag: "Cut"; readonly kind: "log" | "watch"; readonly how: "broken" | "end" }
  | { readonly _tag: "KubeletDown"; readonly millis: number }
  | { readonly _tag: "Wait"; readonly millis: number }

/** A schedule. `faults` hit log requests; those of watches have their own tests. */
export interface Schedule {
  readonly seed: number
  readonly faults: Faults.Plan
  readonly commands: ReadonlyArray<Command>
  /** What the program writes last, without a newline. */
  readonly last: Uint8Array
}

/** What was delivered is not the log. */
export class Wrong extends Data.TaggedError("Wrong")<{ readonly wrongs: ReadonlyArray<string> }> {
  override get message(): string {
    return this.wrongs.join("\n    ")
  }
}

const one = FastCheck.constant

// Anything but a newline, which ends a line; longer lines are several records, and have tests of their own
const content = FastCheck.oneof(
  { weight: 4, arbitrary: FastCheck.uint8Array({ maxLength: 40 }) },
  {
    weight: 1,
    arbitrary: FastCheck.constantFrom("", "\r", "a\r", "\u0000", "é", "\u{1f680}").map((it) => Buffer.from(it))
  },
  { weight: 1, arbitrary: FastCheck.constantFrom(4000, 16_000).map((size) => new Uint8Array(size).fill(120)) }
).map((bytes) => bytes.map((byte) => (byte === 10 ? 0xff : byte)))

const millis = FastCheck.constantFrom(0, 1, 400, 1500, 31_000, 400_000)

const command: FastCheck.Arbitrary<Command> = FastCheck.oneof(
  {
    weight: 8,
    arbitrary: FastCheck.record({
      _tag: one("Write" as const),
      lines: FastCheck.array(content, { minLength: 1, maxLength: 6 }),
      stream: FastCheck.constantFrom("stdout" as const, "stderr" as const)
    })
  },
  {
    weight: 2,
    arbitrary: FastCheck.constantFrom<Command>({ _tag: "Rotate" }, { _tag: "Rotate" }, { _tag: "Compact" })
  },
  { weight: 1, arbitrary: one<Command>({ _tag: "Restart" }) },
  {
    weight: 2,
    arbitrary: FastCheck.record({
      _tag: one("Cut" as const),
      kind: FastCheck.constantFrom("log" as const, "log" as const, "watch" as const),
      how: FastCheck.constantFrom("broken" as const, "end" as const)
    })
  },
  {
    weight: 1,
    arbitrary: FastCheck.record({
      _tag: one("KubeletDown" as const),
      millis: FastCheck.constantFrom(200, 3000, 40_000)
    })
  },
  { weight: 4, arbitrary: FastCheck.record({ _tag: one("Wait" as const), millis }) }
)

const bytes = FastCheck.oneof(FastCheck.nat(200), FastCheck.nat(40_000))

const logs: Faults.Match = { verb: "get", plural: "pods", subresource: "log" }

const fault: FastCheck.Arbitrary<Faults.Rule> = FastCheck.tuple(
  FastCheck.oneof<Array<FastCheck.Arbitrary<Faults.Fault>>>(
    FastCheck.record({ _tag: one("cut" as const), after: bytes }),
    FastCheck.record({ _tag: one("cut" as const), after: bytes }),
    FastCheck.record({ _tag: one("silence" as const), after: bytes }),
    FastCheck.record({
      _tag: one("delay" as const),
      duration: FastCheck.constantFrom("50 millis" as const, "3 seconds" as const)
    }),
    FastCheck.record({
      _tag: one("slow" as const),
      duration: FastCheck.constantFrom("1 millis" as const, "30 millis" as const),
      bytes: FastCheck.constantFrom(37, 500, 5000)
    }),
    FastCheck.record({
      _tag: one("refuse" as const),
      refusal: FastCheck.constantFrom(
        { code: 500, message: "dial tcp 192.0.2.1:10250: connect: connection refused" },
        { code: 503, reason: "ServiceUnavailable", message: "apiserver is shutting down" },
        { code: 429, reason: "TooManyRequests", message: "try again later", retryAfter: 1000 }
      )
    })
  ),
  FastCheck.oneof<Array<FastCheck.Arbitrary<Faults.Often>>>(
    one<Faults.Often>("once"),
    FastCheck.record({ times: FastCheck.integer({ min: 2, max: 4 }) }),
    FastCheck.record({ probability: FastCheck.constantFrom(0.2, 0.5) })
  )
).map(([what, often]) => Faults.rule(logs, what, often))

// A kubelet's connection that breaks ends in order, too. Of a log that ends so again and again before its first byte nobody
// can tell that it is not empty
const ends = FastCheck.array(
  bytes.map((after) => Faults.rule(logs, { _tag: "end", after }, "once")),
  { maxLength: 2 }
)

/** Schedules. */
export const schedule: FastCheck.Arbitrary<Schedule> = FastCheck.record({
  seed: FastCheck.integer({ min: 1, max: 1000 }),
  faults: FastCheck.tuple(FastCheck.array(fault, { maxLength: 2 }), ends).map(([some, more]) => [...some, ...more]),
  commands: FastCheck.array(command, { maxLength: 16 }),
  last: content
}).map((it) => ({
  ...it,
  [FastCheck.toStringMethod]: () =>
    JSON.stringify(
      it,
      (_key, value: unknown) =>
        value instanceof Uint8Array
          ? value.length > 100
            ? `${value.length} times x`
            : Buffer.from(value).toString("latin1")
          : value,
      1
    )
}))

/** A line of the log, as the node has it. `instance` counts the starts of the container. */
interface Line {
  readonly instance: number
  readonly stamp: string
  readonly text: string
}

const describe = ({ stamp, text }: Line): string => `${JSON.stringify(text.slice(0, 20))} of ${stamp}`

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1")
const stampSize = 30

/** Lines of an answer with time stamps. */
const linesOf = (answer: string, instance: number): ReadonlyArray<Line> =>
  answer
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ instance, stamp: line.slice(0, stampSize), text: line.slice(stampSize + 1) }))

/** What was delivered between two gaps or restarts. */
interface Run {
  text: string
  /** Begins with a gap, and says of which lines. */
  readonly gap: boolean
  /** Begins with another instance of the container. */
  fresh: boolean
  readonly after: string | undefined
  readonly before: string | undefined
}

/** Plays a schedule; fails with everything that is wrong. Answers how many lines were written and how many were missing. */
export const play = (it: Schedule) =>
  Effect.gen(function* () {
    const time = yield* VirtualTime.VirtualTime
    const cluster = yield* Cluster.make()
    const faults = yield* Faults.make(it.faults, { seed: it.seed })
    const admin = Rbac.admin
    let restarts = 0
    const ids: Array<string> = []
    let startedAt = ""
    // As a kubelet tells it: whole seconds
    const second = Effect.map(Clock.currentTimeMillis, (now) =>
      DateTime.formatIso(DateTime.unsafeMake(Math.floor(now / 1000) * 1000)).replace(".000Z", "Z")
    )
    const status = (exit?: { readonly exitCode: number; readonly reason: string }) =>
      Effect.gen(function* () {
        const containerID = yield* cluster.containerId(rankZero)
        const before = ids.findLast((id) => id !== containerID)
        const now = yield* second
        if (ids.at(-1) !== containerID) {
          ids.push(containerID)
          startedAt = now
        }
        const ended = (it: { readonly exitCode: number; readonly reason: string }, id: string) => ({
          terminated: { ...it, containerID: id, startedAt: now, finishedAt: now }
        })
        const state: object = exit === undefined ? { running: { startedAt } } : ended(exit, containerID)
        const containerStatus = {
          name: "node",
          restartCount: restarts,
          containerID,
          state,
          ...(before === undefined ? {} : { lastState: ended({ exitCode: 1, reason: "Error" }, before) })
        }
        yield* cluster.seed([
          {
            apiVersion: "v1",
            kind: "Pod",
            ...pod({
              uid: "p0",
              created: 1,
              count: 1,
              restartPolicy: "OnFailure",
              status: {
                phase: exit?.exitCode === 0 ? "Succeeded" : "Running",
                containerStatuses: [containerStatus]
              }
            })
          }
        ])
      })
    yield* cluster.seed([
      { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } },
      { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", ...trainJob({}) },
      { apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", ...jobSet({}) },
      { apiVersion: "batch/v1", kind: "Job", ...job({ start: 0 }) },
      { apiVersion: "v1", kind: "Pod", ...pod({ uid: "p0", created: 1, count: 1, restartPolicy: "OnFailure" }) }
    ])
    yield* status()

    // ---- the truth: the log as its node shows it, read after each change and without faults
    const truth: Array<Line> = []
    const read = (previous: boolean) =>
      cluster.admin.log(rankZero, { container: "node", timestamps: true, ...(previous ? { previous } : {}) }).pipe(
        Stream.runCollect,
        Effect.map((chunks) => latin1(Buffer.concat(Chunk.toReadonlyArray(chunks)))),
        Effect.orElseSucceed(() => "")
      )
    const note = Effect.map(read(false), (answer) => {
      const last = truth.at(-1)
      for (const line of linesOf(answer, restarts)) {
        if (last === undefined || line.instance > last.instance || line.stamp > last.stamp) truth.push(line)
      }
    })

    // ---- the follower
    const output = yield* Effect.provideService(
      Output.make({ inPlaceRestarts: "accept" }),
      KubeApi.KubeApi,
      KubeApi.transform(faults.transform)(cluster.as({ ...admin, user: "follower" }))
    )
    const events: Array<Output.OutputEvent> = []
    const following = yield* Effect.forkScoped(
      Effect.either(
        Stream.runForEach(output.outputEvents(ref, { follow: true }), (event) =>
          Effect.sync(() => void events.push(event))
        )
      )
    )
    yield* time.rest

    let count = 0
    for (const command of it.commands) {
      switch (command._tag) {
        case "Write":
          for (const line of command.lines) {
            // Numbered, so that no two are alike
            yield* cluster.appendLog(rankZero, {
              bytes: Buffer.concat([Buffer.from(`${count} `), line, Buffer.from("\n")]),
              stream: command.stream
            })
            count += 1
          }
          yield* note
          break
        case "Rotate":
          yield* cluster.rotateLog(rankZero)
          break
        case "Compact":
          yield* cluster.compact()
          break
        case "Restart": {
          yield* status({ exitCode: 1, reason: "Error" })
          yield* time.advance(10)
          restarts += 1
          yield* cluster.restartLog(rankZero)
          yield* status()
          break
        }
        case "Cut":
          yield* cluster.disconnect({ kind: command.kind, user: "follower" }, command.how)
          break
        case "KubeletDown":
          yield* cluster.kubelet("node-1", "down")
          yield* time.advance(command.millis)
          yield* cluster.kubelet("node-1", "up")
          break
        case "Wait":
          yield* time.advance(command.millis)
      }
      yield* time.rest
    }
    yield* cluster.appendLog(rankZero, { bytes: Buffer.concat([Buffer.from(`${count} `), it.last]) })
    yield* status({ exitCode: 0, reason: "Completed" })
    yield* time.advance(120_000)
    yield* note
    yield* faults.stop
    yield* time.advance(600_000)

    // ---- the judgement
    const wrongs: Array<string> = []
    const end = following.unsafePoll()
    if (end === null) wrongs.push("the stream has not ended")
    else if (Exit.isSuccess(end) && end.value._tag === "Left") {
      // What is refused again and again cannot be read, and that is said
      const isHopeless = it.faults.some(({ often }) => typeof often === "object")
      if (isHopeless && end.value.left._tag === "KubeUnavailable") return { lines: 0, missing: 0, gaps: 0 }
      wrongs.push(`it failed: ${end.value.left.message}`)
    }
    const last = events.at(-1)
    if (end !== null && (last?._tag !== "End" || last.how !== "terminated" || last.exitCode !== 0)) {
      wrongs.push(`it ended with ${JSON.stringify(last)}`)
    }
    const open = yield* cluster.connections
    if (open.length > 0) wrongs.push(`${open.length} connections are still open`)

    const runs: Array<Run> = [{ text: "", gap: false, fresh: true, after: undefined, before: undefined }]
    for (const event of events) {
      if (event._tag === "Bytes") (runs.at(-1) as Run).text += latin1(event.bytes)
      if (event._tag === "Gap") {
        runs.push({ text: "", gap: true, fresh: false, after: event.after, before: event.before })
      }
      if (event._tag === "Restarted") {
        const last = runs.at(-1)
        if (last !== undefined && last.gap && last.text === "") last.fresh = true
        else runs.push({ text: "", gap: false, fresh: true, after: undefined, before: undefined })
      }
    }
    const pieces = truth.map(({ text }, index) => `${text}${index === truth.length - 1 ? "" : "\n"}`)
    // Instances of which something was delivered
    const begun = new Set<number>()
    const isRotated = it.commands.some(({ _tag }) => _tag === "Rotate")
    let next = 0
    let missing = 0
    // Of a line that was cut a part may be delivered before a gap
    let part: Line | undefined
    for (const [index, run] of runs.entries()) {
      // A line may be cut behind its stamp. What was rotated away before the first connection to an instance was never there:
      // nothing says that there was more
      const isTold = ({ instance, stamp }: Line): boolean =>
        (run.fresh && isRotated && !begun.has(instance)) ||
        (run.gap && (run.after === undefined || stamp >= run.after) && (run.before === undefined || stamp < run.before))
      if (part !== undefined && part.stamp !== run.after) {
        wrongs.push(`the rest of line ${describe(part)} is missing, gap ${JSON.stringify({ ...run, text: "" })}`)
      }
      part = undefined
      let { text } = run
      const start =
        text === ""
          ? index === runs.length - 1
            ? truth.length
            : next
          : pieces.findIndex((piece, at) => at >= next && (text.startsWith(piece) || piece.startsWith(text)))
      if (start < 0) {
        wrongs.push(`run ${index} goes on with ${JSON.stringify(text.slice(0, 60))}, which is not what comes next`)
        break
      }
      for (const line of truth.slice(next, start)) {
        missing += 1
        if (!isTold(line)) {
          wrongs.push(`line ${describe(line)} is missing, gap ${JSON.stringify({ ...run, text: "" })}`)
        }
      }
      next = start
      while (text !== "") {
        const piece = pieces[next]
        if (piece !== undefined && piece.startsWith(text) && piece !== text) {
          part = truth[next]
          missing += 1
          text = piece
        }
        if (piece === undefined || !text.startsWith(piece)) {
          wrongs.push(
            `after line ${next - 1} comes ${JSON.stringify(text.slice(0, 60))} instead of ${JSON.stringify(piece?.slice(0, 60))}`
          )
          break
        }
        begun.add(truth[next]?.instance ?? 0)
        text = text.slice(piece.length)
        next += 1
      }
    }
    if (part !== undefined) wrongs.push(`the rest of line ${describe(part)} is missing`)
    if (wrongs.length === 0 && next < truth.length) wrongs.push(`${truth.length - next} lines at the end are missing`)
    if (wrongs.length > 0) return yield* new Wrong({ wrongs })
    return { lines: truth.length, missing, gaps: runs.length - 1 }
  })

/** Plays a schedule from start to end; throws what is wrong. */
export const run = (it: Schedule) => {
  const end = VirtualTime.play(Effect.scoped(play(it)), it.seed)
  if (Exit.isFailure(end)) throw Cause.squash(end.cause)
  return end.value
}
