/**
 * What the API server says at paths that are not resources: discovery, OpenAPI, version, health.
 *
 * @module
 */
import * as Discovery from "../Discovery.js"
import * as OpenApi from "../OpenApi.js"
import * as Registry from "../Registry.js"
import * as Aggregated from "./Aggregated.js"
import * as Answer from "./Answer.js"
import * as Negotiation from "./Negotiation.js"

/** An answer to a GET of such a path. */
export interface Document {
  readonly answer: Answer.Answer
  /** Whether the transport's own answer goes first. */
  readonly replaceable: boolean
}

const fixed = (answer: Answer.Answer): Document => ({ answer, replaceable: false })

const typed = (
  contentType: string,
  content: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {}
): Document => fixed({ _tag: "Reply", code: 200, headers, body: { contentType, content } })

const openApi = (
  types: ReadonlyArray<Registry.ResourceDefinition>,
  version: string,
  segments: ReadonlyArray<string>,
  accept: string | undefined
): Document | undefined => {
  const [major, ...rest] = segments
  if (major === "v3") {
    const body = rest.length === 0 ? OpenApi.index(types) : OpenApi.document(types, rest.join("/"), version)
    return body === undefined ? undefined : fixed(Answer.json(200, body))
  }
  if (major !== "v2" || rest.length > 0) return undefined
  return accept?.includes(OpenApi.protobufMediaType) === true
    ? typed(OpenApi.protobufMediaType, OpenApi.documentV2Protobuf(version))
    : fixed(Answer.json(200, OpenApi.documentV2(types, version)))
}

/** The document at a path; `undefined` where there is none. */
export const at = (input: {
  readonly registry: Registry.Registry
  /** `gitVersion`. */
  readonly version: string
  readonly path: string
  readonly accept: string | undefined
}): Document | undefined => {
  const { accept, path, registry, version } = input
  const types = Registry.all(registry)
  const segments = path.split("/").filter((segment) => segment !== "")
  const [root, group] = segments
  if ((root === "api" || root === "apis") && segments.length === 1) {
    const form = Negotiation.discoveryForm(accept)
    if (form === "neither") {
      return fixed(
        Answer.json(406, Answer.status(406, "only the following media types are accepted: application/json"))
      )
    }
    if (form === "aggregated") {
      return typed(Aggregated.mediaType, `${JSON.stringify(Aggregated.document(registry, root))}\n`, {
        Vary: "Accept",
        "Cache-Control": "public"
      })
    }
  }
  if (root === undefined) {
    return fixed(
      Answer.json(200, {
        paths: ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
      })
    )
  }
  if (root === "openapi") return openApi(types, version, segments.slice(1), accept)
  const body = Discovery.answer(registry, version, path)
  if (typeof body === "string") return fixed(Answer.plain(200, body))
  if (body !== undefined) return { answer: Answer.json(200, body), replaceable: true }
  // The API server knows its own groups also in versions that it does not serve
  const builtIn = root === "api" || (root === "apis" && types.some((type) => type.group === group && !type.custom))
  return builtIn && segments.length > 1 ? { answer: Answer.resourceNotFound, replaceable: true } : undefined
}
