#!/usr/bin/env node
/**
 * The `dispatch-kubeflow` command. What only needs a text to be shown is answered here; everything else is loaded when it
 * is wanted, since loading it takes ten times as long.
 *
 * @module
 */
import { createRequire } from "node:module"
import * as CommandLine from "./CommandLine.js"
import { ExitCode, exitCodeOf } from "./ExitCode.js"
import { widthOf } from "./Terminal.js"
import * as Written from "./Written.js"

const manifest: unknown = createRequire(import.meta.url)("../../package.json")
const version =
  typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown"

// Without a listener an EPIPE would end the process with a stack trace before anybody can answer it
process.stdout.on("error", () => undefined)
process.stderr.on("error", () => undefined)

const parsed = CommandLine.parse(process.argv.slice(2), version, process.stdout.isTTY ? widthOf(process.stdout) : 100)
if (parsed._tag === "Ask") {
  const { start } = await import("./Start.js")
  start(parsed.invocation, version)
} else {
  const stream = parsed.code === ExitCode.ok ? process.stdout : process.stderr
  Written.write(stream, `${parsed.text.trimEnd()}\n`, (problem) => {
    process.exitCode = problem === undefined || stream === process.stderr ? parsed.code : exitCodeOf(problem)
    if (problem?._tag === "OutputLost") process.stderr.write(`error: ${problem.message}\n`)
  })
}
