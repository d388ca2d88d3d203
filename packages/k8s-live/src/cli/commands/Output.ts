/**
 * `output`: rank 0's output, or that of any rank or of all.
 *
 * @module
 */
import type * as Output from "@dispatch-kubeflow/core/Output"
import { Clock, DateTime, Effect, Stream } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import * as RankLines from "../RankLines.js"
import { connect, json, Terminal } from "../Session.js"
import type * as Written from "../Written.js"

const sinceOf = (since: { readonly ago: number } | { readonly time: string } | undefined) =>
  since === undefined
    ? Effect.succeed(undefined)
    : "time" in since
      ? Effect.succeed(since.time)
      : Effect.map(Clock.currentTimeMillis, (now) => DateTime.formatIso(DateTime.unsafeMake(now - since.ago)))

const longestLine = 1 << 20

/** An event as JSON lines: text by the line, everything else as it is. Holds back one unfinished line. */
const makeJsonLines = (): ((event: Output.OutputEvent) => ReadonlyArray<object>) => {
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
  return (event) => {
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
  }
}

/** What is not the program's own, in words; nothing for bytes. */
const describe = (event: Output.OutputEvent, follow: boolean): string | undefined => {
  switch (event._tag) {
    case "Bytes":
      return undefined
    case "Gap":
      return `output may be missing here (${event.reason})${event.after === undefined ? "" : `, after ${event.after}`}${
        event.before === undefined ? "" : `, before ${event.before}`
      }`
    case "Restarted":
      return `the container was restarted (restart ${event.restartCount}); this is the new one's output`
    case "End":
      return follow
        ? `${event.reason}${event.exitCode === undefined ? "" : `, exit code ${event.exitCode}`}`
        : undefined
  }
}

type Asked = Extract<Invocation.Invocation, { readonly command: "output" }>

/** Prints the output of all ranks by the line; fails when that of none can be had. */
const runAll = (
  invocation: Asked,
  events: Stream.Stream<Output.RankEvent, Output.OutputError>
): Effect.Effect<ExitCode, Output.OutputError | Written.Problem, Terminal> =>
  Effect.gen(function* () {
    const { out, err, look } = yield* Terminal
    const encoder = new TextEncoder()
    const texts = new Map<number, RankLines.Lines>()
    const jsons = new Map<number, (event: Output.OutputEvent) => ReadonlyArray<object>>()
    let highest = 0
    let read = 0
    let failure: Output.OutputError | undefined
    const own = <A>(known: Map<number, A>, rank: number, make: () => A): A => {
      const found = known.get(rank) ?? make()
      known.set(rank, found)
      return found
    }
    const note = (rank: number, text: string): Effect.Effect<void> =>
      err(`${RankLines.prefix(rank, highest, look.paint)}${look.paint("dim", `-- ${text}`)}`)
    const print = (rank: number, lines: ReadonlyArray<Uint8Array>): Effect.Effect<void, Written.Problem> =>
      lines.length === 0
        ? Effect.void
        : out(RankLines.prefixed(encoder.encode(RankLines.prefix(rank, highest, look.paint)), lines))

    yield* Stream.runForEach(events, ({ rank, event }) =>
      Effect.suspend(() => {
        highest = Math.max(highest, rank)
        if (event._tag === "Failed") failure ??= event.error
        if (event._tag === "End") read += 1
        if (invocation.common.json) {
          const lines =
            event._tag === "Failed"
              ? [{ event: "failed", tag: event.error._tag, message: event.error.message }]
              : own(jsons, rank, makeJsonLines)(event)
          return lines.length === 0 ? Effect.void : out(lines.map((line) => json({ rank, ...line })).join(""))
        }
        const lines = own(texts, rank, RankLines.makeLines)
        if (event._tag === "Bytes") return print(rank, lines.push(event.bytes))
        const text = event._tag === "Failed" ? event.error.message : describe(event, invocation.follow)
        return Effect.zipRight(print(rank, lines.flush()), text === undefined ? Effect.void : note(rank, text))
      })
    )
    if (read === 0 && failure !== undefined) return yield* Effect.fail(failure)
    return ExitCode.ok
  })

/** Prints the output byte by byte; what the adapter has to say about it goes to standard error. */
export const run = (invocation: Asked) =>
  Effect.gen(function* () {
    const { out, err, look } = yield* Terminal
    const { adapter, namespace } = yield* connect(invocation.common)
    const sinceTime = yield* sinceOf(invocation.since)
    const ref = Invocation.refOf(invocation.job, namespace)
    const options: Output.Options = {
      stream: invocation.stream,
      follow: invocation.follow,
      tailLines: invocation.tail,
      sinceTime,
      timestamps: invocation.timestamps
    }
    if (invocation.ranks === "all") return yield* runAll(invocation, adapter.outputRanks(ref, options))
    const events = adapter.outputEvents(ref, { ...options, rank: invocation.ranks })
    if (invocation.common.json) {
      const lines = makeJsonLines()
      yield* Stream.runForEach(Stream.mapConcat(events, lines), (line) => out(json(line)))
      return ExitCode.ok
    }
    // The program's words go to standard output byte by byte; ours go to standard error
    yield* Stream.runForEach(events, (event) => {
      if (event._tag === "Bytes") return out(event.bytes)
      const text = describe(event, invocation.follow)
      return text === undefined ? Effect.void : err(look.paint("dim", `-- ${text}`))
    })
    return ExitCode.ok
  })
