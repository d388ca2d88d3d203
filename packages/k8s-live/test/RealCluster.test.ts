/** The same questions to a real API server. `TEST_KUBECONFIG` names a kubeconfig of an admin; without it all are skipped. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Context, Effect, Either, Fiber, Layer, Redacted, Schedule, Stream } from "effect"

const path = process.env["TEST_KUBECONFIG"] ?? ""
const source = KubeConfig.Source.Files({ paths: [path] })

const connect = Effect.map(Layer.build(KubeApiLive.layer({ source })), (context) => ({
  api: Context.get(context, KubeApi.KubeApi),
  config: Context.get(context, KubeConfig.KubeConfig)
}))

/** The admin's API and a namespace that is deleted at the end. */
const world = Effect.gen(function* () {
  const { api, config } = yield* connect
  const created = yield* Effect.acquireRelease(
    api.create(Core.namespaces, {}, { metadata: { generateName: "h-live-" } }),
    ({ metadata: { name } }) => Effect.ignore(api.remove(Core.namespaces, { name }, { propagation: "Background" }))
  )
  return { api, config, namespace: created.metadata.name }
})

const serviceAccounts = { group: "", version: "v1", plural: "serviceaccounts" }

describe.skipIf(path === "")("a real API server (skipped without TEST_KUBECONFIG)", () => {
  it.scopedLive("writes, reads, watches and deletes; the server's clock comes with the answer", () =>
    Effect.gen(function* () {
      const { api, namespace } = yield* world
      assert.match(yield* api.serverVersion, /^v1\./)
      const name = "one"
      const ref = { namespace, name }
      yield* Effect.ignore(api.remove(Core.configMaps, ref, { propagation: "Background" }))
      const before = yield* api.list(Core.configMaps, { namespace })
      const watching = yield* api
        .watch(Core.configMaps, {
          namespace,
          resourceVersion: before.resourceVersion,
          fields: Selector.fields({ "metadata.name": name })
        })
        .pipe(
          Stream.filter((event) => event._tag !== "Bookmark"),
          Stream.take(3),
          Stream.runCollect,
          Effect.fork
        )
      const created = yield* api.create(Core.configMaps, { namespace }, { metadata: { name }, data: { k: "pöd 🚀" } })
      yield* api.patch(Core.configMaps, ref, { type: "merge", body: { data: { k: "2" } } })
      const { object, serverTime } = yield* api.getWithTime(Core.configMaps, ref)
      assert.strictEqual(object.data?.["k"], "2")
      assert.isBelow(Math.abs((serverTime ?? 0) - Date.now()), 60_000)
      yield* api.remove(Core.configMaps, ref, { propagation: "Background", uid: created.metadata.uid })
      const events = Chunk.toReadonlyArray(yield* Fiber.join(watching))
      assert.deepStrictEqual(
        events.map((event) => (event._tag === "Applied" ? event.type : event._tag)),
        ["ADDED", "MODIFIED", "Deleted"]
      )
      const gone = yield* Effect.flip(api.get(Core.configMaps, ref))
      assert.strictEqual(gone._tag, "KubeNotFound")
      const again = yield* Effect.flip(api.create(Core.configMaps, { namespace }, { metadata: { name: "Not A Name" } }))
      assert.strictEqual(again._tag, "KubeInvalid")
    })
  )

  it.scopedLive("W05: a version from before history is KubeExpired; a watch with a deadline ends in order", () =>
    Effect.gen(function* () {
      const { api, namespace } = yield* world
      const old = yield* Effect.either(
        Stream.runDrain(api.watch(Core.configMaps, { allNamespaces: true, resourceVersion: "1", timeoutSeconds: 5 }))
      )
      // a server that was started just now still has its whole history
      if (Either.isLeft(old)) assert.strictEqual(old.left._tag, "KubeExpired")
      const { resourceVersion } = yield* api.list(Core.pods, { namespace })
      yield* Stream.runDrain(api.watch(Core.pods, { namespace, resourceVersion, timeoutSeconds: 1 }))
    })
  )

  it.scopedLive("a pod without a node has no log", () =>
    Effect.gen(function* () {
      const { api, namespace } = yield* world
      const name = "unscheduled"
      const create = api.create(
        Core.pods,
        { namespace },
        {
          metadata: { name },
          spec: {
            nodeSelector: { "no-such": "node" },
            containers: [{ name: "node", image: "x" }],
            restartPolicy: "Never"
          }
        }
      )
      // the namespace's service account appears a moment after the namespace
      yield* Effect.retry(create, { times: 50, schedule: Schedule.spaced("100 millis") })
      const error = yield* Effect.flip(Stream.runDrain(api.log({ namespace, name }, { container: "node" })))
      assert.strictEqual(error._tag, "KubeNotFound")
      if (error._tag === "KubeNotFound") assert.strictEqual(error.subject, "log")
      yield* api.remove(Core.pods, { namespace, name }, { propagation: "Background", gracePeriodSeconds: 0 })
    })
  )

  it.scopedLive("T01: a wrong token is Unauthorized, and one that is replaced in its file works at once", () =>
    Effect.gen(function* () {
      const { api, config, namespace } = yield* world
      yield* api.transport.call(
        KubeRequest.make("create", serviceAccounts, { namespace, body: { metadata: { name: "reader" } } })
      )
      const { body } = yield* api.transport.call(
        KubeRequest.make("create", serviceAccounts, { namespace, name: "reader", subresource: "token", body: {} })
      )
      const token = (body as { readonly status: { readonly token: string } }).status.token
      const file = yield* Effect.acquireRelease(
        Effect.sync(() => join(mkdtempSync(join(tmpdir(), "realcluster-test-")), "token")),
        (created) => Effect.sync(() => rmSync(join(created, ".."), { recursive: true }))
      )
      const { tls } = yield* config.credentials
      const value = {
        clusters: [
          {
            name: "c",
            cluster: {
              server: config.server,
              "certificate-authority-data": Buffer.from(Redacted.value(tls).ca ?? "").toString("base64")
            }
          }
        ],
        users: [{ name: "u", user: { tokenFile: file } }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x"
      }
      writeFileSync(file, "wrong")
      const reader = Context.get(
        yield* Layer.build(KubeApiLive.layer({ source: KubeConfig.Source.Value({ value }) })),
        KubeApi.KubeApi
      )
      const refused = yield* Effect.flip(reader.serverVersion)
      assert.strictEqual(refused._tag, "KubeUnauthorized")
      writeFileSync(file, `${token}\n`)
      assert.match(yield* reader.serverVersion, /^v1\./)
      const forbidden = yield* Effect.flip(reader.list(Core.pods, { namespace }))
      assert.strictEqual(forbidden._tag, "KubeForbidden")
      assert.notInclude(forbidden.message, token)
      const watch = yield* Effect.flip(Stream.runDrain(reader.watch(Core.pods, { namespace })))
      assert.strictEqual(watch._tag, "KubeForbidden")
    })
  )
})
