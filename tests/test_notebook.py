"""docs/use-the-model.ipynb is the page docs/use-the-model.md as a notebook; `make notebook` writes it.

The slow tests run the page's code, and so the notebook's.
"""

import ast
import base64
import io
import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

PAGE = Path(__file__).parents[1] / "docs" / "use-the-model.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_NOT_RUN: dict[str, Any] = {"execution_count": None, "outputs": []}
_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def cells(page: str) -> list[dict[str, Any]]:
    """Return a cell for each block of Python, and for the text between two; nothing has run yet."""
    found: list[dict[str, Any]] = []
    for at, part in enumerate(re.split(r"```python\n(.*?)```\n", page, flags=re.DOTALL)):
        if part.strip():
            found.append({"cell_type": "code", **_NOT_RUN} if at % 2 else {"cell_type": "markdown"})
            found[-1] |= {"id": f"cell-{at}", "metadata": {}, "source": part.strip().splitlines(keepends=True)}
    return found


def _run(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell, and return what a notebook shows of its last line: a picture, text, or nothing of a statement."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own page
    if not isinstance(last, ast.Expr):
        return []
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    data = {"text/plain": repr(value)}
    if isinstance(value, Image.Image):
        file = io.BytesIO()
        value.save(file, "PNG")
        data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": "a picture"}
    return [{"output_type": "display_data", "metadata": {}, "data": data}]


def test_the_notebook_is_its_page() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    found = [cell | (_NOT_RUN if cell["cell_type"] == "code" else {}) for cell in notebook["cells"]]
    assert found == cells(PAGE.read_text(encoding="utf-8")), "make notebook"


if __name__ == "__main__":
    made, names = cells(PAGE.read_text(encoding="utf-8")), dict[str, Any]()
    for each in made:
        if each["cell_type"] == "code":
            each["outputs"] = _run("".join(each["source"]), names)
    content = {"cells": made, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    NOTEBOOK.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
