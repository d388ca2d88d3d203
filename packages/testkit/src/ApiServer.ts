/**
 * Serves any `KubeTransport` as the Kubernetes REST API over HTTP or HTTPS, so that kubectl and any client library can use
 * it: discovery, objects, Tables, watches, logs, Status bodies, users. `node:http` is used directly: a quiet watch has to
 * send its headers at once, one event has to be one chunk, and a connection has to be able to break in the middle.
 *
 * @module
 */
import * as Http from "node:http"
import * as Https from "node:https"
import { TLSSocket } from "node:tls"
import type { Status } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import type { Duration, Scope } from "effect"
import { Clock, Context, Data, Effect, Either, FiberId, FiberSet, Layer, Option } from "effect"
import * as Yaml from "yaml"
import * as Registry from "./Registry.js"
import * as Cluster from "./Cluster.js"
import * as Rbac from "./Rbac.js"
import * as Answer from "./serve/Answer.js"
import * as Documents from "./serve/Documents.js"
import * as Exchange from "./serve/Exchange.js"
import * as Negotiation from "./serve/Negotiation.js"
import * as Printer from "./serve/Printer.js"
import * as Table from "./Table.js"

/** What a request proves about its sender. Empty for a request without credentials. */
export interface Credentials {
  /** A bearer token. */
  readonly token?: string
  /** A client certificate that the server's `clientCa` has signed. */
  readonly certificate?: { readonly commonName: string; readonly organizations: ReadonlyArray<string> }
}

/** A request to a path that is not the Kubernetes API, see `Options.routes`. */
export interface RouteRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly subject: Rbac.Subject
  /** Parsed JSON; absent when the request has no body. */
  readonly body?: unknown
}

/** The answer to a `RouteRequest`. */
export interface RouteAnswer {
  readonly answer: Answer.Answer
  /** Done when the answer has left. */
  readonly afterwards?: Effect.Effect<void>
}

/** Options of `serve`. */
export interface Options {
  /** The API as a subject sees it. */
  readonly transport: (subject: Rbac.Subject) => KubeTransport
  /** The types that discovery tells of. */
  readonly registry: Registry.Registry
  /**
   * Who has these credentials; nobody: 401 for a token, `system:anonymous` for a request without one. Default:
   * certificates name their user, and there are no tokens.
   */
  readonly authenticate?: (credentials: Credentials) => Effect.Effect<Option.Option<Rbac.Subject>>
  /** Address to listen on; default `127.0.0.1`. */
  readonly host?: string
  /** Port to listen on; default 0, any free one. */
  readonly port?: number
  /** PEM texts. Without them plain HTTP is served, over which kubectl sends no token. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string }
  /** `gitVersion` of `/version` where the transport does not answer that; default `v1.37.2`. */
  readonly version?: string
  /** Paths beside the Kubernetes API. */
  readonly routes?: {
    readonly prefix: string
    readonly handle: (request: RouteRequest) => Effect.Effect<RouteAnswer>
  }
  /**
   * A stream that neither fails nor delivers for so long (of real time) counts as open, and its headers are sent; default
   * 10 ms. Raise it for a transport that is itself remote.
   */
  readonly openAfter?: Duration.DurationInput
}

/** One user of a kubeconfig. */
export interface KubeconfigUser {
  readonly name: string
  readonly token?: string
  /** A client certificate and its key, PEM. */
  readonly certificate?: { readonly cert: string; readonly key: string }
  /** Default namespace of the user's context. */
  readonly namespace?: string
}

/** A running server. */
export interface Server {
  /** Without a trailing slash. */
  readonly url: string
  readonly port: number
  /** A kubeconfig as YAML with one context per user, the first one current. It holds the tokens. */
  readonly kubeconfig: (...users: ReadonlyArray<KubeconfigUser>) => string
  /** Breaks every connection at once, as the loss of a load balancer does. */
  readonly dropConnections: Effect.Effect<void>
  /** How many connections are open. */
  readonly connections: Effect.Effect<number>
}

/** Service tag of a running server. */
export class ApiServer extends Context.Tag("@dispatch-kubeflow/testkit/ApiServer")<ApiServer, Server>() {}

/** The server cannot listen. */
export class ApiServerError extends Data.TaggedError("ApiServerError")<{
  readonly host: string
  readonly port: number
  readonly cause: unknown
}> {
  override get message(): string {
    const why = this.cause instanceof Error ? this.cause.message : String(this.cause)
    return `cannot serve on ${this.host}:${this.port}: ${why}. Choose another port, or 0 for any free one.`
  }
}

/**
 * Authenticates fixed tokens, and client certificates as Kubernetes does (CN is the user, each O a group). Other tokens,
 * e.g. those of service accounts, are asked of `otherwise`.
 */
export const authenticateWith =
  (
    tokens: Readonly<Record<string, Rbac.Subject>>,
    otherwise: (token: string) => Effect.Effect<Option.Option<Rbac.Subject>> = () => Effect.succeedNone
  ) =>
  ({ certificate, token }: Credentials): Effect.Effect<Option.Option<Rbac.Subject>> => {
    if (token !== undefined) {
      const subject = Object.hasOwn(tokens, token) ? tokens[token] : undefined
      return subject === undefined ? otherwise(token) : Effect.succeedSome(subject)
    }
    return certificate === undefined
      ? Effect.succeedNone
      : Effect.succeedSome({ user: certificate.commonName, groups: certificate.organizations })
  }

const authenticated = (subject: Rbac.Subject): Rbac.Subject =>
  subject.groups.includes("system:authenticated") || subject.groups.includes("system:unauthenticated")
    ? subject
    : { ...subject, groups: [...subject.groups, "system:authenticated"] }

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isStatusObject = (value: unknown): boolean => isRecord(value) && value["kind"] === "Status"

/** The credentials of a request. Basic credentials count as none, as they do upstream. */
const credentialsOf = (request: Http.IncomingMessage): Credentials => {
  const bearer = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")
  const { socket } = request
  const peer = socket instanceof TLSSocket && socket.authorized ? socket.getPeerCertificate().subject : undefined
  const organizations: unknown = peer?.O
  return {
    ...(bearer?.[1] === undefined ? {} : { token: bearer[1] }),
    ...(typeof peer?.CN === "string"
      ? {
          certificate: {
            commonName: peer.CN,
            organizations: Array.isArray(organizations)
              ? organizations.map(String)
              : typeof organizations === "string"
                ? [organizations]
                : []
          }
        }
      : {})
  }
}

/** `/api/v1/watch/…` is the old spelling of `?watch=true`. */
const withoutLegacyWatch = (
  path: string,
  query: ReadonlyArray<readonly [string, string]>
): readonly [string, ReadonlyArray<readonly [string, string]>] => {
  const match = /^(\/api\/[^/]+|\/apis\/[^/]+\/[^/]+)\/watch(\/.+)$/.exec(path)
  return match === null ? [path, query] : [`${match[1]}${match[2]}`, [...query, ["watch", "true"]]]
}

/** What the authorizer is asked: a request's attributes, or an impersonation's. */
type Asked = Pick<KubeRequest.KubeRequest, "group" | "plural" | "subresource" | "namespace" | "name"> & {
  readonly verb: string
}

const accessReviewOf = ({ plural, ...attributes }: Asked): KubeRequest.KubeRequest =>
  KubeApi.accessReviewOf({ ...attributes, resource: plural })

const isDenied = (review: unknown): boolean =>
  isRecord(review) && isRecord(review["status"]) && review["status"]["allowed"] === false

const forbidden = (subject: Rbac.Subject, request: Asked): Status => {
  const type = request.group === "" ? request.plural : `${request.plural}.${request.group}`
  const named = request.name === undefined || request.verb === "create" ? type : `${type} "${request.name}"`
  const resource = request.subresource === undefined ? request.plural : `${request.plural}/${request.subresource}`
  const where = request.namespace === undefined ? "at the cluster scope" : `in the namespace "${request.namespace}"`
  return Answer.status(
    403,
    `${named} is forbidden: User "${subject.user}" cannot ${request.verb} resource "${resource}" in API group "${request.group}" ${where}`,
    {
      ...(request.name === undefined || request.verb === "create" ? {} : { name: request.name }),
      ...(request.group === "" ? {} : { group: request.group }),
      kind: request.plural
    }
  )
}

const printed = (
  body: unknown,
  representation: Negotiation.Representation
): { readonly contentType: string; readonly content: string } => ({
  contentType: Negotiation.contentTypeOf(representation.syntax),
  content: Negotiation.print(body, representation)
})

interface Impersonation {
  readonly subject: Rbac.Subject
  /** The permissions that it takes. */
  readonly asked: ReadonlyArray<Asked>
}

/** Whom the `Impersonate-` headers (kubectl's `--as`, `--as-group`) name. */
const impersonated = (request: Http.IncomingMessage): Either.Either<Impersonation, Status> | undefined => {
  const values = (name: string): ReadonlyArray<string> => request.headersDistinct[name] ?? []
  const [user] = values("impersonate-user")
  const groups = values("impersonate-group")
  if (user === undefined) {
    return groups.length === 0
      ? undefined
      : Either.left(Answer.status(400, `requested groups ${groups.join(", ")} without impersonating a user name`))
  }
  const permission = (plural: string, name: string, namespace?: string): Asked => ({
    verb: "impersonate",
    group: "",
    plural,
    name,
    ...(namespace === undefined ? {} : { namespace })
  })
  const [, namespace, account] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? []
  const isAccount = namespace !== undefined && account !== undefined
  const own = isAccount && groups.length === 0 ? Rbac.serviceAccount(namespace, account).groups : groups
  return Either.right({
    subject: user === Rbac.anonymous.user ? Rbac.anonymous : authenticated({ user, groups: own }),
    asked: [
      isAccount ? permission("serviceaccounts", account, namespace) : permission("users", user),
      ...groups.map((name) => permission("groups", name))
    ]
  })
}

/** The handler of one server: everything between a request line and its answer. */
const makeHandler = (options: Options) => {
  const version = options.version ?? "v1.37.2"
  const openAfter = options.openAfter ?? "10 millis"
  const printJson = Printer.make()
  const authenticate = options.authenticate ?? authenticateWith({})
  const find = (request: KubeRequest.KubeRequest): Registry.ResourceDefinition | undefined =>
    Registry.lookup(options.registry, request.group, request.version, request.plural)

  const isAllowed = (subject: Rbac.Subject, asked: Asked): Effect.Effect<boolean> =>
    options
      .transport(subject)
      .call(accessReviewOf(asked))
      .pipe(
        Effect.map((review) => !isDenied(review.body)),
        Effect.orElseSucceed(() => true)
      )

  /** Whom the request is from; left: the refusal of credentials, or of an impersonation. */
  const subjectOf = (request: Http.IncomingMessage): Effect.Effect<Either.Either<Rbac.Subject, Status>> =>
    Effect.gen(function* () {
      const credentials = credentialsOf(request)
      const claimed = yield* authenticate(credentials)
      if (Option.isNone(claimed) && credentials.token !== undefined) {
        return Either.left(Answer.status(401, "Unauthorized"))
      }
      const own = Option.match(claimed, { onNone: () => Rbac.anonymous, onSome: authenticated })
      const wanted = impersonated(request)
      if (wanted === undefined) return Either.right(own)
      if (Either.isLeft(wanted)) return Either.left(wanted.left)
      for (const asked of wanted.right.asked) {
        if (!(yield* isAllowed(own, asked))) return Either.left(forbidden(own, asked))
      }
      return Either.right(wanted.right.subject)
    })

  /** An HTTP-level refusal; who lacks the permission hears that first, as authorization runs before routing. */
  const refuse = (
    exchange: Exchange.Exchange,
    subject: Rbac.Subject,
    request: KubeRequest.KubeRequest,
    answer: Answer.Answer
  ): Effect.Effect<void> =>
    Effect.flatMap(isAllowed(subject, request), (allowed) =>
      allowed ? Exchange.send(exchange, answer) : Exchange.sendStatus(exchange, forbidden(subject, request))
    )

  const nonResource = (exchange: Exchange.Exchange, subject: Rbac.Subject, path: string): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { request } = exchange
      const known = Documents.at({ registry: options.registry, version, path, accept: request.headers.accept })
      if (known !== undefined && request.method !== "GET")
        return yield* Exchange.send(exchange, Answer.methodNotAllowed)
      // The transport authorizes, and may know better
      const asked = yield* Effect.either(options.transport(subject).call(KubeRequest.nonResource(path)))
      if (Either.isLeft(asked) && asked.left._tag !== "KubeNotFound") {
        return yield* Exchange.send(exchange, Answer.fromError(asked.left))
      }
      if (Either.isRight(asked) && (known === undefined || known.replaceable)) {
        const { body, serverTime, status } = asked.right
        return yield* Exchange.send(
          exchange,
          typeof body === "string" ? Answer.plain(status, body) : Answer.json(status, body),
          serverTime
        )
      }
      return yield* Exchange.send(exchange, known === undefined ? Answer.pageNotFound : known.answer)
    })

  const watch = (
    exchange: Exchange.Exchange,
    transport: KubeTransport,
    request: KubeRequest.KubeRequest,
    representation: Negotiation.Representation
  ): Effect.Effect<void> => {
    let columns = true
    const objectOf = (frame: WatchFrame, now: number): unknown => {
      switch (representation.as) {
        case "object":
          return frame.object
        case "partial":
          return Table.partialObjectMetadata(frame.object)
        case "table": {
          const table = Table.toTable(request, frame.object, {
            now,
            includeObject: representation.includeObject,
            columns
          })
          columns = false
          return table
        }
      }
    }
    return Exchange.sendStream(exchange, {
      stream: transport.watch(request),
      contentType: "application/json",
      openAfter,
      encode: (frame) =>
        Effect.map(
          Clock.currentTimeMillis,
          (now) => `${JSON.stringify({ type: frame.type, object: objectOf(frame, now) })}\n`
        ),
      failed: (error) => `${JSON.stringify({ type: "ERROR", object: Answer.statusOf(error) })}\n`,
      // HTTP 410 was never seen on a watch: a version that is too old is told by a frame
      inStream: (error) => error._tag === "KubeExpired"
    })
  }

  const log = (
    exchange: Exchange.Exchange,
    transport: KubeTransport,
    request: KubeRequest.KubeRequest
  ): Effect.Effect<void> =>
    Exchange.sendStream(exchange, {
      stream: transport.bytes(request),
      contentType: "text/plain",
      openAfter,
      encode: Effect.succeed,
      failed: () => undefined,
      inStream: () => false
    })

  const call = (
    exchange: Exchange.Exchange,
    transport: KubeTransport,
    request: KubeRequest.KubeRequest,
    representation: Negotiation.Representation
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      const answered = yield* Effect.either(transport.call(request))
      if (Either.isLeft(answered)) {
        const answer = Answer.fromError(answered.left)
        const isStatus = answer._tag === "Reply" && answer.body?.contentType === "application/json"
        return yield* Exchange.send(
          exchange,
          isStatus && representation.syntax === "yaml"
            ? { ...answer, body: printed(Answer.statusOf(answered.left), representation) }
            : answer
        )
      }
      const { body, serverTime, status, warnings } = answered.right
      const now = yield* Clock.currentTimeMillis
      const shown =
        representation.as === "object" || isStatusObject(body)
          ? body
          : representation.as === "partial"
            ? Table.toPartial(body)
            : Table.toTable(request, body, { now, includeObject: representation.includeObject })
      return yield* Exchange.send(
        exchange,
        {
          _tag: "Reply",
          code: status,
          headers: warnings.length === 0 ? {} : { Warning: warnings.map(Exchange.warningLine) },
          body:
            representation.syntax === "json" && !representation.pretty
              ? { contentType: Negotiation.contentTypeOf("json"), content: `${printJson(shown)}\n` }
              : printed(shown, representation)
        },
        serverTime
      )
    })

  /** What routing refuses before anything is asked of the transport. */
  const misrouted = (
    request: KubeRequest.KubeRequest,
    type: Registry.ResourceDefinition
  ): Answer.Answer | undefined => {
    const onName = request.name !== undefined
    if (request.subresource !== undefined) {
      const subresource = type.subresources.find((candidate) => candidate.name === request.subresource)
      if (subresource === undefined || subresource.verbs.includes(request.verb)) return undefined
      return type.custom
        ? Answer.json(
            405,
            Answer.status(405, `${request.verb} is not supported on resources of kind "${type.plural}.${type.group}"`, {
              group: type.group,
              kind: type.plural
            })
          )
        : Answer.methodNotAllowed
    }
    if (
      type.scope === "Namespaced" &&
      request.namespace === undefined &&
      ["create", "deletecollection"].includes(request.verb)
    ) {
      return type.custom ? Answer.pageNotFound : Answer.methodNotAllowed
    }
    if ((request.verb === "update" || request.verb === "patch") && !onName) {
      return type.custom ? Answer.json(400, Answer.status(400, "name must be provided")) : Answer.methodNotAllowed
    }
    if (request.verb === "create" && onName && !type.custom) return Answer.methodNotAllowed
    return type.verbs.includes(request.verb) ? undefined : Answer.methodNotAllowed
  }

  const resource = (
    exchange: Exchange.Exchange,
    subject: Rbac.Subject,
    asked: KubeRequest.KubeRequest,
    query: URLSearchParams
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { request: http } = exchange
      const transport = options.transport(subject)
      const type = find(asked)
      const wrong = type === undefined ? undefined : misrouted(asked, type)
      if (wrong !== undefined) return yield* refuse(exchange, subject, asked, wrong)

      if (asked.verb === "get" && asked.group === "" && asked.plural === "pods" && asked.subresource === "log") {
        return yield* log(exchange, transport, asked)
      }
      const shape = asked.verb === "watch" ? "watch" : asked.verb === "list" ? "list" : "object"
      const representation = Negotiation.representation(http.headers.accept, query, shape)
      if (Either.isLeft(representation)) {
        return yield* refuse(exchange, subject, asked, Answer.json(406, representation.left))
      }
      if (asked.verb === "watch") return yield* watch(exchange, transport, asked, representation.right)
      if (http.method === "GET") return yield* call(exchange, transport, asked, representation.right)

      const bytes = yield* Exchange.readBytes(http)
      if (bytes === undefined) return yield* refuse(exchange, subject, asked, Answer.json(413, Exchange.tooLarge))
      const sent = {
        method: http.method ?? "",
        contentType: http.headers["content-type"],
        bytes,
        kind: type?.kind ?? asked.plural,
        custom: type?.custom ?? false
      }
      const body = Negotiation.readBody(sent)
      if (Either.isLeft(body)) {
        // Whether the type is served at all comes before what its body is
        if (type === undefined) return yield* call(exchange, transport, asked, representation.right)
        return yield* refuse(exchange, subject, asked, Answer.json(body.left.code ?? 400, body.left))
      }
      // A POST to a custom resource's name is a create like any other
      const { body: _, name, ...rest } = asked
      const request: KubeRequest.KubeRequest = {
        ...rest,
        ...(name === undefined || (asked.verb === "create" && asked.subresource === undefined) ? {} : { name }),
        ...(body.right === undefined
          ? {}
          : {
              body:
                type?.virtual === false && typeof body.right === "object" && Negotiation.repeats(sent)
                  ? new TextDecoder().decode(bytes)
                  : body.right
            })
      }
      return yield* call(exchange, transport, request, representation.right)
    })

  const route = (
    exchange: Exchange.Exchange,
    subject: Rbac.Subject,
    path: string,
    query: URLSearchParams,
    handle: NonNullable<Options["routes"]>["handle"]
  ): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { request } = exchange
      const bytes = yield* Exchange.readBytes(request)
      if (bytes === undefined) return yield* Exchange.sendStatus(exchange, Exchange.tooLarge)
      const body =
        bytes.length === 0
          ? Either.right(undefined)
          : Negotiation.readBody({
              method: "POST",
              contentType: request.headers["content-type"],
              bytes,
              kind: "object",
              custom: false
            })
      if (Either.isLeft(body)) return yield* Exchange.sendStatus(exchange, body.left)
      const { afterwards, answer } = yield* handle({
        method: request.method ?? "GET",
        path,
        query,
        subject,
        ...(body.right === undefined ? {} : { body: body.right })
      })
      yield* Exchange.send(exchange, answer)
      if (afterwards === undefined) return
      // A response that has left ends its request, so that what comes after it must not be interruptible
      yield* Effect.uninterruptible(Effect.zipRight(Exchange.sent(exchange), afterwards))
    })

  const handle = (exchange: Exchange.Exchange): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { request } = exchange
      const method = request.method ?? "GET"
      const target = request.url ?? "/"
      const mark = target.indexOf("?")
      const rawPath = mark < 0 ? target : target.slice(0, mark)
      const query = new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1))
      const claimed = yield* subjectOf(request)
      if (Either.isLeft(claimed)) return yield* Exchange.sendStatus(exchange, claimed.left)
      const subject = claimed.right
      if (options.routes !== undefined && rawPath.startsWith(options.routes.prefix)) {
        return yield* route(exchange, subject, rawPath, query, options.routes.handle)
      }
      const [path, pairs] = withoutLegacyWatch(rawPath, [...query])
      const read = (asMethod: string): KubeRequest.KubeRequest | undefined =>
        KubeRequest.fromHttp({
          method: asMethod,
          path,
          query: pairs.filter(([name]) => name !== "includeObject" && name !== "pretty"),
          contentType: request.headers["content-type"]
        })
      const asked = read(method)
      if (asked?.nonResourcePath !== undefined) return yield* nonResource(exchange, subject, asked.nonResourcePath)
      if (asked !== undefined) return yield* resource(exchange, subject, asked, query)
      const asGet = read("GET")
      if (asGet === undefined) return yield* Exchange.send(exchange, Answer.pageNotFound)
      if (asGet.nonResourcePath !== undefined) return yield* nonResource(exchange, subject, asGet.nonResourcePath)
      return yield* refuse(exchange, subject, asGet, Answer.methodNotAllowed)
    })

  return (exchange: Exchange.Exchange): Effect.Effect<void> =>
    handle(exchange).pipe(
      Effect.catchAllDefect((defect) =>
        Effect.zipRight(
          Effect.logError("a request could not be answered", defect),
          exchange.response.headersSent
            ? Effect.sync(() => exchange.request.socket.destroySoon())
            : Exchange.sendStatus(exchange, Answer.status(500, "this is a fault of the served cluster, see its log"))
        )
      )
    )
}

/** The name of the cluster in every kubeconfig that a server writes. */
export const clusterName = "dispatch-kubeflow-testkit"

const base64 = (text: string): string => Buffer.from(text, "utf8").toString("base64")

const kubeconfigOf = (url: string, authority: string | undefined, users: ReadonlyArray<KubeconfigUser>): string => {
  const cluster = clusterName
  return Yaml.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: cluster,
        cluster: {
          server: url,
          ...(authority === undefined ? {} : { "certificate-authority-data": base64(authority) })
        }
      }
    ],
    users: users.map(({ certificate, name, token }) => ({
      name,
      user: {
        ...(token === undefined ? {} : { token }),
        ...(certificate === undefined
          ? {}
          : { "client-certificate-data": base64(certificate.cert), "client-key-data": base64(certificate.key) })
      }
    })),
    contexts: users.map((user) => ({
      name: user.name,
      context: { cluster, user: user.name, ...(user.namespace === undefined ? {} : { namespace: user.namespace }) }
    })),
    ...(users[0] === undefined ? {} : { "current-context": users[0].name })
  })
}

/** Starts serving; the server, its connections and its requests end with the scope. */
export const serve = Effect.fn("ApiServer.serve")(function* (
  options: Options
): Effect.fn.Return<Server, ApiServerError, Scope.Scope> {
  const host = options.host ?? "127.0.0.1"
  const server =
    options.tls === undefined
      ? Http.createServer()
      : Https.createServer({
          cert: options.tls.cert,
          key: options.tls.key,
          ...(options.tls.clientCa === undefined
            ? {}
            : { ca: options.tls.clientCa, requestCert: true, rejectUnauthorized: false })
        })
  // Longer than clients keep idle connections, so that a request never meets a closing one
  server.keepAliveTimeout = 90_000
  const port = yield* Effect.acquireRelease(
    Effect.async<number, ApiServerError>((resume) => {
      const failed = (cause: Error): void =>
        resume(Effect.fail(new ApiServerError({ host, port: options.port ?? 0, cause })))
      server.once("error", failed)
      server.listen(options.port ?? 0, host, () => {
        server.off("error", failed)
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  server.on("error", () => undefined)
  // An address that means every interface is none to connect to
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host
  const authority = `${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`
  const url = `${options.tls === undefined ? "http" : "https"}://${authority}`
  const handle = makeHandler(options)
  // Made after the server: its fibers are interrupted before the connections are closed
  const run = yield* FiberSet.makeRuntime()
  server.on("request", (request: Http.IncomingMessage, response: Http.ServerResponse) => {
    // A connection that breaks is not a fault of the server; the `close` that follows ends the request
    request.on("error", () => undefined)
    response.on("error", () => undefined)
    const fiber = run(handle({ request, response }))
    response.on("close", () => fiber.unsafeInterruptAsFork(FiberId.none))
  })
  return {
    url,
    port,
    kubeconfig: (...users) => kubeconfigOf(url, options.tls?.cert, users),
    dropConnections: Effect.sync(() => server.closeAllConnections()),
    connections: Effect.async<number>((resume) => {
      server.getConnections((_, count) => resume(Effect.succeed(count)))
    })
  }
})

/** A layer of `serve`. */
export const layer = (options: Options): Layer.Layer<ApiServer, ApiServerError> =>
  Layer.scoped(ApiServer, serve(options))

/** Options of `serveCluster`. */
export interface ClusterOptions extends Omit<Options, "transport" | "registry" | "authenticate" | "version"> {
  /** Users by bearer token, beside the tokens that the cluster gives to its service accounts. */
  readonly tokens?: Readonly<Record<string, Rbac.Subject>>
  /** Whom a request without credentials is from; default `system:anonymous`. */
  readonly anonymous?: Rbac.Subject
}

/** Serves the in-memory cluster: its types, its users' permissions, its service accounts' tokens. */
export const serveCluster = ({ anonymous, tokens = {}, ...options }: ClusterOptions = {}): Effect.Effect<
  Server,
  ApiServerError,
  Scope.Scope | Cluster.Cluster
> =>
  Effect.flatMap(Cluster.Cluster, (cluster) => {
    const known = authenticateWith(tokens, cluster.tokenOwner)
    return serve({
      ...options,
      transport: cluster.transport,
      registry: cluster.registry,
      version: cluster.serverVersion,
      authenticate: (credentials) =>
        Effect.map(known(credentials), (subject) =>
          credentials.token === undefined ? Option.orElse(subject, () => Option.fromNullable(anonymous)) : subject
        )
    })
  })

/** A layer of `serveCluster`. */
export const layerCluster = (options: ClusterOptions = {}): Layer.Layer<ApiServer, ApiServerError, Cluster.Cluster> =>
  Layer.scoped(ApiServer, serveCluster(options))
