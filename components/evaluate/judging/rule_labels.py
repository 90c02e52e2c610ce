"""Names, meaning and advice for the rules of a verdict, for readers of the report."""

from typing import NamedTuple

from components.core.metrics.quantities import CHAMPION, EXCESS, Quantity


class RuleLabel(NamedTuple):
    name: str
    meaning: str
    advice: str


_SHIFT = "of samples minus that of test images, in standard deviations of their pixels."
_NAMES_AND_MEANINGS = {
    "bad_samples": ("Valid pixels", "Samples with a NaN or infinite pixel."),
    "scores": ("Complete scores", "Every score is a finite number."),
    "brightness_shift": ("Brightness", f"Mean pixel value {_SHIFT}"),
    **{f"{name}_shift": (name.title(), f"Mean {name} {_SHIFT}") for name in ("red", "green", "blue", "saturation")},
    "alpha_shift": ("Opacity", f"Mean alpha {_SHIFT}"),
    "pixel_deviation_ratio": ("Contrast", "Spread of pixel values of samples over that of test images."),
    "fcd_corrected": (
        "Realism",
        "How far the samples as a whole are from real images: 0 for real images, larger is worse.",
    ),
    "recall": ("Variety", "Share of real images that the generator could draw, over that of real images."),
    "coverage": ("Coverage", "Share of real images with a similar sample, over that of real images."),
    "class_distance": (
        "Class balance",
        "Difference between the class shares of samples and test images: 0 is equal, 1 is disjoint.",
    ),
    "class_ratio": ("Rarest class", "Smallest share of a class among samples, over its share among test images."),
    "class_coverage": ("Worst covered class", "Coverage of the class that is covered worst, over that of all images."),
    "class_accuracy": (
        "Right class",
        "Share of samples that show the class asked for, over that of real images that show theirs.",
    ),
    "worst_class_accuracy": ("Worst drawn class", "The same for the class that is drawn worst."),
    "faulty_share": (
        "No visible faults",
        "Share of samples that seem as faulty as the worst 1% of test images: holes, patterns, noise, blur.",
    ),
    "outlier_share": (
        "No outliers",
        "Share of samples further from all training images than nearly all test images are.",
    ),
    "repeat_share": ("No near repeats", "Share of samples as near to another one as the nearest 1% of test images."),
    "distinct_share": ("No duplicates", "Share of samples that differ from all others."),
    "copy_share": ("Few copies", "Share of samples as near to a training image as the nearest 1% of test images."),
    "copy_nearness": (
        "No memorizing",
        "Probability that a sample is nearer to training images than a test image is; 0.5 for new images.",
    ),
    "limits": ("Limits", "There are limits to judge by."),
    "feature space": ("Certified metrics", "Scores were tested on known faults of these images."),
    "champion": ("Comparable champion", "The published champion can be compared with this model."),
    "checkpoint": ("New model", "This checkpoint is not the champion's."),
    EXCESS: ("Not worse than the champion", "Kernel distance of this model minus the champion's; positive is worse."),
    f"smallest {EXCESS}": (
        "Better than the champion",
        "The largest gain over the champion in any feature space; it must be significantly below 0.",
    ),
}
_COPIES = "The generator copies training images. Add images, or train with --augmentation geometric."
_CLASSES = "The generator draws other classes than those asked for. Check the labels of the images, or train longer."
_LONGER = "Train longer. If the distance rose during training, lower both learning rates."  # for all other rules
_ADVICE = {
    "bad_samples": "See the training's warnings below.",
    "scores": "See the log of the evaluation.",
    "recall": "The generator draws too few kinds of images. Train longer, or with lower learning rates.",
    "coverage": "Some kinds of images are drawn badly or never. Train longer, or add images of them.",
    "class_distance": "Train longer, or with labels for every image, so that the generator draws the requested class.",
    "class_ratio": "See which class is missing below. Train longer, or add images of it.",
    "class_coverage": "Add images of that class. With few test images of it, lower the limit.",
    **dict.fromkeys(("class_accuracy", "worst_class_accuracy"), _CLASSES),
    "repeat_share": "The generator repeats itself. Lower the learning rates, or add images.",
    "distinct_share": "The generator repeats itself. Lower the learning rates, or draw at least 7,000 samples.",
    **dict.fromkeys(("copy_share", "copy_nearness"), _COPIES),
    "limits": "Set distance_limit above 0.",
    "feature space": "Add images, or pass --uncertified judge to accept uncertified scores.",
    "champion": "Run `wgan registry verify`, or publish to another registry.",
    "checkpoint": "Nothing: it is published already.",
    EXCESS: "The champion is significantly better here. Train longer, or start from it.",
    f"smallest {EXCESS}": "This model is not significantly better. Nothing is published, and the champion stays.",
}


def describe(quantity: Quantity) -> RuleLabel:
    """Return the label of the rule on a quantity."""
    name, meaning = _NAMES_AND_MEANINGS[quantity.score]
    if quantity.against == CHAMPION:
        name, meaning = f"{name}, compared", f"{name} minus that of the champion. {meaning}"
    space = quantity.shown_space
    return RuleLabel(f"{name} ({space})" if space else name, meaning, _ADVICE.get(quantity.score, _LONGER))
