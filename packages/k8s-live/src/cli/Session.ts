/**
 * What every command needs: where text goes, files named on the command line, and the adapter of the cluster.
 *
 * @module
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Output from "@dispatch-kubeflow/core/Output"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Clock, Context, Data, Effect, Either, Layer } from "effect"
import * as KubeApiLive from "../KubeApiLive.js"
import * as KubeConfig from "../KubeConfig.js"
import * as Yaml from "../internal/Yaml.js"
import type * as Diagnosis from "./Diagnosis.js"
import type * as Invocation from "./Invocation.js"
import type * as Render from "./Render.js"
import * as RequestLog from "./RequestLog.js"
import type { Size } from "./WatchTable.js"
import type * as Written from "./Written.js"

/** Where text goes and comes from. `out` waits until the reader has taken it, so that a slow pipe slows the source. */
export interface Stdio {
  readonly out: (data: string | Uint8Array) => Effect.Effect<void, Written.Problem>
  readonly err: (text: string) => Effect.Effect<void>
  /** Shows what is going on in place of what was shown before; `undefined` wipes it. For terminals, else nothing. */
  readonly progress: (text: string | undefined) => Effect.Effect<void>
  readonly readFile: (path: string) => Effect.Effect<string, { readonly message: string }>
  readonly look: Render.Look
  /** How big the terminal is now, when standard output is one. */
  readonly screen?: (() => Size) | undefined
  readonly program?: Diagnosis.Program | undefined
}

/** The standard streams of this invocation. */
export class Terminal extends Context.Tag("@dispatch-kubeflow/k8s-live/cli/Terminal")<Terminal, Stdio>() {}

/** A file named on the command line cannot be used, or does not fit the rest of it. */
export class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

/** One JSON document on a line of its own. */
export const json = (value: unknown): string => `${JSON.stringify(value)}\n`

/** Prints an answer for machines or for people. */
export const print = (
  { json: machine }: Invocation.Common,
  value: unknown,
  text: (look: Render.Look) => string
): Effect.Effect<void, Written.Problem, Terminal> =>
  Effect.flatMap(Terminal, ({ out, look }) => out(machine ? json(value) : `${text(look)}\n`))

const evidenceStore = (folder: string | undefined) =>
  folder === undefined
    ? EvidenceStore.layerMemory()
    : EvidenceStore.layerKeyValueStore().pipe(
        Layer.provide(KeyValueStore.layerFileSystem(folder)),
        Layer.provide(Layer.merge(NodeFileSystem.layer, NodePath.layer)),
        Layer.catchAll((error) =>
          Layer.fail(new UsageError({ message: `--evidence ${folder} cannot be used: ${error.message}` }))
        )
      )

/** What a command decides beside the common options. */
export interface Choices {
  readonly holdProbe?: AdapterConfig.AdapterConfig["holdProbe"]
  /** The namespace that a file on the command line names. */
  readonly namespace?: string | undefined
  /** The command has an answer without the cluster, too. */
  readonly mayBeAway?: boolean | undefined
}

const configOf = (
  common: Invocation.Common,
  namespace: string,
  { holdProbe = "dry-run" }: Choices
): AdapterConfig.AdapterConfig =>
  AdapterConfig.make({
    namespace,
    access: common.readOnly ? "read-only" : "read-write",
    kueue: common.kueue,
    inPlaceRestarts: common.acceptInPlaceRestarts ? "accept" : "refuse",
    holdProbe
  })

const troubleEvery = 60_000

const optionsOf = (common: Invocation.Common, choices: Choices): KubeConfig.Options => ({
  ...(common.kubeconfig === undefined ? {} : { source: KubeConfig.Source.Files({ paths: [common.kubeconfig] }) }),
  context: common.context,
  namespace: common.namespace ?? choices.namespace
})

/** The configuration of an invocation, whether or not its cluster can be reached. */
export const configuration = (common: Invocation.Common, choices: Choices = {}) =>
  Effect.map(Layer.build(KubeApiLive.layerKubeConfig(optionsOf(common, choices))), (context) =>
    Context.get(context, KubeConfig.KubeConfig)
  )

/** The adapter of an invocation, and the namespace it is for. */
export const connect = Effect.fn("cli.connect")(function* (common: Invocation.Common, choices: Choices = {}) {
  if (common.namespace !== undefined && choices.namespace !== undefined && common.namespace !== choices.namespace) {
    return yield* new UsageError({
      message: `--namespace ${common.namespace} is not the namespace of the TrainJob, "${choices.namespace}"`
    })
  }
  const { err, look } = yield* Terminal
  const note = (text: string): Effect.Effect<void> => err(look.paint("dim", `-- ${text}`))
  const live = yield* Layer.build(
    KubeApiLive.layer({
      ...optionsOf(common, choices),
      ...(common.verbose ? { http: { onExchange: (exchange) => note(RequestLog.line(exchange)) } } : {})
    })
  )
  const api = Context.get(live, KubeApi.KubeApi)
  const config = Context.get(live, KubeConfig.KubeConfig)
  if (common.verbose) yield* note(RequestLog.head(config))
  // A cluster that is not there now is told at once; what breaks later is ridden out. Hardened clusters refuse the path
  if (choices.mayBeAway !== true) yield* Effect.catchTag(api.serverVersion, "KubeForbidden", () => Effect.void)
  const namespace = config.namespace ?? "default"
  const store = yield* Layer.build(evidenceStore(common.evidence))
  // An outage fails every watch and every attempt alike: once a minute is enough
  const lately = new Map<string, number>()
  const trouble = (error: KubeError, text: string): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const what = error._tag === "KubeUnavailable" ? `${error.phase} ${error.detail ?? ""}` : text
      for (const [told, at] of lately) if (now - at >= troubleEvery) lately.delete(told)
      if (lately.has(what)) return Effect.void
      lately.set(what, now)
      return note(text)
    })
  const options: Adapter.Options = {
    watch: {
      onProblem: (problem) =>
        problem._tag === "Interrupted" || problem._tag === "Unavailable"
          ? trouble(problem.error, Watch.describeProblem(problem))
          : note(Watch.describeProblem(problem))
    },
    output: {
      onInterrupted: (interruption) => trouble(interruption.error, Output.describeInterruption(interruption))
    }
  }
  const adapter = yield* Adapter.make(configOf(common, namespace, choices), options).pipe(
    Effect.provideService(KubeApi.KubeApi, api),
    Effect.provide(store)
  )
  return { adapter, api, config, namespace }
})

/** A connected adapter with its API and namespace. */
export type Connected = Effect.Effect.Success<ReturnType<typeof connect>>

/** The YAML or JSON documents of a file, e.g. `the policy`; `-` is standard input. */
export const readDocuments = (what: string, path: string) =>
  Effect.gen(function* () {
    const { readFile } = yield* Terminal
    const text = yield* Effect.mapError(
      readFile(path),
      ({ message }) => new UsageError({ message: `${what} ${path} cannot be read: ${message}` })
    )
    return yield* Either.mapLeft(
      Yaml.documents(text),
      (problem) => new UsageError({ message: `${what} ${path} is neither YAML nor JSON: ${problem}` })
    )
  })
