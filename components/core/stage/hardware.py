"""Hardware settings that `train` and `embed` share, and checks that need no TensorFlow."""

from pathlib import Path
from typing import Annotated

from components.core.settings import Unkeyed

Accelerator = Annotated[
    str,
    Unkeyed(
        "Hardware to train on. `multi-worker`: several processes with TF_CONFIG and shared storage. `auto`: "
        "multi-worker if TF_CONFIG names several workers, else the first of TPU, GPU and CPU.",
        choices=("auto", "tpu", "gpu", "cpu", "multi-worker"),
    ),
]
Tpu = Annotated[str, Unkeyed("TPU to use: `local`, a name, or grpc://HOST:PORT; when empty, TPU_NAME or `local`.")]
Replicas = Annotated[
    int,
    Unkeyed(
        "Number of replicas; 0: all devices. More than one on `cpu` are virtual devices. Shards of a batch may "
        "differ by one image, except on a TPU.",
        at_least=0,
        at_most=64,
    ),
]


def has_tpu(devices: Path = Path("/dev")) -> bool:
    """Return whether this host may have a TPU: a device `accel*`, or on newer hosts a group of `vfio`."""
    return any(devices.glob("accel*")) or any(devices.glob("vfio/[0-9]*"))


def exact_problem(reproducibility: str, accelerator: str) -> str:
    """Return what is wrong with `exact` on an accelerator; empty if nothing is."""
    if reproducibility == "exact" and accelerator == "tpu":
        return (
            "reproducibility must be standard on a TPU, got exact: exact sums whole numbers of 64 bits, which "
            "TensorFlow does not do over the cores of a TPU (CrossReplicaSum has no int64)"
        )
    return ""
