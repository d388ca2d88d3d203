/**
 * Performs an `Invocation`: asks the adapter, prints, and says the exit code.
 *
 * @module
 */
import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as RecoveryRules from "@dispatch-kubeflow/core/decide/RecoveryRules"
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import type * as Output from "@dispatch-kubeflow/core/Output"
import type { TrainJobRef } from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as KeyValueStore from "@effect/platform/KeyValueStore"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Clock, Context, Data, DateTime, Effect, Either, Layer, Option, ParseResult, Stream } from "effect"
import { parse as parseYaml } from "yaml"
import * as KubeApiLive from "../KubeApiLive.js"
import * as KubeConfig from "../KubeConfig.js"
import { ExitCode } from "./ExitCode.js"
import type * as Invocation from "./Invocation.js"
import * as Render from "./Render.js"

/** Where text goes and comes from. `out` waits until the reader has taken it, so that a slow pipe slows the source. */
export interface Stdio {
  readonly out: (data: string | Uint8Array) => Effect.Effect<void>
  readonly err: (text: string) => Effect.Effect<void>
  readonly readFile: (path: string) => Effect.Effect<string, { readonly message: string }>
  readonly look: Render.Look
}

/** The standard streams of this invocation. */
export class Terminal extends Context.Tag("@dispatch-kubeflow/k8s-live/cli/Terminal")<Terminal, Stdio>() {}

/** A file named on the command line cannot be used. */
class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

interface Failure {
  readonly _tag: string
  readonly message: string
}

/** The exit code of a failure: what a script can do about it. */
export const exitCodeOf = (failure: Failure): ExitCode => {
  switch (failure._tag) {
    case "UsageError":
    case "KubeConfigError":
    case "EvidenceStoreError":
      return ExitCode.usage
    case "ErrUnsupported":
      return ExitCode.unsupported
    case "ErrNotFound":
    case "KubeNotFound":
      return ExitCode.notFound
    case "KubeForbidden":
    case "KubeUnauthorized":
    case "KubeDenied":
      return ExitCode.notPermitted
    case "KubeUnavailable":
    case "KubeMalformed":
    case "KubeExpired":
    case "KubeConflict":
    case "KubeInvalid":
      return ExitCode.unavailable
    default:
      return ExitCode.fault
  }
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`

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

const configOf = (common: Invocation.Common, namespace: string): AdapterConfig.AdapterConfig =>
  AdapterConfig.make({
    namespace,
    access: common.readOnly ? "read-only" : "read-write",
    kueue: common.kueue,
    inPlaceRestarts: common.acceptInPlaceRestarts ? "accept" : "refuse"
  })

const refOf = (job: Invocation.JobName, namespace: string): TrainJobRef => ({
  namespace: job.namespace ?? namespace,
  name: job.name,
  uid: job.uid
})

/** The adapter of an invocation, and the namespace it is for. */
const connect = Effect.fn("cli.connect")(function* (common: Invocation.Common) {
  const paths = common.kubeconfig
  const live = yield* Layer.build(
    KubeApiLive.layer({
      ...(paths === undefined ? {} : { source: KubeConfig.Source.Files({ paths: [paths] }) }),
      context: common.context,
      namespace: common.namespace
    })
  )
  const api = Context.get(live, KubeApi.KubeApi)
  const namespace = Context.get(live, KubeConfig.KubeConfig).namespace ?? "default"
  const store = yield* Layer.build(evidenceStore(common.evidence))
  const adapter = yield* Adapter.make(configOf(common, namespace)).pipe(
    Effect.provideService(KubeApi.KubeApi, api),
    Effect.provide(store)
  )
  return { adapter, api, namespace }
})

const readPolicy = (path: string) =>
  Effect.gen(function* () {
    const { readFile } = yield* Terminal
    const text = yield* Effect.mapError(
      readFile(path),
      ({ message }) => new UsageError({ message: `the policy ${path} cannot be read: ${message}` })
    )
    const value = yield* Effect.try({
      try: (): unknown => parseYaml(text),
      catch: (cause) =>
        new UsageError({
          message: `the policy ${path} is neither YAML nor JSON: ${cause instanceof Error ? cause.message : String(cause)}`
        })
    })
    return yield* Either.mapLeft(
      RecoveryRules.parse(value ?? []),
      (error) =>
        new UsageError({
          message: `the policy ${path} is not a list of rules { cause, action }:\n${ParseResult.TreeFormatter.formatErrorSync(error)}`
        })
    )
  })

const sinceOf = (since: { readonly ago: number } | { readonly time: string } | undefined) =>
  since === undefined
    ? Effect.succeed(undefined)
    : "time" in since
      ? Effect.succeed(since.time)
      : Effect.map(Clock.currentTimeMillis, (now) => DateTime.formatIso(DateTime.unsafeMake(now - since.ago)))

const longestLine = 1 << 20

/** Output events as JSON lines: text by the line, everything else as it is. */
const outputLines = <E>(events: Stream.Stream<Output.OutputEvent, E>): Stream.Stream<object, E> =>
  Stream.suspend(() => {
    const decoder = new TextDecoder()
    let rest = ""
    const take = (text: string, all: boolean): Array<object> => {
      const parts = (rest + text).split("\n")
      rest = parts.pop() ?? ""
      if (all || rest.length > longestLine) {
        if (rest !== "") parts.push(rest)
        rest = ""
      }
      return parts.map((line) => ({ event: "line", text: line }))
    }
    return Stream.mapConcat(events, (event): ReadonlyArray<object> => {
      switch (event._tag) {
        case "Bytes":
          return take(decoder.decode(event.bytes, { stream: true }), false)
        case "Gap":
          return [...take("", true), { event: "gap", reason: event.reason, after: event.after, before: event.before }]
        case "Restarted":
          return [
            ...take("", true),
            { event: "restart", containerID: event.containerID, restartCount: event.restartCount }
          ]
        case "End":
          return [
            ...take(decoder.decode(), true),
            { event: "end", how: event.how, exitCode: event.exitCode, reason: event.reason }
          ]
      }
    })
  })

const output = (invocation: Extract<Invocation.Invocation, { readonly command: "output" }>) =>
  Effect.gen(function* () {
    const { out, err, look } = yield* Terminal
    const { adapter, namespace } = yield* connect(invocation.common)
    const sinceTime = yield* sinceOf(invocation.since)
    const events = adapter.outputEvents(refOf(invocation.job, namespace), {
      stream: invocation.stream,
      follow: invocation.follow,
      tailLines: invocation.tail,
      sinceTime,
      timestamps: invocation.timestamps
    })
    if (invocation.common.json) {
      yield* Stream.runForEach(outputLines(events), (line) => out(json(line)))
      return ExitCode.ok
    }
    // The program's words go to standard output byte by byte; ours go to standard error
    const note = (text: string): Effect.Effect<void> => err(look.paint("dim", `-- ${text}`))
    yield* Stream.runForEach(events, (event) => {
      switch (event._tag) {
        case "Bytes":
          return out(event.bytes)
        case "Gap":
          return note(
            `output may be missing here (${event.reason})${event.after === undefined ? "" : `, after ${event.after}`}${
              event.before === undefined ? "" : `, before ${event.before}`
            }`
          )
        case "Restarted":
          return note(`the container was restarted (restart ${event.restartCount}); this is the new one's output`)
        case "End":
          return invocation.follow
            ? note(`${event.reason}${event.exitCode === undefined ? "" : `, exit code ${event.exitCode}`}`)
            : Effect.void
      }
    })
    return ExitCode.ok
  })

const isOver = (update: Update.Update): boolean =>
  update.outcome !== undefined || update.state === "Gone" || update.state === "Succeeded" || update.state === "Failed"

/** How long `watch --once` waits for a job that went away between the list and the watch. */
const onceLimit = "10 seconds"

const watch = (invocation: Extract<Invocation.Invocation, { readonly command: "watch" }>) =>
  Effect.gen(function* () {
    const { out, look } = yield* Terminal
    const { adapter, api, namespace } = yield* connect(invocation.common)
    const scope =
      invocation.job !== undefined
        ? Watch.ref(refOf(invocation.job, namespace))
        : invocation.run !== undefined
          ? Watch.run(namespace, invocation.run)
          : Watch.namespace(namespace)
    const tell = (update: Update.Update): Effect.Effect<void> =>
      out(invocation.common.json ? json(update) : `${Render.update(update, look)}\n`)
    const told = Stream.tap(adapter.watch(scope), tell)

    if (invocation.once) {
      if (invocation.job !== undefined) {
        yield* Stream.runDrain(Stream.take(told, 1))
        return ExitCode.ok
      }
      const listed = yield* api.list(Trainer.trainJobs, { namespace })
      const names = new Set(listed.items.map(({ metadata }) => metadata.name))
      const mine = (name: string): boolean => invocation.run === undefined || name.startsWith(`${invocation.run}-`)
      for (const name of names) if (!mine(name)) names.delete(name)
      if (names.size === 0) {
        if (!invocation.common.json) yield* out(`No TrainJobs in namespace "${namespace}".\n`)
        return ExitCode.ok
      }
      yield* told.pipe(
        Stream.takeUntil((update) => {
          names.delete(update.ref.name)
          return names.size === 0
        }),
        Stream.interruptAfter(onceLimit),
        Stream.runDrain
      )
      return ExitCode.ok
    }
    if (invocation.untilOver) {
      const last = yield* Stream.runLast(Stream.takeUntil(told, isOver))
      return Option.exists(last, (update) => update.outcome === "Succeeded") ? ExitCode.ok : ExitCode.no
    }
    yield* Stream.runDrain(told)
    return ExitCode.ok
  })

const perform = (invocation: Invocation.Invocation) =>
  Effect.gen(function* () {
    const { out, look } = yield* Terminal
    const print = (value: unknown, text: () => string): Effect.Effect<void> =>
      out(invocation.common.json ? json(value) : `${text()}\n`)
    switch (invocation.command) {
      case "capabilities": {
        const { adapter, namespace } = yield* connect(invocation.common)
        const answers = yield* adapter.capabilities(
          invocation.runtime === undefined ? undefined : { runtimeRef: invocation.runtime }
        )
        yield* print({ namespace, capabilities: answers }, () => Render.capabilities(answers, look))
        return ExitCode.ok
      }
      case "rules": {
        const policy = yield* readPolicy(invocation.policy)
        const { adapter, namespace } = yield* connect(invocation.common)
        const answers = yield* adapter.rules(policy)
        yield* print({ namespace, rules: answers }, () => Render.rules(answers, look))
        return ExitCode.ok
      }
      case "output":
        return yield* output(invocation)
      case "watch":
        return yield* watch(invocation)
      case "ceased": {
        const { adapter, namespace } = yield* connect(invocation.common)
        const ref = refOf(invocation.job, namespace)
        const verdict = yield* adapter.ceased(ref)
        yield* print({ ref, ...verdict }, () => Render.cessation(ref.name, verdict, look))
        return verdict.ceased ? ExitCode.ok : ExitCode.no
      }
    }
  })

/** Runs an invocation to its exit code. Failures are told on standard error; they never escape. */
export const run = (invocation: Invocation.Invocation): Effect.Effect<ExitCode, never, Terminal> =>
  Effect.scoped(perform(invocation)).pipe(
    Effect.catchAll((failure) =>
      Effect.gen(function* () {
        const { err, look } = yield* Terminal
        yield* err(
          invocation.common.json
            ? JSON.stringify({ error: { tag: failure._tag, message: failure.message } })
            : `${look.paint("bad", "error:")} ${failure.message}`
        )
        return exitCodeOf(failure)
      })
    )
  )
