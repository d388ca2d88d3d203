/**
 * `doctor`: one report of everything, to paste where somebody is asked for help.
 *
 * @module
 */
import type * as ProbeReport from "@dispatch-kubeflow/core/decide/ProbeReport"
import { Effect, Either, Option, Redacted } from "effect"
import type * as KubeConfig from "../../KubeConfig.js"
import * as Diagnosis from "../Diagnosis.js"
import { ExitCode, exitCodeOf, type Failure } from "../ExitCode.js"
import type * as Invocation from "../Invocation.js"
import { configuration, connect, print, Terminal } from "../Session.js"
import * as SpecFile from "../SpecFile.js"
import { isClean } from "./Probe.js"

type Asked = Extract<Invocation.Invocation, { readonly command: "doctor" }>

const optionsOf = ({ common }: Asked): Readonly<Record<string, string>> => ({
  mode: common.kueue === undefined ? "plain" : `Kueue, LocalQueue ${common.kueue.localQueue}`,
  access: common.readOnly ? "read-only" : "read-write",
  "in-place restarts": common.acceptInPlaceRestarts ? "accepted" : "refused",
  evidence: common.evidence === undefined ? "in memory" : "in a folder"
})

const credentialsOf = (config: KubeConfig.Service): Effect.Effect<ReadonlyArray<string>, Failure> =>
  Effect.map(config.credentials, ({ headers, tls }) => {
    const names = Object.entries(Redacted.value(headers)).map(([name, value]) =>
      name === "authorization" ? `header ${name} (${String(value).split(" ")[0]})` : `header ${name}`
    )
    return [...names, ...(Redacted.value(tls).certificate === undefined ? [] : ["client certificate"])]
  })

/** Which file it is matters only where it cannot be used, and then the failure names it. */
const originOf = ({ contextName, origin }: KubeConfig.Service): string =>
  contextName === undefined ? origin : "a file"

/** What of the configuration tells where somebody's cluster is, and the way to it. */
const hiddenOf = ({ proxyUrl, server }: KubeConfig.Service): ReadonlyArray<string> =>
  [server, ...(proxyUrl === undefined ? [] : [Redacted.value(proxyUrl)])].flatMap((url) => {
    const { host, hostname } = new URL(url)
    return [url, host, hostname]
  })

const unknown: Diagnosis.Program = { version: "unknown", runtime: "unknown", platform: "unknown", home: "" }

/** Prints the report, however far it came; the first failure, else the preflight, decides the exit code. */
export const run = (invocation: Asked) =>
  Effect.gen(function* () {
    const { program: found, progress } = yield* Terminal
    const { home, ...program } = found ?? unknown
    const failures: Array<Diagnosis.Diagnosis["failures"][number]> = []
    let code: ExitCode = ExitCode.ok
    const attempt = <A, E extends Failure, R>(
      step: string,
      effect: Effect.Effect<A, E, R>
    ): Effect.Effect<A | undefined, never, R> =>
      Effect.map(Effect.either(effect), (result) => {
        if (Either.isRight(result)) return result.right
        const { _tag: tag, message } = result.left
        failures.push({ step, tag, message })
        if (code === ExitCode.ok) code = exitCodeOf(result.left)
        return undefined
      })

    const spec = yield* SpecFile.read(invocation.about)
    let lacksCredentials = false
    const connected = yield* attempt(
      "reaching the cluster",
      Effect.tapError(connect(invocation.common, { namespace: spec?.namespace }), (error) =>
        Effect.sync(() => {
          lacksCredentials = error._tag === "KubeUnavailable" && error.phase === "credentials"
        })
      )
    )
    const checks: Array<ProbeReport.Check> = []
    let report: ProbeReport.Report | undefined
    let connection: Diagnosis.Connection | undefined
    let capabilities: Diagnosis.Diagnosis["capabilities"]
    const config =
      connected?.config ??
      Option.getOrUndefined(yield* Effect.option(configuration(invocation.common, { namespace: spec?.namespace })))
    if (config !== undefined) {
      // A plugin that gave none is not asked again: it may take a minute
      const credentials = lacksCredentials ? undefined : yield* attempt("credentials", credentialsOf(config))
      connection = {
        from: originOf(config),
        ...(credentials === undefined ? {} : { credentials }),
        tlsVerified: !config.skipTlsVerify,
        proxy: config.proxyUrl !== undefined
      }
    }
    if (connected !== undefined) {
      const { adapter } = connected
      report = yield* attempt(
        "preflight",
        adapter
          .preflight({
            spec: spec?.spec,
            onCheck: (check) =>
              Effect.suspend(() => {
                checks.push(check)
                return progress(`doctor: ${checks.length} checks made, last ${check.id}: ${check.outcome}`)
              })
          })
          .pipe(Effect.ensuring(progress(undefined)))
      )
      capabilities = yield* attempt("capabilities", adapter.capabilities(spec?.spec))
      if (code === ExitCode.ok && report !== undefined && !isClean(report)) code = ExitCode.no
    }
    const diagnosis: Diagnosis.Diagnosis = {
      program,
      options: optionsOf(invocation),
      ...(connection === undefined ? {} : { connection }),
      ...(config === undefined ? {} : { namespace: config.namespace ?? "default" }),
      ...Diagnosis.byTopic(report?.checks ?? checks),
      ...(report === undefined ? {} : { mode: report.mode }),
      ...(capabilities === undefined ? {} : { capabilities }),
      failures
    }
    // Why a cluster cannot be reached names it
    const safe = Diagnosis.redact(diagnosis, config === undefined ? [] : hiddenOf(config), home)
    yield* print(invocation.common, safe, (look) => Diagnosis.render(safe, look))
    return code
  })
