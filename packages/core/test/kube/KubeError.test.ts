import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"

const pods = { group: "", version: "v1", plural: "pods" }
const get = KubeRequest.make("get", pods, { namespace: "a", name: "p" })
const create = KubeRequest.make("create", pods, { namespace: "a" })
const log = KubeRequest.make("get", pods, { namespace: "a", name: "p", subresource: "log" })
const status = (message: string, rest: Partial<KubeError.Status> = {}): KubeError.Status => ({
  kind: "Status",
  message,
  ...rest
})

describe("KubeError.fromStatus", () => {
  // One row per shape that kube-apiserver 1.37 was seen to answer with
  it.each<[string, KubeRequest.KubeRequest, number, KubeError.Status | undefined, object]>([
    [
      "object missing",
      get,
      404,
      status('pods "p" not found', { details: { name: "p", kind: "pods" } }),
      { _tag: "KubeNotFound", subject: "object" }
    ],
    ["text/plain 404: the type is not served", get, 404, undefined, { _tag: "KubeNotFound", subject: "type" }],
    [
      "unknown resource of a built-in group",
      get,
      404,
      status("the server could not find the requested resource", { details: {} }),
      { _tag: "KubeNotFound", subject: "type" }
    ],
    [
      "POST into a missing namespace",
      KubeRequest.make("create", pods, { namespace: "x" }),
      404,
      status('namespaces "x" not found', { details: { name: "x", kind: "namespaces" } }),
      { _tag: "KubeNotFound", subject: "namespace" }
    ],
    [
      "log of a pod whose Node object is gone names the Node",
      log,
      404,
      status('pods "node-1" not found', { details: { name: "node-1", kind: "pods" } }),
      { _tag: "KubeNotFound", subject: "node" }
    ],
    [
      "a starting kubelet's 404 is not about the pod",
      log,
      404,
      status("the server could not find the requested resource ( pods/log p)", {
        details: { name: "p", kind: "pods/log" }
      }),
      { _tag: "KubeUnavailable", phase: "kubelet" }
    ],
    [
      "a kubelet's 401 is not about the caller",
      log,
      401,
      status("the server has asked for the client to provide credentials ( pods/log p)", {
        details: { name: "p", kind: "pods/log" }
      }),
      { _tag: "KubeUnavailable", phase: "kubelet" }
    ],
    ["401", get, 401, status("Unauthorized"), { _tag: "KubeUnauthorized" }],
    [
      "RBAC",
      get,
      403,
      status('pods "p" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "a"'),
      { _tag: "KubeForbidden" }
    ],
    [
      "a webhook's refusal is not missing permission",
      create,
      403,
      status('admission webhook "validator.example.com" denied the request: no'),
      { _tag: "KubeDenied", by: 'admission webhook "validator.example.com"' }
    ],
    [
      "a full quota is not missing permission",
      create,
      403,
      status('pods "p" is forbidden: exceeded quota: q, requested: pods=1'),
      { _tag: "KubeDenied", by: "admission" }
    ],
    [
      "a read is not admitted: whoever refuses it, it is a permission",
      get,
      403,
      status("Access denied by gateway"),
      { _tag: "KubeForbidden" }
    ],
    [
      "exists",
      get,
      409,
      status('pods "p" already exists', { reason: "AlreadyExists" }),
      { _tag: "KubeConflict", reason: "AlreadyExists" }
    ],
    ["stale", get, 409, status("modified", { reason: "Conflict" }), { _tag: "KubeConflict", reason: "Conflict" }],
    ["W05 410 Gone", get, 410, status("gone", { reason: "Gone" }), { _tag: "KubeExpired" }],
    [
      "I10 410 with a fresh continue token",
      get,
      410,
      status("expired", { reason: "Expired", metadata: { continue: "t" } }),
      { _tag: "KubeExpired", continueToken: "t" }
    ],
    [
      "a version of the future: list again",
      get,
      504,
      status("Timeout: Too large resource version: 9, current: 1", {
        details: { causes: [{ reason: "ResourceVersionTooLarge" }], retryAfterSeconds: 1 }
      }),
      { _tag: "KubeExpired" }
    ],
    ["429 text/plain", get, 429, undefined, { _tag: "KubeUnavailable", phase: "server", code: 429 }],
    [
      "503 with its own wish",
      get,
      503,
      status("x", { details: { retryAfterSeconds: 5 } }),
      { _tag: "KubeUnavailable", retryAfter: 5000 }
    ],
    ["500 without a reason", get, 500, status("boom"), { _tag: "KubeUnavailable", phase: "server" }],
    [
      "500 that blames the request",
      get,
      500,
      status("etcdserver: request is too large"),
      { _tag: "KubeInvalid", code: 500 }
    ],
    [
      "500 of an unreachable kubelet",
      log,
      500,
      status(
        'Get "https://10.0.0.1:10250/containerLogs/a/p/node": dial tcp 10.0.0.1:10250: connect: connection refused'
      ),
      { _tag: "KubeUnavailable", phase: "kubelet" }
    ],
    ["422", get, 422, status("invalid", { reason: "Invalid" }), { _tag: "KubeInvalid", code: 422 }]
  ])("%s", (_, request, code, body, expected) => {
    expect(KubeError.fromStatus(request, code, body)).toMatchObject(expected)
  })

  it("a 403 in other words than the authorizer's says that a proxy may have refused, and which verb it was", () => {
    const { message } = KubeError.fromStatus(get, 403, status("Access denied by gateway"))
    expect(message).toContain("Access denied by gateway")
    expect(message).toMatch(/proxy or gateway.*verb "get" on "pods"/)
    const own = KubeError.fromStatus(get, 403, status('pods "p" is forbidden: User "u" cannot get resource "pods"'))
    expect(own.message).not.toContain("proxy")
  })

  it("never repeats credentials that the server echoes", () => {
    const echoed = status("denied: authorization: Bearer s3cret-token, x: Basic dXNlcjpwYXNz", { reason: "Forbidden" })
    const { message } = KubeError.fromStatus(get, 403, echoed)
    expect(message).toContain("denied: authorization: Bearer (not shown)")
    expect(message).not.toMatch(/s3cret|dXNlcjpwYXNz/)
  })

  it("keeps the Retry-After header before the body's wish", () => {
    const error = KubeError.fromStatus(get, 429, status("x", { details: { retryAfterSeconds: 5 } }), 2000)
    expect(error).toMatchObject({ retryAfter: 2000 })
  })

  it("a message says what was asked and what to do, and never holds the body or a repeated object", () => {
    const request = { ...KubeRequest.make("create", pods, { namespace: "a" }), body: { env: "s3cret" } }
    const error = KubeError.fromStatus(
      request,
      422,
      status(
        'Pod "p" is invalid: patch: Invalid value: "{"spec":{"env":[{"value":"s3cret"}]}}": json: cannot unmarshal'
      )
    )
    expect(error.message).toContain('cannot create pods in namespace "a"')
    expect(error.message).toContain("cannot unmarshal")
    expect(error.message).not.toContain("s3cret")
    expect(JSON.stringify(error.request)).not.toContain("s3cret")
  })
})
