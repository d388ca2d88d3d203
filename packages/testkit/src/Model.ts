/**
 * A plain model of the store: maps and lists, no sharing, no speed. What it says is easy to believe, so `Store` is tested
 * against it; the fast-check commands run any store (or a server behind it) beside it.
 *
 * The model knows two sorts of objects: ConfigMaps for built-in types (no generation, unconditional replace) and TrainJobs
 * for custom resources (generation, status subresource, replace needs a version).
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { FastCheck as fc } from "effect"

/** The two sorts. */
export type Sort = "configmaps" | "trainjobs"

/** A stored object. `content` is `data.k` of a ConfigMap and an annotation of a TrainJob's runtime patch. */
export interface Entry {
  readonly sort: Sort
  readonly name: string
  /** Counts objects: another one of the same name has another. */
  readonly incarnation: number
  readonly version: number
  readonly generation: number
  readonly labels: Readonly<Record<string, string>>
  readonly finalizers: ReadonlyArray<string>
  readonly content: string
  /** `reason` of the status; `""` for none. */
  readonly status: string
  readonly deleting: boolean
}

/** What happened to an object. */
export interface Happening {
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  /** The object after it; of a deletion the last one, with the deletion's version. */
  readonly entry: Entry
  readonly before: Entry | undefined
}

/** Everything that is known. */
export interface Model {
  readonly version: number
  readonly incarnations: number
  readonly entries: ReadonlyMap<string, Entry>
  readonly history: ReadonlyArray<Happening>
}

/** Which version a write says it has seen. */
export type Seen = "none" | "current" | "stale"

/** A write. */
export type Write =
  | {
      readonly _tag: "create"
      readonly sort: Sort
      readonly name: string
      readonly labels: Readonly<Record<string, string>>
      readonly finalizers: ReadonlyArray<string>
      readonly content: string
      readonly dryRun: boolean
    }
  | {
      readonly _tag: "replace"
      readonly sort: Sort
      readonly name: string
      readonly labels: Readonly<Record<string, string>>
      readonly finalizers: ReadonlyArray<string>
      readonly content: string
      readonly seen: Seen
      readonly dryRun: boolean
    }
  | {
      readonly _tag: "patch"
      readonly sort: Sort
      readonly name: string
      /** `null` removes a label. */
      readonly labels: Readonly<Record<string, string | null>>
      readonly finalizers: ReadonlyArray<string> | undefined
      readonly seen: Seen
      readonly dryRun: boolean
    }
  | {
      readonly _tag: "status"
      readonly name: string
      readonly status: string
      readonly dryRun: boolean
    }
  | {
      readonly _tag: "remove"
      readonly sort: Sort
      readonly name: string
      readonly uid: "none" | "right" | "wrong"
      readonly dryRun: boolean
    }

/** What a write answers: the code, and the object where the answer is one. */
export interface Answer {
  readonly code: number
  readonly entry: Entry | undefined
}

/** The model of an empty store at a version. */
export const empty = (version = 0): Model => ({ version, incarnations: 0, entries: new Map(), history: [] })

const keyOf = (sort: Sort, name: string): string => `${sort}/${name}`

const sameMap = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([key, value]) => b[key] === value)

const sameList = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.length === b.length && a.every((value, index) => b[index] === value)

const unchanged = (a: Entry, b: Entry): boolean =>
  sameMap(a.labels, b.labels) &&
  sameList(a.finalizers, b.finalizers) &&
  a.content === b.content &&
  a.status === b.status &&
  a.deleting === b.deleting

const put = (model: Model, entry: Entry, before: Entry | undefined): readonly [Model, Entry] => {
  const version = model.version + 1
  const stored: Entry = { ...entry, version }
  return [
    {
      ...model,
      version,
      entries: new Map(model.entries).set(keyOf(entry.sort, entry.name), stored),
      history: [...model.history, { type: before === undefined ? "ADDED" : "MODIFIED", entry: stored, before }]
    },
    stored
  ]
}

const drop = (model: Model, entry: Entry): Model => {
  const version = model.version + 1
  const entries = new Map(model.entries)
  entries.delete(keyOf(entry.sort, entry.name))
  return {
    ...model,
    version,
    entries,
    history: [...model.history, { type: "DELETED", entry: { ...entry, version }, before: entry }]
  }
}

const refuse = (model: Model, code: number): readonly [Model, Answer] => [model, { code, entry: undefined }]

/** A changed object: nothing new is no write, the last finalizer of one that is being deleted lets it go. */
const change = (model: Model, before: Entry, wanted: Entry, dryRun: boolean): readonly [Model, Answer] => {
  if (before.deleting && wanted.finalizers.some((finalizer) => !before.finalizers.includes(finalizer))) {
    return refuse(model, 422)
  }
  if (unchanged(before, wanted)) return [model, { code: 200, entry: before }]
  const next: Entry = { ...wanted, generation: before.generation + (before.content === wanted.content ? 0 : 1) }
  if (dryRun) return [model, { code: 200, entry: next }]
  if (next.deleting && next.finalizers.length === 0) return [drop(model, before), { code: 200, entry: next }]
  const [changed, stored] = put(model, next, before)
  return [changed, { code: 200, entry: stored }]
}

/** Performs a write. */
export const write = (model: Model, request: Write): readonly [Model, Answer] => {
  const sort = request._tag === "status" ? "trainjobs" : request.sort
  const before = model.entries.get(keyOf(sort, request.name))
  if (request._tag === "create") {
    if (before !== undefined) return refuse(model, 409)
    const entry: Entry = {
      sort,
      name: request.name,
      incarnation: model.incarnations + 1,
      version: 0,
      generation: 1,
      labels: request.labels,
      finalizers: request.finalizers,
      content: request.content,
      status: "",
      deleting: false
    }
    if (request.dryRun) return [model, { code: 201, entry }]
    const [changed, stored] = put({ ...model, incarnations: model.incarnations + 1 }, entry, undefined)
    return [changed, { code: 201, entry: stored }]
  }
  if (before === undefined) return refuse(model, 404)
  switch (request._tag) {
    case "replace": {
      if (request.seen === "none" && sort === "trainjobs") return refuse(model, 422)
      if (request.seen === "stale") return refuse(model, 409)
      const { content, dryRun, finalizers, labels } = request
      return change(model, before, { ...before, labels, finalizers, content }, dryRun)
    }
    case "patch": {
      if (request.seen === "stale") return refuse(model, 409)
      const labels: Record<string, string> = { ...before.labels }
      for (const [key, value] of Object.entries(request.labels)) {
        if (value === null) delete labels[key]
        else labels[key] = value
      }
      return change(
        model,
        before,
        { ...before, labels, finalizers: request.finalizers ?? before.finalizers },
        request.dryRun
      )
    }
    case "status":
      return change(model, before, { ...before, status: request.status }, request.dryRun)
    case "remove": {
      if (request.uid === "wrong") return refuse(model, 409)
      if (before.finalizers.length === 0) {
        return [request.dryRun ? model : drop(model, before), { code: 200, entry: undefined }]
      }
      if (before.deleting) return [model, { code: 200, entry: before }]
      // A deletion is a change of the object that its generation counts
      const marked: Entry = { ...before, deleting: true, generation: before.generation + 1 }
      if (request.dryRun) return [model, { code: 200, entry: marked }]
      const [changed, stored] = put(model, marked, before)
      return [changed, { code: 200, entry: stored }]
    }
  }
}

/** The objects of a sort that a selector matches, in the order of a list. */
export const list = (model: Model, sort: Sort, selector: Selector.LabelSelector = []): ReadonlyArray<Entry> =>
  [...model.entries.values()]
    .filter((entry) => entry.sort === sort && Selector.matchesLabels(selector, entry.labels))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))

/** The objects as they were at a version. */
export const at = (model: Model, version: number): ReadonlyMap<string, Entry> => {
  const entries = new Map<string, Entry>()
  for (const { entry, type } of model.history) {
    if (entry.version > version) break
    const key = keyOf(entry.sort, entry.name)
    if (type === "DELETED") entries.delete(key)
    else entries.set(key, entry)
  }
  return entries
}

/** One event as a watch with a selector tells it. */
export interface Told {
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly entry: Entry
}

/** What a watch of a sort from a version tells: objects enter and leave the selector. */
export const watch = (
  model: Model,
  sort: Sort,
  from: number,
  selector: Selector.LabelSelector = []
): ReadonlyArray<Told> =>
  model.history.flatMap(({ before, entry, type }): ReadonlyArray<Told> => {
    if (entry.sort !== sort || entry.version <= from) return []
    const did = before !== undefined && Selector.matchesLabels(selector, before.labels)
    const does = type !== "DELETED" && Selector.matchesLabels(selector, entry.labels)
    if (did && does) return [{ type: "MODIFIED", entry }]
    if (does) return [{ type: "ADDED", entry }]
    // The last state that matched, with the version of what ended it
    return did ? [{ type: "DELETED", entry: { ...before, version: entry.version } }] : []
  })

// ---- the same as requests -------------------------------------------------------------------------------------------

const types: Readonly<Record<Sort, KubeRequest.ResourceType>> = {
  configmaps: { group: "", version: "v1", plural: "configmaps" },
  trainjobs: { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }
}

/** The resource type of a sort. */
export const typeOf = (sort: Sort): KubeRequest.ResourceType => types[sort]

const specOf = (sort: Sort, content: string): Readonly<Record<string, unknown>> =>
  sort === "configmaps"
    ? { data: { k: content } }
    : {
        spec: {
          managedBy: "kueue.x-k8s.io/multikueue",
          runtimeRef: { name: "torch-distributed" },
          suspend: true,
          runtimePatches: [
            {
              manager: "example.com/model",
              trainingRuntimeSpec: { template: { metadata: { annotations: { content } } } }
            }
          ]
        }
      }

const body = (
  sort: Sort,
  metadata: Readonly<Record<string, unknown>>,
  rest: Readonly<Record<string, unknown>>
): Readonly<Record<string, unknown>> => ({
  apiVersion: sort === "configmaps" ? "v1" : "trainer.kubeflow.org/v1alpha1",
  kind: sort === "configmaps" ? "ConfigMap" : "TrainJob",
  metadata,
  ...rest
})

/** What a request needs to know of the object that it is about, as the server has it now. */
export interface Known {
  readonly uid: string
  readonly resourceVersion: string
}

/** The request of a write. `known` is the object as it is, if it is there. */
export const toRequest = (write: Write, namespace: string, known: Known | undefined): KubeRequest.KubeRequest => {
  const { dryRun, name } = write
  const query = { dryRun: dryRun ? "All" : undefined }
  const seen = (value: Seen): Readonly<Record<string, unknown>> =>
    value === "none" ? {} : { resourceVersion: value === "current" ? (known?.resourceVersion ?? "1") : "1" }
  switch (write._tag) {
    case "create":
      return KubeRequest.make("create", types[write.sort], {
        namespace,
        query,
        body: body(
          write.sort,
          { name, labels: write.labels, finalizers: write.finalizers },
          specOf(write.sort, write.content)
        )
      })
    case "replace":
      return KubeRequest.make("update", types[write.sort], {
        namespace,
        name,
        query,
        body: body(
          write.sort,
          { name, labels: write.labels, finalizers: write.finalizers, ...seen(write.seen) },
          specOf(write.sort, write.content)
        )
      })
    case "patch":
      return KubeRequest.make("patch", types[write.sort], {
        namespace,
        name,
        query,
        patchType: "merge",
        body: {
          metadata: {
            labels: write.labels,
            ...(write.finalizers === undefined ? {} : { finalizers: write.finalizers }),
            ...seen(write.seen)
          }
        }
      })
    case "status":
      return KubeRequest.make("patch", types.trainjobs, {
        namespace,
        name,
        query,
        subresource: "status",
        patchType: "merge",
        body: {
          status: {
            conditions: [
              {
                type: "Suspended",
                status: "True",
                reason: write.status,
                message: "",
                lastTransitionTime: "2026-01-01T00:00:00Z"
              }
            ]
          }
        }
      })
    case "remove":
      return KubeRequest.make("delete", types[write.sort], {
        namespace,
        name,
        body: {
          apiVersion: "v1",
          kind: "DeleteOptions",
          propagationPolicy: "Background",
          ...(dryRun ? { dryRun: ["All"] } : {}),
          ...(write.uid === "none"
            ? {}
            : { preconditions: { uid: write.uid === "right" ? (known?.uid ?? "wrong") : "wrong" } })
        }
      })
  }
}

// ---- commands -------------------------------------------------------------------------------------------------------

const sort = fc.constantFrom<Sort>("configmaps", "trainjobs")
const name = fc.constantFrom("a", "b", "c")
const labels = fc.dictionary(fc.constantFrom("app", "tier"), fc.constantFrom("x", "y"), { maxKeys: 2 })
const finalizers = fc.subarray(["example.com/one", "example.com/two"])
const content = fc.constantFrom("1", "2", "3")
const seen = fc.constantFrom<Seen>("none", "current", "stale")
const dryRun = fc.boolean().map((yes) => yes)
const rarely = fc.integer({ min: 0, max: 6 }).map((dice) => dice === 6)

/** Writes that meet: few names, few labels. */
export const writes: fc.Arbitrary<Write> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      _tag: fc.constant("create" as const),
      sort,
      name,
      labels,
      finalizers,
      content,
      dryRun: rarely
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constant("replace" as const),
      sort,
      name,
      labels,
      finalizers,
      content,
      seen,
      dryRun: rarely
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constant("patch" as const),
      sort,
      name,
      labels: fc.dictionary(fc.constantFrom("app", "tier"), fc.constantFrom("x", "y", null), { maxKeys: 2 }),
      finalizers: fc.option(finalizers, { nil: undefined }),
      seen,
      dryRun: rarely
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      _tag: fc.constant("status" as const),
      name,
      status: fc.constantFrom("First", "Second"),
      dryRun
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constant("remove" as const),
      sort,
      name,
      uid: fc.constantFrom("none" as const, "right" as const, "wrong" as const),
      dryRun: rarely
    })
  }
)

/** A selector over the labels of `writes`. */
export const selectors: fc.Arbitrary<Selector.LabelSelector> = fc.constantFrom<Selector.LabelSelector>(
  [],
  [{ key: "app", operator: "in", values: ["x"] }],
  [{ key: "app", operator: "notIn", values: ["x"] }],
  [{ key: "tier", operator: "exists", values: [] }],
  [
    { key: "tier", operator: "notExists", values: [] },
    { key: "app", operator: "in", values: ["x", "y"] }
  ]
)

/** What runs beside the model: the store, or anything that answers like one. It throws where it differs. */
export interface System {
  /** Performs the write and compares the answer with the model's. */
  readonly write: (write: Write, model: Model, expected: Answer, after: Model) => void
  /** Lists with a page size and compares. */
  readonly list: (sort: Sort, selector: Selector.LabelSelector, limit: number, model: Model) => void
  /** Watches from a version and compares. */
  readonly watch: (sort: Sort, selector: Selector.LabelSelector, from: number, model: Model) => void
}

/** The model in a box, as fast-check's commands change it in place. */
export interface Box {
  model: Model
}

/** A command of fast-check's model-based testing. */
export type Command = fc.Command<Box, System>

const writeCommand = (given: Write): Command => ({
  check: () => true,
  run: (box, system) => {
    const [after, expected] = write(box.model, given)
    system.write(given, box.model, expected, after)
    box.model = after
  },
  toString: () => JSON.stringify(given)
})

const listCommand = (of: Sort, selector: Selector.LabelSelector, limit: number): Command => ({
  check: () => true,
  run: (box, system) => system.list(of, selector, limit, box.model),
  toString: () => `list ${of} ${Selector.formatLabels(selector) ?? ""} by ${limit}`
})

const watchCommand = (of: Sort, selector: Selector.LabelSelector, back: number): Command => ({
  check: () => true,
  run: (box, system) => system.watch(of, selector, Math.max(0, box.model.version - back), box.model),
  toString: () => `watch ${of} ${Selector.formatLabels(selector) ?? ""} from ${back} versions back`
})

/**
 * Sequences of commands for `fc.modelRun(() => ({ model: { model: Model.empty() }, real: system }), commands)`.
 */
export const commands = (maximum = 40): fc.Arbitrary<Iterable<Command>> =>
  fc.commands<Box, System>(
    [
      writes.map(writeCommand),
      writes.map(writeCommand),
      writes.map(writeCommand),
      fc
        .tuple(sort, selectors, fc.integer({ min: 1, max: 3 }))
        .map(([of, selector, limit]) => listCommand(of, selector, limit)),
      fc
        .tuple(sort, selectors, fc.integer({ min: 0, max: 20 }))
        .map(([of, selector, back]) => watchCommand(of, selector, back))
    ],
    { maxCommands: maximum }
  )
