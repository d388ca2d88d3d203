/**
 * What the Trainer (2.3) makes of a TrainJob and its runtime: the JobSet, and for MPI the hostfile and the ssh Secret. Pure.
 * Not modelled: flux, torchtune's command rewriting, pod groups.
 *
 * @module
 */
import * as Quantity from "../internal/Quantity.js"
import * as Objects from "./Objects.js"

const stepLabel = "trainer.kubeflow.org/trainjob-ancestor-step"
const masterPort = 29_500
/** The annotation that torch reads its rank from. */
const rankPath = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

/** The container that Trainer fills for an ancestor step. */
export const containerOf = (step: string): string => (step === "trainer" ? "node" : step)

/** The ancestor step of a replicatedJob. */
export const stepOf = (replicatedJob: Objects.ReplicatedJob): string | undefined =>
  replicatedJob.template.metadata?.labels?.[stepLabel]

/** The names of the objects that belong to a TrainJob. */
export const snapshotName = (trainJob: string): string => `${trainJob}-runtime-snapshot`
export const hostfileName = (trainJob: string): string => `${trainJob}-mpi-hostfile`
export const sshSecretName = (trainJob: string): string => `${trainJob}-mpi-ssh-auth`

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

// Merge keys of the strategic merge patch of pod templates; lists without one are replaced whole
const mergeKeys: Readonly<Record<string, string>> = {
  containers: "name",
  initContainers: "name",
  env: "name",
  volumes: "name",
  imagePullSecrets: "name",
  schedulingGates: "name",
  volumeMounts: "mountPath",
  replicatedJobs: "name"
}

/** A Kubernetes strategic merge of what runtimePatches can hold. */
export const strategic = (base: unknown, patch: unknown, field = ""): unknown => {
  if (Array.isArray(patch)) {
    const key = mergeKeys[field]
    if (key === undefined || !Array.isArray(base)) return patch
    const result: Array<unknown> = [...(base as ReadonlyArray<unknown>)]
    const added: Array<unknown> = []
    for (const item of patch as ReadonlyArray<unknown>) {
      const at = isRecord(item) ? result.findIndex((existing) => isRecord(existing) && existing[key] === item[key]) : -1
      // new items come first
      if (at < 0) added.push(item)
      else result[at] = strategic(result[at], item)
    }
    return [...added, ...result]
  }
  if (!isRecord(patch)) return patch
  const result: Record<string, unknown> = isRecord(base) ? { ...base } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = strategic(result[name], value, name)
  }
  return result
}

const isGpu = (name: string): boolean => name.includes("gpu")

// A custom resource keeps `cpu: 2` as the number it was; what is built from it has quantities, which are texts
const quantities = (amounts: Objects.Quantities): Objects.StringMap =>
  Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, String(amount)]))

const withQuantities = (container: Objects.Container): Objects.Container => {
  const { limits, requests, ...rest } = container.resources ?? {}
  return {
    ...container,
    resources: {
      ...rest,
      ...(limits === undefined ? {} : { limits: quantities(limits) }),
      ...(requests === undefined ? {} : { requests: quantities(requests) })
    }
  }
}

const cpus = (quantity: string | number | undefined): number => {
  const amount = String(quantity ?? 0)
  return amount.endsWith("m") ? Number(amount.slice(0, -1)) / 1000 : Number(amount)
}

const upsertEnv = (
  env: ReadonlyArray<Objects.EnvVar> | undefined,
  more: ReadonlyArray<Objects.EnvVar>
): ReadonlyArray<Objects.EnvVar> => {
  const result = [...(env ?? [])]
  for (const each of more) {
    const at = result.findIndex((existing) => existing.name === each.name)
    if (at < 0) result.push(each)
    else result[at] = each
  }
  return result
}

const text = (name: string, value: string): Objects.EnvVar => ({ name, value })
const rank = (name: string): Objects.EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath: rankPath } } })

const gpusOf = (container: Objects.Container): number =>
  Object.entries(container.resources?.limits ?? {})
    .filter(([name]) => isGpu(name))
    .reduce((sum, [name, quantity]) => sum + Quantity.of(name, quantity), 0)

const torchProcesses = (trainer: Objects.TrainerSpec | undefined, container: Objects.Container): string => {
  if (trainer?.numProcPerNode !== undefined) return String(trainer.numProcPerNode)
  const { limits = {}, requests = {} } = container.resources ?? {}
  if ([...Object.keys(limits), ...Object.keys(requests)].some(isGpu)) return "auto"
  return String(Math.max(1, Math.ceil(cpus(requests["cpu"] ?? limits["cpu"]))))
}

interface Sizes {
  readonly numNodes: number
  readonly mpi: Objects.MlPolicy["mpi"]
}

/** Slots per MPI node. */
export const mpiSlots = (trainJob: Objects.TrainJob, mpi: NonNullable<Objects.MlPolicy["mpi"]>): number => {
  const asked = trainJob.spec.trainer?.numProcPerNode ?? mpi.numProcPerNode ?? 1
  const gpus = Object.entries(trainJob.spec.trainer?.resourcesPerNode?.limits ?? {})
    .filter(([name]) => isGpu(name))
    .reduce((sum, [, quantity]) => sum + Number(quantity), 0)
  return asked === 1 && gpus > 1 ? gpus : asked
}

const mpiWorkers = ({ mpi, numNodes }: Sizes): number =>
  mpi?.runLauncherAsNode === true ? Math.max(numNodes - 1, 1) : numNodes

/** The nodes that a TrainJob asks for. */
export const numNodesOf = (trainJob: Objects.TrainJob, runtime: Objects.Runtime): number => {
  const trainer = runtime.spec.template.spec.replicatedJobs.find((each) => stepOf(each) === "trainer")
  return trainJob.spec.trainer?.numNodes ?? runtime.spec.mlPolicy?.numNodes ?? trainer?.template.spec.parallelism ?? 1
}

/** The content of the MPI hostfile. */
export const hostfile = (trainJob: Objects.TrainJob, runtime: Objects.Runtime): string => {
  const { mpi } = runtime.spec.mlPolicy ?? {}
  if (mpi === undefined) return ""
  const { name } = trainJob.metadata
  const slots = mpiSlots(trainJob, mpi)
  const hosts: Array<string> = []
  const workers = mpiWorkers({ mpi, numNodes: numNodesOf(trainJob, runtime) })
  for (let index = 0; index < workers; index++) hosts.push(`${name}-node-0-${index}.${name}`)
  if (mpi.runLauncherAsNode === true) hosts.push(`${name}-launcher-0-0.${name}`)
  return hosts.map((host) => `${host} slots=${slots}\n`).join("")
}

const sshVolume = (trainJob: string): Objects.Volume => ({
  name: "mpi-ssh-auth",
  secret: {
    defaultMode: 256,
    items: [
      { key: "ssh-privatekey", mode: 416, path: "id_rsa" },
      { key: "ssh-publickey", mode: 420, path: "id_rsa.pub" },
      { key: "ssh-publickey", mode: 420, path: "authorized_keys" }
    ],
    secretName: sshSecretName(trainJob)
  }
})

const hostfileVolume = (trainJob: string): Objects.Volume => ({
  name: "mpi-hostfile",
  configMap: { items: [{ key: "hostfile", mode: 292, path: "hostfile" }], name: hostfileName(trainJob) }
})

const withContainer = (
  replicatedJob: Objects.ReplicatedJob,
  name: string,
  change: (container: Objects.Container) => Objects.Container,
  podChange: (spec: Objects.PodSpec) => Objects.PodSpec = (spec) => spec
): Objects.ReplicatedJob => {
  const { template } = replicatedJob.template.spec
  return {
    ...replicatedJob,
    template: {
      ...replicatedJob.template,
      spec: {
        ...replicatedJob.template.spec,
        template: {
          ...template,
          spec: podChange({
            ...template.spec,
            containers: template.spec.containers.map((each) => (each.name === name ? change(each) : each))
          })
        }
      }
    }
  }
}

// a replicatedJob that only a patch names may have nothing below its template
const templateSpec = (replicatedJob: Objects.ReplicatedJob): Partial<Objects.JobSpec> | undefined =>
  replicatedJob.template.spec

const withCount = (replicatedJob: Objects.ReplicatedJob, count: number): Objects.ReplicatedJob => ({
  ...replicatedJob,
  template: {
    ...replicatedJob.template,
    spec: { ...replicatedJob.template.spec, parallelism: count, completions: count }
  }
})

const withTrainer = (
  container: Objects.Container,
  trainer: Objects.TrainerSpec,
  hasPolicy: boolean
): Objects.Container => {
  const limits = { ...container.resources?.limits, ...(hasPolicy ? trainer.resourcesPerNode?.limits : {}) }
  const requests = { ...container.resources?.requests, ...(hasPolicy ? trainer.resourcesPerNode?.requests : {}) }
  return {
    ...container,
    ...(trainer.image === undefined ? {} : { image: trainer.image }),
    ...(trainer.command === undefined ? {} : { command: trainer.command }),
    ...(trainer.args === undefined ? {} : { args: trainer.args }),
    ...(trainer.env === undefined ? {} : { env: upsertEnv(container.env, trainer.env) }),
    resources: {
      ...(Object.keys(limits).length === 0 ? {} : { limits }),
      ...(Object.keys(requests).length === 0 ? {} : { requests })
    }
  }
}

const withPort = (container: Objects.Container): Objects.Container => ({
  ...container,
  ports: [...(container.ports ?? []), { containerPort: masterPort, protocol: "TCP" }]
})

const policyEnv = (
  trainJob: Objects.TrainJob,
  policy: Objects.MlPolicy,
  numNodes: number,
  container: Objects.Container
): Objects.Container => {
  const { name } = trainJob.metadata
  const master = `${name}-node-0-0.${name}`
  if (policy.torch !== undefined) {
    return withPort({
      ...container,
      env: upsertEnv(container.env, [
        text("PET_NNODES", String(numNodes)),
        text("PET_NPROC_PER_NODE", torchProcesses(trainJob.spec.trainer, container)),
        rank("PET_NODE_RANK"),
        text("PET_MASTER_ADDR", master),
        text("PET_MASTER_PORT", String(masterPort))
      ])
    })
  }
  if (policy.jax !== undefined) {
    // a value of the user wins over the Trainer's
    const mine = [
      text("JAX_NUM_PROCESSES", String(numNodes)),
      rank("JAX_PROCESS_ID"),
      text("JAX_COORDINATOR_ADDRESS", `${master}:${masterPort}`)
    ].filter((each) => container.env?.some((existing) => existing.name === each.name) !== true)
    return withPort({ ...container, env: upsertEnv(container.env, mine) })
  }
  if (policy.xgboost !== undefined) {
    return withPort({
      ...container,
      env: upsertEnv(container.env, [
        text("DMLC_TRACKER_URI", master),
        text("DMLC_TRACKER_PORT", String(masterPort)),
        rank("DMLC_TASK_ID"),
        text("DMLC_NUM_WORKER", String(numNodes * Math.max(gpusOf(container), 1)))
      ])
    })
  }
  return container
}

const mpiJob = (
  trainJob: Objects.TrainJob,
  mpi: NonNullable<Objects.MlPolicy["mpi"]>,
  replicatedJob: Objects.ReplicatedJob
): Objects.ReplicatedJob => {
  const { name } = trainJob.metadata
  const isLauncher = stepOf(replicatedJob) === "trainer"
  if (!isLauncher && replicatedJob.name !== "node") return replicatedJob
  const mounts = [
    { mountPath: mpi.sshAuthMountPath ?? "/root/.ssh", name: "mpi-ssh-auth" },
    ...(isLauncher ? [{ mountPath: "/etc/mpi", name: "mpi-hostfile" }] : [])
  ]
  return withContainer(
    replicatedJob,
    "node",
    (container) => ({
      ...container,
      ...(isLauncher
        ? {
            env: upsertEnv(container.env, [
              text("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
              text("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
              text("OMPI_MCA_orte_set_default_slots", String(mpiSlots(trainJob, mpi))),
              text("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10")
            ])
          }
        : {}),
      volumeMounts: [...(container.volumeMounts ?? []), ...mounts]
    }),
    (spec) => ({
      ...spec,
      volumes: [...(spec.volumes ?? []), sshVolume(name), ...(isLauncher ? [hostfileVolume(name)] : [])]
    })
  )
}

const initializerJob = (
  trainJob: Objects.TrainJob,
  replicatedJob: Objects.ReplicatedJob,
  step: string
): Objects.ReplicatedJob => {
  const source = step === "dataset-initializer" ? trainJob.spec.initializer?.dataset : trainJob.spec.initializer?.model
  if (source === undefined) return replicatedJob
  return withContainer(replicatedJob, step, (container) => ({
    ...container,
    env: upsertEnv(container.env, [
      ...(source.storageUri === undefined ? [] : [text("STORAGE_URI", source.storageUri)]),
      ...(source.env ?? [])
    ])
  }))
}

/** The first replicatedJob that a patch has made up and that so has no containers. */
export const withoutContainers = (made: Pick<Objects.JobSet, "spec">): number | undefined => {
  const at = made.spec.replicatedJobs.findIndex((job) => {
    const spec: Partial<Objects.PodSpec> | undefined = job.template.spec.template.spec
    return spec?.containers === undefined
  })
  return at < 0 ? undefined : at
}

const inOrderOf = (
  jobs: ReadonlyArray<Objects.ReplicatedJob>,
  runtime: Objects.Runtime
): ReadonlyArray<Objects.ReplicatedJob> => {
  const names = runtime.spec.template.spec.replicatedJobs.map(({ name }) => name)
  const known = names.flatMap((name) => jobs.filter((job) => job.name === name))
  return [...jobs.filter((job) => !names.includes(job.name)), ...known]
}

/** The Trainer writes `resources` of every container, empty or not. */
const withResources = (job: Objects.ReplicatedJob): Objects.ReplicatedJob => {
  const pod: Partial<Objects.PodTemplate> | undefined = templateSpec(job)?.template
  if (pod?.spec?.containers === undefined) return job
  const { containers } = pod.spec
  return {
    ...job,
    template: {
      ...job.template,
      spec: {
        ...job.template.spec,
        template: {
          ...pod,
          spec: { ...pod.spec, containers: containers.map(withQuantities) }
        }
      }
    }
  }
}

/** The runtime's JobSet template with the runtimePatches applied in order. */
const patched = (trainJob: Objects.TrainJob, runtime: Objects.Runtime): Objects.Runtime["spec"]["template"] => {
  let { spec } = runtime.spec.template
  let labels = runtime.spec.template.metadata?.labels
  let annotations = runtime.spec.template.metadata?.annotations
  for (const patch of trainJob.spec.runtimePatches ?? []) {
    const template = patch.trainingRuntimeSpec?.template
    if (template?.metadata?.labels !== undefined) labels = { ...labels, ...template.metadata.labels }
    if (template?.metadata?.annotations !== undefined) {
      annotations = { ...annotations, ...template.metadata.annotations }
    }
    // a strategic merge of two JobSet specs is a JobSet spec as far as the patch is one
    if (template?.spec !== undefined) spec = strategic(spec, template.spec) as Objects.JobSetSpec
  }
  return {
    metadata: {
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations })
    },
    spec: { ...spec, replicatedJobs: inOrderOf(spec.replicatedJobs, runtime) }
  }
}

/** The JobSet of a TrainJob, as the Trainer applies it. */
export const jobSet = (
  trainJob: Objects.TrainJob,
  runtime: Objects.Runtime
): Pick<Objects.JobSet, "spec"> & { readonly metadata: object } => {
  const policy = runtime.spec.mlPolicy
  const numNodes = numNodesOf(trainJob, runtime)
  const { trainer } = trainJob.spec
  const template = patched(trainJob, runtime)
  let isFirstTrainer = true
  const replicatedJobs = template.spec.replicatedJobs.map((each): Objects.ReplicatedJob => {
    const step = stepOf(each)
    const single = step === undefined ? each : { ...each, replicas: 1 }
    let job = single
    if (step === "trainer" && isFirstTrainer) {
      isFirstTrainer = false
      if (policy?.mpi === undefined) job = withCount(job, numNodes)
      else job = withCount(job, 1)
      if (trainer !== undefined) {
        job = withContainer(job, "node", (container) => {
          const filled = withTrainer(container, trainer, policy !== undefined)
          return policy === undefined ? filled : policyEnv(trainJob, policy, numNodes, filled)
        })
      }
    } else if (policy?.mpi !== undefined && each.name === "node") {
      job = withCount(job, mpiWorkers({ mpi: policy.mpi, numNodes }))
      if (trainer?.resourcesPerNode !== undefined) {
        job = withContainer(job, "node", (container) =>
          withTrainer(container, Objects.compact({ resourcesPerNode: trainer.resourcesPerNode }), true)
        )
      }
    } else {
      job = withCount(job, templateSpec(job)?.parallelism ?? 1)
      if (step !== undefined) job = initializerJob(trainJob, job, step)
    }
    return withResources(policy?.mpi === undefined ? job : mpiJob(trainJob, policy.mpi, job))
  })
  return {
    metadata: {
      name: trainJob.metadata.name,
      namespace: trainJob.metadata.namespace,
      ...template.metadata,
      ownerReferences: [Objects.ownedBy(trainJob)]
    },
    spec: { ...template.spec, replicatedJobs, suspend: trainJob.spec.suspend === true }
  }
}
