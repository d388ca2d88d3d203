import * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import type * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import type { Node } from "@dispatch-kubeflow/core/model/Core"
import { describe, expect, it } from "@effect/vitest"
import {
  at,
  base,
  disruption,
  evidenceOf,
  failed,
  job,
  jobSet,
  lost,
  ms,
  node,
  outOfService,
  pod,
  type PodFields,
  running,
  type Seen,
  seen,
  terminated,
  trainJob,
  waiting
} from "./EvidenceFixtures.js"

const decide = (
  observations: ReadonlyArray<Seen>,
  nodes: Readonly<Record<string, Node | undefined>>,
  options: Partial<CessationVerdict.Facts> = {}
): CessationVerdict.Verdict =>
  CessationVerdict.decide({
    evidence: evidenceOf(...observations),
    uid: undefined,
    nodes: new Map(
      Object.entries(nodes).map(([name, it]) => [
        name,
        it === undefined ? { _tag: "Missing" } : { _tag: "Found", node: it }
      ])
    ),
    leases: new Map(),
    now: ms(500),
    outOfService: "always",
    ...options
  })

const two = (fields: PodFields = {}): ReadonlyArray<Seen> => [
  ...base,
  seen.pod(pod({ uid: "p0", index: 0, ...fields }), 1),
  seen.pod(pod({ uid: "p1", index: 1, ...fields }), 1)
]
const recorded = [seen.node(node({ name: "n0" }), 2), seen.node(node({ name: "n1" }), 2)]

describe("Cessation verdict, enumerated", () => {
  const kinds = ["deleted", "out-of-service", "out-of-service, ready", "replaced", "not-ready", "ready"] as const
  type Kind = (typeof kinds)[number]
  const make = (kind: Kind, name: string): Node | undefined => {
    switch (kind) {
      case "deleted":
        return undefined
      case "out-of-service":
        return node({ name, ready: "Unknown", taints: [outOfService] })
      case "out-of-service, ready":
        return node({ name, taints: [outOfService] })
      case "replaced":
        return node({ name, uid: "another" })
      case "not-ready":
        return node({ name, ready: "Unknown" })
      case "ready":
        return node({ name })
    }
  }
  const isCeased = (kind: Kind, policy: CessationVerdict.Facts["outOfService"]): boolean =>
    kind === "deleted" || kind === "out-of-service" || (kind === "out-of-service, ready" && policy === "always")

  for (const policy of ["always", "unless-ready"] as const) {
    for (const a of kinds) {
      for (const b of kinds) {
        it(`${a} and ${b}, outOfService ${policy}`, () => {
          const verdict = decide(
            [...two(), ...recorded],
            { n0: make(a, "n0"), n1: make(b, "n1") },
            { outOfService: policy }
          )
          expect(verdict.ceased).toBe(isCeased(a, policy) && isCeased(b, policy))
          expect(verdict.nodes.map(({ ceased }) => ceased)).toEqual([isCeased(a, policy), isCeased(b, policy)])
          expect(verdict.nodes.map(({ state }) => state)).toEqual([a, b].map((kind) => kind.replace(", ready", "")))
          // A no always says why; a yes about a Ready Node carries a caution that names it
          expect(verdict.reasons.length === 0).toBe(verdict.ceased)
          if (a === "out-of-service, ready") expect(verdict.cautions.some((it) => it.includes("n0"))).toBe(true)
          expect(verdict.ended).toBe(verdict.ceased)
        })
      }
    }
  }
})

describe("Cessation verdict", () => {
  const gone = { n0: undefined, n1: undefined }

  it("never vacuously true: no pod ever seen", () => {
    const verdict = decide(base, {})
    expect(verdict).toMatchObject({ ceased: false, ended: false, nodes: [], execution: undefined })
    expect(verdict.reasons).toHaveLength(1)
  })

  it("pods that an earlier TrainJob of the name left running are a caution, also while this one has none", () => {
    const left = [
      seen.trainJob(trainJob(), 0),
      seen.jobSet(jobSet({ uid: "js-0", owner: "tj-0" }), 0),
      seen.pod(pod({ uid: "left", jobSetUid: "js-0" }), 1)
    ]
    const without = decide(left, {})
    expect(without).toMatchObject({ ceased: false, execution: undefined })
    expect(without.cautions.join()).toContain("run-1-node-0-0-left")
    expect(decide([...left, ...two(), ...recorded], gone).cautions.join()).toContain("run-1-node-0-0-left")
  })

  it("never vacuously true: no pod was ever bound", () => {
    const verdict = decide([...base, seen.pod(pod({ node: null, phase: "Pending", container: null }), 1)], {})
    expect(verdict.ceased).toBe(false)
    expect(verdict.reasons).toContain("No pod of it was ever seen bound to a Node.")
    expect(verdict.reasons.join()).toContain("may still start")
  })

  it("an expected rank of which no pod was seen: not ceased, saying which", () => {
    const verdict = decide([...base, seen.pod(pod(), 1)], gone)
    expect(verdict).toMatchObject({ ceased: false, ended: false })
    expect(verdict.reasons).toEqual(["no pod of run-1-node-0 index 1 was seen: its Node is not known"])
  })

  it("how many pods there are is not known: not ceased", () => {
    const observations = [
      seen.trainJob({ ...trainJob(), spec: { suspend: false } }, 0),
      seen.pod(pod({ uid: "p0" }), 1)
    ]
    expect(decide(observations, gone)).toMatchObject({ ceased: false, ended: false })
  })

  it("numNodes says how many when Job and JobSet are gone unseen", () => {
    expect(decide([seen.trainJob(trainJob({ numNodes: 1 }), 0), seen.pod(pod(), 1)], gone).ceased).toBe(true)
    expect(decide([seen.trainJob(trainJob({ numNodes: 2 }), 0), seen.pod(pod(), 1)], gone).ceased).toBe(false)
  })

  it("a pod that vanished before its Node was known: not ceased", () => {
    const observations = [
      ...base,
      seen.pod(pod({ uid: "p0" }), 1),
      seen.pod(pod({ uid: "p1", index: 1, node: null, phase: "Pending", container: null }), 1),
      seen.pod(pod({ uid: "p1", index: 1, node: null, phase: "Pending", container: null }), 9, "inferred")
    ]
    expect(decide(observations, gone)).toMatchObject({ ceased: false, ended: false })
    // Its deletion was seen, still without a Node: it never ran
    const told = [
      ...observations.slice(0, -1),
      seen.pod(pod({ uid: "p1", index: 1, node: null, phase: "Pending", container: null }), 9, "seen")
    ]
    expect(decide(told, gone)).toMatchObject({ ceased: true, ended: true })
  })

  it("N07: the pods were force-deleted by PodGC: their Nodes come from kept evidence", () => {
    const observations = [
      ...two(),
      seen.pod(pod({ uid: "p0", index: 0, phase: "Failed", deletion: [40, 0] }), 40, "seen"),
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", deletion: [40, 0] }), 40, "seen"),
      seen.trainJob(trainJob({ conditions: [failed(41)] }), 41)
    ]
    expect(decide(observations, { n0: node({ name: "n0", ready: "Unknown" }), n1: undefined })).toMatchObject({
      ceased: false,
      ended: false
    })
    expect(decide(observations, gone)).toMatchObject({ ceased: true, ended: true })
  })

  it("N12: Nodes of replaced pods of the same execution count", () => {
    const observations = [
      ...two(),
      seen.pod(pod({ uid: "p1", index: 1, phase: "Failed", deletion: [40, 0] }), 40, "seen"),
      seen.pod(pod({ uid: "p2", index: 1, node: "n4", created: 41 }), 41)
    ]
    expect(CessationVerdict.nodeNames(evidenceOf(...observations))).toEqual(["n0", "n1", "n4"])
    expect(decide(observations, { ...gone, n4: node({ name: "n4" }) }).ceased).toBe(false)
  })

  it("all incarnations of the number count, and the answer says that there is more than one", () => {
    const observations = [
      ...two(),
      ...[0, 1].map((index) =>
        seen.pod(
          pod({ uid: `p${index}`, index, phase: "Failed", container: terminated(143, "Error", 9), deletion: [9, 0] }),
          9,
          "seen"
        )
      ),
      seen.jobSet(jobSet(), 9, "seen"),
      seen.jobSet(jobSet({ uid: "js-2" }), 10),
      seen.job(job({ uid: "job-2", jobSetUid: "js-2", started: 10 }), 10),
      seen.pod(pod({ uid: "q0", index: 0, jobSetUid: "js-2", jobUid: "job-2", created: 10, node: "n2" }), 10),
      seen.pod(pod({ uid: "q1", index: 1, jobSetUid: "js-2", jobUid: "job-2", created: 10, node: "n3" }), 10)
    ]
    expect(CessationVerdict.nodeNames(evidenceOf(...observations))).toEqual(["n0", "n1", "n2", "n3"])
    const verdict = decide(observations, { ...gone, n2: undefined, n3: node({ name: "n3" }) })
    expect(verdict).toMatchObject({ ceased: false, incarnations: 2 })
    expect(verdict.cautions.join()).toContain("2 times")
  })

  it("an earlier execution that still terminates is a caution, not a part of the answer", () => {
    const observations = [
      ...two({ deletion: [20, 30] }),
      seen.job(job({ started: 25 }), 25),
      seen.pod(pod({ uid: "q0", index: 0, count: 2, created: 25, node: "n2" }), 25),
      seen.pod(pod({ uid: "q1", index: 1, count: 2, created: 25, node: "n3" }), 25)
    ]
    const verdict = decide(observations, { n2: undefined, n3: undefined })
    expect(verdict).toMatchObject({ ceased: true, execution: 2 })
    expect(verdict.cautions.join()).toContain("Nothing proves that pods of other executions have ended")
  })

  it("a rank that had succeeded before a Release is not expected again", () => {
    const observations = [
      ...two({ phase: "Succeeded", container: terminated(0, "Completed", 9) }).slice(0, -1),
      seen.pod(pod({ uid: "p1", index: 1, deletion: [20, 30] }), 20),
      seen.job(job({ started: 25 }), 25),
      seen.pod(pod({ uid: "q1", index: 1, count: 2, created: 25, node: "n3" }), 25)
    ]
    expect(decide(observations, { n3: undefined })).toMatchObject({ ceased: true, execution: 2 })
  })

  it("N06: another taint is not enough", () => {
    const shut = { key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule" }
    expect(decide(two(), { n0: node({ name: "n0", ready: "Unknown", taints: [shut] }), n1: undefined }).ceased).toBe(
      false
    )
  })

  it("the taint counts with any value and effect", () => {
    for (const effect of ["NoExecute", "NoSchedule", "PreferNoSchedule"]) {
      const tainted = node({ name: "n0", ready: "False", taints: [{ key: outOfService.key, effect }] })
      expect(decide(two(), { n0: tainted, n1: undefined }).ceased).toBe(true)
    }
  })

  it("N02: replaced stays not ceased until that Node is deleted or tainted", () => {
    const observations = [...two(), ...recorded]
    expect(decide(observations, { n0: node({ name: "n0", uid: "u2" }), n1: undefined }).reasons.join()).toContain("u2")
    const tainted = node({ name: "n0", uid: "u2", ready: "Unknown", taints: [outOfService] })
    expect(decide(observations, { n0: tainted, n1: undefined }).ceased).toBe(true)
  })

  it("N01: a deleted Node whose kubelet renews its Lease is a caution", () => {
    const cautions = (lease: CessationVerdict.Lease): string =>
      decide(two(), gone, { leases: new Map([["n0", lease]]) }).cautions.join()
    expect(cautions("valid")).toContain("n0 is deleted but")
    expect(cautions("unreadable")).toContain("kube-node-lease/n0 could not be read")
    for (const lease of ["expired", "absent"] as const) expect(cautions(lease)).not.toContain("n0 is deleted but")
  })

  it("N06: out of service while the kubelet shows any sign of life: a caution, and with unless-ready a no", () => {
    const tainted = (ready: string) => node({ name: "n0", ready, taints: [outOfService] })
    for (const [ready, lease, alive] of [
      ["True", "absent", true],
      // The kubelet's own word that its runtime does not answer; only a silent kubelet is Unknown
      ["False", "valid", true],
      ["False", "unreadable", true],
      ["False", "expired", false],
      ["Unknown", "valid", true],
      ["Unknown", "expired", false],
      ["Unknown", "absent", false]
    ] as const) {
      const leases = new Map([["n0", lease]])
      const nodes = { n0: tainted(ready), n1: undefined }
      const always = decide(two(), nodes, { leases })
      expect([ready, lease, always.ceased]).toEqual([ready, lease, true])
      const hasCaution = always.cautions.some((it) => it.includes("n0 is marked out of service but"))
      expect([ready, lease, hasCaution]).toEqual([ready, lease, alive])
      const { ceased, reasons } = decide(two(), nodes, { leases, outOfService: "unless-ready" })
      expect([ready, lease, ceased]).toEqual([ready, lease, !alive])
      expect(reasons.length === 0).toBe(ceased)
    }
  })

  it("N02: another machine under the Node's name proves nothing by its bootID", () => {
    const now = (name: string, machineID?: string) =>
      node({ name, bootID: "boot-2", ...(machineID === undefined ? {} : { machineID }) })
    const other = decide([...two(), ...recorded], { n0: now("n0", "another"), n1: now("n1") })
    expect(other).toMatchObject({
      ended: false,
      nodes: [
        { rebooted: false, otherMachine: true },
        { rebooted: true, otherMachine: false }
      ]
    })
    expect(other.reasons.join()).toContain("n0 is ready: it is another machine now")
    // A machine that was never told apart from others is not told to be the same either
    const nameless = { ...now("n0"), status: { ...now("n0").status, nodeInfo: { bootID: "boot-2" } } }
    expect(decide([...two(), ...recorded], { n0: nameless, n1: now("n1") })).toMatchObject({
      ended: false,
      nodes: [{ rebooted: false, otherMachine: false }, {}]
    })
    // Read of the other machine, its boot is not taken for that of the pod's
    const gonePods = ["p0", "p1"].map((uid, index) =>
      seen.pod(pod({ uid, index, node: `n${index}`, container: null, phase: "Pending" }), 1)
    )
    const left = ["p0", "p1"].map((uid, index) =>
      seen.pod(pod({ uid, index, node: `n${index}`, version: 9, deletion: [8, 30] }), 9, "seen")
    )
    const replaced = seen.node(node({ name: "n0", machineID: "another", bootID: "boot-7" }), 10)
    const same = seen.node(node({ name: "n1" }), 10)
    const verdict = decide([...base, ...gonePods, ...recorded, ...left, replaced, same], {
      n0: node({ name: "n0", machineID: "another", bootID: "boot-8" }),
      n1: now("n1")
    })
    expect(verdict.pods.map(({ ended }) => ended)).toEqual([false, true])
    // Registered after the pod was made: nobody saw by which machine
    const young = { ...node({ name: "n0" }), metadata: { ...node({ name: "n0" }).metadata, creationTimestamp: at(2) } }
    expect(
      decide([...two(), seen.node(young, 3), seen.node(node({ name: "n1" }), 3)], { n0: now("n0"), n1: now("n1") })
    ).toMatchObject({ ended: false, pods: [{ ended: false }, { ended: true }] })
  })

  it("containers with a restart policy or rules of their own may be started again in a pod that has restartPolicy Never", () => {
    const done = two({ container: terminated(42, "Error", 5) })
    expect(decide(done, gone).ended).toBe(true)
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }
    expect(decide(done, ready).ended).toBe(true)
    for (const own of [{ restartPolicy: "OnFailure" }, { restartPolicyRules: [{ action: "Restart" }] }]) {
      const observations = done.map((it) =>
        it._tag === "Pod"
          ? {
              ...it,
              object: {
                ...it.object,
                spec: { ...it.object.spec, containers: [{ name: "node", ...own }] }
              }
            }
          : it
      )
      const verdict = decide(observations, ready)
      expect([own, verdict.ended]).toEqual([own, false])
      expect(verdict.pods[0]?.proof).toMatchObject({ reason: "container node may be started again" })
    }
  })

  it("a phase that PodGC wrote is not the kubelet's word that nothing is started again", () => {
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1", ready: "Unknown" }) }
    const backOff = (conditions: ReadonlyArray<ReturnType<typeof disruption>>) =>
      two({ restartPolicy: "OnFailure", phase: "Failed", container: terminated(1, "Error", 5), conditions })
    expect(decide(backOff([]), ready).ended).toBe(true)
    expect(decide(backOff([disruption("DeletionByPodGC", 6)]), ready).ended).toBe(false)
  })

  it("ephemeral containers count until they were seen to end", () => {
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }
    const debugged = (state: object | undefined) =>
      two({ phase: "Failed", container: terminated(1, "Error", 5) }).map((it) =>
        it._tag === "Pod"
          ? {
              ...it,
              object: {
                ...it.object,
                spec: { ...it.object.spec, ephemeralContainers: [{ name: "debug" }] },
                status: {
                  ...it.object.status,
                  ...(state === undefined ? {} : { ephemeralContainerStatuses: [{ name: "debug", state }] })
                }
              }
            }
          : it
      )
    expect(decide(debugged(undefined), ready).ended).toBe(false)
    expect(decide(debugged({ running: { startedAt: at(3) } }), ready).ended).toBe(false)
    expect(
      decide(debugged({ terminated: { exitCode: 0, containerID: "containerd://d", finishedAt: at(7) } }), ready).ended
    ).toBe(true)
  })

  it("clocks that differ by a second do not leave a start without pods", () => {
    const owners = [seen.trainJob(trainJob(), 0), seen.jobSet(jobSet(), 0)]
    const started = job({ started: 2 })
    const pods = [0, 1].map((index) =>
      seen.pod(pod({ uid: `p${index}`, index, created: 1, phase: "Failed", container: terminated(1, "Error", 5) }), 6)
    )
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }
    expect(decide([...owners, seen.job(started, 2), ...pods], ready).ended).toBe(true)
    // Much older pods belong to a start that nobody saw
    const late = job({ started: 60 })
    expect(decide([...owners, seen.job(late, 60), ...pods], ready).ended).toBe(false)
  })

  describe("what the objects count, and nobody saw", () => {
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }
    const done = two({ phase: "Failed", container: terminated(1, "Error", 5) })
    const withJob = (change: (it: ReturnType<typeof job>) => ReturnType<typeof job>): ReadonlyArray<Seen> => [
      ...done,
      seen.job(change(job({ started: 0 })), 9)
    ]
    const reasons = (observations: ReadonlyArray<Seen>): string => {
      const { ended, reasons } = decide(observations, ready)
      expect(ended).toBe(false)
      return reasons.join()
    }

    it("a pod that was replaced", () => {
      const counted = (failed: number) => withJob((it) => ({ ...it, status: { ...it.status, failed } }))
      expect(decide(counted(2), ready).ended).toBe(true)
      expect(reasons(counted(3))).toContain("run-1-node-0 counts 3 pods, and 2 were seen")
    })

    it("a rank that an elastic Job had before", () => {
      const wide = (parallelism: number) => (it: ReturnType<typeof job>) => ({
        ...it,
        metadata: { ...it.metadata, resourceVersion: String(10 - parallelism) },
        spec: { ...it.spec, parallelism, completions: parallelism }
      })
      expect(reasons([...withJob(wide(3)), ...withJob(wide(2))])).toContain("run-1-node-0 index 2")
    })

    it("an attempt of the JobSet", () => {
      const again: Seen = seen.jobSet({ ...jobSet(), status: { conditions: [], restarts: 1 } }, 9)
      expect(reasons([...done, again])).toContain("no pod of attempt 1 of JobSet run-1 was seen")
    })

    it("a JobSet that went before anybody saw a pod of it", () => {
      const first = (presence: "seen" | "inferred") => seen.jobSet(jobSet({ uid: "js-0" }), 0, presence)
      expect(reasons([...done, first("inferred")])).toContain("a JobSet run-1 (uid js-0) went while nobody looked")
      expect(decide([...done, first("seen")], ready).ended).toBe(true)
    })

    it("a Job of a replicatedJob, unless it waits for another one", () => {
      const withLauncher = (dependsOn: ReadonlyArray<{ name: string; status: string }>): Seen =>
        seen.jobSet(
          {
            ...jobSet(),
            spec: {
              replicatedJobs: [...(jobSet().spec?.replicatedJobs ?? []), { name: "launcher", replicas: 1, dependsOn }]
            }
          },
          9
        )
      expect(reasons([...done, withLauncher([])])).toContain("neither Job run-1-launcher-0 nor a pod of it was seen")
      expect(decide([...done, withLauncher([{ name: "node", status: "Complete" }])], ready).ended).toBe(true)
      expect(reasons([...done, withLauncher([{ name: "node", status: "Ready" }])])).toContain("run-1-launcher-0")
    })

    it("a first JobSet that is much younger than the start is a caution", () => {
      const late = (second: number) => {
        const made = jobSet()
        return decide(
          [
            seen.trainJob(trainJob(), 0),
            seen.jobSet({ ...made, metadata: { ...made.metadata, creationTimestamp: at(second) } }, second),
            seen.job(job({ started: second }), second),
            ...[0, 1].map((index) =>
              seen.pod(
                pod({
                  uid: `p${index}`,
                  index,
                  created: second,
                  phase: "Failed",
                  container: terminated(1, "Error", second)
                }),
                second + 5
              )
            )
          ],
          ready
        ).cautions.join()
      }
      expect(late(46)).toContain("46 s younger than the start of its TrainJob")
      expect(late(5)).not.toContain("younger")
    })
  })

  it("pods of earlier executions that prove nothing are told, with their Nodes to read", () => {
    const numbered = (uid: string, number: number, fields: PodFields = {}) =>
      pod({ uid, index: 0, count: number, node: `n${number}`, ...fields })
    const observations = [
      ...base,
      seen.pod(numbered("p1", 1), 1),
      seen.pod(numbered("p1", 1, { version: 5, deletion: [4, 0] }), 5, "seen"),
      seen.pod(numbered("p2", 2, { created: 10, phase: "Failed", container: terminated(1, "Error", 15) }), 15)
    ]
    expect(CessationVerdict.nodeNames(evidenceOf(...observations))).toEqual(["n1", "n2"])
    const nodes = { n1: node({ name: "n1" }), n2: node({ name: "n2" }) }
    const verdict = decide(observations, nodes)
    expect(verdict.earlier).toMatchObject([{ name: "run-1-node-0-0-p1", node: "n1", ended: false }])
    expect(verdict.cautions.join()).toContain("pods of other executions have ended: run-1-node-0-0-p1 on n1")
    expect(decide(observations, { ...nodes, n1: undefined }).earlier).toEqual([])
  })

  it("whose a JobSet is does not change when it is left behind by its owner", () => {
    const orphaned: Seen = seen.jobSet({ ...jobSet(), metadata: { ...jobSet().metadata, ownerReferences: [] } }, 9)
    const done = two({ phase: "Failed", container: terminated(1, "Error", 5) })
    const ready = { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }
    expect(decide([...done, orphaned], ready)).toMatchObject({ ended: true, execution: 1 })
  })

  it("rebooted: reported with both bootIDs, not ceased by itself, and the pods' processes have ended", () => {
    const verdict = decide([...two(), ...recorded], {
      n0: node({ name: "n0", bootID: "boot-2" }),
      n1: node({ name: "n1", bootID: "boot-2" })
    })
    expect(verdict).toMatchObject({
      ceased: false,
      ended: true,
      nodes: [{ rebooted: true, bootID: "boot-2", recordedBootIDs: ["boot-1"] }, { rebooted: true }]
    })
    // Nothing was recorded while the pods ran: a bootID proves nothing
    expect(decide(two(), { n0: node({ name: "n0" }), n1: node({ name: "n1" }) }).nodes[0]?.rebooted).toBe(false)
  })

  it("rebooted before it was started: the next boot starts what is bound, so the bootID proves nothing", () => {
    const rebooted = {
      n0: node({ name: "n0", bootID: "boot-2" }),
      n1: node({ name: "n1", bootID: "boot-2" })
    }
    const bound = [...two({ phase: "Pending", container: null }), ...recorded]
    expect(decide(bound, rebooted).ended).toBe(false)
    const started = (presence?: "seen") =>
      [0, 1].map((index) => seen.pod(pod({ uid: `p${index}`, index, version: 9, node: `n${index}` }), 9, presence))
    expect(decide([...bound, ...started()], rebooted).ended).toBe(false)
    // Read again while it runs, the bootID is that of the boot in which it runs; while it does not run any more, of the last that could
    const again = (bootID: string) =>
      ["n0", "n1"].map((name) => seen.node(node({ name, uid: name === "n0" ? "u0" : "u1", bootID }), 10, name))
    expect(decide([...bound, ...started(), ...again("boot-2")], rebooted).ended).toBe(false)
    expect(decide([...bound, ...started(), ...again("boot-1")], rebooted).ended).toBe(true)
    expect(decide([...bound, ...started("seen"), ...again("boot-2")], rebooted).ended).toBe(false)
    expect(decide([...bound, ...started("seen"), ...again("boot-1")], rebooted).ended).toBe(true)
  })

  it("N03, N04: pods forced away, Nodes not ready or ready: neither ceased nor ended", () => {
    const forced = [
      ...two(),
      seen.pod(pod({ uid: "p0", index: 0, deletion: [9, 0] }), 9, "seen"),
      seen.pod(pod({ uid: "p1", index: 1, deletion: [9, 0] }), 9, "seen")
    ]
    for (const ready of ["True", "Unknown", "False"]) {
      expect(decide(forced, { n0: node({ name: "n0", ready }), n1: node({ name: "n1", ready }) })).toMatchObject({
        ceased: false,
        ended: false
      })
    }
  })

  it("ended by proof while every Node is ready: a run that completed", () => {
    const verdict = decide(two({ phase: "Succeeded", container: terminated(0, "Completed", 9) }), {
      n0: node({ name: "n0" }),
      n1: node({ name: "n1" })
    })
    expect(verdict).toMatchObject({ ceased: false, ended: true })
    expect(verdict.pods[0]?.proof).toMatchObject({
      _tag: "terminated",
      containers: [{ name: "node", containerID: "containerd://c" }]
    })
  })
})

describe("proof of a pod's end", () => {
  const proof = (fields: PodFields, presence: Evidence.Presence = "present", ...before: ReadonlyArray<PodFields>) => {
    const evidence = evidenceOf(
      ...base,
      ...before.map((it, index) => seen.pod(pod({ version: index + 1, ...it }), index)),
      seen.pod(pod({ version: 9, ...fields }), 9, presence)
    )
    return decide([], { n0: node() }, { evidence }).pods[0]?.proof
  }
  const sidecar = (state: ReturnType<typeof terminated>) => ({ ...state, name: "proxy", sidecar: true })
  const exited = terminated(0, "Completed", 9)
  const rows: ReadonlyArray<readonly [string, ReturnType<typeof proof>, string]> = [
    ["running", proof({}), "none"],
    ["terminated, phase lags", proof({ container: exited }), "terminated"],
    ["phase Failed alone: PodGC writes it while the process lives", proof({ phase: "Failed" }), "none"],
    ["DELETED that still says running", proof({ deletion: [9, 0] }, "seen"), "none"],
    ["DELETED with terminated", proof({ container: exited, deletion: [9, 0] }, "seen"), "terminated"],
    ["inferred deletion of a pod last seen running", proof({}, "inferred"), "none"],
    [
      "terminated without containerID",
      proof({ container: { ...exited, state: { terminated: { exitCode: 0 } } } }),
      "none"
    ],
    ["sidecar still running", proof({ phase: "Running", container: exited, init: [sidecar(running())] }), "none"],
    [
      "sidecar terminated too",
      proof({ container: exited, init: [sidecar(terminated(0, "Completed", 10))] }),
      "terminated"
    ],
    [
      "K01: real ending, then ContainerStatusUnknown",
      proof({ phase: "Failed", container: lost }, "present", { container: exited }),
      "terminated"
    ],
    ["ContainerStatusUnknown without start time", proof({ phase: "Failed", container: lost }), "never-started"],
    [
      "a lost container that used to run",
      proof({
        phase: "Failed",
        container: {
          ...lost,
          restartCount: 1,
          lastState: { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } }
        }
      }),
      "none"
    ],
    [
      "OnFailure: it may be started again",
      proof({ restartPolicy: "OnFailure", container: terminated(1, "Error", 9) }),
      "none"
    ],
    [
      "OnFailure, pod Failed",
      proof({ restartPolicy: "OnFailure", phase: "Failed", container: terminated(1, "Error", 9) }),
      "terminated"
    ],
    ["refused by the kubelet", proof({ phase: "Failed", reason: "OutOfcpu", container: null }), "never-started"],
    ["no statuses and no reason", proof({ phase: "Failed", container: null }), "none"],
    ["not bound, may start", proof({ node: null, phase: "Pending", container: null }), "none"],
    [
      "not bound, being deleted",
      proof({ node: null, phase: "Pending", container: null, deletion: [9, 30] }),
      "never-started"
    ],
    [
      "init container failed for good: the main one never starts",
      proof({
        phase: "Failed",
        container: waiting("PodInitializing"),
        init: [{ ...terminated(5, "Error", 8), name: "setup" }]
      }),
      "terminated"
    ],
    [
      "init container done, main one not reported yet",
      proof({
        phase: "Pending",
        container: waiting("PodInitializing"),
        init: [{ ...terminated(0, "Completed", 8), name: "setup" }]
      }),
      "none"
    ]
  ]
  for (const [title, found, expected] of rows) {
    it(title, () => {
      expect(found?._tag).toBe(expected)
    })
  }
})
