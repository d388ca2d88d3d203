/**
 * Credential plugins: `users[].user.exec` (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
 *
 * @module
 */
import { Command, type CommandExecutor } from "@effect/platform"
import { Clock, Duration, Effect, Option, Schema, Stream } from "effect"
import type { Selected } from "./Document.js"
import { type ExecEntry, present } from "./Document.js"
import { KubeConfigError } from "./KubeConfigError.js"
import * as Redaction from "./Redaction.js"

/** What a plugin gave. Times are epoch milliseconds. */
export interface ExecCredential {
  readonly token: string | undefined
  readonly certificate: string | undefined
  readonly key: string | undefined
  /** When to run the plugin again; `undefined`: when the server answers 401. */
  readonly renewAt: number | undefined
}

const versions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]
const maximumOutput = 1024 * 1024
const expiryMargin = 30_000
const killGrace = "2 seconds"

const Answer = Schema.parseJson(
  Schema.Struct({
    kind: Schema.optional(Schema.String),
    apiVersion: Schema.optional(Schema.String),
    status: Schema.optional(
      Schema.NullOr(
        Schema.Struct({
          token: Schema.optional(Schema.NullOr(Schema.String)),
          clientCertificateData: Schema.optional(Schema.NullOr(Schema.String)),
          clientKeyData: Schema.optional(Schema.NullOr(Schema.String)),
          expirationTimestamp: Schema.optional(Schema.NullOr(Schema.String))
        })
      )
    )
  })
)
const decodeAnswer = Schema.decodeUnknownOption(Answer)

const failure = (selected: Selected, field: string, problem: string, advice: string): KubeConfigError =>
  new KubeConfigError({
    origin: selected.origin,
    context: selected.contextName,
    field: `users["${selected.userName ?? ""}"].user.exec${field}`,
    problem,
    advice
  })

/** What is wrong with the entry, known before anything runs. */
export const validate = (selected: Selected, exec: ExecEntry): KubeConfigError | undefined => {
  if (present(exec.command) === undefined) {
    return failure(selected, ".command", "no command is given", "Name the program that gives the credentials.")
  }
  if (!versions.includes(exec.apiVersion ?? "")) {
    return failure(
      selected,
      ".apiVersion",
      exec.apiVersion === undefined || exec.apiVersion === null
        ? "no version is given"
        : `"${exec.apiVersion}" is not a version that clients still speak`,
      `Use ${versions.join(" or ")}; newer releases of the plugin write it.`
    )
  }
  if (exec.interactiveMode === "Always") {
    return failure(
      selected,
      ".interactiveMode",
      "the plugin wants a terminal, and there is none here",
      "Use a plugin or a user that works without questions."
    )
  }
  return undefined
}

/** The `KUBERNETES_EXEC_INFO` that the plugin is told. */
export const execInfo = (selected: Selected, exec: ExecEntry, caData: string | undefined): string =>
  JSON.stringify({
    apiVersion: exec.apiVersion,
    kind: "ExecCredential",
    spec: {
      interactive: false,
      ...(exec.provideClusterInfo === true
        ? {
            cluster: {
              server: selected.cluster.server,
              "tls-server-name": present(selected.cluster["tls-server-name"]),
              "insecure-skip-tls-verify": selected.cluster["insecure-skip-tls-verify"] === true ? true : undefined,
              "certificate-authority-data": caData,
              "proxy-url": present(selected.cluster["proxy-url"]),
              config: selected.cluster.extensions?.find(({ name }) => name === "client.authentication.k8s.io/exec")
                ?.extension
            }
          }
        : {})
    }
  })

const collect = <E>(stream: Stream.Stream<Uint8Array, E>): Effect.Effect<string, E> =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    return Effect.map(
      Stream.runForEachWhile(stream, (chunk) =>
        Effect.sync(() => {
          size += chunk.length
          if (size <= maximumOutput) chunks.push(chunk)
          return size <= maximumOutput
        })
      ),
      () => Buffer.concat(chunks).toString("utf8")
    )
  })

/**
 * Runs the plugin once: it gets no terminal, `timeout` to answer, and is killed with its children when that is over or
 * the caller is interrupted.
 */
export const run = (
  selected: Selected,
  exec: ExecEntry,
  caData: string | undefined,
  timeout: Duration.DurationInput
): Effect.Effect<ExecCredential, KubeConfigError, CommandExecutor.CommandExecutor> => {
  const command = present(exec.command) ?? ""
  const hint = present(exec.installHint)
  const byHand = `Run it by hand: \`${command}\`.`
  const environment: Record<string, string> = { KUBERNETES_EXEC_INFO: execInfo(selected, exec, caData) }
  for (const { name, value } of exec.env ?? []) environment[name] = value ?? ""
  const program = Effect.gen(function* () {
    const started = yield* Clock.currentTimeMillis
    const process = yield* Command.make(command, ...(exec.args ?? [])).pipe(
      Command.env(environment),
      Command.stdin(Stream.empty),
      Command.start,
      Effect.mapError((error) =>
        failure(
          selected,
          ".command",
          `the plugin "${command}" cannot be started${
            error._tag === "SystemError" && error.reason === "NotFound" ? " (not found)" : ""
          }`,
          hint === undefined ? "Is it installed, executable and on PATH?" : Redaction.shown(hint)
        )
      )
    )
    // The executor's own finalizer waits for a process that may ignore SIGTERM
    yield* Effect.addFinalizer(() =>
      Effect.flatMap(
        Effect.orElseSucceed(process.isRunning, () => false),
        (running) =>
          running
            ? Effect.interruptible(process.kill("SIGTERM")).pipe(
                Effect.timeout(killGrace),
                Effect.catchAll(() => Effect.ignore(process.kill("SIGKILL")))
              )
            : Effect.void
      )
    )
    const unreadable = (): KubeConfigError =>
      failure(selected, "", `the plugin "${command}" cannot be read or was killed`, byHand)
    const [stdout, stderr, code] = yield* Effect.all(
      [collect(process.stdout), collect(process.stderr), process.exitCode],
      { concurrency: "unbounded" }
    ).pipe(Effect.mapError(unreadable))
    if (code !== 0) {
      const words = Redaction.shown(stderr)
      return yield* failure(
        selected,
        "",
        `the plugin "${command}" failed with exit code ${code}${words === "" ? "" : `: ${words.replace(/\.$/, "")}`}`,
        byHand
      )
    }
    const answer = Option.getOrUndefined(decodeAnswer(stdout))
    const status = answer?.status
    if (answer?.kind !== "ExecCredential" || status === undefined || status === null) {
      return yield* failure(selected, "", `the plugin "${command}" printed no ExecCredential with a status`, byHand)
    }
    if (answer.apiVersion !== exec.apiVersion) {
      return yield* failure(
        selected,
        ".apiVersion",
        `the plugin "${command}" answers in version "${Redaction.shown(answer.apiVersion ?? "", 80)}", asked was "${exec.apiVersion ?? ""}"`,
        "Write the version that the plugin speaks, or update the plugin."
      )
    }
    const token = present(status.token)
    const certificate = present(status.clientCertificateData)
    const key = present(status.clientKeyData)
    if (token === undefined && certificate === undefined) {
      return yield* failure(selected, "", `the plugin "${command}" gave neither a token nor a certificate`, byHand)
    }
    if ((certificate === undefined) !== (key === undefined)) {
      return yield* failure(selected, "", `the plugin "${command}" gave half of a certificate and key pair`, byHand)
    }
    const expiration = present(status.expirationTimestamp)
    const expiresAt = expiration === undefined ? undefined : Date.parse(expiration)
    if (expiresAt !== undefined && Number.isNaN(expiresAt)) {
      return yield* failure(selected, "", `the plugin "${command}" gave an expirationTimestamp that is no time`, byHand)
    }
    return {
      token,
      certificate,
      key,
      // A margin longer than half its life would renew a short-lived credential on every request
      renewAt:
        expiresAt === undefined ? undefined : expiresAt - Math.min(expiryMargin, Math.max(0, expiresAt - started) / 2)
    }
  })
  return Effect.scoped(program).pipe(
    Effect.timeoutFail({
      duration: timeout,
      onTimeout: () =>
        failure(
          selected,
          "",
          `the plugin "${command}" gave no answer in ${Duration.format(timeout)}`,
          `${byHand} It may wait for a person.`
        )
    })
  )
}
