/**
 * The story of a TrainJob as text for a person. Pure.
 *
 * @module
 */
import type * as Explanation from "@dispatch-kubeflow/core/decide/Explanation"
import * as Render from "./Render.js"
import { type Cell, hang, table, type Tone, wrap } from "./Terminal.js"

/** Of so many things of a kind the names are told; of the rest the number. */
const namesShown = 3

const few = (names: ReadonlyArray<string>): string =>
  names.length <= namesShown + 1
    ? names.join(", ")
    : `${names.slice(0, namesShown).join(", ")} and ${names.length - namesShown} more`

const kindless = (object: string): string => object.slice(object.indexOf("/") + 1)

const objectsOf = ({ objects }: Explanation.Moment): string => {
  const [first = ""] = objects
  const kind = first.slice(0, first.indexOf("/"))
  return objects.length === 1 ? first : `${objects.length} ${kind}s: ${few(objects.map(kindless))}`
}

/** A time without what stays the same all day. */
const clock = (time: string): string => time.slice(11, 19)
const day = (time: string): string => time.slice(0, 10)

const basisText: Readonly<Record<Explanation.Basis, string>> = { object: "", seen: "seen", inferred: "inferred" }

const indent = "  "

/** Lines of a text, each indented, the later ones more. */
const indented = (text: string, { width }: Render.Look, by = indent): ReadonlyArray<string> =>
  hang(`${by}  `, text, width).map((line, index) => (index === 0 ? by + line.slice(by.length + 2) : line))

/** A title with what is dim beside it, or below it where there is no room. */
const beside = (look: Render.Look, title: string, more: string): ReadonlyArray<string> => {
  const rest = more === "" ? "" : `  ${more}`
  if (title.length + rest.length <= look.width) {
    return [look.paint("strong", title) + (rest === "" ? "" : look.paint("dim", rest))]
  }
  return [
    ...wrap(title, look.width).map((line) => look.paint("strong", line)),
    ...(more === "" ? [] : indented(more, look)).map((line) => look.paint("dim", line))
  ]
}

const head = (it: Explanation.Explanation, look: Render.Look): ReadonlyArray<string> => {
  const { now } = it
  const outcome = now.outcome !== undefined && now.outcome !== now.state ? ` (it had ${now.outcome.toLowerCase()})` : ""
  return [
    ...beside(
      look,
      `TrainJob ${now.ref.namespace}/${now.ref.name}`,
      now.ref.uid === undefined ? "" : `uid ${now.ref.uid}`
    ),
    ...wrap(`${now.state}${outcome}${now.cause === undefined ? "" : `: ${Render.cause(now.cause)}`}`, look.width).map(
      (line) => look.paint(Render.stateTone[now.state], line)
    ),
    ...(now.alive ? wrap("A pod of it exists that has not ended.", look.width) : []),
    ...now.evidence.flatMap((fact) => indented(`- ${Render.fact(fact)}`, look)),
    ...now.notes.flatMap((note) => indented(`note: ${note}`, look)).map((line) => look.paint("dim", line))
  ]
}

const podEnd = (pod: Explanation.Pod): readonly [string, Tone | undefined] => {
  const told = pod.cause !== undefined && "container" in pod.cause ? pod.cause.container : undefined
  const ends = pod.ends
    .filter(({ container }) => container !== told)
    .map(
      ({ container, exitCode, reason, restart }) =>
        `${container}${restart > 0 ? ` (restart ${restart})` : ""} exit code ${exitCode}${
          reason === undefined || reason === "Completed" || reason === "Error" ? "" : ` ${reason}`
        }`
    )
  if (pod.cause !== undefined) return [[Render.cause(pod.cause), ...ends].join("; "), "bad"]
  if (pod.unseen !== undefined) return [[`not known: ${pod.unseen}`, ...ends].join("; "), "warn"]
  if (ends.length > 0) return [ends.join("; "), undefined]
  return [pod.presence === "present" ? pod.phase : `last seen ${pod.phase}`, undefined]
}

const presenceText: Readonly<Record<Explanation.Pod["presence"], string>> = {
  present: "exists",
  seen: "deleted (seen)",
  inferred: "gone (inferred)"
}

const rankText = ({ rank, replicatedJob }: Explanation.Pod): string =>
  rank === undefined ? replicatedJob : `${replicatedJob} ${rank}`

const execution = (it: Explanation.Start, look: Render.Look): ReadonlyArray<string> => {
  const title = `${
    it.number === undefined ? "Execution without a number (told apart by uids and times)" : `Execution ${it.number}`
  }${it.incarnations > 1 ? `, start ${it.incarnation} of ${it.incarnations}` : ""}`
  const span = `${it.startedAt === undefined ? "" : `from ${it.startedAt} `}${
    it.endedAt === undefined ? "on" : `to ${it.endedAt}`
  }`
  const ended = it.cause === undefined ? "" : `: ${Render.cause(it.cause)}`
  return [
    "",
    ...beside(look, title, span),
    ...indented(`${it.isSubject ? "what the answer is about" : "earlier or later"}${ended}`, look),
    ...(it.isSubject ? [] : it.evidence.flatMap((fact) => indented(`- ${Render.fact(fact)}`, look, "    "))),
    table(
      ["RANK", "POD", "NODE", "OBJECT", "END"],
      it.pods.map((pod): ReadonlyArray<Cell> => {
        const [text, tone] = podEnd(pod)
        return [
          { text: rankText(pod) },
          { text: pod.name },
          { text: pod.node ?? "none" },
          { text: presenceText[pod.presence] },
          { text, ...(tone === undefined ? {} : { tone }) }
        ]
      }),
      look.paint,
      look.width
    ),
    ...it.neverSeen.flatMap((rank) => indented(`never seen: ${rank}`, look)).map((line) => look.paint("warn", line))
  ]
}

const timeline = (moments: ReadonlyArray<Explanation.Moment>, look: Render.Look): ReadonlyArray<string> => {
  const days = [...new Set(moments.map(({ time }) => day(time)))]
  return days.flatMap((date) => [
    "",
    ...beside(look, `What happened on ${date}`, ""),
    table(
      ["TIME", "BASIS", "WHAT"],
      moments
        .filter(({ time }) => day(time) === date)
        .map((moment) => [
          { text: clock(moment.time) },
          { text: basisText[moment.basis], tone: moment.basis === "inferred" ? "warn" : "dim" },
          { text: `${objectsOf(moment)} ${moment.what}` }
        ]),
      look.paint,
      look.width
    )
  ])
}

const unknown = (it: Explanation.Explanation, look: Render.Look): ReadonlyArray<string> => {
  const lines = [
    ...it.unknown.map(({ what, why }) => `- ${what}: ${why}`),
    ...it.unasked.map((what) => `- not asked: ${what}`)
  ]
  return lines.length === 0
    ? ["", ...wrap("Nothing that belongs to it is missing from the evidence.", look.width)]
    : ["", look.paint("strong", "Not known"), ...lines.flatMap((line) => indented(line, look))]
}

/** State and cause first, then each execution with its pods, what happened when, and what is not known. */
export const explanation = (it: Explanation.Explanation, look: Render.Look): string =>
  [
    ...head(it, look),
    ...(it.executions.length === 0 ? ["", ...wrap("No pod of it was seen.", look.width)] : []),
    ...it.executions.flatMap((start) => execution(start, look)),
    ...timeline(it.timeline, look),
    ...unknown(it, look)
  ].join("\n")
