/**
 * The store's state as the stages read it. Here alone stored JSON is taken for the raw objects it is.
 *
 * @module
 */
import type * as Json from "../Json.js"
import * as Registry from "../Registry.js"
import type { View } from "../Stage.js"
import * as Store from "../Store.js"
import type * as Objects from "./Objects.js"

/** A stored object as an object of a kind. What the store holds has passed that kind's validation. */
export const narrow = <A extends Objects.Raw>(_kind: Objects.Kind<A>, object: Json.JsonObject): A =>
  object as unknown as A

/** Any stored object. */
export const raw = (object: Json.JsonObject): Objects.Raw => object as unknown as Objects.Raw

/** The inverse of `narrow`. */
export const widen = (object: Objects.Raw): Json.JsonObject => object as unknown as Json.JsonObject

const kindOf = (definition: Registry.ResourceDefinition): Objects.Kind => ({
  group: definition.group,
  version: definition.version,
  plural: definition.plural,
  kind: definition.kind,
  namespaced: definition.scope === "Namespaced"
})

/** Reads of one state. */
export const of = (state: Store.State): View => ({
  get: (kind, namespace, name) => {
    const object = Store.get(state, kind, namespace, name)
    return object === undefined ? undefined : narrow(kind, object)
  },
  list: (kind, namespace) => Array.from(Store.list(state, kind, namespace), (object) => narrow(kind, object)),
  ownedBy: (kind, uid) =>
    Store.ownedBy(state, uid)
      .filter(({ definition }) => definition.group === kind.group && definition.plural === kind.plural)
      .map(({ object }) => narrow(kind, object)),
  dependents: (uid) => Store.ownedBy(state, uid).map(({ object }) => raw(object)),
  inNamespace: (namespace) =>
    Registry.all(state.registry)
      .filter((definition) => definition.scope === "Namespaced" && !definition.virtual)
      .flatMap((definition) => Array.from(Store.list(state, definition, namespace), raw)),
  kindOf: (apiVersion, kind) => {
    for (const definition of state.registry.definitions.values()) {
      if (definition.kind === kind && Registry.apiVersion(definition) === apiVersion) return kindOf(definition)
    }
    return undefined
  }
})
