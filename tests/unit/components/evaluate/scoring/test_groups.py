"""Tests for groups.py."""

import numpy as np
import pytest

from components.evaluate.scoring import groups


def test_classes_are_those_of_the_largest_logits() -> None:
    logits = np.eye(4)[[0, 0, 1, 2, 2, 2, 2, 2]]
    found = groups.Groups("class", 4)
    np.testing.assert_array_equal(found.shares(found.of(np.empty((8, 0)), logits)), [2 / 8, 1 / 8, 5 / 8, 0])


def test_bins_find_what_lies_together_and_what_is_missing() -> None:
    random = np.random.default_rng(0)
    locations = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    real = np.concatenate([random.normal(size=(50, 2)) + location for location in locations])
    found = groups.fit_bins(real, seed=0)
    assert (found.kind, found.count) == ("bin", 3)
    members = found.of(real, None)
    for at in (0, 50, 100):
        assert len(set(members[at : at + 50])) == 1
    np.testing.assert_allclose(found.shares(members), 1 / 3)
    shares = found.shares(found.of(real[:100], None))
    assert shares[members[-1]] == 0
    assert groups.fit_bins(real, seed=0).of(real, None).tolist() == members.tolist()


@pytest.mark.parametrize(("rows", "expected"), [(20, 2), (250, 5), (5000, 20)])
def test_there_are_as_many_bins_as_the_images_allow(rows: int, expected: int) -> None:
    assert groups.fit_bins(np.random.default_rng(0).normal(size=(rows, 3)), seed=0).count == expected


def test_images_that_are_equal_make_equal_bins() -> None:
    found = groups.fit_bins(np.ones((100, 3)), seed=0)
    assert found.shares(found.of(np.ones((10, 3)), None)).max() == 1
