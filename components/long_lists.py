"""Lists that may be longer than memory is large: beyond a length they lie in a temporary file, and are read in order.

The file has no name, and so is gone with the process, however that ends.
"""

import heapq
import itertools
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Generic, TypeVar, cast

_HELD = 100_000  # items in memory
_AT_ONCE = 1_000  # items written and read together
_MERGED_AT_ONCE = 50  # runs, each of which has a file open

Item = TypeVar("Item")


class LongList(Generic[Item]):
    """Items in the order given, to be iterated as often as wanted.

    Args:
        items: What it holds; whatever pickle takes.

    Raises:
        OSError: The temporary file cannot be written.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._file: BinaryIO | None = None
        self._places: list[int] = []
        self._held: list[Item] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """Adds one at the end."""
        self._held.append(item)
        if len(self._held) == _HELD:
            self._write()

    def __len__(self) -> int:
        return len(self._places) * _AT_ONCE + len(self._held)

    def __iter__(self) -> Iterator[Item]:
        for place in self._places:
            file = cast(BinaryIO, self._file)
            file.seek(place)
            yield from pickle.load(file)  # noqa: S301 - written by this process, to a file without a name
        yield from self._held

    def _write(self) -> None:
        if self._file is None:
            self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        self._file.seek(0, 2)
        for start in range(0, _HELD, _AT_ONCE):
            self._places.append(self._file.tell())
            pickle.dump(self._held[start : start + _AT_ONCE], self._file, pickle.HIGHEST_PROTOCOL)
        self._held.clear()


def sorted_list(items: Iterable[Item], key: Callable[[Item], Any]) -> LongList[Item]:
    """The items in the order of a key; those of one key in the order given.

    Runs that fit in memory are sorted by themselves, then merged, as many at once as have files.
    """
    remaining = iter(items)
    runs: list[LongList[Item]] = []
    while run := [*itertools.islice(remaining, _HELD)]:
        run.sort(key=key)
        runs.append(LongList(run))
        if len(runs) == _MERGED_AT_ONCE:
            runs = [LongList(heapq.merge(*runs, key=key))]
    return runs[0] if len(runs) == 1 else LongList(heapq.merge(*runs, key=key))
