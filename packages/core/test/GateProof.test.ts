import * as GateProof from "@dispatch-kubeflow/core/decide/GateProof"
import type { AdmissionCheck, ClusterQueue, LocalQueue } from "@dispatch-kubeflow/core/model/Kueue"
import { describe, expect, it } from "vitest"

const meta = (name: string, more: object = {}) => ({ name, uid: `uid-${name}`, ...more })
const active = (status = "True", reason = "Ready") => ({ conditions: [{ type: "Active", status, reason }] })
const now = Date.UTC(2026, 0, 1, 12, 0, 0)

const localQueue = (more: Partial<LocalQueue> = {}): LocalQueue => ({
  metadata: meta("lq"),
  spec: { clusterQueue: "cq" },
  status: active(),
  ...more
})
const clusterQueue = (spec: Partial<NonNullable<ClusterQueue["spec"]>> = {}, more: object = {}): ClusterQueue => ({
  metadata: meta("cq"),
  spec: { namespaceSelector: {}, admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] }, ...spec },
  status: active(),
  ...more
})
const check = (more: object = {}): AdmissionCheck => ({
  metadata: meta("gate"),
  spec: { controllerName: "acme.io/gate" },
  status: active(),
  ...more
})
const lease = (spec: object = {}) => ({
  metadata: meta("gate"),
  spec: {
    holderIdentity: "gate-0",
    leaseDurationSeconds: 15,
    renewTime: "2026-01-01T11:59:50.123456Z",
    ...spec
  }
})
const read = <A>(object: A): GateProof.Read<A> => ({ _tag: "Read", object })

const good: GateProof.Findings = {
  kueue: {
    localQueue: "lq",
    admissionCheck: "gate",
    controllerName: "acme.io/gate",
    lease: { namespace: "acme-system", name: "gate" }
  },
  namespace: "team-a",
  served: { _tag: "Served", version: "v1beta2" },
  localQueue: read(localQueue()),
  clusterQueue: read(clusterQueue()),
  namespaceObject: { _tag: "Skipped" },
  checks: { gate: read(check()) },
  lease: read(lease()),
  now: { millis: now, of: "server" }
}

const gate = (change: Partial<GateProof.Findings>) => GateProof.verdict(GateProof.steps({ ...good, ...change }))

describe("the gate proof, all of", () => {
  it("a yes says in its reason what it does not cover", () => {
    const proven = gate({})
    expect(proven._tag).toBe("Proven")
    expect("reason" in proven ? proven.reason : "").toContain("un-suspends by hand, moves the queue label or edits")
  })

  const deleted = { deletionTimestamp: "2026-01-01T11:00:00Z" }
  const refuting: ReadonlyArray<readonly [string, Partial<GateProof.Findings>, string]> = [
    ["LocalQueue missing", { localQueue: { _tag: "Missing", message: "does not exist" } }, "LocalQueue/lq"],
    ["LocalQueue inactive", { localQueue: read(localQueue({ status: active("False", "Stopped") })) }, "Stopped"],
    ["LocalQueue without status", { localQueue: read(localQueue({ status: null })) }, "no Active condition"],
    ["ClusterQueue missing", { clusterQueue: { _tag: "Missing", message: "does not exist" } }, "ClusterQueue/cq"],
    [
      "ClusterQueue inactive",
      { clusterQueue: read(clusterQueue({}, { status: active("False", "AdmissionCheckInactive") })) },
      "AdmissionCheckInactive"
    ],
    [
      "ClusterQueue being deleted, which stays Active True",
      { clusterQueue: read(clusterQueue({}, { metadata: meta("cq", deleted) })) },
      "is being deleted"
    ],
    [
      "no namespaceSelector matches nothing",
      { clusterQueue: read(clusterQueue({ namespaceSelector: null })) },
      "matches no namespace"
    ],
    [
      "namespaceSelector of another namespace's name",
      {
        clusterQueue: read(
          clusterQueue({ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "team-b" } } })
        )
      },
      "does not match"
    ],
    [
      "namespaceSelector of another label",
      {
        clusterQueue: read(clusterQueue({ namespaceSelector: { matchLabels: { team: "b" } } })),
        namespaceObject: read({ metadata: meta("team-a", { labels: { team: "a" } }) })
      },
      "does not match"
    ],
    ["our check is not listed", { clusterQueue: read(clusterQueue({ admissionChecksStrategy: null })) }, `"gate"`],
    [
      "our check is listed with onFlavors",
      {
        clusterQueue: read(
          clusterQueue({ admissionChecksStrategy: { admissionChecks: [{ name: "gate", onFlavors: ["a100"] }] } })
        )
      },
      "a100"
    ],
    [
      "a MultiKueue check",
      {
        clusterQueue: read(
          clusterQueue({ admissionChecksStrategy: { admissionChecks: [{ name: "gate" }, { name: "mk" }] } })
        ),
        checks: {
          gate: read(check()),
          mk: read(check({ spec: { controllerName: "kueue.x-k8s.io/multikueue" } }))
        }
      },
      "MultiKueue"
    ],
    [
      "a concurrent-admission policy",
      { clusterQueue: read(clusterQueue({ concurrentAdmissionPolicy: {} })) },
      "concurrentAdmissionPolicy"
    ],
    [
      "AdmissionCheck missing",
      { checks: { gate: { _tag: "Missing", message: "does not exist" } } },
      "AdmissionCheck/gate"
    ],
    [
      "AdmissionCheck of another controller",
      { checks: { gate: read(check({ spec: { controllerName: "acme.io/other" } })) } },
      "acme.io/other"
    ],
    ["Q04: AdmissionCheck inactive", { checks: { gate: read(check({ status: active("False") })) } }, "Active False"],
    [
      "AdmissionCheck being deleted, which stays Active True while in use",
      { checks: { gate: read(check({ metadata: meta("gate", deleted) })) } },
      "is being deleted"
    ],
    ["Lease missing", { lease: { _tag: "Missing", message: "does not exist" } }, "Lease/gate"],
    ["Lease without a holder", { lease: read(lease({ holderIdentity: "" })) }, "no holder"],
    ["Lease never renewed", { lease: read(lease({ renewTime: null })) }, "renewTime"],
    [
      "Q04: Lease expired by the server's clock",
      { lease: read(lease({ renewTime: "2026-01-01T11:59:44.000000Z" })) },
      "expired 1 s ago by the server's clock"
    ],
    ["Kueue is not served", { served: { _tag: "NotServed" } }, "not served"],
    ["only v1beta1 is served", { served: { _tag: "Served", version: "v1beta1" } }, "v1beta1"]
  ]
  for (const [what, change, names] of refuting) {
    it(`missing or mismatching is no, naming the object: ${what}`, () => {
      const refuted = gate(change)
      expect(refuted._tag).toBe("Refuted")
      expect("reason" in refuted ? refuted.reason : "").toContain(names)
    })
  }

  const unreadable = { _tag: "Unreadable", message: "cannot get it: forbidden" } as const
  const open: ReadonlyArray<readonly [string, Partial<GateProof.Findings>]> = [
    ["LocalQueue", { localQueue: unreadable, clusterQueue: { _tag: "Skipped" } }],
    ["ClusterQueue", { clusterQueue: unreadable }],
    ["AdmissionCheck", { checks: { gate: unreadable } }],
    ["Lease", { lease: unreadable }],
    [
      "Namespace, when its labels matter",
      {
        clusterQueue: read(clusterQueue({ namespaceSelector: { matchLabels: { team: "a" } } })),
        namespaceObject: unreadable
      }
    ],
    [
      "another check, which may be MultiKueue's",
      {
        clusterQueue: read(
          clusterQueue({ admissionChecksStrategy: { admissionChecks: [{ name: "gate" }, { name: "other" }] } })
        ),
        checks: { gate: read(check()), other: unreadable }
      }
    ],
    ["discovery", { served: { _tag: "Undiscovered", message: "cannot get /apis: forbidden" } }]
  ]
  for (const [what, change] of open) {
    it(`unreadable is unknown: ${what}`, () => {
      const verdict = gate(change)
      expect(verdict._tag).toBe("Unknown")
      expect("reason" in verdict ? verdict.reason : "").toContain("forbidden")
    })
  }

  it("one refuted step outweighs unknown ones", () => {
    expect(gate({ lease: unreadable, localQueue: { _tag: "Missing", message: "does not exist" } })._tag).toBe("Refuted")
  })

  it("by our own clock a Lease that ends within the skew allowance proves nothing, either way", () => {
    const at = (millis: number) => gate({ now: { millis, of: "client" } })._tag
    const end = Date.UTC(2026, 0, 1, 12, 0, 5, 123)
    expect(at(end - 5_001)).toBe("Proven")
    expect(at(end - 4_999)).toBe("Unknown")
    expect(at(end + 4_999)).toBe("Unknown")
    expect(at(end + 5_001)).toBe("Refuted")
  })

  it("by our own clock a Lease that was renewed in the future proves that the clocks disagree, and nothing else", () => {
    const now = { millis: Date.UTC(2026, 0, 1, 9), of: "client" } as const
    const found = gate({ now })
    expect(found._tag).toBe("Unknown")
    expect("reason" in found ? found.reason : "").toContain("was renewed in the future by our clock")
    expect(gate({ now: { ...now, of: "server" } })._tag).toBe("Proven")
  })

  it("the Date header is cut to seconds: a Lease that ends within its second proves nothing", () => {
    const end = Date.UTC(2026, 0, 1, 12, 0, 5, 123)
    const at = (millis: number) => gate({ now: { millis, of: "server" } })._tag
    expect(at(end - 1001)).toBe("Proven")
    expect(at(end - 999)).toBe("Refuted")
    expect(at(end + 1)).toBe("Refuted")
  })

  it("v1beta1's plain list of checks applies to all flavors", () => {
    expect(GateProof.listedChecks(clusterQueue({ admissionChecksStrategy: null, admissionChecks: ["gate"] }))).toEqual([
      { name: "gate", onFlavors: [] }
    ])
  })
})

describe("metav1.LabelSelector", () => {
  const labels: { readonly [key: string]: string } = { team: "a", tier: "gold" }
  const selects = (selector: Parameters<typeof GateProof.selects>[0]) =>
    GateProof.selects(selector, (key) => ({ known: key !== "secret", value: labels[key] }))
  const expression = (key: string, operator: string, ...values: ReadonlyArray<string>) =>
    selects({ matchExpressions: [{ key, operator, values }] })

  it("absent matches nothing, {} everything", () => {
    expect(selects(undefined)).toBe(false)
    expect(selects(null)).toBe(false)
    expect(selects({})).toBe(true)
  })

  it("NotIn and DoesNotExist hold for a missing key", () => {
    expect(expression("team", "In", "a", "b")).toBe(true)
    expect(expression("team", "In", "b")).toBe(false)
    expect(expression("none", "In", "a")).toBe(false)
    expect(expression("team", "NotIn", "a")).toBe(false)
    expect(expression("none", "NotIn", "a")).toBe(true)
    expect(expression("team", "Exists")).toBe(true)
    expect(expression("none", "Exists")).toBe(false)
    expect(expression("team", "DoesNotExist")).toBe(false)
    expect(expression("none", "DoesNotExist")).toBe(true)
  })

  it("an unknown label or operator leaves it undecided, unless another requirement already fails", () => {
    expect(selects({ matchLabels: { secret: "x" } })).toBeUndefined()
    expect(expression("team", "Near", "a")).toBeUndefined()
    expect(selects({ matchLabels: { secret: "x", team: "b" } })).toBe(false)
  })
})
