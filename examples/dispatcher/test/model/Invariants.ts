/** What must hold after every step, whatever happened. Each answers the lies that it found, as sentences. */
import * as CapabilityTable from "@dispatch-kubeflow/core/decide/CapabilityTable"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KueueObjects from "@dispatch-kubeflow/testkit/stages/KueueObjects"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import { Chunk, Clock, Effect, Either, Exit, Fiber, Option, Stream } from "effect"
import type { TrainJobRef } from "@dispatch-kubeflow/core/TrainJobRef"
import * as CheckController from "../../src/backends/kubeflow/CheckController.js"
import { current } from "../../src/Entry.js"
import { type Follower, type Life, namespace, ranks, type World } from "./World.js"

type Lies = ReadonlyArray<string>

interface Live {
  readonly podUid: string
  readonly pod: string
  readonly node: string
  readonly startedAt: number
  /** `<run>-<n>`. */
  readonly submission: string
  readonly run: string
  readonly trainJobUid: string
}

/** The answer, if it comes without time passing: the clock stands still while the world is looked at. */
const atOnce = <A, E>(world: World, ask: Effect.Effect<A, E>): Effect.Effect<A | undefined> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkDaemon(ask)
    yield* world.time.rest
    const exit = fiber.unsafePoll()
    if (exit === null) yield* Fiber.interruptFork(fiber)
    return exit !== null && Exit.isSuccess(exit) ? exit.value : undefined
  })

const submissionOf = (pod: string): string => /^(.+-[0-9]+)-node-/.exec(pod)?.[1] ?? pod

const processes = (world: World): Effect.Effect<ReadonlyArray<Live>> =>
  Effect.map(world.machines.processes, (all) =>
    all.map(({ node, pod, podUid, startedAt }) => {
      const submission = submissionOf(pod)
      const known = world.pods.get(podUid)
      return {
        podUid,
        pod,
        node,
        startedAt,
        submission,
        run: submission.replace(/-[0-9]+$/, ""),
        trainJobUid: world.owners.get(known?.jobSetUid ?? "") ?? ""
      }
    })
  )

const isVouched = (world: World, process: Live): boolean => (world.vouched.get(process.node) ?? -1) >= process.startedAt

/** At most one live execution per run, save what an operator vouched for. */
const single = (world: World, alive: ReadonlyArray<Live>): Lies => {
  const runs = new Map<string, Map<string, string>>()
  for (const process of alive) {
    if (world.foreign.has(process.trainJobUid) || isVouched(world, process)) continue
    const copies = runs.get(process.run) ?? new Map<string, string>()
    copies.set(`${process.submission} (${process.trainJobUid})`, `${process.pod} on ${process.node}`)
    runs.set(process.run, copies)
  }
  return [...runs].flatMap(([run, copies]) =>
    copies.size > 1
      ? [`run ${run} lives ${copies.size} times: ${[...copies].map(([it, where]) => `${it}: ${where}`).join("; ")}`]
      : []
  )
}

interface NodeTruth {
  readonly exists: boolean
  readonly tainted: boolean
  readonly ready: boolean
}

const nodeTruth = (world: World, name: string): Effect.Effect<NodeTruth> =>
  Effect.map(world.machines.get(Objects.nodes, { name }), (node) => ({
    exists: node !== undefined,
    tainted: (node?.spec?.taints ?? []).some(({ key }) => key === Core.outOfServiceTaint),
    ready: Objects.conditionOf(node?.status?.conditions, "Ready")?.status === "True"
  }))

/** A yes with a living process needs somebody who vouches for its Node, and a caution where there is a sign of life. */
const honest = (
  world: World,
  who: string,
  ref: TrainJobRef,
  verdict: CessationVerdict.Verdict,
  alive: ReadonlyArray<Live>
): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const lies: Array<string> = []
    if (!verdict.ceased && verdict.reasons.length === 0) lies.push(`${who}: ${ref.name} is not ceased without a reason`)
    if (!verdict.ceased && !verdict.ended) return lies
    for (const process of alive) {
      if (process.trainJobUid !== ref.uid) continue
      const node = yield* nodeTruth(world, process.node)
      const claimed = !node.exists || (node.tainted && (world.script.outOfService === "always" || !node.ready))
      const said = [verdict.ceased ? "ceased" : "", verdict.ended ? "ended" : ""].filter((it) => it !== "").join(", ")
      if (!claimed) lies.push(`${who}: ${ref.name} is ${said}, and ${process.pod} runs on ${process.node}`)
      else if (node.exists && node.ready && !verdict.cautions.some((it) => it.includes(process.node))) {
        lies.push(`${who}: ${ref.name} is ${said} without a caution, and ${process.pod} runs on Ready ${process.node}`)
      }
    }
    return lies
  })

/** `<pod uid> <number>` per line. */
const parse = (text: string): ReadonlyArray<{ readonly uid: string; readonly number: number }> =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [uid = "", number = ""] = line.split(" ")
      return { uid, number: Number(number) }
    })

/** Each byte is rank 0's, of one pod of this very TrainJob. */
const ownBytes = (world: World, who: string, name: string, id: string, text: string): Lies => {
  const uids = [...new Set(parse(text).map(({ uid }) => uid))]
  const lies = uids.flatMap((uid) => {
    const pod = world.pods.get(uid)
    if (pod === undefined) return [`${who}: output of ${name} has bytes of nobody: ${JSON.stringify(text)}`]
    if (world.owners.get(pod.jobSetUid) !== id)
      return [`${who}: output of ${name} has bytes of ${pod.name}, another TrainJob`]
    return pod.rank === "0" ? [] : [`${who}: output of ${name} has bytes of ${pod.name}, which is not rank 0`]
  })
  return uids.length > 1 ? [...lies, `${who}: output of ${name} mixes ${uids.length} pods`] : lies
}

/** Each line once and in order, but where a gap was told. */
const ordered = (follower: Follower): Lies => {
  const lies: Array<string> = []
  const gaps = new Set(follower.gaps)
  let offset = 0
  let expected = 0
  for (const line of follower.text.split("\n").slice(0, -1)) {
    const number = Number(line.split(" ")[1])
    if (number !== expected && !(gaps.has(offset) && number > expected)) {
      lies.push(`the follower of ${follower.name} was told line ${number} instead of ${expected}`)
    }
    expected = number + 1
    offset += line.length + 1
  }
  return lies
}

/** How long a healthy watch may take to notice. */
const noticed = 60_000

export interface Memory {
  /** Pods that were in the evidence once, by TrainJob name. */
  readonly evidence: Map<string, Set<string>>
  audited: number
}

export const memory = (): Memory => ({ evidence: new Map(), audited: 0 })

/** The submissions that the dispatcher knows an id of. */
const submissions = (world: World): Effect.Effect<ReadonlyArray<{ readonly name: string; readonly uid: string }>> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return []
    const found: Array<{ readonly name: string; readonly uid: string }> = []
    for (const run of ["a", "b"]) {
      const status = Option.getOrUndefined(yield* life.dispatcher.status(run))
      for (const { id, n } of status?.record.attempts ?? []) {
        if (id !== undefined) found.push({ name: `${run}-${n}`, uid: id })
      }
    }
    return found
  })

/** What an audit does not tell of a new TrainJob, its name, the truth does: see `made`. */
const isCreate = ({ plural, verb }: KubeRequest.KubeRequest): boolean => plural === "trainjobs" && verb === "create"

/** What the preflight tries, whatever it finds out about the gate. */
const isProbe = (name: string | undefined): boolean => name?.startsWith("dispatch-probe-") === true

/** The check's controller is dead for so long that every look at its Lease shows it. */
const lapse = (world: World): number =>
  (world.uncontrolledSince() ?? Number.POSITIVE_INFINITY) + (CheckController.leaseSeconds + 5) * 1000

const audit = (world: World, seen: Memory): Effect.Effect<Lies> =>
  Effect.map(world.cluster.audit, (entries) => {
    const { mode } = world.script
    const lies = entries.slice(seen.audited).flatMap(({ at, code, request, user }) => {
      if (!KubeRequest.isWrite(request) || request.query["dryRun"] !== undefined) return []
      const what = KubeRequest.describe(request)
      if (user === "reader") return [`the read-only reader wrote: ${what}`]
      if (user !== "dispatcher") return []
      const allowed = mode === "read-write" || (mode === "observe-only" && (isCreate(request) || isProbe(request.name)))
      if (!allowed) return [`a ${mode} backend wrote: ${what}`]
      return code < 300 && at > lapse(world) && request.plural === "workloads" && request.subresource === "status"
        ? [`the check's controller is dead, and the dispatcher wrote: ${what}`]
        : []
    })
    seen.audited = entries.length
    return lies
  })

/** Nobody makes a TrainJob who may not start it. */
const made = (world: World): Lies =>
  world.made.flatMap(({ at, name, uid }) => {
    if (isProbe(name) || world.foreign.has(uid)) return []
    if (world.script.mode !== "read-write") return [`a ${world.script.mode} backend made TrainJob ${name}`]
    return at > lapse(world) ? [`the check's controller is dead, and the dispatcher made TrainJob ${name}`] : []
  })

/** Of what was fenced nothing is started any more, whatever becomes of its parts. */
const fenced = (world: World): Lies =>
  world.fenced.size === 0
    ? []
    : [...world.pods.values()].flatMap(({ at, jobSetUid, name }) => {
        const since = world.fenced.get(world.owners.get(jobSetUid) ?? "")
        return since !== undefined && at > since
          ? [`${name} was created ${at - since} ms after its TrainJob was fenced`]
          : []
      })

/** With Kueue: each submission is let in once, nobody else's is, and what was not let in does not run. */
const gated = (world: World, alive: ReadonlyArray<Live>): Lies => {
  if (!world.script.kueue) return []
  return [
    ...[...world.letIn].flatMap(([uid, times]) => [
      ...(times > 1 ? [`TrainJob ${uid} was let in ${times} times`] : []),
      ...(world.foreign.has(uid) ? [`TrainJob ${uid} is somebody else's, and was let in by the dispatcher`] : [])
    ]),
    ...alive.flatMap(({ pod, trainJobUid }) =>
      trainJobUid === "" || world.foreign.has(trainJobUid) || world.letIn.has(trainJobUid)
        ? []
        : [`${pod} runs, and was not let in`]
    )
  ]
}

const untouched = (world: World): Effect.Effect<Lies> =>
  Effect.map(Effect.orDie(world.cluster.admin.list(Trainer.trainJobs, { namespace })), ({ items }) =>
    items.flatMap(({ metadata, spec }) =>
      world.foreign.has(metadata.uid) &&
      spec?.runtimePatches?.some(({ manager }) => manager === AdapterConfig.patchManager) === true
        ? [`TrainJob ${metadata.name} is somebody else's, and was started by the dispatcher`]
        : []
    )
  )

const evidence = (world: World, seen: Memory, now: number): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return []
    const lies: Array<string> = []
    const existing = new Set((yield* world.machines.pods(namespace)).map(({ metadata }) => metadata.uid))
    const since = world.watchingSince()
    const healthy =
      since !== undefined && now - since > noticed && !world.partitioned() && world.granted().has("watch pods")
    for (const key of (yield* atOnce(world, life.store.keys)) ?? []) {
      const kept = Option.getOrUndefined((yield* atOnce(world, life.store.get(key))) ?? Option.none())
      if (kept === undefined) continue
      const known = seen.evidence.get(key.name) ?? new Set<string>()
      seen.evidence.set(key.name, known)
      for (const uid of known)
        if (kept.pods[uid] === undefined) lies.push(`the evidence of pod ${uid} of ${key.name} is lost`)
      for (const [uid, pod] of Object.entries(kept.pods)) {
        known.add(uid)
        if (healthy && pod.presence === "present" && !existing.has(uid)) {
          lies.push(`pod ${pod.pod.metadata.name} is gone, and the evidence says that it is present`)
        }
      }
    }
    return lies
  })

const capabilities = (world: World): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined || world.partitioned()) return []
    const answers = yield* atOnce(world, life.adapter.capabilities())
    if (answers === undefined) return []
    const read = CapabilityTable.find(answers, "OutputRead")
    const may = world.granted().has("get pods/log")
    const lies: Array<string> = []
    if (answers.length !== 14) lies.push(`${answers.length} capabilities were answered`)
    // A backend that made its preflight remembers what it found until it is refused
    const remembers = world.script.kueue || world.script.mode === "observe-only"
    if (!remembers && (read.answer === "yes") !== may)
      lies.push(`OutputRead is ${read.answer}, and the permission is ${may}`)
    for (const { capability, support } of answers) {
      const bare = support.answer === "yes" && support.source === "declared"
      if (!bare && (support.reason ?? "") === "" && support.answer !== "yes") lies.push(`${capability} has no reason`)
    }
    return lies
  })

/** The runs that go on, with what the dispatcher says of them. */
const unfinished = (life: Life) =>
  Effect.map(
    Effect.forEach(["a", "b"], (run) =>
      Effect.map(
        life.dispatcher.status(run),
        Option.map((status) => ({ run, status }))
      )
    ),
    (found) => found.flatMap(Option.toArray).filter(({ status }) => status.record.finished === undefined)
  )

const waits = (world: World): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return []
    const lies: Array<string> = []
    for (const { run, status } of yield* unfinished(life)) {
      if (status.waiting === undefined || status.waiting.reasons.join("") === "") {
        lies.push(`run ${run} waits and does not say for what`)
      }
    }
    return lies
  })

/** After these the answers about permissions may be others; asking costs more than what is checked elsewhere. */
const concernsAccess = new Set(["Revoke", "Grant", "Heal", "Restart"])
/** After these rank 0's output may be another's. */
const concernsOutput = new Set([
  "Exit",
  "DeletePod",
  "DeleteJobSet",
  "DeleteTrainJob",
  "Impostor",
  "Restart",
  "Advance"
])

/** After these nothing about processes and Nodes is different. */
const concernsNobody = new Set(["Write", "Cut", "Compact", "Grant", "AddNode", "Submit"])

/** Everything that is not as it must be after a step. */
export const check = (world: World, seen: Memory, step: string): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const living = yield* processes(world)
    const lies: Array<string> = [...single(world, living), ...gated(world, living), ...made(world), ...fenced(world)]
    const known = yield* submissions(world)
    const life = world.life()
    for (const { name, uid } of known) {
      const ref = { namespace, name, uid }
      // Of what has no process no answer is a lie; then it is only asked now and then whether it answers with a reason
      const isAsked = concernsAccess.has(step) || living.some(({ trainJobUid }) => trainJobUid === uid)
      const asked = [
        ...(!isAsked || life === undefined || world.partitioned() ? [] : [["dispatcher", life.adapter] as const]),
        ...(!isAsked || concernsNobody.has(step) ? [] : [["reader", world.reader] as const])
      ]
      for (const [who, adapter] of asked) {
        const verdict = yield* atOnce(world, adapter.ceased(ref))
        // What runs may end while it is asked, so the truth is asked last
        if (verdict !== undefined) lies.push(...(yield* honest(world, who, ref, verdict, yield* processes(world))))
      }
      if (!concernsOutput.has(step)) continue
      const output = yield* atOnce(world, Stream.runCollect(world.reader.output(ref)))
      if (output !== undefined) {
        const text = new TextDecoder().decode(
          Uint8Array.from(Chunk.toReadonlyArray(output).flatMap((bytes) => [...bytes]))
        )
        lies.push(...ownBytes(world, "reader", name, uid, text))
      }
    }
    for (const follower of life?.followers.values() ?? []) {
      lies.push(...ownBytes(world, "follower", follower.name, follower.id, follower.text), ...ordered(follower))
    }
    lies.push(...(yield* audit(world, seen)), ...(yield* untouched(world)))
    lies.push(...(yield* evidence(world, seen, now)), ...(yield* waits(world)))
    if (concernsAccess.has(step)) lies.push(...(yield* capabilities(world)))
    return lies
  })

/** With Kueue: it was let in once, and would have to be let in again. */
const hasLostItsChance = (world: World, uid: string): Effect.Effect<boolean> =>
  Effect.map(world.machines.view, (view) =>
    view
      .ownedBy(KueueObjects.workloads, uid)
      .some(
        ({ spec, status }) =>
          world.letIn.has(uid) && spec.active !== false && status?.admissionChecks?.[0]?.state === "Pending"
      )
  )

/** With Kueue: submissions that are given up, and hold quota that another one could have. */
const hoarders = (world: World): Effect.Effect<Lies> =>
  Effect.map(world.machines.view, (view) =>
    [...world.fenced.keys()]
      .filter((uid) => !world.released.has(uid))
      .flatMap((uid) =>
        view
          .ownedBy(KueueObjects.workloads, uid)
          .filter((workload) => KueueObjects.takesQuota(workload) && !world.released.has(workload.metadata.uid))
          .map(({ metadata }) => `Workload ${metadata.name} is fenced, and holds quota`)
      )
  )

/** After everything was mended and time has passed: no run is stuck where it could go on. */
export const settled = (world: World): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return ["there is no dispatcher"]
    const lies: Array<string> = [...(yield* hoarders(world))]
    for (const { run, status } of yield* unfinished(life)) {
      const attempt = current(status.record)
      if (attempt?.id === undefined) {
        if (world.script.mode !== "observe-only") lies.push(`run ${run} was not even prepared`)
        continue
      }
      const ref = { namespace, name: `${run}-${attempt.n}`, uid: attempt.id }
      if (attempt.retiring === undefined) {
        const found = yield* Effect.either(world.cluster.admin.get(Trainer.trainJobs, { namespace, name: ref.name }))
        const conditions =
          Either.isRight(found) && found.right.metadata.uid === attempt.id ? found.right.status?.conditions : []
        const over = conditions?.some(
          ({ status: is, type }) => is === "True" && (type === "Failed" || type === "Complete")
        )
        if (over === true) lies.push(`run ${run}: ${ref.name} is over, and nobody noticed`)
        else if (yield* hasLostItsChance(world, attempt.id)) {
          lies.push(`run ${run}: ${ref.name} was let in and stopped, and nobody noticed`)
        }
        continue
      }
      const verdict = yield* atOnce(world, life.adapter.ceased(ref))
      if (attempt.fenced && (verdict?.ceased === true || verdict?.ended === true)) {
        lies.push(`run ${run}: ${ref.name} has stopped, and the run does not go on`)
      }
      if (!attempt.fenced)
        lies.push(`run ${run}: ${ref.name} could not be fenced: ${status.waiting?.reasons.join("; ") ?? ""}`)
    }
    return lies
  })

/**
 * Runs that wait and could go on: the submission had one start, each of its ranks one pod or more, and every one of them is
 * known and proven to have ended. A skew of clocks must not make a start of which no pod was seen out of that.
 */
export const stuck = (world: World): Effect.Effect<Lies> =>
  Effect.gen(function* () {
    const life = world.life()
    if (life === undefined) return []
    const lies: Array<string> = []
    for (const { run, status } of yield* unfinished(life)) {
      const attempt = current(status.record)
      if (attempt?.id === undefined || attempt.retiring === undefined || !attempt.fenced) continue
      const { id, n } = attempt
      const jobSets = [...world.owners].flatMap(([jobSet, owner]) => (owner === id ? [jobSet] : []))
      const starts = [...world.starts.values()].filter(({ jobSetUid }) => jobSets.includes(jobSetUid))
      const pods = [...world.pods.values()].filter(({ jobSetUid }) => jobSets.includes(jobSetUid))
      const isOneStart = jobSets.length === 1 && starts.length === 1 && starts[0]?.times.size === 1
      if (!isOneStart || new Set(pods.map(({ rank }) => rank)).size < ranks) continue
      const verdict = yield* atOnce(world, life.adapter.ceased({ namespace, name: `${run}-${n}`, uid: id }))
      if (verdict === undefined || verdict.ceased || verdict.ended) continue
      const ended = new Set(verdict.pods.flatMap((pod) => (pod.ended ? [pod.uid] : [])))
      if (pods.every(({ uid }) => ended.has(uid))) {
        const waits = status.waiting?.reasons.join("; ") ?? ""
        lies.push(`run ${run}: every pod of ${run}-${n} has ended, and it waits: ${waits}`)
      }
    }
    return lies
  })
