/**
 * Label and field selectors as values: built, printed, parsed and matched. Parsing refuses what the API server refuses,
 * with its words.
 *
 * @module
 */
import { Either } from "effect"

/** One requirement of a label selector. `values` is empty for `exists` and `notExists`. */
export interface LabelRequirement {
  readonly key: string
  readonly operator: "in" | "notIn" | "exists" | "notExists" | "gt" | "lt"
  readonly values: ReadonlyArray<string>
}

/** A label selector: all requirements must hold. Empty matches everything. */
export type LabelSelector = ReadonlyArray<LabelRequirement>

/** One requirement of a field selector. */
export interface FieldRequirement {
  readonly field: string
  readonly operator: "=" | "!="
  readonly value: string
}

/** A field selector: all requirements must hold. Empty matches everything. */
export type FieldSelector = ReadonlyArray<FieldRequirement>

/** Labels that must have exactly these values. */
export const labels = (wanted: { readonly [key: string]: string }): LabelSelector =>
  Object.entries(wanted).map(([key, value]) => ({ key, operator: "in", values: [value] }))

/** A label that must be there, with any value. */
export const labelExists = (key: string): LabelSelector => [{ key, operator: "exists", values: [] }]

/** A label with one of these values. */
export const labelIn = (key: string, values: ReadonlyArray<string>): LabelSelector => [{ key, operator: "in", values }]

/** Fields that must have exactly these values. */
export const fields = (wanted: { readonly [field: string]: string }): FieldSelector =>
  Object.entries(wanted).map(([field, value]) => ({ field, operator: "=", value }))

/** The selector as the `labelSelector` query parameter; `undefined` when it is empty. */
export const formatLabels = (selector: LabelSelector): string | undefined =>
  selector.length === 0
    ? undefined
    : selector
        .map(({ key, operator, values }) => {
          switch (operator) {
            case "in":
              return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.join(",")})`
            case "notIn":
              return values.length === 1 ? `${key}!=${values[0]}` : `${key} notin (${values.join(",")})`
            case "exists":
              return key
            case "notExists":
              return `!${key}`
            case "gt":
              return `${key}>${values[0]}`
            case "lt":
              return `${key}<${values[0]}`
          }
        })
        .join(",")

// k8s.io/apimachinery/pkg/fields: `\`, `,` and `=` in a value are escaped with a backslash
const escapeField = (value: string): string => value.replace(/[\\,=]/g, (character) => `\\${character}`)

/** The selector as the `fieldSelector` query parameter; `undefined` when it is empty. */
export const formatFields = (selector: FieldSelector): string | undefined =>
  selector.length === 0
    ? undefined
    : selector.map(({ field, operator, value }) => `${field}${operator}${escapeField(value)}`).join(",")

/** Whether an object's labels satisfy the selector. `notIn` and `notExists` hold for a missing key, as upstream. */
export const matchesLabels = (
  selector: LabelSelector,
  objectLabels: { readonly [key: string]: string } | null | undefined
): boolean =>
  selector.every(({ key, operator, values }) => {
    const value = objectLabels?.[key]
    switch (operator) {
      case "in":
        return value !== undefined && values.includes(value)
      case "notIn":
        return value === undefined || !values.includes(value)
      case "exists":
        return value !== undefined
      case "notExists":
        return value === undefined
      case "gt":
        return value !== undefined && /^-?\d+$/.test(value) && BigInt(value) > BigInt(values[0] ?? "0")
      case "lt":
        return value !== undefined && /^-?\d+$/.test(value) && BigInt(value) < BigInt(values[0] ?? "0")
    }
  })

/** Whether field values satisfy the selector. `read` gives the value of a field, `""` when it is not set. */
export const matchesFields = (selector: FieldSelector, read: (field: string) => string): boolean =>
  selector.every(({ field, operator, value }) => (operator === "=" ? read(field) === value : read(field) !== value))

interface Token {
  readonly kind: "identifier" | "symbol" | "end"
  readonly text: string
}

const symbols = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"]

const tokenize = (text: string): ReadonlyArray<Token> => {
  const tokens: Array<Token> = []
  let index = 0
  while (index < text.length) {
    const character = text[index] ?? ""
    if (/\s/.test(character)) {
      index += 1
      continue
    }
    const symbol = symbols.find((candidate) => text.startsWith(candidate, index))
    if (symbol !== undefined) {
      tokens.push({ kind: "symbol", text: symbol })
      index += symbol.length
      continue
    }
    let end = index
    while (end < text.length && !/[\s!=(),<>]/.test(text[end] ?? "")) end += 1
    tokens.push({ kind: "identifier", text: text.slice(index, end) })
    index = end
  }
  tokens.push({ kind: "end", text: "" })
  return tokens
}

const labelValue = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/
const qualifiedName = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

const subdomainText =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
const nameText =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
const valueText =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"

const keyProblem = (key: string): string | undefined => {
  const slash = key.indexOf("/")
  const prefix = slash < 0 ? undefined : key.slice(0, slash)
  const name = slash < 0 ? key : key.slice(slash + 1)
  if (prefix !== undefined && (prefix.length > 253 || !subdomain.test(prefix))) {
    return `<nil>: Invalid value: "${key}": prefix part ${subdomainText}`
  }
  if (name.length === 0) return `<nil>: Invalid value: "${key}": name part must be non-empty`
  if (name.length > 63) return `<nil>: Invalid value: "${key}": name part must be no more than 63 bytes`
  if (!qualifiedName.test(name)) {
    return `<nil>: Invalid value: "${key}": name part ${nameText}`
  }
  return undefined
}

const valueProblem = (key: string, value: string): string | undefined => {
  if (value.length > 63) return `values[0][${key}]: Invalid value: "${value}": must be no more than 63 bytes`
  if (!labelValue.test(value)) {
    return `values[0][${key}]: Invalid value: "${value}": ${valueText}`
  }
  return undefined
}

/** Parses a `labelSelector` parameter. Left is the API server's 400 message. */
export const parseLabels = (text: string): Either.Either<LabelSelector, string> => {
  const tokens = tokenize(text)
  let position = 0
  const peek = (): Token => tokens[position] ?? { kind: "end", text: "" }
  const next = (): Token => {
    const token = peek()
    position += 1
    return token
  }
  const unable = (problem: string): Either.Either<never, string> =>
    Either.left(`unable to parse requirement: ${problem}`)
  const requirements: Array<LabelRequirement> = []
  if (peek().kind === "end") return Either.right([])
  for (;;) {
    const start = peek()
    if (start.kind !== "identifier" && start.text !== "!") {
      return Either.left(`found '${start.text}', expected: !, identifier, or 'end of string'`)
    }
    const negated = peek().kind === "symbol" && peek().text === "!"
    if (negated) next()
    const keyToken = next()
    if (keyToken.kind !== "identifier") return unable(`found '${keyToken.text}', expected: identifier`)
    const key = keyToken.text
    const badKey = keyProblem(key)
    if (badKey !== undefined) return unable(badKey)
    const operator = peek()
    if (negated || operator.kind === "end" || (operator.kind === "symbol" && operator.text === ",")) {
      requirements.push({ key, operator: negated ? "notExists" : "exists", values: [] })
    } else if (operator.kind === "symbol" && ["=", "==", "!="].includes(operator.text)) {
      next()
      const valueToken = peek()
      let value = ""
      if (valueToken.kind === "identifier") value = next().text
      else if (valueToken.kind === "symbol" && valueToken.text !== ",") {
        return unable(`found '${valueToken.text}', expected: identifier`)
      }
      const badValue = valueProblem(key, value)
      if (badValue !== undefined) return unable(badValue)
      requirements.push({ key, operator: operator.text === "!=" ? "notIn" : "in", values: [value] })
    } else if (operator.kind === "symbol" && (operator.text === ">" || operator.text === "<")) {
      next()
      const value = next().text
      if (!/^-?\d+$/.test(value)) {
        return unable(`values[0]: Invalid value: "${value}": for 'Gt', 'Lt' operators, the value must be an integer`)
      }
      requirements.push({ key, operator: operator.text === ">" ? "gt" : "lt", values: [value] })
    } else if (operator.kind === "identifier" && (operator.text === "in" || operator.text === "notin")) {
      next()
      const open = next()
      if (open.text !== "(") return unable(`found '${open.text}' expected: '('`)
      const values: Array<string> = []
      let current = ""
      let named = false
      for (;;) {
        const token = next()
        if (token.kind === "identifier") {
          if (named) return unable(`found '${token.text}', expected: ',' or ')'`)
          named = true
          current = token.text
        } else if (token.text === "," || token.text === ")") {
          values.push(current)
          current = ""
          named = false
          if (token.text === ")") break
        } else {
          return unable(`found '${token.text}', expected: ${named ? "',' or ')'" : "',', ')' or identifier"}`)
        }
      }
      for (const value of values) {
        const badValue = valueProblem(key, value)
        if (badValue !== undefined) return unable(badValue)
      }
      requirements.push({ key, operator: operator.text === "in" ? "in" : "notIn", values })
    } else {
      return unable(`found '${operator.text}', expected: in, notin, =, ==, !=, gt, lt`)
    }
    const separator = next()
    if (separator.kind === "end") return Either.right(requirements)
    if (separator.text !== ",") {
      return Either.left(`found '${separator.text}', expected: ',' or 'end of string'`)
    }
    const following = peek()
    if (following.kind !== "identifier" && following.text !== "!") {
      return Either.left(`found '${following.text}', expected: identifier after ','`)
    }
  }
}

/** Parses a `fieldSelector` parameter. Left is the API server's 400 message. */
export const parseFields = (text: string): Either.Either<FieldSelector, string> => {
  const terms: Array<string> = []
  let term = ""
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] ?? ""
    if (character === "\\") {
      term += character + (text[index + 1] ?? "")
      index += 1
    } else if (character === ",") {
      terms.push(term)
      term = ""
    } else term += character
  }
  terms.push(term)
  const requirements: Array<FieldRequirement> = []
  for (const raw of terms) {
    if (raw === "") continue
    const match = /^([^=!\\]*)(!=|==|=)([\s\S]*)$/.exec(raw)
    if (match === null) return Either.left(`invalid selector: '${text}'; can't understand '${raw}'`)
    const [, field, operator, value] = match
    if (/^(?:[^\\=]|\\.)*=/.test(value ?? ""))
      return Either.left("invalid field selector: unescaped character in value: 61")
    requirements.push({
      field: field ?? "",
      operator: operator === "!=" ? "!=" : "=",
      value: (value ?? "").replace(/\\(.)/g, "$1")
    })
  }
  return Either.right(requirements)
}
