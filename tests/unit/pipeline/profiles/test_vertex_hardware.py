"""Settings of a stage on Vertex: Vertex knows its machines; and each mistake."""

from typing import Any

import pytest

from pipeline.profiles.profiles import VERTEX
from tests.unit.pipeline.profiles.contents import gpus, of_train, parse, refusal


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cpu_request": 3}, ".cpu_request cpu_limit"),
        ({"accelerator": "NVIDIA_L4"}, "accelerator accelerator_count"),
        (gpus(8, "TPU_V5_LITEPOD"), "accelerator TPU_V5_LITEPOD machine_type"),
        ({"timeout": 5, "spot": True}, "spot timeout machine_type"),
        ({"machine_type": "n2-standard-8", "cpu_limit": 8}, "machine_type cpu_limit"),
        ({"machine_type": "ct6e-standard-8t"}, "machine_type ct6e-standard-8t v6e kfp"),
        ({"machine_type": "ct5p-hightpu-4t"}, "machine_type ct5lp-hightpu-1t ct5p-hightpu-4t"),
        ({"machine_type": "g2-standard-8", "tpu_topology": "2x2"}, "machine_type ct5lp-hightpu-1t"),
        ({"machine_type": "ct5lp-hightpu-8t"}, "tpu_topology 2x4 ct5lp-hightpu-8t"),
        ({"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x4"}, "tpu_topology 2x2 2x4"),
        (gpus(1, "NVIDIA_L4", machine_type="ct5lp-hightpu-4t"), "machine_type tpu_topology accelerator"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_its_path(settings: Any, named: str) -> None:
    (found,) = refusal(of_train(VERTEX, settings))
    assert found.startswith("mine.vertex.stages.train")
    assert all(name in found for name in named.split())


@pytest.mark.parametrize(
    "settings", [gpus(8, "NVIDIA_H100_80GB", machine_type="a3-highgpu-8g"), {"machine_type": "n2-standard-8"}]
)
def test_vertex_decides_which_machines_it_has(settings: dict[str, Any]) -> None:
    (found,) = parse(of_train(VERTEX, settings)).values()
    assert found.replicas == settings.get("accelerator_count", 0)
