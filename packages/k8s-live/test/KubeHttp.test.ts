import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { request as proxyRequest } from "node:http"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TLSSocket } from "node:tls"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as KubeHttp from "@dispatch-kubeflow/k8s-live/KubeHttp"
import { HttpClientRequest } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Stream, Tracer } from "effect"
import { inspect } from "node:util"
import * as servers from "./servers.js"

const ca = servers.base64(servers.certificate("ca.crt"))
const clientCa = servers.base64(servers.certificate("client-ca.crt"))
const client = (name: string): object => ({
  "client-certificate-data": servers.base64(servers.certificate(`${name}.crt`)),
  "client-key-data": servers.base64(servers.certificate(`${name}.key`))
})
const unauthorized = servers.status(401, "Unauthorized", "Unauthorized")

const failing = (value: object, options: KubeHttp.Options = {}) =>
  Effect.gen(function* () {
    const transport = yield* servers.transport(value, options)
    const error = yield* Effect.flip(transport.call(servers.getPod))
    assert.strictEqual(error._tag, "KubeUnavailable")
    return error._tag === "KubeUnavailable" ? error : yield* Effect.dieMessage("unreachable")
  })

describe("TLS", () => {
  const answering = servers.https({}, (_, response) => servers.json(response, 200, {}))

  it.scopedLive("the cluster's CA is trusted", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const transport = yield* servers.transport(
        servers.kubeconfig(server.url, {}, { "certificate-authority-data": ca })
      )
      assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
    })
  )

  it.scopedLive("a context without a user still trusts it", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const transport = yield* servers.transport({
        clusters: [{ name: "c", cluster: { server: server.url, "certificate-authority-data": ca } }],
        contexts: [{ name: "x", context: { cluster: "c" } }],
        "current-context": "x"
      })
      assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
    })
  )

  it.scopedLive("another CA: Unavailable, phase tls, with the reason", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const error = yield* failing(servers.kubeconfig(server.url, {}, { "certificate-authority-data": clientCa }))
      assert.strictEqual(error.phase, "tls")
      assert.match(error.message, /certificate/)
      assert.notInclude(error.message, "BEGIN")
    })
  )

  it.scopedLive("no CA at all: the same", () =>
    Effect.gen(function* () {
      const server = yield* answering
      assert.strictEqual((yield* failing(servers.kubeconfig(server.url))).phase, "tls")
    })
  )

  it.scopedLive("T07: insecure-skip-tls-verify is honoured", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const transport = yield* servers.transport(
        servers.kubeconfig(server.url, {}, { "insecure-skip-tls-verify": true })
      )
      assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
    })
  )

  it.scopedLive("tls-server-name is the name that is checked", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const named = (name: string): object =>
        servers.kubeconfig(server.url, {}, { "certificate-authority-data": ca, "tls-server-name": name })
      const transport = yield* servers.transport(named("localhost"))
      assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
      assert.strictEqual((yield* failing(named("elsewhere.example.com"))).phase, "tls")
    })
  )

  it.scopedLive("a client certificate is shown to the server", () =>
    Effect.gen(function* () {
      const server = yield* servers.https(
        { ca: servers.certificate("client-ca.crt"), requestCert: true, rejectUnauthorized: true },
        (request, response) =>
          servers.json(response, 200, { who: (request.socket as TLSSocket).getPeerCertificate().subject.CN })
      )
      const transport = yield* servers.transport(
        servers.kubeconfig(server.url, client("client"), { "certificate-authority-data": ca })
      )
      assert.deepStrictEqual((yield* transport.call(servers.getPod)).body, { who: "client" })
      const error = yield* failing(servers.kubeconfig(server.url, {}, { "certificate-authority-data": ca }))
      assert.include(["tls", "stream"], error.phase)
    })
  )

  it.scopedLive("T05: renewed client certificates make a new agent, and a live watch goes on with the old one", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "kubehttp-test-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const put = (name: string): void => {
        writeFileSync(join(folder, "crt"), servers.certificate(`${name}.crt`))
        writeFileSync(join(folder, "key"), servers.certificate(`${name}.key`))
      }
      put("client")
      let finish: () => void = () => undefined
      const server = yield* servers.https(
        { ca: servers.certificate("client-ca.crt"), requestCert: true, rejectUnauthorized: true },
        (request, response) => {
          const who = (request.socket as TLSSocket).getPeerCertificate().subject.CN
          if (request.url?.includes("watch") === true) {
            response.writeHead(200, { "content-type": "application/json" })
            response.flushHeaders()
            finish = () => response.end('{"type":"BOOKMARK","object":{}}\n')
          } else if (who === "client") servers.json(response, 401, unauthorized)
          else servers.json(response, 200, { who })
        }
      )
      const transport = yield* servers.transport(
        servers.kubeconfig(
          server.url,
          { "client-certificate": join(folder, "crt"), "client-key": join(folder, "key") },
          { "certificate-authority-data": ca }
        )
      )
      const watch = yield* Effect.fork(Stream.runCount(transport.watch(servers.watchPods)))
      yield* servers.until(() => server.requests.length === 1)
      put("client-2")
      assert.deepStrictEqual((yield* transport.call(servers.getPod)).body, { who: "client-2" })
      finish()
      assert.strictEqual(yield* Fiber.join(watch), 1)
    })
  )
})

describe("401", () => {
  const tokenFile = Effect.acquireRelease(
    Effect.sync(() => join(mkdtempSync(join(tmpdir(), "kubehttp-test-")), "token")),
    (path) => Effect.sync(() => rmSync(join(path, ".."), { recursive: true }))
  )

  it.scopedLive("T01: the token file is read again and the request is sent once more", () =>
    Effect.gen(function* () {
      const path = yield* tokenFile
      writeFileSync(path, "old\n")
      const seen: Array<string | undefined> = []
      const server = yield* servers.http((request, response) => {
        seen.push(request.headers.authorization)
        if (request.headers.authorization === "Bearer new") servers.json(response, 200, {})
        else {
          writeFileSync(path, "new\n")
          servers.json(response, 401, unauthorized)
        }
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { tokenFile: path }))
      assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
      assert.deepStrictEqual(seen, ["Bearer old", "Bearer new"])
      assert.strictEqual((yield* transport.call(servers.createPod)).status, 200)
      assert.strictEqual(seen.length, 3)
    })
  )

  it.scopedLive("T01: watch and log the same", () =>
    Effect.gen(function* () {
      const path = yield* tokenFile
      let valid = "1"
      const server = yield* servers.http((request, response) => {
        if (request.headers.authorization === `Bearer ${valid}`) {
          response.writeHead(200, { "content-type": "application/json" })
          response.end('{"type":"BOOKMARK","object":{}}\n')
        } else {
          writeFileSync(path, valid)
          servers.json(response, 401, unauthorized)
        }
      })
      writeFileSync(path, "0")
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { tokenFile: path }))
      assert.strictEqual(yield* Stream.runCount(transport.watch(servers.watchPods)), 1)
      valid = "2"
      assert.isAbove(yield* Stream.runCount(transport.bytes(servers.podLog)), 0)
      assert.strictEqual(server.requests.length, 4)
    })
  )

  it.scopedLive("T01: a second refusal is Unauthorized, after two requests", () =>
    Effect.gen(function* () {
      const path = yield* tokenFile
      writeFileSync(path, "0")
      const server = yield* servers.http((_, response) => {
        writeFileSync(path, String(server.requests.length))
        servers.json(response, 401, unauthorized)
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { tokenFile: path }))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeUnauthorized")
      assert.strictEqual(server.requests.length, 2)
    })
  )

  it.scopedLive("credentials that cannot change are not sent twice", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 401, unauthorized))
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { token: "t" }))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeUnauthorized")
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.scopedLive("a kubelet's 401 on a log is not about the caller", () =>
    Effect.gen(function* () {
      const path = yield* tokenFile
      writeFileSync(path, "0")
      const server = yield* servers.http((_, response) =>
        servers.json(
          response,
          401,
          servers.status(401, "Unauthorized", "the server has asked for the client to provide credentials", {
            details: { name: "p", kind: "pods/log" }
          })
        )
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { tokenFile: path }))
      const error = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
      assert.strictEqual(error._tag, "KubeUnavailable")
      assert.strictEqual(server.requests.length, 1)
    })
  )
})

describe("no answer", () => {
  it.scopedLive("refused: phase connect", () =>
    Effect.gen(function* () {
      const closed = yield* Effect.scoped(servers.http(() => undefined))
      const error = yield* failing(servers.kubeconfig(closed.url))
      assert.strictEqual(error.phase, "connect")
      assert.match(error.message, /ECONNREFUSED/)
    })
  )

  it.scopedLive("a name that nobody knows: phase connect", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* failing(servers.kubeconfig("http://no-such-host.invalid"))).phase, "connect")
    })
  )

  it.scopedLive("a TLS handshake that gets no answer: phase connect, in time", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp(() => undefined)
      const error = yield* failing(servers.kubeconfig(server.url.replace("http:", "https:")), { connectTimeout: 100 })
      assert.strictEqual(error.phase, "connect")
    })
  )

  it.scopedLive("headers that never come: phase silence, and the socket is closed", () =>
    Effect.gen(function* () {
      const server = yield* servers.http(() => undefined)
      const error = yield* failing(servers.kubeconfig(server.url), { headersTimeout: 100 })
      assert.strictEqual(error.phase, "silence")
      yield* servers.until(() => server.sockets.size === 0)
    })
  )

  it.scopedLive("a call's body that stops: phase silence", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.write('{"kind"')
      })
      assert.strictEqual((yield* failing(servers.kubeconfig(server.url), { callIdle: 100 })).phase, "silence")
    })
  )

  it.scopedLive("a connection that is cut before any answer: phase stream", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) => socket.on("data", () => socket.destroy()))
      assert.strictEqual((yield* failing(servers.kubeconfig(server.url))).phase, "stream")
    })
  )

  it.scopedLive("a body that broke before anyone reads it is broken, not empty", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) =>
        socket.on("data", () => {
          socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
          setTimeout(() => socket.destroy(), 10)
        })
      )
      const source = KubeConfig.Source.Value({ value: servers.kubeconfig(server.url) })
      const context = yield* Layer.build(KubeApiLive.layerKubeConfig({ source }))
      const http = yield* KubeHttp.make(Context.get(context, KubeConfig.KubeConfig))
      for (const read of [
        (answer: KubeHttp.Answer) => Stream.runDrain(Stream.repeatEffectOption(answer.take)),
        (answer: KubeHttp.Answer) => Effect.asVoid(answer.text)
      ]) {
        const answer = yield* http.send("bytes", HttpClientRequest.get("/x"))
        yield* servers.until(() => server.sockets.size === 0)
        yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 20)))
        const error = yield* Effect.flip(read(answer))
        assert.strictEqual(error.phase, "stream")
      }
    })
  )

  it.scopedLive("credentials that cannot be had: phase credentials, and no request", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const error = yield* failing(servers.kubeconfig(server.url, { tokenFile: "/nonexistent/token" }))
      assert.strictEqual(error.phase, "credentials")
      assert.include(error.message, "/nonexistent/token")
      assert.strictEqual(server.requests.length, 0)
    })
  )
})

describe("what leaves this process", () => {
  it.scopedLive("impersonated groups are one header line each", () =>
    Effect.gen(function* () {
      let raw: ReadonlyArray<string> = []
      const server = yield* servers.http((request, response) => {
        raw = request.rawHeaders
        servers.json(response, 200, {})
      })
      const transport = yield* servers.transport(
        servers.kubeconfig(server.url, { token: "t", as: "jane", "as-groups": ["a", "b"] })
      )
      yield* transport.call(servers.getPod)
      const groups = raw.filter((_, index) => index % 2 === 1 && raw[index - 1]?.toLowerCase() === "impersonate-group")
      assert.deepStrictEqual(groups, ["a", "b"])
    })
  )

  it.scopedLive("no span and no error holds the token", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((request, response) =>
        request.url?.includes("watch") === true ? response.socket?.destroy() : servers.json(response, 200, {})
      )
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (name, parent, context, links, startTime, kind) => {
          const attributes = new Map<string, unknown>()
          const span: Tracer.Span = {
            _tag: "Span",
            name,
            spanId: "0000000000000001",
            traceId: "00000000000000000000000000000001",
            parent,
            context,
            status: { _tag: "Started", startTime },
            attributes,
            links,
            sampled: true,
            kind,
            end: () => undefined,
            attribute: (key, value) => void attributes.set(key, value),
            event: () => undefined,
            addLinks: () => undefined
          }
          spans.push(span)
          return span
        },
        context: (execute) => execute()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url, { token: "hush-hush" }))
      yield* Effect.withTracer(transport.call(servers.getPod), tracer)
      const error = yield* Effect.flip(Effect.withTracer(Stream.runDrain(transport.watch(servers.watchPods)), tracer))
      assert.isAbove(spans.length, 0)
      assert.notInclude(inspect([error, ...spans.map((span) => [...span.attributes])], { depth: 12 }), "hush-hush")
    })
  )
})

describe("proxies", () => {
  /** A forward proxy: CONNECT tunnels and absolute-URL requests. */
  const proxy = Effect.gen(function* () {
    const seen: Array<string> = []
    const server = yield* servers.http((request, response) => {
      seen.push(`${request.method ?? ""} ${request.url ?? ""} ${request.headers["proxy-authorization"] ?? ""}`)
      request.pipe(
        proxyRequest(request.url ?? "", { method: request.method, headers: request.headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers)
          answer.pipe(response)
        })
      )
    })
    return { server, seen }
  })
  const tunnel = (answer: string, seen: Array<string>) =>
    servers.tcp((socket) =>
      socket.once("data", (head: Buffer) => {
        const text = head.toString("latin1")
        seen.push(`${text.split(" HTTP")[0] ?? ""} ${/proxy-authorization: (.*)\r/i.exec(text)?.[1] ?? ""}`)
        if (!answer.includes(" 200 ")) return void socket.end(answer)
        const [, host, port] = /^CONNECT ([^:]+):(\d+)/.exec(text) ?? []
        const upstream: Socket = connect(Number(port), host ?? "", () => {
          socket.write(answer)
          socket.pipe(upstream).pipe(socket)
        })
        upstream.on("error", () => socket.destroy())
        socket.on("close", () => upstream.destroy())
      })
    )

  it.scopedLive(
    "https goes through a tunnel, TLS ends at the API server, and the proxy gets its own password only",
    () =>
      Effect.gen(function* () {
        const seen: Array<string> = []
        const server = yield* servers.https({}, (request, response) =>
          servers.json(response, 200, { authorization: request.headers.authorization })
        )
        const via = yield* tunnel("HTTP/1.1 200 Connection established\r\n\r\n", seen)
        const transport = yield* servers.transport(
          servers.kubeconfig(
            server.url,
            { token: "t" },
            { "certificate-authority-data": ca, "proxy-url": via.url.replace("//", "//user:pw@") }
          )
        )
        assert.deepStrictEqual((yield* transport.call(servers.getPod)).body, { authorization: "Bearer t" })
        assert.deepStrictEqual(seen, [`CONNECT 127.0.0.1:${server.port} Basic ${servers.base64("user:pw")}`])
      })
  )

  it.scopedLive("plain http is asked for by its absolute URL", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const { server: via, seen } = yield* proxy
      const transport = yield* servers.transport(servers.kubeconfig(server.url, {}, { "proxy-url": via.url }))
      yield* transport.call(servers.getPod)
      assert.strictEqual(seen.length, 1)
      assert.include(seen[0] ?? "", `GET ${server.url}/api/v1/namespaces/n/pods/p`)
    })
  )

  it.scopedLive("a proxy that opens no tunnel: phase connect, naming its status", () =>
    Effect.gen(function* () {
      const via = yield* tunnel("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", [])
      const error = yield* failing(
        servers.kubeconfig("https://k.example.com", {}, { "proxy-url": via.url.replace("//", "//user:hush@") })
      )
      assert.strictEqual(error.phase, "connect")
      assert.include(error.message, "407")
      assert.notInclude(error.message, "hush")
    })
  )
})

describe("failureOf", () => {
  const coded = (code: string, message = "m", cause?: unknown): Error =>
    Object.assign(new Error(message, { cause }), { code })

  it("finds the reason inside wrappers and address lists", () => {
    const inner = coded("ECONNREFUSED", "connect ECONNREFUSED ::1:1")
    assert.strictEqual(KubeHttp.failureOf(new Error("fetch failed", { cause: inner }), false).phase, "connect")
    assert.strictEqual(KubeHttp.failureOf(new AggregateError([inner, inner]), false).phase, "connect")
    assert.strictEqual(KubeHttp.failureOf(coded("CERT_HAS_EXPIRED"), false).phase, "tls")
    assert.strictEqual(KubeHttp.failureOf(coded("ERR_TLS_CERT_ALTNAME_INVALID"), false).phase, "tls")
    assert.strictEqual(KubeHttp.failureOf(coded("ECONNRESET"), true).phase, "stream")
    assert.strictEqual(KubeHttp.failureOf("odd", true).phase, "stream")
  })
})
