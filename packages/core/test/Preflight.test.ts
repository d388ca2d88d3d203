import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type { Check, Report } from "@dispatch-kubeflow/core/decide/ProbeReport"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeRequest } from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Preflight from "@dispatch-kubeflow/core/Preflight"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Ref, TestClock } from "effect"
import * as ProbeWorld from "./probeWorld.js"

const config = AdapterConfig.make({ namespace: "team-a" })
const kueueConfig = AdapterConfig.make({ namespace: "team-a", kueue: ProbeWorld.kueue })

const run = (world: ProbeWorld.World, used = config, options: Preflight.Options = {}) =>
  Effect.provideService(Preflight.preflight(used, options), KubeApi.KubeApi, world.api)

const failures = (report: Report): ReadonlyArray<Check> => report.checks.filter((check) => check.outcome === "failed")
const found = (report: Report, id: string): Check | undefined => report.checks.find((check) => check.id === id)
const ids = (report: Report, prefix: string): ReadonlyArray<string> =>
  report.checks.flatMap((check) => (check.id.startsWith(prefix) ? [`${check.id} ${check.outcome}`] : []))

const isProbeWrite = (request: KubeRequest): boolean =>
  request.plural === "trainjobs" && ["create", "patch", "delete"].includes(request.verb)

describe("the hold round trip", () => {
  it.effect(
    "passes: create suspended, JobSet's own Suspended=True, no pods, dry-run un-suspend, background delete, 404",
    () =>
      Effect.gen(function* () {
        const world = yield* ProbeWorld.make({ suspendedAfter: 400 })
        const report = yield* ProbeWorld.drive(run(world))
        expect(failures(report)).toEqual([])
        expect(ids(report, "hold")).toEqual([
          "hold.create passed",
          "hold.suspended passed",
          "hold.no-pods passed",
          "hold.unsuspend passed",
          "hold.delete passed",
          "hold.gone passed",
          "hold.sweep passed"
        ])
        expect(report.facts.hold).toEqual({ _tag: "Passed" })
        expect(report.mode).toEqual({ _tag: "Writable" })
        expect(yield* world.trainJobs).toEqual([])

        const writes = (yield* world.audit).filter(isProbeWrite)
        expect(writes.map((it) => [it.verb, it.query["dryRun"]])).toEqual([
          ["create", "All"],
          ["create", undefined],
          ["patch", "All"],
          ["delete", undefined]
        ])
        expect(writes[1]?.body).toMatchObject({
          metadata: { labels: { [AdapterConfig.probeLabel]: "hold" } },
          spec: { suspend: true, activeDeadlineSeconds: 60 }
        })
        // Foreground would make the Trainer start the job again
        expect(writes[3]?.body).toMatchObject({ propagationPolicy: "Background", preconditions: { uid: "uid-2" } })
      })
  )

  it.effect(
    "P09: the TrainJob says Suspended but no JobSet is ever suspended: no, with that step, and the probe is deleted",
    () =>
      Effect.gen(function* () {
        const world = yield* ProbeWorld.make({})
        const report = yield* ProbeWorld.drive(run(world))
        expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "suspended" })
        expect(found(report, "hold.suspended")?.found).toContain("not within 20s: there is no JobSet/dispatch-probe-")
        expect(found(report, "hold.cleanup")?.outcome).toBe("passed")
        expect(yield* world.trainJobs).toEqual([])
      })
  )

  it.effect("a pod of the suspended probe fails it", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        pods: [{ metadata: { name: "surprise", uid: "p" } }]
      })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "no-pods" })
      expect(yield* world.trainJobs).toEqual([])
    })
  )

  it.effect("a finalizer that keeps the probe is named", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, finalizer: "acme.io/keep" })
      const report = yield* ProbeWorld.drive(run(world), 2000)
      expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "gone" })
      expect(found(report, "hold.gone")?.found).toContain("waits for its finalizers [acme.io/keep]")
      expect(found(report, "hold.cleanup")?.outcome).toBe("failed")
      expect(found(report, "hold.cleanup")?.remedy).toContain("by hand")
    })
  )

  it.effect("Trainer before 2.2 drops spec.runtimePatches: the create step fails and the probe is deleted", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        admit: (job) => {
          const { runtimePatches: _, ...spec } = job["spec"] as { readonly [key: string]: unknown }
          return { ...job, spec }
        }
      })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "create" })
      expect(yield* world.trainJobs).toEqual([])
    })
  )

  for (const [what, step] of [
    ["create trainjobs", "create"],
    ["delete trainjobs", "delete"],
    ["patch trainjobs", "unsuspend"],
    ["get jobsets", "suspended"],
    ["list pods", "no-pods"]
  ] as const) {
    it.effect(`without ${what} no probe is created: what cannot be finished or deleted is not begun`, () =>
      Effect.gen(function* () {
        const world = yield* ProbeWorld.make({ suspendedAfter: 0, denied: [what] })
        const report = yield* ProbeWorld.drive(run(world))
        expect(report.facts.hold).toMatchObject({ _tag: "Failed", step })
        const writes = (yield* world.audit).filter(isProbeWrite)
        expect(writes.filter((it) => it.query["dryRun"] === undefined)).toEqual([])
      })
    )
  }

  it.effect("a review that errors is not a denial, but nothing is created whose deletion is in doubt", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, reviewsFail: ["delete trainjobs"] })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.facts.hold._tag).toBe("Undecided")
      expect((yield* world.audit).filter((it) => isProbeWrite(it) && it.query["dryRun"] === undefined)).toEqual([])
    })
  )

  it.effect("no runtime to probe with: unknown, with that reason", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, runtimes: [] })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.facts.hold).toMatchObject({ _tag: "Undecided" })
      expect(found(report, "hold")?.found).toContain("no runtime to probe with")
    })
  )

  it.effect("read-only: no write at all", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      const readOnly = { ...world, api: KubeApi.transform(KubeApi.readOnly)(world.api) }
      const report = yield* ProbeWorld.drive(run(readOnly, { ...config, access: "read-only" }))
      expect(found(report, "hold")).toMatchObject({ outcome: "skipped", found: "not probed: the backend is read-only" })
      expect(report.mode._tag).toBe("ReadOnly")
    })
  )
})

describe("it cleans up after itself", () => {
  it.effect("interrupted at any point it still deletes the probe", () =>
    Effect.gen(function* () {
      for (let millis = 0; millis <= 3000; millis += 100) {
        const world = yield* ProbeWorld.make({ suspendedAfter: 1500 })
        const fiber = yield* Effect.fork(run(world))
        yield* TestClock.adjust(millis)
        const exit = yield* ProbeWorld.drive(Fiber.interrupt(fiber))
        expect(yield* world.trainJobs).toEqual([])
        if (millis < 1400) expect(Exit.isInterrupted(exit)).toBe(true)
      }
    })
  )

  const requestsOfATrip = Effect.gen(function* () {
    const world = yield* ProbeWorld.make({ suspendedAfter: 100 })
    yield* ProbeWorld.drive(run(world))
    return (yield* world.audit).length
  })

  it.effect("whichever request fails, no probe stays behind and Hold is not yes unless every step was seen", () =>
    Effect.gen(function* () {
      const count = yield* requestsOfATrip
      for (let broken = 0; broken < count; broken += 1) {
        const world = yield* ProbeWorld.make({
          suspendedAfter: 100,
          fault: (request, at) => (at === broken ? ProbeWorld.forbidden(request) : undefined)
        })
        const report = yield* ProbeWorld.drive(run(world))
        expect(yield* world.trainJobs).toEqual([])
        const seen = ids(report, "hold").filter((it) => it.endsWith(" passed"))
        if (report.facts.hold._tag === "Passed") {
          for (const id of ["create", "suspended", "no-pods", "unsuspend", "delete", "gone"]) {
            expect(seen).toContain(`hold.${id} passed`)
          }
        }
      }
    })
  )

  it.effect("whichever request is never answered, an interruption still leaves no probe", () =>
    Effect.gen(function* () {
      const count = yield* requestsOfATrip
      for (let silent = 0; silent < count; silent += 1) {
        const world = yield* ProbeWorld.make({
          suspendedAfter: 100,
          fault: (_, at) => (at === silent ? "hang" : undefined)
        })
        const fiber = yield* Effect.fork(run(world))
        yield* TestClock.adjust("2 seconds")
        yield* ProbeWorld.drive(Fiber.interrupt(fiber), 4000)
        expect(yield* world.trainJobs).toEqual([])
      }
    })
  )

  it.effect("a server that is busy for a while is waited for", () =>
    Effect.gen(function* () {
      const busy = new Set([1, 5, 20, 38, 40, 41])
      const world = yield* ProbeWorld.make({
        suspendedAfter: 100,
        fault: (request, at) =>
          busy.has(at) && request.verb !== "create" ? ProbeWorld.unavailable(request) : undefined
      })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.facts.hold).toEqual({ _tag: "Passed" })
    })
  )

  const orphan = (createdAt: string) => ({
    metadata: {
      name: "dispatch-probe-orphan",
      uid: "uid-orphan",
      creationTimestamp: createdAt,
      labels: { [AdapterConfig.probeLabel]: "hold" }
    },
    spec: { suspend: true }
  })

  it.effect("an orphan of a killed process is swept by the next preflight", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1, 12))
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, trainJobs: [orphan("2026-01-01T11:00:00Z")] })
      const report = yield* ProbeWorld.drive(run(world))
      expect(found(report, "hold.sweep")).toMatchObject({ outcome: "passed" })
      expect(found(report, "hold.sweep")?.found).toContain("dispatch-probe-orphan")
      expect(yield* world.trainJobs).toEqual([])
    })
  )

  it.effect("a probe young enough to be another preflight's is waited for, then swept", () =>
    Effect.gen(function* () {
      const start = Date.UTC(2026, 0, 1, 12)
      yield* TestClock.setTime(start)
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, trainJobs: [orphan("2026-01-01T11:59:50Z")] })
      const fiber = yield* Effect.fork(run(world))
      yield* TestClock.adjust("15 seconds")
      expect((yield* world.trainJobs).length).toBe(1)
      const report = yield* ProbeWorld.drive(Fiber.join(fiber))
      expect(found(report, "hold.sweep")).toMatchObject({ outcome: "passed" })
      expect(yield* world.trainJobs).toEqual([])
    })
  )

  it.effect("an orphan kept by a finalizer says so", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 1, 12))
      const kept = orphan("2026-01-01T11:00:00Z")
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        trainJobs: [
          {
            ...kept,
            metadata: { ...kept.metadata, deletionTimestamp: "2026-01-01T11:01:00Z", finalizers: ["acme.io/keep"] }
          }
        ]
      })
      const report = yield* ProbeWorld.drive(run(world), 2000)
      expect(found(report, "hold.sweep")?.found).toContain("acme.io/keep")
      expect(found(report, "hold.sweep")?.outcome).toBe("failed")
      expect(report.facts.hold).toEqual({ _tag: "Passed" })
    })
  )
})

describe("versions", () => {
  it.effect("before 2.2 there are no runtimePatches: refuse with ErrUnsupported", () =>
    Effect.gen(function* () {
      const schema = (properties: object) => ({
        components: {
          schemas: {
            "org.kubeflow.trainer.v1alpha1.TrainJob": {
              "x-kubernetes-group-version-kind": [
                { group: "trainer.kubeflow.org", kind: "TrainJob", version: "v1alpha1" }
              ],
              properties: { spec: { properties } }
            }
          }
        }
      })
      const old = yield* ProbeWorld.make({ openApi: schema({ podTemplateOverrides: {} }) })
      const error = yield* Effect.flip(run(old))
      expect(error._tag).toBe("ErrUnsupported")
      expect(error.message).toContain("Kubeflow Trainer 2.2 or later is needed")
      expect((yield* old.audit).filter(isProbeWrite)).toEqual([])

      const fine = yield* ProbeWorld.make({ suspendedAfter: 0, openApi: schema({ runtimePatches: {} }) })
      const report = yield* ProbeWorld.drive(run(fine))
      expect(found(report, "versions.trainer")).toMatchObject({ outcome: "passed" })
    })
  )

  it.effect("without Trainer: ErrUnsupported; without discovery: unknown, and the probe decides", () =>
    Effect.gen(function* () {
      const without = yield* ProbeWorld.make({ groups: [] })
      expect((yield* Effect.flip(run(without)))._tag).toBe("ErrUnsupported")
      const hidden = yield* ProbeWorld.make({
        suspendedAfter: 0,
        fault: (request) => (request.nonResourcePath === "/apis" ? ProbeWorld.forbidden(request) : undefined)
      })
      const report = yield* ProbeWorld.drive(run(hidden))
      expect(found(report, "versions.trainer")?.outcome).toBe("unknown")
      expect(report.facts.hold).toEqual({ _tag: "Passed" })
    })
  )
})

describe("access", () => {
  it.effect("P08: the report lists every right, with what it feeds, one review each", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0, denied: ["get pods/log", "list events"] })
      const report = yield* ProbeWorld.drive(run(world, kueueConfig))
      const log = found(report, "access: get pods/log")
      expect(log).toMatchObject({ outcome: "failed" })
      expect(log?.asked).toContain("OutputRead, OutputFollow")
      expect(log?.remedy).toContain(`"pods/log"`)
      expect(found(report, "access: list events")?.outcome).toBe("skipped")
      const reviews = (yield* world.audit).filter((it) => it.plural === "selfsubjectaccessreviews")
      const listed = report.checks.filter((it) => it.id.startsWith("access: "))
      expect(new Set(listed.map((it) => it.id)).size).toBe(listed.length)
      expect(reviews.length).toBe(listed.length)
    })
  )

  it.effect("nodes are asked for at cluster scope: with a namespace a RoleBinding makes the answer true", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
      yield* ProbeWorld.drive(run(world))
      const attributes = (yield* world.audit).flatMap((it) => {
        const body = it.body as { spec?: { resourceAttributes?: { resource: string; namespace?: string } } } | undefined
        return body?.spec?.resourceAttributes === undefined ? [] : [body.spec.resourceAttributes]
      })
      const nodes = attributes.filter((it) => it.resource === "nodes")
      expect(nodes).toHaveLength(1)
      expect(nodes[0]?.namespace).toBeUndefined()
      expect(attributes.filter((it) => it.resource.includes("/"))).toEqual([])
    })
  )
})

describe("plain mode: a captured namespace", () => {
  for (const [what, admit] of [
    [
      "a queue label",
      (job: { readonly [key: string]: unknown }) => ({
        ...job,
        metadata: { ...(job["metadata"] as object), labels: { "kueue.x-k8s.io/queue-name": "default" } }
      })
    ],
    [
      "suspend: true",
      (job: { readonly [key: string]: unknown }) => ({ ...job, spec: { ...(job["spec"] as object), suspend: true } })
    ]
  ] as const) {
    it.effect(
      `a dry run with suspend: false that comes back with ${what}: observe-only, with that reason, and no probe`,
      () =>
        Effect.gen(function* () {
          const world = yield* ProbeWorld.make({ suspendedAfter: 0, admit })
          const report = yield* ProbeWorld.drive(run(world))
          expect(report.mode._tag).toBe("ObserveOnly")
          expect(report.mode._tag === "ObserveOnly" ? report.mode.reason : "").toContain("Kueue captures")
          expect((yield* world.audit).filter((it) => isProbeWrite(it) && it.query["dryRun"] === undefined)).toEqual([])
        })
    )
  }

  it.effect("a bare runtimePatches entry of Kueue's only says that its integration is on", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        admit: (job) => {
          const spec = job["spec"] as { readonly runtimePatches: ReadonlyArray<object> }
          return {
            ...job,
            spec: { ...spec, runtimePatches: [...spec.runtimePatches, { manager: "kueue.x-k8s.io/manager" }] }
          }
        }
      })
      const report = yield* ProbeWorld.drive(run(world))
      expect(report.mode).toEqual({ _tag: "Writable" })
      expect(found(report, "capture")?.found).toContain("integration is on")
    })
  )
})

describe("Kueue mode", () => {
  it.effect("the gate is proven from LocalQueue, ClusterQueue, AdmissionCheck and Lease", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        groups: ProbeWorld.servedWithKueue,
        objects: ProbeWorld.gateObjects
      })
      const report = yield* ProbeWorld.drive(run(world, kueueConfig))
      expect(failures(report)).toEqual([])
      expect(report.facts.gate._tag).toBe("Proven")
      expect(report.mode).toEqual({ _tag: "Writable" })
    })
  )

  it.effect(
    'the probe names a queue that does not exist: nothing admits it, and a LocalQueue "default" does not capture it',
    () =>
      Effect.gen(function* () {
        const world = yield* ProbeWorld.make({
          suspendedAfter: 0,
          groups: ProbeWorld.servedWithKueue,
          objects: ProbeWorld.gateObjects
        })
        yield* ProbeWorld.drive(run(world, kueueConfig))
        const created = (yield* world.audit).find((it) => it.verb === "create" && it.plural === "trainjobs")
        const metadata = (
          created?.body as { metadata: { name: string; labels: { [key: string]: string } } } | undefined
        )?.metadata
        expect(metadata?.name).toMatch(/^dispatch-probe-/)
        expect(metadata?.labels["kueue.x-k8s.io/queue-name"]).toBe(metadata?.name)
      })
  )

  it.effect("v1beta1 alone: Hold and the gate are no with that reason", () =>
    Effect.gen(function* () {
      const world = yield* ProbeWorld.make({
        suspendedAfter: 0,
        groups: [...ProbeWorld.served, ["kueue.x-k8s.io", ["v1beta1"]]],
        objects: ProbeWorld.gateObjects
      })
      const report = yield* ProbeWorld.drive(run(world, kueueConfig))
      expect(report.facts.gate).toMatchObject({ _tag: "Refuted" })
      expect(report.facts.hold).toMatchObject({ _tag: "Failed", step: "workload" })
      const versions = (yield* world.audit).flatMap((it) => (it.group === "kueue.x-k8s.io" ? [it.version] : []))
      expect(new Set(versions)).toEqual(new Set(["v1beta1"]))
      expect(report.mode._tag).toBe("ObserveOnly")
    })
  )
})

it.effect("every check is told as it ends, in the order of the report", () =>
  Effect.gen(function* () {
    const world = yield* ProbeWorld.make({ suspendedAfter: 0 })
    const told = yield* Ref.make<ReadonlyArray<Check>>([])
    const report = yield* ProbeWorld.drive(
      run(world, config, { onCheck: (check) => Ref.update(told, (all) => [...all, check]) })
    )
    expect(yield* Ref.get(told)).toEqual(report.checks)
  })
)

describe("cost", () => {
  /** Every request takes 100 ms: the time that passes is how many round trips wait for each other. */
  const slow = (world: ProbeWorld.World) => {
    const now = { flying: 0, most: 0 }
    const api = KubeApi.transform((transport) => ({
      ...transport,
      call: (request) =>
        Effect.acquireUseRelease(
          Effect.sync(() => {
            now.flying += 1
            now.most = Math.max(now.most, now.flying)
          }),
          () => Effect.delay(transport.call(request), "100 millis"),
          () =>
            Effect.sync(() => {
              now.flying -= 1
            })
        )
    }))(world.api)
    return { ...world, api, now }
  }

  const kueueWorld = { suspendedAfter: 0, groups: ProbeWorld.servedWithKueue, objects: ProbeWorld.gateObjects }

  for (const [mode, used, behaviour, requests, deep] of [
    // versions and reviews (two of at most 16), the runtimes and orphans, the dry run, and the probe's seven requests
    ["plain", config, { suspendedAfter: 0 }, 37, 11],
    // instead of the dry run the gate: LocalQueue, ClusterQueue, and the check and the Lease beside them
    ["Kueue", kueueConfig, kueueWorld, 49, 12],
    ["read-only", { ...config, access: "read-only" }, { suspendedAfter: 0 }, 21, 2]
  ] as const) {
    it.effect(
      `${mode}: ${requests} requests, at most 16 in flight, and no deeper than what depends on another (${deep} round trips)`,
      () =>
        Effect.gen(function* () {
          const world = slow(yield* ProbeWorld.make(behaviour))
          const begun = yield* Clock.currentTimeMillis
          const fiber = yield* Effect.fork(run(world, used))
          const report = yield* ProbeWorld.drive(Fiber.join(fiber), 50)
          const took = (yield* Clock.currentTimeMillis) - begun
          expect(failures(report)).toEqual([])
          expect(world.now.most).toBeLessThanOrEqual(16)
          expect([(yield* world.audit).length, Math.ceil(took / 100)]).toEqual([requests, deep])
        })
    )
  }
})
