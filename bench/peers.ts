/** The processes that the benchmarks talk to, and the programs of others that they compare with. */
import { type ChildProcess, execFileSync, fork, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { type Report, progress } from "./report.js"

/** A process that answers. One that ends while an answer is awaited fails it. */
export interface Peer {
  /** The next answer. */
  readonly answer: <A>() => Promise<A>
  readonly ask: <A>(question: object) => Promise<A>
  readonly stop: () => void
}

const peer = (
  child: ChildProcess,
  listen: (given: (answer: unknown) => void) => void,
  send: (question: object) => void,
  stop: () => void
): Peer => {
  const answers: Array<unknown> = []
  let waiting: { readonly resolve: (answer: unknown) => void; readonly reject: (error: Error) => void } | undefined
  let ended: Error | undefined
  const end = (error: Error): void => {
    ended ??= error
    waiting?.reject(ended)
  }
  child.once("error", end)
  child.once("exit", (code, signal) =>
    end(new Error(`a peer ended with ${code ?? signal}: ${child.spawnargs.join(" ")}`))
  )
  listen((answer) => {
    if (waiting === undefined) answers.push(answer)
    else {
      waiting.resolve(answer)
      waiting = undefined
    }
  })
  const answer = <A>(): Promise<A> =>
    new Promise<unknown>((resolve, reject) => {
      if (answers.length > 0) resolve(answers.shift())
      else if (ended !== undefined) reject(ended)
      else waiting = { resolve, reject }
    }) as Promise<A>
  return {
    answer,
    ask: (question) => {
      const next = answer
      send(question)
      return next()
    },
    stop
  }
}

/** A file of the benchmarks in a process of its own, with further flags of Node. */
export const forked = (url: string, args: ReadonlyArray<string>, flags: ReadonlyArray<string> = []): Peer => {
  const child = fork(fileURLToPath(url), args, { execArgv: [...process.execArgv, ...flags] })
  return peer(
    child,
    (given) => void child.on("message", given),
    (question) => void child.send(question),
    () => child.disconnect()
  )
}

/** What a peer took for a round, in seconds; `cpu` is that of all its threads. */
export interface Measured {
  readonly seconds: number
  readonly cpu: number
  readonly updates: number
}

// ---- kubectl --------------------------------------------------------------------------------------------------------

type Found<A> = A | { readonly why: string }

/** The kubectl that `KUBECTL` names, or the one in `PATH`. */
export const kubectl = (report: Report): Found<{ readonly file: string }> => {
  const file = process.env["KUBECTL"] ?? "kubectl"
  try {
    const said = execFileSync(file, ["version", "--client", "-o", "json"], { encoding: "utf8", stdio: "pipe" })
    const { clientVersion } = JSON.parse(said) as { readonly clientVersion: { readonly gitVersion: string } }
    report.used("kubectl", clientVersion.gitVersion)
    return { file }
  } catch {
    return { why: `${file} cannot be run (KUBECTL names another)` }
  }
}

// ---- client-node ----------------------------------------------------------------------------------------------------

/** Tells the version of client-node. */
export const clientNode = (report: Report): void => {
  const file = new URL("node_modules/@kubernetes/client-node/package.json", import.meta.url)
  const { version } = JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }
  report.used("client-node", version)
}

// ---- Go -------------------------------------------------------------------------------------------------------------

type Built = Found<{ readonly binary: string; readonly versions: ReadonlyArray<readonly [string, string]> }>

const modules: Readonly<Record<string, string>> = {
  "k8s.io/client-go": "client-go",
  "sigs.k8s.io/controller-runtime": "controller-runtime"
}

/** Builds the Go peers into the folder; the first time takes minutes, and fetches the modules. */
export const build = (folder: string): Built => {
  const run = (...args: ReadonlyArray<string>): string =>
    execFileSync("go", args, { cwd: fileURLToPath(new URL("go", import.meta.url)), encoding: "utf8", stdio: "pipe" })
  try {
    run("version")
  } catch {
    return { why: "no `go` on the path" }
  }
  try {
    progress("building the Go peers")
    const binary = join(folder, "peers")
    run("build", "-o", binary, ".")
    const [first = "", ...lines] = run("version", "-m", binary).split("\n")
    return {
      binary,
      versions: [
        ["Go", first.split(" ").at(-1)?.replace(/^go/, "") ?? ""],
        ...lines.flatMap((line): ReadonlyArray<readonly [string, string]> => {
          const [kind, path = "", version = ""] = line.trim().split("\t")
          const name = modules[path]
          return kind === "dep" && name !== undefined ? [[name, version]] : []
        })
      ]
    }
  } catch (error) {
    const said = (error as { readonly stderr?: string }).stderr?.trim().split("\n").at(-1) ?? String(error)
    return { why: `the Go peers cannot be built: ${said}` }
  }
}

const removed = (folder: string): void => rmSync(folder, { recursive: true, force: true })

/** Runs with a folder that goes when the process ends. */
export const temporary = (name: string): string => {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  process.once("exit", () => removed(folder))
  return folder
}

/** A Go peer: one that was built by `bench/main.ts`, or that is built now. */
export const go = (report: Report): Found<{ readonly start: (...args: ReadonlyArray<string>) => Peer }> => {
  const given = process.env["BENCH_GO"]
  const built = given === undefined ? build(temporary("bench-go")) : (JSON.parse(given) as Built)
  if ("why" in built) return built
  for (const [name, version] of built.versions) report.used(name, version)
  return {
    start: (...args) => {
      const child = spawn(built.binary, args, {
        stdio: ["pipe", "pipe", "inherit"],
        // Its informer lists first, as the server expects and as that of client-node does
        env: { ...process.env, KUBE_FEATURE_WatchListClient: "false" }
      })
      child.stdin.on("error", () => undefined)
      return peer(
        child,
        (given) => void createInterface({ input: child.stdout }).on("line", (line) => given(JSON.parse(line))),
        (question) => void child.stdin.write(`${JSON.stringify(question)}\n`),
        () => void child.stdin.end()
      )
    }
  }
}
