/**
 * The in-memory cluster's speed and size, as ratios that are taken in one run: writes and lists against a real API server
 * through the same live layer, in process and served from a process of its own; the cost of watchers and of many objects.
 *
 *     npm run bench -- store-scale
 *
 * The comparison with a real API server runs when `TEST_KUBECONFIG` names one; it uses and removes a namespace of its own.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeError from "@dispatch-kubeflow/core/kube/KubeError"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import * as ApiServer from "@dispatch-kubeflow/testkit/ApiServer"
import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import * as Fixtures from "@dispatch-kubeflow/testkit/Fixtures"
import * as Rbac from "@dispatch-kubeflow/testkit/Rbac"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Context, Effect, Fiber, Layer, Schedule, Schema, Stream } from "effect"
import { median } from "./report.js"
