/** What the command line prints, `--verbose` and failures included, holds no secret of the kubeconfig it was given. */
import * as Telemetry from "@dispatch-kubeflow/core/Telemetry"
import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Metric, Option, Tracer } from "effect"
import { parse } from "yaml"
import * as servers from "../servers.js"
import { serveForAdmin } from "../worlds.js"
import { cli, file, folder } from "./terminal.js"

const secrets = {
  token: "hush-token-0123456789abcdef",
  password: "hush-password",
  proxyPassword: "hush-proxy",
  environment: "hush-environment",
  echoed: "hush-echoed",
  server: "hush-server",
  key: servers.certificate("client.key").split("\n").slice(1, 3).join("")
}

/** Every form in which a secret could be told. */
const forms: ReadonlyArray<string> = Object.values(secrets).flatMap((secret) => [
  secret,
  servers.base64(secret),
  encodeURIComponent(secret),
  servers.base64(`u:${secret}`)
])

const commands: ReadonlyArray<ReadonlyArray<string>> = [
  ["--help"],
  ["doctor", "--help"],
  ["no-such-command"],
  ["preflight"],
  ["capabilities"],
  ["rules", "policy.yaml"],
  ["runtime", "check"],
  ["runtime", "conform", "torch"],
  ["output", "run-1"],
  ["watch", "--once"],
  ["explain", "run-1"],
  ["ceased", "run-1"],
  ["doctor"]
]

const everywhere = (text: string, more: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const path = file(yield* folder, "kubeconfig", text)
    const codes = new Set<number>()
    for (const command of commands) {
      for (const flags of [[], ["--json"], ["--verbose"], ["--json", "--verbose"]]) {
        const given = [...command, ...flags, "--kubeconfig", path]
        const printed = yield* cli(given, { "policy.yaml": "rules: []" }).pipe(Effect.timeout("30 seconds"))
        codes.add(printed.code)
        const all = JSON.stringify([printed.out, printed.err, printed.progress])
        for (const secret of [...forms, ...more]) expect(all, given.join(" ")).not.toContain(secret)
      }
    }
    return codes
  })

const kubeconfig = (server: string, user: object, cluster: object = {}): string =>
  JSON.stringify(servers.kubeconfig(server, user, cluster))

describe("no output holds a secret of the kubeconfig", () => {
  it.scopedLive("of a cluster that works", () =>
    Effect.gen(function* () {
      const codes = yield* everywhere(yield* serveForAdmin, ["admin-token"])
      expect(codes).toContain(ExitCode.ok)
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("of a server that refuses, and repeats what it was sent", () =>
    Effect.gen(function* () {
      const { url } = yield* servers.http((request, response) =>
        servers.json(
          response,
          401,
          servers.status(401, "Unauthorized", `who are you? authorization: ${String(request.headers.authorization)}`)
        )
      )
      for (const user of [{ token: secrets.token }, { username: "u", password: secrets.password }]) {
        expect(yield* everywhere(kubeconfig(url, user))).toContain(ExitCode.notPermitted)
      }
    })
  )

  it.scopedLive("of a server behind a proxy that asks for a password", () =>
    Effect.gen(function* () {
      const proxy = yield* servers.tcp((socket) =>
        socket.once("data", () => socket.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"))
      )
      const cluster = { "proxy-url": proxy.url.replace("//", `//u:${secrets.proxyPassword}@`) }
      const user = {
        "client-certificate-data": servers.base64(servers.certificate("client.crt")),
        "client-key-data": servers.base64(servers.certificate("client.key"))
      }
      const codes = yield* everywhere(kubeconfig("https://api.example.invalid", user, cluster))
      expect(codes).toContain(ExitCode.unavailable)
    })
  )

  it.scopedLive("of a server whose URL holds one, reached or not", () =>
    Effect.gen(function* () {
      const { server } = (parse(yield* serveForAdmin) as { clusters: Array<{ cluster: { server: string } }> })
        .clusters[0]?.cluster ?? { server: "" }
      for (const [url, code] of [
        [server.replace("//", `//joe:${secrets.server}@`), ExitCode.ok],
        [`${server}/?token=${secrets.server}#${secrets.server}`, ExitCode.ok],
        [`http://joe:${secrets.server}@127.0.0.1:1`, ExitCode.unavailable],
        [`http://${secrets.server}@127.0.0.1:1?token=${secrets.server}`, ExitCode.unavailable],
        [`https://joe:${secrets.server}@no-such-host.invalid`, ExitCode.unavailable],
        [`https://joe:${secrets.server}@127.0.0.1:${new URL(server).port}`, ExitCode.unavailable]
      ] as const) {
        expect(yield* everywhere(kubeconfig(url, { token: "admin-token" }))).toContain(code)
      }
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("of a plugin that fails and tells everything it knows", () =>
    Effect.gen(function* () {
      const plugin = file(
        yield* folder,
        "plugin",
        `echo "no login; token: ${secrets.token}" >&2; env >&2; echo '{"token":"${secrets.echoed}"}'; exit 1`
      )
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: "sh",
        args: [plugin],
        env: [{ name: "CLIENT_SECRET", value: secrets.environment }],
        interactiveMode: "Never"
      }
      expect(yield* everywhere(kubeconfig("https://127.0.0.1:1", { exec }))).toContain(ExitCode.unavailable)
    })
  )

  it.scopedLive("that cannot be read", () =>
    Effect.gen(function* () {
      const broken = [
        `users: [{name: u, user: {token: "${secrets.token}}]`,
        `users: [{name: u, user: {token: [${secrets.token}]}}]`,
        kubeconfig("https://x", { token: secrets.token, username: "u", password: secrets.password })
      ]
      for (const text of broken) expect(yield* everywhere(text)).toContain(ExitCode.usage)
    })
  )
})

describe("no message repeats what stands in a file of the user", () => {
  const hush = secrets.environment
  const files: Readonly<Record<string, string>> = {
    environment: `TOKEN=${hush}`,
    kubeconfig: JSON.stringify({ users: [{ name: "u", user: { token: hush } }], n: { token: hush } }),
    secret: `apiVersion: v1\nkind: Secret\nmetadata: { name: s }\nstringData: { token: ${hush} }`,
    job: `apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: { runtimeRef: ${hush}, trainer: { numNodes: ${hush} } }`,
    rules: `- { cause: "", action: { token: ${hush} } }\n- ${hush}`,
    "broken quote": `a: "${hush}`,
    "broken flow": `a: [${hush}`,
    "broken indent": `a:\n  - b\n c: ${hush}`,
    alias: `a: *${hush}`
  }

  it.scopedLive("given as --spec or as --policy, as text and as JSON", () =>
    Effect.gen(function* () {
      const config = file(yield* folder, "kubeconfig", kubeconfig("http://127.0.0.1:1", {}))
      for (const [name, text] of Object.entries(files)) {
        for (const args of [
          ["rules", "--policy", "f"],
          ["capabilities", "--spec", "f"],
          ["preflight", "--spec", "f"],
          ["doctor", "--spec", "f"]
        ]) {
          for (const flags of [[], ["--json"]]) {
            const told = yield* cli([...args, ...flags, "--kubeconfig", config], { f: text })
            expect([name, args, told.code]).toEqual([name, args, ExitCode.usage])
            expect(`${told.out}${told.err}`).not.toContain(hush)
          }
        }
      }
    })
  )

  it.scopedLive("but says where, what belongs there and what kind of thing stands there", () =>
    Effect.gen(function* () {
      const config = file(yield* folder, "kubeconfig", kubeconfig("http://127.0.0.1:1", {}))
      const told = (args: ReadonlyArray<string>, name: string) =>
        Effect.map(cli([...args, "f", "--kubeconfig", config], { f: files[name] ?? "" }), ({ err }) =>
          err.trimEnd().split("\n")
        )
      expect(yield* told(["capabilities", "--spec"], "job")).toEqual([
        "error: the spec f is not a TrainJob:",
        "  - spec.runtimeRef: expected a map, found text",
        "  - spec.trainer.numNodes: expected a number, found text"
      ])
      expect(yield* told(["capabilities", "--spec"], "secret")).toEqual([
        "error: the spec f is not a TrainJob:",
        '  - apiVersion: expected text that begins with "trainer.kubeflow.org/", found other text',
        '  - kind: expected "TrainJob", found other text',
        "  - spec: is missing"
      ])
      expect(yield* told(["rules", "--policy"], "rules")).toEqual([
        "error: the policy f is not a list of rules { cause, action }:",
        "  - [0].cause: is empty",
        "  - [0].action: expected text, found a map",
        "  - [1]: expected a map, found text"
      ])
      expect(yield* told(["rules", "--policy"], "environment")).toEqual([
        "error: the policy f is not a list of rules { cause, action }:",
        "  - the document: expected a list, found text"
      ])
      expect((yield* told(["rules", "--policy"], "broken flow"))[0]).toMatch(
        /^error: the policy f is neither YAML nor JSON: not valid YAML at line 1, column \d+ \([A-Z_]+\)$/
      )
    })
  )
})

describe("--verbose", () => {
  it.scopedLive(
    "tells the server, who asks, and every request; the same ones are counted, and are spans below the operation",
    () =>
      Effect.gen(function* () {
        const cluster = yield* Cluster.Cluster
        yield* cluster.seed([Fixtures.namespace("team")])
        const text = yield* serveForAdmin
        const path = file(yield* folder, "kubeconfig", text)
        const { server } = (parse(text) as { clusters: Array<{ cluster: { server: string } }> }).clusters[0]
          ?.cluster ?? {
          server: "none"
        }
        const spans: Array<Tracer.Span> = []
        const tracer = Tracer.make({
          span: (name, parent, context, links, startTime, kind) => {
            const span: Tracer.Span = {
              _tag: "Span",
              name,
              spanId: String(spans.length),
              traceId: "t",
              parent,
              context,
              status: { _tag: "Started", startTime },
              attributes: new Map(),
              links,
              sampled: true,
              kind,
              end: () => undefined,
              attribute: () => undefined,
              event: () => undefined,
              addLinks: () => undefined
            }
            spans.push(span)
            return span
          },
          context: (execute) => execute()
        })
        const counted = Metric.value(
          Telemetry.requests.pipe(
            Metric.tagged("verb", "create"),
            Metric.tagged("resource", "selfsubjectaccessreviews"),
            Metric.tagged("outcome", "ok")
          )
        )
        const before = (yield* counted).count
        const printed = yield* Effect.withTracer(
          cli(["preflight", "--verbose", "-n", "team", "--kubeconfig", path]),
          tracer
        )
        const lines = printed.err.trimEnd().split("\n")
        expect(lines[0]).toBe(`-- ${server}; context "admin", user "admin", ${path}`)
        expect(lines[1]).toMatch(/^-- GET \/version 200 in \d+ ms, [\d,]+ bytes$/)
        const reviews = lines.filter((line) =>
          line.includes("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        )
        expect(reviews.length).toBeGreaterThan(10)
        for (const line of reviews) expect(line).toMatch(/ 201 in \d+ ms, [\d,]+ bytes$/)
        expect((yield* counted).count - before).toBe(reviews.length)

        const ancestors = (span: Tracer.Span): ReadonlyArray<string> =>
          Option.match(span.parent, {
            onNone: () => [],
            onSome: (parent) => (parent._tag === "Span" ? [parent.name, ...ancestors(parent)] : [])
          })
        const posts = spans.filter(({ name }) => name === "http.client POST")
        expect(posts.length).toBeGreaterThanOrEqual(reviews.length)
        for (const span of posts) expect(ancestors(span).join(" ")).toMatch(/\b[A-Z]\w+\.\w+/)
      }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive("tells what got no answer, and why", () =>
    Effect.gen(function* () {
      const path = file(yield* folder, "kubeconfig", kubeconfig("http://127.0.0.1:1", { token: secrets.token }))
      const { err } = yield* cli(["capabilities", "--verbose", "--kubeconfig", path])
      expect(err).toMatch(/-- GET \/version failed after \d+ ms, 0 bytes \(connect: .*ECONNREFUSED/)
    })
  )
})
