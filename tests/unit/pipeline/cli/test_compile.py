"""`wgan compile` and `wgan profiles`: packages of profiles, and refusals before anything is written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import step_table
from pipeline.package import config_file
from pipeline.package.reader import Origin
from tests.unit.pipeline.conftest import messages, wgan

ROOT = Path(__file__).parents[4]
DEFAULTS = {name: field.default for name, field in step_table.PARAMETERS.items() if not field.required}


def own(folder: Path, content: Any) -> str:
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize(
    ("words", "train", "named"),
    [
        ("--profile gpu-14", {}, ["'gpu-14' gpu-l4"]),
        ("--profiles absent.yaml", {}, ["absent.yaml"]),
        ("--profile tpu-v5e-8", {"reproducibility": "exact"}, ["tpu-v5e-8 reproducibility standard exact"]),
        ("--profile gpu-l4-4", {"batch_size": 3}, ["gpu-l4-4 batch_size 3 4"]),
        (
            "--profile gpu-l4",
            {"batch_size": "x", "replicas": 2, "stepz": 1},
            ["gpu-l4 batch_size 'x'", "gpu-l4 stepz steps?", "gpu-l4 replicas"],
        ),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(
    tmp_path: Path, words: str, train: dict[str, Any], named: list[str]
) -> None:
    config = own(tmp_path, {"train": train})
    result = wgan("compile", "--allow-tags", "--config", config, *words.split(), cwd=tmp_path)
    assert result.returncode == 64
    for message, names in zip(messages(result), named, strict=True):
        assert all(name in message for name in names.split())
    assert [str(path) for path in tmp_path.iterdir()] == [config]


def test_a_package_has_the_hardware_of_its_profile_and_the_defaults_of_a_file(tmp_path: Path) -> None:
    stages = {"train": {"accelerator": "nvidia.com/gpu", "accelerator_count": 64}}
    file = own(tmp_path, {"mine": {"kfp": {"stages": stages}}})
    flags = ("compile", "--profiles", file, "--profile", "mine", "--allow-tags", "--output", str(tmp_path / "out.yaml"))
    config = tmp_path / "mine.yaml"
    config.write_text(config_file.written({**DEFAULTS, "source": "digits", "batch_size": 640}))
    written = wgan(*flags, "--config", str(config))
    assert written.returncode == 0, written.stderr
    documents = list(yaml.safe_load_all((tmp_path / "out.yaml").read_bytes()))
    parameters = documents[0]["root"]["inputDefinitions"]["parameters"]
    defaults = {
        name: parameters[name].get("defaultValue")
        for name in ("accelerator", "batch_size", "replicas", "source", "root")
    }
    assert defaults == {"accelerator": "gpu", "batch_size": 640, "replicas": 64, "source": "digits", "root": None}
    assert len(documents) == 1, "GPUs alone are part of the pipeline's own message"


def test_parameters_of_a_profile_are_defaults_that_a_users_file_overrides(tmp_path: Path) -> None:
    content = {
        "parameters": {"batch_size": 256, "steps": 2000, "beta_2": 0.98},
        "kfp": {"stages": {"train": {"accelerator": "nvidia.com/gpu", "accelerator_count": 4}}},
    }
    flags = ["compile", "--profiles", own(tmp_path, {"mine": content}), "--profile", "mine", "--allow-tags"]
    (tmp_path / "user.yaml").write_text("train:\n  batch_size: 512\n")
    result = wgan(*flags, "--config=user.yaml", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    package = next(yaml.safe_load_all((tmp_path / "pipeline.yaml").read_bytes()))
    parameters = package["root"]["inputDefinitions"]["parameters"]
    defaults = {name: parameters[name]["defaultValue"] for name in ("batch_size", "steps", "beta_2")}
    assert defaults == {"batch_size": 512, "steps": 2000, "beta_2": 0.98}


def test_a_package_carries_beams_options_and_who_and_where_it_runs(tmp_path: Path) -> None:
    """The profile of docs/beam-runners.md."""
    flags = ["compile", "--target", "vertex", "--profiles", str(ROOT / "docs" / "dataflow-profile.yaml")]
    flags += ["--profile", "dataflow", "--allow-tags", "--output", str(tmp_path / "out.yaml")]
    options = "--runner=DataflowRunner --project=MY-PROJECT  --subnetwork=regions/us-central1/subnetworks/mine"
    config = tmp_path / "beam.yaml"
    config.write_text(f"preprocess:\n  beam_options: >-\n    {options}\n")
    written = wgan(*flags, "--config", str(config))
    assert written.returncode == 0, written.stderr
    (line,) = [line for line in written.stderr.splitlines() if "@MY-PROJECT." in line]
    assert "`wgan submit`" in line, "it passes the account to the server"
    package = yaml.safe_load((tmp_path / "out.yaml").read_bytes())
    assert package["root"]["inputDefinitions"]["parameters"]["beam_options"]["defaultValue"] == options
    origin = Origin.of(package["pipelineInfo"]["description"])
    assert origin is not None
    assert origin.service_account == "wgan-pipeline@MY-PROJECT.iam.gserviceaccount.com"
    assert origin.network == "projects/123456789/global/networks/my-network"
