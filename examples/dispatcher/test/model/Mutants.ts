/**
 * Deliberate faults. Each puts a plausible mistake in the place of one piece of the adapter or the dispatcher; the model
 * test must notice every one of them, or it proves nothing.
 */
import type * as Adapter from "@dispatch-kubeflow/core/Adapter"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as Support from "@dispatch-kubeflow/core/decide/Support"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import { trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import type { TrainJobRef } from "@dispatch-kubeflow/core/TrainJobRef"
import { Effect, Either, Option, Stream } from "effect"
import * as Backend from "../../src/Backend.js"
import { letInAnnotation } from "../../src/backends/kubeflow/KueueOpening.js"
import { decide } from "../../src/decide.js"
import { current, type Entry } from "../../src/Entry.js"
import type * as Journal from "../../src/Journal.js"
import { type Script, scripted } from "./Command.js"
import { type Deps, namespace, type Pieces } from "./World.js"

/** A fault, and a script that is known to show it. */
export interface Mutant {
  readonly name: string
  readonly script: Script
  readonly pieces: Pieces
}

type Verdict = CessationVerdict.Verdict

/** The verdict, changed by what the mutant believes. */
const believing = (
  change: (
    verdict: Verdict,
    evidence: Evidence.Evidence,
    deps: Deps,
    ref: TrainJobRef
  ) => Verdict | Effect.Effect<Verdict>
): Pieces => ({
  adapter: (adapter, deps) => ({
    ...adapter,
    ceased: (ref) =>
      Effect.flatMap(adapter.ceased(ref), (verdict) =>
        Effect.flatMap(Effect.orDie(deps.store.get(ref)), (kept) => {
          const changed = change(
            verdict,
            Option.getOrElse(kept, () => Evidence.empty(ref.namespace, ref.name)),
            deps,
            ref
          )
          return Effect.isEffect(changed) ? changed : Effect.succeed(changed)
        })
      )
  })
})

/** Nodes count as ceased by another rule. */
const nodes = (counts: (node: CessationVerdict.NodeAnswer) => boolean): Pieces =>
  believing((verdict) => ({
    ...verdict,
    ceased: verdict.nodes.length > 0 && verdict.nodes.every((node) => node.ceased || counts(node))
  }))

/** Pods count as ended by another rule. */
const ended = (counts: (pod: Evidence.PodEvidence) => boolean): Pieces =>
  believing((verdict, evidence) => ({
    ...verdict,
    ended:
      verdict.pods.length > 0 &&
      verdict.pods.every((pod) => {
        const kept = evidence.pods[pod.uid]
        return pod.ended || (kept !== undefined && counts(kept))
      })
  }))

const judgement = (change: typeof decide): Pieces => ({ decide: change })

const backend = (change: (backend: Backend.Backend, deps: Deps) => Backend.Backend): Pieces => ({ backend: change })

const append = (entry: Entry) => ({ _tag: "Append" as const, entry })

/** Forgets the last entry when the process dies: it was done before it was written. */
const writesLate = (journal: Journal.Service): Journal.Service => {
  const unwritten = new Map<string, Effect.Effect<unknown, Journal.JournalError>>()
  return {
    ...journal,
    append: (run, before, entry) =>
      Effect.gen(function* () {
        const pending = unwritten.get(run)
        if (pending !== undefined) yield* pending
        unwritten.delete(run)
        if (entry._tag !== "Prepared" || before === undefined) return yield* journal.append(run, before, entry)
        unwritten.set(run, journal.append(run, before, entry))
        const attempts = before.attempts.map((attempt, index) =>
          index === before.attempts.length - 1 ? { ...attempt, id: entry.id } : attempt
        )
        return { ...before, attempts, length: before.length + 1 }
      })
  }
}

const timestamped = /^(\S+) (.*)$/s

/** Follows by itself, and resumes after the second of the last line, as the API server cuts times. */
const withoutOrdinal =
  (adapter: Adapter.Service, deps: Deps): Adapter.Service["outputEvents"] =>
  (ref, options) => {
    if (options?.follow !== true) return adapter.outputEvents(ref, options)
    let last = ""
    let resumed = ""
    const once = Stream.unwrap(
      Effect.map(
        deps.api.list(Core.pods, {
          namespace: ref.namespace,
          labels: Selector.labels({
            [JobSet.jobSetNameLabel]: ref.name,
            "batch.kubernetes.io/job-completion-index": "0"
          })
        }),
        ({ items }) => {
          const [pod] = items
          resumed = last
          return pod === undefined
            ? Stream.empty
            : deps.api.log(
                { namespace: ref.namespace, name: pod.metadata.name },
                { container: "node", follow: true, timestamps: true, ...(last === "" ? {} : { sinceTime: `${last}Z` }) }
              )
        }
      )
    ).pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.mapConcat((line) => {
        const [, time = "", text = ""] = timestamped.exec(line) ?? []
        const second = time.slice(0, "2006-01-02T15:04:05".length)
        if (second <= resumed) return []
        last = second
        return [{ _tag: "Bytes" as const, bytes: new TextEncoder().encode(`${text}\n`) }]
      }),
      Stream.catchAll(() => Stream.empty)
    )
    return Stream.concat(once, Stream.drain(Stream.fromEffect(Effect.sleep("1 second")))).pipe(Stream.forever)
  }

const outputOf = (outputEvents: Adapter.Service["outputEvents"], adapter: Adapter.Service): Adapter.Service => ({
  ...adapter,
  outputEvents
})

/** A JobSet is re-created, and loses its pods again, while the adapter is cut off. */
const unseenStart = scripted(
  `Submit a; Advance 2; Partition; DeleteJobSet 0; Advance 2; Lose 2; DeletePod 0 force; DeletePod 1 force;
   DeletePod 2 force; DeletePod 3 force; Advance 5; Taint 0; Taint 1; Advance 2; Heal`,
  { stubborn: true }
)
/** Nodes are deleted, and their kubelets register again with what they run. */
const replaced = scripted("Submit a; Advance 2; Lose 0; Lose 1; DeleteNode 0; DeleteNode 1; Return 0; Return 1")
/** Machines are cut off, and nobody vouches for them. */
const lost = scripted("Submit a; Advance 2; Lose 0; Lose 1; Advance 40")
/** Every object says that it is over when the machines come back, and their processes still run. */
const forgotten = scripted(
  "Submit a; Advance 2; Lose 0; Lose 1; DeleteNode 0; DeleteNode 1; Advance 90; Return 0; Return 1"
)

type KeptPods = ReadonlyArray<readonly [string, Evidence.Evidence["pods"][string]]>

/** A store that keeps other pods than those it is given. */
const keeping = (change: (pods: KeptPods) => KeptPods): Pieces => ({
  store: (store) => ({
    ...store,
    update: (key, step) =>
      store.update(key, (before) => {
        const after = step(before)
        return { ...after, pods: Object.fromEntries(change(Object.entries(after.pods))) }
      })
  })
})

const withKueue = (commands: string, options: { readonly stubborn?: boolean } = {}): Script =>
  scripted(commands, { kueue: true, ...options })

/** Answers our check for every Workload that has quota and waits for it, as a controller would that keeps no record. */
const answerAll = (api: Deps["api"], isOurs: (annotations: Readonly<Record<string, string>>) => boolean) =>
  Effect.gen(function* () {
    const { items } = yield* api.list(Kueue.workloads, { namespace })
    for (const workload of items) {
      const checks = workload.status?.admissionChecks ?? []
      const name = workload.metadata.ownerReferences?.[0]?.name ?? ""
      if (trueCondition(workload.status?.conditions, "QuotaReserved") === undefined) continue
      if (checks.every(({ state }) => state === "Ready") || workload.spec?.active === false) continue
      const { metadata } = yield* api.get(Trainer.trainJobs, { namespace, name })
      if (!isOurs(metadata.annotations ?? {})) continue
      yield* api.replace(
        Kueue.workloads,
        {
          ...workload,
          status: { ...workload.status, admissionChecks: checks.map((check) => ({ ...check, state: "Ready" })) }
        },
        { subresource: "status" }
      )
    }
  }).pipe(Effect.ignore)

const answering = (isOurs: (annotations: Readonly<Record<string, string>>) => boolean): Pieces =>
  backend((given, { api }) => ({
    ...given,
    reports: Stream.merge(
      Stream.filter(given.reports, ({ cause, state }) => state !== "Stopping" || cause !== "Preempted"),
      Stream.drain(Stream.repeatEffect(Effect.delay(answerAll(api, isOurs), "2 seconds")))
    )
  }))

/** All of them. */
export const mutants: ReadonlyArray<Mutant> = [
  {
    name: "ceased when Nodes are unknown: what was not seen does not count",
    script: unseenStart,
    pieces: believing((verdict) => ({ ...verdict, ceased: verdict.nodes.every((node) => node.ceased) }))
  },
  { name: "a replaced Node counts as ceased", script: replaced, pieces: nodes(({ state }) => state === "replaced") },
  {
    name: "a Node that is not ready counts as ceased",
    script: lost,
    pieces: nodes(({ state }) => state === "not-ready")
  },
  {
    name: "out of service by the taint's effect instead of its key",
    script: lost,
    pieces: nodes(({ taints }) => taints.some(({ effect }) => effect === "NoExecute"))
  },
  {
    name: "the out-of-service taint of a Ready Node counts although configured not to",
    script: scripted("Submit a; Advance 2; Taint 0 NoSchedule; Taint 1 NoSchedule", { outOfService: "unless-ready" }),
    pieces: nodes(({ state }) => state === "out-of-service")
  },
  {
    name: "no caution for an out-of-service Node that is alive",
    script: scripted("Submit a; Advance 2; Taint 0 NoSchedule; Taint 1 NoSchedule"),
    pieces: believing((verdict) => ({ ...verdict, cautions: [] }))
  },
  {
    name: "a deletionTimestamp counts as ended",
    script: scripted("Submit a; Advance 2; DeletePod 0; DeletePod 1", { stubborn: true }),
    pieces: ended(({ pod }) => typeof pod.metadata.deletionTimestamp === "string")
  },
  {
    name: "a pod that is gone counts as ended",
    script: scripted(
      "Submit a; Advance 2; Lose 0; Lose 1; DeleteTrainJob 0 Background; Advance 1; DeletePod 0 force; DeletePod 0 force; Advance 1"
    ),
    pieces: ended(({ presence }) => presence !== "present")
  },
  {
    name: "a pod's phase counts as its end",
    script: forgotten,
    pieces: ended(({ pod }) => pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded")
  },
  {
    name: "jobsStatus active 0 counts as ended",
    script: scripted("Submit a; Advance 2; Exit 0 1; Advance 1; Advance 1; Advance 1", { stubborn: true }),
    pieces: believing((verdict, _, { api }, ref) =>
      Effect.map(Effect.either(api.get(Trainer.trainJobs, ref)), (found) => {
        const counts = Either.isRight(found) ? (found.right.status?.jobsStatus ?? []) : []
        return counts.length > 0 && counts.every(({ active }) => (active ?? 0) === 0)
          ? { ...verdict, ended: true }
          : verdict
      })
    )
  },
  {
    name: "a TrainJob that is Failed counts as ended",
    script: forgotten,
    pieces: believing((verdict, evidence) =>
      Object.values(evidence.trainJobs).some(({ terminal }) => terminal !== undefined)
        ? { ...verdict, ended: true }
        : verdict
    )
  },
  {
    name: "another Node uid counts as a reboot",
    script: replaced,
    pieces: believing((verdict) => {
      const replaced = new Set(verdict.nodes.filter(({ state }) => state === "replaced").map(({ name }) => name))
      return {
        ...verdict,
        ended: verdict.pods.length > 0 && verdict.pods.every((pod) => pod.ended || replaced.has(pod.node ?? ""))
      }
    })
  },
  {
    name: "only the Nodes and pods of the newest incarnation count",
    script: scripted("Submit a; Advance 2; DeleteJobSet 0; Exit 2 1; Exit 2 1; Advance 1", { stubborn: true }),
    pieces: believing((verdict, evidence, _, ref) => {
      const all = Evidence.executions(evidence, ref.uid)
      const newest = new Set((all.current ?? all.last)?.newest.pods.map(({ uid }) => uid))
      const pods = verdict.pods.filter(({ uid }) => newest.has(uid))
      const names = new Set(pods.map(({ node }) => node))
      return {
        ...verdict,
        ceased: names.size > 0 && verdict.nodes.every((node) => !names.has(node.name) || node.ceased),
        ended: pods.length > 0 && pods.every((pod) => pod.ended)
      }
    })
  },
  {
    name: "the uid of a TrainJobRef is ignored",
    script: scripted("Submit a; Advance 2; DeleteTrainJob 0 Background; Impostor a 1; Advance 2", { stubborn: true }),
    pieces: {
      adapter: (adapter) => {
        const named = ({ name, namespace }: TrainJobRef): TrainJobRef => ({ namespace, name })
        return {
          ...adapter,
          ceased: (ref) => adapter.ceased(named(ref)),
          output: (ref, options) => adapter.output(named(ref), options),
          outputEvents: (ref, options) => adapter.outputEvents(named(ref), options)
        }
      }
    }
  },
  {
    name: "the current execution by pod name",
    script: scripted("Submit a; Advance 2"),
    pieces: {
      adapter: (adapter, { api }) => ({
        ...adapter,
        output: (ref, options) =>
          options?.follow === true
            ? adapter.output(ref, options)
            : Stream.unwrap(
                Effect.map(api.list(Core.pods, { namespace: ref.namespace }), ({ items }) => {
                  const pod = items.findLast(({ metadata }) => metadata.name.startsWith(`${ref.name}-`))
                  return pod === undefined
                    ? Stream.empty
                    : api.log({ namespace: ref.namespace, name: pod.metadata.name }, { container: "node" })
                })
              )
      })
    }
  },
  {
    name: "a log is resumed without an ordinal",
    script: scripted("Submit a; Advance 2; Write 0 1; Cut log broken; Write 0 3; Advance 5; Write 0 2; Advance 5"),
    pieces: { adapter: (adapter, deps) => outputOf(withoutOrdinal(adapter, deps), adapter) }
  },
  {
    name: "a cut log is read again from its start",
    script: scripted("Submit a; Advance 2; Advance 5"),
    pieces: {
      adapter: (adapter) =>
        outputOf(
          (ref, options) =>
            options?.follow === true
              ? Stream.forever(
                  Stream.concat(
                    adapter.outputEvents(ref).pipe(
                      Stream.filter(({ _tag }) => _tag === "Bytes"),
                      Stream.catchAll(() => Stream.empty)
                    ),
                    Stream.drain(Stream.fromEffect(Effect.sleep("1 second")))
                  )
                )
              : adapter.outputEvents(ref, options),
          adapter
        )
    }
  },
  {
    name: "evidence is forgotten when a pod is deleted",
    script: scripted("Submit a; Advance 2; DeletePod 0; Advance 90"),
    pieces: keeping((pods) => pods.filter(([, { presence }]) => presence === "present"))
  },
  {
    name: "a deletion is not noticed",
    script: scripted("Submit a; Advance 2; DeletePod 0; Advance 90; Advance 90"),
    pieces: keeping((pods) => pods.map(([uid, pod]) => [uid, { ...pod, presence: "present" as const }]))
  },
  {
    name: "OutputRead is yes whatever the permissions",
    script: scripted("Submit a; Revoke get pods/log"),
    pieces: {
      adapter: (adapter) => ({
        ...adapter,
        capabilities: (spec) =>
          Effect.map(adapter.capabilities(spec), (answers) =>
            answers.map((answer) =>
              answer.capability === "OutputRead" ? { ...answer, support: Support.yes() } : answer
            )
          )
      })
    }
  },
  {
    name: "writes although it may only read or observe",
    script: scripted("Submit a; Advance 2", { mode: "read-only" }),
    pieces: {
      adapter: (adapter) => ({
        ...adapter,
        config: { ...adapter.config, kueue: undefined },
        writable: Effect.succeed({ _tag: "Writable" })
      })
    }
  },
  {
    name: "a second submission without waiting for the first to stop",
    script: scripted("Submit a; Advance 2; Exit 0 1; Advance 5", { stubborn: true }),
    pieces: judgement((record, observed) => {
      const step = decide(record, observed)
      return step._tag === "Ask" ? append({ _tag: "Stopped", n: step.attempt.n, by: "ceased", cautions: [] }) : step
    })
  },
  {
    name: "no fence: what was given up can be started again",
    script: scripted("Submit a; Advance 2; Exit 0 1; Advance 15; DeleteJobSet 0; Advance 2"),
    pieces: judgement((record, observed) => {
      const step = decide(record, observed)
      return step._tag === "Fence" ? append({ _tag: "Fenced", n: step.attempt.n }) : step
    })
  },
  {
    name: "asks before the fence, acts after it",
    script: scripted(
      "Submit a; Advance 2; Revoke patch trainjobs; Exit 0 1; Exit 0 1; Advance 5; DeleteJobSet 0; Advance 1; Grant patch trainjobs; Advance 15; Advance 15",
      { stubborn: true }
    ),
    pieces: backend((given) => {
      const answers = new Map<string, Backend.Stopped>()
      return {
        ...given,
        fence: (submission) =>
          Effect.flatMap(Effect.option(given.stopped(submission)), (early) => {
            if (Option.isSome(early) && early.value.ended) answers.set(submission.id ?? "", early.value)
            return given.fence(submission)
          }),
        stopped: (submission) => {
          const early = answers.get(submission.id ?? "")
          return early === undefined ? given.stopped(submission) : Effect.succeed(early)
        }
      }
    })
  },
  {
    name: "the journal is written after the act",
    script: scripted("Kill answer lost; Submit a; Kill answer lost; Restart; DeleteTrainJob 0 Background; Restart", {
      stubborn: true
    }),
    pieces: { journal: writesLate }
  },
  {
    name: "an object of that name is taken for one's own",
    script: scripted("Impostor a 2; Submit a; Advance 2; Exit 0 1; Advance 15"),
    pieces: backend((given, { api }) => ({
      ...given,
      prepare: (submission, work) =>
        Effect.catchTag(given.prepare(submission, work), "Refused", (error) =>
          error.reason.includes("somebody else")
            ? Effect.map(
                Effect.orDie(
                  api.get(Trainer.trainJobs, { namespace: "default", name: `${submission.run}-${submission.n}` })
                ),
                ({ metadata }) => metadata.uid
              )
            : Effect.fail(error)
        )
    }))
  },
  {
    name: "a wait that says nothing",
    script: scripted("Submit a; Advance 2; Exit 0 1; Advance 5", { stubborn: true }),
    pieces: backend((given) => ({
      ...given,
      stopped: (submission) => Effect.map(given.stopped(submission), (answer) => ({ ...answer, reasons: [] }))
    }))
  },
  {
    name: "a report that is not heard",
    script: scripted("Submit a; Advance 2; Succeed; Advance 2"),
    pieces: backend((given) => ({
      ...given,
      reports: Stream.filter(given.reports, ({ state }) => state === "Pending" || state === "Running")
    }))
  },
  {
    name: "a cessation that is not believed",
    script: scripted("Submit a; Advance 2; Exit 0 1; Advance 2"),
    pieces: judgement((record, observed) => {
      const step = decide(record, observed)
      const attempt = current(record)
      return step._tag === "Append" && step.entry._tag === "Stopped" && attempt !== undefined
        ? { _tag: "Wait", attempt }
        : step
    })
  },
  {
    name: "with Kueue: a check that is Pending again is answered again",
    script: withKueue("Submit a; Advance 15; Preempt; Advance 5; Yield; Advance 15"),
    pieces: answering((annotations) => annotations[letInAnnotation] !== undefined)
  },
  {
    name: "with Kueue: the check is answered for everybody in the queue",
    script: withKueue("Submit a; Advance 15; Preempt; Advance 15"),
    pieces: answering(() => true)
  },
  {
    name: "with Kueue: the fence suspends the TrainJob, and leaves its Workload active",
    script: withKueue("Submit a; Advance 15; Preempt; Advance 15; Yield; Advance 15"),
    pieces: backend((given, { api }) => ({
      ...given,
      fence: (submission) => {
        const ref = { namespace, name: `${submission.run}-${submission.n}` }
        return api.patch(Trainer.trainJobs, ref, { type: "merge", body: { spec: { suspend: true } } }).pipe(
          Effect.flatMap(() => api.get(JobSet.jobSets, ref)),
          Effect.option,
          Effect.flatMap((found) =>
            Option.exists(found, ({ status }) => trueCondition(status?.conditions, "Suspended") !== undefined)
              ? Effect.succeed("Fenced" as const)
              : Effect.fail(new Backend.Unavailable({ backend: given.name, reason: "its JobSet is not suspended yet" }))
          )
        )
      }
    }))
  },
  {
    name: "with Kueue: nobody remembers what was let in",
    script: withKueue(
      "Preempt; Submit a; Advance 15; Kill before journal; Yield; Advance 15; DeleteWorkload 0; Advance 1; Restart; Advance 15"
    ),
    pieces: backend((given, { api }) => ({
      ...given,
      start: (submission) =>
        Effect.zipRight(
          Effect.ignore(
            api.patch(
              Trainer.trainJobs,
              { namespace, name: `${submission.run}-${submission.n}` },
              { type: "merge", body: { metadata: { annotations: { [letInAnnotation]: null } } } }
            )
          ),
          given.start(submission)
        )
    }))
  },
  {
    name: "with Kueue: starts without the proof of the gate",
    script: withKueue("Submit a; Advance 15; StopController; Advance 40; Submit b; Advance 15"),
    pieces: { adapter: (adapter) => ({ ...adapter, writable: Effect.succeed({ _tag: "Writable" }) }) }
  },
  {
    name: "with Kueue: a submission that was let in and lost its quota still counts as waiting",
    script: withKueue("Submit a; Advance 15; Hold 0; Advance 15; Release 0; Advance 15"),
    pieces: backend((given) => ({
      ...given,
      reports: Stream.map(given.reports, (report) =>
        report.detail.includes("it was let in before")
          ? { ...report, state: "Pending" as const, cause: undefined }
          : report
      )
    }))
  }
]
