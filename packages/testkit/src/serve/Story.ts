/**
 * A story: what happens to a served cluster after its start, as a YAML list. A step is a pause or an HTTP request of the
 * admin, to the Kubernetes API or to the control surface (see `Control`):
 *
 * ```yaml
 * - wait: 10s
 * - POST /testkit/nodes/node-1/lose
 * - POST /api/v1/namespaces: { metadata: { name: team-a } }
 * - wait: 1m
 * - PATCH /api/v1/nodes/node-1:
 *     spec: { taints: [{ key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute }] }
 * ```
 *
 * A PATCH is a merge patch, and server-side apply when its body has an `apiVersion`.
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { Duration, Effect, Either } from "effect"
import * as Yaml from "yaml"

/** One step. */
export type Step =
  | { readonly _tag: "Wait"; readonly duration: Duration.Duration }
  | { readonly _tag: "Request"; readonly method: string; readonly path: string; readonly body?: unknown }

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

const durationOf = (text: unknown): Duration.Duration | undefined => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(String(text))
  const unit = units[match?.[2] ?? ""]
  return match === null || unit === undefined ? undefined : Duration.millis(Number(match[1]) * unit)
}

const requestOf = (line: string, body: unknown): Step | undefined => {
  const match = /^(GET|POST|PUT|PATCH|DELETE) (\/\S*)$/.exec(line)
  return match === null
    ? undefined
    : {
        _tag: "Request",
        method: match[1] ?? "",
        path: match[2] ?? "",
        ...(body === undefined || body === null ? {} : { body })
      }
}

const stepOf = (value: unknown): Step | undefined => {
  if (typeof value === "string") return requestOf(value, undefined)
  if (typeof value !== "object" || value === null) return undefined
  const [entry, ...others] = Object.entries(value)
  if (entry === undefined || others.length > 0) return undefined
  const [key, content] = entry
  if (key !== "wait") return requestOf(key, content)
  const duration = durationOf(content)
  return duration === undefined ? undefined : { _tag: "Wait", duration }
}

/** Reads a story. Left: which step cannot be understood. */
export const parse = (text: string): Either.Either<ReadonlyArray<Step>, string> =>
  Either.gen(function* () {
    const value: unknown = yield* Either.try({
      try: () => Yaml.parse(text) as unknown,
      catch: (cause) => (cause instanceof Error ? cause.message : "unreadable YAML")
    })
    if (!Array.isArray(value)) return yield* Either.left("a story is a list of steps")
    const steps: Array<Step> = []
    for (const [index, item] of value.entries()) {
      const step = stepOf(item)
      if (step === undefined) {
        return yield* Either.left(
          `step ${index + 1} is neither "wait: 5s" nor "METHOD /path" with an optional body: ${JSON.stringify(item)}`
        )
      }
      steps.push(step)
    }
    return steps
  })

/** The request of the Kubernetes API that a step makes; `undefined` when its method has no meaning at its path. */
export const kubeRequest = (step: Extract<Step, { readonly _tag: "Request" }>): KubeRequest.KubeRequest | undefined => {
  const [path = "", search = ""] = step.path.split("?")
  const applies = typeof step.body === "object" && step.body !== null && "apiVersion" in step.body
  const query = new URLSearchParams(search)
  if (step.method === "PATCH" && applies && !query.has("fieldManager")) query.set("fieldManager", "story")
  return KubeRequest.fromHttp({
    method: step.method,
    path,
    query: [...query],
    contentType:
      step.method === "PATCH" ? `application/${applies ? "apply-patch+yaml" : "merge-patch+json"}` : "application/json",
    body: step.body
  })
}

/** Plays the steps in order; the first one that fails ends the story. */
export const play = <E>(
  steps: ReadonlyArray<Step>,
  perform: (step: Extract<Step, { readonly _tag: "Request" }>) => Effect.Effect<void, E>
): Effect.Effect<void, { readonly step: number; readonly error: E }> =>
  Effect.forEach(
    steps,
    (step, index) =>
      step._tag === "Wait"
        ? Effect.sleep(step.duration)
        : Effect.mapError(perform(step), (error) => ({ step: index + 1, error })),
    { discard: true }
  )
