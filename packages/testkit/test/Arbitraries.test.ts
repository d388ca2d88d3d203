import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Batch from "@dispatch-kubeflow/core/model/Batch"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Arbitraries from "../src/Arbitraries.js"
import * as Cluster from "../src/Cluster.js"
import * as Json from "../src/Json.js"
import { assert as assertEffect, parameters } from "../src/Properties.js"
import * as Rbac from "../src/Rbac.js"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, FastCheck as fc } from "effect"

const kinds: ReadonlyArray<readonly [string, fc.Arbitrary<object>, Pick<Resource.Any, "decode">]> = [
  ["Pod", Arbitraries.pod, Core.pods],
  ["Node", Arbitraries.node, Core.nodes],
  ["Namespace", Arbitraries.namespaceObject, Core.namespaces],
  ["Event", Arbitraries.event, Core.events],
  ["ConfigMap", Arbitraries.configMap, Core.configMaps],
  ["Job", Arbitraries.job, Batch.jobs],
  ["Lease", Arbitraries.lease, Coordination.leases],
  ["JobSet", Arbitraries.jobSet, JobSet.jobSets],
  ["TrainJob", Arbitraries.trainJob, Trainer.trainJobs],
  ["TrainingRuntime", Arbitraries.trainingRuntime, Trainer.trainingRuntimes],
  ["ClusterTrainingRuntime", Arbitraries.clusterTrainingRuntime, Trainer.clusterTrainingRuntimes],
  ["Workload", Arbitraries.workload, Kueue.workloads],
  ["LocalQueue", Arbitraries.localQueue, Kueue.localQueues],
  ["ClusterQueue", Arbitraries.clusterQueue, Kueue.clusterQueues],
  ["AdmissionCheck", Arbitraries.admissionCheck, Kueue.admissionChecks]
]

describe("Arbitraries", () => {
  it.each(kinds)("%s: every object decodes", (kind, arbitrary, resource) => {
    fc.assert(
      fc.property(arbitrary, (object) => {
        expect(Json.at(object, "kind")).toBe(kind)
        expect(Either.isRight(resource.decode(object))).toBe(true)
      }),
      parameters(50)
    )
  })

  it.effect("a cluster that is seeded with any objects has them", () =>
    assertEffect(
      fc.array(Arbitraries.anyObject, { maxLength: 5 }),
      (objects) =>
        Effect.gen(function* () {
          const cluster = yield* Cluster.make()
          const seeded = yield* cluster.seed(objects)
          expect(seeded).toHaveLength(objects.length)
          for (const [index, object] of objects.entries()) {
            expect(Json.at(seeded[index], "metadata", "name")).toBe(object.metadata.name)
          }
        }),
      30
    )
  )

  it("selectors can be printed and read", () => {
    fc.assert(
      fc.property(Arbitraries.labelSelector, Arbitraries.fieldSelector, (labels, fields) => {
        expect(Either.isRight(Selector.parseLabels(Selector.formatLabels(labels) ?? ""))).toBe(true)
        expect(Selector.parseFields(Selector.formatFields(fields) ?? "")).toEqual(Either.right(fields))
      }),
      parameters(200)
    )
  })

  it.effect("any request of any subject is answered or refused, and a refused one changes nothing", () =>
    assertEffect(
      fc.tuple(fc.array(Arbitraries.request, { maxLength: 8 }), fc.array(Arbitraries.role, { maxLength: 2 })),
      ([requests, roles]) =>
        Effect.gen(function* () {
          const cluster = yield* Cluster.make({ objects: roles })
          const subject = Rbac.serviceAccount("team-a", "someone")
          yield* cluster.seed(
            roles.map(({ metadata }) => ({
              apiVersion: "rbac.authorization.k8s.io/v1",
              kind: "RoleBinding",
              metadata: { name: metadata.name, namespace: metadata.namespace },
              roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name },
              subjects: [{ kind: "ServiceAccount", name: "someone", namespace: "team-a" }]
            }))
          )
          for (const request of requests) {
            if (request.verb === "watch" || request.subresource === "log") continue
            for (const who of [Rbac.admin, subject]) {
              const before = yield* cluster.state
              const result = yield* Effect.either(cluster.transport(who).call(request)).pipe(
                Effect.timeout("10 seconds"),
                Effect.fork,
                Effect.flatMap((fiber) => Effect.zipRight(Effect.yieldNow(), fiber.poll))
              )
              const after = yield* cluster.state
              if (result._tag === "Some" && result.value._tag === "Success" && Either.isLeft(result.value.value)) {
                expect(after.version).toBe(before.version)
              }
              if (!KubeRequest.isWrite(request) || request.query["dryRun"] === "All") {
                expect(after.version).toBe(before.version)
              }
            }
          }
        }),
      60
    )
  )
})
