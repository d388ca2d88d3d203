import * as Support from "@dispatch-kubeflow/core/decide/Support"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Terminal from "./cli/terminal.js"
import * as Clusters from "./clusters.js"
import * as Manifests from "./manifests.js"
import { realKubeconfig, whyLeftOut } from "./worlds.js"

type Mode = "plain" | "kueue"

/** How `capabilities` is asked. */
interface Question {
  readonly mode: Mode
  readonly preflight?: boolean
  readonly readOnly?: boolean
  readonly runtime?: "torch" | "plain"
  /** Without a permission that the manifest of the mode grants. */
  readonly lacking?: string
  /** A Lease that does not exist. */
  readonly leaseless?: boolean
}

const Answers = Schema.parseJson(
  Schema.Struct({
    capabilities: Schema.Array(
      Schema.Struct({
        capability: Schema.String,
        support: Schema.Struct({
          answer: Schema.String,
          source: Schema.String,
          reason: Schema.optional(Schema.String)
        })
      })
    )
  })
)

interface Cell {
  readonly name: string
  readonly capability: Support.Capability
  readonly answer: Support.Support["answer"]
  readonly source: Support.Source
  readonly reason?: string | RegExp
  readonly asked: Question
}

const cell = (
  asked: Question,
  when: string,
  capability: Support.Capability,
  answer: Cell["answer"],
  source: Support.Source,
  reason?: string | RegExp
): Cell => ({
  name: `${asked.mode}: ${capability} ${answer} ${source}${when === "" ? "" : `, ${when}`}`,
  capability,
  answer,
  source,
  ...(reason === undefined ? {} : { reason }),
  asked
})

const cellsOf = (mode: Mode): ReadonlyArray<Cell> => {
  const probed: Question = { mode, preflight: true }
  const notYet: Question = { mode }
  const readOnly: Question = { mode, readOnly: true }
  const constant = [
    cell(probed, "", "ContainerImage", "yes", "declared"),
    cell(probed, "", "NativeRequeue", "no", "declared", /no push-down in v1/),
    cell(probed, "", "NativeRestart", "no", "declared", /no push-down in v1/),
    cell(probed, "", "PreTerminationSignal", "unknown", "catalogue", /SIGTERM/),
    cell(probed, "", "AccountingHistory", "no", "declared", /a deleted TrainJob is gone/),
    cell(probed, "", "WorkingDirectory", "yes", "declared"),
    cell(probed, "", "OutputPath", "no", "declared", /no stable output location/),
    cell(probed, "", "OutputRetained", "no", "declared", "logs go with the pods")
  ]
  const hold = [
    cell(probed, "after the round trip", "Hold", "yes", "probed", /the hold round trip passed/),
    cell(notYet, "before a preflight", "Hold", "unknown", "probed", "not probed yet"),
    cell(readOnly, "when read-only", "Hold", "unknown", "declared", "not probed: the backend is read-only"),
    cell(
      {
        ...probed,
        lacking: mode === "plain" ? "patch trainjobs.trainer.kubeflow.org" : "update workloads.kueue.x-k8s.io"
      },
      `without ${mode === "plain" ? "patch on trainjobs" : "update on workloads"}`,
      "Hold",
      "no",
      "probed",
      mode === "plain" ? /patch trainjobs/ : /update workloads/
    )
  ]
  const gate =
    mode === "plain"
      ? [
          cell(probed, "", "AttemptInjection", "yes", "declared", /raise the admission count/),
          cell(probed, "", "ReadmissionGate", "no", "declared", /nothing re-admits a TrainJob without Kueue/)
        ]
      : (["AttemptInjection", "ReadmissionGate"] as const).flatMap((capability) => [
          cell(probed, "from ClusterQueue, AdmissionCheck, Lease", capability, "yes", "probed", /Lease\/gate.*not covered/s),
          cell({ ...probed, leaseless: true }, "without a Lease", capability, "no", "probed", /Lease\/absent.*does not exist/),
          cell(
            { ...probed, lacking: "get clusterqueues.kueue.x-k8s.io" },
            "without get on clusterqueues",
            capability,
            "unknown",
            "probed",
            /ClusterQueue/
          ),
          cell(notYet, "before a preflight", capability, "unknown", "probed", "not probed yet")
        ])
  const procs = [
    cell(probed, "without a spec", "ProcsPerNode", "unknown", "declared", /no spec/),
    cell({ mode, runtime: "torch" }, "on mlPolicy.torch", "ProcsPerNode", "yes", "declared"),
    cell(
      { mode, runtime: "plain" },
      "with no ML policy",
      "ProcsPerNode",
      "no",
      "declared",
      /a runtime with no ML policy ignores numProcPerNode/
    )
  ]
  const output = (["OutputRead", "OutputFollow"] as const).flatMap((capability) => [
    cell(probed, "", capability, "yes", "declared"),
    cell({ mode, lacking: "get pods/log" }, "without get pods/log", capability, "no", "probed", /may not get pods\/log/)
  ])
  return [...constant, ...hold, ...gate, ...procs, ...output]
}

const kueueOptions = ({ kueue }: Clusters.World, leaseless: boolean): ReadonlyArray<string> => [
  "--queue",
  kueue.localQueue,
  "--admission-check",
  kueue.admissionCheck,
  "--check-controller",
  kueue.controllerName,
  "--check-lease",
  `${kueue.lease.namespace}/${leaseless ? "absent" : kueue.lease.name}`
]

const accountFor = (lacking: string): string => `no-${lacking.replaceAll(/[^a-z]/g, "-")}`

/** Asks with the command; `path` is a kubeconfig. */
const ask = (world: Clusters.World, path: string, asked: Question) =>
  Effect.gen(function* () {
    const printed = yield* Terminal.cli([
      "capabilities",
      "--json",
      "--kubeconfig",
      path,
      "--namespace",
      world.namespace,
      ...(asked.mode === "kueue" ? kueueOptions(world, asked.leaseless ?? false) : []),
      ...(asked.preflight === true ? ["--preflight"] : []),
      ...(asked.readOnly === true ? ["--read-only"] : []),
      ...(asked.runtime === undefined ? [] : ["--runtime", world.runtimes[asked.runtime]])
    ])
    expect(printed).toMatchObject({ code: 0, err: "" })
    const { capabilities } = yield* Schema.decodeUnknown(Answers)(printed.out)
    return capabilities
  })

/** The kubeconfig of an account that lacks one permission; the account and its roles go with the scope. */
const lackingOne = (world: Clusters.World, folder: string, lacking: string) =>
  Effect.gen(function* () {
    const account = accountFor(lacking)
    const manifests = Clusters.forAccount(Manifests.load("kueue", Clusters.names(world)), account)
    const grant = Manifests.grants(manifests).find(({ id }) => id === lacking)
    if (grant === undefined) return yield* Effect.dieMessage(`no manifest grants ${lacking}`)
    yield* Clusters.provide(
      world.api,
      manifests.map((manifest, index) => (index === grant.role ? Manifests.without(manifests, grant) : manifest))
    )
    const path = Terminal.file(folder, `${account}.yaml`, yield* world.kubeconfig(account))
    // RBAC reaches the authorizer within a second
    if (world.kind === "real") yield* Effect.sleep("1500 millis")
    return path
  })

const seedTable = (title: string, layer: Parameters<typeof it.layer>[0]): void =>
  it.layer(layer as ReturnType<typeof Clusters.real>, { excludeTestServices: true, timeout: "60 seconds" })(
    title,
    (it) => {
      const asAdmin = (world: Clusters.World, folder: string) =>
        world.kind === "real"
          ? world.kubeconfig()
          : Effect.map(world.kubeconfig(), (text) => Terminal.file(folder, "admin.yaml", text))
      for (const mode of ["plain", "kueue"] as const) {
        // The answers to one question fill many cells
        const known = new Map<string, Effect.Effect.Success<ReturnType<typeof ask>>>()
        for (const expected of cellsOf(mode)) {
          it.scoped(expected.name, () =>
            Effect.gen(function* () {
              const world = yield* Clusters.ClusterWorld
              const key = JSON.stringify(expected.asked)
              if (!known.has(key)) {
                const folder = yield* Terminal.folder
                const { lacking } = expected.asked
                const path = yield* lacking === undefined
                  ? asAdmin(world, folder)
                  : lackingOne(world, folder, lacking)
                known.set(key, yield* ask(world, path, expected.asked))
              }
              const answers = known.get(key) ?? []
              expect(answers.map((it) => it.capability)).toEqual(Support.capabilities)
              const support = answers.find((it) => it.capability === expected.capability)?.support
              expect(support).toMatchObject({ answer: expected.answer, source: expected.source })
              if (expected.answer !== "yes" || expected.source !== "declared") expect(support?.reason).toBeTruthy()
              if (typeof expected.reason === "string") expect(support?.reason).toBe(expected.reason)
              else if (expected.reason !== undefined) expect(support?.reason).toMatch(expected.reason)
            })
          )
        }

        it.scoped(`${mode}: AttemptInjection ${mode === "kueue" ? "is ReadmissionGate, whole" : "does not hang on the gate"}`, () =>
          Effect.sync(() => {
            const answers = known.get(JSON.stringify({ mode, preflight: true })) ?? []
            const of = (capability: string) => answers.find((it) => it.capability === capability)?.support
            expect(answers.length).toBeGreaterThan(0)
            if (mode === "kueue") expect(of("AttemptInjection")).toEqual(of("ReadmissionGate"))
            else expect(of("AttemptInjection")).not.toEqual(of("ReadmissionGate"))
          })
        )
      }
    }
  )

seedTable("the seed table on the served in-memory cluster", Clusters.served)

if (realKubeconfig === undefined) {
  describe("the seed table on a real API server", () => it.skip(whyLeftOut, () => undefined))
} else seedTable("the seed table on a real API server", Clusters.real(realKubeconfig))
