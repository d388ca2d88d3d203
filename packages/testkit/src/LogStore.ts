/**
 * Container logs as the container runtime keeps them and the kubelet serves them: instances, rotated files, records with
 * nanosecond stamps; and the API server's and the kubelet's answers to `pods/log`. Pure.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Either } from "effect"
import * as Failure from "./Failure.js"
import * as Json from "./Json.js"
import * as OrderedMap from "./OrderedMap.js"
import type { FieldError } from "./Registry.js"
import * as Store from "./Store.js"

/** A record of a log file: a line, or a part of one. */
interface LogRecord {
  /** Epoch nanoseconds. */
  readonly time: bigint
  /** Without the newline. */
  readonly bytes: Uint8Array
  /** The line ends here: a newline follows. */
  readonly full: boolean
}

interface LogFile {
  /** Counts rotations. */
  readonly number: number
  /** Shared between states and only appended to; `length` is this state's part. */
  readonly records: Array<LogRecord>
  readonly length: number
}

/** One start of a container. */
export interface Instance {
  readonly number: number
  /** The files that are still there, oldest first; the last is the current one. */
  readonly files: ReadonlyArray<LogFile>
  /** Bytes of lines that are not complete: invisible until they are. */
  readonly pending: { readonly stdout: Uint8Array; readonly stderr: Uint8Array }
  /** Epoch milliseconds at which it was seen to have ended. */
  readonly ended: number | undefined
  readonly lastTime: bigint
}

/** The instances of a container that the kubelet keeps: the newest and the one before. */
export type ContainerLog = ReadonlyArray<Instance>

/** All logs, by `<pod uid>/<container>`. */
export type State = OrderedMap.OrderedMap<ContainerLog>

/** No logs. */
export const empty: State = OrderedMap.empty

const keyOf = (uid: string, container: string): string => `${uid}/${container}`

/** The log of a container. */
export const get = (state: State, uid: string, container: string): ContainerLog =>
  OrderedMap.get(state, keyOf(uid, container)) ?? []

const nothing = new Uint8Array(0)

const freshFile = (number: number): LogFile => ({ number, records: [], length: 0 })

const freshInstance = (number: number): Instance => ({
  number,
  files: [freshFile(0)],
  pending: { stdout: nothing, stderr: nothing },
  ended: undefined,
  lastTime: 0n
})

const newestOf = (log: ContainerLog): Instance => log[log.length - 1] ?? freshInstance(0)

const withNewest = (state: State, uid: string, container: string, instance: Instance): State => {
  const log = get(state, uid, container)
  return OrderedMap.set(state, keyOf(uid, container), [...log.slice(0, -1), instance])
}

const join = (left: Uint8Array, right: Uint8Array): Uint8Array => {
  if (left.length === 0) return right
  const result = new Uint8Array(left.length + right.length)
  result.set(left)
  result.set(right, left.length)
  return result
}

/** The container runtime cuts longer lines into parts of this size. */
const partSize = 16_384
const newline = 10
const carriageReturn = 13

// Two lines of one write are some microseconds apart and never equal: observed with containerd
const tick = 7_919n

const push = (instance: Instance, bytes: Uint8Array, full: boolean, now: number): Instance => {
  const at = BigInt(Math.floor(now)) * 1_000_000n
  const time = at > instance.lastTime ? at + (BigInt(instance.number) * 31n + 1n) : instance.lastTime + tick
  const file = instance.files[instance.files.length - 1] ?? freshFile(0)
  const records = file.records.length === file.length ? file.records : file.records.slice(0, file.length)
  records.push({ time, bytes, full })
  return {
    ...instance,
    lastTime: time,
    files: [...instance.files.slice(0, -1), { ...file, records, length: records.length }]
  }
}

/** What a container writes. */
export interface Write {
  readonly bytes: Uint8Array
  readonly stream: "stdout" | "stderr"
  /** Write out what there is of an unfinished line at once, as a part. */
  readonly partial: boolean
}

/** A container writes. Complete lines appear; the rest waits for its newline, for 16 KiB, or for the container's end. */
export const append = (state: State, uid: string, container: string, write: Write, now: number): State => {
  let instance = newestOf(get(state, uid, container))
  const data = join(instance.pending[write.stream], write.bytes)
  let start = 0
  for (let index = 0; index < data.length; index += 1) {
    if (data[index] === newline) {
      // The runtime strips one CR before the LF
      const end = index > start && data[index - 1] === carriageReturn ? index - 1 : index
      instance = push(instance, data.slice(start, end), true, now)
      start = index + 1
    } else if (index - start + 1 === partSize && data[index + 1] !== newline) {
      instance = push(instance, data.slice(start, index + 1), false, now)
      start = index + 1
    }
  }
  let rest = data.slice(start)
  if (write.partial && rest.length > 0) {
    instance = push(instance, rest, false, now)
    rest = nothing
  }
  return withNewest(state, uid, container, {
    ...instance,
    pending: { ...instance.pending, [write.stream]: rest }
  })
}

/** How many log files the kubelet keeps per container (its default `containerLogMaxFiles`). */
const keptFiles = 5

/** The kubelet rotates a log: what is in it can no longer be read through the API. */
export const rotate = (state: State, uid: string, container: string): State => {
  const instance = newestOf(get(state, uid, container))
  const current = instance.files[instance.files.length - 1]
  const files = [...instance.files, freshFile((current?.number ?? -1) + 1)]
  return withNewest(state, uid, container, { ...instance, files: files.slice(-keptFiles) })
}

/** A container has ended: the unfinished line appears, without newline. */
export const finish = (state: State, uid: string, container: string, now: number): State => {
  let instance = newestOf(get(state, uid, container))
  if (instance.ended !== undefined) return state
  for (const stream of ["stdout", "stderr"] as const) {
    const rest = instance.pending[stream]
    if (rest.length > 0) instance = push(instance, rest, false, now)
  }
  return withNewest(state, uid, container, {
    ...instance,
    pending: { stdout: nothing, stderr: nothing },
    ended: now
  })
}

/** The container starts again: a new instance with an empty log. Only one dead instance is kept. */
export const restart = (state: State, uid: string, container: string, now: number): State => {
  const finished = finish(state, uid, container, now)
  const log = get(finished, uid, container)
  const next = freshInstance(newestOf(log).number + 1)
  return OrderedMap.set(finished, keyOf(uid, container), [...log.slice(-1), next])
}

/** Forgets the logs of a pod. */
export const forget = (state: State, uid: string): State => {
  let result = state
  for (const [key] of OrderedMap.withPrefix(state, `${uid}/`)) result = OrderedMap.remove(result, key)
  return result
}

// ---- reading --------------------------------------------------------------------------------------------------------

/** A position in a container's log. */
export interface Reader {
  readonly uid: string
  readonly container: string
  readonly instance: number
  readonly file: number
  readonly index: number
  readonly since: bigint
  readonly timestamps: boolean
  /** Bytes that may still be delivered. */
  readonly left: number
  /** The last record read was a part: no new stamp. */
  readonly inLine: boolean
}

/** What a read gives. */
export interface Reading {
  readonly reader: Reader
  readonly bytes: ReadonlyArray<Uint8Array>
  /** The byte limit is reached. */
  readonly full: boolean
  /** Everything written so far was read. */
  readonly drained: boolean
}

const encoder = new TextEncoder()
const lineFeed = new Uint8Array([newline])

/** Reads on, about `size` bytes at most. A reader whose file was rotated away goes on in the current one. */
export const read = (state: State, from: Reader, size: number): Reading => {
  const instance = get(state, from.uid, from.container).find(({ number }) => number === from.instance)
  if (instance === undefined) return { reader: from, bytes: [], full: false, drained: true }
  let { file, inLine, index, left } = from
  const bytes: Array<Uint8Array> = []
  let taken = 0
  const take = (part: Uint8Array, room: number): number => {
    const shown = part.length > room ? part.slice(0, room) : part
    if (shown.length > 0) bytes.push(shown)
    return shown.length
  }
  let drained = false
  while (left > 0 && taken < size) {
    const position = instance.files.findIndex(({ number }) => number === file)
    const current = instance.files[position]
    if (current === undefined) {
      file = instance.files[instance.files.length - 1]?.number ?? 0
      index = 0
      inLine = false
      continue
    }
    const record = index < current.length ? current.records[index] : undefined
    if (record === undefined) {
      const next = instance.files[position + 1]
      if (next === undefined) {
        drained = true
        break
      }
      file = next.number
      index = 0
      continue
    }
    index += 1
    if (record.time < from.since) continue
    const before = left
    if (from.timestamps && !inLine) left -= take(encoder.encode(`${Json.nanoTime(record.time)} `), left)
    left -= take(record.bytes, left)
    if (record.full) left -= take(lineFeed, left)
    taken += left === Infinity ? record.bytes.length + 1 : before - left
    inLine = !record.full
  }
  return { reader: { ...from, file, index, left, inLine }, bytes, full: left <= 0, drained }
}

// ---- opening --------------------------------------------------------------------------------------------------------

/** What a node's kubelet does. */
export type Kubelet = "up" | "down" | "starting" | { readonly code: number; readonly text: string }

/** An answer to a log request that is not a refusal. */
export type Opened =
  | { readonly _tag: "Log"; readonly reader: Reader; readonly follow: boolean; readonly node: string }
  /** 200 whose whole body is the kubelet's own failure text. */
  | { readonly _tag: "Sentence"; readonly text: string }
  /** 204: no node runs the pod yet. */
  | { readonly _tag: "NoContent" }

/** The options of a log request. */
export interface Options {
  readonly container: string
  readonly follow: boolean
  readonly previous: boolean
  readonly timestamps: boolean
  readonly since: bigint
  readonly tailLines: number | undefined
  readonly limitBytes: number | undefined
}

const isTrue = (value: string | undefined): boolean =>
  value !== undefined && value !== "0" && value.toLowerCase() !== "false"

const integer = (value: string | undefined): Either.Either<number | undefined, Failure.Failure> =>
  value === undefined || value === ""
    ? Either.right(undefined)
    : /^[+-]?\d+$/.test(value)
      ? Either.right(Number(value))
      : Either.left(Failure.badRequest(`strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax`))

/** Parses and validates the query of a log request. */
export const parseOptions = (request: KubeRequest.KubeRequest, now: number): Either.Either<Options, Failure.Failure> =>
  Either.gen(function* () {
    const {
      container = "",
      follow,
      limitBytes: limitText,
      previous,
      sinceSeconds: secondsText,
      sinceTime = "",
      stream,
      tailLines: tailText,
      timestamps
    } = request.query
    // Read in the order of the fields of PodLogOptions: the first that cannot be read is told
    const sinceSeconds = yield* integer(secondsText)
    const sinceMilliseconds = sinceTime === "" ? undefined : Json.parseTime(sinceTime)
    if (sinceTime !== "" && sinceMilliseconds === undefined) {
      return yield* Either.left(
        Failure.badRequest(
          `parsing time ${JSON.stringify(sinceTime)} as "2006-01-02T15:04:05Z07:00": cannot parse ${JSON.stringify(sinceTime)} as "2006"`
        )
      )
    }
    const tailLines = yield* integer(tailText)
    const limitBytes = yield* integer(limitText)
    const errors: Array<FieldError> = []
    if (tailLines !== undefined && tailLines < 0) {
      errors.push({
        field: "tailLines",
        reason: "FieldValueInvalid",
        message: `Invalid value: ${tailLines}: must be greater than or equal to 0`
      })
    }
    if (limitBytes !== undefined && limitBytes < 1) {
      errors.push({
        field: "limitBytes",
        reason: "FieldValueInvalid",
        message: `Invalid value: ${limitBytes}: must be greater than 0`
      })
    }
    if (sinceSeconds !== undefined && request.query["sinceTime"] !== undefined) {
      errors.push({
        field: "[]",
        reason: "FieldValueForbidden",
        message: "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
      })
    } else if (sinceSeconds !== undefined && sinceSeconds < 1) {
      errors.push({
        field: "sinceSeconds",
        reason: "FieldValueInvalid",
        message: `Invalid value: ${sinceSeconds}: must be greater than 0`
      })
    }
    if (stream !== undefined) {
      errors.push({ field: "stream", reason: "FieldValueForbidden", message: "Forbidden: may not be specified" })
    }
    if (errors.length > 0) {
      return yield* Either.left(Failure.invalid({ group: "", kind: "PodLogOptions" }, request.name ?? "", errors))
    }
    // The API server cuts sinceTime to whole seconds on its way to the kubelet
    const since =
      sinceMilliseconds === undefined
        ? sinceSeconds === undefined
          ? 0n
          : BigInt(Math.floor(now) - sinceSeconds * 1000) * 1_000_000n
        : BigInt(Math.floor(sinceMilliseconds / 1000)) * 1_000_000_000n
    return {
      container,
      follow: isTrue(follow),
      previous: isTrue(previous),
      timestamps: isTrue(timestamps),
      since,
      tailLines,
      limitBytes
    }
  })

const names = (pod: Json.JsonObject, list: string): ReadonlyArray<string> =>
  Json.array(Json.at(pod, "spec", list)).flatMap((container) => {
    const name = Json.string(Json.at(container, "name"))
    return name === undefined ? [] : [name]
  })

const chooseContainer = (pod: Json.JsonObject, wanted: string): Either.Either<string, Failure.Failure> => {
  const name = Json.string(Json.at(pod, "metadata", "name")) ?? ""
  const containers = names(pod, "containers")
  if (wanted === "") {
    const [only] = containers
    return containers.length === 1 && only !== undefined
      ? Either.right(only)
      : Either.left(
          Failure.badRequest(
            `a container name must be specified for pod ${name}, choose one of: [${containers.join(" ")}]`
          )
        )
  }
  return [...containers, ...names(pod, "initContainers"), ...names(pod, "ephemeralContainers")].includes(wanted)
    ? Either.right(wanted)
    : Either.left(Failure.badRequest(`container ${wanted} is not valid for pod ${name}`))
}

/** What a container of a pod is doing, as its status tells. */
export interface ContainerState {
  readonly state: "waiting" | "running" | "terminated"
  readonly reason: string
  readonly containerId: string | undefined
  readonly last: { readonly containerId: string | undefined } | undefined
}

/** The state of a container. A pod without container statuses is read by its phase, as a young or a sketched pod. */
export const containerState = (pod: Json.JsonObject, container: string): ContainerState => {
  const statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"].flatMap((list) =>
    Json.array(Json.at(pod, "status", list))
  )
  const status = statuses.find((entry) => Json.at(entry, "name") === container)
  const lastTerminated = Json.at(status, "lastState", "terminated")
  const last = Json.isObject(lastTerminated) ? { containerId: Json.string(lastTerminated["containerID"]) } : undefined
  const terminated = Json.at(status, "state", "terminated")
  if (Json.isObject(terminated)) {
    return {
      state: "terminated",
      reason: Json.string(terminated["reason"]) ?? "",
      containerId: Json.string(terminated["containerID"]),
      last
    }
  }
  const running = Json.at(status, "state", "running")
  if (Json.isObject(running)) {
    return { state: "running", reason: "", containerId: Json.string(Json.at(status, "containerID")), last }
  }
  const phase = Json.string(Json.at(pod, "status", "phase")) ?? "Pending"
  if (status === undefined && phase !== "Pending") {
    return {
      state: phase === "Running" ? "running" : "terminated",
      reason: "",
      containerId: `containerd://${container}`,
      last
    }
  }
  return {
    state: "waiting",
    reason: Json.string(Json.at(status, "state", "waiting", "reason")) ?? "ContainerCreating",
    containerId: undefined,
    last
  }
}

const kubeletRefusal = (pod: string, code: number, text: string): Failure.Failure => {
  const details = { name: pod, kind: "pods/log" }
  const about = (words: string): string => `${words} ( pods/log ${pod})`
  switch (code) {
    case 400:
      return Failure.badRequest(text)
    case 401:
      return Failure.make(
        401,
        "Unauthorized",
        about("the server has asked for the client to provide credentials"),
        details
      )
    case 403:
      return Failure.make(403, "Forbidden", about(text), details)
    case 404:
      return Failure.make(404, "NotFound", about("the server could not find the requested resource"), details)
    case 429:
      return Failure.make(
        429,
        "TooManyRequests",
        about("the server has received too many requests and has asked us to try again later"),
        details
      )
    case 500:
      return Failure.make(500, "InternalError", `Internal error occurred: ${text}`, { causes: [{ message: text }] })
    case 503:
      return Failure.make(
        503,
        "ServiceUnavailable",
        about("the server is currently unable to handle the request"),
        details
      )
    default:
      return Failure.make(
        code,
        undefined,
        about(`the server responded with the status code ${code} but did not return more information`),
        details
      )
  }
}

const addressTypes = ["InternalIP", "Hostname", "ExternalIP", "InternalDNS", "ExternalDNS"]

const kubeletAddress = (node: Json.JsonObject): string | undefined => {
  const addresses = Json.array(Json.at(node, "status", "addresses"))
  for (const type of addressTypes) {
    const found = addresses.find((entry) => Json.at(entry, "type") === type)
    const address = Json.string(Json.at(found, "address"))
    if (address !== undefined && address !== "") return address
  }
  return undefined
}

const pods: Store.Type = { group: "", plural: "pods" }
const nodes: Store.Type = { group: "", plural: "nodes" }

/** Some tenths of a second after an instance has ended, the one before it is removed. */
const removalDelay = 300

const hash = (text: string): string => {
  let value = 0x811c9dc5
  let out = ""
  for (let round = 0; round < 8; round += 1) {
    for (let index = 0; index < text.length; index += 1) {
      value = Math.imul(value ^ text.charCodeAt(index), 0x01000193) >>> 0
    }
    value = (value + round) >>> 0
    out += value.toString(16).padStart(8, "0")
  }
  return out
}

/** The container id that a status should carry: stable for pod, container and instance. */
export const containerId = (uid: string, container: string, instance: number): string =>
  `containerd://${hash(`${uid}/${container}/${instance}`)}`

/** Answers a log request: the API server's checks first, then the kubelet's. */
export const open = (
  store: Store.State,
  logs: State,
  request: KubeRequest.KubeRequest,
  kubelet: (node: string) => Kubelet,
  now: number
): Either.Either<Opened, Failure.Failure> =>
  Either.gen(function* () {
    const name = request.name ?? ""
    const options = yield* parseOptions(request, now)
    const pod = Store.get(store, pods, request.namespace, name)
    if (pod === undefined) return yield* Either.left(Failure.notFound(pods, name))
    const container = yield* chooseContainer(pod, options.container)
    const nodeName = Json.string(Json.at(pod, "spec", "nodeName")) ?? ""
    if (nodeName === "") return { _tag: "NoContent" }
    const node = Store.get(store, nodes, undefined, nodeName)
    // The Node is named, but as a pod: observed with 1.37.2
    if (node === undefined) return yield* Either.left(Failure.notFound(pods, nodeName))
    const address = kubeletAddress(node)
    if (address === undefined) {
      return yield* Either.left(Failure.plain("no preferred addresses found; known addresses: []"))
    }
    const state = kubelet(nodeName)
    if (state === "down") {
      const port = Json.number(Json.at(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port")) ?? 10_250
      const query = Object.entries(request.query)
        .filter(([key]) => key !== "container")
        .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
        .join("&")
      return yield* Either.left(
        Failure.plain(
          `Get "https://${address}:${port}/containerLogs/${request.namespace ?? ""}/${name}/${container}${query === "" ? "" : `?${query}`}": dial tcp ${address}:${port}: connect: connection refused`
        )
      )
    }
    if (state === "starting") return yield* Either.left(kubeletRefusal(name, 404, ""))
    if (state !== "up") return yield* Either.left(kubeletRefusal(name, state.code, state.text))
    const uid = Json.string(Json.at(pod, "metadata", "uid")) ?? ""
    return yield* openContainer(pod, uid, container, nodeName, logs, options, now)
  })

const openContainer = (
  pod: Json.JsonObject,
  uid: string,
  container: string,
  node: string,
  logs: State,
  options: Options,
  now: number
): Either.Either<Opened, Failure.Failure> => {
  const name = Json.string(Json.at(pod, "metadata", "name")) ?? ""
  const refuse = (text: string): Either.Either<never, Failure.Failure> => Either.left(Failure.badRequest(text))
  const status = containerState(pod, container)
  const log = get(logs, uid, container)
  const newest = newestOf(log)
  const running = status.state !== "waiting"
  if (options.previous) {
    if (status.last?.containerId === undefined) {
      return refuse(
        `previous terminated container ${JSON.stringify(container)} in pod ${JSON.stringify(name)} not found`
      )
    }
    const wanted = status.last.containerId
    const known = log.find(({ number }) => containerId(uid, container, number) === wanted)
    const before = known ?? (status.state === "waiting" ? newest : log[log.length - 2])
    // Only one dead instance is kept: the one before goes soon after the newest has ended, until the next one starts
    const removed =
      before === undefined ||
      (before.number < newest.number && newest.ended !== undefined && now - newest.ended >= removalDelay)
    return Either.right(
      removed
        ? { _tag: "Sentence", text: `unable to retrieve container logs for ${wanted}` }
        : start(before, uid, container, node, options)
    )
  }
  if (!running && status.last === undefined) {
    const why =
      status.reason === "ErrImagePull" || status.reason === "ImagePullBackOff" ? "image can't be pulled" : status.reason
    return refuse(`container ${JSON.stringify(container)} in pod ${JSON.stringify(name)} is waiting to start: ${why}`)
  }
  const served =
    status.state === "running"
      ? ""
      : status.state === "terminated"
        ? (status.containerId ?? status.last?.containerId)
        : status.last?.containerId
  if (served === undefined || (status.state === "terminated" && served === "")) {
    return refuse(`container ${JSON.stringify(container)} in pod ${JSON.stringify(name)} is terminated`)
  }
  return Either.right(start(newest, uid, container, node, options))
}

const start = (instance: Instance, uid: string, container: string, node: string, options: Options): Opened => {
  const current = instance.files[instance.files.length - 1] ?? freshFile(0)
  let index = 0
  if (options.tailLines !== undefined) {
    // sinceTime is looked at while reading, so a tail counts records of the file, parts of a line too
    index = Math.max(0, current.length - options.tailLines)
  }
  return {
    _tag: "Log",
    follow: options.follow,
    node,
    reader: {
      uid,
      container,
      instance: instance.number,
      file: current.number,
      index,
      since: options.since,
      timestamps: options.timestamps,
      left: options.limitBytes ?? Infinity,
      inLine: false
    }
  }
}
