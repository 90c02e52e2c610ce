"""Settings of the hardware that `train` and `embed` share, and what is known of it without TensorFlow."""

from pathlib import Path
from typing import Annotated

from components.core.settings import Setting

Accelerator = Annotated[
    str,
    Setting(
        "Hardware to train on. `multi-worker` is several processes that share the storage, started with TF_CONFIG; "
        "`auto` takes it where TF_CONFIG names more than one, else the first of the others that is there.",
        choices=("auto", "tpu", "gpu", "cpu", "multi-worker"),
        in_key=False,
    ),
]
Tpu = Annotated[
    str,
    Setting("The TPU: `local`, a name, or grpc://HOST:PORT; when empty what TPU_NAME says, or `local`.", in_key=False),
]
Replicas = Annotated[
    int,
    Setting(
        "Replicas to train on; 0 takes all there are. More than one on `cpu` are virtual devices. Shares of a "
        "batch may differ by one, but on a TPU.",
        at_least=0,
        at_most=64,
        in_key=False,
    ),
]


def has_tpu(devices: Path = Path("/dev")) -> bool:
    """Return whether this host may have a TPU: `accel*`, or on newer hosts a group of `vfio`, among its devices."""
    return any(devices.glob("accel*")) or any(devices.glob("vfio/[0-9]*"))


def exact_problem(reproducibility: str, accelerator: str) -> str:
    """Return what is wrong with `exact` on an accelerator; empty if nothing is."""
    if reproducibility == "exact" and accelerator == "tpu":
        return (
            "reproducibility must be standard on a TPU, got exact: exact sums whole numbers of 64 bits, which "
            "TensorFlow does not do over the cores of a TPU (CrossReplicaSum has no int64)"
        )
    return ""
