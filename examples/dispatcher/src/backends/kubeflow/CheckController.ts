/**
 * The controller of our admission check, as far as it is not `KueueOpening`: it says that it lives, by a Lease that it renews
 * and by the check's `Active` condition. The proof of the gate (`Adapter.writable`) reads both.
 *
 * @module
 */
import type * as AdapterConfig from "@dispatch-kubeflow/core/AdapterConfig"
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as Coordination from "@dispatch-kubeflow/core/model/Coordination"
import * as Kueue from "@dispatch-kubeflow/core/model/Kueue"
import { trueCondition } from "@dispatch-kubeflow/core/model/Meta"
import { Clock, DateTime, Effect, Option } from "effect"
import * as Opening from "./Opening.js"

/** How long others wait after its last sign of life before they believe that it is dead, in seconds. */
export const leaseSeconds = 30

const every = "10 seconds"

/** Says that it lives, until it is interrupted. Another's Lease is left alone while it is fresh. */
export const run = (options: {
  readonly api: KubeApi.Service
  readonly kueue: AdapterConfig.KueueConfig
  readonly holder: string
}): Effect.Effect<never> => {
  const { api, holder, kueue } = options

  const renew = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const time = DateTime.formatIso(DateTime.unsafeMake(now)).replace("Z", "000Z")
    const found = yield* Opening.find(api, Coordination.leases, kueue.lease)
    const ours = { holderIdentity: holder, leaseDurationSeconds: leaseSeconds, renewTime: time }
    if (found === undefined) {
      yield* api.create(
        Coordination.leases,
        { namespace: kueue.lease.namespace },
        { metadata: { name: kueue.lease.name }, spec: { ...ours, acquireTime: time } }
      )
      return true
    }
    const { holderIdentity, leaseDurationSeconds, renewTime } = found.spec ?? {}
    const isOurs = holderIdentity === holder
    const renewed = Option.map(DateTime.make(renewTime ?? ""), DateTime.toEpochMillis)
    const until = Option.getOrElse(renewed, () => 0) + (leaseDurationSeconds ?? 0) * 1000
    if (!isOurs && typeof holderIdentity === "string" && holderIdentity !== "" && until > now) return false
    yield* api.replace(Coordination.leases, {
      ...found,
      spec: { ...found.spec, ...ours, ...(isOurs ? {} : { acquireTime: time }) }
    })
    return true
  })

  const serve = Effect.gen(function* () {
    const check = yield* api.get(Kueue.admissionChecks, { name: kueue.admissionCheck })
    if (check.spec?.controllerName !== kueue.controllerName) return
    if (trueCondition(check.status?.conditions, "Active") !== undefined) return
    const now = DateTime.formatIso(DateTime.unsafeMake(yield* Clock.currentTimeMillis))
    const active = {
      type: "Active",
      status: "True",
      reason: "Ready",
      message: "the dispatcher answers",
      lastTransitionTime: now
    }
    const others = (check.status?.conditions ?? []).filter(({ type }) => type !== "Active")
    yield* api.replace(
      Kueue.admissionChecks,
      { ...check, status: { ...check.status, conditions: [...others, active] } },
      { subresource: "status" }
    )
  })

  // What could not be written shows in the proof of the gate, and is tried again soon
  return Effect.forever(
    Effect.zipRight(
      Effect.ignore(Effect.flatMap(renew, (isOurs) => (isOurs ? serve : Effect.void))),
      Effect.sleep(every)
    )
  )
}
