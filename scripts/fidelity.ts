// The checker needs the live layer and the in-memory cluster, so it lives where both are at hand
import "../packages/k8s-live/test/fidelity/main.js"
