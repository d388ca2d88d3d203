/**
 * Annotations by which a story is told through the Kubernetes API itself, by any client and without the control surface:
 *
 * | annotation | on | value |
 * |---|---|---|
 * | `testkit.dispatch-kubeflow.dev/program` | a pod, from its creation | JSON of a `Program` of `stages/Kubelet`: what its containers do |
 * | `testkit.dispatch-kubeflow.dev/machine` | a Node | `lost` (its kubelet stops reporting, processes run on), `off`, `up` |
 *
 * A value that cannot be read changes nothing and is told in a warning.
 *
 * @module
 */
import { Effect, Either, ParseResult, Schema, Stream } from "effect"
import * as Cluster from "../Cluster.js"
import * as Json from "../Json.js"
import * as Registry from "../Registry.js"
import type * as Kubelet from "../stages/Kubelet.js"
import type * as Objects from "../stages/Objects.js"
import * as TestCluster from "../TestCluster.js"
import { Program } from "./Control.js"

const prefix = "testkit.dispatch-kubeflow.dev"

/** What a pod's containers do. */
export const programAnnotation = `${prefix}/program`
/** What happens to a Node's machine. */
export const machineAnnotation = `${prefix}/machine`

const nodes = Registry.typeKey({ group: "", plural: "nodes" })
const pods = Registry.typeKey({ group: "", plural: "pods" })

const decodeProgram = Schema.decodeUnknownEither(Schema.parseJson(Program))

const readProgram = (pod: Objects.Pod): Either.Either<Kubelet.Program, ParseResult.ParseError> | undefined => {
  const text = pod.metadata.annotations?.[programAnnotation]
  return text === undefined ? undefined : decodeProgram(text)
}

/** The program a pod asks for, for `TestCluster`'s `programs`. */
export const programOf = (pod: Objects.Pod): Kubelet.Program | undefined => {
  const program = readProgram(pod)
  return program === undefined || Either.isLeft(program) ? undefined : program.right
}

/** Does to machines what the annotations of their Nodes say, from now on; tells programs that cannot be read. */
export const obey: Effect.Effect<void, never, Cluster.Cluster | TestCluster.TestCluster> = Effect.gen(function* () {
  const cluster = yield* Cluster.Cluster
  const world = yield* TestCluster.TestCluster
  const known = new Map<string, string>()
  const machine = (name: string, wish: string): Effect.Effect<void> => {
    const before = known.get(name) ?? "up"
    if (before === wish) return Effect.void
    known.set(name, wish)
    switch (wish) {
      case "lost":
        return world.loseNode(name)
      case "off":
        return world.powerOff(name)
      case "up":
        return before === "off" ? world.powerOn(name) : world.returnNode(name)
      default:
        return Effect.logWarning(`Node ${name}: ${machineAnnotation} is lost, off or up, not "${wish}"`)
    }
  }
  yield* Stream.runForEach(cluster.changes(), ({ object, resource, type }) => {
    if (type === "DELETED") return Effect.void
    const annotation = (key: string): string | undefined => Json.string(Json.at(object, "metadata", "annotations", key))
    const name = Json.string(Json.at(object, "metadata", "name")) ?? ""
    if (resource === nodes) {
      const wish = annotation(machineAnnotation)
      return wish === undefined ? Effect.void : machine(name, wish)
    }
    const program = resource === pods && type === "ADDED" ? annotation(programAnnotation) : undefined
    return program === undefined
      ? Effect.void
      : Either.match(decodeProgram(program), {
          onLeft: (error) =>
            Effect.logWarning(`Pod ${name}: ${programAnnotation}: ${ParseResult.TreeFormatter.formatErrorSync(error)}`),
          onRight: () => Effect.void
        })
  })
})
