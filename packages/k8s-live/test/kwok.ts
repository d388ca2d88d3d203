/** Logs of pods that kwok plays: an object of the pod's name names the file. */
import type * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import type { KubeError } from "@dispatch-kubeflow/core/kube/KubeError"
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import { Effect, Schedule, Schema, Stream } from "effect"

export const logs = Resource.make({
  group: "kwok.x-k8s.io",
  version: "v1alpha1",
  plural: "logs",
  kind: "Logs",
  scope: "Namespaced",
  schema: Schema.Struct({ ...Meta.envelope })
})

/** Waits until kwok has heard of a pod's log. Until then it refuses the request (400), which no kubelet does of a running container. */
export const served = (
  api: KubeApi.Service,
  pod: { readonly namespace: string; readonly name: string },
  container: string
): Effect.Effect<void, KubeError> =>
  Effect.retry(Stream.runDrain(api.log(pod, { container, tailLines: 1 })), {
    while: ({ _tag }) => _tag === "KubeInvalid" || _tag === "KubeUnavailable",
    schedule: Schedule.spaced("200 millis"),
    times: 300
  })
