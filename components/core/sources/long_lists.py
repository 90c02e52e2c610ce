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

_HELD = 10_000  # items in memory
_AT_ONCE = 200  # items written and read together
_MERGED_AT_ONCE = 50  # runs, each of which has a file open and some items in memory

Item = TypeVar("Item")
Make = Callable[[Iterable[Any]], Item]


class LongList(Generic[Item]):
    """Items in the order given, to be iterated as often as wanted.

    Args:
        items: What it holds; whatever pickle takes.
        make: Makes an item of a tuple. With it items are written as plain tuples, which takes a fifth of the time that
            pickle needs for those with names.

    Raises:
        OSError: The temporary file cannot be written.
    """

    def __init__(self, items: Iterable[Item] = (), make: Make[Item] | None = None) -> None:
        self._make = make
        self._file: BinaryIO | None = None
        self._bytes = self._written = 0
        self._held: list[Item] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """Adds one at the end."""
        self._held.append(item)
        if len(self._held) == _HELD:
            self._write()

    def __len__(self) -> int:
        return self._written + len(self._held)

    def __iter__(self) -> Iterator[Item]:
        place = 0
        while place < self._bytes:
            file = cast(BinaryIO, self._file)
            file.seek(place)  # where this reader was: there may be others
            some = pickle.load(file)  # noqa: S301 - written by this process, to a file without a name
            place = file.tell()
            yield from some if self._make is None else map(self._make, some)
        yield from self._held

    def _write(self) -> None:
        if self._file is None:
            self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        self._file.seek(self._bytes)
        for start in range(0, _HELD, _AT_ONCE):
            some = self._held[start : start + _AT_ONCE]
            plain = some if self._make is None else [tuple(cast(Iterable[Any], item)) for item in some]
            pickle.dump(plain, self._file, pickle.HIGHEST_PROTOCOL)
        self._bytes = self._file.tell()
        self._written += len(self._held)
        self._held.clear()


def in_order(items: Iterable[Item], key: Callable[[Item], Any], make: Make[Item] | None = None) -> Iterator[Item]:
    """Yields the items in the order of a key; those of one key in the order given. All are taken before it returns.

    Runs that fit in memory are sorted by themselves, then merged: as many as have files at once, and then such merged
    ones, so that an item is written once for each power of that number. `make` is as in `LongList`.
    """
    remaining = iter(items)
    levels: list[list[LongList[Item]]] = [[]]  # runs that are as long, the later levels before the earlier
    while run := [*itertools.islice(remaining, _HELD)]:
        run.sort(key=key)
        levels[0].append(LongList(run, make))
        for number, runs in enumerate(levels):
            if len(runs) < _MERGED_AT_ONCE:
                break
            if number + 1 == len(levels):
                levels.append([])
            levels[number + 1].append(LongList(heapq.merge(*runs, key=key), make))
            runs.clear()
    return heapq.merge(*(run for runs in reversed(levels) for run in runs), key=key)


def sorted_list(items: Iterable[Item], key: Callable[[Item], Any]) -> LongList[Item]:
    """The items as `in_order` yields them, to be iterated as often as wanted."""
    return LongList(in_order(items, key))
