import { expect, layer } from "@effect/vitest"
import { Effect, Queue } from "effect"
import * as Fixtures from "../src/Fixtures.js"
import * as TestCluster from "../src/TestCluster.js"
import * as Served from "./clients/served.js"

// `KUBECTL` names another binary than the one on the path
const binary = process.env["KUBECTL"] ?? "kubectl"

/** kubectl on the served cluster. */
const Kubectl = Effect.map(Served.Served, ({ follow, run, server }) => ({
  server,
  run: (args: ReadonlyArray<string>, input = "") => run(binary, args, { input }),
  follow: (args: ReadonlyArray<string>) => follow(binary, args)
}))

const ok = (args: ReadonlyArray<string>, input?: string) =>
  Effect.gen(function* () {
    const { run } = yield* Kubectl
    const { code, err, out } = yield* run(args, input)
    expect([args.join(" "), code, code === 0 ? "" : err]).toEqual([args.join(" "), 0, ""])
    return out
  })

const fails = (args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { run } = yield* Kubectl
    const { code, err } = yield* run(args)
    expect([args.join(" "), code]).toEqual([args.join(" "), 1])
    return err
  })

const trainJob = JSON.stringify({
  apiVersion: "trainer.kubeflow.org/v1alpha1",
  kind: "TrainJob",
  metadata: { name: "run-1", namespace: "default" },
  spec: { runtimeRef: { name: "torch-conforming" }, trainer: { image: "busybox", numNodes: 2 } }
})

const configMap = (value: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: default}\ndata: {x: "${value}"}\n`

const seconds = 60_000

if (!Served.succeeds(binary, ["version", "--client"])) {
  Served.skipped("kubectl", `"${binary}" does not run; put it on the path or name it with KUBECTL`)
} else {
  layer(Served.layer(), { excludeTestServices: true, timeout: seconds })("kubectl", (it) => {
    it.effect(
      "version, api-versions, api-resources, explain, cluster-info",
      () =>
        Effect.gen(function* () {
          expect(yield* ok(["version"])).toContain("Server Version: v1.37.2")
          expect((yield* ok(["api-versions"])).split("\n")).toEqual(
            expect.arrayContaining(["v1", "batch/v1", "trainer.kubeflow.org/v1alpha1", "jobset.x-k8s.io/v1alpha2"])
          )
          const resources = yield* ok(["api-resources"])
          expect(resources).toMatch(/^pods +po +v1 +true +Pod$/m)
          expect(resources).toMatch(/^trainjobs +trainer\.kubeflow\.org\/v1alpha1 +true +TrainJob$/m)
          expect(yield* ok(["explain", "trainjob"])).toMatch(/KIND: +TrainJob/)
          expect(yield* ok(["explain", "trainjob.spec"])).toMatch(/^ +runtimePatches\t<\[\]Object>$/m)
          expect(yield* ok(["explain", "pod.spec.containers.livenessProbe"])).toMatch(/^ +httpGet\t<HTTPGetAction>$/m)
          expect(yield* ok(["explain", "job.status.conditions"])).toMatch(/FIELD: conditions <\[\]JobCondition>/)
          expect(yield* fails(["create", "deployment", "d", "--image=busybox"])).toContain(
            "the server could not find the requested resource"
          )
          expect(yield* ok(["get", "--raw", "/healthz"])).toBe("ok")
        }),
      seconds
    )

    it.effect(
      "a TrainJob: create -f, get with columns, describe, get -o yaml, wait",
      () =>
        Effect.gen(function* () {
          expect(yield* ok(["create", "-f", "-"], trainJob)).toBe("trainjob.trainer.kubeflow.org/run-1 created\n")
          yield* ok([
            "wait",
            "--for=condition=Ready",
            "pod",
            "-l",
            "jobset.sigs.k8s.io/jobset-name=run-1",
            "--timeout=20s"
          ])
          const all = yield* ok(["get", "trainjobs,jobsets,jobs,pods", "-o", "wide"])
          expect(all).toMatch(/^NAME +STATE +AGE$/m)
          expect(all).toMatch(/^NAME +TERMINALSTATE +RESTARTS +COMPLETED +SUSPENDED +AGE$/m)
          expect(all).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES$/m)
          expect(all).toMatch(/^pod\/run-1-node-0-0-\w{5} +1\/1 +Running +0 +\d+s +[\d.]+ +node-\d +<none> +<none>$/m)
          expect(all).toMatch(/^job\.batch\/run-1-node-0 +Running +0\/2 /m)
          expect(yield* ok(["get", "pods,nodes", "-A"])).toMatch(/^ +node\/node-1 +Ready +<none> +\d+s +v1\.37\.2$/m)
          expect(yield* ok(["get", "trainjobs", "-o", "yaml"])).toContain("    name: run-1\n")
          expect(yield* ok(["describe", "trainjob", "run-1"])).toMatch(/Runtime Ref:/)
          expect(yield* ok(["describe", "node", "node-1"])).toContain("Allocatable:")
          expect(yield* fails(["get", "pod", "nope"])).toBe(`Error from server (NotFound): pods "nope" not found\n`)
        }),
      seconds
    )

    it.scoped(
      "logs and logs -f: the container's lines, until its end",
      () =>
        Effect.gen(function* () {
          const world = yield* TestCluster.TestCluster
          const { follow } = yield* Kubectl
          const [pod] = yield* world.pods("default")
          const name = pod?.metadata.name ?? ""
          const ref = { namespace: "default", name }
          yield* world.writeLog(ref, "one\ntwo\n")
          expect(yield* ok(["logs", name])).toBe("one\ntwo\n")
          expect(yield* ok(["logs", name, "--tail=1"])).toBe("two\n")
          const lines = yield* follow(["logs", "-f", name])
          expect([yield* Queue.take(lines), yield* Queue.take(lines)]).toEqual(["one", "two"])
          yield* world.writeLog(ref, "three\n")
          expect(yield* Queue.take(lines)).toBe("three")
        }),
      seconds
    )

    it.scoped(
      "get -w prints every change as a row",
      () =>
        Effect.gen(function* () {
          const world = yield* TestCluster.TestCluster
          const { follow } = yield* Kubectl
          const [pod] = yield* world.pods("default")
          const name = pod?.metadata.name ?? ""
          const lines = yield* follow(["get", "pod", name, "-w"])
          expect(yield* Queue.take(lines)).toMatch(/^NAME +READY +STATUS/)
          expect(yield* Queue.take(lines)).toMatch(/ 1\/1 +Running /)
          yield* world.exit({ namespace: "default", name }, { code: 3 })
          for (let line = ""; !/ 0\/1 +Error /.test(line);) line = yield* Queue.take(lines)
          yield* ok(["wait", "--for=condition=Failed", "trainjob/run-1", "--timeout=30s"])
          expect(yield* ok(["get", "trainjob", "run-1"])).toMatch(/^run-1 +Failed /m)
        }),
      seconds
    )

    it.effect(
      "apply, apply again, apply --server-side, patch in three formats, label, replace, diff",
      () =>
        Effect.gen(function* () {
          expect(yield* ok(["apply", "-f", "-"], configMap("1"))).toBe("configmap/applied created\n")
          expect(yield* ok(["apply", "-f", "-"], configMap("1"))).toBe("configmap/applied unchanged\n")
          expect(yield* ok(["apply", "-f", "-"], configMap("2"))).toBe("configmap/applied configured\n")
          expect(yield* ok(["apply", "--server-side", "--force-conflicts", "-f", "-"], configMap("3"))).toBe(
            "configmap/applied serverside-applied\n"
          )
          yield* ok(["patch", "configmap", "applied", "--type=merge", "-p", `{"data":{"m":"1"}}`])
          yield* ok([
            "patch",
            "configmap",
            "applied",
            "--type=json",
            "-p",
            `[{"op":"add","path":"/data/j","value":"1"}]`
          ])
          yield* ok(["patch", "configmap", "applied", "--type=strategic", "-p", `{"data":{"s":"1"}}`])
          yield* ok(["label", "configmap", "applied", "a=b"])
          expect(JSON.parse(yield* ok(["get", "configmap", "applied", "-o", "json"]))).toMatchObject({
            metadata: { labels: { a: "b" } },
            data: { x: "3", m: "1", j: "1", s: "1" }
          })
          const { run } = yield* Kubectl
          expect((yield* run(["diff", "-f", "-"], configMap("4"))).out).toContain(`+  x: "4"`)
          yield* ok(["replace", "-f", "-"], configMap("5"))
          expect(yield* fails(["create", "configmap", "applied"])).toContain(`configmaps "applied" already exists`)
          yield* ok(["delete", "configmap", "applied"])
        }),
      seconds
    )

    it.scoped(
      "the life of a TrainJob: apply, wait, logs -f to its end, describe with events, delete",
      () =>
        Effect.gen(function* () {
          const { follow } = yield* Kubectl
          const program = {
            runs: [{ after: 4000, code: 0 }],
            output: [
              { after: 0, text: "epoch 1\n" },
              { after: 2000, text: "epoch 2\n" }
            ]
          }
          const annotations = { "testkit.dispatch-kubeflow.dev/program": JSON.stringify(program) }
          const job = Fixtures.trainJob("life", {
            numNodes: 2,
            spec: { runtimePatches: [Fixtures.annotationPatch("example.com/kubectl", annotations)] }
          })
          const rank0 = "jobset.sigs.k8s.io/jobset-name=life,batch.kubernetes.io/job-completion-index=0"
          expect(yield* ok(["apply", "-f", "-"], JSON.stringify(job))).toBe(
            "trainjob.trainer.kubeflow.org/life created\n"
          )
          yield* ok(["wait", "--for=create", "pod", "-l", rank0, "--timeout=20s"])
          yield* ok(["wait", "--for=condition=Ready", "pod", "-l", rank0, "--timeout=20s"])
          const lines = yield* follow(["logs", "-f", "-l", rank0, "-c", "node"])
          expect([yield* Queue.take(lines), yield* Queue.take(lines)]).toEqual(["epoch 1", "epoch 2"])
          yield* ok(["wait", "--for=condition=Complete", "trainjob/life", "--timeout=30s"])
          expect(yield* ok(["get", "trainjob", "life"])).toMatch(/^life +Complete +\d+s$/m)
          expect(yield* ok(["get", "pods", "-l", rank0, "-o", "wide"])).toMatch(/ 0\/1 +Completed +0 /)
          expect(yield* ok(["logs", "-l", rank0, "--tail=1"])).toBe("epoch 2\n")
          expect(yield* ok(["describe", "pod", "-l", rank0])).toMatch(/Scheduled .*Successfully assigned default\/life/)
          expect(yield* ok(["events", "--for", "job/life-node-0"])).toContain("SuccessfulCreate")
          expect(yield* ok(["delete", "trainjob", "life", "--timeout=30s"])).toContain(`"life" deleted`)
          yield* ok(["wait", "--for=delete", "pod", "-l", rank0, "--timeout=30s"])
        }),
      seconds
    )

    it.effect(
      "what kubectl sends as protobuf: namespaces, accounts, tokens, roles, jobs, access reviews",
      () =>
        Effect.gen(function* () {
          yield* ok(["create", "namespace", "team-a"])
          yield* ok(["create", "serviceaccount", "robot", "-n", "team-a"])
          yield* ok(["create", "role", "reader", "--verb=get,list", "--resource=pods", "-n", "team-a"])
          yield* ok([
            "create",
            "rolebinding",
            "robot",
            "--role=reader",
            "--serviceaccount=team-a:robot",
            "-n",
            "team-a"
          ])
          yield* ok(["create", "job", "once", "--image=busybox", "-n", "team-a"])
          const token = (yield* ok(["create", "token", "robot", "-n", "team-a"])).trim()
          const { server } = yield* Kubectl
          expect(server.url).toMatch(/^https:/)
          const robot = "--as=system:serviceaccount:team-a:robot"
          expect((yield* ok(["auth", "can-i", "list", "pods", "-n", "team-a", robot])).trim()).toBe("yes")
          const { run } = yield* Kubectl
          expect((yield* run(["auth", "can-i", "delete", "pods", "-n", "team-a", robot])).out.trim()).toBe("no")
          expect(yield* ok(["auth", "can-i", "--list", "-n", "team-a", robot])).toMatch(
            /^pods +\[\] +\[\] +\[get list\]$/m
          )
          const who = ["--user=nobody", "auth", "whoami", "--token", token]
          expect(yield* ok(who)).toMatch(/Username +system:serviceaccount:team-a:robot/)
          expect(yield* ok(["auth", "whoami"])).toMatch(/Username +kubernetes-admin/)
          yield* ok(["delete", "namespace", "team-a", "--timeout=30s"])
        }),
      seconds
    )

    it.effect(
      "users: what a role does not grant is forbidden, an unknown token is no user",
      () =>
        Effect.gen(function* () {
          expect(yield* ok(["--context=viewer", "get", "nodes"])).toContain("node-1")
          expect(yield* fails(["--context=viewer", "delete", "node", "node-1"])).toBe(
            `Error from server (Forbidden): nodes "node-1" is forbidden: User "viewer" cannot delete resource "nodes" in API group "" at the cluster scope\n`
          )
          expect(yield* fails(["--context=nobody", "get", "pods"])).toContain(
            `User "nobody" cannot list resource "pods"`
          )
          expect(yield* fails(["--context=viewer", "--as=admin", "get", "pods"])).toContain(
            `User "viewer" cannot impersonate resource "users"`
          )
          expect(yield* fails(["--token=unknown", "get", "pods"])).toContain("Unauthorized")
        }),
      seconds
    )

    it.effect(
      "nodes: cordon, taint, drain, and pods that are deleted",
      () =>
        Effect.gen(function* () {
          yield* ok(["run", "lonely", "--image=busybox", "--restart=Never"])
          yield* ok(["wait", "--for=condition=Ready", "pod/lonely", "--timeout=20s"])
          const node = yield* ok(["get", "pod", "lonely", "-o", "jsonpath={.spec.nodeName}"])
          yield* ok(["cordon", node])
          expect(yield* ok(["get", "node", node])).toContain("Ready,SchedulingDisabled")
          yield* ok(["drain", node, "--force", "--ignore-daemonsets", "--grace-period=1", "--timeout=40s"])
          expect(yield* fails(["get", "pod", "lonely"])).toContain("NotFound")
          yield* ok(["uncordon", node])
          yield* ok(["taint", "node", node, "a=b:NoSchedule"])
          expect(yield* ok(["get", "node", node, "-o", "jsonpath={.spec.taints[0].key}"])).toBe("a")
          yield* ok(["taint", "node", node, "a-"])
          yield* ok(["delete", "trainjob", "run-1", "--timeout=30s"])
          yield* ok(["wait", "--for=delete", "pod", "-l", "jobset.sigs.k8s.io/jobset-name=run-1", "--timeout=30s"])
        }),
      seconds
    )
  })
}
