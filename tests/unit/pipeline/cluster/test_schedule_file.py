"""schedules.yaml: its settings, and every mistake with its path, reported before anything is sent."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.core.errors import ConfigError
from pipeline.cluster import schedule_file
from pipeline.cluster.backend import Schedule
from pipeline.cluster.schedule_file import ScheduleSettings


def read(packages: Path, content: Any) -> list[Schedule]:
    path = packages / "schedules.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return schedule_file.read(path)


def refusal(packages: Path, content: Any) -> list[str]:
    """The problems of a file, without the path with which each begins."""
    with pytest.raises(ConfigError) as raised:
        read(packages, content)
    file = f"schedules {packages}/schedules.yaml"
    assert all(problem.startswith(file) and problem.isprintable() for problem in raised.value.problems)
    return [problem.removeprefix(file).removeprefix(": ") for problem in raised.value.problems]


def weekly(**settings: Any) -> dict[str, Any]:
    """Return a valid schedule, with other settings; None omits one."""
    merged = {
        "cron": "0 9 * * 1",
        "package": "kfp.yaml",
        "target": "kfp",
        "experiment": "retraining",
        "parameters": {"source": "digits", "root": "/data/runs"},
        **settings,
    }
    return {"schedules": {"weekly": {name: value for name, value in merged.items() if value is not None}}}


def test_every_setting_is_read_and_those_left_out_have_defaults(packages: Path) -> None:
    (schedule,) = read(packages, weekly())
    assert (schedule.submission.package.path, schedule.enabled) == (packages / "kfp.yaml", True)
    defaults = {"time_zone": "UTC", "concurrency": 1, "catch_up": False, "pipeline_root": "", "service_account": ""}
    assert schedule.content().items() >= defaults.items()
    settings: dict[str, Any] = {
        **{"time_zone": "Europe/Berlin", "concurrency": 3, "catch_up": True},
        **{"pipeline_root": "gs://bucket/artifacts", "service_account": "trainer"},
        "parameters": {"source": "digits", "root": "/data", "steps": 500, "critic_learning_rate": 0.001, "seed": "7"},
    }
    content = weekly(**settings, cron="30 2 * * Sun", enabled=False) | {"controller_time_zone": "Europe/Berlin"}
    (schedule,) = read(packages, content)
    settings["parameters"]["seed"] = 7
    assert schedule.content() == schedule.content() | settings | {"cron": "30 2 * * 0"}
    assert not schedule.enabled


def test_a_schedule_takes_a_file_of_settings_beside_it(packages: Path) -> None:
    path = packages / "mine.yaml"
    path.write_text("preprocess: {source: fashion-mnist}\ntrain: {steps: 1e3}\n")
    (schedule,) = read(packages, weekly(config="mine.yaml"))
    assert schedule.submission.parameters == {"source": "digits", "root": "/data/runs", "steps": 1000}
    path.write_text("train:\n  stps: 3\n")
    (problem,) = refusal(packages, weekly(config="mine.yaml"))
    assert problem.startswith(f"schedules.weekly.config {path}, line 2:")


VERTEX = {"target": "vertex", "package": "vertex.yaml"}


def parameters(**settings: Any) -> dict[str, Any]:
    return {"parameters": {"source": "digits", "root": "/data", **settings}}


# Each with the name that the line begins with, and a value or name that it shows.
@pytest.mark.parametrize(
    ("settings", "setting", "fragment"),
    [
        *(({name: None}, name, "") for name in ("cron", "package", "target", "experiment")),
        ({"cron": "@weekly"}, "cron", "'@weekly'"),
        *(({"time_zone": zone}, "time_zone", repr(zone)) for zone in ("Europe/Berlni", "", "../UTC")),
        *(({"time_zone": zone}, "time_zone", "controller_time_zone") for zone in ("Europe/Berlin", "Etc/GMT+1")),
        ({"package": "absent.yaml"}, "package", "absent.yaml"),
        ({"config": "absent.yaml"}, "config", "absent.yaml"),
        ({"package": "vertex.yaml"}, "package", "vertex"),
        ({"package": "schedules.yaml"}, "package", "schedules.yaml"),
        (VERTEX, "pipeline_root", "''"),
        (VERTEX | {"pipeline_root": "minio://bucket"}, "pipeline_root", "minio://bucket"),
        ({"experiment": "e" * 129}, "experiment", "128"),
        ({"concurrency": 11}, "concurrency", "10"),
        ({"crn": "0 9 * * 1"}, "crn", "cron?"),
        ({"parameters": {"source": "digits"}}, "parameters: root", ""),
        (parameters(stepz=5), "parameters: unknown parameter stepz", "steps?"),
        (parameters(steps="many"), "parameters: steps", "'many'"),
        (parameters(source=2024), "parameters: source", "2024"),
        (parameters(root="runs"), "parameters: root", "runs"),
        (parameters(height=5), "parameters: height and width", ""),
    ],
)
def test_a_mistake_has_its_path(packages: Path, settings: dict[str, Any], setting: str, fragment: str) -> None:
    (problem,) = refusal(packages, weekly(**settings))
    assert problem.startswith(f"schedules.weekly.{setting}")
    assert fragment in problem


def test_all_mistakes_of_the_file_come_first_then_all_of_the_packages(packages: Path) -> None:
    absent = {"cron": "0 9 * * 1", "package": "absent.yaml", "target": "kfp", "experiment": "e"}
    schedules = {"Weekly": absent, "a": {**absent, "cron": "0 9 * *", "enabled": 1}, "b": absent, "c": None, 3: {}}
    content = {"more": {}, "controller_time_zone": "Europe/Berlni", "schedules": schedules}
    problems = refusal(packages, content)
    assert {re.split(" must | is ", problem)[0].removeprefix("schedules.") for problem in problems} == {
        *("more", "controller_time_zone", "Weekly", "a.cron", "a.enabled", "c", "3"),
        *(f"3.{name}" for name in absent),
    }
    content = {"schedules": {**weekly(parameters=None)["schedules"], "a": absent, "b": absent}}
    assert [re.split(" cannot | is ", problem)[0] for problem in refusal(packages, content)] == [
        "schedules.weekly.parameters: root",
        "schedules.weekly.parameters: source",
        "schedules.a.package",
        "schedules.b.package",
    ]


def test_the_example_in_the_docs_is_a_file_of_schedules(packages: Path) -> None:
    """One of them on Vertex, which has a clock of its own."""
    text = (Path(__file__).parents[4] / "docs" / "schedules.md").read_text()
    example = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    for name, settings in yaml.safe_load(example)["schedules"].items():
        assert name in text.replace(example, "")
        example = example.replace(f"package: {settings['package']}\n", f"package: {settings['target']}.yaml\n")
    zones = {schedule.target: schedule.content()["time_zone"] for schedule in read(packages, example)}
    assert zones == {"kfp": "UTC", "vertex": "Europe/Berlin"}
    assert {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)} == {*ScheduleSettings.model_fields}
