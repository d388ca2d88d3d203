/** Small scripted servers and the layers over them. */
import { readFileSync } from "node:fs"
import { createServer as createHttp, type RequestListener, type ServerResponse } from "node:http"
import { createServer as createHttps, type ServerOptions } from "node:https"
import { type AddressInfo, createServer as createNet, type Server, type Socket } from "node:net"
import * as KubeApi from "@dispatch-kubeflow/core/kube/KubeApi"
import * as KubeRequest from "@dispatch-kubeflow/core/kube/KubeRequest"
import type { KubeTransport } from "@dispatch-kubeflow/core/kube/KubeTransport"
import * as KubeApiLive from "@dispatch-kubeflow/k8s-live/KubeApiLive"
import * as KubeConfig from "@dispatch-kubeflow/k8s-live/KubeConfig"
import type * as KubeHttp from "@dispatch-kubeflow/k8s-live/KubeHttp"
import { Context, Effect, Layer, type Scope } from "effect"

export const certificate = (name: string): string => readFileSync(new URL(`./certs/${name}`, import.meta.url), "utf8")

export const base64 = (text: string): string => Buffer.from(text, "utf8").toString("base64")

/** A server that is listening. */
export interface Listening {
  readonly url: string
  readonly port: number
  /** Requests so far as `METHOD url`. */
  readonly requests: Array<string>
  /** Sockets that are open now. */
  readonly sockets: Set<Socket>
  /** Connections made so far. */
  readonly connections: () => number
  /** Called at the end of every TLS handshake. */
  readonly onSecure: (listener: () => void) => void
}

const listen = (
  server: Server,
  scheme: string,
  requests: Array<string>
): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<{ readonly listening: Listening; readonly server: Server }>((resume) => {
      const sockets = new Set<Socket>()
      let connections = 0
      server.on("connection", (socket: Socket) => {
        connections++
        sockets.add(socket)
        socket.on("close", () => sockets.delete(socket))
        socket.on("error", () => undefined)
      })
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        resume(
          Effect.succeed({
            server,
            listening: {
              url: `${scheme}://127.0.0.1:${port}`,
              port,
              requests,
              sockets,
              connections: () => connections,
              onSecure: (listener) => void server.on("secureConnection", listener)
            }
          })
        )
      })
    }),
    ({ listening, server: open }) =>
      Effect.async<void>((resume) => {
        for (const socket of listening.sockets) socket.destroy()
        open.close(() => resume(Effect.void))
      })
  ).pipe(Effect.map(({ listening }) => listening))

const recorded =
  (requests: Array<string>, handler: RequestListener): RequestListener =>
  (request, response) => {
    requests.push(`${request.method ?? ""} ${request.url ?? ""}`)
    response.on("error", () => undefined)
    handler(request, response)
  }

/** A plain HTTP server. */
export const http = (handler: RequestListener): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.suspend(() => {
    const requests: Array<string> = []
    return listen(createHttp(recorded(requests, handler)), "http", requests)
  })

/** An HTTPS server with the test CA's certificate for localhost and 127.0.0.1. */
export const https = (options: ServerOptions, handler: RequestListener): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.suspend(() => {
    const requests: Array<string> = []
    return listen(
      createHttps(
        { key: certificate("srv.key"), cert: certificate("srv.crt"), ...options },
        recorded(requests, handler)
      ),
      "https",
      requests
    )
  })

/** A TCP server; what its clients send is thrown away. */
export const tcp = (onSocket: (socket: Socket) => void): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.suspend(() =>
    listen(
      createNet((socket) => {
        socket.on("error", () => undefined)
        onSocket(socket)
      }),
      "http",
      []
    )
  )

/** Answers with JSON. */
export const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string | Array<string>> = {}
): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(`${JSON.stringify(body)}\n`)
}

/** A `Status` as the API server sends it. */
export const status = (code: number, reason: string, message: string, more: object = {}): object => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message,
  reason,
  code,
  ...more
})

/** A kubeconfig for one server. */
export const kubeconfig = (server: string, user: object = {}, cluster: object = {}): object => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "c", cluster: { server, ...cluster } }],
  users: [{ name: "u", user }],
  contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
  "current-context": "x"
})

/** The live API of a kubeconfig value. */
export const api = (
  value: object,
  options: KubeHttp.Options = {},
  more: Omit<KubeConfig.Options, "source"> = {}
): Effect.Effect<KubeApi.Service, KubeConfig.KubeConfigError, Scope.Scope> =>
  Effect.map(
    Layer.build(
      KubeApiLive.layer({ source: KubeConfig.Source.Value({ value, name: "test kubeconfig" }), http: options, ...more })
    ),
    (context) => Context.get(context, KubeApi.KubeApi)
  )

/** The live transport of a kubeconfig value. */
export const transport = (
  value: object,
  options: KubeHttp.Options = {},
  more: Omit<KubeConfig.Options, "source"> = {}
): Effect.Effect<KubeTransport, KubeConfig.KubeConfigError, Scope.Scope> =>
  Effect.map(api(value, options, more), (service) => service.transport)

const pods = { group: "", version: "v1", plural: "pods" }
export const getPod = KubeRequest.make("get", pods, { namespace: "n", name: "p" })
export const createPod = KubeRequest.make("create", pods, { namespace: "n", body: { kind: "Pod" } })
export const watchPods = KubeRequest.make("watch", pods, { namespace: "n", query: { resourceVersion: "5" } })
export const podLog = KubeRequest.make("get", pods, {
  namespace: "n",
  name: "p",
  subresource: "log",
  query: { container: "node", follow: "true" }
})

/** Polls until the condition holds: for what a socket on the other side does, which no fiber here can await. */
export const until = (condition: () => boolean, attempts = 400): Effect.Effect<void, string> =>
  Effect.gen(function* () {
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (condition()) return
      yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 5)))
    }
    return yield* Effect.fail("the condition never held")
  })
