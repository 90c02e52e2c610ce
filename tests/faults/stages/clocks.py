"""Stages run under clocks that are wrong: by a day, either way, and jumping between both all the time.

The clock is faked by libfaketime, which `make soak` installs in an environment of its own; `LIBFAKETIME` names another.
Nothing but the wall clock is faked: durations are measured by another.

    python -m tests.faults.stages.clocks FOLDER
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults import candidates
from tests.faults.counts import Counts
from tests.faults.stages.kills import OUTPUT, TRAINING, Stage, content, light_stages

ROOT = Path(__file__).parents[3]
CLOCKS = ("-1d", "+1d", "jumping")
_PATIENCE_SECONDS = 900


def library() -> Path | None:
    """Return the path of libfaketime; None if it is not installed."""
    installed = sorted((ROOT / ".venv-soak").glob("lib/python*/site-packages/libfaketime/**/libfaketime.so.1"))
    named = [Path(os.environ["LIBFAKETIME"])] if "LIBFAKETIME" in os.environ else installed
    return named[0] if named and named[0].exists() else None


def digests_under(clock: str, faketime: Path) -> tuple[dict[str, str], float]:
    """Return the digest of each file that stages make under a clock (the true one if empty), and the clock's error."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.faults.stages.clocks", f"{folder}/work"]
        output = json.loads(_output_under(clock, faketime, command).splitlines()[-1])
    return output["digests"], max((abs(seen - time.time()) for seen in output["seen"]), default=0.0)


def _output_under(clock: str, faketime: Path, command: list[str]) -> str:
    """Return the output of a process that ends well, and in time, under a clock (the true one if empty)."""
    with _wrong_clock(clock, faketime) as environment:
        return subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=_PATIENCE_SECONDS
        ).stdout


@contextlib.contextmanager
def _wrong_clock(clock: str, faketime: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a process with such a clock; a jumping one jumps as long as the block lasts."""
    if not clock:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory() as folder:
        timestamp_file, done = Path(folder, "clock"), threading.Event()
        timestamp_file.write_text("+0" if clock == "jumping" else clock)
        jumps = threading.Thread(target=_jump, args=(timestamp_file, done))
        if clock == "jumping":
            jumps.start()
        faked = {"LD_PRELOAD": str(faketime), "FAKETIME_TIMESTAMP_FILE": str(timestamp_file), "FAKETIME_NO_CACHE": "1"}
        try:
            yield {**os.environ, **faked, "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_UTIMES": "1"}
        finally:
            done.set()
            if clock == "jumping":
                jumps.join()


def run_under_wrong_clocks(faketime: Path) -> Counts:
    """Compare the files of stages under each clock with those under the true one."""
    counts = Counts()
    wanted, _ = digests_under("", faketime)
    for clock in CLOCKS:
        digests, wrong_by = digests_under(clock, faketime)
        differing = sorted(name for name in wanted.keys() | digests.keys() if digests.get(name) != wanted.get(name))
        # Proof that it fired: a clock in the process was wrong by hours.
        counts.add(wrong_by > 3600, f"clock {clock}: other bytes in {differing}" if differing else "")
    return counts


def _jump(timestamp_file: Path, done: threading.Event) -> None:
    number = 0
    while not done.wait(0.2):
        temporary = timestamp_file.with_suffix(".next")
        temporary.write_text(("-1d", "+1d")[number % 2])
        temporary.replace(timestamp_file)
        number += 1


def main(folder: Path) -> None:
    """Run stages in a folder; print the digest of each file, and the clock's time before each."""
    candidates.prepare(folder / "inputs", 1, 0)
    stages = light_stages(folder / "inputs")
    settings = {"dataset": folder / "preprocess/dataset", "checkpoints": OUTPUT, **TRAINING, "steps": 10}
    digests, seen = {}, []
    for stage in [*stages, Stage("train", settings)]:
        seen.append(time.time())
        stage.into(folder / stage.name).run(folder / "log")
        for name, data in content(folder / stage.name).items():
            digests[f"{stage.name}/{name}"] = hashlib.sha256(data).hexdigest()
    print(json.dumps({"digests": digests, "seen": seen}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
