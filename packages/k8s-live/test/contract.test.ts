import { contract } from "@dispatch-kubeflow/testkit/Contract"
import { describe, it } from "@effect/vitest"
import { realKubeconfig, realWorld, whyLeftOut } from "./realWorld.js"

if (realKubeconfig === undefined) describe("contract: a real API server", () => it.skip(whyLeftOut, () => undefined))
else contract("a real API server", realWorld(realKubeconfig))
