import { describe, expect, it } from "@effect/vitest"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Effect, Either } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as Fixtures from "../../src/Fixtures.js"
import { layer } from "../../src/TestCluster.js"
import * as Recording from "./Recording.js"

const oldRuntime = {
  ...Fixtures.torchDistributed(),
  metadata: { name: "old-runtime", labels: { "trainer.kubeflow.org/support": "deprecated" } }
}

const timeless = (text: string): string => text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, "T")

/** Refusals of the schema that the store does not know, and one whose recording is cut. */
const known = [/trainer.command of 129 items/, /17 entries/, /ClusterTrainingRuntime: two policies/]

describe("the webhooks answer as the real ones were recorded to answer", () => {
  const recording = Recording.load("trainer", "admission")
  it.scoped(recording.scenario, () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      let equal = 0
      let total = 0
      const differing: Array<string> = []
      for (const step of recording.steps) {
        if (step.request === undefined || step.status === undefined) continue
        const [method = "", target = ""] = step.request.split(" ")
        const url = new URL(target, "http://localhost")
        const request = KubeRequest.fromHttp({
          method,
          path: url.pathname,
          query: [...url.searchParams],
          contentType: /strategic/i.test(step.do)
            ? "application/strategic-merge-patch+json"
            : Array.isArray(step.body)
              ? "application/json-patch+json"
              : "application/merge-patch+json",
          body: step.body
        })
        if (request === undefined) continue
        total++
        const { reply } = yield* cluster.apply(request)
        const code = Either.isRight(reply) ? reply.right.status : reply.left.code
        const message = Either.isRight(reply) ? undefined : reply.left.status?.message
        const recorded = Recording.at(step.answer, "message")
        const words = typeof recorded === "string" ? recorded : undefined
        const isSame = code === step.status && (words === undefined || timeless(words) === timeless(message ?? ""))
        if (isSame) equal++
        else if (!known.some((pattern) => pattern.test(step.do)))
          differing.push(`${step.do}: recorded ${step.status} ${words ?? ""}, ours ${code} ${message ?? ""}`)
      }
      console.info(`recorded answers of the webhooks: ${equal} of ${total} equal in code and words`)
      expect(differing).toEqual([])
    }).pipe(
      Effect.provide(
        layer({
          objects: [
            Fixtures.namespace(recording.namespace),
            ...recording.runtimes,
            Fixtures.torchDistributed(),
            oldRuntime
          ],
          without: ["scheduler"]
        })
      )
    )
  )
})
