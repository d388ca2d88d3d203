/**
 * Aggregated discovery (`apidiscovery.k8s.io/v2`): every served type in one document, which is what kubectl asks for.
 *
 * @module
 */
import * as Discovery from "../Discovery.js"
import * as Registry from "../Registry.js"

type Json = Readonly<Record<string, unknown>>

/** The media type, with which the document is asked for and answered. */
export const mediaType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

const resourceOf = (type: Registry.ResourceDefinition): Json => {
  // Built-in types leave group and version of their own kind empty
  const own = type.custom ? { group: type.group, version: type.version } : { group: "", version: "" }
  return {
    resource: type.plural,
    responseKind: { ...own, kind: type.kind },
    scope: type.scope,
    singularResource: type.singular,
    verbs: type.verbs,
    ...(type.shortNames.length === 0 ? {} : { shortNames: type.shortNames }),
    ...(type.categories.length === 0 ? {} : { categories: type.categories }),
    ...(type.subresources.length === 0
      ? {}
      : {
          subresources: type.subresources.map(({ group, kind, name, verbs, version }) => ({
            subresource: name,
            responseKind: { group: group ?? own.group, version: version ?? own.version, kind },
            verbs
          }))
        })
  }
}

/** The document of `/api` (the core group) or `/apis` (all others). */
export const document = (registry: Registry.Registry, root: "api" | "apis"): Json => ({
  kind: "APIGroupDiscoveryList",
  apiVersion: "apidiscovery.k8s.io/v2",
  metadata: {},
  items: (root === "api" ? [""] : Discovery.groups(registry)).map((group) => ({
    metadata: group === "" ? {} : { name: group },
    versions: Discovery.versions(registry, group).map((version) => ({
      version,
      resources: Registry.all(registry)
        .filter((type) => type.group === group && type.version === version)
        .map(resourceOf),
      freshness: "Current"
    }))
  }))
})
