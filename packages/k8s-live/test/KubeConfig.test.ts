import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { assert, describe, it } from "@effect/vitest"
import { KubeConfig as ClientNode } from "@kubernetes/client-node"
import {
  ConfigProvider,
  Context,
  Effect,
  Fiber,
  Inspectable,
  Layer,
  Option,
  Redacted,
  type Scope,
  TestClock
} from "effect"
import { inspect } from "node:util"
import * as servers from "./servers.js"

const { Source } = KubeConfig

const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "kubeconfig-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const load = (options: KubeConfig.Options = {}, environment: Record<string, string> = {}) =>
  Layer.build(KubeApiLive.layerKubeConfig(options)).pipe(
    Effect.map((context) => Context.get(context, KubeConfig.KubeConfig)),
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ HOME: "/nonexistent", ...environment }))))
  )

const headersOf = (config: KubeConfig.Service) =>
  Effect.map(config.credentials, ({ headers }) => Redacted.value(headers))
const authorization = (config: KubeConfig.Service) =>
  Effect.map(headersOf(config), (headers) => headers["authorization"])

const two = `
apiVersion: v1
kind: Config
current-context: a
clusters:
  - {name: ca, cluster: {server: "https://a.example.com:6443/"}}
  - {name: cb, cluster: {server: "https://b.example.com"}}
users:
  - {name: ua, user: {token: aaa}}
  - {name: ub, user: {token: bbb}}
contexts:
  - {name: a, context: {cluster: ca, user: ua, namespace: team-a}}
  - {name: b, context: {cluster: cb, user: ub}}
`

describe("where a configuration comes from", () => {
  it.scoped("text, with its current context", () =>
    Effect.gen(function* () {
      const config = yield* load({ source: Source.Text({ text: two }) })
      assert.strictEqual(config.server, "https://a.example.com:6443")
      assert.strictEqual(config.namespace, "team-a")
      assert.strictEqual(config.contextName, "a")
      assert.strictEqual(yield* authorization(config), "Bearer aaa")
    })
  )

  it.scoped("another context, another user, another namespace", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Text({ text: two }),
        context: "b",
        user: "ua",
        namespace: "elsewhere"
      })
      assert.strictEqual(config.server, "https://b.example.com")
      assert.strictEqual(config.namespace, "elsewhere")
      assert.strictEqual(yield* authorization(config), "Bearer aaa")
    })
  )

  it.scoped("a JSON object, as kubectl config view -o json prints it", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({ value: servers.kubeconfig("https://x.example.com", { token: "t" }) })
      })
      assert.strictEqual(config.server, "https://x.example.com")
    })
  )

  it.scoped("explicit files, merged: for each name the first file wins", () =>
    Effect.gen(function* () {
      const path = yield* directory
      writeFileSync(join(path, "1"), two)
      writeFileSync(
        join(path, "2"),
        `current-context: c
clusters: [{name: ca, cluster: {server: "https://other"}}, {name: cc, cluster: {server: "https://c.example.com"}}]
users: null
contexts: [{name: c, context: {cluster: cc, user: ub}}]`
      )
      const paths = [join(path, "1"), join(path, "2")] as const
      const config = yield* load({ source: Source.Files({ paths }) })
      assert.strictEqual(config.server, "https://a.example.com:6443")
      const other = yield* load({ source: Source.Files({ paths }), context: "c" })
      assert.strictEqual(other.server, "https://c.example.com")
      assert.strictEqual(yield* authorization(other), "Bearer bbb")
    })
  )

  it.scoped("KUBECONFIG names several files; those that do not exist are skipped", () =>
    Effect.gen(function* () {
      const path = yield* directory
      writeFileSync(join(path, "1"), two)
      const config = yield* load({}, { KUBECONFIG: [join(path, "none"), "", join(path, "1")].join(delimiter) })
      assert.strictEqual(config.clusterName, "ca")
      const error = yield* Effect.flip(load({}, { KUBECONFIG: join(path, "none") }))
      assert.include(error.message, join(path, "none"))
      assert.include(error.message, "KUBECONFIG")
    })
  )

  it.scoped("~/.kube/config, with relative paths taken from its folder", () =>
    Effect.gen(function* () {
      const path = yield* directory
      mkdirSync(join(path, ".kube"))
      writeFileSync(join(path, ".kube", "tok"), "from-file\n")
      writeFileSync(join(path, ".kube", "config"), two.replace("{token: aaa}", "{tokenFile: tok}"))
      const config = yield* load({}, { HOME: path })
      assert.strictEqual(config.origin, join(path, ".kube", "config"))
      assert.strictEqual(yield* authorization(config), "Bearer from-file")
    })
  )

  it.scoped("the service account of a pod", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const account = join(root, "var/run/secrets/kubernetes.io/serviceaccount")
      mkdirSync(account, { recursive: true })
      writeFileSync(join(account, "token"), "sa-token\n")
      writeFileSync(join(account, "namespace"), "team-p\n")
      writeFileSync(join(account, "ca.crt"), servers.certificate("ca.crt"))
      const pod = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" }
      const config = yield* load({ source: Source.InCluster({ root }) }, pod)
      assert.strictEqual(config.server, "https://[fd00::1]:443")
      assert.strictEqual(config.namespace, "team-p")
      assert.strictEqual(yield* authorization(config), "Bearer sa-token")
      const error = yield* Effect.flip(load({ source: Source.InCluster({ root }) }))
      assert.include(error.message, "KUBERNETES_SERVICE_HOST")
    })
  )

  it.scoped("nothing at all is an error that says what was looked for, not localhost:8080", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(load())
      assert.strictEqual(error._tag, "KubeConfigError")
      assert.include(error.message, "/nonexistent/.kube/config")
      assert.include(error.message, "KUBECONFIG")
    })
  )

  it.scoped("a KubeConfig of client-node, and it reads the same file the same way", () =>
    Effect.gen(function* () {
      const node = new ClientNode()
      node.loadFromString(two)
      node.setCurrentContext("b")
      const theirs = yield* load({ source: Source.ClientNode({ config: node }) })
      const ours = yield* load({ source: Source.Text({ text: two }), context: "b" })
      for (const key of ["server", "namespace", "contextName", "clusterName", "userName", "skipTlsVerify"] as const) {
        assert.strictEqual(theirs[key], ours[key], key)
      }
      assert.deepStrictEqual(yield* headersOf(theirs), yield* headersOf(ours))
    })
  )

  it.scoped("the options come from Effect's Config", () =>
    Effect.gen(function* () {
      const options = yield* KubeApiLive.config.pipe(
        Effect.withConfigProvider(
          ConfigProvider.fromMap(
            new Map([
              ["DISPATCH_KUBECONFIG", ["/x", "/y"].join(delimiter)],
              ["DISPATCH_CONTEXT", "b"]
            ])
          )
        )
      )
      assert.deepStrictEqual(options, { source: Source.Files({ paths: ["/x", "/y"] }), context: "b" })
      assert.deepStrictEqual(
        yield* Effect.withConfigProvider(KubeApiLive.config, ConfigProvider.fromMap(new Map())),
        {}
      )
    })
  )
})

describe("a configuration that cannot be used is refused, naming file, context and field", () => {
  const refused = (value: object | string, ...words: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        load({
          source:
            typeof value === "string"
              ? Source.Text({ text: value, name: "/home/u/config" })
              : Source.Value({ value, name: "/home/u/config" })
        })
      )
      assert.strictEqual(error._tag, "KubeConfigError")
      for (const word of ["/home/u/config", ...words]) assert.include(error.message, word)
      assert.notInclude(error.message, "hush")
      assert.notInclude(inspect(error), "hush")
    })
  const server = "https://x.example.com"

  it.scoped("YAML that does not parse: line and column, and not the line itself", () =>
    refused('users:\n  - name: u\n    user: {token: "hush}\n', "line", "YAML")
  )
  it.scoped("a document that is no kubeconfig", () => refused("just words", "kubeconfig"))
  it.scoped("a field of another type: its path, not its value", () =>
    refused("users:\n- name: u\n  user: {token: [hush]}\n", "users[0].user.token: expected text, found a list")
  )
  it.scoped("a field of another type: what belongs there, and what kind of thing stands there", () =>
    Effect.gen(function* () {
      const value = { ...servers.kubeconfig("https://x"), users: [{ name: "u", user: { token: 12_345_678 } }] }
      const error = yield* Effect.flip(load({ source: Source.Value({ value, name: "k" }) }))
      assert.strictEqual(error.what, "k: users[0].user.token: expected text, found a number")
    })
  )
  it.scoped("several documents in one file", () => refused("a: 1\n---\nb: 2", "2 YAML documents"))
  it.scoped("no current context", () =>
    refused({ ...servers.kubeconfig(server), "current-context": "" }, "current-context", '"x"')
  )
  it.scoped("an unknown context", () =>
    refused({ ...servers.kubeconfig(server), "current-context": "y" }, '"y"', '"x"')
  )
  it.scoped("a context whose cluster is missing", () =>
    refused({ ...servers.kubeconfig(server), clusters: null }, '"c"', 'contexts["x"].context.cluster')
  )
  it.scoped("a context whose user is missing", () =>
    refused({ ...servers.kubeconfig(server), users: [] }, '"u"', 'contexts["x"].context.user')
  )
  it.scoped("no server", () => refused(servers.kubeconfig(""), 'clusters["c"].cluster.server'))
  it.scoped("a server that is no URL", () => refused(servers.kubeconfig("x.example.com:6443"), "http"))
  it.scoped("T07: skipped verification together with a CA contradict each other", () =>
    refused(
      servers.kubeconfig(
        server,
        {},
        {
          "insecure-skip-tls-verify": true,
          "certificate-authority-data": servers.base64(servers.certificate("ca.crt"))
        }
      ),
      "insecure-skip-tls-verify",
      "contradict"
    )
  )
  it.scoped("CA data that is no PEM", () =>
    refused(servers.kubeconfig(server, {}, { "certificate-authority-data": "aHVzaA==" }), "certificate-authority-data")
  )
  it.scoped("a client certificate without its key", () =>
    refused(
      servers.kubeconfig(server, { "client-certificate-data": servers.base64(servers.certificate("client.crt")) }),
      "client-key"
    )
  )
  it.scoped("a token and a user name", () =>
    refused(servers.kubeconfig(server, { token: "hush", username: "u" }), 'users["u"].user.username')
  )
  it.scoped("a token that no HTTP header can hold", () =>
    Effect.forEach(["hush\nhush", "hüsh", "hush\u0000"], (token) =>
      refused(servers.kubeconfig(server, { token }), 'users["u"].user.token', "line break")
    )
  )
  it.scoped("an impersonated group that no HTTP header can hold", () =>
    refused(servers.kubeconfig(server, { as: "u", "as-groups": ["a\nb"] }), 'users["u"].user.as', "line break")
  )
  it.scoped("a socks proxy", () =>
    refused(servers.kubeconfig(server, {}, { "proxy-url": "socks5://u:hush@p:1080" }), "proxy-url", "socks5")
  )
  it.scoped("exec without a command", () =>
    refused(servers.kubeconfig(server, { exec: { apiVersion: "client.authentication.k8s.io/v1" } }), "exec.command")
  )
  it.scoped("exec in a version nobody speaks any more", () =>
    refused(
      servers.kubeconfig(server, { exec: { command: "x", apiVersion: "client.authentication.k8s.io/v1alpha1" } }),
      "v1alpha1",
      "client.authentication.k8s.io/v1"
    )
  )
  it.scoped("exec that wants a terminal", () =>
    refused(
      servers.kubeconfig(server, {
        exec: { command: "x", apiVersion: "client.authentication.k8s.io/v1", interactiveMode: "Always" }
      }),
      "interactiveMode"
    )
  )
  it.scoped("a file that does not exist", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(load({ source: Source.Files({ paths: ["/nonexistent/config"] }) }))
      assert.include(error.message, "/nonexistent/config")
    })
  )
  it.scoped("a certificate and a key that do not belong together", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({
          value: servers.kubeconfig(server, {
            "client-certificate-data": servers.base64(servers.certificate("client.crt")),
            "client-key-data": servers.base64(servers.certificate("client-2.key"))
          })
        })
      })
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "client-key")
    })
  )
})

describe("a server's URL", () => {
  it.scoped("is shown without user, password, query and fragment, wherever a server is named", () =>
    Effect.gen(function* () {
      for (const [given, shown] of [
        ["https://joe:hush@x.example.com:6443", "https://x.example.com:6443"],
        ["https://hush@x.example.com/clusters/c-1/", "https://x.example.com/clusters/c-1"],
        ["https://x.example.com:443/?token=hush", "https://x.example.com"],
        ["https://x.example.com/a?token=hush#hush", "https://x.example.com/a"],
        ["https://x.example.com?hush", "https://x.example.com"],
        ["https://x.example.com:443/", "https://x.example.com:443"]
      ] as const) {
        const config = yield* load({ source: Source.Value({ value: servers.kubeconfig(given, {}) }) })
        assert.strictEqual(config.server, shown)
        assert.strictEqual(
          config.advice.onConnect("ENOTFOUND", ""),
          `The name in ${shown} is not known here: correct it, or look at DNS and VPN.`
        )
        const proxied = yield* load(
          { source: Source.Value({ value: servers.kubeconfig(given, {}) }) },
          { HTTPS_PROXY: "http://u:hush@proxy:3128" }
        )
        for (const it of [config, proxied]) {
          const { onConnect, onTls } = it.advice
          const told = [it.server, it.identity, onConnect("ECONNREFUSED", ""), onConnect("", "407"), onTls("", "")]
          assert.notInclude(told.join("\n"), "hush")
          assert.notInclude(inspect(it, { depth: 9 }), "hush")
        }
      }
    })
  )
})

describe("credentials", () => {
  it.scoped("a context without a user is anonymous and keeps its CA", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({
          value: {
            clusters: [
              {
                name: "c",
                cluster: {
                  server: "https://x",
                  "certificate-authority-data": servers.base64(servers.certificate("ca.crt"))
                }
              }
            ],
            contexts: [{ name: "x", context: { cluster: "c" } }],
            "current-context": "x"
          }
        })
      })
      const { headers, tls } = yield* config.credentials
      assert.deepStrictEqual(Redacted.value(headers), {})
      assert.strictEqual(Redacted.value(tls).ca, servers.certificate("ca.crt"))
    })
  )

  it.scoped("basic authentication, and impersonation with groups and extra", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({
          value: servers.kubeconfig("https://x", {
            username: "u",
            password: "pä:ss",
            as: "jane",
            "as-uid": "7",
            "as-groups": ["a", "b"],
            "as-user-extra": { "Example.com/Scope": ["s"] }
          })
        })
      })
      assert.deepStrictEqual(yield* headersOf(config), {
        authorization: `Basic ${servers.base64("u:pä:ss")}`,
        "impersonate-user": "jane",
        "impersonate-uid": "7",
        "impersonate-group": ["a", "b"],
        "impersonate-extra-example.com%2fscope": ["s"]
      })
    })
  )

  it.scoped("nothing prints a token", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({ value: servers.kubeconfig("https://x", { token: "hush-hush" }) })
      })
      const credentials = yield* config.credentials
      for (const text of [
        inspect(config, { depth: 9 }),
        JSON.stringify(config),
        inspect(credentials, { depth: 9 }),
        JSON.stringify(credentials),
        Inspectable.toStringUnknown(credentials)
      ]) {
        assert.notInclude(text, "hush-hush")
      }
    })
  )

  it.scoped("T01: a token file is trimmed, read again within a minute, and at once after a refusal", () =>
    Effect.gen(function* () {
      const path = join(yield* directory, "token")
      writeFileSync(path, "one\n")
      const config = yield* load({
        source: Source.Value({ value: servers.kubeconfig("https://x", { tokenFile: path }) })
      })
      const first = yield* config.credentials
      assert.strictEqual(Redacted.value(first.headers)["authorization"], "Bearer one")
      assert.strictEqual(yield* config.credentials, first)
      writeFileSync(path, "two\n")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* authorization(config), "Bearer two")
      writeFileSync(path, "three\n")
      assert.strictEqual(yield* authorization(config), "Bearer two")
      const renewed = yield* config.renew(yield* config.credentials)
      assert.isTrue(Option.isSome(renewed))
      assert.strictEqual(yield* authorization(config), "Bearer three")
      assert.isTrue(Option.isNone(yield* config.renew(yield* config.credentials)))
      // the file is being replaced
      rmSync(path)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* authorization(config), "Bearer three")
    })
  )

  it.scoped("a token file that is missing is an error with its path", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({ value: servers.kubeconfig("https://x", { tokenFile: "/nonexistent/token" }) })
      })
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "/nonexistent/token")
      assert.include(error.message, 'users["u"].user.tokenFile')
    })
  )
})

describe("credential plugins", () => {
  const apiVersion = "client.authentication.k8s.io/v1"

  /** A plugin as a shell script that counts its runs. */
  const plugin = (
    script: string,
    exec: object = {},
    options: Omit<KubeConfig.Options, "source"> = {},
    cluster: object = {}
  ) =>
    Effect.gen(function* () {
      const path = yield* directory
      writeFileSync(join(path, "plugin"), `#!/bin/sh\necho run >> "$RUNS"\n${script}\n`)
      chmodSync(join(path, "plugin"), 0o755)
      writeFileSync(join(path, "runs"), "")
      const config = yield* load({
        source: Source.Value({
          // a command with a slash is taken from the kubeconfig's folder
          value: servers.kubeconfig(
            "https://x.example.com",
            {
              exec: {
                apiVersion,
                command: "./plugin",
                interactiveMode: "Never",
                env: [{ name: "RUNS", value: join(path, "runs") }],
                ...exec
              }
            },
            cluster
          ),
          directory: path
        }),
        ...options
      })
      const runs = (): number => readFileSync(join(path, "runs"), "utf8").split("\n").length - 1
      return { config, runs, path }
    })
  const answer = (status: object): string => `echo '${JSON.stringify({ kind: "ExecCredential", apiVersion, status })}'`

  it.scoped("its token is used and kept; another request runs nothing", () =>
    Effect.gen(function* () {
      const { config, runs } = yield* plugin(answer({ token: "t1" }))
      assert.strictEqual(yield* authorization(config), "Bearer t1")
      assert.strictEqual(yield* authorization(config), "Bearer t1")
      assert.strictEqual(runs(), 1)
    })
  )

  it.scoped("T02: it is run again before its token expires", () =>
    Effect.gen(function* () {
      const { config, runs } = yield* plugin(
        answer({ token: "t1", expirationTimestamp: new Date(120_000).toISOString() })
      )
      yield* config.credentials
      yield* TestClock.adjust("89 seconds")
      yield* config.credentials
      assert.strictEqual(runs(), 1)
      yield* TestClock.adjust("2 seconds")
      yield* config.credentials
      assert.strictEqual(runs(), 2)
    })
  )

  it.scoped("T02: it is run again after a refusal, once for all who were refused", () =>
    Effect.gen(function* () {
      const { config, runs } = yield* plugin(
        `n=$(wc -l < "$RUNS"); echo "{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"${apiVersion}\\",\\"status\\":{\\"token\\":\\"t$(echo $n)\\"}}"`
      )
      const used = yield* config.credentials
      assert.strictEqual(Redacted.value(used.headers)["authorization"], "Bearer t1")
      const renewed = yield* Effect.all(
        Array.from({ length: 20 }, () => config.renew(used)),
        { concurrency: "unbounded" }
      )
      assert.isTrue(renewed.every(Option.isSome))
      assert.strictEqual(runs(), 2)
      assert.strictEqual(yield* authorization(config), "Bearer t2")
      // who comes late with the old one runs nothing
      assert.isTrue(Option.isSome(yield* config.renew(used)))
      assert.strictEqual(runs(), 2)
    })
  )

  it.scopedLive("T04: fifty at once run it once", () =>
    Effect.gen(function* () {
      const { config, runs } = yield* plugin(`sleep 0.1; ${answer({ token: "t1" })}`)
      const all = yield* Effect.all(
        Array.from({ length: 50 }, () => authorization(config)),
        { concurrency: "unbounded" }
      )
      assert.isTrue(all.every((value) => value === "Bearer t1"))
      assert.strictEqual(runs(), 1)
    })
  )

  it.scoped("a token of two lines is refused, and not shown", () =>
    Effect.gen(function* () {
      const { config } = yield* plugin(answer({ token: "hush\nhush" }))
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, 'users["u"].user.exec')
      assert.notInclude(error.message, "hush")
    })
  )

  it.scoped("one that prints its environment when it fails gives no value away", () =>
    Effect.gen(function* () {
      const { config } = yield* plugin(`echo "login failed" >&2; AWS_SESSION=hush env >&2; exit 1`)
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "login failed")
      assert.notInclude(error.message, "hush")
    })
  )

  const alive = (pid: number): boolean => {
    try {
      process.kill(pid, 0)
      return true
    } catch {
      return false
    }
  }

  it.scopedLive("T04: one that never answers fails for all fifty after its time, and is killed with its children", () =>
    Effect.gen(function* () {
      const { config, runs, path } = yield* plugin(
        `cd "$(dirname "$RUNS")"; trap '' TERM; sleep 1000 & echo $$ $! > pids; while :; do sleep 1; done`,
        {},
        { execTimeout: "400 millis" }
      )
      const errors = yield* Effect.all(
        Array.from({ length: 50 }, () => Effect.flip(config.credentials)),
        { concurrency: "unbounded" }
      )
      assert.isTrue(errors.every((error) => error.message.includes("no answer in 400ms")))
      assert.strictEqual(runs(), 1)
      const pids = readFileSync(join(path, "pids"), "utf8").trim().split(" ").map(Number)
      assert.strictEqual(pids.length, 2)
      yield* servers.until(() => !pids.some(alive), 1000)
    })
  )

  it.scopedLive("T04: it is killed when the last one who waits is interrupted, not before", () =>
    Effect.gen(function* () {
      const { config, path } = yield* plugin(`echo $$ > "$(dirname "$RUNS")/pid"; exec sleep 1000`)
      const pid = (): number => Number(readFileSync(join(path, "pid"), "utf8"))
      const one = yield* Effect.fork(config.credentials)
      const two = yield* Effect.fork(config.credentials)
      yield* servers.until(() => {
        try {
          return pid() > 0
        } catch {
          return false
        }
      })
      yield* Fiber.interrupt(one)
      assert.isTrue(alive(pid()))
      yield* Fiber.interrupt(two)
      yield* servers.until(() => !alive(pid()))
    })
  )

  it.scoped("T09: what it says on stderr is in the error, without secrets", () =>
    Effect.gen(function* () {
      const { config } = yield* plugin(
        `echo 'login expired for jane, token=hush-hush-hush eyJhbGciOiJub25l.eyJzdWIiOiJqYW5lIn0.sig; run login again' >&2; exit 3`
      )
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "login expired for jane")
      assert.include(error.message, "run login again")
      assert.include(error.message, "exit code 3")
      assert.include(error.message, 'context "x"')
      assert.notInclude(error.message, "hush")
      assert.notInclude(error.message, "eyJ")
    })
  )

  it.scoped("a failure is not kept: the next request runs it again", () =>
    Effect.gen(function* () {
      const { config, runs } = yield* plugin(`[ $(wc -l < "$RUNS") -gt 1 ] || exit 1; ${answer({ token: "t" })}`)
      yield* Effect.flip(config.credentials)
      assert.strictEqual(yield* authorization(config), "Bearer t")
      assert.strictEqual(runs(), 2)
    })
  )

  it.scoped("one that is not installed: the install hint", () =>
    Effect.gen(function* () {
      const { config } = yield* plugin("", {
        command: "no-such-plugin-anywhere",
        installHint: "Install it from the cloud's page."
      })
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "no-such-plugin-anywhere")
      assert.include(error.message, "Install it from the cloud's page.")
    })
  )

  it.scoped("KUBERNETES_EXEC_INFO tells it the cluster when it asks for it, and standard input is at its end", () =>
    Effect.gen(function* () {
      const ca = servers.base64(servers.certificate("ca.crt"))
      const { config, path } = yield* plugin(
        `cat; printf '%s' "$KUBERNETES_EXEC_INFO" > "$(dirname "$RUNS")/info"; ${answer({ token: "t" })}`,
        { provideClusterInfo: true },
        {},
        {
          "certificate-authority-data": ca,
          extensions: [{ name: "client.authentication.k8s.io/exec", extension: { audience: "x" } }]
        }
      )
      yield* config.credentials
      assert.deepStrictEqual(JSON.parse(readFileSync(join(path, "info"), "utf8")), {
        apiVersion,
        kind: "ExecCredential",
        spec: {
          interactive: false,
          cluster: { server: "https://x.example.com", "certificate-authority-data": ca, config: { audience: "x" } }
        }
      })
    })
  )

  for (const [what, script] of [
    ["nothing", "true"],
    ["no JSON", "echo token"],
    ["no status", `echo '{"kind":"ExecCredential","apiVersion":"${apiVersion}"}'`],
    ["an empty status", answer({})],
    ["half a certificate", answer({ clientCertificateData: "hush" })],
    ["a time that is none", answer({ token: "hush", expirationTimestamp: "tomorrow" })],
    ["another version", answer({ token: "hush" }).replace("/v1", "/v1beta1")]
  ] as const) {
    it.scoped(`one that prints ${what} is an error that does not repeat it`, () =>
      Effect.gen(function* () {
        const { config } = yield* plugin(script)
        const error = yield* Effect.flip(config.credentials)
        assert.include(error.message, "plugin")
        assert.notInclude(error.message, "hush")
      })
    )
  }

  it.scoped("a certificate from a plugin", () =>
    Effect.gen(function* () {
      const status = {
        clientCertificateData: servers.certificate("client.crt"),
        clientKeyData: servers.certificate("client.key")
      }
      const { config } = yield* plugin(
        `cat <<'END'\n${JSON.stringify({ kind: "ExecCredential", apiVersion, status })}\nEND`
      )
      const { tls, headers } = yield* config.credentials
      assert.strictEqual(Redacted.value(tls).certificate, status.clientCertificateData)
      assert.deepStrictEqual(Redacted.value(headers), {})
    })
  )
})

describe("auth-provider", () => {
  const jwt = (exp: number): string =>
    `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.sig`

  it.scopedLive("an OIDC id-token that is still valid is used", () =>
    Effect.gen(function* () {
      const token = jwt(Math.floor(Date.now() / 1000) + 3600)
      const config = yield* load({
        source: Source.Value({
          value: servers.kubeconfig("http://127.0.0.1:1", {
            "auth-provider": { name: "oidc", config: { "id-token": token, "client-id": "c" } }
          })
        })
      })
      assert.strictEqual(yield* authorization(config), `Bearer ${token}`)
    })
  )

  it.scopedLive("an expired login that cannot be renewed says so", () =>
    Effect.gen(function* () {
      const config = yield* load({
        source: Source.Value({
          value: servers.kubeconfig("https://x", {
            "auth-provider": { name: "oidc", config: { "id-token": jwt(1) } }
          })
        })
      })
      const error = yield* Effect.flip(config.credentials)
      assert.include(error.message, "auth-provider (oidc)")
      assert.include(error.message, "Log in again")
      assert.notInclude(error.message, jwt(1))
    })
  )

  it.scopedLive("other kinds are answered by client-node, and one that nobody knows is refused", () =>
    Effect.gen(function* () {
      const of = (name: string, config: object) =>
        load({
          // plain http: client-node itself refuses such servers
          source: Source.Value({
            value: servers.kubeconfig("http://127.0.0.1:1", { "auth-provider": { name, config } })
          })
        })
      const known = yield* of("gcp", { "access-token": "t", expiry: "2100-01-01T00:00:00Z" })
      assert.strictEqual(yield* authorization(known), "Bearer t")
      const error = yield* Effect.flip((yield* of("nobody", { token: "hush" })).credentials)
      assert.include(error.message, "auth-provider (nobody)")
      assert.include(error.message, "exec plugin")
      assert.notInclude(error.message, "hush")
    })
  )
})

describe("proxies", () => {
  const proxy = (server: string, environment: Record<string, string>, cluster: object = {}) =>
    Effect.map(
      load({ source: Source.Value({ value: servers.kubeconfig(server, {}, cluster) }) }, environment),
      ({ proxyUrl }) => (proxyUrl === undefined ? undefined : Redacted.value(proxyUrl))
    )
  const environment = { HTTPS_PROXY: "http://p:3128", HTTP_PROXY: "plain:80" }

  it.scoped("HTTPS_PROXY for https, HTTP_PROXY for http, never for this machine", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* proxy("https://k.example.com:6443", environment), "http://p:3128")
      assert.strictEqual(yield* proxy("http://k.example.com", environment), "http://plain:80")
      assert.strictEqual(yield* proxy("https://127.0.0.1:6443", environment), undefined)
      assert.strictEqual(yield* proxy("https://localhost:6443", environment), undefined)
      assert.strictEqual(yield* proxy("https://[::1]:6443", environment), undefined)
      assert.strictEqual(
        yield* proxy("https://k.example.com", { ...environment, https_proxy: "http://lower:1" }),
        "http://lower:1"
      )
    })
  )

  it.scoped("cluster.proxy-url wins over the environment", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* proxy("https://k.example.com", { ...environment, NO_PROXY: "*" }, { "proxy-url": "http://own:1" }),
        "http://own:1"
      )
    })
  )

  it.scoped("NO_PROXY: names, domains, ports, addresses, blocks, everything", () =>
    Effect.gen(function* () {
      const rows: ReadonlyArray<readonly [string, string, boolean]> = [
        ["k.example.com", "https://k.example.com", true],
        ["example.com", "https://k.example.com", true],
        [".example.com", "https://k.example.com", true],
        [".example.com", "https://example.com", false],
        ["*.example.com", "https://k.example.com", true],
        ["ample.com", "https://k.example.com", false],
        ["other, k.EXAMPLE.com", "https://k.example.com", true],
        ["k.example.com:6443", "https://k.example.com:6443", true],
        ["k.example.com:6443", "https://k.example.com", false],
        ["k.example.com:443", "https://k.example.com", true],
        ["10.0.0.0/8", "https://10.1.2.3", true],
        ["10.0.0.0/8", "https://11.1.2.3", false],
        ["10.1.2.3", "https://10.1.2.3:6443", true],
        ["fd00::/8", "https://[fd00::1]:6443", true],
        ["*", "https://k.example.com", true],
        ["", "https://k.example.com", false]
      ]
      for (const [noProxy, server, direct] of rows) {
        assert.strictEqual(
          yield* proxy(server, { ...environment, NO_PROXY: noProxy }),
          direct ? undefined : "http://p:3128",
          `${noProxy} ${server}`
        )
      }
    })
  )

  it.scoped("a proxy variable that is no proxy URL is refused", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(proxy("https://k.example.com", { HTTPS_PROXY: "socks5://p" }))
      assert.include(error.message, "HTTPS_PROXY")
    })
  )
})
