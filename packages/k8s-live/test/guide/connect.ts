import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"

// What kubectl would talk to
export const here = KubeApiLive.layer()

// Another context, of files named here, with limits of its own
export const staging = KubeApiLive.layer({
  source: KubeConfig.Source.Files({ paths: ["/etc/dispatch/clusters", "/etc/dispatch/users"] }),
  context: "staging",
  http: { watchIdle: "3 minutes", rateLimit: { qps: 100, burst: 500 } }
})
