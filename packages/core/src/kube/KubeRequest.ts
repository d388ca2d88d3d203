/**
 * A Kubernetes call as a value: what is asked, of which resource, with which options. Nothing here performs it.
 *
 * @module
 */

/** The API verbs, spelled as RBAC spells them. */
export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection"

/** The four patch formats of the API server. `apply` is server-side apply. */
export type PatchType = "merge" | "json" | "strategic" | "apply"

/** One call to a Kubernetes API server. Plain data: it can be logged, compared, matched by a fault plan, audited. */
export interface KubeRequest {
  readonly verb: Verb
  /** API group, `""` for the core group. */
  readonly group: string
  readonly version: string
  /** Plural resource name as in the URL, e.g. `pods`. */
  readonly plural: string
  /** e.g. `log`, `status`, `binding`, `eviction`. */
  readonly subresource?: string
  readonly namespace?: string
  readonly name?: string
  /** Query parameters without `watch`, which the verb says. */
  readonly query: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Given exactly when the verb is `patch`. */
  readonly patchType?: PatchType
  /** A non-resource URL such as `/version` or `/apis`; the resource fields are then empty. */
  readonly nonResourcePath?: string
}

/** What identifies a resource type in a request. Every `Resource` descriptor is one. */
export interface ResourceType {
  readonly group: string
  readonly version: string
  readonly plural: string
}

/** Builds a request; fields that are `undefined` are left out. */
export const make = (
  verb: Verb,
  type: ResourceType,
  fields: {
    readonly subresource?: string | undefined
    readonly namespace?: string | undefined
    readonly name?: string | undefined
    readonly query?: Readonly<Record<string, string | undefined>> | undefined
    readonly body?: unknown
    readonly patchType?: PatchType | undefined
  } = {}
): KubeRequest => {
  const query = Object.fromEntries(
    Object.entries(fields.query ?? {}).filter((entry): entry is [string, string] => entry[1] !== undefined)
  )
  return {
    verb,
    group: type.group,
    version: type.version,
    plural: type.plural,
    query,
    ...(fields.subresource === undefined ? {} : { subresource: fields.subresource }),
    ...(fields.namespace === undefined ? {} : { namespace: fields.namespace }),
    ...(fields.name === undefined ? {} : { name: fields.name }),
    ...(fields.body === undefined ? {} : { body: fields.body }),
    ...(fields.patchType === undefined ? {} : { patchType: fields.patchType })
  }
}

/** A GET of a non-resource URL, e.g. `/version`. */
export const nonResource = (path: string): KubeRequest => ({
  verb: "get",
  group: "",
  version: "",
  plural: "",
  query: {},
  nonResourcePath: path
})

const writeVerbs: ReadonlySet<Verb> = new Set(["create", "update", "patch", "delete", "deletecollection"])

/**
 * Whether performing the request can change the cluster. Reviews (`selfsubjectaccessreviews` and its like) are POSTs
 * that store nothing, so they are not writes. A dry run counts as a write: it needs the verb's permission and runs
 * admission.
 */
export const isWrite = (request: KubeRequest): boolean =>
  writeVerbs.has(request.verb) &&
  request.group !== "authorization.k8s.io" &&
  !(request.group === "authentication.k8s.io" && request.plural === "selfsubjectreviews")

/** The request without its body, safe to keep in an error or a log: bodies can hold env values and secrets. */
export const withoutBody = (request: KubeRequest): KubeRequest => {
  const { body: _, ...rest } = request
  return rest
}

const contentTypes: Readonly<Record<PatchType, string>> = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml"
}

/** The HTTP method of the request. */
export const method = (request: KubeRequest): "GET" | "POST" | "PUT" | "PATCH" | "DELETE" => {
  switch (request.verb) {
    case "get":
    case "list":
    case "watch":
      return "GET"
    case "create":
      return "POST"
    case "update":
      return "PUT"
    case "patch":
      return "PATCH"
    case "delete":
    case "deletecollection":
      return "DELETE"
  }
}

/** The `Content-Type` of the request's body. */
export const contentType = (request: KubeRequest): string =>
  request.patchType === undefined ? "application/json" : contentTypes[request.patchType]

/** The URL path of the request, segments percent-encoded. */
export const path = (request: KubeRequest): string => {
  if (request.nonResourcePath !== undefined) return request.nonResourcePath
  const segments = request.group === "" ? ["api", request.version] : ["apis", request.group, request.version]
  if (request.namespace !== undefined) segments.push("namespaces", request.namespace)
  segments.push(request.plural)
  if (request.name !== undefined) segments.push(request.name)
  if (request.subresource !== undefined) segments.push(...request.subresource.split("/"))
  return `/${segments.map(encodeURIComponent).join("/")}`
}

/** The query of the request as ordered pairs, `watch=true` included for a watch. */
export const queryPairs = (request: KubeRequest): ReadonlyArray<readonly [string, string]> => [
  ...Object.entries(request.query),
  ...(request.verb === "watch" ? ([["watch", "true"]] as const) : [])
]

const decodeSegment = (segment: string): string | undefined => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/**
 * Reads an HTTP request line back into a `KubeRequest`: the inverse of `method`, `path` and `queryPairs`, as an API
 * server resolves a URL. `undefined` when the path or the method has no meaning there. Namespaces themselves are
 * cluster-scoped: `/api/v1/namespaces/x` is a get of the namespace `x`.
 */
export const fromHttp = (input: {
  readonly method: string
  readonly path: string
  readonly query: ReadonlyArray<readonly [string, string]>
  readonly contentType?: string | undefined
  readonly body?: unknown
}): KubeRequest | undefined => {
  const segments: Array<string> = []
  for (const raw of input.path.split("/")) {
    if (raw === "") continue
    const segment = decodeSegment(raw)
    if (segment === undefined) return undefined
    segments.push(segment)
  }
  let rest: Array<string>
  let group: string
  let version: string | undefined
  if (segments[0] === "api" && segments.length > 2) {
    group = ""
    version = segments[1]
    rest = segments.slice(2)
  } else if (segments[0] === "apis" && segments.length > 3) {
    group = segments[1] ?? ""
    version = segments[2]
    rest = segments.slice(3)
  } else {
    return input.method === "GET" ? nonResource(input.path) : undefined
  }
  let namespace: string | undefined
  // `/namespaces/<ns>/status|finalize` are subresources of the namespace, not resources inside it
  const insideNamespace =
    rest[0] === "namespaces" &&
    rest.length > 2 &&
    !(rest.length === 3 && ["status", "finalize"].includes(rest[2] ?? ""))
  if (insideNamespace) {
    namespace = rest[1]
    rest = rest.slice(2)
  }
  const [plural, name, ...subresource] = rest
  if (plural === undefined || version === undefined) return undefined
  const query = new Map<string, string>()
  let watch = false
  for (const [key, value] of input.query) {
    // https://kubernetes.io/docs/reference/using-api/api-concepts/: the API server reads any value but 0 and false as true
    if (key === "watch") watch = !["0", "false"].includes(value.toLowerCase())
    else if (!query.has(key)) query.set(key, value)
  }
  let verb: Verb
  switch (input.method) {
    case "GET":
      verb = name === undefined ? (watch ? "watch" : "list") : "get"
      break
    case "POST":
      verb = "create"
      break
    case "PUT":
      verb = "update"
      break
    case "PATCH":
      verb = "patch"
      break
    case "DELETE":
      verb = name === undefined ? "deletecollection" : "delete"
      break
    default:
      return undefined
  }
  const mime = input.contentType?.split(";")[0]?.trim()
  const patchType = (Object.keys(contentTypes) as Array<PatchType>).find((type) => contentTypes[type] === mime)
  return make(
    verb,
    { group, version, plural },
    {
      namespace,
      name,
      subresource: subresource.length === 0 ? undefined : subresource.join("/"),
      query: Object.fromEntries(query),
      body: input.body,
      patchType: verb === "patch" ? patchType : undefined
    }
  )
}

/** One line for people: `list pods in namespace "team-a"`, `get pods/log "run-1-node-0-0-x" in namespace "team-a"`. */
export const describe = (request: KubeRequest): string => {
  if (request.nonResourcePath !== undefined) return `get ${request.nonResourcePath}`
  const resource = request.group === "" ? request.plural : `${request.plural}.${request.group}`
  const subresource = request.subresource === undefined ? "" : `/${request.subresource}`
  const name = request.name === undefined ? "" : ` "${request.name}"`
  const namespace = request.namespace === undefined ? "" : ` in namespace "${request.namespace}"`
  return `${request.verb} ${resource}${subresource}${name}${namespace}`
}
