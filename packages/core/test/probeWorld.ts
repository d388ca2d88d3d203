/**
 * A world in which a preflight can be run request by request: it knows TrainJobs, their JobSets and access reviews, and
 * lets a test fail, delay or hang any one request. The whole API server is the testkit's business; here only the order of
 * requests and what becomes of the probe matter.
 */
import type * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import { fromStatus, type KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { Clock, DateTime, Effect, Fiber, Ref, Stream, TestClock } from "effect"

type Json = { readonly [key: string]: unknown }

const status = (code: number, reason: string, message: string, details?: object) => ({
  kind: "Status" as const,
  code,
  reason,
  message,
  ...(details === undefined ? {} : { details })
})

export const notFound = (request: KubeRequest.KubeRequest): KubeError =>
  fromStatus(request, 404, status(404, "NotFound", "not found", { name: request.name ?? "", kind: request.plural }))
export const forbidden = (request: KubeRequest.KubeRequest): KubeError =>
  fromStatus(
    request,
    403,
    status(403, "Forbidden", `User "someone" cannot ${request.verb} resource "${request.plural}"`)
  )
export const unavailable = (request: KubeRequest.KubeRequest): KubeError =>
  fromStatus(request, 503, status(503, "ServiceUnavailable", "the server is busy"))

export interface Behaviour {
  /** Milliseconds until the JobSet of a suspended TrainJob exists and says so; never when undefined. */
  readonly suspendedAfter?: number | undefined
  /** Access reviews that are denied, as `verb resource/subresource`; `error` makes them fail. */
  readonly denied?: ReadonlyArray<string>
  readonly reviewsFail?: ReadonlyArray<string>
  /** What Kueue's webhook makes of a TrainJob. */
  readonly admit?: (job: Json) => Json
  /** A finalizer that keeps the TrainJob. */
  readonly finalizer?: string
  readonly pods?: ReadonlyArray<Json>
  readonly runtimes?: ReadonlyArray<Json>
  readonly groups?: ReadonlyArray<readonly [group: string, versions: ReadonlyArray<string>]>
  readonly openApi?: unknown
  /** Objects by `plural/name`, e.g. `localqueues/lq`. */
  readonly objects?: { readonly [key: string]: Json }
  readonly trainJobs?: ReadonlyArray<Json>
  /** Replaces the answer to a request: an error, or `hang` for none at all. `at` counts requests from 0. */
  readonly fault?: (request: KubeRequest.KubeRequest, at: number) => KubeError | "hang" | undefined
}

export interface World {
  readonly api: KubeApi.Service
  readonly audit: Effect.Effect<ReadonlyArray<KubeRequest.KubeRequest>>
  readonly trainJobs: Effect.Effect<ReadonlyArray<Json>>
}

interface Stored {
  readonly object: Json & { readonly metadata: Json }
  readonly created: number
}

const step = "trainer.kubeflow.org/trainjob-ancestor-step"

/** A runtime that obeys the rules. */
export const runtime = (name = "torch-strict", spec: Json = {}): Json => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: "1" },
  spec: {
    mlPolicy: { numNodes: 1, torch: {} },
    template: {
      spec: {
        replicatedJobs: [
          {
            name: "node",
            replicas: 1,
            template: {
              metadata: { labels: { [step]: "trainer" } },
              spec: {
                backoffLimit: 0,
                podReplacementPolicy: "Failed",
                template: { spec: { restartPolicy: "Never", containers: [{ name: "node" }] } },
                ...spec
              }
            }
          }
        ]
      }
    }
  }
})

export const served = [
  ["trainer.kubeflow.org", ["v1alpha1"]],
  ["jobset.x-k8s.io", ["v1alpha2"]]
] as const

export const servedWithKueue = [...served, ["kueue.x-k8s.io", ["v1beta2", "v1beta1"]]] as const

export const make = (behaviour: Behaviour): Effect.Effect<World> =>
  Effect.gen(function* () {
    const audit = yield* Ref.make<ReadonlyArray<KubeRequest.KubeRequest>>([])
    const now = yield* Clock.currentTimeMillis
    const jobs = new Map<string, Stored>()
    let uids = 0
    for (const job of behaviour.trainJobs ?? []) {
      const metadata = (job["metadata"] ?? {}) as Json
      jobs.set(String(metadata["name"]), { object: { ...job, metadata }, created: now })
    }
    const runtimes = behaviour.runtimes ?? [runtime()]
    const uidOf = (stored: Stored): string => String(stored.object.metadata["uid"])

    const jobSetOf = (stored: Stored, at: number): Json | undefined => {
      const { suspendedAfter } = behaviour
      if (suspendedAfter === undefined || at - stored.created < suspendedAfter) return undefined
      const name = String(stored.object.metadata["name"])
      return {
        metadata: {
          name,
          uid: `set-${uidOf(stored)}`,
          ownerReferences: [
            {
              apiVersion: "trainer.kubeflow.org/v1alpha1",
              kind: "TrainJob",
              name,
              uid: uidOf(stored),
              controller: true
            }
          ]
        },
        spec: { suspend: true },
        status: { conditions: [{ type: "Suspended", status: "True", reason: "SuspendedJobs" }] }
      }
    }

    const answer = (request: KubeRequest.KubeRequest, at: number): Json | KubeError => {
      const { name = "", plural, verb } = request
      const list = (items: ReadonlyArray<Json>): Json => ({ metadata: { resourceVersion: "1" }, items })
      if (request.nonResourcePath === "/version") return { gitVersion: "v1.37.2" }
      if (request.nonResourcePath === "/apis") {
        return {
          groups: (behaviour.groups ?? served).map(([group, versions]) => ({
            name: group,
            versions: versions.map((version) => ({ groupVersion: `${group}/${version}`, version }))
          }))
        }
      }
      if (request.nonResourcePath !== undefined) {
        return behaviour.openApi === undefined ? notFound(request) : (behaviour.openApi as Json)
      }
      if (plural === "selfsubjectaccessreviews") {
        const attributes = (request.body as { spec: { resourceAttributes: Record<string, string | undefined> } }).spec
          .resourceAttributes
        const sub = attributes["subresource"]
        const what = `${attributes["verb"]} ${attributes["resource"]}${sub === undefined ? "" : `/${sub}`}`
        if (behaviour.reviewsFail?.includes(what) === true) return unavailable(request)
        return { status: { allowed: behaviour.denied?.includes(what) !== true } }
      }
      if (plural === "clustertrainingruntimes") {
        if (verb === "list") return list(runtimes)
        return runtimes.find((it) => (it["metadata"] as Json)["name"] === name) ?? notFound(request)
      }
      if (plural === "trainingruntimes") return verb === "list" ? list([]) : notFound(request)
      if (plural === "pods") return list(behaviour.pods ?? [])
      if (plural === "events") return list([])
      if (plural === "jobsets") {
        const stored = jobs.get(name)
        return (stored === undefined ? undefined : jobSetOf(stored, at)) ?? notFound(request)
      }
      if (plural !== "trainjobs") return behaviour.objects?.[`${plural}/${name}`] ?? notFound(request)
      const stored = jobs.get(name)
      const dryRun = request.query["dryRun"] === "All"
      switch (verb) {
        case "list":
          return list([...jobs.values()].map((it) => it.object))
        case "get":
          return stored?.object ?? notFound(request)
        case "create": {
          const body = request.body as Json & { readonly metadata: Json }
          const admitted = (behaviour.admit?.(body) ?? body) as Json & { readonly metadata: Json }
          uids += 1
          const object: Stored["object"] = {
            ...admitted,
            metadata: {
              ...admitted.metadata,
              namespace: request.namespace,
              uid: `uid-${uids}`,
              creationTimestamp: DateTime.formatIso(DateTime.unsafeMake(at))
            }
          }
          if (!dryRun) jobs.set(String(object.metadata["name"]), { object, created: at })
          return object
        }
        case "patch": {
          if (stored === undefined) return notFound(request)
          const spec = { ...(stored.object["spec"] as Json), ...((request.body as Json)["spec"] as Json) }
          const object = { ...stored.object, spec }
          if (!dryRun) jobs.set(name, { ...stored, object })
          return object
        }
        case "delete": {
          if (stored === undefined) return notFound(request)
          const options = request.body as { preconditions?: { uid?: string } }
          if (options.preconditions?.uid !== undefined && options.preconditions.uid !== uidOf(stored)) {
            return fromStatus(request, 409, status(409, "Conflict", "the UID in the precondition does not match"))
          }
          if (behaviour.finalizer === undefined) jobs.delete(name)
          else {
            const metadata = {
              ...stored.object.metadata,
              deletionTimestamp: "2026-01-01T00:00:00Z",
              finalizers: [behaviour.finalizer]
            }
            jobs.set(name, { ...stored, object: { ...stored.object, metadata } })
          }
          return stored.object
        }
        default:
          return notFound(request)
      }
    }

    const transport: KubeTransport = {
      call: (request) =>
        Effect.gen(function* () {
          const at = yield* Ref.modify(audit, (all) => [all.length, [...all, request]])
          const millis = yield* Clock.currentTimeMillis
          const fault = behaviour.fault?.(request, at)
          if (fault === "hang") {
            // The server did it and the answer is lost
            answer(request, millis)
            return yield* Effect.never
          }
          const body = fault ?? answer(request, millis)
          if ("_tag" in body) return yield* body as KubeError
          return { status: 200, body, warnings: [], serverTime: millis }
        }),
      watch: () => Stream.die("a preflight does not watch"),
      bytes: () => Stream.die("a preflight does not read logs")
    }
    return {
      api: KubeApi.make(transport),
      audit: Ref.get(audit),
      trainJobs: Effect.sync(() => [...jobs.values()].map((it) => it.object))
    }
  })

/** Lets the clock run, in steps, until the effect is done. */
export const drive = <A, E, R>(effect: Effect.Effect<A, E, R>, stepMillis = 500): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    for (let turn = 0; turn < 400; turn += 1) {
      const exit = yield* Fiber.poll(fiber)
      if (exit._tag === "Some") return yield* exit.value
      yield* TestClock.adjust(stepMillis)
    }
    return yield* Effect.dieMessage("not done after 400 steps of the clock")
  })

/** Kueue mode of the tests. */
export const kueue: AdapterConfig.KueueConfig = {
  localQueue: "lq",
  admissionCheck: "gate",
  controllerName: "acme.io/gate",
  lease: { namespace: "acme-system", name: "gate" }
}

const active = { conditions: [{ type: "Active", status: "True", reason: "Ready" }] }

/** Queue objects that prove the gate at time 0. */
export const gateObjects: { readonly [key: string]: Json } = {
  "localqueues/lq": { metadata: { name: "lq", uid: "1" }, spec: { clusterQueue: "cq" }, status: active },
  "clusterqueues/cq": {
    metadata: { name: "cq", uid: "2" },
    spec: { namespaceSelector: {}, admissionChecksStrategy: { admissionChecks: [{ name: "gate" }] } },
    status: active
  },
  "admissionchecks/gate": {
    metadata: { name: "gate", uid: "3" },
    spec: { controllerName: "acme.io/gate" },
    status: active
  },
  "leases/gate": {
    metadata: { name: "gate", uid: "4" },
    spec: { holderIdentity: "gate-0", leaseDurationSeconds: 3600, renewTime: "1970-01-01T00:00:00.000000Z" }
  }
}
