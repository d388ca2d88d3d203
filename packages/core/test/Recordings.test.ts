import { describe, expect, it } from "@effect/vitest"
import { replay, type Replayed } from "./Recordings.js"

/** State and cause in the order told, without repetitions. */
const story = ({ told }: Replayed, name = "run-1"): ReadonlyArray<string> =>
  told
    .filter(({ update }) => update.ref.name === name)
    .map(({ update }) => (update.cause === undefined ? update.state : `${update.state} ${update.cause._tag}`))
    .filter((line, index, all) => line !== all[index - 1])

describe("recordings of the real controllers", () => {
  const rows: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
    ["success", ["Pending", "Running", "Stopping", "Succeeded"]],
    ["failure", ["Pending", "Running", "Stopping Application", "Failed Application"]],
    ["drained", ["Pending", "Running", "Stopping Drained", "Failed Drained"]],
    ["node-deleted", ["Pending", "Running", "Stopping NodeLost", "Failed NodeLost"]],
    ["node-lost", ["Pending", "Running", "Stopping NodeLost", "Failed NodeLost"]],
    ["out-of-service-ready", ["Pending", "Running", "Stopping Drained", "Failed Drained"]],
    ["deadline", ["Pending", "Running", "Failed DeadlineExceeded"]],
    ["pod-deleted", ["Pending", "Running", "Stopping Unknown", "Failed Deleted"]],
    ["onfailure-6", ["Pending", "Running", "Stopping Application", "Failed Application"]],
    ["hold-and-release", ["Pending", "Running", "Stopping Held", "Held Held", "Pending", "Running"]],
    ["hold-overlap", ["Pending", "Running", "Stopping Held", "Pending", "Running"]],
    ["jobset-deleted", ["Pending", "Running", "Pending", "Running"]],
    // K10: the controller ran it again and took the condition back
    ["ttl-rerun", ["Pending", "Running", "Stopping Application", "Failed Application"]]
  ]
  for (const [name, expected] of rows) {
    it(name, () => {
      expect(story(replay(name))).toEqual(expected)
    })
  }

  it("ttl-rerun: the repetition is told beside the result", () => {
    expect(replay("ttl-rerun").told.at(-1)?.update).toMatchObject({ outcome: "Failed", repeated: true })
  })

  it("never-starts: no capacity and a wrong image, while the TrainJob says nothing", () => {
    const told = replay("never-starts")
    expect(story(told, "nofit").at(-1)).toBe("Pending NoCapacity")
    expect(story(told, "image").at(-1)).toBe("Pending ImagePull")
  })

  it("node-lost without its Node read: evicted, neither lost nor the application", () => {
    expect(story(replay("node-lost", ["Node"])).at(-1)).toBe("Failed Evicted")
  })

  it("without pods nothing is the application's fault", () => {
    for (const [name] of rows) {
      const { told } = replay(name, ["Pod"])
      expect(told.map(({ update }) => update.cause?._tag)).not.toContain("Application")
    }
  })
})
