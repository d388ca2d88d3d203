/**
 * The Kubernetes API as one Effect service. `make` derives it from any `KubeTransport`, so that the live and the in-memory
 * API cannot disagree about decoding, paging or errors.
 *
 * @module
 */
import { Context, Effect, Either, Layer, Option, type ParseResult, Schema, Stream } from "effect"
import { KubeExpired, type KubeError, KubeMalformed } from "./KubeError.js"
import * as KubeRequest from "./KubeRequest.js"
import type { KubeReply, KubeTransport, WatchFrame } from "./KubeTransport.js"
import * as Resource from "./Resource.js"
import * as Selector from "./Selector.js"

/** Names one object: the namespace is required exactly when the type is namespaced. */
export type Ref<S extends Resource.Scope> = [S] extends ["Namespaced"]
  ? { readonly namespace: string; readonly name: string }
  : [S] extends ["Cluster"]
    ? { readonly name: string; readonly namespace?: never }
    : { readonly namespace?: string; readonly name: string }

/** Names a collection: one namespace or, said out loud, all of them. Nothing for cluster-scoped types. */
export type In<S extends Resource.Scope> = [S] extends ["Namespaced"]
  ? { readonly namespace: string } | { readonly allNamespaces: true }
  : [S] extends ["Cluster"]
    ? { readonly namespace?: never }
    : { readonly namespace?: string }

/** What narrows a list or a watch. */
export interface Selection {
  readonly labels?: Selector.LabelSelector | undefined
  readonly fields?: Selector.FieldSelector | undefined
}

/** An object that the schema of its type refuses: told and skipped, never a reason to end a list or a watch. */
export interface Undecodable {
  readonly namespace: string | undefined
  readonly name: string | undefined
  readonly resourceVersion: string | undefined
  readonly issue: string
}

/** A complete list at one resource version. */
export interface Listed<A> {
  readonly items: ReadonlyArray<A>
  readonly undecodable: ReadonlyArray<Undecodable>
  /** Where a watch continues. */
  readonly resourceVersion: string
}

/** One decoded event of one watch connection. */
export type WatchEvent<A> =
  | {
      readonly _tag: "Applied"
      readonly type: "ADDED" | "MODIFIED"
      readonly object: A
      readonly resourceVersion: string
    }
  | { readonly _tag: "Deleted"; readonly object: A; readonly resourceVersion: string }
  | { readonly _tag: "Bookmark"; readonly resourceVersion: string; readonly initialEventsEnd: boolean }
  | { readonly _tag: "Undecodable"; readonly deleted: boolean; readonly object: Undecodable }

/** Options of a watch connection. */
export interface WatchOptions extends Selection {
  /** Events after this version; without it the server starts with the present objects as ADDED. */
  readonly resourceVersion?: string | undefined
  /** The server ends the connection in order after so many seconds. */
  readonly timeoutSeconds?: number | undefined
}

/** Options of every write. */
export interface WriteOptions {
  /** Runs permission checks, admission and validation, stores nothing. */
  readonly dryRun?: boolean | undefined
  readonly fieldManager?: string | undefined
}

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  readonly type: KubeRequest.PatchType
  readonly body: unknown
  /** Server-side apply: take fields from other managers. */
  readonly force?: boolean | undefined
  readonly subresource?: string | undefined
}

/** Options of a delete. Send `uid`, so that a re-created object of the same name is not hit. */
export interface RemoveOptions {
  readonly propagation: "Background" | "Foreground" | "Orphan"
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
  readonly gracePeriodSeconds?: number | undefined
  readonly dryRun?: boolean | undefined
}

/** Options of `pods/log`. */
export interface LogOptions {
  readonly container: string
  readonly follow?: boolean | undefined
  readonly previous?: boolean | undefined
  readonly timestamps?: boolean | undefined
  /** RFC 3339. The API server cuts it to whole seconds on the way to the kubelet. */
  readonly sinceTime?: string | undefined
  readonly tailLines?: number | undefined
  readonly limitBytes?: number | undefined
}

/** What a permission is about. Leave `namespace` out for cluster-scoped resources. */
export interface AccessAttributes {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly subresource?: string | undefined
  readonly namespace?: string | undefined
  readonly name?: string | undefined
}

/** The request that asks the authorizer about oneself: a SelfSubjectAccessReview. */
export const accessReviewOf = (attributes: AccessAttributes): KubeRequest.KubeRequest =>
  KubeRequest.make(
    "create",
    { group: "authorization.k8s.io", version: "v1", plural: "selfsubjectaccessreviews" },
    {
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: {
          resourceAttributes: {
            verb: attributes.verb,
            group: attributes.group,
            resource: attributes.resource,
            ...(attributes.subresource === undefined ? {} : { subresource: attributes.subresource }),
            ...(attributes.namespace === undefined ? {} : { namespace: attributes.namespace }),
            ...(attributes.name === undefined ? {} : { name: attributes.name })
          }
        }
      }
    }
  )

/** The authorizer's answer. With `evaluationError` a `false` is not a denial but no answer. */
export interface AccessAnswer {
  readonly allowed: boolean
  readonly reason?: string
  readonly evaluationError?: string
}

/** One API group version that the server serves. */
export interface ServedGroupVersion {
  readonly group: string
  readonly version: string
}

/** The typed Kubernetes API. Every method has `R = never` and fails with `KubeError` alone. */
export interface Service {
  /** The three functions everything here is derived from. */
  readonly transport: KubeTransport
  /** Reads one object. */
  readonly get: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    ref: Ref<S>
  ) => Effect.Effect<A, KubeError>
  /** Reads one object together with the server's clock (epoch milliseconds) at that moment. */
  readonly getWithTime: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    ref: Ref<S>
  ) => Effect.Effect<{ readonly object: A; readonly serverTime: number | undefined }, KubeError>
  /** Lists a collection completely, in pages of 500. An expired page token restarts it; a part is never returned. */
  readonly list: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    options: In<S> & Selection
  ) => Effect.Effect<Listed<A>, KubeError>
  /** One watch connection, decoded. `Follow.follow` is what survives its end. */
  readonly watch: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    options: In<S> & WatchOptions
  ) => Stream.Stream<WatchEvent<A>, KubeError>
  /** Creates an object; `apiVersion` and `kind` are filled in. */
  readonly create: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    where: In<S>,
    object: object,
    options?: WriteOptions
  ) => Effect.Effect<A, KubeError>
  /** Replaces an object with one that was read and changed (its `resourceVersion` is the lock). */
  readonly replace: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    object: A,
    options?: WriteOptions & { readonly subresource?: string | undefined }
  ) => Effect.Effect<A, KubeError>
  /** Patches an object; with type `apply` creates it where missing. */
  readonly patch: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    ref: Ref<S>,
    options: PatchOptions
  ) => Effect.Effect<A, KubeError>
  /** Deletes an object. Done means accepted: finalizers and grace periods go on. */
  readonly remove: <A extends Resource.KubeObject, S extends Resource.Scope>(
    resource: Resource.Resource<A, S>,
    ref: Ref<S>,
    options: RemoveOptions
  ) => Effect.Effect<void, KubeError>
  /** A container's log as bytes; interrupting the stream closes the connection. */
  readonly log: (
    pod: { readonly namespace: string; readonly name: string },
    options: LogOptions
  ) => Stream.Stream<Uint8Array, KubeError>
  /** Asks the authorizer whether the caller may do something (SelfSubjectAccessReview). */
  readonly accessReview: (attributes: AccessAttributes) => Effect.Effect<AccessAnswer, KubeError>
  /** The API group versions served (`/apis`), preferred version first per group. */
  readonly groupVersions: Effect.Effect<ReadonlyArray<ServedGroupVersion>, KubeError>
  /** The server's version (`/version`), e.g. `v1.37.2`. */
  readonly serverVersion: Effect.Effect<string, KubeError>
}

/** The service tag. */
export class KubeApi extends Context.Tag("@dispatch-kubeflow/core/KubeApi")<KubeApi, Service>() {}

const pageSize = 500
const listRestarts = 3

const namespaceOf = (where: object): string | undefined =>
  "namespace" in where && typeof where.namespace === "string" ? where.namespace : undefined

const selectionQuery = (selection: Selection): Record<string, string | undefined> => ({
  labelSelector: Selector.formatLabels(selection.labels ?? []),
  fieldSelector: Selector.formatFields(selection.fields ?? [])
})

const writeQuery = (options: WriteOptions | undefined): Record<string, string | undefined> => ({
  dryRun: options?.dryRun === true ? "All" : undefined,
  fieldManager: options?.fieldManager
})

const LooseMeta = Schema.Struct({
  metadata: Schema.Struct({
    name: Schema.optional(Schema.String),
    namespace: Schema.optional(Schema.NullOr(Schema.String)),
    resourceVersion: Schema.optional(Schema.String),
    annotations: Schema.optional(Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.String })))
  })
})
const decodeLooseMeta = Schema.decodeUnknownOption(LooseMeta)

const undecodable = (value: unknown, issue: string): Undecodable => {
  const meta = Option.getOrUndefined(decodeLooseMeta(value))?.metadata
  return {
    namespace: meta?.namespace ?? undefined,
    name: meta?.name,
    resourceVersion: meta?.resourceVersion,
    issue
  }
}

const ListBody = Schema.Struct({
  metadata: Schema.Struct({
    resourceVersion: Schema.String,
    continue: Schema.optional(Schema.String)
  }),
  // Go writes an empty list as null where the field has no omitempty
  items: Schema.NullOr(Schema.Array(Schema.Unknown))
})
const decodeListBody = Schema.decodeUnknownEither(ListBody)

const ReviewBody = Schema.Struct({
  status: Schema.Struct({
    allowed: Schema.Boolean,
    reason: Schema.optional(Schema.String),
    evaluationError: Schema.optional(Schema.String)
  })
})
const decodeReviewBody = Schema.decodeUnknownEither(ReviewBody)

const GroupVersion = Schema.Struct({ groupVersion: Schema.String, version: Schema.String })
const GroupList = Schema.Struct({
  groups: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      versions: Schema.Array(GroupVersion),
      preferredVersion: Schema.optional(GroupVersion)
    })
  )
})
const decodeGroupList = Schema.decodeUnknownEither(GroupList)
const decodeVersion = Schema.decodeUnknownEither(Schema.Struct({ gitVersion: Schema.String }))

const decodeFrame = <A extends Resource.KubeObject>(
  resource: Resource.Resource<A>,
  frame: WatchFrame
): WatchEvent<A> => {
  if (frame.type === "BOOKMARK") {
    const meta = Option.getOrUndefined(decodeLooseMeta(frame.object))?.metadata
    return {
      _tag: "Bookmark",
      resourceVersion: meta?.resourceVersion ?? "",
      initialEventsEnd: meta?.annotations?.["k8s.io/initial-events-end"] === "true"
    }
  }
  const decoded = resource.decode(frame.object)
  if (Either.isLeft(decoded)) {
    return {
      _tag: "Undecodable",
      deleted: frame.type === "DELETED",
      object: undecodable(frame.object, Resource.describeIssues(decoded.left))
    }
  }
  const object = decoded.right
  const resourceVersion = object.metadata.resourceVersion ?? ""
  return frame.type === "DELETED"
    ? { _tag: "Deleted", object, resourceVersion }
    : { _tag: "Applied", type: frame.type, object, resourceVersion }
}

/** Derives the typed API from a transport. */
export const make = (transport: KubeTransport): Service => {
  const malformed = (request: KubeRequest.KubeRequest, detail: string): KubeMalformed =>
    new KubeMalformed({ request: KubeRequest.withoutBody(request), detail })

  const decodeReply = <B>(
    request: KubeRequest.KubeRequest,
    decode: (value: unknown) => Either.Either<B, ParseResult.ParseError>
  ): Effect.Effect<{ readonly object: B; readonly reply: KubeReply }, KubeError> =>
    Effect.flatMap(transport.call(request), (reply) =>
      Either.match(decode(reply.body), {
        onLeft: (error) => Effect.fail(malformed(request, Resource.describeIssues(error))),
        onRight: (object) => Effect.succeed({ object, reply })
      })
    )

  const call = <B>(
    request: KubeRequest.KubeRequest,
    decode: (value: unknown) => Either.Either<B, ParseResult.ParseError>
  ): Effect.Effect<B, KubeError> => Effect.map(decodeReply(request, decode), ({ object }) => object)

  const listOnce = <A extends Resource.KubeObject>(
    resource: Resource.Resource<A>,
    options: object & Selection
  ): Effect.Effect<Listed<A>, KubeError> =>
    Effect.gen(function* () {
      const items: Array<A> = []
      const skipped: Array<Undecodable> = []
      let token: string | undefined
      for (;;) {
        const request = KubeRequest.make("list", resource, {
          namespace: namespaceOf(options),
          query: { ...selectionQuery(options), limit: String(pageSize), continue: token }
        })
        const page = yield* call(request, decodeListBody)
        for (const item of page.items ?? []) {
          const decoded = resource.decode(item)
          if (Either.isRight(decoded)) items.push(decoded.right)
          else skipped.push(undecodable(item, Resource.describeIssues(decoded.left)))
        }
        token = page.metadata.continue
        if (token === undefined || token === "") {
          return { items, undecodable: skipped, resourceVersion: page.metadata.resourceVersion }
        }
      }
    })

  const list: Service["list"] = (resource, options) =>
    // An expired page token means that the pages so far and the rest belong to different moments: start over
    Effect.retry(listOnce(resource, options), {
      times: listRestarts,
      while: (error) => error instanceof KubeExpired && "continue" in error.request.query
    })

  return {
    transport,
    get: (resource, ref) =>
      call(KubeRequest.make("get", resource, { namespace: namespaceOf(ref), name: ref.name }), resource.decode),
    getWithTime: (resource, ref) =>
      Effect.map(
        decodeReply(
          KubeRequest.make("get", resource, { namespace: namespaceOf(ref), name: ref.name }),
          resource.decode
        ),
        ({ object, reply }) => ({ object, serverTime: reply.serverTime })
      ),
    list,
    watch: (resource, options) =>
      Stream.map(
        transport.watch(
          KubeRequest.make("watch", resource, {
            namespace: namespaceOf(options),
            query: {
              ...selectionQuery(options),
              resourceVersion: options.resourceVersion,
              timeoutSeconds: options.timeoutSeconds === undefined ? undefined : String(options.timeoutSeconds),
              allowWatchBookmarks: "true"
            }
          })
        ),
        (frame) => decodeFrame(resource, frame)
      ),
    create: (resource, where, object, options) =>
      call(
        KubeRequest.make("create", resource, {
          namespace: namespaceOf(where),
          query: writeQuery(options),
          body: { apiVersion: Resource.apiVersion(resource), kind: resource.kind, ...object }
        }),
        resource.decode
      ),
    replace: (resource, object, options) =>
      call(
        KubeRequest.make("update", resource, {
          namespace: object.metadata.namespace ?? undefined,
          name: object.metadata.name,
          subresource: options?.subresource,
          query: writeQuery(options),
          body: { ...object, apiVersion: Resource.apiVersion(resource), kind: resource.kind }
        }),
        resource.decode
      ),
    patch: (resource, ref, options) =>
      call(
        KubeRequest.make("patch", resource, {
          namespace: namespaceOf(ref),
          name: ref.name,
          subresource: options.subresource,
          query: { ...writeQuery(options), force: options.force === undefined ? undefined : String(options.force) },
          body: options.body,
          patchType: options.type
        }),
        resource.decode
      ),
    remove: (resource, ref, options) =>
      Effect.asVoid(
        transport.call(
          KubeRequest.make("delete", resource, {
            namespace: namespaceOf(ref),
            name: ref.name,
            // With a body the server ignores the query, so everything travels in the body
            body: {
              apiVersion: "v1",
              kind: "DeleteOptions",
              propagationPolicy: options.propagation,
              ...(options.gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: options.gracePeriodSeconds }),
              ...(options.dryRun === true ? { dryRun: ["All"] } : {}),
              ...(options.uid === undefined && options.resourceVersion === undefined
                ? {}
                : {
                    preconditions: {
                      ...(options.uid === undefined ? {} : { uid: options.uid }),
                      ...(options.resourceVersion === undefined ? {} : { resourceVersion: options.resourceVersion })
                    }
                  })
            }
          })
        )
      ),
    log: (pod, options) =>
      transport.bytes(
        KubeRequest.make(
          "get",
          { group: "", version: "v1", plural: "pods" },
          {
            namespace: pod.namespace,
            name: pod.name,
            subresource: "log",
            query: {
              container: options.container,
              follow: options.follow === true ? "true" : undefined,
              previous: options.previous === true ? "true" : undefined,
              timestamps: options.timestamps === true ? "true" : undefined,
              sinceTime: options.sinceTime,
              tailLines: options.tailLines === undefined ? undefined : String(options.tailLines),
              limitBytes: options.limitBytes === undefined ? undefined : String(options.limitBytes)
            }
          }
        )
      ),
    accessReview: (attributes) =>
      Effect.map(call(accessReviewOf(attributes), decodeReviewBody), ({ status }) => ({
        allowed: status.allowed,
        ...(status.reason === undefined || status.reason === "" ? {} : { reason: status.reason }),
        ...(status.evaluationError === undefined || status.evaluationError === ""
          ? {}
          : { evaluationError: status.evaluationError })
      })),
    groupVersions: Effect.map(call(KubeRequest.nonResource("/apis"), decodeGroupList), ({ groups }) =>
      groups.flatMap((group) => {
        const preferred = group.preferredVersion?.version
        return group.versions
          .toSorted((a, b) => Number(b.version === preferred) - Number(a.version === preferred))
          .map(({ version }) => ({ group: group.name, version }))
      })
    ),
    serverVersion: Effect.map(call(KubeRequest.nonResource("/version"), decodeVersion), ({ gitVersion }) => gitVersion)
  }
}

/** A layer over a transport. */
export const layer = (transport: KubeTransport): Layer.Layer<KubeApi> => Layer.succeed(KubeApi, make(transport))

/** The same API with every request passed through a decorator of the transport (faults, audit, read-only …). */
export const transform =
  (decorate: (transport: KubeTransport) => KubeTransport) =>
  (api: Service): Service =>
    make(decorate(api.transport))

/**
 * A transport in which a write is a defect: whatever runs over it writes nothing, by construction. See
 * `KubeRequest.isWrite` for what counts as one.
 */
export const readOnly = (transport: KubeTransport): KubeTransport => {
  const refuse = (request: KubeRequest.KubeRequest): string =>
    `a read-only adapter tried to ${KubeRequest.describe(request)}: this is a fault of the adapter`
  return {
    call: (request) => (KubeRequest.isWrite(request) ? Effect.dieMessage(refuse(request)) : transport.call(request)),
    watch: transport.watch,
    bytes: transport.bytes
  }
}
