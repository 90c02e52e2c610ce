"""Stages run under clocks that are wrong: by a day, either way, and jumping between both all the time.

The clock is faked by libfaketime, which `make soak` installs in an environment of its own; `LIBFAKETIME` names another.
Nothing but the wall clock is faked: durations are measured by another.

    python -m tests.faults.stages.clocks FOLDER
"""

import contextlib
import datetime
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from components.core import errors
from components.core.registry import registry
from components.core.stage import run_notes
from components.core.storage.location import Location
from tests.faults import candidates
from tests.faults.counts import Counts
from tests.faults.soak.served import quick_server
from tests.faults.stages.kills import OUTPUT, TRAINING, Stage, content, light_stages
from tests.system import whole_runs

ROOT = Path(__file__).parents[3]
# Offsets, each for a fifth of a second, again and again.
CLOCKS = {"-1d": ["-1d"], "+1d": ["+1d"], "jumping": ["-1d", "+1d"]}
_PATIENCE_SECONDS = 900


def library() -> Path | None:
    """Return the path of libfaketime; None if it is not installed."""
    installed = sorted((ROOT / ".venv-soak").glob("lib/python*/site-packages/libfaketime/**/libfaketime.so.1"))
    named = [Path(os.environ["LIBFAKETIME"])] if "LIBFAKETIME" in os.environ else installed
    return named[0] if named and named[0].exists() else None


def digests_under(offsets: list[str], faketime: Path) -> tuple[dict[str, str], float]:
    """Return the digest of each file that stages make under a clock, and the largest error that they saw of it."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Path(folder, "clock")
        clock.write_text(offsets[0])
        environment = {**os.environ, **_environment(faketime), "FAKETIME_NO_CACHE": "1"}
        environment["FAKETIME_TIMESTAMP_FILE"] = str(clock)
        command = [sys.executable, "-m", "tests.faults.stages.clocks", f"{folder}/work"]
        began, printed = time.monotonic(), ""
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for offset in itertools.cycle(offsets):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    printed, _ = process.communicate(timeout=0.2)
                    break
                assert time.monotonic() - began < _PATIENCE_SECONDS, "stages hang"
                clock.with_suffix(".next").write_text(offset)
                clock.with_suffix(".next").replace(clock)
        assert process.returncode == 0
    output = json.loads(printed.splitlines()[-1])
    return output["digests"], max(abs(seen - time.time()) for seen in output["seen"])


def run_under_wrong_clocks(faketime: Path) -> Counts:
    """Compare the files of stages under each clock with those under the true one."""
    counts = Counts()
    wanted, _ = digests_under(["+0"], faketime)
    for clock, offsets in CLOCKS.items():
        digests, wrong_by = digests_under(offsets, faketime)
        differing = sorted(name for name in wanted.keys() | digests.keys() if digests.get(name) != wanted.get(name))
        # Proof that it fired: a clock in the process was wrong by hours.
        counts.add(wrong_by > 3600, f"clock {clock}: other bytes in {differing}" if differing else "")
    return counts


def race_under_wrong_clocks(faketime: Path, folder: Path) -> Counts:
    """Run the pipeline at once on two machines, whose clocks are two days apart, in one bucket: one version is made."""
    counts, records = Counts(), Location.of("gs://b/runs/records")
    whole_runs.run(folder / "alone")
    wanted = whole_runs.outputs(whole_runs.record_of(folder / "alone"))
    with quick_server(folder) as server:
        server.create_bucket("b")
        processes = []
        for offset in ("-1d", "+1d"):
            (folder / offset).mkdir()
            faked = {**_environment(faketime), "FAKETIME": offset, "TMPDIR": str(folder / offset)}
            processes.append(whole_runs.start("gs://b/runs", faked))
        logs = [process.communicate()[1] for process in processes]
        codes = sorted(process.returncode for process in processes)
        notes = [note for number in (1, 2) for note in run_notes.read(records / f"wgan-gp-{number:04d}")]
        champion = registry.read_champion("gs://b/runs/registry")
    problem = "" if codes in ([errors.OK, errors.OK], [errors.OK, errors.SUPERSEDED]) else f"ended with {codes}: {logs}"
    if (champion.version, champion.model_digest) != (1, wanted["model_digest"]):
        problem += f"; the champion is {champion}"
    seen = [datetime.datetime.fromisoformat(note.started) for note in notes if note.started]
    counts.add(max(seen) - min(seen) > datetime.timedelta(days=1), problem)
    return counts


def _environment(faketime: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(faketime), "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_UTIMES": "1"}


def main(folder: Path) -> None:
    """Run stages in a folder; print the digest of each file, and the clock's time before each."""
    candidates.prepare(folder / "inputs", 1, 0)

    def stages() -> Iterator[Stage]:
        yield from light_stages(folder / "inputs")
        (dataset,) = (folder / "preprocess").iterdir()
        yield Stage("train", {"dataset": dataset, "checkpoints": OUTPUT, **TRAINING, "steps": 10})

    digests, seen = {}, []
    for stage in stages():
        seen.append(time.time())
        stage.into(folder / stage.name).run(folder / "log")
        for name, data in content(folder / stage.name).items():
            digests[f"{stage.name}/{name}"] = hashlib.sha256(data).hexdigest()
    print(json.dumps({"digests": digests, "seen": seen}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
