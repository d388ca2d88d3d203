import { it } from "@effect/vitest"
import { replayFile } from "./Recordings.js"
it("replay", () => {
  for (const file of (process.env["REC"] ?? "").split(",")) {
    console.log("=====", file.split("/").slice(-2).join("/"))
    const told = new Map<string, string>()
    for (const { at, update: u } of replayFile(file).told) {
      const line = JSON.stringify({ s: u.state, c: u.cause, o: u.outcome, x: u.execution, id: u.identity, i: u.incarnation, r: u.repeated, a: u.alive })
      if (told.get(u.ref.uid!) !== line) console.log(at.toFixed(2), u.ref.name, line.slice(0, 300))
      told.set(u.ref.uid!, line)
    }
  }
})
