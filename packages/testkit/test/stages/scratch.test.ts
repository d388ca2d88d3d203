import { it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as Trainer from "../../src/stages/Trainer.js"
import * as Fixtures from "../../src/Fixtures.js"
import * as Recording from "./Recording.js"
import * as Replay from "./Replay.js"

const names = (process.env["NAMES"] ?? "success").split(",")
for (const name of names) {
  it.scoped(name, () => Effect.gen(function* () {
    const out = yield* Replay.replay(Recording.load("trainer", name), name === "deadline" ? { with: [Trainer.make({ cache: "lagging" })] } : name === "never-starts" ? { nodes: ["node-4", "node-5"].map((n) => Fixtures.node(n, { taints: [{ key: "a", effect: "NoSchedule" }] })) } : {})
    console.log(`## ${name} same ${out.same} coalesced ${out.coalesced.join('; ')} missing ${out.missing.join("; ")} extra ${out.extra.join("; ")}`)
    for (const a of out.answers) console.log("   ANSWER " + a.slice(0, 1200))
    for (const e of out.events.missing) console.log("   EVENT- " + e.slice(0, 300))
    for (const e of out.events.extra.filter((e) => !/Killing/.test(e))) console.log("   EVENT+ " + e.slice(0, 300))
    for (const d of out.differing) {
      console.log(`   DIFF ${d.id} at ${d.at}`)
      fs.writeFileSync(`/tmp/stages/diff-${name}-${d.id.replace(/[^a-zA-Z0-9]+/g, "_")}.json`, JSON.stringify({ recorded: d.recorded, ours: d.ours }))
    }
  }), 60000)
}
