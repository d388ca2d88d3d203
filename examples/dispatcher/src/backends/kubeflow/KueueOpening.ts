/**
 * With Kueue: nothing starts a TrainJob of the queue as long as our admission check is Pending, and this program is the one
 * who answers it. It answers once per submission: a Workload that lost its quota, or was replaced, is not let in again, the
 * run's next try is a TrainJob of its own.
 *
 * Two writes start it. The first names on the TrainJob the Workload that is let in, the second answers the check of that
 * Workload; each is about the very object that was read. So whoever comes later can tell what was done before: no name,
 * nothing was let in; another Workload's name, or what the answer leaves behind, it had its chance.
 *
 * @module
 */
import * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Selector from "@dispatch-kubeflow/core/kube/Selector"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import { condition, trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import * as Trainer from "@dispatch-kubeflow/core/model/Trainer"
import { Clock, DateTime, Effect } from "effect"
import type * as Backend from "../../Backend.js"
import * as Opening from "./Opening.js"

/** The annotation that names the uid of the Workload that is let in. */
export const letInAnnotation = "example.dispatch-kubeflow.dev/let-in"

type Check = NonNullable<NonNullable<Kueue.Workload["status"]>["admissionChecks"]>[number]

// What can end an execution that Kueue stopped; anything else says why it does not start again
const endings = new Set(["Preempted", "Evicted", "Drained", "NodeLost", "DeadlineExceeded"])

/** Opens by answering the admission check. */
export const make = (options: {
  readonly api: KubeApi.Service
  readonly namespace: string
  readonly kueue: AdapterConfig.KueueConfig
  /** Who holds the check's Lease while this program answers. */
  readonly holder: string
  readonly pod: Opening.Pod | undefined
  readonly unavailable: (reason: string) => Backend.Unavailable
}): Opening.Opening => {
  const { api, holder, kueue, namespace, unavailable } = options

  const workloadOf = (uid: string): Effect.Effect<Kueue.Workload | undefined, KubeError> =>
    Effect.map(
      api.list(Kueue.workloads, { namespace, labels: Selector.labels({ [Kueue.jobUidLabel]: uid }) }),
      ({ items }) => items.find(({ metadata }) => typeof metadata.deletionTimestamp !== "string")
    )
  const checkOf = (workload: Kueue.Workload): Check | undefined =>
    workload.status?.admissionChecks?.find(({ name }) => name === kueue.admissionCheck)
  const letIn = ({ metadata }: Trainer.TrainJob): string | undefined => metadata.annotations?.[letInAnnotation]

  /** Its one chance. What has lost it can only be let in a second time, and is not. */
  const chance = (trainJob: Trainer.TrainJob, workload: Kueue.Workload | undefined): "open" | "taken" | "lost" => {
    const named = letIn(trainJob)
    if (named === undefined) return "open"
    if (workload?.metadata.uid !== named) return "lost"
    const check = checkOf(workload)
    if (check?.state === "Ready") return "taken"
    // An eviction resets the state of an entry, and leaves what was given with the answer
    const given = check !== undefined && "podSetUpdates" in check ? check.podSetUpdates : undefined
    return Array.isArray(given) && given.length > 0 ? "lost" : "open"
  }

  /** Why a Workload cannot be let in now. */
  const obstacle = (workload: Kueue.Workload): string | undefined => {
    const { metadata, spec, status } = workload
    const quota = condition(status?.conditions, "QuotaReserved")
    const self = `Workload ${metadata.name}`
    if (spec?.active === false) return `${self} is held`
    // An answer before there is quota would be kept, and nobody would be asked when there is
    if (quota?.status !== "True")
      return `${self} waits for quota: ${quota?.message ?? "its queue has not said anything"}`
    if (trueCondition(status?.conditions, "Evicted") !== undefined) return `${self} is being evicted`
    return checkOf(workload)?.state === "Pending"
      ? undefined
      : `${self} does not wait for check ${kueue.admissionCheck}`
  }

  /** The whole entry of our check, and nothing of another's. */
  const answered = (workload: Kueue.Workload, now: string): Kueue.Workload => ({
    ...workload,
    status: {
      ...workload.status,
      admissionChecks: (workload.status?.admissionChecks ?? []).map((check) =>
        check.name === kueue.admissionCheck
          ? {
              name: check.name,
              state: "Ready",
              message: "let in",
              lastTransitionTime: now,
              podSetUpdates: [{ name: "node", annotations: { [AdapterConfig.admissionAnnotation]: "1" } }]
            }
          : check
      )
    }
  })

  return {
    created: {
      labels: { [Kueue.queueNameLabel]: kueue.localQueue },
      ...(options.pod === undefined ? {} : { runtimePatches: [Opening.entryOf(options.pod, undefined)] })
    },
    start: Effect.fnUntraced(function* (trainJob, allowed) {
      const { metadata } = trainJob
      const workload = yield* workloadOf(metadata.uid)
      if (chance(trainJob, workload) !== "open") return
      if (workload === undefined)
        return yield* unavailable(`Kueue has made no Workload for TrainJob ${metadata.name} yet`)
      const why = obstacle(workload)
      if (why !== undefined) return yield* unavailable(why)
      yield* allowed
      const lease = yield* Opening.find(api, Coordination.leases, kueue.lease)
      if (lease?.spec?.holderIdentity !== holder) {
        return yield* unavailable(
          `check ${kueue.admissionCheck} is answered by ${lease?.spec?.holderIdentity ?? "nobody"}`
        )
      }
      if (letIn(trainJob) === undefined) {
        yield* api.patch(
          Trainer.trainJobs,
          { namespace, name: metadata.name },
          {
            type: "merge",
            fieldManager: AdapterConfig.patchManager,
            body: {
              metadata: {
                uid: metadata.uid,
                resourceVersion: metadata.resourceVersion,
                annotations: { [letInAnnotation]: workload.metadata.uid }
              }
            }
          }
        )
      }
      const now = DateTime.formatIso(DateTime.unsafeMake(yield* Clock.currentTimeMillis))
      yield* api.replace(Kueue.workloads, answered(workload, now), {
        subresource: "status",
        fieldManager: AdapterConfig.patchManager
      })
    }),
    shut: Effect.fnUntraced(function* (trainJob) {
      const workload = yield* workloadOf(trainJob.metadata.uid)
      const isFinished = trueCondition(workload?.status?.conditions, "Finished") !== undefined
      if (workload !== undefined && !isFinished && workload.spec?.active !== false) {
        yield* api.replace(
          Kueue.workloads,
          { ...workload, spec: { ...workload.spec, active: false } },
          { fieldManager: AdapterConfig.patchManager }
        )
        return yield* unavailable(`Kueue is told to stop Workload ${workload.metadata.name}`)
      }
      if (
        workload !== undefined &&
        !isFinished &&
        trueCondition(workload.status?.conditions, "Evicted") === undefined &&
        trueCondition(workload.status?.conditions, "Admitted") !== undefined
      ) {
        return yield* unavailable(`Kueue has not evicted Workload ${workload.metadata.name} yet`)
      }
      // A TrainJob that is over, or being deleted, is not Kueue's to suspend any more; its parts can still be made again
      yield* Opening.suspend(api, namespace, trainJob)
    }),
    isUntouched: (trainJob) => letIn(trainJob) === undefined && trainJob.spec?.suspend === true,
    told: Effect.fnUntraced(function* (report, name) {
      // Kueue itself gave it up: that is not somebody's wish, and nothing brings it back
      if (report.state === "Held" && report.cause !== undefined && !["Held", "Unknown"].includes(report.cause)) {
        return { ...report, state: "Stopping" }
      }
      if (report.state !== "Pending") return report
      const trainJob = yield* Opening.find(api, Trainer.trainJobs, { namespace, name })
      if (trainJob === undefined || trainJob.metadata.uid !== report.id) return report
      const workload = yield* workloadOf(trainJob.metadata.uid)
      if (chance(trainJob, workload) !== "lost") return report
      // It waits for an answer that it will not get
      return {
        ...report,
        state: "Stopping",
        cause: report.cause !== undefined && endings.has(report.cause) ? report.cause : "Evicted",
        detail: `${report.detail}; it was let in before, and lost its quota`
      }
    })
  }
}
