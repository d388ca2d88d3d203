/**
 * Adapters that are wrong on purpose, each in one way that a careless change could bring about. The fuzz has to find every
 * one of them: else it proves nothing about the adapter itself.
 */
import type * as Facts from "@dispatch-kubeflow/core/decide/Facts"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeReply, KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Support from "@dispatch-kubeflow/core/decide/Support"
import * as Json from "@dispatch-kubeflow/testkit/Json"
import { Effect } from "effect"
import { controller, namespace, type Random } from "./RandomCluster.js"
import type { Mutant } from "./Survey.js"

const gated = ({ mode }: Random): boolean => mode === "kueue"

const calls =
  (change: (request: KubeRequest, transport: KubeTransport) => ReturnType<KubeTransport["call"]> | undefined) =>
  (transport: KubeTransport): KubeTransport => ({
    ...transport,
    call: (request) => change(request, transport) ?? transport.call(request)
  })

const reply = (body: unknown): KubeReply => ({ status: 200, body, warnings: [] })

/** Reads of one type come back changed. */
const sees = (plural: string, change: (object: Json.JsonObject) => object) =>
  calls((request, transport) =>
    request.plural === plural && request.verb === "get"
      ? Effect.map(transport.call(request), (it) => ({ ...it, body: change(Json.object(it.body as Json.Json)) }))
      : undefined
  )

const without = (object: Json.JsonObject, key: string): Json.JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== key))

const withSpec = (fields: object) => (object: Json.JsonObject) => ({
  ...object,
  spec: { ...Json.object(object["spec"]), ...fields }
})

const believesActive = (object: Json.JsonObject): object => ({
  ...object,
  status: { conditions: [{ type: "Active", status: "True" }] }
})

const notLeaving = (object: Json.JsonObject): object => ({
  ...object,
  metadata: without(Json.object(object["metadata"]), "deletionTimestamp")
})

const isReview = (request: KubeRequest, resource: string, subresource?: string): boolean => {
  const asked = Json.at(request.body, "spec", "resourceAttributes")
  return (
    request.plural === "selfsubjectaccessreviews" &&
    Json.at(asked, "resource") === resource &&
    Json.at(asked, "subresource") === subresource
  )
}

/** Once it has asked for a deletion, what it looks at is gone. */
const believesDeleted =
  (remove: (request: KubeRequest, transport: KubeTransport) => ReturnType<KubeTransport["call"]>) =>
  (transport: KubeTransport): KubeTransport => {
    let deleted = false
    return calls((request, it) => {
      if (request.plural !== "trainjobs" && request.plural !== "jobsets") return undefined
      if (request.verb === "delete") {
        deleted = true
        return remove(request, it)
      }
      return deleted && request.verb === "get" ? it.call({ ...request, name: "never-there" }) : undefined
    })(transport)
  }

const allowed: Facts.Review = { _tag: "Allowed" }

const always =
  (capability: Support.Capability): NonNullable<Mutant["says"]> =>
  (answer) =>
    answer.capability === capability ? { capability, support: Support.yes("declared", "always") } : answer

const lacks =
  (...ids: ReadonlyArray<string>) =>
  ({ lacking, later, taken }: Random): boolean =>
    ids.some((id) => lacking.includes(id) || (later === "a permission is taken away" && taken === id))

const usualSelector = JSON.stringify({ matchLabels: { team: "a" } })

const listed = ({ clusterQueue }: Random): string => JSON.stringify(clusterQueue.checks)

/** Each with the number of random clusters within which the fuzz has to find it. */
export const mutants: ReadonlyArray<Mutant & { readonly within: number }> = [
  {
    name: "Hold is yes without the round trip",
    within: 100,
    touches: ({ readOnly }) => !readOnly,
    believes: (facts) => ({ ...facts, hold: { _tag: "Passed" } })
  },
  {
    name: "Hold is believed from the TrainJob, not from its JobSet",
    within: 400,
    touches: ({ without }) => without.includes("trainer") || without.includes("jobset"),
    blind: calls((request, transport) =>
      request.plural === "jobsets" && request.verb === "get"
        ? Effect.map(
            transport.call({ ...request, group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" }),
            (it) => {
              const metadata = Json.object(Json.at(it.body, "metadata"))
              const { name, uid } = metadata
              return reply({
                metadata: {
                  ...metadata,
                  ownerReferences: [
                    { apiVersion: "trainer.kubeflow.org/v1alpha1", kind: "TrainJob", name, uid, controller: true }
                  ]
                },
                spec: { suspend: true },
                status: { conditions: [{ type: "Suspended", status: "True" }] }
              })
            }
          )
        : undefined
    )
  },
  {
    name: "Hold is yes although the un-suspend is refused",
    within: 400,
    touches: ({ webhook }) => webhook === "denies patch" || webhook === "denies all dry runs",
    blind: calls((request, transport) =>
      request.plural === "trainjobs" && request.verb === "patch"
        ? Effect.map(transport.call({ ...request, verb: "get", query: {}, body: undefined }), (it) => ({
            ...it,
            body: withSpec({ suspend: false })(Json.object(it.body as Json.Json))
          }))
        : undefined
    )
  },
  {
    name: "Hold does not wait for the probe to be gone",
    within: 400,
    touches: ({ webhook }) => webhook === "adds a finalizer",
    blind: believesDeleted((request, transport) => transport.call(request))
  },
  {
    name: "Hold in Kueue mode needs no permission to update Workloads",
    within: 200,
    touches: (random) => gated(random) && lacks("update workloads.kueue.x-k8s.io")(random),
    believes: (facts) => ({ ...facts, review: { ...facts.review, updateWorkloads: allowed } })
  },
  {
    name: "Hold in Kueue mode does not mind which Kueue is served",
    within: 400,
    touches: (random) => gated(random) && random.kueueApi !== "v1beta2",
    believes: (facts) =>
      facts.hold._tag === "Failed" && facts.hold.step === "workload" ? { ...facts, hold: { _tag: "Passed" } } : facts
  },
  {
    name: "Hold is yes although the backend is read-only",
    within: 200,
    touches: ({ readOnly }) => readOnly,
    believes: (facts) => ({ ...facts, access: "read-write", hold: { _tag: "Passed" } })
  },
  {
    name: "OutputRead is yes without get pods/log",
    within: 100,
    touches: lacks("get pods/log"),
    blind: calls((request, transport) =>
      isReview(request, "pods", "log")
        ? transport.call({
            ...request,
            body: {
              ...Json.object(request.body),
              spec: { resourceAttributes: { group: "", resource: "pods", verb: "get", namespace } }
            }
          })
        : undefined
    )
  },
  {
    name: "OutputRead is yes without list pods",
    within: 100,
    touches: lacks("list pods"),
    believes: (facts) => ({ ...facts, review: { ...facts.review, log: allowed, list: allowed } })
  },
  {
    name: "OutputFollow is yes without watch pods",
    within: 200,
    touches: lacks("watch pods"),
    believes: (facts) => ({ ...facts, review: { ...facts.review, log: allowed, list: allowed, watch: allowed } })
  },
  {
    name: "a review that is not answered counts as allowed",
    within: 3000,
    touches: (random) =>
      (random.unreviewed === "*" || random.unreviewed === "pods") &&
      ["get pods/log", "list pods", "watch pods"].some((id) => random.lacking.includes(id)),
    blind: calls((request, transport) =>
      request.plural === "selfsubjectaccessreviews"
        ? Effect.catchAll(transport.call(request), () => Effect.succeed(reply({ status: { allowed: true } })))
        : undefined
    )
  },
  {
    name: "the gate is proven without the Lease",
    within: 200,
    touches: (random) => gated(random) && (!random.lease.exists || random.lease.left < 0 || random.lease.holder === ""),
    blind: calls((request) =>
      request.plural === "leases"
        ? Effect.succeed({
            ...reply({
              metadata: { name: "gate", uid: "1" },
              spec: {
                holderIdentity: "gate-0",
                leaseDurationSeconds: 3600,
                renewTime: new Date(10_000_000).toISOString()
              }
            }),
            serverTime: 10_000_000
          })
        : undefined
    )
  },
  {
    name: "the Lease is judged by our own clock",
    within: 3000,
    touches: (random) =>
      gated(random) &&
      random.clock.ahead > 3_000_000 &&
      (random.lease.left < 0 || random.later === "the Lease runs out"),
    blind: (transport) => ({
      ...transport,
      call: (request) =>
        Effect.zipWith(transport.call(request), Effect.clock, (it, clock) => ({
          ...it,
          serverTime: clock.unsafeCurrentTimeMillis()
        }))
    })
  },
  {
    name: "the namespaceSelector is not looked at",
    within: 400,
    touches: (random) =>
      gated(random) &&
      (random.later === "the queue selects others" || JSON.stringify(random.clusterQueue.selector) !== usualSelector),
    blind: sees("clusterqueues", withSpec({ namespaceSelector: {} }))
  },
  {
    name: "a check on some flavors counts",
    within: 400,
    touches: (random) => gated(random) && listed(random).includes("onFlavors"),
    blind: sees("clusterqueues", withSpec({ admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] } }))
  },
  {
    name: "a queue that does not list the check counts",
    within: 400,
    touches: (random) => gated(random) && !listed(random).includes("gate"),
    blind: sees("clusterqueues", withSpec({ admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] } }))
  },
  {
    name: "a MultiKueue check is not noticed",
    within: 400,
    touches: (random) => gated(random) && listed(random).includes("multi"),
    blind: calls((request, transport) =>
      request.plural === "admissionchecks" && request.name === "multi"
        ? transport.call({ ...request, name: "other" })
        : undefined
    )
  },
  {
    name: "an AdmissionCheck of another controller counts",
    within: 200,
    touches: (random) => gated(random) && random.check.controllerName !== controller,
    blind: sees("admissionchecks", withSpec({ controllerName: controller }))
  },
  {
    name: "an inactive AdmissionCheck counts",
    within: 200,
    touches: (random) => gated(random) && random.check.active !== "True",
    blind: sees("admissionchecks", believesActive)
  },
  {
    name: "an inactive queue counts",
    within: 200,
    touches: (random) =>
      gated(random) && (random.localQueue.active !== "True" || random.clusterQueue.active !== "True"),
    blind: (transport) => sees("clusterqueues", believesActive)(sees("localqueues", believesActive)(transport))
  },
  {
    name: "what is being deleted counts",
    within: 200,
    touches: (random) =>
      gated(random) && (random.check.deleting || random.clusterQueue.deleting || random.localQueue.deleting),
    blind: (transport) =>
      ["admissionchecks", "clusterqueues", "localqueues"].reduce(
        (all, plural) => sees(plural, notLeaving)(all),
        transport
      )
  },
  {
    name: "a concurrent-admission policy does not matter",
    within: 400,
    touches: (random) => gated(random) && random.clusterQueue.concurrent,
    blind: sees("clusterqueues", (it) => ({
      ...it,
      spec: without(Json.object(it["spec"]), "concurrentAdmissionPolicy")
    }))
  },
  {
    name: "AttemptInjection does not hang on the gate",
    within: 100,
    touches: gated,
    says: always("AttemptInjection")
  },
  {
    name: "ProcsPerNode is yes without torch",
    within: 50,
    touches: ({ runtime }) => runtime === "plain",
    says: always("ProcsPerNode")
  },
  {
    name: "a captured namespace is written to",
    within: 300,
    touches: (random) => random.mode === "plain" && !random.readOnly,
    believes: (facts) => ({ ...facts, capture: { _tag: "Free" } })
  },
  {
    name: "a runtime that breaks rules is answered for",
    within: 50,
    touches: ({ runtime }) => runtime === "shipped",
    lenient: true
  },
  {
    name: "what was true at the preflight is still true",
    within: 100,
    touches: ({ later }) => later !== undefined,
    stale: true
  },
  {
    name: "the probe is not deleted",
    within: 50,
    touches: ({ holdProbe, lacking, readOnly, without }) =>
      !readOnly && holdProbe === "dry-run" && lacking.length === 0 && without.length === 0,
    blind: believesDeleted(() => Effect.succeed(reply({})))
  }
]
