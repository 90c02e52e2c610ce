"""What cannot be executed faithfully is refused before anything runs, by task and construct."""
# mypy: disable-error-code="valid-type"

from collections.abc import Callable

import pytest
from kfp import dsl

from components.core.errors import ConfigError
from pipeline.package import reader
from tests.unit.pipeline.conftest import Desk, Parts

MAKE = 'printf x > "$2"'


@dsl.container_component
def write(model: dsl.Output[dsl.Model]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true"])


@dsl.container_component
def use(model: dsl.Input[dsl.Model]) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="none", command=["true", model.path])


@dsl.container_component
def optional(text: str = "") -> dsl.ContainerSpec:
    placeholder = dsl.IfPresentPlaceholder(input_name="text", then=["--text", text])
    return dsl.ContainerSpec(image="none", command=["echo"], args=[placeholder])


def looping(parts: Parts) -> Callable[..., None]:
    def pipeline() -> None:
        with dsl.ParallelFor(["a", "b"]) as item:
            parts.shell(script=MAKE, text=item)

    return pipeline


def importing(parts: Parts) -> Callable[..., None]:
    def pipeline() -> None:
        use(model=dsl.importer(artifact_uri="gs://bucket/model", artifact_class=dsl.Model).output)

    return pipeline


def choosing(parts: Parts) -> Callable[..., None]:
    def pipeline(side: str) -> None:
        with dsl.If(side == "a"):
            first = parts.shell(script=MAKE)
        with dsl.Else():
            second = parts.shell(script=MAKE)
        parts.shell(script=MAKE, text=dsl.OneOf(first.output, second.output))

    return pipeline


def nested(parts: Parts) -> Callable[..., None]:
    @dsl.pipeline
    def inner(text: str) -> str:
        return parts.shell(script=MAKE, text=text).output

    def pipeline() -> None:
        inner(text=inner(text="a").output)

    return pipeline


def strange(parts: Parts) -> Callable[..., None]:
    def pipeline() -> None:
        parts.shell(script=MAKE, text="{{$.pipeline_google_cloud_project_id}}")
        parts.shell(script=MAKE, text="{{$.pipeline_google_cloud_location}}")
        optional()

    return pipeline


def ignoring_failure(parts: Parts) -> Callable[..., None]:
    def pipeline() -> None:
        broken = parts.shell(script="exit 65")
        parts.shell(script=MAKE, text=broken.output).ignore_upstream_failure()

    return pipeline


def without_values(parts: Parts) -> Callable[..., None]:
    def pipeline(word: str = None, on: bool = True) -> None:  # type: ignore[assignment]  # noqa: RUF013 - as for kfp
        parts.shell(script=word, text=f"{on}")

    return pipeline


def reading_an_artifact(parts: Parts) -> Callable[..., None]:
    def pipeline() -> None:
        use(model=write().outputs["model"])

    return pipeline


def branching(parts: Parts) -> Callable[..., None]:
    def pipeline(value: int, side: str) -> None:
        with dsl.If(value > 10):
            parts.shell(script=MAKE)
        with dsl.If(side != "a"):
            parts.shell(script=MAKE)
        for text in ('it\'s "x"', "back\\slash"):  # kfp writes these between single quotes without escaping them
            with dsl.If(side == text):
                parts.shell(script=MAKE)

    return pipeline


@pytest.mark.parametrize(
    ("pipeline", "refused"),
    [
        (looping, ["parameterIterator"]),
        (importing, ["importer: "]),
        (choosing, ["condition-branches-1: "]),
        (nested, ["inner: "]),
        (
            strange,
            [
                "shell: placeholder {{$.pipeline_google_cloud_project_id}}",
                "shell-2: placeholder {{$.pipeline_google_cloud_location}}",
                "optional: placeholder",
            ],
        ),
        (ignoring_failure, ["shell-2: "]),
        (without_values, ["parameter word: ", "parameter on: BOOLEAN"]),
        (reading_an_artifact, ["use: "]),
        (branching, [f"condition-{number}: condition " for number in (1, 2, 3, 4)]),
    ],
)
def test_every_problem_is_reported_at_once(
    desk: Desk, parts: Parts, pipeline: Callable[[Parts], Callable[..., None]], refused: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        reader.read(desk.compile(pipeline(parts)).read_bytes(), "the package")
    assert all(any(each in problem for problem in raised.value.problems) for each in refused), raised.value


def test_platform_settings_and_unknown_fields(desk: Desk, parts: Parts) -> None:
    def plain() -> None:
        parts.shell(script=MAKE)

    text = desk.compile(plain).read_bytes()
    with pytest.raises(ConfigError, match="platform settings"):
        reader.read(text + b"---\nplatforms:\n  kubernetes: {}\n", "package")
    with pytest.raises(ConfigError, match="shell: novelty"):
        reader.read(text.replace(b"componentRef:", b"novelty: {}\n        componentRef:"), "package")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "a: b", "pipelineInfo: {name: x}", "pipelineInfo: {name: x}\nroot: {dag: {}}"]
)
def test_what_is_no_package(text: str) -> None:
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        reader.read(text.encode(), "broken.yaml")
