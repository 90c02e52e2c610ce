"""The digest of an evaluation covers its content, not where and by whom it was made."""

import dataclasses

import pytest

from components.core.artifacts.evaluations import LINEAGE, METRICS, REPORT, SAMPLES, TRAINING, follows
from tests.inputs import artifacts

MADE = artifacts.evaluation(files=dict.fromkeys((METRICS, SAMPLES, REPORT, LINEAGE, TRAINING), "0"))


@pytest.mark.parametrize(
    ("name", "counts"), [(METRICS, True), (SAMPLES, True), (REPORT, False), (LINEAGE, False), (TRAINING, False)]
)
def test_the_digest_is_of_what_was_found_not_of_the_record(name: str, counts: bool) -> None:
    other = dataclasses.replace(MADE, files={**MADE.files, name: "1"})
    assert (other.digest != MADE.digest) == counts


def test_where_the_images_lay_does_not_count() -> None:
    assert dataclasses.replace(MADE, source="elsewhere").digest == MADE.digest


def test_an_evaluation_of_the_last_checkpoint_by_an_earlier_version_is_the_same() -> None:
    earlier = {name: dataclasses.replace(MADE, settings={"export_checkpoint": name}) for name in ("last", "best")}
    assert earlier["last"].identity == MADE.identity
    assert earlier["best"].identity != MADE.identity


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([], "PROMOTE"),
        (["passed", "passed"], "PROMOTE"),
        (["passed", "held"], "HOLD"),
        (["held", "failed", "passed"], "REJECT"),
        (["passed", "of no name"], "REJECT"),
    ],
)
def test_one_rule_that_failed_rejects_and_one_that_is_held_holds(outcomes: list[str], verdict: str) -> None:
    assert follows(outcomes) == verdict
