/**
 * The command line of `dispatch-kubeflow-testkit`.
 *
 * @module
 */
import { parseArgs } from "node:util"
import { Either } from "effect"

/** What `serve` is asked for. */
export interface Serve {
  readonly host: string
  readonly port: number
  /** Where the kubeconfig goes; absent: a folder of its own, removed at the end. */
  readonly kubeconfig: string | undefined
  readonly nodes: number
  /** Whether Kueue runs. */
  readonly kueue: boolean
  readonly transport:
    | { readonly _tag: "Http" }
    | { readonly _tag: "SelfSigned" }
    | { readonly _tag: "Tls"; readonly cert: string; readonly key: string }
  readonly control: boolean
  /** How long after its last heartbeat a node is found lost, milliseconds. */
  readonly monitorGrace: number
  /** How old a connection may grow before it breaks, milliseconds; absent: for ever. */
  readonly connectionAge: number | undefined
  readonly story: string | undefined
}

/** What the command line says. */
export type Command =
  | { readonly _tag: "Serve"; readonly options: Serve }
  | { readonly _tag: "Help" }
  | { readonly _tag: "Version" }

/** The help text. */
export const help = `Serves an in-memory Kubernetes cluster with Kubeflow Trainer, JobSet, Kueue, and nodes that run pods.

Usage: dispatch-kubeflow-testkit serve [options]

  --port N           port to listen on (default 0: any free one)
  --host ADDRESS     address to listen on (default 127.0.0.1)
  --kubeconfig FILE  write the kubeconfig there, mode 0600 (default: a temporary file); a file of another cluster is
                     never overwritten
  --nodes N          nodes at the start (default 3)
  --kueue            Kueue's controllers and webhooks run (default: only its types are served)
  --tls-cert FILE    certificate and key in PEM (default: a certificate made for this run)
  --tls-key FILE
  --http             plain HTTP; kubectl sends no token over it, so that whoever sends none is the admin
  --control          the paths under /testkit/, with which the admin loses nodes, ends containers, cuts connections
  --monitor-grace D  how long after its last heartbeat a node is found lost, e.g. 4s (default 50s)
  --connection-age D every open watch and log breaks so often, as behind a load balancer with a limit (default: never)
  --story FILE       steps to play after the start, YAML: see the documentation of serve/Story
  --help, --version

Contexts of the kubeconfig: admin, dispatcher (what the adapter needs), viewer (reads), nobody (no permission).
Ends on SIGINT or SIGTERM. Exit codes: 0, 1 failure, 2 wrong usage.
`

const durationOf = (name: string, text: string): Either.Either<number, string> => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text)
  const value = Number(match?.[1]) * (match?.[2] === "ms" ? 1 : match?.[2] === "s" ? 1000 : 60_000)
  return value > 0
    ? Either.right(value)
    : Either.left(`--${name} must be a duration such as 500ms, 4s, 1m, not "${text}"`)
}

const whole = (name: string, text: string, least: number, most: number): Either.Either<number, string> => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  return value >= least && value <= most
    ? Either.right(value)
    : Either.left(`--${name} must be a whole number from ${least} to ${most}, not "${text}"`)
}

/** Reads the arguments after the program's name. Left: what is wrong with them, one sentence. */
export const parse = (argv: ReadonlyArray<string>): Either.Either<Command, string> =>
  Either.gen(function* () {
    const { positionals, values } = yield* Either.try({
      try: () =>
        parseArgs({
          args: [...argv],
          allowPositionals: true,
          options: {
            port: { type: "string", default: "0" },
            host: { type: "string", default: "127.0.0.1" },
            kubeconfig: { type: "string" },
            nodes: { type: "string", default: "3" },
            kueue: { type: "boolean", default: false },
            "tls-cert": { type: "string" },
            "tls-key": { type: "string" },
            http: { type: "boolean", default: false },
            control: { type: "boolean", default: false },
            "monitor-grace": { type: "string", default: "50s" },
            "connection-age": { type: "string" },
            story: { type: "string" },
            help: { type: "boolean", short: "h", default: false },
            version: { type: "boolean", default: false }
          }
        }),
      // Node's own sentence, without its advice for positionals that begin with a dash
      catch: (cause) =>
        cause instanceof Error ? (cause.message.split(". ")[0] ?? cause.message) : "unreadable arguments"
    })
    if (values.help) return { _tag: "Help" }
    if (values.version) return { _tag: "Version" }
    const [command, ...rest] = positionals
    if (command === undefined) return yield* Either.left("a command is missing: serve")
    if (command === "help") return { _tag: "Help" }
    if (command !== "serve") return yield* Either.left(`there is no command "${command}", only serve`)
    if (rest.length > 0) return yield* Either.left(`serve takes no argument "${rest.join(" ")}"`)
    const cert = values["tls-cert"]
    const key = values["tls-key"]
    if ((cert === undefined) !== (key === undefined)) {
      return yield* Either.left("--tls-cert and --tls-key belong together")
    }
    if (values.http && cert !== undefined) return yield* Either.left("--http and --tls-cert exclude each other")
    return {
      _tag: "Serve",
      options: {
        host: values.host,
        port: yield* whole("port", values.port, 0, 65_535),
        kubeconfig: values.kubeconfig,
        nodes: yield* whole("nodes", values.nodes, 0, 1000),
        kueue: values.kueue,
        transport: values.http
          ? { _tag: "Http" }
          : cert !== undefined && key !== undefined
            ? { _tag: "Tls", cert, key }
            : { _tag: "SelfSigned" },
        control: values.control,
        monitorGrace: yield* durationOf("monitor-grace", values["monitor-grace"]),
        connectionAge:
          values["connection-age"] === undefined
            ? undefined
            : yield* durationOf("connection-age", values["connection-age"]),
        story: values.story
      }
    }
  })
