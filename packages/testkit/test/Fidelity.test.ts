import { Effect } from "effect"
import { describe, expect, it } from "@effect/vitest"
import * as Compare from "../src/fidelity/Compare.js"
import * as Coverage from "../src/fidelity/Coverage.js"
import * as Known from "../src/fidelity/Known.js"
import * as Memory from "../src/fidelity/Memory.js"
import * as Observation from "../src/fidelity/Observation.js"
import * as Operation from "../src/fidelity/Operation.js"
import * as Runner from "../src/fidelity/Runner.js"
import * as Sequence from "../src/fidelity/Sequence.js"
import * as Shrink from "../src/fidelity/Shrink.js"
import * as Fixtures from "../src/Fixtures.js"
import { readFileSync } from "node:fs"

const prepared: Memory.Prepared = {
  namespace: "h-one",
  other: "h-one-other",
  seed: 1,
  objects: Fixtures.shippedRuntimes
}

const run = (sequence: ReadonlyArray<Operation.Operation>, namespace = "h-one") =>
  Effect.map(
    Effect.flatMap(Memory.server({ ...prepared, namespace, other: `${namespace}-other` }), (server) =>
      Runner.run(server, sequence)
    ),
    (observations) =>
      Observation.normalise(observations, { namespace, other: `${namespace}-other`, startedAt: Date.now() })
  )

const outcome = (observations: ReadonlyArray<Observation.Observation>, id: string): Observation.Outcome => {
  const found = observations.find((observation) => observation.id === id)
  if (found === undefined) throw new Error(`nothing was observed of ${id}`)
  return found.outcome
}

describe("the differential checker", () => {
  it("a seed and a number give the same sequence every time, and another number another", () => {
    expect(Sequence.generate(1, 5, 20)).toEqual(Sequence.generate(1, 5, 20))
    expect(Sequence.generate(1, 5, 20)).not.toEqual(Sequence.generate(1, 6, 20))
    expect(Sequence.generate(2, 5, 20)).toHaveLength(20)
  })

  it("a hundred sequences reach every verb, every patch format, logs, reviews and subjects without rights", () => {
    const reached = new Set<string>()
    for (let index = 0; index < 100; index += 1) {
      for (const operation of Sequence.generate(3, index, 20)) {
        reached.add(operation.request.verb)
        reached.add(operation.request.patchType ?? "")
        reached.add(operation.request.subresource ?? "")
        reached.add(operation.as)
        for (const option of Object.keys(operation.request.query)) reached.add(`?${option}`)
      }
    }
    const wanted = [
      "get list watch create update patch delete deletecollection merge json strategic apply",
      "status log binding eviction admin ?limit ?continue ?resourceVersion ?resourceVersionMatch ?labelSelector",
      "?fieldSelector ?dryRun ?fieldManager ?fieldValidation ?force ?sendInitialEvents ?tailLines ?sinceTime"
    ]
    for (const word of [...Sequence.subjects, ...wanted.flatMap((line) => line.split(" "))]) {
      expect([...reached], word).toContain(word)
    }
  })

  it.live("two runs in memory agree with each other, whatever the uids, versions, names and the namespace", () =>
    Effect.gen(function* () {
      for (let index = 0; index < 25; index += 1) {
        const sequence = Sequence.generate(11, index, 20)
        const [one, two] = [yield* run(sequence), yield* run(sequence, "h-another")]
        expect(Compare.compare(sequence, one, two)).toEqual([])
      }
    })
  )

  it.live("placeholders point to what earlier steps answered; watches tell what happens until the end", () =>
    Effect.gen(function* () {
      const configMaps = { group: "", version: "v1", plural: "configmaps" }
      const at = { namespace: Operation.namespace }
      const step = (id: string, verb: Operation.Operation["request"]["verb"], more: object): Operation.Operation => ({
        id,
        as: "admin",
        request: { ...configMaps, ...at, verb, query: {}, ...more }
      })
      const observed = yield* run([
        step("o1", "create", { body: { metadata: { name: "a" } } }),
        step("o2", "watch", { query: { resourceVersion: Operation.version("o1") } }),
        step("o3", "watch", { query: { allowWatchBookmarks: "true" } }),
        step("o4", "delete", { name: "a", body: { preconditions: { uid: Operation.uid("o1") } } }),
        step("o5", "create", { body: { metadata: { generateName: "go5-" } } }),
        step("o6", "get", { name: Operation.name("o5") }),
        step("o7", "list", { query: { limit: "x" } })
      ])
      expect(outcome(observed, "o4")).toMatchObject({ _tag: "Reply", body: { details: { uid: "<uid 1>" } } })
      expect(outcome(observed, "o6")).toMatchObject({ _tag: "Reply", body: { metadata: { name: "go5-<suffix>" } } })
      expect(outcome(observed, "o7")).toMatchObject({ _tag: "Refused", refusal: { code: 400, reason: "BadRequest" } })
      const told = (id: string) => {
        const frames = outcome(observed, id)
        return frames._tag === "Frames" ? frames.frames.map(({ type }) => type) : []
      }
      expect(told("o2")).toEqual(["DELETED", "ADDED"])
      expect(told("o3")).toEqual(["ADDED", "BOOKMARK", "DELETED", "ADDED"])
    })
  )

  it("a difference is told by operation and path; what is in the list of known ones is found there", () => {
    const [operation] = Sequence.generate(1, 0, 1)
    if (operation === undefined) throw new Error("no operation")
    const reply = (body: unknown): Observation.Observation => ({
      id: operation.id,
      outcome: { _tag: "Reply", status: 200, body, warnings: [] }
    })
    const differences = Compare.compare(
      [operation],
      [reply({ a: 1, b: [1, 2], c: "x" })],
      [reply({ a: 1, b: [1, 3], d: "y" })]
    )
    expect(differences.map(({ memory, path, real }) => [path, real, memory])).toEqual([
      ["body.b.1", 2, 3],
      ["body.c", "x", undefined],
      ["body.d", undefined, "y"]
    ])
    expect(differences.map((difference) => Known.find(difference))).toEqual([undefined, undefined, undefined])
    const podSpec = { operation, path: "refusal.message", real: "[no\n@@ -1 +1 @@\n- a\n]", memory: "[no]" }
    expect(Known.find(podSpec)?.id).toBe("pod-diff")
  })

  it("every known disagreement is a line of FIDELITY.md", () => {
    const text = readFileSync(new URL("../FIDELITY.md", import.meta.url), "utf8")
    for (const { id, line } of Known.all) expect(text, id).toContain(`| ${line} |`)
  })

  it.effect("a failing sequence shrinks to what makes it fail, options and bodies included", () =>
    Effect.gen(function* () {
      const sequence = Sequence.generate(1, 3, 20)
      const culprit = sequence.findIndex(({ request }) => request.verb === "create" && request.body !== undefined)
      const wanted = sequence[culprit]
      const small = yield* Shrink.shrink(
        sequence,
        (candidate) => Effect.succeed(candidate.some(({ id }) => id === wanted?.id)),
        1000
      )
      expect(small).toHaveLength(1)
      expect(small[0]?.request.body).toEqual({})
      expect(Operation.print(small)).toContain(`id: ${JSON.stringify(wanted?.id)}`)
    })
  )

  it.live("the coverage table counts operations by outcome", () =>
    Effect.gen(function* () {
      const sequence = Sequence.generate(1, 1, 20)
      const coverage = Coverage.add(Coverage.empty, sequence, yield* run(sequence))
      const counted = [...coverage.values()].flatMap((counts) => [...counts.values()])
      expect(counted.reduce((sum, count) => sum + count, 0)).toBe(20)
      expect(Coverage.table(coverage).split("\n")).toHaveLength(coverage.size)
    })
  )
})
