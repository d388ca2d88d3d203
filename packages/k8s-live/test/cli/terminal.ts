/** The command line in this process: arguments in, what it printed and its exit code out. */
import * as CommandLine from "@dispatch-kubeflow/k8s-live/cli/CommandLine"
import type * as Invocation from "@dispatch-kubeflow/k8s-live/cli/Invocation"
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Printed {
  readonly code: number
  readonly out: string
  readonly err: string
  /** Every status line that was shown; `undefined` where it was wiped. */
  readonly progress: ReadonlyArray<string | undefined>
}

/** Runs a command; `files` are what it can read, by path. */
export const cli = (
  args: ReadonlyArray<string>,
  files: Readonly<Record<string, string>> = {}
): Effect.Effect<Printed> =>
  Effect.suspend(() => {
    let out = ""
    let err = ""
    const progress: Array<string | undefined> = []
    const stdio: Session.Stdio = {
      out: (data) =>
        Effect.sync(() => {
          out += typeof data === "string" ? data : new TextDecoder().decode(data)
        }),
      err: (text) =>
        Effect.sync(() => {
          err += `${text}\n`
        }),
      progress: (text) => Effect.sync(() => void progress.push(text)),
      readFile: (path) => {
        const text = files[path]
        return text === undefined ? Effect.fail({ message: "no such file" }) : Effect.succeed(text)
      },
      look: { width: 1000, paint: (_, text) => text }
    }
    const parsed = CommandLine.parse(args, "0.0.0")
    return parsed._tag === "Show"
      ? Effect.succeed({ code: parsed.code, out: "", err: parsed.text, progress })
      : Effect.map(Effect.provideService(Run.run(parsed.invocation), Session.Terminal, stdio), (code) => ({
          code,
          out,
          err,
          progress
        }))
  })

/** What arguments ask for; throws where they ask for nothing. */
export const invocationOf = (args: ReadonlyArray<string>): Invocation.Invocation => {
  const parsed = CommandLine.parse(args, "0")
  if (parsed._tag === "Show") throw new Error(parsed.text)
  return parsed.invocation
}

/** A folder that goes with the scope. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "dispatch-cli-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A file in a folder. */
export const file = (path: string, name: string, text: string): string => {
  const whole = join(path, name)
  writeFileSync(whole, text)
  return whole
}

/** A file that goes when the test is over. */
export const temporaryFile = (text: string, whenOver: (remove: () => void) => void, name = "file"): string => {
  const path = mkdtempSync(join(tmpdir(), "dispatch-cli-"))
  whenOver(() => rmSync(path, { recursive: true, force: true }))
  return file(path, name, text)
}
