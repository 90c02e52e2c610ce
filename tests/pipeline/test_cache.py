"""Kept results: when a stage is not run again, when it is, and what `wgan plan` says of it beforehand."""
# mypy: disable-error-code="valid-type"

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components import cache_key
from pipeline import cache, package
from pipeline.compile import compiled_package
from pipeline.processes import Processes
from pipeline.resolve import Outputs, Resolver, placeholders_of
from tests.pipeline.conftest import Desk, Parts


@pytest.fixture
def two_stages(desk: Desk, parts: Parts) -> Path:
    def two(steps: int = 10, note: str = "a", always: str = "b") -> None:
        made = parts.shell(script='mkdir -p "$1"; printf "%s" "$1" > "$2"', text=f"{note}-{steps}")
        used = parts.shell(script='printf "used %s" "$1" > "$2"', text=made.output)
        parts.shell(script='printf "%s" "$1" > "$2"', text=always).set_caching_options(False).after(used)

    return desk.compile(two)


def plan_of(desk: Desk, package: Path, *flags: str) -> dict[str, tuple[str, str]]:
    found = desk.run(package, *flags, verb="plan")
    assert found.returncode == 0, found.stderr
    rows = [line.split(maxsplit=2) for line in found.stdout.splitlines()[1:]]
    return {name: (outcome, why.strip()) for name, outcome, why in rows}


@pytest.fixture
def in_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)


@pytest.mark.usefixtures("in_folder")
def test_unchanged_is_not_run_again_and_says_so(desk: Desk, two_stages: Path) -> None:
    assert plan_of(desk, two_stages)["shell"] == ("runs", "it has not been run yet")
    assert not desk.root.exists()
    assert desk.run(two_stages).returncode == 0
    assert plan_of(desk, two_stages) == {
        "shell": ("unchanged", "its inputs, settings and code are unchanged"),
        "shell-2": ("unchanged", "its inputs, settings and code are unchanged"),
        "shell-3": ("runs", "always"),
    }
    again = desk.run(two_stages)
    assert again.returncode == 0
    assert desk.states(2) == {"shell": "unchanged", "shell-2": "unchanged", "shell-3": "done"}
    assert desk.tasks(1)["shell-2"]["outputs"] == desk.tasks(2)["shell-2"]["outputs"]
    assert "shell: unchanged inputs, settings and code: not run again" in again.stderr


@pytest.mark.usefixtures("in_folder")
def test_plan_names_what_changed_and_what_follows(desk: Desk, two_stages: Path) -> None:
    assert desk.run(two_stages).returncode == 0
    planned = plan_of(desk, two_stages, "--steps", "20")
    assert planned["shell"] == ("runs", "text: a-10 -> a-20")
    assert planned["shell-2"] == ("runs", "its input text comes from shell, which runs")
    assert desk.run(two_stages, "--steps", "20").returncode == 0
    assert desk.states(2) == {"shell": "done", "shell-2": "done", "shell-3": "done"}
    # Both results are kept: going back is no change, and a difference is told against the latest run.
    assert plan_of(desk, two_stages)["shell"][0] == "unchanged"
    assert plan_of(desk, two_stages, "--steps", "30")["shell"] == ("runs", "text: a-20 -> a-30")


def test_changed_command_runs_again(desk: Desk, parts: Parts) -> None:
    def version(number: int) -> Callable[[], None]:
        def pipeline() -> None:
            parts.shell(script=f'printf {number} > "$2"; : version')

        return pipeline

    def other() -> None:
        parts.shell(script='printf 2 > "$2"')

    assert desk.run(desk.compile(version(1))).returncode == 0
    planned = plan_of(desk, desk.compile(version(2)))
    assert planned["shell"][0] == "runs"
    assert planned["shell"][1].startswith("script: ")


def test_failed_stage_is_not_kept(desk: Desk, parts: Parts) -> None:
    def failing() -> None:
        parts.shell(script='printf x > "$2"; exit 65')

    package = desk.compile(failing)
    assert [desk.run(package).returncode for _ in range(2)] == [65, 65]


def test_result_whose_artefact_is_gone_is_made_again(desk: Desk, parts: Parts) -> None:
    from kfp import dsl

    @dsl.container_component
    def folder(place: str, made_uri: dsl.OutputPath(str)) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(
            image="none", command=["sh", "-ec", 'mkdir -p "$1"; printf "%s" "$1" > "$2"', "f", place, made_uri]
        )

    def pipeline(place: str) -> None:
        folder(place=place)

    package, place = desk.compile(pipeline), desk.folder / "made"
    assert desk.run(package, "--place", str(place)).returncode == 0
    assert plan_of(desk, package, "--place", str(place))["folder"][0] == "unchanged"
    place.rmdir()
    assert plan_of(desk, package, "--place", str(place))["folder"] == ("runs", f"its artefact is gone: {place}")
    assert desk.run(package, "--place", str(place)).returncode == 0
    assert place.is_dir()


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"run": 1}'])
def test_damaged_entry_only_means_running_again(desk: Desk, two_stages: Path, damage: str) -> None:
    assert desk.run(two_stages).returncode == 0
    for entry in (desk.root / "cache" / "shell").iterdir():
        entry.write_text(damage)
    assert desk.run(two_stages).returncode == 0
    assert desk.states(2)["shell"] == "done"
    (entry,) = (desk.root / "cache" / "shell").iterdir()
    assert json.loads(entry.read_text())["outputs"]["parameters"] == {"out": "a-10"}


def test_plan_leaves_conditions_to_the_run(desk: Desk, parts: Parts) -> None:
    from kfp import dsl

    def gated(ask: str) -> None:
        judged = parts.shell(script='printf "%s" "$1" > "$2"', text=ask).set_caching_options(False)
        with dsl.If(judged.output == "yes"):
            parts.shell(script='printf x > "$2"')
        with dsl.If(ask == "yes"):
            parts.shell(script='printf y > "$2"')

    planned = plan_of(desk, desk.compile(gated), "--ask", "no")
    assert planned == {
        "shell": ("runs", "always"),
        "shell-2": ("perhaps", "decided by the out of shell"),
        "shell-3": ("skipped", "ask no"),
    }


def test_plan_leaves_what_a_stage_says_anew_each_time_to_the_run(desk: Desk, parts: Parts) -> None:
    def asked(word: str) -> None:
        trained = parts.shell(script='printf "%s" "$1" > "$2"', text=word)
        judged = parts.shell(script='printf "%s" "$1" > "$2"', text=trained.output).set_caching_options(False)
        parts.shell(script='printf "%s" "$1" > "$2"', text=judged.output)

    package = desk.compile(asked)
    assert plan_of(desk, package, "--word", "a")["shell-3"] == ("runs", "its input text comes from shell-2, which runs")
    assert desk.run(package, "--word", "a").returncode == 0
    planned = plan_of(desk, package, "--word", "a")
    assert planned["shell-3"] == ("perhaps", "decided by its input text, which comes from shell-2")
    assert desk.run(package, "--word", "a").returncode == 0
    assert desk.states(2) == {"shell": "unchanged", "shell-2": "done", "shell-3": "unchanged"}


def test_key_of_a_stage_follows_content_settings_and_code_not_where_its_input_lies() -> None:
    compiled = package.read(compiled_package(), "the pipeline")
    tasks = {task.name: task for task in compiled.tasks}

    def parts(
        digest: str = "0", uri: str = "/a", own: str = "", run_name: str = "one", **parameters: object
    ) -> dict[str, Any]:
        run = placeholders_of(run_name, "/runs")
        made = {
            tasks["fingerprint"]: Outputs({"own_embedding_digest": own}, {}),
            tasks["preprocess"]: Outputs({"dataset_uri": uri, "dataset_digest": digest}, {}),
        }
        defaults = {name: definition.get("defaultValue") for name, definition in compiled.parameters.items()}
        given = {**defaults, "source": "digits", "root": "/runs", **parameters}
        inputs = Resolver(given, made, run).inputs(tasks["embed"])
        return cache.key_parts(tasks["embed"], inputs, Processes().identity(tasks["embed"]))

    assert parts(uri="/b") == parts()
    assert parts(run_name="another") == parts()
    assert parts(steps=5) == parts()
    assert parts(own="1", own_embedding="/here") == parts(own="1", own_embedding="/there")
    assert cache.differences(parts(own="1", own_embedding="/here"), parts(own="2", own_embedding="/here")) == [
        "own_embedding_digest: 1 -> 2"
    ]
    assert cache.differences(parts(classifier_epochs=10), parts(digest="1", classifier_epochs=2)) == [
        "classifier_epochs: 10 -> 2",
        "dataset_digest: 0 -> 1",
    ]
    assert parts()["code"] == cache_key.source_digest("embed")


def test_differences_name_every_part() -> None:
    old = {"inputs": {"steps": 1, "dataset_digest": "0" * 64}, "libraries": {"keras": "3.1"}}
    new = {"inputs": {"steps": 2, "dataset_digest": "1" * 64}, "libraries": {"keras": "3.2"}}
    rest = {"code": "a", "command": {}}
    assert cache.differences(old | rest, new | rest | {"code": "b"}) == [
        "dataset_digest: 00000000 -> 11111111",
        "steps: 1 -> 2",
        "keras: 3.1 -> 3.2",
        "its code changed",
    ]
