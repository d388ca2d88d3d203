/**
 * A `KeyValueStore` in a folder that survives a kill at any moment: a value is written beside its place, and then put
 * there in one step, so that there is never half of one.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { FileSystem, KeyValueStore } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { Effect, Layer, Option } from "effect"

/** A store in a folder, which is made where it is missing. */
export const layer = (folder: string): Layer.Layer<KeyValueStore.KeyValueStore, PlatformError, FileSystem.FileSystem> =>
  Layer.effect(
    KeyValueStore.KeyValueStore,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      yield* files.makeDirectory(folder, { recursive: true })
      const path = (key: string): string => `${folder}/${encodeURIComponent(key)}`
      const isMissing = (error: unknown): boolean => error instanceof SystemError && error.reason === "NotFound"
      const names = Effect.map(files.readDirectory(folder), (all) => all.filter((name) => !name.endsWith(".new")))
      return KeyValueStore.makeStringOnly({
        get: (key) =>
          Effect.catchIf(Effect.asSome(files.readFileString(path(key))), isMissing, () =>
            Effect.succeed(Option.none<string>())
          ),
        set: (key, value) =>
          Effect.zipRight(
            Effect.scoped(
              Effect.gen(function* () {
                const file = yield* files.open(`${path(key)}.new`, { flag: "w" })
                yield* file.writeAll(new TextEncoder().encode(value))
                yield* file.sync
              })
            ),
            files.rename(`${path(key)}.new`, path(key))
          ),
        remove: (key) => Effect.catchIf(files.remove(path(key)), isMissing, () => Effect.void),
        clear: Effect.flatMap(names, (all) => Effect.forEach(all, (name) => files.remove(`${folder}/${name}`))),
        size: Effect.map(names, (all) => all.length)
      })
    })
  )
