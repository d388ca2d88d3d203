import { FileSystem, KeyValueStore } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { NodeFileSystem } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import * as Files from "../src/Files.js"
import * as Journal from "../src/Journal.js"
import * as Policy from "../src/Policy.js"

const inFolder = <A, E>(
  story: (
    folder: string,
    files: FileSystem.FileSystem
  ) => Effect.Effect<A, E, KeyValueStore.KeyValueStore | FileSystem.FileSystem>
) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const folder = `${yield* files.makeTempDirectoryScoped()}/journal`
    return yield* Effect.provide(story(folder, files), Files.layer(folder))
  }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))

describe("a store in a folder", () => {
  it.effect("keeps what it is given, under any name, and forgets it when told", () =>
    inFolder((folder, files) =>
      Effect.gen(function* () {
        const store = yield* KeyValueStore.KeyValueStore
        expect(yield* store.get("run/a/0")).toEqual(Option.none())
        yield* store.set("run/a/0", "one")
        yield* store.set("run/a/0", "two")
        yield* store.set("../runs", "three")
        expect(yield* store.get("run/a/0")).toEqual(Option.some("two"))
        expect(yield* store.size).toBe(2)
        expect(yield* files.readDirectory(folder)).toHaveLength(2)
        yield* store.remove("run/a/0")
        yield* store.remove("run/a/0")
        expect(yield* store.get("run/a/0")).toEqual(Option.none())
        yield* store.clear
        expect(yield* store.size).toBe(0)
      })
    )
  )

  it.effect("a write that a kill cuts short leaves what was there", () =>
    inFolder((folder, files) =>
      Effect.gen(function* () {
        const store = yield* KeyValueStore.KeyValueStore
        yield* store.set("key", "whole")
        // As a process leaves it that dies before the rename
        yield* files.writeFileString(`${folder}/key.new`, "ha")
        expect(yield* store.get("key")).toEqual(Option.some("whole"))
        expect(yield* store.size).toBe(1)
        yield* store.set("key", "another")
        expect(yield* store.get("key")).toEqual(Option.some("another"))
      })
    )
  )

  it.effect("a write that fails is an error, and the value stays", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const folder = yield* files.makeTempDirectoryScoped()
      const full: FileSystem.FileSystem = {
        ...files,
        rename: (path) =>
          Effect.fail(
            new SystemError({
              reason: "Unknown",
              module: "FileSystem",
              method: "rename",
              pathOrDescriptor: path,
              description: "full"
            })
          )
      }
      const store = (system: FileSystem.FileSystem) =>
        Effect.map(
          Layer.build(Layer.provide(Files.layer(folder), Layer.succeed(FileSystem.FileSystem, system))),
          (context) => KeyValueStore.KeyValueStore.pipe(Effect.provide(context))
        ).pipe(Effect.flatten)
      yield* (yield* store(files)).set("key", "whole")
      expect((yield* Effect.flip((yield* store(full)).set("key", "lost")))._tag).toBe("SystemError")
      expect(yield* (yield* store(files)).get("key")).toEqual(Option.some("whole"))
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))
  )

  it.effect("a journal from another version, or damaged, stops its run and stays as it is", () =>
    inFolder((folder, files) =>
      Effect.gen(function* () {
        const journal = yield* Journal.make
        const record = yield* journal.append("a", undefined, {
          _tag: "Accepted",
          work: { nodes: 1 },
          policy: Policy.standard,
          backends: ["first"],
          token: "t"
        })
        expect(record.length).toBe(1)
        const path = `${folder}/${encodeURIComponent("journal/run/a/0")}`
        for (const text of ['{"version":2,"entry":{}}', "\u0000\u0000"]) {
          yield* files.writeFileString(path, text)
          expect(yield* Effect.flip(journal.read("a"))).toMatchObject({ kind: "damaged", run: "a" })
          expect(yield* files.readFileString(path)).toBe(text)
        }
      })
    )
  )
})
