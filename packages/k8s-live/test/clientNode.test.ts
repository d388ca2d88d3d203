import { PassThrough } from "node:stream"
import { pathToFileURL } from "node:url"
import * as Installed from "@kubernetes/client-node"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import type * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import * as SelfSigned from "@dispatch-kubeflow/testkit/serve/SelfSigned"
import * as Signals from "@dispatch-kubeflow/testkit/serve/Signals"
import * as TestCluster from "@dispatch-kubeflow/testkit/TestCluster"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"

type ClientNode = typeof Installed

// The folder of another version, e.g. of 1.4
const other = process.env["TEST_CLIENT_NODE"]

const trainer = { group: "trainer.kubeflow.org", version: "v1alpha1", namespace: "default", plural: "trainjobs" }
const program = JSON.stringify({
  runs: [{ after: 2500, code: 0 }],
  output: [
    { after: 0, text: "epoch 1\n" },
    { after: 1500, text: "epoch 2\n" }
  ]
})
const patches = [
  Fixtures.annotationPatch("example.com/client-node", { "testkit.dispatch-kubeflow.dev/program": program })
]

const world = TestCluster.layer({
  objects: [Fixtures.torchConforming(), ...["node-1", "node-2"].map((name) => Fixtures.node(name))],
  programs: Signals.programOf
})

/** Waits until the answer is right; the last answer when it never is. */
const until = <A>(ask: () => Promise<A>, right: (answer: A) => boolean): Effect.Effect<A> =>
  Effect.promise(ask).pipe(
    Effect.repeat({ until: right, schedule: Schedule.spaced("50 millis").pipe(Schedule.upTo("20 seconds")) }),
    Effect.flatMap(() => Effect.promise(ask))
  )

const kubeConfig = (client: ClientNode) =>
  Effect.gen(function* () {
    const tls = yield* SelfSigned.make(["127.0.0.1"])
    const server = yield* ApiServer.serveCluster({ tls, tokens: { "admin-token": Rbac.admin } })
    const config = new client.KubeConfig()
    config.loadFromString(server.kubeconfig({ name: "admin", token: "admin-token", namespace: "default" }))
    return config
  })

const suite = (name: string, load: Effect.Effect<ClientNode>): void => {
  describe(name, () => {
    const live = (
      title: string,
      test: (client: ClientNode, config: Installed.KubeConfig) => Effect.Effect<void, never, Cluster.Cluster>
    ): void => {
      it.scopedLive(title, () =>
        Effect.gen(function* () {
          const client = yield* load
          yield* test(client, yield* kubeConfig(client))
        }).pipe(Effect.provide(Layer.fresh(world)))
      )
    }

    live("typed objects: create, list, replace, patches, errors, delete", (client, config) =>
      Effect.promise(async () => {
        const core = config.makeApiClient(client.CoreV1Api)
        const namespace = "default"
        const body = { metadata: { name: "settings", labels: { a: "b" } }, data: { a: "1" } }
        const created = await core.createNamespacedConfigMap({ namespace, body })
        const { metadata } = created
        expect(metadata?.creationTimestamp).toBeInstanceOf(Date)
        await expect(core.createNamespacedConfigMap({ namespace, body })).rejects.toMatchObject({ code: 409 })
        const listed = await core.listNamespacedConfigMap({ namespace, labelSelector: "a=b" })
        expect(listed.items.map((item) => item.metadata?.name)).toEqual(["settings"])
        await core.replaceNamespacedConfigMap({
          namespace,
          name: "settings",
          body: { metadata: metadata ?? {}, data: { a: "1", b: "2" } }
        })
        await expect(
          core.replaceNamespacedConfigMap({ namespace, name: "settings", body: { metadata: metadata ?? {}, data: {} } })
        ).rejects.toMatchObject({ code: 409 })
        const patched = await core.patchNamespacedConfigMap(
          { namespace, name: "settings", body: { data: { c: "3" } } },
          client.setHeaderOptions("Content-Type", client.PatchStrategy.StrategicMergePatch)
        )
        expect(patched.data).toEqual({ a: "1", b: "2", c: "3" })
        const objects = client.KubernetesObjectApi.makeApiClient(config)
        const applied = await objects.patch<Installed.V1ConfigMap>(
          { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace }, data: { d: "4" } },
          undefined,
          undefined,
          "client-node",
          undefined,
          client.PatchStrategy.ServerSideApply
        )
        expect(applied.data).toMatchObject({ a: "1", d: "4" })
        await core.deleteNamespacedConfigMap({ namespace, name: "settings" })
        await expect(core.readNamespacedConfigMap({ namespace, name: "settings" })).rejects.toMatchObject({ code: 404 })
        expect(await new client.Health(config).readyz({})).toBe(true)
        const { gitVersion } = await config.makeApiClient(client.VersionApi).getCode()
        expect(gitVersion).toBe("v1.37.2")
      })
    )

    live("a TrainJob: watch, informer, log that is followed, deletion", (client, config) =>
      Effect.gen(function* () {
        const core = config.makeApiClient(client.CoreV1Api)
        const custom = config.makeApiClient(client.CustomObjectsApi)
        const namespace = "default"
        const phases: Array<string> = []
        const ended: Array<unknown> = []
        const watch = yield* Effect.promise(() =>
          new client.Watch(config).watch(
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
            { allowWatchBookmarks: true },
            (phase) => phases.push(phase),
            (error) => ended.push(error)
          )
        )
        const informed: Array<string> = []
        const informer = client.makeInformer(config, "/api/v1/namespaces/default/pods", () =>
          core.listNamespacedPod({ namespace })
        )
        for (const verb of ["add", "update", "delete"] as const) {
          informer.on(verb, (pod) => informed.push(`${verb} ${pod.status?.phase ?? ""}`))
        }
        yield* Effect.promise(() => informer.start())

        const body = Fixtures.trainJob("node-client", { numNodes: 2, spec: { runtimePatches: patches } })
        yield* Effect.promise(() => custom.createNamespacedCustomObject({ ...trainer, body }))
        const { items } = yield* until(
          () =>
            core.listNamespacedPod({
              namespace,
              labelSelector: "batch.kubernetes.io/job-completion-index=0",
              fieldSelector: "status.phase=Running"
            }),
          (list) => list.items.length === 1
        )
        const pod = items[0]?.metadata?.name ?? ""
        const output = new PassThrough()
        let text = ""
        output.setEncoding("utf8").on("data", (part: string) => (text += part))
        yield* Effect.promise(() => new client.Log(config).log(namespace, pod, "node", output, { follow: true }))
        yield* until(
          () => Promise.resolve(text),
          (all) => all === "epoch 1\nepoch 2\n"
        )
        expect(text).toBe("epoch 1\nepoch 2\n")
        expect(yield* Effect.promise(() => core.readNamespacedPodLog({ namespace, name: pod, tailLines: 1 }))).toBe(
          "epoch 2\n"
        )
        const completed = yield* until(
          () => custom.getNamespacedCustomObject({ ...trainer, name: "node-client" }),
          (job) => JSON.stringify(job).includes(`"type":"Complete"`)
        )
        expect(completed).toMatchObject({ status: { conditions: [{ type: "Complete", status: "True" }] } })
        yield* Effect.promise(() =>
          custom.deleteNamespacedCustomObject({ ...trainer, name: "node-client", propagationPolicy: "Background" })
        )
        yield* until(
          () => Promise.resolve(informer.list().length),
          (left) => left === 0
        )
        expect(informed.filter((event) => event.startsWith("add"))).toHaveLength(2)
        expect(informed.filter((event) => event.startsWith("delete"))).toHaveLength(2)
        expect(informed).toContain("update Succeeded")
        const changes = phases.filter((phase) => phase !== "BOOKMARK")
        expect([changes[0], changes.at(-1)]).toEqual(["ADDED", "DELETED"])
        yield* Effect.promise(() => informer.stop())
        watch.abort()
        yield* until(
          () => Promise.resolve(ended.length),
          (count) => count === 1
        )
      })
    )
  })
}

suite("@kubernetes/client-node", Effect.succeed(Installed))

if (other === undefined) {
  describe.skip("another @kubernetes/client-node (TEST_CLIENT_NODE names no folder of one)", () =>
    it("is not here", () => undefined))
} else {
  suite(
    `@kubernetes/client-node in ${other}`,
    Effect.promise(() => import(pathToFileURL(`${other}/dist/index.js`).href) as Promise<ClientNode>)
  )
}
