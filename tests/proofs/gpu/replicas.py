"""The selfcheck's comparison of one replica with two, on two virtual devices of one GPU: standard and exact.

python -m tests.proofs.gpu.replicas gpu|cpu
"""

import json
import logging
import sys
from typing import Any

import tensorflow as tf

from components.core.artifacts.datasets import ImageShape
from components.selfcheck import checks
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import network_of

_MEBIBYTES = 4096  # of each virtual GPU
_TOLERANCE = 1e-9  # of the selfcheck in float64


def main() -> int:
    """Print a line for each check and all of them as JSON; 1 if one failed, else 0."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    kind = sys.argv[1]
    on_gpu = kind == "gpu"
    device = tf.config.list_physical_devices(kind.upper())[0]
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=_MEBIBYTES if on_gpu else None)
    tf.config.set_logical_device_configuration(device, [limit] * 2)
    one, many = (
        tf.distribute.OneDeviceStrategy(f"/{kind}:0"),
        tf.distribute.MirroredStrategy([f"/{kind}:0", f"/{kind}:1"]),
    )
    rows = []
    for mode in ("standard", "exact"):
        if mode == "exact" and on_gpu:
            tf.config.experimental.enable_op_determinism()
        size: Any = {} if on_gpu else {"base_filters": 4, "latent_size": 8}
        config = TrainConfig(dataset="none", checkpoints="none", batch_size=16, reproducibility=mode, **size)
        network = network_of(config, ImageShape(28, 28, 1), classes=10)
        subject = checks.Subject(config=config, network=network, one=one, many=many, tolerance=_TOLERANCE)
        with in_float64():
            results = [*checks.check_step(subject), checks.check_losses(subject)]
        rows += [[mode, result.check, result.outcome, result.detail] for result in results]
    for row in rows:
        print(*row, sep="; ", flush=True)
    print(json.dumps(rows))
    return int(any(outcome == checks.FAILED for _, _, outcome, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
