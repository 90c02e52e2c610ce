"""`wgan compile` and `wgan profiles`: what is written for a profile, and what is refused before anything is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.profiles import profiles
from tests.unit.pipeline.conftest import messages, wgan


def own(folder: Path, content: Any) -> str:
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--profile", "gpu-14", "--allow_tags"],
            ["profile 'gpu-14' is unknown; did you mean gpu-l4? (--profiles FILE"],
        ),
        (
            ["--profiles", "absent.yaml", "--allow_tags"],
            ["profiles cannot be read: No such file or directory: absent.yaml"],
        ),
        (
            ["--set", "steps", "--set", "a=1", "--set", "a=2"],
            ["set must be NAME=VALUE, got 'steps'", "set a is given twice"],
        ),
        (["--target", "moon"], ["argument --target: invalid choice: 'moon'"]),
        (
            ["--profile", "tpu-v5e-8", "--allow_tags", "--set", "batch-size=100"],
            ["with profile tpu-v5e-8: batch_size must be a multiple of replicas on a TPU, got 100 for 8"],
        ),
        (
            ["--profile", "tpu-v5e-8", "--allow_tags", "--set", "reproducibility=exact"],
            ["with profile tpu-v5e-8: reproducibility must be standard on a TPU, got exact"],
        ),
        (
            ["--profile", "gpu-l4-4", "--allow_tags", "--set", "batch_size=3"],
            ["with profile gpu-l4-4: batch_size must be at least replicas, got 3 for 4"],
        ),
        (
            ["--profile", "gpu-l4", "--allow_tags", "--set", "replicas=2", "--set", "stepz=1", "--set", "seed=x"],
            [
                "with profile gpu-l4: unknown parameter stepz; did you mean steps?",
                "with profile gpu-l4: replicas follows from profile gpu-l4 (gpu, 1): leave it out",
                "with profile gpu-l4: seed must be a whole number, got 'x'",
            ],
        ),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(tmp_path: Path, words: list[str], told: list[str]) -> None:
    found = wgan("compile", *words, cwd=tmp_path)
    assert found.returncode == 64
    assert "Traceback" not in found.stderr
    for message, expected in zip(messages(found), told, strict=True):
        assert expected in message
    assert not list(tmp_path.iterdir())


def test_the_hardware_is_checked_with_the_defaults_of_the_package(tmp_path: Path) -> None:
    stages = {"train": {"accelerator": "nvidia.com/gpu", "accelerator_count": 64}}
    file = own(tmp_path, {"mine": {"kfp": {"service_account": "trainer", "stages": stages}}})
    flags = ("compile", "--profiles", file, "--profile", "mine", "--allow_tags", "--output", str(tmp_path / "out.yaml"))
    assert messages(wgan(*flags, "--set", "batch_size=63")) == [
        "with profile mine: batch_size must be at least replicas, got 63 for 64"
    ]
    assert not (tmp_path / "out.yaml").exists()
    written = wgan(*flags, "--set", "batch_size=640", "--set", "source=digits")
    assert written.returncode == 0, written.stderr
    assert "start its runs as service account trainer, which no package can say" in written.stderr
    documents = list(yaml.safe_load_all((tmp_path / "out.yaml").read_bytes()))
    parameters = documents[0]["root"]["inputDefinitions"]["parameters"]
    found = {name: parameters[name].get("defaultValue") for name in ("batch_size", "replicas", "source", "root")}
    assert found == {"batch_size": 640, "replicas": 64, "source": "digits", "root": None}
    assert len(documents) == 1, "GPUs alone are part of the pipeline's own message"


def test_the_profiles_are_printed_with_ones_own(tmp_path: Path) -> None:
    content = {"mine": {"kfp": {"service_account": "me", "stages": {"train": {"spot": True}}}}}
    found = wgan("profiles", "--profiles", own(tmp_path, content))
    assert found.returncode == 0
    assert found.stdout == profiles.as_yaml(tmp_path / "own.yaml")
    assert yaml.safe_load(found.stdout)["mine"] == content["mine"]
