/**
 * Random clusters, and an oracle that finds out from them what may be answered with yes; and adapters that are wrong on
 * purpose, which it has to find. `npm run capabilities` is the long run.
 */
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { Effect, FastCheck as fc, TestContext } from "effect"
import { mutants } from "./oracle/Mutants.js"
import * as RandomCluster from "./oracle/RandomCluster.js"
import * as Survey from "./oracle/Survey.js"

it.effect(
  "in random clusters (RBAC, versions, runtimes, queues, checks, leases, webhooks, clocks, faults) no yes is contradicted by the cluster",
  () =>
    Properties.assert(
      RandomCluster.anyCluster,
      (random) =>
        Effect.map(Survey.survey(random), ({ contradictions }) => {
          expect(contradictions).toEqual([])
        }),
      25
    ),
  3_600_000
)

// A fixed seed: the numbers of clusters that are stated are exact
const clusters = fc.sample(RandomCluster.anyCluster, {
  seed: 1,
  numRuns: Math.max(...mutants.map(({ within }) => within))
})

it.effect("in a cluster where all is well every capability that can be yes is yes", () =>
  Effect.gen(function* () {
    const promising = clusters.filter(
      ({ kueueApi, lacking, mode, runtime, webhook }) =>
        mode === "kueue" &&
        runtime === "torch" &&
        kueueApi === "v1beta2" &&
        lacking.length === 0 &&
        webhook === undefined
    )
    const wanted = [
      "Hold",
      "AttemptInjection",
      "ReadmissionGate",
      "OutputRead",
      "OutputFollow",
      "ProcsPerNode",
      "writable"
    ]
    for (const random of promising.slice(0, 20)) {
      const { yes } = yield* Effect.provide(Survey.survey(random), TestContext.TestContext)
      if (wanted.every((capability) => yes.includes(capability))) return
    }
    return expect.fail("in none of 20 clusters")
  })
)

describe("an adapter that is wrong is found by the same clusters:", () => {
  for (const mutant of mutants) {
    it.effect(`${mutant.name} (within ${mutant.within} clusters)`, () =>
      Effect.gen(function* () {
        // Elsewhere it is the adapter itself, of which nothing is found
        for (const random of clusters.slice(0, mutant.within).filter(mutant.touches)) {
          const { contradictions } = yield* Effect.provide(Survey.survey(random, mutant), TestContext.TestContext)
          if (contradictions.length > 0) return
        }
        return expect.fail("not found")
      })
    )
  }
})
