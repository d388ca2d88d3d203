import type { ServerResponse } from "node:http"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as LiveTransport from "@dispatch-kubeflow/k8s-live/LiveTransport"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Exit, Fiber, Stream } from "effect"
import * as fc from "effect/FastCheck"
import * as servers from "./servers.js"

const event = (type: string, name: string, more: object = {}): object => ({
  type,
  object: { kind: "Pod", metadata: { name, uid: name, resourceVersion: "6" }, ...more }
})
const line = (value: object): string => `${JSON.stringify(value)}\n`

const watchHead = (response: ServerResponse): void => {
  response.writeHead(200, { "content-type": "application/json" })
  response.flushHeaders()
}

const pause = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 30)))

describe("call", () => {
  it.scopedLive(
    "sends method, path, query, body and content type, and reads the reply with warnings and server time",
    () =>
      Effect.gen(function* () {
        let seen = ""
        let headers: Record<string, unknown> = {}
        const server = yield* servers.http((request, response) => {
          headers = request.headers
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            seen = Buffer.concat(chunks).toString("utf8")
            servers.json(
              response,
              201,
              { kind: "Pod" },
              {
                date: "Sun, 29 Nov 2026 15:00:00 GMT",
                warning: ['299 - "first, with \\"quotes\\""', '299 - "second" "Sun, 29 Nov 2026 15:00:00 GMT"']
              }
            )
          })
        })
        const transport = yield* servers.transport(servers.kubeconfig(server.url, { token: "t0" }))
        const reply = yield* transport.call({
          ...servers.createPod,
          query: { dryRun: "All", fieldManager: "a b" }
        })
        assert.deepStrictEqual(server.requests, ["POST /api/v1/namespaces/n/pods?dryRun=All&fieldManager=a+b"])
        assert.strictEqual(seen, '{"kind":"Pod"}')
        assert.strictEqual(headers["content-type"], "application/json")
        assert.strictEqual(headers["authorization"], "Bearer t0")
        assert.match(String(headers["user-agent"]), /^dispatch-kubeflow\/\d+\.\d+\.\d+/)
        assert.deepStrictEqual(reply, {
          status: 201,
          body: { kind: "Pod" },
          warnings: ['first, with "quotes"', "second"],
          serverTime: Date.UTC(2026, 10, 29, 15, 0, 0)
        })
      })
  )

  it.scopedLive("decodes a Status body into the error for it", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) =>
        servers.json(
          response,
          404,
          servers.status(404, "NotFound", 'pods "p" not found', { details: { name: "p", kind: "pods" } })
        )
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeNotFound")
      assert.match(error.message, /pods "p" not found/)
    })
  )

  it.scopedLive("Retry-After is kept, in seconds and as a date, and nothing is retried", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(429, { "retry-after": "7", "content-type": "text/plain" })
        response.end("Too many requests, please try again later.")
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeUnavailable")
      if (error._tag === "KubeUnavailable") {
        assert.strictEqual(error.retryAfter, 7000)
        assert.strictEqual(error.code, 429)
        assert.match(error.message, /please try again later/)
      }
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it("Retry-After as a date counts from the local clock, and nonsense is nothing", () => {
    const now = Date.UTC(2026, 10, 29, 15, 0, 0)
    assert.strictEqual(LiveTransport.parseRetryAfter("Sun, 29 Nov 2026 15:00:09 GMT", now), 9000)
    assert.strictEqual(LiveTransport.parseRetryAfter("Sun, 29 Nov 2026 14:00:09 GMT", now), 0)
    assert.strictEqual(LiveTransport.parseRetryAfter("soon", now), undefined)
    assert.strictEqual(LiveTransport.parseRetryAfter(undefined, now), undefined)
  })

  it.scopedLive("a login page is malformed: content type and first words, no secret", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "text/html; charset=utf-8" })
        response.end(
          "<html><head><style>p{}</style></head><body><h1>Sign in</h1>token=abcdefgh1234567890 to go on</body></html>"
        )
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.include(error.message, "text/html")
      assert.include(error.message, "Sign in")
      assert.notInclude(error.message, "abcdefgh1234567890")
      const ofWatch = yield* Effect.flip(Stream.runDrain(transport.watch(servers.watchPods)))
      assert.strictEqual(ofWatch._tag, "KubeMalformed")
      const ofLog = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
      assert.strictEqual(ofLog._tag, "KubeMalformed")
    })
  )

  it.scopedLive("a server without /version is no API server, whatever it says", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 404, { error: "no route" }))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(KubeRequest.nonResource("/version")))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.include(error.message, "404 for /version")
    })
  )

  it.scopedLive("an answer without end is malformed at its limit, and its connection is closed", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const more = (): void => {
          while (!response.destroyed && response.write(" ".repeat(10_000)));
          response.once("drain", more)
        }
        more()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { maximumCallBytes: 1_000_000 })
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.include(error.message, "more than 1000000 bytes")
      yield* servers.until(() => server.sockets.size === 0, 1000)
    })
  )

  it.scopedLive("an answer that trickles is Unavailable, phase silence, when its time is over", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const timer = setInterval(() => response.write(" "), 20)
        response.on("close", () => clearInterval(timer))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { callTimeout: "300 millis" })
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag === "KubeUnavailable" ? error.phase : error._tag, "silence")
      assert.include(error.message, "no end within 0.3 s")
    })
  )

  it.scopedLive("broken JSON is malformed and its words are not shown", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.end('{"spec":{"env":"hush"')
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.notInclude(error.message, "hush")
    })
  )

  it.scopedLive("a redirection is malformed, not followed", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(302, { location: "https://login.example.com/x?session=1" })
        response.end()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeMalformed")
      assert.include(error.message, "302")
      assert.include(error.message, "login.example.com")
      assert.notInclude(error.message, "session")
    })
  )

  it.scopedLive("a body that breaks before its end is Unavailable, phase stream", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) =>
        socket.on("data", () => {
          socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"kind"')
          setTimeout(() => socket.destroy(), 20)
        })
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeUnavailable")
      if (error._tag === "KubeUnavailable") assert.strictEqual(error.phase, "stream")
    })
  )

  it.scopedLive("an empty or dotted name never reaches the server: it would mean the whole collection", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      for (const name of ["", ".", "..", "a/b", "%2e%2e"]) {
        const error = yield* Effect.flip(
          transport.call(
            KubeRequest.make("delete", { group: "", version: "v1", plural: "pods" }, { namespace: "n", name })
          )
        )
        assert.strictEqual(error._tag, "KubeInvalid")
      }
      assert.deepStrictEqual(server.requests, [])
    })
  )

  it.scopedLive("connections are reused", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      yield* Effect.repeatN(transport.call(servers.getPod), 19)
      // undici may open a second one when a request comes in the same instant as the end of the one before
      assert.isAtMost(server.connections(), 2)
      yield* Effect.repeatN(Stream.runDrain(transport.bytes(servers.podLog)), 19)
      assert.isAtMost(server.connections(), 3)
    })
  )
})

describe("watch", () => {
  const collect = (body: ReadonlyArray<Uint8Array>, end: "end" | "destroy" = "end") =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        watchHead(response)
        const next = (index: number): void => {
          const chunk = body[index]
          if (chunk === undefined) {
            if (end === "end") response.end()
            else setTimeout(() => response.socket?.destroy(), 20)
            return
          }
          response.write(chunk, () => setImmediate(() => next(index + 1)))
        }
        next(0)
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const seen: Array<unknown> = []
      const exit = yield* Effect.exit(
        Stream.runForEach(transport.watch(servers.watchPods), (frame) => Effect.sync(() => seen.push(frame)))
      )
      const error = Exit.isFailure(exit) ? errorOf(exit) : undefined
      return { seen, error, server }
    })
  const errorOf = (exit: Exit.Exit<unknown, unknown>): { _tag: string; message: string; phase?: string } =>
    Exit.isFailure(exit) && exit.cause._tag === "Fail"
      ? (exit.cause.error as { _tag: string; message: string; phase?: string })
      : { _tag: String(exit), message: "" }

  it.scopedLive("W13: a line cut at every byte, inside characters too, gives the same events", () =>
    Effect.gen(function* () {
      const events = [event("ADDED", "pöd-🚀", { note: "█ é" }), event("MODIFIED", "b"), event("DELETED", "b")]
      const bytes = Buffer.from(events.map(line).join(""), "utf8")
      let handler: (response: ServerResponse) => void = () => undefined
      const server = yield* servers.http((_, response) => handler(response))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      for (let cut = 1; cut < bytes.length; cut++) {
        handler = (response) => {
          watchHead(response)
          response.write(bytes.subarray(0, cut), () => setImmediate(() => response.end(bytes.subarray(cut))))
        }
        const seen = yield* Stream.runCollect(transport.watch(servers.watchPods))
        assert.deepStrictEqual(Chunk.toReadonlyArray(seen), events as never, `cut at ${cut}`)
      }
      // and every byte alone
      handler = (response) => {
        watchHead(response)
        const next = (index: number): void => {
          if (index === bytes.length) return void response.end()
          response.write(bytes.subarray(index, index + 1), () => next(index + 1))
        }
        next(0)
      }
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Stream.runCollect(transport.watch(servers.watchPods))),
        events as never
      )
    })
  )

  it.scopedLive("W13: a stream that ends inside a line is Unavailable, after the events before it", () =>
    Effect.gen(function* () {
      const first = line(event("ADDED", "a"))
      const { seen, error } = yield* collect([Buffer.from(first + line(event("ADDED", "b")).slice(0, 25))])
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(error?._tag, "KubeUnavailable")
      assert.strictEqual(error?.phase, "stream")
    })
  )

  it.scopedLive("W13: a connection cut between lines is Unavailable, never a clean end", () =>
    Effect.gen(function* () {
      const { seen, error } = yield* collect([Buffer.from(line(event("ADDED", "a")))], "destroy")
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(error?._tag, "KubeUnavailable")
      assert.strictEqual(error?.phase, "stream")
    })
  )

  it.scopedLive("W04: headers and then a cut connection fail once, as Unavailable", () =>
    Effect.gen(function* () {
      const { seen, error, server } = yield* collect([], "destroy")
      assert.strictEqual(seen.length, 0)
      assert.strictEqual(error?._tag, "KubeUnavailable")
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.scopedLive("W12: a clean end is the end of the stream", () =>
    Effect.gen(function* () {
      const { seen, error, server } = yield* collect([Buffer.from(line(event("BOOKMARK", "")))])
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(error, undefined)
      assert.deepStrictEqual(server.requests, ["GET /api/v1/namespaces/n/pods?resourceVersion=5&watch=true"])
    })
  )

  for (const reason of ["Expired", "Gone"]) {
    it.scopedLive(
      `W05, W06, W14: an ERROR frame 410 ${reason} fails the stream as KubeExpired, after what came before`,
      () =>
        Effect.gen(function* () {
          const frame = { type: "ERROR", object: servers.status(410, reason, "too old resource version: 5 (373)") }
          const { seen, error } = yield* collect([Buffer.from(line(event("ADDED", "a")) + line(frame))])
          assert.deepStrictEqual(seen, [event("ADDED", "a")])
          assert.strictEqual(error?._tag, "KubeExpired")
          assert.match(error?.message ?? "", /too old resource version/)
        })
    )
  }

  it.scopedLive("W05: 410 as the status line is KubeExpired too", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) =>
        servers.json(response, 410, servers.status(410, "Expired", "too old"))
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(Stream.runDrain(transport.watch(servers.watchPods)))
      assert.strictEqual(error._tag, "KubeExpired")
    })
  )

  it.scopedLive("W14: a garbled line in the middle is malformed, and its words are not shown", () =>
    Effect.gen(function* () {
      const { seen, error } = yield* collect([
        Buffer.from(`${line(event("ADDED", "a"))}{"type":"ADDED","object":{"env":"hush"\n${line(event("ADDED", "b"))}`)
      ])
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(error?._tag, "KubeMalformed")
      assert.notInclude(error?.message ?? "", "hush")
    })
  )

  it.scopedLive("a frame of an unknown type is malformed and named", () =>
    Effect.gen(function* () {
      const { error } = yield* collect([Buffer.from(line(event("RENAMED", "a")))])
      assert.strictEqual(error?._tag, "KubeMalformed")
      assert.match(error?.message ?? "", /RENAMED/)
    })
  )

  it.scopedLive("lines of nothing are skipped, and CRLF does not matter", () =>
    Effect.gen(function* () {
      const { seen, error } = yield* collect([Buffer.from(`\n\r\n${JSON.stringify(event("ADDED", "a"))}\r\n\n`)])
      assert.strictEqual(error, undefined)
      assert.deepStrictEqual(seen, [event("ADDED", "a")])
    })
  )

  it.scopedLive("a line of 8 MB passes", () =>
    Effect.gen(function* () {
      const big = event("ADDED", "a", { blob: "x".repeat(8 * 1024 * 1024) })
      const { seen, error } = yield* collect([Buffer.from(line(big)), Buffer.from(line(event("ADDED", "b")))])
      assert.strictEqual(error, undefined)
      assert.strictEqual(seen.length, 2)
    })
  )

  it.scopedLive("W02: events that come slower than a whole-request timer would allow keep one connection", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        watchHead(response)
        let count = 0
        const timer = setInterval(() => {
          count++
          response.write(line(event("BOOKMARK", "")))
          if (count === 10) {
            clearInterval(timer)
            response.end()
          }
        }, 60)
      })
      // ten pieces 60 ms apart last three times as long as each of these limits
      const transport = yield* servers.transport(servers.kubeconfig(server.url), {
        watchIdle: 200,
        headersTimeout: 200,
        callIdle: 200
      })
      assert.strictEqual(yield* Stream.runCount(transport.watch(servers.watchPods)), 10)
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.scopedLive("a silent watch is Unavailable, phase silence, when its inactivity limit is over", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        watchHead(response)
        response.write(line(event("ADDED", "a")))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { watchIdle: 100 })
      const error = yield* Effect.flip(Stream.runDrain(transport.watch(servers.watchPods)))
      assert.strictEqual(error._tag, "KubeUnavailable")
      if (error._tag === "KubeUnavailable") assert.strictEqual(error.phase, "silence")
      yield* servers.until(() => server.sockets.size === 0)
    })
  )

  it.scopedLive("a slow reader is not silence, and backpressure reaches the server", () =>
    Effect.gen(function* () {
      let written = 0
      const blob = line(event("ADDED", "a", { blob: "x".repeat(64 * 1024) }))
      const server = yield* servers.http((_, response) => {
        watchHead(response)
        const more = (): void => {
          while (written < 1000) {
            written++
            if (!response.write(blob)) return void response.once("drain", more)
          }
          response.end()
        }
        more()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url), { watchIdle: 100 })
      let first = true
      const count = yield* transport.watch(servers.watchPods).pipe(
        Stream.tap(() => {
          if (!first) return Effect.void
          first = false
          return Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 400))).pipe(
            Effect.tap(() => Effect.sync(() => assert.isBelow(written, 900)))
          )
        }),
        Stream.runCount
      )
      assert.strictEqual(count, 1000)
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.scopedLive("cut into any pieces, any events come out as they went in", () =>
    Effect.gen(function* () {
      let handler: (response: ServerResponse) => void = () => undefined
      const server = yield* servers.http((_, response) => handler(response))
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.array(fc.record({ type: fc.constantFrom("ADDED", "MODIFIED", "DELETED"), object: fc.object() }), {
              maxLength: 12
            }),
            fc.array(fc.nat(2000), { maxLength: 20 }),
            async (raw, cuts) => {
              const events = raw.map((value) => JSON.parse(JSON.stringify(value)) as object)
              const bytes = Buffer.from(events.map(line).join(""), "utf8")
              const points = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b)
              handler = (response) => {
                watchHead(response)
                let from = 0
                for (const point of [...points, bytes.length]) {
                  if (point > from) response.write(bytes.subarray(from, point))
                  from = point
                }
                response.end()
              }
              const seen = await Effect.runPromise(Stream.runCollect(transport.watch(servers.watchPods)))
              assert.deepStrictEqual(Chunk.toReadonlyArray(seen), events as never)
            }
          ),
          {
            numRuns: Number(process.env["FC_RUNS"] ?? 60),
            ...(process.env["FC_SEED"] === undefined ? {} : { seed: Number(process.env["FC_SEED"]) })
          }
        )
      )
    })
  )
})

describe("bytes", () => {
  it.scopedLive("delivers the body as it is", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "text/plain" })
        response.write(Buffer.from([0xe2, 0x96]))
        setImmediate(() => response.end(Buffer.from([0x88, 0xd4, 0x0a])))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const chunks = yield* Stream.runCollect(transport.bytes(servers.podLog))
      assert.deepStrictEqual(Array.from(Buffer.concat([...chunks])), [0xe2, 0x96, 0x88, 0xd4, 0x0a])
      assert.deepStrictEqual(server.requests, ["GET /api/v1/namespaces/n/pods/p/log?container=node&follow=true"])
    })
  )

  it.scopedLive("O31: the status is looked at before the first byte: a refusal's body is never output", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) =>
        servers.json(
          response,
          403,
          servers.status(403, "Forbidden", 'pods "p" is forbidden: User "u" cannot get resource "pods/log"')
        )
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      let bytes = 0
      const error = yield* Effect.flip(
        Stream.runForEach(transport.bytes(servers.podLog), (chunk) => Effect.sync(() => (bytes += chunk.length)))
      )
      assert.strictEqual(error._tag, "KubeForbidden")
      assert.strictEqual(bytes, 0)
    })
  )

  it.scopedLive("O09: a waiting container is a typed refusal with the server's words", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) =>
        servers.json(
          response,
          400,
          servers.status(400, "BadRequest", 'container "node" in pod "p" is waiting to start: PodInitializing')
        )
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
      assert.strictEqual(error._tag, "KubeInvalid")
      assert.match(error.message, /is waiting to start/)
    })
  )

  it.scopedLive("a 204 is NotFound of the log", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(204)
        response.end()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      const error = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
      assert.strictEqual(error._tag, "KubeNotFound")
      if (error._tag === "KubeNotFound") assert.strictEqual(error.subject, "log")
    })
  )

  it.scopedLive("an empty log is an empty stream", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "text/plain" })
        response.end()
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      assert.strictEqual(yield* Stream.runCount(transport.bytes(servers.podLog)), 0)
    })
  )

  it.scopedLive("O06: a log whose connection breaks is Unavailable, phase stream, after its bytes", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "text/plain" })
        response.write("one\n")
        setTimeout(() => response.socket?.destroy(), 20)
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      let text = ""
      const error = yield* Effect.flip(
        Stream.runForEach(transport.bytes(servers.podLog), (chunk) =>
          Effect.sync(() => (text += Buffer.from(chunk).toString()))
        )
      )
      assert.strictEqual(text, "one\n")
      assert.strictEqual(error._tag, "KubeUnavailable")
      if (error._tag === "KubeUnavailable") assert.strictEqual(error.phase, "stream")
    })
  )

  it.scopedLive("a body that breaks before anyone reads it is not an empty log", () =>
    Effect.gen(function* () {
      const server = yield* servers.tcp((socket) =>
        socket.on("data", () => {
          socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
          socket.destroySoon()
        })
      )
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      for (let round = 0; round < 20; round++) {
        const error = yield* Effect.flip(Stream.runDrain(transport.bytes(servers.podLog)))
        assert.strictEqual(error._tag, "KubeUnavailable")
      }
    })
  )
})

describe("interruption", () => {
  for (const kind of ["call", "watch", "bytes"] as const) {
    const start = (transport: Effect.Effect.Success<ReturnType<typeof servers.transport>>) =>
      kind === "call"
        ? Effect.asVoid(transport.call(servers.getPod))
        : kind === "watch"
          ? Stream.runDrain(transport.watch(servers.watchPods))
          : Stream.runDrain(transport.bytes(servers.podLog))

    it.scopedLive(`I04, O17: ${kind} interrupted before the headers closes the socket`, () =>
      Effect.gen(function* () {
        const server = yield* servers.http(() => undefined)
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        const fiber = yield* Effect.fork(start(transport))
        yield* servers.until(() => server.requests.length === 1)
        yield* Fiber.interrupt(fiber)
        yield* servers.until(() => server.sockets.size === 0)
      })
    )

    it.scopedLive(`I04, O17: ${kind} interrupted in mid-body closes the socket`, () =>
      Effect.gen(function* () {
        const server = yield* servers.http((_, response) => {
          watchHead(response)
          response.write(kind === "watch" ? line(event("ADDED", "a")) : "{")
        })
        const transport = yield* servers.transport(servers.kubeconfig(server.url))
        const fiber = yield* Effect.fork(start(transport))
        yield* servers.until(() => server.requests.length === 1)
        yield* pause
        assert.strictEqual(server.sockets.size, 1)
        yield* Fiber.interrupt(fiber)
        yield* servers.until(() => server.sockets.size === 0)
      })
    )
  }

  it.scopedLive("a reader that stops early closes the socket", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        watchHead(response)
        response.write(line(event("ADDED", "a")))
      })
      const transport = yield* servers.transport(servers.kubeconfig(server.url))
      assert.strictEqual(yield* Stream.runCount(Stream.take(transport.watch(servers.watchPods), 1)), 1)
      yield* servers.until(() => server.sockets.size === 0)
    })
  )

  it.live("closing the layer closes every socket", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
        yield* Effect.scoped(
          Effect.gen(function* () {
            const transport = yield* servers.transport(servers.kubeconfig(server.url))
            yield* transport.call(servers.getPod)
            assert.strictEqual(server.sockets.size, 1)
          })
        )
        yield* servers.until(() => server.sockets.size === 0)
      })
    )
  )
})
