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

    assert "condition-branches-1: dsl.OneOf is not supported" in refusal(desk, choosing)


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


def test_condition_that_is_not_understood(desk: Desk, parts: Parts) -> None:
    # kfp writes this text between single quotes without escaping it.
    def quoted(text: str) -> None:
        with dsl.If(text == 'it\'s "x"'):
            parts.shell(script='printf x > "$2"')

    assert "condition-1: condition" in refusal(desk, quoted)


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
