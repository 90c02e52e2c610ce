"""Settings of the preprocess stage."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid
from components.core.stage.inputs import Source, SourceIndex


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig:
    """Turns images into a dataset: TFRecord shards per split and a description, by an Apache Beam pipeline."""

    source: Source
    dataset: Annotated[
        str, Setting("Folder to make; `{key}` in it becomes a digest of source, settings and code.", in_key=False)
    ]
    source_fingerprint: Annotated[
        str, Setting("What the decide stage found in the source; computed when empty.", digest=True)
    ] = ""
    source_index: SourceIndex = ""
    previous_datasets: Annotated[
        str,
        Setting(
            "Folder of earlier datasets; images that one of them has already are not decoded again. None when empty.",
            in_key=False,
        ),
    ] = ""
    downloads: Annotated[str, Setting("Folder that keeps what `fashion-mnist` downloads.", in_key=False)] = "downloads"
    height: Annotated[
        int,
        Setting(
            "Image height in pixels; 0 keeps the source's own, or 64 for a folder of images.", at_least=0, at_most=1024
        ),
    ] = 0
    width: Annotated[
        int,
        Setting(
            "Image width in pixels; 0 keeps the source's own, or 64 for a folder of images.", at_least=0, at_most=1024
        ),
    ] = 0
    color: Annotated[
        str,
        Setting(
            "`source` keeps the source's own, and means RGB for a folder of images.", choices=("source", "grey", "rgb")
        ),
    ] = "source"
    resize: Annotated[
        str,
        Setting(
            "How another size becomes the one asked for: `fill` covers it and crops the centre, `fit` goes inside it "
            "and pads with black, `pad` does so without enlarging, `stretch` ignores the aspect.",
            choices=("fill", "fit", "pad", "stretch"),
        ),
    ] = "fill"
    validation_fraction: Annotated[
        float, Setting("Share of validation images where the source has no such split.", at_least=0.0, below=1.0)
    ] = 0.1
    test_fraction: Annotated[
        float, Setting("Share of test images where the source has no such split.", at_least=0.0, below=1.0)
    ] = 0.1
    bad_images_limit: Annotated[
        float, Setting("Share of images that may be quarantined as undecodable.", at_least=0.0, at_most=1.0)
    ] = 0.01
    images_per_shard: Annotated[int, Setting("About how many images a shard holds.", at_least=1)] = 16384
    seed: Annotated[int, Setting("Decides the order of the images in the shards.", at_least=0)] = 0
    beam_options: Annotated[
        str, Setting("Options for Beam in Beam's own words, such as `--runner=FlinkRunner`.", in_key=False)
    ] = ""

    def __post_init__(self) -> None:
        taken = self.validation_fraction + self.test_fraction
        require_valid(
            self,
            ""
            if taken < 1
            else f"validation_fraction and test_fraction must leave images to train on, got {taken} together",
            ""
            if (self.height > 0) == (self.width > 0)
            else f"height and width must be given together, got {self.height} and {self.width}",
        )
