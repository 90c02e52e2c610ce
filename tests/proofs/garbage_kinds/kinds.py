"""Every kind of garbage that a verdict must not promote, from hardly visible to obvious."""

import dataclasses

import numpy as np

from tests.proofs.garbage_kinds import changes, sets
from tests.proofs.garbage_kinds.sets import Labeled, Pictures, Plant, asked, copies, everywhere, in_share, some


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    plant: Plant
    strengths: tuple[float, ...]  # from the weakest
    tolerated: int = 1  # of the strengths, the first ones, which may be promoted; docs/evaluation.md names others
    needs_classes: bool = False
    needs_color: bool = False

    @property
    def required(self) -> tuple[float, ...]:
        """The strengths that must not be promoted."""
        return self.strengths[self.tolerated :]

    def fits(self, pictures: Pictures) -> bool:
        has_classes, has_color = pictures.classes > 1, pictures.unseen.shape[3] > 1
        return (has_classes or not self.needs_classes) and (has_color or not self.needs_color)

    def planted(self, pictures: Pictures, strength: float, seed: int) -> Labeled:
        """Return the garbage; all strengths of a kind have the same random numbers, and two kinds have others."""
        return self.plant(pictures, strength, np.random.default_rng([seed, *self.name.encode()]))


_HOLES = (4, 5, 6, 9)  # pixels of 28
_LEVELS = (3, 6, 12, 24)
_WRONG = (0.1, 0.3, 1)  # share of images
_OUTLIERS = (0.01, 0.02, 0.05, 0.5)
_COPIED = (0.05, 0.2, 1)
_WARPED = (0.2, 0.5, 1)
_REPEATED = (0.3, 0.1, 0.03, 0)  # share of different images; 0 is one image
_BLENDED = (0.2, 0.5, 1)

KINDS = (
    # Labels.
    Kind("next class", asked(lambda labels, classes, random: (labels + 1) % classes), _WRONG, needs_classes=True),
    Kind(
        "random class",
        asked(lambda labels, classes, random: random.integers(classes, size=len(labels))),
        _WRONG,
        needs_classes=True,
    ),
    Kind("two classes swapped", asked(sets.swapped), (0.3, 0.6, 1), needs_classes=True),
    # Something over every image.
    Kind("black square", everywhere(changes.cover(0)), _HOLES, 0),
    Kind("gray square", everywhere(changes.cover(127)), _HOLES, 0),
    Kind("white square", everywhere(changes.cover(255)), _HOLES, 0),
    Kind("black disc", everywhere(changes.cover(0, disc=True)), _HOLES),
    Kind("white disc", everywhere(changes.cover(255, disc=True)), _HOLES),
    Kind("black square at one place", everywhere(changes.cover(0, fixed=True)), _HOLES),
    Kind("white square at one place", everywhere(changes.cover(255, fixed=True)), _HOLES),
    Kind("checkerboard", everywhere(changes.checkerboard(1)), _LEVELS),
    Kind("checkerboard of 2 pixels", everywhere(changes.checkerboard(2)), _LEVELS),
    Kind("checkerboard of 3 pixels", everywhere(changes.checkerboard(3)), _LEVELS),
    Kind("stripes", everywhere(changes.stripes), _LEVELS),
    Kind("diagonal weave", everywhere(changes.weave), _LEVELS),
    Kind("text", everywhere(changes.text), _BLENDED),
    Kind("white frame", everywhere(changes.frame), (1, 2, 3)),
    # Some images among real ones.
    Kind("noise images", some(changes.noise_images), (0.01, 0.02, 0.05, 1), 0),
    Kind("gray images", some(changes.gray_images), _OUTLIERS),
    Kind("inverted images", some(changes.inverted), _OUTLIERS),
    Kind("black images", some(changes.black_images), _OUTLIERS),
    Kind("mean images", some(changes.mean_images), _OUTLIERS),
    Kind("images of shuffled tiles", some(changes.tiles, 2), _OUTLIERS),
    # Every image drawn badly.
    Kind("brighter", everywhere(changes.brightness), (0.05, 0.15, 0.3)),
    Kind("darker", everywhere(changes.brightness), (-0.05, -0.15, -0.3)),
    Kind("more contrast", everywhere(changes.contrast), (0.1, 0.3, 0.6)),
    Kind("less contrast", everywhere(changes.contrast), (-0.1, -0.25, -0.5)),
    Kind("blur", everywhere(changes.blur), (0.4, 0.7, 1, 2)),
    Kind("noise", everywhere(changes.noise), (0.075, 0.15, 0.3)),
    Kind("salt and pepper", everywhere(changes.salt_and_pepper), (0.005, 0.02, 0.1)),
    Kind("blotches", everywhere(changes.blotches), (4, 12, 40)),
    Kind("low resolution", everywhere(changes.low_resolution(1)), (0.75, 0.5, 0.25)),
    Kind("large pixels", everywhere(changes.low_resolution(0)), (0.75, 0.5, 0.25)),
    Kind("ringing", everywhere(changes.ringing), (0.3, 0.7, 2)),
    Kind("few gray levels", everywhere(changes.banding), (16, 8, 4), 2),
    Kind("JPEG blocks", everywhere(changes.jpeg), (50, 20, 5)),
    Kind("mirrored halves", everywhere(changes.mirrored_half), _BLENDED),
    Kind("two images in one", everywhere(changes.other_below), (0.1, 0.25, 0.5)),
    Kind("missing rows", everywhere(changes.missing_rows), (1, 2, 4)),
    Kind("dark scanlines", everywhere(changes.scanlines), (0.1, 0.3, 1)),
    Kind("shuffled tiles", everywhere(changes.tiles), (2, 4), 0),
    # Colors.
    Kind("one channel brighter", everywhere(changes.first_channel), (0.05, 0.15, 0.3), needs_color=True),
    Kind("one channel darker", everywhere(changes.first_channel), (-0.05, -0.15, -0.3), needs_color=True),
    Kind("more saturation", everywhere(changes.saturation), (0.15, 0.3, 0.6), needs_color=True),
    Kind("less saturation", everywhere(changes.saturation), (-0.15, -0.3, -1), needs_color=True),
    Kind("channels swapped", everywhere(changes.channels_swapped), _BLENDED, needs_color=True),
    Kind("one channel shifted", everywhere(changes.shifted_channel), (1, 2, 3), needs_color=True),
    # Repeats.
    Kind("repeated with 1 level of noise", sets.repeated(1), _REPEATED, 0),
    Kind("repeated with 3 levels of noise", sets.repeated(3), _REPEATED, 0),
    Kind("repeated exactly", sets.repeated(0), _REPEATED, 0),
    Kind("some repeated exactly", in_share(sets.repeats_of_others), (0.005, 0.02, 0.1)),
    # Training images.
    Kind("copies", copies(changes.same), _COPIED),
    Kind("copies, warped", copies(changes.warped, 1), _WARPED),
    Kind("copies, mirrored", copies(changes.mirrored), _COPIED),
    Kind("copies, rotated by 5 degrees", copies(changes.rotated, 5), _COPIED),
    Kind("copies, zoomed", copies(changes.zoomed, 1), _COPIED),
    Kind("copies, shifted by a pixel", copies(changes.shifted, 1), _COPIED, 2),
    Kind("copies with a hole", copies(changes.cover(0), 4), _COPIED),
    Kind("copies as JPEG of quality 50", copies(changes.jpeg, 50), _COPIED),
    Kind("copies as JPEG of quality 75", copies(changes.jpeg, 75), _COPIED),
    Kind("copies as JPEG of quality 90", copies(changes.jpeg, 90), _COPIED),
    Kind("two training images blended", sets.of_training(changes.another), (0.1, 0.25, 0.5)),
    Kind("Gaussians of the classes", in_share(sets.gaussians), (0.2, 0.5, 1)),
    Kind("means of a class", sets.means(0), (2, 5, 30)),
    Kind("blurred means of a class", sets.means(1), (2, 5, 30)),
    # Missing images.
    Kind("missing classes", sets.without_classes, (0.1, 0.2, 0.5), 0, needs_classes=True),
    Kind("noise instead of classes", sets.noise_for_classes, (0.1, 0.5, 0.9), 0, needs_classes=True),
    Kind("a class replaced by another with noise", sets.class_replaced(1, by=0), (0.05, 0.2), 0, needs_classes=True),
    Kind("missing part of a class", sets.without_clusters(every_class=False), (0.125, 0.25, 0.5), 3),
    Kind("missing part of each class", sets.without_clusters(every_class=True), (0.125, 0.25, 0.5), 2),
)
KIND = {kind.name: kind for kind in KINDS}
