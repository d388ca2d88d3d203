/**
 * Kubelets and the machines below them. A machine has processes, and what they do does not depend on any object: a node
 * that is lost keeps its processes until its kubelet is back or its power is off. The kubelet reports what is true on the
 * machine, when it is up. A machine whose name another one has taken is cut off for good, and runs on.
 *
 * Not modelled: probes, volumes, image pulls that end, events `Pulled`, `Created`, `Started`, node pressure, admission at
 * the node, preStop hooks.
 *
 * @module
 */
import { Either } from "effect"
import type { Act, Answer, Change, Context, Stage, View, Wake, Work } from "../Stage.js"
import { send, sendIf } from "../Stage.js"
import * as Events from "./Events.js"
import * as LogStore from "../LogStore.js"
import * as Objects from "./Objects.js"

/** How a container ends. */
export interface Ending {
  readonly code: number
  /** Default `Completed` for 0, else `Error`. */
  readonly reason?: string
  readonly message?: string
}

/** What a container's program does. Times in milliseconds. */
export interface Program {
  /** From the pod's arrival on the node to the start of its containers; default 0. */
  readonly startAfter?: number
  /** The container never starts: its waiting reason, e.g. `ErrImagePull`, `CreateContainerConfigError`. */
  readonly waiting?: { readonly reason: string; readonly message?: string }
  /** One entry per instance, the last for all later ones; without entries it runs until it is told to stop. */
  readonly runs?: ReadonlyArray<Ending & { readonly after: number }>
  /** What SIGTERM does; default: it ends at once with code 143. `ignore`: SIGKILL after the grace period, code 137. */
  readonly onTerm?: "ignore" | { readonly code: number; readonly after?: number }
  /** What it writes to its log, from its start on. */
  readonly output?: ReadonlyArray<{ readonly after: number; readonly text: string }>
}

/** Why a kubelet takes a pod off its node. */
export interface Eviction {
  /** e.g. `The node was low on resource: memory.` */
  readonly message: string
  /** The pod used more than it was granted: nothing that was done to it, so there is no `DisruptionTarget`. Default false. */
  readonly ownLimit?: boolean
}

/** A process that runs: the truth that no object can give. */
export interface Process {
  /** The name of its machine's Node, also when another machine has that name by now. */
  readonly node: string
  /** The machineID of its machine. */
  readonly machine: string
  /** Another machine has the name by now: no kubelet knows of this process. */
  readonly replaced: boolean
  readonly namespace: string
  readonly pod: string
  readonly podUid: string
  readonly container: string
  /** Epoch milliseconds. */
  readonly startedAt: number
}

/** A machine that can run pods. */
export interface Machine {
  readonly name: string
  readonly labels: Objects.StringMap
  readonly allocatable: Objects.StringMap
  /** Whether the kubelet runs; without it processes run on and nothing is reported. */
  readonly kubelet: boolean
  /** The kernel's, so it changes when the machine is switched on again. */
  readonly bootID: string
  /** The machine's as long as it lives: 32 hex digits. */
  readonly machineID: string
  /** The machine's as long as it lives: the text of a UUID. */
  readonly systemUUID: string
  readonly address: string
  /** When the kubelet was started. */
  readonly since: number
  /** A kubelet registers its Node once, when it starts. */
  readonly toRegister: boolean
}

interface Instance {
  readonly name: string
  readonly image: string
  readonly role: "main" | "init" | "sidecar"
  program: Program
  state:
    | { readonly _tag: "Waiting"; readonly reason: string; readonly message?: string }
    | { readonly _tag: "Running"; readonly startedAt: number }
    | {
        readonly _tag: "Ended"
        readonly at: number
        readonly terminated: Objects.Terminated
        /** Absent when it did not run on this machine. */
        readonly startedAt?: number
      }
  last: Objects.Terminated | undefined
  restartCount: number
  instances: number
  written: number
  termAt: number | undefined
  /** It is reported without a container, since no runtime knows it. */
  lost: boolean
}

type Why = "deleted" | "deadline" | "evicted" | "orphan"

interface Sandbox {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly node: string
  /** How far the clock of its node is ahead, milliseconds. */
  readonly skew: number
  readonly spec: Objects.PodSpec
  podIP: string
  readonly arrived: number
  readonly instances: ReadonlyArray<Instance>
  /** Reported steps of the start: nothing, ContainerCreating, sandbox up. */
  step: "new" | "creating" | "sandbox" | "started"
  stopping: { readonly at: number; readonly killAt: number | undefined; readonly why: Why } | undefined
  eviction: Eviction | undefined
  /** All containers have ended and the sandbox is stopped: only then does the phase say so. */
  stopped: boolean
  goneAt: number | undefined
  /** Another machine may have run the pod, and this one's kubelet has not looked yet at what was reported of it. */
  inherited: boolean
}

/** Settings, in milliseconds. */
export interface Options {
  /** Lease renewal; default 10 s. `undefined` in a field means the default, 0 no heartbeats and so no missed ones. */
  readonly heartbeat?: number
  /** What the containers of a pod do; default: run until told to stop. */
  readonly programs?: (pod: Objects.Pod, container: string) => Program | undefined
  /** Whether a Node object that somebody else made gets a machine; default true. */
  readonly adoptNodes?: boolean
  /** Makes the ids of machines. Default 1. */
  readonly seed?: number
  /** How far the nodes' clocks are ahead of the API server's, milliseconds; what is written shows it. Default 0. */
  readonly skew?: number
}

const orphanTerm = 200
const orphanTermAfterRestart = 3000
const orphanKill = 2000
const firstRestart = 1000
const backOffBase = 10_000
const backOffMax = 300_000

/** A pod of a machine whose name another one has taken. */
interface Former {
  readonly machine: string
  readonly sandbox: Sandbox
}

interface Memory {
  /** By name: those that have a kubelet, or can have one again. */
  readonly machines: Map<string, Machine>
  readonly sandboxes: Map<string, Sandbox>
  readonly byNode: Map<string, Set<string>>
  /** By machine and pod. */
  readonly former: Map<string, Former>
  readonly overrides: Map<string, Program>
  readonly seed: number
  readonly skew: number
  /** How many machines there ever were. */
  made: number
  addresses: number
  boots: number
  beating: boolean
}

const notReadyMessage = (names: ReadonlyArray<string>): string => `containers with unready status: [${names.join(" ")}]`

const isRunning = (instance: Instance): boolean => instance.state._tag === "Running"
const isEnded = (instance: Instance): boolean => instance.state._tag === "Ended"

const restarts = (sandbox: Sandbox, instance: Instance): boolean => {
  if (sandbox.stopping !== undefined || instance.state._tag !== "Ended") return false
  if (instance.role === "sidecar") return !mains(sandbox).every(isEnded)
  const policy = sandbox.spec.restartPolicy ?? "Always"
  const failed = instance.state.terminated.exitCode !== 0
  return (policy === "Always" && instance.role === "main") || (policy !== "Never" && failed)
}

const mains = (sandbox: Sandbox): ReadonlyArray<Instance> => sandbox.instances.filter(({ role }) => role === "main")

const backOff = (instance: Instance): number =>
  instance.restartCount === 0 ? firstRestart : Math.min(backOffBase * 2 ** (instance.restartCount - 1), backOffMax)

/** The id of the newest container of an instance; none before the first start. */
const idOf = (sandbox: { readonly uid: string }, instance: Instance): string | undefined =>
  instance.instances === 0 || instance.lost
    ? undefined
    : LogStore.containerId(sandbox.uid, instance.name, instance.restartCount)

const end = (sandbox: Sandbox, instance: Instance, at: number, ending: Ending): void => {
  if (instance.state._tag !== "Running") return
  const { startedAt } = instance.state
  instance.state = {
    _tag: "Ended",
    at,
    startedAt,
    terminated: Objects.compact({
      exitCode: ending.code,
      reason: ending.reason ?? (ending.code === 0 ? "Completed" : "Error"),
      message: ending.message,
      startedAt: Objects.time(startedAt + sandbox.skew),
      finishedAt: Objects.time(at + sandbox.skew),
      containerID: idOf(sandbox, instance)
    })
  }
}

/** When and how a running container ends by what is known now. */
const ahead = (sandbox: Sandbox, instance: Instance): { readonly at: number; readonly ending: Ending } | undefined => {
  if (instance.state._tag !== "Running") return undefined
  const found: Array<{ readonly at: number; readonly ending: Ending }> = []
  const { runs } = instance.program
  const run = runs?.[Math.min(instance.restartCount, runs.length - 1)]
  if (run !== undefined) found.push({ at: instance.state.startedAt + run.after, ending: run })
  if (instance.termAt !== undefined) {
    const onTerm = instance.program.onTerm ?? { code: 143 }
    if (onTerm !== "ignore") found.push({ at: instance.termAt + (onTerm.after ?? 0), ending: { code: onTerm.code } })
    if (sandbox.stopping?.killAt !== undefined) found.push({ at: sandbox.stopping.killAt, ending: { code: 137 } })
  }
  return found.toSorted((a, b) => a.at - b.at)[0]
}

const isEvicted = (sandbox: Sandbox, phase: string): boolean =>
  sandbox.stopping?.why === "evicted" && phase === "Failed"

const conditionsOf = (
  pod: Objects.Pod,
  sandbox: Sandbox,
  phase: string,
  now: number
): ReadonlyArray<Objects.Condition> => {
  const generation = pod.metadata.generation ?? 1
  const at = Objects.time(now + sandbox.skew)
  const own = mains(sandbox)
  const unready = own.filter((instance) => !isRunning(instance)).map(({ name }) => name)
  const over = own.every(isEnded) && !own.some((instance) => restarts(sandbox, instance))
  const succeeded = own.every((instance) => instance.state._tag === "Ended" && instance.state.terminated.exitCode === 0)
  const neverStarted = own.every((instance) => instance.instances === 0)
  const isUp = sandbox.step !== "new" && sandbox.step !== "creating"
  const initialized = sandbox.instances.every(
    (instance) =>
      instance.role === "main" ||
      (instance.role === "sidecar"
        ? instance.instances > 0
        : instance.state._tag === "Ended" && instance.state.terminated.exitCode === 0)
  )
  const make = (type: string, isTrue: boolean, reason?: string, message?: string): Objects.Condition => {
    const status = isTrue ? "True" : "False"
    const before = Objects.conditionOf(pod.status?.conditions, type)
    return Objects.compact({
      type,
      observedGeneration: generation,
      status,
      lastProbeTime: null,
      lastTransitionTime: before?.status === status ? before.lastTransitionTime : at,
      reason: isTrue && !["Initialized", "DisruptionTarget"].includes(type) ? undefined : reason,
      message
    })
  }
  const readiness = (type: string): Objects.Condition =>
    unready.length === 0
      ? make(type, true)
      : over && !neverStarted
        ? make(type, false, succeeded ? "PodCompleted" : "PodFailed")
        : make(type, false, "ContainersNotReady", notReadyMessage(unready))
  const others = (pod.status?.conditions ?? []).filter(
    ({ type }) =>
      !["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].includes(type) &&
      !(type === "DisruptionTarget" && isEvicted(sandbox, phase))
  )
  const scheduled = make("PodScheduled", true)
  return [
    phase === "Succeeded" || phase === "Failed" || (sandbox.stopping !== undefined && neverStarted)
      ? make("PodReadyToStartContainers", false, "PodSandboxNotReady", "pod sandbox is not ready")
      : isUp
        ? make("PodReadyToStartContainers", true)
        : make("PodReadyToStartContainers", false, "PodSandboxNotReady", "no pod sandbox exists"),
    initialized
      ? make("Initialized", true, phase === "Succeeded" ? "PodCompleted" : undefined)
      : make(
          "Initialized",
          false,
          "ContainersNotInitialized",
          `containers with incomplete status: [${sandbox.instances
            .filter(({ role }) => role !== "main")
            .map(({ name }) => name)
            .join(" ")}]`
        ),
    readiness("Ready"),
    readiness("ContainersReady"),
    scheduled,
    ...others,
    ...(isEvicted(sandbox, phase) && sandbox.eviction?.ownLimit !== true
      ? [make("DisruptionTarget", true, "TerminationByKubelet", sandbox.eviction?.message)]
      : [])
  ]
}

const stateOf = (sandbox: Sandbox, instance: Instance): Objects.ContainerState => {
  switch (instance.state._tag) {
    case "Waiting":
      return {
        waiting: Objects.compact({ reason: instance.state.reason, message: instance.state.message })
      }
    case "Running":
      return { running: { startedAt: Objects.time(instance.state.startedAt + sandbox.skew) } }
    case "Ended":
      return { terminated: instance.state.terminated }
  }
}

const containerStatus = (sandbox: Sandbox, instance: Instance): Objects.ContainerStatus =>
  Objects.compact({
    name: instance.name,
    state: stateOf(sandbox, instance),
    lastState: instance.last === undefined ? {} : { terminated: instance.last },
    ready: instance.role === "init" ? isEnded(instance) : isRunning(instance),
    restartCount: instance.restartCount,
    image: instance.image,
    imageID: instance.instances === 0 || instance.lost ? "" : `sha256:${Objects.hash(instance.image).repeat(4)}`,
    containerID: idOf(sandbox, instance),
    started: isRunning(instance)
  })

const phaseOf = (sandbox: Sandbox): string => {
  const own = mains(sandbox)
  const failedInit = sandbox.instances.some(
    (instance) =>
      instance.role === "init" &&
      instance.state._tag === "Ended" &&
      instance.state.terminated.exitCode !== 0 &&
      !restarts(sandbox, instance)
  )
  if (failedInit && sandbox.stopped) return "Failed"
  if (own.every(isEnded) && !own.some((instance) => restarts(sandbox, instance))) {
    if (!sandbox.stopped) return own.every((instance) => instance.instances === 0) ? "Pending" : "Running"
    if (sandbox.stopping?.why === "deadline" || sandbox.stopping?.why === "evicted") return "Failed"
    return own.every((instance) => instance.state._tag === "Ended" && instance.state.terminated.exitCode === 0)
      ? "Succeeded"
      : "Failed"
  }
  return own.some((instance) => instance.instances > 0) ? "Running" : "Pending"
}

const statusOf = (pod: Objects.Pod, sandbox: Sandbox, machine: Machine, now: number): Objects.PodStatus => {
  const phase = phaseOf(sandbox)
  const inits = sandbox.instances.filter(({ role }) => role !== "main")
  const hasAddress = mains(sandbox).some((instance) => instance.instances > 0)
  return Objects.compact({
    ...pod.status,
    observedGeneration: pod.metadata.generation ?? 1,
    phase,
    conditions: conditionsOf(pod, sandbox, phase, now),
    hostIP: machine.address,
    hostIPs: [{ ip: machine.address }],
    podIP: hasAddress ? sandbox.podIP : undefined,
    podIPs: hasAddress ? [{ ip: sandbox.podIP }] : undefined,
    startTime: pod.status?.startTime ?? Objects.time(sandbox.arrived + sandbox.skew),
    ...(inits.length === 0
      ? {}
      : { initContainerStatuses: inits.map((instance) => containerStatus(sandbox, instance)) }),
    containerStatuses: mains(sandbox).map((instance) => containerStatus(sandbox, instance)),
    ...(sandbox.stopping?.why === "deadline" && phase === "Failed"
      ? { reason: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline" }
      : {}),
    ...(isEvicted(sandbox, phase) ? { reason: "Evicted", message: sandbox.eviction?.message } : {})
  })
}

const neverStarted: Objects.Terminated = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
  startedAt: null,
  finishedAt: null
}

const usedToRun: Objects.Terminated = {
  ...neverStarted,
  message: "The container could not be located when the pod was deleted.  The container used to be Running"
}

/**
 * What a kubelet makes of a pod that another machine had: its runtime knows no container, so it goes by what was reported.
 * What was running is lost, as when the containers are removed behind a kubelet's back.
 */
function* inherit(sandbox: Sandbox, pod: Objects.Pod, now: number): Generator<Act, void, Answer> {
  sandbox.inherited = false
  const reports = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])]
  const mayStart = pod.metadata.deletionTimestamp === undefined
  for (const instance of sandbox.instances) {
    const reported = reports.find(({ name }) => name === instance.name)
    if (reported === undefined) continue
    instance.restartCount = reported.restartCount
    instance.last = reported.lastState.terminated
    const { running, terminated } = reported.state
    if (terminated !== undefined) {
      instance.state = { _tag: "Ended", at: now, terminated }
      instance.instances = 1
      instance.lost = terminated.containerID === undefined
    } else if (running !== undefined) {
      instance.last = usedToRun
      if (mayStart) instance.restartCount++
      if (mayStart && (instance.role === "sidecar" || sandbox.spec.restartPolicy !== "Never")) {
        yield {
          _tag: "NewLog",
          podUid: sandbox.uid,
          namespace: sandbox.namespace,
          pod: sandbox.name,
          container: instance.name
        }
      } else {
        instance.state = { _tag: "Ended", at: now, terminated: neverStarted }
        instance.instances = 1
        instance.lost = true
      }
    }
  }
  if (mains(sandbox).every(isEnded)) {
    sandbox.step = "started"
    sandbox.podIP = pod.status?.podIP ?? sandbox.podIP
  }
}

function* write(context: Context, sandbox: Sandbox, machine: Machine): Generator<Act, Objects.Pod | undefined, Answer> {
  const pod = context.view.get(Objects.pods, sandbox.namespace, sandbox.name)
  if (pod === undefined || pod.metadata.uid !== sandbox.uid) return undefined
  const answer = yield* sendIf(Objects.patchStatus(Objects.pods, pod, statusOf(pod, sandbox, machine, context.now())))
  if (answer !== undefined && Either.isLeft(answer)) return pod
  return context.view.get(Objects.pods, sandbox.namespace, sandbox.name) ?? pod
}

function* output(sandbox: Sandbox, until: number): Generator<Act, number | undefined, Answer> {
  let next: number | undefined
  for (const instance of sandbox.instances) {
    const { state } = instance
    const startedAt = state._tag === "Waiting" ? undefined : state.startedAt
    if (startedAt === undefined) continue
    const ended = state._tag === "Ended" ? state.at : Number.POSITIVE_INFINITY
    for (const line of (instance.program.output ?? []).slice(instance.written)) {
      const at = startedAt + line.after
      if (at > ended) break
      if (at > until) {
        next = next === undefined ? at : Math.min(next, at)
        break
      }
      instance.written++
      yield {
        _tag: "Log",
        lines: {
          podUid: sandbox.uid,
          namespace: sandbox.namespace,
          pod: sandbox.name,
          container: instance.name,
          text: line.text
        }
      }
    }
  }
  return next
}

const start = (instance: Instance, at: number): void => {
  if (instance.state._tag === "Ended") {
    instance.last = instance.state.terminated
    instance.restartCount++
  }
  instance.state = { _tag: "Running", startedAt: at }
  instance.instances++
  instance.written = 0
  instance.termAt = undefined
  instance.lost = false
}

/** Ends what has ended on the machine by now, whether a kubelet sees it or not. */
const live = (sandbox: Sandbox, now: number): void => {
  for (const instance of sandbox.instances) {
    const next = ahead(sandbox, instance)
    if (next !== undefined && next.at <= now) end(sandbox, instance, next.at, next.ending)
  }
  const { stopping } = sandbox
  // sidecars are told to stop when the others are gone
  if (stopping === undefined && !mains(sandbox).every(isEnded)) return
  for (const instance of sandbox.instances) {
    if (instance.role === "sidecar" && isRunning(instance) && mains(sandbox).every(isEnded)) {
      instance.termAt ??= now
      const next = ahead(sandbox, instance)
      if (next !== undefined && next.at <= now) end(sandbox, instance, next.at, next.ending)
    }
  }
}

// What a kubelet leaves a pod that it evicts at once
const evictionGrace = 1000

const stop = (sandbox: Sandbox, now: number, grace: number, why: Why): void => {
  sandbox.stopping = { at: now, killAt: now + grace, why }
  for (const instance of sandbox.instances) if (instance.role !== "sidecar") instance.termAt = now
}

/** Events carry the time of the node's clock. */
const onNodeClock = (context: Context, skew: number): Context => ({
  key: context.key,
  now: () => context.now() + skew,
  get view() {
    return context.view
  },
  get seen() {
    return context.seen
  },
  random: context.random
})

const earliest = (times: ReadonlyArray<number | undefined>): number | undefined => {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

const runFormer = (context: Context, key: string, memory: Memory): ReadonlyArray<Wake> => {
  const sandbox = memory.former.get(key)?.sandbox
  if (sandbox === undefined) return []
  const now = context.now()
  live(sandbox, now)
  if (!sandbox.instances.some(isRunning)) {
    memory.former.delete(key)
    return []
  }
  const next = earliest(sandbox.instances.map((each) => ahead(sandbox, each)?.at))
  return next === undefined ? [] : [{ key: context.key, wait: Math.max(next - now, 0) }]
}

function* runPod(context: Context, uid: string, memory: Memory): Work {
  const sandbox = memory.sandboxes.get(uid)
  if (sandbox === undefined) return
  const machine = memory.machines.get(sandbox.node)
  if (machine === undefined) return
  const now = context.now()
  const again = (times: ReadonlyArray<number | undefined>): ReadonlyArray<Wake> => {
    const at = earliest(times)
    return at === undefined ? [] : [{ key: context.key, wait: Math.max(at - now, 0) }]
  }
  live(sandbox, now)
  let nextLine = yield* output(sandbox, now)
  if (!machine.kubelet) return again([nextLine, ...sandbox.instances.map((each) => ahead(sandbox, each)?.at)])

  const pod = context.view.get(Objects.pods, sandbox.namespace, sandbox.name)
  const isOverruled = !sandbox.stopped && (pod?.status?.phase === "Failed" || pod?.status?.phase === "Succeeded")
  if (pod === undefined || pod.metadata.uid !== uid || isOverruled) {
    // the object is gone, or somebody else has ended it: what still runs is killed, whatever its grace period
    sandbox.goneAt ??= now
    const termAt = Math.max(
      sandbox.goneAt + orphanTerm,
      machine.since === 0 ? 0 : machine.since + orphanTermAfterRestart
    )
    if (sandbox.stopping?.why !== "orphan" && now >= termAt) {
      const { stopping } = sandbox
      stop(sandbox, now, orphanKill, "orphan")
      // a stop that was under way goes on, but not longer
      if (stopping?.killAt !== undefined && stopping.killAt < now + orphanKill) {
        sandbox.stopping = { ...stopping, why: "orphan" }
      }
      live(sandbox, now)
      nextLine = yield* output(sandbox, now)
    }
    if (!sandbox.instances.some(isRunning)) {
      if (!isOverruled) forget(memory, sandbox)
      return
    }
    return again([
      sandbox.stopping?.why === "orphan" ? undefined : termAt,
      nextLine,
      ...sandbox.instances.map((each) => ahead(sandbox, each)?.at)
    ])
  }
  if (sandbox.inherited) yield* inherit(sandbox, pod, now)
  if (pod.metadata.deletionTimestamp !== undefined && sandbox.stopping?.why !== "deleted") {
    const grace = (pod.metadata.deletionGracePeriodSeconds ?? sandbox.spec.terminationGracePeriodSeconds ?? 30) * 1000
    const wasRunning = sandbox.instances.some(isRunning)
    stop(sandbox, now, grace, "deleted")
    if (wasRunning) {
      yield* write(context, sandbox, machine)
      yield* Events.legacy(onNodeClock(context, sandbox.skew), "kubelet", {
        regarding: pod,
        type: "Normal",
        reason: "Killing",
        message: `Stopping container ${mains(sandbox)[0]?.name ?? ""}`
      })
    }
    for (const instance of sandbox.instances) {
      if (instance.state._tag === "Waiting") instance.state = { _tag: "Ended", at: now, terminated: neverStarted }
    }
    live(sandbox, now)
    nextLine = yield* output(sandbox, now)
  }

  const deadline = sandbox.spec.activeDeadlineSeconds
  const deadlineAt = deadline === undefined ? undefined : sandbox.arrived + deadline * 1000
  if (deadlineAt !== undefined && now >= deadlineAt && sandbox.stopping === undefined) {
    stop(sandbox, now, (sandbox.spec.terminationGracePeriodSeconds ?? 30) * 1000, "deadline")
    for (const instance of sandbox.instances) {
      if (instance.state._tag === "Waiting") instance.state = { _tag: "Ended", at: now, terminated: neverStarted }
    }
    live(sandbox, now)
  }

  if (sandbox.stopping === undefined && sandbox.step === "new") {
    sandbox.step = "creating"
    if (sandbox.instances.some(({ role }) => role !== "main")) {
      for (const instance of mains(sandbox)) instance.state = { _tag: "Waiting", reason: "PodInitializing" }
    }
    yield* write(context, sandbox, machine)
  }
  const startAt = sandbox.arrived + Math.max(...mains(sandbox).map(({ program }) => program.startAfter ?? 0), 0)
  if (sandbox.stopping === undefined && now < startAt) return again([startAt, deadlineAt, nextLine])
  if (sandbox.stopping === undefined && sandbox.step === "creating") {
    sandbox.step = "sandbox"
    yield* write(context, sandbox, machine)
  }

  if (sandbox.stopping === undefined) {
    // init containers one after the other, sidecars in their place, then the others together
    let blocked = false
    for (const instance of sandbox.instances) {
      if (instance.role === "main" || blocked) continue
      if (instance.state._tag === "Waiting") start(instance, now)
      live(sandbox, now)
      if (instance.role === "init") {
        const { state } = instance
        if (state._tag === "Running" && (instance.program.runs ?? []).length === 0)
          end(sandbox, instance, now, { code: 0 })
        blocked = !(instance.state._tag === "Ended" && instance.state.terminated.exitCode === 0)
      }
    }
    for (const instance of mains(sandbox)) {
      if (blocked || instance.state._tag !== "Waiting" || instance.instances > 0) continue
      const { waiting } = instance.program
      if (waiting === undefined) start(instance, now)
      else instance.state = Objects.compact({ _tag: "Waiting" as const, ...waiting })
    }
    sandbox.step = "started"
    nextLine = yield* output(sandbox, now)
    if (mains(sandbox).some(({ instances }) => instances > 0)) yield* reportStart(context, sandbox, machine)
    live(sandbox, now)
    nextLine = yield* output(sandbox, now)
  }

  const wakes: Array<number | undefined> = [nextLine, sandbox.stopping === undefined ? deadlineAt : undefined]
  for (const instance of sandbox.instances) {
    if (!restarts(sandbox, instance) || instance.state._tag !== "Ended") continue
    const delay = backOff(instance)
    const due = instance.state.at + delay
    if (now >= due) {
      start(instance, now)
      yield {
        _tag: "NewLog",
        podUid: uid,
        namespace: sandbox.namespace,
        pod: sandbox.name,
        container: instance.name
      }
      live(sandbox, now)
      nextLine = yield* output(sandbox, now)
      wakes.push(nextLine)
    } else {
      wakes.push(due)
      if (delay > firstRestart) {
        yield* Events.legacy(onNodeClock(context, sandbox.skew), "kubelet", {
          regarding: pod,
          type: "Warning",
          reason: "BackOff",
          message: `Back-off restarting failed container ${instance.name} in pod ${sandbox.name}_${sandbox.namespace}(${uid})`
        })
      }
    }
  }
  wakes.push(...sandbox.instances.map((each) => ahead(sandbox, each)?.at))

  const own = mains(sandbox)
  const initFailed = sandbox.instances.some(
    (instance) =>
      instance.role === "init" &&
      instance.state._tag === "Ended" &&
      instance.state.terminated.exitCode !== 0 &&
      !restarts(sandbox, instance)
  )
  const isOver =
    !sandbox.instances.some(isRunning) &&
    (initFailed || (own.every(isEnded) && !own.some((instance) => restarts(sandbox, instance))))
  if (isOver && !sandbox.stopped) {
    // the containers' end is reported before the sandbox is stopped and the phase follows; not so when the pod is deleted
    if (sandbox.stopping?.why !== "deleted") yield* write(context, sandbox, machine)
    sandbox.stopped = true
  }
  const current = yield* write(context, sandbox, machine)
  if (
    isOver &&
    current?.metadata.deletionTimestamp !== undefined &&
    current.metadata.uid === uid &&
    current.metadata.deletionGracePeriodSeconds !== 0
  ) {
    yield* send(Objects.remove(Objects.pods, current, { gracePeriodSeconds: 0 }))
  }
  return again(isOver ? [] : wakes)
}

/** A start is reported even when the container has ended at the same moment. */
function* reportStart(context: Context, sandbox: Sandbox, machine: Machine): Generator<Act, void, Answer> {
  yield* write(context, sandbox, machine)
}

const forget = (memory: Memory, sandbox: Sandbox): void => {
  memory.sandboxes.delete(sandbox.uid)
  memory.overrides.delete(sandbox.uid)
  memory.byNode.get(sandbox.node)?.delete(sandbox.uid)
}

const nodeObject = (machine: Machine, now: number, isReady: boolean): object => {
  const at = Objects.time(now)
  const condition = (type: string, status: string, reason: string, message: string): Objects.Condition => ({
    type,
    status,
    lastHeartbeatTime: at,
    lastTransitionTime: at,
    reason,
    message
  })
  return {
    addresses: [
      { type: "InternalIP", address: machine.address },
      { type: "Hostname", address: machine.name }
    ],
    allocatable: machine.allocatable,
    capacity: machine.allocatable,
    conditions: [
      condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
      condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
      condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
      isReady
        ? condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        : condition("Ready", "False", "KubeletNotReady", "container runtime status check may not have completed yet")
    ],
    nodeInfo: {
      architecture: "amd64",
      bootID: machine.bootID,
      containerRuntimeVersion: "containerd://1.6.20",
      kernelVersion: "6.1.0",
      kubeProxyVersion: "",
      kubeletVersion: "v1.37.2",
      machineID: machine.machineID,
      operatingSystem: "linux",
      osImage: "Linux",
      runningInUserNamespace: false,
      systemUUID: machine.systemUUID
    }
  }
}

function* runNode(context: Context, name: string, memory: Memory, interval: number): Work {
  const machine = memory.machines.get(name)
  if (machine === undefined || !machine.kubelet) return
  const now = context.now() + memory.skew
  const node = context.view.get(Objects.nodes, undefined, name)
  if (node === undefined) {
    if (!machine.toRegister) return
    memory.machines.set(name, { ...machine, toRegister: false })
    const answer = yield* send(
      Objects.create(Objects.nodes, undefined, {
        metadata: {
          name,
          labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", ...machine.labels },
          annotations: {
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true"
          }
        },
        spec: { taints: [{ key: "node.kubernetes.io/not-ready", effect: "NoSchedule" }] },
        status: nodeObject(machine, now, false)
      })
    )
    if (Either.isLeft(answer)) return
  } else {
    memory.machines.set(name, { ...machine, toRegister: false })
  }
  // a kubelet without heartbeats has no Lease either, or it would be missed
  if (interval > 0) yield* renew(context, machine, memory.skew)
  const current = context.view.get(Objects.nodes, undefined, name)
  if (current === undefined) return
  const wanted = nodeObject(machine, now, true) as NonNullable<Objects.Node["status"]>
  const before = current.status
  const isSame =
    before !== undefined &&
    (["bootID", "machineID", "systemUUID"] as const).every((id) => before.nodeInfo?.[id] === machine[id]) &&
    (wanted.conditions ?? []).every(
      (condition) => Objects.conditionOf(before.conditions, condition.type)?.status === condition.status
    )
  if (isSame) return
  const conditions = (wanted.conditions ?? []).map((condition) => {
    const existing = Objects.conditionOf(before?.conditions, condition.type)
    return existing?.status === condition.status && existing.lastTransitionTime !== undefined
      ? { ...condition, lastTransitionTime: existing.lastTransitionTime }
      : condition
  })
  yield* sendIf(
    Objects.patchStatus(Objects.nodes, current, {
      ...before,
      ...wanted,
      capacity: before?.capacity ?? wanted.capacity ?? {},
      allocatable: before?.allocatable ?? wanted.allocatable ?? {},
      conditions
    })
  )
}

const leaseNamespace = "kube-node-lease"

function* renew(context: Context, machine: Machine, skew: number): Generator<Act, void, Answer> {
  const lease = context.view.get(Objects.leases, leaseNamespace, machine.name)
  const renewTime = Objects.micro(context.now() + skew)
  if (lease !== undefined) {
    if (lease.spec?.renewTime !== renewTime) yield* send(Objects.patch(Objects.leases, lease, { spec: { renewTime } }))
    return
  }
  const node = context.view.get(Objects.nodes, undefined, machine.name)
  yield* send(
    Objects.create(Objects.leases, leaseNamespace, {
      metadata: {
        name: machine.name,
        namespace: leaseNamespace,
        ...(node === undefined
          ? {}
          : {
              ownerReferences: [{ apiVersion: "v1", kind: "Node", name: machine.name, uid: node.metadata.uid }]
            })
      },
      spec: { holderIdentity: machine.name, leaseDurationSeconds: 40, renewTime }
    })
  )
}

function* beat(context: Context, memory: Memory, interval: number): Work {
  for (const machine of memory.machines.values()) if (machine.kubelet) yield* renew(context, machine, memory.skew)
  if (interval > 0) return [{ key: context.key, wait: interval }]
}

const podPrefix = "pod:"
const formerPrefix = "former:"
const nodePrefix = "node:"
const beatKey = "heartbeat"

const nextPodIP = (memory: Memory): string => {
  memory.addresses++
  return `10.244.${Math.floor(memory.addresses / 250) % 250}.${(memory.addresses % 250) + 1}`
}

/** A container of which nothing was started yet. */
const unstarted = {
  state: { _tag: "Waiting", reason: "ContainerCreating" },
  last: undefined,
  restartCount: 0,
  instances: 0,
  written: 0,
  termAt: undefined,
  lost: false
} as const satisfies Partial<Instance>

const arrive = (memory: Memory, pod: Objects.Pod, node: string, now: number, options: Options): Sandbox => {
  const program = (container: string): Program =>
    memory.overrides.get(pod.metadata.uid) ?? options.programs?.(pod, container) ?? {}
  const instance =
    (role: Instance["role"]) =>
    (container: Objects.Container): Instance => ({
      name: container.name,
      image: container.image ?? "",
      role: role === "init" && container.restartPolicy === "Always" ? "sidecar" : role,
      program: role === "main" ? program(container.name) : (options.programs?.(pod, container.name) ?? {}),
      ...unstarted
    })
  const sandbox: Sandbox = {
    uid: pod.metadata.uid,
    namespace: pod.metadata.namespace ?? "default",
    name: pod.metadata.name,
    node,
    skew: memory.skew,
    spec: pod.spec,
    podIP: nextPodIP(memory),
    arrived: now,
    instances: [...(pod.spec.initContainers ?? []).map(instance("init")), ...pod.spec.containers.map(instance("main"))],
    step: "new",
    stopping: undefined,
    eviction: undefined,
    stopped: false,
    goneAt: undefined,
    inherited: false
  }
  memory.sandboxes.set(sandbox.uid, sandbox)
  const onNode = memory.byNode.get(node) ?? new Set<string>()
  onNode.add(sandbox.uid)
  memory.byNode.set(node, onNode)
  return sandbox
}

const digits = (text: string): string => Objects.hash(text) + Objects.hash(`${text} on`)

/** RFC 4122, version 4. */
const uuid = (text: string): string => {
  const hex = digits(text)
  const variant = "89ab"[Number.parseInt(hex.slice(16, 17), 16) % 4] ?? "8"
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`
}

const boot = (memory: Memory, name: string): string => {
  memory.boots++
  return uuid(`boot ${memory.seed} ${name} ${memory.boots}`)
}

/** What is a new machine's own, and no other's. */
const identity = (memory: Memory, name: string): Pick<Machine, "bootID" | "machineID" | "systemUUID" | "address"> => {
  memory.made++
  const number = memory.made + 1
  const who = `${memory.seed} ${name} ${memory.made}`
  return {
    bootID: boot(memory, name),
    machineID: digits(`machine ${who}`),
    systemUUID: uuid(`system ${who}`),
    address: `192.0.${2 + Math.floor(number / 250)}.${number % 250}`
  }
}

/** Which container a command is about: by default the first. */
export interface PodRef {
  readonly uid: string
  readonly container?: string
  /** The machineID of the machine that runs it; default: the one that has the Node's name now. */
  readonly machine?: string
}

/** Commands for machines. Each answers the keys that have to be looked at. */
export interface Control {
  /** A machine with a kubelet, which registers its Node. */
  readonly addMachine: (
    name: string,
    options: { readonly labels?: Objects.StringMap; readonly allocatable?: Objects.StringMap },
    now: number
  ) => ReadonlyArray<Wake>
  /** The kubelet dies; the processes run on. */
  readonly stopKubelet: (name: string, now: number) => ReadonlyArray<Wake>
  /** The kubelet starts; it registers its Node where there is none. */
  readonly startKubelet: (name: string, now: number) => ReadonlyArray<Wake>
  /** Everything on the machine is gone at once. */
  readonly powerOff: (name: string, now: number) => ReadonlyArray<Wake>
  /** Everything on the machines that had the name before is gone at once. */
  readonly powerOffFormer: (name: string, now: number) => void
  /** Another machine takes the name; what runs on the one before runs on, and is nobody's. */
  readonly replaceMachine: (name: string, now: number) => ReadonlyArray<Wake>
  /** The machine boots: another bootID, no processes, the kubelet starts. */
  readonly powerOn: (name: string, now: number) => ReadonlyArray<Wake>
  /** A container ends by itself. */
  readonly exit: (pod: PodRef, ending: Ending, now: number) => ReadonlyArray<Wake>
  /** The kubelet takes a pod off its node; its object stays, Failed. */
  readonly evict: (podUid: string, eviction: Eviction, now: number) => ReadonlyArray<Wake>
  /** What a pod's containers do from now on. */
  readonly program: (podUid: string, program: Program) => ReadonlyArray<Wake>
  /** The processes that run now, those of former machines last. */
  readonly processes: () => ReadonlyArray<Process>
  /** The machines. */
  readonly machines: () => ReadonlyArray<Machine>
  /** Where a pod's container writes its log; `undefined` when nobody could read it. */
  readonly writer: (pod: PodRef) =>
    | {
        readonly namespace: string
        readonly pod: string
        readonly container: string
        readonly node: string
      }
    | undefined
}

/** The kubelets of a cluster, and the commands for their machines. */
export const make = (options: Options = {}): { readonly stage: Stage; readonly control: Control } => {
  const memory: Memory = {
    machines: new Map(),
    sandboxes: new Map(),
    byNode: new Map(),
    former: new Map(),
    overrides: new Map(),
    seed: options.seed ?? 1,
    skew: options.skew ?? 0,
    made: 0,
    addresses: 0,
    boots: 0,
    beating: false
  }
  const interval = options.heartbeat ?? 10_000

  const onNode = (name: string): ReadonlyArray<Wake> =>
    [...(memory.byNode.get(name) ?? [])].map((uid) => ({ key: `${podPrefix}${uid}` }))
  const change = (name: string, update: (machine: Machine) => Machine): ReadonlyArray<Wake> => {
    const machine = memory.machines.get(name)
    if (machine === undefined) return []
    memory.machines.set(name, update(machine))
    return [{ key: `${nodePrefix}${name}` }, ...onNode(name)]
  }
  const settle = (name: string, now: number): void => {
    for (const uid of memory.byNode.get(name) ?? []) {
      const sandbox = memory.sandboxes.get(uid)
      if (sandbox !== undefined) live(sandbox, now)
    }
  }
  /** The power is gone: so is every process. */
  const cut = (name: string, now: number): void => {
    settle(name, now)
    for (const uid of memory.byNode.get(name) ?? []) {
      const sandbox = memory.sandboxes.get(uid)
      if (sandbox === undefined) continue
      for (const instance of sandbox.instances) {
        // what a kubelet reports after a reboot has not been observed: an exit that nobody saw
        end(sandbox, instance, now, { code: 255, reason: "Unknown" })
      }
    }
  }
  const machineOf = (sandbox: Sandbox): string => memory.machines.get(sandbox.node)?.machineID ?? ""
  const formerKey = (machine: string, uid: string): string => `${machine}/${uid}`
  const instanceOf = (
    ref: PodRef
  ): { readonly sandbox: Sandbox; readonly instance: Instance; readonly key: string } | undefined => {
    const present = memory.sandboxes.get(ref.uid)
    const isPresent = ref.machine === undefined || (present !== undefined && machineOf(present) === ref.machine)
    const former = formerKey(ref.machine ?? "", ref.uid)
    const sandbox = isPresent ? present : memory.former.get(former)?.sandbox
    const instance = sandbox?.instances.find((each) =>
      ref.container === undefined ? each.role === "main" : each.name === ref.container
    )
    return sandbox === undefined || instance === undefined
      ? undefined
      : { sandbox, instance, key: isPresent ? `${podPrefix}${ref.uid}` : `${formerPrefix}${former}` }
  }
  const control: Control = {
    addMachine: (name, machine) => {
      memory.machines.set(name, {
        name,
        labels: machine.labels ?? {},
        allocatable: machine.allocatable ?? { cpu: "32", memory: "256Gi", "nvidia.com/gpu": "8", pods: "110" },
        kubelet: true,
        ...identity(memory, name),
        since: 0,
        toRegister: true
      })
      const wakes: Array<Wake> = [{ key: `${nodePrefix}${name}` }, ...onNode(name)]
      if (!memory.beating && interval > 0) {
        memory.beating = true
        wakes.push({ key: beatKey, wait: interval })
      }
      return wakes
    },
    stopKubelet: (name, now) => {
      settle(name, now)
      for (const uid of memory.byNode.get(name) ?? []) {
        const sandbox = memory.sandboxes.get(uid)
        // nobody is left to send the SIGKILL
        if (sandbox?.stopping !== undefined) sandbox.stopping = { ...sandbox.stopping, killAt: undefined }
      }
      return change(name, (machine) => ({ ...machine, kubelet: false }))
    },
    startKubelet: (name, now) => {
      settle(name, now)
      for (const uid of memory.byNode.get(name) ?? []) {
        const sandbox = memory.sandboxes.get(uid)
        // the grace period starts anew
        if (sandbox?.stopping !== undefined && sandbox.stopping.killAt === undefined) sandbox.stopping = undefined
      }
      return change(name, (machine) => ({ ...machine, kubelet: true, since: now, toRegister: true }))
    },
    powerOff: (name, now) => {
      cut(name, now)
      return change(name, (machine) => ({ ...machine, kubelet: false }))
    },
    powerOn: (name, now) => {
      // One that was on is reset: no process outlives a boot
      cut(name, now)
      return change(name, (machine) => ({
        ...machine,
        kubelet: true,
        bootID: boot(memory, name),
        since: now,
        toRegister: true
      }))
    },
    powerOffFormer: (name) => {
      for (const [key, { sandbox }] of memory.former) if (sandbox.node === name) memory.former.delete(key)
    },
    replaceMachine: (name, now) => {
      // Nobody sends its containers a SIGKILL any more, as when its kubelet is dead
      control.stopKubelet(name, now)
      const own = identity(memory, name)
      const wakes: Array<Wake> = []
      for (const uid of memory.byNode.get(name) ?? []) {
        const sandbox = memory.sandboxes.get(uid)
        if (sandbox === undefined) continue
        if (sandbox.instances.some(isRunning)) {
          const machine = machineOf(sandbox)
          const key = formerKey(machine, uid)
          memory.former.set(key, { machine, sandbox })
          wakes.push({ key: `${formerPrefix}${key}` })
        }
        memory.sandboxes.set(uid, {
          ...sandbox,
          podIP: nextPodIP(memory),
          instances: sandbox.instances.map((instance) => ({
            ...instance,
            ...unstarted
          })),
          step: "new",
          stopping: undefined,
          eviction: undefined,
          stopped: false,
          goneAt: undefined,
          inherited: true
        })
      }
      return [
        ...wakes,
        ...change(name, (machine) => ({ ...machine, ...own, kubelet: true, since: now, toRegister: true }))
      ]
    },
    exit: (ref, ending, now) => {
      const found = instanceOf(ref)
      if (found === undefined) return []
      live(found.sandbox, now)
      end(found.sandbox, found.instance, now, ending)
      return [{ key: found.key }]
    },
    evict: (uid, eviction, now) => {
      const sandbox = memory.sandboxes.get(uid)
      if (sandbox === undefined || sandbox.stopping !== undefined) return []
      live(sandbox, now)
      if (mains(sandbox).every(isEnded)) return []
      sandbox.eviction = eviction
      stop(sandbox, now, evictionGrace, "evicted")
      for (const instance of sandbox.instances) {
        if (instance.state._tag === "Waiting") instance.state = { _tag: "Ended", at: now, terminated: neverStarted }
      }
      return [{ key: `${podPrefix}${uid}` }]
    },
    program: (uid, program) => {
      memory.overrides.set(uid, program)
      const sandbox = memory.sandboxes.get(uid)
      if (sandbox === undefined) return []
      for (const instance of sandbox.instances) {
        if (instance.role !== "main") continue
        instance.program = program
        if (instance.state._tag === "Waiting" && instance.instances === 0 && sandbox.step === "started") {
          sandbox.step = "sandbox"
        }
      }
      return [{ key: `${podPrefix}${uid}` }]
    },
    processes: () =>
      [
        ...[...memory.sandboxes.values()].map((sandbox) => ({ sandbox, machine: machineOf(sandbox), replaced: false })),
        ...[...memory.former.values()].map((former) => ({ ...former, replaced: true }))
      ].flatMap(({ machine, replaced, sandbox }) =>
        sandbox.instances.flatMap((instance) =>
          instance.state._tag === "Running"
            ? [
                {
                  node: sandbox.node,
                  machine,
                  replaced,
                  namespace: sandbox.namespace,
                  pod: sandbox.name,
                  podUid: sandbox.uid,
                  container: instance.name,
                  startedAt: instance.state.startedAt
                }
              ]
            : []
        )
      ),
    machines: () => [...memory.machines.values()],
    writer: (ref) => {
      const found = instanceOf(ref)
      // What a former machine keeps nobody can read
      return found === undefined || found.key.startsWith(formerPrefix)
        ? undefined
        : {
            namespace: found.sandbox.namespace,
            pod: found.sandbox.name,
            container: found.instance.name,
            node: found.sandbox.node
          }
    }
  }

  const watches = (event: Change, _view: View, now: number): Iterable<Wake> => {
    const { object } = event
    if (Objects.is(Objects.pods, object)) {
      const node = object.spec.nodeName
      if (node === undefined) return []
      const { uid } = object.metadata
      if (!memory.sandboxes.has(uid)) {
        const phase = object.status?.phase
        if (event.type === "DELETED" || phase === "Succeeded" || phase === "Failed") return []
        arrive(memory, object, node, now, options)
      }
      return [{ key: `${podPrefix}${uid}` }]
    }
    if (!Objects.is(Objects.nodes, object) || event.type === "DELETED") return []
    const { name } = object.metadata
    if (memory.machines.has(name) || options.adoptNodes === false) return []
    const ready = Objects.conditionOf(object.status?.conditions, "Ready")?.status
    const wakes = control.addMachine(
      name,
      Objects.compact({ labels: object.metadata.labels, allocatable: object.status?.allocatable }),
      now
    )
    const seeded = (id: "bootID" | "machineID" | "systemUUID", own: string): string => {
      const value = object.status?.nodeInfo?.[id]
      return typeof value === "string" ? value : own
    }
    change(name, (machine) => ({
      ...machine,
      // a Node that is put into the cluster as lost has no kubelet
      kubelet: ready !== "Unknown",
      bootID: seeded("bootID", machine.bootID),
      machineID: seeded("machineID", machine.machineID),
      systemUUID: seeded("systemUUID", machine.systemUUID)
    }))
    return wakes
  }

  return {
    control,
    stage: {
      name: "kubelet",
      latency: 8,
      start: () => ({
        watches,
        reconcile: function* (context) {
          const { key } = context
          if (key.startsWith(podPrefix)) return yield* runPod(context, key.slice(podPrefix.length), memory)
          if (key.startsWith(formerPrefix)) return runFormer(context, key.slice(formerPrefix.length), memory)
          if (key.startsWith(nodePrefix)) return yield* runNode(context, key.slice(nodePrefix.length), memory, interval)
          return yield* beat(context, memory, interval)
        }
      })
    }
  }
}
