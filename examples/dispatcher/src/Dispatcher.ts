/**
 * The dispatcher: brings every accepted run to an end, through crashes of its own. A fiber per run takes one step after
 * another; what the step is, `decide` says; what must not be forgotten is in the journal before it is done.
 *
 * @module
 */
import { Clock, Data, Deferred, Duration, Effect, Fiber, Option, Queue, Random, Stream } from "effect"
import type * as Backend from "./Backend.js"
import * as Decide from "./decide.js"
import * as Entry from "./Entry.js"
import * as Journal from "./Journal.js"
import type { Policy } from "./Policy.js"

/** What a run waits for, and since when nothing has come. */
export interface Waiting {
  readonly for: "a report" | "cessation" | "an answer"
  readonly reasons: ReadonlyArray<string>
  /** How often it has been asked in vain. */
  readonly times: number
}

/** Where a run is. */
export interface Status {
  readonly record: Entry.Record
  readonly waiting: Waiting | undefined
  /** The last report of the current submission. */
  readonly report: Backend.Report | undefined
}

/** What happens, for logs and people. */
export type Happening =
  | { readonly _tag: "Wrote"; readonly run: string; readonly entry: Entry.Entry }
  | { readonly _tag: "Waits"; readonly run: string; readonly n: number; readonly waiting: Waiting }
  | { readonly _tag: "Reported"; readonly backend: string; readonly report: Backend.Report }
  | { readonly _tag: "Blind"; readonly backend: string; readonly reason: string }

/** The run cannot be accepted as it is. */
export class NotAcceptable extends Data.TaggedError("NotAcceptable")<{
  readonly run: string
  readonly reason: string
}> {
  override get message(): string {
    return `run "${this.run}" cannot be accepted: ${this.reason}`
  }
}

/** Nothing was written: that word does not stand for an answer, or not yet. */
export class NotVouchable extends Data.TaggedError("NotVouchable")<{
  readonly run: string
  readonly n: number
  /** What is missing. */
  readonly reason: string
}> {
  override get message(): string {
    return `nobody can vouch for submission ${this.n} of run "${this.run}": ${this.reason}`
  }
}

/** A person's word that no process of a submission runs any more, and that none will. */
export interface Word {
  readonly run: string
  readonly n: number
  /** Who says so. */
  readonly by: string
  /** How they know. */
  readonly reason: string
}

/** What a run is to be. */
export interface Request {
  /** Becomes part of object names: a DNS label of at most 40 characters. */
  readonly run: string
  readonly work: Backend.Work
  readonly policy: Policy
  /** In the order of escalation. */
  readonly backends: readonly [string, ...ReadonlyArray<string>]
}

/** The dispatcher of a process. */
export interface Service {
  /** Accepts a run; done means written down. A run of that name that exists is left as it is. */
  readonly submit: (request: Request) => Effect.Effect<void, NotAcceptable | Journal.JournalError | Backend.Unavailable>
  readonly status: (run: string) => Effect.Effect<Option.Option<Status>>
  /** Waits for the end of a run that is known. */
  readonly done: (run: string) => Effect.Effect<Extract<Entry.Entry, { _tag: "Finished" }>, Journal.JournalError>
  /**
   * Takes a person's word for the answer that no backend can give, e.g. because no pod of the submission was ever seen. Done
   * means written down; the first word counts. Only for a submission that is given up and fenced, and not known to have
   * stopped: of what can still be started nobody knows that it stays stopped.
   */
  readonly vouch: (word: Word) => Effect.Effect<void, NotVouchable | Journal.JournalError>
}

/** How the dispatcher goes about it. */
export interface Options {
  readonly backends: ReadonlyArray<Backend.Backend>
  readonly onHappening?: ((happening: Happening) => Effect.Effect<void>) | undefined
  /** Asking again starts at this pace … */
  readonly shortest?: Duration.DurationInput | undefined
  /** … and slows down to this one. */
  readonly longest?: Duration.DurationInput | undefined
  /** The judgement; tests put faults in its place. */
  readonly decide?: typeof Decide.decide | undefined
}

interface Desk {
  record: Entry.Record
  observed: Decide.Observed
  /** Why nothing is reported of the current submission. */
  untold: string | undefined
  waiting: Waiting | undefined
  readonly bell: Queue.Queue<void>
  /** Rings when somebody has vouched for the current submission. */
  readonly vouched: Queue.Queue<void>
  /** Two write: the run's own fiber, and who vouches. */
  readonly pen: Effect.Semaphore
  readonly end: Deferred.Deferred<Extract<Entry.Entry, { _tag: "Finished" }>, Journal.JournalError>
}

/** What is missing before a submission can be vouched for. */
const missing = (record: Entry.Record, n: number): string | undefined => {
  const attempt = record.attempts.find((one) => one.n === n)
  if (attempt === undefined) return "there is no such submission"
  if (attempt.vouched !== undefined) return undefined
  if (attempt.refused !== undefined) return "it was refused, and nothing of it was started"
  if (attempt.stopped !== undefined) return `it is known to have ${attempt.stopped.by}`
  if (record.finished !== undefined) return "the run has finished"
  if (attempt.retiring === undefined) return "it is not given up: it may run, or be started"
  if (!attempt.fenced) return "it is not fenced yet: something may still be started for it"
  return undefined
}

const label = /^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$/

/** Starts the dispatcher: every unfinished run of the journal goes on. It ends with the scope. */
export const make = Effect.fn("Dispatcher.make")(function* (options: Options) {
  const journal = yield* Journal.Journal
  const scope = yield* Effect.scope
  const decide = options.decide ?? Decide.decide
  const shortest = Duration.toMillis(options.shortest ?? "2 seconds")
  const longest = Duration.toMillis(options.longest ?? "30 seconds")
  const tell = options.onHappening ?? (() => Effect.void)
  const backends = new Map(options.backends.map((backend) => [backend.name, backend]))
  const desks = new Map<string, Desk>()
  // The last report per backend and submission: a run that gets to its turn later has it at once
  const reports = new Map<string, Backend.Report>()
  // Why a backend cannot be watched, until it reports again
  const blind = new Map<string, string>()
  const reportKey = (backend: string, run: string, n: number, id: string | undefined): string =>
    [backend, run, n, id ?? ""].join("/")

  const lastReport = (record: Entry.Record): Backend.Report | undefined => {
    const attempt = Entry.current(record)
    return attempt === undefined
      ? undefined
      : reports.get(reportKey(attempt.backend, record.run, attempt.n, attempt.id))
  }

  const pause = (times: number): Effect.Effect<void> =>
    Effect.flatMap(Random.nextRange(0.8, 1.2), (jitter) =>
      Effect.sleep(Math.min(longest, shortest * 2 ** Math.min(times, 10)) * jitter)
    )

  const wait = (desk: Desk, n: number, what: Waiting["for"], reasons: ReadonlyArray<string>): Effect.Effect<void> =>
    Effect.gen(function* () {
      const before = desk.waiting
      const times = before?.for === what ? before.times + 1 : 0
      desk.waiting = { for: what, reasons, times }
      if (before?.for !== what || before.reasons.join() !== reasons.join()) {
        yield* tell({ _tag: "Waits", run: desk.record.run, n, waiting: desk.waiting })
      }
      // A report is worth a new look, but not a burst of questions
      yield* what === "a report" ? Queue.take(desk.bell) : pause(times)
    })

  const answer = <A>(
    desk: Desk,
    { n, backend }: Entry.Attempt,
    what: string,
    ask: Effect.Effect<A, Backend.Unavailable>,
    take: (answer: A) => Decide.Observed
  ): Effect.Effect<void> =>
    Effect.suspend(() => {
      // A backend may try for a while before it answers
      desk.waiting ??= { for: "an answer", reasons: [`${backend} is asked to ${what} submission ${n}`], times: 0 }
      return Effect.matchEffect(ask, {
        onFailure: (error) => wait(desk, n, "an answer", [error.message]),
        onSuccess: (value) =>
          Effect.sync(() => {
            // Who waits for cessation is answered often, and in vain
            if (desk.waiting?.for === "an answer") desk.waiting = undefined
            desk.observed = { ...desk.observed, ...take(value) }
          })
      })
    })

  /** Writes down what was judged of `before`; nothing when it is not what is written any more. */
  const write = (desk: Desk, before: Entry.Record, entry: Entry.Entry): Effect.Effect<void, Journal.JournalError> =>
    desk.pen.withPermits(1)(
      Effect.gen(function* () {
        if (desk.record !== before) return
        desk.record = yield* journal.append(before.run, before, entry)
        desk.observed = {}
        desk.untold = undefined
        desk.waiting = undefined
        yield* tell({ _tag: "Wrote", run: before.run, entry })
      })
    )

  /** Who waits for an answer is told of the word that stands for it; to ask writes nothing, so it may be broken off. */
  const unlessVouched = (desk: Desk, waiting: Effect.Effect<void>): Effect.Effect<void> =>
    Effect.raceFirst(waiting, Queue.take(desk.vouched))

  /** Waits for a report. Where there is none, the backend is asked now and then whether there ever will be. */
  const listenFor = (desk: Desk, backend: Backend.Backend, submission: Backend.Submission): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { n } = submission
      const report = lastReport(desk.record)
      const unseen = blind.get(backend.name)
      const reasons = unseen === undefined ? [] : [`${backend.name} is blind: ${unseen}`]
      if (report !== undefined) {
        const cause = report.cause === undefined ? "" : ` (${report.cause})`
        reasons.push(`submission ${n} ${unseen === undefined ? "is" : "was last seen"} ${report.state}${cause}`)
        return yield* wait(desk, n, "a report", reasons)
      }
      reasons.push(`nothing was reported of submission ${n} yet`, ...(desk.untold === undefined ? [] : [desk.untold]))
      const ask = Effect.match(backend.exists(submission), {
        onFailure: ({ reason }) => {
          desk.untold = reason
        },
        onSuccess: (exists) => {
          desk.untold = undefined
          desk.observed = { ...desk.observed, exists }
        }
      })
      yield* Effect.raceFirst(wait(desk, n, "a report", reasons), Effect.delay(ask, longest))
    })

  /** One step; whether there are more. */
  const step = (desk: Desk): Effect.Effect<boolean, Journal.JournalError> =>
    Effect.gen(function* () {
      const { record } = desk
      const next = decide(record, { ...desk.observed, report: lastReport(record) })
      if (next._tag === "Done") return false
      if (next._tag === "Append") {
        yield* write(desk, record, next.entry)
        return true
      }
      const { attempt } = next
      const { n } = attempt
      const backend = backends.get(attempt.backend)
      if (backend === undefined) {
        yield* unlessVouched(desk, wait(desk, n, "an answer", [`no backend "${attempt.backend}" is configured`]))
        return true
      }
      const { token, work } = record.accepted
      const submission: Backend.Submission = { run: record.run, n, token, id: attempt.id }
      switch (next._tag) {
        case "Prepare":
          yield* answer(
            desk,
            attempt,
            "prepare",
            backend.prepare(submission, work).pipe(
              Effect.map((id): Decide.Observed => ({ prepared: id })),
              Effect.catchTag("Refused", (error) => Effect.succeed<Decide.Observed>({ refused: error.message }))
            ),
            (observed) => observed
          )
          return true
        case "Start":
          yield* answer(desk, attempt, "start", backend.start({ ...submission, id: next.attempt.id }), (start) => ({
            start
          }))
          return true
        case "Fence":
          yield* answer(desk, attempt, "fence", backend.fence(submission), (fence) => ({ fence }))
          return true
        case "Ask":
          yield* unlessVouched(
            desk,
            Effect.gen(function* () {
              yield* answer(desk, attempt, "examine", backend.stopped(submission), (stopped) => ({ stopped }))
              const { stopped } = desk.observed
              if (stopped === undefined || stopped.ceased || stopped.ended) return
              desk.observed = { ...desk.observed, stopped: undefined }
              yield* wait(desk, n, "cessation", stopped.reasons)
            })
          )
          return true
        case "Wait":
          yield* listenFor(desk, backend, submission)
          return true
      }
    })

  const work = (desk: Desk): Effect.Effect<void> =>
    Effect.gen(function* () {
      while (yield* step(desk)) yield* Effect.yieldNow()
      const { finished } = desk.record
      if (finished !== undefined) yield* Deferred.succeed(desk.end, finished)
    }).pipe(
      // Without its journal a run must not go on
      Effect.catchAll((error) =>
        Effect.gen(function* () {
          desk.waiting = { for: "an answer", reasons: [error.message], times: 0 }
          yield* tell({ _tag: "Waits", run: desk.record.run, n: desk.record.attempts.length, waiting: desk.waiting })
          yield* Deferred.fail(desk.end, error)
        })
      )
    )

  const open = (record: Entry.Record): Effect.Effect<void> =>
    Effect.gen(function* () {
      const desk: Desk = {
        record,
        observed: {},
        untold: undefined,
        waiting: undefined,
        bell: yield* Queue.sliding<void>(1),
        vouched: yield* Queue.sliding<void>(1),
        pen: yield* Effect.makeSemaphore(1),
        end: yield* Deferred.make<Extract<Entry.Entry, { _tag: "Finished" }>, Journal.JournalError>()
      }
      desks.set(record.run, desk)
      yield* Effect.forkIn(work(desk), scope)
    })

  const ring = (concerned: Iterable<Desk | undefined>): Effect.Effect<void> =>
    Effect.forEach(concerned, (desk) => (desk === undefined ? Effect.void : Queue.offer(desk.bell, undefined)), {
      discard: true
    })

  const hear = (backend: Backend.Backend): Effect.Effect<void, Backend.Unavailable> =>
    Stream.runForEach(backend.reports, (report) =>
      Effect.suspend(() => {
        reports.set(reportKey(backend.name, report.run, report.n, report.id), report)
        // Every run of the backend says why it waits, not only the one that is reported
        const concerned = blind.delete(backend.name) ? desks.values() : [desks.get(report.run)]
        return Effect.zipRight(tell({ _tag: "Reported", backend: backend.name, report }), ring(concerned))
      })
    )

  const listen = (backend: Backend.Backend): Effect.Effect<never> =>
    Effect.gen(function* () {
      for (let times = 0; ; times += 1) {
        const since = yield* Clock.currentTimeMillis
        const end = yield* Effect.either(hear(backend))
        // What could be watched for a while is not one that fails at once, time after time
        if ((yield* Clock.currentTimeMillis) - since >= longest) times = 0
        const reason = end._tag === "Left" ? end.left.reason : "its reports ended"
        blind.set(backend.name, reason)
        yield* tell({ _tag: "Blind", backend: backend.name, reason })
        yield* ring(desks.values())
        yield* pause(times)
      }
    })

  for (const backend of options.backends) yield* Effect.forkIn(listen(backend), scope)
  for (const run of yield* journal.runs) {
    const record = yield* journal.read(run)
    if (Option.isSome(record)) yield* open(record.value)
  }

  /** What speaks against a request. */
  const objections = (request: Request): Effect.Effect<ReadonlyArray<string>, Backend.Unavailable> =>
    Effect.gen(function* () {
      const found: Array<string> = []
      if (!label.test(request.run)) found.push("its name is not a DNS label of at most 40 characters")
      const actions = [...new Set(request.policy.rules.map(({ action }) => action))]
      for (const name of request.backends) {
        const backend = backends.get(name)
        if (backend === undefined) {
          found.push(`no backend "${name}" is configured`)
          continue
        }
        const answers = yield* backend.actions(actions)
        for (const [index, { answer, reason }] of answers.entries()) {
          if (answer === "no") found.push(`backend "${name}" cannot ${actions[index] ?? ""}: ${reason ?? ""}`)
        }
      }
      return found
    })

  const accepting = yield* Effect.makeSemaphore(1)
  const service: Service = {
    submit: Effect.fn("Dispatcher.submit")(function* (request: Request) {
      const found = yield* objections(request)
      if (found.length > 0) return yield* new NotAcceptable({ run: request.run, reason: found.join("; ") })
      yield* accepting.withPermits(1)(
        Effect.gen(function* () {
          if (desks.has(request.run)) return
          const known = yield* journal.read(request.run)
          if (Option.isSome(known)) return yield* open(known.value)
          const token = yield* Effect.replicateEffect(Random.nextIntBetween(0, 0x1_0000), 4)
          const entry: Entry.Entry = {
            _tag: "Accepted",
            work: request.work,
            policy: request.policy,
            backends: request.backends,
            token: token.map((part) => part.toString(16).padStart(4, "0")).join("")
          }
          yield* open(yield* journal.append(request.run, undefined, entry))
          yield* tell({ _tag: "Wrote", run: request.run, entry })
        })
      )
    }),
    status: (run) =>
      Effect.sync(() => {
        const desk = desks.get(run)
        return desk === undefined
          ? Option.none()
          : Option.some({ record: desk.record, waiting: desk.waiting, report: lastReport(desk.record) })
      }),
    vouch: Effect.fn("Dispatcher.vouch")(function* ({ by, n, reason, run }: Word) {
      const desk = desks.get(run)
      const objects = (why: string) => new NotVouchable({ run, n, reason: why })
      if (desk === undefined) return yield* objects("the run is not known")
      if (by.trim() === "" || reason.trim() === "") return yield* objects("it takes who says so, and how they know")
      // A word that is given up half-way would be in the journal, and not on the desk
      const written = yield* Effect.forkIn(
        Effect.gen(function* () {
          for (;;) {
            const { record } = desk
            const why = missing(record, n)
            if (why !== undefined) return yield* objects(why)
            if (record.attempts[n - 1]?.vouched !== undefined) return
            yield* write(desk, record, { _tag: "Vouched", n, by, reason })
            yield* Queue.offer(desk.vouched, undefined)
          }
        }),
        scope
      )
      return yield* Fiber.join(written)
    }),
    done: (run) =>
      Effect.suspend(() => {
        const desk = desks.get(run)
        return desk === undefined
          ? Effect.fail(new Journal.JournalError({ kind: "damaged", run, detail: "it is not known" }))
          : Deferred.await(desk.end)
      })
  }
  return service
})
