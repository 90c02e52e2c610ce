"""`wgan compile` and `wgan profiles`: packages of profiles, and refusals before anything is written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.core.container_images import VERSION
from pipeline import step_table
from pipeline.package import config_file
from pipeline.profiles.targets import Origin
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


def test_a_package_has_the_hardware_of_its_profile_and_its_parameters_where_a_file_gives_none(tmp_path: Path) -> None:
    train = {"accelerator": "nvidia.com/gpu", "accelerator_count": 64}
    overrides = {"batch_size": 256, "steps": 2000, "beta_2": 0.98}
    file = own(tmp_path, {"mine": {"parameters": overrides, "kfp": {"stages": {"train": train}}}})
    flags = ["compile", "--profiles", file, "--profile", "mine", "--config", "mine.yaml"]
    file_parameters = {name: value for name, value in DEFAULTS.items() if name not in ("steps", "beta_2")}
    (tmp_path / "mine.yaml").write_text(config_file.written({**file_parameters, "source": "digits", "batch_size": 640}))
    assert "--allow-tags" in wgan(*flags, cwd=tmp_path).stderr
    assert not (tmp_path / "pipeline.yaml").exists()
    written = wgan(*flags, "--allow-tags", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    text = (tmp_path / "pipeline.yaml").read_text()
    assert f"image: wgan/train-gpu:{VERSION}\n" in text
    (package,) = yaml.safe_load_all(text)  # GPUs alone are part of the pipeline's own message
    parameters = package["root"]["inputDefinitions"]["parameters"]
    expected = {"accelerator": "gpu", "replicas": 64, "source": "digits", "root": None, **overrides, "batch_size": 640}
    assert {name: parameters[name].get("defaultValue") for name in expected} == expected


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
