/**
 * The three functions that a layer has to implement to be a Kubernetes API. Everything typed is derived from them, once,
 * in `KubeApi.make`.
 *
 * @module
 */
import type { Effect, Stream } from "effect"
import type { KubeError } from "./KubeError.js"
import type { KubeRequest } from "./KubeRequest.js"

/** The server's answer to a successful `call`. */
export interface KubeReply {
  /** HTTP status: 200, or 201 when something was created. */
  readonly status: number
  /** Parsed JSON. */
  readonly body: unknown
  /** Texts of the `Warning` headers, in order. */
  readonly warnings: ReadonlyArray<string>
  /** The server's clock when it answered (`Date` header), epoch milliseconds with whole-second precision. */
  readonly serverTime?: number
}

/** One frame of a watch, as the server sent it. `ERROR` frames never appear: a transport turns them into its failure. */
export interface WatchFrame {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"
  readonly object: unknown
}

/** A Kubernetes API as three functions over `KubeRequest`. */
export interface KubeTransport {
  /** Performs any request but a watch and a log. */
  readonly call: (request: KubeRequest) => Effect.Effect<KubeReply, KubeError>
  /**
   * Opens one watch connection. The stream ends when the server ends the connection in order; a connection that breaks,
   * also in the middle of a line, fails with `KubeUnavailable`. An in-stream ERROR frame fails with what its Status says.
   */
  readonly watch: (request: KubeRequest) => Stream.Stream<WatchFrame, KubeError>
  /**
   * Opens a response whose body is bytes (`pods/log`). The status is checked before the first byte is delivered. A 204,
   * which is how the API server says that a pod has no node yet, fails with `KubeNotFound { subject: "log" }`.
   */
  readonly bytes: (request: KubeRequest) => Stream.Stream<Uint8Array, KubeError>
}
