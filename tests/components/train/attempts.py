"""Attempts at trainings, each in a fork of one process that has imported TensorFlow and used it for nothing.

Faults are planted where the test says, at the n-th call of a function of the train stage: a signal to the process
itself, or infinity in a variable. What was planted and came to pass is on the last line of what an attempt says.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Where a fault may be planted: module, class (or none), function.
PHASES = {
    "load": ("components.datasets", "", "load_split"),
    "compile": ("components.train.step", "WganStep", "_one_step"),
    "block": ("components.train.training", "_Batches", "block"),
    "window": ("components.train.watch", "Watch", "end_window"),
    "row": ("components.train.progress", "Progress", "write_row"),
    "samples": ("components.train.training", "", "_write_samples"),
    "save": ("components.array_files", "", "write_arrays"),
    "saved": ("components.checkpoints", "", "keep"),
    "going back": ("components.checkpoints", "", "remove_after"),
}


def made(folder: Path, attempts: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Makes attempts one after another.

    Args:
        folder: Where to keep what they say.
        attempts: `flags` of the train stage; `plan`, a list of [phase, call, signals...]; and `poison`, variables that
            become infinite before a step: a list of [variable, step, roll-backs up to which they do].

    Returns:
        The exit code of each (less than 0: the signal that killed it), and what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attempts.json").write_text(json.dumps(attempts))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout.splitlines()[-1])
    return [(code, (folder / f"said{index}").read_text()) for index, code in enumerate(codes)]


def _each(folder: Path) -> list[int]:
    codes = []
    for index, attempt in enumerate(json.loads((folder / "attempts.json").read_text())):
        child = os.fork()
        if child == 0:
            said = os.open(folder / f"said{index}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            code = 99
            try:
                code = _attempt(**attempt)
            finally:
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return codes


def _attempt(flags: list[str], plan: list[list[Any]], poison: list[list[Any]]) -> int:
    from components import cli
    from components.train import training
    from components.train.config import TrainConfig

    for phase, call, *signals in plan:
        _plant(phase, call, signals)
    if poison:
        build, block = training.WganStep, training._Batches.block
        built: list[Any] = []

        def remembered(*given: Any) -> Any:
            built.append(build(*given))
            return built[-1]

        def poisoned(self: Any, first_step: int, steps: int, roll_backs: int = 0) -> Any:
            for name, step, most in poison:
                if first_step <= step < first_step + steps and roll_backs <= most:
                    variable = built[0].state()[name]
                    variable.assign(variable * float("inf"))
                    _say(f"poisoned: {name} before step {first_step + 1}, {roll_backs} roll-backs")
            return block(self, first_step, steps, roll_backs)

        training.WganStep = remembered  # type: ignore[misc, assignment]
        training._Batches.block = poisoned  # type: ignore[method-assign]
    return cli.main("train", TrainConfig, flags)


def _plant(phase: str, call: int, signals: list[int]) -> None:
    module, owner, name = PHASES[phase]
    holder: Any = getattr(sys.modules[module], owner) if owner else sys.modules[module]
    original, calls = getattr(holder, name), 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            for number in signals:
                _say(f"signal {number} at {phase} {call}")
                os.kill(os.getpid(), number)
        return original(*given, **named)

    setattr(holder, name, counted)


def _say(what: str) -> None:
    os.write(2, f"planted: {what}\n".encode())


def _quiet(call: Callable[[], list[int]]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(json.dumps(call()))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import components.train.run
    import components.train.training  # noqa: F401

    _quiet(lambda: _each(Path(sys.argv[1])))
