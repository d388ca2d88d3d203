/**
 * Performs an invocation with the streams and signals of this process.
 *
 * @module
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Effect, Exit, Layer, Logger, LogLevel } from "effect"
import { readFile } from "node:fs/promises"
import { homedir } from "node:os"
import { text } from "node:stream/consumers"
import { ExitCode, failureJson } from "./ExitCode.js"
import type { Invocation } from "./Invocation.js"
import * as Run from "./Run.js"
import * as Session from "./Session.js"
import { paintFor, widthOf } from "./Terminal.js"
import * as Written from "./Written.js"

let isHungUp = false

/** What is said beside the answer. Where it cannot be said nothing can be done; whoever has hung up on it wants no more. */
const say = (data: string): Effect.Effect<void> =>
  Effect.async<void>((resume) => {
    Written.write(process.stderr, data, (problem) => {
      isHungUp ||= problem?._tag === "ReaderGone"
      resume(isHungUp ? Effect.interrupt : Effect.void)
    })
  })

const stdioOf = (version: string): Session.Stdio => {
  // A terminal that says it is dumb obeys nothing that moves its cursor or colours it
  const isDumb = process.env["TERM"] === "dumb"
  const isTerminal = process.stdout.isTTY
  return {
    out: (data) =>
      Effect.async((resume) => {
        Written.write(process.stdout, data, (problem) =>
          resume(problem === undefined ? Effect.void : Effect.fail(problem))
        )
      }),
    err: (message) => say(`${message}\n`),
    progress: (line) =>
      process.stderr.isTTY && !isDumb
        ? say(`\r\u001b[K${line === undefined ? "" : line.slice(0, widthOf(process.stderr) - 1)}`)
        : Effect.void,
    readFile: (path) =>
      Effect.tryPromise({
        try: () => (path === "-" ? text(process.stdin) : readFile(path, "utf8")),
        catch: (cause) => ({ message: cause instanceof Error ? cause.message : String(cause) })
      }),
    look: {
      width: isTerminal ? widthOf(process.stdout) : 160,
      paint: paintFor({ isTerminal, noColor: isDumb || (process.env["NO_COLOR"] ?? "") !== "" })
    },
    program: {
      version,
      runtime: `node ${process.version}`,
      platform: `${process.platform} ${process.arch}`,
      home: homedir()
    },
    screen:
      isTerminal && !isDumb
        ? () => ({ columns: widthOf(process.stdout), rows: process.stdout.rows > 0 ? process.stdout.rows : 24 })
        : undefined
  }
}

/** Performs it and ends the process with its exit code. */
export const start = (invocation: Invocation, version: string): void => {
  const program = Run.run(invocation).pipe(
    Effect.provideService(Session.Terminal, stdioOf(version)),
    // Log lines are for people who look for them; answers alone belong on standard output
    Effect.provide(
      Layer.merge(
        Logger.replace(Logger.defaultLogger, Logger.withConsoleError(Logger.logfmtLogger)),
        Logger.minimumLogLevel(LogLevel.Warning)
      )
    )
  )
  NodeRuntime.runMain(program, {
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit, onExit) => {
      if (Exit.isSuccess(exit)) return onExit(Number(exit.value))
      if (Cause.isInterruptedOnly(exit.cause)) {
        return onExit(isHungUp ? ExitCode.readerGone : ExitCode.interrupted)
      }
      const fault = `this is a fault of dispatch-kubeflow; please report it:\n${Cause.pretty(exit.cause)}`
      process.stderr.write(`${invocation.common.json ? failureJson("Fault", fault) : `error: ${fault}`}\n`)
      return onExit(ExitCode.fault)
    }
  })
}
