/**
 * Which permissions the programs use, what each is for, and asking for them (SelfSubjectAccessReview, one each).
 *
 * @module
 */
import { Effect } from "effect"
import type { AdapterConfig } from "./AdapterConfig.js"
import type { Review } from "./decide/Facts.js"
import type { Capability } from "./decide/Support.js"
import * as KubeApi from "./kube/KubeApi.js"

/** What a permission feeds: a capability, or one of the programs that is not a capability. */
export type Feeds = Capability | "Watch" | "Cessation"

/** One permission that the programs use. */
export interface Need {
  /** e.g. `get pods/log`. */
  readonly id: string
  readonly feeds: ReadonlyArray<Feeds>
  readonly attributes: KubeApi.AccessAttributes
  /** Without it something is told less precisely; nothing stops working. */
  readonly optional: boolean
}

/** The authorizer's answer to one need. */
export interface Outcome {
  readonly need: Need
  readonly review: Review
}

/** At most so many reviews are under way at once. */
export const concurrency = 16

const trainer = "trainer.kubeflow.org"
const kueueGroup = "kueue.x-k8s.io"

const need = (
  feeds: ReadonlyArray<Feeds>,
  verb: string,
  group: string,
  resource: string,
  where: {
    readonly namespace?: string
    readonly name?: string
    readonly subresource?: string
    readonly optional?: boolean
    /** Tells two needs of one verb and resource apart. */
    readonly tag?: string
  } = {}
): Need => ({
  id: `${verb} ${resource}${where.subresource === undefined ? "" : `/${where.subresource}`}${group === "" ? "" : `.${group}`}${where.tag === undefined ? "" : ` ${where.tag}`}`,
  feeds,
  attributes: {
    verb,
    group,
    resource,
    subresource: where.subresource,
    namespace: where.namespace,
    name: where.name
  },
  optional: where.optional ?? false
})

/** The three permissions that OutputRead and OutputFollow rest on. */
export const outputNeeds = (namespace: string): { readonly [K in "log" | "list" | "watch"]: Need } => ({
  // resource "pods", subresource "log": a role that grants "pods/logs", or "pods/*", grants nothing
  log: need(["OutputRead", "OutputFollow"], "get", "", "pods", { namespace, subresource: "log" }),
  list: need(["OutputRead", "OutputFollow", "Watch", "Cessation", "Hold"], "list", "", "pods", { namespace }),
  watch: need(["OutputFollow", "Watch"], "watch", "", "pods", { namespace })
})

/** Hold in Kueue mode writes `spec.active` with PUT, which is the verb update; patch does not stand in for it. */
export const updateWorkloads = (namespace: string): Need =>
  need(["Hold"], "update", kueueGroup, "workloads", { namespace })

/** PUT sends the whole object, so it is read first. */
export const getWorkloads = (namespace: string): Need => need(["Hold"], "get", kueueGroup, "workloads", { namespace })

/** Open, Hold and Release in plain mode. */
export const patchTrainJobs = (namespace: string): Need =>
  need(["Hold", "AttemptInjection"], "patch", trainer, "trainjobs", { namespace })

/** Every permission that the programs use under this configuration, each once. */
export const needs = (config: AdapterConfig): ReadonlyArray<Need> => {
  const { namespace, kueue } = config
  const output = outputNeeds(namespace)
  const follow = (group: string, resource: string): ReadonlyArray<Need> =>
    ["list", "watch"].map((verb) => need(["Watch"], verb, group, resource, { namespace }))
  return [
    output.log,
    output.list,
    output.watch,
    need(["OutputFollow", "Watch", "Cessation"], "get", "", "pods", { namespace }),
    need(["OutputRead", "OutputFollow", "Cessation"], "get", trainer, "trainjobs", { namespace }),
    ...follow(trainer, "trainjobs"),
    need(["OutputRead", "OutputFollow", "Cessation"], "get", "jobset.x-k8s.io", "jobsets", { namespace }),
    ...follow("jobset.x-k8s.io", "jobsets"),
    need(["OutputRead", "OutputFollow", "Watch", "Cessation"], "list", "batch", "jobs", { namespace }),
    need(["Watch"], "watch", "batch", "jobs", { namespace }),
    // Asked without a namespace: with one, a RoleBinding makes the answer true while the request itself is refused
    need(["Cessation", "Watch"], "get", "", "nodes"),
    need(["Cessation"], "get", "coordination.k8s.io", "leases", {
      namespace: "kube-node-lease",
      optional: true,
      tag: "of nodes"
    }),
    need(["Watch"], "list", "", "events", { namespace, optional: true }),
    need(["Watch"], "watch", "", "events", { namespace, optional: true }),
    need(["ProcsPerNode"], "get", trainer, "trainingruntimes", { namespace }),
    need(["ProcsPerNode"], "get", trainer, "clustertrainingruntimes"),
    ...(config.access === "read-only"
      ? []
      : [
          need(["Hold"], "list", trainer, "trainingruntimes", { namespace, optional: true }),
          need(["Hold"], "list", trainer, "clustertrainingruntimes", { optional: true }),
          need(["Hold"], "create", trainer, "trainjobs", { namespace }),
          patchTrainJobs(namespace),
          need(["Hold"], "delete", trainer, "trainjobs", { namespace }),
          ...(kueue === undefined ? [] : [getWorkloads(namespace), updateWorkloads(namespace)])
        ]),
    ...(kueue === undefined
      ? []
      : [
          ...follow(kueueGroup, "workloads"),
          need(["ReadmissionGate", "AttemptInjection"], "get", kueueGroup, "localqueues", {
            namespace,
            name: kueue.localQueue
          }),
          need(["ReadmissionGate", "AttemptInjection"], "get", kueueGroup, "clusterqueues"),
          need(["ReadmissionGate", "AttemptInjection"], "get", kueueGroup, "admissionchecks"),
          need(["ReadmissionGate", "AttemptInjection"], "get", "coordination.k8s.io", "leases", {
            namespace: kueue.lease.namespace,
            name: kueue.lease.name,
            tag: "of the check's controller"
          }),
          // Only needed where the ClusterQueue selects by labels other than the namespace's name
          need(["ReadmissionGate", "AttemptInjection"], "get", "", "namespaces", {
            namespace,
            name: namespace,
            optional: true
          })
        ])
  ]
}

const describe = ({ attributes }: Need): string => {
  const resource = `${attributes.resource}${attributes.subresource === undefined ? "" : `/${attributes.subresource}`}`
  const name = attributes.name === undefined ? "" : ` "${attributes.name}"`
  const group = attributes.group === "" ? "" : ` in API group "${attributes.group}"`
  const where = attributes.namespace === undefined ? " at cluster scope" : ` in namespace "${attributes.namespace}"`
  return `${attributes.verb} ${resource}${name}${group}${where}`
}

/** One line for people: `get pods/log in namespace "team-a"`. */
export const sentence = describe

/** What to grant. */
export const remedy = ({ attributes }: Need): string =>
  `grant verb "${attributes.verb}" on "${attributes.resource}${attributes.subresource === undefined ? "" : `/${attributes.subresource}`}" in API group "${attributes.group}" (${attributes.namespace === undefined ? "ClusterRole and ClusterRoleBinding" : `Role in namespace "${attributes.namespace}"`})`

const judge = (asked: Need, answer: KubeApi.AccessAnswer): Review => {
  if (answer.allowed) return { _tag: "Allowed" }
  // With an evaluation error a "false" only says that one authorizer could not be asked
  if (answer.evaluationError !== undefined) {
    return { _tag: "Errored", message: `whether one may ${describe(asked)} is not known: ${answer.evaluationError}` }
  }
  const refusal = `may not ${describe(asked)}${answer.reason === undefined ? "" : ` (${answer.reason})`}`
  return { _tag: "Denied", refusal, message: `${refusal}: ${remedy(asked)}` }
}

/** Asks one review. Never fails: a review that fails is an `Errored` answer, which is not a denial. */
export const askOne = Effect.fn("Access.askOne")(function* (api: KubeApi.Service, asked: Need) {
  const review: Review = yield* Effect.match(api.accessReview(asked.attributes), {
    onSuccess: (answer) => judge(asked, answer),
    onFailure: (error): Review => ({
      _tag: "Errored",
      message: `whether one may ${describe(asked)} is not known: ${error.message}`
    })
  })
  return { need: asked, review } satisfies Outcome
})

/** Asks one review per need, in parallel; answers in the order of the needs. */
export const ask = (api: KubeApi.Service, asked: ReadonlyArray<Need>): Effect.Effect<ReadonlyArray<Outcome>> =>
  Effect.forEach(asked, (it) => askOne(api, it), { concurrency })

/** All reviews of a configuration. */
export const review = Effect.fn("Access.review")(function* (config: AdapterConfig) {
  return yield* ask(yield* KubeApi.KubeApi, needs(config))
})

/** Outcomes per capability or program that they feed, in the order of first mention. */
export const grouped = (outcomes: ReadonlyArray<Outcome>): ReadonlyMap<Feeds, ReadonlyArray<Outcome>> => {
  const groups = new Map<Feeds, Array<Outcome>>()
  for (const outcome of outcomes) {
    for (const feeds of outcome.need.feeds) {
      const group = groups.get(feeds)
      if (group === undefined) groups.set(feeds, [outcome])
      else group.push(outcome)
    }
  }
  return groups
}

/** The answer to a need among outcomes; `NotAsked` where it was not. */
export const reviewOf = (outcomes: ReadonlyArray<Outcome>, id: string): Review =>
  outcomes.find((outcome) => outcome.need.id === id)?.review ?? { _tag: "NotAsked" }

/** What two permissions that are both needed come to. */
export const both = (first: Review, second: Review): Review =>
  first._tag === "Denied" || second._tag === "Allowed"
    ? first
    : second._tag === "Denied" || first._tag === "Allowed"
      ? second
      : first

const placeOf = ({ attributes }: Need): string =>
  attributes.namespace === undefined ? "cluster" : attributes.namespace

/** The reference page's table of every permission, as Markdown. */
export const markdown = (): string => {
  const namespace = "backend's namespace"
  const kueue = {
    localQueue: "the LocalQueue",
    admissionCheck: "the check",
    controllerName: "the controller",
    lease: { namespace: "controller's namespace", name: "the Lease" }
  }
  const base = { inPlaceRestarts: "refuse", outOfService: "always", holdProbe: "dry-run", namespace } as const
  const ids = (config: AdapterConfig): ReadonlySet<string> => new Set(needs(config).map(({ id }) => id))
  const readOnly = ids({ ...base, access: "read-only", kueue: undefined })
  const plain = ids({ ...base, access: "read-write", kueue: undefined })
  const readOnlyKueue = ids({ ...base, access: "read-only", kueue })
  const whenOf = (id: string): string =>
    readOnly.has(id) ? "always" : plain.has(id) ? "writing" : readOnlyKueue.has(id) ? "Kueue" : "Kueue, writing"
  return [
    "| permission | where | asked | feeds |",
    "|---|---|---|---|",
    ...needs({ ...base, access: "read-write", kueue }).map(
      (it) =>
        `| \`${it.id}\` | ${placeOf(it)} | ${whenOf(it.id)} | ${it.feeds.join(", ")}${it.optional ? " (optional)" : ""} |`
    )
  ].join("\n")
}
