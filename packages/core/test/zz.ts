import { FastCheck } from "effect"
import * as H from "/work/main/packages/core/test/Histories.js"
const seed = Number(process.argv[2] ?? 1), n = Number(process.argv[3] ?? 50)
const b = performance.now(); const told: Record<string, number> = {}
const r = FastCheck.check(FastCheck.property(H.history, (h) => { const t = H.run(h); told[t] = (told[t] ?? 0) + 1 }), { numRuns: n, seed })
if (r.failed) { console.log(FastCheck.defaultReportMessage(r).slice(0, 6000)) }
console.log(r.numRuns, ((performance.now() - b) / Math.max(1, r.numRuns)).toFixed(0), "ms each", told)
