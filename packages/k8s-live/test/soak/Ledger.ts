/**
 * What was ordered for each TrainJob, what the cluster made of it, and whether the watch told so in time.
 *
 * @module
 */
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import type * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import type * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Deferred, Effect } from "effect"

/** What the soak makes of a TrainJob, and what the watch has to tell of it. */
export type Order =
  | { readonly _tag: "Running" }
  | { readonly _tag: "Held" }
  | { readonly _tag: "Succeeded" }
  | { readonly _tag: "Failed"; readonly cause: "Application" | "OutOfMemory"; readonly exitCode: number }
  /** With the result that it had before. */
  | { readonly _tag: "Gone"; readonly outcome: "Succeeded" | "Failed" | undefined }

/** `undone`: the cluster did not do it, so there was nothing to tell. */
export type Verdict = "told" | "lost" | "wrong" | "undone"

/** The objects of one TrainJob as a list shows them. */
export interface Seen {
  readonly trainJob: Trainer.TrainJob
  readonly pods: ReadonlyArray<Core.Pod>
}

/** TrainJobs by uid. */
export type View = ReadonlyMap<string, Seen>

const runs = ({ metadata, status }: Core.Pod): boolean =>
  status?.phase === "Running" && typeof metadata.deletionTimestamp !== "string"

/** The state in which a list shows a TrainJob; undefined while it is on its way to one. */
export const stateOf = ({ pods, trainJob }: Seen): Update.Update["state"] | undefined => {
  const conditions = trainJob.status?.conditions
  if (Meta.trueCondition(conditions, "Complete") !== undefined) return "Succeeded"
  if (Meta.trueCondition(conditions, "Failed") !== undefined) return "Failed"
  if (trainJob.spec?.suspend === true) {
    return pods.length === 0 && Meta.trueCondition(conditions, "Suspended") !== undefined ? "Held" : undefined
  }
  return pods.some(runs) ? "Running" : undefined
}

const isDone = (order: Order, seen: Seen | undefined): boolean =>
  seen === undefined ? order._tag === "Gone" : stateOf(seen) === order._tag

/** Whether an update tells it, with outcome and cause. */
export const isTold = (order: Order, { cause, outcome, state }: Update.Update): boolean => {
  if (state !== order._tag) return false
  switch (order._tag) {
    case "Running":
      return outcome === undefined
    case "Held":
      return outcome === undefined && cause?._tag === "Held" && cause.by === "suspend"
    case "Succeeded":
      return outcome === "Succeeded"
    case "Failed":
      return outcome === "Failed" && cause?._tag === order.cause && cause.exitCode === order.exitCode
    case "Gone":
      return outcome === order.outcome && (outcome !== undefined || cause?._tag === "Deleted")
  }
}

interface Open {
  readonly order: Order
  readonly at: number
  /** When a list showed that it is so. */
  doneAt: number | undefined
  readonly verdict: Deferred.Deferred<Verdict>
}

interface Job {
  readonly name: string
  last: Update.Update | undefined
  open: Open | undefined
  outcome: "Succeeded" | "Failed" | undefined
  /** When its end was told; after a while it is forgotten. */
  goneAt: number | undefined
}

/** Figures so far. */
export interface Counts {
  updates: number
  readonly orders: Record<Order["_tag"], number>
  lost: number
  wrong: number
  undone: number
  /** The right state was told first with another cause or outcome, and mended in time. */
  mended: number
  /** Milliseconds from what the cluster showed, or from the server's return, to the update. */
  readonly lags: Array<number>
}

/** Times in milliseconds: until it must be told, until the cluster must have done it. */
export interface Limits {
  readonly tell: number
  readonly do: number
}

// A TrainJob that is gone is held against lists for so long; what it started may go later, which is told
const remembered = 60_000

const short = (update: Update.Update | undefined): string =>
  update === undefined ? "nothing" : JSON.stringify({ ...update, ref: undefined, evidence: undefined })

/** An empty ledger; `complain` is told in words what is lost or wrong. */
export const make = (limits: Limits, complain: (text: string) => void) => {
  const jobs = new Map<string, Job>()
  const counts: Counts = {
    updates: 0,
    orders: { Running: 0, Held: 0, Succeeded: 0, Failed: 0, Gone: 0 },
    lost: 0,
    wrong: 0,
    undone: 0,
    mended: 0,
    lags: []
  }
  // Names of updates whose TrainJob the soak has not heard of from its own request yet
  const early = new Map<string, Update.Update>()
  // With their results. Nothing but that they are gone may be told of them
  const forgotten = new Map<string, Job["outcome"]>()
  let backAt = 0
  let isDown = false

  const decide = (job: Job, open: Open, verdict: Verdict): void => {
    job.open = undefined
    if (verdict === "told" && open.order._tag === "Gone") job.goneAt = Date.now()
    if (verdict !== "told") {
      counts[verdict] += 1
      complain(`${verdict}: ${job.name} ${JSON.stringify(open.order)}, the watch told ${short(job.last)}`)
    }
    Deferred.unsafeDone(open.verdict, Effect.succeed(verdict))
  }

  const look = (job: Job, now: number): void => {
    const { last, open } = job
    if (open === undefined || last === undefined) return
    if (isTold(open.order, last)) {
      counts.lags.push(Math.max(0, now - Math.max(open.doneAt ?? now, backAt)))
      decide(job, open, "told")
    } else if (last.state === open.order._tag) counts.mended += 1
  }

  const isContradicted = (job: Job, { outcome, state }: Update.Update): boolean =>
    (outcome !== undefined && outcome !== job.outcome) || (job.goneAt !== undefined && state !== "Gone")

  const saw = (job: Job, update: Update.Update, now: number): void => {
    if (isContradicted(job, update) && (job.last === undefined || !isContradicted(job, job.last))) {
      counts.wrong += 1
      complain(`wrong: of ${job.name}, ${job.outcome ?? "without a result"}, the watch told ${short(update)}`)
    }
    job.last = update
    look(job, now)
  }

  return {
    counts,
    /** A TrainJob that the soak created. */
    add: (uid: string, name: string): void => {
      const job: Job = { name, last: undefined, open: undefined, outcome: undefined, goneAt: undefined }
      jobs.set(uid, job)
      const told = early.get(uid)
      early.delete(uid)
      if (told !== undefined) saw(job, told, Date.now())
    },
    /** To be called before it is done; answers when it was told, or was not in time. */
    order: (uid: string, order: Order): Effect.Effect<Effect.Effect<Verdict>> =>
      Effect.map(Deferred.make<Verdict>(), (verdict) => {
        const job = jobs.get(uid)
        if (job === undefined) return Effect.succeed<Verdict>("undone")
        const now = Date.now()
        counts.orders[order._tag] += 1
        if (order._tag === "Succeeded" || order._tag === "Failed") job.outcome = order._tag
        job.open = { order, at: now, doneAt: undefined, verdict }
        look(job, now)
        return Deferred.await(verdict)
      }),
    saw: (update: Update.Update): void => {
      counts.updates += 1
      const uid = update.ref.uid ?? ""
      const job = jobs.get(uid)
      if (job !== undefined) saw(job, update, Date.now())
      else if (!forgotten.has(uid)) early.set(uid, update)
      else if (update.state !== "Gone" || update.outcome !== forgotten.get(uid)) {
        counts.wrong += 1
        complain(`wrong: of ${update.ref.name}, which is gone, the watch told ${short(update)}`)
      }
    },
    serverDown: (): void => {
      isDown = true
    },
    serverBack: (): void => {
      isDown = false
      backAt = Date.now()
    },
    /** Holds what is open against a list, and forgets what is long gone. */
    audit: (view: View): void => {
      if (isDown) return
      const now = Date.now()
      for (const [uid, job] of jobs) {
        if (job.goneAt !== undefined && now - job.goneAt > remembered) {
          jobs.delete(uid)
          forgotten.set(uid, job.outcome)
        }
        const { open } = job
        if (open === undefined) continue
        if (open.doneAt === undefined && isDone(open.order, view.get(uid))) open.doneAt = now
        if (open.doneAt === undefined) {
          if (now - Math.max(open.at, backAt) > limits.do) decide(job, open, "undone")
        } else if (now - Math.max(open.doneAt, backAt) > limits.tell) {
          decide(job, open, job.last?.state === open.order._tag ? "wrong" : "lost")
        }
      }
    },
    /** Where the last updates differ from what a list shows and what another watch tells that only began now. */
    differences: (view: View, fresh: ReadonlyMap<string, Update.Update>): ReadonlyArray<string> => {
      const found: Array<string> = []
      for (const [uid, { last, name }] of jobs) {
        const seen = view.get(uid)
        if (seen === undefined) {
          if (last?.state !== "Gone") found.push(`${name} is gone, the watch told ${short(last)}`)
          continue
        }
        if (last?.state !== stateOf(seen)) found.push(`${name} is ${stateOf(seen)}, the watch told ${short(last)}`)
        const other = fresh.get(uid)
        const same =
          other !== undefined &&
          last !== undefined &&
          other.state === last.state &&
          other.outcome === last.outcome &&
          other.alive === last.alive &&
          JSON.stringify(other.cause) === JSON.stringify(last.cause)
        if (!same) found.push(`${name}: the watch told ${short(last)}, one that begins now ${short(other)}`)
      }
      for (const uid of view.keys()) if (!jobs.has(uid)) found.push(`a TrainJob ${uid} that nobody created`)
      for (const [uid, update] of early)
        found.push(`${update.ref.name} (${uid}), which nobody created: ${short(update)}`)
      return found
    }
  }
}

/** See `make`. */
export type Ledger = ReturnType<typeof make>
