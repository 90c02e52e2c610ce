"""Settings of the sample command."""

from typing import Annotated

from components.core.settings import Config, Setting


class SampleConfig(Config):
    """Draw images from the champion into one grid."""

    registry: Annotated[str, Setting("Folder of the registry, local or gs://BUCKET/FOLDER.", in_key=False)] = (
        "runs/registry"
    )
    out: Annotated[str, Setting("PNG file to write.", in_key=False)] = "samples.png"
    count: Annotated[
        int, Setting("Number of images; with several classes, whole rows.", at_least=1, at_most=10_000)
    ] = 64
    class_name: Annotated[
        str,
        Setting("Class to draw, by name or number, from a conditional champion; when empty, a row for every class."),
    ] = ""
    seed: Annotated[int, Setting("Seed of the images.", at_least=0, below=2**31)] = 0
