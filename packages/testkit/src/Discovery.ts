/**
 * What the server says about itself: its version and the types it serves, in the plain discovery format.
 *
 * @module
 */
import type * as Json from "./Json.js"
import * as Registry from "./Registry.js"

const versionPattern = /^v(\d+)(?:(alpha|beta)(\d+))?$/

/** Kubernetes' order of versions: released ones first, then beta, then alpha; newest first. */
const compareVersions = (left: string, right: string): number => {
  const rank = (version: string): readonly [number, number, number] => {
    const match = versionPattern.exec(version)
    if (match === null) return [3, 0, 0]
    const [, major, stage, minor] = match
    return [stage === undefined ? 0 : stage === "beta" ? 1 : 2, -Number(major), -Number(minor ?? 0)]
  }
  const [a, b] = [rank(left), rank(right)]
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}

/** The versions of an API group, preferred first. */
export const versions = (registry: Registry.Registry, group: string): ReadonlyArray<string> => {
  const found = new Set<string>()
  for (const type of Registry.all(registry)) if (type.group === group) found.add(type.version)
  return [...found].toSorted(compareVersions)
}

/** The API groups beside the core group, in order of registration. */
export const groups = (registry: Registry.Registry): ReadonlyArray<string> => [
  ...new Set(
    Registry.all(registry)
      .map(({ group }) => group)
      .filter((group) => group !== "")
  )
]

const groupBody = (registry: Registry.Registry, group: string): Json.JsonObject => {
  const served = versions(registry, group).map((version) => ({ groupVersion: `${group}/${version}`, version }))
  const [preferred = { groupVersion: group, version: "" }] = served
  return { name: group, versions: served, preferredVersion: preferred }
}

const resourceList = (registry: Registry.Registry, group: string, version: string): Json.JsonObject | undefined => {
  const types = Registry.all(registry).filter((type) => type.group === group && type.version === version)
  if (types.length === 0) return undefined
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: Registry.apiVersion({ group, version }),
    resources: types.flatMap((type) => {
      const namespaced = type.scope === "Namespaced"
      return [
        {
          name: type.plural,
          singularName: type.singular,
          namespaced,
          kind: type.kind,
          verbs: type.verbs,
          ...(type.shortNames.length === 0 ? {} : { shortNames: type.shortNames }),
          ...(type.categories.length === 0 ? {} : { categories: type.categories })
        },
        ...type.subresources.map((subresource) => ({
          name: `${type.plural}/${subresource.name}`,
          singularName: "",
          namespaced,
          ...(subresource.group === undefined ? {} : { group: subresource.group }),
          ...(subresource.version === undefined ? {} : { version: subresource.version }),
          kind: subresource.kind,
          verbs: subresource.verbs
        }))
      ]
    })
  }
}

/** The answer to a GET of a discovery path, `undefined` where there is none. `version` is like `v1.37.2`. */
export const answer = (registry: Registry.Registry, version: string, path: string): Json.Json | undefined => {
  const segments = path.split("/").filter((segment) => segment !== "")
  const [root, first, second] = segments
  if (segments.length === 1) {
    switch (root) {
      case "version": {
        const [, major = "1", minor = "0"] = /^v(\d+)\.(\d+)/.exec(version) ?? []
        return {
          major,
          minor,
          emulationMajor: major,
          emulationMinor: minor,
          minCompatibilityMajor: major,
          minCompatibilityMinor: String(Math.max(0, Number(minor) - 1)),
          gitVersion: version,
          gitCommit: "0000000000000000000000000000000000000000",
          gitTreeState: "clean",
          buildDate: "1970-01-01T00:00:00Z",
          goVersion: "go1.25.0",
          compiler: "gc",
          platform: "linux/amd64"
        }
      }
      case "api":
        return { kind: "APIVersions", versions: ["v1"], serverAddressByClientCIDRs: [] }
      case "apis":
        return {
          kind: "APIGroupList",
          apiVersion: "v1",
          groups: groups(registry).map((name) => groupBody(registry, name))
        }
      case "healthz":
      case "livez":
      case "readyz":
        return "ok"
      default:
        return undefined
    }
  }
  if (root === "api" && segments.length === 2) return resourceList(registry, "", first ?? "")
  if (root === "apis" && segments.length === 2 && first !== undefined) {
    return groups(registry).includes(first)
      ? { kind: "APIGroup", apiVersion: "v1", ...groupBody(registry, first) }
      : undefined
  }
  if (root === "apis" && segments.length === 3) return resourceList(registry, first ?? "", second ?? "")
  return undefined
}
