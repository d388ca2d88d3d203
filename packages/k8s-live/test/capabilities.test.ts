import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as Support from "@dispatch-kubeflow/core/decide/Support"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { describe, expect, it, layer as suiteOver } from "@effect/vitest"
import { Effect, type Layer, Schema, type Scope } from "effect"
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
          cell(
            probed,
            "from ClusterQueue, AdmissionCheck, Lease",
            capability,
            "yes",
            "probed",
            /Lease\/gate.*not covered/s
          ),
          cell(
            { ...probed, leaseless: true },
            "without a Lease",
            capability,
            "no",
            "probed",
            /Lease\/absent.*does not exist/
          ),
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

type Row = Effect.Effect.Success<ReturnType<typeof byCommand>>[number]

/** Asks with the command, which goes through HTTP. */
const byCommand = (world: Clusters.World, asked: Question, account: string | undefined) =>
  Effect.gen(function* () {
    const folder = yield* Terminal.folder
    const path = Terminal.file(folder, "kubeconfig.yaml", yield* world.kubeconfig(account))
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

/** Asks the adapter over the store itself. */
const inMemory = (world: Clusters.World, asked: Question, account: string | undefined) =>
  Effect.gen(function* () {
    const api = account === undefined ? world.api : yield* world.as(account)
    const adapter = yield* Adapter.make(
      AdapterConfig.make({
        namespace: world.namespace,
        access: asked.readOnly === true ? "read-only" : "read-write",
        kueue:
          asked.mode === "plain"
            ? undefined
            : asked.leaseless === true
              ? { ...world.kueue, lease: { ...world.kueue.lease, name: "absent" } }
              : world.kueue
      })
    ).pipe(Effect.provideService(KubeApi.KubeApi, api), Effect.provide(EvidenceStore.layerMemory()))
    if (asked.preflight === true) yield* adapter.preflight()
    const answers: ReadonlyArray<Row> = yield* adapter.capabilities(
      asked.runtime === undefined ? undefined : { runtimeRef: { name: world.runtimes[asked.runtime] } }
    )
    return answers
  })

/** A service account that lacks one permission; it and its roles go with the scope. */
const lackingOne = (world: Clusters.World, lacking: string) =>
  Effect.gen(function* () {
    const account = `no-${lacking.replaceAll(/[^a-z]/g, "-")}`
    const manifests = Clusters.forAccount(Manifests.load("kueue", Clusters.names(world)), account)
    const grant = Manifests.grants(manifests).find(({ id }) => id === lacking)
    if (grant === undefined) return yield* Effect.dieMessage(`no manifest grants ${lacking}`)
    yield* Clusters.provide(
      world.api,
      manifests.map((manifest, index) => (index === grant.role ? Manifests.without(manifests, grant) : manifest))
    )
    // RBAC reaches the authorizer within a second
    if (world.kind === "real") yield* Effect.sleep("1500 millis")
    return account
  })

type Ask<E> = (
  world: Clusters.World,
  asked: Question,
  account: string | undefined
) => Effect.Effect<ReadonlyArray<Row>, E, Scope.Scope>

const seedTable = <E, E2>(title: string, layer: Layer.Layer<Clusters.ClusterWorld, E>, ask: Ask<E2>): void =>
  suiteOver(layer, { excludeTestServices: true, timeout: "60 seconds" })(title, (it) => {
    for (const mode of ["plain", "kueue"] as const) {
      // The answers to one question fill many cells
      const known = new Map<string, ReadonlyArray<Row>>()
      const answersTo = (asked: Question) =>
        Effect.gen(function* () {
          const key = JSON.stringify(asked)
          const before = known.get(key)
          if (before !== undefined) return before
          const world = yield* Clusters.ClusterWorld
          const account = asked.lacking === undefined ? undefined : yield* lackingOne(world, asked.lacking)
          const answers = yield* ask(world, asked, account)
          known.set(key, answers)
          return answers
        })
      for (const expected of cellsOf(mode)) {
        it.scoped(expected.name, () =>
          Effect.gen(function* () {
            const answers = yield* answersTo(expected.asked)
            expect(answers.map((it) => it.capability)).toEqual(Support.capabilities)
            const support = answers.find((it) => it.capability === expected.capability)?.support
            expect(support).toMatchObject({ answer: expected.answer, source: expected.source })
            if (expected.answer !== "yes" || expected.source !== "declared") expect(support?.reason).toBeTruthy()
            if (typeof expected.reason === "string") expect(support?.reason).toBe(expected.reason)
            else if (expected.reason !== undefined) expect(support?.reason).toMatch(expected.reason)
          })
        )
      }

      const tied = mode === "kueue" ? "is ReadmissionGate, whole" : "does not hang on the gate"
      it.scoped(`${mode}: AttemptInjection ${tied}`, () =>
        Effect.gen(function* () {
          const answers = yield* answersTo({ mode, preflight: true })
          const of = (capability: string) => answers.find((it) => it.capability === capability)?.support
          if (mode === "kueue") expect(of("AttemptInjection")).toEqual(of("ReadmissionGate"))
          else expect(of("AttemptInjection")).not.toEqual(of("ReadmissionGate"))
        })
      )
    }
  })

seedTable("the seed table in memory", Clusters.served, inMemory)
seedTable("the seed table on the served in-memory cluster", Clusters.served, byCommand)

if (realKubeconfig === undefined) {
  describe("the seed table on a real API server", () => it.skip(whyLeftOut, () => undefined))
} else seedTable("the seed table on a real API server", Clusters.real(realKubeconfig), byCommand)
