import { describe } from "@effect/vitest"
import { part } from "./model/schedules.js"

describe("the composed adapter and dispatcher", () => part(1))
