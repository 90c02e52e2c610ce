"""Packages for each target and kind of hardware, as last reviewed; read as their targets do."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from components.core.stage import cli
from components.core.stage.executor import ExecutorInput
from components.train.config import TrainConfig
from pipeline.profiles import targets
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.profile_file import Profile
from pipeline.profiles.targets import KFP, VERTEX
from pipeline.profiles.vertex import LAUNCHER_IMAGE
from tests.unit.pipeline.packages import DIGESTS, GOLDENS, PROFILES, goldens, package_of


def documents(text: bytes) -> list[Any]:
    return list(yaml.safe_load_all(text))


@pytest.fixture(scope="module", params=sorted(PROFILES), ids="-".join)
def profile(request: pytest.FixtureRequest) -> Profile:
    return PROFILES[request.param]


@pytest.fixture(scope="module")
def package(profile: Profile) -> list[Any]:
    """The documents of a package for each shipped profile."""
    return documents(package_of(profile.name, profile.target))


@pytest.fixture
def first(package: list[Any]) -> Any:
    return package[0]


def test_there_is_a_golden_of_every_kind() -> None:
    kinds = {(target, PROFILES[name, target].train_image) for name, target in GOLDENS}
    assert kinds == {(target, hardware) for target in targets.TARGETS for hardware in ("cpu", "gpu", "tpu")}


def test_golden_packages() -> None:
    folder = Path(__file__).with_name("goldens")
    read = {path: path.read_text() for path in folder.iterdir()}
    assert goldens() == read, "run `make goldens`"


def test_is_what_kubeflow_calls_a_pipeline(first: Any) -> None:
    # Raises on a field that Kubeflow's own message does not have, or on a value of another type.
    spec = json_format.ParseDict(first, pipeline_spec_pb2.PipelineSpec())
    assert spec.pipeline_info.name == "wgan-gp"


def test_every_input_is_given(first: Any) -> None:
    """Kubeflow's backend does not fill in a component's defaults."""
    for component in (first["root"], *first["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            declared = first["components"][task["componentRef"]["name"]]["inputDefinitions"]["parameters"]
            assert declared.keys() <= task["inputs"]["parameters"].keys()


def test_stages_start_without_a_shell_and_from_images_by_digest(first: Any) -> None:
    for label, executor in first["deploymentSpec"]["executors"].items():
        container = executor["container"]
        if "--payload" in container["args"]:
            assert container["image"] == LAUNCHER_IMAGE
            job = json.loads(container["args"][container["args"].index("--payload") + 1])
            (container,) = (pool["container_spec"] for pool in job["job_spec"]["worker_pool_specs"])
            container["image"] = container.pop("image_uri")
        assert container["command"] == ["python", "-m", f"components.{label.removeprefix('exec-')}"]
        assert container["image"] in DIGESTS.values()


def test_custom_jobs_are_what_vertex_calls_so(first: Any) -> None:
    types = pytest.importorskip("google.cloud.aiplatform_v1.types")
    args = first["deploymentSpec"]["executors"]["exec-train"]["container"]["args"]
    if "--payload" in args:
        # Raises on a field that Vertex' own message does not have, or on a word of no enumeration of its.
        job = json_format.Parse(args[args.index("--payload") + 1], types.CustomJob.pb(types.CustomJob()))
        assert len(job.job_spec.worker_pool_specs) == 1


def test_platform_settings_are_what_kubeflow_calls_so(profile: Profile, package: list[Any]) -> None:
    special = profile.target == KFP and profile.train_image != "cpu"
    assert len(package) == (2 if special else 1)
    for document in package[1:]:
        json_format.ParseDict(document, pipeline_spec_pb2.PlatformSpec())
        executors = document["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        assert executors.keys() == {"exec-train"}
        read = json_format.ParseDict(executors["exec-train"], kubernetes_executor_config_pb2.KubernetesExecutorConfig())
        train = profile.stages["train"]
        assert isinstance(train, KubernetesStage)
        assert dict(read.node_selector.labels).items() >= dict(train.node_selectors).items()
        assert read.active_deadline_seconds == train.timeout


def test_train_gets_its_hardware_and_embed_its_own(profile: Profile, first: Any) -> None:
    parameters = first["root"]["inputDefinitions"]["parameters"]
    stages = first["components"]["comp-condition-2"]["dag"]["tasks"]
    train, embed = (stages[name]["inputs"]["parameters"] for name in ("train", "embed"))
    logged = {name: parameters[name]["defaultValue"] for name in ("accelerator", "replicas")}
    for name in logged:
        assert train[name] == {"componentInputParameter": f"pipelinechannel--{name}"}
    if profile.train_image == "cpu":
        assert logged == {"accelerator": "auto", "replicas": 0}
        assert embed["accelerator"] == train["accelerator"]
    else:
        assert logged == profile.hardware
        assert logged["replicas"] == int(profile.name.split("-")[2] if profile.name.count("-") > 1 else 1)
        assert [embed[name]["runtimeValue"]["constant"] for name in ("accelerator", "tpu", "replicas")] == [
            "cpu",
            "",
            0,
        ]


@pytest.mark.parametrize("name", ["gpu-l4-4", "tpu-v5e-4-spot"])
def test_the_executor_input_reaches_a_custom_job_whole(name: str, tmp_path: Path) -> None:
    """As the launcher does: placeholders are replaced, then the payload is read."""
    executors = documents(package_of(name, VERTEX))[0]["deploymentSpec"]["executors"]
    args = executors["exec-train"]["container"]["args"]
    nasty = 'a "b" \\ {{x}} \n é'
    message = {
        "inputs": {"parameterValues": {"dataset": nasty, "checkpoints": "gs://b/c", "replicas": 4.0}},
        "outputs": {"parameters": {"summary": {"outputFile": "x"}}, "outputFile": str(tmp_path / "out")},
    }
    payload = args[args.index("--payload") + 1]
    escaped = json.dumps(json.dumps(message))[1:-1]
    (pool,) = json.loads(payload.replace("{{$.json_escape[1]}}", escaped))["job_spec"]["worker_pool_specs"]
    container = pool["container_spec"]
    assert container["image_uri"] == DIGESTS["train-" + name[:3]]
    assert container["command"] == ["python", "-m", "components.train"]
    flag, text = container["args"]
    assert flag == "--executor-input"
    config = cli.build(TrainConfig, ExecutorInput(text).parameters)
    assert (config.dataset, config.replicas) == (nasty, 4)
