/**
 * Reading: one object, lists with their pages and versions, and how a watch starts.
 *
 * @module
 */
import type * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import { Either, Encoding } from "effect"
import * as EventLog from "../../EventLog.js"
import * as Failure from "../../Failure.js"
import * as Json from "../../Json.js"
import * as OrderedMap from "../../OrderedMap.js"
import * as Registry from "../../Registry.js"
import { type State, type Step, labelsOf, show, tooOldVersion } from "./State.js"
import {
  type Call,
  type Done,
  existing,
  isTrue,
  parseInteger,
  parseText,
  parseVersion,
  resolve,
  versionError
} from "./Call.js"

export const renderList = (
  type: Registry.ResourceDefinition,
  items: ReadonlyArray<Json.JsonObject>,
  metadata: Json.JsonObject
): Json.JsonObject => {
  const apiVersion = Registry.apiVersion(type)
  // Go leaves out an empty continue of built-in lists and writes it for custom resources
  const token = metadata["continue"] === undefined && type.custom ? { continue: "" } : {}
  return type.custom
    ? {
        apiVersion,
        items: items.map((item) => show(type, item)),
        kind: type.listKind,
        metadata: { ...token, ...metadata }
      }
    : {
        kind: type.listKind,
        apiVersion,
        metadata,
        items: items.map((item) => {
          const { apiVersion: _, kind: __, ...rest } = item
          return rest
        })
      }
}

export const read = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const wanted = request.query["resourceVersion"]
    if (wanted !== undefined && wanted !== "") {
      const version = parseVersion(wanted)
      if (version === undefined) return yield* Either.left(Failure.plain(versionError(wanted)))
      if (version > state.version) return yield* Either.left(Failure.tooLarge(version, state.version))
    }
    return { state, status: 200, body: show(type, yield* existing(call)) }
  })

/** A parsed selection. */
export interface Selection {
  readonly matches: (object: Json.JsonObject) => boolean
  /** The value of `metadata.name=`, which narrows a watch to one object. */
  readonly name: string | undefined
  readonly all: boolean
}

const parseSelectors = (request: KubeRequest.KubeRequest) =>
  Either.gen(function* () {
    const { fieldSelector = "", labelSelector = "" } = request.query
    const labels = yield* Either.mapLeft(Selector.parseLabels(labelSelector), Failure.badRequest)
    const fields = yield* Either.mapLeft(Selector.parseFields(fieldSelector), Failure.badRequest)
    return { labels, fields }
  })

/** Label and field selector of a request, or the server's objection. */
export const parseSelection = (type: Registry.ResourceDefinition, request: KubeRequest.KubeRequest): Step<Selection> =>
  Either.gen(function* () {
    const { fields, labels } = yield* parseSelectors(request)
    for (const { field } of fields) {
      const known =
        field === "metadata.name" ||
        (field === "metadata.namespace" && type.scope === "Namespaced") ||
        type.selectableFields[field] !== undefined
      if (!known) return yield* Either.left(Failure.badRequest(type.fieldSelectorError(field)))
    }
    const readField =
      (object: Json.JsonObject) =>
      (field: string): string => {
        if (field === "metadata.name") return Json.string(Json.at(object, "metadata", "name")) ?? ""
        if (field === "metadata.namespace") return Json.string(Json.at(object, "metadata", "namespace")) ?? ""
        return type.selectableFields[field]?.(object) ?? ""
      }
    return {
      all: labels.length === 0 && fields.length === 0,
      name: fields.find(({ field, operator }) => field === "metadata.name" && operator === "=")?.value || undefined,
      matches: (object) =>
        (labels.length === 0 || Selector.matchesLabels(labels, labelsOf(object))) &&
        (fields.length === 0 || Selector.matchesFields(fields, readField(object)))
    }
  })

/** The objects of a type as they were at a version that is still in the log. */
const objectsAt = (state: State, resource: string, version: number): OrderedMap.OrderedMap<Json.JsonObject> => {
  let objects = OrderedMap.get(state.types, resource)
  if (version >= state.version) return objects
  const later = EventLog.after(state.log, version, resource)
  for (let index = later.length - 1; index >= 0; index -= 1) {
    const entry = later[index]
    if (entry === undefined) continue
    objects =
      entry.previous === undefined
        ? OrderedMap.remove(objects, entry.key)
        : OrderedMap.set(objects, entry.key, entry.previous)
  }
  return objects
}

const encodeToken = (version: number, start: string): string =>
  Encoding.encodeBase64Url(JSON.stringify({ v: "meta.k8s.io/v1", rv: version, start }))

interface Token {
  readonly version: number
  readonly start: string
}

const decodeToken = (token: string): Step<Token> => {
  const bad = (why: string): Step<never> => Either.left(Failure.badRequest(`invalid continue token: ${why}`))
  const decoded = Encoding.decodeBase64UrlString(token)
  if (Either.isLeft(decoded)) return bad("continue key is not valid: illegal base64 data at input byte 0")
  const value = parseText(decoded.right)
  const version = Json.number(Json.at(value, "rv"))
  const start = Json.string(Json.at(value, "start"))
  if (Json.at(value, "v") !== "meta.k8s.io/v1") {
    return bad("continue key is not valid: server does not recognize this encoded version")
  }
  if (version === undefined || version === 0 || start === undefined || start === "") {
    return bad("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
  }
  return Either.right({ version, start: start.replace(/^\//, "") })
}

const expiredTokenText =
  "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."

const forbidden = (field: string, message: string): Registry.FieldError => ({
  field,
  reason: "FieldValueForbidden",
  message: `Forbidden: ${message}`
})

const forbiddenMatch = (message: string): Registry.FieldError => forbidden("resourceVersionMatch", message)

const unsupportedMatch = (match: string, supported: string): Registry.FieldError => ({
  field: "resourceVersionMatch",
  reason: "FieldValueNotSupported",
  message: `Unsupported value: ${JSON.stringify(match)}: supported values: ${supported}`
})

/** All that is wrong with the options is told at once. */
const checkOptions = (errors: ReadonlyArray<Registry.FieldError>): Step<void> =>
  errors.length === 0
    ? Either.right(undefined)
    : Either.left(Failure.invalid({ group: "meta.k8s.io", kind: "ListOptions" }, "", errors))

export const readList = (call: Call): Step<Done> =>
  Either.gen(function* () {
    const { request, state, type } = call
    const {
      continue: token = "",
      limit: limitText,
      resourceVersion: wanted = "",
      resourceVersionMatch: match = "",
      sendInitialEvents
    } = request.query
    const limit = yield* parseInteger(limitText)
    yield* parseInteger(request.query["timeoutSeconds"])
    yield* parseSelectors(request)
    yield* checkOptions([
      ...(match === "" || wanted !== ""
        ? []
        : [forbiddenMatch("resourceVersionMatch is forbidden unless resourceVersion is provided")]),
      ...(match === "" || token === ""
        ? []
        : [forbiddenMatch("resourceVersionMatch is forbidden when continue is provided")]),
      ...(["", "Exact", "NotOlderThan"].includes(match)
        ? []
        : [unsupportedMatch(match, `"Exact", "NotOlderThan", ""`)]),
      ...(match === "Exact" && wanted === "0"
        ? [forbiddenMatch(`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)]
        : []),
      ...(sendInitialEvents === undefined || sendInitialEvents === ""
        ? []
        : [forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")])
    ])
    const selection = yield* parseSelection(type, request)
    const parsed = token === "" ? undefined : yield* decodeToken(token)
    if (token !== "" && wanted !== "" && wanted !== "0") {
      return yield* Either.left(Failure.badRequest("specifying resource version is not allowed when using continue"))
    }
    const version = wanted === "" ? undefined : parseVersion(wanted)
    if (wanted !== "" && version === undefined) {
      return yield* Either.left(Failure.badRequest(`invalid resource version: ${versionError(wanted)}`))
    }
    if (version !== undefined && version > state.version) {
      const by = selection.name !== undefined && limit !== undefined && limit > 0 ? "storage" : "cache"
      return yield* Either.left(Failure.tooLarge(version, state.version, by))
    }
    const prefix = request.namespace === undefined ? "" : `${request.namespace}/`
    let shown = state.version
    let start = prefix
    if (parsed !== undefined) {
      start = prefix + parsed.start
      if (parsed.version > 0) {
        if (parsed.version < state.log.floor) {
          return yield* Either.left(Failure.expired(expiredTokenText, encodeToken(-1, parsed.start)))
        }
        shown = parsed.version
      }
    } else if (version !== undefined && version !== 0) {
      const exact =
        match === "Exact" || (match === "" && limit !== undefined && limit > 0 && selection.name === undefined)
      if (exact) {
        if (version < state.log.floor) {
          return yield* Either.left(Failure.expired("The resourceVersion for the provided list is too old."))
        }
        shown = version
      }
    }
    const page = limit !== undefined && limit > 0 && version !== 0 ? limit : Infinity
    const objects = objectsAt(state, Registry.typeKey(type), shown)
    const items: Array<Json.JsonObject> = []
    let last: string | undefined
    let more = false
    for (const [key, object] of candidates(objects, prefix, start, selection)) {
      // Whether what is left matches is not looked at: the next page may be empty
      if (items.length >= page) {
        more = true
        break
      }
      if (!selection.matches(object)) continue
      items.push(object)
      last = key
    }
    const slash = type.group === "" && type.plural === "events" ? "" : "/"
    const remaining =
      last === undefined ? 0 : OrderedMap.rank(objects, afterPrefix(prefix)) - OrderedMap.rank(objects, `${last}\u0000`)
    return {
      state,
      status: 200,
      body: renderList(type, items, {
        resourceVersion: String(shown),
        ...(more && last !== undefined
          ? {
              continue: encodeToken(shown, `${slash}${last.slice(prefix.length)}\u0000`),
              ...(selection.all ? { remainingItemCount: remaining } : {})
            }
          : {})
      })
    }
  })

/** The least key that is greater than all keys with a prefix. `0` follows `/` in ASCII. */
const afterPrefix = (prefix: string): string => (prefix === "" ? "\uffff" : `${prefix.slice(0, -1)}0`)

function* candidates(
  objects: OrderedMap.OrderedMap<Json.JsonObject>,
  prefix: string,
  start: string,
  selection: Selection
): IterableIterator<readonly [string, Json.JsonObject]> {
  // One object asked for by name must not cost a walk over its namespace
  if (selection.name !== undefined && prefix !== "") {
    const key = prefix + selection.name
    const object = key >= start ? OrderedMap.get(objects, key) : undefined
    if (object !== undefined) yield [key, object]
    return
  }
  yield* OrderedMap.withPrefix(objects, prefix, start)
}

/** A watch that may start. */
export interface Watch {
  readonly definition: Registry.ResourceDefinition
  readonly namespace: string | undefined
  readonly selection: Selection
  /** Objects that are sent first, as ADDED. */
  readonly initial: ReadonlyArray<Json.JsonObject>
  /** Events after this version follow. */
  readonly from: number
  readonly bookmarks: boolean
  /** Whether a bookmark with `k8s.io/initial-events-end` follows the initial objects. */
  readonly marksEnd: boolean
  readonly timeoutSeconds: number | undefined
  /** Refused after the response has begun: an ERROR frame (410, or 504 after its delay). */
  readonly failure: Failure.Failure | undefined
}

/** Checks a watch request and says how it starts. */
export const watch = (state: State, request: KubeRequest.KubeRequest): Step<Watch> =>
  Either.gen(function* () {
    const type = yield* resolve(state, request)
    if (!type.verbs.includes("watch")) return yield* Either.left(Failure.methodNotAllowed)
    const {
      allowWatchBookmarks,
      resourceVersion: wanted = "",
      resourceVersionMatch: match = "",
      sendInitialEvents
    } = request.query
    const timeoutSeconds = yield* parseInteger(request.query["timeoutSeconds"])
    const token = request.query["continue"] ?? ""
    yield* parseSelectors(request)
    yield* checkOptions([
      ...(sendInitialEvents !== undefined && match !== "NotOlderThan"
        ? [forbiddenMatch("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
        : []),
      ...(sendInitialEvents === undefined && match !== ""
        ? [forbiddenMatch("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")]
        : []),
      ...(match === "" || match === "NotOlderThan" ? [] : [unsupportedMatch(match, `"NotOlderThan"`)]),
      ...(token === "" ? [] : [forbiddenMatch("resourceVersionMatch is forbidden when continue is provided")])
    ])
    const selection = yield* parseSelection(type, request)
    const version = wanted === "" ? 0 : parseVersion(wanted)
    if (version === undefined) return yield* Either.left(Failure.plain(versionError(wanted)))
    const bookmarks = isTrue(allowWatchBookmarks)
    const synthetic = sendInitialEvents === undefined ? version === 0 : isTrue(sendInitialEvents)
    const base = { definition: type, namespace: request.namespace, selection, bookmarks, timeoutSeconds }
    if (synthetic) {
      if (version > state.version) {
        return {
          ...base,
          initial: [],
          from: version,
          marksEnd: false,
          failure: Failure.tooLarge(version, state.version)
        }
      }
      const prefix = request.namespace === undefined ? "" : `${request.namespace}/`
      const objects = OrderedMap.get(state.types, Registry.typeKey(type))
      const initial: Array<Json.JsonObject> = []
      for (const [, object] of candidates(objects, prefix, prefix, selection)) {
        if (selection.matches(object)) initial.push(object)
      }
      return { ...base, initial, from: state.version, marksEnd: bookmarks, failure: undefined }
    }
    const tooOld = version > 0 && version < state.log.floor
    return {
      ...base,
      initial: [],
      from: version === 0 ? state.version : version,
      marksEnd: false,
      failure: tooOld ? tooOldVersion(type, version, state.log.floor) : undefined
    }
  })
