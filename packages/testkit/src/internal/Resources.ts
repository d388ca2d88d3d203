/**
 * What containers ask for and may use, as the API server reads, keeps and checks it.
 *
 * @module
 */
import * as Json from "../Json.js"
import type { FieldError } from "../Registry.js"
import * as Quantity from "./Quantity.js"

const lists = ["limits", "requests"] as const

const containersOf = (podSpec: Json.Json | undefined): ReadonlyArray<readonly [field: string, container: Json.Json]> =>
  ["initContainers", "containers"].flatMap((key) =>
    Json.array(Json.at(podSpec, key)).map((container, index) => [`${key}[${index}]`, container] as const)
  )

/** `ResourceList`: amounts by resource. */
type List<A> = Readonly<Record<string, A>>

/** Amounts as clients send them. */
interface Requirements {
  readonly limits?: List<string | number>
  readonly requests?: List<string | number>
}

/** Of pods, Jobs and Nodes nothing smaller than a thousandth is kept; custom resources keep it. */
interface Precision {
  readonly thousandths: boolean
}

/** A `ResourceList` with every amount as its Go type writes it; the same object where they are already. */
export const canonicalList = <A extends Json.Json>(list: List<A>, precision: Precision): List<A | string> => {
  let changed: Record<string, A | string> | undefined
  for (const [key, value] of Object.entries(list)) {
    const next = Quantity.canonical(value, precision)
    if (next === value) continue
    changed ??= { ...list }
    changed[key] = next
  }
  return changed ?? list
}

/** `resources` of a container, canonical; the same object where it is already. */
export const canonical = (resources: Json.Json, precision: Precision): Json.Json =>
  Json.isObject(resources)
    ? lists.reduce((all, key) => {
        const list = all[key]
        return Json.isObject(list) ? Json.set(all, [key], canonicalList(list, precision)) : all
      }, resources)
    : resources

/** What a webhook in Go makes of requirements that it reads and writes. */
export const rewritten = <A extends Requirements>(resources: A): A => {
  const own = lists.flatMap((key) => {
    const list = resources[key]
    const next = list === undefined ? undefined : canonicalList(list, { thousandths: false })
    return next === list ? [] : [[key, next] as const]
  })
  return own.length === 0 ? resources : { ...resources, ...Object.fromEntries(own) }
}

/** Why `resources` cannot be read, in the decoder's words. */
export const problem = (resources: Requirements | Json.Json | undefined): string | undefined => {
  for (const key of lists) {
    for (const value of Object.values(Json.object(Json.at(resources, key)))) {
      const why = Quantity.problem(value)
      if (why !== undefined) return why
    }
  }
  return undefined
}

/** Why the resources of a pod's containers cannot be read. */
export const podProblem = (podSpec: Json.Json | undefined): string | undefined => {
  for (const [, container] of containersOf(podSpec)) {
    const why = problem(Json.at(container, "resources"))
    if (why !== undefined) return why
  }
  return undefined
}

const standard: ReadonlySet<string> = new Set(["cpu", "memory", "ephemeral-storage"])

const isHugePages = (name: string): boolean => name.startsWith("hugepages-")
const isNative = (name: string): boolean => !name.includes("/") || name.includes("kubernetes.io/")

const invalid = (field: string, value: string, why: string): FieldError => ({
  field,
  reason: "FieldValueInvalid",
  message: `Invalid value: ${JSON.stringify(value)}: ${why}`
})

const amountErrors = (list: Json.JsonObject, field: string): ReadonlyArray<FieldError> =>
  Object.entries(list).flatMap(([name, value]) => {
    const at = `${field}[${name}]`
    const errors: Array<FieldError> = []
    if (!name.includes("/") && !standard.has(name) && !isHugePages(name)) {
      errors.push(
        invalid(at, name, "must be a standard resource type or fully qualified"),
        invalid(at, name, "must be a standard resource for containers")
      )
    }
    if (Quantity.compare(value, 0) < 0) {
      errors.push(invalid(at, Json.text(value), "must be greater than or equal to 0"))
    }
    if (!isNative(name) && !Quantity.isWhole(value)) errors.push(invalid(at, Json.text(value), "must be an integer"))
    return errors
  })

const requirementErrors = (resources: Json.Json | undefined, field: string): ReadonlyArray<FieldError> => {
  const limits = Json.object(Json.at(resources, "limits"))
  const requests = Json.object(Json.at(resources, "requests"))
  const errors = [...amountErrors(limits, `${field}.limits`), ...amountErrors(requests, `${field}.requests`)]
  for (const [name, value] of Object.entries(requests)) {
    const limit = limits[name]
    const mayBeMore = isNative(name) && !isHugePages(name)
    const wrong = (why: string): FieldError => invalid(`${field}.requests`, Json.text(value), why)
    if (limit === undefined) {
      if (mayBeMore) continue
      errors.push({
        field: `${field}.limits`,
        reason: "FieldValueRequired",
        message: "Required value: Limit must be set for non overcommitable resources"
      })
    } else if (!mayBeMore && Quantity.compare(value, limit) !== 0) {
      errors.push(wrong(`must be equal to ${name} limit of ${Json.text(limit)}`))
    } else if (Quantity.compare(value, limit) > 0) {
      errors.push(wrong(`must be less than or equal to ${name} limit of ${Json.text(limit)}`))
    }
  }
  const asked = [...Object.keys(limits), ...Object.keys(requests)]
  if (asked.some(isHugePages) && !asked.some((name) => name === "cpu" || name === "memory")) {
    errors.push({ field, reason: "FieldValueForbidden", message: "Forbidden: HugePages require cpu or memory" })
  }
  return errors
}

/** What is wrong with the resources of a pod's containers, `field` being the path of the pod's spec. */
export const podErrors = (podSpec: Json.Json | undefined, field: string): ReadonlyArray<FieldError> =>
  containersOf(podSpec).flatMap(([at, container]) =>
    requirementErrors(Json.at(container, "resources"), `${field}.${at}.resources`)
  )

/** Amounts by resource, as `Quantity.of` counts them. */
export type Amounts = ReadonlyMap<string, number>

/** What one container of a pod asks of a Node: its requests, and its limits where it has none. */
interface Asking {
  readonly restartPolicy?: string
  readonly resources?: Requirements
}

const asked = ({ resources }: Asking): ReadonlyArray<readonly [string, number]> =>
  Object.entries({ ...resources?.limits, ...resources?.requests }).map(([name, value]) => [
    name,
    Quantity.of(name, value)
  ])

/**
 * What a pod asks for: all its containers at once, or one of those that come before them where that is more. Those before
 * that go on running (sidecars) count beside everything that comes later.
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
 */
export const ofPod = (podSpec: {
  readonly containers: ReadonlyArray<Asking>
  readonly initContainers?: ReadonlyArray<Asking>
  readonly overhead?: List<string | number>
}): Amounts => {
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  const add = (name: string, amount: number): void => void running.set(name, (running.get(name) ?? 0) + amount)
  for (const container of podSpec.initContainers ?? []) {
    const amounts = asked(container)
    if (container.restartPolicy === "Always") {
      for (const [name, amount] of amounts) add(name, amount)
      for (const [name, amount] of running) most.set(name, Math.max(most.get(name) ?? 0, amount))
    } else {
      for (const [name, amount] of amounts) {
        most.set(name, Math.max(most.get(name) ?? 0, amount + (running.get(name) ?? 0)))
      }
    }
  }
  for (const container of podSpec.containers) for (const [name, amount] of asked(container)) add(name, amount)
  for (const [name, amount] of running) most.set(name, Math.max(most.get(name) ?? 0, amount))
  for (const [name, value] of Object.entries(podSpec.overhead ?? {})) {
    most.set(name, (most.get(name) ?? 0) + Quantity.of(name, value))
  }
  return most
}
