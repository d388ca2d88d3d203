/** Ways to authenticate, each against a server; and what is said when one is refused. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect as connectTcp, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import type { TLSSocket } from "node:tls"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer, Redacted, Schema, type Scope } from "effect"
import { inspect } from "node:util"
import * as servers from "./servers.js"
import { freshNamespace, realKubeconfig, serveForAdmin } from "./worlds.js"

const trusting = { "certificate-authority-data": servers.base64(servers.certificate("ca.crt")) }
const unauthorized = servers.status(401, "Unauthorized", "Unauthorized")

const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "auth-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A transport from a source, in an environment of its own. */
const transportOf = (
  options: KubeConfig.Options,
  environment: Record<string, string> = {}
): Effect.Effect<KubeTransport, KubeConfig.KubeConfigError, Scope.Scope> =>
  Layer.build(KubeApiLive.layer(options)).pipe(
    Effect.map((context) => Context.get(context, KubeApi.KubeApi).transport),
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ HOME: "/nonexistent", ...environment }))))
  )

const valueOf = (value: object): KubeConfig.Options => ({
  source: KubeConfig.Source.Value({ value, name: "/home/jane/.kube/config" })
})

/** The error of a call; it names where the credentials come from and repeats no secret. */
const told = (transport: KubeTransport, ...words: ReadonlyArray<string>): Effect.Effect<KubeError> =>
  Effect.map(Effect.orDie(Effect.flip(transport.call(servers.getPod))), (error) => {
    for (const word of ['context "x"', "/home/jane/.kube/config", ...words]) assert.include(error.message, word)
    assert.notInclude(inspect(error, { depth: 12 }), "hush")
    return error
  })

describe("credential plugins against a server", () => {
  const apiVersion = "client.authentication.k8s.io/v1"

  const plugin = (script: string) =>
    Effect.map(directory, (path) => {
      writeFileSync(
        join(path, "plugin"),
        `#!/bin/sh\ncd "$(dirname "$0")"; echo run >> runs\nn=$(wc -l < runs)\n${script}\n`
      )
      chmodSync(join(path, "plugin"), 0o755)
      writeFileSync(join(path, "runs"), "")
      return {
        exec: { apiVersion, command: join(path, "plugin"), interactiveMode: "Never" },
        runs: (): number => readFileSync(join(path, "runs"), "utf8").split("\n").length - 1
      }
    })

  it.scopedLive("T02, T04: thirty requests whose token is refused run the plugin once more, and all are answered", () =>
    Effect.gen(function* () {
      const { exec, runs } = yield* plugin(
        `sleep 0.1; echo "{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"${apiVersion}\\",\\"status\\":{\\"token\\":\\"t$(echo $n)\\"}}"`
      )
      const server = yield* servers.https({}, (request, response) =>
        request.headers.authorization === "Bearer t2"
          ? servers.json(response, 200, {})
          : servers.json(response, 401, unauthorized)
      )
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, { exec }, trusting)))
      const replies = yield* Effect.all(
        Array.from({ length: 30 }, () => transport.call(servers.getPod)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(replies.length, 30)
      assert.strictEqual(runs(), 2)
      assert.strictEqual(server.requests.length, 60)
    })
  )

  it.scopedLive("T02: new credentials that are refused too: one more run, one more request, and what to do", () =>
    Effect.gen(function* () {
      const { exec, runs } = yield* plugin(
        `echo "{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"${apiVersion}\\",\\"status\\":{\\"token\\":\\"hush$(echo $n)\\"}}"`
      )
      const server = yield* servers.https({}, (_, response) => servers.json(response, 401, unauthorized))
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, { exec }, trusting)))
      const error = yield* told(transport, 'user "u"', exec.command, "log in", "kubectl --context x auth whoami")
      assert.strictEqual(error._tag, "KubeUnauthorized")
      assert.strictEqual(runs(), 2)
      assert.strictEqual(server.requests.length, 2)
    })
  )

  it.scopedLive("a certificate from a plugin is shown to the server, and replaced after a refusal", () =>
    Effect.gen(function* () {
      for (const name of ["client", "client-2"]) assert.include(servers.certificate(`${name}.crt`), "BEGIN")
      const answer = (name: string): string =>
        JSON.stringify({
          kind: "ExecCredential",
          apiVersion,
          status: {
            clientCertificateData: servers.certificate(`${name}.crt`),
            clientKeyData: servers.certificate(`${name}.key`)
          }
        })
      const { exec } = yield* plugin(
        `if [ $n = 1 ]; then cat <<'END'\n${answer("client")}\nEND\nelse cat <<'END'\n${answer("client-2")}\nEND\nfi`
      )
      const server = yield* servers.https(
        { ca: servers.certificate("client-ca.crt"), requestCert: true, rejectUnauthorized: true },
        (request, response) => {
          const who = (request.socket as TLSSocket).getPeerCertificate().subject.CN
          return who === "client" ? servers.json(response, 401, unauthorized) : servers.json(response, 200, { who })
        }
      )
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, { exec }, trusting)))
      assert.deepStrictEqual((yield* transport.call(servers.getPod)).body, { who: "client-2" })
    })
  )

  it.scopedLive("T09: one that fails: nothing is sent, and its words reach the caller without secrets", () =>
    Effect.gen(function* () {
      const { exec } = yield* plugin(`echo 'SSO session expired, token=hushhushhush' >&2; exit 255`)
      const server = yield* servers.https({}, (_, response) => servers.json(response, 200, {}))
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, { exec }, trusting)))
      const error = yield* told(transport, 'users["u"].user.exec', "SSO session expired", "Run it by hand")
      assert.strictEqual(error._tag === "KubeUnavailable" ? error.phase : error._tag, "credentials")
      assert.strictEqual(server.requests.length, 0)
    })
  )
})

describe("in a pod", () => {
  it.scopedLive("T01: the service account's token and CA are used, and a rotated token without a failed request", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const account = join(root, "var/run/secrets/kubernetes.io/serviceaccount")
      mkdirSync(account, { recursive: true })
      writeFileSync(join(account, "token"), "one")
      writeFileSync(join(account, "namespace"), "team")
      writeFileSync(join(account, "ca.crt"), servers.certificate("ca.crt"))
      let valid = "one"
      const server = yield* servers.https({}, (request, response) =>
        request.headers.authorization === `Bearer ${valid}`
          ? servers.json(response, 200, {})
          : servers.json(response, 401, unauthorized)
      )
      const transport = yield* transportOf(
        { source: KubeConfig.Source.InCluster({ root }) },
        { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(server.port) }
      )
      yield* transport.call(servers.getPod)
      writeFileSync(join(account, "token"), "two")
      valid = "two"
      yield* transport.call(servers.createPod)
      assert.strictEqual(server.requests.length, 3)
      valid = "three"
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeUnauthorized")
      assert.include(error.message, "in-cluster")
      assert.include(error.message, join(account, "token"))
    })
  )
})

describe("OpenID Connect", () => {
  const jwt = (claims: object): string =>
    ["{}", JSON.stringify(claims), "hush"].map((part) => Buffer.from(part).toString("base64url")).join(".")
  const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds

  /** An issuer over TLS with a CA of its own. */
  const issuer = (token: (form: URLSearchParams, authorization: string | undefined) => readonly [number, object]) =>
    Effect.gen(function* () {
      const forms: Array<string> = []
      const server = yield* servers.https({}, (request, response) => {
        if (request.url === "/realm/.well-known/openid-configuration") {
          return servers.json(response, 200, { token_endpoint: `https://${request.headers.host}/realm/token` })
        }
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        return request.on("end", () => {
          const form = new URLSearchParams(Buffer.concat(chunks).toString("utf8"))
          forms.push(form.toString())
          servers.json(response, ...token(form, request.headers.authorization))
        })
      })
      return { forms, url: `${server.url}/realm` }
    })

  const login = (url: string, config: object): object => ({
    "auth-provider": {
      name: "oidc",
      config: {
        "idp-issuer-url": url,
        "idp-certificate-authority-data": trusting["certificate-authority-data"],
        "client-id": "kubernetes",
        "refresh-token": "hush-refresh-1",
        ...config
      }
    }
  })

  const accepting = (tokens: ReadonlyArray<string>) =>
    servers.http((request, response) =>
      tokens.includes(request.headers.authorization ?? "")
        ? servers.json(response, 200, {})
        : servers.json(response, 401, unauthorized)
    )

  it.scopedLive("an expired id token is renewed once for all who ask, with client id and secret, and then kept", () =>
    Effect.gen(function* () {
      const fresh = jwt({ exp: inSeconds(3600) })
      const { forms, url } = yield* issuer((form, authorization) =>
        form.get("refresh_token") === "hush-refresh-1" &&
        authorization === `Basic ${servers.base64("kubernetes:hush%20secret")}`
          ? [200, { id_token: fresh, refresh_token: "hush-refresh-2", expires_in: 300 }]
          : [400, { error: "invalid_grant" }]
      )
      const server = yield* accepting([`Bearer ${fresh}`])
      const user = login(url, { "id-token": jwt({ exp: 1 }), "client-secret": "hush secret" })
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, user)))
      yield* Effect.all(
        Array.from({ length: 20 }, () => transport.call(servers.getPod)),
        { concurrency: "unbounded" }
      )
      yield* transport.call(servers.getPod)
      assert.deepStrictEqual(forms, ["grant_type=refresh_token&refresh_token=hush-refresh-1"])
      assert.strictEqual(server.requests.length, 21)
    })
  )

  it.scopedLive("one that the server refuses is renewed once, with the newest refresh token", () =>
    Effect.gen(function* () {
      const tokens = [1, 2, 3].map((id) => jwt({ exp: inSeconds(3600), id }))
      let number = 0
      const { forms, url } = yield* issuer(() => [
        200,
        { id_token: tokens[++number], refresh_token: `hush-refresh-${number + 1}` }
      ])
      const accepted: Array<string> = [`Bearer ${tokens[1]}`]
      const server = yield* accepting(accepted)
      const transport = yield* transportOf(
        valueOf(servers.kubeconfig(server.url, login(url, { "id-token": tokens[0] })))
      )
      yield* transport.call(servers.getPod)
      accepted[0] = `Bearer ${tokens[2]}`
      yield* transport.call(servers.getPod)
      assert.deepStrictEqual(
        forms.map((form) => new URLSearchParams(form).get("refresh_token")),
        ["hush-refresh-1", "hush-refresh-2"]
      )
      assert.include(forms[0] ?? "", "client_id=kubernetes")
    })
  )

  it.scopedLive("an issuer that refuses, answers rubbish or is not there: its words, what to do, nothing sent", () =>
    Effect.gen(function* () {
      const server = yield* accepting([])
      const refusing = yield* issuer(() => [
        400,
        { error: "invalid_grant", error_description: "Session not active, refresh_token=hush-refresh-1" }
      ])
      const silent = yield* issuer(() => [200, { access_token: "hush" }])
      const page = yield* servers.https({}, (_, response) => response.end("<html>hush</html>"))
      for (const [url, word] of [
        [refusing.url, "Session not active"],
        [silent.url, "scope openid"],
        [page.url, "without a configuration"],
        ["https://127.0.0.1:1", "cannot be asked"]
      ] as const) {
        const user = login(url, { "id-token": jwt({ exp: 1 }) })
        const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, user)))
        const error = yield* told(transport, 'users["u"].user.auth-provider (oidc)', word, "Log in again")
        assert.strictEqual(error._tag === "KubeUnavailable" ? error.phase : error._tag, "credentials")
      }
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.scopedLive("an expired login without a refresh token, and a valid one that is refused", () =>
    Effect.gen(function* () {
      const server = yield* accepting([])
      const expired = login("https://127.0.0.1:1", { "id-token": jwt({ exp: 1 }), "refresh-token": "" })
      yield* told(yield* transportOf(valueOf(servers.kubeconfig(server.url, expired))), "nothing to renew it with")
      const refused = login("https://127.0.0.1:1", { "id-token": jwt({ exp: inSeconds(3600) }), "refresh-token": "" })
      const error = yield* told(
        yield* transportOf(valueOf(servers.kubeconfig(server.url, refused))),
        "Log in again with the tool of oidc"
      )
      assert.strictEqual(error._tag, "KubeUnauthorized")
      assert.strictEqual(server.requests.length, 1)
    })
  )
})

describe("whom the server sees", () => {
  const Review = Schema.Struct({
    status: Schema.Struct({
      userInfo: Schema.Struct({ username: Schema.String, groups: Schema.optional(Schema.Array(Schema.String)) })
    })
  })
  const whoami = (transport: KubeTransport) =>
    transport
      .call(
        KubeRequest.make(
          "create",
          { group: "authentication.k8s.io", version: "v1", plural: "selfsubjectreviews" },
          { body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" } }
        )
      )
      .pipe(
        Effect.flatMap(({ body }) => Schema.decodeUnknown(Review)(body)),
        Effect.map(({ status }) => status.userInfo)
      )

  /** Every way in: a token as such, in a file, from a plugin; each with and without impersonation. */
  const everyWay = (admin: KubeConfig.Source) =>
    Effect.gen(function* () {
      const context = yield* Layer.build(KubeApiLive.layer({ source: admin }))
      const api = Context.get(context, KubeApi.KubeApi)
      const config = Context.get(context, KubeConfig.KubeConfig)
      const namespace = yield* freshNamespace(api, "h-auth")
      const accounts = { group: "", version: "v1", plural: "serviceaccounts" }
      yield* api.transport.call(
        KubeRequest.make("create", accounts, {
          namespace,
          body: { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } }
        })
      )
      const issued = yield* api.transport.call(
        KubeRequest.make("create", accounts, {
          namespace,
          name: "robot",
          subresource: "token",
          body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { audiences: [] } }
        })
      )
      const { status } = yield* Schema.decodeUnknown(
        Schema.Struct({ status: Schema.Struct({ token: Schema.String }) })
      )(issued.body)
      const robot = `system:serviceaccount:${namespace}:robot`
      const base = yield* KubeConfig.withToken(config, status.token, namespace)
      const path = yield* directory
      writeFileSync(join(path, "token"), `${status.token}\n`)
      writeFileSync(
        join(path, "credential"),
        JSON.stringify({
          apiVersion: "client.authentication.k8s.io/v1",
          kind: "ExecCredential",
          status: { token: status.token }
        })
      )
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: "cat",
        args: [join(path, "credential")],
        interactiveMode: "Never"
      }
      const as = (user: object) => transportOf(valueOf({ ...base, users: [{ name: "token", user }] }))
      for (const user of [{ token: status.token }, { tokenFile: join(path, "token") }, { exec }]) {
        const seen = yield* whoami(yield* as(user))
        assert.strictEqual(seen.username, robot)
        assert.include(seen.groups ?? [], `system:serviceaccounts:${namespace}`)
        // a service account may not play others
        const refused = yield* Effect.flip(whoami(yield* as({ ...user, as: "jane" })))
        assert.strictEqual(refused._tag, "KubeForbidden")
        assert.include(refused.message, "impersonate")
      }
      // the administrator may
      const credentials = yield* config.credentials
      const { certificate, key } = Redacted.value(credentials.tls)
      const { authorization } = Redacted.value(credentials.headers)
      const administrator =
        certificate === undefined || key === undefined
          ? { token: String(authorization).replace("Bearer ", "") }
          : { "client-certificate-data": servers.base64(certificate), "client-key-data": servers.base64(key) }
      const jane = yield* whoami(yield* as({ ...administrator, as: "jane", "as-groups": ["team-a", "team-b"] }))
      assert.strictEqual(jane.username, "jane")
      assert.includeMembers([...(jane.groups ?? [])], ["team-a", "team-b"])
      const stranger = yield* Effect.flip(whoami(yield* as({ token: "hush-no-such-token" })))
      assert.strictEqual(stranger._tag, "KubeUnauthorized")
    })

  it.scopedLive("by the served in-memory cluster", () =>
    Effect.gen(function* () {
      yield* everyWay(KubeConfig.Source.Text({ text: yield* serveForAdmin }))
    }).pipe(Effect.provide(TestCluster.layer()))
  )

  it.scopedLive.skipIf(realKubeconfig === undefined)("by a real API server (skipped without TEST_KUBECONFIG)", () =>
    everyWay(KubeConfig.Source.Files({ paths: [realKubeconfig ?? ""] }))
  )
})

describe("several kubeconfigs", () => {
  it.scopedLive(
    "KUBECONFIG's files are merged: the cluster of one, the user of another, relative paths from their own folders",
    () =>
      Effect.gen(function* () {
        const path = yield* directory
        mkdirSync(join(path, "a"))
        mkdirSync(join(path, "b"))
        const server = yield* servers.https({}, (request, response) =>
          servers.json(response, 200, { who: request.headers.authorization })
        )
        writeFileSync(join(path, "a", "ca.crt"), servers.certificate("ca.crt"))
        writeFileSync(join(path, "b", "token"), "from-b\n")
        const clusters = [{ name: "c", cluster: { server: server.url, "certificate-authority": "ca.crt" } }]
        writeFileSync(join(path, "a", "config"), JSON.stringify({ clusters }))
        writeFileSync(
          join(path, "b", "config"),
          JSON.stringify({
            "current-context": "x",
            users: [{ name: "u", user: { tokenFile: "token" } }],
            contexts: [{ name: "x", context: { cluster: "c", user: "u" } }]
          })
        )
        const files = [join(path, "a", "config"), join(path, "b", "config")]
        const transport = yield* transportOf({}, { KUBECONFIG: files.join(delimiter) })
        assert.deepStrictEqual((yield* transport.call(servers.getPod)).body, { who: "Bearer from-b" })
      })
  )
})

describe("proxies of the environment", () => {
  /** Opens tunnels to this machine, whatever name they ask for. */
  const tunnels = (seen: Array<string>, answer = "HTTP/1.1 200 Connection established\r\n\r\n") =>
    servers.tcp((socket) =>
      socket.once("data", (head: Buffer) => {
        const [, host = "", port] = /^CONNECT ([^:]+):(\d+)/.exec(head.toString("latin1")) ?? []
        seen.push(host)
        if (!answer.includes(" 200 ")) return void socket.end(answer)
        const upstream: Socket = connectTcp(Number(port), "127.0.0.1", () => {
          socket.write(answer)
          socket.pipe(upstream).pipe(socket)
        })
        upstream.on("error", () => socket.destroy())
        return socket.on("close", () => upstream.destroy())
      })
    )

  it.scopedLive("HTTPS_PROXY is gone through, NO_PROXY is not", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const proxy = yield* tunnels(seen)
      const server = yield* servers.https({}, (_, response) => servers.json(response, 200, {}))
      const value = servers.kubeconfig(
        `https://api.example.invalid:${server.port}`,
        {},
        { ...trusting, "tls-server-name": "localhost" }
      )
      const through = yield* transportOf(valueOf(value), { HTTPS_PROXY: proxy.url })
      yield* Effect.repeatN(through.call(servers.getPod), 19)
      // one tunnel for all of them
      assert.deepStrictEqual(seen, ["api.example.invalid"])
      const direct = yield* transportOf(valueOf(value), { HTTPS_PROXY: proxy.url, NO_PROXY: "example.invalid" })
      yield* told(direct, "api.example.invalid", "is not known here")
      assert.strictEqual(seen.length, 1)
    })
  )

  it.scopedLive(
    "a proxy that answers 407, to a tunnel and to plain HTTP: which proxy, from where, and what to write",
    () =>
      Effect.gen(function* () {
        const proxy = yield* tunnels([], "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        for (const server of ["https://api.example.invalid", "http://api.example.invalid"]) {
          const wanted = [`127.0.0.1:${proxy.port}`, "407", "USER:PASSWORD"]
          const ofFile = yield* told(
            yield* transportOf(
              valueOf(servers.kubeconfig(server, {}, { "proxy-url": proxy.url.replace("//", "//u:hush@") }))
            ),
            'clusters["c"].cluster.proxy-url',
            ...wanted
          )
          assert.strictEqual(ofFile._tag === "KubeUnavailable" ? ofFile.phase : ofFile._tag, "connect")
          const environment = { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url }
          yield* told(yield* transportOf(valueOf(servers.kubeconfig(server)), environment), "HTTPS_PROXY", ...wanted)
        }
      })
  )

  it.scopedLive("a proxy that is down is what is told, not the server", () =>
    Effect.gen(function* () {
      const value = servers.kubeconfig("https://api.example.invalid", {}, { "proxy-url": "http://127.0.0.1:1" })
      yield* told(yield* transportOf(valueOf(value)), "the proxy http://127.0.0.1:1", "is it up")
    })
  )
})

describe("a refusal says whose credentials, and what to run", () => {
  const refusing = servers.https({ requestCert: true, rejectUnauthorized: false }, (_, response) =>
    servers.json(response, 401, unauthorized)
  )
  const jwt = (exp: number): string =>
    ["{}", JSON.stringify({ exp }), "hush"].map((part) => Buffer.from(part).toString("base64url")).join(".")
  const pair = (name: string): object => ({
    "client-certificate-data": servers.base64(servers.certificate(`${name}.crt`)),
    "client-key-data": servers.base64(servers.certificate(`${name}.key`))
  })

  for (const [what, user, ...words] of [
    ["a token", { token: "hush-hush" }, 'user "u"', "Write a new token", "kubectl --context x auth whoami"],
    ["a token that says itself that it expired", { token: jwt(1_700_000_000) }, "expired at 2023-11-14T22:13:20Z"],
    ["a client certificate that expired", pair("expired"), "client certificate expired at 2024-02-01T00:00:00Z"],
    ["a client certificate of another CA", pair("client"), "issued by this cluster's CA"],
    ["a user name and a password", { username: "u", password: "hush" }, "no user name and password"],
    ["no credentials at all", {}, "No credentials were sent", "kubectl config set-context"]
  ] as const) {
    it.scopedLive(what, () =>
      Effect.gen(function* () {
        const server = yield* refusing
        const error = yield* told(
          yield* transportOf(valueOf(servers.kubeconfig(server.url, user, trusting))),
          "does not accept the credentials",
          ...words
        )
        assert.strictEqual(error._tag, "KubeUnauthorized")
      })
    )
  }

  it.scopedLive("impersonation: the server's refusal of it is told with its words", () =>
    Effect.gen(function* () {
      const server = yield* servers.https({}, (request, response) =>
        servers.json(
          response,
          403,
          servers.status(
            403,
            "Forbidden",
            `User "jane" cannot impersonate resource "users": ${String(request.headers["impersonate-user"])}`
          )
        )
      )
      const user = { token: "hush", as: "root", "as-groups": ["system:masters"] }
      const transport = yield* transportOf(valueOf(servers.kubeconfig(server.url, user, trusting)))
      const error = yield* Effect.flip(transport.call(servers.getPod))
      assert.strictEqual(error._tag, "KubeForbidden")
      assert.include(error.message, 'cannot impersonate resource "users": root')
    })
  )
})

describe("a connection that cannot be made says why, and what to do", () => {
  const failing = (value: object, phase: string, ...words: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const error = yield* told(yield* transportOf(valueOf(value)), ...words)
      assert.strictEqual(error._tag === "KubeUnavailable" ? error.phase : error._tag, phase)
    })
  const answering = servers.https({}, (_, response) => servers.json(response, 200, {}))

  it.scopedLive("a server whose certificate has expired", () =>
    Effect.gen(function* () {
      const [key, cert] = [servers.certificate("expired.key"), servers.certificate("expired.crt")]
      const server = yield* servers.https({ key, cert }, (_, response) => servers.json(response, 200, {}))
      const cluster = { "certificate-authority-data": servers.base64(cert) }
      yield* failing(
        servers.kubeconfig(server.url, { token: "hush" }, cluster),
        "tls",
        "CERT_HAS_EXPIRED",
        "has expired"
      )
    })
  )

  it.scopedLive("a certificate of another CA", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const cluster = { "certificate-authority-data": servers.base64(servers.certificate("client-ca.crt")) }
      yield* failing(
        servers.kubeconfig(server.url, { token: "hush" }, cluster),
        "tls",
        "not from the CA",
        'cluster "c"'
      )
    })
  )

  it.scopedLive("a certificate for other names", () =>
    Effect.gen(function* () {
      const server = yield* answering
      const cluster = { ...trusting, "tls-server-name": "elsewhere.example.com" }
      yield* failing(servers.kubeconfig(server.url, {}, cluster), "tls", "tls-server-name", "for other names")
    })
  )

  it.scopedLive("a server that speaks plain HTTP", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => servers.json(response, 200, {}))
      const url = server.url.replace("http:", "https:")
      yield* failing(servers.kubeconfig(url, { token: "hush" }, trusting), "tls", "does not speak TLS", "http://")
    })
  )

  it.scopedLive("a server that speaks TLS and is asked in plain HTTP", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(400, { "content-type": "text/plain" })
        response.end("Client sent an HTTP request to an HTTPS server.\n")
      })
      yield* failing(servers.kubeconfig(server.url, { token: "hush" }), "tls", "speaks TLS", "Write https://")
    })
  )

  it.scopedLive("nobody there, and a name that nobody knows", () =>
    Effect.gen(function* () {
      yield* failing(servers.kubeconfig("https://127.0.0.1:1"), "connect", "https://127.0.0.1:1", "kubectl version")
      yield* failing(servers.kubeconfig("https://no-such-host.invalid"), "connect", "no-such-host.invalid", "DNS")
    })
  )

  it.scopedLive("a login page in place of the API", () =>
    Effect.gen(function* () {
      const server = yield* servers.http((_, response) => {
        response.writeHead(200, { "content-type": "text/html" })
        response.end("<html><body>Please sign in<input value='hush'></body></html>")
      })
      const error = yield* told(
        yield* transportOf(valueOf(servers.kubeconfig(server.url, { token: "hush" }))),
        "Please sign in",
        "login page"
      )
      assert.strictEqual(error._tag, "KubeMalformed")
    })
  )
})
