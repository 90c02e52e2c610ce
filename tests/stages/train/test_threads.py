"""The number of threads and cores: `exact` does not depend on it; standard training records it and warns.

The whole matrix is tests/proofs/threads.py.
"""

import os
from pathlib import Path

import pytest

from components.core.artifacts import checkpoints
from tests.proofs import threads


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return threads.make_dataset(tmp_path_factory.mktemp("threads") / "dataset")


def recorded(location: Path) -> int:
    return int(checkpoints.Description.of(checkpoints.step_folder(location, threads.STEPS)).made_with["threads"])


@pytest.mark.slow
def test_exact_gives_the_same_bits_for_any_number_of_threads_and_cores(dataset: Path, tmp_path: Path) -> None:
    straight, moved = tmp_path / "straight", tmp_path / "moved"
    threads.train(dataset, straight, "exact", threads=4)
    threads.train(dataset, moved, "exact", threads=2, steps=threads.STEPS // 2)
    one_core = {min(os.sched_getaffinity(0))}
    log = threads.train(dataset, moved, "exact", cores=one_core)
    assert threads.bits(moved) == threads.bits(straight)
    assert "resuming at step" in log
    assert "bits may differ" not in log
    assert recorded(straight) == recorded(moved) == 1


@pytest.mark.slow
def test_standard_training_records_its_threads_and_warns_where_they_change(dataset: Path, tmp_path: Path) -> None:
    """The third training shows that threads do change bits here; otherwise the test of `exact` would prove nothing."""
    straight, half, resumed, moved = (tmp_path / name for name in ("straight", "half", "resumed", "moved"))
    threads.train(dataset, straight, "standard", threads=4)
    threads.train(dataset, half, "standard", threads=4, steps=threads.STEPS // 2)
    assert "bits may differ" not in threads.resumed(dataset, half, resumed, "standard", 4)
    assert threads.bits(resumed) == threads.bits(straight)
    assert recorded(straight) == 4
    log = threads.resumed(dataset, half, moved, "standard", 1)
    assert "threads was 4 and is 1 (TF_NUM_INTRAOP_THREADS=4 restores it)" in log
    assert threads.bits(moved) != threads.bits(straight)
