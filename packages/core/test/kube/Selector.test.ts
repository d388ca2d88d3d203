import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { parameters } from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { Either, FastCheck as fc } from "effect"

const key = fc.constantFrom("app", "example.com/team", "job-index", "in", "notin")
const value = fc.stringMatching(/^[a-z0-9]{1,5}$/)
const requirement: fc.Arbitrary<Selector.LabelRequirement> = fc.oneof(
  fc.record({
    key: fc.constantFrom("app", "example.com/team", "job-index"),
    operator: fc.constantFrom("in" as const, "notIn" as const),
    values: fc.array(value, { minLength: 1, maxLength: 3 })
  }),
  fc.record({
    key,
    operator: fc.constantFrom("exists" as const, "notExists" as const),
    values: fc.constant([])
  }),
  fc.record({
    key: fc.constantFrom("app", "job-index"),
    operator: fc.constantFrom("gt" as const, "lt" as const),
    values: fc.integer().map((it) => [String(it)])
  })
)

describe("Selector", () => {
  it("a printed label selector parses to itself", () => {
    fc.assert(
      fc.property(fc.array(requirement, { minLength: 1, maxLength: 4 }), (selector) => {
        expect(Selector.parseLabels(Selector.formatLabels(selector) ?? "")).toEqual(Either.right(selector))
      }),
      parameters(500)
    )
  })

  it("a printed field selector parses to itself, whatever the value", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            field: fc.constantFrom("metadata.name", "spec.nodeName"),
            operator: fc.constantFrom("=" as const, "!=" as const),
            // "==" is the other spelling of "=", so a value cannot begin with "=" unescaped
            value: fc.string()
          }),
          { minLength: 1, maxLength: 3 }
        ),
        (selector) => {
          expect(Selector.parseFields(Selector.formatFields(selector) ?? "")).toEqual(Either.right(selector))
        }
      ),
      parameters(500)
    )
  })

  // The texts of kube-apiserver 1.37
  it.each([
    ["a===", "unable to parse requirement: found '=', expected: identifier"],
    ["a=b c", "found 'c', expected: ',' or 'end of string'"],
    [
      `a=${"v".repeat(64)}`,
      `unable to parse requirement: values[0][a]: Invalid value: "${"v".repeat(64)}": must be no more than 63 bytes`
    ],
    [
      "a>bad",
      `unable to parse requirement: values[0]: Invalid value: "bad": for 'Gt', 'Lt' operators, the value must be an integer`
    ]
  ])("%s is refused with the API server's words", (text, message) => {
    expect(Selector.parseLabels(text)).toEqual(Either.left(message))
  })

  it("`a==` and `a in ()` ask for the empty value; !=, notin and !a match objects without the key", () => {
    const matches = (text: string, labels: { readonly [key: string]: string }) =>
      Either.getOrThrow(Either.map(Selector.parseLabels(text), (it) => Selector.matchesLabels(it, labels)))
    expect(matches("a==", { a: "" })).toBe(true)
    expect(matches("a in ()", { a: "" })).toBe(true)
    expect(matches("a==", {})).toBe(false)
    for (const text of ["a!=b", "a notin (b)", "!a"]) expect(matches(text, {})).toBe(true)
    expect(matches("a in (b,c),d", { a: "c", d: "" })).toBe(true)
    expect(matches("a>5", { a: "6" })).toBe(true)
    expect(matches("a>5", { a: "x" })).toBe(false)
  })
})
