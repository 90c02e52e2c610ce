"""schedules.yaml: what is read, and every mistake with its path, reported before anything is sent."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from components.core.errors import ConfigError
from pipeline.cluster import schedule_file
from pipeline.cluster.backend import Schedule
from pipeline.cluster.schedule_file import ScheduleSettings
from pipeline.profiles.yaml_files import shown

Reads = Callable[[Any], list[Schedule]]
Refusal = Callable[[Any], list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kfp_package: Path, vertex_package: Path) -> Path:
    """A folder with a package for each target."""
    found = tmp_path_factory.mktemp("schedules")
    for package in (kfp_package, vertex_package):
        (found / package.name).write_bytes(package.read_bytes())
    return found


@pytest.fixture
def read(folder: Path) -> Reads:
    def found(content: Any) -> list[Schedule]:
        path = folder / "schedules.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return schedule_file.read(path)

    return found


@pytest.fixture
def refusal(read: Reads, folder: Path) -> Refusal:
    def found(content: Any) -> list[str]:
        with pytest.raises(ConfigError) as raised:
            read(content)
        for problem in raised.value.problems:
            assert problem.startswith(f"schedules {folder}/schedules.yaml"), problem
            assert problem.isprintable(), problem
        return [problem.removeprefix(f"schedules {folder}/schedules.yaml") for problem in raised.value.problems]

    return found


def weekly(**settings: Any) -> dict[str, Any]:
    """A schedule that is right, with other settings; None leaves one out."""
    found = {
        "cron": "0 9 * * 1",
        "package": "kfp.yaml",
        "target": "kfp",
        "experiment": "retraining",
        "parameters": {"source": "digits", "root": "/data/runs"},
        **settings,
    }
    return {"schedules": {"weekly": {name: value for name, value in found.items() if value is not None}}}


def test_what_is_left_out_has_its_default(read: Reads, folder: Path) -> None:
    (found,) = read(weekly())
    assert (found.name, found.cron, found.time_zone, found.target) == ("weekly", "0 9 * * 1", "UTC", "kfp")
    assert (found.enabled, found.concurrency, found.catch_up) == (True, 1, False)
    assert found.submission.package.path == folder / "kfp.yaml"
    assert found.submission.parameters == {"source": "digits", "root": "/data/runs"}
    assert (found.submission.experiment, found.submission.run_name) == ("retraining", "weekly")
    assert (found.submission.pipeline_root, found.submission.service_account) == ("", "")


def test_every_setting_is_read(read: Reads) -> None:
    content = weekly(
        cron="30 2 * * Sun",
        time_zone="Europe/Berlin",
        enabled=False,
        concurrency=3,
        catch_up=True,
        pipeline_root="gs://bucket/artefacts",
        service_account="trainer",
        parameters={"source": "digits", "root": "/r", "steps": 500, "critic_learning_rate": 0.001, "seed": "7"},
    )
    (found,) = read(content | {"controller_time_zone": "Europe/Berlin"})
    assert found.content() | {"version": ""} == {
        "cron": "30 2 * * 0",
        "time_zone": "Europe/Berlin",
        "pipeline": found.submission.package.name,
        "version": "",
        "parameters": {"source": "digits", "root": "/r", "steps": 500, "critic_learning_rate": 0.001, "seed": 7},
        "experiment": "retraining",
        "pipeline_root": "gs://bucket/artefacts",
        "service_account": "trainer",
        "concurrency": 3,
        "catch_up": True,
    }
    assert not found.enabled


def test_how_a_cron_is_spelt_does_not_matter(read: Reads) -> None:
    spellings = ["0 9 * * 1,2,3,4,5", "00  9 * * MON-FRI", "0 9 * 1-12 1-5"]
    assert len({read(weekly(cron=spelling))[0].cron for spelling in spellings}) == 1


def test_one_file_is_for_both_targets(read: Reads) -> None:
    content = weekly()
    content["schedules"]["nightly"] = {
        **content["schedules"]["weekly"],
        "target": "vertex",
        "package": "vertex.yaml",
        "pipeline_root": "gs://bucket/root",
        "time_zone": "America/New_York",
    }
    found = read(content)
    assert [(schedule.name, schedule.target) for schedule in found] == [("weekly", "kfp"), ("nightly", "vertex")]


FIELDS = ".cron must be five fields (minute, hour, day of month, month, day of week), got"
ZONE = ".time_zone must be a time zone as IANA names it, such as Europe/Berlin, got"
VERTEX = {"target": "vertex", "package": "vertex.yaml"}
GIVEN = {"source": "digits", "root": "/r"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        *(({name: None}, f".{name} is required") for name in ("cron", "package", "target", "experiment")),
        ({"cron": "@weekly"}, f"{FIELDS} 1 in '@weekly'"),
        ({"cron": 9}, ".cron must be text (in quotes, "),
        ({"time_zone": "Europe/Berlni"}, f"{ZONE} 'Europe/Berlni'; did you mean Europe/Berlin?"),
        ({"time_zone": "Moon"}, f"{ZONE} 'Moon'"),
        ({"time_zone": "America"}, ZONE),
        (
            {"time_zone": "Europe/Berlin"},
            ".time_zone must be UTC, the one clock of Kubeflow's controller, got 'Europe/",
        ),
        ({"package": "absent.yaml"}, ".package cannot be read: No such file or directory"),
        ({"package": "."}, ".package cannot be read: Is a directory"),
        ({"package": "vertex.yaml"}, ".package "),
        ({"package": "schedules.yaml"}, ".package "),
        ({"target": "vertexai"}, ".target must be kfp or vertex, got 'vertexai'"),
        (VERTEX, ".pipeline_root must be in a bucket, gs://BUCKET/FOLDER, got ''"),
        (VERTEX | {"pipeline_root": "minio://bucket"}, ".pipeline_root must be in a bucket"),
        (VERTEX | {"pipeline_root": "gs://"}, ".pipeline_root: gs:// is no place in a bucket"),
        ({"experiment": "e" * 129}, ".experiment must have at most 128 characters, got 'eee"),
        ({"concurrency": 0}, ".concurrency must be greater than or equal to 1, got 0"),
        ({"concurrency": 11}, ".concurrency must be less than or equal to 10, got 11"),
        ({"crn": "0 9 * * 1"}, ".crn is unknown; did you mean cron?"),
        ({"parameters": {1: 2}}, ".parameters.1 must be text (in quotes, "),
        ({"parameters": {"source": "digits"}}, ".parameters: root is required"),
        ({"parameters": {**GIVEN, "stepz": 5}}, ".parameters: unknown parameter stepz; did you mean steps?"),
        ({"parameters": {**GIVEN, "a\nb": 5}}, ".parameters: unknown parameter 'a\\nb'"),
        ({"parameters": {**GIVEN, "steps": "many"}}, ".parameters: steps must be a whole number, got 'many'"),
        ({"parameters": {**GIVEN, "steps": True}}, ".parameters: steps must be a whole number, got True"),
        ({"parameters": {**GIVEN, "source": 2024}}, ".parameters: source must be text, got 2024"),
        ({"parameters": {**GIVEN, "root": "runs"}}, ".parameters: root must be in a bucket, gs://BUCKET/runs, or "),
        ({"parameters": {**GIVEN, "height": 5}}, ".parameters: height and width must be given together"),
    ],
)
def test_a_mistake_is_reported_with_its_path(refusal: Refusal, settings: dict[str, Any], problem: str) -> None:
    (found,) = refusal(weekly(**settings))
    assert found.startswith(f": schedules.weekly{problem}")


def test_all_mistakes_of_the_file_come_first_then_all_of_the_packages(refusal: Refusal) -> None:
    absent = {"cron": "0 9 * * 1", "package": "absent.yaml", "target": "kfp", "experiment": "e"}
    content = {
        "more": {},
        "controller_time_zone": "Europe/Berlni",
        "schedules": {
            "Weekly": absent,
            "a": {**absent, "cron": "0 9 * *", "enabled": 1},
            "b": absent,
            "c": None,
            3: {},
        },
    }
    assert {re.split(" must | is ", problem)[0] for problem in refusal(content)} == {
        ": more",
        ": controller_time_zone",
        ": schedules.Weekly",
        ": schedules.a.cron",
        ": schedules.a.enabled",
        ": schedules.c",
        ": schedules.3",
        *(f": schedules.3.{name}" for name in absent),
    }
    packages = {"schedules": {**weekly(parameters=None)["schedules"], "a": absent, "b": absent}}
    assert [re.split(" cannot | is ", problem)[0] for problem in refusal(packages)] == [
        ": schedules.weekly.parameters: root",
        ": schedules.weekly.parameters: source",
        ": schedules.a.package",
        ": schedules.b.package",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": the file must be a mapping, NAME: VALUE, got None"),
        ("schedules: []", ": schedules must be a mapping, NAME: VALUE, got []"),
        ("a: [", "is not YAML"),
        ("schedules:\n  a:\n    cron: x\n    cron: y", ", line 4: 'cron' is given twice"),
    ],
)
def test_what_is_no_file_of_schedules(refusal: Refusal, content: str, problem: str) -> None:
    (found,) = refusal(content)
    assert problem in found


@pytest.mark.parametrize("name", ["-a", "a-", "a_b", "a.b", "A", "é", "a b", "a" * 64, "", "../a"])
def test_names_that_no_target_takes(refusal: Refusal, name: str) -> None:
    (problem,) = refusal({"schedules": {name: weekly()["schedules"]["weekly"]}})
    assert problem.endswith(f" must be at most 63 small letters, digits and dashes between them, got {shown(name)}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"schedules cannot be read: No such file .*; docs/schedules.md shows how"):
        schedule_file.read(tmp_path / "schedules.yaml")


def test_no_schedules_are_a_file_too(read: Reads) -> None:
    assert read("schedules: {}") == []


def test_the_example_in_the_docs_is_a_file_of_schedules(
    tmp_path: Path, kfp_package: Path, vertex_package: Path
) -> None:
    text = (Path(__file__).parents[4] / "docs" / "schedules.md").read_text()
    example = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    path = tmp_path / "schedules.yaml"
    path.write_text(example)
    for name, settings in yaml.safe_load(example)["schedules"].items():
        package = kfp_package if settings["target"] == "kfp" else vertex_package
        (tmp_path / settings["package"]).write_bytes(package.read_bytes())
        assert name in text.replace(example, "")
    assert {schedule.target for schedule in schedule_file.read(path)} == {"kfp", "vertex"}
    assert {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)} == {*ScheduleSettings.model_fields}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.given(data=st.data())
def test_one_thing_changed_is_read_or_refused(folder: Path, data: st.DataObject) -> None:
    content = weekly()
    name = data.draw(st.sampled_from([*ScheduleSettings.model_fields, "parameters.steps", "parameters.source"]))
    place = content["schedules"]["weekly"]
    if name.startswith("parameters."):
        place, name = place["parameters"], name.partition(".")[2]
    place[name] = data.draw(_VALUES)
    path = folder / "schedules.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8", errors="replace")
    problems: tuple[str, ...] = ()
    try:
        schedule_file.read(path)
    except ConfigError as error:
        problems = error.problems
    assert all(problem.isprintable() for problem in problems)
