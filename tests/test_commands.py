"""Every verb and flag of ours that a document, an example or a message names exists: its parser is asked."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from components.core.stage import cli
from pipeline.__main__ import command, main
from pipeline.package.parameters import HELP_ALL
from tests import documents

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("benchmarks", "components", "docs", "examples", "pipeline")
_PAGES = [
    *(page for page in _ROOT.glob("*.md") if page.name != "CHANGELOG.md"),
    *(page for folder in _FOLDERS for page in (_ROOT / folder).rglob("*") if page.suffix in (".md", ".py", ".yaml")),
    *(_ROOT / name for name in ("Makefile", "tests/sentences.txt")),
]
_HIDDEN = "executor_input"  # how Kubeflow starts a stage: a flag that help leaves out


def _help(capfd: pytest.CaptureFixture[str], program: str, words: list[str]) -> str:
    """Return the help of all flags of a command; empty if its parser refuses the words."""
    lines = [[*words, "--help"]]
    if words[:1] in (["run"], ["plan"], ["submit"]):
        lines.append([*words, HELP_ALL])
    for line in lines:
        try:
            code = main(line) if program == "wgan" else cli.main(program.removeprefix("components "), line)
        except SystemExit as end:
            code = int(end.code or 0)
        if code:
            return ""
    return capfd.readouterr().out


def test_every_verb_and_flag_that_is_named_exists(capfd: pytest.CaptureFixture[str]) -> None:
    named: defaultdict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
    for page in _PAGES:
        for program, rest in documents.mentions(page):
            words = re.split(r"[^a-z ]", rest)[0].split()[: 2 if program == "wgan" else 0]
            flags = re.findall(r"(?<=--)[\w-]+", rest)
            named[program, *words] |= {
                (flag.replace("-", "_"), str(page.relative_to(_ROOT))) for flag in [*flags, "help"]
            }
    wrong = []
    for (program, *words), uses in named.items():
        listed = re.findall(r"(?m)^ +(-\S.*?)(?:  |$)", _help(capfd, program, words))
        exist = {flag.replace("-", "_") for line in listed for flag in re.findall(r"(?<=--)[\w-]+", line)}
        wrong += [
            f"{page}: {program} {' '.join(words)} --{flag}" for flag, page in uses if flag not in {*exist, _HIDDEN}
        ]
    assert {words[0] for _, *words in named if words} >= set(command()[1].choices)
    assert not wrong, "\n".join(sorted(wrong))
