"""Power is lost after each system call of a writer: possible disk contents are built from strace's log, and read.

The model is the weakest that POSIX allows: written content is certain only after fsync of the file, and an entry of a
folder (a new file, a rename, a removal) only after fsync of the folder. Before that, each may be there or not, in any
order, and written content wholly, half or not.
"""

import dataclasses
import itertools
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.faults.counts import Counts, quiet
from tests.faults.disk import traced
from tests.faults.disk.every_call import exit_code_of, problem_of, states_of
from tests.faults.disk.writers import Writer

_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (\d+)(?:<.*>)?$")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FOLDER = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>")
_STATES_OF_A_POINT = 64  # of the subsets of unsynced changes; beyond, a random choice
_SHARES = ("nothing", "half", "all")


@dataclasses.dataclass(eq=False)
class _File:
    content: bytearray
    synced: bytes


@dataclasses.dataclass(eq=False)
class _Folder:
    entries: "dict[str, _File | _Folder]"
    synced: "dict[str, _File | _Folder]"
    # Changes since: the entries of one call change together; None is a removal.
    pending: "list[dict[str, _File | _Folder | None]]" = dataclasses.field(default_factory=list)


Tree = dict[str, bytes | None]  # content by path; None is a folder


class Disk:
    """The disk below a folder: its certain state, at first as the writer found it, and unsynced changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = _read(root)
        self._open: dict[int, tuple[_File | _Folder, int]] = {}

    def trees(self, seed: int) -> Iterator[Tree]:
        folders = [folder for folder in _folders(self._top) if folder.pending]
        changes = [(id(folder), number) for folder in folders for number in range(len(folder.pending))]
        subsets: list[tuple[tuple[int, int], ...]]
        if 2 ** len(changes) <= _STATES_OF_A_POINT:
            subsets = [subset for n in range(len(changes) + 1) for subset in itertools.combinations(changes, n)]
        else:
            chance = random.Random(seed)
            subsets = [(), tuple(changes)]
            subsets += [tuple(c for c in changes if chance.random() < 0.5) for _ in range(_STATES_OF_A_POINT)]
        for subset in subsets:
            for share in _SHARES:
                tree: Tree = {}
                _collect(self._top, "", frozenset(subset), share, tree)
                yield tree

    def apply(self, line: str) -> bool:
        """Apply a line of the log; return whether it changed anything or made it certain."""
        match = _CALL.match(line)  # none if it failed, or the process ended
        method = match and getattr(self, f"_{match[1]}", None)
        return bool(match and method and method(match[2], int(match[3])))

    def _locate(self, arguments: str, which: int = 0) -> tuple[_Folder, str] | None:
        """Return the folder of a path among the arguments, and its name there; None outside the root."""
        name = _text(_STRING.findall(arguments)[which])
        within = _FOLDER.findall(arguments)
        path = Path(os.path.normpath(Path(_text(within[min(which, len(within) - 1)]) if within else "/", name)))
        if self._root not in path.parents:
            return None
        folder: _File | _Folder = self._top
        for part in path.relative_to(self._root).parts[:-1]:
            assert isinstance(folder, _Folder)
            folder = folder.entries[part]
        assert isinstance(folder, _Folder)
        return folder, path.name

    def _openat(self, arguments: str, result: int) -> bool:
        self._open.pop(result, None)
        folder_and_name = self._locate(arguments)
        if folder_and_name is None:
            if _text(_STRING.findall(arguments)[0]) == str(self._root):
                self._open[result] = (self._top, 0)
            return False
        folder, name = folder_and_name
        changed = name not in folder.entries
        if changed:
            _change(folder, {name: _File(bytearray(), b"")})
        file = folder.entries[name]
        if isinstance(file, _File) and "O_TRUNC" in arguments:
            changed = changed or bool(file.content)
            file.content = bytearray()
        at = len(file.content) if isinstance(file, _File) and "O_APPEND" in arguments else 0
        self._open[result] = (file, at)
        return changed

    def _close(self, arguments: str, result: int) -> bool:
        self._open.pop(int(arguments.split("<")[0]), None)
        return False

    def _lseek(self, arguments: str, result: int) -> bool:
        number = int(arguments.split("<")[0])
        if number in self._open:
            self._open[number] = (self._open[number][0], result)
        return False

    def _write(self, arguments: str, result: int) -> bool:
        return self._put(arguments, _bytes(_STRING.findall(arguments)[0])[:result])

    def _sendfile(self, arguments: str, result: int) -> bool:
        source = self._open[int(arguments.split(", ")[1].split("<")[0])][0]
        assert isinstance(source, _File)
        offset = int(re.findall(r"\[(\d+)\]", arguments)[0])
        return self._put(arguments, bytes(source.content[offset : offset + result]))

    def _put(self, arguments: str, content: bytes) -> bool:
        number = int(arguments.split("<")[0])
        if number not in self._open:
            return False
        file, at = self._open[number]
        assert isinstance(file, _File)
        file.content[at : at + len(content)] = content
        self._open[number] = (file, at + len(content))
        return True

    def _fsync(self, arguments: str, result: int) -> bool:
        file = self._open.get(int(arguments.split("<")[0]), (None, 0))[0]
        if isinstance(file, _File):
            file.synced = bytes(file.content)
        elif file is not None:
            file.synced = dict(file.entries)
            file.pending = []
        return file is not None

    def _mkdir(self, arguments: str, result: int) -> bool:
        return self._set_entry(arguments, _Folder({}, {}))

    def _unlink(self, arguments: str, result: int) -> bool:
        return self._set_entry(arguments, None)

    def _set_entry(self, arguments: str, entry: "_Folder | None") -> bool:
        if folder_and_name := self._locate(arguments):
            _change(folder_and_name[0], {folder_and_name[1]: entry})
        return folder_and_name is not None

    def _link(self, arguments: str, result: int) -> bool:
        source, target = self._locate(arguments), self._locate(arguments, 1)
        if target is not None:
            assert source is not None
            _change(target[0], {target[1]: source[0].entries[source[1]]})
        return target is not None

    def _rename(self, arguments: str, result: int) -> bool:
        source_location, target_location = self._locate(arguments), self._locate(arguments, 1)
        if source_location is None or target_location is None:
            return False
        (source, old), (target, new) = source_location, target_location
        moved = source.entries[old]
        if source is target:
            _change(source, {old: None, new: moved})
        else:
            _change(target, {new: moved})
            _change(source, {old: None})
        return True

    _fdatasync, _mkdirat, _unlinkat, _rmdir = _fsync, _mkdir, _unlink, _unlink
    _renameat = _renameat2 = _rename

    def _refuse(self, arguments: str, result: int) -> bool:
        raise NotImplementedError(f"the log has a call that is not replayed: {arguments[:100]}")

    def _refuse_if_open(self, arguments: str, result: int) -> bool:
        return int(arguments.split("<")[0]) in self._open and self._refuse(arguments, result)

    _pwrite64 = _ftruncate = _refuse_if_open
    _copy_file_range = _refuse


def _read(folder: Path) -> _Folder:
    entries: dict[str, _File | _Folder] = {}
    for path in folder.iterdir():
        entries[path.name] = _read(path) if path.is_dir() else _File(bytearray(path.read_bytes()), path.read_bytes())
    return _Folder(entries, dict(entries))


def _folders(folder: _Folder) -> Iterator[_Folder]:
    yield folder
    seen = {id(entry): entry for entries in (folder.entries, folder.synced) for entry in entries.values()}
    for entry in seen.values():
        if isinstance(entry, _Folder):
            yield from _folders(entry)


def _change(folder: _Folder, entries: "dict[str, _File | _Folder | None]") -> None:
    folder.pending.append(entries)
    _put_entries(folder.entries, entries)


def _put_entries(entries: "dict[str, _File | _Folder]", changed: "dict[str, _File | _Folder | None]") -> None:
    for name, entry in changed.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


def _collect(folder: _Folder, path: str, changes: frozenset[tuple[int, int]], share: str, tree: Tree) -> None:
    entries = dict(folder.synced)
    for number, changed in enumerate(folder.pending):
        if (id(folder), number) in changes:
            _put_entries(entries, changed)
    for name, entry in entries.items():
        if isinstance(entry, _Folder):
            tree[f"{path}{name}"] = None
            _collect(entry, f"{path}{name}/", changes, share, tree)
        elif share == "nothing" or entry.content == entry.synced:
            tree[f"{path}{name}"] = entry.synced
        else:
            certain = len(entry.synced) if entry.content.startswith(entry.synced) else 0
            more = len(entry.content) - certain
            tree[f"{path}{name}"] = bytes(entry.content[: certain + more // (2 if share == "half" else 1)])


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _text(text: str) -> str:
    return os.fsdecode(_bytes(text)) if "\\x" in text else text


@quiet()
def lose_power_everywhere(writer: Writer, folder: Path) -> Counts:
    """Lose power after each system call of a writer, and after its end, in an empty folder."""
    counts, work, scratch = Counts(), folder / "work", folder / "scratch"
    old, new = states_of(writer, folder / "states")
    for new_folder in (work, scratch):
        new_folder.mkdir()
    writer.prepare(work)
    disk = Disk(work)
    code = traced.run(lambda: exit_code_of(writer, work), scratch, hexadecimal=True)
    assert code == 0, (scratch / "said.txt").read_text()
    for tree, returned in _trees(disk, (scratch / "strace.log").read_text().splitlines()):
        _lay(tree, work)
        problem = problem_of(writer, work, (new,) if returned else (old, new), new)
        when = "after it returned" if returned else "within"
        counts.add(True, f"{writer.name}, power lost {when}, {sorted(tree)} left: {problem}" if problem else "")
    return counts


def _trees(disk: Disk, lines: list[str]) -> list[tuple[Tree, bool]]:
    """Return the possible disks after each call, and separately after the last; each once."""
    trees: dict[tuple[bool, frozenset[tuple[str, bytes | None]]], Tree] = {}
    for number, line in enumerate(lines):
        if disk.apply(line):
            for tree in disk.trees(number):
                trees.setdefault((False, frozenset(tree.items())), tree)
    for tree in disk.trees(len(lines)):
        trees.setdefault((True, frozenset(tree.items())), tree)
    return [(tree, returned) for (returned, _), tree in trees.items()]


def _lay(tree: Tree, folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for path, content in sorted(tree.items()):
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
