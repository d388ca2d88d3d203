/**
 * Tells the story of a TrainJob: what the cluster shows now, added to the evidence that was kept. Works for one that is
 * long gone, pods and all, when its evidence was kept.
 *
 * @module
 */
import { Clock, Effect, Option } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import type { ErrNotFound } from "./AdapterError.js"
import * as Evidence from "./decide/Evidence.js"
import * as Explanation from "./decide/Explanation.js"
import * as EvidenceStore from "./EvidenceStore.js"
import { concurrency, find, gather, isKnown } from "./internal/Gather.js"
import * as KubeApi from "./kube/KubeApi.js"
import type { KubeError } from "./kube/KubeError.js"
import * as Selector from "./kube/Selector.js"
import * as Core from "./model/Core.js"
import * as Kueue from "./model/Kueue.js"
import type { TrainJobRef } from "./TrainJobRef.js"

/** What `explain` can fail with. */
export type Failure = ErrNotFound | KubeError | EvidenceStore.EvidenceStoreError

/** The story. */
export interface Service {
  /**
   * Executions, timeline, cause with its facts, and what is not known. Fails with `ErrNotFound` when there is neither a
   * TrainJob nor evidence. A cluster that does not answer fails it only when no evidence was kept; else the answer says so.
   */
  readonly explain: (ref: TrainJobRef) => Effect.Effect<Explanation.Explanation, Failure>
}

/** Makes the program. */
export const make = (
  config: Pick<AdapterConfig, "kueue">
): Effect.Effect<Service, never, KubeApi.KubeApi | EvidenceStore.EvidenceStore> =>
  Effect.gen(function* () {
    const api = yield* KubeApi.KubeApi
    const store = yield* EvidenceStore.EvidenceStore

    /** Adds what one optional source shows; one that cannot be read is a sentence in `unasked`. */
    const optionally = (
      what: string,
      unasked: Array<string>,
      source: Effect.Effect<ReadonlyArray<Evidence.Observation>, KubeError>
    ): Effect.Effect<ReadonlyArray<Evidence.Observation>> =>
      Effect.catchAll(source, (error) =>
        Effect.sync(() => {
          // A cluster without Kueue has no Workloads to miss
          if (error._tag !== "KubeNotFound") unasked.push(`${what}: ${error.message}`)
          return []
        })
      )

    const workloads = ({ namespace, name }: TrainJobRef) =>
      Effect.gen(function* () {
        const { items } = yield* api.list(Kueue.workloads, { namespace })
        const at = yield* Clock.currentTimeMillis
        return items
          .map((object) => ({ _tag: "Workload" as const, object, presence: "present" as const, at }))
          .filter((observation) => Evidence.trainJobNameOf(observation) === name)
      })

    /** The Events about a TrainJob, and the warnings about what it is made of. */
    const events = ({ namespace, name }: TrainJobRef, { jobSets, jobs }: Evidence.Evidence) =>
      Effect.gen(function* () {
        const selections = [
          Selector.fields({ "involvedObject.kind": "TrainJob", "involvedObject.name": name }),
          Core.warningsOfParts
        ]
        const [own, parts] = yield* Effect.all(
          selections.map((fields) => api.list(Core.events, { namespace, fields })),
          { concurrency }
        )
        const at = yield* Clock.currentTimeMillis
        const about = ({ involvedObject: { uid } }: Core.Event): boolean =>
          typeof uid === "string" && (jobSets[uid] !== undefined || jobs[uid] !== undefined)
        return [...(own?.items ?? []), ...(parts?.items ?? []).filter(about)].map((object) => ({
          _tag: "Event" as const,
          object,
          at
        }))
      })

    const node = (name: string) =>
      Effect.gen(function* () {
        const object = yield* find(api, Core.nodes, { name })
        return [{ _tag: "Node" as const, name, node: object, at: yield* Clock.currentTimeMillis }]
      })

    const asked = (ref: TrainJobRef) =>
      Effect.gen(function* () {
        const gathered = yield* gather(api, store, ref)
        const unasked: Array<string> = []
        const { last } = Evidence.executions(gathered, ref.uid)
        const names = [...new Set((last?.pods ?? []).flatMap(({ nodeName }) => nodeName ?? []))]
        const queued = Object.values(gathered.trainJobs).some(
          ({ trainJob }) => trainJob.metadata.labels?.[Kueue.queueNameLabel] !== undefined
        )
        const more = yield* Effect.all(
          [
            optionally("Events", unasked, events(ref, gathered)),
            config.kueue === undefined && !queued
              ? Effect.succeed([])
              : optionally("Workloads", unasked, workloads(ref)),
            Effect.map(
              Effect.forEach(names, (name) => optionally(`Node/${name}`, unasked, node(name)), { concurrency }),
              (all) => all.flat()
            )
          ],
          { concurrency: "unbounded" }
        )
        const evidence = yield* store.update(ref, (kept) => Evidence.foldAll(kept, more.flat()))
        return Explanation.make(evidence, ref.uid, unasked)
      })

    return {
      explain: Effect.fn("Explain.explain")(function* (ref: TrainJobRef) {
        return yield* Effect.catchAll(asked(ref), (error): Effect.Effect<Explanation.Explanation, Failure> =>
          error._tag === "ErrNotFound" || error._tag === "EvidenceStoreError"
            ? Effect.fail(error)
            : Effect.flatMap(store.get(ref), (kept) =>
                Option.isSome(kept) && isKnown(kept.value, ref)
                  ? Effect.succeed(
                      Explanation.make(kept.value, ref.uid, [
                        `the cluster, so this is kept evidence alone: ${error.message}`
                      ])
                    )
                  : Effect.fail(error)
              )
        )
      })
    }
  })
