"""Nothing is decided by the wall clock: where the code reads it. `make soak` runs stages under wrong clocks."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "getmtime", "getctime", "localtime", "gmtime", "strftime"}
_STAMPS = {"st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns"}
# Every file that reads a clock or a file's times, and its reason.
ALLOWED = {
    "components/preprocess/reuse.py": "which earlier dataset is looked through first; any order gives the same",
    "components/core/stage/run_notes.py": "when a stage began, for people",
    "components/core/sources/index.py": "whether a file is as it was when it was read, as git's index does; see there",
    "pipeline/cluster/run_commands.py": "how long ago a run began, for people",
    "pipeline/cluster/vertex/runs.py": "how long ago a run began, for people",
    "pipeline/cluster/vertex/schedules.py": "the start that Vertex asks of a schedule, by its own clock in the end",
    "pipeline/cluster/waiting.py": "how long a task has run, for people",
    "pipeline/local/history.py": "when a run began, for people",
    "pipeline/local/values.py": "when a run was made, which its record says",
}


def looks_at_a_clock(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in _STAMPS:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLOCKS:
            module = ast.unparse(node.func.value)
            if module.split(".")[0] in ("time", "datetime", "os"):
                return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
    return False


def test_who_looks_at_a_clock_is_known_and_says_why() -> None:
    files = [path for folder in ("components", "pipeline") for path in (ROOT / folder).rglob("*.py")]
    readers = {
        path.relative_to(ROOT).as_posix() for path in files if looks_at_a_clock(path.read_text(encoding="utf-8"))
    }
    assert readers == ALLOWED.keys()
