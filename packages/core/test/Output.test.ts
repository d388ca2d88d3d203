import { KubeApi } from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as Telemetry from "@dispatch-kubeflow/core/Telemetry"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Metric, Option, Stream, TestClock } from "effect"
import { jobSet, pod, trainJob } from "./ExecutionFixtures.js"
import * as World from "./OutputWorld.js"

const { containers, rankZero, ref, encoder } = World

const program = (
  world: World.World,
  inPlaceRestarts: "refuse" | "accept" = "refuse",
  tuning: Output.ProgramOptions = {}
) => Effect.provideService(Output.make({ inPlaceRestarts }, tuning), KubeApi, world.api)

const text = (events: ReadonlyArray<Output.OutputEvent>): string =>
  new TextDecoder().decode(Uint8Array.from(events.flatMap((event) => (event._tag === "Bytes" ? [...event.bytes] : []))))
const others = (events: ReadonlyArray<Output.OutputEvent>) => events.filter((event) => event._tag !== "Bytes")

/** Starts reading; what came so far is in `events`. */
const start = (
  world: World.World,
  options: Output.Options,
  inPlaceRestarts: "refuse" | "accept" = "refuse",
  tuning: Partial<Output.Tuning> = {}
) =>
  Effect.gen(function* () {
    const events: Array<Output.OutputEvent> = []
    const output = yield* program(world, inPlaceRestarts, tuning)
    const fiber = yield* output.outputEvents(ref, options).pipe(
      Stream.runForEach((event) => Effect.sync(() => events.push(event))),
      Effect.either,
      Effect.fork
    )
    return { events, fiber, text: () => text(events), others: () => others(events) }
  })

const readAll = (world: World.World, options: Output.Options = {}) =>
  Effect.gen(function* () {
    const { events, fiber } = yield* start(world, options)
    for (let round = 0; round < 20 && Option.isNone(yield* Fiber.poll(fiber)); round++) {
      yield* TestClock.adjust("5 seconds")
    }
    const result = yield* Fiber.join(fiber)
    return { events, failure: Either.getOrUndefined(Either.flip(result)) }
  })

const running = (status = containers.running()) =>
  Effect.tap(World.make, (world) => Effect.sync(() => world.setPod(rankZero(status))))

describe("Output, a plain read", () => {
  it.effect("Stdout is rank 0's log of the current execution, container node; five requests", () =>
    Effect.gen(function* () {
      const world = yield* running()
      world.setPod(pod({ uid: "p1", created: 1, count: 1, index: 1 }))
      yield* world.append("containerd://1", "one", "two\\")
      const { events } = yield* readAll(world, {})
      expect(text(events)).toBe("one\ntwo")
      expect(others(events)).toEqual([{ _tag: "End", how: "complete", exitCode: undefined, reason: "all there was" }])
      const [log] = world.logRequests()
      expect(log?.query).toEqual({ container: "node", timestamps: "true" })
      expect(log?.name).toBe("run-1-node-0-0-p0")
      // An unfinished line of a running container is read twice: it looks like a connection that was cut
      expect(world.requests.map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
        "get trainjobs",
        "get jobsets",
        "list jobs",
        "list pods",
        "get pods",
        "get pods"
      ])
    })
  )

  it.effect("while nothing can be read, who asked for it is told why and when it is tried again", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one")
      const told: Array<Output.Interruption> = []
      const output = yield* program(world, "refuse", {
        onInterrupted: (interruption) => Effect.sync(() => told.push(interruption))
      })
      const fiber = yield* Effect.fork(Stream.runDrain(output.output(ref, { follow: true })))
      yield* TestClock.adjust("1 minute")
      expect(told).toEqual([])
      world.refuse = (request) => World.refused(request)
      world.intercept = (request) => Stream.fail(World.refused(request))
      world.cut("break")
      yield* TestClock.adjust("1 minute")
      expect(told.length).toBeGreaterThan(1)
      for (const { error, retryIn } of told) {
        expect(error._tag).toBe("KubeUnavailable")
        expect(retryIn).toBeGreaterThan(0)
      }
      expect(Output.describeInterruption(told[0]!)).toMatch(/no output can be read now, next attempt in \d+ ms: /)
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("Stderr: ErrUnsupported, without a request", () =>
    Effect.gen(function* () {
      const world = yield* running()
      const { failure } = yield* readAll(world, { stream: "Stderr" })
      expect(failure?._tag).toBe("ErrUnsupported")
      expect(world.requests).toEqual([])
    })
  )

  it.effect("an empty log is not an error, and differs from a missing one (O10, O20)", () =>
    Effect.gen(function* () {
      const { events } = yield* readAll(yield* running())
      expect(events.map(({ _tag }) => _tag)).toEqual(["End"])
    })
  )

  it.effect("no TrainJob, another uid, no pod yet, pod gone: ErrNotFound that says which", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      expect((yield* readAll(world)).failure).toMatchObject({
        _tag: "ErrNotFound",
        kind: "RankZeroPod",
        reason: "the TrainJob has no pods yet"
      })
      expect((yield* readAll(world, { follow: true })).failure?._tag).toBe("ErrNotFound")
      world.trainJob = trainJob({ condition: "Complete" })
      expect((yield* readAll(world)).failure?.message).toContain("has finished and none of its pods is left")
      const output = yield* program(world)
      const other = yield* Effect.flip(Stream.runDrain(output.output({ ...ref, uid: "other" })))
      expect(other).toMatchObject({ _tag: "ErrNotFound", kind: "TrainJob" })
      world.trainJob = undefined
      expect((yield* readAll(world)).failure).toMatchObject({ _tag: "ErrNotFound", kind: "TrainJob" })
    })
  )

  it.effect("O09, O31: not scheduled or waiting: ErrNotFound; a Status never appears as output", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero({ phase: "Pending" }, { nodeName: "" }))
      expect((yield* readAll(world)).failure?.message).toContain("not scheduled")
      world.setPod(rankZero(containers.waiting("PodInitializing")))
      const { events, failure } = yield* readAll(world)
      expect(failure).toMatchObject({ _tag: "ErrNotFound", kind: "Log" })
      expect(failure?.message).toContain("is waiting to start: PodInitializing")
      expect(events).toEqual([])
    })
  )

  it.effect("O18: an evicted pod that has no log says why, and other reads go on", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero({ phase: "Failed", reason: "Evicted", message: "The node was low on memory." }))
      expect((yield* readAll(world)).failure).toMatchObject({ _tag: "ErrNotFound", kind: "Log" })
      expect((yield* readAll(world)).failure?.message).toContain("Evicted: The node was low on memory.")
      expect((yield* readAll(world, { follow: true })).failure?.message).toContain("Evicted")
    })
  )

  it.effect("O28: a pod without the container names those it has; with a sidecar node is asked for", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero(containers.running(), { containers: ["istio-proxy", "main"] }))
      const { failure } = yield* readAll(world)
      expect(failure?._tag).toBe("ErrUnsupported")
      expect(failure?.message).toContain("istio-proxy, main")
      world.setPod(rankZero(containers.running(), { containers: ["istio-proxy", "node"] }))
      yield* readAll(world)
      expect(world.logRequests().at(-1)?.query["container"]).toBe("node")
    })
  )

  it.effect("O13: MPI reads the launcher; a runtime without trainer step is refused", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.jobSet = jobSet({ replicatedJobs: ["node", "launcher"], trainer: ["launcher"] })
      world.setPod(pod({ uid: "w", created: 1, count: 1, status: containers.running("containerd://w") }))
      world.setPod(pod({ uid: "l", created: 1, count: 1, rjob: "launcher", jobUid: "l", status: containers.running() }))
      yield* world.append("containerd://1", "mpirun")
      expect(text((yield* readAll(world)).events)).toBe("mpirun\n")
      world.jobSet = jobSet({ trainer: [] })
      expect((yield* readAll(world)).failure?._tag).toBe("ErrUnsupported")
    })
  )

  it.effect("O11, O30: of two executions' pods the current one's is read", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero(containers.running("containerd://old"), { uid: "old", created: 1, deleted: 9 }))
      world.setPod(rankZero(containers.running("containerd://new"), { uid: "new", created: 20, count: 2 }))
      yield* world.append("containerd://old", "old")
      yield* world.append("containerd://new", "new")
      expect(text((yield* readAll(world)).events)).toBe("new\n")
    })
  )

  it.effect(
    "a 200 whose body is the kubelet's own failure text is a typed failure, the same text in a log passes",
    () =>
      Effect.gen(function* () {
        const world = yield* running()
        const sentence = "unable to retrieve container logs for containerd://0123abcd"
        yield* world.append("containerd://1", `${sentence}\\`)
        expect(text((yield* readAll(world)).events)).toBe(sentence)
        world.intercept = () => Stream.make(encoder.encode(sentence.slice(0, 9)), encoder.encode(sentence.slice(9)))
        for (const follow of [false, true]) {
          const { events, failure } = yield* readAll(world, { follow })
          expect(failure).toMatchObject({ _tag: "ErrNotFound", kind: "Log", reason: sentence })
          expect(events).toEqual([])
        }
      })
  )

  it.effect("a kubelet that is just starting (404 pods/log) is asked again", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "a")
      world.intercept = (request, n) =>
        n > 1
          ? undefined
          : Stream.fail(
              World.status(
                request,
                404,
                "the server could not find the requested resource ( pods/log p)",
                { name: "p", kind: "pods/log" },
                "NotFound"
              )
            )
      expect(text((yield* readAll(world)).events)).toBe("a\n")
    })
  )

  it.effect("a kubelet that stays down and a Node that is missing are typed failures, not an empty log", () =>
    Effect.gen(function* () {
      const world = yield* running()
      world.intercept = (request) => Stream.fail(World.refused(request))
      expect((yield* readAll(world)).failure).toMatchObject({ _tag: "KubeUnavailable", phase: "kubelet" })
      world.intercept = (request) =>
        Stream.fail(World.status(request, 404, 'pods "node-1" not found', { name: "node-1", kind: "pods" }, "NotFound"))
      expect((yield* readAll(world)).failure).toMatchObject({ _tag: "KubeNotFound", subject: "node" })
    })
  )

  it.effect("P01: without get pods/log: ErrUnsupported that names the verb, exactly once (O17)", () =>
    Effect.gen(function* () {
      const world = yield* running()
      world.intercept = (request) => Stream.fail(World.forbidden(request))
      for (const follow of [false, true]) {
        const { failure, events } = yield* readAll(world, { follow })
        expect(failure?._tag).toBe("ErrUnsupported")
        expect(failure?.message).toContain('grant verb "get" on "pods/log"')
        expect(events).toEqual([])
      }
      world.refuse = (request) =>
        request.verb === "list" && request.plural === "pods" ? World.forbidden(request) : undefined
      expect((yield* readAll(world)).failure?.message).toContain('grant verb "list" on "pods"')
    })
  )

  it.effect("a connection that breaks in the middle of a line is resumed without loss or repetition (O02)", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one", "two", "two", "three")
      world.intercept = (request, n) => {
        if (n > 2) return undefined
        const whole = world
          .file("containerd://1")
          .lines.map(({ stamp, text }) => `${stamp} ${text}\n`)
          .join("")
        return Stream.concat(
          Stream.make(encoder.encode(whole.slice(0, n === 1 ? 70 : 103))),
          Stream.fail(new KubeUnavailable({ request, phase: "stream" }))
        )
      }
      const { events } = yield* readAll(world)
      expect(text(events)).toBe("one\ntwo\ntwo\nthree\n")
    })
  )

  it.effect("options: tailLines, sinceTime (exact), limitBytes, timestamps", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* TestClock.adjust("10 seconds")
      yield* world.append("containerd://1", "one")
      yield* TestClock.adjust("500 millis")
      yield* world.append("containerd://1", "two", "three")
      expect(text((yield* readAll(world, { tailLines: 2 })).events)).toBe("two\nthree\n")
      expect(text((yield* readAll(world, { tailLines: 0 })).events)).toBe("")
      expect(text((yield* readAll(world, { sinceTime: "1970-01-01T00:00:10.4Z" })).events)).toBe("two\nthree\n")
      const limited = yield* readAll(world, { limitBytes: 5 })
      expect(text(limited.events)).toBe("one\nt")
      expect(others(limited.events)).toMatchObject([{ how: "limit" }])
      expect(text((yield* readAll(world, { timestamps: true, tailLines: 1 })).events)).toBe(
        "1970-01-01T00:00:10.500000002Z three\n"
      )
      for (const options of [{ limitBytes: 0 }, { tailLines: -1 }, { sinceTime: "yesterday" }]) {
        expect((yield* readAll(world, options)).failure?._tag).toBe("ErrUnsupported")
      }
    })
  )

  it.effect("O15: output is bytes, lossless; outputLines replaces what is no UTF-8, whatever the chunks", () =>
    Effect.gen(function* () {
      const world = yield* running()
      const stamp = "2026-11-29T17:04:42.833286285Z "
      const body = Uint8Array.from([...encoder.encode(`${stamp}a█b`), 0xd4, 10, ...encoder.encode(`${stamp}x`), 0xe2])
      world.intercept = () => Stream.fromIterable([...body].map((byte) => Uint8Array.of(byte)))
      const output = yield* program(world)
      const bytes = yield* Stream.runCollect(output.output(ref))
      expect([...bytes].flatMap((it) => [...it])).toEqual([...encoder.encode("a█b"), 0xd4, 10, 0x78, 0xe2])
      const lines = yield* Stream.runCollect(output.outputLines(ref))
      expect([...lines]).toEqual(["a█b\ufffd", "x\ufffd"])
    })
  )
})

describe("Output, follow", () => {
  it.effect("O04: ends with the exit code within a bounded time, after one last read without follow", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      expect(reading.text()).toBe("one\n")
      // The follow stays silent although there is more and the container has ended
      world.file("containerd://1").mute = true
      yield* world.append("containerd://1", "two", "end\\")
      world.setPod(rankZero(containers.terminated(3)))
      yield* TestClock.adjust("7 seconds")
      expect(reading.text()).toBe("one\ntwo\nend")
      expect(reading.others()).toEqual([{ _tag: "End", how: "terminated", exitCode: 3, reason: "Error" }])
      expect(Either.isRight(yield* Fiber.join(reading.fiber))).toBe(true)
      expect(world.openLogs()).toBe(0)
    })
  )

  it.effect("O10, O09: a pod that is not scheduled, then waiting, is waited for", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero({ phase: "Pending" }, { nodeName: "" }))
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("40 seconds")
      world.setPod(rankZero(containers.waiting("ContainerCreating")))
      yield* TestClock.adjust("40 seconds")
      expect(reading.events).toEqual([])
      yield* world.append("containerd://1", "hello")
      world.setPod(rankZero(containers.running()))
      yield* TestClock.adjust("3 seconds")
      expect(reading.text()).toBe("hello\n")
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("O10: with awaitPod the pod itself is waited for", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      const reading = yield* start(world, { follow: true, awaitPod: true })
      yield* TestClock.adjust("3 seconds")
      yield* world.append("containerd://1", "hello")
      world.setPod(rankZero(containers.running()))
      for (let round = 0; round < 4; round++) yield* TestClock.adjust("5 seconds")
      expect(reading.text()).toBe("hello\n")
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("a pod that fails while waiting never had a log", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      world.setPod(rankZero(containers.waiting("ImagePullBackOff")))
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("3 seconds")
      world.setPod(rankZero({ phase: "Failed", reason: "DeadlineExceeded", message: "too long" }))
      yield* TestClock.adjust("3 seconds")
      const result = yield* Fiber.join(reading.fiber)
      expect(Either.getOrUndefined(Either.flip(result))?.message).toContain("never started: DeadlineExceeded")
    })
  )

  it.effect("O06, O07, O23: cut in order, broken, refused over 30 hours: every line once, no error", () =>
    Effect.gen(function* () {
      const world = yield* running()
      const reading = yield* start(world, { follow: true }, "refuse", { idle: 1_800_000 })
      let expected = ""
      for (let hour = 0; hour < 30; hour += 4) {
        for (const line of [`${hour} a`, "same", "same"]) {
          expected += `${line}\n`
          yield* world.append("containerd://1", line)
        }
        yield* TestClock.adjust("1 second")
        const refusals = world.logRequests().length + 3
        if (hour % 12 === 4) {
          world.intercept = (request, n) => (n <= refusals ? Stream.fail(World.refused(request)) : undefined)
        }
        world.cut(hour % 8 === 0 ? "end" : "break")
        yield* TestClock.adjust("40 seconds")
        yield* TestClock.adjust("239 minutes")
      }
      expect(reading.text()).toBe(expected)
      expect(reading.others()).toEqual([])
      yield* Fiber.interrupt(reading.fiber)
      expect(world.openLogs()).toBe(0)
    })
  )

  it.effect("a server that ends every connection at once is not hammered, and progress resets the back-off", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "a")
      world.intercept = (request) => (request.query["follow"] === "true" ? Stream.empty : undefined)
      const reading = yield* start(world, { follow: true })
      for (let round = 0; round < 60; round++) yield* TestClock.adjust("10 seconds")
      const attempts = world.logRequests().length
      expect(attempts).toBeGreaterThan(15)
      expect(attempts).toBeLessThan(80)
      world.intercept = () => undefined
      yield* TestClock.adjust("31 seconds")
      expect(reading.text()).toBe("a\n")
      world.cut("break")
      yield* world.append("containerd://1", "b")
      yield* TestClock.adjust("1100 millis")
      expect(reading.text()).toBe("a\nb\n")
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("O03: a follow that goes mute is found out by a read of the end and replaced", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").mute = true
      yield* world.append("containerd://1", "two", "three")
      yield* TestClock.adjust("20 seconds")
      world.file("containerd://1").mute = false
      world.cut("end")
      world.file("containerd://1").mute = true
      yield* Fiber.interrupt(reading.fiber)
      const silent = yield* running()
      yield* silent.append("containerd://1", "one")
      // Mute for this connection alone
      silent.intercept = (request, n) => {
        if (n !== 1 || request.query["follow"] !== "true") return undefined
        const [line] = silent.file("containerd://1").lines
        return Stream.concat(Stream.make(encoder.encode(`${line?.stamp} one\n`)), Stream.never)
      }
      const second = yield* start(silent, { follow: true })
      yield* TestClock.adjust("1 second")
      yield* silent.append("containerd://1", "two")
      yield* TestClock.adjust("31 seconds")
      expect(second.text()).toBe("one\ntwo\n")
      const opened = silent.logRequests().filter(({ query }) => query["follow"] === "true").length
      // A log that is quiet by itself stays on its connection
      yield* TestClock.adjust("20 minutes")
      expect(silent.logRequests().filter(({ query }) => query["follow"] === "true")).toHaveLength(opened)
      yield* Fiber.interrupt(second.fiber)
    })
  )

  it.effect("rotation while the connection was down: a gap, told in place; the rest follows", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.intercept = (request) => Stream.fail(World.refused(request))
      world.cut("end")
      yield* TestClock.adjust("5 seconds")
      yield* world.append("containerd://1", "lost")
      world.file("containerd://1").start = 2
      yield* TestClock.adjust("5 seconds")
      yield* world.append("containerd://1", "three")
      world.intercept = () => undefined
      yield* TestClock.adjust("40 seconds")
      expect(reading.events.map(({ _tag }) => _tag)).toEqual(["Bytes", "Gap", "Bytes"])
      expect(reading.text()).toBe("one\nthree\n")
      expect(reading.others()).toMatchObject([{ reason: "the log was rotated while it was not being read" }])
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("a gap is a line of its own in output and outputLines", () =>
    Effect.gen(function* () {
      const world = yield* running(containers.terminated(0))
      yield* world.append("containerd://1", "one", "two", "three")
      world.intercept = (request, n) => {
        if (n > 1) return undefined
        const [line] = world.file("containerd://1").lines
        world.file("containerd://1").start = 2
        return Stream.concat(
          Stream.make(encoder.encode(`${line?.stamp} on`)),
          Stream.fail(new KubeUnavailable({ request, phase: "stream" }))
        )
      }
      const output = yield* program(world)
      const fiber = yield* Effect.fork(Stream.runCollect(output.outputLines(ref)))
      yield* TestClock.adjust("5 seconds")
      const lines = [...(yield* Fiber.join(fiber))]
      expect(lines[0]).toBe("on")
      expect(lines[1]).toMatch(/^\[output missing after .* before .*: the log was rotated/)
      expect(lines[2]).toBe("three")
    })
  )

  it.effect("a reader that lost the end behind a regular end gets it from the last read, or is told", () =>
    Effect.gen(function* () {
      const gaps = Metric.value(Telemetry.outputGaps)
      const before = yield* gaps
      const world = yield* running()
      yield* world.append("containerd://1", "one")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").mute = true
      yield* world.append("containerd://1", "lost", "last")
      world.file("containerd://1").start = 2
      world.setPod(rankZero(containers.terminated(0)))
      world.cut("end")
      yield* TestClock.adjust("10 seconds")
      expect(reading.text()).toBe("one\nlast\n")
      expect(reading.others().map(({ _tag }) => _tag)).toEqual(["Gap", "End"])
      expect((yield* gaps).count - before.count).toBe(1)
    })
  )

  it.effect("a last read that is cut in order is found out by the log's last record, and repeated", () =>
    Effect.gen(function* () {
      const world = yield* running(containers.terminated(0))
      yield* world.append("containerd://1", "one", "two", "three")
      world.intercept = (_, n) => {
        const [line] = world.file("containerd://1").lines
        return n === 1 ? Stream.make(encoder.encode(`${line?.stamp} on`)) : undefined
      }
      const { events } = yield* readAll(world, { follow: true })
      expect(text(events)).toBe("one\ntwo\nthree\n")
      expect(others(events).map(({ _tag }) => _tag)).toEqual(["End"])
    })
  )

  it.effect("O27: the fsnotify sentence is a broken follow: polled instead, no repetition", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "one", "two", "three")
      world.intercept = (request) => {
        if (request.query["follow"] !== "true") return undefined
        const since = request.query["sinceTime"] ?? ""
        const lines = world.file("containerd://1").lines.filter(({ stamp }) => stamp.slice(0, 19) >= since.slice(0, 19))
        return Stream.fromIterable(
          [
            ...lines.map(({ stamp, text }) => `${stamp} ${text}\n`),
            "failed to create fsnotify watcher: too many open files"
          ].map((it) => encoder.encode(it))
        )
      }
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("10 seconds")
      yield* world.append("containerd://1", "four")
      yield* TestClock.adjust("40 seconds")
      expect(reading.text()).toBe("one\ntwo\nthree\nfour\n")
      world.setPod(rankZero(containers.terminated(0)))
      yield* TestClock.adjust("40 seconds")
      expect(reading.text()).toBe("one\ntwo\nthree\nfour\n")
      expect(reading.others().map(({ _tag }) => _tag)).toEqual(["End"])
    })
  )

  it.effect("O21: accepted in-place restart: moves to the new container once, from its start", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      const restarting = { restartPolicy: "OnFailure" }
      world.setPod(rankZero(containers.running(), restarting))
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true, tailLines: 5 }, "accept")
      yield* TestClock.adjust("1 second")
      yield* world.append("containerd://1", "traceback\\")
      world.file("containerd://1").ended = true
      world.setPod(rankZero(containers.terminated(1, { phase: "Running" }), restarting))
      yield* TestClock.adjust("10 seconds")
      yield* world.append("containerd://2", "second", "third")
      world.setPod(rankZero(containers.running("containerd://2", 1, 15), restarting))
      world.setPod(rankZero(containers.running("containerd://2", 1, 15), restarting))
      yield* TestClock.adjust("10 seconds")
      world.file("containerd://2").ended = true
      const done = containers.terminated(0, { containerID: "containerd://2", restartCount: 1 })
      world.setPod(rankZero(done, restarting))
      world.setPod(rankZero(done, restarting))
      yield* TestClock.adjust("10 seconds")
      expect(reading.text()).toBe("first\ntracebacksecond\nthird\n")
      expect(reading.others()).toEqual([
        { _tag: "Restarted", containerID: "containerd://2", restartCount: 1 },
        { _tag: "End", how: "terminated", exitCode: 0, reason: "Completed" }
      ])
    })
  )

  it.effect("O20, O21: a restart that was not seen in time: the end of the one before is read as previous", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      const restarting = { restartPolicy: "OnFailure" }
      world.setPod(rankZero(containers.running("containerd://last"), restarting))
      yield* TestClock.adjust("2 seconds")
      yield* world.append("containerd://last", "first")
      const reading = yield* start(world, { follow: true }, "accept")
      yield* TestClock.adjust("1 second")
      world.intercept = (request) => Stream.fail(World.refused(request))
      world.cut("break")
      yield* world.append("containerd://last", "traceback")
      yield* TestClock.adjust("10 seconds")
      yield* world.append("containerd://2", "second")
      world.intercept = () => undefined
      world.setPod(rankZero(containers.running("containerd://2", 1, 13, 1), restarting))
      yield* TestClock.adjust("40 seconds")
      expect(reading.text()).toBe("first\ntraceback\nsecond\n")
      expect(reading.others().map(({ _tag }) => _tag)).toEqual(["Restarted"])
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("without acceptance a restart ends the stream: it never moves on by itself", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      const restarting = { restartPolicy: "OnFailure" }
      world.setPod(rankZero(containers.running(), restarting))
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").ended = true
      world.setPod(rankZero(containers.terminated(1, { phase: "Running" }), restarting))
      yield* TestClock.adjust("10 seconds")
      expect(reading.others()).toEqual([{ _tag: "End", how: "terminated", exitCode: 1, reason: "Error" }])
    })
  )

  it.effect("O24: a phase that goes back to Pending in a crash loop ends nothing", () =>
    Effect.gen(function* () {
      const world = yield* World.make
      const restarting = { restartPolicy: "Always" }
      world.setPod(rankZero(containers.running(), restarting))
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true }, "accept")
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").ended = true
      world.setPod(rankZero(containers.terminated(1, { phase: "Pending" }), restarting))
      yield* TestClock.adjust("5 seconds")
      yield* world.append("containerd://2", "second")
      world.setPod(rankZero(containers.running("containerd://2", 1, 6), restarting))
      yield* TestClock.adjust("5 seconds")
      expect(reading.text()).toBe("first\nsecond\n")
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("never another execution's log: after a Hold and a Release the stream ends with its own pod", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      yield* world.append("containerd://1", "bye")
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").ended = true
      world.setPod(rankZero(containers.terminated(143), { deleted: 5 }))
      world.removePod("run-1-node-0-0-p0")
      world.setPod(rankZero(containers.running("containerd://new"), { uid: "new", created: 30, count: 2 }))
      yield* world.append("containerd://new", "other")
      yield* TestClock.adjust("20 seconds")
      expect(reading.text()).toBe("first\nbye\n")
      expect(reading.others()).toEqual([{ _tag: "End", how: "deleted", exitCode: 143, reason: "Error" }])
    })
  )

  it.effect("force-deleted: what the open follow still brings is delivered, and the unseen end is told", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.removePod("run-1-node-0-0-p0")
      yield* world.append("containerd://1", "handler")
      yield* TestClock.adjust("1 second")
      world.file("containerd://1").ended = true
      yield* TestClock.adjust("20 seconds")
      expect(reading.text()).toBe("first\nhandler\n")
      expect(reading.others()).toMatchObject([
        { _tag: "Gap", reason: "the pod was deleted before the end of its log was seen" },
        { _tag: "End", how: "deleted", exitCode: undefined }
      ])
    })
  )

  it.effect("P01: a permission lost on the way is a typed failure that names the verb", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.intercept = (request) => Stream.fail(World.forbidden(request))
      world.cut("break")
      yield* TestClock.adjust("5 seconds")
      const result = yield* Fiber.join(reading.fiber)
      expect(Either.getOrUndefined(Either.flip(result))?.message).toContain('grant verb "get" on "pods/log"')
    })
  )

  it.effect("P01: following needs watch on pods, and says so", () =>
    Effect.gen(function* () {
      const world = yield* running()
      world.refuse = (request) => (request.verb === "watch" ? World.forbidden(request) : undefined)
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("40 seconds")
      const result = yield* Fiber.join(reading.fiber)
      expect(Either.getOrUndefined(Either.flip(result))?.message).toContain('grant verb "watch" on "pods"')
    })
  )

  it.effect("a node that is gone while its pod's object stays: waits, it is not the end", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "first")
      const reading = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      world.intercept = (request) =>
        Stream.fail(World.status(request, 404, 'pods "node-1" not found', { name: "node-1", kind: "pods" }, "NotFound"))
      world.cut("end")
      yield* TestClock.adjust("5 minutes")
      expect(reading.others()).toEqual([])
      // PodGC: the container was last seen running
      world.setPod(rankZero({ ...containers.running(), phase: "Failed", reason: "NodeLost" }))
      for (let round = 0; round < 30; round++) yield* TestClock.adjust("10 seconds")
      expect(reading.others()).toMatchObject([
        { _tag: "Gap" },
        { _tag: "End", how: "terminated", exitCode: undefined, reason: "NodeLost" }
      ])
    })
  )

  it.effect("O17: interrupting closes the socket, before the first byte and in the middle", () =>
    Effect.gen(function* () {
      const world = yield* running()
      const early = yield* start(world, { follow: true })
      yield* TestClock.adjust("1 second")
      expect(world.openLogs()).toBe(1)
      yield* Fiber.interrupt(early.fiber)
      expect(world.openLogs()).toBe(0)
      yield* world.append("containerd://1", "first")
      const output = yield* program(world)
      yield* Effect.fork(Stream.runDrain(Stream.take(output.output(ref, { follow: true }), 1)))
      yield* TestClock.adjust("1 second")
      expect(world.openLogs()).toBe(0)
    })
  )

  it.effect("backpressure reaches the socket; a slow consumer loses nothing that the node still has", () =>
    Effect.gen(function* () {
      const world = yield* running()
      let taken = 0
      const stamp = (n: number) => `2026-11-29T17:04:42.${String(n).padStart(9, "0")}Z`
      world.intercept = () =>
        Stream.map(
          Stream.tap(Stream.range(1, 10_000), (n) => Effect.sync(() => (taken = n))),
          (n) => encoder.encode(`${stamp(n)} ${n}\n`)
        ).pipe(Stream.rechunk(1))
      const output = yield* program(world)
      let received = 0
      const fiber = yield* Effect.fork(
        Stream.runForEach(output.output(ref), () =>
          Effect.suspend(() => (++received === 10 ? Effect.sleep("1 hour") : Effect.void))
        )
      )
      yield* TestClock.adjust("10 minutes")
      expect(received).toBe(10)
      expect(taken).toBeLessThan(300)
      yield* TestClock.adjust("2 hours")
      yield* Fiber.join(fiber)
      expect(taken).toBe(10_000)
      expect(received).toBe(10_000)
    })
  )

  it.effect("tailLines=0 follows from now on, also when the first connection is cut at once", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "old", "older")
      const reading = yield* start(world, { follow: true, tailLines: 0 })
      yield* TestClock.adjust("1 second")
      world.intercept = (request) => Stream.fail(World.refused(request))
      world.cut("break")
      yield* TestClock.adjust("2 seconds")
      yield* world.append("containerd://1", "new")
      world.intercept = () => undefined
      yield* TestClock.adjust("40 seconds")
      expect(reading.text()).toBe("new\n")
      expect(reading.others()).toEqual([])
      yield* Fiber.interrupt(reading.fiber)
    })
  )

  it.effect("limitBytes ends a follow", () =>
    Effect.gen(function* () {
      const world = yield* running()
      yield* world.append("containerd://1", "first", "second")
      const reading = yield* start(world, { follow: true, limitBytes: 8 })
      yield* TestClock.adjust("1 second")
      expect(reading.text()).toBe("first\nse")
      expect(reading.others()).toMatchObject([{ how: "limit" }])
      expect(world.openLogs()).toBe(0)
    })
  )

  it.effect("a finished run is read to its end and has its exit code", () =>
    Effect.gen(function* () {
      const world = yield* running(containers.terminated(7))
      yield* world.append("containerd://1", "a", "b")
      const { events } = yield* readAll(world, { follow: true, tailLines: 1 })
      expect(text(events)).toBe("b\n")
      expect(others(events)).toMatchObject([{ how: "terminated", exitCode: 7 }])
    })
  )
})
