import * as Adapter from "@dispatch-kubeflow/core/Adapter"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import * as Watch from "@dispatch-kubeflow/core/Watch"
import * as Diagnosis from "@dispatch-kubeflow/k8s-live/cli/Diagnosis"
import * as Render from "@dispatch-kubeflow/k8s-live/cli/Render"
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import { paintFor } from "@dispatch-kubeflow/k8s-live/cli/Terminal"
import * as RenderExplanation from "@dispatch-kubeflow/k8s-live/cli/RenderExplanation"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as EvidenceStore from "@dispatch-kubeflow/core/EvidenceStore"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Fiber, Layer, Option, Schedule, Stream } from "effect"
import * as servers from "../servers.js"
import { serveForAdmin } from "../worlds.js"
import * as Terminal from "./terminal.js"

const namespace = "default"

/** A served cluster with a two-node TrainJob that runs, and a folder with its kubeconfig. */
const world = Effect.gen(function* () {
  const cluster = yield* TestCluster.TestCluster
  yield* Effect.forEach(["node-1", "node-2"], (name) => cluster.createNode(name))
  const folder = yield* Terminal.folder
  const text = yield* serveForAdmin
  const kubeconfig = Terminal.file(folder, "kubeconfig.yaml", text)
  const context = yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Text({ text }) }))
  const api = Context.get(context, KubeApi.KubeApi)
  yield* cluster.create(Fixtures.torchConforming("torch-conforming"))
  yield* cluster.create(
    Fixtures.trainJob("run-1", {
      numNodes: 2,
      spec: {
        runtimePatches: [
          Fixtures.annotationPatch(AdapterConfig.patchManager, { [AdapterConfig.admissionAnnotation]: "1" })
        ]
      }
    }),
    namespace
  )
  const pods = Effect.flatMap(cluster.pods(namespace), (all) =>
    all.length === 2 && all.every(({ status }) => status?.phase === "Running")
      ? Effect.succeed(all)
      : Effect.fail("not yet")
  )
  const running = yield* Effect.retry(pods, { times: 200, schedule: Schedule.spaced("100 millis") })
  return { cluster, api, folder, kubeconfig, running, common: ["--kubeconfig", kubeconfig, "-n", namespace] }
})

const adapterOf = (api: KubeApi.Service) =>
  Adapter.make(AdapterConfig.make({ namespace })).pipe(
    Effect.provideService(KubeApi.KubeApi, api),
    Effect.provideServiceEffect(EvidenceStore.EvidenceStore, EvidenceStore.makeMemory())
  )

/** Starts a command that goes on. */
const begin = (args: ReadonlyArray<string>, screen?: Session.Stdio["screen"]) =>
  Effect.gen(function* () {
    let out = ""
    const stdio: Session.Stdio = {
      out: (data) =>
        Effect.sync(() => {
          out += String(data)
        }),
      err: () => Effect.void,
      progress: () => Effect.void,
      readFile: () => Effect.fail({ message: "none" }),
      look: { width: 80, paint: (_, text) => text },
      screen
    }
    const invocation = Terminal.invocationOf(args)
    const fiber = yield* Effect.fork(Effect.provideService(Run.run(invocation), Session.Terminal, stdio))
    const shown = (text: RegExp) =>
      Effect.retry(
        Effect.suspend(() => (text.test(out) ? Effect.void : Effect.fail(`not shown: ${text}`))),
        { times: 200, schedule: Schedule.spaced("100 millis") }
      )
    return { fiber, shown, out: () => out }
  })

const over = TestCluster.layer({ objects: Fixtures.shippedRuntimes })

describe("explain", () => {
  it.scopedLive("tells a run that failed and was deleted from kept evidence, and without evidence is exit 5", () =>
    Effect.gen(function* () {
      const { cluster, api, folder, common, running } = yield* world
      const evidence = ["--evidence", `${folder}/evidence`]
      expect((yield* Terminal.cli(["explain", "run-1", ...common])).code).toBe(0)
      const [, second] = running
      if (second === undefined) return yield* Effect.dieMessage("no pods")
      const watch = yield* begin(["watch", "run-1", "--until-over", ...common, ...evidence])
      yield* watch.shown(/run-1 {2}Running/)
      yield* cluster.exit(second, { code: 17 })
      expect(yield* Fiber.join(watch.fiber)).toBe(3)
      yield* api.remove(Trainer.trainJobs, { namespace, name: "run-1" }, { propagation: "Background" })
      yield* Effect.sleep("3 seconds")
      const told = yield* Terminal.cli(["explain", "run-1", ...common, ...evidence])
      expect(told).toMatchObject({ code: 0, err: "" })
      expect(told.out).toMatch(/^TrainJob default\/run-1 {2}uid /)
      expect(told.out).toContain("Gone (it had failed): Application: container node, exit code 17")
      expect(told.out).toContain("Execution 1")
      expect(told.out).toMatch(/node 1 +run-1-node-0-1-\S+ +node-\d +gone \(inferred\) +Application/)
      expect(told.out).toMatch(/inferred +TrainJob\/run-1 found to be gone/)
      const machine = yield* Terminal.cli(["explain", "run-1", "--json", ...common, ...evidence])
      expect(JSON.parse(machine.out)).toMatchObject({
        ref: { namespace, name: "run-1" },
        now: { state: "Gone", outcome: "Failed", cause: { _tag: "Application", exitCode: 17 } },
        executions: [{ number: 1, isSubject: true, pods: [{ rank: "0" }, { rank: "1" }] }],
        unasked: []
      })
      const away = Terminal.file(
        folder,
        "away.yaml",
        JSON.stringify({
          apiVersion: "v1",
          kind: "Config",
          "current-context": "c",
          contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
          clusters: [{ name: "c", cluster: { server: "http://127.0.0.1:1" } }],
          users: [{ name: "u", user: {} }]
        })
      )
      const alone = yield* Terminal.cli(["explain", "run-1", "--kubeconfig", away, "-n", namespace, ...evidence])
      expect(alone.code).toBe(0)
      expect(alone.out).toContain("this is kept evidence alone")
      expect(yield* Terminal.cli(["explain", "run-1", "--kubeconfig", away, "-n", namespace])).toMatchObject({
        code: 7
      })
      expect(yield* Terminal.cli(["explain", "run-1", ...common])).toMatchObject({
        code: 5,
        out: "",
        err: expect.stringContaining("no evidence of it was kept")
      })
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("is coloured on a terminal", () =>
    Effect.gen(function* () {
      const { api } = yield* world
      const adapter = yield* adapterOf(api)
      const story = yield* adapter.explain({ namespace, name: "run-1" })
      const coloured = RenderExplanation.explanation(story, {
        width: 120,
        paint: paintFor({ isTerminal: true, noColor: false })
      })
      expect(coloured).toContain("\u001b[32mRunning\u001b[39m")
    }).pipe(Effect.provide(over))
  )
})

describe("every answer fits the terminal", () => {
  it.scopedLive("at 20, 40, 80 and 160 columns: no line is wider, unless one word is", () =>
    Effect.gen(function* () {
      const { api, cluster, common, running } = yield* world
      const adapter = yield* adapterOf(api)
      const ref = { namespace, name: "run-1" }
      const living = yield* adapter.ceased(ref)
      for (const pod of running) yield* cluster.exit(pod, { code: 3 })
      const failed = yield* Stream.runHead(
        Stream.filter(adapter.watch(Watch.ref(ref)), ({ outcome }) => outcome !== undefined)
      )
      const story = yield* adapter.explain(ref)
      const ended = yield* adapter.ceased(ref)
      const report = JSON.parse((yield* Terminal.cli(["doctor", "--json", ...common])).out) as Diagnosis.Diagnosis
      const answers: Readonly<Record<string, (look: Render.Look) => string>> = {
        explain: (look) => RenderExplanation.explanation(story, look),
        "explain without a number": (look) =>
          RenderExplanation.explanation(
            { ...story, executions: story.executions.map((start) => ({ ...start, number: undefined })) },
            look
          ),
        "ceased of what lives": (look) => Render.cessation(ref.name, living, look),
        "ceased of what has ended": (look) => Render.cessation(ref.name, ended, look),
        watch: (look) => Option.match(failed, { onNone: () => "", onSome: (it) => Render.update(it, look) }),
        doctor: (look) => Diagnosis.render(report, look),
        "doctor, observing": (look) =>
          Diagnosis.render(
            { ...report, mode: { _tag: "ObserveOnly", reason: "a reason of some words ".repeat(9) } },
            look
          )
      }
      const paint = paintFor({ isTerminal: false, noColor: true })
      for (const width of [20, 40, 80, 160]) {
        for (const [name, render] of Object.entries(answers)) {
          const wide = render({ width, paint })
            .split("\n")
            // A heading stays one for who pastes it
            .filter(
              (line) =>
                line.length > width && !line.startsWith("## ") && /\S {1,2}\S/.test(line.replace(/^ *(- )?/, ""))
            )
          expect([name, width, wide]).toEqual([name, width, []])
        }
      }
    }).pipe(Effect.provide(over))
  )
})

describe("output --all-ranks", () => {
  it.scopedLive(
    "every rank by the line with its rank before it; --rank takes one; a rank that is not there is exit 5",
    () =>
      Effect.gen(function* () {
        const { cluster, common, running } = yield* world
        for (const [rank, pod] of running.entries()) yield* cluster.writeLog(pod, `hello from ${rank}\nand more\n`)
        const told = yield* Terminal.cli(["output", "run-1", "--all-ranks", ...common])
        expect(told).toMatchObject({ code: 0, err: "" })
        expect(told.out.trimEnd().split("\n").toSorted()).toEqual([
          "rank 0 | and more",
          "rank 0 | hello from 0",
          "rank 1 | and more",
          "rank 1 | hello from 1"
        ])
        const one = yield* Terminal.cli(["output", "run-1", "--rank", "1", ...common])
        expect(one).toMatchObject({ code: 0, out: "hello from 1\nand more\n" })
        const machine = yield* Terminal.cli(["output", "run-1", "--all-ranks", "--json", "--tail", "1", ...common])
        const events = machine.out
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line) as { readonly rank: number; readonly event: string; readonly text?: string })
        for (const rank of [0, 1]) {
          expect(events.filter((event) => event.rank === rank)).toEqual([
            { rank, event: "line", text: "and more" },
            { rank, event: "end", how: "complete", reason: "all there was" }
          ])
        }
        expect(yield* Terminal.cli(["output", "run-1", "--rank", "7", ...common])).toMatchObject({ code: 5, out: "" })
        expect(yield* Terminal.cli(["output", "nope", "--all-ranks", ...common])).toMatchObject({ code: 5, out: "" })
        expect(yield* Terminal.cli(["output", "run-1", "--all-ranks", "--rank", "1", ...common])).toMatchObject({
          code: 2
        })
      }).pipe(Effect.provide(over))
  )
})

describe("watch on a terminal", () => {
  it.scopedLive("draws one table in place, and an interrupt gives the cursor back", () =>
    Effect.gen(function* () {
      const { cluster, common, running } = yield* world
      const { fiber, shown, out } = yield* begin(["watch", ...common], () => ({ columns: 80, rows: 24 }))
      yield* shown(/run-1 +Running/)
      const [first] = running
      if (first !== undefined) yield* cluster.exit(first, { code: 3 })
      yield* shown(/run-1 +(Stopping|Failed) +1 +\d+s +Application: container node, exit code 3/)
      yield* Fiber.interrupt(fiber)
      expect(out().startsWith("\u001b[?25l")).toBe(true)
      expect(out().endsWith("\u001b[?25h")).toBe(true)
      // Drawn over: what is left on the screen is the last table alone
      const last = out().slice(out().lastIndexOf("\u001b[J") + 3, -6)
      expect(last.split("\n")[0]).toBe(
        "TRAINJOB  STATE    EXECUTION  SINCE  CAUSE".replace(
          "STATE    ",
          last.includes("Stopping") ? "STATE     " : "STATE   "
        )
      )
      expect(out().split("\u001b[2A\r\u001b[J").length).toBeGreaterThan(2)
    }).pipe(Effect.provide(over))
  )
})

describe("doctor", () => {
  it.scopedLive("one report of everything, without the server's address, a token or the user's folder", () =>
    Effect.gen(function* () {
      const { common, kubeconfig } = yield* world
      const told = yield* Terminal.cli(["doctor", ...common])
      expect(told.err).toBe("")
      expect([0, 3]).toContain(told.code)
      for (const title of ["Program and configuration", "Versions", "Permissions", "Tried", "Mode", "Capabilities"]) {
        expect(told.out).toContain(`## ${title}`)
      }
      expect(told.out).toMatch(/credentials +header authorization \(Bearer\)/)
      for (const secret of ["admin-token", "127.0.0.1", kubeconfig]) expect(told.out).not.toContain(secret)
      const machine = yield* Terminal.cli(["doctor", "--json", "--read-only", ...common])
      expect(JSON.parse(machine.out)).toMatchObject({
        mode: { _tag: "ReadOnly" },
        failures: [],
        connection: { from: "a file", credentials: ["header authorization (Bearer)"], tlsVerified: true, proxy: false }
      })
      expect(machine.out).not.toContain("admin-token")
    }).pipe(Effect.provide(over))
  )

  it.scopedLive("without a cluster it reports what it could, and exits as the failure does", () =>
    Effect.gen(function* () {
      const folder = yield* Terminal.folder
      const told = yield* Terminal.cli(["doctor", "--kubeconfig", `${folder}/absent`])
      expect(told.code).toBe(2)
      expect(told.out).toContain("## Failure")
      expect(told.out).toContain("reaching the cluster: KubeConfigError")
      const kubeconfig = (user: object, server = "https://cluster.acme.invalid:6443") =>
        Terminal.file(folder, "customer.yaml", JSON.stringify(servers.kubeconfig(server, user)))
      const known = yield* Terminal.cli(["doctor", "--kubeconfig", kubeconfig({ token: "hush" })])
      expect(known.code).toBe(7)
      expect(known.out).toMatch(/^kubeconfig +a file$/m)
      expect(known.out).toMatch(/^credentials +header authorization \(Bearer\)$/m)
      expect(known.out).toMatch(/^TLS +verified$/m)
      expect(known.out).toMatch(/^namespace +default$/m)
      expect(known.out).not.toContain("acme")
      const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "false", interactiveMode: "Never" }
      const none = yield* Terminal.cli(["doctor", "--kubeconfig", kubeconfig({ exec })])
      expect(none.code).toBe(7)
      expect(none.out).toMatch(/^credentials +cannot be had$/m)
      expect(none.out.match(/## Failure/g)).toHaveLength(1)
    })
  )

  it.scopedLive("does not show the proxy either, wherever it is named", () =>
    Effect.gen(function* () {
      const folder = yield* Terminal.folder
      const server = "https://cluster.acme.invalid:6443"
      const proxy = "http://u:hush@proxy.acme.invalid:3128"
      const doctor = (cluster: object, environment: Readonly<Record<string, string>>) =>
        Terminal.cli([
          "doctor",
          "--kubeconfig",
          Terminal.file(folder, "k", JSON.stringify(servers.kubeconfig(server, {}, cluster)))
        ]).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(environment)))))
      for (const told of [yield* doctor({ "proxy-url": proxy }, {}), yield* doctor({}, { HTTPS_PROXY: proxy })]) {
        expect(told.code).toBe(7)
        expect(told.out).toMatch(/^proxy +yes$/m)
        expect(told.out).toContain("goes through the proxy")
        expect(told.out).not.toContain("acme")
      }
    })
  )

  it.scopedLive("says what is wrong with a field whose name is that of a secret", () =>
    Effect.gen(function* () {
      const folder = yield* Terminal.folder
      const text = JSON.stringify({
        ...servers.kubeconfig("https://x", {}),
        users: [{ name: "u", user: { token: 1 } }]
      })
      const told = yield* Terminal.cli(["doctor", "--kubeconfig", Terminal.file(folder, "k", text)])
      expect(told.out).toContain("users[0].user.token: expected text, found a number")
    })
  )
})
