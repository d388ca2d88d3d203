import * as EventLog from "../src/EventLog.js"
import * as Json from "../src/Json.js"
import * as Model from "../src/Model.js"
import { parameters } from "../src/Properties.js"
import * as Registry from "../src/Registry.js"
import * as Store from "../src/Store.js"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { describe, expect, it } from "@effect/vitest"
import { Either, FastCheck as fc } from "effect"

const namespace = "default"

/** An object of the store as the model has it. */
const entryOf = (sort: Model.Sort, object: unknown): Omit<Model.Entry, "incarnation"> => ({
  sort,
  name: Json.string(Json.at(object, "metadata", "name")) ?? "",
  version: Number(Json.string(Json.at(object, "metadata", "resourceVersion")) ?? "0"),
  generation: sort === "configmaps" ? 0 : (Json.number(Json.at(object, "metadata", "generation")) ?? 0),
  labels: Json.object(Json.at(object, "metadata", "labels")) as Record<string, string>,
  finalizers: Json.array(Json.at(object, "metadata", "finalizers")).map(Json.text),
  content:
    Json.string(
      sort === "configmaps"
        ? Json.at(object, "data", "k")
        : Json.at(
            Json.at(object, "spec", "runtimePatches", 0, "trainingRuntimeSpec"),
            "template",
            "metadata",
            "annotations",
            "content"
          )
    ) ?? "",
  status: Json.string(Json.at(object, "status", "conditions", 0, "reason")) ?? "",
  deleting: Json.at(object, "metadata", "deletionTimestamp") !== undefined
})

const plain = (entry: Model.Entry): Omit<Model.Entry, "incarnation"> => {
  const { incarnation: _, ...rest } = entry
  return { ...rest, generation: rest.sort === "configmaps" ? 0 : rest.generation }
}

const start = (): Store.State => {
  let uids = 0
  return Store.seed(
    Store.make(Registry.builtins, { resourceVersion: 100 }),
    [{ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } }],
    { now: 0, newUid: () => `seed-${(uids += 1)}`, suffix: () => "bcdfg" }
  ).state
}

/** The store as the system beside the model. */
const storeSystem = (): Model.System & { readonly state: () => Store.State } => {
  let state = start()
  let uids = 0
  const env: Store.Env = { now: 1_767_225_600_000, newUid: () => `uid-${(uids += 1)}`, suffix: () => "bcdfg" }
  return {
    state: () => state,
    write: (write, model, expected, after) => {
      const sort = write._tag === "status" ? "trainjobs" : write.sort
      const object = Store.get(state, Model.typeOf(sort), namespace, write.name)
      const known =
        object === undefined
          ? undefined
          : {
              uid: Json.string(Json.at(object, "metadata", "uid")) ?? "",
              resourceVersion: Json.string(Json.at(object, "metadata", "resourceVersion")) ?? ""
            }
      const outcome = Store.apply(state, Model.toRequest(write, namespace, known), env)
      state = outcome.state
      expect(Either.isRight(outcome.reply) ? outcome.reply.right.status : outcome.reply.left.code).toBe(expected.code)
      if (expected.entry !== undefined && Either.isRight(outcome.reply)) {
        expect(entryOf(sort, outcome.reply.right.body)).toEqual(plain(expected.entry))
      }
      expect(Store.resourceVersion(state)).toBe(after.version)
      if (after.version === model.version) expect(Store.resourceVersion(state)).toBe(model.version)
    },
    list: (sort, selector, limit, model) => {
      const items: Array<Omit<Model.Entry, "incarnation">> = []
      let token: string | undefined
      do {
        const { reply } = Store.apply(
          state,
          KubeRequest.make("list", Model.typeOf(sort), {
            namespace,
            query: { labelSelector: Selector.formatLabels(selector), limit: String(limit), continue: token }
          }),
          env
        )
        const body: unknown = Either.getOrThrowWith(reply, () => new Error("a list was refused")).body
        const page = Json.array(Json.at(body, "items"))
        expect(page.length).toBeLessThanOrEqual(limit)
        items.push(...page.map((item) => entryOf(sort, item)))
        token = Json.string(Json.at(body, "metadata", "continue"))
      } while (token !== undefined && token !== "")
      expect(items).toEqual(Model.list(model, sort, selector).map(plain))
    },
    watch: (sort, selector, from, model) => {
      const plan = Store.watch(
        state,
        KubeRequest.make("watch", Model.typeOf(sort), {
          namespace,
          query: { labelSelector: Selector.formatLabels(selector), resourceVersion: String(Math.max(from, 101)) }
        })
      )
      const { definition, from: cursor, selection } = Either.getOrThrowWith(plan, () => new Error("refused"))
      const told = EventLog.after(state.log, cursor, Registry.typeKey(definition)).flatMap((entry) => {
        const event = EventLog.told(entry, selection.matches)
        return event === undefined ? [] : [{ type: event.type, entry: entryOf(sort, event.object) }]
      })
      expect(told).toEqual(
        Model.watch(model, sort, Math.max(from, 101), selector).map(({ entry, type }) => ({
          type,
          entry: plain(entry)
        }))
      )
    }
  }
}

/** The objects that a log, replayed from zero, gives. */
const replay = (state: Store.State): ReadonlyMap<string, unknown> => {
  const objects = new Map<string, unknown>()
  for (const entry of EventLog.after(state.log, 0)) {
    const key = `${entry.resource} ${entry.key}`
    if (entry.type === "DELETED") objects.delete(key)
    else objects.set(key, entry.object)
  }
  return objects
}

describe("Model", () => {
  it("the store answers, lists and tells what the plain model does, whatever the commands", () => {
    fc.assert(
      fc.property(Model.commands(), (commands) => {
        const real = storeSystem()
        fc.modelRun(() => ({ model: { model: Model.empty(Store.resourceVersion(real.state())) }, real }), commands)
      }),
      parameters(300)
    )
  })

  it("replaying the event log from zero gives the objects", () => {
    fc.assert(
      fc.property(fc.array(Model.writes, { maxLength: 40 }), (writes) => {
        const real = storeSystem()
        let model = Model.empty(Store.resourceVersion(real.state()))
        for (const write of writes) {
          const [after, expected] = Model.write(model, write)
          real.write(write, model, expected, after)
          model = after
        }
        const state = real.state()
        const stored = new Map<string, unknown>()
        for (const plural of ["configmaps", "trainjobs"] as const) {
          for (const object of Store.list(state, Model.typeOf(plural), namespace)) {
            stored.set(
              `${Registry.typeKey(Model.typeOf(plural))} ${namespace}/${Json.text(Json.at(object, "metadata", "name"))}`,
              object
            )
          }
        }
        const replayed = new Map([...replay(state)].filter(([key]) => !key.startsWith("/namespaces ")))
        expect(replayed).toEqual(stored)
        // and the model's history, replayed to any version, is the store's exact list at that version
        const version = model.version - Math.min(5, model.history.length)
        const { reply } = Store.apply(
          state,
          KubeRequest.make("list", Model.typeOf("trainjobs"), {
            namespace,
            query: { resourceVersion: String(version), resourceVersionMatch: "Exact" }
          }),
          { now: 0, newUid: () => "", suffix: () => "" }
        )
        const body: unknown = Either.getOrThrowWith(reply, () => new Error("refused")).body
        expect(Json.array(Json.at(body, "items")).map((item) => entryOf("trainjobs", item))).toEqual(
          [...Model.at(model, version).values()]
            .filter(({ sort }) => sort === "trainjobs")
            .toSorted((a, b) => (a.name < b.name ? -1 : 1))
            .map(plain)
        )
      }),
      parameters(200)
    )
  })
})
