import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { parameters } from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"

const segment = fc.oneof(
  fc.stringMatching(/^[a-z][a-z0-9.-]{0,20}$/),
  fc.string({ minLength: 1, maxLength: 8 }).filter((it) => it !== "." && it !== "..")
)

const request = fc
  .record({
    verb: fc.constantFrom<KubeRequest.Verb>("get", "list", "watch", "create", "update", "patch", "delete"),
    type: fc.constantFrom(
      { group: "", version: "v1", plural: "pods" },
      { group: "", version: "v1", plural: "nodes" },
      { group: "batch", version: "v1", plural: "jobs" },
      { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }
    ),
    namespace: fc.option(segment, { nil: undefined }),
    name: segment,
    subresource: fc.option(fc.constantFrom("log", "status", "eviction"), { nil: undefined }),
    query: fc.dictionary(
      fc.stringMatching(/^[a-zA-Z]{1,10}$/).filter((it) => it !== "watch"),
      fc.string()
    ),
    body: fc.option(fc.dictionary(fc.string(), fc.string()), { nil: undefined }),
    patchType: fc.constantFrom<KubeRequest.PatchType>("merge", "json", "strategic", "apply")
  })
  .map(({ verb, type, namespace, name, subresource, query, body, patchType }) => {
    const named = verb !== "list" && verb !== "watch" && verb !== "create"
    return KubeRequest.make(verb, type, {
      namespace,
      name: named ? name : undefined,
      subresource: named ? subresource : undefined,
      query,
      body,
      patchType: verb === "patch" ? patchType : undefined
    })
  })

describe("KubeRequest", () => {
  it("is read back from its own method, path, query and content type", () => {
    fc.assert(
      fc.property(request, (it) => {
        expect(
          KubeRequest.fromHttp({
            method: KubeRequest.method(it),
            path: KubeRequest.path(it),
            query: KubeRequest.queryPairs(it),
            contentType: KubeRequest.contentType(it),
            body: it.body
          })
        ).toEqual(it)
      }),
      parameters(500)
    )
  })

  it("a namespace is a cluster-scoped object, and what follows its name is a collection inside it", () => {
    const at = (path: string) => KubeRequest.fromHttp({ method: "GET", path, query: [] })
    expect(at("/api/v1/namespaces/a")).toMatchObject({ verb: "get", plural: "namespaces", name: "a" })
    expect(at("/api/v1/namespaces/a/status")).toMatchObject({ plural: "namespaces", name: "a", subresource: "status" })
    expect(at("/api/v1/namespaces/a/pods")).toMatchObject({ verb: "list", plural: "pods", namespace: "a" })
    expect(at("/api/v1/namespaces/a/pods/p/log")).toMatchObject({ verb: "get", name: "p", subresource: "log" })
    expect(at("/apis")).toMatchObject({ verb: "get", nonResourcePath: "/apis" })
    expect(at("/apis/batch/v1")).toMatchObject({ nonResourcePath: "/apis/batch/v1" })
    expect(at("/api/v1/namespaces/%ZZ/pods")).toBeUndefined()
  })

  it("watch is any value but 0 and false, as the API server reads it", () => {
    const verb = (value: string) =>
      KubeRequest.fromHttp({ method: "GET", path: "/api/v1/pods", query: [["watch", value]] })?.verb
    expect(["1", "true", "maybe", "0", "false"].map(verb)).toEqual(["watch", "watch", "watch", "list", "list"])
  })

  it("a review is no write, a dry run is one", () => {
    const review = { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectaccessreviews" }
    expect(KubeRequest.isWrite(KubeRequest.make("create", review))).toBe(false)
    const dryRun = KubeRequest.make(
      "create",
      { group: "", version: "v1", plural: "pods" },
      { query: { dryRun: "All" } }
    )
    expect(KubeRequest.isWrite(dryRun)).toBe(true)
    expect(KubeRequest.withoutBody({ ...dryRun, body: { token: "x" } })).not.toHaveProperty("body")
  })
})
