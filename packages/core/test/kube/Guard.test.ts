import * as Guard from "@dispatch-kubeflow/core/kube/Guard"
import type * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Batch from "@dispatch-kubeflow/core/model/Batch"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Either, FastCheck as fc, Schema } from "effect"

const parameters = {
  numRuns: Number(process.env["FC_RUNS"] ?? 100),
  ...(process.env["FC_SEED"] === undefined ? {} : { seed: Number(process.env["FC_SEED"]) })
}

const isResource = (value: unknown): value is Resource.Any =>
  typeof value === "object" && value !== null && "plural" in value && "schema" in value

const resources = [Batch, Coordination, Core, JobSet, Kueue, Trainer]
  .flatMap((module) => Object.values(module as Record<string, unknown>))
  .filter(isResource)

/** A value with one of its parts replaced. */
const damaged = (value: unknown, path: ReadonlyArray<number>, part: unknown): unknown => {
  const [step, ...rest] = path
  if (step === undefined || typeof value !== "object" || value === null) return part
  if (Array.isArray(value)) {
    if (value.length === 0) return part
    const at = step % value.length
    return value.map((item: unknown, index) => (index === at ? damaged(item, rest, part) : item))
  }
  const entries = Object.entries(value)
  if (entries.length === 0) return part
  const at = step % entries.length
  return Object.fromEntries(entries.map(([key, item], index) => [key, index === at ? damaged(item, rest, part) : item]))
}

describe("Guard", () => {
  it("every descriptor's schema is plain structure, so each has a guard", () => {
    assert.isAbove(resources.length, 8)
    for (const resource of resources) assert.isDefined(Guard.fromAst(resource.schema.ast), resource.kind)
  })

  for (const resource of resources) {
    it(`${resource.kind}: what the guard accepts the schema accepts, unchanged; what the schema accepts it accepts`, () => {
      const guard = Guard.fromAst(resource.schema.ast) ?? (() => false)
      const decode = Schema.decodeUnknownEither(resource.schema, { onExcessProperty: "preserve" })
      fc.assert(
        fc.property(
          Arbitrary.make(resource.schema),
          fc.array(fc.nat(20), { maxLength: 5 }),
          fc.oneof(fc.constantFrom(null, undefined, 0, "", true), fc.object()),
          (object, path, part) => {
            for (const value of [object, damaged(object, path, part)]) {
              // the decoder's copy loses a key of this name, the guard's value keeps it
              if (JSON.stringify(value)?.includes("__proto__")) continue
              const decoded = decode(value)
              assert.strictEqual(guard(value), Either.isRight(decoded))
              if (Either.isRight(decoded)) assert.deepStrictEqual<unknown>(decoded.right, value)
            }
          }
        ),
        parameters
      )
    })
  }

  it("a schema with more in it than structure has none", () => {
    assert.isUndefined(Guard.fromAst(Schema.NumberFromString.ast))
    assert.isUndefined(Guard.fromAst(Schema.Struct({ at: Schema.DateFromString }).ast))
    assert.isUndefined(Guard.fromAst(Schema.Tuple(Schema.String, Schema.Number).ast))
  })
})
