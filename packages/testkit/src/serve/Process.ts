/**
 * `serve` as a process of its own, started from a program.
 *
 * @module
 */
import { Command } from "@effect/platform"
import { Data, Deferred, Duration, Effect, Stream } from "effect"
import { fileURLToPath } from "node:url"

/** The served cluster did not come up. */
export class ServeError extends Data.TaggedError("ServeError")<{ readonly message: string }> {}

/**
 * Starts `serve` with the given command-line arguments beside `--kubeconfig`, and waits until the cluster answers. Runs with
 * this process's Node and its options. The process ends with the scope.
 */
export const start = Effect.fn("serve.Process.start")(function* (
  kubeconfig: string,
  args: ReadonlyArray<string>,
  within: Duration.DurationInput
) {
  const program = fileURLToPath(import.meta.resolve("@dispatch-kubeflow/testkit/serve/main"))
  const server = yield* Command.start(
    Command.make(process.execPath, ...process.execArgv, program, "serve", ...args, "--kubeconfig", kubeconfig).pipe(
      Command.stderr("inherit")
    )
  )
  // It says where its kubeconfig is once it can be used
  const ready = yield* Deferred.make<void>()
  yield* server.stdout.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.runForEach((line) => (line.includes("KUBECONFIG=") ? Deferred.succeed(ready, undefined) : Effect.void)),
    Effect.forkScoped
  )
  yield* Deferred.await(ready).pipe(
    Effect.raceFirst(
      Effect.flatMap(server.exitCode, (code) =>
        Effect.fail(new ServeError({ message: `the served cluster ended at once, with code ${code}` }))
      )
    ),
    Effect.timeoutFail({
      duration: within,
      onTimeout: () => new ServeError({ message: `the served cluster did not start within ${Duration.format(within)}` })
    })
  )
})
