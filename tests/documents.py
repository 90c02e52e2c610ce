"""The code in documents, to run it as a reader does."""

import re
import shlex
import sys
from pathlib import Path


def commands(page: Path) -> list[str]:
    """Return the commands of a page: each line of its shell blocks, then all its Python as one program."""
    blocks = re.findall(r"```(sh|python)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    lines = [line for language, block in blocks if language == "sh" for line in block.splitlines()]
    python = "\n".join(block for language, block in blocks if language == "python")
    found = [line.split("  #")[0].strip() for line in lines]
    return [*filter(None, found), *([shlex.join([sys.executable, "-c", python])] if python else [])]
