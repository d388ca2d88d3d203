import * as Support from "@dispatch-kubeflow/core/decide/Support"
import { describe, expect, it, layer as suiteOver } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import { parse } from "yaml"
import * as Clusters from "../clusters.js"
import { realKubeconfig, whyLeftOut } from "../worlds.js"
import * as Terminal from "./terminal.js"

/** Runs a command as an account (the administrator without one), in the world's namespace. */
const run = (
  world: Clusters.World,
  args: ReadonlyArray<string>,
  options: { readonly account?: string; readonly files?: Readonly<Record<string, string>> } = {}
) =>
  Effect.gen(function* () {
    const folder = yield* Terminal.folder
    const path = Terminal.file(folder, "kubeconfig.yaml", yield* world.kubeconfig(options.account))
    return yield* Terminal.cli([...args, "--kubeconfig", path, "--namespace", world.namespace], options.files)
  })

const json = (printed: Terminal.Printed): unknown => JSON.parse(printed.out)

const trainJob = (runtime: string, more = "") => `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: run-1
spec:
  runtimeRef:
    name: ${runtime}
  trainer:
    numNodes: 2
${more}`

const suite = <E>(title: string, layer: Layer.Layer<Clusters.ClusterWorld, E>): void =>
  suiteOver(layer, { excludeTestServices: true, timeout: "60 seconds" })(title, (it) => {
    describe("capabilities", () => {
      it.scoped("prints all fourteen, in order, each with answer, source and reason", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const printed = yield* run(world, ["capabilities"])
          expect(printed).toMatchObject({ code: 0, err: "" })
          const [head, ...lines] = printed.out.trimEnd().split("\n")
          const rows = lines.slice(0, 14)
          expect(head?.split(/ +/)).toEqual(["CAPABILITY", "ANSWER", "SOURCE", "REASON"])
          expect(lines.slice(14)).toEqual([
            "",
            "Each invocation begins anew: --preflight probes what is unknown before it answers."
          ])
          expect(rows.map((row) => row.split(" ")[0])).toEqual(Support.capabilities)
          expect(rows[3]).toMatch(/^Hold +unknown +probed +not probed yet$/)
        })
      )

      it.scoped("--spec reads the TrainJob of a manifest, among other objects", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const files = { "job.yaml": `apiVersion: v1\nkind: ConfigMap\n---${trainJob(world.runtimes.torch)}` }
          const printed = yield* run(world, ["capabilities", "--spec", "job.yaml", "--json"], { files })
          expect(printed).toMatchObject({ code: 0, err: "" })
          expect(json(printed)).toMatchObject({
            namespace: world.namespace,
            capabilities: expect.arrayContaining([
              { capability: "ProcsPerNode", support: { answer: "yes", source: "declared", reason: expect.any(String) } }
            ])
          })
        })
      )

      it.scoped("a spec on a runtime that breaks the rules: every broken field with the value to set, exit 4", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const files = { "-": trainJob(world.runtimes.shipped) }
          const printed = yield* run(world, ["capabilities", "--spec", "-"], { files })
          expect(printed).toMatchObject({ code: 4, out: "" })
          expect(printed.err).toMatch(/restartPolicy: is OnFailure by default.*set Never/)
          expect(printed.err).toMatch(/backoffLimit: is 6 by default.*set 0/)
          const machine = yield* run(world, ["capabilities", "--spec", "-", "--json"], { files })
          expect(JSON.parse(machine.err)).toMatchObject({ error: { tag: "ErrUnsupported" } })
          const accepted = yield* run(world, ["capabilities", "--spec", "-", "--accept-in-place-restarts"], { files })
          expect(accepted.code).toBe(0)
          expect(accepted.out).toContain("an in-place restart replaces the log")
        })
      )

      it.scoped("--explain: one capability, what it means and what changes it; any spelling of its case", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const printed = yield* run(world, ["capabilities", "--explain", "hold", "--preflight"])
          expect(printed).toMatchObject({ code: 0, err: "" })
          expect(printed.out).toMatch(/^A submission can be stopped and started again later\./)
          expect(printed.out).toMatch(/answer here +yes/)
          expect(printed.out).toMatch(/what changes it +the preflight's hold round trip/)
          const machine = yield* run(world, ["capabilities", "--explain", "OutputRead", "--json"])
          expect(json(machine)).toMatchObject({
            capability: "OutputRead",
            support: { answer: "yes", source: "declared" },
            explanation: { meaning: expect.any(String), answer: expect.any(String), changes: expect.any(String) }
          })
        })
      )

      it.scoped("a runtime that does not exist is exit 5; files that are no spec are exit 2", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const ask = (text: string) => run(world, ["capabilities", "--spec", "f"], { files: { f: text } })
          expect(yield* ask(trainJob("no-such"))).toMatchObject({ code: 5, err: /no-such/ })
          expect(yield* ask("kind: Pod")).toMatchObject({ code: 2, err: expect.stringContaining("not a TrainJob") })
          expect(yield* ask("a: [1")).toMatchObject({ code: 2, err: expect.stringContaining("neither YAML nor JSON") })
          expect(yield* ask(`${trainJob("a")}\n---${trainJob("b")}`)).toMatchObject({
            code: 2,
            err: expect.stringContaining("2 TrainJobs")
          })
          expect(yield* run(world, ["capabilities", "--spec", "absent"])).toMatchObject({ code: 2 })
          const elsewhere = trainJob("a").replace("name: run-1", "name: run-1\n  namespace: elsewhere")
          expect(yield* ask(elsewhere)).toMatchObject({ code: 2, err: expect.stringContaining(`"elsewhere"`) })
        })
      )
    })

    describe("rules", () => {
      const policy = `
- { cause: NodeLost, action: Resubmit }
- { cause: NoCapacity, action: Hold }
- { cause: Application, action: Requeue }
- { cause: Preempted, action: Restart }
- { cause: OutOfMemory, action: Escalate }
- { cause: OutOfMemory, action: Pray }
`
      it.scoped("answers per rule, in order; Hold is probed with --preflight", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const files = { p: policy }
          const before = yield* run(world, ["rules", "--policy", "p"], { files })
          expect(before).toMatchObject({ code: 0, err: "" })
          expect(before.out).toMatch(/2 +NoCapacity +Hold +unknown +probed +not probed yet/)
          const after = yield* run(world, ["rules", "--policy", "p", "--preflight", "--json"], { files })
          const { rules } = json(after) as {
            readonly rules: ReadonlyArray<{ readonly support: { readonly answer: string; readonly reason?: string } }>
          }
          expect(rules.map(({ support }) => support.answer)).toEqual(["yes", "yes", "no", "no", "yes", "unknown"])
          expect(rules[2]?.support.reason).toBe("Kubeflow has no requeue")
          expect(rules[3]?.support.reason).toBe("no push-down in v1")
          expect(rules[5]?.support.reason).toContain("Pray")
        })
      )

      it.scoped("an empty policy is an empty answer; one that is no list is exit 2, with the path", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const ask = (text: string) => run(world, ["rules", "--policy", "p", "--json"], { files: { p: text } })
          expect(json(yield* ask(""))).toEqual({ namespace: world.namespace, rules: [] })
          expect(yield* ask("- { cause: NodeLost }")).toMatchObject({ code: 2, err: expect.stringContaining("action") })
        })
      )
    })

    describe("runtime check", () => {
      it.scoped("every rule of a runtime, passed or broken, with path, why and value; exit 3 when one is broken", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const shipped = yield* run(world, ["runtime", "check", world.runtimes.shipped])
          expect(shipped).toMatchObject({ code: 3, err: "" })
          expect(shipped.out).toContain("breaks 1 of the 8 rules")
          expect(shipped.out).toMatch(
            /3 +no-in-place-restart +broken +spec\.\S+\.restartPolicy is OnFailure.*set Never/
          )
          for (const rule of [1, 2, 4, 5, 6, 7, 8]) {
            expect(shipped.out).toMatch(new RegExp(`^${rule} +\\S+ +pass `, "m"))
          }
          expect(shipped.out).toMatch(/pod-replacement +warning/)
          const good = yield* run(world, ["runtime", "check", `ClusterTrainingRuntime/${world.runtimes.torch}`])
          expect(good.code).toBe(0)
          const accepted = yield* run(world, [
            "runtime",
            "check",
            world.runtimes.shipped,
            "--accept-in-place-restarts",
            "--json"
          ])
          expect(accepted.code).toBe(0)
          expect(json(accepted)).toMatchObject({ runtimes: [{ conforms: true, cautions: [expect.any(String)] }] })
        })
      )

      it.scoped("--all: the runtimes of the cluster and of the namespace", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const printed = yield* run(world, ["runtime", "check", "--all", "--json"])
          expect(printed.code).toBe(3)
          const { runtimes } = json(printed) as { readonly runtimes: ReadonlyArray<{ readonly runtime: string }> }
          expect(runtimes.map(({ runtime }) => runtime)).toEqual(
            expect.arrayContaining(Object.values(world.runtimes).map((name) => `ClusterTrainingRuntime/${name}`))
          )
        })
      )

      it.scoped("a runtime that does not exist is exit 5, in the namespace too", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          expect(yield* run(world, ["runtime", "check", "no-such"])).toMatchObject({ code: 5, out: "" })
          const own = yield* run(world, ["runtime", "check", "TrainingRuntime/no-such"])
          expect(own).toMatchObject({ code: 5, err: expect.stringContaining(world.namespace) })
        })
      )
    })

    describe("runtime conform", () => {
      it.scoped("conform, apply, check: every shipped runtime passes, or says what only a person can mend", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const all = yield* run(world, ["runtime", "check", "--all", "--json"])
          const { runtimes } = json(all) as { readonly runtimes: ReadonlyArray<{ readonly runtime: string }> }
          const shipped = runtimes.map(({ runtime }) => runtime).filter((name) => name.endsWith("-distributed"))
          expect(shipped.length).toBeGreaterThanOrEqual(1)
          for (const [index, name] of shipped.entries()) {
            const copy = `${world.namespace}-copy-${index}`
            const printed = yield* run(world, ["runtime", "conform", name, "--name", copy])
            const manifest = parse(printed.out) as { readonly metadata: { readonly name: string } }
            expect(manifest.metadata.name).toBe(copy)
            expect(printed.out).toContain("restartPolicy: Never # rule 3 (no-in-place-restart): was absent")
            yield* Clusters.provide(world.api, [manifest])
            const checked = yield* run(world, ["runtime", "check", copy])
            expect([name, checked.code]).toEqual([name, printed.code])
            if (printed.code === 0) expect(printed.err).toBe("")
            else expect(printed.err).toMatch(/rule 2 \(ml-policy\): .* policy is not supported/)
          }
        })
      )

      it.scoped("torch-distributed becomes Never, 0, Failed; every change is named at its place", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const printed = yield* run(world, ["runtime", "conform", "torch-distributed"])
          expect(printed).toMatchObject({ code: 0, err: "" })
          expect(printed.out).toContain("name: torch-distributed-strict")
          expect(printed.out).toMatch(/restartPolicy: Never # rule 3/)
          expect(printed.out).toMatch(/backoffLimit: 0 # rule 3/)
          expect(printed.out).toMatch(/podReplacementPolicy: Failed # warning/)
          expect(printed.out).not.toMatch(/uid|resourceVersion|managedFields|status/)
          const machine = yield* run(world, ["runtime", "conform", "torch-distributed", "--json"])
          expect(json(machine)).toMatchObject({ remaining: [], manifest: { kind: "ClusterTrainingRuntime" } })
        })
      )
    })

    describe("failures", () => {
      it.scoped("a missing permission is exit 6, and named", () =>
        Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const account = "nobody-special"
          yield* Clusters.provide(world.api, [
            { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account, namespace: world.namespace } }
          ])
          const printed = yield* run(world, ["runtime", "check", world.runtimes.torch], { account })
          expect(printed.code).toBe(6)
          expect(printed.err).toMatch(/get.*clustertrainingruntimes/s)
          const table = yield* run(world, ["capabilities"], { account })
          expect(table.code).toBe(0)
          expect(table.out).toMatch(/OutputRead +no +probed +may not get pods\/log/)
          const probed = yield* run(world, ["preflight"], { account })
          expect(probed.code).toBe(3)
        })
      )
    })
  })

suite("the commands on the served in-memory cluster", Clusters.served)

if (realKubeconfig === undefined) {
  describe("the commands on a real API server", () => it.skip(whyLeftOut, () => undefined))
} else suite("the commands on a real API server", Clusters.real(realKubeconfig))

describe("without a cluster", () => {
  it.live("a server that cannot be reached is exit 7, a kubeconfig that cannot be used exit 2", () =>
    Effect.gen(function* () {
      const folder = yield* Terminal.folder
      const path = Terminal.file(
        folder,
        "k.yaml",
        JSON.stringify({
          apiVersion: "v1",
          kind: "Config",
          "current-context": "c",
          contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
          clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:1" } }],
          users: [{ name: "u", user: {} }]
        })
      )
      const unreachable = yield* Terminal.cli(["runtime", "check", "a", "--kubeconfig", path])
      expect(unreachable).toMatchObject({ code: 7, out: "" })
      const absent = yield* Terminal.cli(["capabilities", "--kubeconfig", `${folder}/absent`])
      expect(absent).toMatchObject({ code: 2, out: "" })
    }).pipe(Effect.scoped)
  )
})
