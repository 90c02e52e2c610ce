"""Settings of the evaluate stage."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from components.core.settings import Config, InputDigest, Setting, Unkeyed

JUDGE = "judge"
_share = functools.partial(Setting, above=0.0, at_most=1.0)
_fraction = functools.partial(Setting, at_least=0.0, at_most=1.0)


class EvaluateConfig(Config):
    """Score samples of a checkpoint or of another model, and of the champion, against test images; give a verdict."""

    checkpoint: Annotated[str, Unkeyed("Folder of the checkpoint to judge; none when empty.")] = ""
    samples: Annotated[
        str,
        Unkeyed(
            "Images that another model drew, to judge in place of a checkpoint: FILE.npz with uint8 `images` and "
            "perhaps `labels`, or a folder of image files, with a folder for each class or without."
        ),
    ] = ""
    against: Annotated[str, Unkeyed("Such images, which `samples` must be better than; none when empty.")] = ""
    dataset: Annotated[str, Unkeyed("Folder of the dataset.")]
    embedding: Annotated[str, Unkeyed("Folder of the embedding.")]
    evaluation: Annotated[str, Unkeyed("Folder for evaluations; a digest of settings, inputs and code names each.")]
    registry: Annotated[str, Unkeyed("Folder of the registry with the champion to compare with; none when empty.")] = ""
    checkpoint_digest: Annotated[str, InputDigest("Expected digest of the checkpoint; any when empty.")] = ""
    dataset_digest: Annotated[str, InputDigest("Expected digest of the dataset; any when empty.")] = ""
    embedding_digest: Annotated[str, InputDigest("Expected digest of the embedding; any when empty.")] = ""
    sample_count: Annotated[int, Setting("Number of samples to score.", at_least=100, at_most=1_000_000)] = 10_000
    distance_limit: Annotated[
        float,
        Setting(
            "Largest Fréchet distance per dimension in any space, corrected for the number of images. 0 disables "
            "all limits, and nothing is promoted.",
            at_least=0.0,
        ),
    ] = 0.055
    recall_limit: Annotated[float, _fraction("Smallest recall, divided by that of real images.")] = 0.5
    coverage_limit: Annotated[float, _fraction("Smallest coverage, divided by that of real images.")] = 0.5
    class_distance_limit: Annotated[
        float, _fraction("Largest total variation between the class shares of samples and test images.")
    ] = 0.1
    class_ratio_limit: Annotated[float, _fraction("Smallest share of a class over that among test images.")] = 0.5
    class_coverage_limit: Annotated[float, _fraction("Smallest coverage of a class over that of all images.")] = 0.4
    class_accuracy_limit: Annotated[
        float, _fraction("Smallest share of samples that show the class asked for, divided by that of real images.")
    ] = 0.8
    worst_class_accuracy_limit: Annotated[float, _fraction("The same of any class.")] = 0.5
    pixel_limit: Annotated[
        float,
        Setting(
            "Largest shift of brightness, a color or saturation from test images, in standard deviations of their "
            "pixels, and largest relative difference in contrast.",
            at_least=0.0,
        ),
    ] = 0.1
    faulty_share_limit: Annotated[float, _share("Share of samples as faulty as the worst 1% of test images.")] = 0.035
    outlier_share_limit: Annotated[
        float, _share("Largest share of samples as far from training images as the furthest 0.05% of test images.")
    ] = 0.012
    repeat_share_limit: Annotated[
        float, _share("Largest share of samples as near to another one as the nearest 1% of test images.")
    ] = 0.1
    distinct_share_limit: Annotated[float, _fraction("Smallest share of distinct samples.")] = 0.999
    copy_share_limit: Annotated[
        float, _share("Largest share of samples as near to a training image as the nearest 1% of test images.")
    ] = 0.05
    copy_nearness_limit: Annotated[
        float, _fraction("Largest probability that a sample is nearer to training images than a test image is.")
    ] = 0.55
    uncertified: Annotated[
        str,
        Setting(
            "Verdict without a certified feature space, when there are too few images for a certificate: HOLD at "
            "best, or judge as usual.",
            choices=("hold", JUDGE),
        ),
    ] = "hold"
    seed: Annotated[int, Setting("Seed of the samples.", at_least=0, below=2**31)] = 0

    @property
    def images(self) -> dict[str, Path]:
        """The images of other models, by the setting that gives them."""
        return {name: Path(getattr(self, name)) for name in ("samples", "against") if getattr(self, name)}

    def joint_problems(self) -> Iterator[str]:
        if bool(self.samples) == bool(self.checkpoint):
            both = f"{self.samples} and {self.checkpoint}" if self.samples else "neither"
            yield f"either samples or checkpoint must be given, got {both}"
        for name, path in self.images.items():
            if not path.exists():
                yield f"{name} must be FILE.npz or a folder, on this machine, got {path}, which does not exist"
        if self.against and not self.samples:
            yield f"against must be given with samples, got {self.against} alone"
        if self.against and self.registry:
            yield f"against replaces the champion of registry, got {self.against} and {self.registry}; leave out one"
