/**
 * The few things of a cluster that output sees, small enough to break in every way: one TrainJob, its pods, and a kubelet
 * that keeps log files, rotates them and loses connections. Follows the recordings of a real one.
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { fromStatus, type KubeError, KubeNotFound, KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import type { Job } from "@dispatch-kubeflow/core/model/Batch"
import type { Pod } from "@dispatch-kubeflow/core/model/Core"
import type { JobSet } from "@dispatch-kubeflow/core/model/JobSet"
import type { TrainJob } from "@dispatch-kubeflow/core/model/Trainer"
import { Chunk, Clock, Effect, Option, Stream } from "effect"
import { at, job, jobSet, namespace, pod, type PodFields, trainJob } from "./ExecutionFixtures.js"

export const encoder = new TextEncoder()

interface Line {
  readonly stamp: string
  readonly text: string
  readonly newline: boolean
}

/** A container instance's log as its node keeps it. */
export interface LogFile {
  readonly lines: Array<Line>
  /** Where the current file begins. */
  start: number
  /** The process is gone: follows end a second later. */
  ended: boolean
  /** Follows hang: nothing more is written to them. */
  mute: boolean
}

export interface World {
  readonly api: KubeApi.Service
  readonly requests: Array<KubeRequest>
  readonly openLogs: () => number
  trainJob: TrainJob | undefined
  jobSet: JobSet | undefined
  jobs: ReadonlyArray<Job>
  readonly file: (containerID: string) => LogFile
  readonly append: (containerID: string, ...texts: ReadonlyArray<string>) => Effect.Effect<void>
  /** Adds or replaces a pod and tells the watches. */
  readonly setPod: (pod: Pod) => void
  readonly removePod: (name: string) => void
  /** Cuts every open log: in order, or as a broken connection. */
  readonly cut: (how: "end" | "break") => void
  /** Answers log requests instead of the kubelet, as long as it gives an answer; `n` counts log requests from 1. */
  intercept: (request: KubeRequest, n: number) => Stream.Stream<Uint8Array, KubeError> | undefined
  /** Fails other requests. */
  refuse: (request: KubeRequest) => KubeError | undefined
  readonly logRequests: () => ReadonlyArray<KubeRequest>
}

export const status = (
  request: KubeRequest,
  code: number,
  message: string,
  details?: object,
  reason?: string
): KubeError =>
  fromStatus(request, code, {
    kind: "Status",
    code,
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(details === undefined ? {} : { details })
  })

export const forbidden = (request: KubeRequest): KubeError =>
  status(
    request,
    403,
    `pods "x" is forbidden: User "u" cannot ${request.verb} resource "pods/log" in API group "" in the namespace "team-a"`,
    {},
    "Forbidden"
  )

export const refused = (request: KubeRequest): KubeError =>
  status(
    request,
    500,
    'Get "https://h:10250/containerLogs/a/b/node": dial tcp 10.0.0.1:10250: connect: connection refused'
  )

export const containers = {
  waiting: (reason: string): Pod["status"] => ({
    phase: "Pending",
    containerStatuses: [{ name: "node", restartCount: 0, state: { waiting: { reason } } }]
  }),
  running: (containerID = "containerd://1", restartCount = 0, startedAt = 1, last?: number): Pod["status"] => ({
    phase: "Running",
    containerStatuses: [
      {
        name: "node",
        restartCount,
        containerID,
        state: { running: { startedAt: at(startedAt) } },
        ...(last === undefined
          ? {}
          : { lastState: { terminated: { exitCode: last, reason: "Error", containerID: "containerd://last" } } })
      }
    ]
  }),
  terminated: (
    exitCode: number,
    options: { readonly containerID?: string; readonly restartCount?: number; readonly phase?: string } = {}
  ): Pod["status"] => ({
    phase: options.phase ?? (exitCode === 0 ? "Succeeded" : "Failed"),
    containerStatuses: [
      {
        name: "node",
        restartCount: options.restartCount ?? 0,
        containerID: options.containerID ?? "containerd://1",
        state: {
          terminated: {
            exitCode,
            reason: exitCode === 0 ? "Completed" : "Error",
            containerID: options.containerID ?? "containerd://1",
            startedAt: at(1),
            finishedAt: at(2)
          }
        }
      }
    ]
  })
}

/** `n` milliseconds after the epoch as a stamp with `index` as nanoseconds. */
const stamp = (millis: number, index: number): string => {
  const iso = new Date(millis).toISOString()
  return `${iso.slice(0, 23)}${String(index % 1_000_000).padStart(6, "0")}Z`
}

export const rankZero = (status: Pod["status"], fields: Partial<PodFields> = {}): Pod =>
  pod({ uid: "p0", created: 1, count: 1, ...fields, ...(status === undefined ? {} : { status }) })

export const make = Effect.sync((): World => {
  const requests: Array<KubeRequest> = []
  const pods = new Map<string, Pod>()
  const events: Array<WatchFrame> = []
  const files = new Map<string, LogFile>()
  let version = 1
  let open = 0
  let epoch = 0
  let broken: "end" | "break" = "end"
  let logCount = 0
  let lineCount = 0

  let waiters: Array<() => void> = []
  const notify = (): void => {
    const woken = waiters
    waiters = []
    for (const wake of woken) wake()
  }
  const changed: Effect.Effect<void> = Effect.async((resume) => {
    waiters.push(() => resume(Effect.void))
  })

  const file = (containerID: string): LogFile => {
    const existing = files.get(containerID)
    if (existing !== undefined) return existing
    let ended = false
    const made: LogFile = {
      lines: [],
      start: 0,
      mute: false,
      get ended() {
        return ended
      },
      set ended(value) {
        ended = value
        notify()
      }
    }
    files.set(containerID, made)
    return made
  }

  const notFound = (request: KubeRequest): KubeError =>
    status(
      request,
      404,
      `${request.plural} "${request.name}" not found`,
      { name: request.name, kind: request.plural },
      "NotFound"
    )

  const one = (request: KubeRequest, object: object | undefined): Effect.Effect<KubeReply, KubeError> =>
    object === undefined ? Effect.fail(notFound(request)) : Effect.succeed({ status: 200, body: object, warnings: [] })

  const many = (items: ReadonlyArray<unknown>): Effect.Effect<KubeReply, KubeError> =>
    Effect.succeed({ status: 200, body: { metadata: { resourceVersion: String(version) }, items }, warnings: [] })

  const world: World = {
    api: KubeApi.make({
      call: (request) =>
        Effect.suspend((): Effect.Effect<KubeReply, KubeError> => {
          requests.push(request)
          const failure = world.refuse(request)
          if (failure !== undefined) return Effect.fail(failure)
          const key = `${request.verb} ${request.plural}`
          const named = request.query["fieldSelector"]?.replace("metadata.name=", "")
          switch (key) {
            case "get trainjobs":
              return one(request, world.trainJob)
            case "get jobsets":
              return one(request, world.jobSet)
            case "list jobs":
              return many(world.jobs)
            case "list pods":
              return many([...pods.values()].filter((it) => named === undefined || it.metadata.name === named))
            case "get pods":
              return one(request, pods.get(request.name ?? ""))
            default:
              return Effect.dieMessage(`unexpected request: ${key}`)
          }
        }),
      watch: (request) =>
        Stream.suspend(() => {
          requests.push(request)
          const failure = world.refuse(request)
          if (failure !== undefined) return Stream.fail(failure)
          const named = request.query["fieldSelector"]?.replace("metadata.name=", "")
          let cursor = Number(request.query["resourceVersion"]) - 1
          const next: Effect.Effect<WatchFrame> = Effect.suspend(() => {
            for (; cursor < events.length; cursor++) {
              const frame = events[cursor]
              const of = (frame?.object as Pod | undefined)?.metadata.name
              if (frame !== undefined && (named === undefined || of === named)) {
                cursor++
                return Effect.succeed(frame)
              }
            }
            return Effect.zipRight(changed, next)
          })
          return Stream.repeatEffect(next)
        }),
      bytes: (request) =>
        Stream.unwrapScoped(
          Effect.suspend(() => {
            requests.push(request)
            logCount++
            const scripted = world.intercept(request, logCount)
            const track = Effect.acquireRelease(
              Effect.sync(() => open++),
              () => Effect.sync(() => open--)
            )
            return Effect.as(track, scripted ?? serve(request))
          })
        )
    } satisfies KubeTransport),
    requests,
    openLogs: () => open,
    trainJob: trainJob({}),
    jobSet: jobSet({}),
    jobs: [job({ start: 0 })],
    file,
    append: (containerID, ...texts) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const text of texts) {
          file(containerID).lines.push({
            stamp: stamp(now, lineCount++),
            text: text.endsWith("\\") ? text.slice(0, -1) : text,
            newline: !text.endsWith("\\")
          })
        }
        notify()
      }),
    setPod: (object) => {
      version++
      const before = pods.get(object.metadata.name)
      const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } }
      pods.set(object.metadata.name, stored)
      events.push({ type: before === undefined ? "ADDED" : "MODIFIED", object: stored })
      notify()
    },
    removePod: (name) => {
      const before = pods.get(name)
      if (before === undefined) return
      version++
      pods.delete(name)
      events.push({
        type: "DELETED",
        object: { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } }
      })
      notify()
    },
    cut: (how) => {
      epoch++
      broken = how
      notify()
    },
    intercept: () => undefined,
    refuse: () => undefined,
    logRequests: () => requests.filter(({ subresource }) => subresource === "log")
  }

  const serve = (request: KubeRequest): Stream.Stream<Uint8Array, KubeError> => {
    const target = pods.get(request.name ?? "")
    if (target === undefined) return Stream.fail(notFound(request))
    if ((target.spec?.nodeName ?? "") === "") return Stream.fail(new KubeNotFound({ request, subject: "log" }))
    const found = target.status?.containerStatuses?.find(({ name }) => name === "node")
    const previous = request.query["previous"] === "true"
    const containerID = previous
      ? found?.lastState?.terminated?.containerID
      : (found?.containerID ?? found?.state?.terminated?.containerID)
    if (containerID === undefined || containerID === null) {
      const reason = found?.state?.waiting?.reason ?? "ContainerCreating"
      return Stream.fail(
        status(
          request,
          400,
          previous
            ? 'previous terminated container "node" in pod "p" not found'
            : `container "node" in pod "${request.name}" is waiting to start: ${reason}`,
          undefined,
          "BadRequest"
        )
      )
    }
    const source = file(containerID)
    const second = request.query["sinceTime"]?.slice(0, 19) ?? ""
    const render = (lines: ReadonlyArray<Line>): ReadonlyArray<Uint8Array> =>
      lines
        .filter((it) => it.stamp.slice(0, 19) >= second)
        .map((it) => encoder.encode(`${it.stamp} ${it.text}${it.newline ? "\n" : ""}`))
    const tail = request.query["tailLines"]
    const first = tail === undefined ? source.start : Math.max(source.start, source.lines.length - Number(tail))
    const now = render(source.lines.slice(first))
    if (request.query["follow"] !== "true") return Stream.fromIterable(now)
    const opened = epoch
    const muted = source.mute
    let position = first
    const pull: Effect.Effect<Chunk.Chunk<Uint8Array>, Option.Option<KubeError>> = Effect.suspend(() => {
      if (epoch !== opened) {
        return Effect.fail(
          broken === "end"
            ? Option.none()
            : Option.some(new KubeUnavailable({ request, phase: "stream", detail: "unexpected EOF" }))
        )
      }
      const mute = muted || source.mute
      const fresh = mute ? [] : render(source.lines.slice(position))
      if (!mute) position = source.lines.length
      if (fresh.length > 0) return Effect.succeed(Chunk.fromIterable(fresh))
      if (source.ended && !mute) return Effect.zipRight(Effect.sleep(1000), Effect.fail(Option.none()))
      return Effect.zipRight(changed, pull)
    })
    return Stream.repeatEffectChunkOption(pull)
  }

  return world
})

export const ref = { namespace, name: "run-1" }
