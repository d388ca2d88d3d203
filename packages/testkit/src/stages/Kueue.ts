/**
 * Kueue 0.17 as stages: queues, admission checks, quota and preemption, eviction, the jobs' start and stop. Off unless a
 * cluster is made with `kueue`.
 *
 * @module
 */
import type { Stage } from "../Stage.js"
import type * as Store from "../Store.js"
import * as Jobs from "./KueueJobs.js"
import type * as Objects from "./KueueObjects.js"
import * as Queues from "./KueueQueues.js"
import * as Scheduler from "./KueueScheduler.js"
import * as Webhooks from "./KueueWebhooks.js"
import * as Workload from "./KueueWorkload.js"

/** See the fields. */
export type Options = Objects.Options

/** Kueue's controllers. */
export const stages = (options: Options = {}): ReadonlyArray<Stage> => [
  Queues.admissionCheckStage,
  Queues.clusterQueueStage,
  Queues.localQueueStage,
  Jobs.make(options),
  Workload.make(options),
  Scheduler.stage
]

/** Kueue's webhooks. */
export const plugins = (options: Options = {}): ReadonlyArray<Store.Admission> => Webhooks.plugins(options)
