/**
 * The control surface of a served cluster: what happens to machines, processes, connections and history, which no
 * Kubernetes request can cause. Plain HTTP with JSON, so that stories can be told from outside the process and in any
 * language. Only members of `system:masters` may use it. Everything else is told through the Kubernetes API itself: an
 * out-of-service taint is a patch, a deleted Node a DELETE, a revoked permission a changed RoleBinding.
 *
 * | request | body | what happens |
 * |---|---|---|
 * | `GET /testkit/` | | this table |
 * | `GET /testkit/processes` | | the processes that run now: the truth that no object can give |
 * | `POST /testkit/nodes` | `{"name", "labels"?, "allocatable"?}` | a machine is added and registers its Node |
 * | `POST /testkit/nodes/NAME/lose` | | its kubelet stops reporting; its processes run on |
 * | `POST /testkit/nodes/NAME/return` | | its kubelet is back, and registers the Node where it was deleted |
 * | `POST /testkit/nodes/NAME/power-off` | | its processes are gone at once, unreported |
 * | `POST /testkit/nodes/NAME/power-on` | | it boots: another bootID, no processes |
 * | `POST /testkit/nodes/NAME/replace` | | another machine takes its name; it is cut off, and its processes run on |
 * | `POST /testkit/nodes/NAME/delete` | | its Node object is deleted; the machine is not |
 * | `POST /testkit/namespaces/NS/pods/POD/exit` | `{"code", "reason"?, "message"?, "container"?}` | a container ends by itself |
 * | `POST /testkit/namespaces/NS/pods/POD/program` | a `Program` of `stages/Kubelet` | what its containers do from now on |
 * | `POST /testkit/namespaces/NS/pods/POD/log` | `{"lines": […], "container"?}` | a container writes these lines |
 * | `POST /testkit/connections/cut` | | every open watch, log and connection breaks |
 * | `POST /testkit/compact` | `{}` | the history before now is forgotten: old versions are 410 |
 *
 * Answers are `{"done": …}` or what was asked for; failures are `Status` objects.
 *
 * @module
 */
import { Data, Effect, Either, ParseResult, Schema } from "effect"
import type { RouteAnswer, RouteRequest } from "../ApiServer.js"
import * as Answer from "./Answer.js"

/** The command cannot be carried out: there is no such machine, pod or container, or it is not in that state. */
export class ControlError extends Data.TaggedError("ControlError")<{ readonly message: string }> {}

/** Names a pod. */
export interface PodName {
  readonly namespace: string
  readonly name: string
}

/** What the control surface can do to a cluster. */
export interface Actions {
  readonly processes: Effect.Effect<ReadonlyArray<unknown>>
  readonly addNode: (node: typeof NewNode.Type) => Effect.Effect<void, ControlError>
  readonly loseNode: (name: string) => Effect.Effect<void, ControlError>
  readonly returnNode: (name: string) => Effect.Effect<void, ControlError>
  readonly powerOff: (name: string) => Effect.Effect<void, ControlError>
  readonly powerOn: (name: string) => Effect.Effect<void, ControlError>
  readonly replaceMachine: (name: string) => Effect.Effect<void, ControlError>
  readonly deleteNode: (name: string) => Effect.Effect<void, ControlError>
  readonly exit: (pod: PodName, ending: typeof Exit.Type) => Effect.Effect<void, ControlError>
  readonly program: (pod: PodName, program: typeof Program.Type) => Effect.Effect<void, ControlError>
  readonly log: (pod: PodName, lines: typeof Lines.Type) => Effect.Effect<void, ControlError>
  readonly cut: Effect.Effect<void>
  readonly compact: Effect.Effect<void>
}

const StringMap = Schema.Record({ key: Schema.String, value: Schema.String })

/** A machine to add. */
export const NewNode = Schema.Struct({
  name: Schema.NonEmptyString,
  labels: Schema.optionalWith(StringMap, { exact: true }),
  allocatable: Schema.optionalWith(StringMap, { exact: true })
})

/** How a container ends. */
export const Exit = Schema.Struct({
  code: Schema.Int.pipe(Schema.between(0, 255)),
  reason: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
  message: Schema.optionalWith(Schema.String, { exact: true }),
  container: Schema.optionalWith(Schema.NonEmptyString, { exact: true })
})

const Milliseconds = Schema.NonNegative

/** What a container's program does, times in milliseconds: see `stages/Kubelet`. */
export const Program = Schema.Struct({
  startAfter: Schema.optionalWith(Milliseconds, { exact: true }),
  waiting: Schema.optionalWith(
    Schema.Struct({ reason: Schema.NonEmptyString, message: Schema.optionalWith(Schema.String, { exact: true }) }),
    { exact: true }
  ),
  runs: Schema.optionalWith(
    Schema.Array(
      Schema.Struct({
        after: Milliseconds,
        code: Schema.Int.pipe(Schema.between(0, 255)),
        reason: Schema.optionalWith(Schema.NonEmptyString, { exact: true }),
        message: Schema.optionalWith(Schema.String, { exact: true })
      })
    ),
    { exact: true }
  ),
  onTerm: Schema.optionalWith(
    Schema.Union(
      Schema.Literal("ignore"),
      Schema.Struct({
        code: Schema.Int.pipe(Schema.between(0, 255)),
        after: Schema.optionalWith(Milliseconds, { exact: true })
      })
    ),
    { exact: true }
  ),
  output: Schema.optionalWith(Schema.Array(Schema.Struct({ after: Milliseconds, text: Schema.String })), {
    exact: true
  })
})

/** What a container writes. */
export const Lines = Schema.Struct({
  lines: Schema.Array(Schema.String),
  container: Schema.optionalWith(Schema.NonEmptyString, { exact: true })
})

/** The path under which the control surface is served. */
export const prefix = "/testkit/"

const paths: ReadonlyArray<string> = [
  "GET /testkit/",
  "GET /testkit/processes",
  "POST /testkit/nodes",
  "POST /testkit/nodes/NAME/lose",
  "POST /testkit/nodes/NAME/return",
  "POST /testkit/nodes/NAME/power-off",
  "POST /testkit/nodes/NAME/power-on",
  "POST /testkit/nodes/NAME/replace",
  "POST /testkit/nodes/NAME/delete",
  "POST /testkit/namespaces/NS/pods/POD/exit",
  "POST /testkit/namespaces/NS/pods/POD/program",
  "POST /testkit/namespaces/NS/pods/POD/log",
  "POST /testkit/connections/cut",
  "POST /testkit/compact"
]

const decoded = <A>(schema: Schema.Schema<A>, body: unknown): Effect.Effect<A, ControlError> =>
  Either.match(Schema.decodeUnknownEither(schema, { onExcessProperty: "error", errors: "all" })(body ?? {}), {
    onLeft: (error) => {
      const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
      const message = issues.map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
      return Effect.fail(new ControlError({ message: message.join("; ") }))
    },
    onRight: Effect.succeed
  })

const answered = (answer: Answer.Answer): RouteAnswer => ({ answer })
const done = (what: string): RouteAnswer => answered(Answer.json(200, { done: what }))

const nodeActions = (
  actions: Actions
): Readonly<Record<string, (name: string) => Effect.Effect<void, ControlError>>> => ({
  lose: actions.loseNode,
  return: actions.returnNode,
  "power-off": actions.powerOff,
  "power-on": actions.powerOn,
  replace: actions.replaceMachine,
  delete: actions.deleteNode
})

/** Carries out a request to one of the paths of the table. */
export const perform =
  (actions: Actions) =>
  (request: RouteRequest): Effect.Effect<RouteAnswer, ControlError> =>
    Effect.gen(function* () {
      if (!request.subject.groups.includes("system:masters")) {
        const { method, path, subject } = request
        const message = `forbidden: User "${subject.user}" cannot ${method.toLowerCase()} path "${path}"`
        return answered(Answer.json(403, Answer.status(403, message, {})))
      }
      const segments = request.path
        .slice(prefix.length)
        .split("/")
        .filter((segment) => segment !== "")
      const [root, name, action] = segments
      if (request.method === "GET") {
        if (root === undefined) return answered(Answer.json(200, { paths }))
        if (root === "processes" && name === undefined) {
          return answered(Answer.json(200, { processes: yield* actions.processes }))
        }
        return answered(Answer.pageNotFound)
      }
      if (request.method !== "POST") return answered(Answer.methodNotAllowed)
      if (root === "nodes" && name === undefined) {
        const node = yield* decoded(NewNode, request.body)
        yield* actions.addNode(node)
        return done(`node ${node.name} added`)
      }
      const onNode = root === "nodes" && name !== undefined && segments.length === 3 ? action : undefined
      const act = onNode === undefined ? undefined : nodeActions(actions)[onNode]
      if (act !== undefined && name !== undefined) {
        yield* act(name)
        return done(`${onNode} ${name}`)
      }
      const [, namespace, plural, pod, verb] = segments
      if (
        root === "namespaces" &&
        plural === "pods" &&
        namespace !== undefined &&
        pod !== undefined &&
        segments.length === 5
      ) {
        if (verb === "exit") {
          yield* actions.exit({ namespace, name: pod }, yield* decoded(Exit, request.body))
          return done(`container of ${namespace}/${pod} ended`)
        }
        if (verb === "program") {
          yield* actions.program({ namespace, name: pod }, yield* decoded(Program, request.body))
          return done(`${namespace}/${pod} has another program`)
        }
        if (verb === "log") {
          const lines = yield* decoded(Lines, request.body)
          yield* actions.log({ namespace, name: pod }, lines)
          return done(`${lines.lines.length} lines written by ${namespace}/${pod}`)
        }
      }
      if (segments.join("/") === "compact") {
        yield* actions.compact
        return done("compacted")
      }
      if (segments.join("/") === "connections/cut") {
        return { ...done("cut"), afterwards: actions.cut }
      }
      return answered(Answer.pageNotFound)
    })

/** The same, with failures as answers. */
export const handle =
  (actions: Actions) =>
  (request: RouteRequest): Effect.Effect<RouteAnswer> =>
    Effect.catchTag(perform(actions)(request), "ControlError", (error) =>
      Effect.succeed(answered(Answer.json(422, Answer.status(422, error.message))))
    )
