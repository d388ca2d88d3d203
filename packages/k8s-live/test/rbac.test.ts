import * as Access from "@dispatch-kubeflow/core/Access"
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { Cluster } from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it, layer as suiteOver } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Schedule, Stream, TestClock } from "effect"
import * as Clusters from "./clusters.js"
import * as Manifests from "./manifests.js"
import { realKubeconfig, whyLeftOut } from "./worlds.js"

const namespace = "team-a"

const kueue: AdapterConfig.KueueConfig = {
  localQueue: "team-queue",
  admissionCheck: "gate",
  controllerName: "acme.io/gate",
  lease: { namespace: "gate-system", name: "gate" }
}

const configs: { readonly [M in Manifests.Mode]: AdapterConfig.AdapterConfig } = {
  "read-only": AdapterConfig.make({ namespace, access: "read-only" }),
  plain: AdapterConfig.make({ namespace }),
  kueue: AdapterConfig.make({ namespace, kueue })
}

const active = { conditions: [{ type: "Active", status: "True", reason: "Ready", message: "" }] }
const kueueApi = "kueue.x-k8s.io/v1beta2"

const queueObjects: ReadonlyArray<object> = [
  {
    apiVersion: kueueApi,
    kind: "LocalQueue",
    metadata: { name: "team-queue", namespace },
    spec: { clusterQueue: "pool" },
    status: active
  },
  {
    apiVersion: kueueApi,
    kind: "ClusterQueue",
    metadata: { name: "pool" },
    // by a label that only the Namespace object tells
    spec: {
      namespaceSelector: { matchLabels: { team: "a" } },
      admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] }
    },
    status: active
  },
  {
    apiVersion: kueueApi,
    kind: "AdmissionCheck",
    metadata: { name: "gate" },
    spec: { controllerName: kueue.controllerName },
    status: active
  },
  {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "gate", namespace: "gate-system" },
    spec: { holderIdentity: "gate-0", leaseDurationSeconds: 360_000, renewTime: "1970-01-01T00:00:00.000000Z" }
  }
]

/** Lets the virtual clock run until an effect is done. */
const drive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    for (let turn = 0; turn < 400; turn += 1) {
      const exit = yield* Fiber.poll(fiber)
      if (Option.isSome(exit)) return yield* exit.value
      yield* TestClock.adjust("200 millis")
    }
    return yield* Effect.dieMessage("not done after 400 steps of the clock")
  })

const said = <A, E extends { readonly message: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onSuccess: () => "done", onFailure: (error) => error.message })

/** Everything the programs answer to a service account: checks, capabilities, and what each program says. */
const survey = (config: AdapterConfig.AdapterConfig, api: KubeApi.Service) =>
  Effect.gen(function* () {
    const adapter = yield* Adapter.make(config).pipe(
      Effect.provideService(KubeApi.KubeApi, api),
      Effect.provide(EvidenceStore.layerMemory())
    )
    const report = yield* drive(adapter.preflight())
    const answers = yield* adapter.capabilities()
    const ref = { namespace, name: "run-1", uid: undefined }
    const ofRuntime = (kind: string) => said(adapter.capabilities({ runtimeRef: { kind, name: "torch-conforming" } }))
    const follow = adapter.outputEvents(ref, { stream: "Stdout", follow: true })
    const all = [
      api.list(Trainer.clusterTrainingRuntimes, {}),
      api.list(Trainer.trainingRuntimes, { namespace })
    ] as const
    const found: Record<string, string> = {
      output: yield* drive(said(Stream.runDrain(adapter.outputEvents(ref, { stream: "Stdout" })))),
      "output --follow": yield* drive(said(Stream.runHead(follow))),
      // Long enough for every list and watch of it to be open, and to be refused
      watch: yield* drive(said(Effect.timeoutOption(Stream.runDrain(adapter.watch(Watch.ref(ref))), "3 seconds"))),
      ceased: yield* drive(said(adapter.ceased(ref))),
      "capabilities --runtime": yield* ofRuntime("ClusterTrainingRuntime"),
      "capabilities --runtime TrainingRuntime/…": yield* ofRuntime("TrainingRuntime"),
      "runtime check --all": yield* drive(said(Effect.all(all)))
    }
    for (const { capability, support } of answers) {
      found[capability] =
        `${support.answer}, ${support.source}${support.answer === "yes" ? "" : `: ${support.reason ?? ""}`}`
    }
    for (const check of report.checks) {
      if (check.id.startsWith("access: ")) {
        found[check.id] = check.outcome === "passed" ? "passed" : `${check.outcome}: ${check.found}`
      }
    }
    return found
  })

const outputs = ["output", "output --follow"]
const gate = ["AttemptInjection", "ReadmissionGate"]
const trainer = "trainer.kubeflow.org"

/**
 * What changes without a permission, beside the preflight's own check of it. `Hold` changes where the backend may write.
 * Nothing else changes without an optional permission here: it only sharpens an answer about something that is not going on.
 */
const effects: Readonly<Record<string, ReadonlyArray<string>>> = {
  "get pods": ["output --follow"],
  "list pods": [...outputs, "OutputRead", "OutputFollow", "watch", "ceased", "Hold"],
  "watch pods": ["OutputFollow", "watch"],
  "get pods/log": [...outputs, "OutputRead", "OutputFollow"],
  [`get trainjobs.${trainer}`]: [...outputs, "ceased", "Hold"],
  [`list trainjobs.${trainer}`]: ["watch"],
  [`watch trainjobs.${trainer}`]: ["watch"],
  [`create trainjobs.${trainer}`]: ["Hold"],
  [`patch trainjobs.${trainer}`]: ["Hold"],
  [`delete trainjobs.${trainer}`]: ["Hold"],
  [`get trainingruntimes.${trainer}`]: ["capabilities --runtime TrainingRuntime/…"],
  [`list trainingruntimes.${trainer}`]: ["runtime check --all"],
  [`get clustertrainingruntimes.${trainer}`]: ["capabilities --runtime"],
  [`list clustertrainingruntimes.${trainer}`]: ["runtime check --all"],
  "get jobsets.jobset.x-k8s.io": [...outputs, "ceased", "Hold"],
  "list jobsets.jobset.x-k8s.io": ["watch"],
  "watch jobsets.jobset.x-k8s.io": ["watch"],
  "list jobs.batch": [...outputs, "watch", "ceased"],
  "watch jobs.batch": ["watch"],
  "list events": [],
  "watch events": [],
  "get nodes": ["ceased"],
  "get leases.coordination.k8s.io in kube-node-lease": [],
  "get workloads.kueue.x-k8s.io": ["Hold"],
  "list workloads.kueue.x-k8s.io": ["watch"],
  "watch workloads.kueue.x-k8s.io": ["watch"],
  "update workloads.kueue.x-k8s.io": ["Hold"],
  "get localqueues.kueue.x-k8s.io": gate,
  "get clusterqueues.kueue.x-k8s.io": gate,
  "get admissionchecks.kueue.x-k8s.io": gate,
  "get namespaces": gate,
  "get leases.coordination.k8s.io in gate-system": gate
}

const effectsOf = (mode: Manifests.Mode, id: string): ReadonlyArray<string> =>
  (effects[id] ?? [`no effect is named for ${id}`]).filter((name) => name !== "Hold" || mode !== "read-only")

const listsRuntimes = (id: string): boolean => /^list (cluster)?trainingruntimes/.test(id)

const world = (mode: Manifests.Mode) =>
  Effect.gen(function* () {
    const cluster = yield* TestCluster.TestCluster
    const door = yield* Cluster
    yield* cluster.create(Fixtures.namespace(namespace, { team: "a" }))
    yield* cluster.create(Fixtures.namespace("gate-system"))
    yield* cluster.createNode("node-1")
    yield* cluster.create(Fixtures.torchConforming())
    yield* cluster.create(Fixtures.namespacedRuntime(Fixtures.torchConforming(), namespace))
    yield* door.seed(queueObjects)
    yield* cluster.create(Fixtures.trainJob("run-1"), namespace)
    yield* cluster.settle
    yield* TestClock.adjust("5 seconds")
    const [pod] = yield* cluster.pods(namespace)
    if (pod === undefined) return yield* Effect.dieMessage("run-1 has no pod")
    yield* cluster.writeLog(pod, "step 1\n")
    const manifests = Manifests.load(mode)
    yield* door.seed(manifests)
    const asDispatcher = door.as(Rbac.serviceAccount(namespace, "dispatcher"))
    return {
      manifests,
      asAdmin: survey(configs[mode], door.admin),
      asDispatcher: survey(configs[mode], asDispatcher),
      /** The survey while one role lacks something. */
      whileLacking: (lesser: Manifests.Manifest, whole: Manifests.Manifest) =>
        Effect.acquireUseRelease(
          door.seed([lesser]),
          () => survey(configs[mode], asDispatcher),
          () => door.seed([whole])
        )
    }
  })

for (const mode of ["read-only", "plain", "kueue"] as const) {
  describe(`deploy/rbac/${mode}.yaml in memory`, () => {
    it.scoped("is sufficient: every answer is that of an administrator", () =>
      Effect.gen(function* () {
        const { asAdmin, asDispatcher } = yield* world(mode)
        expect(yield* asDispatcher).toEqual(yield* asAdmin)
      }).pipe(Effect.provide(TestCluster.layer()))
    )

    it.scoped(
      "is least: without any one permission a named answer changes, and names the verb",
      () =>
        Effect.gen(function* () {
          const { asDispatcher, manifests, whileLacking } = yield* world(mode)
          const whole = yield* asDispatcher
          for (const grant of Manifests.grants(manifests)) {
            const role = manifests[grant.role]
            if (role === undefined) continue
            const lesser = yield* whileLacking(Manifests.without(manifests, grant), role)
            const changed = Object.entries(lesser).filter(([name, text]) => whole[name] !== text)
            const names = changed.map(([name]) => name)
            const programs = names.filter((name) => !name.startsWith("access: "))
            expect([grant.id, ...programs.toSorted()]).toEqual([grant.id, ...effectsOf(mode, grant.id).toSorted()])
            // The preflight asks for exactly this permission, and for all but what `runtime check --all` alone needs
            const checks = names.filter((name) => name.startsWith("access: "))
            expect([grant.id, checks.length]).toEqual([
              grant.id,
              mode === "read-only" && listsRuntimes(grant.id) ? 0 : 1
            ])
            for (const [name, text] of changed) {
              expect([grant.id, name, text.includes(grant.verb)]).toEqual([grant.id, name, true])
            }
          }
          expect(yield* asDispatcher).toEqual(whole)
        }).pipe(Effect.provide(TestCluster.layer())),
      // One survey for each permission: on a busy machine that is minutes
      300_000
    )
  })
}

/** Asks the preflight's permissions until as many are denied as should be; RBAC reaches the authorizer within a second. */
const reviews = (config: AdapterConfig.AdapterConfig, api: KubeApi.Service, denied: number) =>
  Access.ask(api, Access.needs(config)).pipe(
    Effect.map((outcomes) => outcomes.filter((it) => it.review._tag !== "Allowed").map((it) => it.need)),
    Effect.filterOrFail(
      (needs) => needs.length === denied,
      (needs) => needs
    ),
    Effect.retry(Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(100))),
    Effect.merge
  )

const matches = (manifest: Manifests.Manifest, grant: Manifests.Grant, need: Access.Need): boolean => {
  const rule = manifest.rules?.[grant.rule]
  const { attributes } = need
  const resource = `${attributes.resource}${attributes.subresource === undefined ? "" : `/${attributes.subresource}`}`
  return rule?.resources[0] === resource && rule.apiGroups[0] === attributes.group && attributes.verb === grant.verb
}

const live = (kubeconfig: string) =>
  Effect.map(Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Text({ text: kubeconfig }) })), (context) =>
    Context.get(context, KubeApi.KubeApi)
  )

const onRealCluster = (kubeconfig: string): void =>
  suiteOver(Clusters.real(kubeconfig), { excludeTestServices: true, timeout: "60 seconds" })(
    "deploy/rbac on a real API server",
    (it) => {
      for (const mode of ["read-only", "plain", "kueue"] as const) {
        const prepared = Effect.gen(function* () {
          const world = yield* Clusters.ClusterWorld
          const account = `by-${mode}`
          const manifests = Clusters.forAccount(Manifests.load(mode, Clusters.names(world)), account)
          yield* Clusters.provide(world.api, manifests)
          const api = yield* live(yield* world.kubeconfig(account))
          const config = AdapterConfig.make({
            namespace: world.namespace,
            access: mode === "read-only" ? "read-only" : "read-write",
            kueue: mode === "kueue" ? world.kueue : undefined
          })
          yield* reviews(config, api, 0)
          return { world, manifests, api, config }
        })

        it.scoped(`${mode}.yaml is sufficient: preflight and capabilities answer as to an administrator`, () =>
          Effect.gen(function* () {
            const { api, config, world } = yield* prepared
            const ask = (as: KubeApi.Service) =>
              Effect.gen(function* () {
                const adapter = yield* Adapter.make(config).pipe(
                  Effect.provideService(KubeApi.KubeApi, as),
                  Effect.provide(EvidenceStore.layerMemory())
                )
                const report = yield* adapter.preflight({
                  spec: { runtimeRef: { name: world.runtimes.torch } }
                })
                const answers = yield* adapter.capabilities({ runtimeRef: { name: world.runtimes.torch } })
                return {
                  mode: report.mode,
                  checks: report.checks.map((check) => `${check.id}: ${check.outcome}`),
                  answers: answers.map((it) => `${it.capability}: ${it.support.answer}, ${it.support.source}`)
                }
              })
            const mine = yield* ask(api)
            expect(mine).toEqual(yield* ask(world.api))
            expect(mine.mode._tag).toBe(mode === "read-only" ? "ReadOnly" : "Writable")
          })
        )

        it.scoped(
          `${mode}.yaml is least: without any one permission the preflight's check of it fails, and no other`,
          () =>
            Effect.gen(function* () {
              const { api, config, manifests, world } = yield* prepared
              for (const grant of Manifests.grants(manifests)) {
                const role = manifests[grant.role]
                if (role === undefined || (mode === "read-only" && listsRuntimes(grant.id))) continue
                yield* Clusters.change(world.api, role, { rules: Manifests.without(manifests, grant).rules })
                const denied = yield* reviews(config, api, 1)
                expect([grant.id, denied.map((need) => matches(role, grant, need))]).toEqual([grant.id, [true]])
                yield* Clusters.change(world.api, role, { rules: role.rules })
              }
              expect(yield* reviews(config, api, 0)).toEqual([])
            })
        )
      }
    }
  )

if (realKubeconfig === undefined)
  describe("deploy/rbac on a real API server", () => it.skip(whyLeftOut, () => undefined))
else onRealCluster(realKubeconfig)
