/**
 * Tries to make the cessation answer lie on real nodes: random schedules of dead kubelets, machines that lose their power,
 * deleted and re-registered Nodes, operators' taints and pods deleted by force. The oracle is the machine itself: a program lists
 * the container processes that are alive. A yes while a process lives is a lie, unless an operator's taint or a deleted
 * Node object claims that its machine is off; and then a caution has to name the Node where the cluster still shows a sign of life.
 *
 *     npm run e2e:nodes -- --kubeconfig FILE --control PROGRAM --nodes a,b,c [--schedules N] [--seed S]
 *
 * `PROGRAM VERB NODE` with the verbs `kubelet-stop`, `kubelet-start`, `power-off`, and `processes`, which prints
 * `namespace/pod container pid` a line. Nodes that lost their power stay off. Needs an administrator, and the image on the nodes.
 *
 * @module
 */
import { execFile } from "node:child_process"
import { parseArgs, promisify } from "node:util"
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as CessationVerdict from "@dispatch-kubeflow/core/decide/CessationVerdict"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import type * as TrainJobRef from "@dispatch-kubeflow/core/TrainJobRef"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Clock, Context, Data, Effect, Layer, Random, Ref } from "effect"
import * as Programme from "./Programme.js"

/** The answer lied, or the cluster does not do what a schedule needs. */
class Broken extends Data.TaggedError("Broken")<{ readonly message: string }> {}

interface Process {
  readonly pod: string
  readonly pid: string
  readonly node: string
}

const say = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(`${text}\n`)
  })

const taintKey = Core.outOfServiceTaint

/** What the machines are made to do, and what runs on them. */
const makeControl = (program: string) => {
  // Not by Effect's Command: it ends what a command has left in its process group, and a kubelet is meant to stay
  const run = (verb: string, node: string): Effect.Effect<string, Broken> =>
    Effect.tryPromise({
      try: async () => (await promisify(execFile)(program, [verb, node])).stdout,
      catch: (cause) =>
        new Broken({ message: `${program} ${verb} ${node}: ${cause instanceof Error ? cause.message : String(cause)}` })
    })
  return {
    kubeletStop: (node: string) => run("kubelet-stop", node),
    kubeletStart: (node: string) => run("kubelet-start", node),
    powerOff: (node: string) => run("power-off", node),
    processes: (node: string) =>
      Effect.map(run("processes", node), (text) =>
        text
          .split("\n")
          .filter((line) => line !== "")
          .map((line): Process => {
            const [pod = "", , pid = ""] = line.split(" ")
            return { pod, pid, node }
          })
      )
  }
}
type Control = ReturnType<typeof makeControl>

/** What is known of the machines. */
interface Machines {
  readonly off: ReadonlySet<string>
  readonly silent: ReadonlySet<string>
}

const without = (set: ReadonlySet<string>, item: string): ReadonlySet<string> =>
  new Set([...set].filter((it) => it !== item))
const including = (set: ReadonlySet<string>, item: string): ReadonlySet<string> => new Set([...set, item])

/** Compares an answer with the processes that were alive before and after it. */
const liesOf = (
  verdict: CessationVerdict.Verdict,
  alive: ReadonlyArray<Process>,
  namespace: string,
  leaseNames: ReadonlySet<string>
): ReadonlyArray<string> => {
  const lies: Array<string> = []
  for (const { node, pod } of alive) {
    const read = verdict.nodes.find(({ name }) => name === node)
    const claimed = read?.state === "deleted" || read?.state === "out-of-service"
    const what = `${pod} is alive on ${node} (${read?.state ?? "a Node that the answer does not know"})`
    if (verdict.ceased && !claimed) lies.push(`ceased, but ${what}`)
    const proof = verdict.pods.find(({ name }) => `${namespace}/${name}` === pod)
    if (proof !== undefined && proof.proof._tag !== "none") lies.push(`${proof.proof._tag}, but ${what}`)
    if (verdict.ended && !claimed) lies.push(`ended, but ${what}`)
    if (!verdict.ceased) continue
    const signOfLife = read?.state === "out-of-service" ? read.ready?.status === "True" : leaseNames.has(node)
    if (signOfLife && !verdict.cautions.some((caution) => caution.includes(node)))
      lies.push(`no caution names ${node}, but ${what}`)
  }
  return lies
}

const schedule = Effect.fn("e2e.schedule")(function* (
  place: Programme.Place,
  control: Control,
  nodes: ReadonlyArray<string>,
  machines: Ref.Ref<Machines>,
  number: number,
  seed: number
) {
  const { api, namespace } = place
  const begun = yield* Clock.currentTimeMillis
  const random = Random.make(seed)
  const between = (low: number, high: number) => random.nextIntBetween(low, high)
  const pick = <A>(items: ReadonlyArray<A>) => Effect.map(between(0, items.length), (index) => items[index] as A)
  const { adapter } = yield* Programme.backend(api, AdapterConfig.make({ namespace }))
  const stubborn = (yield* between(0, 2)) === 0
  const ref: TrainJobRef.TrainJobRef = yield* Programme.submit(place, `run-${number}`, 1, {
    nodes: 2,
    cpu: "10m",
    count: 1,
    command: ["sh", "-c", `${stubborn ? "trap '' TERM; " : ""}i=0; while :; do i=$((i+1)); echo $i; sleep 1; done`]
  })
  const started = yield* Programme.running(place, ref.name, 2)
  if (started.length !== 2) return yield* new Broken({ message: `${ref.name} does not run on ${nodes.join(", ")}` })

  const elsewhere = started.filter(({ spec }) => !nodes.includes(spec?.nodeName ?? ""))
  if (elsewhere.length > 0) {
    return yield* new Broken({
      message: `a pod runs on ${elsewhere[0]?.spec?.nodeName}: name it in --nodes, or narrow --selector`
    })
  }
  const alive = Effect.gen(function* () {
    const { off } = yield* Ref.get(machines)
    const all = yield* Effect.forEach(
      nodes.filter((node) => !off.has(node)),
      control.processes,
      { concurrency: "unbounded" }
    )
    return all.flat().filter(({ pod }) => pod.startsWith(`${namespace}/${ref.name}-`))
  })
  const tally = { answers: 0, ceased: 0, ended: 0, claimed: 0 }
  const steps: Array<string> = [stubborn ? "ignores SIGTERM" : "heeds SIGTERM"]
  let seen: ReadonlySet<string> = new Set((yield* alive).map(({ pid, pod }) => `${pod} ${pid}`))
  const look = Effect.gen(function* () {
    const { items } = yield* api.list(Core.nodes, {})
    const verdict = yield* adapter.ceased(ref)
    const after = yield* alive
    const { off, silent } = yield* Ref.get(machines)
    // A process that is alive now and was there at an earlier look has lived through the answer
    const throughout = after.filter(({ pid, pod }) => seen.has(`${pod} ${pid}`))
    seen = new Set(after.map(({ pid, pod }) => `${pod} ${pid}`))
    // A kubelet that runs renews its Lease, whether or not there is a Node object
    const renewing = new Set(
      nodes.filter(
        (node) => !off.has(node) && !silent.has(node) && items.some(({ metadata }) => metadata.name === node)
      )
    )
    const lies = liesOf(verdict, throughout, namespace, renewing)
    if (lies.length > 0) {
      return yield* new Broken({
        message: `schedule ${number} (seed ${seed}) made it lie after: ${steps.join("; ")}\n  ${lies.join("\n  ")}\n  ${JSON.stringify(verdict)}`
      })
    }
    tally.answers += 1
    if (verdict.ceased) tally.ceased += 1
    if (verdict.ended) tally.ended += 1
    if ((verdict.ceased || verdict.ended) && throughout.length > 0) tally.claimed += 1
  })

  const actions = {
    "kubelet-stop": (node: string) =>
      Effect.zipRight(
        control.kubeletStop(node),
        Ref.update(machines, (it) => ({ ...it, silent: including(it.silent, node) }))
      ),
    "kubelet-start": (node: string) =>
      Effect.flatMap(Ref.get(machines), ({ silent }) =>
        silent.has(node)
          ? Effect.zipRight(
              control.kubeletStart(node),
              Ref.update(machines, (it) => ({ ...it, silent: without(it.silent, node) }))
            )
          : Effect.void
      ),
    "power-off": (node: string) =>
      Effect.zipRight(
        control.powerOff(node),
        Ref.update(machines, (it) => ({ silent: including(it.silent, node), off: including(it.off, node) }))
      ),
    taint: (node: string) =>
      Effect.ignore(
        api.patch(
          Core.nodes,
          { name: node },
          {
            type: "strategic",
            body: { spec: { taints: [{ key: taintKey, value: "nodeshutdown", effect: "NoExecute" }] } }
          }
        )
      ),
    "delete-node": (node: string) =>
      Effect.ignore(api.remove(Core.nodes, { name: node }, { propagation: "Background" })),
    "re-register": (node: string) =>
      Effect.flatMap(Ref.get(machines), ({ off }) =>
        off.has(node)
          ? Effect.void
          : Effect.gen(function* () {
              yield* control.kubeletStop(node)
              yield* Effect.ignore(api.remove(Core.nodes, { name: node }, { propagation: "Background" }))
              yield* control.kubeletStart(node)
              yield* Ref.update(machines, (it) => ({ ...it, silent: without(it.silent, node) }))
            })
      ),
    "force-delete-pod": (node: string) =>
      Effect.flatMap(Programme.pods(place, ref.name), (pods) =>
        Effect.forEach(
          pods.filter(({ spec }) => spec?.nodeName === node),
          ({ metadata: { name } }) =>
            Effect.ignore(
              api.remove(Core.pods, { namespace, name }, { propagation: "Background", gracePeriodSeconds: 0 })
            ),
          { discard: true }
        )
      ),
    "delete-trainjob": () => Effect.ignore(api.remove(Trainer.trainJobs, ref, { propagation: "Background" }))
  } as const
  const names = Object.keys(actions) as ReadonlyArray<keyof typeof actions>

  yield* look
  const count = yield* between(4, 9)
  for (let step = 0; step < count; step++) {
    const { off } = yield* Ref.get(machines)
    const used = started.map(({ spec }) => spec?.nodeName ?? "")
    const node = yield* pick(used)
    const name = yield* pick(names)
    // Two machines have to be left for the next schedule, and power comes back to none
    if (name === "power-off" && (nodes.length - off.size <= 2 || (yield* between(0, 3)) > 0)) continue
    if (off.has(node) && name.startsWith("kubelet")) continue
    steps.push(name === "delete-trainjob" ? name : `${name} ${node}`)
    yield* actions[name](node)
    yield* look
    const rest = (yield* between(0, 40)) === 0 ? 60 : yield* between(0, 5)
    if (rest > 0) {
      steps.push(`wait ${rest} s`)
      yield* Effect.sleep(rest * 1000)
      yield* look
    }
  }

  yield* Effect.ignore(actions["delete-trainjob"]())
  const played = yield* Clock.currentTimeMillis
  yield* restore(place, control, nodes, machines)
  const restored = yield* Clock.currentTimeMillis
  yield* say(
    `schedule ${number} (seed ${seed}, ${Math.round((played - begun) / 1000)} s, and ${Math.round((restored - played) / 1000)} s to restore): ${tally.answers} answers, ceased ${tally.ceased}, ended ${tally.ended}, of those ${tally.claimed} on an operator's or a deleted Node's word: ${steps.join("; ")}`
  )
  return tally
})

/** Brings every machine that has power back: kubelet, Node object, no taint, no pod. */
const restore = (
  { api, namespace }: Programme.Place,
  control: Control,
  nodes: ReadonlyArray<string>,
  machines: Ref.Ref<Machines>
) =>
  Effect.gen(function* () {
    const { off, silent } = yield* Ref.get(machines)
    const live = nodes.filter((node) => !off.has(node))
    const { items } = yield* api.list(Core.nodes, {})
    for (const node of live) {
      const found = items.find(({ metadata }) => metadata.name === node)
      if (found !== undefined && (found.spec?.taints ?? []).some(({ key }) => key === taintKey)) {
        yield* api.patch(Core.nodes, { name: node }, { type: "merge", body: { spec: { taints: null } } })
      }
      // A kubelet registers only when it starts
      if (found === undefined && !silent.has(node)) yield* control.kubeletStop(node)
      if (found === undefined || silent.has(node)) yield* control.kubeletStart(node)
    }
    // Nothing is to be placed on a machine without power before its Node is found lost
    yield* Effect.forEach(
      off,
      (name) => Effect.ignore(api.remove(Core.nodes, { name }, { propagation: "Background" })),
      { discard: true }
    )
    yield* Ref.set(machines, { off, silent: off })
    yield* Programme.eventually(
      Effect.map(api.list(Core.nodes, {}), (all) =>
        live.every((node) => {
          const found = all.items.find(({ metadata }) => metadata.name === node)
          return (
            Meta.condition(found?.status?.conditions, "Ready")?.status === "True" &&
            (found?.spec?.taints ?? []).length === 0
          )
        })
      ),
      (ready) => ready,
      "60 seconds"
    )
    yield* Programme.eventually(
      Effect.map(
        Effect.forEach(live, control.processes, { concurrency: 2 }),
        (all) => all.flat().filter(({ pod }) => pod.startsWith(`${namespace}/`)).length
      ),
      (left) => left === 0,
      "60 seconds"
    )
  })

const usage =
  "usage: npm run e2e:nodes -- --kubeconfig FILE --control PROGRAM --nodes a,b [--selector KEY=VALUE] [--image IMAGE] [--schedules N] [--seed S]"

const options = (() => {
  try {
    const { values } = parseArgs({
      options: {
        kubeconfig: { type: "string" },
        control: { type: "string" },
        nodes: { type: "string" },
        selector: { type: "string", default: "kubernetes.io/os=linux" },
        image: { type: "string", default: "docker.io/local/busybox:1" },
        schedules: { type: "string", default: "10" },
        seed: { type: "string", default: "1" }
      }
    })
    const { control, image, kubeconfig, nodes, schedules, seed, selector } = values
    return kubeconfig === undefined || control === undefined || nodes === undefined
      ? undefined
      : {
          kubeconfig,
          control,
          image,
          selector,
          nodes: nodes.split(","),
          schedules: Number(schedules),
          seed: Number(seed)
        }
  } catch {
    return undefined
  }
})()

const programme = (given: NonNullable<typeof options>) =>
  Effect.gen(function* () {
    const begun = yield* Clock.currentTimeMillis
    const live = yield* Layer.build(
      KubeApiLive.layer({ source: KubeConfig.Source.Files({ paths: [given.kubeconfig] }) })
    )
    const api = Context.get(live, KubeApi.KubeApi)
    const control = makeControl(given.control)
    const [key = "", value = ""] = given.selector.split("=")
    const place = yield* Programme.place(
      api,
      "nodes",
      () => ({
        nodeSelector: { [key]: value },
        tolerations: [],
        // One rank a machine
        topologySpreadConstraints: [
          {
            maxSkew: 1,
            topologyKey: "kubernetes.io/hostname",
            whenUnsatisfiable: "ScheduleAnyway",
            labelSelector: { matchExpressions: [{ key: "jobset.sigs.k8s.io/jobset-name", operator: "Exists" }] }
          }
        ]
      }),
      given.image
    )
    // Whatever an earlier run left: every kubelet starts anew
    yield* Effect.forEach(given.nodes, control.kubeletStop, { discard: true })
    const machines = yield* Ref.make<Machines>({ off: new Set(), silent: new Set(given.nodes) })
    yield* restore(place, control, given.nodes, machines)
    yield* Effect.addFinalizer(() => Effect.ignore(restore(place, control, given.nodes, machines)))
    const sum = { answers: 0, ceased: 0, ended: 0, claimed: 0 }
    for (let number = 1; number <= given.schedules; number++) {
      const tally = yield* Effect.scoped(
        schedule(place, control, given.nodes, machines, number, given.seed * 1000 + number)
      )
      sum.answers += tally.answers
      sum.ceased += tally.ceased
      sum.ended += tally.ended
      sum.claimed += tally.claimed
    }
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - begun) / 1000)
    yield* say(
      `${given.schedules} schedules, ${sum.answers} answers: ceased ${sum.ceased}, ended ${sum.ended}, of those ${sum.claimed} on an operator's or a deleted Node's word; 0 lies, in ${seconds} s`
    )
    return 0
  }).pipe(Effect.scoped)

NodeRuntime.runMain(
  (options === undefined
    ? Effect.as(
        Effect.sync(() => process.stderr.write(`${usage}\n`)),
        2
      )
    : Effect.catchAll(programme(options), (error) =>
        Effect.sync(() => {
          process.stderr.write(`error: ${error.message}\n`)
          return 1
        })
      )
  ).pipe(
    Effect.flatMap((code) => Effect.sync(() => (process.exitCode = code))),
    Effect.provide(NodeContext.layer)
  )
)
