import { readFileSync } from "node:fs"
import * as Net from "node:net"
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport, WatchFrame } from "@dispatch-kubeflow/core/kube/KubeTransport"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Logger, Option, Queue, Ref, type Scope, Stream } from "effect"
import * as ApiServer from "../src/ApiServer.js"
import type * as Rbac from "../src/Rbac.js"
import * as Registry from "../src/Registry.js"
import * as Answer from "../src/serve/Answer.js"

const pods = { group: "", version: "v1", plural: "pods" } as const
const aRequest = KubeRequest.make("list", pods, { namespace: "a" })

const notServed: KubeTransport = {
  call: (request) => Effect.fail(KubeError.fromStatus(request, 404, undefined)),
  watch: (request) => Stream.fail(KubeError.fromStatus(request, 404, undefined)),
  bytes: (request) => Stream.fail(KubeError.fromStatus(request, 404, undefined))
}

const admin = { user: "admin", groups: ["system:masters"] }
const bearer = { authorization: "Bearer admin-token" }

const serveWith = (
  transport: Partial<KubeTransport>,
  options: Partial<ApiServer.Options> = {}
): Effect.Effect<ApiServer.Server, ApiServer.ApiServerError, Scope.Scope> =>
  ApiServer.serve({
    transport: () => ({ ...notServed, ...transport }),
    registry: Registry.builtins,
    authenticate: ApiServer.authenticateWith({ "admin-token": admin }),
    ...options
  })

const answering = (
  body: unknown,
  extra: { readonly status?: number; readonly warnings?: ReadonlyArray<string> } = {}
) => ({
  call: () => Effect.succeed({ status: 200, warnings: [], ...extra, body })
})

const failing = (error: KubeError.KubeError): KubeTransport => ({
  call: () => Effect.fail(error),
  watch: () => Stream.fail(error),
  bytes: () => Stream.fail(error)
})

interface Got {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

const http = (url: string, init: RequestInit = {}): Effect.Effect<Got> =>
  Effect.promise(async (signal) => {
    const response = await fetch(url, {
      ...init,
      headers: { ...bearer, ...(init.headers as Record<string, string>) },
      signal
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

const post = (url: string, body: string | Uint8Array, type = "application/json"): Effect.Effect<Got> =>
  http(url, { method: "POST", body, headers: { "content-type": type } })

/** A socket that shows the bytes of a response as they are, so that chunks and broken ends can be seen. */
interface Wire {
  /** The next piece of text; `None` when the server has closed the connection. */
  readonly next: Effect.Effect<Option.Option<string>>
  /** Everything until the server closes the connection. */
  readonly rest: Effect.Effect<string>
  /** Reads until the text holds the word; fails the test when the connection ends before. */
  readonly until: (word: string) => Effect.Effect<string>
  readonly socket: Net.Socket
}

const wire = (server: ApiServer.Server, path: string, close = true): Effect.Effect<Wire, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received = yield* Queue.unbounded<Option.Option<string>>()
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => Net.connect(server.port, "127.0.0.1")),
      (socket) => Effect.sync(() => socket.destroy())
    )
    socket.on("data", (data) => received.unsafeOffer(Option.some(data.toString("utf8"))))
    socket.on("error", () => undefined)
    socket.on("close", () => received.unsafeOffer(Option.none()))
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer admin-token\r\n${close ? "Connection: close\r\n" : ""}\r\n`
    )
    const next = Queue.take(received)
    const rest = Effect.gen(function* () {
      let all = ""
      for (;;) {
        const piece = yield* next
        if (Option.isNone(piece)) return all
        all += piece.value
      }
    })
    const until = (word: string): Effect.Effect<string> =>
      Effect.gen(function* () {
        let all = ""
        for (;;) {
          const piece = yield* next
          if (Option.isNone(piece)) return yield* Effect.dieMessage(`the connection ended before "${word}": ${all}`)
          all += piece.value
          if (all.includes(word)) return all
        }
      })
    return { next, rest, until, socket }
  })

const frame = (name: string, type: WatchFrame["type"] = "ADDED"): WatchFrame => ({
  type,
  object: { kind: "Pod", apiVersion: "v1", metadata: { name, uid: name, resourceVersion: "7" } }
})

const status = (code: number, reason: string, message: string, details?: object): KubeError.Status => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  reason,
  message,
  ...(details === undefined ? {} : { details }),
  code
})

const podsPath = "/api/v1/namespaces/a/pods"

describe("a watch over HTTP", () => {
  it.scopedLive("headers leave at once on a quiet watch", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({ watch: () => Stream.never })
      const { until } = yield* wire(server, `${podsPath}?watch=true`)
      const head = yield* until("\r\n\r\n")
      expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
      expect(head).toContain("Content-Type: application/json")
      expect(head).toContain("Transfer-Encoding: chunked")
      expect(head.endsWith("\r\n\r\n")).toBe(true)
    })
  )

  it.scopedLive("one event = one HTTP chunk = one JSON line; the end is `0\\r\\n\\r\\n`", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({ watch: () => Stream.make(frame("x"), frame("ü", "MODIFIED")) })
      const all = yield* (yield* wire(server, `${podsPath}?watch=true`)).rest
      const body = all.slice(all.indexOf("\r\n\r\n") + 4)
      const chunks = body.split("\r\n")
      expect(chunks.filter((_, index) => index % 2 === 1).map((line) => JSON.parse(line || "null")?.type)).toEqual([
        "ADDED",
        "MODIFIED",
        undefined
      ])
      expect(Number.parseInt(chunks[2] ?? "", 16)).toBe(Buffer.byteLength(chunks[3] ?? "", "utf8"))
      expect(chunks[3]?.endsWith("}\n")).toBe(true)
      expect(body.endsWith("0\r\n\r\n")).toBe(true)
    })
  )

  it.scopedLive(
    'a failure with phase "stream" breaks the connection without the final chunk, after what was sent',
    () =>
      Effect.gen(function* () {
        const broken = new KubeError.KubeUnavailable({ request: aRequest, phase: "stream" })
        const server = yield* serveWith({ watch: () => Stream.concat(Stream.make(frame("x")), Stream.fail(broken)) })
        const all = yield* (yield* wire(server, `${podsPath}?watch=true`)).rest
        expect(all).toContain(`"name":"x"`)
        expect(all.endsWith("0\r\n\r\n")).toBe(false)
      })
  )

  it.scopedLive("an error after the start becomes an ERROR frame with its Status, then the end", () =>
    Effect.gen(function* () {
      const gone = KubeError.fromStatus(aRequest, 410, status(410, "Expired", "too old resource version: 1 (373)"))
      const server = yield* serveWith({ watch: () => Stream.concat(Stream.make(frame("x")), Stream.fail(gone)) })
      const { status: code, text } = yield* http(`${server.url}${podsPath}?watch=true`)
      const lines = text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      expect(code).toBe(200)
      expect(lines).toHaveLength(2)
      expect(lines[1]).toEqual({ type: "ERROR", object: status(410, "Expired", "too old resource version: 1 (373)") })
    })
  )

  it.scopedLive("a version that is too old is HTTP 200 and one ERROR frame, never HTTP 410", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(failing(KubeError.fromStatus(aRequest, 410, status(410, "Expired", "too old"))))
      const { status: code, text } = yield* http(`${server.url}${podsPath}?watch=true`)
      expect(code).toBe(200)
      expect(JSON.parse(text)).toMatchObject({ type: "ERROR", object: { code: 410, reason: "Expired" } })
      expect((yield* http(`${server.url}${podsPath}?resourceVersion=1`)).status).toBe(410)
    })
  )

  it.scopedLive("any other refusal of a watch comes before the stream", () =>
    Effect.gen(function* () {
      const refusal = status(403, "Forbidden", `pods is forbidden: User "x" cannot watch resource "pods"`, {
        kind: "pods"
      })
      const server = yield* serveWith(failing(KubeError.fromStatus(aRequest, 403, refusal)))
      const { status: code, text } = yield* http(`${server.url}${podsPath}?watch=true`)
      expect(code).toBe(403)
      expect(JSON.parse(text)).toEqual(refusal)
    })
  )

  it.scopedLive("`/api/v1/watch/…` and `watch=maybe` watch, `watch=false` lists", () =>
    Effect.gen(function* () {
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      const note = (request: KubeRequest.KubeRequest) =>
        Ref.update(seen, (all) => [...all, KubeRequest.describe(request)])
      const server = yield* serveWith({
        watch: (request) => Stream.execute(note(request)),
        call: (request) => Effect.as(note(request), { status: 200, body: {}, warnings: [] })
      })
      yield* http(`${server.url}/api/v1/watch/namespaces/a/pods`)
      yield* http(`${server.url}${podsPath}?watch=maybe`)
      yield* http(`${server.url}${podsPath}?watch=false`)
      expect(yield* Ref.get(seen)).toEqual([
        `watch pods in namespace "a"`,
        `watch pods in namespace "a"`,
        `list pods in namespace "a"`
      ])
    })
  )

  it.scopedLive("a client that leaves ends the watch inside", () =>
    Effect.gen(function* () {
      const ended = yield* Deferred.make<void>()
      const server = yield* serveWith({
        watch: () => Stream.ensuring(Stream.never, Deferred.succeed(ended, undefined))
      })
      const { socket, until } = yield* wire(server, `${podsPath}?watch=true`)
      yield* until("\r\n\r\n")
      socket.destroy()
      yield* Deferred.await(ended)
    })
  )

  it.scopedLive("as Table: one row an event, column definitions in the first alone", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({ watch: () => Stream.make(frame("x"), frame("y")) })
      const { text } = yield* http(`${server.url}${podsPath}?watch=true`, {
        headers: { accept: "application/json;as=Table;v=v1;g=meta.k8s.io" }
      })
      const [first, second] = text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).object)
      expect(first.columnDefinitions[0].name).toBe("Name")
      expect(second.columnDefinitions).toBeNull()
      expect([first, second].map((table) => table.rows.length)).toEqual([1, 1])
      expect(second.rows[0].object.kind).toBe("PartialObjectMetadata")
    })
  )
})

describe("a log over HTTP", () => {
  const logPath = `${podsPath}/p/log?follow=true`

  it.scopedLive("headers are sent before the first byte of the log, and bytes pass as they are", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const bytes = Uint8Array.from([0xff, 0x00, 0x0a])
      const server = yield* serveWith({
        bytes: () => Stream.concat(Stream.execute(Deferred.await(go)), Stream.make(bytes))
      })
      const response = yield* Effect.promise(() => fetch(`${server.url}${logPath}`, { headers: bearer }))
      expect(response.status).toBe(200)
      expect(response.headers.get("content-type")).toBe("text/plain")
      yield* Deferred.succeed(go, undefined)
      expect(new Uint8Array(yield* Effect.promise(() => response.arrayBuffer()))).toEqual(bytes)
    })
  )

  it.scopedLive("not scheduled: 204, no body, no Content-Type", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(failing(new KubeError.KubeNotFound({ request: aRequest, subject: "log" })))
      const got = yield* http(`${server.url}${logPath}`)
      expect([got.status, got.text, got.headers.get("content-type")]).toEqual([204, "", null])
    })
  )

  it.scopedLive("backpressure: a client that does not read stops the stream", () =>
    Effect.gen(function* () {
      const produced = yield* Ref.make(0)
      const server = yield* serveWith({
        bytes: () =>
          Stream.repeatEffect(
            Effect.as(
              Ref.update(produced, (count) => count + 1),
              new Uint8Array(65_536)
            )
          ).pipe(Stream.take(4000))
      })
      const { socket, next } = yield* wire(server, logPath)
      yield* next
      socket.pause()
      // The stream stops by itself: its count stays the same over many turns of the event loop
      let before = -1
      let after = yield* Ref.get(produced)
      while (before !== after) {
        yield* Effect.sleep("50 millis")
        before = after
        after = yield* Ref.get(produced)
      }
      expect(after).toBeLessThan(1000)
      socket.resume()
    })
  )
})

describe("answers", () => {
  it.scopedLive("headers of every answer: Date, Audit-Id, Cache-Control, one Warning line per warning", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(answering({ kind: "PodList", items: [] }, { warnings: [`a "b"`, "c"] }))
      const all = yield* (yield* wire(server, podsPath)).rest
      expect(all).toMatch(/\r\nDate: \w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT\r\n/)
      expect(all).toMatch(/\r\nAudit-Id: [0-9a-f-]{36}\r\n/)
      expect(all).toContain("\r\nCache-Control: no-cache, private\r\n")
      expect(all).toContain(`\r\nWarning: 299 - "a \\"b\\""\r\nWarning: 299 - "c"\r\n`)
      expect(all.endsWith(`{"kind":"PodList","items":[]}\n`)).toBe(true)
    })
  )

  const errors: ReadonlyArray<readonly [string, KubeError.KubeError]> = [
    ["a 401", KubeError.fromStatus(aRequest, 401, status(401, "Unauthorized", "Unauthorized"))],
    ["a 403", KubeError.fromStatus(aRequest, 403, status(403, "Forbidden", `User "x" cannot list resource "pods"`))],
    [
      "a webhook's refusal",
      KubeError.fromStatus(aRequest, 403, status(403, "Forbidden", `admission webhook "w" denied the request: no`))
    ],
    [
      "a 404 of an object",
      KubeError.fromStatus(aRequest, 404, status(404, "NotFound", `pods "x" not found`, { name: "x", kind: "pods" }))
    ],
    [
      "a 404 of a namespace",
      KubeError.fromStatus(
        aRequest,
        404,
        status(404, "NotFound", `namespaces "a" not found`, { name: "a", kind: "namespaces" })
      )
    ],
    ["an unknown group", KubeError.fromStatus(aRequest, 404, undefined)],
    [
      "a conflict",
      KubeError.fromStatus(aRequest, 409, status(409, "Conflict", "modified", { name: "x", kind: "pods" }))
    ],
    [
      "an existing object",
      KubeError.fromStatus(aRequest, 409, status(409, "AlreadyExists", "exists", { name: "x", kind: "pods" }))
    ],
    [
      "an expired page",
      KubeError.fromStatus(aRequest, 410, { ...status(410, "Expired", "too old"), metadata: { continue: "token" } })
    ],
    ["a 422", KubeError.fromStatus(aRequest, 422, status(422, "Invalid", "no", { causes: [{ field: "spec" }] }))],
    ["the in-flight limit", KubeError.fromStatus(aRequest, 429, undefined, 1000)],
    [
      "a storage that starts",
      KubeError.fromStatus(
        aRequest,
        429,
        status(429, "TooManyRequests", "storage is (re)initializing", { retryAfterSeconds: 1 })
      )
    ],
    [
      "a 500 without a reason",
      KubeError.fromStatus(aRequest, 500, { ...status(500, "", "etcdserver: no leader"), reason: undefined })
    ],
    [
      "a 503",
      KubeError.fromStatus(aRequest, 503, status(503, "ServiceUnavailable", "starting", { retryAfterSeconds: 5 }))
    ],
    [
      "a future version",
      KubeError.fromStatus(
        aRequest,
        504,
        status(504, "Timeout", "Timeout: Too large resource version: 9, current: 1", {
          causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
          retryAfterSeconds: 1
        })
      )
    ],
    [
      "a kubelet's 404",
      KubeError.fromStatus(aRequest, 404, status(404, "NotFound", "no", { name: "p", kind: "pods/log" }))
    ],
    [
      "a 404 without words",
      new KubeError.KubeNotFound({ request: { ...aRequest, verb: "get", name: "x" }, subject: "object" })
    ],
    ["a conflict without words", new KubeError.KubeConflict({ request: aRequest, reason: "AlreadyExists" })],
    ["a 403 without words", new KubeError.KubeForbidden({ request: aRequest })],
    [
      "a 503 without words",
      new KubeError.KubeUnavailable({ request: aRequest, phase: "server", code: 503, retryAfter: 2000 })
    ],
    ["a kubelet without words", new KubeError.KubeUnavailable({ request: aRequest, phase: "kubelet" })],
    ["an expired version without words", new KubeError.KubeExpired({ request: aRequest })],
    ["a denial without words", new KubeError.KubeDenied({ request: aRequest, by: `admission webhook "w"` })]
  ]
  it.scopedLive.each(errors)("%s comes back as the error it was", ([, error]) =>
    Effect.gen(function* () {
      const server = yield* serveWith(failing(error))
      const got = yield* http(`${server.url}${podsPath}`)
      const body: unknown = got.headers.get("content-type") === "application/json" ? JSON.parse(got.text) : undefined
      const retry = got.headers.get("retry-after")
      const read = KubeError.fromStatus(
        error.request,
        got.status,
        KubeError.isStatus(body) ? body : undefined,
        retry === null ? undefined : Number(retry) * 1000
      )
      expect(read._tag).toBe(error._tag)
      for (const key of ["subject", "reason", "code", "phase", "retryAfter", "continueToken", "by"] as const) {
        const wanted = (error as unknown as Record<string, unknown>)[key]
        if (wanted !== undefined) expect((read as unknown as Record<string, unknown>)[key]).toEqual(wanted)
      }
      if (error.status !== undefined) expect(read.status).toEqual(JSON.parse(JSON.stringify(error.status)))
    })
  )

  it.scopedLive("unknown group: text/plain `404 page not found`, nosniff", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({})
      const got = yield* http(`${server.url}/apis/nope.example.com/v1/foos`)
      expect([
        got.status,
        got.text,
        got.headers.get("content-type"),
        got.headers.get("x-content-type-options")
      ]).toEqual([404, "404 page not found\n", "text/plain; charset=utf-8", "nosniff"])
    })
  )

  it.scopedLive("a connection that cannot be made is one that breaks before the headers", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(failing(new KubeError.KubeUnavailable({ request: aRequest, phase: "connect" })))
      expect(yield* (yield* wire(server, podsPath)).rest).toBe("")
    })
  )

  it.scopedLive("a defect inside is a 500 and not a hanging client", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({ call: () => Effect.dieMessage("oh") })
      const got = yield* http(`${server.url}${podsPath}`)
      expect(got.status).toBe(500)
      expect(JSON.parse(got.text)).toMatchObject({ kind: "Status", code: 500 })
    }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
  )
})

describe("requests", () => {
  const echo = {
    call: (request: KubeRequest.KubeRequest) =>
      Effect.succeed({
        status: request.verb === "create" ? 201 : 200,
        body: request.body ?? { asked: request },
        warnings: []
      })
  }

  it.scopedLive("bodies: JSON, YAML, and the protobuf that kubectl sends", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(echo)
      const url = `${server.url}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews`
      expect(JSON.parse((yield* post(url, `{"spec":{}}`)).text)).toEqual({ spec: {} })
      expect(JSON.parse((yield* post(url, "spec: {a: 1}", "application/yaml")).text)).toEqual({ spec: { a: 1 } })
      const recorded =
        "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSOwoQCgASABoAIgAqADIAOABCABIdChsKA25zMRIDZ2V0GgAiACoEcG9kczIDbG9nOgAaCAgAEgAaACAAGgAiAA=="
      const got = yield* post(url, Buffer.from(recorded, "base64"), "application/vnd.kubernetes.protobuf")
      expect(got.status).toBe(201)
      expect(JSON.parse(got.text)).toEqual({
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        metadata: {},
        spec: { resourceAttributes: { namespace: "ns1", verb: "get", resource: "pods", subresource: "log" } },
        status: { allowed: false }
      })
    })
  )

  it.scopedLive("null is an object without fields where the type is built in, and no object of a custom resource", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(echo)
      const builtIn = yield* post(`${server.url}/api/v1/namespaces/a/configmaps`, "null")
      expect(JSON.parse(builtIn.text)).toEqual({})
      const custom = yield* post(`${server.url}/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs`, "null\n")
      expect([custom.status, JSON.parse(custom.text).message]).toEqual([
        400,
        "the object provided is unrecognized (must be of type TrainJob): Object 'Kind' is missing in 'null\n' (6e756c6c0a)"
      ])
    })
  )

  it.scopedLive(
    "a body that cannot be read is shown by its start: as text if it begins like an object, else in hex",
    () =>
      Effect.gen(function* () {
        const server = yield* serveWith(echo)
        const shown = (text: string) =>
          Effect.map(
            post(`${server.url}/api/v1/namespaces/a/configmaps`, text),
            (answer) => /\(([^()]*)\)$/.exec(String(JSON.parse(answer.text).message))?.[1]
          )
        expect(yield* shown(`{"a": "01234567890123456789012345",}`)).toBe(`{"a": "01234567890123456789012 ...`)
        expect(yield* shown("apiVersion v1 and a long long text")).toBe(
          "61706956657273696f6e20763120616e642061206c6f6e67206c6f6e6720 ..."
        )
        expect(yield* shown("")).toBe("<empty>")
      })
  )

  it.scopedLive("protobuf of every built-in kind: nested, inlined, maps, quantities, times, owned fields", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(echo)
      // What client-go writes for a pod, and the JSON that it stands for: see `test/clients/go/encoded`
      const encoded = readFileSync(new URL("clients/go/encoded/pod.txt", import.meta.url), "utf8")
      const [protobuf = "", json = ""] = encoded.split("\n")
      const answer = yield* post(
        `${server.url}/api/v1/namespaces/a/pods`,
        Buffer.from(protobuf, "base64"),
        "application/vnd.kubernetes.protobuf"
      )
      expect([answer.status, JSON.parse(answer.text)]).toEqual([201, JSON.parse(json)])
    })
  )

  it.scopedLive("malformed JSON 400, no format 415, above 3 MiB 413", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(echo)
      const url = `${server.url}/api/v1/namespaces/a/configmaps`
      const empty = yield* post(url, "")
      expect(JSON.parse(empty.text).message).toMatch(/json parse error: unexpected end of JSON input \(<empty>\)$/)
      const patch = yield* http(`${url}/x`, {
        method: "PATCH",
        body: "{",
        headers: { "content-type": "application/merge-patch+json" }
      })
      expect([patch.status, JSON.parse(patch.text).message]).toEqual([400, "invalid JSON patch"])
      const bad = yield* post(url, "{not json")
      expect(bad.status).toBe(400)
      expect(JSON.parse(bad.text).message).toMatch(
        /^the object provided is unrecognized \(must be of type ConfigMap\): couldn't get version\/kind; json parse error: .* \(\{not json\)$/
      )
      expect((yield* post(url, "x", "text/html")).status).toBe(415)
      const large = yield* post(url, new Uint8Array(3 * 1024 * 1024 + 1))
      expect(large.status).toBe(413)
      expect((yield* post(url, new Uint8Array(30 * 1024 * 1024))).status).toBe(413)
      expect(JSON.parse(large.text)).toMatchObject({
        reason: "RequestEntityTooLarge",
        message: "Request entity too large: limit is 3145728"
      })
    })
  )

  it.scopedLive("405: HEAD, OPTIONS, POST on a name, PUT on a collection, POST on all namespaces", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(echo)
      for (const [method, path] of [
        ["HEAD", podsPath],
        ["OPTIONS", podsPath],
        ["POST", `${podsPath}/x`],
        ["PUT", podsPath],
        ["PATCH", podsPath],
        ["POST", "/api/v1/pods"],
        ["DELETE", "/api/v1/pods"],
        ["PUT", "/version"]
      ] as const) {
        const got = yield* http(`${server.url}${path}`, { method })
        expect([method, path, got.status]).toEqual([method, path, 405])
      }
    })
  )

  it.scopedLive(
    "custom resources differ: POST on a name creates, PUT on a collection 400, POST on all namespaces 404",
    () =>
      Effect.gen(function* () {
        const server = yield* serveWith(echo)
        const root = `${server.url}/apis/trainer.kubeflow.org/v1alpha1`
        expect((yield* post(`${root}/namespaces/a/trainjobs/x`, "{}")).status).toBe(201)
        const put = yield* http(`${root}/namespaces/a/trainjobs`, { method: "PUT", body: "{}" })
        expect([put.status, JSON.parse(put.text).message]).toEqual([400, "name must be provided"])
        const everywhere = yield* post(`${root}/trainjobs`, "{}")
        expect([everywhere.status, everywhere.text]).toEqual([404, "404 page not found\n"])
      })
  )

  it.scopedLive("406: an Accept that matches nothing; */* and YAML are served", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(answering({ kind: "PodList", items: [] }))
      const accept = (value: string) => http(`${server.url}${podsPath}`, { headers: { accept: value } })
      expect((yield* accept("text/html")).status).toBe(406)
      expect((yield* accept("application/vnd.kubernetes.protobuf")).status).toBe(406)
      expect((yield* accept("application/vnd.kubernetes.protobuf,application/json")).status).toBe(200)
      expect((yield* accept("*/*")).headers.get("content-type")).toBe("application/json")
      expect((yield* accept("application/yaml")).text).toBe("kind: PodList\nitems: []\n")
    })
  )

  it.scopedLive("PartialObjectMetadataList for a list; for a single object it is 406", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(
        answering({
          kind: "PodList",
          metadata: { resourceVersion: "9" },
          items: [{ metadata: { name: "x" }, spec: {} }]
        })
      )
      const headers = { accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io" }
      const got = yield* http(`${server.url}${podsPath}`, { headers })
      expect(JSON.parse(got.text)).toEqual({
        kind: "PartialObjectMetadataList",
        apiVersion: "meta.k8s.io/v1",
        metadata: { resourceVersion: "9" },
        items: [{ kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: { name: "x" } }]
      })
      expect((yield* http(`${server.url}${podsPath}/x`, { headers })).status).toBe(406)
    })
  )

  it.scopedLive("authorization runs before routing: who lacks the permission hears that first", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(answering({ status: { allowed: false } }))
      const got = yield* post(`${server.url}/api/v1/namespaces/a/configmaps`, "{not json")
      expect(got.status).toBe(403)
      expect(JSON.parse(got.text).message).toBe(
        `configmaps is forbidden: User "admin" cannot create resource "configmaps" in API group "" in the namespace "a"`
      )
    })
  )
})

describe("users", () => {
  const whoami = {
    transport: (subject: Rbac.Subject): KubeTransport => ({
      ...notServed,
      call: () => Effect.succeed({ status: 200, body: { subject }, warnings: [] })
    })
  }

  it.scopedLive("a known token is its user, an unknown one 401 without details, none or Basic anonymous", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({}, whoami)
      const as = (authorization: string | undefined) =>
        Effect.promise(() =>
          fetch(`${server.url}${podsPath}`, { headers: authorization === undefined ? {} : { authorization } })
        )
      const subject = (response: Response) =>
        Effect.promise(() => response.json()).pipe(
          Effect.map((body) => (body as { readonly subject: unknown }).subject)
        )
      expect(yield* subject(yield* as("Bearer admin-token"))).toEqual({
        user: "admin",
        groups: ["system:masters", "system:authenticated"]
      })
      const unknown = yield* as("Bearer nobody")
      expect(unknown.status).toBe(401)
      expect(yield* Effect.promise(() => unknown.json())).toEqual({
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message: "Unauthorized",
        reason: "Unauthorized",
        code: 401
      })
      const anonymous = { user: "system:anonymous", groups: ["system:unauthenticated"] }
      expect(yield* subject(yield* as(undefined))).toEqual(anonymous)
      expect(yield* subject(yield* as("Basic eDp5"))).toEqual(anonymous)
    })
  )
})

describe("the server", () => {
  it.live("closing the scope closes connections at once, a quiet watch included", () =>
    Effect.gen(function* () {
      const ended = yield* Deferred.make<void>()
      const rest = yield* Effect.scoped(
        Effect.gen(function* () {
          const watch = () => Stream.ensuring(Stream.never, Deferred.succeed(ended, undefined))
          const server = yield* serveWith({ watch })
          // The socket outlives the server here
          const socket = Net.connect(server.port, "127.0.0.1")
          const closed = new Promise<boolean>((resolve) =>
            socket.on("close", () => resolve(true)).on("error", () => undefined)
          )
          const open = new Promise((resolve) => socket.once("data", resolve))
          socket.write(`GET ${podsPath}?watch=true HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer admin-token\r\n\r\n`)
          yield* Effect.promise(() => open)
          expect(yield* server.connections).toBe(1)
          return closed
        })
      )
      yield* Deferred.await(ended)
      expect(yield* Effect.promise(() => Promise.resolve(rest))).toBe(true)
    })
  )

  it.scopedLive("a port that is taken is a typed error", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({})
      const error = yield* Effect.flip(serveWith({}, { port: server.port }))
      expect(error._tag).toBe("ApiServerError")
      expect(error.message).toContain(`127.0.0.1:${server.port}`)
    })
  )

  it.scopedLive("dropConnections breaks watches and serves on", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({ watch: () => Stream.never, ...answering({}) })
      const { rest, until } = yield* wire(server, `${podsPath}?watch=true`)
      yield* until("\r\n\r\n")
      yield* server.dropConnections
      expect(yield* rest).toBe("")
      expect((yield* http(`${server.url}${podsPath}`)).status).toBe(200)
    })
  )

  it.scopedLive("routes beside the API answer for themselves", () =>
    Effect.gen(function* () {
      const server = yield* serveWith(
        {},
        {
          routes: {
            prefix: "/testkit/",
            handle: ({ body, method, path, query, subject }) =>
              Effect.succeed({
                answer: Answer.json(200, { body, method, path, q: query.get("q"), user: subject.user })
              })
          }
        }
      )
      const got = yield* post(`${server.url}/testkit/x?q=1`, `{"a":1}`)
      expect(JSON.parse(got.text)).toEqual({
        body: { a: 1 },
        method: "POST",
        path: "/testkit/x",
        q: "1",
        user: "admin"
      })
    })
  )
})

describe("discovery", () => {
  const get = (server: ApiServer.Server, path: string, accept?: string) =>
    Effect.map(http(`${server.url}${path}`, accept === undefined ? {} : { headers: { accept } }), (got) => ({
      ...got,
      body: got.headers.get("content-type")?.startsWith("application/json") === true ? JSON.parse(got.text) : got.text
    }))

  it.scopedLive("plain and aggregated forms tell of the same types", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({})
      const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
      const plain = (yield* get(server, "/apis")).body
      const aggregated = yield* get(server, "/apis", accept)
      expect(aggregated.headers.get("content-type")).toBe(accept)
      expect(aggregated.headers.get("vary")).toBe("Accept")
      expect(plain.groups.map((group: { name: string }) => group.name)).toEqual(
        aggregated.body.items.map((item: { metadata: { name: string } }) => item.metadata.name)
      )
      for (const item of aggregated.body.items) {
        for (const { resources, version } of item.versions) {
          const list = (yield* get(server, `/apis/${item.metadata.name}/${version}`)).body
          const names = list.resources
            .map((resource: { name: string }) => resource.name)
            .filter((name: string) => !name.includes("/"))
          expect(names).toEqual(resources.map((resource: { resource: string }) => resource.resource))
        }
      }
      expect(
        (yield* get(server, "/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"))
          .status
      ).toBe(406)
    })
  )

  it.scopedLive("trainer.kubeflow.org reads as recorded", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({})
      const list = (yield* get(server, "/apis/trainer.kubeflow.org/v1alpha1")).body
      expect(list.groupVersion).toBe("trainer.kubeflow.org/v1alpha1")
      expect(list.resources).toContainEqual({
        name: "trainjobs",
        singularName: "trainjob",
        namespaced: true,
        kind: "TrainJob",
        verbs: ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
      })
      expect(list.resources).toContainEqual({
        name: "trainjobs/status",
        singularName: "",
        namespaced: true,
        kind: "TrainJob",
        verbs: ["get", "patch", "update"]
      })
      expect((yield* get(server, "/apis/trainer.kubeflow.org")).body).toEqual({
        kind: "APIGroup",
        apiVersion: "v1",
        name: "trainer.kubeflow.org",
        versions: [{ groupVersion: "trainer.kubeflow.org/v1alpha1", version: "v1alpha1" }],
        preferredVersion: { groupVersion: "trainer.kubeflow.org/v1alpha1", version: "v1alpha1" }
      })
      const core = (yield* get(server, "/api/v1")).body
      expect(core.resources).toContainEqual(
        expect.objectContaining({ name: "pods/eviction", group: "policy", version: "v1", kind: "Eviction" })
      )
    })
  )

  it.scopedLive("unknown: built-in versions are JSON 404, the rest text", () =>
    Effect.gen(function* () {
      const server = yield* serveWith({})
      for (const path of ["/apis/batch/v7", "/api/v2"]) {
        expect((yield* get(server, path)).body).toMatchObject({ reason: "NotFound", details: {} })
      }
      for (const path of ["/apis/nope.example.com", "/nope", "/apis/trainer.kubeflow.org/v9"]) {
        expect((yield* get(server, path)).body).toBe("404 page not found\n")
      }
      for (const path of ["/healthz", "/livez", "/readyz"]) expect((yield* get(server, path)).body).toBe("ok")
      expect((yield* get(server, "/version")).body).toMatchObject({ major: "1", minor: "37", gitVersion: "v1.37.2" })
    })
  )

  it.scopedLive(
    "OpenAPI 3 names fieldValidation on writes of every type, so that kubectl lets the server validate",
    () =>
      Effect.gen(function* () {
        const server = yield* serveWith({})
        const { paths } = (yield* get(server, "/openapi/v3")).body
        expect(Object.keys(paths)).toContain("apis/trainer.kubeflow.org/v1alpha1")
        for (const { serverRelativeURL } of Object.values(paths) as ReadonlyArray<{ serverRelativeURL: string }>) {
          const document = (yield* get(server, serverRelativeURL)).body
          for (const path of Object.values(document.paths) as ReadonlyArray<
            Record<string, { parameters?: ReadonlyArray<{ name: string }> }>
          >) {
            const write = path["patch"] ?? path["post"]
            expect(write?.parameters?.map(({ name }) => name)).toContain("fieldValidation")
          }
        }
      })
  )
})
