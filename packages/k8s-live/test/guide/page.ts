/**
 * Documentation that is executed. What a page says to a test stands in comments that a reader does not see, each before the
 * block that it is about:
 *
 * - `<!-- FILE -->`, a path in the repository: the block is that file, letter by letter. Where the page goes on to use it, it
 *   is there under its last name.
 * - `<!-- run: COMMAND -->`: done at this place, too.
 * - `<!-- not run: REASON -->`
 *
 * The lines of a shell block are run one by one in one folder, with the variables that earlier ones have exported; `serve`
 * goes on until the end of the page. A line ends with exit code 0, or with that of its comment `# exit code N`. A block without
 * a language right after it is what they print; `…` stands for anything. Names, times and spaces may differ.
 */
import { execFile, spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../../../..", import.meta.url))

/** The text of a file of the repository. */
export const textOf = (path: string): string => readFileSync(join(root, path), "utf8")

/** A fenced block, or a command that readers do not see. */
export interface Block {
  readonly line: number
  readonly language: string
  readonly text: string
  /** The file that it shows. */
  readonly file: string | undefined
  readonly notRun: string | undefined
  /** What its commands print. */
  readonly prints: string | undefined
}

const fence = /^```(\w*)$/
const remark = /^<!-- (.*) -->$/

/** The blocks of a page, in order. */
export const blocks = (markdown: string): ReadonlyArray<Block> => {
  const found: Array<Block> = []
  const lines = markdown.split("\n")
  let about: string | undefined
  let previous: Block | undefined
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ""
    const said = remark.exec(line)?.[1]
    const language = fence.exec(line)?.[1]
    if (language !== undefined) {
      const end = lines.indexOf("```", at + 1)
      const text = `${lines.slice(at + 1, end).join("\n")}\n`
      const first = at + 1
      at = end
      if (language === "" && previous?.language === "sh") {
        found[found.length - 1] = { ...previous, prints: text }
        previous = undefined
        continue
      }
      const notRun = about?.startsWith("not run: ") === true ? about.slice("not run: ".length) : undefined
      const file = about === undefined || notRun !== undefined ? undefined : /^[\w./-]+\.\w+/.exec(about)?.[0]
      previous = { line: first, language, text, file, notRun, prints: undefined }
      found.push(previous)
      about = undefined
    } else if (said !== undefined) {
      about = said
      if (said.startsWith("run: ")) {
        const text = `${said.slice("run: ".length)}\n`
        found.push({ line: at + 1, language: "sh", text, file: undefined, notRun: undefined, prints: undefined })
        about = undefined
        previous = undefined
      }
    } else if (line.trim() !== "") {
      about = undefined
      previous = undefined
    }
  }
  return found
}

/** One line of a shell block. */
export interface Command {
  readonly text: string
  readonly exitCode: number
}

/** The commands of a shell block. */
export const commands = (text: string): ReadonlyArray<Command> =>
  text
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => ({ text: line, exitCode: Number(/# exit code (\d+)$/.exec(line)?.[1] ?? 0) }))

/** What has no say in whether two outputs are the same. */
export const normal = (text: string): string =>
  text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/\d{4}-\d\d-\d\d/g, "DATE")
    .replaceAll(/\b\d\d:\d\d:\d\d\b/g, "TIME")
    .replaceAll(/\b\d+(\.\d+)? ?(ms|s|m)\b/g, "DURATION")
    .replaceAll(/(-node-\d+-\d+)-[a-z0-9]{5}\b/g, "$1-NAME")
    .replaceAll(/dispatch-probe-[a-z0-9]+/g, "dispatch-probe-NAME")
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UID")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(/[ \t]+/g, " ")
    .replaceAll(/-{4,}/g, "----")
    .split("\n")
    .map((line) => line.trim())
    .join("\n")
    .trim()

/** Whether an output is the one that a page shows. */
export const shows = (page: string, output: string): boolean =>
  new RegExp(
    `^${normal(page)
      .replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
      .replaceAll("…", "[^]*?")}$`
  ).test(normal(output))

const packages = ["core", "k8s-live", "testkit"]
const programs = {
  "dispatch-kubeflow": "k8s-live/src/cli/main.ts",
  "dispatch-kubeflow-testkit": "testkit/src/serve/main.ts"
}
const dependencies = ["effect", "vitest", "@effect/platform", "@effect/platform-node", "@effect/vitest"]

/** An empty project with this workspace's packages installed, as a page's reader has one. */
export const project = (folder: string): void => {
  const modules = join(folder, "node_modules")
  for (const scope of [".bin", "@dispatch-kubeflow", "@effect"]) mkdirSync(join(modules, scope), { recursive: true })
  for (const name of packages) symlinkSync(join(root, "packages", name), join(modules, "@dispatch-kubeflow", name))
  for (const name of dependencies) symlinkSync(join(root, "packages/k8s-live/node_modules", name), join(modules, name))
  const bin = (name: string, command: ReadonlyArray<string>): void =>
    writeFileSync(
      join(modules, ".bin", name),
      `#!/bin/sh\nexec ${command.map((it) => JSON.stringify(join(root, it))).join(" ")} "$@"\n`,
      { mode: 0o755 }
    )
  // What npx does once a package is installed, without npm's second and a half
  writeFileSync(join(modules, ".bin/npx"), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 })
  for (const name of ["tsx", "vitest"]) bin(name, [`node_modules/.bin/${name}`])
  for (const [name, program] of Object.entries(programs)) bin(name, ["node_modules/.bin/tsx", `packages/${program}`])
  // What a reader has beside them: a checkout's manifests
  symlinkSync(join(root, "deploy"), join(folder, "deploy"))
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }))
  const conditions = ["@dispatch-kubeflow/source"]
  writeFileSync(
    join(folder, "vitest.config.ts"),
    `export default ${JSON.stringify({ resolve: { conditions }, ssr: { resolve: { conditions } } })}\n`
  )
}

/** How a page is run. */
export interface Options {
  /** Where: this repository, or a project with the packages installed; else an empty project that goes afterwards. */
  readonly folder?: string | undefined
  /** What is put in the place of a text of a command, so that nothing is left in a folder that others use. */
  readonly instead?: ReadonlyArray<readonly [text: string, by: string]>
}

const untilServed = (command: string, cwd: string, env: NodeJS.ProcessEnv): Promise<() => Promise<void>> =>
  new Promise((resolve, reject) => {
    // Its own process group: npx and npm start what serves as a child
    const server = spawn("bash", ["-c", `exec ${command}`], {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"]
    })
    const ended = new Promise<void>((done) => server.once("close", () => done()))
    const stop = (): Promise<void> => {
      if (server.pid !== undefined && server.exitCode === null) process.kill(-server.pid, "SIGTERM")
      return ended
    }
    let text = ""
    server.stdout.on("data", (data: Buffer) => {
      text += data.toString()
      if (text.includes("contexts:")) resolve(stop)
    })
    server.stderr.on("data", (data: Buffer) => (text += data.toString()))
    server.once("error", reject)
    server.once("close", () => reject(new Error(`${command}\n${text}`)))
  })

interface Ended {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

const finished = (script: string, cwd: string, env: NodeJS.ProcessEnv): Promise<Ended> =>
  new Promise((resolve) => {
    execFile("bash", ["-c", script], { cwd, env, maxBuffer: 64_000_000 }, (error, stdout, stderr) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr })
    )
  })

/** Runs a page. Answers what does not hold: the first command that fails, or every output that is another. */
export const run = async (path: string, options: Options = {}): Promise<ReadonlyArray<string>> => {
  const scratch = mkdtempSync(join(tmpdir(), "page-"))
  const folder = options.folder ?? join(scratch, "project")
  const variables = join(scratch, "variables")
  const stops: Array<() => Promise<void>> = []
  const problems: Array<string> = []
  if (options.folder === undefined) project(folder)
  const condition = options.folder === undefined ? { NODE_OPTIONS: "--conditions=@dispatch-kubeflow/source" } : {}
  // Vitest's own variables would change a Vitest that a page starts; a cluster of the reader's is none of its business
  const foreign = /^(VITEST.*|TEST.*|DEV|PROD|MODE|NODE_ENV|KUBECONFIG)$/
  let env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name))),
    ...condition,
    PATH: [join(folder, "node_modules/.bin"), join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter),
    NO_COLOR: "1"
  }
  try {
    for (const block of blocks(textOf(path))) {
      if (block.file !== undefined && options.folder !== root)
        writeFileSync(join(folder, basename(block.file)), block.text)
      if (block.language !== "sh" || block.notRun !== undefined) continue
      let printed = ""
      for (const { exitCode, text } of commands(block.text)) {
        const command = (options.instead ?? []).reduce((all, [what, by]) => all.replaceAll(what, by), text)
        if (/\bserve -|\bserve$/.test(command)) {
          stops.push(await untilServed(command, folder, env))
          continue
        }
        const script = `set -o pipefail\n${command}\ncode=$?\nenv -0 > "${variables}"\nexit $code`
        const ended = await finished(script, folder, env)
        if (ended.exitCode !== exitCode) {
          const said = `${ended.stdout}${ended.stderr}`
          return [
            ...problems,
            `${path}:${block.line}: ${command}: exit code ${ended.exitCode}, not ${exitCode}\n${said}`
          ]
        }
        printed += ended.stdout
        env = Object.fromEntries(
          readFileSync(variables, "utf8")
            .split("\0")
            .filter((it) => it.includes("="))
            .map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)])
        )
      }
      if (block.prints !== undefined && !shows(block.prints, printed)) {
        problems.push(`${path}:${block.line}: the page shows\n${block.prints}\nand it prints\n${printed}`)
      }
    }
    return problems
  } finally {
    for (const stop of stops) await stop()
    rmSync(scratch, { recursive: true, force: true })
  }
}
