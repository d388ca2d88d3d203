/**
 * Reads a container's log over any number of connections and delivers every byte once. Knows no I/O: bytes of a
 * `timestamps=true` answer go in, program output comes out.
 *
 * What it rests on (observed with kubelet 1.37.2): every record is stamped with 30 characters and a space; a resumption
 * with `sinceTime` is cut to whole seconds and returns, in the order of the file, the lines stamped since then; the
 * order of the file never changes, but stdout and stderr are not sorted by time against each other; an answer sees the
 * current file only. So after a cut the answer starts with lines that were delivered, and the first one that was not
 * ends the repetition; if the last line delivered was not among them, the file was rotated in between.
 *
 * @module
 */
import { DateTime, Option } from "effect"

/** What comes out, in order. */
export type Piece =
  | { readonly _tag: "Bytes"; readonly bytes: Uint8Array }
  /**
   * What was delivered last is not in the answer, so there may be lines missing, of unknown number: between the stamp
   * `after` (the last delivered) and `before` (the next one there is; undefined at the end of the log).
   */
  | { readonly _tag: "Discontinuity"; readonly after: string; readonly before: string | undefined }
  /** A sentence of the kubelet itself in a body that says success. `whole`: it is all there was. */
  | { readonly _tag: "Kubelet"; readonly text: string; readonly whole: boolean }

/** Options of a reader. */
export interface Options {
  /** Keep the stamps in the output. */
  readonly timestamps?: boolean | undefined
  /** Drop lines stamped earlier: 30 characters, as `stampOf` makes them. The server cuts to whole seconds. */
  readonly from?: string | undefined
}

/** A log being read. Belongs to one fiber. */
export interface Reader {
  /**
   * Begins a connection. `tail` says that its request had `tailLines`, so that what precedes its first line was left out
   * on purpose.
   */
  readonly open: (options?: { readonly tail?: boolean | undefined }) => void
  /** Bytes of the connection, cut anywhere. What is answered is a copy. */
  readonly push: (chunk: Uint8Array) => ReadonlyArray<Piece>
  /** The same for several chunks, answered in as few pieces as can be. */
  readonly pushAll: (chunks: Iterable<Uint8Array>) => ReadonlyArray<Piece>
  /**
   * The connection has ended. `final`: nothing will be read after it, so a last line without a newline is complete, and
   * its repetition must have reached the last line delivered.
   */
  readonly close: (final: boolean) => ReadonlyArray<Piece>
  /** `sinceTime` of the next request; undefined as long as nothing was delivered. */
  readonly resumeFrom: () => string | undefined
  /** Stamp of the first line delivered. */
  readonly first: () => string | undefined
  /** Stamp of the last line delivered. */
  readonly last: () => string | undefined
  /** Forgets the connection from the discontinuity of the last answer on: what it brought was another instance's. */
  readonly takeBack: () => void
  /** Whether a line was cut in the middle and waits for the rest. */
  readonly inLine: () => boolean
  /** Takes the lines of an answer as delivered without delivering them: what a follow with `tailLines=0` starts after. */
  readonly prime: (chunk: Uint8Array) => void
}

/**
 * How many delivered lines are remembered one by one. Streams were seen to be out of order by 420 lines; the rest is
 * margin. About 200 KB.
 */
export const remembered = 8192

const stampLength = 30
const prefixLength = stampLength + 1
const newline = 10
// Parts of a long line as the container runtimes store them
const partLength = 16_384
// Output is written into blocks of at most so many bytes, of which the pieces are parts
const blockLength = 262_144
// Longer text without a stamp is no sentence of the kubelet
const sentenceLength = 512

const template = "0000-00-00T00:00:00.000000000Z "
const templateCodes = Uint8Array.from(template, (character) => character.charCodeAt(0))
const digit = 48

const fitsStamp = (position: number, byte: number): boolean => {
  const expected = templateCodes[position]
  return expected === digit ? byte >= digit && byte <= digit + 9 : byte === expected
}

/** A stamp as numbers that sort as it does: all digits down to the second, and the nanoseconds. */
interface Moment {
  readonly second: number
  readonly nano: number
}

const isBefore = (a: Moment, b: Moment): boolean => a.second < b.second || (a.second === b.second && a.nano < b.nano)
const isSameMoment = (a: Moment, b: Moment): boolean => a.second === b.second && a.nano === b.nano

/** Reads the digits of bytes that fit the template; `from` to `to` excludes what is between them. */
const digitsIn = (bytes: Uint8Array, from: number, to: number): number => {
  let value = 0
  for (let index = from; index < to; index++) {
    const byte = bytes[index] ?? 0
    if (byte >= digit) {
      if (byte <= digit + 9) value = value * 10 + byte - digit
    }
  }
  return value
}
const momentIn = (bytes: Uint8Array, at: number): Moment => ({
  second: digitsIn(bytes, at, at + 19),
  nano: digitsIn(bytes, at + 20, at + 29)
})
const momentOf = (stamp: string): Moment => momentIn(new TextEncoder().encode(stamp), 0)

const stampText = ({ second, nano }: Moment): string => {
  const all = String(second).padStart(14, "0")
  const date = `${all.slice(0, 4)}-${all.slice(4, 6)}-${all.slice(6, 8)}`
  return `${date}T${all.slice(8, 10)}:${all.slice(10, 12)}:${all.slice(12)}.${String(nano).padStart(9, "0")}Z`
}

const text = (bytes: Uint8Array): string => String.fromCharCode(...bytes)

// https://github.com/kubernetes/kubernetes: pkg/kubelet writes these into a body whose status was sent already
const wholeSentences = [
  /^unable to retrieve container logs for [a-z-]+:\/\/[0-9a-f]+$/,
  /^failed to try resolving symlinks in path "/
]
const brokenFollow = /^failed to create fsnotify watcher: /

/** Whether a text is a sentence with which a kubelet replaces a whole log that it cannot read. */
export const isUnreadable = (sentence: string): boolean => wholeSentences.some((it) => it.test(sentence))

/** An RFC 3339 time as the stamps are written: UTC, nine digits. Undefined when it is not one. */
export const stampOf = (time: string): string | undefined => {
  const fraction = /^[^.]*\.([0-9]{1,9})[0-9]*(?=Z|z|[+-])/.exec(time)?.[1] ?? ""
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$/.test(time)) return undefined
  return Option.getOrUndefined(
    Option.map(DateTime.make(time.toUpperCase()), (parsed) => {
      const iso = DateTime.formatIso(parsed)
      return `${iso.slice(0, 19)}.${fraction.padEnd(9, "0")}Z`
    })
  )
}

/** The whole second one second before a stamp: streams can be out of order across the turn of a second. */
const overlapStart = (stamp: string): string =>
  Option.match(DateTime.make(`${stamp.slice(0, 19)}Z`), {
    onNone: () => stamp,
    onSome: (second) => `${DateTime.formatIso(DateTime.subtract(second, { seconds: 1 })).slice(0, 19)}Z`
  })

/** Whether four bytes, read as one little-endian number, are all digits. */
const areDigits = (word: number): boolean =>
  (word & 0xf0f0f0f0) === (0x30303030 | 0) && ((word + 0x06060606) & 0xf0f0f0f0) === (0x30303030 | 0)
/** The number that such four digits are. */
const numberIn = (word: number): number =>
  (word & 15) * 1000 + ((word >>> 8) & 15) * 100 + ((word >>> 16) & 15) * 10 + ((word >>> 24) & 15)

const newlines = 0x0a0a0a0a
/** Whether one of four bytes is a newline: it becomes zero, and only a zero byte borrows. */
const hasNewline = (word: number): boolean => {
  const zeroed = word ^ newlines
  return ((zeroed - 0x01010101) & ~zeroed & 0x80808080) !== 0
}

/** Where the first newline of a word is that has one. */
const newlineIn = (word: number): number => {
  const zeroed = word ^ newlines
  return (zeroed & 0xff) === 0 ? 0 : (zeroed & 0xff00) === 0 ? 1 : (zeroed & 0xff0000) === 0 ? 2 : 3
}

/** What is remembered of a line that was delivered. */
interface Known extends Moment {
  readonly length: number
  readonly hash: number
}

/** A line that is being read. Four bytes at a time go into the hash; `rest` holds those that wait for the fourth. */
interface Line extends Moment {
  length: number
  hash: number
  rest: number
}

const hashStart = 0x811c9dc5 | 0
const hashStep = (hash: number, word: number): number => Math.imul(((hash << 5) | (hash >>> 27)) ^ word, 0x01000193)
const known = ({ second, nano, length, hash, rest }: Line): Known => ({
  second,
  nano,
  length,
  hash: hashStep(hash, rest)
})

/** Adds bytes to a line. */
const extend = (line: Line, bytes: Uint8Array): void => {
  let { length, hash, rest } = line
  for (let index = 0; index < bytes.length; index++) {
    rest |= (bytes[index] ?? 0) << (8 * (length & 3))
    length++
    if ((length & 3) === 0) {
      hash = hashStep(hash, rest)
      rest = 0
    }
  }
  line.length = length
  line.hash = hash
  line.rest = rest
}

const momentKey = ({ second, nano }: Moment): string => `${second} ${nano}`
const keyOf = (line: Known): string => `${line.second} ${line.nano} ${line.length} ${line.hash >>> 0}`

const bump = (counts: Map<string, number>, key: string, by: number): void => {
  const next = (counts.get(key) ?? 0) + by
  if (next === 0) counts.delete(key)
  else counts.set(key, next)
}

type Mode =
  /** In the stamp, or in a line that has none. */
  | "stamp"
  | "unstamped"
  /** A line that was delivered, or that nobody asked for. */
  | "skip"
  /** The beginning of the line that was cut. */
  | "verify"
  | "deliver"
  /** A line without a stamp: delivered, or dropped, but not remembered. */
  | "deliver-unstamped"
  | "skip-unstamped"

/** Before every stamp. */
const never: Moment = { second: -1, nano: 0 }

/** The lines delivered last, without an object for each. */
interface Ring {
  readonly seconds: Float64Array
  readonly nanos: Uint32Array
  readonly lengths: Float64Array
  readonly hashes: Int32Array
}

const makeRing = (): Ring => ({
  seconds: new Float64Array(remembered),
  nanos: new Uint32Array(remembered),
  lengths: new Float64Array(remembered),
  hashes: new Int32Array(remembered)
})

/** What a reader remembers of the lines that were delivered. */
interface Memory {
  readonly ring: Ring
  readonly delivered: number
  readonly floor: Moment
  readonly floorSince: number
  readonly first: Moment | undefined
  readonly lastSecond: number
  readonly lastNano: number
  readonly cut: Line | undefined
  readonly startsAt: Moment | undefined
}

const lineIn = ({ seconds, nanos, lengths, hashes }: Ring, slot: number): Known => ({
  second: seconds[slot] ?? 0,
  nano: nanos[slot] ?? 0,
  length: lengths[slot] ?? 0,
  hash: hashes[slot] ?? 0
})

/** A reader of one container instance's log. */
export const make = (options: Options = {}): Reader => {
  // What was delivered: the newest lines one by one, in a ring; older ones as "stamped up to here"
  const ring = makeRing()
  const { seconds, nanos, lengths, hashes } = ring
  let delivered = 0
  let floor = never
  let floorSince = 0
  let first: Moment | undefined
  // Of the line delivered last; a negative second before the first one
  let lastSecond = -1
  let lastNano = 0
  let cut: Line | undefined
  let startsAt: Moment | undefined
  const from = options.from === undefined ? never : momentOf(options.from)

  // The same as it was before the discontinuity of the last answer
  let before: Memory | undefined

  // The connection
  let mode: Mode = "stamp"
  let repeating = false
  let tail = false
  let matched = false
  let continuous = true
  let stamped = false
  let lastKey: string | undefined
  let pending = new Map<string, number>()
  let pendingStamps = new Map<string, number>()
  let line: Line | undefined
  const head = new Uint8Array(sentenceLength)
  let headLength = 0
  let joining = false

  // The answer to one call. The consumer keeps what it gets: a block is written once, its pieces follow one another
  let pieces: Array<Piece> = []
  let block = new Uint8Array(0)
  let view = new DataView(block.buffer)
  let flushed = 0
  let written = 0

  const flush = (): void => {
    if (written === flushed) return
    pieces.push({ _tag: "Bytes", bytes: block.subarray(flushed, written) })
    flushed = written
  }
  /** Makes room for so many bytes. Blocks grow with the log: one of a few lines must not cost a large one. */
  const reserve = (length: number): void => {
    if (block.length - written >= length) return
    flush()
    block = new Uint8Array(Math.max(length, Math.min(blockLength, 2 * block.length)))
    view = new DataView(block.buffer)
    flushed = 0
    written = 0
  }
  const write = (bytes: Uint8Array): void => {
    reserve(bytes.length)
    block.set(bytes, written)
    written += bytes.length
  }
  const discontinuity = (next: string | undefined, unfinished: Line | undefined): void => {
    flush()
    before ??= {
      ring: { seconds: seconds.slice(), nanos: nanos.slice(), lengths: lengths.slice(), hashes: hashes.slice() },
      delivered,
      floor,
      floorSince,
      first,
      lastSecond,
      lastNano,
      cut: unfinished,
      startsAt
    }
    pieces.push({
      _tag: "Discontinuity",
      after: lastSecond < 0 ? "" : stampText({ second: lastSecond, nano: lastNano }),
      before: next
    })
    continuous = true
  }

  const remember = (second: number, nano: number, length: number, hash: number): void => {
    const slot = delivered % remembered
    if (delivered >= remembered && delivered - remembered >= floorSince) {
      const [goneSecond, goneNano] = [seconds[slot] ?? 0, nanos[slot] ?? 0]
      if (floor.second < goneSecond || (floor.second === goneSecond && floor.nano < goneNano)) {
        floor = { second: goneSecond, nano: goneNano }
      }
    }
    seconds[slot] = second
    nanos[slot] = nano
    lengths[slot] = length
    hashes[slot] = hash
    delivered++
  }

  /** A line whose stamp this is begins to be delivered. */
  const start = (second: number, nano: number): void => {
    // The node's clock went back: from here on time tells nothing about what came before
    if (second < floor.second || (second === floor.second && nano <= floor.nano)) {
      floor = never
      floorSince = delivered
    }
    first ??= { second, nano }
    if (tail) startsAt ??= { second, nano }
    lastSecond = second
    lastNano = nano
  }

  /** What comes now was not delivered. A connection may last for days: it need not keep what it was compared with. */
  const repeated = (): void => {
    repeating = false
    pending = new Map()
    pendingStamps = new Map()
  }

  const begin = (moment: Moment): void => {
    const { second, nano } = moment
    line = { second, nano, length: 0, hash: hashStart, rest: 0 }
    stamped = true
    if (isBefore(moment, from)) {
      mode = "skip"
      return
    }
    if (repeating) {
      if ((pendingStamps.get(momentKey(moment)) ?? 0) > 0) {
        mode = "skip"
        return
      }
      if (cut !== undefined && isSameMoment(cut, moment)) {
        mode = "verify"
        verified()
        return
      }
      // Left out by `tailLines` at the start, or delivered so long ago that only its time is remembered
      if ((!matched && startsAt !== undefined && isBefore(moment, startsAt)) || !isBefore(floor, moment)) {
        mode = "skip"
        return
      }
      repeated()
      if (!continuous) discontinuity(stampText(moment), cut)
      cut = undefined
    }
    start(second, nano)
    mode = "deliver"
    if (options.timestamps === true) write(head.subarray(0, prefixLength))
  }

  const verified = (): void => {
    if (line === undefined || cut === undefined || line.length < cut.length) return
    const unfinished = cut
    const same = line.hash === unfinished.hash && line.rest === unfinished.rest
    cut = undefined
    repeated()
    if (same) continuous = true
    else discontinuity(stampText(line), unfinished)
    mode = "deliver"
  }

  const content = (bytes: Uint8Array): void => {
    if (mode === "deliver-unstamped") write(bytes)
    if (line === undefined || mode === "skip-unstamped" || mode === "deliver-unstamped") return
    let rest = bytes
    if (mode === "verify" && cut !== undefined) {
      const old = rest.subarray(0, cut.length - line.length)
      extend(line, old)
      rest = rest.subarray(old.length)
      verified()
      if (rest.length === 0) return
    }
    extend(line, rest)
    if (mode === "deliver") write(rest)
  }

  const newlineBytes = Uint8Array.of(newline)
  const endLine = (): void => {
    if (mode === "deliver" || mode === "deliver-unstamped") write(newlineBytes)
    if (line !== undefined && mode === "deliver") {
      remember(line.second, line.nano, line.length, known(line).hash)
    }
    if (line !== undefined && mode === "skip") {
      const key = keyOf(known(line))
      if ((pending.get(key) ?? 0) > 0) {
        bump(pending, key, -1)
        bump(pendingStamps, momentKey(line), -1)
        matched = true
        if (key === lastKey && cut === undefined) continuous = true
      }
    }
    if (line !== undefined && mode === "verify") {
      // Shorter than what was delivered of it: another line with the same stamp
      const unfinished = cut
      cut = undefined
      repeated()
      discontinuity(stampText(line), unfinished)
    }
    line = undefined
    mode = "stamp"
    headLength = 0
    joining = false
  }

  /** Text without a stamp: the rest of a line whose first part lies before `sinceTime`, or the kubelet's own words. */
  const settleUnstamped = (ended: boolean, final: boolean): void => {
    const held = head.subarray(0, headLength)
    const sentence = text(held)
    const whole = !stamped
    headLength = 0
    if (brokenFollow.test(sentence) || (ended && whole && isUnreadable(sentence))) {
      flush()
      pieces.push({ _tag: "Kubelet", text: sentence, whole })
      mode = "skip-unstamped"
      return
    }
    mode = (ended && !final) || repeating ? "skip-unstamped" : "deliver-unstamped"
    content(held)
  }

  const takeHead = (chunk: Uint8Array, start: number): number => {
    let at = start
    if (mode === "stamp" && headLength === 0 && chunk.length - start >= prefixLength) {
      let fits = 0
      while (fits < prefixLength && fitsStamp(fits, chunk[start + fits] ?? 0)) fits++
      if (fits === prefixLength) {
        head.set(chunk.subarray(start, start + prefixLength))
        begin(momentIn(head, 0))
        return start + prefixLength
      }
    }
    while (at < chunk.length) {
      const byte = chunk[at] ?? 0
      if (mode === "stamp") {
        if (fitsStamp(headLength, byte)) {
          head[headLength++] = byte
          at++
          if (headLength === prefixLength) {
            begin(momentIn(head, 0))
            headLength = 0
            return at
          }
          continue
        }
        mode = "unstamped"
      }
      if (byte === newline || headLength === sentenceLength) {
        settleUnstamped(false, false)
        return at
      }
      head[headLength++] = byte
      at++
    }
    return at
  }

  /** Before 1.34 a kubelet could stamp each part of a long line: such a stamp at the seam of two parts is dropped. */
  const takeSeam = (chunk: Uint8Array, start: number): number => {
    let at = start
    while (at < chunk.length) {
      const byte = chunk[at] ?? 0
      if (fitsStamp(headLength, byte)) {
        head[headLength++] = byte
        at++
        if (headLength < prefixLength) continue
        joining = false
        if (line !== undefined && isBefore(momentIn(head, 0), line)) content(head.slice(0, headLength))
      } else {
        joining = false
        content(head.slice(0, headLength))
      }
      headLength = 0
      return at
    }
    return at
  }

  // The stamp that `takeLines` saw last, up to its point, as five numbers: most lines share a second with the one before
  let stamp0 = 0
  let stamp1 = 0
  let stamp2 = 0
  let stamp3 = 0
  let stamp4 = 0
  let stampSecond = -1

  /** The second of the stamp at a place, negative when there is no stamp. Its fraction is not looked at. */
  const secondAt = (chunk: Uint8Array, source: DataView, at: number): number => {
    const [word0, word1, word2] = [source.getInt32(at), source.getInt32(at + 4), source.getInt32(at + 8)]
    const [word3, word4] = [source.getInt32(at + 12), source.getInt32(at + 16)]
    if (
      stampSecond >= 0 &&
      word4 === stamp4 &&
      word3 === stamp3 &&
      word2 === stamp2 &&
      word1 === stamp1 &&
      word0 === stamp0
    ) {
      return stampSecond
    }
    for (let position = 0; position < 20; position++) if (!fitsStamp(position, chunk[at + position] ?? 0)) return -1
    stamp0 = word0
    stamp1 = word1
    stamp2 = word2
    stamp3 = word3
    stamp4 = word4
    stampSecond = digitsIn(chunk, at, at + 19)
    return stampSecond
  }

  /**
   * Delivers whole lines as long as nothing about them is special, which is nearly always: the same as the steps above
   * do one by one, at four bytes a time. Answers where the first line begins that it leaves to them.
   */
  const takeLines = (chunk: Uint8Array, startAt: number): number => {
    const size = chunk.length
    if (size - startAt <= prefixLength) return startAt
    // A last word reaches beyond its line
    reserve(size - startAt + 4)
    const source = new DataView(chunk.buffer, chunk.byteOffset, size)
    const target = view
    const bytes = block
    const lastWord = size - 4
    let at = startAt
    while (size - at > prefixLength) {
      const second = secondAt(chunk, source, at)
      if (second < 0) return at
      const upper = source.getInt32(at + 20, true)
      const lower = source.getInt32(at + 24, true)
      const last = chunk[at + 28] ?? 0
      if (!areDigits(upper) || !areDigits(lower) || !fitsStamp(28, last)) return at
      if (!fitsStamp(29, chunk[at + 29] ?? 0) || !fitsStamp(30, chunk[at + 30] ?? 0)) return at
      const nano = numberIn(upper) * 100_000 + numberIn(lower) * 10 + last - digit
      if (second < from.second || (second === from.second && nano < from.nano)) return at
      const begins = at + prefixLength
      let to = written
      if (options.timestamps === true) for (let index = at; index < begins; index++) bytes[to++] = chunk[index] ?? 0
      let hash = hashStart
      let end = begins
      let rest = 0
      let isWhole = false
      while (end <= lastWord) {
        const word = source.getInt32(end, true)
        // What of the last word is no part of the line is written over by the next one
        target.setInt32(to, word, true)
        if (hasNewline(word)) {
          const count = newlineIn(word)
          rest = word & ((1 << (8 * count)) - 1)
          end += count
          to += count
          isWhole = true
          break
        }
        hash = hashStep(hash, word)
        end += 4
        to += 4
      }
      // Fewer than four bytes are left of the chunk
      for (; !isWhole && end < size; end++, to++) {
        const byte = chunk[end] ?? 0
        bytes[to] = byte
        if (byte === newline) isWhole = true
        else rest |= byte << (8 * ((end - begins) & 3))
        if (isWhole) break
      }
      if (!isWhole || end - begins >= partLength) return at
      written = to + 1
      stamped = true
      start(second, nano)
      remember(second, nano, end - begins, hashStep(hash, rest))
      at = end + 1
    }
    return at
  }

  const consume = (chunk: Uint8Array): void => {
    let at = 0
    while (at < chunk.length) {
      if (mode === "stamp" && headLength === 0 && !repeating) {
        at = takeLines(chunk, at)
        if (at === chunk.length) return
      }
      if (mode === "stamp" || mode === "unstamped") {
        at = takeHead(chunk, at)
        continue
      }
      if (joining) {
        at = takeSeam(chunk, at)
        continue
      }
      if (chunk[at] === newline) {
        endLine()
        at++
        continue
      }
      const next = chunk.indexOf(newline, at)
      const end = next === -1 ? chunk.length : next
      const seam = line === undefined ? chunk.length : at + partLength - (line.length % partLength)
      const until = Math.min(end, seam)
      content(chunk.subarray(at, until))
      at = until
      if (line !== undefined && line.length > 0 && line.length % partLength === 0) joining = true
    }
  }

  const answer = (): ReadonlyArray<Piece> => {
    flush()
    const result = pieces
    pieces = []
    return result
  }

  const open: Reader["open"] = (connection = {}) => {
    before = undefined
    repeating = lastSecond >= 0
    continuous = !repeating
    tail = connection.tail === true && !repeating
    matched = false
    stamped = false
    pending = new Map()
    pendingStamps = new Map()
    for (let slot = 0; slot < Math.min(delivered, remembered); slot++) {
      const past = lineIn(ring, slot)
      bump(pending, keyOf(past), 1)
      bump(pendingStamps, momentKey(past), 1)
    }
    lastKey = delivered === 0 ? undefined : keyOf(lineIn(ring, (delivered - 1) % remembered))
    line = undefined
    mode = "stamp"
    headLength = 0
    joining = false
  }

  const pushAll: Reader["pushAll"] = (chunks) => {
    before = undefined
    for (const chunk of chunks) consume(chunk)
    return answer()
  }
  const push: Reader["push"] = (chunk) => pushAll([chunk])

  return {
    open,
    push,
    pushAll,
    close: (final) => {
      before = undefined
      if ((mode === "stamp" || mode === "unstamped") && headLength > 0) settleUnstamped(true, final)
      if (joining && final) content(head.slice(0, headLength))
      if (mode === "deliver" && line !== undefined) cut = line
      else if (mode === "skip" && line !== undefined && final) endLine()
      if (final && !continuous) discontinuity(undefined, cut)
      line = undefined
      mode = "stamp"
      headLength = 0
      joining = false
      return answer()
    },
    resumeFrom: () => (lastSecond < 0 ? undefined : overlapStart(stampText({ second: lastSecond, nano: lastNano }))),
    first: () => (first === undefined ? undefined : stampText(first)),
    last: () => (lastSecond < 0 ? undefined : stampText({ second: lastSecond, nano: lastNano })),
    takeBack: () => {
      if (before === undefined) return
      seconds.set(before.ring.seconds)
      nanos.set(before.ring.nanos)
      lengths.set(before.ring.lengths)
      hashes.set(before.ring.hashes)
      ;({ delivered, floor, floorSince, first, lastSecond, lastNano, cut, startsAt } = before)
      before = undefined
    },
    inLine: () => cut !== undefined,
    prime: (chunk) => {
      open({ tail: true })
      push(chunk)
      if (mode === "deliver" && line !== undefined) cut = line
    }
  }
}
