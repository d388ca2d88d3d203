/**
 * `output`: rank 0's output.
 *
 * @module
 */
import type * as Output from "@dispatch-kubeflow/core/Output"
import { Clock, DateTime, Effect, Stream } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import { connect, json, Terminal } from "../Session.js"

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

/** Prints the output byte by byte; what the adapter has to say about it goes to standard error. */
export const run = (invocation: Extract<Invocation.Invocation, { readonly command: "output" }>) =>
  Effect.gen(function* () {
    const { out, err, look } = yield* Terminal
    const { adapter, namespace } = yield* connect(invocation.common)
    const sinceTime = yield* sinceOf(invocation.since)
    const events = adapter.outputEvents(Invocation.refOf(invocation.job, namespace), {
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
