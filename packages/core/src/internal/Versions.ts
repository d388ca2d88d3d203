/**
 * Which versions of Kubernetes, Trainer, JobSet and Kueue this is, by API discovery.
 *
 * @module
 */
import { Effect, Predicate } from "effect"
import { modeOf } from "../AdapterConfig.js"
import { ErrUnsupported } from "../AdapterError.js"
import type * as GateProof from "../decide/GateProof.js"
import type { KubeError } from "../kube/KubeError.js"
import * as KubeRequest from "../kube/KubeRequest.js"
import { jobSets } from "../model/JobSet.js"
import { patiently } from "./Patience.js"
import { kueueGroup, trainerGroup, type World } from "./World.js"

const openApiPath = `/openapi/v3/apis/${trainerGroup}/v1alpha1`

/** Versions of Kubernetes that the adapter was made for. */
const kubernetesMinors = { from: 34, to: 37 }

const property = (value: unknown, key: string): unknown => (Predicate.isRecord(value) ? value[key] : undefined)

/** Whether the served schema of TrainJob has `spec.runtimePatches`; `undefined` when nothing in it says. */
const hasRuntimePatches = (openApi: unknown): boolean | undefined => {
  const schemas = property(property(openApi, "components"), "schemas")
  if (!Predicate.isRecord(schemas)) return undefined
  for (const schema of Object.values(schemas)) {
    const kinds = property(schema, "x-kubernetes-group-version-kind")
    const isTrainJob =
      Array.isArray(kinds) &&
      kinds.some((it) => property(it, "kind") === "TrainJob" && property(it, "group") === trainerGroup)
    if (!isTrainJob) continue
    const spec = property(property(schema, "properties"), "spec")
    const fields = property(spec, "properties")
    // A schema that leaves its fields open says nothing of them
    return Predicate.isRecord(fields) ? fields["runtimePatches"] !== undefined : undefined
  }
  return undefined
}

const tooOld = (where: string, problem: string): ErrUnsupported =>
  new ErrUnsupported({
    operation: "preflight",
    reason: "Kubeflow Trainer 2.2 or later is needed",
    details: [
      {
        id: "trainer-version",
        where,
        problem,
        remedy: "install Kubeflow Trainer 2.2 or later (2.3.0 is the reference)"
      }
    ]
  })

const servedAs = (version: string | undefined): GateProof.Served =>
  version === undefined ? { _tag: "NotServed" } : { _tag: "Served", version }

/** Nothing else can be asked when these fail. */
const hopeless = (error: KubeError): boolean =>
  error._tag === "KubeUnauthorized" ||
  (error._tag === "KubeUnavailable" && ["connect", "tls", "credentials"].includes(error.phase))

/**
 * Asks which API versions are served. `ErrUnsupported` without Trainer 2.2 or later; the error itself when the server cannot
 * be reached or does not accept the credentials.
 */
export const versions = Effect.fn("Preflight.versions")(function* ({ api, config, record }: World) {
  const [server, groups, openApi] = yield* Effect.all(
    [
      Effect.either(patiently(api.serverVersion)),
      Effect.either(patiently(api.groupVersions)),
      Effect.either(patiently(api.transport.call(KubeRequest.nonResource(openApiPath))))
    ],
    { concurrency: 3 }
  )
  if (groups._tag === "Left" && hopeless(groups.left)) return yield* groups.left

  const askedServer = "get /version"
  if (server._tag === "Left") {
    yield* record("versions.kubernetes", "unknown", askedServer, server.left.message)
  } else {
    const minor = Number(/^v?1\.(\d+)/.exec(server.right)?.[1] ?? Number.NaN)
    const known = minor >= kubernetesMinors.from && minor <= kubernetesMinors.to
    yield* record(
      "versions.kubernetes",
      known ? "passed" : "unknown",
      askedServer,
      `the server is ${server.right}`,
      known ? undefined : `the adapter is made for Kubernetes 1.${kubernetesMinors.from} to 1.${kubernetesMinors.to}`
    )
  }

  const asked = "get /apis"
  if (groups._tag === "Left") {
    for (const id of ["versions.trainer", "versions.jobset", "versions.kueue"]) {
      yield* record(id, "unknown", asked, groups.left.message, "allow discovery (ClusterRole system:discovery)")
    }
    return { _tag: "Undiscovered", message: groups.left.message } satisfies GateProof.Served
  }
  const served = (group: string): ReadonlyArray<string> =>
    groups.right.flatMap((it) => (it.group === group ? [it.version] : []))

  if (!served(trainerGroup).includes("v1alpha1")) {
    const found = `${trainerGroup}/v1alpha1 is not served`
    yield* record("versions.trainer", "failed", asked, found, "install Kubeflow Trainer 2.2 or later")
    return yield* tooOld(`API group ${trainerGroup}`, "v1alpha1 is not served")
  }
  const patches = openApi._tag === "Right" ? hasRuntimePatches(openApi.right.body) : undefined
  if (patches === false) {
    const found = "TrainJob has no spec.runtimePatches: this is Trainer 2.1 or earlier"
    yield* record("versions.trainer", "failed", `get ${openApiPath}`, found, "install Kubeflow Trainer 2.2 or later")
    return yield* tooOld(`CustomResourceDefinition/trainjobs.${trainerGroup}`, "has no spec.runtimePatches")
  }
  yield* record(
    "versions.trainer",
    "passed",
    patches === undefined ? asked : `${asked}, get ${openApiPath}`,
    patches === true
      ? `${trainerGroup}/v1alpha1 is served, with spec.runtimePatches (Trainer 2.2 or later)`
      : `${trainerGroup}/v1alpha1 is served; its schema could not be read, so that the hold probe has to show spec.runtimePatches`
  )
  const jobSet = served(jobSets.group).includes(jobSets.version)
  yield* record(
    "versions.jobset",
    jobSet ? "passed" : "failed",
    asked,
    `${jobSets.group}/${jobSets.version} is ${jobSet ? "" : "not "}served`,
    jobSet ? undefined : "install JobSet 0.11 or later"
  )
  const kueue = served(kueueGroup)
  const version = kueue.includes("v1beta2") ? "v1beta2" : kueue[0]
  if (modeOf(config) === "plain") {
    yield* record(
      "versions.kueue",
      version === undefined ? "skipped" : "passed",
      asked,
      version === undefined
        ? "Kueue is not installed, and not needed in plain mode"
        : `${kueueGroup}/${version} is served`
    )
  } else {
    yield* record(
      "versions.kueue",
      version === "v1beta2" ? "passed" : "failed",
      asked,
      version === undefined ? `${kueueGroup} is not served` : `${kueueGroup}/${version} is served`,
      version === "v1beta2" ? undefined : "install Kueue 0.17 or later"
    )
  }
  return servedAs(version)
})
