"""Settings of the preprocess stage."""

import functools
import re
from collections.abc import Iterator
from typing import Annotated

from components.core.settings import Config, InputDigest, Setting, Unkeyed
from components.core.stage.inputs import LabelFile, Results, Source, SourceIndex

_side = functools.partial(Setting, at_least=0, at_most=1024)
_level = functools.partial(Setting, at_least=0, at_most=65535)
_share = functools.partial(Setting, at_least=0.0, below=1.0)
TEST_SHARE = 0.1  # of the images are for tests by default, or more


class PreprocessConfig(Config):
    """Turn images into TFRecord shards per split and a description, by an Apache Beam pipeline."""

    source: Source
    dataset: Annotated[str, Unkeyed("Folder for datasets; a digest of source, settings and code names each.")]
    source_fingerprint: Annotated[str, InputDigest("Fingerprint of the source; computed when empty.")] = ""
    label_file: LabelFile = ""
    label_column: Annotated[str, Setting("Column, array or feature of labels; empty: one that its name shows.")] = ""
    labels_from: Annotated[
        str,
        Setting(
            "Where labels come from: `auto` takes files of labels, else folders; `folder` the first below the split, "
            "`parent` that of the image itself, `file` a file of labels; `none` ignores all.",
            choices=("auto", "none", "folder", "parent", "file"),
        ),
    ] = "auto"
    source_index: SourceIndex = ""
    results: Results = ""
    previous_datasets: Annotated[str, Unkeyed("Folder of earlier datasets to take pixels from; none when empty.")] = ""
    downloads: Annotated[str, Unkeyed("Folder for the downloaded files of `fashion-mnist`.")] = "downloads"
    height: Annotated[int, _side("Image height in pixels; 0: that of the source, or 64 for image files.")] = 0
    width: Annotated[int, _side("Image width in pixels; 0: that of the source, or 64 for image files.")] = 0
    color: Annotated[
        str,
        Setting(
            "Color of the dataset; `source` keeps that of the source, RGB for image files.",
            choices=("source", "gray", "rgb", "rgba"),
        ),
    ] = "source"
    background: Annotated[
        str, Setting("Color of transparent pixels: `white`, `black`, `mean` of the opaque pixels, or `#rrggbb`.")
    ] = "white"
    white_level: Annotated[int, _level("White in the source, such as 1 or 4095; 0: 255, or 65535 of 16 bits.")] = 0
    resize: Annotated[
        str,
        Setting(
            "How to resize: `fill` covers the size and crops the center, `fit` fits inside and pads with black, "
            "`pad` does so without enlarging, `stretch` ignores the aspect ratio.",
            choices=("fill", "fit", "pad", "stretch"),
        ),
    ] = "fill"
    validation_fraction: Annotated[float, _share("Share of validation images if the source has no such split.")] = 0.1
    test_fraction: Annotated[
        float,
        _share(
            "Share of test images if the source has no such split; 0: a tenth, but from 5,000 images on at least the "
            "2,200 that a certified verdict needs."
        ),
    ] = 0.0
    bad_images_limit: Annotated[float, Setting("Largest share that is quarantined.", at_least=0.0, at_most=1.0)] = 0.01
    images_per_shard: Annotated[int, Setting("Approximate number of images per shard.", at_least=1)] = 16384
    seed: Annotated[int, Setting("Seed of the order of images in the shards.", at_least=0)] = 0
    beam_options: Annotated[str, Unkeyed("Beam's pipeline options, such as `--runner=FlinkRunner`.")] = ""

    def joint_problems(self) -> Iterator[str]:
        held_out = self.validation_fraction + (self.test_fraction or TEST_SHARE)
        if held_out >= 1:
            yield f"validation_fraction and test_fraction must leave images to train on, got {held_out} together"
        if self.label_file and self.labels_from not in ("auto", "file"):
            yield f"label_file {self.label_file} has no use with labels_from {self.labels_from}; leave one out"
        if (self.height > 0) != (self.width > 0):
            yield f"height and width must be given together, got {self.height} and {self.width}"
        if not re.fullmatch("white|black|mean|#[0-9a-fA-F]{6}", self.background):
            yield f"background must be white, black, mean or a color such as #8000ff, got {self.background!r}"
