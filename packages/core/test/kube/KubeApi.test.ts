import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { type KubeError, KubeExpired } from "@dispatch-kubeflow/core/kube/KubeError"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Stream } from "effect"

const scripted = (answer: (request: KubeRequest, count: number) => Effect.Effect<unknown, KubeError>) => {
  const requests: Array<KubeRequest> = []
  const transport: KubeTransport = {
    call: (request) =>
      Effect.suspend(() => {
        requests.push(request)
        return Effect.map(answer(request, requests.length), (body): KubeReply => ({ status: 200, body, warnings: [] }))
      }),
    watch: () =>
      Stream.fromIterable([
        { type: "BOOKMARK", object: { metadata: { resourceVersion: "9" }, spec: { containers: null } } } as const,
        { type: "ADDED", object: { metadata: { name: "p" }, spec: 5 } } as const
      ]),
    bytes: () => Stream.empty
  }
  return { api: KubeApi.make(transport), requests }
}
const pod = (name: string) => ({
  metadata: { name, namespace: "a", uid: `u-${name}`, resourceVersion: "1" },
  spec: { containers: [{ name: "node", env: [{ name: "A", value: "1" }] }] }
})
const page = (items: ReadonlyArray<unknown>, token?: string) => ({
  metadata: { resourceVersion: "7", ...(token === undefined ? {} : { continue: token }) },
  items
})

describe("KubeApi", () => {
  it.effect("lists in pages, all of one version", () =>
    Effect.gen(function* () {
      const { api, requests } = scripted((request) =>
        Effect.succeed(request.query["continue"] === "t" ? page([pod("q")]) : page([pod("p")], "t"))
      )
      const listed = yield* api.list(Core.pods, { namespace: "a" })
      expect(listed.items.map((it) => it.metadata.name)).toEqual(["p", "q"])
      expect(listed.resourceVersion).toBe("7")
      expect(requests.map((it) => it.query["limit"])).toEqual(["500", "500"])
    })
  )

  it.effect("I10: an expired page token starts the list over; a part is never the whole", () =>
    Effect.gen(function* () {
      const { api, requests } = scripted((request, count) =>
        request.query["continue"] === undefined
          ? Effect.succeed(page([pod(`p${count}`)], "t"))
          : count < 3
            ? Effect.fail(new KubeExpired({ request, continueToken: "inconsistent" }))
            : Effect.succeed(page([pod("q")]))
      )
      const listed = yield* api.list(Core.pods, { namespace: "a" })
      expect(listed.items.map((it) => it.metadata.name)).toEqual(["p3", "q"])
      expect(requests.map((it) => it.query["continue"])).toEqual([undefined, "t", undefined, "t"])
    })
  )

  it.effect("I10: a token that always expires ends in KubeExpired, not in a loop", () =>
    Effect.gen(function* () {
      const { api, requests } = scripted((request) =>
        request.query["continue"] === undefined
          ? Effect.succeed(page([pod("p")], "t"))
          : Effect.fail(new KubeExpired({ request }))
      )
      expect((yield* Effect.flip(api.list(Core.pods, { namespace: "a" })))._tag).toBe("KubeExpired")
      expect(requests).toHaveLength(8)
    })
  )

  it.effect("K20: a TrainJob without status, or with null where Go writes nil, decodes", () =>
    Effect.gen(function* () {
      const { api } = scripted(() =>
        Effect.succeed(
          page([
            { metadata: { name: "a", uid: "1" } },
            { metadata: { name: "b", uid: "2", labels: null }, spec: null, status: { conditions: null } }
          ])
        )
      )
      expect((yield* api.list(Trainer.trainJobs, { namespace: "a" })).items).toHaveLength(2)
    })
  )

  it.effect("tells what does not decode, and goes on; unknown fields are kept", () =>
    Effect.gen(function* () {
      const { api } = scripted(() => Effect.succeed(page([{ metadata: { name: "x" } }, pod("p")])))
      const listed = yield* api.list(Core.pods, { namespace: "a" })
      expect(listed.items).toEqual([pod("p")])
      expect(listed.undecodable).toMatchObject([{ name: "x", issue: expect.stringContaining("uid") }])
      const events = yield* Stream.runCollect(api.watch(Core.pods, { namespace: "a" }))
      expect([...events]).toMatchObject([
        { _tag: "Bookmark", resourceVersion: "9", initialEventsEnd: false },
        { _tag: "Undecodable", deleted: false, object: { name: "p" } }
      ])
    })
  )

  it.effect("read-only is a transport in which a write is a defect, before it leaves", () =>
    Effect.gen(function* () {
      const { api, requests } = scripted(() => Effect.succeed({ status: { allowed: true } }))
      const readOnly = KubeApi.transform(KubeApi.readOnly)(api)
      const removed = yield* Effect.exit(
        readOnly.remove(Core.pods, { namespace: "a", name: "p" }, { propagation: "Background" })
      )
      expect(Exit.isFailure(removed) && Cause.isDie(removed.cause)).toBe(true)
      expect(requests).toEqual([])
      expect(yield* readOnly.accessReview({ verb: "get", group: "", resource: "pods", subresource: "log" })).toEqual({
        allowed: true
      })
    })
  )

  it("requires a namespace exactly where the type is namespaced", () => {
    const { api } = scripted(() => Effect.succeed({}))
    // Never run: the compiler is the test
    const typed = () => [
      api.get(Core.pods, { namespace: "a", name: "p" }),
      // @ts-expect-error a pod needs its namespace
      api.get(Core.pods, { name: "p" }),
      api.get(Core.nodes, { name: "n" }),
      // @ts-expect-error a Node has none
      api.get(Core.nodes, { namespace: "a", name: "n" }),
      // @ts-expect-error all namespaces must be said out loud
      api.list(Core.pods, {}),
      api.list(Core.pods, { allNamespaces: true }),
      api.list(Core.nodes, {})
    ]
    const object: (it: Effect.Effect<Core.Pod, KubeError>) => void = () => undefined
    object(api.get(Core.pods, { namespace: "a", name: "p" }))
    expect(typed).toBeTypeOf("function")
  })
})
