"""The container images of the stages, each a target of docker/Dockerfile, and the version that they share."""

import os

VERSION = "0.1.0"
PREPROCESS = "preprocess"
TRAIN = "train"
# The image that the train stage may run in, by the hardware that it is for; every other stage runs in the first.
TRAIN_IMAGES = {"cpu": TRAIN, "gpu": "train-gpu", "tpu": "train-tpu"}
NAMES = (PREPROCESS, *TRAIN_IMAGES.values())
NO_IMAGE = "none: run as a process"


def image(name: str) -> str:
    """The name that an image has on the machine that built it, such as `wgan/train:0.1.0`."""
    return f"wgan/{name}:{VERSION}"


def running_image() -> str:
    """The image that this process runs in, as whoever started it says in `WGAN_IMAGE`; `NO_IMAGE` if nobody does."""
    return os.environ.get("WGAN_IMAGE") or NO_IMAGE
