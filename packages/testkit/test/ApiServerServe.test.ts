import * as Https from "node:https"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Ref, TestClock } from "effect"
import * as ApiServer from "../src/ApiServer.js"
import * as Cluster from "../src/Cluster.js"
import * as Rbac from "../src/Rbac.js"
import * as Arguments from "../src/serve/Arguments.js"
import * as Control from "../src/serve/Control.js"
import * as KubeconfigFile from "../src/serve/KubeconfigFile.js"
import * as SelfSigned from "../src/serve/SelfSigned.js"
import * as Story from "../src/serve/Story.js"

describe("arguments", () => {
  const problem = (...argv: ReadonlyArray<string>): string => {
    const parsed = Arguments.parse(argv)
    return Either.isLeft(parsed) ? parsed.left : "accepted"
  }

  it("defaults", () => {
    expect(Arguments.parse(["serve"])).toMatchObject({
      right: {
        _tag: "Serve",
        options: { host: "127.0.0.1", port: 0, nodes: 3, transport: { _tag: "SelfSigned" }, control: false }
      }
    })
  })

  it.each([
    ["500ms", 500],
    ["4s", 4000],
    ["1.5m", 90_000]
  ])("a duration: %s", (text, millis) => {
    expect(Arguments.parse(["serve", "--monitor-grace", text, "--connection-age", text])).toMatchObject({
      right: { options: { monitorGrace: millis, connectionAge: millis } }
    })
  })

  it("--kueue: Kueue runs only when it is asked for", () => {
    expect(Arguments.parse(["serve"])).toMatchObject({ right: { options: { kueue: false } } })
    expect(Arguments.parse(["serve", "--kueue"])).toMatchObject({ right: { options: { kueue: true } } })
    expect(Arguments.help).toContain("--kueue")
  })

  it("help and version win over everything", () => {
    expect(Arguments.parse(["--help"])).toMatchObject({ right: { _tag: "Help" } })
    expect(Arguments.parse(["serve", "--version"])).toMatchObject({ right: { _tag: "Version" } })
  })

  const wrong: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
    [[], /a command is missing/],
    [["start"], /there is no command "start"/],
    [["serve", "now"], /takes no argument "now"/],
    [["serve", "--port", "x"], /--port must be a whole number from 0 to 65535, not "x"/],
    [["serve", "--port", "70000"], /--port must be/],
    [["serve", "--nodes", "1.5"], /--nodes must be/],
    [["serve", "--tls-cert", "a"], /belong together/],
    [["serve", "--http", "--tls-cert", "a", "--tls-key", "b"], /exclude each other/],
    [["serve", "--monitor-grace", "50"], /--monitor-grace must be a duration such as 500ms, 4s, 1m, not "50"/],
    [["serve", "--connection-age", "0s"], /--connection-age must be a duration/],
    [["serve", "--bogus"], /--bogus/],
    [["serve", "--port"], /--port/]
  ]
  it.each(wrong)("%j is refused", (argv, message) => {
    expect(problem(...argv)).toMatch(message)
  })
})

describe("stories", () => {
  it("steps are pauses and requests", () => {
    const text = [
      "- wait: 1.5s",
      "- POST /testkit/nodes/node-1/lose",
      "- POST /api/v1/namespaces: { metadata: { name: a } }"
    ].join("\n")
    expect(Either.getOrThrow(Story.parse(text))).toMatchObject([
      { _tag: "Wait" },
      { _tag: "Request", method: "POST", path: "/testkit/nodes/node-1/lose" },
      { _tag: "Request", method: "POST", path: "/api/v1/namespaces", body: { metadata: { name: "a" } } }
    ])
  })

  it.each([
    ["a: 1", /a list of steps/],
    ["- wait: soon", /step 1 is neither/],
    ["- wait: 1s\n- JUMP /x", /step 2 is neither/],
    ["- [", /./]
  ])("%j is refused", (text, message) => {
    const parsed = Story.parse(text)
    expect(Either.isLeft(parsed) ? parsed.left : "").toMatch(message)
  })

  it("a PATCH is a merge patch, with an apiVersion server-side apply", () => {
    const request = (body: unknown) =>
      Story.kubeRequest({ _tag: "Request", method: "PATCH", path: "/api/v1/nodes/n", body })
    expect(request({ spec: {} })).toMatchObject({ verb: "patch", patchType: "merge", query: {} })
    expect(request({ apiVersion: "v1", kind: "Node" })).toMatchObject({
      patchType: "apply",
      query: { fieldManager: "story" }
    })
  })

  it.effect("play keeps the order and the pauses, and ends at the first failure", () =>
    Effect.gen(function* () {
      const done = yield* Ref.make<ReadonlyArray<string>>([])
      const steps = Either.getOrThrow(Story.parse("- GET /a\n- wait: 10s\n- GET /b\n- GET /bad\n- GET /c"))
      const fiber = yield* Effect.fork(
        Effect.flip(
          Story.play(steps, ({ path }) =>
            path === "/bad" ? Effect.fail("no") : Ref.update(done, (paths) => [...paths, path])
          )
        )
      )
      yield* TestClock.adjust("9 seconds")
      expect(yield* Ref.get(done)).toEqual(["/a"])
      yield* TestClock.adjust("1 seconds")
      expect(yield* Fiber.join(fiber)).toEqual({ step: 4, error: "no" })
      expect(yield* Ref.get(done)).toEqual(["/a", "/b"])
    })
  )
})

describe("the control surface", () => {
  const world = Effect.gen(function* () {
    const calls = yield* Ref.make<ReadonlyArray<unknown>>([])
    const note =
      (name: string) =>
      (...args: ReadonlyArray<unknown>): Effect.Effect<void> =>
        Ref.update(calls, (all) => [...all, [name, ...args]])
    const actions: Control.Actions = {
      processes: Effect.succeed([{ node: "n" }]),
      addNode: note("addNode"),
      loseNode: note("loseNode"),
      replaceMachine: note("replaceMachine"),
      returnNode: note("returnNode"),
      powerOff: note("powerOff"),
      powerOn: note("powerOn"),
      deleteNode: (name) => Effect.fail(new Control.ControlError({ message: `there is no Node "${name}"` })),
      exit: note("exit"),
      program: note("program"),
      log: note("log"),
      cut: note("cut")(),
      compact: note("compact")()
    }
    const ask = (method: string, path: string, body?: unknown, subject = Rbac.admin) =>
      Effect.map(
        Control.handle(actions)({ method, path, query: new URLSearchParams(), subject, body }),
        ({ afterwards, answer }) => ({
          code: answer._tag === "Reply" ? answer.code : 0,
          text: answer._tag === "Reply" ? String(answer.body?.content) : "",
          afterwards
        })
      )
    return { ask, calls: Ref.get(calls) }
  })

  it.effect("every path of the table does its action", () =>
    Effect.gen(function* () {
      const { ask, calls } = yield* world
      const exit = { code: 137, reason: "OOMKilled" }
      const program = { runs: [{ after: 5, code: 1 }], onTerm: "ignore" }
      yield* ask("POST", "/testkit/nodes", { name: "n" })
      yield* ask("POST", "/testkit/nodes/n/lose")
      yield* ask("POST", "/testkit/nodes/n/return")
      yield* ask("POST", "/testkit/nodes/n/power-off")
      yield* ask("POST", "/testkit/nodes/n/power-on")
      yield* ask("POST", "/testkit/namespaces/a/pods/p/exit", exit)
      yield* ask("POST", "/testkit/namespaces/a/pods/p/program", program)
      yield* ask("POST", "/testkit/namespaces/a/pods/p/log", { lines: ["x"] })
      yield* ask("POST", "/testkit/compact")
      const pod = { namespace: "a", name: "p" }
      expect(yield* calls).toEqual([
        ["addNode", { name: "n" }],
        ["loseNode", "n"],
        ["returnNode", "n"],
        ["powerOff", "n"],
        ["powerOn", "n"],
        ["exit", pod, exit],
        ["program", pod, program],
        ["log", pod, { lines: ["x"] }],
        ["compact"]
      ])
      const cut = yield* ask("POST", "/testkit/connections/cut")
      expect((yield* calls).length).toBe(9)
      yield* cut.afterwards ?? Effect.void
      expect((yield* calls).at(-1)).toEqual(["cut"])
      expect((yield* ask("GET", "/testkit/processes")).text).toBe(`{"processes":[{"node":"n"}]}\n`)
      expect((yield* ask("GET", "/testkit/")).text).toContain("POST /testkit/compact")
    })
  )

  it.effect("what is wrong is said: bodies 422 with the field, unknown paths 404, other methods 405, others 403", () =>
    Effect.gen(function* () {
      const { ask, calls } = yield* world
      const bad = yield* ask("POST", "/testkit/namespaces/a/pods/p/exit", { code: 300, x: 1 })
      expect(bad.code).toBe(422)
      expect(bad.text).toMatch(/code: .*255/)
      expect(bad.text).toMatch(/x: is unexpected/)
      expect((yield* ask("POST", "/testkit/nodes/n/delete")).text).toContain("there is no Node")
      expect((yield* ask("POST", "/testkit/nodes/n/explode")).code).toBe(404)
      expect((yield* ask("GET", "/testkit/nope")).code).toBe(404)
      expect((yield* ask("DELETE", "/testkit/nodes/n")).code).toBe(405)
      expect((yield* ask("POST", "/testkit/compact", undefined, Rbac.user("bob"))).code).toBe(403)
      expect(yield* calls).toEqual([])
    })
  )
})

describe("the kubeconfig's file", () => {
  const text = "apiVersion: v1\nkind: Config\nclusters: [{name: dispatch-kubeflow-testkit}]\n"
  const inFolder = Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const folder = yield* files.makeTempDirectoryScoped()
    return { files, file: paths.join(folder, "config") }
  })

  it.scoped("is readable by its owner alone, and replaces an earlier one of its own", () =>
    Effect.gen(function* () {
      const { file, files } = yield* inFolder
      yield* files.writeFileString(file, text, { mode: 0o644 })
      yield* KubeconfigFile.write(`${text}# new\n`, file)
      expect(yield* files.readFileString(file)).toContain("# new")
      expect((yield* files.stat(file)).mode & 0o777).toBe(0o600)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is there as a whole or not at all, behind a link too, and leaves nothing beside it", () =>
    Effect.gen(function* () {
      const { file, files } = yield* inFolder
      const paths = yield* Path.Path
      const folder = paths.dirname(file)
      yield* KubeconfigFile.write(text, file)
      const before = yield* files.stat(file)
      const link = paths.join(folder, "link")
      yield* files.symlink(file, link)
      const written = yield* KubeconfigFile.write(`${text}# new\n`, link)
      expect(written).toBe(yield* files.realPath(file))
      expect(yield* files.readFileString(file)).toContain("# new")
      // Another file took the place of the old one, which whoever has it open still reads
      expect((yield* files.stat(file)).ino).not.toEqual(before.ino)
      expect((yield* files.readDirectory(folder)).toSorted()).toEqual(["config", "link"])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped.each(["apiVersion: v1\nkind: Config\nclusters: [{name: production}]\n", "not yaml: [", ""])(
    "a file of somebody else is never touched: %j",
    (other) =>
      Effect.gen(function* () {
        const { file, files } = yield* inFolder
        yield* files.writeFileString(file, other)
        const error = yield* Effect.flip(KubeconfigFile.write(text, file))
        expect(error._tag).toBe("KubeconfigTaken")
        expect(yield* files.readFileString(file)).toBe(other)
      }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("without a path it goes with the scope", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const file = yield* Effect.scoped(Effect.tap(KubeconfigFile.write(text, undefined), (path) => files.access(path)))
      expect(yield* files.exists(file)).toBe(false)
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("the served in-memory cluster", () => {
  const get = (
    server: ApiServer.Server,
    path: string,
    options: Https.RequestOptions = {}
  ): Effect.Effect<{ readonly code: number; readonly body: unknown }> =>
    Effect.async((resume) => {
      const request = Https.request(`${server.url}${path}`, { ...options, agent: false }, (response) => {
        let text = ""
        response.setEncoding("utf8").on("data", (part: string) => (text += part))
        response.on("end", () =>
          resume(Effect.succeed({ code: response.statusCode ?? 0, body: JSON.parse(text) as unknown }))
        )
      })
      request.on("error", (error) => resume(Effect.die(error)))
      request.end()
    })

  it.scoped("in a TestClock the cluster's time is its own, and sockets work all the same", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(1_795_968_000_000)
      const server = yield* ApiServer.serveCluster({ anonymous: Rbac.admin })
      const response = yield* Effect.promise(() => fetch(`${server.url}/api/v1/namespaces?watch=true`))
      expect(response.status).toBe(200)
      expect(response.headers.get("date")).toBe("Sun, 29 Nov 2026 16:00:00 GMT")
      yield* Effect.promise(() => response.body?.cancel() ?? Promise.resolve())
    }).pipe(Effect.provide(Cluster.layer()))
  )

  it.scopedLive("client certificates: CN is the user, each O a group; another authority's certificate is none", () =>
    Effect.gen(function* () {
      const [tls, bob, eve] = yield* Effect.all([
        SelfSigned.make(["127.0.0.1"]),
        SelfSigned.make([], { commonName: "bob", organizations: ["system:masters", "team-a"] }),
        SelfSigned.make([], { commonName: "eve", organizations: ["system:masters"] })
      ])
      const server = yield* ApiServer.serveCluster({ tls: { ...tls, clientCa: bob.cert } })
      const path = "/api/v1/namespaces/default"
      const ca = tls.cert
      expect((yield* get(server, path, { ca, ...bob })).code).toBe(200)
      expect(yield* get(server, path, { ca, ...eve })).toMatchObject({
        code: 403,
        body: { message: expect.stringContaining(`User "system:anonymous"`) }
      })
    }).pipe(Effect.provide(Cluster.layer()))
  )

  it.scopedLive("a ServiceAccount's token is good until the account is deleted", () =>
    Effect.gen(function* () {
      const cluster = yield* Cluster.Cluster
      const tls = yield* SelfSigned.make(["127.0.0.1"])
      const server = yield* ApiServer.serveCluster({ tls })
      const accounts = { group: "", version: "v1", plural: "serviceaccounts" }
      const { call } = cluster.admin.transport
      const body = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } }
      yield* call(KubeRequest.make("create", accounts, { namespace: "default", body }))
      const issued = yield* call(
        KubeRequest.make("create", accounts, {
          namespace: "default",
          name: "robot",
          subresource: "token",
          body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} }
        })
      )
      const { token } = (issued.body as { readonly status: { readonly token: string } }).status
      const ask = get(server, "/api/v1/namespaces/default/pods", {
        ca: tls.cert,
        headers: { authorization: `Bearer ${token}` }
      })
      expect(yield* ask).toMatchObject({
        code: 403,
        body: { message: expect.stringContaining(`User "system:serviceaccount:default:robot"`) }
      })
      yield* call(KubeRequest.make("delete", accounts, { namespace: "default", name: "robot" }))
      expect((yield* ask).code).toBe(401)
    }).pipe(Effect.provide(Cluster.layer()))
  )

  it.scopedLive("impersonation takes the permission to, and gives the other's permissions", () =>
    Effect.gen(function* () {
      const tls = yield* SelfSigned.make(["127.0.0.1"])
      const server = yield* ApiServer.serveCluster({ tls, tokens: { a: Rbac.admin, b: Rbac.user("bob") } })
      const ask = (token: string, headers: Record<string, string>) =>
        get(server, "/api/v1/nodes", { ca: tls.cert, headers: { authorization: `Bearer ${token}`, ...headers } })
      expect((yield* ask("a", {})).code).toBe(200)
      expect(yield* ask("a", { "impersonate-user": "bob" })).toMatchObject({
        code: 403,
        body: { message: expect.stringContaining(`User "bob" cannot list resource "nodes"`) }
      })
      expect((yield* ask("a", { "impersonate-user": "bob", "impersonate-group": "system:masters" })).code).toBe(200)
      expect(yield* ask("b", { "impersonate-user": "kubernetes-admin" })).toMatchObject({
        code: 403,
        body: {
          message: `users "kubernetes-admin" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope`
        }
      })
      expect((yield* ask("a", { "impersonate-group": "x" })).code).toBe(400)
    }).pipe(Effect.provide(Cluster.layer()))
  )
})
