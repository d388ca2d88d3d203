import * as Classification from "@dispatch-kubeflow/core/decide/Classification"
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as Execution from "@dispatch-kubeflow/core/decide/Execution"
import * as Update from "@dispatch-kubeflow/core/decide/Update"
import { parameters } from "@dispatch-kubeflow/testkit/Properties"
import { describe, expect, it } from "@effect/vitest"
import { DateTime, FastCheck as fc, Option, Schema } from "effect"
import {
  at as atSecond,
  base,
  condition,
  disruption,
  event,
  evidenceOf,
  failed,
  job,
  jobSet,
  lost,
  ms,
  name,
  namespace,
  node,
  outOfService,
  pod,
  type PodFields,
  running,
  type Seen,
  seen,
  terminated,
  trainJob,
  warning,
  workload
} from "./EvidenceFixtures.js"

type Step = { readonly seen: Seen; readonly key: string }

/** A history as the cluster writes it: the versions of each object in order, the objects interleaved. */
const history: fc.Arbitrary<ReadonlyArray<Step>> = fc
  .record({
    pods: fc.array(
      fc.record({
        count: fc.integer({ min: 1, max: 3 }),
        end: fc.constantFrom("runs", "succeeds", "fails", "oom", "evicted", "deleted", "forced", "lost"),
        code: fc.integer({ min: 1, max: 255 })
      }),
      { minLength: 1, maxLength: 5 }
    ),
    ends: fc.constantFrom("no", "failed", "held", "deleted"),
    order: fc.array(fc.nat(), { minLength: 60, maxLength: 60 })
  })
  .map(({ pods, ends, order }) => {
    let version = 10
    const next = (): number => (version += 1)
    const lines: Array<Array<(second: number) => Step>> = pods.map(
      ({ count, end, code }, index): Array<(second: number) => Step> => {
        const uid = `p${index}`
        const one = (fields: PodFields, presence: Evidence.Presence = "present") => {
          const revision = next()
          return (second: number): Step => ({
            key: `pod ${uid}`,
            seen: seen.pod(pod({ uid, index, count, created: count, version: revision, ...fields }), second, presence)
          })
        }
        const start = [
          one({ node: null, phase: "Pending", container: null }),
          one({ phase: "Pending", container: null }),
          one({})
        ]
        const exit = terminated(code, "Error", 20)
        switch (end) {
          case "succeeds":
            return [...start, one({ phase: "Succeeded", container: terminated(0, "Completed", 20) })]
          case "fails":
            return [...start, one({ container: exit }), one({ phase: "Failed", container: exit })]
          case "oom":
            return [...start, one({ phase: "Failed", container: terminated(code, "OOMKilled", 20) })]
          case "evicted": {
            const conditions = [disruption("EvictionByEvictionAPI", 15)]
            return [
              ...start,
              one({ conditions }),
              one({ conditions, deletion: [15, 30] }),
              one({ conditions, deletion: [15, 30], phase: "Failed", container: exit }),
              one({ conditions, deletion: [20, 0], phase: "Failed", container: exit }, "seen")
            ]
          }
          case "deleted":
            return [
              ...start,
              one({ deletion: [15, 30] }),
              one({ deletion: [20, 0], phase: "Failed", container: exit }, "seen")
            ]
          case "forced":
            return [...start, one({ deletion: [15, 0] }, "seen")]
          case "lost":
            return [...start, one({ phase: "Failed", container: exit }), one({ phase: "Failed", container: lost })]
          default:
            return start
        }
      }
    )
    const owner = (fields: Parameters<typeof trainJob>[0], presence: Evidence.Presence = "present") => {
      const revision = next()
      const object = trainJob(fields)
      return (second: number): Step => ({
        key: "trainjob",
        seen: seen.trainJob(
          { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } },
          second,
          presence
        )
      })
    }
    lines.push([
      owner({}),
      ...(ends === "failed" ? [owner({ conditions: [failed(30)] })] : []),
      ...(ends === "held" ? [owner({ suspend: true, conditions: [condition("Suspended", "Suspended", 14)] })] : []),
      ...(ends === "deleted" ? [owner({ deleted: 14 }, "seen")] : [])
    ])
    lines.push([(second) => ({ key: "jobset", seen: seen.jobSet(jobSet(), second) })])
    lines.push([(second) => ({ key: "job", seen: seen.job(job({ started: 0, parallelism: pods.length }), second) })])
    // Interleave: the order within a line stays
    const steps: Array<Step> = []
    const open = lines.map((line) => [...line])
    for (let turn = 0; open.some((line) => line.length > 0); turn += 1) {
      const left = open.filter((line) => line.length > 0)
      const line = left[(order[turn % order.length] ?? 0) % left.length]
      const step = line?.shift()
      if (step !== undefined) steps.push(step(steps.length))
    }
    return steps
  })

const foldSteps = (steps: ReadonlyArray<Step>, from = Evidence.empty(namespace, name)): Evidence.Evidence =>
  Evidence.foldAll(
    from,
    steps.map((step) => step.seen)
  )

/** What must not depend on when things were noticed. */
const essence = (evidence: Evidence.Evidence): unknown =>
  JSON.parse(
    JSON.stringify(evidence, (key, value: unknown) => (key === "seenAt" || key === "goneAt" ? undefined : value))
  )

const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, it]) => [key, sorted(it)])
        )
      : value

describe("Evidence laws", () => {
  it("folding is idempotent on replays: of one observation, and of any part of the history", () => {
    fc.assert(
      fc.property(history, fc.nat(), fc.nat(), (steps, a, b) => {
        const whole = foldSteps(steps)
        const [from, to] = [a % (steps.length + 1), b % (steps.length + 1)].toSorted((x, y) => x - y) as [
          number,
          number
        ]
        expect(essence(foldSteps(steps.slice(from, to), whole))).toEqual(essence(whole))
        expect(foldSteps(steps.flatMap((step) => [step, step]))).toEqual(whole)
      }),
      parameters(200)
    )
  })

  it("pod order does not matter, nor does that of any two objects", () => {
    fc.assert(
      fc.property(history, fc.array(fc.nat(), { minLength: 60, maxLength: 60 }), (steps, order) => {
        const lines = new Map<string, Array<Step>>()
        for (const step of steps) lines.set(step.key, [...(lines.get(step.key) ?? []), step])
        const shuffled: Array<Step> = []
        for (let turn = 0; shuffled.length < steps.length; turn += 1) {
          const left = [...lines.values()].filter((line) => line.length > 0)
          const step = left[(order[turn % order.length] ?? 0) % left.length]?.shift()
          if (step !== undefined) shuffled.push(step)
        }
        const [a, b] = [foldSteps(steps), foldSteps(shuffled)]
        expect(sorted(essence(b))).toEqual(sorted(essence(a)))
        expect(Classification.classify(b)).toEqual(Classification.classify(a))
      }),
      parameters(200)
    )
  })

  it("snapshot then suffix equals full history, up to seen or inferred", () => {
    fc.assert(
      fc.property(history, fc.nat(), fc.nat(), (steps, a, b) => {
        // Connected until `cut`; what comes before `back` is missed; then a list, then the rest
        const [cut, back] = [a % (steps.length + 1), b % (steps.length + 1)].toSorted((x, y) => x - y) as [
          number,
          number
        ]
        const missed = steps.slice(cut, back)
        const latest = new Map(steps.slice(0, back).map((step) => [step.key, step] as const))
        const known = new Map(steps.slice(0, cut).map((step) => [step.key, step] as const))
        const snapshot: Array<Step> = []
        for (const [key, step] of latest) {
          if (!("presence" in step.seen)) continue
          const last = known.get(key)
          if (step.seen.presence === "present") snapshot.push(step)
          else if (last !== undefined && "presence" in last.seen && last.seen.presence === "present") {
            snapshot.push({ key, seen: { ...last.seen, presence: "inferred" } })
          }
        }
        const full = foldSteps(steps)
        const resumed = foldSteps(steps.slice(back), foldSteps(snapshot, foldSteps(steps.slice(0, cut))))
        const gone = new Set(
          missed.flatMap((step) => ("presence" in step.seen && step.seen.presence !== "present" ? [step.key] : []))
        )
        for (const [uid, it] of Object.entries(full.pods)) {
          const other = resumed.pods[uid]
          // Born and gone in the gap: nobody can know
          if (other === undefined) {
            expect(gone.has(`pod ${uid}`)).toBe(true)
            continue
          }
          expect(other.presence === "present").toBe(it.presence === "present")
          if (gone.has(`pod ${uid}`)) expect(other.presence).toBe("inferred")
          else expect(other.pod).toEqual(it.pod)
        }
        expect(resumed.trainJobs["tj"]?.terminal).toEqual(full.trainJobs["tj"]?.terminal)
      }),
      parameters(200)
    )
  })

  it("is plain JSON: what is stored and read again is the same, and folds on", () => {
    const decode = Schema.decodeUnknownSync(Evidence.Evidence)
    fc.assert(
      fc.property(history, fc.nat(), (steps, a) => {
        const at = a % (steps.length + 1)
        const half = foldSteps(steps.slice(0, at))
        const again = decode(JSON.parse(JSON.stringify(half)))
        expect(again).toEqual(half)
        expect(foldSteps(steps.slice(at), again)).toEqual(foldSteps(steps.slice(at), half))
      }),
      parameters(100)
    )
  })

  it("never Application when how a pod ended was not seen", () => {
    fc.assert(
      fc.property(history, fc.nat(), (steps, which) => {
        const uids = [...new Set(steps.flatMap((step) => (step.key.startsWith("pod ") ? [step.key.slice(4)] : [])))]
        const uid = uids[which % uids.length] ?? ""
        // This pod's life is missed from the moment it runs
        const rest = steps.filter((step, index) => {
          if (step.key !== `pod ${uid}`) return true
          return steps.slice(0, index).filter(({ key }) => key === step.key).length < 3
        })
        const evidence = foldSteps([
          ...rest,
          ...rest.flatMap((step) =>
            step.key === `pod ${uid}` && step.seen._tag === "Pod"
              ? [{ key: step.key, seen: { ...step.seen, presence: "inferred" as const } }]
              : []
          )
        ])
        const verdict = Classification.classify(evidence)
        const mine = Evidence.executions(evidence).all.find((it) => it.number === verdict.execution)
        if (mine?.pods.some((it) => it.uid === uid) === true) expect(verdict.cause?._tag).not.toBe("Application")
      }),
      parameters(200)
    )
  })
})

describe("Evidence", () => {
  it("a warning that comes again and again is one, with its first time and its first words", () => {
    const tried = (n: number, why: string, at = n): Seen =>
      seen.event(
        warning("Job", `Error creating: pods "run-1-node-0-0-${n}x" is forbidden: ${why}`, n, { uid: `w${n}` }),
        at
      )
    const many = Array.from({ length: 100 }, (_, n) => tried(n + 1, "exceeded quota: q"))
    const kept = evidenceOf(...base, seen.event(event("Stopped", "by Kueue", 0), 0), ...many)
    expect(kept.events).toMatchObject([
      { reason: "Stopped" },
      { reason: "FailedCreate", uid: "w100", message: expect.stringContaining("-1x") as string, firstAt: atSecond(1) }
    ])
    expect(Evidence.foldAll(kept, many)).toEqual(kept)
    expect(evidenceOf(...base, tried(2, "exceeded quota: q"), tried(1, "exceeded quota: q", 3)).events).toMatchObject([
      { uid: "w2", firstAt: atSecond(1), at: atSecond(2) }
    ])
    // Other words are another reason
    expect(Evidence.foldAll(kept, [tried(101, "violates PodSecurity")]).events).toMatchObject([
      { reason: "Stopped" },
      { message: expect.stringContaining("PodSecurity") as string, firstAt: atSecond(1) }
    ])
  })

  it("K01: the first real termination record wins, ContainerStatusUnknown afterwards does not replace it", () => {
    const evidence = evidenceOf(
      seen.pod(pod({ version: 1, container: terminated(0, "Completed", 9) }), 9),
      seen.pod(pod({ version: 2, phase: "Failed", container: lost }), 12)
    )
    expect(evidence.pods["p0"]?.endings.map((it) => it.terminated.exitCode)).toEqual([0])
  })

  it("K09: the last status of a deleted pod is kept: conditions, reason, message, node", () => {
    const evidence = evidenceOf(
      seen.pod(pod({ version: 1 }), 1),
      seen.node(node({ uid: "u1", bootID: "b1" }), 2),
      seen.pod(pod({ version: 2, conditions: [disruption("PreemptionByScheduler", 5)], deletion: [5, 30] }), 5),
      seen.pod(pod({ version: 3, conditions: [disruption("PreemptionByScheduler", 5)], deletion: [6, 0] }), 6, "seen")
    )
    expect(evidence.pods["p0"]).toMatchObject({
      presence: "seen",
      goneAt: ms(6),
      deletionRequestedAt: "2026-11-29T17:00:05.000Z",
      deletionIsExact: true,
      node: { name: "n0", uid: "u1", bootID: "b1" },
      disruptions: [{ reason: "PreemptionByScheduler" }]
    })
  })

  it("a Node that is replaced later does not change what was recorded while the pod ran", () => {
    const evidence = evidenceOf(
      seen.pod(pod({ version: 1 }), 1),
      seen.node(node({ uid: "u1" }), 2),
      seen.node(undefined, 3),
      seen.node(node({ uid: "u2" }), 4)
    )
    expect(evidence.pods["p0"]?.node?.uid).toBe("u1")
    expect(evidence.nodes["n0"]?.map((it) => it.uid)).toEqual(["u1", undefined, "u2"])
  })

  it("PodGC overwrites the taint manager's DisruptionTarget: both are kept", () => {
    const evidence = evidenceOf(
      seen.pod(pod({ version: 1, conditions: [disruption("DeletionByTaintManager", 10)] }), 10),
      seen.pod(pod({ version: 2, conditions: [disruption("DeletionByPodGC", 60)] }), 60)
    )
    expect(evidence.pods["p0"]?.disruptions.map((it) => it.reason)).toEqual([
      "DeletionByTaintManager",
      "DeletionByPodGC"
    ])
  })

  it("a pod that lost its labels still belongs where it was", () => {
    const before = pod({ version: 1 })
    const evidence = evidenceOf(
      ...base,
      seen.pod(before, 1),
      seen.pod({ ...before, metadata: { ...before.metadata, resourceVersion: "2", labels: {} } }, 2)
    )
    expect(Evidence.executions(evidence).last?.pods.map(({ uid }) => uid)).toEqual(["p0"])
  })

  it("Workload evictions survive the next reservation and the Workload's replacement", () => {
    const evidence = evidenceOf(
      seen.workload(workload({ version: 1 }), 1),
      seen.workload(
        workload({ version: 2, conditions: [condition("Evicted", "Preempted", 5)], evictions: { Preempted: 1 } }),
        5
      ),
      seen.workload(
        workload({
          version: 3,
          conditions: [condition("Evicted", "QuotaReserved", 9, "Previously", "False")],
          evictions: { Preempted: 3 }
        }),
        9
      ),
      seen.workload(workload({ version: 3 }), 10, "seen"),
      seen.workload(workload({ uid: "wl-2", version: 12 }), 11)
    )
    expect(evidence.workloads["wl"]?.evictions.map(({ reason, source }) => [reason, source])).toEqual([
      ["Preempted", "condition"],
      ["Preempted", "stats"],
      ["Preempted", "stats"]
    ])
    expect(evidence.workloads["wl-2"]?.evictions).toEqual([])
  })

  it("no env value and no managed field is kept", () => {
    const dirty = {
      ...pod({ version: 1 }),
      metadata: {
        ...pod({ version: 1 }).metadata,
        managedFields: [{ manager: "secret-manager" }],
        annotations: { "dispatch-kubeflow.dev/admission": "1", token: "secret-annotation" }
      },
      spec: { nodeName: "n0", containers: [{ name: "node", env: [{ name: "TOKEN", value: "secret-env" }] }] }
    }
    expect(JSON.stringify(evidenceOf(seen.pod(dirty, 1)))).not.toContain("secret")
  })

  it("I09: bounded, by explicit eviction that never touches the current execution or a pod that exists", () => {
    const many = (count: number, created: number, gone: boolean): ReadonlyArray<Seen> =>
      Array.from({ length: 50 }, (_, index) => {
        const object = pod({ uid: `e${count}-${index}`, index, count, created, container: running() })
        return gone ? seen.pod(object, created + 5, "seen") : seen.pod(object, created)
      })
    const evidence = Evidence.foldAll(Evidence.empty(namespace, name), [
      ...base,
      ...many(1, 1, true),
      ...many(2, 20, true),
      ...many(3, 40, true)
    ])
    const kept = Evidence.bound(evidence, { earlierPods: 10 })
    const byExecution = (count: number): number =>
      Object.keys(kept.pods).filter((uid) => uid.startsWith(`e${count}-`)).length
    expect([byExecution(1), byExecution(2), byExecution(3)]).toEqual([0, 10, 50])
    expect(kept.droppedPods).toBe(90)
    expect(Evidence.bound(kept, { earlierPods: 10 })).toBe(kept)
    const alive = Evidence.foldAll(Evidence.empty(namespace, name), [
      ...base,
      ...many(1, 1, false),
      ...many(2, 20, false)
    ])
    expect(Evidence.bound(alive, { earlierPods: 0 })).toBe(alive)
  })

  it("counts the Nodes by the taint that was seen, not by the one that is there now", () => {
    const evidence = evidenceOf(
      seen.node(node({ taints: [outOfService] }), 1),
      seen.node(node({ taints: [outOfService] }), 2),
      seen.node(node(), 3)
    )
    expect(evidence.nodes["n0"]?.map((it) => it.taints.length)).toEqual([1, 0])
  })
})

describe("what is remembered between observations", () => {
  it("answers as if everything was read anew, after each step of any history, of one TrainJob or of two", () => {
    fc.assert(
      fc.property(history, fc.array(fc.nat(5), { maxLength: 60 }), (steps, pauses) => {
        let evidence = evidenceOf(...base)
        const others = [undefined, "tj", "never"]
        for (const [index, step] of steps.entries()) {
          evidence = Evidence.fold(evidence, step.seen)
          const uid = others[pauses[index] ?? 0]
          // A copy shares nothing with what was seen before
          const copy = structuredClone(evidence)
          expect(JSON.stringify(Evidence.executions(evidence, uid))).toBe(
            JSON.stringify(Execution.executions(Evidence.facts(copy, uid)))
          )
          expect(JSON.stringify(Update.make(evidence, uid))).toBe(JSON.stringify(Update.make(copy, uid)))
        }
      }),
      parameters(100)
    )
  })

  it("a pod that goes on as before changes no answer, whatever its history", () => {
    let quiet = 0
    fc.assert(
      fc.property(history, (steps) => {
        let evidence = evidenceOf(...base)
        const isQuiet = (after: Evidence.Evidence, uid: string): void => {
          const pod = after.pods[uid]
          if (pod === undefined || !Evidence.goesOn(evidence.pods[uid], pod)) return
          quiet++
          for (const trainJob of [undefined, "tj"]) {
            expect(JSON.stringify(Update.make(structuredClone(after), trainJob))).toBe(
              JSON.stringify(Update.make(structuredClone(evidence), trainJob))
            )
          }
        }
        for (const { seen } of steps) {
          const next = Evidence.fold(evidence, seen)
          if (seen._tag === "Pod") {
            const { metadata, status } = seen.object
            isQuiet(next, metadata.uid)
            evidence = next
            // Somebody's annotation, and a readiness that came and went
            const conditions = (status?.conditions ?? []).map((it) =>
              it.type === "Ready" ? { ...it, lastTransitionTime: "2026-11-29T23:59:59Z" } : it
            )
            const written: Evidence.Observation = {
              ...seen,
              object: {
                ...seen.object,
                metadata: {
                  ...metadata,
                  resourceVersion: "999999999",
                  annotations: { ...metadata.annotations, by: "x" }
                },
                status: { ...status, conditions }
              }
            }
            isQuiet(Evidence.fold(evidence, written), metadata.uid)
          }
          evidence = next
        }
      }),
      parameters(200)
    )
    expect(quiet).toBeGreaterThan(100)
  })

  it("many observations at once are as many one by one", () => {
    fc.assert(
      fc.property(history, (steps) => {
        const all = steps.map((step) => step.seen)
        const start = evidenceOf(...base)
        expect(Evidence.foldAll(start, all)).toEqual(all.reduce((evidence, it) => Evidence.fold(evidence, it), start))
      }),
      parameters(200)
    )
  })

  it("times are read as the library reads them, whatever they look like", () => {
    const part = (max: number) => fc.nat(max).map((it) => String(it).padStart(2, "0"))
    const time = fc
      .tuple(fc.integer({ min: 1960, max: 2110 }), part(14), part(33), part(25), part(61), part(61))
      .chain(([year, month, day, hour, minute, second]) =>
        fc
          .tuple(
            fc.constantFrom("", ".", ".5", ".25", ".123", ".123456", ".123456789", ".12x"),
            fc.constantFrom("Z", "Z", "Z", "z", "+01:00", "")
          )
          .map(([fraction, zone]) => `${year}-${month}-${day}T${hour}:${minute}:${second}${fraction}${zone}`)
      )
    fc.assert(
      fc.property(fc.oneof(time, fc.string()), (text) => {
        const expected = Option.getOrUndefined(Option.map(DateTime.make(text), DateTime.toEpochMillis))
        expect(Evidence.millis(text)).toBe(expected)
      }),
      parameters(5000)
    )
  })
})
