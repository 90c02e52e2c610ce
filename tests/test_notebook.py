"""docs/use-the-model.ipynb is the page docs/use-the-model.md as a notebook; `make notebook` writes and runs it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "use-the-model.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_NOT_RUN: dict[str, Any] = {"execution_count": None, "outputs": []}
_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def cells(page: str) -> list[dict[str, Any]]:
    """Return a cell for each block of Python, and for the text between two; nothing has run yet."""
    notebook_cells: list[dict[str, Any]] = []
    for at, part in enumerate(re.split(r"```python\n(.*?)```\n", page, flags=re.DOTALL)):
        if part.strip():
            notebook_cells.append({"cell_type": "code", **_NOT_RUN} if at % 2 else {"cell_type": "markdown"})
            notebook_cells[-1] |= {"id": f"cell-{at}", "metadata": {}, "source": part.strip().splitlines(keepends=True)}
    return notebook_cells


def test_the_notebook_is_its_page() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    notebook_cells = [cell | (_NOT_RUN if cell["cell_type"] == "code" else {}) for cell in notebook["cells"]]
    assert notebook_cells == cells(PAGE.read_text(encoding="utf-8")), "make notebook"


if __name__ == "__main__":
    import nbclient  # only in the environment of `make notebook`
    import nbformat
    from traitlets.config import Config

    content = {"cells": cells(PAGE.read_text(encoding="utf-8")), "metadata": _METADATA}
    notebook = nbformat.reads(json.dumps({**content, "nbformat": 4, "nbformat_minor": 5}), as_version=4)
    no_port = Config(KernelManager={"transport": "ipc"})
    nbclient.NotebookClient(notebook, config=no_port, record_timing=False).execute(cwd=str(PAGE.parents[1]))
    for cell in notebook.cells:
        if cell.cell_type == "code":  # without TensorFlow's log
            cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
    nbformat.write(notebook, sys.argv[1])
