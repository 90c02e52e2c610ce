"""Tests for model_card.py and text.py, with a Markdown parser as the oracle."""

import dataclasses
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from components.core.artifacts import lineage, models
from components.core.artifacts.datasets import ImageShape
from components.core.reporting import model_card
from components.core.reporting import text as texts
from components.core.reporting.text import duration
from components.core.storage import digests
from tests.inputs import artifacts
from tests.unit.components.core.reporting.rendered import tables, types

HOSTILE = "a|b\nc <script>alert(1)</script> [x](http://evil) **bold** `code` &lt; \x1b[31m\u202e # ![i](u) _e_ ~s~ \\|"
MODEL = models.Manifest(
    files={},
    checkpoint_digest="1" * 64,
    step=1200,
    image=ImageShape(8, 8, 1),
    latent_size=16,
    classes=["dark", HOSTILE],
    dataset_digest="2" * 64,
    class_counts=[3, 4],
)
NUMBERS: dict[str, Any] = {
    **artifacts.metrics(),
    "names": [["fcd", "Fréchet distance"], ["recall", "recall"]],
    "model": {"fcd": 1.23456, "recall": None},
    "noise": {"fcd": 30.0, "recall": 0},
}


def judgment(numbers: dict[str, Any] = NUMBERS, **changes: Any) -> model_card.Judgment:
    dataset = {
        "source": {"kind": HOSTILE, "fingerprint": "3" * 64},
        "splits": {name: {"records": 1000} for name in ("train", "validation", "test")},
        "quarantine": {"count": 7},
        "preprocessing": {"resize": "fill"},
    }
    origin = lineage.Lineage(
        dataset=dataset,
        checkpoint={"settings": {"steps": 1200}},
        embedding={"certificate": {"outcome": "passed"}, "settings": {"seed": 0}},
        made_with={"code": "4" * 64, "image": HOSTILE, "libraries": {"keras": HOSTILE}},
    )
    fields = {"reasons": [HOSTILE], "rules": [artifacts.RULE], "settings": {"sample_count": 10000}, **changes}
    return model_card.Judgment(evaluation=artifacts.evaluation(**fields), numbers=numbers, lineage=origin)


def test_the_card_tells_what_was_found_beside_real_images() -> None:
    shown = tables(model_card.render(MODEL, {"steps": 1200}, judgment()))
    assert shown["Metrics"] == [
        ["metric", "name", "this model", "real against real", "noise"],
        ["Fréchet distance", "fcd", "1.235", "0.5", "30"],
        ["recall", "recall", "–", "–", "0"],
    ]
    assert shown["Verdict"][1] == ["fcd_corrected", "0.02", "0.01", "0.03", "at most 0.055", "passed"]
    assert ["train", "steps", "1200"] in shown["Configuration"]
    assert ["evaluate", "sample_count", "10000"] in shown["Configuration"]
    digest_rows = {row[0]: row[1:] for row in shown["Lineage"]}
    assert digest_rows["dataset"][0] == digests.digest_of_record(judgment().lineage.dataset)
    assert digest_rows["model"] == [MODEL.digest, lineage.UNKNOWN, lineage.UNKNOWN]
    assert "champion" not in "".join(digest_rows)


def test_what_the_training_began_with_is_reported_before_and_after_it_is_judged() -> None:
    settings = {"steps": 1200, "initial_checkpoint_digest": "7" * 64}
    judged = judgment()
    judged = dataclasses.replace(judged, lineage=dataclasses.replace(judged.lineage, checkpoint={"settings": settings}))
    for current in (None, judged):
        shown = tables(model_card.render(MODEL, settings, current))
        assert ["initial checkpoint", "7" * 64, "", ""] in shown["Lineage"]
    assert "initial checkpoint" not in model_card.render(MODEL, {"steps": 1200}, judgment())


def test_the_champion_that_it_was_compared_with_has_a_column() -> None:
    numbers = {**NUMBERS, "champion": {"fcd": 2.5}}
    text = model_card.render(MODEL, {}, judgment(numbers, champion_version=3, champion_digest="6" * 64))
    assert tables(text)["Metrics"][:2] == [
        ["metric", "name", "this model", "champion then, version 3", "real against real", "noise"],
        ["Fréchet distance", "fcd", "1.235", "2.5", "0.5", "30"],
    ]
    assert ["champion then, version 3", "6" * 64, "", ""] in tables(text)["Lineage"]


def test_a_card_of_a_model_that_nobody_judged_has_no_metrics() -> None:
    text = model_card.render(MODEL, {"steps": 1200})
    assert "not been judged" in text
    assert set(tables(text)) == {"Use", "Configuration", "Lineage"}


def test_hostile_text_keeps_its_place() -> None:
    text = model_card.render(MODEL, {HOSTILE: HOSTILE}, judgment({**NUMBERS, "names": [["fcd", HOSTILE]]}))
    allowed = types(
        model_card.render(dataclasses.replace(MODEL, classes=["a", "b"]), {"a": "b"}, judgment(reasons=["good"]))
    )
    assert types(text) <= allowed | {"text_special"}
    assert not types(text) & {"html_inline", "html_block", "link_open", "image", "s_open", "em_open"}
    assert ["train", texts.plain(HOSTILE), texts.plain(HOSTILE)] in tables(text)["Configuration"]
    assert "http://" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@given(value=st.text(max_size=30))
def test_a_reader_sees_any_text_as_it_is(value: str) -> None:
    (row,) = tables(f"# T\n\n| a |\n| --- |\n| x{texts.escaped(value)}x |\n")["T"][1:]
    assert row == [f"x{texts.plain(value)}x"]
    assert texts.plain(value).isprintable()


@given(value=st.text(max_size=30))
def test_no_underscore_is_left_that_is_markup_within_a_word(value: str) -> None:
    """Kubeflow's page shows `batch_size and test_fraction` with emphasis in the middle."""
    assert re.search(r"(?<!\\)(?:\\\\)*_", texts.escaped(value)) is None


def test_a_duration_has_its_two_largest_units() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 125, 3599.6, 159_000)] == [
        *("0 s", "1 min 00 s", "2 min 05 s", "1 h 00 min", "44 h 10 min")
    ]
