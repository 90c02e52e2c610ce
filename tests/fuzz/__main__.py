"""Coverage-guided fuzzing of the readers in tests/fuzz/readers.py.

    python -m tests.fuzz TARGET [seconds]

in the environment of requirements/fuzz.txt; `make fuzz` runs them all. Inputs that reached new code stay below
`build/fuzz`, where the next run begins; inputs that break a target are written there too, and logged.
"""

import re
import sys
from pathlib import Path

import atheris

# JSON is parsed in Python, so that coverage shows progress; the C parser shows none.
for _name in [name for name in sys.modules if name.split(".")[0] == "json"]:
    del sys.modules[_name]
sys.modules["_json"] = None  # type: ignore[assignment]
with atheris.instrument_imports(include=["components", "PIL", "json"]):
    from tests.fuzz.readers import READERS, outcome

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
_SECONDS = 60
_LONGEST = 4096  # bytes


def main() -> None:
    """Fuzz one target for so many seconds, from its seeds and the findings of earlier runs."""
    sys.setrecursionlimit(400)  # so that deep nesting of JSON is reached within the longest input
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in READERS:
        raise SystemExit(f"usage: python -m tests.fuzz {'|'.join(READERS)} [seconds]")
    name, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else _SECONDS
    reader, corpus, now = READERS[name], BUILD / name, BUILD / "now" / name
    for folder in (corpus, now):
        folder.mkdir(parents=True, exist_ok=True)
    words: set[bytes] = set()
    for number, content in enumerate(reader.seeds()):
        (corpus / f"seed-{number}").write_bytes(content)
        words.update(re.findall(rb'"\w+"', content))
    dictionary = BUILD / f"{name}.words"
    dictionary.write_bytes(b"".join(b'"%b"\n' % word.replace(b'"', b'\\"') for word in sorted(words)))
    options = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-artifact_prefix={BUILD}/{name}-", "-timeout=20"]
    options += [f"-dict={dictionary}"] if words else []
    arguments = [sys.argv[0], *options, "-rss_limit_mb=1024", "-print_final_stats=1", str(corpus)]
    atheris.Setup(arguments, lambda content: outcome(reader, now, content))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
