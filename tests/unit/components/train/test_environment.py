from typing import Any

import pytest
import tensorflow as tf

from components.core.stage import provenance
from components.train import environment

BASE: dict[str, Any] = {
    "code": "c",
    "libraries": {"python": "3.11.2", "tensorflow-cpu": "2.21.0", "keras": "3.15.1", "pillow": "12.3"},
    "accelerator": "cpu",
    "replicas": 2,
    "precision": "float32",
    "device": "x86_64, 0123",
    "onednn": "default",
    "threads": 2,
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"code": "d"}, ["code was c and is d"]),
        ({"threads": 8}, ["threads was 2 and is 8 (TF_NUM_INTRAOP_THREADS=2 restores it)"]),
        ({"replicas": 4}, ["replicas was 2 and is 4"]),
        ({"device": "d"}, ["device was x86_64, 0123 and is d"]),
        ({"onednn": "0"}, ["onednn was default and is 0"]),
        ({"precision": "bfloat16"}, ["precision was float32 and is bfloat16"]),
        (
            {"libraries": {"tensorflow": "2.21.0", "keras": "3.15.1"}},
            ["tensorflow was None and is 2.21.0", "tensorflow-cpu was 2.21.0 and is None"],
        ),
        ({"libraries": {**BASE["libraries"], "python": "3.11.7", "pillow": "13"}}, []),  # they take no part in training
        ({"log_every": 3, "image": "other"}, []),
    ],
)
def test_what_bits_depend_on_is_compared(change: dict[str, Any], expected: list[str]) -> None:
    assert environment.differences(BASE, {**BASE, **change}, exact=False) == expected


def test_replicas_do_not_matter_under_exact_nor_threads_between_processors_and_gpus() -> None:
    on_gpu = {name: value for name, value in BASE.items() if name != "threads"}
    for old, new, exact in ((BASE, {**BASE, "replicas": 8}, True), (on_gpu, BASE, False), (BASE, on_gpu, False)):
        assert environment.differences(old, new, exact) == []


def test_this_machine_is_named_alike_and_all_that_is_compared_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    here = tf.distribute.OneDeviceStrategy("/cpu:0")
    noted = provenance.made_with("train", **environment.of(here, "float32"))
    assert noted.keys() >= {*environment.NAMES}
    assert environment.differences(noted, provenance.made_with("train", **environment.of(here, "float32")), False) == []
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setattr(environment.platform, "machine", lambda: "aarch64")
    other = provenance.made_with("train", **environment.of(here, "float32"))
    assert [line.split()[0] for line in environment.differences(noted, other, False)] == ["device", "onednn"]
