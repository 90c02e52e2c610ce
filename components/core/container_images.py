"""The container images of the stages, each a target of docker/Dockerfile."""

VERSION = "0.2.0"
PREPROCESS = "preprocess"
TRAIN = "train"
# The images of the train stage by hardware; every other stage runs in the first.
TRAIN_IMAGES = {"cpu": TRAIN, "gpu": "train-gpu", "tpu": "train-tpu"}
NAMES = (PREPROCESS, *TRAIN_IMAGES.values())
NO_IMAGE = "none: run as a process"


def image(name: str) -> str:
    """The local name of an image, such as `wgan/train:0.2.0`."""
    return f"wgan/{name}:{VERSION}"
