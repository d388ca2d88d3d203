/**
 * The differential checker: random sequences of operations on a real API server and on the in-memory cluster, compared.
 *
 *     npm run fidelity -- --kubeconfig FILE --runs 2000 --seed 1
 *
 * Exits with 1 when they disagree about something that is not in `Known`. Further options: `--length N` (operations of a
 * sequence), `--workers N`, `--first N` (number of the first sequence), `--shrink N` (how many disagreements are shrunk),
 * `--print N` (prints a sequence and what both sides answer).
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Context, Effect, Either, Layer, Queue, Redacted, Ref, Schedule, Schema, type Scope } from "effect"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as Compare from "@dispatch-kubeflow/testkit/fidelity/Compare"
import * as Coverage from "@dispatch-kubeflow/testkit/fidelity/Coverage"
import * as Known from "@dispatch-kubeflow/testkit/fidelity/Known"
import * as Memory from "@dispatch-kubeflow/testkit/fidelity/Memory"
import * as Observation from "@dispatch-kubeflow/testkit/fidelity/Observation"
import * as Operation from "@dispatch-kubeflow/testkit/fidelity/Operation"
import * as Runner from "@dispatch-kubeflow/testkit/fidelity/Runner"
import * as Sequence from "@dispatch-kubeflow/testkit/fidelity/Sequence"
import * as Shrink from "@dispatch-kubeflow/testkit/fidelity/Shrink"
import * as Json from "@dispatch-kubeflow/testkit/Json"

const { values: options } = parseArgs({
  // npm passes a `--` on where it is called through another runner
  args: process.argv.slice(2).filter((argument) => argument !== "--"),
  options: {
    kubeconfig: { type: "string" },
    runs: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    length: { type: "string", default: "20" },
    workers: { type: "string", default: "10" },
    first: { type: "string", default: "0" },
    shrink: { type: "string", default: "3" },
    print: { type: "string" },
    "logs-port": { type: "string", default: "16443" }
  }
})

// Errors are values here: their stacks would be made readable for nobody, at a tenth of the time
process.setSourceMapsEnabled(false)
Error.stackTraceLimit = 0

const runs = Number(options.runs)
const seed = Number(options.seed)
const length = Number(options.length)
const first = Number(options.first)

const say = (text: string): Effect.Effect<void> => Effect.sync(() => process.stdout.write(`${text}\n`))

// ---- the real side --------------------------------------------------------------------------------------------------

const namespaces = { group: "", version: "v1", plural: "namespaces" }
const nodes = { group: "", version: "v1", plural: "nodes" }
const configMaps = { group: "", version: "v1", plural: "configmaps" }
const serviceAccounts = { group: "", version: "v1", plural: "serviceaccounts" }
const runtimes = { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "clustertrainingruntimes" }
const rootConfig = "kube-root-ca.crt"

const pluralOf: Readonly<Record<string, KubeRequest.ResourceType>> = {
  ServiceAccount: serviceAccounts,
  Role: { group: "rbac.authorization.k8s.io", version: "v1", plural: "roles" },
  RoleBinding: { group: "rbac.authorization.k8s.io", version: "v1", plural: "rolebindings" }
}

const Token = Schema.Struct({ status: Schema.Struct({ token: Schema.String }) })

interface Real {
  readonly api: KubeApi.Service
  readonly config: KubeConfig.Service
}

const connect = (source: KubeConfig.Source): Effect.Effect<Real, KubeConfig.KubeConfigError, Scope.Scope> =>
  Effect.map(Layer.build(KubeApiLive.layer({ source, http: { rateLimit: "none" } })), (context) => ({
    api: Context.get(context, KubeApi.KubeApi),
    config: Context.get(context, KubeConfig.KubeConfig)
  }))

const withToken = (config: KubeConfig.Service, token: string) =>
  Effect.gen(function* () {
    const { ca } = Redacted.value((yield* config.credentials).tls)
    const value = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "c",
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
      clusters: [
        {
          name: "c",
          cluster: {
            server: config.server,
            ...(ca === undefined ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") })
          }
        }
      ],
      users: [{ name: "u", user: { token } }]
    }
    return (yield* connect(KubeConfig.Source.Value({ value }))).api.transport
  })

const call = (transport: KubeTransport, request: KubeRequest.KubeRequest): Effect.Effect<unknown, KubeError> =>
  Effect.map(transport.call(request), ({ body }) => body)

/** Removes what a sequence left, finalizers or not. */
const clean = (
  transport: KubeTransport,
  namespace: string,
  touched: ReadonlyArray<KubeRequest.ResourceType>
): Effect.Effect<void, KubeError> =>
  Effect.forEach(
    touched,
    (type) =>
      Effect.gen(function* () {
        const fieldSelector = type.plural === "configmaps" ? `metadata.name!=${rootConfig}` : undefined
        const deleted = yield* call(
          transport,
          KubeRequest.make("deletecollection", type, {
            namespace,
            query: { fieldSelector },
            body: { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: "Background", gracePeriodSeconds: 0 }
          })
        )
        yield* Effect.forEach(
          Json.array(Json.at(deleted, "items")).filter((item) => Json.at(item, "metadata", "finalizers") !== undefined),
          (item) =>
            Effect.ignore(
              call(
                transport,
                KubeRequest.make("patch", type, {
                  namespace,
                  name: Json.string(Json.at(item, "metadata", "name")),
                  body: { metadata: { finalizers: null } },
                  patchType: "merge"
                })
              )
            )
        )
      }),
    { concurrency: 4, discard: true }
  )

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "fidelity-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

interface World {
  readonly server: Runner.Server
  readonly transport: KubeTransport
  readonly prepared: Memory.Prepared
}

/** A namespace with accounts, roles and a log, as one worker needs it. */
const world = (real: Real, logsFile: string, runtimeObjects: ReadonlyArray<object>) =>
  Effect.gen(function* () {
    const { transport } = real.api
    const created = yield* Effect.acquireRelease(
      call(transport, KubeRequest.make("create", namespaces, { body: { metadata: { generateName: "h-fidelity-" } } })),
      (body) =>
        Effect.ignore(
          Effect.gen(function* () {
            const name = Json.string(Json.at(body, "metadata", "name")) ?? ""
            yield* Effect.ignore(clean(transport, name, Sequence.types))
            yield* call(transport, KubeRequest.make("delete", namespaces, { name }))
          })
        )
    )
    const namespace = Json.string(Json.at(created, "metadata", "name")) ?? ""
    for (const body of Memory.roles(seed, namespace)) {
      const type = pluralOf[Json.string(Json.at(body, "kind")) ?? ""]
      if (type !== undefined) yield* call(transport, KubeRequest.make("create", type, { namespace, body }))
    }
    yield* Effect.ignore(
      call(
        transport,
        KubeRequest.make(
          "create",
          { group: "kwok.x-k8s.io", version: "v1alpha1", plural: "logs" },
          {
            namespace,
            body: {
              apiVersion: "kwok.x-k8s.io/v1alpha1",
              kind: "Logs",
              metadata: { name: Sequence.logPod },
              spec: { logs: [{ containers: ["node"], logsFile }] }
            }
          }
        )
      )
    )
    const patiently = Schedule.intersect(Schedule.spaced(100), Schedule.recurs(100))
    const root = yield* Effect.retry(
      call(transport, KubeRequest.make("get", configMaps, { namespace, name: rootConfig })),
      patiently
    )
    const account = yield* Effect.retry(
      call(transport, KubeRequest.make("get", serviceAccounts, { namespace, name: "default" })),
      patiently
    )
    const transports = new Map<string, KubeTransport>([["admin", transport]])
    for (const subject of Sequence.subjects) {
      const reply = yield* call(
        transport,
        KubeRequest.make("create", serviceAccounts, {
          namespace,
          name: subject,
          subresource: "token",
          body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { audiences: [] } }
        })
      )
      const { status } = yield* Schema.decodeUnknown(Token)(reply)
      transports.set(subject, yield* withToken(real.config, status.token))
    }
    const other = `${namespace}-other`
    const server: Runner.Server = {
      namespace,
      other,
      transport: (as) => transports.get(as) ?? transport,
      after: () => Effect.void,
      // A list without a version waits until the cache it is served from is current
      catchUp: (type) =>
        Sequence.types.some(
          ({ group, plural, version }) => group === type.group && plural === type.plural && version === type.version
        )
          ? Effect.ignore(
              call(transport, KubeRequest.make("list", type, { namespace, query: { labelSelector: "catch-up" } }))
            )
          : Effect.void,
      patience: { expected: 20_000, more: 120 }
    }
    const objects = [
      yield* call(transport, KubeRequest.make("get", namespaces, { name: namespace })),
      root,
      account,
      ...runtimeObjects
    ].flatMap((value) => (typeof value === "object" && value !== null ? [value] : []))
    const result: World = { server, transport, prepared: { namespace, other, seed, objects } }
    return result
  })

// ---- one sequence ---------------------------------------------------------------------------------------------------

interface Verdict {
  readonly real: ReadonlyArray<Observation.Observation>
  readonly memory: ReadonlyArray<Observation.Observation>
  readonly differences: ReadonlyArray<Compare.Difference>
}

/** Numbers the namespaces that sequences make for themselves: one that is being deleted takes a while to go. */
let otherNamespaces = 0

const cleanOther = (transport: KubeTransport, name: string): Effect.Effect<void> =>
  Effect.ignore(
    Effect.zipRight(
      Effect.ignore(call(transport, KubeRequest.make("delete", namespaces, { name }))),
      call(
        transport,
        KubeRequest.make("patch", namespaces, { name, body: { metadata: { finalizers: null } }, patchType: "merge" })
      )
    )
  )

const check = (
  { prepared, server, transport }: World,
  sequence: ReadonlyArray<Operation.Operation>
): Effect.Effect<Verdict, KubeError> =>
  Effect.gen(function* () {
    const startedAt = Date.now()
    otherNamespaces += 1
    const places: Operation.Places = {
      namespace: prepared.namespace,
      other: `${prepared.namespace}-s${otherNamespaces}`
    }
    const run: Observation.Run = { ...places, startedAt }
    const memory = yield* Effect.flatMap(Memory.server({ ...prepared, ...places }), (fresh) =>
      Runner.run(fresh, sequence)
    )
    const real = yield* Runner.run({ ...server, ...places }, sequence, memory)
    yield* clean(transport, prepared.namespace, Sequence.touched(sequence))
    if (Sequence.makesNamespace(sequence)) yield* cleanOther(transport, places.other)
    const [theirs, own] = [Observation.normalise(real, run), Observation.normalise(memory, run)]
    return { real: theirs, memory: own, differences: Compare.compare(sequence, theirs, own) }
  })

const show = (value: unknown): string => {
  const text = value === undefined ? "nothing" : JSON.stringify(value)
  return text.length > 1200 ? `${text.slice(0, 1200)} …` : text
}

const explain = (difference: Compare.Difference): string =>
  `  ${difference.operation.id} ${Operation.label(difference.operation)}, ${difference.path}\n    real:   ${show(difference.real)}\n    memory: ${show(difference.memory)}\n    request: ${show(difference.operation.request.query)} ${show(difference.operation.request.body)}`

const unknownOf = (differences: ReadonlyArray<Compare.Difference>): ReadonlyArray<Compare.Difference> =>
  differences.filter((difference) => Known.find(difference) === undefined)

interface Disagreement {
  readonly index: number
  readonly sequence: ReadonlyArray<Operation.Operation>
  readonly differences: ReadonlyArray<Compare.Difference>
}

/** The differences of the first operation that differs. */
const firstOf = (differences: ReadonlyArray<Compare.Difference>): ReadonlyArray<Compare.Difference> => {
  const own = differences.filter(({ operation }) => operation.id === differences[0]?.operation.id)
  // The message repeats what the causes say
  const told = own.some(({ path }) => path === "refusal.message")
  return told ? own.filter(({ path }) => !path.startsWith("refusal.details") && path !== "refusal.reason") : own
}

const signatureOf = (differences: ReadonlyArray<Compare.Difference>): string => {
  const own = firstOf(differences)
  const paths = own.map(({ path }) => path.replaceAll(/\d+/g, "#"))
  const words = own.map(({ memory, real }) =>
    [real, memory].map((value) =>
      show(value)
        .replaceAll(/"[a-z]\d"|\d+/g, "#")
        .slice(0, 80)
    )
  )
  return JSON.stringify([own[0] === undefined ? "" : Operation.label(own[0].operation), paths, words])
}

/** A young server still has its first versions, which memory has not: sequences that ask for one would disagree. */
const compacted = (transport: KubeTransport): Effect.Effect<void, KubeError> =>
  Effect.gen(function* () {
    const first = KubeRequest.make("list", configMaps, {
      namespace: "default",
      query: { resourceVersion: "2", resourceVersionMatch: "Exact", limit: "1" }
    })
    for (let waited = 0; ; waited += 10) {
      const answer = yield* Effect.either(call(transport, first))
      if (Either.isLeft(answer) && answer.left._tag === "KubeExpired") return
      if (waited % 60 === 0) yield* say(`waiting for the server's first compaction, ${waited} s`)
      yield* Effect.sleep("10 seconds")
    }
  })

const program = Effect.gen(function* () {
  const kubeconfig = options.kubeconfig ?? process.env["KUBECONFIG"]
  if (kubeconfig === undefined) return yield* Effect.dieMessage("--kubeconfig FILE names the real cluster")
  const real = yield* connect(KubeConfig.Source.Files({ paths: [kubeconfig] }))
  const path = yield* folder
  const logsFile = join(path, "log")
  yield* Effect.sync(() =>
    writeFileSync(logsFile, Sequence.logLines.map(({ text, time }) => `${time} stdout F ${text}\n`).join(""))
  )
  const { transport } = real.api
  const nodeBody = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: Sequence.node },
    spec: { unschedulable: true, taints: [{ key: "fidelity", effect: "NoSchedule" }] },
    status: {
      addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
      daemonEndpoints: { kubeletEndpoint: { Port: Number(options["logs-port"]) } }
    }
  }
  yield* Effect.acquireRelease(
    Effect.isSuccess(call(transport, KubeRequest.make("create", nodes, { body: nodeBody }))),
    // One that was there belongs to another run
    (own) =>
      own ? Effect.ignore(call(transport, KubeRequest.make("delete", nodes, { name: Sequence.node }))) : Effect.void
  )
  yield* compacted(transport)
  const runtimeList = yield* call(transport, KubeRequest.make("list", runtimes))
  const runtimeObjects = Json.array(Json.at(runtimeList, "items")).filter(Json.isObject)

  if (options.print !== undefined) {
    const one = yield* world(real, logsFile, runtimeObjects)
    const sequence = Sequence.generate(seed, Number(options.print), length)
    const verdict = yield* check(one, sequence)
    for (const operation of sequence) {
      const of = (all: ReadonlyArray<Observation.Observation>) => all.find(({ id }) => id === operation.id)?.outcome
      yield* say(`${operation.id} ${Operation.describe(operation)} ${show(operation.request)}`)
      yield* say(`  real:   ${show(of(verdict.real))}\n  memory: ${show(of(verdict.memory))}`)
    }
    return unknownOf(verdict.differences).length === 0
  }

  const startedAt = Date.now()
  const next = yield* Ref.make(first)
  const coverage = yield* Ref.make(Coverage.empty)
  const optionCoverage = yield* Ref.make(Coverage.empty)
  const found = yield* Queue.unbounded<Disagreement>()
  const known = yield* Ref.make<ReadonlyMap<string, number>>(new Map())
  const failures = yield* Ref.make(0)
  const passing = yield* Ref.make(0)
  const finished = yield* Ref.make(0)

  const worker = Effect.scoped(
    Effect.gen(function* () {
      const own = yield* world(real, logsFile, runtimeObjects)
      for (;;) {
        const index = yield* Ref.getAndUpdate(next, (value) => value + 1)
        if (index >= first + runs) return
        const sequence = Sequence.generate(seed, index, length)
        // Controllers of the real cluster meet a sequence now and then; what is real happens every time
        const result = yield* Effect.either(
          Effect.flatMap(check(own, sequence), (verdict) =>
            unknownOf(verdict.differences).length === 0
              ? Effect.succeed(verdict)
              : Effect.tap(check(own, sequence), (again) =>
                  unknownOf(again.differences).length > 0
                    ? Effect.void
                    : Effect.zipRight(
                        Ref.update(passing, (count) => count + 1),
                        say(
                          `sequence ${index} disagreed once:\n${firstOf(unknownOf(verdict.differences)).slice(0, 2).map(explain).join("\n")}`
                        )
                      )
                )
          )
        )
        if (Either.isLeft(result)) {
          yield* Ref.update(failures, (count) => count + 1)
          yield* say(`sequence ${index} could not be run: ${result.left.message}`)
          continue
        }
        const done = yield* Ref.updateAndGet(finished, (count) => count + 1)
        if (done % 250 === 0) yield* say(`${done} sequences, ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
        const { differences, real: observations } = result.right
        yield* Ref.update(coverage, (so) => Coverage.add(so, sequence, observations))
        yield* Ref.update(optionCoverage, (so) => Coverage.addOptions(so, sequence, observations))
        yield* Ref.update(known, (counts) => {
          const ids = new Set(differences.flatMap((difference) => Known.find(difference)?.id ?? []))
          const updated = new Map(counts)
          for (const id of ids) updated.set(id, (updated.get(id) ?? 0) + 1)
          return updated
        })
        const unknown = unknownOf(differences)
        if (unknown.length > 0) {
          yield* Queue.offer(found, { index, sequence, differences: unknown })
          const [first] = unknown
          if (first !== undefined) yield* say(`sequence ${index} disagrees:\n${explain(first)}`)
        }
      }
    })
  )
  yield* Effect.all(
    Array.from({ length: Number(options.workers) }, () => worker),
    { concurrency: "unbounded" }
  )
  const seconds = (Date.now() - startedAt) / 1000

  const disagreements = [...(yield* Queue.takeAll(found))].toSorted((a, b) => a.index - b.index)
  // What follows the first operation that differs is mostly its consequence
  const groups = new Map<string, { readonly example: Disagreement; count: number }>()
  for (const disagreement of disagreements) {
    const signature = signatureOf(disagreement.differences)
    const group = groups.get(signature)
    if (group === undefined) groups.set(signature, { example: disagreement, count: 1 })
    else group.count += 1
  }
  for (const { count, example } of [...groups.values()].toSorted((a, b) => b.count - a.count)) {
    yield* say(`\nin ${count} sequences, e.g. ${example.index} of seed ${seed}:`)
    for (const difference of firstOf(example.differences).slice(0, 4)) yield* say(explain(difference))
  }
  const toShrink = disagreements.slice(0, Number(options.shrink))
  if (toShrink.length > 0) {
    const own = yield* world(real, logsFile, runtimeObjects)
    for (const { index, sequence } of toShrink) {
      const small = yield* Shrink.shrink(sequence, (candidate) =>
        Effect.map(check(own, candidate), ({ differences }) => unknownOf(differences).length > 0)
      )
      const verdict = yield* check(own, small)
      yield* say(
        `\nsequence ${index} of seed ${seed}, shrunk to ${small.length} operations:\n${Operation.print(small)}`
      )
      for (const difference of unknownOf(verdict.differences)) yield* say(explain(difference))
    }
  }

  yield* say(`\n${Coverage.table(yield* Ref.get(coverage))}\n`)
  yield* say(`${Coverage.table(yield* Ref.get(optionCoverage))}\n`)
  for (const [id, count] of yield* Ref.get(known)) yield* say(`known: ${id}: in ${count} sequences`)
  const lost = yield* Ref.get(failures)
  yield* say(
    `${runs} sequences of ${length} operations, seed ${seed}: ${disagreements.length} disagree outside the list, ${yield* Ref.get(passing)} only once, ${lost} could not be run; ${seconds.toFixed(0)} s, ${(runs / seconds).toFixed(1)} sequences/s`
  )
  return disagreements.length === 0 && lost === 0
}).pipe(Effect.scoped)

NodeRuntime.runMain(
  Effect.flatMap(Effect.withTracerEnabled(program, false), (ok) =>
    Effect.sync(() => {
      process.exitCode = ok ? 0 : 1
    })
  )
)
