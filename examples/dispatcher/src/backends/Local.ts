/**
 * A backend that runs its jobs as fibers of this very process. It shares nothing with Kubernetes but the contract: what it
 * prepares it keeps in memory, and its processes die with the dispatcher.
 *
 * @module
 */
import { Clock, Effect, Exit, Fiber, PubSub, type Scope, Stream } from "effect"
import * as Backend from "../Backend.js"

/** What a job does: ends with an exit code. */
export type Program = (submission: Backend.Submission, work: Backend.Work) => Effect.Effect<number>

interface Job {
  readonly submission: Backend.Submission
  readonly work: Backend.Work
  readonly id: string
  fiber: Fiber.RuntimeFiber<number> | undefined
  fenced: boolean
  state: Backend.Report["state"]
  detail: string
}

/** Makes the backend; its processes end with the scope. */
export const make = (options: {
  readonly name: string
  readonly program: Program
}): Effect.Effect<Backend.Backend & { readonly processes: Effect.Effect<ReadonlyArray<string>> }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { name } = options
    const scope = yield* Effect.scope
    // Ids of an earlier process must not be taken for ours
    const born = yield* Clock.currentTimeMillis
    const jobs = new Map<string, Job>()
    const changes = yield* PubSub.unbounded<Backend.Report>()
    let count = 0

    const keyOf = ({ n, run }: Backend.Submission): string => `${run}-${n}`
    const report = (job: Job): Backend.Report => ({
      run: job.submission.run,
      n: job.submission.n,
      id: job.id,
      state: job.state,
      outcome: job.state === "Succeeded" || job.state === "Failed" ? job.state : undefined,
      cause: job.state === "Failed" ? "Application" : undefined,
      detail: job.detail
    })
    const become = (job: Job, state: Backend.Report["state"], detail: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        job.state = state
        job.detail = detail
        return PubSub.publish(changes, report(job))
      })
    const find = (submission: Backend.Submission): Job | undefined => {
      const job = jobs.get(keyOf(submission))
      return job !== undefined && (submission.id === undefined || submission.id === job.id) ? job : undefined
    }

    return {
      name,
      actions: (actions) =>
        Effect.succeed(
          actions.map((action) =>
            action === "Resubmit" || action === "Escalate" || action === "Hold"
              ? { answer: "yes", reason: undefined }
              : { answer: "no", reason: `a local process has no ${action}` }
          )
        ),
      prepare: (submission, work) =>
        Effect.suspend(() => {
          const key = keyOf(submission)
          const known = jobs.get(key)
          if (known !== undefined) {
            return known.submission.token === submission.token
              ? Effect.succeed(known.id)
              : new Backend.Refused({ backend: name, reason: `${key} belongs to somebody else` })
          }
          if (work.nodes !== 1) {
            return new Backend.Refused({ backend: name, reason: "a local process is one rank" })
          }
          count += 1
          const job: Job = {
            submission,
            work,
            id: `${born}-${count}`,
            fiber: undefined,
            fenced: false,
            state: "Pending",
            detail: "prepared"
          }
          jobs.set(key, job)
          return Effect.as(become(job, "Pending", "prepared"), job.id)
        }),
      start: (submission) =>
        Effect.gen(function* () {
          const job = find(submission)
          if (job === undefined) return "Gone"
          if (job.fiber !== undefined || job.fenced) return "Started"
          const process = options
            .program(submission, job.work)
            .pipe(
              Effect.onExit((exit) =>
                Exit.isSuccess(exit)
                  ? become(job, exit.value === 0 ? "Succeeded" : "Failed", `exit code ${exit.value}`)
                  : become(job, "Failed", "killed")
              )
            )
          yield* Effect.uninterruptible(
            Effect.gen(function* () {
              job.fiber = yield* Effect.forkIn(Effect.interruptible(process), scope)
            })
          )
          yield* become(job, "Running", "started")
          return "Started"
        }),
      fence: (submission) =>
        Effect.gen(function* () {
          const job = find(submission)
          if (job === undefined) return "Fenced"
          job.fenced = true
          if (job.state === "Succeeded") return "Succeeded"
          if (job.fiber !== undefined) yield* Fiber.interruptFork(job.fiber)
          return "Fenced"
        }),
      reports: Stream.concat(
        Stream.suspend(() => Stream.fromIterable([...jobs.values()].map(report))),
        Stream.fromPubSub(changes)
      ),
      exists: (submission) => Effect.sync(() => find(submission) !== undefined),
      stopped: (submission) =>
        Effect.map(
          Effect.sync(() => find(submission)),
          (job): Backend.Stopped => {
            const running = job?.fiber !== undefined && job.fiber.unsafePoll() === null
            return {
              ceased: false,
              ended: !running,
              reasons: running ? [`the process of ${keyOf(submission)} runs`] : [],
              cautions: job === undefined ? ["It ran in an earlier process of this dispatcher, and died with it."] : []
            }
          }
        ),
      processes: Effect.sync(() =>
        [...jobs].flatMap(([key, job]) => (job.fiber !== undefined && job.fiber.unsafePoll() === null ? [key] : []))
      )
    }
  })
