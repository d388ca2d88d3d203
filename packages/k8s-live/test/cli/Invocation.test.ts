import { ExitCode } from "@dispatch-kubeflow/k8s-live/cli/ExitCode"
import * as Invocation from "@dispatch-kubeflow/k8s-live/cli/Invocation"
import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"

const parse = (...args: ReadonlyArray<string>) => Invocation.parse(args, "1.2.3")
const right = (...args: ReadonlyArray<string>) => Either.getOrThrowWith(parse(...args), (it) => new Error(it.text))
const left = (...args: ReadonlyArray<string>) => Either.getOrThrow(Either.flip(parse(...args)))

describe("the command line", () => {
  it("takes options before and after the argument", () => {
    const expected = { command: "output", follow: true, job: { namespace: undefined, name: "run-1" } }
    expect(right("output", "run-1", "--follow", "-n", "team")).toMatchObject(expected)
    expect(right("output", "-f", "--namespace", "team", "run-1")).toMatchObject(expected)
    expect(right("output", "run-1", "-n", "team").common.namespace).toBe("team")
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
    expect(left("runtime", "chek")).toMatchObject({ code: ExitCode.usage })
    expect(right("runtime", "conform", "a", "--name", "b")).toMatchObject({ command: "runtime conform", name: "b" })
    expect(left("runtime", "conform", "a", "--name", "B_")).toMatchObject({ code: ExitCode.usage })
  })

  it("watch takes a TrainJob or a run, not both", () => {
    expect(right("watch")).toMatchObject({ job: undefined, run: undefined })
    expect(right("watch", "--run", "a", "--once")).toMatchObject({ run: "a", once: true })
    expect(left("watch", "a", "--run", "b").code).toBe(ExitCode.usage)
    expect(left("watch", "--until-over").code).toBe(ExitCode.usage)
  })
})
