/**
 * SHA-1 of short texts (JobSet's `job-key`). Pure, so that it runs wherever the testkit does.
 *
 * @module
 */

const rotate = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits))

const utf8 = (text: string): Array<number> => {
  const bytes: Array<number> = []
  for (const character of encodeURIComponent(text).match(/%..|[^%]/g) ?? []) {
    bytes.push(character.length === 3 ? Number.parseInt(character.slice(1), 16) : character.charCodeAt(0))
  }
  return bytes
}

/** The SHA-1 digest of a text's UTF-8 bytes, in hex. https://www.rfc-editor.org/rfc/rfc3174 */
export const hex = (text: string): string => {
  const bytes = utf8(text)
  const bits = bytes.length * 8
  bytes.push(0x80)
  while (bytes.length % 64 !== 56) bytes.push(0)
  for (const shift of [56, 48, 40, 32]) bytes.push(Math.floor(bits / 2 ** shift) & 0xff)
  for (const shift of [24, 16, 8, 0]) bytes.push((bits >>> shift) & 0xff)
  let state: readonly [number, number, number, number, number] = [
    0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0
  ]
  for (let block = 0; block < bytes.length; block += 64) {
    const words = Array.from({ length: 80 }, () => 0)
    for (let index = 0; index < 16; index++) {
      words[index] = [0, 1, 2, 3].reduce((word, byte) => (word << 8) | (bytes[block + index * 4 + byte] ?? 0), 0)
    }
    for (let index = 16; index < 80; index++) {
      words[index] = rotate(
        (words[index - 3] ?? 0) ^ (words[index - 8] ?? 0) ^ (words[index - 14] ?? 0) ^ (words[index - 16] ?? 0),
        1
      )
    }
    let [a, b, c, d, e] = state
    for (let index = 0; index < 80; index++) {
      const [f, k] =
        index < 20
          ? [(b & c) | (~b & d), 0x5a827999]
          : index < 40
            ? [b ^ c ^ d, 0x6ed9eba1]
            : index < 60
              ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
              : [b ^ c ^ d, 0xca62c1d6]
      const next = (rotate(a, 5) + f + e + k + (words[index] ?? 0)) | 0
      e = d
      d = c
      c = rotate(b, 30)
      b = a
      a = next
    }
    state = [(state[0] + a) | 0, (state[1] + b) | 0, (state[2] + c) | 0, (state[3] + d) | 0, (state[4] + e) | 0]
  }
  return state.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("")
}
