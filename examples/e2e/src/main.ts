/**
 * What the adapter promises, line by line, on a cluster with Kubeflow Trainer: capabilities, rules, output, watch, cessation,
 * in plain mode and in Kueue mode. It makes namespaces and Node objects of its own, runs no container, and removes what it
 * made. Needs an administrator; a cloud provider's node controller may remove its Nodes, so use a cluster for tests.
 *
 *     npm run e2e -- --kubeconfig FILE [--context NAME] [--json]
 *
 * Exit codes: 0 every claim holds, 1 one does not, or the programme broke off, 2 wrong usage or kubeconfig, 130 interrupted.
 *
 * @module
 */
import { parseArgs } from "node:util"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Cause, Clock, Context, Effect, Exit, Layer, Logger, LogLevel } from "effect"
import * as Claims from "./Claims.js"
import * as Kueue from "./Kueue.js"
import * as Logs from "./Logs.js"
import * as Plain from "./Plain.js"
import * as Subject from "./Subject.js"

const usage = "usage: npm run e2e -- --kubeconfig FILE [--context NAME] [--json]"

const paint = paintFor({ isTerminal: process.stdout.isTTY, noColor: (process.env["NO_COLOR"] ?? "") !== "" })

const say = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(`${text}\n`)
  })

interface Options {
  readonly kubeconfig: string
  readonly context: string | undefined
  readonly json: boolean
}

const programme = ({ context, json, kubeconfig }: Options) =>
  Effect.gen(function* () {
    const begun = yield* Clock.currentTimeMillis
    const live = yield* Layer.build(
      KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [kubeconfig] }), context })
    )
    const api = Context.get(live, KubeApi.KubeApi)
    const subjects = Subject.make(api, Context.get(live, KubeConfig.KubeConfig))
    const claims = yield* Claims.make((line) => say(json ? JSON.stringify(line) : Claims.render(line, paint)))
    if (!json) yield* say(`Kubernetes ${yield* api.serverVersion}`)
    const logs = yield* Logs.make(api)
    const scenes = Effect.gen(function* () {
      yield* Effect.scoped(Plain.scene(api, subjects, logs))
      if (yield* Kueue.isServed(api)) yield* Effect.scoped(Kueue.scene(api))
      else yield* claims.leaveOut("Kueue", "everything in Kueue mode", "Kueue v1beta2 is not served here")
    })
    yield* Effect.provideService(scenes, Claims.Claims, claims)
    const lines = yield* claims.lines
    const count = (outcome: Claims.Outcome): number => lines.filter((line) => line.outcome === outcome).length
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - begun) / 1000)
    if (!json) {
      yield* say(
        `\n${count("passed")} passed, ${count("failed")} failed, ${count("left out")} left out, in ${seconds} s`
      )
    }
    return count("failed") === 0 ? 0 : 1
  }).pipe(Effect.scoped)

const options = (() => {
  try {
    const { values } = parseArgs({
      options: { kubeconfig: { type: "string" }, context: { type: "string" }, json: { type: "boolean" } }
    })
    return values.kubeconfig === undefined
      ? undefined
      : { kubeconfig: values.kubeconfig, context: values.context, json: values.json ?? false }
  } catch {
    return undefined
  }
})()

const main =
  options === undefined
    ? Effect.as(
        Effect.sync(() => process.stderr.write(`${usage}\n`)),
        2
      )
    : programme(options).pipe(
        Effect.catchAll((error) =>
          Effect.sync(() => {
            process.stderr.write(`${paint("bad", "error:")} ${error.message}\n`)
            return error._tag === "KubeConfigError" ? 2 : 1
          })
        )
      )

NodeRuntime.runMain(main.pipe(Effect.provide(Layer.merge(NodeContext.layer, Logger.minimumLogLevel(LogLevel.Error)))), {
  disableErrorReporting: true,
  teardown: (exit, onExit) => {
    if (Exit.isSuccess(exit)) return onExit(typeof exit.value === "number" ? exit.value : 0)
    if (Cause.isInterruptedOnly(exit.cause)) return onExit(130)
    process.stderr.write(`${Cause.pretty(exit.cause)}\n`)
    onExit(1)
  }
})
