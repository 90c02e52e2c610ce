"""The programs that `make prove-tpu` gives to the TPU compiler, and the wrong ones that it must not let through."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Program:
    """The updates of a training, as compiled for one of its replicas."""

    name: str
    batch: int = 64
    image: tuple[int, int, int] = (28, 28, 1)
    replicas: int = 8
    precision: str = "float32"
    classes: int = 10
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the train stage
    classifier: bool = False  # the embed stage's update instead of train's two
    steps: int = 0  # of a block of the train stage, instead of its updates
    exchanged: Mapping[str, int] = field(default_factory=dict)  # bytes of each update's sums over replicas, if known
    # Of a wrong program: what is wrong, and the error that gives it away; none if it compiles without all-reduces.
    fault: str = ""
    error: str = ""


DEFAULT = Program("default", exchanged={"critic": 452_408, "generator": 790_668})
BLOCK = Program("block of 10 steps", steps=10, exchanged={"block": 1_243_076})  # as a TPU runs it, with its noise
VARIANTS = [
    Program("unlabeled", classes=0),
    Program("weight clipping", settings={"constraint": "weight_clipping"}),
    Program("augmentation", settings={"augmentation": "geometric"}),
    Program("classifier", batch=128, classifier=True),
    Program("one chip", replicas=1),
    Program("bfloat16", precision="bfloat16"),
    *(
        Program(
            f"{height}x{width}x{channels}, batch {batch}, {replicas} chips", batch, (height, width, channels), replicas
        )
        for height, width, channels in ((28, 28, 1), (64, 64, 3))
        for replicas in (4, 8)
        for batch in (64, 256, 1024)
        if (height, replicas, batch) != (28, 8, 64)
    ),
    *(Program(f"{side}x{side}x3, batch 64, 8 chips", image=(side, side, 3)) for side in (128, 256)),
]
# So many images on a chip do not fit its memory.
TOO_LARGE = [
    Program(
        f"{side}x{side}x{channels}, batch {batch}, one chip",
        batch,
        (side, side, channels),
        replicas=1,
        error="Ran out of memory in memory space hbm",
    )
    for side, channels, batch in ((28, 1, 262144), (64, 3, 32768), (128, 3, 8192), (256, 3, 2048))
]
CONTROLS = [
    Program("plain slice", fault="plain slice", error="Split op doesn't support split for the dynamic dimension"),
    Program("wrong count", fault="wrong count", error="replica groups should contain 4 replicas, but found 8"),
    Program("no sums", fault="no sums"),
]
PROGRAMS = {program.name: program for program in [DEFAULT, BLOCK, *VARIANTS, *TOO_LARGE, *CONTROLS]}
