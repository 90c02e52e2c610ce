"""`python -m components NAME`: its names, and what preprocess gets before NumPy is imported."""

import os
import subprocess
import sys

import pytest

from components.core import errors, stages


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [(["--help"], errors.OK, ""), ([], errors.BAD_CONFIGURATION, ""), (["trian"], errors.BAD_CONFIGURATION, "'trian'")],
)
def test_without_a_known_name_it_lists_the_names(words: list[str], code: int, problem: str) -> None:
    command = [sys.executable, "-m", "components", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed, empty = (done.stdout, done.stderr) if code == errors.OK else (done.stderr, done.stdout)
    assert (done.returncode, empty) == (code, "")
    assert ", ".join(stages.PROGRAMS) in printed
    assert problem in printed
    assert len(printed.splitlines()) <= 2


@pytest.mark.parametrize(
    ("name", "inherited", "expected"),
    [
        ("preprocess", {}, "1 50000"),
        ("preprocess", {"OPENBLAS_NUM_THREADS": "2"}, "2 50000"),
        ("train", {}, "None 700"),
    ],
)
def test_preprocess_alone_has_one_thread_of_numpy_and_a_rare_garbage_collection(
    name: str, inherited: dict[str, str], expected: str
) -> None:
    program = (
        "import gc, os, sys; from components import __main__; assert 'numpy' not in sys.modules; "
        "gc.set_threshold(700); threads = lambda: os.environ.get('OPENBLAS_NUM_THREADS'); "
        "__main__.cli.main = lambda *call: print(*call, threads(), gc.get_threshold()[0]); "
        f"__main__.main(['{name}', '--flag'])"
    )
    variables = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables | inherited)
    assert done.stdout == f"{name} ['--flag'] {expected}\n"
