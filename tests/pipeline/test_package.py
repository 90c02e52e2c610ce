"""What cannot be executed faithfully is refused before anything runs, by task and construct."""

from collections.abc import Callable

import pytest
import yaml
from kfp import dsl

from components.errors import ConfigError
from pipeline import package
from tests.pipeline.conftest import Desk, Parts


def refusal(desk: Desk, function: Callable[..., None]) -> str:
    found = desk.run(desk.compile(function))
    assert found.returncode == 64, found.stderr
    assert "Traceback" not in found.stderr
    assert not desk.root.exists()
    return found.stderr


def test_parallel_for(desk: Desk, parts: Parts) -> None:
    def looping() -> None:
        with dsl.ParallelFor(["a", "b"]) as item:
            parts.shell(script='printf x > "$2"', text=item)

    assert ": ParallelFor (parameterIterator) is not supported" in refusal(desk, looping)


def test_importer(desk: Desk) -> None:
    @dsl.container_component
    def use(model: dsl.Input[dsl.Model]) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["true", model.path])

    def importing() -> None:
        use(model=dsl.importer(artifact_uri="gs://bucket/model", artifact_class=dsl.Model).output)

    assert "importer: dsl.importer is not supported" in refusal(desk, importing)


def test_one_of(desk: Desk, parts: Parts) -> None:
    def choosing(side: str) -> None:
        with dsl.If(side == "a"):
            first = parts.shell(script='printf a > "$2"')
        with dsl.Else():
            second = parts.shell(script='printf b > "$2"')
        parts.shell(script='printf "$1" > "$2"', text=dsl.OneOf(first.output, second.output))

    assert "condition-branches-1: outputs of a graph (a nested pipeline, dsl.OneOf" in refusal(desk, choosing)


def test_unknown_placeholders_and_every_problem_at_once(desk: Desk, parts: Parts) -> None:
    def strange() -> None:
        parts.shell(script='printf x > "$2"', text="{{$.pipeline_google_cloud_project_id}}")
        parts.shell(script='printf x > "$2"', text="{{$.pipeline_google_cloud_location}}")

    message = refusal(desk, strange)
    assert "shell: placeholder {{$.pipeline_google_cloud_project_id}} is not supported" in message
    assert "shell-2: placeholder {{$.pipeline_google_cloud_location}} is not supported" in message


def test_optional_arguments(desk: Desk) -> None:
    @dsl.container_component
    def optional(text: str = "") -> dsl.ContainerSpec:
        return dsl.ContainerSpec(
            image="none", command=["echo"], args=[dsl.IfPresentPlaceholder(input_name="text", then=["--text", text])]
        )

    def pipeline() -> None:
        optional()

    assert "optional: placeholder" in refusal(desk, pipeline)


def test_nested_pipeline(desk: Desk, parts: Parts) -> None:
    @dsl.pipeline
    def inner(text: str) -> str:
        return parts.shell(script='printf "<%s>" "$1" > "$2"', text=text).output

    def outer() -> None:
        inner(text=inner(text="a").output)

    assert "inner: outputs of a graph (a nested pipeline" in refusal(desk, outer)


def test_task_that_ignores_upstream_failure(desk: Desk, parts: Parts) -> None:
    def cleaning() -> None:
        broken = parts.shell(script="exit 65")
        parts.shell(script='printf x > "$2"', text=broken.output).ignore_upstream_failure()

    assert "shell-2: an output of another task for a task that runs although" in refusal(desk, cleaning)


def test_parameter_without_a_value(desk: Desk, parts: Parts) -> None:
    def missing(word: str = None, on: bool = True) -> None:  # type: ignore[assignment]  # noqa: RUF013 - as for kfp
        parts.shell(script=word, text=f"{on}")

    message = refusal(desk, missing)
    assert "parameter word: None as default is not supported" in message
    assert "parameter on: BOOLEAN is not supported" in message


def test_artefact_as_input(desk: Desk, parts: Parts) -> None:
    @dsl.container_component
    def write(model: dsl.Output[dsl.Model]) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["true"])

    @dsl.container_component
    def read(model: dsl.Input[dsl.Model]) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="none", command=["true"])

    def pipeline() -> None:
        read(model=write().outputs["model"])

    assert "read: an artefact as input is not supported" in refusal(desk, pipeline)


# kfp writes this text between single quotes without escaping it.
@pytest.mark.parametrize("text", ['it\'s "x"', "back\\slash"])
def test_condition_on_a_strange_text(desk: Desk, parts: Parts, text: str) -> None:
    def quoted(given: str) -> None:
        with dsl.If(given == text):
            parts.shell(script='printf x > "$2"')

    assert "condition-1: condition" in refusal(desk, quoted)


def test_condition_other_than_one_text(desk: Desk, parts: Parts) -> None:
    def branches(value: int, side: str) -> None:
        with dsl.If(value > 10):
            parts.shell(script='printf 1 > "$2"')
        with dsl.If(side != "a"):
            parts.shell(script='printf 2 > "$2"')

    message = refusal(desk, branches)
    assert "condition-1: condition int(" in message
    assert "condition-2: condition inputs.parameter_values['pipelinechannel--side'] != 'a' is not" in message


def test_platform_settings(desk: Desk, parts: Parts) -> None:
    def plain() -> None:
        parts.shell(script='printf x > "$2"')

    path = desk.compile(plain)
    path.write_text(path.read_text() + "---\nplatforms:\n  kubernetes: {}\n")
    found = desk.run(path)
    assert found.returncode == 64
    assert "platform settings" in found.stderr


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "a: b", "pipelineInfo: {name: x}", "pipelineInfo: {name: x}\nroot: {dag: {}}"]
)
def test_what_is_no_package(text: str) -> None:
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        package.read(text.encode(), "broken.yaml")


def test_unknown_field_is_not_ignored(desk: Desk, parts: Parts) -> None:
    def plain() -> None:
        parts.shell(script='printf x > "$2"')

    spec = yaml.safe_load(desk.compile(plain).read_text())
    spec["root"]["dag"]["tasks"]["shell"]["novelty"] = {}
    with pytest.raises(ConfigError, match=r"shell: novelty \(in task\) is not supported"):
        package.read(yaml.safe_dump(spec).encode(), "package")


def test_missing_file(desk: Desk) -> None:
    found = desk.run(desk.folder / "absent.yaml")
    assert found.returncode == 64
    assert "No such file or directory" in found.stderr
