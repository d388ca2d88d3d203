/**
 * Logs of pods on machines that are played: where kwok (https://kwok.sigs.k8s.io) runs, its log endpoint serves files that its
 * `Logs` objects name. The files have to be on the machine on which kwok runs.
 *
 * @module
 */
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import { FileSystem, Path } from "@effect/platform"
import { Clock, DateTime, Effect, Schema } from "effect"
import type * as Machine from "./Machine.js"
import * as Programme from "./Programme.js"

const logs = Programme.untyped("kwok.x-k8s.io", "v1alpha1", "logs", "Logs", "Namespaced")

const Reached = Schema.Struct({
  status: Schema.Struct({ addresses: Schema.Unknown, daemonEndpoints: Schema.Unknown })
})
const decodeReached = Schema.decodeUnknownOption(Reached)

/** The log of one pod. */
export interface Log {
  /** Complete lines. */
  readonly append: (text: string) => Effect.Effect<void>
}

/** See the module. */
export interface Service {
  /** What a machine's Node has to say so that its pods' logs are asked of kwok. */
  readonly endpoint: Machine.Endpoint
  readonly of: (namespace: string, pod: string) => Effect.Effect<Log, KubeError>
}

/** Undefined where kwok does not run. The files go with the scope. */
export const make = Effect.fn("e2e.Logs.make")(function* (api: KubeApi.Service) {
  const served = yield* api.groupVersions
  if (!served.some(({ group }) => group === "kwok.x-k8s.io")) return undefined
  const { items } = yield* api.list(Core.nodes, {})
  const node = items.find(({ status }) => status?.nodeInfo?.bootID !== undefined && isKwok(status))
  const reached = node === undefined ? undefined : decodeReached(node)
  if (reached?._tag !== "Some") return undefined
  const { addresses, daemonEndpoints } = reached.value.status
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = yield* Effect.orDie(files.makeTempDirectoryScoped({ prefix: "e2e-logs-" }))
  const service: Service = {
    endpoint: { addresses, daemonEndpoints },
    of: (namespace, pod) =>
      Effect.gen(function* () {
        const file = path.join(folder, `${pod}.log`)
        yield* Effect.orDie(files.writeFileString(file, ""))
        yield* api.create(
          logs,
          { namespace },
          { metadata: { name: pod }, spec: { logs: [{ containers: ["node"], logsFile: file, follow: true }] } }
        )
        return {
          append: (text) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) => {
              const time = DateTime.formatIso(DateTime.unsafeMake(now)).replace("Z", "")
              const records = text
                .split("\n")
                .slice(0, -1)
                .map((line, index) => `${time}${String(index).padStart(6, "0")}Z stdout F ${line}\n`)
              return Effect.orDie(files.writeFileString(file, records.join(""), { flag: "a" }))
            })
        }
      })
  }
  return service
})

const isKwok = (status: object): boolean => JSON.stringify(status).includes('"kwok')
