/**
 * A running in-memory Kubernetes: a store, an authorizer, container logs and open connections behind the transport of the
 * port. The tag `Cluster` is the back door, with which tests seed, act as the system, cut connections and read the audit
 * trail. Time is Effect's `Clock`; every write is one synchronous step, so writes are atomic and totally ordered.
 *
 * @module
 */
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Chunk, Clock, Context, Deferred, Effect, Either, Exit, FiberId, Layer, Option, Stream } from "effect"
import * as Discovery from "./Discovery.js"
import * as EventLog from "./EventLog.js"
import * as Failure from "./Failure.js"
import { splitmix } from "./internal/Dice.js"
import * as Json from "./Json.js"
import * as LogStore from "./LogStore.js"
import * as Rbac from "./Rbac.js"
import * as Registry from "./Registry.js"
import * as Store from "./Store.js"

/** One request that was made, and how it ended. */
export interface AuditEntry {
  /** Epoch milliseconds. */
  readonly at: number
  readonly user: string
  readonly request: KubeRequest.KubeRequest
  /** HTTP status code of the answer. */
  readonly code: number
}

/** Names a pod. */
export interface PodRef {
  readonly namespace: string
  readonly name: string
}

/** What a container writes. `text` is UTF-8. */
export interface LogWrite {
  /** The first container when left out. */
  readonly container?: string
  readonly text?: string
  readonly bytes?: Uint8Array
  readonly stream?: "stdout" | "stderr"
  /** An unfinished line appears at once, as a part; otherwise it waits for its newline or the container's end. */
  readonly partial?: boolean
  /** When, epoch milliseconds; now when left out. Time never goes back within a container's log. */
  readonly at?: number
}

/** Which open connections to cut. */
export interface ConnectionFilter {
  readonly kind?: "watch" | "log"
  readonly plural?: string
  readonly namespace?: string
  readonly name?: string
  readonly user?: string
}

/** An open watch or log. */
export interface Connection {
  readonly kind: "watch" | "log"
  readonly user: string
  readonly request: KubeRequest.KubeRequest
}

/** The back door to a cluster. */
export interface Service {
  readonly registry: Registry.Registry
  /** The API without authorization (group `system:masters`). */
  readonly admin: KubeApi.Service
  /** The three functions of the port for a subject, authorized by the RBAC objects in the store. */
  readonly transport: (subject: Rbac.Subject) => KubeTransport
  /** Whose token this is, when the cluster issued it (`serviceaccounts/token`) and it still holds. */
  readonly tokenOwner: (token: string) => Effect.Effect<Option.Option<Rbac.Subject>>
  /** The typed API for a subject. */
  readonly as: (subject: Rbac.Subject) => KubeApi.Service
  /** Performs a request as a component of the system: no authorization, no audit, no delay; one atomic step. */
  readonly apply: (request: KubeRequest.KubeRequest) => Effect.Effect<Store.Outcome>
  /** Changes the state by a pure function in one atomic step, and wakes the watchers. */
  readonly modify: <A>(
    change: (state: Store.State, env: Store.Env) => readonly [result: A, state: Store.State]
  ) => Effect.Effect<A>
  /**
   * Stores objects as given, with status, uid and times; fills in what is missing (Nodes get an address) and creates
   * namespaces that are named. An object that exists is replaced. A type that is not served is a defect.
   */
  readonly seed: (objects: ReadonlyArray<object>) => Effect.Effect<ReadonlyArray<Json.JsonObject>>
  /** The state as it is now. */
  readonly state: Effect.Effect<Store.State>
  /** Every change after a version (from now on when left out), for controllers. Never ends, never drops. */
  readonly changes: (fromVersion?: number) => Stream.Stream<EventLog.Entry>
  /** A container writes to its log. A pod that does not exist is a defect. */
  readonly appendLog: (pod: PodRef, write: LogWrite) => Effect.Effect<void>
  /** The kubelet rotates a container's log. */
  readonly rotateLog: (pod: PodRef, container?: string) => Effect.Effect<void>
  /** A container starts again: its log is a new one. Its status is the caller's business. */
  readonly restartLog: (pod: PodRef, container?: string) => Effect.Effect<void>
  /** The container id that belongs into the status of the newest instance of a container. */
  readonly containerId: (pod: PodRef, container?: string) => Effect.Effect<string>
  /** What the kubelet of a node does from now on. `down` ends the logs that are open there, in order. */
  readonly kubelet: (node: string, state: LogStore.Kubelet) => Effect.Effect<void>
  /** Forgets the event log up to a version (all of it when left out): older watches and page tokens are expired. */
  readonly compact: (version?: number) => Effect.Effect<void>
  /** Cuts open connections; how many. `broken`: they fail; `end`: they end in order. */
  readonly disconnect: (filter?: ConnectionFilter, how?: "broken" | "end") => Effect.Effect<number>
  /** The watches and logs that are open. */
  readonly connections: Effect.Effect<ReadonlyArray<Connection>>
  /** The requests made so far through transports, oldest first; bounded. */
  readonly audit: Effect.Effect<ReadonlyArray<AuditEntry>>
  /** The server's clock, epoch milliseconds. */
  readonly now: Effect.Effect<number>
  /** The version that the server says it is. */
  readonly serverVersion: string
}

/** The tag of the back door. */
export class Cluster extends Context.Tag("@dispatch-kubeflow/testkit/Cluster")<Cluster, Service>() {}

/** How a cluster is made. */
export interface Options {
  readonly registry?: Registry.Registry
  /** Objects that are there from the start. */
  readonly objects?: ReadonlyArray<object>
  /** Seeds uids, generated names, log chunks. Default 1. */
  readonly seed?: number
  /** Default `v1.37.2`. */
  readonly serverVersion?: string
  /** Webhooks. */
  readonly admission?: ReadonlyArray<Store.Admission>
  readonly historyLimit?: number
  /** How many audit entries are kept. Default 10 000. */
  readonly auditLimit?: number
  /** Without the namespaces and RBAC roles that every cluster has. */
  readonly bare?: boolean
}

// ---- names and chunks from a seed -----------------------------------------------------------------------------------

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0").slice(-digits)

const nameLetters = "bcdfghjklmnpqrstvwxz2456789"

interface Names {
  readonly newUid: () => string
  readonly suffix: () => string
}

const names = (seed: number): Names => {
  const next = splitmix(seed)
  let counter = 0
  return {
    newUid: () => {
      counter += 1
      const [a, b] = [next(), next()]
      // The counter makes them distinct, the rest look random as uids do
      return `${hex(a, 8)}-${hex(b, 4)}-4${hex(b >>> 16, 3)}-8${hex(a >>> 8, 3)}-${hex(counter, 12)}`
    },
    suffix: () => {
      let text = ""
      for (let index = 0; index < 5; index += 1) text += nameLetters[next() % nameLetters.length] ?? "x"
      return text
    }
  }
}

const tinyChunks = [1, 2, 3, 5, 8, 13]
const smallChunks = [1, 3, 61, 509, 1024]
const bigChunks = [1021, 4096, 16_381]
const tinyLimit = 4096
const smallLimit = 65_536

/** Cuts bytes where it hurts: inside lines and inside characters. Big logs get big pieces. */
const chopper = (seed: number): ((parts: ReadonlyArray<Uint8Array>) => Chunk.Chunk<Uint8Array>) => {
  const next = splitmix(seed)
  let delivered = 0
  return (parts) => {
    const total = parts.reduce((sum, part) => sum + part.length, 0)
    const all = new Uint8Array(total)
    let offset = 0
    for (const part of parts) {
      all.set(part, offset)
      offset += part.length
    }
    const pieces: Array<Uint8Array> = []
    for (let start = 0; start < total;) {
      const sizes = delivered > smallLimit ? bigChunks : delivered > tinyLimit ? smallChunks : tinyChunks
      const end = Math.min(total, start + (sizes[next() % sizes.length] ?? 1))
      pieces.push(all.subarray(start, end))
      delivered += end - start
      start = end
    }
    return Chunk.unsafeFromArray(pieces)
  }
}

// ---- the running server ---------------------------------------------------------------------------------------------

type Cut = "broken" | "end"

interface Open {
  readonly connection: Connection
  /** Where it waits to be woken. */
  readonly keys: ReadonlyArray<string>
  /** Set while it waits. */
  wake: Deferred.Deferred<void> | undefined
  /** The version that woke it last; undefined when something else did. */
  wokenBy: number | undefined
  cut: Cut | undefined
}

interface Cell {
  store: Store.State
  logs: LogStore.State
  kubelets: Map<string, LogStore.Kubelet>
  audit: Array<AuditEntry>
  logCount: number
  watchCount: number
}

const pods: Store.Type = { group: "", plural: "pods" }
const podsKey = Registry.typeKey(pods)
const anyKey = "*"
const logKey = (uid: string): string => `log ${uid}`

const watchKey = (resource: string, namespace: string | undefined, name: string | undefined): string =>
  `${resource}|${namespace ?? ""}|${name ?? ""}`

const entryKeys = (entry: EventLog.Entry): ReadonlyArray<string> => {
  const slash = entry.key.indexOf("/")
  const namespace = slash < 0 ? undefined : entry.key.slice(0, slash)
  const name = entry.key.slice(slash + 1)
  return [
    anyKey,
    watchKey(entry.resource, undefined, undefined),
    watchKey(entry.resource, undefined, name),
    ...(namespace === undefined
      ? []
      : [watchKey(entry.resource, namespace, undefined), watchKey(entry.resource, namespace, name)])
  ]
}

const closes = (filter: ConnectionFilter, { kind, request, user }: Connection): boolean =>
  (filter.kind === undefined || filter.kind === kind) &&
  (filter.plural === undefined || filter.plural === request.plural) &&
  (filter.namespace === undefined || filter.namespace === request.namespace) &&
  (filter.name === undefined || filter.name === request.name) &&
  (filter.user === undefined || filter.user === user)

const nodeAddress = (object: object, index: number): object => {
  const node = Json.fromUnknown(object)
  if (!Json.isObject(node) || node["kind"] !== "Node" || Json.at(node, "status", "addresses") !== undefined) {
    return object
  }
  const name = Json.string(Json.at(node, "metadata", "name")) ?? ""
  return Json.set(
    node,
    ["status", "addresses"],
    [
      { type: "InternalIP", address: `192.0.2.${(index % 250) + 1}` },
      { type: "Hostname", address: name }
    ]
  )
}

const systemNamespaces = ["default", "kube-node-lease", "kube-public", "kube-system"].map((name) => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name }
}))

const toError = (request: KubeRequest.KubeRequest, failure: Failure.Failure): KubeError.KubeError =>
  KubeError.fromStatus(
    request,
    failure.code,
    failure.status,
    failure.retryAfter === undefined ? undefined : failure.retryAfter * 1000
  )

const refuse = (
  request: KubeRequest.KubeRequest,
  failure: Failure.Failure
): Effect.Effect<never, KubeError.KubeError> => {
  const fail = Effect.fail(toError(request, failure))
  return failure.delay === undefined ? fail : Effect.zipRight(Effect.sleep(failure.delay), fail)
}

const broken = (request: KubeRequest.KubeRequest): KubeError.KubeError =>
  new KubeError.KubeUnavailable({
    request: KubeRequest.withoutBody(request),
    phase: "stream",
    detail: "the connection was cut"
  })

const bookmarkEvery = 60_000
const firstLifetime = 1_800_000
const readSize = 65_536
/** How long after a container's end the kubelet ends a follow: it polls the state. */
const followLinger = 1000
const forcedLinger = 2000

const build = (options: Options, startedAt: number): Service => {
  const registry = options.registry ?? Registry.builtins
  const seed = options.seed ?? 1
  const serverVersion = options.serverVersion ?? "v1.37.2"
  const auditLimit = options.auditLimit ?? 10_000
  const { newUid, suffix } = names(seed)
  const env = (now: number): Store.Env => ({ now, newUid, suffix })
  const initial = Store.make(registry, {
    ...(options.admission === undefined ? {} : { admission: options.admission }),
    ...(options.historyLimit === undefined ? {} : { historyLimit: options.historyLimit })
  })
  const cell: Cell = {
    store: initial,
    logs: LogStore.empty,
    kubelets: new Map(),
    audit: [],
    logCount: 0,
    watchCount: 0
  }
  const open = new Set<Open>()
  /** The logs among them: a pod that goes must not look through all watches. */
  const tails = new Set<Open>()
  const waiting = new Map<string, Set<Open>>()

  const stopWaiting = (connection: Open): void => {
    for (const key of connection.keys) {
      const set = waiting.get(key)
      if (set === undefined) continue
      set.delete(connection)
      if (set.size === 0) waiting.delete(key)
    }
    connection.wake = undefined
  }

  const wake = (connection: Open, version: number | undefined): void => {
    const signal = connection.wake
    stopWaiting(connection)
    connection.wokenBy = version
    if (signal !== undefined) Deferred.unsafeDone(signal, Exit.void)
  }

  const wakeKey = (key: string, version: number | undefined): void => {
    const set = waiting.get(key)
    if (set !== undefined) for (const connection of Array.from(set)) wake(connection, version)
  }

  const startWaiting = (connection: Open): Deferred.Deferred<void> => {
    const signal = Deferred.unsafeMake<void>(FiberId.none)
    connection.wake = signal
    for (const key of connection.keys) {
      const set = waiting.get(key)
      if (set === undefined) waiting.set(key, new Set([connection]))
      else set.add(connection)
    }
    return signal
  }

  const following = (uid: string): boolean => {
    for (const { keys } of tails) if (keys.includes(logKey(uid))) return true
    return false
  }

  const endedContainers = (entry: EventLog.Entry): ReadonlyArray<string> =>
    ["containerStatuses", "initContainerStatuses"].flatMap((list) =>
      Json.array(Json.at(entry.object, "status", list)).flatMap((status) => {
        const name = Json.string(Json.at(status, "name"))
        return name !== undefined && Json.at(status, "state", "terminated") !== undefined ? [name] : []
      })
    )

  /** What the rest of the machine does when a pod changes: unfinished lines of ended containers appear. */
  const noticePod = (entry: EventLog.Entry, now: number): void => {
    const uid = Json.string(Json.at(entry.object, "metadata", "uid")) ?? ""
    for (const container of endedContainers(entry)) {
      if (LogStore.get(cell.logs, uid, container).length > 0)
        cell.logs = LogStore.finish(cell.logs, uid, container, now)
    }
    if (entry.type === "DELETED" && !following(uid)) cell.logs = LogStore.forget(cell.logs, uid)
    wakeKey(logKey(uid), undefined)
  }

  const advance = (state: Store.State, now: number): void => {
    const before = cell.store.version
    cell.store = state
    if (state.version === before) return
    for (const entry of EventLog.after(state.log, before)) {
      for (const key of entryKeys(entry)) wakeKey(key, entry.version)
      if (entry.resource === podsKey) noticePod(entry, now)
    }
  }

  const record = (at: number, subject: Rbac.Subject, request: KubeRequest.KubeRequest, code: number): void => {
    cell.audit.push({ at, user: subject.user, request: KubeRequest.withoutBody(request), code })
    if (cell.audit.length > auditLimit * 2) cell.audit = cell.audit.slice(-auditLimit)
  }

  const perform = (
    subject: Rbac.Subject,
    request: KubeRequest.KubeRequest,
    now: number
  ): Either.Either<KubeReply, Failure.Failure> => {
    const refusal = Rbac.check(cell.store, subject, request)
    if (refusal !== undefined) return Either.left(refusal)
    if (request.nonResourcePath !== undefined) {
      const answer = Discovery.answer(registry, serverVersion, request.nonResourcePath)
      return answer === undefined
        ? Either.left(Failure.noPath)
        : Either.right({ status: 200, body: answer, warnings: [], serverTime: now - (now % 1000) })
    }
    if (
      Rbac.isReview(request) &&
      Store.definition(cell.store, request.group, request.version, request.plural) !== undefined
    ) {
      return Rbac.review(cell.store, subject, request, now)
    }
    const outcome = Store.apply(cell.store, request, env(now))
    if (request.patchType === "apply" && Either.isRight(outcome.reply) && outcome.reply.right.status === 201) {
      // An apply that creates needs the permission to create, too
      const cannotCreate = Rbac.check(cell.store, subject, { ...request, verb: "create" })
      if (cannotCreate !== undefined) return Either.left(cannotCreate)
    }
    advance(outcome.state, now)
    return outcome.reply
  }

  const call =
    (subject: Rbac.Subject): KubeTransport["call"] =>
    (request) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const answer = perform(subject, request, now)
        if (Either.isRight(answer)) {
          record(now, subject, request, answer.right.status)
          return Effect.succeed(answer.right)
        }
        record(now, subject, request, answer.left.code)
        return refuse(request, answer.left)
      })

  const register = (connection: Connection, keys: ReadonlyArray<string>): Open => {
    const entry: Open = { connection, keys, wake: undefined, wokenBy: undefined, cut: undefined }
    open.add(entry)
    if (connection.kind === "log") tails.add(entry)
    return entry
  }

  const unregister = (connection: Open): void => {
    stopWaiting(connection)
    open.delete(connection)
    tails.delete(connection)
  }

  /**
   * Waits to be woken, for some milliseconds at most. Gives the version that woke it: everything that concerns this
   * connection and is older was seen.
   */
  const wait = (connection: Open, milliseconds: number): Effect.Effect<number | undefined> =>
    Effect.suspend(() => {
      const signal = startWaiting(connection)
      const woken = Deferred.await(signal)
      return (milliseconds === Infinity ? woken : Effect.raceFirst(woken, Effect.sleep(milliseconds))).pipe(
        Effect.map(() => {
          // The time may be over in the same instant in which a write woke it
          if (connection.wake !== signal) return connection.wokenBy
          stopWaiting(connection)
          return cell.store.version + 1
        })
      )
    })

  // ---- watch ----

  interface Cursor {
    readonly version: number
    readonly initial: ReadonlyArray<Json.JsonObject>
    readonly marksEnd: boolean
    readonly bookmarkAt: number
    readonly deadline: number
    readonly lastBookmarks: ReadonlyArray<number>
  }

  type Step = Effect.Effect<readonly [Chunk.Chunk<WatchFrame>, Option.Option<Cursor>], KubeError.KubeError>

  const watchStep = (request: KubeRequest.KubeRequest, plan: Store.Watch, connection: Open) => {
    const resource = Registry.typeKey(plan.definition)
    const prefix = plan.namespace === undefined ? "" : `${plan.namespace}/`
    const frame = (type: WatchFrame["type"], object: Json.JsonObject): WatchFrame => ({
      type,
      object: Store.show(plan.definition, object)
    })
    const bookmark = (marksEnd: boolean): WatchFrame =>
      frame("BOOKMARK", Store.bookmark(plan.definition, cell.store.version, marksEnd))
    const step = (cursor: Cursor): Step =>
      Effect.flatMap(Clock.currentTimeMillis, (now): Step => {
        if (connection.cut === "broken") return Effect.fail(broken(request))
        if (connection.cut === "end") return Effect.succeed([Chunk.empty(), Option.none()])
        if (cursor.initial.length > 0 || cursor.marksEnd) {
          const frames = cursor.initial.map((object) => frame("ADDED", object))
          if (cursor.marksEnd) {
            frames.push(frame("BOOKMARK", Store.bookmark(plan.definition, cursor.version, true)))
          }
          return Effect.succeed([
            Chunk.unsafeFromArray(frames),
            Option.some({ ...cursor, initial: [], marksEnd: false })
          ])
        }
        const { floor } = cell.store.log
        if (cursor.version < floor) {
          return refuse(request, Store.tooOldVersion(plan.definition, cursor.version, floor))
        }
        const frames: Array<WatchFrame> = []
        for (const entry of EventLog.after(cell.store.log, cursor.version, resource)) {
          if (prefix !== "" && !entry.key.startsWith(prefix)) continue
          const told = EventLog.told(entry, plan.selection.matches)
          if (told !== undefined) frames.push(frame(told.type, told.object))
        }
        const version = Math.max(cursor.version, cell.store.version)
        const moved = version === cursor.version ? cursor : { ...cursor, version }
        if (frames.length > 0) return Effect.succeed([Chunk.unsafeFromArray(frames), Option.some(moved)])
        if (now >= moved.deadline) return Effect.succeed([Chunk.empty(), Option.none()])
        const [extra] = moved.lastBookmarks
        if (plan.bookmarks && (now >= moved.bookmarkAt || (extra !== undefined && now >= extra))) {
          return Effect.succeed([
            Chunk.of(bookmark(false)),
            Option.some({
              ...moved,
              bookmarkAt: now >= moved.bookmarkAt ? now + bookmarkEvery : moved.bookmarkAt,
              lastBookmarks: moved.lastBookmarks.filter((at) => at > now)
            })
          ])
        }
        const until = Math.min(
          moved.deadline,
          plan.bookmarks ? Math.min(moved.bookmarkAt, extra ?? Infinity) : Infinity
        )
        return Effect.flatMap(wait(connection, Math.max(0, until - now)), (wokenBy) =>
          // Nothing that concerns this watch lies before what woke it: an idle watch never falls behind
          step(wokenBy === undefined ? moved : { ...moved, version: Math.max(moved.version, wokenBy - 1) })
        )
      })
    return step
  }

  const watch =
    (subject: Rbac.Subject): KubeTransport["watch"] =>
    (request) =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const refusal = Rbac.check(cell.store, subject, request)
          const plan = refusal === undefined ? Store.watch(cell.store, request) : Either.left(refusal)
          record(now, subject, request, Either.isRight(plan) ? 200 : plan.left.code)
          if (Either.isLeft(plan)) return yield* refuse(request, plan.left)
          if (plan.right.failure !== undefined) return yield* refuse(request, plan.right.failure)
          const { bookmarks, definition, from, initial, marksEnd, namespace, selection, timeoutSeconds } = plan.right
          const connection = yield* Effect.acquireRelease(
            Effect.sync(() =>
              register({ kind: "watch", user: subject.user, request: KubeRequest.withoutBody(request) }, [
                watchKey(Registry.typeKey(definition), namespace, selection.name)
              ])
            ),
            (entry) => Effect.sync(() => unregister(entry))
          )
          cell.watchCount += 1
          const lifetime =
            timeoutSeconds === undefined || timeoutSeconds <= 0
              ? firstLifetime + (splitmix(seed + cell.watchCount)() % firstLifetime)
              : timeoutSeconds * 1000
          const deadline = now + lifetime
          const cursor: Cursor = {
            version: from,
            initial,
            marksEnd,
            bookmarkAt: now + bookmarkEvery,
            deadline,
            // The server also sends one or two shortly before it ends the watch
            lastBookmarks: bookmarks ? [deadline - 2000, deadline - 1000].filter((at) => at > now) : []
          }
          return Stream.paginateChunkEffect(cursor, watchStep(request, plan.right, connection))
        })
      )

  // ---- logs ----

  interface Tail {
    readonly reader: LogStore.Reader
    /** When the kubelet will end the follow. */
    readonly endAt: number
  }

  const sentence = (text: string): Stream.Stream<Uint8Array> => Stream.succeed(new TextEncoder().encode(text))

  const podOf = (request: KubeRequest.KubeRequest, uid: string): Json.JsonObject | undefined => {
    const pod = Store.get(cell.store, pods, request.namespace, request.name ?? "")
    return pod !== undefined && Json.at(pod, "metadata", "uid") === uid ? pod : undefined
  }

  /** When a follow of this instance will be ended by the kubelet, as far as can be told now. */
  const endOf = (request: KubeRequest.KubeRequest, reader: LogStore.Reader, now: number): number => {
    const pod = podOf(request, reader.uid)
    if (pod === undefined) return now + forcedLinger
    const newest = LogStore.get(cell.logs, reader.uid, reader.container).at(-1)
    if (newest !== undefined && newest.number > reader.instance) return now + followLinger
    if (LogStore.containerState(pod, reader.container).state !== "terminated") return Infinity
    return Math.max(now, (newest?.ended ?? now) + followLinger)
  }

  type LogStep = Effect.Effect<readonly [Chunk.Chunk<Uint8Array>, Option.Option<Tail>], KubeError.KubeError>

  const logStep = (
    request: KubeRequest.KubeRequest,
    opened: Extract<LogStore.Opened, { readonly _tag: "Log" }>,
    connection: Open,
    chop: (parts: ReadonlyArray<Uint8Array>) => Chunk.Chunk<Uint8Array>
  ) => {
    const step = (tail: Tail): LogStep =>
      Effect.flatMap(Clock.currentTimeMillis, (now): LogStep => {
        if (connection.cut === "broken") return Effect.fail(broken(request))
        if (connection.cut === "end") return Effect.succeed([Chunk.empty(), Option.none()])
        const reading = LogStore.read(cell.logs, tail.reader, readSize)
        const ends = reading.full || (reading.drained && !opened.follow)
        if (ends) return Effect.succeed([chop(reading.bytes), Option.none()])
        if (reading.bytes.length > 0) {
          return Effect.succeed([chop(reading.bytes), Option.some({ ...tail, reader: reading.reader })])
        }
        if (now >= tail.endAt) return Effect.succeed([Chunk.empty(), Option.none()])
        const endAt = Math.min(tail.endAt, endOf(request, reading.reader, now))
        const next: Tail = { reader: reading.reader, endAt }
        return Effect.zipRight(wait(connection, Math.max(0, endAt - now)), step(next))
      })
    return step
  }

  const bytes =
    (subject: Rbac.Subject): KubeTransport["bytes"] =>
    (request) =>
      Stream.unwrapScoped(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const refusal = Rbac.check(cell.store, subject, request)
          const answer: Either.Either<LogStore.Opened, Failure.Failure> =
            refusal !== undefined
              ? Either.left(refusal)
              : request.plural === "pods" &&
                  request.group === "" &&
                  request.subresource === "log" &&
                  request.verb === "get"
                ? LogStore.open(cell.store, cell.logs, request, (node) => cell.kubelets.get(node) ?? "up", now)
                : Either.left(Failure.noResource)
          if (Either.isLeft(answer)) {
            record(now, subject, request, answer.left.code)
            return yield* refuse(request, answer.left)
          }
          const opened = answer.right
          record(now, subject, request, opened._tag === "NoContent" ? 204 : 200)
          switch (opened._tag) {
            case "NoContent":
              return yield* new KubeError.KubeNotFound({
                request: KubeRequest.withoutBody(request),
                subject: "log"
              })
            case "Sentence":
              return sentence(opened.text)
            case "Log": {
              const { reader } = opened
              const connection = yield* Effect.acquireRelease(
                Effect.sync(() =>
                  register({ kind: "log", user: subject.user, request: KubeRequest.withoutBody(request) }, [
                    logKey(reader.uid),
                    `kubelet ${opened.node}`
                  ])
                ),
                (entry) =>
                  Effect.sync(() => {
                    unregister(entry)
                    // The last reader of a pod that is gone takes its log with it
                    if (podOf(request, reader.uid) === undefined && !following(reader.uid)) {
                      cell.logs = LogStore.forget(cell.logs, reader.uid)
                    }
                  })
              )
              cell.logCount += 1
              const chop = chopper(seed * 7919 + cell.logCount)
              return Stream.paginateChunkEffect({ reader, endAt: Infinity }, logStep(request, opened, connection, chop))
            }
          }
        })
      )

  const transport = (subject: Rbac.Subject): KubeTransport => ({
    call: call(subject),
    watch: watch(subject),
    bytes: bytes(subject)
  })

  const locate = (
    pod: PodRef,
    container: string | undefined
  ): Effect.Effect<{ readonly uid: string; readonly container: string }> =>
    Effect.suspend(() => {
      const object = Store.get(cell.store, pods, pod.namespace, pod.name)
      const uid = Json.string(Json.at(object, "metadata", "uid"))
      const first = Json.string(Json.at(object, "spec", "containers", 0, "name"))
      const chosen = container ?? first
      return uid === undefined || chosen === undefined
        ? Effect.dieMessage(`no pod ${pod.namespace}/${pod.name} to write a log for`)
        : Effect.succeed({ uid, container: chosen })
    })

  const changeLog = (
    pod: PodRef,
    container: string | undefined,
    change: (uid: string, container: string, now: number) => LogStore.State
  ): Effect.Effect<void> =>
    Effect.flatMap(locate(pod, container), (place) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        cell.logs = change(place.uid, place.container, now)
        wakeKey(logKey(place.uid), undefined)
      })
    )

  const seedObjects = (
    objects: ReadonlyArray<object>,
    now: number
  ): Either.Either<ReadonlyArray<Json.JsonObject>, ReadonlyArray<string>> => {
    const base = Store.count(cell.store, { group: "", plural: "nodes" })
    const result = Store.seed(
      cell.store,
      objects.map((object, index) => nodeAddress(object, base + index)),
      env(now)
    )
    if (result.unknown.length > 0) return Either.left(result.unknown)
    advance(result.state, now)
    return Either.right(result.seeded)
  }

  cell.store = Store.seed(
    initial,
    [
      ...(options.bare === true ? [] : [...systemNamespaces, ...Rbac.defaults]),
      ...(options.objects ?? []).map(nodeAddress)
    ],
    env(startedAt)
  ).state

  return {
    registry,
    serverVersion,
    admin: KubeApi.make(transport(Rbac.admin)),
    transport,
    as: (subject) => KubeApi.make(transport(subject)),
    tokenOwner: (token) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        Option.map(Option.fromNullable(Store.tokenSubject(cell.store, token, now)), ({ namespace, name }) =>
          Rbac.serviceAccount(namespace, name)
        )
      ),
    apply: (request) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const outcome = Store.apply(cell.store, request, env(now))
        advance(outcome.state, now)
        return outcome
      }),
    modify: (change) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const [result, state] = change(cell.store, env(now))
        advance(state, now)
        return result
      }),
    seed: (objects) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Either.match(seedObjects(objects, now), {
          onLeft: (unknown) => Effect.dieMessage(`types that this cluster does not serve: ${unknown.join(", ")}`),
          onRight: Effect.succeed
        })
      ),
    state: Effect.sync(() => cell.store),
    changes: (fromVersion) =>
      Stream.unwrapScoped(
        Effect.map(
          Effect.acquireRelease(
            Effect.sync(() => ({
              from: fromVersion ?? cell.store.version,
              entry: {
                connection: { kind: "watch", user: "", request: KubeRequest.nonResource("") },
                keys: [anyKey],
                wake: undefined,
                wokenBy: undefined,
                cut: undefined
              } as Open
            })),
            ({ entry }) => Effect.sync(() => stopWaiting(entry))
          ),
          ({ entry, from }) => {
            const step = (
              version: number
            ): Effect.Effect<readonly [Chunk.Chunk<EventLog.Entry>, Option.Option<number>]> =>
              Effect.suspend(() => {
                if (version < cell.store.log.floor) {
                  return Effect.dieMessage(`changes after ${version} are compacted away: the reader is too slow`)
                }
                const entries = EventLog.after(cell.store.log, version)
                if (entries.length > 0) {
                  return Effect.succeed([Chunk.unsafeFromArray(entries), Option.some(cell.store.version)] as const)
                }
                return Effect.flatMap(wait(entry, Infinity), (wokenBy) =>
                  step(Math.max(version, (wokenBy ?? version + 1) - 1))
                )
              })
            return Stream.paginateChunkEffect(from, step)
          }
        )
      ),
    appendLog: (pod, write) =>
      changeLog(pod, write.container, (uid, container, now) =>
        LogStore.append(
          cell.logs,
          uid,
          container,
          {
            bytes: write.bytes ?? new TextEncoder().encode(write.text ?? ""),
            stream: write.stream ?? "stdout",
            partial: write.partial ?? false
          },
          write.at ?? now
        )
      ),
    rotateLog: (pod, container) => changeLog(pod, container, (uid, chosen) => LogStore.rotate(cell.logs, uid, chosen)),
    restartLog: (pod, container) =>
      changeLog(pod, container, (uid, chosen, now) => LogStore.restart(cell.logs, uid, chosen, now)),
    containerId: (pod, container) =>
      Effect.map(locate(pod, container), (place) =>
        LogStore.containerId(
          place.uid,
          place.container,
          LogStore.get(cell.logs, place.uid, place.container).at(-1)?.number ?? 0
        )
      ),
    kubelet: (node, state) =>
      Effect.sync(() => {
        cell.kubelets.set(node, state)
        if (state !== "down") return
        for (const entry of open) {
          if (entry.keys.includes(`kubelet ${node}`)) {
            entry.cut ??= "end"
            wake(entry, undefined)
          }
        }
      }),
    compact: (version) =>
      Effect.sync(() => {
        cell.store = Store.compact(cell.store, version)
      }),
    disconnect: (filter = {}, how = "broken") =>
      Effect.sync(() => {
        let count = 0
        for (const entry of open) {
          if (!closes(filter, entry.connection) || entry.cut !== undefined) continue
          entry.cut = how
          wake(entry, undefined)
          count += 1
        }
        return count
      }),
    connections: Effect.sync(() => [...open].map(({ connection }) => connection)),
    audit: Effect.sync(() => cell.audit.slice(-auditLimit)),
    now: Clock.currentTimeMillis
  }
}

/** Makes a cluster. */
export const make = (options: Options = {}): Effect.Effect<Service> =>
  Effect.map(Clock.currentTimeMillis, (now) => build(options, now))

/** A layer that is one cluster. */
export const layer = (options: Options = {}): Layer.Layer<Cluster> => Layer.effect(Cluster, make(options))

/** The typed API of a cluster for a subject; the administrator when left out. */
export const kubeApi = (subject: Rbac.Subject = Rbac.admin): Layer.Layer<KubeApi.KubeApi, never, Cluster> =>
  Layer.effect(
    KubeApi.KubeApi,
    Effect.map(Cluster, (cluster) => cluster.as(subject))
  )
