"""The settings that say where to train: the same for `train` and `embed`."""

from typing import Annotated

from components.settings import Setting

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
