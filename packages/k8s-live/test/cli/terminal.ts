/** The command line in this process: arguments in, what it printed and its exit code out. */
import * as Invocation from "@dispatch-kubeflow/k8s-live/cli/Invocation"
import * as Run from "@dispatch-kubeflow/k8s-live/cli/Run"
import * as Session from "@dispatch-kubeflow/k8s-live/cli/Session"
import { Effect, Either } from "effect"
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
    return Either.match(Invocation.parse(args, "0.0.0"), {
      onLeft: ({ text, code }) => Effect.succeed({ code, out: "", err: text, progress }),
      onRight: (invocation) =>
        Effect.map(Effect.provideService(Run.run(invocation), Session.Terminal, stdio), (code) => ({
          code,
          out,
          err,
          progress
        }))
    })
  })

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
