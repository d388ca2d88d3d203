/**
 * What `--verbose` tells: the server and who asks, and a line for every request. It holds no secret.
 *
 * @module
 */
import { Redacted } from "effect"
import type { Service as KubeConfigService } from "../KubeConfig.js"
import type { Exchange } from "../KubeHttp.js"

const duration = (millis: number): string =>
  millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(1)} s`

const bytes = (count: number): string => `${String(count).replace(/\B(?=(\d{3})+$)/g, ",")} bytes`

const result = ({ bytes: size, duration: took, failure, outcome, stage, status }: Exchange): string => {
  if (stage === "opened") return `${status} in ${duration(took)}, and more to come`
  const came = `${duration(took)}, ${bytes(size)}`
  if (outcome === "answered") return `${status} in ${came}`
  const ended = outcome === "failed" ? `failed after ${came} (${failure})` : `given up after ${came}`
  return status === undefined ? ended : `${status}, ${ended}`
}

/** e.g. `GET /api/v1/pods?limit=500 200 in 34 ms, 12,345 bytes`. */
export const line = (exchange: Exchange): string => {
  const { attempt, method, target, waited } = exchange
  const again = attempt > 1 ? `, attempt ${attempt}` : ""
  const queued = waited > 0 ? `, after ${duration(waited)} in the queue of the rate limit` : ""
  return `${method} ${target} ${result(exchange)}${again}${queued}`
}

/** Where requests go, and as whom. */
export const head = ({ identity, proxyUrl, server, skipTlsVerify }: KubeConfigService): string => {
  const proxy = proxyUrl === undefined ? "" : `, through the proxy ${new URL(Redacted.value(proxyUrl)).host}`
  return `${server}${proxy}${skipTlsVerify ? ", whose certificate is not checked" : ""}; ${identity}`
}
