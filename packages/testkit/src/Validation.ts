/**
 * Validation of what all objects share: names, labels, finalizers, owner references. With the API server's words.
 *
 * @module
 */
import * as Json from "./Json.js"
import type { FieldError, ResourceDefinition } from "./Registry.js"

const invalid = (field: string, message: string): FieldError => ({ field, reason: "FieldValueInvalid", message })
const quoted = (value: string): string => JSON.stringify(value)

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const qualifiedPart = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/
const labelValue = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/

const subdomainText =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
const labelText =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
const qualifiedText =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
const labelValueText =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"

const nameErrors = (
  name: string,
  rule: ResourceDefinition["nameRule"],
  field: string,
  shown = name
): ReadonlyArray<FieldError> => {
  const problem = (text: string): FieldError => invalid(field, `Invalid value: ${quoted(shown)}: ${text}`)
  switch (rule) {
    case "subdomain":
      if (name.length > 253) return [problem("must be no more than 253 characters")]
      return subdomain.test(name) ? [] : [problem(subdomainText)]
    case "namespace":
      if (name.includes(".")) return [problem("must not contain dots")]
      if (name.length > 63) return [problem("must be no more than 63 bytes")]
      return label.test(name) ? [] : [problem(labelText)]
    case "path":
      if (name === "." || name === "..") return [problem(`may not be '${name}'`)]
      return /[/%]/.test(name) ? [problem(`may not contain '${name.includes("/") ? "/" : "%"}'`)] : []
  }
}

const keyErrors = (key: string, field: string, shown = key): ReadonlyArray<FieldError> => {
  const slash = key.indexOf("/")
  const prefix = slash < 0 ? undefined : key.slice(0, slash)
  const name = slash < 0 ? key : key.slice(slash + 1)
  const problem = (text: string): FieldError => invalid(field, `Invalid value: ${quoted(shown)}: ${text}`)
  if (prefix !== undefined && (prefix === "" || prefix.length > 253 || !subdomain.test(prefix))) {
    return [problem(prefix === "" ? "prefix part must be non-empty" : `prefix part ${subdomainText}`)]
  }
  if (name === "") return [problem("name part must be non-empty")]
  if (name.length > 63) return [problem("name part must be no more than 63 bytes")]
  return qualifiedPart.test(name) ? [] : [problem(qualifiedText)]
}

const labelErrors = (labels: Json.JsonObject): ReadonlyArray<FieldError> =>
  Object.entries(labels).flatMap(([key, value]) => {
    const errors = [...keyErrors(key, "metadata.labels")]
    const text = Json.string(value) ?? ""
    const problem = (why: string): FieldError => invalid("metadata.labels", `Invalid value: ${quoted(text)}: ${why}`)
    if (text.length > 63) errors.push(problem("must be no more than 63 bytes"))
    else if (!labelValue.test(text)) errors.push(problem(labelValueText))
    return errors
  })

const annotationLimit = 262_144
const annotationErrors = (annotations: Json.JsonObject): ReadonlyArray<FieldError> => {
  let bytes = 0
  for (const [key, value] of Object.entries(annotations)) bytes += key.length + (Json.string(value) ?? "").length
  return [
    ...Object.keys(annotations).flatMap((key) => keyErrors(key.toLowerCase(), "metadata.annotations", key)),
    ...(bytes > annotationLimit
      ? [
          {
            field: "metadata.annotations",
            reason: "FieldValueTooLong" as const,
            message: `Too long: may not be more than ${annotationLimit} bytes`
          }
        ]
      : [])
  ]
}

/** Finalizers that need no domain. */
const standardFinalizers: ReadonlySet<string> = new Set(["orphan", "foregroundDeletion", "kubernetes"])

/** Custom resources may have finalizers without a domain; the server warns. */
export const warnings = (
  definition: ResourceDefinition,
  object: Json.JsonObject,
  old?: Json.JsonObject
): ReadonlyArray<string> =>
  definition.custom
    ? Json.array(Json.at(object, "metadata", "finalizers"))
        .filter((finalizer) => !Json.array(Json.at(old, "metadata", "finalizers")).includes(finalizer))
        .map(Json.text)
        .filter((finalizer) => !finalizer.includes("/") && !standardFinalizers.has(finalizer))
        .map(
          (finalizer) =>
            `metadata.finalizers: ${quoted(finalizer)}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`
        )
    : []

const finalizerErrors = (finalizers: ReadonlyArray<Json.Json>, custom: boolean): ReadonlyArray<FieldError> =>
  finalizers.flatMap((entry, index) => {
    const finalizer = Json.string(entry) ?? ""
    const field = `metadata.finalizers[${index}]`
    const bad = keyErrors(finalizer, "metadata.finalizers")
    if (bad.length > 0) return bad
    return custom || finalizer.includes("/") || standardFinalizers.has(finalizer)
      ? []
      : [
          invalid(
            field,
            `Invalid value: ${quoted(finalizer)}: name is neither a standard finalizer name nor is it fully qualified`
          )
        ]
  })

const ownerErrors = (owners: ReadonlyArray<Json.Json>): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  let controller: string | undefined
  owners.forEach((owner, index) => {
    for (const key of ["apiVersion", "kind", "name", "uid"]) {
      if ((Json.string(Json.at(owner, key)) ?? "") === "") {
        errors.push({
          field: `metadata.ownerReferences[${index}].${key}`,
          reason: "FieldValueRequired",
          message: "Required value: must not be empty"
        })
      }
    }
    if (Json.at(owner, "controller") !== true) return
    const name = `${Json.string(Json.at(owner, "kind")) ?? ""}/${Json.string(Json.at(owner, "name")) ?? ""}`
    if (controller === undefined) controller = name
    else {
      errors.push(
        invalid(
          "metadata.ownerReferences",
          `Invalid value: ${JSON.stringify(owners)}: Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${name}`
        )
      )
    }
  })
  return errors
}

/** Errors of an object's metadata, on create and on update. */
export const metadata = (definition: ResourceDefinition, object: Json.JsonObject): ReadonlyArray<FieldError> => {
  const meta = Json.object(object["metadata"])
  const name = Json.string(meta["name"]) ?? ""
  const base = Json.string(meta["generateName"]) ?? ""
  return [
    // A dash at the end is fine: something follows it
    ...(base === "" ? [] : nameErrors(base.replace(/-$/, "a"), definition.nameRule, "metadata.generateName", base)),
    ...(name === ""
      ? [
          {
            field: "metadata.name",
            reason: "FieldValueRequired" as const,
            message: "Required value: name or generateName is required"
          }
        ]
      : nameErrors(name, definition.nameRule, "metadata.name")),
    ...labelErrors(Json.object(meta["labels"])),
    ...annotationErrors(Json.object(meta["annotations"])),
    ...finalizerErrors(Json.array(meta["finalizers"]), definition.custom),
    ...ownerErrors(Json.array(meta["ownerReferences"]))
  ]
}

/** Errors of a change of an object's metadata. */
export const metadataUpdate = (object: Json.JsonObject, old: Json.JsonObject): ReadonlyArray<FieldError> => {
  if (Json.at(old, "metadata", "deletionTimestamp") === undefined) return []
  const before = Json.array(Json.at(old, "metadata", "finalizers"))
  const added = Json.array(Json.at(object, "metadata", "finalizers")).filter((entry) => !before.includes(entry))
  return added.length === 0
    ? []
    : [
        {
          field: "metadata.finalizers",
          reason: "FieldValueForbidden",
          message: `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{${added
            .map((entry) => quoted(Json.text(entry)))
            .join(", ")}}`
        }
      ]
}
