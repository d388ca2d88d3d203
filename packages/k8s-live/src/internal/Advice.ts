/**
 * What to do when credentials are refused or a connection cannot be made, from what is known of both. Pure; it names files,
 * contexts, users and hosts, never a secret.
 *
 * @module
 */
import { X509Certificate } from "node:crypto"
import { present, type Selected } from "./Document.js"

/** Where a selection comes from: `context "x", user "u", /home/jane/.kube/config`. */
export const identity = ({ contextName, origin, userName }: Selected): string =>
  [
    contextName === undefined ? undefined : `context "${contextName}"`,
    userName === undefined ? "no user" : `user "${userName}"`,
    origin
  ]
    .filter((part) => part !== undefined)
    .join(", ")

/** `exp` of a JSON web token in epoch milliseconds; its signature is the server's business. */
export const expiryOf = (header: string | undefined): number | undefined => {
  const payload = /^Bearer [\w-]+\.([\w-]+)\.[\w-]*$/.exec(header ?? "")?.[1]
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"))
    const exp = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined
    return typeof exp === "number" ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}

/** When a certificate ends, in epoch milliseconds. */
export const certificateExpiry = (pem: string | undefined): number | undefined => {
  if (pem === undefined) return undefined
  try {
    const end = Date.parse(new X509Certificate(pem).validTo)
    return Number.isNaN(end) ? undefined : end
  } catch {
    return undefined
  }
}

const at = (time: number): string => new Date(time).toISOString().replace(/\.\d+Z$/, "Z")

const whoami = ({ contextName }: Selected): string =>
  `\`kubectl${contextName === undefined ? "" : ` --context ${contextName}`} auth whoami\` asks with the same credentials.`

/** Why the server may refuse what was sent, and what to do. */
export const ofRefusal = (
  selected: Selected,
  sent: { readonly header: string | undefined; readonly certificate: string | undefined },
  now: number
): string => {
  const { user } = selected
  const tokenEnd = expiryOf(sent.header)
  const expired = tokenEnd !== undefined && tokenEnd <= now ? `The token expired at ${at(tokenEnd)}. ` : ""
  const tokenFile = present(user.tokenFile)
  if (tokenFile !== undefined)
    return `${expired}Renew the content of ${tokenFile}; it was read again. ${whoami(selected)}`
  if (present(user.token) !== undefined) return `${expired}Write a new token for the user. ${whoami(selected)}`
  if (present(user.username) !== undefined) {
    return "API servers accept no user name and password any more; use a token, a certificate or a plugin."
  }
  const command = present(user.exec?.command)
  if (command !== undefined) {
    return `${expired}The plugin \`${command}\` was run again, which did not help; log in with its own tool. ${whoami(selected)}`
  }
  const provider = user["auth-provider"]
  if (provider !== null && provider !== undefined) {
    return `${expired}Log in again with the tool of ${provider.name}. ${whoami(selected)}`
  }
  const end = certificateExpiry(sent.certificate)
  if (end !== undefined) {
    return end <= now
      ? `The client certificate expired at ${at(end)}; have a new one issued and put it into the kubeconfig.`
      : `Is the client certificate issued by this cluster's CA? ${whoami(selected)}`
  }
  return "No credentials were sent: give the context a user, e.g. `kubectl config set-context NAME --user=USER`."
}

/** What happens when TLS fails, by what OpenSSL and Node call it. */
export const ofTls = (code: string, text: string, selected: Selected): string => {
  const cluster = `cluster "${selected.clusterName}"`
  if (code === "CERT_HAS_EXPIRED") {
    return "The server's certificate has expired (or the clock here is wrong): those who run the cluster have to renew it."
  }
  if (code === "CERT_NOT_YET_VALID") return "The server's certificate is not valid yet: is the clock here right?"
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return `The certificate is for other names: correct the server address of ${cluster}, or set its tls-server-name to one of them.`
  }
  if (
    /WRONG_VERSION_NUMBER|wrong version number|PACKET_LENGTH_TOO_LONG|packet length too long/.test(`${code} ${text}`)
  ) {
    return `The server does not speak TLS: correct the port, or write http:// in the server address of ${cluster} if plain HTTP is meant.`
  }
  if (/ALERT/i.test(`${code} ${text}`)) {
    return "The server refuses the handshake: is the client certificate one that it accepts, and not expired?"
  }
  return `The certificate is not from the CA of ${cluster}: fetch the kubeconfig anew, or correct its certificate-authority; a proxy that opens TLS shows its own.`
}

/** Where a proxy comes from, for people: host and port alone. */
export const proxyName = (proxy: string): string => {
  const { host, protocol } = new URL(proxy)
  return `${protocol}//${host}`
}

/** What to do when there is no connection. */
export const ofConnection = (
  code: string,
  text: string,
  server: string,
  proxy: { readonly name: string; readonly from: string } | undefined
): string => {
  if (proxy !== undefined) {
    return /\b407\b/.test(text)
      ? `The proxy ${proxy.name} wants a user name and a password: write them into ${proxy.from} as http://USER:PASSWORD@HOST.`
      : `The way to ${server} goes through the proxy ${proxy.name} (from ${proxy.from}): is it up, and does it let the server through?`
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return `The name in ${server} is not known here: correct it, or look at DNS and VPN.`
  }
  return `Is ${server} right, and is it up? Try \`kubectl version\`.`
}
