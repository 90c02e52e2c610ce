"""Settings of the sample command."""

from typing import Annotated

from components.core.settings import Config, Setting, Unkeyed


class SampleConfig(Config):
    """Draw images from the champion into one grid."""

    registry: Annotated[str, Unkeyed("Folder of the registry, local or gs://BUCKET/FOLDER.")] = "runs/registry"
    out: Annotated[str, Unkeyed("PNG file to write.")] = "samples.png"
    count: Annotated[int, Setting("Number of images; whole rows of several classes.", at_least=1, at_most=10_000)] = 64
    class_name: Annotated[
        str,
        Setting("Class to draw, by name or number, from a conditional champion; when empty, a row for every class."),
    ] = ""
    seed: Annotated[int, Setting("Seed of the images.", at_least=0, below=2**31)] = 0
