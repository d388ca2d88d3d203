import * as Cluster from "@dispatch-kubeflow/testkit/Cluster"
import { contract } from "@dispatch-kubeflow/testkit/Contract"
import { describe, it } from "@effect/vitest"
import { Layer } from "effect"
import { realKubeconfig, realWorld, servedWorld, whyLeftOut } from "./worlds.js"

contract("HTTP to the served in-memory cluster", Layer.provide(servedWorld, Cluster.layer()))

if (realKubeconfig === undefined) describe("contract: a real API server", () => it.skip(whyLeftOut, () => undefined))
else contract("a real API server", realWorld(realKubeconfig))
