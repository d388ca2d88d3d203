import * as RankLines from "@dispatch-kubeflow/k8s-live/cli/RankLines"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (lines: ReadonlyArray<Uint8Array>): ReadonlyArray<string> =>
  lines.map((line) => new TextDecoder().decode(line))

describe("lines of several ranks", () => {
  it("whole lines only, whatever chunks they come in; the unfinished one at the end, with a newline", () => {
    const lines = RankLines.makeLines()
    expect(text(lines.push(bytes("on")))).toEqual([])
    expect(text(lines.push(bytes("e\ntwo\n\nthr")))).toEqual(["one\n", "two\n", "\n"])
    expect(text(lines.flush())).toEqual(["thr\n"])
    expect(lines.flush()).toEqual([])
  })

  it("nothing is lost or doubled, for any bytes and any cuts; no more is held back than the limit", () =>
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 }),
        fc.integer({ min: 1, max: 16 }),
        (chunks, limit) => {
          const lines = RankLines.makeLines(limit)
          const printed = [...chunks.flatMap((chunk) => lines.push(chunk)), ...lines.flush()]
          for (const line of printed) {
            expect(line.at(-1)).toBe(10)
            expect(line.indexOf(10)).toBe(line.length - 1)
            expect(line.length).toBeLessThanOrEqual(limit + 1)
          }
          const without = (all: ReadonlyArray<Uint8Array>): ReadonlyArray<number> =>
            all.flatMap((part) => [...part].filter((byte) => byte !== 10))
          expect(without(printed)).toEqual(without(chunks))
          if (chunks.every((chunk) => chunk.length === 0)) expect(printed).toEqual([])
        }
      ),
      Properties.parameters()
    ))

  it("a rank stands before each line, as wide for all, in its own colour where there is colour", () => {
    const none = paintFor({ isTerminal: false, noColor: true })
    const some = paintFor({ isTerminal: true, noColor: false })
    expect(RankLines.prefix(3, 12, none)).toBe("rank  3 | ")
    expect(new Set([0, 1, 2, 3, 4, 5].map((rank) => RankLines.prefix(rank, 9, some).slice(0, 6))).size).toBe(6)
    const before = bytes("rank 0 | ")
    expect(text([RankLines.prefixed(before, [bytes("a\n"), bytes("b\n")])])).toEqual(["rank 0 | a\nrank 0 | b\n"])
  })
})
