/**
 * `watch`: what happens to TrainJobs.
 *
 * @module
 */
import type * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import { Chunk, Clock, Effect, Option, Stream } from "effect"
import { ExitCode } from "../ExitCode.js"
import * as Invocation from "../Invocation.js"
import * as Render from "../Render.js"
import { connect, type Connected, json, type Stdio, Terminal } from "../Session.js"
import * as WatchTable from "../WatchTable.js"
import type * as Written from "../Written.js"

const isOver = (update: Update.Update): boolean =>
  update.outcome !== undefined || update.state === "Gone" || update.state === "Succeeded" || update.state === "Failed"

/** How long `watch --once` waits for a job that went away between the list and the watch. */
const onceLimit = "10 seconds"

/** Of so many TrainJobs the last line is known, so that it is not told twice. */
const linesKept = 1000

type Asked = Extract<Invocation.Invocation, { readonly command: "watch" }>

/** An update in text, unless it says what the TrainJob's last one said: it may differ in what only machines are told. */
const makeTeller = (look: Render.Look): ((update: Update.Update) => string | undefined) => {
  const lines = new Map<string, string>()
  return (update) => {
    const line = Render.update(update, look)
    const repeated = lines.get(update.ref.name) === line
    lines.delete(update.ref.name)
    lines.set(update.ref.name, line)
    for (const oldest of lines.keys()) if (lines.size > linesKept) lines.delete(oldest)
    return repeated ? undefined : `${line}\n`
  }
}

/** How often the table is drawn again for the sake of its times. */
const redrawEvery = "1 second"
/** Of so many TrainJobs that are over the rows are kept. */
const rowsKept = 1000

/** Draws a table of what the updates tell, in one place. The terminal is as before when it ends, however it ends. */
const drawTable = <E>(
  updates: Stream.Stream<Update.Update, E>,
  notes: ReadonlyArray<string>,
  screen: () => WatchTable.Size
): Stream.Stream<Update.Update, E | Written.Problem, Terminal> =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const { out, look } = yield* Terminal
      const rows = new Map<string, WatchTable.Row>()
      let drawn: ReadonlyArray<string> = []
      const draw = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const size = screen()
        const lines = WatchTable.draw(rows.values(), notes, size, now, look.paint)
        const text = WatchTable.redraw(drawn, lines, size)
        drawn = lines
        return out(text)
      })
      yield* Effect.acquireRelease(out(WatchTable.begin), () =>
        Effect.ignore(Effect.zipRight(draw, out(WatchTable.end)))
      )
      // Times go on while nothing happens
      const ticks = Stream.as(Stream.tick(redrawEvery), undefined)
      return Stream.merge(updates, ticks, { haltStrategy: "left" }).pipe(
        Stream.chunks,
        Stream.tap((chunk) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            for (const update of chunk) {
              if (update === undefined) continue
              const { name } = update.ref
              const row = WatchTable.rowOf(update, now, rows.get(name))
              rows.delete(name)
              rows.set(name, row)
            }
            for (const [name, { state }] of rows) {
              if (rows.size <= rowsKept) break
              if (WatchTable.isOver(state)) rows.delete(name)
            }
            return draw
          })
        ),
        Stream.mapConcatChunk((chunk) => Chunk.filterMap(chunk, Option.fromNullable))
      )
    })
  )

const noneText = ({ run: of }: Asked, namespace: string): string =>
  `No TrainJobs${of === undefined ? "" : ` of the run "${of}"`} in namespace "${namespace}"`

/** The names of the TrainJobs in a scope of more than one. */
const namesOf = ({ run: of }: Asked, { api, namespace }: Connected) =>
  Effect.map(
    api.list(Trainer.trainJobs, { namespace }),
    ({ items }) =>
      new Set(
        items
          .map(({ metadata }) => metadata.name)
          .filter((name) => of === undefined || TrainJobRef.isSubmissionOf(of, name))
      )
  )

/** Tells the present state of everything in the scope, and ends. */
const once = <E>(invocation: Asked, connected: Connected, told: Stream.Stream<Update.Update, E, Terminal>) =>
  Effect.gen(function* () {
    const { out } = yield* Terminal
    if (invocation.job !== undefined) return yield* Stream.runDrain(Stream.take(told, 1))
    const names = yield* namesOf(invocation, connected)
    if (names.size === 0) {
      if (!invocation.common.json) yield* out(`${noneText(invocation, connected.namespace)}.\n`)
      return
    }
    yield* told.pipe(
      Stream.takeUntil((update) => {
        names.delete(update.ref.name)
        return names.size === 0
      }),
      Stream.interruptAfter(onceLimit),
      Stream.runDrain
    )
  })

/**
 * Tells every update until the scope of the watch is over, or for ever: a table on a terminal, else one update after
 * another.
 */
export const run = (invocation: Asked) =>
  Effect.gen(function* () {
    const terminal = yield* Terminal
    const { out, look } = terminal
    const screen = invocation.common.json || invocation.once || invocation.lines ? undefined : terminal.screen
    // What else is said must not run into the table
    const notes: Array<string> = []
    const aside: Stdio =
      screen === undefined
        ? terminal
        : { ...terminal, err: (text) => Effect.sync(() => void notes.splice(0, notes.length - 2, text)) }
    const connected = yield* Effect.provideService(connect(invocation.common), Terminal, aside)
    const { adapter, api, namespace } = connected
    // The API server answers a list in a namespace that does not exist with an empty one
    if (invocation.job === undefined) {
      yield* Effect.catchTag(api.get(Core.namespaces, { name: namespace }), "KubeForbidden", () => Effect.void)
    }
    const scope =
      invocation.job !== undefined
        ? Watch.ref(Invocation.refOf(invocation.job, namespace))
        : invocation.run !== undefined
          ? Watch.run(namespace, invocation.run)
          : Watch.namespace(namespace)
    const updates = adapter.watch(scope)
    const teller = makeTeller(look)
    const told =
      screen !== undefined
        ? drawTable(updates, notes, screen)
        : Stream.tap(updates, (update) => {
            const text = invocation.common.json ? json(update) : teller(update)
            return text === undefined ? Effect.void : out(text)
          })

    if (invocation.once) {
      yield* once(invocation, connected, told)
      return ExitCode.ok
    }
    // A table says itself that it is empty
    if (invocation.job === undefined && screen === undefined) {
      const names = yield* Effect.option(namesOf(invocation, connected))
      if (Option.isSome(names) && names.value.size === 0) {
        yield* terminal.err(look.paint("dim", `-- ${noneText(invocation, namespace)} yet: waiting for one`))
      }
    }
    if (!invocation.untilOver) {
      yield* Stream.runDrain(told)
      return ExitCode.ok
    }
    const last = yield* Stream.runLast(Stream.takeUntil(told, isOver))
    if (screen !== undefined && Option.isSome(last)) yield* out(`${Render.update(last.value, look)}\n`)
    return Option.exists(last, (update) => update.outcome === "Succeeded") ? ExitCode.ok : ExitCode.no
  })
