import * as fs from "node:fs"
import * as url from "node:url"
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Batch from "@dispatch-kubeflow/core/model/Batch"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Either } from "effect"

/** One event of a recording of real controllers: whole, or a merge patch of the object's last state. */
interface Recorded {
  readonly at: number
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly object?: unknown
  readonly kind?: string
  readonly name?: string
  readonly patch?: unknown
}

type Fields = Readonly<Record<string, unknown>>
const fields = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {})

const merged = (base: unknown, patch: unknown): unknown => {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch
  const result: Record<string, unknown> = { ...fields(base) }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key]
    else result[key] = merged(result[key], value)
  }
  return result
}

const decoders = {
  TrainJob: Trainer.trainJobs.decode,
  JobSet: JobSet.jobSets.decode,
  Job: Batch.jobs.decode,
  Pod: Core.pods.decode,
  Workload: Kueue.workloads.decode,
  Event: Core.events.decode,
  Node: Core.nodes.decode
}
const isKind = (kind: unknown): kind is keyof typeof decoders => typeof kind === "string" && kind in decoders

/** An update with the second of the recording at which it would have been told. */
export interface Told {
  readonly at: number
  readonly update: Update.Update
}

/** What a watch would tell of a recording, and the evidence at its end, by TrainJob name. */
export interface Replayed {
  readonly told: ReadonlyArray<Told>
  readonly evidence: ReadonlyMap<string, Evidence.Evidence>
}

/** Folds a recording event by event. `without`: kinds that were not watched. */
export const replayFile = (path: string, without: ReadonlyArray<string> = []): Replayed => {
  const { events } = JSON.parse(fs.readFileSync(path, "utf8")) as { readonly events: ReadonlyArray<Recorded> }
  const objects = new Map<string, unknown>()
  const evidence = new Map<string, Evidence.Evidence>()
  const last = new Map<string, Update.Update>()
  const told: Array<Told> = []
  let start: number | undefined
  for (const event of events) {
    const object = event.object ?? merged(objects.get(`${event.kind} ${event.name}`), event.patch)
    const { kind, metadata } = fields(object)
    objects.set(`${String(kind)} ${String(fields(metadata)["name"])}`, object)
    if (!isKind(kind) || without.includes(kind)) continue
    const decoded = Either.getOrThrow<unknown, unknown>(decoders[kind](object)) as never
    // The recording counts seconds from its start; the observer's clock is the cluster's
    const created = Evidence.millis(String(fields(metadata)["creationTimestamp"]))
    start ??=
      event.type === "ADDED" && kind === "TrainJob" && created !== undefined ? created - event.at * 1000 : undefined
    const at = Math.round((start ?? 0) + event.at * 1000)
    const fold = (name: string, observation: Evidence.Observation): void => {
      const known = evidence.get(name) ?? Evidence.empty("recorded", name)
      const next = Evidence.fold(known, observation)
      evidence.set(name, next)
      for (const uid of Object.keys(next.trainJobs)) {
        const update = Update.make(next, uid)
        const before = last.get(uid)
        if (before !== undefined && Update.equals(before, update)) continue
        last.set(uid, update)
        told.push({ at: event.at, update })
      }
    }
    if (kind === "Node") {
      const node = event.type === "DELETED" ? undefined : (decoded as Core.Node)
      for (const name of evidence.keys()) {
        fold(name, { _tag: "Node", name: (decoded as Core.Node).metadata.name, node, at })
      }
      continue
    }
    const observation: Exclude<Evidence.Observation, { readonly _tag: "Node" }> = {
      _tag: kind,
      object: decoded,
      presence: event.type === "DELETED" ? "seen" : "present",
      at
    }
    const name = Evidence.trainJobNameOf(observation)
    if (name !== undefined) fold(name, observation)
  }
  return { told, evidence }
}

/** The recordings of the Trainer that the in-memory cluster is tested with. */
export const replay = (name: string, without: ReadonlyArray<string> = []): Replayed =>
  replayFile(url.fileURLToPath(new URL(`../../testkit/test/recordings/trainer/${name}.json`, import.meta.url)), without)
