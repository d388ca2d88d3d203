// Known vulnerabilities of what the packages bring along. A registry without an audit service is said to be one, and is no failure.
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"

const pnpm = JSON.parse(readFileSync("package.json", "utf8")).packageManager
const { error, status, stderr, stdout } = spawnSync("npx", ["-y", pnpm, "audit", "--prod"], { encoding: "utf8" })
const said = `${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}`.trim()
const unanswered = /ERR_PNPM_AUDIT_(BAD_RESPONSE|ENDPOINT_NOT_EXISTS)|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN/.test(
  said
)
console.log(said)
if (unanswered) console.log("Not audited: the registry did not answer.")
process.exitCode = status === 0 || unanswered ? 0 : 1
