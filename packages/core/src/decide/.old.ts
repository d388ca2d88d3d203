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
  /** Bytes of the connection, cut anywhere. */
  readonly push: (chunk: Uint8Array) => ReadonlyArray<Piece>
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
  /** Whether a line was cut in the middle and waits for the rest. */
  readonly inLine: () => boolean
  /** Takes the lines of an answer as delivered without delivering them: what a follow with `tailLines=0` starts after. */
  readonly prime: (chunk: Uint8Array) => void
}

/**
 * How many delivered lines are remembered one by one. Streams were seen to be out of order by 420 lines; the rest is
 * margin. About one megabyte at most.
 */
export const remembered = 8192

const stampLength = 30
const prefixLength = stampLength + 1
const newline = 10
// Parts of a long line as the container runtimes store them
const partLength = 16_384
// Longer text without a stamp is no sentence of the kubelet
const sentenceLength = 512

const template = "0000-00-00T00:00:00.000000000Z "
const templateCodes = Uint8Array.from(template, (character) => character.charCodeAt(0))
const digit = 48

const fitsStamp = (position: number, byte: number): boolean => {
  const expected = templateCodes[position]
  return expected === digit ? byte >= digit && byte <= digit + 9 : byte === expected
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

interface Line {
  readonly stamp: string
  length: number
  hash: number
}

const hashStart = 0x811c9dc5
const hashStep = (hash: number, byte: number): number => Math.imul(hash ^ byte, 0x01000193)
const keyOf = (line: Line): string => `${line.stamp} ${line.length} ${line.hash >>> 0}`

const hashOf = (start: number, bytes: Uint8Array): number => {
  let hash = start
  for (let index = 0; index < bytes.length; index++) hash = hashStep(hash, bytes[index] ?? 0)
  return hash
}

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

/** A reader of one container instance's log. */
export const make = (options: Options = {}): Reader => {
  // What was delivered: the newest lines one by one, in a ring; older ones as "stamped up to here"
  const ring: Array<Line> = []
  let delivered = 0
  let floor = ""
  let floorSince = 0
  let firstStamp: string | undefined
  let lastStamp: string | undefined
  let cut: Line | undefined
  let startsAt: string | undefined

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

  // The answer to one call
  let pieces: Array<Piece> = []
  let out = new Uint8Array(0)
  let outLength = 0

  const flush = (): void => {
    if (outLength > 0) pieces.push({ _tag: "Bytes", bytes: out.slice(0, outLength) })
    outLength = 0
  }
  const write = (bytes: Uint8Array): void => {
    if (outLength + bytes.length > out.length) {
      flush()
      if (bytes.length > out.length) out = new Uint8Array(bytes.length)
    }
    out.set(bytes, outLength)
    outLength += bytes.length
  }
  const discontinuity = (before: string | undefined): void => {
    flush()
    pieces.push({ _tag: "Discontinuity", after: lastStamp ?? "", before })
    continuous = true
  }

  const remember = (done: Line): void => {
    const slot = delivered % remembered
    const gone = ring[slot]
    if (gone !== undefined && delivered - remembered >= floorSince && gone.stamp > floor) floor = gone.stamp
    ring[slot] = done
    delivered++
  }

  const begin = (stamp: string): void => {
    line = { stamp, length: 0, hash: hashStart }
    stamped = true
    if (options.from !== undefined && stamp < options.from) {
      mode = "skip"
      return
    }
    if (repeating) {
      if ((pendingStamps.get(stamp) ?? 0) > 0) {
        mode = "skip"
        return
      }
      if (cut?.stamp === stamp) {
        mode = "verify"
        verified()
        return
      }
      // Left out by `tailLines` at the start, or delivered so long ago that only its time is remembered
      if ((!matched && startsAt !== undefined && stamp < startsAt) || stamp <= floor) {
        mode = "skip"
        return
      }
      repeating = false
      if (!continuous) discontinuity(stamp)
      cut = undefined
    }
    // The node's clock went back: from here on time tells nothing about what came before
    if (stamp <= floor) {
      floor = ""
      floorSince = delivered
    }
    firstStamp ??= stamp
    if (tail) startsAt ??= stamp
    lastStamp = stamp
    mode = "deliver"
    if (options.timestamps === true) write(head.subarray(0, prefixLength))
  }

  const verified = (): void => {
    if (line === undefined || cut === undefined || line.length < cut.length) return
    const same = line.hash === cut.hash
    cut = undefined
    repeating = false
    if (same) continuous = true
    else discontinuity(line.stamp)
    mode = "deliver"
  }

  const content = (bytes: Uint8Array): void => {
    if (mode === "deliver-unstamped") write(bytes)
    if (line === undefined || mode === "skip-unstamped" || mode === "deliver-unstamped") return
    let rest = bytes
    if (mode === "verify" && cut !== undefined) {
      const old = rest.subarray(0, cut.length - line.length)
      line.hash = hashOf(line.hash, old)
      line.length += old.length
      rest = rest.subarray(old.length)
      verified()
      if (rest.length === 0) return
    }
    line.hash = hashOf(line.hash, rest)
    line.length += rest.length
    if (mode === "deliver") write(rest)
  }

  const newlineBytes = Uint8Array.of(newline)
  const endLine = (): void => {
    if (mode === "deliver" || mode === "deliver-unstamped") write(newlineBytes)
    if (line !== undefined && mode === "deliver") remember(line)
    if (line !== undefined && mode === "skip") {
      const key = keyOf(line)
      if ((pending.get(key) ?? 0) > 0) {
        bump(pending, key, -1)
        bump(pendingStamps, line.stamp, -1)
        matched = true
        if (key === lastKey && cut === undefined) continuous = true
      }
    }
    if (line !== undefined && mode === "verify") {
      // Shorter than what was delivered of it: another line with the same stamp
      cut = undefined
      repeating = false
      discontinuity(line.stamp)
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
        begin(text(head.subarray(0, stampLength)))
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
            begin(text(head.subarray(0, stampLength)))
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
        if (line !== undefined && text(head.subarray(0, stampLength)) < line.stamp) content(head.slice(0, headLength))
      } else {
        joining = false
        content(head.slice(0, headLength))
      }
      headLength = 0
      return at
    }
    return at
  }

  const consume = (chunk: Uint8Array): void => {
    let at = 0
    while (at < chunk.length) {
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
    repeating = lastStamp !== undefined
    continuous = !repeating
    tail = connection.tail === true && !repeating
    matched = false
    stamped = false
    pending = new Map()
    pendingStamps = new Map()
    for (const line of ring) {
      bump(pending, keyOf(line), 1)
      bump(pendingStamps, line.stamp, 1)
    }
    const last = delivered === 0 ? undefined : ring[(delivered - 1) % remembered]
    lastKey = last === undefined ? undefined : keyOf(last)
    line = undefined
    mode = "stamp"
    headLength = 0
    joining = false
  }

  const push: Reader["push"] = (chunk) => {
    if (out.length < chunk.length + sentenceLength) out = new Uint8Array(chunk.length + sentenceLength)
    consume(chunk)
    return answer()
  }

  return {
    open,
    push,
    close: (final) => {
      if (out.length < sentenceLength) out = new Uint8Array(sentenceLength)
      if ((mode === "stamp" || mode === "unstamped") && headLength > 0) settleUnstamped(true, final)
      if (joining && final) content(head.slice(0, headLength))
      if (mode === "deliver" && line !== undefined) cut = line
      else if (mode === "skip" && line !== undefined && final) endLine()
      if (final && !continuous) discontinuity(undefined)
      line = undefined
      mode = "stamp"
      headLength = 0
      joining = false
      return answer()
    },
    resumeFrom: () => (lastStamp === undefined ? undefined : overlapStart(lastStamp)),
    first: () => firstStamp,
    last: () => lastStamp,
    inLine: () => cut !== undefined,
    prime: (chunk) => {
      open({ tail: true })
      push(chunk)
      if (mode === "deliver" && line !== undefined) cut = line
    }
  }
}
