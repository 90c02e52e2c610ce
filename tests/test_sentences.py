"""Every sentence that the code can print, in one file, where reviewers read it as users do.

Other tests compare types, exit codes, settings and values, and quote no sentence. After an intended change: `make
goldens`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

_PROJECT = Path(__file__).parents[1]
_PACKAGES = ("components", "pipeline", "wgan_gp_pipeline")
_SENTENCES = Path(__file__).with_name("sentences.txt")
_WORDS = 4  # fewer are names, formats or parts of a table


def _text(node: ast.expr) -> str | None:
    """Return a string as written, with the expressions of an f-string in braces; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "" for part in parts)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
    return None


def _sentences(node: ast.AST) -> Iterator[str]:
    """Yield the sentences below a node, by line, without docstrings and the help of settings.

    The help stands in the compiled package, which is a golden file of its own.
    """
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant()) | ast.Call(func=ast.Name(id="Setting" | "Unkeyed" | "InputDigest")):
                continue
        text = _text(child) if isinstance(child, ast.expr) else None
        if text is None:
            yield from _sentences(child)
        elif len(text.split()) >= _WORDS:
            yield " ".join(text.split())


def written() -> str:
    """Return the expected content of the file: each module, and its sentences."""
    lines = []
    for path in sorted(path for folder in _PACKAGES for path in (_PROJECT / folder).rglob("*.py")):
        if sentences := list(_sentences(ast.parse(path.read_text()))):
            lines += [f"{path.relative_to(_PROJECT)}:", *(f"  {sentence}" for sentence in sentences), ""]
    return "\n".join(lines)


def test_sentences_are_those_that_a_reviewer_read() -> None:
    assert written() == _SENTENCES.read_text(), "run `make goldens`, and read the difference"


if __name__ == "__main__":
    _SENTENCES.write_text(written())
