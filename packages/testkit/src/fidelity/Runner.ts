/**
 * Runs a sequence on a server through the transport of the port and writes down what happened.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Deferred, Effect, Either, FiberSet, Option, type Scope, Stream } from "effect"
import * as Json from "../Json.js"
import { refusal, type Observation, type Outcome, type Refusal } from "./Observation.js"
import * as Operation from "./Operation.js"

/** A server with what sequences need: subjects, a namespace, the prepared node. */
export interface Server extends Operation.Places {
  readonly transport: (as: string) => KubeTransport
  /** Done after each operation. */
  readonly after: (request: KubeRequest.KubeRequest) => Effect.Effect<void>
  /** Reads from a cache may lag behind what was just written; asks for a type to be current. */
  readonly catchUp: (type: KubeRequest.ResourceType) => Effect.Effect<void>
  /** How long open watches get to deliver what is expected, and more than that, milliseconds. */
  readonly patience: { readonly expected: number; readonly more: number }
}

interface Open {
  readonly id: string
  readonly frames: Array<{ readonly type: string; readonly object: unknown }>
  end: "ended" | Refusal | undefined
  readonly started: Deferred.Deferred<void>
  readonly ended: Deferred.Deferred<void>
}

const initialEventsEnd = "k8s.io/initial-events-end"

/** A watch that ends by itself soon is waited for. */
const endsSoon = (request: KubeRequest.KubeRequest): boolean => request.query["timeoutSeconds"] === "1"

const startsWithObjects = (request: KubeRequest.KubeRequest): boolean => {
  const { resourceVersion = "0", sendInitialEvents } = request.query
  return sendInitialEvents === undefined
    ? resourceVersion === "0" || resourceVersion === ""
    : sendInitialEvents === "true"
}

const readsCache = (request: KubeRequest.KubeRequest): boolean =>
  request.verb === "watch" || (["get", "list"].includes(request.verb) && request.query["resourceVersion"] !== undefined)

/** What a watch is known to deliver, by the run on the other server. */
const isComplete = (open: Open, expected: Outcome | undefined): boolean =>
  expected === undefined ||
  expected._tag !== "Frames" ||
  (open.frames.length >= expected.frames.length && (expected.end === undefined || open.end !== undefined))

// A busy machine may stall for long; that is no disagreement
const answerLimit = 60_000
const poll = 10

/**
 * Runs a sequence. `expected` are the observations of the other server: open watches are given time until they have
 * delivered as much.
 */
export const run = (
  server: Server,
  sequence: ReadonlyArray<Operation.Operation>,
  expected: ReadonlyArray<Observation> = []
): Effect.Effect<ReadonlyArray<Observation>> =>
  Effect.scoped(
    Effect.gen(function* () {
      const answers = new Map<string, unknown>()
      const outcomes = new Map<string, Outcome>()
      const open: Array<Open> = []
      const fibers = yield* FiberSet.make()
      /** The types whose cached reads are up to date: nothing was written since the last look. */
      const current = new Set<string>()

      const startWatch = (
        id: string,
        request: KubeRequest.KubeRequest,
        transport: KubeTransport
      ): Effect.Effect<void, never, Scope.Scope> =>
        Effect.gen(function* () {
          const watch: Open = {
            id,
            frames: [],
            end: undefined,
            started: yield* Deferred.make<void>(),
            ended: yield* Deferred.make<void>()
          }
          open.push(watch)
          yield* FiberSet.run(
            fibers,
            Stream.runForEach(transport.watch(request), (frame) =>
              Effect.suspend(() => {
                const initial = Json.at(frame.object, "metadata", "annotations", initialEventsEnd) === "true"
                if (frame.type !== "BOOKMARK" || initial) watch.frames.push(frame)
                return initial ? Deferred.succeed(watch.started, undefined) : Effect.void
              })
            ).pipe(
              Effect.either,
              Effect.flatMap((result) => {
                watch.end = Either.isLeft(result) ? refusal(result.left) : "ended"
                return Effect.zipRight(
                  Deferred.succeed(watch.ended, undefined),
                  Deferred.succeed(watch.started, undefined)
                )
              })
            )
          )
          // What happens from here on is live only when the watch has started; one from a version misses nothing
          if (endsSoon(request)) yield* Effect.timeoutOption(Deferred.await(watch.ended), answerLimit)
          else if (startsWithObjects(request)) {
            yield* Effect.timeoutOption(Deferred.await(watch.started), answerLimit)
          }
        })

      const perform = (request: KubeRequest.KubeRequest, transport: KubeTransport): Effect.Effect<Outcome> => {
        const isLog = request.verb === "get" && request.subresource === "log"
        const effect: Effect.Effect<Outcome, Refusal> = isLog
          ? Effect.gen(function* () {
              const decoder = new TextDecoder()
              let text = ""
              const result = yield* Effect.either(
                Stream.runForEach(transport.bytes(request), (bytes) =>
                  Effect.sync(() => {
                    text += decoder.decode(bytes, { stream: true })
                  })
                )
              )
              return {
                _tag: "Text",
                text: text + decoder.decode(),
                end: Either.isLeft(result) ? refusal(result.left) : undefined
              }
            })
          : Effect.mapBoth(transport.call(request), {
              onSuccess: ({ body, status, warnings }): Outcome => ({ _tag: "Reply", status, body, warnings }),
              onFailure: refusal
            })
        return effect.pipe(
          Effect.catchAll((refused): Effect.Effect<Outcome> => Effect.succeed({ _tag: "Refused", refusal: refused })),
          Effect.timeoutOption(answerLimit),
          Effect.map(Option.getOrElse((): Outcome => ({ _tag: "Text", text: "no answer", end: undefined })))
        )
      }

      for (const operation of sequence) {
        const request = Operation.resolve(operation.request, answers, server)
        const transport = server.transport(operation.as)
        const typeOf = `${request.group}/${request.version}/${request.plural}`
        if (readsCache(request) && !current.has(typeOf)) {
          yield* server.catchUp(request)
          current.add(typeOf)
        }
        // A list tells the version of the whole server, so a write to any type counts
        if (!["get", "list", "watch"].includes(request.verb)) current.clear()
        if (request.verb === "watch") yield* startWatch(operation.id, request, transport)
        else {
          const outcome = yield* perform(request, transport)
          outcomes.set(operation.id, outcome)
          if (outcome._tag === "Reply") answers.set(operation.id, outcome.body)
        }
        yield* server.after(request)
      }

      const wanted = new Map(expected.map(({ id, outcome }) => [id, outcome]))
      for (
        let waited = 0;
        waited < server.patience.expected && !open.every((watch) => isComplete(watch, wanted.get(watch.id)));
        waited += poll
      ) {
        yield* Effect.sleep(poll)
      }
      if (open.length > 0) yield* Effect.sleep(server.patience.more)
      for (const { end, frames, id } of open) outcomes.set(id, { _tag: "Frames", frames: [...frames], end })
      return sequence.flatMap(({ id }) => {
        const outcome = outcomes.get(id)
        return outcome === undefined ? [] : [{ id, outcome }]
      })
    })
  )
