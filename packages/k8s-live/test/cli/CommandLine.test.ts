import { existsSync } from "node:fs"
import { spawnSync } from "node:child_process"
import { dirname } from "node:path"
import * as CommandLine from "@dispatch-kubeflow/k8s-live/cli/CommandLine"
import * as Completion from "@dispatch-kubeflow/k8s-live/cli/Completion"
import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import { describe, expect, it } from "@effect/vitest"
import * as Terminal from "./terminal.js"

const right = (...args: ReadonlyArray<string>) => Terminal.invocationOf(args)
const left = (...args: ReadonlyArray<string>) => {
  const parsed = CommandLine.parse(args, "1.2.3")
  if (parsed._tag === "Ask") throw new Error(`${args.join(" ")} is an invocation`)
  return parsed
}

describe("the command line", () => {
  it("takes options before and after the argument", () => {
    const expected = { command: "output", follow: true, job: { namespace: undefined, name: "run-1" } }
    expect(right("output", "run-1", "--follow", "-n", "team")).toMatchObject(expected)
    expect(right("output", "-f", "--namespace", "team", "run-1")).toMatchObject(expected)
    expect(right("output", "run-1", "-n", "team").common.namespace).toBe("team")
  })

  it("takes the options of every command before the command, too, as kubectl does", () => {
    for (const args of [
      ["-n", "team", "--verbose", "ceased", "run-1"],
      ["--namespace=team", "--verbose", "ceased", "run-1"],
      ["--verbose", "-n", "team", "ceased", "run-1", "--uid", "u"]
    ]) {
      expect(right(...args)).toMatchObject({ command: "ceased", job: { name: "run-1" }, common: { verbose: true } })
      expect(right(...args).common.namespace).toBe("team")
    }
    expect(right("--kubeconfig", "f", "runtime", "check", "--all")).toMatchObject({
      command: "runtime check",
      common: { kubeconfig: "f" }
    })
    expect(left("--follow", "output", "run-1")).toMatchObject({
      code: ExitCode.usage,
      text: expect.stringContaining("unknown option '--follow'")
    })
    expect(left("--verbose").code).toBe(ExitCode.usage)
    expect(left("-n").code).toBe(ExitCode.usage)
    expect(left("-n", "team").code).toBe(ExitCode.usage)
    expect(left("--verbose", "--help")).toMatchObject({ code: ExitCode.ok })
  })

  it("names a TrainJob as NAME or NAMESPACE/NAME, with a uid where wanted", () => {
    expect(right("ceased", "team/run-1", "--uid", "u")).toMatchObject({
      job: { namespace: "team", name: "run-1", uid: "u" }
    })
    expect(left("ceased", "a/b/c")).toMatchObject({ code: ExitCode.usage })
    expect(left("ceased", "Run_1").text).toContain("NAME or NAMESPACE/NAME")
    expect(left("ceased")).toMatchObject({ code: ExitCode.usage })
    expect(left("ceased", "a".repeat(64))).toMatchObject({
      code: ExitCode.usage,
      text: expect.stringContaining("at most 63 characters")
    })
  })

  it("reads durations and times", () => {
    expect(right("output", "a", "--since", "15m")).toMatchObject({ since: { ago: 900_000 } })
    expect(right("output", "a", "--since", "2026-01-02T03:04:05.5Z")).toMatchObject({
      since: { time: "2026-01-02T03:04:05.5Z" }
    })
    expect(left("output", "a", "--since", "yesterday").text).toContain("90s, 15m, 4h")
    expect(left("output", "a", "--since", "1000000d").text).toContain("at most 36500d")
    expect(left("output", "a", "--tail", "-1").code).toBe(ExitCode.usage)
  })

  it("Kueue mode is all of its options or none", () => {
    const kueue = ["--queue", "q", "--admission-check", "c", "--check-controller", "x/y", "--check-lease", "ns/l"]
    expect(right("capabilities", ...kueue).common.kueue).toEqual({
      localQueue: "q",
      admissionCheck: "c",
      controllerName: "x/y",
      lease: { namespace: "ns", name: "l" }
    })
    expect(left("capabilities", "--queue", "q").text).toContain("needs all of")
  })

  it("says what is wrong with a name", () => {
    expect(left("ceased", "Bad_Name").text).toContain('The name may hold lower-case letters, digits, "-" and "." only.')
    expect(left("ceased", "").text).toContain("The name is empty.")
    expect(left("ceased", "team/").text).toContain("The name is empty.")
    expect(left("ceased", "/run-1").text).toContain("The namespace is empty.")
    expect(left("ceased", "Team/run-1").text).toContain("The namespace may hold")
    expect(left("ceased", "run-").text).toContain("The name has to begin and end with a letter or a digit.")
    expect(left("ceased", "a/b/c").text).toContain("It has more than one slash.")
    expect(left("watch", "--run", "Run").text).toContain("The name may hold")
    expect(left("ceased", "a", "-n", "no/such").text).toContain("The name may hold")
  })

  it("an empty value is refused: it must not mean what leaving the option out means", () => {
    const options = ["--kubeconfig", "--context", "--namespace", "--evidence", "--uid"]
    for (const option of options) {
      for (const args of [
        ["ceased", "a", option, ""],
        ["ceased", "a", `${option}=`]
      ]) {
        expect([args, left(...args)]).toEqual([
          args,
          expect.objectContaining({ code: ExitCode.usage, text: expect.stringContaining("is empty") })
        ])
      }
    }
    expect(left("rules", "--policy", "").text).toContain("is empty")
    expect(left("doctor", "--spec", "").text).toContain("is empty")
  })

  it("with --json a wrong command line is told as any failure; --json as a value is none", () => {
    const failure = (...args: ReadonlyArray<string>): unknown => JSON.parse(left(...args).text)
    const tag = "UsageError"
    expect(failure("--json", "cesed")).toEqual({
      error: { tag, message: expect.stringMatching(/^unknown command 'cesed'\n\(Did you mean ceased\?\)$/) }
    })
    expect(failure("--json", "ceased", "a/b/c")).toEqual({
      error: { tag, message: expect.stringContaining("more than one slash") }
    })
    expect(failure("output", "demo-1", "--rank", "x", "--json")).toEqual({
      error: { tag, message: expect.stringContaining("Give a whole number") }
    })
    expect(failure("watch", "--run", "a", "--until-over", "--json")).toEqual({
      error: { tag, message: "--until-over needs a TrainJob." }
    })
    expect(failure("--json")).toEqual({ error: { tag, message: "no command is given; --help names them" } })
    expect(left("ceased", "--json", "--help")).toMatchObject({
      code: ExitCode.ok,
      text: expect.stringMatching(/^Usage/)
    })
    expect(left("ceased", "A", "--", "--json").text).toMatch(/^error: /)
  })

  it("help COMMAND is COMMAND --help", () => {
    expect(left("help")).toEqual(left("--help"))
    expect(left("help", "ceased")).toEqual(left("ceased", "--help"))
    expect(left("help", "runtime", "check")).toEqual(left("runtime", "check", "--help"))
    expect(left("--verbose", "help", "ceased").text).toBe(left("ceased", "--help").text)
    expect(left("help", "cesed")).toMatchObject({
      code: ExitCode.usage,
      text: expect.stringContaining("unknown command 'cesed'")
    })
  })

  it("help and version succeed, everything unknown is a usage error that suggests", () => {
    expect(left("--help")).toMatchObject({ code: ExitCode.ok, text: expect.stringContaining("Exit codes:") })
    expect(left("output", "--help")).toMatchObject({ code: ExitCode.ok, text: expect.stringContaining("--follow") })
    expect(left("--version")).toMatchObject({ code: ExitCode.ok, text: "1.2.3\n" })
    expect(left("ouput")).toMatchObject({ code: ExitCode.usage, text: expect.stringContaining("output") })
    expect(left("output", "a", "--folow")).toMatchObject({
      code: ExitCode.usage,
      text: expect.stringContaining("--follow")
    })
    expect(left()).toMatchObject({ code: ExitCode.usage })
  })

  it("an answer is about a runtime or the TrainJob in a file, not both", () => {
    expect(right("capabilities", "--runtime", "TrainingRuntime/a")).toMatchObject({
      about: { runtime: { kind: "TrainingRuntime", name: "a" } },
      explain: undefined,
      preflight: false
    })
    expect(right("preflight", "--spec", "-")).toMatchObject({ about: { file: "-" }, holdProbe: "dry-run" })
    expect(left("capabilities", "--runtime", "a", "--spec", "b").text).toContain("not both")
    expect(left("capabilities", "--runtime", "Pod/a").text).toContain("TrainingRuntime/NAME")
  })

  it("capabilities are named in any case; an unknown one is told all fourteen", () => {
    expect(right("capabilities", "--explain", "outputread")).toMatchObject({ explain: "OutputRead" })
    expect(left("capabilities", "--explain", "Flying").text).toContain("ContainerImage, NativeRequeue")
  })

  it("the hold probe is dry or real", () => {
    expect(right("preflight", "--hold-probe", "real")).toMatchObject({ holdProbe: "real" })
    expect(left("preflight", "--hold-probe", "maybe")).toMatchObject({ code: ExitCode.usage })
  })

  it("runtime needs a command; check takes a runtime or --all", () => {
    expect(right("runtime", "check", "a")).toMatchObject({
      command: "runtime check",
      runtime: { kind: "ClusterTrainingRuntime", name: "a" }
    })
    expect(right("runtime", "check", "--all", "--json")).toMatchObject({ runtime: undefined, common: { json: true } })
    expect(left("runtime", "check").text).toContain("Give a runtime or --all.")
    expect(left("runtime", "check", "a", "--all").text).toContain("Give a runtime or --all.")
    expect(left("runtime")).toMatchObject({ code: ExitCode.usage, text: expect.stringContaining("conform") })
    expect(left("runtime", "chek")).toMatchObject({
      code: ExitCode.usage,
      text: expect.stringMatching(/unknown command 'runtime chek'.*check.*conform/)
    })
    expect(right("runtime", "conform", "a", "--name", "b")).toMatchObject({ command: "runtime conform", name: "b" })
    expect(left("runtime", "conform", "a", "--name", "B_")).toMatchObject({ code: ExitCode.usage })
  })

  it("watch takes a TrainJob or a run, not both", () => {
    expect(right("watch")).toMatchObject({ job: undefined, run: undefined })
    expect(right("watch", "--run", "a", "--once")).toMatchObject({ run: "a", once: true })
    expect(left("watch", "a", "--run", "b").code).toBe(ExitCode.usage)
    expect(left("watch", "--until-over").code).toBe(ExitCode.usage)
  })

  it("every command teaches: examples that are accepted, and when it says no", () => {
    const program = CommandLine.define(
      "0",
      () => undefined,
      () => undefined
    )
    const names = ["", ...CommandLine.leaves(program).map(CommandLine.nameOf)]
    expect(Object.keys(CommandLine.examples)).toEqual(expect.arrayContaining(names))
    for (const name of names) {
      const help = left(...name.split(" ").filter((word) => word !== ""), "--help").text
      for (const [line, what] of CommandLine.examples[name] ?? []) {
        expect(help).toContain(`  # ${what}\n  dispatch-kubeflow ${line}\n`)
        const words = line.split(/ [|>&]/)[0]?.split(" ") ?? []
        const parsed = CommandLine.parse(words, "0")
        expect([line, parsed._tag]).toEqual([line, words[0] === "completion" ? "Show" : "Ask"])
      }
      const when = CommandLine.refusals[name]
      if (when === undefined) continue
      // What 3 denies 0 affirms
      const said = help.replaceAll("\n", " ")
      expect(said).toContain(`3: ${when}`)
      expect(said).toContain(`Exit code 0: ${CommandLine.consents[name] ?? "?"};`)
    }
  })

  it("a help is as wide as the terminal", () => {
    for (const columns of [80, 100, 140]) {
      for (const name of [["--help"], ["output", "--help"], ["preflight", "--help"]]) {
        const parsed = CommandLine.parse(name, "0", columns)
        if (parsed._tag === "Ask") throw new Error("no help")
        const wide = parsed.text
          .split("\n")
          .filter((line) => line.length > columns && !line.includes("dispatch-kubeflow") && !line.startsWith("  #"))
        expect(wide).toEqual([])
      }
    }
  })
})

const has = (shell: string): boolean =>
  (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(`${folder}/${shell}`))
const run = (shell: string, ...args: ReadonlyArray<string>): string => {
  const { status, stderr, stdout } = spawnSync(shell, args, { encoding: "utf8", timeout: 60_000 })
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
  return stdout
}

describe("completions", () => {
  it("are printed for three shells, and no other", () => {
    for (const shell of Completion.shells) {
      expect(left("completion", shell)).toMatchObject({ code: 0, text: expect.stringContaining("preflight") })
    }
    expect(left("completion", "tcsh").code).toBe(ExitCode.usage)
  })

  const cases: ReadonlyArray<readonly [words: ReadonlyArray<string>, expected: ReadonlyArray<string>]> = [
    [["wa"], ["watch"]],
    [
      ["runtime", "c"],
      ["check", "conform"]
    ],
    [["runtime", "check", "--al"], ["--all"]],
    [
      ["preflight", "--hold-probe", ""],
      ["dry-run", "real"]
    ],
    [
      ["capabilities", "--explain", "Output"],
      ["OutputPath", "OutputRetained", "OutputRead", "OutputFollow"]
    ],
    [["output", "run-1", "--fol"], ["--follow"]],
    [["-n", "watch", "wa"], ["watch"]],
    [["--verbose", "--names"], ["--namespace"]],
    [
      ["--context", "x", "runtime", "-n", "y", "c"],
      ["check", "conform"]
    ],
    [["--json", "output", "run-1", "--all"], ["--all-ranks"]],
    [["completion", "z"], ["zsh"]]
  ]

  for (const shell of Completion.shells) {
    it.skipIf(!has(shell))(`${shell} reads its script`, ({ onTestFinished }) => {
      const path = Terminal.temporaryFile(left("completion", shell).text, onTestFinished)
      run(shell, "-n", path)
    })
  }

  it.skipIf(!has("bash"))("bash completes commands, options and words", ({ onTestFinished }) => {
    const path = Terminal.temporaryFile(left("completion", "bash").text, onTestFinished)
    const ask = String.raw`source "$1"; shift; COMP_WORDS=(dispatch-kubeflow "$@"); COMP_CWORD=$#
      _dispatch_kubeflow; printf '%s\n' "${"$"}{COMPREPLY[@]}"`
    for (const [words, expected] of cases) {
      expect(
        run("bash", "-c", ask, "bash", path, ...words)
          .trim()
          .split("\n")
      ).toEqual(expected)
    }
    expect(run("bash", "-c", ask, "bash", path, "preflight", "--hold-probe", "=", "r").trim()).toBe("real")
    expect(run("bash", "-c", ask, "bash", path, "--kubeconfig", "=", "f", "ce").trim()).toBe("ceased")
    // What it asks kubectl for is the kubeconfig that stands on the line
    const asked = `kubectl() { echo "of:$1"; }; ${ask}`
    for (const words of [
      ["--kubeconfig", "k.yaml", "watch", "--context", ""],
      ["watch", "--kubeconfig", "=", "k.yaml", "--context", "=", "of"],
      ["--kubeconfig", "k.yaml", "--context", ""]
    ]) {
      expect(run("bash", "-c", asked, "bash", path, ...words).trim()).toBe("of:--kubeconfig=k.yaml")
    }
    expect(run("bash", "-c", asked, "bash", path, "--context", "").trim()).toBe("of:config")
  })

  it.skipIf(!has("fish"))("fish completes commands, options and words", ({ onTestFinished }) => {
    const path = Terminal.temporaryFile(left("completion", "fish").text, onTestFinished)
    for (const [words, expected] of cases) {
      const line = ["dispatch-kubeflow", ...words].join(" ")
      const found = run("fish", "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, path, line)
      const texts = found
        .trim()
        .split("\n")
        .map((it) => it.split("\t")[0] ?? "")
      expect([words, texts.toSorted()]).toEqual([words, [...expected].toSorted()])
    }
  })

  it.skipIf(!has("zsh"))("zsh completes commands, options and words", ({ onTestFinished }) => {
    const path = Terminal.temporaryFile(left("completion", "zsh").text, onTestFinished)
    const settings = Terminal.temporaryFile(
      `PS1='ready> '
autoload -U compinit
compinit -u -D
source ${path}
show() { print -r -- "<<$compstate[nmatches]:$compstate[unambiguous]>>" }
comppostfuncs=(show)
zle -C complete-word complete-word _main_complete
bindkey "^I" complete-word
`,
      onTestFinished,
      ".zshrc"
    )
    // The real completion system, asked through a terminal of its own; what waits for it gives up after 30 s
    const ask = String.raw`
      zmodload zsh/zpty
      export ZDOTDIR="$1"
      zpty -b shell zsh -d -i
      seen=
      await() { for try in {1..300}; do
        while zpty -rt shell piece; do seen+=$piece; done
        [[ $seen == *$~1* ]] && return
        sleep 0.1
      done }
      await 'ready>'
      zpty -n -w shell "dispatch-kubeflow $2"$'\t'
      await '<<*>>'
      print -r -- "$seen"`
    for (const [line, expected] of [
      ["wa", "<<1:watch>>"],
      ["-n watch wa", "<<1:watch>>"],
      ["--verbose --kubeconfig=f runtime check --al", "<<1:--all>>"],
      ["runtime check --al", "<<1:--all>>"],
      ["completion z", "<<1:zsh>>"]
    ]) {
      expect(run("zsh", "-f", "-c", ask, "zsh", dirname(settings), line ?? "")).toContain(expected)
    }
  })
})
