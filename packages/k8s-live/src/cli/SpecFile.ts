/**
 * What the capabilities need to know of a TrainJob manifest.
 *
 * @module
 */
import type * as Runtimes from "@dispatch-kubeflow/core/Runtimes"
import { Effect, Either, Schema } from "effect"
import * as Misfit from "../internal/Misfit.js"
import type * as Invocation from "./Invocation.js"
import * as Session from "./Session.js"

const Manifest = Schema.Struct({
  apiVersion: Schema.TemplateLiteral("trainer.kubeflow.org/", Schema.String),
  kind: Schema.Literal("TrainJob"),
  metadata: Schema.optional(
    Schema.Struct({ name: Schema.optional(Schema.String), namespace: Schema.optional(Schema.NonEmptyString) })
  ),
  spec: Schema.Struct({
    runtimeRef: Schema.Struct({
      name: Schema.NonEmptyString,
      kind: Schema.optional(Schema.String),
      apiGroup: Schema.optional(Schema.String)
    }),
    trainer: Schema.optional(
      Schema.NullOr(
        Schema.Struct({
          numNodes: Schema.optional(Schema.NullOr(Schema.Number)),
          resourcesPerNode: Schema.optional(Schema.NullOr(Schema.Unknown))
        })
      )
    )
  })
})

const decode = Schema.decodeUnknownEither(Manifest, { errors: "all" })

const isTrainJob = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === "TrainJob"

/** A spec, and the namespace that its manifest names. */
export interface Found {
  readonly spec: Runtimes.Spec
  readonly namespace: string | undefined
}

const ofDocument = (path: string, document: unknown): Either.Either<Found, Session.UsageError> =>
  Either.mapBoth(decode(document), {
    onLeft: (error) =>
      new Session.UsageError({
        message: `the spec ${path} is not a TrainJob:${Misfit.lines(error)}`
      }),
    onRight: ({ metadata, spec: { runtimeRef, trainer } }): Found => ({
      spec: {
        runtimeRef,
        name: metadata?.name,
        numNodes: trainer?.numNodes ?? undefined,
        resourcesPerNode: trainer?.resourcesPerNode !== undefined && trainer.resourcesPerNode !== null
      },
      namespace: metadata?.namespace
    })
  })

/** The spec that `--runtime` or `--spec` gives; none without either. A file may hold other objects beside one TrainJob. */
export const read = (about: Invocation.About | undefined) =>
  Effect.gen(function* () {
    if (about === undefined) return undefined
    if ("runtime" in about) {
      const found: Found = { spec: { runtimeRef: about.runtime }, namespace: undefined }
      return found
    }
    const documents = yield* Session.readDocuments("the spec", about.file)
    const jobs = documents.filter(isTrainJob)
    if (jobs.length > 1) {
      return yield* new Session.UsageError({
        message: `the spec ${about.file} holds ${jobs.length} TrainJobs; give one`
      })
    }
    return yield* ofDocument(about.file, jobs[0] ?? documents[0])
  })
