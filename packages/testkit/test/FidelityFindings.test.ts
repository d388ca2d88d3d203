import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Option, TestClock } from "effect"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import * as Rbac from "../src/Rbac.js"
import * as Registry from "../src/Registry.js"
import type * as Store from "../src/Store.js"

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

const perform = (options: Cluster.Options, requests: ReadonlyArray<KubeRequest.KubeRequest>) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.make(options)
    let answer: unknown
    for (const request of requests) {
      const result = yield* Effect.either(cluster.transport(Rbac.admin).call(request))
      answer = Either.isLeft(result)
        ? { code: result.left.status?.code, message: result.left.status?.message }
        : result.right
    }
    return answer
  })

/** Performs the requests; the answer to the last. */
const last = (...requests: ReadonlyArray<KubeRequest.KubeRequest>) => perform({}, requests)

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

  it.effect(
    "the wrong kind of a custom resource: told before a name that is taken, after a version that is stale",
    () =>
      Effect.gen(function* () {
        const { body } = trainJob("t")
        const foo = { ...(body as object), kind: "Foo" }
        const isNot = 'kind: Invalid value: "Foo": must be TrainJob'
        expect(yield* last(trainJob("t"), KubeRequest.make("create", trainJobs, { namespace, body: foo }))).toEqual(
          refused(422, `Foo.trainer.kubeflow.org "t" is invalid: ${isNot}`)
        )
        // Kueue's webhook writes an object as the kind that it knows, and then there are defaults
        const kueue = [
          {
            name: "mtrainjob.kb.io",
            admit: ({ object }: Store.Review) => Either.right({ ...object, kind: "TrainJob" })
          }
        ]
        expect(
          yield* perform({ admission: kueue }, [KubeRequest.make("create", trainJobs, { namespace, body: foo })])
        ).toMatchObject({ body: { kind: "TrainJob", spec: { runtimeRef: { kind: "ClusterTrainingRuntime" } } } })
        const put = (body: unknown) => KubeRequest.make("update", trainJobs, { namespace, name: "t", body })
        expect(
          yield* last(trainJob("t"), put({ ...foo, metadata: { name: "t", resourceVersion: "1" } }))
        ).toMatchObject({ code: 409 })
        // There are no defaults for another kind, so that the reference is another one
        const created = yield* last(trainJob("t"))
        const resourceVersion = Json.at(Json.at(created, "body"), "metadata", "resourceVersion")
        expect(yield* last(trainJob("t"), put({ ...foo, metadata: { name: "t", resourceVersion } }))).toEqual(
          refused(
            422,
            `Foo.trainer.kubeflow.org "t" is invalid: [${isNot}, spec.runtimeRef: Invalid value: field is immutable]`
          )
        )
      })
  )

  it.effect("a mutating webhook is asked before versions are compared, a validating one after names are", () =>
    Effect.gen(function* () {
      const admission = [
        {
          name: "m.example.com",
          admit: ({ object }: Store.Review) =>
            Json.at(object, "data", "k") === "m" ? Either.left({ message: "mutating" }) : undefined
        },
        {
          name: "v.example.com",
          phase: "validating" as const,
          admit: ({ object }: Store.Review) =>
            Json.at(object, "data", "k") === "v" ? Either.left({ message: "validating" }) : undefined
        }
      ]
      const put = (k: string, resourceVersion: string) =>
        KubeRequest.make("update", configMaps, {
          namespace,
          name: "c",
          body: { metadata: { name: "c", resourceVersion }, data: { k } }
        })
      const answers = (request: KubeRequest.KubeRequest) => perform({ admission }, [configMap("c"), request])
      expect(yield* answers(put("m", "1"))).toMatchObject({ code: 403 })
      expect(yield* answers(put("v", "1"))).toMatchObject({ code: 409 })
      expect(yield* answers(put("v", ""))).toMatchObject({ code: 403 })
      expect(yield* answers(configMap("c", { data: { k: "v" } }))).toMatchObject({ code: 403 })
      expect(yield* answers(configMap("BAD", { data: { k: "v" } }))).toMatchObject({ code: 422 })
      expect(yield* answers(configMap("BAD", { data: { k: "m" } }))).toMatchObject({ code: 403 })
    })
  )

  it.effect("the time of a deletion cannot be set, and stays as it is once there is one", () =>
    Effect.gen(function* () {
      const set = patch(pods, "p", "merge", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })
      expect(yield* last(pod("p"), set)).toEqual(
        refused(
          422,
          'Pod "p" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable'
        )
      )
      const remove = KubeRequest.make("delete", pods, { namespace, name: "p" })
      const held = pod("p", {}, { finalizers: ["example.com/hold"] })
      const deleted = Json.at(yield* last(held, remove), "body", "metadata", "deletionTimestamp")
      expect(Json.at(yield* last(held, remove, set), "body", "metadata", "deletionTimestamp")).toEqual(deleted)
    })
  )

  it.effect("of the metadata of a custom resource that is updated finalizers are told once, all else three times", () =>
    Effect.gen(function* () {
      const bad = patch(trainJobs, "t", "merge", {
        metadata: { labels: { "a b": "c" }, finalizers: ["bad domain/x"] }
      })
      const answer = yield* Effect.flatMap(Cluster.make(), (cluster) =>
        Effect.zipRight(
          cluster.transport(Rbac.admin).call(trainJob("t")),
          Effect.flip(cluster.transport(Rbac.admin).call(bad))
        )
      )
      expect(answer.status?.details?.causes?.map(({ field }) => field)).toEqual([
        "metadata.labels",
        "metadata.finalizers",
        "metadata.labels",
        "metadata.labels"
      ])
    })
  )

  it.effect("what is wrong with metadata is told before what may not change of it", () =>
    Effect.gen(function* () {
      const held = configMap("c", { metadata: { name: "c", finalizers: ["example.com/hold"] } })
      const remove = KubeRequest.make("delete", configMaps, { namespace, name: "c" })
      const change = patch(configMaps, "c", "merge", {
        metadata: { uid: "zz", labels: { "a b": "c" }, finalizers: ["example.com/hold", "bad domain/x", "nodomain"] }
      })
      const text = Json.text(Json.at(yield* last(held, remove, change), "message"))
      const order = [
        "metadata.labels: Invalid",
        "metadata.finalizers: Invalid",
        "metadata.finalizers: Forbidden",
        "metadata.uid: ",
        "metadata.finalizers[2]: "
      ]
      expect(order.map((part) => text.indexOf(part))).toEqual(
        order.map((part) => text.indexOf(part)).toSorted((a, b) => a - b)
      )
      expect(order.every((part) => text.includes(part))).toBe(true)
    })
  )

  it.effect("a page of one name at a version of the future is refused at once, by the storage", () =>
    Effect.gen(function* () {
      const list = (query: Readonly<Record<string, string>>) =>
        Effect.gen(function* () {
          const cluster = yield* Cluster.make()
          const call = cluster
            .transport(Rbac.admin)
            .call(KubeRequest.make("list", pods, { namespace, query: { resourceVersion: "999", ...query } }))
          const fiber = yield* Effect.fork(Effect.flip(call))
          yield* TestClock.adjust("1 second")
          const soon = yield* Fiber.poll(fiber)
          yield* TestClock.adjust("2 seconds")
          const { status } = yield* Fiber.join(fiber)
          return { soon: Option.isSome(soon), retryAfterSeconds: status?.details?.retryAfterSeconds }
        })
      const page = { fieldSelector: "metadata.name=p", limit: "2" }
      expect(yield* list(page)).toEqual({ soon: true, retryAfterSeconds: undefined })
      expect(yield* list({ limit: "2" })).toEqual({ soon: false, retryAfterSeconds: 1 })
      expect(yield* list({ fieldSelector: "metadata.name=p" })).toEqual({ soon: false, retryAfterSeconds: 1 })
    })
  )

  it.effect("a version in a new object: refused by the storage, echoed by a dry run", () =>
    Effect.gen(function* () {
      const versioned = (name: string, resourceVersion: string, query: Readonly<Record<string, string>> = {}) =>
        KubeRequest.make("create", configMaps, { namespace, body: { metadata: { name, resourceVersion } }, query })
      const dry = { dryRun: "All" }
      const isSet = refused(500, "resourceVersion should not be set on objects to be created")
      const taken = refused(409, 'configmaps "c" already exists')
      expect(yield* last(configMap("c"), versioned("c", "5"))).toEqual(isSet)
      expect(yield* last(configMap("c"), versioned("c", "5", dry))).toEqual(taken)
      expect(yield* last(configMap("c"), versioned("d", "5"))).toEqual(isSet)
      expect(yield* last(configMap("c"), versioned("d", "x"))).toMatchObject({ body: { metadata: { name: "d" } } })
      expect(yield* last(configMap("c"), versioned("d", "5", dry))).toMatchObject({
        body: { metadata: { resourceVersion: "5" } }
      })
    })
  )

  it.effect("an object where a custom resource has a scalar: its members are unknown fields", () =>
    Effect.gen(function* () {
      const suspend = patch(trainJobs, "t", "json", [{ op: "add", path: "/spec/suspend", value: { a: "q" } }], {
        fieldValidation: "Strict"
      })
      const answer = yield* last(trainJob("t"), suspend)
      expect(answer).toMatchObject({ code: 422 })
      expect(Json.text(Json.at(answer, "message"))).toMatch(/: strict decoding error: unknown field "spec.suspend.a"$/)
    })
  )

  it.effect("schema and rules of a custom resource are told together, unless the schema finds a hole", () =>
    Effect.gen(function* () {
      const post = (spec: object) =>
        KubeRequest.make("create", trainJobs, {
          namespace,
          body: {
            apiVersion: "trainer.kubeflow.org/v1alpha1",
            kind: "TrainJob",
            metadata: { name: "t" },
            spec: { runtimeRef: { name: "r" }, managedBy: "bogus", activeDeadlineSeconds: 0, ...spec }
          }
        })
      const isSmall =
        "spec.activeDeadlineSeconds: Invalid value: 0: spec.activeDeadlineSeconds in body should be greater than or equal to 1"
      const managedBy =
        'spec.managedBy: Invalid value: "bogus": ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set'
      const hole =
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
      const isInvalid = 'TrainJob.trainer.kubeflow.org "t" is invalid: '
      expect(yield* last(post({}))).toEqual(refused(422, `${isInvalid}[${isSmall}, ${managedBy}]`))
      expect(yield* last(post({ runtimePatches: [{}] }))).toEqual(
        refused(422, `${isInvalid}[spec.runtimePatches[0].manager: Required value, ${isSmall}, ${hole}]`)
      )
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

  it.effect("fields that a type does not have are dropped with a warning, refused when validation is strict", () =>
    Effect.gen(function* () {
      const create = (query: Readonly<Record<string, string>>) =>
        KubeRequest.make("create", pods, {
          namespace,
          query,
          body: {
            apiVersion: "v1",
            kind: "Pod",
            zeta: 1,
            metadata: { name: "p", zz: 1 },
            spec: { foo: 1, containers: [{ name: "n", image: "i:1", zed: 3, ports: [{ containerPort: 3, q: 1 }] }] }
          }
        })
      const unknown = ["zeta", "metadata.zz", "spec.foo", "spec.containers[0].zed", "spec.containers[0].ports[0].q"]
      const texts = unknown.map((path) => `unknown field "${path}"`)
      const answer = yield* last(create({}))
      expect(answer).toMatchObject({ status: 201, warnings: texts })
      expect(JSON.stringify(answer)).not.toMatch(/zeta":|"zz":|"foo":|"zed":|"q":/)
      expect(yield* last(create({ fieldValidation: "Strict" }))).toEqual(
        refused(400, `Pod in version "v1" cannot be handled as a Pod: strict decoding error: ${texts.join(", ")}`)
      )
      expect(yield* last(create({ fieldValidation: "Ignore" }))).toMatchObject({ status: 201, warnings: [] })
    })
  )

  it.effect("of a custom resource the metadata is told first, then everything in order", () =>
    Effect.gen(function* () {
      const create = KubeRequest.make("create", trainJobs, {
        namespace,
        body: {
          apiVersion: "trainer.kubeflow.org/v1alpha1",
          kind: "TrainJob",
          zeta: 1,
          bogus: 1,
          metadata: { name: "t", zz: 1, aa: 2 },
          spec: {
            zig: 3,
            runtimeRef: { name: "torch-distributed", zap: 1 },
            trainer: { env: [{ name: "a", value: "b", boo: 1 }], abc: 1 }
          },
          status: { x: 1 }
        }
      })
      expect(yield* last(create)).toMatchObject({
        warnings: [
          "metadata.aa",
          "metadata.zz",
          "bogus",
          "spec.runtimeRef.zap",
          "spec.trainer.abc",
          "spec.trainer.env[0].boo",
          "spec.zig",
          "status.x",
          "zeta"
        ].map((path) => `unknown field "${path}"`)
      })
    })
  )

  it.effect("a patch to a field that there is not is a warning, or a 422 about the patch", () =>
    Effect.gen(function* () {
      const strange = { bogus: 1, metadata: { zz: 1 } }
      expect(yield* last(configMap("a"), patch(configMaps, "a", "merge", strange))).toMatchObject({
        status: 200,
        warnings: ['unknown field "bogus"', 'unknown field "metadata.zz"']
      })
      expect(
        yield* last(configMap("a"), patch(configMaps, "a", "strategic", strange, { fieldValidation: "Strict" }))
      ).toMatchObject({
        code: 422,
        message: expect.stringMatching(/^ "" is invalid: patch: .*strict decoding error: unknown field "bogus", /)
      })
      expect(
        yield* last(
          configMap("a"),
          patch(configMaps, "a", "json", [{ op: "add", path: "/data/z", value: "1", note: 2 }])
        )
      ).toMatchObject({ status: 200, warnings: ['json patch unknown field "[0].note"'] })
    })
  )

  it.effect("members that a body names twice are warned about", () =>
    Effect.gen(function* () {
      const create = (query: Readonly<Record<string, string>>) =>
        KubeRequest.make("create", configMaps, {
          namespace,
          query,
          body: '{"metadata":{"name":"d","name":"d"},"data":{"a":"1","a":"2"},"bogus":[{"x":"\\"{","x":1}]}'
        })
      const texts = [
        'duplicate field "metadata.name"',
        'duplicate field "data.a"',
        'duplicate field "bogus[0].x"',
        'unknown field "bogus"'
      ]
      expect(yield* last(create({}))).toMatchObject({ status: 201, body: { data: { a: "2" } }, warnings: texts })
      expect(yield* last(create({ fieldValidation: "Strict" }))).toEqual(
        refused(
          400,
          `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: ${texts.join(", ")}`
        )
      )
    })
  )

  it.effect("an apply of a field that there is not is refused, however deep, with the keys of the list", () =>
    Effect.gen(function* () {
      const apply = patch(
        pods,
        "p",
        "apply",
        {
          apiVersion: "v1",
          kind: "Pod",
          spec: { containers: [{ name: "n", zed: 1, env: [{ name: "A", b: 1 }] }], tolerations: [{ kk: 1 }], zip: 1 }
        },
        { fieldManager: "m" }
      )
      const paths = [
        '.spec.containers[name="n"].env[name="A"].b',
        '.spec.containers[name="n"].zed',
        ".spec.tolerations[0].kk",
        ".spec.zip"
      ]
      expect(yield* last(pod("p"), apply)).toEqual(
        refused(
          500,
          `failed to create typed patch object (/; /v1, Kind=Pod): errors:\n${paths
            .map((path) => `  ${path}: field not declared in schema`)
            .join("\n")}`
        )
      )
    })
  )

  it.effect("a conflict names the subresource that the other manager applied to", () =>
    Effect.gen(function* () {
      const apply = (manager: string, reason: string) =>
        KubeRequest.make("patch", trainJobs, {
          namespace,
          name: "t",
          subresource: "status",
          patchType: "apply",
          query: { fieldManager: manager },
          body: {
            apiVersion: "trainer.kubeflow.org/v1alpha1",
            kind: "TrainJob",
            metadata: { name: "t" },
            status: {
              conditions: [
                { type: "Suspended", status: "True", reason, message: "", lastTransitionTime: "2026-01-01T00:00:00Z" }
              ]
            }
          }
        })
      expect(yield* last(trainJob("t"), apply("one", "A"), apply("two", "B"))).toEqual(
        refused(
          409,
          'Apply failed with 1 conflict: conflict with "one" with subresource "status": .status.conditions[type="Suspended"].reason'
        )
      )
    })
  )

  it.effect("counters of a Job's status cannot go back, and no more pods are ready than active", () =>
    Effect.gen(function* () {
      const status = (value: object) =>
        KubeRequest.make("patch", jobs, {
          namespace,
          name: "j",
          subresource: "status",
          patchType: "merge",
          body: { status: value }
        })
      expect(
        yield* last(job("j"), status({ failed: 1, succeeded: 2 }), status({ failed: 0, active: -1, ready: 9 }))
      ).toEqual(
        refused(
          422,
          'Job.batch "j" is invalid: [status.active: Invalid value: -1: must be greater than or equal to 0, status.ready: Invalid value: 9: cannot set more ready pods than active, status.failed: Invalid value: 0: cannot decrease the failed counter]'
        )
      )
      expect(yield* last(job("j"), status({ active: -1 }))).toEqual(
        refused(422, 'Job.batch "j" is invalid: status.active: Invalid value: -1: must be greater than or equal to 0')
      )
    })
  )

  it.effect("a version on a new object is the storage's objection, after what is wrong with the object", () =>
    Effect.gen(function* () {
      const pod = (name: string) =>
        KubeRequest.make("create", pods, {
          namespace,
          body: {
            apiVersion: "v1",
            kind: "Pod",
            metadata: { name, resourceVersion: "1" },
            spec: { containers: [{ name: "node", image: "busybox:1" }] }
          }
        })
      expect(yield* last(pod("Bad_Name"))).toMatchObject({ code: 422 })
      expect(yield* last(pod("p"))).toMatchObject({ code: 500 })
    })
  )

  it.effect("of a Job that was created suspended the pod's spec is immutable, of another one the whole template", () =>
    Effect.gen(function* () {
      const change = patch(jobs, "j", "merge", {
        spec: { suspend: false, template: { spec: { restartPolicy: "OnFailure" } } }
      })
      expect(yield* last(job("j", { suspend: true }), change)).toMatchObject({
        message: expect.stringContaining(" spec.template.spec: Invalid value: ")
      })
      expect(yield* last(job("j"), change)).toMatchObject({
        message: expect.stringContaining(" spec.template: Invalid value: ")
      })
      const active = KubeRequest.make("patch", jobs, {
        namespace,
        name: "j",
        subresource: "status",
        patchType: "merge",
        body: { status: { active: 1 } }
      })
      expect(yield* last(job("j", { suspend: true }), active, change)).toMatchObject({
        message: expect.stringContaining(" spec.template: Invalid value: ")
      })
    })
  )

  it.effect("completions of an Indexed Job may become what parallelism is", () =>
    Effect.gen(function* () {
      const indexed = job("j", { completionMode: "Indexed", completions: 2, parallelism: 1 })
      expect(yield* last(indexed, patch(jobs, "j", "merge", { spec: { completions: 1 } }))).toMatchObject({
        status: 200
      })
      expect(yield* last(indexed, patch(jobs, "j", "merge", { spec: { completions: 3 } }))).toMatchObject({ code: 422 })
    })
  )

  it.effect("a toleration that is taken from a pod is an error of its own", () =>
    Effect.gen(function* () {
      const tolerations = [{ key: "k", operator: "Exists", effect: "NoSchedule" }]
      expect(yield* last(pod("p", { tolerations }), patch(pods, "p", "merge", { spec: { tolerations: [] } }))).toEqual(
        refused(
          422,
          'Pod "p" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds'
        )
      )
    })
  )

  it.effect("a request for one namespace is authorized inside it; a dry run of its deletion uses no version", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.make()
      const namespaces = { group: "", version: "v1", plural: "namespaces" }
      const get = KubeRequest.make("get", namespaces, { name: "default" })
      const error = yield* Effect.flip(cluster.transport(Rbac.serviceAccount(namespace, "s")).call(get))
      expect(error.status?.message).toBe(
        'namespaces "default" is forbidden: User "system:serviceaccount:default:s" cannot get resource "namespaces" in API group "" in the namespace "default"'
      )
      const made = KubeRequest.make("create", namespaces, { body: { metadata: { name: "other" } } })
      const dry = KubeRequest.make("delete", namespaces, { name: "other", query: { dryRun: "All" } })
      const answer = Json.at(yield* last(made, dry), "body")
      expect(Json.at(answer, "status", "phase")).toBe("Terminating")
      expect(Json.at(answer, "metadata", "resourceVersion")).toBe(
        Json.at(Json.at(yield* last(made), "body"), "metadata", "resourceVersion")
      )
    })
  )

  it.effect("without a look at its fields a JSON patch is refused in other words", () =>
    Effect.gen(function* () {
      const broken = patch(configMaps, "a", "json", { op: "add" }, { fieldValidation: "Ignore" })
      expect(yield* last(configMap("a"), broken)).toEqual(
        refused(400, "json: cannot unmarshal object into Go value of type jsonpatch.Patch")
      )
      const merge = (body: unknown) => patch(configMaps, "a", "merge", body, { fieldValidation: "Ignore" })
      expect(yield* last(configMap("a"), merge(["x"]))).toMatchObject({
        code: 422,
        message: expect.stringMatching(
          /^ "" is invalid: patch: Invalid value: "\[\\"x\\"\]": couldn't get version\/kind; json parse error: /
        )
      })
      expect(yield* last(configMap("a"), merge(3))).toEqual(refused(400, "Invalid JSON Patch"))
    })
  )

  it.effect(
    "a Job without containers is told so before its restart policy; a bad selector comes before a bad body",
    () =>
      Effect.gen(function* () {
        const message = Json.at(yield* last(KubeRequest.make("create", jobs, { namespace, body: {} })), "message")
        expect(message).toMatch(/spec\.template\.spec\.containers: .*spec\.template\.spec\.restartPolicy: /)
        const many = KubeRequest.make("deletecollection", pods, {
          namespace,
          query: { labelSelector: "a===" },
          body: { kind: "Foo", apiVersion: "v1" }
        })
        expect(yield* last(many)).toEqual(refused(400, "unable to parse requirement: found '=', expected: identifier"))
      })
  )

  it.effect("an object is patched in the version of the request, whichever stored it", () =>
    Effect.gen(function* () {
      const type = { group: "kueue.x-k8s.io", version: "v1beta2", plural: "localqueues" }
      const create = KubeRequest.make("create", type, {
        namespace,
        body: {
          apiVersion: "kueue.x-k8s.io/v1beta2",
          kind: "LocalQueue",
          metadata: { name: "q" },
          spec: { clusterQueue: "c" }
        }
      })
      const older = { ...type, version: "v1beta1" }
      const registry = Registry.make([...Registry.builtins.definitions.values(), ...Registry.kueue("v1beta1")])
      const cluster = yield* Cluster.make({ registry })
      const { call } = cluster.transport(Rbac.admin)
      yield* call(create)
      const answer = yield* call(patch(older, "q", "merge", { spec: { stopPolicy: "Hold" } }))
      expect(answer.body).toMatchObject({ apiVersion: "kueue.x-k8s.io/v1beta1", spec: { stopPolicy: "Hold" } })
      const read = yield* call(KubeRequest.make("get", type, { namespace, name: "q" }))
      expect(read.body).toMatchObject({ apiVersion: "kueue.x-k8s.io/v1beta2", spec: { stopPolicy: "Hold" } })
    })
  )

  it.effect("a custom resource without a kind is refused in two ways", () =>
    Effect.gen(function* () {
      const create = (query: Readonly<Record<string, string>>) =>
        last(KubeRequest.make("create", trainJobs, { namespace, query, body: { apiVersion: "v1" } }))
      expect(yield* create({})).toEqual(
        refused(
          400,
          `the object provided is unrecognized (must be of type TrainJob): Object 'Kind' is missing in '{"apiVersion":"v1"}' ({"apiVersion":"v1"})`
        )
      )
      expect(yield* create({ fieldValidation: "Ignore" })).toEqual(
        refused(
          400,
          `TrainJob in version "v1alpha1" cannot be handled as a TrainJob: Object 'Kind' is missing in '{"apiVersion":"v1"}'`
        )
      )
    })
  )

  it.effect("another namespace in a body is told before a missing name; too much data belongs to no field", () =>
    Effect.gen(function* () {
      const update = KubeRequest.make("update", configMaps, {
        namespace,
        name: "a",
        body: { metadata: { namespace: "elsewhere" } }
      })
      expect(yield* last(configMap("a"), update)).toEqual(
        refused(400, "the namespace of the provided object does not match the namespace sent on the request")
      )
      expect(yield* last(configMap("a", { data: { k: "x".repeat(1_048_577) } }))).toEqual(
        refused(422, 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes')
      )
    })
  )
})
