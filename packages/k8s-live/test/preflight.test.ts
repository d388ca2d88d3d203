import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as Registry from "@dispatch-kubeflow/testkit/Registry"
import { describe, expect, it, layer as suiteOver } from "@effect/vitest"
import { Effect, Fiber, type Layer, Schedule, Schema } from "effect"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as Terminal from "./cli/terminal.js"
import * as Clusters from "./clusters.js"
import * as Manifests from "./manifests.js"
import { realKubeconfig, whyLeftOut } from "./worlds.js"

const Report = Schema.parseJson(
  Schema.Struct({
    namespace: Schema.String,
    mode: Schema.Struct({ _tag: Schema.String, reason: Schema.optional(Schema.String) }),
    counts: Schema.Record({ key: Schema.String, value: Schema.Number }),
    checks: Schema.Array(
      Schema.Struct({
        id: Schema.String,
        outcome: Schema.String,
        asked: Schema.String,
        found: Schema.String,
        remedy: Schema.optional(Schema.String)
      })
    )
  })
)

/** Runs `preflight` as an account (the administrator without one). */
const preflight = (world: Clusters.World, options: ReadonlyArray<string>, account?: string) =>
  Effect.gen(function* () {
    const folder = yield* Terminal.folder
    const path = Terminal.file(folder, "kubeconfig.yaml", yield* world.kubeconfig(account))
    return yield* Terminal.cli(["preflight", "--kubeconfig", path, "--namespace", world.namespace, ...options])
  })

const kueueOptions = ({ kueue }: Clusters.World, lease = kueue.lease.name): ReadonlyArray<string> => [
  "--queue",
  kueue.localQueue,
  "--admission-check",
  kueue.admissionCheck,
  "--check-controller",
  kueue.controllerName,
  "--check-lease",
  `${kueue.lease.namespace}/${lease}`
]

/** Everything a preflight could leave behind. */
const inventory = ({ api, namespace }: Clusters.World) =>
  Effect.map(
    Effect.all([
      api.list(Trainer.trainJobs, { namespace }),
      api.list(JobSet.jobSets, { namespace }),
      api.list(Core.pods, { namespace }),
      api.list(Kueue.workloads, { namespace }),
      api.list(Core.configMaps, { namespace })
    ]),
    (lists) =>
      lists.flatMap(({ items }) => items.map(({ kind, metadata }) => `${kind ?? ""}/${metadata.name}`)).toSorted()
  )

/** The inventory once it is as it was, or what it is after ten seconds: the garbage collector follows the deletion. */
const settled = (world: Clusters.World, before: ReadonlyArray<string>) =>
  Effect.repeat(inventory(world), {
    while: (now) => now.join() !== before.join(),
    schedule: Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(100))
  }).pipe(Effect.zipRight(inventory(world)))

const main = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url))

/** A door to a world's API server that never answers one verb. */
const neverAnswering = (api: KubeApi.Service, verb: KubeRequest.Verb) =>
  ApiServer.serve({
    transport: () => ({
      ...api.transport,
      call: (request) => (request.verb === verb ? Effect.never : api.transport.call(request))
    }),
    registry: Registry.builtins,
    authenticate: () => Effect.succeedSome(Rbac.admin)
  })

/** The command in a process of its own, caught while its probe exists and a verb is never answered. */
const halfWay = (world: Clusters.World, verb: KubeRequest.Verb) =>
  Effect.gen(function* () {
    const folder = yield* Terminal.folder
    const door = yield* neverAnswering(world.api, verb)
    const path = Terminal.file(folder, "door.yaml", door.kubeconfig({ name: "a", token: "a" }))
    const options = ["--kubeconfig", path, "--namespace", world.namespace, "--runtime", world.runtimes.torch]
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(
          process.execPath,
          ["--import", "tsx", "--conditions=@dispatch-kubeflow/source", main, "preflight", ...options],
          { cwd: fileURLToPath(new URL("../../..", import.meta.url)), stdio: "ignore" }
        )
      ),
      (it) => Effect.sync(() => it.kill("SIGKILL"))
    )
    const ended = yield* Effect.fork(
      Effect.async<number | null>((resume) => {
        child.once("exit", (code) => resume(Effect.succeed(code)))
      })
    )
    yield* inventory(world).pipe(
      Effect.filterOrFail(
        (now) => now.some((name) => name.startsWith("JobSet/dispatch-probe-")),
        () => "no probe yet" as const
      ),
      Effect.retry(Schedule.intersect(Schedule.spaced("250 millis"), Schedule.recurs(200)))
    )
    return { child, ended }
  })

const suite = <E>(title: string, layer: Layer.Layer<Clusters.ClusterWorld, E>): void =>
  suiteOver(layer, { excludeTestServices: true, timeout: "60 seconds" })(title, (it) => {
    it.scoped("plain mode: every check passes, the mode comes last, exit 0, and nothing is left behind", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const before = yield* inventory(world)
        const printed = yield* preflight(world, [])
        expect(printed).toMatchObject({ code: 0, err: "" })
        const lines = printed.out.trimEnd().split("\n")
        expect(lines.at(-1)).toBe(`writable: TrainJobs may be submitted in namespace "${world.namespace}" (plain mode)`)
        expect(lines.at(-2)).toMatch(/^\d+ passed, 0 failed, 0 unknown, \d+ skipped$/)
        expect(printed.progress.at(-2)).toMatch(/^preflight: \d+ checks made, last hold\.sweep: passed$/)
        expect(printed.progress.at(-1)).toBeUndefined()
        expect(yield* settled(world, before)).toEqual(before)
      })
    )

    it.scoped("--json: one document with the mode, the counts and every check", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const printed = yield* preflight(world, ["--json", "--runtime", world.runtimes.torch])
        expect(printed).toMatchObject({ code: 0, err: "" })
        const report = yield* Schema.decodeUnknown(Report)(printed.out)
        expect(report).toMatchObject({ namespace: world.namespace, mode: { _tag: "Writable" } })
        expect(report.counts["passed"]).toBe(report.checks.filter((check) => check.outcome === "passed").length)
        expect(report.checks.map((check) => check.id)).toEqual(
          expect.arrayContaining([
            "versions.trainer",
            "access: get pods/log",
            "runtime",
            "capture",
            "hold.create",
            "hold.suspended",
            "hold.no-pods",
            "hold.unsuspend",
            "hold.delete",
            "hold.gone",
            "hold.sweep"
          ])
        )
      })
    )

    it.scoped("Kueue mode: the gate is proven step by step", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const before = yield* inventory(world)
        const printed = yield* preflight(world, ["--json", ...kueueOptions(world)])
        expect(printed).toMatchObject({ code: 0, err: "" })
        const { checks, mode } = yield* Schema.decodeUnknown(Report)(printed.out)
        expect(mode).toEqual({ _tag: "Writable" })
        expect(checks.flatMap(({ id, outcome }) => (id.startsWith("gate.") ? [`${id} ${outcome}`] : []))).toEqual([
          "gate.kueue-api passed",
          "gate.local-queue passed",
          "gate.cluster-queue passed",
          "gate.namespace-selector passed",
          "gate.check-listed passed",
          "gate.multikueue passed",
          "gate.concurrent-admission passed",
          "gate.admission-check passed",
          "gate.lease passed"
        ])
        expect(yield* settled(world, before)).toEqual(before)
      })
    )

    it.scoped("Kueue mode without the Lease: observe-only, the object named, exit 3", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const printed = yield* preflight(world, kueueOptions(world, "absent"))
        expect(printed.code).toBe(3)
        expect(printed.out).toMatch(/failed +gate\.lease +read Lease\/absent/)
        expect(printed.out.trimEnd().split("\n").at(-1)).toMatch(/observe-only: AttemptInjection is no/)
      })
    )

    it.scoped("read-only: nothing is written, Hold is not probed, exit 0", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const printed = yield* preflight(world, ["--read-only"])
        expect(printed).toMatchObject({ code: 0, err: "" })
        expect(printed.out).toContain("not probed: the backend is read-only")
        expect(printed.out.trimEnd().split("\n").at(-1)).toBe("read-only: the backend is configured read-only")
        expect(printed.out).not.toContain("hold.create")
      })
    )

    it.scoped("--hold-probe real: starts a pod, stops it, deletes, and leaves nothing", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const before = yield* inventory(world)
        const printed = yield* preflight(world, ["--hold-probe", "real", "--runtime", world.runtimes.torch])
        expect(printed).toMatchObject({ code: 0, err: "" })
        expect(printed.out).toMatch(/passed +hold\.start/)
        expect(printed.out).toMatch(/passed +hold\.stop/)
        expect(yield* settled(world, before)).toEqual(before)
      })
    )

    it.scoped("without patch on trainjobs: the check fails, says how to mend it, and exit 3", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const manifests = Clusters.forAccount(Manifests.load("plain", Clusters.names(world)), "no-patch")
        const grant = Manifests.grants(manifests).find(({ id }) => id === "patch trainjobs.trainer.kubeflow.org")
        if (grant === undefined) return yield* Effect.dieMessage("the manifest grants no patch")
        yield* Clusters.provide(
          world.api,
          manifests.map((manifest, index) => (index === grant.role ? Manifests.without(manifests, grant) : manifest))
        )
        if (world.kind === "real") yield* Effect.sleep("1500 millis")
        const printed = yield* preflight(world, [], "no-patch")
        expect(printed.code).toBe(3)
        expect(printed.out).toMatch(/failed +access: patch trainjobs/)
        expect(printed.out).toContain(`to mend: grant verb "patch" on "trainjobs"`)
      })
    )

    it.scoped("a spec whose runtime does not exist, or breaks the rules, says so", () =>
      Effect.gen(function* () {
        const world = yield* Clusters.ClusterWorld
        const missing = yield* preflight(world, ["--runtime", "no-such-runtime"])
        expect(missing.code).toBe(3)
        expect(missing.out).toMatch(/failed +runtime +get ClusterTrainingRuntime\/no-such-runtime/)
        const shipped = yield* preflight(world, ["--runtime", world.runtimes.shipped])
        expect(shipped.code).toBe(3)
        expect(shipped.out).toMatch(/failed +runtime/)
        expect(shipped.out).toContain("restartPolicy is OnFailure by default")
      })
    )

    it.scoped(
      "interrupted half way it deletes the probe, and exits with 130",
      () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const before = yield* inventory(world)
          const { child, ended } = yield* halfWay(world, "patch")
          expect(child.kill("SIGINT")).toBe(true)
          expect(yield* Fiber.join(ended)).toBe(130)
          expect(yield* settled(world, before)).toEqual(before)
        }),
      120_000
    )

    it.scoped(
      "killed with SIGKILL half way and run again, it leaves the cluster exactly as it was",
      () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const before = yield* inventory(world)
          const { child, ended } = yield* halfWay(world, "delete")
          expect(child.kill("SIGKILL")).toBe(true)
          yield* Fiber.join(ended)
          expect(yield* inventory(world)).not.toEqual(before)
          const again = yield* preflight(world, ["--runtime", world.runtimes.torch])
          expect(again).toMatchObject({ code: 0, err: "" })
          expect(again.out).toContain("probes of other preflights are gone: dispatch-probe-")
          expect(yield* settled(world, before)).toEqual(before)
        }),
      180_000
    )
  })

suite("preflight on the served in-memory cluster", Clusters.served)

if (realKubeconfig === undefined) {
  describe("preflight on a real API server", () => it.skip(whyLeftOut, () => undefined))
} else {
  suite("preflight on a real API server", Clusters.real(realKubeconfig))

  suiteOver(Clusters.real(realKubeconfig), { excludeTestServices: true, timeout: "60 seconds" })(
    "preflight on a real API server, a full namespace",
    (it) => {
      it.scoped("a quota that is used up: Hold is no with the server's words, exit 3", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          yield* Clusters.provide(world.api, [
            {
              apiVersion: "v1",
              kind: "ResourceQuota",
              metadata: { name: "none", namespace: world.namespace },
              spec: { hard: { "count/trainjobs.trainer.kubeflow.org": "0" } }
            }
          ])
          // The quota counts once its controller has looked
          yield* Effect.sleep("2 seconds")
          const printed = yield* preflight(world, ["--runtime", world.runtimes.torch])
          expect(printed.code).toBe(3)
          expect(printed.out).toMatch(/failed +hold\.create .*exceeded quota: none/)
        })
      )
    }
  )
}
