/**
 * A server that costs next to nothing, so that a benchmark measures its clients: TLS and as much of HTTP/1.1 as they need,
 * and bodies that were prepared before. It belongs into a process of its own.
 */
import { readFileSync } from "node:fs"
import type { AddressInfo } from "node:net"
import { createServer, type TLSSocket } from "node:tls"

const certs = new URL("../packages/k8s-live/test/certs/", import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, certs), "utf8")

/** What is asked. */
export interface Asked {
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
}

/** A body that is written piece by piece; the pieces are HTTP chunks already, see `chunk`. */
export interface Body {
  /** Takes what `next` gives as fast as the socket does, until it gives nothing. */
  readonly write: (next: () => Buffer | undefined) => Promise<void>
  /** Ends the answer in order. */
  readonly end: () => void
}

/** What is answered: JSON, or a body of a content type. */
export type Answer =
  | { readonly status?: number; readonly json: object }
  | { readonly type: string; readonly open: (body: Body) => void; readonly close?: () => void }

/** The bytes as one HTTP chunk. */
export const chunk = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")])

const bodyOf = (socket: TLSSocket): Body => ({
  write: (next) =>
    new Promise((resolve) => {
      const done = (): void => {
        socket.off("close", done)
        resolve()
      }
      const more = (): void => {
        for (;;) {
          const bytes = socket.destroyed ? undefined : next()
          if (bytes === undefined) return done()
          if (!socket.write(bytes)) return void socket.once("drain", more)
        }
      }
      socket.once("close", done)
      more()
    }),
  end: () => void socket.write("0\r\n\r\n")
})

/** Listens on a free port of the loopback and tells it to the parent process, with which it ends. */
export const listen = (answer: (asked: Asked) => Answer): void => {
  const server = createServer({ key: read("srv.key"), cert: read("srv.crt") }, (socket) => {
    socket.setNoDelay(true)
    socket.on("error", () => undefined)
    let head = ""
    socket.on("data", (bytes) => {
      head += bytes.toString("latin1")
      for (let end = head.indexOf("\r\n\r\n"); end !== -1; end = head.indexOf("\r\n\r\n")) {
        const url = new URL(head.split(" ", 2)[1] ?? "/", "https://localhost")
        head = head.slice(end + 4)
        const given = answer({ path: url.pathname, query: url.searchParams })
        if ("json" in given) {
          const body = Buffer.from(JSON.stringify(given.json))
          socket.write(
            `HTTP/1.1 ${given.status ?? 200} Answer\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
          )
          socket.write(body)
          continue
        }
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${given.type}\r\ntransfer-encoding: chunked\r\n\r\n`)
        // A connection may carry many answers
        if (given.close !== undefined) socket.once("close", given.close)
        given.open(bodyOf(socket))
      }
    })
  })
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port))
  process.on("disconnect", () => process.exit(0))
}

/** A kubeconfig for it. */
export const kubeconfig = (port: number): object => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [
    {
      name: "c",
      cluster: {
        server: `https://127.0.0.1:${port}`,
        "certificate-authority-data": Buffer.from(read("ca.crt")).toString("base64")
      }
    }
  ],
  users: [{ name: "u", user: { token: "t" } }],
  contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
  "current-context": "x"
})
