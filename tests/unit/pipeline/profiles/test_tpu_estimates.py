"""Tests for tpu_estimates.py: what `wgan compile` and `wgan profiles` say of TPUs."""

from pathlib import Path

import pytest
import yaml

from pipeline.profiles import profile_file
from tests.unit.pipeline.conftest import messages, wgan


def compiled(folder: Path, *words: str) -> str:
    done = wgan("compile", "--allow_tags", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_compile_shows_what_a_chip_needs_for_the_batch_and_the_images(tmp_path: Path) -> None:
    larger = ["--set=batch_size=200", "--set=height=32", "--set=width=32", "--set=color=rgb"]
    assert "256 of 28x28x1 on 8 chips: 26 MB" in compiled(tmp_path, "--profile=tpu-v5e-8")
    assert "64 of 28x28x1 on 8 chips: 21 MB" in compiled(tmp_path, "--profile=tpu-v5e-8", "--set=batch_size=64")
    assert "256 of 64x64x3 on 4 chips" in compiled(tmp_path, "--profile=tpu-v5e-4", *larger)
    largest = ["--set=batch_size=64", "--set=height=100", "--set=width=128", "--set=color=rgb"]
    assert "64 of 128x128x3 on 8 chips: 198 MB" in compiled(tmp_path, "--profile=tpu-v5e-8", *largest)
    assert " chips: " not in compiled(tmp_path, "--profile=tpu-v5e-8", "--set=base_filters=64")
    assert " chips: " not in compiled(tmp_path, "--profile=gpu-l4")


@pytest.mark.parametrize("target", ["kfp", "vertex"])
def test_a_batch_that_does_not_fit_a_chip_is_refused(tmp_path: Path, target: str) -> None:
    words = ["--allow_tags", f"--target={target}", "--profile=tpu-v5e-4", "--set=height=300", "--set=width=256"]
    refused = wgan("compile", *words, "--set=color=rgb", "--set=batch_size=8192", cwd=tmp_path)
    assert refused.returncode == 64
    (message,) = messages(refused)
    assert all(word in message for word in ("tpu-v5e-4", "batch_size 8192", "batch_size 2048 of 256x256x3"))
    assert not list(tmp_path.iterdir())
    compiled(tmp_path, *words[1:], "--set=color=rgb", "--set=batch_size=4096")


def test_other_chips_are_not_judged_by_the_table(tmp_path: Path) -> None:
    own = yaml.safe_load(profile_file.as_yaml())["tpu-v5e-4"]
    own["kfp"]["stages"]["train"]["node_selectors"]["cloud.google.com/gke-tpu-accelerator"] = "tpu-v6e-slice"
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"v6e": {"kfp": own["kfp"]}}))
    large = ["--set=height=28", "--set=width=28", "--set=color=gray", "--set=batch_size=1048576"]
    assert " chips: " not in compiled(tmp_path, "--profiles=own.yaml", "--profile=v6e", *large)
