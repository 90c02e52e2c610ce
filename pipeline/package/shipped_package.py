"""The shipped pipeline: compiled for CPUs, so that running it needs no kfp."""

from pathlib import Path

from components.core import container_images
from components.embed.config import EmbedConfig
from pipeline.package import reader
from pipeline.package.reader import Constant, Package

PATH = Path(__file__).with_name("package.yaml")  # `make goldens` writes it
# Embed's image is for CPUs: it gets the hardware of train only if train's image is the same.
EMBED_ON_CPU = {"accelerator": "cpu", "tpu": EmbedConfig.tpu, "replicas": EmbedConfig.replicas}


def read() -> Package:
    """Read the shipped package."""
    return reader.read(PATH.read_bytes(), "the pipeline")


def put_train_on(hardware: str, found: Package) -> None:
    """Give train the image for its hardware, a key of `TRAIN_IMAGES`, as compiling for such a profile does."""
    tasks = {task.name: task for task in found.tasks}
    tasks["train"].container["image"] = container_images.image(container_images.TRAIN_IMAGES[hardware])
    if hardware != "cpu":
        constants = {name: Constant(value) for name, value in EMBED_ON_CPU.items()}
        tasks["embed"].inputs = {**tasks["embed"].inputs, **constants}
