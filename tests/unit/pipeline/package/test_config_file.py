"""Files of settings by stage: what `--print-config` prints is read as the same, and every mistake has its line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from components.core import settings
from components.core.settings import Field
from pipeline import step_table
from pipeline.package import config_file
from tests.unit.pipeline.conftest import messages, wgan

PARAMETERS = step_table.PARAMETERS
EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))


def field_values(field: Field) -> st.SearchStrategy[Any]:
    """Return values of the field's type within its bounds."""
    setting = field.setting
    if setting.choices:
        return st.sampled_from(setting.choices)
    if field.type is str:
        return st.text() | st.sampled_from(["no", "~", "2024", "1e-3", "- a", "a: b #c", "\x85\ufeff\U0001f600"])
    low = setting.above if setting.at_least is None else setting.at_least
    high = setting.below if setting.at_most is None else setting.at_most
    if field.type is int:
        return st.integers(None if low is None else int(low), None if high is None else int(high) - 1)
    numbers = st.floats(low, high, allow_nan=False, allow_infinity=False)
    return numbers.filter(lambda value: not settings.field_problems(field, value))


@given(st.fixed_dictionaries({name: field_values(field) for name, field in PARAMETERS.items()}))
def test_what_is_written_is_read_as_the_same(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.yaml"
    path.write_text(config_file.written(values), encoding="utf-8")
    problems: list[str] = []
    texts = config_file.read(path, PARAMETERS, problems)
    assert {name: settings.parse_value(PARAMETERS[name], text) for name, text in texts.items()} == values
    assert problems == []


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("train:\n  stps: 3", ["line 2 'train.stps' train.steps?"]),
        ("trian: {steps: 3}", ["line 1 'trian.steps' train.steps?"]),
        ("embed:\n\n  steps: 3", ["line 3 'embed.steps' train.steps?"]),
        ("train: {root: x}\nsteps: 3", ["line 1 'train.root' root?", "line 2 'steps' train.steps?"]),
        ("train:\n  steps: [1, 2]\n  beta_1: {a: 1}\n", ["line 2 train.steps", "line 3 train.beta_1"]),
        ("train:\n  steps: 0", ["line 2 train.steps 1 0"]),
        ("train:\n  steps: 1\n  steps: 2", ["line 3 'steps' twice"]),
        ("train: {steps: 1}\n? [a]\n: b", ["line 2"]),
        ("decide:\ntrain: 3", ["line 2 train '3'"]),
        ("- steps", ["mapping"]),
        ("train: {steps: 1}\n---\nembed: {}", ["2"]),
    ],
)
def test_every_mistake_has_its_line_and_a_remedy(tmp_path: Path, content: str, named: list[str]) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    result = wgan("run", "--source", "digits", "--config", "mine.yaml", "--print-config", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (64, "")
    for message, names in zip(messages(result), named, strict=True):
        assert all(name in message for name in ["mine.yaml", *names.split()]), message


def test_a_flag_overrides_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "root: there\npreprocess: {source: 2024, color: gray}\ntrain: {steps: 1e3, beta_1: .5}\ndecide: {refresh: no}\n"
    )
    flags = ("--config", "mine.yaml", "--steps", "7", "--color", "rgb")
    result = wgan("run", *flags, "--print-config", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    printed = yaml.safe_load(result.stdout)
    assert printed["root"] == str(tmp_path / "there")
    assert printed["preprocess"].items() >= {"source": "2024", "color": "rgb", "resize": "fill"}.items()
    assert (printed["train"]["steps"], printed["train"]["beta_1"], printed["decide"]["refresh"]) == (7, 0.5, "no")
    (tmp_path / "printed.yaml").write_text(result.stdout)
    assert wgan("run", "--config", "printed.yaml", "--print-config", cwd=tmp_path).stdout == result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"mine.yaml", "printed.yaml"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_changes_what_it_names(example: Path, tmp_path: Path) -> None:
    result = wgan("run", "--source", "digits", "--config", str(example), "--print-config", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    printed = yaml.safe_load(result.stdout)
    for group, named in yaml.safe_load(example.read_text()).items():
        for name, value in named.items():
            default = PARAMETERS[name].default
            assert value != default, f"{example.name} repeats the default of {group}.{name}"
            assert printed[group][name] == ("digits" if name == "source" else value)
