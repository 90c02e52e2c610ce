"""schedules.yaml: what is read, and every mistake, told with its remedy before anything is sent."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from components.errors import ConfigError
from pipeline.cluster import schedule_file, submission
from pipeline.cluster.schedule_file import ScheduleFile

Reads = Callable[[Any], ScheduleFile]
Refusal = Callable[[Any], list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kfp_package: Path, vertex_package: Path) -> Path:
    """A folder with a package for each target."""
    found = tmp_path_factory.mktemp("schedules")
    for package in (kfp_package, vertex_package):
        (found / package.name).write_bytes(package.read_bytes())
    return found


@pytest.fixture(scope="module", autouse=True)
def packages_read_once() -> Iterator[None]:
    """The packages stay as they are, and are long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "read_package", functools.cache(submission.read_package))
        yield


@pytest.fixture
def read(folder: Path) -> Reads:
    def found(content: Any) -> ScheduleFile:
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
    (found,) = read(weekly()).schedules
    assert (found.name, found.cron, found.time_zone, found.target) == ("weekly", "0 9 * * 1", "UTC", "kfp")
    assert (found.enabled, found.concurrency, found.catch_up) == (True, 1, False)
    assert found.package == folder / "kfp.yaml"
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
    (found,) = read(content | {"controller_time_zone": "Europe/Berlin"}).schedules
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
    assert len({read(weekly(cron=spelling)).schedules[0].cron for spelling in spellings}) == 1


def test_one_file_is_for_both_targets(read: Reads) -> None:
    content = weekly()
    content["schedules"]["nightly"] = {
        **content["schedules"]["weekly"],
        "target": "vertex",
        "package": "vertex.yaml",
        "time_zone": "America/New_York",
    }
    found = read(content)
    assert [schedule.name for schedule in found.schedules] == ["weekly", "nightly"]
    assert [schedule.name for schedule in found.of_target("vertex")] == ["nightly"]
    assert found.controller_time_zone == "UTC"


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT", "Zulu"])
def test_what_is_utc_by_another_name_is_utc(read: Reads, zone: str) -> None:
    assert read(weekly(time_zone=zone)).schedules[0].time_zone == zone


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"cron": None}, "cron is required"),
        ({"package": None}, "package is required"),
        ({"target": None}, "target is required"),
        ({"experiment": None}, "experiment is required"),
        ({"cron": "0 0 9 * * 1"}, "cron must be five fields (minute, hour, day of month, month, day of week), got 6"),
        (
            {"cron": "@weekly"},
            "cron must be five fields (minute, hour, day of month, month, day of week), got 1 in '@weekly'",
        ),
        ({"cron": "0 9 31 2 *"}, "cron must be a day that there is"),
        ({"cron": 9}, "cron must be five fields in quotes, such as '0 9 * * 1', got 9"),
        ({"time_zone": "Europe/Berlni"}, "did you mean Europe/Berlin?"),
        ({"time_zone": "Moon"}, "time_zone must be a time zone as IANA names it, such as Europe/Berlin, got 'Moon'"),
        ({"time_zone": "../etc/passwd"}, "time_zone must be a time zone as IANA names it"),
        ({"time_zone": "America"}, "time_zone must be a time zone as IANA names it"),
        ({"time_zone": 1}, "time_zone must be a time zone as IANA names it, such as Europe/Berlin, got 1"),
        (
            {"time_zone": "Europe/Berlin"},
            "time_zone must be UTC, the one clock of Kubeflow's controller, got 'Europe/Berlin': write the cron in UTC",
        ),
        ({"package": "absent.yaml"}, "package cannot be read: No such file or directory"),
        ({"package": "."}, "package cannot be read: Is a directory"),
        ({"package": "vertex.yaml"}, "was compiled for vertex, and this is kfp"),
        ({"package": "schedules.yaml"}, "is not a compiled pipeline package"),
        ({"package": 3}, "package must be text"),
        ({"target": "vertexai"}, "target must be one of kfp, vertex, got 'vertexai'"),
        ({"target": []}, "target must be one of kfp, vertex, got []"),
        ({"experiment": " "}, "experiment must be text"),
        ({"experiment": "e" * 129}, "experiment must have at most 128 characters, got 129"),
        ({"enabled": "yes"}, "enabled must be true or false, got 'yes'"),
        ({"catch_up": 1}, "catch_up must be true or false, got 1"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 10, got 0"),
        ({"concurrency": 11}, "concurrency must be a whole number from 1 to 10, got 11"),
        ({"concurrency": True}, "concurrency must be a whole number from 1 to 10, got True"),
        ({"pipeline_root": ""}, "pipeline_root must be text"),
        ({"service_account": 5}, "service_account must be text"),
        ({"crn": "0 9 * * 1"}, "'crn' is unknown; did you mean cron?"),
        ({"parameters": ["a"]}, "parameters must hold parameters with their values, got ['a']"),
        ({"parameters": {1: 2}}, "parameters must hold parameters with their values"),
        ({"parameters": {"source": "digits"}}, "parameters: root is required"),
        (
            {"parameters": {"source": "digits", "root": "/r", "stepz": 5}},
            "unknown parameter stepz; did you mean steps?",
        ),
        (
            {"parameters": {"source": "digits", "root": "/r", "a\nb": 5}},
            "unknown parameter 'a\\nb'",
        ),
        (
            {"parameters": {"source": "digits", "root": "/r", "steps": "many"}},
            "steps must be a whole number, got 'many'",
        ),
        ({"parameters": {"source": "digits", "root": "/r", "steps": 1.5}}, "steps must be a whole number, got '1.5'"),
        ({"parameters": {"source": "digits", "root": "/r", "steps": True}}, "steps must be a whole number, got 'true'"),
        ({"parameters": {"source": "digits", "root": "/r", "steps": 0}}, "steps must be at least 1, got 0"),
        ({"parameters": {"source": "digits", "root": "/r", "steps": None}}, "steps must have a value: leave it out"),
        ({"parameters": {"source": "digits", "root": "/r", "steps": float("nan")}}, "steps must be a number"),
        (
            {"parameters": {"source": "digits", "root": "runs"}},
            "parameters: root must be in a bucket, gs://BUCKET/runs, or a folder",
        ),
        ({"parameters": {"source": 2024, "root": "/r"}}, "parameters: source must be text (in quotes"),
        ({"parameters": {"source": "digits", "root": "/r", "height": 5}}, "height and width must be given together"),
    ],
)
def test_a_mistake_is_told_with_its_place(refusal: Refusal, settings: dict[str, Any], told: str) -> None:
    (problem,) = refusal(weekly(**settings))
    assert problem.startswith(": weekly: ")
    assert told in problem


def test_parameters_that_the_package_needs(refusal: Refusal) -> None:
    assert refusal(weekly(parameters=None)) == [
        ": weekly: parameters: root is required",
        ": weekly: parameters: source is required",
    ]


def test_every_mistake_is_told_at_once(refusal: Refusal) -> None:
    content = {
        "more": {},
        "controller_time_zone": "Europe/Berlni",
        "schedules": {
            "Weekly": {},
            "a": {"cron": "0 9 * *", "package": "absent.yaml", "target": "kfp", "enabled": 1},
            "b": {"cron": "0 9 * * 1", "package": "absent.yaml", "target": "kfp", "experiment": "e"},
            "c": None,
            3: {},
        },
    }
    found = refusal(content)
    assert [problem.partition(", got")[0] for problem in found[:3]] == [
        ": 'more' is unknown; there are controller_time_zone, schedules",
        ": controller_time_zone must be a time zone as IANA names it, such as Europe/Berlin",
        ": Weekly: a schedule's name must be at most 63 small letters, digits and dashes between them (in quotes if "
        "digits)",
    ]
    assert len([problem for problem in found if ": a: " in problem]) == 4
    # A package that two name is told of once.
    assert [problem for problem in found if ": b: " in problem] == []
    assert ": c must hold settings with their values, got None" in found
    assert any(problem.startswith(": 3: a schedule's name") for problem in found)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "must hold schedules by name, got None; docs/schedules.md shows how"),
        ("[]", "must hold schedules by name, got []"),
        ("schedules: []", "must hold schedules by name"),
        ("a: [", "is not YAML"),
        ("\x00", "is not YAML"),
        ("schedules:\n  a: {}\n  b: {}\n  a: {}", ", line 4: 'a' is given twice"),
        ("schedules:\n  a:\n    cron: x\n    cron: y", ", line 4: 'cron' is given twice"),
        ("schedules: !!python/object:os.system {}", "is not YAML"),
    ],
)
def test_what_is_no_file_of_schedules(refusal: Refusal, content: str, told: str) -> None:
    (problem,) = refusal(content)
    assert told in problem


@pytest.mark.parametrize("name", ["-a", "a-", "a_b", "a.b", "A", "é", "a b", "a" * 64, "", "../a"])
def test_names_that_no_target_takes(refusal: Refusal, name: str) -> None:
    (problem,) = refusal({"schedules": {name: weekly()["schedules"]["weekly"]}})
    assert "a schedule's name must be at most 63 small letters" in problem


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"schedules cannot be read: No such file .*; docs/schedules.md shows how"):
        schedule_file.read(tmp_path / "schedules.yaml")


def test_no_schedules_are_a_file_too(read: Reads) -> None:
    assert read("schedules: {}").schedules == ()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.given(data=st.data())
def test_one_thing_changed_is_read_or_told(folder: Path, data: st.DataObject) -> None:
    content = weekly()
    name = data.draw(st.sampled_from([*schedule_file._SETTINGS, "parameters.steps", "parameters.source"]))
    place = content["schedules"]["weekly"]
    if name.startswith("parameters."):
        place, name = place["parameters"], name.partition(".")[2]
    place[name] = data.draw(_VALUES)
    path = folder / "schedules.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8", errors="replace")
    told: tuple[str, ...] = ()
    try:
        schedule_file.read(path)
    except ConfigError as error:
        told = error.problems
    assert all(problem.isprintable() for problem in told)
