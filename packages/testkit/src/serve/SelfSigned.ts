/**
 * A self-signed certificate for serving TLS on loopback. kubectl sends bearer tokens over TLS alone, so that a served
 * cluster with users needs one.
 *
 * @module
 */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto"
import { DateTime, Effect } from "effect"

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  readonly cert: string
  readonly key: string
}

// X.690: tag, length, content
const der = (tag: number, ...contents: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(contents)
  const length = content.length
  const header =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(header), content])
}

const sequence = (...contents: ReadonlyArray<Uint8Array>): Buffer => der(0x30, ...contents)
const octets = (content: Uint8Array): Buffer => der(0x04, content)
const bits = (content: Uint8Array): Buffer => der(0x03, Buffer.from([0]), content)
const integer = (content: Uint8Array): Buffer => der(0x02, content)
const yes = der(0x01, Buffer.from([0xff]))

const oid = (dotted: string): Buffer => {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = arc >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return der(0x06, Buffer.from(bytes))
}

/** Whom a certificate is for; Kubernetes reads a client's user and groups from it. */
export interface Subject {
  readonly commonName: string
  readonly organizations: ReadonlyArray<string>
}

const attribute = (id: string, value: string): Buffer =>
  der(0x31, sequence(oid(id), der(0x0c, Buffer.from(value, "utf8"))))

const nameOf = ({ commonName, organizations }: Subject): Buffer =>
  sequence(...organizations.map((each) => attribute("2.5.4.10", each)), attribute("2.5.4.3", commonName))

const generalizedTime = (epochMillis: number): Buffer => {
  const iso = DateTime.formatIso(DateTime.unsafeMake(epochMillis))
  return der(0x18, Buffer.from(`${iso.slice(0, 19).replace(/[-:T]/g, "")}Z`, "ascii"))
}

const alternativeName = (host: string): Buffer => {
  const octetsOfIp = host.split(".").map(Number)
  return octetsOfIp.length === 4 && octetsOfIp.every((part) => Number.isInteger(part) && part >= 0 && part < 256)
    ? der(0x87, Buffer.from(octetsOfIp))
    : host === "::1"
      ? der(0x87, Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))
      : der(0x82, Buffer.from(host, "ascii"))
}

const extension = (id: string, critical: boolean, content: Uint8Array): Buffer =>
  critical ? sequence(oid(id), yes, octets(content)) : sequence(oid(id), octets(content))

const pem = (content: Uint8Array): string => {
  const lines =
    Buffer.from(content)
      .toString("base64")
      .match(/.{1,64}/g) ?? []
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n")
}

const day = 86_400_000
const itself: Subject = { commonName: "dispatch-kubeflow-testkit", organizations: [] }

/**
 * Makes an EC P-256 key and a certificate for these host names and IP addresses, valid from yesterday for ten years. It is
 * its own authority: put it into `certificate-authority-data`.
 */
export const make = (hosts: ReadonlyArray<string>, subject = itself): Effect.Effect<KeyPair> =>
  Effect.map(DateTime.now, (now) => {
    const epochMillis = DateTime.toEpochMillis(now)
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"))
    const name = nameOf(subject)
    // The top bit stays clear: a serial number is positive
    const serial = Buffer.concat([Buffer.from([0x4b]), randomBytes(12)])
    const toBeSigned = sequence(
      der(0xa0, integer(Buffer.from([2]))),
      integer(serial),
      ecdsaWithSha256,
      name,
      sequence(generalizedTime(epochMillis - day), generalizedTime(epochMillis + 3650 * day)),
      name,
      publicKey.export({ type: "spki", format: "der" }),
      der(
        0xa3,
        sequence(
          extension("2.5.29.17", false, sequence(...hosts.map(alternativeName))),
          extension("2.5.29.19", true, sequence(yes)),
          // digitalSignature and keyCertSign
          extension("2.5.29.15", true, der(0x03, Buffer.from([2, 0x84]))),
          // serverAuth and clientAuth
          extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1"), oid("1.3.6.1.5.5.7.3.2")))
        )
      )
    )
    const signature = sign("sha256", toBeSigned, privateKey)
    return {
      cert: pem(sequence(toBeSigned, ecdsaWithSha256, bits(signature))),
      key: privateKey.export({ type: "pkcs8", format: "pem" }).toString()
    }
  })
