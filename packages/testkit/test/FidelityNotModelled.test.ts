import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ApiServer from "../src/ApiServer.js"
import * as Cluster from "../src/Cluster.js"
import * as Rbac from "../src/Rbac.js"

// The lines of FIDELITY.md's table "Not modelled": what is not there is refused, and never answered as if it was

const namespace = "default"
const type = (group: string, version: string, plural: string): KubeRequest.ResourceType => ({ group, version, plural })

const pod = KubeRequest.make("create", type("", "v1", "pods"), {
  namespace,
  body: { metadata: { name: "p" }, spec: { nodeName: "n", containers: [{ name: "n", image: "i:1" }] } }
})

/** The code with which a request is refused, after a pod was created. */
const refusal = (request: KubeRequest.KubeRequest) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.make()
    const { call } = cluster.transport(Rbac.admin)
    yield* call(pod)
    const error = yield* Effect.flip(call(request))
    // Of a group that is not served the answer is no Status
    return error.status?.code ?? (error._tag === "KubeNotFound" && error.subject === "type" ? 404 : undefined)
  })

const subresource = (verb: "create" | "get" | "patch", name: string) =>
  KubeRequest.make(verb, type("", "v1", "pods"), {
    namespace,
    name: "p",
    subresource: name,
    ...(verb === "get" ? {} : { body: {} }),
    ...(verb === "patch" ? { patchType: "merge" as const } : {})
  })

const kinds: ReadonlyArray<readonly [line: string, type: KubeRequest.ResourceType]> = [
  ["CustomResourceDefinition objects", type("apiextensions.k8s.io", "v1", "customresourcedefinitions")],
  ["aggregated API servers", type("apiregistration.k8s.io", "v1", "apiservices")],
  ["events.k8s.io", type("events.k8s.io", "v1", "events")],
  ["quotas", type("", "v1", "resourcequotas")],
  ["limit ranges", type("", "v1", "limitranges")],
  ["priority and fairness", type("flowcontrol.apiserver.k8s.io", "v1", "flowschemas")]
]

describe("not modelled", () => {
  for (const [line, of] of kinds) {
    it.effect(`${line}: the type is not served`, () =>
      Effect.gen(function* () {
        expect(yield* refusal(KubeRequest.make("list", of, {}))).toBe(404)
      })
    )
  }

  for (const name of ["exec", "attach", "portforward", "proxy"]) {
    it.effect(`${name}: there is no such subresource`, () =>
      Effect.gen(function* () {
        expect(yield* refusal(subresource("get", name))).toBe(404)
        expect(yield* refusal(subresource("create", name))).toBe(404)
      })
    )
  }

  it.effect("ephemeral containers: there is no such subresource", () =>
    Effect.gen(function* () {
      expect(yield* refusal(subresource("patch", "ephemeralcontainers"))).toBe(404)
    })
  )

  it.effect("scale: there is no such subresource", () =>
    Effect.gen(function* () {
      const request = KubeRequest.make("get", type("jobset.x-k8s.io", "v1alpha2", "jobsets"), {
        namespace,
        name: "s",
        subresource: "scale"
      })
      expect(yield* refusal(request)).toBe(404)
    })
  )

  for (const plural of ["subjectaccessreviews", "localsubjectaccessreviews"]) {
    it.effect(`reviews of other subjects: ${plural} are not served`, () =>
      Effect.gen(function* () {
        const request = KubeRequest.make("create", type("authorization.k8s.io", "v1", plural), {
          ...(plural.startsWith("local") ? { namespace } : {}),
          body: { spec: { user: "x" } }
        })
        expect(yield* refusal(request)).toBe(404)
      })
    )
  }

  it.scoped("protobuf answers and CBOR: not acceptable, and not understood", () =>
    Effect.gen(function* () {
      const server = yield* Effect.flatMap(Cluster.make(), (cluster) =>
        Effect.provideService(
          ApiServer.serveCluster({ tokens: { "admin-token": Rbac.admin } }),
          Cluster.Cluster,
          cluster
        )
      )
      const ask = (headers: Readonly<Record<string, string>>, body?: string) =>
        Effect.promise(() =>
          fetch(`${server.url}/api/v1/namespaces/default/configmaps`, {
            method: body === undefined ? "GET" : "POST",
            headers: { authorization: "Bearer admin-token", ...headers },
            ...(body === undefined ? {} : { body })
          })
        )
      expect((yield* ask({ accept: "application/vnd.kubernetes.protobuf" })).status).toBe(406)
      expect((yield* ask({ accept: "application/cbor" })).status).toBe(406)
      expect((yield* ask({ "content-type": "application/cbor" }, "x")).status).toBe(415)
    })
  )
})
