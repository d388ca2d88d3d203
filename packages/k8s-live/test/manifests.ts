/**
 * The RBAC manifests under `deploy/rbac`, as objects that tests can apply whole or without one permission.
 */
import { readFileSync } from "node:fs"
import { parseAllDocuments } from "yaml"

export type Mode = "read-only" | "plain" | "kueue"

interface Rule {
  readonly apiGroups: ReadonlyArray<string>
  readonly resources: ReadonlyArray<string>
  readonly resourceNames?: ReadonlyArray<string>
  readonly verbs: ReadonlyArray<string>
}

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: ReadonlyArray<Rule>
}

/** The objects of a manifest file; `rename` is what `sed` does to it according to its head. */
export const load = (mode: Mode, rename: Readonly<Record<string, string>> = {}): ReadonlyArray<Manifest> => {
  const text = readFileSync(new URL(`../../../deploy/rbac/${mode}.yaml`, import.meta.url), "utf8")
  const renamed = Object.entries(rename).reduce((all, [from, to]) => all.replaceAll(from, to), text)
  return parseAllDocuments(renamed).map((document) => document.toJS() as Manifest)
}

/** One permission that a manifest grants. */
export interface Grant {
  /** e.g. `get pods/log`, `list jobs.batch`, `get leases.coordination.k8s.io in kube-node-lease`. */
  readonly id: string
  readonly role: number
  readonly rule: number
  readonly verb: string
}

export const grants = (manifests: ReadonlyArray<Manifest>): ReadonlyArray<Grant> =>
  manifests.flatMap((manifest, role) =>
    (manifest.rules ?? []).flatMap((rule, index) => {
      const [group = ""] = rule.apiGroups
      const [resource = ""] = rule.resources
      const where = resource === "leases" ? ` in ${manifest.metadata.namespace ?? ""}` : ""
      return rule.verbs.map((verb) => ({
        id: `${verb} ${resource}${group === "" ? "" : `.${group}`}${where}`,
        role,
        rule: index,
        verb
      }))
    })
  )

/** The role that grants a permission, without it. */
export const without = (manifests: ReadonlyArray<Manifest>, grant: Grant): Manifest => {
  const manifest = manifests[grant.role]
  if (manifest === undefined) throw new Error(`no role ${grant.role}`)
  return {
    ...manifest,
    rules: (manifest.rules ?? []).flatMap((rule, index) => {
      if (index !== grant.rule) return [rule]
      const verbs = rule.verbs.filter((verb) => verb !== grant.verb)
      return verbs.length === 0 ? [] : [{ ...rule, verbs }]
    })
  }
}
