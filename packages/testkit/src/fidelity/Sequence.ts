/**
 * Random sequences of operations: all verbs and options, good and bad input, several subjects. Sequences keep to what
 * no controller of a real cluster touches: Jobs and TrainJobs are managed by somebody else, pods are bound to a node
 * without a kubelet or to none, and propagation policies that the garbage collector would act on appear as dry runs only.
 *
 * @module
 */
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Dice from "../internal/Dice.js"
import * as Operation from "./Operation.js"

type Body = Readonly<Record<string, unknown>>

/** A kind that sequences play with. */
interface Kind {
  readonly type: KubeRequest.ResourceType
  readonly kind: string
  readonly apiVersion: string
  readonly names: ReadonlyArray<string>
  readonly custom: boolean
  readonly body: (dice: Dice.Dice) => Body
  /** Merge patches outside metadata that are fine, or fine in part. */
  readonly changes: (dice: Dice.Dice) => Body
  readonly fields: ReadonlyArray<string>
  /** A body that the type cannot hold. */
  readonly illTyped: ReadonlyArray<Body>
  readonly status: (dice: Dice.Dice) => Body | undefined
}

/** The node that pods of a sequence are bound to: it exists and has nothing that would start them. */
export const node = "zz-fidelity"

/** Pods with this name have a container `node` whose log both sides know. */
export const logPod = "l0"

/** What is in the log of `logPod`, as lines of the container runtime's format: time and text. */
export const logLines: ReadonlyArray<{ readonly time: string; readonly text: string }> = Array.from(
  { length: 6 },
  (_, index) => ({ time: `2026-01-01T00:00:0${index}.12${index}000000Z`, text: `line ${index} \u00e4\u6f22` })
)

const configMaps: Kind = {
  type: { group: "", version: "v1", plural: "configmaps" },
  kind: "ConfigMap",
  apiVersion: "v1",
  names: ["c0", "c1", "c2", "c3"],
  custom: false,
  body: (dice) => ({
    data: { k: dice.pick(["1", "2", "3"]), ...(dice.chance(0.3) ? { l: "x" } : {}) },
    ...(dice.chance(0.05) ? { immutable: true } : {})
  }),
  changes: (dice) =>
    dice.pick<Body>([
      { data: { k: dice.pick(["1", "2", "4"]) } },
      { data: { m: "y" } },
      { data: { l: null } },
      { data: null },
      { binaryData: { z: "AAE=" } },
      { immutable: true }
    ]),
  fields: ["metadata.name", "metadata.namespace", "spec.foo", "metadata.uid"],
  illTyped: [{ data: 3 }, { data: { a: 3 } }, { data: ["x"] }],
  status: () => undefined
}

const container = (name: string): Body => ({ name, image: "busybox:1" })

const pods: Kind = {
  type: { group: "", version: "v1", plural: "pods" },
  kind: "Pod",
  apiVersion: "v1",
  names: ["p0", "p1", "p2"],
  custom: false,
  body: (dice) => ({
    spec: {
      automountServiceAccountToken: false,
      ...(dice.chance(0.5) ? { nodeName: node } : { schedulerName: "nobody" }),
      ...(dice.chance(0.4) ? { restartPolicy: dice.pick(["Never", "OnFailure"]) } : {}),
      ...(dice.chance(0.3) ? { terminationGracePeriodSeconds: dice.pick([0, 1, 600]) } : {}),
      containers: [container("node"), ...(dice.chance(0.3) ? [container("side")] : [])]
    }
  }),
  changes: (dice) =>
    dice.pick<Body>([
      { spec: { activeDeadlineSeconds: dice.pick([100, 200]) } },
      { spec: { terminationGracePeriodSeconds: 7 } },
      { spec: { containers: [{ ...container("node"), image: "busybox:2" }] } },
      { spec: { nodeName: "other" } }
    ]),
  fields: [
    "metadata.name",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "metadata.uid",
    "spec.foo"
  ],
  illTyped: [{ spec: { containers: [{ name: 3 }] } }, { spec: "x" }],
  status: (dice) =>
    dice.pick<Body>([
      { reason: dice.pick(["A", "B"]) },
      { message: "m" },
      {
        conditions: [
          {
            type: dice.pick(["X", "Y"]),
            status: dice.pick(["True", "False"]),
            lastTransitionTime: "2026-01-01T00:00:00Z"
          }
        ]
      },
      { phase: dice.pick(["Failed", "Succeeded"]) }
    ])
}

const jobs: Kind = {
  type: { group: "batch", version: "v1", plural: "jobs" },
  kind: "Job",
  apiVersion: "batch/v1",
  names: ["j0", "j1"],
  custom: false,
  body: (dice) => ({
    spec: {
      managedBy: "fidelity.example/nobody",
      ...(dice.chance(0.5) ? { suspend: true } : {}),
      ...(dice.chance(0.4) ? { completionMode: "Indexed", completions: 2, parallelism: dice.pick([1, 2]) } : {}),
      ...(dice.chance(0.3) ? { backoffLimit: 0 } : {}),
      template: { spec: { restartPolicy: dice.pick(["Never", "OnFailure"]), containers: [container("node")] } }
    }
  }),
  changes: (dice) =>
    dice.pick<Body>([
      { spec: { suspend: dice.chance(0.5) } },
      { spec: { parallelism: dice.pick([0, 1, 2, 3, -1]) } },
      { spec: { completions: dice.pick([1, 2, 3]) } },
      { spec: { backoffLimit: dice.pick([0, 3]) } },
      { spec: { activeDeadlineSeconds: 10 } },
      { spec: { managedBy: "fidelity.example/other" } }
    ]),
  fields: ["metadata.name", "status.successful", "spec.suspend", "metadata.uid"],
  illTyped: [{ spec: { parallelism: "x" } }],
  status: (dice) =>
    dice.pick<Body>([
      { active: dice.pick([0, 1, -1]) },
      { failed: 1 },
      { succeeded: dice.pick([1, 2]) },
      { active: 2, ready: dice.pick([1, 3]) }
    ])
}

const trainJobs: Kind = {
  type: { group: "trainer.kubeflow.org", version: "v1alpha1", plural: "trainjobs" },
  kind: "TrainJob",
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  names: ["t0", "t1"],
  custom: true,
  body: (dice) => ({
    spec: {
      managedBy: "kueue.x-k8s.io/multikueue",
      suspend: true,
      runtimeRef: { name: "torch-distributed" },
      ...(dice.chance(0.4) ? { trainer: { numNodes: dice.pick([1, 2]), image: "busybox:1" } } : {}),
      ...(dice.chance(0.2) ? { activeDeadlineSeconds: 60 } : {})
    }
  }),
  changes: (dice) =>
    dice.pick<Body>([
      { spec: { suspend: dice.chance(0.5) } },
      { spec: { trainer: { numNodes: dice.pick([1, 2, 3]) } } },
      { spec: { activeDeadlineSeconds: dice.pick([60, 70]) } },
      { spec: { managedBy: "trainer.kubeflow.org/trainjob-controller" } },
      { spec: { runtimeRef: { name: "jax-distributed" } } }
    ]),
  fields: ["metadata.name", "metadata.namespace", "spec.suspend"],
  illTyped: [{ spec: { suspend: "string", runtimeRef: { name: "torch-distributed" } } }],
  status: (dice) =>
    dice.pick<Body>([
      {
        conditions: [
          {
            type: "Suspended",
            status: dice.pick(["True", "False"]),
            reason: "Said",
            message: "so",
            lastTransitionTime: "2026-01-01T00:00:00Z"
          }
        ]
      },
      { jobsStatus: [{ name: "node", ready: 1, succeeded: 0, failed: 0, active: 0, suspended: 0 }] }
    ])
}

const kinds: ReadonlyArray<Kind> = [configMaps, pods, jobs, trainJobs]

/** The types that a sequence may leave objects of. */
export const types: ReadonlyArray<KubeRequest.ResourceType> = kinds.map(({ type }) => type)

/** Those of them that a sequence writes to. */
export const touched = (sequence: ReadonlyArray<Operation.Operation>): ReadonlyArray<KubeRequest.ResourceType> => {
  const written = new Set(
    sequence.flatMap(({ request }) =>
      request.verb === "create" || request.patchType === "apply" ? [`${request.group}/${request.plural}`] : []
    )
  )
  return types.filter(({ group, plural }) => written.has(`${group}/${plural}`))
}

/** Whether a sequence makes its other namespace. */
export const makesNamespace = (sequence: ReadonlyArray<Operation.Operation>): boolean =>
  sequence.some(({ request }) => request.verb === "create" && request.plural === "namespaces")

const kindOf = (dice: Dice.Dice): Kind =>
  dice.weighted([
    [5, configMaps],
    [4, pods],
    [2, jobs],
    [3, trainJobs]
  ])

/** Mostly a kind of which there is something. */
const usefulKind = (memory: Memory): Kind =>
  memory.seen.length > 0 && memory.dice.chance(0.7) ? memory.dice.pick(memory.seen).kind : kindOf(memory.dice)

// ---- roles ----------------------------------------------------------------------------------------------------------

const verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

const some = <A>(dice: Dice.Dice, items: ReadonlyArray<A>, probability: number): ReadonlyArray<A> => {
  const chosen = items.filter(() => dice.chance(probability))
  return chosen.length === 0 ? [dice.pick(items)] : chosen
}

/** How many service accounts sequences act as. */
export const subjects = ["s0", "s1", "s2", "s3", "s4", "s5"] as const

const rule = (dice: Dice.Dice): Body => {
  const resources = some(
    dice,
    ["configmaps", "pods", "pods/log", "pods/status", "pods/*", "jobs", "trainjobs", "trainjobs/status", "*/log", "*"],
    0.3
  )
  return {
    apiGroups: dice.chance(0.5) ? ["", "batch", "trainer.kubeflow.org"] : some(dice, ["", "batch", "*"], 0.4),
    resources,
    verbs: dice.chance(0.15) ? ["*"] : some(dice, verbs, 0.5),
    ...(dice.chance(0.25) ? { resourceNames: some(dice, ["c0", "p0", "l0", "t0", "j0"], 0.4) } : {})
  }
}

/** The objects that give the subjects of a seed their permissions. Some bindings name a role that does not exist. */
export const roles = (seed: number): ReadonlyArray<Body> => {
  const dice = Dice.make(Dice.mix(seed, 7))
  return subjects.flatMap((subject) => {
    const role = `role-${subject}`
    const binding = (name: string, roleName: string): Body => ({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: roleName },
      subjects: [{ kind: "ServiceAccount", name: subject, namespace: Operation.namespace }]
    })
    return [
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: subject } },
      {
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        metadata: { name: role },
        rules: Array.from({ length: 1 + dice.below(3) }, () => rule(dice))
      },
      binding(`bind-${subject}`, role),
      ...(dice.chance(0.2) ? [binding(`dangling-${subject}`, "no-such-role")] : [])
    ]
  })
}

// ---- operations -----------------------------------------------------------------------------------------------------

interface Memory {
  readonly dice: Dice.Dice
  readonly deletesNamespace: boolean
  readonly id: string
  /** Steps that answered an object of a kind (if all went well), and its name. */
  readonly seen: ReadonlyArray<{ readonly id: string; readonly kind: Kind; readonly name: string }>
  /** Steps that answered a list, perhaps with a token. */
  readonly pages: ReadonlyArray<{
    readonly id: string
    readonly kind: Kind
    readonly query: Readonly<Record<string, string>>
  }>
}

interface Made {
  readonly request: KubeRequest.KubeRequest
  readonly as?: string
  readonly object?: { readonly kind: Kind; readonly name: string }
  readonly page?: { readonly kind: Kind; readonly query: Readonly<Record<string, string>> }
}

const hold = "fidelity.example/hold"

const metadata = (dice: Dice.Dice, name: string): Body => ({
  name,
  ...(dice.chance(0.7)
    ? { labels: { a: dice.pick(["x", "y", "z"]), ...(dice.chance(0.5) ? { n: dice.pick(["1", "5", "12"]) } : {}) } }
    : {}),
  ...(dice.chance(0.2) ? { annotations: { "fidelity.example/note": dice.pick(["one", "two"]) } } : {}),
  ...(dice.chance(0.15) ? { finalizers: [hold] } : {})
})

const full = (dice: Dice.Dice, kind: Kind, name: string): Body => {
  const meta = metadata(dice, name)
  return {
    apiVersion: kind.apiVersion,
    kind: kind.kind,
    // The labels that a Job without its own ones shows are not stored until its first update
    metadata: kind === jobs ? { labels: { a: "x" }, ...meta } : meta,
    ...kind.body(dice)
  }
}

const withMetadata = (body: Body, more: Body): Body => ({
  ...body,
  metadata: { ...(body["metadata"] as Body), ...more }
})

/** A name that was created, as far as can be told; now and then one that was not. */
const nameOf = (memory: Memory, kind: Kind): string => {
  const { dice, seen } = memory
  const known = seen.filter((entry) => entry.kind === kind)
  return dice.chance(0.06)
    ? "nope"
    : known.length > 0 && dice.chance(0.75)
      ? dice.pick(known).name
      : dice.pick(kind.names)
}

/** A step that answered an object of this kind; a step that does not exist when none did. */
const stepOf = (memory: Memory, kind: Kind, name?: string): string => {
  const fitting = memory.seen.filter((entry) => entry.kind === kind && (name === undefined || entry.name === name))
  return fitting.length === 0 ? "o0" : memory.dice.pick(fitting).id
}

const place = (dice: Dice.Dice): string => (dice.chance(0.02) ? Operation.missingNamespace : Operation.namespace)

const writeQuery = (dice: Dice.Dice): Readonly<Record<string, string>> => ({
  ...(dice.chance(0.12)
    ? {
        dryRun: dice.weighted([
          [8, "All"],
          [1, "true"],
          [1, ""]
        ])
      }
    : {}),
  ...(dice.chance(0.1)
    ? {
        fieldManager: dice.weighted([
          [8, "tester"],
          [1, "x".repeat(129)]
        ])
      }
    : {}),
  ...(dice.chance(0.12)
    ? {
        fieldValidation: dice.weighted([
          [6, "Strict"],
          [4, "Ignore"],
          [4, "Warn"],
          [1, "Bogus"],
          [1, ""]
        ])
      }
    : {})
})

/** Merge patches that name a field that the type does not have. */
const strangers = (kind: Kind): ReadonlyArray<Body> => [
  { bogus: 1 },
  { metadata: { zz: 1 } },
  { metadata: { ownerRefs: [] } },
  ...(kind === configMaps ? [{ immutible: true }] : [{ spec: { zeta: { a: 1 } } }, { status: { nix: 1 } }])
]

/** An applied body with one field that the type does not have: of several, a real server names any. */
const withStranger = (dice: Dice.Dice, kind: Kind, body: Body): Body =>
  kind === configMaps || dice.chance(0.4)
    ? dice.pick([{ ...body, bogus: 1 }, withMetadata(body, { zz: 1 })])
    : { ...body, spec: { ...(body["spec"] as Body), zeta: 1 } }

/** The body with a field or two that the type does not have, at the top, in the metadata, or deep inside. */
const withStrangers = (dice: Dice.Dice, kind: Kind, body: Body): Body => {
  const meta = withMetadata(body, { zz: 1, ...(dice.chance(0.5) ? { aa: "x" } : {}) })
  const spec = body["spec"] as Body | undefined
  const top = { ...body, bogus: 1, ...(dice.chance(0.5) ? { aa: [1] } : {}) }
  if (spec === undefined) return dice.pick([meta, top])
  const inSpec = { ...body, spec: { zeta: 1, ...spec, ...(dice.chance(0.5) ? { alpha: {} } : {}) } }
  const deep =
    kind === pods
      ? {
          ...spec,
          containers: (spec["containers"] as ReadonlyArray<Body>).map((entry) => ({
            ...entry,
            zed: 1,
            resources: { limit: {} }
          }))
        }
      : kind === jobs
        ? { ...spec, template: { ...(spec["template"] as Body), foo: 1 } }
        : { ...spec, trainer: { numNode: 1, image: "busybox:1", env: [{ name: "A", valu: "1" }] } }
  return dice.pick([meta, top, inSpec, { ...body, spec: deep }, { ...top, spec: deep }])
}

const long = "v".repeat(64)

const spoiled = (dice: Dice.Dice, kind: Kind, body: Body): unknown =>
  dice.pick<() => unknown>([
    () => ({ ...body, kind: "Foo" }),
    () => ({ ...body, apiVersion: "v2" }),
    () => Object.fromEntries(Object.entries(body).filter(([key]) => key !== "kind")),
    () => Object.fromEntries(Object.entries(body).filter(([key]) => key !== "apiVersion")),
    () => withMetadata(body, { name: "Bad_Name" }),
    () => withMetadata(body, { name: kind === jobs ? "a".repeat(64) : "a".repeat(254) }),
    () => withMetadata(body, { name: "a..b" }),
    () => withMetadata(body, { name: "" }),
    () => withMetadata(body, { labels: { a: long } }),
    () => withMetadata(body, { labels: { "bad key": "x" } }),
    () => withMetadata(body, { labels: { a: "-x" } }),
    () => withMetadata(body, { labels: { [`${long}/a`]: "x" } }),
    () => withMetadata(body, { annotations: { "a b": "x" } }),
    () => withMetadata(body, { finalizers: ["nodomain"] }),
    () => withMetadata(body, { finalizers: ["bad domain/x"] }),
    () => withMetadata(body, { namespace: "elsewhere" }),
    () => withMetadata(body, { resourceVersion: "1" }),
    () => withMetadata(body, { generateName: "Bad_", name: undefined }),
    () => withMetadata(body, { ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "c0", uid: "" }] }),
    () => withMetadata(body, { ownerReferences: [{ apiVersion: "", kind: "", name: "", uid: "x" }] }),
    () =>
      withMetadata(body, {
        ownerReferences: ["a", "b"].map((name) => ({
          apiVersion: "v1",
          kind: "ConfigMap",
          name,
          uid: name,
          controller: true
        }))
      }),
    () => ({ ...body, ...dice.pick(kind.illTyped) }),
    () => ({ ...body, metadata: { name: 3 } }),
    () => (kind === configMaps && dice.chance(0.5) ? { ...body, data: { k: "x".repeat(1_048_577) } } : ["x"]),
    () => 3
  ])()

const create = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = dice.pick(kind.names)
  const plain = full(dice, kind, name)
  const body = dice.chance(0.08) ? withStrangers(dice, kind, plain) : plain
  return {
    object: { kind, name },
    request: KubeRequest.make("create", kind.type, { namespace: place(dice), query: writeQuery(dice), body })
  }
}

const createGenerated = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const base = `g${memory.id}-`
  const body = withMetadata(full(dice, kind, ""), { name: undefined, generateName: base })
  return {
    object: { kind, name: Operation.name(memory.id) },
    request: KubeRequest.make("create", kind.type, { namespace: Operation.namespace, body, query: writeQuery(dice) })
  }
}

const createBad = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  return {
    request: KubeRequest.make("create", kind.type, {
      namespace: Operation.namespace,
      body: spoiled(dice, kind, full(dice, kind, nameOf(memory, kind)))
    })
  }
}

const versionOf = (memory: Memory, kind: Kind): string => {
  const { dice } = memory
  return dice.weighted<string>([
    [8, Operation.version(stepOf(memory, kind))],
    [4, "0"],
    [1, "1"],
    [1, "abc"],
    [0.5, "-1"],
    [0.1, "999999999999"]
  ])
}

const get = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = dice.chance(0.05) ? "Bad_Name" : nameOf(memory, kind)
  return {
    object: { kind, name },
    request: KubeRequest.make("get", kind.type, {
      namespace: place(dice),
      name,
      subresource: dice.chance(0.08) ? dice.pick(["status", "nope"]) : undefined,
      query: dice.chance(0.15) ? { resourceVersion: versionOf(memory, kind) } : {}
    })
  }
}

const labelSelectors = [
  "a=x",
  "a==x",
  "a!=x",
  "a in (x,y)",
  "a notin (x)",
  "a",
  "!a",
  "n>4",
  "n<6",
  "a=x,n",
  "a in ()",
  "a==",
  "a=x,!n",
  "zz",
  "",
  "a in (x, y),n notin (1)"
]
const badLabelSelectors = [
  "a===x",
  "a=b c",
  `a=${long}`,
  "a>bad",
  "a in x",
  "a in (x",
  "=x",
  "a,",
  ",a",
  "a b",
  "!",
  "bad key=x",
  "a=-x",
  `${long}=x`,
  "a in (x y)",
  "a>1,b<x"
]

const selectors = (memory: Memory, kind: Kind): Readonly<Record<string, string>> => {
  const { dice } = memory
  const field = dice.pick(kind.fields)
  const value = dice.weighted([
    [3, dice.pick(kind.names)],
    [1, node],
    [1, "Never"],
    [1, ""],
    [1, "Pending"],
    [0.5, "0"],
    [0.5, Operation.namespace]
  ])
  return {
    ...(dice.chance(0.45)
      ? { labelSelector: dice.chance(0.12) ? dice.pick(badLabelSelectors) : dice.pick(labelSelectors) }
      : {}),
    ...(dice.chance(0.3)
      ? {
          fieldSelector: dice.weighted<string>([
            [8, `${field}${dice.pick(["=", "==", "!="])}${value}`],
            [1, `metadata.name=${dice.pick(kind.names)},metadata.namespace=x`],
            [0.3, "nonsense"],
            [0.3, "a=b=c"],
            [0.3, ""]
          ])
        }
      : {})
  }
}

const list = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const query = {
    ...selectors(memory, kind),
    ...(dice.chance(0.5)
      ? {
          limit: dice.weighted([
            [8, "1"],
            [8, "2"],
            [1, "0"],
            [1, "-1"],
            [1, "x"],
            [3, "100"]
          ])
        }
      : {}),
    ...(dice.chance(0.25) ? { resourceVersion: versionOf(memory, kind) } : {}),
    ...(dice.chance(0.15)
      ? {
          resourceVersionMatch: dice.weighted([
            [4, "Exact"],
            [4, "NotOlderThan"],
            [1, "Bogus"],
            [1, ""]
          ])
        }
      : {}),
    ...(dice.chance(0.03) ? { sendInitialEvents: "true" } : {}),
    ...(dice.chance(0.03) ? { timeoutSeconds: dice.pick(["x", "5"]) } : {})
  }
  return {
    page: { kind, query },
    request: KubeRequest.make("list", kind.type, { namespace: place(dice), query })
  }
}

const nextPage = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  if (memory.pages.length === 0) return list(memory, kind)
  const page = dice.pick(memory.pages)
  const { resourceVersion: _, resourceVersionMatch: __, sendInitialEvents: ___, ...rest } = page.query
  const query = {
    ...rest,
    ...(dice.chance(0.2) ? { limit: dice.pick(["1", "3"]) } : {}),
    ...(dice.chance(0.05) ? { resourceVersion: versionOf(memory, page.kind) } : {}),
    ...(dice.chance(0.05) ? { resourceVersionMatch: "NotOlderThan" } : {}),
    continue: dice.weighted<string>([
      [20, Operation.token(page.id)],
      [0.5, "garbage"],
      [0.5, "!!!"],
      [0.5, "eyJ2IjoidjAiLCJydiI6MSwic3RhcnQiOiJ4In0"],
      [0.5, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiIvYTAwIn0"],
      [0.5, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYTAwIn0"],
      [0.5, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiL2EwMCJ9"]
    ])
  }
  return {
    page: { kind: page.kind, query },
    request: KubeRequest.make("list", page.kind.type, { namespace: Operation.namespace, query })
  }
}

const watch = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const from = dice.weighted<Readonly<Record<string, string>>>([
    [10, { resourceVersion: Operation.version(stepOf(memory, kind)) }],
    [3, { allowWatchBookmarks: "true" }],
    [3, { resourceVersion: "0", allowWatchBookmarks: "true" }],
    [
      3,
      {
        sendInitialEvents: "true",
        resourceVersionMatch: "NotOlderThan",
        allowWatchBookmarks: "true",
        ...(dice.chance(0.5) ? { resourceVersion: dice.pick(["0", Operation.version(stepOf(memory, kind))]) } : {})
      }
    ],
    [1, { resourceVersion: "1" }],
    [1, { resourceVersion: "abc" }],
    [0.5, { resourceVersion: "999999999999" }],
    [0.5, { sendInitialEvents: "true" }],
    [0.5, { resourceVersionMatch: "NotOlderThan" }],
    [0.5, { resourceVersionMatch: "Exact", resourceVersion: "0" }],
    [0.5, { continue: "garbage" }],
    [0.5, { timeoutSeconds: "x" }],
    [0.4, { timeoutSeconds: "1", resourceVersion: Operation.version(stepOf(memory, kind)) }],
    [0.3, { timeoutSeconds: "1", resourceVersion: "0", allowWatchBookmarks: "true" }],
    [0.5, { timeoutSeconds: "600", resourceVersion: Operation.version(stepOf(memory, kind)) }],
    [
      0.5,
      {
        sendInitialEvents: "false",
        resourceVersionMatch: "NotOlderThan",
        resourceVersion: Operation.version(stepOf(memory, kind))
      }
    ]
  ])
  return {
    request: KubeRequest.make("watch", kind.type, {
      namespace: place(dice),
      query: { ...selectors(memory, kind), ...from }
    })
  }
}

const update = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = nameOf(memory, kind)
  const step = stepOf(memory, kind, name)
  const status = dice.chance(0.2) ? kind.status(dice) : undefined
  let body = full(dice, kind, dice.chance(0.04) ? "other" : name)
  if (status !== undefined) body = { ...body, status }
  if (dice.chance(kind.custom ? 0.9 : 0.6)) {
    body = withMetadata(body, {
      resourceVersion: dice.weighted<string>([
        [12, Operation.version(step)],
        [1, "abc"],
        [1, "0"],
        [1, "1"]
      ])
    })
  }
  if (dice.chance(0.1)) body = withMetadata(body, { uid: dice.chance(0.5) ? Operation.uid(step) : "abc" })
  if (dice.chance(0.03)) body = withMetadata(body, { name: undefined })
  return {
    object: { kind, name },
    request: KubeRequest.make("update", kind.type, {
      namespace: Operation.namespace,
      name,
      subresource: status !== undefined && dice.chance(0.8) ? "status" : undefined,
      query: writeQuery(dice),
      body: dice.chance(0.08) ? spoiled(dice, kind, body) : dice.chance(0.08) ? withStrangers(dice, kind, body) : body
    })
  }
}

const metadataChanges = (memory: Memory, step: string): Body => {
  const { dice } = memory
  return dice.weighted<Body>([
    [4, { labels: { a: dice.pick(["x", "y", "z"]) } }],
    [2, { labels: { a: null } }],
    [2, { labels: null }],
    [2, { annotations: { "fidelity.example/note": dice.pick(["one", "three"]) } }],
    [3, { finalizers: null }],
    [2, { finalizers: [hold] }],
    [1, { finalizers: [hold, "fidelity.example/more"] }],
    [1, { finalizers: ["nodomain"] }],
    [1, { labels: { a: long } }],
    [1, { resourceVersion: dice.pick([Operation.version(step), "1", "abc", ""]) }],
    [0.5, { resourceVersion: null }],
    [0.5, { uid: dice.pick([Operation.uid(step), "abc"]) }],
    [0.5, { name: "other" }],
    [0.5, { namespace: "other" }],
    [0.5, { deletionTimestamp: dice.pick([null, "2026-01-01T00:00:00Z"]) }],
    [0.5, { creationTimestamp: "2020-01-01T00:00:00Z" }],
    [0.5, { generation: 77 }],
    [0.5, { generateName: "x-" }]
  ])
}

const mergePatch = (memory: Memory, kind: Kind, step: string): unknown => {
  const { dice } = memory
  return dice.weighted<() => unknown>([
    [6, () => ({ metadata: metadataChanges(memory, step) })],
    [6, () => kind.changes(dice)],
    [1, () => ({ metadata: metadataChanges(memory, step), ...kind.changes(dice) })],
    [0.5, () => ({})],
    [1.2, () => dice.pick(strangers(kind))],
    [0.4, () => ["x"]],
    [0.4, () => 3],
    [0.4, () => dice.pick(kind.illTyped)],
    [0.3, () => ({ kind: "Foo" })],
    [0.3, () => ({ apiVersion: "v9" })],
    [0.3, () => ({ metadata: null })]
  ])()
}

const jsonPatch = (memory: Memory, kind: Kind, step: string): unknown => {
  const { dice } = memory
  const own = kind === configMaps ? "/data/k" : kind === pods ? "/spec/nodeName" : "/spec/suspend"
  const path = dice.pick(["/metadata/labels/a", "/metadata/annotations/n", "/metadata/labels", own, own])
  return dice.weighted<() => unknown>([
    [4, () => [{ op: "add", path: "/metadata/labels", value: { a: dice.pick(["x", "y"]) } }]],
    [2, () => [{ op: "add", path, value: dice.pick<unknown>(["v", true, { a: "q" }]) }]],
    [2, () => [{ op: "replace", path, value: dice.pick<unknown>(["v", true]) }]],
    [2, () => [{ op: "remove", path }]],
    [
      2,
      () => [
        { op: "test", path: "/metadata/name", value: dice.pick(kind.names) },
        { op: "add", path: "/metadata/labels", value: { a: "z" } }
      ]
    ],
    [
      1,
      () => [
        { op: "test", path: "/metadata/resourceVersion", value: Operation.version(step) },
        { op: "add", path: "/metadata/labels", value: { a: "y" } }
      ]
    ],
    [0.6, () => [{ op: "copy", from: "/metadata/name", path: "/metadata/labels/a" }]],
    [0.6, () => [{ op: "move", from: "/metadata/labels/a", path: "/metadata/labels/b" }]],
    [0.6, () => [{ op: "add", path: "/metadata/finalizers", value: [] }]],
    [0.6, () => [{ op: "add", path: "/metadata/finalizers/-", value: hold }]],
    [0.6, () => [{ op: "add", path: dice.pick(["/bogus", "/metadata/zz", "/spec/zeta"]), value: 1 }]],
    [0.4, () => [{ op: "add", path: "/metadata/labels", value: { a: "x" }, note: "n" }]],
    [0.5, () => [{ op: "bogus", path: "/metadata/labels" }]],
    [0.5, () => [{ op: "replace", path: "/metadata/name", value: "other" }]],
    [0.4, () => ({ op: "add" })],
    [0.3, () => []],
    [0.3, () => ["x"]]
  ])()
}

const strategicPatch = (memory: Memory, kind: Kind, step: string): unknown => {
  const { dice } = memory
  if (kind === pods && dice.chance(0.3)) {
    return dice.pick<unknown>([
      { spec: { containers: [{ name: "node", image: "busybox:3" }] } },
      { metadata: { finalizers: ["fidelity.example/other"] } },
      { metadata: { "$deleteFromPrimitiveList/finalizers": [hold] } },
      { metadata: { labels: { $patch: "replace", q: "r" } } },
      { spec: { tolerations: [{ key: "k", operator: "Exists" }] } }
    ])
  }
  return mergePatch(memory, kind, step)
}

const applyBody = (memory: Memory, kind: Kind, name: string): unknown => {
  const { dice } = memory
  const body: Body = {
    apiVersion: kind.apiVersion,
    kind: kind.kind,
    metadata: {
      name,
      ...(kind === jobs || dice.chance(0.6) ? { labels: { a: dice.pick(["x", "y"]) } } : {}),
      ...(dice.chance(0.2) ? { finalizers: [hold] } : {})
    },
    ...(kind === configMaps ? { data: { [dice.pick(["k", "l"])]: dice.pick(["1", "2"]) } } : kind.body(dice))
  }
  return dice.weighted<() => unknown>([
    [12, () => body],
    [1, () => ({ metadata: {} })],
    [1, () => withMetadata(body, { name: "other" })],
    [1, () => withMetadata(body, { managedFields: [] })],
    [1, () => withMetadata(body, { name: undefined })],
    [1.2, () => withStranger(dice, kind, body)],
    [0.5, () => withMetadata(body, { resourceVersion: "1" })]
  ])()
}

const patch = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = nameOf(memory, kind)
  const step = stepOf(memory, kind, name)
  const patchType = dice.weighted<KubeRequest.PatchType>([
    [6, "merge"],
    [4, "json"],
    [3, "strategic"],
    [4, "apply"]
  ])
  const status = dice.chance(0.15) ? kind.status(dice) : undefined
  const onStatus = status !== undefined
  const body = onStatus
    ? patchType === "json"
      ? [{ op: dice.pick(["add", "replace"]), path: "/status", value: status }]
      : patchType === "apply"
        ? { apiVersion: kind.apiVersion, kind: kind.kind, metadata: { name }, status }
        : { status }
    : patchType === "merge"
      ? mergePatch(memory, kind, step)
      : patchType === "json"
        ? jsonPatch(memory, kind, step)
        : patchType === "strategic"
          ? strategicPatch(memory, kind, step)
          : applyBody(memory, kind, name)
  return {
    object: { kind, name },
    request: KubeRequest.make("patch", kind.type, {
      namespace: Operation.namespace,
      name,
      subresource: onStatus && dice.chance(0.8) ? "status" : undefined,
      query: {
        ...writeQuery(dice),
        ...(patchType === "apply" && dice.chance(0.93) ? { fieldManager: dice.pick(["m1", "m2"]) } : {}),
        ...(patchType === "apply" && dice.chance(0.4) ? { force: "true" } : {}),
        ...(patchType !== "apply" && dice.chance(0.02) ? { force: "true" } : {})
      },
      body,
      patchType
    })
  }
}

const deleteBody = (memory: Memory, step: string, dryRun: boolean): Body => {
  const { dice } = memory
  return {
    apiVersion: "v1",
    kind: "DeleteOptions",
    ...(dryRun ? { dryRun: ["All"] } : {}),
    propagationPolicy: dryRun ? dice.pick(["Background", "Foreground", "Orphan"]) : "Background",
    ...(dice.chance(0.3)
      ? {
          preconditions: dice.pick<Body>([
            { uid: Operation.uid(step) },
            { uid: "abc" },
            { resourceVersion: Operation.version(step) },
            { uid: Operation.uid(step), resourceVersion: "1" }
          ])
        }
      : {}),
    ...(dice.chance(0.3) ? { gracePeriodSeconds: dice.pick([0, 1, 5, 40]) } : {})
  }
}

const badDeleteBody = (dice: Dice.Dice): unknown =>
  dice.pick<unknown>([
    { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Bogus" },
    { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background", orphanDependents: false },
    { kind: "DeleteOptions", apiVersion: "v1", dryRun: ["true"] },
    { kind: "Foo", apiVersion: "v1" },
    ["x"]
  ])

const remove = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = nameOf(memory, kind)
  const step = stepOf(memory, kind, name)
  const dryRun = dice.chance(0.15)
  // A Job deleted without a policy is orphaned, which the garbage collector finishes at some moment
  const policy = kind === jobs ? { propagationPolicy: "Background" } : {}
  return dice.weighted<() => Made>([
    [
      3,
      () => ({
        request: KubeRequest.make("delete", kind.type, {
          namespace: place(dice),
          name,
          query: {
            ...(dryRun ? { dryRun: "All", propagationPolicy: dice.pick(["Foreground", "Orphan"]) } : policy),
            ...(dice.chance(0.2) ? { gracePeriodSeconds: dice.pick(["0", "3", "x"]) } : {})
          }
        })
      })
    ],
    [
      5,
      () => ({
        request: KubeRequest.make("delete", kind.type, {
          namespace: Operation.namespace,
          name,
          body: deleteBody(memory, step, dryRun)
        })
      })
    ],
    [
      0.7,
      () => ({
        request: KubeRequest.make("delete", kind.type, {
          namespace: Operation.namespace,
          name,
          body: badDeleteBody(dice)
        })
      })
    ]
  ])()
}

const removeMany = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const dryRun = dice.chance(0.2)
  return {
    request: KubeRequest.make("deletecollection", kind.type, {
      namespace: Operation.namespace,
      query: {
        // The config map that every namespace has carries no labels, and must stay: it would be written anew
        labelSelector: dice.weighted([
          [4, "a=x"],
          [3, "a in (x,y)"],
          [2, "a"],
          [1, "zz"],
          [0.5, "a==="]
        ]),
        ...(dice.chance(0.1) ? { fieldSelector: `metadata.name=${dice.pick(kind.names)}` } : {})
      },
      body: dice.chance(0.06)
        ? badDeleteBody(dice)
        : {
            apiVersion: "v1",
            kind: "DeleteOptions",
            propagationPolicy: dryRun ? dice.pick(["Background", "Orphan"]) : "Background",
            ...(dryRun ? { dryRun: ["All"] } : {}),
            ...(dice.chance(0.2) ? { gracePeriodSeconds: dice.pick([0, 1, 40]) } : {}),
            ...(dice.chance(0.1) ? { preconditions: { uid: "abc" } } : {})
          }
    })
  }
}

const namespaces: KubeRequest.ResourceType = { group: "", version: "v1", plural: "namespaces" }

/** The life of namespaces: the run's own one only in dry runs, another one in earnest. */
const namespaceStep = (memory: Memory): Made => {
  const { dice } = memory
  const own = { name: Operation.namespace }
  const other = { name: Operation.otherNamespace }
  // The finalizer keeps it, so that it is Terminating until the sequence ends
  const body = {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { ...other, labels: { a: "x" }, finalizers: [hold] }
  }
  const dry = { dryRun: "All" }
  const made = (verb: KubeRequest.Verb, more: Parameters<typeof KubeRequest.make>[2]): Made => ({
    request: KubeRequest.make(verb, namespaces, more)
  })
  return dice.weighted<() => Made>([
    [1, () => made("create", { body: withMetadata(body, { name: "Bad_Name" }) })],
    [1, () => made("create", { body: withMetadata(body, { name: "a.b" }) })],
    [1, () => made("create", { body, query: dry })],
    [2, () => made("create", { body, query: writeQuery(dice) })],
    [1, () => made("create", { body: withMetadata(body, own), query: dry })],
    [2, () => made("get", own)],
    [1, () => made("get", { name: Operation.missingNamespace })],
    [1, () => made("list", { query: { fieldSelector: `metadata.name=${Operation.namespace}` } })],
    [1, () => made("list", { query: { fieldSelector: "spec.foo=x" } })],
    [
      1,
      () => made("patch", { ...own, query: dry, patchType: "merge", body: { metadata: metadataChanges(memory, "o0") } })
    ],
    [
      1,
      () =>
        made("patch", {
          ...own,
          query: { ...dry, fieldManager: "m1" },
          patchType: "apply",
          body: { apiVersion: "v1", kind: "Namespace", metadata: { ...own, labels: { a: "x" } } }
        })
    ],
    [
      1,
      () => made("patch", { ...own, query: dry, patchType: "strategic", body: { metadata: { labels: { a: "y" } } } })
    ],
    [1, () => made("delete", { ...own, query: dry })],
    [1, () => made("delete", { name: "default", query: dry })],
    // What a real controller has done with one that is being deleted is a matter of time
    ...(memory.deletesNamespace ? [] : [[2, () => made("delete", { ...other, query: dry })] as const]),
    [1, () => made("deletecollection", {})]
  ])()
}

/** A namespace that is made, filled, deleted, and takes nothing more. */
const namespaceLife = (dice: Dice.Dice): ReadonlyArray<KubeRequest.KubeRequest> => {
  const fill = (name: string): KubeRequest.KubeRequest =>
    KubeRequest.make("create", configMaps.type, {
      namespace: Operation.otherNamespace,
      body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { k: "1" } }
    })
  return [
    KubeRequest.make("create", namespaces, {
      body: {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: Operation.otherNamespace, finalizers: [hold] }
      }
    }),
    fill("c0"),
    KubeRequest.make("delete", namespaces, {
      name: Operation.otherNamespace,
      query: dice.chance(0.5) ? { propagationPolicy: "Background" } : {}
    }),
    fill("c1")
  ]
}

const log = (memory: Memory): Made => {
  const { dice } = memory
  const name = dice.weighted([
    [6, logPod],
    [3, dice.pick(pods.names)],
    [1, "nope"]
  ])
  // A log that is followed ends here only by its limit
  if (name === logPod && dice.chance(0.06)) {
    return {
      request: KubeRequest.make("get", pods.type, {
        namespace: Operation.namespace,
        name,
        subresource: "log",
        query: { container: "node", follow: "true", limitBytes: dice.pick(["10", "25"]) }
      })
    }
  }
  const container =
    name === logPod
      ? dice.weighted<string | undefined>([
          [10, "node"],
          [1, "zz"],
          [2, undefined],
          [1, ""]
        ])
      : // What the kubelet would say of a pod that nothing started is not asked
        "zz"
  return {
    request: KubeRequest.make("get", pods.type, {
      namespace: Operation.namespace,
      name,
      subresource: "log",
      query: {
        container,
        ...(dice.chance(0.3)
          ? {
              tailLines: dice.weighted([
                [6, "2"],
                [2, "0"],
                [2, "100"],
                [1, "-1"],
                [1, "x"]
              ])
            }
          : {}),
        ...(dice.chance(0.3)
          ? {
              limitBytes: dice.weighted([
                [4, "10"],
                [4, "9"],
                [2, "1000"],
                [1, "0"],
                [1, "-5"]
              ])
            }
          : {}),
        ...(dice.chance(0.3) ? { timestamps: dice.pick(["true", "false", "maybe", "0"]) } : {}),
        ...(dice.chance(0.25)
          ? {
              sinceTime: dice.weighted([
                [4, "2026-01-01T00:00:02Z"],
                [4, "2026-01-01T00:00:03.5Z"],
                [1, "garbage"],
                [1, ""],
                [1, "2026-01-01T02:00:03+02:00"]
              ])
            }
          : {}),
        ...(dice.chance(0.1) ? { sinceSeconds: dice.pick(["10", "0", "-1", "x"]) } : {}),
        ...(dice.chance(0.04) ? { stream: dice.pick(["", "All", "Stdout"]) } : {}),
        ...(dice.chance(0.06) ? { follow: dice.pick(["false", "0", "maybe"]) } : {}),
        ...(dice.chance(0.04) ? { previous: dice.pick(["false", "0"]) } : {}),
        ...(dice.chance(0.05) ? { insecureSkipTLSVerifyBackend: dice.pick(["true", "false"]) } : {}),
        ...(dice.chance(0.05) ? { unknownParameter: "x" } : {})
      }
    })
  }
}

const review = (memory: Memory): Made => {
  const { dice } = memory
  const kind = dice.weighted([
    [8, "SelfSubjectAccessReview"],
    [1, "SelfSubjectReview"],
    [1, "SelfSubjectRulesReview"]
  ])
  const group = kind === "SelfSubjectReview" ? "authentication.k8s.io" : "authorization.k8s.io"
  const spec =
    kind === "SelfSubjectReview"
      ? {}
      : kind === "SelfSubjectRulesReview"
        ? { spec: dice.chance(0.9) ? { namespace: Operation.namespace } : {} }
        : {
            spec: dice.weighted<Body>([
              [
                12,
                {
                  resourceAttributes: {
                    verb: dice.pick([...verbs, "*", "bogus"]),
                    group: dice.pick(["", "batch", "trainer.kubeflow.org", "nope.io"]),
                    resource: dice.pick(["configmaps", "pods", "jobs", "trainjobs", "nodes", "pods/log", "*"]),
                    ...(dice.chance(0.3) ? { subresource: dice.pick(["log", "status"]) } : {}),
                    ...(dice.chance(0.85) ? { namespace: Operation.namespace } : {}),
                    ...(dice.chance(0.4) ? { name: dice.pick(["c0", "p0", "t0", "zz"]) } : {})
                  }
                }
              ],
              [2, { nonResourceAttributes: { verb: "get", path: dice.pick(["/metrics", "/nope", "/apis"]) } }],
              [0.5, {}],
              [0.5, { resourceAttributes: {} }],
              [0.5, { resourceAttributes: { verb: "get" }, nonResourceAttributes: { verb: "get", path: "/" } }]
            ])
          }
  return {
    // Who the administrator is differs from cluster to cluster
    as: kind === "SelfSubjectReview" || dice.chance(0.85) ? dice.pick(subjects) : "admin",
    request: KubeRequest.make(
      "create",
      { group, version: "v1", plural: `${kind.toLowerCase()}s` },
      { body: { apiVersion: `${group}/v1`, kind, ...spec } }
    )
  }
}

const oddity = (memory: Memory, kind: Kind): Made => {
  const { dice } = memory
  const name = nameOf(memory, kind)
  const at = { namespace: Operation.namespace, name }
  return dice.pick<() => Made>([
    () => ({ request: KubeRequest.make("get", { ...kind.type, plural: "podz" }, at) }),
    () => ({ request: KubeRequest.make("list", { ...kind.type, group: "nope.example" }, { namespace: at.namespace }) }),
    () => ({ request: KubeRequest.make("list", { ...kind.type, version: "v9" }, { namespace: at.namespace }) }),
    () => ({ request: KubeRequest.make("create", kind.type, { ...at, body: full(dice, kind, name) }) }),
    () => ({
      request: KubeRequest.make("update", kind.type, { namespace: at.namespace, body: full(dice, kind, name) })
    }),
    () => ({
      request: KubeRequest.make("patch", kind.type, { namespace: at.namespace, body: {}, patchType: "merge" })
    }),
    () => ({
      request: KubeRequest.make("create", kind.type, { ...at, subresource: "status", body: full(dice, kind, name) })
    }),
    () => ({ request: KubeRequest.make("delete", kind.type, { ...at, subresource: "status" }) }),
    () => ({ request: KubeRequest.make("create", kind.type, { body: full(dice, kind, name) }) }),
    () => ({ request: KubeRequest.make("get", kind.type, { name }) }),
    () => ({
      request: KubeRequest.make("create", pods.type, {
        namespace: at.namespace,
        name: dice.pick(pods.names),
        subresource: "binding",
        query: dice.chance(0.2) ? { dryRun: "All" } : {},
        body: {
          apiVersion: "v1",
          kind: "Binding",
          metadata: { name: dice.pick(pods.names) },
          target: { kind: "Node", name: node }
        }
      })
    }),
    () => {
      const pod = dice.pick(pods.names)
      return {
        request: KubeRequest.make("create", pods.type, {
          namespace: at.namespace,
          name: pod,
          subresource: "eviction",
          query: dice.chance(0.2) ? { dryRun: "All" } : {},
          body: {
            apiVersion: "policy/v1",
            kind: "Eviction",
            metadata: { name: dice.chance(0.8) ? pod : "other", namespace: Operation.namespace }
          }
        })
      }
    },
    () => ({ request: KubeRequest.nonResource(dice.pick(["/nope", "/apis/nope.example"])) })
  ])()
}

const step = (memory: Memory): Made => {
  const kind = usefulKind(memory)
  return memory.dice.weighted<() => Made>([
    [18, () => create(memory, kind)],
    [3, () => createGenerated(memory, kind)],
    [5, () => createBad(memory, kind)],
    [8, () => get(memory, kind)],
    [11, () => list(memory, kind)],
    [6, () => nextPage(memory, kind)],
    [6, () => watch(memory, kind)],
    [10, () => update(memory, kind)],
    [16, () => patch(memory, kind)],
    [9, () => remove(memory, kind)],
    [2, () => removeMany(memory, kind)],
    [4, () => log(memory)],
    [5, () => review(memory)],
    [3, () => oddity(memory, kind)],
    [2, () => namespaceStep(memory)]
  ])()
}

/** The pod whose log both sides know, and the word of its kubelet that it runs. */
const preparedPod: ReadonlyArray<KubeRequest.KubeRequest> = [
  KubeRequest.make("create", pods.type, {
    namespace: Operation.namespace,
    body: {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: logPod },
      spec: {
        automountServiceAccountToken: false,
        nodeName: node,
        containers: [container("node"), container("side")]
      }
    }
  }),
  KubeRequest.make("patch", pods.type, {
    namespace: Operation.namespace,
    name: logPod,
    subresource: "status",
    patchType: "strategic",
    body: {
      status: {
        phase: "Running",
        containerStatuses: ["node", "side"].map((name) => ({
          name,
          ready: true,
          restartCount: 0,
          image: "busybox:1",
          imageID: "sha256:0",
          containerID: `containerd://${name}`,
          state: { running: { startedAt: "2026-01-01T00:00:00Z" } }
        }))
      }
    }
  })
]

/** The sequence with a number of a seed, of some length. */
export const generate = (seed: number, index: number, length: number): ReadonlyArray<Operation.Operation> => {
  const dice = Dice.make(Dice.mix(seed, index))
  const operations: Array<Operation.Operation> = []
  const seen: Array<Memory["seen"][number]> = []
  const pages: Array<Memory["pages"][number]> = []
  const life = dice.chance(0.04) ? namespaceLife(dice) : []
  const prepared = life.length > 0 ? life : dice.chance(0.3) ? preparedPod : []
  while (operations.length < length) {
    const id = `o${operations.length + 1}`
    const memory: Memory = { dice, id, seen, pages, deletesNamespace: life.length > 0 }
    const ready = prepared[operations.length]
    const made: Made =
      ready !== undefined
        ? { request: ready, as: "admin" }
        : operations.length < prepared.length + 3
          ? create(memory, kindOf(dice))
          : step(memory)
    operations.push({
      id,
      as: made.as ?? (operations.length < 3 || dice.chance(0.75) ? "admin" : dice.pick(subjects)),
      request: made.request
    })
    if (made.object !== undefined) seen.push({ id, ...made.object })
    if (made.page !== undefined) pages.push({ id, ...made.page })
  }
  return operations
}
