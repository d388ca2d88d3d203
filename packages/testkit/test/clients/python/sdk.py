"""The life of a TrainJob through the Kubeflow Python SDK; prints what it saw as one line of JSON.

Usage: sdk.py KUBECONFIG PROGRAM, where PROGRAM says what the containers do (JSON, see serve/Signals).
"""

import json
import logging
import sys

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import (
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    Name,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    TrainingRuntimeSpecPatch,
)

kubeconfig, program = sys.argv[1:]
warnings = []


class Collect(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())


logging.getLogger("kubeflow").addHandler(Collect(logging.WARNING))


def behaves(text):
    """Annotates the pods of the trainer with their program."""
    pods = PodTemplatePatch(metadata={"annotations": {"testkit.dispatch-kubeflow.dev/program": text}})
    job = JobTemplatePatch(spec=JobSpecPatch(template=pods))
    jobs = JobSetSpecPatch(replicated_jobs=[ReplicatedJobPatch(name="node", template=job)])
    return RuntimePatch(TrainingRuntimeSpecPatch(template=JobSetTemplatePatch(spec=jobs)))


def train():
    print("never runs here")


client = TrainerClient(KubernetesBackendConfig(config_file=kubeconfig, namespace="default"))
seen = {"runtimes": sorted(runtime.name for runtime in client.list_runtimes())}
runtime = client.get_runtime("torch-conforming")
seen["framework"] = runtime.trainer.framework

# A function as the program, two nodes, waited for and read at the end
name = client.train(
    runtime=runtime,
    trainer=CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": 2}),
    options=[behaves(program)],
)
seen["running"] = client.wait_for_job_status(name, status={"Running"}, timeout=30, polling_interval=1).status
seen["followed"] = list(client.get_job_logs(name, follow=True))
job = client.wait_for_job_status(name, timeout=60, polling_interval=1)
seen["status"] = job.status
seen["nodes"] = job.num_nodes
seen["steps"] = [[step.name, step.status, step.device_count] for step in job.steps]
seen["logs"] = list(client.get_job_logs(name))
seen["rank 1"] = list(client.get_job_logs(name, step="node-1"))
seen["events"] = sorted({event.reason for event in client.get_job_events(name)})
seen["listed"] = name in [job.name for job in client.list_jobs(runtime=runtime)]
client.delete_job(name)
seen["after deletion"] = [job.name for job in client.list_jobs()]

# An image as the program, which fails
failing = json.dumps({"runs": [{"after": 500, "code": 3}], "output": [{"after": 0, "text": "no data\n"}]})
name = client.train(
    runtime="torch-conforming",
    trainer=CustomTrainerContainer(image="registry.example/train:1", num_nodes=1),
    options=[Name("sdk-fails"), behaves(failing)],
)
try:
    client.wait_for_job_status(name, timeout=30, polling_interval=1)
except RuntimeError as error:
    seen["failure"] = str(error)
seen["failed logs"] = list(client.get_job_logs(name))
client.delete_job(name)

try:
    client.get_job("sdk-fails")
except RuntimeError as error:
    seen["missing"] = error.__cause__.reason
seen["warnings"] = warnings
print(json.dumps(seen))
