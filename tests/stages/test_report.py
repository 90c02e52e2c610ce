"""Tests for the report command on evaluations with known numbers; how its page looks is tested in test_pages.py."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import evaluations
from components.core.reporting import grids
from components.core.stage import cli, run_notes
from components.core.stage.run_notes import Note
from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts

SPACES = [{"name": "classifier", "components": 24}, {"name": "untrained", "components": 24}]


def write_evaluation(folder: Path, fcd: float, **changes: Any) -> Path:
    """Write an evaluation like the stage's, of a training whose only curve is its losses."""
    values = {"real_fcd": 1.25, "dataset": "d" * 64, "compared": 500, "settings": {"seed": 0, "steps": 100}, **changes}
    numbers = {
        "compared": values["compared"],
        "low_n": False,
        "spaces": SPACES,
        "model": {"fcd": fcd, "untrained_fcd": 2 * fcd, "class_ratio": None, "recall": 0.5},
        "real": {"fcd": values["real_fcd"]},
    }
    rows = [{"step": 50, "critic_loss": 1.0}, {"step": 100, "critic_loss": 2.0}]
    training = {"step": 100, "settings": values["settings"], "log": rows}
    atomic_files.write_json(folder / evaluations.TRAINING, training)
    atomic_files.write_file(folder / evaluations.SAMPLES, grids.png_grid(np.zeros((4, 8, 8, 1), np.uint8)))
    origin = artifacts.origin(artifacts.dataset(), artifacts.checkpoint().to_json())
    decided = {"verdict": "HOLD", "dataset_digest": values["dataset"], "settings": {"sample_count": 500}}
    artifacts.write_evaluation(folder, origin, numbers=numbers, **decided)
    return folder


def compare(folder: Path, *runs: Path | str) -> tuple[str, list[list[list[str]]]]:
    """Return the page and the rows of each of its tables, each the text of its cells."""
    assert cli.main("report", ["compare", *map(str, runs), "--output", str(folder / "page.html")]) == 0
    text = (folder / "page.html").read_text()
    return text, [
        [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
        for table in re.findall("<table>(.*?)</table>", text, re.DOTALL)
    ]


def write_run(root: Path | str, run: str, fcd: float, evaluation: str = "") -> None:
    """Write an evaluation below a local root, and the note of it under the root of the run."""
    name = evaluation or run
    if not Path(root, "evaluations", name).exists():
        write_evaluation(Path(root, "evaluations", name), fcd)
    outputs = {"evaluation_uri": f"/moved/from/here/evaluations/{name}"}
    note = Note(stage="evaluate", state="done", started=f"2026-11-{run[-2:]}", outputs=outputs)
    run_notes.write(Location.of(f"{root}/records") / run, note)


def test_two_runs_stand_side_by_side_with_what_differs_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_evaluation(tmp_path / "one", 2.5)
    second = write_evaluation(tmp_path / "two", 3.5, settings={"seed": 0, "steps": 200, "beta_1": 0.5})
    page, (differing, alike, classifier, untrained, others) = compare(tmp_path, first, second)
    assert differing == [
        ["setting", "of", "A", "B"],
        ["beta_1", "training", "–", "0.5"],
        ["steps", "training", "100", "200"],
    ]
    assert alike[1:] == [["seed", "training", "0", "0"], ["sample_count", "evaluation", "500", "500"]]
    assert classifier[:2] == [["quantity", "A", "B", "real images"], ["Fréchet distance (fcd)", "2.5", "3.5", "1.25"]]
    assert untrained[1:] == [["Fréchet distance (untrained_fcd)", "5", "7", "–"]]
    assert others[1:] == []
    assert page.count("<img ") == 3  # two sheets of samples, losses
    assert "cannot be compared" not in page
    assert "A HOLD, B HOLD; scored alike" in capsys.readouterr().out


def test_what_was_scored_otherwise_is_said_to_be_incomparable(tmp_path: Path) -> None:
    first = write_evaluation(tmp_path / "one", 2.5)
    second = write_evaluation(tmp_path / "two", 3.5, dataset="f" * 64, compared=90, real_fcd=1.5)
    page, tables = compare(tmp_path, first, second)
    assert "(dddddddddddd and ffffffffffff)" in page
    assert "(500 and 90)" in page
    assert tables[1][:2] == [
        ["quantity", "A", "B", "real images of A", "real images of B"],
        ["Fréchet distance (fcd)", "2.5", "3.5", "1.25", "1.5"],
    ]


def test_a_run_is_named_by_its_root_and_a_version_by_its_folder_or_by_uri(tmp_path: Path, bucket: Server) -> None:
    write_run(tmp_path / "runs", "run-0001", 1.0, "a")
    run = tmp_path / "runs" / "evaluations" / "a"
    Location.of("gs://b/runs/evaluations/a").commit(run, evaluations.MANIFEST)
    buckets.create("gs://b/runs/records/run-0001/evaluate.json", run.parents[1] / "records/run-0001/evaluate.json")
    version = write_evaluation(tmp_path / "registry" / "versions" / "1" / "evaluation", 3.0)
    for name in atomic_files.files_in(version):  # as in a registry
        buckets.create(f"gs://b/registry/versions/1/evaluation/{name}", version / name)
    for root in (str(tmp_path), "gs://b"):
        _, tables = compare(tmp_path, f"{root}/runs", f"{root}/registry/versions/1")
        assert tables[1][1] == ["Fréchet distance (fcd)", "1", "3", "1.25"]


def test_any_number_of_runs_is_compared_by_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 3):
        write_run(tmp_path / "runs", f"wgan-gp-{number:04d}", float(number))
    write_run(tmp_path / "runs", "wgan-gp-0011", 3.0, "wgan-gp-0003")  # judged nothing new
    write_run(tmp_path / "runs", "25a1c6f2-0000-4000-8000-000000000009", 9.0)  # of a cluster

    def scores(*words: Path | str) -> list[list[str]]:
        return [row[:-1] for row in compare(tmp_path, *words)[1][-3][:2]]

    root, label = str(tmp_path / "runs"), "Fréchet distance (fcd)"
    at_root, tenth = f"--root={root}", f"{root}/evaluations/wgan-gp-0010"
    assert scores("10", "2", "3", at_root) == [["quantity", "run 10", "run 2", "run 3"], [label, "10", "2", "3"]]
    assert scores(at_root, "2", tenth) == [["quantity", "run 2", "B"], [label, "2", "10"]]
    for words in ([root], [at_root]):
        assert scores(*words) == [["quantity", "run 10", "run 11"], [label, "10", "3"]]


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["2", "4"], 65, "run 4 run 2 run 10 ROOT"),
        (["10", "2", "ROOT/none"], 65, "ROOT/none"),
        (["2"], 64, "runs 2"),
        (["ROOT/none"], 64, "runs ROOT/none"),
        (["2", "BAD"], 65, "metrics.json"),
        (["2", "10", "--output", "ROOT"], 64, "folder"),
        (["2", "10", "--output", "ROOT/none/page.html"], 64, "ROOT/none"),
    ],
)
def test_runs_that_cannot_be_compared_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: list[str], code: int, named: str
) -> None:
    root = tmp_path / "runs"
    for number in (2, 10):
        write_run(root, f"wgan-gp-{number:04d}", float(number))
    damaged = write_evaluation(tmp_path / "bad", 1.0)
    (damaged / evaluations.METRICS).write_text("{}")
    options = ["--output", str(tmp_path / "page.html"), "--root", str(root)]
    arguments = [word.replace("ROOT", str(root)).replace("BAD", str(damaged)) for word in words]
    assert cli.main("report", ["compare", *options, *arguments]) == code
    assert all(name.replace("ROOT", str(root)) in caplog.text for name in named.split())
    assert "Traceback" not in caplog.text
    assert not (tmp_path / "page.html").exists()
