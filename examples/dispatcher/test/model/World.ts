/**
 * A cluster in memory with a dispatcher that can be killed, and the truth about both: the processes of the machines, every
 * pod that ever was, every request that was made.
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { KubeUnavailable } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as JobSet from "@dispatch-kubeflow/core/model/JobSet"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as KueueObjects from "@dispatch-kubeflow/testkit/stages/KueueObjects"
import * as Objects from "@dispatch-kubeflow/testkit/stages/Objects"
import { type Options, TestCluster } from "@dispatch-kubeflow/testkit/TestCluster"
import { KeyValueStore } from "@effect/platform"
import { Clock, Effect, Exit, Fiber, Option, Scope, Stream } from "effect"
import type * as Backend from "../../src/Backend.js"
import * as CheckController from "../../src/backends/kubeflow/CheckController.js"
import * as Kubeflow from "../../src/backends/Kubeflow.js"
import type { decide } from "../../src/decide.js"
import * as Dispatcher from "../../src/Dispatcher.js"
import * as Journal from "../../src/Journal.js"
import type { Policy } from "../../src/Policy.js"
import type { Command, Death, Permission, Script } from "./Command.js"
import { permissions } from "./Command.js"
import { never, type Service, VirtualTime } from "@dispatch-kubeflow/testkit/VirtualTime"

export const namespace = "default"
/** How many ranks every run has. */
export const ranks = 2
const user = "dispatcher"
const readerUser = "reader"

/** What a deliberate fault takes the place of. */
export interface Pieces {
  readonly adapter?: (adapter: Adapter.Service, deps: Deps) => Adapter.Service
  readonly store?: (store: EvidenceStore.Service) => EvidenceStore.Service
  readonly backend?: (backend: Backend.Backend, deps: Deps) => Backend.Backend
  readonly journal?: (journal: Journal.Service) => Journal.Service
  readonly decide?: typeof decide
}

export interface Deps {
  readonly api: KubeApi.Service
  readonly store: EvidenceStore.Service
}

/** What a follower of rank 0's output was told. */
export interface Follower {
  readonly name: string
  readonly id: string
  text: string
  /** Offsets in `text` at which output may be missing. */
  readonly gaps: Array<number>
}

/** One life of the dispatcher. */
export interface Life {
  readonly adapter: Adapter.Service
  readonly store: EvidenceStore.Service
  readonly dispatcher: Dispatcher.Service
  readonly scope: Scope.CloseableScope
  readonly api: KubeApi.Service
  readonly dead: { value: boolean }
  readonly followers: Map<string, Follower>
  /** The controller of the admission check, while it runs. */
  controller: Fiber.RuntimeFiber<never> | undefined
}

/** A pod that was once created. */
export interface Known {
  readonly uid: string
  readonly name: string
  readonly rank: string
  readonly jobSetUid: string
  /** When it was created. */
  readonly at: number
  /** Of its container's log, how many lines were written. */
  lines: number
}

export interface World {
  readonly cluster: Cluster.Service
  readonly machines: TestCluster["Type"]
  readonly script: Script
  readonly reader: Adapter.Service
  readonly life: () => Life | undefined
  readonly partitioned: () => boolean
  readonly granted: () => ReadonlySet<Permission>
  readonly pods: ReadonlyMap<string, Known>
  /** JobSet uid → TrainJob uid. */
  readonly owners: ReadonlyMap<string, string>
  /** Every start time that a Job ever had, by its uid. */
  readonly starts: ReadonlyMap<string, { readonly jobSetUid: string; readonly times: ReadonlySet<string> }>
  /** When somebody last vouched for a Node, by a taint or by deleting it. */
  readonly vouched: ReadonlyMap<string, number>
  readonly foreign: ReadonlySet<string>
  /** Every TrainJob that was ever created, and when. */
  readonly made: ReadonlyArray<{ readonly name: string; readonly uid: string; readonly at: number }>
  /** With Kueue: how often each TrainJob was let in, by uid. */
  readonly letIn: ReadonlyMap<string, number>
  /** When the dispatcher first wrote down that nothing more is started for a TrainJob, by uid. */
  readonly fenced: ReadonlyMap<string, number>
  /** With Kueue: Workloads that a person has released, and TrainJobs whose held Workload a person has deleted, by uid. */
  readonly released: ReadonlySet<string>
  /** With Kueue: since when the check's controller is stopped while the dispatcher lives. */
  readonly uncontrolledSince: () => number | undefined
  /** Since when the dispatcher can watch without hindrance. */
  readonly watchingSince: () => number | undefined
  readonly perform: (command: Command) => Effect.Effect<void>
  /** Waits until nothing more happens at this instant, and buries a dispatcher that died. */
  readonly settle: Effect.Effect<void>
  readonly time: Service
  readonly heal: Effect.Effect<void>
  /**
   * Somebody finds the machines whose names others have taken, and that still run something: every machine of such a name
   * is switched off, its Node deleted, and a new machine put beside it. Answers whether there were any.
   */
  readonly retire: Effect.Effect<boolean>
}

const policy: Policy = {
  rules: [
    { cause: "Deleted", action: "Resubmit" },
    { cause: "*", action: "Resubmit" }
  ],
  attempts: 4
}

const rbac = { apiVersion: "rbac.authorization.k8s.io/v1" }
const rule = (group: string, resource: string, verbs: ReadonlyArray<string>) => ({
  apiGroups: [group],
  resources: [resource],
  verbs
})

const roles = (granted: ReadonlySet<Permission>): ReadonlyArray<object> => {
  const when = (permission: Permission, verb: string): ReadonlyArray<string> => (granted.has(permission) ? [verb] : [])
  const common = [
    rule("trainer.kubeflow.org", "trainjobs", ["get", "list", "watch"]),
    rule("trainer.kubeflow.org", "clustertrainingruntimes", ["get", "list"]),
    rule("jobset.x-k8s.io", "jobsets", ["get", "list", "watch"]),
    rule("batch", "jobs", ["get", "list", "watch"]),
    rule("", "events", ["get", "list", "watch"]),
    rule("coordination.k8s.io", "leases", ["get"]),
    rule("kueue.x-k8s.io", "workloads", ["get", "list", "watch"]),
    ...["localqueues", "clusterqueues", "admissionchecks"].map((resource) => rule("kueue.x-k8s.io", resource, ["get"]))
  ]
  const role = (name: string, rules: ReadonlyArray<object>) => [
    { ...rbac, kind: "ClusterRole", metadata: { name }, rules },
    {
      ...rbac,
      kind: "ClusterRoleBinding",
      metadata: { name },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name }],
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name }
    }
  ]
  return [
    ...role(user, [
      ...common,
      rule("", "pods", ["get", "list", ...when("watch pods", "watch")]),
      rule("", "pods/log", when("get pods/log", "get")),
      rule("", "nodes", when("get nodes", "get")),
      rule("trainer.kubeflow.org", "trainjobs", [
        "delete",
        ...when("patch trainjobs", "patch"),
        ...when("create trainjobs", "create")
      ]),
      rule("kueue.x-k8s.io", "workloads", when("update workloads", "update")),
      ...["workloads/status", "admissionchecks/status"].map((resource) => rule("kueue.x-k8s.io", resource, ["update"])),
      rule("coordination.k8s.io", "leases", ["create", "update"])
    ]),
    // It may write, so that what it writes is its own doing
    ...role(readerUser, [
      ...common,
      rule("", "pods", ["*"]),
      rule("", "pods/log", ["get"]),
      rule("", "nodes", ["*"]),
      rule("trainer.kubeflow.org", "trainjobs", ["*"]),
      rule("kueue.x-k8s.io", "*", ["*"])
    ])
  ]
}

const runtimeOf = (script: Script): Fixtures.Body =>
  Fixtures.torchConforming("torch-conforming", {
    ...(script.replacing ? { backoffLimit: 6, podReplacementPolicy: "TerminatingOrFailed" as const } : {}),
    // Five minutes of tolerance and one rank per Node cost a test time, not truth
    pod: { ...Fixtures.tolerationSeconds(5), ...Fixtures.oneRankPerNode }
  })

/** Kueue mode of these worlds. */
export const kueue: AdapterConfig.KueueConfig = {
  localQueue: "queue",
  admissionCheck: "check",
  controllerName: "example.dispatch-kubeflow.dev/check",
  lease: { namespace: "kube-system", name: "check" }
}

/** A runtime whose containers ask for one CPU: what Kueue counts. */
const withCpu = (runtime: Fixtures.Body): object =>
  JSON.parse(JSON.stringify(runtime), (key, value: unknown) =>
    key === "containers" && Array.isArray(value)
      ? value.map((container: object) => ({ ...container, resources: { requests: { cpu: "1" } } }))
      : value
  ) as object

const shutdownTaint = "node.cloudprovider.kubernetes.io/shutdown"
const highPriority = "high"
const other = "other"

/** Quota for one run of two ranks. */
const queues: ReadonlyArray<readonly [body: object, namespace?: string]> = [
  [Fixtures.resourceFlavor("default")],
  [Fixtures.workloadPriorityClass(highPriority, 100)],
  [Fixtures.admissionCheck(kueue.admissionCheck, { controllerName: kueue.controllerName })],
  [
    Fixtures.clusterQueue("pool", {
      quotas: { default: { cpu: "2" } },
      admissionChecks: [kueue.admissionCheck],
      withinClusterQueue: "LowerPriority"
    })
  ],
  [Fixtures.localQueue(kueue.localQueue, { clusterQueue: "pool" }), namespace]
]

/** What the cluster is made with. */
export const clusterOptions = (script: Script): Options => ({
  seed: script.seed,
  skew: { controllers: script.skew * 1000 },
  kueue: script.kueue,
  monitorGracePeriod: "20 seconds",
  programs: (pod: Objects.Pod) => ({
    output: [{ after: 0, text: `${pod.metadata.uid} 0\n` }],
    ...(script.stubborn ? { onTerm: "ignore" as const } : {})
  })
})

const pick = <A>(items: ReadonlyArray<A>, index: number): A | undefined => items[index % Math.max(1, items.length)]

/** Builds the world around the cluster of the context. */
export const make = (script: Script, pieces: Pieces = {}) =>
  Effect.gen(function* () {
    const cluster = yield* Cluster.Cluster
    const machines = yield* TestCluster
    const time = yield* VirtualTime
    const outer = yield* Effect.scope
    const granted = new Set<Permission>(permissions)
    const pods = new Map<string, Known>()
    const owners = new Map<string, string>()
    const starts = new Map<string, { readonly jobSetUid: string; readonly times: Set<string> }>()
    const vouched = new Map<string, number>()
    const foreign = new Set<string>()
    const made: Array<World["made"][number]> = []
    const letIn = new Map<string, number>()
    const fenced = new Map<string, number>()
    const released = new Set<string>()
    const ids = new Map<string, string>()
    const files = new Map<string, string>()
    const late: Array<Effect.Effect<unknown>> = []
    let partitioned = false
    let life: Life | undefined
    let death: Death | undefined
    let watchingSince: number | undefined
    let uncontrolledSince: number | undefined
    let nodes = 3

    // ---- the truth
    const answers = new Map<string, string>()
    const noteAdmission = (workload: KueueObjects.Workload): void => {
      const owner = Objects.controllerOf(workload)?.uid ?? ""
      const state = workload.status?.admissionChecks?.find(({ name }) => name === kueue.admissionCheck)?.state ?? ""
      const before = answers.get(workload.metadata.uid)
      answers.set(workload.metadata.uid, state)
      if (state === "Ready" && before !== "Ready") letIn.set(owner, (letIn.get(owner) ?? 0) + 1)
    }
    yield* Effect.forkIn(
      Stream.runForEach(cluster.changes(0), ({ object: raw, type }) =>
        Effect.map(Clock.currentTimeMillis, (at) => {
          const object = raw as unknown as Objects.Raw
          if (Objects.is(KueueObjects.workloads, object)) return noteAdmission(object)
          if (Objects.is(Objects.jobs, object) && object.status?.startTime !== undefined) {
            const jobSetUid = object.metadata.labels?.[JobSet.jobSetUidLabel] ?? ""
            const known = starts.get(object.metadata.uid) ?? { jobSetUid, times: new Set<string>() }
            known.times.add(object.status.startTime)
            starts.set(object.metadata.uid, known)
          }
          if (type !== "ADDED") return
          const { name, uid } = object.metadata
          if (object.kind === "TrainJob") {
            made.push({ name, uid, at })
          } else if (Objects.is(Objects.pods, object)) {
            const labels = object.metadata.labels ?? {}
            pods.set(uid, {
              uid,
              name,
              rank: labels["batch.kubernetes.io/job-completion-index"] ?? "",
              jobSetUid: labels[JobSet.jobSetUidLabel] ?? "",
              at,
              lines: 1
            })
          } else if (object.kind === "JobSet") {
            const owner = object.metadata.ownerReferences?.find(({ kind }) => kind === "TrainJob")
            if (owner !== undefined) owners.set(uid, owner.uid)
          }
        })
      ),
      outer
    )
    yield* cluster.seed(roles(granted))
    yield* machines.create(script.kueue ? withCpu(runtimeOf(script)) : runtimeOf(script))
    if (script.kueue) for (const [body, where] of queues) yield* machines.create(body, where)
    for (let node = 1; node <= nodes; node += 1) yield* machines.createNode(`n${node}`)
    yield* time.rest

    // ---- the dispatcher's connections to the world
    const die = (dead: { value: boolean }): Effect.Effect<never> =>
      Effect.suspend(() => {
        dead.value = true
        death = undefined
        return never
      })
    const wired =
      (dead: { value: boolean }) =>
      (transport: KubeTransport): KubeTransport => {
        const down = (request: KubeRequest.KubeRequest) =>
          new KubeUnavailable({ request: KubeRequest.withoutBody(request), phase: "connect", detail: "partitioned" })
        return {
          call: (request) =>
            Effect.suspend(() => {
              if (dead.value) return never
              if (partitioned) return Effect.fail(down(request))
              if (KubeRequest.isWrite(request) && request.query["dryRun"] === undefined) {
                switch (death) {
                  case "request lost":
                    return die(dead)
                  case "answer lost":
                    return Effect.zipRight(Effect.ignore(transport.call(request)), die(dead))
                  case "request late":
                    late.push(Effect.ignore(transport.call(request)))
                    return die(dead)
                  default:
                }
              }
              return transport.call(request)
            }),
          watch: (request) =>
            Stream.suspend(() =>
              dead.value ? Stream.never : partitioned ? Stream.fail(down(request)) : transport.watch(request)
            ),
          bytes: (request) =>
            Stream.suspend(() =>
              dead.value ? Stream.never : partitioned ? Stream.fail(down(request)) : transport.bytes(request)
            )
        }
      }
    const disk = (dead: { value: boolean }): KeyValueStore.KeyValueStore =>
      KeyValueStore.makeStringOnly({
        get: (key) => (dead.value ? never : Effect.sync(() => Option.fromNullable(files.get(key)))),
        set: (key, value) =>
          Effect.suspend(() => {
            // Not for ever: some writes cannot be interrupted. It leaves no trace, and the cluster is out of reach
            if (dead.value) return Effect.void
            const journal = key.startsWith("journal/run/")
            if (journal && death === "before journal") return die(dead)
            files.set(key, value)
            return journal && death === "after journal" ? die(dead) : Effect.void
          }),
        remove: (key) => (dead.value ? never : Effect.sync(() => void files.delete(key))),
        clear: Effect.sync(() => files.clear()),
        size: Effect.sync(() => files.size)
      })

    const config = AdapterConfig.make({
      namespace,
      outOfService: script.outOfService,
      access: script.mode === "read-only" ? "read-only" : "read-write",
      // Without Kueue, or without the check's controller, the gate is never proven
      kueue: script.kueue || script.mode === "observe-only" ? kueue : undefined,
      inPlaceRestarts: script.replacing ? "accept" : "refuse"
    })

    const follow = (adapter: Adapter.Service, follower: Follower): Effect.Effect<void> =>
      Stream.runForEach(
        adapter.outputEvents({ namespace, name: follower.name, uid: follower.id }, { follow: true, awaitPod: true }),
        (event) =>
          Effect.sync(() => {
            if (event._tag === "Bytes") follower.text += new TextDecoder().decode(event.bytes)
            else if (event._tag === "Gap") follower.gaps.push(follower.text.length)
          })
      ).pipe(Effect.ignore)

    const live: Effect.Effect<Life> = Effect.gen(function* () {
      const dead = { value: false }
      const scope = yield* Scope.make()
      const api = KubeApi.make(wired(dead)(cluster.transport(Rbac.user(user))))
      const kept = yield* EvidenceStore.makeKeyValueStore().pipe(
        Effect.provideService(KeyValueStore.KeyValueStore, disk(dead)),
        Effect.orDie
      )
      const store = pieces.store?.(kept) ?? kept
      const deps = { api, store }
      const made = yield* Adapter.make(config, { watch: { onProblem: () => Effect.void } }).pipe(
        Effect.provideService(KubeApi.KubeApi, api),
        Effect.provideService(EvidenceStore.EvidenceStore, store)
      )
      const adapter = pieces.adapter?.(made, deps) ?? made
      const backend = Kubeflow.make({ name: "kubeflow", runtime: "torch-conforming", adapter, api, holder: user })
      const book = yield* Effect.provideService(Journal.make, KeyValueStore.KeyValueStore, disk(dead))
      const followers = new Map<string, Follower>()
      const dispatcher = yield* Dispatcher.make({
        backends: [pieces.backend?.(backend, deps) ?? backend],
        ...(pieces.decide === undefined ? {} : { decide: pieces.decide }),
        onHappening: (happening) =>
          Effect.gen(function* () {
            if (happening._tag !== "Wrote") return
            const { entry, run } = happening
            if (entry._tag === "Fenced") {
              const id = ids.get(`${run}-${entry.n}`)
              if (id !== undefined && !fenced.has(id)) fenced.set(id, yield* Clock.currentTimeMillis)
            }
            if (entry._tag !== "Prepared") return
            const name = `${run}-${entry.n}`
            ids.set(name, entry.id)
            const follower: Follower = { name, id: entry.id, text: "", gaps: [] }
            followers.set(entry.id, follower)
            yield* Effect.forkIn(follow(adapter, follower), scope)
          })
      }).pipe(
        Effect.provideService(Journal.Journal, pieces.journal?.(book) ?? book),
        Effect.provideService(Scope.Scope, scope),
        Effect.orDie
      )
      const life: Life = { adapter, api, store, dispatcher, scope, dead, followers, controller: undefined }
      return life
    })

    const control = Effect.gen(function* () {
      if (life === undefined || life.controller !== undefined || !script.kueue || script.mode !== "read-write") return
      uncontrolledSince = undefined
      life.controller = yield* Effect.forkIn(CheckController.run({ api: life.api, kueue, holder: user }), life.scope)
    })

    const readerApi = cluster.as(Rbac.user(readerUser))
    const readerStore = yield* EvidenceStore.makeMemory()
    const readerMade = yield* Adapter.make({ ...config, access: "read-only" }).pipe(
      Effect.provideService(KubeApi.KubeApi, readerApi),
      Effect.provideService(EvidenceStore.EvidenceStore, readerStore)
    )
    const reader = pieces.adapter?.(readerMade, { api: readerApi, store: readerStore }) ?? readerMade

    const bury = Effect.gen(function* () {
      if (life === undefined) return
      life.dead.value = true
      const { scope } = life
      life = undefined
      watchingSince = undefined
      uncontrolledSince = undefined
      // What is killed is not waited for; what is left of it reaches neither the cluster nor the disk
      yield* Effect.forkDaemon(Scope.close(scope, Exit.void))
      yield* cluster.disconnect({ user })
    })

    /** Boot takes part in the journal's and the cluster's hazards: it may die again. */
    const boot = Effect.gen(function* () {
      if (life !== undefined) return
      life = yield* live
      watchingSince = yield* Clock.currentTimeMillis
      yield* control
    })

    const settle = Effect.gen(function* () {
      yield* time.rest
      if (life?.dead.value === true) {
        yield* bury
        yield* time.rest
      }
    })

    const vouch = (node: string) => Effect.map(Clock.currentTimeMillis, (now) => void vouched.set(node, now))
    const disturbed = Effect.map(Clock.currentTimeMillis, (now) => {
      if (watchingSince !== undefined) watchingSince = now
    })
    const nodeNamed = (index: number): string => `n${(index % nodes) + 1}`
    const exists = (name: string) => Effect.map(machines.get(Objects.nodes, { name }), (node) => node !== undefined)
    const setPermission = (permission: Permission, on: boolean) =>
      Effect.gen(function* () {
        if (on) granted.add(permission)
        else granted.delete(permission)
        yield* cluster.seed(roles(granted))
      })
    const write = (uid: string, count: number) =>
      Effect.gen(function* () {
        const known = pods.get(uid)
        // The log of a pod whose object is gone cannot be read any more
        const pod = known === undefined ? undefined : yield* machines.get(Objects.pods, { namespace, name: known.name })
        if (known === undefined || pod?.metadata.uid !== uid) return
        // At once, so that they have one time
        const text = Array.from({ length: count }, (_, line) => `${uid} ${known.lines + line}\n`).join("")
        known.lines += count
        yield* Effect.ignore(machines.writeLog({ metadata: { name: known.name, uid } }, text))
      })
    const admin = cluster.admin

    const perform = (command: Command): Effect.Effect<void> =>
      Effect.gen(function* () {
        switch (command._tag) {
          case "Submit":
            if (life === undefined) return
            return yield* Effect.forkIn(
              life.dispatcher
                .submit({ run: command.run, work: { nodes: ranks }, policy, backends: ["kubeflow"] })
                .pipe(Effect.ignore),
              life.scope
            )
          case "Advance":
            return yield* time.advance(command.seconds * 1000)
          case "Exit": {
            const process = pick(yield* machines.processes, command.process)
            if (process === undefined) return
            // Also where nobody can see it: on a machine whose name another one has taken
            return yield* machines.exit(process, { code: command.code })
          }
          case "Succeed":
            for (const process of yield* machines.processes) {
              yield* machines.exit(process, { code: 0 })
            }
            return
          case "DeletePod": {
            const pod = pick(yield* machines.pods(namespace), command.pod)
            if (pod === undefined) return
            return yield* Effect.ignore(
              admin.remove(
                Core.pods,
                { namespace, name: pod.metadata.name },
                { propagation: "Background", ...(command.force ? { gracePeriodSeconds: 0 } : {}) }
              )
            )
          }
          case "Lose":
            return yield* machines.loseNode(nodeNamed(command.node))
          case "Return":
            return yield* machines.returnNode(nodeNamed(command.node))
          case "PowerOff":
            return yield* machines.powerOff(nodeNamed(command.node))
          case "PowerOn": {
            // Only a machine that is off can be switched on
            const running = (yield* machines.processes).some(
              ({ node, replaced }) => !replaced && node === nodeNamed(command.node)
            )
            return running ? undefined : yield* machines.powerOn(nodeNamed(command.node))
          }
          case "Replace":
            return yield* machines.replaceMachine(nodeNamed(command.node))
          case "DeleteNode": {
            const name = nodeNamed(command.node)
            if (!(yield* exists(name))) return
            yield* machines.deleteNode(name)
            return yield* vouch(name)
          }
          case "Taint": {
            const name = nodeNamed(command.node)
            if (!(yield* exists(name))) return
            yield* machines.taintOutOfService(name, command.effect)
            return yield* vouch(name)
          }
          case "Untaint": {
            const node = yield* machines.get(Objects.nodes, { name: nodeNamed(command.node) })
            if (node === undefined) return
            const taints = (node.spec?.taints ?? []).filter(
              ({ key }) => key !== Core.outOfServiceTaint && key !== shutdownTaint
            )
            yield* admin
              .patch(Core.nodes, { name: node.metadata.name }, { type: "merge", body: { spec: { taints } } })
              .pipe(Effect.ignore)
            return
          }
          case "Shutdown": {
            // A cloud's controller believes that the machine is off: nobody's word, and it may be wrong
            const node = yield* machines.get(Objects.nodes, { name: nodeNamed(command.node) })
            if (node === undefined) return
            const taints = [...(node.spec?.taints ?? []), { key: shutdownTaint, effect: "NoSchedule" }]
            return yield* admin
              .patch(Core.nodes, { name: node.metadata.name }, { type: "merge", body: { spec: { taints } } })
              .pipe(Effect.ignore)
          }
          case "Cut":
            yield* disturbed
            yield* cluster.disconnect({ user, kind: command.kind }, command.how)
            return
          case "Partition":
            partitioned = true
            yield* disturbed
            yield* cluster.disconnect({ user })
            return
          case "Heal":
            partitioned = false
            return yield* disturbed
          case "Compact":
            yield* disturbed
            return yield* cluster.compact()
          case "Restart":
            yield* bury
            yield* boot
            yield* Effect.forEach(late.splice(0), (request) => request)
            return
          case "DeleteJobSet": {
            const jobSets = yield* Effect.orDie(admin.list(JobSet.jobSets, { namespace }))
            const last = pick(jobSets.items, command.jobSet)
            if (last === undefined) return
            return yield* Effect.ignore(
              admin.remove(JobSet.jobSets, { namespace, name: last.metadata.name }, { propagation: "Background" })
            )
          }
          case "AddNode":
            if (nodes >= 5) return
            nodes += 1
            return yield* machines.createNode(`n${nodes}`)
          case "Revoke":
          case "Grant":
            yield* disturbed
            return yield* setPermission(command.permission, command._tag === "Grant")
          case "Kill":
            if (command.death === "now") return yield* bury
            death = command.death
            return
          case "DeleteTrainJob": {
            const { items } = yield* Effect.orDie(admin.list(Trainer.trainJobs, { namespace }))
            const found = pick(items, command.trainJob)
            if (found === undefined) return
            return yield* Effect.ignore(
              admin.remove(
                Trainer.trainJobs,
                { namespace, name: found.metadata.name },
                { propagation: command.propagation, uid: found.metadata.uid }
              )
            )
          }
          case "Impostor": {
            const created = yield* Effect.option(
              admin.create(
                Trainer.trainJobs,
                { namespace },
                Fixtures.trainJob(`${command.run}-${command.n}`, { numNodes: 1, suspend: command.n > 1 })
              )
            )
            if (Option.isSome(created)) foreign.add(created.value.metadata.uid)
            return
          }
          case "Preempt": {
            if (!script.kueue) return
            const created = yield* Effect.option(
              admin.create(
                Trainer.trainJobs,
                { namespace },
                Fixtures.trainJob(other, {
                  numNodes: 1,
                  labels: { [Kueue.queueNameLabel]: kueue.localQueue, [KueueObjects.priorityLabel]: highPriority }
                })
              )
            )
            if (Option.isSome(created)) foreign.add(created.value.metadata.uid)
            return
          }
          case "Yield":
            return yield* Effect.ignore(
              admin.remove(Trainer.trainJobs, { namespace, name: other }, { propagation: "Background" })
            )
          case "StopController":
            if (life?.controller === undefined) return
            yield* Fiber.interruptFork(life.controller)
            life.controller = undefined
            uncontrolledSince = yield* Clock.currentTimeMillis
            return
          case "StartController":
            return yield* control
          case "DeleteWorkload":
          case "Hold":
          case "Release": {
            const workload = pick((yield* machines.view).list(KueueObjects.workloads, namespace), command.workload)
            if (workload === undefined) return
            const ref = { namespace, name: workload.metadata.name }
            if (command._tag === "Release") released.add(workload.metadata.uid)
            // Kueue makes another, and the hold is lost with the one before
            const owner = Objects.controllerOf(workload)?.uid ?? ""
            if (command._tag === "DeleteWorkload" && fenced.has(owner)) released.add(owner)
            return yield* Effect.ignore(
              command._tag === "DeleteWorkload"
                ? admin.remove(Kueue.workloads, ref, { propagation: "Background" })
                : admin.patch(Kueue.workloads, ref, {
                    type: "merge",
                    body: { spec: { active: command._tag === "Release" } }
                  })
            )
          }
          case "Suspend": {
            if (!script.kueue) return
            const { items } = yield* Effect.orDie(admin.list(Trainer.trainJobs, { namespace }))
            const found = pick(items, command.trainJob)
            if (found === undefined) return
            return yield* Effect.ignore(
              admin.patch(
                Trainer.trainJobs,
                { namespace, name: found.metadata.name },
                { type: "merge", body: { spec: { suspend: true } } }
              )
            )
          }
          case "Write": {
            const process = pick(yield* machines.processes, command.process)
            // Nobody can read what is written on a machine whose name another one has taken
            return process === undefined || process.replaced ? undefined : yield* write(process.podUid, command.lines)
          }
        }
      })

    const heal = Effect.gen(function* () {
      partitioned = false
      death = undefined
      for (const permission of permissions) granted.add(permission)
      yield* cluster.seed(roles(granted))
      yield* bury
      yield* boot
      yield* Effect.forEach(late.splice(0), (request) => request)
      yield* perform({ _tag: "Yield" })
      for (let index = 0; index < nodes; index += 1) {
        yield* perform({ _tag: "Return", node: index })
        yield* perform({ _tag: "Untaint", node: index })
      }
    })

    const retire = Effect.gen(function* () {
      const former = (yield* machines.processes).filter(({ replaced }) => replaced)
      const names = new Set(former.map(({ node }) => node))
      for (const name of names) {
        // Who deletes a Node vouches for its name, so nothing of that name may be left on
        yield* machines.powerOff(name, { former: true })
        yield* machines.powerOff(name)
        if (yield* exists(name)) yield* machines.deleteNode(name)
        yield* vouch(name)
        nodes += 1
        yield* machines.createNode(`n${nodes}`)
      }
      return names.size > 0
    })

    yield* Effect.addFinalizer(() => bury)
    yield* boot
    const world: World = {
      cluster,
      machines,
      script,
      reader,
      life: () => (life?.dead.value === true ? undefined : life),
      partitioned: () => partitioned,
      granted: () => granted,
      pods,
      owners,
      starts,
      vouched,
      foreign,
      made,
      letIn,
      fenced,
      released,
      uncontrolledSince: () => uncontrolledSince,
      watchingSince: () => watchingSince,
      perform,
      settle,
      time,
      heal,
      retire
    }
    return world
  })
