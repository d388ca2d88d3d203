/** What networks, load balancers and busy or broken servers do, and what of it a caller sees. */
import { createServer as createHttp } from "node:http"
import type { Socket } from "node:net"
import { gzipSync } from "node:zlib"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import type * as KubeHttp from "@dispatch-kubeflow/k8s-live/KubeHttp"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Stream } from "effect"
import * as servers from "./servers.js"

const ca = servers.base64(servers.certificate("ca.crt"))
const trusting = { "certificate-authority-data": ca }
const listPods = KubeRequest.make("list", { group: "", version: "v1", plural: "pods" }, { namespace: "n" })

const pause = (millis: number): Effect.Effect<void> =>
  Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, millis)))

const unavailable = (transport: KubeTransport, request: KubeRequest.KubeRequest = servers.getPod) =>
  Effect.flatMap(Effect.flip(transport.call(request)), (error) =>
    error._tag === "KubeUnavailable" ? Effect.succeed(error) : Effect.dieMessage(`${error._tag}: ${error.message}`)
  )

describe("connections", () => {
  it.scopedLive("calls one after another use one connection and one TLS handshake", () =>
    Effect.gen(function* () {
      let handshakes = 0
      const server = yield* servers.https({}, (request, response) => {
        if (request.method === "DELETE") return servers.json(response, 404, servers.status(404, "NotFound", "no"))
        return servers.json(response, 200, {
          padding: "x".repeat(request.url?.includes("pods/p") === true ? 10 : 70_000)
        })
      })
      yield* Effect.sync(() => server.onSecure(() => handshakes++))
      const transport = yield* servers.transport(servers.kubeconfig(server.url, {}, trusting))
      const remove = { ...servers.getPod, verb: "delete" as const, body: { kind: "DeleteOptions" } }
      for (let round = 0; round < 50; round++) {
        yield* transport.call(servers.getPod)
        yield* transport.call(listPods)
        yield* transport.call(servers.createPod)
        yield* Effect.flip(transport.call(remove))
        yield* Stream.runDrain(transport.bytes(servers.podLog))
      }
      assert.strictEqual(server.requests.length, 250)
      assert.strictEqual(handshakes, 1)
      assert.strictEqual(server.connections(), 1)
    })
  )

  it.scopedLive("a watch keeps a connection to itself (HTTP/1.1), calls beside it share another", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((request, response) => {
        if (request.url?.includes("watch=true") !== true) return servers.json(response, 200, {})
        response.writeHead(200, { "content-type": "application/json" })
        return response.flushHeaders()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      yield* Effect.forkScoped(Stream.runDrain(transport.watch(servers.watchPods)))
      yield* servers.until(() => server.requests.length === 1)
      yield* Effect.repeatN(transport.call(servers.getPod), 19)
      assert.strictEqual(server.connections(), 2)
    })
  )

  it.scopedLive(
    "a load balancer that closes idle connections between requests is not noticed, reads and writes alike",
    () =>
      Effect.gen(function* () {
        const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        for (const request of [servers.getPod, servers.createPod]) {
          for (let round = 0; round < 20; round++) {
            yield* Effect.all([transport.call(request), transport.call(request)], { concurrency: 2 })
            for (const socket of server.sockets) socket.end()
            // this process is busy while the news comes in
            const until = performance.now() + 3
            while (performance.now() < until);
          }
        }
      })
  )

  it.scopedLive("a server that stops after the answers under way (Connection: close) loses no request", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}, { connection: "close" }))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      yield* Effect.repeatN(transport.call(servers.getPod), 9)
      yield* Effect.repeatN(transport.call(servers.createPod), 9)
      assert.strictEqual(server.requests.length, 20)
    })
  )

  it.scopedLive(
    "a read whose connection was closed under it is sent once more, a write is not: it may have been done",
    () =>
      Effect.gen(function* () {
        let cut = 1
        const server = yield* servers.http((request, response) => {
          if (cut-- > 0) return request.socket.destroy()
          return servers.json(response, 200, {})
        })
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        assert.strictEqual((yield* transport.call(servers.getPod)).status, 200)
        assert.strictEqual(server.requests.length, 2)
        cut = 2
        assert.strictEqual((yield* unavailable(transport)).phase, "stream")
        assert.strictEqual(server.requests.length, 4)
        cut = 1
        const error = yield* unavailable(transport, servers.createPod)
        assert.strictEqual(error.phase, "stream")
        assert.include(error.message, "Whether it was done is not known")
        assert.strictEqual(server.requests.length, 5)
      })
  )

  it.scopedLive("a server that restarts on the same port: refused while it is away, then everything works again", () =>
    Effect.gen(function* () {
      const start = (port: number) =>
        Effect.async<{ readonly port: number; readonly stop: Effect.Effect<void> }>((resume) => {
          const server = createHttp((_, response) => servers.json(response, 200, {}))
          server.listen(port, "127.0.0.1", () => {
            const address = server.address()
            resume(
              Effect.succeed({
                port: typeof address === "object" && address !== null ? address.port : 0,
                stop: Effect.async<void>((done) => {
                  server.close(() => done(Effect.void))
                  server.closeAllConnections()
                })
              })
            )
          })
        })
      const first = yield* start(0)
      const transport = yield* servers.transport(servers.kubeconfig(`http://127.0.0.1:${first.port}`))
      for (let round = 0; round < 3; round++) {
        const server = round === 0 ? first : yield* start(first.port)
        yield* transport.call(servers.getPod)
        yield* transport.call(servers.createPod)
        yield* server.stop
        const error = yield* unavailable(transport, servers.createPod)
        assert.include(["connect", "stream"], error.phase)
      }
    })
  )
})

describe("a server that is busy or broken", () => {
  it.scopedLive(
    "a storm of 5xx: every one is typed with its Retry-After, nothing is sent again, connections are kept",
    () =>
      Effect.gen(function* () {
        const server = yield* servers.http((_, response) =>
          servers.json(response, 503, servers.status(503, "ServiceUnavailable", "apiserver is shutting down"), {
            "retry-after": "2"
          })
        )
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        const errors = yield* Effect.forEach(Array.from({ length: 200 }), () => unavailable(transport), {
          concurrency: 10
        })
        assert.isTrue(
          errors.every(({ code, phase, retryAfter }) => phase === "server" && code === 503 && retryAfter === 2000)
        )
        assert.strictEqual(server.requests.length, 200)
        assert.isAtMost(server.connections(), 10)
      })
  )

  it.scopedLive("headers that come byte by byte: phase silence when their time is over, and the socket is closed", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) => {
        const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-padding: ${"x".repeat(10_000)}`
        let sent = 0
        const timer = setInterval(() => socket.write(head[sent++] ?? "x"), 10)
        socket.on("close", () => clearInterval(timer))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { headersTimeout: "500 millis" })
      const began = performance.now()
      const error = yield* unavailable(transport)
      assert.strictEqual(error.phase, "silence")
      assert.isBelow(performance.now() - began, 4000)
      yield* servers.until(() => server.sockets.size === 0)
    })
  )

  it.scopedLive("headers without end are refused at their limit", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) => {
        socket.write("HTTP/1.1 200 OK\r\n")
        const more = (): void => {
          while (!socket.destroyed && socket.write(`x-padding: ${"x".repeat(1000)}\r\n`));
          socket.once("drain", more)
        }
        more()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      assert.strictEqual((yield* unavailable(transport)).phase, "stream")
      yield* servers.until(() => server.sockets.size === 0)
    })
  )
})

describe("the client's own rate limit", () => {
  it.scopedLive("a log is not kept waiting by lists, watches and writes that queue up", () =>
    Effect.gen(function* () {
      const waits: Array<number> = []
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const transport = yield* servers.transport(servers.kubeconfig(server.url), {
        rateLimit: { qps: 20, burst: 1 },
        onExchange: ({ target, waited }) =>
          Effect.sync(() => {
            if (target.includes("/log")) waits.push(waited)
          })
      })
      yield* Effect.forEach(
        Array.from({ length: 400 }, (_, index) => index % 3),
        (kind) =>
          Effect.forkScoped(
            kind === 0
              ? transport.call(listPods)
              : kind === 1
                ? Stream.runDrain(transport.watch(servers.watchPods))
                : transport.call(servers.createPod)
          )
      )
      yield* pause(20)
      yield* Stream.runDrain(transport.bytes(servers.podLog))
      // four lanes at 20 a second
      assert.isAbove(waits[0] ?? 0, 1)
      assert.isBelow(waits[0] ?? 1000, 500)
      assert.isBelow(server.requests.length, 15)
    })
  )
})

describe("compressed answers", () => {
  const zipped = (body: Buffer | string, encoding = "gzip") =>
    servers.http((_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": encoding })
      response.end(body)
    })

  it.scopedLive("gzip is asked for and unpacked, as kubectl does; not where the cluster says disable-compression", () =>
    Effect.gen(function* () {
      const list = { kind: "PodList", items: Array.from({ length: 2000 }, (_, index) => ({ name: `pöd-${index}` })) }
      const seen: Array<unknown> = []
      const server = yield* servers.http((request, response) => {
        const encoding = request.headers["accept-encoding"]
        seen.push(encoding)
        if (encoding !== "gzip") return servers.json(response, 200, list)
        response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" })
        return response.end(gzipSync(JSON.stringify(list)))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      assert.deepStrictEqual((yield* transport.call(listPods)).body, list)
      const plain = yield* servers.transport(servers.kubeconfig(server.url, {}, { "disable-compression": true }))
      assert.deepStrictEqual((yield* plain.call(listPods)).body, list)
      yield* Stream.runDrain(transport.bytes(servers.podLog))
      assert.deepStrictEqual(seen, ["gzip", "identity", "identity"])
    })
  )

  it.scopedLive("an error in gzip is an error with the server's words", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(403, { "content-type": "application/json", "content-encoding": "gzip" })
        response.end(gzipSync(JSON.stringify(servers.status(403, "Forbidden", 'User "u" cannot get resource "pods"'))))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeForbidden")
      assert.include(error.message, 'cannot get resource "pods"')
    })
  )

  it.scopedLive("one that unpacks to more than the limit is given up at the limit", () =>
    Effect.gen(function* () {
      const server = yield* zipped(gzipSync(Buffer.alloc(50_000_000, " ")))
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { maximumCallBytes: 1_000_000 })
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.include(error.message, "more than 1000000 bytes")
    })
  )

  it.scopedLive("what is no gzip, and encodings that were not asked for, are malformed, for calls and streams", () =>
    Effect.gen(function* () {
      for (const server of [yield* zipped("{}"), yield* zipped("{}", "br")]) {
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        const error = yield* Effect.flip(transport.call(servers.getPod))
        assert.strictEqual(error._tag, "KubeMalformed")
        const ofLog = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
        assert.strictEqual(ofLog._tag, "KubeMalformed")
        const ofWatch = yield* Effect.flip(Stream.runDrain(transport.watch(servers.watchPods)))
        assert.strictEqual(ofWatch._tag, "KubeMalformed")
      }
    })
  )
})

describe("every request can be interrupted within 100 ms, wherever it is", () => {
  const interrupted = (
    transport: KubeTransport,
    ready: () => boolean,
    request: Effect.Effect<unknown, unknown> = transport.call(servers.getPod)
  ) =>
    Effect.gen(function* () {
      let fastest = Infinity
      // A busy machine may stop this process for longer than that
      for (let attempt = 0; attempt < 3 && fastest >= 100; attempt++) {
        const fiber = yield* Effect.fork(request)
        yield* servers.until(ready)
        yield* pause(20)
        assert.isNull(fiber.unsafePoll())
        const began = performance.now()
        yield* Fiber.interrupt(fiber)
        fastest = Math.min(fastest, performance.now() - began)
      }
      assert.isBelow(fastest, 100)
    })

  it.scopedLive("while it connects", () =>
    Effect.gen(function* () {
      // RFC 5737: an address that answers nothing
      const transport = yield* servers.transport(servers.kubeconfig("http://192.0.2.1:6443"))
      const atOnce = yield* transport.call(servers.getPod).pipe(Effect.flip, Effect.timeoutOption("200 millis"))
      if (Option.isSome(atOnce)) {
        // A machine without a network says so before anything can be interrupted
        return assert.strictEqual(atOnce.value._tag, "KubeUnavailable")
      }
      return yield* interrupted(transport, () => true)
    })
  )

  it.scopedLive("in the TLS handshake", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp(() => undefined)
      const transport = yield* servers.transport(servers.kubeconfig(server.url.replace("http:", "https:")))
      yield* interrupted(transport, () => server.sockets.size > 0)
    })
  )

  it.scopedLive("in a proxy's handshake", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp(() => undefined)
      const transport = yield* servers.transport(
        servers.kubeconfig("https://k.example.com", {}, { "proxy-url": server.url })
      )
      yield* interrupted(transport, () => server.sockets.size > 0)
    })
  )

  it.scopedLive("while it waits for headers", () =>
    Effect.gen(function* () {
      const server = yield* servers.http(() => undefined)
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      yield* interrupted(transport, () => server.requests.length > 0)
    })
  )

  it.scopedLive("in the body of a call, a watch and a log", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.write("{")
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const requests = [
        transport.call(servers.getPod),
        Stream.runDrain(transport.watch(servers.watchPods)),
        Stream.runDrain(transport.bytes(servers.podLog))
      ]
      for (const [index, request] of requests.entries()) {
        yield* interrupted(transport, () => server.requests.length > index, request)
        yield* servers.until(() => server.sockets.size === 0)
      }
    })
  )

  it.scopedLive("in the queue of the rate limit, and it never reaches the server", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { rateLimit: { qps: 0.01, burst: 1 } })
      yield* transport.call(servers.getPod)
      yield* interrupted(transport, () => true)
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.scopedLive("while a credential plugin runs", () =>
    Effect.gen(function* () {
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: "sleep",
        args: ["1000"],
        interactiveMode: "Never"
      }
      const transport = yield* servers.transport(servers.kubeconfig("http://127.0.0.1:1", { exec }))
      yield* interrupted(transport, () => true)
    })
  )
})

describe("the log of requests", () => {
  it.scopedLive(
    "tells every request with method, path, status, duration and bytes, streams twice, retries with their number",
    () =>
      Effect.gen(function* () {
        const told: Array<KubeHttp.Exchange> = []
        const onExchange = (exchange: KubeHttp.Exchange) => Effect.sync(() => void told.push(exchange))
        let cut: Socket | undefined
        const server = yield* servers.http((request, response) => {
          if (request.url?.includes("/log") === true) return response.end("hello\n")
          if (request.url?.includes("limit=") === true) {
            if (cut === undefined) {
              cut = request.socket
              return request.socket.destroy()
            }
            return servers.json(response, 200, {})
          }
          return request.method === "GET"
            ? servers.json(response, 404, servers.status(404, "NotFound", "no"))
            : undefined
        })
        const transport = yield* servers.transport(servers.kubeconfig(server.url, { token: "hush" }), { onExchange })
        yield* Effect.flip(transport.call(servers.getPod))
        yield* Stream.runDrain(transport.bytes(servers.podLog))
        yield* transport.call({ ...listPods, query: { limit: "500", continue: "hush", labelSelector: "a=b" } })
        const write = yield* Effect.fork(transport.call(servers.createPod))
        yield* servers.until(() => server.requests.length === 5)
        yield* Fiber.interrupt(write)
        const lines = told.map(
          ({ attempt, bytes, method, outcome, stage, status, target }) =>
            `${stage} ${method} ${target} ${status} ${outcome} ${attempt} ${stage === "ended" && bytes > 0}`
        )
        assert.deepStrictEqual(lines, [
          "ended GET /api/v1/namespaces/n/pods/p 404 answered 1 true",
          "opened GET /api/v1/namespaces/n/pods/p/log?container=node&follow=true 200 answered 1 false",
          "ended GET /api/v1/namespaces/n/pods/p/log?container=node&follow=true 200 answered 1 true",
          "ended GET /api/v1/namespaces/n/pods?limit=500&continue=…&labelSelector=a%3Db undefined failed 1 false",
          "ended GET /api/v1/namespaces/n/pods?limit=500&continue=…&labelSelector=a%3Db 200 answered 2 true",
          "ended POST /api/v1/namespaces/n/pods undefined interrupted 1 false"
        ])
        assert.isTrue(told.every(({ duration }) => duration >= 0))
        assert.notInclude(JSON.stringify(told), "hush")
      })
  )
})
