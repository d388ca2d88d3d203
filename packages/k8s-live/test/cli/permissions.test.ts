/** What a permission would mend is exit code 6, whatever the command and whichever permission it is. */
import { ExitCode, exitCodeOf } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { cli, file, folder } from "./terminal.js"

const namespace = "default"

const role = (name: string, resources: ReadonlyArray<string>) => ({
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRole",
  metadata: { name },
  rules: [{ apiGroups: ["*"], resources, verbs: ["get", "list", "watch"] }]
})

const binding = (name: string) => ({
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRoleBinding",
  metadata: { name },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
  subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name }]
})

const own = ["trainjobs", "jobsets", "jobs", "pods", "namespaces", "events"]
const users: Readonly<Record<string, ReadonlyArray<string>>> = {
  nobody: [],
  "without-nodes": [...own, "pods/log"],
  "without-logs": [...own, "nodes"]
}

/** A TrainJob that runs, and a kubeconfig for a user. */
const world = Effect.gen(function* () {
  const cluster = yield* TestCluster.TestCluster
  yield* cluster.createNode("node-1")
  yield* cluster.create(Fixtures.trainJob("run-1", { runtime: "torch-conforming" }), namespace)
  for (const [user, resources] of Object.entries(users)) {
    yield* cluster.create(role(user, resources))
    yield* cluster.create(binding(user))
  }
  const running = Effect.flatMap(cluster.pods(namespace), (pods) =>
    pods.some(({ status }) => status?.phase === "Running") ? Effect.void : Effect.fail("not yet")
  )
  yield* Effect.retry(running, { times: 200, schedule: Schedule.spaced("100 millis") })
  const tokens = Object.fromEntries(Object.keys(users).map((name) => [`token-of-${name}`, Rbac.user(name)]))
  const server = yield* ApiServer.serveCluster({ tokens })
  const path = yield* folder
  return (user: string): string => file(path, user, server.kubeconfig({ name: user, token: `token-of-${user}` }))
})

describe("a missing permission is exit code 6", () => {
  it.scopedLive("in every command that cannot do without it", () =>
    Effect.gen(function* () {
      const kubeconfig = yield* world
      const cases: ReadonlyArray<readonly [user: string, args: ReadonlyArray<string>, missing: RegExp]> = [
        ["without-nodes", ["ceased", "run-1"], /nodes/],
        ["without-logs", ["output", "run-1"], /pods\/log/],
        ["without-logs", ["output", "run-1", "--follow"], /pods\/log/],
        ["without-logs", ["output", "run-1", "--all-ranks"], /pods\/log/],
        ["nobody", ["ceased", "run-1"], /trainjobs/],
        ["nobody", ["explain", "run-1"], /trainjobs/],
        ["nobody", ["output", "run-1"], /trainjobs|pods/],
        ["nobody", ["watch", "run-1"], /trainjobs/],
        ["nobody", ["watch", "--once"], /trainjobs/],
        ["nobody", ["runtime", "check", "torch-conforming"], /clustertrainingruntimes/],
        ["nobody", ["runtime", "check", "--all"], /trainingruntimes/],
        ["nobody", ["runtime", "conform", "torch-conforming"], /clustertrainingruntimes/]
      ]
      for (const [user, args, missing] of cases) {
        const told = yield* cli([...args, "--kubeconfig", kubeconfig(user), "-n", namespace]).pipe(
          Effect.timeout("30 seconds")
        )
        expect([user, args, told.code, told.err]).toEqual([
          user,
          args,
          ExitCode.notPermitted,
          expect.stringMatching(missing)
        ])
      }
    }).pipe(Effect.provide(TestCluster.layer({ objects: [Fixtures.torchConforming()] })))
  )

  it("what else is not supported stays 4, also beside a permission", () => {
    const failure = (...ids: ReadonlyArray<string>) => ({
      _tag: "ErrUnsupported",
      message: "",
      details: ids.map((id) => ({ id }))
    })
    expect(exitCodeOf(failure())).toBe(ExitCode.unsupported)
    expect(exitCodeOf(failure("permission", "container"))).toBe(ExitCode.unsupported)
    expect(exitCodeOf(failure("permission"))).toBe(ExitCode.notPermitted)
  })
})
