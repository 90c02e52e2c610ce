"""Common parts of stack formats: splits by name, pairs of images and labels, shapes."""

import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.errors import DataError
from components.preprocess.formats import stacks


@pytest.mark.parametrize(
    ("names", "split"),
    [
        (["x"], "train"),
        (["x_test"], "test"),
        (["Test-Images.gz"], "test"),
        (["latest", "contest"], "train"),
        (["test/train.npz"], "train"),
        (["test", "x"], "test"),
        (["test", "train"], "train"),
        (["val-00000-of-00010"], "validation"),
    ],
)
def test_a_split_is_the_last_word_that_names_one(names: list[str], split: str) -> None:
    assert stacks.split_of(*reversed(names)) == split


def test_labels_are_of_the_splits_that_have_images() -> None:
    stacks.require_pairs("x", ["train", "test"], [])
    stacks.require_pairs("x", ["train", "test"], ["test", "train"])
    for images, labels in ((["train", "test"], ["train"]), (["train"], ["test", "train"])):
        with pytest.raises(DataError, match=r"^x has .* for test "):
            stacks.require_pairs("x", images, labels)


def test_shapes() -> None:
    assert stacks.shape_of("x", (5, 4, 3)) == stacks.shape_of("x", (5, 4, 3, 1)) == ImageShape(4, 3, 1)
    assert stacks.shape_of("x", (5, 4, 3, 3)) == ImageShape(4, 3, 3)
    for wrong in ((5,), (5, 4), (5, 4, 3, 2), (5, 3, 4, 4), (0, 4, 3), (5, 0, 3), (10**9, 4, 3), (5, 10**5, 10**5)):
        with pytest.raises(DataError, match=r"^x "):
            stacks.shape_of("x", wrong)
