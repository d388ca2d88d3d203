// The soak needs the live layer and the fixtures of the in-memory cluster, so it lives where both are at hand
import "../packages/k8s-live/test/soak/main.js"
