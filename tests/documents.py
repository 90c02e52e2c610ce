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
    shell_commands = [line.split("  #")[0].strip() for line in lines]
    return [*filter(None, shell_commands), *([shlex.join([sys.executable, "-c", python])] if python else [])]


def mentions(page: Path) -> list[tuple[str, str]]:
    """Return the commands of ours in a text: each program, `wgan` or a module, and its words but for quoted ones."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    matches = re.findall(r"((?:(?<![\w/.-])|(?<=/bin/))wgan|(?<=-m )components [a-z]+) ([a-z-][^`#|;\n]*)", text)
    parts = ((program, *re.split(r"(?<![\w/.-])wgan (?=[a-z-])", words)) for program, words in matches)
    return [(program, re.sub(r"(['\"]).*?\1", "", words)) for program, *several in parts for words in several]
