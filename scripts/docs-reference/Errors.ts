// The errors: the classes with the comments on them and their fields, the exit code of each, and what they say of a sample.
import ts from "typescript"
import { ErrNotFound, ErrUnsupported, permissionId } from "../../packages/core/src/AdapterError.js"
import { EvidenceStoreError } from "../../packages/core/src/EvidenceStore.js"
import * as KubeError from "../../packages/core/src/kube/KubeError.js"
import * as KubeRequest from "../../packages/core/src/kube/KubeRequest.js"
import * as Core from "../../packages/core/src/model/Core.js"
import * as Trainer from "../../packages/core/src/model/Trainer.js"
import * as ExitCode from "../../packages/k8s-live/src/cli/ExitCode.js"
import { KubeConfigError } from "../../packages/k8s-live/src/internal/KubeConfigError.js"
import * as Source from "./Source.js"

const files = [
  "packages/core/src/AdapterError.ts",
  "packages/core/src/EvidenceStore.ts",
  "packages/core/src/kube/KubeError.ts",
  "packages/k8s-live/src/internal/KubeConfigError.ts"
]

interface Found {
  readonly tag: string
  readonly what: string
  readonly fields: ReadonlyArray<string>
}

const fieldsOf = (type: ts.Node): ReadonlyArray<string> =>
  Source.all(type, ts.isTypeLiteralNode)
    .slice(0, 1)
    .flatMap((literal) =>
      literal.members.filter(ts.isPropertySignature).map((member) => {
        const written = (member.type?.getText() ?? "").replace(" | undefined", "")
        const alias = Source.all(member.getSourceFile(), ts.isTypeAliasDeclaration).find(
          ({ name, type }) => name.text === written && ts.isUnionTypeNode(type)
        )
        const shown = (alias?.type.getText() ?? written).replaceAll(/\s+/g, " ")
        const name = `${member.name.getText()}${member.questionToken === undefined ? "" : "?"}`
        return Source.code(`${name}: ${shown.replace(/^ReadonlyArray<(.*)>$/, "$1[]")}`)
      })
    )

const classes: ReadonlyArray<Found> = files.flatMap((path) =>
  Source.all(Source.parse(path), ts.isClassDeclaration).flatMap((it) => {
    const base = it.heritageClauses?.[0]?.types[0]
    if (base === undefined || !base.expression.getText().startsWith("Data.TaggedError(")) return []
    const type = base.typeArguments?.[0]
    const shared = type?.getText().includes("Context") === true ? ["`request`", "`status?`", "`cause?`"] : []
    return [
      { tag: it.name?.text ?? "", what: Source.comment(it), fields: [...(type ? fieldsOf(type) : []), ...shared] }
    ]
  })
)

const pod = KubeRequest.make("get", Core.pods, { namespace: "team", name: "run-1-node-0-0-x7k2p" })
const submit = KubeRequest.make("create", Trainer.trainJobs, { namespace: "team", body: {} })
const log = KubeRequest.make("get", Core.pods, { namespace: "team", name: "run-1-node-0-0-x7k2p", subresource: "log" })
const watch = KubeRequest.make("watch", Core.pods, { namespace: "team" })
const says = (message: string): KubeError.Status => ({ kind: "Status", message })

interface Told {
  readonly _tag: string
  readonly message: string
}

/** The exit code of an error, and the other one of an `ErrUnsupported` that a grant would mend. */
const exitCodes = (tag: string): string => {
  const [usual, granted] = [[], [{ id: permissionId }]].map((details) =>
    ExitCode.exitCodeOf({ _tag: tag, message: "", details })
  )
  return usual === granted ? String(usual) : `${usual}; ${granted} where a permission is all that is missing`
}

/** One of each, as it arises. */
const samples: ReadonlyArray<Told> = [
  new ErrUnsupported({
    operation: "running on ClusterTrainingRuntime/torch-distributed",
    reason: "the runtime breaks 1 of the 8 rules",
    details: [
      {
        id: "no-in-place-restart",
        where: "ClusterTrainingRuntime/torch-distributed spec.template…backoffLimit",
        problem: "is 6 by default",
        remedy: "set 0"
      }
    ]
  }),
  new ErrNotFound({
    kind: "TrainJob",
    name: "run-1",
    namespace: "team",
    reason: "it does not exist, and no evidence of it was kept"
  }),
  new EvidenceStoreError({ kind: "unavailable", key: "team/run-1/head", detail: "no space left on device" }),
  new EvidenceStoreError({ kind: "damaged", key: "team/run-1/head", detail: "not JSON" }),
  new EvidenceStoreError({ kind: "version", key: "team/run-1/head", detail: "version 2, this is 1" }),
  ...(["object", "type", "namespace", "node", "log"] as const).map(
    (subject) => new KubeError.KubeNotFound({ request: subject === "node" || subject === "log" ? log : pod, subject })
  ),
  KubeError.fromStatus(
    pod,
    403,
    says('pods "run-1-node-0-0-x7k2p" is forbidden: User "jane" cannot get resource "pods"')
  ),
  KubeError.fromStatus(pod, 401, says("Unauthorized")),
  new KubeError.KubeConflict({ request: submit, reason: "AlreadyExists" }),
  new KubeError.KubeConflict({ request: submit, reason: "Conflict" }),
  KubeError.fromStatus(watch, 410, says("too old resource version: 812 (4711)")),
  KubeError.fromStatus(
    submit,
    422,
    says('TrainJob.trainer.kubeflow.org "run-1" is invalid: spec.runtimeRef: Required value')
  ),
  KubeError.fromStatus(submit, 403, says('admission webhook "quota.example" denied the request: no GPUs left')),
  ...(["connect", "tls", "credentials", "stream", "kubelet", "silence"] as const).map(
    (phase) => new KubeError.KubeUnavailable({ request: phase === "kubelet" ? log : pod, phase })
  ),
  KubeError.fromStatus(pod, 503, undefined),
  KubeError.fromStatus(submit, 429, undefined, 2000),
  new KubeError.KubeUnavailable({ request: submit, phase: "stream" }),
  new KubeError.KubeMalformed({ request: pod, detail: "text/html: Sign in" }),
  new KubeConfigError({
    origin: "/home/jane/.kube/config",
    context: "staging",
    field: 'users["ci"].user.exec.command',
    problem: "there is no such program",
    advice: "Install it, or give the path of it."
  })
]

const untold = classes.filter(({ tag }) => !samples.some(({ _tag }) => _tag === tag))
if (untold.length > 0) throw new Error(`no sample of ${untold.map(({ tag }) => tag).join(", ")}`)

/** The table. */
export const markdown = (): string =>
  Source.table(
    ["error", "when", "fields", "exit code"],
    classes.map(({ fields, tag, what }) => [`[${tag}](#${tag.toLowerCase()})`, what, fields.join(", "), exitCodes(tag)])
  )

/** What each says, and with it how it is mended. */
export const messages = (): string =>
  classes
    .map(({ tag }) => {
      const all = samples.filter(({ _tag }) => _tag === tag).map(({ message }) => message)
      return `### ${tag}\n\n\`\`\`text\n${[...new Set(all)].join("\n")}\n\`\`\``
    })
    .join("\n\n")
