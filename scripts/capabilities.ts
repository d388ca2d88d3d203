// The oracle needs the adapter, the manifests and the in-memory cluster, so it lives where all are at hand
import "../packages/k8s-live/test/oracle/main.js"
