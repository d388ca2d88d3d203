/**
 * The contract between the dispatcher and whatever runs jobs. Every backend answers the same questions in the same words;
 * nothing here knows of Kubernetes.
 *
 * @module
 */
import { Data, type Effect, type Stream } from "effect"

/** What a run wants done. */
export interface Work {
  /** How many ranks. */
  readonly nodes: number
  readonly image?: string | undefined
  readonly command?: ReadonlyArray<string> | undefined
}

/**
 * The Nth submission of a run. `token` is the run's own secret word: an object that has the name and not the token is
 * somebody else's. `id` is what the backend answered to `prepare`.
 */
export interface Submission {
  readonly run: string
  readonly n: number
  readonly token: string
  readonly id?: string | undefined
}

/** A submission that the backend has a handle for. */
export interface Prepared extends Submission {
  readonly id: string
}

/** One answer of a backend about itself. */
export interface Answer {
  readonly answer: "yes" | "no" | "unknown"
  readonly reason: string | undefined
}

/** What is told of a submission. `id` tells it from an older one of the same name. */
export interface Report {
  readonly run: string
  readonly n: number
  readonly id: string | undefined
  readonly state: "Pending" | "Held" | "Running" | "Stopping" | "Succeeded" | "Failed" | "Gone" | "Unknown"
  /** The first terminal result; it stays when the submission is deleted. */
  readonly outcome: "Succeeded" | "Failed" | undefined
  /** e.g. `NodeLost`, `Application`; undefined where there is no why (yet). */
  readonly cause: string | undefined
  readonly detail: string
}

/** Whether anything of a submission may still run. */
export interface Stopped {
  /** Every machine that it ran on is gone, or its operator vouches for it. */
  readonly ceased: boolean
  /** Every process of it is proven to have ended. */
  readonly ended: boolean
  /** Why not. */
  readonly reasons: ReadonlyArray<string>
  /** What to know before acting on a yes. */
  readonly cautions: ReadonlyArray<string>
}

/** The backend will never do this. Nothing was started. */
export class Refused extends Data.TaggedError("Refused")<{ readonly backend: string; readonly reason: string }> {
  override get message(): string {
    return `${this.backend} refuses: ${this.reason}`
  }
}

/** No answer, or not now. Whether the request was carried out is not known; asking again is safe. */
export class Unavailable extends Data.TaggedError("Unavailable")<{
  readonly backend: string
  readonly reason: string
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.backend} does not answer: ${this.reason}`
  }
}

/** What the backend can do. */
export interface Support {
  /** Per recovery action (`Resubmit`, `Escalate`, `Hold` …) what the backend says to it. */
  readonly actions: (actions: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<Answer>, Unavailable>
}

/** Brings submissions to life. Each method may be repeated at any time, by any process, with the same effect. */
export interface Submitter {
  /** Makes the submission known to the backend without starting anything; answers its id. */
  readonly prepare: (submission: Submission, work: Work) => Effect.Effect<string, Refused | Unavailable>
  /** Starts what was prepared, never a second time, and never anything that only has its name. */
  readonly start: (submission: Prepared) => Effect.Effect<"Started" | "Gone", Unavailable>
  /**
   * Sees to it that nothing more is started for it, whatever becomes of its parts. Returns when that is certain; what runs
   * is on its way to an end, but may still run. `Succeeded`: it had succeeded before.
   */
  readonly fence: (submission: Submission) => Effect.Effect<"Fenced" | "Succeeded", Unavailable>
}

/** Tells what happens. */
export interface Watcher {
  /** First what is, then every change. */
  readonly reports: Stream.Stream<Report, Unavailable>
  /** Of a submission of which nothing is reported: whether it exists. Fails with the reason where that keeps it from being told. */
  readonly exists: (submission: Submission) => Effect.Effect<boolean, Unavailable>
}

/** Says whether something has stopped. */
export interface CessationSignal {
  readonly stopped: (submission: Submission) => Effect.Effect<Stopped, Unavailable>
}

/** A place where jobs run. */
export interface Backend extends Support, Submitter, Watcher, CessationSignal {
  readonly name: string
}
