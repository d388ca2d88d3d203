/** Logs of pods that kwok plays: an object of the pod's name names the file. */
import * as Resource from "@dispatch-kubeflow/core/kube/Resource"
import * as Meta from "@dispatch-kubeflow/core/model/Meta"
import { Schema } from "effect"

export const logs = Resource.make({
  group: "kwok.x-k8s.io",
  version: "v1alpha1",
  plural: "logs",
  kind: "Logs",
  scope: "Namespaced",
  schema: Schema.Struct({ ...Meta.envelope })
})
