import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Cluster from "../../src/Cluster.js"
import * as Served from "./served.js"

const folder = fileURLToPath(new URL("go", import.meta.url))
const tables = fileURLToPath(new URL("../../src/ProtobufTables.ts", import.meta.url))

// A first build takes minutes
const minutes = 600_000

const resolves = (): boolean => {
  try {
    execFileSync("go", ["list", "-deps", "./..."], { cwd: folder, stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

if (process.env["TEST_GO"] !== "1") Served.skipped("client-go", "TEST_GO=1 builds and runs it")
else if (!resolves()) Served.skipped("client-go", "no `go` on the path that finds the modules")
else {
  // What is run has a HOME of its own, but shares Go's caches
  const env = Object.fromEntries(
    ["GOPATH", "GOMODCACHE", "GOCACHE"].map((name) => [
      name,
      execFileSync("go", ["env", name], { encoding: "utf8" }).trim()
    ])
  )

  layer(Served.layer(), { excludeTestServices: true, timeout: 60_000 })("client-go", (it) => {
    const go = (...args: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const { run } = yield* Served.Served
        const { code, err, out } = yield* run("go", args, { cwd: folder, env: { ...env, TESTKIT: Served.testkit } })
        expect([code, code === 0 ? "" : err]).toEqual([0, ""])
        return out
      })

    it.effect(
      "discovery, typed and dynamic clients, pages, informers, logs, waits, leader election; protobuf and JSON",
      () =>
        Effect.gen(function* () {
          const { folder: own, kubeconfig, run } = yield* Served.Served
          const binary = join(own, "clients")
          yield* go("build", "-o", binary, ".")
          for (const content of ["", "application/json"]) {
            const { code, err, out } = yield* run(binary, ["-kubeconfig", kubeconfig, "-content", content])
            expect([code, code === 0 ? "" : err]).toEqual([0, ""])
            expect(JSON.parse(out)).toEqual({
              version: "v1.37.2",
              groups: true,
              discovered: true,
              kubeflow: ["trainer.kubeflow.org"],
              errors: ["AlreadyExists", "Conflict", "NotFound", "Invalid", "Forbidden"],
              data: { a: "1", b: "2", c: "3", d: "4" },
              metadata: "settings",
              paged: 7,
              initial: [7, 7],
              followed: ["epoch 1", "epoch 2"],
              log: "epoch 2\n",
              complete: "go-1",
              informed: [2, true, 2],
              leaders: [true, "second", 1]
            })
          }
          // Its informers list by watching
          const { audit } = yield* Cluster.Cluster
          const watched = (yield* audit).filter(({ request }) => request.query["sendInitialEvents"] === "true")
          expect([...new Set(watched.map(({ request }) => request.plural))].toSorted()).toEqual(
            expect.arrayContaining(["configmaps", "pods", "trainjobs"])
          )
        }),
      minutes
    )

    it.effect(
      "the example of docs/testkit.md, with go test",
      () =>
        Effect.map(go("test", "-count=1", "-run", "TestAPodPrintsAndEnds", "."), (out) => expect(out).toContain("ok")),
      minutes
    )

    it.effect(
      "the protobuf tables are those of k8s.io/api, and the encoded pod is client-go's",
      () =>
        Effect.gen(function* () {
          expect(readFileSync(tables, "utf8")).toBe(yield* go("run", "./tables"))
          expect(readFileSync(join(folder, "encoded/pod.txt"), "utf8")).toBe(yield* go("run", "./encoded"))
        }),
      minutes
    )
  })
}
