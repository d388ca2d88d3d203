import { ErrNotFound } from "@dispatch-kubeflow/core/AdapterError"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import { describe, expect, it } from "@effect/vitest"

describe("names", () => {
  it("the submissions of a run are NAME-1, NAME-2 and so on", () => {
    const names = ["demo-1", "demo-10", "demo-0", "demo-01", "demo-", "demo", "demo-1a", "demo-extra-1", "demo1-1"]
    expect(names.filter((name) => TrainJobRef.isSubmissionOf("demo", name))).toEqual(["demo-1", "demo-10"])
  })

  it("what was not found is told in words", () => {
    const message = (kind: string): string =>
      new ErrNotFound({ kind, name: "demo-1", namespace: "a", reason: "it is over" }).message
    expect(message("Rank7Pod")).toBe('the pod of rank 7 of TrainJob "demo-1" in namespace "a" not found: it is over')
    expect(message("RankZeroPod")).toContain("the pod of rank 0 of TrainJob")
    expect(message("TrainJob")).toContain('TrainJob "demo-1"')
  })
})
