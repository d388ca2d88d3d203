import { it } from "@effect/vitest"
import { Effect, TestClock } from "effect"
import * as Fixtures from "../../src/Fixtures.js"
import * as Cluster from "../../src/Cluster.js"
import * as EventLog from "../../src/EventLog.js"
import * as Trainer from "../../src/stages/Trainer.js"
import { TestCluster, layer } from "../../src/TestCluster.js"
it.scoped("d", () => Effect.gen(function* () {
  const t = yield* TestCluster
  const c = yield* Cluster.Cluster
  yield* t.createNode("node-1")
  yield* t.create(Fixtures.torchStrict())
  yield* t.create(Fixtures.trainJob("run-1", { runtime: "torch-strict", spec: { activeDeadlineSeconds: 5 } }), "default")
  const v = (yield* c.state).version
  yield* TestClock.adjust("6 seconds")
  yield* t.settle
  for (const e of EventLog.after((yield* c.state).log, v)) { const o: any = e.object; if (o.kind !== "Event" && o.kind !== "Lease") console.log(e.type, o.kind, o.metadata.name, JSON.stringify(o.status?.conditions?.map((x: any) => x.type + x.status)), JSON.stringify(o.status?.jobsStatus)) }
}).pipe(Effect.provide(layer({ with: [Trainer.make({ cache: "lagging" })] }))))
