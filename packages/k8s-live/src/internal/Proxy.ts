/**
 * Which proxy the environment asks for. The rules are Go's, because kubectl follows them
 * (https://pkg.go.dev/golang.org/x/net/http/httpproxy).
 *
 * @module
 */
import { BlockList, isIP, isIPv4 } from "node:net"

/** The proxy variables of an environment; lower case wins over upper case when both are set. */
export interface ProxyEnvironment {
  readonly httpProxy: string | undefined
  readonly httpsProxy: string | undefined
  readonly noProxy: string | undefined
}

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, "").toLowerCase()

const inBlock = (host: string, block: string): boolean => {
  const [network, bits] = block.split("/")
  const width = Number(bits)
  if (network === undefined || isIP(network) === 0 || !Number.isInteger(width)) return false
  if (isIP(host) !== isIP(network) || width < 0 || width > (isIPv4(network) ? 32 : 128)) return false
  const list = new BlockList()
  const family = isIPv4(network) ? "ipv4" : "ipv6"
  list.addSubnet(network, width, family)
  return list.check(host, family)
}

const excluded = (host: string, port: string, noProxy: string): boolean =>
  noProxy.split(",").some((raw) => {
    let entry = raw.trim().toLowerCase()
    if (entry === "") return false
    if (entry === "*") return true
    if (entry.includes("/")) return inBlock(host, entry)
    const withPort = /^(.*?):(\d+)$/.exec(entry)
    if (withPort !== null && isIP(entry) === 0) {
      if (withPort[2] !== port) return false
      entry = bare(withPort[1] ?? "")
    }
    if (isIP(host) !== 0) return host === bare(entry)
    if (entry.startsWith("*.")) entry = entry.slice(1)
    return entry.startsWith(".") ? host.endsWith(entry) : host === entry || host.endsWith(`.${entry}`)
  })

/** The proxy for a server, `undefined` when it is to be reached directly. This machine itself never goes through one. */
export const forServer = (server: string, environment: ProxyEnvironment): string | undefined => {
  const url = new URL(server)
  const proxy = url.protocol === "https:" ? environment.httpsProxy : environment.httpProxy
  if (proxy === undefined || proxy === "") return undefined
  const host = bare(url.hostname)
  if (host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."))) return undefined
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port
  if (excluded(host, port, environment.noProxy ?? "")) return undefined
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(proxy) ? proxy : `http://${proxy}`
}
