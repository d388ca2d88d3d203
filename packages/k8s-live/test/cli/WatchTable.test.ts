import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as WatchTable from "@dispatch-kubeflow/k8s-live/cli/WatchTable"
import * as Properties from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { FastCheck as fc } from "effect"

const now = Date.parse("2026-11-29T20:00:00Z")
const noColour = paintFor({ isTerminal: false, noColor: true })
const colour = paintFor({ isTerminal: true, noColor: false })

const update = (name: string, more: Partial<Update.Update> = {}): Update.Update => ({
  ref: { namespace: "team-a", name },
  state: "Running",
  execution: 1,
  incarnation: 1,
  identity: "injected",
  repeated: false,
  alive: true,
  evidence: [],
  notes: [],
  ...more
})

const lost = update("run-10", {
  state: "Failed",
  cause: { _tag: "NodeLost", node: "node-b", detail: "the Node was not ready (NodeStatusUnknown)" },
  evidence: [
    {
      object: "Node/node-b",
      field: "status.conditions[Ready]",
      value: "Unknown",
      time: "2026-11-29T19:30:00Z",
      presence: "present"
    }
  ]
})

const rows = [
  WatchTable.rowOf(lost, now, undefined),
  WatchTable.rowOf(update("run-9"), now - 5000, undefined),
  WatchTable.rowOf(update("run-2", { state: "Pending", repeated: true }), now - 7_300_000, undefined)
]

const at = (columns: number, height = 24) =>
  WatchTable.draw(rows, ["the watch of Pod broke off"], { columns, rows: height }, now, noColour)

describe("the watch's table", () => {
  it("at 120 columns: running ones first, names in the order of their numbers", () => {
    expect(at(120)).toEqual([
      "TRAINJOB  STATE    EXECUTION  SINCE  CAUSE",
      "run-2     Pending  1 again    >2h",
      "run-9     Running  1          >5s",
      "run-10    Failed   1          30m    NodeLost (node-b): the Node was not ready (NodeStatusUnknown)",
      "the watch of Pod broke off"
    ])
  })

  it("at 70, 50 and 35 columns: fewer columns, and the cause cut", () => {
    expect(at(70)[3]).toBe("run-10    Failed   1          30m    NodeLost (node-b): the Node was …")
    expect(at(50).slice(0, 4)).toEqual([
      "TRAINJOB  STATE    SINCE  CAUSE",
      "run-2     Pending  >2h",
      "run-9     Running  >5s",
      "run-10    Failed   30m    NodeLost (node-b): the …"
    ])
    expect(at(35)[3]).toBe("run-10    Failed   NodeLost (node-…")
    expect(at(20)[3]).toBe("run-10    Failed")
  })

  it("what does not fit the height is counted", () => {
    expect(at(80, 5)).toEqual([
      "TRAINJOB  STATE    EXECUTION  SINCE  CAUSE",
      "run-2     Pending  1 again    >2h",
      "and 2 more: 1 Running, 1 Failed",
      "the watch of Pod broke off"
    ])
  })

  it("a name gives way to the cause, not the other way round", () => {
    const long = WatchTable.rowOf({ ...lost, ref: { namespace: "a", name: "x".repeat(63) } }, now, undefined)
    const [, line] = WatchTable.draw([long], [], { columns: 80, rows: 24 }, now, noColour)
    expect(line).toMatch(/^x+…  Failed  1          30m    NodeLost \(node-b\): the Node…$/)
    expect(line?.length).toBeLessThanOrEqual(80)
  })

  it("no line is wider and no table higher than the terminal, whatever its size and the rows", () =>
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 250 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.string({ minLength: 1, maxLength: 63 }), { maxLength: 60 }),
        fc.string({ maxLength: 300 }),
        (columns, height, names, cause) => {
          const made = names.map((name) =>
            WatchTable.rowOf(
              update(name, { cause: { _tag: "ImagePull", reason: "x", detail: `${cause}\u001b[2J\n` } }),
              now,
              undefined
            )
          )
          const lines = WatchTable.draw(made, [cause], { columns, rows: height }, now, noColour)
          for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
          expect(lines.length).toBeLessThanOrEqual(Math.max(3, height - 1))
          for (const line of lines) expect(line).not.toContain("\u001b")
        }
      ),
      Properties.parameters()
    ))

  it("SINCE stays while neither state nor execution changes, and is told where an object tells it", () => {
    const first = WatchTable.rowOf(update("a"), now, undefined)
    expect(first).toMatchObject({ since: now, atLeast: true })
    const same = WatchTable.rowOf(update("a", { notes: ["x"] }), now + 60_000, first)
    expect(same).toMatchObject({ since: now, atLeast: true })
    const next = WatchTable.rowOf(update("a", { state: "Stopping" }), now + 90_000, same)
    expect(next).toMatchObject({ since: now + 90_000, atLeast: false })
    expect(WatchTable.rowOf(lost, now, undefined).since).toBe(Date.parse("2026-11-29T19:30:00Z"))
    expect([0, 119, 120, 7199, 7200, 172_799, 172_800].map((seconds) => WatchTable.age(seconds * 1000))).toEqual([
      "0s",
      "119s",
      "2m",
      "119m",
      "2h",
      "47h",
      "2d"
    ])
  })

  it("is drawn over what was drawn before, also when the terminal was made narrower meanwhile", () => {
    const size = { columns: 100, rows: 24 }
    const before = WatchTable.draw(rows, [], size, now, colour)
    expect(WatchTable.redraw([], before, size).startsWith("\r\u001b[J")).toBe(true)
    expect(WatchTable.redraw(before, before, size).startsWith("\u001b[4A\r\u001b[J")).toBe(true)
    // its lines have 42, 30, 30 and 98 characters
    expect(WatchTable.redraw(before, before, { columns: 50, rows: 24 }).startsWith("\u001b[5A")).toBe(true)
  })

  it("colours states, and nothing without a terminal", () => {
    expect(WatchTable.draw(rows, [], { columns: 100, rows: 9 }, now, colour)[3]).toContain(
      "\u001b[31mFailed \u001b[39m"
    )
    expect(at(100).join("")).not.toContain("\u001b")
  })
})
