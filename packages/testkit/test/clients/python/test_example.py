import json
import os
import subprocess

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from kubeflow.trainer import options as trainer_options


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """A cluster for this run: the kubeconfig is there when `serve` has printed its contexts."""
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    command = os.environ["TESTKIT"].split()  # e.g. "npx dispatch-kubeflow-testkit"
    serve = subprocess.Popen([*command, "serve", "--kubeconfig", path], stdout=subprocess.PIPE, text=True)
    for line in serve.stdout:
        if "contexts:" in line:
            break
    yield str(path)
    serve.terminate()
    serve.wait()


def behaves(program):
    """Says what the trainer's containers do; times in milliseconds."""
    annotations = {"testkit.dispatch-kubeflow.dev/program": json.dumps(program)}
    template = trainer_options.PodTemplatePatch(metadata={"annotations": annotations})
    job = trainer_options.JobTemplatePatch(spec=trainer_options.JobSpecPatch(template=template))
    jobs = [trainer_options.ReplicatedJobPatch(name="node", template=job)]
    jobset = trainer_options.JobSetTemplatePatch(spec=trainer_options.JobSetSpecPatch(replicated_jobs=jobs))
    return trainer_options.RuntimePatch(trainer_options.TrainingRuntimeSpecPatch(template=jobset))


def test_a_job_trains(kubeconfig):
    client = TrainerClient(KubernetesBackendConfig(config_file=kubeconfig, namespace="default"))
    program = {"runs": [{"after": 1000, "code": 0}], "output": [{"after": 0, "text": "loss 0.25\n"}]}
    name = client.train(
        runtime="torch-conforming",
        trainer=CustomTrainerContainer(image="registry.example/train:1", num_nodes=2),
        options=[behaves(program)],
    )
    assert client.wait_for_job_status(name, polling_interval=1).status == "Complete"
    assert list(client.get_job_logs(name)) == ["loss 0.25"]
