/**
 * The in-memory side of the differential checker: a fresh cluster for each sequence, prepared as the real one is.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Effect, Either } from "effect"
import * as Cluster from "../Cluster.js"
import * as Json from "../Json.js"
import * as Rbac from "../Rbac.js"
import type * as Store from "../Store.js"
import { plugins } from "../stages/Admission.js"
import * as Operation from "./Operation.js"
import type { Server } from "./Runner.js"
import * as Sequence from "./Sequence.js"

/** What a sequence meets in its namespace: read from the real cluster, so that both sides start alike. */
export interface Prepared extends Operation.Places {
  /** Seeds the roles. */
  readonly seed: number
  /** The namespace, objects that every namespace has, and the runtimes that TrainJobs refer to. */
  readonly objects: ReadonlyArray<object>
}

const kueueManager = "kueue.x-k8s.io/manager"

/** Kueue's webhook gives every TrainJob an entry of its own, also where no queue is named. */
const kueue: Store.Admission = {
  name: "mtrainjob.kb.io",
  admit: ({ definition, now, object, operation, subresource }) => {
    if (definition.kind !== "TrainJob" || operation !== "CREATE" || subresource !== undefined) return undefined
    const suspend = Json.at(object, "spec", "suspend")
    if (suspend !== undefined && typeof suspend !== "boolean") {
      const what = typeof suspend === "object" ? "object" : typeof suspend
      return Either.left({
        code: 400,
        message: `json: cannot unmarshal ${what} into Go struct field TrainJobSpec.spec.suspend of type bool`
      })
    }
    const patches = Json.array(Json.at(object, "spec", "runtimePatches"))
    if (patches.some((patch) => Json.at(patch, "manager") === kueueManager)) return undefined
    return Either.right(
      Json.set(
        // It writes the object as the kind that it knows
        { ...object, kind: "TrainJob" },
        ["spec", "runtimePatches"],
        [...patches, { manager: kueueManager, time: Json.time(now), trainingRuntimeSpec: { template: { spec: {} } } }]
      )
    )
  }
}

/** The node that pods are bound to: it exists, and nothing starts pods there. */
export const node: object = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: Sequence.node },
  spec: { unschedulable: true },
  status: { addresses: [{ type: "InternalIP", address: "127.0.0.1" }] }
}

const inNamespace = (body: Readonly<Record<string, unknown>>, namespace: string): object => {
  const text = JSON.stringify({ ...body, metadata: { ...(body["metadata"] as object), namespace } })
  return JSON.parse(text.replaceAll(`"namespace":"${Operation.namespace}"`, `"namespace":"${namespace}"`)) as object
}

/** The roles, bindings and accounts of a seed, for a namespace. */
export const roles = (seed: number, namespace: string): ReadonlyArray<object> =>
  Sequence.roles(seed).map((body) => inNamespace(body, namespace))

/** The manager that a real server takes from the user agent of the client. */
const defaultManager = "dispatch-kubeflow"

const asClient = (transport: KubeTransport): KubeTransport => ({
  ...transport,
  call: (request) =>
    transport.call(
      ["create", "update", "patch"].includes(request.verb) &&
        request.patchType !== "apply" &&
        request.query["fieldManager"] === undefined
        ? { ...request, query: { ...request.query, fieldManager: defaultManager } }
        : request
    )
})

/** A fresh cluster as a server for one sequence. */
export const server = (prepared: Prepared): Effect.Effect<Server> =>
  Effect.gen(function* () {
    const { namespace, objects, other, seed } = prepared
    const cluster = yield* Cluster.make({
      admission: [kueue, ...plugins],
      objects: [
        { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
        node,
        ...objects,
        ...roles(seed, namespace)
      ]
    })
    yield* cluster.compact()
    return {
      namespace,
      other,
      transport: (as) => asClient(cluster.transport(as === "admin" ? Rbac.admin : Rbac.serviceAccount(namespace, as))),
      // A real server's kubelet has the log from the start; here it is written once the container runs
      after: (request: KubeRequest.KubeRequest) =>
        request.name === Sequence.logPod && request.subresource === "status"
          ? Effect.forEach(
              Sequence.logLines,
              ({ text, time }) =>
                cluster.appendLog(
                  { namespace, name: Sequence.logPod },
                  { container: "node", text: `${text}\n`, at: Json.parseTime(time) ?? 0 }
                ),
              { discard: true }
            )
          : Effect.void,
      catchUp: () => Effect.void,
      patience: { expected: 0, more: 20 }
    }
  })
