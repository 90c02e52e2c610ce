"""Keys: the files, settings and inputs that change them, and those that must not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import grimp
import pytest

from components.core.settings import Setting
from components.core.stage import cache_key

COMPONENTS = Path(cache_key.__file__).parents[2]
STAGES = sorted(path.parent.name for path in COMPONENTS.glob("*/config.py"))
# The templates that evaluate/report.html.j2, report/compare.html.j2 and model_card.py extend or import.
TEMPLATES = {
    "core/reporting/page.html.j2": {"evaluate", "report"},
    "core/reporting/page_parts.html.j2": {"evaluate", "report"},
    "core/reporting/model_card.md.j2": {"export", "publish"},
}


@dataclass(frozen=True, kw_only=True)
class Config:
    size: Annotated[int, Setting("Size.")] = 1
    location: Annotated[str, Setting("Place.", in_key=False)] = "here"
    input_digest: Annotated[str, Setting("Digest of an input.", digest=True)] = ""


def file_of(module: str) -> str:
    path = COMPONENTS.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.relative_to(COMPONENTS).as_posix()


def reachable_files() -> dict[str, set[str]]:
    """Return the files that each stage can reach, by grimp's import graph."""
    graph = grimp.build_graph("components", cache_dir=None)
    reachable = {}
    for stage in STAGES:
        package = f"components.{stage}"
        own = {package, "components.__main__", *graph.find_descendants(package)} - {f"{package}.component"}
        modules = own.union(*(graph.find_upstream_modules(module) for module in own))
        # Python runs a package before its modules.
        packages = {module.rpartition(".")[0] for module in modules} - {""}
        templates = {path.relative_to(COMPONENTS).as_posix() for path in (COMPONENTS / stage).glob("*.j2")}
        shared = {template for template, stages in TEMPLATES.items() if stage in stages}
        reachable[stage] = {file_of(module) for module in modules | packages} | templates | shared
    return reachable


def test_a_stage_can_reach_what_grimp_says() -> None:
    assert {stage: set(cache_key.source_files(stage)) for stage in STAGES} == reachable_files()


def test_every_file_s_name_and_content_decide_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for files in ({"a": b"1"}, {"a": b"2"}, {"b": b"1"}, {"a": b"1", "b": b"1"}):
        monkeypatch.setattr(cache_key, "source_files", lambda stage, files=files: files)
        digests.add(cache_key.source_digest("train"))
    assert len(digests) == 4


def test_a_key_follows_settings_inputs_and_code_but_no_place() -> None:
    def key(config: Config = Config(), stage: str = "train", code: str = "", **inputs: str) -> str:
        return cache_key.key_of(cache_key.key_parts(stage, config, code, **{"input_digest": "a", **inputs}))

    usual = key()
    assert usual == key(Config(location="there")) == key(Config(input_digest="b")) == key(other="")
    assert usual == key(code=cache_key.source_digest("train"))
    others = [
        key(Config(size=2)),
        key(input_digest="b"),
        key(other="a"),
        key(stage="evaluate", code=cache_key.source_digest("train")),
        key(code="0"),
    ]
    assert len({usual, *others}) == 6
    assert len(usual) == 16
