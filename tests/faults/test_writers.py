"""Every writer killed at every system call, without power after every one, and with every one failing.

`make test` computes what is left without power; `make test-slow` kills, fails, and plants mistakes. Changes of a
registry take longer still; `make soak` looks at every call of theirs.
"""

from pathlib import Path

import pytest

from tests.faults import traced
from tests.faults.counts import Counts
from tests.faults.crash_points import kill_everywhere, written
from tests.faults.failing_calls import fail_everywhere
from tests.faults.mutants import CATCHES, MUTANTS, mutated
from tests.faults.power_loss import lose_power_everywhere
from tests.faults.writers import BY_NAME

REGISTRIES = ("first version", "second version", "roll-back", "versions removed")
QUICK = [name for name in BY_NAME if name not in REGISTRIES]


@pytest.fixture(autouse=True)
def needs_strace() -> None:
    traced.require_strace()


def all_well(counts: Counts) -> None:
    assert counts.violations == []
    assert counts.tried == counts.fired > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_killed_at_every_call(name: str, folder: Path) -> None:
    all_well(kill_everywhere(BY_NAME[name], folder))


@pytest.mark.parametrize("name", QUICK)
def test_without_power_after_every_call(name: str, folder: Path) -> None:
    all_well(lose_power_everywhere(BY_NAME[name], folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_call_fails(name: str, folder: Path) -> None:
    all_well(fail_everywhere(BY_NAME[name], folder, every=3))


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRIES)
def test_a_change_of_a_registry_killed_at_some_calls_and_with_some_failing(name: str, folder: Path) -> None:
    all_well(kill_everywhere(BY_NAME[name], folder / "killed", every=4))
    all_well(fail_everywhere(BY_NAME[name], folder / "failing", every=10))


def test_a_publication_again_writes_nothing(folder: Path) -> None:
    folder.mkdir()
    writer = BY_NAME["second version"]
    writer.prepare(folder)
    writer.write(folder)
    before = {path: path.stat().st_ino for path in folder.rglob("*")}
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    assert traced.run(lambda: written(writer, folder), scratch) == 0
    calls = traced.calls(scratch)
    changing = ("write", "sendfile", "rename", "unlink", "mkdir", "rmdir", "fsync", "chmod", "fchmod")
    assert {call: calls[call] for call in changing} == dict.fromkeys(changing, 0)
    assert calls["openat"] > 0  # it was there, and looked
    assert {path: path.stat().st_ino for path in folder.rglob("*")} == before


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_variant_is_caught(mutant: str, folder: Path) -> None:
    for number, (suite, name) in enumerate(CATCHES[mutant]):
        counts = suite(mutated(BY_NAME[name], mutant), folder / str(number))
        assert counts.violations, f"{suite} of {name} lets it pass"
