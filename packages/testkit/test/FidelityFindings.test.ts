import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import * as Rbac from "../src/Rbac.js"

// What the differential checker found: each answer is that of kube-apiserver 1.37.2

const configMaps = { group: "", version: "v1", plural: "configmaps" }
const pods = { group: "", version: "v1", plural: "pods" }
const jobs = { group: "batch", version: "v1", plural: "jobs" }
const trainJobs = { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }
const namespace = "default"

const configMap = (name: string, more: object = {}) =>
  KubeRequest.make("create", configMaps, { namespace, body: { metadata: { name }, data: { k: "1" }, ...more } })

const pod = (name: string, spec: object = {}, metadata: object = {}) =>
  KubeRequest.make("create", pods, {
    namespace,
    body: { metadata: { name, ...metadata }, spec: { containers: [{ name: "node", image: "busybox:1" }], ...spec } }
  })

const job = (name: string, spec: object = {}) =>
  KubeRequest.make("create", jobs, {
    namespace,
    body: {
      metadata: { name, labels: { a: "x" } },
      spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "n", image: "i:1" }] } }, ...spec }
    }
  })

const trainJob = (name: string, metadata: object = {}) =>
  KubeRequest.make("create", trainJobs, {
    namespace,
    body: {
      apiVersion: "trainer.kubeflow.org/v1alpha1",
      kind: "TrainJob",
      metadata: { name, ...metadata },
      spec: { runtimeRef: { name: "torch-distributed" } }
    }
  })

const patch = (
  type: KubeRequest.ResourceType,
  name: string,
  patchType: KubeRequest.PatchType,
  body: unknown,
  query: Readonly<Record<string, string>> = {}
) => KubeRequest.make("patch", type, { namespace, name, patchType, body, query })

/** Performs the requests; the answer to the last. */
const last = (...requests: ReadonlyArray<KubeRequest.KubeRequest>) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.make()
    let answer: unknown
    for (const request of requests) {
      const result = yield* Effect.either(cluster.transport(Rbac.admin).call(request))
      answer = Either.isLeft(result)
        ? { code: result.left.status?.code, message: result.left.status?.message }
        : result.right
    }
    return answer
  })

const refused = (code: number, message: string) => ({ code, message })

describe("what the differential checker found", () => {
  it.effect("an immutable ConfigMap keeps its data and stays immutable", () =>
    Effect.gen(function* () {
      const immutable = configMap("a", { immutable: true })
      const text = "Forbidden: field is immutable when `immutable` is set"
      expect(yield* last(immutable, patch(configMaps, "a", "merge", { data: { k: "2" } }))).toEqual(
        refused(422, `ConfigMap "a" is invalid: data: ${text}`)
      )
      expect(yield* last(immutable, patch(configMaps, "a", "merge", { immutable: null }))).toEqual(
        refused(422, `ConfigMap "a" is invalid: immutable: ${text}`)
      )
    })
  )

  it.effect("containers of a pod can be neither added nor removed", () =>
    Effect.gen(function* () {
      const two = [
        { name: "node", image: "busybox:1" },
        { name: "side", image: "busybox:1" }
      ]
      expect(yield* last(pod("p"), patch(pods, "p", "merge", { spec: { containers: two } }))).toEqual(
        refused(422, 'Pod "p" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers')
      )
    })
  )

  it.effect("a JSON patch may replace what is not there, but not below what is not there", () =>
    Effect.gen(function* () {
      const replace = (path: string) => patch(configMaps, "a", "json", [{ op: "replace", path, value: "x" }])
      expect(yield* last(configMap("a"), replace("/data/new"))).toMatchObject({ body: { data: { k: "1", new: "x" } } })
      expect(yield* last(configMap("a"), replace("/metadata/labels/new"))).toMatchObject({ code: 422 })
      expect(yield* last(configMap("a"), patch(configMaps, "a", "json", ["x"]))).toEqual(
        refused(400, "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp")
      )
    })
  )

  it.effect("all wrong options are told at once, and after a selector that cannot be read", () =>
    Effect.gen(function* () {
      const list = (query: Readonly<Record<string, string>>) =>
        last(KubeRequest.make("list", configMaps, { namespace, query }))
      expect(yield* list({ resourceVersionMatch: "Exact", sendInitialEvents: "true" })).toEqual(
        refused(
          422,
          'ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]'
        )
      )
      expect(yield* list({ resourceVersionMatch: "Exact", labelSelector: "a in (x y)" })).toEqual(
        refused(400, "unable to parse requirement: found 'y', expected: ',' or ')'")
      )
      expect(yield* list({ labelSelector: "=x" })).toEqual(
        refused(400, "found '=', expected: !, identifier, or 'end of string'")
      )
      expect(yield* list({ fieldSelector: "a=b=c" })).toEqual(
        refused(400, "invalid field selector: unescaped character in value: 61")
      )
    })
  )

  it.effect("a page that is full has a token when anything is left, whether it matches or not", () =>
    Effect.gen(function* () {
      const query = { labelSelector: "a=x", limit: "1" }
      const labelled = configMap("a", { metadata: { name: "a", labels: { a: "x" } } })
      const answer = yield* last(labelled, configMap("b"), KubeRequest.make("list", configMaps, { namespace, query }))
      expect(Json.string(Json.at(Json.at(answer, "body"), "metadata", "continue"))).toMatch(/^ey/)
      const alone = yield* last(labelled, KubeRequest.make("list", configMaps, { namespace, query }))
      expect(Json.at(Json.at(alone, "body"), "metadata", "continue")).toBeUndefined()
    })
  )

  it.effect("a Job must repeat its selector when it is replaced, and shows its template's labels as its own", () =>
    Effect.gen(function* () {
      const { body } = job("j")
      expect(yield* last(job("j"), KubeRequest.make("update", jobs, { namespace, name: "j", body }))).toMatchObject({
        code: 422,
        message: expect.stringContaining(
          "spec.selector: Required value, spec.template.metadata.labels: Invalid value: null"
        )
      })
      const answer = yield* last(job("j"), patch(jobs, "j", "merge", { metadata: { labels: null } }))
      expect(Json.at(Json.at(answer, "body"), "metadata", "labels", "batch.kubernetes.io/job-name")).toBe("j")
      expect(yield* last(job("j"), patch(jobs, "j", "merge", { spec: { parallelism: -1 } }))).toEqual(
        refused(
          422,
          'Job.batch "j" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal to 0'
        )
      )
    })
  )

  it.effect("a custom resource may have a finalizer without a domain, with a warning; a built-in type may not", () =>
    Effect.gen(function* () {
      expect(yield* last(trainJob("t", { finalizers: ["nodomain"] }))).toMatchObject({
        status: 201,
        warnings: [
          'metadata.finalizers: "nodomain": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers'
        ]
      })
      expect(yield* last(pod("p", {}, { finalizers: ["nodomain"] }))).toMatchObject({ code: 422 })
    })
  )

  it.effect("a name that is taken or a version that is stale is told before the wrong kind of a custom resource", () =>
    Effect.gen(function* () {
      const { body } = trainJob("t")
      const foo = { ...(body as object), kind: "Foo" }
      expect(yield* last(trainJob("t"), KubeRequest.make("create", trainJobs, { namespace, body: foo }))).toEqual(
        refused(409, 'trainjobs.trainer.kubeflow.org "t" already exists')
      )
      const stale = { ...foo, metadata: { name: "t", resourceVersion: "1" } }
      expect(
        yield* last(trainJob("t"), KubeRequest.make("update", trainJobs, { namespace, name: "t", body: stale }))
      ).toMatchObject({ code: 409 })
    })
  )

  it.effect("a dry run of a delete answers with the version that the object has", () =>
    Effect.gen(function* () {
      const dry = KubeRequest.make("delete", pods, { namespace, name: "p", query: { dryRun: "All" } })
      const created = yield* last(pod("p"))
      const answer = yield* last(pod("p"), dry)
      expect(Json.at(Json.at(answer, "body"), "metadata", "deletionTimestamp")).toBeDefined()
      expect(Json.at(Json.at(answer, "body"), "metadata", "resourceVersion")).toBe(
        Json.at(Json.at(created, "body"), "metadata", "resourceVersion")
      )
    })
  )

  it.effect("the quality of service survives a write of the status, the phase does not", () =>
    Effect.gen(function* () {
      const status = KubeRequest.make("update", pods, {
        namespace,
        name: "p",
        subresource: "status",
        body: { metadata: { name: "p" }, spec: {}, status: { message: "m" } }
      })
      const answer = yield* last(pod("p"), status)
      expect(Json.at(Json.at(answer, "body"), "status")).toEqual({ message: "m", qosClass: "BestEffort" })
    })
  )

  it.effect("an apply that would create needs the permission to create", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make({
        objects: [
          {
            apiVersion: "rbac.authorization.k8s.io/v1",
            kind: "Role",
            metadata: { name: "r", namespace },
            rules: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["patch"] }]
          },
          {
            apiVersion: "rbac.authorization.k8s.io/v1",
            kind: "RoleBinding",
            metadata: { name: "r", namespace },
            roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "r" },
            subjects: [{ kind: "ServiceAccount", name: "s", namespace }]
          }
        ]
      })
      const apply = patch(
        configMaps,
        "a",
        "apply",
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
        { fieldManager: "m" }
      )
      const error = yield* Effect.flip(cluster.transport(Rbac.serviceAccount(namespace, "s")).call(apply))
      expect(error.status?.message).toBe(
        'configmaps "a" is forbidden: User "system:serviceaccount:default:s" cannot create resource "configmaps" in API group "" in the namespace "default"'
      )
      yield* cluster.transport(Rbac.admin).call(apply)
      yield* cluster.transport(Rbac.serviceAccount(namespace, "s")).call(apply)
    })
  )

  it.effect("a conflict of field managers is told before a wrong name and a stale version", () =>
    Effect.gen(function* () {
      const apply = (metadata: object) =>
        patch(
          configMaps,
          "a",
          "apply",
          { apiVersion: "v1", kind: "ConfigMap", metadata, data: { k: "2" } },
          { fieldManager: "m" }
        )
      for (const metadata of [{ name: "other" }, { name: "a", resourceVersion: "1" }]) {
        expect(yield* last(configMap("a"), apply(metadata))).toMatchObject({
          code: 409,
          message: expect.stringMatching(/^Apply failed with 1 conflict/)
        })
      }
      expect(
        yield* last(
          patch(configMaps, "a", "apply", { apiVersion: "v1", kind: "ConfigMap", bogus: 1 }, { fieldManager: "m" })
        )
      ).toEqual(
        refused(
          500,
          "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema"
        )
      )
    })
  )
})
