"""Every writer killed at every system call, without power after every one, and with every one failing.

`make test` checks power loss; `make test-slow` kills and fails. Registry changes take longer still; `make soak` tries
each of their calls.
"""

import re
from pathlib import Path

import pytest

from tests.faults.counts import Counts
from tests.faults.disk import traced
from tests.faults.disk.every_call import fail_everywhere, kill_everywhere
from tests.faults.disk.power_loss import lose_power_everywhere
from tests.faults.disk.writers import BY_NAME

ROOT = Path(__file__).parents[3]
REGISTRIES = ("first version", "second version", "rollback", "versions removed")
QUICK = [name for name in BY_NAME if name not in REGISTRIES]
# All other writes go through atomic_files, whose functions are among the writers.
WRITES = re.compile(
    r"""\bopen\([^)\n]*["'][wax]b?\+?["']|\.open\(["'][wax]"""
    r"|\b(write_text|write_bytes|mkstemp|copyfile|copytree|np\.savez|sqlite3\.connect)\(|O_CREAT"
)
WRITE_THEMSELVES = {
    "components/core/artifacts/training_log.py": "rows of a log: a writer here",
    "components/core/networks/saved_models.py": "into a folder that is aside",
    "components/core/sources/catalog.py": "a temporary file",
    "components/core/sources/files.py": "a file that is unlinked at once",
    "components/core/stage/executor.py": "where Kubeflow's launcher waits for it, in a folder of the task's own",
    "components/core/storage/atomic_files.py": "files and folders: writers here",
    "components/core/storage/buckets.py": "a file that its caller has aside",
    "components/export/draw.py": "into a scratch folder",
    "components/export/make.py": "into a scratch folder",
    "components/preprocess/attempt_files.py": "into an attempt's folder, renamed",
    "components/preprocess/reuse.py": "a temporary file",
    "components/publish/run.py": "into a folder that is aside",
    "pipeline/cluster/kubeflow/runs.py": "into a temporary folder; notes, of which losing one costs a word in a list",
    "pipeline/local/runner.py": "a log, as it comes",
    "pipeline/registry/hub.py": "into a folder that is aside",
}


@pytest.fixture(autouse=True)
def needs_strace() -> None:
    traced.require_strace()


def test_who_writes_to_a_disk_is_known() -> None:
    files = [path for folder in ("components", "pipeline") for path in (ROOT / folder).rglob("*.py")]
    writers = {path.relative_to(ROOT).as_posix() for path in files if WRITES.search(path.read_text(encoding="utf-8"))}
    assert writers - WRITE_THEMSELVES.keys() == set()
    assert "components/core/storage/atomic_files.py" in writers


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
    all_well(kill_everywhere(BY_NAME[name], folder / "killed", every=12))
    all_well(fail_everywhere(BY_NAME[name], folder / "failing", every=30))
