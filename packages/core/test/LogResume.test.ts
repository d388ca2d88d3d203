import * as LogResume from "@dispatch-kubeflow/core/decide/LogResume"
import { parameters } from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collectGarbage: () => void = runInNewContext("gc")

interface Line {
  readonly stamp: string
  readonly content: Uint8Array
}

const encoder = new TextEncoder()
const latin1 = (bytes: Uint8Array): string => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")
const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    result.set(part, at)
    at += part.length
  }
  return result
}
/** Nanoseconds after 17:04:00, as a stamp. */
const stamp = (nanoseconds: number): string => {
  const seconds = Math.floor(nanoseconds / 1e9)
  const minute = String(4 + Math.floor(seconds / 60)).padStart(2, "0")
  const second = String(seconds % 60).padStart(2, "0")
  return `2026-11-29T17:${minute}:${second}.${String(nanoseconds % 1e9).padStart(9, "0")}Z`
}
const line = (nanoseconds: number, content: string): Line => ({
  stamp: stamp(nanoseconds),
  content: encoder.encode(content)
})

/** What a kubelet answers: records of the file from `start`, those stamped before the second filtered one by one. */
const answer = (
  lines: ReadonlyArray<Line>,
  options: {
    readonly since?: string | undefined
    readonly start?: number
    readonly newline?: boolean
    readonly split?: boolean
  }
): Uint8Array => {
  const second = options.since?.slice(0, 19) ?? ""
  const shown = lines.slice(options.start ?? 0).filter((it) => it.stamp.slice(0, 19) >= second)
  return concat(
    shown.flatMap((it, index) => {
      const prefix = encoder.encode(`${it.stamp} `)
      const parts: Array<Uint8Array> = [prefix]
      if (options.split === true) {
        for (let at = 0; at < it.content.length || at === 0; at += 16_384) {
          if (at > 0) parts.push(prefix)
          parts.push(it.content.subarray(at, at + 16_384))
        }
      } else parts.push(it.content)
      if (index < shown.length - 1 || options.newline !== false) parts.push(encoder.encode("\n"))
      return parts
    })
  )
}

const plain = (lines: ReadonlyArray<Line>, newline = true): Uint8Array =>
  concat(
    lines.flatMap((it, index) =>
      index < lines.length - 1 || newline ? [it.content, encoder.encode("\n")] : [it.content]
    )
  )

const bytesOf = (pieces: ReadonlyArray<LogResume.Piece>): Uint8Array =>
  concat(pieces.flatMap((piece) => (piece._tag === "Bytes" ? [piece.bytes] : [])))
const textOf = (pieces: ReadonlyArray<LogResume.Piece>): string => latin1(bytesOf(pieces))
const gaps = (pieces: ReadonlyArray<LogResume.Piece>) => pieces.filter((piece) => piece._tag === "Discontinuity")

const chunks = (bytes: Uint8Array, sizes: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const result: Array<Uint8Array> = []
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    result.push(bytes.subarray(at, at + size))
    at += size
  }
  return result
}

const once = (reader: LogResume.Reader, bytes: Uint8Array, final = true, sizes: ReadonlyArray<number> = [4096]) => {
  reader.open()
  const pieces = chunks(bytes, sizes).flatMap((chunk) => reader.push(chunk))
  return [...pieces, ...reader.close(final)]
}

// Few values, so that equal lines and equal stamps are common
const content = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("", "a", "aa", "aab", "b", "\r", "x\rx", "\u0000") },
  { weight: 3, arbitrary: fc.string({ maxLength: 40 }).map((it) => it.replaceAll("\n", " ")) },
  { weight: 1, arbitrary: fc.constantFrom(...[16_383, 16_384, 16_385, 32_768, 40_000].map((it) => "L".repeat(it))) }
)
const raw = fc.oneof(
  { weight: 8, arbitrary: content.map((it) => encoder.encode(it)) },
  {
    weight: 2,
    arbitrary: fc.uint8Array({ maxLength: 20 }).map((it) => it.map((byte) => (byte === 10 ? 0xff : byte)))
  }
)
/** Steps between stamps; negative ones are the other stream's, as far back as streams were seen to be. */
const steps = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(0, 1, 1000, 20_000) },
  { weight: 2, arbitrary: fc.integer({ min: 100_000_000, max: 1_500_000_000 }) },
  { weight: 2, arbitrary: fc.integer({ min: -10_000_000, max: 0 }) }
)
const log = fc.array(fc.tuple(steps, raw), { maxLength: 40 }).map((entries) => {
  let clock = 5_000_000_000
  return entries.map(([step, bytes]): Line => {
    clock = Math.max(0, clock + step)
    return { stamp: stamp(clock), content: bytes }
  })
})
const sizes = fc.array(fc.constantFrom(1, 2, 7, 31, 100, 5000, 20_000), { minLength: 1, maxLength: 4 })

describe("LogResume", () => {
  it("O01, O02, O25: whatever is cut wherever, every byte is delivered once and in order", () => {
    fc.assert(
      fc.property(
        log,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
        sizes,
        fc.boolean(),
        (lines, cuts, chunking, newline) => {
          const reader = LogResume.make()
          const pieces: Array<LogResume.Piece> = []
          for (const cut of cuts) {
            const whole = answer(lines, { since: reader.resumeFrom(), newline })
            reader.open()
            for (const chunk of chunks(whole.subarray(0, Math.floor(cut * whole.length)), chunking)) {
              pieces.push(...reader.push(chunk))
            }
            pieces.push(...reader.close(false))
          }
          const rest = answer(lines, { since: reader.resumeFrom(), newline })
          pieces.push(...once(reader, rest, true, chunking))
          expect(gaps(pieces)).toEqual([])
          expect(textOf(pieces)).toBe(latin1(plain(lines, newline)))
        }
      ),
      parameters(1000)
    )
  })

  it("with timestamps the same, stamps included", () => {
    fc.assert(
      fc.property(
        log,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
        sizes,
        (lines, cuts, by) => {
          const reader = LogResume.make({ timestamps: true })
          const pieces: Array<LogResume.Piece> = []
          for (const cut of cuts) {
            const whole = answer(lines, { since: reader.resumeFrom() })
            reader.open()
            for (const chunk of chunks(whole.subarray(0, Math.floor(cut * whole.length)), by))
              pieces.push(...reader.push(chunk))
            pieces.push(...reader.close(false))
          }
          pieces.push(...once(reader, answer(lines, { since: reader.resumeFrom() }), true, by))
          expect(textOf(pieces)).toBe(latin1(answer(lines, {})))
        }
      ),
      parameters(1000)
    )
  })

  it("O03: after rotations what is missing is exactly what lies behind a discontinuity", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 900_000_000 }), { minLength: 1, maxLength: 40 }),
        fc.array(fc.record({ cut: fc.double({ min: 0, max: 1, noNaN: true }), rotate: fc.nat(8), grow: fc.nat(8) }), {
          maxLength: 6
        }),
        sizes,
        (gapsBetween, rounds, chunking) => {
          let clock = 0
          const lines = gapsBetween.map((step, index) => line((clock += step), `line ${index}`))
          const reader = LogResume.make()
          const pieces: Array<LogResume.Piece> = []
          let start = 0
          let written = Math.min(lines.length, 5)
          for (const { cut, rotate, grow } of rounds) {
            const whole = answer(lines.slice(0, written), { since: reader.resumeFrom(), start })
            reader.open()
            for (const chunk of chunks(whole.subarray(0, Math.floor(cut * whole.length)), chunking)) {
              pieces.push(...reader.push(chunk))
            }
            pieces.push(...reader.close(false))
            start = Math.min(start + rotate, written)
            written = Math.min(written + grow, lines.length)
          }
          const readable = lines.slice(start)
          pieces.push(...once(reader, answer(lines, { since: reader.resumeFrom(), start }), true, chunking))
          const runs: Array<string> = [""]
          for (const piece of pieces) {
            if (piece._tag === "Bytes") runs[runs.length - 1] += latin1(piece.bytes)
            if (piece._tag === "Discontinuity") runs.push("")
          }
          const full = latin1(plain(lines))
          let at = 0
          for (const [index, run] of runs.entries()) {
            const found = full.indexOf(run, at)
            expect(found).toBeGreaterThanOrEqual(at)
            // Without a discontinuity before it a run follows directly; the first one starts with what was readable
            if (index === 0 && run !== "" && found > 0) expect(full[found - 1]).toBe("\n")
            at = found + run.length
          }
          const lastRun = runs.at(-1) ?? ""
          if (readable.length > 0 || runs.length === 1) expect(full.endsWith(lastRun)).toBe(true)
        }
      ),
      parameters(1000)
    )
  })

  it("O01: sinceTime is cut to whole seconds, and equal lines at one stamp on both sides of the cut are real", () => {
    const before = [line(11_661_000_000, "a"), line(11_691_000_000, "b"), line(11_749_916_000, "c")]
    const after = [line(11_749_916_000, "c"), line(11_800_000_000, "d")]
    const reader = LogResume.make()
    expect(textOf(once(reader, answer(before, {}), false))).toBe("a\nb\nc\n")
    expect(reader.resumeFrom()).toBe("2026-11-29T17:04:10Z")
    const pieces = once(reader, answer([...before, ...after], { since: reader.resumeFrom() }))
    expect(textOf(pieces)).toBe("c\nd\n")
    expect(gaps(pieces)).toEqual([])
  })

  it("a first line later than the resume point is a discontinuity", () => {
    const lines = [line(1e9, "a"), line(9e9, "b"), line(10e9, "c")]
    const reader = LogResume.make()
    once(reader, answer(lines.slice(0, 1), {}), false)
    expect(once(reader, answer(lines, { start: 2 }), false)).toEqual([
      { _tag: "Discontinuity", after: stamp(1e9), before: stamp(10e9) },
      { _tag: "Bytes", bytes: encoder.encode("c\n") }
    ])
  })

  it("only the line delivered last proves that nothing is missing", () => {
    const reader = LogResume.make()
    once(reader, answer([line(1e9, "a"), line(2e9, "b")], {}), false)
    const pieces = once(reader, answer([line(1e9, "a"), line(3e9, "c")], {}), false)
    expect(pieces.map(({ _tag }) => _tag)).toEqual(["Discontinuity", "Bytes"])
  })

  it("an empty answer right after a rotation is not the end, but a last one leaves it open what is missing", () => {
    const reader = LogResume.make()
    once(reader, answer([line(1e9, "a")], {}), false)
    expect(once(reader, new Uint8Array(0), false)).toEqual([])
    expect(once(reader, new Uint8Array(0), true)).toEqual([
      { _tag: "Discontinuity", after: stamp(1e9), before: undefined }
    ])
  })

  it("an empty log is no discontinuity", () => {
    expect(once(LogResume.make(), new Uint8Array(0))).toEqual([])
  })

  it("a line is delivered as it comes, without waiting for its end, and memory does not grow with it", () => {
    const reader = LogResume.make()
    reader.open()
    reader.push(encoder.encode(`${stamp(1e9)} `))
    let received = 0
    for (let index = 0; index < 64; index++) {
      for (const piece of reader.push(new Uint8Array(65_536).fill(120))) {
        if (piece._tag === "Bytes") received += piece.bytes.length
      }
    }
    expect(received).toBe(64 * 65_536)
  })

  it("what a repetition is compared with is not kept after it", () => {
    const text = (from: number, to: number): Uint8Array =>
      answer(
        Array.from({ length: to - from }, (_, index) => line((from + index) * 1e6, `line ${from + index}`)),
        {}
      )
    const heap = (): number => {
      collectGarbage()
      return process.memoryUsage().heapUsed
    }
    const readers = Array.from({ length: 8 }, () => LogResume.make())
    const count = LogResume.remembered
    for (const reader of readers) {
      reader.open()
      reader.push(text(0, count))
      reader.close(false)
    }
    const before = heap()
    for (const reader of readers) reader.open()
    const compared = heap() - before
    for (const reader of readers) {
      expect(reader.push(text(count - 100, count + 1)).map(({ _tag }) => _tag)).toEqual(["Bytes"])
      expect(reader.last()).toBe(stamp(count * 1e6))
    }
    expect(heap() - before).toBeLessThan(compared / 4)
  })

  it("more lines than are remembered: the older ones are known by their time", () => {
    const lines = Array.from({ length: 3 * LogResume.remembered }, (_, index) =>
      line(1e9 + index * 1000, `${index % 10}`)
    )
    const reader = LogResume.make()
    const first = once(reader, answer(lines.slice(0, 20_000), {}), false)
    const rest = once(reader, answer(lines, { since: reader.resumeFrom() }))
    expect(gaps(rest)).toEqual([])
    expect(latin1(concat([bytesOf(first), bytesOf(rest)]))).toBe(latin1(plain(lines)))
  })

  it("a node's clock that goes back loses nothing", () => {
    const lines = [line(100e9, "a"), line(101e9, "b"), line(40e9, "c"), line(41e9, "d"), line(42e9, "e")]
    const reader = LogResume.make()
    const pieces = [
      ...once(reader, answer(lines.slice(0, 4), {}), false),
      ...once(reader, answer(lines, { since: reader.resumeFrom() }))
    ]
    expect(textOf(pieces)).toBe("a\nb\nc\nd\ne\n")
    expect(gaps(pieces)).toEqual([])
  })

  it("O14: a stamp at the seam of a long line's parts is dropped, elsewhere it is the program's", () => {
    const long = line(1e9, "x".repeat(40_000))
    const echoed = line(2e9, `seen ${stamp(3e9)} here`)
    for (const cut of [0, 20_000, 16_384 + 31, 16_384 + 40]) {
      const reader = LogResume.make()
      const whole = answer([long, echoed], { split: true })
      const pieces = [...once(reader, whole.subarray(0, cut), false, [1000]), ...once(reader, whole, true, [37])]
      expect(textOf(pieces)).toBe(latin1(plain([long, echoed])))
    }
  })

  it("O15: broken characters pass through whole", () => {
    const glyph = Uint8Array.of(0xe2, 0x96, 0x88, 0xd4, 0x00, 0xff)
    const pieces = once(LogResume.make(), answer([{ stamp: stamp(1), content: glyph }], { newline: false }), true, [1])
    expect([...bytesOf(pieces)]).toEqual([...glyph])
  })

  it("tailLines: what it left out before is not taken for new after a cut", () => {
    const lines = [line(1e9, "a"), line(1.1e9, "b"), line(1.2e9, "c"), line(1.3e9, "d")]
    const reader = LogResume.make()
    reader.open({ tail: true })
    const pieces = [...reader.push(answer(lines.slice(1, 3), {})), ...reader.close(false)]
    pieces.push(...once(reader, answer(lines, { since: reader.resumeFrom() })))
    expect(textOf(pieces)).toBe("b\nc\nd\n")
    expect(gaps(pieces)).toEqual([])
  })

  it("tailLines=0: starts after the line that was last, even if the connection never brought a byte", () => {
    const lines = [line(1e9, "a"), line(1.1e9, "b"), line(1.2e9, "c")]
    const reader = LogResume.make()
    reader.prime(answer(lines.slice(1, 2), {}))
    expect(once(reader, new Uint8Array(0), false)).toEqual([])
    const pieces = once(reader, answer(lines, { since: reader.resumeFrom() }))
    expect(textOf(pieces)).toBe("c\n")
    expect(gaps(pieces)).toEqual([])
  })

  it("sinceTime is exact: lines of the same second before it are dropped", () => {
    const lines = [line(1.1e9, "a"), line(1.5e9, "b"), line(1.6e9, "c")]
    const reader = LogResume.make({ from: LogResume.stampOf("2026-11-29T18:04:01.5+01:00") })
    expect(textOf(once(reader, answer(lines, {})))).toBe("b\nc\n")
  })

  it("O27: the kubelet's complaint behind real lines is not output", () => {
    const sentence = "failed to create fsnotify watcher: too many open files"
    const lines = [line(1e9, "a"), line(2e9, sentence), line(3e9, "c")]
    for (const ending of ["", "\n"]) {
      const reader = LogResume.make()
      const pieces = once(reader, concat([answer(lines, {}), encoder.encode(`${sentence}${ending}`)]), false, [3])
      expect(textOf(pieces)).toBe(`a\n${sentence}\nc\n`)
      expect(pieces.at(-1)).toEqual({ _tag: "Kubelet", text: sentence, whole: false })
      expect(textOf(once(reader, answer(lines, { since: reader.resumeFrom() })))).toBe("")
    }
  })

  it("a whole body that is the kubelet's own sentence is told apart from a program that prints it", () => {
    for (const sentence of [
      "unable to retrieve container logs for containerd://0123456789abcdef",
      'failed to try resolving symlinks in path "/var/log/pods/a_b_c/node/0.log": lstat x: no such file or directory'
    ]) {
      expect(once(LogResume.make(), encoder.encode(sentence), false, [5])).toEqual([
        { _tag: "Kubelet", text: sentence, whole: true }
      ])
      expect(textOf(once(LogResume.make(), answer([line(1e9, sentence)], { newline: false }), true, [5]))).toBe(
        sentence
      )
      expect(LogResume.isUnreadable(sentence)).toBe(true)
    }
  })

  it("the rest of a line whose first part lies before sinceTime comes without a stamp: no output after a resumption", () => {
    const reader = LogResume.make()
    once(reader, answer([line(5e9, "a")], {}), false)
    const resumed = concat([encoder.encode("…rest\n"), answer([line(5e9, "a"), line(6e9, "b")], {})])
    expect(textOf(once(reader, resumed))).toBe("b\n")
    expect(textOf(once(LogResume.make(), concat([encoder.encode("rest\n"), answer([line(6e9, "b")], {})])))).toBe(
      "rest\nb\n"
    )
  })

  it("times are read as RFC 3339 or not at all", () => {
    expect(LogResume.stampOf("2026-11-29T17:04:01Z")).toBe("2026-11-29T17:04:01.000000000Z")
    expect(LogResume.stampOf("2026-11-29T17:04:01.123456789Z")).toBe("2026-11-29T17:04:01.123456789Z")
    expect(LogResume.stampOf("2026-11-30T00:04:01.25+07:00")).toBe("2026-11-29T17:04:01.250000000Z")
    for (const bad of ["", "yesterday", "2026-11-29", "2026-11-29T17:04:01", "2026-13-40T99:99:99Z"]) {
      expect(LogResume.stampOf(bad)).toBeUndefined()
    }
  })
})
