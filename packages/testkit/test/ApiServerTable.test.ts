import { describe, expect, it } from "@effect/vitest"
import * as Table from "../src/Table.js"

const now = Date.parse("2026-11-29T17:10:00Z")
const pods = { group: "", plural: "pods" }

interface Read {
  readonly columnDefinitions: ReadonlyArray<{
    readonly name: string
    readonly type: string
    readonly priority: number
  }> | null
  readonly rows: ReadonlyArray<{
    readonly cells: ReadonlyArray<unknown>
    readonly conditions?: ReadonlyArray<{ readonly reason: string }>
    readonly object: unknown
  }>
}

const table = (type: { readonly group: string; readonly plural: string }, object: unknown): Read =>
  Table.toTable(type, object, { now, includeObject: "Metadata" }) as unknown as Read

const cell = (type: { readonly group: string; readonly plural: string }, object: unknown, column: string): unknown => {
  const read = table(type, object)
  return read.rows[0]?.cells[read.columnDefinitions?.findIndex(({ name }) => name === column) ?? -1]
}

const pod = (status: object, extra: { readonly metadata?: object; readonly spec?: object } = {}) => ({
  kind: "Pod",
  metadata: { name: "p", creationTimestamp: "2026-11-29T17:06:36Z", ...extra.metadata },
  spec: { containers: [{ name: "node" }], ...extra.spec },
  status
})
const container = (state: object, extra: object = {}) => ({
  name: "node",
  restartCount: 0,
  ready: false,
  state,
  ...extra
})
const running = { running: { startedAt: "2026-11-29T17:06:40Z" } }

describe("Tables", () => {
  const durations: ReadonlyArray<readonly [number, string]> = [
    [-5, "<invalid>"],
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [204, "3m24s"],
    [599, "9m59s"],
    [600, "10m"],
    [179 * 60, "179m"],
    [3 * 3600, "3h"],
    [5 * 3600 + 120, "5h2m"],
    [9 * 3600, "9h"],
    [47 * 3600, "47h"],
    [76 * 3600, "3d4h"],
    [8 * 86_400, "8d"],
    [729 * 86_400, "729d"],
    [740 * 86_400, "2y10d"],
    [3000 * 86_400, "8y"]
  ]
  it.each(durations)("%d seconds are %s", (seconds, text) => {
    expect(Table.humanDuration(seconds * 1000)).toBe(text)
  })

  it("pods have the recorded columns, rows carry PartialObjectMetadata", () => {
    const read = table(pods, pod({ phase: "Pending" }))
    expect(read.columnDefinitions?.map(({ name, priority }) => [name, priority])).toEqual([
      ["Name", 0],
      ["Ready", 0],
      ["Status", 0],
      ["Restarts", 0],
      ["Age", 0],
      ["IP", 1],
      ["Node", 1],
      ["Nominated Node", 1],
      ["Readiness Gates", 1]
    ])
    expect(read.rows[0]?.cells).toEqual(["p", "0/1", "Pending", "0", "3m24s", "<none>", "<none>", "<none>", "<none>"])
    expect(read.rows[0]?.object).toEqual({
      kind: "PartialObjectMetadata",
      apiVersion: "meta.k8s.io/v1",
      metadata: { name: "p", creationTimestamp: "2026-11-29T17:06:36Z" }
    })
  })

  const statuses: ReadonlyArray<readonly [string, object, string]> = [
    ["running", pod({ phase: "Running", containerStatuses: [container(running, { ready: true })] }), "1/1 Running"],
    [
      "waiting",
      pod({ phase: "Pending", containerStatuses: [container({ waiting: { reason: "ContainerCreating" } })] }),
      "0/1 ContainerCreating"
    ],
    [
      "failed",
      pod({ phase: "Failed", containerStatuses: [container({ terminated: { exitCode: 1, reason: "Error" } })] }),
      "0/1 Error"
    ],
    [
      "a signal without a reason",
      pod({ phase: "Failed", containerStatuses: [container({ terminated: { exitCode: 137, signal: 9 } })] }),
      "0/1 Signal:9"
    ],
    [
      "succeeded",
      pod({ phase: "Succeeded", containerStatuses: [container({ terminated: { exitCode: 0, reason: "Completed" } })] }),
      "0/1 Completed"
    ],
    ["evicted", pod({ phase: "Failed", reason: "Evicted" }), "0/1 Evicted"],
    [
      "terminating",
      pod(
        { phase: "Running", containerStatuses: [container(running, { ready: true })] },
        { metadata: { deletionTimestamp: "2026-11-29T17:09:59Z" } }
      ),
      "1/1 Terminating"
    ],
    [
      "on a lost node",
      pod({ phase: "Running", reason: "NodeLost" }, { metadata: { deletionTimestamp: "2026-11-29T17:09:59Z" } }),
      "0/1 Unknown"
    ],
    [
      "gated",
      pod({ phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }] }),
      "0/1 SchedulingGated"
    ],
    [
      "initializing",
      pod(
        { phase: "Pending", initContainerStatuses: [{ name: "init", restartCount: 0, state: running }] },
        { spec: { containers: [{ name: "node" }], initContainers: [{ name: "init" }] } }
      ),
      "0/1 Init:0/1"
    ],
    [
      "an initializer failed",
      pod(
        {
          phase: "Pending",
          initContainerStatuses: [
            { name: "init", restartCount: 0, state: { terminated: { exitCode: 3, reason: "Error" } } }
          ]
        },
        { spec: { containers: [{ name: "node" }], initContainers: [{ name: "init" }] } }
      ),
      "0/1 Init:Error"
    ],
    [
      "a sidecar runs",
      pod(
        {
          phase: "Running",
          initContainerStatuses: [{ name: "side", restartCount: 0, started: true, ready: true, state: running }],
          containerStatuses: [container(running, { ready: true })]
        },
        { spec: { containers: [{ name: "node" }], initContainers: [{ name: "side", restartPolicy: "Always" }] } }
      ),
      "2/2 Running"
    ]
  ]
  it.each(statuses)("a pod %s", (_, object, text) => {
    expect(`${String(cell(pods, object, "Ready"))} ${String(cell(pods, object, "Status"))}`).toBe(text)
  })

  it("restarts tell when the last one was; finished pods have a row condition", () => {
    const restarted = pod({
      phase: "Running",
      containerStatuses: [
        container(running, { restartCount: 2, lastState: { terminated: { finishedAt: "2026-11-29T17:09:30Z" } } })
      ]
    })
    expect(cell(pods, restarted, "Restarts")).toBe("2 (30s ago)")
    expect(table(pods, pod({ phase: "Failed" })).rows[0]?.conditions).toMatchObject([
      { type: "Completed", reason: "Failed" }
    ])
    expect(table(pods, pod({ phase: "Running" })).rows[0]?.conditions).toBeUndefined()
  })

  it("custom resources: printer columns, a missing value is null, dates are ages", () => {
    const trainjobs = { group: "trainer.kubeflow.org", plural: "trainjobs" }
    const job = { kind: "TrainJob", metadata: { name: "u1", creationTimestamp: "2026-11-29T17:00:47Z" } }
    expect(table(trainjobs, job).rows[0]?.cells).toEqual(["u1", null, "9m13s"])
    const conditions = [{ type: "Suspended" }, { type: "Failed" }]
    expect(cell(trainjobs, { ...job, status: { conditions } }, "State")).toBe("Failed")
    const jobsets = { group: "jobset.x-k8s.io", plural: "jobsets" }
    const jobSet = { ...job, spec: { suspend: true }, status: { conditions: [{ type: "Completed", status: "True" }] } }
    expect(cell(jobsets, jobSet, "Suspended")).toBe("true")
    expect(cell(jobsets, jobSet, "Completed")).toBe("True")
  })

  it("nodes: readiness and cordon", () => {
    const nodes = { group: "", plural: "nodes" }
    const node = (status: string, spec: object = {}) => ({
      kind: "Node",
      metadata: { name: "n", labels: { "node-role.kubernetes.io/worker": "" } },
      spec,
      status: { conditions: [{ type: "Ready", status }], addresses: [{ type: "InternalIP", address: "192.0.2.10" }] }
    })
    expect(cell(nodes, node("True"), "Status")).toBe("Ready")
    expect(cell(nodes, node("Unknown", { unschedulable: true }), "Status")).toBe("NotReady,SchedulingDisabled")
    expect(cell(nodes, { kind: "Node", metadata: { name: "n" } }, "Status")).toBe("Unknown")
    expect(cell(nodes, node("True"), "Roles")).toBe("worker")
    expect(cell(nodes, node("True"), "Internal-IP")).toBe("192.0.2.10")
  })

  it("jobs: status, completions, duration", () => {
    const jobs = { group: "batch", plural: "jobs" }
    const job = (status: object) => ({ kind: "Job", metadata: { name: "j" }, spec: { completions: 2 }, status })
    const active = job({ startTime: "2026-11-29T17:09:59Z", succeeded: 1 })
    expect(["Status", "Completions", "Duration"].map((column) => cell(jobs, active, column))).toEqual([
      "Running",
      "1/2",
      "1s"
    ])
    expect(cell(jobs, job({ conditions: [{ type: "Suspended", status: "True" }] }), "Status")).toBe("Suspended")
    const failed = [
      { type: "FailureTarget", status: "True" },
      { type: "Failed", status: "True" }
    ]
    expect(cell(jobs, job({ conditions: failed }), "Status")).toBe("Failed")
    expect(cell(jobs, job({ conditions: failed.slice(0, 1) }), "Status")).toBe("FailureTarget")
  })

  it("a list keeps its metadata; an unknown type has Name and Age", () => {
    const list = {
      kind: "FooList",
      metadata: { resourceVersion: "9", continue: "c" },
      items: [{ metadata: { name: "a" } }]
    }
    const read = Table.toTable({ group: "x.example.com", plural: "foos" }, list, { now, includeObject: "None" })
    expect(read["metadata"]).toEqual({ resourceVersion: "9", continue: "c" })
    expect(read["rows"]).toEqual([{ cells: ["a", "<unknown>"], object: null }])
  })
})
