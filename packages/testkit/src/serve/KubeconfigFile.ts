/**
 * Where the kubeconfig of a served cluster goes. A file that somebody else wrote is never touched.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { Data, Effect, Schema, type Scope } from "effect"
import * as Yaml from "yaml"
import { clusterName } from "../ApiServer.js"

/** The file exists and is not one that this program wrote. */
export class KubeconfigTaken extends Data.TaggedError("KubeconfigTaken")<{ readonly path: string }> {
  override get message(): string {
    return `${this.path} exists and is not a kubeconfig of this program: choose another file for --kubeconfig`
  }
}

const Own = Schema.Struct({
  kind: Schema.Literal("Config"),
  clusters: Schema.Array(Schema.Struct({ name: Schema.Literal(clusterName) }))
})
const isOwn = Schema.is(Own)

const isOwnText = (text: string): boolean => {
  try {
    return isOwn(Yaml.parse(text))
  } catch {
    return false
  }
}

const ownerOnly = 0o600

/**
 * Writes the kubeconfig, readable by its owner alone, and answers where it is: a reader finds the whole file or the one
 * before. Without a path it goes into a folder of its own that is removed with the scope.
 */
export const write = (
  kubeconfig: string,
  path: string | undefined
): Effect.Effect<string, KubeconfigTaken | PlatformError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    if (path === undefined) {
      const folder = yield* files.makeTempDirectoryScoped({ prefix: `${clusterName}-` })
      const file = paths.join(folder, "kubeconfig")
      yield* files.writeFileString(file, kubeconfig, { mode: ownerOnly })
      return file
    }
    const named = paths.resolve(path)
    const exists = yield* files.exists(named)
    if (exists && !isOwnText(yield* files.readFileString(named))) return yield* new KubeconfigTaken({ path: named })
    // A rename would replace a link, and leave what it points to as it was
    const file = exists ? yield* files.realPath(named) : named
    yield* Effect.scoped(
      Effect.gen(function* () {
        // A rename is atomic within one file system alone
        const folder = yield* files.makeTempDirectoryScoped({ directory: paths.dirname(file), prefix: ".kubeconfig-" })
        const whole = paths.join(folder, "kubeconfig")
        yield* files.writeFileString(whole, kubeconfig, { mode: ownerOnly })
        yield* files.rename(whole, file)
      })
    )
    return file
  })
