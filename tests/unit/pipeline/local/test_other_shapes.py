"""Whatever JSON a file of a root holds, the commands that read it end without a traceback."""

import contextlib
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core import errors
from components.core.artifacts import evaluations
from components.core.errors import StageError
from components.core.stage import run_notes
from components.core.stage.run_notes import Note
from components.core.storage import atomic_files, digests, location
from components.record import run as record_stage
from components.record.config import RecordConfig
from components.report import run as report
from components.report.config import ReportConfig
from pipeline import __main__ as program
from tests.inputs import artifacts
from tests.properties import JSON, changed
from tests.unit.pipeline.local.conftest import Home, World

RUN = "wgan-0001"
ANY = JSON | st.sampled_from(["\ud800", "\0", "s3://bucket", 1e308, 1e-320, -1, 10**400, "[/red]"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A root with a run that has an evaluation, a record, a champion, and measured speeds."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(location.MIRRORS, str(folder))
        patch.setenv("BROWSER", "true")
        home = Home(folder)
        home.run(World())
        evaluation = home.root / "evaluations" / "key"
        origin = artifacts.origin(artifacts.dataset(), artifacts.checkpoint().to_json())
        artifacts.write_evaluation(evaluation, origin)
        (evaluation / evaluations.REPORT).touch()
        artifacts.write_model(home.root / "models" / "key", origin, {"saved_model.pb": b"1"})
        artifacts.crown(home.root / "registry", home.root / "models" / "key", 1)
        state = home.root / "history" / "0001" / "state.json"
        value = json.loads(state.read_text())
        value["tasks"]["evaluate"]["outputs"]["evaluation_uri"] = str(evaluation)
        atomic_files.write_json(state, value)
        run = location.Location.of(home.root / "records") / RUN
        run_notes.write(run, Note(stage="decide", state="done", outputs={"recipe": "{}"}))
        run_notes.write(run, Note(stage="evaluate", state="done", outputs={"evaluation_uri": str(evaluation)}))
        record_stage.run(RecordConfig(records=run.parent.uri, run=RUN))
        for name, field in (("auto", "slowness"), ("products", "rate")):
            atomic_files.write_json(location.private("speed") / f"{name}.json", {field: 2.0})
        yield home


@pytest.mark.parametrize(
    "names",
    [
        "runs/history/0001/*.json",
        "runs/records/*/*.json",
        "runs/registry/**/*.json",
        "runs/evaluations/*/*.json",
        "wgan-*/speed/*.json",
    ],
)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_a_file_of_another_shape_is_no_defect(home: Home, names: str, data: st.DataObject) -> None:
    files = sorted(home.root.parent.glob(names))
    file = data.draw(st.sampled_from(files))
    before = file.read_bytes()
    content = json.loads(before)
    seal = content.pop(digests.SEAL, None)
    value = changed(data, content, ANY)
    file.write_text(json.dumps(value))
    if seal and isinstance(value, dict):
        with contextlib.suppress(ValueError):  # such as NaN, of which there is no digest
            artifacts.seal(file, value)
    try:
        for words in (["runs"], ["runs", "show", "1"], ["open", "report"], ["open", "samples", "1"]):
            assert program.main([*words, "--root", str(home.root)]) in (errors.OK, errors.BAD_DATA)
        page = str(home.root / "compare.html")
        for ask in (
            lambda: home.plan(World()),
            lambda: home.plan(World(parameters={"steps": 3})),
            lambda: report.run(ReportConfig(action="compare", runs=("1", "1"), root=str(home.root), output=page)),
            lambda: report.run(ReportConfig(action="compare", root=str(home.root), output=page)),
            lambda: record_stage.update(location.Location.of(home.root / "records") / RUN),
        ):
            with contextlib.suppress(StageError):
                ask()
    finally:
        file.write_bytes(before)
