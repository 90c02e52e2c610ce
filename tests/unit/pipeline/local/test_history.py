"""Each run has its own numbered folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.local.history import History


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "history" / "0007").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda seed: History(tmp_path, {"seed": seed}), range(8)))
    assert sorted(each.number for each in found) == list(range(8, 16))
    for seed, each in enumerate(found):
        assert each.folder.name == f"{each.number:04d}"
        assert f'"seed": {seed}' in (each.folder / "parameters.json").read_text()
