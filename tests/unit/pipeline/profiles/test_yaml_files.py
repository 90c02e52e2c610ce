"""What readers of YAML refuse, each mistake in one line, and what YAML itself can express."""

import copy
import datetime
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from components.core.errors import ConfigError
from pipeline import step_table
from pipeline.cluster import schedule_file
from pipeline.cluster.schedule_file import ScheduleSettings
from pipeline.package import config_file, reader
from pipeline.profiles import profile_file, yaml_files
from pipeline.profiles.kubernetes import KubernetesStage
from pipeline.profiles.vertex import VertexStage
from tests.properties import changed
from tests.unit.pipeline.profiles.contents import SHIPPED

Read = Callable[[Path], object]


def read_config(path: Path) -> None:
    problems: list[str] = []
    config_file.read(path, step_table.PARAMETERS, problems)
    if problems:
        raise ConfigError(*problems)


READERS: list[Read] = [profile_file.read, schedule_file.read, reader.read, read_config]
_SCHEDULE = {"cron": "0 9 * * 1", "package": "absent.yaml", "target": "kfp", "experiment": "e", "parameters": {}}
_NAMES = st.sampled_from(
    [
        *("mine", "kfp", "vertex", "stages", "service_account", "train", "others", "steps", "key", "operator", "count"),
        *(name for model in (KubernetesStage, VertexStage, ScheduleSettings) for name in model.model_fields),
    ]
)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
    | st.dates(datetime.date(1000, 1, 1)) | st.sampled_from(["2x4", "16Gi", "google.com/tpu", "NVIDIA_L4", "Exists"])
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.integers() | st.text(max_size=3), inner),
    max_leaves=12,
)


@pytest.mark.parametrize("read", READERS)
@hypothesis.given(data=st.data())
def test_anything_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, read: Read, data: st.DataObject) -> None:
    text = data.draw(st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")) | st.none())
    if text is None:  # a file that can be read, but for one thing, however deep
        content = data.draw(st.sampled_from([SHIPPED, {"schedules": {"weekly": _SCHEDULE}}]))
        content = changed(data, copy.deepcopy(content), _VALUES)
        text = yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "replace")
    path = tmp_path_factory.getbasetemp() / "own.yaml"
    path.write_bytes(text)
    problems: tuple[str, ...] = ()
    try:
        read(path)
    except ConfigError as error:
        problems = error.problems
    assert all(str(path) in problem and len(problem.splitlines()) == 1 for problem in problems)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: !!int ''",
        "a: 2026-13-45",
        "a: {}\n---\nb: {}",
        "a: {b: {c: {}}}\na: {b: {c: {}}}",
        "a: &a [*a]",
        "a:\n" + "".join(f"{' ' * level}b:\n" for level in range(1, 1000)),
    ],
)
def test_what_is_no_file_of_any_kind_is_refused(read: Read, tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read(path)
    assert all(str(path) in problem and len(problem.splitlines()) == 1 for problem in raised.value.problems)


def test_merge_keys_are_resolved_and_objects_are_not_made() -> None:
    assert yaml_files.load(b"a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}", "it")["d"] == {"b": 3, "c": 2}
    with pytest.raises(ConfigError):
        yaml_files.load(b"a: !!python/object:os.system {}", "it")
