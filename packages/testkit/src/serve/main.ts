#!/usr/bin/env node
/**
 * `dispatch-kubeflow-testkit serve`: an in-memory Kubernetes with Kubeflow Trainer for kubectl and any client, on the real
 * clock. See `Arguments` for the options and `Control` for the stories that can be told over HTTP.
 *
 * @module
 */
import { fileURLToPath } from "node:url"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Data, Deferred, Effect, Either, Exit, Layer, Logger } from "effect"
import * as ApiServer from "../ApiServer.js"
import * as Cluster from "../Cluster.js"
import * as Arguments from "./Arguments.js"
import * as Control from "./Control.js"
import * as KubeconfigFile from "./KubeconfigFile.js"
import * as SelfSigned from "./SelfSigned.js"
import * as Signals from "./Signals.js"
import * as Story from "./Story.js"
import * as Users from "./Users.js"
import * as World from "./World.js"

/** Wrong usage: exit code 2. */
class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

const readText = (option: string, path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (files) =>
    Effect.mapError(
      files.readFileString(path),
      (error) => new UsageError({ message: `${option}: ${path} cannot be read: ${error.message}` })
    )
  )

const tlsOf = (options: Arguments.Serve) => {
  const { transport } = options
  switch (transport._tag) {
    case "Http":
      return Effect.succeed(undefined)
    case "SelfSigned":
      return SelfSigned.make([...new Set([options.host, "127.0.0.1", "::1", "localhost"])])
    case "Tls":
      return Effect.all({ cert: readText("--tls-cert", transport.cert), key: readText("--tls-key", transport.key) })
  }
}

const storyOf = (path: string | undefined) =>
  path === undefined
    ? Effect.succeed([])
    : Effect.flatMap(readText("--story", path), (text) =>
        Either.match(Story.parse(text), {
          onLeft: (problem) => Effect.fail(new UsageError({ message: `--story: ${path}: ${problem}` })),
          onRight: Effect.succeed
        })
      )

/** A step of a story that cannot be done. */
class StepError extends Data.TaggedError("StepError")<{ readonly message: string }> {}

const toStepError = (error: { readonly message: string }): StepError => new StepError({ message: error.message })

/** Performs a story's request as the admin, inside the process. */
const perform =
  (cluster: Cluster.Service, control: Control.Actions, admin: Users.User) =>
  (step: Extract<Story.Step, { readonly _tag: "Request" }>): Effect.Effect<void, StepError> =>
    Effect.gen(function* () {
      yield* Console.log(`story: ${step.method} ${step.path}`)
      if (step.path.startsWith(Control.prefix)) {
        const request = { ...step, query: new URLSearchParams(), subject: admin.subject }
        const { afterwards, answer } = yield* Effect.mapError(Control.perform(control)(request), toStepError)
        if (answer._tag === "Reply" && answer.code >= 400) {
          return yield* new StepError({ message: `the control surface answers ${answer.code}` })
        }
        if (afterwards !== undefined) yield* afterwards
        return
      }
      const request = Story.kubeRequest(step)
      if (request === undefined) return yield* new StepError({ message: `${step.method} has no meaning there` })
      yield* Effect.mapError(cluster.transport(admin.subject).call(request), toStepError)
    })

const serve = (options: Arguments.Serve) =>
  Effect.gen(function* () {
    const story = yield* storyOf(options.story)
    const tls = yield* tlsOf(options)
    const users = Users.make()
    const [admin] = users
    const cluster = yield* Cluster.Cluster
    yield* World.addNodes(options.nodes)
    const started = yield* Deferred.make<ApiServer.Server>()
    const control = yield* World.actions(Deferred.await(started))
    const server = yield* ApiServer.serveCluster({
      host: options.host,
      port: options.port,
      tokens: Object.fromEntries(users.map(({ subject, token }) => [token, subject])),
      ...(tls === undefined ? {} : { tls }),
      // kubectl sends tokens over TLS alone
      ...(options.transport._tag === "Http" && admin !== undefined ? { anonymous: admin.subject } : {}),
      ...(options.control ? { routes: { prefix: Control.prefix, handle: Control.handle(control) } } : {})
    })
    yield* Deferred.succeed(started, server)
    const file = yield* KubeconfigFile.write(server.kubeconfig(...users), options.kubeconfig)
    yield* Console.log(
      [
        `Kubernetes ${cluster.serverVersion} is served on ${server.url}`,
        `  export KUBECONFIG=${file}`,
        `  contexts: ${users.map(({ name }) => name).join(", ")}`,
        ...(options.control ? [`  control: ${server.url}${Control.prefix}, with the admin's token`] : [])
      ].join("\n")
    )
    yield* Effect.forkScoped(Signals.obey)
    if (options.connectionAge !== undefined) {
      yield* Effect.forkScoped(Effect.forever(Effect.delay(cluster.disconnect(), options.connectionAge)))
    }
    if (admin !== undefined && story.length > 0) {
      yield* Story.play(story, perform(cluster, control, admin)).pipe(
        Effect.zipRight(Console.log("story: the end")),
        Effect.catchAll(({ error, step }) => Console.error(`story: step ${step} failed: ${error.message}`)),
        Effect.forkScoped
      )
    }
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide(World.layer(options.monitorGrace, { kueue: options.kueue })))

// The same depth in the sources and in the published package
const ownVersion = Effect.flatMap(FileSystem.FileSystem, (files) =>
  Effect.map(
    files.readFileString(fileURLToPath(new URL("../../package.json", import.meta.url))),
    (text) => /"version": "([^"]+)"/.exec(text)?.[1] ?? "unknown"
  )
)

const usage = (message: string) =>
  Effect.as(Console.error(`dispatch-kubeflow-testkit: ${message}\nTry dispatch-kubeflow-testkit --help.`), 2)
const failure = (error: { readonly message: string }) =>
  Effect.as(Console.error(`dispatch-kubeflow-testkit: ${error.message}`), 1)

/** Runs a command line; the exit code. */
const program = (argv: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const command = Arguments.parse(argv)
    if (Either.isLeft(command)) return yield* usage(command.left)
    switch (command.right._tag) {
      case "Help":
        return yield* Effect.as(Console.log(Arguments.help.trimEnd()), 0)
      case "Version":
        return yield* Effect.as(Console.log(yield* ownVersion), 0)
      case "Serve":
        return yield* serve(command.right.options)
    }
  }).pipe(
    Effect.catchTags({
      UsageError: (error) => usage(error.message),
      KubeconfigTaken: (error) => usage(error.message),
      ApiServerError: failure,
      BadArgument: failure,
      SystemError: failure
    }),
    // Standard output is for what was asked
    Effect.provide(
      Layer.merge(NodeContext.layer, Logger.replace(Logger.defaultLogger, Logger.prettyLogger({ stderr: true })))
    )
  )

NodeRuntime.runMain(program(process.argv.slice(2)), {
  disableErrorReporting: true,
  disablePrettyLogger: true,
  teardown: (exit, onExit) => {
    if (Exit.isFailure(exit)) onExit(Cause.isInterruptedOnly(exit.cause) ? 0 : 1)
    else onExit(typeof exit.value === "number" ? exit.value : 0)
  }
})
