/**
 * Metrics of the adapter, as Effect metrics: any exporter of Effect's reads them, none is needed. With several backends in one
 * program tell them apart with `Effect.tagMetrics` around each. Operations are spans too, named `Module.operation`.
 *
 * @module
 */
import {
  Clock,
  Effect,
  Exit,
  Metric,
  MetricBoundaries,
  MetricKey,
  type MetricKeyType,
  MetricLabel,
  Stream
} from "effect"
import type * as KubeError from "./kube/KubeError.js"
import type * as KubeRequest from "./kube/KubeRequest.js"
import type { KubeTransport } from "./kube/KubeTransport.js"

// 5 ms to about 40 s
const boundaries = MetricBoundaries.exponential({ start: 0.005, factor: 2, count: 14 })

/**
 * The metric of each set of labels, each made once: `Effect.tagMetrics` around an update would build and hash the labels of
 * every request anew. Labels have few values, so that what is kept is bounded.
 */
const labelled = <Type extends MetricKeyType.MetricKeyType.Untyped>(
  key: MetricKey.MetricKey<Type>,
  names: ReadonlyArray<string>
) => {
  const own = () => Metric.fromMetricKey(key)
  const made = new Map<string, ReturnType<typeof own>>()
  return (...values: ReadonlyArray<string>): ReturnType<typeof own> => {
    const id = values.join(" ")
    const known = made.get(id)
    if (known !== undefined) return known
    const labels = names.map((name, index) => MetricLabel.make(name, values[index] ?? ""))
    const metric = Metric.fromMetricKey(MetricKey.taggedWithLabels(key, labels))
    made.set(id, metric)
    return metric
  }
}

const requestsKey = MetricKey.counter("dispatch_kubeflow_requests_total", {
  description: "Requests to the Kubernetes API",
  incremental: true
})

/**
 * Requests by `verb`, `resource` (`pods/log`) and `outcome`: `ok`, or the tag of the error. A watch or a log counts when it
 * ends. Lists beyond the first of a type are re-lists of its watch.
 */
export const requests = Metric.fromMetricKey(requestsKey)
const requestsOf = labelled(requestsKey, ["verb", "resource", "outcome"])

const requestSecondsKey = MetricKey.histogram(
  "dispatch_kubeflow_request_seconds",
  boundaries,
  "Duration of calls to the Kubernetes API in seconds"
)

/** How long calls take, in seconds, by `verb` and `resource`. Watches and logs are not counted. */
export const requestSeconds = Metric.fromMetricKey(requestSecondsKey)
const requestSecondsOf = labelled(requestSecondsKey, ["verb", "resource"])

const operationSecondsKey = MetricKey.histogram(
  "dispatch_kubeflow_operation_seconds",
  boundaries,
  "Duration of the adapter's operations in seconds"
)

/** How long the adapter's questions take, in seconds, by `operation` and `outcome`. */
export const operationSeconds = Metric.fromMetricKey(operationSecondsKey)
const operationSecondsOf = labelled(operationSecondsKey, ["operation", "outcome"])

/** Gaps that output streams told. */
export const outputGaps = Metric.counter("dispatch_kubeflow_output_gaps_total", {
  description: "Places where output may be missing",
  incremental: true
})

const outcomeOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): string =>
  Exit.match(exit, {
    onSuccess: () => "ok",
    onFailure: (cause) =>
      cause._tag === "Fail" ? cause.error._tag : cause._tag === "Interrupt" ? "interrupted" : "fault"
  })

const resourceOf = ({ nonResourcePath, plural, subresource }: KubeRequest.KubeRequest): string =>
  nonResourcePath ?? (subresource === undefined ? plural : `${plural}/${subresource}`)

const count = (request: KubeRequest.KubeRequest, exit: Exit.Exit<unknown, KubeError.KubeError>): Effect.Effect<void> =>
  Metric.increment(requestsOf(request.verb, resourceOf(request), outcomeOf(exit)))

const timed = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  done: (seconds: number, exit: Exit.Exit<A, E>) => Effect.Effect<void>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.currentTimeMillis, (begun) =>
    Effect.onExit(effect, (exit) =>
      Effect.flatMap(Clock.currentTimeMillis, (ended) => done((ended - begun) / 1000, exit))
    )
  )

/** Counts and times what goes through a transport. */
export const transport = (inner: KubeTransport): KubeTransport => ({
  call: (request) =>
    timed(inner.call(request), (seconds, exit) =>
      Effect.zipRight(count(request, exit), Metric.update(requestSecondsOf(request.verb, resourceOf(request)), seconds))
    ),
  watch: (request) => Stream.ensuringWith(inner.watch(request), (exit) => count(request, exit)),
  bytes: (request) => Stream.ensuringWith(inner.bytes(request), (exit) => count(request, exit))
})

/** Times one of the adapter's questions. */
export const operation =
  (name: string) =>
  <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    timed(effect, (seconds, exit) => Metric.update(operationSecondsOf(name, outcomeOf(exit)), seconds))
