/**
 * What can be told of a selected cluster and user before any request. Pure.
 *
 * @module
 */
import { present, type Selected, type UserEntry } from "./Document.js"
import * as ExecCredential from "./ExecCredential.js"
import { KubeConfigError } from "./KubeConfigError.js"

/** An error of a selection: field, what is wrong, what to do. */
export type Refuse = (field: string, problem: string, advice: string) => KubeConfigError

export const refuser =
  (selected: Selected): Refuse =>
  (field, problem, advice) =>
    new KubeConfigError({ origin: selected.origin, context: selected.contextName, field, problem, advice })

export const clusterField = (selected: Selected, field: string): string =>
  `clusters["${selected.clusterName}"].cluster.${field}`
export const userField = (selected: Selected, field: string): string =>
  `users["${selected.userName ?? ""}"].user.${field}`

/** Whether it can be sent in a header: RFC 9110 section 5.5, without what is not ASCII. */
export const isHeaderValue = (text: string | undefined): boolean => text === undefined || /^[\t\x20-\x7e]*$/.test(text)

export const unfit = [
  "it has a line break or a character that no HTTP header can hold",
  "Copy it again from where it was issued."
] as const

/** What is wrong with the selection, known before any request. The rules are those of client-go's own validation. */
export const validate = (selected: Selected): KubeConfigError | undefined => {
  const refuse = refuser(selected)
  const { cluster, user } = selected
  const ofCluster = (field: string): string => clusterField(selected, field)
  const ofUser = (field: string): string => userField(selected, field)
  const server = present(cluster.server)
  if (server === undefined) return refuse(ofCluster("server"), "no server is given", "Write its URL.")
  if (!URL.canParse(server) || !/^https?:\/\//i.test(server)) {
    return refuse(ofCluster("server"), "this is not an http or https URL", "Write it as https://host:port.")
  }
  const hasCa = present(cluster["certificate-authority"]) ?? present(cluster["certificate-authority-data"])
  if (present(cluster["certificate-authority"]) && present(cluster["certificate-authority-data"])) {
    return refuse(ofCluster("certificate-authority"), "a CA file and CA data are both given", "Remove one of them.")
  }
  if (cluster["insecure-skip-tls-verify"] === true && hasCa !== undefined) {
    return refuse(
      ofCluster("insecure-skip-tls-verify"),
      "a CA is given and verification is switched off, which contradict each other",
      "Remove insecure-skip-tls-verify (safe), or the certificate authority."
    )
  }
  const proxy = present(cluster["proxy-url"])
  if (proxy !== undefined) {
    const problem = proxyProblem(proxy)
    if (problem !== undefined) return refuse(ofCluster("proxy-url"), problem, "Use an http:// or https:// proxy.")
  }
  for (const part of ["client-certificate", "client-key"] as const) {
    if (present(user[part]) && present(user[`${part}-data`])) {
      return refuse(ofUser(part), "a file and data are both given", "Remove one of them.")
    }
  }
  const certificate = present(user["client-certificate"]) ?? present(user["client-certificate-data"])
  const key = present(user["client-key"]) ?? present(user["client-key-data"])
  if ((certificate === undefined) !== (key === undefined)) {
    return certificate === undefined
      ? refuse(ofUser("client-certificate"), "a client key is given without its certificate", "Give both.")
      : refuse(ofUser("client-key"), "a client certificate is given without its key", "Give both.")
  }
  if (!isHeaderValue(present(user.token)?.trim())) return refuse(ofUser("token"), ...unfit)
  if (!Object.values(impersonation(user)).flat().every(isHeaderValue)) return refuse(ofUser("as"), ...unfit)
  const token = present(user.token) ?? present(user.tokenFile)
  if (token !== undefined && present(user.username) !== undefined) {
    return refuse(ofUser("username"), "a token and a user name are both given", "Keep one way to authenticate.")
  }
  if (
    present(user.as) === undefined &&
    (user["as-groups"]?.length || present(user["as-uid"]) || user["as-user-extra"])
  ) {
    return refuse(ofUser("as"), "impersonated groups need an impersonated user", "Give the user too.")
  }
  const exec = user.exec ?? undefined
  if (exec !== undefined) {
    if (user["auth-provider"]) {
      return refuse(ofUser("exec"), "exec and auth-provider are both given", "Keep one way to authenticate.")
    }
    return ExecCredential.validate(selected, exec)
  }
  return undefined
}

export const proxyProblem = (proxy: string): string | undefined => {
  if (!URL.canParse(proxy)) return "this is not a URL"
  const { protocol } = new URL(proxy)
  if (protocol.startsWith("socks")) return `${protocol.slice(0, -1)} proxies are not supported`
  return protocol === "http:" || protocol === "https:" ? undefined : `${protocol.slice(0, -1)} is no proxy protocol`
}

export const impersonation = (user: UserEntry): Record<string, string | ReadonlyArray<string>> => {
  const headers: Record<string, string | ReadonlyArray<string>> = {}
  const name = present(user.as)
  if (name !== undefined) headers["impersonate-user"] = name
  const uid = present(user["as-uid"])
  if (uid !== undefined) headers["impersonate-uid"] = uid
  if (user["as-groups"]?.length) headers["impersonate-group"] = user["as-groups"]
  for (const [key, values] of Object.entries(user["as-user-extra"] ?? {})) {
    headers[`impersonate-extra-${encodeURIComponent(key).toLowerCase()}`] = values
  }
  return headers
}
