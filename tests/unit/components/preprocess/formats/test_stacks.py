"""Common parts of stack formats: splits by name, and shapes; test_npz.py has pairs of images and labels."""

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


def test_shapes() -> None:
    assert stacks.shape_of("x", (5, 4, 3)) == stacks.shape_of("x", (5, 4, 3, 1)) == ImageShape(4, 3, 1)
    assert stacks.shape_of("x", (5, 4, 3, 3)) == ImageShape(4, 3, 3)
    for wrong in ((5,), (5, 4), (5, 4, 3, 2), (5, 3, 4, 4), (0, 4, 3), (5, 0, 3), (10**9, 4, 3), (5, 10**5, 10**5)):
        with pytest.raises(DataError, match=r"^x "):
            stacks.shape_of("x", wrong)
